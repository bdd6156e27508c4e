# %% Plan
import numpy as np

import baracuda as bk

columns = np.ones((1, 3, 4), dtype=np.float32)
descriptor = bk.Col2Im1dDescriptor(1, 1, 6, 3, element=bk.f32)
image = bk.zeros(descriptor.image_shape, bk.f32)  # what it holds is added to
plan = bk.Col2Im1dPlan.select(None, descriptor)
plan.run(None, None, bk.Col2Im1dArgs(input=bk.upload(columns), output=image))
print(bk.download(image))

# %% Function of any number of axes
print(bk.col2im(columns, output_size=6, kernel_size=3))
