# SPDX-License-Identifier: Apache-2.0
"""Streams: the objects that callers may pass, and their handles."""

from __future__ import annotations

import numbers
from typing import Any

from baracuda.errors import InvalidProblemError

_MAX_HANDLE = 2**64 - 1
_DRIVER_TYPES = {("cuda.bindings", "cudaStream_t"), ("cuda.bindings", "CUstream")}


def stream_handle(stream: object, name: str = "stream") -> int:
    """cudaStream_t of `stream` as an integer; 0 is the per-thread default stream.

    Accepts None, an integer handle, streams of cuda.bindings (runtime and driver) and cuda.core, any object with
    `__cuda_stream__` (returning (version, handle)) or with a `cuda_stream` attribute (torch). InvalidProblemError for
    everything else.
    """
    if stream is None:
        return 0
    if isinstance(stream, bool):
        raise InvalidProblemError(f"{name} is {stream!r}, which is no stream")
    if isinstance(stream, numbers.Integral):
        return _checked(int(stream), stream, name)
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        return _from_protocol(protocol, stream, name)
    handle = getattr(stream, "cuda_stream", None)
    if handle is not None:
        return _checked(handle, stream, name)
    kind = type(stream)
    if (".".join(kind.__module__.split(".")[:2]), kind.__name__) in _DRIVER_TYPES:
        return _checked(int(stream), stream, name)  # type: ignore[call-overload]
    raise InvalidProblemError(f"{name} is {stream!r}, which is no stream")


def _from_protocol(protocol: Any, stream: object, name: str) -> int:
    try:
        # cuda.core before 0.2 had a property in place of the method
        version, handle = protocol() if callable(protocol) else protocol
    except Exception as error:  # exporters raise whatever they like
        raise InvalidProblemError(
            f"{name} is {stream!r}: __cuda_stream__ gives no (version, handle): {error}"
        ) from error
    if version != 0:
        raise InvalidProblemError(f"{name} is {stream!r}: __cuda_stream__ version {version!r}, only 0 is known")
    return _checked(handle, stream, name)


def _checked(handle: object, stream: object, name: str) -> int:
    if not isinstance(handle, (bool, float, str)):
        try:
            value: int = int(handle)  # type: ignore[call-overload]
        except (TypeError, ValueError):
            value = -1
        if 0 <= value <= _MAX_HANDLE:
            return value
    raise InvalidProblemError(f"{name} is {stream!r}: {handle!r} is no stream handle")
