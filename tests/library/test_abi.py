# SPDX-License-Identifier: Apache-2.0
"""Header = op tables = symbols of the library = case table."""

import importlib
import json
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from baracuda._library.param import symbol_of
from cases import CASES
from harness import OPS, ROOT, ROWS, last_error

HEADER = ROOT / "include" / "baracuda_kernels.h"
CHECK = ROOT / "tools" / "check_abi.py"
GENERATE = ROOT / "tools" / "gen_abi.py"
check_abi = importlib.import_module("check_abi")
gen_abi = importlib.import_module("gen_abi")
gen_cpp, gen_rust = (importlib.import_module(name) for name in ("gen_cpp", "gen_rust"))

STATUS_NAMES = {
    0: "ok",
    1: "misaligned",
    2: "invalid problem",
    3: "unsupported",
    4: "workspace too small",
    5: "internal",
}


@pytest.fixture(scope="module")
def header():
    return HEADER.read_text()


def python(*arguments):
    return subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, check=False)


def test_header_follows_from_the_tables():
    result = python(GENERATE, "header", "--check")
    assert result.returncode == 0, result.stderr


def test_two_rows_of_one_name_are_refused(tmp_path, monkeypatch):
    abi_table = importlib.import_module("abi_table")
    row = "[{name}]\nT = f32\ntemplate = A\ninclude = a.h\nparams =\n    i64 numel\ndoc = a\ndeterministic = yes\n"
    (tmp_path / "native" / "family").mkdir(parents=True)
    monkeypatch.setattr(abi_table, "ROOT", tmp_path)
    for table, name in (("one", "a_{T}"), ("other", "a_{T}"), ("other", "a_{T} again"), ("other", "b_{T}")):
        (tmp_path / "native" / "family" / f"{table}.abi").write_text(row.format_map({"name": name, "T": "{T}"}))
        if table == "one" or name[0] == "b":
            assert name in [row.name for row in abi_table.read_all()]
        else:
            with pytest.raises(abi_table.TableError, match="both"):
                abi_table.read_all()


def test_tables_of_a_family_are_in_its_subfolders(tmp_path, monkeypatch):
    """A subfolder changes neither names nor their order; two tables of one name are refused."""
    abi_table = importlib.import_module("abi_table")
    row = "[{0}_{{T}}]\nT = f32\ntemplate = A\ninclude = a.h\nparams =\n    i64 numel\ndoc = a\n"
    monkeypatch.setattr(abi_table, "ROOT", tmp_path)
    for path in ("two/a.abi", "one/some/b.abi", "one/c.abi", "one/others/a_b.abi"):
        table = tmp_path / "native" / path
        table.parent.mkdir(parents=True, exist_ok=True)
        table.write_text(row.format(path.replace("/", "_").removesuffix(".abi")))
    units = ["one.a_b", "one.b", "one.c", "two.a"]
    assert [row.unit_of({"T": "f32"}) for row in abi_table.read_all()] == units
    (tmp_path / "native" / "one" / "b.abi").touch()
    with pytest.raises(abi_table.TableError, match=r"b\.abi is twice in native/one"):
        abi_table.read_all()


def test_header_declares_every_function_of_every_op(header):
    expected = set()
    table = importlib.import_module("abi_table").read_all()
    renamed = {row.name for row in table if row.bytes_type}
    for op, (row, _) in OPS.items():
        kinds = ["run", "can_implement", *(["workspace_size"] if row.workspace else [])]
        kinds += ["workspace_bytes"] if row.name in renamed else []
        expected |= {symbol_of(op, kind) for kind in kinds}
    expected |= {
        name for each in importlib.import_module("abi_functions").read_functions() for name, _, _ in each.instances()
    }
    about = {"abi_version", "abi_hash", "build_info", "status_name", "last_error", "symbol_count", "symbol_name"}
    assert check_abi.header_symbols(header) == expected | {f"baracuda_kernels_{name}" for name in about}


def test_library_lists_the_header(library, header):
    """The list is in header order, and every name resolves."""
    declared = re.findall(r"^BARACUDA_API [^;(]*?(\w+)\(", header, flags=re.MULTILINE)
    lib, ffi = library.lib, library.ffi
    count = lib.baracuda_kernels_symbol_count()
    listed = [ffi.string(lib.baracuda_kernels_symbol_name(i)).decode() for i in range(count)]
    assert listed == declared
    for name in listed:
        assert getattr(lib, name) != ffi.NULL
    for outside in (-1, count, count + 1, 2**63 - 1, -(2**63)):
        assert lib.baracuda_kernels_symbol_name(outside) == ffi.NULL


