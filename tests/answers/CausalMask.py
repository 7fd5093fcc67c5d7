"""Answers to CausalMask."""

import functools

import torch
from bank import right, wrong
from torch import nn


@right
class CutFromTheTriangle(nn.Module):
    def __init__(self, max_length):
        super().__init__()
        self.register_buffer("mask", torch.ones(max_length, max_length, dtype=torch.bool).triu(1))

    def forward(self, x):
        time = x.shape[1]
        return self.mask[:time, :time]


@right
class ByComparingSteps(nn.Module):
    def __init__(self, max_length):
        super().__init__()
        steps = torch.arange(max_length)
        self.register_buffer("mask", steps.unsqueeze(0) > steps.unsqueeze(1), persistent=True)

    def forward(self, x):
        return self.mask.narrow(0, 0, x.size(1)).narrow(1, 0, x.size(1)).clone()


@right
class KeepsThePast(nn.Module):
    def __init__(self, max_length):
        nn.Module.__init__(self)
        self.mask = nn.Buffer(torch.tril(torch.ones(max_length, max_length)))

    def forward(self, x):
        _, time = x.shape[:2]
        return self.mask[:time, :time] == 0


@right
class WithABatchDimension(nn.Module):
    def __init__(self, max_length):
        super().__init__()
        mask = torch.zeros(1, max_length, max_length, dtype=torch.bool)
        for step in range(max_length):
            mask[:, step, step + 1 :] = True
        self.register_buffer("mask", mask)

    def forward(self, x):
        time = x.shape[1]
        return self.mask[0, :time, :time].to(x.device)


@right
class InBytes(nn.Module):
    def __init__(self, max_length):
        super().__init__()
        self.register_buffer("mask", torch.full((max_length, max_length), 2, dtype=torch.uint8).triu(1))

    def forward(self, x):
        return self.mask[-x.shape[1] :, -x.shape[1] :].bool()


@right
class AsAddedToScores(nn.Module):
    def __init__(self, max_length):
        super().__init__()
        self.register_buffer("mask", torch.full((max_length, max_length), float("-inf")).triu(1))

    def forward(self, x):
        return self.mask[: x.shape[1], : x.shape[1]].isinf()


class Mask(nn.Module):
    """What most wrong answers share: a good triangle, well registered."""

    def __init__(self, max_length):
        super().__init__()
        self.register_buffer("mask", torch.ones(max_length, max_length, dtype=torch.bool).triu(1))

    def forward(self, x):
        time = x.shape[1]
        return self.mask[:time, :time]


@wrong("`mask` is a plain attribute: `.to` leaves it behind", row="`mask` is a buffer, and forward reads it")
class PlainAttribute(nn.Module):
    def __init__(self, max_length):
        super().__init__()
        self.mask = torch.ones(max_length, max_length, dtype=torch.bool).triu(1)

    def forward(self, x):
        return self.mask[: x.shape[1], : x.shape[1]]


@wrong("`mask` is a plain attribute: `.to` leaves it behind", row="`mask` is a buffer, and forward reads it")
class PlainAttributeMovedEachTime(nn.Module):
    def __init__(self, max_length):
        super().__init__()
        self.mask = torch.ones(max_length, max_length, dtype=torch.bool).triu(1)

    def forward(self, x):
        return self.mask.to(x.device)[: x.shape[1], : x.shape[1]]


@wrong("`mask` is a parameter: an optimizer would train it", row="`mask` is a buffer, and forward reads it")
class AsAParameter(nn.Module):
    def __init__(self, max_length):
        super().__init__()
        triangle = torch.ones(max_length, max_length, dtype=torch.bool).triu(1)
        self.mask = nn.Parameter(triangle, requires_grad=False)

    def forward(self, x):
        return self.mask[: x.shape[1], : x.shape[1]].detach()


@wrong(
    "forward answers from another tensor than the buffer `mask`",
    row="`mask` is a buffer, and forward reads it",
)
class RebuiltOnTheCpu(Mask):
    def forward(self, x):
        time = x.shape[1]
        return torch.ones(time, time, dtype=torch.bool).triu(1)


@wrong(
    "forward answers from another tensor than the buffer `mask`",
    row="`mask` is a buffer, and forward reads it",
)
class RebuiltOnTheDevice(Mask):
    def forward(self, x):
        time = x.shape[1]
        return torch.ones(time, time, dtype=torch.bool, device=x.device).triu(1)


