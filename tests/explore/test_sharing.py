"""The picture of two names: which lines share, what a write shows, what a deletion gives back."""

from dataclasses import replace

import pytest
from explore.fitting import faults
from matplotlib.colors import to_hex

import devlab.sim
from devlab import palette
from devlab.explore.controls import Refused
from devlab.explore.pictures import sharing
from devlab.explore.pictures.sharing import STARTS, Scene, scene

devlab.sim.enable()
CPU, DEVICE, ARRAY = STARTS
SIM = "sim:0"
UNTOUCHED = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0)


@pytest.fixture
def picture():
    """Return the explorer as it opens."""
    return sharing.explorer()


@pytest.mark.parametrize(
    ("start", "made"),
    [
        (CPU, "x[:, 1:]"),
        (CPU, "x.T"),
        (CPU, "x.reshape(6)"),
        (CPU, "x[:1].expand(2, 3)"),
        (CPU, "x.detach()"),
        (CPU, "x.numpy()"),
        (CPU, "np.asarray(x)"),
        (DEVICE, "x[:, 1:]"),
        (DEVICE, "x.detach()"),
        (ARRAY, "x.T"),
        (ARRAY, "torch.from_numpy(x)"),
        (ARRAY, "torch.as_tensor(x)"),
    ],
)
def test_what_shares_is_one_memory(start, made):
    """One storage of six float32, two names, and the write is in it once."""
    held = scene(start, made, "y", 0, False, SIM)
    assert (held.shared, held.same, held.bytes, len(held.memories)) == (True, False, 24, 1)
    assert held.memories[0].values.count(9.0) == 1


@pytest.mark.parametrize(
    ("start", "made"),
    [
        (CPU, "x"),
        (CPU, 'x.to("cpu")'),
        (CPU, "x.float()"),
        (DEVICE, "x.to(device)"),
        (ARRAY, "np.asarray(x)"),
    ],
)
def test_what_is_x_itself_is_said_to_be(start, made):
    """`.to` what is there already returns the same tensor."""
    held = scene(start, made, "", 0, False, SIM)
    assert held.same
    assert held.bytes == 24


@pytest.mark.parametrize(
    ("start", "made", "took"),
    [
        (CPU, "x.T.reshape(6)", 24),
        (CPU, "x[[0]]", 12),
        (CPU, "x + 0", 24),
        (CPU, "x.clone()", 24),
        (CPU, "x.to(device)", 24),
        (CPU, "x.double()", 48),
        (CPU, "torch.tensor(x)", 24),
        (DEVICE, 'x.to("cpu")', 24),
        (ARRAY, "torch.tensor(x)", 24),
        (ARRAY, "torch.as_tensor(x, dtype=torch.float64)", 48),
        (ARRAY, "x[[0]]", 12),
    ],
)
def test_what_copies_is_two_memories(start, made, took):
    """The write through y leaves x's memory as it was."""
    held = scene(start, made, "y", 0, False, SIM)
    assert (held.shared, held.same) == (False, False)
    assert [memory.bytes for memory in held.memories] == [24, took]
    assert held.memories[0].values == UNTOUCHED
    assert held.memories[1].values[0] == 9.0


def test_windows_are_read_from_addresses():
    """Offset and strides of a cut, a transpose and an expanded row; NumPy's in elements."""
    views = {
        made: scene(CPU, made, "", 0, False, SIM).window("y")
        for made in ("x[:, 1:]", "x.T", "x[:1].expand(2, 3)")
    }
    assert [(one.shape, one.offset, one.strides) for one in views.values()] == [
        ((2, 2), 1, (3, 1)),
        ((3, 2), 0, (1, 3)),
        ((2, 3), 0, (0, 1)),
    ]
    assert [element for _, element in views["x[:, 1:]"].cells] == [1, 2, 4, 5]
    assert [element for _, element in views["x.T"].cells] == [0, 3, 1, 4, 2, 5]
    array = scene(ARRAY, "x[:, 1:]", "", 0, False, SIM).window("y")
    assert (array.offset, array.strides) == (1, (3, 1))


def test_the_element_to_write_counts_in_the_names_own_order():
    """Element 1 of a transpose lies in another row of x; one beyond the last is the last."""
    turned = scene(CPU, "x.T", "y", 1, False, SIM)
    assert turned.wrote == ("y", (0, 1))
    assert turned.memories[0].values == (0.0, 1.0, 2.0, 9.0, 4.0, 5.0)
    assert scene(CPU, "x[:, 1:]", "y", 5, False, SIM).wrote == ("y", (1, 1))


def test_a_view_keeps_the_whole_memory_and_a_copy_gives_it_back(picture):
    """`del x` frees nothing while y looks at any part of it."""
    picture.set(deleted=True)
    assert picture.state.scene.bytes == 24
    assert "all 24 bytes of storage are still held: y keeps them" in picture.words
    picture.set(made="x[[0]]")
    assert picture.state.scene.bytes == 12
    assert "After del x 12 bytes of storage are held" in picture.words


