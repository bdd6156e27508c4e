# SPDX-License-Identifier: Apache-2.0
import pytest

from .device import Device


@pytest.fixture
def device(library):
    made = Device(library)
    yield made
    made.check()
