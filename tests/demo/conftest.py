# SPDX-License-Identifier: Apache-2.0
"""Tests that call the library are deselected for a partial one that lacks these ops."""

import pytest

OPS = (
    "add_rms_norm_{}", "attention_{}", "binary_add_{}", "embedding_i64idx_{}", "gated_swiglu_{}", "gemm_dense_{}",
    "loss_flce_per_row_{}", "loss_flce_scalar_finalize_{}", "optim_adam_{}", "random_advance", "rope_apply_thd_half_{}",
    "sample_tokens_f32",
)  # fmt: skip


@pytest.hookimpl(tryfirst=True)  # before the one that reads the marks
def pytest_collection_modifyitems(items):
    for item in items:
        if "demo" in item.path.parts and "library" in getattr(item, "fixturenames", ()):
            of = str(item.callspec.params.get("dtype", "f32")) if hasattr(item, "callspec") else "f32"
            item.add_marker(pytest.mark.needs_ops(*[op.format(of) for op in OPS]))
