"""Why CUDA cannot be used: the first cause that holds."""

import itertools
import os
from unittest import mock

from devlab.checks import expect, pretend
from devlab.lessons.lesson_02_cuda import lesson

why_no_cuda = lesson.exercise(
    "why_no_cuda(facts)",
    ("A4",),
    "Ask the four questions in the order of the task, each with its own `return`. A machine that passes all "
    "four is available.",
    'Two texts hide every GPU, "" and "-1". None means that the variable is not set, which hides nothing, '
    'and "0" is the first GPU.',
    '`if facts["build"] == "cpu": return "cpu-only build"`, then `if not facts["gpu"]`, then `if not '
    'facts["driver"]`, and at last `if facts["visible"] in ("", "-1"): return "hidden"`.',
)

HIDING = ("", "-1")
SHOWING = (None, "0", "1", "0,1", "3,0,2", "0,-1", "1,-1,0", "11", "GPU-4f2c1a", "GPU-1f2c4a", "MIG-1f2c-1a")
CAUSES = ("cpu-only build", "no GPU", "no driver", "hidden")
KEYS = ("build", "gpu", "driver", "visible")
# The fact that tells each of the first three causes.
FACTS = {"cpu-only build": "build", "no GPU": "gpu", "no driver": "driver"}


def _expect_answer(trial, build="cuda", gpu=True, driver=True, visible=None, order=KEYS) -> None:
    values = {"build": build, "gpu": gpu, "driver": driver, "visible": visible}
    facts = {key: values[key] for key in order}
    holds = (build == "cpu", not gpu, not driver, visible in HIDING)
    holding = [*itertools.compress(CAUSES, holds), "available"]
    got, wanted = trial.call(facts), holding[0]
    expect.kind(got, str, "a str", "the answer")
    if got == wanted:
        return
    told = "that is not set (None)" if visible is None else f'= "{visible}"'
    if got not in (*CAUSES, "available"):
        why = f'"{got}" is none of the five answers'
    elif got in holding and got != "available":
        why = f'"{got}" holds, but "{wanted}" comes before it'
    elif got == "hidden":
        why = f"CUDA_VISIBLE_DEVICES {told} hides nothing"
    elif wanted == "hidden":
        why = f"CUDA_VISIBLE_DEVICES {told} hides every GPU"
    elif fact := FACTS.get(got):
        why = f'`facts["{fact}"]` is {facts[fact]!r}, which is not a reason for "{got}"'
    else:
        fact = FACTS[wanted]
        why = f'`facts["{fact}"]` is {facts[fact]!r}, and the answer is "available"'
    expect.fail(why, f'"{wanted}"', f'"{got}"')


@why_no_cuda.row("each cause, when it is the only one")
def each_cause(trial):
    for only in ({"build": "cpu"}, {"gpu": False}, {"driver": False}, {"visible": ""}):
        _expect_answer(trial, **only)
    with pretend.machine(trial, ("NVIDIA L4",)):  # the facts count, not the machine that judges
        for only in ({"gpu": False}, {"driver": False}, {"build": "cpu"}):
            _expect_answer(trial, **only)


@why_no_cuda.row("available, when none holds")
def available(trial):
    _expect_answer(trial)
    with pretend.machine(trial, (), built=False):
        _expect_answer(trial)


@why_no_cuda.row("what hides the GPUs, and what does not")
def hidden_or_not(trial):
    for visible in (*SHOWING, *HIDING):
        _expect_answer(trial, visible=visible)
    facts = {"build": "cuda", "gpu": True, "driver": True, "visible": None}
    with pretend.machine(trial, ("NVIDIA L4",)), mock.patch.dict(os.environ, CUDA_VISIBLE_DEVICES="-1"):
        got = trial.call(facts)
    said = 'CUDA_VISIBLE_DEVICES="-1" of this machine (pretended) was read, and not `facts["visible"]`'
    expect.that(got != "hidden", said, '"available"', '"hidden"')


@why_no_cuda.row("the first cause, when several hold")
def first_of_several(trial):
    for facts in itertools.product(("cpu", "cuda"), (False, True), (False, True), (*HIDING, None, "0")):
        _expect_answer(trial, *facts)


@why_no_cuda.row("whatever the order of the facts")
def in_another_order(trial):
    for order in (KEYS[::-1], ("driver", "visible", "build", "gpu")):
        for facts in (
            {"build": "cpu"},
            {"gpu": False, "driver": False},
            {"driver": False},
            {"visible": "-1"},
            {},
        ):
            _expect_answer(trial, **facts, order=order)