def test_library_exports_the_header_alone(library, header):
    assert check_abi.differences(header, pathlib.Path(library.path)) == []


def test_libraries_built_here_agree(header):
    """The CPU's and the GPU's library agree, as far as they are built; at least the one under test is."""
    built = sorted(ROOT.glob("build/*/libbaracuda_kernels.so"))
    for path in built:
        assert check_abi.differences(header, path) == [], path


@pytest.mark.parametrize(("old", "new", "line"), [
    ("int32_t baracuda_kernels_abi_version", "int32_t baracuda_kernels_abi_age", "- baracuda_kernels_abi_age"),
    ("BARACUDA_API int64_t baracuda_kernels_symbol_count", "int64_t x", "+ baracuda_kernels_symbol_count"),
])  # fmt: skip
def test_check_abi_finds_differences(library, header, tmp_path, old, new, line):
    other = tmp_path / "other.h"
    other.write_text(header.replace(old, new))
    result = python(CHECK, other, library.path)
    assert result.returncode == 1
    assert line in result.stderr.splitlines()


def test_check_abi_passes_and_refuses_other_files(library, tmp_path):
    assert python(CHECK, HEADER, library.path).returncode == 0
    for content in (b"", b"no library", b"\x7fELF\x02\x01" + bytes(100)):
        file = tmp_path / "file.so"
        file.write_bytes(content)
        result = python(CHECK, HEADER, library.path, file)
        assert result.returncode == 1, result.stderr
        assert str(file) in result.stderr


@pytest.mark.parametrize("reader", [r for r in ("nm",) if shutil.which(r)])
def test_symbol_reader_agrees_with_nm(library, reader):
    text = subprocess.run(
        [reader, "-D", "--defined-only", library.path], capture_output=True, text=True, check=True
    ).stdout
    names = {line.split()[-1].split("@")[0] for line in text.splitlines() if line.split()[-2] in "TWVuDRB"}
    assert check_abi.exported_symbols(pathlib.Path(library.path)) == names


def test_every_op_has_a_case_and_every_case_a_symbol(library):
    assert set(CASES) == set(ROWS)
    for op in OPS:
        assert library.function(op) != library.ffi.NULL


def test_handshake(library, header):
    lib, ffi = library.lib, library.ffi
    (version,) = re.findall(r"^#define BARACUDA_ABI_VERSION (\d+)$", header, flags=re.MULTILINE)
    assert lib.baracuda_kernels_abi_version() == int(version)
    found = ffi.string(lib.baracuda_kernels_abi_hash()).decode()
    assert re.fullmatch(r"[0-9a-f]{16}", found)
    assert found == gen_abi.abi_hash(header)


def test_hash_depends_on_every_prototype(header):
    assert gen_abi.abi_hash(header.replace("int64_t index", "int32_t index", 1)) != gen_abi.abi_hash(header)
    assert gen_abi.abi_hash(header.replace("Guarantees", "Promises")) == gen_abi.abi_hash(header)


def test_build_info(library):
    info = json.loads(library.ffi.string(library.lib.baracuda_kernels_build_info()))
    assert {"backend", "version", "commit", "compiler", "archs"} <= set(info)
    assert info["backend"] == library.backend
    assert isinstance(info["archs"], list)
    assert all(re.fullmatch(r"sm_\d+", arch) for arch in info["archs"])
    assert bool(info["archs"]) == (library.backend == "cuda")
    vendors = info.get("vendors", {})
    assert set(vendors) == ({"cublasLt", "cudnn", "cufft", "cusolver", "nccl"} if library.backend == "cuda" else set())
    for about in vendors.values():
        assert about["sonames"] and len(about["packages"]) == 2 and about["name"]


def test_status_names(library, header):
    lib, ffi = library.lib, library.ffi
    codes = dict(re.findall(r"^    BARACUDA_STATUS_(\w+) = (\d+)", header, flags=re.MULTILINE))
    assert {
        int(code): name.replace("_PROBLEM", " problem").replace("_", " ").lower() for name, code in codes.items()
    } == STATUS_NAMES
    for code, name in STATUS_NAMES.items():
        assert ffi.string(lib.baracuda_kernels_status_name(code)).decode() == name
    for code in (-1, 6, 2**31 - 1, -(2**31)):
        assert ffi.string(lib.baracuda_kernels_status_name(code)).decode() == "unknown status"


