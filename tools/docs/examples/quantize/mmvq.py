# %% Plan
import numpy as np

import baracuda as bk

weights = np.zeros((3, 34), dtype=np.uint8)  # three rows of one q8_0 block: a scale and 32 codes
weights[:, :2] = np.array([[0.5], [1.0], [2.0]], dtype=np.float16).view(np.uint8)
weights[:, 2:] = np.arange(32)
activation, output = bk.upload(np.ones(32, dtype=np.float32)), bk.empty((3,), bk.f32)
plan = bk.GgufMmvqPlan.select(None, bk.GgufMmvqDescriptor(bk.GgufBlockFormat.Q8_0, nrows=3, ncols=32, element=bk.f32))
plan.run(None, None, bk.GgufMmvqArgs(weight=bk.upload(weights.reshape(-1)), activation=activation, output=output))
print(bk.download(output))
