# SPDX-License-Identifier: Apache-2.0
"""Eigenvalues, singular values and what follows from them, of matrices with known values.

Values are apart, so that vectors are definite; their phase makes the first element whose modulus is within 1/1000 of
the largest real and positive. A backward error of c n eps |A| moves a vector by as much over the gap to the next value.
"""

import math

import numpy as np

from tools.oracle.numerics import COMPLEX, round_to

from ..model import Bad, Case, Expected, Idle, Problem, strides_for

REAL = {"c32": "f32", "c64": "f64"}
COMPLEX_OF = {"f32": "c32", "f64": "c64"}
LAYOUTS = {
    "dense": {}, "columns": {"order": (0, 2, 1)}, "pitch": {"pad": 3}, "last_batch": {"order": (1, 2, 0)},
    "reversed": {"flip": (0, 1, 2)}, "gap": {"gap": 2}, "one": {"broadcast": (0,)},
}  # fmt: skip


def unitary(rng, batch, m, n, is_complex):
    a = rng.standard_normal((batch, m, m)) + (1j * rng.standard_normal((batch, m, m)) if is_complex else 0)
    return np.linalg.qr(a)[0][..., :n] if m else np.zeros((batch, m, n))


def spread(rng, batch, n, low):
    """n values, between 1 and 2 apart, from `low` on, in any order."""
    values = low + np.cumsum(1 + rng.random((batch, n)), -1)
    return rng.permuted(values, axis=-1)


def rounded(draw, a, strides):
    """The array in the dtype, with a layout of LAYOUTS."""
    real = REAL.get(draw.dtype, draw.dtype)
    if draw.dtype in COMPLEX:
        a = round_to(a.real, real).reshape(a.shape) + 1j * round_to(a.imag, real).reshape(a.shape)
    else:
        a = round_to(a.real, real).reshape(a.shape)
    return draw.array(a, draw.dtype, strides)


def phases(vectors):
    """The factors that make vectors (..., n, k) definite."""
    size = np.abs(vectors)
    if not size.shape[-2]:
        return np.ones((*size.shape[:-2], 1, size.shape[-1]))
    first = np.argmax(size**2 >= 0.998 * (size**2).max(-2, keepdims=True), -2)[..., None, :]
    found = np.take_along_axis(vectors, first, -2)
    return np.conj(found) / np.where(found == 0, 1, np.abs(found))


def gaps(values, others=()):
    """The distance of each value to the next one, and to `others`."""
    apart = np.abs(values[..., :, None] - values[..., None, :])
    apart[..., range(values.shape[-1]), range(values.shape[-1])] = np.inf
    found = apart.min(-1, initial=np.inf)
    for other in others:
        found = np.minimum(found, np.abs(values - other))
    return found


def bounded(value, count, magnitude):
    return Expected(value, count, np.broadcast_to(magnitude, value.shape))


def is_finite(a):
    return np.isfinite(a).all((-1, -2))


def of_finite(function, a, shapes):
    """The results of a function of one matrix, NaN for one that is not finite."""
    made = [function(each) if np.isfinite(each).all() else None for each in a]
    return [
        np.stack([np.full(shape, np.nan) if each is None else each[k] for each in made])
        if made
        else np.zeros((0, *shape))
        for k, shape in enumerate(shapes)
    ]


def spoilt(a, spoils):
    """Puts values into elements of matrices of the batch."""
    for at, value in spoils.items():
        a[at] = value
    return a


# --- Hermitian matrices
# ------------------------------------------------------------------------------------------------


def eigh(draw, batch, n, *, upper=0, layout="dense", of_v="dense", null=(), spoils=None, scale=1.0):
    rng, is_complex = draw.rng, draw.dtype in COMPLEX
    q, w = unitary(rng, batch, n, n, is_complex), spread(rng, batch, n, -n * 0.7)
    a = (q * w[:, None]) @ np.conj(np.swapaxes(q, 1, 2)) * scale
    # The other triangle is not read.
    a = spoilt(a + np.triu(rng.standard_normal(a.shape), 1) * (not upper), spoils or {})
    strides, of_v = (strides_for(a.shape, **LAYOUTS[each]) for each in (layout, of_v))
    arrays = {
        "a": rounded(draw, a, strides), "w": draw.output((batch, n), None, REAL.get(draw.dtype, draw.dtype)),
        "v": draw.output((batch, n, n), of_v), "info": draw.output((batch,), None, "i32"),
    }  # fmt: skip
    return Problem({"batch": batch, "n": n, "upper": upper}, arrays, {"stride_a": strides, "stride_v": of_v}, null)


