"""Messages between processes: what is left of collectives over mesh axes that run between them.

`axes` holds Between names (core/processes); the group of a message are the processes along them
through this one, the last name moving fastest.  Values are plain arrays: `plain` turns complex
numbers, bools and keys into such.  No derivatives: programs come here when they are compiled
(primitives/two_level), after all transformations but the local devices' vmap.
Start reading at `reduced`.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import aval_of, dtype_of, shape_of
from calque.core.primitive import Primitive, registry
from calque.core.processes import Between
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh
from calque.transforms.vmap import move_axis, to_front

Axes = tuple[Between, ...]


def size_of(axes: Axes) -> int:
    """How many processes a message goes among."""
    return math.prod(a.size for a in axes)


def _second(x: Any, dim: int) -> Any:
    """x with its batch axis behind the leading one."""
    return move_axis(x, dim, 1)


# ---- sums, maxima, minima: several operands are one message
reduce_p = Primitive("message_reduce", multiple_results=True, differentiable=False,
                     calls_python=True)
reduce_p.abstract = lambda *xs, axes, op: [x.strong() for x in xs]
reduce_p.batch = lambda size, args, dims, **params: (reduce_p.bind(*args, **params), list(dims))

# ---- moves: the group's processes are the leading axis
gather_p = Primitive("message_gather", differentiable=False, calls_python=True)
gather_p.abstract = lambda x, *, axes: x.update(shape=(size_of(axes), *x.shape), weak_type=False)
gather_p.batch = lambda size, args, dims, **params: (
    gather_p.bind(to_front(args[0], dims[0], size), **params), 1)

exchange_p = Primitive("message_exchange", differentiable=False, calls_python=True)
exchange_p.abstract = lambda x, *, axes: x.strong()
exchange_p.batch = lambda size, args, dims, **params: (
    exchange_p.bind(_second(args[0], dims[0]), **params), 1)

scatter_p = Primitive("message_scatter", differentiable=False, calls_python=True)
scatter_p.abstract = lambda x, *, axes: x.update(shape=x.shape[1:], weak_type=False)
scatter_p.batch = lambda size, args, dims, **params: (
    scatter_p.bind(_second(args[0], dims[0]), **params), 0)

# ---- rows of this process's devices, sent to other devices' places
permute_p = Primitive("message_permute", differentiable=False, calls_python=True)
permute_p.abstract = lambda x, *, axes, perm: x.strong()
permute_p.batch = lambda size, args, dims, **params: (
    permute_p.bind(_second(args[0], dims[0]), **params), 1)

# the same before the devices of a process are mapped: its axes are (local name, Between)
shift_p = Primitive("message_shift", differentiable=False, calls_python=True)
shift_p.abstract = lambda x, *, axes, perm: x.strong()


def _shifted(name: Any, size: int, x: Any, dim: int | None, *, axes: tuple[Any, ...],
             perm: tuple[tuple[int, int], ...]) -> Any:
    return permute_p.bind(to_front(x, dim, size), axes=axes[1:], perm=perm), 0


shift_p.collective = _shifted
shift_p.batch = lambda size, args, dims, **params: (
    shift_p.bind(move_axis(args[0], dims[0], 0), **params), 0)


# ---- values as plain arrays
def plain(x: Any) -> tuple[Any, Callable[[Any], Any]]:
    """x as an array of plain numbers, and what turns one like it back; complex numbers and keys
    get a trailing axis."""
    a = aval_of(x)
    if dtypes.is_key(a.dtype):
        return registry["random_unwrap"].bind(x), lambda y: registry["random_wrap"].bind(
            y, impl=a.dtype.tag)
    if a.dtype == np.dtype(bool):
        return ew.convert(x, np.dtype("u1")), lambda y: ew.convert(y, a.dtype)
    if a.dtype.kind == "c":
        parts = [registry[n].bind(x) for n in ("real", "imag")]
        last = [sh.reshape(p, (*a.shape, 1)) for p in parts]
        return sh.concatenate(last, a.ndim), _complex
    return x, lambda y: y


def _complex(y: Any) -> Any:
    shape = shape_of(y)
    start, whole = (0,) * (len(shape) - 1), shape[:-1]
    parts = [sh.reshape(sh.slice_(y, (*start, i), (*whole, i + 1)), whole) for i in (0, 1)]
    return registry["complex"].bind(*parts)


def reduced(xs: Sequence[Any], axes: Axes, op: str) -> list[Any]:
    """Sums ("sum"), maxima or minima over processes; short floats are added up in f32."""
    pairs = [_summable(x) for x in xs]
    outs = reduce_p.bind(*[y for y, _ in pairs], axes=axes, op=op)
    return [restore(o) for (_, restore), o in zip(pairs, outs)]


def _summable(x: Any) -> tuple[Any, Callable[[Any], Any]]:
    """The same as `plain`, in a dtype that MPI adds up."""
    y, restore = plain(x)
    dtype = dtype_of(y)
    if dtypes.is_inexact(dtype) and dtype.itemsize < 4:
        return ew.convert(y, dtypes.float32), lambda z: ew.convert(z, dtype)
    return y, restore


def gathered(x: Any, axes: Axes) -> Any:
    """What all processes have, along a new leading axis."""
    y, restore = plain(x)
    return restore(gather_p.bind(y, axes=axes))


def exchanged(x: Any, axes: Axes) -> Any:
    """x[i] for process i, and what each has for this one, along the leading axis."""
    y, restore = plain(x)
    return restore(exchange_p.bind(y, axes=axes))


def scattered(x: Any, axes: Axes) -> Any:
    """The sum over processes of x[i], of which process i gets that."""
    y, restore = _summable(x)
    return restore(scatter_p.bind(y, axes=axes))


def permuted(x: Any, local: Any, far: Between, perm: tuple[tuple[int, int], ...]) -> Any:
    """ppermute over an axis of processes x devices; local: the devices' name, None where each
    process has one along the axis."""
    y, restore = plain(x)
    if local is not None:
        return restore(shift_p.bind(y, axes=(local, far), perm=perm))
    shape = shape_of(y)
    moved = permute_p.bind(sh.reshape(y, (1, *shape)), axes=(far,), perm=perm)
    return restore(sh.reshape(moved, shape))


__all__ = ["exchanged", "gathered", "permuted", "reduced", "scattered",
           "size_of"]
