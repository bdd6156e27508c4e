# SPDX-License-Identifier: Apache-2.0
"""Error bounds of results against the float64 reference: all numbers are here, each with its reason.

A class gives the error that the op's arithmetic may have made *before* its last rounding. The result must then lie
between the roundings of reference - error and reference + error to the storage dtype, so the one rounding at the store
(with its ties, subnormals and overflow) must be exact, and an error of 0 requires the correctly rounded value.

The classes take an Expected `e` and the format `f` of the arithmetic.

The class "ulp" is for functions of single values. It compares with a reference of more digits than the storage dtype
and counts the error of the stored result in units in the last place; tools/oracle/bounds.py has the bounds, 0 for exact
ones.
"""

import typing

import numpy as np

import baracuda as bk
from tools.oracle import BINARY, ORDINARY, ULPS
from tools.oracle.bounds import COMPOSITE
from tools.oracle.numerics import (
    COMPLEX,
    COMPUTE,
    DIGITS,
    LARGEST,
    LEAST,
    SMALLEST,
    SMALLEST_NORMAL,
    UNIT_ROUNDOFF,
    decode,
    encode,
    is_float,
    round_to,
)


class Format(typing.NamedTuple):
    """u     unit roundoff of the compute type: 2^-53 for f64, 2^-24 for f32, f16 and bf16
    s     unit roundoff of the storage dtype
    tiny  smallest subnormal of the compute type, of the storage dtype as tiny_s
    lost  what an atomic addition in memory may drop
    """

    u: float
    s: float
    tiny: float
    tiny_s: float
    lost: float


# Bound in units of 2^-23 of the result for f32 sums of 2^15 to 2^20 positive elements. Sums are blocked by about the
# square root of the length, twice, which makes some hundred roundings of random sign. A running sum would err by 10 to
# 60.
LONG_SUM = 6.0

# Bound in the same units for the variance, and results made of it, of values with a large mean: the values are exact in
# f32, subtracting one of them is exact, and sums of some thousand differences are as accurate as those of small values.
LARGE_MEAN = 6.0

CLASSES: dict[str, typing.Callable[..., typing.Any]] = {}


def bound(function: typing.Callable[..., typing.Any]) -> typing.Callable[..., typing.Any]:
    """Makes the function of an Expected and a Format a tolerance class of its name."""
    CLASSES[function.__name__] = function
    return function


def format_of(dtype: str) -> Format:
    compute = COMPUTE[dtype]
    # NVIDIA's f32 atomic additions in global memory flush subnormal operands and results to 0 (PTX ISA, `red`), no
    # others do.
    lost = SMALLEST_NORMAL["f32"] if dtype == "f32" else 0.0
    return Format(UNIT_ROUNDOFF[compute], UNIT_ROUNDOFF[dtype], SMALLEST[compute], SMALLEST[dtype], lost)


def summation(n):
    """Relative growth of the error of a sum of n elements, in u.

    It is at most n - 1 whatever the order, hence 0 for a single element. For long sums of elements of random sign or
    rounding the errors are independent and grow with the square root; 2 sqrt(n) + 2 is many standard deviations away,
    because it is applied to the sum of magnitudes.
    """
    n = np.asarray(n, np.float64)
    return np.minimum(np.maximum(n - 1, 0), 2 + 2 * np.sqrt(n))


@bound
def exact(_e, _f):
    """Copies: the source's value, with the sign of a zero."""
    return 0.0


@bound
def pointwise(e, f):
    """`count` roundings of intermediate results no larger than `magnitude`; 0 where they vanish."""
    return e.count * (f.u * e.magnitude + f.tiny * (e.magnitude > 0))


@bound
def rounded(e, f):
    """The bound of pointwise; an integer is a value within the bound, rounded from f32."""
    return pointwise(e, f)


@bound
def total(e, f):
    """A sum of `count` elements in the compute type."""
    return summation(e.count) * f.u * e.magnitude


@bound
def recurrence(e, f):
    """A linear recurrence in chunks, by products of `count` elements one into the other: errors have random sign, and
    inverses of triangular matrices of keys of unit length are about 1. `magnitude` is the largest result's."""
    return (48 + 2 * np.sqrt(e.count)) * f.u * e.magnitude


