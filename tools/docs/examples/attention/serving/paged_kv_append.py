# %% Plan
import numpy as np

import baracuda as bk

k_data, v_data = (bk.zeros((3, 1, 2, 4), bk.f32) for _ in range(2))  # pages, heads, slots, features
key, value = (bk.upload(np.full((2, 1, 4), x, np.float32)) for x in (1, 2))  # two tokens
batch_indices, positions = (bk.upload(np.array(x, np.int32)) for x in ([0, 1], [2, 0]))
indices, indptr = (bk.upload(np.array(x, np.int32)) for x in ([1, 2, 0], [0, 2, 3]))  # pages 1 and 2, page 0
of = {"num_heads": 1, "head_dim": 4, "page_size": 2, "num_total_pages": 3, "num_page_ids": 3}
plan = bk.PagedKvAppendPlan.select(None, bk.PagedKvAppendDescriptor(2, 2, **of, element=bk.f32))
args = bk.PagedKvAppendArgs(
    key=key, value=value, batch_indices=batch_indices, positions=positions, indices=indices, indptr=indptr,
    k_data=k_data, v_data=v_data,
)  # fmt: skip
plan.run(None, None, args)
print(bk.download(k_data)[:, 0, :, 0], bk.download(v_data)[:, 0, :, 0], sep="\n")  # slot 0 of page 2, of page 0
