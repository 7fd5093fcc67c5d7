"""The picture of two names: which lines share, what a write shows, what a deletion gives back."""

from dataclasses import replace
from itertools import pairwise

import pytest
from explore.fitting import faults

import devlab.sim
from devlab import palette
from devlab.explore.controls import Refused
from devlab.explore.pictures import sharing
from devlab.explore.pictures.sharing import GUESSES, STARTS, Held, run_program
from devlab.explore.scene import Words

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
    held = run_program(start, made, "y", 0, False, SIM)
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
    held = run_program(start, made, "", 0, False, SIM)
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
    held = run_program(start, made, "y", 0, False, SIM)
    assert (held.shared, held.same) == (False, False)
    assert [memory.bytes for memory in held.memories] == [24, took]
    assert held.memories[0].values == UNTOUCHED
    assert held.memories[1].values[0] == 9.0


def test_windows_are_read_from_addresses():
    """Offset and strides of a cut, a transpose and an expanded row; NumPy's in elements."""
    views = {
        made: run_program(CPU, made, "", 0, False, SIM).window("y")
        for made in ("x[:, 1:]", "x.T", "x[:1].expand(2, 3)")
    }
    assert [(one.shape, one.offset, one.strides) for one in views.values()] == [
        ((2, 2), 1, (3, 1)),
        ((3, 2), 0, (1, 3)),
        ((2, 3), 0, (0, 1)),
    ]
    assert [element for _, element in views["x[:, 1:]"].cells] == [1, 2, 4, 5]
    assert [element for _, element in views["x.T"].cells] == [0, 3, 1, 4, 2, 5]
    array = run_program(ARRAY, "x[:, 1:]", "", 0, False, SIM).window("y")
    assert (array.offset, array.strides) == (1, (3, 1))


def test_the_element_to_write_counts_in_the_names_own_order():
    """Element 1 of a transpose lies in another row of x; one beyond the last is the last."""
    turned = run_program(CPU, "x.T", "y", 1, False, SIM)
    assert turned.wrote == ("y", (0, 1))
    assert turned.memories[0].values == (0.0, 1.0, 2.0, 9.0, 4.0, 5.0)
    assert run_program(CPU, "x[:, 1:]", "y", 5, False, SIM).wrote == ("y", (1, 1))


def test_a_view_keeps_the_whole_memory_and_a_copy_gives_it_back(picture):
    """`del x` frees nothing while y looks at any part of it."""
    written(picture, "y", 0)
    picture.set(deleted=True)
    assert picture.state.held.bytes == 24
    assert "all 24 bytes of storage are still held: y keeps them" in picture.words
    assert "all 24 bytes" in picture.scene.caption
    assert not faint(picture, "memory 0 0")
    written(picture, "y", 0, made="x[[0]]")
    assert picture.state.held.bytes == 12
    assert faint(picture, "memory 0 0")
    assert "given back" in texts(picture)
    assert "After del x 12 bytes of storage are held" in picture.words


def test_what_cannot_cross_is_told_in_torchs_words(picture):
    """An accelerator's tensor has no array; the picture says so, and y cannot be written."""
    picture.set(start=DEVICE, made="x.numpy()", deleted=False)
    assert "fails: TypeError: can't convert sim:0 device type tensor to numpy." in picture.words
    for label in ("write y, element 0", GUESSES[True]):
        with pytest.raises(Refused, match="can do nothing in this state"):
            picture.press(label)
    assert faults(picture.scene) == []
    picture.set(deleted=True)
    assert picture.state.held.bytes == 0
    assert faults(picture.scene) == []


def test_it_opens_before_anything_is_written(picture):
    """Neither picture nor words tell whether there is one memory or two."""
    alike = []
    for made in ("x.detach()", "x.clone()"):
        picture.set(made=made)
        scene = picture.scene
        alike.append(
            (
                [shape for shape in scene.shapes if shape.id != "line 1"],
                scene.caption,
                picture.words.replace(made, ""),
            )
        )
        assert [shape.id for shape in scene.shapes if getattr(shape, "hatched", False)]
    assert alike[0] == alike[1]
    assert "one memory, or two?" in texts(picture)
    assert scene.seconds == 0
    picture.set(deleted=True)
    assert picture.words.endswith("After the write x is deleted.")
    assert picture.scene.caption.endswith("and then x is deleted.")
    assert "held" not in picture.words


