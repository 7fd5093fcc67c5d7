"""What a watch sees besides plain calls: backward, modules, loaders, threads, other watches, errors."""

import concurrent.futures
import subprocess
import sys
import threading

import numpy
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import devlab
from devlab.watching import record
from devlab.watching import watch as patches
from devlab.watching.record import NOWHERE, learners_line

SIM = "sim:0"


def causes(log) -> list[str]:
    """Return what made the host wait."""
    return [wait.cause for wait in log.events.synchronizations]


def code(event) -> str:
    """Return the code of an event's line."""
    return str(event.line).partition(":  ")[2]


def test_a_transfer_tells_everything():
    """From, to, bytes, pinned, blocking, and the learner's line."""
    x = torch.ones(3, 4)
    with devlab.watch() as log:
        y = x.to(SIM)
    (moved,) = log.events.transfers
    assert (moved.source, moved.target, moved.bytes) == ("cpu", SIM, 48)
    assert (moved.pinned, moved.blocking, moved.non_blocking) == (False, True, False)
    assert moved.cause == ".to()"
    assert "test_watch.py, line " in str(moved.line)
    assert code(moved) == "y = x.to(SIM)"
    assert y.device == torch.device(SIM)


@pytest.mark.parametrize(
    ("pinned", "non_blocking", "blocking", "words"),
    [
        (False, False, True, "pageable, blocking"),
        (False, True, False, "pageable, not blocking once staged"),
        (True, False, True, "pinned, blocking"),
        (True, True, False, "pinned, not blocking"),
    ],
)
def test_who_waits_for_a_copy_to_the_device(pinned, non_blocking, blocking, words):
    """The four ways to bring a batch to the device."""
    x = torch.ones(3)
    x = x.pin_memory() if pinned else x
    with devlab.watch() as log:
        x.to(SIM, non_blocking=non_blocking)
    (moved,) = log.events.transfers
    assert (moved.pinned, moved.blocking, moved.manner) == (pinned, blocking, words)
    assert log.synchronizations == 0


def test_from_device_to_device():
    """No host memory takes part, and the host does not wait."""
    x = torch.ones(3, device=SIM)
    with devlab.watch() as log:
        x.to("sim:1")
    (moved,) = log.events.transfers
    assert (moved.source, moved.target, moved.blocking) == (SIM, "sim:1", False)
    assert moved.manner == "device to device"


def test_new_bytes_are_counted_on_each_device():
    """Views and in-place operators make none; what NumPy made is only borrowed."""
    array = numpy.ones(100)
    x = torch.ones(10)
    with devlab.watch() as log:
        x.view(2, 5).add_(1)
        torch.as_tensor(array)
        torch.from_numpy(array)
    assert log.bytes_allocated == 0
    with devlab.watch() as log:
        x + 1
        torch.tensor([1.0, 2.0])
        torch.empty(5, dtype=torch.float64)
        torch.zeros(3, device=SIM)
        x.split(2)
        x.topk(2)
    assert log.allocated == {"cpu": 40 + 8 + 40 + 2 * 4 + 2 * 8, SIM: 12}
    assert log.bytes_allocated == 124


def test_backward_is_seen_with_the_line_that_asked_for_it():
    """The gradient's own operators count, and belong to the line with backward()."""
    w = torch.ones(3, device=SIM, requires_grad=True)
    with devlab.watch() as log:
        loss = (w * 2).sum()
        forward = log.launches
        loss.backward()
    assert log.launches > forward
    assert {code(launch) for launch in log.events.launches[forward:]} == {"loss.backward()"}


def test_the_gradient_engines_own_threads_point_at_the_line_that_waits():
    """On CUDA backward runs in a thread without a line of the learner's: the owner's line is taken."""
    owner = threading.get_ident()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        assert pool.submit(learners_line).result() == NOWHERE
        line = pool.submit(learners_line, owner).result()
    assert line.filename == __file__


def test_an_item_inside_a_module_is_found_in_its_forward():
    """The innermost line of the learner's own code is the one to mend."""

    class Noisy(nn.Module):
        def forward(self, x):
            return x * float(x.mean())

    model = nn.Sequential(Noisy(), nn.ReLU())
    with devlab.watch() as log:
        model(torch.ones(2, device=SIM))
    (wait,) = log.events.synchronizations
    assert wait.cause == "float()"
    assert code(wait) == "return x * float(x.mean())"


