"""Pictures of a reader's own run: what they say, that they can be read, and what is refused."""

import base64
import re
import struct
import zlib

import pytest
import torch
from explore.fitting import faults

import devlab.sim
from devlab import palette
from devlab.explore.runs import KINDS, curves, mountain, show_digits


def test_the_words_hold_the_numbers(capsys):
    """A terminal and a screen reader have nothing else."""
    curves("Loss", training=[2.0, 0.25, 0.5], held_out=[1.5, 0.75])
    assert capsys.readouterr().out.splitlines() == [
        "Loss",
        "training: 3 values from 2 to 0.5, the least 0.25, the most 2",
        "held out: 2 values from 1.5 to 0.75, the least 0.75, the most 1.5",
    ]


@pytest.mark.parametrize("last", [0.0, 0.5, 3.0])
def test_two_curves_can_be_told_apart(last):
    """Wherever they end, and even where they end at one place, each has its name beside it."""
    assert faults(curves("Loss", training=[3.0, last], held_out=[2.0, last]).scene) == []


def test_each_curve_is_as_wide_as_the_picture():
    """A value for each epoch stands beside a value for each step."""
    paths = {shape.id: shape for shape in curves("Loss", a=[1, 2, 3], b=[3, 1]).scene.shapes}
    assert paths["a"].points[0][0] == paths["b"].points[0][0]
    assert paths["a"].points[-1][0] == paths["b"].points[-1][0]


@pytest.mark.parametrize("values", [[1.0, float("nan")], [1.0, -1.0], [1.0, float("inf")]])
def test_what_cannot_be_drawn_is_refused(values):
    """A picture without its numbers would mislead."""
    with pytest.raises(ValueError, match="loss needs values that are finite"):
        curves("Loss", loss=values)
    with pytest.raises(ValueError, match="loss needs values that are finite"):
        curves("Loss", loss=[1.0]).add(loss=values)
    with pytest.raises(ValueError, match="one to 4 curves"):
        curves("Loss")
    with pytest.raises(ValueError, match="there is no curve los; there is: loss"):
        curves("Loss", loss=[]).add(los=[1.0])


def test_the_axes_grow_with_the_curve_and_end_at_round_numbers():
    """So that most values that arrive leave the axes as they are."""
    shown = curves("Loss", each_step=[], each_epoch=[])
    seen = []
    for epoch in range(8):
        shown.add(each_step=[2.3 / (1 + epoch)] * 12, each_epoch=[2.3 / (1 + epoch)])
        assert faults(shown.scene) == []
        words = {shape.id: shape.words for shape in shown.scene.shapes if hasattr(shape, "words")}
        seen.append((words["at 1"], words["step 1"]))
    assert seen[0] == ("2.5", "12")
    assert seen[-1] == ("2.5", "100")
    assert len(set(seen)) == 7
    (step, epoch) = (next(one for one in shown.scene.shapes if one.id == name) for name in shown.curves)
    assert step.points[-1][0] == epoch.points[-1][0]


MIB = 1 << 20


def train(model, optimizer, x, drawn) -> None:
    """Take a step, phase by phase."""
    drawn.phase("forward")
    loss = model(x).mean()
    drawn.phase("backward")
    loss.backward()
    drawn.phase("step")
    optimizer.step()
    optimizer.zero_grad()


@pytest.fixture
def step():
    """Return a model of 4 MiB, its optimizer after one step, and a function that makes its input."""
    devlab.sim.enable()
    layers = [layer for _ in range(4) for layer in (torch.nn.Linear(512, 512, bias=False), torch.nn.Tanh())]
    model = torch.nn.Sequential(*layers).to("sim:0")
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 512, device="sim:0")).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    return model, optimizer, lambda rows: torch.ones(rows, 512, device="sim:0")


