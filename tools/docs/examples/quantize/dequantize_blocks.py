# %% Function
import numpy as np

import baracuda as bk

block = np.zeros((1, 34), dtype=np.uint8)  # q8_0: a scale and 32 codes
block[0, :2] = np.array([0.5], dtype=np.float16).view(np.uint8)
block[0, 2:6] = [1, 2, 3, 255]
print(bk.dequantize_blocks(block, "q8_0")[0, :5])

# %% Plan
values = bk.empty((1, 32), bk.bf16)
plan = bk.DequantizeBlocksPlan.select(
    None, bk.DequantizeBlocksDescriptor(bk.GgufBlockFormat.Q8_0, 1, 32, element=bk.bf16)
)
plan.run(None, bk.workspace(plan), bk.DequantizeBlocksArgs(x=bk.upload(block), y=values))
print(bk.download(values)[0, :5])
