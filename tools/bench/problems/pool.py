# SPDX-License-Identifier: Apache-2.0
"""Pooling: the stem of ResNet-50 (3 x 3, stride 2), halving (2 x 2), 3 x 3 at stride 1, and the global average
before its
classifier, channels first and last; a volume of video; adaptive and fractional windows. Peers are PyTorch's functions.

Inputs are sixteenths, so that sums are exact; samples of every output are compared with float64.
"""

import functools
import math

import numpy as np

from tools.bench.check import cells, compare, sample_indices
from tools.bench.record import Bench, Bound, Operand, Sweep, row_named

DTYPES = ("bf16", "f32")
_REFERENCE = "the kernels of {}, by another door"
UNMEASURED = {
    **{f"{kind}_pool_{rank}d_{end}_{{T}}": _REFERENCE.format(f"{kind}_pool") for kind in ("max", "avg")
       for rank in (1, 2, 3) for end in ("fw", "bw")},
    **{f"lp_pool_{rank}d_{{T}}{end}": _REFERENCE.format("lp_pool") for rank in (1, 2) for end in ("", "_backward")},
    **{f"adaptive_{kind}_pool_{{T}}_{end}": _REFERENCE.format(f"adaptive_{kind}_pool") for kind in ("avg", "max")
       for end in ("fw", "bw")},
    **{f"fractional_max_pool_{rank}d_{end}_{{T}}": _REFERENCE.format("fractional_max_pool") for rank in (2, 3)
       for end in ("fw", "bw")},
    "adaptive_max_pool_backward_{T}": "the kernel of max_pool_backward",
    "adaptive_max_pool_indices_backward_{T}": "the kernel of max_pool_indices_backward",
}  # fmt: skip


def strides_of(shape, last):
    """Row-major strides, or those of channels behind the spatial axes."""
    order = (0, *range(2, len(shape)), 1) if last else range(len(shape))
    found, step = [0] * len(shape), 1
    for axis in reversed(list(order)):
        found[axis], step = step, step * shape[axis]
    return tuple(found)


