"""Verbs: what rows say again and again of an answer, each in one call.

A row names the inputs (`cases`). The verbs call the answer, compare what it gives with what is right, and say
what was wrong.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy
import torch

from devlab.checks import expect, settings
from devlab.checks.calls import AnswerRaised, changed, holdings, leaves
from devlab.checks.trial import Trial
from devlab.checks.values import times

NO_SLIPS: Mapping[str, Callable] = {}
NAMES = {
    bool: "a bool",
    int: "an int",
    float: "a float",
    str: "a str",
    torch.device: "a torch.device",
    torch.dtype: "a torch.dtype",
}


def answers(trial: Trial, *args: object, wanted: object, why: str, what: str = "the answer") -> None:
    """Expect a plain answer, such as a bool, a torch.device or a torch.dtype; `why` is the headline.

    `why` may hold `{got}`. A device that lacks nothing but its index is told so.

    >>> from devlab.checks.trial import Trial
    >>> trial = Trial(lambda x: x.device, "device_of(x)", torch.device("cpu"))
    >>> answers(trial, torch.ones(2), wanted=torch.device("cpu"), why="it is on cpu, and not on {got}")
    """
    got = trial.call(*args)
    expect.kind(got, type(wanted), NAMES[type(wanted)], what)
    if isinstance(wanted, torch.device):
        bare = got.type == wanted.type and got.index is None and wanted.index is not None
        why = "the answer is {got}, without its index" if bare else why
    expect.equal(got, wanted, why.replace("{got}", str(got)))


def counts(
    events: Sequence,
    most: int,
    headline: str,
    asked: str,
    got: str = "{one.line}",
    least: int = 0,
    of: str = "transfer",
    **words: object,
) -> None:
    """Expect no more than `most` events of a log (transfers, waits, launches), and no fewer than `least`.

    The three texts may hold `{one.source}` and whatever else the first event has, `{last…}` of the last,
    `{count}`, `{times}` (the number with its noun), `{causes}`, `{routes}`, and each of `words`.

    >>> from types import SimpleNamespace as Event
    >>> copies = [Event(source="cpu", target="sim:0", cause=".to(…)", line="x.to(d)")] * 2
    >>> counts(copies, 1, "{times} instead of one to {device}", "one", device="sim:0")
    Traceback (most recent call last):
    ...
    devlab.checks.expect.Mismatch: 2 transfers instead of one to sim:0
    """
    count = len(events)
    if least <= count <= most:
        return
    fields = dict(words, count=count, times=times(count, of), causes=causes(events), routes=routes(events))
    if events:
        fields |= {"one": events[0], "last": events[-1]}
    elif "{one" in got or "{last" in got:
        got = "{count}"
    expect.fail(*(text.format(**fields) for text in (headline, asked, got)))


def causes(events: Sequence) -> str:
    """Return what made the events of a log come about, each cause once: `.item() and print`."""
    return " and ".join(dict.fromkeys(str(getattr(one, "cause", "")) for one in events))


def routes(copies: Sequence) -> str:
    """Return the ways of the first transfers of a log: `cpu to sim:0, sim:0 to cpu`."""
    shown = [f"{one.source} to {one.target}" for one in copies[:4] if hasattr(one, "target")]
    return ", ".join(shown) + (" …" if len(copies) > 4 else "")


def pull(result: torch.Tensor) -> None:
    """Run backward from a result, in such a way that a gradient comes from where it is 0, too.

    The graph stays, so that `flows` may ask for the gradients of several leaves of one result.

    >>> pull(x := torch.zeros(2, requires_grad=True)); x.grad
    tensor([2., 2.])
    """
    (result.float() + 1).square().sum().backward(retain_graph=True)


def gradient(function: Callable, source: torch.Tensor, pull: Callable = pull) -> torch.Tensor:
    """Return the gradient that `pull` sends through a function, at a source, on the CPU.

    >>> gradient(lambda x: 3 * x, torch.ones(2))
    tensor([24., 24.])
    """
    leaf = source.detach().cpu().clone().requires_grad_()
    pull(function(leaf))
    return leaf.grad


def flows(
    result: object,
    source: torch.Tensor,
    wanted: torch.Tensor | Callable | None,
    what: str = "x",
    cut: str = "the result has left the graph",
    broken: str = "no backward leads through the result any more",
    none: str = "no gradient reaches {what}",
    wrong: str = "the gradient that reaches {what}",
    asked: str = "a gradient that reaches {what}",
    within: float = 1e-3,
    pull: Callable = pull,
) -> None:
    """Expect that the wanted gradient flows from the result back to a leaf that asks for one.

    `wanted` is that gradient, or the function whose gradient it is, or None where any will do. `pull` runs
    backward. The texts may hold `{what}`.

    >>> x = torch.ones(2, requires_grad=True)
    >>> flows(3 * x, x, lambda x: 3 * x)
    >>> flows(3 * x.detach(), x, None)
    Traceback (most recent call last):
    ...
    devlab.checks.expect.Mismatch: the result has left the graph
    """
    cut, broken, none, wrong, asked = (
        one.replace("{what}", what) for one in (cut, broken, none, wrong, asked)
    )
    expect.kind(result, torch.Tensor, "a tensor")
    if not result.requires_grad:
        expect.fail(cut, asked, result)
    source.grad = None
    try:
        pull(result)
    except Exception as error:  # a graph that the answer has used up, or whose tensors it has changed
        expect.fail(broken, asked, f"{type(error).__name__}: {error}")
    if source.grad is None:
        expect.fail(none, asked, "none")
    if callable(wanted):
        wanted = gradient(wanted, source, pull)
    if wanted is not None:
        expect.values(source.grad, wanted, wrong, within=within)


def raises(
    trial: Trial,
    *args: object,
    kind: type[BaseException],
    asked: str,
    nothing: str,
    says: Mapping[str, Callable[[str], bool]] = NO_SLIPS,
    other: str = "{other} was raised, not a {kind}",
) -> BaseException:
    """Expect the answer to raise, and return its exception.

    `nothing` is the headline where nothing was raised, `other` where something else was; it may hold
    `{other}`, such as "a KeyError", and `{name}`, such as "KeyError". `says` has a headline for each thing
    that the message must say, and tells whether a message says it. An exception that was returned is told to
    be raised.

    >>> from devlab.checks.trial import Trial
    >>> trial = Trial(int, "f(x)", torch.device("cpu"))
    >>> raises(trial, "a", kind=ValueError, asked="a ValueError", nothing="nothing was raised",
    ...        says={"the error does not say `literal`": lambda text: "literal" in text})
    ValueError("invalid literal for int() with base 10: 'a'")
    """
    try:
        got = trial.call(*args)
    except AnswerRaised as raised:
        error = raised.error
    else:
        if isinstance(got, kind):
            nothing = f"{expect.a_type(got)} was returned, and nothing was raised: `raise` it"
        expect.fail(nothing, asked, got)
    if not isinstance(error, kind):
        headline = other.replace("{other}", expect.a_type(error)).replace("{kind}", kind.__name__)
        headline = headline.replace("{name}", type(error).__name__)
        expect.fail(headline, asked, f"{error!r}")
    for headline, is_said in says.items():
        if not is_said(str(error)):
            expect.fail(headline, asked, f'{kind.__name__}: "{error}"')
    return error


@contextlib.contextmanager
def untouched(
    value: object, headline: str, asked: str = "as it came", got: str = "`{path}`"
) -> Iterator[None]:
    """Expect of a block that a module, and whatever it holds, comes out of it as it went in.

    Where it is another, registered or not, of other numbers or elsewhere, `{path}` in the texts says what.

    >>> model = torch.nn.Linear(2, 1)
    >>> with untouched(model, "`{path}` of the model was changed"):
    ...     _ = model.eval()
    Traceback (most recent call last):
    ...
    devlab.checks.expect.Mismatch: `training` of the model was changed
    """
    before = holdings(value)
    yield
    if path := changed(before, value):
        expect.fail(*(text.replace("{path}", path) for text in (headline, asked, got)))


def at_once(trial: Trial, *args: object, what: str = "{result}", values: str = "values") -> object:
    """Call the answer, and expect that all in its result that is on the host has arrived by then.

    Nothing of ours touches a device before the host has looked: that would wait for copies under way. The
    host looks at the end of each tensor first, which arrives last. A row calls `keep_busy` before, so that a
    copy is still under way then. `what` names the result in the headline; `{result}` in it becomes "the
    result" and the path inside of it.
    """
    before = trial.snapshot(*args)
    got = trial.call(*args, changes=True)
    here = [(path, one) for path, one in leaves(got) if _is_on_host(one)]
    looked = [(path, end, _seen(end)) for path, end in ((path, one[-1:]) for path, one in here if one.ndim)]
    there = looked + [(path, one, _seen(one)) for path, one in here]
    before.require_untouched(args)
    for device in (trial.device, *trial.others):
        if there and device.type != "cpu":
            torch.accelerator.synchronize(device)
    for path, one, then in there:
        if _seen(one).tobytes() != then.tobytes():
            headline = f"{what.replace('{result}', f'the result{path}')} was returned before "
            headline += "its numbers had arrived" if values == "numbers" else "the copy had arrived"
            late = f"what that memory held before: the {values} came later"
            expect.fail(headline, f"the {values} at once", late)
    return got


def _is_on_host(value: object) -> bool:
    return isinstance(value, numpy.ndarray) or (isinstance(value, torch.Tensor) and value.is_cpu)


def _seen(value: torch.Tensor | numpy.ndarray) -> numpy.ndarray:
    """Return a copy of the bytes that the host sees now."""
    if isinstance(value, numpy.ndarray):
        return value.copy()
    plain = value.detach().clone(memory_format=torch.contiguous_format).resolve_conj().resolve_neg()
    return plain.reshape(-1).view(torch.uint8).numpy() if plain.numel() else numpy.zeros(0)


@contextlib.contextmanager
def aside(trial: Trial) -> Iterator[None]:
    """Let a block call the answer to find out more: the verdict stays about the call before."""
    call, situation = trial.last_call, trial.situation
    try:
        yield
    finally:
        trial.last_call, trial.situation = call, situation


def kept(
    trial: Trial, *args: object, device: torch.device | None = None, dtype: torch.dtype | None = None
) -> object:
    """Call the answer as `trial.call` does, with these defaults in force; a verdict names them.

    For tasks that promise a result whatever the defaults are. That the settings stay as they are is part of
    every call.
    """
    asked, left = settings.Unusual(device, dtype), []

    @functools.wraps(trial.answer)
    def called(*args: object) -> object:
        with asked.in_force():
            before = settings.now()
            result = trial.answer(*args)
            left.extend(settings.changes(before))
            return result

    trial.require_parameters(args)
    values = {"default device": device, "default dtype": dtype}
    told = " and ".join(settings.WORDS[name](value) for name, value in values.items() if value)
    got = trial.run(called, *args, label=f"after {told}: {trial.name}" if told else trial.name)
    if left:  # raised here, because in there it would be an exception of the learner's
        raise left[0]
    return got


@contextlib.contextmanager
def current(device: torch.device) -> Iterator[None]:
    """Make a device the one that a bare name of its kind means, for a block; of the CPU there is one."""
    if device.type == "cpu":
        yield
        return
    before = torch.accelerator.current_device_index()
    torch.accelerator.set_device_index(device.index)
    try:
        yield
    finally:
        torch.accelerator.set_device_index(before)
