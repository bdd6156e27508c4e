# %% Function
import numpy as np

import baracuda as bk

w = np.linspace(-2, 2, 64, dtype=np.float32)
codes, absmax = bk.quantize_4bit(w, block_size=32, book="nf4")
print(codes.shape, absmax)

# %% Plan
found, largest = bk.empty((32,), bk.u8), bk.empty((2,))
plan = bk.Quantize4BitPlan.select(None, bk.Quantize4BitDescriptor(64, 32, element=bk.f32))
plan.run(None, None, bk.Quantize4BitArgs(x=bk.upload(w), codes=found, absmax=largest))
print(bk.download(largest))
