"""Which dtypes each operator of PyTorch's database accepts on the device, and on the CPU beside it."""

import functools
import warnings

import torch
from hardware import samples

FLOATS = ("float32", "float64", "float16", "bfloat16", "complex64", "complex32")
OTHERS = ("int64", "int32", "uint8", "int8", "bool", "uint16")
DTYPES = {name: getattr(torch, name) for name in (*FLOATS, *OTHERS)}
database = functools.cache(samples.database)


def names() -> list[str]:
    """Return every question: an operator's full name and a dtype."""
    return [f"{op} {dtype}" for op in database() for dtype in DTYPES]


def ask(name: str, device: torch.device) -> dict[str, object]:
    """Return what the device, and the CPU, say of the operator's first sample of a dtype.

    `ok` or `error` is the device's answer, `cpu` the CPU's. Where the database has no sample of the dtype,
    `sample` names the reason, and nothing was asked.
    """
    operator, _, dtype = name.rpartition(" ")
    op, row = database()[operator], {"op": operator, "dtype": dtype}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with samples.time_limit():
                sample = samples.first_sample(op, DTYPES[dtype])
        except Exception as error:
            return row | {"sample": type(error).__name__}
        try:
            with samples.time_limit():
                samples.called(op, sample, device)
                torch.accelerator.synchronize(device)
            row["ok"] = True
        except Exception as error:
            row["error"] = samples.told(error)
        try:
            with samples.time_limit():
                op(sample.input, *sample.args, **sample.kwargs)
            row["cpu"] = True
        except Exception as error:
            row["cpu"] = samples.told(error)
    return row
