# SPDX-License-Identifier: Apache-2.0
"""Libraries of some families and dtypes: `make cpu FAMILIES=... DTYPES=...`."""

import importlib
import json
import pathlib
import re
import sys

import numpy as np
import pytest

import baracuda as bk
from harness import ROOT
from harness.building import attempt, make

pytestmark = pytest.mark.unsanitized("it builds libraries of its own, without sanitizers")

abi_table = importlib.import_module("abi_table")
check_abi = importlib.import_module("check_abi")
gen_abi = importlib.import_module("gen_abi")
ROWS = abi_table.read_all()
FIRST = " ".join(sorted({row.family for row in ROWS})[:3])
UNIT = "image.affine_grid"  # a small one, with f32 and f64
ABOUT = {name for name, _ in gen_abi.prototypes_of(gen_abi.PROLOGUE.read_text())}


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """A build directory with two partial libraries, UNIT in f32 and UNIT with all its dtypes, and make's output for
    each."""
    build = tmp_path_factory.mktemp("build")
    flags = [f"BUILD={build}", "CXXFLAGS=-O0"]
    of_unit = ("cpu", f"FAMILIES={UNIT}")
    return build, make(ROOT, *of_unit, "DTYPES=f32", *flags), make(ROOT, *of_unit, *flags)


@pytest.fixture(scope="module")
def build(outputs):
    return outputs[0]


def library_of(build, name):
    return build / "part" / name / "cpu" / "libbaracuda_kernels.so"


@pytest.mark.parametrize("dtypes", [["f32"], []], ids=["f32", "all"])
def test_a_partial_library_has_its_ops_only(build, library, dtypes):
    of_unit = [(op, slots["T"]) for row in ROWS for op, slots in row.instances() if row.unit_of(slots) == UNIT]
    ops = {op for op, dtype in of_unit if not dtypes or dtype in dtypes}
    assert 0 < len(ops) < len(of_unit) + (not dtypes)
    limits = {"families": [UNIT]} | ({"dtypes": dtypes} if dtypes else {})
    path = library_of(build, ".".join([UNIT, *dtypes]))
    symbols = ABOUT | {f"baracuda_kernels_{op}_{kind}" for op in ops for kind in ("run", "can_implement")}
    assert check_abi.exported_symbols(path) == symbols
    loaded = bk.load(path)
    assert set(loaded.symbols()) == symbols
    assert loaded.symbols() == [name for name in library.symbols() if name in symbols]
    assert {key: loaded.build_info[key] for key in ("families", "dtypes") if key in loaded.build_info} == limits
    for op in ops:
        assert loaded.function(op) != loaded.ffi.NULL


def test_a_partial_library_computes(build):
    loaded = bk.load(library_of(build, f"{UNIT}.f32"))
    theta = np.array([[[2, 0, 1], [0, 4, 0]]], np.float32)
    grid = np.empty((1, 2, 2, 2), np.float32)
    theta_at, grid_at = (loaded.ffi.cast("void*", array.ctypes.data) for array in (theta, grid))
    run = loaded.function("affine_grid_2d_f32")
    loaded.check("affine_grid", run(1, 2, 2, theta_at, grid_at, loaded.ffi.NULL, 0, loaded.ffi.NULL))
    assert grid.tolist() == [[[[0, -2], [2, -2]], [[0, 2], [2, 2]]]]


def test_missing_ops_are_unsupported(build):
    loaded = bk.load(library_of(build, f"{UNIT}.f32"))
    limits = rf"{UNIT}\.f32/cpu/\S+\.so, built for families {UNIT} and dtypes f32 alone, has no symbol"
    with pytest.raises(bk.UnsupportedError, match=f"{limits} baracuda_kernels_affine_grid_2d_f64_run"):
        loaded.function("affine_grid_2d_f64")
    neg = bk.UnaryPlan.select(None, bk.UnaryDescriptor(bk.UnaryKind.NEG, (3,), element=bk.f32), library=loaded)
    x = bk.zeros((3,), bk.f32, library=loaded)
    with pytest.raises(bk.UnsupportedError, match=f"{limits} baracuda_kernels_unary_neg_f32"):
        neg.run(None, None, bk.UnaryArgs(x, x))


def test_a_full_library_is_not_partial(library):
    assert not {"families", "dtypes"} & set(library.build_info)


