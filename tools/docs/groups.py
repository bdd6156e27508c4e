# SPDX-License-Identifier: Apache-2.0
"""Groups of ops that share a page: all forms, dtypes and gradients of one function."""

from __future__ import annotations

import dataclasses
import functools

from baracuda._cli.describe import base
from tools.docs import ROOT

from abi_row import Row  # isort: skip
from abi_table import read_all, table_paths  # isort: skip

ARITIES = ("unary", "binary_cmp", "binary", "ternary", "gated")
TITLES = {
    "unary": "Functions of one operand",
    "binary": "Functions of two operands",
    "binary_cmp": "Comparisons",
    "ternary": "Functions of three operands",
    "gated": "Gated activations",
    "": "Other elementwise ops",
    "attention": "Attention",
    "conv": "Convolution",
    "embedding": "Embedding",
    "fft": "Fourier transforms",
    "gemm": "Matrix products",
    "image": "Image",
    "indexing": "Indexing",
    "linalg": "Linear algebra",
    "loss": "Losses",
    "moe": "Mixtures of experts",
    "pool": "Pooling",
    "norm": "Normalization",
    "quantize": "Quantisation",
    "random": "Random numbers",
    "recurrent": "Recurrent layers",
    "reduce": "Reductions",
    "sampling": "Sampling",
    "scan": "Scans",
    "search": "Searching, counting and unique elements",
    "segment": "Segments",
    "shape_layout": "Shape and layout",
    "softmax": "Softmax",
    "sort": "Sorting and searching",
    "ssm": "State-space layers",
    "topk": "Top-k and order statistics",
}


@dataclasses.dataclass
class Group:
    """The ops of one page.

    key       unary_gelu
    family    folder of native/
    arity     "unary" for unary_gelu; empty for an op that is the only one of its form, such as fill
    function  gelu
    members   (row, the row's F or "") in the order of the tables
    """

    key: str
    family: str
    arity: str
    function: str
    members: list[tuple[Row, str]] = dataclasses.field(default_factory=list)

    @property
    def section(self) -> str:
        """Key of TITLES for the index."""
        return self.arity if self.family == "elementwise" else self.family

    @property
    def path(self) -> str:
        """Path of the page in the folder of sources."""
        return f"ops/{self.family}/{self.key}.md"

    @functools.cached_property
    def ops(self) -> dict[str, tuple[Row, dict[str, str]]]:
        return {
            op: (row, slots)
            for row, function in self.members
            for op, slots in row.instances()
            if slots.get("F", "") == function
        }

    @property
    def dtypes(self) -> list[str]:
        """Dtypes of {T} in any member, in the order of the tables."""
        return list(dict.fromkeys(dtype for row, _ in self.members for dtype in row.slots.get("T", ())))


def groups() -> dict[str, Group]:
    """All pages by key; members in the order of the tables, forward before backward, plain before strided."""
    found: dict[str, Group] = {}
    for row in sorted(read_all(), key=lambda row: "_backward" in row.pattern):
        for function in row.functions or ("",):
            key = base(row, function)
            if key not in found:
                arity = next((a for a in ARITIES if key.startswith(f"{a}_")), "")
                found[key] = Group(key, row.family, arity, key.removeprefix(f"{arity}_"))
            found[key].members.append((row, function))
    return found


_tables = functools.cache(table_paths)


def table_path(row: Row) -> str:
    """Path of the row's table in the repository."""
    return str(_tables()[row.family, row.table].relative_to(ROOT))


FLOATS, INTEGERS = {"f32", "f64", "f16", "bf16"}, {f"{sign}{width}" for sign in "iu" for width in (8, 16, 32, 64)}


def short(dtypes: list[str]) -> str:
    """A list of dtypes in words: "floats, bool"."""
    names, left = [], set(dtypes)
    for name, members in (("floats", FLOATS), ("integers", INTEGERS)):
        if members <= left:
            names.append(name)
            left -= members
    return ", ".join([*names, *(dtype for dtype in dtypes if dtype in left)])