def test_last_error_is_never_null(library):
    assert library.lib.baracuda_kernels_last_error() != library.ffi.NULL
    assert isinstance(last_error(library), str)


def test_every_line_documents_its_row(header):
    """The comment over each row has its text, each function's and each array."""
    flat = re.sub(" +", " ", re.sub(r"\s*\n \* ?", " ", header)) + " "
    for row in ROWS.values():
        assert row.doc in flat, row.name
        for name, doc in row.functions.items():
            assert f" {name} {doc} " in flat, f"{row.name}: {name}"
        for p in row.pointers:
            assert f"{p.name}: {p.dtype} [{p.shape}]" in flat, f"{row.name}: {p.name}"


# --- Tables ---------------------------------------------------------------------------------------------------------

TABLE = """[f_{F}_{T}]
F =
    one.h:
        neg        -x => saves nothing: -dy
        elu(p0=1)  x for x > 0, else p0 (e^x - 1) => saves y: dy for x > 0, else (y + p0) dy
    two.h:
        step       1 for x > 0, else 0
T = f32 f16
pointwise = in x, in i32 n, out y, f64 p0, T.compute scale = 2
can_implement = numel x n y
doc = y = f(x).

[f_{F}_backward_{T}]
gradients_of = f_{F}_{T}
F =
    two.h:
        frac  dy / x
T = f32
pointwise = in dy, in saved, out? dx, f64 p0
sums = yes
doc = dx = f'(x) dy.

[g_{T}]
T = f32
functor = G<{T}>
include = family/table.h
pointwise = in a, in b, out y
strided = in b, in a, out y
doc = y = g(a, b).

[h_{T}]
T = f32
template = H<{T}>
include = family/h.h
params =
    i64 numel
    axis i32 dim
    in T x[numel]
    inout T y[numel]
    offset i64 x_half_offset
    parameter i64 p0
doc = y = h(x)
"""


@pytest.fixture
def read_text(tmp_path):
    """Returns a function from the text of a table to its rows by name."""
    abi_table = importlib.import_module("abi_table")

    def read(text):
        (tmp_path / "family").mkdir(exist_ok=True)
        table = tmp_path / "family" / "table.abi"
        table.write_text(text)
        return {row.name: row for row in abi_table.read_table(table, "family")}

    return read


def test_both_forms_follow_from_one_line(read_text):
    rows = read_text(TABLE)
    assert [name for name in rows if "_strided" in name] == [
        "f_{F}_{T}_strided",
        "f_{F}_backward_{T}_strided",
        "g_{T}_strided",
    ]
    flat, strided = rows["f_{F}_{T}"], rows["f_{F}_{T}_strided"]
    slots = {"F": "neg", "T": "f16"}
    assert [p.prototype(slots) for p in flat.params] == [
        "int64_t numel", "const void* x", "const void* n", "void* y", "double p0", "float scale",
    ]  # fmt: skip
    assert [p.prototype(slots) for p in strided.params] == [
        "int64_t numel", "int32_t rank", "const int32_t* shape", "const int64_t* stride_x", "const int64_t* stride_n",
        "const int64_t* stride_y", "const void* x", "const void* n", "void* y", "double p0", "float scale",
    ]  # fmt: skip
    assert [p.name for p in flat.check_params] == ["numel", "x", "n", "y"] and strided.check_params == strided.params
    assert flat.class_of(slots) == strided.class_of(slots) == "bk::op::Neg<bk::f16>"
    assert flat.unit_of(slots) == "family.table.one"
    roles = {p.name: (p.role, p.of) for p in strided.params if p.role != "operand"}
    assert roles == {
        "numel": ("extent", ""), "rank": ("rank", ""), "shape": ("shape", ""), "stride_x": ("stride", "x"),
        "stride_n": ("stride", "n"), "stride_y": ("stride", "y"), "p0": ("parameter", ""), "scale": ("parameter", ""),
    }  # fmt: skip
    assert flat.defaults == {"neg": {"scale": 2}, "elu": {"p0": 1.0, "scale": 2}, "step": {"scale": 2}}
    assert strided.in_place == {"y": ("x", "n")}
    assert strided.doc == (
        "f_{F} on strided operands; a stride of 0 broadcasts an input. y may be x or n, of equal strides and elements "
        "of one size."
    )


