# SPDX-License-Identifier: Apache-2.0
"""Layers of an LSTM and a GRU through time, beside those of PyTorch, which also make the product of the inputs."""

import numpy as np

from tools.bench.check import compare, rows
from tools.bench.record import Bench, Bound, Operand, Sweep

GATES, NAMES = {2: 3, 4: 4}, {2: "gru", 4: "lstm"}


def torch_layer(torch, t, scalars):
    name = NAMES[scalars["cell"]]
    hidden = scalars["hidden"]
    gates = t["gates"]
    layer = getattr(torch.nn, name.upper())(hidden, hidden).to(gates.device, gates.dtype)
    x = gates[:, :, 0, :hidden].contiguous()

    def call():
        with torch.no_grad():
            return layer(x)

    return call


def check_first(problem):
    """The first token, whose state begins with 0."""
    s = problem.bench.scalars
    if s["cell"] != 4 or problem.bench.row != "recurrent_cells_{T}":
        return ""
    x = rows(problem, "gates", [0])[0] + rows(problem, "b_hh", [0])[0]
    i, _, g, o = np.split(x, 4)
    want = np.tanh(np.tanh(g) / (1 + np.exp(-i))) / (1 + np.exp(-o))
    wrong = compare(problem, rows(problem, "y", [0])[0], want, 4.0)
    return f"y[0] {wrong}" if wrong else ""


def layer(cell, seqlen, batch, hidden, backward=False, dtypes=("bf16", "f32")):
    gates = GATES[cell] * hidden
    saved = Operand((seqlen, batch, 1, gates + hidden), "probability" if backward else "empty")
    weights = Operand((1, gates, hidden), lambda rng: rng.standard_normal((1, gates, hidden)) / hidden**0.5)
    scalars = {
        "seqlen": seqlen, "batch": batch, "directions": 1, "hidden": hidden, "outputs": hidden, "cell": cell,
        "reverse": 0,
    }  # fmt: skip
    y = Operand((seqlen, batch, 1, hidden), "normal")
    row = f"recurrent_cells{'_backward' * backward}_{{T}}"
    name = f"{NAMES[cell]}{' backward' * backward} {seqlen} x {batch}, {hidden}"
    if backward:
        return Bench(
            name=name, row=row, dtypes=("f32",), check=lambda problem: "", workspace=True, scalars=scalars,
            arrays={
                "dy": y, "w_hh": weights, "y": y, "reserve": saved, "dgates": Operand((seqlen, batch, 1, gates)),
                "dw_hh": Operand(weights.shape), "db_hh": Operand((1, gates)),
            },
        )  # fmt: skip
    return Bench(
        name=name, row=row, dtypes=dtypes, check=check_first, workspace=True, scalars=scalars, torch=(torch_layer,),
        bounds=(Bound("peer", 1.0),),
        arrays={
            "gates": Operand((seqlen, batch, 1, gates), "normal"), "w_hh": weights,
            "b_hh": Operand((1, gates), "normal"), "y": Operand((seqlen, batch, 1, hidden)),
            "h_n": Operand((1, batch, hidden)),
        },
    )  # fmt: skip


def benches(backend):
    seqlen, batch, hidden = (512, 64, 512) if backend == "cuda" else (64, 8, 128)
    for cell in (4, 2):
        yield layer(cell, seqlen, batch, hidden)
        yield layer(cell, seqlen, batch, hidden, backward=True)


def sweeps(backend):
    widths = (16, 64, 128, 256, 512, 1024) if backend == "cuda" else (16, 64, 128, 256)
    points = {h: layer(4, 64, 16, h, dtypes=("f32",)) for h in widths}
    yield Sweep(name="lstm", axis="hidden", points=points)
