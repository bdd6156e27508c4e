# SPDX-License-Identifier: Apache-2.0
"""Random numbers have the same bits on every device, for any instructions and threads: digests of what each op gives."""

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
DIGESTS: dict[str, str] = {}


def has(op):
    return f"baracuda_kernels_{op}_run" in bk.default_library().symbols()


def digest(array):
    host = bk.download(array) if isinstance(array, bk.TensorRef) else np.asarray(array)
    return hashlib.sha256(np.ascontiguousarray(host).tobytes()).hexdigest()[:16]


def made():
    """(op, call) of every op that is compared."""
    g = {"seed": 20260101, "offset": 3}
    for name, numbers in CALLS.items():
        for dtype in ("f32", "f64", "f16"):
            yield f"random_{name}_{dtype}", lambda x, n=name, k=numbers: getattr(bk, f"{n}_like")(x, **k, **g), dtype
    for dtype in ("u8", "i64"):
        yield f"random_bits_{dtype}", lambda x: bk.bits_like(x, **g), dtype
        yield f"random_integers_{dtype}", lambda x: bk.integers_like(x, low=3, high=100, **g), dtype
        yield f"random_bernoulli_{dtype}", lambda x: bk.bernoulli_like(x, p=0.3, **g), dtype
    for dtype in ("f32", "f64"):
        rates = lambda x: np.linspace(0, 40, COUNT).astype(x.dtype.numpy_dtype)  # noqa: E731
        yield f"random_poisson_{dtype}", lambda x, r=rates: bk.poisson(bk.upload(r(x)), **g), dtype
        yield f"dropout_seeded_{dtype}", lambda x, r=rates: bk.dropout(bk.upload(r(x)), p=0.3, **g), dtype


@pytest.mark.parametrize(("op", "call", "dtype"), [pytest.param(*each, id=each[0]) for each in made()])
def test_bits(op, call, dtype):
    if not has(op):
        pytest.skip("the library is built without it")
    assert digest(call(bk.empty(COUNT, dtype))) == DIGESTS[op]


def test_every_digest_is_of_an_op():
    assert set(DIGESTS) == {op for op, _, _ in made()}


if __name__ == "__main__":
    for op, call, dtype in made():
        print(f'    "{op}": "{digest(call(bk.empty(COUNT, dtype)))}",')
