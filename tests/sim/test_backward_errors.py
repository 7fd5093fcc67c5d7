"""Whatever raises in a backward pass arrives as itself, and the process and the next backward live on."""

import subprocess
import sys

PROGRAM = """
import torch, devlab.sim
from torch.utils import checkpoint
devlab.sim.enable()

def boom(*grads):
    raise ValueError("mine")

class Raising(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        return a * 2
    @staticmethod
    def backward(ctx, grad):
        raise KeyboardInterrupt("mine")

class Again:
    calls = 0
    def __call__(self, a):
        self.calls += 1
        return a.exp() if self.calls == 1 else boom()

def case(name, line):
    x = torch.ones(3, device="sim:1", requires_grad=True)
    names = dict(globals(), x=x, y=(x * 2).exp(), layer=torch.nn.Linear(3, 3, device="sim:1"))
    exec(line, names)
    try:
        names["y"].sum().backward()
    except (ValueError, KeyboardInterrupt) as error:
        print(name, "|", type(error).__name__, error, error.__cause__, error.__context__, flush=True)
    else:
        print(name, "| nothing raised", flush=True)
    z = torch.ones(3, device="sim:1", requires_grad=True)
    (z * 2).sum().backward()
    print(name, "| next:", z.grad.tolist(), flush=True)

for name, line in {cases}:
    case(name, line)
"""
CASES = {
    "tensor": "y.register_hook(boom)",
    "leaf": "x.register_post_accumulate_grad_hook(boom)",
    "node": "y.grad_fn.register_hook(boom)",
    "node before": "y.grad_fn.register_prehook(boom)",
    "accumulation": "y.grad_fn.next_functions[0][0].next_functions[0][0].register_prehook(boom)",
    "module": "layer.register_full_backward_hook(boom); y = layer(x)",
    "module before": "layer.register_full_backward_pre_hook(boom); y = layer(x)",
    "function": "y = Raising.apply(x * 3)",
    "checkpoint": "y = checkpoint.checkpoint(Again(), x, use_reentrant=False)",
    "reentrant checkpoint": "y = checkpoint.checkpoint(Again(), x, use_reentrant=True)",
    "unpacking": "with torch.autograd.graph.saved_tensors_hooks(lambda t: t, boom): y = x.exp()",
}


def test_each_error_arrives_and_the_process_lives():
    """In a process of their own, since the failure that this guards against is the end of it."""
    code = PROGRAM.replace("{cases}", repr(list(CASES.items())))
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    expected = []
    for name, line in CASES.items():
        kind = "KeyboardInterrupt" if "Raising" in line else "ValueError"
        expected += [f"{name} | {kind} mine None None", f"{name} | next: [2.0, 2.0, 2.0]"]
    assert (run.stdout.splitlines(), run.returncode) == (expected, 0), run.stderr
