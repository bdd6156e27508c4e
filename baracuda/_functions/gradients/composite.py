# SPDX-License-Identifier: Apache-2.0
"""Composite gradients: those without a row in the op table, made of calls of other functions, for PyTorch and JAX.

Arrays are the framework's own, with its operators; functions of this package are called by name.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from baracuda._functions.gradients import fourier, linear_algebra, spectral
from baracuda._functions.spec import specs
from baracuda.dtypes import ElementKind

Call = Callable[..., Any]  # calls a function by its name
Given = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class CompositeGradient:
    """A gradient, computed by `of` from a caller of functions and the values by name: numbers, dy, `reads`, `shaped`.

    reads     arguments and results of the function that it reads
    shaped    arrays of which it uses the shape only
    outputs   the arguments whose gradients it gives, in order; several are a tuple
    incoming  incoming gradients -> positions of the results that they belong to
    is_complex  whether arrays may be complex: gradients are those of PyTorch, the conjugates of JAX's
    """

    of: Callable[[Call, Given], Any]
    reads: tuple[str, ...] = ()
    shaped: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ("x",)
    incoming: Mapping[str, int] = dataclasses.field(default_factory=lambda: {"dy": 0})
    is_complex: bool = False
    numbers = ()
    is_partial = False


# --- helpers ----------------------------------------------------------------------------------------------------------


def _iota(call: Call, like: Any) -> Any:
    """1, 2, 3 ... as i64, one for each element of an array."""
    flat = like.reshape(-1)
    ones = call("logical_not", call("gt", flat, flat))  # also true for NaN
    return call("cumsum", call("cast", ones, ElementKind.I64), axis=0)


def _zeros(call: Call, like: Any) -> Any:
    return call("cast", call("gt", like, like), like.dtype)


def _gather_or_zero(call: Call, dy: Any, index: Any, size: Any, axis: int) -> Any:
    """gather along an axis, with 0 for an index out of range."""
    gathered = call("gather", dy, index, axis=axis)
    return call("masked_fill", gathered, (index < 0) | (index >= size), 0)


# --- indexing ---------------------------------------------------------------------------------------------------------


def _scatter_add(call: Call, given: Given) -> Any:
    return _gather_or_zero(call, given["dy"], given["index"], given["size"], given["axis"])


def _index_add(call: Call, given: Given) -> Any:
    dy, index, axis = given["dy"], given["index"], given["axis"]
    gathered = call("index_select", dy, index, axis=axis)
    trailing = len(dy.shape) - 1 - axis % len(dy.shape)
    is_outside = (index < 0) | (index >= given["size"])
    return call("masked_fill", gathered, is_outside.reshape(-1, *(1,) * trailing), 0)


def _scatter(call: Call, given: Given) -> Any:
    """An update gets the gradient of its target if its value is the one that remained."""
    index, size, axis = given["index"], given["size"], given["axis"]
    number = _iota(call, index).reshape(index.shape)
    last_writer = call("gather", call("scatter", index, number, size, axis=axis), index, axis=axis)
    gathered = _gather_or_zero(call, given["dy"], index, size, axis)
    return call("masked_fill", gathered, call("ne", last_writer, number), 0)


def _of_flattened(along_axis: Callable[[Call, Given], Any]) -> Callable[[Call, Given], Any]:
    """The gradient for updates of a flattened array."""

    def of(call: Call, given: Given) -> Any:
        index = given["index"]
        return along_axis(call, {**given, "index": index.reshape(-1), "axis": 0}).reshape(index.shape)

    return of


def _take(call: Call, given: Given) -> Any:
    shape = given["x"].shape
    return call("put_add", given["index"], given["dy"], math.prod(shape)).reshape(shape)


def _gather_rows(call: Call, given: Given) -> Any:
    index = call("cast", given["index"], ElementKind.I32)  # u32 above the range of i32 become negative: skipped
    return call("index_add", index, given["dy"], given["table"].shape[0], axis=0)


def _masked_scatter(call: Call, given: Given) -> Any:
    shape = given["source"].shape
    capacity = math.prod(shape)
    gathered, count = call("masked_select", given["dy"], given["mask"], max_selected=capacity)
    return call("masked_fill", gathered, _iota(call, gathered) > count, 0).reshape(shape)


def _scatter_reduce(call: Call, given: Given) -> Any:
    y = given["y"]
    numbers = {name: given[name] for name in ("axis", "reduce", "include_self")}
    arrays = (given["dy"], _zeros(call, y), given["x"], given["index"], y)
    return call("scatter_reduce_backward", *arrays, needs=[False, True], **numbers)[1]


def _or_zero(op: str) -> CompositeGradient:
    """Gradient of segment max and min; empty segments contribute nothing."""
    return CompositeGradient(
        lambda call, given: call(f"segment_{op}_backward", given["dy"], given["x"], given["segment_ids"]),
        ("x", "segment_ids"),
    )


def _bag_weights(call: Call, given: Given) -> Any:
    numbers = {name: given[name] for name in ("include_last_offset", "padding_idx")}
    arrays = [given[name] for name in ("dy", "weight", "indices", "offsets")]
    return call("embedding_bag_weights_backward", *arrays, **numbers)


# --- attention --------------------------------------------------------------------------------------------------------


def _tables(name: str) -> dict[str, CompositeGradient]:
    """Gradients of the cos and sin tables of rope_apply, summed over the rows that share a table."""
    is_half, has_tokens = "half" in name, "thd" in name

    def of(which: str) -> Callable[[Call, Given], Any]:
        def table(call: Call, given: Given) -> Any:
            dy, x, own = given["dy"], given["x"], given[which]
            shape = x.shape if not has_tokens or len(own.shape) == 2 else (1, -1, x.shape[-1])
            axis = 0 if has_tokens else -2
            if not has_tokens and len(own.shape) > 2:  # a table for each row
                shape, axis = (-1, 1, x.shape[-1]), 0
            needs = [which == "cos", which == "sin"]
            found = call("rope_tables_backward", dy.reshape(shape), x.reshape(shape), places_axis=axis, is_half=is_half,
                         needs=needs)[needs.index(True)].reshape(own.shape)  # fmt: skip
            return found if found.dtype == own.dtype else call("cast", found, own.dtype)

        return table

    return {which: CompositeGradient(of(which), ("x", which)) for which in ("cos", "sin")}


# --- targets of losses ------------------------------------------------------------------------------------------------


def _share(given: Given, summands: int) -> Any:
    """dy of each summand."""
    return given["dy"] / summands if given["reduction"] == "mean" else given["dy"]


def _focal(call: Call, given: Given) -> Any:
    """Gradient of a m^gamma c by the target; c is the binary cross entropy, and a, m and c are linear in the target."""
    dtype = given["x"].dtype
    x, t = (call("cast", given[name], _accumulator_dtype(dtype)) for name in ("x", "target"))
    alpha, gamma = given["alpha"], given["gamma"]
    p, q = call("sigmoid", x), call("sigmoid", -x)
    a, of_a = (1, 0) if alpha < 0 else (alpha * t + (1 - alpha) * (1 - t), 2 * alpha - 1)
    m = p * (1 - t) + q * t
    c = call("binary_cross_entropy_with_logits", x, t, reduction="none")
    power = m**gamma
    found = power * (of_a * c - a * x)
    if gamma:
        found = found + gamma * m ** (gamma - 1) * (q - p) * a * c
    return call("cast", found * _share(given, math.prod(x.shape)), dtype)


def _accumulator_dtype(dtype: Any) -> Any:
    return ElementKind.F64 if "64" in str(dtype) else ElementKind.F32


# Functions with a gradient in the op table -> composite gradients of their further arguments.
SEPARATE: dict[str, dict[str, CompositeGradient]] = {
    "embedding_bag_weighted": {"per_sample_weights": CompositeGradient(_bag_weights, ("weight", "indices", "offsets"))},
    "dropout": {"residual": CompositeGradient(lambda _, given: given["dy"], (), (), ("residual",))},
    "sigmoid_focal_loss": {"target": CompositeGradient(_focal, ("x", "target"))},
    **{name: _tables(name) for name in specs() if name.startswith("rope_apply") and "_backward" not in name},
}


def _of_bias(backward: str) -> CompositeGradient:
    def of(call: Call, given: Given) -> Any:
        whole = call(backward, given["dy"], given["y"], axis=given["axis"], scale=1.0)
        return call("sum_to_size", whole, list(given["bias"].shape))

    return CompositeGradient(of, ("y",), ("bias",))


for _name in ("masked_softmax", "masked_log_softmax"):
    SEPARATE[_name] = {"bias": _of_bias(f"{_name}_backward")}


# --- several results or arguments -------------------------------------------------------------------------------------


def _of_moments(statistic: str) -> CompositeGradient:
    """Gradient of (variance or standard deviation, mean)."""

    def of(call: Call, given: Given) -> Any:
        axes = {name: given[name] for name in ("axis", "keepdims")}
        of_statistic = call(f"{statistic}_backward", given["dy"], given["x"], correction=given["correction"], **axes)
        return call("add", of_statistic, call("mean_backward", given["dmean"], given["x"], **axes))

    return CompositeGradient(of, ("x",), incoming={"dy": 0, "dmean": 1})


def _of_extreme(call: Call, given: Given) -> Any:
    """Gradient of an extreme: dy at its index; `indices` count along the reduced axes, flattened."""
    shape, axis = tuple(given["x"].shape), given["axis"]
    listed = range(len(shape)) if axis is None else [axis] if isinstance(axis, int) else axis
    axes = sorted([a % len(shape) for a in listed])
    kept = [a for a in range(len(shape)) if a not in axes]
    one = (*[shape[a] for a in kept], 1)
    size = math.prod([shape[a] for a in axes])
    scattered = call("gather_backward", given["dy"].reshape(one), given["indices"].reshape(one), size, axis=-1)
    order = [*kept, *axes]
    return call("permute", scattered.reshape([shape[a] for a in order]), [order.index(a) for a in range(len(shape))])


def _of_fixed_statistics(call: Call, given: Given) -> Any:
    """Gradient of batch norm with fixed statistics: dx = dy gamma inv_std, and the gradients of gamma and beta are
    those of training."""
    x, mean, var = [given[name] for name in ("x", "running_mean", "running_var")]
    gamma = given.get("gamma")
    options = {"channels_last": given["channels_last"]}
    dx = call("batch_norm_inference", given["dy"], 0 * mean, var, gamma, eps=given["eps"], **options)
    inv_std = call("rsqrt", var + given["eps"])
    return dx, *call("batch_norm_training_backward", given["dy"], x, mean, inv_std, gamma, **options)[1:]


def _of_sort(call: Call, given: Given) -> Any:
    """Gradient of sorted values: dy at the indices of the sort."""
    dy, axis = given["dy"], given["axis"]
    indices = given.get("indices")
    if indices is None:
        indices = call("argsort", given["x"], axis=axis, descending=given["descending"])
    return call("scatter", indices, dy, dy.shape[axis], axis=axis)


# --- eigenvalues and singular values ----------------------------------------------------------------------------------


def spectral_gradients() -> dict[str, CompositeGradient]:
    def of(gradient: Callable[[Call, Given], Any], *reads: str, **incoming: int) -> CompositeGradient:
        return CompositeGradient(gradient, reads, (), ("a",), {"dy": 0, **incoming}, is_complex=True)

    return {
        "linalg_eigh": of(spectral.of_eigh, "w", "v", dv=1), "linalg_eigvalsh": of(spectral.of_eigvalsh, "a"),
        "linalg_eig": of(spectral.of_eig, "a", "w", "v", dv=1), "linalg_eigvals": of(spectral.of_eigvals, "a"),
        "linalg_svd": of(spectral.of_svd, "u", "s", "vh", ds=1, dvh=2),
        "linalg_svdvals": of(spectral.of_svdvals, "a"), "linalg_pinv": of(spectral.of_pinv, "a", "y"),
        "linalg_polar": of(spectral.of_polar, "a", dp=1), "linalg_polar_unitary": of(spectral.of_polar, "a"),
    }  # fmt: skip


def direct_gradients() -> dict[str, CompositeGradient]:
    """Those of factorisations and solutions."""
    of, matrices = linear_algebra, ("a",)

    def made(gradient: Callable[[Call, Given], Any], reads: str, to: Sequence[str] = matrices, shaped: str = "",
             **incoming: int) -> CompositeGradient:  # fmt: skip
        return CompositeGradient(
            gradient, tuple(reads.split()), tuple(shaped.split()), tuple(to), incoming or {"dy": 0}, is_complex=True
        )

    return {
        "linalg_solve": made(of.solve, "a x", ("a", "b"), "b"), "linalg_inv": made(of.inverse, "x"),
        "linalg_det": made(of.determinant, "a det"),
        "linalg_slogdet": made(of.log_determinant, "a sign", dy=0, dlogabsdet=1),
        "linalg_cholesky": made(of.cholesky, "l"), "linalg_qr": made(of.qr, "a q r", dy=0, dr=1),
        "linalg_solve_triangular": made(of.triangular, "a x", ("a", "b"), "b"),
        "linalg_cholesky_solve": made(of.cholesky_solve, "l x", ("l", "b"), "b"),
        "linalg_lu": made(of.lu, "p l u", dl=1, du=2), "linalg_lu_factor": made(of.lu_factor, "a lu pivots"),
        "linalg_lu_solve": made(of.lu_solve, "lu pivots x", ("lu", "b"), "b"),
        "linalg_lstsq": made(spectral.of_lstsq, "a b", ("a", "b")), "linalg_matrix_exp": made(of.exponential, "a"),
        "linalg_matmul": made(of.matmul, "a b", ("a", "b")),
        "linalg_householder_product": made(of.householder_product, "v tau", ("v", "tau")),
        "linalg_ormqr": made(of.ormqr, "v tau c", ("v", "tau", "c")),
    }  # fmt: skip


# Functions whose composite gradient takes several incoming gradients or gives several.
JOINT = {
    **spectral_gradients(),
    **{f"{statistic}_mean": _of_moments(statistic) for statistic in ("var", "std")},
    **dict.fromkeys(
        ("argmax_with_value", "argmin_with_value", "kthvalue", "median", "nanmedian", "mode"),
        CompositeGradient(_of_extreme, ("indices",), ("x",)),
    ),
    "fft_c2c": CompositeGradient(fourier.complex_to_complex, (), ("x",), is_complex=True),
    "fft_r2c": CompositeGradient(fourier.real_to_complex, (), ("x",), is_complex=True),
    "fft_c2r": CompositeGradient(fourier.complex_to_real, (), ("x",), is_complex=True),
    "fft_cosine": CompositeGradient(fourier.cosine, (), ("x",)),
    "fft_convolve": CompositeGradient(fourier.convolution, ("x", "w"), outputs=("x", "w")),
    "sort_with_indices": CompositeGradient(_of_sort, ("indices",)),
    "batch_norm_inference": CompositeGradient(
        _of_fixed_statistics, ("x", "running_mean", "running_var", "gamma"), outputs=("x", "gamma", "beta")
    ),
    **direct_gradients(),
}  # fmt: skip


# --- from the op table ------------------------------------------------------------------------------------------------


def _negate(given: Any) -> Any:
    return -given if isinstance(given, int) else [-number for number in given]


def _invert_permutation(dims: Sequence[int]) -> list[int]:
    axes = [d % len(dims) for d in dims]
    return [axes.index(d) for d in range(len(axes))]


# Rules of the table's `gradient` for the numbers of a gradient, from those of its function.
_NUMBER_RULES: dict[str, Callable[[Any], Any]] = {"": lambda given: given, "-": _negate, "inverse": _invert_permutation}


def _by_row(name: str, numbers: Sequence[tuple[str, str, str]]) -> CompositeGradient:
    """The gradient is another function, named by the row."""

    def of(call: Call, given: Given) -> Any:
        values = {number: _NUMBER_RULES[how](given[of]) for number, how, of in numbers}
        positional = [values.pop(argument.name) for argument in specs()[name].positional[1:]]
        return call(name, given["dy"], *positional, **values)

    return CompositeGradient(of)


# Functions without a gradient row -> composite gradients by argument.
COMPOSITE_GRADIENTS: dict[str, dict[str, CompositeGradient]] = {
    "affine": {"x": CompositeGradient(lambda call, given: call("affine", given["dy"], given["scale"]))},
    "index_add": {"x": CompositeGradient(_index_add, ("index",))},
    "scatter_add": {"x": CompositeGradient(_scatter_add, ("index",))},
    "scatter_reduce": {"x": CompositeGradient(_scatter_reduce, ("x", "index", "y"))},
    "scatter": {"updates": CompositeGradient(_scatter, ("index",))},
    "put": {"updates": CompositeGradient(_of_flattened(_scatter), ("index",))},
    "put_add": {"updates": CompositeGradient(_of_flattened(_scatter_add), ("index",))},
    "sort": {"x": CompositeGradient(_of_sort, ("x",))},
    "take": {"x": CompositeGradient(_take, ("index",), ("x",))},
    "gather_rows": {"table": CompositeGradient(_gather_rows, ("index",), ("table",))},
    "masked_scatter": {"source": CompositeGradient(_masked_scatter, ("mask",), ("source",))},
    **{f"segment_{op}_or_zero": {"x": _or_zero(op)} for op in ("max", "min")},
    **{
        name: {"x": _by_row(*spec.row.gradient)}
        for name, spec in specs().items()
        if spec.row.gradient and not name.endswith("_backward")  # a row may have functions and gradients
    },
}
