"""Answers to SinusoidalPositions."""

import math

import torch
from bank import right, wrong
from torch import nn


def sinusoids(n, d):
    angles = torch.arange(n)[:, None] / 10000 ** (torch.arange(0, d, 2) / d)
    table = torch.zeros(n, d)
    table[:, 0::2] = angles.sin()
    table[:, 1::2] = angles.cos()
    return table


class Positions(nn.Module):
    """What most wrong answers share: a good table, well registered."""

    def __init__(self, n, d):
        super().__init__()
        self.register_buffer("table", sinusoids(n, d), persistent=False)

    def forward(self, x):
        return x + self.table[: x.shape[1]].to(x.dtype)


@right
class SlicesAndCasts(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.register_buffer("table", sinusoids(n, d), persistent=False)

    def forward(self, x):
        return x + self.table[: x.shape[1]].to(x.dtype)


@right
class AsInTheTutorial(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        position = torch.arange(n).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d, 2) * (-math.log(10000.0) / d))
        pe = torch.zeros(1, n, d)
        pe[0, :, 0::2] = torch.sin(position * div_term)
        pe[0, :, 1::2] = torch.cos(position * div_term)
        self.register_buffer("table", pe, persistent=False)

    def forward(self, x):
        return x + self.table[:, : x.size(1)].to(device=x.device, dtype=x.dtype)


