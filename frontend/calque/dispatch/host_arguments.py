"""Numbers and NumPy arrays as arguments of calls: Arrays of them, for one call to read.

A loop calls one function with a number, or with the model's parameters as numbers, again and again:
those of lately are used again, with their memory, and what dtype a number has is asked once for
each configuration.  Nobody may delete, donate or hand out what `number` gives.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import ShapedArray, aval_of
from calque.core.config import config
from calque.core.errors import explain
from calque.core.trace import current, eval_trace
from calque.dispatch import transfers
from calque.dispatch.array import HOST_BYTES, Array, current_device, from_numpy
from calque.runtime import Buffer, Device

COMPLEX = (complex, np.complex64, np.complex128)
NUMBERS = (bool, int, float, np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16,
           np.uint32, np.uint64, np.float16, np.float32, np.float64, *COMPLEX)
NUMPYS = frozenset((np.ndarray, *[d.type for d in dtypes.ALL]))  # classes of arrays and numbers
_KNOWN = frozenset(dtypes.ALL)
MOST = 1024  # numbers of a type that are kept


class _Table:
    """What is known for one configuration: avals of numbers, of arrays; the numbers of lately."""

    __slots__ = ("arrays", "avals", "device", "key", "kept")

    def __init__(self, key: Any, device: Device) -> None:
        self.key, self.device = key, device
        self.avals: dict[type, ShapedArray] = {kind: aval_of(kind()) for kind in NUMBERS}
        self.kept: dict[type, dict[Any, Array]] = {kind: {} for kind in NUMBERS}
        self.arrays: dict[Any, ShapedArray] = {}


_table: _Table | None = None


def _table_of(key: Any) -> _Table:
    """The table for a configuration, by its key."""
    global _table
    device, known = current_device(), _table
    if known is None or known.key != key or known.device is not device:
        known = _Table(key, device)
    known.key = key  # the same object next time
    _table = known
    return known


def number(value: Any, key: Any) -> Array:
    """A rank-0 array of a number of Python or NumPy; key: of the configuration (config.key())."""
    if config.guards:
        transfers.check("host_to_device", value)
    table = _table
    if table is None or table.key is not key:
        table = _table_of(key)
    kept = table.kept[type(value)]
    # zeros differ by their signs, and not as keys; complex numbers in parts of them
    mark = value if value and type(value) not in COMPLEX else repr(value)
    found = kept.get(mark)
    if found is None:
        if len(kept) >= MOST:
            kept.clear()
        found = kept[mark] = Array(_rank_0(value, table.avals[type(value)], table.device),
                                   table.avals[type(value)])
    return found


def ndarray(value: Any, key: Any, eager: bool = False) -> Array:
    """A copy of a NumPy array of numbers, of that type itself; one of 64 bits is cut to 32.

    eager: NumPy's operations may be what reads it (a small one stays in its memory).
    """
    if config.guards:
        transfers.check("host_to_device", value)
    table = _table
    if table is None or table.key is not key:
        table = _table_of(key)
    aval = table.arrays.get((value.shape, value.dtype))
    if aval is None:
        made = from_numpy(value)
        if made._buffer.dtype == made.aval.dtype:  # (float0 has no memory)
            if len(table.arrays) >= MOST:
                table.arrays.clear()
            table.arrays[value.shape, value.dtype] = made.aval
        return made
    if aval.dtype != value.dtype:
        value = value.astype(aval.dtype)
    if eager and value.nbytes <= HOST_BYTES:
        return Array(Buffer.of_host(np.array(value, order="C"), table.device), aval)
    return Array(Buffer.from_numpy(value, table.device), aval)


def eager_array(x: Any) -> Any:
    """NumPy's array or number as an Array, where nothing is traced; else x as it is."""
    if (type(x) in NUMPYS and x.dtype in _KNOWN and current.get() is eval_trace
            and not config.guards):  # (the general road asks them)
        return ndarray(x, config.key(), True) if type(x) is np.ndarray else from_numpy(x)
    return x


def _rank_0(value: Any, aval: ShapedArray, device: Device) -> Buffer:
    try:
        return Buffer.of_host(np.array(value, aval.dtype), device)
    except OverflowError:
        raise OverflowError(explain(
            f"Python int {value} too large to convert to {aval.dtype}.",
            fix="pass an array of a wider dtype, or enable x64.")) from None
