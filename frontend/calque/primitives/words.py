"""Loops on the words of keys, in operations that kernels of ours have: the rule `words` of scan and
while, which lowering asks (lowering/passes/legalize).

Every equation of a loop's Programs is bound anew: a key is uint32[..., 2], what has no form in
kernels is what expansions.py writes it in, weak types are gone.  Start reading at `loop_in_words`.
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import ShapedArray, aval_of, ndim_of, shape_of
from calque.core.config import config
from calque.core.evaluate import each
from calque.core.lists import split_list
from calque.core.primitive import registry
from calque.core.program import Equation, Program
from calque.core.types import Params
from calque.core.words import forms, physical_params
from calque.primitives import elementwise as ew
from calque.primitives import guarded
from calque.primitives import reduce as rd
from calque.primitives import shape as sh
from calque.primitives.expansions import EXPANSIONS, NoExpansion
from calque.primitives.inner import bind_inner
from calque.primitives.outside import OUTSIDE
from calque.primitives.while_loop import while_loop
from calque.transforms.stage import replay, stage

KIND = "fry"  # threefry2x32's keys: the others draw by functions that kernels lack
ALIKE = frozenset(("broadcast_in_dim", "transpose", "slice", "gather", "scatter", "concatenate",
                   "rev", "squeeze", "copy", "stop_gradient"))


def loop_in_words(e: Equation, masked: bool) -> Program | None:
    """A loop as a Program of that loop alone, on words; None where something in it has no such
    form.  masked: loops with a predicate for each element go on while one of them does."""
    try:
        return _staged(lambda *xs: _words(e, list(xs), masked),
                       [_words_of(a.aval) for a in e.inputs], e.name)
    except NoExpansion:
        return None


def program_in_words(p: Program, masked: bool = False) -> Program:
    """p on words instead of keys; NoExpansion where an equation has no such form.  masked: loops
    with a predicate for each element go on while one of them does."""
    return p.derived(("in words", masked), lambda: _staged(
        lambda *xs: each(p, [*p.consts, *xs], lambda a: a.value,
                         lambda e, values: _words(e, values, masked)),
        [_words_of(v.aval) for v in p.inputs], p.name))


def _program(p: Program, masked: bool) -> Program | None:
    try:
        return program_in_words(p, masked)
    except NoExpansion:
        return None


def _outside(p: Program) -> Program | None:
    """p on words, with what rules write around their kernels as equations; None where an equation
    has no such form."""
    def one(e: Equation, xs: list[Any]) -> Sequence[Any]:
        if not e.inner:
            return _words(e, xs, False, OUTSIDE)
        for a in (*e.inputs, *e.outputs):
            if dtypes.is_key(a.aval.dtype):
                raise NoExpansion(f"{e.name} of keys")
        out: Sequence[Any] = e.primitive.bind(*xs, **e.params)
        return out

    try:
        return p.derived("outside", lambda: _staged(
            lambda *xs: each(p, [*p.consts, *xs], lambda a: a.value, one),
            [_words_of(v.aval) for v in p.inputs], p.name))
    except NoExpansion:
        return None


def _staged(f: Callable[..., Sequence[Any]], avals: Sequence[ShapedArray], name: str) -> Program:
    """The same whatever the user's settings are now: every number has the dtype that it says."""
    with config.context("jax_enable_x64", True):
        return stage(f, avals, name)


def _words_of(a: ShapedArray) -> ShapedArray:
    if not dtypes.is_key(a.dtype):
        return ShapedArray(a.shape, a.dtype)  # (weak types have had their say)
    if a.dtype.tag != KIND:
        raise NoExpansion(f"keys of {a.dtype.impl}")
    return ShapedArray((*a.shape, 2), np.dtype("uint32"))


