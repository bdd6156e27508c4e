"""Layouts of products of matrices. Rows and columns that are neighbours are taken as they lie, others are copied."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping
from typing import Any

from baracuda._functions.layout import Layout, Shape, check_shape, contiguous, viewed
from baracuda._functions.spec import Spec
from baracuda._scalars import INT32_MAX, exceeds
from baracuda.errors import InvalidProblemError, UnsupportedError
from baracuda.tensor import TensorRef

RRR, RCR = 0, 1  # as C numbers what lies by columns: nothing, or b
_LAYOUTS = {(): RRR, ("b",): RCR, ("a",): 2, ("a", "b"): 3}


def matmul(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> Layout:
    """As numpy.matmul: an operand of rank 1 is a row on the left and a column on the right, which the result lacks."""
    a, b = shapes["a"], shapes["b"]
    if not a or not b:
        raise InvalidProblemError(f"{'a' if not a else 'b'} has shape (), must have an axis")
    rows, columns = (a[-2:-1] or (1,))[0], b[-1] if len(b) > 1 else 1
    terms, others = a[-1], b[-2] if len(b) > 1 else b[0]
    if terms != others:
        raise InvalidProblemError(f"a has shape {a} and b {b}: the sums have {terms} and {others} terms")
    batch = batch_of(a, b)
    count = math.prod(batch)
    if exceeds(INT32_MAX, rows, columns, terms, count):
        raise UnsupportedError(f"a has shape {a} and b {b}: extents of more than {INT32_MAX} are not supported")
    values = {name: int(text) for name, text in spec.fixed.items()}
    values |= {"m": rows, "n": columns, "k": terms, "batch": count}
    sizes = {"a": (rows, terms), "b": (terms, columns), "d": (rows, columns)}
    result = (*batch, *((rows,) if len(a) > 1 else ()), *((columns,) if len(b) > 1 else ()))
    turned: set[str] = set()  # what lies by columns
    seen = {name: functools.partial(_matrices, name=name, count=count, size=size, turned=turned)
            for name, size in sizes.items()}  # fmt: skip

    def place(views: dict[str, TensorRef | None]) -> dict[str, Any]:
        layout = _LAYOUTS[tuple(sorted(turned))]
        return {"layout": layout} | {
            f"ld{name}": _pitch(view, *(size[::-1] if name in turned else size), by_columns=name in turned)
            for name, size in sizes.items() if (view := views[name]) is not None
        }  # fmt: skip

    extents: dict[str, Shape] = {name: (count, *size) for name, size in sizes.items()}
    steps = {f"stride_{name}": 0 for name in sizes}
    wholes = {name: (*batch, *shapes[name][-2:]) for name in "ab"}  # of a copy, where some of these axes broadcast
    return Layout(values, extents, {"d": result}, seen=seen, steps=steps, place=place, spreads=wholes)


def batch_of(a: Shape, b: Shape) -> Shape:
    """The axes before those of matrices, to which both operands broadcast."""
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


def matmul_backward(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> Layout:
    """Gradients of matmul of as many matrices a as b, by rows."""
    a, b = shapes["a"], shapes["b"]
    if len(a) < 2 or len(b) < 2 or a[:-2] != b[:-2] or a[-1] != b[-2]:
        raise InvalidProblemError(f"a has shape {a} and b {b}, expected (..., m, k) and (..., k, n)")
    batch, (rows, terms), columns = a[:-2], a[-2:], b[-1]
    check_shape("dy", shapes["dy"], (*batch, rows, columns))
    count = math.prod(batch)
    if exceeds(INT32_MAX, rows, columns, terms, count):
        raise UnsupportedError(f"a has shape {a} and b {b}: extents of more than {INT32_MAX} are not supported")
    values = {name: int(text) for name, text in spec.fixed.items()}
    values |= {"m": rows, "n": columns, "k": terms, "batch": count, "layout": RRR}
    sizes = {"dd": (rows, columns), "a": (rows, terms), "b": (terms, columns)}
    seen: dict[str, Any] = {name: functools.partial(_matrices, name=name, count=count, size=size, turned={name})
                            for name, size in sizes.items()}  # fmt: skip

    def place(views: dict[str, TensorRef | None]) -> dict[str, Any]:
        return {
            f"ld{name}": max(size[1], 1) if (view := views[name]) is None else _pitch(view, *size, by_columns=False)
            for name, size in sizes.items()
        }

    seen |= dict.fromkeys(("da", "db"), contiguous)
    extents: dict[str, Shape] = {**{name: (count, *size) for name, size in sizes.items()}, "da": a, "db": b}
    steps = {f"stride_{name}": 0 for name in sizes}
    return Layout(values, extents, {"da": a, "db": b}, seen=seen, steps=steps, place=place)


def linear(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> Layout:
    """x of any rank from 1 on, a row of weight for each result."""
    return _linear(spec, shapes, {"weight": "b"}, {"bias": "bias"})


def linear_gated(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> Layout:
    """linear with two weights, whose rows C takes to lie equally far apart."""
    weights = {"weight": "b1", "up_weight": "b2"}
    layout = _linear(spec, shapes, weights, {"bias": "bias1", "up_bias": "bias2"})
    layout.seen = {**layout.seen, **dict.fromkeys(weights.values(), contiguous)}
    return layout


def _linear(spec: Spec, shapes: Mapping[str, Shape], weights: Mapping[str, str], biases: Mapping[str, str]) -> Layout:
    """`weights` and `biases`: names of arguments -> C's."""
    x, weight = shapes["x"], shapes["weight"]
    if not x or len(weight) != 2 or weight[1] != x[-1]:
        raise InvalidProblemError(f"x has shape {x} and weight {weight}, expected (..., k) and (n, k)")
    rows, terms, columns = math.prod(x[:-1]), x[-1], weight[0]
    for name in weights:
        check_shape(name, shapes[name], weight)
    for name in biases:
        if name in shapes:
            check_shape(name, shapes[name], (columns,))
    if exceeds(INT32_MAX, rows, terms, columns):
        raise UnsupportedError(f"x has shape {x}: extents of more than {INT32_MAX} are not supported")
    sizes = {p.of: (rows, columns) for p in spec.row.params if p.role == "pitch"} | {"a": (rows, terms)}
    sizes |= dict.fromkeys(weights.values(), (columns, terms))
    values = {name: int(text) for name, text in spec.fixed.items()} | {"m": rows, "n": columns, "k": terms}
    values |= {p.name: 0 for p in spec.row.params if p.role == "stride"}  # of one product alone
    seen = {name: functools.partial(_rows, size=size) for name, size in sizes.items()}

    def place(views: dict[str, TensorRef | None]) -> dict[str, Any]:
        return {
            f"ld{name}": max(size[1], 1) if (view := views.get(name)) is None
            else _pitch(view, *size, by_columns=False)
            for name, size in sizes.items()
        }  # fmt: skip

    extents: dict[str, Shape] = {**sizes, **dict.fromkeys(biases.values(), (columns,))}
    extents |= {p.name: (rows if p.shape == "m" else columns,) for p in spec.row.pointers if p.name not in extents}
    results = {output.pointer: (*x[:-1], columns) for output in spec.outputs}
    return Layout(values, extents, results, seen=seen, place=place)


