# %% Plan
import numpy as np

import baracuda as bk

probs = bk.upload(np.array([[0.5, 0.3, 0.15, 0.05], [0.1, 0.2, 0.3, 0.4]], dtype=np.float32))
top_p = bk.upload(np.array([0.5, 0.9], dtype=np.float32))
output = bk.empty((2,), bk.i32)
plan = bk.PerRowSamplingPlan.select(None, bk.PerRowSamplingDescriptor(bk.PerRowSampler.TOP_P, 2, 4, element=bk.f32))
plan.run(None, bk.workspace(plan), bk.PerRowSamplingArgs(top_p_arr=top_p, probs=probs, output=output))
print(bk.download(output))
