"""Kinds of memory: the device's, and its host's, which on a CPU are one."""
from __future__ import annotations

import enum


class Space(enum.Enum):
    """The device's memory or its host's, whichever device that is.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> calque.device_put(jnp.ones(2), calque.memory.Space.Host).sharding.memory_kind
      'pinned_host'
    """

    Device = enum.auto()
    Host = enum.auto()
    Any = enum.auto()

    @property
    def kind(self) -> str:
        """The name of the memory kind in shardings."""
        return "pinned_host" if self is Space.Host else "device"

    def __repr__(self) -> str:
        return f"MemorySpace.{self.name}"


__all__ = ["Space"]
