# SPDX-License-Identifier: Apache-2.0
"""Checkpoints go from any layout to any other, and a fault while one is written leaves the last one whole."""

import json

import numpy as np
import pytest

import baracuda as bk
from baracuda.demo.checkpoint import load
from baracuda.distributed import checkpoint as sharded
from baracuda.distributed.errors import CheckpointError
from baracuda.distributed.mesh import Layout, Split
from demo import small
from distributed import ranks, training

LAYOUTS = [
    {"data": 2, "zero": 3}, {"tensor": 2}, {"data": 2, "tensor": 2, "zero": 1}, {"context": 2, "zero": 2},
]  # fmt: skip
pytestmark = pytest.mark.needs_ops(
    "add_rms_norm_f32", "attention_f32", "merge_attention_states_f32", "binary_add_f32", "cast_f32_bf16", "fill_f32",
    "embedding_i64idx_f32", "gated_swiglu_f32", "gemm_dense_f32", "loss_flce_per_row_f32", "optim_adam_f32",
    "rope_apply_thd_half_f32", "reduce_logsumexp_f32", "random_advance",
)  # fmt: skip


def size_of(layout):
    return Layout(**layout).size


@pytest.mark.parametrize(("number", "dtype"), [(0, bk.f32), (1, bk.bf16), (2, bk.f32), (3, bk.bf16)])
def test_from_one_layout_to_another(tmp_path, number, dtype):
    """bf16 losses differ by the order of sums in 16 bits; masters are f32."""
    before, after = LAYOUTS[number], LAYOUTS[(number + 1) % len(LAYOUTS)]
    changes = {"dtype": dtype}
    want = training.alone(**changes)
    ranks.run(size_of(before), training.saved, before, str(tmp_path), 3, changes)
    found = ranks.run(size_of(after), training.resumed, after, str(tmp_path), changes)
    assert training.largest_difference(found[0], want) < (1e-4 if dtype is bk.f32 else 0.05)


@pytest.mark.parametrize("dtype", [bk.f32, bk.bf16], ids=str)
def test_the_same_layout_goes_on_bit_by_bit(tmp_path, dtype):
    layout, changes = {"data": 2, "zero": 2}, {"dtype": dtype}
    whole = ranks.run(2, training.losses, layout, changes)[0][0]
    ranks.run(2, training.saved, layout, str(tmp_path), 3, changes)
    assert ranks.run(2, training.resumed, layout, str(tmp_path), changes)[0] == whole


def test_several_ranks_to_one(tmp_path):
    library = bk.default_library()
    ranks.run(2, training.saved, LAYOUTS[1], str(tmp_path / "folder"), 3, {})
    alone = training.trainer(library)
    found = load(tmp_path / "folder")
    found.restore(alone)
    losses = found.losses + small.run(alone, training.STEPS - found.step)
    assert training.largest_difference(losses, training.alone()) < 1e-4


def test_a_rank_that_dies_leaves_the_last_checkpoint(tmp_path):
    layout = {"data": 3, "zero": 2}
    found = ranks.outcomes(3, training.dies_while_saving, layout, str(tmp_path), {"batch": 3})
    assert [found[0], found[2]] == ["RankFailedError"] * 2
    assert sharded.load(tmp_path).step == 2
    resumed = ranks.run(2, training.resumed, {"tensor": 2}, str(tmp_path), {"batch": 3})
    assert resumed[0] == resumed[1]


def written(comm, folder, steps):
    whole = np.arange(24, dtype=np.float32).reshape(4, 6)
    split = Split(1, blocks=1)
    mine = split.take(whole, comm.rank, comm.size).reshape(-1)
    for step in steps:
        ranges = [
            sharded.Range("w", (4, 6), split, comm.rank, comm.size, start, mine[start : start + 5] + step)
            for start in range(0, len(mine), 5)
        ]
        sharded.save(comm, folder, step, ranges, {"note": step})


def test_damage_is_found(tmp_path):
    ranks.run(2, written, tmp_path, [1, 2, 3])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000002", "step-00000003"]
    whole = np.arange(24, dtype=np.float32).reshape(4, 6)
    reader = sharded.load(tmp_path)
    assert (reader.step, reader.metadata, list(reader)) == (3, {"note": 3}, ["w"])
    np.testing.assert_array_equal(reader["w"], whole + 3)
    last = tmp_path / "step-00000003"
    data = bytearray((last / "rank-00001.bin").read_bytes())
    data[7] ^= 1
    (last / "rank-00001.bin").write_bytes(data)
    with pytest.raises(CheckpointError, match="checksum"):
        sharded.load(tmp_path)["w"]
    (last / "rank-00001.bin").write_bytes(data[:-1])  # found at once, and the step before is taken
    assert sharded.load(tmp_path).step == 2
    index = tmp_path / "step-00000002" / "rank-00000.json"
    index.write_text(json.dumps(json.loads(index.read_text())[:1]))
    with pytest.raises(CheckpointError, match=r"no whole checkpoint.*damaged"):
        sharded.load(tmp_path)


def test_splits():
    whole = np.arange(48).reshape(4, 12)
    for split in (Split(), Split(0), Split(1), Split(1, 2), Split(0, 2)):
        parts = [split.take(whole, rank, 2) for rank in range(2)]
        assert parts[0].shape == split.shape(whole.shape, 2)
        np.testing.assert_array_equal(split.combine(parts), whole)
    with pytest.raises(bk.InvalidProblemError, match="cannot be divided"):
        Split(1, 2).shape((4, 12), 5)
