"""Which kinds of error `explain` knows, what PyTorch's message says of each, and how an explanation reads."""

import re
from dataclasses import dataclass, field

from devlab.checks.calls import failure_of, where_raised
from devlab.panel import Column, Panel, Table, escape, prose

MISMATCH = "two devices met"
INDEX = "an index is elsewhere"
NUMPY = "NumPy reads only the CPU"
GRAPH = "NumPy knows no gradients"
NUMPY_DTYPE = "NumPy has no such dtype"
HOST_ONLY = "these belong on the CPU"
GENERATOR = "the generator belongs to another device"
NO_DEVICE = "no such device"
LOAD = "the file was saved on another device"
DTYPE = "two dtypes met"
NO_DTYPE = "the device has no such dtype"
NO_OPERATOR = "the device lacks the operation"
PINNED = "only CPU tensors can be pinned"
FORK = "a worker process cannot use the accelerator"
STRIDES = "negative strides cannot become a tensor"
META = "there is no data yet"
FULL = "the device's memory is full"
AMP = "mixed precision is used in another way"
LATE = "the device failed earlier, and the host learns of it here"

_DEVICE = r"(?:cpu|meta|[a-z]+:\d+|cuda|mps|xpu|sim)\b"
# The first pattern that matches decides: the particular ones come before the general.
_PATTERNS = (
    (META, r"\bmeta tensors?\b|device meta\b|\bmeta device type"),
    (META, r"(?:is on|devices, .*and) meta\b|devices, meta and"),
    (META, r"from the 'Meta' backend"),
    (FULL, r"out of memory"),
    (
        AMP,
        r"unscale FP16|No inf checks|_scale is None|_growth_tracker is None|(?:unscale_|step)\(\) (?:has|is)"
        r"|unsafe to autocast|positional argument: 'device_type'|`device_type` of type|autocast device_type",
    ),
    (LATE, r"device-side assert triggered"),
    (FORK, r"Cannot re-initialize \w+ in forked subprocess|CUDA error: initialization error"),
    (FORK, r"DataLoader worker process[\s\S]*same device[\s\S]*\b(?:cuda|xpu|sim):\d"),
    (INDEX, r"indices should be either on .* or on the same device as the indexed tensor"),
    (NUMPY, r"can't convert .+ device type tensor to numpy"),
    (GRAPH, r"Can't call numpy\(\) on Tensor that requires grad"),
    (NUMPY_DTYPE, r"Got unsupported ScalarType \w+"),
    (STRIDES, r"strides? (?:in the given numpy array )?(?:is|are) negative"),
    (HOST_ONLY, r"'?lengths'? (?:argument )?should be a 1D CPU|batch_sizes should always be on CPU"),
    (HOST_ONLY, r"RNG state must be a torch\.ByteTensor"),
    (GENERATOR, r"Expected a '?\w+'? device type for generator"),
    (LOAD, r"Attempting to deserialize object on"),
    (NO_DEVICE, r"invalid device ordinal|Invalid device string|Expected one of cpu, cuda.* device type"),
    (NO_DEVICE, r"not compiled with \w+ enabled|No CUDA GPUs are available|Found no NVIDIA driver"),
    (
        NO_DTYPE,
        r"doesn't support (?:float64|\w+)|does not support (?:float64|double)|float64 dtype as the MPS",
    ),
    (DTYPE, r"dtype to be \w+|must have the same dtype|does not match weight dtype|same scalar type"),
    (DTYPE, r"Expected dtype int32(?:/| or )int64|only supports boolean masks|to be a boolean tensor"),
    (
        DTYPE,
        r"could not infer output dtype|only supports? floating.point|mixed dtype|expected dtype \w+ for",
    ),
    (DTYPE, r"dtypes .*(?:must|should) be the same"),
    (DTYPE, r"[Oo]nly applicable to index tensor|to have same dtype|[Ee]xpected .* to have the same dtype"),
    (NO_DTYPE, r"not implemented for '(?:Half|BFloat16|Double|Bool|Long|Int|Byte|ComplexFloat|Float8\w*)'"),
    (NO_OPERATOR, r"not currently implemented for the \w+ device|Could not run 'aten::"),
    (NO_OPERATOR, r"is not implemented for the \w+ device"),
    (PINNED, r"cannot pin .* only dense CPU tensors can be pinned|getPinnedMemoryAllocator"),
    (MISMATCH, r"Input type \((?=.*\b(?:cuda|mps|xpu|sim)\b)[^)]*\) and (?:weight|bias) type"),
    (DTYPE, r"same dtype|expected scalar type|Found dtype|dtypes? match|scalar types: "),
    (
        DTYPE,
        r"Input type \(.*\) and (?:weight|bias) type|used as indices must be|result type .* can't be cast",
    ),
    (
        MISMATCH,
        r"[Ee]xpected all tensors to be on the same device|Tensor device mismatch|not at the same device"
        r"|on (?:the )?same device",
    ),
    (
        MISMATCH,
        r"too many CPU scalars|[Ee]xpected object of device type|is on CPU, but expected|to be on GPU",
    ),
    (
        MISMATCH,
        r"Placeholder storage has not been allocated on MPS|but expected on mps|Passed CPU tensor to MPS",
    ),
    (MISMATCH, r"gradient with device type|different devices?\b|two devices|located on a different device"),
)
_ARGUMENT = (
    r"but got (\w+) is on",
    r"checking argument for argument (\w+)",
    r"for argument (?:#\d+ )?'?(\w+)'?",
    r"found \w+ tensor at \S+ and (hidden|parameter) tensor",
)


