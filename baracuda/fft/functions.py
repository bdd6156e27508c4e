# SPDX-License-Identifier: Apache-2.0
"""The transforms of numpy.fft on arrays of any framework, with gradients in baracuda.torch.fft and baracuda.jax.fft.

Arrays are those that `baracuda.functions` takes; results belong to the framework of x and are on its device and stream.
f32 and c32 are computed in single precision, f64 and c64 in double; f16 and bf16 become f32, integers and bool f64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from baracuda import functions
from baracuda._arrays.frameworks import result_framework
from baracuda._arrays.shaping import given_array
from baracuda._functions.fft_calls import NAMES as NAMES
from baracuda._functions.fft_calls import FftCalls
from baracuda._promotion import kind_of, promoted
from baracuda.dtypes import ElementKind, as_element
from baracuda.errors import InvalidProblemError, UnsupportedError, naming
from baracuda.tensor import tensor

_COMPLEX = {ElementKind.F32: ElementKind.COMPLEX32, ElementKind.F64: ElementKind.COMPLEX64}
_NARROW = (ElementKind.F16, ElementKind.BF16)


class _Arrays:
    """Arrays of any framework, through `baracuda.functions`."""

    def call(self, name: str, *arrays: Any, **numbers: Any) -> Any:
        return getattr(functions, name)(*arrays, **numbers)

    def floating(self, x: Any) -> Any:
        element = tensor(x, "x").dtype
        if element in _NARROW:
            return functions.cast(x, ElementKind.F32)
        return functions.cast(x, ElementKind.F64) if kind_of(x) in "iub" else x

    def is_complex(self, x: Any) -> bool:
        return kind_of(x) == "c"

    def as_complex(self, x: Any) -> Any:
        wanted = _COMPLEX[as_element(x.dtype)]
        if hasattr(x, "astype"):
            return x.astype(wanted.numpy_dtype)
        if hasattr(x, "to"):
            return x.to(result_framework(x).native(wanted, x))
        raise UnsupportedError(f"x is real, must be complex: {type(x).__name__} has no conversion")

    def alike(self, a: Any, b: Any) -> Any:
        return promoted(a, b)


_CALLS = FftCalls(_Arrays())


@naming("fft")
def fft(x: Any, n: int | None = None, axis: int = -1, norm: str | None = None, *, out: Any = None) -> Any:
    """Discrete Fourier transform along an axis: y[k] = sum over j of x[j] exp(-2 pi i j k / n).

    x is cropped to n elements along the axis, or padded with zeros. Any n, primes among them; real arrays are taken by
    a transform of their own. norm is "backward" (None; a factor of 1 / n in inverses), "ortho" (of 1 / sqrt(n) in
    both) or "forward" (1 / n in the others).

    InvalidProblemError for arguments that do not fit, UnsupportedError for a dtype that is not served.
    """
    return _CALLS.along_axis("fft", given_array(x, "x"), n, axis, norm, out)


@naming("ifft")
def ifft(x: Any, n: int | None = None, axis: int = -1, norm: str | None = None, *, out: Any = None) -> Any:
    """Inverse of fft along an axis: y[j] = sum over k of x[k] exp(2 pi i j k / n), divided by n.

    x is cropped to n elements along the axis, or padded with zeros. Real arrays are taken by a transform of their own.
    norm is "backward" (None; a factor of 1 / n in inverses), "ortho" (of 1 / sqrt(n) in both) or "forward" (1 / n in
    the others).

    InvalidProblemError for arguments that do not fit, UnsupportedError for a dtype that is not served.
    """
    return _CALLS.along_axis("ifft", given_array(x, "x"), n, axis, norm, out)


@naming("rfft")
def rfft(x: Any, n: int | None = None, axis: int = -1, norm: str | None = None, *, out: Any = None) -> Any:
    """fft of real numbers: the first n // 2 + 1 elements, of which the others are conjugates.

    x is cropped to n elements along the axis, or padded with zeros. Real arrays are taken, complex ones are refused.
    norm is "backward" (None; a factor of 1 / n in inverses), "ortho" (of 1 / sqrt(n) in both) or "forward" (1 / n in
    the others).

    InvalidProblemError for arguments that do not fit, UnsupportedError for a dtype that is not served.
    """
    return _CALLS.along_axis("rfft", given_array(x, "x"), n, axis, norm, out)


@naming("irfft")
def irfft(x: Any, n: int | None = None, axis: int = -1, norm: str | None = None, *, out: Any = None) -> Any:
    """Inverse of rfft: n real numbers from the first n // 2 + 1 elements of a Hermitian fiber.

    x is cropped to n elements // 2 + 1 along the axis, or padded with zeros. By default n is even, 2 (extent - 1);
    imaginary parts of the first element and, for an even n, of the last are not used. Real arrays are taken as complex
    ones. norm is "backward" (None; a factor of 1 / n in inverses), "ortho" (of 1 / sqrt(n) in both) or "forward" (1 /
    n in the others).

    InvalidProblemError for arguments that do not fit, UnsupportedError for a dtype that is not served.
    """
    return _CALLS.along_axis("irfft", given_array(x, "x"), n, axis, norm, out)


@naming("hfft")
def hfft(x: Any, n: int | None = None, axis: int = -1, norm: str | None = None, *, out: Any = None) -> Any:
    """fft of a Hermitian fiber: n real numbers from its first n // 2 + 1 elements.

    x is cropped to n elements // 2 + 1 along the axis, or padded with zeros. By default n is even, 2 (extent - 1);
    imaginary parts of the first element and, for an even n, of the last are not used. Real arrays are taken as complex
    ones. norm is "backward" (None; a factor of 1 / n in inverses), "ortho" (of 1 / sqrt(n) in both) or "forward" (1 /
    n in the others).

    InvalidProblemError for arguments that do not fit, UnsupportedError for a dtype that is not served.
    """
    return _CALLS.along_axis("hfft", given_array(x, "x"), n, axis, norm, out)


@naming("ihfft")
def ihfft(x: Any, n: int | None = None, axis: int = -1, norm: str | None = None, *, out: Any = None) -> Any:
    """Inverse of hfft: the first n // 2 + 1 elements of the ifft of real numbers.

    x is cropped to n elements along the axis, or padded with zeros. Real arrays are taken, complex ones are refused.
    norm is "backward" (None; a factor of 1 / n in inverses), "ortho" (of 1 / sqrt(n) in both) or "forward" (1 / n in
    the others).

    InvalidProblemError for arguments that do not fit, UnsupportedError for a dtype that is not served.
    """
    return _CALLS.along_axis("ihfft", given_array(x, "x"), n, axis, norm, out)


@naming("fft2")
def fft2(
    x: Any, s: Sequence[int] | None = None, axes: Sequence[int] | None = (-2, -1), norm: str | None = None, *,
    out: Any = None,
) -> Any:  # fmt: skip
    """fft along two axes, the last ones by default.

    s has the length of each; -1 stands for that of x. norm is that of fft, of the product of lengths.

    InvalidProblemError for arguments that do not fit, UnsupportedError for a dtype that is not served.
    """
    return _CALLS.along_axes("fft", given_array(x, "x"), s, axes, norm, out)


@naming("ifft2")
def ifft2(
    x: Any, s: Sequence[int] | None = None, axes: Sequence[int] | None = (-2, -1), norm: str | None = None, *,
    out: Any = None,
) -> Any:  # fmt: skip
    """ifft along two axes, the last ones by default.

    s has the length of each; -1 stands for that of x. norm is that of ifft, of the product of lengths.

    InvalidProblemError for arguments that do not fit, UnsupportedError for a dtype that is not served.
    """
    return _CALLS.along_axes("ifft", given_array(x, "x"), s, axes, norm, out)


@naming("rfft2")
def rfft2(
    x: Any, s: Sequence[int] | None = None, axes: Sequence[int] | None = (-2, -1), norm: str | None = None, *,
    out: Any = None,
) -> Any:  # fmt: skip
    """rfft along two axes, the last ones by default: that of real numbers along the last of axes.

    s has the length of each; -1 stands for that of x. norm is that of rfft, of the product of lengths.

    InvalidProblemError for arguments that do not fit, UnsupportedError for a dtype that is not served.
    """
    return _CALLS.along_axes("rfft", given_array(x, "x"), s, axes, norm, out)


@naming("irfft2")
def irfft2(
    x: Any, s: Sequence[int] | None = None, axes: Sequence[int] | None = (-2, -1), norm: str | None = None, *,
    out: Any = None,
) -> Any:  # fmt: skip
    """irfft along two axes, the last ones by default: that of real numbers along the last of axes.

    s has the length of each; -1 stands for that of x. norm is that of irfft, of the product of lengths.

    InvalidProblemError for arguments that do not fit, UnsupportedError for a dtype that is not served.
    """
    return _CALLS.along_axes("irfft", given_array(x, "x"), s, axes, norm, out)


@naming("hfft2")
def hfft2(
    x: Any, s: Sequence[int] | None = None, axes: Sequence[int] | None = (-2, -1), norm: str | None = None, *,
    out: Any = None,
) -> Any:  # fmt: skip
    """hfft along two axes, the last ones by default: that of a half along the last of axes.

    s has the length of each; -1 stands for that of x. norm is that of hfft, of the product of lengths.

    InvalidProblemError for arguments that do not fit, UnsupportedError for a dtype that is not served.
    """
    return _CALLS.along_axes("hfft", given_array(x, "x"), s, axes, norm, out)


@naming("ihfft2")
def ihfft2(
    x: Any, s: Sequence[int] | None = None, axes: Sequence[int] | None = (-2, -1), norm: str | None = None, *,
    out: Any = None,
) -> Any:  # fmt: skip
    """ihfft along two axes, the last ones by default: that of a half along the last of axes.

    s has the length of each; -1 stands for that of x. norm is that of ihfft, of the product of lengths.

    InvalidProblemError for arguments that do not fit, UnsupportedError for a dtype that is not served.
    """
    return _CALLS.along_axes("ihfft", given_array(x, "x"), s, axes, norm, out)


@naming("fftn")
def fftn(
    x: Any, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None, *,
    out: Any = None,
) -> Any:  # fmt: skip
    """fft along several axes, all by default.

    s has the length of each; -1 stands for that of x. Without axes they are the last len(s). norm is that of fft, of
    the product of lengths.

    InvalidProblemError for arguments that do not fit, UnsupportedError for a dtype that is not served.
    """
    return _CALLS.along_axes("fft", given_array(x, "x"), s, axes, norm, out)


@naming("ifftn")
def ifftn(
    x: Any, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None, *,
    out: Any = None,
) -> Any:  # fmt: skip
    """ifft along several axes, all by default.

    s has the length of each; -1 stands for that of x. Without axes they are the last len(s). norm is that of ifft, of
    the product of lengths.

    InvalidProblemError for arguments that do not fit, UnsupportedError for a dtype that is not served.
    """
    return _CALLS.along_axes("ifft", given_array(x, "x"), s, axes, norm, out)


@naming("rfftn")
def rfftn(
    x: Any, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None, *,
    out: Any = None,
) -> Any:  # fmt: skip
    """rfft along several axes, all by default: that of real numbers along the last of axes.

    s has the length of each; -1 stands for that of x. Without axes they are the last len(s). norm is that of rfft, of
    the product of lengths.

    InvalidProblemError for arguments that do not fit, UnsupportedError for a dtype that is not served.
    """
    return _CALLS.along_axes("rfft", given_array(x, "x"), s, axes, norm, out)


@naming("irfftn")
def irfftn(
    x: Any, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None, *,
    out: Any = None,
) -> Any:  # fmt: skip
    """irfft along several axes, all by default: that of real numbers along the last of axes.

    s has the length of each; -1 stands for that of x. Without axes they are the last len(s). norm is that of irfft, of
    the product of lengths.

    InvalidProblemError for arguments that do not fit, UnsupportedError for a dtype that is not served.
    """
    return _CALLS.along_axes("irfft", given_array(x, "x"), s, axes, norm, out)


@naming("hfftn")
def hfftn(
    x: Any, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None, *,
    out: Any = None,
) -> Any:  # fmt: skip
    """hfft along several axes, all by default: that of a half along the last of axes.

    s has the length of each; -1 stands for that of x. Without axes they are the last len(s). norm is that of hfft, of
    the product of lengths.

    InvalidProblemError for arguments that do not fit, UnsupportedError for a dtype that is not served.
    """
    return _CALLS.along_axes("hfft", given_array(x, "x"), s, axes, norm, out)


@naming("ihfftn")
def ihfftn(
    x: Any, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None, *,
    out: Any = None,
) -> Any:  # fmt: skip
    """ihfft along several axes, all by default: that of a half along the last of axes.

    s has the length of each; -1 stands for that of x. Without axes they are the last len(s). norm is that of ihfft, of
    the product of lengths.

    InvalidProblemError for arguments that do not fit, UnsupportedError for a dtype that is not served.
    """
    return _CALLS.along_axes("ihfft", given_array(x, "x"), s, axes, norm, out)


@naming("dct")
def dct(
    x: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None,
    orthogonalize: bool | None = None, *, out: Any = None,
) -> Any:  # fmt: skip
    """Discrete cosine transform of real numbers along an axis, of type 2: y[k] = 2 sum of x[j] cos(pi k (2 j + 1) / 2
    n); types 1, 3 and 4 are those of scipy.fft.dct.

    x is cropped to n elements, or padded with zeros. norm is "backward" (None), "ortho" or "forward", by 2 n, or by 2
    (n - 1) of type 1. orthogonalize, which is on for "ortho", has the weights that make the matrix orthogonal.

    InvalidProblemError for arguments that do not fit, UnsupportedError for a dtype that is not served.
    """
    return _CALLS.cosine("dct", given_array(x, "x"), type, n, axis, norm, orthogonalize, out)


@naming("dctn")
def dctn(
    x: Any, type: int = 2, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None,
    orthogonalize: bool | None = None,
) -> Any:  # fmt: skip
    """dct along several axes, all by default, or the last len(s), one after the other; s has their lengths."""
    return _CALLS.cosines("dct", given_array(x, "x"), type, s, axes, norm, orthogonalize)


@naming("idct")
def idct(
    x: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None,
    orthogonalize: bool | None = None, *, out: Any = None,
) -> Any:  # fmt: skip
    """Inverse of dct of real numbers along an axis, of the same type: that of type 2 is a transform of type 3, divided
    by 2 n.

    x is cropped to n elements, or padded with zeros. norm is "backward" (None), "ortho" or "forward", by 2 n, or by 2
    (n - 1) of type 1. orthogonalize, which is on for "ortho", has the weights that make the matrix orthogonal.

    InvalidProblemError for arguments that do not fit, UnsupportedError for a dtype that is not served.
    """
    return _CALLS.cosine("idct", given_array(x, "x"), type, n, axis, norm, orthogonalize, out)


@naming("idctn")
def idctn(
    x: Any, type: int = 2, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None,
    orthogonalize: bool | None = None,
) -> Any:  # fmt: skip
    """idct along several axes, all by default, or the last len(s), one after the other; s has their lengths."""
    return _CALLS.cosines("idct", given_array(x, "x"), type, s, axes, norm, orthogonalize)


@naming("dst")
def dst(
    x: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None,
    orthogonalize: bool | None = None, *, out: Any = None,
) -> Any:  # fmt: skip
    """Discrete sine transform of real numbers along an axis, of type 2: y[k] = 2 sum of x[j] sin(pi (k + 1) (2 j + 1)
    / 2 n); types 1, 3 and 4 are those of scipy.fft.dst.

    x is cropped to n elements, or padded with zeros. norm is "backward" (None), "ortho" or "forward", by 2 n, or by 2
    (n + 1) of type 1. orthogonalize, which is on for "ortho", has the weights that make the matrix orthogonal.

    InvalidProblemError for arguments that do not fit, UnsupportedError for a dtype that is not served.
    """
    return _CALLS.cosine("dst", given_array(x, "x"), type, n, axis, norm, orthogonalize, out)


@naming("dstn")
def dstn(
    x: Any, type: int = 2, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None,
    orthogonalize: bool | None = None,
) -> Any:  # fmt: skip
    """dst along several axes, all by default, or the last len(s), one after the other; s has their lengths."""
    return _CALLS.cosines("dst", given_array(x, "x"), type, s, axes, norm, orthogonalize)


@naming("idst")
def idst(
    x: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None,
    orthogonalize: bool | None = None, *, out: Any = None,
) -> Any:  # fmt: skip
    """Inverse of dst of real numbers along an axis, of the same type: that of type 2 is a transform of type 3, divided
    by 2 n.

    x is cropped to n elements, or padded with zeros. norm is "backward" (None), "ortho" or "forward", by 2 n, or by 2
    (n + 1) of type 1. orthogonalize, which is on for "ortho", has the weights that make the matrix orthogonal.

    InvalidProblemError for arguments that do not fit, UnsupportedError for a dtype that is not served.
    """
    return _CALLS.cosine("idst", given_array(x, "x"), type, n, axis, norm, orthogonalize, out)


@naming("idstn")
def idstn(
    x: Any, type: int = 2, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None,
    orthogonalize: bool | None = None,
) -> Any:  # fmt: skip
    """idst along several axes, all by default, or the last len(s), one after the other; s has their lengths."""
    return _CALLS.cosines("idst", given_array(x, "x"), type, s, axes, norm, orthogonalize)


@naming("fftconvolve")
def fftconvolve(
    a: Any, b: Any, mode: str = "full", axes: int | Sequence[int] | None = None, *, out: Any = None
) -> Any:  # fmt: skip
    """Convolution of two real arrays along axes, all by default, by Fourier transforms; other axes broadcast.

    mode is "full", all of it, "same", the middle with a's extents, or "valid", where the operands overlap whole.
    Errors are relative to the largest elements, not to each.

    InvalidProblemError for arguments that do not fit, UnsupportedError for a dtype that is not served.
    """
    return _CALLS.convolved(given_array(a, "a"), given_array(b, "b"), mode, axes, out)


@naming("fftshift")
def fftshift(x: Any, axes: int | Sequence[int] | None = None, *, out: Any = None) -> Any:
    """x with the zero frequency in the middle of each of axes, all by default: elements move by n // 2."""
    return _CALLS.shifted(given_array(x, "x"), axes, False, out)


