# SPDX-License-Identifier: Apache-2.0
"""Plans of grid_sample and of grids of affine maps, in two and three dimensions.

A grid has positions (x, y) or (x, y, z), from -1 to 1 over an image: the outer sides of its edge elements, or their
centres with aligned corners.
"""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar

from baracuda import descriptor
from baracuda._call.scalars import INT32_MAX
from baracuda.descriptor import Descriptor, product
from baracuda.errors import InvalidProblemError
from baracuda.kinds import ImageKind, OpCategory, SampleMode, SamplePadding
from baracuda.plan import Plan


@dataclasses.dataclass(frozen=True)
class GridSampleDescriptor(Descriptor):
    """Images input_shape [N, C, spatial], positions output_shape [N, C, positions], of two or three spatial axes."""

    input_shape: tuple[int, ...] = descriptor.shape(high=INT32_MAX)
    output_shape: tuple[int, ...] = descriptor.shape(high=INT32_MAX)
    sample_mode: SampleMode = descriptor.choice(SampleMode, default=SampleMode.LINEAR)
    padding_mode: SamplePadding = descriptor.choice(SamplePadding, default=SamplePadding.ZEROS)
    align_corners: bool = descriptor.flag()

    @property
    def rank(self) -> int:
        return len(self.input_shape)

    @property
    def coordinates(self) -> int:
        return self.rank - 2

    @property
    def points(self) -> int:
        return self.output_shape[0] * math.prod(self.output_shape[2:])

    @property
    def input_numel(self) -> int:
        return product("dx", self.input_shape)

    @property
    def output_numel(self) -> int:
        return product("y", self.output_shape)

    @property
    def grid_shape(self) -> tuple[int, ...]:
        return (self.output_shape[0], *self.output_shape[2:], self.coordinates)

    def validated(self) -> GridSampleDescriptor:
        valid = super().validated()
        if not 4 <= valid.rank <= 5:
            raise InvalidProblemError(f"input_shape is {valid.input_shape}, must have 4 or 5 axes")
        if len(valid.output_shape) != valid.rank or valid.output_shape[:2] != valid.input_shape[:2]:
            raise InvalidProblemError(
                f"output_shape is {valid.output_shape}, must be that of the input, {valid.input_shape}, but for its "
                "spatial axes"
            )
        return valid


class GridSamplePlan(Plan):
    """grid is dense, [N, positions, 2 or 3]."""

    __slots__ = ()
    op = "grid_sample_{T}"
    category = OpCategory.IMAGE
    shapes: ClassVar = {"x": "input_shape", "y": "output_shape", "grid": "grid_shape"}

    @property
    def kind(self) -> ImageKind:
        return ImageKind.GRID_SAMPLE_2D if self.descriptor.rank == 4 else ImageKind.GRID_SAMPLE_3D


class GridSampleBackwardPlan(Plan):
    """dx or dgrid may be left out. It needs a workspace."""

    __slots__ = ()
    descriptor_base = GridSampleDescriptor
    op = "grid_sample_backward_{T}"
    category = OpCategory.IMAGE
    shapes: ClassVar = {
        "dy": "output_shape", "x": "input_shape", "dx": "input_shape", "grid": "grid_shape", "dgrid": "grid_shape",
    }  # fmt: skip

    @property
    def kind(self) -> ImageKind:
        return ImageKind.GRID_SAMPLE_2D_BACKWARD if self.descriptor.rank == 4 else ImageKind.GRID_SAMPLE_3D_BACKWARD


@dataclasses.dataclass(frozen=True)
class GridSample2dDescriptor(Descriptor):
    """f32 and f64. Images [n, c, ih, iw], positions [n, oh, ow]."""

    n: int = descriptor.extent()
    c: int = descriptor.extent()
    ih: int = descriptor.extent()
    iw: int = descriptor.extent()
    oh: int = descriptor.extent()
    ow: int = descriptor.extent()


class GridSample2dPlan(Plan):
    """Bilinear, zero padding, corners not aligned."""

    __slots__ = ()
    op = "grid_sample_2d_{T}"
    category = OpCategory.IMAGE
    kind = ImageKind.GRID_SAMPLE_2D


class GridSample2dBackwardPlan(Plan):
    """Without a workspace the order of additions to dinput varies on a GPU."""

    __slots__ = ()
    descriptor_base = GridSample2dDescriptor
    op = "grid_sample_2d_backward_{T}"
    category = OpCategory.IMAGE
    kind = ImageKind.GRID_SAMPLE_2D_BACKWARD


@dataclasses.dataclass(frozen=True)
class AffineGridDescriptor(Descriptor):
    """dims is 2 or 3; depth, height and width are those of the grid, and depth is at most 1 for two dimensions."""

    batch: int = descriptor.extent()
    dims: int = descriptor.extent(2)
    height: int = descriptor.extent()
    width: int = descriptor.extent()
    depth: int = descriptor.extent(default=0)
    align_corners: bool = descriptor.flag()

    @property
    def rows(self) -> int:
        return self.dims

    @property
    def columns(self) -> int:
        return self.dims + 1

    @property
    def layers(self) -> int:
        return self.depth if self.dims == 3 else 1

    @property
    def theta_shape(self) -> tuple[int, ...]:
        return (self.batch, self.rows, self.columns)

    @property
    def grid_shape(self) -> tuple[int, ...]:
        return (self.batch, *((self.depth,) if self.dims == 3 else ()), self.height, self.width, self.dims)


class AffineGridPlan(Plan):
    """theta has shape (batch, dims, dims + 1), grid (batch, positions, dims), positions as (x, y) or (x, y, z)."""

    __slots__ = ()
    op = "affine_grid_{T}"
    category = OpCategory.IMAGE
    shapes: ClassVar = {"theta": "theta_shape", "grid": "grid_shape"}

    @property
    def kind(self) -> ImageKind:
        return ImageKind.AFFINE_GRID_2D if self.descriptor.dims == 2 else ImageKind.AFFINE_GRID_3D


class AffineGridBackwardPlan(Plan):
    """Gradient of theta. It needs a workspace."""

    __slots__ = ()
    descriptor_base = AffineGridDescriptor
    op = "affine_grid_backward_{T}"
    category = OpCategory.IMAGE
    kind = ImageKind.AFFINE_GRID_BACKWARD
    shapes: ClassVar = {"dgrid": "grid_shape", "dtheta": "theta_shape"}
