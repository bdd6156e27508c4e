# SPDX-License-Identifier: Apache-2.0
"""The functions of numpy.fft and torch.fft by calls of fft_c2c, fft_r2c and fft_c2r, for arrays of any framework.

`Arrays` has what frameworks do differently. Integers and 16-bit floats are converted first; real arrays are taken by
complex transforms as such, and their results are complex.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from baracuda._call.scalars import shown
from baracuda.errors import InvalidProblemError, UnsupportedError

_FORWARD = {None: 0, "backward": 0, "ortho": 1, "forward": 2}
_INVERSE = {None: 2, "backward": 2, "ortho": 1, "forward": 0}
# Transforms along one axis; those with a name that ends with n are along any axes, with 2 along the last two.
_KINDS = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
NAMES = (*[f"{kind}{end}" for end in ("", "2", "n") for kind in _KINDS], "fftshift", "ifftshift")
FREQUENCIES = ("fftfreq", "rfftfreq")
CALLED = ("fft_c2c", "fft_r2c", "fft_c2r", "roll")  # functions of the op table
_COMPLEX_FORM = {"rfft": "fft", "ihfft": "ifft"}
Numbers = int | Sequence[int]


class Arrays(Protocol):
    """What a framework does in its own way."""

    def call(self, name: str, *arrays: Any, **numbers: Any) -> Any:
        """Call a function by its name."""

    def floating(self, x: Any) -> Any:
        """The array as f32, f64, c32 or c64; UnsupportedError if it cannot be converted."""

    def is_complex(self, x: Any) -> bool:
        """Whether elements are complex."""

    def as_complex(self, x: Any) -> Any:
        """A real array of f32 or f64 as a complex one."""


class FftCalls:
    """The functions, for one framework."""

    def __init__(self, arrays: Arrays) -> None:
        self.arrays = arrays

    def along_axis(
        self, kind: str, x: Any, n: int | None = None, axis: int = -1, norm: str | None = None, out: Any = None
    ) -> Any:
        """The transform along one axis, of length n."""
        for name, value in (("axis", axis), ("n", 0 if n is None else n)):
            if not _is_integer(value):
                raise InvalidProblemError(f"{name} is {shown(value)}, must be an integer")
        return self._transform(kind, x, None if n is None else [n], [axis], norm, out)

    def along_axes(
        self, kind: str, x: Any, s: Sequence[int] | None = None, axes: Numbers | None = None,
        norm: str | None = None, out: Any = None,
    ) -> Any:  # fmt: skip
        """The transform along several axes, of the lengths s: all axes by default, or the last of them."""
        rank, lengths = len(x.shape), None if s is None else _listed(s)
        count = rank if lengths is None else len(lengths)
        if count > rank:
            raise InvalidProblemError(f"s is {shown(s)}, has more lengths than x has axes: its shape is {tuple(x.shape)}")
        along = list(range(-count, 0)) if axes is None else _listed(axes)
        if lengths is not None:
            if len(lengths) != len(along):
                raise InvalidProblemError(f"s is {shown(s)}, must have a length for each of axes {shown(tuple(along))}")
            _check_axes(along, x)
            lengths = _lengths_of(kind, lengths, x, along)
        return self._transform(kind, x, lengths, along, norm, out)

    def shifted(self, x: Any, axes: Numbers | None, is_inverse: bool, out: Any = None) -> Any:
        rank = len(x.shape)
        along = list(range(rank)) if axes is None else _listed(axes)
        _check_axes(along, x)
        halves = [x.shape[axis] // 2 for axis in along]
        shifts = tuple([-half if is_inverse else half for half in halves])
        options = {} if out is None else {"out": out}
        if not along:  # a copy
            return self.arrays.call("roll", x, shifts=(0,), axis=None, **options)
        return self.arrays.call("roll", x, shifts=shifts, axis=tuple(along), **options)

    def _transform(
        self, kind: str, x: Any, lengths: list[int] | None, axes: list[int], norm: str | None, out: Any
    ) -> Any:
        is_inverse = kind.startswith("i")
        normalization = _normalization(norm, is_inverse)
        _check_axes(axes, x)
        x = self.arrays.floating(x)
        is_complex = self.arrays.is_complex(x)
        options: dict[str, Any] = {"lengths": lengths, "axes": axes, "normalization": normalization}
        options |= {"inverse": is_inverse} | ({} if out is None else {"out": out})
        if kind in ("fft", "ifft"):
            if is_complex:
                return self.arrays.call("fft_c2c", x, **options)
            return self.arrays.call("fft_r2c", x, onesided=False, **options)
        if kind in ("rfft", "ihfft"):
            if is_complex:
                raise UnsupportedError(f"x is complex, must be real: {_COMPLEX_FORM[kind]} takes complex arrays")
            return self.arrays.call("fft_r2c", x, onesided=True, **options)
        return self.arrays.call("fft_c2r", x if is_complex else self.arrays.as_complex(x), onesided=True, **options)


def _check_axes(axes: Sequence[int], x: Any) -> None:
    rank = len(x.shape)
    for axis in axes:
        if not -rank <= axis < rank:
            raise InvalidProblemError(f"axis {axis} is out of range: x has shape {tuple(x.shape)}")


def _lengths_of(kind: str, given: Sequence[int], x: Any, axes: Sequence[int]) -> list[int]:
    """Lengths in which -1 stands for those without padding, as in PyTorch."""
    found = [x.shape[axis] if length == -1 else length for length, axis in zip(given, axes)]
    if kind in ("irfft", "hfft") and given and given[-1] == -1:
        found[-1] = 2 * (found[-1] - 1)
    return found


def _listed(given: Numbers) -> list[Any]:
    return list(given) if isinstance(given, Sequence) else [given]


def _is_integer(value: object) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool)


def _normalization(norm: object, is_inverse: bool) -> int:
    known = _INVERSE if is_inverse else _FORWARD
    if not (norm is None or isinstance(norm, str)) or norm not in known:
        raise InvalidProblemError(f"norm is {shown(norm)}, must be 'backward', 'ortho', 'forward' or None")
    return known[norm]


def bound(calls: FftCalls, name: str) -> Callable[..., Any]:
    """The function of NAMES with this name."""
    if name in ("fftshift", "ifftshift"):

        def shifted(x: Any, axes: Numbers | None = None) -> Any:
            return calls.shifted(x, axes, name == "ifftshift")

        made: Any = shifted
    elif name[-1] in "2n":
        kind, default = name[:-1], (-2, -1) if name[-1] == "2" else None

        def along_axes(x: Any, s: Any = None, axes: Any = default, norm: str | None = None) -> Any:
            return calls.along_axes(kind, x, s, axes, norm)

        made = along_axes
    else:

        def along_axis(x: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
            return calls.along_axis(name, x, n, axis, norm)

        made = along_axis
    made.__name__ = made.__qualname__ = name
    found: Callable[..., Any] = made
    return found
