"""What PyTorch does when one argument of a call is elsewhere: a table of calls.

Each case is recorded as the device of its result, or the type and the text of its error, with `DEVICE` in
the place of the device's name. `tests/hardware/test_recordings.py` holds the simulator to the recordings.
"""

import torch
from torch import nn
from torch.nn import functional as F


def matrix():
    return torch.arange(9.0).reshape(3, 3) + 1


def vector():
    return torch.arange(3.0) + 1


def scalar():
    return torch.tensor(2.0)


def mask():
    return torch.tensor([[True, False, True]] * 3)


def labels():
    return torch.tensor([0, 2, 1])


def index():
    return torch.tensor([2, 0])


def columns():
    return torch.zeros(1, 3, dtype=torch.int64)


def image():
    return torch.ones(1, 2, 4, 4)


ELEMENTWISE = [
    "add",
    "sub",
    "mul",
    "div",
    "pow",
    "maximum",
    "fmod",
    "atan2",
    "hypot",
    "eq",
    "lt",
    "logaddexp",
]
IN_PLACE = ["add_", "sub_", "mul_", "div_", "pow_", "copy_", "eq_"]
PRODUCTS = [
    ("mm", torch.mm, (matrix, matrix)),
    ("matmul", torch.matmul, (matrix, matrix)),
    ("mv", torch.mv, (matrix, vector)),
    ("dot", torch.dot, (vector, vector)),
    ("outer", torch.outer, (vector, vector)),
    ("bmm", torch.bmm, (lambda: matrix()[None], lambda: matrix()[None])),
    ("addmm", torch.addmm, (matrix, matrix, matrix)),
    ("addmv", torch.addmv, (vector, matrix, vector)),
    ("baddbmm", torch.baddbmm, (lambda: matrix()[None], lambda: matrix()[None], lambda: matrix()[None])),
    ("linear", F.linear, (matrix, matrix, vector)),
    ("linear without bias", F.linear, (matrix, matrix)),
    ("einsum", lambda a, b: torch.einsum("ij,jk->ik", a, b), (matrix, matrix)),
]
INDEXING = [
    ("x[index]", lambda x, i: x[i], (matrix, index)),
    ("x[mask]", lambda x, m: x[m], (matrix, mask)),
    ("x[index, index]", lambda x, i, j: x[i, j], (matrix, index, index)),
    ("x[index] = values", lambda x, i, v: x.__setitem__(i, v), (matrix, index, lambda: matrix()[:2])),
    ("x[index] = scalar", lambda x, i, v: x.__setitem__(i, v), (matrix, index, scalar)),
    ("x[mask] = scalar", lambda x, m, v: x.__setitem__(m, v), (matrix, mask, scalar)),
    ("x[0] = row", lambda x, v: x.__setitem__(0, v), (matrix, vector)),
    ("gather", lambda x, i: x.gather(0, i), (matrix, columns)),
    ("scatter", lambda x, i, v: x.scatter(0, i, v), (matrix, columns, matrix)),
    ("scatter_add", lambda x, i, v: x.scatter_add(0, i, v), (matrix, columns, matrix)),
    ("index_select", lambda x, i: x.index_select(0, i), (matrix, index)),
    ("index_add", lambda x, i, v: x.index_add(0, i, v), (matrix, index, lambda: matrix()[:2])),
    ("index_copy", lambda x, i, v: x.index_copy(0, i, v), (matrix, index, lambda: matrix()[:2])),
    ("take", torch.take, (matrix, index)),
    ("take_along_dim", lambda x, i: torch.take_along_dim(x, i, 0), (matrix, columns)),
    ("masked_select", torch.masked_select, (matrix, mask)),
    ("masked_fill number", lambda x, m: x.masked_fill(m, 0.0), (matrix, mask)),
    ("masked_fill", lambda x, m, v: x.masked_fill(m, v), (matrix, mask, scalar)),
    ("masked_fill_", lambda x, m, v: x.masked_fill_(m, v), (matrix, mask, scalar)),
    ("embedding", F.embedding, (index, matrix)),
]
JOINING = [
    ("cat", lambda a, b: torch.cat([a, b]), (matrix, matrix)),
    ("stack", lambda a, b: torch.stack([a, b]), (matrix, matrix)),
    ("hstack", lambda a, b: torch.hstack([a, b]), (matrix, matrix)),
    ("where", torch.where, (mask, matrix, matrix)),
    ("where with scalar", torch.where, (mask, matrix, scalar)),
    ("where with scalars", torch.where, (mask, scalar, scalar)),
    ("lerp", torch.lerp, (matrix, matrix, scalar)),
    ("addcmul", torch.addcmul, (matrix, matrix, scalar)),
    ("addcdiv", torch.addcdiv, (matrix, matrix, matrix)),
    ("clamp", torch.clamp, (matrix, scalar, scalar)),
    ("clamp_min", torch.clamp_min, (matrix, scalar)),
    ("allclose", torch.allclose, (matrix, matrix)),
    ("equal", torch.equal, (matrix, matrix)),
    ("cdist", torch.cdist, (matrix, matrix)),
    ("searchsorted", torch.searchsorted, (vector, vector)),
    ("cross", lambda a, b: torch.linalg.cross(a, b), (matrix, matrix)),
]
LOSSES = [
    ("mse_loss", F.mse_loss, (matrix, matrix)),
    ("l1_loss", F.l1_loss, (matrix, matrix)),
    ("smooth_l1_loss", F.smooth_l1_loss, (matrix, matrix)),
    ("huber_loss", F.huber_loss, (matrix, matrix)),
    ("cross_entropy", F.cross_entropy, (matrix, labels)),
    ("cross_entropy weight", lambda x, y, w: F.cross_entropy(x, y, weight=w), (matrix, labels, vector)),
    ("nll_loss", F.nll_loss, (matrix, labels)),
    ("binary_cross_entropy", lambda x, y: F.binary_cross_entropy(x / 10, y / 10), (matrix, matrix)),
    ("bce with logits", F.binary_cross_entropy_with_logits, (matrix, matrix)),
    ("kl_div", lambda x, y: F.kl_div(x, y, reduction="sum"), (matrix, matrix)),
]
MODULES = [
    ("Linear", lambda x, w, b: F.linear(x, nn.Parameter(w), nn.Parameter(b)), (matrix, matrix, vector)),
    ("conv2d", F.conv2d, (image, lambda: torch.ones(3, 2, 2, 2), lambda: torch.ones(3))),
    ("layer_norm", lambda x, w, b: F.layer_norm(x, (3,), w, b), (matrix, vector, vector)),
    ("batch_norm", lambda x, m, v: F.batch_norm(x, m, v), (matrix, vector, vector)),
    ("prelu", F.prelu, (matrix, lambda: torch.ones(1))),
    ("bilinear", F.bilinear, (matrix, matrix, lambda: torch.ones(2, 3, 3))),
]
OUT = [
    ("add out", lambda a, b, o: torch.add(a, b, out=o), (matrix, matrix, matrix)),
    ("mm out", lambda a, b, o: torch.mm(a, b, out=o), (matrix, matrix, matrix)),
    ("exp out", lambda a, o: torch.exp(a, out=o), (matrix, matrix)),
    ("cat out", lambda a, b, o: torch.cat([a, b], out=o), (matrix, matrix, lambda: torch.zeros(6, 3))),
    ("sum out", lambda a, o: torch.sum(a, 0, out=o), (matrix, vector)),
]


