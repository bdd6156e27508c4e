# SPDX-License-Identifier: Apache-2.0
"""A row of the op tables as the generators and the tests see it. tools/abi_table.py reads the tables."""

import dataclasses
import importlib.util
import itertools
import pathlib
import re
import types
from typing import Any, NamedTuple


def _of_package(name: str) -> types.ModuleType:
    """Imports a module of the package alone: the package needs the generated modules."""
    path = pathlib.Path(__file__).resolve().parents[1] / "baracuda" / "_library" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_param = _of_package("param")

PREFIX = _param.PREFIX
symbol_of = _param.symbol_of
C_TYPES = {
    "f64": "double", "f32": "float", "f16": "bk::f16", "bf16": "bk::bf16",
    "i64": "int64_t", "i32": "int32_t", "i16": "int16_t", "i8": "int8_t",
    "u64": "uint64_t", "u32": "uint32_t", "u16": "uint16_t", "u8": "uint8_t", "bool": "bk::boolean",
    "fp8e4m3": "bk::e4m3", "fp8e5m2": "bk::e5m2", "s4": "bk::s4x2", "u4": "bk::u4x2",
    "c32": "bk::c32", "c64": "bk::c64",
}  # fmt: skip
# Bits of the words that copy kernels move; an element of c64 is two words.
WIDTHS = {dtype: 64 if "64" in dtype else 32 if "32" in dtype else 16 if "16" in dtype else 8 for dtype in C_TYPES}
WIDTHS["c32"] = 64
BITS = _param.FORMS["bits"]
SUFFIXES = _param.SUFFIXES
SLOTS = ("T", "U", "I", "O")
# Roles of parameters that are not operands: a number of elements or rows; the number of axes; their extents; the
# strides of an operand; its pitch, the elements from one row to the next; one axis; the offset of a slice; a choice
# between variants; a scalar argument of the function.
ROLES = ("extent", "rank", "shape", "stride", "pitch", "axis", "offset", "mode", "parameter")


class TableError(Exception):
    """A row that cannot be parsed, with its table and line."""


def parse_number(text: str, dtype: str) -> float | int:
    try:
        return int(text) if re.fullmatch(r"-?\d+", text) and dtype not in ("f32", "f64") else float(text)
    except ValueError:
        raise TableError(f"default {text!r} is no number") from None


def camel(name: str) -> str:
    """Class name of a function: gelu_tanh is GeluTanh."""
    return "".join(word.capitalize() for word in name.split("_"))


class Param(_param.Param):
    """A parameter with its C and C++ spellings."""

    def element(self, slots: dict[str, str]) -> str:
        """C++ type of an element."""
        return C_TYPES[self.dtype_of(slots)]

    def prototype(self, slots: dict[str, str], *, const: bool = False) -> str:
        """The parameter in the C header; can_implement takes every pointer as const."""
        if self.is_pointer:
            return f"{'void*' if self.is_output and not const else 'const void*'} {self.name}"
        return f"{self.field_type(slots)} {self.name}"

    def field_type(self, slots: dict[str, str]) -> str:
        """Type of the op struct's member for a scalar or host array."""
        if self.is_list:
            return "void* const*" if self.is_output else "const void* const*"
        return f"const {self.element(slots)}*" if self.direction == "host" else self.element(slots)

    def pointer_type(self, slots: dict[str, str]) -> str:
        return f"{self.element(slots)}*" if self.is_output else f"const {self.element(slots)}*"


class TypedParam(Param):
    """A device array whose C type is a pointer to its dtype, not void*."""

    def prototype(self, slots: dict[str, str], *, const: bool = False) -> str:
        return f"{self.pointer_type(slots)} {self.name}"


def with_roles(params: tuple[Param, ...]) -> tuple[Param, ...]:
    """The parameters with roles derived from their names, dtypes and directions."""
    operands = [p.name for p in params if p.is_pointer or p.is_list]
    extents = {word for p in params for word in re.findall(r"[A-Za-z_]\w*", p.shape)}
    located = {word: p.name for p in params for word in re.findall(r"[A-Za-z_]\w*", p.shape.partition(" at ")[2])}
    return tuple(p._replace(**role_of(p, operands, extents, located)) for p in params)


