"""`x.at[index].set(v)` and its relatives: an array with some elements changed.

A contiguous window is written by dynamic_update_slice; a strided one is spread by pad and chosen
by a mask; a traced position is written where it lies inside, else nothing changes; index arrays
(calque.numpy.advanced) are scatters.
"""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from calque.core import dtypes
from calque.core.avals import aval_of, dtype_of, shape_of
from calque.core.config import config
from calque.core.dims import is_far
from calque.core.errors import explain
from calque.core.primitive import Primitive
from calque.core.tracebacks import hide_ours
from calque.dispatch.eager import lazy_eval
from calque.dispatch.sharded.placing import resharded
from calque.lax.operands import numpy_operand
from calque.numpy import advanced, util
from calque.numpy import arithmetic as ar
from calque.numpy import ufuncs as uf
from calque.numpy.computed_slices import WindowRef, has_slice
from calque.numpy.creation import asarray
from calque.numpy.indexing import (
    is_basic,
    parse,
    read,
)
from calque.numpy.shapes import broadcast_to
from calque.numpy.writing import (
    cast_update,
    inside_of,
    joined_dtype,
    narrow,
    warn_of_cast,
    write,
)
from calque.primitives import elementwise as ew
from calque.primitives import scatter as sc
from calque.primitives import shape as sh
from calque.primitives.gather import GatherScatterMode, default_fill
from calque.primitives.random import filled_key

F = TypeVar("F", bound=Callable[..., Any])


def _counting_far(f: F) -> F:
    """As lax.index.counting_far, for methods of Ref."""
    @functools.wraps(f)
    def wrapped(self: Ref, *args: Any, **kwargs: Any) -> Any:
        try:
            if not is_far(shape_of(self.array)):
                return f(self, *args, **kwargs)
            with config.context("jax_enable_x64", True):
                return f(self, *args, **kwargs)
        except Exception as error:
            hide_ours(error)
            raise
    return wrapped  # type: ignore[return-value]


