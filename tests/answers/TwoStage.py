"""Answers to TwoStage."""

import copy

import torch
from bank import right, wrong
from torch import nn


class Halves(nn.Module):
    """What most answers share."""

    def __init__(self, first, second, devices):
        super().__init__()
        self.first = first.to(devices[0])
        self.second = second.to(devices[1])
        self.devices = devices


@right
class Remembers(Halves):
    def forward(self, x):
        x = self.first(x.to(self.devices[0]))
        return self.second(x.to(self.devices[1]))


@wrong("your code raised StopIteration", row="the right output, on the second device")
class AsksTheParameters(nn.Module):
    def __init__(self, first, second, devices):
        super().__init__()
        self.stages = nn.ModuleList(
            stage.to(device) for stage, device in zip((first, second), devices, strict=True)
        )

    def forward(self, x):
        for stage in self.stages:
            x = stage(x.to(next(stage.parameters()).device))
        return x


@right
class OnCopies(nn.Module):
    def __init__(self, first, second, devices):
        super().__init__()
        self.body = copy.deepcopy(first).to(devices[0])
        self.head = copy.deepcopy(second).to(devices[1])
        self.start, self.end = devices

    def forward(self, x):
        return self.head(self.body(x.to(self.start, non_blocking=False)).to(self.end))


@right
class InOneSequential(nn.Sequential):
    def __init__(self, first, second, devices):
        super().__init__(first, second)
        self.devices = tuple(devices)
        for stage, device in zip(self, devices, strict=True):
            stage.to(device)

    def forward(self, x):
        for stage, device in zip(self, self.devices, strict=True):
            x = stage(x.to(device))
        return x


@wrong("raised RuntimeError", row="the right output, on the second device")
class NothingBetween(Halves):
    def forward(self, x):
        return self.second(self.first(x.to(self.devices[0])))


@wrong("raised RuntimeError", row="the right output, on the second device")
class InputStays(Halves):
    def forward(self, x):
        return self.second(self.first(x).to(self.devices[1]))


@wrong("the second half was left on cpu when the model was made", row="each half lives on its own device")
class AllOnTheFirst(nn.Module):
    def __init__(self, first, second, devices):
        super().__init__()
        self.both = nn.Sequential(first, second).to(devices[0])
        self.devices = devices

    def forward(self, x):
        return self.both(x.to(self.devices[0])).to(self.devices[1])


@wrong("the output for x on", row="the right output, on the second device")
class NeverMoved(nn.Module):
    def __init__(self, first, second, devices):
        super().__init__()
        self.first, self.second = first, second

    def forward(self, x):
        return self.second(self.first(x.cpu()))


@wrong(
    "the model knows 0 of 9 parameters and buffers: are both halves attributes of it?",
    row="each half lives on its own device",
)
class InAList(nn.Module):
    def __init__(self, first, second, devices):
        super().__init__()
        self.stages = [first.to(devices[0]), second.to(devices[1])]
        self.devices = devices

    def forward(self, x):
        for stage, device in zip(self.stages, self.devices, strict=True):
            x = stage(x.to(device))
        return x


@wrong("the output for x on", row="the right output, on the second device")
class BroughtBack(Halves):
    def forward(self, x):
        at = x.device
        return self.second(self.first(x.to(self.devices[0])).to(self.devices[1])).to(at)


@wrong("the output has lost its graph", row="gradients flow back through both halves")
class UnderNoGrad(Halves):
    def forward(self, x):
        with torch.no_grad():
            return self.second(self.first(x.to(self.devices[0])).to(self.devices[1]))


@wrong("no gradient reached first.0.weight", row="gradients flow back through both halves")
class DetachedBetween(Halves):
    def forward(self, x):
        return self.second(self.first(x.to(self.devices[0])).detach().to(self.devices[1]))


@wrong("the output for x on", row="the right output, on the second device")
class Swapped(nn.Module):
    def __init__(self, first, second, devices):
        super().__init__()
        self.first, self.second = first.to(devices[1]), second.to(devices[0])
        self.devices = devices

    def forward(self, x):
        return self.second(self.first(x.to(self.devices[1])).to(self.devices[0]))


@wrong(
    "the output for x on cpu is None: is a `return` missing?", row="the right output, on the second device"
)
class NoReturn(Halves):
    def forward(self, x):
        self.second(self.first(x.to(self.devices[0])).to(self.devices[1]))


@wrong("making the model has changed a half's mode", row="each half lives on its own device")
class InEvalModeFromTheStart(nn.Module):
    def __init__(self, first, second, devices):
        super().__init__()
        self.devices = devices
        self.first, self.second = first.to(devices[0]), second.to(devices[1])
        self.eval()

    def forward(self, x):
        return self.second(self.first(x.to(self.devices[0])).to(self.devices[1]))


