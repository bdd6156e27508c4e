# SPDX-License-Identifier: Apache-2.0
"""Gradients of Fourier transforms along axes: the adjoint transforms, in PyTorch's convention for complex arrays
(d/d real part + i d/d imaginary part).

A transform is F P, where P crops or pads x to the lengths. Its adjoint is a transform of the opposite sign, of the same
lengths and normalization, cropped or padded to the extents of x. Elements of a half fiber with a conjugate count twice
in a real result, and once in a half result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Call = Callable[..., Any]  # calls a function by its name
Given = Mapping[str, Any]


def complex_to_complex(call: Call, given: Given) -> Any:
    dy, x = given["dy"], given["x"]
    options = {name: given[name] for name in ("axes", "normalization")}
    return _fitted(call, call("fft_c2c", dy, inverse=not given["inverse"], **options), x)


def real_to_complex(call: Call, given: Given) -> Any:
    dy, x, onesided = given["dy"], given["x"], given["onesided"]
    rank = len(x.shape)
    axes = list(range(rank)) if given["axes"] is None else [axis % rank for axis in given["axes"]]
    lengths = [dy.shape[axis] for axis in axes]
    if onesided:
        lengths[-1] = x.shape[axes[-1]] if given["lengths"] is None else given["lengths"][-1]
    options = {"onesided": onesided, "normalization": given["normalization"]}
    interior = 0.5 * given["interior"] if onesided else 1.0
    whole = call("fft_c2r", dy, lengths=lengths, axes=axes, inverse=not given["inverse"], interior=interior, **options)
    return _fitted(call, whole, x)


def complex_to_real(call: Call, given: Given) -> Any:
    dy, x, onesided = given["dy"], given["x"], given["onesided"]
    options = {name: given[name] for name in ("axes", "onesided", "normalization")}
    interior = 2.0 * given["interior"] if onesided else 1.0
    return _fitted(call, call("fft_r2c", dy, inverse=not given["inverse"], interior=interior, **options), x)


def cosine(call: Call, given: Given) -> Any:
    """Kinds II and III are each other's transpose but for a factor of the element with a weight of its own; the matrix
    of kind I is symmetric but for the weights of both ends."""
    kind, is_sine = given["kind"], given["is_sine"]
    edge_in, edge_out = given["edge_out"], given["edge_in"]
    if kind == 3 or (kind == 1 and not is_sine):
        edge_out *= 0.5
    if kind == 2 or (kind == 1 and not is_sine):
        edge_in *= 2.0
    options = {"axis": given["axis"], "is_sine": is_sine, "scale": given["scale"]}
    transposed = {2: 3, 3: 2}.get(kind, kind)
    return _fitted(call, call("fft_cosine", given["dy"], transposed, edge_in=edge_in, edge_out=edge_out, **options),
                   given["x"])  # fmt: skip


def convolution(call: Call, given: Given) -> Any:
    """A convolution of dy with the other operand, reversed."""
    dy, x, w = given["dy"], given["x"], given["w"]
    rank = len(x.shape)
    axes = list(range(rank)) if given["axes"] is None else [axis % rank for axis in given["axes"]]
    starts = [0] * len(axes) if given["starts"] is None else given["starts"]

    def gradient(other: Any, own: Any) -> Any:
        reverse = call("flip", other, axis=axes)
        from_ = [other.shape[axis] - 1 - start for axis, start in zip(axes, starts)]
        found = call("fft_convolve", dy, reverse, axes=axes, starts=from_, lengths=[own.shape[axis] for axis in axes])
        return found if found.shape == own.shape else call("sum_to_size", found, list(own.shape))

    return gradient(w, x), gradient(x, w)


def _fitted(call: Call, found: Any, x: Any) -> Any:
    """An array cropped or padded with zeros to the extents of x, at the end of each axis."""
    more = [want - have for want, have in zip(x.shape, found.shape)]
    if all([extent == 0 for extent in more]):
        return found
    return call("pad_constant", found, pad_low=[0] * len(more), pad_high=more)
