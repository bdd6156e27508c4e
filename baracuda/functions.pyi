"""Signatures of baracuda/functions.py. Written by tools/gen_stub.py: do not edit."""

from collections.abc import Sequence
from typing import Any

from baracuda.kinds import EmbeddingBagMode

# Of NumPy, PyTorch, CuPy, JAX; a TensorRef; whatever has DLPack, an array interface or the buffer protocol; a number
Array = Any

def abs(x: Array, *, out: Any = None) -> Any:
    """|x|"""
def abs_backward(dy: Array, x: Array, *, out: Any = None) -> Any:
    """dy sign(x)"""
def acos(x: Array, *, out: Any = None) -> Any:
    """arc cosine"""
def acos_backward(dy: Array, x: Array, *, out: Any = None) -> Any:
    """-dy / sqrt(1 - x^2)"""
def acosh(x: Array, *, out: Any = None) -> Any:
    """inverse hyperbolic cosine"""
def acosh_backward(dy: Array, x: Array, *, out: Any = None) -> Any:
    """dy / sqrt(x^2 - 1)"""
def add(a: Array, b: Array, *, out: Any = None) -> Any:
    """a + b"""
def add_backward(dy: Array, a: Array, b: Array, *, needs: Sequence[bool] | None = None, out: Any = None) -> tuple[Any, Any]:
    """da = dy, db = dy"""
def addcdiv(a: Array, b: Array, c: Array, *, value: float = 1.0, out: Any = None) -> Any:
    """a + value b / c"""
def addcdiv_backward(dy: Array, a: Array, b: Array, c: Array, *, value: float = 1.0, needs: Sequence[bool] | None = None, out: Any = None) -> tuple[Any, Any, Any]:
    """da = dy, db = value dy / c, dc = -value b dy / c^2"""
def addcmul(a: Array, b: Array, c: Array, *, value: float = 1.0, out: Any = None) -> Any:
    """a + value b c"""
def addcmul_backward(dy: Array, a: Array, b: Array, c: Array, *, value: float = 1.0, needs: Sequence[bool] | None = None, out: Any = None) -> tuple[Any, Any, Any]:
    """da = dy, db = value c dy, dc = value b dy"""
def affine(x: Array, scale: float, *, offset: float = 0, out: Any = None) -> Any:
    """y = a x + b, rounded once; integers wrap."""
def affine_grid(theta: Array, height: int, width: int, *, out: Any = None) -> Any:
    """Sampling positions (x, y) of an affine map: x = t00 bx + t01 by + t02, y = t10 bx + t11 by + t12, where bx =
    (2 j + 1) / width - 1 and by = (2 i + 1) / height - 1 are the centre of the output's cell (i, j), corners not
    aligned."""
def alibi(scores: Array, slopes: Array, *, out: Any = None) -> Any:
    """y[b, h, i, j] = scores[b, h, i, j] + slopes[h] * (j - i) (Press et al."""
def alibi_backward(dy: Array, *, needs: Sequence[bool] | None = None, out: Any = None) -> tuple[Any, Any]:
    """da = dy, dslope[h] = sum over b, i, j of dy[b, h, i, j] * (j - i)."""
def asin(x: Array, *, out: Any = None) -> Any:
    """arc sine"""
def asin_backward(dy: Array, x: Array, *, out: Any = None) -> Any:
    """dy / sqrt(1 - x^2)"""
def asinh(x: Array, *, out: Any = None) -> Any:
    """inverse hyperbolic sine"""
def asinh_backward(dy: Array, x: Array, *, out: Any = None) -> Any:
    """dy / sqrt(1 + x^2)"""
def atan(x: Array, *, out: Any = None) -> Any:
    """arc tangent"""
def atan2(a: Array, b: Array, *, out: Any = None) -> Any:
    """angle of the point (b, a)"""
def atan2_backward(dy: Array, a: Array, b: Array, *, needs: Sequence[bool] | None = None, out: Any = None) -> tuple[Any, Any]:
    """da = b dy / (a^2 + b^2), db = -a dy / (a^2 + b^2); 0 at the origin"""
def atan_backward(dy: Array, x: Array, *, out: Any = None) -> Any:
    """dy / (1 + x^2)"""
def atanh(x: Array, *, out: Any = None) -> Any:
    """inverse hyperbolic tangent"""
def atanh_backward(dy: Array, x: Array, *, out: Any = None) -> Any:
    """dy / (1 - x^2)"""
