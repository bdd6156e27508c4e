# SPDX-License-Identifier: Apache-2.0
"""Frameworks with arrays on the device: how each makes an array of NumPy values, and reads one."""

import dataclasses
import importlib.util
import os
from collections.abc import Callable
from typing import Any

import numpy as np

import baracuda as bk

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # else JAX takes all device memory


@dataclasses.dataclass
class Framework:
    array: Callable[[Any], Any]
    numpy: Callable[[Any], Any]
    kind: type
    from_dlpack: Callable[[Any], Any]
    synchronize: Callable[[], None]


def _torch() -> Framework:
    import torch

    return Framework(
        lambda values: torch.as_tensor(values, device="cuda"), lambda tensor: tensor.detach().cpu().numpy(),
        torch.Tensor, torch.from_dlpack, torch.cuda.synchronize,
    )  # fmt: skip


def _cupy() -> Framework:
    import cupy

    return Framework(cupy.asarray, cupy.asnumpy, cupy.ndarray, cupy.from_dlpack, cupy.cuda.Device().synchronize)


def _jax() -> Framework:
    import jax

    jax.config.update("jax_enable_x64", True)
    device = jax.devices("gpu")[0]
    return Framework(
        lambda values: jax.device_put(values, device), np.asarray, jax.Array, jax.dlpack.from_dlpack, lambda: None
    )


def _there() -> set[str]:
    """The frameworks that are installed and have a device. The fibers build has none."""
    if bk.default_library().build_info.get("device") == "fibers" or bk.default_library().backend != "cuda":
        return set()
    found = {"cupy"} if importlib.util.find_spec("cupy") else set()
    if importlib.util.find_spec("torch"):
        import torch

        found |= {"torch"} if torch.cuda.is_available() else set()
    if importlib.util.find_spec("jax"):
        import jax

        found |= {"jax"} if any(platform == "gpu" for platform in {d.platform for d in jax.devices()}) else set()
    return found


THERE = _there()
FRAMEWORKS = {
    name: make() for name, make in (("torch", _torch), ("cupy", _cupy), ("jax", _jax)) if name in THERE
}  # fmt: skip
