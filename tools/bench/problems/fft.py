# SPDX-License-Identifier: Apache-2.0
"""Fourier transforms of rows and columns, of powers of two, of other small factors and of primes, of images, and of
real numbers. Peers are torch.fft, numpy.fft and, for convolutions, products of torch's transforms.

Results are compared with sums of the definition at some positions.
"""

import math

import numpy as np

from tools.bench.check import cells, sample_indices
from tools.bench.record import Bench, Bound, Operand, Sweep

FLOATS, COMPLEX = ("f32", "f64"), ("c32", "c64")
UNIT = {"f32": 2.0**-24, "c32": 2.0**-24, "f64": 2.0**-53, "c64": 2.0**-53}
UNMEASURED = {
    **{f"{name}_{size}": "a copy: the kernel of roll" for name in ("fftshift", "ifftshift", "fftshift_nd")
       for size in (4, 8, 16)},
    "scale_inplace_{T}": "the kernel of affine, on two numbers an element",
    "scale_inplace_real_{T}": "the kernel of affine",
}  # fmt: skip


def strides_of(shape):
    return tuple([math.prod(shape[d + 1 :]) for d in range(len(shape))])


def numbers(shape):
    return Operand(shape, "normal")


def transform_at(problem, axes, form):
    """(sum of the definition, 2-norm) for the elements of y at some positions."""
    x, y = problem.bench.arrays["x"].shape, problem.bench.arrays["y"].shape
    lengths = [problem.bench.scalars.get("length", y[a]) if a == axes[-1] else y[a] for a in axes]
    at = sample_indices(problem, math.prod(y), 4)
    found, norms = [], []
    for index in zip(*np.unravel_index(at, y)):
        grids = np.meshgrid(*[np.arange(x[a]) for a in axes], indexing="ij")
        where = [np.full(grids[0].shape, index[d]) for d in range(len(x))]
        numerators = np.zeros(grids[0].shape)
        for a, n, grid in zip(axes, lengths, grids):
            where[a] = grid
            numerators += grid * int(index[a]) % n / n
        values = cells(problem, "x", np.ravel_multi_index(where, x).ravel())
        sign = 1 if problem.bench.scalars["inverse"] else -1
        roots = np.exp(sign * 2j * np.pi * numerators.ravel())
        if form == "c2r":  # elements with a conjugate count twice
            k, n = where[axes[-1]].ravel(), lengths[-1]
            weight = np.where((k == 0) | (2 * k == n), 1, 2)
            found.append(float(np.sum((values * roots).real * weight)))
        else:
            found.append(np.sum(values * roots))
        norms.append(2 * np.sqrt(np.sum(np.abs(values) ** 2)))
    return at, np.array(found), np.array(norms)


def check_of(axes, form):
    def check(problem):
        at, want, norm = transform_at(problem, axes, form)
        scale = problem.bench.scalars["scale"]
        got = np.asarray(cells(problem, "y", at))
        steps = 20 + 8 * np.log2(max(problem.bench.arrays["y"].shape))
        worst = np.max(np.abs(got - want * scale) / (norm * scale * steps * UNIT[problem.dtype]))
        return "" if worst <= 1 else f"is {got}, expected {want * scale}, {worst:.2g} times the bound"

    return check


def peers_of(form, axes):
    """Calls of torch.fft and numpy.fft."""
    name = {"c2c": "fftn", "r2c": "rfftn", "c2r": "irfftn"}[form]

    def torch_peer(torch, t, scalars):
        shape = [t["y"].shape[a] for a in axes]
        if form == "c2r":
            return lambda: torch.fft.irfftn(t["x"], shape, axes, "forward")
        return lambda: getattr(torch.fft, name)(t["x"], dim=axes)

    def numpy_peer(arrays, scalars):
        x, shape = arrays["x"], [arrays["y"].shape[a] for a in axes]
        if form == "c2r":
            return lambda: np.fft.irfftn(x, shape, axes, "forward")
        return lambda: getattr(np.fft, name)(x, axes=axes)

    return (torch_peer,), (numpy_peer,)


