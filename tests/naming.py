"""Names of parametrised cases."""

import re


def describe(value: object) -> str:
    """repr without addresses, which differ between the processes of a parallel run."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))
