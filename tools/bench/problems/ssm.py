# SPDX-License-Identifier: Apache-2.0
"""State-space layers at the sizes of Mamba models: causal convolutions, selective scans, single steps.

Peers are what users write in PyTorch: a depthwise convolution of padded inputs, products of chunks for Mamba-2, and a
step of decoding by elementwise functions. For the recurrence of Mamba-1 PyTorch has but a loop over tokens.
"""

import numpy as np

from tools.bench.check import cells, compare
from tools.bench.record import Bench, Bound, Operand, Sweep

FLOATS = ("bf16", "f32")
GENERAL = "the kernels of {}, with strides"
UNMEASURED = {
    "causal_conv1d_general_{T}": GENERAL.format("causal_conv1d_{T}"),
    "causal_conv1d_general_backward_{T}": GENERAL.format("causal_conv1d_{T}_backward"),
    "selective_scan_general_{T}": GENERAL.format("selective_scan_{T}"),
    "selective_scan_general_backward_{T}": GENERAL.format("selective_scan_{T}_backward"),
    "ssd_scan_{T}": GENERAL.format("ssd_chunk_scan_{T}"),
    "ssd_scan_backward_{T}": GENERAL.format("ssd_chunk_scan_{T}_backward"),
}


def at(problem, name, *index):
    """Elements at indices along the axes, which broadcast."""
    shape = problem.bench.arrays[name].shape
    return cells(problem, name, np.ravel_multi_index(np.broadcast_arrays(*index), shape))


def chosen(problem, *extents, count=4):
    """Some indices along each of these axes."""
    rng = np.random.default_rng(5)
    return [rng.integers(0, extent, count) for extent in extents]


# --- convolution -----------------------------------------------------------------------------------------------------


def torch_conv(torch, t, scalars):
    F = torch.nn.functional
    weight, channels, width = t["weight"][:, None], t["weight"].shape[0], t["weight"].shape[1]
    return lambda: F.silu(F.conv1d(F.pad(t["x"], (width - 1, 0)), weight, t["bias"], groups=channels))


def conv_sums(problem, b, c, t):
    width = problem.bench.arrays["weight"].shape[1]
    k = np.arange(width)[:, None]
    taps = at(problem, "weight", c[None], k) * at(problem, "x", b[None], c[None], t[None] - (width - 1 - k))
    bias = at(problem, "bias", c)
    return taps.sum(0) + bias, np.abs(taps).sum(0) + np.abs(bias)


def check_conv(problem):
    batch, channels, tokens = problem.bench.arrays["x"].shape
    b, c, t = chosen(problem, batch, channels, tokens - 8, count=256)
    pre, size = conv_sums(problem, b, c, t + 8)
    return compare(problem, at(problem, "y", b, c, t + 8), pre / (1 + np.exp(-pre)), 2 * size)


def check_conv_backward(problem):
    """The last token's gradient has one summand."""
    batch, channels, tokens = problem.bench.arrays["x"].shape
    b, c = chosen(problem, batch, channels, count=64)
    t = np.full_like(b, tokens - 1)
    pre, size = conv_sums(problem, b, c, t)
    s = 1 / (1 + np.exp(-pre))
    g = at(problem, "dy", b, c, t) * s * (1 + pre * (1 - s))
    last = at(problem, "weight", c, np.full_like(c, problem.bench.arrays["weight"].shape[1] - 1))
    return compare(problem, at(problem, "dx", b, c, t), last * g, np.abs(last * g) * (2 + size))


def conv(batch, channels, tokens, width=4, dtypes=FLOATS, backward=False):
    x = Operand((batch, channels, tokens), "normal")
    arrays = {"x": x, "weight": Operand((channels, width), "normal"), "bias": Operand((channels,), "normal")}
    if backward:
        arrays |= {
            "dy": x,
            "dx": Operand(x.shape),
            "dw": Operand((channels, width), 0.0),
            "db": Operand((channels,), 0.0),
        }
    else:
        arrays["y"] = Operand(x.shape)
    return Bench(
        name=f"causal_conv1d{'_backward' * backward} {batch}x{channels}x{tokens}x{width}",
        row="causal_conv1d_{T}" + "_backward" * backward, dtypes=dtypes, arrays=arrays, scalars={"use_silu": 1},
        check=check_conv_backward if backward else check_conv, torch=() if backward else (torch_conv,),
        workspace=backward, bounds=(Bound("copy", 0.5),) if backward else (Bound("copy", 0.85), Bound("peer", 1.3)),
    )  # fmt: skip


# --- Mamba-1 ---------------------------------------------------------------------------------------------------------


