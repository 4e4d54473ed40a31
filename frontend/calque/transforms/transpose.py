"""The backward pass: cotangents flow through a linear Program from outputs to inputs.

`backward(p, args, cts)` runs under the current trace; `transpose_program` is the staged form that
rules of higher-order primitives use.  Start reading at `backward`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calque.core import dtypes
from calque.core.avals import ShapedArray, aval_of
from calque.core.primitive import UndefinedPrimal, is_linear, registry
from calque.core.program import Atom, Equation, Literal, Program, Var
from calque.core.refs import Frame, Uses
from calque.core.source import replaying
from calque.core.trace import current
from calque.core.zeros import Zero, add_tangents, instantiate, is_zero
from calque.transforms import sums
from calque.transforms.explicit import is_explicit
from calque.transforms.stage import literal_value, stage

# Primitives whose cotangents are weak where their operands are, as in JAX.
_TYPED = frozenset(("dot_general", "conv_general_dilated", "scan", "scatter", "scatter-add"))


def backward(p: Program, args: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
    """Cotangents of the inputs given as UndefinedPrimal, in input order (Zero where nothing flows).

    args: one per input, UndefinedPrimal(aval) for those to differentiate, a value for the others.
    """
    with p.own_width():
        return _backward(p, args, cts)


def _backward(p: Program, args: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
    known: dict[Var, Any] = dict(zip(p.const_vars, p.consts))
    linear: set[Var] = set()
    for v, a in zip(p.inputs, args):
        if is_linear(a):
            linear.add(v)
        else:
            known[v] = a

    def read(a: Atom) -> Any:
        if isinstance(a, Literal):
            return literal_value(a)
        return UndefinedPrimal(a.aval) if a in linear else known[a]

    tape: list[Equation] = []
    for e in p.equations:
        if any(isinstance(a, Var) and a in linear for a in e.inputs):
            linear.update(e.outputs)
            tape.append(e)
        else:  # does not depend on the linear inputs: run it forward
            out = e.primitive.bind(*[read(a) for a in e.inputs], **e.params)
            known.update(zip(e.outputs, out if e.primitive.multiple_results else [out]))

    flowing: dict[Var, Any] = {}

    def collect(atom: Atom, ct: Any) -> None:
        if isinstance(atom, Var) and atom in linear and ct is not None and not is_zero(ct):
            if atom.aval.plain is not atom.aval or aval_of(ct).vma:
                ct = typed_as(ct, atom.aval.cotangent())
            flowing[atom] = add_tangents(flowing[atom], ct) if atom in flowing else ct

    for o, ct in zip(p.outputs, cts):
        collect(o, ct)
    for e in reversed(tape):
        _pull(e, flowing, read, collect)
    return [flowing.get(v, Zero(v.aval.cotangent()))
            for v, a in zip(p.inputs, args) if is_linear(a)]


def typed_as(ct: Any, aval: ShapedArray) -> Any:
    """A cotangent that varies, is a summand, and is spread as its type says."""
    if aval_of(ct).vma - aval.vma or sums.any_of([aval, aval_of(ct)]):
        ct = sums.brought(ct, aval.vma)
    if is_explicit(aval) and aval_of(ct).placement != aval.placement:
        ct = registry["sharding_constraint"].bind(ct, sharding=aval.placement)
    return ct


def _pull(e: Equation, flowing: dict[Var, Any], read: Any, collect: Any) -> None:
    """Send the cotangents of an equation's outputs to its linear inputs."""
    if e.name != "custom_lin" and not any(v in flowing for v in e.outputs):
        return  # (a rule of the user's is asked even then, as in JAX: it may give more than zeros)
    cts = [flowing.pop(v, None) for v in e.outputs]
    cts = [Zero(v.aval.cotangent()) if c is None else c for v, c in zip(e.outputs, cts)]
    token = replaying.set(e.source)
    try:
        rule, args = e.primitive.rule("transpose"), [read(a) for a in e.inputs]
        result = None
        if e.primitive.mixed is not None and sums.any_of([a.aval for a in e.inputs]):
            result = e.primitive.mixed(cts[0], e.primitive, args, e.params)
        if result is None:
            result = rule(cts if e.primitive.multiple_results else cts[0], *args, **e.params)
    finally:
        replaying.reset(token)
    for a, ct in zip(e.inputs, result):
        if e.name in _TYPED and not (ct is None or is_zero(ct)):
            ct = _weak_as(ct, a.aval)
        collect(a, ct)


def _weak_as(ct: Any, aval: ShapedArray) -> Any:
    a = aval_of(ct)
    if a.weak_type or not aval.weak_type or a.dtype != aval.dtype:
        return ct
    return registry["convert_element_type"].bind(ct, new_dtype=a.dtype, weak_type=True,
                                                 sharding=None)


def transpose_program(p: Program, linear: Sequence[bool], ct_given: Sequence[bool],
                      forced: Sequence[bool] | None = None
                      ) -> tuple[Program, list[bool], Uses | None]:
    """The Program of (non-linear inputs, given output cotangents) -> cotangents of linear inputs.

    Returns it with the mask of the linear inputs that get one, and what becomes of references that
    backward rules touch; `forced` instantiates some.
    """
    def make() -> tuple[Program, list[bool], Uses | None]:
        mask: list[bool] = []
        uses: list[Uses] = []
        frame = Frame(current.get())

        def run(*values: Any) -> list[Any]:
            count = len(p.inputs) - sum(linear)
            known, given = iter(values[:count]), iter(values[count:])
            args = [UndefinedPrimal(v.aval) if n else next(known) for v, n in zip(p.inputs, linear)]
            cts = [next(given) if g else Zero(o.aval.cotangent())
                   for o, g in zip(p.outputs, ct_given)]
            result = backward(p, args, cts)
            force = forced or [False] * len(result)
            mask.extend((not is_zero(c)) or (f and c.dtype != dtypes.float0)
                        for c, f in zip(result, force))
            outs = [instantiate(c) for c, m in zip(result, mask) if m]
            if local := list(frame.local.values()):
                uses.append(Uses(len(outs), [], [], [v.ref for v in local],
                                 [v.written for v in local]))
            return [*outs, *[v.value for v in local if v.written]]

        avals = [v.aval for v, n in zip(p.inputs, linear) if not n]
        avals += [o.aval.cotangent() for o, g in zip(p.outputs, ct_given) if g]
        made = stage(run, avals, f"transpose_{p.name}", frame=frame)
        return made, mask, uses[0] if uses else None

    what = ("transpose", tuple(linear), tuple(ct_given), tuple(forced or ()))
    return p.derived(what, make)
