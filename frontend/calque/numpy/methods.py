"""Operators and methods of arrays: one table, installed on Array and on Tracer.

An operator with an unknown operand returns NotImplemented; lists, tuples, sets and dicts are
refused outright, as JAX does, so that `x == [1]` is no silent False.
"""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from calque.core import dtypes
from calque.core.avals import refuse_jax, shape_of
from calque.core.dims import is_far
from calque.core.errors import explain
from calque.core.trace import Tracer
from calque.core.tracebacks import hide_ours
from calque.core.types import Function
from calque.dispatch.array import Array
from calque.dispatch.eager import lazy_eval
from calque.dispatch.numpy_rules import part_of
from calque.numpy import arithmetic as ar
from calque.numpy import (
    arrange,
    convert,
    cumulative,
    join,
    means,
    parts,
    picking,
    positions,
    protocols,
    reductions,
    rounding,
    shapes,
    sorting,
    ufuncs,
    util,
)
from calque.numpy import contract as ct
from calque.numpy.advanced import take
from calque.numpy.at import At
from calque.numpy.computed_slices import has_slice, window
from calque.numpy.creation import array as make_array


def _binary(symbol: str, f: Function, reflected: bool = False) -> Function:
    def method(self: Any, other: Any) -> Any:
        if not util.is_arraylike(other):
            if type(other) in (list, tuple, set, dict):  # (a derived type may know better)
                left, right = type(self).__name__, type(other).__name__
                if reflected:
                    left, right = right, left
                raise TypeError(explain(
                    f"unsupported operand type(s) for {symbol}: '{left}' and '{right}'",
                    fix="convert it with jnp.asarray."))
            refuse_jax(f"operator {symbol}", other, "as an operand")
            return NotImplemented
        try:
            return f(other, self) if reflected else f(self, other)
        except Exception as error:
            hide_ours(error)
            raise

    return method


_OPERATORS: dict[str, tuple[str, Function]] = {
    "add": ("+", ufuncs.add), "sub": ("-", ufuncs.subtract), "mul": ("*", ufuncs.multiply),
    "truediv": ("/", ufuncs.divide), "floordiv": ("//", ar.floor_divide),
    "mod": ("%", ar.remainder), "divmod": ("divmod", ar.divmod), "pow": ("**", ar.power),
    "matmul": ("@", ct.matmul), "and": ("&", ufuncs.bitwise_and), "or": ("|", ufuncs.bitwise_or),
    "xor": ("^", ufuncs.bitwise_xor), "lshift": ("<<", ufuncs.left_shift),
    "rshift": (">>", ufuncs.right_shift)}
_COMPARISONS: dict[str, tuple[str, Function]] = {
    "eq": ("==", ufuncs.equal), "ne": ("!=", ufuncs.not_equal), "lt": ("<", ufuncs.less),
    "le": ("<=", ufuncs.less_equal), "gt": (">", ufuncs.greater),
    "ge": (">=", ufuncs.greater_equal)}


# ---- operators with a body
def _round(self: Any, ndigits: int | None = None) -> Any:
    """round(x): whole numbers of an integer dtype; round(x, n): n decimals."""
    if ndigits is not None:
        return rounding.round(self, ndigits)
    with lazy_eval("round"):
        made = rounding.round(self, 0)
        return convert.astype(made, int)


def _getitem(self: Any, index: Any) -> Any:
    found = part_of(self, index)
    if found is not None:
        return found
    if type(index) is int and index.bit_length() > 31 and not is_far(shape_of(self)):
        dtypes.check_fits(index)
    try:
        if has_slice(index):
            self, _, index = window(self, index)
        return take(self, index)
    except Exception as error:
        hide_ours(error)
        raise


def _setitem(self: Any, index: Any, value: Any) -> None:
    raise TypeError(explain(
        "JAX arrays are immutable and do not support in-place item assignment. Instead of "
        "x[idx] = y, use x = x.at[idx].set(y) or another .at[] method.",
        fix="x = x.at[idx].set(y)"))


