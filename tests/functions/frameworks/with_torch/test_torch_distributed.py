# SPDX-License-Identifier: Apache-2.0
"""Collectives of PyTorch's tensors on ranks of the CPU: results are tensors of the same dtype."""

import pytest
import torch

from distributed import ranks

pytestmark = pytest.mark.host_arrays


@pytest.fixture(scope="module", autouse=True)
def _ended():
    yield
    ranks.end_all()


def collectives(comm):
    x = torch.full((3,), comm.rank + 1.0)
    y = comm.all_reduce(x)
    z = comm.all_gather(torch.ones(comm.rank + 1, 2, dtype=torch.bfloat16, requires_grad=True))
    comm.all_reduce(x, "max", out=x)
    return type(y).__name__, y.tolist(), x.tolist(), list(z.shape), str(z.dtype)


def test_collectives():
    assert ranks.run(2, collectives) == [("Tensor", [3.0] * 3, [2.0] * 3, [3, 2], "torch.bfloat16")] * 2
