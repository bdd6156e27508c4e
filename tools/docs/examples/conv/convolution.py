# %% Convolutions by rank
import numpy as np

import baracuda as bk

x = np.arange(32, dtype=np.float32).reshape(1, 4, 4, 2)
weight = np.ones((3, 3, 3, 2), dtype=np.float32)
bias = np.array([0, -100, 10], dtype=np.float32)
print(bk.conv2d(x, weight, bias, padding="same", layout="NHWC", activation="relu")[0, 0])

# %% Causal convolution of each channel
sequence = np.arange(8, dtype=np.float32).reshape(1, 2, 4)
taps = np.array([[[1, 10]], [[1, 100]]], dtype=np.float32)
print(bk.conv1d(sequence, taps, padding=((1, 0),), groups=2))

# %% Function behind all ranks
print(bk.convolution(x, weight, bias, padding=1, padding_after=1, channels_last=True, activation=1)[0, 0])

# %% 8-bit operands
codes = np.arange(32, dtype=np.int8).reshape(1, 2, 4, 4)
signs = np.ones((1, 2, 2, 2), dtype=np.int8)
scale = np.array([0.5], dtype=np.float32)
print(bk.convolution_scaled(codes, signs, scale, alpha=0.25, dtype=bk.f16))