def eigh_reference(problem):
    a, n = problem.arrays["a"].values, problem.scalars["n"]
    half = np.triu(a) if problem.scalars["upper"] else np.tril(a)
    middle = np.real(np.diagonal(half, 0, 1, 2))[..., None] * np.eye(n)
    half = np.where(np.eye(n) == 1, 0, half)
    whole = half + np.conj(np.swapaxes(half, 1, 2)) + middle
    w, v = of_finite(np.linalg.eigh, whole, ((n,), (n, n)))
    v = v * phases(v)
    norm = np.abs(w).max(-1, keepdims=True, initial=0)
    with np.errstate(invalid="ignore"):
        apart = 1 + norm / gaps(w)
    info = np.where(is_finite(whole), 0, n + 1)
    found = {"w": bounded(w, n, norm), "v": bounded(v, n, apart[:, None]), "info": Expected(info)}
    return {name: each for name, each in found.items() if name not in problem.null}


EIGH = {
    "one": lambda d: eigh(d, 1, 1),
    "plain": lambda d: eigh(d, 2, 5),
    "upper": lambda d: eigh(d, 2, 5, upper=1, layout="pitch"),
    "two": lambda d: eigh(d, 3, 2, layout="columns", of_v="columns"),
    "tiny": lambda d: eigh(d, 70, 3, layout="last_batch", of_v="last_batch"),
    "eight": lambda d: eigh(d, 33, 8, of_v="pitch"),
    "nine": lambda d: eigh(d, 3, 9, layout="reversed", of_v="reversed"),
    "warp": lambda d: eigh(d, 2, 32, upper=1, layout="columns"),
    "above_a_warp": lambda d: eigh(d, 2, 33, layout="gap", of_v="gap"),
    "block": lambda d: eigh(d, 1, 70, of_v="columns"),
    "one_matrix": lambda d: eigh(d, 3, 4, layout="one"),
    "values": lambda d: eigh(d, 3, 12, null=("v", "info")),
    "bad_member": lambda d: eigh(d, 4, 6, spoils={(1, 4, 2): np.nan, (3, 5, 5): np.inf}),
    "bad_members_of_threads": lambda d: eigh(d, 40, 3, null=("v",), spoils={(1, 2, 0): np.nan, (35, 1, 1): -np.inf}),
    "large_values": lambda d: eigh(d, 1, 6, scale=2.0**100),
    "small_values": lambda d: eigh(d, 1, 6, scale=2.0**-110),
    "empty": lambda d: eigh(d, 3, 0),
    "large": lambda d: eigh(d, 3, 40),
    "all_blocks": lambda d: eigh(d, 1, 131, layout="columns", of_v="pitch"),
    "all_blocks_upper": lambda d: eigh(d, 2, 129, upper=1, layout="reversed", spoils={(1, 4, 128): np.inf}),
}  # fmt: skip


# --- singular values
# ---------------------------------------------------------------------------------------------------


def singular(draw, batch, m, n, *, rank=None, spoils=None, scale=1.0):
    rng, is_complex, k = draw.rng, draw.dtype in COMPLEX, min(m, n)
    s = spread(rng, batch, k, 1.0) * scale
    s[:, k if rank is None else rank :] = 0
    u, v = unitary(rng, batch, m, k, is_complex), unitary(rng, batch, n, k, is_complex)
    return spoilt((u * s[:, None]) @ np.conj(np.swapaxes(v, 1, 2)), spoils or {})


def svd(draw, batch, m, n, full=0, *, layout="dense", out="dense", null=(), spoils=None, scale=1.0):
    a, k = singular(draw, batch, m, n, spoils=spoils, scale=scale), min(m, n)
    shapes = {"a": (batch, m, n), "u": (batch, m, m if full else k), "vh": (batch, n if full else k, n)}
    strides = {name: strides_for(shape, **LAYOUTS[layout if name == "a" else out]) for name, shape in shapes.items()}
    arrays = {
        "a": rounded(draw, a, strides["a"]), "s": draw.output((batch, k), None, REAL.get(draw.dtype, draw.dtype)),
        "u": draw.output(shapes["u"], strides["u"]), "vh": draw.output(shapes["vh"], strides["vh"]),
        "info": draw.output((batch,), None, "i32"),
    }  # fmt: skip
    host = {f"stride_{name}": each for name, each in strides.items()}
    return Problem({"batch": batch, "m": m, "n": n, "full_matrices": full}, arrays, host, null)


