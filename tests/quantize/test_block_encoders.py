# SPDX-License-Identifier: Apache-2.0
"""Encoders of GGUF blocks: bars on the error, the gain by importance, faults, and extreme magnitudes."""

import numpy as np
import pytest

import baracuda as bk
from tools.oracle.block_formats import FORMATS, decoded

pytestmark = pytest.mark.skipif(bk.default_library().backend != "cpu", reason="operands are NumPy arrays")
ENCODED = (
    "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_K", "q3_K", "q4_K", "q5_K", "q6_K", "q8_K", "iq4_nl", "iq4_xs",
    "tq1_0", "tq2_0",
)  # fmt: skip
SEARCHED = ("q2_K", "q3_K", "q4_K", "q5_K", "q6_K", "iq4_nl", "iq4_xs")
WEIGHTED = ("q4_0", "q4_1", "q5_0", "q5_1", *SEARCHED)
# Root mean square errors of normal numbers, 3 % above what the encoders reach.
NORMAL = {
    "q4_0": 0.089, "q4_1": 0.081, "q5_0": 0.0445, "q5_1": 0.0392, "q8_0": 0.0056, "q2_K": 0.297, "q3_K": 0.158,
    "q4_K": 0.0742, "q5_K": 0.0373, "q6_K": 0.0184, "q8_K": 0.0072, "iq4_nl": 0.079, "iq4_xs": 0.0795,
    "tq1_0": 0.83, "tq2_0": 0.83,
}  # fmt: skip


def rmse(got, x, weights=1.0):
    return float(np.sqrt(np.sum(weights * (got - x) ** 2) / np.sum(np.broadcast_to(weights, x.shape))))


def there_and_back(x, name, importance=None):
    data = bk.quantize_blocks(x, name, importance)
    return decoded(FORMATS[name], data)


@pytest.mark.parametrize("name", ENCODED)
def test_error_of_normal_numbers(rng, name):
    x = rng.standard_normal((64, 1024)).astype(np.float32)
    assert rmse(there_and_back(x, name), x) < NORMAL[name]


@pytest.mark.parametrize("name", ENCODED)
def test_bars_of_the_reference(name):
    """The bars of llama.cpp's test-quantize-fns, on its data: the length of the error over the number of values."""
    x = (0.1 + 2 * np.cos(np.arange(32 * 128, dtype=np.float64))).astype(np.float32).reshape(1, -1)
    bar = 0.01 if name.startswith("tq") else 0.0075 if name == "q2_K" else 0.004 if name == "q3_K" else 0.002
    assert np.sqrt(np.sum((there_and_back(x, name) - x) ** 2)) / x.size < bar


@pytest.mark.parametrize("name", WEIGHTED)
def test_importance_lowers_the_weighted_error(rng, name):
    x = rng.standard_normal((32, 1024)).astype(np.float32)
    importance = (3 * rng.random(1024) ** 3).astype(np.float32)
    weighted, plain = there_and_back(x, name, importance), there_and_back(x, name)
    assert rmse(weighted, x, importance) < 0.97 * rmse(plain, x, importance)


@pytest.mark.parametrize("name", SEARCHED)
def test_search_beats_the_largest_value(rng, name):
    """The scale that the largest value alone would give is worse, with outliers above all."""
    x = rng.standard_normal((32, 1024)).astype(np.float32)
    x[rng.random(x.shape) < 0.01] *= 8
    bits = {"q2_K": 3, "q3_K": 7, "q4_K": 15, "q5_K": 31, "q6_K": 63}.get(name, 15)
    part = x.reshape(-1, 16 if name in ("q2_K", "q3_K", "q6_K") else 32)
    low, high = part.min(1, keepdims=True), part.max(1, keepdims=True)
    if name in ("q3_K", "q6_K", "iq4_nl", "iq4_xs"):
        high = np.maximum(high, -low)
        low = -high
    step = (high - low) / bits
    naive = low + step * np.rint((part - low) / step)
    assert rmse(there_and_back(x, name), x) < rmse(naive.reshape(x.shape), x)


@pytest.mark.parametrize("name", ENCODED)
def test_scale_invariance(rng, name):
    """Powers of two change the scales only, so that no magnitude overflows on the way."""
    x = rng.standard_normal((4, 512)).astype(np.float32)
    one, other = there_and_back(x, name), there_and_back(x * np.float32(2.0**9), name)
    assert np.allclose(one * 2.0**9, other, rtol=2e-3, atol=1e-2)


@pytest.mark.parametrize("name", ENCODED)
def test_faults_stay_in_their_block(rng, name):
    x = rng.standard_normal((2, 1024)).astype(np.float32)
    clean = there_and_back(x, name)
    values = FORMATS[name].values
    for fault in (np.nan, np.inf, -np.inf):
        x[1, 5] = fault
        got = there_and_back(x, name)
        assert np.isnan(got[1, :values]).all()
        assert np.array_equal(got[1, values:], clean[1, values:])
        assert np.array_equal(got[0], clean[0])


@pytest.mark.parametrize("name", ENCODED)
def test_zeros_and_huge_values(name):
    zeros = there_and_back(np.zeros((1, 256), np.float32), name)
    assert np.array_equal(np.abs(zeros), np.zeros((1, 256)))
    tiny = there_and_back(np.full((1, 256), 1e-40, np.float32), name)
    assert np.isfinite(tiny).all()
    assert np.abs(tiny).max() <= 1e-7
    huge = there_and_back(np.linspace(-3e38, 3e38, 256, dtype=np.float32).reshape(1, 256), name)
    assert np.isfinite(huge).all()


@pytest.mark.parametrize("name", ENCODED)
def test_no_importance_at_all(rng, name):
    """Columns without importance still have finite values, as do negative and NaN importances, which count as 0."""
    x = rng.standard_normal((2, 256)).astype(np.float32)
    for importance in (np.zeros(256, np.float32), np.full(256, np.nan, np.float32), np.full(256, -1, np.float32)):
        got = there_and_back(x, name, importance)
        assert np.isfinite(got).all()
        assert np.abs(got).max() < 8


@pytest.mark.parametrize("name", ENCODED)
def test_dtypes_agree(rng, name):
    x = rng.standard_normal((3, 512)).astype(np.float16)
    assert np.array_equal(bk.quantize_blocks(x, format=name), bk.quantize_blocks(x.astype(np.float32), format=name))


def test_formats_by_id_and_name(rng):
    x = rng.standard_normal((2, 256)).astype(np.float32)
    by_name = bk.quantize_blocks(x, format="Q4_k")
    assert np.array_equal(by_name, bk.quantize_blocks(x, format=12))
    assert np.array_equal(by_name, bk.quantize_blocks(x, format=bk.GgufBlockFormat.Q4_K))
    with pytest.raises(bk.InvalidProblemError, match="format is 'q4_L', must be one of q4_0"):
        bk.quantize_blocks(x, format="q4_L")
    with pytest.raises(bk.InvalidProblemError, match="x has rows of 100 values, must be a multiple of 256"):
        bk.quantize_blocks(x[:, :100], format="q4_K")
    with pytest.raises(bk.InvalidProblemError, match="importance"):
        bk.quantize_blocks(x, "q4_K", np.ones(255, np.float32))
