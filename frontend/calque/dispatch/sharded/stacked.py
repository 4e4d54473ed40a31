"""Arrays with a leading axis of devices: device_put_sharded and device_put_replicated."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import dtype_of
from calque.core.errors import explain
from calque.core.mesh import Mesh
from calque.core.sharding import NamedSharding, PartitionSpec
from calque.dispatch import transfers
from calque.dispatch.array import Array, from_numpy
from calque.dispatch.sharded.shards import labelled
from calque.primitives.random import impl_of, random_unwrap_p, random_wrap_p
from calque.runtime import Device
from calque.trees import util as tree_util

__all__ = ["device_put_replicated", "device_put_sharded"]


def _over(devices_: Sequence[Device]) -> NamedSharding:
    name = "_device_put_sharded"
    return NamedSharding(Mesh(np.array(devices_, object), (name,)), PartitionSpec(name))


def device_put_sharded(shards: Sequence[Any], devices: Sequence[Device]) -> Any:
    """Trees of arrays, one for each device, as one tree of arrays with a leading axis of devices.

    Args:
      shards: a tree for each device.
      devices: the Devices.

    Returns:
      A tree of Arrays of shape (number of devices, ...).

    Raises:
      ValueError: there are more or fewer trees than devices, or shapes differ.
      TypeError: shards is no sequence.

    Example:
      >>> import calque, numpy as np
      >>> calque.device_put_sharded([np.ones(2, np.float32)], calque.devices()[:1])
      Array([[1., 1.]], dtype=float32)
    """
    if not isinstance(shards, Sequence):
        raise TypeError(explain(
            f"device_put_sharded `shards` input must be a sequence; got {type(shards)}.",
            fix="pass a list with one tree for each device."))
    if len(shards) != len(devices):
        raise ValueError(explain(
            f"len(shards) = {len(shards)} must equal len(devices) = {len(devices)}.",
            fix="pass one tree for each device."))
    where = _over(devices)

    def stacked(*parts: Any) -> Any:
        if any(dtypes.is_key(kind := dtype_of(p)) for p in parts):  # by their words
            words = [random_unwrap_p.bind(p) for p in parts]
            return random_wrap_p.bind(stacked(*words), **impl_of(kind))
        values = [np.asarray(p, dtype_of(p)) for p in parts]
        if len({v.shape for v in values}) > 1:
            raise ValueError(explain(
                "the shards passed to device_put_sharded must have consistent shapes, got "
                f"{[v.shape for v in values]}.", fix="pad them to one shape."))
        return labelled(from_numpy(np.stack(values)), where)

    def put(*parts: Any) -> Any:  # what is on devices already is put together, not moved
        there = all(isinstance(p, Array) for p in parts)
        return transfers.explicit(lambda: stacked(*parts), "ours" if there else "asked for")

    return tree_util.tree_map(put, *shards)


def device_put_replicated(x: Any, devices: Sequence[Device]) -> Any:
    """A tree of arrays repeated along a leading axis of devices.

    Args:
      x: tree of arrays.
      devices: the Devices.

    Returns:
      A tree of Arrays of shape (number of devices, ...).

    Raises:
      ValueError: there are no devices.

    Example:
      >>> import calque, numpy as np
      >>> calque.device_put_replicated(np.ones(2, np.float32), calque.devices()[:1])
      Array([[1., 1.]], dtype=float32)
    """
    if not isinstance(devices, Sequence) or not devices:
        raise ValueError(explain(
            "`devices` argument to `device_put_replicated must be a non-empty sequence.",
            fix="pass calque.devices()."))
    return device_put_sharded([x] * len(devices), devices)