def check_scan(problem):
    batch, tokens, dim = problem.bench.arrays["u"].shape
    states = problem.bench.arrays["a"].shape[1]
    b, d = chosen(problem, batch, dim)
    t, n = np.arange(tokens)[:, None], np.arange(states)
    u, delta, z = (at(problem, name, b[None], t, d[None]) for name in ("u", "delta", "z"))
    a = at(problem, "a", d[:, None], n[None])
    of_b, of_c = (at(problem, name, b[None, :, None], t[..., None], n[None, None]) for name in "bc")
    skip, step = at(problem, "d_skip", d), np.log1p(np.exp(delta + at(problem, "delta_bias", d)))
    h, size = np.zeros(a.shape), np.zeros(a.shape)
    y, magnitude = np.zeros(u.shape), np.zeros(u.shape)
    for k in range(tokens):
        decay, more = np.exp(step[k][:, None] * a), (step[k] * u[k])[:, None] * of_b[k]
        h, size = decay * h + more, decay * size + np.abs(more)
        y[k] = (h * of_c[k]).sum(-1) + skip * u[k]
        magnitude[k] = (size * np.abs(of_c[k])).sum(-1) + np.abs(skip * u[k])
    gate = z / (1 + np.exp(-z))
    return compare(problem, at(problem, "y", b[None], t, d[None]), y * gate, 4 * magnitude * np.abs(gate))


def check_scan_backward(problem):
    """The last token's gradient is that of its own step."""
    batch, tokens, dim = problem.bench.arrays["u"].shape
    b, d = chosen(problem, batch, dim, count=64)
    t, n = np.full_like(b, tokens - 1), np.arange(problem.bench.arrays["a"].shape[1])
    delta, z, dy = (at(problem, name, b, t, d) for name in ("delta", "z", "dy"))
    g, step = dy * z / (1 + np.exp(-z)), np.log1p(np.exp(delta + at(problem, "delta_bias", d)))
    products = at(problem, "b", b[:, None], t[:, None], n) * at(problem, "c", b[:, None], t[:, None], n)
    skip = at(problem, "d_skip", d)
    size = np.abs(g) * (step * np.abs(products).sum(-1) + np.abs(skip))
    return compare(problem, at(problem, "du", b, t, d), g * (step * products.sum(-1) + skip), 4 * size)


def torch_scan(torch, t, scalars):
    F = torch.nn.functional

    def peer():
        step = F.softplus(t["delta"].float() + t["delta_bias"].float())
        u, b, c = (t[name].float() for name in ("u", "b", "c"))
        h = torch.zeros((*u[:, 0].shape, b.shape[-1]), device=u.device)
        rows = []
        for k in range(u.shape[1]):
            s = step[:, k, :, None]
            h = torch.exp(s * t["a"].float()) * h + s * u[:, k, :, None] * b[:, k, None]
            rows.append((h * c[:, k, None]).sum(-1))
        y = torch.stack(rows, 1) + u * t["d_skip"].float()
        return (y * F.silu(t["z"].float())).to(t["u"].dtype)

    return peer


def scan(batch, tokens, dim, states=16, dtypes=FLOATS, backward=False):
    x, of_states = Operand((batch, tokens, dim), "normal"), Operand((batch, tokens, states), "normal")
    arrays = {
        "u": x, "delta": x, "a": Operand((dim, states), -0.5), "b": of_states, "c": of_states,
        "d_skip": Operand((dim,), "normal"), "z": x, "delta_bias": Operand((dim,), "normal"),
    }  # fmt: skip
    if backward:
        arrays |= {"dy": x, "du": Operand(x.shape), "d_b": Operand(of_states.shape, 0.0)}
        arrays |= {
            "d_c": Operand(of_states.shape, 0.0),
            "d_delta": Operand(x.shape),
            "d_a": Operand((dim, states), 0.0),
        }
        arrays |= {"d_d": Operand((dim,), 0.0), "dz": Operand(x.shape), "d_delta_bias": Operand((dim,), 0.0)}
    else:
        arrays |= {"y": Operand(x.shape), "last_state": Operand((batch, dim, states))}
    return Bench(
        name=f"selective_scan{'_backward' * backward} {batch}x{tokens}x{dim}x{states}",
        row="selective_scan_{T}" + "_backward" * backward, dtypes=dtypes, arrays=arrays, workspace=backward,
        scalars={"delta_softplus": 1}, check=check_scan_backward if backward else check_scan,
        torch=() if backward else (torch_scan,), bounds=() if backward else (Bound("copy", 0.6), Bound("peer", 1.0)),
    )  # fmt: skip


# --- Mamba-2 ---------------------------------------------------------------------------------------------------------


