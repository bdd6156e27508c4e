"""Names of parametrised cases, and of what a test does in a loop."""

import contextlib
import re


def describe(value: object) -> str:
    """repr without addresses, which differ between the processes of a parallel run."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


class Tries:
    """Collects the failures of a loop, each with a label, so that one does not hide the others:

    with Tries() as tries:
        for ...:
            with tries(label):
                assert ...
    """

    MOST = 12  # that are shown

    def __init__(self):
        self.failures: list[str] = []

    @contextlib.contextmanager
    def __call__(self, label: object):
        try:
            yield
        except AssertionError as error:
            self.failures.append(f"[{label}] {error}")

    def __enter__(self) -> "Tries":
        return self

    def __exit__(self, kind, _error, _traceback) -> None:
        if kind is None and self.failures:
            shown = self.failures[: self.MOST]
            more = len(self.failures) - len(shown)
            raise AssertionError("\n".join(shown) + (f"\nand {more} more" if more else ""))
