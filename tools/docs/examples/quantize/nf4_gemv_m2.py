# %% Plan
import numpy as np

import baracuda as bk

packed = bk.upload(np.array([[0xF0, 0xF7, 0x7F, 0x08]], dtype=np.uint8))  # two rows of four codes
absmax = bk.upload(np.array([[2.0, 1.0], [0.5, 4.0]], dtype=np.float32))  # blocks of 2
y = bk.upload(np.ones((2, 4)), bk.f16)
out = bk.empty((2, 2), bk.f16)
plan = bk.Nf4MmvqMultiMPlan.select(None, bk.Nf4MmvqMultiMDescriptor(2, 4, 2, 2, element=bk.f16))
plan.run(None, None, bk.Nf4MmvqMultiMArgs(weight=packed, absmax=absmax, activations=y, output=out))
print(bk.download(out))
