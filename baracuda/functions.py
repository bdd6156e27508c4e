# SPDX-License-Identifier: Apache-2.0
"""One function for each op: `gelu(x)`, `add(a, b, out=c)`, `da, db = mul_backward(dy, a, b, needs=(True, False))`.

Each takes arrays of NumPy, PyTorch, CuPy, JAX and others with DLPack, `__cuda_array_interface__` or the buffer
protocol, TensorRefs, and Python numbers, which take the dtype of the arrays. Arrays broadcast as in NumPy and have any
strides. Results are allocated by the framework of the first array, on its device and, on CUDA, computed on its current
stream.

Functions are generated from the op table when a name is first used. tools/gen_stub.py writes their signatures for type
checkers to functions.pyi.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import re
import sys
import textwrap
from typing import Any

import numpy as np

from baracuda._functions.flags import FLAGS
from baracuda._functions.spec import REQUIRED, Spec, specs
from baracuda._library.op_table import rows


def __getattr__(name: str) -> Any:
    spec = specs().get(name) if not name.startswith("_") else None
    if spec is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])
    value = globals()[name] = _made(spec)
    return value


def __dir__() -> list[str]:
    return sorted(specs())


def _made(spec: Spec) -> Any:
    """A Python function with the signature of the spec, which calls a cached launcher or else Function.call."""
    from baracuda._arrays.frameworks import KEYS
    from baracuda._functions.dispatch import Function, canonical, outer_key
    from baracuda._functions.matmul_broadcast import broadcasting
    from baracuda._functions.shape_rules.copies import with_negative_pads

    function = Function(spec)
    arrays = [argument.name for argument in spec.arrays]
    parts = [f"default if {n.name} is default_{n.name} else canonical({n.name})" for n in spec.numbers]
    parts += ["needs"] if spec.is_partial else []
    numpys = ", ".join([*[f"{name}.dtype, {name}.shape, {name}.strides" for name in arrays], *parts])
    others = ", ".join([*[f"keys[type({name})]({name})" for name in arrays], *parts])
    given = ", ".join(arrays)
    lines = [
        f"def {spec.name}({signature(spec, whole=True)}, **others):",
        "    if others: refuse(others)",
        *["    if dtype is not None: x = cast(x, dtype)"] * (spec.name in _WITH_DTYPE),
        "    key = None",
        "    try:",  # fails for a new type, and for a number that cannot be hashed
        "        if out is None:",
        f"            if {' is '.join([f'type({name})' for name in arrays])} is ndarray: key = ({numpys},)",
        f"            else: key = ({others},)",
        "            launch = launchers.get(key)",
        f"            if launch is not None: arrays = ({given},)",
        "        else:",
        f"            key = ({others}, outer_key(out))",
        "            launch = launchers.get(key)",
        f"            if launch is not None: arrays = ({given}, out)",
        "    except (KeyError, TypeError): launch = None",
        "    if launch is not None: return launch(*arrays)",
        f"    return call(key, ({given},), ({''.join(f'{n.name}, ' for n in spec.numbers)}), out"
        f"{', needs' if spec.is_partial else ''})",
    ]
    scope: dict[str, Any] = {
        "call": function.call, "launchers": function.launchers, "keys": KEYS, "outer_key": outer_key,
        "canonical": canonical, "ndarray": np.ndarray, "default": REQUIRED,
        "refuse": functools.partial(_raise_unknown, spec),
        **{f"default_{n.name}": n.default for n in spec.numbers},
    }  # fmt: skip
    if spec.name in _WITH_DTYPE:
        scope["cast"] = getattr(sys.modules[__name__], "cast")  # noqa: B009  (made when it is asked for)
    exec(compile("\n".join(lines), f"<baracuda.{spec.name}>", "exec"), scope)
    made = scope[spec.name]
    if made.__kwdefaults__:  # the default objects themselves, by identity
        others = [n for n in spec.numbers if n.default is not REQUIRED and n not in spec.by_position]
        made.__kwdefaults__.update({n.name: n.default for n in others})
    if spec.by_position:
        made.__defaults__ = tuple([n.default for n in spec.by_position])
    whole = inspect.signature(made)
    made.__signature__ = whole.replace(parameters=[p for p in whole.parameters.values() if p.name != "others"])
    made.__doc__, made.__module__ = documentation(spec), "baracuda"
    wider = {"matmul_backward": broadcasting, "pad_constant_backward": with_negative_pads}.get(spec.name)
    return made if wider is None else wider(made)


# Names of arguments in PyTorch and NumPy -> ours.
_ALIASES = {
    "dim": "axis", "dims": "axis", "keepdim": "keepdims", "input": "x", "other": "b", "x1": "a", "x2": "b",
    "self": "x", "unbiased": "correction", "ddof": "correction", "min_value": "min", "max_value": "max",
    "normalized_shape": "axis", "src": "updates", "weights": "weight",
}  # fmt: skip


def _raise_unknown(spec: Spec, others: dict[str, Any]) -> None:
    """TypeError for unknown arguments, with a suggestion."""
    name = next(iter(others))
    known = [each.name for each in (*spec.arrays, *spec.numbers)] + ["needs"] * spec.is_partial + ["out"]
    meant = [_ALIASES[name]] if _ALIASES.get(name) in known else difflib.get_close_matches(name, known, n=1)
    text = f"{spec.name}() got an unexpected keyword argument {name!r}"
    if name == "approximate":
        meant = [other for other in (f"{spec.name}_tanh",) if other in specs()]
        raise TypeError(f"{text}: {meant[0]} is a function of its own" if meant else text)
    raise TypeError(f"{text}; did you mean {meant[0]!r}?" if meant else f"{text}; there are {', '.join(known)}")


# Reductions with a dtype argument, to which x is converted first, so that sums of small integers do not wrap.
_WITH_DTYPE = ("sum", "prod", "cumsum", "cumprod")


def signature(spec: Spec, annotated: bool = False, whole: bool = False) -> str:
    """The parameter list of a definition: arrays, numbers without a default, an axis, and keyword-only ones. `whole`
    adds the arguments that only this module's functions have.
    """
    note = (lambda kind: f": {kind}") if annotated else (lambda kind: "")
    equals = " = " if annotated else "="
    parts = [
        f"{a.name}{note(_annotation(spec, a.number) if a.number else 'Array')}"
        + (f"{equals}None" if a.default is None else "")
        for a in spec.positional
    ]
    optional = [
        f"{a.name}{note(_annotation(spec, a.number))}{equals}{a.default!r}"
        for a in (*spec.by_position, *[n for n in spec.numbers if n not in spec.by_position])
        if a.default is not REQUIRED
    ]
    parts += [*optional[: len(spec.by_position)], "*", *optional[len(spec.by_position) :]]
    if spec.is_partial:
        parts.append(f"needs{note('Sequence[bool] | None')}{equals}None")
    if whole and spec.name in _WITH_DTYPE:
        parts.append(f"dtype{note('Any')}{equals}None")
    parts.append(f"out{note('Any')}{equals}None")
    return ", ".join(parts)


def _annotation(spec: Spec, number: str) -> str:
    if number in _ANNOTATIONS:
        return _ANNOTATIONS[number]
    found = next((p for p in spec.row.params if p.name == number), None)
    defaults = [n.default for n in spec.numbers if n.number == number]  # `any` may be the function of this module
    if found is not None and found.dtype == "f32" and None in defaults:
        return "float | None"
    return "int" if found is None or found.dtype in ("i32", "i64", "u64") else "float"


_ANNOTATIONS = {
    "dtype": "Any", "mode": "str | EmbeddingBagMode", "repeats": "int | Sequence[int]", "padding_idx": "int | None",
    "rotary_dim": "int | None",
    "axis": "int", "output_shape": "int | Sequence[int]", "reduction_mode": "str | LossReduction",
    "reduce": "str | ScatterReduction",
    **dict.fromkeys((*FLAGS, "backend"), "bool"), "shared": "int | None", "fill_bits": "float",
    **dict.fromkeys(("max_nz", "max_selected", "max_target_len", "max_unique"), "int | None"),
    **dict.fromkeys(("reduce_axis", "reduce_axes_mask", "axes", "order_axis"), "int | Sequence[int] | None"),
    "interpolation": "str | QuantileInterpolation", "scoring": "str | ExpertScoring",
    "group_score": "str | ExpertGroupScore",
    "format": "str | int | GgufBlockFormat",
    "resample_mode": "str | ResampleMode", "sample_mode": "str | SampleMode", "padding_mode": "str | SamplePadding",
    "size": "int | Sequence[int] | None", "scale_factor": "float | Sequence[float] | None", "cubic_a": "float | None",
    "rcond": "float | None",
    "numel": "int | None", "book": "str | CodeBook",
    "cell": "str | CellKind",
    "float_format": "str | FloatFormat", "mx_format": "str | MxFormat", "scale_rule": "str | ScaleRule",
    "scale_layout": "str | ScaleLayout", "fp8_scaling": "str | Fp8Scaling",
    **dict.fromkeys(("norm_axes_mask", "shifts", "pad_low", "pad_high"), "int | Sequence[int]"),
    **dict.fromkeys(("kernel_size", "dilation", "padding", "steps", "output_size", "pooled_h"), "int | Sequence[int]"),
    **dict.fromkeys(("kernel_h", "stride_h", "pad_h", "dilation_h"), "int | Sequence[int]"),
    "crop": "Sequence[int] | None", "color_code": "str | ColorConversion",
    "layout": "str", "divisor_override": "int | None",
    **dict.fromkeys(("padding_after", "output_padding"), "int | Sequence[int]"),
    "lengths": "int | Sequence[int] | None", "fourier_axes": "int | Sequence[int] | None",
    "starts": "int | Sequence[int] | None", "length": "int | None",
    "flip_axes": "int | Sequence[int] | None", "dims": "Sequence[int]", "repeat_dim": "int | None",
}  # fmt: skip


def summary(spec: Spec) -> str:
    """The first line of a function's documentation: what it computes."""
    return _described(spec)[0]


