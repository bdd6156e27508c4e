# SPDX-License-Identifier: Apache-2.0
"""Narrow floats and their blocks in NumPy: values from the formats' definitions, the nearest by search in these values."""

import functools

import numpy as np

# name -> bits of exponent and mantissa, bias, and what the codes above the finite magnitudes are
FORMATS = {
    "e2m1": (2, 1, 1, ""), "e2m3": (2, 3, 1, ""), "e3m2": (3, 2, 3, ""), "e4m3": (4, 3, 7, "nan"),
    "e5m2": (5, 2, 15, "ieee"), "e4m3_fnuz": (4, 3, 8, "fnuz"), "e5m2_fnuz": (5, 2, 16, "fnuz"),
}  # fmt: skip
NAMES = (*FORMATS, "e8m0")  # in the order of FloatFormat
MX = {  # mx format -> (element, block)
    0: ("e2m1", 32), 1: ("e2m3", 32), 2: ("e3m2", 32), 3: ("e4m3", 32), 4: ("e5m2", 32), 5: ("int8", 32),
    6: ("e2m1", 16),
}  # fmt: skip


@functools.cache
def values(name: str) -> np.ndarray:
    """The value of every code, NaN and infinities included."""
    if name == "int8":
        codes = np.arange(256)
        return np.where(codes < 128, codes, codes - 256) / 64
    if name == "e8m0":
        return np.append(np.ldexp(1.0, np.arange(255) - 127), np.nan)
    exponent_bits, mantissa_bits, bias, kind = FORMATS[name]
    magnitudes = []
    for exponent in range(1 << exponent_bits):
        for mantissa in range(1 << mantissa_bits):
            part = mantissa / (1 << mantissa_bits)
            magnitudes.append((1 + part) * 2.0 ** (exponent - bias) if exponent else part * 2.0 ** (1 - bias))
    found = np.array(magnitudes)
    if kind == "nan":
        found[-1] = np.nan
    if kind == "ieee":
        found[-4:] = np.inf, np.nan, np.nan, np.nan
    both = np.concatenate([found, -found])
    if kind == "fnuz":
        both[len(found)] = np.nan
    return both


def encode(name: str, x) -> np.ndarray:
    """Nearest codes, ties to even; saturated."""
    x = np.asarray(x, np.float64)
    table = values(name)
    if name == "e8m0":
        found = _nearest(table[:255], np.abs(x))
        return np.where(np.isnan(x), 255, found)
    if name == "int8":
        with np.errstate(invalid="ignore"):
            whole = np.clip(np.rint(np.clip(x, -4, 4) * 64), -127, 127)
        return np.where(np.isnan(x), 0, whole).astype(np.int64) & 255
    half = len(table) // 2
    positive = table[:half][np.isfinite(table[:half])]
    found = _nearest(positive, np.abs(x))
    is_fnuz = name.endswith("fnuz")
    negative = np.signbit(x) & ~(is_fnuz & (found == 0))
    nan = 0x80 if is_fnuz else 0x7F if name in ("e4m3", "e5m2") else half - 1
    return np.where(np.isnan(x), nan, found + half * negative).astype(np.int64)


def _nearest(table, magnitude):
    """Indices in an ascending table; ties go to the even one, and NaN to any."""
    magnitude = np.where(np.isnan(magnitude), 0, magnitude)
    above = np.clip(np.searchsorted(table, magnitude), 1, len(table) - 1)
    with np.errstate(invalid="ignore"):
        low, high = magnitude - table[above - 1], table[above] - magnitude
    up = (high < low) | ((high == low) & (above % 2 == 0))
    return np.where(np.isinf(magnitude), len(table) - 1, np.where(up, above, above - 1))


def pack(codes: np.ndarray, bits: int) -> np.ndarray:
    """A little-endian stream of bits along the last axis."""
    each = (codes[..., None] >> np.arange(bits)) & 1
    return np.packbits(each.astype(np.uint8).reshape(*codes.shape[:-1], -1), axis=-1, bitorder="little").astype(
        np.int64
    )


