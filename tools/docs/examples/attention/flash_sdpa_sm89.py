# %% Plan
import numpy as np

import baracuda as bk

tokens = np.ones((1, 3, 2, 8), np.float16)  # batch, tokens, heads, features
q, k = (bk.upload(tokens.transpose(0, 2, 1, 3)) for _ in range(2))  # heads before tokens, without a copy
v = bk.upload(np.arange(6, dtype=np.float16).reshape(1, 2, 3, 1) * np.ones(8, np.float16))
of = {"batch_size": 1, "num_heads": 2, "query_len": 3, "key_len": 3, "d_k": 8, "d_v": 8, "scale": 0.5}
plan = bk.FlashSdpaSm89Plan.select(None, bk.FlashSdpaSm89Descriptor(**of, is_causal=True, element=bk.f16))
y, lse = bk.empty((1, 2, 3, 8), bk.f16), bk.empty((1, 2, 3), bk.f16)
plan.run(None, bk.workspace(plan), bk.FlashSdpaSm89Args(q=q, k=k, v=v, y=y, lse=lse))
print(bk.download(y)[0, :, :, 0])  # means of the first values
