# SPDX-License-Identifier: Apache-2.0
"""Functions that mathematical libraries lack, for both kinds of numbers of reals.py."""

import math

from .reals import (
    HALF_SQRT_PI,
    INF,
    INVERSE_SQRT_TWO,
    INVERSE_SQRT_TWO_PI,
    NAN,
    PI,
    TWO_OVER_SQRT_PI,
    Constant,
    copysign,
    erf,
    erfc,
    exp,
    exp_minus_square,
    filled,
    fraction,
    isfinite,
    log,
    log1p,
    sin,
    sqrt,
    tan,
    two_product,
    where,
)

_WINITZKI = 0.147


def erfinv(x):
    """Winitzki's approximation, then Halley steps on erf, or on erfc where erf is flat."""
    size = abs(x)
    inside = where(size < 1, size, 0.0)
    logarithm = log1p(-inside * inside)
    a = 2 / (math.pi * _WINITZKI) + logarithm / 2
    z = sqrt(sqrt(a * a - logarithm / _WINITZKI) - a)
    z = where(inside < 1e-3, HALF_SQRT_PI * inside, z)
    for _ in range(3):
        residual = where(inside < 0.5, erf(z) - inside, (1 - inside) - erfc(z))
        step = residual / (TWO_OVER_SQRT_PI * exp_minus_square(z))
        z = z - step / (1 + z * step)
    z = where(size < 1, z, where(size == 1, INF, NAN))
    return copysign(z, x)


# --- Normal distribution ---------------------------------------------------------------------------------------------


def normal_cdf(x):
    """Phi(x) = erfc(-x / sqrt(2)) / 2, with a first-order correction for the rounding of the quotient."""
    factor, lost = INVERSE_SQRT_TWO.pair(x)
    high, low = two_product(-x, factor)
    low = low - where(isfinite(x), x, 0.0) * lost
    return (erfc(high) - TWO_OVER_SQRT_PI * exp(-high * high) * low) / 2


def normal_density(x):
    return INVERSE_SQRT_TWO_PI * exp_minus_square(x, 0.5)


# --- Derivatives of ln Gamma -----------------------------------------------------------------------------------------

# The positive zero of digamma, and the Taylor series about it from the linear term on.
DIGAMMA_ZERO = Constant("1.4616321449683623412626595423257213284681962")
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
_TAYLOR = [Constant(digits) for digits in _DIGITS.split()]
_BERNOULLI = ((1, 6), (-1, 30), (1, 42), (-1, 30), (5, 66), (-691, 2730), (7, 6), (-3617, 510), (43867, 798))
_LARGE = 24


def _asymptotic(z, term):
    """The sum of term(k) B_2k / z^2k, as a polynomial in 1 / z^2."""
    square = 1 / (z * z)
    series = filled(z, 0)
    for k in range(len(_BERNOULLI), 0, -1):
        numerator, denominator = _BERNOULLI[k - 1]
        series = (series + filled(z, numerator) / (denominator * term(k))) * square
    return series


def _digamma_positive(x):
    """Recurrence up to 24, then the asymptotic series (Abramowitz and Stegun 6.3.18)."""
    total, z = filled(x, 0), x
    for _ in range(_LARGE):
        small = z < _LARGE
        total = total + where(small, 1 / z, 0.0)
        z = where(small, z + 1, z)
    value = (log(z) - 1 / (2 * z) - _asymptotic(z, lambda k: 2 * k)) - total
    zero, lost = DIGAMMA_ZERO.pair(x)
    offset = (x - zero) - lost
    polynomial = filled(x, 0)
    for c in reversed(_TAYLOR):
        polynomial = (polynomial + c) * offset
    return where(abs(offset) < 0.25, polynomial, value)


def digamma(x):
    """NaN at negative integers, where the one-sided limits differ; -inf at +0 and +inf at -0."""
    positive = _digamma_positive(where(x > 0, x, 1 - x))
    part = fraction(x)
    # pi cot(pi x), computed where the tangent is small
    near = abs(part) <= 0.25
    tangent = tan(PI * where(near, part, copysign(0.5, part) - part))
    cotangent = PI * where(near, 1 / tangent, tangent)
    value = where(x > 0, positive, positive - cotangent)
    value = where((x < 0) & (part == 0), NAN, value)
    return where(x == 0, copysign(INF, -x), value)


def _trigamma_positive(x):
    total, z = filled(x, 0), x
    for _ in range(_LARGE):
        small = z < _LARGE
        total = total + where(small, 1 / (z * z), 0.0)
        z = where(small, z + 1, z)
    return (1 / z + 1 / (z * z) / 2 + _asymptotic(z, lambda k: 1) / z) + total


def trigamma(x):
    """+inf at 0 and the negative integers, where both sides agree; without a limit at -inf."""
    positive = _trigamma_positive(where(x > 0, x, 1 - x))
    value = where(x > 0, positive, (PI / sin(PI * fraction(x))) ** 2 - positive)
    return where(x == -INF, NAN, value)
