"""What functions of trees have in common with functions of flat values, for libraries.

Start reading at `flatten_fun`.
"""
from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from calque.core.avals import ShapedArray, aval_of
from calque.core.errors import explain
from calque.core.naming import name_of, signature_of
from calque.core.types import Function
from calque.extend.core.jaxprs import DebugInfo
from calque.extend.linear_util import WrappedFun, transformation2, transformation_with_aux2
from calque.trees import util as tree_util


def debug_info(traced_for: str, fun: Function, args: Sequence[Any],
               kwargs: dict[str, Any], *, static_argnums: Sequence[int] = (),
               static_argnames: Sequence[str] = (), result_paths_thunk: Any = None,
               sourceinfo: str | None = None,
               signature: inspect.Signature | None = None) -> DebugInfo:
    """What a function is traced for, and the names of its arguments.

    Args:
      traced_for: "jit", "vmap", ...; fun: the function; args, kwargs: of the call.
      static_argnums, static_argnames: arguments that are no arrays.
      result_paths_thunk, sourceinfo, signature: accepted.

    Returns:
      A DebugInfo.

    Raises:
      Nothing.

    Example:
      >>> from calque import api_util
      >>> api_util.debug_info("jit", lambda x, y: x, (1, 2), {}).arg_names
      ('x', 'y')
    """
    found = signature_of(fun)
    names: list[str] = []
    if found is not None:
        try:
            bound = found.bind(*args, **kwargs)
        except TypeError:
            bound = None
        if bound is not None:
            for name, value in bound.arguments.items():
                if name not in static_argnames:
                    names += [name + tree_util.keystr(path)
                              for path, _ in tree_util.tree_leaves_with_path(value)]
    return DebugInfo(traced_for, name_of(fun), tuple(names) or None)


def _flat(f: Function, store: Any, in_tree: Any, *flat: Any) -> list[Any]:
    args, kwargs = in_tree.unflatten(flat)
    leaves, tree = tree_util.tree_flatten(f(*args, **kwargs))
    store.store(tree)
    return leaves


def _flat_nokwargs(f: Function, store: Any, in_tree: Any, *flat: Any) -> list[Any]:
    leaves, tree = tree_util.tree_flatten(f(*in_tree.unflatten(flat)))
    store.store(tree)
    return leaves


def flatten_fun(fun: WrappedFun, in_tree: Any) -> tuple[WrappedFun, Callable[[], Any]]:
    """A function of flat values from one of trees.

    Args:
      fun: WrappedFun of trees.
      in_tree: the structure of (args, kwargs).

    Returns:
      (WrappedFun of leaves that returns a list, function that gives the structure of the result).

    Raises:
      StoreException: (by that function) the WrappedFun was not called yet.

    Example:
      >>> from calque import api_util, tree_util
      >>> from calque.extend import linear_util as lu
      >>> leaves, tree = tree_util.tree_flatten(((1, 2), {"c": 3}))
      >>> f, out_tree = api_util.flatten_fun(lu.wrap_init(lambda a, b, c: (a, {"s": b + c})), tree)
      >>> f.call_wrapped(*leaves), out_tree()
      ([1, 5], PyTreeDef((*, {'s': *})))
    """
    return transformation_with_aux2(_flat, fun, in_tree)


def flatten_fun_nokwargs(fun: WrappedFun, in_tree: Any) -> tuple[WrappedFun, Callable[[], Any]]:
    """flatten_fun for calls without keywords.

    Args:
      fun: WrappedFun of trees.
      in_tree: the structure of args.

    Returns:
      As flatten_fun.

    Raises:
      StoreException: as flatten_fun.

    Example:
      >>> from calque import api_util, tree_util
      >>> from calque.extend import linear_util as lu
      >>> leaves, tree = tree_util.tree_flatten((1, (2, 3)))
      >>> f, out_tree = api_util.flatten_fun_nokwargs(lu.wrap_init(lambda a, b: (b, a)), tree)
      >>> f.call_wrapped(*leaves), out_tree()
      ([2, 3, 1], PyTreeDef(((*, *), *)))
    """
    return transformation_with_aux2(_flat_nokwargs, fun, in_tree)


