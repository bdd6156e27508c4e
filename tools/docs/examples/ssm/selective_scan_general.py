# %% Function
import numpy as np

import baracuda as bk

u = np.array([[[1, 0, 0, 2]]], dtype=np.float32)  # (batch, channels, tokens)
delta, a = np.ones_like(u), np.array([[-0.5]], np.float32)
b = c = np.ones((1, 1, 4), np.float32)  # (batch, states, tokens)
y, state = bk.selective_scan_forward(u, delta, a, b, c)
print(y, state)

# %% From a state
print(bk.selective_scan(u, delta, a, b, c, initial_state=state))

# %% Gradients
du, ddelta, da, db, dc, *_ = bk.selective_scan_backward(np.ones_like(u), u, delta, a, b, c)
print(du, da)
