# SPDX-License-Identifier: Apache-2.0
"""References of the ops, written from their definitions and independent of the kernels.

Tests, tools.accuracy and tools.bench read one entry per function (functions/); the package imports none of them.
"""

from .bounds import EXACT, ORDINARY, Ulps
from .functions import BINARY, GATED, TERNARY, TRUTH, UNARY

# Entries by the names of results: "gelu", "gelu_backward", "binary_pow".
ULPS: dict[str, Ulps] = {
    **{name: f.ulps for name, f in UNARY.items()},
    **{f"{name}_backward": f.gradient_ulps for name, f in UNARY.items()},
    **{f"binary_{name}": f.ulps for name, f in BINARY.items()},
    **{f"ternary_{name}": EXACT for name in TERNARY},
}

__all__ = ["BINARY", "GATED", "ORDINARY", "TERNARY", "TRUTH", "ULPS", "UNARY", "Ulps"]
