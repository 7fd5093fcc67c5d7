"""Answers to scale_in_place."""

import numpy as np
import torch
from bank import right, wrong


@right
def mul(a, k):
    torch.from_numpy(a).mul_(k)


@right
def augmented(a, k):
    t = torch.as_tensor(a)
    t *= k


@right
def out(a, k):
    t = torch.from_numpy(a)
    torch.mul(t, k, out=t)


@right
def by_dlpack(a, k):
    t = torch.from_dlpack(a) if a.size else torch.from_numpy(a)
    t.multiply_(k)


@right
def without_gradients(a, k):
    with torch.no_grad():
        t = torch.asarray(a, copy=False)
        t.mul_(torch.tensor(k, dtype=t.dtype))


@right
def row_by_row(a, k):
    t = torch.from_numpy(a)
    for part in t:
        part *= k


@right
def number_by_number(a, k):
    t = torch.from_numpy(a)
    for place in np.ndindex(*a.shape):
        t[place] *= k


@right
def by_a_python_function(a, k):
    torch.from_numpy(a).apply_(lambda number: number * k)


@right
def several_at_once(a, k):
    torch._foreach_mul_([torch.from_numpy(a)], k)


@right
def in_inference_mode(a, k):
    with torch.inference_mode():
        torch.from_numpy(a).mul_(k)


@right
def all_of_it(a, k):
    t = torch.from_numpy(a)
    t[...].mul_(k)


@wrong("nothing in it has changed", row="every element times k, in the array")
def out_of_place(a, k):
    torch.from_numpy(a).mul(k)


@wrong("nothing in it has changed", row="every element times k, in the array")
def on_a_copy(a, k):
    torch.tensor(a).mul_(k)


@wrong("nothing in it has changed", row="every element times k, in the array")
def rebinds(a, k):
    a = torch.from_numpy(a) * k


@wrong("nothing in it has changed", row="every element times k, in the array")
def rebinds_the_tensor(a, k):
    t = torch.from_numpy(a)
    t = t * k


@wrong("nothing in it has changed", row="every element times k, in the array")
def of_a_copied_array(a, k):
    torch.from_numpy(a.copy()).mul_(k)


@wrong("nothing in it has changed", row="every element times k, in the array")
def on_the_accelerator(a, k):
    torch.from_numpy(a).to(torch.accelerator.current_accelerator()).mul_(k)


@wrong("a column: nothing in it has changed", row="seen in all of that memory, only there")
def tidied_first(a, k):
    torch.from_numpy(np.ascontiguousarray(a).reshape(a.shape)).mul_(k)


@wrong("a slice with steps: nothing in it has changed", row="seen in all of that memory, only there")
def flattened_in_torch(a, k):
    torch.from_numpy(a).reshape(-1).mul_(k)


@wrong(
    "other memory was used: for the product, or for a copy of the array",
    row="through a tensor, without a copy",
)
def copied_back(a, k):
    t = torch.from_numpy(a)
    t.copy_(t * k)


@wrong(
    "other memory was used: for the product, or for a copy of the array",
    row="through a tensor, without a copy",
)
def assigned_back(a, k):
    t = torch.from_numpy(a)
    t[...] = t * k


@wrong(
    "other memory was used: for the product, or for a copy of the array",
    row="through a tensor, without a copy",
)
def numpys_product(a, k):
    torch.from_numpy(a).copy_(torch.as_tensor(np.asarray(a * k, dtype=a.dtype)))


@wrong(
    "other memory was used: for the product, or for a copy of the array",
    row="through a tensor, without a copy",
)
def a_tensor_full_of_k(a, k):
    t = torch.from_numpy(a)
    t *= torch.full_like(t, k)


@wrong(
    "other memory was used: for the product, or for a copy of the array",
    row="through a tensor, without a copy",
)
def there_and_back(a, k):
    t = torch.from_numpy(a)
    there = t.to(torch.accelerator.current_accelerator())
    t.copy_(there * k)


@wrong("12 small tensors were made, one after another", row="through a tensor, without a copy")
def row_by_row_through_new_rows(a, k):
    t = torch.from_numpy(a)
    for place in range(len(t)):
        t[place] = t[place] * k


@wrong("the array was not scaled through a tensor over its memory", row="through a tensor, without a copy")
def tidied_and_brought_back(a, k):
    tidy = np.ascontiguousarray(a)
    torch.from_numpy(tidy).mul_(k)
    if tidy is not a:
        a[...] = tidy