@wrong("there is no buffer named `mask` after __init__", row="`mask` is a buffer, and forward reads it")
class RebuiltAndNeverRegistered(nn.Module):
    def __init__(self, max_length):
        super().__init__()
        self.max_length = max_length

    def forward(self, x):
        time = x.shape[1]
        return torch.ones(time, time, dtype=torch.bool, device=x.device).triu(1)


@wrong("`mask` is not saved: the state_dict lacks it", row="it is saved with the model")
class NotSaved(Mask):
    def __init__(self, max_length):
        super().__init__(max_length)
        self.register_buffer("mask", self.mask.clone(), persistent=False)


@wrong("there is no buffer named `mask` after __init__", row="`mask` is a buffer, and forward reads it")
class AnotherName(nn.Module):
    def __init__(self, max_length):
        super().__init__()
        self.register_buffer("causal", torch.ones(max_length, max_length, dtype=torch.bool).triu(1))

    def forward(self, x):
        return self.causal[: x.shape[1], : x.shape[1]]


@wrong("there is no buffer named `mask` after __init__", row="`mask` is a buffer, and forward reads it")
class MadeAtTheFirstForward(nn.Module):
    def __init__(self, max_length):
        super().__init__()
        self.register_buffer("mask", None)
        self.max_length = max_length

    def forward(self, x):
        if self.mask is None:
            triangle = torch.ones(self.max_length, self.max_length, dtype=torch.bool, device=x.device)
            self.mask = triangle.triu(1)
        return self.mask[: x.shape[1], : x.shape[1]]


@wrong("the mask is torch.float32, not torch.bool", row="True for the future, at every length")
class AsFloats(nn.Module):
    def __init__(self, max_length):
        super().__init__()
        self.register_buffer("mask", torch.ones(max_length, max_length).triu(1))

    def forward(self, x):
        return self.mask[: x.shape[1], : x.shape[1]]


@wrong(
    "the diagonal is True as well, as if each step lay in its own future",
    row="True for the future, at every length",
)
class DiagonalHidden(nn.Module):
    def __init__(self, max_length):
        super().__init__()
        self.register_buffer("mask", torch.ones(max_length, max_length, dtype=torch.bool).triu())

    def forward(self, x):
        return self.mask[: x.shape[1], : x.shape[1]]


@wrong(
    "the past and the present are True and the future False: it is the other way round",
    row="True for the future, at every length",
)
class ThePastInstead(Mask):
    def forward(self, x):
        return ~super().forward(x)


@wrong(
    "the whole buffer came back: it was not cut to the time of x", row="True for the future, at every length"
)
class NotCut(Mask):
    def forward(self, x):
        return self.mask


@wrong(
    "the mask is for 2 steps, the batch size of x, and not for its time, 4",
    row="True for the future, at every length",
)
class TimeFromTheBatch(Mask):
    def forward(self, x):
        return self.mask[: len(x), : len(x)]


@wrong(
    "the mask is for 4 steps, the batch size of x, and not for its time, 7",
    row="True for the future, at every length",
)
class TimeFromTheEnd(Mask):
    def forward(self, x):
        return self.mask[: x.shape[-2], : x.shape[-2]]


@wrong(
    "forward answers from another tensor than the buffer `mask`",
    row="`mask` is a buffer, and forward reads it",
)
class CachedByLength(Mask):
    def __init__(self, max_length):
        super().__init__(max_length)
        self._cut = {}

    def forward(self, x):
        time = x.shape[1]
        if time not in self._cut:
            self._cut[time] = self.mask[:time, :time]
        return self._cut[time]


@wrong(
    "forward answers from another tensor than the buffer `mask`",
    row="`mask` is a buffer, and forward reads it",
)
class HeldUnderASecondName(Mask):
    def __init__(self, max_length):
        super().__init__(max_length)
        self.triangle = self.mask

    def forward(self, x):
        return self.triangle[: x.shape[1], : x.shape[1]]


@wrong(
    "forward answers from another tensor than the buffer `mask`",
    row="`mask` is a buffer, and forward reads it",
)
class CachedByTheStandardLibrary(Mask):
    @functools.lru_cache  # noqa: B019
    def cut(self, time):
        return self.mask[:time, :time]

    def forward(self, x):
        return self.cut(x.shape[1])


@wrong("`scale` is a parameter: an optimizer would train it", row="`mask` is a buffer, and forward reads it")
class WithSomethingToTrain(Mask):
    def __init__(self, max_length):
        super().__init__(max_length)
        self.scale = nn.Parameter(torch.ones(()))