@wrong("making the model has changed which parameters are trained", row="each half lives on its own device")
class TrainsEverything(nn.Module):
    def __init__(self, first, second, devices):
        super().__init__()
        self.devices = devices
        self.first, self.second = first.to(devices[0]), second.to(devices[1])
        self.requires_grad_()

    def forward(self, x):
        return self.second(self.first(x.to(self.devices[0])).to(self.devices[1]))


@wrong("cannot assign module before Module.__init__() call", row="the right output, on the second device")
class NoSuper(nn.Module):
    def __init__(self, first, second, devices):
        self.first = first.to(devices[0])
        self.second = second.to(devices[1])
        self.devices = devices

    def forward(self, x):
        return self.second(self.first(x.to(self.devices[0])).to(self.devices[1]))


@wrong("the second half was left on cpu when the model was made", row="each half lives on its own device")
class MovesAtEachCall(nn.Module):
    def __init__(self, first, second, devices):
        super().__init__()
        self.first, self.second, self.devices = (first, second, devices)

    def forward(self, x):
        x = self.first.to(self.devices[0])(x.to(self.devices[0]))
        return self.second.to(self.devices[1])(x.to(self.devices[1]))


@wrong("2 transfers, and 1 is enough", row="only x and the middle are transferred")
class MiddleByTheCPU(nn.Module):
    def __init__(self, first, second, devices):
        super().__init__()
        self.first = first.to(devices[0])
        self.second = second.to(devices[1])
        self.devices = devices

    def forward(self, x):
        return self.second(self.first(x.to(self.devices[0])).cpu().to(self.devices[1]))


@wrong("your code raised StopIteration", row="the right output, on the second device")
class AsksBothHalves(nn.Module):
    def __init__(self, first, second, devices):
        super().__init__()
        self.first = first.to(devices[0])
        self.second = second.to(devices[1])

    def forward(self, x):
        x = self.first(x.to(next(self.first.parameters()).device))
        return self.second(x.to(next(self.second.parameters()).device))


@right
class InAModuleList(nn.Module):
    def __init__(self, first, second, devices):
        super().__init__()
        self.parts = nn.ModuleList([first.to(devices[0]), second.to(devices[1])])
        self.devices = tuple(devices)

    def forward(self, x):
        for p, d in zip(self.parts, self.devices, strict=False):
            x = p(x.to(d))
        return x


@right
class InAModuleDict(nn.Module):
    def __init__(self, first, second, devices):
        super().__init__()
        self.d = list(devices)
        self.m = nn.ModuleDict({"a": first.to(self.d[0]), "b": second.to(self.d[1])})

    def forward(self, x):
        return self.m["b"](self.m["a"](x.to(self.d[0])).to(self.d[1]))


@wrong("16 transfers, and 2 are enough", row="each half lives on its own device")
class AllToTheFirstAndOn(nn.Module):
    """The whole model is on the first device for a moment, which is too small for it."""

    def __init__(self, first, second, devices):
        super().__init__()
        self.first, self.second, self.devices = first, second, devices
        self.to(devices[0])
        self.second.to(devices[1])

    def forward(self, x):
        return self.second(self.first(x.to(self.devices[0])).to(self.devices[1]))


@wrong("making the model has changed a half's mode", row="each half lives on its own device")
class SecondEvaluates(Halves):
    def __init__(self, first, second, devices):
        super().__init__(first, second, devices)
        self.second.eval()

    def forward(self, x):
        return self.second(self.first(x.to(self.devices[0])).to(self.devices[1]))


@wrong("a call of the model has changed a half's mode", row="each half lives on its own device")
class TrainsAtEachCall(Halves):
    def forward(self, x):
        self.first.train()
        return self.second(self.first(x.to(self.devices[0])).to(self.devices[1]))


@wrong("making the model has changed which parameters are trained", row="each half lives on its own device")
class TrainsTheSecond(Halves):
    def __init__(self, first, second, devices):
        super().__init__(first, second, devices)
        self.second.requires_grad_(True)

    def forward(self, x):
        return self.second(self.first(x.to(self.devices[0])).to(self.devices[1]))


@wrong("no gradient came back to x on", row="gradients flow back through both halves")
class XAnewWhereItIsElsewhere(Halves):
    def forward(self, x):
        if x.device != self.devices[0]:
            x = torch.tensor(x, device=self.devices[0])
        return self.second(self.first(x).to(self.devices[1]))


@right
class ByHooks(nn.Module):
    def __init__(self, first, second, devices):
        super().__init__()
        self.first, self.second = first, second
        for half, device in zip((first, second), devices, strict=True):
            half.to(device)
            half.register_forward_pre_hook(lambda half, args, device=device: (args[0].to(device),))

    def forward(self, x):
        return self.second(self.first(x))
