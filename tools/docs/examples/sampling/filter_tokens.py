# %% Function
import numpy as np

import baracuda as bk

logits = np.array([[2.0, 1.0, 0.5, -1.0]], dtype=np.float32)
print(np.isfinite(bk.filter_tokens(logits, top_k=3, top_p=0.9)[0]))  # others are -inf
print(bk.filter_tokens(logits, top_k=3, top_p=0.9, normalize=True)[0])

# %% Plan
y = bk.empty((1, 4), bk.f32)
plan = bk.FilterTokensPlan.select(None, bk.FilterTokensDescriptor(1, 4, top_k=2, element=bk.f32))
plan.run(None, bk.workspace(plan), bk.FilterTokensArgs(x=bk.upload(logits), y=y))
print(np.isfinite(bk.download(y)))
