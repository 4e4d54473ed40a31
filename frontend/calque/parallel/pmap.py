"""pmap: a function mapped over devices along an axis of its arguments.

It is jit of shard_map over a mesh of one axis, without the check of what varies.  Start reading at
`pmap`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque import runtime
from calque.api.batching import _flat_axes, _normalized
from calque.core.avals import ShapedArray, aval_of, ndim_of
from calque.core.errors import explain
from calque.core.lists import without
from calque.core.mesh import Mesh, OwnRows
from calque.core.naming import name_of
from calque.core.sharding import IndivisibleError, NamedSharding, PartitionSpec
from calque.core.types import Function
from calque.dispatch.array import as_values
from calque.dispatch.devices import devices as all_devices
from calque.dispatch.jit import JitFunction, jit
from calque.dispatch.mismatch import argument_names
from calque.dispatch.tracing import check_arguments, check_callable, check_outputs
from calque.primitives import shape as sh
from calque.primitives import shard_map as primitive
from calque.primitives.placement import constrain
from calque.transforms.stage import stage
from calque.transforms.vmap import broadcast_axis
from calque.trees import util as tree_util

__all__ = ["pmap"]

P = PartitionSpec
UNNAMED = "_internal_pmap_axis_name"


def pmap(fun: Function, axis_name: Any = None, *, in_axes: Any = 0, out_axes: Any = 0,
         static_broadcasted_argnums: Any = (), devices: Sequence[Any] | None = None,
         backend: str | None = None, axis_size: int | None = None,
         donate_argnums: Any = ()) -> Function:
    """A function that runs fun on every device, each with its part along an axis of the arguments.

    Args:
      fun: function of one device's arrays.
      axis_name: a name for the axis of devices, for collectives.
      in_axes: axis per positional argument (or a tree prefix of them); None: every device has the
        whole.  Keyword arguments are mapped over axis 0.
      out_axes: where the axis of devices goes in the results (tree prefix); None: one device's.
      static_broadcasted_argnums: positions of arguments whose Python value is compiled in.
      devices: which ones; None: the first of the backend, or those of all processes: then each
        passes the rows of its devices, and gets theirs.
      backend: a platform; None: the default one.
      axis_size: size of the axis; it is that of the arguments.
      donate_argnums: positions of arguments whose memory the results may take.

    Returns:
      A function of fun's arguments with the mapped axis added; its results are spread over the
      devices, `P(axis_name)`.

    Raises:
      TypeError: fun is not callable.
      ValueError: (by the function) nothing is mapped; there are fewer devices than the axis is
        long; in_axes does not match the arguments.  IndivisibleError where sizes differ.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> calque.pmap(lambda x: x / calque.lax.psum(x, "i"), axis_name="i")(jnp.ones((1, 2)))
      Array([[1., 1.]], dtype=float32)
    """
    check_callable(fun)
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if not (in_axes is None or isinstance(in_axes, (int, tuple, dict))):
        raise TypeError(explain(
            f"pmap in_axes must be an int, None, or a tuple of entries, but got {in_axes}.",
            fix="pass 0, None, or a tuple such as (0, None)."))
    if devices is not None and not len(devices):
        raise ValueError(explain("'devices' argument to pmap must be non-empty, or None.",
                                 fix="leave it out, or pass calque.devices()."))
    given = static_broadcasted_argnums
    static = (given,) if isinstance(given, int) else tuple(given)
    name = UNNAMED if axis_name is None else axis_name
    dynamic_axes = _without(in_axes, static)

    def run(*args: Any, **kwargs: Any) -> Any:
        return _apply(fun, args, kwargs, name, dynamic_axes, out_axes, devices, backend, axis_size,
                      static)

    run.__name__, run.__doc__ = name_of(fun), fun.__doc__
    made: JitFunction = jit(run, static_argnums=static or None,
                            donate_argnums=None if donate_argnums == () else donate_argnums)
    made.moves = True
    made.__wrapped__ = fun  # type: ignore[attr-defined]
    return made


def _without(in_axes: Any, static: tuple[int, ...]) -> Any:
    if not isinstance(in_axes, tuple):
        return in_axes
    gone = {s % len(in_axes) if -len(in_axes) <= s < len(in_axes) else s for s in static}
    return tuple(None if i in gone else a for i, a in enumerate(in_axes))


def _apply(fun: Function, args: tuple[Any, ...], kwargs: dict[str, Any], name: Any,
           in_axes: Any, out_axes: Any, devices: Sequence[Any] | None, backend: str | None,
           axis_size: int | None, static: tuple[int, ...]) -> Any:
    title = name_of(fun)
    fixed = {s % len(args) for s in static if -len(args) <= s < len(args)}
    moving = without(args, fixed)
    if isinstance(in_axes, tuple):
        if len(in_axes) != len(args):
            raise ValueError(explain(
                "pytree structure error: different lengths of tuple at key path pmap in_axes: it "
                f"has {len(in_axes)} entries, and {title} was called with {len(args)} positional "
                "arguments.", fix="give one entry per positional argument."))
        in_axes = without(in_axes, fixed)
    leaves, tree = tree_util.flatten((moving, kwargs))
    check_arguments(title, leaves, tree)
    axes = _flat_axes("pmap in_axes", (in_axes, 0), (moving, kwargs), allow_int_root=True)
    avals = [aval_of(x) for x in leaves]
    axes = [None if d is None else _normalized(d, a.shape)
            for d, a in zip(axes, avals)]
    size = _size(fun, moving, kwargs, avals, axes, axis_size)
    mesh = Mesh(np.array(_chosen(devices, backend, size), object), (name,))
    kept: list[Any] = []

    def body(*parts: Any) -> list[Any]:
        own = [x if d is None else sh.squeeze(x, (d,)) for x, d in zip(parts, axes)]
        a, k = tree.unflatten(own)
        rest = iter(a)
        out = fun(*[args[i] if i in fixed else next(rest) for i in range(len(args))], **k)
        outs, out_tree = tree_util.flatten(out)
        check_outputs(title, outs, out_tree)
        wanted = _flat_axes("pmap out_axes", out_axes, out)
        wanted = [None if d is None else _normalized_out(d, ndim_of(o) + 1, title)
                  for d, o in zip(wanted, outs)]
        kept.append((out_tree, wanted))
        return [o if d is None else broadcast_axis(o, 1, d) for o, d in zip(outs, wanted)]

    specs = [_spec(name, d) for d in axes]
    manual = frozenset((name,))
    # of several processes each passes the rows of its devices, and gets theirs
    parts = mesh if mesh.grid is None else OwnRows(mesh)
    with primitive.inside(mesh, manual, False):
        program = stage(body, [primitive.local(a, parts, s, False) for a, s in zip(avals, specs)],
                        title, fun)
    out_tree, wanted = kept[0]
    out_specs = tuple(_spec(name, d) for d in wanted)
    outs = primitive.bind(program, as_values(leaves), mesh=parts, in_specs=tuple(specs),
                          out_specs=out_specs, check_vma=False, newly_manual_axes=manual)
    if mesh.grid is not None:
        outs = [constrain(o, NamedSharding(mesh.local_mesh, s)) for o, s in zip(outs, out_specs)]
    return out_tree.unflatten(outs)


def _spec(name: Any, axis: int | None) -> P:
    return P() if axis is None else P(*[None] * axis, name)


def _normalized_out(axis: int, ndim: int, title: str) -> int:
    if not -ndim <= axis < ndim:
        raise ValueError(explain(
            f"pmap out_axes: axis {axis} is out of bounds for array of dimension {ndim}, an output "
            f"of {title} with the mapped axis.", fix=f"use an axis from {-ndim} to {ndim - 1}."))
    return axis % ndim


def _size(fun: Any, args: Any, kwargs: Any, avals: Sequence[ShapedArray],
          axes: Sequence[int | None], given: int | None) -> int:
    """The size of the mapped axis."""
    mapped = [(i, a.shape[d], d) for i, (a, d) in enumerate(zip(avals, axes)) if d is not None]
    if not mapped:
        raise ValueError(explain(
            "pmap requires at least one argument with a mapped axis.",
            fix="map some argument with a dimension (in_axes=0); for copies, broadcast it first."))
    size = mapped[0][1]
    wrong = [m for m in mapped if m[1] != size]
    if wrong:
        names = argument_names(fun, args, kwargs)
        rows = [f"  * argument {names[i]} of shape {avals[i]} has size {n} along axis {d}"
                for i, n, d in (mapped[0], *wrong)]
        raise IndivisibleError(explain(
            f"pmap got inconsistent sizes for array axes to be mapped over {size} devices:\n"
            + "\n".join(rows), fix="make them equal, or give None in in_axes for copies."))
    if given is not None and given not in (size, size * runtime.device.process()[1]):
        raise ValueError(explain(
            f"Specified axis_size {given} doesn't match received axis_size {size}.",
            fix="leave axis_size out."))
    return size


def _chosen(devices: Sequence[Any] | None, backend: str | None, size: int) -> list[Any]:
    found = list(all_devices(backend) if devices is None else devices)
    local = sum(d.is_local for d in found)
    if local < len(found):  # each process passes its devices' rows
        if local != size:
            raise ValueError(explain(
                f"pmap over the {len(found)} devices of several processes: this one has {local} of "
                f"them, and the mapped axis has size {size} here.",
                fix="pass one row for each device of this process, or devices=local_devices()."))
        return found
    if len(found) < size:
        raise ValueError(explain(
            f"compiling computation that requires {size} logical devices, but only {len(found)} "
            "XLA devices are available (num_replicas=" f"{size})",
            fix="set jax_num_cpu_devices before the first use of devices, or map with vmap inside "
                "pmap."))
    if size > 1 and any(d.platform != "cpu" for d in found[:size]):
        raise ValueError(explain(
            f"pmap over {size} devices of {found[0].platform}: a process runs programs on one GPU.",
            fix="start one process for each GPU, or use CPU devices."))
    return found[:size]