def bitwise_and(a: Array, b: Array, *, out: Any = None) -> Any:
    """a & b"""
def bitwise_left_shift(a: Array, b: Array, *, out: Any = None) -> Any:
    """a << b; 0 for b < 0 and b >= width"""
def bitwise_not(x: Array, *, out: Any = None) -> Any:
    """~x"""
def bitwise_or(a: Array, b: Array, *, out: Any = None) -> Any:
    """a | b"""
def bitwise_right_shift(a: Array, b: Array, *, out: Any = None) -> Any:
    """a >> b, arithmetic on signed types; for b < 0 and b >= width 0, or -1 for a < 0"""
def bitwise_xor(a: Array, b: Array, *, out: Any = None) -> Any:
    """a ^ b"""
def cast(x: Array, dtype: Any, *, out: Any = None) -> Any:
    """y = x converted from T to U."""
def cbrt(x: Array, *, out: Any = None) -> Any:
    """real cube root"""
def cbrt_backward(dy: Array, y: Array, *, out: Any = None) -> Any:
    """dy / (3 y^2), saved = y"""
def ceil(x: Array, *, out: Any = None) -> Any:
    """smallest integer >= x"""
def ceil_backward(dy: Array, *, out: Any = None) -> Any:
    """0"""
def clamp(x: Array, min: Array, max: Array, *, out: Any = None) -> Any:
    """min(max(a, b), c): a the value, b the lower, c the upper bound; NaN if any is"""
def clamp_backward(dy: Array, x: Array, min: Array, max: Array, *, needs: Sequence[bool] | None = None, out: Any = None) -> tuple[Any, Any, Any]:
    """dy to the operand whose value was taken, a where it equals a bound, c where b > c"""
def clz(x: Array, *, out: Any = None) -> Any:
    """zero bits above the highest bit set; the width for 0"""
def copysign(a: Array, b: Array, *, out: Any = None) -> Any:
    """|a| with the sign of b"""
def copysign_backward(dy: Array, a: Array, b: Array, *, needs: Sequence[bool] | None = None, out: Any = None) -> tuple[Any, Any]:
    """da = dy, or -dy where the sign of a changed, 0 for a = 0; db = 0"""
def cos(x: Array, *, out: Any = None) -> Any:
    """cosine of radians"""
def cos_backward(dy: Array, x: Array, *, out: Any = None) -> Any:
    """-sin(x) dy"""
def cosh(x: Array, *, out: Any = None) -> Any:
    """hyperbolic cosine"""
def cosh_backward(dy: Array, x: Array, *, out: Any = None) -> Any:
    """sinh(x) dy"""
def ctz(x: Array, *, out: Any = None) -> Any:
    """zero bits below the lowest bit set; the width for 0"""
def cube(x: Array, *, out: Any = None) -> Any:
    """x^3"""
def cube_backward(dy: Array, x: Array, *, out: Any = None) -> Any:
    """3 x^2 dy"""
def digamma(x: Array, *, out: Any = None) -> Any:
    """derivative of ln Gamma(x); NaN at negative integers, -+inf at +-0"""
def digamma_backward(dy: Array, x: Array, *, out: Any = None) -> Any:
    """trigamma(x) dy"""
def div(a: Array, b: Array, *, out: Any = None) -> Any:
    """a / b"""
def div_backward(dy: Array, a: Array, b: Array, *, needs: Sequence[bool] | None = None, out: Any = None) -> tuple[Any, Any]:
    """da = dy / b, db = -a dy / b^2"""
def elu(x: Array, *, alpha: float = 1.0, out: Any = None) -> Any:
    """x for x > 0, else alpha (e^x - 1) (Clevert et al. 2015)"""
def elu_backward(dy: Array, x: Array, *, alpha: float = 1.0, out: Any = None) -> Any:
    """dy for x > 0, else alpha e^x dy"""
def embedding_bag(indices: Array, weight: Array, offsets: Array, *, mode: str | EmbeddingBagMode = 'mean', padding_idx: int | None = None, out: Any = None) -> Any:
    """out[b] = sum (mode 0) or mean (mode 1) of weight[indices[k]] over offsets[b] <= k < offsets[b + 1]; the last
    bag ends at total_indices."""
