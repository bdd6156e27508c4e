# %% Function
import numpy as np

import baracuda as bk

logits = np.array([[2.0, 1.0, 0.5, -1.0], [0.0, 3.0, 2.5, 1.0]], dtype=np.float32)
token, valid = bk.sample_tokens(logits, temperature=0.8, top_k=3, top_p=0.95, seed=7)
print(token, valid)
seeds = np.array([1, 2], dtype=np.int64)  # a seed for each request: its tokens do not depend on the others
print(bk.sample_tokens(logits, seed_of=seeds, top_p=0.9)[0])

# %% Plan
token, valid = bk.empty((2,), bk.i32), bk.empty((2,), bk.u8)
of = bk.SampleTokensDescriptor(2, 4, temperature=0.8, top_k=3, top_p=0.95, seed=7, element=bk.f32)
plan = bk.SampleTokensPlan.select(None, of)
plan.run(None, bk.workspace(plan), bk.SampleTokensArgs(x=bk.upload(logits), token=token, valid=valid))
print(bk.download(token))