def documentation(spec: Spec) -> str:
    """The docstring of a function, from the row: formula, arguments, dtypes, determinism and errors."""
    first, text = _described(spec)
    notes = _notes(spec, f"{first} {text}")
    paragraphs = [first, *["\n".join(textwrap.wrap(each, 96)) for each in (text, *notes) if each]]
    return "\n\n".join(paragraphs) + "\n"


def _described(spec: Spec) -> tuple[str, str]:
    """(first line, further text) of a function's documentation."""
    spec = spec.described
    row = spec.row
    if row.about:
        formula = row.functions.get(spec.function, "")
        first, _, rest = row.about.replace("{F}", spec.function).replace("{f}", formula).partition("\n")
        return first, " ".join(rest.split())
    first, *rest = _sentences(spec)
    if row.functions.get(spec.function):
        if not row.calls:
            rest.insert(0, first)
        first = _renamed(spec, row.functions[spec.function])
    return first, " ".join(rest)


def _sentences(spec: Spec) -> list[str]:
    """Sentences of the row's C documentation, without those on parameters that the function lacks."""
    row = spec.row
    while twin := re.match(r"Another name of (\S+?)[.:]", row.doc):
        row = next(other for other in rows() if other.name == twin[1])
    doc = row.doc.replace("{F}", spec.function)
    first, *rest = re.split(r"(?<=\.) (?<!\bal\. )", doc if doc.endswith(".") else f"{doc}.")
    foreign = {param.name for param in row.params} - {"input"}
    if not row.calls:  # short C names may be words of the formula, and extents may be arguments of the function
        extents = {word for param in row.pointers for word in re.findall(r"\w+", param.shape)}
        foreign = {name for name in foreign if "_" in name} - {*spec.names} - extents
    foreign -= {argument.name for argument in (*spec.arrays, *spec.numbers, *spec.outputs)}
    foreign |= {"NULL", "results", "workspace", "stride"}

    def kept(sentence: str, whole: bool) -> str:
        clauses = re.split(r"; (?![^(]*\))", sentence)  # no split inside brackets
        fine = [(k == 0 and whole) or not foreign.intersection(re.findall(r"\w+", c)) for k, c in enumerate(clauses)]
        text = "; ".join([clause for clause, is_fine in zip(clauses, fine) if is_fine]) if fine[0] else ""
        return _renamed(spec, text.rstrip(".") + "." if text else "")

    return [kept(first, True), *filter(None, [kept(each, False) for each in rest])]


