"""pallas_call: a Program of blocks, run in every cell of a grid.

`jaxpr` takes the cell's place (an int32 for each axis of the grid), a block of each operand, of
each result (what is there before) and the scratch arrays, and gives blocks and scratch as the cell
leaves them: references were discharged when the kernel was traced.  `index_maps[i]` says of a place
which block of array i (operands, then results) the cell sees, `blocks[i]` how large it is.
Derivatives and lowering take it as the Program of whole arrays that grid.py makes.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calque.core.avals import ShapedArray
from calque.core.primitive import Primitive
from calque.core.program import Program, Var
from calque.core.types import Params, Shape
from calque.primitives.call import jit_p
from calque.primitives.grid import Block, expanded
from calque.transforms.vmap import all_to_front

pallas_call_p = Primitive("pallas_call", multiple_results=True,
                          effects=lambda params: params["jaxpr"].has_effects())


@dataclass(frozen=True)
class GridMapping:
    """The grid and the block of each array, operands first.

    Args:
      grid: number of cells along each axis.
      block_mappings: a Block for each operand and each result.

    Example:
      >>> from calque.primitives.pallas import GridMapping
      >>> GridMapping((2,), ())
      GridMapping(grid=(2,), block_mappings=())
    """

    grid: Shape
    block_mappings: tuple[Block, ...]


def _program(*, jaxpr: Program, grid_mapping: GridMapping, index_maps: tuple[Program, ...],
             out_avals: tuple[ShapedArray, ...],
             input_output_aliases: tuple[tuple[int, int], ...], **_: Any) -> Program:
    key = ("pallas", grid_mapping, tuple(m.key() for m in index_maps), out_avals,
           input_output_aliases)
    return jaxpr.derived(key, lambda: expanded(
        jaxpr, grid_mapping.grid, grid_mapping.block_mappings, index_maps, out_avals,
        dict((o, i) for i, o in input_output_aliases)))


def _abstract(*avals: ShapedArray, out_avals: tuple[ShapedArray, ...],
              **params: Any) -> list[ShapedArray]:
    return list(out_avals)


def _called(params: Params) -> dict[str, Any]:
    return {"jaxpr": _program(**params), "name": params["name"] or "pallas_call"}


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    return jit_p.rule("jvp")(primals, tangents, **_called(params))


def _linearize(nonzero: Sequence[bool], primals: Sequence[Any], **params: Any
               ) -> tuple[list[Any], Callable[..., list[Any]]]:
    made: tuple[list[Any], Callable[..., list[Any]]] = jit_p.rule("linearize")(
        nonzero, primals, **_called(params))
    return made


def _transpose(cts: Sequence[Any], *args: Any, **params: Any) -> list[Any]:
    made: list[Any] = jit_p.rule("transpose")(cts, *args, **_called(params))
    return made


def _batch(size: int, args: Sequence[Any], dims: Sequence[int | None], *, jaxpr: Program,
           grid_mapping: GridMapping, index_maps: tuple[Program, ...],
           out_avals: tuple[ShapedArray, ...],
           input_output_aliases: tuple[tuple[int, int], ...], **params: Any) -> Any:
    """One more axis of the grid, before the others."""
    aliased = {i for i, _ in input_output_aliases}
    mapped = [d is not None or i in aliased for i, d in enumerate(dims)] + [True] * len(out_avals)
    values = all_to_front(args, dims, size, mapped)
    blocks = tuple(b.of_batch(size) if m else b
                   for b, m in zip(grid_mapping.block_mappings, mapped))
    maps = tuple(p.derived(("pallas batch", m), lambda p=p, m=m: _with_axis(p, m))  # type: ignore[misc]
                 for p, m in zip(index_maps, mapped))
    outs = pallas_call_p.bind(
        *values, jaxpr=jaxpr.derived("pallas batch", lambda: _with_axis(jaxpr, False)),
        grid_mapping=GridMapping((size, *grid_mapping.grid), blocks), index_maps=maps,
        out_avals=tuple(a.of_shape((size, *a.shape)) for a in out_avals),
        input_output_aliases=input_output_aliases, **params)
    return outs, [0] * len(outs)


def _with_axis(p: Program, mapped: bool) -> Program:
    """A Program that takes one more place before the others; mapped: and gives it."""
    place = Var(ShapedArray((), np.int32))
    return p.replace(inputs=(place, *p.inputs),
                     outputs=(place, *p.outputs) if mapped else p.outputs)


pallas_call_p.abstract, pallas_call_p.jvp, pallas_call_p.batch = _abstract, _jvp, _batch
pallas_call_p.linearize, pallas_call_p.transpose = _linearize, _transpose
pallas_call_p.program = lambda *avals, **params: _program(**params)
