# SPDX-License-Identifier: Apache-2.0
"""Error bounds of the polynomials of native/ that tools.fit.polynomials does not compute.

They are minimax fits by other programs, with weights and constraints of their own (positive coefficients, leading ones
of few bits, sums of two numbers). The recorded error is the largest relative distance from the function, in exact
arithmetic with coefficients rounded as in the code.
"""

from __future__ import annotations

import dataclasses
import pathlib
import re
from collections.abc import Callable, Iterator, Sequence

import mpmath as mp

from tools.fit.remez import Function, grid, rounded

NATIVE = pathlib.Path(__file__).resolve().parents[2] / "native"
DIGITS = 40
_POINTS = 120  # even, so that the midpoint 0 is no grid point
_NUMBER = r"-?(?:0x[0-9a-f]\.[0-9a-f]*p[-+]?[0-9]+|[0-9]+\.[0-9]*(?:e[-+]?[0-9]+)?)f?"
_BETWEEN = r",\s+"
_LEAST = 3  # fewest numbers of a list that counts as a polynomial


@dataclasses.dataclass(frozen=True)
class Bound:
    """keys         a number of each list of coefficients, as the source has it; P, Q are these polynomials
    interval     of x
    value        (x, P, Q ...) -> the value of the code's formula, where P, Q are polynomials in `variable`
    truth        x -> the exact value
    error        log2 of the largest relative error, rounded up
    variable     x -> argument of the polynomials; None: x
    size         x -> the value that the error is relative to; None: the truth
    bits         of a coefficient, 24 or 53
    falling      the highest power comes first
    between      a pattern of what separates the numbers
    """

    file: str
    name: str
    keys: tuple[str, ...]
    interval: tuple[mp.mpf, mp.mpf]
    value: Callable[..., mp.mpf]
    truth: Function
    error: float
    variable: Function | None = None
    size: Function | None = None
    bits: int = 24
    falling: bool = False
    between: str = _BETWEEN

    def lists(self) -> list[tuple[str, ...]]:
        """Coefficients in the order of the file."""
        found = lists_of(self.file, self.between)
        return [next(numbers for numbers in found if key in numbers) for key in self.keys]

    def largest_error(self) -> mp.mpf:
        """The largest error on a grid."""
        with mp.workdps(DIGITS):
            lists = [[number_of(text, self.bits) for text in numbers] for numbers in self.lists()]
            rising = [numbers[::-1] if self.falling else numbers for numbers in lists]
            return max(self._error_at(x, rising) for x in grid(*self.interval, _POINTS))

    def _error_at(self, x: mp.mpf, lists: Sequence[Sequence[mp.mpf]]) -> mp.mpf:
        v = x if self.variable is None else self.variable(x)
        truth = self.truth(x)
        size = truth if self.size is None else self.size(x)
        return abs(self.value(x, *(mp.polyval(numbers[::-1], v) for numbers in lists)) - truth) / abs(size)


def lists_of(file: str, between: str = _BETWEEN) -> list[tuple[str, ...]]:
    """Every list of numbers with a fraction in the file, as text, that nothing but `between` interrupts."""
    text = (NATIVE / file).read_text()
    lists = (match.group() for match in re.finditer(rf"(?<![\w.])(?<!- ){_NUMBER}(?:{between}{_NUMBER})+", text))
    return [found for numbers in lists if len(found := tuple(re.findall(_NUMBER, numbers))) >= _LEAST]


def number_of(text: str, bits: int) -> mp.mpf:
    """The coefficient in the code: a literal of f32 or f64, rounded to the compute type."""
    digits = text.removesuffix("f")
    exact = mp.mpf(float.fromhex(digits)) if digits.lstrip("-").startswith("0x") else mp.mpf(digits)
    literal = rounded(exact, 24 if text.endswith("f") and "0x" not in text else 53)
    return rounded(literal, bits)


def bounds() -> Iterator[Bound]:
    with mp.workdps(DIGITS):
        yield from (
            *_core(),
            *_of_halves(),
            *_approximation(),
            *_activations(),
            *_roots(),
            *_normal(),
            *_erfinv(),
            *_gamma(),
        )


_ZERO, _HALF = mp.mpf(0), mp.mpf(1) / 2
_SMALL = mp.mpf(10) ** -10  # replaces 0, where a quotient is undefined
_FALLING_STEPS = r";\s+q = q \* r \+ "
_FALLING_FMA = r"\)?;\s+p = ::fmaf\(p, s, "


