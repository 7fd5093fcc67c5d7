"""What a kernel needs to know of an operator, read from PyTorch's schema."""

import torch

from devlab.sim import private, recurrent, waits, work


def _histogram(values: torch.Tensor, bins=100, min=0, max=0) -> torch.Tensor:
    """Count integers too, as CUDA does; the CPU counts floats alone."""
    if values.is_floating_point():
        return torch.histc(values, bins, min, max)
    return torch.histc(values.to(torch.float64), bins, min, max).to(values.dtype)


# Operators that the CPU lacks, or lacks for a dtype, and the functions of CPU tensors that stand in for them.
_STAND_INS = {f"aten::{name}": function for name, function in recurrent.FUSED.items()}
_STAND_INS["aten::histc"] = _histogram
# The commonest operators of one or two tensors. PyTorch's public function of the same name means the same for
# them, and is called with less ceremony than the operator.
QUICK = frozenset(
    f"aten::{name}"
    for name in (
        *("abs", "ceil", "clone", "cos", "erf", "exp", "floor", "log", "log1p", "neg", "reciprocal", "relu"),
        *("round", "rsqrt", "sigmoid", "sign", "sin", "sqrt", "tanh", "logical_not", "isnan"),
        *("exp_", "neg_", "relu_", "sigmoid_", "sqrt_", "tanh_", "zero_"),
        *("sum", "sum.dim_IntList", "mean.dim", "pow.Tensor_Scalar", "pow.Tensor_Tensor"),
        *("add.Tensor", "sub.Tensor", "mul.Tensor", "div.Tensor"),
        *("add_.Tensor", "sub_.Tensor", "mul_.Tensor", "div_.Tensor", "fill_.Scalar"),
        *("maximum", "minimum", "mm", "bmm", "addmm", "cat"),
        *(f"{name}.{kind}" for name in ("eq", "ne", "lt", "le", "gt", "ge") for kind in ("Scalar", "Tensor")),
    )
)


class Operator:
    """What a kernel needs to know of its operator, read from the schema once."""

    def __init__(self, name: str):
        """Read the schema of the operator of that full name, such as `aten::add.Tensor`."""
        op = private.overload(name)
        schema = private.schema_of(op)
        arguments = schema.arguments
        self.name = name
        self.schema = schema
        self.call = _STAND_INS.get(name, private.caller_of(op))
        self.quick = private.public_function(schema.name) if name in QUICK else self.call
        self.as_composite = private.caller_under(op, private.COMPOSITE_KEY)
        self.formula = work.formula(schema.name)
        self.broadcasts = torch.Tag.pointwise in op.tags or name == "aten::clone"
        self.waits = waits.rule(name, op.tags)
        self.outputs = tuple(a.name for a in arguments if a.is_out)
        self.takes_device = any(a.name == "device" for a in arguments)
        self.generator = next((i for i, a in enumerate(arguments) if a.name == "generator"), None)
        self.draws = torch.Tag.nondeterministic_seeded in op.tags and self.generator is None
        # For each result, the position of the argument that it is, or None where it is new.
        self.returned = tuple(_returned_argument(schema, result) for result in schema.returns)
        tensors = [(i, a) for i, a in enumerate(arguments) if "Tensor" in str(a.type)]
        self.tensors = [i for i, a in tensors if not a.kwarg_only]
        self.keywords = {a.name for _, a in tensors}
        self.lists = any("List[" in str(a.type) for _, a in tensors)

    @property
    def plain(self) -> bool:
        """Whether only the first one or two arguments can be tensors, and one tensor comes back."""
        special = self.outputs or self.takes_device or self.draws or self.lists or self.waits
        return (
            not special
            and self.generator is None
            and len(self.keywords) == len(self.tensors)
            and len(self.returned) == 1
            and str(self.schema.returns[0].type) == "Tensor"
            and (self.tensors == [0] or (self.tensors == [0, 1] and (self.broadcasts or self.formula)))
        )


def _returned_argument(schema, result) -> int | None:
    """Return the position of the argument that a result is, or None for a result that is new."""
    if result.alias_info is None:
        return None
    for position, argument in enumerate(schema.arguments):
        if argument.alias_info and argument.alias_info.before_set == result.alias_info.before_set:
            return position
    return None
