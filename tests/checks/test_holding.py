"""What a module holds is seen whole: at any depth, of any dtype, and where something holds itself."""

from collections import OrderedDict, UserDict

import pytest
import torch
from torch import nn

from devlab.checks.calls import changed, holdings


def model() -> nn.Module:
    """Return a module that holds tensors of many kinds, in many ways."""
    made = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    made.loose = [torch.ones(2), {"deep": (torch.zeros(3, dtype=torch.bfloat16),)}]
    made.state, made.user = OrderedDict(low=torch.ones(2)), UserDict(key=torch.ones(1))
    made.conjugate = torch.ones(2, dtype=torch.complex64).conj()
    made.parts, made.empty = [nn.Linear(2, 2)], {}
    made.also = [made]
    return made


def hook(one: nn.Module) -> None:
    """Leave a hook on a module."""
    one.register_forward_hook(lambda *_: None)


CHANGES = {
    "0.weight": lambda one: one[0].weight.data.add_(1),
    "0.bias": lambda one: setattr(one[0].bias, "grad", torch.ones(3)),
    "1.running_mean": lambda one: one[1].running_mean.add_(1),
    "1.num_batches_tracked": lambda one: one[1].register_buffer("num_batches_tracked", torch.tensor(0)),
    "loose.0": lambda one: one.loose.__setitem__(0, torch.ones(2)),
    "loose.1.deep.0": lambda one: one.loose[1]["deep"][0].add_(1),
    "state.low": lambda one: one.state["low"].requires_grad_(),
    "user.key": lambda one: one.user["key"].add_(1),
    "conjugate": lambda one: one.conjugate.add_(1),
    "parts.0.weight": lambda one: one.parts[0].double(),
    "empty.new": lambda one: one.empty.update(new=1),
    "1.training": lambda one: one[1].eval(),
    "0._forward_hooks": lambda one: hook(one[0]),
    "gone": lambda one: setattr(one, "gone", None),
}


@pytest.mark.parametrize("path", CHANGES)
def test_every_change_is_seen(path):
    """And the path says where."""
    one = model()
    before = holdings(one)
    assert changed(before, one) == ""
    CHANGES[path](one)
    assert changed(before, one).startswith(path)


def test_nothing_else_is_a_change():
    """A forward, a look at the modules, a mode that is put back."""
    one = model()
    before = holdings(one)
    one[0](torch.ones(1, 2)), list(one.modules()), one.state_dict()
    one.eval().train()
    assert changed(before, one) == ""


def test_on_the_meta_device_there_is_nothing_to_read():
    """There a tensor has no numbers."""
    one = nn.Linear(2, 2, device="meta")
    assert changed(holdings(one), one) == ""
