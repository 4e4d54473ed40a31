"""Collectives that no vmap has given a meaning: the name of the axis is not bound."""
from __future__ import annotations

from calque.core.errors import explain
from calque.lowering.emit.builder import Value
from calque.lowering.emit.registry import Op, rule


@rule("psum", "pmax", "pmin", "ppermute", "all_gather", "reduce_scatter", "all_to_all",
      "axis_index", "psum_invariant", "invary_unreduced_cast", "unreduced_psum",
      "unreduced_reduce_scatter", "all_gather_reduced")
def _unbound(op: Op) -> list[Value]:
    raise NameError(explain(
        f"Found an unbound axis name: {', '.join(map(str, op['axes']))}: "
        f"{op.ctx.equation.name} needs a mapped axis of that name.",
        where=str(op.ctx.equation.source), fix="call the function under "
        "shard_map over a mesh with that axis, or under pmap or vmap(..., axis_name=...)."))
