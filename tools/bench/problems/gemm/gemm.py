# SPDX-License-Identifier: Apache-2.0
"""GEMM: dense, batched, with epilogues, and skinny (small M)."""

import numpy as np

from tools.bench.check import compare, sample_indices
from tools.bench.record import COUNTS, EXTENTS, FEW_ROWS, SIDES, Bench, Bound, Operand, Sweep

LAYOUTS = ("rrr", "rcr", "crr", "ccr")  # index: C's number of the layout of A and B
_HALVES = ("bf16", "f16")
_GELU_TANH = 4  # C's number of the activation
_OWN, _WARPGROUPS, _INVARIANT = 1, 4, 5  # C's numbers of the backends: own kernels, wgmma kernels, batch-invariant ones
_EPILOGUE = "another epilogue of a kernel that is measured: bias and activation are run-time choices"
UNMEASURED = {
    **{
        f"gemm_{bias}{name}_{layout}_sm80": _EPILOGUE
        for name in ("{T}", "t{T}", "{T}_simt") for bias in ("bias_", "bias_{F}_") for layout in ("rcr", "rrr")
        if (name, layout) != ("{T}", "rcr")
    },
    **{f"gemm_bias_{f}{{U}}bias_{name}_rcr_sm80": _EPILOGUE for name in ("s8", "u8") for f in ("", "{F}_")},
    **{f"gemm_{name}_rrr_sm80_bias_{f}{{U}}": _EPILOGUE for name in ("s8", "u8") for f in ("", "{F}_")},
    **dict.fromkeys(
        ("gemm_dense_{T} of integers", "gemm_dense_{T} of fp8"), "the kernels of the single products, for a batch"
    ),
    **dict.fromkeys(("gemm_epilogue_t{T}", "gemm_epilogue_{T}_{U}"), _EPILOGUE),
    "gemm_dense_backward_{T}": "two products of gemm_dense",
    "gemm_pointers_{T}": "the kernels of gemm_dense",
    "grouped_gemm_pointers_{T}": "the kernels of grouped_gemm",
    **{f"gemm_u8_{layout}_sm80": "the kernels of s8 with another instruction" for layout in ("rcr", "rrr")},
}  # fmt: skip


def torch_product(by_columns):
    def peer(torch, t, scalars):
        a, b = t["a"], t["b"].mT if by_columns else t["b"]
        return lambda: torch.matmul(a, b, out=t["d"])

    return peer


def by_tf32(peer):
    """Enables TF32 for this call only."""

    def made_with_tf32(torch, t, scalars):
        call = peer(torch, t, scalars)

        def with_tf32():
            before, torch.backends.cuda.matmul.allow_tf32 = torch.backends.cuda.matmul.allow_tf32, True
            call()
            torch.backends.cuda.matmul.allow_tf32 = before

        return with_tf32

    return made_with_tf32


def torch_crr(torch, t, scalars):
    return lambda: torch.matmul(t["a"].mT, t["b"], out=t["d"])


def torch_ccr(torch, t, scalars):
    return lambda: torch.matmul(t["a"].mT, t["b"].mT, out=t["d"])


def torch_int(torch, t, scalars):
    """i32 output: PyTorch has no other."""
    return lambda: torch._int_mm(t["a"], t["b"].mT)


def torch_bias(function):
    def peer(torch, t, scalars):
        act = {"": lambda z: z, "gelu": torch.nn.functional.gelu}[function]
        return lambda: act(torch.addmm(t["bias"], t["a"], t["b"].mT))

    return peer


def numpy_product(by_columns):
    return lambda a, scalars: lambda: np.matmul(a["a"], a["b"].swapaxes(-1, -2) if by_columns else a["b"], out=a["d"])


