"""Answers to standardize."""

import numpy as np
import torch
from bank import right, wrong


@right
def where_the_spread_is_zero(x):
    spread = x.std(0)
    return (x - x.mean(0)) / torch.where(spread == 0, 1, spread)


@right
def dtype_sized_epsilon(x):
    return (x - x.mean(dim=0)) / (x.std(dim=0) + torch.finfo(x.dtype).eps)


@right
def plain_epsilon(x):
    return (x - x.mean(dim=0, keepdim=True)) / (x.std(dim=0, keepdim=True) + 1e-6)


@right
def larger_epsilon_is_let_pass(x):
    return (x - x.mean(0)) / (x.std(0) + 1e-5)


@right
def clamped(x):
    return (x - x.mean(0)) / x.std(0).clamp_min(torch.finfo(x.dtype).tiny)


@right
def wide_then_back(x):
    wide = x if x.dtype == torch.float64 else x.float()
    centred = wide - wide.mean(0)
    spread = wide.std(0)
    return (centred / spread.masked_fill(spread == 0, 1)).to(x.dtype)


@right
def by_hand(x):
    centred = x - x.sum(0) / len(x)
    spread = (centred.square().sum(0) / (len(x) - 1)).sqrt()
    return centred / (spread + (spread == 0))


@right
def mended_afterwards(x):
    return torch.nan_to_num((x - x.mean(0)) / x.std(0))


@right
def column_by_column(x):
    columns = []
    for column in x.unbind(1):
        centred = column - column.mean()
        spread = column.std()
        columns.append(centred / spread if spread > 0 else centred)
    return torch.stack(columns, dim=1)


@right
def helper_like_the_spread(x):
    spread, mean = torch.std_mean(x, dim=0)
    return (x - mean) / torch.where(spread > 0, spread, torch.ones_like(spread))


@right
def numbers_have_no_device(x):
    spread = x.std(0)
    return (x - x.mean(0)) / torch.maximum(spread, torch.tensor(1e-7, device=x.device, dtype=x.dtype))


@right
def on_a_copy_in_place(x):
    result = x.clone()
    result -= x.mean(0)
    spread = x.std(0)
    spread = spread + (spread == 0).to(x.dtype)
    return result.div_(spread)


@right
def varying_columns_only(x):
    result = torch.zeros_like(x)
    varies = x.std(0) > 0
    kept = x[:, varies]
    result[:, varies] = (kept - kept.mean(0)) / kept.std(0)
    return result


@right
def by_reciprocal_root(x):
    variance, mean = torch.var_mean(x, dim=0)
    return (x - mean) * torch.where(variance == 0, 0, variance.rsqrt())


@wrong("Expected all tensors to be on the same device", row="mean 0 and deviation 1 in each column")
def helper_on_the_cpu(x):
    spread = x.std(0)
    return (x - x.mean(0)) / torch.maximum(spread, torch.full((x.shape[1],), 1e-6))


@wrong("the result is torch.float32, not torch.float16", row="a constant column becomes zeros, not nan")
def float32_epsilon(x):
    return (x - x.mean(0)) / (x.std(0) + torch.full((x.shape[1],), 1e-6, device=x.device))


@wrong("the input `x` was changed in place", row="mean 0 and deviation 1 in each column")
def in_place(x):
    x -= x.mean(0)
    spread = x.std(0)
    x /= torch.where(spread == 0, 1, spread)
    return x


@wrong("a constant column of torch.float32 became nan", row="a constant column becomes zeros, not nan")
def plain(x):
    return (x - x.mean(0)) / x.std(0)


@wrong("a constant column of torch.float16 became nan", row="a constant column becomes zeros, not nan")
def epsilon_too_small_for_half(x):
    return (x - x.mean(0)) / (x.std(0) + 1e-8)


@wrong("the population deviation (n), not the sample's (n - 1)", row="mean 0 and deviation 1 in each column")
def population(x):
    return (x - x.mean(0)) / (x.std(0, correction=0) + 1e-6)


