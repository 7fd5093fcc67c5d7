"""Memory that is read and written at once, and sizes that change in place: as on the CPU, to the word."""

import pytest
import torch


def numbers(device: str, count: int = 5) -> torch.Tensor:
    """0, 1, 2 … as floats."""
    return torch.arange(float(count), device=device)


def index(device: str, *values: int) -> torch.Tensor:
    """Some indices, or a mask."""
    return torch.tensor(values, device=device)


def spread(device: str) -> torch.Tensor:
    """Three names of one element."""
    return torch.zeros(1, device=device).expand(3)


def assigned(device):
    """Shift numbers by a slice."""
    x = numbers(device)
    x[1:] = x[:-1]
    return x


def transposed(device):
    """Add a matrix's transpose."""
    x = numbers(device, 4).view(2, 2)
    return x.add_(x.t())


def through_integers(device):
    """Shift the bits of numbers."""
    x = numbers(device).view(torch.int32)
    return x[1:].copy_(x[:-1])


def copied_into_a_list(device):
    """Split into tensors that are there."""
    parts = [torch.empty(2, device=device) for _ in range(2)]
    torch.split_copy(numbers(device, 4), 2, out=parts)
    return parts


def unbound_into_a_list(device):
    """Take apart into tensors that are there."""
    parts = [torch.empty((), device=device) for _ in range(2)]
    torch.unbind_copy(numbers(device, 2), out=parts)
    return parts


def on(count: int, call):
    """A call on the numbers from 0 up to a count."""
    return lambda device: call(numbers(device, count), device)


PROGRAMS = {
    "x[1:] = x[:-1]": assigned,
    "copy_": on(5, lambda x, d: x[1:].copy_(x[:-1])),
    "copy_ of a number": on(3, lambda x, d: x.copy_(2.0)),
    "through a view of another dtype": through_integers,
    "add_": on(5, lambda x, d: x[1:].add_(x[:-1])),
    "add_ of the transposed": transposed,
    "mul_ by itself": on(5, lambda x, d: x.mul_(x)),
    "addcmul_": on(5, lambda x, d: x[1:].addcmul_(x[:-1], x[:-1])),
    "lerp_": on(5, lambda x, d: x[1:].lerp_(x[:-1], 0.5)),
    "foreach": on(5, lambda x, d: torch._foreach_add_([x[1:]], [x[:-1]])),
    "exp into itself": on(5, lambda x, d: torch.exp(x, out=x)),
    "exp into its neighbours": on(5, lambda x, d: torch.exp(x[:-1], out=x[1:])),
    "add into its neighbours": on(5, lambda x, d: torch.add(x[:-1], 1, out=x[1:])),
    "cat": on(5, lambda x, d: torch.cat([x[:2], x[:2]], out=x[:4])),
    "cat into one element": lambda d: torch.cat([torch.ones(3, device=d)], out=spread(d)),
    "gather": on(5, lambda x, d: torch.gather(x[:4], 0, index(d, 0, 1, 2, 3), out=x[1:])),
    "take": on(5, lambda x, d: torch.take(x[:4], index(d, 0, 1, 2, 3), out=x[1:])),
    "masked_select": on(5, lambda x, d: torch.masked_select(x[:4], x[:4] > -1, out=x[1:])),
    "kthvalue": on(5, lambda x, d: torch.kthvalue(x, 2, 0, out=(x[0], index(d, 0)[0]))),
    "mm into its neighbours": on(
        6, lambda x, d: torch.mm(x.view(3, 2)[:2], x.view(3, 2)[:2], out=x.view(3, 2)[1:])
    ),
    "sum into a part": on(6, lambda x, d: torch.sum(x.view(3, 2), 0, out=x.view(3, 2)[0])),
    "cumsum": on(3, lambda x, d: torch.cumsum(x[:2], 0, out=x[1:])),
    "topk": on(3, lambda x, d: torch.topk(x, 2, out=(x[:2], index(d, 0, 0)))),
    "index_select": on(3, lambda x, d: torch.index_select(x, 0, index(d, 0, 1), out=x[1:])),
    "where": on(3, lambda x, d: torch.where(x[:2] > 0, x[:2], x[:2], out=x[1:])),
    "stack": on(6, lambda x, d: torch.stack([x.view(3, 2)[0]] * 2, out=x.view(3, 2)[:2])),
    "out of another size": on(5, lambda x, d: torch.add(x, 1, out=torch.empty(0, device=d))),
    "index_add_": on(3, lambda x, d: x.index_add_(0, index(d, 0, 1), x[:2])),
    "index_add_ into one element": lambda d: spread(d).index_add_(0, index(d, 0), torch.ones(1, device=d)),
    "index_copy_": on(3, lambda x, d: x.index_copy_(0, index(d, 0, 1), x[1:])),
    "index_put_": on(3, lambda x, d: x.index_put_((index(d, 0, 1),), x[1:])),
    "put_": on(3, lambda x, d: x[:2].put_(index(d, 0, 1), x[1:])),
    "masked_fill_": on(3, lambda x, d: (x > 0)[:2].masked_fill_((x > 0)[1:], True)),
    "masked_scatter_": on(3, lambda x, d: x[:2].masked_scatter_(x[:2] > 0, x[1:])),
    "scatter_": on(3, lambda x, d: x[:2].scatter_(0, index(d, 0, 1), x[1:])),
    "scatter_add_": on(3, lambda x, d: x[:2].scatter_add_(0, index(d, 0, 1), x[1:])),
    "resize_as_, growing": on(2, lambda x, d: x.resize_as_(torch.zeros(2, 3, device=d)).shape),
    "resize_as_, shrinking": on(6, lambda x, d: x.resize_as_(torch.zeros(2, 2, device=d))),
    "resize_as_, channels last": on(
        1,
        lambda x, d: x.resize_as_(
            torch.ones(1, 2, 3, 4, device=d), memory_format=torch.channels_last
        ).stride(),
    ),
    "split_copy": copied_into_a_list,
    "unbind_copy": unbound_into_a_list,
}


def outcome(program, device: str) -> str:
    """Return a program's result in words, or its error."""
    try:
        return str(program(device)).replace(", device='sim:0'", "")
    except (RuntimeError, IndexError) as error:
        return str(error).partition("\n")[0]


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("name", PROGRAMS)
def test_overlaps_are_treated_as_on_the_cpu(name):
    """PyTorch refuses to write what it reads at another place; where it does not, the results are equal."""
    assert outcome(PROGRAMS[name], "sim") == outcome(PROGRAMS[name], "cpu")


def test_an_overlap_is_refused():
    """So that the comparison above compares something."""
    assert "refer to a single memory location" in outcome(assigned, "sim")