def _renamed(spec: Spec, text: str) -> str:
    """Text with C's names replaced by the function's."""
    numbers = {number.number for number in spec.numbers}
    for theirs, ours in spec.names.items():
        is_name = theirs not in ("", "out") if spec.row.calls else "_" in theirs
        if is_name or (theirs in numbers and len(theirs) > 1):
            text = re.sub(rf"(?<!an )\b{theirs}\b", f"({ours})^-1" if theirs == "inv_tau" else ours, text)
    for name, value in spec.fixed.items():  # drops a factor of 1 and a summand of 0
        text = re.sub(
            rf"\b{name} (?=\w)|; with {name}[^;.]*"
            if value == "1"
            else rf" \+ {name} \w+(\[[^]]*\])?|; with {name}[^;.]*",
            "",
            text,
        )
    for number in spec.numbers:
        if isinstance(number.default, bool):  # C has 0 and 1
            text = re.sub(rf"\b{number.name} (is not 0|!= 0|= 1)(?!\d)", number.name, text)
        elif number.name in ("mode", "reduce"):
            text = re.sub(rf" \(({number.name} )?\d\)", "", text)
    if spec.row.calls:
        text = re.sub(r"[:;,] (stride_\w+|NULL)\b[^;.]*", "", text)
        text = text.replace("the axes in axis", "axis").replace("of x x,", "of logits x,")
        text = (
            text.replace("class_extent", "C")
            .replace("full_flag", "full")
            .replace("in input_shape", "in the shape of x")
        )
    return re.sub(r"\b\w+_\w+\b", lambda word: _functions_of_ops().get(word[0], word[0]), text)