@bound
def recurrence_of_rounded(e, f):
    """Sums of products with numbers that were rounded to the storage dtype, `divided` being the sum of these."""
    return recurrence(e, f) + f.s * e.divided


@bound
def total_of_products(e, f):
    """A sum of `count` elements, each of which is rounded once before it is added."""
    return (summation(e.count) + 1) * f.u * e.magnitude + e.count * f.tiny * (e.magnitude > 0)


@bound
def gemm(e, f):
    """A sum of `count` products and a few steps after it: the textbook's bound, linear in the count, since tensor cores
    truncate instead of rounding, always to the same side. Activations increase an error by at most a fifth, and have
    one of their own."""
    return 1.2 * (e.count + 8) * (f.u * e.magnitude + f.tiny * (e.magnitude > 0))


@bound
def gemm_of_rounded(e, f):
    """Products with weights that were rounded to the storage dtype first, `divided` being the sum of the magnitudes
    that weights multiply: a weight below the normal numbers is rounded to a multiple of the least one."""
    return gemm(e, f) + f.s * e.magnitude + f.tiny_s * e.divided


@bound
def truncated(e, f):
    """fp8 GEMM by warpgroups or cuBLASLt: on top of `gemm`, tensor cores align 32 products and the accumulator to
    the largest of them and truncate each at 2^-13 of it (arXiv 2412.19437, 3.3.2), in the four steps of K = 128, whose
    sums are added in f32. None of these is larger than the whole magnitude."""
    return gemm(e, f) + 4 * 33 * 2.0**-13 * e.magnitude


@bound
def gemm_3xtf32(e, f):
    """3xTF32 GEMM: on top of `gemm`, operands are f32 split into two TF32, whose products lack 3 parts in 2^22 of
    each."""
    return gemm(e, f) + 12 * f.u * e.magnitude


@bound
def mean(e, f):
    """The mean of a bag as a sum of quotients: each quotient is rounded, and the sum before it.

    A bag may hold one row many times, so the errors have one sign and grow with the length.
    """
    return np.where(np.asarray(e.count) > 1, (e.count + 1) * f.u * e.magnitude + f.tiny, 0)


@bound
def total_of_quotients(e, f):
    """Gradients of bags: one and the same element is added to a row many times, so the errors have one sign and grow
    with the length.

    The summands of a mean were rounded to the storage dtype first, as its spec says.
    """
    return np.maximum(e.count - 1, 0) * f.u * e.magnitude + f.s * e.divided + e.count * f.tiny_s * (e.divided > 0)


@bound
def atomic_total(e, f):
    """Atomic additions, each rounded to storage: in 16 bits their errors have one sign and grow with the length.

    The last factor covers the growth of the partial sums themselves. Where storage is the compute type this is `total`.
    """
    n = np.maximum(e.count - 1, 0)
    rounded = total(e, f) if f.s == f.u else n * f.s * e.magnitude * (1 + n * f.s)
    return rounded + e.count * f.lost


@bound
def atomic_product(e, f):
    """`count` atomic multiplications, each rounded to storage."""
    n = np.asarray(e.count) if f.s != f.u else 0
    return pointwise(e, f) + n * f.s * e.magnitude * (1 + n * f.s) + n * f.tiny_s * (np.asarray(e.magnitude) > 0)


@bound
def atomic_reduced(e, f):
    """Sums, products or means combined by atomics, where additions may drop subnormals."""
    return atomic_product(e, f) + e.count * f.lost


@bound
def atomic_total_of_quotients(e, f):
    """`total_of_quotients` by atomic additions."""
    n = np.maximum(e.count - 1, 0)
    return n * f.s * e.magnitude * (1 + n * f.s) + f.s * e.divided + e.count * (f.tiny_s * (e.divided > 0) + f.lost)


@bound
def norm(e, f):
    """A value made of a few products, some of which have a sum of `count` elements as a factor.

    There are eight roundings of products, quotients and a square root. A row's statistics are sums of their own, so
    `magnitude` has for each of them the sum of magnitudes, times all its factors.
    """
    return (summation(e.count) + 8) * f.u * e.magnitude + e.count * f.tiny * (e.magnitude > 0)


