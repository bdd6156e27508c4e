"""Functions in the widest floating-point type that the platform has: x87's 64-bit significand where it can be had.

An argument or exponent that would lose bits by a rounding travels as a pair, the rounded value and what it lost.
"""

import ctypes
import ctypes.util
import fractions

import numpy as np

Wide = np.longdouble


def wide(values) -> np.ndarray:
    return np.asarray(values, Wide)


def parts(text: str):
    """A constant, and what its rounding lost."""
    value = Wide(text)
    lost = fractions.Fraction(text) - fractions.Fraction(*value.as_integer_ratio())
    return value, Wide(float(lost))


PI = Wide("3.1415926535897932384626433832795028841971694")
LN2 = Wide("0.693147180559945309417232121458176568075500134")
LN10 = Wide("2.30258509299404568401799145468436420760110149")
TWO_OVER_SQRT_PI = Wide("1.12837916709551257389615890312154517168810126")
HALF_SQRT_PI = Wide("0.886226925452758013649083741670572591398774728")
INVERSE_SQRT_TWO_PI = Wide("0.398942280401432677939946059934381868475858631")
INVERSE_SQRT_TWO = parts("0.707106781186547524400844362104849039284835938")


# --- Pairs -----------------------------------------------------------------------------------------------------------


def two_product(a, b):
    """The rounded product and what it lost (Dekker 1971); large factors only lose the second part."""
    half = (np.finfo(Wide).nmant + 2) // 2
    splitter = Wide(2) ** half + 1

    def split(v):
        c = splitter * v
        high = c - (c - v)
        return high, v - high

    product = a * b
    (a1, a2), (b1, b2) = split(a), split(b)
    lost = ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2
    return product, np.where(np.isfinite(lost), lost, 0)


def exp_pair(high, low):
    """e^(high + low) for a low part that is small beside 1."""
    return np.exp(high) * (1 + low)


def exp_minus_square(x, scale=1):
    """e^(-scale x^2), scale a power of two."""
    high, low = two_product(x, x)
    return exp_pair(-scale * high, -scale * low)


def power(x, exponent):
    """x^exponent. That of finite numbers is neither 0 nor infinite; what it is multiplied by may be, and decides."""
    x, exponent = wide(x), wide(exponent)
    value = np.power(x, exponent)
    least, most = Wide(2) ** -16000, Wide(2) ** 16000
    within = np.isfinite(x) & (x != 0) & np.isfinite(exponent) & ~np.isnan(value)
    return np.where(within, np.copysign(np.clip(np.abs(value), least, most), value), value)


# --- libm ------------------------------------------------------------------------------------------------------------


class _Number(ctypes.c_longdouble):
    """A subclass is what ctypes hands over without a conversion to Python's float."""


_libm = ctypes.CDLL(ctypes.util.find_library("m") or "libm.so.6")


def _of_libm(name: str):
    function = getattr(_libm, name)
    function.argtypes, function.restype = [ctypes.c_longdouble], _Number

    def elementwise(x):
        x = wide(x)
        flat = np.array(x, Wide).reshape(-1)
        result = np.empty_like(flat)
        source, target = (_Number * flat.size).from_buffer(flat), (_Number * flat.size).from_buffer(result)
        for i in range(flat.size):
            target[i] = function(source[i])
        return result.reshape(x.shape)

    elementwise.__name__ = name
    return elementwise


erf = _of_libm("erfl")
erfc = _of_libm("erfcl")
lgamma = _of_libm("lgammal")


def erfinv(x):
    """Winitzki's approximation, then Halley's steps on erf, or on erfc where erf is flat."""
    x = wide(x)
    size = np.abs(x)
    inside = np.where(size < 1, size, 0)
    log = np.log1p(-inside * inside)
    a = 2 / (PI * Wide("0.147")) + log / 2
    z = np.sqrt(np.sqrt(a * a - log / Wide("0.147")) - a)
    z = np.where(inside < Wide("1e-3"), HALF_SQRT_PI * inside, z)
    for _ in range(3):
        residual = np.where(inside < 0.5, erf(z) - inside, (1 - inside) - erfc(z))
        step = residual / (TWO_OVER_SQRT_PI * exp_minus_square(z))
        z = z - step / (1 + z * step)
    z = np.where(size < 1, z, np.where(size == 1, Wide(np.inf), Wide(np.nan)))
    return np.copysign(z, x)


# --- Normal distribution ---------------------------------------------------------------------------------------------


def normal_cdf(x):
    """Phi(x) = erfc(-x / sqrt(2)) / 2, to first order in what the rounding of the quotient loses."""
    x = wide(x)
    factor, lost = INVERSE_SQRT_TWO
    high, low = two_product(-x, factor)
    low = low - np.where(np.isfinite(x), x, 0) * lost
    return (erfc(high) - TWO_OVER_SQRT_PI * np.exp(-high * high) * low) / 2