def embedding_bag_backward(dout: Array, indices: Array, offsets: Array, num_embeddings: int, *, mode: str | EmbeddingBagMode = 'mean', padding_idx: int | None = None, out: Any = None) -> Any:
    """dweight[indices[k]] += dout[b] / (mode 1: number of indices kept in bag b)."""
def eq(a: Array, b: Array, *, out: Any = None) -> Any:
    """a = b"""
def erf(x: Array, *, out: Any = None) -> Any:
    """error function"""
def erf_backward(dy: Array, x: Array, *, out: Any = None) -> Any:
    """2 / sqrt(pi) exp(-x^2) dy"""
def erfc(x: Array, *, out: Any = None) -> Any:
    """1 - erf(x)"""
def erfc_backward(dy: Array, x: Array, *, out: Any = None) -> Any:
    """-2 / sqrt(pi) exp(-x^2) dy"""
def erfinv(x: Array, *, out: Any = None) -> Any:
    """inverse of erf"""
def erfinv_backward(dy: Array, y: Array, *, out: Any = None) -> Any:
    """sqrt(pi) / 2 exp(y^2) dy, saved = y"""
def exp(x: Array, *, out: Any = None) -> Any:
    """e^x"""
def exp2(x: Array, *, out: Any = None) -> Any:
    """2^x"""
def exp2_backward(dy: Array, y: Array, *, out: Any = None) -> Any:
    """y ln(2) dy, saved = y"""
def exp_backward(dy: Array, y: Array, *, out: Any = None) -> Any:
    """y dy, saved = y"""
def expm1(x: Array, *, out: Any = None) -> Any:
    """e^x - 1"""
def expm1_backward(dy: Array, y: Array, *, out: Any = None) -> Any:
    """(y + 1) dy, saved = y"""
def fill(x: Array, value: float, *, out: Any = None) -> Any:
    """y = value, which f16, bf16, fp8 and bool pass as bits."""
def floor(x: Array, *, out: Any = None) -> Any:
    """largest integer <= x"""
def floor_backward(dy: Array, *, out: Any = None) -> Any:
    """0"""
def floor_divide(a: Array, b: Array, *, out: Any = None) -> Any:
    """floor(a / b) of the exact quotient"""
def fma(a: Array, b: Array, c: Array, *, out: Any = None) -> Any:
    """a b + c, rounded once"""
def fma_backward(dy: Array, a: Array, b: Array, c: Array, *, needs: Sequence[bool] | None = None, out: Any = None) -> tuple[Any, Any, Any]:
    """da = b dy, db = a dy, dc = dy"""
def fmax(a: Array, b: Array, *, out: Any = None) -> Any:
    """the larger, a number before NaN; +0 before -0"""
def fmax_backward(dy: Array, a: Array, b: Array, *, needs: Sequence[bool] | None = None, out: Any = None) -> tuple[Any, Any]:
    """dy to the operand that was taken; half to each if they are equal"""
def fmin(a: Array, b: Array, *, out: Any = None) -> Any:
    """the smaller, a number before NaN; -0 before +0"""
def fmin_backward(dy: Array, a: Array, b: Array, *, needs: Sequence[bool] | None = None, out: Any = None) -> tuple[Any, Any]:
    """dy to the operand that was taken; half to each if they are equal"""
def fmod(a: Array, b: Array, *, out: Any = None) -> Any:
    """a - b trunc(a / b), with the sign of a (C's fmod)"""
def fmod_backward(dy: Array, a: Array, b: Array, *, needs: Sequence[bool] | None = None, out: Any = None) -> tuple[Any, Any]:
    """da = dy, db = -trunc(a / b) dy"""
def frac(x: Array, *, out: Any = None) -> Any:
    """x - trunc(x); +0 for an integer, NaN for an infinity"""
def frac_backward(dy: Array, *, out: Any = None) -> Any:
    """dy"""
def ge(a: Array, b: Array, *, out: Any = None) -> Any:
    """a >= b"""
def geglu(x: Array, *, axis: int = -1, out: Any = None) -> Any:
    """a gelu(b)"""
def geglu_backward(dy: Array, x: Array, *, axis: int = -1, out: Any = None) -> Any:
    """da = gelu(b) dy, db = a gelu'(b) dy"""
def gelu(x: Array, *, out: Any = None) -> Any:
    """x Phi(x), Phi the standard normal distribution (Hendrycks and Gimpel 2016)"""