def _iter(self: Any) -> Iterator[Any]:
    if not self.shape:
        raise TypeError(explain("iteration over a 0-d array"))
    return (_getitem(self, i) for i in range(self.shape[0]))


def _reversed(self: Any) -> Iterator[Any]:
    if not self.shape:
        raise TypeError(explain("iteration over a 0-d array"))
    return (_getitem(self, i) for i in reversed(range(self.shape[0])))


# ---- methods whose signature differs from the function's
def _reshape(self: Any, *args: Any, order: str = "C", copy: bool | None = None,
             out_sharding: Any = None) -> Any:
    """The elements in another shape.

    Args:
      *args: sizes, or one tuple of them; one size may be -1 and is found from the others.
      order: 'C' (row-major) or 'F' (column-major).
      copy: accepted for compatibility; arrays are immutable.
      out_sharding: of the result, over Explicit axes: a NamedSharding, or a PartitionSpec over
        the context's mesh.

    Returns:
      An array of the same size and dtype.

    Raises:
      TypeError: the sizes do not make up the array's.
      ValueError: the order is unknown.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.arange(4).reshape(2, -1)
      Array([[0, 1],
             [2, 3]], dtype=int32)
    """
    sizes = args[0] if len(args) == 1 else args
    return shapes.reshape(self, sizes, order, copy=copy, out_sharding=out_sharding)


def _transpose(self: Any, *args: Any) -> Any:
    """The axes in another order; reversed by default.

    Args:
      *args: the axes, one by one or as one tuple.

    Returns:
      An array of the same elements.

    Raises:
      ValueError: the axes are no permutation.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.zeros((2, 3, 4)).transpose(1, 0, 2).shape
      (3, 2, 4)
    """
    if not args or args == (None,):
        return shapes.transpose(self)
    axes = args[0] if len(args) == 1 and not hasattr(args[0], "__index__") else args
    return shapes.transpose(self, axes)


def _astype(self: Any, dtype: Any, copy: bool = False, device: Any = None) -> Any:
    """The array in another dtype.

    Args:
      dtype: the dtype; floats are cut towards zero by integers.
      copy: accepted for compatibility; arrays are immutable.
      device: where the result goes (default: where the array is).

    Returns:
      An array of the same shape.

    Raises:
      TypeError: the dtype is none.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.asarray([1.5, -1.5]).astype(jnp.int32)
      Array([ 1, -1], dtype=int32)
    """
    return convert.astype(self, dtype, copy=copy, device=device)


def _copy(self: Any) -> Any:
    """A copy in memory of its own.

    Example:
      >>> import calque.numpy as jnp
      >>> x = jnp.arange(2)
      >>> y = x.copy()
      >>> x.delete()
      >>> y
      Array([0, 1], dtype=int32)
    """
    return make_array(self, copy=True)


def _clip(self: Any, min: Any = None, max: Any = None) -> Any:
    """Values limited to [min, max].

    Args:
      min, max: bounds, broadcast to the array; None: no bound.

    Returns:
      An array.

    Raises:
      TypeError: a bound is no array or number.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.asarray([1.0, 2.0, 3.0]).clip(1.5, 2.5)
      Array([1.5, 2. , 2.5], dtype=float32)
    """
    return rounding.clip(self, min, max)


def _flatten(self: Any, order: str = "C", *, out_sharding: Any = None) -> Any:
    """The elements in one axis.

    Args:
      order: 'C' (row-major) or 'F' (column-major).
      out_sharding: of the result, over Explicit axes: a NamedSharding, or a PartitionSpec over
        the context's mesh.

    Returns:
      An array of one axis.

    Raises:
      ValueError: the order is unknown.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.asarray([[1, 2], [3, 4]]).flatten()
      Array([1, 2, 3, 4], dtype=int32)
    """
    return shapes.ravel(self, order, out_sharding=out_sharding)


