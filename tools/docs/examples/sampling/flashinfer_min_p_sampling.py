# %% Function
import numpy as np

import baracuda as bk

probs = np.array([[0.5, 0.3, 0.15, 0.05], [0.1, 0.2, 0.3, 0.4]], dtype=np.float32)
token, valid = bk.min_p_sampling_from_probs(probs, 0.5, seed=7)
print(token, valid)

# %% Plan
output, valid = bk.empty((2,), bk.i32), bk.empty((2,), bk.u8)
of = bk.TopKTopPSamplingDescriptor(bk.SamplerKind.MIN_P, 2, 4, min_p=0.5, seed_val=7, element=bk.f32)
plan = bk.TopKTopPSamplingPlan.select(None, of)
plan.run(None, bk.workspace(plan), bk.TopKTopPSamplingArgs(probs=bk.upload(probs), output=output, valid=valid))
print(bk.download(output))
