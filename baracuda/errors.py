# SPDX-License-Identifier: Apache-2.0
"""Exceptions: one class a status of the C library, each also an instance of the fitting builtin.

Every exception carries `status` (a code of `baracuda_status`), `symbol` (the C symbol, or the op where Python found the
fault) and `text`. Tests compare `STATUS_ERRORS` with the library's statuses.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from baracuda._library.loader import Library


class Status(IntEnum):
    """`baracuda_status` of the C header."""

    OK = 0
    MISALIGNED = 1
    INVALID_PROBLEM = 2
    UNSUPPORTED = 3
    WORKSPACE_TOO_SMALL = 4
    INTERNAL = 5


class BaracudaError(Exception):
    """Base of all errors of this package."""

    default_status: ClassVar[int] = Status.INTERNAL

    def __init__(self, text: str, *, symbol: str = "", status: int | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.symbol = symbol
        self.status = int(self.default_status if status is None else status)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.args, self.__dict__)


class MisalignedOperandError(BaracudaError, ValueError):
    """A pointer is not aligned for its dtype."""

    default_status = Status.MISALIGNED


class InvalidProblemError(BaracudaError, ValueError):
    """An argument contradicts the op's contract: type, dtype, rank, shape, device, overlap, NULL."""

    default_status = Status.INVALID_PROBLEM


class UnsupportedError(BaracudaError, NotImplementedError):
    """The problem is well formed, but nothing in this library computes it."""

    default_status = Status.UNSUPPORTED


class ExportError(UnsupportedError, BufferError):
    """A view cannot be given to another package without a copy."""


class InternalError(BaracudaError, RuntimeError):
    """A launch or a driver call failed."""

    default_status = Status.INTERNAL


class _SizeError(BaracudaError, ValueError):
    def __init__(
        self,
        text: str,
        *,
        needed: int | None = None,
        got: int | None = None,
        symbol: str = "",
        status: int | None = None,
    ) -> None:
        super().__init__(text, symbol=symbol, status=status)
        self.needed = needed
        self.got = got


class WorkspaceTooSmallError(_SizeError):
    """The workspace holds `got` bytes, `needed` are required (None where only the C library knows)."""

    default_status = Status.WORKSPACE_TOO_SMALL


class BufferTooSmallError(_SizeError):
    """A buffer holds `got` elements, its view reaches over `needed`."""

    default_status = Status.INVALID_PROBLEM


class UnknownStatusError(BaracudaError, RuntimeError):
    """The library returned a status that this package does not know."""


class CheckError(BaracudaError, ValueError):
    """Raised by the checking mode: the element of `operand` at `position` has a `value` that it must not have."""

    default_status = Status.INVALID_PROBLEM

    def __init__(self, operand: str, position: tuple[int, ...], value: float, what: str) -> None:
        at = f"[{', '.join(map(str, position))}]" if position else ""
        super().__init__(f"{operand}{at} is {value}, {what}".removesuffix(", "))
        self.operand = operand
        self.position = position
        self.value = value


class IndexOutOfRangeError(BaracudaError, IndexError):
    """`Plan.check` found an index: the element of `operand` at `position` has a `value` that it must not have."""

    default_status = Status.INVALID_PROBLEM

    def __init__(self, operand: str, position: tuple[int, ...], value: int, what: str) -> None:
        super().__init__(f"{operand}[{', '.join(map(str, position))}] is {value}, {what}")
        self.operand = operand
        self.position = position
        self.value = value


class ViewIndexError(InvalidProblemError, IndexError):
    """An index of a TensorRef lies outside its axis, or there are more indices than axes."""


class LibraryNotFoundError(BaracudaError, ImportError):
    """No usable library: `tried` lists (path, reason)."""

    default_status = Status.UNSUPPORTED

    def __init__(self, text: str, tried: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__("\n".join([text, *(f"  {path}: {reason}" for path, reason in tried)]))
        self.tried = tried


STATUS_ERRORS: dict[int, type[BaracudaError]] = {
    Status.MISALIGNED: MisalignedOperandError,
    Status.INVALID_PROBLEM: InvalidProblemError,
    Status.UNSUPPORTED: UnsupportedError,
    Status.WORKSPACE_TOO_SMALL: WorkspaceTooSmallError,
    Status.INTERNAL: InternalError,
}


def raise_for_status(library: Library, symbol: str, status: int) -> None:
    """Raise the exception of `status` with the calling thread's error text; do nothing for status 0."""
    if status == Status.OK:
        return
    text = library.last_error() or f"{symbol}: {library.status_name(status)}"
    error = STATUS_ERRORS.get(status)
    if error is None:
        raise UnknownStatusError(f"{symbol} returned status {status}: {text}", symbol=symbol, status=status)
    raise error(text, symbol=symbol)


@contextlib.contextmanager
def naming(name: str) -> Iterator[None]:
    """Errors of Python's own checks begin with the op; the C library's already do."""
    try:
        yield
    except BaracudaError as error:
        if not error.symbol and not isinstance(error, ImportError):
            error.symbol = name
            error.text = f"{name}: {error.text}"
            error.args = (error.text,)
        raise


def _restore(cls: type[BaracudaError], args: tuple[Any, ...], state: dict[str, Any]) -> BaracudaError:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error
