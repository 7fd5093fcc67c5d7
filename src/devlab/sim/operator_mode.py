"""PyTorch's hook that sees every operator, kept here because its names are private ones."""

from torch.utils._python_dispatch import TorchDispatchMode


class OperatorMode(TorchDispatchMode):
    """A TorchDispatchMode that is called directly.

    By default PyTorch puts a switch for its compiler around each call, which costs more than the call and
    loads the compiler. Under such a mode nothing is compiled either way.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False
