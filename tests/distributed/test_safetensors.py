# SPDX-License-Identifier: Apache-2.0
"""Several ranks resume the file that one rank has saved."""

import baracuda as bk
from baracuda.demo.checkpoint import save
from baracuda.demo.tokenizer import Tokenizer
from demo import small
from distributed import ranks, training
from distributed.test_checkpoints import pytestmark as pytestmark


def test_one_rank_to_several(tmp_path):
    path = tmp_path / "model.safetensors"
    alone = training.trainer(bk.default_library())
    save(path, alone, Tokenizer([(65, 66)]), small.run(alone, 3))
    found = ranks.run(2, training.resumed, {"data": 2, "zero": 3}, str(path), {})[0]
    assert training.largest_difference(found, training.alone()) < 1e-4
