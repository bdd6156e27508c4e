# SPDX-License-Identifier: Apache-2.0
"""LSTM, GRU and RNN cells through time and their gradients, token by token in float64."""

import numpy as np

from tools.oracle.numerics import round_to

from ..model import Bad, Case, Expected, Idle, Problem

TANH, RELU, GRU, RESET_FIRST, LSTM = range(5)
GATES = (1, 1, 3, 3, 4)
# seqlen, batch, directions, hidden, outputs
SHAPES = {
    "one": (1, 1, 1, 1, 1), "plain": (5, 3, 1, 6, 6), "both": (4, 2, 2, 5, 5), "many": (3, 35, 1, 17, 17),
    "tokens": (40, 2, 1, 8, 8), "wide": (2, 3, 1, 70, 70), "no_tokens": (0, 2, 2, 4, 4), "large": (20, 9, 2, 33, 33),
}  # fmt: skip
# Layers whose matrices have more than 2^14 elements, which have a launch for each token on a GPU: blocks have 16
# sequences, or 32 where these are enough blocks for the chip.
STEPS = {"steps": (3, 18, 2, 80, 80), "sides": (3, 3, 2, 136, 136), "blocks": (2, 170, 2, 136, 136)}
OPTIONAL = ("b_hh", "h0", "c0", "lengths")


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


