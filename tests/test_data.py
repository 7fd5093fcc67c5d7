"""The digits that come with the course are the originals, whole, and always on the CPU."""

import hashlib

import numpy
import torch

import devlab
from devlab import sim
from devlab.data import FILE

# Of the 1797 rows of the original's 64 pixels and label, as bytes; also in the file's README.
ORIGINAL = "68aea062d35a127749050fa0e52dca09d6569ac08092c925610e0954e172dde2"


def test_the_digits_are_the_originals():
    """No image or label was altered, dropped or reordered."""
    images, labels = devlab.digits()
    pixels = (images * 16).to(torch.uint8).flatten(1)
    rows = torch.cat([pixels, labels[:, None].to(torch.uint8)], dim=1)
    assert hashlib.sha256(rows.numpy().tobytes()).hexdigest() == ORIGINAL
    assert ORIGINAL in FILE.with_name("README.md").read_text("utf-8")


def test_shapes_dtypes_and_the_count_of_each_class():
    """1797 images of 8 by 8 between 0 and 1, and as many of each digit as the source says."""
    images, labels = devlab.digits()
    assert (images.shape, images.dtype) == ((1797, 8, 8), torch.float32)
    assert (labels.shape, labels.dtype) == ((1797,), torch.int64)
    assert (images.min().item(), images.max().item()) == (0.0, 1.0)
    assert labels.bincount().tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_each_call_gives_new_tensors():
    """A cell that changes them in place spoils nothing for the next."""
    images, labels = devlab.digits()
    images.zero_()
    labels.zero_()
    again, names = devlab.digits()
    assert again.max() == 1
    assert names.max() == 9


def test_they_are_on_the_cpu_whatever_the_default_device():
    """The course says that data sets load into CPU memory first."""
    sim.enable()
    torch.set_default_device("sim:0")
    try:
        found = {tensor.device.type for tensor in devlab.digits()}
    finally:
        torch.set_default_device(None)
    assert found == {"cpu"}


def test_the_file_needs_no_pickle_and_stays_small():
    """Data that could run code, or that makes every clone heavy, is no data for a course."""
    with numpy.load(FILE, allow_pickle=False) as held:
        assert sorted(held) == ["images", "labels"]
    assert FILE.stat().st_size < 60_000
