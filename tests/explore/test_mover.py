"""The picture of a module's tree: what each line moves of each module, and how a training step ends then."""

from dataclasses import replace

import pytest
from explore.fitting import faults

import devlab.sim
from devlab import palette
from devlab.explore.controls import Refused
from devlab.explore.pictures import mover
from devlab.explore.pictures.mover import AGAIN, CALLS, DEVICE_LANE, REASONS, RUN, SPECIMENS, move, reason
from devlab.explore.scene import Box, Words

devlab.sim.enable()
SIM = "sim:0"
TO, CAST, LOOP, LOAD, ASSIGN, COPY = CALLS
PLAIN, LISTED, REGISTERED, BUFFERS, OPTIMIZED = SPECIMENS
MOMENTUM = ["momentum_buffer.weight", "momentum_buffer.bias"]
IN_THE_LIST = ["blocks.0.weight", "blocks.0.bias", "blocks.1.weight", "blocks.1.bias", "gains.out"]


@pytest.fixture
def picture():
    """Return the explorer as it opens."""
    return mover.explorer()


def behind(specimen: str, call: str, device: str = SIM) -> list[str]:
    """Return the names of what the line leaves where it was."""
    return [row.name for row in move(specimen, call, device).tensors if not row.moved]


@pytest.mark.parametrize("call", [TO, COPY])
@pytest.mark.parametrize(
    ("specimen", "left"),
    [(PLAIN, ["mean"]), (LISTED, IN_THE_LIST), (REGISTERED, []), (BUFFERS, []), (OPTIMIZED, MOMENTUM)],
)
def test_to_moves_what_is_registered(specimen, left, call):
    """Parameters and buffers, saved or not; a deep copy moves no more than that."""
    assert behind(specimen, call) == left


@pytest.mark.parametrize("call", [CAST, LOOP, LOAD])
@pytest.mark.parametrize("specimen", SPECIMENS)
def test_what_looks_like_a_move_and_is_none(specimen, call):
    """A dtype, results thrown away, numbers loaded from a device: every tensor stays, and the step fails."""
    done = move(specimen, call, SIM)
    assert not any(row.moved for row in done.tensors)
    assert not done.runs
    assert done.trouble.startswith("RuntimeError: Expected all tensors to be on the same device")


def test_assigning_moves_what_is_saved():
    """The table that is in no state_dict stays behind, although it is a buffer."""
    assert behind(BUFFERS, ASSIGN) == ["table"]
    assert behind(PLAIN, ASSIGN) == ["mean"]
    assert behind(REGISTERED, ASSIGN) == []


def test_what_is_saved():
    """As `state_dict` has it, on the same tensors."""
    assert [row.name for row in move(BUFFERS, TO, SIM).tensors if not row.saved] == ["table"]
    assert [row.name for row in move(LISTED, TO, SIM).tensors if row.saved] == ["head.weight", "head.bias"]
    for specimen in SPECIMENS:
        saved = {row.name for row in move(specimen, TO, SIM).tensors if row.saved}
        assert saved == set(SPECIMENS[specimen]()[0].state_dict())


def test_a_dtype_changes_floating_tensors_alone():
    """The count of batches stays a whole number."""
    after = {row.name: row.after for row in move(BUFFERS, CAST, SIM).tensors}
    assert after == {
        "table": ("cpu", "float16"),
        "batches": ("cpu", "int64"),
        "linear.weight": ("cpu", "float16"),
        "linear.bias": ("cpu", "float16"),
    }


@pytest.mark.parametrize(
    ("specimen", "call", "runs"),
    [(PLAIN, TO, False), (LISTED, TO, False), (REGISTERED, TO, True), (BUFFERS, TO, True),
     (BUFFERS, ASSIGN, False), (OPTIMIZED, TO, False), (REGISTERED, COPY, True)],
)  # fmt: skip
def test_a_training_step_tells_whether_anything_is_missing(specimen, call, runs):
    """One tensor left behind is enough to fail, in the model or in its optimizer."""
    done = move(specimen, call, SIM)
    assert (done.runs, bool(done.trouble)) == (runs, not runs)


@pytest.mark.parametrize("call", [ASSIGN, COPY])
def test_an_optimizer_of_other_parameters_trains_nothing(call, picture):
    """No error tells of it: the step runs."""
    done = move(OPTIMIZED, call, SIM)
    assert done.runs
    assert done.trouble.startswith("The optimizer holds the parameters of before")
    happened(picture, module=OPTIMIZED, call=call)
    assert "runs and trains nothing: The optimizer holds" in picture.words


def test_on_the_cpu_nothing_moves_and_everything_runs():
    """Which is why a laptop's tests find none of it."""
    for specimen in SPECIMENS:
        done = move(specimen, TO, "cpu")
        assert not any(row.moved for row in done.tensors)
        assert (done.runs, done.trouble) == (True, "")


