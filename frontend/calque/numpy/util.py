"""What every calque.numpy function does first: check that arguments are arrays, promote their
dtypes (weak types included), broadcast their shapes.

Python and NumPy scalars stay rank 0 and are converted on the host, so that `2 * x` is one
`mul 2.0:f32[] x`.  Start reading at `promote` and `apply`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import aval_of, dtype_of, refuse_jax, shape_of
from calque.core.avals import is_complex as is_complex
from calque.core.config import config
from calque.core.errors import ConcretizationTypeError, explain
from calque.core.primitive import Primitive
from calque.core.source import asked_by_ours
from calque.core.trace import Tracer, concretization_error
from calque.core.types import Axes, Ndarray, Shape
from calque.dispatch import transfers
from calque.dispatch.array import Array
from calque.dispatch.eager import lazy_eval as lazy_eval
from calque.dispatch.host_arguments import eager_array
from calque.dispatch.replay import planned as planned
from calque.lax.operands import as_operand, numpy_operand
from calque.lax.operands import user_dtype as user_dtype
from calque.lax.operands import warn as warn
from calque.lax.shape import broadcast_sizes, unchanged
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh
from calque.runtime.errors import device_error

_SCALARS = (bool, int, float, complex)
_PASS = frozenset((Array, *_SCALARS))


# ---- arguments
def check_arrays(name: str, *values: Any, start: int = 0) -> tuple[Any, ...]:
    """The values as operands of primitives; TypeError for lists, strings, None, ..."""
    return tuple(one_array(name, v, start + i) for i, v in enumerate(values))


class on_host:  # noqa: N801 (a context, as contextlib's are named)
    """Around what NumPy computes for a function: what it says of a size is said as of a device's.

    Raises:
      DeviceError: NumPy cannot have so much memory, or count so far.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if isinstance(error, MemoryError) or isinstance(error, (ValueError, OverflowError)) and any(
                words in str(error) for words in _TOO_LARGE):
            raise device_error(MemoryError(str(error)), self.name) from None


_TOO_LARGE = ("array is too big", "Maximum allowed", "too large to convert to C")  # NumPy's words


def one_array(name: str, x: Any, position: int = 0) -> Any:
    """One argument as an operand; 64-bit NumPy values are cut as arrays are."""
    if type(x) is np.ndarray:
        x = eager_array(x)
    dtypes.check_fits(x)
    if type(x) in _PASS or isinstance(x, Tracer):
        return x
    if isinstance(x, (np.ndarray, np.generic)):
        if config.guards:
            transfers.check("host_to_device", x)
        return numpy_operand(name, x)
    if is_arraylike(x):
        return as_operand(name, x, position)
    refuse_jax(name, x, f"at position {position}")
    raise TypeError(explain(
        f"{name} requires ndarray or scalar arguments, got {type(x)} at position {position}.",
        fix="convert it with jnp.asarray."))


def shared_aval(x: Any, y: Any) -> Any:
    """The aval of two Arrays or tracers that have the same, else None.  (An object that answers for
    an array with that array's attributes, such as flax's nnx.Param, is none.)"""
    for v in (x, y):
        if type(v) is not Array and not isinstance(v, Tracer):
            return None
    return x.aval if x.aval is y.aval else None


def is_arraylike(x: Any) -> bool:
    """Whether a function takes x."""
    return (type(x) in _PASS or isinstance(x, (Tracer, np.ndarray, np.generic, *_SCALARS))
            or hasattr(x, "__jax_array__") or isinstance(x, Array))


def refuse_out(name: str, out: Any) -> None:
    if out is not None:
        raise NotImplementedError(explain(
            f"The 'out' argument to jnp.{name} is not supported.",
            fix="arrays are immutable: use the returned array."))


def array(x: Any) -> Any:
    """An operand as an Array or a tracer."""
    return unchanged(x)


def by_position(args: tuple[Any, ...], *options: Any) -> tuple[Any, ...]:
    """copy, order and ndmin of jnp.array, of which the first were given by position."""
    if len(args) > 3:
        raise TypeError(f"array() takes at most 5 positional arguments but {len(args) + 2} were "
                        "given")
    for name, option, default in zip(("copy", "order", "ndmin")[:len(args)], options,
                                     (True, "K", 0)):
        if option is not default:
            raise TypeError(f"array() got multiple values for argument {name!r}")
    warn("Passing the copy, order, and ndmin arguments to jnp.array positionally is "
              "deprecated. Use keyword arguments.", DeprecationWarning)
    return (*args, *options[len(args):])


def not_numeric(x: Any) -> TypeError:
    kind = np.asarray(x).dtype if not isinstance(x, (set, dict)) else np.dtype(object)
    return TypeError(explain(
        f"Value '{x}' with dtype {kind} is not a valid JAX array type. Only arrays of numeric "
        "types are supported by JAX.", fix="convert it to numbers first."))


