# SPDX-License-Identifier: Apache-2.0
"""Every status has an exception, and every exception carries what its class promises."""

import pathlib
import pickle
import re

import pytest

import baracuda as bk
from baracuda.errors import STATUS_ERRORS, raise_for_status

HEADER = pathlib.Path(__file__).parents[2] / "include" / "baracuda_kernels.h"
BUILTIN = {
    bk.MisalignedOperandError: ValueError,
    bk.InvalidProblemError: ValueError,
    bk.UnsupportedError: NotImplementedError,
    bk.WorkspaceTooSmallError: ValueError,
    bk.InternalError: RuntimeError,
    bk.BufferTooSmallError: ValueError,
    bk.UnknownStatusError: RuntimeError,
    bk.LibraryNotFoundError: ImportError,
}


class FakeLibrary:
    def __init__(self, text=""):
        self.text = text

    def last_error(self):
        return self.text

    def status_name(self, status):
        return f"name of {status}"


def header_statuses():
    return {name: int(value) for name, value in re.findall(r"BARACUDA_STATUS_(\w+) = (\d+)", HEADER.read_text())}


def test_python_statuses_are_the_headers():
    assert {status.name: status.value for status in bk.Status} == header_statuses()


def test_table_is_total():
    assert set(STATUS_ERRORS) == set(header_statuses().values()) - {0}
    for status, error in STATUS_ERRORS.items():
        assert error.default_status == status


def test_library_names_every_status(library):
    names = {library.status_name(status) for status in header_statuses().values()}
    assert len(names) == len(header_statuses())
    assert library.status_name(99) == "unknown status"


@pytest.mark.parametrize("error", BUILTIN, ids=lambda error: error.__name__)
def test_classes_derive_from_a_builtin(error):
    assert issubclass(error, bk.BaracudaError)
    assert issubclass(error, BUILTIN[error])


@pytest.mark.parametrize(("status", "error"), STATUS_ERRORS.items())
def test_status_becomes_exception(status, error):
    with pytest.raises(error, match="op: x is 3") as caught:
        raise_for_status(FakeLibrary("op: x is 3"), "symbol", status)
    assert (caught.value.status, caught.value.symbol, caught.value.text) == (status, "symbol", "op: x is 3")
    with pytest.raises(error, match=f"symbol: name of {status}"):
        raise_for_status(FakeLibrary(), "symbol", status)


def test_ok_and_unknown_status():
    raise_for_status(FakeLibrary(), "symbol", 0)
    for status in (6, -1, 700):
        with pytest.raises(bk.UnknownStatusError, match=f"symbol returned status {status}") as caught:
            raise_for_status(FakeLibrary("why"), "symbol", status)
        assert caught.value.status == status


@pytest.mark.parametrize(
    "error",
    [
        bk.InvalidProblemError("text", symbol="s"),
        bk.UnsupportedError("text", symbol="s"),
        bk.MisalignedOperandError("text", symbol="s"),
        bk.InternalError("text", symbol="s"),
        bk.UnknownStatusError("text", symbol="s", status=77),
        bk.WorkspaceTooSmallError("text", needed=8, got=4, symbol="s"),
        bk.BufferTooSmallError("text", needed=8, got=4, symbol="s"),
        bk.LibraryNotFoundError("text", (("a", "b"),)),
    ],
    ids=lambda error: type(error).__name__,
)
def test_pickle(error):
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert copy.__dict__ == error.__dict__
    assert str(copy) == str(error)


def test_c_failure_carries_the_librarys_text(library):
    function = library.function("alibi_f32", "can_implement")
    null = library.ffi.NULL
    with pytest.raises(bk.InvalidProblemError, match="heads is -3") as caught:
        library.check("baracuda_kernels_alibi_f32_can_implement", function(1, -3, 1, 1, null, null, null))
    assert caught.value.text == library.last_error()
    assert caught.value.symbol == "baracuda_kernels_alibi_f32_can_implement"