class Layer:
    """The operands of a problem; those that it lacks are 0."""

    def __init__(self, problem):
        self.s = s = problem.scalars
        given = {n: a.values for n, a in problem.arrays.items() if n not in problem.null and a.values is not None}
        self.cell, self.hidden, self.outputs = s["cell"], s["hidden"], s["outputs"]
        self.w, self.p, self.gates = given["w_hh"], given.get("w_hr"), given.get("gates")
        shape = (s["directions"], s["batch"])
        self.h0 = given.get("h0", np.zeros((*shape, self.outputs)))
        self.c0 = given["c0"] if "c0" in given and self.cell == LSTM else np.zeros((*shape, self.hidden))
        self.bias = given.get("b_hh", np.zeros((s["directions"], GATES[self.cell] * self.hidden)))
        self.lengths = np.clip(given["lengths"], 0, s["seqlen"]) if "lengths" in given else [s["seqlen"]] * s["batch"]

    def steps(self, direction):
        """Tokens in order, each with the sequences that have it."""
        order = range(self.s["seqlen"])
        for t in reversed(order) if direction == 1 or self.s["reverse"] else order:
            yield t, np.array([t < length for length in self.lengths], bool)

    def split(self, x):
        return np.split(x, GATES[self.cell], axis=-1)

    def step(self, direction, x, h, c):
        """(h, c, what is saved by unit) of one token of all sequences."""
        s = h @ self.w[direction].T + self.bias[direction]
        if self.cell in (TANH, RELU):
            h = np.tanh(x + s) if self.cell == TANH else np.maximum(x + s, 0)
            return h, c, (h,)
        if self.cell == LSTM:
            i, f, g, o = self.split(x + s)
            i, f, g, o = sigmoid(i), sigmoid(f), np.tanh(g), sigmoid(o)
            c = f * c + i * g
            h = o * np.tanh(c)
            return h if self.p is None else h @ self.p[direction].T, c, (i, f, g, o, c)
        (xr, xz, xn), (sr, sz, sn) = self.split(x), self.split(s)
        r, z = sigmoid(xr + sr), sigmoid(xz + sz)
        if self.cell == RESET_FIRST:
            w, bias = self.split(self.w[direction].T)[2], self.split(self.bias[direction])[2]
            sn = (r * h) @ w + bias
        n = np.tanh(xn + (sn if self.cell == RESET_FIRST else r * sn))
        return (1 - z) * n + z * h, c, (r, z, n, sn)

    def forward(self):
        s = self.s
        shape, saved = (s["seqlen"], s["batch"], s["directions"]), (GATES[self.cell] + (GATES[self.cell] > 1))
        y, kept = np.zeros((*shape, self.outputs)), np.zeros((*shape, saved, self.hidden))
        h_n, c_n = self.h0.copy(), self.c0.copy()
        for d in range(s["directions"]):
            h, c = h_n[d], c_n[d]
            for t, has in self.steps(d):
                new_h, new_c, own = self.step(d, self.gates[t, :, d], h, c)
                h, c = np.where(has[:, None], new_h, h), np.where(has[:, None], new_c, c)
                y[t, :, d] = np.where(has[:, None], h, 0)
                kept[t, :, d] = np.where(has[:, None, None], np.stack(own, 1), 0)
            h_n[d], c_n[d] = h, c
        return y, h_n, c_n, kept.reshape(*shape, saved * self.hidden)

    def backward(self, y, saved, dy, dh_n, dc_n):
        s, gates = self.s, GATES[self.cell]
        kept = saved.reshape(*saved.shape[:3], gates + (gates > 1), self.hidden)
        d = {
            "gates": np.zeros((*y.shape[:3], gates * self.hidden)), "w_hh": np.zeros_like(self.w),
            "b_hh": np.zeros_like(self.bias), "h0": np.array(dh_n), "c0": np.array(dc_n),
            "w_hr": np.zeros((s["directions"], self.outputs, self.hidden)),
        }  # fmt: skip
        for way in range(s["directions"]):
            h = c = None
            dh, dc = d["h0"][way], d["c0"][way]
            steps, states = list(self.steps(way)), []
            h, c = self.h0[way], self.c0[way]
            for t, has in steps:
                states.append((h, c))
                h = np.where(has[:, None], y[t, :, way], h)
                c = np.where(has[:, None], kept[t, :, way, -1], c) if self.cell == LSTM else c
            for (t, has), (h, c) in zip(reversed(steps), reversed(states)):
                values = [kept[t, :, way, k] for k in range(kept.shape[3])]
                new_dh, new_dc = self._back(d, way, t, has, values, h, c, dh + dy[t, :, way], dc)
                dh, dc = np.where(has[:, None], new_dh, dh), np.where(has[:, None], new_dc, dc)
            d["h0"][way], d["c0"][way] = dh, dc
        return d

    def _back(self, d, way, t, has, values, h, c, dh, dc):
        """Gradients of h and c in front of a token; adds to those of the matrices."""
        dh = np.where(has[:, None], dh, 0)
        direct = np.zeros_like(h)
        if self.cell in (TANH, RELU):
            parts = of_sum = [dh * (1 - values[0] ** 2 if self.cell == TANH else values[0] > 0)]
        elif self.cell == LSTM:
            i, f, g, o, new_c = values
            squashed = np.tanh(new_c)
            if self.p is not None:
                d["w_hr"][way] += dh.T @ (o * squashed)
                dh = dh @ self.p[way]
            dc = np.where(has[:, None], dc, 0) + dh * o * (1 - squashed**2)
            parts = of_sum = [
                dc * g * i * (1 - i), dc * c * f * (1 - f), dc * i * (1 - g**2), dh * squashed * o * (1 - o),
            ]  # fmt: skip
            dc = dc * f
        else:
            r, z, n, sn = values
            dn, dz = dh * (1 - z) * (1 - n**2), dh * (h - n) * z * (1 - z)
            direct = dh * z
            if self.cell == GRU:
                parts = [dn * sn * r * (1 - r), dz, dn]
                of_sum = [parts[0], dz, dn * r]
            else:
                w = self.split(self.w[way].T)[2]
                of_product = dn @ w.T
                direct = direct + of_product * r
                parts = [of_product * h * r * (1 - r), dz, dn]
                of_sum = [parts[0], dz, np.zeros_like(dn)]
                d["w_hh"][way, 2 * self.hidden :] += dn.T @ (r * h)
                d["b_hh"][way, 2 * self.hidden :] += dn.sum(0)
        d["gates"][t, :, way] = np.where(has[:, None], np.concatenate(parts, 1), 0)
        of_sum = np.where(has[:, None], np.concatenate(of_sum, 1), 0)
        d["w_hh"][way] += of_sum.T @ h
        d["b_hh"][way] += of_sum.sum(0)
        return direct + of_sum @ self.w[way], dc


# --- problems --------------------------------------------------------------------------------------------------------


