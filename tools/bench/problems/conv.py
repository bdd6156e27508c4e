# SPDX-License-Identifier: Apache-2.0
"""Convolution of ResNet-50, UNet, video, ConvNeXt and causal sequences: three directions, channels last by default.

Peers are PyTorch's convolutions, cuDNN on a GPU and oneDNN on a CPU, on the same memory order.
"""

import functools
import itertools
import math

import numpy as np

from tools.bench.check import cells, compare, sample_indices
from tools.bench.record import Bench, Bound, Operand, Sweep

LEVEL = (Bound("peer", 1.0),)
DEPTHWISE = (Bound("peer", 1.3),)
_KERNELS = "the kernels of convolution_{T} and of its gradients"
UNMEASURED = {
    **dict.fromkeys((f"conv_{d}d_{way}_{{T}}" for d in (1, 2, 3) for way in ("fw", "bw_data", "bw_filter")), _KERNELS),
    **dict.fromkeys(
        (f"conv_transpose_{d}d_{way}_{{T}}" for d in (1, 2, 3) for way in ("fw", "bw_data", "bw_filter")), _KERNELS
    ),
    **dict.fromkeys(("im2col_1d_{T}", "im2col_2d_{T}"), "the kernels of im2col_{T}"),
    "col2im_1d_{T}": "bound by a copy of the columns, as col2im_{T}",
    "convolution_{T}_sums": "the kernels of convolution_{T}_{U}",
}


