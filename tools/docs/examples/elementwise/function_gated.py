# %% Function
import numpy as np

import baracuda as bk

x = np.array([[1, 2, -1, 0.5], [3, 4, 2, -2]], dtype=np.float32)
print(bk.glu(x))

# %% Its gradient: gated_glu_backward_f32
dy = np.ones((2, 2), dtype=np.float32)
print(bk.glu_backward(dy, x))
