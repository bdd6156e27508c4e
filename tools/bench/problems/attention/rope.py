# SPDX-License-Identifier: Apache-2.0
"""Rotary position embedding, and appends to the KV cache of attention."""

import functools
import math

import numpy as np

from tools.bench.check import compare, rows, sample_indices, shape
from tools.bench.record import Bench, Bound, Operand
from tools.oracle.angles import cos_sin

HEADS, DIM = 32, 128
BASE = 10000.0


def rotated(x, cos, sin, is_split, sign):
    first, second = np.split(x, 2, -1) if is_split else (x[..., ::2], x[..., 1::2])
    pair = (first * cos - sign * second * sin, second * cos + sign * first * sin)
    return np.concatenate(pair, -1) if is_split else np.stack(pair, -1).reshape(x.shape)


def angles(problem, positions):
    """Cosines and sines of positions: from the tables, or computed from the positions."""
    buffers = problem.buffers
    if "cos_tab" in buffers:
        whole = shape(problem, "cos_tab")[-1] // (DIM // 2)
        tables = [
            problem.data.rows(buffers[name], np.zeros(1, np.int64)).reshape(whole, -1)
            for name in ("cos_tab", "sin_tab")
        ]
        return [table[positions] for table in tables]
    return [table.astype(np.float64) for table in cos_sin(positions, BASE, DIM // 2)]


def check(problem, is_split, sign):
    names = ("dy", "dx") if "dy" in problem.buffers else ("x", "y")
    extents, flat = shape(problem, names[0]), functools.partial(row_of, problem)
    count = math.prod(extents) // DIM
    chosen = sample_indices(problem, count)
    cos, sin = angles(problem, chosen % (extents[2] if len(extents) == 4 else extents[1] // DIM))
    x = flat(names[0], chosen)
    return compare(
        problem, flat(names[1], chosen), rotated(x, cos, sin, is_split, sign), np.abs(x).max(-1, keepdims=True) * 2
    )


def row_of(problem, name, chosen):
    """Rows of DIM features, for any last extent of the operand."""
    width = shape(problem, name)[-1] // DIM
    found = rows(problem, name, chosen // width)
    return found.reshape(len(chosen), width, DIM)[np.arange(len(chosen)), chosen % width]


SEQUENCE = 4096


def torch_rotated(torch, x, cos, sin, is_split):
    first, second = x.chunk(2, -1) if is_split else (x[..., ::2], x[..., 1::2])
    pair = (first * cos - second * sin, second * cos + first * sin)
    return torch.cat(pair, -1) if is_split else torch.stack(pair, -1).flatten(-2)


def torch_tables(torch, like, seq):
    position = torch.arange(seq, device=like.device, dtype=torch.float64)
    theta = position[:, None] * BASE ** -(torch.arange(DIM // 2, device=like.device, dtype=torch.float64) / (DIM // 2))
    return theta.cos().to(like.dtype), theta.sin().to(like.dtype)


def of_positions(is_split, name, torch, t, scalars):
    """The tables of the sequence are made once, as in models; the timed call rotates by them."""
    x = t[name]
    cos, sin = torch_tables(torch, x, x.shape[-2])
    return lambda: torch_rotated(torch, x, cos, sin, is_split)


def of_tables(is_split, name, torch, t, scalars):
    seq = t["cos_tab"].shape[-1] // (DIM // 2)
    x = t[name].reshape(-1, seq, DIM)
    cos, sin = (t[table].reshape(seq, -1).to(x.dtype) for table in ("cos_tab", "sin_tab"))
    return lambda: torch_rotated(torch, x, cos, sin, is_split)


def of_tokens(name, torch, t, scalars):
    cos, sin = (t[table][:, None].to(t[name].dtype) for table in ("cos_tab", "sin_tab"))
    return lambda: torch_rotated(torch, t[name], cos, sin, False)


def numpy_rotated(name, a, scalars):
    seq, x = scalars.get("seq"), a[name]
    if seq is None:
        return lambda: rotated(
            x.reshape(-1, a["cos_tab"].shape[-1] // (DIM // 2), DIM),
            *(a[table].reshape(-1, DIM // 2) for table in ("cos_tab", "sin_tab")),
            False,
            1,
        )
    cos, sin = (table.astype(x.dtype) for table in cos_sin(np.arange(seq), BASE, DIM // 2))
    return lambda: rotated(x, cos, sin, False, 1)


# --- caches ----------------------------------------------------------------------------------------------------------


def check_append(problem):
    offsets = problem.indices["cache_offsets"]
    _, heads, new_len, _ = shape(problem, "k_new")
    most = shape(problem, "k_cache")[2]
    for kind in "kv":
        count = len(offsets) * heads * new_len
        chosen = sample_indices(problem, count)
        plane, position = chosen // new_len, chosen % new_len
        at = plane * most + offsets[plane // heads] + position
        want = rows(problem, f"{kind}_new", chosen)
        if wrong := compare(problem, rows(problem, f"{kind}_cache", at), want, 0.0):
            return f"{kind}_cache {wrong}"
    return ""


def append_by_slices(torch, t, scalars):
    """One copy per batch item, since their offsets differ."""
    offsets, length = t["cache_offsets"].tolist(), scalars["new_len"]

    def peer():
        for b, offset in enumerate(offsets):
            t["k_cache"][b, :, offset : offset + length].copy_(t["k_new"][b])
            t["v_cache"][b, :, offset : offset + length].copy_(t["v_new"][b])

    return peer


def numpy_append(a, scalars):
    length = scalars["new_len"]

    def peer():
        for b, offset in enumerate(a["cache_offsets"]):
            a["k_cache"][b, :, offset : offset + length] = a["k_new"][b]
            a["v_cache"][b, :, offset : offset + length] = a["v_new"][b]

    return peer


def benches(backend):
    seq, heads, batch = SEQUENCE, HEADS, 4 if backend == "cuda" else 1
    bound = (Bound("copy", 0.90) if backend == "cuda" else Bound("peer", 1.0),)
    data = (batch, heads, seq, DIM)
    made = functools.partial(Bench, dtypes=("f32", "bf16"), bounds=bound)
    for half in (False, True):
        for back in (False, True):
            x, y = ("dy", "dx") if back else ("x", "y")
            suffix = f"{'_half' * half}{'_backward' * back}"
            values = {x: Operand(data, "normal"), y: Operand(data)}
            checked = functools.partial(check, is_split=half, sign=-1 if back else 1)
            numpy = () if half or back else (functools.partial(numpy_rotated, x),)
            yield made(
                name=f"rope{suffix}", row=f"rope{suffix}_{{T}}", arrays=values, check=checked, numpy=numpy,
                scalars=dict(zip(("batch", "heads", "seq", "head_dim"), data)) | {"base": BASE, "pos_default_flag": 1},
                torch=(functools.partial(of_positions, half, x),),
            )  # fmt: skip
            flat = (batch * heads, seq * DIM)
            tables = {name: Operand((1, seq * DIM // 2), "normal") for name in ("cos_tab", "sin_tab")}
            yield made(
                name=f"rope_apply{suffix}", row=f"rope_apply{suffix}_{{T}}", check=checked, numpy=numpy,
                arrays={x: Operand(flat, "normal"), **tables, y: Operand(flat)},
                scalars={"bh": flat[0], "td": flat[1], "d": DIM, "stride_b": 0},
                torch=(functools.partial(of_tables, half, x),),
            )  # fmt: skip
    for back in (False, True):
        x, y = ("dy", "dx") if back else ("x", "y")
        tokens = (batch * seq, heads, DIM)
        tables = {name: Operand((batch * seq, DIM // 2), "normal") for name in ("cos_tab", "sin_tab")}
        yield made(
            name=f"rope_apply_thd{'_backward' * back}", row=f"rope_apply_thd{'_backward' * back}_{{T}}",
            arrays={x: Operand(tokens, "normal"), **tables, y: Operand(tokens)},
            scalars={"t_outer": tokens[0], "h_heads": heads, "d": DIM, "stride_b": DIM // 2},
            check=functools.partial(check_tokens, sign=-1 if back else 1), torch=(functools.partial(of_tokens, x),),
        )  # fmt: skip
    table = (seq, DIM // 2)
    yield made(
        name="rope_tables_backward", row="rope_tables_backward_{T}", check=check_tables, bounds=(),
        arrays={
            **{operand: Operand((batch * heads, seq, 1, DIM), "sixteenths") for operand in ("dy", "x")},
            "dcos": Operand(table), "dsin": Operand(table),
        },
        scalars={"outer": batch * heads, "places": seq, "inner": 1, "d": DIM, "is_half": 0}, torch=(of_sums,),
    )  # fmt: skip
    new, most = seq // 4, seq
    caches = Operand((batch, heads, most, DIM), "normal")
    yield made(
        name="kv_cache_append", row="kv_cache_append_{T}", check=check_append,
        arrays={
            "k_new": Operand((batch, heads, new, DIM), "normal"), "v_new": Operand((batch, heads, new, DIM), "normal"),
            "cache_offsets": Operand((batch,), lambda rng: rng.integers(0, most - new, batch)),
            "k_cache": caches, "v_cache": caches,
        },
        scalars={"batch": batch, "heads": heads, "new_len": new, "max_cache_len": most, "d_k": DIM, "d_v": DIM},
        bytes=lambda width, indices: 4 * batch * heads * new * DIM * width, torch=(append_by_slices,),
        numpy=(numpy_append,),
    )  # fmt: skip


def of_sums(torch, t, scalars):
    def peer():
        dy, x = (t[name].float().unflatten(-1, (-1, 2)) for name in ("dy", "x"))
        t["dcos"].copy_((dy * x).sum((0, 2, 4)))
        t["dsin"].copy_((dy[..., 1] * x[..., 0] - dy[..., 0] * x[..., 1]).sum((0, 2)))

    return peer


def check_tables(problem):
    outer, positions = (problem.bench.scalars[name] for name in ("outer", "places"))
    for position in sample_indices(problem, positions, 8):
        chosen = np.arange(outer) * positions + position
        dy, x = (rows(problem, name, chosen).reshape(outer, -1, 2).astype(np.float64) for name in ("dy", "x"))
        products = {"dcos": dy * x, "dsin": np.stack((dy[..., 1] * x[..., 0], -dy[..., 0] * x[..., 1]), -1)}
        for name, of in products.items():
            got = rows(problem, name, [position])[0]
            if wrong := compare(problem, got, of.sum((0, 2)), np.abs(of).sum((0, 2)), "f32"):
                return f"{name}[{position}] {wrong}"
    return ""


def check_tokens(problem, sign):
    names = ("dy", "dx") if "dy" in problem.buffers else ("x", "y")
    tokens, heads, _ = shape(problem, names[0])
    chosen = sample_indices(problem, tokens * heads)
    cos, sin = (rows(problem, name, chosen // heads) for name in ("cos_tab", "sin_tab"))
    x = rows(problem, names[0], chosen)
    return compare(
        problem,
        rows(problem, names[1], chosen),
        rotated(x, cos, sin, False, sign),
        2 * np.abs(x).max(-1, keepdims=True),
    )


_SAME = "the kernels of [rope_apply_{T}] and [rope_{T}], which are measured"
UNMEASURED = {
    f"{name}{back}_{{T}}{form}": _SAME
    for back in ("", "_backward")
    for name, forms in {
        "rope": ("_strided",), "rope_half": ("_strided",), "rope_positions": ("",), "rope_positions_half": ("",),
        "rope_starts": ("",), "rope_starts_half": ("",),
        "rope_apply_interleaved": ("",), "rope_apply_thd_half": ("",), "rope_apply_f64tab": ("",),
        "rope_apply_half_f64tab": ("",), "rope_apply_thd_f64tab": ("",), "rope_apply_thd_half_f64tab": ("",),
    }.items()
    for form in forms
}  # fmt: skip
