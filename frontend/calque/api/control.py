"""Structured control flow for users: cond, switch, scan, map (loops.py has the other loops).

Branches and bodies are traced to Programs; what they capture becomes an operand.
Start reading at `scan`.
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.api.batching import vmap
from calque.core import dtypes
from calque.core.avals import ShapedArray, aval_of, shape_of
from calque.core.config import config
from calque.core.dims import as_size
from calque.core.errors import explain
from calque.core.naming import name_of
from calque.core.program import Program
from calque.core.refs import (
    AbstractRef,
    Ref,
    Uses,
    check_distinct,
    equal_uses,
    read,
    refuse_result,
)
from calque.core.source import asked_by_ours
from calque.core.trace import Tracer, concretization_error
from calque.core.types import Function
from calque.dispatch.array import Array, to_array
from calque.dispatch.eager import lazy_eval
from calque.dispatch.mismatch import branch_error, carry_error, carry_structure_error
from calque.dispatch.ref_parts import refuse_views
from calque.dispatch.tracing import check_arguments, name_at, trace_with_refs, type_of
from calque.primitives import control
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh
from calque.primitives.collectives import pvary_p
from calque.transforms.explicit import is_explicit
from calque.transforms.stage import replay, stage
from calque.trees import util as tree_util

# ---- cond and switch
_NONE: Any = object()  # `operand=` is not given; None is an argument of the branches


def _given(name: str, operands: tuple[Any, ...], operand: Any) -> tuple[Any, ...]:
    if operand is _NONE:
        return operands
    if operands:
        raise TypeError(explain(f"{name}: both operands and the keyword `operand` are given.",
                                fix="pass them by position only."))
    return (operand,)


def switch(index: Any, branches: Sequence[Function], *operands: Any,
           operand: Any = _NONE) -> Any:
    """branches[index](*operands); an index outside is clamped to the nearest branch.

    Args:
      index: integer scalar.
      branches: functions with equal output types.
      *operands: arrays or trees passed to the branch.
      operand: the one operand, in the older form of the call.

    Returns:
      The output of the branch.

    Raises:
      TypeError: the index is no integer scalar, a branch is not callable, or the branches' outputs
        differ in structure, shape or dtype.
      ValueError: there are no branches.

    Example:
      >>> import calque.lax as lax
      >>> lax.switch(1, [lambda x: x, lambda x: -x], 3.0)
      Array(-3., dtype=float32, weak_type=True)
    """
    if not all(callable(b) for b in branches):
        raise TypeError("lax.switch: branches argument should be a sequence of callables.")
    if not branches:
        raise ValueError("Empty branch sequence")
    operands = _given("switch", operands, operand)
    if index is None or isinstance(index, str) or callable(index) and not hasattr(
            index, "aval"):
        raise TypeError(explain(f"Index type must be an integer, got {index!s}.",
                                fix="pass an integer scalar."))
    aval = aval_of(np.asarray(index) if isinstance(index, (list, tuple)) else index)
    if aval.shape:
        raise TypeError(explain(f"Branch index must be scalar, got {index} of shape "
                                f"{aval.shape}.", fix="pass a scalar, or vmap the switch."))
    if dtypes.is_key(aval.dtype) or aval.dtype.kind not in "iu":
        raise TypeError(explain(f"Index type must be an integer, got {index} as {aval.dtype.name}.",
                                fix="cast the index with .astype(jnp.int32)."))
    if config.jax_disable_jit and isinstance(index, (int, Array)) and not (
            isinstance(index, Tracer) and index.concrete() is None):
        return branches[min(max(int(index), 0), len(branches) - 1)](*operands)
    with lazy_eval("switch"):
        if len(branches) == 1:
            return branches[0](*operands)
        safe = ew.clamp(np.int32(0), ew.convert(index, np.int32),
                        np.int32(len(branches) - 1))
        return _branch("switch", safe, branches, operands)


def cond(pred: Any, *args: Any, **kwargs: Any) -> Any:
    """true_fun(*operands) if pred else false_fun(*operands).

    Args:
      pred: boolean (or number) scalar.
      true_fun, false_fun: functions with equal output types.
      *operands: arrays or trees passed to the branch.

    Returns:
      The output of the branch.

    Raises:
      TypeError: pred is no scalar, a branch is not callable, or the branches' outputs differ in
        structure, shape or dtype.

    Example:
      >>> import calque.lax as lax
      >>> lax.cond(True, lambda x: x + 1, lambda x: x - 1, 10.0)
      Array(11., dtype=float32, weak_type=True)
    """
    return _cond(pred, *args, **kwargs)


def _cond(pred: Any, true_fun: Any, false_fun: Any, *operands: Any, operand: Any = _NONE,
          linear: Any = None) -> Any:
    if not (callable(true_fun) and callable(false_fun)):
        if len(operands) == 2 and callable(false_fun) and callable(operands[1]):
            # the old form: cond(pred, true_operand, true_fun, false_operand, false_fun)
            t_op, t_fun, f_op, f_fun = true_fun, false_fun, *operands
            return _cond(pred, lambda ops: t_fun(ops[0]), lambda ops: f_fun(ops[1]), (t_op, f_op))
        raise TypeError("lax.cond: true_fun and false_fun arguments should be callable.")
    operands = _given("cond", operands, operand)
    if not hasattr(pred, "aval") and not isinstance(pred, (bool, int, float, np.generic,
                                                           np.ndarray)):
        raise TypeError(explain(
            "cond predicate is None" if pred is None else
            f"Pred must be a scalar, got {pred} of type {type(pred)}."
            if isinstance(pred, (str, list, tuple)) else
            f"Pred type must be either boolean or number, got {pred}.",
            fix="pass a bool or a scalar array."))
    aval = aval_of(pred)
    if aval.shape:
        raise TypeError(explain(
            f"Pred must be a scalar, got {pred} of shape {aval.shape}.",
            fix="use jnp.where for elementwise choice, or reduce with .any() or .all()."))
    if dtypes.is_key(aval.dtype) or aval.dtype.kind not in "biuf":  # (bfloat16 is "V", int4 too)
        raise TypeError(explain(
            f"Pred type must be either boolean or number, got {aval.dtype.name}.",
            fix="compare it with a number."))
    if config.jax_disable_jit and not isinstance(pred, Tracer):
        return true_fun(*operands) if pred else false_fun(*operands)
    with lazy_eval("cond"):
        flag = pred if aval.dtype == dtypes.bool_ else ew.ne(pred, ew.const(pred, 0))
        index = ew.convert(flag, np.int32)
        return _branch("cond", index, [false_fun, true_fun], operands)


def _branch(name: str, index: Any, branches: Sequence[Function],
            operands: Sequence[Any]) -> Any:
    leaves, tree = tree_util.flatten((tuple(operands), {}))
    check_arguments(name, leaves, tree, refs=True)
    refs = [i for i, x in enumerate(leaves) if type(x) is Ref]
    if len({id(leaves[i]) for i in refs}) < len(refs):
        check_distinct(f"{name_of(branches[-1])} for {name}", [leaves[i] for i in refs],
                       [name_at(branches[-1], tree, i) for i in refs])
    avals = [type_of(x) for x in leaves]
    order = [1, 0] if name == "cond" else range(len(branches))  # true_fun is the first of cond's
    found: dict[int, Any] = {}
    for i in order:  # a function that stands for several branches is called once, as in JAX
        same = next((k for k in found if branches[k] is branches[i] and not refs), None)
        found[i] = (trace_with_refs(branches[i], tree, avals, verb=name) if same is None
                    else found[same])
    out_tree = found[0][1]
    traced, uses = equal_uses(len(leaves), [
        (p, u) for p, _, u in (found[i] for i in range(len(branches)))])
    labels = ["false_fun", "true_fun"] if name == "cond" else [
        f"branches[{i}]" for i in range(len(branches))]
    if wrong := branch_error(name, [labels[i] for i in order], [found[i][1] for i in order],
                             [traced[i].out_avals for i in order]):
        raise wrong
    # weak types are those of the first branch (cond's false_fun), as in JAX
    programs = [_matched(p, traced[0].out_avals) for p in traced]
    if uses is None:
        return out_tree.unflatten(control.cond(index, leaves, programs))
    outs = control.cond(index, uses.operands(name, leaves), programs)
    return out_tree.unflatten(uses.settle(leaves, outs))


def scan(f: Function, init: Any, xs: Any = None, length: int | None = None,
         reverse: bool = False, unroll: int | bool = 1, _split_transpose: bool = False) -> Any:
    """Loop with a carry: (carry, y) = f(carry, x) for each x; returns (carry, stacked ys).

    Args:
      f: function of (carry, x) that returns (carry, y); types of the carry must not change.
      init: initial carry (tree).
      xs: tree of arrays with a common leading axis, or None.
      length: number of iterations when xs is None.
      reverse: run from the last x to the first.
      unroll: iterations to write out per loop step (True: all).

    Returns:
      (final carry, ys stacked along a new leading axis).

    Raises:
      TypeError: the carry's type changes, f does not return a pair.
      ValueError: leading axes differ, or unroll is negative.

    Example:
      >>> import calque.lax as lax, calque.numpy as jnp
      >>> lax.scan(lambda c, x: (c + x, c * x), 0.0, jnp.array([1., 2., 3.]))
      (Array(6., dtype=float32), Array([0., 2., 9.], dtype=float32))
    """
    if not callable(f):
        raise TypeError("lax.scan: f argument should be a callable.")
    xs_leaves, xs_tree = tree_util.flatten(xs)
    if any(type(x) is Ref for x in xs_leaves):
        refuse_views(name_of(f), xs)
    _refuse_traced(length, "`length` argument to `scan` expects a concrete `int` value. For a "
                   "number of steps that is known when it runs, use `while_loop` or `fori_loop`.")
    n = _scan_length(xs_leaves, length)
    _refuse_traced(unroll, "`unroll` argument to `scan` expects a concrete `int` or `bool` value.")
    check_unroll(unroll)
    unroll = n if unroll is True else int(unroll)
    if config.jax_disable_jit:
        return _scan_in_python(f, init, xs_leaves, xs_tree, n, reverse)
    init_leaves, init_tree = tree_util.flatten(init)
    check_arguments("scan", [*init_leaves, *xs_leaves], tree_util.flatten(((init, xs), {}))[1],
                    refs=True)
    refuse_references("scan", f, init_leaves, init_tree)
    with lazy_eval("scan"):
        x_avals = [_row(type_of(x)) for x in xs_leaves]
        carry_avals = [aval_of(x) for x in init_leaves]
        in_tree = tree_util.tree_structure(((init_tree.unflatten(init_leaves),
                                             xs_tree.unflatten(xs_leaves)), {}))
        program, out_tree, uses = trace_with_refs(f, in_tree, [*carry_avals, *x_avals], name_of(f),
                                                  "scan")
        carry_out = _check_body(f, program, out_tree, carry_avals, init_tree)
        given = init_leaves
        # a weak initial value takes the dtype that the body makes of it
        while (grown := promoted(carry_avals, carry_out)) != carry_avals:
            init_leaves = [x if a is b else as_aval(x, a)
                           for x, a, b in zip(init_leaves, grown, carry_avals)]
            carry_avals = grown
            program, out_tree, uses = trace_with_refs(
                f, in_tree, [*carry_avals, *x_avals], name_of(f), "scan")
            carry_out = _check_body(f, program, out_tree, carry_avals, init_tree)
        init_leaves, carry_avals = as_strong(init_leaves, carry_avals, carry_out)
        if wrong := carry_error("scan", f, init_tree, carry_avals, carry_out):
            raise wrong
        loop = functools.partial(control.scan, length=n, reverse=reverse, unroll=unroll)
        if uses.places or uses.closed:
            outs = _scan_with_refs(loop, program, uses, init_leaves, xs_leaves)
        else:
            outs = loop(program, [], init_leaves, xs_leaves)
        k = len(init_leaves)
        ys_tree = out_tree.children()[1]
        # what the body passes on unchanged is the initial value itself
        final = [x if program.outputs[i] is program.inputs[i] and x is init_leaves[i] else out
                 for i, (x, out) in enumerate(zip(given, outs))]
        return init_tree.unflatten(final), ys_tree.unflatten(outs[k:])


def _row(aval: Any) -> Any:
    """The type of an element of what is scanned; of a reference it is one, too."""
    if type(aval) is AbstractRef:
        return AbstractRef(_row(aval.inner_aval), kind=aval.kind)
    made = aval.update(shape=aval.shape[1:])
    if not is_explicit(aval):
        return made
    first, *rest = aval.placement.spec.of_rank(aval.ndim).partitions
    if first is not None:
        raise ValueError(explain(
            f"0th dimension of all xs should be replicated. Got {aval.placement.spec}",
            fix="spread another dimension first (calque.sharding.reshard)."))
    return made.marked(aval.placement.update(spec=aval.placement.spec.update(partitions=rest)),
                       made.vma)


def refuse_references(verb: str, f: Any, leaves: Sequence[Any], tree: Any) -> None:
    """ValueError for a carry that is a reference: the body would have to return it."""
    refs = [i for i, x in enumerate(leaves) if type(x) is Ref]
    if not refs:
        return
    refuse_views(name_of(f), tree.unflatten(leaves))
    if len({id(leaves[i]) for i in refs}) < len(refs):
        whole = tree_util.tree_structure(((tree.unflatten(leaves),), {}))
        check_distinct(f"{name_of(f)} for {verb}", [leaves[i] for i in refs],
                       [name_at(f, whole, i) for i in refs])
    path = tree_util.tree_leaves_with_path(tree.unflatten(range(len(leaves))))[refs[0]][0]
    raise refuse_result(name_of(f), verb, leaves[refs[0]], tree_util.keystr(path))


def _scan_with_refs(loop: Callable[..., list[Any]], p: Program, uses: Uses, init: Sequence[Any],
                    xs: Sequence[Any]) -> list[Any]:
    """A scan that uses references: those closed over and read are consts, those written are
    carried; rows of scanned ones are scanned, and stacked where they are written."""
    leaves = [*init, *xs]
    values = uses.operands("scan", leaves)
    k, count = len(init), len(leaves)
    carried = [i for i, w in enumerate(uses.written) if w]
    fixed = [i for i, w in enumerate(uses.written) if not w]
    stacked = len(uses.stored)
    ends = p.outputs[uses.count:]
    body = p.replace(
        inputs=[*[p.inputs[count + i] for i in fixed], *p.inputs[:k],
                *[p.inputs[count + i] for i in carried], *p.inputs[k:count]],
        outputs=[*p.outputs[:k], *ends[stacked:], *p.outputs[k:uses.count], *ends[:stacked]])
    outs = loop(body, [values[count + i] for i in fixed],
                [*values[:k], *[values[count + i] for i in carried]], values[k:count])
    m = k + len(carried)
    proper, rows = outs[m:m + uses.count - k], outs[m + uses.count - k:]
    return uses.settle(leaves, [*outs[:k], *proper, *rows, *outs[k:m]])


def _refuse_traced(x: Any, told: str) -> None:
    """ConcretizationTypeError for a number that must be known."""
    if isinstance(x, Tracer) and x.concrete() is None:
        raise concretization_error(
            x, "Abstract tracer value encountered where concrete value is expected: traced array "
            f"with shape {x.aval.short()}. The {told}", "mark the argument as static.")


def _scan_length(leaves: Sequence[Any], length: int | None) -> int:
    for x in leaves:
        if not type_of(x).shape:
            raise ValueError(explain(
                "scan got value with no leading axis to scan over: a scalar in xs.",
                fix="close over the scalar instead, or put it in the carry."))
    sizes = {type_of(x).shape[0] for x in leaves}
    if length is not None:
        if any(s != length for s in sizes):
            raise ValueError(explain(
                f"scan got `length` argument of {length} which disagrees with leading axis sizes "
                f"{sorted(sizes)}.", fix="leave length out, or give xs that many rows."))
        if isinstance(length, int) and length >= 1 << 63:
            raise OverflowError(explain(f"scan: a loop of {length} steps does not end.",
                                        fix="pass a length below 2**63."))
        return as_size(length)
    if len(sizes) > 1:
        raise ValueError(explain(
            "scan got values with different leading axis sizes: "
            f"{', '.join(str(s) for s in sorted(sizes))}.",
            fix="give all of xs the same leading axis."))
    if not sizes:
        raise ValueError(explain("scan got no values to scan over and `length` not "
                                 "provided.", fix="pass length=."))
    return as_size(sizes.pop())


def promoted(have: Sequence[ShapedArray], out: Sequence[ShapedArray]) -> list[ShapedArray]:
    """The carry's types for which the body is traced anew: weak initial values that are promoted to
    the dtype of what the body makes of them; in shard_map what loops of our own start from varies
    as far as the body makes it vary."""
    pairs = list(zip(have, out))
    if any(b.vma - a.vma for a, b in pairs) and asked_by_ours("api"):
        return [a.marked(a.placement, a.vma | b.vma) for a, b in pairs]
    return [_widened(a, b) if a.weak_type and a.shape == b.shape and a.dtype != b.dtype
            and not dtypes.is_key(b.dtype) else a for a, b in pairs]


def _widened(a: ShapedArray, b: ShapedArray) -> ShapedArray:
    dtype = dtypes.promote([(a.dtype, True), (b.dtype, b.weak_type)])[0]
    return a if dtype == a.dtype else ShapedArray(a.shape, dtype)


def as_strong(leaves: Sequence[Any], have: Sequence[ShapedArray], out: Sequence[ShapedArray]
              ) -> tuple[list[Any], list[ShapedArray]]:
    """A carry whose weak initial values are strong where the body's are. The body stays as it was
    traced: it is called once, and what it computes of a weak value has the types it had there."""
    avals = [a.strong() if a.weak_type and not b.weak_type else a for a, b in zip(have, out)]
    return [x if a is b else as_aval(x, a) for x, a, b in zip(leaves, avals, have)], avals


def as_aval(x: Any, aval: ShapedArray) -> Any:
    if more := aval.vma - aval_of(x).vma:
        return pvary_p.bind(x, axes=tuple(sorted(more, key=str)))
    if isinstance(x, (bool, int, float, complex)):  # stays a literal
        return np.asarray(x, aval.dtype)[()] if not aval.weak_type else aval.dtype.type(x).item()
    return ew.convert_element_type_p.bind(x, new_dtype=aval.dtype, weak_type=aval.weak_type,
                                          sharding=None)


def _check_body(f: Any, p: Program, out_tree: Any, carry: Sequence[ShapedArray],
                init_tree: Any) -> list[ShapedArray]:
    children = out_tree.children() if out_tree.type is tuple else []
    if len(children) != 2:
        shown = out_tree.unflatten(list(p.out_avals[:out_tree.num_leaves]))
        raise TypeError(explain(
            f"scan body output must be a pair, got {shown} from {name_of(f)}.",
            fix="return (carry, y); use None for no y."))
    if children[0] != init_tree:
        raise carry_structure_error("scan", f, init_tree, children[0])
    return list(p.out_avals[:len(carry)])


def _matched(p: Program, wanted: Sequence[ShapedArray]) -> Program:
    """p with outputs of exactly these weak types."""
    if all(a.weak_type == b.weak_type for a, b in zip(wanted, p.out_avals)):
        return p

    def run(*args: Any) -> list[Any]:
        return [o if aval_of(o).weak_type == a.weak_type else as_aval(o, a)
                for o, a in zip(replay(p, *args), wanted)]

    return stage(run, p.in_avals, p.name)


def check_unroll(unroll: Any) -> None:
    """ValueError for a negative number of iterations to write out."""
    if unroll < 0:
        raise ValueError(explain(
            f"`unroll` must be a `bool` or a non-negative `int`, got {unroll}.",
            fix="pass the number of iterations of a step, or True for all."))


def own_values(tree: Any) -> Any:
    """A tree whose NumPy arrays are Arrays: a function that writes into what it is given does not
    write into the caller's."""
    return tree_util.tree_map(lambda x: to_array(x) if isinstance(x, np.ndarray) else x, tree)


