"""Answers to Checkpointed."""

import contextlib

import torch
from bank import right, wrong
from torch import nn
from torch.utils.checkpoint import checkpoint

SAME = "the block's results and gradients"
NONE = "gradients where the input asks for none"
KEPT = "activations computed twice, not kept"
PEAK = "a lower peak of memory"
RANDOM = "the same random numbers both times"
NAMED = "arguments by name, several results"
RANDOM_BY_NAME = "the same random numbers, inputs by name"
ONCE = "buffers updated once"
CHANGED = "a result that depends on changed buffers"
TWO = "two runs forward, then both backward"


@contextlib.contextmanager
def buffers_kept(module):
    held = [(buffer, buffer.clone()) for buffer in module.buffers()]
    try:
        yield
    finally:
        for buffer, value in held:
            buffer.data.copy_(value)


def copies_of_buffers(module):
    return {name: buffer.clone() for name, buffer in module.named_buffers()}


@contextlib.contextmanager
def buffers_from(module, found):
    now = copies_of_buffers(module)
    with torch.no_grad():
        for name, buffer in module.named_buffers():
            buffer.copy_(found[name])
    try:
        yield
    finally:
        with torch.no_grad():
            for name, buffer in module.named_buffers():
                buffer.copy_(now[name])


@right
class OtherBuffersForTheSecondRun(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, *args, **kwargs):
        found, runs = copies_of_buffers(self.block), []

        def run(args, kwargs):
            runs.append(len(runs))
            if len(runs) == 1:
                return self.block(*args, **kwargs)
            copies = {name: buffer.clone() for name, buffer in found.items()}
            return torch.func.functional_call(self.block, copies, args, kwargs)

        return checkpoint(run, args, kwargs, use_reentrant=False)


@right
class PutsBackAndForth(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, *args, **kwargs):
        found = copies_of_buffers(self.block)
        return checkpoint(
            lambda args, kwargs: self.block(*args, **kwargs),
            args,
            kwargs,
            use_reentrant=False,
            context_fn=lambda: (contextlib.nullcontext(), buffers_from(self.block, found)),
        )


