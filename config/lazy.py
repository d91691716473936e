"""Properties that are computed at the first look and kept by their object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class lazy(Generic[T]):
    """Like `functools.cached_property`, but without a lock.

    Until Python 3.12 that one held one lock for a property of all objects: of fifty threads that each parsed a page of
    their own, one did so at a time. What is computed twice because two threads look at one object at once must not matter.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute, self._name = compute, compute.__name__
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> T: ...
    def __get__(self, instance: object, owner: type | None = None) -> Self | T:
        if instance is None:
            return self
        # found there from now on, without coming here
        value = instance.__dict__[self._name] = self._compute(instance)
        return value