@functools.cache
def _functions_of_ops() -> dict[str, str]:
    """Op -> the shortest name of its functions: "loss_nll_weighted" -> "nll_loss"."""
    by_length = sorted(specs().values(), key=lambda spec: -len(spec.name))
    named = [(op, spec.name) for spec in by_length for each in (spec, *spec.others) for op in each.patterns]
    return {re.sub(r"(\{[IO]\})*_\{T\}.*|_param\b|_param(?=_)", "", op): name for op, name in named}


def _notes(spec: Spec, text: str) -> list[str]:
    row, words = spec.described.row, set(re.findall(r"\w+", text))
    names = {theirs: ours for theirs, ours in spec.names.items() if theirs not in ("", "out", ours)}
    renamed = [f"{ours} is {theirs}" for theirs, ours in names.items() if theirs in words and not row.about]
    several = ", ".join([output.name for output in spec.outputs])
    results = f"Results: {several}. out is a tuple of them." if len(spec.outputs) > 1 else "out takes the result."
    accumulates = f"{spec.names[row.accumulates]} is added to where it is given as out." if row.accumulates else ""
    return [
        f"In the formulas {', '.join(renamed)}." if renamed else "",
        f"dtypes: {' '.join(spec.dtypes)}. {_shapes(spec)}".rstrip(),
        "needs says which results are wanted, all by default; the others are None." if spec.is_partial else "",
        f"{results} {accumulates}".rstrip(),
        "x is converted to dtype before, where it is given." if spec.name in _WITH_DTYPE else "",
        "Deterministic: the same bits on every launch.",
        _BATCH_INVARIANT if "batch_invariant" in {number.name for number in spec.numbers} else "",
        "InvalidProblemError for arguments that do not fit together, UnsupportedError for a dtype that is not served.",
    ]


def _shapes(spec: Spec) -> str:
    if spec.layout == "pointwise" and len(spec.arrays) == 1:
        return ""
    names = {argument.name for argument in (*spec.arrays, *spec.outputs)}
    more = [text for (layout, name), text in _OF_ARGUMENTS.items() if layout == spec.layout and name in names]
    return " ".join([_SHAPES[spec.layout], *dict.fromkeys(more)])