# ---- dtypes
def joined(values: Sequence[Any]) -> tuple[Any, bool]:
    """The dtype the values promote to, and whether it is weak."""
    return dtypes.promote([dtypes.dtype_and_weak(v) for v in values])


def to_inexact(dtype: Any) -> Any:
    """Integers up to 32 bits and bool to float32, 64-bit ones to float64, others unchanged."""
    if dtypes.is_inexact(dtype) or dtypes.is_key(dtype):
        return dtype
    dtypes.refuse_float0(dtype)
    return np.dtype("float64" if dtype.itemsize == 8 else "float32")


def host_scalar(x: Any, dtype: Any, weak: bool) -> Any:
    """A Python or NumPy scalar as a scalar of a dtype: a Python one when weak."""
    x = dtypes.plain_number(x)
    if type(x) in _SCALARS:
        if weak and dtypes.scalar_info(x) == (dtype, True):
            dtypes.check_fits(x)
            return x
        dtypes.check_fits(x)
        x = np.asarray(x, dtypes.default_dtype(type(x)))
    made = dtypes.converted(x, dtype)
    return made.item() if weak else made


def cast(x: Any, dtype: Any, weak: bool = False) -> Any:
    """x in a dtype: scalars on the host, arrays by convert_element_type where needed."""
    if hasattr(x, "aval"):
        return ew.convert(x, dtype, weak)
    if isinstance(x, np.ndarray) and x.ndim:
        if x.dtype == dtype and not weak:
            return x
        return ew.convert_element_type_p.bind(x, new_dtype=dtype, weak_type=weak, sharding=None)
    return host_scalar(x, dtype, weak)


def is_cast_free(x: Any, dtype: Any, weak: bool) -> bool:
    aval = getattr(x, "aval", None)
    if aval is not None:
        return aval.dtype == dtype and aval.weak_type == weak
    return not (isinstance(x, np.ndarray) and x.ndim and (weak or x.dtype != dtype))


def promote(name: str, *values: Any) -> list[Any]:
    """Checked values in their common dtype."""
    values = check_arrays(name, *values)
    dtype, weak = joined(values)
    return [cast(v, dtype, weak) for v in values]


def promote_inexact(name: str, *values: Any) -> list[Any]:
    """Checked values in their common dtype, at least a float."""
    values = check_arrays(name, *values)
    dtype, weak = joined(values)
    dtype = to_inexact(dtype)
    return [cast(v, dtype, weak) for v in values]


def inexact_arrays(name: str, *values: Any) -> list[Any]:
    """The same as arrays or tracers."""
    return [array(v) for v in promote_inexact(name, *values)]


def promote_numeric(name: str, *values: Any) -> list[Any]:
    """Checked values in their common dtype, at least an integer."""
    values = check_arrays(name, *values)
    dtype, weak = numeric(*joined(values))
    return [cast(v, dtype, weak) for v in values]


def numeric(dtype: Any, weak: bool) -> tuple[Any, bool]:
    """bool becomes int32 (in x64, too, as JAX has it)."""
    return (dtypes.int32, False) if dtype == dtypes.bool_ else (dtype, weak)


# ---- shapes
def common_shape(name: str, shapes: Sequence[Shape], ranks: bool = True) -> Shape:
    """The broadcast shape, or the error that names the shapes: of two operands with equally many
    axes a TypeError, of others a ValueError (as JAX, where the first comes from the primitive).
    ranks: jax_numpy_rank_promotion has a say."""
    filled = [s for s in shapes if s]
    if not filled:
        return ()
    first = filled[0]
    if all(s == first for s in filled):
        return first
    mixed = len({len(s) for s in filled}) > 1
    if mixed and ranks:
        _rank_promotion(name, shapes)
    try:
        return broadcast_sizes(filled)
    except ValueError:
        text = ", ".join(map(str, shapes))
        fix = "reshape one of them, or add axes with x[:, None] so that they broadcast."
        if mixed or len(shapes) > 2:
            raise ValueError(explain(
                f"Incompatible shapes for broadcasting: shapes=[{text}], in {name}.", fix=fix)
            ) from None
        raise TypeError(explain(f"{name} got incompatible shapes for broadcasting: {text}.",
                                fix=fix)) from None


# what broadcasts the operands that the user gives it; other functions of ours align their own
_DOORS = tuple(f"numpy/{m}.py" for m in (
    "util", "ufuncs", "methods", "arithmetic", "rounding", "special", "logic", "integers", "apply",
    "picking"))


