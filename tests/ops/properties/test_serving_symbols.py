# SPDX-License-Identifier: Apache-2.0
"""The reference's serving symbols, which are functions beside the rows: against float64, and what they refuse."""

import numpy as np
import pytest

from cases.attention.oracle import Rules, forward
from cases.attention.serving.pages import Pages, offsets
from cases.attention.serving.states import hyper, hyper_reference
from cases.model import Draw
from harness import NAN_POISON, Guarded, decode, encode, last_error, memory_of

LENGTHS, QUERIES = (33, 0, 7, 1, 18, 5, 64), (3, 2, 0, 1, 18, 7, 5)
BOUND = {"f32": 2e-6, "f16": 3e-3, "bf16": 2e-2}


class Device:
    """Arrays in the library's memory, and calls of its functions by name."""

    def __init__(self, library):
        self.library, self.memory, self.live = library, memory_of(library.backend), []

    def put(self, values, dtype):
        values = np.asarray(values, np.float64 if dtype[0] in "fb" else np.int64)
        array = Guarded(self.memory, dtype, values.shape, bits=encode(values, dtype))
        self.live.append(array)
        return array

    def empty(self, shape, dtype):
        array = Guarded(self.memory, dtype, shape, poison=NAN_POISON)
        self.live.append(array)
        return array

    def values(self, array):
        self.memory.synchronize()
        return np.asarray(decode(array.bits(), array.dtype))

    def call(self, name, *arguments):
        ffi = self.library.ffi
        given = [
            ffi.cast("void*", a.pointer) if isinstance(a, Guarded) else ffi.NULL if a is None else a for a in arguments
        ]
        return getattr(self.library.lib, f"baracuda_kernels_{name}")(*given)


@pytest.fixture
def device(library):
    return Device(library)


class Cache:
    def __init__(self, device, dtype, kv_heads, d, page_size, poison="kv", lengths=LENGTHS, seed="cache"):
        draw = Draw({"T": dtype}, seed)
        self.pages = Pages(draw.rng, lengths, page_size)
        self.k, self.v = (self.pages.fill(draw, kv_heads, d, dtype, x in poison).values for x in "kv")
        self.on_device = [device.put(self.k, dtype), device.put(self.v, dtype)]
        self.table = [device.put(x, "i32") for x in (self.pages.ids, self.pages.offsets, self.pages.last)]

    def rows(self, b, head):
        pages, slots = self.pages.slots(b)
        return self.k[pages, head, slots], self.v[pages, head, slots]


def attend(q, k, v, scale, seen):
    """y, lse, weights and sums of |weight value| of one head, float64."""
    found = forward(q[None, None], k[None, None], v[None, None], Rules(scale=scale, keep=seen))
    y, lse, weights = (found[name] for name in ("y", "lse", "attn"))
    return y.value[0, 0], lse.value[0, 0], weights.value[0, 0], y.magnitude[0, 0]


def visible(rows, keys, is_causal):
    """The last query sees the last key."""
    return np.arange(keys) <= np.arange(rows)[:, None] + (keys - rows if is_causal else keys)


