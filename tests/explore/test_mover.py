"""The picture of a module's tree: what each line moves of each module, and how a training step ends then."""

from dataclasses import replace

import pytest
from explore.fitting import faults
from matplotlib.colors import to_rgba

import devlab.sim
from devlab import palette
from devlab.explore.pictures import mover
from devlab.explore.pictures.mover import CALLS, SPECIMENS, move

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
    picture.set(module=OPTIMIZED, call=call)
    assert "runs and trains nothing: The optimizer holds" in picture.words


def test_on_the_cpu_nothing_moves_and_everything_runs():
    """Which is why a laptop's tests find none of it."""
    for specimen in SPECIMENS:
        done = move(specimen, TO, "cpu")
        assert not any(row.moved for row in done.tensors)
        assert (done.runs, done.trouble) == (True, "")


def test_the_words_name_what_stayed(picture):
    """By its path in the module."""
    assert picture.words.startswith(
        "Simulated: a table as a plain attribute, made on the CPU; then model.to(device)."
    )
    assert "3 of 4 tensors moved to sim:0; mean stayed." in picture.words
    picture.set(module=LISTED)
    assert (
        "blocks.0.weight, blocks.0.bias, blocks.1.weight, blocks.1.bias and gains.out stayed" in picture.words
    )
    picture.set(module=REGISTERED)
    assert "stayed" not in picture.words
    assert picture.words.endswith("A training step with a batch on sim:0 then runs.")
    picture.set(call=CAST)
    assert "None of 7 tensors moved; 7 changed dtype." in picture.words


def test_the_outcome_can_be_hidden(picture):
    """For a prediction: neither picture nor words tell it."""
    picture.set(shown=False)
    assert "Which of the 4 tensors will move?" in texts(picture)
    assert texts(picture).count("?") == 4
    assert "stays" not in texts(picture)
    assert not any("sim:0" in text or "training" in text for text in texts(picture))
    assert "stayed" not in picture.words
    picture.set(shown=True)
    assert texts(picture).count("stays") == 1
    assert texts(picture).count("sim:0 float32") == 3


def test_a_place_has_its_devices_colour_and_what_stays_a_heavy_edge(picture):
    """Row by row: before on the left, after on the right of it."""
    (chips,) = picture.figure.axes[0].collections
    cpu, sim = (to_rgba(palette.of(device), 0.3) for device in ("cpu", SIM))
    assert [tuple(face) for face in chips.get_facecolor()] == [cpu, sim, cpu, sim, cpu, sim, cpu, cpu]
    assert [width > 1 for width in chips.get_linewidth()] == [False] * 7 + [True]
    picture.set(call=LOOP)
    (chips,) = picture.figure.axes[0].collections
    assert {tuple(face) for face in chips.get_facecolor()} == {cpu}
    assert max(chips.get_linewidth()) == 1  # nothing moved, so nothing stands out by staying


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("specimen", SPECIMENS)
def test_every_text_can_be_read_in_every_state(picture, specimen, call):
    """Shown; what is hidden takes less room."""
    assert faults(picture.draw(replace(picture.state, module=specimen, call=call))) == []


def test_a_long_error_is_cut_to_a_line(picture, monkeypatch):
    """Other devices have other words."""
    done = replace(move(PLAIN, TO, SIM), trouble="RuntimeError: " + "wording " * 40)
    monkeypatch.setattr(mover, "move", lambda *what: done)
    assert faults(picture.figure) == []
    assert " …" in picture.words


def texts(picture) -> list[str]:
    """Return what is written in the picture."""
    return [text.get_text() for text in picture.figure.axes[0].texts]
