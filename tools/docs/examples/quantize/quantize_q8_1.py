# %% Function
import numpy as np

import baracuda as bk

x = np.linspace(-1, 1, 32, dtype=np.float32).reshape(1, 32)
blocks = bk.quantize_q8_1(x)
print(blocks.shape, blocks[0, 4:8].view(np.int8))
print(bk.dequantize_blocks(blocks, "q8_1")[0, :4])

# %% Plan
out = bk.empty((1, 36), bk.u8)
plan = bk.QuantizeActivationsPlan.select(None, bk.QuantizeActivationsDescriptor(1, 32, element=bk.f32))
plan.run(None, bk.workspace(plan), bk.QuantizeActivationsArgs(x=bk.upload(x), y=out))
print(bk.download(out)[0, 4:8])
