"""What iterative solvers do with trees of arrays as vectors, and how they are called.

Start reading at `solved`.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import calque.numpy as jnp
from calque.core.avals import aval_of, is_arraylike, shape_of
from calque.core.errors import explain
from calque.lax.implicit import custom_linear_solve
from calque.numpy import util
from calque.primitives.elementwise import convert_element_type_p
from calque.trees import util as tree_util

Function = Callable[[Any], Any]


def plus(x: Any, y: Any) -> Any:
    return tree_util.tree_map(lambda a, b: a + b, x, y)


def minus(x: Any, y: Any) -> Any:
    return tree_util.tree_map(lambda a, b: a - b, x, y)


def times(scalar: Any, x: Any) -> Any:
    return tree_util.tree_map(lambda a: (scalar * a).astype(a.dtype), x)


def dot(x: Any, y: Any) -> Any:
    """sum of conj(x) y over all leaves."""
    parts = tree_util.tree_map(lambda a, b: jnp.vdot(a, b, precision="highest"), x, y)
    return sum(tree_util.tree_leaves(parts))


def squared(x: Any) -> Any:
    """The squared norm, real."""
    return sum(jnp.sum(jnp.real(a) ** 2) + jnp.sum(jnp.imag(a) ** 2) if a.dtype.kind == "c"
               else jnp.sum(a * a) for a in tree_util.tree_leaves(x))


def norm(x: Any) -> Any:
    return jnp.sqrt(squared(x))


def same(x: Any) -> Any:
    return x


def function(name: str, what: str, a: Any) -> Function:
    """A function from a function or a square matrix."""
    if callable(a):
        return a
    if not is_arraylike(a) and not (hasattr(a, "__matmul__") and hasattr(a, "shape")):
        raise TypeError(explain(
            f"{name}: linear operator must be either a function or ndarray: {what} is {a!r}.",
            fix="pass a function of a vector, or a square matrix."))
    shape = tuple(a.shape)
    if len(shape) != 2 or shape[0] != shape[1]:
        raise ValueError(explain(
            f"{name}: linear operator {what} must be a square matrix, but has shape: {shape}.",
            fix="pass a matrix with as many rows as columns."))
    if not is_arraylike(a):
        return lambda x: a @ x
    matrix = util.array(a)
    return lambda x: jnp.matmul(matrix, x, precision="highest")


def _inexact(name: str, what: str, tree: Any) -> Any:
    leaves, structure = tree_util.tree_flatten(tree)
    return structure.unflatten([util.inexact_arrays(f"{name}: {what}", x)[0]
                                for x in leaves])


def solved(name: str, solver: Callable[..., Any], a: Any, b: Any, x0: Any, m: Any, *, tol: Any,
           atol: Any, maxiter: Any, symmetric: bool, **more: Any) -> tuple[Any, None]:
    """Check the arguments, and solve in a way that is differentiated implicitly."""
    apply = function(name, "A", a)
    precondition = same if m is None else function(name, "M", m)
    given, b = b, _inexact(name, "b", b)
    x0 = tree_util.tree_map(jnp.zeros_like, b) if x0 is None else _inexact(name, "x0", x0)
    if tree_util.tree_structure(x0) != tree_util.tree_structure(b):
        raise ValueError(explain(
            f"{name}: x0 and b must have matching tree structure: "
            f"{tree_util.tree_structure(x0)} vs {tree_util.tree_structure(b)}.",
            fix="start from a tree like b."))
    shapes = [[shape_of(x) for x in tree_util.tree_leaves(t)] for t in (x0, b)]
    if shapes[0] != shapes[1]:
        raise ValueError(explain(
            f"{name}: arrays in x0 and b must have matching shapes: {shapes[0]} vs {shapes[1]}.",
            fix="start from a tree like b."))
    if maxiter is None:
        maxiter = 10 * sum(int(np.prod(s)) for s in shapes[1])
    leaves, structure = tree_util.tree_flatten(x0)  # of one dtype with b, as loops need it
    matrix = [a] if is_arraylike(a) else []
    kinds = [jnp.result_type(x, y, *matrix) for x, y in zip(leaves, tree_util.tree_leaves(b))]
    x0 = structure.unflatten([x.astype(k) for x, k in zip(leaves, kinds)])
    b = structure.unflatten([y.astype(k) for y, k in zip(tree_util.tree_leaves(b), kinds)])

    def run(f: Function, right: Any) -> Any:
        return solver(f, right, x0, precondition, tol=tol, atol=atol, maxiter=maxiter, **more)

    # (the transpose of a Hermitian matrix is its conjugate)
    symmetric = symmetric and all(k.kind != "c" for k in kinds)
    x = custom_linear_solve(apply, b, solve=run, transpose_solve=run, symmetric=symmetric)
    return tree_util.tree_map(_weakened, x, given), None


def _weakened(x: Any, like: Any) -> Any:
    """x with the weak type of another value, as arithmetic would leave it."""
    weak = aval_of(like).weak_type
    return convert_element_type_p.bind(x, new_dtype=x.dtype, weak_type=True,
                                       sharding=None) if weak else x
