"""The environment of a Python process that a test starts."""

import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def child_environment(**variables: str) -> dict[str, str]:
    """This process's, with the checkout and its tests first on the path: packages may come from there alone."""
    paths = [str(ROOT), str(ROOT / "tests"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)} | variables
