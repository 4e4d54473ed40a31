"""`x.at[index].set(v)` and its relatives: an array with some elements changed.

A contiguous window is written by dynamic_update_slice; a strided one is spread by pad and chosen
by a mask; a traced position is written where it lies inside, else nothing changes; index arrays
(calque.numpy.advanced) are scatters.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calque.core import dims, dtypes
from calque.core.avals import aval_of
from calque.core.errors import explain
from calque.core.primitive import Primitive
from calque.eager import fused
from calque.numpy import advanced, util
from calque.numpy import arithmetic as ar
from calque.numpy import ufuncs as uf
from calque.numpy.creation import asarray
from calque.numpy.indexing import (
    Plan,
    Run,
    Traced,
    is_basic,
    parse,
    read,
    traced_starts,
)
from calque.numpy.shapes import broadcast_to
from calque.primitives import elementwise as ew
from calque.primitives import index as ix
from calque.primitives import scatter as sc
from calque.primitives import shape as sh
from calque.primitives.gather import GatherScatterMode, default_fill

_CLIPPED = (GatherScatterMode.CLIP, GatherScatterMode.PROMISE_IN_BOUNDS)


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
        return Ref(self.array, index)

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

    def get(self, *, indices_are_sorted: bool = False, unique_indices: bool = False,
            mode: Any = None, fill_value: Any = None, out_sharding: Any = None,
            wrap_negative_indices: bool = True) -> Any:
        """The elements x[index]; with mode 'fill' those outside the array are fill_value.

        Args:
          indices_are_sorted, unique_indices: promises; they change nothing.
          mode: 'fill', 'clip' (the default: the nearest element) or 'promise_in_bounds'.
          fill_value: default NaN, the smallest signed, the largest unsigned integer, True.
          out_sharding: accepted for compatibility.
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
        mode, shape = _mode(mode), aval_of(self.array).shape
        if not wrap_negative_indices or not is_basic(self.index):
            fancy = advanced.plan(self.index, shape, wrap_negative_indices)
            return advanced.read(self.array, fancy, mode, fill_value, indices_are_sorted,
                                 unique_indices)
        plan = parse(self.index, shape)
        if mode is not GatherScatterMode.FILL_OR_DROP:
            return read(self.array, plan)
        with fused("get"):
            found = read(self.array, plan)
            inside = _inside(plan)
            if inside is None:
                return found
            dtype = aval_of(found).dtype
            value = default_fill(dtype) if fill_value is None else fill_value
            value = util.cast(util.one_array("get", value), dtype)
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
        with fused("divide"):
            ones = Ref(_ones(self.array), self.index).multiply(values, **options)
            return uf.divide(self.array, ones)

    def power(self, values: Any, **options: Any) -> Any:
        """x with x[index] **= values (arguments as for `set`).

        Example:
          >>> import calque.numpy as jnp
          >>> jnp.asarray([2.0, 3.0]).at[1:].power(2)
          Array([2., 9.], dtype=float32)
        """
        with fused("power"):
            ones = Ref(_ones(self.array), self.index).multiply(values, **options)
            return ar.power(self.array, ones)

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
        mode, shape = _mode(mode), aval_of(self.array).shape
        with fused("apply"):
            if not wrap_negative_indices or not is_basic(self.index):
                fancy = advanced.plan(self.index, shape, wrap_negative_indices)
                return advanced.apply(self.array, fancy, func, mode, indices_are_sorted,
                                      unique_indices)
            plan = parse(self.index, shape)
            return write(self.array, plan, func(read(self.array, plan)), None, mode)

    def _update(self, name: str, values: Any, join: Any, p: Primitive,
                options: dict[str, Any]) -> Any:
        for option in options:
            if option not in _OPTIONS:
                raise TypeError(explain(f"{name}() got an unexpected keyword argument "
                                        f"{option!r}"))
        mode, x = _mode(options.get("mode")), self.array
        values, wide = _values(values), _joined_dtype(x, values)
        if join is not None and wide != aval_of(x).dtype:  # what is joined is wide, the result not
            _warn_of_cast(values, aval_of(x))
            with fused(name):
                out = Ref(util.cast(x, wide), self.index)._update(name, values, join, p, options)
                return _narrow(out, aval_of(x))
        wrap = options.get("wrap_negative_indices", True)
        if wrap and is_basic(self.index):
            plan = parse(self.index, aval_of(x).shape)
            with fused(name):
                return write(x, plan, values, join, mode)
        with fused(name):
            mask = None if np.ndim(values) else advanced.whole_mask(x, self.index)
            if mask is not None:  # one program whatever the number of elements
                value = _cast_update(values, aval_of(x))
                made = value if join is None else join(x, value)
                return ar.choose(mask, util.cast(made, aval_of(x).dtype, aval_of(x).weak_type), x)
        fancy = advanced.plan(self.index, aval_of(x).shape, wrap)
        if 0 in fancy.shape:
            return util.array(x)
        with fused(name):
            target = broadcast_to(_cast_update(values, aval_of(x)), fancy.shape)
            return advanced.update(x, fancy, target, p, mode,
                                   bool(options.get("indices_are_sorted", False)),
                                   bool(options.get("unique_indices", False)))


_OPTIONS = ("indices_are_sorted", "unique_indices", "mode", "out_sharding", "wrap_negative_indices")


def _values(values: Any) -> Any:
    """Updates as an operand: numbers stay numbers, so that programs show them."""
    is_number = isinstance(values, (bool, int, float, complex, np.generic))
    return values if is_number else asarray(values)


