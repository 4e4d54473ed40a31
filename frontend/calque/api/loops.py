"""Loops for users whose end the data may decide: while_loop and fori_loop.

The condition and the body are traced to Programs; what they capture becomes an operand.
Start reading at `while_loop`.
"""
from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from calque.api.control import (
    as_aval,
    as_strong,
    check_unroll,
    own_values,
    promoted,
    refuse_references,
    scan,
)
from calque.core import dtypes
from calque.core.avals import ShapedArray, aval_of
from calque.core.config import config
from calque.core.dims import as_size, max_dim
from calque.core.errors import ConcretizationTypeError, explain
from calque.core.lists import flagged
from calque.core.naming import name_of
from calque.core.program import Program, Var
from calque.core.refs import Ref, Uses, read
from calque.core.trace import Tracer
from calque.core.types import Function
from calque.dispatch.eager import lazy_eval
from calque.dispatch.mismatch import carry_error, carry_structure_error
from calque.dispatch.tracing import check_arguments, trace_with_refs, wrapper_of
from calque.primitives import elementwise as ew
from calque.primitives import while_loop as prim
from calque.trees import util as tree_util


def while_loop(cond_fun: Function, body_fun: Function, init_val: Any) -> Any:
    """val = body_fun(val) while cond_fun(val), beginning with init_val.

    Args:
      cond_fun: function of the carry that returns a boolean scalar.
      body_fun: function of the carry that returns the next one, of the same structure and types.
      init_val: initial carry (array, number or tree of them).

    Returns:
      The carry for which cond_fun is False.  Under vmap each element stops on its own.

    Raises:
      TypeError: cond_fun returns no boolean scalar, or body_fun changes the carry's structure,
        shapes or dtypes.
      ValueError: reverse-mode differentiation reaches the loop (forward mode works).

    Example:
      >>> import calque.lax as lax
      >>> lax.while_loop(lambda x: x < 100, lambda x: x * 2, 3)
      Array(192, dtype=int32, weak_type=True)
    """
    if not (callable(cond_fun) and callable(body_fun)):
        raise TypeError("lax.while_loop: body_fun and cond_fun arguments should be callable.")
    if config.jax_disable_jit:
        with contextlib.suppress(ConcretizationTypeError):  # of a vmap, say: then it is traced
            return _while_in_python(cond_fun, body_fun, init_val)
    leaves, tree = tree_util.flatten(init_val)
    in_tree = tree_util.flatten(((init_val,), {}))[1]
    check_arguments("while_loop", leaves, in_tree, refs=True)
    refuse_references("while_body", body_fun, leaves, tree)
    with lazy_eval("while_loop"):
        avals = [aval_of(x) for x in leaves]
        cond, cond_tree, looks = trace_with_refs(cond_fun, in_tree, avals, name_of(cond_fun),
                                                "while_cond")
        _check_cond(cond, cond_tree, looks)
        body, out_tree, uses = trace_with_refs(body_fun, in_tree, avals, name_of(body_fun),
                                               "while_body")
        _check_structure(body_fun, out_tree, tree)
        given = leaves
        while (grown := promoted(avals, body.out_avals)) != avals:  # weak ones take its dtype
            leaves = [as_aval(x, a) if a is not b else x for x, a, b in zip(leaves, grown, avals)]
            avals = grown
            cond, _, looks = trace_with_refs(cond_fun, in_tree, avals, name_of(cond_fun))
            body, _, uses = trace_with_refs(body_fun, in_tree, avals, name_of(body_fun))
        leaves, avals = as_strong(leaves, avals, body.out_avals)
        if wrong := carry_error("while_loop", body_fun, tree, avals,
                                body.out_avals[:len(avals)]):
            raise wrong
        if looks.closed or uses.closed:
            outs = _while_with_refs(cond, looks, body, uses, leaves)
        else:
            outs = prim.while_loop(cond, [], body, [], leaves)
        # what the body passes on unchanged and the condition does not read is the initial value
        seen = {i for e in cond.equations for i, v in enumerate(cond.inputs) if v in e.inputs}
        return tree.unflatten([
            x if body.outputs[i] is body.inputs[i] and x is leaves[i] and i not in seen else out
            for i, (x, out) in enumerate(zip(given, outs))])


def _while_in_python(cond_fun: Function, body_fun: Function, value: Any) -> Any:
    value = own_values(value)
    while cond_fun(value):
        value = body_fun(value)
    return value


def _while_with_refs(cond: Program, looks: Uses, body: Program, uses: Uses,
                     leaves: Sequence[Any]) -> list[Any]:
    """A while whose functions use references: those that the body writes are carried, the others
    are consts of who reads them."""
    n = len(leaves)
    written = flagged(uses.closed, uses.written)
    moving = {id(r) for r in written}

    def taken(p: Program, closed: Sequence[Ref]) -> tuple[Program, list[Any]]:
        own = dict(zip([id(r) for r in closed], p.inputs[n:]))
        fixed = [r for r in closed if id(r) not in moving]
        inputs = [*[own[id(r)] for r in fixed], *p.inputs[:n],
                  *[own.get(id(r)) or Var(r.abstract.inner_aval) for r in written]]
        return p.replace(inputs=inputs), [read(r) for r in fixed]

    outs = prim.while_loop(*taken(cond, looks.closed), *taken(body, uses.closed),
                           [*leaves, *[read(r) for r in written]])
    return uses.settle(leaves, outs)


