# %% Plan
import numpy as np

import baracuda as bk

probs = bk.upload(np.array([[0.5, 0.3, 0.15, 0.05], [0.1, 0.2, 0.3, 0.4]], dtype=np.float32))
top_k = bk.upload(np.array([1, 2], dtype=np.int32))
output = bk.empty((2,), bk.i32)
plan = bk.PerRowSamplingPlan.select(None, bk.PerRowSamplingDescriptor(bk.PerRowSampler.TOP_K, 2, 4, element=bk.f32))
plan.run(None, bk.workspace(plan), bk.PerRowSamplingArgs(top_k_arr=top_k, probs=probs, output=output))
print(bk.download(output))