@wrong("wherever the model will be", row="`mask` is a buffer, and forward reads it")
class OnTheAcceleratorFromTheStart(Mask):
    def __init__(self, max_length):
        super().__init__(max_length)
        self.mask = self.mask.to(torch.accelerator.current_accelerator())


@wrong(
    "what CausalMask(6) makes is a NoModule, not an nn.Module", row="`mask` is a buffer, and forward reads it"
)
class NoModule:
    def __init__(self, max_length):
        self.mask = torch.ones(max_length, max_length, dtype=torch.bool).triu(1)

    def __call__(self, x):
        return self.mask[: x.shape[1], : x.shape[1]]


@wrong("the mask is None: is a `return` missing?", row="`mask` is a buffer, and forward reads it")
class Forgetful(Mask):
    def forward(self, x):
        self.mask[: x.shape[1], : x.shape[1]]


@wrong("before Module.__init__() call", row="`mask` is a buffer, and forward reads it")
class WithoutSuper(nn.Module):
    def __init__(self, max_length):
        self.register_buffer("mask", torch.ones(max_length, max_length, dtype=torch.bool).triu(1))

    def forward(self, x):
        return self.mask[: x.shape[1], : x.shape[1]]


@wrong(
    "forward cut the buffer `mask` itself, and a longer x no longer fits",
    row="True for the future, at every length",
)
class CutsTheBufferItself(Mask):
    def forward(self, x):
        self.mask = self.mask[: x.shape[1], : x.shape[1]]
        return self.mask


@wrong("CausalMask was never made a module", row="`mask` is a buffer, and forward reads it")
class WithoutSuperOrRegister(nn.Module):
    def __init__(self, max_length):
        self.mask = torch.triu(torch.ones(max_length, max_length, dtype=torch.bool), 1)

    def forward(self, x):
        return self.mask[: x.shape[1], : x.shape[1]].to(x.device)


@wrong("the buffer `mask` holds only zeros", row="`mask` is a buffer, and forward reads it")
class NeverFilled(nn.Module):
    def __init__(self, max_length):
        super().__init__()
        self.register_buffer("mask", torch.zeros(max_length, max_length, dtype=torch.bool))

    def forward(self, x):
        return self.mask[: x.shape[1], : x.shape[1]]


@wrong(
    "the buffer `mask` does not hold the triangle, although forward gives the right mask",
    row="True for the future, at every length",
)
class TriangleAtEveryCall(nn.Module):
    def __init__(self, max_length):
        super().__init__()
        self.register_buffer("mask", torch.ones(max_length, max_length, dtype=torch.bool))

    def forward(self, x):
        time = x.shape[1]
        return self.mask[:time, :time].triu(1)


@wrong(
    "the buffer `mask` does not hold the triangle, although forward gives the right mask",
    row="True for the future, at every length",
)
class StepsForAMask(nn.Module):
    def __init__(self, max_length):
        super().__init__()
        self.register_buffer("mask", torch.arange(max_length))

    def forward(self, x):
        steps = self.mask[: x.shape[1]]
        return steps[None] > steps[:, None]


@wrong("where x was: a module is moved by `.to` alone", row="it moves with the model, at any time")
class FollowsTheInput(nn.Module):
    def __init__(self, max_length):
        super().__init__()
        self.register_buffer("mask", torch.ones(max_length, max_length, dtype=torch.bool).triu(1))

    def forward(self, x):
        time = x.shape[1]
        self.mask = self.mask.to(x.device)
        return self.mask[:time, :time]


@right
class FromTril(nn.Module):
    def __init__(self, max_length):
        super().__init__()
        self.register_buffer("mask", ~torch.tril(torch.ones(max_length, max_length)).bool())

    def forward(self, x):
        t = x.size(1)
        return self.mask.narrow(0, 0, t).narrow(1, 0, t)


@right
class FromRange(nn.Module):
    def __init__(self, max_length):
        super().__init__()
        i = torch.arange(max_length)
        self.register_buffer("mask", i.unsqueeze(0) > i.unsqueeze(1), persistent=True)

    def forward(self, x):
        _, t, *_ = x.shape
        return self.mask[:t, :t].clone()


@right
class FromFloats(nn.Module):
    def __init__(self, max_length):
        super().__init__()
        self.register_buffer("mask", torch.triu(torch.full((max_length, max_length), 1.0), 1))

    def forward(self, x):
        return self.mask[: x.shape[1], : x.shape[1]] == 1


