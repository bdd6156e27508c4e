# %% Plan
import numpy as np

import baracuda as bk

scales = np.arange(130 * 3, dtype=np.uint8).reshape(130, 3)
tiles, back = bk.empty((256, 4), bk.u8), bk.empty((130, 3), bk.u8)
plan = bk.SwizzleScalesPlan.select(None, bk.SwizzleScalesDescriptor(130, 3, element=bk.u8))
plan.run(None, None, bk.SwizzleScalesArgs(x=bk.upload(scales), y=tiles))
way_back = bk.SwizzleScalesPlan.select(None, bk.SwizzleScalesDescriptor(130, 3, True, element=bk.u8))
way_back.run(None, None, bk.SwizzleScalesArgs(x=tiles, y=back))
print((bk.download(back) == scales).all())
