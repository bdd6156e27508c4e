# SPDX-License-Identifier: Apache-2.0
"""Objects that count as streams."""

from fractions import Fraction

import numpy as np
import pytest

import baracuda as bk
from naming import describe


class Protocol:
    def __init__(self, answer):
        self.answer = answer

    def __cuda_stream__(self):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class PropertyProtocol:
    __cuda_stream__ = (0, 77)


class TorchLike:
    def __init__(self, handle):
        self.cuda_stream = handle


@pytest.mark.parametrize(
    ("stream", "handle"),
    [
        (None, 0),
        (0, 0),
        (2, 2),
        (2**64 - 1, 2**64 - 1),
        (np.int64(12), 12),
        (Protocol((0, 5)), 5),
        (PropertyProtocol(), 77),
        (TorchLike(9), 9),
        (TorchLike(0), 0),
    ],
)
def test_streams(stream, handle):
    assert bk.stream_handle(stream) == handle


def integer_like(module, name):
    return type(name, (), {"__module__": module, "__int__": lambda self: 40})()


@pytest.mark.parametrize(("module", "name"), [("runtime", "cudaStream_t"), ("driver", "CUstream")])
def test_cuda_bindings_streams(module, name):
    """They are recognised by type, for releases whose streams lack the protocol; other integer-like objects are no
    streams."""
    assert bk.stream_handle(integer_like(f"cuda.bindings.{module}", name)) == 40
    for stream in (integer_like("elsewhere", name), integer_like(f"cuda.bindings.{module}", "cudaEvent_t")):
        with pytest.raises(bk.InvalidProblemError, match="which is no stream"):
            bk.stream_handle(stream)


@pytest.mark.parametrize(
    "stream",
    [
        True, False, "0", b"0", 1.0, float("inf"), float("nan"), -1, 2**64, Fraction(1), [], (0, 5), {}, object(), int,
        np.bool_(True), np.float32(0), Protocol(5), Protocol((1, 5)), Protocol((0, -5)), Protocol((0, "5")),
        Protocol((0, True)), Protocol(None), Protocol(RuntimeError("closed")), Protocol, TorchLike("7"), TorchLike(1.5),
        TorchLike(-1), TorchLike(float("inf")),
    ],
    ids=describe,
)  # fmt: skip
def test_others_are_refused(stream):
    with pytest.raises(bk.InvalidProblemError, match="stream is") as caught:
        bk.stream_handle(stream)
    assert isinstance(caught.value, ValueError)
    with pytest.raises(bk.InvalidProblemError, match="AlibiPlan: stream is"):
        bk.AlibiPlan.select(stream, bk.AlibiDescriptor(1, 1, 1, 1, element=bk.f32))