def test_a_question_of_placement_is_not_called_measured():
    """On a real device, too: nothing is timed."""
    state = mover.State("cpu")
    assert mover.describe(state).startswith("On the CPU: a table as a plain attribute, made on the CPU;")


def test_the_words_name_what_stayed(picture):
    """By its path in the module."""
    happened(picture)
    assert picture.words.startswith(
        "Simulated: a table as a plain attribute, made on the CPU; then model.to(device)."
    )
    assert "3 of 4 tensors moved to sim:0; mean stayed." in picture.words
    happened(picture, module=LISTED)
    assert (
        "blocks.0.weight, blocks.0.bias, blocks.1.weight, blocks.1.bias and gains.out stayed" in picture.words
    )
    happened(picture, module=REGISTERED)
    assert "stayed" not in picture.words
    assert picture.words.endswith("A training step with a batch on sim:0 then runs.")
    happened(picture, call=CAST)
    assert "None of 7 tensors moved; 7 changed dtype." in picture.words


def test_it_opens_before_anything_has_happened(picture):
    """Neither picture nor words tell what will move, nor how a training step ends."""
    assert "Which of the 4 tensors will move?" in texts(picture)
    assert {box.x for box in boxes(picture).values()} == {mover.CPU_LANE + 5}
    assert not any("training" in text or "stayed" in text or "moved" in text for text in texts(picture))
    assert "You expect it of none." in picture.words
    assert not any("stayed" in words or "fails" in words for words in (picture.words, picture.scene.caption))


def test_a_guess_is_marked_by_a_click_and_taken_away_by_another(picture):
    """The place where the tensor is expected is drawn, and stays an empty place when it does not come."""
    picture.press(boxes(picture)["mean"].asks["press"])
    assert texts(picture).count("your guess") == 1
    assert picture.words.endswith("You expect it of mean.")
    assert "You expect 1 of the 4 tensors" in picture.scene.caption
    picture.press("mark mean")
    assert "your guess" not in texts(picture)
    picture.press("mark mean")
    picture.press(RUN)
    (place,) = [shape for shape in picture.scene.shapes if shape.id == "mean expected"]
    assert place.points[0][0] == DEVICE_LANE + 5
    assert boxes(picture)["mean"].x == mover.CPU_LANE + 5


def test_the_same_boxes_travel_to_the_other_lane(picture):
    """Those that moved; nothing else of them changes but colour and words."""
    before = boxes(picture)
    happened(picture)
    after = boxes(picture)
    assert before.keys() == after.keys()
    assert {name for name in after if after[name].x != before[name].x} == {
        "deviation", "linear.weight", "linear.bias"
    }  # fmt: skip
    assert {name: box.y for name, box in before.items()} == {name: box.y for name, box in after.items()}
    assert all(box.fill.startswith(palette.of("cpu")) for box in before.values())
    assert after["deviation"].fill.startswith(palette.of(SIM))


def test_boxes_keep_their_order_in_front_of_all_that_goes(picture):
    """A shape that must change its place in the page jumps instead of travelling."""
    picture.press("mark deviation")
    before = [shape.id for shape in picture.scene.shapes]
    happened(picture)
    after = [shape.id for shape in picture.scene.shapes]
    gone = [before.index(one) for one in before if one not in after]
    assert [one for one in after if one in boxes(picture)] == [one for one in before if one in boxes(picture)]
    assert gone
    assert max(before.index(one) for one in boxes(picture)) < min(gone)


def test_each_guess_is_compared_by_mark_and_by_word(picture):
    """What was not marked was expected to stay."""
    picture.press("mark linear.weight")
    picture.press("mark mean")
    happened(picture)
    assert marks(picture) == {
        "deviation": "✗ wrong: it moved",
        "linear.weight": "✓ right: it moved",
        "linear.bias": "✗ wrong: it moved",
        "mean": "✗ wrong: it stayed",
    }
    assert picture.scene.caption.startswith(
        "3 of 4 tensors moved to sim:0, and you were right about 1 of 4: mean stayed, because it is not"
    )
    assert "You were wrong about deviation, linear.bias and mean." in picture.words
    picture.press(AGAIN)
    assert marks(picture) == {}
    for name in ("deviation", "linear.weight", "linear.bias"):
        picture.press(f"mark {name}")
    picture.press(RUN)
    assert set(marks(picture).values()) == {"✓ right: it moved", "✓ right: it stayed"}
    assert "All as you expected." in picture.words


def test_a_guess_belongs_to_a_line_and_a_module(picture):
    """Another line is not shown before it is run; what was run once stays so."""
    picture.press("mark mean")
    happened(picture)
    picture.set(call=LOOP)
    assert not picture.state.shown
    assert "Which of the 4 tensors will move?" in texts(picture)
    assert "your guess" not in texts(picture)
    picture.set(module=BUFFERS, call=TO)
    assert not picture.state.shown
    picture.set(module=PLAIN)
    assert marks(picture)["mean"] == "✗ wrong: it stayed"


