# %% Function
import numpy as np

import baracuda as bk

x = np.arange(24, dtype=np.uint8).reshape(1, 2, 4, 3)
mean, std = np.array([0.485, 0.456, 0.406], np.float32), np.array([0.229, 0.224, 0.225], np.float32)
print(bk.pixels_to_planes(x, mean, std))

# %% A part, mirrored, in another dtype
print(bk.pixels_to_planes(x, crop=(0, 1, 2, 2), flip_columns=True, scale=1.0, dtype=np.float16))

# %% Plan
descriptor = bk.PixelsToPlanesDescriptor(1, 2, 4, 3, height=2, width=4, element=bk.f32)
plan = bk.PixelsToPlanesPlan.select(None, descriptor)
y = bk.empty((1, 3, 2, 4), bk.f32)
args = bk.PixelsToPlanesArgs(x=bk.upload(x), mean=bk.upload(mean), std=bk.upload(std), y=y)
plan.run(None, None, args)
print(bk.download(y))