_BATCH_INVARIANT = (
    "With batch_invariant the bits of a result row depend on that row's inputs alone: not on how many rows there are, "
    "on the others or on padding. Gradients do not have it."
)
_STATISTICS = "Statistics have the shape of x, with extents of 1 along axis."
# Notes on shapes, by shape rule and name of an argument or result.
_OF_ARGUMENTS = {
    ("pointwise", "dy"): "A gradient has the shape of its operand.",
    ("softmax", "mask"): "mask and bias broadcast to the shape of x.",
    ("norm", "gamma"): "gamma and beta have the extents of axis.",
    **{("norm", name): _STATISTICS for name in ("mean", "rms", "norm")},
    ("loss", "x"): (
        "Operands have the shape of x, (N, C) of C classes, targets one element a row where they are classes, results "
        "one a loss, or rank 0."
    ),
    ("loss", "anchor"): "anchor, positive and negative are (N, D).",
    ("loss", "log_probs"): "log_probs is (T, N, C), targets (N, S) or those of all samples in one axis, lengths (N,).",
    ("loss", "dy"): "In the formula s is dy, of a mean dy over the number of losses.",
}
_SHAPES = {
    "pointwise": "Arrays broadcast as in NumPy.",
    "named": "Shapes are those of the formula.",
    "rows_of_indices": "indices have any shape, and what is a row for each has that shape and embedding_dim behind it.",
    "gated": "x has twice the extent of the result along axis; negative axes count from the last.",
    "prelu": "weight has one element, or one for each channel along axis.",
    "repeat": "repeats has a number for each axis, as numpy.tile has it.",
    "scan": "Arrays have one shape; negative axes count from the last. With reverse the scan starts at the other end.",
    "softmax": "Arrays have one shape; negative axes count from the last.",
    "sort": "Negative axes count from the last.",
    "reduce": "axis is one, a tuple of them, or None for all; negative ones count from the last. keepdims leaves them "
    "in the result, of extent 1.",
    "reduce_axes": "axis is one, a tuple of them, or None for all; negative ones count from the last. keepdims leaves "
    "them in the result, of extent 1.",
    "reduce_backward": "axis and keepdims are those of the function, dy and y have its result's shape.",
    "reduce_to": "size broadcasts to the shape of x.",
    "flip": "axis is one, a tuple of them, or None for all; negative ones count from the last.",
    "random": "Results have the shape of the first array.",
    "multinomial": "cdf has the categories along its last axis, the result num_samples indices.",
    "dropout": "Arrays have one shape; a negative channel_axis counts from the last.",
    "roll": "shifts is a number for axis, or for each axis of a tuple; without axis elements move in row-major order.",
    "permute": "dims has every axis of x once, in the order of the result's; negative ones count from the last.",
    "triangle": "x has two axes or more.",
    "pad": "pad_low and pad_high are elements before and behind, a number for each axis or one for all; negative ones "
    "crop.",
    "concat": "Extents are equal but along axis; split_offset is that of a. A negative axis counts from the last.",
    "unfold": "The result has the windows along axis, and their elements along an axis behind all others, as "
    "torch.Tensor.unfold gives them; a negative axis counts from the last.",
    "image_windows": "kernel_size, dilation, padding and stride have a number for each spatial axis, or one for all; "
    "output_size has the spatial extents of the images. With two spatial axes as torch.nn.functional.unfold and fold.",
    "interpolate": "x is (N, C, L), (N, C, H, W) or (N, C, D, H, W), for resize (H, W), (H, W, C) or (N, H, W, C).",
    "grid_sample": "x is (N, C, H, W) or (N, C, D, H, W), grid (N, H', W', 2) or (N, D', H', W', 3).",
    "affine_grid": "theta is (N, 2, 3) or (N, 3, 4), a grid (N, H, W, 2) or (N, D, H, W, 3).",
    "pixel_shuffle": "x has at least three axes.",
    "repeat_interleave": "repeats is one number for all; a negative axis counts from the last, without one elements "
    "are taken in row-major order and the result has one axis.",
    "trace": "x has two axes; the diagonal begins at its first element.",
    "trace_backward": "x has two axes, of which only the extents are read; dy has one element.",
    "norm": "axis is one, or a tuple of them.",
    "loss": "reduction is none, mean or sum, a gradient's that of its function.",
    "matmul": "As numpy.matmul: of arrays of more axes the last two are matrices, the others broadcast.",
    "rope": "x is (..., seq, head_dim) of at most four axes, positions (seq,), or (batch, seq) beside (batch, heads, "
    "seq, head_dim); without positions they count from 0. rotary_dim is head_dim by default.",
    "codes": "Codes and scales are row-major; a result has the leading axes of its array where there are rows.",
    "convolution": "Arrays have the shapes of the description; weight has that of its argument in gradients, too.",
    "fourier": "lengths has a number for each of axes; negative axes count from the last.",
    "cosine": "Negative axes count from the last.",
    "fourier_convolution": "x and w have as many axes; negative axes count from the last.",
    "rope_apply": "x is (..., seq, d), the tables (seq, d / 2), or with the axes before them as well.",
    "rope_apply_thd": "x is (tokens, heads, d), the tables (tokens, d / 2), or (d / 2,) for all.",
    "attention": "q is (batch, heads, rows, d) or without the batch, with tokens_first (batch, rows, heads, d); heads "
    "of q are a multiple of those of k and v. bias and mask broadcast to (batch, heads, queries, keys); slopes and "
    "sinks are f32, an element a head, seed one of i64.",
    "attention_varlen": "q is (rows, heads, d); heads of q are a multiple of those of k and v, offsets are of i32. "
    "slopes and sinks are f32, an element a head, seed one of i64.",
    "causal_conv": "Results have the layout of x; states are (sequences, channels, width - 1). cu_seqlens is of i32.",
    "selective_scan": "Results have the layout of u. a, d_skip, delta_bias and states are f32, cu_seqlens i32.",
    "ssd": "a, d_skip, dt_bias and states are f32, cu_seqlens i32.",
    "state_update": "state, a, d_skip and dt_bias are f32.",
    "quantize_tensor": "x has any shape.",
    "quantize_channels": "Negative axes count from the last.",
    "quantize_tokens": "A token is a row along the last axis.",
    "quantize_groups": "Groups are adjacent elements along the last axis.",
    "quantized_matmul": "x is (..., k), w (n, bytes), bias (n,); the result (..., n).",
    "quantized_linear": "The result has the shape of a with n for its last extent.",
    "integer_product": "The result has the shape of a with n for its last extent.",
    **dict.fromkeys(("pooled", "pooled_to_size", "unpooled"), "Operands may have any strides."),
    "serving": "Operands have the shapes of the description.",
    "regions": "output_size is (height, width), or one number for both.",
    "nms": "indices are i64, count is i32 of one element.",
    "box_pairs": "The result is (rows, columns).",
    "pixels_to_planes": "The part is inside of the images.",
    "planes_to_pixels": "mean and std are of f32.",
    "colors": "Leading axes are images.",
    "frames": "height and width are even.",
    "deform_columns": "kernel_size, stride, padding and dilation are numbers or pairs (height, width).",
    "experts": "Operands have the shapes of the description; integers are i32 but for ids of i64.",
    "recurrent": "Operands have the shapes of the description.",
    "rope_tables": "dy and x have one shape, places along places_axis and features along the last; tables are "
    "(places, d / 2). is_half: pairs are features i and i + d / 2.",
    "linear": "x is (..., k), weight (n, k), bias (n,), the result (..., n).",
    "linear_gated": "x is (..., k), each weight (n, k), the result (..., n).",
    "grouped_gemm": "a is (m, k), b (groups, k, n), offsets (groups + 1,) of i32, the result (m, n). x and weight of "
    "grouped_linear are (m, k) and (groups, n, k).",
    "grouped_gemm_backward": "dy is (m, n), a (m, k), b (groups, k, n), offsets (groups + 1,) of i32. x and weight of "
    "grouped_linear are (m, k) and (groups, n, k).",
    "matmul_backward": "a and b are those of matmul, dy has the shape of its result; gradients are summed over axes "
    "along which an operand was broadcast.",
    "linear_backward": "dy is (..., n), x (..., k), weight (n, k); of an activation behind it dy is the gradient.",
    "channels": "x has items, channels and any other axes; gamma and beta have an element a channel.",
    "accumulated": "The result has the extents of what is added, but size along axis; negative axes count from the "
    "last.",
    "gather": "The result has the shape of index, and x is as long along the other axes, or longer; negative axes "
    "count from the last. What an index outside of x stands for is 0, or what out has there.",
    "index_select": "index has one axis; negative axes count from the last. What an index outside of x stands for is "
    "0, or what out has there.",
    "scatter": "updates and index have one shape, the result has size along axis, and 0 where no index points; given "
    "as out, which may be longer along the other axes, it keeps what it has there. Indices outside of it are skipped.",
    "max_bags": "weight is (num_embeddings, embedding_dim); offsets have a bag's start each, and with "
    "include_last_offset the end of the last one. out_index has their dtype.",
    "sparse_bags": "dout is (bags, embedding_dim); offsets have a bag's start each, and with include_last_offset the "
    "end of the last one. How many rows there are is known on the device alone; behind them rows is -1 and values 0.",
    "weighted_bags": "weight is (num_embeddings, embedding_dim), dout (bags, embedding_dim); offsets have a bag's "
    "start each, and with include_last_offset the end of the last one.",
    "last_offset_bags": "weight is (num_embeddings, embedding_dim), dout (bags, embedding_dim); offsets have a bag's "
    "start each, and the end of the last one.",
    "scatter_backward": "updates and index have one shape; dy, x and y have another extent along axis.",
    "numbered": "Elements are numbered in row-major order. take gives the shape of index, 0 where an index is outside "
    "of x, or what out has there; put and put_add give one axis of size elements, 0 where no index points, or what out "
    "has there.",
    "gather_rows": "table is (rows, columns), index (n,), of u32.",
    "selection": "mask has the shape of the whole. The capacity is max_selected elements, by default all, where "
    "NumPy's arrays have those that there are; how many these are is known on the device alone, and 0 is behind the "
    "last one, or what out has there.",
    "masked_scatter": "The result has the shape of mask, and 0 where it takes no element; given as out it keeps what "
    "it has there.",
    "topk": "The results have k elements along axis; negative axes count from the last. indices are i64, or i32 if out "
    "is.",
    "topk_backward": "dx has size elements along axis; negative axes count from the last.",
    "topk_segments": "x and offsets have one axis; the results are (segments, k), indices of the dtype of offsets.",
    "order_statistic": "axis is one, a tuple of them, or None for all; negative ones count from the last, and indices "
    "count along all of them. keepdims leaves them in the result, of extent 1.",
    "quantile": "q is f64, of any shape, which precedes that of the result. axis is one, a tuple of them, or None for "
    "all; keepdims leaves them in the result, of extent 1.",
    "quantile_backward": "Shapes are those of quantile and its results.",
    "nonzero": "coordinates is (max_nz, rank), of a capacity for all by default, where NumPy's arrays have those "
    "that there are; how many these are is known on the device alone, and rows behind the last one are 0, or what out "
    "has there.",
    "one_hot": "The result has an axis of num_classes behind those of index, and the dtype given.",
    "masked": "Arrays broadcast as in NumPy.",
    "dequantize_blocks": "x is (..., bytes), the result (..., values).",
    "quantize_activations": "x is (..., values), the result (..., bytes).",
    "quantize_blocks": "x is (..., values), importance (values,); the result is (..., bytes).",
    "take_blocks": "x is (num_rows, bytes); the result has the shape of indices and an axis of values.",
    "searchsorted": "sorted_seq has one axis, or the leading axes of values; the result has the shape of values.",
    "isin_sorted": "sorted_seq has one axis; the result has the shape of values.",
    "bins": "x has any shape.",
    "edge_bins": "x has any shape, edges one axis.",
    "unique_runs": "values is (max_unique, ...), first and counts are (max_unique,), inverse is (n,). What is behind "
    "the last run is 0; how many runs there are is known on the device alone.",
    "unique": "values, first and counts are (max_unique,), inverse has the shape of x. What is behind the last element "
    "is 0; how many there are is known on the device alone.",
    "matrices": "Leading axes are batches, which broadcast.",
}