def operands(draw, cell, shape, *, null=(), lengths=None, reverse=0, projects=False):
    seqlen, batch, directions, hidden, outputs = shape
    rows, rng = GATES[cell] * hidden, draw.rng

    def floats(*extents, by=1.0):
        return draw.array(round_to(rng.standard_normal(extents) * by, draw.dtype).reshape(extents))

    arrays = {
        "gates": floats(seqlen, batch, directions, rows), "w_hh": floats(directions, rows, outputs, by=outputs**-0.5),
        "b_hh": floats(directions, rows, by=0.5),
        "w_hr": floats(directions, outputs, hidden, by=hidden**-0.5),
        "h0": floats(directions, batch, outputs, by=0.5),
        "c0": floats(directions, batch, hidden if cell == LSTM else 0, by=0.5),
        "lengths": draw.array(np.array([seqlen] * batch if lengths is None else lengths, np.int64), "i32"),
    }  # fmt: skip
    scalars = {
        "seqlen": seqlen, "batch": batch, "directions": directions, "hidden": hidden, "outputs": outputs, "cell": cell,
        "reverse": reverse,
    }  # fmt: skip
    absent = {*null, *([] if projects else ["w_hr"]), *(["lengths"] if lengths is None else [])}
    absent |= set() if cell == LSTM else {"c0"}
    return scalars, arrays, tuple(n for n in arrays if n in absent)


def forward(draw, cell, shape, null=(), **options):
    scalars, arrays, absent = operands(draw, cell, shape, null=null, **options)
    saved = (GATES[cell] + (GATES[cell] > 1)) * scalars["hidden"]
    arrays |= {
        "y": draw.output((*shape[:3], scalars["outputs"])), "h_n": draw.output(arrays["h0"].shape),
        "c_n": draw.output(arrays["c0"].shape), "reserve": draw.output((*shape[:3], saved), dtype="f32"),
    }  # fmt: skip
    return Problem(scalars, arrays, null=(*absent, *(n for n in ("c_n", "reserve") if n in null)))


def reference(problem):
    found = dict(zip(("y", "h_n", "c_n", "reserve"), Layer(problem).forward()))
    if problem.scalars["cell"] != LSTM:
        found["c_n"] = np.zeros(problem.arrays["c_n"].shape)
    count = problem.scalars["outputs"] * max(problem.scalars["seqlen"], 1)
    return {n: bounded(x, count) for n, x in found.items() if n not in problem.null}


def bounded(value, count, least=1.0):
    return Expected(value, count=count, magnitude=np.full(value.shape, max(np.abs(value).max(initial=0), least)))


def backward(draw, cell, shape, null=(), **options):
    scalars, arrays, absent = operands(draw, cell, shape, null=null, **options)
    problem = Problem(scalars, arrays, null=absent)
    y, _, _, saved = Layer(problem).forward()
    rounded = {"y": draw.array(round_to(y, draw.dtype).reshape(y.shape)),
               "reserve": draw.array(round_to(saved, "f32").reshape(saved.shape), "f32")}  # fmt: skip
    incoming = {"dy": draw.floats(y.shape), "dh_n": draw.floats(arrays["h0"].shape),
                "dc_n": draw.floats(arrays["c0"].shape)}  # fmt: skip
    results = {f"d{n}": draw.output(arrays[n].shape) for n in ("gates", "w_hh", "b_hh", "w_hr", "h0", "c0")}
    kept = {n: arrays[n] for n in ("w_hh", "w_hr", "h0", "c0", "lengths")}
    more = tuple(n for n in (*incoming, *results) if n in null or (n == "dc_n" and cell != LSTM))
    return Problem(scalars, incoming | kept | rounded | results, null=(*(n for n in absent if n in kept), *more))


def gradients(problem):
    layer, arrays, s = Layer(problem), problem.arrays, problem.scalars
    shape = (s["directions"], s["batch"])
    dh_n = np.zeros((*shape, s["outputs"])) if "dh_n" in problem.null else arrays["dh_n"].values
    dc_n = np.zeros((*shape, s["hidden"])) if "dc_n" in problem.null else arrays["dc_n"].values
    d = layer.backward(arrays["y"].values, arrays["reserve"].values, arrays["dy"].values, dh_n, dc_n)
    if s["cell"] != LSTM:
        d["c0"] = np.zeros(arrays["dc0"].shape)
    count = s["seqlen"] * s["batch"] * s["hidden"] + s["outputs"]
    found = {f"d{n}": bounded(x, count) for n, x in d.items()}
    # Matrices' gradients are products with gradients of gates in the storage dtype.
    for name in ("dw_hh", "db_hh"):
        most = max(np.abs(d["gates"]).max(initial=0), 1.0)
        found[name].divided = np.full(found[name].value.shape, most * s["seqlen"] * s["batch"])
    return {n: e for n, e in found.items() if n not in problem.null}


