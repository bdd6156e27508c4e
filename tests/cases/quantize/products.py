# SPDX-License-Identifier: Apache-2.0
"""Products of activations with GGUF weights: one vector, up to eight rows of q8_1 blocks, matrices."""

import numpy as np

from harness import ROWS
from tools.oracle.block_formats import FORMATS, decoded, q8_1_blocks

from ..model import Bad, Case, Expected, Idle, Problem

BY_ID = {each.id: each for each in FORMATS.values()}
WEIGHTS = tuple(each for each in FORMATS if each != "q8_1")
LARGEST = 1e4  # of a weight: scales of any bits may be huge


def weights_of(draw, chosen, rows, blocks, kind="normal"):
    """Bytes of rows. "normal": any, where the values are ordinary; "zero": scales are 0; "nan": some scales are."""
    data = draw.rng.integers(0, 256, (rows * blocks, chosen.bytes), np.uint8)
    values = np.abs(decoded(chosen, data))
    data[~(values.max(1, initial=0) < LARGEST)] &= 63  # bit 6 of the upper byte of an f16 is clear: at most 2
    if kind == "zero":
        data[:] = 0
    if kind == "nan":
        data[:: 3 * blocks + 1] = 255
    return data.reshape(rows, blocks * chosen.bytes).astype(np.int64)


def products(name, chosen, x, data, shape, bias=None):
    """x (m, k) times the rows of weights."""
    w = decoded(chosen, data.astype(np.uint8)).astype(np.float64)
    with np.errstate(invalid="ignore"):
        value, magnitude = x @ w.T, np.abs(x) @ np.abs(w.T)
    if bias is not None:
        value, magnitude = value + bias, magnitude + np.abs(bias)
    sums = np.broadcast_to(np.abs(x).sum(1, keepdims=True), value.shape).reshape(shape)
    return {name: Expected(value.reshape(shape), w.shape[1], magnitude.reshape(shape), sums)}


# --- one vector -------------------------------------------------------------------------------------------------------


def vector(draw, rows, blocks, kind="normal", stride=None, offset=0):
    chosen, dtype = FORMATS[draw.function], draw.dtype or "f32"
    columns = blocks * chosen.values
    data = weights_of(draw, chosen, rows, blocks, kind)
    y = draw.floats((columns,), dtype=dtype, strides=None if stride is None else (stride,))
    scalars = {"ncols": columns, "nrows": rows}
    if stride is not None:
        data = np.concatenate([np.zeros(offset, np.int64), data.reshape(-1)])
        scalars |= {"w_start_byte_offset": offset, "stride_y": stride}
    arrays = {"x": draw.array(data, "u8"), "y": y, "dst": draw.output((rows,), dtype=dtype)}
    return Problem(scalars, arrays, function=draw.function)


def vector_reference(problem):
    chosen, offset = FORMATS[problem.function], problem.scalars.get("w_start_byte_offset", 0)
    data = problem.arrays["x"].values.reshape(-1)[offset:].reshape(problem.scalars["nrows"], -1)
    y = problem.arrays["y"].values.astype(np.float64)
    return products("dst", chosen, y[None], data, (problem.scalars["nrows"],))


COLUMNS = (
    Bad("negative_columns", 2, r"ncols is -256, must be >= 0", {"ncols": -256}, can=2),
    Bad("part_of_a_block", 2, r"ncols is 33, must be a multiple of", {"ncols": 33}, can=2),
    Bad("negative_rows", 2, r"nrows is -1, must be >= 0", {"nrows": -1}, can=2),
)


def pointers(row):
    for p in row.pointers:
        if p.is_required:
            yield Bad(f"no_{p.name}", 2, rf"{p.name} is NULL", null=(p.name,))
            yield Bad(f"odd_{p.name}", 1, rf"{p.name} is 0x", shift={p.name: 1})


def vector_case(name):
    row, strided = ROWS[name], "actstrided" in name
    own = {"stride": 1} if strided else {}
    problems = {
        "plain": lambda d: vector(d, 5, 3, **own),
        "one": lambda d: vector(d, 1, 1, **own),
        "rows": lambda d: vector(d, 37, 2, **own),
        "long": lambda d: vector(d, 3, 71, **own),
        "zero": lambda d: vector(d, 4, 2, "zero", **own),
        "nan": lambda d: vector(d, 7, 2, "nan", **own),
        "large": lambda d: vector(d, 300, 9, **own),
    }
    if strided:
        problems |= {
            "apart": lambda d: vector(d, 18, 3, stride=3),
            "reversed": lambda d: vector(d, 9, 5, stride=-2),
            "broadcast": lambda d: vector(d, 9, 2, stride=0),
            "behind": lambda d: vector(d, 9, 2, stride=1, offset=36),
            "anywhere": lambda d: vector(d, 9, 2, stride=2, offset=17),
        }
    far = (Bad("offset", 2, r"w_start_byte_offset is", {"w_start_byte_offset": 2**62}, can=2),) if strided else ()
    return Case(
        row=name, problems=problems, reference=vector_reference, tolerance={"dst": "gemm"}, plain="plain",
        large="large", brief=("plain", "rows", "long"), bad=(*COLUMNS, *far, *pointers(row)),
        idle=(Idle("no_rows", {"nrows": 0}),),
    )  # fmt: skip


