# SPDX-License-Identifier: Apache-2.0
"""Shape rules of GEMMs. Operands that C cannot read in place, row-major or column-major, are copied."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping
from typing import Any

from baracuda._call.scalars import INT32_MAX, exceeds
from baracuda._functions.shape_rules.call_meta import CallMeta, Shape, ViewAs, as_strided, check_shape, if_contiguous
from baracuda._functions.spec import Spec
from baracuda.errors import InvalidProblemError, UnsupportedError
from baracuda.tensor import TensorRef

RRR, RCR = 0, 1  # C's numbers of the layouts: R row-major, C column-major, in the order a, b, d
_GEMM_LAYOUTS = {(): RRR, ("b",): RCR, ("a",): 2, ("a", "b"): 3}


def matmul(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """numpy.matmul: a of rank 1 is a row, b of rank 1 a column, and the result lacks that axis."""
    a, b = shapes["a"], shapes["b"]
    if not a or not b:
        raise InvalidProblemError(f"{'a' if not a else 'b'} has shape (), must have an axis")
    rows, columns = (a[-2:-1] or (1,))[0], b[-1] if len(b) > 1 else 1
    contracted, contracted_b = a[-1], b[-2] if len(b) > 1 else b[0]
    if contracted != contracted_b:
        raise InvalidProblemError(f"a has shape {a} and b {b}: the sums have {contracted} and {contracted_b} summands")
    batch = batch_of(a, b)
    count = math.prod(batch)
    if exceeds(INT32_MAX, rows, columns, contracted, count):
        raise UnsupportedError(f"a has shape {a} and b {b}: extents of more than {INT32_MAX} are not supported")
    values = {name: int(text) for name, text in spec.fixed.items()}
    values |= {"m": rows, "n": columns, "k": contracted, "batch": count}
    sizes = {"a": (rows, contracted), "b": (contracted, columns), "d": (rows, columns)}
    unused = [p for p in spec.row.params if p.role in ("pitch", "stride") and p.of not in sizes]
    values |= {p.name: max(columns, 1) if p.role == "pitch" else 0 for p in unused}  # of operands that are not there
    result = (*batch, *((rows,) if len(a) > 1 else ()), *((columns,) if len(b) > 1 else ()))
    transposed: set[str] = set()  # column-major operands, which the views report
    op_views = {name: functools.partial(_as_batch, name=name, count=count, size=size, transposed=transposed)
            for name, size in sizes.items()}  # fmt: skip

    def view_scalars(views: dict[str, TensorRef | None]) -> dict[str, Any]:
        layout = _GEMM_LAYOUTS[tuple(sorted(transposed))]
        return {"layout": layout} | {
            f"ld{name}": _pitch(view, *(size[::-1] if name in transposed else size), is_column_major=name in transposed)
            for name, size in sizes.items() if (view := views[name]) is not None
        }  # fmt: skip

    extents: dict[str, Shape] = {name: (count, *size) for name, size in sizes.items()}
    extents |= {p.name: (count, rows, columns) for p in spec.row.pointers if p.name not in sizes}
    stride_axes = {f"stride_{name}": 0 for name in sizes}
    batched = {name: (*batch, *shapes[name][-2:]) for name in "ab"}  # copies are broadcast to these
    return CallMeta(
        values,
        extents,
        {"d": result},
        op_views=op_views,
        stride_axes=stride_axes,
        view_scalars=view_scalars,
        copy_shapes=batched,
    )


def batch_of(a: Shape, b: Shape) -> Shape:
    """The batch axes, to which both operands broadcast."""
    found: list[Any] = []
    for have in (a[:-2], b[:-2]):
        found[:0] = [1] * (len(have) - len(found))
        for axis, extent in enumerate(have, len(found) - len(have)):
            if extent == 1 or extent == found[axis]:
                continue
            if found[axis] != 1:
                raise InvalidProblemError(f"a has shape {a} and b {b}: the axes before the last two do not broadcast")
            found[axis] = extent
    return tuple(found)


def matmul_backward(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """Gradients of matmul with equal batch axes in a and b; all operands are row-major."""
    a, b = shapes["a"], shapes["b"]
    if len(a) < 2 or len(b) < 2 or a[:-2] != b[:-2] or a[-1] != b[-2]:
        raise InvalidProblemError(f"a has shape {a} and b {b}, expected (..., m, k) and (..., k, n)")
    batch, (rows, contracted), columns = a[:-2], a[-2:], b[-1]
    check_shape("dy", shapes["dy"], (*batch, rows, columns))
    count = math.prod(batch)
    if exceeds(INT32_MAX, rows, columns, contracted, count):
        raise UnsupportedError(f"a has shape {a} and b {b}: extents of more than {INT32_MAX} are not supported")
    values = {name: int(text) for name, text in spec.fixed.items()}
    values |= {"m": rows, "n": columns, "k": contracted, "batch": count, "layout": RRR}
    sizes = {"dd": (rows, columns), "a": (rows, contracted), "b": (contracted, columns)}
    op_views: dict[str, Any] = {name: functools.partial(_as_batch, name=name, count=count, size=size, transposed={name})
                            for name, size in sizes.items()}  # fmt: skip

    def view_scalars(views: dict[str, TensorRef | None]) -> dict[str, Any]:
        return {
            f"ld{name}": max(size[1], 1)
            if (view := views[name]) is None
            else _pitch(view, *size, is_column_major=False)
            for name, size in sizes.items()
        }

    op_views |= dict.fromkeys(("da", "db"), if_contiguous)
    extents: dict[str, Shape] = {**{name: (count, *size) for name, size in sizes.items()}, "da": a, "db": b}
    stride_axes = {f"stride_{name}": 0 for name in sizes}
    return CallMeta(
        values, extents, {"da": a, "db": b}, op_views=op_views, stride_axes=stride_axes, view_scalars=view_scalars
    )


def linear(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """x has rank 1 or more; weight is (n, k)."""
    return _linear(spec, shapes, {"weight": "b"}, {"bias": "bias"})


def linear_gated(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """linear with two weights of one pitch."""
    weights = {"weight": "b1", "up_weight": "b2"}
    layout = _linear(spec, shapes, weights, {"bias": "bias1", "up_bias": "bias2"})
    layout.op_views = {**layout.op_views, **dict.fromkeys(weights.values(), if_contiguous)}
    return layout


def _linear(spec: Spec, shapes: Mapping[str, Shape], weights: Mapping[str, str], biases: Mapping[str, str]) -> CallMeta:
    """`weights` and `biases` map names of arguments to C's."""
    x, weight = shapes["x"], shapes["weight"]
    if not x or len(weight) != 2 or weight[1] != x[-1]:
        raise InvalidProblemError(f"x has shape {x} and weight {weight}, expected (..., k) and (n, k)")
    rows, contracted, columns = math.prod(x[:-1]), x[-1], weight[0]
    for name in weights:
        check_shape(name, shapes[name], weight)
    for name in biases:
        if name in shapes:
            check_shape(name, shapes[name], (columns,))
    if exceeds(INT32_MAX, rows, contracted, columns):
        raise UnsupportedError(f"x has shape {x}: extents of more than {INT32_MAX} are not supported")
    sizes = {p.of: (rows, columns) for p in spec.row.params if p.role == "pitch"} | {"a": (rows, contracted)}
    sizes |= dict.fromkeys(weights.values(), (columns, contracted))
    values = {name: int(text) for name, text in spec.fixed.items()} | {"m": rows, "n": columns, "k": contracted}
    values |= {p.name: 0 for p in spec.row.params if p.role == "stride"}  # there is no batch
    op_views = {name: functools.partial(_as_matrix, size=size) for name, size in sizes.items()}

    def view_scalars(views: dict[str, TensorRef | None]) -> dict[str, Any]:
        return {
            f"ld{name}": max(size[1], 1) if (view := views.get(name)) is None
            else _pitch(view, *size, is_column_major=False)
            for name, size in sizes.items()
        }  # fmt: skip

    extents: dict[str, Shape] = {**sizes, **dict.fromkeys(biases.values(), (columns,))}
    extents |= {p.name: (rows if p.shape == "m" else columns,) for p in spec.row.pointers if p.name not in extents}
    results = {output.pointer: (*x[:-1], columns) for output in spec.outputs}
    return CallMeta(values, extents, results, op_views=op_views, view_scalars=view_scalars)