@right
class AsBufferClass(nn.Module):
    def __init__(self, max_length):
        super().__init__()
        self.mask = nn.Buffer(torch.ones(max_length, max_length, dtype=torch.bool).triu(1))

    def forward(self, x):
        return self.mask[: x.shape[1], : x.shape[1]]


@right
class FourDims(nn.Module):
    def __init__(self, max_length):
        super().__init__()
        self.register_buffer("mask", torch.ones(1, 1, max_length, max_length, dtype=torch.bool).triu(1))

    def forward(self, x):
        return self.mask[0, 0, : x.shape[1], : x.shape[1]]


@right
class NegInf(nn.Module):
    def __init__(self, max_length):
        super().__init__()
        self.register_buffer("mask", torch.full((max_length, max_length), float("-inf")).triu(1))

    def forward(self, x):
        return self.mask[: x.shape[1], : x.shape[1]].isinf()


class B(nn.Module):
    def __init__(self, n, t=None):
        super().__init__()
        self.register_buffer("mask", torch.ones(n, n, dtype=torch.bool).triu(1))

    def forward(self, x):
        return self.mask[: x.shape[1], : x.shape[1]]


@wrong(
    "the past is True, and not the future: rows and columns have changed places",
    row="True for the future, at every length",
)
class RowsForColumns(B):
    def forward(self, x):
        return self.mask[: x.shape[1], : x.shape[1]].T


@wrong(
    "the first step of the future is still False: the True half begins one column too late",
    row="True for the future, at every length",
)
class Diag2(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.register_buffer("mask", torch.ones(n, n, dtype=torch.bool).triu(2))

    def forward(self, x):
        return self.mask[: x.shape[1], : x.shape[1]]


@wrong(
    "the mask is for 6 steps, x's last dimension, and not for its time, 4",
    row="True for the future, at every length",
)
class LastAxis(B):
    def forward(self, x):
        return self.mask[: x.shape[-1], : x.shape[-1]]


@wrong(
    "only the rows were cut to the time of x, and not the columns", row="True for the future, at every length"
)
class OnlyRows(B):
    def forward(self, x):
        return self.mask[: x.shape[1]]


@wrong(
    "the mask comes once for each row of the batch, and is to come once",
    row="True for the future, at every length",
)
class Batched(B):
    def forward(self, x):
        return self.mask[: x.shape[1], : x.shape[1]].expand(x.shape[0], -1, -1)


@wrong("the mask is one step longer than the time of x", row="True for the future, at every length")
class OneTooLong(B):
    def forward(self, x):
        return self.mask[: x.shape[1] + 1, : x.shape[1] + 1]


@wrong(
    "the buffer `mask` has room for 8 steps, and max_length is 9", row="True for the future, at every length"
)
class SizeHardcoded(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.register_buffer("mask", torch.ones(8, 8, dtype=torch.bool).triu(1))

    def forward(self, x):
        return self.mask[: x.shape[1], : x.shape[1]]


@wrong("`mask` is a list, not a buffer", row="`mask` is a buffer, and forward reads it")
class ListOfTensor(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.mask = [torch.ones(n, n, dtype=torch.bool).triu(1)]

    def forward(self, x):
        return self.mask[0][: x.shape[1], : x.shape[1]]


@wrong("the mask is torch.int64, not torch.bool", row="True for the future, at every length")
class Ints(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.register_buffer("mask", torch.ones(n, n, dtype=torch.long).triu(1))

    def forward(self, x):
        return self.mask[: x.shape[1], : x.shape[1]]


@wrong("every element is True", row="True for the future, at every length")
class EverywhereTrue(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.register_buffer("mask", torch.ones(n, n, dtype=torch.bool))

    def forward(self, x):
        return self.mask[: x.shape[1], : x.shape[1]]


@wrong("IndexError", row="True for the future, at every length")
class AsksTheFirstRow(CutFromTheTriangle):
    def forward(self, x):
        time = len(x[0])
        return self.mask[:time, :time]


@right
class Narrowed(nn.Module):
    def __init__(self, max_length):
        super().__init__()
        self.register_buffer("mask", torch.tril(torch.ones(max_length, max_length)).eq(0))

    def forward(self, x):
        time = x.size(1)
        return self.mask.narrow(0, 0, time).narrow(1, 0, time)


@wrong("the mask has a dimension too many, for the batch", row="True for the future, at every length")
class WithADimensionForTheBatch(B):
    def forward(self, x):
        return self.mask[None, : x.shape[1], : x.shape[1]]
