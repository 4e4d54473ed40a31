"""Initializers: functions (key, shape, dtype) that draw starting weights.

The scaled ones share `variance_scaling`; draws are those of calque.random, bit for bit where the
draw is a uniform or normal one.  Start reading at `variance_scaling`.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np

from calque import random
from calque.core import dtypes
from calque.core.errors import explain
from calque.core.tables import from_row
from calque.core.types import Dtype, Function, Shape
from calque.dispatch.eager import lazy_eval
from calque.dispatch.sharded.placing import resharded
from calque.lax.operands import as_sizes
from calque.numpy import creation, util
from calque.numpy.arrange import diagonal
from calque.numpy.decompositions import qr
from calque.numpy.shapes import moveaxis
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh


@runtime_checkable
class Initializer(Protocol):
    """What initializers are: functions of a key, a shape and a dtype.

    Example:
      >>> from calque import nn
      >>> isinstance(nn.initializers.normal(), nn.initializers.Initializer)
      True
    """

    def __call__(self, key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Any:
        """Draw an array."""


def _kind(dtype: Any) -> Dtype:
    return dtypes.default_dtype(float) if dtype is None else util.user_dtype("initializer", dtype)


def _named(name: str, draw: Callable[[Any, tuple[int, ...], Any], Any],
           given: Any) -> Initializer:
    """draw(key, shape, dtype) as an initializer whose default dtype is `given`."""
    def init(key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Any:
        if out_sharding is not None:
            return resharded(name, out_sharding, init, key, shape, dtype)
        kind = _kind(given if dtype is None else dtype)
        with lazy_eval(name):
            return draw(key, as_sizes(name, shape), kind)

    init.__qualname__ = f"{name}.<locals>.init"  # as JAX: flax prints an initializer as `init`
    return init


def zeros(key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Any:
    """An array of zeros.

    Args:
      key: ignored.
      shape: of the array.
      dtype: of the array; float32 (float64 with x64) by default.
      out_sharding: of the array, over Explicit axes: a NamedSharding, or a PartitionSpec over the
        context's mesh.

    Returns:
      An array.

    Raises:
      TypeError: shape or dtype is none.

    Example:
      >>> import calque
      >>> calque.nn.initializers.zeros(None, (2,))
      Array([0., 0.], dtype=float32)
    """
    return creation.zeros(shape, _kind(dtype), out_sharding=out_sharding)


def ones(key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Any:
    """An array of ones.

    Args:
      key: ignored.
      shape: of the array.
      dtype: of the array; float32 (float64 with x64) by default.
      out_sharding: of the array, over Explicit axes: a NamedSharding, or a PartitionSpec over the
        context's mesh.

    Returns:
      An array.

    Raises:
      TypeError: shape or dtype is none.

    Example:
      >>> import calque
      >>> calque.nn.initializers.ones(None, (2,))
      Array([1., 1.], dtype=float32)
    """
    return creation.ones(shape, _kind(dtype), out_sharding=out_sharding)


def constant(value: Any, dtype: Any = None) -> Initializer:
    """Arrays filled with one value.

    Args:
      value: scalar, or array that broadcasts.
      dtype: of the arrays, unless one is given when it is called; float32 by default.

    Returns:
      A function (key, shape, dtype=None) that draws an array.

    Raises:
      ValueError: (when called) the value does not broadcast to the shape.

    Example:
      >>> import calque
      >>> calque.nn.initializers.constant(0.5)(calque.random.key(0), (2, 3)).shape
      (2, 3)
    """
    return _named("constant", lambda key, shape, kind: creation.full(shape, value, kind), dtype)


def uniform(scale: Any = 1e-2, dtype: Any = None) -> Initializer:
    """Uniform draws from [0, scale).

    Args:
      scale: upper end.
      dtype: of the arrays, unless one is given when it is called; float32 by default.

    Returns:
      A function (key, shape, dtype=None) that draws an array.

    Raises:
      ValueError: (when called) the dtype is not a float or complex one.

    Example:
      >>> import calque
      >>> calque.nn.initializers.uniform()(calque.random.key(0), (2, 3)).shape
      (2, 3)
    """
    return _named("uniform", lambda key, shape, kind: _scaled(
        random.uniform(key, shape, kind), scale, kind), dtype)


def normal(stddev: Any = 1e-2, dtype: Any = None) -> Initializer:
    """Normal draws with mean 0.

    Args:
      stddev: standard deviation.
      dtype: of the arrays, unless one is given when it is called; float32 by default.

    Returns:
      A function (key, shape, dtype=None) that draws an array.

    Raises:
      ValueError: (when called) the dtype is not a float or complex one.

    Example:
      >>> import calque
      >>> calque.nn.initializers.normal()(calque.random.key(0), (2, 3)).shape
      (2, 3)
    """
    return _named("normal", lambda key, shape, kind: _scaled(
        random.normal(key, shape, kind), stddev, kind), dtype)


def truncated_normal(stddev: Any = 1e-2, dtype: Any = None, lower: Any = -2.0,
                     upper: Any = 2.0) -> Initializer:
    """Normal draws, cut off at both ends, with mean 0.

    Args:
      stddev: scale of the draws (of the uncut distribution).
      dtype: of the arrays, unless one is given when it is called; float32 by default.
      lower: lower end, in units of stddev.
      upper: upper end, in units of stddev.

    Returns:
      A function (key, shape, dtype=None) that draws an array.

    Raises:
      ValueError: (when called) the dtype is not a float or complex one.

    Example:
      >>> import calque
      >>> calque.nn.initializers.truncated_normal()(calque.random.key(0), (2, 3)).shape
      (2, 3)
    """
    return _named("truncated_normal", lambda key, shape, kind: _scaled(
        random.truncated_normal(key, lower, upper, shape, kind), stddev, kind), dtype)


def _scaled(x: Any, scale: Any, kind: Any) -> Any:
    """x times a scale that is rounded to its dtype first."""
    if not hasattr(scale, "aval"):
        scale = np.asarray(scale).astype(kind)[()]
    return ew.mul(x, util.cast(scale, kind))


# ---- by variance
def _sizes(shape: Shape, axis: Any) -> int:
    axes = [axis] if hasattr(axis, "__index__") else list(axis)
    return math.prod(shape[a] for a in axes)


def _fans(shape: Shape, in_axis: Any, out_axis: Any,
          batch_axis: Any) -> tuple[float, float]:
    """Inputs and outputs of one unit, the window of a convolution included."""
    if len(shape) <= 1 and in_axis == -2:
        raise ValueError(explain(
            f"Can't compute input and output sizes of a {len(shape)}-dimensional weights tensor "
            "with default in_axis. Must be at least 2D or specify in_axis explicitly."))
    inputs, outputs = _sizes(shape, in_axis), _sizes(shape, out_axis)
    window = math.prod(shape) / inputs / outputs / _sizes(shape, batch_axis)
    return inputs * window, outputs * window


_MODES = {"fan_in": lambda i, o: i, "fan_out": lambda i, o: o,
          "fan_avg": lambda i, o: (i + o) / 2,
          "fan_geo_avg": lambda i, o: math.sqrt(i * o)}


def variance_scaling(scale: Any, mode: str, distribution: str, in_axis: Any = -2,
                     out_axis: Any = -1, batch_axis: Any = (), dtype: Any = None) -> Initializer:
    """Draws with variance scale / n, n the number of inputs, of outputs, or a mean of both.

    Args:
      scale: positive number.
      mode: 'fan_in', 'fan_out', 'fan_avg' or 'fan_geo_avg'.
      distribution: 'truncated_normal', 'normal' or 'uniform'.
      in_axis: axis or axes of the inputs.
      out_axis: axis or axes of the outputs.
      batch_axis: axis or axes that are neither.
      dtype: of the arrays, unless one is given when it is called; float32 by default.

    Returns:
      A function (key, shape, dtype=None) that draws an array.

    Raises:
      ValueError: the mode or distribution is unknown, or (when called) the shape has one axis only.

    Example:
      >>> import calque
      >>> draw = calque.nn.initializers.variance_scaling(1.0, 'fan_in', 'normal')
      >>> draw(calque.random.key(0), (2, 3)).shape
      (2, 3)
    """
    def draw(key: Any, shape: Shape, kind: Any) -> Any:
        fans = _fans(shape, in_axis, out_axis, batch_axis)
        if mode not in _MODES:
            raise ValueError(explain(
                f"invalid mode for variance scaling initializer: {mode}",
                fix=f"use one of {sorted(_MODES)}."))
        if distribution not in _DRAWS:
            raise ValueError(explain(
                f"invalid distribution for variance scaling initializer: {distribution}",
                fix=f"use one of {sorted(_DRAWS)}."))
        variance = kind.type(scale / _MODES[mode](*fans))  # type: ignore[no-untyped-call]
        return _DRAWS[distribution](key, shape, kind, variance)

    return _named("variance_scaling", draw, dtype)


def _truncated(key: Any, shape: Shape, kind: Any, variance: Any) -> Any:
    # the standard deviations of the cut distributions (real; complex: cut at radius 2)
    if kind.kind != "c":
        return _scaled(random.truncated_normal(key, -2, 2, shape, kind),
                       np.sqrt(variance) / kind.type(.87962566103423978), kind)
    return _scaled(_disk(key, shape, kind, 2), np.sqrt(variance) / kind.type(.95311164380491208),
                   kind)


def _halves(key: Any) -> tuple[Any, Any]:
    pair = random.split(key)
    return pair[0], pair[1]


def _disk(key: Any, shape: Shape, kind: Any, upper: float | None) -> Any:
    """Complex draws of variance 1: normal and cut at a radius, or uniform in a disk."""
    first, second = _halves(key)
    real = dtypes.real_dtype(kind)
    r = random.uniform(first, shape, real)
    if upper is None:
        r = ew.convert(ew.sqrt(ew.mul(real.type(2), r)), kind)
    else:
        cut = kind.type(1) - np.exp(kind.type(-upper ** 2))
        r = ew.sub(kind.type(1), ew.mul(cut, ew.convert(r, kind)))
        r = ew.sqrt(ew.neg(ew.log(r)))
    turn = ew.convert(random.uniform(second, shape, real), kind)
    angle = ew.mul(kind.type(1j), ew.mul(kind.type(2 * math.pi), turn))
    return ew.mul(r, ew.exp(angle))


def _normal(key: Any, shape: Shape, kind: Any, variance: Any) -> Any:
    return _scaled(random.normal(key, shape, kind), np.sqrt(variance), kind)


def _uniform(key: Any, shape: Shape, kind: Any, variance: Any) -> Any:
    if kind.kind == "c":
        return _scaled(_disk(key, shape, kind, None), np.sqrt(variance), kind)
    return _scaled(random.uniform(key, shape, kind, -1), np.sqrt(kind.type(3) * variance), kind)


_DRAWS: dict[str, Function] = {
    "truncated_normal": _truncated, "normal": _normal, "uniform": _uniform}


_FAMILY = """{sentence}

    Args:
      in_axis: axis or axes of the inputs.
      out_axis: axis or axes of the outputs.
      batch_axis: axis or axes that are neither.
      dtype: of the arrays, unless one is given when it is called; float32 by default.

    Returns:
      A function (key, shape, dtype=None) that draws an array.

    Raises:
      ValueError: (when called) the shape has one axis only.

    Example:
      >>> import calque
      >>> calque.nn.initializers.{name}()(calque.random.key(0), (2, 3)).shape
      (2, 3)
    """


def _family(sentence: str, name: str, scale: float, mode: str, distribution: str) -> Any:
    def f(in_axis: Any = -2, out_axis: Any = -1, batch_axis: Any = (),
          dtype: Any = None) -> Initializer:
        return variance_scaling(scale, mode, distribution, in_axis, out_axis, batch_axis, dtype)

    return from_row(f, __name__, name, _FAMILY, sentence=sentence)


glorot_uniform = xavier_uniform = _family(
    "Uniform draws with variance 2 / (inputs + outputs).", "glorot_uniform", 1.0, "fan_avg",
    "uniform")
glorot_normal = xavier_normal = _family(
    "Truncated normal draws with variance 2 / (inputs + outputs).", "glorot_normal", 1.0,
    "fan_avg", "truncated_normal")
lecun_uniform = _family("Uniform draws with variance 1 / inputs.", "lecun_uniform", 1.0, "fan_in",
                        "uniform")
lecun_normal = _family("Truncated normal draws with variance 1 / inputs.", "lecun_normal", 1.0,
                       "fan_in", "truncated_normal")
he_uniform = kaiming_uniform = _family("Uniform draws with variance 2 / inputs.", "he_uniform",
                                       2.0, "fan_in", "uniform")
he_normal = kaiming_normal = _family("Truncated normal draws with variance 2 / inputs.",
                                     "he_normal", 2.0, "fan_in", "truncated_normal")


# ---- orthogonal matrices
def _orthogonal(key: Any, rows: int, columns: int, kind: Any) -> Any:
    """A (rows, columns) matrix with orthonormal columns (or rows), uniformly distributed."""
    tall = max(rows, columns), min(rows, columns)
    q, r = qr(random.normal(key, tall, kind))
    q = q * ew.sign(diagonal(r))  # unique: R's diagonal positive (Mezzadri 2007)
    return sh.transpose(q, (1, 0)) if rows < columns else q


def orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """Matrices with orthonormal rows or columns, uniformly distributed.

    Args:
      scale: factor of all elements.
      column_axis: axis of the columns.
      dtype: of the arrays, unless one is given when it is called; float32 by default.

    Returns:
      A function (key, shape, dtype=None) that draws an array.

    Raises:
      ValueError: (when called) the shape has fewer than 2 axes.

    Example:
      >>> import calque
      >>> calque.nn.initializers.orthogonal()(calque.random.key(0), (2, 3)).shape
      (2, 3)
    """
    def draw(key: Any, shape: Shape, kind: Any) -> Any:
        if len(shape) < 2:
            raise ValueError(explain("orthogonal initializer requires at least a 2D shape, "
                                     f"got {shape}."))
        columns = shape[column_axis]
        rest = [n for i, n in enumerate(shape) if i != column_axis % len(shape)]
        made = _orthogonal(key, math.prod(rest), columns, kind)
        made = moveaxis(sh.reshape(made, (*rest, columns)), -1, column_axis)
        return _scaled(made, scale, kind)

    return _named("orthogonal", draw, dtype)


def delta_orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """Convolution kernels that are an orthogonal matrix in the middle, 0 elsewhere.

    Args:
      scale: factor of all elements.
      column_axis: axis of the columns.
      dtype: of the arrays, unless one is given when it is called; float32 by default.

    Returns:
      A function (key, shape, dtype=None) that draws an array.

    Raises:
      ValueError: (when called) the shape has not 3 to 5 axes, or has more inputs than outputs.

    Example:
      >>> import calque
      >>> calque.nn.initializers.delta_orthogonal()(calque.random.key(0), (3, 2, 2)).shape
      (3, 2, 2)
    """
    def draw(key: Any, shape: Shape, kind: Any) -> Any:
        if len(shape) not in (3, 4, 5):
            raise ValueError(explain(
                f"Delta orthogonal initializer requires a 3D, 4D or 5D shape. Got {shape}."))
        if shape[-1] < shape[-2]:
            raise ValueError(explain("`fan_in` must be less or equal than `fan_out`. The shape "
                                     f"is {shape}."))
        matrix = orthogonal(scale, column_axis, kind)(key, shape[-2:])
        # (xiao et al. 2018): all the weight in the window's middle
        middle = tuple((n - 1) // 2 for n in shape[:-2])
        padding = [*((m, n - 1 - m, 0) for m, n in zip(middle, shape)), (0, 0, 0), (0, 0, 0)]
        matrix = sh.reshape(matrix, (*[1] * len(middle), *shape[-2:]))
        return sh.pad(matrix, kind.type(0), tuple(padding))

    return _named("delta_orthogonal", draw, dtype)


__all__ = [
    "Initializer", "constant", "delta_orthogonal", "glorot_normal", "glorot_uniform", "he_normal",
    "he_uniform", "kaiming_normal", "kaiming_uniform", "lecun_normal", "lecun_uniform", "normal",
    "ones", "orthogonal", "truncated_normal", "uniform", "variance_scaling", "xavier_normal",
    "xavier_uniform", "zeros"]


def __dir__() -> list[str]:
    return __all__