def svd_reference(problem):
    a, s = problem.arrays["a"].values, problem.scalars
    m, n, k, full = s["m"], s["n"], min(s["m"], s["n"]), bool(s["full_matrices"])
    if not k:
        eye = [np.broadcast_to(np.eye(e if full else 0, e), (s["batch"], e if full else 0, e)) for e in (m, n)]
        found = {"s": Expected(np.zeros((s["batch"], 0))), "u": bounded(np.swapaxes(eye[0], 1, 2), 1, 0.0),
                 "vh": bounded(eye[1], 1, 0.0), "info": Expected(np.zeros(s["batch"], int))}  # fmt: skip
        return {name: each for name, each in found.items() if name not in problem.null}
    of_u, of_v = (m, m if full else k), (n if full else k, n)
    u, values, vh = of_finite(lambda each: np.linalg.svd(each, full_matrices=full), a, (of_u, (k,), of_v))
    both, extra = phases(u[..., :k]), [np.swapaxes(np.conj(vh[:, k:]), 1, 2), u[..., k:]]
    vh[:, :k] *= np.conj(np.swapaxes(both, 1, 2))
    vh[:, k:] = np.conj(np.swapaxes(extra[0] * phases(extra[0]), 1, 2))
    u = np.concatenate([u[..., :k] * both, extra[1] * phases(extra[1])], -1)
    norm = values.max(-1, keepdims=True)
    with np.errstate(invalid="ignore"):
        apart = 1 + norm / gaps(values, () if m == n else (0.0,))
        widest = np.concatenate([apart, np.repeat(1 + norm / values.min(-1, keepdims=True), abs(m - n), -1)], -1)
    info = np.where(is_finite(a), 0, k + 1)
    found = {
        "s": bounded(values, m + n, norm), "u": bounded(u, m + n, widest[:, None, : u.shape[2]]),
        "vh": bounded(vh, m + n, widest[:, : vh.shape[1], None]), "info": Expected(info),
    }  # fmt: skip
    return {name: each for name, each in found.items() if name not in problem.null}


# Full matrices have one vector at most beside the singular ones: several would not be definite.
SVD = {
    "one": lambda d: svd(d, 1, 1, 1),
    "plain": lambda d: svd(d, 2, 5, 3),
    "wide": lambda d: svd(d, 2, 3, 7, layout="columns", out="columns"),
    "full": lambda d: svd(d, 2, 5, 4, 1, layout="pitch"),
    "full_wide": lambda d: svd(d, 2, 6, 7, 1, out="reversed"),
    "full_square": lambda d: svd(d, 2, 6, 6, 1),
    "row": lambda d: svd(d, 3, 1, 6),
    "column": lambda d: svd(d, 3, 6, 1),
    "tiny": lambda d: svd(d, 70, 3, 3, layout="last_batch", out="last_batch"),
    "eight": lambda d: svd(d, 33, 8, 7, out="pitch"),
    "nine": lambda d: svd(d, 3, 9, 9, layout="reversed"),
    "warp": lambda d: svd(d, 2, 32, 32),
    "above_a_warp": lambda d: svd(d, 2, 33, 20, layout="gap", out="gap"),
    "block": lambda d: svd(d, 1, 20, 70),
    "square_block": lambda d: svd(d, 1, 40, 40),
    "one_matrix": lambda d: svd(d, 3, 4, 3, layout="one"),
    "values": lambda d: svd(d, 3, 12, 9, null=("u", "vh", "info")),
    "left": lambda d: svd(d, 2, 6, 9, null=("vh",)),
    "right": lambda d: svd(d, 2, 6, 9, null=("u",)),
    "bad_member": lambda d: svd(d, 4, 6, 5, spoils={(1, 4, 2): np.nan, (3, 5, 4): np.inf}),
    "bad_wide_member": lambda d: svd(d, 4, 5, 6, 1, spoils={(1, 4, 2): np.nan, (3, 4, 4): -np.inf}),
    "large_values": lambda d: svd(d, 1, 6, 4, scale=2.0**100),
    "small_values": lambda d: svd(d, 1, 6, 4, scale=2.0**-110),
    "no_rows": lambda d: svd(d, 3, 0, 4, 1),
    "no_columns": lambda d: svd(d, 3, 4, 0, 1),
    "nothing": lambda d: svd(d, 3, 0, 4, 0),
    "large": lambda d: svd(d, 3, 40, 36),
    "all_blocks": lambda d: svd(d, 1, 131, 131, out="columns"),
    "all_blocks_full": lambda d: svd(d, 1, 131, 130, 1, layout="pitch"),
    "all_blocks_wide": lambda d: svd(d, 2, 129, 135, out="reversed", spoils={(1, 4, 120): np.nan}),
}  # fmt: skip


