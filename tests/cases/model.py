"""What a case is: the interface between the case tables, the test drivers and the benchmark runner.

A Case describes one row of an op table (native/<family>/<family>.abi). Its parameter names are the row's, so a driver
finds the order of arguments in the table and needs nothing else to call any dtype of it.
"""

import dataclasses
import zlib
from collections.abc import Callable

import numpy as np

from harness.numerics import LARGEST, SMALLEST, SMALLEST_NORMAL, encode, round_to


@dataclasses.dataclass
class Array:
    """One device array.

    dtype    storage: "f32" "f64" "f16" "bf16" "i32" "i64"
    shape    logical extents
    values   float64 (exactly representable in dtype) or integers; None for a pure output
    strides  in elements, any sign, of the view that the op sees; None is row-major
    """

    dtype: str
    shape: tuple[int, ...]
    values: np.ndarray | None = None
    strides: tuple[int, ...] | None = None

    def bits(self) -> np.ndarray:
        return encode(self.values, self.dtype)


@dataclasses.dataclass
class Problem:
    """Arguments of one call, by the row's parameter names.

    scalars  ints and floats
    host     host arrays as sequences of ints; None passes NULL
    arrays   every device array, outputs too
    null     arrays passed as NULL (optional ones)
    """

    scalars: dict[str, int | float]
    arrays: dict[str, Array]
    host: dict[str, tuple[int, ...] | None] = dataclasses.field(default_factory=dict)
    null: tuple[str, ...] = ()


@dataclasses.dataclass
class Expected:
    """What one output must be.

    value    float64, of the output's shape
    count    pointwise: roundings before the last; sums: number of terms (scalar or per cell)
    terms    sum of the magnitudes of what was added or cancelled, per cell
    divided  part of `terms` that was rounded to storage before it was added
    """

    value: np.ndarray
    count: np.ndarray | int = 0
    terms: np.ndarray | float = 0.0
    divided: np.ndarray | float = 0.0


@dataclasses.dataclass(frozen=True)
class Bad:
    """A call that must fail without writing anything. It is the case's `plain` problem with changes.

    status     of `_run`
    text       regular expression that the error text after "<op>: " must match from its start
    scalars, host   values to replace; a host array of None is NULL
    null       arrays passed as NULL
    shift      array -> bytes added to its pointer
    alias      output -> array whose memory it uses
    short      pass a workspace one byte too short (only dtypes whose `_workspace_size` is not 0 are tried)
    can        status of `_can_implement`, which sees neither pointers nor workspace
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


@dataclasses.dataclass(frozen=True)
class Idle:
    """A call with nothing to do: 0, with every pointer NULL, and nothing written with pointers given.

    host    replaces host arrays; None is NULL
    can     status of `_can_implement`, which may be stricter
    """

    name: str
    scalars: dict[str, int | float]
    host: dict[str, tuple[int, ...] | None] = dataclasses.field(default_factory=dict)
    can: int = 0


@dataclasses.dataclass(frozen=True)
class BenchArray:
    """An array of a benchmark problem.

    dtype   storage dtype, or "T" / "I" for the dtype and index dtype of the benchmark
    shape   row-major extents
    fill    "normal": N(0, 1); "empty": an output; "zero"; or a function rng -> integer array for indices and offsets
    """

    dtype: str
    shape: tuple[int, ...]
    fill: str | Callable[[np.random.Generator], np.ndarray]


@dataclasses.dataclass(frozen=True)
class Bound:
    """What a benchmark must reach (issue table "Speed").

    kind    "copy": fewest bytes / time >= value * bandwidth of a device copy in the same run;
            "peer": peer time / own time >= value;
            "times": own time <= value * time of the benchmark named `other`
    dtypes  for which it holds; empty means all of the benchmark's
    """

    kind: str
    value: float
    other: str = ""
    dtypes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Bench:
    """One benchmark problem of a row.

    name       unique; what the table prints
    backend    "cuda" (inputs of 256 MiB and more) or "cpu"
    dtypes     T to time
    index      dtype of slot I, "" for rows without one
    scalars, host   by parameter name
    arrays     parameter name -> BenchArray; all outputs are there
    bytes      (T, arrays as filled, by name: only index arrays are given) -> fewest bytes the op must move: each input
               read once, each output written once. A gathered row of embedding_bag counts each time it is gathered,
               and its backward counts dweight once (zeroing) and its touched rows once more, as in the measurements
               that the bounds were taken from.
    peer       (torch, tensors by parameter name, scalars) -> function to time; what PyTorch users would write. Index
               tensors come as int64. No torch import happens outside of it.
    numpy_peer (arrays by parameter name, scalars) -> function to time, or None where NumPy has no single call
    workspace  time with a workspace of `_workspace_size` bytes (else NULL)
    zeroed     arrays that must be zeroed within the timed region, on both sides
    bounds     what it must reach
    """

    name: str
    backend: str
    dtypes: tuple[str, ...]
    index: str
    scalars: dict[str, int | float]
    arrays: dict[str, BenchArray]
    bytes: Callable[[str, dict[str, np.ndarray]], int]
    peer: Callable
    bounds: tuple[Bound, ...]
    host: dict[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    numpy_peer: Callable | None = None
    workspace: bool = False
    zeroed: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Case:
    """Everything the tests and benchmarks know of a row.

    row         section name in the op table, e.g. "segment_sum{I}_{T}"
    problems    name -> function of a Draw that makes a Problem; tried with every dtype, alignment and workspace mode
    reference   Problem -> {output: Expected}, in float64, written without looking at the kernels
    tolerance   output -> class of tolerances.py
    tolerance_without_workspace   the same where a call without a workspace promises less; None: it does not
    plain       name of the problem that the bad calls are variations of; no extent of it is 0
    large       name of the problem for determinism, threads and streams
    bad, idle   calls that fail, calls with nothing to do
    aliases     permitted (output, input) pairs of one array
    benches     benchmark problems
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
    aliases: tuple[tuple[str, str], ...] = ()
    benches: tuple[Bench, ...] = ()

    def tolerance_of(self, output: str, with_workspace: bool) -> str:
        table = self.tolerance if with_workspace else self.tolerance_without_workspace or self.tolerance
        return table[output]


