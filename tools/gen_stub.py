# SPDX-License-Identifier: Apache-2.0
"""Writes type stubs: the signatures of the functions on arrays, those of plans, and those of baracuda.linalg.

usage: python -m tools.gen_stub FUNCTIONS [PLANS [LINALG]]

Functions are created from the op table at first access (baracuda/functions.py), which type checkers do not see. Plans
take the descriptor and the Args of their own op; fields of descriptors take types that convert to theirs. Functions of
linear algebra are methods of classes, one for all frameworks.
"""

import contextlib
import dataclasses
import importlib
import inspect
import pathlib
import re
import sys
import textwrap

import baracuda as bk
from baracuda import kinds
from baracuda._functions.spec import specs
from baracuda._library.exports import OPS
from baracuda.functions import signature, summary
from baracuda.linalg.names import CLASSES, HOME, NAMES

PROLOGUE = '''"""Signatures of baracuda/functions.py. Written by tools/gen_stub.py: do not edit."""

from collections.abc import Sequence
from typing import Any

from baracuda._functions.spec import Spec
from baracuda.kinds import (
    CellKind, CodeBook, ColorConversion, EmbeddingBagMode, ExpertGroupScore, ExpertScoring, FloatFormat, Fp8Scaling,
    LossReduction, MxFormat, QuantileInterpolation, ResampleMode, SampleMode, SamplePadding, ScaleLayout, ScaleRule,
    ScatterReduction,
)
from baracuda.quantize.formats import GgufBlockFormat

# NumPy, PyTorch, CuPy and JAX arrays; a TensorRef; objects with DLPack, an array interface or a buffer; a number
Array = Any

# Other modules of the package use these.
def signature(spec: Spec, annotated: bool = False, whole: bool = False) -> str: ...
def summary(spec: Spec) -> str: ...
def documentation(spec: Spec) -> str: ...

'''
PLANS = '''"""Descriptors, Args and plans as `baracuda` has them. Written by tools/gen_stub.py: do not edit."""

# mypy: ignore-errors
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from baracuda._library.loader import Library
from baracuda.descriptor import Descriptor
from baracuda.dtypes import ElementKind
from baracuda.guarantee import PlanPreference
from baracuda.kinds import *
from baracuda.operands import Args
from baracuda.plan import Plan

class _TorchDtype(Protocol):
    @property
    def is_floating_point(self) -> bool: ...

_Element = ElementKind | str | type[np.generic] | np.dtype[Any] | _TorchDtype
_D = TypeVar("_D", bound=Descriptor)
_A = TypeVar("_A", bound=Args)
_P = TypeVar("_P", bound="_Plan[Any, Any]")

class _Plan(Plan, Generic[_D, _A]):
    descriptor: _D
    @classmethod
    def select(
        cls: type[_P], stream: object, descriptor: _D, preference: PlanPreference | None = None, *,
        library: Library | None = None, backend: str | None = None,
    ) -> _P: ...
    def can_implement(self, args: _A) -> None: ...
    def workspace_size_for(self, args: _A) -> int: ...
    def run(self, stream: object, workspace: object, args: _A) -> None: ...
    def bind(self, stream: object, workspace: object, args: _A) -> Callable[[], None]: ...

'''
LINALG = '''"""Signatures of the functions of linear algebra. Written by tools/gen_stub.py: do not edit."""

import collections.abc
import typing
from typing import Any

'''
GIVEN = {
    "tuple[int, ...]": "Sequence[int]",
    "tuple[float, ...]": "float | Sequence[float]",
    "ElementKind": "_Element",
}


def stub() -> str:
    names = "".join(f"    {name!r},\n" for name in specs())
    parts = [PROLOGUE, f"__all__ = [\n{names}]\n\n"]
    for spec in specs().values():
        result = "Any" if len(spec.outputs) == 1 else f"tuple[{', '.join(['Any'] * len(spec.outputs))}]"
        body = textwrap.indent("\n".join(textwrap.wrap(f'"""{summary(spec)}"""', 112)), "    ")
        parts.append(f"def {spec.name}({signature(spec, annotated=True, whole=True)}) -> {result}:\n{body}\n")
    return "".join(parts)