def role_of(p: Param, operands: list[str], extents: set[str], located: dict[str, str]) -> dict[str, str]:
    role, of = p.role, ""
    if p.is_pointer or p.is_list:
        role = "operand"
    elif p.name.startswith("stride_") and not role:
        role, of = "stride", p.name.removeprefix("stride_")
        if of not in operands:
            raise TableError(f"parameter {p.name}: there is no operand {of!r}")
    elif re.match("ld.", p.name) and not role:
        role, of = "pitch", p.name.removeprefix("ld").partition("_")[0]
        if of not in operands:
            raise TableError(f"parameter {p.name}: there is no operand {of!r}")
    elif role == "stride":  # the operand in its name, or whose shape names it
        of = next((name for name in operands if p.name.endswith(f"_{name}")), located.get(p.name, ""))
    elif p.direction == "host":
        role = role or ("shape" if p.name.endswith("shape") else "parameter")
    elif role == "offset":
        of = next((o for o in operands if p.name.startswith(f"{o}_") or p.name.endswith(f"_{o}")), "")
        if not of:
            raise TableError(f"parameter {p.name}: its name begins and ends with that of no operand")
    elif not role and p.dtype in ("i32", "i64"):
        role = "rank" if p.name == "rank" else "extent" if p.name in extents or p.name.endswith("numel") else ""
        if not role:
            raise TableError(f"parameter {p.name}: its role, one of {' '.join(ROLES)}, must stand before it")
    return {"role": role or "parameter", "of": of}


class Call(NamedTuple):
    """A function on arrays. Without arguments and results, another row has its signature.

    arguments  (name, C's name or "", extents as names of C's scalars or "", (default,) or (), keyword only)
    fixed      (C's scalar, its value: digits, or the name of another scalar)
    results    (name, C's name)
    """

    name: str
    arguments: tuple[tuple[str, str, str, tuple[Any, ...], bool], ...]
    fixed: tuple[tuple[str, str], ...]
    results: tuple[tuple[str, str], ...]


