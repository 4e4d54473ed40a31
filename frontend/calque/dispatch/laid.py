"""Arrays that lie in memory in another order than row-major: `device_put(x, Format(layout, ...))`.

The memory of one is that of a transposition of the array, row-major (core/formats.order_of says by
which permutation).  `LaidArray` is a class of its own, as arrays that span processes are: what asks
for `type(x) is Array` leaves it alone, `to_array` and the buffer that anybody asks it for are
row-major copies, and programs of `jit` read the memory as it lies (orders.py).  Start reading at
`LaidArray`, then `held_in`.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from calque.core.avals import ShapedArray, aval_of
from calque.core.errors import explain
from calque.core.formats import AUTO, Format, LaidOut, Order, format_of, order_of
from calque.dispatch.array import Array, to_array
from calque.dispatch.tracing import ShapeDtypeStruct
from calque.runtime import Buffer

__all__ = ["LaidArray", "axes_of", "copied", "held_in", "inverse", "laid", "laid_type", "memory_of",
           "of_memory", "order_in", "relaid", "turned"]


class LaidArray(Array):
    """An Array whose memory is in another order."""

    __slots__ = ("order", "_held")
    order: Order

    def __init__(self, held: Buffer, aval: ShapedArray, order: Order) -> None:
        super().__init__(None, aval)
        self._held, self.order = held, order

    @property
    def _memory(self) -> Buffer:
        return self._held

    @property
    def _buffer(self) -> Buffer:
        """A row-major copy."""
        held = self._held
        if held.is_deleted():
            raise RuntimeError(explain(f"Array has been deleted: it was {self.aval}."))
        axes = axes_of(inverse(self.order), held.shape)
        return Buffer.from_numpy(np.ascontiguousarray(held.numpy().transpose(axes)), held.device)

    def _row_major(self) -> Array:
        return Array(self._buffer, self.aval)

    @property
    def format(self) -> Format:
        return format_of(self.ndim, self.sharding, self.order)

    def unsafe_buffer_pointer(self) -> int:
        return int(self._held.numpy().ctypes.data)  # (the buffer that is asked for is a copy)

    def __dlpack__(self, **options: Any) -> Any:
        if options.get("copy") is False:
            raise BufferError(explain(
                f"an array that lies in the order {self.order} is given away as a copy.",
                fix="leave copy=False out."))
        return super().__dlpack__(**options)


LaidArray.__name__ = LaidArray.__qualname__ = "Array"


def inverse(order: Order) -> Order:
    """The permutation that undoes one."""
    return tuple(map(int, np.argsort(order)))


def axes_of(order: Order, shape: Any) -> Order:
    """A permutation of an array's axes as one of its memory's, whose words of keys come last."""
    return (*order, *range(len(order), len(shape)))


def turned(aval: ShapedArray, order: Order) -> ShapedArray:
    """What lies in memory, of an array that lies in an order."""
    return ShapedArray([aval.shape[i] for i in order], aval.dtype, aval.weak_type)


def laid(held: Buffer, aval: ShapedArray, order: Order | None) -> Array:
    """The Array whose memory this is."""
    return Array(held, aval) if order is None else LaidArray(held, aval, order)


def order_in(x: Any) -> Order | None:
    """In which order an argument lies."""
    return x.order if type(x) is LaidArray else None


def held_in(x: Any, order: Order | None) -> Buffer:
    """The buffer of an argument in an order: its own memory where it lies so, else a copy."""
    if order_in(x) == order:
        return (x if type(x) is LaidArray else to_array(x))._memory
    held = to_array(x)._buffer
    if order is None:
        return held
    axes = axes_of(order, held.shape)
    return Buffer.from_numpy(np.ascontiguousarray(held.numpy().transpose(axes)), held.device)


def relaid(x: Any, order: Order | None) -> Array:
    """The array in an order, itself where it lies so; NotImplementedError where its memory is not
    that of its value."""
    if order_in(x) == order:
        return x if isinstance(x, Array) else to_array(x)
    if type(x) not in (Array, LaidArray):
        raise NotImplementedError(explain(
            f"arrays over several processes and unreduced ones are row-major: {aval_of(x).short()} "
            f"is to lie in the order {order}.", fix="leave the layout out."))
    return laid(held_in(x, order), x.aval, order)


def memory_of(x: LaidArray) -> Array:
    """What lies in an array's memory, as a row-major array."""
    return Array(x._held, turned(x.aval, x.order))


def of_memory(memory: Array, x: LaidArray, placement: Any) -> LaidArray:
    """The array that has its memory elsewhere."""
    return LaidArray(memory._buffer, x.aval.plain.marked(placement), x.order)


def copied(x: Array) -> Array:
    """The same array in memory of its own."""
    memory = x._memory
    return laid(Buffer.from_numpy(np.array(memory.numpy()), memory.device), x.aval, order_in(x))


def laid_type(x: Any, aval: Any, choosing: bool = False) -> Any:
    """What stands for an argument of a type in the key of a signature; choosing: whether the
    function says of arguments that are only described how they lie."""
    if type(x) is LaidArray:
        return LaidOut(aval, x.order)
    if type(x) is not ShapeDtypeStruct or aval.placement is None:
        return aval
    layout = x.format.layout
    order = AUTO if choosing and layout is None else order_of("jit", layout, x.shape)
    return aval if order is None else LaidOut(aval, order)
