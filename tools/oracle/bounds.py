# SPDX-License-Identifier: Apache-2.0
"""How many units of the last place a function's result may be off: the classes that the entries of functions name.

A bound is for f32 and f64; f16 and bf16 are rounded from f32, whose error is below 2^-18 of the value, and have HALF
unless they are exact or a bound says otherwise. On a GPU CUDA's own functions allow what its guide ("Mathematical
Functions", full range) promises where that is less.
"""

import dataclasses

HALF = 0.5 + 2.0**-6


@dataclasses.dataclass(frozen=True)
class Ulps:
    """Units of the last place by dtype; `on_gpu` has the dtypes of which CUDA promises less."""

    f32: float
    f64: float
    f16: float = HALF
    bf16: float = HALF
    on_gpu: tuple[tuple[str, float], ...] = ()

    def but(self, **bounds: float) -> "Ulps":
        """With other bounds of some dtypes."""
        return dataclasses.replace(self, **bounds)

    def cuda(self, **bounds: float) -> "Ulps":
        """With greater bounds of some dtypes on a GPU."""
        return dataclasses.replace(self, on_gpu=tuple(bounds.items()))

    def of(self, dtype: str, backend: str) -> float:
        bound = getattr(self, dtype)
        return max(bound, dict(self.on_gpu).get(dtype, 0.0)) if backend == "cuda" else bound


# An operand, its negative, an integer or a constant; or what one correct rounding gives, ties included.
EXACT = Ulps(0.0, 0.0, 0.0, 0.0)
# One rounding. The reference's own error, 2^-11 units of f64 where it has 64 bits, leaves ties undecided.
ROUNDED = Ulps(0.5 + 2.0**-10, 0.5 + 2.0**-10)
# A few operations.
ORDINARY = Ulps(2.0, 2.0)
# A quotient by a product of two sums, each of which may be half a unit off: 3.5 units at worst if a root is taken of
# the product, 4 if not. No f32 argument is off by more than 2.
FACTORS = Ulps(2.0, 4.0)
# glibc's vector functions of f64 promise 4 units (its manual, "libmvec"; tools/accuracy/libmvec.c measures each width);
# those of f32 are ours on the CPU.
LIBRARY = Ulps(2.0, 4.0)
# A product with a function of the library, or two of them.
COMPOSITE = Ulps(3.0, 5.0)
# Several operations, each of which may be half a unit off, after a function of the library: activations, in f64 none
# from a library. Their gradients have a root or one more product, and a lower bound would cost speed on a GPU.
ACTIVATION = Ulps(3.0, 3.5)
ACTIVATION_GRADIENT = Ulps(4.0, 3.5)