def torch_chunks(torch, t, scalars):
    """Products of chunks of 64 tokens, and a loop over the chunks' states."""
    chunk = 64

    def peer():
        x, dt, b, c = (t[name].float() for name in ("x", "dt", "b", "c"))
        batch, tokens, heads, _ = x.shape
        x, b, c = (each.reshape(batch, tokens // chunk, chunk, *each.shape[2:]) for each in (x, b, c))
        dt = dt.reshape(batch, tokens // chunk, chunk, heads)
        log = (dt * t["a"].float()).cumsum(2)
        lower = torch.ones((chunk, chunk), dtype=torch.bool, device=x.device).tril()
        gap = torch.where(lower[..., None], log[:, :, :, None] - log[:, :, None], -torch.inf)
        scores = torch.einsum("bkthn,bkshn->bktsh", c, b) * gap.exp() * dt[:, :, None]
        y = torch.einsum("bktsh,bkshp->bkthp", scores, x)
        kept = (log[:, :, -1:] - log).exp() * dt
        states = torch.einsum("bksh,bkshp,bkshn->bkhpn", kept, x, b)
        h, before = torch.zeros_like(states[:, 0]), []
        for k in range(states.shape[1]):
            before.append(h)
            h = log[:, k, -1].exp()[..., None, None] * h + states[:, k]
        y = y + torch.einsum("bkthn,bkhpn,bkth->bkthp", c, torch.stack(before, 1), log.exp())
        return y.reshape(t["x"].shape).to(t["x"].dtype)

    return peer


def check_ssd(problem):
    batch, tokens, heads, width = problem.bench.arrays["x"].shape
    b, h, p = chosen(problem, batch, heads, width)
    t, n = np.arange(tokens)[:, None], np.arange(problem.bench.arrays["b"].shape[3])
    x, dt = at(problem, "x", b[None], t, h[None], p[None]), at(problem, "dt", b[None], t, h[None])
    of_b, of_c = (at(problem, name, b[None, :, None], t[..., None], h[None, :, None], n) for name in "bc")
    decay, state, size = np.exp(dt * at(problem, "a", h)), np.zeros(of_b[0].shape), np.zeros(of_b[0].shape)
    y, magnitude = np.zeros(x.shape), np.zeros(x.shape)
    for k in range(tokens):
        more = (dt[k] * x[k])[:, None] * of_b[k]
        state, size = decay[k][:, None] * state + more, decay[k][:, None] * size + np.abs(more)
        y[k], magnitude[k] = (state * of_c[k]).sum(-1), (size * np.abs(of_c[k])).sum(-1)
    return compare(problem, at(problem, "y", b[None], t, h[None], p[None]), y, 8 * magnitude, steps="bf16")


def check_ssd_backward(problem):
    """The last token's gradient is that of its own step."""
    batch, tokens, heads, width = problem.bench.arrays["x"].shape
    b, h, p = chosen(problem, batch, heads, width, count=64)
    t, n = np.full_like(b, tokens - 1), np.arange(problem.bench.arrays["b"].shape[3])
    of_b, of_c = (at(problem, name, b[:, None], t[:, None], h[:, None], n) for name in "bc")
    factor = at(problem, "dt", b, t, h) * at(problem, "dy", b, t, h, p)
    size = np.abs(factor) * np.abs(of_b * of_c).sum(-1)
    return compare(problem, at(problem, "dx", b, t, h, p), factor * (of_b * of_c).sum(-1), 4 * size)


def ssd(batch, tokens, heads, width=64, states=128, dtypes=FLOATS, backward=False):
    x, of_states = Operand((batch, tokens, heads, width), "normal"), Operand((batch, tokens, heads, states), "normal")
    dt = Operand((batch, tokens, heads), "probability")
    arrays = {"x": x, "dt": dt, "a": Operand((heads,), -0.5), "b": of_states, "c": of_states}
    if backward:
        arrays |= {"dy": x, "dx": Operand(x.shape), "d_b": Operand(of_states.shape), "d_c": Operand(of_states.shape)}
        arrays |= {"d_dt": Operand(dt.shape), "d_a": Operand((heads,))}
    else:
        arrays["y"] = Operand(x.shape)
    return Bench(
        name=f"ssd_chunk_scan{'_backward' * backward} {batch}x{tokens}x{heads}x{width}x{states}",
        row="ssd_chunk_scan_{T}" + "_backward" * backward, dtypes=dtypes, arrays=arrays, scalars={"chunk_size": 64},
        workspace=backward, check=check_ssd_backward if backward else check_ssd,
        torch=() if backward else (torch_chunks,), bounds=() if backward else (Bound("peer", 1.0),),
    )  # fmt: skip


# --- decoding --------------------------------------------------------------------------------------------------------


def torch_update(torch, t, scalars):
    F = torch.nn.functional

    def peer():
        step = F.softplus(t["dt"].float() + t["dt_bias"])[..., None, None]
        state = (
            torch.exp(step * t["a"][:, None]) * t["state"]
            + step * t["x"].float()[..., None] * t["b"].float()[:, :, None]
        )
        y = (state * t["c"].float()[:, :, None]).sum(-1) + t["d_skip"][:, None] * t["x"].float()
        return (y * F.silu(t["z"].float())).to(t["x"].dtype), state

    return peer


def check_update(problem):
    batch, heads, width, states = problem.bench.arrays["state"].shape
    b, h, p = chosen(problem, batch, heads, width, count=64)
    n, zero = np.arange(states), np.zeros_like(h)
    x, z = at(problem, "x", b, h, p), at(problem, "z", b, h, p)
    step = np.log1p(np.exp(at(problem, "dt", b, h) + at(problem, "dt_bias", h)))
    own = np.exp(step * at(problem, "a", h, zero))[:, None] * at(
        problem, "state", b[:, None], h[:, None], p[:, None], n
    )
    more = (step * x)[:, None] * at(problem, "b", b[:, None], zero[:, None], n)
    c, skip = at(problem, "c", b[:, None], zero[:, None], n), at(problem, "d_skip", h) * x
    y, size = ((own + more) * c).sum(-1) + skip, ((np.abs(own) + np.abs(more)) * np.abs(c)).sum(-1) + np.abs(skip)
    gate = z / (1 + np.exp(-z))
    return compare(problem, at(problem, "y", b, h, p), y * gate, 4 * size * np.abs(gate))


def update(batch, heads, width=64, states=128, dtypes=FLOATS):
    x, state, of_b = (Operand(shape, "normal") for shape in
                      ((batch, heads, width), (batch, heads, width, states), (batch, 1, states)))  # fmt: skip
    heads_of = Operand((heads,), "normal")
    arrays = {
        "state": state, "x": x, "dt": Operand((batch, heads), "normal"), "a": Operand((heads, 1), -0.5), "b": of_b,
        "c": of_b, "d_skip": heads_of, "z": x, "dt_bias": heads_of, "y": Operand(x.shape),
        "new_state": Operand(state.shape),
    }  # fmt: skip
    return Bench(
        name=f"selective_state_update {batch}x{heads}x{width}x{states}", row="selective_state_update_{T}",
        dtypes=dtypes, arrays=arrays, scalars={"dt_softplus": 1, "is_per_head": 1, "groups": 1, "dstate": states},
        check=check_update, torch=(torch_update,), bounds=(Bound("copy", 0.8), Bound("peer", 1.0)),
    )  # fmt: skip


def benches(backend):
    if backend == "cuda":
        yield from (conv(1, 4096, 4096), conv(8, 4096, 2048), conv(8, 4096, 2048, backward=True))
        yield from (scan(8, 2048, 2048), scan(8, 2048, 2048, backward=True))
        yield from (ssd(2, 4096, 80), ssd(2, 4096, 80, backward=True), update(128, 80))
    else:
        yield from (conv(1, 768, 1024), conv(1, 768, 1024, backward=True), scan(1, 512, 768), ssd(1, 512, 12))
        yield from (scan(1, 512, 768, backward=True), ssd(1, 512, 12, backward=True), update(4, 24))


def sweeps(backend):
    """Channels, tokens, widths, states and batches."""
    big = backend == "cuda"
    channels = (32, 64, 96, 257, 512, 1024, 2048, 4096) if big else (16, 48, 100, 256, 768)
    tokens = (1, 31, 32, 63, 64, 65, 257, 1024, 4096, 16384) if big else (1, 31, 33, 128, 512)
    batch = 4 if big else 1
    few = ("bf16",)
    yield Sweep(name="causal_conv1d", axis="channels", points={c: conv(batch, c, 1024, dtypes=few) for c in channels})
    yield Sweep(
        name="causal_conv1d, tokens",
        axis="seqlen",
        points={t: conv(batch, 768, t, dtypes=few) for t in tokens if t > 8},
    )
    yield Sweep(name="selective_scan", axis="dim", points={c: scan(batch, 512, c, dtypes=few) for c in channels})
    yield Sweep(
        name="selective_scan, tokens", axis="seqlen", points={t: scan(batch, t, 256, dtypes=few) for t in tokens}
    )
    states = (1, 8, 16, 17, 64, 128, 256)
    yield Sweep(name="selective_scan, states", axis="dstate", points={n: scan(batch, 256, 256, n, few) for n in states})
    whole = (64, 128, 1024, 4096, 16384) if big else (64, 128, 256, 512)  # chunks of 64
    yield Sweep(name="ssd_chunk_scan", axis="seqlen", points={t: ssd(batch, t, 8, dtypes=few) for t in whole})
    yield Sweep(
        name="ssd_chunk_scan, states", axis="state_dim", points={n: ssd(batch, 256, 8, 64, n, few) for n in states}
    )
    batches = (1, 4, 16, 64, 256) if big else (1, 4, 16, 64)
    yield Sweep(name="selective_state_update", axis="batch", points={b: update(b, 24, dtypes=few) for b in batches})
