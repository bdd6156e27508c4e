# SPDX-License-Identifier: Apache-2.0
"""A parameter of a C function, as the op tables have it.

The generators load this file by its path before the package can be imported, so it imports nothing of the package.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

PREFIX = "baracuda_kernels_"

INDEX_SUFFIX = {"i32": "", "i64": "_i64idx", "u8": "_u8idx"}
# Slots that are spelled as suffixes in names of ops: dtypes of indices and of offsets.
SUFFIXES = {"I": INDEX_SUFFIX, "O": {"i32": "", "i64": "_i64off"}}
# Types of T.bits, T.compute, T.complex and T.real that differ from T.
FORMS = {
    "bits": {"f16": "u16", "bf16": "u16", "bool": "u8", "fp8e4m3": "u8", "fp8e5m2": "u8", "c32": "u64"},
    "compute": {"f16": "f32", "bf16": "f32"},
    "complex": {"f32": "c32", "f64": "c64"},
    "real": {"c32": "f32", "c64": "f64"},
}


def symbol_of(op: str, kind: str) -> str:
    """The C function of an op; kind is run, can_implement, workspace_size or workspace_bytes. The functions of op_v2
    are op_run_v2, op_can_implement_v2 and so on."""
    name, version = re.fullmatch(r"(.+?)(_v\d+)?", op).groups(default="")  # type: ignore[union-attr]
    return f"{PREFIX}{name}_{kind}{version}"


class Param(NamedTuple):
    """A C parameter; direction is "" for a scalar, "host" for an array in host memory, ins or outs for such an array of
    pointers to operands, else in, out or inout. A "?" follows if the pointer, or each of several, may be NULL.

    shape    extents of an array, in names of other parameters: "num_bags, embedding_dim"; of a list "n of " extents
    role     "operand" for a pointer. Of the others: extent, a number of elements or rows; rank; shape; stride, the
             strides of an operand; pitch, its leading dimension in elements; axis; offset, one scalar offset or stride
             of an operand; mode, a choice between variants; parameter, a number of the function
    of       the operand whose strides, pitch or offset it is
    default  None if there is none, or if it depends on the function (Row.defaults)
    """

    name: str
    dtype: str  # symbol spelling, or a slot: T, U, I, O, T.bits, T.compute, T.complex, T.real, T.address
    direction: str
    shape: str
    role: str
    of: str
    default: float | int | None

    @property
    def is_pointer(self) -> bool:
        """Whether it points to an operand."""
        return self.direction not in ("", "host") and not self.is_list

    @property
    def is_list(self) -> bool:
        """Whether it is a host array of pointers to operands."""
        return self.direction.startswith(("ins", "outs"))

    @property
    def length(self) -> str:
        """The parameter with the number of operands of a list."""
        return self.shape.partition(" of ")[0] if self.is_list else ""

    @property
    def is_required(self) -> bool:
        """Whether it is a pointer that must not be NULL, except inputs that no wanted output reads."""
        return self.is_pointer and not self.direction.endswith("?")

    @property
    def is_output(self) -> bool:
        """Whether C writes to it."""
        return "out" in self.direction

    @property
    def is_addresses(self) -> bool:
        """Whether it points to addresses of operands, i64."""
        return self.dtype.endswith(".address")

    def dtype_of(self, slots: Mapping[str, str]) -> str:
        """The symbol spelling of its dtype or element type, for these values of the slots."""
        slot, _, form = self.dtype.partition(".")
        if form == "address":
            return "i64"
        dtype = slots.get(slot, slot)
        return FORMS[form].get(dtype, dtype) if form else dtype
