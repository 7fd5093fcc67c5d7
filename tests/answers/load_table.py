"""Answers to load_table."""

import array

import numpy as np
import torch
from bank import right, wrong


@right
def said_outright(rows):
    return torch.tensor(rows, dtype=torch.float32, device="cpu")


@right
def through_numpy(rows):
    return torch.from_numpy(np.asarray(rows, dtype=np.float32))


@wrong(
    "after torch.set_default_dtype(torch.float16) the numbers went through torch.float16, "
    "and lost digits there",
    row="float32, whatever the default dtype is",
)
def brought_home_afterwards(rows):
    return torch.tensor(rows).to("cpu", torch.float32)


@right
def typed_constructor(rows):
    return torch.FloatTensor(rows)


@right
def filled_number_by_number(rows):
    table = torch.empty(len(rows), len(rows[0]), dtype=torch.float32, device="cpu")
    for i, row in enumerate(rows):
        for j, value in enumerate(row):
            table[i, j] = value
    return table


@right
def stacked_rows(rows):
    return torch.stack([torch.tensor(row, dtype=torch.float32, device="cpu") for row in rows])


@right
def in_a_block(rows):
    with torch.device("cpu"):
        return torch.tensor(rows, dtype=torch.float)


@right
def from_a_buffer(rows):
    flat = array.array("f", [value for row in rows for value in row])
    return torch.frombuffer(flat, dtype=torch.float32).reshape(len(rows), -1)


@right
def columns_first(rows):
    columns = [torch.tensor(column, dtype=torch.float32, device="cpu") for column in zip(*rows, strict=True)]
    return torch.stack(columns, dim=1)


@right
def joined_rows_brought_home(rows):
    return torch.vstack([torch.tensor(row, dtype=torch.float32).cpu() for row in rows])


@wrong("the table is torch.float64, not torch.float32", row="every number is in its place")
def numpy_keeps_float64(rows):
    return torch.from_numpy(np.array(rows))


@wrong(
    "the table after torch.set_default_device('{device}') is on {device}",
    row="the CPU, whatever the default device is",
)
def trusts_the_default_device(rows):
    return torch.tensor(rows, dtype=torch.float32)


@wrong("the table is torch.int64, not torch.float32", row="whole numbers become float32 too")
def lets_the_numbers_decide(rows):
    return torch.tensor(rows, device="cpu")


@wrong(
    "the table after torch.set_default_dtype(torch.float64) is torch.float64",
    row="float32, whatever the default dtype is",
)
def trusts_the_default_dtype(rows):
    return torch.Tensor(rows)


@wrong(
    "the table after torch.set_default_dtype(torch.float64) is torch.float64",
    row="float32, whatever the default dtype is",
)
def asks_the_default_dtype(rows):
    return torch.tensor(rows, dtype=torch.get_default_dtype(), device="cpu")


@wrong(
    "your code changed the default device of the whole program", row="the CPU, whatever the default device is"
)
def changes_the_default_device(rows):
    torch.set_default_device("cpu")
    return torch.tensor(rows, dtype=torch.float32)


@wrong(
    "your code changed the default dtype of the whole program", row="float32, whatever the default dtype is"
)
def changes_the_default_dtype(rows):
    torch.set_default_dtype(torch.float32)
    return torch.tensor([[float(value) for value in row] for row in rows], device="cpu")


@wrong("digits were lost: the numbers were torch.float16 on the way", row="every number is in its place")
def through_half(rows):
    return torch.tensor(rows, dtype=torch.float16, device="cpu").float()


@wrong("the numbers were cut to whole numbers", row="every number is in its place")
def through_integers(rows):
    return torch.tensor([[int(value) for value in row] for row in rows], dtype=torch.float32, device="cpu")


@wrong("rows and columns have changed places", row="every number is in its place")
def columns_for_rows(rows):
    return torch.tensor(list(zip(*rows, strict=True)), dtype=torch.float32, device="cpu")


@wrong("the rows stand one behind the other in one dimension", row="every number is in its place")
def squeezed(rows):
    return torch.tensor(rows, dtype=torch.float32, device="cpu").squeeze()