def check(problem):
    """Sampled results against sums in float64."""
    bench, scalars = problem.bench, problem.bench.scalars
    m, n, k = scalars["m"], scalars["n"], scalars["k"]
    layout = LAYOUTS[scalars["layout"]] if "layout" in scalars else bench.row.split("_")[-2]
    layout = "rcr" if "_rcr" in bench.row else "rrr" if "_rrr" in bench.row else layout
    along_k = np.arange(k)
    for i, j in zip(sample_indices(problem, m, 6), sample_indices(problem, n, 6)):
        a = problem.data.cells(problem.buffers["a"], i * k + along_k if layout[0] == "r" else along_k * m + i)
        b = problem.data.cells(problem.buffers["b"], along_k * n + j if layout[1] == "r" else j * k + along_k)
        got = problem.data.cells(problem.buffers["d"], np.array([i * n + j])).astype(np.float64)
        products = a.astype(np.float64) * b
        z = np.array([products.sum() * scalars["alpha"]])
        if bench.row.endswith("_i32"):
            if got != z:
                return f"d[{i}, {j}] is {got[0]:g}, expected {z[0]:g}"
            continue
        if "bias" in problem.buffers:
            z = z + problem.data.cells(problem.buffers["bias"], np.array([j]))
        if problem.dtype in ("i8", "u8"):
            z = np.clip(np.rint(z), -128, 127)
            if abs(got - z)[0] > 1:
                return f"d[{i}, {j}] is {got[0]:g}, expected {z[0]:g}"
        elif bench.function == "gelu":
            continue  # its z is that of the row without it
        elif wrong := compare(problem, got, z, np.abs(products).sum() * 4):
            return f"d[{i}, {j}] {wrong}"
    return ""


def made(name, row, m, n, k, dtypes, *, layout="rcr", peers, bias=False, batch=0, dense=False, bounds=(), **given):
    shapes = {
        "a": (m, k) if layout[0] == "r" else (k, m), "b": (k, n) if layout[1] == "r" else (n, k), "d": (m, n),
    }  # fmt: skip
    arrays = {x: Operand((batch, *s) if batch else s, "empty" if x == "d" else "sixteenths") for x, s in shapes.items()}
    if bias:
        arrays["bias"] = Operand((n,), "sixteenths")
    scalars = {"m": m, "n": n, "k": k, "alpha": 1.0, "beta": 0.0, "ldc": n}
    scalars |= {f"ld{x}": s[1] for x, s in shapes.items()}
    if batch or dense:
        scalars |= {f"stride_{x}": s[0] * s[1] for x, s in shapes.items()} | {"stride_c": 0}
        scalars |= {"batch": max(batch, 1), "batch_count": batch, "layout": LAYOUTS.index(layout)}
    return Bench(
        name=name,
        row=row,
        dtypes=dtypes,
        arrays=arrays,
        scalars=scalars,
        check=check,
        torch=peers,
        bounds=bounds,
        flops=2 * m * n * k * max(batch, 1),
        **given,
    )


def large(backend):
    """Compute-bound products."""
    sizes = ((8192, 8192, 8192), (4096, 4096, 4096), (4096, 14336, 4096), (16384, 4096, 4096))
    by_columns, by_rows = (torch_product(True),), (torch_product(False),)
    level, own = Bound("peer", 0.97), Bound("peer", 0.95)
    packed = {}
    if backend == "cpu":
        sizes = ((1024, 1024, 1024),)
        packed = {"workspace": True}  # holds packed operands
    for m, n, k in sizes:
        size = f"{m}x{n}x{k}"
        yield made(
            f"gemm rcr {size}", "gemm_{T}_rcr_sm80", m, n, k, _HALVES, peers=by_columns, bounds=(level,), **packed
        )
        yield made(
            f"gemm rrr {size}", "gemm_{T}_rrr_sm80", m, n, k, _HALVES, layout="rrr", peers=by_rows, bounds=(level,),
            **packed,
        )  # fmt: skip
    side = sizes[0][0] if backend == "cpu" else 4096
    size = f"{side}^3"
    cube = (side, side, side)
    for layout, peers in (("rcr", by_columns), ("rrr", by_rows)):
        more = {"layout": layout, "peers": peers, "bounds": (own,)}
        tf32 = more | {"peers": (by_tf32(torch_product(True)),) if layout == "rcr" else (), "workspace": True}
        yield made(f"gemm tf32 {layout} {size}", f"gemm_t{{T}}_{layout}_sm80", *cube, ("f32",), **tf32)
        simt = more | packed | ({"numpy": (numpy_product(layout == "rcr"),)} if backend == "cpu" else {})
        yield made(f"gemm f32 {layout} {size}", f"gemm_{{T}}_simt_{layout}_sm80", *cube, ("f32",), **simt)
        yield made(f"gemm f64 {layout} {size}", f"gemm_{{T}}_{layout}_sm80", *cube, ("f64",), **more, **packed)
        integers = (torch_int,) if layout == "rcr" else ()
        whole = more | {"peers": integers, "workspace": layout == "rrr"}
        yield made(f"gemm s8 {layout} {size}", f"gemm_s8_{layout}_sm80", *cube, ("i8",), **whole)
    yield made(
        f"gemm 3xtf32 {size}", "gemm_dense_{T}_3xtf32", *cube, ("f32",), dense=True, peers=by_columns,
        bounds=(Bound("peer", 1.0),), **packed,
    )  # fmt: skip
    if backend == "cuda":
        for layout in ("rcr", "rrr"):
            whole = {"layout": layout, "bounds": (own,), "peers": (torch_int,) if layout == "rcr" else ()}
            whole["workspace"] = layout == "rrr"
            yield made(f"gemm s8 {layout} 8192^3", f"gemm_s8_{layout}_sm80", 8192, 8192, 8192, ("i8",), **whole)
    yield made(
        f"gemm s8 into i32 {size}", "gemm_dense_{T}_i32", *cube, ("i8",), dense=True, peers=(torch_int,), bounds=(own,)
    )
    row, wide = "gemm_bias_{T}_rcr_sm80", sizes[-2] if backend == "cuda" else cube
    bound = (Bound("peer", 1.0),)
    yield made("gemm bias", row, *wide, ("bf16",), bias=True, peers=(torch_bias(""),), bounds=bound, **packed)
    row = "gemm_bias_{F}_{T}_rcr_sm80"
    yield made(
        "gemm bias gelu", row, *wide, ("bf16",), bias=True, function="gelu", peers=(torch_bias("gelu"),), bounds=bound,
        **packed,
    )  # fmt: skip
    for layout, peer in (("crr", torch_crr), ("ccr", torch_ccr)):
        yield made(
            f"gemm_dense {layout} {size}", "gemm_dense_{T}", *cube, ("bf16", "f32"), layout=layout, dense=True,
            peers=(peer,), bounds=(own,), **packed,
        )  # fmt: skip


