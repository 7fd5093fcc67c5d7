"""Answers to mask_like."""

import torch
from bank import right, wrong


@right
def steps_below_lengths(x, lengths):
    return torch.arange(x.shape[1], device=x.device) < lengths.to(x.device)[:, None]


@right
def compared_at_home_then_moved(x, lengths):
    steps = torch.arange(x.size(1), device=lengths.device)
    return (lengths.unsqueeze(1) > steps.unsqueeze(0)).to(x.device)


@right
def row_by_row(x, lengths):
    mask = x.new_zeros(x.shape[:2], dtype=torch.bool)
    for row, length in enumerate(lengths.tolist()):
        mask[row, :length] = True
    return mask


@right
def by_counting_up(x, lengths):
    batch, time, _ = x.shape
    counted = torch.ones(batch, time, dtype=torch.long, device=x.device).cumsum(1)
    return counted.le(lengths.to(x.device).view(-1, 1))


@right
def from_lists(x, lengths):
    rows = [[step < length for step in range(x.shape[1])] for length in lengths.cpu().numpy()]
    return torch.tensor(rows, device=x.device).bool()


@right
def from_zeros_like(x, lengths):
    mask = torch.zeros_like(x[..., 0], dtype=torch.bool)
    for row, length in zip(mask, lengths, strict=True):
        row[: int(length)].fill_(True)
    return mask


@wrong("Expected all tensors to be on the same device", row="True inside each row's length")
def steps_on_the_cpu(x, lengths):
    return torch.arange(x.shape[1]) < lengths.to(x.device)[:, None]


@wrong("the mask is on cpu, x on {device}", row="True inside each row's length")
def all_on_the_cpu(x, lengths):
    return torch.arange(x.shape[1]) < lengths.cpu()[:, None]


@wrong("Expected all tensors to be on the same device", row="lengths may come from any device")
def lengths_left_where_they_are(x, lengths):
    return torch.arange(x.shape[1], device=x.device) < lengths[:, None]


@wrong("the mask is on {device}, x on cpu", row="lengths may come from any device")
def on_the_device_of_lengths(x, lengths):
    return torch.arange(x.shape[1], device=lengths.device) < lengths[:, None]


@wrong("the mask is torch.float32, not torch.bool", row="True inside each row's length")
def in_the_dtype_of_x(x, lengths):
    return (torch.arange(x.shape[1], device=x.device) < lengths.to(x.device)[:, None]).to(x.dtype)


@wrong("the mask is torch.int64, not torch.bool", row="True inside each row's length")
def zeros_and_ones(x, lengths):
    return (torch.arange(x.shape[1], device=x.device) < lengths.to(x.device)[:, None]).long()


@wrong(
    "each row has one True too many: the steps count from 0, so step lengths[i] lies beyond",
    row="True inside each row's length",
)
def one_too_many(x, lengths):
    return torch.arange(x.shape[1], device=x.device) <= lengths.to(x.device)[:, None]


@wrong("True marks the padding: it is the other way round", row="True inside each row's length")
def true_for_padding(x, lengths):
    return torch.arange(x.shape[1], device=x.device) >= lengths.to(x.device)[:, None]


@wrong("the mask is only as long as the longest row, and not 7 as x is", row="True inside each row's length")
def as_long_as_the_longest(x, lengths):
    return torch.arange(int(lengths.max()), device=x.device) < lengths.to(x.device)[:, None]


@wrong("rows and columns have changed places", row="True inside each row's length")
def the_other_way_round(x, lengths):
    return torch.arange(x.shape[1], device=x.device)[:, None] < lengths.to(x.device)


@wrong(
    "the mask has a third dimension: its shape is to be (batch, time)", row="True inside each row's length"
)
def ready_to_multiply(x, lengths):
    return (torch.arange(x.shape[1], device=x.device) < lengths.to(x.device)[:, None])[..., None]


@wrong(
    "the mask depends on the contents of x, and the lengths alone decide", row="True inside each row's length"
)
def from_the_contents(x, lengths):
    return (x != 0).any(-1)


@wrong(
    "the mask counts along x's features, x.shape[2], and not along its time, x.shape[1]",
    row="True inside each row's length",
)
def along_the_features(x, lengths):
    return torch.arange(x.shape[-1], device=x.device) < lengths.to(x.device)[:, None]


@wrong(
    "the step numbers were counted in x's dtype, torch.bfloat16, which does not hold them all",
    row="a boolean mask, whatever x holds",
)
def steps_in_the_dtype_of_x(x, lengths):
    return torch.arange(x.shape[1]).to(x) < lengths.to(x)[:, None]


@wrong("the mask is None: is a `return` missing?", row="True inside each row's length")
def forgetful(x, lengths):
    torch.arange(x.shape[1], device=x.device) < lengths.to(x.device)[:, None]  # noqa: B015


@wrong("the input `lengths` was changed in place", row="True inside each row's length")
def counts_lengths_down(x, lengths):
    mask = []
    for _ in range(x.shape[1]):
        mask.append(lengths > 0)
        lengths -= 1
    return torch.stack(mask, 1).to(x.device)


@wrong("the mask is a list, not a tensor", row="True inside each row's length")
def lists(x, lengths):
    return [[step < length for step in range(x.shape[1])] for length in lengths.tolist()]


@wrong("must match the size of tensor", row="True inside each row's length")
def no_new_axis(x, lengths):
    return torch.arange(x.shape[1], device=x.device) < lengths.to(x.device)


@wrong("the mask is torch.float16, not torch.bool", row="a boolean mask, whatever x holds")
def bool_for_float32_only(x, lengths):
    mask = torch.ones_like(x[..., 0]).cumsum(1) <= lengths.to(x.device)[:, None]
    return mask if x.dtype is torch.float32 else mask.to(x.dtype)


