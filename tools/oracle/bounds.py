# SPDX-License-Identifier: Apache-2.0
"""Error bounds of functions in units of the last place (ulp): the classes that the oracle's entries name.

A bound is for f32 and f64; f16 and bf16 are rounded from f32, whose error is below 2^-18 of the value, and have HALF
unless they are exact or a bound says otherwise. On a GPU CUDA's own functions allow what its guide ("Mathematical
Functions", full range) promises where that is less.
"""

import dataclasses

HALF = 0.5 + 2.0**-6


@dataclasses.dataclass(frozen=True)
class Ulps:
    """Bounds in ulp by dtype; `on_gpu`: larger bounds of CUDA's functions."""

    f32: float
    f64: float
    f16: float = HALF
    bf16: float = HALF
    on_gpu: tuple[tuple[str, float], ...] = ()

    def but(self, **bounds: float) -> "Ulps":
        """Copy with other bounds for some dtypes."""
        return dataclasses.replace(self, **bounds)

    def cuda(self, **bounds: float) -> "Ulps":
        """Copy with larger bounds for some dtypes on a GPU."""
        return dataclasses.replace(self, on_gpu=tuple(bounds.items()))

    def of(self, dtype: str, backend: str) -> float:
        bound = getattr(self, dtype)
        return max(bound, dict(self.on_gpu).get(dtype, 0.0)) if backend == "cuda" else bound


# Exact: an operand, its negative, an integer or a constant; or one correct rounding, ties included.
EXACT = Ulps(0.0, 0.0, 0.0, 0.0)
# One rounding. The reference has an error of 2^-11 ulp of f64 (64-bit significand), so ties are undecided.
ROUNDED = Ulps(0.5 + 2.0**-10, 0.5 + 2.0**-10)
# A few operations.
ORDINARY = Ulps(2.0, 2.0)
# A quotient by a product of two sums, each with an error of 0.5 ulp: at most 3.5 ulp if the product's root is taken, 4
# if not. The largest error over all f32 arguments is 2.
FACTORS = Ulps(2.0, 4.0)
# glibc's f64 vector functions promise 4 ulp (its manual, "libmvec"; tools/accuracy/libmvec.c measures each width); f32
# functions on the CPU are our own.
LIBRARY = Ulps(2.0, 4.0)
# A product with one or two library functions.
COMPOSITE = Ulps(3.0, 5.0)
# Several operations of 0.5 ulp each after a library function: activations (own in f64). Their gradients have a
# root or one more product, and a lower bound would cost speed on a GPU.
ACTIVATION = Ulps(3.0, 3.5)
ACTIVATION_GRADIENT = Ulps(4.0, 3.5)