def test_gradients_follow_from_the_functions(read_text):
    rows = read_text(TABLE)
    flat, strided = rows["f_{F}_backward_{T}"], rows["f_{F}_backward_{T}_strided"]
    assert flat.functions == {
        "neg": "-dy", "elu": "dy for x > 0, else (y + p0) dy, saved = y", "frac": "dy / x",
    }  # fmt: skip
    assert flat.saves == {"neg": "x", "elu": "y", "frac": "x"} and flat.reads == {"neg": {"dx": ()}}
    assert flat.class_of({"F": "neg", "T": "f32"}) == "bk::op::NegBackward<float>"
    assert not flat.workspace and strided.workspace and strided.sums and "is summed over that axis" in strided.doc


def test_lists_of_operands(read_text):
    text = TABLE.replace("in T x[numel]", "ins T x[p0 of numel]\n    outs? T z[p0 of numel]\n    host i64 stride_z[p0]")
    row = read_text(text.replace("parameter i64 p0", "i64 p0"))["h_{T}"]
    assert [p.name for p in row.pointers] == ["y"] and [p.name for p in row.lists] == ["x", "z"]
    assert {p.name: (p.role, p.of, p.length) for p in row.problem if p.is_list or p.role != "axis"} == {
        "numel": ("extent", "", ""), "x": ("operand", "", "p0"), "z": ("operand", "", "p0"),
        "stride_z": ("stride", "z", ""), "x_half_offset": ("offset", "x", ""), "p0": ("extent", "", ""),
    }  # fmt: skip
    types = [p.prototype({"T": "f32"}) for p in row.lists]
    assert types == ["const void* const* x", "void* const* z"]
    run = next(text for _, name, text in row.prototypes("h_f32", {"T": "f32"}) if name.endswith("_run"))
    assert gen_rust.function("int32_t", "h", run).startswith(
        "    pub fn h(numel: i64, dim: i32, x: *const *const c_void, z: *const *mut c_void, stride_z: *const i64,"
    )
    assert gen_cpp.parameter(row.lists[0], {"T": "f32"}) == "float const* const* x"
    assert gen_cpp.argument(row.lists[1], {"T": "f32"}) == "reinterpret_cast<void* const*>(z)"


def test_other_rows(read_text):
    rows = read_text(TABLE)
    assert [p.name for p in rows["g_{T}_strided"].pointers] == ["b", "a", "y"]
    assert rows["g_{T}_strided"].inputs == rows["g_{T}"].inputs == ("a", "b")
    assert rows["g_{T}_strided"].doc.endswith("Its operands are b, a and y, in this order.")
    assert rows["g_{T}"].unit_of({"T": "f32"}) == "family.table"
    row = rows["h_{T}"]
    assert {p.name: (p.role, p.of) for p in row.problem} == {
        "numel": ("extent", ""), "dim": ("axis", ""), "x_half_offset": ("offset", "x"), "p0": ("parameter", ""),
    }  # fmt: skip
    assert row.in_place == {"y": ("x",)} and row.accumulates == "" and row.deterministic == "yes"
    row = read_text(TABLE + "accumulates = y\nin_place = no\n")["h_{T}"]
    assert row.in_place == {"y": ()} and row.is_apart and row.accumulates == "y" and row.leaves == {}
    row = read_text(TABLE + "indexes =\n    x < numel sorted or dim\n")["h_{T}"]
    assert row.indexes == {"x": ("numel", False, True, "dim")}
    row = read_text(TABLE + "indexes = x < numel or -100\n")["h_{T}"]
    assert row.indexes == {"x": ("numel", False, False, "-100")}


def test_addresses(read_text):
    gen_cpp = importlib.import_module("gen_cpp")
    text = TABLE.replace("in T x[numel]", "in T.address x[numel]") + "units = T of other\npoints = x: inout z\n"
    row = read_text(text)["h_{T}"]
    assert row.points == {"x": ("inout", "z")}
    assert row.unit_of({"T": "f16"}) == "family.other.16bit"
    x = row.pointers[0]
    assert (x.is_addresses, x.dtype_of({"T": "f16"}), x.pointer_type({"T": "f16"})) == (True, "i64", "const int64_t*")
    assert gen_cpp.parameter(x, {"T": "f32"}) == "float const* const* x"


