"""A tensor over an array's memory."""

import torch

from devlab.checks import verbs
from devlab.checks.scenes import scene
from devlab.lessons.lesson_06_numpy_sharing import lesson, plain, see_tensor, turned, typed, views
from devlab.sim.private import negative_strides_refused

sharing_tensor = lesson.exercise(
    "sharing_tensor(a)",
    ("N4", "N5", "N6", "N7"),
    "Of the ways from an array to a tensor, one promises to share and refuses where it cannot. Any step that "
    "makes the array tidy first, such as `np.ascontiguousarray`, may make a copy.",
    "`torch.from_numpy(a)` shares. Try it on an array with negative strides: what does it raise, and what "
    "does the message say?",
    'The whole body is `return torch.from_numpy(a)`: its own error is a ValueError that says "negative".',
)


@scene(sharing_tensor, torch.from_numpy, "the array's own memory, both ways")
def shared_both_ways(t):
    for why, a in plain(t).items():
        yield from see_tensor(t, a, why, shared=True)


@scene(sharing_tensor, torch.from_numpy, "the array's own dtype")
def shared_dtype(t):
    for why, a in typed(t).items():
        yield from see_tensor(t, a, why, shared=True)


@scene(sharing_tensor, torch.from_numpy, "slices, transposes, empty arrays")
def shared_views(t):
    for why, a in views(t).items():
        yield from see_tensor(t, a, why, shared=True)


@sharing_tensor.row("negative strides: a ValueError says so")
def refused(trial):
    says = {'the ValueError does not say "negative"': lambda text: "negative" in text.lower()}
    asked = 'a ValueError that says "negative"'
    nothing = "the array has negative strides, and no error was raised"
    for a in turned(trial):
        with negative_strides_refused():
            verbs.raises(trial, a, kind=ValueError, asked=asked, nothing=nothing, says=says)
