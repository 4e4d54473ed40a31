"""Which results of an equation depend on operands that are not known yet, and those that do not.

Used by partial_eval.  Start reading at `KnownTrace`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calque.core.lists import flagged, split_list
from calque.core.primitive import Primitive
from calque.core.program import Atom, Program, Var, eliminate_dead_code
from calque.core.trace import as_current
from calque.core.types import Params
from calque.primitives.control import fixed_point
from calque.transforms.linearize import SplitTrace
from calque.transforms.stage import replay


class KnownTrace(SplitTrace):
    """Runs what depends on known values, and stages the rest: of an equation of a Program its known
    results are computed, for the others it is staged whole."""

    __slots__ = ()

    def _split(self, prim: Primitive, mine: Sequence[bool], args: Sequence[Any],
               params: Params) -> list[Any]:
        late = _late_results(prim.name, mine, params)
        if late is None:
            return super()._split(prim, mine, args, params)
        made: list[Any] = [None] * len(late)
        if any(late):
            made = self.tangents.process(prim, args, params)
        if all(late):
            return made
        assert self.parent is not None
        with as_current(self.parent):
            known = iter(_known_results(prim, mine, args, params, late))
        return [o if unknown else next(known) for o, unknown in zip(made, late)]


def _late(p: Program, mine: Sequence[bool]) -> list[bool]:
    """Which results of a Program depend on the inputs that are marked."""
    late: set[Var] = {v for v, m in zip(p.inputs, mine) if m}

    def is_late(a: Atom) -> bool:
        return isinstance(a, Var) and a in late

    for e in p.equations:
        own = [is_late(a) for a in e.inputs]
        if any(own):
            found = _late_results(e.name, own, e.params)
            late.update(flagged(e.outputs, found or [True] * len(e.outputs)))
    return [is_late(o) for o in p.outputs]


def _late_results(name: str, mine: Sequence[bool], params: Params) -> list[bool] | None:
    """_late of an equation; None where nothing is known of the kind."""
    if name in ("jit", "checkpoint"):
        return _late(params["jaxpr"], mine)
    if name == "cond":
        each = [_late(b, mine[1:]) for b in params["branches"]]
        return [mine[0] or any(of) for of in zip(*each)]
    if name == "scan":
        return _late(params["jaxpr"], _of_steps(mine, params))
    return None


def _of_steps(mine: Sequence[bool], params: Params) -> list[bool]:
    count = params["num_carry"]
    return fixed_point(mine, params["num_consts"], count,
                       lambda m: _late(params["jaxpr"], m)[:count])


def _part(p: Program, mine: Sequence[bool], late: Sequence[bool]) -> Program:
    """The results that are not late, by the inputs that are not marked."""
    unknown: set[Var] = set(flagged(p.inputs, mine))
    equations = []
    for e in p.equations:
        own = [isinstance(a, Var) and a in unknown for a in e.inputs]
        if any(own):
            found = _late_results(e.name, own, e.params) or [True] * len(e.outputs)
            unknown.update(flagged(e.outputs, found))
            if all(found):
                continue
            kept, params = _known_form(e.primitive, own, e.params, found)
            e = e.replace(params=params, inputs=tuple(flagged(e.inputs, kept)),
                          outputs=tuple(flagged(e.outputs, [not f for f in found])))
        if not e.primitive.has_effects(e.params):
            equations.append(e)
    known = [not x for x in late]
    return eliminate_dead_code(p.replace(
        inputs=flagged(p.inputs, [not m for m in mine]), equations=equations,
        outputs=flagged(p.outputs, known)))


def _known_form(prim: Primitive, mine: Sequence[bool], params: Params, late: Sequence[bool]
                ) -> tuple[list[bool], Params]:
    """Which operands the results that are not late need, and the parameters that give these."""
    if prim.name in ("jit", "checkpoint"):
        return [not m for m in mine], {**params, "jaxpr": _part(params["jaxpr"], mine, late)}
    if prim.name == "cond":
        return [not m for m in mine], {**params, "branches": tuple(
            _part(b, mine[1:], late) for b in params["branches"])}
    mine = _of_steps(mine, params)
    kept = [not m for m in mine]
    consts, carry, _ = split_list(kept, params["num_consts"], params["num_carry"])
    return kept, {**params, "jaxpr": _part(params["jaxpr"], mine, late),
                  "num_consts": sum(consts), "num_carry": sum(carry)}


def _known_results(prim: Primitive, mine: Sequence[bool], args: Sequence[Any], params: Params,
                   late: Sequence[bool]) -> list[Any]:
    kept, params = _known_form(prim, mine, params, late)
    if prim.name in ("jit", "checkpoint"):
        return list(replay(params["jaxpr"], *flagged(args, kept)))
    return list(prim.bind(*flagged(args, kept), **params))
