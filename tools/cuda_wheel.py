#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packs a CUDA library as a wheel of its own, baracuda-cuda13, which baracuda's loader finds.

usage: cuda_wheel.py LIBRARY --cuda 13 --dist DIR

The wheel has the library, a licence and metadata. Its number is the version of the CUDA toolkit that compiled the
library, which decides the driver that it needs. It depends on the same version of baracuda, since the two must agree on
every prototype, and on cuda-python, which finds the GPU.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent

PACKAGE = '"""The CUDA library of baracuda, for drivers of CUDA {cuda}. `import baracuda` finds it."""\n'

METADATA = """Metadata-Version: 2.4
Name: baracuda-cuda{cuda}
Version: {version}
Summary: The CUDA library of baracuda, for CUDA {cuda}
License-Expression: Apache-2.0
License-File: LICENSE
Requires-Python: >=3.10
Requires-Dist: baracuda=={version}
Requires-Dist: cuda-python>={cuda}

`pip install baracuda-cuda{cuda}` brings baracuda along, which then uses the GPU where one answers.
"""

WHEEL = """Wheel-Version: 1.0
Generator: baracuda/tools/cuda_wheel.py
Root-Is-Purelib: false
Tag: py3-none-{platform}
"""


def pack(library: pathlib.Path, cuda: int, dist: pathlib.Path) -> None:
    version = re.search(r'^__version__ = "(.*)"', (ROOT / "baracuda" / "__init__.py").read_text(), flags=re.M)[1]
    name = f"baracuda_cuda{cuda}"
    about = {"cuda": cuda, "version": version, "platform": re.sub(r"\W", "_", sysconfig.get_platform())}
    with tempfile.TemporaryDirectory() as folder:
        package, info = pathlib.Path(folder) / name, pathlib.Path(folder) / f"{name}-{version}.dist-info"
        package.mkdir()
        (info / "licenses").mkdir(parents=True)
        shutil.copy(library, package / library.name)
        shutil.copy(ROOT / "LICENSE", info / "licenses")
        (package / "__init__.py").write_text(PACKAGE.format(**about))
        (info / "METADATA").write_text(METADATA.format(**about))
        (info / "WHEEL").write_text(WHEEL.format(**about))
        dist.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", "wheel", "pack", folder, "--dest-dir", str(dist)], check=True)


def main() -> int:
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("library", type=pathlib.Path)
    ap.add_argument("--cuda", type=int, required=True, help="first number of the toolkit's version")
    ap.add_argument("--dist", type=pathlib.Path, required=True)
    args = ap.parse_args()
    pack(args.library, args.cuda, args.dist)
    return 0


if __name__ == "__main__":
    sys.exit(main())
