# SPDX-License-Identifier: Apache-2.0
"""For any arguments public functions raise no error but a BaracudaError."""

import numpy as np
import pytest

import baracuda as bk
from naming import Tries, describe

INVALID = (
    None, object(), "text", b"bytes", -1, 10**400, 1.5, float("nan"), True, [], {}, int, (1, 2, 3), ("a",), iter(()),
    np.float32(1), bk.BinaryKind.SUB, np.zeros(3, np.float32), 1j, [[1], [2, 3]], {"shape": 1}, np.zeros(3, "M8[s]"),
)  # fmt: skip
NOTHING = bk.TensorRef(0, (0,), bk.f32)
PLAN = bk.UnaryPlan.select(None, bk.UnaryDescriptor(bk.UnaryKind.NEG, (3,), element=bk.f32))
# One argument of each call is invalid; a view of one function's memory is never handed to another.
CALLS = {
    "clear": bk.clear, "clear: stream": lambda x: bk.clear(NOTHING, stream=x),
    "contiguous_stride": bk.contiguous_stride, "download": bk.download,
    "download: stream": lambda x: bk.download(NOTHING, stream=x), "empty": bk.empty,
    "empty: dtype": lambda x: bk.empty((3,), x), "empty: library": lambda x: bk.empty((3,), library=x),
    "load": bk.load, "load: backend": lambda x: bk.load(backend=x), "stream_handle": bk.stream_handle,
    "synchronize: library": lambda x: bk.synchronize(library=x), "tensor": bk.tensor, "upload": bk.upload,
    "upload: dtype": lambda x: bk.upload(np.zeros(3), x), "upload: out": lambda x: bk.upload(np.zeros(0), out=x),
    "upload: stream": lambda x: bk.upload(np.zeros(3), stream=x), "zeros": bk.zeros,
    "upload: library": lambda x: bk.upload(np.zeros(3), library=x), "workspace": bk.workspace,
    "workspace: args": lambda x: bk.workspace(PLAN, x), "can_implement": PLAN.can_implement,
    "workspace_size_for": PLAN.workspace_size_for, "Args": lambda x: bk.UnaryArgs(x, x),
    "TensorRef: ptr": lambda x: bk.TensorRef(x, (3,), bk.f32),
    "TensorRef: shape": lambda x: bk.TensorRef(64, x, bk.f32),
    "TensorRef: dtype": lambda x: bk.TensorRef(64, (3,), x),
    "TensorRef: strides": lambda x: bk.TensorRef(64, (3,), bk.f32, x),
    "TensorRef: length": lambda x: bk.TensorRef(64, (3,), bk.f32, None, x),
    "TensorRef: offset": lambda x: bk.TensorRef(64, (3,), bk.f32, offset=x),
    "TensorRef: device": lambda x: bk.TensorRef(64, (3,), bk.f32, device=x),
    "TensorRef: readonly": lambda x: bk.TensorRef(64, (3,), bk.f32, readonly=x),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_invalid_arguments(name):
    failures = 0
    with Tries() as tries:
        for invalid in INVALID:
            with tries(describe(invalid)[:60]):
                try:
                    CALLS[name](invalid)
                except bk.BaracudaError as error:
                    failures += 1
                    assert error.text
                except Exception as error:
                    raise AssertionError(f"{type(error).__name__}: {error}") from error
    assert failures >= 5
