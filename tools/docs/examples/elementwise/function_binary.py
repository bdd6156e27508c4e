# %% Function
import numpy as np

import baracuda as bk

a = np.array([[-2, 0.5, 1], [4, 5.5, -7]], dtype=np.float32)
b = np.array([[2, -1.5, 3]], dtype=np.float32)  # one row, for both rows of a
y = bk.mul(a, b)
print(y)

# %% Its gradient: binary_mul_backward_f32
dy = np.ones_like(y)
print(*bk.mul_backward(dy, a, b))
