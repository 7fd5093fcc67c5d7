"""Answers to FixedPositions."""

import torch
from bank import right, wrong
from torch import nn


@right
class Registered(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.register_buffer("table", torch.linspace(0, 1, n * d).reshape(n, d))

    def forward(self, x):
        return x + self.table[: x.shape[1]]


@right
class AsABufferObject(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.table = nn.Buffer(torch.linspace(0, 1, n * d).view(n, d))

    def forward(self, x):
        _, time, _ = x.shape
        return x + self.table[:time].unsqueeze(0)


@right
class FilledByHand(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        table = torch.arange(n * d, dtype=torch.float32).reshape(n, d) / (n * d - 1)
        self.register_buffer("table", table, persistent=True)

    def forward(self, x):
        return torch.add(self.table.narrow(0, 0, x.size(1)), x)


@right
class RegisteredLate(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.n, self.d = n, d
        self.table: torch.Tensor
        self.register_buffer("table", None)
        self.table = torch.linspace(0, 1, n * d).reshape(n, d)

    def forward(self, x):
        return x + self.table[torch.arange(x.shape[1], device=x.device)]


@right
class AsAnEmbeddingLooksUp(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.register_buffer("table", torch.linspace(0, 1, n * d).reshape(n, d))

    def forward(self, x):
        steps = torch.arange(x.shape[1], device=x.device)
        return x + nn.functional.embedding(steps, self.table)


class Broken(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.table = torch.linspace(0, 1, n * d).reshape(n, d)

    def forward(self, x):
        return x + self.table[: x.shape[1]]


class Mended(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.register_buffer("table", torch.linspace(0, 1, n * d).reshape(n, d))

    def forward(self, x):
        return x + self.table[: x.shape[1]]


@wrong("Expected all tensors to be on the same device", row="it works wherever the model has moved")
class TheBrokenProgram(Broken):
    pass


@wrong(
    "`table` is a plain attribute: `.to` leaves it behind", row="`table` is a buffer, and forward reads it"
)
class MovedInForward(Broken):
    def forward(self, x):
        return x + self.table[: x.shape[1]].to(x.device)


@wrong("`table` is a parameter, not a buffer", row="`table` is a buffer, and forward reads it")
class AFrozenParameter(Mended):
    def __init__(self, n, d):
        nn.Module.__init__(self)
        table = torch.linspace(0, 1, n * d).reshape(n, d)
        self.table = nn.Parameter(table, requires_grad=False)


@wrong("`table` is a parameter, not a buffer", row="`table` is a buffer, and forward reads it")
class AParameter(Mended):
    def __init__(self, n, d):
        nn.Module.__init__(self)
        self.table = nn.Parameter(torch.linspace(0, 1, n * d).reshape(n, d))


@wrong("`table` is not saved: the state_dict lacks it", row="`table` is saved with the module")
class NotSaved(Mended):
    def __init__(self, n, d):
        nn.Module.__init__(self)
        table = torch.linspace(0, 1, n * d).reshape(n, d)
        self.register_buffer("table", table, persistent=False)


@wrong(
    "forward answers from another tensor than the buffer `table`",
    row="`table` is a buffer, and forward reads it",
)
class RebuiltInForward(Mended):
    def forward(self, x):
        n, d = self.table.shape
        table = torch.linspace(0, 1, n * d, device=x.device).reshape(n, d)
        return x + table[: x.shape[1]]


@wrong("there is no buffer named `table` after __init__", row="`table` is a buffer, and forward reads it")
class NoTableAtAll(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.n, self.d = n, d

    def forward(self, x):
        table = torch.linspace(0, 1, self.n * self.d, device=x.device).reshape(self.n, self.d)
        return x + table[: x.shape[1]]


@wrong("Expected all tensors to be on the same device", row="it works wherever the model has moved")
class KeptUnderASecondName(Mended):
    def __init__(self, n, d):
        super().__init__(n, d)
        self.rows = self.table

    def forward(self, x):
        return x + self.rows[: x.shape[1]]


@wrong("there is no buffer named `table` after __init__", row="`table` is a buffer, and forward reads it")
class AnotherName(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.register_buffer("positions", torch.linspace(0, 1, n * d).reshape(n, d))

    def forward(self, x):
        return x + self.positions[: x.shape[1]]


@wrong("the result has shape [2,7,3], not [2,5,3]", row="it works wherever the model has moved")
class NotCut(Mended):
    def forward(self, x):
        return (x[:, :1] + self.table) if x.shape[1] < len(self.table) else x + self.table


@wrong("The size of tensor a", row="it works wherever the model has moved")
class TheWholeTable(Mended):
    def forward(self, x):
        return x + self.table


@wrong(
    "those are the last rows of the table, and the first are asked",
    row="it works wherever the model has moved",
)
class TheLastRows(Mended):
    def forward(self, x):
        return x + self.table[-x.shape[1] :]


@wrong(
    "the table is filled column by column, and row by row is asked",
    row="it works wherever the model has moved",
)
class Columnwise(Mended):
    def __init__(self, n, d):
        super().__init__(n, d)
        self.table = torch.linspace(0, 1, n * d).reshape(d, n).T.contiguous()


@wrong(
    "the table ends before 1: `torch.linspace(0, 1, n * d)` reaches it",
    row="it works wherever the model has moved",
)
class OneRowShort(Mended):
    def __init__(self, n, d):
        super().__init__(n, d)
        self.table = torch.linspace(0, 1, n * d + 1)[:-1].reshape(n, d)


@wrong("the input `x` was changed in place", row="it works wherever the model has moved")
class InPlace(Mended):
    def forward(self, x):
        x += self.table[: x.shape[1]]
        return x


@wrong("no gradient reaches x", row="the first rows, at every length")
class DetachesItsInput(Mended):
    def forward(self, x):
        return x.detach() + self.table[: x.shape[1]].requires_grad_()


@wrong("the result has left the graph", row="the first rows, at every length")
class Detached(Mended):
    @torch.no_grad()
    def forward(self, x):
        return x + self.table[: x.shape[1]]


@wrong("the result is None: is a `return` missing?", row="it works wherever the model has moved")
class Forgetful(Mended):
    def forward(self, x):
        x + self.table[: x.shape[1]]


@wrong("the state_dict holds more than `table`", row="`table` is saved with the module")
class SavesMore(Mended):
    def __init__(self, n, d):
        super().__init__(n, d)
        self.register_buffer("length", torch.tensor(n))


@wrong(
    "`table` asks for a gradient, and it is not to be trained",
    row="`table` is a buffer, and forward reads it",
)
class AsksForAGradient(Registered):
    def __init__(self, n, d):
        super().__init__(n, d)
        self.table.requires_grad_()


@wrong(
    "the values of the result after the table has changed are wrong", row="the first rows, at every length"
)
class KeepsItsRows(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.register_buffer("table", torch.linspace(0, 1, n * d).reshape(n, d))
        self._rows = {}

    def forward(self, x):
        key = x.shape[1], x.device
        if key not in self._rows:
            self._rows[key] = self.table[: x.shape[1]].clone()
        return x + self._rows[key]


@wrong("FixedPositions was never made a module", row="it works wherever the model has moved")
class WithoutSuperOrRegister(nn.Module):
    def __init__(self, n, d):
        self.table = torch.linspace(0, 1, n * d).reshape(n, d)

    def forward(self, x):
        return x + self.table[: x.shape[1]].to(x.device)


@wrong(
    "after a forward the buffer `table` is on cpu, not {device}",
    row="`table` is a buffer, and forward reads it",
)
class BringsItHome(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.register_buffer("table", torch.linspace(0, 1, n * d).reshape(n, d))

    def forward(self, x):
        self.table = self.table.to("cpu")
        return x + self.table[: x.shape[1]].to(x.device)


@wrong("where x was: a module is moved by `.to` alone", row="`table` is a buffer, and forward reads it")
class GoesWhereItsInputIs(Mended):
    def forward(self, x):
        self.table = self.table.to(x.device)
        return x + self.table[: x.shape[1]]


@right
class TakesItsRowsAlong(Registered):
    def forward(self, x):
        return x + self.table[: x.shape[1]].to(x.device)


@wrong(
    "the table ends before 1: `torch.linspace(0, 1, n * d)` reaches it",
    row="it works wherever the model has moved",
)
class EndsBeforeOne(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.register_buffer("table", torch.arange(n * d).reshape(n, d) / (n * d))

    def forward(self, x):
        return x + self.table[: x.shape[1]]


@right
class ByNarrow(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.table = nn.Buffer(torch.linspace(0, 1, n * d).reshape(n, d))

    def forward(self, x):
        return torch.add(x, self.table.narrow(0, 0, x.shape[1]))


@wrong(
    "the values of the result after the table has changed are wrong", row="the first rows, at every length"
)
class KeepsATableForEachDevice(Mended):
    def __init__(self, n, d):
        super().__init__(n, d)
        self._tables = {}

    def forward(self, x):
        table = self._tables.setdefault(x.device, self.table.to(x.device))
        return x + table[: x.shape[1]]


@wrong("the first row was left out", row="it works wherever the model has moved")
class WithoutTheFirstRow(Mended):
    def forward(self, x):
        return x + self.table.roll(-1, 0)[: x.shape[1]]


@wrong("that is x itself: no table was added", row="it works wherever the model has moved")
class NothingAdded(Mended):
    def forward(self, x):
        return x.clone()
