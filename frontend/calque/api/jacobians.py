"""Jacobians and Hessians: jacfwd, jacrev, hessian, on functions of trees.

Start reading at `jacrev`: the identity goes through a batched pullback, its rows are cut up.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.api.autodiff import (
    argument_places,
    check_argnums,
    check_real_input,
    check_real_output,
    jvp,
    vjp,
)
from calque.api.batching import vmap
from calque.core import dtypes
from calque.core.avals import aval_of, dtype_of, ndim_of, shape_of, varying_of
from calque.core.dims import Dim, number
from calque.core.lists import replaced
from calque.core.types import Function
from calque.core.zeros import zeros
from calque.dispatch.array import as_values
from calque.dispatch.eager import lazy_eval
from calque.dispatch.tracing import check_callable, wrapped
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh
from calque.primitives.collectives import pvary_p
from calque.trees import util as tree_util


def _diagonal(rows: Any, columns: Any, first: Any, dtype: Any) -> Any:
    """1 where row = first + column, of sizes that are known at the call only."""
    down, right = (sh.iota(np.int32, (rows, columns), axis) for axis in (0, 1))
    return ew.convert(ew.eq(down, ew.add(right, number(first, np.int32))), dtype)


def _unit_columns(leaves: Sequence[Any]) -> list[Any]:
    """For all leaves together: (total, *shape) blocks of the identity."""
    total, start, blocks = sum(aval_of(x).size for x in leaves), 0, []
    for x in leaves:
        a = aval_of(x)
        block: Any
        if isinstance(total, Dim):
            block = sh.reshape(_diagonal(total, a.size, start, a.dtype), (total, *a.shape))
        else:
            block = np.zeros((total, a.size), a.dtype)
            block[start:start + a.size] = np.eye(a.size, dtype=a.dtype)
            block = block.reshape(total, *a.shape)
        axes = tuple(sorted(varying_of(a.vma), key=str))  # inside shard_map
        blocks.append(pvary_p.bind(block, axes=axes) if axes else block)
        start += a.size
    return blocks


def _split_rows(x: Any, like: Sequence[Any], axis: int, weak: bool) -> list[Any]:
    """Cut an axis into pieces shaped as each of `like`; weak where the other axes' array is."""
    pieces, start = [], 0
    shape = shape_of(x)
    if dtype_of(x) != dtypes.float0:
        x = ew.convert(x, dtype_of(x), weak)
    for v in like:
        a = aval_of(v)
        piece = sh.slice_in_dim(x, start, start + a.size, axis)
        pieces.append(sh.reshape(piece, replaced(shape, axis, *a.shape)))
        start += a.size
    return pieces


def _single(argnums: Any) -> bool:
    return isinstance(argnums, (int, np.integer))


def _chosen(fun: Function, args: Sequence[Any], kwargs: dict[str, Any], argnums: Any
            ) -> tuple[Any, Callable[[Any], Any]]:
    """The argument (or arguments) to differentiate by, and the function of it."""
    places = argument_places(args, argnums)

    def partial(x: Any) -> Any:
        full = list(args)
        for i, v in zip(places, (x,) if _single(argnums) else x):
            full[i] = v
        return fun(*full, **kwargs)

    chosen = tuple(args[i] for i in places)
    return chosen[0] if _single(argnums) else chosen, partial