def _scan_in_python(f: Any, init: Any, leaves: list[Any], tree: Any, n: int,
                    reverse: bool) -> Any:
    carry, ys = own_values(init), []
    if n == 0:
        raise ValueError("zero-length scan is not supported in disable_jit() mode because the "
                         "output type is unknown.")
    order, boxes = range(n), [type(x) is Ref for x in leaves]
    for i in reversed(order) if reverse else order:
        row: list[Any] = [
            Ref(x[i], kind=x.abstract.kind) if b else
            sh.squeeze(sh.slice_in_dim(x, i, i + 1, 0), (0,))
            for x, b in zip(leaves, boxes)]
        carry, y = f(carry, tree.unflatten(row))
        for x, b, part in zip(leaves, boxes, row):
            if b and part.written:
                x[i] = read(part)
        ys.append(y)
    if reverse:
        ys.reverse()
    return carry, tree_util.tree_map(
        lambda *rows: sh.concatenate([sh.reshape(r, (1, *shape_of(r))) for r in rows], 0),
        *ys)


def map(f: Function, xs: Any, *, batch_size: int | None = None) -> Any:  # noqa: A001
    """f applied to each element of the leading axis, one after another; results stacked.

    Args:
      f: function of one element.
      xs: tree of arrays with a common leading axis.
      batch_size: how many elements to compute at once, with vmap (default: one).

    Returns:
      The outputs of f, stacked along a new leading axis.

    Raises:
      ValueError: an array has no leading axis, or their sizes differ.

    Example:
      >>> import calque.lax as lax, calque.numpy as jnp
      >>> lax.map(lambda x: x * 2, jnp.arange(3))
      Array([0, 2, 4], dtype=int32)
    """
    if batch_size:
        return _map_batched(f, xs, batch_size)
    return scan(lambda _, x: ((), f(x)), (), xs)[1]


def _map_batched(f: Any, xs: Any, batch_size: int) -> Any:
    leaves, tree = tree_util.flatten(xs)
    n = _scan_length(leaves, None)
    whole = n // batch_size * batch_size
    parts = []
    if whole:
        rows = [sh.reshape(sh.slice_in_dim(x, 0, whole, 0),
                           (whole // batch_size, batch_size, *shape_of(x)[1:]))
                for x in leaves]
        out = scan(lambda _, x: ((), vmap(f)(x)), (), tree.unflatten(rows))[1]
        parts.append(tree_util.tree_map(
            lambda y: sh.reshape(y, (whole, *shape_of(y)[2:])), out))
    if n > whole or not whole:
        rest = [sh.slice_in_dim(x, whole, n, 0) for x in leaves]
        parts.append(vmap(f)(tree.unflatten(rest)))
    return tree_util.tree_map(lambda *ys: ys[0] if len(ys) == 1 else sh.concatenate(ys, 0), *parts)
