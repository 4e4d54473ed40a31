"""Derivatives with respect to what sparse arrays store: their pattern is a constant.

Start reading at `_Split`.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from calque.api import autodiff as dense
from calque.api import jacobians
from calque.core.types import Function
from calque.dispatch.tracing import check_callable, wrapped
from calque.experimental.sparse.array import BCOO
from calque.experimental.sparse.transform import is_sparse
from calque.numpy import broadcast_to
from calque.trees import util as tree_util

Argnums = int | Sequence[int]


class _Split:
    """An argument as a list of arrays, the data of sparse ones, and the way back."""

    def __init__(self, arg: Any) -> None:
        self.leaves, self.tree = tree_util.tree_flatten(arg, is_leaf=is_sparse)
        self.values = [x.data if is_sparse(x) else x for x in self.leaves]

    def rebuilt(self, values: Sequence[Any], with_data: Callable[[Any, Any], Any]) -> Any:
        """The argument with other values."""
        return self.tree.unflatten([
            with_data(x, v) if is_sparse(x) else v for x, v in zip(self.leaves, values)])


def _with_data(x: Any, data: Any) -> Any:
    children, aux = x.tree_flatten()
    return type(x).tree_unflatten(aux, (data, *children[1:]))


def _jacobian_of(x: BCOO, data: Any) -> BCOO:
    """A Jacobian with respect to x: the dimensions of the function's result are batch ones."""
    more = data.shape[:data.ndim - x.data.ndim]
    indices = broadcast_to(x.indices, (*more, *x.indices.shape))
    return BCOO((data, indices), shape=(*more, *x.shape), indices_sorted=x.indices_sorted,
                unique_indices=x.unique_indices)


def _split_call(fun: Function, argnums: Argnums, args: Sequence[Any], kwargs: Any
                ) -> tuple[Function, list[_Split]]:
    """fun as a function of one list of values for each of argnums, and these arguments."""
    numbers = [argnums] if isinstance(argnums, int) else list(argnums)
    numbers = [n % len(args) if args and -len(args) <= n < len(args) else n for n in numbers]
    splits = [_Split(args[n]) for n in numbers]

    def of_values(*values: Any) -> Any:
        full = list(args)
        for n, split, v in zip(numbers, splits, values):
            full[n] = split.rebuilt(v, _with_data)
        return fun(*full, **kwargs)
    return of_values, splits


def value_and_grad(fun: Function, argnums: Argnums = 0, has_aux: bool = False, **kwargs: Any
                   ) -> Function:
    """value_and_grad, whose gradient of a sparse array is sparse, at the places of that array.

    Args:
      fun: function of arrays, sparse ones among them; its result is a scalar.
      argnums: the argument, or arguments, of which derivatives are taken.
      has_aux: whether fun returns a pair, the second part of which is handed on.
      **kwargs: as value_and_grad has them.

    Returns:
      A function that gives fun's value and the gradient.

    Raises:
      TypeError: (when called) fun's result is no real scalar, or an argument no float.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.experimental import sparse
      >>> M = sparse.BCOO.fromdense(jnp.arange(6.))
      >>> sparse.value_and_grad(lambda M, y: M @ y)(M, jnp.ones(6))
      (Array(15., dtype=float32), BCOO(float32[6], nse=5))
    """
    check_callable(fun)

    def valued(*args: Any, **named: Any) -> Any:
        of_values, splits = _split_call(fun, argnums, args, named)
        value, grads = dense.value_and_grad(of_values, tuple(range(len(splits))), has_aux,
                                            **kwargs)(*[s.values for s in splits])
        found = tuple(s.rebuilt(g, _with_data) for s, g in zip(splits, grads))
        return value, found[0] if isinstance(argnums, int) else found
    return wrapped(fun, valued, "value_and_grad")


def grad(fun: Function, argnums: Argnums = 0, has_aux: bool = False, **kwargs: Any) -> Function:
    """grad, whose gradient of a sparse array is sparse, at the places of that array.

    Args:
      fun: function of arrays, sparse ones among them; its result is a scalar.
      argnums: the argument, or arguments, of which derivatives are taken.
      has_aux: whether fun returns a pair, the second part of which is handed on.
      **kwargs: as grad has them.

    Returns:
      A function that gives the gradient.

    Raises:
      TypeError: (when called) fun's result is no real scalar, or an argument no float.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.experimental import sparse
      >>> M = sparse.BCOO.fromdense(jnp.arange(3.))
      >>> sparse.grad(lambda M, y: M @ y)(M, jnp.array([1., 2., 3.])).data
      Array([2., 3.], dtype=float32)
    """
    both = value_and_grad(fun, argnums, has_aux, **kwargs)

    def graded(*args: Any, **named: Any) -> Any:
        value, found = both(*args, **named)
        return (found, value[1]) if has_aux else found
    return wrapped(fun, graded, "grad")


def _jacobian(how: Callable[..., Function], fun: Function, argnums: Argnums, has_aux: bool,
              kwargs: Any) -> Function:
    check_callable(fun)

    def jacobian_of(*args: Any, **named: Any) -> Any:
        of_values, splits = _split_call(fun, argnums, args, named)
        trees: list[Any] = []

        def noted(*values: Any) -> Any:
            out = of_values(*values)
            trees.append(tree_util.tree_structure(out[0] if has_aux else out))
            return out
        found = how(noted, tuple(range(len(splits))), has_aux, **kwargs)(
            *[s.values for s in splits])
        jac, aux = found if has_aux else (found, None)
        tree = trees[-1]
        made = []
        for rows in tree.flatten_up_to(jac):
            parts = tuple(s.rebuilt(r, _jacobian_of) for s, r in zip(splits, rows))
            made.append(parts[0] if isinstance(argnums, int) else parts)
        out = tree.unflatten(made)
        return (out, aux) if has_aux else out
    return wrapped(fun, jacobian_of, "jacobian")


def jacfwd(fun: Function, argnums: Argnums = 0, has_aux: bool = False, **kwargs: Any) -> Function:
    """jacfwd, whose derivatives by a sparse array are sparse: batches of that array's pattern.

    Args:
      fun: function of arrays, sparse ones among them; its results are dense.
      argnums: the argument, or arguments, of which derivatives are taken.
      has_aux: whether fun returns a pair, the second part of which is handed on.
      **kwargs: as jacfwd has them.

    Returns:
      A function that gives the Jacobian.

    Raises:
      TypeError: (when called) an argument is no float.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.experimental import sparse
      >>> sparse.jacfwd(lambda M: M @ jnp.ones(3))(sparse.eye(3))
      BCOO(float32[3, 3, 3], nse=3, n_batch=1)
    """
    return _jacobian(jacobians.jacfwd, fun, argnums, has_aux, kwargs)


def jacrev(fun: Function, argnums: Argnums = 0, has_aux: bool = False, **kwargs: Any) -> Function:
    """jacrev, whose derivatives by a sparse array are sparse: batches of that array's pattern.

    Args:
      fun: function of arrays, sparse ones among them; its results are dense.
      argnums: the argument, or arguments, of which derivatives are taken.
      has_aux: whether fun returns a pair, the second part of which is handed on.
      **kwargs: as jacrev has them.

    Returns:
      A function that gives the Jacobian.

    Raises:
      TypeError: (when called) an argument is no float.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.experimental import sparse
      >>> sparse.jacrev(lambda M: M @ jnp.ones(3))(sparse.eye(3))
      BCOO(float32[3, 3, 3], nse=3, n_batch=1)
    """
    return _jacobian(jacobians.jacrev, fun, argnums, has_aux, kwargs)


jacobian = jacrev
