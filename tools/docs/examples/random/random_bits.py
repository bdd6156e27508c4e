# %% Function
import numpy as np

import baracuda as bk

print(bk.random.bits(4, seed=0))  # Philox 4x32-10 of the key 0 and the counter 0
print(bk.bits_like(np.zeros(2, np.int64), seed=0))
