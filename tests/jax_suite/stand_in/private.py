"""Objects in the place of what is private to JAX: using one ends the test, having one does not."""
from __future__ import annotations

from typing import Any, NoReturn


class PrivateUse(Exception):
    """A test used what is private to JAX's implementation, or (MISSING ...) a name we lack."""


class Private:
    """Any name of a private module; its attributes are Private, too."""

    def __init__(self, name: str) -> None:
        self.__dict__["_private_name"] = name

    def __getattr__(self, name: str) -> Any:
        if name in ("__name__", "__qualname__"):
            return self._private_name.rpartition(".")[2]
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return Private(f"{self._private_name}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        if self._private_name.endswith((
                ".cache_clear", ".clear_all_caches", ".add_type", ".register_hitype")):
            return
        raise PrivateUse(self._private_name)

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        name = self._private_name

        class Base:
            def __init__(self, *args: Any, **kwargs: Any) -> None:
                raise PrivateUse(name)
        return (Base,)

    def _used(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise PrivateUse(self._private_name)

    __instancecheck__ = __subclasscheck__ = __getitem__ = __enter__ = __len__ = __bool__ = _used
    __add__ = __sub__ = __lt__ = __gt__ = __ge__ = __le__ = __contains__ = __int__ = _used
    __float__ = _used

    def __exit__(self, *args: Any) -> bool:
        return False

    def __repr__(self) -> str:
        return f"<private {self._private_name}>"

    def __or__(self, other: Any) -> Any:
        return self

    __ror__ = __or__
