# SPDX-License-Identifier: Apache-2.0
"""Concatenation and its gradients. Outputs are checked against the elements that they copy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tools.bench.problems.shape_layout.moves import DTYPES, Sizes, check_of, everywhere, peers, sizes_of
from tools.bench.record import Bench, Operand


def concats(sizes: Sizes) -> Any:
    rows, columns = sizes.rows, sizes.columns
    for axis, (first, second) in enumerate(
        (((rows // 4, columns), (rows - rows // 4, columns)), ((rows, columns // 4), (rows, columns - columns // 4)))
    ):
        split = first[axis]

        def source(c: Any, axis: int = axis, split: int = split) -> Any:
            behind = [x - split if d == axis else x for d, x in enumerate(c)]
            return ("a", c, c[axis] < split), ("b", behind, c[axis] >= split)

        def back(name: str, axis: int = axis, split: int = split) -> Any:
            def of(c: Any) -> Any:
                moved = [x + split if d == axis and name == "db" else x for d, x in enumerate(c)]
                return (("dy", moved, everywhere(c)),)

            return check_of(name, of)

        def check_both(problem: Any, first: Any = back("da"), second: Any = back("db")) -> str:  # noqa: B008
            return first(problem) or second(problem)

        common = {
            "output_shape": (rows, columns),
            "concat_dim": axis,
            "split_offset": split,
            "output_numel": rows * columns,
        }
        yield Bench(
            name=f"concat2, axis {axis}",
            row="concat2_{T}",
            dtypes=DTYPES,
            scalars=common,
            bounds=sizes.bounds(0.9),
            arrays={"a": Operand(first, "normal"), "b": Operand(second, "normal"), "y": Operand((rows, columns))},
            check=check_of("y", source),
            **peers(
                lambda m, t, axis=axis: lambda: m.cat((t["a"], t["b"]), axis, out=t["y"]),
                lambda a, axis=axis: lambda: np.concatenate((a["a"], a["b"]), axis, out=a["y"]),
            ),
        )
        yield Bench(
            name=f"concat2_backward, axis {axis}",
            row="concat2_backward_{T}",
            dtypes=DTYPES,
            scalars=common,
            bounds=sizes.bounds(0.9),
            check=check_both,
            arrays={"dy": Operand((rows, columns), "normal"), "da": Operand(first), "db": Operand(second)},
            **peers(
                lambda m, t, axis=axis, split=split: (
                    lambda: [t[n].copy_(p) for n, p in zip(("da", "db"), t["dy"].tensor_split((split,), axis))]
                ),
                lambda a, axis=axis, split=split: (
                    lambda: [np.copyto(a[n], p) for n, p in zip(("da", "db"), np.split(a["dy"], (split,), axis))]
                ),
            ),
        )


def many_concats(sizes: Sizes) -> Any:
    """64 inputs of equal extents; along axis 1 also short ones, and one column each, which is a stack."""
    rows, columns, count = sizes.rows, sizes.columns, 64
    for name, shape, axis in (
        ("axis 0", (rows, columns), 0),
        ("axis 1", (rows, columns), 1),
        ("stacked last", (rows * columns // count, count), 1),
    ):
        extent = shape[axis] // count
        part = tuple([extent if d == axis else e for d, e in enumerate(shape)])

        def source(c: Any, axis: int = axis, extent: int = extent) -> Any:
            of = [x % extent if d == axis else x for d, x in enumerate(c)]
            return tuple([(f"inputs[{k}]", of, c[axis] // extent == k) for k in range(count)])

        def back(problem: Any, axis: int = axis, extent: int = extent) -> str:
            for k in (0, count // 2, count - 1):
                wrong = check_of(
                    f"outputs[{k}]",
                    lambda c, k=k: (("dy", [x + k * extent * (d == axis) for d, x in enumerate(c)], everywhere(c)),),
                )(problem)
                if wrong:
                    return wrong
            return ""

        common = {
            "output_shape": shape, "concat_dim": axis, "output_numel": math.prod(shape), "n": count,
            "extents": [extent] * count,
        }  # fmt: skip
        inputs, outputs = ([f"{of}[{k}]" for k in range(count)] for of in ("inputs", "outputs"))
        bounds = sizes.bounds(0.4 if name == "stacked last" else 0.85)
        yield Bench(
            name=f"concat of {count}, {name}",
            row="concat_{T}",
            dtypes=DTYPES,
            scalars=common,
            bounds=bounds,
            arrays={**{operand: Operand(part, "normal") for operand in inputs}, "y": Operand(shape)},
            check=check_of("y", source),
            **peers(
                lambda m, t, axis=axis, names=inputs: lambda: m.cat([t[k] for k in names], axis, out=t["y"]),
                lambda a, axis=axis, names=inputs: lambda: np.concatenate([a[k] for k in names], axis, out=a["y"]),
            ),
        )
        yield Bench(
            name=f"concat_backward of {count}, {name}",
            row="concat_backward_{T}",
            dtypes=DTYPES,
            scalars=common,
            bounds=bounds,
            check=back,
            arrays={"dy": Operand(shape, "normal"), **{operand: Operand(part) for operand in outputs}},
            **peers(
                lambda m, t, axis=axis, names=outputs: (
                    lambda: [t[k].copy_(p) for k, p in zip(names, t["dy"].chunk(count, axis))]
                ),
                lambda a, axis=axis, names=outputs: (
                    lambda: [np.copyto(a[k], p) for k, p in zip(names, np.split(a["dy"], count, axis))]
                ),
            ),
        )


def benches(backend: str) -> Any:
    sizes = sizes_of(backend)
    yield from concats(sizes)
    yield from many_concats(sizes)