class Layer:
    """A convolution: extents, and the shapes of its operands in the order of memory."""

    def __init__(self, batch, c_in, c_out, extents, taps, *, step=1, pad=None, groups=1, last=True):
        self.batch, self.c_in, self.c_out, self.groups, self.last = batch, c_in, c_out, groups, last
        self.extents, self.taps, self.step = tuple(extents), tuple(taps), step
        self.pad = tuple(k // 2 for k in taps) if pad is None else tuple(pad)
        self.out = tuple((e + 2 * p - k) // step + 1 for e, p, k in zip(extents, self.pad, taps))
        self.x, self.w, self.y = (
            self.ordered(batch, c_in, self.extents),
            self.ordered(c_out, c_in // groups, self.taps),
            self.ordered(batch, c_out, self.out),
        )

    def ordered(self, outer, channels, spatial):
        return (outer, *spatial, channels) if self.last else (outer, channels, *spatial)

    @property
    def flops(self):
        return 2 * self.batch * self.c_out * math.prod(self.out) * (self.c_in // self.groups) * math.prod(self.taps)

    @property
    def numbers(self):
        n = len(self.taps)
        return {
            "input_shape": self.x,
            "filter_shape": self.w,
            "steps": (self.step,) * n,
            "padding": self.pad,
            "padding_after": self.pad,
            "dilation": (1,) * n,
            "groups": self.groups,
            "channels_last": int(self.last),
            "allow_tf32": 0,
            "alpha": 1.0,
            "beta": 0.0,
        }

    def position(self, shape, outer, channel, spatial):
        """Flat positions in an operand of this shape; the indices are arrays of one shape."""
        at = (outer, *spatial, channel) if self.last else (outer, channel, *spatial)
        return np.ravel_multi_index(np.broadcast_arrays(*at), shape)

    def indices(self, shape, flat):
        """(outer, channel, spatial) of a flat position."""
        outer, *rest = (int(i) for i in np.unravel_index(flat, shape))
        return (outer, rest[-1], rest[:-1]) if self.last else (outer, rest[0], rest[1:])


def check_forward(of, problem):
    per_group = of.c_in // of.groups
    for flat in sample_indices(problem, math.prod(of.y), 6):
        n, k, o = of.indices(of.y, flat)
        taps = np.indices(of.taps).reshape(len(of.taps), -1)
        at = [o[d] * of.step + taps[d] - of.pad[d] for d in range(len(o))]
        inside = np.all([(a >= 0) & (a < e) for a, e in zip(at, of.extents)], axis=0)
        c = np.arange(per_group)[:, None]
        first = k // (of.c_out // of.groups) * per_group
        x = cells(problem, "x", of.position(of.x, n, first + c, [a[inside] for a in at]).ravel())
        w = cells(problem, "w", of.position(of.w, k, c, [t[inside] for t in taps]).ravel())
        if wrong := compare(problem, cells(problem, "y", [flat]), (x * w).sum(), np.abs(x * w).sum()):
            return f"y[{flat}] {wrong}"
    return ""


def check_data(of, source, result, problem):
    """Samples of `result`, the gradient of x, from `source`, that of y."""
    per_group, outputs = of.c_in // of.groups, of.c_out // of.groups
    for flat in sample_indices(problem, math.prod(of.x), 6):
        n, c, i = of.indices(of.x, flat)
        taps = np.indices(of.taps).reshape(len(of.taps), -1)
        shifted = [i[d] + of.pad[d] - taps[d] for d in range(len(i))]
        inside = np.all([(a >= 0) & (a % of.step == 0) & (a // of.step < e) for a, e in zip(shifted, of.out)], axis=0)
        k = c // per_group * outputs + np.arange(outputs)[:, None]
        at = [a[inside] // of.step for a in shifted]
        dy = cells(problem, source, of.position(of.y, n, k, at).ravel())
        w = cells(problem, "w", of.position(of.w, k, c % per_group, [t[inside] for t in taps]).ravel())
        if wrong := compare(problem, cells(problem, result, [flat]), (dy * w).sum(), np.abs(dy * w).sum()):
            return f"{result}[{flat}] {wrong}"
    return ""


def check_filter(of, problem):
    per_group = of.c_in // of.groups
    for flat in sample_indices(problem, math.prod(of.w), 2):
        k, c, t = of.indices(of.w, flat)
        o = np.indices(of.out).reshape(len(of.out), -1)
        at = [o[d] * of.step + t[d] - of.pad[d] for d in range(len(t))]
        inside = np.all([(a >= 0) & (a < e) for a, e in zip(at, of.extents)], axis=0)
        n = np.arange(of.batch)[:, None]
        c += k // (of.c_out // of.groups) * per_group
        x = cells(problem, "x", of.position(of.x, n, c, [a[inside] for a in at]).ravel())
        dy = cells(problem, "dy", of.position(of.y, n, k, [a[inside] for a in o]).ravel())
        if wrong := compare(problem, cells(problem, "dw", [flat]), (x * dy).sum(), np.abs(x * dy).sum()):
            return f"dw[{flat}] {wrong}"
    return ""


def check_bytes(of, problem):
    """Samples of y = round(alpha sum), from the sums of 8-bit products."""
    for flat in sample_indices(problem, math.prod(of.y), 6):
        n, k, o = of.indices(of.y, flat)
        taps = np.indices(of.taps).reshape(len(of.taps), -1)
        at = [o[d] * of.step + taps[d] - of.pad[d] for d in range(len(o))]
        inside = np.all([(a >= 0) & (a < e) for a, e in zip(at, of.extents)], axis=0)
        c = np.arange(of.c_in)[:, None]
        x = cells(problem, "x", of.position(of.x, n, c, [a[inside] for a in at]).ravel()).astype(np.int64)
        w = cells(problem, "w", of.position(of.w, k, c, [t[inside] for t in taps]).ravel()).astype(np.int64)
        expected = np.clip(np.rint(problem.bench.scalars["alpha"] * (x * w).sum()), -128, 127)
        if abs(int(cells(problem, "y", [flat])[0]) - expected) > 1:
            return f"y[{flat}] is wrong"
    return ""


# --- peers -----------------------------------------------------------------------------------------------------------


def logical(tensor, scalars):
    """The tensor with channels behind the first axis; of the same memory."""
    if scalars["channels_last"] == 0:
        return tensor
    return tensor.permute(0, tensor.ndim - 1, *range(1, tensor.ndim - 1))


def torch_forward(torch, t, s):
    x, w = logical(t["x"], s), logical(t["w"], s)
    conv = getattr(torch.nn.functional, f"conv{len(s['steps'])}d")
    return lambda: conv(x, w, None, s["steps"], s["padding"], s["dilation"], s["groups"])


def torch_gradient(wants_filter):
    def peer(torch, t, s):
        shape_x, shape_w = (list(s[name]) for name in ("input_shape", "filter_shape"))
        dy = logical(t["dy"], s)
        x = logical(t["x"] if "x" in t else torch.empty(shape_x, dtype=dy.dtype, device=dy.device), s)
        w = logical(t["w"] if "w" in t else torch.empty(shape_w, dtype=dy.dtype, device=dy.device), s)
        wanted = [not wants_filter, wants_filter, False]
        padding, steps, zeros = list(s["padding"]), list(s["steps"]), [0] * len(s["steps"])
        backward = torch.ops.aten.convolution_backward
        dilation, groups = list(s["dilation"]), s["groups"]
        return lambda: backward(dy, x, w, None, steps, padding, dilation, False, zeros, groups, wanted)

    return peer


# --- problems --------------------------------------------------------------------------------------------------------


def forward(name, of, dtypes=("bf16",), bounds=LEVEL):
    return Bench(
        name=f"convolution {name}",
        row="convolution_{T}",
        dtypes=dtypes,
        scalars=of.numbers | {"activation": 0},
        check=functools.partial(check_forward, of),
        workspace=True,
        torch=(torch_forward,),
        bounds=bounds,
        flops=of.flops,
        arrays={"x": Operand(of.x, "sixteenths"), "w": Operand(of.w, "sixteenths"), "y": Operand(of.y)},
    )


def data(name, of, dtypes=("bf16",), bounds=LEVEL):
    return Bench(
        name=f"convolution data {name}",
        row="convolution_backward_data_{T}",
        dtypes=dtypes,
        scalars=of.numbers,
        check=functools.partial(check_data, of, "dy", "dx"),
        workspace=True,
        torch=(torch_gradient(False),),
        bounds=bounds,
        flops=of.flops,
        arrays={"dy": Operand(of.y, "sixteenths"), "w": Operand(of.w, "sixteenths"), "dx": Operand(of.x)},
    )


def filters(name, of, dtypes=("bf16",), bounds=LEVEL):
    return Bench(
        name=f"convolution filter {name}",
        row="convolution_backward_filter_{T}",
        dtypes=dtypes,
        scalars=of.numbers,
        check=functools.partial(check_filter, of),
        workspace=True,
        torch=(torch_gradient(True),),
        bounds=bounds,
        flops=of.flops,
        arrays={"x": Operand(of.x, "sixteenths"), "dy": Operand(of.y, "sixteenths"), "dw": Operand(of.w)},
    )


def transposed(name, of, dtypes=("bf16",)):
    """The gradient of `of`'s data as a transposed convolution."""
    numbers = of.numbers | {"activation": 0, "input_shape": of.y, "output_padding": output_padding(of)}
    return Bench(
        name=f"convolution transposed {name}",
        row="convolution_transpose_{T}",
        dtypes=dtypes,
        scalars=numbers,
        check=functools.partial(check_data, of, "x", "y"),
        workspace=True,
        bounds=(),
        flops=of.flops,
        torch=(torch_transposed,),
        arrays={"x": Operand(of.y, "sixteenths"), "w": Operand(of.w, "sixteenths"), "y": Operand(of.x)},
    )


def output_padding(of):
    least = ((o - 1) * of.step - 2 * p + k for o, p, k in zip(of.out, of.pad, of.taps))
    return tuple(e - each for e, each in zip(of.extents, least))


def torch_transposed(torch, t, s):
    x, w = logical(t["x"], s), logical(t["w"], s)
    conv = getattr(torch.nn.functional, f"conv_transpose{len(s['steps'])}d")
    return lambda: conv(x, w, None, s["steps"], s["padding"], s["output_padding"], s["groups"], s["dilation"])


def quantised(name, of):
    numbers = {key: value for key, value in of.numbers.items() if key not in ("allow_tf32", "beta")}
    return Bench(
        name=f"convolution 8-bit {name}",
        row="convolution_{T}_{U}",
        other="i8",
        dtypes=("i8",),
        check=functools.partial(check_bytes, of),
        scalars=numbers | {"activation": 0, "alpha": 2.0**-12},
        flops=of.flops,
        arrays={
            "x": Operand(of.x, lambda rng: rng.integers(-8, 9, of.x)),
            "w": Operand(of.w, lambda rng: rng.integers(-8, 9, of.w)),
            "y": Operand(of.y),
        },
    )


def resnet(batch):
    yield "first 7x7 s2", Layer(batch, 3, 64, (224, 224), (7, 7), step=2)
    yield "56 64 3x3", Layer(batch, 64, 64, (56, 56), (3, 3))
    yield "56 64-256 1x1", Layer(batch, 64, 256, (56, 56), (1, 1))
    yield "56 128 3x3 s2", Layer(batch, 128, 128, (56, 56), (3, 3), step=2)
    yield "28 128 3x3", Layer(batch, 128, 128, (28, 28), (3, 3))
    yield "14 256 3x3", Layer(batch, 256, 256, (14, 14), (3, 3))
    yield "14 1024-256 1x1", Layer(batch, 1024, 256, (14, 14), (1, 1))
    yield "7 512 3x3", Layer(batch, 512, 512, (7, 7), (3, 3))
    yield "resnext 28 256 g32", Layer(batch, 256, 256, (28, 28), (3, 3), groups=32)


def models():
    yield "unet 64 320", Layer(8, 320, 320, (64, 64), (3, 3))
    yield "unet 16 1280", Layer(8, 1280, 1280, (16, 16), (3, 3))
    yield "vae 8x64x256", Layer(8, 64, 64, (256, 256), (3, 3))
    yield "video 16x64x64 128", Layer(1, 128, 128, (16, 64, 64), (3, 3, 3))
    yield "audio 32768 512 k7", Layer(4, 512, 512, (32768,), (7,))


def depthwise(batch):
    yield "convnext 56 128 7x7", Layer(batch, 128, 128, (56, 56), (7, 7), groups=128)
    yield "convnext 14 512 7x7", Layer(batch, 512, 512, (14, 14), (7, 7), groups=512)
    yield "mobilenet 112 96 3x3 s2", Layer(batch, 96, 96, (112, 112), (3, 3), step=2, groups=96)
    yield "causal 4096x2048 k4", Layer(8, 2048, 2048, (4096,), (4,), pad=(3,), groups=2048)
    yield "video 8x28x28 192 3x3x3", Layer(2, 192, 192, (8, 28, 28), (3, 3, 3), groups=192)


def in_order(layers, last):
    """The layers in another memory order."""
    for name, of in layers:
        kind = "last" if last else "first"
        yield (
            f"{name} channels {kind}",
            Layer(
                of.batch, of.c_in, of.c_out, of.extents, of.taps, step=of.step, pad=of.pad, groups=of.groups, last=last
            ),
        )


def benches(backend):
    if backend == "cpu":
        layers = [
            ("28 128 3x3", Layer(2, 128, 128, (28, 28), (3, 3))),
            ("56 64 1x1", Layer(2, 64, 256, (56, 56), (1, 1))),
        ]
        layers.append(("first 7x7 s2", Layer(1, 3, 64, (224, 224), (7, 7), step=2)))
        for (name, of), make in itertools.product(
            itertools.chain(layers, in_order(layers, False)), (forward, data, filters)
        ):
            yield make(name, of, ("f32",))
        for (name, of), make in itertools.product(depthwise(1), (forward, data, filters)):
            if of.x[-1] * math.prod(of.extents) < 2**21:
                yield make(f"depthwise {name}", of, ("f32",))
        yield transposed("28 128 3x3 s2", Layer(2, 128, 128, (28, 28), (3, 3), step=2), ("f32",))
        yield quantised("28 128 3x3", layers[0][1])
        return
    for name, of in itertools.chain(resnet(64), models()):
        for make in (forward, data, filters):
            yield make(name, of)
    for name, of in depthwise(64):
        for make in (forward, data, filters):
            yield make(f"depthwise {name}", of, bounds=DEPTHWISE)
    for name, of in in_order(itertools.islice(resnet(64), 5), False):
        for make in (forward, data, filters):
            yield make(name, of, ("f32", "bf16"))
    yield transposed("unet 64 320 s2", Layer(8, 320, 320, (128, 128), (3, 3), step=2))
    yield quantised("28 128 3x3", Layer(64, 128, 128, (28, 28), (3, 3)))


def sweeps(backend):
    is_gpu = backend == "cuda"
    dtypes = ("bf16",) if is_gpu else ("f32",)
    batch, extent = (32, 28) if is_gpu else (1, 14)
    channels = (3, 4, 8, 16, 20, 32, 33, 48, 64, 96, 128, 192, 256, 512) if is_gpu else (3, 8, 16, 33, 64, 128)
    for make in (forward, data, filters):
        yield Sweep(
            name=f"{make.__name__} 3x3 {extent}",
            axis="channels",
            points={
                c: make(f"3x3 {extent} channels {c}", Layer(batch, c, c, (extent, extent), (3, 3)), dtypes)
                for c in channels
            },
        )
    batches = (1, 2, 3, 4, 8, 16, 17, 32, 64, 128) if is_gpu else (1, 2, 4, 8)
    yield Sweep(
        name="forward 3x3 14 256",
        axis="batch",
        points={n: forward(f"3x3 14 256 batch {n}", Layer(n, 256, 256, (14, 14), (3, 3)), dtypes) for n in batches},
    )
    sides = (1, 2, 4, 7, 8, 14, 15, 28, 33, 56, 64, 112) if is_gpu else (4, 7, 14, 28, 56)
    yield Sweep(
        name="forward 3x3 64",
        axis="extent",
        points={e: forward(f"3x3 64 extent {e}", Layer(batch, 64, 64, (e, e), (3, 3)), dtypes) for e in sides},
    )
    for layout in ("last", "first"):
        yield Sweep(
            name=f"depthwise channels {layout} 28 192",
            axis="taps",
            points={
                k: forward(
                    f"depthwise channels {layout} {k}x{k}",
                    Layer(batch, 192, 192, (28, 28), (k, k), groups=192, last=layout == "last"),
                    dtypes,
                )
                for k in (1, 2, 3, 5, 7, 9, 11)
            },
        )
