# %% Plan
import numpy as np

import baracuda as bk

rng = np.random.default_rng(0)
k_data, v_data = (bk.zeros((3, 1, 2, 4), bk.s8) for _ in range(2))  # pages, heads, slots, elements
k_scales, v_scales = (bk.zeros((3, 1, 2), bk.f32) for _ in range(2))
rows = rng.standard_normal((2, 2, 1, 4), np.float32)  # keys and values of two tokens
batch_indices, positions = (bk.upload(np.array(x, np.int32)) for x in ([0, 1], [2, 0]))
indices, indptr = (bk.upload(np.array(x, np.int32)) for x in ([1, 2, 0], [0, 2, 3]))  # pages 1 and 2, page 0
of = {"num_heads": 1, "head_dim": 4, "page_size": 2, "num_total_pages": 3, "num_page_ids": 3}
described = bk.PagedKvAppendQuantizedDescriptor(2, 2, **of, element=bk.f32)
plan = bk.PagedKvAppendQuantizedPlan.select(None, described)
args = bk.PagedKvAppendQuantizedArgs(
    key=bk.upload(rows[0]), value=bk.upload(rows[1]), batch_indices=batch_indices, positions=positions,
    indices=indices, indptr=indptr, k_data=k_data, v_data=v_data, k_scales=k_scales, v_scales=v_scales,
)  # fmt: skip
plan.run(None, None, args)
stored = bk.download(k_data) * bk.download(k_scales)[..., None]
print(np.abs(stored[2, 0, 0] - rows[0, 0, 0]).max() < np.abs(rows[0, 0]).max() / 254)  # slot 0 of page 2
