"""Answers to RunningMean."""

import torch
from bank import right, wrong
from torch import nn


class Mean(nn.Module):
    """What most answers share: the two buffers."""

    def __init__(self, n):
        super().__init__()
        self.register_buffer("mean", torch.zeros(n))
        self.register_buffer("count", torch.zeros((), dtype=torch.long))


@right
class PullsTheMean(Mean):
    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.count += len(x)
                self.mean += (x - self.mean).sum(0) / self.count
        return x - self.mean


@right
class WeighsOldAndNew(Mean):
    def forward(self, x):
        if self.training:
            x_ = x.detach()
            total = self.count + x_.shape[0]
            self.mean.copy_((self.mean * self.count + x_.sum(dim=0)) / total)
            self.count.copy_(total)
        return x - self.mean


@right
class RowByRow(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.mean = nn.Buffer(torch.zeros(n))
        self.count = nn.Buffer(torch.tensor(0))

    @torch.no_grad()
    def see(self, row):
        self.count.add_(1)
        self.mean.add_((row - self.mean) / self.count)

    def forward(self, x):
        if self.training:
            for row in x:
                self.see(row)
        return x - self.mean


@right
class KeepsASum(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.register_buffer("total", torch.zeros(n, dtype=torch.float32))
        self.register_buffer("mean", torch.zeros(n))
        self.register_buffer("count", torch.tensor(0, dtype=torch.int32))

    def forward(self, x):
        if not self.training:
            return x - self.mean
        with torch.no_grad():
            self.total.add_(x.sum(0))
            self.count.add_(x.size(0))
            torch.div(self.total, self.count, out=self.mean)
        return torch.sub(x, self.mean)


@right
class ByLerp(Mean):
    def forward(self, x):
        if self.training:
            self.count += x.shape[0]
            weight = x.shape[0] / self.count
            self.mean[:] = self.mean.lerp(x.detach().mean(0), weight)
        return x - self.mean


@right
class ThroughData(Mean):
    def forward(self, x):
        if self.training:
            self.count.data += x.shape[0]
            self.mean.data = self.mean + (x.mean(0) - self.mean) * x.shape[0] / self.count.item()
        return x - self.mean


@right
class InDoublePrecision(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.register_buffer("mean", torch.zeros(n, dtype=torch.float64))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.count += x.shape[0]
                self.mean += (x.double() - self.mean).sum(0) / self.count
        return x - self.mean.to(x.dtype)


@wrong("`mean` is a plain attribute: `.to` leaves it behind", row="`mean` and `count` are saved buffers")
class PlainAttributes(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.mean = torch.zeros(n)
        self.count = torch.tensor(0)

    forward = PullsTheMean.forward


@wrong("`mean` is a parameter: an optimizer would train it", row="`mean` and `count` are saved buffers")
class AsParameters(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.mean = nn.Parameter(torch.zeros(n), requires_grad=False)
        self.count = nn.Parameter(torch.tensor(0), requires_grad=False)

    forward = PullsTheMean.forward


@wrong("`mean` was replaced by a new tensor, not updated in place", row="both are updated in place")
class ReplacesTheMean(Mean):
    def forward(self, x):
        if self.training:
            self.count += len(x)
            self.mean = self.mean + (x - self.mean).sum(0) / self.count
        return x - self.mean


@wrong("forward left `count` on cpu, and it was on {device} before", row="the exact mean of all rows seen")
class CountFromTheCpu(Mean):
    def forward(self, x):
        if self.training:
            self.count = torch.tensor(self.count.item() + len(x))
            self.mean += (x - self.mean).sum(0) / self.count
        return x - self.mean


@wrong("forward left `mean` on cpu, and it was on {device} before", row="the exact mean of all rows seen")
class MeanFromTheCpu(Mean):
    def forward(self, x):
        if self.training:
            rows, seen = x.cpu(), self.count.item()
            self.mean = (self.mean.cpu() * seen + rows.sum(0)) / (seen + len(rows))
            self.count += len(rows)
        return x - self.mean.to(x.device)


@wrong("`count` was replaced by a new tensor, not updated in place", row="both are updated in place")
class ReplacesTheCount(Mean):
    def forward(self, x):
        if self.training:
            self.count = self.count + len(x)
            self.mean += (x - self.mean).sum(0) / self.count
        return x - self.mean


@wrong("`count` is an int, not a buffer", row="`mean` and `count` are saved buffers")
class CountsInPython(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.register_buffer("mean", torch.zeros(n))
        self.count = 0

    forward = PullsTheMean.forward


@wrong("`count` is torch.float32, not an integer dtype", row="`mean` and `count` are saved buffers")
class CountsInFloats(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.register_buffer("mean", torch.zeros(n))
        self.register_buffer("count", torch.tensor(0.0))

    forward = PullsTheMean.forward


@wrong("`count` is not zero-dimensional", row="`mean` and `count` are saved buffers")
class CountOfOneElement(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.register_buffer("mean", torch.zeros(n))
        self.register_buffer("count", torch.zeros(1, dtype=torch.long))

    forward = PullsTheMean.forward


@wrong("`mean` is not saved: the state_dict lacks it", row="`mean` and `count` are saved buffers")
class NotSaved(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.register_buffer("mean", torch.zeros(n), persistent=False)
        self.register_buffer("count", torch.tensor(0), persistent=False)

    forward = PullsTheMean.forward


@wrong("`count` is not saved: the state_dict lacks it", row="`mean` and `count` are saved buffers")
class CountNotSaved(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.register_buffer("mean", torch.zeros(n))
        self.register_buffer("count", torch.tensor(0), persistent=False)

    forward = PullsTheMean.forward


@wrong("forward changed `count` in evaluation mode", row="eval mode leaves both alone")
class UpdatesAlways(Mean):
    def forward(self, x):
        with torch.no_grad():
            self.count += len(x)
            self.mean += (x - self.mean).sum(0) / self.count
        return x - self.mean


@wrong("`count` was not updated in training mode", row="the exact mean of all rows seen")
class UpdatesInEvalOnly(Mean):
    def forward(self, x):
        if not self.training:
            self.count += len(x)
            self.mean += (x - self.mean).sum(0) / self.count
        return x - self.mean


@wrong(
    "`mean` is the mean of the batches' means: the rows of a small batch count for more there",
    row="the exact mean of all rows seen",
)
class MeanOfBatchMeans(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.register_buffer("mean", torch.zeros(n))
        self.register_buffer("count", torch.tensor(0))
        self.register_buffer("batches", torch.tensor(0))

    def forward(self, x):
        if self.training:
            self.batches += 1
            self.count += len(x)
            self.mean += (x.mean(0) - self.mean) / self.batches
        return x - self.mean


@wrong(
    "`mean` is a moving average, in which each new batch has the weight 0.1",
    row="the exact mean of all rows seen",
)
class MovingAverage(Mean):
    def forward(self, x):
        if self.training:
            self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
            self.count += len(x)
        return x - self.mean


@wrong("`count` counts the batches, and not the rows", row="the exact mean of all rows seen")
class CountsBatches(Mean):
    def forward(self, x):
        if self.training:
            seen = getattr(self, "rows", 0)
            self.mean += (x.sum(0) - self.mean * len(x)) / (seen + len(x))
            self.rows = seen + len(x)
            self.count += 1
        return x - self.mean


@wrong(
    "the old mean counts once, and not for all the rows it stands for", row="the exact mean of all rows seen"
)
class WeighsTheWrongWay(Mean):
    def forward(self, x):
        if self.training:
            self.mean.copy_((self.mean + x.sum(0)) / (self.count + len(x)))
            self.count += len(x)
        return x - self.mean


@wrong("the result is x minus the mean from before the update", row="the exact mean of all rows seen")
class SubtractsTheOldMean(Mean):
    def forward(self, x):
        centred = x - self.mean
        if self.training:
            self.count += len(x)
            self.mean += (x - self.mean).sum(0) / self.count
        return centred


@wrong("the result is x minus the mean of this batch alone", row="the exact mean of all rows seen")
class SubtractsTheBatchMean(Mean):
    def forward(self, x):
        if self.training:
            self.count += len(x)
            self.mean += (x - self.mean).sum(0) / self.count
        return x - x.mean(0)


@wrong("the result is None: is a `return` missing?", row="the exact mean of all rows seen")
class Forgetful(Mean):
    def forward(self, x):
        if self.training:
            self.count += len(x)
            self.mean += (x - self.mean).sum(0) / self.count


@wrong("the input `x` was changed in place", row="the exact mean of all rows seen")
class ChangesItsInput(Mean):
    def forward(self, x):
        if self.training:
            self.count += len(x)
            self.mean += (x - self.mean).sum(0) / self.count
        x -= self.mean
        return x


@wrong(
    "after a reload `mean` covers only the rows that came since: the loaded `count` was not used",
    row="a move or a reload in between changes nothing",
)
class CountsBesideTheBuffer(Mean):
    """The true count is an attribute, which no reload brings back."""

    def __init__(self, n):
        super().__init__(n)
        self.rows = 0

    def forward(self, x):
        if self.training:
            self.mean += (x - self.mean).detach().sum(0) / (self.rows + len(x))
            self.rows += len(x)
            self.count += len(x)
        return x - self.mean


@wrong(
    "rows that had come before were left out: every row counts, also when it comes again",
    row="the exact mean of all rows seen",
)
class CountsRowsOnce(Mean):
    """Rows that come again are taken for rows already counted."""

    def __init__(self, n):
        super().__init__(n)
        self.known = set()

    def forward(self, x):
        new = tuple(x.flatten().tolist()) not in self.known
        self.known.add(tuple(x.flatten().tolist()))
        return PullsTheMean.forward(self, x) if new or not self.training else x - self.mean


@wrong("`mean` does not have one element a column", row="`mean` and `count` are saved buffers")
class OneMeanForAll(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.register_buffer("mean", torch.zeros(1))
        self.register_buffer("count", torch.tensor(0))

    forward = PullsTheMean.forward


@wrong("the buffer `mean` was not updated in training mode", row="the exact mean of all rows seen")
class HeldUnderASecondName(Mean):
    def __init__(self, n):
        super().__init__(n)
        self.current = self.mean

    def forward(self, x):
        if self.training:
            self.count += len(x)
            self.current += (x - self.current.to(x.device)).sum(0).to(self.current.device) / self.count.item()
        return x - self.mean


@wrong("the buffer `mean` asks for a gradient", row="both are updated in place")
class KeepsTheGraph(Mean):
    def forward(self, x):
        if self.training:
            self.count += len(x)
            self.mean += (x - self.mean).sum(0) / self.count
        return x - self.mean


@wrong("the result is cut off from x: no layer before this one can learn", row="both are updated in place")
class NothingLearnsThroughIt(Mean):
    @torch.no_grad()
    def forward(self, x):
        if self.training:
            self.count += len(x)
            self.mean += (x - self.mean).sum(0) / self.count
        return x - self.mean


@wrong(
    "the result in eval mode is cut off from x: no layer before this one can learn",
    row="eval mode leaves both alone",
)
class CutOffInEvalMode(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.register_buffer("mean", torch.zeros(n))
        self.register_buffer("count", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.count += x.shape[0]
                self.mean += (x - self.mean).sum(0) / self.count
        y = x - self.mean
        return y if self.training else y.detach()


@wrong(
    "the gradient also passes through the mean: the update is part of the graph",
    row="both are updated in place",
)
class UpdatesInTheGraph(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.register_buffer("mean", torch.zeros(n))
        self.register_buffer("count", torch.tensor(0))

    def forward(self, x):
        mean = self.mean
        if self.training:
            total = self.mean * self.count + x.sum(0)
            self.count += len(x)
            mean = total / self.count
            self.mean.copy_(mean.detach())
        return x - mean


@wrong("no gradient of the result reaches x", row="both are updated in place")
class PretendsAGraph(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.register_buffer("mean", torch.zeros(n))
        self.register_buffer("count", torch.tensor(0))

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.count += len(x)
                self.mean += (x - self.mean).sum(0) / self.count
        return (x - self.mean).detach().requires_grad_(x.requires_grad)


@wrong("`count` is torch.uint8, which ends at 255", row="`mean` and `count` are saved buffers")
class CountsInBytes(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.register_buffer("mean", torch.zeros(n))
        self.register_buffer("count", torch.tensor(0, dtype=torch.uint8))

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.count += len(x)
                self.mean += (x - self.mean).sum(0) / self.count
        return x - self.mean


@wrong(
    "in training mode, but under torch.no_grad(), `mean` was not updated",
    row="a move or a reload in between changes nothing",
)
class OnlyWhereGraphsAreMade(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.register_buffer("mean", torch.zeros(n))
        self.register_buffer("count", torch.tensor(0))

    def forward(self, x):
        if self.training and torch.is_grad_enabled():
            with torch.no_grad():
                self.count += len(x)
                self.mean += (x - self.mean).sum(0) / self.count
        return x - self.mean


@wrong(
    "forward moved `mean` to {second}, where x was: a module is moved by `.to` alone",
    row="a move or a reload in between changes nothing",
)
class MovesItself(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.register_buffer("mean", torch.zeros(n))
        self.register_buffer("count", torch.tensor(0))

    def forward(self, x):
        self.to(x.device)
        if self.training:
            with torch.no_grad():
                self.count += len(x)
                self.mean += (x - self.mean).sum(0) / self.count
        return x - self.mean


class Statistics(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.register_buffer("mean", torch.zeros(n))
        self.register_buffer("count", torch.tensor(0))


@right
class Lerp(Statistics):
    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.count.add_(len(x))
                self.mean.lerp_(x.mean(0), len(x) / self.count)
        return x - self.mean


@right
class Detached(Statistics):
    def forward(self, x):
        if self.training:
            y = x.detach()
            total = self.mean * self.count + y.sum(0)
            self.count += y.shape[0]
            self.mean.copy_(total / self.count)
        return x - self.mean


@right
class ByData(Statistics):
    def forward(self, x):
        if self.training:
            n = x.shape[0]
            self.count[...] = self.count + n
            self.mean.data.add_((x.detach().mean(0) - self.mean) * (n / self.count))
        return x - self.mean


@right
class DecoratedUpdate(Statistics):
    @torch.no_grad()
    def update(self, x):
        for row in x:
            self.count += 1
            self.mean += (row - self.mean) / self.count

    def forward(self, x):
        if self.training:
            self.update(x)
        return x - self.mean


@right
class Int32(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.mean = nn.Buffer(torch.zeros(n))
        self.count = nn.Buffer(torch.zeros((), dtype=torch.int32))

    def forward(self, x):
        if self.training:
            x0 = x.detach()
            self.mean.mul_(self.count).add_(x0.sum(0))
            self.count.add_(x0.size(0))
            self.mean.div_(self.count)
        return x - self.mean


@wrong(
    "the sum was divided by `count` before `count` was brought up to date",
    row="the exact mean of all rows seen",
)
class OldCountDivision(Statistics):
    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.mean += (x - self.mean).sum(0) / self.count
                self.count += len(x)
        return x - self.mean


@wrong(
    "the differences were averaged over the batch first, and then divided by `count` as well",
    row="the exact mean of all rows seen",
)
class MeanThenDivide(Statistics):
    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.count += len(x)
                self.mean += (x - self.mean).mean(0) / self.count
        return x - self.mean


@wrong("`mean` is the sum of all rows: it was not divided by `count`", row="the exact mean of all rows seen")
class SumOnly(Statistics):
    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.count += len(x)
                self.mean += x.sum(0)
        return x - self.mean


@wrong("`mean` is the mean of the last batch alone", row="the exact mean of all rows seen")
class LastBatch(Statistics):
    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.count += len(x)
                self.mean.copy_(x.mean(0))
        return x - self.mean


@wrong(
    "`mean` is one mean of all elements, and not one for each column", row="the exact mean of all rows seen"
)
class ScalarMean(Statistics):
    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.count += len(x)
                self.mean += (x.mean() - self.mean) * len(x) / self.count
        return x - self.mean


@wrong("`count` counts the elements of x, and not its rows", row="the exact mean of all rows seen")
class CountElements(Statistics):
    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.count += x.numel()
                self.mean += (x - self.mean).sum(0) / self.count
        return x - self.mean


@wrong("`count` holds the rows of the last batch alone", row="the exact mean of all rows seen")
class CountSetNotAdded(Statistics):
    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.count.fill_(len(x))
                self.mean += (x - self.mean).sum(0) / self.count
        return x - self.mean


@wrong("the result is x plus the mean", row="the exact mean of all rows seen")
class ReturnsPlus(Statistics):
    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.count += len(x)
                self.mean += (x - self.mean).sum(0) / self.count
        return x + self.mean


@wrong("the mean came back, and not x minus the mean", row="the exact mean of all rows seen")
class ReturnsMean(Statistics):
    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.count += len(x)
                self.mean += (x - self.mean).sum(0) / self.count
        return self.mean


@wrong(
    "the differences were summed over all elements, and not over the rows of each column",
    row="the exact mean of all rows seen",
)
class NotDim(Statistics):
    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.count += len(x)
                self.mean += (x - self.mean).sum() / self.count
        return x - self.mean


@wrong("`count` counts the columns of x, and not its rows", row="the exact mean of all rows seen")
class CountFirstDim1(Statistics):
    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.count += x.shape[1]
                self.mean += (x - self.mean).sum(0) / self.count
        return x - self.mean


@wrong(
    "the result in evaluation mode is x minus the mean of this batch alone", row="eval mode leaves both alone"
)
class EvalBatchMean(Statistics):
    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.count += len(x)
                self.mean += (x - self.mean).sum(0) / self.count
            return x - self.mean
        return x - x.mean(0)


@wrong("the result in evaluation mode is x itself: no mean was subtracted", row="eval mode leaves both alone")
class TrainOnlySubtracts(Statistics):
    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.count += len(x)
                self.mean += (x - self.mean).sum(0) / self.count
            return x - self.mean
        return x


@wrong("forward changed `count` in evaluation mode, under torch.no_grad()", row="eval mode leaves both alone")
class LearnsWithoutGradients(PullsTheMean):
    def forward(self, x):
        if not self.training and torch.is_grad_enabled():
            return x - self.mean
        with torch.no_grad():
            self.count += len(x)
            self.mean += (x - self.mean).sum(0) / self.count
        return x - self.mean


@wrong(
    "the result is x minus the mean from before the update",
    row="a move or a reload in between changes nothing",
)
class OldMeanWithoutGradients(PullsTheMean):
    def forward(self, x):
        old = self.mean.clone()
        new = super().forward(x)
        return new if torch.is_grad_enabled() else x - old


@right
class Lerped(Mean):
    def forward(self, x):
        if self.training:
            self.count.add_(len(x))
            self.mean.lerp_(x.detach().mean(0), len(x) / self.count.item())
        return x - self.mean