def ulps(op: str, dtype: str, backend: str) -> float:
    """Bound of the class "ulp": an entry's `ulps` and `gradient_ulps`, else that of an ordinary function."""
    return ULPS.get(op, ORDINARY).of(dtype, backend)


@bound
def ulp(e, f):
    """A sum of `count` elements in the compute type, each of them within its own bound before; single values use
    check()."""
    term = 2 * max(ORDINARY.f32, COMPOSITE.f32, COMPOSITE.f64) if f.s == f.u else 2.0**-18 / f.u
    return (summation(e.count) + term) * f.u * e.magnitude + e.count * f.tiny * (e.magnitude > 0)


@bound
def gated(e, f):
    """A product with a composite function: 2.5 units before the last rounding, of `magnitude` where summands cancel.

    `divided` is the magnitude of the factor of an intermediate result that may have been subnormal; `count` is 0 for a
    single product, else 1. 16 bits are as in ULP.
    """
    relative = 5.0 if f.s == f.u else 2.0**-18 / f.u
    return relative * f.u * e.magnitude + f.tiny * e.divided if e.count else 0.0


@bound
def loss(e, f):
    """A sum of `count` losses, each a short formula of functions that are within a few units before the last rounding,
    which is applied to `magnitude`, the magnitudes of what is added or cancelled; 16 bits are as in ULP. `divided` is
    the magnitude of the factors of operands that may be subnormal."""
    relative = 12.0 if f.s == f.u else 2.0**-16 / f.u
    lost = (e.count + e.divided) * f.tiny
    return (summation(e.count) + relative) * f.u * e.magnitude + np.where(np.asarray(e.magnitude) > 0, lost, 0)


@bound
def reduction(e, f):
    """A reduction of `count` elements, with a few units of each element's own: in `magnitude`, and in `divided` the
    error of the 16-bit types' exponential (2^-18, twice)."""
    rough = 2.0**-17 if f.s != f.u else 4 * f.u
    return np.where(e.count > 1, (summation(e.count) + 4) * f.u * e.magnitude + rough * e.divided, 0)


@bound
def scan(e, f):
    """A running sum or product of `count` elements, and exponentials of `divided` in all: in 16 bits with errors of
    2^-17, which the rounding hides, else of a few units."""
    exponentials = 8 * f.u if f.s == f.u else 2.0**-16
    return summation(e.count) * f.u * e.magnitude + exponentials * e.divided


@bound
def softmax(e, f):
    """Softmax: in `magnitude` the roundings of a sum of `count`, and in `divided` those of the exponentials' arguments
    and of the later products; the exponential of the 16-bit types has an error of 2^-17 more, which the last rounding
    hides, and flushes what is subnormal in f32."""
    rough = 6 * f.u if f.s == f.u else 6 * f.u + 2.0**-16
    return (summation(e.count) + 4) * f.u * e.magnitude + rough * e.divided


@bound
def sparsemax(e, f):
    """Sparsemax: distances from the largest logit, of which those that count are below 1: a sum of `count`, over their
    number."""
    return (summation(e.count) + 4) * f.u * e.magnitude


@bound
def attention(e, f):
    """A sum of `count` products of probabilities, in one pass or of partial states. `divided` is their magnitude times
    the roundings of a score, a sum over the head dimension, which is a relative error of a probability and of the sum
    of all: hence twice. Kernels of 16 bits round probabilities to storage before the second product, and their sum does
    not, as in the FlashAttention papers; 3xTF32 drops a few parts in 2^22 of each product."""
    stored = 2 * f.s + 2.0**-16 if f.s != f.u else 16 * f.u
    return (1.2 * (e.count + 16) * f.u + stored) * e.magnitude + 2 * f.u * e.divided + f.tiny * (e.magnitude > 0)


@bound
def state_space(e, f):
    """States after some of `count` steps, each with a few units of a decay's exponential, and sums of them; gates of a
    few units more."""
    return (2 * e.count + 64) * f.u * e.magnitude + f.tiny * (e.magnitude > 0)


@bound
def state_space_products(e, f):
    """`state_space` by products of chunks. A GPU rounds decayed scores and states of 16-bit types to TF32 before they
    are multiplied, and 3xTF32 drops a few parts in 2^22 of each product of f32."""
    stored = 2.0**-10 if f.s != f.u else 16 * f.u
    return state_space(e, f) + stored * e.magnitude


