"""Numbers of fewer bits than hardware computes in, by NumPy: lowering/passes/narrow writes what is
computed with them in operations over bytes, and those have rules.

So eager results are the compiled ones, bit for bit.  Start reading at `computed`.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import ShapedArray
from calque.core.memo import Memo
from calque.core.primitive import Primitive
from calque.core.program import Equation, Literal, Program, Var
from calque.core.types import Function, Ndarray, Params
from calque.lowering.passes.narrow import over_bytes, same_byte_p

_programs = Memo(4096)
_SMALL = frozenset((*dtypes.SMALL_FLOATS, *dtypes.SMALL_INTEGERS))
# its least number is a denormal of float32, which compiled programs take for 0
_COMPILED = frozenset(d for d in dtypes.SMALL_FLOATS if d.name == "float8_e8m0fnu")


def is_computed(prim: Primitive, avals: Sequence[ShapedArray], out: Any) -> bool:
    """Whether an operation of such numbers does more than move them."""
    for a in avals:  # (a loop, since every eager operation comes here)
        if a.dtype in _SMALL:
            break
    else:
        if prim.multiple_results or out.dtype not in _SMALL:
            return False
    return not prim.moves or prim.name in ("convert_element_type", "bitcast_convert_type", "iota")


def computed(prim: Primitive, avals: Sequence[ShapedArray], params: Params,
             values: Sequence[Ndarray], rules: Mapping[str, Function]) -> Any:
    """The value, or values, of a primitive; None where some step has no rule."""
    p = _program(prim, avals, params)
    if p is None:
        return None
    env: dict[Any, Any] = dict(zip(p.inputs, values))
    for e in p.equations:
        rule = _same_byte if e.primitive is same_byte_p else rules.get(e.name)
        if rule is None:
            return None
        outs = [v.aval for v in e.outputs]
        made = rule(outs if e.primitive.multiple_results else outs[0], *[
            np.asarray(a.value) if isinstance(a, Literal) else env[a] for a in e.inputs],
            **e.params)
        if made is None:
            return None
        env.update(zip(e.outputs, made if e.primitive.multiple_results else [np.asarray(made)]))
    found = [env[v] for v in p.outputs]
    return found if prim.multiple_results else found[0]


def _program(prim: Primitive, avals: Sequence[ShapedArray], params: Params) -> Program | None:
    plain = [a.plain for a in avals]
    try:
        key = (prim, *plain, *params.items())
        found = _programs.get(key)
    except TypeError:  # a parameter that has no hash
        return None
    if found is None:
        out = prim.rule("abstract")(*plain, **params)
        inputs = [Var(a) for a in plain]
        outputs = [Var(a.plain) for a in (out if prim.multiple_results else (out,))]
        made = over_bytes(Program(inputs, [Equation(prim, tuple(inputs), tuple(outputs), params)],
                                  outputs))
        known = not any(v.aval.dtype in _COMPILED for v in (*inputs, *outputs))
        found = _programs.keep(key, (made if known else None,))
    program: Program | None = found[0]
    return program


def _same_byte(out: Any, x: Ndarray, *, new_dtype: Any) -> Ndarray:
    return np.ascontiguousarray(x).view(new_dtype).reshape(x.shape)
