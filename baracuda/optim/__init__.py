# SPDX-License-Identifier: Apache-2.0
"""Optimisers on arrays of any framework, with the names, arguments and state dicts of torch.optim.

    opt = bk.optim.AdamW(model.parameters(), lr=3e-4)   # PyTorch: gradients are those of the parameters
    opt.step()

    opt = bk.optim.AdamW([w, b], lr=3e-4)               # NumPy, CuPy ...: gradients are given
    opt.step([dw, db])

A step of all parameters of one group and dtype is one launch. `clip_grad_norm_` and `get_total_norm` are those of
torch.nn.utils. The plans (AdamStepPlan ...) take lists of device addresses.
"""

from __future__ import annotations

from baracuda.optim.adafactor import Adafactor
from baracuda.optim.clip import clip_grad_norm_, clip_grad_value_, get_total_norm
from baracuda.optim.muon import Muon
from baracuda.optim.optimizer import Optimizer
from baracuda.optim.plans import (
    AdamConfig,
    AdamMode,
    AdamStepPlan,
    EmptyTensorListError,
    LambConfig,
    LambStepPlan,
    LengthMismatchError,
    SgdConfig,
    SgdStepPlan,
    TensorList,
)
from baracuda.optim.rules import SGD, Adadelta, Adagrad, Adam, AdamW, Lamb, Lion, RMSprop

__all__ = [
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamConfig",
    "AdamMode",
    "AdamStepPlan",
    "AdamW",
    "EmptyTensorListError",
    "Lamb",
    "LambConfig",
    "LambStepPlan",
    "LengthMismatchError",
    "Lion",
    "Muon",
    "Optimizer",
    "RMSprop",
    "SgdConfig",
    "SgdStepPlan",
    "TensorList",
    "clip_grad_norm_",
    "clip_grad_value_",
    "get_total_norm",
]
