"""Which is faster: the size from which the accelerator pays for its transfers."""

from devlab.checks import expect
from devlab.lessons.lesson_07_asynchrony.base import lesson

crossover = lesson.exercise(
    "crossover",
    signature="crossover(sizes, cpu_times, device_times, transfer_times)",
    facts=("V1", "V2", "V4", "V5"),
    hints=(
        "What does a result from the device cost in all, and what does it have to beat?",
        "Go through the four lists together, in order, with `zip`. An equal time beats nothing.",
        "Return the first size where `device + transfer < cpu`; after the loop, `return None`.",
    ),
)


def _judge(trial, sizes, cpu, device, transfer, wanted, headline):
    got = trial.call(sizes, cpu, device, transfer)
    if wanted is None and got is not None:
        expect.fail(headline, "None", got)
    if wanted is not None:
        if got is None:
            expect.fail(f"None, though the device wins at size {wanted}", str(wanted), "None")
        expect.kind(got, int, "an int")
        expect.equal(got, wanted, headline)


@crossover.row("the first size where the device wins")
def first_size(trial):
    sizes = [8, 64, 512, 4096]
    _judge(trial, sizes, [1.0, 2.0, 9.0, 80.0], [3.0, 3.0, 3.0, 4.0], [1.0, 1.0, 2.0, 6.0], 512,
           "not the first size at which the device wins")  # fmt: skip
    _judge(trial, sizes, [9.0, 9.0, 9.0, 80.0], [3.0] * 4, [1.0] * 4, 8, "the device wins from the start")
    _judge(trial, sizes, [1.0, 9.0, 2.0, 80.0], [3.0] * 4, [1.0] * 4, 64,
           "the first win counts, though a later size loses again")  # fmt: skip


@crossover.row("the transfer counts")
def transfer_counts(trial):
    _judge(trial, [10, 20, 30], [4.0, 5.0, 9.0], [1.0, 1.0, 1.0], [5.0, 6.0, 7.0], 30,
           "the transfers were left out")  # fmt: skip


@crossover.row("an equal time is no win")
def ties(trial):
    _judge(trial, [10, 20], [4.0, 8.0], [3.0, 3.0], [1.0, 1.0], 20, "an equal time was taken for a win")
    _judge(trial, [10, 20], [4.0, 8.0], [3.0, 3.0], [0.999, 1.0], 10, "a narrow win is a win, too")


@crossover.row("None where the CPU always wins")
def never(trial):
    _judge(trial, [10, 20], [1.0, 2.0], [3.0, 3.0], [1.0, 1.0], None, "the device never wins here")
    _judge(trial, [], [], [], [], None, "there is no size to return")
