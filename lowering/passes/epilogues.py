"""What is done to a convolution's result element by element, as part of it: a number of each
feature added, another array added, no negative numbers (a layer with bias, residual and relu).

As kernels of their own they read and write the result once more each.  Start reading at
`with_epilogues`.
"""
from __future__ import annotations

import math
import operator
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from calque.core.primitive import registry
from calque.core.program import Atom, Equation, Literal, Program, Var, eliminate_dead_code
from calque.lowering.emit.dtypes import F32, F64
from calque.lowering.passes import cost
from calque.lowering.passes.flat import flat
from calque.lowering.plan.switches import off

LEAST_DEPTH = 8  # elements of a window: of fewer another form is ahead (rules/conv)
WIDE, MANY = 16, 128  # input features and places of one whose features come last
_VIEWS = ("reshape", "squeeze", "broadcast_in_dim")


@dataclass(frozen=True, slots=True)
class Epilogue:
    """Which operands of the call are the operand, the kernel, the numbers of features and the
    other array (-1: there is none), and whether negative numbers become zero."""

    x: int
    y: int
    shift: int
    more: int
    rectified: bool


def with_epilogues(p: Program) -> Program:
    """p with calls in the place of such convolutions, at any depth, but for loops that are
    kernels."""
    if off("convolutions") or "conv_general_dilated" not in p.names() or not _holds(p):
        return p
    return p.derived("epilogues", lambda: _with_epilogues(p))


def _holds(p: Program) -> bool:
    return any(_is_of_kernel(e) or any(map(_holds, e.inner)) for e in p.equations)


