"""Small modules, each with a culprit of lesson 05 in it: what `.to` moves there, and what it does not."""

import torch
from torch import nn


class Price(nn.Module):
    """Two tables beside a layer; one of them was never registered."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 1)
        self.register_buffer("deviation", torch.ones(3))
        self.mean = torch.zeros(3)

    def forward(self, x):
        """Return the price of each row of three columns."""
        return self.linear((x - self.mean) / self.deviation)


class Stack(nn.Module):
    """Layers in a plain list, a parameter in a plain dict."""

    def __init__(self):
        super().__init__()
        self.blocks = [nn.Linear(3, 3), nn.Linear(3, 3)]
        self.gains = {"out": nn.Parameter(torch.ones(3))}
        self.head = nn.Linear(3, 1)

    def forward(self, x):
        """Return the head's answer to what the blocks make of x."""
        for block in self.blocks:
            x = block(x)
        return self.head(x * self.gains["out"])


class RegisteredStack(Stack):
    """The same in containers that register what they hold."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(self.blocks)
        self.gains = nn.ParameterDict(self.gains)


class Positions(nn.Module):
    """A table that is not saved, and a count that is: both are buffers."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 1)
        self.register_buffer("table", torch.linspace(0, 1, 3), persistent=False)
        self.register_buffer("batches", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        """Return one number a row, and count the batch."""
        self.batches += 1
        return self.linear(x + self.table)


def trained() -> tuple[nn.Module, torch.optim.Optimizer]:
    """Return a model and its optimizer after one step on the CPU: the optimizer has gathered momentum."""
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    return model, optimizer


SPECIMENS = {
    "a table as a plain attribute": lambda: (Price(), None),
    "layers in a list": lambda: (Stack(), None),
    "layers in a ModuleList": lambda: (RegisteredStack(), None),
    "buffers, one not saved": lambda: (Positions(), None),
    "a model and its optimizer": trained,
}