def test_what_cannot_cross_is_told_in_torchs_words(picture):
    """An accelerator's tensor has no array; the picture says so, and y cannot be written."""
    picture.set(start=DEVICE, made="x.numpy()", deleted=False)
    assert "fails: TypeError: can't convert sim:0 device type tensor to numpy." in picture.words
    picture.press("Start again")
    with pytest.raises(Refused, match="can do nothing in this state"):
        picture.press("Write 9 through y")
    picture.set(deleted=True)
    assert picture.state.scene.bytes == 0
    assert faults(picture.figure) == []


def test_the_words_tell_whether_the_other_name_shows_it(picture):
    """Both ways; and a write to what only x sees does not show in a view that leaves it out."""
    assert picture.words.endswith("What was written to y[0, 0] shows in x.")
    picture.press("Write 9 through x")
    assert picture.words.endswith("What was written to x[0, 0] does not show in y.")
    picture.set(cell=5)
    assert picture.words.endswith("What was written to x[1, 2] shows in y.")
    picture.set(made="x.clone()")
    assert picture.words.endswith("What was written to x[1, 2] does not show in y.")
    picture.press("Start again")
    assert "written" not in picture.words


@pytest.mark.parametrize(("made", "told"), [("x[:, 1:]", "showed"), ("x.clone()", "did not show")])
def test_nothing_shows_in_a_name_that_is_deleted(picture, made, told):
    """Once x is gone the words speak of what it showed; y can still be read."""
    picture.set(made=made, deleted=True)
    assert picture.words.endswith(f"What was written to y[0, 0] {told} in x before.")
    picture.press("Write 9 through x")
    assert picture.words.endswith("What was written to x[0, 0] does not show in y.")


def test_the_words_say_simulated_where_a_simulated_device_holds_a_memory(picture):
    """The CPU's memory is a real one on every machine."""
    assert picture.words.startswith("Nothing simulated:")
    picture.set(made="x.to(device)")
    assert picture.words.startswith("Simulated:")


def test_the_picture_shows_both_names_at_the_written_cell(picture):
    """The 9, and the two indices that reach it, stand in bold; an expanded cell has two of y's."""
    assert bold(picture) == {"One memory: 24 B", "9", "x[0, 1]", "y[0, 0]"}
    picture.set(made="x.clone()")
    assert bold(picture) == {"Two memories: 24 B and 24 B", "9", "y[0, 0]"}
    picture.set(made="x[:1].expand(2, 3)")
    assert bold(picture) == {"One memory: 24 B", "9", "x[0, 0]", "y[0, 0]\ny[1, 0]"}


def test_memory_has_its_devices_colour_and_its_width_in_bytes(picture):
    """A float64 is twice as wide as a float32; a memory on a device has the device's colour."""
    picture.set(made="x.double()")
    faces = [one for one in picture.figure.axes[0].collections if one.get_alpha() == 0.3]
    assert [len(one.get_paths()) for one in faces] == [6, 6]
    assert [one.get_paths()[0].get_extents().width for one in faces] == [4, 8]
    picture.set(made="x.to(device)")
    faces = [one for one in picture.figure.axes[0].collections if one.get_alpha() == 0.3]
    assert [to_hex(one.get_facecolor()[0]) for one in faces] == [palette.HOST, palette.of(SIM)]


@pytest.mark.parametrize("made", ["x.double()", "x[:1].expand(2, 3)", "torch.from_numpy(x)", "x.to(device)"])
@pytest.mark.parametrize("start", [CPU, DEVICE, ARRAY])
def test_every_text_can_be_read_in_far_states(picture, start, made):
    """Two changes and more away from the first state."""
    for through, deleted in (("x", False), ("y", True), ("", True)):
        state = replace(picture.state, start=start, made=made, through=through, cell=5, deleted=deleted)
        assert faults(picture.draw(state)) == [], state


def test_a_long_error_is_cut_to_a_line(picture, monkeypatch):
    """Other devices have other words."""
    failed = Scene(("x = 1", "y = 2"), error="RuntimeError: " + "word " * 60)
    monkeypatch.setattr(sharing, "scene", lambda *program: failed)
    assert faults(picture.figure) == []
    assert " …" in picture.words


def test_without_an_accelerator_there_is_no_tensor_on_one(monkeypatch):
    """The choice would be the same as the CPU's."""
    monkeypatch.setattr(sharing, "first_accelerator", lambda: "cpu")
    picture = sharing.explorer()
    with pytest.raises(Refused, match="start cannot be 'a tensor on the device'"):
        picture.set(start=DEVICE)
    picture.set(made="x.to(device)")
    assert "is x itself" in picture.words


def bold(picture) -> set[str]:
    """Return the texts of the picture that are in bold."""
    texts = picture.figure.axes[0].texts
    return {text.get_text() for text in texts if text.get_fontweight() == "bold"}