@naming("ifftshift")
def ifftshift(x: Any, axes: int | Sequence[int] | None = None, *, out: Any = None) -> Any:
    """The inverse of fftshift, also of an odd extent."""
    return _CALLS.shifted(given_array(x, "x"), axes, True, out)


@naming("fftfreq")
def fftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> Any:
    """The frequencies of fft's n elements, of samples d apart: 0, 1, ..., -2, -1, divided by n d.

    A NumPy array of f64, or of the dtype given; device is "cpu" or None.

    InvalidProblemError for an n below 1 or a d of 0.
    """
    n = _samples(n, d, device)
    return _made((np.arange(n) + n // 2) % n - n // 2, n, d, dtype)


@naming("rfftfreq")
def rfftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> Any:
    """The frequencies of rfft's n // 2 + 1 elements, of samples d apart: 0, 1, ..., n // 2, divided by n d. Arguments
    are those of fftfreq.
    """
    n = _samples(n, d, device)
    return _made(np.arange(n // 2 + 1), n, d, dtype)


def _samples(n: Any, d: Any, device: Any) -> int:
    if not hasattr(n, "__index__") or isinstance(n, bool) or n < 1:
        raise InvalidProblemError(f"n is {n!r}, must be an integer >= 1")
    if not d:
        raise InvalidProblemError(f"d is {d!r}, must not be 0")
    if device not in (None, "cpu"):
        raise UnsupportedError(f"device is {device!r}, must be 'cpu' or None")
    return int(n)


def _made(numbers: Any, n: int, d: float, dtype: Any) -> Any:
    element = ElementKind.F64 if dtype is None else as_element(dtype, "dtype")
    if not element.is_float:
        raise UnsupportedError(f"dtype is {element}, must be that of a float")
    return (numbers / (n * d)).astype(element.numpy_dtype)
