# %% Function
import numpy as np

import baracuda as bk

frame = np.array([[16, 235], [126, 126], [128, 128]], dtype=np.uint8)  # two rows of luma, and a pair (Cb, Cr)
print(bk.nv12_to_rgb(frame), bk.nv12_to_rgb(frame, dtype=np.float16))

# %% Plan
plan = bk.Nv12ToRgbPlan.select(None, bk.Nv12ToRgbDescriptor(1, 2, 2, element=bk.u8))
y = bk.empty((1, 3, 2, 2), bk.u8)
plan.run(None, None, bk.Nv12ToRgbArgs(x=bk.upload(frame[None]), y=y))
print(bk.download(y))