def test_families_share_the_objects_of_the_whole(build):
    unit = pathlib.Path("cpu/obj/gen") / f"{UNIT}.o"
    assert (build / unit).exists()
    assert not (build / "part" / UNIT / unit).exists()
    assert (build / "part" / f"{UNIT}.f32" / unit).exists()


@pytest.mark.parametrize(("families", "dtypes", "chosen"), [
    ([], [], lambda unit, slots: True),
    (["segment", "image"], [], lambda unit, slots: unit.split(".")[0] in ("segment", "image")),
    (["elementwise.gated"], [], lambda unit, slots: unit == "elementwise.gated"),
    (["elementwise.unary"], [], lambda unit, slots: unit.startswith("elementwise.unary.")),
    (["elementwise.unary.special"], ["f32"],
     lambda unit, slots: (unit, slots.get("T")) == ("elementwise.unary.special", "f32")),
    (["elementwise.cast"], ["f32", "bf16"],
     lambda unit, slots: ".cast." in unit and {slots["T"], slots["U"]} <= {"f32", "bf16"}),
    (["segment"], ["f64"], lambda unit, slots: unit.startswith("segment.") and slots["T"] == "f64"),
])  # fmt: skip
def test_what_is_chosen(families, dtypes, chosen):
    everything = [(op, row.unit_of(slots), slots) for row in ROWS for op, slots in row.instances()]
    expected = [op for op, unit, slots in everything if chosen(unit, slots)]
    assert expected
    assert [op for op, _, _ in gen_abi.select(ROWS, families, dtypes)] == expected
    files = gen_abi.part_files(ROWS, families, dtypes)
    of_functions = set() if families else {*gen_abi.tables_without_rows().values()}
    units = {unit for op, unit, _ in everything if op in set(expected)} | of_functions
    assert files["units.txt"].split() == sorted(units)
    about = json.loads("{" + files["part.inc"].split("part(")[1].split(")part")[0].removeprefix(", ") + "}")
    assert about == {key: names for key, names in (("families", families), ("dtypes", dtypes)) if names}


def test_rows_without_the_dtypes_have_their_first():
    """Sanitized and threaded libraries have an op of each row and function."""
    dtypes = ["bf16", "f32", "i64", "u8"]
    some, each = (gen_abi.select(ROWS, [], [*dtypes, *more]) for more in ([], ["others"]))
    of_some = {row.name for _, row, _ in some}
    assert {op for op, _, _ in each} > {op for op, _, _ in some}
    assert all(row.name not in of_some for op, row, slots in each if (op, row, slots) not in some)
    assert {(row.name, slots.get("F")) for _, row, slots in each} == {
        (row.name, function) for row in ROWS for function in row.functions or [None]
    }
    arg = [op for op, row, _ in each if row.name == "arg_reduce_{F}_{T}_{U}"]
    assert arg == [f"arg_reduce_{f}_{t}_i32" for f in ("argmax", "argmin") for t in ("f32", "bf16")]


def test_every_table_is_a_choice():
    """Tables whose rows are compiled with those of another table can be chosen, too."""
    tables = {(row.family, row.table) for row in ROWS}
    assert ("gemm", "gemm_dense") in tables
    for family, table in sorted(tables):
        rows = [row for row in ROWS if row.family == family]  # which share no units with others
        chosen = {row.name for _, row, _ in gen_abi.select(rows, [f"{family}.{table}"], [])}
        missing = {row.name for row in rows if row.table == table} - chosen
        assert not missing, f"{family}.{table} lacks {missing}"


@pytest.mark.parametrize(("choice", "error"), [
    ("FAMILIES=imag", f"FAMILIES: 'imag' is no family, table or unit; there are:\n  {FIRST}"),
    ("FAMILIES=image.affine", f"FAMILIES: 'image.affine' is no family, table or unit; there are:\n  {UNIT}"),
    ("DTYPES=f31", "DTYPES: 'f31' is no dtype; there are f64 f32"),
    (f"FAMILIES={UNIT} DTYPES=bf16", f"FAMILIES='{UNIT}' has no op of DTYPES='bf16'"),
])  # fmt: skip
def test_unknown_choices(tmp_path, choice, error):
    result = attempt(["make", "cpu", "VENV=", f"BUILD={tmp_path / 'build'}", *choice.split()], ROOT)
    assert result.returncode != 0
    assert error in result.stdout
    assert not list(tmp_path.glob("build/part/*/cpu/*.so"))


# --- Output of make -------------------------------------------------------------------------------------------------