def test_a_mountain_is_what_the_account_says(step, capsys):
    """Its kinds add up to what PyTorch has allocated, less what was there; the peak is PyTorch's own."""
    model, optimizer, make = step
    x = make(2048)
    before = torch.sim.memory_allocated("sim:0") - 12 * MIB  # of which model and state are no part
    torch.sim.reset_peak_memory_stats("sim:0")
    with mountain("A step", model, optimizer) as drawn:
        train(model, optimizer, x, drawn)
    assert drawn.peak == torch.sim.max_memory_allocated("sim:0") - before
    for _, held in drawn.moments:
        assert (held["parameters"], held["optimizer's state"] >> 20) == (4 * MIB, 8)
    first, last = drawn.moments[0][1], drawn.moments[-1][1]
    assert first["gradients"] == last["gradients"] == 0
    assert max(held["gradients"] for _, held in drawn.moments) == 4 * MIB
    kept = [held["activations"] for phase, held in drawn.moments if phase == "forward"]
    assert kept[-1] == pytest.approx(4 * x.nbytes, abs=2 * MIB)  # the outputs of four Tanh, and the loss
    assert capsys.readouterr().out.splitlines()[0] == "A step, on sim:0 (simulated)"
    assert faults(drawn.scene) == []


def test_two_mountains_stand_on_one_scale_in_one_colour_key(step):
    """The smaller batch is a lower mountain, and each kind has the same colour in both."""
    model, optimizer, make = step
    with mountain("large", model, optimizer) as large:
        train(model, optimizer, make(2048), large)
    with mountain("small", model, optimizer, beside=large) as small:
        train(model, optimizer, make(64), small)
    drawn = {shape.id: shape for shape in small.scene.shapes}
    tops = [min(y for _, y in drawn[f"{number} activations"].points) for number in (0, 1)]
    lows = [drawn[f"{number} line 0"].points[0][1] for number in (0, 1)]
    heights = [low - top for low, top in zip(lows, tops, strict=True)]
    assert heights[1] / heights[0] == pytest.approx(small.peak / large.peak, rel=0.02)
    for kind, colour in KINDS.items():
        edges = {shape.edge for name, shape in drawn.items() if name in (f"0 {kind}", f"1 {kind}")}
        assert edges == {colour} == {drawn[f"key of {kind}"].edge}
    assert faults(small.scene) == []


def test_no_mountain_without_an_account(capsys):
    """PyTorch keeps none of the CPU's memory, and the program goes on."""
    model = torch.nn.Linear(2, 2)
    with mountain("A step", model) as drawn:
        model(torch.ones(2)).sum().backward()
    said = "A step, on cpu: PyTorch keeps no account of its memory that could be drawn"
    assert capsys.readouterr().out.strip() == drawn.html() == said


def test_digits_are_images_in_the_colour_of_their_device(capsys):
    """Pixel by pixel, as much of the colour as there is ink; not a letter stands for a pixel."""
    devlab.sim.enable()
    pictures = torch.tensor([[[0.0, 1.0], [0.5, 0.25]]])
    for place in ("cpu", "sim:0"):
        shown = show_digits(pictures.to(place), ["7"])
        (held,) = re.findall('base64,([^"]+)', shown.html())
        data = base64.b64decode(held)
        wide, high = struct.unpack(">II", data[16:24])
        size, start = struct.unpack(">I", data[33:37])[0], 41
        rows = zlib.decompress(data[start : start + size])
        red_green_blue = bytes.fromhex(palette.of(place)[1:])
        expected = [
            b"\0" + b"".join(red_green_blue + bytes([ink]) for ink in row) for row in ([0, 255], [128, 64])
        ]
        assert (wide, high, rows) == (2, 2, b"".join(expected))
    assert capsys.readouterr().out.splitlines()[0] == "1 pictures of 2 × 2 pixels: 7"
    with pytest.raises(ValueError, match="1 pictures need as many words, not 2"):
        show_digits(pictures, ["7", "1"])
