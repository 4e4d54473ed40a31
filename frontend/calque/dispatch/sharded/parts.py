"""The pieces of an array that its devices have: Shard.  Start reading at `shards_of`."""
from __future__ import annotations

import functools
from typing import Any

import numpy as np

from calque.core.sharding import Sharding, SingleDeviceSharding
from calque.core.types import Shape
from calque.dispatch.array import Array
from calque.dispatch.laid import inverse, laid, order_in
from calque.dispatch.sharded.partial_arrays import summand, unreduced_axes
from calque.dispatch.sharded.spanning import local_index
from calque.dispatch.strings import StringArray, part
from calque.runtime import Buffer, Device

__all__ = ["Shard", "places", "shards_of"]


class Shard:
    """One device's part of an array.

    Attributes:
      device: the Device.
      index: the slices of the array that it has.
      replica_id: which of the equal parts it is.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.arange(2.0).addressable_shards
      [Shard(device=CpuDevice(id=0), index=(slice(None, None, None),), replica_id=0, data=[0. 1.])]
    """

    __slots__ = ("device", "index", "replica_id", "_whole")

    def __init__(self, device: Device, index: tuple[slice, ...], replica_id: int, whole: Array
                 ) -> None:
        self.device, self.index, self.replica_id = device, index, replica_id
        self._whole = whole

    @property
    def data(self) -> Any:
        """The part as an Array on the device; None where that is another process's.

        Example:
          >>> import calque.numpy as jnp
          >>> jnp.arange(2.0).addressable_shards[0].data
          Array([0., 1.], dtype=float32)
        """
        x = self._whole
        if not self.device.is_local:
            return None
        if type(x) is StringArray:
            return part(x, self.index, self.device)
        if unreduced_axes(x.aval):
            held = summand(x, self.device, self.index)
            return Array(held, x.aval.plain.update(shape=held.shape).marked(
                SingleDeviceSharding(self.device)))
        whole = all(s == slice(None) for s in self.index)
        if whole and x.aval.placement is None:
            return x
        index = self.index
        sharding: Any = x.sharding
        if sharding.spans:
            index = tuple(s if s == slice(None) else slice(s.start - o.start, s.stop - o.start)
                          for s, o in zip(self.index, local_index(x.shape, sharding)))
        memory, order = x._memory, order_in(x)
        lies = index if order is None else tuple(index[i] for i in order)
        held = memory.with_shape(memory.shape) if whole else Buffer.from_numpy(
            np.ascontiguousarray(memory.numpy()[lies]), memory.device)
        shape = held.shape[:x.ndim]
        if order is not None:
            shape = tuple(shape[i] for i in inverse(order))
        return laid(held, x.aval.plain.update(shape=shape).marked(
            SingleDeviceSharding(self.device)), order)

    def __repr__(self) -> str:
        return (f"Shard(device={self.device!r}, index={self.index}, replica_id={self.replica_id}, "
                f"data={self.data})")


def shards_of(x: Array, everywhere: bool = False) -> list[Shard]:
    """The parts of an array in the order of the mesh's devices: those that this process has, or
    all."""
    return [Shard(device, index, replica, x)
            for device, index, replica in places(x.sharding, x.shape, everywhere)]


@functools.lru_cache(1024)
def places(sharding: Sharding, shape: Shape, everywhere: bool = False
            ) -> list[tuple[Device, tuple[slice, ...], int]]:
    """The device, the index and the replica of each part."""
    seen: dict[Any, int] = {}
    found = []
    for device, index in sharding.devices_indices_map(shape).items():
        key = tuple((s.start, s.stop) for s in index)
        if everywhere or device.is_local:
            found.append((device, index, seen.get(key, 0)))
        seen[key] = seen.get(key, 0) + 1
    return found
