"""The memory that CUDA's kernels need beside their results, and give back when the operator has ended.

A sort has a second copy of its keys, a sum in two stages has the sums of the first stage: such memory raises
the peak and nothing else. The rules are those of PyTorch's CUDA source where that says how much is asked for.
What the libraries beneath PyTorch ask for (cuSOLVER, CUB) is as an NVIDIA H200 answered for small operands.
cuBLAS's workspace, which stays allocated after the first product, is not modelled.
"""

from collections.abc import Callable
from math import prod

import torch

from devlab.sim import clock, data, operators, specs
from devlab.sim.allocator import allocators

_INDEX = 8  # bytes of an int64
_WARP = 32  # threads
_GROUP = 512  # most threads of a block that reduces
_FEW, _MANY = 16, 256  # least and most elements that one thread of a reduction adds up
_TWO_STAGES = _GROUP * _MANY // 2  # fewer elements are always reduced in one stage


def reserve_workspaces(name: str, run: Callable) -> Callable:
    """Return an operator's kernel so that it takes, for a while, what CUDA's takes beside the results."""
    base = name.removeprefix("aten::").partition(".")[0]
    before, beside = _BEFORE.get(base), _BESIDE.get(base)
    if before is None and beside is None:
        return run

    def reserve(*args, **kwargs):
        index = next((one.get_device() for one in data.tensors(args)), -1)
        if index < 0 or data.refusals:
            return run(*args, **kwargs)
        if before is not None:
            _take(index, before(args))
        out = run(*args, **kwargs)
        if beside is not None:
            _take(index, beside(args, kwargs, out))
        return out

    def reduce(x, *args, **kwargs):
        # Most reductions are small, so every line of code in here counts.
        if kwargs or x.dtype is not torch.float32 or not 1 < x.numel() < _TWO_STAGES:
            return reserve(x, *args, **kwargs)
        return run(x, *args)

    return reduce if base in _REDUCTIONS else reserve


def _take(index: int, sizes) -> None:
    """Take memory of these sizes on `sim:index` all at once, and give it back."""
    memory, stream = allocators[index], clock.current.queues[index].stream_id
    taken = [memory.allocate(size, stream) for size in sizes if size]
    for block in reversed(taken):  # the order in which C++ destroys a function's objects
        memory.free(block)


