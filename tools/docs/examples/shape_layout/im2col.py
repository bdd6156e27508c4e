# %% Function
import numpy as np

import baracuda as bk

images = np.arange(1, 10, dtype=np.float32).reshape(1, 1, 3, 3)
print(bk.im2col(images, kernel_size=2))

# %% Plan
x, y = bk.upload(images), bk.empty((1, 4, 4), bk.f32)
of = {"input_shape": (1, 1, 3, 3), "kernel_size": (2, 2), "dilation": (1, 1), "padding": (0, 0), "steps": (1, 1)}
bk.Im2ColPlan.select(None, bk.Im2ColDescriptor(**of, element=bk.f32)).run(None, None, bk.Im2ColArgs(x=x, y=y))
print(bk.download(y))
