"""Answers to continue_training."""

import itertools
import os
from pathlib import Path

import torch
from bank import right, wrong
from torch.nn import functional as F

GOES_ON = "model and optimizer go on"
RANDOM = "the random numbers go on"
DATA = "the data goes on where it stopped"
ELSEWHERE = "a file from another device or machine"
WHOLE = "a training that is not interrupted"
FILE = "the file is data, and nothing else is read"


def train_step(model, batch, optimizer, device):
    model.train()
    x, y = (tensor.to(device) for tensor in batch)
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


def random_of(device):
    if device.type == "cpu":
        return torch.get_rng_state()
    return torch.get_device_module(device).get_rng_state(device)


def set_random(device, state):
    if device.type == "cpu":
        torch.set_rng_state(state)
    else:
        torch.get_device_module(device).set_rng_state(state, device)


class Run:
    """A right answer in pieces, of which wrong ones leave out or change some."""

    parts = ("model", "optimizer", "random", "order", "taken")
    place = "cpu"
    trusting = False

    def __init__(self, model, loader, optimizer, device, path):
        self.model, self.loader, self.optimizer, self.device, self.path = (
            model,
            loader,
            optimizer,
            device,
            path,
        )
        self.begun, self.taken = loader.generator.get_state(), 0

    def load(self):
        if not os.path.exists(self.path):
            self.batches = iter(self.loader)
            return
        held = torch.load(self.path, map_location=self.place, weights_only=not self.trusting)
        if "model" in self.parts:
            self.model.load_state_dict(held["model"])
        if "optimizer" in self.parts:
            self.optimizer.load_state_dict(held["optimizer"])
        if "order" in self.parts:
            self.begun = held["begun"]
            self.loader.generator.set_state(self.begun)
        self.taken = held["taken"] if "taken" in self.parts else 0
        self.batches = iter(self.loader)
        for _ in range(self.taken):
            next(self.batches)
        if "random" in self.parts and held["kind"] == self.device.type:
            set_random(self.device, held["random"])

    def steps(self, count):
        losses = []
        while len(losses) < count:
            for batch in self.batches:
                losses.append(train_step(self.model, batch, self.optimizer, self.device))
                self.taken += 1
                if len(losses) == count:
                    break
            else:
                self.begun, self.taken = self.loader.generator.get_state(), 0
                self.batches = iter(self.loader)
        return torch.stack(losses).tolist()

    def state(self):
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "begun": self.begun,
            "taken": self.taken,
            "random": random_of(self.device),
            "kind": self.device.type,
        }

    @classmethod
    def go_on(cls, model, loader, optimizer, device, steps, path):
        run = cls(model, loader, optimizer, device, path)
        run.load()
        losses = run.steps(steps)
        torch.save(run.state(), path)
        return losses


@right
def by_a_class(model, loader, optimizer, device, steps, path):
    return Run.go_on(model, loader, optimizer, device, steps, path)


@right
def from_the_very_first_batch(model, loader, optimizer, device, steps, path):
    """The count of steps is all that is kept of the data: all batches before are drawn again."""
    path = Path(path)
    held = torch.load(path, map_location="cpu", weights_only=True) if path.is_file() else {}
    if held:
        loader.generator.set_state(held["first"])
        model.load_state_dict(held["model"])
        optimizer.load_state_dict(held["optimizer"])
    first, done = loader.generator.get_state(), held.get("done", 0)
    batches = itertools.chain.from_iterable(itertools.repeat(loader))
    for _ in range(done):
        next(batches)
    if str(device) in held:
        set_random(device, held[str(device)])
    losses = [train_step(model, next(batches), optimizer, device).item() for _ in range(steps)]
    held = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "first": first}
    new = path.with_suffix(".new")
    torch.save(held | {"done": done + steps, str(device): random_of(device)}, new)
    new.replace(path)
    return losses