class Windows:
    """Images, their windows along each spatial axis, and where the operands lie."""

    def __init__(self, shape, kernel, step, padding=0, last=False):
        self.shape, self.rank, self.last = shape, len(shape) - 2, last
        self.kernel, self.steps, self.padding = ((n,) * self.rank for n in (kernel, step, padding))
        self.out = (*shape[:2], *[(e + 2 * padding - kernel) // step + 1 for e in shape[2:]])
        extents = " x ".join(map(str, shape))
        self.title = f"{extents}{' last' if last else ''}, k{kernel} s{step}"

    def scalars(self, **more):
        return {
            "input_shape": self.shape, "kernel_size": self.kernel, "steps": self.steps, "padding_low": self.padding,
            "padding_high": self.padding, "dilation": (1,) * self.rank, "ceil_mode": 0,
        } | more  # fmt: skip

    def image(self, fill="empty"):
        return Operand(self.shape, fill, strides_of(self.shape, self.last))

    def result(self, fill="empty"):
        return Operand(self.out, fill, strides_of(self.out, self.last))

    def window(self, number):
        """The flat row-major positions of the cells of the window that has this one in the result."""
        at = np.unravel_index(number, self.out)
        steps = strides_of(self.shape, last=False)
        lists = [
            [p for p in range(at[2 + d] * s - low, at[2 + d] * s - low + k) if 0 <= p < extent]
            for d, (k, s, low, extent) in enumerate(zip(self.kernel, self.steps, self.padding, self.shape[2:]))
        ]
        base = at[0] * steps[0] + at[1] * steps[1]
        where = [base + sum(p * step for p, step in zip(cell, steps[2:])) for cell in _product(lists)]
        return where


def _product(lists):
    return np.stack(np.meshgrid(*lists, indexing="ij"), -1).reshape(-1, len(lists))


def check_windows(windows, reduce):
    """Samples of y, each reduce(cells of its window)."""

    def check(problem):
        for at in sample_indices(problem, math.prod(windows.out), 12):
            own = cells(problem, "x", windows.window(at))
            if wrong := compare(problem, cells(problem, "y", [at]), np.array([reduce(own)]), np.abs(own).sum()):
                return f"y[{at}] {wrong}"
        return ""

    return check


def check_total(_windows):
    """The sum of dx is that of dy: every window has a cell."""

    def check(problem):
        have, want = (problem_sum(problem, name) for name in ("dx", "dy"))
        size = problem_sum(problem, "dy", absolute=True)
        return "" if abs(have - want) <= 0.01 * size else f"dx has the sum {have:g}, dy {want:g}"

    return check


def problem_sum(problem, name, absolute=False):
    count = math.prod(problem.bench.arrays[name].shape)
    values = cells(problem, name, np.arange(count))
    return float((np.abs(values) if absolute else values).sum())


def torch_pool(name, windows, *more, **numbers):
    """torch.nn.functional.<name><rank>d of the images."""

    def peer(torch, t, scalars):
        pool = getattr(torch.nn.functional, f"{name}{windows.rank}d")
        return lambda: pool(t["x"], *more, windows.kernel, windows.steps, **numbers)

    return peer


def torch_max_backward(windows):
    def peer(torch, t, scalars):
        pool = getattr(torch.nn.functional, f"max_pool{windows.rank}d")
        x = t["x"].detach().requires_grad_()
        y = pool(x, windows.kernel, windows.steps, windows.padding)
        return lambda: torch.autograd.grad(y, x, t["dy"], retain_graph=True)

    return peer


def torch_avg_backward(windows):
    def peer(torch, t, scalars):
        pool = getattr(torch.nn.functional, f"avg_pool{windows.rank}d")
        x = torch.empty_like(t["dx"], requires_grad=True)
        y = pool(x, windows.kernel, windows.steps, windows.padding)
        return lambda: torch.autograd.grad(y, x, t["dy"], retain_graph=True)

    return peer


BOUNDS = (Bound("peer", 1.0), Bound("copy", 0.85))


def max_forward(windows, dtypes=DTYPES):
    return Bench(
        name=f"max_pool {windows.title}", row="max_pool_{T}", dtypes=dtypes, bounds=BOUNDS,
        scalars=windows.scalars(stride_indices=strides_of(windows.out, windows.last)),
        check=check_windows(windows, np.max), torch=(torch_pool("max_pool", windows, padding=windows.padding),),
        arrays={"x": windows.image("sixteenths"), "y": windows.result()},
    )  # fmt: skip


def avg_forward(windows, dtypes=DTYPES):
    size = math.prod(windows.kernel)
    return Bench(
        name=f"avg_pool {windows.title}", row="avg_pool_{T}", dtypes=dtypes, bounds=BOUNDS,
        scalars=windows.scalars(count_include_pad=1, divisor_override=0),
        check=check_windows(windows, lambda own: own.sum() / size),
        torch=(torch_pool("avg_pool", windows, padding=windows.padding),),
        arrays={"x": windows.image("sixteenths"), "y": windows.result()},
    )  # fmt: skip


def lp_forward(windows):
    return Bench(
        name=f"lp_pool {windows.title}", row="lp_pool_{T}", dtypes=DTYPES, bounds=(Bound("peer", 1.0),),
        scalars=windows.scalars(norm_p=2.0), torch=(torch_pool("lp_pool", windows, 2.0),),
        check=check_windows(windows, lambda own: np.sqrt((own * own).sum())),
        arrays={"x": windows.image("sixteenths"), "y": windows.result()},
    )  # fmt: skip


def gradients(windows):
    yield Bench(
        name=f"avg_pool_backward {windows.title}", row="avg_pool_backward_{T}", dtypes=DTYPES, bounds=BOUNDS,
        scalars=windows.scalars(count_include_pad=1, divisor_override=0), check=lambda problem: "",
        torch=(torch_avg_backward(windows),), arrays={"dy": windows.result("sixteenths"), "dx": windows.image()},
    )  # fmt: skip
    yield Bench(
        name=f"max_pool_backward {windows.title}", row="max_pool_backward_{T}", dtypes=DTYPES, bounds=BOUNDS[:1],
        scalars=windows.scalars(), check=lambda problem: "", torch=(torch_max_backward(windows),),
        arrays={"dy": windows.result("sixteenths"), "x": windows.image("sixteenths"), "y": windows.result("sixteenths"),
                "dx": windows.image()},
    )  # fmt: skip
    numbers = functools.partial(_corners, windows)
    yield Bench(
        name=f"max_pool_indices_backward {windows.title}", row="max_pool_indices_backward_{T}", dtypes=DTYPES,
        bounds=BOUNDS[1:], scalars=windows.scalars(), check=check_total(windows),
        arrays={"dy": windows.result("sixteenths"), "indices": windows.result(numbers), "dx": windows.image()},
    )  # fmt: skip
    yield Bench(
        name=f"lp_pool_backward {windows.title}", row="lp_pool_backward_{T}", dtypes=DTYPES,
        scalars=windows.scalars(norm_p=2.0), check=lambda problem: "",
        arrays={"dy": windows.result("sixteenths"), "x": windows.image("sixteenths"), "y": windows.result("positive"),
                "dx": windows.image()},
    )  # fmt: skip


def _corners(windows, _rng):
    """The number of the first cell of each window, in the order of memory."""
    starts = [np.maximum(np.arange(o) * s - p, 0) for o, s, p in zip(windows.out[2:], windows.steps, windows.padding)]
    mesh = np.meshgrid(*starts, indexing="ij")
    plane = np.ravel_multi_index(mesh, windows.shape[2:])
    whole = np.broadcast_to(plane, windows.out)
    return np.ascontiguousarray(np.moveaxis(whole, 1, -1) if windows.last else whole).reshape(-1)


def sized(row, shape, size, last=False, **options):
    """A problem of a row with output_size."""
    out, rank = (*shape[:2], *size), len(size)
    title = f"{' x '.join(map(str, shape))}{' last' if last else ''} to {' x '.join(map(str, size))}"
    images = {"x": Operand(shape, "sixteenths", strides_of(shape, last)), "dx": Operand(shape, "empty",
        strides_of(shape, last)),
              "y": Operand(out, "empty", strides_of(out, last)), "dy": Operand(out, "sixteenths", strides_of(out,
                  last))}  # fmt: skip
    pointers = [p.name for p in row_named(row).pointers]
    names = [name for name in pointers if name in images]
    of_indices = {"stride_indices": strides_of(out, last)} if "indices" in pointers else {}
    return {
        "name": f"{row.removesuffix('_{T}')} {title}", "row": row, "dtypes": DTYPES,
        "arrays": {name: images[name] for name in names},
        "scalars": {"input_shape": shape, "output_size": size} | of_indices, "check": lambda problem: "",
    } | options | {"rank": rank}  # fmt: skip


def torch_adaptive(name, size):
    def peer(torch, t, scalars):
        pool = getattr(torch.nn.functional, f"{name}{len(size)}d")
        return lambda: pool(t["x"], size)

    return peer


def adaptive(name, shape, size, last=False):
    made = sized(f"{name}_{{T}}", shape, size, last)
    made.pop("rank")
    return Bench(**made, torch=(torch_adaptive(name, size),), bounds=BOUNDS)


def indexed(shape, size):
    """Fractional windows and max_unpool, of indices that grow with the window."""
    out = (*shape[:2], *size)
    count, inside = math.prod(size), math.prod(shape[2:])
    near = np.arange(count) * inside // count

    def numbers(_rng):
        return np.broadcast_to(near, (math.prod(shape[:2]), count)).reshape(-1)

    title = f"{' x '.join(map(str, shape))} to {' x '.join(map(str, size))}"
    common = {"dtypes": DTYPES, "check": lambda problem: ""}
    scalars = {"input_shape": shape, "output_size": size}
    of_images, of_outputs = strides_of(shape, False), strides_of(out, False)
    yield Bench(
        name=f"fractional_max_pool {title}", row="fractional_max_pool_{T}", **common,
        scalars=scalars | {"kernel_size": (2, 2), "planes": math.prod(shape[:2]), "spatial": 2},
        arrays={"x": Operand(shape, "sixteenths", of_images), "samples": Operand((math.prod(shape[:2]), 2),
            "probability"),
                "y": Operand(out, "empty", of_outputs), "indices": Operand(out, "empty", of_outputs)},
    )  # fmt: skip
    yield Bench(
        name=f"fractional_max_pool_backward {title}", row="fractional_max_pool_backward_{T}", **common, scalars=scalars,
        arrays={"dy": Operand(out, "sixteenths", of_outputs), "indices": Operand(out, numbers, of_outputs),
                "dx": Operand(shape, "empty", of_images)},
    )  # fmt: skip
    back = {"input_shape": out, "output_size": shape[2:]}
    yield Bench(
        name=f"max_unpool {title}", row="max_unpool_{T}", **common, scalars=back,
        arrays={"x": Operand(out, "sixteenths", of_outputs), "indices": Operand(out, numbers, of_outputs),
                "y": Operand(shape, "empty", of_images)},
    )  # fmt: skip
    yield Bench(
        name=f"max_unpool_backward {title}", row="max_unpool_backward_{T}", **common, scalars=back,
        arrays={"dy": Operand(shape, "sixteenths", of_images), "indices": Operand(out, numbers, of_outputs),
                "dx": Operand(out, "empty", of_outputs)},
    )  # fmt: skip


def benches(backend):
    n = 64 if backend == "cuda" else 4
    for last in (False, True):
        stem, halves = Windows((n, 64, 112, 112), 3, 2, 1, last), Windows((n, 64, 112, 112), 2, 2, 0, last)
        same = Windows((n, 192, 28, 28), 3, 1, 1, last)
        for windows in (stem, halves, same):
            yield max_forward(windows)
            yield avg_forward(windows)
        yield from gradients(stem)
        yield adaptive("adaptive_avg_pool", (n, 2048, 7, 7), (1, 1), last)
        yield adaptive("adaptive_max_pool", (n, 512, 14, 14), (7, 7), last)
    yield lp_forward(Windows((n, 64, 112, 112), 2, 2))
    yield max_forward(Windows((n // 4, 64, 16, 56, 56), 2, 2))
    made = sized("adaptive_avg_pool_backward_{T}", (n, 2048, 7, 7), (1, 1), bounds=BOUNDS[1:])
    made.pop("rank")
    yield Bench(**made)
    yield from indexed((n, 64, 56, 56), (28, 28))


def sweeps(backend):
    """Channels and extents, at about the same number of bytes."""
    cells = 2**25 if backend == "cuda" else 2**20
    for last in (False, True):
        where = " last" if last else ""
        points = {}
        for c in (1, 3, 8, 16, 17, 64, 100, 256, 1000, 2048):
            points[c] = max_forward(Windows((max(1, cells // (c * 56 * 56)), c, 56, 56), 3, 2, 1, last), ("bf16",))
        yield Sweep(name=f"max_pool k3 s2{where}", axis="channels", points=points, level=True)
        points = {}
        for e in (7, 8, 14, 17, 28, 33, 56, 112, 224, 500):
            points[e] = avg_forward(Windows((max(1, cells // (64 * e * e)), 64, e, e), 2, 2, 0, last), ("f32",))
        yield Sweep(name=f"avg_pool k2 s2{where}", axis="extent", points=points, level=True)
        points = {}
        for e in (4, 7, 14, 16, 33, 56, 112, 224):
            points[e] = adaptive("adaptive_avg_pool", (max(1, cells // (256 * e * e)), 256, e, e), (1, 1), last)
        yield Sweep(name=f"adaptive_avg_pool to 1 x 1{where}", axis="extent", points=points, level=True)