def cases():
    """Yield (name, function, makers of the arguments, positions of the arguments that are on the CPU)."""
    for name in ELEMENTWISE:
        for left, right in ((matrix, matrix), (matrix, scalar), (scalar, matrix), (scalar, scalar)):
            form = f"{name} {left.__name__} {right.__name__}"
            for place in (0, 1):
                yield form, getattr(torch, name), (left, right), (place,)
    for name in IN_PLACE:
        for right in (matrix, scalar):
            for place in (0, 1):
                method = lambda x, y, name=name: getattr(x, name)(y)  # noqa: E731
                yield f"{name} matrix {right.__name__}", method, (matrix, right), (place,)
    for name, function, makers in (*PRODUCTS, *INDEXING, *JOINING, *LOSSES, *MODULES, *OUT):
        for place in range(len(makers)):
            yield name, function, makers, (place,)


def record(device: torch.device) -> dict[str, dict[str, str]]:
    """Return what each case does on `device`."""
    own = torch.ones(1, device=device).device
    table = {}
    for name, function, makers, elsewhere in cases():
        values = [maker() if i in elsewhere else maker().to(own) for i, maker in enumerate(makers)]
        key = f"{name} | argument {elsewhere[0]} on cpu"
        try:
            result = function(*values)
        except Exception as error:
            text = str(error).replace(str(own), "DEVICE").partition("\n")[0]
            table[key] = {"error": type(error).__name__, "text": text}
        else:
            place = result.device if isinstance(result, torch.Tensor) else type(result).__name__
            table[key] = {"result": str(place).replace(str(own), "DEVICE")}
    return table
