# %% Plan
import numpy as np

import baracuda as bk

to = bk.CastSubByteDescriptor(shape=(2, 2), element=bk.i32, output_element=bk.s4)
x, source, dest = bk.upload(np.array([[1, 2], [3, 4]], np.int32)), bk.empty((2, 2), bk.s4), bk.zeros((3, 4), bk.s4)
bk.CastSubBytePlan.select(None, to).run(None, None, bk.CastSubByteArgs(x=x, y=source))
of = bk.WriteSliceDescriptor((3, 4), (2, 2), ranges=((1, 3), (2, 4)), element=bk.s4)
bk.WriteSlicePlan.select(None, of).run(None, None, bk.WriteSliceArgs(dest=dest, source=source))
back, y = bk.CastSubByteDescriptor(shape=(3, 4), element=bk.s4, output_element=bk.i32), bk.empty((3, 4), bk.i32)
bk.CastSubBytePlan.select(None, back).run(None, None, bk.CastSubByteArgs(x=dest, y=y))
print(bk.download(y))
