#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks identifiers and comments against a word list, and the first words of comments (CONTRIBUTING.md, "Words").

usage: words.py [PATH...]

Without PATH it checks the tracked C++, CUDA, Python and .abi files. Identifiers are split at underscores and capitals.
Comments include docstrings, and the sentences of op tables. Findings are printed as `file:line: word -> say`; the exit
status is 1 if there are any.
"""

import ast
import bisect
import builtins
import io
import pathlib
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[1]
CPP = (".h", ".hpp", ".cuh", ".cu", ".cpp", ".c")
# Words that have no other meaning in this code -> what to say instead.
WORDS = {
    "turn|turns|turned|turning": "transpose, permute, reverse, rotate; phase (of buffers); trial (of a measurement)",
    "thin": "skinny (GEMM with small M), gemv",
    "warp group|warp groups": "warpgroup",
    "multiprocessor|multiprocessors": "SM",
    "stand still|stands still|standing still": "is broadcast, has stride 0",
    "under way": "in flight, outstanding",
    "piece|pieces": "tile, fragment, segment",
    "strip|strips": "tile, panel, row block",
    "band|bands": "tile, range of rows",
    "joins|joined": "concatenate (along an axis), combine (partial results), merge (sorted ones)",
    "folds|folding": "reduce, combine; pad mode",
    "preimage|preimages": "adjoint of the gather or scatter",
    "mover|movers": "copy kernel",
    "place|places": "index, offset, coordinate, slot, position",
    "wholes": "dense chunks",
    "terms": "K elements, summands; losses (of rows or elements)",
    "room": "capacity, workspace",
    "anew": "again; launder (hide a value from the optimiser)",
}
# Words of C++ and of op tables only; elsewhere they are lines of text.
CPP_WORDS = {"line|lines": "row, pitch, fiber; cache line"}
# Phrases in which a word of the list is right, in a sentence or as an identifier.
ALLOWED = (
    "cache lines?", "command line", "constant folding", "decimal places", "in place", "in turn", "last place",
    "line bytes", "lines? of code", "new line", "num places", "out of line", "places axis", "prefetch line",
    "takes? place",
)  # fmt: skip
# Prefixes of paths where a word has another meaning (diagonals of a matrix, a function of NumPy) or is a public name
# (an extent or argument of C, a property of a descriptor).
ALLOWED_IN = {
    "native/core/copy/": ("band", "bands"), "native/shape_layout/": ("band", "bands"),
    "tests/gpu_on_threads/copies.cpp": ("band", "bands"), "tools/bench/problems/indexing/moves.py": ("place",),
    "native/attention/": ("places", "band", "bands"), "native/reduce/": ("place",), "native/gemm/w4.h": ("strips",),
    "tests/cases/attention/": ("band",), "tests/gpu_on_threads/attention": ("band", "bands"),
    "tools/bench/problems/attention/": ("band", "bands"), "baracuda/": ("strips",),
}  # fmt: skip
# Written by tools/gen_abi.py from the op tables.
GENERATED = ("include/baracuda_kernels.h",)
# Names of Python itself, such as methods of str.
PYTHON_NAMES = {*dir(builtins), *dir(str), *dir(bytes)}


def pattern(words: dict[str, str]) -> re.Pattern[str]:
    """Matches the allowed phrases, and the words of a list as group "word"."""
    text = rf"\b(?:{'|'.join(ALLOWED)}|(?P<word>{'|'.join(words)}))\b"
    return re.compile(text.replace(" ", r"[\s-]+"), re.IGNORECASE)


SAY = {word: say for words, say in (WORDS | CPP_WORDS).items() for word in words.split("|")}
PATTERN, CPP_PATTERN = pattern(WORDS), pattern(WORDS | CPP_WORDS)
# First words of fragments, which leave their subject to the reader: of comments, docstrings and sentences of tables.
FRAGMENT = re.compile(
    r'(?:(?://|#)\S* |(?:doc|about) *= |r?""")(Of|As|Where|By|All but|What|The same|How|Which|That of|Like)\b'
)
COMMENT = re.compile(r"//|#")
PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
CPP_TOKEN = re.compile(
    r"(?P<comment>//(?:\\\n|[^\n])*|/\*.*?\*/)"
    r"|R\"(?P<tag>[^(\s]*)\(.*?\)(?P=tag)\"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'"
    r"|__[A-Z]\w*__|(?P<name>[A-Za-z_]\w*)|\d[\w.']*",
    re.DOTALL,
)


