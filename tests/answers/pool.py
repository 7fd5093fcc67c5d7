"""Answers to pool."""

import torch
from bank import right, wrong
from torch.nn import functional as F

SAME = "each row's mean, and the largest within limit"
GRADIENT = "gradients flow back to x"
GRAPH = "one graph, and one more for all other sizes"
WAITS = "the host never waits"


def mask(x, lengths):
    """Return a mask of what lies within its row's length."""
    return torch.arange(x.shape[1], device=x.device) < lengths[:, None]


def mean_of(x, lengths):
    """Return each row's mean, in one go."""
    return x.masked_fill(~mask(x, lengths)[:, :, None], 0).sum(1) / lengths.clamp(min=1)[:, None]


def shrink(means, limit):
    """Scale all means down so that the largest norm is limit, if it is larger."""
    largest = means.norm(dim=1).max()
    return means * torch.where(largest > limit, limit / largest, 1.0)


@right
def filled_with_zeros(x, lengths, limit):
    there = torch.arange(x.shape[1], device=x.device) < lengths[:, None]
    means = x.masked_fill(~there[:, :, None], 0).sum(1) / lengths.clamp(min=1)[:, None]
    largest = means.norm(dim=1).max()
    return means * torch.where(largest > limit, limit / largest, 1.0)


@right
def where_and_a_clamped_factor(x, lengths, limit):
    there = mask(x, lengths).unsqueeze(-1)
    sums = torch.where(there, x, 0.0).sum(dim=1)
    means = sums / torch.maximum(there.sum(1), torch.ones_like(lengths)[:, None])
    return means * (limit / torch.linalg.vector_norm(means, dim=-1).amax()).clamp(max=1)


@right
def by_running_sums(x, lengths, limit):
    sums = F.pad(x.cumsum(1), (0, 0, 1, 0))
    ends = lengths[:, None, None].expand(-1, 1, x.shape[2])
    means = sums.gather(1, ends)[:, 0] / lengths.clamp(min=1)[:, None]
    return shrink(means, limit)


@right
def by_weights(x, lengths, limit):
    there = mask(x, lengths)
    weights = there / there.sum(1, keepdim=True).clamp(min=1)
    means = torch.einsum("bl,blw->bw", weights, x.masked_fill(~there[..., None], 0))
    squares = means.square().sum(1).max()
    return means * torch.where(squares > limit**2, limit * squares.rsqrt(), 1.0)


@wrong("one call makes 2 graphs: some lines are left to Python", row=GRAPH)
def as_it_was(x, lengths, limit):
    means = []
    for row, length in zip(x, lengths.tolist(), strict=True):
        means.append(row[:length].mean(0) if length else torch.zeros_like(row[0]))
    means = torch.stack(means)
    largest = means.norm(dim=1).max()
    if largest > limit:
        means = means * (limit / largest)
    return means


@wrong("one call makes 2 graphs: some lines are left to Python", row=GRAPH)
def if_is_left(x, lengths, limit):
    means = mean_of(x, lengths)
    largest = means.norm(dim=1).max()
    if largest > limit:
        means = means * (limit / largest)
    return means


@wrong("the factor is a constant to backward, and it depends on x", row=GRADIENT)
def factor_by_item(x, lengths, limit):
    means = mean_of(x, lengths)
    largest = means.norm(dim=1).max().item()
    return means * min(1.0, limit / largest if largest else 1.0)


@wrong("one call makes 3 graphs: some lines are left to Python", row=GRAPH)
def picked_by_a_mask(x, lengths, limit):
    there = mask(x, lengths)
    rows = there.nonzero()[:, 0]
    sums = x.new_zeros(x.shape[0], x.shape[2]).index_add(0, rows, x[there])
    return shrink(sums / lengths.clamp(min=1)[:, None], limit)


@wrong("3 graphs for three sizes of the batch", row=GRAPH)
def prints_its_factor(x, lengths, limit):
    means = shrink(mean_of(x, lengths), limit)
    print("largest", means.norm(dim=1).max())
    return means


@wrong("3 graphs for three sizes of the batch", row=GRAPH)
def row_by_row(x, lengths, limit):
    means = []
    for row, length in zip(x, lengths, strict=True):
        there = torch.arange(row.shape[0], device=x.device) < length
        means.append(torch.where(there[:, None], row, 0.0).sum(0) / length.clamp(min=1))
    return shrink(torch.stack(means), limit)


@wrong("the host waited for {device}", row=WAITS)
def mask_made_by_numpy(x, lengths, limit):
    import numpy as np

    there = torch.from_numpy(np.arange(x.shape[1]) < lengths.cpu().numpy()[:, None]).to(x.device)
    means = x.masked_fill(~there[:, :, None], 0).sum(1) / lengths.clamp(min=1)[:, None]
    return shrink(means, limit)


@wrong("what lies behind a row's length, here nan, has come into its mean: nan times 0 is nan", row=SAME)
def multiplied_by_the_mask(x, lengths, limit):
    return shrink((x * mask(x, lengths)[:, :, None]).sum(1) / lengths.clamp(min=1)[:, None], limit)


@wrong("a row of length 0 has a mean of zeros, and 0 divided by 0 is nan", row=SAME)
def divided_by_zero(x, lengths, limit):
    sums = x.masked_fill(~mask(x, lengths)[:, :, None], 0).sum(1)
    return shrink(sums / lengths[:, None], limit)


@wrong("each sum is divided by the padded length, and not by its row's own", row=SAME)
def mean_of_the_padded(x, lengths, limit):
    return shrink(x.masked_fill(~mask(x, lengths)[:, :, None], 0).mean(1), limit)


@wrong("the means are made longer, too: only a norm above limit is changed", row=SAME)
def always_scaled(x, lengths, limit):
    means = mean_of(x, lengths)
    return means * (limit / means.norm(dim=1).max().clamp(min=1e-30))


@wrong("each row is scaled by itself: all rows have one factor, that of the longest mean", row=SAME)
def each_row_by_itself(x, lengths, limit):
    means = mean_of(x, lengths)
    return means * (limit / means.norm(dim=1, keepdim=True)).clamp(max=1).nan_to_num()


@wrong("sums, and means are asked", row=SAME)
def never_divided(x, lengths, limit):
    return shrink(x.masked_fill(~mask(x, lengths)[:, :, None], 0).sum(1), limit)


@wrong("nothing is scaled: the largest norm of the means may be limit at most", row=SAME)
def never_scaled(x, lengths, limit):
    return mean_of(x, lengths)


@wrong("the result is cut off from x's graph", row=GRADIENT)
def without_a_graph(x, lengths, limit):
    with torch.no_grad():
        return shrink(mean_of(x, lengths), limit)


@wrong("the factor is a constant to backward, and it depends on x", row=GRADIENT)
def detached_factor(x, lengths, limit):
    means = mean_of(x, lengths)
    largest = means.detach().norm(dim=1).max()
    return means * torch.where(largest > limit, limit / largest, 1.0)


@wrong("is a `return` missing?", row=SAME)
def forgot_to_return(x, lengths, limit):
    shrink(mean_of(x, lengths), limit)
