# %% Function
import numpy as np

import baracuda as bk

y = np.linspace(0, 1, 12, dtype=np.float32).reshape(1, 3, 2, 2)
print(bk.planes_to_pixels(y))

# %% Plan
plan = bk.PlanesToPixelsPlan.select(None, bk.PlanesToPixelsDescriptor(1, 3, 2, 2, element=bk.f32))
x = bk.empty((1, 2, 2, 3), bk.u8)
plan.run(None, None, bk.PlanesToPixelsArgs(y=bk.upload(y), x=x))
print(bk.download(x))
