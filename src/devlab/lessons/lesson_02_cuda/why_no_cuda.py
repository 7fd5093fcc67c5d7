"""Why CUDA cannot be used: the first cause that holds."""

import itertools

from devlab.checks import expect, pretend
from devlab.lessons.lesson_02_cuda import lesson

why_no_cuda = lesson.exercise(
    "why_no_cuda",
    signature="why_no_cuda(facts)",
    facts=("A4",),
    hints=(
        "Four questions in the order of the task, each with its own `return`. What passes all four is "
        "available.",
        'The last question has two forms: the texts "" and "-1" hide all GPUs, None and any other text '
        'do not. "0" is the first GPU, so it hides nothing.',
        '`if facts["build"] == "cpu": return "cpu-only build"`, then `if not facts["gpu"]`, then '
        '`if not facts["driver"]`, and at last `if facts["visible"] in ("", "-1"): return "hidden"`.',
    ),
)

HIDING = ("", "-1")
SHOWING = (None, "0", "1", "0,1", "3,0,2", "0,-1", "11", "GPU-4f2c1a", "GPU-1f2c4a")
CAUSES = ("cpu-only build", "no GPU", "no driver", "hidden")


def _facts(build="cuda", gpu=True, driver=True, visible=None) -> dict:
    return {"build": build, "gpu": gpu, "driver": driver, "visible": visible}


def _holding(facts: dict) -> list[str]:
    """Return all causes that hold, in the order of the task."""
    told = (
        facts["build"] == "cpu",
        facts["gpu"] is False,
        facts["driver"] is False,
        facts["visible"] in HIDING,
    )
    return [cause for cause, holds in zip(CAUSES, told, strict=True) if holds]


def _expect_answer(trial, facts: dict) -> None:
    holding = _holding(facts)
    got = trial.call(facts)
    expect.kind(got, str, "a str", "the answer")
    wanted = holding[0] if holding else "available"
    if got == wanted:
        return
    if got not in (*CAUSES, "available"):
        expect.fail(f'"{got}" is none of the five answers', f'"{wanted}"', f'"{got}"')
    if got in holding:
        expect.fail(f'"{got}" holds, but "{wanted}" comes before it', f'"{wanted}"', f'"{got}"')
    if got == "hidden":
        told = "that is not set (None)" if facts["visible"] is None else f'= "{facts["visible"]}"'
        expect.fail(f"CUDA_VISIBLE_DEVICES {told} hides nothing", f'"{wanted}"', f'"{got}"')
    if wanted == "hidden":
        told = f'CUDA_VISIBLE_DEVICES = "{facts["visible"]}"'
        expect.fail(f"{told} hides every GPU", f'"{wanted}"', f'"{got}"')
    fact = {"cpu-only build": "build", "no GPU": "gpu", "no driver": "driver"}
    if got != "available":
        why = f'`facts["{fact[got]}"]` is {facts[fact[got]]!r}, which is not a reason for "{got}"'
        expect.fail(why, f'"{wanted}"', f'"{got}"')
    why = f'`facts["{fact[wanted]}"]` is {facts[fact[wanted]]!r}, and the answer is "available"'
    expect.fail(why, f'"{wanted}"', f'"{got}"')


@why_no_cuda.row("each cause, when it is the only one")
def each_cause(trial):
    for only in ({"build": "cpu"}, {"gpu": False}, {"driver": False}, {"visible": ""}):
        _expect_answer(trial, _facts(**only))
    with pretend.machine(trial, ("NVIDIA L4",)):  # the facts count, not the machine that judges
        _expect_answer(trial, _facts(gpu=False))


@why_no_cuda.row("available, when none holds")
def available(trial):
    _expect_answer(trial, _facts())


@why_no_cuda.row("what hides the GPUs, and what does not")
def hidden_or_not(trial):
    for visible in (*SHOWING, *HIDING):
        _expect_answer(trial, _facts(visible=visible))


@why_no_cuda.row("the first cause, when several hold")
def first_of_several(trial):
    for build, gpu, driver, visible in itertools.product(
        ("cpu", "cuda"), (False, True), (False, True), (*HIDING, None, "0")
    ):
        _expect_answer(trial, _facts(build, gpu, driver, visible))
