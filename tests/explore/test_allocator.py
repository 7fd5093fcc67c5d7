"""The allocator's picture: its figures against known answers, and what each control does."""

from dataclasses import replace

import pytest
import torch

import devlab.sim
from devlab.explore.controls import Refused
from devlab.explore.pictures import allocator
from devlab.explore.pictures.allocator import (
    EVERY_SECOND,
    HOLES,
    MIB,
    NEWEST,
    OLDEST,
    STRANGER,
    Allocate,
    Empty,
    Free,
    Modelled,
    Piece,
    Real,
    State,
    replay,
    tell,
)

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


def texts(figure) -> list[str]:
    """Return what is written anywhere in a figure."""
    from matplotlib.text import Text

    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


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
    memory = replay(HOLES, "sim:0")
    assert [name for name, _ in memory.living] == ["B", "D", "F", "H"]
    assert (memory.allocated, memory.reserved, memory.peak) == (24 * MIB, 60 * MIB, 54 * MIB)
    assert sorted(memory.free) == [2 * MIB, 6 * MIB, 6 * MIB, 6 * MIB, 8 * MIB, 8 * MIB]
    assert memory.segments[0] == (Piece(6 * MIB, ""), Piece(6 * MIB, "B"), Piece(8 * MIB, ""))


def test_forty_mib_free_and_no_room_for_twelve():
    """The first press on the first state: out of memory, and the picture says of what."""
    explorer = allocator.explorer()
    assert "free: 36 MiB in 6 pieces, the longest 8 MiB; never taken: 4 MiB" in explorer.words
    explorer.press("Allocate")
    assert "out of memory: 12 MiB need one free piece, or a new segment of 12 MiB" in explorer.words
    assert "12 MiB: out of memory" in texts(explorer.figure)
    assert explorer.state.memory.living == replay(HOLES, "sim:0").living
    explorer.set(size="6 MiB")
    assert "6 MiB" in texts(explorer.figure)  # which was not refused
    explorer.press("Allocate")
    assert "6 MiB went into a free piece; nothing was taken" in explorer.words
    assert explorer.state.memory.reserved == 60 * MIB


def test_a_new_segment_is_taken_where_no_piece_is_long_enough():
    """A small one of 2 MiB, a large one of 20, one made to measure."""
    for size, segment in (("512 KiB", 2), ("1 MiB", 2), ("3 MiB", 20), ("6 MiB", 20), ("12 MiB", 12)):
        explorer = pressed("Allocate", size=size)
        assert f"a new segment of {segment} MiB was taken" in explorer.words, size


def test_emptying_gives_back_whole_segments_alone():
    """With every second tensor alive, nothing; with all of them gone, everything."""
    explorer = pressed(*["Allocate"] * 4, "Free", "Empty the cache", size="6 MiB", which=EVERY_SECOND)
    assert explorer.state.memory.reserved == 40 * MIB
    assert "nothing given back" in explorer.words
    for _ in range(2):
        explorer.press("Free")
    explorer.press("Empty the cache")
    assert explorer.state.memory.reserved == 0
    assert "40 MiB given back" in explorer.words


def test_the_cache_is_emptied_before_a_request_fails():
    """Two cached segments of 12 MiB go, so that one of 20 fits."""
    story = (*(Allocate(12 * MIB) for _ in range(5)), Free(("A", "B")), Allocate(20 * MIB))
    memory = replay(story, "sim:0")
    assert (memory.retried, memory.refused, memory.reserved) == (True, False, 56 * MIB)
    assert "PyTorch emptied its cache" in allocator.describe(State("sim:0", story))


