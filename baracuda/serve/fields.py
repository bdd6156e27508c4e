# SPDX-License-Identifier: Apache-2.0
"""Fields of a JSON object, taken one by one with their types checked; what is left is unknown."""

from __future__ import annotations

from typing import Any

from baracuda.serve.errors import RequestError


class Fields:
    """The fields of a request's body. null stands for an absent field."""

    def __init__(self, body: Any) -> None:
        if not isinstance(body, dict):
            raise RequestError(f"the body is {_kind(body)}, must be an object")
        self._left = {name: value for name, value in body.items() if value is not None}

    def take(self, name: str) -> Any:
        return self._left.pop(name, None)

    def string(self, name: str, default: str | None = None) -> str | None:
        return self._taken(name, default, str, "a string")  # type: ignore[no-any-return]

    def flag(self, name: str) -> bool:
        return bool(self._taken(name, False, bool, "true or false"))

    def integer(self, name: str, default: int | None = None) -> int | None:
        return self._taken(name, default, int, "an integer")  # type: ignore[no-any-return]

    def real(self, name: str, default: float) -> float:
        return float(self._taken(name, default, (int, float), "a number"))

    def mapping(self, name: str) -> dict[str, Any]:
        return dict(self._taken(name, {}, dict, "an object"))

    def refuse(self, name: str, *allowed: Any) -> None:
        """A field that is served with the values `allowed` alone."""
        value = self._left.pop(name, None)
        if value is not None and value not in allowed:
            raise RequestError(f"{name} is {value!r}, which is not served", name)

    def finish(self, ignored: frozenset[str]) -> None:
        """RequestError for fields that nobody has taken, but for those without effect on the answer."""
        unknown = sorted(set(self._left) - ignored)
        if unknown:
            raise RequestError(f"{unknown[0]} is no field of this request", unknown[0])

    def _taken(self, name: str, default: Any, kind: Any, what: str) -> Any:
        value = self._left.pop(name, default)
        if value is default:
            return default
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise RequestError(f"{name} is {_kind(value)}, must be {what}", name)
        return value


def _kind(value: Any) -> str:
    if isinstance(value, (bool, int, float)):
        return repr(value)
    names: dict[type, str] = {str: "a string", list: "an array", dict: "an object"}
    return names.get(type(value), "null")