@right
def with_the_rest_of_the_epoch(model, loader, optimizer, device, steps, path):
    """The file holds the batches themselves that are left of the epoch, and the generator behind it."""
    rest = []
    if os.path.exists(path):
        with open(path, "rb") as file:
            weights, moments, rest, order, numbers = torch.load(file, map_location="cpu")
        model.load_state_dict(weights)
        optimizer.load_state_dict(moments)
        loader.generator.set_state(order)
        if numbers[0] == device.type:
            set_random(device, numbers[1])
    losses = []
    for _ in range(steps):
        rest = rest or [list(batch) for batch in loader]
        losses.append(float(train_step(model, rest.pop(0), optimizer, device)))
    numbers = [device.type, random_of(device)]
    held = [model.state_dict(), optimizer.state_dict(), rest, loader.generator.get_state(), numbers]
    torch.save(held, path)
    return losses


@right
def on_the_device_at_once(model, loader, optimizer, device, steps, path):
    class Mapped(Run):
        place = staticmethod(lambda storage, _: storage)

    return Mapped.go_on(model, loader, optimizer, device, steps, path)


@wrong("the optimizer began anew: its state is not in the file, or was not loaded", row=GOES_ON)
def without_the_optimizer(model, loader, optimizer, device, steps, path):
    class Forgetful(Run):
        parts = ("model", "random", "order", "taken")

    return Forgetful.go_on(model, loader, optimizer, device, steps, path)


@wrong("the model began anew: its state is not in the file, or was not loaded", row=GOES_ON)
def without_the_model(model, loader, optimizer, device, steps, path):
    class Forgetful(Run):
        parts = ("optimizer", "random", "order", "taken")

    return Forgetful.go_on(model, loader, optimizer, device, steps, path)


@wrong("nothing of the file was used: each call begins anew", row=GOES_ON)
def never_loads(model, loader, optimizer, device, steps, path):
    batches = itertools.chain.from_iterable(itertools.repeat(loader))
    losses = [train_step(model, next(batches), optimizer, device).item() for _ in range(steps)]
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
    return losses


@wrong("the model's buffers began anew: its parameters are not all of its state", row=GOES_ON)
def parameters_alone(model, loader, optimizer, device, steps, path):
    class Parameters(Run):
        def load(self):
            fresh = {name: buffer.clone() for name, buffer in self.model.named_buffers()}
            super().load()
            self.model.load_state_dict(fresh, strict=False)

    return Parameters.go_on(model, loader, optimizer, device, steps, path)


@wrong("dropout draws other random numbers than without the interruption", row=RANDOM)
def without_random_numbers(model, loader, optimizer, device, steps, path):
    class Forgetful(Run):
        parts = ("model", "optimizer", "order", "taken")

    return Forgetful.go_on(model, loader, optimizer, device, steps, path)


@wrong("the loss of step 4, after a restart, is wrong", row=RANDOM)
def seeded_in_each_call(model, loader, optimizer, device, steps, path):
    class Seeded(Run):
        parts = ("model", "optimizer", "order", "taken")

        def load(self):
            super().load()
            torch.manual_seed(0)

    return Seeded.go_on(model, loader, optimizer, device, steps, path)


@wrong("the loader's generator was not set back: the epoch has another order", row=DATA)
def without_the_order(model, loader, optimizer, device, steps, path):
    class Forgetful(Run):
        parts = ("model", "optimizer", "random", "taken")

    return Forgetful.go_on(model, loader, optimizer, device, steps, path)


@wrong("the epoch begins with its first batch again", row=DATA)
def from_the_first_batch_of_the_epoch(model, loader, optimizer, device, steps, path):
    class Forgetful(Run):
        parts = ("model", "optimizer", "random", "order")

    return Forgetful.go_on(model, loader, optimizer, device, steps, path)


@wrong("a new epoch begins with each call", row=DATA)
def with_the_generator_as_it_is(model, loader, optimizer, device, steps, path):
    class Late(Run):
        parts = ("model", "optimizer", "random", "order")

        def state(self):
            return super().state() | {"begun": self.loader.generator.get_state()}

    return Late.go_on(model, loader, optimizer, device, steps, path)