def _mode(mode: Any) -> Any:
    """None or a GatherScatterMode."""
    return None if mode is None else GatherScatterMode.from_any(mode)


def _ones(x: Any) -> Any:
    """Ones like x, of its dtype: so that what divides an integer is one (as in JAX)."""
    dtype = aval_of(x).dtype
    made = sh.broadcast_in_dim_p.bind(dtype.type(1), shape=aval_of(x).shape,
                                      broadcast_dimensions=(), sharding=None)
    return util.cast(made, dtype, aval_of(x).weak_type)


def _inside(plan: Plan) -> Any:
    """Whether all int positions lie inside: None (surely), False (surely not), or traced."""
    if any(isinstance(a, Run) and a.outside for a in plan.axes):
        return False
    result = None
    for a, start in zip(plan.axes, traced_starts(plan) if _is_traced(plan) else ()):
        if isinstance(a, Traced):
            kind = aval_of(start).dtype
            size = dims.min_dim(a.size, int(np.iinfo(kind).max))
            good = ew.lt_p.bind(start, dims.number(size, kind))
            if kind.kind == "i":
                good = ew.and_p.bind(good, ew.ge_p.bind(start, kind.type(0)))
            result = good if result is None else ew.and_p.bind(result, good)
    return result


def _is_traced(plan: Plan) -> bool:
    return any(isinstance(a, Traced) for a in plan.axes)


# ---- writing
def write(x: Any, plan: Plan, values: Any, join: Any, mode: Any) -> Any:
    """x with the window of a Plan replaced by values, or by join(window, values)."""
    aval = aval_of(x)
    inside = None if mode in _CLIPPED else _inside(plan)
    values = _cast_update(values, aval)
    if 0 in plan.window:  # as in JAX, whatever the shape of the values
        return util.array(x)
    target = broadcast_to(values, plan.shape)
    if inside is False:
        return util.array(x)
    target = _as_window(target, plan)
    part = _cut(x, plan)
    if join is not None:
        target = join(_positions(part, plan), target)
        target = util.cast(target, aval.dtype, aval.weak_type)
    made = _place(part, plan, target)
    if inside is not None:
        made = ar.choose(inside, made, part)
    if not _is_traced(plan):
        return made
    return ix.dynamic_update_slice(x, made, traced_starts(plan))


def _joined_dtype(x: Any, values: Any) -> Any:
    return dtypes.promote([dtypes.dtype_and_weak(x), dtypes.dtype_and_weak(values)])[0]


def _warn_of_cast(values: Any, aval: Any) -> None:
    own, weak = aval_of(values).dtype, aval_of(values).weak_type
    if dtypes.promote([(aval.dtype, aval.weak_type), (own, weak)])[0] != aval.dtype:
        util.warn("scatter inputs have incompatible types: cannot safely cast value from "
                  f"dtype={own.name} to dtype={aval.dtype.name}. In future JAX releases this will "
                  "result in an error.", FutureWarning)


def _cast_update(values: Any, aval: Any) -> Any:
    _warn_of_cast(values, aval)
    return _narrow(values, aval)


def _narrow(values: Any, aval: Any) -> Any:
    if aval_of(values).dtype.kind == "c" and aval.dtype.kind != "c":
        values = ew.real_p.bind(values)
    return util.cast(values, aval.dtype, aval.weak_type)


def _cut(x: Any, plan: Plan) -> Any:
    """The part of x that is written to: one position of its traced axes."""
    if not _is_traced(plan):
        return x
    sizes = [1 if isinstance(a, Traced) else n for a, n in zip(plan.axes, aval_of(x).shape)]
    return ix.dynamic_slice(x, traced_starts(plan), sizes)


def _static(plan: Plan) -> Plan:
    """The Plan within the cut part."""
    axes = tuple(Run(0, 1, 1, True) if isinstance(a, Traced) else a for a in plan.axes)
    return Plan(axes, plan.shape, plan.kept)


def _positions(part: Any, plan: Plan) -> Any:
    """The elements of the part that change, in memory order."""
    axes = tuple(Run(a.low, a.count, abs(a.step)) for a in _static(plan).axes
                 if isinstance(a, Run))
    whole = Plan(axes, tuple(a.count for a in axes), tuple(range(len(axes))))
    from calque.numpy.indexing import _read_window
    return _read_window(part, whole)


def _as_window(values: Any, plan: Plan) -> Any:
    """Values of the result's shape as a window in memory order."""
    if aval_of(values).shape != plan.window:
        values = sh.reshape(values, plan.window)
    return sh.rev(values, plan.reversed) if plan.reversed else values


def _place(part: Any, plan: Plan, window: Any) -> Any:
    """part with the window written into it."""
    axes = [a for a in _static(plan).axes if isinstance(a, Run)]
    shape = aval_of(part).shape
    if aval_of(window).shape == shape:
        return window
    if all(abs(a.step) == 1 or a.count == 1 for a in axes):
        return ix.dynamic_update_slice(part, window, [dims.number(a.low, np.int32) for a in axes])
    config = []
    for a, n in zip(axes, shape):
        step = 1 if a.count == 1 else abs(a.step)
        config.append((a.low, n - a.low - step * (a.count - 1) - 1, step - 1))
    zero = ew.const(window, 0) if aval_of(window).dtype != dtypes.bool_ else np.False_
    mask = sh.pad(ew.match_shape(np.True_, aval_of(window).shape), np.False_, config)
    return ew.select_n_p.bind(mask, part, sh.pad(window, zero, config))


__all__ = ["At", "Ref", "write"]
