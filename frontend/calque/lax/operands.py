"""What lax functions accept: arrays, tracers, NumPy arrays and scalars, Python scalars.

lax is strict: no promotion, no lists.  `as_operand` checks one value, `document` fills the
docstring of a function that is one row of a table.  Imports core and array only.
"""
from __future__ import annotations

import pathlib
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import ShapedArray, aval_of
from calque.core.dims import Dim
from calque.core.errors import explain
from calque.core.refs import Ref
from calque.core.tables import from_row
from calque.core.trace import Tracer
from calque.core.types import Dtype, Function, Shape
from calque.dispatch.array import Array
from calque.dispatch.replay import refuse

_PASS = frozenset((Array, bool, int, float, complex))
# what JAX says of int4 where XLA has nothing for it
NARROW = ("Support for narrow-width integers is platform-dependent and limited to a few specific "
          "operations, e.g. basic arithmetic and type casting.")
_SCALARS = (bool, int, float, complex)
_HERE = str(pathlib.Path(__file__).parent.parent)  # the package


def as_operand(name: str, x: Any, position: int = 0) -> Any:
    """x as a value that primitives take, or the TypeError that names what it is."""
    if type(x) in _PASS or isinstance(x, Tracer):
        return x
    if isinstance(x, (np.ndarray, np.generic)):
        return numpy_operand(name, x)
    if hasattr(x, "__jax_array__"):
        return as_operand(name, x.__jax_array__(), position)
    if isinstance(x, _SCALARS):  # an IntEnum, a subclass of float
        return dtypes.plain_number(x)
    if isinstance(x, Array):  # it spans processes
        return x
    if isinstance(x, Ref):
        raise ValueError(explain(
            f"Attempting to pass a Ref Ref<default>{{{x.abstract.inner_aval}}} to a primitive: "
            f"{name} -- did you forget to unpack ([...]) the ref?", fix="read it: ref[...]."))
    raise TypeError(explain(
        f"Error interpreting argument to {name} as a JAX value. The problematic value is of type "
        f"{type(x)} and was passed to {name} at position {position}.",
        fix="pass an array or a number; convert lists with jnp.asarray."))


def numpy_operand(name: str, x: Any, wanted: Any = None) -> Any:
    """A NumPy value in the dtype that arrays get (64-bit ones are cut unless x64 is on); one that
    is `wanted` in another dtype, and would be cut, in that: 2**63 as a float is no 0."""
    if x.dtype.kind in "OSUMm" or (x.dtype.kind == "V" and x.dtype.names):
        if x.dtype == dtypes.float0:
            return x
        raise TypeError(explain(
            f"{name}: a NumPy value of dtype {x.dtype} is not a valid JAX array type. Only arrays "
            "of numeric types are supported by JAX.", fix="convert it to numbers first."))
    dtype = dtypes.canonical(x.dtype)
    if dtype == x.dtype:
        return x
    if wanted is not None and not dtypes.is_key(wanted) and (
            x.dtype.kind in "iu" or not dtypes.is_integer(wanted)):  # (those stay within its range)
        dtype = wanted
    with np.errstate(over="ignore", invalid="ignore"):
        return (x.real if x.dtype.kind == "c" and not dtypes.is_complex(dtype) else x).astype(dtype)


def aval(x: Any) -> ShapedArray:
    return aval_of(x)


def as_axis(axis: Any, name: str = "axis") -> int:
    """An axis, or another number of that name, as a Python int."""
    if not hasattr(axis, "__index__"):
        raise TypeError(explain(
            f"{name} must be an integer, got {axis!r} of type {type(axis).__name__}.",
            fix="convert it with int(...)."))
    return int(axis.__index__())


# ---- dtypes that are asked for
def user_dtype(name: str, dtype: Any) -> Any:
    """A dtype argument as a dtype; 64-bit ones are cut with a warning unless x64 is on."""
    try:
        found = dtypes.canonical(dtype)
    except TypeError:
        try:
            np.dtype(dtype)
        except TypeError:
            raise TypeError(explain(f"{name}: {dtype!r} is not a dtype.",
                                    fix="use a dtype such as jnp.float32 or 'float32'.")) from None
        raise
    if found is dtype or isinstance(dtype, type) and dtype in _SCALARS:
        return found
    asked = np.dtype(dtype)
    if found != asked:
        warn(f"Explicitly requested dtype {asked.name}{name and f' requested in {name}'} is not "
             f"available, and will be truncated to dtype {found.name}. To enable more dtypes, set "
             "the jax_enable_x64 configuration option or the JAX_ENABLE_X64 shell environment "
             "variable.")
    return found


