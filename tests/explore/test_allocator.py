"""The allocator's picture: its figures against known answers, and what each control does."""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from explore.fitting import faults

import devlab.sim
from devlab.explore import deeds as tale
from devlab.explore.controls import Refused
from devlab.explore.deeds import (
    MIB,
    Allocate,
    Empty,
    Free,
    Ground,
    Piece,
    replay,
)
from devlab.explore.pictures import allocator
from devlab.explore.pictures.allocator import HOLES, POOLS, SCALE, State
from devlab.explore.scene import Box, Words

MIXED = (
    Allocate(MIB // 2),
    Allocate(6 * MIB),
    Allocate(20 * MIB),
    Allocate(3 * MIB),
    Free(("C",)),
    Allocate(12 * MIB),
    Free(("A",)),
    Empty(),
    Allocate(MIB),
)
FULL = (*(Allocate(20 * MIB) for _ in range(3)), Allocate(12 * MIB))


def texts(scene) -> list[str]:
    """Return what is written anywhere in a scene."""
    return [shape.words for shape in scene.shapes if isinstance(shape, Words)]


def boxes(scene) -> dict[str, Box]:
    """Return the boxes of a scene by their ids."""
    return {shape.id: shape for shape in scene.shapes if isinstance(shape, Box)}


def held(scene, name: str) -> dict[tuple[float, float], str]:
    """Return what is said over each place to which the next tensor can be dragged."""
    return {(stop.x, stop.y): stop.says for stop in boxes(scene)[name].stops}


def pressed(*labels: str, **first: object):
    """Return an explorer of an empty device after some buttons."""
    explorer = allocator.explorer()
    explorer.press("Start empty")
    explorer.set(**first)
    for label in labels:
        explorer.press(label)
    return explorer


def test_nine_tensors_of_six_every_second_freed():
    """Three share a segment of 20 MiB; what is free is in six pieces."""
    memory = replay(HOLES)
    assert [name for name, _ in memory.living] == ["B", "D", "F", "H"]
    assert (memory.allocated, memory.reserved, memory.peak) == (24 * MIB, 60 * MIB, 54 * MIB)
    assert sorted(memory.free) == [2 * MIB, 6 * MIB, 6 * MIB, 6 * MIB, 8 * MIB, 8 * MIB]
    assert memory.segments[0].pieces == (Piece(6 * MIB, ""), Piece(6 * MIB, "B"), Piece(8 * MIB, ""))


def test_forty_mib_free_and_no_room_for_twelve():
    """The first press on the first state: out of memory, and the picture says of what."""
    explorer = allocator.explorer()
    assert "36 MiB free in 6 pieces, the longest 8 MiB; not taken: 4 MiB" in explorer.words
    explorer.press("Allocate")
    assert "Out of memory: 12 MiB need one free piece or a new segment of 12 MiB" in explorer.words
    assert (
        "4.00 MiB of the device is free, and 36.00 MiB is reserved by PyTorch but" in explorer.scene.caption
    )
    assert "J, 12 MiB: out of memory" in texts(explorer.scene)
    (said,) = [shape.says for shape in explorer.scene.shapes if shape.id == "next"]
    assert said.startswith("sim out of memory. Tried to allocate 12.00 MiB.")
    assert explorer.state.memory.living == replay(HOLES).living
    explorer.set(size="6 MiB")
    assert "next: J, 6 MiB in one piece" in texts(explorer.scene)  # which was not refused
    explorer.press("Allocate")
    assert "J, 6 MiB, went into the shortest free piece that is long enough, of 6 MiB;" in explorer.words
    assert explorer.state.memory.reserved == 60 * MIB


def test_a_new_segment_is_taken_where_no_piece_is_long_enough():
    """A small one of 2 MiB, a large one of 20, one made to measure."""
    for size, segment in (("512 KiB", 2), ("1 MiB", 2), ("3 MiB", 20), ("6 MiB", 20), ("12 MiB", 12)):
        explorer = pressed("Allocate", size=size)
        assert f"a new segment of {segment} MiB was taken" in explorer.words, size


def test_small_tensors_have_segments_of_their_own():
    """Whatever is free in the others, and the picture says so before and after."""
    explorer = allocator.explorer()
    explorer.set(size="1 MiB")
    over = held(explorer.scene, "J").values()
    assert f"8 MiB free here, 1 MiB needed, but {POOLS}" in over
    assert "4 MiB not taken, 2 MiB needed for a new segment, which is taken" in over
    explorer.press("Allocate")
    assert explorer.scene.caption == f"J, 1 MiB: {POOLS}, so a new segment of 2 MiB was taken."
    full = (*HOLES, *(Allocate(MIB) for _ in range(4)))
    words = allocator.describe(State((*full, Allocate(MIB))))
    assert f"Out of memory: {POOLS}, but 0 bytes of the device is free, and 36.00 MiB is" in words


def test_emptying_gives_back_whole_segments_alone():
    """With every second tensor alive, nothing; with all of them gone, everything."""
    explorer = pressed(*["Allocate"] * 4, "Free A", "Free C", "Empty the cache", size="6 MiB")
    assert explorer.state.memory.reserved == 40 * MIB
    assert "nothing given back" in explorer.words
    explorer.press("Free B")
    explorer.press("Free D")
    explorer.press("Empty the cache")
    assert explorer.state.memory.reserved == 0
    assert "40 MiB given back" in explorer.words


def test_the_cache_is_emptied_before_a_request_fails():
    """Two cached segments of 12 MiB go, so that one of 20 fits."""
    story = (*(Allocate(12 * MIB) for _ in range(5)), Free(("A", "B")))
    state = State(story, 20 * MIB)
    assert "PyTorch empties its cache first" in boxes(allocator.draw(state))["untaken"].says
    memory = replay((*story, Allocate(20 * MIB)))
    assert (memory.retried, memory.refusal, memory.reserved) == (True, "", 56 * MIB)
    assert "PyTorch emptied its cache" in allocator.describe(
        replace(state, deeds=(*story, Allocate(20 * MIB)))
    )


def test_a_click_on_a_tensor_frees_it():
    """What was beside it is one piece with it, drawn to the scale of all."""
    explorer = allocator.explorer()
    tensor = boxes(explorer.scene)["B"]
    assert tensor.wide == 6 * MIB * SCALE
    before = boxes(explorer.scene)["segment 1 at 0"]
    explorer.press(tensor.asks["press"])
    assert "B" not in boxes(explorer.scene)
    after = boxes(explorer.scene)["segment 1 at 0"]
    assert (before.x, before.wide, after.wide) == (after.x, 6 * MIB * SCALE, 20 * MIB * SCALE)
    assert "B is freed, and the memory stays reserved, with 42 MiB free in 5 pieces" in explorer.scene.caption
    with pytest.raises(Refused, match="can do nothing"):
        explorer.press("Free B")


def test_the_next_tensor_is_held_over_every_gap():
    """There stands whether it fits, and for each what the allocator then does; at its own place, nothing."""
    explorer = allocator.explorer()
    waits = boxes(explorer.scene)["J"]
    assert (waits.wide, waits.hatched, waits.carried) == (12 * MIB * SCALE, True, True)
    first, *others = waits.stops
    assert (first.x, first.y, first.asks) == (waits.x + waits.wide / 2, waits.y + waits.high / 2, None)
    assert all(stop.asks == waits.asks for stop in others)
    assert [stop.says for stop in others] == [
        *(f"{free} MiB free here, 12 MiB needed" for free in (6, 8, 6, 2, 6, 8)),
        "4 MiB not taken, 12 MiB needed for a new segment",
    ]
    explorer.set(size="6 MiB")
    over = [stop.says for stop in boxes(explorer.scene)["J"].stops]
    six, eight = "6 MiB free here, 6 MiB needed: it fits", "8 MiB free here, 6 MiB needed: it fits"
    assert over[1:4] == [
        f"{six}, and goes here",
        f"{eight}, but goes into the shortest piece that is long enough, of 6 MiB",
        f"{six}, but goes into a piece as long whose address is lower",
    ]
    assert over[-1] == "4 MiB not taken; a free piece is long enough, so nothing is taken"
    explorer.press("Allocate")
    assert explorer.state.memory.place_of("J") == (1, 0)


def test_a_full_segment_says_so():
    """There is nothing to hold the next tensor over but the segment itself."""
    explorer = pressed("Allocate", size="20 MiB")
    assert "nothing is free in segment 1" in held(explorer.scene, "B").values()


def test_a_tensor_moves_from_where_it_waited():
    """It waits under the name that it gets."""
    explorer = pressed("Allocate", size="6 MiB")
    before = boxes(explorer.scene)
    explorer.press("Allocate")
    after = boxes(explorer.scene)
    assert before["B"].hatched
    assert not after["B"].hatched
    assert after["B"].y > before["B"].y
    assert list(after)[-3:] == ["A", "B", "C"]
    explorer.press("Free A")
    assert list(boxes(explorer.scene))[-2:] == ["B", "C"]


def test_a_segment_keeps_its_place_until_it_is_given_back():
    """As memory does; the segments after it do not move up."""
    explorer = pressed(*["Allocate"] * 3, size="12 MiB")
    before = boxes(explorer.scene)
    for label in ("Free A", "Empty the cache"):
        explorer.press(label)
    after = boxes(explorer.scene)
    assert "segment 1" not in after
    for name in ("segment 2", "segment 3", "B", "C"):
        assert (after[name].x, after[name].y) == (before[name].x, before[name].y), name
    explorer.press("Allocate")
    assert boxes(explorer.scene)["D"].y == before["A"].y
    assert boxes(explorer.scene)["segment 4"].x == 0


def test_no_shape_changes_its_place_among_the_others():
    """A page that must put a shape elsewhere among its elements cannot let it move there."""
    explorer = allocator.explorer()
    story = ["Free B", "Allocate", "Free D", "Empty the cache", "Allocate", "Undo", "Free J", "Start empty"]
    for label in story:
        before = [shape.id for shape in explorer.scene.shapes]
        explorer.press(label)
        after = [shape.id for shape in explorer.scene.shapes]
        kept = [name for name in before if name in after]
        assert kept == [name for name in after if name in before], label


def test_segments_are_laid_out_anew_where_the_lines_are_too_few():
    """Otherwise they would run out of the picture; none lies over another."""
    ground, small, large = Ground(), 2 * MIB, 20 * MIB

    first = [[(number, small)] for number in range(32)]
    ground.follow(first)
    left = [first[number] for number in (5, 16, 27)]
    places = ground.follow([*left, *([(address, large)] for address in (100, 200, 300))])
    assert {line for _, line, _ in places} == {0, 1, 2}
    sizes = [small] * 3 + [large] * 3
    for line in range(3):
        there = [
            (start, start + size) for (_, own, start), size in zip(places, sizes, strict=True) if own == line
        ]
        assert all(end < begin for (_, end), (begin, _) in pairwise(sorted(there)))
        assert max(there)[1] <= tale.LINE


def test_the_story_so_far_is_written_as_statements():
    """Equal ones together, and the newest last."""
    explorer = allocator.explorer()
    explorer.press("Allocate")
    explorer.press("Free B")
    explorer.press("Allocate")
    story = ["A…I = empty(6 MiB)", "del A, C, E, G, I", "empty(12 MiB) fails", "del B", "J = empty(12 MiB)"]
    assert [words for words in texts(explorer.scene) if words in story] == story
    assert "the story so far" in texts(explorer.scene)
    for _ in range(2):
        explorer.press("Empty the cache")
        explorer.press(f"Free {explorer.state.memory.living[-1][0]}")
        explorer.press("Allocate")
    assert "the last 6 of 11 lines" in texts(explorer.scene)
    assert story[0] not in texts(explorer.scene)


def test_undo_goes_back_one_deed_and_start_empty_to_none():
    """The picture is a story, which can be taken back."""
    explorer = allocator.explorer()
    before = explorer.state
    explorer.press("Empty the cache")
    explorer.press("Undo")
    assert explorer.state.past == before.past
    assert explorer.state.memory == before.memory
    explorer.press("Start empty")
    assert explorer.state.memory.reserved == 0
    with pytest.raises(Refused, match="can do nothing"):
        explorer.press("Undo")


def test_the_story_has_an_axis_of_time_on_which_the_moment_is_dragged():
    """Allocated and reserved after each step, on the device's scale; a new step forgets what came later."""
    explorer = allocator.explorer()
    drawn = {shape.id: shape for shape in explorer.scene.shapes}
    heights = [y for _, y in drawn["allocated in time"].points][:-2:2]
    unit = (allocator.LOW - allocator.PEAK) / 64
    amounts = [*range(0, 60, 6), 24]  # MiB
    assert [(allocator.LOW - y) / unit for y in heights] == pytest.approx(amounts, abs=0.2)
    moment = drawn["moment"]
    assert moment.stops[3].says == "after 3 steps: 18 MiB allocated, 20 MiB reserved"
    explorer.set(**moment.stops[3].asks["set"])
    assert [name for name, _ in explorer.state.memory.living] == ["A", "B", "C"]
    assert "3 of 10" in texts(explorer.scene)
    explorer.set(told=10)
    assert explorer.state.memory == allocator.State().memory
    explorer.set(told=3)
    explorer.press("Empty the cache")
    assert len(explorer.state.deeds) == 4


def test_sixteen_tensors_are_the_most():
    """There is a letter for each."""
    explorer = pressed(*["Allocate"] * 16, size="512 KiB")
    assert len(explorer.state.memory.living) == 16
    assert "There is no letter for more than 16 tensors: click a tensor to free it." in texts(explorer.scene)
    with pytest.raises(Refused, match="can do nothing"):
        explorer.press("Allocate")


@pytest.mark.usefixtures("empty_memory")
def test_playing_leaves_the_learners_figures_alone():
    """Under the model nothing is allocated on the device that a lesson uses."""
    before = torch.sim.memory_stats()
    replay.cache_clear()
    explorer = pressed("Allocate", "Free A", "Empty the cache", "Allocate")
    explorer.html()
    assert torch.sim.memory_stats() == before


def test_a_gpu_gets_the_same_small_memory(monkeypatch):
    """Lesson 08 asks whether J fits: in a GPU's own memory it always would."""
    monkeypatch.setenv("DEVLAB_DEVICE", "")
    with devlab.pretend("NVIDIA H200"):
        explorer = allocator.explorer()
        explorer.press("Allocate")
    assert explorer.words.startswith("Simulated, a device of 64 MiB")
    assert "J, 12 MiB: out of memory" in texts(explorer.scene)


def test_every_text_can_be_read_when_the_device_is_full():
    """Small segments side by side, many large ones, a refused request of each size."""
    first = allocator.explorer().state
    for size in allocator.SIZES.values():
        explorer = pressed(size=size)
        while not explorer.state.memory.refusal and len(explorer.state.memory.living) < 16:
            explorer.press("Allocate")
        assert faults(explorer.scene) == [], size
        assert faults(allocator.draw(replace(first, deeds=(*MIXED, *FULL, Allocate(size)), size=size))) == []