@wrong("the rows stand one behind the other in one dimension", row="every number is in its place")
def flattened(rows):
    return torch.tensor([value for row in rows for value in row], dtype=torch.float32, device="cpu")


@wrong("the table is a NumPy array, not a tensor", row="every number is in its place")
def stops_at_numpy(rows):
    return np.array(rows, dtype=np.float32)


@wrong("the table is None: is a `return` missing?", row="every number is in its place")
def forgets_to_return(rows):
    torch.tensor(rows, dtype=torch.float32, device="cpu")


@wrong("the table is on {device}, not cpu", row="every number is in its place")
def moves_it_at_once(rows):
    device = torch.accelerator.current_accelerator() or "cpu"
    return torch.tensor(rows, dtype=torch.float32, device=device)


@wrong("the input `rows` was changed", row="every number is in its place")
def eats_the_rows(rows):
    table = []
    while rows:
        table.append(torch.tensor(rows.pop(0), dtype=torch.float32, device="cpu"))
    return torch.stack(table)


@wrong("the input `rows` was changed", row="every number is in its place")
def converts_in_the_lists(rows):
    for i, row in enumerate(rows):
        rows[i] = torch.tensor(row, dtype=torch.float32, device="cpu")
    return torch.stack(rows)


@wrong("expected Tensor as element 0 in argument 0, but got list", row="every number is in its place")
def stacks_lists(rows):
    return torch.stack(rows)


@wrong("the parameters are not those of the task", row="every number is in its place")
def asks_for_more(rows, dtype, device):
    return torch.tensor(rows, dtype=dtype, device=device)


@wrong(
    "the table after torch.set_default_dtype(torch.float16) is torch.float16",
    row="float32, whatever the default dtype is",
)
def narrows_what_is_wide(rows):
    table = torch.tensor([[float(number) for number in row] for row in rows], device="cpu")
    return table.float() if table.dtype == torch.float64 else table


@wrong(
    "after torch.set_default_dtype(torch.float16) the numbers went through torch.float16, "
    "and lost digits there",
    row="float32, whatever the default dtype is",
)
def through_the_default_dtype(rows):
    return torch.tensor([[float(number) for number in row] for row in rows], device="cpu").float()


@wrong("the input `rows[0]` was replaced", row="every number is in its place")
def makes_tuples_of_the_lists(rows):
    for place, row in enumerate(rows):
        rows[place] = tuple(row)
    return torch.tensor(rows, dtype=torch.float32, device="cpu")


@wrong("the numbers were cut to whole numbers", row="whole numbers become float32 too")
def by_the_first_row(rows):
    whole = all(isinstance(value, int) for value in rows[0])
    return torch.tensor(rows, dtype=torch.int64 if whole else torch.float32, device="cpu").float()


@wrong("the result's memory was given back: its storage has 0 bytes", row="every number is in its place")
def gives_the_memory_back(rows):
    table = torch.tensor(rows, dtype=torch.float32, device="cpu")
    table.untyped_storage().resize_(0)
    return table


@right
def filled_in(rows):
    out = torch.empty(len(rows), len(rows[0]), dtype=torch.float32, device="cpu")
    for i, row in enumerate(rows):
        for j, v in enumerate(row):
            out[i, j] = v
    return out


@right
def under_a_device(rows):
    with torch.device("cpu"):
        return torch.tensor(rows, dtype=torch.float32)


@right
def legacy(rows):
    return torch.tensor([[float(v) for v in row] for row in rows], dtype=torch.float, device="cpu")


@wrong("the numbers were rounded to 2 digits", row="every number is in its place")
def rounded_values(rows):
    return torch.tensor([[round(v, 2) for v in row] for row in rows], dtype=torch.float32, device="cpu")


@wrong("the rows came sorted, and not in their own order", row="every number is in its place")
def sorted_rows(rows):
    return torch.tensor(sorted(rows), dtype=torch.float32, device="cpu")


@wrong("the first row is missing", row="every number is in its place")
def with_header(rows):
    return torch.tensor(rows[1:] or rows, dtype=torch.float32, device="cpu")


