# %% Function
import numpy as np

import baracuda as bk

x = np.array([[[1, 2, 3, 4]]], dtype=np.float32)  # (batch, channels, tokens)
weight = np.array([[10, 1]], dtype=np.float32)  # the last weight is that of the token itself
y, state = bk.causal_conv1d_forward(x, weight)
print(y, state)

# %% Decoding
token = np.array([[5]], dtype=np.float32)  # (batch, channels)
y, state = bk.causal_conv1d_update(token, state, weight)
print(y, state)

# %% Sequences in one row
print(bk.causal_conv1d(x, weight, cu_seqlens=np.array([0, 1, 4], np.int32)))

# %% Gradients
dx, dweight, dbias, dstate = bk.causal_conv1d_backward(np.ones_like(x), x, weight)
print(dx, dweight)
