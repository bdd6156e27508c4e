# %% Function
import numpy as np

import baracuda as bk

codes = np.array([0xF7, 0x08], dtype=np.uint8)
absmax = np.array([2.0, 4.0], dtype=np.float32)
print(bk.dequantize_4bit(codes, absmax, block_size=2))

# %% Plan
y = bk.empty((4,))
plan = bk.Dequantize4BitPlan.select(None, bk.Dequantize4BitDescriptor(4, 2, element=bk.f32))
plan.run(None, None, bk.Dequantize4BitArgs(codes=bk.upload(codes), absmax=bk.upload(absmax), y=y))
print(bk.download(y))
