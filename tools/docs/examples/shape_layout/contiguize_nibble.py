# %% Plan
import numpy as np

import baracuda as bk

to = bk.CastSubByteDescriptor(shape=(2, 4), element=bk.i32, output_element=bk.s4)
x = bk.upload(np.arange(8, dtype=np.int32).reshape(2, 4))
source, dest = bk.empty((2, 4), bk.s4), bk.empty((2, 4), bk.s4)
bk.CastSubBytePlan.select(None, to).run(None, None, bk.CastSubByteArgs(x=x, y=source))
of = bk.ContiguizeDescriptor((2, 4), source_strides=(4, -1), source_offset=3, element=bk.s4)  # rows from their ends
bk.ContiguizePlan.select(None, of).run(None, None, bk.ContiguizeArgs(source=source, dest=dest))
back = bk.CastSubByteDescriptor(shape=(2, 4), element=bk.s4, output_element=bk.i32)
bk.CastSubBytePlan.select(None, back).run(None, None, bk.CastSubByteArgs(x=dest, y=x))
print(bk.download(x))