@bound
def log_sum(e, f):
    """The logarithm of a sum of exponentials: roundings of scores and of the sum in `magnitude`; `divided` is 1 where
    the exponentials are those of 16-bit types, within 2^-17."""
    return 2 * f.u * e.magnitude + 2.0**-16 * e.divided


@bound
def fourier(e, f):
    """A Fourier transform of `count` elements, whose 2-norm is `magnitude`: errors of each of its log2(count) steps are
    those of the norm (Gentleman and Sande 1966), and a length with a large prime factor has the steps of three
    transforms of up to four times the length, and products between them."""
    return (12 + 6 * np.log2(np.maximum(e.count, 1))) * f.u * e.magnitude + f.tiny * (e.magnitude > 0)


@bound
def spectral(e, f):
    """Values and vectors of a matrix of `count` rows and columns by reflectors and rotations: the backward error is a
    small multiple of count eps |A|, with `magnitude` how far a change of A by its own norm would move the result."""
    return 8 * (e.count + 4) * f.u * e.magnitude


def error_bound(expected, tolerance: str, dtype: str) -> np.ndarray:
    f = format_of(dtype)
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.broadcast_to(CLASSES[tolerance](expected, f), expected.value.shape)
        if tolerance == "exact":
            return error
        if dtype == "f64":
            # The reference is computed in f64 too, so it has an error of the same kind, and is rounded once itself.
            return np.where(error > 0, 2 * error + f.u * np.abs(expected.value), 0)
        if f.s != f.u:
            # The compute type rounds the result before the store does; copies and zeros stay exact.
            approximate = BINARY.get(expected.op.removesuffix("_backward"))
            hidden = approximate and bk.default_library().backend in approximate.approximate
            rounding = 2.0**-16 if hidden else f.u
            return np.where(np.asarray(expected.magnitude) > 0, error + rounding * np.abs(expected.value), 0)
        return error


def within_ulps(got, dtype: str, ref, bound: float, expected) -> tuple[np.ndarray, np.ndarray]:
    """Whether each value is within the bound, and its error in units. An infinity counts as the power of two that
    follows the largest value. The units are those of the expected magnitude where it is larger than the value. A zero
    has the reference's sign, unless it is a gradient that vanished, and a factor of `divided` may have been subnormal.
    """
    magnitude = expected.magnitude
    beyond = np.ldexp(np.longdouble(1), np.frexp(LARGEST[dtype])[1])
    near, value = (np.clip(v.astype(np.longdouble), -beyond, beyond) for v in (ref, got))
    exponent = np.frexp(np.where(np.isnan(near), 0, np.maximum(np.abs(near), magnitude)))[1] - DIGITS[dtype]
    exponent = np.clip(exponent, LEAST[dtype], np.frexp(LARGEST[dtype])[1] - DIGITS[dtype])
    factor = np.where(np.isfinite(expected.divided), expected.divided, 0) * SMALLEST[COMPUTE[dtype]]
    error = np.maximum(np.abs(value - near) - 128 * factor, 0) / np.ldexp(np.longdouble(1), exponent)
    good = np.where(np.isinf(ref), got == ref, error <= bound)
    good &= (got != 0) | (np.signbit(got) == np.signbit(ref)) | expected.op.endswith("_backward")
    return good | (np.isnan(got) & np.isnan(ref)), error


def hex_of(bits) -> str:
    """The bits of one element in hexadecimal, also of 16 bytes."""
    return hex(int.from_bytes(np.asarray(bits).tobytes(), "little"))


def report(name: str, got, ref, good, dtype: str, what: str) -> None:
    if good.all():
        return
    bad = np.argwhere(~good)
    first = tuple(int(i) for i in bad[0])
    raise AssertionError(
        f"{name}: {len(bad)} of {good.size} values are {what}; the first at {first}: got {got[first]!r}, expected "
        f"{ref[first]!r} (bits {hex_of(encode(got[first], dtype))})"
    )


