# %% Function
import numpy as np

import baracuda as bk

print(bk.alibi(np.zeros((1, 2, 3, 3), np.float32), np.array([0.5, 0.25], np.float32))[0, 0])

# %% Plan
scores = bk.zeros((1, 2, 3, 3), bk.f32)  # batch, heads, queries, keys
slopes = bk.upload(np.array([0.5, 0.25], dtype=np.float32))
out = bk.empty(scores.shape, bk.f32)
plan = bk.AlibiPlan.select(None, bk.AlibiDescriptor(1, 2, 3, 3, element=bk.f32))
plan.run(None, None, bk.AlibiArgs(scores=scores, slopes=slopes, out=out))
print(bk.download(out)[0, 0])

# %% Plan of the gradient: alibi_backward_f32
dy = bk.upload(np.tri(3, dtype=np.float32)[None, None].repeat(2, axis=1))
dscores, dslopes = bk.empty(scores.shape, bk.f32), bk.empty((2,), bk.f32)
back = bk.AlibiBackwardPlan.select(None, bk.AlibiBackwardDescriptor(1, 2, 3, 3, element=bk.f32))
back.run(None, bk.workspace(back), bk.AlibiBackwardArgs(dy=dy, dscores=dscores, dslopes=dslopes))
print(bk.download(dslopes))
