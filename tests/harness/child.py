# SPDX-License-Identifier: Apache-2.0
"""The environment of a Python process that a test starts."""

import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def child_environment(**variables: str) -> dict[str, str]:
    """This process's environment, with only the checkout and its tests on the Python path."""
    paths = [str(ROOT), str(ROOT / "tests"), *filter(None, [os.environ.get("PYTHONPATH")])]
    given = os.environ | {"PYTHONPATH": os.pathsep.join(paths)} | variables
    if "BARACUDA_LIB" in variables and "BARACUDA_BACKEND" not in variables:
        given.pop("BARACUDA_BACKEND", None)  # the path chooses the backend
    return given
