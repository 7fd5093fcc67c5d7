"""The colours of the pictures can be told from either background, and from each other."""

import itertools

import pytest

from devlab import palette
from devlab.checks.result import CHIPS, Outcome

COLOURS = {"host": palette.HOST, "copy": palette.COPY, "wait": palette.WAIT}
COLOURS |= {f"device {index}": colour for index, colour in enumerate(palette.DEVICES)}
# How the cones of a person without green or red ones mix the light of a screen (Viénot, Brettel and Mollon,
# "Digital video colourmaps for checking the legibility of displays by dichromats", 1999).
DEUTERANOPE = ((0.29275, 0.70725, 0.0), (0.29275, 0.70725, 0.0), (-0.02234, 0.02234, 1.0))
PROTANOPE = ((0.11238, 0.88762, 0.0), (0.11238, 0.88762, 0.0), (0.00401, -0.00401, 1.0))


def light(colour: str) -> list[float]:
    """Return the linear red, green and blue of a colour, as WCAG 2.2 defines them."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def luminance(colour: str) -> float:
    """Return the relative luminance of WCAG 2.2."""
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), light(colour), strict=True))


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours, from 1 to 21."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def difference(one: str, other: str, eye: tuple | None) -> float:
    """Return how far apart two colours are in CIE L*a*b*, to an eye."""
    return sum((a - b) ** 2 for a, b in zip(lab(one, eye), lab(other, eye), strict=True)) ** 0.5


def lab(colour: str, eye: tuple | None) -> tuple[float, float, float]:
    """Return CIE L*a*b* of a colour as an eye sees it."""
    rgb = light(colour)
    if eye:
        rgb = [max(0.0, sum(w * part for w, part in zip(row, rgb, strict=True))) for row in eye]
    to_xyz = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
    white = (0.9505, 1.0, 1.089)
    x, y, z = (
        cube(sum(w * part for w, part in zip(row, rgb, strict=True)) / most)
        for row, most in zip(to_xyz, white, strict=True)
    )
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def cube(share: float) -> float:
    """Return the cube root that L*a*b* uses, straight near zero."""
    return share ** (1 / 3) if share > 0.008856 else 7.787 * share + 16 / 116


@pytest.mark.parametrize("background", ["#ffffff", "#111111"])
@pytest.mark.parametrize("name", COLOURS)
def test_every_colour_stands_out_from_either_theme(name, background):
    """WCAG 2.2 asks for 3 to 1 of anything that is no text."""
    assert contrast(COLOURS[name], background) >= 3


@pytest.mark.parametrize("name", COLOURS)
def test_letters_can_be_read_on_every_colour(name):
    """WCAG 2.2 asks for 4.5 to 1 of text."""
    assert contrast(palette.LETTERS, COLOURS[name]) >= 4.5


@pytest.mark.parametrize("eye", [None, DEUTERANOPE, PROTANOPE], ids=["all cones", "no green", "no red"])
def test_no_two_colours_are_taken_for_each_other(eye):
    """A difference of 10 in L*a*b* is seen at a glance, side by side."""
    for one, other in itertools.combinations(COLOURS, 2):
        assert difference(COLOURS[one], COLOURS[other], eye) >= 10, (one, other)


EYES = {"all cones": None, "no green": DEUTERANOPE, "no red": PROTANOPE}


@pytest.mark.parametrize("eye", EYES)
def test_outcomes_differ_in_lightness_and_in_shape(eye):
    """Passed, failed, error and not attempted are told apart in grey, and by their corners."""
    chips = [CHIPS[one] for one in (Outcome.PASSED, Outcome.FAILED, Outcome.ERROR, Outcome.NOT_ATTEMPTED)]
    assert len({chip.corners for chip in chips}) == len(chips)
    for one, other in itertools.combinations(chips, 2):
        lightness = abs(lab(one.paper, EYES[eye])[0] - lab(other.paper, EYES[eye])[0])
        assert lightness >= 10, (one, other)


@pytest.mark.parametrize("outcome", Outcome)
def test_each_sign_is_read_and_each_chip_is_seen_in_either_theme(outcome):
    """WCAG 2.2 asks for 4.5 to 1 of text, and for 3 to 1 of the edge of what means something."""
    chip = CHIPS[outcome]
    assert contrast(chip.ink, chip.paper) >= 4.5
    for background in ("#ffffff", "#111111"):
        assert contrast(chip.edge, background) >= 3, background


def test_a_device_keeps_its_colour_under_every_name():
    """By name or as torch.device, with its index or without."""
    import torch

    assert palette.of(torch.device("cpu")) == palette.HOST
    assert palette.of("mps") == palette.of("cuda:0") == palette.DEVICES[0]
    assert palette.of("sim:1") == palette.DEVICES[1]