def test_the_words_tell_whether_the_other_name_shows_it(picture):
    """Both ways; and a write to what only x sees does not show in a view that leaves it out."""
    written(picture, "y", 0)
    assert picture.words.endswith("What was written to y[0, 0] shows in x.")
    assert picture.scene.caption == "The 9 in y[0, 0] shows in x, because both names look at one memory."
    written(picture, "x", 0)
    assert picture.words.endswith("What was written to x[0, 0] does not show in y.")
    assert "but y leaves x[0, 0] out" in picture.scene.caption
    written(picture, "x", 5)
    assert picture.words.endswith("What was written to x[1, 2] shows in y.")
    written(picture, "x", 5, made="x.clone()")
    assert picture.words.endswith("What was written to x[1, 2] does not show in y.")
    assert picture.scene.caption.endswith("because y has a memory of its own.")
    written(picture, "x", 0, made="x")
    assert picture.scene.caption.endswith("because x and y are one tensor.")
    picture.press("Start again")
    assert "written" not in picture.words


@pytest.mark.parametrize(
    ("made", "answer", "verdict"),
    [("x.T", True, "right"), ("x.T", False, "wrong"), ("x + 0", True, "wrong"), ("x + 0", False, "right")],
)
def test_a_guess_is_marked_and_compared(picture, made, answer, verdict):
    """By mark and word, below the answer that was clicked; the other answer fades."""
    picture.set(made=made)
    (box,) = [shape for shape in picture.scene.shapes if shape.id == GUESSES[answer]]
    picture.press(box.asks["press"])
    assert picture.words.endswith(f"You guess: {GUESSES[answer]}.")
    assert "one memory, or two?" in texts(picture)
    written(picture, "y", 0)
    assert {"right": "✓ right", "wrong": "✗ wrong"}[verdict] in texts(picture)
    assert f"Your guess was {verdict}." in picture.words
    assert picture.scene.caption.startswith(f"You guessed {verdict}: the 9 in y[0, 0]")
    assert faint(picture, GUESSES[not answer])
    assert not faint(picture, GUESSES[answer])
    with pytest.raises(Refused, match="can do nothing"):
        picture.press(GUESSES[not answer])


def test_another_way_of_making_y_is_guessed_anew(picture):
    """What was guessed and written of one is not said of another."""
    picture.press(GUESSES[True])
    written(picture, "y", 0)
    picture.set(made="x.T")
    assert "one memory, or two?" in texts(picture)
    assert not any("right" in text or "wrong" in text for text in texts(picture))
    assert "guess" not in picture.words


def test_every_cell_can_be_written(picture):
    """Of both names, and the words on the cell say so."""
    for made in ("x[:, 1:]", "x[[0]]"):
        picture.set(made=made)
        cells = [shape for shape in picture.scene.shapes if shape.asks and "element" in shape.asks["press"]]
        assert len(cells) == 6 + (4 if made == "x[:, 1:]" else 3)
        for cell in cells:
            assert "click to write 9 here" in cell.says
            picture.press(cell.asks["press"])
            number = int(cell.id.split()[1])
            window = picture.state.held.window(cell.id[0])
            assert picture.state.held.wrote == (cell.id[0], window.cells[number][0])


def test_a_write_goes_to_memory_first_and_from_there_to_the_other_name(picture):
    """In the order in which it happens; each write is played once more."""
    written(picture, "y", 0)
    scene = picture.scene
    comes = {shape.id: shape.during for shape in scene.shapes if shape.during}
    order = ["y 0 written", "y 0 way", "memory 0 1 written", "x 1 way", "x 1 written"]
    assert sorted(comes.keys() & set(order), key=lambda name: comes[name]) == order
    assert scene.seconds > 0
    written(picture, "y", 0)
    assert picture.scene.take == scene.take + 1
    written(picture, "y", 0, made="x.clone()")
    comes = {shape.id for shape in picture.scene.shapes if shape.during}
    assert not any(name.startswith("x") for name in comes)


def test_cells_keep_their_order_in_front_of_all_that_goes(picture):
    """A shape that must change its place in the page loses the focus, and jumps instead of moving."""
    orders = [[shape.id for shape in picture.scene.shapes]]
    for name, number in (("y", 0), ("x", 5), ("x", 0)):
        written(picture, name, number)
        orders.append([shape.id for shape in picture.scene.shapes])
    cells = [shape.id for shape in picture.scene.shapes if shape.asks]
    for before, after in pairwise(orders):
        assert [one for one in after if one in before and one in cells] == cells
        gone = [before.index(one) for one in before if one not in after]
        assert max(map(before.index, cells)) < min(gone)


def test_a_line_leads_from_each_cell_to_its_element(picture):
    """A transposed row lies across: the line of y[0, 1] ends at the fourth element."""
    written(picture, "y", 0, made="x.T")
    shapes = {shape.id: shape for shape in picture.scene.shapes}
    for number, element in enumerate((0, 3, 1, 4, 2, 5)):
        cell = shapes[f"memory 0 {element}"]
        end = cell.x + cell.wide / 2, cell.y + cell.high
        assert shapes[f"y {number} line"].points[1] == pytest.approx(end)


