# %% Function
import numpy as np

import baracuda as bk

x = np.ones((1, 4, 2, 3), np.float32)  # (batch, tokens, heads, head_dim)
dt = np.full((1, 4, 2), 0.5, np.float32)
a = np.array([-1, -0.25], np.float32)
b = c = np.ones((1, 4, 1, 8), np.float32)  # one group of heads, 8 states
y, state = bk.ssd_scan_forward(x, dt, a, b, c)
print(y[0, :, :, 0], state.shape)

# %% Sequences in one row, from states
states = np.zeros((2, 2, 3, 8), np.float32)
y = bk.ssd_scan(x, dt, a, b, c, initial_state=states, cu_seqlens=np.array([0, 1, 4], np.int32))
print(y[0, :, :, 0])

# %% Gradients
dx, ddt, da, *_ = bk.ssd_scan_backward(np.ones_like(x), x, dt, a, b, c)
print(ddt, da)
