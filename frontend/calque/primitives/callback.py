"""Calls of Python functions on the host from inside programs: pure_callback, io_callback and
debug_callback.  `callback` is a function of NumPy arrays that returns a list of them.

Only a pure one may be left out, or called more or less often than the program says.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calque.core.avals import ShapedArray
from calque.core.errors import explain
from calque.core.primitive import Primitive
from calque.primitives.control import batch_by_loop
from calque.transforms.vmap import all_to_front, broadcast_axis, move_axis, of_devices

pure_callback_p = Primitive("pure_callback", multiple_results=True, calls_python=True)
io_callback_p, debug_callback_p = (
    Primitive(name, multiple_results=True, effects=lambda params: True, calls_python=True)
    for name in ("io_callback", "debug_callback"))


def _abstract(*avals: ShapedArray, result_avals: tuple[ShapedArray, ...],
              **params: Any) -> list[ShapedArray]:
    return list(result_avals)


def _no_jvp(name: str) -> Any:
    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        raise ValueError(explain(
            f"{name} callbacks do not support JVP: the derivative of a Python function is not "
            "known.", fix="give it a rule with calque.custom_jvp or custom_vjp, or put "
                          "lax.stop_gradient around its arguments."))
    return jvp


def _no_transpose(name: str) -> Any:
    def transpose(cts: Sequence[Any], *args: Any, **params: Any) -> Any:
        raise ValueError(explain(
            f"{name} callbacks do not support transpose.",
            fix="give the function a rule with calque.custom_vjp."))
    return transpose


def _debug_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    return debug_callback_p.bind(*primals, **params), []


def _pure_batch(size: int, args: Sequence[Any], dims: Sequence[int | None], *, callback: Any,
                result_avals: tuple[ShapedArray, ...], vmap_method: str | None) -> Any:
    each = of_devices.get()  # which call for themselves, vmap_method says nothing of them
    if vmap_method is None and not each:
        raise NotImplementedError(explain(
            "vmap is only supported for pure_callback when vmap_method is specified.",
            fix="pass vmap_method='sequential', 'expand_dims' or 'broadcast_all'."))
    if each or vmap_method in ("sequential", "sequential_unrolled"):
        return batch_by_loop(pure_callback_p, size, args, dims, callback=callback,
                             result_avals=result_avals, vmap_method=vmap_method)
    if vmap_method == "legacy_vectorized":  # what is not mapped is passed as it is
        whole = [a if d is None else move_axis(a, d, 0) for a, d in zip(args, dims)]
    elif vmap_method == "expand_dims":
        whole = [broadcast_axis(a, 1, 0) if d is None else move_axis(a, d, 0)
                 for a, d in zip(args, dims)]
    else:
        whole = all_to_front(args, dims, size)
    avals = tuple(a.update(shape=(size, *a.shape)) for a in result_avals)
    outs = pure_callback_p.bind(*whole, callback=callback, result_avals=avals,
                                vmap_method=vmap_method)
    return outs, [0] * len(avals)


def _io_batch(size: int, args: Sequence[Any], dims: Sequence[int | None], *, ordered: bool,
              **params: Any) -> Any:
    if ordered and not of_devices.get():  # (of devices each calls in its own order)
        raise ValueError(explain("Cannot `vmap` ordered IO callback.",
                                 fix="pass ordered=False, or call it outside vmap."))
    return batch_by_loop(io_callback_p, size, args, dims, ordered=ordered, **params)


def _debug_batch(size: int, args: Sequence[Any], dims: Sequence[int | None],
                 **params: Any) -> Any:
    return batch_by_loop(debug_callback_p, size, args, dims, **params)


for _p in (pure_callback_p, io_callback_p, debug_callback_p):
    _p.abstract = _abstract
pure_callback_p.jvp, io_callback_p.jvp = _no_jvp("Pure"), _no_jvp("IO")
debug_callback_p.jvp = _debug_jvp
pure_callback_p.transpose, io_callback_p.transpose = _no_transpose("Pure"), _no_transpose("IO")
pure_callback_p.batch, io_callback_p.batch = _pure_batch, _io_batch
debug_callback_p.batch = _debug_batch
