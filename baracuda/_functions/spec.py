# SPDX-License-Identifier: Apache-2.0
"""Specs of the functions on arrays: names, arguments and results, all derived from the rows of the op table.

Rows of some families declare their functions (table_calls.py). In the others a function stands for the ops of one name
and all dtypes. Its arguments are the operands that C reads, in C's order, then the numbers that do not follow from
shapes.
RENAMED lists the names that NumPy and PyTorch have for functions and arguments.
"""

from __future__ import annotations

import dataclasses
import functools
import numbers
import re
from collections.abc import Mapping
from typing import Any

from baracuda._library.op_table import Row, rows
from baracuda._library.param import Param
from baracuda.dtypes import ElementKind

REQUIRED = object()  # the default of an argument that has none
# Families whose rows declare their functions by `call`.
_DECLARED_FAMILIES = frozenset(
    "conv fft gemm indexing loss moe norm pool quantize random recurrent reduce sampling "
    "search softmax sort ssm".split()
)
# Prefixes of ops that have plans only, no function on arrays.
PLAN_ONLY = (
    "flashinfer_merge_state_in_place",  # results lie on arguments
    "nms_",  # of sorted boxes, to a mask; nms and batched_nms sort
    "ring_attention",
    "gemm",
    "gemv",
    "nf4_gemv",
    "swizzle_scales",  # a move of bytes for other libraries
    "moe_wmma",  # bk.moe and grouped_linear have gradients, too
    "moe_scalar_gguf",
    "causal_conv1d_{T}",  # the general forms have strides and states, too
    "selective_scan_{T}",
    "ssd_chunk_scan",
    "mmvq_",  # quantized_matmul takes any number of rows
    "fftshift",  # fft.fftshift and fft.ifftshift have any axes and strides
    "ifftshift",
    "dequantize_per_tensor_{T}_",  # dequantize_linear
    "quantized_linear_w8a8",  # quantized_linear_codes has zero points and a bias, too
    "grouped_gemm",
    "int4_",
    "loss_flce",
    "loss_ctc_{T}",  # the functions use the ragged rows, whose mean differs
    "loss_ctc_backward_{T}",
    "loss_cross_entropy_soft_backward",
    "contiguize",
    "write_slice",
    "kv_cache",
    "paged_kv_append",
    "sdpa_",
    "flash_sdpa",
    "fa2_sdpa",
    "check_indices",
    "bernoulli",  # on a buffer of uniform numbers; the functions take a seed
    "dropout_{T}",
    "dropout_backward_{T}",
    "curand_",
    "random_advance",  # baracuda.random.advance
    "flashinfer_chain_speculative_sampling",  # speculative_sample does not add to counts of the caller
    "flashinfer_top_k_sampling_{T}_arr",  # sample_tokens takes numbers of rows
    "flashinfer_top_p_sampling_{T}_arr",
    "flashinfer_min_p_sampling_{T}_arr",
    "flashinfer_top_k_top_p_sampling_{T}_arr",
    "apply_token_penalty",  # in place; process_logits is the function
    "sort_{T}",  # the functions use the rows along an axis
    "sort_wide",
    "sort_by_key",
    "sort_backward",
    "msort",
    "argsort_{T}",
    "searchsorted_{T}",
    "unique_consecutive_{T}",
    "unique_rows",
    "topk_{T}",  # the functions use the rows along an axis
    "topk_backward_{T}",
    "batched_ormqr",  # linalg_ormqr and others take any layout
    "batched_qr_materialize",
    "concat_",  # any number of arrays: baracuda.concatenation
    "mmvq",  # quantized_matmul takes any format, dtype and number of rows
    "dequantize_{F}",  # dequantize_blocks takes any format and dtype
    "reduce_{F}_backward_{T} moments",  # one axis only
    "upsample_nearest_2d",  # interpolate takes any layout
    "grid_sample_2d",  # grid_sample has options, and overwrites gradients
    *(f"{name}_pool_{rank}d" for name in ("max", "avg", "lp", "fractional_max") for rank in (1, 2, 3)),  # max_pool ...
    "adaptive_avg_pool_{T}_",
    "adaptive_max_pool_{T}_",
    "conv_",  # convolution takes any rank and layout
    "im2col_1d",
    "im2col_2d",
    "col2im_1d",
)
_PREFIX = re.compile(r"^(unary|binary_cmp|binary|ternary|gated|scan)_")
_SLOT = re.compile(r"\{[TUIO]\}")
_VARIANT = re.compile(r"_(param|inplace|\w\d+cond)(?=_|$)")

