"""vmap for users: functions of trees mapped over axes of their arguments.

Start reading at `vmap`; the batching rules are in primitives/, the trace in transforms/vmap.py.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.api import vmappable
from calque.core.avals import aval_of, ndim_of
from calque.core.dims import as_size
from calque.core.errors import explain
from calque.core.lists import as_tuple
from calque.core.naming import name_of
from calque.core.refs import Ref, assign, check_distinct
from calque.core.refs import read as ref_value
from calque.core.sharding import NamedSharding, PartitionSpec
from calque.core.types import Function, Shape
from calque.dispatch.array import as_values
from calque.dispatch.eager import lazy_eval
from calque.dispatch.mismatch import argument_names, sizes_error
from calque.dispatch.ref_parts import refuse_views
from calque.dispatch.tracing import (
    argument_path,
    check_arguments,
    check_callable,
    check_outputs,
    type_of,
    wrapped,
)
from calque.primitives.placement import constrain
from calque.transforms import vmap as vmap_module
from calque.transforms.explicit import is_explicit
from calque.trees import util as tree_util


def vmap(fun: Function, in_axes: Any = 0, out_axes: Any = 0, axis_name: Any = None,
         axis_size: int | None = None, spmd_axis_name: Any = None,
         sum_match: bool = False) -> Function:
    """A function that maps fun over an axis of its arguments.

    Args:
      fun: function of one element.
      in_axes: axis per positional argument (or a tree prefix of them); None: not mapped, and
        given to fun as it is, whatever it is.  Keyword arguments are mapped over axis 0.
      out_axes: where the mapped axis goes in the outputs (tree prefix).
      axis_name: a name for the mapped axis.
      axis_size: its size, needed when nothing is mapped.
      spmd_axis_name: mesh axes (a name or a tuple) that split the mapped axis: shard_map and
        with_sharding_constraint inside fun spread it over them.
      sum_match: accepted for compatibility.

    Returns:
      A function of fun's arguments with the mapped axis added; it runs fun once, on all elements.

    Raises:
      TypeError: in_axes is not an int, None or a tuple of such entries.
      ValueError: sizes of mapped axes differ, an axis does not exist, or in_axes does not match.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> calque.vmap(jnp.dot)(jnp.ones((3, 2)), jnp.ones((3, 2)))
      Array([2., 2., 2.], dtype=float32)
    """
    check_callable(fun)
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if isinstance(in_axes, bool) or not (isinstance(in_axes, (int, tuple)) or (
            vmappable.is_spec(in_axes))):
        raise TypeError(explain(
            f"vmap in_axes must be an int, None, or a tuple of entries corresponding to the "
            f"positional arguments passed to the function, but got {in_axes}.",
            fix="pass 0, None, or a tuple such as (0, None)."))

    spmd = () if spmd_axis_name is None else as_tuple(spmd_axis_name)

    def run(*args: Any, **kwargs: Any) -> Any:
        if isinstance(in_axes, tuple) and len(in_axes) != len(args):
            raise ValueError(explain(
                f"vmap in_axes must be an int, None, or a tuple of entries corresponding to the "
                f"positional arguments passed to the function, but got len(in_axes)="
                f"{len(in_axes)}, len(args)={len(args)}",
                fix="give one entry per positional argument; keywords are mapped over axis 0."))
        if vmap_module.vmappables and not isinstance(fun, vmappable.OfArrays):
            return vmappable.mapped(vmap, fun, in_axes, out_axes, axis_size, args, kwargs,
                                    axis_name=axis_name, spmd_axis_name=spmd_axis_name)
        leaves, tree = tree_util.flatten((args, kwargs))
        axes = _flat_axes("vmap in_axes", (in_axes, 0), (args, kwargs), allow_int_root=True)
        # what is not mapped may be any object
        check_arguments(name_of(fun), [0 if d is None else x for d, x in zip(axes, leaves)], tree,
                        refs=True)
        axes = [d if d is None else _normalized(d, type_of(x).shape)
                for d, x in zip(axes, leaves)]
        size = _mapped_size(fun, leaves, axes, axis_size, args, kwargs)
        mesh, split = _split_over(spmd, leaves, axes)
        kept: list[Any] = []

        refs = {i: x for i, x in enumerate(leaves) if type(x) is Ref}
        if refs:
            refuse_views(name_of(fun), (args, kwargs))
        mapped = {i: x for i, x in refs.items() if axes[i] is not None}
        check_distinct(name_of(fun), list(mapped.values()))

        def flat(*values: Any) -> list[Any]:
            if refs:  # of a mapped one each element has its part, others are as they are
                values = tuple(Ref(v, f"args[{i}]", refs[i].abstract.kind) if i in mapped
                               else refs.get(i, v)
                               for i, v in enumerate(values))
            a, k = tree.unflatten(values)
            outs, out_tree = tree_util.flatten(fun(*a, **k))
            check_outputs(name_of(fun), outs, out_tree, "vmap")
            kept.append(out_tree)
            return [*outs, *[values[i].value for i in mapped]] if mapped else outs

        with lazy_eval(f"vmap_{name_of(fun)}"):
            values = [ref_value(x) if type(x) is Ref else x for x in leaves] if refs else leaves
            given = [None if i in refs and i not in mapped else d for i, d in enumerate(axes)]
            # what is not mapped is passed on as it is: a Python number may be a static argument
            values = [x if d is None else as_values([x])[0] for x, d in zip(values, given)]
            outs, out_dims = vmap_module.vmap_flat(flat, size, values, given, axis_name,
                                                   devices=False, spmd=spmd or split)
            out_tree = kept[0]
            count = out_tree.num_leaves
            for i, o, d in zip(mapped, outs[count:], out_dims[count:]):
                assign(mapped[i], _placed(o, d, axes[i], size, name_of(fun)))
            outs, out_dims = outs[:count], out_dims[:count]
            wanted = _flat_axes("vmap out_axes", out_axes, out_tree.unflatten(outs))
            made = [_placed(o, d, w, size, name_of(fun))
                    for o, d, w in zip(outs, out_dims, wanted)]
            if split:
                made = [o if w is None else _spread(o, w, split, mesh)
                        for o, w in zip(made, wanted)]
            return out_tree.unflatten(made)

    return wrapped(fun, run, "Vectorized version")


def _is_axis(x: Any) -> bool:
    return x is None or isinstance(x, (int, np.integer))


def _flat_axes(what: str, axes: Any, tree: Any, *, allow_int_root: bool = False) -> list[Any]:
    """One axis per leaf from a prefix tree of axes."""
    for n in tree_util.tree_leaves(axes, is_leaf=_is_axis):
        if not _is_axis(n) or isinstance(n, bool):
            given = axes[0] if allow_int_root else axes
            raise TypeError(explain(
                f"{what} must be an int, None, or (nested) container with those types as leaves, "
                f"but got {given}.", fix="pass 0, None, or a tuple such as (0, None)."))

    def expand(prefix: Any, part: Any) -> list[Any]:
        return tree_util.prefix_leaves(prefix, part, _is_axis, lambda _: explain(
            f"{what} specification must be a tree prefix of the corresponding value, got "
            f"specification {prefix} for value tree {tree_util.tree_structure(part)}.",
            fix="give one axis for the whole value, or one per part in its structure."))

    if allow_int_root:
        (positional, keyword), (args, kwargs) = axes, tree
        flat: list[Any] = []
        if isinstance(positional, tuple):
            for a, x in zip(positional, args):
                flat += expand(a, x)
        else:
            flat += expand(positional, args)
        return flat + expand(keyword, kwargs)
    return expand(axes, tree)


def _split_over(spmd: tuple[Any, ...], leaves: Sequence[Any], axes: Sequence[int | None]
                ) -> tuple[Any, tuple[Any, ...]]:
    """The mesh and its Explicit axes that split all mapped dimensions; ValueError where these
    differ, or split what is not mapped."""
    typed = [(a, d) for x, d in zip(leaves, axes)
             if hasattr(x, "aval") and type(x) is not Ref and is_explicit(a := x.aval)]
    found = {a.placement.spec.of_rank(a.ndim).axes()[d]: a for a, d in typed if d is not None}
    if spmd and set(found) - {(), spmd}:
        raise ValueError(explain(
            "Only one of spmd_axis_name or arrays sharded on `Explicit` mesh axis type is allowed. "
            f"Got spmd_axis_name={spmd} and arrays sharded on explicit_mesh_axis="
            f"{next(iter(set(found) - {(), spmd}))}", fix="leave spmd_axis_name out."))
    if len(found) > 1:
        raise ValueError(explain(
            "Mapped away dimension of inputs passed to vmap should be sharded the same. Got "
            f"inconsistent axis specs: {', '.join(map(str, found))}",
            fix="calque.sharding.reshard one of them."))
    if not found or () in found:
        return None, ()
    (split, first), = found.items()
    for a, d in typed:
        if d is None and set(split) & set(a.placement.spec.names()):
            raise ValueError(explain(
                "Unmapped values passed to vmap cannot be sharded along the same axes as mapped "
                f"ones: got {a} beside values that are split over {split}.",
                fix="calque.sharding.reshard it."))
    return first.placement.mesh, split


def _spread(out: Any, axis: int, split: tuple[Any, ...], mesh: Any) -> Any:
    """A result whose mapped dimension is split as those of the operands."""
    a = aval_of(out)
    spec = (a.placement.spec if is_explicit(a) else PartitionSpec()).of_rank(a.ndim)
    d = axis % a.ndim
    if spec.axes()[d] == split or set(split) & set(spec.names()):
        return out
    entries = [split if i == d else entry for i, entry in enumerate(spec.partitions)]
    return constrain(out, NamedSharding(mesh, spec.update(partitions=entries)))


def _normalized(axis: Any, shape: Shape) -> int:
    axis, ndim = int(axis), len(shape)
    if not -ndim <= axis < ndim:
        raise ValueError(explain(
            f"vmap was requested to map its argument along axis {axis}, which implies that its "
            f"rank should be at least {axis + 1 if axis >= 0 else -axis}, but is only {ndim} "
            f"(its shape is {shape})", fix="use an axis that it has, or None to pass it whole."))
    return axis % ndim if ndim else axis


def _mapped_size(fun: Any, leaves: Sequence[Any], axes: Sequence[int | None],
                 given: int | None, args: Any, kwargs: Any) -> int:
    sizes = [type_of(x).shape[d] for x, d in zip(leaves, axes) if d is not None]
    if given is not None:
        sizes.append(given)
    if not sizes and not leaves:
        raise ValueError(explain(
            "vmap wrapped function must be passed at least one argument containing an array or "
            f"axis_size must be specified, got empty *args={args} and **kwargs={kwargs}",
            fix="pass an array, or axis_size."))
    if not sizes:
        raise ValueError(explain(
            "vmap must have at least one non-None value in in_axes or axis_size must be specified",
            fix="map some argument, or pass axis_size."))
    if len(set(sizes)) > 1:
        positional = tree_util.tree_structure(args).num_leaves
        whole = tree_util.tree_structure((args, kwargs))
        names = [f"argument {n}" if i < positional else argument_path(whole, i)
                 for i, n in enumerate(argument_names(fun, args, kwargs))]
        raise sizes_error([n for n, d in zip(names, axes) if d is not None],
                          [type_of(x) for x, d in zip(leaves, axes) if d is not None],
                          [d for d in axes if d is not None], given)
    return as_size(sizes[0])


def _placed(out: Any, have: int | None, want: Any, size: int, name: str) -> Any:
    if want is None:
        if have is not None:
            raise ValueError(explain(
                f"at vmap out_axes, got axis spec None but output was batched on axis {have}: an "
                f"output of {name} depends on a mapped argument.",
                fix="use an integer in out_axes for outputs that depend on mapped inputs."))
        return out
    ndim = ndim_of(out) + (have is None)
    if not -ndim <= want < ndim:
        raise ValueError(explain(
            f"vmap out_axes: axis {want} is out of bounds for array of dimension {ndim}, an output "
            f"of {name} with the mapped axis.", fix=f"use an axis from {-ndim} to {ndim - 1}."))
    want = int(want) % ndim
    if have is None:
        return vmap_module.broadcast_axis(out, size, want)
    return vmap_module.move_axis(out, have, want)