def two_stages(x: torch.Tensor, dims, element: int, vector: int, spec: specs.Spec) -> tuple[int, ...]:
    """Return the bytes of the buffer and of the counters of a reduction, none where one stage is enough.

    `element` is the bytes of a partial result, `vector` how many elements a thread loads at once. This is
    `setReduceConfig` in PyTorch's `Reduce.cuh`.

    >>> two_stages(torch.ones(1 << 20), (), 4, 4, specs.CUDA_LIKE)
    (320, 4)
    >>> two_stages(torch.ones(1 << 10), (), 4, 4, specs.CUDA_LIKE)
    ()
    """
    if x.numel() < _TWO_STAGES:
        return ()
    places = {place % x.dim() for place in dims} or set(range(x.dim()))
    reduced = _merge_dimensions(x, [place for place in range(x.dim()) if place in places])
    kept = _merge_dimensions(x, [place for place in range(x.dim()) if place not in places])
    inputs, outputs = (prod(size for _, size in group) for group in (reduced, kept))
    if inputs == 1:
        return ()
    along = not kept or reduced[0][0] < kept[0][0]  # whether neighbours in memory belong to one result
    width, height, loaded = (inputs, outputs, 1) if along else (outputs, inputs, 1)
    if along and reduced[0][0] == 1 and width >= 128 and len(reduced) == 1:
        width //= vector
    elif not along and kept[0][0] == 1:
        others = [step for step, _ in reduced + kept[1:]]
        loaded = next(
            n for n in (4, 2, 1) if not any(v % n for v in (kept[0][1], x.storage_offset(), *others))
        )
        width //= loaded
    most = _GROUP // loaded
    wide, high = _power_of_two(min(width, most)), _power_of_two(min(height, most))
    high = min(high, most // min(wide, _WARP))
    wide = min(wide, most // high)
    each = -(-inputs // wide) if along else inputs  # elements that one thread adds up
    if each < min(high * _FEW, _MANY):
        return ()
    each = -(-each // high)
    blocks = -(-(outputs // loaded) // (1 if along else wide))
    room = spec.processors * (spec.threads // (wide * high))
    if each < _MANY or blocks > room:
        return ()
    parts = max(min(-(-room // blocks), -(-each // _FEW)), -(-each // _MANY))
    return (element * outputs * parts * (1 if along else wide * loaded), 4 * blocks) if parts > 1 else ()


def _merge_dimensions(x: torch.Tensor, places: list[int]) -> list[tuple[int, int]]:
    """Return (stride, size) of dimensions, the smallest stride first, with contiguous dimensions merged."""
    found: list[tuple[int, int]] = []
    for step, size in sorted((x.stride(place), x.shape[place]) for place in places if x.shape[place] > 1):
        if found and step == found[-1][0] * found[-1][1]:
            found[-1] = found[-1][0], found[-1][1] * size
        else:
            found.append((step, size))
    return found


def _power_of_two(count: int) -> int:
    """Return the largest power of two that is not above a count."""
    return 1 << max(1, count).bit_length() - 1


def _reduction(
    place: int = 1, welford: bool = False, position: bool = False, casts: bool = False
) -> Callable:
    """Return the rule of a reduction whose dimensions are argument `place`."""

    def rule(args, kwargs, out):
        x, result = args[0], out[0] if isinstance(out, (list, tuple)) else out
        if casts and x.dtype != result.dtype and x.dtype not in specs.HALF:
            yield x.numel() * result.itemsize
        if result.dtype is torch.bool and x.numel() == 1 and x.dtype is not torch.bool:
            yield 1
        if x.numel() < _TWO_STAGES:
            return
        dims = args[place] if len(args) > place else None
        dims = () if dims is None else (dims,) if type(dims) is int else dims
        if not isinstance(dims, (list, tuple)) or not all(type(one) is int for one in dims):
            return  # an overload with another argument
        element = max(x.itemsize, 4 if x.dtype in specs.HALF else 0, result.itemsize if casts else 0)
        if welford:  # mean, sum of squares and two counts
            element = 4 * max(element, 4)
        elif position and (result is not out or result.dtype is not x.dtype):  # with an index
            element = 16
        yield from two_stages(x, dims, element, 2 if welford else 4, clock.devices[x.get_device()].spec)

    return rule


def _radix(count: int, key: int) -> int:
    """Return the bytes of CUB's workspace for sorting keys of so many bytes with int64 values."""
    return count * (key + _INDEX) + 4096 + 1024 * -(-count // 1536) + 511 if count > 2048 else 1


def _sort(args, kwargs, out):
    x = args[0]
    dim = next((value for value in (*args[1:], kwargs.get("dim", -1)) if type(value) is int), -1)
    length = x.shape[dim] if x.dim() else 1
    yield length * _INDEX  # arange
    if length > 4096:
        yield _radix(length, x.itemsize)


def _sort_before(args):
    """A median of all elements sorts them, and the result is made afterwards."""
    if len(args) == 1:
        yield from (args[0].nbytes, args[0].numel() * _INDEX, *_sort((args[0].flatten(),), {}, None))


def _median_left(args, kwargs, out):
    if len(args) == 1:
        yield from (args[0].nbytes, args[0].numel(), 1, 1, 1)


def _positions(args, kwargs, out):
    """The positions of a mask's True elements, their number, and CUB's workspace."""
    yield from (out.numel() * max(args[0].dim(), args[1].dim()) * _INDEX, 1, 1)


def _isin(args, kwargs, out):
    """Few values are compared with each element; more are sorted, which is not modelled."""
    elements, tested = (one.numel() if isinstance(one, torch.Tensor) else 1 for one in args[:2])
    if tested < 10 * elements**0.145:
        yield from (elements * tested, elements)


def _index(args, kwargs, out):
    indices, *values = args[1:]
    if values and operators.fills_mask(args):
        return
    given = [one for one in indices if one is not None]
    for one in given:
        mask = one.dtype in operators.MASKS
        if one.is_cpu or mask:
            count = (one if one.is_cpu else data.on_host(one)).count_nonzero() if mask else one.numel()
            yield from (
                int(count) * (one.dim() if mask else 1) * _INDEX,
                *[1] * (2 if mask and not one.is_cpu else 0),
            )
            given = ()
    if values and (values[0].is_cpu or data.is_number(values[0])):
        yield values[0].itemsize  # the host's number
    if not given:
        return
    count = prod(torch.broadcast_shapes(*(one.shape for one in given)))
    if len(values) > 1 and values[1]:  # adds up: the indices are sorted first
        yield from (*[count * _INDEX] * 4, _radix(count, _INDEX))
    elif len({(tuple(one.shape), one.stride()) for one in given}) > 1:
        yield from [count * _INDEX] * len(given)


def _embedding(args, kwargs, out):
    count = args[1].numel()
    if count > 3072:
        yield from (*[count * _INDEX] * 4, _radix(count, _INDEX))


def _signals(args, kwargs, out):
    """A Fourier transform copies signals that are not in one piece, and spectra of real signals."""
    x, dims = args[:2]
    if not out.is_complex():
        yield x.nbytes
        x = torch.empty(x.shape, dtype=x.dtype, device="meta")
    places = {place % x.dim() for place in dims}
    if len(_merge_dimensions(x, [place for place in range(x.dim()) if place not in places])) > 1:
        yield x.nbytes


def _convolution_backward(args, kwargs, out):
    """The gradient of the bias is the sum of the result's gradient."""
    grad = args[0]
    if args[-1][2]:
        yield from two_stages(grad, (0, *range(2, grad.dim())), 4, 4, clock.devices[grad.get_device()].spec)


def _of_loss(args, kwargs, out):
    """The losses of all elements, before they are added up or averaged."""
    if not out.dim():
        yield prod(torch.broadcast_shapes(args[0].shape, args[1].shape)) * args[0].itemsize


def _small(blocks: int, workspace: int = 0) -> Callable:
    """Return the rule of an operator that takes some blocks of up to 512 bytes and a library's workspace."""
    return lambda args, kwargs, out: (*[1] * blocks, workspace)


_KIB, _MIB = 1 << 10, 1 << 20
_REDUCTIONS = {
    **dict.fromkeys(("sum", "prod", "mean", "nansum"), _reduction(casts=True)),
    **dict.fromkeys(("amax", "amin", "any", "all"), _reduction()),
    **dict.fromkeys(("norm", "linalg_vector_norm"), _reduction(2)),
    **dict.fromkeys(("std", "var", "std_mean", "var_mean"), _reduction(welford=True)),
    **dict.fromkeys(("argmax", "argmin", "max", "min"), _reduction(position=True)),
}
_BEFORE = dict.fromkeys(("median", "nanmedian"), _sort_before)
_BESIDE = {
    **_REDUCTIONS,
    **dict.fromkeys(("mse_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy"), _of_loss),
    **dict.fromkeys(operators.INDEXING, _index),
    **dict.fromkeys(("_fft_r2c", "_fft_c2c", "_fft_c2r"), _signals),
    "_softmax_backward_data": lambda args, kwargs, out: (args[0].nbytes,),  # grad * output
    "convolution_backward": _convolution_backward,
    "embedding_dense_backward": _embedding,
    "native_group_norm": lambda args, kwargs, out: [4 * args[3] * args[4]] * 2 if args[1] is not None else (),
    "sort": _sort,
    "nanmedian": _median_left,
    "masked_select": _positions,
    "masked_scatter_": lambda args, kwargs, out: (args[0].numel() * _INDEX, 1, 1, 1),
    "nonzero": lambda args, kwargs, out: (1, 1, 1 if args[0].dim() else 0),
    **dict.fromkeys(
        ("cumsum", "cumprod"),
        lambda args, kwargs, out: (1, 1) if args[0].numel() == max(args[0].shape, default=0) else (),
    ),
    "equal": lambda args, kwargs, out: (args[0].numel(), 1) if args[0].shape == args[1].shape else (),
    "count_nonzero": lambda args, kwargs, out: (args[0].numel(), args[0].numel() * _INDEX),
    "roll": lambda args, kwargs, out: (out.nbytes,) if len(args) > 2 and len(args[2]) > 1 else (),
    "isin": _isin,
    "normal": lambda args, kwargs, out: (args[-1].itemsize, 1) if isinstance(args[-1], torch.Tensor) else (),
    "multinomial": lambda args, kwargs, out: (args[0].nbytes, out.numel() * 4, 1, 1, 1),
    "index_reduce": lambda args, kwargs, out: [out.nbytes] * 2 if args[4] == "mean" else (),
    "scatter_reduce": lambda args, kwargs, out: [out.nbytes] * 3 if args[4] == "mean" else (),
    "segment_reduce": lambda args, kwargs, out: [1] * (2 if kwargs.get("lengths") is None else 4),
    "linalg_inv_ex": lambda args, kwargs, out: (out[0].nbytes, 4 * out[0].shape[-1], 1, 1),
    **dict.fromkeys(("_chunk_cat", "histc", "renorm", "lu_unpack", "linalg_cholesky_ex"), _small(1)),
    **dict.fromkeys(("cholesky_inverse", "_cholesky_solve_helper"), _small(1)),
    **dict.fromkeys(("linalg_ldl_solve", "linalg_lu_solve", "linalg_solve_triangular"), _small(2)),
    **dict.fromkeys(("triangular_solve", "_linalg_check_errors", "_trilinear"), _small(2)),
    **dict.fromkeys(
        ("cholesky", "_linalg_det", "_linalg_slogdet", "linalg_lu", "_linalg_solve_ex"), _small(3)
    ),
    **dict.fromkeys(("unique_consecutive", "_ctc_loss"), _small(3)),
    "_unique2": _small(4),
    "_linalg_svd": lambda args, kwargs, out: [1] * (10 if out[0].numel() else 12) if args[0].numel() else (),
    "geqrf": _small(2, 3 * _MIB),
    "linalg_qr": _small(3, 3 * _MIB),
    "linalg_lstsq": _small(6, 3 * _MIB),
    "linalg_eig": _small(7, 128 * _KIB),
    "_linalg_eigvals": _small(6, 128 * _KIB),
    "_linalg_eigh": lambda args, kwargs, out: (1, 0 if out[1].numel() else 1, 272 * _KIB),
    "linalg_householder_product": _small(0, 130 * _KIB),
    "linalg_ldl_factor_ex": _small(1, 96 * _KIB),
    "ormqr": _small(2, 272 * _KIB),
}
