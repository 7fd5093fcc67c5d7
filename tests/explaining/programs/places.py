# ruff: noqa: D103 - learners write no docstrings
"""The wrong accelerator, models split by hand, resuming, averaged weights, captured and global tensors."""

import io

import torch
from explaining.broken import broken
from torch import nn

FIRST, SECOND = torch.device("sim:0"), torch.device("sim:1")


@broken("x", "put on sim:0", "x = torch.randn(2, 4).to(device)")
def bare_name_of_the_accelerator():
    device = torch.device("sim:1")
    model = nn.Linear(4, 2).to(device)
    x = torch.randn(2, 4).to("sim")
    model(x)


class TwoHalves(nn.Module):
    def __init__(self):
        super().__init__()
        self.front = nn.Linear(4, 8).to(FIRST)
        self.back = nn.Linear(8, 2).to(SECOND)

    def forward(self, x):
        hidden = self.front(x.to(FIRST)).relu()
        return self.back(hidden)


@broken("hidden", "computed in forward", "hidden = hidden.to(")
def model_split_by_hand():
    TwoHalves()(torch.randn(3, 4))


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        scale = torch.full((3,), 2.0, device="sim:0")
        return self.linear(x) * scale


@broken("scale", "made in forward", "scale = torch.full((3,), 2.0, device=x.device)")
def hard_coded_first_accelerator():
    Scaled().to(SECOND)(torch.randn(2, 3, device=SECOND))


class Grower(nn.Module):
    """The weight grows by rows; whoever wrote it had an accelerator."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(2, 3))

    def forward(self, x):
        fresh = torch.zeros(1, 3).sim()
        return x @ torch.cat([self.weight, fresh]).T


@broken("fresh", "put on sim", "fresh = torch.zeros(1, 3).to(x.device)")
def hard_coded_move_on_a_cpu_run():
    Grower()(torch.randn(4, 3))


@broken(
    "optimizer.state[parameter 0]['exp_avg']",
    "optimizer state",
    "optimizer.load_state_dict(optimizer.state_dict())",
)
def optimizer_stepped_before_the_move():
    model = nn.Linear(3, 1)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    model(torch.randn(2, 3)).sum().backward()
    optimizer.step()
    model.to(FIRST)
    optimizer.zero_grad()
    model(torch.randn(2, 3, device=FIRST)).sum().backward()
    optimizer.step()


class Momentum(torch.optim.Optimizer):
    """A learner's own optimizer, whose state is loaded by hand."""

    def __init__(self, params, lr=0.1):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                velocity = self.state[p].setdefault("velocity", torch.zeros(p.shape))
                velocity.mul_(0.9).add_(p.grad)
                p.sub_(group["lr"] * velocity)


@broken("velocity", "made in step", "torch.zeros(p.shape, device=p.device)")
def state_of_ones_own_optimizer():
    model = nn.Linear(3, 1).to(FIRST)
    optimizer = Momentum(model.parameters())
    model(torch.randn(2, 3, device=FIRST)).sum().backward()
    optimizer.step()


def averaged(shadow, model, decay=0.9):
    for name, p in model.named_parameters():
        shadow[name].mul_(decay).add_(p.detach(), alpha=1 - decay)


@broken("shadow[name]", "an element of a list or dict", "shadow[name] = shadow[name].to(p.device)")
def averaged_weights_made_before_the_move():
    model = nn.Linear(3, 2)
    shadow = {name: p.detach().clone() for name, p in model.named_parameters()}
    model.to(FIRST)
    averaged(shadow, model)


@broken('checkpoint["threshold"]', "loaded", "checkpoint = torch.load(file, map_location=DEVICE)")
def value_from_a_checkpoint():
    DEVICE = FIRST
    file = io.BytesIO()
    torch.save({"threshold": torch.ones(2)}, file)
    file.seek(0)
    checkpoint = torch.load(file)
    scores = torch.rand(4, 2, device=DEVICE)
    return scores > checkpoint["threshold"]


def make_scaler(values):
    mean = torch.tensor(values)

    def scale(x):
        return x / mean

    return scale


@broken("mean", "captured from the function around this one", "mean = torch.tensor(values, device=FIRST)")
def tensor_in_a_closure():
    scale = make_scaler([1.0, 2.0])
    scale(torch.randn(3, 2, device=FIRST))


PALETTE = torch.linspace(0, 1, 4)


def colour(x):
    return x * PALETTE


@broken("PALETTE", "a global variable", "PALETTE = torch.linspace(0, 1, 4, device=")
def global_tensor():
    colour(torch.randn(2, 4, device=FIRST))


@broken("state", "computed", "carried = carried.to(FIRST)")
def hidden_state_from_the_last_run():
    def unroll(cell, x, state):
        return cell(x, state)

    cell = nn.GRUCell(3, 4).to(FIRST)
    carried = unroll(nn.GRUCell(3, 4), torch.randn(2, 3), None)
    unroll(cell, torch.randn(2, 3, device=FIRST), carried)


@broken("sim:5", "asked for at", 'torch.zeros(3, device="sim:0")')
def an_accelerator_that_is_not_there():
    torch.zeros(3, device="sim:5")


@broken("cuda", "asked for at", "model.to(device)")
def cuda_on_a_machine_without():
    model = nn.Linear(2, 2)
    model.cuda()
