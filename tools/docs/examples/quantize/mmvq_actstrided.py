# %% Plan
import numpy as np

import baracuda as bk

weights = np.zeros(40 + 3 * 34, dtype=np.uint8)  # forty bytes of something else, then three rows of one q8_0 block
rows = weights[40:].reshape(3, 34)
rows[:, :2] = np.array([[0.5], [1.0], [2.0]], dtype=np.float16).view(np.uint8)
rows[:, 2:] = np.arange(32)
columns, output = bk.upload(np.ones((32, 2), dtype=np.float32)), bk.empty((3,), bk.f32)
column = bk.TensorRef(columns.ptr, (32,), bk.f32, strides=(2,))
plan = bk.GgufMmvqPlan.select(
    None, bk.GgufMmvqDescriptor(bk.GgufBlockFormat.Q8_0, nrows=3, ncols=32, w_start_byte_offset=40, element=bk.f32)
)
plan.run(None, None, bk.GgufMmvqArgs(weight=bk.upload(weights), activation=column, output=output))
print(bk.download(output))