# --- rows of q8_1 blocks ----------------------------------------------------------------------------------------------


def quantized(draw, m, rows, blocks, kind="normal"):
    chosen = FORMATS[draw.function]
    columns = blocks * chosen.values
    x = draw.rng.standard_normal((m, columns)).astype(np.float32)
    if kind == "overflow":  # sums of 32 values exceed f16, the values do not
        x = np.abs(x) * np.float32(2e4) + np.float32(1e4)
    arrays = {
        "w_ptr": draw.array(weights_of(draw, chosen, rows, blocks, "normal" if kind == "overflow" else kind), "u8"),
        "activations_q8_1": draw.array(q8_1_blocks(x).astype(np.int64), "u8"),
        "dst": draw.output((m, rows), dtype="f32"),
    }
    scalars = {"ncols_x": columns, "nrows_x": rows, "w_start_byte_offset": 0}
    return Problem(scalars, arrays, function=draw.function)


ZEROS = {"q4_0": 8, "q5_0": 16}


def quantized_reference(problem):
    """Products of the values of both, and what stored sums add to them: where they are finite, the offset of q4_1 and
    q5_1 multiplies them in place of d8 sum(q8), and so does the zero of q4_0 and q5_0."""
    name = problem.function
    chosen, activations = FORMATS[name], FORMATS["q8_1"]
    data = problem.arrays["w_ptr"].values.astype(np.uint8)
    blocks = problem.arrays["activations_q8_1"].values.astype(np.uint8)
    x = decoded(activations, blocks).astype(np.float64)
    expected = products("dst", chosen, x, data, (x.shape[0], data.shape[0]))["dst"]
    if name in ("q4_0", "q4_1", "q5_0", "q5_1"):
        own = blocks.reshape(x.shape[0], -1, 36)
        stored = np.ascontiguousarray(own[..., 2:4]).view("<f2")[..., 0].astype(np.float64)
        sums = x.reshape(x.shape[0], -1, 32).sum(2)
        missed = np.where(np.isfinite(stored), stored - sums, 0.0)
        weights = data.reshape(data.shape[0], -1, chosen.bytes)
        at = 0 if name in ZEROS else 2
        factors = np.ascontiguousarray(weights[..., at : at + 2]).view("<f2")[..., 0].astype(np.float64)
        factors = factors * -ZEROS.get(name, -1)
        expected.value = expected.value + missed @ factors.T
        sizes = np.where(np.isfinite(stored), np.abs(stored), 0.0) + np.abs(sums)
        expected.magnitude = expected.magnitude + sizes @ np.abs(factors.T)
    return {"dst": expected}


def quantized_case(m):
    row = ROWS[f"mmvq_multim_{{F}}_m{m}"]
    return Case(
        row=row.name,
        problems={
            "plain": lambda d: quantized(d, m, 5, 3),
            "one": lambda d: quantized(d, m, 1, 1),
            "rows": lambda d: quantized(d, m, 37, 2),
            "long": lambda d: quantized(d, m, 3, 71),
            "zero": lambda d: quantized(d, m, 4, 2, "zero"),
            "overflow": lambda d: quantized(d, m, 6, 5, "overflow"),
            "large": lambda d: quantized(d, m, 300, 9),
        },
        reference=quantized_reference, tolerance={"dst": "gemm"}, plain="plain", large="large",
        brief=("plain", "rows", "long", "overflow"),
        bad=(
            Bad("negative_columns", 2, r"ncols_x is -256, must be >= 0", {"ncols_x": -256}, can=2),
            Bad("part_of_a_block", 2, r"ncols_x is 33, must be a multiple of", {"ncols_x": 33}, can=2),
            Bad("negative_rows", 2, r"nrows_x is -1, must be >= 0", {"nrows_x": -1}, can=2),
            Bad("offset", 2, r"w_start_byte_offset is", {"w_start_byte_offset": -(2**62)}, can=2),
            *pointers(row),
        ),
        idle=(Idle("no_rows", {"nrows_x": 0}),),
    )  # fmt: skip


# --- matrices ---------------------------------------------------------------------------------------------------------


