"""What a device's memory holds: on sim, on a real GPU, and on the CPU, which keeps no account."""

import html
import re

import pytest
import torch

import devlab
from devlab.devices import UnknownDevice
from devlab.watching.memory import Memory, size

SIM = torch.device("sim:1")


@pytest.mark.usefixtures("empty_memory")
def test_the_figures_are_the_devices_own():
    """Allocated, reserved, peak and total, as torch.get_device_module(device) tells them."""
    keep = torch.ones(1 << 20, device=SIM)
    torch.ones(1 << 21, device=SIM)
    found = devlab.memory("sim:1", show=False)
    assert found.allocated == 4 << 20
    assert found.peak == 12 << 20
    assert found.reserved == 20 << 20
    assert found.cached == found.reserved - found.allocated
    assert found.total == torch.sim.mem_get_info(SIM)[1]
    assert found.device == keep.device


def test_a_bare_name_is_the_current_device():
    """As everywhere in PyTorch."""
    assert devlab.memory("sim", show=False).device == torch.device("sim:0")


def test_as_text_and_html(capsys):
    """Figures, a bar, and the word simulated."""
    found = devlab.memory(SIM)
    lines = capsys.readouterr().out.rstrip("\n").splitlines()
    assert lines == found.text().splitlines()
    assert lines[0] == "memory of sim:1 (simulated)"
    assert [line.split()[0] for line in lines[1:5]] == ["allocated", "reserved", "peak", "total"]
    assert "sim:1 (simulated)" in found.html()
    assert "<table>" in found.html()


def test_the_bar():
    """Full for what is allocated, light for the cache, a stroke at the peak."""
    found = Memory(torch.device("cuda:0"), 10 << 20, 40 << 20, 20 << 20, 80 << 30)
    assert found.text().splitlines()[-2:] == [
        "  " + "█" * 10 + "░" * 9 + "┃" + "░" * 20,
        "  0 to 40 MiB:  █ allocated  ░ cached  ┃ peak",
    ]
    assert set(Memory(torch.device("cuda:0"), 0, 0, 0, 1).text().splitlines()[-2].strip()) == {"·"}


@pytest.mark.parametrize(
    ("figures", "parts"),
    [
        ((10, 40, 20), ["25.00%", "25.00%", "3px", "50.00%"]),  # the peak in the cache
        ((10, 20, 40), ["25.00%", "25.00%", "50.00%", "3px"]),  # beyond what is reserved now
        ((20, 40, 20), ["50.00%", "3px", "50.00%"]),  # just now
        ((0, 0, 40), ["100.00%", "3px"]),
        ((0, 0, 0), []),
        ((10, 40, None), ["25.00%", "75.00%"]),
    ],
)
def test_a_notebook_shows_a_bar_that_is_drawn(figures, parts):
    """What is allocated is filled, the cache an outline, the peak a stroke; the figures stand beside."""
    found = Memory(torch.device("cuda:0"), *(one and one << 20 for one in figures), 80 << 30)
    bar, legend = re.findall(r"<div[^>]*>(?:(?!<div).)*?</div>", found.html().partition("</table>")[2])
    assert re.findall(r"width:([\d.]+(?:%|px))", bar)[1:] == parts  # the first is that of the whole
    assert not set("░█┃·") & set(found.html())
    assert bar.count("background:") == (figures[0] > 0)
    assert 'aria-hidden="true"' in bar  # a screen reader has the table
    words = re.sub(r"<[^>]+>", "", html.unescape(legend)).split()
    assert " ".join(words).startswith(f"0 to {size(max(one or 0 for one in figures) << 20)}: allocated")
    assert ("peak" in words) == (figures[2] is not None)


def test_a_device_that_tells_less():
    """MPS keeps no peak: the row is missing, not invented."""
    found = Memory(torch.device("mps:0"), 1 << 20, 2 << 20, None, 8 << 30)
    assert "peak" not in found.text()
    assert "peak" not in found.html()


def test_the_cpu_keeps_no_account(capsys):
    """And says so, with what to use instead."""
    devlab.memory("cpu")
    said = capsys.readouterr().out
    assert "PyTorch keeps no account of the CPU's memory" in said
    assert "devlab.watch()" in said


def test_a_device_that_is_not_here():
    """Named, with what to do."""
    if torch.cuda.is_available():
        pytest.skip("CUDA is here")
    with pytest.raises(UnknownDevice, match="cuda is not here"):
        devlab.memory("cuda")


def test_on_cuda(cuda):
    """The same panel from a real GPU's own account."""
    x = torch.ones(1 << 20, device=cuda)
    found = devlab.memory(cuda, show=False)
    assert found.allocated == torch.cuda.memory_allocated(cuda) >= x.nbytes
    assert found.reserved == torch.cuda.memory_reserved(cuda)
    assert found.total == torch.cuda.mem_get_info(cuda)[1]
    assert "simulated" not in found.text()
