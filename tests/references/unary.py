"""The unary functions of the op tables, and their derivatives, on float64 values that are taken as exact.

FORWARD[name](x, *parameters)             y
BACKWARD[name](dy, saved, *parameters)    dx; `saved` is y for the names in SAVES_OUTPUT, else x
INTEGER[name](x, dtype)                   y, an array of the integer dtype

Results of the first two have the widest floating-point type that there is, and are good to a few units of its last
place (2^-60 with 64 bits) except beside a zero of lgamma or digamma at an irrational argument, where they are good to
that of the terms which cancel. Parameters left out have the table's constants; they are taken as they are, so a caller
who tests a kernel passes them as the kernel sees them: rounded to its compute type.
"""

import numpy as np

from .extended import (
    HALF_SQRT_PI,
    LN2,
    LN10,
    TWO_OVER_SQRT_PI,
    Wide,
    digamma,
    erf,
    erfc,
    erfinv,
    exp_minus_square,
    exp_pair,
    lgamma,
    normal_cdf,
    normal_density,
    parts,
    power,
    trigamma,
    two_product,
    wide,
)
from .roots import beside_root

SELU_ALPHA, SELU_SCALE = Wide("1.6732632423543772"), Wide("1.0507009873554805")
GELU_CUBE = parts("0.044715")
SQRT_TWO_OVER_PI = parts("0.797884560802865355879892119868763736951717262")
SLOPE = Wide("0.01")
_NAN, _INF = Wide(np.nan), Wide(np.inf)

SAVES_OUTPUT = frozenset({"sqrt", "rsqrt", "cbrt", "exp", "exp2", "expm1", "tanh", "sigmoid", "erfinv"})
FORWARD, BACKWARD, INTEGER = {}, {}, {}


def _quiet(function, name):
    def run(*values):
        shape = np.broadcast_shapes(*map(np.shape, values))
        with np.errstate(all="ignore"):
            result = function(*(np.atleast_1d(wide(v)) for v in values))
            return np.array(np.broadcast_to(result, shape or (1,)), Wide).reshape(shape)

    run.__name__ = name
    return run


def forward(function, name=""):
    name = name or function.__name__.strip("_")
    FORWARD[name] = _quiet(function, name)
    return function


def backward(function, name=""):
    """Of a function (dy, saved, *parameters)."""
    name = name or function.__name__.strip("_").removesuffix("_backward")
    BACKWARD[name] = _quiet(function, name)
    return function


def derivative(name, function):
    """The backward is dy times a function of what was saved, and of parameters."""
    backward(lambda dy, saved, *parameters: dy * function(saved, *parameters), name)


def keep_nan(x, value):
    return np.where(np.isnan(x), _NAN, value)


# --- Arithmetic, rounding, elementary functions ----------------------------------------------------------------------