def test_an_item_in_a_backward_of_ones_own():
    """The gradient engine calls it, on sim in the same thread, on CUDA in one of its own."""

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            grad.sum().item()
            return grad * 2

    x = torch.ones(2, device=SIM, requires_grad=True)
    with devlab.watch() as log:
        Double.apply(x).sum().backward()
    assert causes(log) == [".item()"]
    assert code(log.events.synchronizations[0]) == "grad.sum().item()"


@pytest.mark.parametrize("workers", [0, 1])
def test_a_loader(workers):
    """Two transfers a batch, whoever loads them."""
    data = TensorDataset(torch.arange(6.0), torch.arange(6))
    with devlab.watch() as log:
        for x, y in DataLoader(data, batch_size=2, num_workers=workers):
            x.to(SIM), y.to(SIM)
    assert log.transfers == 6
    assert log.synchronizations == 0


def test_a_pinning_loader():
    """Its batches need not block."""
    data = TensorDataset(torch.arange(6.0))
    with devlab.watch() as log:
        for (x,) in DataLoader(data, batch_size=2, pin_memory=True):
            x.to(SIM, non_blocking=True)
    assert [moved.manner for moved in log.events.transfers] == ["pinned, not blocking"] * 3


def test_nested_watches_each_see_their_own():
    """The outer one sees what the inner one sees, and more."""
    x = torch.ones(2, device=SIM)
    with devlab.watch() as outer:
        x.cpu()
        with devlab.watch() as inner:
            str(x)
            x.sum().item()
        torch.sim.synchronize()
    assert causes(inner) == ["print", ".item()"]
    assert causes(outer) == [".cpu()", "print", ".item()", "synchronize()"]
    assert (inner.transfers, outer.transfers) == (2, 3)


@pytest.mark.parametrize("formatted", [str, format, lambda x: f"{x}", lambda x: "{}".format(x)])  # noqa: UP032
def test_a_tensor_in_a_text_is_printed(formatted):
    """With dimensions every element shown is read, under whatever name the text was asked for."""
    x, single = torch.ones(2, 3, device=SIM), torch.tensor(2.5, device=SIM)
    with devlab.watch() as log:
        assert "1., 1., 1." in formatted(x)
    cause = "print" if formatted is str else "format()"
    assert (causes(log), log.transfers, log.bytes_moved) == ([cause], 1, 24)
    assert log.events.transfers[0].manner == "pageable, blocking"
    with devlab.watch() as log:
        assert format(single, ".1f") == "2.5"
    assert [moved.manner for moved in log.events.transfers] == ["one value, blocking"]
    with devlab.watch() as log:
        assert "2.5" in formatted(single)
        formatted(x)
        x.tolist()
    assert (causes(log), log.transfers) == ([cause, cause, ".tolist()"], 3)


def test_threads_that_the_block_starts():
    """Plain threads and those of a pool, each with its own line; others are left out."""
    start, go_on = threading.Event(), threading.Event()
    x = torch.ones(2, device=SIM)

    def outside():
        start.wait()
        x.cpu()
        go_on.set()

    def inside():
        x.tolist()

    stranger = threading.Thread(target=outside)
    stranger.start()
    with devlab.watch() as log:
        start.set()
        go_on.wait()
        friend = threading.Thread(target=inside)
        friend.start()
        friend.join()
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda value: value.sum().item(), [x, x, x]))
    stranger.join()
    assert sorted(causes(log)) == [".item()"] * 3 + [".tolist()"]
    assert code(log.events.synchronizations[0]) == "x.tolist()"
    assert log.launches == 3


def test_a_thread_that_outlives_the_block_is_let_go():
    """What it does afterwards is not counted."""
    inside, closed = threading.Event(), threading.Event()
    x = torch.ones(2, device=SIM)

    def work():
        x.cpu()
        inside.set()
        closed.wait()
        x.cpu()

    with devlab.watch() as log:
        thread = threading.Thread(target=work)
        thread.start()
        inside.wait()
    closed.set()
    thread.join()
    assert log.transfers == 1


def test_many_threads_lose_no_count():
    """Counts are kept by thread and added up."""
    x = torch.ones(2)

    def work():
        for _ in range(500):
            x + x

    with devlab.watch() as log:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert log.operators == {"cpu": 2000}


def test_a_block_that_raises():
    """The error comes through, and what was done until then is there."""
    x = torch.ones(2, device=SIM)

    def mismatch():
        x.cpu()
        x + torch.ones(2)

    with pytest.raises(RuntimeError, match="same device"), devlab.watch() as log:
        mismatch()
    assert log.transfers == 1
    assert "the block raised RuntimeError" in str(log)
    assert not patches._replaced


