# SPDX-License-Identifier: Apache-2.0
"""Comparisons, those of IEEE 754 for floats."""

import numpy as np

from ..function import Truth

FUNCTIONS = (
    Truth("eq", holds=np.equal),
    Truth("ne", holds=np.not_equal),
    Truth("gt", holds=np.greater),
    Truth("ge", holds=np.greater_equal),
    Truth("lt", holds=np.less),
    Truth("le", holds=np.less_equal),
)
