"""Answers to Chain."""

import copy

import torch
from bank import right, wrong
from torch import nn

OUTPUT = "the layers' output, on the last layer's device"
PLACED = "each layer lives where the placement says"
MOVED = "a transfer only where the device changes"
FLOWS = "gradients flow back through all of it, to x"


class Placed(nn.Module):
    """What most answers share."""

    def __init__(self, layers, placement):
        super().__init__()
        self.layers = nn.ModuleList(layer.to(at) for layer, at in zip(layers, placement, strict=True))
        self.placement = list(placement)


@right
class AsksBeforeEach(Placed):
    def forward(self, x):
        for layer, device in zip(self.layers, self.placement, strict=True):
            x = layer(x.to(device))
        return x


@right
class ComparesDevices(Placed):
    def forward(self, x):
        for layer, device in zip(self.layers, self.placement, strict=True):
            if x.device != device:
                x = x.to(device)
            x = layer(x)
        return x


@right
class InASequentialOfCopies(nn.Sequential):
    def __init__(self, layers, placement):
        super().__init__(*(copy.deepcopy(layer).to(at) for layer, at in zip(layers, placement, strict=True)))
        self.placement = tuple(placement)

    def forward(self, x):
        for number, layer in enumerate(self):
            x = layer(x.to(self.placement[number]))
        return x


class Stage(nn.Module):
    def __init__(self, layer, device):
        super().__init__()
        self.layer, self.device = layer.to(device), device

    def forward(self, x):
        return self.layer(x.to(self.device))


@right
class OfStages(nn.Module):
    def __init__(self, layers, placement):
        super().__init__()
        self.body = nn.Sequential(*map(Stage, layers, placement))

    def forward(self, x):
        return self.body(x)


@right
class ByHooks(nn.Module):
    def __init__(self, layers, placement):
        super().__init__()
        self.body = nn.Sequential(*layers)
        for layer, device in zip(layers, placement, strict=True):
            layer.to(device)
            layer.register_forward_pre_hook(lambda _, inputs, device=device: (inputs[0].to(device),))

    def forward(self, x):
        return self.body(x)


@wrong("raised RuntimeError", row=OUTPUT)
class NothingMoves(Placed):
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


@wrong("your code raised StopIteration", row=OUTPUT)
class AsksTheParameters(Placed):
    def forward(self, x):
        for layer in self.layers:
            x = layer(x.to(next(layer.parameters()).device))
        return x


@wrong("the output for x on", row=OUTPUT)
class BringsItBack(Placed):
    def forward(self, x):
        start = x.device
        for layer, device in zip(self.layers, self.placement, strict=True):
            x = layer(x.to(device))
        return x.to(start)


@wrong("a plain list registers no layer", row=PLACED)
class InAPlainList(nn.Module):
    def __init__(self, layers, placement):
        super().__init__()
        self.stages = [(layer.to(at), at) for layer, at in zip(layers, placement, strict=True)]

    def forward(self, x):
        for layer, device in self.stages:
            x = layer(x.to(device))
        return x


@wrong("when the model is made", row=PLACED)
class MovesLayersAtEachCall(nn.Module):
    def __init__(self, layers, placement):
        super().__init__()
        self.layers, self.placement = nn.ModuleList(layers), placement

    def forward(self, x):
        for layer, device in zip(self.layers, self.placement, strict=True):
            x = layer.to(device)(x.to(device))
        return x


@wrong("making the model has changed the mode", row=PLACED)
class TrainsAll(Placed):
    def __init__(self, layers, placement):
        super().__init__(layers, placement)
        self.train()

    def forward(self, x):
        for layer, device in zip(self.layers, self.placement, strict=True):
            x = layer.eval()(x.to(device))
        return x


@wrong("5 transfers for 3 changes of device", row=MOVED)
class ByWayOfTheCPU(Placed):
    def forward(self, x):
        for layer, device in zip(self.layers, self.placement, strict=True):
            x = layer(x.cpu().to(device))
        return x


@wrong("5 transfers for 3 changes of device", row=MOVED)
class GathersEachOutput(Placed):
    def forward(self, x):
        for layer, device in zip(self.layers, self.placement, strict=True):
            x = layer(x.to(device)).to(self.placement[0])
        return x.to(self.placement[-1])


@wrong("7 transfers for 3 changes of device", row=MOVED)
class CopiesAlways(Placed):
    def forward(self, x):
        first = self.placement[0]
        for layer, device in zip(self.layers, self.placement, strict=True):
            other = next((one for one in self.placement if one != device), first)
            x = layer(x.to(other).to(device))
        return x


@wrong("the output has lost its graph", row=FLOWS)
class WithoutAGraph(Placed):
    @torch.no_grad()
    def forward(self, x):
        for layer, device in zip(self.layers, self.placement, strict=True):
            x = layer(x.to(device))
        return x


@wrong("no gradient reaches x", row=FLOWS)
class DetachesAtTheBorder(Placed):
    def forward(self, x):
        for layer, device in zip(self.layers, self.placement, strict=True):
            x = layer(x if x.device == device else x.detach().to(device))
        return x


@wrong("making the model has changed which parameters are trained", row=PLACED)
class TrainsWhatIsFrozen(Placed):
    def __init__(self, layers, placement):
        super().__init__(layers, placement)
        self.requires_grad_()

    def forward(self, x):
        for layer, device in zip(self.layers, self.placement, strict=True):
            x = layer(x.to(device))
        return x


@wrong("cannot assign module before Module.__init__() call", row=OUTPUT)
class NoSuper(nn.Module):
    def __init__(self, layers, placement):
        self.layers = nn.ModuleList(layers)

    def forward(self, x):
        return x


@wrong("is a `return` missing?", row=OUTPUT)
class NoReturn(Placed):
    def forward(self, x):
        for layer, device in zip(self.layers, self.placement, strict=True):
            x = layer(x.to(device))


@wrong("the output for x on", row=OUTPUT)
class AllOnTheFirst(nn.Module):
    def __init__(self, layers, placement):
        super().__init__()
        self.body, self.first = nn.Sequential(*layers).to(placement[0]), placement[0]

    def forward(self, x):
        return self.body(x.to(self.first))


@wrong("making the model has changed the mode of a layer", row=PLACED)
class EvaluatesAll(AsksBeforeEach):
    def __init__(self, layers, placement):
        super().__init__(layers, placement)
        self.eval()


@wrong("running the model has changed the mode of a layer", row=PLACED)
class EvaluatesWhereItRuns(AsksBeforeEach):
    def forward(self, x):
        self.eval()
        return super().forward(x)


@wrong("a plain list registers no layer", row=PLACED)
class RegistersWhatHasParameters(nn.Module):
    def __init__(self, layers, placement):
        super().__init__()
        self.stages = [(layer.to(at), at) for layer, at in zip(layers, placement, strict=True)]
        self.trained = nn.ModuleList(layer for layer in layers if [*layer.parameters()])

    def forward(self, x):
        for layer, device in self.stages:
            x = layer(x.to(device))
        return x


@wrong("read its input before that had arrived: it was copied with non_blocking=True", row=OUTPUT)
class DoesNotWait(Placed):
    def forward(self, x):
        for layer, device in zip(self.layers, self.placement, strict=True):
            x = layer(x.to(device, non_blocking=True))
        return x


@right
class WaitsForWhatItAsked(Placed):
    def forward(self, x):
        for layer, device in zip(self.layers, self.placement, strict=True):
            start = x.device
            x = x.to(device, non_blocking=True)
            if start != device and start.type != "cpu":
                torch.accelerator.synchronize(start)
            x = layer(x)
        return x