def test_afterwards_everything_is_as_before():
    """Every name is back in its place, also after nested watches and errors."""
    names = {name: vars(torch.Tensor).get(name) for name in (*patches.READERS, "__repr__")}
    start, wait, event = threading.Thread.start, torch.sim.synchronize, torch.Event
    with pytest.raises(ZeroDivisionError), devlab.watch(), devlab.watch():
        print(1 / 0)
    assert {name: vars(torch.Tensor).get(name) for name in names} == names
    assert (threading.Thread.start, torch.sim.synchronize, torch.Event) == (start, wait, event)
    assert torch.tensor(True).item() is True
    assert "tensor(3)" in repr(torch.tensor(3))


def test_a_watch_is_used_once():
    """A second use would mix two blocks."""
    watch = devlab.watch()
    with watch, pytest.raises(RuntimeError, match="make another"), watch:
        pass
    with pytest.raises(RuntimeError, match="make another"), watch:
        pass


def test_too_many_events_are_counted_and_not_kept(monkeypatch):
    """The counts stay complete, and the log says what it lists."""
    monkeypatch.setattr(record, "MOST_EVENTS", 3)
    x = torch.ones(2, device=SIM)
    with devlab.watch() as log:
        for _ in range(4):
            x.cpu()
    assert (log.transfers, log.synchronizations, len(log.events), log.dropped) == (4, 4, 3, 5)
    assert "the first 3 events are listed; the counts are complete" in str(log)


def test_meta_and_sparse_tensors_are_no_trouble():
    """A watch never adds an error of its own."""
    with devlab.watch() as log:
        torch.ones(3, device="meta") + 1
        torch.eye(3).to_sparse().coalesce().to_dense()
        torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged) * 2
        torch.vmap(lambda row: row.sum())(torch.ones(3, 2))
        torch.func.grad(lambda t: (t**2).sum())(torch.ones(2))
        nn.LSTM(3, 4)(torch.ones(2, 5, 3))
    assert log.transfers == 0


def test_the_table_of_a_log():
    """Counts first; then each kind of happening once, with how often it came."""
    x = torch.ones(256)
    with devlab.watch() as log:
        for _ in range(3):
            y = x.to(SIM)
        total = y.sum().item()
        torch.sim.synchronize()
    lines = str(log).splitlines()
    assert lines[0] == "4 transfers (3 KiB), 2 synchronizations, 1 launch, 3 KiB of new tensors"
    assert lines[1] == "operators    sim:0 (simulated) 1"
    table = "\n".join(" ".join(line.split()) for line in lines[4:])
    assert "times what from → to bytes how line" in table
    assert "3 copy .to() cpu → sim:0 1 KiB pageable, blocking test_watch.py, line " in table
    assert "1 copy and wait .item() sim:0 → cpu 4 B one value, blocking test_watch.py" in table
    assert "1 wait synchronize() sim:0 the host waits test_watch.py" in table
    assert "total = y.sum().item()" in table
    assert total == 256
    assert "<table>" in log.html()
    assert "y.sum().item()" in log.html()
    assert repr(log) == "<Log: 4 transfers, 2 synchronizations, 1 launches>"


def test_a_quiet_log_has_no_table():
    """On the CPU alone there is nothing to list."""
    with devlab.watch() as log:
        torch.ones(2) + 1
    assert str(log).splitlines() == [
        "0 transfers (0 B), 0 synchronizations, 0 launches, 16 B of new tensors",
        "operators    cpu 2",
        "new tensors  cpu 16 B",
    ]


def in_a_fresh_process(code: str) -> None:
    """Run code where the simulator is not enabled yet."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_without_any_accelerator():
    """PyTorch's own event class is written in C: a subclass stands in for it, and goes again."""
    in_a_fresh_process(
        "import torch, devlab\n"
        "real, old = torch.Event, torch.Event('cpu')\n"
        "with devlab.watch() as log:\n"
        "    event = torch.Event('cpu')\n"
        "    assert isinstance(event, torch.Event) and isinstance(event, real)\n"
        "    assert isinstance(old, torch.Event)\n"
        "    event.synchronize()\n"
        "    torch.ones(2).sum().item()\n"
        "assert torch.Event is real\n"
        "assert log.synchronizations == 0\n"
        "assert log.operators == {'cpu': 2}\n"
    )