class Draw:
    """Seeded random inputs for one dtype (and index dtype)."""

    def __init__(self, slots: dict[str, str], seed: str | int):
        self.dtype = slots["T"]
        self.index = slots.get("I", "")
        self.rng = np.random.default_rng(zlib.crc32(seed.encode()) if isinstance(seed, str) else seed)

    def floats(self, shape, kind: str = "normal", strides=None) -> Array:
        """kind: "normal"; "positive"; "special": one value in four is NaN, an infinity, a zero, subnormal, or so
        large that thousands of them still have a sum."""
        shape = tuple(shape)
        values = self.rng.standard_normal(shape)
        if kind == "positive":
            values = np.abs(values) + 1
        elif kind == "special":
            d = self.dtype
            edge = [SMALLEST[d], SMALLEST_NORMAL[d], SMALLEST_NORMAL[d] - SMALLEST[d], LARGEST[d] / 2**14, 0.0, 1.0]
            pool = np.array([np.nan, np.inf, -np.inf, *edge, *(-e for e in edge)])
            values = np.where(self.rng.random(shape) < 0.25, self.rng.choice(pool, shape), values)
        elif kind != "normal":
            raise ValueError(kind)
        values = round_to(values, self.dtype).reshape(shape)
        if strides is not None:
            # Cells that share memory hold one value.
            values = values[tuple(slice(0, 1) if s == 0 else slice(None) for s in strides)] if shape else values
            values = np.broadcast_to(values, shape)
        return Array(self.dtype, shape, values, strides)

    def output(self, shape, strides=None) -> Array:
        return Array(self.dtype, tuple(shape), None, strides)

    def indices(self, values) -> Array:
        values = np.asarray(values, np.int64)
        return Array(self.index, values.shape, values)


def strides_for(shape, *, order=None, flip=(), broadcast=(), gap=1, pad=0) -> tuple[int, ...]:
    """Strides of a view: axes laid out in `order` (slowest first), `pad` cells after each run of an axis, every cell
    `gap` apart, axes of `flip` walked backwards and those of `broadcast` standing still."""
    strides, step = [0] * len(shape), gap
    for axis in reversed(range(len(shape)) if order is None else order):
        if axis in broadcast:
            continue
        strides[axis] = -step if axis in flip else step
        step = step * max(shape[axis], 1) + pad
    return tuple(strides)