def _words(e: Equation, xs: list[Any], masked: bool,
           expansions: Mapping[str, Callable[..., list[Any]]] = EXPANSIONS) -> Sequence[Any]:
    """The results of an equation on words."""
    for a in (*e.inputs, *e.outputs):
        _words_of(a.aval)  # (keys of other kinds are made in loops, too)
    if e.name in expansions:
        if not all(a.aval.size for a in (*e.inputs, *e.outputs)):
            raise NoExpansion("kernels have no empty arrays")
        return expansions[e.name](*xs, **e.params)
    if e.name == "convert_element_type":
        return [ew.convert(xs[0], e.params["new_dtype"])]
    if e.inner:
        change = functools.partial(program_in_words, masked=masked)
        if masked and e.name == "while" and e.params["cond_jaxpr"].out_avals[0].ndim:
            return _masked(xs, e.params, change)
        return bind_inner(e.primitive, xs, dict(e.params), change)
    ins, outs = [a.aval for a in e.inputs], [v.aval for v in e.outputs]
    if not any(dtypes.is_key(a.dtype) for a in (*ins, *outs)):
        out = e.primitive.bind(*xs, **e.params)
        return out if e.primitive.multiple_results else [out]
    form = FORMS.get(e.name)
    if form is not None:
        return [form(*xs, **e.params)]
    if e.name not in ALIKE:
        raise NoExpansion(f"{e.name} of keys")
    params = physical_params(e.name, dict(e.params), ins, outs)
    if e.name == "broadcast_in_dim":
        params = {**params, "shape": (*params["shape"], 2)}
    return [e.primitive.bind(*xs, **params)]


def _masked(xs: list[Any], params: Params, change: Callable[[Program], Program]) -> list[Any]:
    """A loop with a predicate for each element, with one: whether one of them goes on."""
    before, inside, start = split_list(xs, params["cond_nconsts"], params["body_nconsts"])
    test, body, k = change(params["cond_jaxpr"]), change(params["body_jaxpr"]), len(before)

    def goes_on(*values: Any) -> list[Any]:
        (each_one,) = replay(test, *values)
        return [rd.reduce_or_p.bind(each_one, axes=tuple(range(ndim_of(each_one))),
                                    out_sharding=None)]

    def step(*values: Any) -> list[Any]:
        consts, carry = values[:k + len(inside)], values[k + len(inside):]
        (go,) = replay(test, *consts[:k], *carry)
        return guarded.step(body, go, consts[k:], carry)

    avals = [aval_of(x) for x in xs]
    return while_loop(stage(goes_on, [*avals[:k], *avals[k + len(inside):]], "cond"), before,
                      stage(step, avals, "body"), [*before, *inside], start)


# ---- operations on keys whose parameters or operands differ on words
def _reshape(x: Any, *, new_sizes: Sequence[int], **params: Any) -> Any:
    return sh.reshape(x, (*new_sizes, 2))


def _dynamic_slice(x: Any, *starts: Any, slice_sizes: Sequence[int], **params: Any) -> Any:
    return registry["dynamic_slice"].bind(x, *starts, _zero(starts), **{
        **params, "slice_sizes": (*slice_sizes, 2)})


def _dynamic_update_slice(x: Any, update: Any, *starts: Any, **params: Any) -> Any:
    return registry["dynamic_update_slice"].bind(x, update, *starts, _zero(starts), **params)


def _zero(starts: Sequence[Any]) -> Any:
    return aval_of(starts[0]).dtype.type(0) if starts else np.int32(0)


def _select_n(which: Any, *cases: Any) -> Any:
    if ndim_of(which):
        shape = shape_of(which)
        which = sh.broadcast_in_dim(which, (*shape, 2), tuple(range(len(shape))))
    return ew.select_n(which, *cases)


def _compared(x: Any, y: Any, equal: bool) -> Any:
    wide = max(shape_of(x), shape_of(y), key=len)
    x, y = (v if shape_of(v) == wide else sh.broadcast_in_dim(v, wide, (len(wide) - 1,))
            for v in (x, y))
    fold: Callable[..., Any] = rd.reduce_and_p.bind if equal else rd.reduce_or_p.bind
    return fold((ew.eq if equal else ew.ne)(x, y), axes=(len(wide) - 1,), out_sharding=None)


FORMS: dict[str, Callable[..., Any]] = {
    "reshape": _reshape, "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice, "select_n": _select_n,
    "eq": functools.partial(_compared, equal=True),
    "ne": functools.partial(_compared, equal=False)}

forms.program, forms.outside = _program, _outside
registry["scan"].words = registry["while"].words = loop_in_words
for _name in EXPANSIONS:
    registry[_name].kernel = "expanded"

__all__ = ["loop_in_words", "program_in_words"]