def jacfwd(fun: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False,
           holomorphic: bool = False) -> Function:
    """The Jacobian by forward mode: one column at a time, batched with vmap (tall Jacobians).

    Args:
      fun: function of arrays and trees of them.
      argnums: position or positions of the arguments to differentiate with respect to.
      has_aux: fun returns (output, aux); the result is (Jacobian, aux).
      holomorphic: fun is complex-differentiable.

    Returns:
      A function of fun's arguments. For each pair of output and argument leaves the Jacobian has
      the shape of the output followed by that of the argument.

    Raises:
      TypeError: (by the function) an argument to differentiate by is not real, or not complex with
        holomorphic=True.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> calque.jacfwd(lambda x: x * x)(jnp.array([1., 2.]))
      Array([[2., 0.],
             [0., 4.]], dtype=float32)
    """
    check_callable(fun)
    check_argnums(argnums)

    def run(*args: Any, **kwargs: Any) -> Any:
        chosen, partial = _chosen(fun, args, kwargs, argnums)
        leaves, tree = tree_util.flatten(chosen)
        check_real_input("jacfwd", leaves, holomorphic, False)
        kept: list[Any] = []
        avals: list[Any] = []  # of the output

        def push(ts: Any) -> Any:
            result = jvp(partial, (tree.unflatten(leaves),), (ts,), has_aux)
            kept.append(result[2] if has_aux else None)
            avals[:] = [aval_of(o) for o in tree_util.tree_leaves(result[0])]
            if holomorphic:
                check_real_output("jacfwd", avals, holomorphic)
            return tree_util.tree_map(
                lambda t, o: t if dtype_of(t) != dtypes.float0 else zeros(aval_of(o)),
                result[1], result[0])

        with lazy_eval("jacfwd"):
            leaves = as_values(leaves)
            columns = vmap(push, in_axes=(0,), out_axes=-1)(tree.unflatten(_unit_columns(leaves)))
            by_output, out_tree = tree_util.flatten(columns)
            jac = out_tree.unflatten([
                tree.unflatten(_split_rows(c, leaves, ndim_of(c) - 1, a.weak_type))
                for c, a in zip(by_output, avals)])
            if has_aux:
                return jac, partial(tree.unflatten(leaves))[1]
            return jac

    return wrapped(fun, run, "Jacobian (forward mode)")


def jacrev(fun: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False,
           holomorphic: bool = False, allow_int: bool = False) -> Function:
    """The Jacobian by reverse mode: one row at a time, batched with vmap (wide Jacobians).

    Args:
      fun: function of arrays and trees of them.
      argnums: position or positions of the arguments to differentiate with respect to.
      has_aux: fun returns (output, aux); the result is (Jacobian, aux).
      holomorphic: fun is complex-differentiable.
      allow_int: allow integer inputs.

    Returns:
      A function of fun's arguments. For each pair of output and argument leaves the Jacobian has
      the shape of the output followed by that of the argument.

    Raises:
      TypeError: (by the function) an argument to differentiate by is not real, or not complex with
        holomorphic=True.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> calque.jacrev(lambda x: x * x)(jnp.array([1., 2.]))
      Array([[2., 0.],
             [0., 4.]], dtype=float32)
    """
    check_callable(fun)
    check_argnums(argnums)

    def run(*args: Any, **kwargs: Any) -> Any:
        chosen, partial = _chosen(fun, args, kwargs, argnums)
        leaves, tree = tree_util.flatten(chosen)
        check_real_input("jacrev", leaves, holomorphic, allow_int)

        with lazy_eval("jacrev"):
            result = vjp(partial, tree.unflatten(as_values(leaves)), has_aux=has_aux)
            out, back = result[0], result[1]
            out_leaves, out_tree = tree_util.flatten(out)
            check_real_output("jacrev", [aval_of(o) for o in out_leaves], holomorphic)
            rows = vmap(back)(out_tree.unflatten(_unit_columns(out_leaves)))[0]
            by_input = [_split_rows(r, out_leaves, 0, aval_of(v).weak_type)
                        for r, v in zip(tree_util.tree_leaves(rows), leaves)]
            jac = out_tree.unflatten([
                tree.unflatten([blocks[i] for blocks in by_input])
                for i in range(len(out_leaves))])
            return (jac, result[2]) if has_aux else jac

    return wrapped(fun, run, "Jacobian (reverse mode)")


def hessian(fun: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False,
            holomorphic: bool = False) -> Function:
    """The second derivatives of a scalar-valued function: forward over reverse mode.

    Args:
      fun: function whose output is a scalar (and aux, with has_aux).
      argnums: position or positions of the arguments to differentiate with respect to.
      has_aux: fun returns (output, aux); the result is (Hessian, aux).
      holomorphic: fun is complex-differentiable.

    Returns:
      A function of fun's arguments. For an argument of shape s the Hessian has shape (*s, *s).

    Raises:
      TypeError: (by the function) an argument to differentiate by is not real, or not complex with
        holomorphic=True.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> calque.hessian(lambda x: (x ** 3).sum())(jnp.array([1., 2.]))
      Array([[ 6.,  0.],
             [ 0., 12.]], dtype=float32)
    """
    return jacfwd(jacrev(fun, argnums, has_aux, holomorphic), argnums, has_aux, holomorphic)
