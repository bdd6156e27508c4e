# SPDX-License-Identifier: Apache-2.0
"""Recurrences of a matrix state and their gradients, token by token in float64."""

import itertools

import numpy as np

from tools.oracle.numerics import round_to

from ..model import Bad, Case, Expected, Idle, Problem

# batch, seqlen, heads of q and k, heads, d_k, d_v, offsets
SHAPES = {
    "one": (1, 1, 1, 1, 1, 1), "plain": (1, 10, 1, 2, 8, 5, (0, 4, 10)), "batch": (2, 5, 1, 2, 8, 5),
    "chunks": (1, 67, 2, 2, 16, 33),
    "chunk": (1, 32, 1, 1, 20, 8), "behind_a_chunk": (2, 33, 1, 1, 7, 3), "half_chunk": (1, 17, 1, 1, 16, 4),
    "grouped": (1, 19, 2, 6, 12, 9), "wide_keys": (1, 20, 1, 1, 136, 4), "wide_values": (1, 3, 1, 1, 4, 70),
    "widest": (1, 2, 1, 1, 256, 3),
    "packed": (1, 45, 1, 2, 8, 6, (0, 1, 18, 18, 45)), "uncovered": (1, 40, 1, 1, 8, 6, (3, 20, 36)),
    "out_of_range": (1, 9, 1, 1, 4, 3, (-4, 5, 5, 99)), "no_tokens": (2, 0, 1, 1, 4, 3),
    "no_sequences": (1, 6, 1, 2, 4, 3, (2,)), "large": (2, 150, 2, 4, 24, 40),
}  # fmt: skip
EXTENTS = ("batch", "seqlen", "sequences")


def unit(x):
    return x / np.sqrt((x * x).sum(-1, keepdims=True) + 1e-6)


def unit_gradient(x, dy):
    length = np.sqrt((x * x).sum(-1, keepdims=True) + 1e-6)
    return dy / length - x * (x * dy).sum(-1, keepdims=True) / length**3