def _rank_promotion(name: str, shapes: Sequence[Shape]) -> None:
    if config.jax_numpy_rank_promotion == "allow" or asked_by_ours(*_DOORS):
        return
    text = " ".join(map(str, shapes))
    own = f"operands with shapes {text} require rank promotion for vectorize" if (
        name == "vectorize") else ""
    if config.jax_numpy_rank_promotion == "raise":
        raise ValueError(explain(
            f"{own or f'Operands could not be broadcast together for {name} on shapes {text}'} and "
            "with the config option jax_numpy_rank_promotion='raise'.",
            fix="add axes explicitly, or set jax_numpy_rank_promotion='allow'."))
    warn(f"{own or f'Following NumPy automatic rank promotion for {name} on shapes {text}'}.")


def broadcast_to(x: Any, shape: Shape) -> Any:
    """x broadcast to a shape (NumPy's rule: axes are aligned at the end)."""
    own = shape_of(x)
    if own == shape:
        return x
    axes = tuple(range(len(shape) - len(own), len(shape)))
    return sh.broadcast_in_dim_p.bind(x, shape=shape, broadcast_dimensions=axes, sharding=None)


def broadcast_nonscalar(x: Any, shape: Shape) -> Any:
    """As spread, but rank-0 values stay (elementwise primitives take them)."""
    return broadcast_to(x, shape) if shape_of(x) else x


def aligned(name: str, *values: Any) -> list[Any]:
    """Values spread to their common shape; rank-0 values stay."""
    shape = common_shape(name, [shape_of(v) for v in values])
    return [broadcast_nonscalar(v, shape) for v in values]


# ---- one elementwise primitive over promoted, broadcast operands
def apply(name: str, prim: Primitive, values: Sequence[Any], dtype: Any, weak: bool) -> Any:
    """prim of the values cast to (dtype, weak) and broadcast; one operation if nothing is cast."""
    shape = common_shape(name, [shape_of(v) for v in values])
    if all(is_cast_free(v, dtype, weak) and shape_of(v) in ((), shape) for v in values):
        return prim.bind(*[v if hasattr(v, "aval") else cast(v, dtype, weak) for v in values])
    with lazy_eval(name):
        return prim.bind(*[broadcast_nonscalar(cast(v, dtype, weak), shape) for v in values])


def broadcast_all(name: str, *values: Any) -> list[Any]:
    """Values spread to their common shape, scalars included."""
    shape = common_shape(name, [shape_of(v) for v in values])
    return [broadcast_to(v, shape) for v in values]


def weak_of(x: Any) -> bool:
    return aval_of(x).weak_type


def weak_if_scalars(out: Any, *xs: Any) -> Any:
    """out, weak where all operands are weak scalars only: what constants of their dtype leave."""
    weak = all(weak_of(x) and not shape_of(x) for x in xs)
    return cast(out, dtype_of(out), weak) if weak != weak_of(out) else out


def of_scalars(out: Any, *xs: Any) -> Any:
    """out, weak where the operands are scalars and promote to a weak dtype."""
    weak = joined(xs)[1] and not any(shape_of(x) for x in xs)
    return cast(out, dtype_of(out), weak) if weak != weak_of(out) else out


# ---- axes
def axis_tuple(axis: Any, ndim: int) -> Axes:
    """The axes of a reduction: None is all of them."""
    from calque.lax.operands import canonical_axis
    if axis is None:
        return tuple(range(ndim))
    if isinstance(axis, Tracer):
        _ = axis.__index__()  # type: ignore[attr-defined]
    if hasattr(axis, "__index__") and not isinstance(axis, (tuple, list)):
        return (canonical_axis(axis, ndim),)
    try:
        axes = tuple(axis)
    except TypeError:
        raise TypeError(explain(
            f"axis must be None, an integer or a sequence of integers, got {axis!r} of type "
            f"{type(axis).__name__}: it is not iterable.")) from None
    found = tuple(canonical_axis(a, ndim) for a in axes)
    if len(set(found)) != len(found):
        raise ValueError(explain(f"duplicate value in 'axis': {axes}"))
    return found


# ---- values that Python needs
def concrete_value(x: Any) -> Ndarray | None:
    """The value of an array where it is not traced."""
    if isinstance(x, Tracer):
        value = x.concrete()
        return None if value is None or isinstance(value, Tracer) else np.asarray(value)
    if hasattr(x, "__jax_array__"):
        return concrete_value(x.__jax_array__())
    return np.asarray(x)


def needed(name: str, x: Any, what: str, fix: str) -> Ndarray:
    """The value of an array, or the ConcretizationTypeError that says why it is needed."""
    value = concrete_value(x)
    if value is None:
        raise concretization_error(
            x, f"Abstract tracer value encountered where concrete value is expected: {name}: "
            f"{what}", fix, ConcretizationTypeError)
    return value