def gelu_backward(dy: Array, x: Array, *, out: Any = None) -> Any:
    """(Phi(x) + x phi(x)) dy, phi the standard normal density"""
def gelu_erf(x: Array, *, out: Any = None) -> Any:
    """another name of gelu"""
def gelu_erf_backward(dy: Array, x: Array, *, out: Any = None) -> Any:
    """another name of gelu"""
def gelu_tanh(x: Array, *, out: Any = None) -> Any:
    """x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))"""
def gelu_tanh_backward(dy: Array, x: Array, *, out: Any = None) -> Any:
    """derivative of gelu_tanh times dy"""
def glu(x: Array, *, axis: int = -1, out: Any = None) -> Any:
    """a sigmoid(b) (Dauphin et al. 2017)"""
def glu_backward(dy: Array, x: Array, *, axis: int = -1, out: Any = None) -> Any:
    """da = s dy, db = a s (1 - s) dy, s = sigmoid(b)"""
def gt(a: Array, b: Array, *, out: Any = None) -> Any:
    """a > b"""
def hardshrink(x: Array, *, lambd: float = 0.5, out: Any = None) -> Any:
    """x for |x| > lambd, else +0"""
def hardshrink_backward(dy: Array, x: Array, *, lambd: float = 0.5, out: Any = None) -> Any:
    """dy for |x| > lambd, else 0"""
def hardsigmoid(x: Array, *, out: Any = None) -> Any:
    """min(max(x + 3, 0), 6) / 6"""
def hardsigmoid_backward(dy: Array, x: Array, *, out: Any = None) -> Any:
    """dy / 6 for -3 < x < 3, else 0"""
def hardswish(x: Array, *, out: Any = None) -> Any:
    """x min(max(x + 3, 0), 6) / 6"""
def hardswish_backward(dy: Array, x: Array, *, out: Any = None) -> Any:
    """0 for x <= -3, dy for x >= 3, else (2 x + 3) dy / 6"""
def hardtanh(x: Array, *, min_val: float = -1.0, max_val: float = 1.0, out: Any = None) -> Any:
    """min(max(x, min_val), max_val)"""
def hardtanh_backward(dy: Array, x: Array, *, min_val: float = -1.0, max_val: float = 1.0, out: Any = None) -> Any:
    """dy for min_val < x < max_val, else 0"""
def hypot(a: Array, b: Array, *, out: Any = None) -> Any:
    """sqrt(a^2 + b^2) without undue overflow or underflow"""
def hypot_backward(dy: Array, a: Array, b: Array, *, needs: Sequence[bool] | None = None, out: Any = None) -> tuple[Any, Any]:
    """da = a dy / r, db = b dy / r, r = hypot(a, b); 0 at the origin"""
def ldexp(a: Array, b: Array, *, out: Any = None) -> Any:
    """y = a 2^b."""
def ldexp_backward(dy: Array, a: Array, b: Array, *, out: Any = None) -> Any:
    """da = dy 2^b."""
def le(a: Array, b: Array, *, out: Any = None) -> Any:
    """a <= b"""
def leaky_relu(x: Array, *, negative_slope: float = 0.01, out: Any = None) -> Any:
    """x for x > 0, else negative_slope x"""
def leaky_relu_backward(dy: Array, x: Array, *, negative_slope: float = 0.01, out: Any = None) -> Any:
    """dy for x > 0, else negative_slope dy"""
def lerp(a: Array, b: Array, weight: float, *, out: Any = None) -> Any:
    """y = a + p * (b - a), taken from b for p >= 0.5, so that p = 0 gives a and p = 1 gives b exactly."""
def lerp_backward(dy: Array, a: Array, b: Array, weight: float, *, needs: Sequence[bool] | None = None, out: Any = None) -> tuple[Any, Any]:
    """da = (1 - p) * dy, db = p * dy."""
def lgamma(x: Array, *, out: Any = None) -> Any:
    """ln |Gamma(x)|"""
def lgamma_backward(dy: Array, x: Array, *, out: Any = None) -> Any:
    """digamma(x) dy"""
def log(x: Array, *, out: Any = None) -> Any:
    """natural logarithm"""
def log10(x: Array, *, out: Any = None) -> Any:
    """logarithm to base 10"""
def log10_backward(dy: Array, x: Array, *, out: Any = None) -> Any:
    """dy / (x ln 10)"""
def log1p(x: Array, *, out: Any = None) -> Any:
    """ln(1 + x)"""