def transform(form, shape, axes, bound=0.85):
    """shape is that of the complex numbers without symmetry, or of the real ones."""
    half = tuple([e // 2 + 1 if a == axes[-1] else e for a, e in enumerate(shape)])
    x, y = {"c2c": (shape, shape), "r2c": (shape, half), "c2r": (half, shape)}[form]
    scalars = {
        "input_shape": x, "output_shape": y, "fourier_axes": tuple([int(d in axes) for d in range(len(shape))]),
        "inverse": int(form == "c2r"), "scale": 1.0,
    }  # fmt: skip
    if form != "c2c":
        scalars |= {"half_axis": axes[-1], "onesided": 1, "interior": 1.0}
    if form == "r2c":
        scalars["length"] = shape[axes[-1]]
    torch, numpy = peers_of(form, axes)
    along = ",".join(map(str, axes))
    return Bench(
        name=f"fft_{form} {'x'.join(map(str, shape))} axis {along}", row=f"fft_{form}_{{T}}",
        dtypes=FLOATS if form == "r2c" else COMPLEX, arrays={"x": numbers(x), "y": Operand(y)}, scalars=scalars,
        check=check_of(axes, form), torch=torch, numpy=numpy, workspace=True,
        bounds=(Bound("copy", bound), Bound("peer", 1.0)) if bound else (Bound("peer", 1.0),),
    )  # fmt: skip


# --- cosines, convolution ---------------------------------------------------------------------------------------------


def check_cosine(problem):
    rows, n = problem.bench.arrays["x"].shape
    at = sample_indices(problem, rows * n, 8)
    row, k = np.divmod(at, n)
    x = cells(problem, "x", row[:, None] * n + np.arange(n))
    want = 2 * np.sum(x * np.cos(np.pi * (k[:, None] * (2 * np.arange(n) + 1) % (4 * n)) / (2 * n)), 1)
    bound = 60 * np.log2(n) * UNIT[problem.dtype] * np.sqrt(np.sum(x * x, 1))
    got = cells(problem, "y", at)
    return "" if np.all(np.abs(got - want) <= bound) else f"is {got}, expected {want}"


def cosine(rows, n):
    x = (rows, n)
    scalars = {
        "input_shape": x, "output_shape": x, "fourier_axis": 1, "kind": 2, "is_sine": 0, "scale": 1.0, "edge_in": 1.0,
        "edge_out": 1.0,
    }  # fmt: skip
    return Bench(
        name=f"fft_cosine {rows}x{n}", row="fft_cosine_{T}", dtypes=FLOATS, scalars=scalars, workspace=True,
        arrays={"x": numbers(x), "y": Operand(x)}, check=check_cosine, bounds=(Bound("copy", 0.2),),
    )  # fmt: skip


def check_convolution(problem):
    rows, n = problem.bench.arrays["x"].shape
    m = problem.bench.arrays["w"].shape[1]
    whole = n + m - 1
    at = sample_indices(problem, rows * whole, 8)
    row, k = np.divmod(at, whole)
    j = k[:, None] - np.arange(m)
    inside = (j >= 0) & (j < n)
    x = np.where(inside, cells(problem, "x", row[:, None] * n + np.clip(j, 0, n - 1)), 0)
    w = cells(problem, "w", np.broadcast_to(np.arange(m), j.shape))
    got, want = cells(problem, "y", at), np.sum(x * w, 1)
    bound = 60 * np.log2(whole) * UNIT[problem.dtype] * math.sqrt(n * m)
    return "" if np.all(np.abs(got - want) <= bound) else f"is {got}, expected {want}"


def convolution(rows, n, m):
    def torch_peer(torch, t, scalars):
        length = n + m - 1
        fast = 1 << (length - 1).bit_length()
        rfft, irfft = torch.fft.rfft, torch.fft.irfft
        return lambda: irfft(rfft(t["x"], fast) * rfft(t["w"], fast), fast)[:, :length]

    x, w, y = (rows, n), (1, m), (rows, n + m - 1)
    scalars = {
        "input_shape": x, "filter_shape": w, "output_shape": y, "fourier_axes": (0, 1), "starts": (0, 0)
    }  # fmt: skip
    return Bench(
        name=f"fft_convolve {rows}x{n} by {m}", row="fft_convolve_{T}", dtypes=FLOATS, scalars=scalars, workspace=True,
        arrays={"x": numbers(x), "w": numbers(w), "y": Operand(y)}, check=check_convolution, torch=(torch_peer,),
        bounds=(Bound("peer", 1.0),),
    )  # fmt: skip


def benches(backend):
    size = 1 << (24 if backend == "cuda" else 20)
    yield transform("c2c", (size // 256, 256), (1,))
    yield transform("c2c", (size // 1024, 1024), (1,))
    yield transform("c2c", (size // 1000, 1000), (1,))
    yield transform("c2c", (1024, size // 1024), (0,))
    yield transform("c2c", (size // 65536, 65536), (1,), 0.4)
    yield transform("c2c", (1, size), (1,), 0.25)
    yield transform("c2c", (size // 1009, 1009), (1,), 0)
    yield transform("c2c", (size // (512 * 512) * 4, 256, 256), (1, 2), 0.4)
    yield transform("r2c", (size // 1024, 1024), (1,))
    yield transform("c2r", (size // 1024, 1024), (1,))
    yield transform("r2c", (size // 65536, 65536), (1,), 0.4)
    yield transform("r2c", (size // (512 * 512) * 4, 256, 256), (1, 2), 0.4)
    yield cosine(size // 1024, 1024)
    yield convolution(size // 16384, 8192, 513)


def sweeps(backend):
    size = 1 << (23 if backend == "cuda" else 18)
    lengths = (8, 16, 32, 61, 64, 100, 101, 128, 192, 243, 256, 257, 360, 512, 625, 1000, 1024, 1025, 2048, 2187,
               4096, 4097, 8192, 10000, 16384, 65536)  # fmt: skip
    for form in ("c2c", "r2c"):
        points = {n: transform(form, (size // n, n), (1,)) for n in lengths}
        yield Sweep(name=f"fft_{form} along rows", axis="row length", points=points, level=True)