@wrong("one mean and one deviation served the whole table", row="mean 0 and deviation 1 in each column")
def whole_table(x):
    return (x - x.mean()) / x.std()


@wrong("each row was standardized, not each column", row="mean 0 and deviation 1 in each column")
def rows(x):
    return (x - x.mean(1, keepdim=True)) / (x.std(1, keepdim=True) + 1e-6)


@wrong("must match the size of tensor b", row="mean 0 and deviation 1 in each column")
def rows_without_keepdim(x):
    return (x - x.mean(1)) / x.std(1)


@wrong("divided by the variance, not the deviation", row="mean 0 and deviation 1 in each column")
def variance(x):
    return (x - x.mean(0)) / (x.var(0) + 1e-6)


@wrong("the columns have mean 0, but not deviation 1", row="mean 0 and deviation 1 in each column")
def centred_only(x):
    return x - x.mean(0)


@wrong("the columns were scaled to a range", row="mean 0 and deviation 1 in each column")
def min_max(x):
    low, high = x.amin(0), x.amax(0)
    return (x - low) / (high - low + 1e-6)


@wrong("a constant column did not become zeros", row="a constant column becomes zeros, not nan")
def constant_left_as_it_is(x):
    spread = x.std(0)
    return torch.where(spread == 0, x, (x - x.mean(0)) / spread)


@wrong("the result has shape [8,2], not [8,4]", row="a constant column becomes zeros, not nan")
def constant_dropped(x):
    spread = x.std(0)
    kept = spread > 0
    return (x[:, kept] - x.mean(0)[kept]) / spread[kept]


@wrong("the result is torch.float32, not torch.float16", row="a constant column becomes zeros, not nan")
def always_float32(x):
    wide = x.float()
    return (wide - wide.mean(0)) / (wide.std(0) + 1e-6)


@wrong("digits of a float64 table were lost", row="the dtype stays what it was")
def float32_on_the_way(x):
    wide = x.float()
    return ((wide - wide.mean(0)) / (wide.std(0) + 1e-6)).to(x.dtype)


@right
def detached(x):
    x = x.detach()
    return (x - x.mean(0)) / (x.std(0) + 1e-6)


@right
@torch.no_grad()
def without_gradients(x):
    return (x - x.mean(0)) / (x.std(0) + 1e-6)


@wrong(
    "TypeError: can't convert {device} device type tensor to numpy",
    row="mean 0 and deviation 1 in each column",
)
def through_numpy(x):
    table = x.detach().numpy()
    return torch.from_numpy((table - table.mean(0)) / (table.std(0, ddof=1) + 1e-6)).to(x.dtype)


@wrong("the result is on cpu, not {device}", row="mean 0 and deviation 1 in each column")
def home_and_not_back(x):
    table = x.cpu()
    return (table - table.mean(0)) / (table.std(0) + 1e-6)


@wrong(
    "an epsilon of 0.1 was added to the deviations: it is too large",
    row="mean 0 and deviation 1 in each column",
)
def large_epsilon(x):
    return (x - x.mean(0)) / (x.std(0) + 0.1)


@right
def mends_the_deviation_in_place(x):
    spread = x.std(0)
    spread[spread == 0] = 1
    return (x - x.mean(0)) / spread


@right
def in_place_after_the_graph(x):
    result = x - x.mean(0)
    spread = result.pow(2)
    result.div_((spread.sum(0) / (len(x) - 1)).sqrt() + 1e-6)
    return result


@wrong("the result is None", row="mean 0 and deviation 1 in each column")
def prints(x):
    print((x - x.mean(0)) / x.std(0))


@wrong("is a NumPy array, not a tensor", row="mean 0 and deviation 1 in each column")
def gives_numpy(x):
    table = x.detach().cpu().double().numpy()
    return (table - np.mean(table, 0)) / np.std(table, 0, ddof=1)


