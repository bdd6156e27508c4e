# SPDX-License-Identifier: Apache-2.0
"""Host times of `python -m tools.bench --sweep`: PyTorch's call computes the same as baracuda's."""

import torch

from tools.bench.functions import host_sweeps


def test_host_calls_agree(library):
    for name, calls in host_sweeps(library, torch).items():
        assert name.startswith("host time of ") and list(calls) == sorted(calls)
        for ours, theirs in (calls[16], calls[4096]):
            assert torch.allclose(torch.as_tensor(ours()), theirs(), atol=1e-5), name
