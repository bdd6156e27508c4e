# %% Plan
import numpy as np

import baracuda as bk

log_probs = bk.upload(np.log(np.full((4, 2, 3), 1 / 3, np.float32)))  # 4 frames, 2 samples, 3 classes
targets, lengths = bk.upload(np.array([[1, 2], [2, 0]])), bk.upload(np.array([4, 3]))
labels = bk.upload(np.array([2, 1]))
of = {"max_time": 4, "batch_size": 2, "num_classes": 3, "max_target_len": 2, "blank": 0, "zero_infinity": 0}
descriptor = bk.CtcLossDescriptor(**of, reduction=bk.LossReduction.NONE, element=bk.f32)
plan = bk.CtcLossPlan.select(None, descriptor)
alpha, loss = bk.empty((4, 2, 5), bk.f32), bk.empty(2, bk.f32)
args = bk.CtcLossArgs(
    log_probs=log_probs, targets=targets, input_lengths=lengths, target_lengths=labels, alpha=alpha, loss=loss
)
each = bk.workspace(plan)  # the loss of each sample, which the gradient reads
plan.run(None, each, args)
print(bk.download(loss))