@wrong(
    "other memory was used: for the product, or for a copy of the array",
    row="through a tensor, without a copy",
)
def tidied_by_torch_and_brought_back(a, k):
    t = torch.from_numpy(a)
    t.copy_(t.contiguous().mul_(k))


@wrong("the array was not scaled through a tensor over its memory", row="through a tensor, without a copy")
def numpy_alone(a, k):
    a *= k


@wrong("the array was not scaled through a tensor over its memory", row="through a tensor, without a copy")
def back_into_the_array(a, k):
    a[...] = (torch.from_numpy(a) * k).numpy()


@wrong("the array was not scaled through a tensor over its memory", row="through a tensor, without a copy")
def numpy_under_a_tensor(a, k):
    t = torch.from_numpy(a).detach()
    np.multiply(a, k, out=t.numpy())


@wrong(
    "a value is returned, and the task asks for none: the work is in the array",
    row="every element times k, in the array",
)
def returns_the_tensor(a, k):
    return torch.from_numpy(a).mul_(k)


@wrong(
    "a value is returned, and the task asks for none: the work is in the array",
    row="every element times k, in the array",
)
def returns_the_array(a, k):
    torch.from_numpy(a).mul_(k)
    return a


@wrong("k was added to every element, and not multiplied", row="every element times k, in the array")
def adds(a, k):
    torch.from_numpy(a).add_(k)


@wrong("every element was divided by k", row="every element times k, in the array")
def divided(a, k):
    torch.from_numpy(a).div_(k)


@wrong("only the first row was multiplied by k", row="every element times k, in the array")
def the_first_row_alone(a, k):
    torch.from_numpy(a)[:1].mul_(k)


@wrong("every element was multiplied by k twice", row="every element times k, in the array")
def twice(a, k):
    torch.from_numpy(a).mul_(k).mul_(k)


@wrong("elements outside of a slice were changed, too", row="seen in all of that memory, only there")
def the_whole_base(a, k):
    base = a if a.base is None or not isinstance(a.base, np.ndarray) else a.base
    torch.from_numpy(base).mul_(k)


@wrong("can't be cast to the desired output type", row="the array keeps its dtype")
def by_a_float(a, k):
    torch.from_numpy(a).mul_(float(k))


@wrong("k became a float32 tensor, and lost digits", row="every element times k, in the array")
def by_a_float32(a, k):
    torch.from_numpy(a).mul_(torch.tensor(k))


@wrong("other memory was used", row="through a tensor, without a copy")
def integers_by_a_product(a, k):
    t = torch.from_numpy(a)
    if t.is_floating_point():
        t.mul_(k)
    else:
        t.copy_(t * k)


@wrong("other memory was used", row="through a tensor, without a copy")
def halves_by_way_of_float32(a, k):
    t = torch.from_numpy(a)
    if t.dtype == torch.float16:
        t.copy_(t.float() * k)
    else:
        t.mul_(k)


@wrong("other memory was used", row="through a tensor, without a copy")
def a_row_by_a_product(a, k):
    t = torch.from_numpy(a)
    if t.dim() == 2:
        t.mul_(k)
    else:
        t.copy_(t * k)


@wrong("other memory was used", row="through a tensor, without a copy")
def a_transposed_one_by_a_product(a, k):
    t = torch.from_numpy(a)
    if t.dim() == 2 and t.t().is_contiguous() and not t.is_contiguous():
        t.copy_(t * k)
    else:
        t.mul_(k)


@wrong("not scaled through a tensor over its memory", row="through a tensor, without a copy")
def integers_by_numpy(a, k):
    if a.dtype.kind in "iu":
        a *= k
    else:
        torch.from_numpy(a).mul_(k)


@wrong("every element was set to k", row="every element times k, in the array")
def zeros_for_zero(a, k):
    t = torch.from_numpy(a)
    if k == 0:
        t.zero_()
    else:
        t.mul_(k)


@wrong("the array of large integers, scaled,", row="the array keeps its dtype")
def integers_row_by_row_in_float64(a, k):
    t = torch.from_numpy(a)
    if t.dtype != torch.int64:
        t.mul_(k)
        return
    for row in t:
        row.copy_(row.double() * k)


@wrong("the array of negative and positive integers, scaled,", row="the array keeps its dtype")
def integers_without_a_sign(a, k):
    torch.from_numpy(a).mul_(k if a.dtype.kind == "f" else abs(k))


@right
def by_selecting_rows(a, k):
    t = torch.from_numpy(a)
    for place in range(t.shape[0]):
        t.select(0, place).mul_(k)
