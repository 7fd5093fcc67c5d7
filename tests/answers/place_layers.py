"""Answers to place_layers."""

from bank import right, wrong

FILLED = "each device is filled before the next one"
EXACT = "a layer that fills the rest exactly still fits"
PASSED = "a device that is too small is passed over"
NAMED = "a ValueError names the layer that does not fit"


@right
def by_what_is_left(sizes, budgets):
    placed, device = [], 0
    left = budgets[0] if budgets else 0
    for number, size in enumerate(sizes):
        while device < len(budgets) and size > left:
            device += 1
            left = budgets[device] if device < len(budgets) else 0
        if device == len(budgets):
            raise ValueError(f"layer {number} of size {size} does not fit")
        placed.append(device)
        left -= size
    return placed


@right
def device_by_device(sizes, budgets):
    placed = []
    for device, budget in enumerate(budgets):
        used = 0
        while len(placed) < len(sizes) and used + sizes[len(placed)] <= budget:
            used += sizes[len(placed)]
            placed.append(device)
    if len(placed) < len(sizes):
        raise ValueError(f"no room for layer {len(placed)}")
    return placed


@right
def by_an_iterator(sizes, budgets):
    rooms = iter(enumerate(budgets))
    device, room = next(rooms, (0, -1))
    placed = []
    for number, size in enumerate(sizes):
        try:
            while size > room:
                device, room = next(rooms)
        except StopIteration:
            raise ValueError(f"Layer #{number}: {size} bytes are too many") from None
        room -= size
        placed.append(device)
    return placed


@right
def recursively(sizes, budgets):
    def place(number, device, used):
        if number == len(sizes):
            return []
        if device == len(budgets):
            raise ValueError(f"sizes[{number}] does not fit any of the devices left")
        if used + sizes[number] > budgets[device]:
            return place(number, device + 1, 0)
        return [device, *place(number + 1, device, used + sizes[number])]

    return place(0, 0, 0)


@wrong("goes back to an earlier device", row=FILLED)
def first_fit_into_gaps(sizes, budgets):
    left, placed = list(budgets), []
    for number, size in enumerate(sizes):
        for device, room in enumerate(left):
            if size <= room:
                left[device] -= size
                placed.append(device)
                break
        else:
            raise ValueError(f"layer {number} does not fit")
    return placed


@wrong("fills a device to the last byte fits", row=EXACT)
def strictly_less(sizes, budgets):
    placed, device, used = [], 0, 0
    for number, size in enumerate(sizes):
        while device < len(budgets) and used + size >= budgets[device]:
            device, used = device + 1, 0
        if device == len(budgets):
            raise ValueError(f"layer {number} does not fit")
        placed.append(device)
        used += size
    return placed


@wrong("compared with the whole budget", row=FILLED)
def forgets_what_is_used(sizes, budgets):
    placed, device = [], 0
    for number, size in enumerate(sizes):
        while device < len(budgets) and size > budgets[device]:
            device += 1
        if device == len(budgets):
            raise ValueError(f"layer {number} does not fit")
        placed.append(device)
    return placed


@wrong("is given 40, and its budget is 5", row=PASSED)
def one_step_at_most(sizes, budgets):
    placed, device, used = [], 0, 0
    for number, size in enumerate(sizes):
        if used + size > budgets[device]:
            device, used = device + 1, 0
            if device == len(budgets):
                raise ValueError(f"layer {number} does not fit")
        placed.append(device)
        used += size
    return placed


@wrong("shared out by their number", row=FILLED)
def evenly(sizes, budgets):
    return [number * len(budgets) // len(sizes) for number in range(len(sizes))]


@wrong("layer 1 has no place, and nothing was raised", row=NAMED)
def stops_without_a_word(sizes, budgets):
    placed = []
    for device, budget in enumerate(budgets):
        used = 0
        while len(placed) < len(sizes) and used + sizes[len(placed)] <= budget:
            used += sizes[len(placed)]
            placed.append(device)
    return placed


@wrong("an IndexError was raised, not a ValueError", row=NAMED)
def runs_off_the_end(sizes, budgets):
    placed, device, left = [], 0, budgets[0]
    for size in sizes:
        while size > left:
            device += 1
            left = budgets[device]
        placed.append(device)
        left -= size
    return placed


@wrong("the error does not name layer 1", row=NAMED)
def names_no_layer(sizes, budgets):
    try:
        return device_by_device(sizes, budgets)
    except ValueError:
        raise ValueError("the model does not fit") from None


@wrong("the error does not name layer 1", row=NAMED)
def counts_layers_from_one(sizes, budgets):
    try:
        return device_by_device(sizes, budgets)
    except ValueError as error:
        raise ValueError(f"layer number {int(str(error).split()[-1]) + 1} does not fit") from None


@wrong("devices are counted from 1", row=FILLED)
def counts_devices_from_one(sizes, budgets):
    return [device + 1 for device in device_by_device(sizes, budgets)]


@wrong("`sizes` was changed", row=FILLED)
def uses_the_sizes_up(sizes, budgets):
    placed = []
    for device, budget in enumerate(budgets):
        while sizes and sizes[0] <= budget:
            budget -= sizes.pop(0)
            placed.append(device)
    if sizes:
        raise ValueError(f"layer {len(placed)} does not fit")
    return placed


@wrong("is a `return` missing?", row=FILLED)
def no_return(sizes, budgets):
    device_by_device(sizes, budgets)


@wrong("the layers are placed in another way", row=EXACT)
def leaves_a_full_device(sizes, budgets):
    placed, device, left = [], 0, budgets[0] if budgets else 0
    for number, size in enumerate(sizes):
        while device < len(budgets) and (left == 0 or size > left):
            device += 1
            left = budgets[device] if device < len(budgets) else 0
        if device == len(budgets):
            raise ValueError(f"layer {number} does not fit")
        placed.append(device)
        left -= size
    return placed


@wrong("your code raised ValueError", row=NAMED)
def never_without_devices(sizes, budgets):
    if not budgets:
        raise ValueError("layer 0 does not fit: there is no device")
    return device_by_device(sizes, budgets)


@wrong("the error does not name layer 1", row=NAMED)
def asks_for_the_largest_first(sizes, budgets):
    if sizes and max(sizes) > max(budgets, default=0):
        raise ValueError(f"layer {sizes.index(max(sizes))} does not fit")
    return device_by_device(sizes, budgets)


@wrong("every layer is placed on device 0", row=FILLED)
def all_on_the_first(sizes, budgets):
    return [0] * len(sizes)


@wrong("dealt out in turn, and not by their sizes", row=FILLED)
def in_turn(sizes, budgets):
    return [number % len(budgets) for number in range(len(sizes))]


@wrong("shared out by their number", row=FILLED)
def as_many_on_each(sizes, budgets):
    many, more = divmod(len(sizes), len(budgets))
    return [device for device in range(len(budgets)) for _ in range(many + (device < more))]


@wrong("a later layer goes back to an earlier device", row=FILLED)
def where_least_is_left(sizes, budgets):
    left, placed = list(budgets), []
    for number, size in enumerate(sizes):
        fits = [device for device, room in enumerate(left) if size <= room]
        if not fits:
            raise ValueError(f"layer {number} does not fit")
        placed.append(min(fits, key=left.__getitem__))
        left[placed[-1]] -= size
    return placed
