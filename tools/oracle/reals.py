# SPDX-License-Identifier: Apache-2.0
"""The numbers and functions of the oracle's formulas.

A formula is written once, with Python's operators and the functions below, for two kinds of numbers:

NumPy    arrays of the widest floating-point type of the platform, x87's 64-bit significand where there is one: more
         digits than any dtype that is checked
PyTorch  float64 tensors on any device: fast enough to check all 2^32 values of f32

An argument or exponent that would lose bits by rounding is a pair: the rounded value and the residual.
"""

import ctypes
import ctypes.util
import fractions
import importlib
import math

import numpy as np

Wide = np.longdouble
assert np.finfo(Wide).nmant >= 63, "this machine has no float of more digits than float64"


def wide(values) -> np.ndarray:
    return np.asarray(values, Wide)


class Constant(float):
    """A constant with all its decimal digits; arithmetic with an array converts it to the array's type."""

    __array_ufunc__ = None  # makes NumPy defer to the methods below
    __hash__ = float.__hash__

    def __new__(cls, digits: str):
        self = super().__new__(cls, digits)
        self.digits = digits
        return self

    def of(self, x):
        """The constant in the type of `x`."""
        return Wide(self.digits) if isinstance(x, np.ndarray | np.generic) else float(self)

    def pair(self, x):
        """The constant in the type of `x`, and its residual."""
        value = self.of(x)
        lost = fractions.Fraction(self.digits) - fractions.Fraction(*value.as_integer_ratio())
        return value, type(value)(float(lost))

    def __neg__(self):
        return Constant(self.digits[1:] if self.digits.startswith("-") else f"-{self.digits}")

    def __add__(self, x):
        return self.of(x) + x

    def __sub__(self, x):
        return self.of(x) - x

    def __rsub__(self, x):
        return x - self.of(x)

    def __mul__(self, x):
        return self.of(x) * x

    def __truediv__(self, x):
        return self.of(x) / x

    def __rtruediv__(self, x):
        return x / self.of(x)

    __radd__, __rmul__ = __add__, __mul__


PI = Constant("3.1415926535897932384626433832795028841971694")
LN2 = Constant("0.693147180559945309417232121458176568075500134")
LN10 = Constant("2.30258509299404568401799145468436420760110149")
TWO_OVER_SQRT_PI = Constant("1.12837916709551257389615890312154517168810126")
HALF_SQRT_PI = Constant("0.886226925452758013649083741670572591398774728")
INVERSE_SQRT_TWO_PI = Constant("0.398942280401432677939946059934381868475858631")
INVERSE_SQRT_TWO = Constant("0.707106781186547524400844362104849039284835938")
INF, NAN = math.inf, math.nan


# --- Functions that NumPy and PyTorch name differently, or lack ------------------------------------------------------


class _Number(ctypes.c_longdouble):
    """ctypes returns a subclass without a conversion to Python's float."""


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

    return elementwise


class _NumPy:
    digits = np.finfo(Wide).nmant + 1
    asin, acos, atan, asinh, acosh, atanh = np.arcsin, np.arccos, np.arctan, np.arcsinh, np.arccosh, np.arctanh
    erf, erfc, lgamma = map(staticmethod, map(_of_libm, ("erfl", "erfcl", "lgammal")))
    pow, rint, filled = np.power, np.rint, staticmethod(np.full_like)

    def __getattr__(self, name):
        return getattr(np, name)

    @staticmethod
    def clip(x, low, high):
        return np.minimum(np.maximum(x, low), high)

    @staticmethod
    def where(condition, a, b):
        return np.where(condition, wide(a), wide(b))


class _Torch:
    digits = 53

    def __init__(self):
        self.torch = importlib.import_module("torch")
        self.rint, self.filled = self.torch.round, self.torch.full_like

    def __getattr__(self, name):
        return getattr(self.torch, name)

    def clip(self, x, low, high):
        return x.clamp(low, high)

    def where(self, condition, a, b):
        tensor = self.torch.Tensor
        a, b = (v if isinstance(v, tensor) else self.torch.tensor(float(v), dtype=self.torch.float64) for v in (a, b))
        return self.torch.where(condition, a.to(condition.device), b.to(condition.device))

    def cbrt(self, x):
        """pow and one Newton step, since 1/3 is not a float64."""
        size = abs(x)
        root = size ** (1 / 3)
        step = (root - size / (root * root)) / 3
        return self.torch.copysign(self.where((size > 0) & (size < INF), root - step, root), x)

    def lgamma(self, x):
        """Reflection below -20, with an exact fraction."""
        torch, part = self.torch, fraction(x)
        below = torch.log(math.pi / abs(torch.sin(math.pi * part) * x)) - torch.lgamma(abs(x))
        value = torch.where(x > -20, torch.lgamma(x), below)
        return self.where((x == -INF) | ((x <= 0) & (part == 0) & ~x.isnan()), INF, value)


