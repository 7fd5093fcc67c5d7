"""Answers to failing_step."""

import torch
from bank import right, wrong

STEP = "the step that launched what failed"
WELL = "None where all went well"
EARLIER = "an error of earlier work comes out"
OTHER = "on a device that is not the current one"


def wait(x):
    if x.device.type != "cpu":
        torch.accelerator.synchronize(x.device)


@right
def wait_after_each(steps, x):
    wait(x)
    for place, step in enumerate(steps):
        try:
            x = step(x)
            wait(x)
        except (IndexError, RuntimeError):
            return place
    return None


@right
def by_the_devices_module(steps, x):
    module = torch.get_device_module(x.device) if x.device.type != "cpu" else torch.cpu
    module.synchronize(x.device)
    done = 0
    try:
        while done < len(steps):
            x = steps[done](x)
            module.synchronize(x.device)
            done += 1
    except (IndexError, torch.AcceleratorError):
        return done


@right
def by_reading_a_number(steps, x):
    x.sum().item()

    def works(step):
        nonlocal x
        try:
            x = step(x)
            x.sum().item()
        except Exception:
            return False
        return True

    return next((place for place, step in enumerate(steps) if not works(step)), None)


@right
def by_a_copy_to_the_host(steps, x):
    x.cpu()
    for place, step in enumerate(steps):
        try:
            (x := step(x)).cpu()
        except (RuntimeError, IndexError):
            return place
    return None


@wrong("the step is None, not 1", row=STEP)
def without_a_wait(steps, x):
    for place, step in enumerate(steps):
        try:
            x = step(x)
        except (IndexError, RuntimeError):
            return place
    return None


@wrong("the step is 3, not 2", row=STEP)
def a_wait_at_the_end(steps, x):
    wait(x)
    done = -1
    try:
        for step in steps:
            done += 1
            x = step(x)
        wait(x)
    except (IndexError, RuntimeError):
        return done
    return None


@wrong("the step is 2, not 1", row=STEP)
def counts_from_one(steps, x):
    place = wait_after_each(steps, x)
    return place if place is None else place + 1


@wrong("the step is 2, not 1", row=STEP)
def waits_before_each(steps, x):
    wait(x)
    for place, step in enumerate(steps):
        try:
            wait(x)
            x = step(x)
        except (IndexError, RuntimeError):
            return place
    return None


@wrong("how often each step ran is 1 1 1 1, not 1 1 0 0", row=STEP)
def goes_on_after_the_failure(steps, x):
    wait(x)
    first = None
    for place, step in enumerate(steps):
        try:
            x = step(x)
            wait(x)
        except (IndexError, RuntimeError):
            first = place if first is None else first
    return first


@wrong("your code raised", row=STEP)
def lets_the_error_out(steps, x):
    for step in steps:
        x = step(x)
        wait(x)


@wrong("the values of what the last step was given are wrong", row=STEP)
def each_on_the_same_input(steps, x):
    wait(x)
    for place, step in enumerate(steps):
        try:
            step(x)
            wait(x)
        except (IndexError, RuntimeError):
            return place
    return None


@wrong("the step is a Called, not an int, or None", row=STEP)
def the_step_itself(steps, x):
    place = wait_after_each(steps, x)
    return place if place is None else steps[place]


@wrong("the step is 3, not None", row=WELL)
def the_count(steps, x):
    place = wait_after_each(steps, x)
    return len(steps) if place is None else place


@wrong("an error of earlier work was blamed on a step", row=EARLIER)
def no_wait_before_the_first(steps, x):
    for place, step in enumerate(steps):
        try:
            x = step(x)
            wait(x)
        except (IndexError, RuntimeError):
            return place
    return None


@wrong("an error of earlier work was blamed on a step", row=EARLIER)
def the_first_wait_in_the_try(steps, x):
    done = 0
    try:
        wait(x)
        for step in steps:
            x = step(x)
            wait(x)
            done += 1
    except (IndexError, RuntimeError):
        return done
    return None


@wrong("the step is None, not 1", row=(STEP, OTHER))
def waits_for_the_current_device(steps, x):
    def wait():
        if x.device.type != "cpu":
            torch.accelerator.synchronize()

    wait()
    for place, step in enumerate(steps):
        try:
            x = step(x)
            wait()
        except (IndexError, RuntimeError):
            return place
    return None
