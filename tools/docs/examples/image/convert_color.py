# %% Function
import numpy as np

import baracuda as bk

x = np.array([1, 0.5, 0.25, 0, 1, 0.25], dtype=np.float32).reshape(1, 3, 1, 2)  # two pixels
print(bk.convert_color(x, "rgb_to_gray"), bk.convert_color(x, "rgb_to_hsv"))

# %% Bytes with adjacent channels
pixel = np.array([[[200, 100, 50]]], dtype=np.uint8)
ycc = bk.convert_color(pixel, "rgb_to_ycc709", channels_last=True)
print(ycc, bk.convert_color(ycc, "ycc709_to_rgb", channels_last=True))

# %% Plan
descriptor = bk.ConvertColorDescriptor(bk.ColorConversion.RGB_TO_BGR, 1, 2, element=bk.f32)
plan = bk.ConvertColorPlan.select(None, descriptor)
y = bk.empty((1, 3, 2), bk.f32)
plan.run(None, None, bk.ConvertColorArgs(x=bk.upload(x.reshape(1, 3, 2)), y=y))
print(bk.download(y))
