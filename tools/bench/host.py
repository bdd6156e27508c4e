# SPDX-License-Identifier: Apache-2.0
"""Host time of a launch of 16 elements: plan.run with prepared arguments, a bound launch, torch.add(a, b, out=c)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import baracuda as bk
from tools.bench.data import Data
from tools.bench.record import Operand

_CALLS = 400  # fits in the launch queue of a GPU
_ROUNDS = 60


def host_costs(data: Data) -> list[dict[str, Any]]:
    """Nanoseconds per call; candidates alternate, and the device is idle before each."""
    a, b, c = (data.make(Operand((16,), "normal"), "f32", slot) for slot in range(3))
    descriptor = bk.BinaryParamDescriptor(kind=bk.BinaryKind.LERP, shape=(16,), params=(0.5,), element=bk.f32)
    plan = bk.BinaryParamPlan.select(data.stream, descriptor, library=data.library)
    args = bk.BinaryParamArgs(*(bk.TensorRef(v.ptr, (16,), bk.f32) for v in (a, b, c)))
    stream, run = data.stream, plan.run
    candidates: list[tuple[str, Callable[[], Any], float | None]] = [
        ("plan.run", lambda: run(stream, None, args), 1.0),
        ("bound launch", plan.bind(stream, None, args), 0.6),
    ]
    if data.torch is not None:
        add, x, y, z = data.torch.add, a.torch, b.torch, c.torch
        candidates.append(("torch.add(out=)", lambda: add(x, y, out=z), None))
    samples: list[list[float]] = [[] for _ in candidates]
    for _ in range(_ROUNDS):
        for (_, call, _), mine in zip(candidates, samples):
            bk.synchronize(data.stream, library=data.library)
            start = time.perf_counter_ns()
            for _ in range(_CALLS):
                call()
            mine.append((time.perf_counter_ns() - start) / _CALLS)
    bk.synchronize(data.stream, library=data.library)
    medians = [float(np.median(mine)) for mine in samples]
    reference = medians[2] if data.torch is not None else None
    rows = []
    for (name, _, limit), median in zip(candidates, medians):
        share = median / reference if reference and limit else None
        met = None if share is None else share < limit
        rows.append({"call": name, "ns": median, "share_of_torch": share, "bound": limit, "met": met})
    return rows
