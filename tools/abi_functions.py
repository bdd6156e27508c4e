# SPDX-License-Identifier: Apache-2.0
"""C functions of the op tables that are no ops: the sections with `function`, which tools/abi_table.py documents."""

import itertools
import pathlib
import re
from typing import NamedTuple

from abi_row import C_TYPES, PREFIX, SLOTS, SUFFIXES, TableError, camel
from abi_table import read_sections, table_paths

LIBRARY = "baracuda_"  # begins names that are whole: those of the reference's other prefixes


class Function(NamedTuple):
    """Functions of one template: their result and parameters as C has them, and the C++ function that they call."""

    family: str
    table: str
    pattern: str
    slots: dict[str, tuple[str, ...]]
    variants: tuple[str, ...]  # choices of {F}, of which the class has the name in C++; empty without F
    result: str
    params: str
    template: str
    includes: tuple[str, ...]
    doc: str

    def instances(self):
        """Yield (C name, its dtypes, C++ function) for every choice of {F} and dtypes."""
        for variant, *choice in itertools.product(self.variants or ("",), *self.slots.values()):
            name, callee = (text.replace("{F}", of) for text, of in ((self.pattern, variant), (self.template, camel(variant))))
            for slot, dtype in zip(self.slots, choice):
                name = name.replace(f"{{{slot}}}", SUFFIXES.get(slot, {}).get(dtype, dtype))
                callee = callee.replace(f"{{{slot}}}", C_TYPES[dtype])
            yield name if name.startswith(LIBRARY) else f"{PREFIX}{name}", tuple(choice), f"bk::{callee}"

    @property
    def arguments(self) -> str:
        return "" if self.params == "void" else ", ".join(re.findall(r"(\w+)(?:,|$)", self.params))


def read_function(path: pathlib.Path, family: str, name: str, section: dict[str, str]) -> Function:
    slots = {key: tuple(section[key].split()) for key in section if key in SLOTS}
    m = re.fullmatch(r"(\w+\*?) ?\((.*)\)", " ".join(section["function"].split()))
    if not m or set(section) - set(slots) - {"F", "function", "template", "include", "doc"}:
        raise TableError(f"{path.name} [{name}]: a function is 'result (parameters)', with template, include and doc")
    includes, doc = tuple(section["include"].split()), " ".join(section["doc"].split())
    variants = tuple(section.get("F", "").split())
    return Function(family, path.stem, name, slots, variants, m[1], m[2], section["template"], includes, doc)


def read_functions() -> list[Function]:
    """The sections of all tables that are functions."""
    return [
        read_function(path, family, name, section)
        for (family, _), path in table_paths().items()
        for name, section in read_sections(path).items()
        if "function" in section
    ]
