# SPDX-License-Identifier: Apache-2.0
"""Errors of a model's file or of a request."""

from __future__ import annotations


class ModelFileError(ValueError):
    """A file that is damaged, or a model that is not served; the text names what."""


class RequestError(ValueError):
    """A request that cannot be served: `parameter` is the field that is wrong, where it is one."""

    def __init__(self, message: str, parameter: str | None = None) -> None:
        super().__init__(message)
        self.parameter = parameter
