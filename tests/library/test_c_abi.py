# SPDX-License-Identifier: Apache-2.0
"""A C and a C++ program, compiled without a warning against the header and run against the CPU library."""

import pytest

from harness import ROOT
from harness.compilers import C_SOURCES, PROGRAMS, compile_and_run, compile_strictly, compiler


@pytest.mark.parametrize("language", PROGRAMS)
def test_program(language, cpu_library, tmp_path):
    assert compile_and_run(language, C_SOURCES / PROGRAMS[language][3], cpu_library, tmp_path) == "ok\n"


@pytest.mark.parametrize(("language", "standard"), [("c", "c99"), ("c", "c17"), ("cpp", "c++11"), ("cpp", "c++20")])
def test_header_alone(language, standard, tmp_path):
    """The header includes what it needs, may be included twice, and compiles under older and newer standards."""
    variable, default, _, _ = PROGRAMS[language]
    source = tmp_path / f"alone.{language}"
    source.write_text(2 * '#include "baracuda_kernels.h"\n' + "int alone(void);\nint alone(void) { return 0; }\n")
    compile_strictly(
        compiler(variable, default),
        f"-std={standard}",
        f"-I{ROOT / 'include'}",
        "-c",
        source,
        "-o",
        tmp_path / "alone.o",
    )
