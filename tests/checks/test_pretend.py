"""Facts about pretended machines, and about the current device while answers are judged."""

from functools import partial

import numpy
import pytest
import torch
from torch.cuda import device_count

from devlab.checks.exercise import Exercise
from devlab.checks.judge import judge
from devlab.checks.pretend import machine, pretend
from devlab.checks.trial import Trial
from devlab.devices import bench

CPU = torch.device("cpu")
HERE = Trial(print, "f()", CPU)
TWO = ("NVIDIA H100 PCIe", "NVIDIA L4")


def count_by_an_imported_name() -> int:
    """Ask by a name that this module imported before anything was pretended."""
    return device_count()


def test_every_question_has_the_answer_of_that_machine():
    """What torch.cuda and torch.accelerator say fits together."""
    with machine(HERE, TWO, current=1):
        assert torch.cuda.is_available()
        assert torch.cuda.device_count() == torch.accelerator.device_count() == 2
        assert torch.cuda.current_device() == torch.accelerator.current_device_index() == 1
        assert torch.cuda.get_device_name() == torch.cuda.get_device_name("cuda:1") == "NVIDIA L4"
        assert torch.cuda.get_device_properties(torch.device("cuda", 0)).name == "NVIDIA H100 PCIe"
        assert torch.accelerator.current_accelerator() == torch.device("cuda")
        with pytest.raises(AssertionError, match="Invalid device id"):
            torch.cuda.get_device_name(2)
        with torch.cuda.device(0):
            assert torch.cuda.get_device_name() == "NVIDIA H100 PCIe"
        assert torch.cuda.current_device() == 1


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"names": ()}, "no accelerator and a PyTorch built for cuda"),
        ({"names": (), "built": False}, "no accelerator"),
        ({"names": (), "built": False, "other": "mps"}, "mps"),
        ({"names": TWO[:1]}, "1 NVIDIA GPU"),
        ({"names": TWO}, "2 NVIDIA GPUs"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_verdict_says_on_which_machine(facts, words):
    """Whoever returns None there, or raises, is told where."""

    def f():
        raise KeyError(3)

    assert f"called with   f(), on a pretended machine with {words}\n" in judged_on(facts, f)


def judged_on(facts: dict, answer) -> str:
    """Return what a verdict says of an answer to an exercise whose only row pretends a machine."""
    exercise = Exercise("f", "00", "f()", ("D1",), ("a", "b"))

    @exercise.row("is called")
    def called(trial):
        with machine(trial, **facts):
            trial.call()

    return str(judge(exercise, answer))


def test_an_error_there_is_not_said_to_be_the_cpus():
    """The headline names the machine, whatever device the row is judged on."""

    def f():
        raise KeyError(3)

    said = judged_on({"names": TWO}, f)
    assert said.startswith("! f: your code raised KeyError on a pretended machine with 2 NVIDIA GPUs")
    assert "note" not in said


@pytest.mark.skipif(torch.cuda.is_available(), reason="a PyTorch with CUDA has these, and makes them")
@pytest.mark.parametrize(
    "f",
    [
        lambda: torch.cuda.Stream(),
        lambda: torch.cuda.Event(enable_timing=True).record(),
        lambda: torch.Generator("cuda"),
        lambda: torch.cuda.get_rng_state(),
        lambda: torch.cuda.reset_peak_memory_stats(),
    ],
    ids=["stream", "event", "generator", "rng state", "peak"],
)
def test_what_a_pretended_machine_has_not_is_said_to_be_its_limit(f):
    """What PyTorch says of a missing library would send a learner looking for one."""
    note = "note          this GPU is pretended: it answers questions"
    assert note in judged_on({"names": TWO}, f)
    assert note not in judged_on({"names": ()}, f)


def test_a_build_for_cuda_without_a_gpu():
    """The build is for CUDA, and nothing else is: as PyTorch has it on such a machine."""
    with machine(HERE, ()):
        assert torch.backends.cuda.is_built()
        assert torch.version.cuda
        assert not torch.cuda.is_available()
        assert not torch.accelerator.is_available()
        assert torch.accelerator.current_accelerator() == torch.device("cuda")
        assert torch.accelerator.current_accelerator(check_available=True) is None
        for ask in (torch.cuda.current_device, torch.cuda.get_device_name):
            with pytest.raises(RuntimeError, match="no NVIDIA driver"):
                ask()
        with pytest.raises(RuntimeError, match="no NVIDIA driver"):
            torch.zeros(1, device="cuda")


def test_a_tensor_wanted_there_says_that_it_is_there():
    """Trying is as good as asking: a tensor on a pretended GPU has that GPU's address."""
    with machine(HERE, TWO, current=1):
        assert torch.empty(0, device="cuda").device == torch.device("cuda", 1)
        assert torch.ones(2).to("cuda:0").device == torch.device("cuda", 0)
        assert torch.ones(2).cuda().is_cuda
        assert torch.ones(2).device == torch.device("cpu")


@pytest.mark.parametrize(
    ("facts", "places"),
    [({"names": TWO}, ("cuda:2", "cuda:9")), ({"names": (), "built": False, "other": "mps"}, ("mps:1",))],
)
def test_a_device_too_many_is_refused(facts, places):
    """Its address can be written down, and no tensor made there: whoever counts by trying comes to an end."""
    with machine(HERE, **facts):
        for place in places:
            assert torch.device(place).index == int(place[-1])
            for make in (partial(torch.zeros, 3, device=place), partial(torch.ones(3).to, place)):
                with pytest.raises(torch.AcceleratorError, match="invalid device ordinal"):
                    make()


def test_a_bare_number_is_an_index():
    """As PyTorch has it wherever a device can be named."""
    with machine(HERE, TWO):
        x = torch.ones(3)
        for there in (x.cuda(1), x.cuda(device=1), x.to(1), x.to(device=1), torch.ones(3, device=1)):
            assert there.device == torch.device("cuda", 1)
            assert there.tolist() == [1, 1, 1]
        assert torch.nn.Linear(2, 1).cuda(1).weight.get_device() == 1
        for make in (x.cuda, x.to, partial(torch.ones, 3)):
            with pytest.raises(torch.AcceleratorError, match="invalid device ordinal"):
                make(device=2)


def test_a_tensor_there_holds_what_was_asked_for():
    """Its numbers and its dtype, in memory of its own."""
    with machine(HERE, TWO):
        x = torch.ones(3)
        assert torch.zeros_like(x, device="cuda").tolist() == [0, 0, 0]
        assert x.new_full((2,), 7, device="cuda").tolist() == [7, 7]
        assert (
            x.to("cuda", torch.float64).dtype
            == x.to(device="cuda", dtype=torch.float64).dtype
            == torch.float64
        )
        for there in (x.to("cuda"), x.cuda(), torch.as_tensor(x, device="cuda")):
            there.zero_()
        assert x.tolist() == [1, 1, 1]
        assert x.is_cpu


def test_what_comes_of_a_tensor_there_is_there_too():
    """And what is brought home is at home."""
    with machine(HERE, TWO, current=1):
        there = torch.zeros(1, device="cuda")
        for one in (there + 1, there.new_empty(3), there.float(), -there):
            assert one.device == torch.device("cuda", 1)
            assert not one.is_cpu
        for one in (there.cpu(), there.to("cpu"), there.to(torch.device("cpu")), (there + 1).cpu()):
            assert one.is_cpu
        assert there.is_cuda
        assert there.item() == 0


def test_whatever_holds_a_tensor_there_is_there():
    """Parameters, modules, views and lists go with their memory."""
    with machine(HERE, TWO, current=1):
        there = torch.zeros(2, device="cuda")
        for one in (
            torch.nn.Parameter(there),
            torch.nn.Linear(2, 1, device="cuda").weight,
            torch.nn.Linear(2, 1).to("cuda").bias,
            torch.nn.Linear(2, 1).to(device="cuda", dtype=torch.float64).bias,
            torch.nn.Linear(2, 1).cuda().bias,
            there.data,
            there[:1],
            torch.stack([there, there]),
        ):
            assert one.device == torch.device("cuda", 1)
        assert torch.nn.Linear(2, 1).cuda().cpu().weight.is_cpu


@pytest.mark.parametrize("here", [(), ("NVIDIA H200",)], ids=["no GPU is here", "a GPU is here"])
def test_the_default_device_is_pretended(here):
    """What is made without a place is made there, and the program's own default stays as it was.

    A GPU that is here, and whose device 0 is current, has no part in it: another pretended machine around
    this one stands for it.
    """
    with pretend(*here), machine(HERE, TWO, current=1):
        torch.set_default_device("cuda")
        assert torch.get_default_device() == torch.empty(0).device == torch.device("cuda", 1)
        assert torch.empty(0, device="cpu").is_cpu
        assert torch.from_numpy(numpy.zeros(1)).is_cpu
        torch.set_default_device(None)
        assert torch.empty(0).is_cpu
        with torch.device("cuda"):
            assert torch.get_default_device() == torch.device("cuda", 1)
        torch.set_default_device("cuda:0")
    assert torch.get_default_device() == torch.device("cpu")


def test_streams_peers_and_contexts():
    """The rest of what says which GPU is current."""
    with machine(HERE, TWO, current=1):
        assert torch.cuda.current_stream().device == torch.device("cuda", 1)
        assert torch.cuda.default_stream("cuda:0").device_index == 0
        assert torch.accelerator.current_stream().device == torch.device("cuda", 1)
        assert torch.cuda.device("cuda").idx == 1
        with torch.cuda.device(0) as nothing:
            assert nothing is None
            assert torch.cuda.current_device() == 0
        assert torch.cuda.can_device_access_peer(0, 1)
    with machine(HERE, (), built=False, other="mps"):
        assert torch.accelerator.current_stream().device == torch.device("mps", 0)
    with machine(HERE, (), built=False), pytest.raises(RuntimeError, match="no NVIDIA driver"):
        torch.cuda.current_stream()


def test_a_gpu_is_started_waited_for_and_asked_for_its_memory():
    """Where there is one; where there is none, each is an error."""
    asks = (torch.cuda.init, torch.cuda.synchronize, torch.cuda.mem_get_info)
    with machine(HERE, TWO):
        assert [ask() for ask in asks] == [None, None, (16 << 30, 16 << 30)]
    with machine(HERE, ()):
        for ask in asks:
            with pytest.raises(RuntimeError, match="no NVIDIA driver"):
                ask()


def test_another_gpu_is_made_current_by_either_name():
    """torch.accelerator and torch.cuda mean the same GPU; on a pretended Mac there is one to choose."""
    with machine(HERE, TWO):
        torch.accelerator.set_device_index(1)
        assert torch.cuda.current_device() == 1
        with torch.accelerator.device_index(0):
            assert torch.cuda.get_device_name() == "NVIDIA H100 PCIe"
        assert torch.accelerator.current_device_index() == 1
    with machine(HERE, (), built=False, other="mps"):
        torch.accelerator.set_device_index(0)
        assert torch.accelerator.current_device_index() == 0


def test_the_accelerators_module_and_its_wait():
    """Whoever writes for any accelerator asks for these without naming one."""
    ask, wait = torch.get_device_module, torch.accelerator.synchronize
    with machine(HERE, TWO):
        assert ask() is ask("cuda") is ask(torch.device("cuda", 1)) is torch.cuda
        assert ask("cpu") is torch.cpu
        wait()
        wait("cuda:1")
    with machine(HERE, (), built=False, other="mps"):
        assert ask() is torch.mps
        wait()
    with machine(HERE, ()):
        assert ask() is torch.cpu
        with pytest.raises(RuntimeError, match="no NVIDIA driver"):
            wait()


def test_names_imported_beforehand_are_pretended_too():
    """`from torch.cuda import device_count` is no way round; afterwards the name is what it was."""
    before = device_count
    with machine(Trial(count_by_an_imported_name, "f()", CPU), TWO):
        assert count_by_an_imported_name() == 2
    assert device_count is before


def test_everything_is_as_before_afterwards():
    """Also when the block raises."""
    before = (torch.cuda.is_available, torch.version.cuda, torch.accelerator.current_accelerator)
    with pytest.raises(KeyError), machine(HERE, TWO):
        raise KeyError
    assert before == (torch.cuda.is_available, torch.version.cuda, torch.accelerator.current_accelerator)


def test_an_answer_cannot_leave_another_device_current():
    """Each row begins with device 0 as the current one, and the learner's own choice comes back."""
    assert [str(device) for device in bench()] == ["cpu", "sim:0", "sim:1"]
    seen = []
    exercise = Exercise("f", "00", "f()", ("D1",), ("a", "b"))

    @exercise.row("is called")
    def called(trial):
        seen.append(torch.accelerator.current_device_index())
        trial.call()

    torch.accelerator.set_device_index(1)
    try:
        judge(exercise, lambda: torch.accelerator.set_device_index(1))
        assert set(seen) == {0}
        assert torch.accelerator.current_device_index() == 1
    finally:
        torch.accelerator.set_device_index(0)


def test_a_mac():
    """MPS is here and CUDA is not, whichever way one asks."""
    with machine(HERE, (), built=False, other="mps"):
        assert torch.backends.mps.is_available()
        assert torch.backends.mps.is_built()
        assert not torch.cuda.is_available()
        assert torch.accelerator.current_accelerator(check_available=True) == torch.device("mps")
        assert torch.empty(0, device="mps").device == torch.device("mps", 0)
        assert torch.ones(1).to("mps").is_mps
        with pytest.raises(RuntimeError, match="no NVIDIA driver"):
            torch.ones(1).cuda()


def test_a_build_for_mps_without_its_gpu():
    """Built for it, and not here: no question but `is_built` and the unchecked one says yes."""
    with machine(HERE, (), built=False, idle="mps"):
        assert torch.backends.mps.is_built()
        assert not torch.backends.mps.is_available()
        assert not torch.accelerator.is_available()
        assert torch.accelerator.current_accelerator() == torch.device("mps")
        assert torch.accelerator.current_accelerator(check_available=True) is None
        with pytest.raises(RuntimeError, match="not linked with support for mps"):
            torch.zeros(1, device="mps")


def test_cuda_goes_before_mps():
    """No machine has both, and an answer is asked about it all the same."""
    with machine(HERE, TWO, other="mps"):
        assert torch.accelerator.current_accelerator() == torch.device("cuda")
        assert torch.backends.mps.is_available()


KEPT = {"questions": [torch.cuda.is_available, torch.backends.mps.is_available]}


def test_a_question_is_pretended_in_whatever_holds_it():
    """The function itself answers, so a list of functions does; afterwards all is as before."""
    cuda, mps = KEPT["questions"]
    before = cuda(), mps()
    with machine(HERE, TWO, other="mps"):
        assert (cuda(), mps()) == (True, True)
    with machine(HERE, ()):
        assert (cuda(), mps()) == (False, False)
    assert (cuda(), mps()) == before


def test_a_lessons_block_can_be_entered_again_and_inside_another():
    """`devlab.pretend` gives each block its own machine, and leaves the outer one's answers as they were."""
    two, none = pretend(*TWO), pretend()
    before = torch.cuda.device_count(), torch.cuda.is_available()
    counts = []
    for block in (two, none, two):
        with block:
            counts.append(torch.cuda.device_count())
    assert counts == [2, 0, 2]
    with two:
        with none:
            assert (torch.cuda.device_count(), torch.cuda.is_available()) == (0, False)
        assert (torch.cuda.device_count(), torch.cuda.is_available()) == (2, True)
        assert torch.zeros(2, device="cuda:1").device == torch.device("cuda", 1)
    assert (torch.cuda.device_count(), torch.cuda.is_available()) == before


@pytest.mark.parametrize(
    ("facts", "built", "available", "unchecked"),
    [
        ({"accelerator": "mps"}, True, True, "mps"),
        ({"built_for": "mps"}, True, False, "mps"),
        ({"built_for": "cuda"}, False, False, "cuda"),
        ({}, False, False, None),
    ],
)
def test_a_lessons_block_pretends_builds_and_macs(facts, built, available, unchecked):
    """What a build is for and what is there are two questions, and both are answered."""
    with pretend(**facts):
        assert torch.backends.mps.is_built() is built
        assert torch.backends.mps.is_available() is torch.accelerator.is_available() is available
        assert torch.accelerator.current_accelerator() == (unchecked and torch.device(unchecked))


@pytest.mark.parametrize(
    ("gpus", "facts"),
    [
        ((), {"accelerator": "cuda"}),
        ((), {"built_for": "tpu"}),
        ((), {"accelerator": "mps", "built_for": "mps"}),
        (TWO, {"built_for": "cuda"}),
    ],
)
def test_a_machine_that_cannot_be_pretended_is_refused(gpus, facts):
    """A kind that PyTorch lacks, and a kind that is at once there and not."""
    with pytest.raises(ValueError, match="can be"):
        pretend(*gpus, **facts)