# --- general matrices
# --------------------------------------------------------------------------------------------------


def eig(draw, batch, n, *, layout="dense", out="dense", null=(), spoils=None, scale=1.0, pairs=True):
    """Matrices with eigenvalues whose real parts are apart, of which every second two of a real one are a pair."""
    rng, is_complex = draw.rng, draw.dtype in COMPLEX
    x = np.eye(n) + 0.4 / math.sqrt(max(n, 1)) * rng.standard_normal((batch, n, n))
    d = np.eye(n) * spread(rng, batch, n, -n * 0.7)[:, None].astype(complex)
    if is_complex:
        d, x = d * (1 + 0.5j), x + 0.3j / math.sqrt(max(n, 1)) * rng.standard_normal((batch, n, n))
    else:
        for k in range(1, n - 1, 4) if pairs else ():
            d[:, k + 1, k + 1] = d[:, k, k]
            d[:, k, k + 1], d[:, k + 1, k] = 0.7, -0.7
    a = spoilt(x @ d @ np.linalg.inv(x) * scale, spoils or {})
    strides, of_v = (strides_for(a.shape, **LAYOUTS[each]) for each in (layout, out))
    dtype = COMPLEX_OF.get(draw.dtype, draw.dtype)
    arrays = {
        "a": rounded(draw, a, strides), "w": draw.output((batch, n), None, dtype),
        "v": draw.output((batch, n, n), of_v, dtype), "vl": draw.output((batch, n, n), of_v, dtype),
        "info": draw.output((batch,), None, "i32"),
    }  # fmt: skip
    host = {"stride_a": strides, "stride_v": of_v, "stride_vl": of_v}
    return Problem({"batch": batch, "n": n}, arrays, host, null)


def eig_reference(problem):
    a, n = problem.arrays["a"].values, problem.scalars["n"]
    w, v = of_finite(np.linalg.eig, a, ((n,), (n, n)))
    w = w.astype(complex)
    real = np.round(w.real / np.abs(w).max(-1, keepdims=True, initial=1e-300), 9)
    order = np.lexsort((-w.imag, np.abs(w.imag), real), -1)
    w, v = np.take_along_axis(w, order, -1), np.take_along_axis(v, order[:, None], -1)
    (left,) = of_finite(lambda each: (np.conj(np.linalg.inv(each).T),), v, ((n, n),))
    left = left / np.linalg.norm(left, axis=-2, keepdims=True)
    # An eigenvalue moves by the backward error over the cosine of its left and right vectors.
    condition = 1 / np.abs(np.sum(np.conj(left) * v, -2))
    norm = np.linalg.norm(a, axis=(-2, -1))[:, None]
    with np.errstate(invalid="ignore"):
        moved = norm * condition
        rotated = 1 + moved / gaps(w) * np.max(condition, -1, keepdims=True, initial=1)
    found = {
        "w": bounded(w, n, moved), "v": bounded(v * phases(v), n, rotated[:, None]),
        "vl": bounded(left * phases(left), n, rotated[:, None]), "info": Expected(np.where(is_finite(a), 0, n + 1)),
    }  # fmt: skip
    return {name: each for name, each in found.items() if name not in problem.null}


EIG = {
    "one": lambda d: eig(d, 2, 1),
    "plain": lambda d: eig(d, 2, 5),
    "two": lambda d: eig(d, 3, 2, layout="columns", out="columns"),
    "three": lambda d: eig(d, 40, 3, layout="last_batch", out="last_batch"),
    "eight": lambda d: eig(d, 3, 8, layout="pitch", out="pitch"),
    "nine": lambda d: eig(d, 2, 9, layout="reversed", out="reversed"),
    "real_values": lambda d: eig(d, 2, 12, pairs=False),
    "warp": lambda d: eig(d, 2, 32),
    "above_a_warp": lambda d: eig(d, 1, 35, layout="gap"),
    "one_matrix": lambda d: eig(d, 3, 4, layout="one"),
    "values": lambda d: eig(d, 3, 11, null=("v", "vl", "info")),
    "right": lambda d: eig(d, 2, 7, null=("vl",)),
    "left": lambda d: eig(d, 2, 7, null=("v",)),
    "bad_member": lambda d: eig(d, 4, 6, spoils={(1, 4, 2): np.nan, (3, 5, 5): np.inf}),
    "large_values": lambda d: eig(d, 1, 6, scale=2.0**100),
    "small_values": lambda d: eig(d, 1, 6, scale=2.0**-110),
    "empty": lambda d: eig(d, 3, 0),
    "large": lambda d: eig(d, 3, 24),
}  # fmt: skip