def uneven(draw, m, columns):
    """Rows with a NaN, with one value far above the others, of zeros, and of ordinary values."""
    x = draw.floats((m, columns)).values.copy()
    x[::4, columns // 2], x[1::4, -1], x[2::4] = np.nan, 1024, 0
    return draw.array(x)


def matrices(draw, name, m, rows, blocks, *, kind="normal", bias=True, backend=0):
    chosen = FORMATS[name]
    columns = blocks * chosen.values
    arrays = {
        "x": uneven(draw, m, columns) if kind == "uneven" else draw.floats((m, columns)),
        "w": draw.array(weights_of(draw, chosen, rows, blocks, kind), "u8"),
        "bias": draw.floats((rows,)),
        "y": draw.output((m, rows)),
    }
    scalars = {"m": m, "n": rows, "k": columns, "format": chosen.id, "backend": backend}
    return Problem(scalars, arrays, null=() if bias else ("bias",))


def matrices_reference(problem):
    a = problem.arrays
    bias = None if "bias" in problem.null else a["bias"].values.astype(np.float64)
    x = a["x"].values.astype(np.float64)
    return products("y", BY_ID[problem.scalars["format"]], x, a["w"].values, a["y"].shape, bias)


DECODED = 9  # backend
SIZES = (1, 4, 8, 9, 17, 33, 64)  # about the limits of what one pass takes


def matrix_case():
    row = ROWS["quantized_matmul_{T}"]
    return Case(
        row=row.name,
        problems={
            "plain": lambda d: matrices(d, "q4_K", 3, 5, 2),
            **{name: lambda d, n=name: matrices(d, n, 2, 19, 3) for name in WEIGHTS},
            **{f"m{m}": lambda d, m=m: matrices(d, "q8_0", m, 35, 9, bias=m % 2 == 0) for m in SIZES},
            "invariant": lambda d: matrices(d, "q6_K", 21, 18, 2, backend=5),
            **{f"tile_{name}": lambda d, n=name: matrices(d, n, 5, 70, 3, backend=6) for name in WEIGHTS},
            **{f"tile{b}": lambda d, b=b: matrices(d, "q4_1", 70, 133, 7, backend=b) for b in (6, 7, 8)},
            **{f"decoded_{name}": lambda d, n=name: matrices(d, n, 5, 70, 3, backend=DECODED) for name in WEIGHTS},
            "decoded_rows": lambda d: matrices(d, "q4_K", 131, 133, 1, backend=DECODED),
            "decoded_columns": lambda d: matrices(d, "q8_0", 67, 264, 5, backend=DECODED, bias=False),
            "decoded_one": lambda d: matrices(d, "q4_0", 1, 1, 1, backend=DECODED),
            "decoded_nan": lambda d: matrices(d, "q4_0", 9, 70, 3, kind="nan", backend=DECODED),
            "decoded_no_columns": lambda d: matrices(d, "q4_0", 3, 7, 0, backend=DECODED),
            "invariant_rows": lambda d: matrices(d, "q6_K", 40, 18, 2, backend=5),
            "tile_rows": lambda d: matrices(d, "q2_K", 67, 9, 2, backend=6, bias=False),
            "tile_nan": lambda d: matrices(d, "q4_0", 9, 70, 3, kind="nan", backend=6),
            "tile_no_columns": lambda d: matrices(d, "q4_0", 3, 7, 0, backend=6),
            "zero": lambda d: matrices(d, "q5_1", 9, 7, 3, kind="zero"),
            "nan": lambda d: matrices(d, "q4_0", 9, 7, 3, kind="nan"),
            "uneven": lambda d: matrices(d, "q4_K", 8, 35, 5, kind="uneven"),
            "uneven_two": lambda d: matrices(d, "q6_K", 2, 35, 3, kind="uneven"),
            "uneven_many": lambda d: matrices(d, "q4_1", 43, 35, 9, kind="uneven"),
            "batches": lambda d: matrices(d, "q8_0", 7, 700, 5),
            "no_columns": lambda d: matrices(d, "q4_0", 3, 7, 0),
            "large": lambda d: matrices(d, "q4_K", 70, 130, 3),
        },
        reference=matrices_reference, tolerance={"y": "gemm_of_rounded"}, tolerance_without_workspace={"y": "gemm"},
        plain="plain", large="large",
        bad=(
            *(Bad(f"negative_{e}", 2, rf"{e} is -1, must be >= 0", {e: -1}, can=2) for e in "mnk"),
            Bad("part_of_a_block", 2, r"k is 33, must be a multiple of 256", {"k": 33}, can=2),
            Bad("no_format", 3, r"format is 4, which is no block format", {"format": 4}, can=3),
            Bad("activations", 3, r"format is 9, q8_1", {"format": 9}, can=3),
            Bad("no_backend", 2, r"backend is 1, must be 0, 5 \(batch-invariant\), 6 to 8", {"backend": 1}, can=2),
            *pointers(row), Bad("odd_bias", 1, "bias is 0x", shift={"bias": 1}),
        ),
        idle=(Idle("no_rows", {"m": 0}), Idle("no_weights", {"n": 0})),
    )  # fmt: skip


CASES = (
    *(vector_case(f"mmvq_{{F}}{form}") for form in ("", "_{T}", "_actstrided", "_actstrided_{T}")),
    *(quantized_case(m) for m in (1, 2, 4, 8)),
    matrix_case(),
)
