# %% Function
import numpy as np

import baracuda as bk

x = np.array([-2, -0.5, 0.25, 1.5, 3], dtype=np.float32)
y = bk.gelu(x)
print(y)

# %% Its gradient: unary_gelu_backward_f32
dy = np.ones_like(x)
print(bk.gelu_backward(dy, x))
