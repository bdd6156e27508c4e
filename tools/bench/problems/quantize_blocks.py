# SPDX-License-Identifier: Apache-2.0
"""Dequantisation of GGUF blocks. Peers are what users write for q8_0, whose codes are whole bytes."""

import numpy as np

from tools.bench.check import cells, same, sample_indices, shape
from tools.bench.record import Bench, Bound, Operand, Sweep
from tools.oracle.block_formats import FORMATS, decoded
from tools.oracle.numerics import round_to

COLUMNS = 4096
FLOATS = ("f32", "bf16")
NAMES = ("q4_0", "q8_0", "q4_K", "q6_K")


def ordinary(extents):
    """Bytes that are finite numbers wherever a format has floats: bit 6 of the upper byte of an f16 is clear."""
    return lambda rng: rng.integers(0, 64, extents, np.uint8)


def of_rows(chosen, rows):
    return ordinary((rows, COLUMNS // chosen.values * chosen.bytes))


def check(chosen, gathered=False):
    """Whole rows, decoded by the oracle."""

    def compare(problem):
        count = shape(problem, "y")[0] if len(shape(problem, "y")) > 1 else 1
        wide = shape(problem, "y")[-1]
        for row in sample_indices(problem, count, 4):
            source = int(problem.indices["indices"][row]) if gathered else row
            data = problem.indices["x"].reshape(-1, wide // chosen.values * chosen.bytes)[source]
            dtype = problem.bench.dtypes[0] if len(problem.bench.dtypes) == 1 else problem.dtype
            values = round_to(decoded(chosen, data[: 16 * chosen.bytes]).astype(np.float64), dtype)
            if wrong := same(problem, "y", row * wide + np.arange(len(values)), values):
                return wrong
        return ""

    return compare


def torch_q8_0(torch, t, scalars):
    blocks, dtype = t["x"].to(torch.uint8).reshape(-1, 34), t["y"].dtype
    scales, codes = blocks[:, :2], blocks[:, 2:].view(torch.int8)
    return lambda: (scales.contiguous().view(torch.float16).float() * codes.float()).to(dtype)


def numpy_q8_0(a, scalars):
    blocks = np.ascontiguousarray(a["x"], np.uint8).reshape(-1, 34)
    return lambda: np.ascontiguousarray(blocks[:, :2]).view(np.float16).astype(np.float32) * blocks[:, 2:].view(np.int8)


def rows(name, count, bounds, dtypes=FLOATS):
    chosen = FORMATS[name]
    peers = {"torch": (torch_q8_0,), "numpy": (numpy_q8_0,)} if name == "q8_0" else {}
    return Bench(
        name=f"dequantize_blocks {name}", row="dequantize_blocks_{T}", dtypes=dtypes, check=check(chosen),
        bounds=bounds, scalars={"format": chosen.id}, **peers,
        arrays={"x": Operand((count, COLUMNS // chosen.values * chosen.bytes), of_rows(chosen, count)),
                "y": Operand((count, COLUMNS))},
    )  # fmt: skip


def benches(backend):
    count = 2**14 if backend == "cuda" else 2**10
    bounds = (Bound("copy", 0.9),) if backend == "cuda" else ()
    for name in NAMES:
        yield rows(name, count, bounds)
    chosen = FORMATS["q4_K"]
    numel = count * COLUMNS
    yield Bench(
        name="dequantize q4_K", row="dequantize_{F}", function="q4_K", dtypes=("f32",), check=check(chosen),
        bounds=bounds, scalars={"numel": numel},
        arrays={"x": Operand((numel // 256 * 144,), ordinary((numel // 256 * 144,))), "y": Operand((numel,))},
    )  # fmt: skip
    table, taken = 2**15, count // 2
    yield Bench(
        name="take_blocks q4_K", row="take_blocks{I}_{T}", index="i64", dtypes=("bf16",), check=check(chosen, True),
        bounds=(Bound("copy", 0.7),) if backend == "cuda" else (), scalars={"format": chosen.id},
        bytes=lambda size, _: taken * (COLUMNS * size + COLUMNS // 256 * 144 + 8),
        arrays={"x": Operand((table, COLUMNS // 256 * 144), of_rows(chosen, table)),
                "indices": Operand((taken,), lambda rng: rng.integers(0, table, taken)),
                "y": Operand((taken, COLUMNS))},
    )  # fmt: skip
    yield from encoders(backend)


def encoder(name, count):
    """Arithmetic bounds the searches, so that there is no bar."""
    chosen = FORMATS[name]
    return Bench(
        name=f"quantize_blocks {name}", row="quantize_blocks_{T}", dtypes=("f32", "bf16"), check=close(chosen),
        scalars={"format": chosen.id},
        arrays={"x": Operand((count, COLUMNS), "normal"), "importance": Operand((COLUMNS,), 1.0),
                "y": Operand((count, COLUMNS // chosen.values * chosen.bytes))},
    )  # fmt: skip


def close(chosen):
    def compare(problem):
        for row in sample_indices(problem, shape(problem, "y")[0], 2):
            wide = shape(problem, "y")[1]
            data = cells(problem, "y", row * wide + np.arange(4 * chosen.bytes)).astype(np.uint8)
            x = cells(problem, "x", row * COLUMNS + np.arange(4 * chosen.values))
            error = np.sqrt(np.mean((decoded(chosen, data) - x) ** 2))
            if not error < 0.4:
                return f"row {row} of y decodes to an error of {error}"
        return ""

    return compare


def encoders(backend):
    count = 2**11 if backend == "cuda" else 2**7
    for name in ("q4_0", "q8_0", "q4_K", "q6_K", "iq4_xs"):
        yield encoder(name, count)
    count = 2**14 if backend == "cuda" else 2**10
    for form in ("", "_wide"):
        yield Bench(
            name=f"quantize_q8_1{form}", row=f"quantize_q8_1{form}_{{T}}", dtypes=FLOATS, check=lambda problem: "",
            bounds=(Bound("copy", 0.9),) if backend == "cuda" else (), scalars={"kx": COLUMNS, "ny": count},
            arrays={"src": Operand((count, COLUMNS), "normal"), "dst_q8_1": Operand((count, COLUMNS // 32 * 36))},
        )  # fmt: skip


def sweeps(backend):
    most = 15 if backend == "cuda" else 11
    yield Sweep(
        name="dequantize_blocks q4_K", axis="rows",
        points={2**k: rows("q4_K", 2**k, (), ("bf16",)) for k in range(0, most, 2)},
    )  # fmt: skip
