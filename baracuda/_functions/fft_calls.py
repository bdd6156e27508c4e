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
_COSINES = ("dct", "idct", "dst", "idst")
NAMES = (
    *[f"{kind}{end}" for end in ("", "2", "n") for kind in _KINDS],
    *[f"{kind}{end}" for end in ("", "n") for kind in _COSINES],
    "fftshift", "ifftshift", "fftconvolve",
)  # fmt: skip
FREQUENCIES = ("fftfreq", "rfftfreq")
_MODES = ("full", "same", "valid")
_COMPLEX_FORM = {"rfft": "fft", "ihfft": "ifft"}
Numbers = int | Sequence[int]


class Arrays(Protocol):
    """Operations that each framework does in its own way."""

    def call(self, name: str, *arrays: Any, **numbers: Any) -> Any:
        """Call a function by its name."""

    def floating(self, x: Any) -> Any:
        """The array as f32, f64, c32 or c64; UnsupportedError if it cannot be converted."""

    def is_complex(self, x: Any) -> bool:
        """Whether elements are complex."""

    def as_complex(self, x: Any) -> Any:
        """A real array of f32 or f64 as a complex one."""

    def alike(self, a: Any, b: Any) -> Sequence[Any]:
        """Two real arrays in their common dtype."""


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
            raise InvalidProblemError(f"s is {shown(s)}, has more lengths than x, {tuple(x.shape)}, has axes")
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

    def cosine(
        self, name: str, x: Any, kind: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None,
        orthogonalize: bool | None = None, out: Any = None,
    ) -> Any:  # fmt: skip
        """dct, idct, dst or idst along one axis."""
        return self._cosine(name, x, kind, n, axis, norm, orthogonalize, out)

    def cosines(
        self, name: str, x: Any, kind: int = 2, s: Sequence[int] | None = None, axes: Numbers | None = None,
        norm: str | None = None, orthogonalize: bool | None = None,
    ) -> Any:  # fmt: skip
        """dctn, idctn, dstn or idstn along several axes, one after the other."""
        rank, lengths = len(x.shape), None if s is None else _listed(s)
        along = list(range(-(rank if lengths is None else len(lengths)), 0)) if axes is None else _listed(axes)
        if lengths is not None and len(lengths) != len(along):
            raise InvalidProblemError(f"s is {shown(s)}, must have a length for each of axes {shown(tuple(along))}")
        if not along:
            raise InvalidProblemError(f"axes is {shown(axes)}, must have one axis or more")
        for k, axis in enumerate(along):
            x = self._cosine(name, x, kind, None if lengths is None else lengths[k], axis, norm, orthogonalize, None)
        return x

    def _cosine(
        self, name: str, x: Any, kind: int, n: int | None, axis: int, norm: str | None, orthogonalize: bool | None,
        out: Any,
    ) -> Any:  # fmt: skip
        is_inverse, is_sine = name.startswith("i"), "dst" in name
        for label, value in (("type", kind), ("axis", axis), ("n", 0 if n is None else n)):
            if not _is_integer(value):
                raise InvalidProblemError(f"{label} is {shown(value)}, must be an integer")
        if kind not in (1, 2, 3, 4):
            raise InvalidProblemError(f"type is {shown(kind)}, must be 1, 2, 3 or 4")
        _check_axes([axis], x)
        x = self.arrays.floating(x)
        if self.arrays.is_complex(x):
            raise UnsupportedError("x is complex, must be real")
        length = x.shape[axis] if n is None else n
        if is_inverse:
            kind = {2: 3, 3: 2}.get(kind, kind)
        # The matrix times its inverse is this number.
        total = 2 * (length + 1 if is_sine else length - 1) if kind == 1 else 2 * length
        normalization = _normalization(norm, is_inverse)
        scale = 1.0 if not normalization or total < 1 else total**-0.5 if normalization == 1 else 1.0 / total
        is_orthogonal = norm == "ortho" if orthogonalize is None else bool(orthogonalize)
        half = 2**0.5
        has_in, has_out = kind == 3 or (kind == 1 and not is_sine), kind == 2 or (kind == 1 and not is_sine)
        options: dict[str, Any] = {"length": n, "axis": axis, "is_sine": is_sine, "scale": scale}
        options["edge_in"] = half if is_orthogonal and has_in else 1.0
        options["edge_out"] = 1 / half if is_orthogonal and has_out else 1.0
        if out is not None:
            options["out"] = out
        return self.arrays.call("fft_cosine", x, int(kind), **options)

    def convolved(self, a: Any, b: Any, mode: str = "full", axes: Numbers | None = None, out: Any = None) -> Any:
        """fftconvolve."""
        if mode not in _MODES:
            raise InvalidProblemError(f"mode is {shown(mode)}, must be one of {', '.join(_MODES)}")
        if len(a.shape) != len(b.shape) or not len(a.shape):
            raise InvalidProblemError(
                f"a has shape {tuple(a.shape)} and b {tuple(b.shape)}, must have as many axes, and one or more"
            )
        a, b = self.arrays.alike(self.arrays.floating(a), self.arrays.floating(b))
        if self.arrays.is_complex(a):
            raise UnsupportedError("a is complex, must be real")
        along = tuple(range(len(a.shape)) if axes is None else _listed(axes))
        _check_axes(along, a)
        first, second = ([each.shape[axis] for axis in along] for each in (a, b))
        if mode == "valid":
            if all([m >= n for m, n in zip(second, first)]):
                a, b, first, second = b, a, second, first
            if any([m > n for m, n in zip(second, first)]):
                raise InvalidProblemError(
                    f"mode is 'valid', but of extents {first} and {second} along axes {along} neither has the other"
                )
            starts, lengths = [m - 1 for m in second], [n - m + 1 for n, m in zip(first, second)]
        elif mode == "same":
            starts, lengths = [(m - 1) // 2 for m in second], first
        else:
            starts, lengths = [0] * len(along), [max(n + m - 1, 0) for n, m in zip(first, second)]
        options: dict[str, Any] = {"axes": along, "starts": tuple(starts), "lengths": tuple(lengths)}
        if out is not None:
            options["out"] = out
        return self.arrays.call("fft_convolve", a, b, **options)

    def _transform(
        self, kind: str, x: Any, lengths: list[int] | None, axes: list[int], norm: str | None, out: Any
    ) -> Any:
        is_inverse = kind.startswith("i")
        normalization = _normalization(norm, is_inverse)
        _check_axes(axes, x)
        x = self.arrays.floating(x)
        is_complex = self.arrays.is_complex(x)
        options: dict[str, Any] = {"lengths": None if lengths is None else tuple(lengths), "axes": tuple(axes)}
        options["normalization"] = normalization
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
    elif name == "fftconvolve":

        def convolved(a: Any, b: Any, mode: str = "full", axes: Numbers | None = None) -> Any:
            return calls.convolved(a, b, mode, axes)

        made = convolved
    elif name in _COSINES:

        def cosine(
            x: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None,
            orthogonalize: bool | None = None,
        ) -> Any:  # fmt: skip
            return calls.cosine(name, x, type, n, axis, norm, orthogonalize)

        made = cosine
    elif name[:-1] in _COSINES:

        def cosines(
            x: Any, type: int = 2, s: Any = None, axes: Any = None, norm: str | None = None,
            orthogonalize: bool | None = None,
        ) -> Any:  # fmt: skip
            return calls.cosines(name[:-1], x, type, s, axes, norm, orthogonalize)

        made = cosines
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
