"""References: arrays that are written into (`jax.ref`).

What a reference is to transformations is said in core/refs; here are its functions, and what
indexing means.  Imports numpy; start reading at `get`.
"""
from __future__ import annotations

import builtins
import copy
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import ShapedArray, aval_of, is_arraylike
from calque.core.errors import explain
from calque.core.lists import as_tuple
from calque.core.refs import AbstractRef as AbstractRef
from calque.core.refs import Ref as Ref
from calque.core.refs import assign, read
from calque.core.trace import Tracer
from calque.dispatch import strings
from calque.dispatch.array import Array
from calque.dispatch.eager import lazy_eval, stands_for_number
from calque.dispatch.ref_parts import At, bitcast, reshaped, transposed
from calque.lax import dynamic_update_slice, stop_gradient
from calque.numpy import asarray, zeros
from calque.numpy.computed_slices import Slice as Slice
from calque.numpy.computed_slices import window
from calque.primitives.elementwise import convert


def new_ref(init_val: Any, *, memory_space: Any = None, kind: str | None = None) -> Ref:
    """A reference to an array that holds init_val.

    Args:
      init_val: array or number.
      memory_space: accepted for compatibility.
      kind: "no_grad_no_remat": of what is written, the value is stored without its derivative;
        others are accepted for compatibility.

    Returns:
      A Ref of init_val's shape and dtype.

    Raises:
      TypeError: init_val is no array.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> total = calque.new_ref(0.0)
      >>> @calque.jit
      ... def add(x):
      ...     total[...] += x.sum()
      >>> add(jnp.ones(3)), add(jnp.ones(3))
      (None, None)
      >>> total[...]
      Array(6., dtype=float32, weak_type=True)
    """
    if not is_arraylike(init_val):
        raise TypeError(explain(
            f"new_ref of a value of type {type(init_val)}, which is no array.",
            fix="pass an array; convert lists with jnp.asarray, read references with ref[...]."))
    strings.refuse(init_val)
    if issubclass(type(init_val), Array):  # what is donated later is another array
        init_val = copy.copy(init_val)
    elif _is_number(init_val):
        init_val = asarray(init_val)
    return Ref(init_val, kind=kind)


def _is_number(x: Any) -> bool:
    """Whether a value is no array yet, or is traced and stands for such a one."""
    return stands_for_number(x) if isinstance(x, Tracer) else not isinstance(x, Array)


def empty_ref(ty: Any, memory_space: Any = None) -> Ref:
    """A reference to an array of this shape and dtype, whose elements nobody has set.

    Args:
      ty: what has a shape and a dtype.
      memory_space: accepted for compatibility.

    Returns:
      A Ref; its elements are zeros.

    Raises:
      AttributeError: ty has no shape or dtype.

    Example:
      >>> import calque
      >>> calque.ref.empty_ref(calque.ShapeDtypeStruct((2,), "float32")).shape
      (2,)
    """
    return Ref(zeros(ty.shape, ty.dtype))


def freeze(ref: Ref) -> Any:
    """The final value of a reference, which is not to be used afterwards.

    Args:
      ref: a Ref.

    Returns:
      Its array.

    Raises:
      ValueError: ref is no reference; (when it is used afterwards inside jit and the like) it was
        frozen.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> calque.freeze(calque.new_ref(jnp.arange(2)))
      Array([0, 1], dtype=int32)
    """
    value = read(_checked("freeze", ref))
    ref.frozen = ref.home.kind != "eval"
    return value


def free_ref(ref: Ref) -> None:
    """Say that a reference is not used any more.

    Args:
      ref: a Ref.

    Returns:
      None.

    Raises:
      ValueError: ref is no reference.

    Example:
      >>> import calque
      >>> calque.ref.free_ref(calque.new_ref(1.0))
    """
    freeze(ref)


def get(ref: Ref, idx: Any = None) -> Any:
    """ref[idx], an array.

    Args:
      ref: a Ref.
      idx: as of NumPy's arrays; None: all of it.

    Returns:
      The indexed elements.

    Raises:
      ValueError: ref is no reference, or a known index is outside.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> calque.ref.get(calque.new_ref(jnp.arange(5)), slice(1, 3))
      Array([1, 2], dtype=int32)
    """
    value, _, idx = window(read(_checked("ref_get", ref)), _index(ref, idx))
    return value if idx is None else value[idx]


def swap(ref: Ref, idx: Any, value: Any) -> Any:
    """Set ref[idx] to value.

    Args:
      ref: a Ref.
      idx: as of NumPy's arrays; None: all of it.
      value: array of the shape and the dtype of ref[idx].

    Returns:
      What ref[idx] was.

    Raises:
      ValueError: ref is no reference, a known index is outside, or value has another shape or
        dtype.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> ref = calque.new_ref(jnp.arange(5))
      >>> calque.ref.swap(ref, 3, 10), ref
      (Array(3, dtype=int32), Ref([ 0,  1,  2, 10,  4], dtype=int32))
    """
    before, _ = _write("swap", ref, idx, value)
    return before


