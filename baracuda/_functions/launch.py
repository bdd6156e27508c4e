# SPDX-License-Identifier: Apache-2.0
"""Generated Python functions for cached calls, which only convert addresses, allocate results and call C.

The source of such a function depends on a pattern: how many arrays there are, which of them are Python numbers, how
their frameworks give an address, and how many other arguments C takes. Patterns are few, and each is compiled once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from baracuda._arrays.frameworks import NUMPY, framework_of, scalar_array
from baracuda._ffi import ffi
from baracuda.dtypes import ElementKind

if TYPE_CHECKING:
    from baracuda._functions.prepared import Prepared
    from baracuda._functions.spec import Spec

_SCOPE = {"NULL": ffi.NULL, "VOID": ffi.typeof("void *"), "WORDS": ffi.typeof("void **"), "cast": ffi.cast}


class Pattern(NamedTuple):
    addresses: tuple[str | None, ...]  # expressions for each array {0}; None for a Python number
    results: tuple[bool, ...]  # which results C writes; those after the outputs are for C alone
    returned: tuple[bool, ...]  # which outputs the caller gets
    result_address: str
    empty: str  # expression that allocates a result from {shape}, {native} and {like}
    scratch: str  # the same for a workspace
    made_address: str  # address of an array that `empty` makes
    number_address: str  # address of an array made from a Python number
    slots: tuple[int, ...]  # for each C pointer, its position among arrays, results, and NULL
    order: tuple[int, ...]  # for each C argument before the workspace, its slot, or -1 for a constant
    workspace: str | None  # "made", "NULL", or None if C takes none
    stream: str  # stream of {like}; empty on the CPU
    device: str  # whether {like} is not on the current device; empty on the CPU
    has_out: bool  # the caller gives the result, after the arrays
    clears: bool  # whether allocated results are set to 0


@functools.cache
def _maker(pattern: Pattern) -> Callable[..., Callable[..., Any]]:
    arrays = [f"a{k}" for k in range(len(pattern.addresses))]
    results = [f"r{k}" if wanted else "None" for k, wanted in enumerate(pattern.results)]
    literals = [name for name, address in zip(arrays, pattern.addresses) if address is None]
    like = next(name for name in arrays if name not in literals)
    lines = []
    given = ", ".join([*arrays, *(results[: len(pattern.returned)] if pattern.has_out else [])])
    skipped = len(pattern.returned) if pattern.has_out else 0  # results that the caller gave
    made = [name for name in results[skipped:] if name != "None"]
    if pattern.device:
        lines.append(f"if {pattern.device.format(like=like)}: return elsewhere({given})")
    lines += [f"{name} = number_{name}({name}, {like})" for name in literals]  # alive until the call returns
    made += ["scratch"] * (pattern.workspace == "made")
    for name in made:
        maker = pattern.scratch if name == "scratch" else pattern.empty
        lines.append(f"{name} = {maker.format(shape=f'shape_{name}', native=f'native_{name}', like=like)}")
    lines += [f"zero({name})" for name in made if pattern.clears and name != "scratch"]
    pointers = [(pattern.number_address if a is None else a).format(name) for name, a in zip(arrays, pattern.addresses)]
    addresses = [pattern.made_address if name in made else pattern.result_address for name in results]
    pointers += [address.format(name) if name != "None" else "NULL" for name, address in zip(results, addresses)]
    pointers.append("NULL")
    constants = [f"c{k}" for k in range(pattern.order.count(-1))]
    remaining = iter(constants)
    passed = [pointers[pattern.slots[slot]] if slot >= 0 else next(remaining) for slot in pattern.order]
    stream = f"cast(VOID, {pattern.stream.format(like=like)})" if pattern.stream else "NULL"
    workspace = {
        "made": [pattern.made_address.format("scratch"), "scratch_bytes"], "NULL": ["NULL", "0"], None: [],
    }[pattern.workspace]  # fmt: skip
    call = ", ".join([*passed, *workspace, stream])
    lines += [f"if status := function({call}): check(symbol, status)"]
    outputs = [name if kept else "None" for name, kept in zip(results, pattern.returned)]
    lines.append(f"return {outputs[0] if len(outputs) == 1 else '(' + ', '.join(outputs) + ')'}")
    constants = [
        *constants, *[f"shape_{name}" for name in made], *[f"native_{name}" for name in made],
        *[f"number_{name}" for name in literals], "scratch_bytes", "zero", "function", "check", "symbol", "framework",
        "empty", "elsewhere",
    ]  # fmt: skip
    body = "\n        ".join(lines)
    text = f"def make({', '.join(constants)}):\n    def launch({given}):\n        {body}\n    return launch\n"
    scope = dict(_SCOPE)
    exec(compile(text, "<baracuda launch>", "exec"), scope)
    make: Callable[..., Callable[..., Any]] = scope["make"]
    return make


def launcher(
    spec: Spec, call: Prepared, arrays: Sequence[Any], out: Any, elsewhere: Callable[..., Any]
) -> Callable[..., Any]:
    """A launch function for calls of this signature. It calls `elsewhere` if the current device is another one."""
    literals = dict(call.scalars)
    addresses = [None if k in literals else _address(array) for k, array in enumerate(arrays)]
    framework, on_cuda = call.framework, call.library.backend == "cuda"
    number_framework = framework if on_cuda else NUMPY
    pattern = Pattern(
        tuple(addresses), tuple([result is not None for result in call.results]), tuple(call.wanted),
        framework.address if out is None else _address(out), framework.make,
        framework.make_scratch or framework.make, framework.address, number_framework.address,
        tuple(call.slots), call.order,
        None if call.row.is_bare else "made" if call.workspace else "NULL", framework.stream_now if on_cuda else "",
        framework.is_elsewhere if on_cuda else "", out is not None, call.clears,
    )  # fmt: skip
    like = arrays[call.like]
    results = list(filter(None, call.results[len(call.wanted) if out is not None else 0 :]))
    if call.workspace:
        results.append(((call.workspace,), framework.native(ElementKind.U8, like)))
    made = [(shape, framework.make_argument(shape, native, like)) for shape, native in results]
    numbers = [
        functools.partial(scalar_array, number_framework, spec.name, spec.arrays[position].name, dtype)
        for position, dtype in call.scalars
    ]
    return _maker(pattern)(
        *call.constants, *[shape for shape, _ in made], *[native for _, native in made], *numbers,
        call.workspace, framework.zero, call.function, call.library.check, call.symbol, framework, framework.allocate,
        elsewhere,
    )  # fmt: skip


def _address(array: Any) -> str:
    framework = None if array is None else framework_of(array)
    return "NULL" if framework is None else framework.address
