"""Answers to release."""

import gc

import torch
from bank import right, wrong

SAME = "0 bytes: both looks saw the same, and one belongs before the entry is dropped, one after emptying"


@right
def drop_then_empty(cache, key, device):
    memory = torch.get_device_module(device)
    before = memory.memory_reserved(device)
    del cache[key]
    memory.empty_cache()
    return before - memory.memory_reserved(device)


@right
def pop_without_a_name(cache, key, device):
    before = torch.accelerator.memory_reserved(device)
    cache.pop(key)
    torch.accelerator.empty_cache()
    return before - torch.accelerator.memory_reserved(device)


@right
def with_a_name_that_is_deleted(cache, key, device):
    memory = torch.get_device_module(device)
    reserved = memory.memory_reserved(device)
    x = cache.pop(key)
    del x
    gc.collect()
    memory.synchronize(device)
    memory.empty_cache()
    return reserved - memory.memory_reserved(device)


@right
def by_what_the_device_has_free(cache, key, device):
    memory = torch.get_device_module(device)
    free, _ = memory.mem_get_info(device)
    cache[key] = None
    del cache[key]
    memory.empty_cache()
    return memory.mem_get_info(device)[0] - free


@right
def by_the_statistics(cache, key, device):
    memory = torch.get_device_module(device)

    def reserved():
        return memory.memory_stats(device)["reserved_bytes.all.current"]

    before = reserved()
    tensors = {name: value for name, value in cache.items() if name != key}
    cache.clear()
    cache.update(tensors)
    memory.empty_cache()
    return before - reserved()


@wrong("a name of yours still held the tensor", row="reserved memory falls")
def popped_and_held(cache, key, device):
    memory = torch.get_device_module(device)
    before = memory.memory_reserved(device)
    x = cache.pop(key)  # noqa: F841
    memory.empty_cache()
    return before - memory.memory_reserved(device)


@wrong("the cache was not emptied", row="reserved memory falls")
def only_dropped(cache, key, device):
    memory = torch.get_device_module(device)
    before = memory.memory_reserved(device)
    del cache[key]
    return before - memory.memory_reserved(device)


@wrong("while the entry still held the tensor", row="reserved memory falls")
def emptied_first(cache, key, device):
    memory = torch.get_device_module(device)
    before = memory.memory_reserved(device)
    memory.empty_cache()
    del cache[key]
    return before - memory.memory_reserved(device)


@wrong("the entry is still in the cache", row="the entry is gone, the others stay")
def emptied_only(cache, key, device):
    memory = torch.get_device_module(device)
    before = memory.memory_reserved(device)
    memory.empty_cache()
    return before - memory.memory_reserved(device)


@wrong("the entry is still in the cache", row="the entry is gone, the others stay")
def deletes_a_name(cache, key, device):
    memory = torch.get_device_module(device)
    before = memory.memory_reserved(device)
    x = cache[key]
    del x
    memory.empty_cache()
    return before - memory.memory_reserved(device)


@wrong("the entry is still in the cache", row="the entry is gone, the others stay")
def leaves_the_key(cache, key, device):
    memory = torch.get_device_module(device)
    before = memory.memory_reserved(device)
    cache[key] = None
    memory.empty_cache()
    return before - memory.memory_reserved(device)


@wrong("the entry 'a' was lost or replaced", row="the entry is gone, the others stay")
def clears_all(cache, key, device):
    memory = torch.get_device_module(device)
    before = memory.memory_reserved(device)
    cache.clear()
    memory.empty_cache()
    return before - memory.memory_reserved(device)


@wrong(
    "that is the tensor's size, not the fall of reserved memory", row="it returns what the device got back"
)
def size_of_the_tensor(cache, key, device):
    nbytes = cache[key].numel() * cache[key].element_size()
    del cache[key]
    torch.get_device_module(device).empty_cache()
    return nbytes


@wrong("that is the fall of allocated memory, not of reserved", row="it returns what the device got back")
def fall_of_allocated(cache, key, device):
    memory = torch.get_device_module(device)
    before = memory.memory_allocated(device)
    del cache[key]
    memory.empty_cache()
    return before - memory.memory_allocated(device)


@wrong(
    "that is a number of mebibytes, and the task asks for bytes", row="it returns what the device got back"
)
def in_mebibytes(cache, key, device):
    return drop_then_empty(cache, key, device) // 2**20


@wrong(
    "that is a number of megabytes, and the task asks for bytes", row="it returns what the device got back"
)
def in_megabytes(cache, key, device):
    return drop_then_empty(cache, key, device) // 10**6


@wrong("the difference has the wrong sign", row="it returns what the device got back")
def after_less_before(cache, key, device):
    memory = torch.get_device_module(device)
    before = memory.memory_reserved(device)
    del cache[key]
    memory.empty_cache()
    return memory.memory_reserved(device) - before


@wrong("that is what is still reserved", row="it returns what the device got back")
def what_is_left(cache, key, device):
    memory = torch.get_device_module(device)
    del cache[key]
    memory.empty_cache()
    return memory.memory_reserved(device)