def plans() -> str:
    parts = [PLANS]
    for module, words in OPS.items():
        alias = f"_{module.replace('.', '_')}"
        parts.append(f"import baracuda.{module} as {alias}\n")
        for word in words.split():
            descriptor, args, plan = f"{word}Descriptor", f"{word}Args", f"{word}Plan"
            parts.append(operands(getattr(bk, args)))
            parts.append(f"class {descriptor}({written(getattr(bk, descriptor))}):\n")
            parts.append(f"    {initializer(getattr(bk, descriptor))}\n")
            parts.append(f"class {plan}(_Plan[{descriptor}, {args}], {alias}.{plan}): ...\n")
    return "".join(parts)


def linalg() -> str:
    parts = [LINALG, *(f"import baracuda.linalg.{module}\n" for module in CLASSES), f"\n__all__ = {list(NAMES)}\n\n"]
    for name in NAMES:
        home = importlib.import_module(f"baracuda.linalg.{HOME[name]}")
        method = getattr(getattr(home, CLASSES[HOME[name]]), name)
        of = inspect.signature(method, eval_str=True)
        words = f'"""{" ".join(inspect.getdoc(method).split(chr(10) * 2)[0].split())}"""'
        body = textwrap.indent("\n".join(textwrap.wrap(words, 112)), "    ")
        parts.append(f"def {name}{of.replace(parameters=[*of.parameters.values()][1:])}:\n{body}\n")
    return "".join(parts)


def operands(args: type) -> str:
    """The class, which is created from the rows of the op table when its plan is imported."""
    notes = f'"""{args.__doc__}"""\n' if not args.__doc__.startswith(f"{args.__name__}(") else ""
    fields = [
        f"{field.name}: {'Sequence[Any]' if field.name in args.lists else 'Any'}"
        f"{'' if field.default is dataclasses.MISSING else ' = None'}\n"
        for field in dataclasses.fields(args)
    ]
    body = textwrap.indent("".join([notes, *fields]), "    ")
    return f"@dataclass(frozen=True, slots=True, eq=False)\nclass {args.__name__}(Args):\n{body}"


def written(descriptor: type) -> str:
    """The descriptor, or its nearest base that is written in a module: checkers see no generated classes."""
    for cls in descriptor.__mro__:
        if f"class {cls.__name__}(" in inspect.getsource(sys.modules[cls.__module__]):
            return f"_{cls.__module__.removeprefix('baracuda.').replace('.', '_')}.{cls.__name__}"
    raise AssertionError(descriptor)


def initializer(descriptor: type) -> str:
    """Fields without a default are required, which a checker cannot see where functions make them."""
    fields = dataclasses.fields(descriptor)
    ordered = [f for f in fields if not f.kw_only], [f for f in fields if f.kw_only]
    parts = [["self"], *[[parameter(f) for f in each] for each in ordered]]
    return f"def __init__({', '.join([*parts[0], *parts[1], *(['*'] if parts[2] else []), *parts[2]])}) -> None: ..."


def parameter(field: dataclasses.Field) -> str:
    bare = str(field.type).removesuffix(" | None")
    known = bare in GIVEN or bare in ("int", "float", "bool", "str") or hasattr(kinds, bare)
    given = GIVEN.get(bare, bare) if known else "Any"
    if bare == "tuple[int, ...]" and takes_number(field):
        given = f"int | {given}"
    given += re.search(r"( \| None)?$", str(field.type))[0]
    has_default = field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
    return f"{field.name}: {given}{' = ...' if has_default else ''}"


def takes_number(field: dataclasses.Field) -> bool:
    """Whether the field takes a number or a sequence of numbers."""
    with contextlib.suppress(bk.InvalidProblemError):
        return bool(field.metadata["check"](field.name, 3))
    return False


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3, 4):
        sys.exit(__doc__)
    for path, text in zip(sys.argv[1:], (stub, plans, linalg)):
        pathlib.Path(path).write_text(text())
