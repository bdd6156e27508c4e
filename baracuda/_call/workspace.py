# SPDX-License-Identifier: Apache-2.0
"""Checks of the workspace that a caller gives to a launch."""

from __future__ import annotations

from baracuda._call.scalars import INT64_MAX, as_integer
from baracuda.dtypes import ElementKind
from baracuda.errors import InvalidProblemError, UnsupportedError
from baracuda.guarantee import SIZE_MAX
from baracuda.operands import Views, check_reach, overlaps
from baracuda.tensor import TensorRef, tensor


def workspace_view(workspace: object, views: Views, backend: str) -> TensorRef | None:
    """The workspace as bytes in the backend's memory, checked not to overlap the operands."""
    if workspace is None:
        return None
    view = _from_pair(workspace) if isinstance(workspace, tuple) else tensor(workspace, "workspace")
    if view.readonly:
        raise InvalidProblemError("workspace is read-only")
    if view.numel and not view.ptr:
        raise InvalidProblemError("workspace is NULL")
    if not view.is_dense:
        raise UnsupportedError(f"workspace has strides {view.strides} for shape {view.shape}, must be contiguous")
    if view.device not in (None, backend):
        raise InvalidProblemError(f"workspace is in {view.device} memory, the library is a {backend} library")
    check_reach("workspace", view)
    for name, other in views.items():
        if other is not None and overlaps(view, other):
            raise InvalidProblemError(f"workspace overlaps {name}")
    return view


def _from_pair(pair: tuple[object, ...]) -> TensorRef:
    if len(pair) != 2:
        raise InvalidProblemError(f"workspace is {pair!r}, must be (address, bytes)")
    address = as_integer("workspace address", pair[0], 0, SIZE_MAX)
    size = as_integer("workspace bytes", pair[1], 0, INT64_MAX)
    return TensorRef(address, (size,), ElementKind.U8)
