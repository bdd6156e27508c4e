# SPDX-License-Identifier: Apache-2.0
"""Random problems of rows with coded operands, and the extents that their bytes and scales follow from."""

from tools.oracle import low_floats
from tools.oracle.block_formats import FORMATS

BLOCKS = {each.id: each for each in FORMATS.values()}


def draw(rng, row, scalars) -> None:
    """Sets the format, and extents of whole blocks."""
    if row.family != "quantize":
        return
    names = {p.name for p in row.problem}
    block = 1
    if "format" in names:
        scalars["format"] = int(rng.choice(list(BLOCKS)))
        block = BLOCKS[scalars["format"]].values
    if "mx_format" in names:
        scalars["mx_format"] = int(rng.integers(0, len(low_floats.MX)))
        block = low_floats.MX[scalars["mx_format"]][1]
    for name, count in (("scale_layout", 2), ("scale_rule", 3), ("backward", 2), ("book", 2), ("backend", 9)):
        if name in names:
            scalars[name] = int(rng.integers(0, count))
    if "block_size" in names:
        scalars["block_size"] = 2 * int(rng.integers(1, 40))
    values = "k" if {"m", "k"} <= names else next((name for name in ("columns", "n") if name in names), None)
    if block > 1 and values:
        scalars[values] = block * int(rng.choice([0, 1, 1, 2, 3]))


def extents(row, names) -> dict[str, int]:
    """Extents by the op's own arguments; -1 where they do not determine them."""
    if row.family != "quantize":
        return {}
    found = {}
    values = names.get("columns", names.get("k", names.get("n", 0)))
    if "format" in names:
        form = BLOCKS.get(names["format"])
        found["row_bytes"] = -1 if form is None or values % form.values else values // form.values * form.bytes
    if "mx_format" in names:
        known = 0 <= names["mx_format"] < len(low_floats.MX) and names["scale_layout"] in (0, 1)
        block = low_floats.MX[names["mx_format"]][1] if known else 1
        if not known or values % block:
            return dict.fromkeys(("code_bytes", "scale_rows", "scale_columns"), -1)
        rows, scales = names["n"] if "k" in names else names["rows"], values // block
        found["code_bytes"] = values * low_floats.mx_bits(names["mx_format"]) // 8
        found |= tiled(rows, scales, ("scale_rows", "scale_columns"), names["scale_layout"] == 1)
    if "backward" in names and "blocks" in names:
        for side, is_tiled in (("in", names["backward"] != 0), ("out", names["backward"] == 0)):
            found |= tiled(names["rows"], names["blocks"], (f"rows_{side}", f"blocks_{side}"), is_tiled)
    if "block_size" in names and ("book" in names or "numel" in names):
        numel = names["numel"] if "numel" in names else names["n"] * names["k"]
        blocks = -(-numel // names["block_size"]) if names["block_size"] > 0 else -1
        found |= {"code_bytes": -(-numel // 2), "blocks": blocks, "outer_blocks": -(-blocks // 256)}
    return found


def tiled(rows, columns, names, is_tiled) -> dict[str, int]:
    """A matrix of scales, padded to tiles of 128 x 4."""
    padded = (-(-rows // 128) * 128, -(-columns // 4) * 4) if is_tiled else (rows, columns)
    return dict(zip(names, padded))
