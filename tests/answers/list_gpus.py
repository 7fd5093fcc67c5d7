"""Answers to list_gpus."""

import torch
from bank import right, wrong
from torch.cuda import device_count, get_device_name


@right
def in_one_line():
    return [(i, torch.cuda.get_device_name(i)) for i in range(torch.cuda.device_count())]


@right
def by_properties():
    return [(i, torch.cuda.get_device_properties(i).name) for i in range(torch.cuda.device_count())]


@right
def by_devices():
    found = []
    for index in range(torch.cuda.device_count()):
        device = torch.device("cuda", index)
        found.append((device.index, torch.cuda.get_device_name(device)))
    return found


@right
def by_names_of_devices():
    if not torch.cuda.is_available():
        return []
    return [(i, torch.cuda.get_device_name(f"cuda:{i}")) for i in range(torch.cuda.device_count())]


@right
def by_enumerate():
    return list(enumerate(map(torch.cuda.get_device_name, range(torch.cuda.device_count()))))


@right
def until_it_fails():
    found = []
    while True:
        try:
            found.append((len(found), torch.cuda.get_device_name(len(found))))
        except (AssertionError, RuntimeError):
            return found


@right
def by_tensors_until_it_fails():
    found = []
    try:
        while True:
            torch.empty(0, device=f"cuda:{len(found)}")
            found.append((len(found), torch.cuda.get_device_name(len(found))))
    except (AssertionError, RuntimeError):
        return found


@right
def by_names_imported_before():
    indices = range(device_count())
    return list(zip(indices, [get_device_name(i) for i in indices], strict=True))


@right
def by_the_accelerator():
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    if accelerator is None or accelerator.type != "cuda":
        return []
    return [(i, torch.cuda.get_device_name(i)) for i in range(torch.accelerator.device_count())]


@right
def by_its_module():
    cuda = torch.get_device_module("cuda")
    return [(i, cuda.get_device_properties(i).name) for i in range(cuda.device_count())]


@right
def by_making_each_one_current():
    found = []
    for index in range(torch.cuda.device_count()):
        with torch.cuda.device(index):
            found.append((torch.cuda.current_device(), torch.cuda.get_device_name()))
    return found


@wrong("GPU 1 was given the name of GPU 0", row="three GPUs: each has its own name")
def always_the_current_one():
    return [(i, torch.cuda.get_device_name()) for i in range(torch.cuda.device_count())]


@wrong("GPU 1 was given the name of GPU 0", row="three GPUs: each has its own name")
def always_the_first_one():
    return [(i, torch.cuda.get_device_name(0)) for i in range(torch.cuda.device_count())]


@wrong("an entry is a str, not a tuple", row="one GPU: its index and its name")
def names_only():
    return [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]


@wrong("entry 0 of the list has index 1", row="one GPU: its index and its name")
def counts_from_one():
    return [(i + 1, torch.cuda.get_device_name(i)) for i in range(torch.cuda.device_count())]


@wrong("the answer is a dict, not a list", row="no GPU: an empty list, and no error")
def a_dictionary():
    return {i: torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())}


@wrong("the answer is an enumerate, not a list", row="no GPU: an empty list, and no error")
def an_enumerate():
    return enumerate([torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())])


@wrong("the index is a str, not an int", row="one GPU: its index and its name")
def swapped():
    return [(torch.cuda.get_device_name(i), i) for i in range(torch.cuda.device_count())]


@wrong("the index is a device, not an int", row="one GPU: its index and its name")
def devices_for_indices():
    return [
        (torch.device("cuda", i), torch.cuda.get_device_name(i)) for i in range(torch.cuda.device_count())
    ]


@wrong("an entry is a list, not a tuple", row="one GPU: its index and its name")
def lists_in_a_list():
    return [[i, torch.cuda.get_device_name(i)] for i in range(torch.cuda.device_count())]


@wrong("without a GPU the list has 1 entry", row="no GPU: an empty list, and no error")
def the_cpu_instead_of_nothing():
    gpus = [(i, torch.cuda.get_device_name(i)) for i in range(torch.cuda.device_count())]
    return gpus or [(0, "cpu")]


@wrong("the answer is None", row="no GPU: an empty list, and no error")
def none_instead_of_nothing():
    if not torch.cuda.is_available():
        return None
    return [(i, torch.cuda.get_device_name(i)) for i in range(torch.cuda.device_count())]


@wrong("your code raised", row="no GPU: an empty list, and no error")
def the_first_without_asking():
    return [(0, torch.cuda.get_device_name(0))]


@wrong("with 3 pretended GPUs the list has 1 entry", row="three GPUs: each has its own name")
def only_the_first():
    return [(0, torch.cuda.get_device_name(0))] if torch.cuda.is_available() else []


@wrong("with 3 pretended GPUs the list has 1 entry", row="three GPUs: each has its own name")
def only_the_current_one():
    if not torch.cuda.is_available():
        return []
    current = torch.cuda.current_device()
    return [(0, torch.cuda.get_device_name(current))] if current == 0 else [(current, "")]


@wrong("with 1 pretended GPU the list has 0 entries", row="one GPU: its index and its name")
def one_too_few():
    return [(i, torch.cuda.get_device_name(i)) for i in range(torch.cuda.device_count() - 1)]


