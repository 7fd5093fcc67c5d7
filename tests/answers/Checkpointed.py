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
ONCE = "buffers updated once"


@contextlib.contextmanager
def buffers_kept(module):
    held = [
        (part, name, buffer, buffer.clone())
        for part in module.modules()
        for name, buffer in part.named_buffers(recurse=False)
    ]
    try:
        yield
    finally:
        with torch.no_grad():
            for part, name, buffer, value in held:
                setattr(part, name, buffer.copy_(value))


@right
class PutsBack(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, *args, **kwargs):
        def contexts():
            return contextlib.nullcontext(), buffers_kept(self.block)

        return checkpoint(self.block, *args, use_reentrant=False, context_fn=contexts, **kwargs)


@right
class CopiesForTheSecondRun(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.wrapped = block

    @contextlib.contextmanager
    def on_copies(self):
        homes = [(module, dict(module._buffers)) for module in self.wrapped.modules()]
        for module, buffers in homes:
            for name, buffer in buffers.items():
                if buffer is not None:
                    module._buffers[name] = buffer.clone()
        try:
            yield
        finally:
            for module, buffers in homes:
                module._buffers.update(buffers)

    def forward(self, *args, **kwargs):
        return checkpoint(
            lambda *a: self.wrapped(*a, **kwargs),
            *args,
            use_reentrant=False,
            context_fn=lambda: (contextlib.nullcontext(), self.on_copies()),
        )


@right
class AFunctionForTheSecondRun(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, *args, **kwargs):
        runs = []

        def run(*inputs):
            runs.append(len(runs))
            if len(runs) == 1:
                return self.block(*inputs, **kwargs)
            buffers = {name: buffer.clone() for name, buffer in self.block.named_buffers()}
            return torch.func.functional_call(self.block, buffers, inputs, kwargs)

        return checkpoint(run, *args, use_reentrant=False)


@wrong("a buffer that forward replaces by a new tensor", row=ONCE)
class PutsBackTheValuesAlone(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block

    @contextlib.contextmanager
    def again(self):
        state = {name: buffer.clone() for name, buffer in self.block.named_buffers()}
        before = dict(self.block.named_buffers())
        try:
            yield
        finally:
            with torch.no_grad():
                for name, buffer in before.items():
                    buffer.copy_(state[name])

    def forward(self, *args, **kwargs):
        with_names = {"context_fn": lambda: (contextlib.nullcontext(), self.again()), **kwargs}
        return checkpoint(self.block, *args, use_reentrant=False, **with_names)


@wrong("the result has a graph under torch.no_grad()", row="without gradients as with them")
class AlwaysAGraph(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, *args, **kwargs):
        def contexts():
            return contextlib.nullcontext(), buffers_kept(self.block)

        with torch.enable_grad():
            return checkpoint(self.block, *args, use_reentrant=False, context_fn=contexts, **kwargs)


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
        return checkpoint(self.block, *args, use_reentrant=False, **kwargs)


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

        return checkpoint(self.block, *args, use_reentrant=False, context_fn=contexts, **kwargs)


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


class Kept(nn.Module):
    """What most answers share."""

    def __init__(self, block):
        super().__init__()
        self.block = block

    def runs(self):
        return contextlib.nullcontext(), buffers_kept(self.block)

    def forward(self, *args, **kwargs):
        return checkpoint(self.block, *args, use_reentrant=False, context_fn=self.runs, **kwargs)


@wrong("no gradient reaches the input `shift`", row=NAMED)
class GradientsForTheFirstAlone(Kept):
    def forward(self, x, *args, **kwargs):
        args = [one.detach() if isinstance(one, torch.Tensor) else one for one in args]
        return super().forward(x, *args, **kwargs)


@wrong("no gradient reaches the input `mask`", row=NAMED)
class NoGradientsByName(Kept):
    def forward(self, *args, **kwargs):
        kwargs = {key: one.detach() if isinstance(one, torch.Tensor) else one for key, one in kwargs.items()}
        return super().forward(*args, **kwargs)


@wrong("missing 1 required positional argument: 'x'", row=NAMED)
class OneInputByPosition(Kept):
    def forward(self, x, *args, **kwargs):
        return super().forward(x, *args, **kwargs)


@wrong("a batch norm's buffers were not updated", row=ONCE)
class PutsBackWhatTheFirstRunLeft(Kept):
    def forward(self, *args, **kwargs):
        @contextlib.contextmanager
        def put_back():
            try:
                yield
            finally:
                for part, name, buffer, value in held:
                    setattr(part, name, buffer.copy_(value))

        def runs():
            return contextlib.nullcontext(), put_back()

        result = checkpoint(self.block, *args, use_reentrant=False, context_fn=runs, **kwargs)
        held = [
            (part, name, buffer, buffer.clone())
            for part in self.block.modules()
            for name, buffer in part.named_buffers(recurse=False)
        ]
        return result


@wrong("a buffer that is not saved, deep in the block", row=ONCE)
class KeepsWhatIsSaved(Kept):
    @contextlib.contextmanager
    def saved_kept(self):
        held = {name: one.clone() for name, one in self.block.state_dict().items()}
        try:
            yield
        finally:
            self.block.load_state_dict(held)

    def runs(self):
        return contextlib.nullcontext(), self.saved_kept()


@wrong("the block is not registered in the module", row=SAME)
class ItsParametersAlone(Kept):
    def __init__(self, block):
        nn.Module.__init__(self)
        self.parameters_of_it = nn.ParameterList(block.parameters())
        self.__dict__["block"] = block


@wrong("the block was put into another mode", row="without gradients as with them")
class EvaluatesWithoutGradients(Kept):
    def forward(self, *args, **kwargs):
        if not torch.is_grad_enabled():
            self.block.eval()
        return super().forward(*args, **kwargs)


@wrong("two forwards drew the same random numbers", row=RANDOM)
class AlwaysOneSeed(Kept):
    def forward(self, *args, **kwargs):
        def run(*inputs):
            torch.manual_seed(0)
            return self.block(*inputs, **kwargs)

        return checkpoint(run, *args, use_reentrant=False, context_fn=self.runs)


@wrong("bytes of activations were kept for backward in evaluation mode", row=KEPT)
class OnlyInTraining(Kept):
    def forward(self, *args, **kwargs):
        return super().forward(*args, **kwargs) if self.training else self.block(*args, **kwargs)


@wrong("kept for backward where the input asks for no gradient", row=KEPT)
class OnlyWhereAnInputAsks(Kept):
    def forward(self, *args, **kwargs):
        given = [one for one in (*args, *kwargs.values()) if isinstance(one, torch.Tensor)]
        asked = any(one.requires_grad for one in given)
        return super().forward(*args, **kwargs) if asked else self.block(*args, **kwargs)


@wrong("kept for backward where inputs come by name", row=NAMED)
class OnlyByPosition(Kept):
    def forward(self, *args, **kwargs):
        return self.block(*args, **kwargs) if kwargs else super().forward(*args, **kwargs)


@contextlib.contextmanager
def evaluating(parts):
    before = [part.training for part in parts]
    for part in parts:
        part.training = False
    try:
        yield
    finally:
        for part, training in zip(parts, before, strict=True):
            part.training = training


class Again(Kept):
    """Runs the block again as `again` says, and lets PyTorch compare nothing."""

    def forward(self, *args, **kwargs):
        return checkpoint(
            self.block,
            *args,
            use_reentrant=False,
            determinism_check="none",
            context_fn=lambda: (contextlib.nullcontext(), self.again()),
            **kwargs,
        )


@wrong("a batch norm ran in another mode than its own", row=(RANDOM, ONCE))
class EvaluatesTheSecondTime(Again):
    def again(self):
        return evaluating([*self.block.modules()])


@wrong("a batch norm ran in another mode than its own", row=ONCE)
class EvaluatesBatchNormsTheSecondTime(Again):
    def again(self):
        return evaluating([one for one in self.block.modules() if isinstance(one, nn.BatchNorm1d)])


@wrong("a buffer that is not saved, deep in the block", row=ONCE)
class KeepsBuffersInTrainingAlone(Again):
    def again(self):
        return buffers_kept(self.block) if self.training else contextlib.nullcontext()


@right
class WithoutPyTorchsComparison(Again):
    def again(self):
        return buffers_kept(self.block)


@wrong("nothing was dropped: the block ran in another mode", row=RANDOM)
class AlwaysEvaluates(Kept):
    def forward(self, *args, **kwargs):
        self.block.eval()
        return super().forward(*args, **kwargs)
