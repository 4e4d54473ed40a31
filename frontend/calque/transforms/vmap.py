"""Batching: values carry the axis they are mapped over; rules run under the parent trace.

`vmap_flat` for functions, `batch_program` for Programs, and the helpers that batching rules use
(`move_axis`, `to_front`, `broadcast_axis`).  Start reading at `BatchTrace.process`.
"""
from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any

from calque.core import leaks
from calque.core.avals import ShapedArray, aval_of, ndim_of
from calque.core.config import config
from calque.core.lists import inserted
from calque.core.primitive import Primitive, registry
from calque.core.program import Program, inner_of
from calque.core.source import here
from calque.core.trace import (
    Trace,
    Tracer,
    as_current,
    axis_bound,
    current,
    escaped_tracer_error,
)
from calque.core.types import Function, Params
from calque.core.zeros import Zero, is_zero
from calque.transforms.stage import replay, stage


class BatchTracer(Tracer):
    """One element of a batch: `value` has the mapped axis `axis`, which the aval hides."""

    __slots__ = ("value", "axis", "_aval")
    shown = "VmapTracer"

    def __init__(self, trace: BatchTrace, value: Any, axis: int) -> None:
        self._trace, self.value, self.axis = trace, value, axis
        a = aval_of(value)
        self._aval = a.of_shape(a.shape[:axis] + a.shape[axis + 1:])

    @property
    def aval(self) -> ShapedArray:
        return self._aval

    @property
    def val(self) -> Any:
        """The batch, as JAX calls it."""
        return self.value

    @property
    def batch_dim(self) -> int:
        """The mapped axis, as JAX calls it (brainstate)."""
        return self.axis

    def said(self) -> str:
        return f"aval={self._aval}, batched={aval_of(self.value)}"


# The name of the axis whose batching rule runs, for rules that batch a Program.
vmappables: dict[type, Any] = {}  # what interpreters.batching.register_vmappable noted
named: contextvars.ContextVar[Any] = contextvars.ContextVar("calque_named_axis", default=None)


def _under_name(name: Any, rule: Function, /, *args: Any, **params: Any) -> Any:
    token = named.set(name)
    try:
        return rule(*args, **params)
    finally:
        named.reset(token)


def uses_axis(prim: Primitive, params: Params, name: Any) -> bool:
    """Whether an operation refers to a named axis, itself or in a Program that it holds."""
    if prim.collective is not None:
        return name in params["axes"]
    return any(p.derived(("axis", name), lambda p=p: any(  # type: ignore[misc]
        uses_axis(e.primitive, e.params, name) for e in p.equations)) for p in inner_of(params))


def calls_everywhere(prim: Primitive, params: Params) -> bool:
    """Whether an operation calls a function of the user's, for what it does, once on each device,
    itself or in a Program that it holds."""
    return prim.name in ("io_callback", "debug_callback") or any(
        p.derived("calls everywhere", lambda p=p: any(  # type: ignore[misc]
            calls_everywhere(e.primitive, e.params) for e in p.equations))
        for p in inner_of(params))


# Whether the axis whose batching rule runs is one of devices: of these each takes its own branch
# and ends its loops when it likes (primitives/while_loop, control), other axes are masked.
of_devices: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "calque_device_axis", default=False)

# The mesh axes that split the axis whose batching rule runs (vmap's spmd_axis_name).
spmd_axes: contextvars.ContextVar[tuple[Any, ...]] = contextvars.ContextVar(
    "calque_spmd_axes", default=())


def split_by_vmap() -> frozenset[Any]:
    """The mesh axes that split what the vmaps around here map (their spmd_axis_name)."""
    found: frozenset[Any] = frozenset(spmd_axes.get())
    t: Trace | None = current.get()
    while t is not None:
        found |= frozenset(t.spmd) if isinstance(t, BatchTrace) else frozenset()
        t = t.parent
    return found