@wrong("the name is a _CudaDeviceProperties, not a str", row="one GPU: its index and its name")
def properties_for_names():
    return [(i, torch.cuda.get_device_properties(i)) for i in range(torch.cuda.device_count())]


@wrong("the answer is None", row="no GPU: an empty list, and no error")
def prints_them():
    for i in range(torch.cuda.device_count()):
        print(i, torch.cuda.get_device_name(i))


@wrong("with 3 pretended GPUs the list has 2 entries", row="three GPUs: each has its own name")
def each_name_once():
    names = {torch.cuda.get_device_name(i): i for i in range(torch.cuda.device_count())}
    return sorted((i, name) for name, i in names.items())


AT_IMPORT = [(i, torch.cuda.get_device_name(i)) for i in range(torch.cuda.device_count())]


@wrong("the list has", row=("no GPU: an empty list, and no error", "one GPU: its index and its name"))
def listed_at_import():
    return AT_IMPORT


@wrong("the name is a device, not a str", row="one GPU: its index and its name")
def devices_for_names():
    return [(i, torch.device("cuda", i)) for i in range(torch.cuda.device_count())]


@wrong(
    "GPU 0 is called 'cuda:0', and PyTorch calls it 'NVIDIA RTX A2000'", row="one GPU: its index and its name"
)
def addresses_for_names():
    return [(i, f"cuda:{i}") for i in range(torch.cuda.device_count())]


@wrong("the answer is a tuple, not a list", row="no GPU: an empty list, and no error")
def a_tuple():
    return tuple((i, torch.cuda.get_device_name(i)) for i in range(torch.cuda.device_count()))


@wrong("was given the name of GPU", row="three GPUs: each has its own name")
def sorted_by_name_and_counted_anew():
    names = sorted(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count()))
    return list(enumerate(names))


@wrong("the list has index", row="three GPUs: each has its own name")
def sorted_by_name():
    gpus = [(i, torch.cuda.get_device_name(i)) for i in range(torch.cuda.device_count())]
    return sorted(gpus, key=lambda gpu: gpu[1])


@wrong("your code raised RuntimeError", row="no GPU: an empty list, and no error")
def counts_any_accelerator():
    return [(i, torch.cuda.get_device_name(i)) for i in range(torch.accelerator.device_count())]


@wrong(
    "GPU 0 is called 'RTX A2000', and PyTorch calls it 'NVIDIA RTX A2000'",
    row="one GPU: its index and its name",
)
def shortened_names():
    count = torch.cuda.device_count()
    return [(i, torch.cuda.get_device_name(i).removeprefix("NVIDIA ")) for i in range(count)]


@wrong("the answer is a generator, not a list", row="no GPU: an empty list, and no error")
def a_generator():
    return ((i, torch.cuda.get_device_name(i)) for i in range(torch.cuda.device_count()))


@right
def each_made_current_for_a_while():
    names = []
    for index in range(torch.cuda.device_count()):
        with torch.accelerator.device_index(index):
            names.append((index, torch.cuda.get_device_name()))
    return names


@right
def each_made_current_and_back():
    if not torch.cuda.is_available():
        return []
    before, names = torch.accelerator.current_device_index(), []
    for index in range(torch.cuda.device_count()):
        torch.accelerator.set_device_index(index)
        names.append((index, torch.cuda.get_device_name()))
    torch.accelerator.set_device_index(before)
    return names


@right
def by_loop():
    found = []
    for i in range(torch.cuda.device_count()):
        found += [(i, torch.cuda.get_device_name(i))]
    return found


@right
def enumerated():
    return list(enumerate(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())))


@right
def only_if_available():
    if not torch.cuda.is_available():
        return []
    return [(i, torch.cuda.get_device_name(f"cuda:{i}")) for i in range(torch.cuda.device_count())]


@wrong("GPU 0 is called 'TESLA T4', and PyTorch calls it 'Tesla T4'", row="one GPU: its index and its name")
def upper():
    return [(i, torch.cuda.get_device_name(i).upper()) for i in range(torch.cuda.device_count())]


@wrong("entry 0 of the list has index 2", row="three GPUs: each has its own name")
def backwards():
    return [(i, torch.cuda.get_device_name(i)) for i in reversed(range(torch.cuda.device_count()))]


@wrong("with 12 pretended GPUs the list has 8 entries", row="three GPUs: each has its own name")
def eight_at_most():
    found = []
    for index in range(8):
        try:
            found.append((index, torch.cuda.get_device_name(index)))
        except (AssertionError, RuntimeError):
            break
    return found


@wrong("entry 2 of the list has index 10", row="three GPUs: each has its own name")
def sorted_as_texts():
    names = {str(i): torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())}
    return [(int(i), names[i]) for i in sorted(names)]


@right
def by_a_generator_of_its_own():
    def gpus():
        for index in range(torch.cuda.device_count()):
            yield index, torch.cuda.get_device_properties(f"cuda:{index}").name

    return [*gpus()]


@right
def sorted_pairs():
    return sorted({(i, torch.cuda.get_device_name(i)) for i in range(torch.cuda.device_count())})


@right
def counted_up():
    found, index = [], 0
    while index < torch.cuda.device_count():
        found.append((index, torch.cuda.get_device_name(torch.device("cuda", index))))
        index += 1
    return found
