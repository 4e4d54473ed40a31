"""Functions of small arrays applied to large ones: vectorize, apply_along_axis, apply_over_axes,
fromfunction.  All are vmap over the axes that the function does not see.
"""
from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

from calque.api.batching import vmap
from calque.core.avals import ndim_of, shape_of
from calque.core.errors import explain
from calque.core.naming import wraps
from calque.core.types import Function, Shape
from calque.lax.operands import as_size, canonical_axis
from calque.numpy import creation, ranges, util
from calque.numpy.shapes import expand_dims
from calque.primitives import shape as sh
from calque.trees import util as tree_util

_TERM = r"\((?:\w+(?:,\w+)*)?\)"
_SIGNATURE = re.compile(rf"^{_TERM}(?:,{_TERM})*->{_TERM}(?:,{_TERM})*$")
_PARTIAL = re.compile(rf"^(?:{_TERM}(?:,{_TERM})*)?->{_TERM}(?:,{_TERM})*$")
Core = list[tuple[str, ...]]


# ---- vectorize
def parse_signature(signature: str) -> tuple[Core, Core]:
    """The names of the axes of the inputs and of the outputs."""
    text = re.sub(r"\s+", "", signature)
    if not _SIGNATURE.match(text) and not _PARTIAL.match(text):
        raise ValueError(explain(f"not a valid gufunc signature: {signature}",
                                 fix="write it as '(n,m),(m)->(n)'."))
    first, second = ([tuple(filter(None, t[1:-1].split(","))) for t in re.findall(_TERM, side)]
                     for side in text.split("->"))
    return first, second


def loop_sizes(args: Sequence[Any], core: Core, where: str) -> tuple[Shape, dict[str, int]]:
    """The shape that is looped over, and the sizes of the named axes."""
    loops: list[tuple[int, ...]] = []
    sizes: dict[str, int] = {}
    for x, names in zip(args, core):
        shape = shape_of(x)
        if len(shape) < len(names):
            raise ValueError(explain(
                f"input with shape {shape} does not have enough dimensions for all core dimensions "
                f"{names} {where}"))
        cut = len(shape) - len(names)
        loops.append(shape[:cut])
        _note(sizes, shape[cut:], names, where)
    try:
        return util.common_shape("vectorize", loops), sizes
    except TypeError as error:
        raise ValueError(str(error)) from None


def _note(sizes: dict[str, int], shape: Shape, names: tuple[str, ...],
          where: str) -> None:
    for name, n in zip(names, shape):
        if sizes.setdefault(name, n) != n:
            raise ValueError(explain(
                f"inconsistent size for core dimension {name!r}: {n} vs {sizes[name]} {where}"))


def checked(f: Function, sizes: dict[str, int], core: Core | None,
             where: str) -> Function:
    """f, its results checked against the signature."""
    def g(*args: Any) -> Any:
        out = f(*args)
        if core is None:
            return out
        several = isinstance(out, tuple)
        outs = out if several else (out,)
        if len(core) > 1 and not several:
            raise TypeError(explain(f"output must be a tuple when multiple outputs are expected, "
                                    f"got: {type(out).__name__} {where}"))
        if len(outs) != len(core):
            raise TypeError(explain(f"wrong number of output arguments: expected {len(core)}, got "
                                    f"{len(outs)} {where}"))
        known = dict(sizes)
        for x, names in zip(outs, core):
            if ndim_of(x) != len(names):
                raise ValueError(explain(f"output shape {shape_of(x)} does not match core "
                                         f"dimensions {names} {where}"))
            _note(known, shape_of(x), names, where)
        return out

    return g


def vectorize(pyfunc: Function, *, excluded: Any = frozenset(),
              signature: str | None = None) -> Function:
    """A function of small arrays as one of larger arrays, whose leading axes broadcast.

    Args:
      pyfunc: function of scalars, or of arrays with the axes that the signature names.
      excluded: positions and keywords of arguments that are passed on as they are.
      signature: axes that pyfunc sees, such as "(n,m),(m)->(n)"; none by default.

    Returns:
      A function of arrays; it calls pyfunc once.

    Raises:
      ValueError: the signature is none; or, when called, shapes do not fit it.
      TypeError: excluded is no set; or, when called, an argument is not an array.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.vectorize(jnp.dot, signature="(n),(n)->()")(jnp.ones((2, 3)), jnp.ones(3))
      Array([3., 3.], dtype=float32)
    """
    if any(not isinstance(e, (str, int)) for e in excluded):
        raise TypeError(explain("jax.numpy.vectorize can only exclude integer or string arguments, "
                                f"but excluded={excluded!r}"))
    if any(isinstance(e, int) and e < 0 for e in excluded):
        raise ValueError(explain(f"excluded={excluded!r} contains negative numbers"))
    core = None if signature is None else parse_signature(signature)
    where = f"on vectorized function with excluded={excluded!r} and signature={signature!r}"

    @wraps(pyfunc)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        held = {i: a for i, a in enumerate(args) if i in excluded or a is None}
        if core and (absent := {i for i in held if i not in excluded}):
            raise ValueError(explain(
                f"Cannot pass None at locations {absent} with signature={signature!r}.",
                fix="leave the signature out, or exclude these arguments."))
        named = {k: v for k, v in kwargs.items() if k in excluded}
        keys = [k for k in kwargs if k not in excluded]
        places = [i for i in range(len(args)) if i not in held]
        values = [*[args[i] for i in places], *[kwargs[k] for k in keys]]

        def f(*values: Any) -> Any:
            full = {**held, **dict(zip(places, values))}
            mapped = dict(zip(keys, values[len(places):]))
            return pyfunc(*[full[i] for i in range(len(args))], **mapped, **named)

        inputs = core[0] if core else [()] * len(values)
        if len(values) != len(inputs):
            raise TypeError(explain(f"wrong number of positional arguments: expected {len(inputs)},"
                                    f" got {len(values)} {where}"))
        values = [util.array(v) for v in util.check_arrays("vectorize", *values)]
        loop, sizes = loop_sizes(values, inputs, where)  # type: ignore[arg-type]
        return _over(checked(f, sizes, core[1] if core else None, where), values, inputs, loop)  # type: ignore[arg-type]

    return wrapped