def _check_cond(cond: Program, tree: Any, looks: Uses) -> None:
    if any(looks.written):
        raise NotImplementedError(explain(
            "while_loop: cond_fun writes into a reference that was made outside of it.",
            fix="write in body_fun."))
    if len(cond.outputs) != 1 or not tree_util.treedef_is_leaf(tree):
        raise TypeError(explain(
            f"cond_fun must return a boolean scalar, but got pytree {tree}.",
            fix="return one comparison, e.g. carry[0] < n."))
    (out,) = cond.out_avals
    if out.shape or out.dtype != dtypes.bool_:
        raise TypeError(explain(
            f"cond_fun must return a boolean scalar, but got output type(s) {[out]}.",
            fix="return a comparison of scalars; reduce arrays with .any() or .all()."))


def _check_structure(body_fun: Function, out_tree: Any, tree: Any) -> None:
    if out_tree != tree:
        raise carry_structure_error("while_loop", body_fun, tree, out_tree)


def fori_loop(lower: Any, upper: Any, body_fun: Function, init_val: Any, *,
              unroll: int | bool | None = None) -> Any:
    """val = body_fun(i, val) for i from lower to upper - 1.

    Args:
      lower, upper: integer scalars.  Known while tracing, the loop is a scan, which reverse mode
        can differentiate; traced, it is a while_loop.  Floats count in whole steps; known ones are
        cut off to integers.
      body_fun: function of (i, val) that returns the next val.
      init_val: initial value (array, number or tree of them).
      unroll: iterations to write out per loop step (known bounds only).

    Returns:
      The last val; init_val when upper <= lower.

    Raises:
      TypeError: bounds are no real scalars or of unequal types, or body_fun changes val's
        structure, shapes or dtypes.
      OverflowError: a bound, or the number of steps, is too large for an integer.
      ValueError: unroll is given with traced bounds, or is negative.

    Example:
      >>> import calque.lax as lax
      >>> lax.fori_loop(0, 4, lambda i, v: v + i, 0)
      Array(6, dtype=int32, weak_type=True)
    """
    if not callable(body_fun):
        raise TypeError("lax.fori_loop: body_fun argument should be callable.")
    for name, b in (("lower", lower), ("upper", upper)):
        dtypes.check_fits(b)
        aval = aval_of(b)
        if aval.shape or not (dtypes.is_integer(aval.dtype) or dtypes.is_float(aval.dtype)):
            raise TypeError(explain(
                f"lower and upper arguments to fori_loop must be integer scalars: {name} is "
                f"{aval.short()}.", fix="pass a Python int or an integer array of shape ()."))
    dtype, weak = _index_type(aval_of(lower), aval_of(upper))
    if any(isinstance(b, Tracer) and b.concrete() is None for b in (lower, upper)):
        if unroll is not None:
            raise ValueError(explain(
                "Can only use `unroll` in `fori_loop` if the loop bounds are statically known.",
                fix="leave unroll out, or make the bounds static arguments."))
        return _traced_bounds(lower, upper, body_fun, init_val, dtype, weak)
    start, stop = (int(b) if dtypes.is_float(dtype) else as_size(b) for b in (lower, upper))
    n = max_dim(0, stop - start)
    if config.jax_disable_jit and n == 0:  # (scan asks the body for types)
        check_unroll(unroll or 0)
        return init_val

    def counted() -> Function:
        def step(loop_carry: Any, _: Any) -> Any:
            i, val = loop_carry
            return (ew.add(i, ew.const(i, 1)), body_fun(i, val)), None
        return step

    (_, result), _ = scan(wrapper_of(body_fun, "counted", counted), (start, init_val), None,
                          length=n, unroll=1 if unroll is None else unroll)
    return result


def _index_type(lower: ShapedArray, upper: ShapedArray) -> tuple[Any, bool]:
    """Dtype and weak type of a traced index: of equal bounds, or of a weak one and a signed one."""
    given = {(a.dtype, a.weak_type) for a in (lower, upper)}
    weak = lower.weak_type or upper.weak_type
    kinds = {dtypes.is_float(a.dtype) for a in (lower, upper)}
    dtype = dtypes.promote(sorted(given, key=str))[0] if weak or len(given) == 1 else lower.dtype
    if lower.dtype != upper.dtype and not (
            weak and len(kinds) == 1 and (kinds == {True} or dtypes.is_signed(dtype))):
        raise TypeError(explain(
            "lower and upper arguments to fori_loop must have equal types, got "
            f"{lower.dtype.name} and {upper.dtype.name}.",
            fix=f"cast one of them: jnp.{lower.dtype.name}(upper)."))
    return dtype, lower.weak_type and lower.dtype == dtype


def _traced_bounds(lower: Any, upper: Any, body_fun: Any, init_val: Any, dtype: Any,
                   weak: bool) -> Any:
    with lazy_eval("fori_loop"):
        aval = ShapedArray((), dtype, weak)
        first, last = as_aval(lower, aval), as_aval(upper, aval)

        def step(loop_carry: Any) -> Any:
            i, stop, val = loop_carry
            return ew.add(i, ew.const(i, 1)), stop, body_fun(i, val)

        return while_loop(lambda c: ew.lt(c[0], c[1]), step, (first, last, init_val))[2]
