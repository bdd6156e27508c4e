#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the Rust crate baracuda-sys, declarations generated from include/baracuda_kernels.h.

usage: gen_rust.py DIR

DIR/baracuda-sys is a crate without dependencies. Its build script looks for the library in BARACUDA_LIB_DIR, in the
lib folder of `make install`, which installs the crate as share/baracuda/rust, and in the build folders of `make`. A
package that depends on the crate finds the library's directory in DEP_BARACUDA_KERNELS_LIB_DIR.
"""

import argparse
import pathlib
import re
import sys

from abi_table import ROOT
from gen_abi import HEADER, write_if_changed

NOTICE = "Written by tools/gen_rust.py: do not edit."
TYPES = {"int32_t": "i32", "int64_t": "i64", "size_t": "usize", "float": "f32", "double": "f64", "void": "c_void"}
TYPES |= {f"{sign}int{bits}_t": f"{sign or 'i'}{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
TYPES["char"] = "c_char"

CARGO = """# {notice}
[package]
name = "baracuda-sys"
version = "{version}"
edition = "2021"
license = "Apache-2.0"
description = "Declarations of libbaracuda_kernels: machine-learning kernels behind a C ABI"
links = "baracuda_kernels"
build = "build.rs"
"""

BUILD = """// {notice}
use std::{{env, path::PathBuf}};

fn main() {{
    println!("cargo:rerun-if-env-changed=BARACUDA_LIB_DIR");
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR").unwrap());
    let places = ["../../../../lib", "../../cpu", "../../cuda"].map(|place| here.join(place));
    let found = places.iter().find(|dir| dir.join("libbaracuda_kernels.so").exists());
    let given = env::var("BARACUDA_LIB_DIR").map(PathBuf::from);
    let dir = given.ok().or_else(|| found?.canonicalize().ok());
    if let Some(dir) = dir {{
        println!("cargo:rustc-link-search=native={{}}", dir.display());
        println!("cargo:lib_dir={{}}", dir.display());
    }}
}}
"""

HEAD = """#![allow(non_camel_case_types, clippy::too_many_arguments)]

use std::os::raw::{c_char, c_void};
"""


def rust_type(c: str) -> str:
    """A C type of the header: a scalar, a pointer to one, or an array of pointers."""
    const, name, pointer, array = re.fullmatch(r"(const )?(\w+)(\*?)( const\*|\*)?", c.strip()).groups()
    one = f"*{'const' if const else 'mut'} {TYPES[name]}" if pointer else TYPES[name]
    return f"*{'const' if 'const' in array else 'mut'} {one}" if array else one


def function(result: str, name: str, params: str) -> str:
    given = [] if params == "void" else [p.rpartition(" ") for p in params.split(", ")]
    arguments = ", ".join(f"{'r#type' if p == 'type' else p}: {rust_type(c)}" for c, _, p in given)
    return f"    pub fn {name}({arguments}) -> {rust_type(result)};"


def library_text(header: str) -> str:
    """Macros and enumerators as constants, prototypes as foreign functions, under the comments of the header."""
    comment, _, text = header.partition("*/\n")
    lines = [line.replace("/*", "//!").replace(" *", "//!", 1).rstrip() for line in comment.splitlines()]
    constants = [
        f"pub const {name}: i32 = {value};"
        for name, value in re.findall(r"^(?:#define|   ) (BARACUDA_\w+)(?: =)? (\d+)", text, flags=re.M)
    ]
    body = text[text.index("/* Library.") :].partition("#ifdef __cplusplus")[0]
    body = re.sub(r"^BARACUDA_API (.*?)\b(\w+)\((.*)\);$", lambda m: function(*m.groups()), body, flags=re.M)
    foreign = ['#[link(name = "baracuda_kernels")]', 'extern "C" {', body.rstrip(), "}"]
    return "\n".join([f"// {NOTICE}", *lines[1:], "", HEAD, *constants, "", *foreign, ""])


def files(header: str, version: str) -> dict[str, str]:
    return {
        "Cargo.toml": CARGO.format(notice=NOTICE, version=version),
        "build.rs": BUILD.format(notice=NOTICE),
        "src/lib.rs": library_text(header),
    }


def main() -> int:
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("dir", type=pathlib.Path)
    folder = ap.parse_args().dir / "baracuda-sys"
    version = re.search(r'^__version__ = "(.*)"', (ROOT / "baracuda" / "__init__.py").read_text(), flags=re.M)[1]
    for name, text in files(HEADER.read_text(), version).items():
        write_if_changed(folder / name, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