class Finding(NamedTuple):
    line: int
    word: str
    say: str


def is_checked(path: str) -> bool:
    return path.endswith((*CPP, ".py", ".abi")) and path not in GENERATED


def check(path: str, text: str) -> list[Finding]:
    """Findings of a file, each word once per line."""
    found = set()
    search = PATTERN if path.endswith(".py") else CPP_PATTERN
    allowed = {word for prefix, words in ALLOWED_IN.items() if path.startswith(prefix) for word in words}
    texts = (
        python_texts(text) if path.endswith(".py") else table_texts(text) if path.endswith(".abi") else cpp_texts(text)
    )
    for line, sentence in texts:
        for m in search.finditer(sentence):
            word = " ".join((m["word"] or "").lower().split())
            if word and word not in allowed:
                found.add(Finding(line + sentence.count("\n", 0, m.start()), word, SAY[word]))
    return sorted(found | fragments(text))


def fragments(text: str) -> set[Finding]:
    found = set()
    is_inside = False  # of a comment block
    for number, line in enumerate(text.splitlines(), 1):
        if (m := FRAGMENT.match(line.strip())) and not is_inside:
            found.add(Finding(number, m[1], "begin with the subject"))
        is_inside = bool(COMMENT.match(line.strip()))
    return found


def words_of(name: str) -> str:
    """The words of an identifier: "stride of rows" for kStrideOfRows, stride_of_rows and STRIDE_OF_ROWS."""
    return " ".join(PARTS.findall(name)).lower()


def cpp_texts(text: str) -> Iterator[tuple[int, str]]:
    """(line, text) of each comment and each identifier."""
    starts = [m.end() for m in re.finditer("\n", text)]
    for m in CPP_TOKEN.finditer(text):
        line = bisect.bisect_right(starts, m.start()) + 1
        if m["comment"]:
            yield line, m["comment"]
        elif m["name"]:
            yield line, words_of(m["name"])


def python_texts(text: str) -> Iterator[tuple[int, str]]:
    depth = 0  # of f-strings, whose names Python 3.12 and later tokenise
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        kind = tokenize.tok_name[token.type]
        depth += kind.endswith("STRING_START") - kind.endswith("STRING_END")
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
        elif token.type == tokenize.NAME and not depth and token.string not in PYTHON_NAMES:
            yield token.start[0], words_of(token.string)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            doc = node.body[0] if node.body else None
            if isinstance(doc, ast.Expr) and isinstance(doc.value, ast.Constant) and isinstance(doc.value.value, str):
                yield doc.lineno, doc.value.value


def table_texts(text: str) -> Iterator[tuple[int, str]]:
    """Comments of an op table, and the values of the keys that are sentences."""
    key = ""
    for number, line in enumerate(text.splitlines(), 1):
        if m := re.match(r"(\w+)\s*=", line):
            key = m[1]
        elif line.startswith("["):
            key = ""
        if line.lstrip().startswith("#") or key in ("doc", "about", "workspace"):
            yield number, line


def tracked() -> list[str]:
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files"], capture_output=True, text=True, check=True).stdout
    return [path for path in listed.splitlines() if is_checked(path) and (ROOT / path).exists()]


def main(paths: list[str]) -> int:
    lines = [
        f"{path}:{line}: {word} -> {say}"
        for path in paths or tracked()
        for line, word, say in check(path, (ROOT / path).read_text())
    ]
    print(*lines, sep="\n", end="\n" if lines else "")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
