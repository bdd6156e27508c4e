# SPDX-License-Identifier: Apache-2.0
"""Image ops.

Affine grid: the positions at which an affine map samples an image, corners not aligned. grid[n, i, j] = (x, y), where
x = theta[n, 0] . (bx, by, 1) and y = theta[n, 1] . (bx, by, 1); bx = (2 j + 1) / width - 1, by = (2 i + 1) / height - 1
are the centre of the output's cell (i, j).
"""

from __future__ import annotations

import dataclasses

from baracuda import descriptor
from baracuda.descriptor import Descriptor
from baracuda.kinds import ImageKind, OpCategory
from baracuda.plan import Plan


@dataclasses.dataclass(frozen=True)
class AffineGrid2dDescriptor(Descriptor):
    """f32 and f64. height and width are those of the output."""

    batch: int = descriptor.extent()
    height: int = descriptor.extent()
    width: int = descriptor.extent()


class AffineGrid2dPlan(Plan):
    """theta has shape (batch, 2, 3), grid (batch, height, width, 2), positions as (x, y)."""

    __slots__ = ()
    op = "affine_grid_2d_{T}"
    category = OpCategory.IMAGE
    kind = ImageKind.AFFINE_GRID_2D