def linear_backward(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> Layout:
    """Gradients of linear; x and weight are those of the forward."""
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
    return Layout(values, extents, results, seen=dict.fromkeys(extents, contiguous))


def grouped(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> Layout:
    """Groups of rows of a, each with its matrix of b, which may lie by columns."""
    values = {name: int(text) for name, text in spec.fixed.items()} | _groups(shapes)
    rows, columns, terms, groups = (values[name] for name in ("m", "n", "k", "groups"))
    sizes = {"a": (rows, terms), "b": (terms, columns), "d": (rows, columns)}
    turned: set[str] = set()
    seen = {name: functools.partial(_rows, size=sizes[name]) for name in "ad"}
    seen["b"] = functools.partial(_matrices, name="b", count=groups, size=sizes["b"], turned=turned)

    def place(views: dict[str, TensorRef | None]) -> dict[str, Any]:
        return {"layout": RCR if turned else RRR} | {
            f"ld{name}": _pitch(view, *(size[::-1] if name in turned else size), by_columns=name in turned)
            for name, size in sizes.items() if (view := views[name]) is not None
        }  # fmt: skip

    extents: dict[str, Shape] = {**sizes, "b": (groups, *sizes["b"]), "offsets": (groups + 1,)}
    return Layout(values, extents, {"d": (rows, columns)}, seen=seen, steps={"stride_b": 0}, place=place)


def grouped_backward(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> Layout:
    """Gradients of grouped_gemm, by rows."""
    values = _groups(shapes) | {"layout": RRR}
    rows, columns, terms, groups = (values[name] for name in ("m", "n", "k", "groups"))
    check_shape("dy", shapes["dy"], (rows, columns))
    sizes = {"dd": (rows, columns), "a": (rows, terms), "b": (terms, columns)}
    seen = {name: functools.partial(_rows, size=sizes[name]) for name in ("dd", "a")}
    seen["b"] = functools.partial(_matrices, name="b", count=groups, size=sizes["b"], turned={"b"})  # none may turn

    def place(views: dict[str, TensorRef | None]) -> dict[str, Any]:
        return {
            f"ld{name}": max(size[1], 1) if (view := views[name]) is None else _pitch(view, *size, by_columns=False)
            for name, size in sizes.items()
        }

    whole = (groups, *sizes["b"])
    extents: dict[str, Shape] = {**sizes, "b": whole, "offsets": (groups + 1,), "da": sizes["a"], "db": whole}
    seen |= dict.fromkeys(("da", "db"), contiguous)
    return Layout(values, extents, {"da": sizes["a"], "db": whole}, seen=seen, steps={"stride_b": 0}, place=place)


def _groups(shapes: Mapping[str, Shape]) -> dict[str, int]:
    a, b = shapes["a"], shapes["b"]
    if len(a) != 2 or len(b) != 3 or b[1] != a[1]:
        raise InvalidProblemError(f"a has shape {a} and b {b}, expected (m, k) and (groups, k, n)")
    check_shape("offsets", shapes["offsets"], (b[0] + 1,))
    if exceeds(INT32_MAX, *a, *b):
        raise UnsupportedError(f"a has shape {a} and b {b}: extents of more than {INT32_MAX} are not supported")
    return {"m": a[0], "n": b[2], "k": a[1], "groups": b[0]}


def _by_rows(strides: tuple[int, ...], rows: int, columns: int) -> bool:
    """Whether elements of a row are neighbours, and rows apart."""
    return (strides[-1] == 1 or columns <= 1) and (strides[-2] >= columns or rows <= 1)


def _pitch(view: TensorRef, rows: int, columns: int, *, by_columns: bool) -> int:
    """From one row to the next; of a matrix by columns rows and columns are those of its transpose."""
    step = view.strides[-1 if by_columns else -2]
    return max(step, columns, 1) if rows > 1 else max(columns, 1)


def _one_axis(shape: Shape, strides: tuple[int, ...]) -> int | None:
    """The stride of all axes as one; None where they do not lie as one."""
    pairs = [(stride, extent) for stride, extent in zip(strides, shape) if extent != 1]
    if not math.prod(shape):
        return 1
    if any([outer[0] != inner[0] * inner[1] for outer, inner in itertools.pairwise(pairs)]):
        return None
    return pairs[-1][0] if pairs else 0


def _matrices(view: TensorRef, *, name: str, count: int, size: Shape, turned: set[str]) -> TensorRef | None:
    """One axis of matrices, each by rows, or by columns where C can say so."""
    rows, columns = size
    strides = view.strides[-2:]
    if len(view.shape) < 2:  # a vector, or what a product with one leaves
        strides = (columns, *view.strides) if rows == 1 else (*view.strides, 1)
    batch = view.shape[:-2]
    if name == "d":  # it may lack an axis of extent 1
        batch, strides = _split_result(view, size)
    step = _one_axis(batch, view.strides[: len(batch)])
    if math.prod(batch) not in (1, count) or step is None or (name == "d" and step == 0 and count > 1):
        return None
    if not _by_rows(strides, rows, columns):
        may_turn = name != "d" and name not in turned
        if not may_turn or not _by_rows(strides[::-1], columns, rows):
            return None
        turned.add(name)
    return viewed(view, (count, *size), (step if math.prod(batch) > 1 else 0 if name != "d" else step, *strides))


def _split_result(view: TensorRef, size: Shape) -> tuple[Shape, tuple[int, ...]]:
    rows, columns = size
    if view.shape[-2:] == size and len(view.shape) > 1:
        return view.shape[:-2], view.strides[-2:]
    if view.shape[-1:] == (columns,) and rows == 1 and view.shape:
        return view.shape[:-1], (columns, view.strides[-1])
    if view.shape[-1:] == (rows,) and columns == 1 and view.shape:
        return view.shape[:-1], (view.strides[-1], 1)
    return view.shape, (1, 1)


def _rows(view: TensorRef, *, size: Shape) -> TensorRef | None:
    """All axes but the last as one."""
    step = _one_axis(view.shape[:-1], view.strides[:-1])
    if step is None:
        return None
    strides = (step, view.strides[-1])
    return viewed(view, size, strides) if _by_rows(strides, *size) else None
