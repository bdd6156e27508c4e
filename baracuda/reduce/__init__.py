# SPDX-License-Identifier: Apache-2.0
"""Reductions along an axis or any set of axes, gradients, reductions to a shape, and the trace.

Results keep the axis, with extent 1. NaN propagates; the index of equal extremes is that of the first, and they share
the gradient evenly. Operands have any strides. Sums of f16 and bf16 are accumulated in f32.
"""

from baracuda.reduce.axes import *  # noqa: F403
from baracuda.reduce.one_axis import *  # noqa: F403
from baracuda.reduce.to_shape import *  # noqa: F403
from baracuda.reduce.trace import *  # noqa: F403
