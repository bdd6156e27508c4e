# SPDX-License-Identifier: Apache-2.0
"""Lists of PyTorch tensors, read and compared by functions of C: Python code for each tensor would cost more host time
than the launch of a step.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Hashable, Sequence
from typing import Any

_DTYPE, _DEVICE, _SHAPE = map(operator.attrgetter, ("dtype", "device", "shape"))


class TensorReader:
    def __init__(self, torch: Any) -> None:
        self.torch, self.address = torch, torch.Tensor.data_ptr
        self._plain = frozenset({torch.Tensor, torch.nn.Parameter})
        # PyTorch's own graphs of CUDA compare addresses by it; a private name, so that it may be absent.
        self._compare = getattr(torch._C, "_tensors_data_ptrs_at_indices_equal", None)

    def addresses(self, tensors: Sequence[Any]) -> list[int]:
        return list(map(self.address, tensors))

    def are_at(self, tensors: list[Any], addresses: list[int]) -> bool:
        """Whether the tensors have these addresses. False for a list of which one is None or has no memory."""
        if len(tensors) != len(addresses):
            return False
        try:
            if self._compare is None:
                return self.addresses(tensors) == addresses
            return bool(self._compare(tensors, addresses, _numbers(len(tensors))))
        except (TypeError, RuntimeError):
            return False

    def are_plain(self, tensors: Sequence[Any]) -> bool:
        """Whether no tensor is of a subclass, which may lack memory."""
        return self._plain.issuperset(map(type, tensors))

    def forms(self, tensors: Sequence[Any]) -> list[Any] | None:
        """Dtypes, devices, shapes and strides, to compare; None for tensors that are to be looked at one by one."""
        tensor = self.torch.Tensor
        try:
            if not self.are_plain(tensors) or any(map(tensor.is_neg, tensors)):
                return None
            return [list(map(each, tensors)) for each in (_DTYPE, _DEVICE, _SHAPE, tensor.stride)]
        except RuntimeError:  # sparse and nested tensors have no strides
            return None

    def layout(self, tensors: Sequence[Any]) -> Hashable:
        """Key of all that an elementwise operation depends on beside addresses: sizes, dtypes, devices, and shapes and
        strides if not all are contiguous. None as in `forms`. A tensor that stands for its negative has the layout of
        one that does not: norms and clipping are the same.
        """
        tensor = self.torch.Tensor
        try:
            if not self.are_plain(tensors):
                return None
            each = [tuple(map(read, tensors)) for read in (tensor.numel, _DTYPE, _DEVICE)]
            if not all(map(tensor.is_contiguous, tensors)):
                each += [tuple(map(read, tensors)) for read in (_SHAPE, tensor.stride)]
        except RuntimeError:
            return None
        return tuple(each)

    def is_capturing(self, like: Any) -> bool:
        """Whether launches on the tensor's device are recorded, not run."""
        return bool(like.is_cuda and self.torch.cuda.is_current_stream_capturing())


def reader_of(array: Any) -> TensorReader | None:
    """The reader of lists that have this array; None if it is none of PyTorch."""
    torch = sys.modules.get("torch")
    return _reader(torch) if torch is not None and isinstance(array, torch.Tensor) else None


@functools.cache
def _reader(torch: Any) -> TensorReader:
    return TensorReader(torch)


@functools.lru_cache(64)
def _numbers(count: int) -> list[int]:
    return list(range(count))
