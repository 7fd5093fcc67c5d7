"""What `x + y` on the simulated accelerator is made of, in microseconds of processor time.

Kernels that do ever more of the simulator's work take the place of its own for the length of a measurement;
each row is what one more step adds. The smallest of many rounds counts.
"""

import warnings

import torch
from sim_overhead import beside

import devlab.sim
from devlab.sim import clock, data, private

CALLS, ROUNDS = 300, 200


def steps(x: torch.Tensor, y: torch.Tensor):
    """Yield the name of each step and a kernel that does it and all before; the last returns a new tensor."""
    made, add = x + y, private.public_function("aten::add")
    find, launch, label = data.on_host, clock.launch, data.new_on_device
    to_dlpack, from_dlpack, words = private.to_dlpack, private.from_dlpack, private.words

    def located(x, y):
        return x.get_device() + y.get_device()

    def computed(x, y):
        located(x, y)
        return add(find(x), find(y))

    def charged(x, y):
        located(x, y)
        one, other = find(x), find(y)
        out = add(one, other)
        launch(0, one.nbytes + other.nbytes + out.nbytes, 0.0, "aten::add.Tensor")
        return out

    def renamed(x, y):
        capsule = to_dlpack(charged(x, y))
        words(capsule)[private.DEVICE_WORD] = int(private.EXTENSION_IN_DLPACK)
        return from_dlpack(capsule)

    def booked(x, y):
        out = charged(x, y)
        return label(out, 0, out.nbytes)

    yield "from PyTorch's C++ into Python, and back", lambda x, y: made
    yield "where the operands are", lambda x, y: (located(x, y), made)[1]
    yield "the CPU's names of the operands", lambda x, y: (located(x, y), find(x), find(y), made)[-1]
    yield "the CPU's own operator", lambda x, y: (computed(x, y), made)[1]
    yield "the clock", lambda x, y: (charged(x, y), made)[1]
    yield "the result's name on the device", renamed
    yield "the allocator's books, and their end with the tensor", booked


def main() -> None:
    """Print the table."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # PyTorch says that a kernel takes another's place
    devlab.sim.enable()
    x, y = torch.ones(8, 8, device="sim"), torch.ones(8, 8, device="sim")
    here, there = torch.ones(8, 8), torch.ones(8, 8)
    cpu, whole = beside([lambda: here + there, lambda: x + y], CALLS, ROUNDS)
    before = 0.0
    for name, kernel in steps(x, y):
        library = private.open_library("IMPL", "aten", "PrivateUse1", __file__, 1)
        library.impl("add.Tensor", "PrivateUse1", kernel, False)
        (after,) = beside([lambda: x + y], CALLS, ROUNDS)
        del library
        print(f"{name:<55}{after - before:6.2f} us")
        before = after
    print(f"{'choosing a kernel, and taking turns with the CPU':<55}{whole - before:6.2f} us")
    print(f"{'x + y on sim':<55}{whole:6.2f} us, {whole - cpu:.2f} more than on the CPU")


if __name__ == "__main__":
    main()
