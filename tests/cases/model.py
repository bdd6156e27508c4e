# SPDX-License-Identifier: Apache-2.0
"""The case model: the interface between the case tables and the test drivers.

A Case describes one row of an op table. Its parameter names are the row's, so a driver finds the order of arguments
in the table and needs nothing else to call any dtype of it.
"""

import dataclasses
import functools
import math
import zlib
from collections.abc import Callable

import numpy as np

from harness.launch import ROWS
from tools.oracle.numerics import COMPLEX, LARGEST, LEAST, LIMITS, SMALLEST, SMALLEST_NORMAL, encode, is_float, round_to

BAD_SHARE = 5  # a non-full instance tries one in so many of a case's bad calls


@dataclasses.dataclass
class Array:
    """One device array.

    dtype    storage, a key of oracle.numerics.STORAGE
    shape    logical extents; of a packed dtype (s4, u4) one, the number of elements
    values   as in oracle.numerics: float64 or complex128 (exact in dtype), or integers; a bool is its byte, so that 1
             to 255 are True; None for a pure output
    strides  in elements, any sign, of the view that the op sees; None is row-major
    """

    dtype: str
    shape: tuple[int, ...]
    values: np.ndarray | None = None
    strides: tuple[int, ...] | None = None
    _encoded: tuple[object, np.ndarray] | None = dataclasses.field(default=None, init=False, repr=False, compare=False)

    def bits(self) -> np.ndarray:
        """The bits of the values. Values are never changed in place, since a problem is launched many times and encoded
        once."""
        if self._encoded is None or self._encoded[0] is not self.values:
            self._encoded = self.values, encode(self.values, self.dtype)
        return self._encoded[1]


@dataclasses.dataclass
class Problem:
    """Arguments of one call, by the row's parameter names.

    scalars  ints and floats
    host     host arrays as sequences of ints; None passes NULL
    arrays   every device array, outputs too
    null     arrays passed as NULL (optional ones)
    behind   arrays that operands of addresses point to, by the names that the row's `points` have for them: their first
             axis is that of the addresses
    function   what the row applies (its slot F), for the reference; whoever makes a problem puts draw.function here
    """

    scalars: dict[str, int | float]
    arrays: dict[str, Array]
    host: dict[str, tuple[int, ...] | None] = dataclasses.field(default_factory=dict)
    null: tuple[str, ...] = ()
    function: str = ""
    behind: dict[str, Array] = dataclasses.field(default_factory=dict)

    @property
    def longest(self) -> int:
        """The element count of the largest array."""
        arrays = (*self.arrays.values(), *self.behind.values())
        return max((math.prod(array.shape) for array in arrays), default=0)


@dataclasses.dataclass
class Expected:
    """The expected values of one output, and the sizes that its error bound depends on.

    value      of the output's shape: float64 or longdouble, or integers, which are compared exactly; of class "rounded"
               for integers the value before it is rounded
    op         the key of oracle.ULPS, which has the bounds of the class "ulp"; without an entry the function is an
               ordinary one. For a gradient of class "pointwise" the function, whose entry may allow approximations
    count      pointwise: roundings before the last; sums: number of summands (scalar or per element)
    magnitude  sum of the magnitudes of what was added or cancelled, per element; class "ulp" counts in units of it
               where it is larger than the value
    divided    the share of `magnitude` that was rounded to storage before it was added; class "ulp": the factor of an
               operand that may be subnormal in the compute type
    """

    value: np.ndarray
    count: np.ndarray | int = 0
    magnitude: np.ndarray | float = 0.0
    divided: np.ndarray | float = 0.0
    op: str = ""


@dataclasses.dataclass(frozen=True)
class Bad:
    """A call that must fail without writing anything. It is the case's `plain` problem with changes.

    A shift that leaves the array aligned, as any does for elements of one byte, is not tried.

    status     of `_run`
    text       regular expression that the error text after "<op>: " must match from its start
    scalars, host   values to replace; a host array of None is NULL
    null       arrays passed as NULL
    shift      array -> bytes added to its pointer
    alias      output -> array whose memory it uses
    short      pass a workspace that is too short, of an op that stores results in it
    can        status of `_can_implement`, which sees neither pointers nor workspace
    of         name of the problem that it is a variation of, where that is not `plain`
    """

    name: str
    status: int
    text: str
    scalars: dict[str, int | float] = dataclasses.field(default_factory=dict)
    host: dict[str, tuple[int, ...] | None] = dataclasses.field(default_factory=dict)
    null: tuple[str, ...] = ()
    shift: dict[str, int] = dataclasses.field(default_factory=dict)
    alias: dict[str, str] = dataclasses.field(default_factory=dict)
    short: bool = False
    can: int = 0
    of: str = ""


