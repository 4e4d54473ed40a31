"""A call on a batch of which only some rows are used: a branch of a cond with a mapped predicate.

Values are computed for all rows, and a select drops what the others give.  Their derivatives would
stay: 0 times an infinite one is NaN.  So a derivative enters through another select, which gives
the rows that are not used a tangent of 0, and takes no cotangent from them.  Where nothing is
differentiated the call is a plain one and costs nothing.
Imports call and what it imports.  Start reading at `call_rows`, then `Rows.linearize`.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from calque.core import dtypes
from calque.core.avals import ShapedArray, shape_of
from calque.core.primitive import registry
from calque.core.program import Program, Var
from calque.core.trace import Tracer
from calque.core.zeros import nonzero_mask, nonzeros
from calque.primitives import elementwise as ew
from calque.primitives.call import call, unmask
from calque.transforms.jvp import jvp_program
from calque.transforms.linearize import linearize_flat, linearize_program
from calque.transforms.stage import closed, replay
from calque.transforms.vmap import batch_program, named, to_front, uses_axis, vmap_flat

Axes = Sequence[int | None]


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """What a jit equation is on a batch: a Program, mapped over these axes of its operands, which
    come after `first` consts and the mask.  All are equal: what is compiled does not depend on it.
    """

    program: Program
    size: int
    axes: tuple[int | None, ...]
    first: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rows)

    def __hash__(self) -> int:
        return hash(Rows)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], name: str) -> Any:
        """jvp of the call, as a call of the derived Program."""
        mask, own, moved = primals[self.first], primals[self.first + 1:], tangents[self.first + 1:]
        nonzero = nonzero_mask(moved)
        program, out_mask = jvp_program(self.program, nonzero)
        given = self._entering(mask, nonzeros(moved), nonzero)
        outs, _ = call_rows(program, self.size, [*self.axes, *[0] * len(given)], mask,
                            [*own, *given], f"jvp({name})")
        n = len(self.program.outputs)
        return outs[:n], unmask(outs[n:], out_mask, outs[:n])

    def linearize(self, nonzero: Sequence[bool], primals: Sequence[Any], name: str
                  ) -> tuple[list[Any], Callable[..., list[Any]]]:
        """Values with what the derivative keeps, and the derivative as a plain call."""
        mask, own = primals[self.first], primals[self.first + 1:]
        wanted = nonzero[self.first + 1:]
        forward, tangent, out_mask, sources = linearize_program(self.program, wanted)
        if _by_transpose_only(tangent):  # it has no batching rule: the function is batched before
            outs, out_mask, linear = linearize_flat(lambda *xs: _guarded(
                self.program, self.size, self.axes, mask, xs), own, wanted)
            return outs, lambda *tangents: unmask(replay(linear, *tangents), out_mask, outs)
        n = len(self.program.outputs)
        values, mapped = call_rows(forward, self.size, self.axes, mask, own, name, n)
        # a residual that is an operand needs no copy through the call
        kept = [(own[s], self.axes[s]) if s >= 0 else (v, 0 if m else None)
                for s, v, m in zip(sources, values[n:], mapped[n:])]

        def apply(*tangents: Any) -> list[Any]:
            given = self._entering(mask, tangents, wanted)
            program, _ = batch_program(tangent, self.size, [*[d for _, d in kept],
                                                            *[0] * len(given)], True)
            outs = call(program, [*[v for v, _ in kept], *given], name)
            return unmask(outs, out_mask, values[:n])

        return values[:n], apply

    def batch(self, size: int, args: Sequence[Any], axes: Axes) -> Any:
        """vmap of the call: the selects are written out."""
        first = self.first

        def one(*xs: Any) -> list[Any]:
            return _guarded(self.program, self.size, self.axes, xs[first], xs[first + 1:])

        return vmap_flat(one, size, args, axes, named.get())

    def _entering(self, mask: Any, tangents: Sequence[Any], nonzero: Sequence[bool]) -> list[Any]:
        """Tangents that are 0 in the rows that are not used, mapped along their first axes."""
        axes = [d for d, n in zip(self.axes, nonzero) if n]
        rows = [to_front(t, d, self.size) for t, d in zip(tangents, axes)]
        return [_select(mask, t, ew.match_shape(ew.const(t, 0), shape_of(t))) for t in rows]


def call_rows(program: Program, size: int, axes: Axes, mask: Any, operands: Sequence[Any],
              name: str, forced: int | None = None) -> tuple[list[Any], list[bool]]:
    """The results of a Program on a batch of which the rows of the mask are used, and which of them
    are mapped, along their first axes; forced: how many are so in any case (all by default)."""
    force = [True] * len(program.outputs)
    if forced is not None:
        force[forced:] = [False] * (len(program.outputs) - forced)
    if not any(map(_differentiable, operands)) or _across(program):
        batched, mapped = batch_program(program, size, axes, force)
        return replay(batched, *operands), mapped
    program, consts = closed(program)
    axes, operands = [*[None] * len(consts), *axes], [*consts, *operands]
    batched, mapped = batch_program(program, size, axes, force)
    taking = batched.derived("masked", lambda: batched.replace(
        inputs=[Var(ShapedArray((size,), dtypes.bool_)), *batched.inputs]))
    rows = Rows(program, size, tuple(axes), len(taking.consts))
    return call(taking, [mask, *operands], name, rows), mapped


def _across(program: Program) -> bool:
    """Whether rows that are used read rows that are not, which then have a derivative."""
    name = named.get()
    return name is not None and uses_axis(registry["jit"], {"jaxpr": program}, name)


def _by_transpose_only(program: Program) -> bool:
    """Whether it holds the linear map of a custom_vjp."""
    return any(e.name == "custom_lin" or any(map(_by_transpose_only, e.inner))
               for e in program.equations)


def _differentiable(x: Any) -> bool:
    return isinstance(x, Tracer) and not dtypes.is_key(x.dtype) and dtypes.is_inexact(x.dtype)


def _guarded(program: Program, size: int, axes: Axes, mask: Any, operands: Sequence[Any]
             ) -> list[Any]:
    """The same with the selects written out: what is not used is seen as a constant."""
    own, places = list(operands), list(axes)
    for i, x in enumerate(operands):
        if _differentiable(x):
            row = to_front(x, axes[i], size)
            own[i], places[i] = _select(mask, row, ew.stop_gradient(row)), 0
    return replay(batch_program(program, size, places, True)[0], *own)


def _select(mask: Any, x: Any, other: Any) -> Any:
    which = registry["broadcast_in_dim"].bind(
        mask, shape=shape_of(x), broadcast_dimensions=(0,), sharding=None)
    return ew.select_n(which, other, x)


__all__ = ["Rows", "call_rows"]
