# SPDX-License-Identifier: Apache-2.0
"""Rotary position embedding (Su et al. 2021): pairs of features are rotated by angles proportional to the position.

y_a = x_a cos - x_b sin, y_b = x_b cos + x_a sin of the angle pos base^(-2i / head_dim), where the pair i is features 2i
and 2i + 1, or i and i + head_dim / 2. Rope takes positions, RopePositions positions for each batch and rotary_dim,
RopeStarts the first position of each batch, RopeApply tables of cosines and sines. Gradients are the inverse rotation.
y may be x, dx may be dy.
"""

from baracuda.rotary.apply import *  # noqa: F403
from baracuda.rotary.positions import *  # noqa: F403
from baracuda.rotary.tables import *  # noqa: F403
