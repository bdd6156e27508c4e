"""How far a result may be from the float64 reference: the only place with numbers, each with its reason.

A class gives the error that the op's arithmetic may have made *before* its last rounding. The result must then lie
between the roundings of reference - error and reference + error to the storage dtype, so the one rounding at the store
(with its ties, subnormals and overflow) is held to exactly, and an error of 0 asks for the correctly rounded value.

The classes take an Expected `e` and the format `f` of the arithmetic.

The class "ulp" is for functions of single values. It compares with a reference of more digits than the storage dtype
and counts the error of the stored result in units of its last place; ULPS holds the bounds, 0 for exact ones.
"""

import typing

import numpy as np

import baracuda as bk
from harness.numerics import (
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


EXACT = 0.0
# One rounding. The reference's own error, 2^-11 units of f64 where it has 64 bits, leaves ties undecided.
ROUNDED = 0.5 + 2.0**-10
# 16 bits are rounded from f32, whose error is below 2^-18 of the value.
ULP = {"f64": 2.0, "f32": 2.0, "f16": 0.5 + 2.0**-6, "bf16": 0.5 + 2.0**-6}
COMPOSITE = {"f32": 3.0, "f64": 5.0}
# activations, in f64 none from a library; gradients have a root or one more product, and a lower bound would cost speed
# on a GPU
ACTIVATION = {"f32": 3.0, "f64": 3.5}
ACTIVATION_GRADIENT = {"f32": 4.0, "f64": 3.5}
# glibc's vector functions of f64 promise 4 units (its manual, "libmvec"; tools/accuracy/libmvec.c measures each
# width); those of f32 are ours on the CPU.
LIBRARY = {"f64": 4.0}
# By Expected.op. A number is for f32 and f64; 16 bits have ULP's bound unless the number is EXACT.
ULPS: dict[str, float | dict[str, float]] = {
    # results that are an operand, its negative, an integer or a constant
    **dict.fromkeys(("neg", "abs", "sign", "floor", "ceil", "round", "trunc", "frac", "step"), EXACT),
    **dict.fromkeys(("relu", "relu_propagating", "relu6", "hardtanh", "hardshrink", "threshold"), EXACT),
    **dict.fromkeys(
        ("neg_backward", "abs_backward", "sign_backward", "floor_backward", "ceil_backward", "round_backward",
         "trunc_backward", "frac_backward", "step_backward", "relu_backward", "relu_propagating_backward",
         "relu6_backward", "hardtanh_backward", "hardshrink_backward", "softshrink_backward", "threshold_backward"),
        EXACT,
    ),
    # functions of two and three operands that are rounded once, decided by the reference; pow, atan2 and hypot are not
    **dict.fromkeys(("binary", "ternary"), EXACT),
    # one operation of IEEE 754
    **dict.fromkeys(("reciprocal", "square", "sqrt", "softshrink", "leaky_relu"), ROUNDED),
    **dict.fromkeys(("exp_backward", "log_backward", "leaky_relu_backward"), ROUNDED),
    **dict.fromkeys(
        ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh",
         "cosh", "tanh", "asinh", "acosh", "atanh", "cbrt", "erf", "erfc", "erfinv", "sigmoid", "logit", "lgamma",
         "digamma", "powf", "powi"),
        LIBRARY,
    ),
    **dict.fromkeys(
        ("sin_backward", "cos_backward", "sinh_backward", "cosh_backward", "erf_backward",
         "erfc_backward", "erfinv_backward", "lgamma_backward", "digamma_backward"),
        COMPOSITE,
    ),
    # where the power itself leaves the range of f64 it is the fourth power of its root, whose error counts four times
    **{op: {"f32": COMPOSITE["f32"], "f64": 8.0} for op in ("powf_backward", "powi_backward")},
    # 1 + t^2 has twice the error of t: 6.4 units of dy = 1 below 300, and 8 found beyond
    "tan_backward": {"f32": COMPOSITE["f32"], "f64": 2 * LIBRARY["f64"] + 1},
    # several operations, each of which may be half a unit off, after a function of the mathematical library
    **dict.fromkeys(
        (f"{name}{suffix}" for name in ("gelu", "gelu_erf", "gelu_tanh", "silu", "mish", "softplus", "selu", "elu",
                                        "tanhshrink", "softsign") for suffix in ("", "_backward")),
        ACTIVATION,
    ),
    **dict.fromkeys(
        ("gelu_backward", "gelu_erf_backward", "mish_backward", "tanhshrink_backward", "tanhshrink", "softplus"),
        ACTIVATION_GRADIENT,
    ),
    # those of bf16 are differences in f32 beside the root, too
    **{op: {**ACTIVATION_GRADIENT, "bf16": 0.5 + 2.0**-5} for op in ("gelu_tanh_backward", "silu_backward")},
    # f32 lacks the digits that f16 still needs beside the roots at irrational arguments
    "lgamma": {**LIBRARY, "f16": 1.5},
    "digamma": {**LIBRARY, "f16": 1.05},
    "lgamma_backward": {**COMPOSITE, "f16": 1.3},  # 1.24 at x = -16.734375 over all dy
}  # fmt: skip


