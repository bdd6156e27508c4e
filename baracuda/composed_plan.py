# SPDX-License-Identifier: Apache-2.0
"""The base of plans that are written by hand, over other plans or over several functions of C."""

from __future__ import annotations

from typing import Any, ClassVar

from baracuda._library.loader import Library, default_library, load
from baracuda.errors import InvalidProblemError, naming
from baracuda.guarantee import PlanPreference
from baracuda.stream import stream_handle


class ComposedPlan:
    """Selection, pickling and repr. A subclass has a descriptor_type and a name, by which errors call it, and refuses
    what it does not serve in `__init__`.
    """

    __slots__ = ("descriptor", "library", "preference")

    descriptor_type: ClassVar[type[Any]]
    name: ClassVar[str]

    def __init__(self, descriptor: Any, preference: PlanPreference, library: Library) -> None:
        self.descriptor, self.preference, self.library = descriptor, preference, library

    @classmethod
    def select(
        cls, stream: object, descriptor: Any, preference: PlanPreference | None = None, *,
        library: Library | None = None, backend: str | None = None,
    ) -> Any:  # fmt: skip
        """Selects as Plan.select does."""
        with naming(cls.__name__):
            stream_handle(stream)
            if type(descriptor) is not cls.descriptor_type:
                wanted = cls.descriptor_type.__name__
                raise InvalidProblemError(f"descriptor is of type {type(descriptor).__name__}, must be {wanted}")
        with naming(cls.name):
            if library is None:
                library = default_library() if backend is None else load(backend=backend)
            return cls(descriptor.validated(), preference or PlanPreference(), library)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.descriptor, self.preference, self.library)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.descriptor} on {self.library.backend}>"
