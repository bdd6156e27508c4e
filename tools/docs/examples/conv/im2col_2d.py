# %% Plan
import numpy as np

import baracuda as bk

x = np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3)
descriptor = bk.Im2Col2dDescriptor(1, 1, 3, 3, 2, 2, element=bk.f32)
columns = bk.empty(descriptor.columns_shape, bk.f32)
plan = bk.Im2Col2dPlan.select(None, descriptor)
plan.run(None, None, bk.Im2Col2dArgs(input=bk.upload(x), output=columns))
print(bk.download(columns))

# %% Function of any number of axes
print(bk.im2col(x, kernel_size=2))
