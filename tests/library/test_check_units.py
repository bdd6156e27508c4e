# SPDX-License-Identifier: Apache-2.0
"""tools/check_units.py: the limits of a translation unit."""

import importlib
import os
import subprocess

import pytest

pytestmark = pytest.mark.unsanitized("no library is called")

check_units = importlib.import_module("check_units")


@pytest.fixture
def folder(tmp_path):
    """Objects with the symbols of nvcc's: kernels, their names and functions that launch them; compile times beside
    them."""

    def add(name, seconds=None, kernels=0, optimised="-O1"):
        source = tmp_path / f"{name}.c"
        found = [f"_Z6kernelILi{k}EEvv" for k in range(kernels)]
        stubs = [f"__device_stub_{mangled}" for mangled in found]
        names = "".join(f'"{mangled}", ' for mangled in found)
        launch = "static int _ZL{0}{1}(void) {{ static int _ZZL{0}{1}E5__tmp; return ++_ZZL{0}{1}E5__tmp; }}\n"
        launches = "".join(launch.format(len(stub), stub) for stub in stubs)
        calls = "".join(f"sum += _ZL{len(stub)}{stub}();" for stub in stubs)
        source.write_text(
            f'{launches} const double other = 0.1; const char* registered[] = {{{names} "no kernel", "not_Z1av"}};'
            f"int _Z9a_symbolv; int launch(void) {{ int sum = 0; {calls} return sum; }}"
        )
        command = ["cc", "-fPIC", optimised, "-c", source, "-o", tmp_path / f"{name}.o"]
        subprocess.run(command, check=True, env={k: v for k, v in os.environ.items() if k != "LD_PRELOAD"})
        if seconds is not None:
            (tmp_path / f"{name}.o.seconds").write_text(f"{seconds}\n")
        return tmp_path

    return add


@pytest.mark.parametrize("optimised", ["-O0", "-Os", "-O3"])
@pytest.mark.parametrize("count", [0, 1, 7])
def test_kernels_are_counted(folder, optimised, count):
    """Kernels are counted whatever the optimisation of host code: CI compiles it quickly."""
    path = folder("unit", kernels=count, optimised=optimised) / "unit.o"
    assert check_units.kernels(path) == count


@pytest.mark.parametrize(("name", "seconds", "kernels", "chips", "found"), [
    ("a.unit", 60, 200, 1, None),
    ("a.unit", 61, 1, 1, "a.unit.o: 61 s of CPU time, at most 60"),
    ("a.unit", 119, 1, 2, None),
    ("a.unit", 121, 1, 2, "a.unit.o: 121 s of CPU time, at most 120"),
    ("a.unit", 1, 201, 4, "a.unit.o: 201 kernels, at most 200"),
    ("a_sm90a", 119, 1, 1, None),
    ("a_sm90a", 121, 1, 4, "a_sm90a.o: 121 s of CPU time, at most 120"),
    ("a_sm80", 119, 1, 1, None),
    ("a.unit", None, 1, 1, None),
])  # fmt: skip
def test_limits(folder, capsys, name, seconds, kernels, chips, found):
    path = folder("small", 0.4)
    folder(name, seconds, kernels)
    failed = check_units.main([str(path / "small.o"), str(path / f"{name}.o"), "--chips", str(chips)])
    out, err = capsys.readouterr()
    assert (failed, err) == ((1, f"{path}/{found}\n") if found else (0, ""))
    assert f"2 units of {path}; {int(seconds is None)} of them from ccache; " in out
    assert f"{kernels} kernels, the most {kernels} ({name})" in out


def test_no_object(tmp_path, capsys):
    for content, reason in ((None, "No such file"), (b"no object", "is no 64-bit little-endian ELF file")):
        if content:
            (tmp_path / "a.o").write_bytes(content)
        assert check_units.main([str(tmp_path / "a.o")]) == 1
        assert reason in capsys.readouterr().err
