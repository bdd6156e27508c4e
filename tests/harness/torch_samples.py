# SPDX-License-Identifier: Apache-2.0
"""Samples of functions as PyTorch's tensors."""

import numpy as np
import torch

from .samples import sample


def arguments_of(name):
    """Arguments of an operator, positional and by keyword."""
    return sample(name).arguments(name, tensor_of, lambda dtype: getattr(torch, dtype.name))


def tensor_of(array):
    """from_numpy, which knows no 8-bit floats."""
    if not array.dtype.name.startswith("float8"):
        return torch.from_numpy(array)
    return torch.from_numpy(array.view(np.uint8)).view(getattr(torch, array.dtype.name))