# --- cases -----------------------------------------------------------------------------------------------------------


def problems(make):
    found = {}
    for cell, name in enumerate(("tanh", "relu", "gru", "reset_first", "lstm")):
        for shape in SHAPES if cell == LSTM else ("plain", "both", "many", "large"):
            key = shape if cell == LSTM else f"{name}_{shape}"
            found[key] = lambda d, c=cell, s=SHAPES[shape]: make(d, c, s)
        for shape in ("steps",) if GATES[cell] > 1 else ("sides", "blocks") if cell == TANH else ("sides",):
            found[f"{name}_{shape}"] = lambda d, c=cell, s=STEPS[shape]: make(d, c, s)
        found[f"{name}_steps_lengths"] = lambda d, c=cell: make(
            d, c, STEPS["sides"], lengths=[0, 9, 2], null=("b_hh", "h0", "c0", "dh_n", "dc_n", "dh0")
        )
        found[f"{name}_lengths"] = lambda d, c=cell: make(d, c, SHAPES["both"], lengths=[0, 3])
        found[f"{name}_backwards"] = lambda d, c=cell: make(d, c, SHAPES["plain"], reverse=1, lengths=[2, 9, -1])
        found[f"{name}_alone"] = lambda d, c=cell: make(d, c, SHAPES["plain"], null=(*OPTIONAL, "dh_n", "dc_n"))
    found["projection"] = lambda d: make(d, LSTM, (4, 3, 2, 6, 4), projects=True, lengths=[4, 0, 2])
    found["wide_projection"] = lambda d: make(d, LSTM, (3, 2, 1, 5, 20), projects=True)
    found["square_projection"] = lambda d: make(d, LSTM, (3, 18, 1, 6, 6), projects=True)
    found["batch"] = lambda d: make(d, LSTM, SHAPES["plain"])
    found["plain"] = lambda d: make(d, LSTM, (5, 3, 1, 6, 4), projects=True, lengths=[5, 2, 4])  # with all operands
    found["less"] = lambda d: make(d, LSTM, SHAPES["plain"], null=("c_n", "reserve", "dw_hh", "dh0", "dw_hr", "dc0"))
    return found


BAD = (
    *(Bad(f"negative_{n}", 2, rf"{n} is -1, must be >= 0", {n: -1}, can=2) for n in ("seqlen", "batch")),
    Bad("directions", 2, r"directions is 3, must be 1 or 2", {"directions": 3}, can=2),
    Bad("hidden", 2, r"hidden is 0, must be >= 1", {"hidden": 0}, can=2),
    Bad("outputs", 2, r"outputs is 0, must be >= 1", {"outputs": 0}, can=2),
    Bad("cell", 2, r"cell is 5, must be in \[0, 4\]", {"cell": 5}, can=2),
    Bad("reverse", 2, r"reverse is 2, must be 0 or 1", {"reverse": 2}, can=2),
    Bad("both", 2, r"reverse is 1, must be 0 with two directions", {"reverse": 1, "directions": 2}, can=2),
    Bad("gru", 2, r"outputs is 4, must be hidden, 6: only an LSTM", {"cell": GRU}, can=2),
    Bad("projected_gru", 2, r"w_hr is given, but cell is 2: only an LSTM", {"cell": GRU, "outputs": 6}),
)

CASES = (
    Case(
        row="recurrent_cells_{T}", problems=problems(forward), reference=reference,
        tolerance=dict.fromkeys(("y", "h_n", "c_n", "reserve"), "recurrence"), plain="plain", large="large", bad=BAD,
        idle=(Idle("no_batch", {"batch": 0}),),
    ),
    Case(
        row="recurrent_cells_backward_{T}", problems=problems(backward), reference=gradients,
        tolerance={
            **dict.fromkeys(("dgates", "dh0", "dc0", "dw_hr"), "recurrence"),
            **dict.fromkeys(("dw_hh", "db_hh"), "recurrence_of_rounded"),
        },
        plain="plain", large="large", bad=BAD, idle=(),
    ),
)  # fmt: skip
