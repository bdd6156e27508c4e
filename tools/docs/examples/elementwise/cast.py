# %% Function
import numpy as np

import baracuda as bk

print(bk.cast(np.array([1.7, -1.7, 300, np.nan], dtype=np.float32), bk.i8))

# %% Plan
x = bk.upload(np.array([1.7, -1.7, 300, np.nan], dtype=np.float32))
y = bk.empty(x.shape, bk.i8)
plan = bk.CastPlan.select(None, bk.CastDescriptor(shape=x.shape, element=bk.f32, output_element=bk.i8))
plan.run(None, None, bk.CastArgs(x=x, y=y))
print(bk.download(y))  # truncated, then bounded by the range of i8

# %% Plan, to 4 bits
y = bk.empty(x.shape, bk.s4)
of = bk.CastSubByteDescriptor(shape=x.shape, element=bk.f32, output_element=bk.s4)
bk.CastSubBytePlan.select(None, of).run(None, None, bk.CastSubByteArgs(x=x, y=y))
back = bk.empty(x.shape, bk.i32)
of = bk.CastSubByteDescriptor(shape=x.shape, element=bk.s4, output_element=bk.i32)
bk.CastSubBytePlan.select(None, of).run(None, None, bk.CastSubByteArgs(x=y, y=back))
print(bk.download(back))  # rounded, then bounded by -8 and 7
