# SPDX-License-Identifier: Apache-2.0
"""Interpolation, its gradient, and pixel shuffle, beside PyTorch's functions: feature maps that double, photographs
that shrink, channels first and last."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tools.bench.check import cells, compare, same, sample_indices
from tools.bench.record import Bench, Bound, Operand, Sweep

NEAREST, LINEAR, CUBIC, AREA = 0, 2, 3, 4
NAMES = {NEAREST: "nearest", LINEAR: "bilinear", CUBIC: "bicubic", AREA: "area"}
DTYPES = ("f32", "bf16")
UNMEASURED = {
    "upsample_nearest_2d_fw_{T}": "the kernel of interpolate, nearest",
    "upsample_nearest_2d_bw_{T}": "the kernel of interpolate_backward, nearest",
    "pixel_unshuffle_{T}": "the copy of pixel_shuffle, in reverse",
}
CHANNELS_LAST = (0, 2, 3, 1)


def keys(d: float, a: float) -> float:
    d = abs(d)
    if d <= 1:
        return ((a + 2) * d - (a + 3)) * d * d + 1
    return (((d - 5) * d + 8) * d - 4) * a if d < 2 else 0.0


def weights(mode: int, antialias: bool, n: int, m: int, o: int) -> dict[int, float]:
    """The elements that output o of an axis reads, and their weights."""
    step = n / m
    found: dict[int, float] = {}
    if mode == NEAREST:
        return {o * n // m: 1.0}
    if mode == AREA:
        low, high = o * n // m, -(-(o + 1) * n // m)
        return dict.fromkeys(range(low, high), 1 / (high - low))
    kernel: Callable[[float], float] = (
        (lambda d: max(0.0, 1 - abs(d))) if mode == LINEAR else (lambda d: keys(d, -0.5 if antialias else -0.75))
    )
    if antialias:
        stretch, middle = max(step, 1.0), (o + 0.5) * step
        reach = stretch * (1 if mode == LINEAR else 2)
        for i in range(max(int(middle - reach + 0.5), 0), min(int(middle + reach + 0.5), n)):
            found[i] = kernel((i - middle + 0.5) / stretch)
        total = sum(found.values())
        return {i: w / total for i, w in found.items()}
    p = (o + 0.5) * step - 0.5
    for i in range(math.floor(p) - 1, math.floor(p) + 3):
        at = min(max(i, 0), n - 1)
        found[at] = found.get(at, 0.0) + kernel(p - i)
    return {i: w for i, w in found.items() if w}


@dataclasses.dataclass(frozen=True)
class Images:
    """Images [N, C, H, W] that become [N, C, OH, OW]."""

    shape: tuple[int, int, int, int]
    size: tuple[int, int]
    mode: int
    antialias: bool = False
    channels_last: bool = False

    @property
    def result(self) -> tuple[int, int, int, int]:
        return (*self.shape[:2], *self.size)

    @property
    def scalars(self) -> dict[str, Any]:
        return {
            "rank": 4, "input_shape": self.shape, "output_shape": self.result,
            **dict.fromkeys(("scale_z", "scale_y", "scale_x"), 0.0),
            "resample_mode": self.mode, "align_corners": 0, "antialias": int(self.antialias),
            "cubic_a": -0.5 if self.antialias else -0.75,
        }  # fmt: skip

    def operand(self, shape: tuple[int, ...], fill: str = "empty") -> Operand:
        if not self.channels_last:
            return Operand(shape, fill)
        strides, step = [0] * 4, 1
        for axis in reversed(CHANNELS_LAST):
            strides[axis], step = step, step * shape[axis]
        return Operand(shape, fill, tuple(strides))

    def torch(self, torch: Any, t: dict[str, Any], _scalars: Any) -> Callable[[], Any]:
        options = {} if self.mode in (NEAREST, AREA) else {"align_corners": False, "antialias": self.antialias}
        return lambda: torch.nn.functional.interpolate(t["x"], size=self.size, mode=NAMES[self.mode], **options)

    def torch_backward(self, torch: Any, t: dict[str, Any], _scalars: Any) -> Callable[[], Any]:
        size = list(self.shape)
        ops = torch.ops.aten
        if self.mode == NEAREST:
            return lambda: ops.upsample_nearest2d_backward(t["dy"], list(self.size), size)
        of = ops.upsample_bilinear2d_backward if self.mode == LINEAR else ops.upsample_bicubic2d_backward
        return lambda: of(t["dy"], list(self.size), size, False)

    def along(self, axis: int, o: int) -> dict[int, float]:
        return weights(self.mode, self.antialias, self.shape[2 + axis], self.size[axis], o)

    def column(self, axis: int, i: int) -> dict[int, float]:
        """The outputs that read element i."""
        n, m = self.shape[2 + axis], self.size[axis]
        near = range(max((i - 4) * m // n - 4, 0), min((i + 5) * m // n + 5, m))
        found = {o: self.along(axis, o).get(i, 0.0) for o in near}
        return {o: w for o, w in found.items() if w}

    def check(self, problem: Any) -> str:
        return self._check(problem, "x", "y", self.shape, self.result, self.along)

    def check_backward(self, problem: Any) -> str:
        return self._check(problem, "dy", "dx", self.result, self.shape, self.column)

    def _check(
        self, problem: Any, source: str, output: str, given: tuple[int, ...], made: tuple[int, ...],
        entries: Callable[[int, int], dict[int, float]],
    ) -> str:  # fmt: skip
        for flat in sample_indices(problem, math.prod(made)):
            n, c, y, x = np.unravel_index(int(flat), made)
            taps = [(i, j, v * w) for (i, v), (j, w) in itertools.product(entries(0, int(y)).items(),
                                                                          entries(1, int(x)).items())]  # fmt: skip
            at = [np.ravel_multi_index((n, c, i, j), given) for i, j, _ in taps]
            products = cells(problem, source, at).astype(np.float64).ravel() * np.array([w for _, _, w in taps])
            got = cells(problem, output, [flat])
            if wrong := compare(problem, got, products.sum(), 4 * np.abs(products).sum()):
                return f"{output}[{n}, {c}, {y}, {x}] {wrong}"
        return ""


def bench(name: str, images: Images, dtypes: tuple[str, ...] = DTYPES, bounds: tuple[Bound, ...] = ()) -> Bench:
    return Bench(
        name=f"interpolate, {name}", row="interpolate_{T}", dtypes=dtypes, check=images.check, torch=(images.torch,),
        scalars=images.scalars | {"output_numel": math.prod(images.result)}, workspace=images.antialias, bounds=bounds,
        arrays={"x": images.operand(images.shape, "normal"), "y": images.operand(images.result)},
    )  # fmt: skip


def gradient(name: str, images: Images, bounds: tuple[Bound, ...] = ()) -> Bench:
    return Bench(
        name=f"interpolate backward, {name}", row="interpolate_backward_{T}", dtypes=DTYPES, bounds=bounds,
        check=images.check_backward, torch=(images.torch_backward,),
        scalars=images.scalars | {"input_numel": math.prod(images.shape)},
        arrays={"dy": images.operand(images.result, "normal"), "dx": images.operand(images.shape)},
    )  # fmt: skip


def torch_shuffle(torch: Any, t: dict[str, Any], scalars: Any) -> Callable[[], Any]:
    return lambda: torch.nn.functional.pixel_shuffle(t["input"], scalars["r"])


def check_shuffle(problem: Any) -> str:
    n, c, height, width = problem.bench.arrays["output"].shape
    r = problem.bench.scalars["r"]
    at = sample_indices(problem, n * c * height * width, 256)
    image, channel, y, x = np.unravel_index(at, (n, c, height, width))
    source = np.ravel_multi_index((image, channel * r * r + y % r * r + x % r, y // r, x // r),
                                  (n, c * r * r, height // r, width // r))  # fmt: skip
    return same(problem, "output", at, cells(problem, "input", source))


def benches(backend: str) -> Iterator[Bench]:
    is_gpu = backend == "cuda"
    batch, channels = (16, 256) if is_gpu else (2, 32)
    maps, photos = (batch, channels, 64, 64), (64 if is_gpu else 4, 3, 512, 512)
    peer = (Bound("peer", 1.0),)
    for mode in (NEAREST, LINEAR, CUBIC):
        twice = Images(maps, (128, 128), mode)
        yield bench(f"{NAMES[mode]} to twice the size", twice, bounds=peer)
        yield gradient(f"{NAMES[mode]} to twice the size", twice, bounds=peer)
    last = Images(maps, (128, 128), LINEAR, channels_last=True)
    yield bench("bilinear, channels last", last, bounds=peer)
    yield gradient("bilinear, channels last", last, bounds=peer)
    for channels_last in (False, True):
        small = Images(photos, (224, 224), LINEAR, channels_last=channels_last)
        name = f"bilinear, 224 pixels{', channels last' if channels_last else ''}"
        yield bench(name, small, bounds=peer)
        yield gradient(name, small, bounds=peer)
    yield bench("area, a third", Images(photos, (170, 170), AREA), bounds=peer)
    yield bench("bilinear, antialiased, 224 pixels", Images(photos, (224, 224), LINEAR, True), bounds=peer)
    yield bench("bicubic, antialiased, 224 pixels", Images(photos, (224, 224), CUBIC, True), bounds=peer)
    r = 2
    yield Bench(
        name="pixel_shuffle, blocks of 2 x 2", row="pixel_shuffle_{T}", dtypes=DTYPES, check=check_shuffle,
        torch=(torch_shuffle,), scalars={"n": batch, "c": channels // 4, "h": 128, "w": 128, "r": r}, bounds=peer,
        arrays={"input": Operand((batch, channels, 128, 128), "normal"),
                "output": Operand((batch, channels // 4, 256, 256))},
    )  # fmt: skip


def sweeps(backend: str) -> Iterator[Sweep]:
    """Extents of the result at equal traffic, and channels."""
    total = 1 << (26 if backend == "cuda" else 20)
    sides = (7, 8, 16, 31, 32, 64, 100, 128, 255, 256, 512)
    for mode in (LINEAR, CUBIC):
        points = {side: Images((1, max(total // (4 * side * side), 1), side, side), (2 * side, 2 * side), mode)
                  for side in sides}  # fmt: skip
        yield Sweep(name=f"interpolate {NAMES[mode]}, twice", axis="side", level=True,
                    points={side: bench(f"{NAMES[mode]} {side}", each) for side, each in points.items()})  # fmt: skip
    channels = (1, 2, 3, 4, 7, 8, 9, 16, 17, 32, 64, 100)
    for last in (False, True):
        points = {c: Images((max(total // (c << 14), 1), c, 64, 64), (128, 128), LINEAR, channels_last=last)
                  for c in channels}  # fmt: skip
        name = "channels last" if last else "channels first"
        yield Sweep(name=f"interpolate bilinear, {name}", axis="channels", level=True,
                    points={c: bench(f"{name} {c}", each) for c, each in points.items()})  # fmt: skip