def log1p_backward(dy: Array, x: Array, *, out: Any = None) -> Any:
    """dy / (1 + x)"""
def log2(x: Array, *, out: Any = None) -> Any:
    """logarithm to base 2"""
def log2_backward(dy: Array, x: Array, *, out: Any = None) -> Any:
    """dy / (x ln 2)"""
def log_backward(dy: Array, x: Array, *, out: Any = None) -> Any:
    """dy / x"""
def logical_and(a: Array, b: Array, *, out: Any = None) -> Any:
    """1 where both are set"""
def logical_not(x: Array, *, out: Any = None) -> Any:
    """y = 1 for x = 0, else 0."""
def logical_or(a: Array, b: Array, *, out: Any = None) -> Any:
    """1 where one is set"""
def logical_xor(a: Array, b: Array, *, out: Any = None) -> Any:
    """1 where exactly one is set"""
def logit(x: Array, *, eps: float = 0.0, out: Any = None) -> Any:
    """logit of min(max(x, eps), 1 - eps) for eps > 0; of x for eps <= 0"""
def logit_backward(dy: Array, x: Array, *, eps: float = 0.0, out: Any = None) -> Any:
    """dy / (x (1 - x)) for eps <= x <= 1 - eps, else 0; for eps <= 0 as unary_logit_backward"""
def lt(a: Array, b: Array, *, out: Any = None) -> Any:
    """a < b"""
def maximum(a: Array, b: Array, *, out: Any = None) -> Any:
    """the larger, NaN if either is; +0 before -0"""
def maximum_backward(dy: Array, a: Array, b: Array, *, needs: Sequence[bool] | None = None, out: Any = None) -> tuple[Any, Any]:
    """dy to the larger; half to each if they are equal; to both if either is NaN"""
def minimum(a: Array, b: Array, *, out: Any = None) -> Any:
    """the smaller, NaN if either is; -0 before +0"""
def minimum_backward(dy: Array, a: Array, b: Array, *, needs: Sequence[bool] | None = None, out: Any = None) -> tuple[Any, Any]:
    """dy to the smaller; half to each if they are equal; to both if either is NaN"""
def mish(x: Array, *, out: Any = None) -> Any:
    """x tanh(ln(1 + e^x)) (Misra 2019)"""
def mish_backward(dy: Array, x: Array, *, out: Any = None) -> Any:
    """derivative of mish times dy"""
def mul(a: Array, b: Array, *, out: Any = None) -> Any:
    """a b"""
def mul_backward(dy: Array, a: Array, b: Array, *, needs: Sequence[bool] | None = None, out: Any = None) -> tuple[Any, Any]:
    """da = b dy, db = a dy"""
def ne(a: Array, b: Array, *, out: Any = None) -> Any:
    """a != b; true if either is NaN"""
def neg(x: Array, *, out: Any = None) -> Any:
    """-x"""
def neg_backward(dy: Array, *, out: Any = None) -> Any:
    """-dy"""
def nextafter(a: Array, b: Array, *, out: Any = None) -> Any:
    """the next value of the dtype from a towards b; b if they are equal"""
def popcount(x: Array, *, out: Any = None) -> Any:
    """number of bits set"""
def pow(a: Array, b: Array, *, out: Any = None) -> Any:
    """a^b as IEEE 754 pow"""
def pow_backward(dy: Array, a: Array, b: Array, *, needs: Sequence[bool] | None = None, out: Any = None) -> tuple[Any, Any]:
    """da = b a^(b - 1) dy, db = a^b ln(a) dy; da = 0 for b = 0, db = 0 for a = 0 and b >= 0"""
def powf(x: Array, exponent: float, *, out: Any = None) -> Any:
    """x^exponent"""
def powf_backward(dy: Array, x: Array, exponent: float, *, out: Any = None) -> Any:
    """exponent x^(exponent - 1) dy"""
def powi(x: Array, n: int, *, out: Any = None) -> Any:
    """y = x^p0; 1 for p0 = 0, whatever x."""
def powi_backward(dy: Array, x: Array, n: int, *, out: Any = None) -> Any:
    """dx = p0 x^(p0 - 1) dy; 0 for p0 = 0."""
def prelu(x: Array, weight: Array, *, axis: int = 1, out: Any = None) -> Any:
    """y = x for x > 0, else w x (He et al."""