# --- pseudoinverses and polar factors
# ----------------------------------------------------------------------------------


def pinv(draw, batch, m, n, *, rank=None, rtol=1e-3, atol=0.0, layout="dense", out="dense", null=(), spoils=None):
    a = singular(draw, batch, m, n, rank=rank, spoils=spoils)
    strides = {name: strides_for((batch, *each), **LAYOUTS[by])
               for name, each, by in (("a", (m, n), layout), ("y", (n, m), out))}  # fmt: skip
    arrays = {
        "a": rounded(draw, a, strides["a"]), "y": draw.output((batch, n, m), strides["y"]),
        "rank": draw.output((batch,), None, "i32"), "info": draw.output((batch,), None, "i32"),
    }  # fmt: skip
    host = {f"stride_{name}": each for name, each in strides.items()}
    return Problem({"batch": batch, "m": m, "n": n, "atol": atol, "rtol": rtol}, arrays, host, null)


def pinv_reference(problem):
    a, s = problem.arrays["a"].values, problem.scalars
    m, n, k = s["m"], s["n"], min(s["m"], s["n"])
    if not k:
        zeros = Expected(np.zeros(s["batch"], int))
        return {"y": Expected(np.zeros((s["batch"], n, m))), "rank": zeros, "info": zeros}
    eps = np.finfo(np.float32 if problem.arrays["a"].dtype in ("f32", "c32") else np.float64).eps

    def of(each):
        u, values, vh = np.linalg.svd(each, full_matrices=False)
        limit = max(s["atol"], values[0] * (max(m, n) * eps if s["rtol"] < 0 else s["rtol"]))
        inverse = np.where(values > limit, 1 / np.where(values > limit, values, 1), 0)
        # A change of A moves its pseudoinverse by twice its norm squared times that change (Wedin 1973).
        return np.conj(vh.T) * inverse @ np.conj(u.T), np.sum(values > limit), 2 * inverse.max() ** 2 * values[0]

    y, rank, moved = of_finite(of, a, ((n, m), (), ()))
    found = {
        "y": bounded(y, m + n, moved[:, None, None]), "rank": Expected(np.nan_to_num(rank).astype(int)),
        "info": Expected(np.where(is_finite(a), 0, k + 1)),
    }  # fmt: skip
    return {name: each for name, each in found.items() if name not in problem.null}


PINV = {
    "one": lambda d: pinv(d, 1, 1, 1),
    "plain": lambda d: pinv(d, 3, 5, 3),
    "wide": lambda d: pinv(d, 2, 3, 7, layout="columns", out="columns"),
    "singular": lambda d: pinv(d, 3, 7, 6, rank=3, layout="pitch"),
    "singular_wide": lambda d: pinv(d, 3, 6, 9, rank=2, out="reversed"),
    "zero": lambda d: pinv(d, 2, 4, 4, rank=0),
    "by_default": lambda d: pinv(d, 2, 6, 6, rtol=-1.0),
    "absolute": lambda d: pinv(d, 2, 6, 6, rtol=0.0, atol=4.0),
    "tiny": lambda d: pinv(d, 40, 3, 3, layout="last_batch", out="last_batch"),
    "warp": lambda d: pinv(d, 2, 30, 20, layout="gap", out="gap"),
    "rank": lambda d: pinv(d, 2, 8, 9, rank=5, null=("y",)),
    "inverse": lambda d: pinv(d, 2, 8, 8, null=("rank", "info")),
    "bad_member": lambda d: pinv(d, 4, 6, 5, spoils={(1, 4, 2): np.nan, (3, 5, 4): np.inf}),
    "no_rows": lambda d: pinv(d, 3, 0, 4),
    "large": lambda d: pinv(d, 3, 36, 30),
}  # fmt: skip


