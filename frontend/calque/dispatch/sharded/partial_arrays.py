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
from calque.dispatch.array import Array
from calque.runtime import Buffer, Device


def unreduced_axes(aval: ShapedArray) -> tuple[Any, ...]:
    """The mesh axes over which devices hold summands, in the mesh's order; most often none."""
    s = aval.sharding
    return s.unreduced if isinstance(s, NamedSharding) and s.spec.unreduced else ()


def any_partial(avals: Sequence[ShapedArray]) -> bool:
    """Whether one of the arrays is of summands."""
    return any([a.sharding is not None and bool(unreduced_axes(a)) for a in avals])


def memory_shape(aval: ShapedArray) -> Shape:
    """The shape of all summands together."""
    axes = unreduced_axes(aval)
    return (*[aval.sharding.mesh.shape[n] for n in axes], *aval.shape)


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
            f"array with a Sharding over {self.aval.sharding.num_devices} devices was provided.",
            fix="pass x.addressable_shards[0].data."))

    def __str__(self) -> str:
        return repr(self)

    def __repr__(self) -> str:
        return (f"Array(shape={self.shape}, dtype={self.dtype.name}, "
                f"sharding={self.aval.sharding!r})")

    def devices(self) -> set[Device]:
        return self.aval.sharding.device_set


PartialArray.__name__ = PartialArray.__qualname__ = "Array"


def _no_value(x: Array) -> NoReturn:
    raise NotImplementedError(explain(
        f"device_indices_map doesn't work with unreduced: the devices hold summands of {x.aval}, "
        "whose sum is not computed.",
        fix="reduce it, calque.sharding.reshard(x, P()), or read x.addressable_shards."))


def summand(x: Array, device: Device, index: tuple[slice, ...]) -> Buffer:
    """What one device holds of an array of summands."""
    sharding = x.aval.sharding
    place = dict(zip(sharding.mesh.axis_names, np.argwhere(
        np.asarray(sharding.mesh.devices, object) == device)[0]))
    at = tuple(int(place[n]) for n in sharding.unreduced)
    return Buffer.from_numpy(np.array(x._buffer.numpy()[(*at, *index)], order="C"),
                             x._buffer.device)


__all__ = ["PartialArray", "any_partial", "memory_shape", "summand", "unreduced_axes"]