def set(ref: Ref, idx: Any, value: Any) -> None:  # noqa: A001
    """Set ref[idx] to value.

    Args:
      ref: a Ref.
      idx: as of NumPy's arrays; None: all of it.
      value: array of the shape and the dtype of ref[idx].

    Returns:
      None.

    Raises:
      ValueError: ref is no reference, a known index is outside, or value has another shape or
        dtype.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> ref = calque.new_ref(jnp.zeros(3))
      >>> calque.ref.set(ref, 1, 10.0)
      >>> ref
      Ref([ 0., 10.,  0.], dtype=float32)
    """
    _write("swap", ref, idx, value)


def addupdate(ref: Ref, idx: Any, x: Any) -> None:
    """Add x to ref[idx]; elements that are named twice get both.

    Args:
      ref: a Ref.
      idx: as of NumPy's arrays; None: all of it.
      x: array of the shape and the dtype of ref[idx].

    Returns:
      None.

    Raises:
      ValueError: ref is no reference, a known index is outside, or x has another shape or dtype.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> ref = calque.new_ref(jnp.zeros(3))
      >>> calque.ref.addupdate(ref, jnp.array([0, 0]), jnp.ones(2))
      >>> ref
      Ref([2., 0., 0.], dtype=float32)
    """
    _write("addupdate", ref, idx, x)


def _write(name: str, ref: Ref, idx: Any, value: Any) -> tuple[Any, Any]:
    old = read(_checked(f"ref_{name}", ref))
    if type(value) is Ref:
        raise ValueError(explain(
            "Cannot store a Ref into another Ref: a reference cannot hold a reference.",
            fix="store its value, other[...]."))
    if not is_arraylike(value):
        raise TypeError(explain(f"{name} of {value!r} of type {type(value)}, which is no array.",
                                fix="pass an array; convert lists with jnp.asarray."))
    idx = _index(ref, idx)
    with lazy_eval(name):
        named, starts, idx = window(old, idx)
        part = named if idx is None else named[idx]
        want, have = aval_of(part), aval_of(value)
        if have.weak_type and have.dtype != want.dtype and _kind(have) == _kind(want):
            value = convert(value, want.dtype)  # a Python number
            have = aval_of(value)
        _check_value(name, ref, want, have)
        if isinstance(value, Tracer) and _is_number(value):
            value = asarray(value)
        elif not isinstance(value, (Array, Tracer)):
            value = asarray(value, have.dtype)
        if name == "addupdate":
            new = named + value if idx is None else named.at[idx].add(value, mode=_mode(idx))
        else:
            new = value if idx is None else named.at[idx].set(value, mode=_mode(idx))
        if starts is not None:
            new = dynamic_update_slice(old, new, starts)
        if ref.constant:
            new = stop_gradient(new)
        assign(ref, new)
        return part, new


def _kind(aval: ShapedArray) -> str:
    """Floats, integers (signed and not), complex numbers or bools: one letter."""
    if dtypes.is_key(aval.dtype):
        return "key"
    return "f" if dtypes.is_float(aval.dtype) else "i" if dtypes.is_integer(aval.dtype) else str(
        aval.dtype.kind)


def _check_value(name: str, ref: Ref, want: ShapedArray, have: ShapedArray) -> None:
    if want.shape != have.shape:
        raise ValueError(explain(
            f"Invalid shape for `{name}`. Ref shape: {ref.shape}. Expected shape: {want.shape}. "
            f"Value shape: {have.shape}.",
            fix="values are not broadcast to references: use jnp.broadcast_to or jnp.full."))
    if want.dtype != have.dtype:
        raise ValueError(explain(
            f"Invalid dtype for `{name}`. Ref dtype: {want.dtype}. Value dtype: {have.dtype}.",
            fix="values are not cast for references: write 1.0 instead of 1, or use astype."))


def _mode(idx: Any) -> str:
    """A computed position is moved inside, index arrays leave out what is outside, as in JAX."""
    parts = as_tuple(idx)
    return "drop" if any(np.ndim(i) for i in parts if is_arraylike(i)) else "clip"


def _checked(name: str, ref: Any) -> Ref:
    if type(ref) is not Ref:
        raise ValueError(explain(f"{name} of {ref!r}, which is no reference.",
                                 fix="make one with new_ref; arrays are read by x[i]."))
    return ref