def _over(f: Function, values: list[Any], core: Core, loop: tuple[int, ...]) -> Any:
    """f mapped over every axis of the loop; axes of size 1 are not mapped for their owner."""
    axes: list[list[int | None]] = []
    for i, (x, names) in enumerate(zip(values, core)):
        shape = shape_of(x)
        own = shape[:len(shape) - len(names)]
        lead = len(loop) - len(own)
        ones = tuple(k for k, n in enumerate(own) if n == 1 and loop[lead + k] != 1)
        axes.append([None if k < lead or k - lead in ones else 0 for k in range(len(loop))])
        if ones:
            values[i] = sh.squeeze(x, ones)
    with util.lazy_eval("vectorize"):
        for k in reversed(range(len(loop))):
            f = vmap(f, in_axes=tuple(a[k] for a in axes), axis_size=loop[k])
        return f(*values)


# ---- along axes
def apply_along_axis(func1d: Function, axis: int, arr: Any, *args: Any,
                     **kwargs: Any) -> Any:
    """func1d of every vector along an axis.

    Args:
      func1d: function of a vector (and args and kwargs).
      axis: the axis that it sees.
      arr: array.
      *args: passed on to func1d.
      **kwargs: passed on to func1d.

    Returns:
      An array (or a tree of them) with the axes of func1d's result in the place of the axis.

    Raises:
      TypeError: arr is not an array.
      ValueError: the axis is out of bounds.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.apply_along_axis(jnp.sum, 0, jnp.array([[1, 2], [3, 4]]))
      Array([4, 6], dtype=int32)
    """
    arr = util.one_array("apply_along_axis", arr)
    rank = ndim_of(arr)
    axis = canonical_axis(axis, rank)

    def f(x: Any) -> Any:
        return func1d(x, *args, **kwargs)

    for i in range(1, rank - axis):
        f = vmap(f, in_axes=i, out_axes=-1)
    for _ in range(axis):
        f = vmap(f)
    with util.lazy_eval("apply_along_axis"):
        return f(util.array(arr))


def apply_over_axes(func: Callable[[Any, int], Any], a: Any, axes: Any) -> Any:
    """func(a, axis) for one axis after the other, a the result so far.

    Args:
      func: function of an array and an axis; its result has as many axes as a, or one less.
      a: array.
      axes: the axes, a sequence or one.

    Returns:
      An array with as many axes as a.

    Raises:
      TypeError: a is not an array.
      ValueError: func's result has another number of axes.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.apply_over_axes(jnp.sum, jnp.ones((2, 3)), [0, 1])
      Array([[6.]], dtype=float32)
    """
    a = util.one_array("apply_over_axes", a)
    a = util.array(a)
    rank = ndim_of(a)
    for axis in ([axes] if hasattr(axes, "__index__") else axes):
        made = func(a, axis)
        if ndim_of(made) == rank - 1:
            made = expand_dims(made, axis)
        if ndim_of(made) != rank:
            raise ValueError(explain("function is not returning an array of the correct shape",
                                     fix="it should keep the number of axes, or drop this one."))
        a = made
    return a


def fromfunction(function: Function, shape: Any, *, dtype: Any = float,
                 **kwargs: Any) -> Any:
    """function of every position of a shape.

    Args:
      function: function of as many scalars as shape has sizes (and kwargs).
      shape: sizes of the axes.
      dtype: of the positions.
      **kwargs: passed on to function.

    Returns:
      An array (or a tree of them) with shape in front of the axes of function's result.

    Raises:
      TypeError: the shape is none.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.fromfunction(jnp.add, (2, 3), dtype=int)
      Array([[0, 1, 2],
             [1, 2, 3]], dtype=int32)
    """
    sizes = [as_size("fromfunction", n) for n in (
        [shape] if hasattr(shape, "__index__") else shape)]

    def f(*places: Any) -> Any:
        return tree_util.tree_map(creation.asarray, function(*places, **kwargs))

    for k in reversed(range(len(sizes))):
        f = vmap(f, in_axes=tuple(0 if i == k else None for i in range(len(sizes))))
    with util.lazy_eval("fromfunction"):
        return f(*[ranges.arange(operator.index(n), dtype=dtype) for n in sizes])


__all__ = ["apply_along_axis", "apply_over_axes", "fromfunction", "vectorize"]