def test_the_simulator_may_be_enabled_inside_a_block():
    """As by devlab.start() in the block: what the simulator put in place stays there."""
    in_a_fresh_process(
        "import torch, devlab, devlab.sim\n"
        "with devlab.watch() as log:\n"
        "    devlab.sim.enable()\n"
        "    torch.ones(2).to('sim').cpu()\n"
        "assert (log.transfers, log.synchronizations) == (2, 1)\n"
        "assert isinstance(torch.Event('sim'), torch.sim.Event)\n"
        "with devlab.watch() as log:\n"
        "    torch.accelerator.synchronize()\n"
        "    torch.sim.Event().synchronize()\n"
        "assert log.synchronizations == 2\n"
    )


def test_compiled_code_runs_under_a_watch():
    """It runs as it would without a compiler, and counts."""
    in_a_fresh_process(
        "import torch, devlab\n"
        "double = torch.compile(lambda x: x * 2 + 1, backend='eager')\n"
        "with devlab.watch() as log:\n"
        "    assert torch.equal(double(torch.ones(3)), torch.full((3,), 3.0))\n"
        "assert log.operators['cpu'] >= 2\n"
        "assert torch.equal(double(torch.ones(3)), torch.full((3,), 3.0))\n"
    )


def test_a_constructor_that_reads_numbers_one_by_one_is_seen_through():
    """`torch.tensor` of a list of tensors reads each, and hides the operators by which it does."""
    values = [torch.tensor(float(number), device=SIM) for number in range(3)]
    with devlab.watch() as log:
        gathered = torch.tensor(values)
    assert gathered.tolist() == [0.0, 1.0, 2.0]
    assert (log.transfers, log.bytes_moved) == (3, 12)
    assert causes(log) == ["float()"] * 3


def test_a_bare_name_means_the_current_device():
    """A factory given "sim" without an index is counted on the device that is current."""
    with devlab.watch() as log:
        torch.zeros(2, device="sim")
        torch.zeros(2, device=torch.device("sim"))
    assert log.operators == {"sim:0": 2}


def test_loading_onto_a_device_is_seen(sim, tmp_path):
    """Each storage of the file is one blocking copy, named and with its line; loading to the CPU is none."""
    path = tmp_path / "model.pt"
    torch.save({"w": torch.ones(4), "b": torch.ones(2)}, path)
    with devlab.watch() as log:
        held = torch.load(path, map_location="sim:1")
    assert held["w"].device == torch.device("sim:1")
    assert [(t.source, t.target, t.bytes, t.blocking, t.cause) for t in log.events.transfers] == [
        ("cpu", "sim:1", 16, True, "torch.load()"),
        ("cpu", "sim:1", 8, True, "torch.load()"),
    ]
    assert log.events.transfers[0].line.number == sys._getframe().f_lineno - 6
    assert log.allocated == {"sim:1": 24}
    with devlab.watch() as log:
        torch.load(path, map_location="cpu")
    assert (log.transfers, log.launches) == (0, 0)


def test_a_read_before_a_copy_has_arrived_is_marked(sim):
    """By an operator, by NumPy and by Python; after a wait for the copy, nothing is said."""
    x = torch.ones(1024, 1024, device="sim")
    with devlab.watch() as log:
        there = (x * 2).to("cpu", non_blocking=True)
        there.sum()
        there.numpy()
        there[0].tolist()
        torch.accelerator.synchronize()
        there.sum()
        there.numpy()
    first = log.events.transfers[0].line.number
    told = [
        (r.source, r.cause, r.line.number - first, r.copied.number - first) for r in log.events.early_reads
    ]
    assert told == [("sim:0", "sum()", 1, 0), ("sim:0", ".numpy()", 2, 0), ("sim:0", ".tolist()", 3, 0)]
    assert f"too early: line {first} has not brought it" in log.text()


def test_reads_that_are_in_time_are_not_marked(sim):
    """An event of the copy is enough; blocking copies and memory that changed hands are not told of."""
    x, host = torch.ones(1024, 1024, device="sim"), torch.empty(1024, 1024, pin_memory=True)
    with devlab.watch() as log:
        x.cpu().sum()
        host.copy_(x, non_blocking=True)
        host.copy_(x, non_blocking=True)  # the stream does one after the other
        done = torch.Event("sim")
        done.record()
        done.synchronize()
        host.sum()
        x.to("cpu", non_blocking=True)
        torch.zeros(1024, 1024).sum()
    assert log.events.early_reads == []
