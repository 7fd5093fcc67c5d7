"""Answers to read_trace."""

import gzip
import json
from collections import Counter, defaultdict

import torch
from bank import right, wrong

IDLE = "idle: neither kernel nor copy nor fill runs"
WAITS = "the operator that waits longest"
BOUND = "what bounds the step"
GPU = {"kernel", "gpu_memcpy", "gpu_memset"}


def read(path):
    """Return the slices of a trace with their ends, the steps of the host, and their whole length."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    slices = [event | {"end": event["ts"] + event["dur"]} for event in events if event["ph"] == "X"]
    steps = [one for one in slices if one["cat"] == "user_annotation" and "ProfilerStep" in one["name"]]
    return slices, steps, sum(step["dur"] for step in steps)


def within(one, steps):
    """Return how much of a slice lies within the steps."""
    return sum(max(0, min(one["end"], step["end"]) - max(one["ts"], step["ts"])) for step in steps)


def idle_of(slices, steps, cats=GPU):
    """Return for how long nothing of the categories runs within the steps, two at once counted once."""
    idle = 0
    for step in steps:
        done = step["ts"]
        for one in sorted((one for one in slices if one["cat"] in cats), key=lambda one: one["ts"]):
            if one["ts"] < step["end"]:
                idle += max(0, one["ts"] - done)
                done = max(done, min(one["end"], step["end"]))
        idle += step["end"] - done
    return idle


def around(slices, wait):
    """Return the operators around a wait, the longest first."""
    found = [one for one in slices if one["cat"] == "cpu_op" and one["tid"] == wait["tid"]]
    found = [one for one in found if one["ts"] <= wait["ts"] and wait["end"] <= one["end"]]
    return sorted(found, key=lambda one: -one["dur"])


def waits_of(slices, steps, place=0):
    """Return the length of the waits by operator; of those around a wait the one at a place counts."""
    waits = Counter()
    for one in slices:
        if one["name"].endswith("Synchronize") and (operators := around(slices, one)):
            waits[operators[place]["name"]] += within(one, steps)
    return +waits


def longest(waits):
    """Return the name of the longest, None where there is none."""
    return max(waits, key=waits.get, default=None)


def loads_of(slices, steps):
    """Return how long the loader keeps the host within the steps."""
    return sum(within(one, steps) for one in slices if one["name"].startswith("enumerate(DataLoader)"))


def bound_of(idle, loads, whole):
    """Return what bounds the step."""
    if idle < whole / 3:
        return "GPU"
    return "loader" if loads >= idle / 2 else "launches"


def bound_by(slices, steps, whole):
    """Return what bounds the step."""
    return bound_of(idle_of(slices, steps), loads_of(slices, steps), whole)


def told(path, idle=idle_of, operator=lambda *known: longest(waits_of(*known)), bound=bound_by):
    """Return the three parts of an answer, each from the slices and the steps."""
    slices, steps, whole = read(path)
    return idle(slices, steps) / len(steps), operator(slices, steps), bound(slices, steps, whole)


@right
def gap_by_gap(path):
    return told(path)


@right
def by_rising_and_falling(path):
    def idle_between_edges(slices, steps):
        idle, edges = 0, []
        for one in slices:
            if one["cat"] in GPU:
                edges += [(one["ts"], 1, 0), (one["end"], -1, 0)]
        for step in steps:
            edges += [(step["ts"], 0, 1), (step["end"], 0, -1)]
        running = inside = last = 0
        for time, gpu, host in sorted(edges):
            if inside and not running:
                idle += time - last
            running, inside, last = running + gpu, inside + host, time
        return idle

    return told(path, idle=idle_between_edges)


@right
def with_tensors(path):
    def idle_in_tensors(slices, steps):
        work = sorted((one["ts"], one["end"]) for one in slices if one["cat"] in GPU) or [(0.0, 0.0)]
        work, idle = torch.tensor(work, dtype=torch.float64, device="cpu"), 0.0
        for step in steps:
            begins, ends = work.clamp(step["ts"], step["end"]).unbind(1)
            before = torch.cat([begins.new_tensor([step["ts"]]), ends.cummax(0).values[:-1]])
            idle += step["dur"] - float((ends - torch.maximum(begins, before)).clamp(min=0).sum())
        return idle

    return told(path, idle=idle_in_tensors)


@right
def operators_by_a_stack(path):
    def by_a_stack(slices, steps):
        waits, stacks = defaultdict(float), defaultdict(list)
        for one in sorted(slices, key=lambda one: (one["ts"], -one["dur"])):
            stack = stacks[one["tid"]]
            while stack and stack[-1]["end"] < one["end"]:
                stack.pop()
            if one["cat"] == "cpu_op":
                stack.append(one)
            elif one["name"].endswith("Synchronize") and stack and within(one, steps):
                waits[stack[0]["name"]] += one["dur"]
        return longest(waits)

    return told(path, operator=by_a_stack)


def added(slices, steps):
    """Return the lengths of the GPU's slices, added up."""
    return sum(within(one, steps) for one in slices if one["cat"] in GPU)


@wrong("two of the GPU's slices that run at once count twice", row=IDLE)
def lengths_added_up(path):
    return told(path, lambda slices, steps: sum(one["dur"] for one in steps) - added(slices, steps))


@wrong("the copies are missing: a GPU that copies does not idle", row=IDLE)
def kernels_alone(path):
    return told(path, lambda slices, steps: idle_of(slices, steps, {"kernel"}))


