# SPDX-License-Identifier: Apache-2.0
"""What the ops must compute, written from their definitions and apart from the kernels.

Tests, tools.accuracy and tools.bench read one entry a function (functions/); it depends on nothing of theirs.
"""

from .bounds import EXACT, ORDINARY, Ulps
from .functions import BINARY, GATED, TERNARY, TRUTH, UNARY

# By what a result is called in a table of expected results: "gelu", "gelu_backward", "binary_pow".
ULPS: dict[str, Ulps] = {
    **{name: f.ulps for name, f in UNARY.items()},
    **{f"{name}_backward": f.gradient_ulps for name, f in UNARY.items()},
    **{f"binary_{name}": f.ulps for name, f in BINARY.items()},
    **{f"ternary_{name}": EXACT for name in TERNARY},
}

__all__ = ["BINARY", "GATED", "ORDINARY", "TERNARY", "TRUTH", "ULPS", "UNARY", "Ulps"]