class BatchTrace(Trace):
    """Applies batching rules; `axis_name` names the mapped axis for collectives, `spmd` the mesh
    axes that split it."""

    __slots__ = ("size", "axis_name", "devices", "spmd")
    kind = "vmap"

    def __init__(self, parent: Trace, size: int, axis_name: Any = None,
                 devices: bool | None = None, spmd: tuple[Any, ...] | None = None) -> None:
        super().__init__(parent)
        self.spmd = spmd_axes.get() if spmd is None else spmd
        self.size, self.axis_name = size, axis_name
        self.devices = of_devices.get() if devices is None else devices

    def split(self, x: Any) -> tuple[Any, int | None]:
        if type(x) is BatchTracer and x._trace is self:
            if not self.open:
                raise escaped_tracer_error(x, "vmap")
            return x.value, x.axis
        return x, None

    def wrap(self, value: Any, axis: int | None) -> Any:
        return value if axis is None else BatchTracer(self, value, axis)

    def again(self, f: Callable[..., Sequence[Any]], args: Sequence[Any],
              axes: Sequence[int | None]) -> tuple[list[Any], list[int | None]]:
        """Results of f with their axes, as from vmap_flat: over the trace that is current, and of
        this very axis while it is open, so that f may close over values of this trace."""
        if not self.open:
            return vmap_flat(f, self.size, args, axes, self.axis_name, self.devices, self.spmd)
        before, self.parent = self.parent, current.get()
        try:
            with as_current(self):
                outs = f(*map(self.wrap, args, axes))
            pairs = [self.split(o) for o in outs]
        finally:
            self.parent = before
        return [v for v, _ in pairs], [d for _, d in pairs]

    def process(self, prim: Primitive, args: Sequence[Any], params: Params) -> Any:
        assert self.parent is not None
        if prim.within is not None and not isinstance(params["call_jaxpr"], Program):
            return self._within(prim, args, params)
        mine = any(type(a) is BatchTracer and a._trace is self for a in args)
        if self.axis_name is not None and (
                mine and prim.inline is not None  # (its rules may use the axis)
                or uses_axis(prim, params, self.axis_name)
                or self.devices and not mine and calls_everywhere(prim, params)):
            return self._named(prim, args, params)
        if not mine:
            return self.parent.process(prim, args, params)
        values, axes = zip(*[self.split(a) for a in args])
        rule = prim.rule("batch")
        if self.devices is not of_devices.get() or self.spmd is not spmd_axes.get():
            return self._told(self.process, prim, args, params)
        with as_current(self.parent):
            if named.get() is None:
                out, axis = rule(self.size, values, axes, **params)
            else:
                out, axis = _under_name(None, rule, self.size, values, axes, **params)
        if prim.multiple_results:
            return list(map(self.wrap, out, axis))
        return self.wrap(out, axis)

    def _within(self, prim: Primitive, args: Sequence[Any], params: Params) -> Any:
        """What holds Python functions, which run in this trace, mapped operands or not."""
        assert self.parent is not None and prim.within is not None
        if self.devices is not of_devices.get() or self.spmd is not spmd_axes.get():
            return self._told(self._within, prim, args, params)
        pairs = [self.split(a) for a in args]
        with as_current(self.parent):
            out, axis = prim.within(self.again, self.size, [v for v, _ in pairs],
                                    [d for _, d in pairs], **params)
        return list(map(self.wrap, out, axis))

    def _told(self, way: Function, prim: Primitive, args: Sequence[Any],
              params: Params) -> Any:
        """A way to process an operation whose rules ask what this axis is."""
        devices, spmd = of_devices.set(self.devices), spmd_axes.set(self.spmd)
        try:
            return way(prim, args, params)
        finally:
            of_devices.reset(devices)
            spmd_axes.reset(spmd)

    def _named(self, prim: Primitive, args: Sequence[Any], params: Params) -> Any:
        """What uses this trace's axis by its name, or calls Python on each of its devices, whether
        or not an operand is mapped."""
        assert self.parent is not None
        if self.devices is not of_devices.get() or self.spmd is not spmd_axes.get():
            return self._told(self._named, prim, args, params)
        pairs = [self.split(a) for a in args]
        with as_current(self.parent):
            if prim.collective is not None:
                value, dim = pairs[0] if pairs else (None, None)
                out, axis = prim.collective(self.axis_name, self.size, value, dim, **params)
            else:
                values, dims = [v for v, _ in pairs], [d for _, d in pairs]
                out, axis = _under_name(self.axis_name, prim.rule("batch"), self.size, values,
                                        dims, **params)
        if prim.multiple_results:
            return list(map(self.wrap, out, axis))
        return self.wrap(out, axis)


