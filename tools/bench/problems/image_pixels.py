# SPDX-License-Identifier: Apache-2.0
"""Pixels of a batch of images, beside a copy and the passes that users of PyTorch write."""

import numpy as np

from tools.bench.check import cells, sample_indices
from tools.bench.record import Bench, Bound, Operand, Sweep

COPY = (Bound("copy", 0.9), Bound("peer", 1.0))


def bytes_like(*shape):
    """Random bytes, the same for every problem."""
    return Operand(shape, lambda rng: np.random.default_rng(1).integers(0, 256, shape))


def torch_to_planes(torch, t, scalars):
    mean, std = t["mean"][:, None, None], t["std"][:, None, None]
    return lambda: ((t["x"].permute(0, 3, 1, 2) * scalars["scale"] - mean) / std).to(t["y"].dtype).contiguous()


def torch_to_pixels(torch, t, scalars):
    mean, std = t["mean"][:, None, None], t["std"][:, None, None]
    return lambda: (
        ((t["y"] * std + mean) * scalars["scale"]).round().clamp(0, 255).byte().permute(0, 2, 3, 1).contiguous()
    )


def check_planes(problem):
    """Samples within two roundings of the formula."""
    batch, channels, height, width = problem.bench.arrays["y"].shape
    at = sample_indices(problem, batch * channels * height * width)
    image, rest = at // (channels * height * width), at % (channels * height * width)
    channel, pixel = rest // (height * width), rest % (height * width)
    bytes_ = cells(problem, "x", (image * height * width + pixel) * channels + channel)
    mean, std = (cells(problem, name, channel) for name in ("mean", "std"))
    want, got = (bytes_ * problem.bench.scalars["scale"] - mean) / std, cells(problem, "y", at)
    return "" if np.allclose(got, want, rtol=0.02, atol=0.02) else f"is {got}, expected {want}"


def check_bytes(problem):
    """Samples within one of the formula."""
    batch, channels, height, width = problem.bench.arrays["y"].shape
    at = sample_indices(problem, batch * channels * height * width)
    image, rest = at // (channels * height * width), at % (channels * height * width)
    channel, pixel = rest // (height * width), rest % (height * width)
    mean, std = (cells(problem, name, channel) for name in ("mean", "std"))
    want = np.clip((cells(problem, "y", at) * std + mean) * 255, 0, 255)
    got = np.asarray(cells(problem, "x", (image * height * width + pixel) * channels + channel), float)
    return "" if np.abs(got - want).max() <= 1 else f"is {got}, expected {want}"


def torch_gray(torch, t, scalars):
    weights = torch.tensor([0.299, 0.587, 0.114], device=t["x"].device, dtype=t["x"].dtype)
    return lambda: torch.einsum("ncp,c->np", t["x"], weights)


def check_gray(problem):
    _, _, pixels = problem.bench.arrays["x"].shape
    at = sample_indices(problem, pixels)
    want = sum(w * cells(problem, "x", k * pixels + at) for k, w in enumerate((0.299, 0.587, 0.114)))
    got = cells(problem, "y", at)
    return "" if np.allclose(got, want, rtol=1e-2, atol=1e-2) else f"is {got}, expected {want}"


def check_frames(problem):
    """Samples of green, within one."""
    _, _, height, width = problem.bench.arrays["y"].shape
    at = sample_indices(problem, height * width)
    i, j = at // width, at % width
    y = (cells(problem, "x", at).astype(float) - 16) * 255 / 219
    pair = (height + i // 2) * width + j // 2 * 2
    cb, cr = ((cells(problem, "x", pair + k).astype(float) - 128) * 255 / 224 for k in (0, 1))
    want = np.clip(y - (0.114 * 1.772 * cb + 0.299 * 1.402 * cr) / 0.587, 0, 255)
    got = np.asarray(cells(problem, "y", height * width + at), float)
    return "" if np.abs(got - want).max() <= 1 else f"is {got}, expected {want}"


def to_planes(batch, height, width, dtypes):
    scalars = {"source_h": height, "source_w": width, "top": 0, "left": 0, "reverse_channels": 0, "flip_columns": 0}
    return Bench(
        name=f"pixels_to_planes {batch} x {height} x {width}", row="pixels_to_planes_{T}", dtypes=dtypes, bounds=COPY,
        check=check_planes, torch=(torch_to_planes,), scalars=scalars | {"scale": 1 / 255},
        arrays={
            "x": bytes_like(batch, height, width, 3), "mean": Operand((3,), 0.45), "std": Operand((3,), 0.25),
            "y": Operand((batch, 3, height, width)),
        },
    )  # fmt: skip


def benches(backend):
    batch, side = (256, 224) if backend == "cuda" else (4, 224)
    yield to_planes(batch, side, side, ("f32", "bf16"))
    yield Bench(
        name="planes_to_pixels", row="planes_to_pixels_{T}", dtypes=("f32", "bf16"), bounds=COPY, check=check_bytes,
        torch=(torch_to_pixels,), scalars={"reverse_channels": 0, "flip_columns": 0, "scale": 255.0},
        arrays={
            "y": Operand((batch, 3, side, side), "normal"), "mean": Operand((3,), 0.45), "std": Operand((3,), 0.25),
            "x": Operand((batch, side, side, 3)),
        },
    )  # fmt: skip
    yield Bench(
        name="convert_color rgb_to_gray", row="convert_color_{T}", dtypes=("f32",), bounds=COPY, check=check_gray,
        torch=(torch_gray,), scalars={"color_code": 1, "channels_last": 0},
        arrays={
            "x": Operand((batch, 3, side * side), "probability"), "y": Operand((batch, 1, side * side)),
        },
    )  # fmt: skip
    frames = (16, 1080, 1920) if backend == "cuda" else (1, 270, 480)
    yield Bench(
        name="nv12_to_rgb", row="nv12_to_rgb_{T}", dtypes=("u8",), bounds=(Bound("copy", 0.8),), check=check_frames,
        scalars={"height": frames[1], "width": frames[2], "is_709": 0, "full_range": 0, "channels_last": 0, "bgr": 0},
        arrays={
            "x": bytes_like(frames[0], frames[1] * 3 // 2, frames[2]),
            "y": Operand((frames[0], 3, frames[1], frames[2])),
        },
    )  # fmt: skip


def sweeps(backend):
    """Sides of images of about equal size in all."""
    pixels = 1 << (25 if backend == "cuda" else 18)
    sides = (7, 32, 33, 100, 224, 225, 512, 1000)
    points = {side: to_planes(max(pixels // side**2, 1), side, side, ("f32",)) for side in sides}
    yield Sweep(name="pixels_to_planes, square images", axis="side", points=points, level=True)
