# %% Function
import numpy as np

import baracuda as bk

logits = np.array([[2.0, 1.0, 0.5, -1.0]], dtype=np.float32)
print(bk.typical_sampling(logits, typical_p=0.5, seed=7))

# %% Plan
token = bk.empty((1,), bk.i32)
plan = bk.TypicalSamplingPlan.select(None, bk.TypicalSamplingDescriptor(1, 4, typical_p=0.5, seed=7, element=bk.f32))
plan.run(None, bk.workspace(plan), bk.TypicalSamplingArgs(logits=bk.upload(logits), token=token))
print(bk.download(token))
