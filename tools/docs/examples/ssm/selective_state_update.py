# %% Function
import numpy as np

import baracuda as bk

state = np.array([[[4, 8]]], dtype=np.float32)  # (batch, channels, states)
x, dt = np.array([[1]], np.float32), np.array([[1]], np.float32)
a = np.array([[-0.5, -1]], np.float32)
b, c = np.array([[1, 1]], np.float32), np.array([[1, 0]], np.float32)
y, state = bk.selective_state_update(state, x, dt, a, b, c)
print(y, state)