class At:
    """`x.at`: index it to name the elements that change.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.zeros(3).at[1].set(5)
      Array([0., 5., 0.], dtype=float32)
    """

    __slots__ = ("array",)

    def __init__(self, array: Any) -> None:
        self.array = array

    def __getitem__(self, index: Any) -> Ref:
        if has_slice(index):
            return WindowRef(self.array, index, Ref)  # type: ignore[return-value]
        return Ref(self.array, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TypeError(explain("x.at[index] = y does not change an array.",
                                fix="x = x.at[index].set(y): it gives a changed copy."))

    def __repr__(self) -> str:
        return f"_IndexUpdateHelper({self.array!r})"


class Ref:
    """`x.at[index]`: its methods return x with the indexed elements changed.

    Indices outside the array are ignored by updates (mode='clip' moves them inside).

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.arange(4).at[::2].multiply(10)
      Array([ 0,  1, 20,  3], dtype=int32)
    """

    __slots__ = ("array", "index")

    def __init__(self, array: Any, index: Any) -> None:
        self.array, self.index = array, index

    def __repr__(self) -> str:
        return f"_IndexUpdateRef({self.array!r}, {self.index!r})"

    @_counting_far
    def get(self, *, indices_are_sorted: bool = False, unique_indices: bool = False,
            mode: Any = None, fill_value: Any = None, out_sharding: Any = None,
            wrap_negative_indices: bool = True) -> Any:
        """The elements x[index]; with mode 'fill' those outside the array are fill_value.

        Args:
          indices_are_sorted, unique_indices: promises; they change nothing.
          mode: 'fill', 'clip' (the default: the nearest element) or 'promise_in_bounds'.
          fill_value: default NaN, the smallest signed, the largest unsigned integer, True.
          out_sharding: of the result, over Explicit axes: a NamedSharding, or a PartitionSpec
            over the context's mesh.
          wrap_negative_indices: whether negative indices count from the end.

        Returns:
          An array.

        Raises:
          IndexError: there are more indices than axes.
          ValueError: the mode is unknown.

        Example:
          >>> import calque.numpy as jnp
          >>> jnp.arange(3).at[5].get(mode="fill", fill_value=-1)
          Array(-1, dtype=int32)
        """
        if out_sharding is not None:
            return resharded(".get", out_sharding, self.get, indices_are_sorted=indices_are_sorted,
                             unique_indices=unique_indices, mode=mode, fill_value=fill_value,
                             wrap_negative_indices=wrap_negative_indices)
        mode, shape = _mode(mode), shape_of(self.array)
        if not wrap_negative_indices or not is_basic(self.index):
            fancy = advanced.plan(self.index, shape, wrap_negative_indices)
            return advanced.read(self.array, fancy, mode, fill_value, indices_are_sorted,
                                 unique_indices)
        plan = parse(self.index, shape)
        if mode is not GatherScatterMode.FILL_OR_DROP:
            return read(self.array, plan)
        with lazy_eval("get"):
            found = read(self.array, plan)
            inside = inside_of(plan)
            if inside is None:
                return found
            dtype = dtype_of(found)
            if dtypes.is_key(dtype):
                return ar.choose(np.bool_(inside) if isinstance(inside, bool) else inside, found,
                                 filled_key(dtype) if fill_value is None else fill_value)
            value = default_fill(dtype) if fill_value is None else fill_value
            value = util.cast(util.one_array("get", dtypes.held(value, dtype)), dtype)
            if isinstance(inside, bool):
                inside = np.bool_(inside)
            return ar.choose(inside, found, value)

    def set(self, values: Any, **options: Any) -> Any:
        """x with x[index] = values.

        Args:
          values: array or scalar that broadcasts to x[index].
          **options: mode ('drop', the default, or 'clip', for indices outside x);
            indices_are_sorted, unique_indices, out_sharding, wrap_negative_indices.

        Returns:
          An array of x's shape and dtype.

        Raises:
          TypeError: an option is unknown.
          ValueError: the values do not broadcast, or the mode is unknown.

        Example:
          >>> import calque.numpy as jnp
          >>> jnp.zeros(3).at[1].set(5)
          Array([0., 5., 0.], dtype=float32)
        """
        return self._update("set", values, None, sc.scatter_p, options)

    def add(self, values: Any, **options: Any) -> Any:
        """x with x[index] += values, as often as an element is named (arguments as for `set`).

        Example:
          >>> import calque.numpy as jnp
          >>> jnp.ones(3).at[1:].add(5)
          Array([1., 6., 6.], dtype=float32)
        """
        return self._update("add", values, ew.add_p.bind, sc.scatter_add_p, options)

    def subtract(self, values: Any, **options: Any) -> Any:
        """x with x[index] -= values, as often as an element is named (arguments as for `set`).

        Example:
          >>> import calque.numpy as jnp
          >>> jnp.ones(3).at[1:].subtract(5)
          Array([ 1., -4., -4.], dtype=float32)
        """
        return self._update("subtract", values, ew.sub_p.bind, sc.scatter_sub_p, options)

    def multiply(self, values: Any, **options: Any) -> Any:
        """x with x[index] *= values, as often as an element is named (arguments as for `set`).

        Example:
          >>> import calque.numpy as jnp
          >>> jnp.ones(3).at[1:].multiply(5)
          Array([1., 5., 5.], dtype=float32)
        """
        return self._update("multiply", values, ew.mul_p.bind, sc.scatter_mul_p, options)

    mul = multiply

    def min(self, values: Any, **options: Any) -> Any:
        """x with x[index] = minimum(x[index], values) (arguments as for `set`).

        Example:
          >>> import calque.numpy as jnp
          >>> jnp.ones(3).at[1:].min(0)
          Array([1., 0., 0.], dtype=float32)
        """
        return self._update("min", values, ew.min_p.bind, sc.scatter_min_p, options)

    def max(self, values: Any, **options: Any) -> Any:
        """x with x[index] = maximum(x[index], values) (arguments as for `set`).

        Example:
          >>> import calque.numpy as jnp
          >>> jnp.ones(3).at[1:].max(2)
          Array([1., 2., 2.], dtype=float32)
        """
        return self._update("max", values, ew.max_p.bind, sc.scatter_max_p, options)

    def divide(self, values: Any, **options: Any) -> Any:
        """x with x[index] /= values (arguments as for `set`); integers become floats.

        Example:
          >>> import calque.numpy as jnp
          >>> jnp.ones(3).at[1:].divide(2)
          Array([1. , 0.5, 0.5], dtype=float32)
        """
        with lazy_eval("divide"):
            ones = Ref(_ones(self.array), self.index).multiply(values, **options)
            return uf.divide(self.array, ones)

    def power(self, values: Any, **options: Any) -> Any:
        """x with x[index] **= values (arguments as for `set`).

        Example:
          >>> import calque.numpy as jnp
          >>> jnp.asarray([2.0, 3.0]).at[1:].power(2)
          Array([2., 9.], dtype=float32)
        """
        with lazy_eval("power"):
            ones = Ref(_ones(self.array), self.index).multiply(values, **options)
            return ar.power(self.array, ones)

    @_counting_far
    def apply(self, func: Callable[[Any], Any], *, indices_are_sorted: bool = False,
              unique_indices: bool = False, mode: Any = None,
              wrap_negative_indices: bool = True) -> Any:
        """x with x[index] = func(x[index]), once for each time an element is named.

        Args:
          func: function of the indexed elements that keeps their shape and dtype.
          indices_are_sorted: a promise; it changes nothing.
          unique_indices: a promise that no element is named twice.
          wrap_negative_indices: whether negative indices count from the end.
          mode: 'drop' (the default) or 'clip', for indices outside x.

        Returns:
          An array of x's shape and dtype.

        Raises:
          ValueError: the mode is unknown.

        Example:
          >>> import calque.numpy as jnp
          >>> jnp.ones(3).at[1:].apply(jnp.negative)
          Array([ 1., -1., -1.], dtype=float32)
        """
        mode, shape = _mode(mode), shape_of(self.array)
        with lazy_eval("apply"):
            if not wrap_negative_indices or not is_basic(self.index):
                fancy = advanced.plan(self.index, shape, wrap_negative_indices)
                return advanced.apply(self.array, fancy, func, mode, indices_are_sorted,
                                      unique_indices)
            plan = parse(self.index, shape)
            return write(self.array, plan, func(read(self.array, plan)), None, mode)

    @_counting_far
    def _update(self, name: str, values: Any, join: Any, p: Primitive,
                options: dict[str, Any]) -> Any:
        for option in options:
            if option not in _OPTIONS:
                raise TypeError(explain(f"{name}() got an unexpected keyword argument "
                                        f"{option!r}"))
        if options.get("out_sharding") is not None:
            rest = {k: v for k, v in options.items() if k != "out_sharding"}
            return resharded(f".{name}", options["out_sharding"], self._update, name, values, join,
                             p, rest)
        mode, x = _mode(options.get("mode")), self.array
        values = dtypes.held(_values(values), dtype_of(x))
        if join is None and type(values) is bool:  # (a number: of any dtype)
            values = dtype_of(x).type(values)
        wide = joined_dtype(x, values)
        if join is not None and wide != dtype_of(x):  # what is joined is wide, the result not
            warn_of_cast(values, aval_of(x))
            with lazy_eval(name):
                out = Ref(util.cast(x, wide), self.index)._update(name, values, join, p, options)
                return narrow(out, aval_of(x))
        wrap = options.get("wrap_negative_indices", True)
        if wrap and is_basic(self.index):
            plan = parse(self.index, shape_of(x))
            with lazy_eval(name):
                return write(x, plan, values, join, mode)
        with lazy_eval(name):
            mask = None if np.ndim(values) else advanced.whole_mask(x, self.index)
            if mask is not None:  # one program whatever the number of elements
                value = cast_update(values, aval_of(x))
                made = value if join is None else join(x, value)
                return ar.choose(mask, util.cast(made, dtype_of(x), aval_of(x).weak_type), x)
        fancy = advanced.plan(self.index, shape_of(x), wrap)
        if 0 in fancy.shape:
            return util.array(x)
        with lazy_eval(name):
            target = broadcast_to(cast_update(values, aval_of(x)), fancy.shape)
            return advanced.update(x, fancy, target, p, mode,
                                   bool(options.get("indices_are_sorted", False)),
                                   bool(options.get("unique_indices", False)))


def _in_place(symbol: str, method: str) -> Callable[..., Any]:
    def refuse(self: Ref, other: Any) -> Any:
        raise TypeError(explain(
            f"x.at[index] {symbol} y does not change an array.",
            fix=f"x = x.at[index].{method}(y): it gives a changed copy."))
    return refuse


for _name, _symbol, _method in (
        ("__iadd__", "+=", "add"), ("__isub__", "-=", "subtract"), ("__imul__", "*=", "multiply"),
        ("__itruediv__", "/=", "divide"), ("__ipow__", "**=", "power")):
    setattr(Ref, _name, _in_place(_symbol, _method))


_OPTIONS = ("indices_are_sorted", "unique_indices", "mode", "out_sharding", "wrap_negative_indices")


def _values(values: Any) -> Any:
    """Updates as an operand: numbers stay numbers, so that programs show them."""
    if isinstance(values, np.generic):  # one of 64 bits is cut as an array is
        return numpy_operand("at", values)
    return values if isinstance(values, (bool, int, float, complex)) else asarray(values)


def _mode(mode: Any) -> Any:
    """None or a GatherScatterMode."""
    return None if mode is None else GatherScatterMode.from_any(mode)


def _ones(x: Any) -> Any:
    """Ones like x, of its dtype: so that what divides an integer is one (as in JAX)."""
    dtype = dtype_of(x)
    made = sh.broadcast_in_dim(dtype.type(1), shape_of(x), ())
    return util.cast(made, dtype, aval_of(x).weak_type)


__all__ = ["At", "Ref"]