_NUMPY, _torch = _NumPy(), []


def _kind(*values):
    """The backend of the values."""
    if all(isinstance(v, np.ndarray | np.generic | float | int) for v in values):
        return _NUMPY
    if not _torch:
        _torch.append(_Torch())
    return _torch[0]


def _function(name: str):
    def apply(x, *others):
        return getattr(_kind(x, *others), name)(x, *others)

    apply.__name__ = apply.__qualname__ = name
    return apply


sqrt, cbrt, exp, exp2, expm1, log, log2, log10, log1p = map(
    _function, ("sqrt", "cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p")
)
sin, cos, tan, asin, acos, atan = map(_function, ("sin", "cos", "tan", "asin", "acos", "atan"))
sinh, cosh, tanh, asinh, acosh, atanh = map(_function, ("sinh", "cosh", "tanh", "asinh", "acosh", "atanh"))
floor, ceil, trunc, rint = map(_function, ("floor", "ceil", "trunc", "rint"))
isnan, isinf, isfinite = map(_function, ("isnan", "isinf", "isfinite"))
erf, erfc, lgamma = map(_function, ("erf", "erfc", "lgamma"))


def where(condition, a, b):
    """Selects from arrays or numbers; the result has the kind of the condition."""
    return _kind(condition).where(condition, *(v.of(condition) if isinstance(v, Constant) else v for v in (a, b)))


def filled(x, value):
    """An array like x of one value."""
    return _kind(x).filled(x, value)


def clip(x, low=-INF, high=INF):
    """min(max(x, low), high); NaN stays."""
    return _kind(x).clip(x, low, high)


def flat(dy, x):
    """The gradient of a piecewise constant function."""
    return filled(dy + x, 0)


def copysign(size, x):
    return _kind(x).copysign(size if hasattr(size, "shape") and size.shape else filled(x, size), x)


def keep_nan(x, value):
    return where(isnan(x), NAN, value)


def limits(x, value, low, high):
    """The function with its limits at -inf and +inf."""
    return where(x == -INF, low, where(x == INF, high, value))


def fraction(x):
    """x less the nearest integer, exact."""
    return where(isfinite(x), x - rint(x), 0.0)


# --- Pairs -----------------------------------------------------------------------------------------------------------


def two_product(a, b):
    """The rounded product and its residual (Dekker 1971); the residual is lost for large operands."""
    splitter = 2.0 ** ((_kind(a, b).digits + 1) // 2) + 1

    def split(v):
        c = splitter * v
        high = c - (c - v)
        return high, v - high

    product = a * b
    (a1, a2), (b1, b2) = split(a), split(b)
    lost = ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2
    return product, where(isfinite(lost), lost, 0.0)


def exp_pair(high, low):
    """e^(high + low) for |low| much smaller than 1."""
    return exp(high) * (1 + low)


def exp_minus_square(x, scale=1.0):
    """e^(-scale x^2), scale a power of two."""
    high, low = two_product(x, x)
    return exp_pair(-scale * high, -scale * low)


def power(x, exponent):
    """x^exponent, clamped for finite operands to neither 0 nor infinity, so that another operand decides."""
    kind = _kind(x)
    value = kind.pow(x, exponent)
    most = Wide(2) ** 16000 if kind is _NUMPY else 2.0**1000
    exponent = exponent + 0 * x
    within = isfinite(x) & (x != 0) & isfinite(exponent) & ~isnan(value)
    return where(within, copysign(clip(abs(value), 1 / most, most), value), value)


def plain_power(x, exponent):
    return _kind(x).pow(x, exponent)


def sigmoid(high, low=0.0):
    """1 / (1 + e^-(high + low)) without overflow, and accurate where it is tiny."""
    e = exp_pair(-abs(high), where(high < 0, low, -low))
    return where(high < 0, e, 1.0) / (1 + e)