def _fixed(f: Function, positions: Sequence[int], args: tuple[Any, ...], *given: Any,
           **kwargs: Any) -> Any:
    every, values = list(args), iter(given)
    for i in positions:
        every[i] = next(values)
    return f(*every, **kwargs)


def argnums_partial(f: WrappedFun, dyn_argnums: int | Sequence[int], args: Sequence[Any],
                    require_static_args_hashable: bool = True) -> tuple[WrappedFun, list[Any]]:
    """A function of some of its positions, the others being known.

    Args:
      f: WrappedFun; dyn_argnums: positions that stay arguments; args: all of them.
      require_static_args_hashable: the others must be hashable.

    Returns:
      (WrappedFun of these positions, their values).

    Raises:
      ValueError: another argument has no hash.

    Example:
      >>> from calque import api_util
      >>> from calque.extend import linear_util as lu
      >>> f, given = api_util.argnums_partial(lu.wrap_init(pow), 1, (2, 3))
      >>> f.call_wrapped(*given)
      8
    """
    nums = (dyn_argnums,) if isinstance(dyn_argnums, int) else tuple(dyn_argnums)
    nums = tuple(i % len(args) for i in nums)
    if require_static_args_hashable:
        for i, a in enumerate(args):
            try:
                hash(None if i in nums else a)
            except TypeError:
                raise ValueError(explain(
                    f"Non-hashable static arguments are used in a function: argument {i} of type "
                    f"{type(a)}.", fix="pass a value with a hash.")) from None
    rest = tuple(None if i in nums else a for i, a in enumerate(args))
    return transformation2(_fixed, f, nums, rest), [args[i] for i in nums]


def flatten_axes(name: str, treedef: Any, axis_tree: Any, *, kws: bool = False,
                 tupled_args: bool = False) -> list[Any]:
    """One axis for every leaf, from a tree of axes that stand for whole subtrees.

    Args:
      name: of the argument, for the error; treedef: the structure.
      axis_tree: a prefix of it, whose leaves are ints and None.
      kws, tupled_args: accepted.

    Returns:
      A list of axes.

    Raises:
      ValueError: it is no prefix.

    Example:
      >>> from calque import api_util, tree_util
      >>> api_util.flatten_axes("in_axes", tree_util.tree_structure((1, (2, 3))), (0, None))
      [0, None, None]
    """
    whole = treedef.unflatten([0] * treedef.num_leaves)

    def none(x: Any) -> bool:
        return x is None

    found = tree_util.prefix_leaves(
        tree_util.tree_map(lambda a: (a,), axis_tree, is_leaf=none), whole,
        lambda x: isinstance(x, tuple) and len(x) == 1 and (x[0] is None or isinstance(x[0], int)),
        lambda error: explain(
            f"{name} specification must be a tree prefix of the corresponding value, got "
            f"specification {axis_tree} for value tree {treedef}: {error}.",
            fix="give one axis, or a tree of axes like the value."))
    return [x[0] for x in found]


def shaped_abstractify(x: Any) -> ShapedArray:
    """The type of an array, a number, or of what has shape and dtype.

    Args:
      x: any of these.

    Returns:
      A ShapedArray.

    Raises:
      TypeError: it is none of these.

    Example:
      >>> from calque import api_util
      >>> api_util.shaped_abstractify(1.0)
      ShapedArray(float32[], weak_type=True)
    """
    if not hasattr(x, "aval") and hasattr(x, "shape") and hasattr(x, "dtype") and (
            type(x).__module__ != "numpy"):
        return ShapedArray(x.shape, x.dtype, bool(getattr(x, "weak_type", False)))
    return aval_of(x)


def safe_map(f: Function, *args: Any) -> list[Any]:
    """map over sequences of one length.

    Args:
      f: function of an element of each; args: sequences.

    Returns:
      A list.

    Raises:
      ValueError: lengths differ.

    Example:
      >>> from calque import api_util
      >>> api_util.safe_map(max, [1, 5], [3, 2])
      [3, 5]
    """
    return [f(*xs) for xs in zip(*args, strict=True)]


__all__ = ["argnums_partial", "debug_info", "flatten_axes", "flatten_fun", "flatten_fun_nokwargs",
           "safe_map", "shaped_abstractify"]


def __dir__() -> list[str]:
    return __all__
