"""What functions compute, in NumPy and Python integers: for tests of plans and of functions on arrays.

Accuracy at the edges is the business of test_ops; here the right function of the right operands must come out.
"""

import math

import numpy as np


def slope(f, *args, at):
    """Central difference along argument `at`."""
    step = 1e-6
    up, down = ([a + sign * step if k == at else a for k, a in enumerate(args)] for sign in (1, -1))
    return (f(*up) - f(*down)) / (2 * step)


erf, lgamma = (np.vectorize(f, otypes=[float]) for f in (math.erf, math.lgamma))
sigmoid = lambda x: 1 / (1 + np.exp(-x))  # noqa: E731
softplus = lambda x, beta=1, threshold=20: np.where(beta * x > threshold, x, np.log1p(np.exp(beta * x)) / beta)  # noqa: E731
gelu = lambda x: x * (1 + erf(x / math.sqrt(2))) / 2  # noqa: E731
selu = lambda x, a=1.6732632423543772, s=1.0507009873554805: s * np.where(x > 0, x, a * np.expm1(x))  # noqa: E731
elu = lambda x, a=1: np.where(x > 0, x, a * np.expm1(x))  # noqa: E731


def erfinv(y):
    x = np.zeros_like(y)
    for _ in range(50):
        x -= (erf(x) - y) / (2 / math.sqrt(math.pi) * np.exp(-x * x))
    return x


def digamma(x):
    shift = sum(1 / (x + k) for k in range(20))
    z = x + 20
    return np.log(z) - 1 / (2 * z) - 1 / (12 * z**2) + 1 / (120 * z**4) - 1 / (252 * z**6) - shift


UNARY = {
    "neg": np.negative, "abs": np.abs, "sign": np.sign, "reciprocal": np.reciprocal, "square": np.square,
    "cube": lambda x: x**3, "sqrt": np.sqrt, "rsqrt": lambda x: x**-0.5, "cbrt": np.cbrt, "exp": np.exp,
    "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "sinh": np.sinh, "cosh": np.cosh,
    "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "floor": np.floor, "ceil": np.ceil,
    "round": np.rint, "trunc": np.trunc, "frac": lambda x: x - np.trunc(x), "erf": erf, "erfc": lambda x: 1 - erf(x),
    "erfinv": erfinv, "lgamma": lgamma, "digamma": digamma, "relu": lambda x: np.maximum(x, 0),
    "relu_propagating": lambda x: np.maximum(x, 0), "gelu": gelu, "gelu_erf": gelu,
    "gelu_tanh": lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x * sigmoid(x), "mish": lambda x: x * np.tanh(softplus(x)), "sigmoid": sigmoid,
    "logit": lambda x: np.log(x / (1 - x)), "softplus": softplus, "softsign": lambda x: x / (1 + np.abs(x)),
    "tanhshrink": lambda x: x - np.tanh(x), "relu6": lambda x: np.clip(x, 0, 6),
    "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6, "hardsigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "hardtanh": lambda x: np.clip(x, -1, 1), "selu": selu,
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x), "elu": elu,
    "hardshrink": lambda x: np.where(np.abs(x) > 0.5, x, 0), "step": lambda x: 1.0 * (x > 0),
    "softshrink": lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.5, 0),
}  # fmt: skip
POSITIVE, UNIT, INNER = (0.5, 3), (-0.75, 0.75), (0.25, 0.75)
DOMAIN = {
    **dict.fromkeys(("sqrt", "rsqrt", "cbrt", "reciprocal", "log", "log2", "log10", "log1p"), POSITIVE),
    **dict.fromkeys(("lgamma", "digamma"), POSITIVE),
    **dict.fromkeys(("asin", "acos", "atanh", "erfinv", "tan"), UNIT), "acosh": (1.5, 3), "logit": INNER,
}  # fmt: skip
# dx of kinds that save y, from y
FROM_OUTPUT = {
    "sqrt": lambda y: 0.5 / y, "rsqrt": lambda y: -(y**3) / 2, "cbrt": lambda y: 1 / (3 * y * y), "exp": lambda y: y,
    "exp2": lambda y: y * math.log(2), "expm1": lambda y: y + 1, "tanh": lambda y: 1 - y * y,
    "sigmoid": lambda y: y * (1 - y), "erfinv": lambda y: math.sqrt(math.pi) / 2 * np.exp(y * y),
}  # fmt: skip


