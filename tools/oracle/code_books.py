# SPDX-License-Identifier: Apache-2.0
"""Code books of four bits, in float64 and exact in f32."""

import numpy as np

# QLoRA, arXiv 2305.14314, appendix E.
NF4 = np.array(
    [
        -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
        -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634,
        0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
    ],
    np.float32,
).astype(np.float64)  # fmt: skip
# bitsandbytes' FP4: twelfths.
_FP4 = np.array([0.0, 0.0625, 8, 12, 4, 6, 2, 3], np.float64) / 12
FP4 = np.concatenate([_FP4, -_FP4]).astype(np.float32).astype(np.float64)
BOOKS = {0: NF4, 1: FP4}