@dataclasses.dataclass(frozen=True)
class Row:
    family: str
    table: str
    name: str
    template: str  # C++ class of the op, or of the functor of a regular one
    form: str  # flat or strided for a regular op, else ""
    inputs: tuple[str, ...]  # arguments of a regular op's functor, in order
    sums: bool  # a regular op's outputs are summed where their strides are 0
    includes: tuple[str, ...]
    functions: dict[str, str]  # name -> what it computes; empty for a row of one function
    headers: dict[str, str]  # name -> header in the functors/ of the family that has its class
    by_width: bool  # whether each width of T has a translation unit
    unit_table: str  # table whose translation units contain the row
    slots: dict[str, tuple[str, ...]]
    params: tuple[Param, ...]
    check_params: tuple[Param, ...]
    mutable_checks: frozenset[str]  # pointers that `_can_implement` takes as void*
    size_params: tuple[Param, ...]  # parameters of `_workspace_size`
    reads: dict[str, dict[str, tuple[str, ...]]]  # function ("" without F) -> output -> inputs other than the first
    saves: dict[str, str]  # function -> "x" or "y", the operand `saved`; empty without one
    defaults: dict[str, dict[str, float | int]]  # function ("" without F) -> parameter -> default
    workspace: str
    deterministic: str
    batch_invariant: str
    is_apart: bool  # no output may be an input
    in_place: dict[str, tuple[str, ...]]  # output -> inputs that it may be
    accumulates: str  # the outputs that are added to, separated by spaces
    leaves: dict[str, str]  # outputs of which some elements are not written -> the output that counts their rows
    indexes: dict[str, tuple[str, bool, bool, str]]  # index operand -> (extent, inclusive, sorted, other valid value)
    doc: str
    # operand of addresses -> (direction, name) of the arrays at the addresses
    points: dict[str, tuple[str, str]] = dataclasses.field(default_factory=dict)
    calls: tuple[Call, ...] = ()  # functions on arrays
    gradient: tuple[Any, ...] = ()  # (name, scalars) of the function that is the gradient of the one in `calls`
    about: str = ""  # description of these functions
    is_bare: bool = False  # no workspace parameters before the stream
    bytes_type: str = ""  # C type of a byte count, if `_workspace_bytes` is an alias of `_workspace_size`

    @property
    def pattern(self) -> str:
        """Template of the ops' names."""
        return self.name.split()[0]

    @property
    def problem(self) -> tuple[Param, ...]:
        return tuple(p for p in self.params if not p.is_pointer)

    @property
    def pointers(self) -> tuple[Param, ...]:
        return tuple(p for p in self.params if p.is_pointer)

    @property
    def lists(self) -> tuple[Param, ...]:
        return tuple(p for p in self.params if p.is_list)

    @property
    def first_input(self) -> Param:
        return next(p for p in self.pointers if not p.is_output)

    def needed(self, slots: dict[str, str]) -> dict[Param, tuple[Param, ...] | None]:
        """Pointers that may not be NULL -> None, or the outputs of which one must be non-NULL to require it."""
        reads = self.reads.get(slots.get("F", ""))
        outputs = tuple(p for p in self.pointers if p.is_output)
        needed = {}
        for p in filter(lambda p: p.is_required, self.pointers):
            readers = None
            if reads is not None and not p.is_output and p != self.first_input:
                readers = tuple(out for out in outputs if p.name in reads[out.name])
            if readers is None or any(out.is_required for out in readers):
                needed[p] = None
            elif readers:
                needed[p] = readers
        return needed

    def instances(self):
        """Yield (op name, slots) for every choice of function and dtypes; slots has the function under "F"."""
        choices = {"F": tuple(self.functions), **self.slots} if self.functions else self.slots
        for choice in itertools.product(*choices.values()):
            slots = dict(zip(choices, choice))
            op = self.pattern
            for slot, value in slots.items():
                op = op.replace(f"{{{slot}}}", SUFFIXES[slot][value] if slot in SUFFIXES else value)
            yield op, slots

    def unit_of(self, slots: dict[str, str]) -> str:
        """Name of the translation unit that contains an instance."""
        parts = [self.family, self.unit_table]
        header, include = self.headers.get(slots.get("F", "")), pathlib.PurePath(self.includes[-1]).stem
        if header:
            parts.append(pathlib.PurePath(header).stem)
        elif self.form and include != self.table:
            parts.append(include)
        if self.by_width:
            parts.append(f"{WIDTHS[slots['T']]}bit")
        return ".".join(parts)

    def includes_of(self, slots: dict[str, str]) -> tuple[str, ...]:
        """The headers that an instance needs."""
        header = self.headers.get(slots.get("F", ""))
        return (*self.includes, f"{self.family}/functors/{header}") if header else self.includes

    def class_of(self, slots: dict[str, str]) -> str:
        """The C++ class of one instance."""
        names = {"F": camel(slots.get("F", ""))}
        names |= {slot: C_TYPES[slots[slot]] for slot in self.slots}
        return re.sub(r"{(\w)}", lambda m: names[m[1]], self.template)

    def prototypes(self, op: str, slots: dict[str, str]):
        """Yield (result type, function name, parameter list) of one instance's functions."""
        size_type = self.bytes_type or "size_t"
        tail = ["void* stream"] if self.is_bare else ["void* workspace", f"{size_type} workspace_bytes", "void* stream"]
        yield "int32_t", symbol_of(op, "run"), ", ".join([p.prototype(slots) for p in self.params] + tail)
        check = ", ".join(p.prototype(slots, const=p.name not in self.mutable_checks) for p in self.check_params)
        yield "int32_t", symbol_of(op, "can_implement"), check
        if self.workspace:
            size = ", ".join(p.prototype(slots) for p in self.size_params)
            yield "size_t", symbol_of(op, "workspace_size"), size
            if self.bytes_type:
                yield self.bytes_type, symbol_of(op, "workspace_bytes"), size