def torch_residual(torch, t, scalars):
    return lambda: torch.nn.functional.gelu(torch.addmm(t["bias"], t["a"], t["b"].mT), approximate="tanh").add_(t["r"])


def torch_added(torch, t, scalars):
    """One call of cuBLASLt."""
    return lambda: torch.addmm(t["r"], t["a"], t["b"].mT, out=t["d"])


def check_epilogue(problem):
    """Sampled results of gemm_epilogue, rcr."""
    s = problem.bench.scalars
    m, n, k = (s[name] for name in "mnk")
    along_k = np.arange(k)

    def cells(name, at):
        return problem.data.cells(problem.buffers[name], at).astype(np.float64)

    for i, j in zip(sample_indices(problem, m, 6), sample_indices(problem, n, 6)):
        products = cells("a", i * k + along_k) * cells("b", j * k + along_k)
        z = products.sum() + (cells("bias", np.array([j]))[0] if "bias" in problem.buffers else 0)
        if s["activation"] == _GELU_TANH:
            z = 0.5 * z * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3)))
        at = np.array([i * n + j])
        r = cells("r", at) if "r" in problem.buffers else np.zeros(1)
        if wrong := compare(problem, cells("d", at), z + r, (np.abs(products).sum() + np.abs(r)) * 4):
            return f"d[{i}, {j}] {wrong}"
    return ""


def epilogues(backend):
    """D = A B + R, D = gelu(A B + bias) + R, and products with the wgmma backend requested."""
    sizes = ((8192, 8192, 8192), (4096, 14336, 4096)) if backend == "cuda" else ((512, 512, 512),)
    for m, n, k in sizes:
        size = f"{m}x{n}x{k}"
        yield with_epilogue(f"gemm residual {size}", m, n, k, ("r",), torch_added)
        name = f"gemm bias gelu_tanh residual {size}"
        yield with_epilogue(name, m, n, k, ("r", "bias"), torch_residual, activation=_GELU_TANH)
    if backend == "cuda":
        size = (4096, 4096, 4096)
        more = {"row": "gemm_epilogue_t{T}", "dtypes": ("f32",)}
        name = "gemm tf32 {}residual 4096x4096x4096"
        yield with_epilogue(name.format(""), *size, ("r",), by_tf32(torch_added), **more)
        more["backend"] = _WARPGROUPS
        yield with_epilogue(name.format("by warp groups "), *size, ("r",), by_tf32(torch_added), **more)
        for m, n, k in (size, (1024, 1024, 1024)):
            yield with_epilogue(
                f"gemm f32 by own kernels {m}x{n}x{k}", m, n, k, (), torch_product(True), dtypes=("f32",), backend=_OWN,
                bound=0.85,
            )  # fmt: skip
        for m, n, k in (*sizes, size):
            yield with_epilogue(
                f"gemm by warp groups {m}x{n}x{k}", m, n, k, (), torch_product(True), backend=_WARPGROUPS,
                bound=0.85,
            )  # fmt: skip