def vmap_flat(f: Callable[..., Sequence[Any]], size: int, args: Sequence[Any],
              in_axes: Sequence[int | None], axis_name: Any = None, devices: bool | None = None,
              spmd: tuple[Any, ...] | None = None) -> tuple[list[Any], list[int | None]]:
    """Outputs with their mapped axes (None: not mapped) under the current trace; devices: the axis
    is one of devices, spmd: the mesh axes that split it (None: as the axis whose rule runs)."""
    trace = BatchTrace(current.get(), size, axis_name, devices, spmd)
    trace.source = here()
    try:
        with as_current(trace), axis_bound(axis_name, size):
            outs = f(*[trace.wrap(a, d) for a, d in zip(args, in_axes)])
        pairs = [trace.split(o) for o in outs]
    finally:
        trace.close()
    if config.jax_check_tracer_leaks:
        del outs
        leaks.check(trace)
    return [v for v, _ in pairs], [d for _, d in pairs]


def batch_program(p: Program, size: int, in_axes: Sequence[int | None],
                  force: Sequence[bool] | bool = False, vma: frozenset[Any] = frozenset()
                  ) -> tuple[Program, list[bool]]:
    """The batched Program and which outputs are batched (always along axis 0).

    `force` makes outputs batched even when they do not depend on a mapped input; what is mapped
    varies over `vma`.
    """
    forced = [force] * len(p.outputs) if isinstance(force, bool) else list(force)
    name = named.get()

    def make() -> tuple[Program, list[bool]]:
        mask: list[bool] = []

        def run(*values: Any) -> list[Any]:
            outs, axes = vmap_flat(lambda *xs: replay(p, *xs), size, values, in_axes, name)
            mask.extend(d is not None or f for d, f in zip(axes, forced))
            return all_to_front(outs, axes, size, mask)

        avals = [a if d is None else a.of_shape(inserted(a.shape, d, size))
                 for a, d in zip(p.in_avals, in_axes)]
        if vma:
            avals = [a if d is None else a.marked(a.placement, a.vma | vma)
                     for a, d in zip(avals, in_axes)]
        return stage(run, avals, f"vmap_{p.name}"), mask

    what = ("vmap", size, tuple(in_axes), tuple(forced), name, of_devices.get(),
            spmd_axes.get(), vma)
    return p.derived(what, make)


# ---- helpers for batching rules
def move_axis(x: Any, source: int, target: int) -> Any:
    """x with one axis moved (a transpose)."""
    ndim = ndim_of(x)
    source, target = source % ndim, target % ndim
    if source == target:
        return x
    order = [i for i in range(ndim) if i != source]
    order.insert(target, source)
    return registry["transpose"].bind(x, permutation=tuple(order))


def broadcast_axis(x: Any, size: int, axis: int) -> Any:
    """x repeated along a new axis."""
    a = aval_of(x)
    shape = inserted(a.shape, axis, size)
    if is_zero(x):  # (what rules of libraries give is one, too)
        return Zero(a.update(shape=shape))
    dims = tuple(i for i in range(len(shape)) if i != axis)
    return registry["broadcast_in_dim"].bind(
        x, shape=shape, broadcast_dimensions=dims, sharding=None)


def to_front(x: Any, axis: int | None, size: int) -> Any:
    """x with its batch axis first; an unbatched x is repeated."""
    return broadcast_axis(x, size, 0) if axis is None else move_axis(x, axis, 0)


def all_to_front(xs: Sequence[Any], axes: Sequence[int | None], size: int,
                 mask: Iterable[bool] = repeat(True)) -> list[Any]:
    """Those of the mask by to_front, the others as they are."""
    return [to_front(x, d, size) if m else x for x, d, m in zip(xs, axes, mask)]


def mapped_to_front(xs: Sequence[Any], axes: Sequence[int | None]) -> list[Any]:
    """Those that are mapped with the batch axis first, the others as they are."""
    return [x if d is None else move_axis(x, d, 0) for x, d in zip(xs, axes)]


def front_axes(mask: Sequence[bool]) -> list[int | None]:
    """The axes of what is mapped along its first axis where the mask says so."""
    return [0 if m else None for m in mask]


def batch_first(p: Primitive) -> Function:
    """The batching rule of what takes any leading axes, and leaves them in front."""
    def rule(size: int, args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
        out = p.bind(*all_to_front(args, dims, size), **params)
        return (out, [0] * len(out)) if p.multiple_results else (out, 0)
    return rule


__all__ = ["all_to_front", "batch_first", "batch_program", "broadcast_axis", "front_axes",
           "mapped_to_front", "move_axis", "split_by_vmap", "to_front", "vmap_flat", "BatchTrace",
           "BatchTracer"]
