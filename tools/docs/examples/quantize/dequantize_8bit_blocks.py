# %% Function
import numpy as np

import baracuda as bk

codes = np.array([0, 128, 255], dtype=np.uint8)
absmax = np.array([2.0], dtype=np.float32)
steps = np.linspace(-1, 1, 256, dtype=np.float32)
print(bk.dequantize_8bit_blocks(codes, absmax, steps))

# %% Plan
y = bk.empty((3,))
plan = bk.Dequantize8BitBlocksPlan.select(None, bk.Dequantize8BitBlocksDescriptor(3, element=bk.f32))
args = bk.Dequantize8BitBlocksArgs(codes=bk.upload(codes), absmax=bk.upload(absmax), map=bk.upload(steps), y=y)
plan.run(None, None, args)
print(bk.download(y))
