# %% Function
import numpy as np

import baracuda as bk

x = np.arange(8, dtype=np.float32).reshape(1, 4, 1, 2)
print(bk.pixel_shuffle(x, 2))

# %% Plan
y = bk.empty((1, 1, 2, 4), bk.f32)
plan = bk.PixelShufflePlan.select(None, bk.PixelShuffleDescriptor(1, 1, 1, 2, 2, element=bk.f32))
plan.run(None, None, bk.PixelShuffleArgs(input=bk.upload(x), output=y))
print(bk.download(y))