def linear_backward(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """Gradients of linear."""
    dy, x, weight = shapes["dy"], shapes["x"], shapes["weight"]
    if not x or len(weight) != 2 or weight[1] != x[-1]:
        raise InvalidProblemError(f"x has shape {x} and weight {weight}, expected (..., k) and (n, k)")
    check_shape("dy", dy, (*x[:-1], weight[0]))
    values = {"m": math.prod(x[:-1]), "n": weight[0], "k": x[-1]}
    if exceeds(INT32_MAX, *values.values()):
        raise UnsupportedError(f"x has shape {x}: extents of more than {INT32_MAX} are not supported")
    extents: dict[str, Shape] = {
        "dy": dy, "x": x, "weight": weight, "dx": x, "dweight": weight, "dbias": weight[:1],
    }  # fmt: skip
    results = {name: extents[name] for name in ("dx", "dweight", "dbias")}
    return CallMeta(values, extents, results, op_views=dict.fromkeys(extents, if_contiguous))


def grouped(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """Grouped GEMM: each group of rows of a has its matrix of b, row-major or column-major."""
    if "weight" in shapes:
        return _grouped_linear(spec, shapes)
    values = {name: int(text) for name, text in spec.fixed.items()} | _groups(shapes)
    rows, columns, contracted, groups = (values[name] for name in ("m", "n", "k", "groups"))
    sizes = {"a": (rows, contracted), "b": (contracted, columns), "d": (rows, columns)}
    transposed: set[str] = set()
    op_views = {name: functools.partial(_as_matrix, size=sizes[name]) for name in "ad"}
    op_views["b"] = functools.partial(_as_batch, name="b", count=groups, size=sizes["b"], transposed=transposed)

    def view_scalars(views: dict[str, TensorRef | None]) -> dict[str, Any]:
        return {"layout": RCR if transposed else RRR} | {
            f"ld{name}": _pitch(view, *(size[::-1] if name in transposed else size), is_column_major=name in transposed)
            for name, size in sizes.items() if (view := views[name]) is not None
        }  # fmt: skip

    extents: dict[str, Shape] = {**sizes, "b": (groups, *sizes["b"]), "offsets": (groups + 1,)}
    return CallMeta(
        values,
        extents,
        {"d": (rows, columns)},
        op_views=op_views,
        stride_axes={"stride_b": 0},
        view_scalars=view_scalars,
    )


def grouped_backward(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """Gradients of grouped_gemm; all operands are row-major."""
    if "weight" in shapes:
        return _grouped_linear(spec, shapes)
    values = _groups(shapes) | {"layout": RRR}
    rows, columns, contracted, groups = (values[name] for name in ("m", "n", "k", "groups"))
    check_shape("dy", shapes["dy"], (rows, columns))
    sizes = {"dd": (rows, columns), "a": (rows, contracted), "b": (contracted, columns)}
    op_views: dict[str, ViewAs] = {name: functools.partial(_as_matrix, size=sizes[name]) for name in ("dd", "a")}
    # {"b"}: column-major matrices are refused
    op_views["b"] = functools.partial(_as_batch, name="b", count=groups, size=sizes["b"], transposed={"b"})

    def view_scalars(views: dict[str, TensorRef | None]) -> dict[str, Any]:
        return {
            f"ld{name}": max(size[1], 1)
            if (view := views[name]) is None
            else _pitch(view, *size, is_column_major=False)
            for name, size in sizes.items()
        }

    shape_b = (groups, *sizes["b"])
    extents: dict[str, Shape] = {**sizes, "b": shape_b, "offsets": (groups + 1,), "da": sizes["a"], "db": shape_b}
    op_views |= dict.fromkeys(("da", "db"), if_contiguous)
    return CallMeta(
        values,
        extents,
        {"da": sizes["a"], "db": shape_b},
        op_views=op_views,
        stride_axes={"stride_b": 0},
        view_scalars=view_scalars,
    )


def _grouped_linear(spec: Spec, shapes: Mapping[str, Shape]) -> CallMeta:
    """grouped_linear and its gradients: weights are (groups, n, k), and all operands row-major and contiguous."""
    x, weight = shapes["x"], shapes["weight"]
    if len(x) != 2 or len(weight) != 3 or weight[2] != x[1]:
        raise InvalidProblemError(f"x has shape {x} and weight {weight}, expected (m, k) and (groups, n, k)")
    check_shape("offsets", shapes["offsets"], (weight[0] + 1,))
    if exceeds(INT32_MAX, *x, *weight):
        raise UnsupportedError(f"x has shape {x} and weight {weight}: extents above {INT32_MAX} are not supported")
    (rows, contracted), (groups, columns, _) = x, weight
    if "dy" in shapes:
        check_shape("dy", shapes["dy"], (rows, columns))
    values = {name: int(text) for name, text in spec.fixed.items()}
    values |= {"m": rows, "n": columns, "k": contracted, "groups": groups, "layout": RCR}
    values |= {"lda": max(contracted, 1), "ldb": max(contracted, 1), "stride_b": columns * contracted}
    values |= dict.fromkeys(("ldd", "lddd"), max(columns, 1))
    extents: dict[str, Shape] = {
        **dict.fromkeys(("a", "da"), x), **dict.fromkeys(("b", "db"), weight),
        **dict.fromkeys(("d", "dd"), (rows, columns)), "offsets": (groups + 1,),
    }  # fmt: skip
    names = {p.name for p in spec.row.params}
    extents = {name: shape for name, shape in extents.items() if name in names}
    return CallMeta(
        {name: value for name, value in values.items() if name in names}, extents,
        {output.pointer: extents[output.pointer] for output in spec.outputs},
        op_views=dict.fromkeys(extents, if_contiguous),
    )  # fmt: skip


def _groups(shapes: Mapping[str, Shape]) -> dict[str, int]:
    a, b = shapes["a"], shapes["b"]
    if len(a) != 2 or len(b) != 3 or b[1] != a[1]:
        raise InvalidProblemError(f"a has shape {a} and b {b}, expected (m, k) and (groups, k, n)")
    check_shape("offsets", shapes["offsets"], (b[0] + 1,))
    if exceeds(INT32_MAX, *a, *b):
        raise UnsupportedError(f"a has shape {a} and b {b}: extents of more than {INT32_MAX} are not supported")
    return {"m": a[0], "n": b[2], "k": a[1], "groups": b[0]}


def _is_row_major(strides: tuple[int, ...], rows: int, columns: int) -> bool:
    """Whether a matrix is row-major: unit stride in a row, and rows that do not overlap."""
    return (strides[-1] == 1 or columns <= 1) and (strides[-2] >= columns or rows <= 1)


def _pitch(view: TensorRef, rows: int, columns: int, *, is_column_major: bool) -> int:
    """Leading dimension; for a column-major matrix, `rows` and `columns` are those of its transpose."""
    step = view.strides[-1 if is_column_major else -2]
    return max(step, columns, 1) if rows > 1 else max(columns, 1)


def _merged_stride(shape: Shape, strides: tuple[int, ...]) -> int | None:
    """The stride of all axes merged into one; None if they cannot be merged."""
    pairs = [(stride, extent) for stride, extent in zip(strides, shape) if extent != 1]
    if not math.prod(shape):
        return 1
    if any([outer[0] != inner[0] * inner[1] for outer, inner in itertools.pairwise(pairs)]):
        return None
    return pairs[-1][0] if pairs else 0


def _as_batch(view: TensorRef, *, name: str, count: int, size: Shape, transposed: set[str]) -> TensorRef | None:
    """The view with one batch axis and row-major matrices, or column-major ones if C has such a layout, else None."""
    rows, columns = size
    strides = view.strides[-2:]
    if len(view.shape) < 2:  # a vector operand, or the result of one
        strides = (columns, *view.strides) if rows == 1 else (*view.strides, 1)
    batch = view.shape[:-2]
    if name == "d":  # the result may lack an axis of extent 1
        batch, strides = _batch_of_result(view, size)
    step = _merged_stride(batch, view.strides[: len(batch)])
    if math.prod(batch) not in (1, count) or step is None or (name == "d" and step == 0 and count > 1):
        return None
    if not _is_row_major(strides, rows, columns):
        may_transpose = name != "d" and name not in transposed
        if not may_transpose or not _is_row_major(strides[::-1], columns, rows):
            return None
        transposed.add(name)
    return as_strided(view, (count, *size), (step if math.prod(batch) > 1 else 0 if name != "d" else step, *strides))


def _batch_of_result(view: TensorRef, size: Shape) -> tuple[Shape, tuple[int, ...]]:
    rows, columns = size
    if view.shape[-2:] == size and len(view.shape) > 1:
        return view.shape[:-2], view.strides[-2:]
    if view.shape[-1:] == (columns,) and rows == 1 and view.shape:
        return view.shape[:-1], (columns, view.strides[-1])
    if view.shape[-1:] == (rows,) and columns == 1 and view.shape:
        return view.shape[:-1], (view.strides[-1], 1)
    return view.shape, (1, 1)


def _as_matrix(view: TensorRef, *, size: Shape) -> TensorRef | None:
    """A matrix whose rows are all axes but the last, merged; None if it is not row-major."""
    step = _merged_stride(view.shape[:-1], view.strides[:-1])
    if step is None:
        return None
    strides = (step, view.strides[-1])
    return as_strided(view, size, strides) if _is_row_major(strides, *size) else None