def bits_of(value, dtype):
    return int(value) & ((1 << dtype.bits) - 1)


INTEGER_UNARY = {
    "neg": lambda v, _: -v, "abs": lambda v, _: abs(v), "sign": lambda v, _: (v > 0) - (v < 0),
    "square": lambda v, _: v * v, "cube": lambda v, _: v**3, "bitwise_not": lambda v, _: ~v,
    "popcount": lambda v, t: bin(bits_of(v, t)).count("1"), "clz": lambda v, t: t.bits - bits_of(v, t).bit_length(),
    "ctz": lambda v, t: (bits_of(v, t) & -bits_of(v, t)).bit_length() - 1 if v else t.bits,
}  # fmt: skip


PARAM = {
    "elu": (lambda x, a: elu(x, a), (0.7,)), "leaky_relu": (lambda x, a: np.where(x > 0, x, a * x), (0.2,)),
    "hardshrink": (lambda x, a: np.where(np.abs(x) > a, x, 0), (0.3,)),
    "softshrink": (lambda x, a: np.sign(x) * np.maximum(np.abs(x) - a, 0), (0.3,)),
    "logit": (lambda x, e: np.log(np.clip(x, e, 1 - e) / (1 - np.clip(x, e, 1 - e))), (0.4,)),
    "powf": (lambda x, p: x**p, (0.1,)), "hardtanh": (lambda x, a, b: np.clip(x, a, b), (-0.3, 0.7)),
    "softplus": (softplus, (2.5, 1.3)), "threshold": (lambda x, a, v: np.where(x > a, x, v), (0.1, -3)),
    "selu": (lambda x, a, s: selu(x, a, s), (1.3, 0.7)), "powi": (lambda x, n: x**n, (-3,)),
}  # fmt: skip


BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "pow": np.power, "atan2": np.arctan2,
    "hypot": np.hypot, "copysign": np.copysign, "fmin": np.fmin, "fmax": np.fmax, "minimum": np.minimum,
    "maximum": np.maximum, "floor_divide": lambda a, b: np.floor(a / b), "mod": lambda a, b: a - b * np.floor(a / b),
    "remainder": lambda a, b: a - b * np.trunc(a / b),
}  # fmt: skip


def shifted(left):
    def f(a, b, t):
        if not 0 <= b < t.bits:
            return -1 if not left and a < 0 else 0
        return a << b if left else a >> b

    return f


def quotient(a, b, towards_zero):
    return 0 if b == 0 else (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1) if towards_zero else a // b


def power(a, b, t):
    if b >= 0:
        return pow(a, b, 1 << t.bits)
    return {1: 1, -1: -1 if b % 2 else 1}.get(a, 0)


INTEGER_BINARY = {
    "add": lambda a, b, t: a + b, "sub": lambda a, b, t: a - b, "mul": lambda a, b, t: a * b, "pow": power,
    "div": lambda a, b, t: quotient(a, b, True), "floor_divide": lambda a, b, t: quotient(a, b, False),
    "mod": lambda a, b, t: b and a % b, "remainder": lambda a, b, t: b and a - b * quotient(a, b, True),
    "minimum": lambda a, b, t: min(a, b), "maximum": lambda a, b, t: max(a, b), "bitwise_and": lambda a, b, t: a & b,
    "bitwise_or": lambda a, b, t: a | b, "bitwise_xor": lambda a, b, t: a ^ b, "bitwise_left_shift": shifted(True),
    "bitwise_right_shift": shifted(False),
}  # fmt: skip


TERNARY = {
    "clamp": lambda a, b, c, s: np.minimum(np.maximum(a, b), c), "fma": lambda a, b, c, s: a * b + c,
    "addcmul": lambda a, b, c, s: a + s * b * c, "addcdiv": lambda a, b, c, s: a + s * b / c,
}  # fmt: skip