def _is_of_kernel(e: Equation) -> bool:
    """Whether a convolution is the C kernel's, and its result lies as that computes it."""
    if e.name != "conv_general_dilated" or e.is_dynamic:
        return False
    q, (x, y), out = e.params, (a.aval for a in e.inputs), e.outputs[0].aval
    d = q["dimension_numbers"]
    depth = math.prod(y.shape) // max(1, y.shape[d.rhs_spec[0]])
    if not (x.dtype == y.dtype == out.dtype and out.dtype in (F32, F64) and 0 not in (
            *x.shape, *y.shape, *out.shape) and {
                *q["lhs_dilation"], q["feature_group_count"], q["batch_group_count"]} == {1}
            and min(map(min, q["padding"]), default=0) >= 0 and depth >= LEAST_DEPTH
            and 1 <= len(q["window_strides"]) <= 2):
        return False
    f = d.out_spec[1]
    if f < out.ndim - 1:
        return f == 1 and d.out_spec[0] == 0
    return (d.out_spec[0] == 0 and out.shape[f] * out.dtype.itemsize > 64
            and math.prod(y.shape[i] for i in d.rhs_spec[2:]) > 1
            and y.shape[d.rhs_spec[1]] >= WIDE and out.size // out.shape[f] >= MANY)


def _with_epilogues(p: Program) -> Program:
    whole = flat(p)
    makers: dict[Atom, Equation] = {v: e for e in whole.equations for v in e.outputs}
    users: dict[Atom, list[Equation]] = defaultdict(list)
    for e in whole.equations:
        for a in dict.fromkeys(e.inputs):
            users[a].append(e)
    results, within = set(whole.outputs), set[int]()
    calls: dict[int, list[Equation]] = {}  # by the last equation that they are
    for e in whole.equations:
        if _is_of_kernel(e):
            members, given, rectified = _followed(e, makers, users, results, within)
            if members:
                within.update(id(q) for q in (e, *members))
                calls[id(members[-1])] = _called(e, members, given, rectified)
    equations: list[Equation] = []
    for e in whole.equations:
        if id(e) in calls:
            equations += calls[id(e)]
        elif id(e) not in within:
            equations.append(e if cost.is_kernel(e) else e.with_inner(with_epilogues))
    same = len(equations) == len(whole.equations) and all(map(
        operator.is_, equations, whole.equations))
    return p if same else eliminate_dead_code(whole.replace(equations=equations))


def _followed(e: Equation, makers: dict[Atom, Equation], users: dict[Atom, list[Equation]],
              results: set[Atom], within: set[int]
              ) -> tuple[list[Equation], tuple[Atom | None, Atom | None], bool]:
    """The equations that are a convolution's epilogue, what they add, and whether they end in a
    maximum with zero."""
    members, shift, more, rectified = list[Equation](), None, None, False
    last: Atom = e.outputs[0]
    while not rectified and last not in results and len(users[last]) == 1:
        (user,) = users[last]
        if user.name not in ("add", "max") or id(user) in within or (
                user.outputs[0].aval != e.outputs[0].aval) or user.inputs.count(last) != 1:
            break
        (other,) = [a for a in user.inputs if a is not last]
        if user.name == "max":
            if not (isinstance(other, Literal) and other.value == 0):
                break
            rectified = True
        elif (found := _of_features(other, e, makers)) is not None and shift is None and (
                more is None):
            shift = found
        elif more is None and isinstance(other, Var) and other.aval == last.aval:
            more = other
        else:
            break
        members.append(user)
        last = user.outputs[0]
    return members, (shift, more), rectified


def _of_features(a: Atom, e: Equation, makers: dict[Atom, Equation]) -> Atom | None:
    """The array of a number for each feature that `a` repeats; None where it is none."""
    axis, size = e.params["dimension_numbers"].out_spec[1], e.outputs[0].aval.shape[
        e.params["dimension_numbers"].out_spec[1]]
    maker = makers.get(a)
    if maker is None or maker.name != "broadcast_in_dim" or size == 1:
        return None
    found, places = maker.inputs[0], maker.params["broadcast_dimensions"]
    if not isinstance(found, Var) or [k for k, n in zip(places, found.aval.shape) if n > 1] != [
            axis] or found.aval.size != size:
        return None
    while (maker := makers.get(found)) is not None and maker.name in _VIEWS and (
            maker.inputs[0].aval.size == size):
        found = maker.inputs[0]
    return found if isinstance(found, Var) else None


def _called(e: Equation, members: Sequence[Equation], given: tuple[Atom | None, Atom | None],
            rectified: bool) -> list[Equation]:
    """The call, behind what pads its operand."""
    q, (x, y), out = e.params, e.inputs, members[-1].outputs[0]
    before = list[Equation]()
    if any(map(any, q["padding"])):
        config = [(0, 0, 0)] * x.aval.ndim
        for axis, (low, high) in zip(q["dimension_numbers"].lhs_spec[2:], q["padding"]):
            config[axis] = low, high, 0
        around = Var(x.aval.update(shape=tuple(
            n + low + high for n, (low, high, _) in zip(x.aval.shape, config))))
        zero = Literal(x.aval.dtype.type(0), x.aval.update(shape=()))
        before.append(Equation(registry["pad"], (x, zero), (around,), {
            "padding_config": tuple(config)}, e.source, e.scope))
        x = around
        e = e.replace(inputs=(x, y), params={**q, "padding": ((0, 0),) * len(q["padding"])})
    shift, more = given
    inputs = list(dict.fromkeys(a for a in (x, y, shift, more) if isinstance(a, Var)))
    steps, spread = [e], list[Equation]()
    if shift is not None:  # (as a Program says it)
        axis = q["dimension_numbers"].out_spec[1]
        flat_shift: Atom = shift
        if shift.aval.ndim != 1:
            flat_shift = Var(shift.aval.update(shape=(shift.aval.size,)))
            spread.append(Equation(registry["reshape"], (shift,), (flat_shift,), {
                "new_sizes": (shift.aval.size,), "dimensions": None, "sharding": None}, e.source,
                e.scope))
        whole = Var(out.aval)
        spread.append(Equation(registry["broadcast_in_dim"], (flat_shift,), (whole,), {
            "shape": out.aval.shape, "broadcast_dimensions": (axis,), "sharding": None}, e.source,
            e.scope))
    last: Atom = e.outputs[0]
    for member in members:
        if member.name == "add":
            (other,) = [a for a in member.inputs if a is not last]
            if spread and member is members[0] and other is not more:
                steps += spread
                member = member.replace(inputs=(last, whole))
        steps.append(member)
        last = member.outputs[0]
    places: dict[Atom, int] = {v: k for k, v in enumerate(inputs)}
    added, other_one = (-1 if a is None else places[a] for a in given)
    how = Epilogue(places[x], places[y], added, other_one, rectified)
    return [*before, Equation(registry["jit"], tuple(inputs), (out,), {
        "jaxpr": Program(inputs, steps, (out,), name="convolution"), "name": "convolution",
        "rows": how}, e.source, e.scope)]


__all__ = ["Epilogue", "with_epilogues"]
