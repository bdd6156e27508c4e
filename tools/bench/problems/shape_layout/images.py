# SPDX-License-Identifier: Apache-2.0
"""im2col, and col2im, its adjoint."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from tools.bench.check import sample_indices
from tools.bench.problems.shape_layout.moves import DTYPES, check_of, peers, sizes_of
from tools.bench.record import Bench, Operand


@dataclasses.dataclass(frozen=True)
class Windows:
    """Square images with one kernel size, padding and step for both axes."""

    name: str
    kernel: int
    padding: int
    step: int
    batch: int
    channels: int
    edge: int

    @property
    def image(self) -> tuple[int, ...]:
        return (self.batch, self.channels, self.edge, self.edge)

    @property
    def side(self) -> int:
        """Number of windows along an axis."""
        return (self.edge + 2 * self.padding - self.kernel) // self.step + 1

    @property
    def columns(self) -> tuple[int, ...]:
        return (self.batch, self.channels * self.kernel**2, self.side**2)

    @property
    def scalars(self) -> dict[str, Any]:
        both = {"kernel_size": self.kernel, "dilation": 1, "padding": self.padding, "steps": self.step}
        return {"rank": 4, "input_shape": self.image} | {name: (value,) * 2 for name, value in both.items()}

    @property
    def torch(self) -> dict[str, int]:
        return {"kernel_size": self.kernel, "padding": self.padding, "stride": self.step}

    def source(self, c: Any) -> Any:
        tap = np.unravel_index(c[1] % self.kernel**2, (self.kernel,) * 2)
        window = np.unravel_index(c[2], (self.side,) * 2)
        at = [w * self.step + p - self.padding for w, p in zip(window, tap)]
        inside = np.all([(a >= 0) & (a < self.edge) for a in at], 0)
        return (("x", [c[0], c[1] // self.kernel**2, *at], inside),)

    def check_sums(self, problem: Any) -> str:
        dy, dx = problem.buffers["dy"], problem.buffers["dx"]
        chosen = sample_indices(problem, math.prod(self.image), 256)
        n, c, *at = np.unravel_index(chosen, self.image)
        expected = np.zeros(len(chosen))
        for k in range(self.kernel**2):
            offsets = [a + self.padding - p for a, p in zip(at, divmod(k, self.kernel))]
            there = np.all([(o >= 0) & (o % self.step == 0) & (o // self.step < self.side) for o in offsets], 0)
            row, column = [np.where(there, o // self.step, 0) for o in offsets]
            tap = np.ravel_multi_index((n, c * self.kernel**2 + k, row * self.side + column), self.columns)
            expected += np.where(there, problem.data.cells(dy, tap), 0)
        got = problem.data.cells(dx, chosen)
        return "" if np.allclose(got, expected, 1e-2, 2e-2) else f"dx differs by {np.abs(got - expected).max()}"

    def by_taps(self, matrix: Any, padded_images: Any) -> Any:
        """Columns of the matrix, and the slice of the padded images, of each tap of the kernel."""
        split = matrix.reshape(self.batch, self.channels, self.kernel, self.kernel, self.side, self.side)
        within = [slice(k, k + self.step * (self.side - 1) + 1, self.step) for k in range(self.kernel)]
        for i, rows in enumerate(within):
            for j, columns in enumerate(within):
                yield split[:, :, i, j], padded_images[..., rows, columns]

    def padded(self, dtype: Any) -> tuple[Any, Any]:
        """Padded images of zeros, and the view without the padding."""
        padded_images = np.zeros((self.batch, self.channels, *[self.edge + 2 * self.padding] * 2), dtype)
        inner = slice(self.padding, self.padding + self.edge)
        return padded_images, padded_images[..., inner, inner]

    def copied(self, a: Any) -> Any:
        padded_images, images = self.padded(a["x"].dtype)

        def run() -> None:
            images[...] = a["x"]
            for columns_of_tap, window in self.by_taps(a["y"], padded_images):
                columns_of_tap[...] = window

        return run

    def added(self, a: Any) -> Any:
        padded_images, images = self.padded(a["dy"].dtype)

        def run() -> None:
            padded_images[...] = 0
            for columns_of_tap, window in self.by_taps(a["dy"], padded_images):
                window += columns_of_tap
            a["dx"][...] = images

        return run


def benches(backend: str) -> Any:
    sizes, is_gpu = sizes_of(backend), backend == "cuda"
    for windows in (
        Windows("3 x 3", 3, 1, 1, *((32, 64, 256) if is_gpu else (4, 16, 128))),
        Windows("patches of 16 x 16", 16, 0, 16, *((32, 512, 256) if is_gpu else (4, 64, 128))),
    ):
        yield Bench(
            name=f"im2col, {windows.name}",
            row="im2col_{T}",
            dtypes=DTYPES,
            bounds=sizes.bounds(0.7),
            scalars=windows.scalars | {"output_numel": math.prod(windows.columns)},
            arrays={"x": Operand(windows.image, "normal"), "y": Operand(windows.columns)},
            check=check_of("y", windows.source),
            **peers(
                lambda m, t, of=windows.torch: lambda: t["y"].copy_(m.nn.functional.unfold(t["x"], **of)),
                windows.copied,
            ),
        )
        yield Bench(
            name=f"col2im, {windows.name}",
            row="col2im_{T}",
            dtypes=DTYPES,
            bounds=sizes.bounds(0.6),
            scalars=windows.scalars | {"input_numel": math.prod(windows.image)},
            arrays={"dy": Operand(windows.columns, "normal"), "dx": Operand(windows.image)},
            check=windows.check_sums,
            **peers(
                lambda m, t, of=windows.torch, size=windows.image[2:]: (
                    lambda: t["dx"].copy_(m.nn.functional.fold(t["dy"], size, **of))
                ),
                windows.added,
            ),
        )
