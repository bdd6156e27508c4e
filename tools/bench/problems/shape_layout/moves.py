# SPDX-License-Identifier: Apache-2.0
"""Copies: pad, flip, roll, permute, triu, unfold, repeat_interleave, slices. Outputs are checked by their sources."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tools.bench.check import sample_indices
from tools.bench.record import Bench, Bound, Operand

DTYPES = ("f32", "bf16")
UNMEASURED = {
    **{f"{name}_{{T}}_strided": f"{name}_{{T}} by another name" for name in ("flip", "roll", "permute")},
    **{f"{name}_{{T}}_strided": f"the kernel of {name}_{{T}}" for name in ("triu", "tril")},
    **{f"{op}_b{width}": f"{op}_b4, of another width" for op in ("contiguize", "write_slice") for width in (1, 8, 16)},
    **{f"write_slice_b{width}_doff": "write_slice_b4_doff, of another width" for width in (1, 2, 8, 16)},
    "pad_constant_{T} halves": "the kernel of pad_constant_{T}, for one half of the elements after the other",
    "write_slice_nibble": "write_slice_b1 of half the elements",
}


def check_of(output: str, source: Callable[..., Any]) -> Callable[[Any], str]:
    """`source`: output coordinates -> (operand, its coordinates, mask), where outputs outside of the mask are 0."""

    def check(problem: Any) -> str:
        buffer = problem.buffers[output]
        shape = buffer.operand.shape
        chosen = sample_indices(problem, math.prod(shape), 4096)
        got = problem.data.cells(buffer, chosen)
        expected = np.zeros_like(got)
        for name, coordinates, inside in source(np.unravel_index(chosen, shape)):
            of = problem.buffers[name]
            at = np.ravel_multi_index([np.where(inside, c, 0) for c in coordinates], of.operand.shape)
            expected = np.where(inside, problem.data.cells(of, at), expected)
        wrong = np.flatnonzero(got != expected)
        return f"{output}[{chosen[wrong[0]]}] is {got[wrong[0]]}, expected {expected[wrong[0]]}" if wrong.size else ""

    return check


@dataclasses.dataclass(frozen=True)
class Sizes:
    backend: str
    rows: int
    columns: int

    def bounds(self, copy: float, halves: float | None = None) -> tuple[Bound, ...]:
        """Bounds relative to a device copy (`halves`: for 16-bit elements); on the CPU relative to the peers."""
        if self.backend != "cuda":
            return (Bound("peer", 1.0),)
        if halves is None:
            return (Bound("copy", copy),)
        return Bound("copy", copy, dtypes=("f32",)), Bound("copy", halves, dtypes=("bf16",))


def sizes_of(backend: str) -> Sizes:
    return Sizes(backend, *((8192, 16384) if backend == "cuda" else (4096, 4096)))


def peers(torch: Callable[[Any, Any], Any], numpy: Callable[[Any], Any]) -> dict[str, Any]:
    """(torch, tensors) -> a call, (arrays) -> a call."""
    return {"torch": (lambda module, t, _scalars: torch(module, t),), "numpy": (lambda a, _scalars: numpy(a),)}


def everywhere(coordinates: Sequence[Any]) -> Any:
    return np.ones(len(coordinates[0]), bool)


PADS = {  # NumPy's mode, PyTorch's
    "constant": ("constant", "constant"),
    "reflect": ("reflect", "reflect"),
    "replicate": ("edge", "replicate"),
    "circular": ("wrap", "circular"),
}


WIDTHS = [(0, 0), (0, 0), (3, 3), (3, 3)]


def pads(sizes: Sizes) -> Any:
    images = (16, 32, 512, 512) if sizes.backend == "cuda" else (4, 16, 512, 512)
    low = (0, 0, 3, 3)
    out = tuple(e + 2 * lo for e, lo in zip(images, low))
    scalars = {"input_shape": images, "output_shape": out, "pad_low": low, "output_numel": math.prod(out)}
    arrays = {"x": Operand(images, "normal"), "y": Operand(out)}
    for mode, (numpy, torch) in PADS.items():

        def source(c: Any, mode: str = mode) -> Any:
            at = [x - lo for x, lo in zip(c, low)]
            inside = np.all([(a >= 0) & (a < e) for a, e in zip(at, images)], 0)
            if mode == "reflect":
                at = [e - 1 - abs(e - 1 - abs(a)) for a, e in zip(at, images)]
            elif mode == "replicate":
                at = [np.clip(a, 0, e - 1) for a, e in zip(at, images)]
            elif mode == "circular":
                at = [a % e for a, e in zip(at, images)]
            return (("x", at, inside if mode == "constant" else everywhere(c)),)

        yield Bench(
            name=f"pad_{mode}",
            row=f"pad_{mode}_{{T}}",
            dtypes=DTYPES,
            bounds=sizes.bounds(0.9),
            arrays=arrays,
            scalars=scalars | ({"value": 0} if mode == "constant" else {}),
            check=check_of("y", source),
            **peers(
                lambda m, t, torch=torch: lambda: m.nn.functional.pad(t["x"], (3, 3, 3, 3), mode=torch),
                lambda a, numpy=numpy: lambda: np.copyto(a["y"], np.pad(a["x"], WIDTHS, numpy)),
            ),
        )
    window = tuple(slice(lo, lo + e) for lo, e in zip(low, images))
    yield Bench(
        name="pad_constant_backward",
        row="pad_constant_backward_{T}",
        dtypes=DTYPES,
        bounds=sizes.bounds(0.9),
        scalars={"input_shape": images, "pad_low": low, "input_numel": math.prod(images)},
        arrays={"dy": Operand(out, "normal"), "dx": Operand(images)},
        check=check_of("dx", lambda c: (("dy", [x + lo for x, lo in zip(c, low)], everywhere(c)),)),
        **peers(
            lambda m, t: lambda: t["dx"].copy_(t["dy"][window]), lambda a: lambda: np.copyto(a["dx"], a["dy"][window])
        ),
    )


def pad_gradients(sizes: Sizes) -> Any:
    """Images with three elements of padding on each side."""
    images = (16, 32, 512, 512) if sizes.backend == "cuda" else (2, 3, 256, 256)
    out = (*images[:2], *[e + 6 for e in images[2:]])
    for mode, (numpy, torch) in PADS.items():
        if mode == "constant":
            continue
        source = [np.pad(np.arange(e), 3, numpy) for e in images[2:]]

        def check(problem: Any, source: Any = source) -> str:
            plane, size = math.prod(out[2:]), math.prod(images[2:])
            dy, dx = problem.buffers["dy"], problem.buffers["dx"]
            for image in (0, math.prod(images[:2]) - 1):
                cells = problem.data.cells(dy, np.arange(image * plane, (image + 1) * plane)).reshape(out[2:])
                expected = np.zeros(images[2:])
                np.add.at(expected, np.ix_(*source), cells.astype(np.float64))
                got = problem.data.cells(dx, np.arange(image * size, (image + 1) * size)).reshape(images[2:])
                if not np.allclose(got, expected, 1e-2, 1e-2):
                    return f"dx of image {image} is wrong by {np.abs(got - expected).max()}"
            return ""

        def by_torch(m: Any, t: Any, torch: str = torch) -> Any:
            backward = getattr(m.ops.aten, {"reflect": "reflection", "replicate": "replication"}.get(torch, "")
                               + "_pad2d_backward", None)  # fmt: skip
            x = t["dx"].detach().clone().requires_grad_()
            y = m.nn.functional.pad(x, (3, 3, 3, 3), mode=torch)
            if backward is not None:
                return lambda: backward(t["dy"], x.detach(), (3, 3, 3, 3))
            return lambda: m.autograd.grad(y, x, t["dy"], retain_graph=True)

        def by_numpy(a: Any, source: Any = source) -> Any:
            def run() -> None:
                a["dx"][...] = 0
                np.add.at(a["dx"], (slice(None), slice(None), *np.ix_(*source)), a["dy"])

            return run

        yield Bench(
            name=f"pad_{mode}_backward",
            row=f"pad_{mode}_backward_{{T}}",
            dtypes=DTYPES,
            bounds=sizes.bounds(0.8),
            scalars={
                "input_shape": images,
                "output_shape": out,
                "pad_low": (0, 0, 3, 3),
                "input_numel": math.prod(images),
            },
            arrays={"dy": Operand(out, "normal"), "dx": Operand(images)},
            check=check,
            **peers(by_torch, by_numpy),
        )


def windows(sizes: Sizes) -> Any:
    """Unfold with a step of half the window, and repeat_interleave."""
    rows, columns, size, step = sizes.rows // 2, sizes.columns, 512, 256
    count = (columns - size) // step + 1
    common = {"unfold_dim": 1, "window_size": size, "window_step": step, "input_shape": (rows, columns), "rank": 2}
    windowed = (rows, count, size)

    def check_sums(problem: Any) -> str:
        dy, dx = problem.buffers["dy"], problem.buffers["dx"]
        row = rows // 2
        cells = problem.data.cells(dy, np.arange(count * size) + row * count * size).reshape(count, size)
        expected = np.zeros(columns)
        for w in range(count):
            expected[w * step : w * step + size] += cells[w]
        got = problem.data.cells(dx, np.arange(columns) + row * columns)
        return "" if np.allclose(got, expected, 1e-2, 1e-2) else f"dx[{row}] differs by {np.abs(got - expected).max()}"

    def by_numpy(a: Any) -> Any:
        def run() -> None:
            a["dx"][...] = 0
            for w in range(count):
                a["dx"][:, w * step : w * step + size] += a["dy"][:, w]

        return run

    yield Bench(
        name="unfold",
        row="unfold_{T}",
        dtypes=DTYPES,
        bounds=sizes.bounds(0.85),
        scalars=common | {"output_numel": math.prod(windowed)},
        arrays={"x": Operand((rows, columns), "normal"), "y": Operand(windowed)},
        check=check_of("y", lambda c: (("x", [c[0], c[1] * step + c[2]], everywhere(c)),)),
        **peers(
            lambda m, t: lambda: t["y"].copy_(t["x"].unfold(1, size, step)),
            lambda a: lambda: np.copyto(a["y"], np.lib.stride_tricks.sliding_window_view(a["x"], size, 1)[:, ::step]),
        ),
    )
    yield Bench(
        name="unfold_backward",
        row="unfold_backward_{T}",
        dtypes=DTYPES,
        bounds=sizes.bounds(0.7),
        scalars=common | {"input_numel": rows * columns},
        arrays={"dy": Operand(windowed, "normal"), "dx": Operand((rows, columns))},
        check=check_sums,
        **peers(
            lambda m, t: lambda: t["dx"].copy_(m.ops.aten.unfold_backward(t["dy"], [rows, columns], 1, size, step)),
            by_numpy,
        ),
    )


def interleaved(sizes: Sizes) -> Any:
    rows, columns, repeats = sizes.rows // 4, sizes.columns, 4
    for name, axis in (("rows", 0), ("columns", 1)):
        repeated = (rows * (1 if axis else repeats), columns * (repeats if axis else 1))
        common = {"repeat_dim": axis, "repeat_count": repeats, "input_shape": (rows, columns), "rank": 2}

        def source(c: Any, axis: int = axis) -> Any:
            return (("x", [x // repeats if d == axis else x for d, x in enumerate(c)], everywhere(c)),)

        def check_sums(problem: Any, axis: int = axis, repeated: Any = repeated) -> str:
            chosen = sample_indices(problem, rows * columns, 4096)
            at = list(np.unravel_index(chosen, (rows, columns)))
            total = np.zeros(len(chosen))
            for k in range(repeats):
                from_ = [x * repeats + k if d == axis else x for d, x in enumerate(at)]
                total += problem.data.cells(problem.buffers["dy"], np.ravel_multi_index(from_, repeated))
            got = problem.data.cells(problem.buffers["dx"], chosen)
            return "" if np.allclose(got, total, 1e-2, 1e-2) else f"dx differs by {np.abs(got - total).max()}"

        split = (rows, 1, columns, repeats) if axis else (rows, repeats, columns, 1)
        yield Bench(
            name=f"repeat_interleave, {name}",
            row="repeat_interleave_{T}",
            dtypes=DTYPES,
            bounds=sizes.bounds(0.75),
            scalars=common | {"output_numel": math.prod(repeated)},
            arrays={"x": Operand((rows, columns), "normal"), "y": Operand(repeated)},
            check=check_of("y", source),
            **peers(
                lambda m, t, axis=axis: lambda: t["y"].copy_(m.repeat_interleave(t["x"], repeats, axis)),
                lambda a, split=split: lambda: np.copyto(a["y"].reshape(split), a["x"].reshape(rows, 1, columns, 1)),
            ),
        )
        yield Bench(
            name=f"repeat_interleave_backward, {name}",
            row="repeat_interleave_backward_{T}",
            dtypes=DTYPES,
            bounds=sizes.bounds(0.8),
            scalars=common | {"input_numel": rows * columns},
            arrays={"dy": Operand(repeated, "normal"), "dx": Operand((rows, columns))},
            check=check_sums,
            workspace=True,
            **peers(
                lambda m, t, split=split: lambda: m.sum(t["dy"].view(split), (1, 3), out=t["dx"]),
                lambda a, split=split: lambda: np.sum(a["dy"].reshape(split), (1, 3), out=a["dx"]),
            ),
        )


def moves(sizes: Sizes) -> Any:
    shape = (sizes.rows, sizes.columns)
    arrays = {"x": Operand(shape, "normal"), "y": Operand(shape)}
    for name, axis in (("outer", 0), ("inner", 1)):
        mask = tuple(int(d == axis) for d in range(2))
        yield Bench(
            name=f"flip, {name}",
            row="flip_{T}",
            dtypes=DTYPES,
            arrays=arrays,
            scalars={"shape": shape, "flip_axes": mask},
            bounds=sizes.bounds(*((0.9,) if axis == 0 else (0.85, 0.75))),
            check=check_of(
                "y",
                lambda c, m=mask: (
                    ("x", [e - 1 - x if flip else x for x, e, flip in zip(c, shape, m)], everywhere(c)),
                ),
            ),
            **peers(
                lambda m, t, axis=axis: lambda: m.flip(t["x"], (axis,)),
                lambda a, axis=axis: lambda: np.copyto(a["y"], np.flip(a["x"], axis)),
            ),
        )
        shifts = tuple(1001 * (d == axis) for d in range(2))
        yield Bench(
            name=f"roll, {name}",
            row="roll_{T}",
            dtypes=DTYPES,
            arrays=arrays,
            scalars={"shape": shape, "shifts": shifts},
            bounds=sizes.bounds(0.9),
            check=check_of(
                "y", lambda c, s=shifts: (("x", [(x - n) % e for x, e, n in zip(c, shape, s)], everywhere(c)),)
            ),
            **peers(
                lambda m, t, axis=axis: lambda: m.roll(t["x"], 1001, axis),
                lambda a, axis=axis: lambda: np.copyto(a["y"], np.roll(a["x"], 1001, axis)),
            ),
        )


def permutes(sizes: Sizes) -> Any:
    if sizes.backend == "cuda":
        given = {
            (1, 0): (sizes.rows, sizes.columns),
            (0, 2, 1, 3): (16, 4096, 16, 128),
            (0, 2, 3, 1): (64, 128, 128, 128),
            (3, 2, 1, 0): (128, 64, 128, 128),
        }
    else:
        given = {
            (1, 0): (sizes.rows, sizes.columns),
            (0, 2, 1, 3): (8, 1024, 16, 128),
            (0, 2, 3, 1): (16, 64, 128, 128),
            (3, 2, 1, 0): (64, 64, 64, 64),
        }
    for dims, shape in given.items():
        out = tuple(shape[d] for d in dims)
        yield Bench(
            name=f"permute {dims}",
            row="permute_{T}",
            dtypes=DTYPES,
            bounds=sizes.bounds(0.85, 0.75),
            arrays={"x": Operand(shape, "normal"), "y": Operand(out)},
            scalars={"input_shape": shape, "dims": dims, "input_numel": math.prod(shape)},
            check=check_of(
                "y", lambda c, dims=dims: (("x", [c[dims.index(d)] for d in range(len(dims))], everywhere(c)),)
            ),
            **peers(
                lambda m, t, dims=dims: lambda: t["y"].copy_(t["x"].permute(dims)),
                lambda a, dims=dims: lambda: np.copyto(a["y"], a["x"].transpose(dims)),
            ),
        )


def triangles(sizes: Sizes) -> Any:
    shape = (8, sizes.rows // 2, sizes.columns // 4)
    for name in ("triu", "tril"):
        yield Bench(
            name=name,
            row=f"{name}_{{T}}",
            dtypes=DTYPES,
            bounds=sizes.bounds(0.9),
            arrays={"input": Operand(shape, "normal"), "output": Operand(shape)},
            scalars={"shape": shape, "diagonal": 0},
            check=check_of(
                "output", lambda c, name=name: (("input", c, c[2] >= c[1] if name == "triu" else c[2] <= c[1]),)
            ),
            **peers(
                lambda m, t, name=name: lambda: getattr(m, name)(t["input"], out=t["output"]),
                lambda a, name=name: lambda: np.copyto(a["output"], getattr(np, name)(a["input"])),
            ),
        )


def slices(sizes: Sizes) -> Any:
    rows, columns = sizes.rows, sizes.columns
    shape = (rows, columns)
    views = {"rows": (columns + 32, 1), "transposed": (1, rows)}
    for dtype, width in (("u32", 4), ("u16", 2)):
        for name, strides in views.items():
            unit = name == "rows"
            yield Bench(
                name=f"contiguize_b{width}, {name}",
                row=f"contiguize_b{width}",
                dtypes=(dtype,),
                bounds=sizes.bounds(0.9 if unit else 0.85 if width == 4 else 0.75),
                arrays={"source": Operand(shape, "counts", strides), "dest": Operand((rows * columns,))},
                scalars={"shape": shape, "source_strides": strides, "source_offset": 0, "rank": 2},
                check=check_of("dest", lambda c: (("source", np.unravel_index(c[0], shape), everywhere(c)),)),
                **peers(
                    lambda m, t: lambda: t["dest"].view(m.uint8).copy_(t["source"].contiguous().view(m.uint8).view(-1)),
                    lambda a: lambda: np.copyto(a["dest"].reshape(shape), a["source"]),
                ),
            )
        dest, start = (rows, 2 * columns), (0, columns // 2)
        yield Bench(
            name=f"write_slice_b{width}",
            row=f"write_slice_b{width}",
            dtypes=(dtype,),
            bounds=sizes.bounds(0.9),
            arrays={"dest": Operand((math.prod(dest),)), "source": Operand((rows * columns,), "counts")},
            scalars={
                "source_numel": rows * columns,
                "rank": 2,
                "dest_shape": dest,
                "source_shape": shape,
                "range_start": start,
            },
            bytes=lambda size, _i: 2 * size * rows * columns,
            check=check_window(dest, shape, start),
            **peers(
                lambda m, t, dest=dest, s=start: (
                    lambda: t["dest"].view(dest)[:, s[1] : s[1] + columns].copy_(t["source"].view(shape))
                ),
                lambda a, dest=dest, s=start: (
                    lambda: np.copyto(a["dest"].reshape(dest)[:, s[1] : s[1] + columns], a["source"].reshape(shape))
                ),
            ),
        )
    cache = (64, 16, 4096, 128) if sizes.backend == "cuda" else (16, 16, 1024, 64)
    part = (*cache[:2], cache[2] // 4, cache[3])
    yield Bench(
        name="write_slice_b4_doff",
        row="write_slice_b4_doff",
        dtypes=("u32",),
        bounds=sizes.bounds(0.85),
        arrays={
            "dest": Operand((math.prod(cache),)),
            "source": Operand((math.prod(part),), "counts"),
            "dyn_start_dev": Operand((1,), lambda _rng: np.array([cache[2] // 2 + 1])),
        },
        scalars={
            "source_numel": math.prod(part),
            "rank": 4,
            "dest_shape": cache,
            "source_shape": part,
            "range_start": (0, 0, 0, 0),
            "dyn_axis": 2,
        },
        bytes=lambda size, _i: 2 * size * math.prod(part),
        check=check_window(cache, part, (0, 0, cache[2] // 2 + 1, 0)),
        **peers(
            lambda m, t: (
                lambda: t["dest"].view(cache)[:, :, cache[2] // 2 + 1 :][:, :, : part[2]].copy_(t["source"].view(part))
            ),
            lambda a: (
                lambda: np.copyto(
                    a["dest"].reshape(cache)[:, :, cache[2] // 2 + 1 :][:, :, : part[2]], a["source"].reshape(part)
                )
            ),
        ),
    )
    nibbles = (rows, 2 * columns)
    yield Bench(
        name="contiguize_nibble",
        row="contiguize_nibble",
        dtypes=("u8",),
        bounds=sizes.bounds(0.9),
        arrays={"source": Operand((rows, columns), "counts", (columns + 16, 1)), "dest": Operand((rows * columns,))},
        scalars={"shape": nibbles, "source_strides": (2 * columns + 32, 1), "source_offset": 0, "rank": 2},
        check=check_of("dest", lambda c: (("source", np.unravel_index(c[0], shape), everywhere(c)),)),
        **peers(
            lambda m, t: lambda: t["dest"].view(shape).copy_(t["source"]),
            lambda a: lambda: np.copyto(a["dest"].reshape(shape), a["source"]),
        ),
    )


def check_window(dest: Sequence[int], part: Sequence[int], start: Sequence[int]) -> Callable[[Any], str]:
    """Checks sampled elements of the source at their destination."""

    def check(problem: Any) -> str:
        chosen = sample_indices(problem, math.prod(part), 4096)
        at = np.ravel_multi_index([c + s for c, s in zip(np.unravel_index(chosen, part), start)], dest)
        got, expected = (problem.data.cells(problem.buffers[n], p) for n, p in (("dest", at), ("source", chosen)))
        wrong = np.flatnonzero(got != expected)
        return f"dest[{at[wrong[0]]}] is {got[wrong[0]]}, expected {expected[wrong[0]]}" if wrong.size else ""

    return check


def benches(backend: str) -> Any:
    sizes = sizes_of(backend)
    for each in (pads, pad_gradients, windows, interleaved, moves, permutes, triangles, slices):
        yield from each(sizes)