@pytest.mark.parametrize(("old", "new", "complaint"), [
    ("axis i32 dim", "i32 dim", r"\[h_{T}\]: parameter dim: its role, one of extent .* must stand before it"),
    ("offset i64 x_half", "offset i64 z_half", "z_half_offset: its name begins and ends with that of no operand"),
    ("axis i32 dim", "host i64 stride_z[numel]", "parameter stride_z: there is no operand 'z'"),
    ("elu(p0=1)", "elu(p1=1)", "function 'elu': 'p1' is no parameter of the row"),
    ("elu(p0=1)", "elu(p0=a)", "default 'a' is no number"),
    ("-x => saves nothing: -dy", "", "function 'neg' has no description"),
    ("-x => saves nothing: -dy", "-x =>", "function 'neg' has no description"),
    ("saves nothing: -dy\n", "-dy\n  neg x\n", "function 'neg' stands here twice"),
    ("in saved", "in x", "function 'elu' saves y, but there is no operand `saved`"),
    ("    one.h:\n", "", "function 'neg' stands below no header, and there is no `include`"),
    ("in T x[numel]", "in T x[numel] = 1", "an array has no default"),
    ("gradients_of = f_{F}", "gradients_of = g_{F}", "gradients_of: there is no row 'g_{F}_{T}' that has functions"),
    ("gradients_of = f_{F}", "gradients_of = g.abi f_{F}", "No such file"),
    ("doc = y = h(x)", "accumulates = x\ndoc = a", "accumulates: 'x' is no `inout` parameter"),
    ("doc = y = h(x)", "leaves = x\ndoc = a", "leaves: 'x' is no `out` parameter"),
    ("doc = y = h(x)", "leaves = y behind z\ndoc = a", "leaves: '[yz]' is no `out` parameter"),
    ("doc = y = h(x)", "in_place = x: y\ndoc = a", "in_place: 'x' is no output"),
    ("doc = y = h(x)", "indexes = y < numel\ndoc = a", "indexes: 'y' is no input"),
    ("doc = y = h(x)", "indexes = x < n\ndoc = a", "indexes: 'n' is no number of the row"),
    ("doc = y = h(x)", "indexes = x > numel\ndoc = a", "indexes: 'x > numel' is not 'operand < extent"),
    ("doc = y = h(x)", "points = x: out z\ndoc = a", "points: 'x: out z' is not .operand: in.out.inout name. of none"),
    ("in T x[numel]", "in T.address x[numel]", "points: '' is not .operand: in.out.inout name. of x"),
    ("doc = y = h(x)", "units = U\ndoc = a", "units is T, a slot of the row, or T of a table"),
    ("doc = y = h(x)\n", "", "key 'doc' is missing"),
    ("doc = y = h(x)", "docs = a\ndoc = a", "unknown key 'docs'"),
    ("doc = y = h(x)", "call = f(x\ndoc = a", "is not 'name"),
    ("doc = y = h(x)", "call = f(z as x)\ndoc = a", "call: 'z as x' is no argument, or of no parameter"),
    ("doc = y = h(x)", "call = f(z is 1)\ndoc = a", "call: 'z is 1' is no argument, or of no parameter"),
    ("doc = y = h(x)", "call = f(x) -> x\ndoc = a", "call: 'x' is no output"),
    ("template = H<{T}>\n", "", "key 'template' is missing"),
    ("functor = G<{T}>\n", "", "functor or template is missing, which a row without F needs"),
    ("in x, in i32 n", "in x, in i31 n", "parameter n: unknown dtype 'i31'"),
    ("in x, in i32 n", "in x, n", "parameter 'n' is not"),
    ("in x, in i32 n, out y", "in x, out y, in i32 n", "the inputs of a pointwise op stand before its outputs"),
    ("in x, in i32 n", "in x" + ", in a" * 8, "a pointwise op has at most 8 operands"),
    ("sums = yes", "sums = no", "sums is yes, or not there"),
    ("pointwise = in dy, in saved, out? dx, f64 p0\n", "", "one of the keys pointwise, strided, params is missing"),
])  # fmt: skip
def test_a_row_that_cannot_be_right(read_text, old, new, complaint):
    """The error names the table, the row and what is wrong or missing."""
    assert old in TABLE
    with pytest.raises(importlib.import_module("abi_table").TableError, match=complaint) as error:
        read_text(TABLE.replace(old, new))
    assert "table.abi [" in str(error.value)


def test_the_python_table_is_that_of_the_rows():
    op_table = importlib.import_module("baracuda._library.op_table")
    for ours, row in zip(op_table.rows(), importlib.import_module("abi_table").read_all(), strict=True):
        assert [tuple(p) for p in ours.params] == [tuple(p) for p in row.params], row.name
        for name in ("name", "family", "functions", "slots", "reads", "saves", "defaults", "in_place", "accumulates",
                     "leaves", "points", "indexes"):  # fmt: skip
            assert getattr(ours, name) == getattr(row, name), f"{row.name}: {name}"