@right
class StackedPairs(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        rates = torch.pow(10000.0, -torch.arange(0, d, 2, dtype=torch.float64) / d)
        angles = torch.outer(torch.arange(n, dtype=torch.float64), rates)
        pairs = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        self.table = nn.Buffer(pairs.float(), persistent=False)

    def forward(self, x):
        return (x + self.table.narrow(0, 0, x.shape[1])).to(x.dtype)


@right
class CosineIsAShiftedSine(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        columns = torch.arange(d)
        angles = torch.arange(n)[:, None] * 10000 ** (-(columns // 2) * 2 / d)
        self.register_buffer("table", torch.sin(angles + (columns % 2) * math.pi / 2), False)

    def forward(self, x):
        return torch.add(x, self.table[: x.shape[1]].type_as(x))


@right
class WithPlainPython(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        table = [
            [
                f(t / 10000 ** (2 * i / d))
                for i in range(d // 2)
                for f in (math.sin, math.cos)
            ]
            for t in range(n)
        ]  # fmt: skip
        self.register_buffer("table", torch.tensor(table), persistent=False)

    def forward(self, x):
        batch, time, _ = x.shape
        return x + self.table[:time].expand(batch, -1, -1).to(x)


@right
class AddsInPlaceOnACopy(Positions):
    def forward(self, x):
        result = x.clone()
        result += self.table[: x.shape[1]]
        return result


@wrong(
    "`table` is a plain attribute: `.to` leaves it behind", row="`table` is a buffer, and forward reads it"
)
class PlainAttribute(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.table = sinusoids(n, d)

    forward = Positions.forward


@wrong(
    "`table` is a plain attribute: `.to` leaves it behind", row="`table` is a buffer, and forward reads it"
)
class PlainAttributeMovedEachTime(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.table = sinusoids(n, d)

    def forward(self, x):
        return x + self.table[: x.shape[1]].to(x)


@wrong("`table` is a parameter: an optimizer would train it", row="`table` is a buffer, and forward reads it")
class AsAParameter(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.table = nn.Parameter(sinusoids(n, d))

    forward = Positions.forward


@wrong("`table` is a parameter: an optimizer would train it", row="`table` is a buffer, and forward reads it")
class AsAFrozenParameter(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.table = nn.Parameter(sinusoids(n, d), requires_grad=False)

    forward = Positions.forward


@wrong(
    "`table` is saved with the model, and it can be made anew from n and d",
    row="it stays out of the state_dict",
)
class Saved(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.register_buffer("table", sinusoids(n, d))

    forward = Positions.forward


@wrong(
    "forward answers from another tensor than the buffer `table`",
    row="`table` is a buffer, and forward reads it",
)
class RebuiltOnTheCpu(Positions):
    def forward(self, x):
        return x + sinusoids(x.shape[1], x.shape[2]).to(x.dtype)


@wrong(
    "forward answers from another tensor than the buffer `table`",
    row="`table` is a buffer, and forward reads it",
)
class RebuiltAndMoved(Positions):
    def forward(self, x):
        return x + sinusoids(x.shape[1], x.shape[2]).to(x)


@wrong("there is no buffer named `table` after __init__", row="`table` is a buffer, and forward reads it")
class AnotherName(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.register_buffer("pe", sinusoids(n, d), persistent=False)

    def forward(self, x):
        return x + self.pe[: x.shape[1]].to(x.dtype)


@wrong("the result is torch.float32 for an x of torch.float16", row="the result has x's dtype")
class DtypeOfTheTable(Positions):
    def forward(self, x):
        return x + self.table[: x.shape[1]]


@wrong("the result is torch.float16 for an x of torch.float64", row="the result has x's dtype")
class HalfOrNothing(Positions):
    def forward(self, x):
        dtype = x.dtype if x.dtype in (torch.bfloat16, torch.float32) else torch.float16
        return (x + self.table[: x.shape[1]]).to(dtype)


@wrong("forward left `table` in torch.float16", row="the result has x's dtype")
class TableLeftInHalf(Positions):
    def forward(self, x):
        self.table = self.table.to(x.dtype)
        return x + self.table[: x.shape[1]]


@wrong(
    "the sines fill the first half of the columns and the cosines the second: they must alternate",
    row="sines in even columns, cosines in odd",
)
class HalvesSideBySide(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        angles = torch.arange(n)[:, None] / 10000 ** (torch.arange(0, d, 2) / d)
        self.register_buffer("table", torch.cat([angles.sin(), angles.cos()], 1), persistent=False)

    forward = Positions.forward


@wrong("sine and cosine have changed places", row="sines in even columns, cosines in odd")
class CosinesFirst(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        table = sinusoids(n, d)
        self.register_buffer("table", torch.stack([table[:, 1::2], table[:, ::2]], -1).flatten(1), False)

    forward = Positions.forward


@wrong(
    "the exponent is c / d in column c: columns 2i and 2i + 1 are to share 2i / d",
    row="sines in even columns, cosines in odd",
)
class ExponentOfTheColumn(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        columns = torch.arange(d)
        angles = torch.arange(n)[:, None] / 10000 ** (columns / d)
        self.register_buffer("table", torch.where(columns % 2 == 0, angles.sin(), angles.cos()), False)

    forward = Positions.forward


@wrong("the base is 1000, and not 10000", row="sines in even columns, cosines in odd")
class AnotherBase(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        angles = torch.arange(n)[:, None] / 1000 ** (torch.arange(0, d, 2) / d)
        self.register_buffer("table", torch.stack([angles.sin(), angles.cos()], -1).flatten(1), False)

    forward = Positions.forward


@wrong(
    "the steps are counted from 1, and the first one is step 0", row="sines in even columns, cosines in odd"
)
class CountsFromOne(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.register_buffer("table", sinusoids(n + 1, d)[1:], persistent=False)

    forward = Positions.forward


@wrong("must match the size of tensor", row="`table` is a buffer, and forward reads it")
class NotCut(Positions):
    def forward(self, x):
        return x + self.table.to(x.dtype)


@wrong("must match the size of tensor", row="`table` is a buffer, and forward reads it")
class TimeFromTheBatch(Positions):
    def forward(self, x):
        return x + self.table[: x.size(0)].to(x.dtype)


@wrong(
    "the steps were counted along the batch, and not along the time",
    row="sines in even columns, cosines in odd",
)
class PositionOfTheBatch(Positions):
    def forward(self, x):
        return x + self.table[: x.size(0), None].to(x.dtype)


@wrong("the encoding came back alone: x was not added", row="sines in even columns, cosines in odd")
class TheEncodingAlone(Positions):
    def forward(self, x):
        return self.table[: x.shape[1]].to(x.dtype)


@wrong("the input `x` was changed in place", row="`table` is a buffer, and forward reads it")
class ChangesItsInput(Positions):
    def forward(self, x):
        x += self.table[: x.shape[1]]
        return x


@wrong(
    "forward answers from another tensor than the buffer `table`",
    row="`table` is a buffer, and forward reads it",
)
class CachedByLength(Positions):
    def __init__(self, n, d):
        super().__init__(n, d)
        self.cut = {}

    def forward(self, x):
        cut = self.cut.setdefault(x.shape[1], self.table[: x.shape[1]])
        return x + cut.to(x.dtype)


@wrong("the buffer `table` asks for a gradient", row="`table` is a buffer, and forward reads it")
class ABufferThatLearns(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.register_buffer("table", sinusoids(n, d).requires_grad_(), persistent=False)

    forward = Positions.forward


@wrong("the result is None: is a `return` missing?", row="`table` is a buffer, and forward reads it")
class Forgetful(Positions):
    def forward(self, x):
        x + self.table[: x.shape[1]]


@wrong("the digits of a float64 x were lost: the sum was rounded to float32", row="the result has x's dtype")
class AddsInFloat32(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        steps = torch.arange(n)[:, None] / 10000 ** (torch.arange(0, d, 2) / d)
        table = torch.stack([steps.sin(), steps.cos()], -1).flatten(1)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x):
        return (x.float() + self.table[: x.shape[1]]).to(x.dtype)


@wrong(
    "the buffer `table` does not hold the pattern, although forward adds the right one",
    row="sines in even columns, cosines in odd",
)
class AnglesForATable(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        angles = torch.arange(n)[:, None] * 10000 ** (-torch.arange(0, d, 2) / d)
        self.register_buffer("table", angles, persistent=False)

    def forward(self, x):
        angles = self.table[: x.shape[1]]
        return x + torch.stack([angles.sin(), angles.cos()], -1).flatten(1).to(x.dtype)


class Table(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.register_buffer("table", self.make(n, d), persistent=False)

    def make(self, n, d):
        t = torch.zeros(n, d)
        pos = torch.arange(n).float()[:, None]
        div = torch.exp(torch.arange(0, d, 2).float() * (-math.log(10000.0) / d))
        t[:, 0::2] = torch.sin(pos * div)
        t[:, 1::2] = torch.cos(pos * div)
        return t

    def forward(self, x):
        return x + self.table[: x.shape[1]].to(x.dtype)


@right
class Log(Table):
    pass


@right
class Loops(Table):
    def make(self, n, d):
        return torch.tensor(
            [
                [
                    math.sin(t / 10000 ** (c / d)) if c % 2 == 0 else math.cos(t / 10000 ** ((c - 1) / d))
                    for c in range(d)
                ]
                for t in range(n)
            ]
        )


@right
class Batched(Table):
    def make(self, n, d):
        return super().make(n, d)[None]

    def forward(self, x):
        return x + self.table[:, : x.size(1)].type_as(x)


@right
class Phase(Table):
    def make(self, n, d):
        c = torch.arange(d)
        ang = torch.arange(n)[:, None] / 10000 ** ((c - c % 2) / d)
        return torch.sin(ang + c % 2 * math.pi / 2)


@right
class MadeUnderNoGrad(Table):
    def make(self, n, d):
        with torch.no_grad():
            return super().make(n, d)


@wrong(
    "the result is cut off from x: no layer before this one can learn",
    row="sines in even columns, cosines in odd",
)
class NoGrad(Table):
    @torch.no_grad()
    def forward(self, x):
        return super().forward(x)


@wrong("the exponent is i / d, and not 2i / d", row="sines in even columns, cosines in odd")
class IOverD(Table):
    def make(self, n, d):
        t = torch.zeros(n, d)
        a = torch.arange(n)[:, None] / 10000 ** (torch.arange(d // 2) / d)
        t[:, 0::2] = a.sin()
        t[:, 1::2] = a.cos()
        return t


@wrong("the exponent is 4i / d, and not 2i / d", row="sines in even columns, cosines in odd")
class TwiceTheExponent(Table):
    def make(self, n, d):
        t = torch.zeros(n, d)
        a = torch.arange(n)[:, None] / 10000 ** (2 * torch.arange(0, d, 2) / d)
        t[:, 0::2] = a.sin()
        t[:, 1::2] = a.cos()
        return t


@wrong(
    "the step was multiplied by 10000^(2i / d), and not divided by it",
    row="sines in even columns, cosines in odd",
)
class Multiplied(Table):
    def make(self, n, d):
        t = torch.zeros(n, d)
        a = torch.arange(n)[:, None] * 10000 ** (torch.arange(0, d, 2) / d)
        t[:, 0::2] = a.sin()
        t[:, 1::2] = a.cos()
        return t


@wrong(
    "log10 was taken where the natural logarithm belongs: the base is e^4, and not 10000",
    row="sines in even columns, cosines in odd",
)
class LogBase10(Table):
    def make(self, n, d):
        t = torch.zeros(n, d)
        a = torch.arange(n)[:, None] * torch.exp(torch.arange(0, d, 2) * (-math.log10(10000.0) / d))
        t[:, 0::2] = a.sin()
        t[:, 1::2] = a.cos()
        return t


@wrong("every column holds a sine", row="sines in even columns, cosines in odd")
class OnlySin(Table):
    def make(self, n, d):
        c = torch.arange(d)
        return torch.sin(torch.arange(n)[:, None] / 10000 ** ((c - c % 2) / d))


@wrong("x was multiplied by the encoding", row="sines in even columns, cosines in odd")
class XTimes(Table):
    def forward(self, x):
        return x * self.table[: x.shape[1]].to(x.dtype)


@wrong("x was multiplied by the square root of d first", row="sines in even columns, cosines in odd")
class SqrtD(Table):
    def forward(self, x):
        return x * math.sqrt(x.shape[-1]) + self.table[: x.shape[1]].to(x.dtype)


@wrong(
    "the last rows of the table were added, and not the first", row="sines in even columns, cosines in odd"
)
class LastRows(Table):
    def forward(self, x):
        return x + self.table[-x.shape[1] :].to(x.dtype)


@wrong("the buffer `table` is torch.int64, which holds no sines", row="sines in even columns, cosines in odd")
class IntTable(Table):
    def make(self, n, d):
        return super().make(n, d).long()


@wrong("the result is cut off from an x of torch.float16", row="the result has x's dtype")
class CutOffWhereItCasts(Positions):
    def forward(self, x):
        table = self.table[: x.shape[1]]
        return x + table if x.dtype == table.dtype else (x.detach() + table).to(x.dtype)


@wrong("the result has shape [1,10], not [2,0,10]", row="sines in even columns, cosines in odd")
class OneRowAtLeast(Positions):
    def forward(self, x):
        return x + self.table[: x.shape[1]].to(x.dtype) if x.shape[1] else self.table[:1].to(x.dtype)


class Pattern(Table):
    """A table whose columns c have other angles, or sines and cosines in other places."""

    base, unit, swapped = 10000.0, 1.0, False

    def exponent(self, c, d):
        return (c - c % 2) / d

    def is_cosine(self, c, d):
        return c % 2 == 1

    def make(self, n, d):
        c = torch.arange(d).double()
        angles = torch.arange(n)[:, None] / self.base ** self.exponent(c, d) * self.unit
        return torch.where(self.is_cosine(c, d) ^ self.swapped, angles.cos(), angles.sin()).float()


@wrong(
    "the cosines fill the first half of the columns and the sines the second: they must alternate",
    row="sines in even columns, cosines in odd",
)
class CosinesInTheFirstHalf(Pattern):
    def exponent(self, c, d):
        return (c % (d // 2)) * 2 / d

    def is_cosine(self, c, d):
        return c < d // 2


@wrong("every column holds a cosine", row="sines in even columns, cosines in odd")
class OnlyCos(Pattern):
    def is_cosine(self, c, d):
        return c >= 0


@wrong("the angle is in degrees, and torch.sin takes radians", row="sines in even columns, cosines in odd")
class InDegrees(Pattern):
    unit = 180 / math.pi


@wrong(
    "sine and cosine have changed places, and "
    "the exponent is c / d in column c: columns 2i and 2i + 1 are to share 2i / d",
    row="sines in even columns, cosines in odd",
)
class SwappedColumnOverD(Pattern):
    swapped = True

    def exponent(self, c, d):
        return c / d


@wrong(
    "sine and cosine have changed places, and the exponent is i / d, and not 2i / d",
    row="sines in even columns, cosines in odd",
)
class SwappedHalfTheExponent(Pattern):
    swapped = True

    def exponent(self, c, d):
        return (c // 2) / d


@wrong(
    "sine and cosine have changed places, and the exponent is 4i / d, and not 2i / d",
    row="sines in even columns, cosines in odd",
)
class SwappedDoubleTheExponent(Pattern):
    swapped = True

    def exponent(self, c, d):
        return (c - c % 2) * 2 / d


@wrong("the exponent lacks the division by d", row="sines in even columns, cosines in odd")
class NotDividedByD(Pattern):
    def exponent(self, c, d):
        return c - c % 2


@wrong(
    "sine and cosine have changed places, and the exponent lacks the division by d",
    row="sines in even columns, cosines in odd",
)
class SwappedNotDividedByD(NotDividedByD):
    swapped = True


@wrong(
    "the step was divided by 10000 in every column: the exponent 2i / d is missing",
    row="sines in even columns, cosines in odd",
)
class NoExponent(Pattern):
    def exponent(self, c, d):
        return c**0


@wrong(
    "sine and cosine have changed places, and "
    "the step was divided by 10000 in every column: the exponent 2i / d is missing",
    row="sines in even columns, cosines in odd",
)
class SwappedNoExponent(NoExponent):
    swapped = True


@wrong(
    "the angle is the step itself in every column: it was not divided by 10000^(2i / d)",
    row="sines in even columns, cosines in odd",
)
class NotDivided(Pattern):
    def exponent(self, c, d):
        return 0 * c


@wrong(
    "sine and cosine have changed places, and "
    "the angle is the step itself in every column: it was not divided by 10000^(2i / d)",
    row="sines in even columns, cosines in odd",
)
class SwappedNotDivided(NotDivided):
    swapped = True


@wrong("the base is 10, and not 10000", row="sines in even columns, cosines in odd")
class Base10(Pattern):
    base = 10.0


@wrong("the base is 100000, and not 10000", row="sines in even columns, cosines in odd")
class Base100000(Pattern):
    base = 100000.0


@wrong("the base is 1000000, and not 10000", row="sines in even columns, cosines in odd")
class Base1000000(Pattern):
    base = 1000000.0


@wrong("only the even columns were filled: the odd ones hold 0", row="sines in even columns, cosines in odd")
class OnlyTheEvenColumns(Table):
    def make(self, n, d):
        return super().make(n, d) * (1 - torch.arange(d) % 2)


@wrong("every step has the encoding of step 0", row="sines in even columns, cosines in odd")
class TheFirstStepForAll(Table):
    def forward(self, x):
        return x + self.table[:1].to(x.dtype)


@wrong("the encoding was added twice", row="sines in even columns, cosines in odd")
class AddedTwice(Table):
    def forward(self, x):
        return x + 2 * self.table[: x.shape[1]].to(x.dtype)


@wrong("the encoding was subtracted from x", row="sines in even columns, cosines in odd")
class Subtracted(Table):
    def forward(self, x):
        return x - self.table[: x.shape[1]].to(x.dtype)


@wrong("nothing was added to x", row="sines in even columns, cosines in odd")
class NothingAdded(Table):
    def forward(self, x):
        return x + 1e-6 * self.table[: x.shape[1]].to(x.dtype)


@wrong(
    "the encoding came back alone, for each row of the batch: x was not added",
    row="sines in even columns, cosines in odd",
)
class AloneForEachRow(Table):
    def forward(self, x):
        return self.table[: x.shape[1]].to(x.dtype).expand(x.shape)
