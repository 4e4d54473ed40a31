"""vmap of objects that a library takes apart itself (interpreters.batching.register_vmappable).

Such an object is a leaf: inside the ordinary vmap of what else there is, the library's `to_elt`
makes its element of it, and `from_elt` what is given back of a result.  Start reading at `mapped`.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from calque.core import dtypes
from calque.core.errors import explain
from calque.core.naming import name_of
from calque.core.trace import current
from calque.core.types import Function
from calque.primitives import shape as sh
from calque.transforms.vmap import BatchTrace, BatchTracer, broadcast_axis, move_axis, vmappables
from calque.trees import util as tree_util


class _Box:
    """An object that is no node of a tree, whatever it is elsewhere."""

    __slots__ = ("held",)

    def __init__(self, held: Any) -> None:
        self.held = held


class OfArrays:
    """The function that the ordinary vmap maps."""

    def __init__(self, fun: Function, name: str) -> None:
        self.fun, self.__name__ = fun, name

    def __call__(self, values: Sequence[Any]) -> Any:
        return self.fun(values)


def is_registered(x: Any) -> bool:
    return type(x) in vmappables


def is_spec(x: Any) -> bool:
    """Whether it says, in in_axes or out_axes, how a registered object is mapped."""
    return x is None or any(isinstance(x, spec) for spec, _, _ in vmappables.values())


def mapped(vmap: Callable[..., Function], fun: Function, in_axes: Any, out_axes: Any, size: Any,
           args: tuple[Any, ...], kwargs: dict[str, Any], **options: Any) -> Any:
    """What vmap(fun, in_axes, out_axes, ...)(*args, **kwargs) gives."""
    leaves, tree = tree_util.flatten((args, kwargs), is_registered)
    boxed = tree.unflatten([_Box(x) for x in leaves])
    prefix = (in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(args), 0)
    axes = _expanded("vmap in_axes", prefix, ((*boxed[0],), boxed[1]))
    mine = [i for i, x in enumerate(leaves) if is_registered(x)]
    others = [i for i, x in enumerate(leaves) if not is_registered(x)]
    out_specs: list[Any] = []  # of the results that are no registered objects
    made: dict[int, Any] = {}
    out_tree: list[Any] = []

    def inner(values: Sequence[Any]) -> list[Any]:
        trace = current.get()
        assert isinstance(trace, BatchTrace)
        given = dict(zip(others, values))
        given |= {i: _element(trace, leaves[i], axes[i]) for i in mine}
        a, k = tree.unflatten([given[i] for i in range(len(leaves))])
        outs, there = tree_util.flatten(fun(*a, **k), is_registered)
        wanted = _expanded("vmap out_axes", out_axes, there.unflatten([_Box(o) for o in outs]))
        out_tree.append(there)
        for i, (out, spec) in enumerate(zip(outs, wanted)):
            if is_registered(out):
                made[i] = _whole(trace, out, spec)
            else:
                out_specs.append(spec)
        return [o for o in outs if not is_registered(o)]

    plain = vmap(OfArrays(inner, name_of(fun)), in_axes=([axes[i] for i in others],),
                 out_axes=out_specs, axis_size=size, **options)([leaves[i] for i in others])
    rest = iter(plain)
    count = out_tree[0].num_leaves
    return out_tree[0].unflatten([made[i] if i in made else next(rest) for i in range(count)])


def _expanded(what: str, prefix: Any, tree: Any) -> list[Any]:
    """An entry of in_axes or out_axes for each leaf."""
    return tree_util.prefix_leaves(prefix, tree, is_spec, lambda _: explain(
        f"{what} specification must be a tree prefix of the corresponding value, got specification "
        f"{prefix}.", fix="give one entry for the whole value, or one per part."))


def _element(trace: BatchTrace, x: Any, spec: Any) -> Any:
    """A registered object's element; spec None: itself."""
    if spec is None:
        return x

    def take(value: Any, axis: int | None) -> Any:
        if axis is None:
            return value
        n = value.shape[axis]
        if n != trace.size:
            raise ValueError(explain(
                f"vmap: an axis of size {n} in an object of {type(x).__name__}, and axis_size is "
                f"{trace.size}.", fix="map axes of one size."))
        return BatchTracer(trace, value, axis)
    return vmappables[type(x)][1](
        take, lambda: BatchTracer(trace, sh.iota(dtypes.int32, (trace.size,)), 0), x, spec)


def _whole(trace: BatchTrace, x: Any, spec: Any) -> Any:
    """A registered object of all elements, of one that stands for each."""
    def give(size: int, value: Any, axis: int | None) -> Any:
        value, have = trace.split(value)
        if axis is None:
            if have is not None:
                raise ValueError(explain(
                    f"at vmap out_axes, got axis spec None but a part of {type(x).__name__} was "
                    f"batched on axis {have}.", fix="say where the mapped axis goes."))
            return value
        if have is None:
            return broadcast_axis(value, trace.size, axis)
        return move_axis(value, have, axis)
    return vmappables[type(x)][2](give, trace.size, x, spec)
