# %% Function
import numpy as np

import baracuda as bk

x = np.full((1, 32), 1e9, dtype=np.float32)  # too large for an f16 scale
print(bk.quantize_q8_1_wide(x)[0, :4].view(np.float32))

# %% Plan
out = bk.empty((1, 36), bk.u8)
plan = bk.QuantizeActivationsWidePlan.select(None, bk.QuantizeActivationsWideDescriptor(1, 32, element=bk.f32))
plan.run(None, bk.workspace(plan), bk.QuantizeActivationsWideArgs(x=bk.upload(x), y=out))
print(bk.download(out)[0, :4].view(np.float32))
