"""Which kinds of error `explain` knows, what PyTorch's message says of each, and how an explanation reads."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from devlab.checks.calls import failure_of, where_raised
from devlab.checks.result import PLAIN, TABLE
from devlab.panel import Column, Panel, Table, escape, notebook_shell, prose

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

UNTRIED = ("", FULL, LATE)  # no change of one line mends these
_DEVICE = r"(?:cpu|meta|[a-z]+:\d+|cuda|mps|xpu|sim)\b"
# The first pattern that matches decides: the particular ones come before the general.
_PATTERNS = (
    (META, r"\bmeta tensors?\b|device meta\b|\bmeta device type|(?:is on|devices, .*and) meta\b"),
    (META, r"devices, meta and"),
    (META, r"from the 'Meta' backend"),
    (FULL, r"out of memory"),
    (AMP, r"unscale FP16|No inf checks|_scale is None|_growth_tracker is None"),
    (AMP, r"(?:unscale_|step)\(\) (?:has|is)"),
    (AMP, r"unsafe to autocast|positional argument: 'device_type'|`device_type` of type"),
    (AMP, r"autocast device_type"),
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
    (NO_DTYPE, r"doesn't support (?:float64|\w+)|does not support (?:float64|double)"),
    (NO_DTYPE, r"float64 dtype as the MPS"),
    (DTYPE, r"dtype to be \w+|must have the same dtype|does not match weight dtype|same scalar type"),
    (DTYPE, r"Expected dtype int32(?:/| or )int64|only supports boolean masks|to be a boolean tensor"),
    (DTYPE, r"could not infer output dtype|only supports? floating.point|mixed dtype|expected dtype \w+ for"),
    (DTYPE, r"dtypes .*(?:must|should) be the same|[Oo]nly applicable to index tensor|to have same dtype"),
    (DTYPE, r"[Ee]xpected .* to have the same dtype"),
    (NO_DTYPE, r"not implemented for '(?:Half|BFloat16|Double|Bool|Long|Int|Byte|ComplexFloat|Float8\w*)'"),
    (NO_OPERATOR, r"not currently implemented for the \w+ device|Could not run 'aten::"),
    (NO_OPERATOR, r"is not implemented for the \w+ device"),
    (PINNED, r"cannot pin .* only dense CPU tensors can be pinned|getPinnedMemoryAllocator"),
    (MISMATCH, r"Input type \((?=.*\b(?:cuda|mps|xpu|sim)\b)[^)]*\) and (?:weight|bias) type"),
    (DTYPE, r"same dtype|expected scalar type|Found dtype|dtypes? match|scalar types:\s"),
    (DTYPE, r"Input type \(.*\) and (?:weight|bias) type|used as indices must be"),
    (DTYPE, r"result type .* can't be cast"),
    (MISMATCH, r"[Ee]xpected all tensors to be on the same device|Tensor device mismatch"),
    (MISMATCH, r"not at the same device"),
    (MISMATCH, r"on (?:the )?same device|too many CPU scalars|[Ee]xpected object of device type"),
    (MISMATCH, r"is on CPU, but expected|to be on GPU|Placeholder storage has not been allocated on MPS"),
    (MISMATCH, r"but expected on mps|Passed CPU tensor to MPS|gradient with device type"),
    (MISMATCH, r"different devices?\b"),
    (MISMATCH, r"two devices|located on a different device"),
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


def cause_of(error: BaseException) -> tuple[BaseException, Problem]:
    """Return the error that is about devices, of those that an error was raised from, and what it says."""
    problem = problem_of(error)
    while not problem.kind and (error.__cause__ or error.__context__) is not None:
        earlier = error.__cause__ or error.__context__
        if not problem_of(earlier).kind:
            break
        error, problem = earlier, problem_of(earlier)
    return error, problem


_CELL = 'style="text-align:left;vertical-align:baseline;padding:0.1em 1em 0.1em 0"'
_CODE = ("failed in", "culprit")
# A line of a change: tints that text can be read on in either theme; the signs say the same without colour.
_LINE = "display:block;white-space:pre-wrap;color:inherit;padding:0 0.4em"
_GOES, _COMES, _STAYS = "#c0392b33", "#1e7a4633", "#80808022"


@dataclass(frozen=True)
class Met:
    """One tensor of the operation that failed, as the table shows it."""

    name: str
    what: str
    device: str
    origin: str
    culprit: bool = False


@dataclass(frozen=True)
class Change:
    """A change of one statement: where, the new code, whether it goes before the line, what it replaces."""

    where: str
    code: str
    before: bool
    replaced: str


@dataclass(repr=False, eq=False)
class Explanation(Panel):
    """An error explained: `culprit`, `origin` and `mend` as text; `known` is False without a culprit.

    Each of `changes` has been tried, all together; `changed` holds the files as they are with all of them.
    Where there are none, `untried` says why.
    """

    headline: str
    known: bool = False
    culprit: str = ""
    origin: str = ""
    aliases: list[str] = field(default_factory=list)
    operation: str = ""
    where: str = ""
    met: list[Met] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    changed: dict[str, str] = field(default_factory=dict)
    untried: str = ""
    otherwise: str = ""
    note: str = ""

    @property
    def mend(self) -> str:
        """Return the code of the changes."""
        return "\n".join(one.code for one in self.changes)

    def rows(self) -> list[tuple[str, object]]:
        """Return the labelled lines of what is known, without the table of tensors."""
        rows = [("failed in", f"{self.operation}   ({self.where})" if self.where else self.operation)]
        if self.culprit:
            also = f"   (also {'; '.join(self.aliases)})" if self.aliases else ""
            rows += [("culprit", self.culprit + also), ("where from", self.origin)]
        return [(label, value) for label, value in rows if value]

    def proposal(self) -> list[tuple[str, object]]:
        """Return the labelled lines that come after the trials; a change is shown as lines of code."""
        rows = [("change", self.untried)] if not self.changes else []
        for place, one in enumerate(self.changes):
            rows.append(("and" if place else "change", one))
            rows.append(("at", ("before " if one.before else "") + one.where))
        rows += [("or", self.otherwise), ("note", self.note)]
        return [(label, value) for label, value in rows if value]

    def text(self) -> str:
        """Return the explanation as labelled lines."""
        return "\n".join(self._known() + _lines(self.proposal()))

    def _known(self) -> list[str]:
        rows = self.rows()
        lines = [f"devlab explains: {self.headline}", *_lines(rows[:1])]
        met = [(f"{_sign(one)} {one.name}", one.what, one.device, one.origin) for one in self.met]
        for position, line in enumerate(Table([Column()] * 4, met).text().splitlines()):
            lines.append(f"  {'' if position else 'tensors met':<12}{line}")
        return lines + _lines(rows[1:])

    def show_while(self, finding: Callable[[], None]) -> None:
        """Show what is known at once, and what a function finds when it has found that."""
        shell = notebook_shell()
        if not hasattr(shell, "kernel"):  # a terminal cannot take back what it shows
            self._shown_in_cell = getattr(shell, "execution_count", None)
            print(*self._known(), sep="\n", flush=True)
            finding()
            print(*_lines(self.proposal()), sep="\n", end="\n" * bool(self.proposal()))
            return
        from IPython.display import display

        handle = display(self._content(), raw=True, display_id=True)
        try:
            finding()
        finally:
            self._shown_in_cell = shell.execution_count
            handle.update(self._content(), raw=True)

    def html(self) -> str:
        """Return the explanation as HTML."""
        heads = [("", str.strip), ("tensor", _code)]
        heads += [(name, escape) for name in ("what", "device", "where from")]
        met = [(_sign(one), one.name, one.what, one.device, one.origin) for one in self.met]
        rows = [(label, _html(label, value)) for label, value in self.rows() + self.proposal()]
        columns = [Column(look=_CELL, labels=True), Column(look=_CELL, html=str)]
        return (
            f"<div><strong>devlab explains: {prose(self.headline)}</strong></div>"
            + Table(
                [Column(name, _CELL, html) for name, html in heads], met, look=TABLE, row_look=PLAIN
            ).html()
            + Table(columns, rows, look=TABLE, row_look=PLAIN).html()
        )


def _html(label: str, value: str | Change) -> str:
    """Return what stands beside a label: code in a block, and where it stands below."""
    if isinstance(value, Change):
        gone = [("−", line, _GOES) for line in value.replaced.splitlines()]
        return _block(gone + [("+", line, _COMES) for line in value.code.splitlines()])
    if label not in _CODE:
        return prose(value)
    code, _, rest = value.partition("   (")
    rest = escape(rest.removesuffix(")"))
    return (
        _code(code) + f", {rest}" * bool(rest) if label == "culprit" else _block([("", code, _STAYS)]) + rest
    )


def _block(lines: list[tuple[str, str, str]]) -> str:
    """Return lines of code, each after its sign and on its tint."""
    return "".join(
        f'<code style="{_LINE};background:{colour}">{escape(f"{sign} {line}".strip())}</code>'
        for sign, line, colour in lines
    )


def _lines(rows: list[tuple[str, object]]) -> list[str]:
    told = [(label, value.code if isinstance(value, Change) else value) for label, value in rows]
    return [
        f"  {'' if place else label:<12}{line}"
        for label, value in told
        for place, line in enumerate(value.splitlines() or [""])
    ]


def _sign(one: Met) -> str:
    return "→" if one.culprit else " "


def _code(text: str) -> str:
    return f"<code>{escape(text)}</code>"