def check(y, lse, q, rows_of, group, scale, dtype, *, is_causal=False, starts=None):
    """y and lse of base 2 [row, head, ...] against the formula; rows_of(b, kv head) gives keys and values."""
    for b in range(len(starts) - 1):
        at = slice(starts[b], starts[b + 1])
        for h in range(q.shape[1]):
            k, v = rows_of(b, h // group)
            seen = visible(starts[b + 1] - starts[b], len(k), is_causal)
            value, natural, _, size = attend(q[at, h], k, v, scale, seen)
            assert np.all(np.abs(y[at, h] - value) <= BOUND[dtype] * (size + 1)), (b, h)
            np.testing.assert_allclose(lse[at, h], natural / np.log(2), atol=2e-5 * (1 + 40 * (dtype != "f32")))


@pytest.mark.parametrize("poison", ["k", "v", "kv"])
@pytest.mark.parametrize("page_size", [1, 5, 16])
@pytest.mark.parametrize(("heads", "kv_heads", "d"), [(2, 2, 64), (5, 1, 128), (14, 2, 40), (16, 1, 256)])
@pytest.mark.parametrize("dtypes", ["f16", "bf16", "f32", "f16_e4m3", "f16_e5m2", "bf16_e4m3", "bf16_e5m2"])
def test_paged_decode(device, dtypes, heads, kv_heads, d, page_size, poison):
    dtype, _, narrow = dtypes.partition("_")
    for batch in (1, 7) if page_size == 5 else (3,):
        cache = Cache(device, f"fp8{narrow}" if narrow else dtype, kv_heads, d, page_size, poison, LENGTHS[:batch])
        q = Draw({"T": dtype}, "q").floats((batch, heads, d)).values
        o, lse = device.empty((batch, heads, d), dtype), device.empty((batch, heads), "f32")
        size = device.call("flashinfer_paged_decode_workspace_size", batch)
        assert size == 4 * (3 * batch + 2)
        workspace = device.empty((size,), "u8")
        status = device.call(
            f"flashinfer_paged_decode_{dtypes}_run", batch, page_size, d, heads, kv_heads, 0.125, *cache.on_device,
            *cache.table, device.put(q, dtype), o, lse, workspace, size, None,
        )  # fmt: skip
        assert status == 0
        check(
            device.values(o),
            device.values(lse),
            q,
            cache.rows,
            heads // kv_heads,
            0.125,
            dtype,
            starts=range(batch + 1),
        )


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("page_size", [1, 5, 16])
@pytest.mark.parametrize(("heads", "kv_heads", "d"), [(5, 1, 128), (14, 2, 40), (4, 2, 64)])
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_paged_prefill(device, dtype, heads, kv_heads, d, page_size, causal):
    cache, starts = Cache(device, dtype, kv_heads, d, page_size), offsets(QUERIES)
    q = Draw({"T": dtype}, "q").floats((starts[-1], heads, d)).values
    o, lse = device.empty(q.shape, dtype), device.empty(q.shape[:2], "f32")
    status = device.call(
        f"flashinfer_paged_prefill_{dtype}_run", len(LENGTHS), int(starts[-1]), page_size, d, heads, kv_heads, 0.125,
        causal, 1, *cache.on_device, *cache.table, device.put(q, dtype), device.put(starts, "i32"), o, lse, None,
    )  # fmt: skip
    assert status == 0
    check(device.values(o), device.values(lse), q, cache.rows, heads // kv_heads, 0.125, dtype, is_causal=causal,
          starts=starts)  # fmt: skip


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize(("heads", "kv_heads", "d"), [(5, 1, 128), (14, 2, 40), (4, 2, 64)])
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_ragged_prefill(device, dtype, heads, kv_heads, d, causal):
    draw, starts, keys = Draw({"T": dtype}, "ragged"), offsets(QUERIES), offsets(LENGTHS)
    q, k, v = (
        draw.floats((n, h, d)).values for n, h in ((starts[-1], heads), (keys[-1], kv_heads), (keys[-1], kv_heads))
    )
    o, lse = device.empty(q.shape, dtype), device.empty(q.shape[:2], "f32")
    status = device.call(
        f"flashinfer_ragged_prefill_{dtype}_run", len(LENGTHS), int(starts[-1]), int(keys[-1]), d, heads, kv_heads,
        0.125, causal, 0, device.put(k, dtype), device.put(v, dtype), device.put(keys, "i32"), device.put(q, dtype),
        device.put(starts, "i32"), o, lse, None,
    )  # fmt: skip
    assert status == 0

    def rows(b, head):
        return k[keys[b] : keys[b + 1], head], v[keys[b] : keys[b + 1], head]

    check(
        device.values(o), device.values(lse), q, rows, heads // kv_heads, 0.125, dtype, is_causal=causal, starts=starts
    )


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32"])
@pytest.mark.parametrize(("heads", "d", "page_size"), [(1, 64, 1), (3, 40, 5), (200, 16, 16), (2, 7, 4)])
def test_paged_append(device, dtype, heads, d, page_size):
    """The new token is at slot last_page_len - 1; a sequence of length 0, with a page or without, writes nothing."""
    lengths = (33, 0, 7, 1, 16)
    draw, cache = Draw({"T": dtype}, "append"), Cache(device, dtype, heads, d, page_size, "", lengths)
    new = [draw.floats((len(lengths), heads, d), "special").values for _ in "kv"]
    last = cache.pages.last.copy()
    last[3] = 0  # its page is there, but no slot of it
    status = device.call(
        f"flashinfer_paged_kv_append_decode_{dtype}_run", len(lengths), page_size, heads, d, *cache.on_device,
        *cache.table[:2], device.put(last, "i32"), *[device.put(x, dtype) for x in new], None,
    )  # fmt: skip
    assert status == 0
    for old, fresh, array in zip((cache.k, cache.v), new, cache.on_device):
        wanted = old.copy()
        for b in (0, 2, 4):
            pages, slots = cache.pages.slots(b)
            wanted[pages[-1], :, slots[-1]] = fresh[b]
        device.memory.synchronize()
        np.testing.assert_array_equal(array.bits(), encode(wanted, dtype))


def test_decode_refuses(device):
    good = {"batch_size": 2, "page_size": 4, "head_dim": 8, "num_qo_heads": 6, "num_kv_heads": 3}
    memory = device.empty((4096,), "u8")

    def run(workspace=memory, size=64, null=-1, **changes):
        pointers = [None if k == null else memory for k in range(8)]
        numbers = {**good, **changes}.values()
        return device.call("flashinfer_paged_decode_f16_run", *numbers, 1.0, *pointers, workspace, size, None)

    for name in good:
        assert run(**{name: 0}) == 2 and f"{name} is 0, must be > 0" in last_error(device.library)
        assert device.call("flashinfer_paged_decode_can_implement", *{**good, name: -1}.values()) == 2
        assert device.call("flashinfer_paged_decode_bf16_e4m3_can_implement", *{**good, name: -1}.values(), 1.0) == 2
    assert run(num_qo_heads=7) == 2 and "must be a multiple of num_kv_heads, 3" in last_error(device.library)
    for k, name in enumerate(("k_data", "v_data", "indices", "indptr", "last_page_len", "q", "o", "lse")):
        assert run(null=k) == 2 and last_error(device.library).endswith(f": {name} is NULL")
    assert run(workspace=None) == 2 and run(size=31) == 2
    assert device.call("flashinfer_paged_decode_can_implement", 5000, 3, 13, 77, 7) == 0
    assert device.call("flashinfer_paged_decode_workspace_size", 0) == 0
    assert device.call("flashinfer_ragged_prefill_can_implement", 1, 1, 0, 1, 1, 1) == 2
    assert device.call("flashinfer_paged_prefill_f16_can_implement", 1, 1, 1, 1, 1, 1, 1.0, 0, 0) == 0
    assert device.call("flashinfer_merge_states_can_implement", 1, 1, 1, 0) == 2
    assert device.call("flashinfer_merge_state_in_place_can_implement", 1, 1, 1) == 0
    assert device.call("flashinfer_paged_kv_append_decode_can_implement", 1, 1, -1, 1) == 2


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize(
    ("batch", "heads", "kv_heads", "keys", "d"), [(2, 10, 2, 300, 64), (1, 3, 3, 5, 40), (3, 4, 1, 0, 16)]
)
def test_flash_decoding(device, dtype, batch, heads, kv_heads, keys, d):
    """Strides of [batch, key, head, element]; a and a_mean are f32."""
    draw = Draw({"T": dtype}, "decode")
    q, k, v = (
        draw.floats(s).values for s in ((batch, heads, d), (batch, keys, kv_heads, d), (batch, keys, kv_heads, d))
    )
    y, a = device.empty((batch, heads, d), dtype), device.empty((batch, heads, keys), "f32")
    mean = device.empty((batch, keys), "f32")
    size = device.call(f"flash_decoding_{dtype}_workspace_bytes", batch, heads, keys, d)
    assert size == 4 * batch * heads * -(-keys // 256) * (2 + d)
    arguments = [device.put(x, dtype) for x in (q, k, v)]
    strides = (heads * d, d, *2 * (keys * kv_heads * d, d, kv_heads * d), heads * d, d)
    tail = (batch, heads, kv_heads, keys, d, *strides, 0.125, None)
    workspace = device.empty((max(size, 1),), "u8")
    run = f"flash_decoding_{dtype}_run"
    assert device.call(run, *arguments, y, a, mean, workspace, size, *tail) == 0
    found, weights, means = (device.values(x) for x in (y, a, mean))
    for b in range(batch):
        for h in range(heads):
            g = h // (heads // kv_heads)
            value, _, wanted, total = attend(q[b, h][None], k[b, :, g], v[b, :, g], 0.125, np.ones((1, keys), bool))
            assert np.all(np.abs(found[b, h] - value[0]) <= BOUND[dtype] * (total[0] + 1))
            np.testing.assert_allclose(weights[b, h], wanted[0], atol=1e-5)
    np.testing.assert_allclose(means, weights.mean(axis=1), atol=1e-6)
    if size:
        assert device.call(run, *arguments, y, None, None, workspace, size - 1, *tail) == 4
        assert device.call(run, *arguments, y, None, None, None, 0, *tail) == 4
    assert device.call(run, *arguments, y, None, mean, workspace, size, *tail) == 2
    assert device.call(f"flash_decoding_{dtype}_can_implement", batch, heads, kv_heads + 1, keys, d) == 2 * (
        heads % (kv_heads + 1) != 0
    )
    assert device.call(f"flash_decoding_{dtype}_can_implement", batch, heads, kv_heads, -1, d) == 2


def test_ring_workspace(device):
    assert device.call("ring_attention_workspace_bytes", 2, 3, 5, 7) == 4 * 2 * 3 * 5 * 9
    assert device.call("ring_attention_workspace_bytes", 2, 0, 5, 7) == 0


@pytest.mark.parametrize("is_causal", [0, 1])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32"])
def test_ring_is_attention(device, dtype, order, is_causal):
    """Chunks in any order give attention over all keys."""
    draw, (batch, heads, rows, chunk, d) = Draw({"T": dtype}, "ring"), (2, 3, 9, 12, 128)
    q, k, v = (draw.floats((batch, heads, n, d)).values for n in (rows, 3 * chunk, 3 * chunk))
    o, m, total = (
        device.empty(s, "f32") for s in ((batch, heads, rows, d), (batch, heads, rows), (batch, heads, rows))
    )
    assert (
        device.call("ring_attention_init_run", o, m, total, batch * heads * rows * d, batch * heads * rows, None) == 0
    )
    on_device = device.put(q, dtype)
    for c in order:
        part = [device.put(x[:, :, c * chunk : (c + 1) * chunk], dtype) for x in (k, v)]
        status = device.call(f"ring_attention_{dtype}_step_run", batch, heads, rows, chunk, d, 20, c * chunk, 0.125,
                             is_causal, on_device, *part, o, m, total, None)  # fmt: skip
        assert status == 0
    y, lse = device.empty(q.shape, dtype), device.empty(q.shape[:3], dtype)
    assert device.call(f"ring_attention_{dtype}_finalize_run", batch, heads, rows, d, o, m, total, y, lse, None) == 0
    seen = (
        np.arange(3 * chunk)[None] <= 20 + np.arange(rows)[:, None] if is_causal else np.ones((rows, 3 * chunk), bool)
    )
    for b in range(batch):
        for h in range(heads):
            value, natural, _, size = attend(q[b, h], k[b, h], v[b, h], 0.125, seen)
            assert np.all(np.abs(device.values(y)[b, h] - value) <= BOUND[dtype] * (size + 1))
            np.testing.assert_allclose(device.values(lse)[b, h], natural, rtol=BOUND[dtype] * 2)


@pytest.mark.parametrize("n", [1, 4, 16, 17, 31])
def test_mhc_layer(device, n):
    problem = hyper(Draw({"T": "f32"}, "mhc"), "bf16", (3, 70, n))
    s = problem.scalars
    handle = device.call("mhc_layer_static_bf16_create", 3, 70, n, s["sinkhorn_iters"], s["eps"])
    assert handle != device.library.ffi.NULL
    arrays = [device.put(problem.arrays[name].values, problem.arrays[name].dtype)
              for name in ("x", "gamma", "h_pre", "h_post", "h_res")]  # fmt: skip
    out = device.empty((3, n, 70), "f32")
    run = "mhc_layer_static_bf16_run"
    assert device.call(run, handle, *arrays, out, 3, 70, n, None, 0, None) == 0
    wanted = hyper_reference(problem)["out"]
    assert np.all(np.abs(device.values(out) - wanted.value) <= 1e-5 * (wanted.magnitude + 1))
    assert device.call(run, handle, *arrays, out, 2, 70, n, None, 0, None) == 3
    assert device.call(run, handle, None, *arrays[1:], out, 3, 70, n, None, 0, None) == 2
    assert device.call(run, None, *arrays, out, 3, 70, n, None, 0, None) == 2
    device.call("mhc_layer_static_bf16_destroy", handle)
    device.call("mhc_layer_static_bf16_destroy", None)


def test_mhc_refuses(device):
    null, create = device.library.ffi.NULL, "mhc_layer_static_bf16_create"
    for numbers in ((0, 8, 4, 20, 1e-5), (1, 8, 32, 20, 1e-5), (1, 8, 4, 0, 1e-5), (1, 8, 4, 1001, 1e-5),
                    (1, 8, 4, 20, 0.0), (1, 8, 4, 20, 1.0), (1, 8, 4, 20, float("nan"))):  # fmt: skip
        assert device.call(create, *numbers) == null
    can = "mhc_layer_static_bf16_can_implement"
    assert [device.call(can, *n) for n in ((1, 8, 4), (1, 0, 4), (1, 64, 32), (1, 3, 4))] == [0, 2, 3, 2]