@wrong("the result of a float64 table was rounded to a smaller dtype", row="the dtype stays what it was")
def rounded_at_the_end(x):
    wide = x if x.dtype == torch.float64 else x.float()
    spread = wide.std(0)
    return ((wide - wide.mean(0)) / torch.where(spread == 0, 1, spread)).float().to(x.dtype)


@wrong(
    "a column whose deviation is 0.05 was not divided by it, as if it were constant",
    row="mean 0 and deviation 1 in each column",
)
def a_threshold(x):
    spread = x.std(0)
    spread[spread < 0.1] = 1
    return (x - x.mean(0)) / spread


@wrong(
    "column 0 became zeros, as a constant column does, and it is not constant",
    row="mean 0 and deviation 1 in each column",
)
def constant_if_two_agree(x):
    out = torch.zeros_like(x)
    for column in range(x.shape[1]):
        c = x[:, column]
        if c[0] != c[1]:
            out[:, column] = (c - c.mean()) / c.std()
    return out


@wrong(
    "column 1 became zeros, as a constant column does, and it is not constant",
    row="mean 0 and deviation 1 in each column",
)
def constant_if_the_ends_agree(x):
    out = torch.zeros_like(x)
    for column in range(x.shape[1]):
        c = x[:, column]
        if c[0] != c[-1]:
            out[:, column] = (c - c.mean()) / c.std()
    return out


_kept = {}


@wrong(
    "the mean and the deviation are those of the table of the call before",
    row="mean 0 and deviation 1 in each column",
)
def of_the_first_table(x):
    key = x.shape, x.dtype, x.device
    if key not in _kept:
        spread = x.std(0)
        _kept[key] = x.mean(0), torch.where(spread == 0, 1, spread)
    mean, spread = _kept[key]
    return (x - mean) / spread


@wrong(
    "a column that is nearly constant became zeros, although its deviation is not 0",
    row="a constant column becomes zeros, not nan",
)
def with_a_threshold(x):
    spread = x.std(0)
    nearly = spread < 1e-3
    return torch.where(nearly, torch.zeros_like(x), (x - x.mean(0)) / torch.where(nearly, 1, spread))


@wrong("the numbers beyond 3 deviations were cut off", row="mean 0 and deviation 1 in each column")
def without_outliers(x):
    return torch.nan_to_num((x - x.mean(0)) / x.std(0)).clamp(-3, 3)


@right
def masked(x):
    s = x.std(dim=0, keepdim=True)
    s = s.masked_fill(s == 0, 1)
    return (x - x.mean(0, keepdim=True)) / s


@right
def where_after(x):
    c = x - x.mean(0)
    z = c / x.std(0)
    return torch.where(x.std(0) == 0, torch.zeros_like(z), z)


@right
def std_mean(x):
    s, m = torch.std_mean(x, 0)
    s[s == 0] = 1
    return x.sub(m).div(s)


@right
def by_var(x):
    v = x.var(0)
    return (x - x.mean(0)) / torch.where(v == 0, torch.ones_like(v), v).sqrt()


@right
def in_double_and_back(x):
    y = x.double() if x.dtype == torch.float64 else x.float()
    s = y.std(0)
    return ((y - y.mean(0)) / torch.where(s == 0, 1, s)).to(x.dtype)


@right
def by_columns(x):
    out = torch.empty_like(x)
    for j in range(x.shape[1]):
        c = x[:, j]
        s = c.std()
        out[:, j] = (c - c.mean()) / s if s > 0 else 0
    return out


@wrong("one deviation served the whole table", row="mean 0 and deviation 1 in each column")
def global_std(x):
    return (x - x.mean(0)) / x.std()


@wrong(
    "the columns were divided by their deviation, and their mean was not taken away",
    row="mean 0 and deviation 1 in each column",
)
def no_mean(x):
    s = x.std(0)
    return x / torch.where(s == 0, 1, s)


@wrong(
    "the columns were divided by their length, the root of the sum of squares",
    row="mean 0 and deviation 1 in each column",
)
def normalize(x):
    return torch.nn.functional.normalize(x - x.mean(0), dim=0)