def invariants(backend):
    """Products with the default choice of kernels and with batch-invariant ones: what invariance costs."""
    sizes = ((1, 4096, 4096), (8, 14336, 4096), (64, 4096, 4096), (512, 4096, 4096), (4096, 4096, 4096))
    if backend == "cpu":
        sizes = ((1, 1024, 1024), (8, 1024, 1024), (512, 512, 512))
    for m, n, k in sizes:
        for how, number, bound in (("", 0, 0.5), (" batch-invariant", _INVARIANT, 0.05)):
            yield with_epilogue(
                f"gemm_epilogue {m}x{n}x{k}{how}", m, n, k, (), torch_product(True), dtypes=("bf16", "f32"),
                backend=number, bound=bound,
            )  # fmt: skip


def with_epilogue(
    name, m, n, k, extra, peer, *, row="gemm_epilogue_{T}", dtypes=("bf16",), activation=0, backend=0, bound=1.0,
):  # fmt: skip
    shapes = {"a": (m, k), "b": (n, k), "r": (m, n), "bias": (n,), "d": (m, n)}
    scalars = {"m": m, "n": n, "k": k, "batch": 1, "layout": 1, "alpha": 1.0, "beta": 0.0}
    scalars |= {f"ld{x}": shapes.get(x, (m, n))[1] for x in "abcrzd"} | {f"stride_{x}": 0 for x in "abcrzd"}
    return Bench(
        name=name, row=row, dtypes=dtypes,
        arrays={x: Operand(shapes[x], "empty" if x == "d" else "sixteenths") for x in ("a", "b", *extra, "d")},
        scalars=scalars | {"activation": activation, "backend": backend},
        check=check_epilogue, torch=(peer,), workspace=backend != _WARPGROUPS, bounds=(Bound("peer", bound),),
        flops=2 * m * n * k,
    )  # fmt: skip


def skinny(backend):
    """Skinny GEMM, M <= 8: bound by one read of B."""
    rows, sizes = ((1, 2, 4, 8), (4096, 14336)) if backend == "cuda" else ((1, 8), (2048,))
    bound = (Bound("copy", 0.85),)
    for m in rows:
        for n in sizes:
            k = 4096 if backend == "cuda" else 2048
            yield made(
                f"gemm rcr {m}x{n}x{k}",
                "gemm_{T}_rcr_sm80",
                m,
                n,
                k,
                _HALVES,
                peers=(torch_product(True),),
                bounds=bound,
            )
            for layout, dtypes in (("rrr", ("bf16", "f16", "f32")), ("rcr", ("f32",))):
                yield made(
                    f"gemm {layout} {m}x{n}x{k}", "gemm_dense_{T}", m, n, k, dtypes, layout=layout, dense=True,
                    peers=(torch_product(layout == "rcr"),), bounds=bound,
                )  # fmt: skip
    n, k = (14336, 4096) if backend == "cuda" else (2048, 2048)
    yield made(
        "gemv m1", "gemv_dense_m1_{T}", 1, n, k, ("bf16", "f32"), layout="rrr", dense=True,
        peers=(torch_product(False),), bounds=bound,
    )  # fmt: skip


def benches(backend):
    yield from large(backend)
    if backend == "cpu":
        size = (4096, 4096, 4096)
        yield made(
            "gemm_dense rrr 4096^3", "gemm_dense_{T}", *size, ("bf16", "f32"), layout="rrr", dense=True, workspace=True,
            peers=(torch_product(False),), bounds=(Bound("peer", 0.9),),
        )  # fmt: skip
        yield made(
            "gemm rrr 2048x1x2048", "gemm_dense_{T}", 2048, 1, 2048, ("bf16", "f32"), layout="rrr", dense=True,
            peers=(torch_product(False),), bounds=(Bound("copy", 0.85),),
        )  # fmt: skip
    yield from epilogues(backend)
    yield from invariants(backend)
    yield from skinny(backend)
    many = 4096 if backend == "cuda" else 64
    for m, n, k in ((64, 64, 64), (128, 128, 64)):
        yield made(
            f"gemm_batched {many} x {m}x{n}x{k}", "gemm_batched_{T}_rcr_sm80", m, n, k, ("bf16",), batch=many,
            peers=(torch_product(True),), bounds=(Bound("peer", 1.0),),
        )  # fmt: skip