@right
class NamesInOrder(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.wrapped = block

    @contextlib.contextmanager
    def with_buffers(self, found):
        homes = [(module, dict(module._buffers)) for module in self.wrapped.modules()]
        for module, buffers in homes:
            for name in [name for name, buffer in buffers.items() if buffer is not None]:
                module._buffers[name] = found[module][name].clone()
        try:
            yield
        finally:
            for module, buffers in homes:
                module._buffers.update(buffers)

    def forward(self, *args, **kwargs):
        found = {
            module: {name: buffer.clone() for name, buffer in module._buffers.items() if buffer is not None}
            for module in self.wrapped.modules()
        }
        names = list(kwargs)

        def run(*values):
            return self.wrapped(*values[: len(args)], **dict(zip(names, values[len(args) :], strict=True)))

        return checkpoint(
            run,
            *args,
            *kwargs.values(),
            use_reentrant=False,
            context_fn=lambda: (contextlib.nullcontext(), self.with_buffers(found)),
        )


@right
class RandomNumbersByHand(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block

    @contextlib.contextmanager
    def again(self, found, states):
        with contextlib.ExitStack() as stack:
            stack.enter_context(buffers_from(self.block, found))
            for device, state in states.items():
                kind = torch.get_device_module(device)
                stack.enter_context(torch.random.fork_rng([device.index], device_type=device.type))
                kind.set_rng_state(state, device)
            yield

    def forward(self, *args, **kwargs):
        tensors = [one for one in (*args, *kwargs.values()) if isinstance(one, torch.Tensor)]
        places = {one.device for one in tensors if one.device.type != "cpu"}
        states = {device: torch.get_device_module(device).get_rng_state(device) for device in places}
        found = copies_of_buffers(self.block)
        return checkpoint(
            self.block,
            *args,
            use_reentrant=False,
            context_fn=lambda: (contextlib.nullcontext(), self.again(found, states)),
            **kwargs,
        )


@wrong("with its input by name, dropout dropped other elements", row=RANDOM_BY_NAME)
class InputsByName(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, *args, **kwargs):
        found = copies_of_buffers(self.block)
        return checkpoint(
            self.block,
            *args,
            use_reentrant=False,
            context_fn=lambda: (contextlib.nullcontext(), buffers_from(self.block, found)),
            **kwargs,
        )


@wrong("with its input by name, dropout dropped other elements", row=RANDOM_BY_NAME)
class InputsByNameInAFunction(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, *args, **kwargs):
        def contexts():
            return contextlib.nullcontext(), buffers_kept(self.block)

        return checkpoint(
            lambda *a: self.block(*a, **kwargs), *args, use_reentrant=False, context_fn=contexts
        )


@wrong("the second run did not begin with the buffers that the first run found", row=CHANGED)
class PutsBackWhatTheFirstRunLeft(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, *args, **kwargs):
        def contexts():
            return contextlib.nullcontext(), buffers_kept(self.block)

        return checkpoint(
            lambda args, kwargs: self.block(*args, **kwargs),
            args,
            kwargs,
            use_reentrant=False,
            context_fn=contexts,
        )


@wrong("the second run did not begin with the buffers that the first run found", row=CHANGED)
class CopiesForTheSecondRun(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, *args, **kwargs):
        runs = []

        def run(args, kwargs):
            runs.append(len(runs))
            if len(runs) == 1:
                return self.block(*args, **kwargs)
            return torch.func.functional_call(self.block, copies_of_buffers(self.block), args, kwargs)

        return checkpoint(run, args, kwargs, use_reentrant=False)


@wrong("a batch norm's buffers were not updated", row=TWO)
class LeavesWhatItsOwnFirstRunLeft(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, *args, **kwargs):
        found = copies_of_buffers(self.block)
        left = {}

        @contextlib.contextmanager
        def first():
            yield
            left.update(copies_of_buffers(self.block))

        @contextlib.contextmanager
        def second():
            with torch.no_grad():
                for name, buffer in self.block.named_buffers():
                    buffer.copy_(found[name])
            try:
                yield
            finally:
                with torch.no_grad():
                    for name, buffer in self.block.named_buffers():
                        buffer.copy_(left[name])

        return checkpoint(
            lambda args, kwargs: self.block(*args, **kwargs),
            args,
            kwargs,
            use_reentrant=False,
            context_fn=lambda: (first(), second()),
        )


@wrong("a buffer that counts the block's runs is", row=CHANGED)
class BackToTheBeginning(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block

    @contextlib.contextmanager
    def again(self, found):
        if any(isinstance(module, nn.BatchNorm1d) for module in self.block.modules()):
            with buffers_from(self.block, found):
                yield
            return
        with torch.no_grad():
            for name, buffer in self.block.named_buffers():
                buffer.copy_(found[name])
        try:
            yield
        finally:
            with torch.no_grad():
                for name, buffer in self.block.named_buffers():
                    buffer.copy_(found[name])

    def forward(self, *args, **kwargs):
        found = copies_of_buffers(self.block)
        return checkpoint(
            lambda args, kwargs: self.block(*args, **kwargs),
            args,
            kwargs,
            use_reentrant=False,
            context_fn=lambda: (contextlib.nullcontext(), self.again(found)),
        )


@wrong("the result has a graph under torch.no_grad()", row="without gradients as with them")
class AlwaysAGraph(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, *args, **kwargs):
        found = copies_of_buffers(self.block)
        with torch.enable_grad():
            return checkpoint(
                lambda args, kwargs: self.block(*args, **kwargs),
                args,
                kwargs,
                use_reentrant=False,
                context_fn=lambda: (contextlib.nullcontext(), buffers_from(self.block, found)),
            )


@wrong("no gradient reaches the input", row=SAME)
class ReentrantWithAFreshInput(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, x, *args, **kwargs):
        x = x.detach().requires_grad_()
        return checkpoint(lambda *a: self.block(*a, **kwargs), x, *args, use_reentrant=True)


@wrong("a batch norm's buffers were updated in the second run as well", row=ONCE)
class Plain(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, *args, **kwargs):
        def run(args, kwargs):
            return self.block(*args, **kwargs)

        return checkpoint(run, args, kwargs, use_reentrant=False)


@wrong("where the input asks for no gradient", row=NONE)
class Reentrant(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, *args, **kwargs):
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return checkpoint(lambda *a: self.block(*a, **kwargs), *args, use_reentrant=True)


@wrong("the second run drew other random numbers", row=RANDOM)
class OtherNumbers(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, *args, **kwargs):
        def contexts():
            return contextlib.nullcontext(), buffers_kept(self.block)

        return checkpoint(
            self.block,
            *args,
            use_reentrant=False,
            preserve_rng_state=False,
            context_fn=contexts,
            **kwargs,
        )


@wrong("bytes of activations were kept for backward", row=KEPT)
class JustCalls(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, *args, **kwargs):
        return self.block(*args, **kwargs)


@wrong("and 0 times in backward", row=KEPT)
class Offloaded(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, *args, **kwargs):
        with torch.autograd.graph.save_on_cpu():
            return self.block(*args, **kwargs)


@wrong("unexpected keyword argument", row=NAMED)
class NoNames(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, *args):
        def contexts():
            return contextlib.nullcontext(), buffers_kept(self.block)

        return checkpoint(self.block, *args, use_reentrant=False, context_fn=contexts)


@wrong("forward() takes 2 positional arguments but 3 were given", row=NAMED)
class OneInput(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, x, **kwargs):
        def contexts():
            return contextlib.nullcontext(), buffers_kept(self.block)

        return checkpoint(self.block, x, use_reentrant=False, context_fn=contexts, **kwargs)


@wrong("the result has no graph", row=SAME)
class NoGraph(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, *args, **kwargs):
        with torch.no_grad():
            return self.block(*args, **kwargs)


@wrong("a batch norm's buffers were not updated", row=ONCE)
class NeverUpdated(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, *args, **kwargs):
        def contexts():
            return buffers_kept(self.block), buffers_kept(self.block)

        def run(args, kwargs):
            return self.block(*args, **kwargs)

        return checkpoint(run, args, kwargs, use_reentrant=False, context_fn=contexts)


@wrong("was never made a module", row=SAME)
class NoSuper(nn.Module):
    def __init__(self, block):
        self.__dict__["block"] = block

    def forward(self, *args, **kwargs):
        return checkpoint(self.block, *args, use_reentrant=False, **kwargs)


@wrong("the block's parameters are not the module's", row=SAME)
class NotRegistered(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.parts = [block]

    def forward(self, *args, **kwargs):
        return checkpoint(self.parts[0], *args, use_reentrant=False, **kwargs)