def prelu_backward(dy: Array, x: Array, weight: Array, *, axis: int = 1, needs: Sequence[bool] | None = None, out: Any = None) -> tuple[Any, Any]:
    """dx = dy for x > 0, else w dy; dweight[c] sums dy x over the cells of channel c with x < 0 or NaN, in f32 (f64
    for f64) and in a fixed order."""
def reciprocal(x: Array, *, out: Any = None) -> Any:
    """1 / x"""
def reciprocal_backward(dy: Array, x: Array, *, out: Any = None) -> Any:
    """-dy / x^2"""
def reglu(x: Array, *, axis: int = -1, out: Any = None) -> Any:
    """a max(b, 0) (Shazeer 2020)"""
def reglu_backward(dy: Array, x: Array, *, axis: int = -1, out: Any = None) -> Any:
    """da = b dy, db = a dy for b > 0, else 0"""
def relu(x: Array, *, out: Any = None) -> Any:
    """x for x > 0, else +0; NaN gives 0"""
def relu6(x: Array, *, out: Any = None) -> Any:
    """min(max(x, 0), 6)"""
def relu6_backward(dy: Array, x: Array, *, out: Any = None) -> Any:
    """dy for 0 < x < 6, else 0"""
def relu_backward(dy: Array, x: Array, *, out: Any = None) -> Any:
    """dy for x > 0, else 0"""
def relu_propagating(x: Array, *, out: Any = None) -> Any:
    """0 for x < 0, else x; NaN stays"""
def relu_propagating_backward(dy: Array, x: Array, *, out: Any = None) -> Any:
    """dy for x > 0, else 0; NaN for a NaN x"""
def remainder(a: Array, b: Array, *, out: Any = None) -> Any:
    """a - b floor(a / b), with the sign of b (Python's %)"""
def remainder_backward(dy: Array, a: Array, b: Array, *, needs: Sequence[bool] | None = None, out: Any = None) -> tuple[Any, Any]:
    """da = dy, db = -floor(a / b) dy"""
def round(x: Array, *, out: Any = None) -> Any:
    """nearest integer, ties to even"""
def round_backward(dy: Array, *, out: Any = None) -> Any:
    """0"""
def rsqrt(x: Array, *, out: Any = None) -> Any:
    """1 / sqrt(x)"""
def rsqrt_backward(dy: Array, y: Array, *, out: Any = None) -> Any:
    """-y^3 dy / 2, saved = y"""
def segment_sum(x: Array, segment_ids: Array, num_segments: int, *, out: Any = None) -> Any:
    """output[s] = sum of input[i] over segment_ids[i] == s; ids must be non-decreasing."""
def segment_sum_backward(dy: Array, segment_ids: Array, *, out: Any = None) -> Any:
    """d_input[i] = d_output[segment_ids[i]], 0 where the id is outside [0, num_segments)."""
def selu(x: Array, *, alpha: float = 1.6732632423543772, scale: float = 1.0507009873554805, out: Any = None) -> Any:
    """scale (x for x > 0, else alpha (e^x - 1))"""
def selu_backward(dy: Array, x: Array, *, alpha: float = 1.6732632423543772, scale: float = 1.0507009873554805, out: Any = None) -> Any:
    """scale (dy for x > 0, else alpha e^x dy)"""
def sigmoid(x: Array, *, out: Any = None) -> Any:
    """1 / (1 + e^-x)"""
def sigmoid_backward(dy: Array, y: Array, *, out: Any = None) -> Any:
    """y (1 - y) dy, saved = y"""
def sign(x: Array, *, out: Any = None) -> Any:
    """1 for x > 0, -1 for x < 0, else +0; NaN gives 0"""
def sign_backward(dy: Array, *, out: Any = None) -> Any:
    """0"""
def silu(x: Array, *, out: Any = None) -> Any:
    """x sigmoid(x)"""
def silu_backward(dy: Array, x: Array, *, out: Any = None) -> Any:
    """s (1 + x (1 - s)) dy, s = sigmoid(x)"""
def sin(x: Array, *, out: Any = None) -> Any:
    """sine of radians"""
def sin_backward(dy: Array, x: Array, *, out: Any = None) -> Any:
    """cos(x) dy"""
def sinh(x: Array, *, out: Any = None) -> Any:
    """hyperbolic sine"""
def sinh_backward(dy: Array, x: Array, *, out: Any = None) -> Any:
    """cosh(x) dy"""