def test_a_line_for_each_unit(outputs):
    """The plan, then each unit with its number, then the library; no commands, and nothing twice."""
    build, first, second = outputs
    core = {f"core.{path.parent.name}.{path.stem}" for path in ROOT.glob("native/core/*/*_cpu.cpp")}
    for output, name, units in (
        (first, f"{UNIT}.f32", {UNIT} | core),
        (second, UNIT, {UNIT}),
    ):
        plan, *progress, library = output.splitlines()
        count = len(units) + 1
        assert library == str(library_of(build, name))
        assert re.fullmatch(rf"{re.escape(library)}: {count} units to compile, about \d+ s on \d+ idle cores?", plan)
        assert {line.split()[0] for line in progress} == {f"[{k}/{count}]" for k in range(1, count + 1)}
        assert {line.split()[1] for line in progress} == units | {"core.abi.library"}


def test_commands_where_they_are_asked_for(tmp_path):
    def compile_unit(*command, **environment):
        return attempt([ROOT / "tools" / "compile.sh", "a.unit", tmp_path / "x.o", *command], tmp_path, **environment)

    assert compile_unit("touch", "x.o").stdout == "a.unit\n"
    assert re.fullmatch(r"\d+\.\d\n", (tmp_path / "x.o.seconds").read_text())
    assert compile_unit("touch", "x.o", V="1").stdout == "a.unit\n    touch x.o\n"
    failed = compile_unit("false", "x.o")
    assert (failed.returncode, failed.stdout) == (1, "a.unit\nfailed: false x.o\n")
    assert not (tmp_path / "x.o.seconds").exists()


def test_seconds_are_those_of_the_compiler(tmp_path):
    """CPU seconds of the command and its children, without waiting; none for a ccache hit. A miss may have found
    ccache's preprocessed sources."""
    busy = "import time\nend = time.process_time() + 0.6\nwhile time.process_time() < end: pass\ntime.sleep(1)"
    command = [ROOT / "tools" / "compile.sh", "a.unit", tmp_path / "x.o"]
    missed = 'echo local_storage_read_hit > "$CCACHE_STATSLOG"'
    attempt([*command, "sh", "-c", f"{sys.executable} -c '{busy}'; {missed}"], tmp_path)
    assert 0.6 <= float((tmp_path / "x.o.seconds").read_text()) < 1.4
    attempt([*command, "sh", "-c", 'echo direct_cache_hit > "$CCACHE_STATSLOG"'], tmp_path)
    assert not (tmp_path / "x.o.seconds").exists()


def test_a_long_list_of_families_has_a_short_directory():
    """The directory's name has the beginning of the names and a hash: another list has another one."""
    families = [f"elementwise.{name}" for name in ("affine", "cast", "fill", "gated", "lerp", "prelu", "where")]
    families += ["attention.attention", "embedding.bags", "segment.segment", "segment.segment_backward"]
    directories = set()
    for chosen in (families, families[:-1], families[1:]):
        printed = attempt(
            ["make", "-n", "cpu", "VENV=", f"FAMILIES={' '.join(chosen)}", "DTYPES=f32 bf16"], ROOT
        ).stdout
        (directory,) = set(re.findall(r"build/part/([^/\s]+)/cpu", printed))
        assert len(directory) <= 120
        directories.add(directory)
    assert len(directories) == 3


def test_tables_of_functions_alone():
    """Tables without rows have units of their names; functions of other dtypes are left out. A name that begins with
    baracuda_ is whole."""
    files = gen_abi.part_files(ROWS, ["optim"], ["f32", "f64"])
    tables = (ROOT / "native" / "optim" / "tables").glob("*.abi")
    assert files["units.txt"].split() == sorted(f"optim.{path.stem}" for path in tables)
    symbols = set(re.findall(r'"(\w+)"', files["symbols.inc"]))
    assert {"baracuda_optim_adam_f32_run", "baracuda_optim_chunk_size", "baracuda_kernels_optim_adam_f64_run"} < symbols
    assert not [name for name in symbols if re.search("f16|gelu", name)]
    one = gen_abi.part_files(ROWS, ["optim.adam", UNIT], ["f32"])
    assert one["units.txt"].split() == [UNIT, "optim.adam"]
    assert "optim" not in gen_abi.part_files(ROWS, ["image"], [])["units.txt"]
    with pytest.raises(abi_table.TableError, match="'optimal' is no family"):
        gen_abi.part_files(ROWS, ["optimal"], [])
