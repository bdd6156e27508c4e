#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the cffi declarations of include/baracuda_kernels.h as a Python module (out-of-line ABI mode: no compiler).

usage: gen_ffi.py OUTFILE

OUTFILE is not rewritten if it would not change.
"""

import argparse
import contextlib
import pathlib
import re
import sys
import tempfile

import cffi

HEADER = pathlib.Path(__file__).resolve().parent.parent / "include" / "baracuda_kernels.h"


def declarations(header: str) -> str:
    """Declarations for cffi: the enumeration, the prototypes, and integer macros; no C++, no attributes."""
    macros = re.findall(r"^#define (\w+) (\d+)$", header, flags=re.MULTILINE)
    text = re.sub(r"^#ifdef __cplusplus$.*?^#endif$", "", header, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    text = re.sub(r"^#.*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"^BARACUDA_API ", "", text, flags=re.MULTILINE)
    return "".join(f"#define {name} {value}\n" for name, value in macros) + text


def module_text(header: str) -> str:
    ffi = cffi.FFI()
    ffi.set_source("baracuda._ffi", None)
    ffi.cdef(declarations(header))
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "_ffi.py"
        with contextlib.redirect_stdout(None):  # it announces the file
            ffi.emit_python_code(str(path))
        return path.read_text()


def main() -> int:
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("outfile", type=pathlib.Path)
    outfile = ap.parse_args().outfile
    text = module_text(HEADER.read_text())
    if not outfile.exists() or outfile.read_text() != text:
        outfile.parent.mkdir(parents=True, exist_ok=True)
        outfile.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