def softplus(x: Array, *, beta: float = 1.0, threshold: float = 20.0, out: Any = None) -> Any:
    """x for beta x > threshold, else ln(1 + e^(beta x)) / beta"""
def softplus_backward(dy: Array, x: Array, *, beta: float = 1.0, threshold: float = 20.0, out: Any = None) -> Any:
    """dy for beta x > threshold, else sigmoid(beta x) dy"""
def softshrink(x: Array, *, lambd: float = 0.5, out: Any = None) -> Any:
    """x - lambd for x > lambd, x + lambd for x < -lambd, else +0"""
def softshrink_backward(dy: Array, x: Array, *, lambd: float = 0.5, out: Any = None) -> Any:
    """dy for |x| > lambd, else 0"""
def softsign(x: Array, *, out: Any = None) -> Any:
    """x / (1 + |x|)"""
def softsign_backward(dy: Array, x: Array, *, out: Any = None) -> Any:
    """dy / (1 + |x|)^2"""
def sqrt(x: Array, *, out: Any = None) -> Any:
    """square root"""
def sqrt_backward(dy: Array, y: Array, *, out: Any = None) -> Any:
    """dy / (2 y), saved = y"""
def square(x: Array, *, out: Any = None) -> Any:
    """x^2"""
def square_backward(dy: Array, x: Array, *, out: Any = None) -> Any:
    """2 x dy"""
def step(x: Array, *, out: Any = None) -> Any:
    """1 for x > 0, else 0; NaN gives 0"""
def step_backward(dy: Array, *, out: Any = None) -> Any:
    """0"""
def sub(a: Array, b: Array, *, out: Any = None) -> Any:
    """a - b"""
def sub_backward(dy: Array, a: Array, b: Array, *, needs: Sequence[bool] | None = None, out: Any = None) -> tuple[Any, Any]:
    """da = dy, db = -dy"""
def swiglu(x: Array, *, axis: int = -1, out: Any = None) -> Any:
    """a silu(b)"""
def swiglu_backward(dy: Array, x: Array, *, axis: int = -1, out: Any = None) -> Any:
    """da = silu(b) dy, db = a silu'(b) dy"""
def tan(x: Array, *, out: Any = None) -> Any:
    """tangent of radians"""
def tan_backward(dy: Array, x: Array, *, out: Any = None) -> Any:
    """(1 + tan(x)^2) dy"""
def tanh(x: Array, *, out: Any = None) -> Any:
    """hyperbolic tangent"""
def tanh_backward(dy: Array, y: Array, *, out: Any = None) -> Any:
    """(1 - y^2) dy, saved = y"""
def tanhshrink(x: Array, *, out: Any = None) -> Any:
    """x - tanh(x)"""
def tanhshrink_backward(dy: Array, x: Array, *, out: Any = None) -> Any:
    """tanh(x)^2 dy"""
def threshold(x: Array, threshold: float, value: float, *, out: Any = None) -> Any:
    """x for x > threshold, else value"""
def threshold_backward(dy: Array, x: Array, threshold: float, value: float, *, out: Any = None) -> Any:
    """dy for x > threshold, else 0"""
def tile(x: Array, repeats: int | Sequence[int], *, out: Any = None) -> Any:
    """y[c] = x[c mod input_shape]: tiles x along every axis."""
def tile_backward(dy: Array, repeats: int | Sequence[int], *, out: Any = None) -> Any:
    """dx[c] = sum over k in [0, repeats) of dy[c + k * input_shape]; zero where a repeat is 0."""
def trunc(x: Array, *, out: Any = None) -> Any:
    """integer part"""
def trunc_backward(dy: Array, *, out: Any = None) -> Any:
    """0"""
def unsorted_segment_sum(x: Array, segment_ids: Array, num_segments: int, *, out: Any = None) -> Any:
    """segment_sum with ids in any order."""
def unsorted_segment_sum_backward(dy: Array, segment_ids: Array, *, out: Any = None) -> Any:
    """The same as segment_sum_backward."""
def where(cond: Array, a: Array, b: Array, *, out: Any = None) -> Any:
    """y = a where cond is not 0, else b; bits are copied."""
def where_backward(dy: Array, cond: Array, a: Array, b: Array, *, needs: Sequence[bool] | None = None, out: Any = None) -> tuple[Any, Any]:
    """da = dy where cond is not 0, else +0; db = +0 where cond is not 0, else dy."""