def check(name: str, got: np.ndarray, dtype: str, expected, tolerance: str) -> None:
    """Asserts that the values `got` of storage `dtype` are within the class of the reference. NaN matches NaN."""
    ref = np.asarray(expected.value)
    assert got.shape == ref.shape, f"{name}: shape {got.shape}, expected {ref.shape}"
    if dtype in COMPLEX and tolerance == "exact":
        return report(name, got, ref, encode(got, dtype) == encode(ref, dtype), dtype, "not the reference, bit by bit")
    if tolerance == "spectral":
        return report(name, got, ref, is_spectral(got, dtype, expected), dtype, "outside 'spectral' of the reference")
    if tolerance == "fourier":
        return report(name, got, ref, is_transform(got, dtype, expected), dtype, "outside 'fourier' of the reference")
    if not is_float(dtype):
        slack = expected.count * UNIT_ROUNDOFF["f32"] * np.asarray(expected.magnitude)
        is_rounded = tolerance == "rounded" and np.any(slack)
        good = (np.rint(ref - slack) <= got) & (got <= np.rint(ref + slack)) if is_rounded else got == ref
        return report(name, got, ref, good, dtype, "not the reference")
    single = tolerance == "ulp" and np.max(expected.count) <= 1
    bound = ulps(expected.op, dtype, bk.default_library().backend) if single else 0.0
    with np.errstate(invalid="ignore", over="ignore"):
        if bound != 0:
            good, error = within_ulps(got, dtype, ref, bound, expected)
            worst = np.max(error, where=~good & np.isfinite(error), initial=0)
            return report(
                name, got, ref, good, dtype, f"not within {bound:.4g} units ({expected.op}; worst {worst:.4g})"
            )
        ref = ref.astype(np.float64)
        tolerance = "exact" if single else tolerance
        error = error_bound(expected, tolerance, dtype)
        low, high = round_to(ref - error, dtype), round_to(ref + error, dtype)
        good = np.where(np.isfinite(ref), (low <= got) & (got <= high), (got == ref) | (np.isnan(got) & np.isnan(ref)))
        if tolerance == "exact":
            good &= (np.signbit(got) == np.signbit(ref)) | np.isnan(ref)
    return report(name, got, ref, good, dtype, f"outside {tolerance!r} of the reference")


def is_transform(got, dtype: str, expected) -> np.ndarray:
    """Whether each value of a Fourier transform is within the bound, as a complex number. All complex numbers of a
    fiber with a NaN or an infinity are NaN or infinite; real ones may not depend on the part that was."""
    real = {"c32": "f32", "c64": "f64"}.get(dtype, dtype)
    with np.errstate(invalid="ignore", over="ignore"):
        ref = np.asarray(expected.value)
        error = CLASSES["fourier"](expected, format_of(real)) + UNIT_ROUNDOFF[real] * np.abs(ref)
        is_near: np.ndarray = np.abs(got - ref) <= error
    return np.where(np.isfinite(np.asarray(expected.magnitude)), is_near, ~np.isfinite(got) | (dtype == real))


def is_spectral(got, dtype: str, expected) -> np.ndarray:
    """Whether each number, real or complex, is within the bound. NaN matches NaN. The reference has an error too."""
    real = {"c32": "f32", "c64": "f64"}.get(dtype, dtype)
    ref, magnitude = np.asarray(expected.value), np.asarray(expected.magnitude)
    with np.errstate(invalid="ignore", over="ignore"):
        error = CLASSES["spectral"](expected, format_of(real)) * (2 if real == "f64" else 1)
        error = error + UNIT_ROUNDOFF[real] * np.abs(ref)
        is_near: np.ndarray = np.abs(got - ref) <= error + SMALLEST[real] * (magnitude > 0)
    return np.where(np.isnan(ref), np.isnan(got), is_near | (got == ref))


def check_bits(name: str, bits: np.ndarray, expected: np.ndarray, dtype: str) -> None:
    """Asserts equal bits, whatever they encode."""
    bad = np.argwhere(bits != expected)
    if len(bad):
        first = tuple(int(i) for i in bad[0])
        raise AssertionError(
            f"{name}: {len(bad)} of {bits.size} values differ in their bits; the first at {first}: "
            f"got {hex_of(bits[first])} ({decode(bits[first], dtype)}), expected {hex_of(expected[first])} "
            f"({decode(expected[first], dtype)})"
        )
