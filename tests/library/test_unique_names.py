# SPDX-License-Identifier: Apache-2.0
"""A name of native/ has one definition: two types of a name in different headers would be one to the linker."""

import collections
import pathlib
import re

import pytest

from harness import ROOT

NATIVE = ROOT / "native"
SOURCES = sorted(p for p in NATIVE.rglob("*") if p.suffix in (".h", ".cuh"))
NAMESPACE = re.compile(r"^namespace ([\w:]+) \{$|^\}  // namespace ([\w:]+)$", re.M)
# Only the beginning of a line counts: members are indented, specialisations have arguments.
TYPE = re.compile(r"^(?:struct|class|enum class|union) (?:\w+\([^)]*\) )?(\w+)(?: final)?(?: :[^{;]*)?\s*\{", re.M)
CONSTANT = re.compile(r"^(?:inline )?constexpr [\w:<>, *]+? \*?(k\w+)(?:\[[^\]]*\])* *[={;]", re.M)


def definitions(text: str) -> list[str]:
    """Types and constants at namespace scope, with the namespace's name."""
    marks = [(m.start(), m) for pattern in (NAMESPACE, TYPE, CONSTANT) for m in pattern.finditer(text)]
    inside: list[str] = []
    found = []
    for _, mark in sorted(marks, key=lambda pair: pair[0]):
        if mark.re is not NAMESPACE:
            found.append("::".join([*inside, mark[1]]))
        elif mark[1]:
            inside.append(mark[1])
        else:
            inside.pop()
    return found


def target_free(path: pathlib.Path) -> str:
    """The path without the suffix of a target, so that both targets' headers have one name."""
    return re.sub(r"_(cpu|cuda)$", "", str(path.relative_to(NATIVE).with_suffix("")))


def duplicates(texts: dict[pathlib.Path, str]) -> dict[str, set[str]]:
    """Names that several files define, with these files."""
    found = collections.defaultdict(set)
    for path, text in texts.items():
        for name in definitions(text):
            found[name].add(target_free(path))
    return {name: files for name, files in found.items() if len(files) > 1}


def test_a_name_is_one_type_or_constant():
    texts = {path: path.read_text() for path in SOURCES}
    assert sum(len(definitions(text)) for text in texts.values()) > 1000
    assert not duplicates(texts)


@pytest.mark.parametrize("line", [
    "struct A {", "template <class T>\nstruct A final : B<T> {", "enum class A { kOne };", "class A\n{", "union A {",
    "constexpr int kA = 1;",
    "template <class T>\nconstexpr Tuning kA = {1, 2};", "inline constexpr const char* kA[] = {",
])  # fmt: skip
def test_it_would_be_found(line):
    text = f"namespace bk {{\n\n{line}\n}}  // namespace bk\n"
    name = "bk::kA" if "kA" in line else "bk::A"
    twice = {NATIVE / "one/a.h": text, NATIVE / "two/a.h": text}
    assert duplicates(twice) == {name: {"one/a", "two/a"}}
    assert not duplicates({NATIVE / "one/a_cpu.h": text, NATIVE / "one/a_cuda.cuh": text})
    assert not duplicates({NATIVE / "one/a.h": text, NATIVE / "two/a.h": text.replace("namespace bk", "namespace op")})
