"""How far a result may be from the float64 reference: the only place with numbers, each with its reason.

A class gives the error that the op's arithmetic may have made *before* its last rounding. The result must then lie
between the roundings of reference - error and reference + error to the storage dtype, so the one rounding at the store
(with its ties, subnormals and overflow) is held to exactly, and an error of 0 asks for the correctly rounded value.

The classes take an Expected `e` and the format `f` of the arithmetic.
"""

import typing

import numpy as np

from harness.numerics import COMPUTE, SMALLEST, SMALLEST_NORMAL, UNIT_ROUNDOFF, decode, encode, round_to


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


def format_of(dtype: str) -> Format:
    compute = COMPUTE[dtype]
    # NVIDIA's f32 additions in global memory flush subnormal operands and results to 0 (PTX ISA, `red`), no others do.
    lost = SMALLEST_NORMAL["f32"] if dtype == "f32" else 0.0
    return Format(UNIT_ROUNDOFF[compute], UNIT_ROUNDOFF[dtype], SMALLEST[compute], SMALLEST[dtype], lost)


def summation(n):
    """Relative growth of the error of n terms, in u.

    At most n - 1 whatever the order, hence 0 for a single term. For long sums of terms of random sign or rounding the
    errors are independent and grow with the square root; 2 sqrt(n) + 2 is many standard deviations away, because it is
    applied to the sum of magnitudes.
    """
    n = np.asarray(n, np.float64)
    return np.minimum(np.maximum(n - 1, 0), 2 + 2 * np.sqrt(n))


def exact(_e, _f):
    """Moves: the source, with the sign of a zero."""
    return 0.0


def pointwise(e, f):
    """`count` roundings of intermediate results no larger than `terms`; 0 where they vanish."""
    return e.count * (f.u * e.terms + f.tiny * (e.terms > 0))


def total(e, f):
    """A sum of `count` terms in the compute type."""
    return summation(e.count) * f.u * e.terms


def total_of_products(e, f):
    """As total; each term is rounded once before it is added."""
    return (summation(e.count) + 1) * f.u * e.terms + e.count * f.tiny * (e.terms > 0)


def mean(e, f):
    """A bag's sum, of terms already divided by the count: the quotient is rounded too, and the sum before it.

    A bag may hold one row many times, so the errors have one sign and grow with the length.
    """
    return np.where(np.asarray(e.count) > 1, (e.count + 1) * f.u * e.terms + f.tiny, 0)


def total_of_quotients(e, f):
    """A bag adds one and the same term to a row many times, so the errors have one sign and grow with the length.

    A mean's terms were rounded to the storage dtype first, as its spec says.
    """
    return np.maximum(e.count - 1, 0) * f.u * e.terms + f.s * e.divided + e.count * f.tiny_s * (e.divided > 0)


def atomic_total(e, f):
    """Additions in memory, each rounded to storage: with 16 bits their errors have one sign and grow with the length.

    The factor covers the growth of the partial sums themselves. Where storage is the compute type this is total.
    """
    n = np.maximum(e.count - 1, 0)
    rounded = total(e, f) if f.s == f.u else n * f.s * e.terms * (1 + n * f.s)
    return rounded + e.count * f.lost


def atomic_total_of_quotients(e, f):
    """total_of_quotients by additions in memory."""
    n = np.maximum(e.count - 1, 0)
    return n * f.s * e.terms * (1 + n * f.s) + f.s * e.divided + e.count * (f.tiny_s * (e.divided > 0) + f.lost)


CLASSES = {
    f.__name__: f
    for f in (
        exact, pointwise, total, total_of_products, mean, total_of_quotients, atomic_total, atomic_total_of_quotients,
    )
}  # fmt: skip


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
            # The compute type rounds the result before the store does; what is only moved or 0 stays as it is.
            return np.where(np.asarray(expected.terms) > 0, error + f.u * np.abs(expected.value), 0)
        return error


def check(name: str, got: np.ndarray, dtype: str, expected, tolerance: str) -> None:
    """Assert that the values `got` of storage `dtype` are within the class of the reference. NaN matches NaN."""
    ref = np.asarray(expected.value, np.float64)
    assert got.shape == ref.shape, f"{name}: shape {got.shape}, expected {ref.shape}"
    with np.errstate(invalid="ignore", over="ignore"):
        error = error_bound(expected, tolerance, dtype)
        low, high = round_to(ref - error, dtype), round_to(ref + error, dtype)
        good = np.where(np.isfinite(ref), (low <= got) & (got <= high), (got == ref) | (np.isnan(got) & np.isnan(ref)))
        if tolerance == "exact":
            good &= (np.signbit(got) == np.signbit(ref)) | np.isnan(ref)
    if good.all():
        return
    bad = np.argwhere(~good)
    first = tuple(int(i) for i in bad[0])
    raise AssertionError(
        f"{name}: {len(bad)} of {good.size} values are outside {tolerance!r} of the reference; the first at {first}: "
        f"got {got[first]!r}, expected {ref[first]!r} +- {np.broadcast_to(error, ref.shape)[first]:.3g} "
        f"(bits {encode(got[first], dtype):#x})"
    )


def check_bits(name: str, bits: np.ndarray, expected: np.ndarray, dtype: str) -> None:
    """Assert equal bits, whatever they stand for."""
    bad = np.argwhere(bits != expected)
    if len(bad):
        first = tuple(int(i) for i in bad[0])
        raise AssertionError(
            f"{name}: {len(bad)} of {bits.size} values differ in their bits; the first at {first}: "
            f"got {int(bits[first]):#x} ({decode(bits[first], dtype)}), expected {int(expected[first]):#x} "
            f"({decode(expected[first], dtype)})"
        )
