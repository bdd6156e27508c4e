# %% Function
import numpy as np

import baracuda as bk

rng = np.random.default_rng(0)
x = rng.standard_normal((4, 512)).astype(np.float32)
importance = rng.random(512, dtype=np.float32)  # mean squares of the activations of each column
blocks = bk.quantize_blocks(x, "q4_K", importance)
error = bk.dequantize_blocks(blocks, "q4_K") - x
print(blocks.shape, np.sqrt(np.mean(error**2)) < 0.1)

# %% Plan
out = bk.empty((4, 288), bk.u8)
plan = bk.QuantizeBlocksPlan.select(None, bk.QuantizeBlocksDescriptor(bk.GgufBlockFormat.Q4_K, 4, 512, element=bk.f32))
plan.run(None, bk.workspace(plan), bk.QuantizeBlocksArgs(x=bk.upload(x), y=out))
print(bk.download(out).shape)
