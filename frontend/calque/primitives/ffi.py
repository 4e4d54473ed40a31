"""ffi_call: a call of a kernel of the user's (core/kernel).  It sees whole arrays.

`kernels` holds those of every platform, so that a Program says all it needs; `aliases` are pairs
(operand, result); `has_side_effect`: it is called as often as the program says, in its order;
`attributes` a name, a number, and its type and text, which tell apart what is equal (0.0, -0.0 and
False); `plain` is the form on a platform without a kernel, or None.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calque.core.avals import ShapedArray, aval_of
from calque.core.errors import explain
from calque.core.primitive import Primitive, registry
from calque.core.program import Program
from calque.primitives.control import batch_by_loop
from calque.transforms.stage import closed, replay, stage
from calque.transforms.vmap import (
    all_to_front,
    batch_program,
    broadcast_axis,
    move_axis,
    of_devices,
    to_front,
)

ffi_call_p = Primitive("ffi_call", multiple_results=True, memory="fresh",
                       effects=lambda params: params["has_side_effect"])


def _abstract(*avals: ShapedArray, result_avals: tuple[ShapedArray, ...],
              **params: Any) -> list[ShapedArray]:
    return list(result_avals)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, kernels: Any, **params: Any) -> Any:
    raise ValueError(explain(
        f"The FFI call to `{kernels.name}` cannot be differentiated.",
        fix="give the function around it a rule with calque.custom_jvp or calque.custom_vjp."))


def _batch(size: int, args: Sequence[Any], dims: Sequence[int | None], *, kernels: Any,
           result_avals: tuple[ShapedArray, ...], vmap_method: str | None, plain: Program | None,
           **params: Any) -> Any:
    params = {"kernels": kernels, "vmap_method": vmap_method, **params}
    if of_devices.get() or vmap_method in ("sequential", "sequential_unrolled"):
        # each device's part is one call
        return batch_by_loop(ffi_call_p, size, args, dims, result_avals=result_avals, plain=plain,
                             **params)
    if vmap_method is None:
        raise NotImplementedError(explain(
            "vmap is only supported for the ffi_call primitive when vmap_method is one of "
            "'sequential', 'sequential_unrolled', 'expand_dims', 'broadcast_all', or "
            f"'legacy_vectorized'. Got vmap_method=None, for `{kernels.name}`.",
            fix="pass vmap_method to ffi_call."))
    if vmap_method == "broadcast_all":
        whole = all_to_front(args, dims, size)
    else:
        whole = [move_axis(a, d, 0) if d is not None
                 else broadcast_axis(a, 1, 0) if vmap_method == "expand_dims" else a
                 for a, d in zip(args, dims)]
    written = [i for i, _ in params["aliases"]]  # as large as the result whose memory it is
    whole = [to_front(a, d, size) if i in written else x
             for i, (a, d, x) in enumerate(zip(args, dims, whole))]
    avals = tuple(a.update(shape=(size, *a.shape)) for a in result_avals)
    if plain is not None:
        mapped = [vmap_method == "broadcast_all" or d is not None or i in written
                  for i, d in enumerate(dims)]
        plain = _batched(plain, size, mapped, [aval_of(x) for x in whole])
    return ffi_call_p.bind(*whole, result_avals=avals, plain=plain, **params), [0] * len(avals)


def _batched(plain: Program, size: int, mapped: Sequence[bool],
             avals: Sequence[ShapedArray]) -> Program:
    """The form elsewhere for whole arrays: axis 0 where mapped, of size 1 (or none) elsewhere."""
    batched = batch_program(plain, size, [0 if m else None for m in mapped], True)[0]

    def run(*xs: Any) -> list[Any]:
        return replay(batched, *[
            registry["reshape"].bind(x, new_sizes=a.shape, dimensions=None, sharding=None)
            for x, a in zip(xs, batched.in_avals)])

    return closed(stage(run, avals, plain.name))[0]


ffi_call_p.abstract, ffi_call_p.jvp, ffi_call_p.batch = _abstract, _jvp, _batch