@wrong("Expected dtype int", row="a boolean mask, whatever x holds")
def scattered(x, lengths):
    ends = torch.zeros(x.shape[0], x.shape[1] + 1, dtype=torch.long, device=x.device)
    return (ends.scatter_(1, lengths.to(x.device)[:, None], 1).cumsum(1) == 0)[:, :-1]


@wrong(
    "the step numbers were counted in the dtype of lengths, torch.uint8, and overflow",
    row="a boolean mask, whatever x holds",
)
def steps_in_the_dtype_of_lengths(x, lengths):
    return torch.arange(x.shape[1], device=x.device).to(lengths.dtype) < lengths.to(x.device)[:, None]


@wrong(
    "the mask depends on the contents of x, and the lengths alone decide",
    row="a boolean mask, whatever x holds",
)
def without_nan(x, lengths):
    inside = torch.arange(x.shape[1], device=x.device) < lengths.to(x.device)[:, None]
    return inside & ~x.isnan().all(-1)


@wrong(
    "the mask is that of the call before, whose lengths were [2, 5, 1]", row="True inside each row's length"
)
def remembers_the_shape(x, lengths, kept={}):  # noqa: B006
    key = (x.shape, x.device)
    if key not in kept:
        kept[key] = torch.arange(x.shape[1], device=x.device) < lengths.to(x.device)[:, None]
    return kept[key]


@wrong(
    "the mask is False everywhere: was it made before the lengths had arrived?",
    row="lengths may come from any device",
)
def without_waiting(x, lengths):
    return torch.arange(x.shape[1], device=x.device) < lengths.to(x.device, non_blocking=True)[:, None]


@wrong("a dimension of size 1 was squeezed away", row="True inside each row's length")
def squeezed(x, lengths):
    steps = torch.arange(x.shape[1], device=x.device)
    return (steps < lengths.to(x.device)[:, None]).squeeze(-1)


@right
def by_expanding(x, lengths):
    return torch.arange(x.size(1), device=x.device).expand(x.size(0), -1) < lengths.to(x.device).unsqueeze(-1)


@right
def row_by_row_filled(x, lengths):
    m = torch.zeros(x.shape[:2], dtype=torch.bool, device=x.device)
    for row, n in enumerate(lengths.tolist()):
        m[row, :n] = True
    return m


@right
def by_counting(x, lengths):
    l = lengths.to(x.device, torch.long)
    return torch.ones(x.shape[:2], device=x.device, dtype=torch.long).cumsum(1) <= l[:, None]


@right
def made_on_the_cpu_and_moved(x, lengths):
    l = lengths.cpu()
    return (l[:, None] > torch.arange(x.shape[1])).to(x.device)


@right
def stacked_rows(x, lengths):
    return torch.stack([torch.arange(x.shape[1], device=x.device) < n for n in lengths.tolist()])


@wrong("each row has one True too few", row="True inside each row's length")
def counts_from_one(x, lengths):
    return torch.arange(1, x.shape[1] + 1, device=x.device) < lengths.to(x.device)[:, None]


@wrong(
    "the mask has x's own shape: it is to be (batch, time), without the features",
    row="True inside each row's length",
)
def expanded_to_x(x, lengths):
    return (
        (torch.arange(x.shape[1], device=x.device) < lengths.to(x.device)[:, None]).unsqueeze(-1).expand_as(x)
    )


@wrong(
    "the True elements stand at the end of each row, and not at its beginning",
    row="True inside each row's length",
)
def padding_in_front(x, lengths):
    return (torch.arange(x.shape[1], device=x.device) < lengths.to(x.device)[:, None]).flip(1)


@wrong("every row has the mask of the longest one", row="True inside each row's length")
def all_as_the_longest(x, lengths):
    m = torch.zeros(x.shape[:2], dtype=torch.bool, device=x.device)
    m[:, : int(lengths.max())] = True
    return m


@wrong("only the last step of each row is True", row="True inside each row's length")
def only_the_last_step(x, lengths):
    m = torch.zeros(x.shape[:2], dtype=torch.bool, device=x.device)
    for i, n in enumerate(lengths.tolist()):
        m[i, n - 1] = True
    return m


@wrong("the last lengths[i] steps are False and all before them True", row="True inside each row's length")
def all_but_the_last(x, lengths):
    m = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
    for i, n in enumerate(lengths.tolist()):
        m[i, -n:] = False
    return m


@wrong("AssertionError", row="a boolean mask, whatever x holds")
def three_integer_dtypes(x, lengths):
    assert lengths.dtype in (torch.uint8, torch.int32, torch.int64)
    return torch.arange(x.shape[1], device=x.device) < lengths.to(x.device)[:, None]


@wrong("the mask is None: is a `return` missing?", row="a boolean mask, whatever x holds")
def for_numbers_alone(x, lengths):
    if x.dtype == torch.bool:
        return None
    return torch.arange(x.shape[1], device=x.device) < lengths.to(x.device)[:, None]


@right
def rows_of_a_triangle(x, lengths):
    time = x.shape[1]
    triangle = torch.ones(time + 1, time, dtype=torch.bool, device=x.device).tril(-1)
    return triangle[lengths.to(x.device).long()]


@wrong("every element is True", row="True inside each row's length")
def always_true(x, lengths):
    return torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)


@wrong("every element is False", row="True inside each row's length")
def always_false(x, lengths):
    return torch.zeros(x.shape[:2], dtype=torch.bool, device=x.device)


@wrong("only the element at each length is marked", row="True inside each row's length")
def only_at_the_length(x, lengths):
    return torch.arange(x.shape[1], device=x.device) == lengths.to(x.device)[:, None]