@pytest.mark.parametrize(("made", "told"), [("x[:, 1:]", "showed"), ("x.clone()", "did not show")])
def test_nothing_shows_in_a_name_that_is_deleted(picture, made, told):
    """Once x is gone the words speak of what it showed; y can still be read."""
    written(picture, "y", 0, made=made)
    picture.set(deleted=True)
    assert picture.words.endswith(f"What was written to y[0, 0] {told} in x before.")
    assert faint(picture, "x 0")
    assert not faint(picture, "y 0")
    written(picture, "x", 0)
    assert picture.words.endswith("What was written to x[0, 0] does not show in y.")


def test_the_words_say_simulated_where_a_simulated_device_holds_a_memory(picture):
    """The CPU's memory is a real one on every machine."""
    assert picture.words.startswith("Nothing simulated:")
    picture.set(made="x.to(device)")
    assert picture.words.startswith("Simulated:")


def test_the_picture_shows_both_names_at_the_written_cell(picture):
    """The 9, and the indices that reach it, stand in bold; an expanded cell has two of y's."""
    always = {"x", "y", "memory"}
    written(picture, "y", 0)
    assert bold(picture) - always == {"One memory: 24 B", "9", "x[0, 1]", "y[0, 0]"}
    written(picture, "y", 0, made="x.clone()")
    assert bold(picture) - always == {"Two memories: 24 B and 24 B", "9", "y[0, 0]"}
    written(picture, "y", 0, made="x[:1].expand(2, 3)")
    assert bold(picture) - always == {"One memory: 24 B", "9", "x[0, 0]", "y[0, 0]", "y[1, 0]"}


def test_memory_has_its_devices_colour_and_its_width_in_bytes(picture):
    """A float64 is twice as wide as a float32; a memory on a device has the device's colour."""
    written(picture, "y", 0, made="x.double()")
    shapes = {shape.id: shape for shape in picture.scene.shapes}
    assert shapes["memory 1 0"].wide == 2 * shapes["memory 0 0"].wide
    assert {"memory 0 5", "memory 1 5"} <= shapes.keys()
    written(picture, "y", 0, made="x.to(device)")
    shapes = {shape.id: shape for shape in picture.scene.shapes}
    assert [shapes[f"memory {number} 0"].edge for number in (0, 1)] == [palette.HOST, palette.of(SIM)]


@pytest.mark.parametrize("made", ["x.double()", "x[:1].expand(2, 3)", "torch.from_numpy(x)", "x.to(device)"])
@pytest.mark.parametrize("start", [CPU, DEVICE, ARRAY])
def test_every_text_can_be_read_in_far_states(picture, start, made):
    """Two changes and more away from the first state; the caption is not longer than two lines."""
    for guess in (None, (start, made, True)):
        for write, deleted in (("x", False), ("y", True), ("", True)):
            done = (start, made, write, 5) if write else None
            state = replace(
                picture.state, start=start, made=made, guessed=guess, written=done, deleted=deleted
            )
            assert faults(picture.draw(state)) == [], state
            assert len(picture.draw(state).caption) <= 190


def test_a_long_error_is_cut_to_a_line(picture, monkeypatch):
    """Other devices have other words."""
    failed = Held(("x = 1", "y = 2"), error="RuntimeError: " + "word " * 60)
    monkeypatch.setattr(sharing, "run_program", lambda *program: failed)
    assert faults(picture.scene) == []
    assert " …" in picture.words


def test_without_an_accelerator_there_is_no_tensor_on_one(monkeypatch):
    """The choice would be the same as the CPU's."""
    monkeypatch.setattr(sharing, "first_accelerator", lambda: "cpu")
    picture = sharing.explorer()
    with pytest.raises(Refused, match="start cannot be 'a tensor on the device'"):
        picture.set(start=DEVICE)
    picture.set(made="x.to(device)")
    written(picture, "y", 0)
    assert "is x itself" in picture.words


def written(picture, name: str, number: int, **chosen) -> None:
    """Choose how x and y are made, and click a cell."""
    picture.set(**chosen)
    picture.press(f"write {name}, element {number}")


def texts(picture) -> set[str]:
    """Return what is written in the picture."""
    return {shape.words for shape in picture.scene.shapes if isinstance(shape, Words)}


def bold(picture) -> set[str]:
    """Return the texts of the picture that are in bold."""
    return {shape.words for shape in picture.scene.shapes if isinstance(shape, Words) and shape.bold}


def faint(picture, name: str) -> bool:
    """Tell whether a shape is drawn as what is not there."""
    (shape,) = [shape for shape in picture.scene.shapes if shape.id == name]
    return shape.faint
