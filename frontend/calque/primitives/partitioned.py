"""custom_partitioning: a call of a Program for which the user says how devices share it.

Evaluated, differentiated and batched it is that Program.  Where a compiled program's arguments are
spread over devices it becomes a shard_map of what the user's function gives
(dispatch/sharded/custom_parts), and its rule says which dimensions of operands are which of results
(transforms/propagate asks `how`, of experimental/custom_partitioning).
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calque.core.avals import ShapedArray
from calque.core.primitive import Primitive
from calque.core.program import Program
from calque.core.types import Function
from calque.primitives.call import jit_p
from calque.transforms.stage import closed, replay

partitioned_p = Primitive(
    "custom_partitioning", multiple_results=True, higher_order=True,
    effects=lambda params: params["jaxpr"].has_effects(), keys=True)


def bind(program: Program, args: Sequence[Any], how: Any) -> list[Any]:
    """how: what the user said; its rule is of the operands behind the program's consts."""
    program, consts = closed(program)
    return partitioned_p.bind(*consts, *args, jaxpr=program, how=how, num_consts=len(consts))


def _as_call(kind: str) -> Function:
    """The rule of a call of its Program."""
    def rule(*args: Any, jaxpr: Program, how: Any, num_consts: int) -> Any:
        return jit_p.rule(kind)(*args, jaxpr=jaxpr, name=jaxpr.name)
    return rule


def _program(*avals: ShapedArray, jaxpr: Program, how: Any, num_consts: int) -> Program:
    return jaxpr


def _opened(params: dict[str, Any]) -> Function:
    return lambda *args, jaxpr, how, num_consts: replay(jaxpr, *args)


partitioned_p.abstract, partitioned_p.jvp = _as_call("abstract"), _as_call("jvp")
partitioned_p.linearize, partitioned_p.transpose = _as_call("linearize"), _as_call("transpose")
partitioned_p.batch, partitioned_p.program = _as_call("batch"), _program
partitioned_p.opened = _opened

__all__ = ["bind", "partitioned_p"]
