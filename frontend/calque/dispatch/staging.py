"""Looking at a function without running it: its Program, the shapes of its results."""
from __future__ import annotations

from typing import Any

from calque.core.avals import aval_of, is_arraylike
from calque.core.dtypes import check_fits
from calque.core.errors import explain
from calque.core.naming import attribute, name_of
from calque.core.refs import Ref
from calque.core.trace import axes_mapped, scope
from calque.core.types import Function
from calque.dispatch import stages
from calque.dispatch.jit import JitFunction, placed
from calque.dispatch.positions import as_ints
from calque.dispatch.tracing import (
    check_arguments,
    check_callable,
    described,
    trace_with_refs,
    type_of,
    wrapped,
)
from calque.trees import util as tree_util
from calque.trees.tokens import AbstractToken, Token


def make_jaxpr(fun: Function, static_argnums: Any = (), axis_env: Any = None,
               return_shape: bool = False, **_: Any) -> Function:
    """A function that returns the Program of fun for given arguments; print it to read it.

    Args:
      fun: function of arrays and trees of them.
      static_argnums: positions of arguments whose Python value is part of the program (hashable).
      axis_env: (name, size) of mapped axes that fun may mention.
      return_shape: return (program, shapes and dtypes of the results).

    Returns:
      A function of fun's arguments (arrays, numbers, what has a shape and a dtype).

    Raises:
      TypeError: (by the function) an argument is not an array, a number or a tree of them, and not
        static.

    Example:
      >>> import calque
      >>> print(calque.make_jaxpr(lambda x: x * 2 + 1)(3.0))
      { lambda ; a:f32[]. let
          b:f32[] = mul a 2.0:f32[]
          c:f32[] = add b 1.0:f32[]
        in (c,) }
    """
    check_callable(fun)
    nums = as_ints(static_argnums) or ()
    axes = tuple((name, size) for name, size in axis_env or ())

    def run(*args: Any, **kwargs: Any) -> Any:
        whole = JitFunction(fun, nums, (), (), (), False, True)
        with axes_mapped(axes, False):
            entry, _leaves = whole._entry(args, kwargs, specs=True)
        if return_shape:
            return entry.program, stages.out_info(entry)
        return entry.program

    made = wrapped(fun, run, "Program")
    made.__name__ = f"make_jaxpr({name_of(fun)})"
    made.__qualname__ = f"make_jaxpr({attribute(fun, '__qualname__', name_of(fun))})"
    made.__module__ = "jax"
    return made


def eval_shape(fun: Function, *args: Any, **kwargs: Any) -> Any:
    """Shapes and dtypes of fun(*args, **kwargs), without running anything.

    Args:
      fun: function of arrays and trees of them.
      *args, **kwargs: its arguments; anything with `shape` and `dtype` stands for an array.

    Returns:
      The tree of the results, with ShapeDtypeStructs as leaves (with their sharding over Explicit
      axes).

    Raises:
      TypeError: an argument is not an array, a number, a ShapeDtypeStruct or a tree of them.
      OverflowError: a Python integer is beyond the default integers.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> calque.eval_shape(jnp.sum, calque.ShapeDtypeStruct((1000, 1000), "float32"))
      ShapeDtypeStruct(shape=(), dtype=float32)
    """
    if type(fun) in placed:  # (out_shardings says more than what is traced)
        return fun.eval_shape(*args, **kwargs)  # type: ignore[attr-defined]
    leaves, tree = tree_util.flatten((args, kwargs))
    leaves = [described(x) for x in leaves]
    check_arguments(name_of(fun), leaves, tree, refs=True)
    for x in leaves:
        check_fits(x)
    program, out_tree, uses = trace_with_refs(fun, tree, [type_of(x) for x in leaves])
    return out_tree.unflatten([stages.struct_of(a) for a in program.out_avals[:uses.count]])


def typeof(x: Any) -> Any:
    """The type of a value: shape, dtype and weak type.

    Args:
      x: an array, a number, a traced value or a reference.

    Returns:
      Its ShapedArray; of a reference an AbstractRef, of a token an AbstractToken.

    Raises:
      TypeError: x is none of these.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> calque.typeof(jnp.ones((2, 3))), calque.typeof(1.0)
      (ShapedArray(float32[2,3]), ShapedArray(float32[], weak_type=True))
    """
    if type(x) is Ref:
        return x.abstract
    if type(x) is Token:
        return AbstractToken()
    if not is_arraylike(x):
        raise TypeError(explain(f"Argument {x!r} of type {type(x)} is not a valid JAX type",
                                fix="pass an array or a number; trees have no type of their own."))
    return aval_of(x).told()


def named_call(fun: Function, *, name: str | None = None) -> Function:
    """fun inside a named_scope.

    Args:
      fun: a function.
      name: of the scope; default: the function's.

    Returns:
      A function of fun's arguments.

    Raises:
      TypeError: fun is not callable.

    Example:
      >>> import calque
      >>> f = calque.named_call(lambda x: 2 * x, name="double")
      >>> "double" in calque.jit(f).lower(1.0).as_text(debug_info=True)
      True
    """
    check_callable(fun)

    def run(*args: Any, **kwargs: Any) -> Any:
        with scope(name or name_of(fun)):
            return fun(*args, **kwargs)

    return wrapped(fun, run, "Named")
