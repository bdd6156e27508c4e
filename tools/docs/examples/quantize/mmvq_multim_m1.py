# %% Plan
import numpy as np

import baracuda as bk

weights = np.zeros((3, 34), dtype=np.uint8)  # three rows of one q8_0 block: a scale and 32 codes
weights[:, :2] = np.array([[0.5], [1.0], [2.0]], dtype=np.float16).view(np.uint8)
weights[:, 2:] = np.arange(32)
activations, output = bk.upload(np.ones((11, 32)), bk.bf16), bk.empty((11, 3), bk.f32)
plan = bk.GgufMmvqMultiMPlan.select(
    None, bk.GgufMmvqMultiMDescriptor(bk.GgufBlockFormat.Q8_0, nrows=3, ncols=32, m=11, element=bk.bf16)
)
args = bk.GgufMmvqMultiMArgs(weight=bk.upload(weights.reshape(-1)), activations=activations, output=output)
plan.run(None, bk.empty((plan.workspace_size,), bk.u8), args)  # chunks of 8, 2 and 1 rows
print(bk.download(output)[0])