class Recurrence:
    """The operands of a problem as (rows, heads, width), q and k repeated for the heads that share them.

    NaN in a problem stays in the sequence and head that have it, as every head is computed alone.
    """

    def __init__(self, problem, rule):
        s, arrays = problem.scalars, problem.arrays
        given = {name: a.values for name, a in arrays.items() if name not in problem.null and a.values is not None}
        self.rule, self.s, self.scale = rule, s, s["scale"]
        self.batch, self.seqlen = s["batch"], s.get("seqlen", 1)
        self.heads, self.d_k, self.d_v = s["heads"], s["d_k"], s["d_v"]
        self.qk_heads = s.get("qk_heads", self.heads)
        self.rows = self.batch * self.seqlen
        flat = {n: v.reshape(self.rows, *v.shape[-2:]) for n, v in given.items() if n in ("q", "k", "v", "r", "a", "b")}
        self.q, self.k, self.v = flat.get("q", flat.get("r")), flat["k"], flat["v"]
        self.given_q, self.given_k = self.q, self.k
        self.normalizes = bool(s.get("normalizes"))
        if self.normalizes:
            self.q, self.k = unit(self.q), unit(self.k)
        group = self.heads // self.qk_heads
        self.q, self.k = (np.repeat(x, group, 1) for x in (self.q, self.k))
        self.a, self.b = flat.get("a"), flat.get("b")
        self.beta = given["beta"].reshape(self.rows, self.heads) if "beta" in given else None
        gates = given.get("g", given.get("w"))
        width = self.d_k if rule == "rwkv7" else s.get("gate_width", 1)
        self.gates = None if gates is None else np.maximum(gates.reshape(self.rows, self.heads, width), -128)
        self.bonus = given.get("bonus")
        initial = given.get("initial_state", given.get("state"))
        self.count = s.get("sequences", self.batch)
        self.initial = np.zeros((self.count, self.heads, self.d_k, self.d_v)) if initial is None else initial
        self.ranges = [(n * self.seqlen, (n + 1) * self.seqlen) for n in range(self.count)]
        if "cu_seqlens" in given:
            offsets = np.clip(given["cu_seqlens"], 0, self.rows)
            self.ranges = [(a, max(a, b)) for a, b in itertools.pairwise(offsets)]

    def forgotten(self):
        """Summands with the error of a sum of gates in f32 within 32 tokens, which is relative to that of a decay."""
        if self.gates is None or not self.rows:
            return 0
        sums = np.concatenate([np.zeros((1, *self.gates.shape[1:])), np.cumsum(self.gates, 0)])
        return float(np.max(sums[:-1] - sums[np.minimum(np.arange(1, len(sums)) + 31, len(sums) - 1)])) ** 2 / 4

    def decay(self, t):
        return np.ones((self.heads, 1, 1)) if self.gates is None else np.exp(self.gates[t])[:, :, None]

    def forward(self):
        """(y, final states, the states in front of each token)."""
        y, final, before = np.zeros((self.rows, self.heads, self.d_v)), self.initial.copy(), {}
        for n, (begin, end) in enumerate(self.ranges):
            state = self.initial[n]
            for t in range(begin, end):
                before[n, t] = state
                q, k, v, decay = self.q[t], self.k[t], self.v[t], self.decay(t)
                new = decay * state
                if self.rule == "delta":
                    error = v - np.einsum("hkv,hk->hv", new, k)
                    new = new + k[:, :, None] * (self.beta[t][:, None] * error)[:, None]
                else:
                    new = new + k[:, :, None] * v[:, None]
                if self.rule == "rwkv7":
                    new = new + self.b[t][:, :, None] * np.einsum("hkv,hk->hv", state, self.a[t])[:, None]
                if self.bonus is None:
                    y[t] = self.scale * np.einsum("hkv,hk->hv", new, q)
                else:
                    own = (q * self.bonus * k).sum(-1)[:, None] * v
                    y[t] = self.scale * (np.einsum("hkv,hk->hv", state, q) + own)
                state = new
            final[n] = state
        return y, final, before

    def backward(self, dy, dfinal):
        """Gradients by name; of q and k as they are given."""
        before = self.forward()[2]
        d = {n: np.zeros_like(x) for n, x in (("q", self.q), ("k", self.k), ("v", self.v), ("initial", self.initial))}
        d |= {n: np.zeros((self.rows, self.heads, self.d_k)) for n in "ab"}
        d |= {"beta": np.zeros((self.rows, self.heads)), "bonus": np.zeros((self.heads, self.d_k))}
        d["g"] = np.zeros((self.rows, self.heads, 1)) if self.gates is None else np.zeros_like(self.gates)
        for n, (begin, end) in enumerate(self.ranges):
            ds = dfinal[n] if dfinal is not None else np.zeros_like(self.initial[n])
            for t in range(end - 1, begin - 1, -1):
                ds = self._step(d, before[n, t], t, dy[t], ds)
            d["initial"][n] = ds
        group = (self.rows, self.qk_heads, self.heads // self.qk_heads, self.d_k)
        d["q"], d["k"] = d["q"].reshape(group).sum(2), d["k"].reshape(group).sum(2)
        if self.normalizes:
            d["q"], d["k"] = unit_gradient(self.given_q, d["q"]), unit_gradient(self.given_k, d["k"])
        return d

    def _step(self, d, old, t, dy, ds):
        q, k, v, decay = self.q[t], self.k[t], self.v[t], self.decay(t)
        faded = decay * old
        error = v - np.einsum("hkv,hk->hv", faded, k) if self.rule == "delta" else None
        written = v if error is None else self.beta[t][:, None] * error
        new = faded + k[:, :, None] * written[:, None]
        removed = None
        if self.rule == "rwkv7":
            removed = np.einsum("hkv,hk->hv", old, self.a[t])
            new = new + self.b[t][:, :, None] * removed[:, None]
        of_old = np.zeros_like(old)
        outer = self.scale * q[:, :, None] * dy[:, None]
        if self.bonus is None:
            d["q"][t] += self.scale * np.einsum("hkv,hv->hk", new, dy)
            ds = ds + outer
        else:
            along = (v * dy).sum(-1)[:, None]
            d["q"][t] += self.scale * (np.einsum("hkv,hv->hk", old, dy) + self.bonus * k * along)
            d["k"][t] += self.scale * self.bonus * q * along
            d["bonus"] += self.scale * q * k * along
            d["v"][t] += self.scale * (q * self.bonus * k).sum(-1)[:, None] * dy
            of_old = of_old + outer
        d["k"][t] += np.einsum("hkv,hv->hk", ds, written)
        of_written = np.einsum("hkv,hk->hv", ds, k)
        of_faded = ds
        if self.rule == "delta":
            d["beta"][t] += (of_written * error).sum(-1)
            of_error = self.beta[t][:, None] * of_written
            d["v"][t] += of_error
            d["k"][t] -= np.einsum("hkv,hv->hk", faded, of_error)
            of_faded = ds - k[:, :, None] * of_error[:, None]
        else:
            d["v"][t] += of_written
        if removed is not None:
            d["b"][t] += np.einsum("hkv,hv->hk", ds, removed)
            of_removed = np.einsum("hkv,hk->hv", ds, self.b[t])
            d["a"][t] += np.einsum("hkv,hv->hk", old, of_removed)
            of_old = of_old + self.a[t][:, :, None] * of_removed[:, None]
        if self.gates is not None:
            of_gate = (of_faded * faded).sum(-1)
            d["g"][t] += of_gate if self.gates.shape[-1] > 1 else of_gate.sum(-1, keepdims=True)
        return of_old + decay * of_faded


# --- problems --------------------------------------------------------------------------------------------------------


def operands(draw, rule, shape, *, gates="heads", null=(), normalizes=0, values="normal", least=None):
    """(scalars, inputs) of a problem; keys have about unit length, without which the delta rule grows."""
    batch, seqlen, qk_heads, heads, d_k, d_v, *rest = shape
    tokens = (batch, seqlen)

    def floats(*extents, by=1.0):
        found = draw.floats(extents, values).values
        return draw.array(round_to(found * by, draw.dtype).reshape(extents))

    def numbers(x):
        return draw.array(round_to(x, draw.dtype).reshape(x.shape))

    def f32(x):
        return draw.array(round_to(x, "f32").reshape(x.shape), "f32")

    rng = draw.rng
    if rule == "rwkv7":
        qk_heads = heads
    keys = rng.standard_normal((*tokens, qk_heads, d_k))
    sequences = batch if not rest else len(rest[0]) - 1
    arrays = {
        "r" if rule == "rwkv7" else "q": floats(*tokens, qk_heads, d_k),
        "k": numbers(keys if normalizes else unit(keys)), "v": floats(*tokens, heads, d_v),
    }  # fmt: skip
    width = {"heads": 1, "channels": d_k}[gates]
    given = -rng.gamma(1, 0.5, (*tokens, heads, width))
    if least is not None:  # some tokens forget all
        given = np.where(rng.random(given.shape) < 0.2, least, given)
    scalars = {"batch": batch, "seqlen": seqlen, "sequences": sequences}
    if rule == "rwkv7":
        removed = unit(rng.standard_normal((*tokens, heads, d_k)))
        arrays |= {"w": f32(given), "a": numbers(-removed), "b": numbers(removed * rng.random(removed.shape))}
    else:
        scalars["qk_heads"] = qk_heads
        arrays["g"] = f32(given[..., 0] if rule == "delta" else given)
    scalars |= {"heads": heads, "d_k": d_k, "d_v": d_v, "scale": 0.75}
    if rule == "delta":
        arrays["beta"] = numbers(rng.random((*tokens, heads)))
        scalars["normalizes"] = normalizes
    if rule == "gated":
        scalars["gate_width"] = width
        arrays["bonus"] = floats(heads, d_k)
    arrays["initial_state"] = f32(rng.standard_normal((sequences, heads, d_k, d_v)))
    offsets = rest[0] if rest else np.arange(sequences + 1) * seqlen
    arrays["cu_seqlens"] = draw.array(np.array(offsets, np.int64), "i32")
    absent = {*null, *([] if rest else ["cu_seqlens"])}
    return scalars, arrays, tuple(name for name in arrays if name in absent)


def forward(draw, rule, shape, **options):
    scalars, arrays, null = operands(draw, rule, shape, **options)
    states = arrays["initial_state"].shape
    arrays |= {
        "y": draw.output((*shape[:2], scalars["heads"], scalars["d_v"])),
        "final_state": draw.output(states, dtype="f32"),
    }
    more = tuple(n for n in ("final_state",) if n in options.get("null", ()))
    return Problem(scalars, arrays, null=(*null, *more))


RESULTS = {
    "gated": {"q": "q", "k": "k", "v": "v", "g": "g", "bonus": "bonus"},
    "delta": {"q": "q", "k": "k", "v": "v", "beta": "beta", "g": "g"},
    "rwkv7": {"r": "q", "w": "g", "k": "k", "v": "v", "a": "a", "b": "b"},
}


def backward(draw, rule, shape, null=(), **options):
    scalars, arrays, absent = operands(draw, rule, shape, null=null, **options)
    states = arrays["initial_state"].shape
    incoming = {
        "dy": draw.floats((*shape[:2], scalars["heads"], scalars["d_v"])),
        "dfinal_state": draw.floats(states, dtype="f32"),
    }
    results = {f"d{n}": draw.output(arrays[n].shape, dtype=arrays[n].dtype) for n in RESULTS[rule]}
    results["dinitial_state"] = draw.output(states, dtype="f32")
    more = tuple(n for n in (*incoming, *results) if n in null)
    return Problem(scalars, incoming | arrays | results, null=(*absent, *more))


def update(draw, rule, shape, **options):
    scalars, arrays, null = operands(draw, rule, (shape[0], 1, *shape[2:6]), **options)
    del scalars["seqlen"], scalars["sequences"], arrays["cu_seqlens"]
    state = arrays.pop("initial_state")
    for name, each in arrays.items():
        if name != "bonus":
            arrays[name] = draw.array(each.values.reshape(each.shape[0], *each.shape[2:]), each.dtype)
    arrays |= {
        "state": state, "y": draw.output((shape[0], scalars["heads"], scalars["d_v"])),
        "new_state": draw.output(state.shape, dtype="f32"),
    }  # fmt: skip
    return Problem(scalars, arrays, null=tuple(n for n in null if n != "cu_seqlens"))


# --- references ------------------------------------------------------------------------------------------------------


def bounded(value, tokens, shape=None):
    """The sum that made an element has no larger partial sums than the largest result, within a small factor."""
    value = value if shape is None else value.reshape(shape)
    finite = np.abs(value[np.isfinite(value)])
    return Expected(value, count=tokens, magnitude=np.full(value.shape, max(finite.max(initial=0), 1.0)))


def reference(rule):
    def of(problem):
        r = Recurrence(problem, rule)
        with np.errstate(all="ignore"):
            y, final, _ = r.forward()
        tokens, arrays = r.seqlen * r.d_k + r.forgotten(), problem.arrays
        name = "final_state" if "final_state" in arrays else "new_state"
        found = {"y": bounded(y, tokens, arrays["y"].shape), name: bounded(final, tokens)}
        return {n: e for n, e in found.items() if n not in problem.null}

    return of


def gradients(rule):
    def of(problem):
        r, arrays = Recurrence(problem, rule), problem.arrays
        dfinal = None if "dfinal_state" in problem.null else arrays["dfinal_state"].values
        with np.errstate(all="ignore"):
            d = r.backward(arrays["dy"].values.reshape(r.rows, r.heads, r.d_v), dfinal)
        tokens = r.seqlen * (r.d_k + r.d_v) + r.forgotten()
        names = RESULTS[rule]
        found = {f"d{n}": bounded(d[of], tokens, arrays[f"d{n}"].shape) for n, of in names.items()}
        found["dinitial_state"] = bounded(d["initial"], tokens)
        return {n: e for n, e in found.items() if n not in problem.null}

    return of


# --- cases -----------------------------------------------------------------------------------------------------------


def bad(rule):
    found = [Bad(f"negative_{n}", 2, rf"{n} is -1, must be >= 0", {n: -1}, can=2) for n in EXTENTS]
    found += [Bad(f"no_{n}", 2, rf"{n} is 0, must be in \[1", {n: 0}, can=2) for n in ("heads", "d_k", "d_v")]
    found.append(Bad("keys", 3, r"d_k is 257, must be in \[1, 256\]", {"d_k": 257}, can=3))
    if rule != "rwkv7":
        found.append(Bad("groups", 2, r"heads is 2, must be a multiple of qk_heads, 3", {"qk_heads": 3}, can=2))
    if rule == "gated":
        found.append(Bad("gates", 2, r"gate_width is 3, must be 1 or d_k, 8", {"gate_width": 3}, can=2))
    if rule == "delta":
        found.append(Bad("normalizes", 3, r"normalizes is 2, must be in \[0, 1\]", {"normalizes": 2}, can=3))
    return tuple(found)


def problems(make, rule, null=()):
    """All shapes; and with the operands that a rule can do without, or has of other widths."""
    by = {"gates": "channels"} if rule == "rwkv7" else {}
    no_bonus = {"null": ("bonus", *null)} if rule == "gated" else {"null": null}

    def made(shape, **options):
        return lambda d: make(d, rule, shape, **by, **no_bonus | options)

    found = {name: made(shape) for name, shape in SHAPES.items()}
    plain, chunks = SHAPES["batch"], SHAPES["chunks"]
    found["plain"] = lambda d: make(d, rule, SHAPES["plain"], **by, null=null)  # with all operands
    found["no_state"] = made(plain, null=(*no_bonus["null"], "initial_state", "dfinal_state"))
    found["no_final"] = made(plain, null=(*no_bonus["null"], "final_state", "dinitial_state"))
    found["forgets"] = made(chunks, least=-np.inf)
    if rule != "rwkv7":
        found["no_gates"] = made(chunks, null=(*no_bonus["null"], "g"))
    if rule == "delta":
        found |= {f"unit_{n}": made(SHAPES[n], normalizes=1) for n in ("plain", "chunks", "grouped")}
    if rule == "gated":
        for n in ("plain", "chunks", "grouped", "packed", "uncovered", "wide_keys", "no_sequences"):
            found |= {f"channels_{n}": made(SHAPES[n], gates="channels"), f"bonus_{n}": made(SHAPES[n], null=null)}
            found[f"bonus_channels_{n}"] = made(SHAPES[n], gates="channels", null=null)
    return found


def alone(rule, name):
    """Gradients one at a time are those of all."""
    others = tuple(f"d{n}" for n in (*RESULTS[rule], "initial_state") if f"d{n}" != name)
    return lambda d: backward(
        d, rule, SHAPES["batch"], null=(*others, *(("bonus",) if rule == "gated" else ())),
        **({"gates": "channels"} if rule == "rwkv7" else {}),
    )  # fmt: skip


def cases(row, rule):
    results = [f"d{n}" for n in (*RESULTS[rule], "initial_state")]
    idle = (Idle("nothing", {"batch": 0, "sequences": 0}),)
    yield Case(
        row=f"{row}_{{T}}", problems=problems(forward, rule), reference=reference(rule),
        tolerance={"y": "recurrence", "final_state": "recurrence"}, plain="plain", large="large", bad=bad(rule),
        idle=idle,
    )  # fmt: skip
    yield Case(
        row=f"{row}_backward_{{T}}",
        problems=problems(backward, rule) | {f"{n}_alone": alone(rule, n) for n in results}, reference=gradients(rule),
        tolerance=dict.fromkeys(results, "recurrence"), plain="plain", large="large", bad=bad(rule), idle=idle,
    )  # fmt: skip
    shapes = ("one", "plain", "grouped", "wide_keys", "wide_values", "widest", "large")
    options = {"gates": "channels"} if rule == "rwkv7" else {}
    null = ("bonus",) if rule == "gated" else ()
    found = {n: lambda d, n=n: update(d, rule, SHAPES[n], null=null, **options) for n in shapes}
    if rule != "rwkv7":
        found["no_gates"] = lambda d: update(d, rule, SHAPES["batch"], null=(*null, "g"))
    if rule == "gated":
        found["channels"] = lambda d: update(d, rule, SHAPES["batch"], gates="channels", null=null)
        found["bonus"] = lambda d: update(d, rule, SHAPES["grouped"])
    if rule == "delta":
        found["unit"] = lambda d: update(d, rule, SHAPES["grouped"], normalizes=1)
    found["plain"] = lambda d: update(d, rule, SHAPES["batch"], **options)
    found["forgets"] = lambda d: update(d, rule, SHAPES["grouped"], null=null, least=-np.inf, **options)
    wrong = tuple(b for b in bad(rule) if not {"seqlen", "sequences"}.intersection(b.scalars))
    yield Case(
        row=f"{row}_update_{{T}}", problems=found, reference=reference(rule),
        tolerance={"y": "recurrence", "new_state": "recurrence"}, plain="plain", large="large", bad=wrong,
        idle=(Idle("nothing", {"batch": 0}),),
    )  # fmt: skip


CASES = (
    *cases("recurrent_gated_delta_rule", "delta"),
    *cases("recurrent_gated_linear_attention", "gated"), *cases("rwkv7", "rwkv7"),
)  # fmt: skip
