"""What the README shows is run."""

import importlib
import pathlib
import re
import subprocess
import sys

import pytest

from baracuda._optable import ops
from harness.child import child_environment
from harness.compilers import compile_and_run
from harness.readme import README, blocks

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(("code", "printed"), list(zip(blocks("python"), ("", "deterministic=True"), strict=True)))
def test_python_examples(library, code, printed):
    """Functions on arrays, then plans."""
    assert len([line for line in code.splitlines() if line]) <= 20
    environment = child_environment()
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert printed in result.stdout


def test_c_example(cpu_library, tmp_path):
    (code,) = blocks("c")
    source = tmp_path / "example.c"
    source.write_text(code)
    assert compile_and_run("c", source, cpu_library, tmp_path).split() == ["4", "6", "0", "0", "21", "24", "11", "12"]


ROWS = importlib.import_module("abi_table").read_all()
TABLES = sorted({(row.family, row.table) for row in ROWS})


@pytest.mark.parametrize(("family", "table"), TABLES)
def test_op_tables(family, table):
    """One line each; the names that it gives are patterns of the table, or the beginning of some."""
    lines = [line for line in README.splitlines() if line.startswith("|") and f"native/{family}/{table}.abi" in line]
    assert len(lines) == 1, f"{len(lines)} rows of the README's tables are about native/{family}/{table}.abi"
    patterns = [row.pattern for row in ROWS if (row.family, row.table) == (family, table)]
    for name in re.findall(r"`([a-z0-9_]+[_{][^`]*)`", lines[0].replace(f"native/{family}/{table}.abi", "")):
        assert any(pattern.startswith(name) for pattern in patterns), f"{name} is no row of {table}.abi"


def test_no_other_table_is_in_the_readme():
    named = re.findall(r"native/(\w+)/(\w+)\.abi", README)
    assert set(named) <= set(TABLES)


def test_counts_follow_from_the_tables():
    """A failure names the numbers that the README should have."""
    header = (ROOT / "include" / "baracuda_kernels.h").read_text()
    functions = re.findall(r"^BARACUDA_API ", header, flags=re.M)
    declared = f"declares and documents {len(functions):,} functions: {len(ops()):,} ops, each with `_run`"
    assert declared in README
    (unary,) = (row for row in ROWS if row.pattern == "unary_{F}_{T}" and row.table == "unary")
    assert f"| {len(unary.functions)} functions: arithmetic" in README


SHOWN = re.findall(r"`(native/[\w/]+\.\w+)`(?:(?!`native/).)*?```(?:ini|cpp)\n(.*?)```", README, flags=re.S)


@pytest.mark.parametrize(("path", "text"), SHOWN, ids=[path for path, _ in SHOWN])
def test_what_the_readme_shows_of_a_file_stands_there(path, text):
    lines = [line.strip() for line in text.strip().splitlines()]
    file = [line.strip() for line in (ROOT / path).read_text().splitlines()]
    start = file.index(lines[0])
    while file[start : start + len(lines)] != lines:
        start = file.index(lines[0], start + 1)


def test_the_readme_shows_an_op():
    assert [path.rpartition(".")[2] for path, _ in SHOWN] == ["abi", "h", "abi"]