# CUDA's own functions, where its guide ("Mathematical Functions", full range) promises less than the above.
CUDA_ULPS: dict[tuple[str, str], float] = {
    **{(op, "f32"): 4.0 for op in ("tan", "acosh", "erfc", "powf", "binary_pow")},
    **{(op, "f32"): 3.0 for op in ("sinh", "asinh", "atanh", "binary_atan2", "binary_hypot")},
    **{(op, "f64"): 5.0 for op in ("erfc", "erfinv")},
    **{(op, "f32"): 3.0 for op in ("digamma", "erfinv")},  # erfinv of the guide; digamma in f32
    ("lgamma", "f32"): 6.0,
    ("lgamma_backward", "f32"): 4.0,
    ("tan_backward", "f32"): 9.0,  # 1 + t^2 doubles the error of tan
    # a fourth power of a root by powf, as of f64 above
    **{(op, "f32"): 17.0 for op in ("powf_backward", "powi_backward")},
}

# 16-bit results of the class "pointwise" with a relative error of 2^-16, which the rounding to 16 bits hides: of 2^x by
# a short polynomial, and of the GPU's approximate instructions.
APPROXIMATE = {
    "cpu": ("pow_backward",),
    "cuda": ("pow_backward", "div_backward", "atan2_backward", "hypot_backward"),
}


def ulps(op: str, dtype: str, backend: str) -> float:
    """Bound of the class "ulp"."""
    found = ULPS.get(op, ULP[dtype])
    if isinstance(found, dict):
        found = found.get(dtype, ULP[dtype])
    elif found != EXACT and dtype not in ("f32", "f64"):
        found = ULP[dtype]
    return max(found, CUDA_ULPS.get((op, dtype), 0)) if backend == "cuda" else found


def ulp(e, f):
    """A sum of `count` terms in the compute type, each of them within its own bound before; single values: check()."""
    term = 2 * max(ULP["f32"], *COMPOSITE.values()) if f.s == f.u else 2.0**-18 / f.u
    return (summation(e.count) + term) * f.u * e.terms + e.count * f.tiny * (e.terms > 0)


def gated(e, f):
    """A product with a composite function: 2.5 units before the last rounding, of `terms` where some cancel.

    `divided` is the magnitude of what an intermediate result is multiplied by that may have been subnormal; `count` is
    0 for a single product, else 1. 16 bits are as in ULP.
    """
    relative = 5.0 if f.s == f.u else 2.0**-18 / f.u
    return relative * f.u * e.terms + f.tiny * e.divided if e.count else 0.0


CLASSES = {
    f.__name__: f
    for f in (
        exact, pointwise, total, total_of_products, mean, total_of_quotients, atomic_total, atomic_total_of_quotients,
        ulp, gated,
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
            rounding = 2.0**-16 if expected.op in APPROXIMATE[bk.default_library().backend] else f.u
            return np.where(np.asarray(expected.terms) > 0, error + rounding * np.abs(expected.value), 0)
        return error


def within_ulps(got, dtype: str, ref, bound: float, expected) -> tuple[np.ndarray, np.ndarray]:
    """Whether each value is, and its error in units. An infinity counts as the power of two that follows the largest
    value. The units are those of the expected terms where they are larger than the value. A zero has the reference's
    sign, unless it is a gradient that vanished, and a factor of `divided` may have been subnormal."""
    terms = expected.terms
    beyond = np.ldexp(np.longdouble(1), np.frexp(LARGEST[dtype])[1])
    near, value = (np.clip(v.astype(np.longdouble), -beyond, beyond) for v in (ref, got))
    exponent = np.frexp(np.where(np.isnan(near), 0, np.maximum(np.abs(near), terms)))[1] - DIGITS[dtype]
    exponent = np.clip(exponent, LEAST[dtype], np.frexp(LARGEST[dtype])[1] - DIGITS[dtype])
    factor = np.where(np.isfinite(expected.divided), expected.divided, 0) * SMALLEST[COMPUTE[dtype]]
    error = np.maximum(np.abs(value - near) - 128 * factor, 0) / np.ldexp(np.longdouble(1), exponent)
    good = np.where(np.isinf(ref), got == ref, error <= bound)
    good &= (got != 0) | (np.signbit(got) == np.signbit(ref)) | expected.op.endswith("_backward")
    return good | (np.isnan(got) & np.isnan(ref)), error


def report(name: str, got, ref, good, dtype: str, what: str) -> None:
    if good.all():
        return
    bad = np.argwhere(~good)
    first = tuple(int(i) for i in bad[0])
    raise AssertionError(
        f"{name}: {len(bad)} of {good.size} values are {what}; the first at {first}: got {got[first]!r}, expected "
        f"{ref[first]!r} (bits {int(encode(got[first], dtype)):#x})"
    )


def check(name: str, got: np.ndarray, dtype: str, expected, tolerance: str) -> None:
    """Assert that the values `got` of storage `dtype` are within the class of the reference. NaN matches NaN."""
    ref = np.asarray(expected.value)
    assert got.shape == ref.shape, f"{name}: shape {got.shape}, expected {ref.shape}"
    if not is_float(dtype):
        return report(name, got, ref, got == ref, dtype, "not the reference")
    single = tolerance == "ulp" and np.max(expected.count) <= 1
    bound = ulps(expected.op, dtype, bk.default_library().backend) if single else EXACT
    with np.errstate(invalid="ignore", over="ignore"):
        if bound != EXACT:
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