@wrong(
    "an epsilon of 0.01 was added to the deviations: it is too large",
    row="mean 0 and deviation 1 in each column",
)
def eps01(x):
    return (x - x.mean(0)) / (x.std(0) + 0.01)


@wrong(
    "the columns were multiplied by their deviation, and not divided",
    row="mean 0 and deviation 1 in each column",
)
def times_std(x):
    return (x - x.mean(0)) * x.std(0)


@wrong(
    "one mean served the whole table, and nothing was divided", row="mean 0 and deviation 1 in each column"
)
def minus_only(x):
    return x - x.mean()


@wrong(
    "the columns were scaled to a range, not to mean 0 and deviation 1",
    row="mean 0 and deviation 1 in each column",
)
def as_the_lesson_scales(x):
    low, high = x.amin(0), x.amax(0)
    width = high - low
    return (x - low) / torch.where(width == 0, 1, width)


@wrong("the result has shape [6], not [6,1]", row="mean 0 and deviation 1 in each column")
def squeezed(x):
    spread = x.std(0)
    return ((x - x.mean(0)) / torch.where(spread == 0, 1, spread)).squeeze()


@wrong("the numbers beyond 10 deviations were cut off", row="mean 0 and deviation 1 in each column")
def cut_at_ten(x):
    return torch.nan_to_num((x - x.mean(0)) / x.std(0)).clamp(-10, 10)


@wrong("a constant column of torch.bfloat16 became nan", row="a constant column becomes zeros, not nan")
def epsilon_for_float16_alone(x):
    return (x - x.mean(0)) / (x.std(0) + (1e-6 if x.dtype in (torch.float16, torch.float32) else 0))


@wrong("a constant column of torch.float64 became nan", row="a constant column becomes zeros, not nan")
def no_epsilon_for_float64(x):
    return (x - x.mean(0)) / (x.std(0) + (0 if x.dtype == torch.float64 else 1e-6))


@right
def by_the_norm(x):
    centred = x - x.mean(0)
    spread = torch.linalg.vector_norm(centred, dim=0) / (len(x) - 1) ** 0.5
    return centred / spread.masked_fill(spread == 0, 1)


@right
def constant_columns_by_their_numbers(x):
    constant = (x == x[0]).all(0)
    return ((x - x.mean(0)) / x.std(0).masked_fill(constant, 1)).masked_fill(constant, 0)


@right
def what_is_not_finite_becomes_zero(x):
    result = (x - x.mean(0)) / x.std(0)
    result[~result.isfinite()] = 0
    return result


@right
def by_numpy_in_float64(x):
    table = x.detach().cpu().double().numpy()
    spread = table.std(0, ddof=1)
    spread[spread == 0] = 1
    return torch.from_numpy((table - table.mean(0)) / spread).to(x.device, x.dtype)


@wrong("numbers near 1000 lost its digits", row="mean 0 and deviation 1 in each column")
def by_the_mean_of_the_squares(x):
    count, mean = len(x), x.mean(0)
    variance = (x.square().mean(0) - mean.square()) * count / (count - 1)
    spread = variance.clamp_min(0).sqrt()
    return (x - mean) / torch.where(spread == 0, 1, spread)


@right
def divided_first(x):
    spread = x.std(0)
    spread = torch.where(spread == 0, 1, spread)
    return x / spread - x.mean(0) / spread


@wrong("column 3 became zeros, as a constant column does", row="mean 0 and deviation 1 in each column")
def a_zero_makes_a_column_constant(x):
    constant = (x == 0).any(0) | (x == x[0]).all(0)
    return ((x - x.mean(0)) / x.std(0)).masked_fill(constant, 0)


@wrong("the values of the result are wrong", row="mean 0 and deviation 1 in each column")
def a_zero_leaves_a_column_undivided(x):
    spread = x.std(0)
    return (x - x.mean(0)) / torch.where((x == 0).any(0) | (spread == 0), 1, spread)