def _property(f: Function, sentence: str, example: str, result: str) -> property:
    """A property that is a function of the array, with its docstring."""
    return property(lambda self: f(self), doc=(
        f"{sentence}\n\nExample:\n  >>> import calque.numpy as jnp\n  >>> {example}\n  {result}\n"))


def _compress(self: Any, condition: Any, axis: Any = None, *, out: None = None,
              size: int | None = None, fill_value: Any = 0) -> Any:
    """The slices along an axis where condition holds (see jnp.compress).

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.array([5, 6, 7]).compress(jnp.array([True, False, True]))
      Array([5, 7], dtype=int32)
    """
    return picking.compress(condition, self, axis, out=out, size=size, fill_value=fill_value)


def _argsort(self: Any, axis: int | None = -1, *, kind: None = None, order: None = None,
             stable: bool = True, descending: bool = False) -> Any:
    """The positions along an axis of the elements in order (see jnp.argsort).

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.array([3, 1, 2]).argsort()
      Array([1, 2, 0], dtype=int32)
    """
    return sorting.argsort(self, axis, kind=kind, order=order, stable=stable,
                           descending=descending)


METHODS: dict[str, Any] = {
    "__neg__": lambda self: ufuncs.negative(self), "__pos__": lambda self: ar.positive(self),
    "__abs__": lambda self: ar.absolute(self), "__invert__": lambda self: ufuncs.invert(self),
    "__round__": _round, "__getitem__": _getitem, "__setitem__": _setitem, "__iter__": _iter,
    "__reversed__": _reversed,
    "T": _property(shapes.transpose,
        "The axes reversed.",
        "jnp.zeros((2, 3)).T.shape", "(3, 2)"),
    "mT": _property(shapes.matrix_transpose,
        "The last two axes exchanged.",
        "jnp.zeros((2, 3, 4)).mT.shape", "(2, 4, 3)"),
    "real": _property(parts.real,
        "The real part.",
        "jnp.asarray([1 + 2j]).real", "Array([1.], dtype=float32)"),
    "imag": _property(parts.imag,
        "The imaginary part.",
        "jnp.asarray([1 + 2j]).imag", "Array([2.], dtype=float32)"),
    "at": _property(At,
        "Changed copies: x.at[index].set(v), .add(v), ...",
        "jnp.zeros(3).at[1].set(5)", "Array([0., 5., 0.], dtype=float32)"),
    "astype": _astype, "copy": _copy, "clip": _clip, "flatten": _flatten, "reshape": _reshape,
    "transpose": _transpose, "view": convert.view, "ravel": shapes.ravel, "squeeze": shapes.squeeze,
    "swapaxes": shapes.swapaxes, "dot": ct.dot, "conj": parts.conj, "conjugate": parts.conj,
    "round": rounding.round, "trace": arrange.trace, "diagonal": arrange.diagonal,
    "take": picking.take, "choose": picking.choose, "compress": _compress,
    "nonzero": positions.nonzero, "sort": sorting.sort, "argsort": _argsort,
    "searchsorted": sorting.searchsorted, "argpartition": sorting.argpartition,
    **{name: getattr(reductions, name) for name in (
        "sum", "prod", "max", "min", "argmax", "argmin", "all", "any", "ptp")},
    "mean": means.mean, "var": means.var, "std": means.std,
    "cumsum": cumulative.cumsum, "cumprod": cumulative.cumprod, "repeat": join.repeat,
    **protocols.EVERYWHERE,
}


def _table() -> dict[str, Any]:
    table = dict(METHODS)
    for name, (symbol, f) in _OPERATORS.items():
        table[f"__{name}__"] = _binary(symbol, f)
        table[f"__r{name}__"] = _binary(symbol, f, reflected=True)
    for name, (symbol, f) in _COMPARISONS.items():
        table[f"__{name}__"] = _binary(symbol, f)
    return table


def install() -> None:
    """Give Array and Tracer their operators and methods."""
    for name, f in _table().items():
        for kind in (Array, Tracer):
            setattr(kind, name, f)
    for name, f in protocols.CONCRETE.items():
        setattr(Array, name, f)


install()