forward(lambda x: -x, "neg")
forward(np.abs, "abs")
forward(lambda x: np.where(x > 0, Wide(1), np.where(x < 0, Wide(-1), Wide(0))), "sign")
forward(lambda x: 1 / x, "reciprocal")
forward(lambda x: x * x, "square")
forward(lambda x: x * x * x, "cube")
forward(lambda x: 1 / np.sqrt(x), "rsqrt")
forward(lambda x: x - np.trunc(x), "frac")
forward(np.rint, "round")
for _name in ("sqrt", "cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "floor", "ceil", "trunc"):
    forward(getattr(np, _name), _name)
for _name in ("sin", "cos", "tan", "sinh", "cosh", "tanh"):
    forward(getattr(np, _name), _name)
for _name in ("asin", "acos", "atan", "asinh", "acosh", "atanh"):
    forward(getattr(np, _name.replace("a", "arc", 1)), _name)

derivative("neg", lambda x: np.full_like(x, -1))
derivative("abs", lambda x: np.where(x > 0, Wide(1), np.where(x < 0, Wide(-1), Wide(0))))
backward(lambda dy, x: -dy / (x * x), "reciprocal")
derivative("square", lambda x: 2 * x)
derivative("cube", lambda x: 3 * x * x)
backward(lambda dy, y: dy / (2 * y), "sqrt")
derivative("rsqrt", lambda y: -(y * y * y) / 2)
backward(lambda dy, y: dy / (3 * y * y), "cbrt")
derivative("exp", lambda y: y)
derivative("exp2", lambda y: y * LN2)
derivative("expm1", lambda y: y + 1)
backward(lambda dy, x: dy / x, "log")
backward(lambda dy, x: dy / (x * LN2), "log2")
backward(lambda dy, x: dy / (x * LN10), "log10")
backward(lambda dy, x: dy / (1 + x), "log1p")
derivative("sin", np.cos)
derivative("cos", lambda x: -np.sin(x))
derivative("tan", lambda x: 1 / np.cos(x) ** 2)
backward(lambda dy, x: dy / np.sqrt((1 - x) * (1 + x)), "asin")
backward(lambda dy, x: -dy / np.sqrt((1 - x) * (1 + x)), "acos")
backward(lambda dy, x: dy / (1 + x * x), "atan")
derivative("sinh", np.cosh)
derivative("cosh", np.sinh)
derivative("tanh", lambda y: (1 - y) * (1 + y))
backward(lambda dy, x: dy / np.sqrt(1 + x * x), "asinh")
backward(lambda dy, x: dy / np.sqrt((np.abs(x) - 1) * (np.abs(x) + 1)), "acosh")
backward(lambda dy, x: dy / ((1 - x) * (1 + x)), "atanh")
for _name in ("sign", "floor", "ceil", "round", "trunc", "step"):
    backward(lambda dy, x: np.zeros_like(dy + x), _name)
derivative("frac", np.ones_like)

# --- Special functions -----------------------------------------------------------------------------------------------

for _name, _function in (("erf", erf), ("erfc", erfc), ("erfinv", erfinv), ("lgamma", lgamma), ("digamma", digamma)):
    forward(_function, _name)
derivative("erf", lambda x: TWO_OVER_SQRT_PI * exp_minus_square(x))
derivative("erfc", lambda x: -TWO_OVER_SQRT_PI * exp_minus_square(x))
derivative("erfinv", lambda y: HALF_SQRT_PI * exp_minus_square(y, Wide(-1)))
derivative("lgamma", digamma)
derivative("digamma", trigamma)

# --- Rectifiers ------------------------------------------------------------------------------------------------------


def clip(x, low, high):
    """min(max(x, low), high); NaN stays."""
    return keep_nan(x, np.minimum(np.maximum(x, low), high))


def inside(dy, condition):
    return np.where(condition, dy, Wide(0))


forward(lambda x: np.where(x > 0, x, Wide(0)), "relu")
forward(lambda x: np.where(x < 0, Wide(0), x), "relu_propagating")
forward(lambda x: clip(x, Wide(0), Wide(6)), "relu6")
forward(lambda x, low=-1, high=1: clip(x, low, high), "hardtanh")
forward(lambda x: clip(x + 3, Wide(0), Wide(6)) / 6, "hardsigmoid")
forward(lambda x: np.where(x <= -3, Wide("-0.0"), x * clip(x + 3, Wide(0), Wide(6)) / 6), "hardswish")
forward(lambda x, slope=SLOPE: np.where(x > 0, x, slope * x), "leaky_relu")
forward(lambda x, size=0.5: keep_nan(x, np.where(np.abs(x) > size, x, Wide(0))), "hardshrink")
forward(lambda x, by, other: keep_nan(x, np.where(x > by, x, other)), "threshold")
forward(lambda x: np.where(x > 0, Wide(1), Wide(0)), "step")


@forward
def softshrink(x, by=0.5):
    return keep_nan(x, np.where(x > by, x - by, np.where(x < -by, x + by, Wide(0))))


backward(lambda dy, x: inside(dy, x > 0), "relu")
backward(lambda dy, x: keep_nan(x, inside(dy, x > 0)), "relu_propagating")
backward(lambda dy, x: inside(dy, (x > 0) & (x < 6)), "relu6")
backward(lambda dy, x, low=-1, high=1: inside(dy, (x > low) & (x < high)), "hardtanh")
backward(lambda dy, x: inside(dy / 6, (x > -3) & (x < 3)), "hardsigmoid")
backward(lambda dy, x: np.where(x <= -3, Wide(0), np.where(x >= 3, dy, dy * (2 * x + 3) / 6)), "hardswish")
backward(lambda dy, x, slope=SLOPE: np.where(x > 0, dy, slope * dy), "leaky_relu")
backward(lambda dy, x, size=0.5: inside(dy, np.abs(x) > size), "hardshrink")
backward(lambda dy, x, by=0.5: inside(dy, np.abs(x) > by), "softshrink")
backward(lambda dy, x, by, _other: inside(dy, x > by), "threshold")

# --- Activations -----------------------------------------------------------------------------------------------------


def limits(x, value, low, high):
    """The function with its limits at -inf and +inf."""
    return np.where(x == -np.inf, low, np.where(x == np.inf, high, value))


def sigmoid_of(high, low=0):
    """1 / (1 + e^-(high + low)) without an overflow, and exact to the last digits where it is tiny."""
    e = exp_pair(-np.abs(high), np.where(high < 0, low, -low))
    return np.where(high < 0, e, Wide(1)) / (1 + e)


forward(sigmoid_of, "sigmoid")
derivative("sigmoid", lambda y: y * (1 - y))
forward(lambda x: limits(x, x * sigmoid_of(x), Wide("-0.0"), _INF), "silu")
derivative(
    "silu", lambda x: limits(x, beside_root("silu", x, sigmoid_of(x) * (1 + x * sigmoid_of(-x))), Wide(0), Wide(1))
)
forward(lambda x: limits(x, x * normal_cdf(x), Wide("-0.0"), _INF), "gelu")
derivative("gelu", lambda x: limits(x, beside_root("gelu", x, normal_cdf(x) + x * normal_density(x)), Wide(0), Wide(1)))
FORWARD["gelu_erf"], BACKWARD["gelu_erf"] = FORWARD["gelu"], BACKWARD["gelu"]


def twice_gelu_argument(x):
    """2 u with gelu_tanh(x) = x sigmoid(2 u), as a pair: e^2u magnifies what a rounding loses by u."""
    (cube, cube_lost), (factor, factor_lost) = GELU_CUBE, SQRT_TWO_OVER_PI
    square, lost = two_product(x, x)
    term, term_lost = two_product(square, cube)
    term_lost = term_lost + lost * cube + square * cube_lost
    total = 1 + term
    total_lost = term_lost + np.where(term > 1, 1 - (total - term), term - (total - 1))
    product, product_lost = two_product(x, total)
    product_lost = product_lost + x * total_lost
    high, low = two_product(product, 2 * factor)
    return high, low + 2 * (product_lost * factor + product * factor_lost)


@forward
def gelu_tanh(x):
    near = np.clip(x, -1000, 1000)  # beyond, the sigmoid is 0 or 1
    return np.where(x < -1000, Wide("-0.0"), x * sigmoid_of(*twice_gelu_argument(near)))


@backward
def gelu_tanh_backward(dy, x):
    near = np.clip(x, -1000, 1000)
    high, low = twice_gelu_argument(near)
    slope = 2 * SQRT_TWO_OVER_PI[0] * (1 + 3 * GELU_CUBE[0] * near * near)
    return dy * beside_root("gelu_tanh", x, sigmoid_of(high, low) * (1 + near * slope * sigmoid_of(-high, -low)))


def mish_parts(x):
    """tanh(ln(1 + e^x)) = n / (n + 2) with n = e^x (e^x + 2); beyond 100 it is 1."""
    e = np.exp(np.minimum(x, 100))
    return e, e * (e + 2)


@forward
def mish(x):
    _, n = mish_parts(x)
    return limits(x, np.where(x > 100, x, x * (n / (n + 2))), Wide("-0.0"), _INF)


@backward
def mish_backward(dy, x):
    e, n = mish_parts(x)
    slope = (n * (n + 2) + 4 * x * e * (e + 1)) / ((n + 2) * (n + 2))
    return dy * limits(x, beside_root("mish", x, np.where(x > 100, Wide(1), slope)), Wide(0), Wide(1))


@forward
def logit(x, eps=0, high=None):
    """Near its zero by ln(1 + (2 x - 1) / (1 - x)). `high` is 1 - eps as the compute type has it, by default exact."""
    if eps > 0:  # in the order of the table: the upper bound wins
        high = 1 - eps if high is None else high
        x = np.where(x < eps, eps, x)
        x = np.where(x > high, high, x)
    rest = 1 - x
    middle = (x > 0.25) & (x < 0.75)
    value = np.where(middle, np.log1p((x - rest) / rest), np.log(x) - np.log(rest))
    return np.where(x < 0.25, np.log(x) - np.log1p(-x), value)


@backward
def logit_backward(dy, x, eps=0, high=None):
    value, high = dy / (x * (1 - x)), 1 - eps if high is None else high
    return np.where(eps > 0, keep_nan(x, inside(value, (x >= eps) & (x <= high))), value)


@forward
def softplus(x, beta=1, threshold=_INF):
    """Without a threshold by default: a cut-off would cost digits."""
    high, low = two_product(x, beta)
    value = np.maximum(high, 0) + low * (high > 0) + np.log1p(exp_pair(-np.abs(high), np.where(high < 0, low, -low)))
    value = limits(high, value, Wide(0), _INF) / beta
    return np.where(high > threshold, x, keep_nan(x, value))


@backward
def softplus_backward(dy, x, beta=1, threshold=_INF):
    high, low = two_product(x, beta)
    return np.where(high > threshold, dy, dy * sigmoid_of(high, low))


forward(lambda x: limits(x, x / (1 + np.abs(x)), Wide(-1), Wide(1)), "softsign")
backward(lambda dy, x: dy / (1 + np.abs(x)) ** 2, "softsign")


@forward
def tanhshrink(x):
    """For small x (x cosh x - sinh x) / cosh x, whose numerator is the sum of 2k x^(2k+1) / (2k+1)!."""
    size = np.minimum(np.abs(x), 1)
    total, term = np.zeros_like(x), np.ones_like(x)
    for k in range(1, 15):
        term = term * size * size / (2 * k * (2 * k + 1))
        total = total + 2 * k * term
    return np.where(np.abs(x) < 1, x * (total / np.cosh(size)), x - np.tanh(x))


derivative("tanhshrink", lambda x: np.tanh(x) ** 2)
forward(lambda x, alpha=SELU_ALPHA, scale=SELU_SCALE: scale * np.where(x > 0, x, alpha * np.expm1(x)), "selu")
backward(lambda dy, x, alpha=SELU_ALPHA, scale=SELU_SCALE: scale * np.where(x > 0, dy, alpha * np.exp(x) * dy), "selu")
forward(lambda x, alpha=1: np.where(x > 0, x, alpha * np.expm1(x)), "elu")
backward(lambda dy, x, alpha=1: np.where(x > 0, dy, alpha * np.exp(x) * dy), "elu")

# --- Powers ----------------------------------------------------------------------------------------------------------

forward(np.power, "powf")
backward(lambda dy, x, p: np.where(p == 0, Wide(0), p * power(x, p - 1) * dy), "powf")
forward(lambda x, n: np.power(x, np.trunc(n)), "powi")
backward(lambda dy, x, n: np.where(np.trunc(n) == 0, Wide(0), np.trunc(n) * power(x, np.trunc(n) - 1) * dy), "powi")

# --- Integers --------------------------------------------------------------------------------------------------------

_INTEGERS = {f"{kind[0]}{8 * n}": np.dtype(f"{kind}{8 * n}") for kind in ("int", "uint") for n in (1, 2, 4, 8)}
_INTEGERS["bool"] = np.dtype(np.uint8)


def integer(function, name):
    """Of Python integers and the width: plain, not fast."""

    def run(x, dtype):
        x = np.asarray(x)
        kind = _INTEGERS[dtype]
        width = 8 * kind.itemsize
        values = x.astype(kind).reshape(-1).tolist()
        words = np.array([function(v, width) % 2**width for v in values], np.dtype(f"u{kind.itemsize}"))
        return words.view(kind).reshape(x.shape)

    INTEGER[name] = run


integer(lambda x, _: -x, "neg")
integer(lambda x, _: abs(x), "abs")
integer(lambda x, _: (x > 0) - (x < 0), "sign")
integer(lambda x, _: x * x, "square")
integer(lambda x, _: x * x * x, "cube")
integer(lambda x, _: ~x, "bitwise_not")
integer(lambda x, width: (x % 2**width).bit_count(), "popcount")
integer(lambda x, width: width - (x % 2**width).bit_length(), "clz")
integer(lambda x, width: (x % 2**width & -(x % 2**width)).bit_length() - 1 if x % 2**width else width, "ctz")
integer(lambda x, _: int(x == 0), "logical_not")
