# %% Function
import numpy as np

import baracuda as bk

draft = np.array([[[0.7, 0.2, 0.1], [0.1, 0.8, 0.1]]], dtype=np.float32)
target = np.array([[[0.6, 0.3, 0.1], [0.5, 0.4, 0.1], [0.2, 0.2, 0.6]]], dtype=np.float32)
tokens = np.array([[0, 1]], dtype=np.int32)
print(bk.speculative_sample(draft, tokens, target, seed=7))
print(bk.speculative_sample(draft, tokens, target, by_blocks=True, seed=7))

# %% Plan
found, accepted = bk.empty((1, 3), bk.i32), bk.empty((1,), bk.i32)
plan = bk.SpeculativeSamplePlan.select(None, bk.SpeculativeSampleDescriptor(1, 2, 3, seed=7, element=bk.f32))
draft, tokens, target = (bk.upload(each) for each in (draft, tokens, target))
args = bk.SpeculativeSampleArgs(
    draft_probs=draft, draft_tokens=tokens, target_probs=target, tokens=found, accepted=accepted
)
plan.run(None, bk.workspace(plan), args)
print(bk.download(found), bk.download(accepted))
