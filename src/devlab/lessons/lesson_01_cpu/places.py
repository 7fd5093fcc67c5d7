"""The devices that the tensors of a batch are on."""

import collections
import dataclasses
import functools
import types

import numpy
import torch

from devlab.checks import expect
from devlab.checks.verbs import aside
from devlab.lessons.lesson_01_cpu import lesson

places = lesson.exercise(
    "places(batch)",
    ("D1", "C4"),
    "A batch may be a tensor, a container, or something that does not count. Write an answer for each of the "
    "three, and let the function call itself for what is inside a container.",
    "For a tensor the answer is `{batch.device}`. For a dict go on with `batch.values()`, for a list or "
    "tuple with its items, and for anything else return `set()`.",
    "Unite the sets that come from inside: `set().union(*(places(item) for item in items))` is an empty set "
    "where there are no items.",
)

Sample = collections.namedtuple("Sample", "image label")
Box = dataclasses.make_dataclass("Box", ["x"])


def _expect_places(trial, batch: object, wanted: set, headline: str) -> None:
    got = trial.call(batch)
    expect.kind(got, (set, frozenset), "a set", "the answer")
    got = set(got)  # a copy, because the answer may keep its set and add to it at a later call
    for one in got:
        said = f"the set holds {expect.a_type(one)}, not a torch.device"
        expect.that(isinstance(one, torch.device), said, f'device("{trial.device}")', got)
    if {one.type for one in got if one.index is None} & {one.type for one in wanted if one.index is not None}:
        headline = f"{_names(got)} came without its index"
    elif more := got - wanted:
        with aside(trial):
            _explain_what_is_more(trial, batch, more)
        headline = f"no tensor of the batch is on {_names(more)}"
    if got != wanted:
        expect.fail(headline, _names(wanted), _names(got))


def _explain_what_is_more(trial, batch: object, more: set) -> None:
    """Say where wrong devices come from: from an earlier call, or from a value that is no tensor."""
    trial.call([torch.empty(0, device="meta")], changes=True)  # no batch of the rows is on that device
    kept = trial.call([])
    if isinstance(kept, set | frozenset) and torch.device("meta") in kept:
        said = "devices of an earlier batch are still in the set: it is kept from call to call"
        got = "the devices of the batch before, too; a default such as `found=set()` is made only once"
        expect.fail(said, "a new set at every call", got)
    items = batch.values() if isinstance(batch, dict) else batch if isinstance(batch, list | tuple) else ()
    for value in items:
        if isinstance(value, torch.Tensor | list | tuple | dict):
            continue
        alone = trial.call([value])
        if isinstance(alone, set | frozenset) and set(alone) & more:
            what = expect.shorten(expect.describe(value), 30)
            said = f"{what} was counted, and it is no tensor, dict, list or tuple"
            expect.fail(said, "no device for such a value", _names(set(alone)))


def _names(devices: set) -> str:
    return " and ".join(sorted(map(str, devices))) or "no device"


def _here(trial, seed: int = 0) -> torch.Tensor:
    return trial.randn(3, 2, seed=seed)


@places.row("a set of torch.device")
def a_set_of_devices(trial):
    for batch in ([_here(trial), _here(trial, 1)], [_here(trial).sum()]):
        _expect_places(trial, batch, {trial.device}, f"the tensors are on {trial.device}")
    _expect_places(trial, {"x": _here(trial)}, {trial.device}, "a tensor in a dict was missed")
    _expect_places(trial, _here(trial), {trial.device}, "the batch is a tensor itself, and that counts too")


@places.row("looks into dicts, lists and tuples")
def looks_inside(trial):
    x = _here(trial)
    batches = {
        "a tensor in a tuple": (x, 3),
        "a tensor in a list in a list": [[x]],
        "a tensor in a dict in a list": [3, {"x": x}],
        "a tensor in a list in a dict": {"a": "text", "xs": [x]},
        "a tensor in a dict in a dict": {"a": {"b": {"c": x}}},
        "a tensor in a tuple in a list": [("name", x)],
        "a tensor in a namedtuple": {"sample": Sample(image=x, label=3)},
        "a tensor in a list in a namedtuple": Sample(image=3, label=[x]),
        "a tensor under a key that is a number": {3: x},
        "a tensor in an OrderedDict": collections.OrderedDict(a=[], b=(x,)),
        "an empty tensor": [{"e": x[:0]}],
        "a transposed view": [x.t()],
        "a tensor in a graph": [x.clone().requires_grad_() * 2],
        "a tensor of integers": [x.long()],
        "a tensor of booleans": [x > 0],
        "a parameter": [[torch.nn.Parameter(x)]],
        "a tensor seven containers deep": ({"a": [({"b": [(3, x)]},)]},),
        "a tensor forty containers deep": functools.reduce(lambda inside, _: [inside], range(40), x),
    }
    for words, batch in batches.items():
        _expect_places(trial, batch, {trial.device}, f"{words} was missed")


@places.row("passes over what is no tensor")
def passes_over_the_rest(trial):
    others = [3, 2.5, "sim:1", None, True, b"ab", {"meta"}, range(3)]
    others += [numpy.ones((2, 2)), trial.device, torch.float32]
    others += [types.SimpleNamespace(x=_here(trial), device=trial.device)]
    others += [torch.nn.Linear(2, 1).to(trial.device)]
    got = trial.call([numpy.ones(2)])
    if isinstance(got, set | frozenset) and any(isinstance(one, str) for one in got):
        said = "a NumPy array was counted: its own `.device` is a text, and it is no tensor"
        expect.fail(said, "the devices of tensors alone", got)
    _expect_places(trial, [*others, _here(trial)], {trial.device}, "other values count for nothing")
    # None of these is a container that the task names.
    others += [{_here(trial)}, frozenset({_here(trial)}), {"x": _here(trial)}.values()]
    others += [collections.UserList([_here(trial)]), iter([_here(trial)]), Box(_here(trial))]
    _expect_places(trial, dict(enumerate(others)), set(), "other values count for nothing")
    _expect_places(trial, "a text", set(), "a batch that is a text has no device")
    got = trial.call({_here(trial): 3, (1, _here(trial)): "a text"})
    expect.equal(got, set(), "a tensor that is a key was counted: of a dict, the values count")


@places.row("names every device of a mixed batch")
def every_device(trial):
    everywhere = (trial.device, *trial.others)
    pieces = [trial.randn(2, seed=seed, on=device) for seed, device in enumerate(everywhere)]
    headline = f"the tensors of the batch are on {_names(set(everywhere))}"
    first, last = pieces[0], pieces[-1]
    nested = [{"x": first}, {"y": [last], "more": tuple(pieces)}]
    for batch in (pieces, nested, {"a": (pieces,), "b": [first]}):
        _expect_places(trial, batch, set(everywhere), headline)
    two = [{"x": first}, [{"deep": [last]}]]
    _expect_places(trial, two, {first.device, last.device}, "a device was missed")
    trial.other()  # on the CPU alone no batch is mixed


@places.row("nothing inside gives an empty set")
def nothing_inside(trial):
    # A full batch goes first: a set that the answer keeps from call to call is not empty afterwards.
    _expect_places(trial, [_here(trial)], {trial.device}, f"the tensor is on {trial.device}")
    for empty in ([], {}, (), [[], {"a": ()}]):
        _expect_places(trial, empty, set(), "an empty batch is nowhere")
