# %% Function
import numpy as np

import baracuda as bk

x = np.linspace(-1, 4, 300, dtype=np.float32)
steps = np.linspace(-1, 1, 256, dtype=np.float32)
codes, absmax = bk.quantize_8bit_blocks(x, steps)
print(codes[:3], absmax)

# %% Plan
found, largest = bk.empty((300,), bk.u8), bk.empty((2,))
plan = bk.Quantize8BitBlocksPlan.select(None, bk.Quantize8BitBlocksDescriptor(300, element=bk.f32))
plan.run(None, None, bk.Quantize8BitBlocksArgs(x=bk.upload(x), map=bk.upload(steps), codes=found, absmax=largest))
print(bk.download(largest))