def _core() -> list[Bound]:
    root = mp.sqrt(2)
    s = (root - 1) / (root + 1)
    return [
        Bound("core/math/half_power.h", "log2 of (1 + s) / (1 - s) = s P(s^2)", ("0.43173591f",), (_SMALL, s),
              lambda x, p: x * p, lambda x: 2 * mp.atanh(x) / mp.log(2), -26, lambda x: x * x, falling=True,
              between=r"\)?, "),
        Bound("core/math/exp_log_cpu.h", "2^r = P(r), 16 bits", ("0.693124175f",), (-_HALF, _HALF), lambda x, p: p,
              lambda x: mp.power(2, x), -18, between=r" \+ f \* \(?"),
        Bound("core/math/f64_cpu.h", "e^r = 1 + r + r^2 P(r)", ("0.16666666666666669",),
              (-mp.log(2) / 2, mp.log(2) / 2), lambda x, p: 1 + x + x * x * p, mp.exp, -54, bits=53, falling=True,
              between=_FALLING_STEPS),
        Bound("core/math/arctangent.h", "atan t = t + t^3 P(t^2)", ("-0x1.55553ep-2f",), (_SMALL, mp.mpf(1)),
              lambda x, p: x + x**3 * p, mp.atan, -25, lambda x: x * x, falling=True, between=_FALLING_FMA),
        Bound("core/math/sinh_ratio.h", "sinh x = x P(x^2)", ("0.166659716f",), (_SMALL, _HALF), lambda x, p: x * p,
              mp.sinh, -23, lambda x: x * x, falling=True, between=r"\)?, "),
    ]  # fmt: skip


def _of_halves() -> list[Bound]:
    file, near = "core/math/math_half.h", mp.mpf(1) / 16
    square: Function = lambda x: x * x  # noqa: E731
    quarter, eighth = mp.mpf(1) / 4, mp.mpf(1) / 8

    def quotient(
        name: str, key: str, most: mp.mpf, truth: Function, error: float, variable: Function | None = square
    ) -> Bound:
        return Bound(file, name, (key,), (_SMALL, most), lambda x, p: x * p, truth, error, variable)

    return [
        Bound(file, "ln(1 + f) = f P(f)", ("0.999999617f",), (-near, near), lambda x, p: p, lambda f: mp.log1p(f) / f,
              -21),
        Bound(file, "log2(1 + f) = f P(f)", ("1.44269449f",), (-near, near), lambda x, p: p,
              lambda f: mp.log1p(f) / f / mp.log(2), -21),
        Bound(file, "log10(1 + f) = f P(f)", ("0.434294316f",), (-near, near), lambda x, p: p,
              lambda f: mp.log1p(f) / f / mp.log(10), -21),
        Bound(file, "e^x - 1 = x P(x)", ("0.500004484f",), (-quarter, quarter), lambda x, p: p,
              lambda x: mp.expm1(x) / x, -17),
        quotient("arsinh x = x P(x^2)", "-0.16657352f", quarter, mp.asinh, -21),
        Bound(file, "arcosh(1 + f) = sqrt(2 f) P(f)", ("-0.0831612568f",), (_SMALL, quarter),
              lambda f, p: mp.sqrt(2 * f) * p,
              lambda f: mp.acosh(1 + f), -18),
        quotient("artanh x = x P(x^2)", "0.333312683f", eighth, mp.atanh, -24),
        Bound(file, "acos x = sqrt(1 - x) P(x)", ("-0.214110814f",), (_ZERO, mp.mpf("0.9999")),
              lambda x, p: mp.sqrt(1 - x) * p, mp.acos, -17),
        quotient("asin x = x P(x^2)", "0.16685216f", _HALF, mp.asin, -19),
        quotient("erf x = x P(x^2)", "1.12837902f", _HALF, mp.erf, -22),
        Bound(file, "erf x = 1 - 2^P(x)", ("-1.61365401f",), (_HALF, mp.mpf("4.2")), lambda x, p: 1 - mp.power(2, p),
              mp.erf, -18),
        Bound(file, "erfc x = e^(-x^2) P(x) / (1 + x Q(x))", ("1.02878401f", "2.1571341f"), (_ZERO, mp.mpf(12)),
              lambda x, p, q: p / q, lambda x: mp.exp(x * x) * mp.erfc(x), -19),
        Bound(file, "erfinv x = x P(w), w = -ln(1 - x^2)", ("0.231992656f",), (_SMALL, mp.mpf(7)), lambda w, p: p,
              _erfinv_ratio, -19),
    ]  # fmt: skip


