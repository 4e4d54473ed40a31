"""Arrays of unreduced sharding: each device holds a summand of the value over some mesh axes.

The memory of one has a leading dimension for each of these axes, in the mesh's order, behind an
aval of the sum's shape.  `PartialArray` is a class of its own, as arrays that span processes are
(spanning.GlobalArray): what asks for `type(x) is Array` leaves it to programs
(partial_programs.py).  Start reading at `memory_shape`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from calque.core.avals import ShapedArray
from calque.core.errors import explain
from calque.core.sharding import NamedSharding
from calque.core.types import Ndarray, Shape
from calque.dispatch.array import Array, current_device
from calque.runtime import Buffer, Device


def unreduced_axes(aval: ShapedArray) -> tuple[Any, ...]:
    """The mesh axes over which devices hold summands, in the mesh's order; most often none."""
    s = aval.placement
    return s.unreduced if isinstance(s, NamedSharding) and s.spec.unreduced else ()


def any_partial(avals: Sequence[ShapedArray]) -> bool:
    """Whether one of the arrays is of summands."""
    return any([a.placement is not None and bool(unreduced_axes(a)) for a in avals])


def memory_shape(aval: ShapedArray) -> Shape:
    """The shape of all summands together."""
    axes = unreduced_axes(aval)
    return (*[aval.placement.mesh.shape[n] for n in axes], *aval.shape)


class PartialArray(Array):
    """An Array whose devices hold summands of it."""

    __slots__ = ()

    def _numpy(self) -> Ndarray:
        return _no_value(self)

    def __copy__(self) -> Array:
        return PartialArray(self._buffer.with_shape(self._buffer.shape), self.aval)

    def __deepcopy__(self, memo: Any) -> Array:
        return PartialArray(self._buffer.copy(), self.aval)

    def __reduce__(self) -> Any:
        return _no_value(self)

    def __dlpack__(self, **options: Any) -> Any:
        raise BufferError(explain(
            "to_dlpack can only pack a dlpack tensor from an array on a singular device, but an "
            f"array with a Sharding over {self.aval.placement.num_devices} devices was provided.",
            fix="pass x.addressable_shards[0].data."))

    def __str__(self) -> str:
        return repr(self)

    def __repr__(self) -> str:
        return (f"Array(shape={self.shape}, dtype={self.dtype.name}, "
                f"sharding={self.aval.placement!r})")

    def devices(self) -> set[Device]:
        return self.aval.placement.device_set


PartialArray.__name__ = PartialArray.__qualname__ = "Array"


def _no_value(x: Array) -> NoReturn:
    raise NotImplementedError(explain(
        f"device_indices_map doesn't work with unreduced: the devices hold summands of {x.aval}, "
        "whose sum is not computed.",
        fix="reduce it, calque.sharding.reshard(x, P()), or read x.addressable_shards."))


def of_summands(shape: Sequence[int], sharding: NamedSharding, dtype: Any,
                pieces: dict[Any, Any]) -> Array:
    """An array of what each device holds."""
    aval = ShapedArray(tuple(shape), dtype).marked(sharding)
    every = np.zeros(memory_shape(aval), dtype)
    for device, index in sharding.devices_indices_map(tuple(shape)).items():
        every[_place(sharding, device) + index] = pieces[device]
    return PartialArray(Buffer.from_numpy(every, current_device()), aval)


def refuse_index(what: str, sharding: Any) -> None:
    """NotImplementedError where parts that indices name would not be what devices hold."""
    if isinstance(sharding, NamedSharding) and sharding.unreduced:
        raise NotImplementedError(explain(
            f"{what}: device_indices_map doesn't work with unreduced: {sharding}.",
            fix="make_array_from_single_device_arrays takes what each device holds."))


def _place(sharding: NamedSharding, device: Device) -> tuple[Any, ...]:
    """Where a device's summand lies in memory."""
    mesh: Any = sharding.mesh
    place = dict(zip(mesh.axis_names, np.argwhere(mesh.devices == device)[0]))
    return tuple(int(place[n]) for n in sharding.unreduced)


def summand(x: Array, device: Device, index: tuple[slice, ...]) -> Buffer:
    """What one device holds of an array of summands."""
    part = x._buffer.numpy()[_place(x.aval.placement, device) + index]
    return Buffer.from_numpy(np.ascontiguousarray(part).reshape(part.shape), x._buffer.device)


__all__ = ["PartialArray", "any_partial", "memory_shape", "of_summands", "refuse_index", "summand",
           "unreduced_axes"]
