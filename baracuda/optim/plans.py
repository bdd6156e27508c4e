# SPDX-License-Identifier: Apache-2.0
"""The plans of the reference: a step on lists of device addresses (baracuda_optim_* in the C header).

    params, grads = TensorList(bk.bf16), TensorList(bk.bf16)
    params.push(size, address) ...
    AdamStepPlan(AdamConfig(lr=3e-4)).step_with_f32_state(stream, params, grads, exp_avg, exp_avg_sq, step=1)

Tensors are of f32, f16 or bf16, the states of f32, in the memory of the default library.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable
from typing import Any

import numpy as np

from baracuda._call.scalars import INT32_MAX, as_integer, as_real
from baracuda._library.loader import Library, default_library
from baracuda.dtypes import ElementKind, as_element
from baracuda.errors import InvalidProblemError, UnsupportedError
from baracuda.stream import stream_handle
from baracuda.tensor import tensor


class LengthMismatchError(InvalidProblemError):
    """Lists of one call differ in their number of tensors or in a size."""


class EmptyTensorListError(InvalidProblemError):
    """A list has no tensors."""


class TensorList:
    """Sizes and device addresses of contiguous tensors of one dtype: pairs of both, or arrays."""

    __slots__ = ("_owners", "addresses", "element", "sizes")

    def __init__(self, element: Any = ElementKind.F32, tensors: Iterable[Any] = ()) -> None:
        self.element = as_element(element)
        self.sizes: list[int] = []
        self.addresses: list[int] = []
        self._owners: list[Any] = []
        for each in tensors:
            self.append(each)

    def __len__(self) -> int:
        return len(self.sizes)

    def push(self, size: int, address: int) -> None:
        """Add a tensor of `size` elements at a device address."""
        self.sizes.append(as_integer("size", size, 0, INT32_MAX))
        self.addresses.append(as_integer("address", address, 0, 2**64 - 1))

    def append(self, array: Any) -> None:
        """Add an array, which must stay alive while the list is used."""
        view = tensor(array, f"tensors[{len(self)}]")
        if view.dtype is not self.element or not view.is_dense:
            raise InvalidProblemError(f"tensors[{len(self)}] must be contiguous and of {self.element}, is {view!r}")
        self.push(view.numel, view.ptr)
        self._owners.append(view)


class AdamMode(enum.IntEnum):
    """Weight decay enters into the gradient, or into the update (AdamW)."""

    CLASSIC = 0
    DECOUPLED = 1


@dataclasses.dataclass(frozen=True)
class AdamConfig:
    lr: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.0
    bias_correction: bool = True
    mode: AdamMode = AdamMode.CLASSIC


@dataclasses.dataclass(frozen=True)
class SgdConfig:
    lr: float = 1e-2
    momentum: float = 0.0
    dampening: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False
    wd_after_momentum: bool = False
    grad_scale: float = 1.0


@dataclasses.dataclass(frozen=True)
class LambConfig:
    lr: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-6
    weight_decay: float = 1e-2
    bias_correction: bool = True
    mode: AdamMode = AdamMode.DECOUPLED
    max_global_grad_norm: float = 1.0
    lr_lower: float = 0.0
    lr_upper: float = 10.0


class _Plan:
    """Checks lists, and calls a C function on host arrays of their addresses."""

    op = ""

    def __init__(self, config: Any, *, library: Library | None = None) -> None:
        for field in dataclasses.fields(config):
            value = getattr(config, field.name)
            if isinstance(value, float):
                as_real(field.name, value)
        self.config = config
        self.library = library or default_library()

    def _call(self, stream: object, lists: dict[str, TensorList], states: str, *arguments: Any) -> None:
        params = lists["params"]
        for name, each in lists.items():
            if len(each) == 0:
                raise EmptyTensorListError(f"{name} is empty, must have a tensor")
            if each.sizes != params.sizes:
                raise LengthMismatchError(f"{name} has sizes {each.sizes[:8]}, params {params.sizes[:8]}")
            wanted = ElementKind.F32 if name in states.split() else params.element
            if each.element is not wanted:
                raise UnsupportedError(f"{name} is of {each.element}, must be of {wanted}")
        ffi = self.library.ffi
        sizes = np.array(params.sizes, np.int32)
        addresses = [np.array(each.addresses, np.uint64) for each in lists.values()]
        given = [ffi.cast("void **", a.ctypes.data) for a in addresses]
        symbol = f"baracuda_optim_{self.op}_{params.element.symbol}_run"
        function = getattr(self.library.lib, symbol, None)
        if function is None:
            raise UnsupportedError(f"params is of {params.element}, for which there is no {symbol}")
        handle = ffi.cast("void *", stream_handle(stream))
        status = function(len(params), ffi.cast("int32_t *", sizes.ctypes.data), *given, *arguments, handle)
        self.library.check(symbol, status)


def _require_f32(params: TensorList, method: str) -> None:
    if params.element is not ElementKind.F32:
        raise UnsupportedError(f"step takes states of the parameters' dtype, {params.element}: call {method}")


class AdamStepPlan(_Plan):
    """Adam, or AdamW with the mode DECOUPLED."""

    op = "adam"

    def __init__(self, config: AdamConfig | None = None, *, library: Library | None = None) -> None:
        super().__init__(config or AdamConfig(), library=library)

    def step(
        self, stream: object, params: TensorList, grads: TensorList, exp_avg: TensorList, exp_avg_sq: TensorList,
        step: int,
    ) -> None:  # fmt: skip
        """A step of f32 tensors; moments of 16 bits are refused."""
        _require_f32(params, "step_with_f32_state")
        self.step_with_f32_state(stream, params, grads, exp_avg, exp_avg_sq, step)

    def step_with_f32_state(
        self, stream: object, params: TensorList, grads: TensorList, exp_avg: TensorList, exp_avg_sq: TensorList,
        step: int,
    ) -> None:  # fmt: skip
        """Step number `step`, from 1, with moments of f32."""
        c = self.config
        lists = {"params": params, "grads": grads, "exp_avg": exp_avg, "exp_avg_sq": exp_avg_sq}
        self._call(
            stream, lists, "exp_avg exp_avg_sq", as_integer("step", step, 1, INT32_MAX), c.lr, c.beta1, c.beta2,
            c.epsilon, c.weight_decay, int(c.bias_correction), int(c.mode),
        )  # fmt: skip


class SgdStepPlan(_Plan):
    """SGD with momentum. The buffers are needed even where momentum is 0."""

    op = "sgd"

    def __init__(self, config: SgdConfig | None = None, *, library: Library | None = None) -> None:
        super().__init__(config or SgdConfig(), library=library)

    def step(
        self, stream: object, params: TensorList, grads: TensorList, momentum_buffers: TensorList, first_step: bool
    ) -> None:
        """A step of f32 tensors; buffers of 16 bits are refused."""
        _require_f32(params, "step_with_f32_momentum")
        self.step_with_f32_momentum(stream, params, grads, momentum_buffers, first_step)

    def step_with_f32_momentum(
        self, stream: object, params: TensorList, grads: TensorList, momentum_buffers: TensorList, first_step: bool
    ) -> None:
        """A step with buffers of f32; the first one sets them to the gradients."""
        c = self.config
        lists = {"params": params, "grads": grads, "momentum_buffers": momentum_buffers}
        self._call(
            stream, lists, "momentum_buffers", c.lr, c.momentum, c.dampening, c.weight_decay, int(c.nesterov),
            int(first_step), int(c.wd_after_momentum), c.grad_scale,
        )  # fmt: skip


class LambStepPlan(_Plan):
    """LAMB of f32 tensors. The caller has the norm of all gradients."""

    op = "lamb"

    def __init__(self, config: LambConfig | None = None, *, library: Library | None = None) -> None:
        super().__init__(config or LambConfig(), library=library)

    @staticmethod
    def workspace_bytes(n_tensors: int, total: int) -> int:
        """Bytes of workspace for a number of tensors and their elements together."""
        return 16 * n_tensors + 4 * total

    def step(
        self, stream: object, workspace: Any, params: TensorList, grads: TensorList, exp_avg: TensorList,
        exp_avg_sq: TensorList, step: int, global_grad_norm: float,
    ) -> None:  # fmt: skip
        """Step number `step`, from 1; workspace is an array of at least workspace_bytes on the device."""
        c, n = self.config, len(params)
        lists = {"params": params, "grads": grads, "exp_avg": exp_avg, "exp_avg_sq": exp_avg_sq}
        view = tensor(workspace, "workspace")
        needed = self.workspace_bytes(n, sum(params.sizes))
        if view.nbytes < needed or view.ptr % 8:
            raise InvalidProblemError(f"workspace has {view.nbytes} bytes at {view.ptr:#x}, must have {needed} at 8 n")
        # Addresses of the scratch of each tensor, both norms, then the scratch.
        starts = view.ptr + 16 * n + 4 * np.concatenate([[0], np.cumsum(params.sizes)[:-1]]).astype(np.uint64)
        each, ffi = starts.astype(np.uint64), self.library.ffi
        host, handle = ffi.cast("void *", each.ctypes.data), ffi.cast("void *", stream_handle(stream))
        at = [ffi.cast("void *", view.ptr + offset * n) for offset in (0, 8, 12)]
        upload = self.library.lib.baracuda_kernels_optim_upload_run
        self.library.check("optim_upload", upload(host, at[0], 8 * n, handle))
        numbers = (as_integer("step", step, 1, INT32_MAX), c.lr, c.beta1, c.beta2, c.epsilon, c.weight_decay)
        norm = as_real("global_grad_norm", global_grad_norm)
        self._call(
            stream, lists, "exp_avg exp_avg_sq", ffi.cast("void **", host), *at, *numbers, int(c.bias_correction),
            int(c.mode), norm, c.max_global_grad_norm, c.lr_lower, c.lr_upper,
        )  # fmt: skip
