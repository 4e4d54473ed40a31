"""Arrays that span processes: each process has the piece of its devices, and an aval of the whole.

`GlobalArray` is the class of them, so that whatever works on the memory of an Array, which it asks
for by its type, leaves them to programs: those of several processes (dispatch/sharded/partition).
Start reading at `made`, then `localized`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core.avals import ShapedArray
from calque.core.errors import explain
from calque.core.processes import block_shape, rank
from calque.core.sharding import NamedSharding
from calque.core.types import Ndarray, Shape
from calque.dispatch.array import Array, current_device, to_array
from calque.dispatch.sharded.partial_arrays import PartialArray, unreduced_axes
from calque.runtime import Buffer, Device


class GlobalArray(Array):
    """An Array over the devices of several processes."""

    __slots__ = ()

    def _numpy(self) -> Ndarray:
        """The value, where this process's piece is all of it."""
        if any(self.aval.placement.between):
            raise RuntimeError(explain(
                f"an array over devices of several processes has no value here: process {rank()} "
                f"holds a part of {self.aval.plain.short()} over {self.aval.placement!s}.",
                fix="gather it, experimental.multihost_utils.process_allgather(x, tiled=True), or "
                    "read this process's parts, x.addressable_shards."))
        return self._buffer.numpy()

    def __copy__(self) -> Array:
        return GlobalArray(self._buffer.with_shape(self._buffer.shape), self.aval)

    def __deepcopy__(self, memo: Any) -> Array:
        return GlobalArray(self._buffer.copy(), self.aval)

    def __reduce__(self) -> Any:
        return _unpickled, (np.asarray(self._numpy()), self.aval)

    def __dlpack__(self, **options: Any) -> Any:
        self._numpy()
        return super().__dlpack__(**options)

    def __str__(self) -> str:
        return repr(self) if any(self.aval.placement.between) else super().__str__()

    def __repr__(self) -> str:
        if any(self.aval.placement.between):
            return f"Array(shape={self.shape}, dtype={self.dtype.name})"
        return super().__repr__()

    def devices(self) -> set[Device]:
        return self.aval.placement.device_set


GlobalArray.__name__ = GlobalArray.__qualname__ = "Array"


def _unpickled(value: Ndarray, aval: ShapedArray) -> Array:
    return GlobalArray(Buffer.from_numpy(value, current_device()), aval)


def made(buffer: Buffer | None, aval: ShapedArray, pending: Any = None) -> Array:
    """An Array of this process's piece."""
    s = aval.placement
    kind = Array if s is None else GlobalArray if s.spans else (
        PartialArray if unreduced_axes(aval) else Array)
    return kind(buffer, aval, pending)


def elsewhere(avals: Sequence[ShapedArray]) -> bool:
    """Whether the memory of one of the arrays is not that of its value: programs only use it."""
    return any([a.placement is not None and (a.placement.spans or bool(unreduced_axes(a)))
                for a in avals])


def any_spans(avals: Sequence[ShapedArray]) -> bool:
    """Whether one of the arrays spans processes."""
    return any([a.placement is not None and a.placement.spans for a in avals])


def local_shape(shape: Sequence[int], sharding: NamedSharding) -> Shape:
    """The shape of this process's piece."""
    mesh: Any = sharding.mesh
    axes = (*sharding.between, *[()] * (len(shape) - len(sharding.spec)))
    return block_shape(shape, axes, mesh.grid)


def local_index(shape: Sequence[int], sharding: NamedSharding) -> tuple[slice, ...]:
    """Where this process's piece lies in the whole."""
    grid = sharding.mesh.grid  # type: ignore[union-attr]
    assert grid is not None
    place = dict(zip(grid.names, grid.place(rank())))
    axes = (*sharding.between, *[()] * (len(shape) - len(sharding.spec)))
    found = []
    for size, mine, names in zip(shape, local_shape(shape, sharding), axes):
        k = 0
        for n in names:
            k = k * grid.count(n) + place[n]
        found.append(slice(k * mine, (k + 1) * mine) if names else slice(0, size))
    return tuple(found)


def piece_of(x: Any, sharding: NamedSharding) -> Array:
    """A value that is the same in all processes as an array over several."""
    a = to_array(x)
    value = a._numpy()
    index = local_index(a.shape, sharding)
    buffer = Buffer.from_numpy(np.array(value[index], order="C"), a._buffer.device)
    return GlobalArray(buffer, a.aval.plain.marked(sharding))


__all__ = ["GlobalArray", "any_spans", "elsewhere", "local_index", "local_shape", "made",
           "piece_of"]