# ---- indices
def ds(start: Any, size: Any = None, stride: int | None = None) -> Any:
    """An index of `size` elements from `start` on, which may be computed.

    Args:
      start: integer; with no size, the size from 0 on; None: the whole axis.
      size: a Python int.
      stride: from one to the next, a Python int; None is 1.

    Returns:
      An index for arrays, their `.at` and references.

    Raises:
      Nothing.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> calque.new_ref(jnp.arange(5))[calque.ds(1, 2)]
      Array([1, 2], dtype=int32)
      >>> calque.ds(3)
      Slice(start=0, size=3, stride=1)
    """
    if start is None:
        return slice(None)
    if size is None:
        start, size = 0, start
    return Slice(start, size, 1 if stride is None else stride)


def _index(ref: Ref, idx: Any) -> Any:
    """An index as arrays take it; None where it is all of the reference."""
    if idx is None or idx is Ellipsis or (isinstance(idx, tuple) and not idx):
        return None
    parts = list(idx) if isinstance(idx, tuple) else [idx]
    if sum(p is not Ellipsis for p in parts) > len(ref.shape):
        raise ValueError(explain(
            f"{len(parts)} indices for a reference of shape {ref.shape}: {idx}.",
            fix="give at most one index for each axis; add axes to what was read."))
    for i, p in enumerate(parts):
        if isinstance(p, str):
            raise TypeError(explain(f"a reference indexed by {p!r}.", fix="use an integer, a "
                                    "slice or an array."))
        if p is Ellipsis:
            break
        parts[i] = _of_axis(p, ref.shape[i])
    behind = [*reversed(parts)] if any(p is Ellipsis for p in parts) else []
    for i, p in enumerate(behind):
        if p is Ellipsis:
            break
        parts[-1 - i] = _of_axis(p, ref.shape[-1 - i])
    return tuple(parts)


def _of_axis(part: Any, size: int) -> Any:
    if isinstance(part, Slice):
        extent = (part.size - 1) * part.stride + 1
        if part.size < 0 or part.stride < 1 or extent > size:
            raise ValueError(explain(
                f"Out of bound slice: ds(..., {part.size}, {part.stride}) of an axis of {size}.",
                fix="use a size >= 0 and a stride >= 1 whose slice is not longer than the axis."))
        if not isinstance(part.start, (int, np.integer)):
            return part
        start, extent = int(part.start), max(extent, 0)
        if not 0 <= start <= size - extent:
            raise ValueError(explain(f"Out of bound slice: {part} is outside an axis of {size}.",
                                     fix="use a slice inside the reference."))
        return slice(start, start + extent, part.stride)
    if isinstance(part, (int, np.integer)) and not isinstance(part, bool):
        if not -size <= part < size:
            raise ValueError(explain(f"index {part} is outside an axis of {size}.",
                                     fix="use an index inside the reference."))
    elif isinstance(part, builtins.list):
        raise ValueError(explain(f"references are not indexed by lists: {part}.",
                                 fix="use jnp.array or a slice."))
    return part


def _ref_addupdate(self: Ref, x: Any, idx: Any = ()) -> None:
    """Add x to self[idx]."""
    addupdate(self, idx, x)


def _swapped(self: Ref, value: Any, idx: Any = ()) -> Any:
    """Set self[idx] to value; what it was."""
    return swap(self, idx, value)


def _stored(self: Ref, value: Any, idx: Any = ()) -> None:
    """Set self[idx] to value."""
    set(self, idx, value)


def _refuse_conversion(self: Ref, *_: Any, **__: Any) -> Any:
    raise TypeError(explain(f"a reference of type {self.abstract} is no array.",
                            fix="read it: ref[...]."))


def _iter(self: Ref) -> Any:
    return (get(self, i) for i in range(len(self)))


def _install() -> None:
    methods = {
        "__getitem__": get, "__setitem__": set, "addupdate": _ref_addupdate, "__iter__": _iter,
        "__array__": _refuse_conversion,
        "get": get, "set": _stored, "swap": _swapped,
        "reshape": reshaped, "transpose": transposed, "bitcast": bitcast,
        "T": property(transposed, doc="The reference with its axes in reverse order."),
        "at": property(At, doc="`ref.at[index]`: a part of it as a reference of its own."),
        "sharding": property(lambda self: read(self).sharding,
                             doc="How the array in it is spread over devices."),
        "committed": property(lambda self: read(self).committed,
                              doc="Whether the array in it was put on its devices explicitly."),
    }
    for name, f in methods.items():
        setattr(Ref, name, f)


_install()

__all__ = ["AbstractRef", "Ref", "addupdate", "empty_ref", "free_ref", "freeze", "get", "new_ref",
           "set", "swap"]


def __dir__() -> list[str]:
    return __all__