@dataclass(frozen=True)
class Problem:
    """What an error's type and message say: its kind ("" if it is none of ours), argument, devices.

    `began` is the line that launched what failed on a simulated device, and `failure` what is known of it.
    """

    kind: str
    message: str
    argument: str = ""
    devices: tuple[str, ...] = ()
    began: str = ""
    failure: object = None


def problem_of(error: BaseException) -> Problem:
    """Read an error's message; `kind` is "" for one that is not about devices, dtypes or operators.

    >>> problem_of(RuntimeError("Expected all tensors to be on the same device, but got mat2 is on cpu")).kind
    'two devices met'
    >>> problem_of(ValueError("math domain error")).kind
    ''
    """
    message = str(error)
    failure = failure_of(error)
    known = next((kind for kind, pattern in _PATTERNS if re.search(pattern, message)), "")
    kind = LATE if failure else known
    argument = next((found[1] for pattern in _ARGUMENT if (found := re.search(pattern, message))), "")
    devices = tuple(dict.fromkeys(re.findall(_DEVICE, message)))
    return Problem(kind, message, argument, devices, where_raised(error) if failure else "", failure)


def worth_explaining(error: BaseException) -> bool:
    """Tell whether an error looks like one of devices, dtypes or operators, from its message alone.

    >>> worth_explaining(KeyError("x"))
    False
    """
    return bool(problem_of(error).kind)


_CELL = 'style="text-align:left;vertical-align:top;padding:0 1em 0 0"'
_CODE = ("failed in", "culprit")
# A line of a change: tints that text can be read on in either theme; the signs say the same without colour.
_LINE = "display:block;white-space:pre-wrap;color:inherit;padding:0 0.4em"
_GOES, _COMES = "#c0392b33", "#1e7a4633"


@dataclass(frozen=True)
class Met:
    """One tensor of the operation that failed, as the table shows it."""

    name: str
    what: str
    device: str
    origin: str
    culprit: bool = False


@dataclass(eq=False)
class Explanation(Panel):
    """An error explained: `culprit`, `origin` and `mend` as text; `known` is False without a culprit.

    `replaced` is the statement that `mend` takes the place of, as far as it is at hand.
    """

    headline: str
    known: bool = False
    culprit: str = ""
    origin: str = ""
    aliases: list[str] = field(default_factory=list)
    operation: str = ""
    where: str = ""
    met: list[Met] = field(default_factory=list)
    mend: str = ""
    mend_where: str = ""
    mend_before: bool = False
    replaced: str = ""
    otherwise: str = ""
    note: str = ""

    def rows(self) -> list[tuple[str, str]]:
        """Return the labelled lines, without the table of tensors."""
        rows = [("failed in", f"{self.operation}   ({self.where})" if self.where else self.operation)]
        if self.culprit:
            also = f"   (also {'; '.join(self.aliases)})" if self.aliases else ""
            rows += [("culprit", self.culprit + also), ("where from", self.origin)]
        if self.mend:
            rows.append(("change", self.mend))
            if self.mend_where:
                rows.append(("at", ("before " if self.mend_before else "") + self.mend_where))
        rows += [("or", self.otherwise), ("note", self.note)]
        return [(label, value) for label, value in rows if value]

    def text(self) -> str:
        """Return the explanation as labelled lines."""
        lines = [f"devlab explains: {self.headline}"]
        rows = self.rows()
        lines += [f"  {label:<12}{value}" for label, value in rows[:1]]
        met = [(f"{_sign(one)} {one.name}", one.what, one.device, one.origin) for one in self.met]
        for position, line in enumerate(Table([Column()] * 4, met).text().splitlines()):
            lines.append(f"  {'' if position else 'tensors met':<12}{line}")
        lines += [f"  {label:<12}{value}" for label, value in rows[1:]]
        return "\n".join(lines)

    def html(self) -> str:
        """Return the explanation as HTML."""
        heads = (
            ("", str.strip),
            ("tensor", _code),
            ("what", escape),
            ("device", escape),
            ("where from", escape),
        )
        met = [(_sign(one), one.name, one.what, one.device, one.origin) for one in self.met]
        rows = [(label, (_code if label in _CODE else prose)(value)) for label, value in self.rows()]
        rows = [(label, self._difference() if label == "change" else value) for label, value in rows]
        return (
            f"<p><strong>devlab explains: {prose(self.headline)}</strong></p>"
            + Table([Column(name, _CELL, html) for name, html in heads], met).html()
            + Table([Column(look=_CELL, labels=True), Column(look=_CELL, html=str)], rows).html()
        )

    def _difference(self) -> str:
        """Return the change as lines that go, with a minus, and lines that come, with a plus."""
        lines = [("−", line, _GOES) for line in self.replaced.splitlines()]
        lines += [("+", line, _COMES) for line in self.mend.splitlines()]
        return "".join(
            f'<code style="{_LINE};background:{colour}">{sign} {escape(line)}</code>'
            for sign, line, colour in lines
        )

    def __repr__(self) -> str:
        return f"<Explanation: {self.headline}>"


def _sign(one: Met) -> str:
    return "→" if one.culprit else " "


def _code(text: str) -> str:
    return f"<code>{escape(text)}</code>"
