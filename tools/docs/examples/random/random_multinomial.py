# %% Function
import numpy as np

import baracuda as bk

weights = np.array([1, 0, 2, 5], np.float32)
print(bk.random.multinomial(weights, 10, True, generator=bk.Generator(7)))
print(bk.multinomial_of_cdf(np.cumsum(weights), 10, seed=7))
