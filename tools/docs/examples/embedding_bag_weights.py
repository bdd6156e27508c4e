# %% Gradient: embedding_bag_weights_backward_f32
import numpy as np

import baracuda as bk

indices, offsets = np.array([0, 2, 3, 3, 1]), np.array([0, 2, 2], np.int32)  # bags of 2, 0 and 3 indices
weight, dout = np.arange(8, dtype=np.float32).reshape(4, 2), np.ones((3, 2), np.float32)
print(bk.embedding_bag_weights_backward(dout, weight, indices, offsets))
