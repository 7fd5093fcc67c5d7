"""A timeline as a Chrome trace, which Perfetto and `chrome://tracing` open, in the form of torch.profiler's.

The host is one process; each device is another, with one thread for each stream. An arrow leads from the
host's slice that launched something to the device's slice that did it. A trace of modelled times says so in
`otherData`, in the names of its processes and in every slice.
"""

import gzip
import json
import os
from collections.abc import Iterable, Iterator
from operator import itemgetter
from pathlib import Path

import torch

from devlab.watching.record import Input, Launch, Transfer

HOST_PROCESS = 1
_RUNTIME = {"sim": "privateuse1_runtime", "cuda": "cuda_runtime", "xpu": "xpu_runtime"}
# PyTorch's profiler calls the dtypes by their names in C++.
_TYPES = {
    torch.float32: "float",
    torch.float64: "double",
    torch.float16: "c10::Half",
    torch.bfloat16: "c10::BFloat16",
    torch.int64: "long int",
    torch.int32: "int",
    torch.int16: "short int",
    torch.int8: "signed char",
    torch.uint8: "unsigned char",
    torch.bool: "bool",
    torch.complex64: "c10::complex<float>",
    torch.complex128: "c10::complex<double>",
}


def save(path: str | os.PathLike, lanes: dict[str, list], simulated: bool) -> None:
    """Write lanes into a file, compressed where its name ends in `.gz`."""
    text = json.dumps(chrome_trace(lanes, simulated), ensure_ascii=False)
    data = text.encode()
    Path(path).write_bytes(gzip.compress(data) if str(path).endswith(".gz") else data)


def chrome_trace(lanes: dict[str, list], simulated: bool) -> dict:
    """Return lanes as a trace: the host's first, then each device's, as `lay_out` gives them.

    >>> chrome_trace({"host": []}, False)["otherData"]["times"]
    'measured'
    """
    (_, host), *others = lanes.items()
    threads = _threads(others)
    numbers = {id(span.event.when): number for number, span in enumerate(host, 1) if span.event is not None}
    slices = [_on_host(span, number, simulated) for number, span in enumerate(host, 1)]
    arrows = []
    for name, lane in others:
        device = name.split()[0]
        for span in lane:
            process, thread = threads[device, span.event.when.stream]
            number = numbers[id(span.event.when)]
            slices.append(_on_device(span, device, process, thread, number, simulated))
            arrows += _arrow(host[number - 1], span, process, thread, 1 + len(arrows) // 2)
    return {
        "schemaVersion": 1,
        "deviceProperties": [_properties(device) for device in dict.fromkeys(key[0] for key in threads)],
        "record_shapes": 1,
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": 0,
        "otherData": {
            "simulated": simulated,
            "times": "modelled by devlab's simulator, not measured" if simulated else "measured",
            "torch": torch.__version__,
        },
        "traceEvents": [*_names(threads, simulated), *sorted(slices, key=itemgetter("ts")), *arrows],
    }


def _threads(lanes: Iterable[tuple[str, list]]) -> dict[tuple[str, int], tuple[int, int]]:
    """Return the numbers of process and thread for each device and stream."""
    streams: dict[str, set[int]] = {}
    for name, lane in lanes:
        streams.setdefault(name.split()[0], set()).update(span.event.when.stream for span in lane)
    return {
        (device, stream): (process, thread)
        for process, device in enumerate(sorted(streams), HOST_PROCESS + 1)
        for thread, stream in enumerate(sorted(streams[device]), 1)
    }


def _names(threads: dict[tuple[str, int], tuple[int, int]], simulated: bool) -> Iterator[dict]:
    """Yield what processes and threads are called, and in which order they stand."""
    label = "simulated" if simulated else "measured"
    yield from _name_process(HOST_PROCESS, f"host ({label})", label)
    yield from _name_thread(HOST_PROCESS, 1, "host")
    named = set()
    for (device, stream), (process, thread) in threads.items():
        if process not in named:
            named.add(process)
            yield from _name_process(process, f"{device} ({label})", label)
        name = "default stream" if stream == 0 else f"stream {stream}"
        yield from _name_thread(process, thread, name)


def _name_process(process: int, name: str, label: str) -> Iterator[dict]:
    for kind, args in (
        ("process_name", {"name": name}),
        ("process_labels", {"labels": label}),
        ("process_sort_index", {"sort_index": process}),
    ):
        yield {"ph": "M", "name": kind, "ts": 0.0, "pid": process, "tid": 0, "args": args}


def _name_thread(process: int, thread: int, name: str) -> Iterator[dict]:
    for kind, args in (("thread_name", {"name": name}), ("thread_sort_index", {"sort_index": thread})):
        yield {"ph": "M", "name": kind, "ts": 0.0, "pid": process, "tid": thread, "args": args}


def _slice(span, category: str, name: str, process: int, thread: int, args: dict) -> dict:
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "pid": process,
        "tid": thread,
        "ts": _micro(span.start),
        "dur": round(_micro(span.end) - _micro(span.start), 3),
        "args": args,
    }