def _erfinv_ratio(w: mp.mpf) -> mp.mpf:
    """erfinv(x) / x, given -ln(1 - x^2)."""
    x = mp.sqrt(-mp.expm1(-w))
    return mp.erfinv(x) / x


def _approximation() -> list[Bound]:
    file, reduced = "elementwise/approximation.h", (-mp.log(2) / 2, mp.log(2) / 2)
    halves, third = (-_HALF, _HALF), mp.mpf(1) / 3
    exp = (lambda x, p: 1 + x + x * x * p), mp.exp
    exp2 = (lambda x, p: 1 + x * p), (lambda x: mp.power(2, x))
    artanh = (lambda s, p: 2 * s + s**3 * p), (lambda s: 2 * mp.atanh(s))
    square: Function = lambda s: s * s  # noqa: E731
    return [
        Bound(file, "e^r = 1 + r + r^2 P(r), f64", ("0.04166666666666672449",), reduced, *exp, -60, bits=53),
        Bound(file, "e^r = 1 + r + r^2 P(r), f32", ("0.041666205164",), reduced, *exp, -27),
        Bound(file, "2^r = 1 + r P(r), f64", ("0.69314718055994530816",), halves, *exp2, -55, bits=53),
        Bound(file, "2^r = 1 + r P(r), f32", ("0.240226468516",), halves, *exp2, -25),
        Bound(file, "e^x - 1 = x P(x), 16 bits", ("0.499969312906",), (-mp.mpf(1) / 4, -_SMALL), lambda x, p: x * p,
              mp.expm1, -21),
        Bound(file, "2 artanh s = 2 s + s^3 P(s^2), 16 bits", ("0.39633818912",), (_SMALL, third), *artanh, -22,
              square),
        Bound(file, "2 artanh s = 2 s + s^3 P(s^2), f64", ("0.4000000000015722277",), (_SMALL, third), *artanh, -58,
              square, bits=53),
        Bound(file, "ln(1 + e) = e P(e), 16 bits", ("-0.499974048",), (_SMALL, mp.mpf(1)), lambda e, p: e * p,
              mp.log1p, -22),
        Bound(file, "ln(1 + e) = e + e^2 P(e), f32", ("-0.499999007042",), (_SMALL, mp.mpf(1)),
              lambda e, p: e + e * e * p, mp.log1p, -25),
    ]  # fmt: skip


def _activations() -> list[Bound]:
    one, third = mp.mpf(1), mp.mpf(1) / 3
    rest: Function = lambda z: z - mp.tanh(z)  # noqa: E731
    square: Function = lambda z: z * z  # noqa: E731
    least = mp.mpf(10) ** -6
    return [
        Bound("elementwise/functors/activations.h", "z - tanh z = z^3 (1/3 + z^2 P(z^2)) / (1 + z^2 Q(z^2))",
              ("0.0003724816747014114394", "0.02742843813241023453"), (least, one),
              lambda z, p, q: z**3 * (third + z * z * p) / (1 + z * z * q), rest, -56, square, bits=53),
        Bound("elementwise/functors/activations.h", "z - tanh z = z^3 P(z^2), f32", ("-0.133333106906",), (least, one),
              lambda z, p: z**3 * p, rest, -25, square, mp.tanh),
        Bound("elementwise/functors/logit.h", "ln(1 + f) = f + f^2 P(f)", ("0.33333215946",), (-third, third),
              lambda f, p: 1 + f * p, lambda f: mp.log1p(f) / f, -27),
    ]  # fmt: skip