def test_the_oldest_the_newest_every_second_or_one_by_its_name():
    """What is to be freed is named, and drawn with a thick edge."""
    explorer = pressed(*["Allocate"] * 3)
    widths = []
    for which, names in (
        (OLDEST, ("A",)),
        (NEWEST, ("C",)),
        (EVERY_SECOND, ("A", "C")),
        ("B", ("B",)),
        ("P", ()),
    ):
        explorer.set(which=which)
        assert explorer.state.chosen == names
        assert f"to free next, {which}: {', '.join(names) or 'nothing'}." in explorer.words
        edges = [one.get_linewidth()[0] for one in explorer.figure.axes[1].collections]
        widths.append(edges.count(3))
    assert widths == [1, 1, 2, 1, 0]
    with pytest.raises(Refused, match="can do nothing"):
        explorer.press("Free")
    explorer.set(which="B")
    explorer.press("Free")
    explorer.press("Allocate")  # gets the name that is free again, and is now the newest
    explorer.set(which=NEWEST)
    assert explorer.state.chosen == ("B",)


def test_undo_goes_back_one_deed_and_start_empty_to_none():
    """The picture is a story, which can be taken back."""
    explorer = allocator.explorer()
    before = explorer.state
    explorer.press("Empty the cache")
    explorer.press("Undo")
    assert explorer.state == before
    explorer.press("Start empty")
    assert explorer.state.memory.reserved == 0
    with pytest.raises(Refused, match="can do nothing"):
        explorer.press("Undo")


def test_sixteen_tensors_are_the_most():
    """There is a letter for each."""
    explorer = pressed(*["Allocate"] * 16, size="512 KiB")
    assert len(explorer.state.memory.living) == 16
    with pytest.raises(Refused, match="can do nothing"):
        explorer.press("Allocate")


@pytest.fixture
def small_device(empty_memory):
    """Make sim:0 as small as the model."""
    devlab.sim.accounts.set_capacity(allocator.CAPACITY, "sim:0")


@pytest.mark.parametrize("story", [HOLES, (*HOLES, Allocate(12 * MIB)), MIXED, FULL, ()])
@pytest.mark.usefixtures("small_device")
def test_the_device_itself_tells_the_same(story):
    """The way of a real device, walked on the simulated one: real tensors and its own snapshot."""
    assert tell(story, Real("sim:0")) == tell(story, Modelled())
    assert (torch.sim.memory_allocated(), torch.sim.memory_reserved()) == (0, 0)


@pytest.mark.usefixtures("small_device")
def test_what_others_have_is_shown_and_not_counted():
    """A learner's own tensor stays where it is, in a segment that the story shares."""
    own = torch.ones(6 * MIB // 4, device="sim:0")
    memory = tell((Allocate(6 * MIB), Allocate(12 * MIB)), Real("sim:0"))
    assert memory.segments == (
        (Piece(6 * MIB, STRANGER), Piece(6 * MIB, "A"), Piece(8 * MIB, "")),
        (Piece(12 * MIB, "B"),),
    )
    assert (memory.allocated, memory.reserved, memory.peak) == (18 * MIB, 12 * MIB, 18 * MIB)
    assert torch.sim.memory_allocated() == own.nbytes


@pytest.mark.usefixtures("small_device")
def test_playing_leaves_the_learners_figures_alone():
    """Under the model nothing is allocated on the device that a lesson uses."""
    before = torch.sim.memory_stats()
    replay.cache_clear()
    explorer = pressed("Allocate", "Free", "Empty the cache", "Allocate")
    explorer.html()
    assert torch.sim.memory_stats() == before


def test_a_device_that_keeps_no_books_gets_the_model(monkeypatch):
    """Neither the CPU nor Apple's GPUs tell of their segments."""
    for name in ("cpu", "mps:0"):
        monkeypatch.setattr(allocator, "first_accelerator", lambda name=name: name)
        assert allocator.explorer().words.startswith("Simulated, a device of 64 MiB")


def test_every_text_can_be_read_when_the_device_is_full():
    """Small segments side by side, many large ones, a refused request of each size."""
    from explore.fitting import faults

    first = allocator.explorer().state
    for size in allocator.SIZES.values():
        explorer = pressed(size=size)
        while not explorer.state.memory.refused and len(explorer.state.memory.living) < 16:
            explorer.press("Allocate")
        assert faults(explorer.figure) == [], size
        assert faults(allocator.draw(replace(first, deeds=(*MIXED, *FULL, Allocate(size)), size=size))) == []