def unpack(packed: np.ndarray, bits: int) -> np.ndarray:
    each = np.unpackbits(packed.astype(np.uint8), axis=-1, bitorder="little")
    return (each.reshape(*packed.shape[:-1], -1, bits).astype(np.int64) << np.arange(bits)).sum(-1)


def mx_bits(form: int) -> int:
    return {"e2m1": 4, "e2m3": 6, "e3m2": 6}.get(MX[form][0], 8)


def mx_exponent(element: str, rule: int, largest: np.ndarray) -> np.ndarray:
    """Exponents of scales by the rule's definition, for finite magnitudes that may be 0."""
    table = values(element)
    most = np.nanmax(np.where(np.isinf(table), np.nan, table)) if element != "int8" else 127 / 64
    top = int(np.floor(np.log2(most)))
    found = np.full(largest.shape, -127)
    for at in np.ndindex(largest.shape):
        value = float(largest[at])
        if value == 0:
            continue
        mantissa, exponent = np.frexp(value)  # mantissa in [0.5, 1)
        if rule == 0:
            shared = int(exponent) - 1 - top
        elif rule == 1:
            shared = next(e for e in range(int(exponent) - 2 - top, 300) if most * 2.0**e >= value)
        else:
            digits = {"e2m1": 1, "e2m3": 3, "e3m2": 2, "e4m3": 3, "e5m2": 2, "int8": 6}[element]
            unit = 2.0 ** (int(exponent) - 1 - digits)
            rounded = np.floor(value / unit + 0.5) * unit
            shared = int(np.frexp(rounded)[1]) - 1 - top
        found[at] = min(max(shared, -127), 127)
    return found


def quantize_mx(x: np.ndarray, form: int, rule: int, tensor_scale: float = 1.0):
    """(codes, scale codes), an element each, of rows of whole blocks."""
    element, block = MX[form]
    blocks = x.reshape(x.shape[0], -1, block)
    with np.errstate(all="ignore"):
        largest = np.abs(blocks).max(-1)
        finite = np.isfinite(largest)
        safe = np.where(finite, largest, 0)
        if form == 6:
            f32 = np.float32
            scales = encode("e4m3", (safe.astype(f32) / f32(6)) / f32(tensor_scale))
            whole = values("e4m3")[scales].astype(f32) * f32(tensor_scale)
            factor = np.where(scales == 0, f32(0), f32(1) / np.where(scales == 0, f32(1), whole))
            scaled = (blocks.astype(f32) * factor[..., None]).astype(np.float64)
            scales = np.where(finite, scales, 0x7F)
        else:
            exponents = mx_exponent(element, rule, safe)
            scaled = blocks * np.ldexp(1.0, -exponents)[..., None]
            scales = np.where(finite, exponents + 127, 255)
        codes = np.where(finite[..., None], encode(element, scaled), 0)
    return codes.reshape(x.shape), scales


def dequantize_mx(codes: np.ndarray, scales: np.ndarray, form: int, tensor_scale: float = 1.0) -> np.ndarray:
    element, block = MX[form]
    with np.errstate(all="ignore"):
        if form == 6:
            each = values("e4m3")[scales].astype(np.float32) * np.float32(tensor_scale)
        else:
            each = values("e8m0")[scales].astype(np.float32)
        wide = values(element)[codes].astype(np.float32) * np.repeat(each, block, -1)
    return wide.astype(np.float64)


def swizzled(scales: np.ndarray) -> np.ndarray:
    """Tiles of 128 rows and 4 columns, as memory in the shape of the padded matrix."""
    rows, columns = (-(-scales.shape[0] // 128) * 128, -(-scales.shape[1] // 4) * 4)
    padded = np.zeros((rows, columns), scales.dtype)
    padded[: scales.shape[0], : scales.shape[1]] = scales
    tiles = padded.reshape(rows // 128, 4, 32, columns // 4, 4).transpose(0, 3, 2, 1, 4)
    return np.ascontiguousarray(tiles).reshape(rows, columns)


def unswizzled(memory: np.ndarray, rows: int, columns: int) -> np.ndarray:
    high, wide = memory.shape
    tiles = memory.reshape(high // 128, wide // 4, 32, 4, 4).transpose(0, 3, 2, 1, 4)
    return tiles.reshape(high, wide)[:rows, :columns]
