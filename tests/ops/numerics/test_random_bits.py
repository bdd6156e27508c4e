# SPDX-License-Identifier: Apache-2.0
"""Random numbers have the same bits on every device, for any instructions and threads: digests of the results."""

import hashlib

import numpy as np
import pytest

import baracuda as bk

COUNT = 5003  # an odd number: the last vector is not whole
CALLS = {
    "uniform": {"low": -1.5, "high": 2.5}, "normal": {"mean": 0.25, "stddev": 1.5},
    "log_normal": {"mean": 0.0, "stddev": 0.5}, "truncated_normal": {"low": -1.0, "high": 6.0},
    "exponential": {"rate": 1.5}, "gumbel": {}, "cauchy": {}, "laplace": {}, "logistic": {}, "geometric": {"p": 0.125},
}  # fmt: skip
DIGESTS = {
    "random_uniform_f32": "3eec27e960576690",
    "random_uniform_f64": "9153178119cc2640",
    "random_normal_f32": "8d39f78e47193a26",
    "random_normal_f64": "1eb78194adcab085",
    "random_log_normal_f32": "a768fc6f9d2d27b6",
    "random_log_normal_f64": "dcc1effe4f33b0c8",
    "random_truncated_normal_f32": "798dd667f0c8755f",
    "random_truncated_normal_f64": "dd6a62ff5c6b94ca",
    "random_exponential_f32": "2f707fe73c336c9b",
    "random_exponential_f64": "0ea6c2c83e16273f",
    "random_gumbel_f32": "e1b65d13de8eede9",
    "random_gumbel_f64": "e5ad4b96e2008d54",
    "random_cauchy_f32": "dc30ef91e55a65c9",
    "random_cauchy_f64": "a8c8d9dcbdad6702",
    "random_laplace_f32": "4e0a2aec62fcbb8b",
    "random_laplace_f64": "b72d5e402da7c853",
    "random_logistic_f32": "6e065f4d452bdaa4",
    "random_logistic_f64": "aa5fc242175b410a",
    "random_geometric_f32": "7cf6b4fb2ec68b5f",
    "random_geometric_f64": "2ae89892e133a5ee",
    "random_bits_u8": "7d12da6d7c7dab52",
    "random_integers_u8": "60e4fc2d980f355b",
    "random_bernoulli_u8": "242e294d1eed5ff0",
    "random_bits_i64": "f3b1e23dec50e923",
    "random_integers_i64": "01953839d02f6af6",
    "random_bernoulli_i64": "e4d4acfc38d2e1de",
    "random_poisson_f32": "cebfbdd2aea4b1ae",
    "dropout_seeded_f32": "59146d6aedc56537",
    "random_poisson_f64": "8c656ab0e50c7236",
    "dropout_seeded_f64": "9b059748b830a5e5",
}


def digest(array):
    host = bk.download(array) if isinstance(array, bk.TensorRef) else np.asarray(array)
    return hashlib.sha256(np.ascontiguousarray(host).tobytes()).hexdigest()[:16]


def made():
    """(op, call) of every op that is compared."""
    g = {"seed": 20260101, "offset": 3}
    for name, numbers in CALLS.items():
        for dtype in ("f32", "f64"):
            yield f"random_{name}_{dtype}", lambda x, n=name, k=numbers: getattr(bk, f"{n}_like")(x, **k, **g), dtype
    for dtype in ("u8", "i64"):
        yield f"random_bits_{dtype}", lambda x: bk.bits_like(x, **g), dtype
        yield f"random_integers_{dtype}", lambda x: bk.integers_like(x, low=3, high=100, **g), dtype
        yield f"random_bernoulli_{dtype}", lambda x: bk.bernoulli_like(x, p=0.3, **g), dtype
    for dtype in ("f32", "f64"):
        rates = lambda x: np.linspace(0, 40, COUNT).astype(x.dtype.numpy_dtype)  # noqa: E731
        yield f"random_poisson_{dtype}", lambda x, r=rates: bk.poisson(bk.upload(r(x)), **g), dtype
        yield f"dropout_seeded_{dtype}", lambda x, r=rates: bk.dropout(bk.upload(r(x)), p=0.3, **g), dtype


CASES = [pytest.param(*each, id=each[0], marks=pytest.mark.needs_ops(each[0])) for each in made()]


@pytest.mark.parametrize(("op", "call", "dtype"), CASES)
def test_bits(op, call, dtype):
    assert digest(call(bk.empty(COUNT, dtype))) == DIGESTS[op]


def test_every_digest_is_of_an_op():
    assert set(DIGESTS) == {op for op, _, _ in made()}


if __name__ == "__main__":
    for op, call, dtype in made():
        print(f'    "{op}": "{digest(call(bk.empty(COUNT, dtype)))}",')
