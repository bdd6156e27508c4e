# SPDX-License-Identifier: Apache-2.0
"""Compiles the handler by which JAX calls the library, into build/jax or FOLDER, and prints its path.

usage: python -m baracuda.jax [FOLDER]
"""

import pathlib
import sys

from baracuda.jax import _handler

if __name__ == "__main__":
    print(_handler.compiled(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else _handler.BUILT))