def test_what_is_over_cannot_be_guessed(picture):
    """Nor can a tensor of another module, nor what was not run be taken back."""
    with pytest.raises(Refused, match="'Guess again' can do nothing"):
        picture.press(AGAIN)
    with pytest.raises(Refused, match=r"'mark gains\.out' can do nothing"):
        picture.press("mark gains.out")
    picture.press(RUN)
    for label in (RUN, "mark mean"):
        with pytest.raises(Refused, match="can do nothing"):
            picture.press(label)


@pytest.mark.parametrize(
    ("specimen", "call", "name", "why"),
    [(PLAIN, TO, "mean", "not registered"), (LISTED, COPY, "gains.out", "not registered"),
     (OPTIMIZED, TO, MOMENTUM[0], "not in the model"), (PLAIN, CAST, "deviation", "no device named"),
     (PLAIN, LOOP, "linear.weight", "its copy is dropped"), (PLAIN, LOOP, "deviation", "not a parameter"),
     (PLAIN, LOOP, "mean", "not registered"), (BUFFERS, LOAD, "batches", "values copied into it"),
     (BUFFERS, LOAD, "table", "not in state_dict"), (BUFFERS, ASSIGN, "table", "not in state_dict")],
)  # fmt: skip
def test_what_stayed_says_why(picture, specimen, call, name, why):
    """In the place to which it did not come, and in a sentence on its box."""
    happened(picture, module=specimen, call=call)
    (note,) = [shape for shape in picture.scene.shapes if shape.id == f"{name} note"]
    assert note.words == why
    assert REASONS[why] in boxes(picture)[name].says


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("specimen", SPECIMENS)
def test_a_reason_is_true_of_the_tensor(picture, specimen, call):
    """No reason stands where the tensor itself says otherwise."""
    state = replace(picture.state, module=specimen, call=call)
    for row in state.move.tensors:
        if not row.moved:
            why = reason(row, state)
            assert (why == "not in the model") <= (row.kind == "optimizer state")
            assert (why == "not registered") <= (row.kind not in ("parameter", "buffer"))
            assert (why == "not a parameter") <= (row.kind == "buffer")
            assert (why == "its copy is dropped") <= (row.kind == "parameter")
            assert (why == "values copied into it") <= row.saved
            assert (why == "not in state_dict") <= (not row.saved)


def test_without_an_accelerator_everything_is_there_already(monkeypatch):
    """The second lane says that there is none."""
    monkeypatch.setattr(mover, "first_accelerator", lambda: "cpu")
    picture = mover.explorer()
    assert "no accelerator here" in texts(picture)
    happened(picture)
    assert texts(picture).count("device is the CPU") == 4
    assert faults(picture.scene) == []


def test_what_stays_while_others_move_has_a_heavy_edge(picture):
    """Where nothing moved, nothing stands out by staying."""
    happened(picture)
    assert {name for name, box in boxes(picture).items() if box.thick > 2} == {"mean"}
    happened(picture, call=LOOP)
    assert not any(box.thick > 2 for box in boxes(picture).values())


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("specimen", SPECIMENS)
def test_every_text_can_be_read_in_every_state(picture, specimen, call):
    """Before and after, with everything marked; the caption is not longer than two lines."""
    picture.set(module=specimen, call=call)
    for name in mover.names(specimen):
        picture.press(f"mark {name}")
    for _ in range(2):
        assert faults(picture.scene) == []
        assert len(picture.scene.caption) <= 190
        assert len(picture.words) <= 700
        if not picture.state.shown:
            picture.press(RUN)


def test_a_long_error_is_cut_to_a_line(picture, monkeypatch):
    """Other devices have other words; the whole of it shows on the line itself."""
    done = replace(move(PLAIN, TO, SIM), trouble="RuntimeError: " + "wording " * 40)
    monkeypatch.setattr(mover, "move", lambda *what: done)
    happened(picture)
    assert faults(picture.scene) == []
    assert " …" in picture.words
    assert any(shape.says == done.trouble for shape in picture.scene.shapes)


def happened(picture, **chosen) -> None:
    """Choose module and line, and run the line if it was not run."""
    picture.set(**chosen)
    if not picture.state.shown:
        picture.press(RUN)


def texts(picture) -> list[str]:
    """Return what is written in the picture."""
    return [shape.words for shape in picture.scene.shapes if isinstance(shape, Words)]


def boxes(picture) -> dict[str, Box]:
    """Return the boxes of the tensors."""
    names = mover.names(picture.state.module)
    return {shape.id: shape for shape in picture.scene.shapes if shape.id in names}


def marks(picture) -> dict[str, str]:
    """Return what is written beside each tensor of the guess about it."""
    return {
        shape.id.removesuffix(" mark"): shape.words
        for shape in picture.scene.shapes
        if shape.id.endswith(" mark")
    }
