# SPDX-License-Identifier: Apache-2.0
"""The minimax polynomials of native/core/math: function, interval and weight of each.

Polynomials of even or odd functions have the variable s = x^2.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import mpmath as mp

from tools.fit.remez import Fit, Function, fit

DIGITS = 40
_TINY = mp.mpf(10) ** -14  # below it a quotient is replaced by its limit


@dataclasses.dataclass(frozen=True)
class Polynomial:
    """function   of the variable; the largest weighted error is minimised
    interval   of the variable
    count      coefficients, from the constant one on
    bits       of a coefficient, 24 or 53
    exact      leading coefficients that are rounded before the others are fitted
    error      bound of the largest weighted error; the default is an eighth of f32's last place
    """

    file: str
    name: str
    function: Function
    interval: tuple[mp.mpf, mp.mpf]
    count: int
    weight: Function
    bits: int
    exact: int
    error: float = 2.0**-27

    def fit(self) -> Fit:
        with mp.workdps(DIGITS):
            return fit(self.function, self.interval, range(self.count), self.weight, self.bits, self.exact)


def _or_limit(function: Function, limit: Function, least: mp.mpf = _TINY) -> Function:
    return lambda x: limit(x) if abs(x) <= least else function(x)


def _of_root(function: Function, limit: Function) -> Function:
    return _or_limit(lambda s: function(mp.sqrt(s)), limit)


def polynomials() -> Iterator[Polynomial]:
    with mp.workdps(DIGITS):
        for group in (_exponentials, _logarithms, _circular, _hyperbolic, _error_functions, _gamma, _portable,
                      _normal_quantile):  # fmt: skip
            yield from group()


def _exponentials() -> list[Polynomial]:
    half_ln2, half = mp.log(2) / 2, mp.mpf(1) / 2
    exp = _or_limit(lambda r: (mp.expm1(r) - r) / r**2, lambda r: half + r / 6, mp.mpf(10) ** -8)
    exp2 = _or_limit(lambda r: (mp.power(2, r) - 1) / r, lambda r: mp.log(2) + r * mp.log(2) ** 2 / 2, mp.mpf(10) ** -8)
    relative = lambda r: r / mp.power(2, r)  # noqa: E731
    return [
        Polynomial("exp_log_cpu.h", "e^r = 1 + r + r^2 P(r)", exp, (-half_ln2, half_ln2), 5,
                   lambda r: r * r / mp.exp(r), 24, 2),
        Polynomial("exp_log_cpu.h", "2^r = 1 + r P(r)", exp2, (-half, half), 6, relative, 24, 2),
        Polynomial("f64_cpu.h", "2^r = 1 + r P(r)", exp2, (-half, half), 6, relative, 53, 0),
    ]  # fmt: skip


def _logarithms() -> list[Polynomial]:
    root, margin = mp.sqrt(2), mp.mpf(2) ** -18
    log1p = _or_limit(lambda f: (mp.log1p(f) - f + f * f / 2) / f**3, lambda f: mp.mpf(1) / 3 - f / 4, mp.mpf(10) ** -8)
    artanh = _of_root(lambda s: (2 * mp.atanh(s) / s - 2) / s**2, lambda z: mp.mpf(2) / 3 + z * 2 / 5)
    return [
        Polynomial("exp_log_cpu.h", "ln(1 + f) = f - f^2 / 2 + f^3 P(f)", log1p,
                   (1 / root - 1 - margin, root - 1 + margin), 8,
                   _or_limit(lambda f: f**3 / mp.log1p(f), lambda f: f * f, mp.mpf(10) ** -8), 24, 2),
        Polynomial("f64_cpu.h", "2 artanh s = 2 s + s^3 P(s^2), for log2 of f32", artanh,
                   (mp.mpf(0), mp.mpf("0.0296")), 4, lambda z: z / 2, 53, 0),
        Polynomial("f64_cpu.h", "2 artanh s = 2 s + s^3 P(s^2), for ln of f64", artanh,
                   (mp.mpf(0), mp.mpf("0.02944")), 7, lambda z: z, 53, 0),
    ]  # fmt: skip


def _circular() -> list[Polynomial]:
    half_pi, eighth = (mp.pi / 2 + mp.mpf(2) ** -7) ** 2, (mp.pi / 4 + mp.mpf(2) ** -8) ** 2
    sine = _of_root(lambda r: (mp.sin(r) / r - 1) / r**2, lambda s: -mp.mpf(1) / 6 + s / 120)
    tangent = _of_root(lambda r: (mp.tan(r) / r - 1) / r**2, lambda s: mp.mpf(1) / 3 + s * 2 / 15)
    arcsine = _of_root(lambda r: (mp.asin(r) / r - 1) / r**2, lambda s: mp.mpf(1) / 6 + s * 3 / 40)
    zero = mp.mpf(0)
    return [
        Polynomial("trigonometric_cpu.h", "sin r = r + r^3 P(r^2)", sine, (zero, half_pi), 4,
                   _of_root(lambda r: r**3 / mp.sin(r), lambda s: s), 24, 2),
        Polynomial("trigonometric_cpu.h", "tan r = r + r^3 P(r^2)", tangent, (zero, eighth), 7,
                   _of_root(lambda r: r**3 / mp.tan(r), lambda s: s), 53, 0),
        Polynomial("inverse_trigonometric_cpu.h", "asin r = r + r^3 P(r^2)", arcsine, (zero, mp.mpf(1) / 4), 5,
                   lambda s: s, 24, 2),
    ]  # fmt: skip


def _hyperbolic() -> list[Polynomial]:
    sinh = _of_root(lambda r: (mp.sinh(r) / r - 1) / r**2, lambda s: mp.mpf(1) / 6 + s / 120)
    tanh = _of_root(lambda r: (mp.tanh(r) / r - 1) / r**2, lambda s: -mp.mpf(1) / 3 + s * 2 / 15)
    atanh = _of_root(lambda r: (mp.atanh(r) / r - 1) / r**2, lambda s: mp.mpf(1) / 3 + s / 5)
    zero = mp.mpf(0)
    return [
        Polynomial("hyperbolic_cpu.h", "sinh r = r + r^3 P(r^2)", sinh, (zero, mp.mpf(1)), 4, lambda s: s, 24, 1),
        Polynomial("hyperbolic_cpu.h", "tanh r = r + r^3 P(r^2)", tanh, (zero, mp.mpf("0.390625")), 6,
                   _of_root(lambda r: r**3 / mp.tanh(r), lambda s: s), 24, 2),
        Polynomial("hyperbolic_cpu.h", "artanh r = r + r^3 P(r^2)", atanh, (zero, mp.mpf(1) / 4), 6,
                   _of_root(lambda r: r**3 / mp.atanh(r), lambda s: s), 24, 2),
    ]  # fmt: skip


def _error_functions() -> list[Polynomial]:
    pole = mp.mpf(3)

    def erfcx_over_pole(u: mp.mpf) -> mp.mpf:
        z = pole * (1 + u) / (1 - u)
        return (z + pole) * mp.exp(z * z) * mp.erfc(z)

    near = _of_root(lambda r: mp.erf(r) / r - 1, lambda s: 2 / mp.sqrt(mp.pi) * (1 - s / 3) - 1)
    return [
        Polynomial("error_function_cpu.h", "erf r = r + r P(r^2)", near, (mp.mpf(0), mp.mpf(1)), 7,
                   _of_root(lambda r: r / mp.erf(r), lambda s: mp.mpf(1)), 24, 2),
        Polynomial("error_function_cpu.h", "erfc z = 2^P(z)", lambda z: mp.log(mp.erfc(z), 2),
                   (mp.mpf(1), mp.mpf(4)), 7, lambda z: mp.erfc(z) * mp.log(2), 24, 1),
        Polynomial("error_function_cpu.h", "erfc z = e^(-z^2) P(u) / (z + 3)", erfcx_over_pole,
                   (mp.mpf(-1), mp.mpf("0.6")), 10, lambda u: 1 / erfcx_over_pole(u), 53, 0),
    ]  # fmt: skip


def _gamma() -> list[Polynomial]:
    half = mp.mpf(1) / 2

    def stirling(s: mp.mpf) -> mp.mpf:
        z = 1 / mp.sqrt(s)
        return (mp.loggamma(z) - (z - half) * mp.log(z) + z - mp.log(2 * mp.pi) / 2) * z

    def between_roots(v: mp.mpf) -> mp.mpf:
        return 1 - mp.euler if abs(v) < mp.mpf(10) ** -12 else mp.loggamma(v + 2) / (v * (v + 1))

    far = _or_limit(stirling, lambda s: mp.mpf(1) / 12 - s / 360 + s * s / 1260, mp.mpf(10) ** -10)
    sine = _of_root(lambda r: mp.sin(mp.pi * r) / (mp.pi * r), lambda s: 1 - s * mp.pi**2 / 6)
    zero = mp.mpf(0)
    return [
        Polynomial("gamma_cpu.h", "ln Gamma(v + 2) = v (v + 1) P(v)", between_roots, (-half, half), 17,
                   lambda v: abs(v * (v + 1)) + mp.mpf(1) / 100, 53, 0),
        Polynomial("gamma_cpu.h", "ln Gamma(z) = (z - 1/2) ln z - z + ln(2 pi) / 2 + P(1 / z^2) / z", far,
                   (zero, mp.mpf("0.16")), 11, lambda s: mp.sqrt(s) + mp.mpf(1) / 1000, 53, 0),
        Polynomial("gamma_cpu.h", "sin(pi r) = pi r P(r^2)", sine, (zero, mp.mpf(1) / 4), 9,
                   lambda s: mp.mpf(1), 53, 0),
    ]  # fmt: skip


def _portable() -> list[Polynomial]:
    file, half_ln2, zero, sixteenth = "portable.h", mp.log(2) / 2, mp.mpf(0), mp.mpf(1) / 16
    artanh = _of_root(lambda s: (2 * mp.atanh(s) / s - 2) / s**2, lambda z: mp.mpf(2) / 3 + z * 2 / 5)
    exp = _or_limit(lambda r: (mp.expm1(r) - r) / r**2, lambda r: mp.mpf(1) / 2 + r / 6, mp.mpf(10) ** -8)
    sine = _of_root(lambda t: mp.sinpi(t) / t, lambda s: mp.pi - mp.pi**3 / 6 * s)
    cosine: Function = lambda s: mp.cospi(mp.sqrt(s))  # noqa: E731
    binary = _or_limit(lambda f: -mp.log(1 + f, 2) / f, lambda f: -1 / mp.log(2))
    of_mantissas = (mp.sqrt(mp.mpf(1) / 2) - 1, mp.sqrt(2) - 1)
    return [
        Polynomial(file, "-log2(1 + f) = f P(f), absolute", binary, of_mantissas, 8, abs, 24, 0, 2.0**-23),
        Polynomial(file, "2 artanh s = 2 s + s^3 P(s^2)", artanh, (zero, mp.mpf("0.02944")), 8, lambda z: z, 53, 0),
        Polynomial(file, "e^r = 1 + r + r^2 P(r)", exp, (-half_ln2, half_ln2), 11, lambda r: r * r / mp.exp(r), 53, 0),
        Polynomial(file, "sin(pi t) = t P(t^2), f32", sine, (zero, sixteenth), 4, lambda s: 1 / sine(s), 24, 2,
                   2.0**-25),
        Polynomial(file, "cos(pi t) = P(t^2), f32", cosine, (zero, sixteenth), 5, lambda s: 1 / cosine(s), 24, 2),
        Polynomial(file, "sin(pi t) = t P(t^2), f64", sine, (zero, sixteenth), 8, lambda s: 1 / sine(s), 53, 0),
        Polynomial(file, "cos(pi t) = P(t^2), f64", cosine, (zero, sixteenth), 9, lambda s: 1 / cosine(s), 53, 0),
    ]  # fmt: skip


def _quantile_ratio(w: mp.mpf) -> mp.mpf:
    """z / x, where the tail above z has the probability t, x = 1 - 2 t and w = -ln(1 - x^2)."""
    if w < mp.mpf(10) ** -12:
        return mp.sqrt(mp.pi / 2)
    square = mp.exp(-w)
    x = mp.sqrt(1 - square)
    if x < mp.mpf("0.4"):
        return mp.sqrt(2) * mp.erfinv(x) / x
    t = square / (2 * (1 + x))
    z = mp.sqrt(-2 * mp.log(t))
    for _ in range(60):  # Newton's method for ln of the tail
        tail = mp.erfc(z / mp.sqrt(2)) / 2
        step = mp.log(tail / t) * tail * mp.sqrt(2 * mp.pi) * mp.exp(z * z / 2)
        z += step
        if abs(step) < mp.mpf(10) ** -36:
            break
    return z / x


def _normal_quantile() -> list[Polynomial]:
    """z / x as a polynomial in w - c or w / ln 2 - c up to a limit of w, and in sqrt(w) - c beyond it."""

    def segment(name: str, low: object, high: object, centre: str, count: int, bits: int, exact: int, error: float,
              *, root: bool) -> Polynomial:  # fmt: skip
        c = mp.mpf(centre)
        value: Function = lambda v: _quantile_ratio((v + c) ** 2 if root else v + c)  # noqa: E731
        interval = (mp.mpf(low) - c, mp.mpf(high) - c)
        return Polynomial("normal_quantile.h", name, value, interval, count, lambda v: 1 / value(v), bits, exact, error)

    of_binary: Function = lambda v: _quantile_ratio((v + mp.mpf("3.611328125")) * mp.log(2))  # noqa: E731
    near = (mp.mpf("-3.611328125"), mp.mpf("3.611328125"))
    return [
        Polynomial(
            "normal_quantile.h", "f32, w <= 7.22 ln 2", of_binary, near, 10, lambda v: 1 / of_binary(v), 24, 2, 2.0**-26
        ),
        segment("f32, sqrt(w) <= 4.65", mp.sqrt(5), "4.65", "3.4375", 11, 24, 2, 2.0**-24, root=True),
        segment("f32, sqrt(w) <= 8.7", "4.64", "8.7", "6.6875", 8, 24, 2, 2.0**-24, root=True),
        segment("f64, w <= 6.25", 0, "6.25", "3.125", 24, 53, 0, 2.0**-53, root=False),
        segment("f64, sqrt(w) <= 4", "2.5", 4, "3.25", 20, 53, 0, 2.0**-53, root=True),
        segment("f64, sqrt(w) <= 6", 4, 6, "5", 18, 53, 0, 2.0**-52, root=True),
        segment("f64, sqrt(w) <= 8.7", "5.96", "8.7", "7.375", 17, 53, 0, 2.0**-52, root=True),
    ]
