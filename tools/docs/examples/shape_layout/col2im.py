# %% Function
import numpy as np

import baracuda as bk

columns = np.arange(1, 17, dtype=np.float32).reshape(1, 4, 4)
print(bk.col2im(columns, output_size=(3, 3), kernel_size=2))

# %% Plan
dy, dx = bk.upload(columns), bk.empty((1, 1, 3, 3), bk.f32)
of = {"input_shape": (1, 1, 3, 3), "kernel_size": (2, 2), "dilation": (1, 1), "padding": (0, 0), "steps": (1, 1)}
bk.Col2ImPlan.select(None, bk.Col2ImDescriptor(**of, element=bk.f32)).run(None, None, bk.Col2ImArgs(dy=dy, dx=dx))
print(bk.download(dx))
