# SPDX-License-Identifier: Apache-2.0
"""Histograms of every bit pattern of 16-bit floats, of so many elements that a GPU counts patterns."""

import ml_dtypes
import numpy as np
import pytest

import baracuda as bk

DTYPES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}
RANGES = [(100, -4.0, 4.0), (7, 0.0, 1.0), (1, 1.0, 1.5), (3000, -2.0, -1e-3), (4096, -4.0, 4.0), (64, -1e-5, 60000.0)]
REPEATED = 64


def expected(x, bins, low, high):
    """Edges in f64, rounded to the dtype; the last bin has its right edge."""
    edges = np.arange(bins + 1) * ((high - low) / bins) + low
    edges[bins] = high
    edges = edges.astype(x.dtype).astype(np.float64)
    values = x.astype(np.float64)
    values = values[(values >= edges[0]) & (values <= edges[bins])]
    found = np.minimum(np.searchsorted(edges, values, side="right") - 1, bins - 1)
    return np.bincount(found, minlength=bins)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.needs_ops(f"histogram_{name}")) for name in DTYPES]
)
@pytest.mark.parametrize(("bins", "low", "high"), RANGES)
def test_every_pattern(name, bins, low, high, rng):
    patterns = np.arange(1 << 16, dtype=np.uint16).view(DTYPES[name])
    every = np.tile(patterns, REPEATED)
    rng.shuffle(every)
    x = np.concatenate((every, patterns[0x3C00:0x3C05]))
    with np.errstate(over="ignore", invalid="ignore"):
        counts = REPEATED * expected(patterns, bins, low, high) + expected(patterns[0x3C00:0x3C05], bins, low, high)
    found = bk.download(bk.histogram_counts(bk.upload(x), bins, low, high))
    np.testing.assert_array_equal(found, counts)