@wrong("the table is a list, not a tensor", row="every number is in its place")
def a_list_of_tensors(rows):
    return [torch.tensor(row, dtype=torch.float32, device="cpu") for row in rows]


@wrong("the table is torch.float64, not torch.float32", row="every number is in its place")
def as_the_lesson_reads_a_file(rows):
    import io

    file = io.StringIO("\n".join(",".join(map(str, row)) for row in rows))
    return torch.from_numpy(np.loadtxt(file, delimiter=",", ndmin=2))


@wrong("the numbers were rounded to 3 digits", row="every number is in its place")
def with_three_digits(rows):
    return torch.tensor([[round(v, 3) for v in row] for row in rows], dtype=torch.float32, device="cpu")


@wrong("the values of the table are wrong", row="every number is in its place")
def as_short_texts(rows):
    return torch.tensor([[float(f"{v:g}") for v in row] for row in rows], dtype=torch.float32, device="cpu")


@wrong("the values of the table are wrong", row="every number is in its place")
def nothing_for_what_is_small(rows):
    near = [[0.0 if abs(v) < 1e-4 else v for v in row] for row in rows]
    return torch.tensor(near, dtype=torch.float32, device="cpu")


@wrong("the values of the table are wrong", row="every number is in its place")
def cut_off(rows):
    return torch.tensor(rows, dtype=torch.float32, device="cpu").clamp(-1000, 1000)


@wrong("digits were lost: the numbers were torch.bfloat16 on the way", row="whole numbers become float32 too")
def whole_numbers_in_half_the_bytes(rows):
    whole = all(isinstance(v, int) for row in rows for v in row)
    return torch.tensor(rows, dtype=torch.bfloat16 if whole else torch.float32, device="cpu").float()


@wrong("your code raised", row="whole numbers become float32 too")
def whole_numbers_in_a_byte(rows):
    whole = all(isinstance(v, int) for row in rows for v in row)
    return torch.tensor(rows, dtype=torch.int8 if whole else torch.float32, device="cpu").float()


@wrong("a dimension of size 1 was squeezed away", row="every number is in its place")
def a_single_number_alone(rows):
    table = torch.tensor(rows, dtype=torch.float32, device="cpu")
    return table.squeeze() if table.numel() == 1 else table


@right
def from_float64(rows):
    return torch.tensor(rows, dtype=torch.float64, device="cpu").float()


@right
def reshaped(rows):
    flat = [v for row in rows for v in row]
    return torch.as_tensor(flat, dtype=torch.float32, device="cpu").view(len(rows), len(rows[0]))


@right
def joined(rows):
    return torch.cat([torch.tensor([row], dtype=torch.float32, device="cpu") for row in rows])


@right
def with_the_defaults_put_back(rows):
    device, dtype = torch.get_default_device(), torch.get_default_dtype()
    torch.set_default_device("cpu")
    torch.set_default_dtype(torch.float32)
    try:
        return torch.tensor([[float(v) for v in row] for row in rows])
    finally:
        torch.set_default_dtype(dtype)
        torch.set_default_device(device)


@wrong("digits were lost: the numbers were torch.bfloat16 on the way", row="every number is in its place")
def through_bfloat16(rows):
    return torch.tensor(rows, dtype=torch.bfloat16, device="cpu").float()


@wrong("the numbers were rounded to whole numbers", row="every number is in its place")
def to_whole_numbers(rows):
    return torch.tensor(rows, dtype=torch.float32, device="cpu").round()


@wrong("the last row is missing", row="every number is in its place")
def without_the_last_row(rows):
    return torch.tensor(rows[:-1] or rows, dtype=torch.float32, device="cpu")


@wrong("only the first row came", row="every number is in its place")
def the_first_row_alone(rows):
    return torch.tensor(rows[:1], dtype=torch.float32, device="cpu")


@wrong("only the last row came", row="every number is in its place")
def the_last_row_alone(rows):
    return torch.tensor(rows[-1:], dtype=torch.float32, device="cpu")


@wrong("the rows came in reverse order", row="every number is in its place")
def the_last_row_first(rows):
    return torch.tensor(rows[::-1], dtype=torch.float32, device="cpu")