def _roots() -> list[Bound]:
    """Numerators of derivatives at -z, as polynomials in the distance t to their root in z; c comes first."""
    file, near = "elementwise/functors/activations.h", (-mp.mpf(1) / 4, mp.mpf(1) / 4)
    c1 = 2 * mp.sqrt(2 / mp.pi)
    c3 = mp.mpf("0.044715") * c1

    def mish(z: mp.mpf) -> mp.mpf:
        e = mp.exp(-z)
        return (e + 2) * (e * e + 2 * e + 2) - 4 * z * (e + 1)

    def pair(
        name: str,
        function: Function,
        guess: str,
        first: tuple[str, str],
        keys: tuple[str, str],
        errors: tuple[int, int],
    ) -> list[Bound]:
        root = mp.findroot(function, mp.mpf(guess))

        def at(kind: int) -> Bound:
            c, of = mp.mpf(first[kind]), ("f64", "f32")[kind]
            return Bound(file, f"{name} = t (c + t P(t)), {of}", (keys[kind],), near, lambda t, p: t * (c + t * p),
                         lambda t: function(root - t), errors[kind], bits=(53, 24)[kind])  # fmt: skip

        return [at(0), at(1)]

    return [
        *pair("1 + e^-z - z", lambda z: 1 + mp.exp(-z) - z, "1.278", ("1.278464542761073795", "1.2784645432"),
              ("0.1392322713805368976", "0.13923227147"), (-62, -29)),
        *pair("mish", mish, "1.192", ("6.407964080090054641", "6.4079640802"), ("2.263207433519213087", "2.2632076252"),
              (-56, -28)),
        *pair("1 + e^-v(z) - z v'(z)", lambda z: 1 + mp.exp(-c1 * z - c3 * z**3) - c1 * z - 3 * c3 * z**3, "0.752",
              ("2.460656764630239380", "2.4606567929"), ("-0.09991152322555442616", "-0.099911464166"), (-55, -26)),
    ]  # fmt: skip


def _normal() -> list[Bound]:
    """R(z) = exp(z^2 / 2) Phi(-z); S(z) = R(z) - z exp(z^2 / 2) phi(z)."""
    file = "elementwise/functors/normal_distribution.h"
    tail: Function = lambda z: mp.exp(z * z / 2) * mp.erfc(z / mp.sqrt(2)) / 2  # noqa: E731
    slope: Function = lambda z: tail(z) - z / mp.sqrt(2 * mp.pi)  # noqa: E731
    root = mp.findroot(slope, mp.mpf("0.75"))
    short, long = (_ZERO, mp.mpf("16.1875")), (_ZERO, mp.mpf("38.5"))  # then exp(-z^2 / 2) is subnormal
    of_f32, of_f64 = mp.mpf("3.28857421875"), mp.mpf(3)

    def mobius(pole: mp.mpf) -> Function:
        return lambda z: (z - pole) / (z + pole)

    def over_root(z: mp.mpf) -> mp.mpf:
        return slope(z) / (root - z)

    first, rest = mp.mpf(0.4782976777552484068), mp.mpf("1.0762e-17")
    return [
        Bound(file, "R(z) = P(z) / (1 + z Q(z))", ("0.499999791", "1.52532415"), short,
              lambda z, p, q: p / (1 + z * q), tail, -19),
        Bound(file, "S(z) = (root - z) P(z) / (1 + z Q(z))", ("0.665077636", "1.52532415"), short,
              lambda z, p, q: p / (1 + z * q), over_root, -20),
        Bound(file, "R(z) = P(u) / (z + a), f32", ("-0.54375904799",), short, lambda z, p: p / (z + of_f32), tail, -25,
              mobius(of_f32)),
        Bound(file, "R(z) = P(u) / (z + 3), f64", ("-0.5093319819174895682",), long,
              lambda z, p: (p - mp.mpf("4.4735e-17")) / (z + of_f64), tail, -53, mobius(of_f64), bits=53),
        Bound(file, "S(z) = (root - z) P(u), f32", ("-0.11490285397",), short, lambda z, p: p, over_root, -28,
              mobius(of_f32)),
        Bound(file, "S(z) = (root - z) (c + u P(u)), f64", ("-0.1199754271354450569",), long,
              lambda z, p: first + rest + mobius(of_f64)(z) * p, over_root, -55, mobius(of_f64), bits=53),
    ]  # fmt: skip