def polar(draw, batch, m, n, *, layout="dense", out="dense", null=(), spoils=None):
    a = singular(draw, batch, m, n, spoils=spoils)
    shapes = {"a": (m, n), "u": (m, n), "p": (n, n)}
    strides = {name: strides_for((batch, *each), **LAYOUTS[layout if name == "a" else out])
               for name, each in shapes.items()}  # fmt: skip
    arrays = {"a": rounded(draw, a, strides["a"])}
    arrays |= {name: draw.output((batch, *shapes[name]), strides[name]) for name in ("u", "p")}
    arrays["info"] = draw.output((batch,), None, "i32")
    host = {f"stride_{name}": each for name, each in strides.items()}
    return Problem({"batch": batch, "m": m, "n": n}, arrays, host, null)


def polar_reference(problem):
    a, s = problem.arrays["a"].values, problem.scalars
    m, n = s["m"], s["n"]
    if not m or not n:
        zeros = bounded(np.zeros((s["batch"], n, n)), 1, 0.0)
        return {"u": Expected(np.zeros(a.shape)), "p": zeros, "info": Expected(np.zeros(s["batch"], int))}

    def of(each):
        u, values, vh = np.linalg.svd(each, full_matrices=False)
        return u @ vh, np.conj(vh.T) * values @ vh, values[0], values[0] / values[-1]

    u, p, norm, condition = of_finite(of, a, ((m, n), (n, n), (), ()))
    found = {
        "u": bounded(u, m + n, 2 * condition[:, None, None]), "p": bounded(p, m + n, 2 * norm[:, None, None]),
        "info": Expected(np.where(is_finite(a), 0, min(m, n) + 1)),
    }  # fmt: skip
    return {name: each for name, each in found.items() if name not in problem.null}


POLAR = {
    "one": lambda d: polar(d, 1, 1, 1),
    "plain": lambda d: polar(d, 3, 5, 3),
    "nothing": lambda d: polar(d, 3, 4, 0),
    "wide": lambda d: polar(d, 2, 3, 7, layout="columns", out="columns"),
    "tiny": lambda d: polar(d, 40, 3, 3, layout="last_batch", out="last_batch"),
    "square": lambda d: polar(d, 3, 9, 9, layout="reversed", out="reversed"),
    "unitary": lambda d: polar(d, 2, 12, 8, layout="pitch", null=("p",)),
    "warp": lambda d: polar(d, 2, 30, 20, layout="gap", out="gap"),
    "bad_member": lambda d: polar(d, 4, 6, 5, spoils={(1, 4, 2): np.nan, (3, 5, 4): np.inf}),
    "no_rows": lambda d: polar(d, 3, 0, 4),
    "large": lambda d: polar(d, 3, 36, 30),
    "all_blocks": lambda d: polar(d, 1, 132, 130),
}  # fmt: skip


# --- cases
# -------------------------------------------------------------------------------------------------------------

FAR = 2**62


def bad_strides(*outputs):
    return (
        Bad("far", 2, rf"stride_a\[1\] is {FAR}", host={"stride_a": (15, FAR, 1)}, can=2),
        *[Bad(f"stride_{o}_0", 2, rf"stride_{o}\[1\] is 0, but an output has", host={f"stride_{o}": (25, 0, 1)}, can=2)
          for o in outputs],
    )  # fmt: skip


def case(row, problems, reference, outputs, bad):
    def quiet(problem):
        """Matrices of a batch that are not finite are NaN here too."""
        with np.errstate(all="ignore"):
            return reference(problem)

    return Case(
        row, problems, quiet, {name: "exact" if name in ("info", "rank") else "spectral" for name in outputs}, "plain",
        "large", bad, (Idle("no_batch", {"batch": 0}),),
    )  # fmt: skip


CASES = (
    case("linalg_eigh_{T}", EIGH, eigh_reference, ("w", "v", "info"),
         (*bad_strides("v"), Bad("upper_2", 2, r"upper is 2, must be 0 or 1", {"upper": 2}, can=2))),
    case("linalg_svd_{T}", SVD, svd_reference, ("s", "u", "vh", "info"),
         (*bad_strides("u", "vh"), Bad("full_2", 2, r"full_matrices is 2, must be 0", {"full_matrices": 2}, can=2))),
    case("linalg_eig_{T}", EIG, eig_reference, ("w", "v", "vl", "info"), bad_strides("v", "vl")),
    case("linalg_pinv_{T}", PINV, pinv_reference, ("y", "rank", "info"), bad_strides("y")),
    case("linalg_polar_{T}", POLAR, polar_reference, ("u", "p", "info"), bad_strides("u", "p")),
)  # fmt: skip