@wrong("that is the idle time of all steps together, and the mean of a step is asked", row=IDLE)
def all_steps_together(path):
    return told(path, lambda slices, steps: idle_of(slices, steps) * len(steps))


@wrong("that is how long the GPU works", row=IDLE)
def busy(path):
    return told(path, lambda slices, steps: sum(one["dur"] for one in steps) - idle_of(slices, steps))


@wrong("that is a share of the step, and microseconds are asked", row=IDLE)
def as_a_share(path):
    def share(slices, steps):
        return idle_of(slices, steps) / sum(one["dur"] for one in steps) * len(steps)

    return told(path, share)


@wrong("that is in seconds, and microseconds are asked", row=IDLE)
def in_seconds(path):
    return told(path, lambda slices, steps: idle_of(slices, steps) / 1e6)


@wrong("a slice of the GPU that reaches out of a step counts with the part that lies within", row=IDLE)
def whole_slices_alone(path):
    def idle_of_whole_ones(slices, steps):
        return idle_of([one for one in slices if within(one, steps) > 0.999999 * one["dur"]], steps)

    return told(path, idle_of_whole_ones)


@wrong("the time between two steps is counted, too", row=IDLE)
def from_the_first_step_to_the_last(path):
    def idle_of_all(slices, steps):
        first, last = min(step["ts"] for step in steps), max(step["end"] for step in steps)
        return idle_of(slices, [{"ts": first, "end": last}])

    return told(path, idle_of_all)


@wrong("the steps are the host's: `gpu_user_annotation` has the GPU's view of them", row=IDLE)
def steps_of_the_gpu(path):
    def idle_of_every_step(slices, steps):
        return idle_of(slices, [one for one in slices if one["name"].startswith("ProfilerStep")])

    return told(path, idle_of_every_step)


@wrong("`gpu_user_annotation` is no work of the GPU: it spans a whole step", row=IDLE)
def everything_of_the_gpu(path):
    return told(path, lambda slices, steps: idle_of(slices, steps, GPU | {"gpu_user_annotation"}))


@wrong("your code raised KeyError", row=IDLE)
def every_event_a_slice(path):
    with gzip.open(path) as file:
        return sum(event["dur"] for event in json.load(file)["traceEvents"]), None, "GPU"


@wrong("that is the innermost operator, and the one that the program called is asked", row=WAITS)
def innermost(path):
    return told(path, operator=lambda slices, steps: longest(waits_of(slices, steps, -1)))


@wrong("that is a call of the CUDA runtime, and the operator around it is asked", row=WAITS)
def name_of_the_call(path):
    def call(slices, steps):
        waits = Counter()
        for one in slices:
            if one["name"].endswith("Synchronize"):
                waits[one["name"]] += within(one, steps)
        return longest(+waits)

    return told(path, operator=call)


@wrong("the operator waits between two steps, and what lies within the steps counts", row=WAITS)
def waits_anywhere(path):
    always = [{"ts": 0, "end": float("inf")}]
    return told(path, operator=lambda slices, steps: longest(waits_of(slices, always)))


@wrong("an operator of another thread was running meanwhile, and waited for nothing", row=WAITS)
def of_any_thread(path):
    def of_one_thread(slices, steps):
        return longest(waits_of([one | {"tid": 0} for one in slices], steps))

    return told(path, operator=of_one_thread)


@wrong("several waits of an operator add up", row=WAITS)
def one_long_wait(path):
    def longest_single(slices, steps):
        waits = {}
        for one in slices:
            if one["name"].endswith("Synchronize") and within(one, steps):
                for operator in around(slices, one)[:1]:
                    waits[operator["name"]] = max(waits.get(operator["name"], 0), one["dur"])
        return longest(waits)

    return told(path, operator=longest_single)


@wrong("that is the longest operator, and not the one that waits longest", row=WAITS)
def longest_operator(path):
    def longest_of_all(slices, steps):
        found = [one for one in slices if one["cat"] == "cpu_op" and within(one, steps)]
        return longest({one["name"]: one["dur"] for one in found})

    return told(path, operator=longest_of_all)


@wrong("each call whose name ends with `Synchronize` is a wait, that for an event, too", row=WAITS)
def of_streams_alone(path):
    def of_streams(slices, steps):
        return longest(waits_of([one for one in slices if one["name"] != "cudaEventSynchronize"], steps))

    return told(path, operator=of_streams)


@wrong("what bounds the step is 'launches', not 'loader'", row=BOUND)
def no_loader(path):
    def of_two(slices, steps, whole):
        return "GPU" if idle_of(slices, steps) < whole / 3 else "launches"

    return told(path, bound=of_two)


@wrong("what bounds the step is 'loader', not 'GPU'", row=BOUND)
def loader_first(path):
    def of_the_loader(slices, steps, whole):
        loads = loads_of(slices, steps) >= idle_of(slices, steps) / 2
        return "loader" if loads else bound_by(slices, steps, whole)

    return told(path, bound=of_the_loader)


@wrong("what bounds the step is 'GPU', not 'loader'", row=BOUND)
def the_gpu_where_it_works_for_a_third(path):
    def of_the_gpu(slices, steps, whole):
        return "GPU" if idle_of(slices, steps) < 2 * whole / 3 else bound_by(slices, steps, whole)

    return told(path, bound=of_the_gpu)


@wrong("the tuple has three parts: idle, operator, bound", row=IDLE)
def idle_and_bound(path):
    return told(path)[::2]


@wrong("is a `return` missing?", row=IDLE)
def prints_it(path):
    print(told(path))
