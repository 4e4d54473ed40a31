"""Operations that hold Programs, bound with other ones: what the new ones capture is passed.

Start reading at `bind_inner`.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from calque.core.lists import split_list
from calque.core.primitive import Primitive
from calque.core.program import Program
from calque.core.types import Params
from calque.primitives.control import cond, scan
from calque.primitives.implicit import solved
from calque.primitives.while_loop import while_loop
from calque.transforms.stage import closed, replay


def bind_inner(prim: Primitive, args: Sequence[Any], params: Params,
               change: Callable[[Program], Program]) -> list[Any]:
    """The operation with each of its Programs changed; calls with rules of their own, which no
    transformation will see any more, run what they hold."""
    if prim.name == "scan":
        parts = split_list(args, params["num_consts"], params["num_carry"])
        return scan(change(params["jaxpr"]), *parts, length=params["length"],
                    reverse=params["reverse"], unroll=params["unroll"])
    if prim.name == "while":
        before, inside, carry = split_list(args, params["cond_nconsts"], params["body_nconsts"])
        return while_loop(change(params["cond_jaxpr"]), before, change(params["body_jaxpr"]),
                          inside, carry)
    if prim.name == "cond":
        return cond(args[0], args[1:], [change(b) for b in params["branches"]])
    if prim.name == "custom_linear_solve":
        held, given = solved(args, **params)
        return replay(change(held), *given)
    inner = params.get("jaxpr", params.get("call_jaxpr"))
    if "call_jaxpr" in params or inner is None or len(inner.inputs) != len(args):
        if inner is None or len(inner.inputs) != len(args):
            if prim.program is None:
                raise NotImplementedError(f"{prim.name}: communicates between processes")
            inner = prim.program(**params)
        return replay(change(inner), *args)
    made, consts = closed(change(inner))
    return list(prim.bind(*consts, *args, **{**params, "jaxpr": made}))


__all__ = ["bind_inner"]
