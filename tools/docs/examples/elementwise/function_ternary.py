# %% Function
import numpy as np

import baracuda as bk

a, b, c = (np.array(row, dtype=np.float32) for row in ([-2, 0.5, 4], [-1, -1, 1], [1, 2, 3]))
print(bk.clamp(a, b, c))

# %% Its gradient: ternary_clamp_backward_f32
dy = np.ones_like(a)
print(*bk.clamp_backward(dy, a, b, c))