# Names of functions and arguments that differ from the table's. A gradient has the names of its forward function.
RENAMED: dict[str, tuple[str, dict[str, str]]] = {
    "mod": ("remainder", {}),  # NumPy and PyTorch give it the sign of the divisor
    "remainder": ("fmod", {}),
    "reduce_fmax": ("nanmax", {}),  # fmax is the elementwise function
    "reduce_fmin": ("nanmin", {}),
    "reduce_fmax_to_size": ("nanmax_to_size", {}),
    "reduce_fmin_to_size": ("nanmin_to_size", {}),
    "repeat": ("tile", {}),
    "affine_grid_2d": ("affine_grid", {}),
    "elu": ("elu", {"p0": "alpha"}),
    "leaky_relu": ("leaky_relu", {"p0": "negative_slope"}),
    "hardshrink": ("hardshrink", {"p0": "lambd"}),
    "softshrink": ("softshrink", {"p0": "lambd"}),
    "logit": ("logit", {"p0": "eps"}),
    "hardtanh": ("hardtanh", {"p0": "min_val", "p1": "max_val"}),
    "softplus": ("softplus", {"p0": "beta", "p1": "threshold"}),
    "threshold": ("threshold", {"p0": "threshold", "p1": "value"}),
    "selu": ("selu", {"p0": "alpha", "p1": "scale"}),
    "powf": ("powf", {"p0": "exponent"}),
    "powi": ("powi", {"p0": "n"}),
    "lerp": ("lerp", {"p": "weight"}),
    "addcmul": ("addcmul", {"scale": "value"}),
    "addcdiv": ("addcdiv", {"scale": "value"}),
    "affine": ("affine", {"a": "scale", "b": "offset"}),
    "clamp": ("clamp", {"a": "x", "b": "min", "c": "max", "da": "dx", "db": "dmin", "dc": "dmax"}),
    "alibi": ("alibi", {"da": "dscores", "dslope": "dslopes"}),
    **{
        name: (name, {"input": "x", "d_output": "dy", "d_input": "dx", **({"output": "y"} if "prod" in name else {})})
        for op in ("sum", "mean", "max", "min", "prod", "max_or_zero", "min_or_zero")
        for name in (f"segment_{op}", f"unsorted_segment_{op}")
    },
    **{
        f"{form}{name}{indices}": (
            f"{form}{name.replace('log_cumsum_exp', 'logcumsumexp')}{indices}",
            {"scan_axis": "axis"},
        )
        for name in ("cumsum", "cumprod", "cummax", "cummin", "log_cumsum_exp")
        for form, indices in (("", ""), ("exclusive_", ""), ("", "_indices"))
    },
    **{name: (name, {"split_dim": "axis"}) for name in ("glu", "reglu", "swiglu", "geglu")},
}
ARGUMENT_ORDER = {
    "embedding": ("indices", "weight"), "embedding_bag": ("indices", "weight", "offsets"),
    "embedding_renorm": ("indices", "weight"),
}  # fmt: skip
POSITIONAL_NUMBERS = ("axis", "diagonal")
DEFAULTS: dict[str, Any] = {
    "axis": -1, "mode": "mean", "padding_idx": None, "reverse": False, "scale_grad_by_freq": False
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Argument:
    """name is Python's; pointer or number is C's. An operand of which only the shape matters has neither."""

    name: str
    pointer: str = ""
    number: str = ""
    default: Any = REQUIRED


@dataclasses.dataclass(frozen=True, eq=False)
class Spec:
    """One function. `patterns` are names of ops, "binary_add_{T}"; `row` is that of the first pattern."""

    name: str
    patterns: tuple[str, ...]
    rows: tuple[Row, ...]
    function: str  # value of {F}
    arrays: tuple[Argument, ...]
    numbers: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    layout: str  # name of the shape rule (shape_rules/infer.py)
    fixed: Mapping[str, str] = dataclasses.field(default_factory=dict)  # C's number -> digits, or the name of another
    extents: Mapping[str, str] = dataclasses.field(default_factory=dict)  # extents of arrays that C does not read
    others: tuple[Spec, ...] = ()  # specs of other rows for the same function and arguments
    absent: tuple[str, ...] = ()  # arguments that the row lacks; it serves calls with their defaults

    @property
    def row(self) -> Row:
        return self.rows[0]

    @property
    def described(self) -> Spec:
        """The spec whose row documents the function: that of calls which are not batch-invariant, if it is another."""
        return next((other for other in self.others if other.absent == ("batch_invariant",)), self)

    def serving(self, values: Mapping[str, Any]) -> list[Spec]:
        """The specs to try on a call, in order: rows with fewer arguments first, then rows of the same arguments with
        fewer dtypes."""
        given = {a.name for a in self.arrays if values.get(a.name) is not None}
        given |= {n.name for n in self.numbers if not _is_default(values[n.name], n.default)}
        less = [other for other in self.others if other.absent and not given.intersection(other.absent)]
        less.sort(key=lambda other: (-len(other.absent), len(other.row.slots.get("T", ()))))
        equal = [other for other in self.others if not other.absent]
        own = [other for other in equal if set(other.row.slots.get("T", ())) < set(self.row.slots.get("T", ()))]
        return [*less, *own, self, *[other for other in equal if other not in own]]

    @functools.cached_property
    def dtypes(self) -> tuple[str, ...]:
        """The values of T in all rows of the function, spelled as in C symbols."""
        return tuple(dict.fromkeys([*self.own_dtypes, *[d for other in self.others for d in other.own_dtypes]]))

    @functools.cached_property
    def own_dtypes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(d for row in self.rows for d in row.slots["T"] if d not in ("s4", "u4")))

    @property
    def is_partial(self) -> bool:
        """Whether a caller may choose the outputs (`needs`)."""
        named = {output.pointer for output in self.outputs}
        return any(param.direction == "out?" and param.name in named for param in self.row.params)

    @functools.cached_property
    def positional(self) -> tuple[Argument, ...]:
        """Arguments that need no keyword, in order; numbers without a default come before optional arrays."""
        optional = [array for array in self.arrays if array.default is not REQUIRED]
        required = [array for array in self.arrays if array.default is REQUIRED]
        return (*required, *[n for n in self.numbers if n.default is REQUIRED], *optional)

    @functools.cached_property
    def by_position(self) -> tuple[Argument, ...]:
        """Numbers with a default that need no keyword either, as in NumPy and PyTorch."""
        if any(array.default is not REQUIRED for array in self.arrays):
            return ()
        return tuple([n for n in self.numbers if n.name in POSITIONAL_NUMBERS and n.default is not REQUIRED])

    @functools.cached_property
    def unreturned_outputs(self) -> tuple[Argument, ...]:
        """Outputs that C requires and the function does not return."""
        named = {output.pointer for output in self.outputs}
        required = [p.name for p in self.row.params if p.is_output and p.is_required and p.name not in named]
        return tuple([Argument(name, name) for name in required])

    def slot_of(self, argument: Argument) -> str:
        """An operand's dtype in the row: "T", "i32". One that C does not read has that of the result; of mixtures of
        experts it is an array of indices.
        """
        found = [p.dtype for p in self.row.params if argument.pointer and p.name == argument.pointer]
        return found[0] if found else "i32" if self.layout == "experts" else "T"

    @property
    def names(self) -> Mapping[str, str]:
        """C's names -> Python's."""
        return {a.pointer or a.number: a.name for a in (*self.arrays, *self.numbers, *self.outputs)}


