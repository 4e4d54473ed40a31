"""jit with shardings: where arguments and results of a jitted function are.

Both are constraints in the traced function; what is said of an argument that is committed already
must be so.  Start reading at `PlacedFunction`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calque.core.avals import shape_of
from calque.core.errors import explain
from calque.core.formats import AUTO, Layout, layout_in, layout_of, order_of, sharding_in
from calque.core.refs import AbstractRef
from calque.core.sharding import NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding
from calque.core.trace import at_bottom
from calque.core.types import Function
from calque.dispatch.entry import Entry
from calque.dispatch.jit import JitFunction, placed
from calque.dispatch.orders import check_donated, split
from calque.dispatch.sharded import labels
from calque.dispatch.sharded.constraints import as_sharding, check_not_empty
from calque.dispatch.sharded.shards import check_rank, is_place, prefix_leaves
from calque.dispatch.sharded.spanning import elsewhere
from calque.primitives.placement import constrain
from calque.trees import util as tree_util


class PlacedFunction(JitFunction):
    """A jitted function that says where its arguments and results are."""

    def __init__(self, fun: Function, static_argnums: tuple[int, ...],
                 static_argnames: tuple[str, ...], donate_argnums: tuple[int, ...],
                 donate_argnames: tuple[str, ...], inline: bool, keep_unused: bool,
                 in_shardings: Any, out_shardings: Any, device: Any) -> None:
        super().__init__(fun, static_argnums, static_argnames, donate_argnums, donate_argnames,
                         inline, keep_unused)
        self._given = in_shardings, out_shardings
        (self._in, self._in_formats), (self._out, self._out_formats) = map(_parted, self._given)
        _check_leaves("in_shardings", self._in)
        _check_leaves("out_shardings", self._out)
        self._device = device
        self.share()

    @property
    def _kind(self) -> str:
        return "pjit" if self.over_entered else "jit"

    def share(self, *more: Any) -> None:
        if hasattr(self, "_device"):  # (first it is made as a function without shardings)
            leaves, tree = tree_util.flatten(self._given)
            super().share(*more, "placed", tree, *leaves, self._device)

    def __reduce__(self) -> Any:
        kind, given = super().__reduce__()
        return kind, (*given, *self._given, self._device)

    def _trace(self, key: tuple[Any, ...], fun: Function, tree: Any,
               avals: Sequence[Any], donated: tuple[int, ...]) -> Entry:
        wanted: list[Any] = [None] * len(avals)
        avals, orders = self._orders(tree, avals)
        if self._in is not None:
            wanted = [None if type(a) is AbstractRef else s
                      for a, s in zip(avals, self._of_arguments(tree, avals))]
            avals = [a if s is None or a.placement is not None or elsewhere([a.marked(s)])
                     else a.marked(s, a.vma) for a, s in zip(avals, wanted)]

        said: list[Any] = []  # of each result
        layouts: list[Any] = []

        def constrained(*args: Any, **kwargs: Any) -> Any:
            leaves, own = tree_util.flatten((args, kwargs))
            args, kwargs = own.unflatten([x if s is None else constrain(x, s)
                                          for x, s in zip(leaves, wanted)])
            out = fun(*args, **kwargs)
            if self._out_formats is not None:
                flat = prefix_leaves("pjit out_shardings", self._out_formats, out)
                layouts[:] = map(layout_of, flat)
            if self._out is None:
                return out
            outs, out_tree = tree_util.flatten(out)
            flat = prefix_leaves("pjit out_shardings", self._out, out)
            said[:] = [as_sharding(self._kind, "out_shardings", s, self.over_entered) for s in flat]
            return out_tree.unflatten([_result(o, s) for o, s in zip(outs, said)])

        entry = super()._trace(key, constrained, tree, avals, donated)
        try:
            self._lay_out(entry, orders, layouts)
        except Exception:
            self._cache.pop(key, None)
            raise
        self._check_devices(entry, tree, said)
        if said:
            entry.told = tuple(said)
            entry.out_avals = tuple(a.plain.marked(s, a.vma) if _is_told(a, s) else a
                                    for a, s in zip(entry.out_avals, said, strict=True))
        if self._device is not None:
            where = SingleDeviceSharding(self._device)
            entry.out_avals = tuple(a.plain.marked(where, a.vma) for a in entry.out_avals)
        return entry

    def _orders(self, tree: Any, avals: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """(types, orders) of the arguments; an order is AUTO where it may be chosen, "" where none
        is known.  ValueError where one lies otherwise than in_shardings says."""
        avals, have = split(avals)
        have = ["" if o is AUTO or o is None and a.placement is None else o
                for a, o in zip(avals, have)]
        if self._in_formats is None:
            return avals, have
        args, kwargs = tree.unflatten(list(range(len(avals))))
        given = self._in_formats
        flat = prefix_leaves(
            "pjit in_shardings", tuple(given) if isinstance(given, list) else given, args)
        for i, layout in enumerate(map(layout_of, flat)):  # (of keywords nothing is said)
            if layout is None or type(avals[i]) is AbstractRef:
                continue
            order = order_of(f"jit of {self._name}", layout, avals[i].shape)
            committed = avals[i].placement is not None and have[i] != "" and at_bottom()
            if committed and (layout is AUTO or order != have[i]):
                raise ValueError(explain(
                    "Layout passed to jit does not match the layout on the respective arg. Got jit "
                    f"layout: {layout},\narg layout: {layout_in(have[i], avals[i].ndim)} for arg "
                    f"type: {avals[i].plain} ({self._argument(tree, i)}).",
                    fix="where the layout is AUTO, describe the argument, ShapeDtypeStruct(...); "
                        "else put it into the layout with calque.device_put."))
            have[i] = layout if layout is AUTO else order
        return avals, have

    def _lay_out(self, entry: Entry, orders: Sequence[Any], layouts: Sequence[Any]) -> None:
        """How arguments and results lie; ValueError where AUTO is one side of a donation."""
        check_donated(self._name, entry.in_avals, orders, entry.out_avals, layouts, entry.donated)
        entry.lay_out(self._name, [o or None for o in orders], layouts)

    def _check_devices(self, entry: Entry, tree: Any, said: Sequence[Any]) -> None:
        """ValueError where a result is to be on one device and others take part; arguments go where
        `device=` says."""
        told = self._device and SingleDeviceSharding(self._device) or next(
            (s for s in said if isinstance(s, SingleDeviceSharding)), None)
        if told is not None and entry.uses is None:
            labels.check_result(entry.program, () if self._device else entry.in_avals,
                                lambda i: self._argument(tree, i), told)

    def _of_arguments(self, tree: Any, avals: Sequence[Any]) -> list[Any]:
        """in_shardings of each leaf; ValueError where an argument contradicts."""
        args, kwargs = tree.unflatten(list(range(len(avals))))
        if kwargs:
            raise ValueError(explain(
                f"{self._name}: pjit does not support kwargs when in_shardings is specified.",
                fix="pass the arguments by position."))
        given = tuple(self._in) if isinstance(self._in, list) else self._in
        wrong = None
        if is_place(given):
            pass
        elif type(given) is not tuple:
            wrong = f"not a tuple: got {type(given)} instead." + (
                " Given the corresponding argument being passed, it looks like pjit in_shardings "
                "might need to be wrapped in a singleton tuple." if len(args) == 1 else "")
        elif len(given) != len(args):
            wrong = (f"the wrong length: got a tuple or list of length {len(given)} for an args "
                     f"tuple of length {len(args)}.")
        if wrong:
            raise ValueError(explain(
                "pjit in_shardings specification must be a tree prefix of the positional arguments "
                "tuple. In particular, pjit in_shardings must either be a Sharding, a "
                "PartitionSpec, or a tuple of length equal to the number of positional arguments. "
                f"But pjit in_shardings is {wrong}",
                fix="give one entry for each positional argument."))
        found = []
        for i, (a, s) in enumerate(zip(avals, prefix_leaves("pjit in_shardings", given, args))):
            s = as_sharding(self._kind, "in_shardings", s, self.over_entered)
            if s is not None and type(a) is not AbstractRef:
                check_rank(f"One of pjit arguments with pytree key path {self._argument(tree, i)}",
                           a.shape, s)
                s.shard_shape(a.shape)
                have = a.placement
                if have is not None and not have.is_equivalent_to(s, a.ndim):
                    raise ValueError(explain(
                        "Sharding passed to jit does not match the sharding on the respective arg. "
                        f"Got jit sharding: {s!r},\narg sharding: {have!r} for arg type: {a.plain} "
                        f"({self._argument(tree, i)})",
                        fix="calque.device_put the argument with that sharding first, or leave "
                            "in_shardings out."))
            found.append(s)
        return found


def _is_told(a: Any, said: Any) -> bool:
    """Whether a result's label is what was said, in the words that said it (P(None) is not P()):
    over Explicit axes, too, where its type is so."""
    return isinstance(said, SingleDeviceSharding) or isinstance(said, NamedSharding) and (
        isinstance(a.placement, NamedSharding) and (said.explicit or a.placement.mesh == said.mesh)
        and a.placement.spec.of_rank(a.ndim) == said.spec.of_rank(a.ndim))


def _result(o: Any, s: Any) -> Any:
    if s is None:
        return o
    shape = shape_of(o)
    check_rank("One of pjit outputs", shape, s)
    if isinstance(s, NamedSharding):
        s.shard_shape(shape)
    return constrain(o, s)


def _parted(given: Any) -> tuple[Any, Any]:
    """(tree of shardings, the tree as it is given where a Format in it has a layout, else None)."""
    leaves = tree_util.tree_leaves(given)
    for x in leaves:
        if x is AUTO or isinstance(x, Layout):
            raise ValueError(explain(
                "`jax.jit` does not accept device-local layouts directly. Create a `Format` "
                "instance wrapping this device-local layout and pass that to `jit` instead. Got "
                f"{x}",
                fix="Format(layout, sharding)."))
    laid = any(layout_of(x) is not None for x in leaves)
    return tree_util.tree_map(sharding_in, given), given if laid else None


def _check_leaves(what: str, given: Any) -> None:
    for s in tree_util.tree_leaves(given, is_leaf=lambda v: v is None or isinstance(
            v, (Sharding, PartitionSpec))):
        if not (s is None or isinstance(s, (Sharding, PartitionSpec))):
            raise TypeError(explain(
                f"{what} leaf specifications are expected to be PartitionSpec instances or None, "
                f"but got {s}", fix="pass NamedSharding(mesh, spec)."))
        check_not_empty(what, s)
        spec = s if isinstance(s, PartitionSpec) else getattr(s, "spec", None)
        if spec is not None and PartitionSpec.UNCONSTRAINED in spec.partitions:
            raise ValueError(explain(
                f"Unconstrained dims are not allowed when passed to `{what}`: {s}",
                fix="leave the argument out, or use with_sharding_constraint."))


__all__ = ["PlacedFunction"]


placed.append(PlacedFunction)
