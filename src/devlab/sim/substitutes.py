"""What a simulated device does in its own way: compiling, DataParallel, the module `amp`, lazy parameters."""

import functools
import warnings

import torch

from devlab.sim import placement, private

NOT_COMPILED = (
    "torch.compile on a simulated device runs the captured graph as it is: nothing is fused, and its "
    "modelled time is that of the single operators."
)
NOT_PARALLEL = (
    "torch.nn.DataParallel is not simulated. PyTorch recommends torch.nn.parallel.DistributedDataParallel in "
    "its place, with one process for each device; it runs here on the CPU with the gloo backend."
)

def install() -> None:
    """Put every substitute in its place."""
    _run_graphs_as_they_are()
    _refuse_data_parallel()
    private.allow_on_uninitialized(torch.Tensor.to, torch._has_compatible_shallow_copy_type)


def _run_graphs_as_they_are() -> None:
    """Let `torch.compile` with its usual backend leave what is on `sim` uncompiled, and say so."""
    compiled = private.InductorBackend.__call__

    @functools.wraps(compiled)
    def call(self, graph, inputs, **options):
        tensors = [*inputs, *graph.parameters(), *graph.buffers()]
        if not any(isinstance(one, torch.Tensor) and one.device.type == placement.NAME for one in tensors):
            return compiled(self, graph, inputs, **options)
        warnings.warn(NOT_COMPILED, stacklevel=1)
        return graph.forward

    private.InductorBackend.__call__ = call


def _refuse_data_parallel() -> None:
    """Let `nn.DataParallel` over simulated devices say what to use in its place."""
    make = torch.nn.DataParallel.__init__

    @functools.wraps(make)
    def made(self, module, device_ids=None, *args, **kwargs):
        if torch.accelerator.current_accelerator().type == placement.NAME:
            raise NotImplementedError(NOT_PARALLEL)
        make(self, module, device_ids, *args, **kwargs)

    torch.nn.DataParallel.__init__ = made
