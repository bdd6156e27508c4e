# SPDX-License-Identifier: Apache-2.0
"""GEMMs: dense ones and batches, grouped, of pointers, scaled, of narrow elements, and packing of 4-bit weights.

The plans of dense GEMMs are here as well as in baracuda.gemm.dense.
"""

from baracuda.gemm.dense import *  # noqa: F403