def _is_default(value: object, default: object) -> bool:
    """Whether a value is the default; only numbers and strings are compared by ==."""
    return value is default or (isinstance(value, (numbers.Number, str)) and value == default)


@functools.cache
def specs() -> dict[str, Spec]:
    """All functions by name."""
    found: dict[str, list[tuple[str, Row, str]]] = {}
    for row in rows():
        by_name = row.family in _DECLARED_FAMILIES or row.calls or row.pattern.startswith(PLAN_ONLY)
        if row.pattern.endswith("_strided") or by_name:
            continue
        for function in row.functions or ("",):
            pattern = row.pattern.replace("{F}", function)
            found.setdefault(_stem(pattern), []).append((pattern, row, function))
    from baracuda._functions.table_calls import declared_specs

    all_specs = [*(_spec(stem, found) for stem in found), *declared_specs()]
    return {spec.name: spec for spec in sorted(all_specs, key=lambda spec: spec.name)}


def _stem(pattern: str) -> str:
    """The op's name in the table without dtypes and variants: "unary_elu_param_backward_{T}" -> "elu_backward"."""
    return _VARIANT.sub("", _PREFIX.sub("", _SLOT.sub("", pattern).rstrip("_").replace("__", "_")))


def _spec(stem: str, found: Mapping[str, list[tuple[str, Row, str]]]) -> Spec:
    variants = [v for v in found[stem] if "_param" in v[0]] or found[stem]  # rows whose parameters are f64
    variants = [v for v in variants if "_inplace" not in v[0]] or variants
    row, function = variants[0][1:]
    forward = stem.removesuffix("_backward")
    name, renamed = RENAMED.get(forward, (forward, {}))
    name += stem[len(forward) :]
    layout = _shape_rule(row)
    arrays = [
        _array(row, function, renamed, p) for p in row.params if p.direction == "in" and _is_read(row, function, p)
    ]
    outputs = [
        Argument(renamed.get(p.name, p.name), p.name) for p in row.params if p.direction.startswith(("out", "inout"))
    ]
    arrays += _shape_operands(stem, forward, found, arrays, outputs, layout)
    order = ("dy", "dout", *ARGUMENT_ORDER.get(name, _inputs(forward, found)))
    arrays.sort(key=lambda argument: order.index(argument.name) if argument.name in order else len(order))
    numbers = [_number(row, function, renamed, text) for text in _free_numbers(row, layout)]
    return Spec(
        name, tuple(dict.fromkeys(v[0] for v in variants)), tuple(dict.fromkeys(v[1] for v in variants)), function,
        tuple(arrays), tuple(sorted(numbers, key=lambda n: n.default is not REQUIRED)), tuple(outputs), layout,
    )  # fmt: skip