def _micro(seconds: float) -> float:
    return round(seconds * 1e6, 3)


def _list_facts(span, simulated: bool) -> dict:
    """Return what every slice says: what it is, the program's line, and whether its times are modelled."""
    told = {"state": span.state, "simulated": simulated}
    if line := str(span.line or ""):
        told["line"] = line
    if hasattr(span.event, "bytes"):
        told["bytes"] = span.event.bytes
    if type(span.event) is Transfer:
        told["how"] = span.event.manner
    return told


def _on_host(span, number: int, simulated: bool) -> dict:
    event, args = span.event, _list_facts(span, simulated)
    if type(event) is Launch:
        args |= {"External id": number, **_inputs(event.inputs)}
        return _slice(span, "cpu_op", f"aten::{span.name}", HOST_PROCESS, 1, args)
    category = _RUNTIME.get(_kind(event), "user_annotation")
    return _slice(span, category, span.name, HOST_PROCESS, 1, args | {"correlation": number})


def _kind(event) -> str:
    """Return the kind of device that an event is about, "" where that is the host alone."""
    names = (event.source, event.target) if type(event) is Transfer else (getattr(event, "device", ""),)
    return next((name.partition(":")[0] for name in names if name and name != "cpu"), "")


def _inputs(inputs: tuple[Input, ...]) -> dict:
    """Return an operator's arguments as the profiler writes them."""
    return {
        "Input Dims": [list(given.sizes) for given in inputs],
        "Input type": [_TYPES.get(given.kind, str(given.kind)) for given in inputs],
        "Concrete Inputs": [given.value for given in inputs],
    }


def _on_device(span, device: str, process: int, thread: int, number: int, simulated: bool) -> dict:
    event = span.event
    args = {
        "External id": number,
        "correlation": number,
        "device": _index(device),
        "stream": event.when.stream,
        **_list_facts(span, simulated),
    }
    if type(event) is Transfer:
        return _slice(span, "gpu_memcpy", _name_copy(event), process, thread, args)
    args |= {"name": span.name, **_inputs(event.inputs)}
    return _slice(span, "kernel", span.name, process, thread, args)


def _name_copy(copy: Transfer) -> str:
    """Return the profiler's name of a copy.

    >>> from devlab.watching.record import NOWHERE, When
    >>> _name_copy(Transfer("cpu", "sim:0", 4, True, False, True, ".to()", NOWHERE, When(0.0, 0.0)))
    'Memcpy HtoD (Pinned -> Device)'
    """
    memory = "Pinned" if copy.pinned else "Pageable"
    if copy.source == "cpu":
        return f"Memcpy HtoD ({memory} -> Device)"
    return f"Memcpy DtoH (Device -> {memory})" if copy.target == "cpu" else "Memcpy PtoP (Device -> Device)"


def _arrow(start, end, process: int, thread: int, number: int) -> list[dict]:
    """Return the two ends of an arrow from the host's slice to the device's."""
    common = {"id": number, "cat": "ac2g", "name": "ac2g"}
    return [
        {"ph": "s", **common, "pid": HOST_PROCESS, "tid": 1, "ts": _micro(start.start)},
        {"ph": "f", "bp": "e", **common, "pid": process, "tid": thread, "ts": _micro(end.start)},
    ]


def _index(device: str) -> int:
    return torch.device(device).index or 0


def _properties(device: str) -> dict:
    """Return what is known of a device, under the keys of the profiler."""
    module, index = torch.get_device_module(device), _index(device)
    found = {"id": index, "name": device, "simulated": device.startswith("sim")}
    if hasattr(module, "get_device_properties"):
        properties = module.get_device_properties(index)
        found |= {"name": properties.name, "totalGlobalMem": properties.total_memory}
    return found
