# %% Plan
import numpy as np

import baracuda as bk

q = bk.upload(np.ones((1, 2, 8), np.float16))  # one sequence, heads, features
k_data = bk.upload(np.ones((2, 1, 4, 8), np.float32), bk.ElementKind.FP8_E4M3)  # pages, heads, slots, features
values = np.arange(8, dtype=np.float32).reshape(2, 1, 4, 1) * np.ones(8, np.float32)
v_data = bk.upload(values, bk.ElementKind.FP8_E4M3)
of = {"num_qo_heads": 2, "num_kv_heads": 1, "head_dim": 8, "page_size": 4, "num_total_pages": 2, "num_page_ids": 2}
described = bk.BatchPagedDecodeFp8Descriptor(
    1, **of, sm_scale=8**-0.5, element=bk.f16, kv_element=bk.ElementKind.FP8_E4M3
)
plan = bk.BatchPagedDecodeFp8Plan.select(None, described)
o = bk.empty((1, 2, 8), bk.f16)
pages, starts, last = (bk.upload(np.array(x, np.int32)) for x in ([1, 0], [0, 2], [1]))
args = bk.BatchPagedDecodeFp8Args(
    q=q, k_data=k_data, v_data=v_data, indices=pages, indptr=starts, last_page_len=last, o=o
)
plan.run(None, bk.workspace(plan), args)
print(bk.download(o)[0, 0])  # the mean of 4, 5, 6 and 7, in page 1, and of 0