@wrong("Attempting to deserialize", row=ELSEWHERE)
def without_map_location(model, loader, optimizer, device, steps, path):
    class Unmapped(Run):
        place = None

    return Unmapped.go_on(model, loader, optimizer, device, steps, path)


@wrong("your code raised", row=(ELSEWHERE, RANDOM, GOES_ON))
def random_numbers_always(model, loader, optimizer, device, steps, path):
    class Always(Run):
        def load(self):
            super().load()
            if os.path.exists(self.path):
                held = torch.load(self.path, map_location="cpu")
                set_random(self.device, held["random " + self.device.type])

        def state(self):
            return super().state() | {"random " + self.device.type: random_of(self.device)}

    return Always.go_on(model, loader, optimizer, device, steps, path)


@wrong("code from the file was run", row=FILE)
def trusts_the_file(model, loader, optimizer, device, steps, path):
    class Trusting(Run):
        trusting = True

    return Trusting.go_on(model, loader, optimizer, device, steps, path)


@wrong("the file holds more than data", row=FILE)
def keeps_the_objects(model, loader, optimizer, device, steps, path):
    class Objects(Run):
        trusting = True

        def state(self):
            return super().state() | {"whole": self.model}

    return Objects.go_on(model, loader, optimizer, device, steps, path)


@wrong("your code raised UnpicklingError", row=GOES_ON)
def keeps_objects_and_cannot_read_them(model, loader, optimizer, device, steps, path):
    class Objects(Run):
        def state(self):
            return super().state() | {"device": self.model}

    return Objects.go_on(model, loader, optimizer, device, steps, path)


@wrong("there is no file at the path", row=(FILE, GOES_ON))
def into_another_file(model, loader, optimizer, device, steps, path):
    return Run.go_on(model, loader, optimizer, device, steps, str(path) + ".ckpt")


@wrong("the losses are no floats", row=WHOLE)
def tensors(model, loader, optimizer, device, steps, path):
    run = Run(model, loader, optimizer, device, path)
    run.load()
    batches = itertools.chain.from_iterable(itertools.repeat(loader))
    losses = [train_step(model, next(batches), optimizer, device) for _ in range(steps)]
    torch.save(run.state(), path)
    return losses


@wrong("3 losses for 7 steps", row=WHOLE)
def one_epoch_at_most(model, loader, optimizer, device, steps, path):
    run = Run(model, loader, optimizer, device, path)
    run.load()
    rest = itertools.islice(run.batches, steps)
    losses = [train_step(model, batch, optimizer, device).item() for batch in rest]
    torch.save(run.state(), path)
    return losses


@wrong("is a `return` missing?", row=WHOLE)
def returns_nothing(model, loader, optimizer, device, steps, path):
    Run.go_on(model, loader, optimizer, device, steps, path)


@wrong("6 losses for 3 steps", row=GOES_ON)
def all_losses_so_far(model, loader, optimizer, device, steps, path):
    before = torch.load(path, map_location="cpu")["losses"] if os.path.exists(path) else []

    class Total(Run):
        def state(self):
            return super().state() | {"losses": losses}

    run = Total(model, loader, optimizer, device, path)
    run.load()
    losses = before + run.steps(steps)
    torch.save(run.state(), path)
    return losses


@wrong("the step does not train: the losses are those of another training", row=WHOLE)
def in_the_mode_it_came_in(model, loader, optimizer, device, steps, path):
    class Evaluating(Run):
        def steps(self, count):
            losses = []
            for _ in range(count):
                batch = next(self.batches, None) or next(iter(self.loader))
                loss = F.cross_entropy(self.model(batch[0].to(self.device)), batch[1].to(self.device))
                loss.backward()
                self.optimizer.step()
                self.optimizer.zero_grad()
                losses.append(loss.item())
            return losses

    return Evaluating.go_on(model, loader, optimizer, device, steps, path)
