# %% Function
import numpy as np

import baracuda as bk

rng = bk.Generator(7)
print(bk.random.log_normal((2, 3), 0, 0.5, generator=rng))
print(bk.random.log_normal((2, 3), 0, 0.5, generator=rng))  # goes on

x = np.zeros((2, 3), np.float32)
print(bk.log_normal_like(x, stddev=0.5, seed=7))  # the start of the stream of 7, as above