@dataclasses.dataclass(frozen=True)
class Idle:
    """A call with nothing to do: 0, with every pointer NULL, and nothing written with pointers given.

    host    replaces host arrays
    null    arrays passed as NULL, since they would be written: sums over nothing are 0
    """

    name: str
    scalars: dict[str, int | float]
    host: dict[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    null: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Case:
    """Test data of one row of an op table.

    row         section name in the op table, e.g. "segment_sum{I}_{T}"
    problems    name -> function of a Draw that makes a Problem; tried with every dtype, alignment and workspace mode
    reference   Problem -> {output: Expected}, in float64, written without looking at the kernels
    brief       names of the problems for instances that `full` excludes; empty: they have all
    full        whether the instance of the slots is tried with all problems and bad calls. Shapes and strides are
    handled by
                the code around a function, so by default only the first function of a row is
    tolerance   output -> class of tolerances.py
    tolerance_without_workspace   the class where a call without a workspace promises less; None: it does not
    plain       name of the problem that the bad calls vary; no extent of it is 0
    large       name of the problem for determinism, threads and streams
    bad, idle   calls that fail, calls with nothing to do
    """

    row: str
    problems: dict[str, Callable[["Draw"], Problem]]
    reference: Callable[[Problem], dict[str, Expected]]
    tolerance: dict[str, str]
    plain: str
    large: str
    bad: tuple[Bad, ...]
    idle: tuple[Idle, ...]
    tolerance_without_workspace: dict[str, str] | None = None
    brief: tuple[str, ...] = ()
    full: Callable[[dict[str, str]], bool] | None = None

    def is_full(self, slots: dict[str, str]) -> bool:
        if not self.brief:
            return True
        return self.full(slots) if self.full else slots.get("F") == next(iter(ROWS[self.row].functions), None)

    def names(self, slots: dict[str, str]) -> tuple[str, ...]:
        """The problems that an instance is tried with."""
        return tuple(self.problems) if self.is_full(slots) else self.brief

    def large_of(self, slots: dict[str, str]) -> str:
        return self.large if self.is_full(slots) else self.plain

    def bad_of(self, op: str, slots: dict[str, str]) -> tuple[Bad, ...]:
        """The bad calls that an instance is tried with; instances that are not full each take a different share."""
        row = ROWS[self.row]
        needed = {p.name for p in row.needed(slots.get("F", ""))}
        unread = {p.name for p in row.pointers if p.is_required} - needed
        bad = tuple(call for call in self.bad if not call.null or not unread.issuperset(call.null))
        if self.is_full(slots):
            return bad
        return bad[zlib.crc32(op.encode()) % BAD_SHARE :: BAD_SHARE]

    def tolerance_of(self, output: str, with_workspace: bool) -> str:
        table = self.tolerance if with_workspace else self.tolerance_without_workspace or self.tolerance
        return table[output]


@functools.cache
def special_floats(dtype: str) -> np.ndarray:
    """NaN, infinities (where the dtype has them), zeros, subnormals, and numbers so large that only the sum of
    thousands of them is still finite."""
    edge = [SMALLEST[dtype], SMALLEST_NORMAL[dtype], SMALLEST_NORMAL[dtype] - SMALLEST[dtype], 0.0, 1.0]
    edge.append(LARGEST[dtype] / (2**14 if LARGEST[dtype] > 2**16 or dtype == "f16" else 8))
    edge += [] if dtype == "fp8e4m3" else [np.inf]
    return np.array([np.nan, *edge, *(-e for e in edge)])


@functools.cache
def special_integers(dtype: str) -> np.ndarray:
    """Both ends of the range, 0, +-1, powers of two and their neighbours."""
    low, high = LIMITS[dtype]
    powers = [sign * 2**k + d for k in range(65) for sign in (1, -1) for d in (-1, 0, 1)]
    found = sorted({v for v in (low, low + 1, high - 1, high, *powers) if low <= v <= high})
    return np.array(found, np.uint64 if dtype == "u64" else np.int64)


class Draw:
    """Seeded random inputs for one instance of a row.

    slots      all slots; function (F), dtype (T), other (U) and index (I) are "" where the row has none, offset (O) is
    i32
    """

    def __init__(self, slots: dict[str, str], seed: str | int):
        self.slots = slots
        self.function, self.dtype = slots.get("F", ""), slots.get("T", "")
        self.other, self.index, self.offset = slots.get("U", ""), slots.get("I", ""), slots.get("O", "i32")
        self.rng = np.random.default_rng(zlib.crc32(seed.encode()) if isinstance(seed, str) else seed)

    def values(self, shape, kind: str = "normal", strides=None, dtype: str = "") -> Array:
        """Floats, integers or complex numbers, by the dtype (default: slot T)."""
        dtype = dtype or self.dtype
        if dtype in COMPLEX:
            pairs = self.floats((*shape, 2), kind, None, "f32" if dtype == "c32" else "f64").values
            return self.array(np.ascontiguousarray(pairs).view(np.complex128).reshape(shape), dtype, strides)
        make = self.floats if is_float(dtype) else self.integers
        return make(shape, kind, strides, dtype)

    def floats(self, shape, kind: str = "normal", strides=None, dtype: str = "") -> Array:
        """kind: "normal"; "positive": at least 1; "wide": of every magnitude that the dtype has; "special": one value
        in four is from special_floats()."""
        shape, dtype = tuple(shape), dtype or self.dtype
        values = self.rng.standard_normal(shape)
        if kind == "positive":
            values = np.abs(values) + 1
        elif kind == "wide":
            top = int(np.frexp(LARGEST[dtype])[1]) - 1
            exponents = self.rng.integers(LEAST[dtype], top, shape, endpoint=True)
            values = np.clip(np.ldexp(np.clip(values, -1.9, 1.9), exponents), -LARGEST[dtype], LARGEST[dtype])
        elif kind == "special":
            values = np.where(self.rng.random(shape) < 0.25, self.rng.choice(special_floats(dtype), shape), values)
        elif kind != "normal":
            raise ValueError(kind)
        return self.array(round_to(values, dtype).reshape(shape), dtype, strides)

    def integers(self, shape, kind: str = "normal", strides=None, dtype: str = "") -> Array:
        """kind: "normal": half of them small, half anything; "positive": from 1 on; "small": at most 9 in magnitude;
        "special": one value in two is from special_integers(), a bool any byte; "wide" is "special"."""
        shape, dtype = tuple(shape), dtype or self.dtype
        low, high = LIMITS[dtype]
        whole = np.uint64 if dtype == "u64" else np.int64
        values = self.rng.integers(max(low, -9), min(high, 9), shape, whole, endpoint=True)
        if kind not in ("normal", "positive", "small", "special", "wide"):
            raise ValueError(kind)
        if kind != "small":
            anything = self.rng.integers(low, high, shape, whole, endpoint=True)
            values = np.where(self.rng.random(shape) < 0.5, anything, values)
        if kind == "positive":
            values = np.where(values < 1, 1, np.abs(values)).astype(whole)
        if kind in ("special", "wide"):
            edges = np.arange(256) if dtype == "bool" else special_integers(dtype)
            values = np.where(self.rng.random(shape) < 0.5, self.rng.choice(edges, shape), values)
        return self.array(np.asarray(values).reshape(shape), dtype, strides)

    def array(self, values, dtype: str = "", strides=None) -> Array:
        """An array of given values, which must be exact in the dtype; elements that share memory get one of their
        values."""
        values = np.asarray(values)
        shape = values.shape
        if strides is not None and shape:
            values = values[tuple(slice(0, 1) if s == 0 else slice(None) for s in strides)]
            values = np.broadcast_to(values, shape)
        return Array(dtype or self.dtype, shape, values, strides)

    def output(self, shape, strides=None, dtype: str = "") -> Array:
        return Array(dtype or self.dtype, tuple(shape), None, strides)

    def indices(self, values) -> Array:
        values = np.asarray(values, np.int64)
        return Array(self.index, values.shape, values)


def strides_for(shape, *, order=None, flip=(), broadcast=(), gap=1, pad=0) -> tuple[int, ...]:
    """Strides of a view: axes laid out in `order` (slowest first), `pad` elements after each slice of an axis, elements
    `gap` apart, axes of `flip` reversed and those of `broadcast` with stride 0."""
    strides, step = [0] * len(shape), gap
    for axis in reversed(range(len(shape)) if order is None else order):
        if axis in broadcast:
            continue
        strides[axis] = -step if axis in flip else step
        step = step * max(shape[axis], 1) + pad
    return tuple(strides)
