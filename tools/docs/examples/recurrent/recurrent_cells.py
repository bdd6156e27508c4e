# %% Function
import numpy as np

import baracuda as bk

rng = np.random.default_rng(0)
gates = rng.standard_normal((5, 2, 1, 12)).astype(np.float32)
w_hh = rng.standard_normal((1, 12, 3)).astype(np.float32)
y, h_n, c_n = bk.recurrent_cells(gates, w_hh, lengths=np.array([5, 3], dtype=np.int32))
print(y[:, 1, 0])

# %% Gradient
y, h_n, c_n, reserve = bk.recurrent_cells_forward(gates, w_hh)
dgates, dw_hh, db_hh, dw_hr, dh0, dc0 = bk.recurrent_cells_backward(np.ones_like(y), w_hh, y, reserve)
print(dw_hh)

# %% Layers
x = rng.standard_normal((5, 2, 4)).astype(np.float32)
w_ih, bias = rng.standard_normal((12, 4)).astype(np.float32), np.zeros(12, dtype=np.float32)
y, h_n, c_n = bk.lstm(x, [w_ih, w_hh[0], bias, bias])
print(y.shape)
y, h_n = bk.gru(x, [w_ih[:9], w_hh[0, :9]], has_biases=False)
y, h_n = bk.rnn(x, [w_ih[:3], w_hh[0, :3]], has_biases=False, nonlinearity="relu")

# %% Plan
plan = bk.RecurrentCellsPlan.select(None, bk.RecurrentCellsDescriptor(5, 2, 1, 3, 3, bk.CellKind.LSTM, element=bk.f32))
given = {"gates": bk.upload(gates), "w_hh": bk.upload(w_hh)}
y, h_n, reserve = bk.empty((5, 2, 1, 3), bk.f32), bk.empty((1, 2, 3), bk.f32), bk.empty((5, 2, 1, 15), bk.f32)
plan.run(None, bk.workspace(plan), bk.RecurrentCellsArgs(**given, y=y, h_n=h_n, reserve=reserve))
print(bk.download(h_n))

# %% Plan of the gradient
descriptor = bk.RecurrentCellsBackwardDescriptor(5, 2, 1, 3, 3, bk.CellKind.LSTM, element=bk.f32)
plan = bk.RecurrentCellsBackwardPlan.select(None, descriptor)
dgates = bk.empty((5, 2, 1, 12), bk.f32)
args = bk.RecurrentCellsBackwardArgs(dy=y, w_hh=given["w_hh"], y=y, reserve=reserve, dgates=dgates)
plan.run(None, bk.workspace(plan), args)
print(bk.download(dgates)[0, 0, 0])