# --- sweeps ----------------------------------------------------------------------------------------------------------


def torch_linear(torch, t, scalars):
    return lambda: torch.nn.functional.linear(t["a"], t["b"])


def torch_linear_gelu(torch, t, scalars):
    return lambda: torch.nn.functional.gelu(torch.nn.functional.linear(t["a"], t["b"], t["bias"]), approximate="tanh")


def as_linear(m, n, k):
    """The launch of `linear`: the weight is [n, k]."""
    rows = {"f32": "gemm_{T}_simt_rcr_sm80", "bf16": "gemm_{T}_rcr_sm80"}
    return {
        dtype: made("linear", row, m, n, k, (dtype,), peers=(torch_linear,), workspace=True)
        for dtype, row in rows.items()
    }


def as_matmul(m, n, k, batch=1, layout="rrr"):
    peers = {"rrr": torch_product(False), "rcr": torch_product(True), "crr": torch_crr}
    return made(
        "matmul", "gemm_dense_{T}", m, n, k, ("f32", "bf16"), layout=layout, dense=True, peers=(peers[layout],),
        workspace=True, batch=batch if batch > 1 else 0,
    )  # fmt: skip


def of_linear(name, axis, problems):
    """A sweep per dtype: each has a row of its own."""
    for dtype in ("f32", "bf16"):
        yield Sweep(name=name, axis=axis, points={e: each[dtype] for e, each in problems.items()})


def sweeps(backend):
    on_gpu = backend == "cuda"
    n, k = (14336, 4096) if on_gpu else (1024, 512)
    for columns, along in ((n, k), (k, n)):
        problems = {m: as_linear(m, columns, along) for m in FEW_ROWS}
        yield from of_linear(f"linear M x {columns} x {along}", "M", problems)
    for m in (8, 32) if on_gpu else (8,):
        yield from of_linear(f"linear {m} x N x {k}", "N", {e: as_linear(m, e, k) for e in EXTENTS})
        yield from of_linear(f"linear {m} x {k} x K", "K", {e: as_linear(m, k, e) for e in EXTENTS})
    gelu = {
        m: with_epilogue("linear_gelu_tanh", m, n, k, ("bias",), torch_linear_gelu, dtypes=("f32", "bf16"),
                         activation=_GELU_TANH)
        for m in (*FEW_ROWS[::3], *((1024, 2048, 4096) if on_gpu else ()))
    }  # fmt: skip
    yield Sweep(name=f"linear_gelu_tanh M x {n} x {k}", axis="M", points=gelu)
    side = 2048 if on_gpu else 512
    for layout in ("rrr", "rcr", "crr"):
        rows = {m: as_matmul(m, side, side, layout=layout) for m in FEW_ROWS}
        yield Sweep(name=f"matmul {layout} M x {side} x {side}", axis="M", points=rows)
    yield Sweep(name=f"matmul {side} x N x {side}", axis="N",
                points={e: as_matmul(side, e, side) for e in FEW_ROWS})  # fmt: skip
    yield Sweep(name=f"matmul {side} x {side} x K", axis="K",
                points={e: as_matmul(side, side, e) for e in FEW_ROWS})  # fmt: skip
    few = {e: as_matmul(64, 64, e) for e in (*EXTENTS, 16384, 65536, *((262144,) if on_gpu else ()))}
    yield Sweep(name="matmul 64 x 64 x K", axis="K", points=few)
    squares = [s for s in SIDES if on_gpu or s <= 1024]
    yield Sweep(name="matmul of squares", axis="side", points={s: as_matmul(s, s, s) for s in squares})
    total = 2**26 if on_gpu else 2**20  # elements of an operand
    batched = {s: as_matmul(s, s, s, max(total // s**2, 2)) for s in SIDES if on_gpu or s <= 256}
    yield Sweep(name="bmm of squares", axis="side", points=batched, level=True)
    for s in (32, 128):
        counts = {count: as_matmul(s, s, s, count) for count in COUNTS[1:] if on_gpu or count <= 264}
        yield Sweep(name=f"bmm of {s} x {s} x {s}", axis="batch", points=counts)