def normal_density(x):
    return INVERSE_SQRT_TWO_PI * exp_minus_square(wide(x), Wide(0.5))


# --- Derivatives of ln Gamma -----------------------------------------------------------------------------------------

# The positive zero of digamma, and the Taylor series about it from the linear term on.
DIGAMMA_ZERO = parts("1.4616321449683623412626595423257213284681962")
_DIGITS = """
    0.96767224544762117042744476 -0.44276316898359210609286528 0.25849976095565101062440139
    -0.16394270544240652750425129 0.10782405069126236575718295 -0.072199561256454710926121784
    0.048804288164143107225092526 -0.033161126474847359292258398 0.022597648232218104659624825
    -0.015424765904948959138800317 0.01053879161661217538812405 -0.0072045343863568682409704744
    0.0049267813957298534463542664 -0.0033698016554393280827928567 0.0023051263267349278369383803
    -0.001576936771430197259270935 0.0010788252019162965806919178 -0.00073807093899600512956604739
    0.00050495326583460203517739818 -0.00034546802510630769955556797 0.00023635601564027052792369602
    -0.00016170622091974803449358306 0.00011063372768747410904087163 -0.000075691795821950659192377087
    0.000051785757952220808689932678 -0.000035430070947659606315698817 0.000024240066118601317652683067
    -0.000016584242271854133375242545 0.000011346384584663849806701563 -0.0000077628176684620942254677356
"""
DIGAMMA_TAYLOR = [Wide(digits) for digits in _DIGITS.split()]
_BERNOULLI = [
    Wide(n) / Wide(d)
    for n, d in ((1, 6), (-1, 30), (1, 42), (-1, 30), (5, 66), (-691, 2730), (7, 6), (-3617, 510), (43867, 798))
]
_LARGE = 24


def _fraction(x):
    """x less the nearest integer, exact."""
    return np.where(np.isfinite(x), x - np.rint(x), 0)


def _digamma_positive(x):
    """Recurrence up to 24, then the asymptotic series (Abramowitz and Stegun 6.3.18)."""
    total, z = np.zeros_like(x), x
    for _ in range(_LARGE):
        small = z < _LARGE
        total = total + np.where(small, 1 / z, 0)
        z = np.where(small, z + 1, z)
    square = 1 / (z * z)
    series = np.zeros_like(z)
    for k in range(len(_BERNOULLI), 0, -1):
        series = (series + _BERNOULLI[k - 1] / (2 * k)) * square
    value = (np.log(z) - 1 / (2 * z) - series) - total
    offset = (x - DIGAMMA_ZERO[0]) - DIGAMMA_ZERO[1]
    polynomial = np.zeros_like(x)
    for c in reversed(DIGAMMA_TAYLOR):
        polynomial = (polynomial + c) * offset
    return np.where(np.abs(offset) < 0.25, polynomial, value)


def digamma(x):
    """NaN at the negative integers, whose sides differ; -inf at +0 and +inf at -0, as 1/x goes."""
    x = wide(x)
    positive = _digamma_positive(np.where(x > 0, x, 1 - x))
    part = _fraction(x)
    # pi cot(pi x), from the side where the tangent is small
    near = np.abs(part) <= 0.25
    tangent = np.tan(PI * np.where(near, part, np.copysign(0.5, part) - part))
    cotangent = PI * np.where(near, 1 / tangent, tangent)
    value = np.where(x > 0, positive, positive - cotangent)
    value = np.where((x < 0) & (part == 0), Wide(np.nan), value)
    return np.where(x == 0, np.copysign(Wide(np.inf), -x), value)


def _trigamma_positive(x):
    total, z = np.zeros_like(x), x
    for _ in range(_LARGE):
        small = z < _LARGE
        total = total + np.where(small, 1 / (z * z), 0)
        z = np.where(small, z + 1, z)
    square = 1 / (z * z)
    series = np.zeros_like(z)
    for k in range(len(_BERNOULLI), 0, -1):
        series = (series + _BERNOULLI[k - 1]) * square
    return (1 / z + square / 2 + series / z) + total


def trigamma(x):
    """+inf at 0 and the negative integers, where both sides agree; without a limit at -inf."""
    x = wide(x)
    positive = _trigamma_positive(np.where(x > 0, x, 1 - x))
    sine = np.sin(PI * _fraction(x))
    value = np.where(x > 0, positive, (PI / sine) ** 2 - positive)
    return np.where(x == -np.inf, Wide(np.nan), value)