def _erfinv() -> list[Bound]:
    """erfinv as a function of w = -ln(1 - x^2)."""
    file, core, at_zero = "elementwise/functors/special.h", "core/math/error_function_cpu.h", mp.sqrt(mp.pi) / 2

    def rooted(shift: str) -> Function:
        return lambda w: mp.sqrt(w) - mp.mpf(shift)

    near = lambda w, p: at_zero + w * p  # noqa: E731
    far = lambda w, p: p  # noqa: E731
    return [
        Bound(file, "erfinv x = x (sqrt(pi) / 2 + w P(w - 25/8))", ("0.2455768439137103",), (_SMALL, mp.mpf("6.25")),
              near,
              _erfinv_ratio, -53, lambda w: w - mp.mpf("3.125"), bits=53, falling=True),
        Bound(file, "erfinv x = x P(sqrt(w) - 13/4)", ("3.0838856104922208",), (mp.mpf("6.25"), mp.mpf(16)), far,
              _erfinv_ratio, -53, rooted("3.25"), bits=53, falling=True),
        Bound(file, "erfinv x = x P(sqrt(w) - 5)", ("4.849906401408584",), (mp.mpf(16), mp.mpf("36.05")), far,
              _erfinv_ratio, -54, rooted("5"), bits=53, falling=True),
        Bound(core, "erfinv x = x (sqrt(pi) / 2 + w P(w - 5/2)), f32", ("0.24607297f",), (_SMALL, mp.mpf(5)), near,
              _erfinv_ratio, -24, lambda w: w - mp.mpf("2.5")),
        Bound(core, "erfinv x = x P(sqrt(w) - 25/8), f32", ("2.95832015f",), (mp.mpf(5), mp.mpf(16)), far,
              _erfinv_ratio, -25, rooted("3.125")),
    ]  # fmt: skip


def _gamma() -> list[Bound]:
    file = "elementwise/functors/special.h"
    root = mp.findroot(mp.digamma, mp.mpf("1.4616"))
    between = (mp.mpf(1), mp.mpf(2))
    span = (mp.mpf(10) ** -6, mp.mpf("0.4999"))
    cotangent: Function = lambda r: mp.pi * mp.cot(mp.pi * r)  # noqa: E731
    sine: Function = lambda r: (mp.pi / mp.sin(mp.pi * r)) ** 2  # noqa: E731
    square: Function = lambda r: r * r  # noqa: E731
    shifted: Function = lambda r: r * r - mp.mpf(1) / 8  # noqa: E731
    of_root: Function = lambda t: mp.diff(mp.digamma, root) if abs(t - root) < _SMALL else mp.digamma(t) / (t - root)  # noqa: E731
    by_half: Function = lambda t: t - mp.mpf(3) / 2  # noqa: E731
    whole = lambda t, p: p  # noqa: E731
    scaled = lambda r, p: (mp.mpf(1) / 4 - r * r) / r * (4 + r * r * p)  # noqa: E731
    pole = lambda r, p: 1 / (r * r) + p  # noqa: E731
    return [
        Bound(file, "psi(t) = (t - t0) P(t - 3/2), f64", ("0.9510558760318328",), between, whole, of_root, -54, by_half,
              bits=53, falling=True),
        Bound(file, "pi cot(pi r) = (1/4 - r^2) / r (4 + r^2 P(r^2 - 1/8))", ("3.226226985337332",), span, scaled,
              cotangent, -57,
              shifted, bits=53, falling=True),
        Bound(file, "(pi / sin(pi r))^2 = 1 / r^2 + P(r^2 - 1/8)", ("4.2932119550395695",), span, pole, sine, -56,
              shifted,
              bits=53, falling=True),
        Bound(file, "psi(t) = (t - t0) P(t - 3/2), f32", ("0.951055876f",), between, whole, of_root, -25, by_half,
              falling=True),
        Bound(file, "psi(z) = ln z - v / 2 - v^2 P(v^2), v = 1 / z, f32", ("0.0833323922f",), (_SMALL, _HALF),
              lambda v, p: -mp.log(v) - v / 2 - v * v * p, lambda v: mp.digamma(1 / v), -27, square, falling=True),
        Bound(file, "pi cot(pi r) = (1/4 - r^2) / r (4 + r^2 P(r^2)), f32", ("2.84051296f",), span, scaled, cotangent,
              -25, square,
              falling=True),
        Bound(file, "psi'(z) = v + v^2 (1/2 + v P(v)), v = 1 / z, f32", ("0.166664345f",), (_SMALL, mp.mpf(1)),
              lambda v, p: v + v * v * (_HALF + v * p), lambda v: mp.polygamma(1, 1 / v), -27, falling=True),
        Bound(file, "(pi / sin(pi r))^2 = 1 / r^2 + P(r^2), f32", ("3.28988231f",), span, pole, sine, -24, square,
              falling=True),
    ]  # fmt: skip
