# SPDX-License-Identifier: Apache-2.0
"""Tensors that C cannot read are refused with a clear error, on the first call and after a valid one."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import baracuda as bk


@pytest.fixture(autouse=True)
def _on_the_cpu(library):
    if library.backend == "cuda":
        bk.load(backend="cpu")


def freed():
    tensor = torch.ones(3)
    tensor.untyped_storage().resize_(0)
    return tensor


CASES = {
    "fake": (lambda: FakeTensorMode().from_tensor(torch.ones(3)), "x is a FakeTensor, which has no memory"),
    "sparse": (lambda: torch.ones(3).to_sparse(), r"x has layout torch.sparse_coo, must be dense: call to_dense\(\)"),
    "mkldnn": (lambda: torch.ones(3).to_mkldnn(), r"x has layout torch._mkldnn, must be dense: call to_dense\(\)"),
    "nested": (lambda: torch.nested.nested_tensor([torch.ones(3)]), "x is a nested tensor, must be a dense one"),
    "freed": (freed, "x has no memory: its storage was freed"),
}


@pytest.mark.filterwarnings("ignore:.*nested tensors is in prototype")
@pytest.mark.parametrize("name", CASES)
def test_refused_tensors(name):
    make, text = CASES[name]
    with pytest.raises(bk.InvalidProblemError, match=text):
        bk.tanh(make())


def test_transformed_tensors_are_refused():
    with pytest.raises(bk.InvalidProblemError, match=r"x is under a transform of torch.func .*baracuda.torch"):
        torch.vmap(bk.sinh)(torch.ones(2, 3))