@wrong(SAME, row=("it returns what the device got back", "of that device alone"))
def of_the_current_device(cache, key, device):
    memory = torch.get_device_module(device)
    before = memory.memory_reserved()
    del cache[key]
    memory.empty_cache()
    return before - memory.memory_reserved()


@wrong(SAME, row="it returns what the device got back")
def looks_before_emptying(cache, key, device):
    memory = torch.get_device_module(device)
    before = memory.memory_reserved(device)
    del cache[key]
    after = memory.memory_reserved(device)
    memory.empty_cache()
    return before - after


@wrong("the entry 'a' was lost or replaced", row="the entry is gone, the others stay")
def through_the_cpu(cache, key, device):
    memory = torch.get_device_module(device)
    before = memory.memory_reserved(device)
    del cache[key]
    for name in list(cache):
        cache[name] = cache[name].cpu()
    memory.empty_cache()
    return before - memory.memory_reserved(device)


@wrong("is None: is a `return` missing?", row="it returns what the device got back")
def returns_nothing(cache, key, device):
    del cache[key]
    torch.get_device_module(device).empty_cache()


@wrong("the entry is still in the cache", row="the entry is gone, the others stay")
def a_key_that_counts_as_true(cache, key, device):
    memory = torch.get_device_module(device)
    before = memory.memory_reserved(device)
    if key:
        del cache[key]
    memory.empty_cache()
    return before - memory.memory_reserved(device)


@wrong("the entry is still in the cache", row="the entry is gone, the others stay")
def keys_are_texts(cache, key, device):
    memory = torch.get_device_module(device)
    before = memory.memory_reserved(device)
    del cache[str(key)]
    memory.empty_cache()
    return before - memory.memory_reserved(device)


@wrong("the entry 'the same' was lost or replaced", row="the entry is gone, the others stay")
def all_that_is_the_same(cache, key, device):
    memory = torch.get_device_module(device)
    before = memory.memory_reserved(device)
    gone = cache.pop(key)
    for other in [other for other, value in cache.items() if value is gone]:
        del cache[other]
    del gone
    memory.empty_cache()
    return before - memory.memory_reserved(device)


@wrong("the entry 'the same'", row="the entry is gone, the others stay")
def empties_the_tensor(cache, key, device):
    memory = torch.get_device_module(device)
    before = memory.memory_reserved(device)
    gone = cache.pop(key)
    gone.data = torch.empty(0, device=device)
    memory.empty_cache()
    return before - memory.memory_reserved(device)


@wrong("the entry 'equal' was lost or replaced", row="the entry is gone, the others stay")
def all_that_are_equal(cache, key, device):
    memory = torch.get_device_module(device)
    before = memory.memory_reserved(device)
    gone = cache.pop(key)
    for other in [other for other, value in cache.items() if value is not gone and torch.equal(value, gone)]:
        del cache[other]
    del gone
    memory.empty_cache()
    return before - memory.memory_reserved(device)


@wrong("a name of yours still held the tensor", row="reserved memory falls")
def own_name(cache, key, device):
    m = torch.get_device_module(device)
    t = cache[key]  # noqa: F841
    b = m.memory_reserved(device)
    del cache[key]
    m.empty_cache()
    return b - m.memory_reserved(device)


@wrong(SAME, row="it returns what the device got back")
def looks_too_late(cache, key, device):
    m = torch.get_device_module(device)
    del cache[key]
    m.empty_cache()
    b = m.memory_reserved(device)
    return b - m.memory_reserved(device)


@wrong(
    "the cache was emptied before the first look: what went back then counts as well",
    row="it returns what the device got back",
)
def emptied_before_looking(cache, key, device):
    m = torch.get_device_module(device)
    m.empty_cache()
    b = m.memory_reserved(device)
    del cache[key]
    m.empty_cache()
    return b - m.memory_reserved(device)


@wrong("a name of yours still held", row="0 where something else holds the memory")
def loops_with_a_name(cache, key, device):
    m = torch.get_device_module(device)
    b = m.memory_reserved(device)
    for k, v in list(cache.items()):  # noqa: B007
        if k == key:
            del cache[k]
    m.empty_cache()
    return b - m.memory_reserved(device)


@wrong("the entry is still in the cache", row="the entry is gone, the others stay")
def a_new_dict(cache, key, device):
    m = torch.get_device_module(device)
    b = m.memory_reserved(device)
    cache = {k: v for k, v in cache.items() if k != key}
    m.empty_cache()
    return b - m.memory_reserved(device)


@right
def collects_too(cache, key, device):
    m = torch.get_device_module(device)
    b = m.memory_reserved(device)
    cache.pop(key)
    gc.collect()
    m.empty_cache()
    return b - m.memory_reserved(device)


@right
def name_set_to_none(cache, key, device):
    m = torch.get_device_module(device)
    b = m.memory_reserved(device)
    t = cache.pop(key)
    t = None  # noqa: F841
    m.synchronize(device)
    m.empty_cache()
    return b - m.memory_reserved(device)


@right
def rebuilt_in_place(cache, key, device):
    m = torch.get_device_module(device)
    b = m.memory_reserved(device)
    rest = {k: v for k, v in cache.items() if k != key}
    cache.clear()
    cache.update(rest)
    del rest
    m.empty_cache()
    return b - m.memory_reserved(device)
