"""Many arrays joined into one, outside of transformations: by NumPy, whatever their sizes.

A program of n operands takes 3 to 10 ms for each to compile (a rollout's 2,000 states: 21 s), and
copying is all it would do.  Start reading at `joined`.
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from calque.core import dtypes
from calque.core.trace import current, eval_trace
from calque.dispatch.array import Array, from_numpy
from calque.dispatch.sharded import labels

F = TypeVar("F", bound=Callable[..., Any])
MANY = 32  # arrays
MOST = 1 << 28  # bytes of the result


def joined(join: Callable[..., Any], arrays: Any, *axis: int) -> Array | None:
    """join(arrays, *axis) where that is a copy of what is in the host's memory; None elsewhere."""
    if (type(arrays) not in (list, tuple) or len(arrays) < MANY or type(arrays[0]) is not Array
            or current.get() is not eval_trace or not _alike(arrays)):
        return None
    device = arrays[0]._buffer.device
    if not device.is_host or any([x._buffer.device is not device for x in arrays]):
        return None
    try:
        made = join([x._numpy() for x in arrays], *axis)
    except (ValueError, TypeError, RuntimeError):  # shapes, axes, deleted arrays: said elsewhere
        return None
    return from_numpy(made, device=device)


def _alike(arrays: Sequence[Any]) -> bool:
    """Whether all are Arrays of one dtype, each on one device, together not too large."""
    kind, nbytes = arrays[0].aval.dtype, 0
    if dtypes.is_key(kind) or kind == dtypes.float0:
        return False
    for x in arrays:
        if type(x) is not Array:
            return False
        aval = x.aval
        if aval.dtype != kind or aval.weak_type:
            return False
        nbytes += aval.nbytes
    return nbytes <= MOST and not labels.any_of([x.aval for x in arrays])


def of_many(join: Callable[..., Any]) -> Callable[[F], F]:
    """Decorator of what joins arrays as NumPy's function does."""
    def decorate(f: F) -> F:
        @functools.wraps(f)
        def wrapper(arrays: Any, *args: Any, **kwargs: Any) -> Any:
            if not kwargs and (not args or len(args) == 1 and type(args[0]) is int):
                made = joined(join, arrays, *args)
                if made is not None:
                    return made
            return f(arrays, *args, **kwargs)

        return wrapper  # type: ignore[return-value]

    return decorate


concatenate, stack = of_many(np.concatenate), of_many(np.stack)
vstack, hstack = of_many(np.vstack), of_many(np.hstack)
__all__ = ["concatenate", "hstack", "joined", "of_many", "stack", "vstack"]