def given_dtype(name: str, dtype: Any) -> Dtype:
    """The same of a dtype that must be given."""
    if dtype is None:
        raise ValueError(explain(f"{name}: the dtype is None.", fix="name one: np.float32."))
    return user_dtype(name, dtype)


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """A warning at the caller's line, each time (what warns is not replayed)."""
    refuse()
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HERE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def canonical_axis(axis: Any, ndim: int) -> int:
    """A Python axis counted from the front, or NumPy's error."""
    value = as_axis(axis)
    if not -ndim <= value < ndim:
        raise np.exceptions.AxisError(explain(  # a ValueError and an IndexError
            f"axis {value} is out of bounds for array of dimension {ndim}",
            fix=f"use an axis from {-ndim} to {ndim - 1}." if ndim else "the array is a scalar."))
    return value % ndim


def as_sizes(name: str, shape: Any) -> Shape:
    """A shape as a tuple of Python ints; traced sizes raise ConcretizationTypeError."""
    if isinstance(shape, (int, np.integer)):  # (True is 1, as in JAX)
        return (int(shape),)
    if isinstance(shape, Dim) or isinstance(shape, Tracer) and not shape.shape:
        shape = (shape,)
    if isinstance(shape, (np.ndarray, Array)) and shape.ndim == 0:
        return (as_size(name, shape),)
    try:
        return tuple(as_size(name, d) for d in shape)
    except TypeError as error:
        if isinstance(shape, Sequence) or hasattr(shape, "__iter__"):
            raise
        raise TypeError(explain(
            f"{name}: expected a shape, got {shape!r} of type {type(shape).__name__}.",
            fix="pass an integer or a sequence of integers.")) from error


def as_size(name: str, d: Any) -> int:
    """One size as a Python int."""
    if type(d) is int or isinstance(d, Dim):
        return d  # type: ignore[return-value]
    if isinstance(d, Tracer):
        from calque.core.errors import ConcretizationTypeError
        from calque.core.trace import concretization_error
        known = d.concrete()
        if known is None:
            raise concretization_error(
                d, f"Shapes must be 1D sequences of concrete values of integer type, got a traced "
                f"value {d.aval} in the shape given to {name}.",
                "mark the argument that it comes from as static.", ConcretizationTypeError)
        d = known
    if isinstance(d, (float, complex)) or not hasattr(d, "__index__"):
        raise TypeError(explain(
            f"Shapes must be 1D sequences of concrete values of integer type, got {d!r} in the "
            f"shape given to {name}.", fix="convert it with int(...)."))
    return int(d.__index__())


_TEMPLATE = """{sentence}

    Args:
{args}
    Returns:
      {returns}

    Raises:
      TypeError: an operand is not an array, or has another dtype (lax does not promote).

    Example:
      >>> from calque import lax
      >>> {example}
      {result}
    """

OPERANDS = {
    "number": "integer, float or complex dtype",
    "real": "integer or float dtype",
    "float": "float dtype",
    "inexact": "float or complex dtype",
    "integer": "integer dtype",
    "bits": "bool or integer dtype",
    "any": "any dtype",
    "complex": "complex dtype",
}


def document(f: Function, name: str, sentence: str, arguments: Sequence[str],
             accepts: str, returns: str, example: str, result: str) -> Function:
    """f as the function of a row."""
    lines = [f"      {a}: array of {OPERANDS[accepts]}, or a scalar.\n" for a in arguments]
    if len(arguments) > 1:
        lines[1:] = [f"      {a}: the same dtype; a scalar or a shape that broadcasts by axes of "
                     "size 1.\n" for a in arguments[1:]]
    return from_row(f, "calque.lax", name, _TEMPLATE, sentence=sentence, args="".join(lines),
                    returns=returns, example=example, result=result.replace("\n", "\n      "))