def _shape_rule(row: Row) -> str:
    names = {param.name for param in row.params}
    if "split_dim" in names:
        return "gated"
    if "scan_axis" in names:
        return "scan"
    if "scalar_weight" in names:
        return "prelu"
    if "input_shape" in names:
        return "repeat"
    if "num_indices" in names:
        return "rows_of_indices"
    return "pointwise" if "numel" in names else "named"


def _is_read(row: Row, function: str, param: Param) -> bool:
    """Whether some output needs the input; the first input is always read."""
    reads = row.reads.get(function)
    first = next(p.name for p in row.params if p.direction == "in")
    return reads is None or param.name == first or any(param.name in inputs for inputs in reads.values())


def _array(row: Row, function: str, renamed: Mapping[str, str], param: Param) -> Argument:
    name = row.saves[function] if param.name == "saved" else renamed.get(param.name, param.name)
    return Argument(name, param.name)


def _shape_operands(
    stem: str, forward: str, found: Mapping[str, list[tuple[str, Row, str]]], arrays: list[Argument],
    outputs: list[Argument], layout: str,
) -> list[Argument]:  # fmt: skip
    """Operands that C does not read but whose shape a result has: a for da."""
    have = {argument.pointer for argument in arrays}
    if not arrays:
        return [Argument("x")]
    if stem == forward or layout != "pointwise" or (len(outputs) < 2 and forward != "ldexp"):
        return []
    renamed = RENAMED.get(forward, ("", {}))[1]
    missing = [out.pointer[1:] for out in outputs if out.pointer[1:] not in have]
    return [Argument(renamed.get(name, name)) for name in missing]


def _inputs(stem: str, found: Mapping[str, list[tuple[str, Row, str]]]) -> list[str]:
    """Arguments of the forward function, in order."""
    renamed = RENAMED.get(stem, ("", {}))[1]
    params = found[stem][0][1].params if stem in found else ()
    return [renamed.get(param.name, param.name) for param in params if param.direction == "in"]


def _free_numbers(row: Row, layout: str) -> list[str]:
    """C's numbers that do not follow from operands, and the dtype of a cast."""
    known = {"repeat": ("input_shape", "output_shape", "repeats"), "prelu": ("scalar_weight",)}.get(layout, ())
    bound = {word for param in row.params if param.direction == "in" for word in param.shape.split(", ")}
    free = [p for p in row.params if p.role in ("parameter", "mode", "axis") and p.name not in known]
    by_name = layout in ("named", "rows_of_indices")
    extents = [p for p in row.params if by_name and p.role == "extent" and p.name not in bound]
    extra = {"repeat": ["repeats"], "prelu": ["axis"]}.get(layout, [])
    return [*(["dtype"] if "U" in row.slots else []), *[p.name for p in extents], *extra, *[p.name for p in free]]


def _number(row: Row, function: str, renamed: Mapping[str, str], number: str) -> Argument:
    name = renamed.get(number, number)
    default = row.defaults.get(function, {}).get(number, REQUIRED)
    if number == "axis":
        default = 1  # the channel axis of NC...
    return Argument(name, number=number, default=DEFAULTS.get(name, default) if number != "axis" else default)


def output_of(row: Row) -> ElementKind:
    """U where the caller has no choice: i64 for indices, f64 for the mean of integers."""
    return ElementKind.F64 if "f64" in row.slots.get("U", ()) else ElementKind.I64
