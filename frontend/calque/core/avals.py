"""Abstract values: what is known of an array while tracing (shape, dtype, weak type).  Sizes are
ints, or core.dims where they are known at the call only.

An aval may also be marked: with the sharding that somebody gave the array, and inside shard_map
with the axes over which its value varies.  `plain` is it without these; most avals are plain.

ShapedArrays are interned, so that equality is identity and cache keys hash fast.  `aval_of` gives
the abstract value of anything array-like.  Imports core.dtypes and core.dims.
"""
from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.dims import Dim, as_size
from calque.core.errors import explain
from calque.core.memories import Space
from calque.core.mesh import AbstractMesh, get_abstract_mesh
from calque.core.sharding import NamedSharding, PartitionSpec
from calque.core.types import Shape

NOWHERE: frozenset[Any] = frozenset()


@dataclass(frozen=True, slots=True)
class Unreduced:
    """Among the axes of an aval: the value is one device's summand of a sum over this axis."""

    axis: Any


@dataclass(frozen=True, slots=True)
class Reduced:
    """Among the axes of an aval: the value is the same along this axis, its cotangent Unreduced."""

    axis: Any


@dataclass(frozen=True, kw_only=True, slots=True)
class ManualAxisType:
    """The mapped axes of a type inside shard_map, by what the value is along them.

    Args:
      varying: those over which it differs from device to device.
      unreduced: those whose devices hold summands of it.
      reduced: those along which it is the same, and its cotangent is unreduced.

    Example:
      >>> import calque
      >>> kind = calque.sharding.ManualAxisType(varying={"i"})
      >>> calque.ShapeDtypeStruct((2,), "float32", manual_axis_type=kind).manual_axis_type.varying
      frozenset({'i'})
    """

    varying: frozenset[Any] = frozenset()
    unreduced: frozenset[Any] = frozenset()
    reduced: frozenset[Any] = frozenset()

    def __post_init__(self) -> None:
        for f in ("varying", "unreduced", "reduced"):
            object.__setattr__(self, f, frozenset(getattr(self, f)))

    @property
    def empty(self) -> bool:
        """Whether no axis is named."""
        return not (self.varying or self.unreduced or self.reduced)

    def invarying(self, mesh: Any) -> frozenset[Any]:
        """The mapped axes of a mesh along which the value is simply the same."""
        return frozenset(mesh.manual_axes) - self.varying - self.unreduced - self.reduced

    def _vma(self) -> frozenset[Any]:
        """As an aval holds it."""
        return self.varying.union(map(Unreduced, self.unreduced), map(Reduced, self.reduced))


def varying_of(vma: frozenset[Any]) -> frozenset[Any]:
    """The axes over which a value varies, of all that its aval names."""
    return frozenset(n for n in vma if type(n) is not Unreduced and type(n) is not Reduced)


def same_axes(x: ShapedArray, y: ShapedArray) -> bool:
    """Whether two values vary over the same mapped axes, inside shard_map."""
    return x.vma == y.vma or varying_of(x.vma) == varying_of(y.vma)


def axes_of(vma: frozenset[Any], kind: type[Unreduced] | type[Reduced]) -> frozenset[Any]:
    """The axes over which a value is unreduced, or reduced."""
    return frozenset(n.axis for n in vma if type(n) is kind)


def turned(vma: frozenset[Any]) -> frozenset[Any]:
    """The axes of a cotangent: unreduced where the value is reduced, and the other way."""
    other = {Unreduced: Reduced, Reduced: Unreduced}
    return frozenset(other[type(n)](n.axis) if type(n) in other else n for n in vma)


class AbstractValue:
    """What is known of a value before it is there.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> isinstance(calque.typeof(jnp.ones(2)), calque.core.AbstractValue)
      True
    """

    __slots__ = ()


class ShapedArray(AbstractValue):
    """Shape, dtype and weak type.  Interned: two equal ones are the same object.

    Args:
      shape: sizes of the axes.
      dtype: of the elements.
      weak_type: whether the dtype gives way in promotion.
      sharding: how the array is spread over devices; None: nobody placed it.
      vma: the mapped axes over which the value varies, inside shard_map; an axis over which it is
        a summand, or its cotangent is, stands in it as Unreduced or Reduced.
      memory_space: Space.Host for an array in the host's memory that nobody placed.

    Example:
      >>> import calque
      >>> calque.core.ShapedArray((2, 3), "float32")
      ShapedArray(float32[2,3])
    """

    __slots__ = ("shape", "dtype", "weak_type", "ndim", "size", "placement", "vma", "plain")
    shape: Shape
    dtype: Any
    weak_type: bool
    ndim: int
    size: int
    placement: Any  # a Sharding; None where nobody placed the array
    vma: frozenset[Any]  # the mapped axes over which the value varies
    plain: ShapedArray
    _marks: dict[Any, ShapedArray] = {}
    _all: dict[tuple[tuple[int, ...], Any, bool], ShapedArray] = {}

    def __new__(cls, shape: Any, dtype: Any, weak_type: bool = False, *, sharding: Any = None,
                vma: frozenset[Any] = NOWHERE, memory_space: Any = None) -> ShapedArray:
        if memory_space is Space.Host:
            return cls(shape, dtype, weak_type, sharding=sharding, vma=vma).in_memory("pinned_host")
        if sharding is not None and is_unplaced(sharding):
            sharding = None
        if sharding is not None or vma:
            plain = cls(shape, dtype, weak_type)
            if hasattr(sharding, "spec"):  # a type: an entry for each dimension
                sharding = _as_type(sharding, plain.ndim)
                _check_divides(plain, sharding)
            return plain.marked(sharding, vma)
        try:
            return cls._all[shape, dtype, weak_type]
        except (KeyError, TypeError):
            pass
        shape = tuple(as_size(d) for d in shape)
        dtype = dtype if dtypes.is_key(dtype) else np.dtype(dtype)
        self = object.__new__(cls)
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "dtype", dtype)
        object.__setattr__(self, "weak_type", bool(weak_type))
        object.__setattr__(self, "ndim", len(shape))
        size = 1
        for d in shape:
            size *= d
        object.__setattr__(self, "size", size)
        object.__setattr__(self, "placement", None)
        object.__setattr__(self, "vma", NOWHERE)
        object.__setattr__(self, "plain", self)
        return cls._all.setdefault((shape, dtype, bool(weak_type)), self)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("ShapedArray is immutable")

    def __reduce__(self) -> Any:
        if self.plain is not self:
            return _marked, (self.plain, self.placement, self.vma)
        return ShapedArray, (self.shape, self.dtype, self.weak_type)

    def marked(self, sharding: Any = None, vma: frozenset[Any] = frozenset()) -> ShapedArray:
        """The same with this sharding and these axes."""
        if sharding is None and not vma:
            return self.plain
        key = (self.plain, sharding, vma)
        found = ShapedArray._marks.get(key)
        if found is None:
            found = object.__new__(ShapedArray)
            for name in ("shape", "dtype", "weak_type", "ndim", "size", "plain"):
                object.__setattr__(found, name, getattr(self, name))
            object.__setattr__(found, "placement", sharding)
            object.__setattr__(found, "vma", vma)
            found = ShapedArray._marks.setdefault(key, found)
        return found

    def of_shape(self, shape: Shape) -> ShapedArray:
        """The same kind of value, which varies as this one does, of another shape."""
        made = ShapedArray(shape, self.dtype, self.weak_type)
        return made.marked(None, self.vma) if self.vma else made

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * int(self.dtype.itemsize)

    def __str__(self) -> str:
        """float32[2,3], as JAX prints avals; ~ before those of weak type."""
        return f"{'~' * self.weak_type}{self._type(self.dtype.name)}"

    def _type(self, dtype: str) -> str:
        host = "<host>" if self.placement is not None and self.memory_space is Space.Host else ""
        return f"{dtype}{host}[{self._sizes()}]{self._varies()}"

    def _sizes(self) -> str:
        """2,3; of arrays over Explicit axes 2@x,3."""
        if self.placement is None or not getattr(self.placement, "explicit", False):
            return ",".join(map(str, self.shape))
        axes = self.placement.spec.of_rank(self.ndim).axes()
        return ",".join(f"{d}@{a[0] if len(a) == 1 else '(' + ','.join(map(str, a)) + ')'}" if a
                        else str(d) for d, a in zip(self.shape, axes))

    def _varies(self) -> str:
        """{V:x, U:(y,z), R:w}; most avals have none of these."""
        spec = getattr(self.placement, "spec", None)
        if not self.vma and (spec is None or not spec.has_sums):
            return ""
        manual = self.mat
        kinds = {"V": manual.varying,
                 "U": manual.unreduced | (NOWHERE if spec is None else spec.unreduced),
                 "R": manual.reduced | (NOWHERE if spec is None else spec.reduced)}
        told = [f"{kind}:{names[0]}" if len(names) == 1 else f"{kind}:({','.join(names)})"
                for kind, axes in kinds.items() if (names := sorted(map(str, axes)))]
        return "{" + ", ".join(told) + "}"

    def told(self) -> ShapedArray:
        """What users are told of its type: over a mesh without devices, what its Explicit axes say.
        """
        return self if self.placement is None else _told(self)

    def _what_is_told(self) -> ShapedArray:
        s = self.placement
        kind = s.memory_kind if _is_of_host(s) else None
        if getattr(s, "spec", None) is None:
            return self.marked(kind and _in_memory(kind, self.ndim), self.vma)
        made = type(s)(s.mesh.abstract_mesh, s.spec, memory_kind=kind)
        return self.marked(_as_type(made, self.ndim), self.vma)

    @property
    def sharding(self) -> Any:
        """How the type says that the array is spread, a NamedSharding: of one that nobody placed,
        or only on one device, over the context's mesh, which has no axes where none is set.

        Example:
          >>> import calque, calque.numpy as jnp
          >>> calque.typeof(jnp.ones((2, 3))).sharding
          NamedSharding(mesh=AbstractMesh((), axis_types=()), spec=P(None, None))
        """
        told = self.told().placement
        if told is not None and _is_of_host(told):  # (that is `memory_space`)
            told = None if told.mesh.empty else NamedSharding(told.mesh, told.spec)
        return _replicated(get_abstract_mesh(), self.ndim) if told is None else told

    @property
    def memory_space(self) -> Space:
        """Whether it is in the device's memory, or was put into its host's.

        Example:
          >>> import calque, calque.numpy as jnp
          >>> calque.typeof(jnp.ones(2)).memory_space
          MemorySpace.Device
        """
        return Space.Host if _is_of_host(self.placement) else Space.Device

    def in_memory(self, kind: str) -> ShapedArray:
        """The type of an array that nobody placed, in this of the device's memories."""
        return self.marked(_in_memory(kind, self.ndim), self.vma)

    @property
    def mat(self) -> ManualAxisType:
        """The mapped axes by what the value is along them, inside shard_map."""
        return ManualAxisType(
            varying=varying_of(self.vma), unreduced=axes_of(self.vma, Unreduced),
            reduced=axes_of(self.vma, Reduced))

    manual_axis_type = mat

    @property
    def has_sums(self) -> bool:
        """Whether there is an axis along which the value is unreduced or reduced."""
        spec = getattr(self.placement, "spec", None)
        if spec is not None and spec.has_sums:
            return True
        return bool(self.vma) and any(type(n) in (Unreduced, Reduced) for n in self.vma)

    def cotangent(self) -> ShapedArray:
        """The abstract value of a cotangent of this value."""
        if not self.has_sums:
            return self
        spec = getattr(self.placement, "spec", None)
        sharding = self.placement if spec is None or not spec.has_sums else self.placement.update(
            spec=spec.turned().of_rank(self.ndim))
        return self.marked(sharding, turned(self.vma))

    def short(self) -> str:
        """f32[2,3], as in jaxprs."""
        return self._type(dtypes.short_name(self.dtype))

    def str_short(self, short_dtypes: bool = False) -> str:
        """float32[2,3], or f32[2,3]."""
        return self.short() if short_dtypes else self._type(self.dtype.name)

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        return f"ShapedArray({self._type(self.dtype.name)}{weak})"

    def update(self, **changes: Any) -> ShapedArray:
        """A copy with some of shape, dtype, weak_type, sharding replaced."""
        made = ShapedArray(changes.get("shape", self.shape), changes.get("dtype", self.dtype),
                           changes.get("weak_type", self.weak_type))
        if "sharding" in changes:
            wanted = None if is_unplaced(changes["sharding"]) else changes["sharding"]
            return made.marked(_as_type(wanted, made.ndim) if hasattr(wanted, "spec") else wanted,
                               self.vma)
        if self.plain is self:
            return made
        return made.marked(self.placement if made.shape == self.shape else None, self.vma)

    def strong(self) -> ShapedArray:
        """The same, not weak."""
        return self.update(weak_type=False) if self.weak_type else self

    strip_weak_type = strong

    def tangent(self) -> ShapedArray:
        """The abstract value of a tangent of this value."""
        dtype = dtypes.tangent_dtype(self.dtype)
        return self if dtype is self.dtype else self.update(dtype=dtype, weak_type=False)

    to_tangent_aval = tangent


@lru_cache
def _replicated(mesh: AbstractMesh, ndim: int) -> NamedSharding:
    return NamedSharding(mesh, PartitionSpec(*(None,) * ndim))


@lru_cache
def _in_memory(kind: str, ndim: int) -> NamedSharding:
    return NamedSharding(AbstractMesh((), ()), PartitionSpec(*(None,) * ndim), memory_kind=kind)


def _is_of_host(sharding: Any) -> bool:
    return sharding is not None and sharding.memory_kind in ("pinned_host", "unpinned_host")


def is_unplaced(sharding: Any) -> bool:
    """Whether it is over a mesh without axes, as types say of arrays that nobody placed."""
    return type(sharding) is NamedSharding and type(
        sharding.mesh) is AbstractMesh and sharding.mesh.empty


def _as_type(sharding: Any, ndim: int) -> Any:
    """A sharding over a mesh without devices, as a type has it: Explicit axes only, and an entry
    for each dimension; others stay."""
    spec = sharding.spec.of_rank(ndim)
    if not hasattr(sharding.mesh, "devices"):
        explicit = sharding.mesh.explicit_axes
        entries = [tuple(n for n in axes if n in explicit) or None for axes in spec.axes()]
        spec = spec.update(partitions=entries, unreduced=spec.unreduced & set(explicit),
                           reduced=spec.reduced & set(explicit))
    return sharding.update(spec=spec)


def _check_divides(a: ShapedArray, sharding: Any) -> None:
    for i, (size, parts) in enumerate(zip(a.shape, sharding.parts(a.ndim))):
        if isinstance(size, int) and size % parts:
            raise ValueError(explain(
                f"Sharding spec {sharding.spec.partitions[i]} implies that array axis {i} is "
                f"partitioned {parts} times, but does not evenly divide the dimension size {size}. "
                f"Got shape: {a.shape} and sharding {sharding}", fix="pad the array."))


class HasAval:
    """What is known by its aval: its shape, dtype and so on."""

    __slots__ = ()
    aval: Any

    @property
    def shape(self) -> Shape:
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        return self.aval.dtype

    @property
    def weak_type(self) -> bool:
        return self.aval.weak_type

    @property
    def ndim(self) -> int:
        return self.aval.ndim

    @property
    def size(self) -> int:
        return self.aval.size


_told = lru_cache(4096)(ShapedArray._what_is_told)


def _marked(plain: ShapedArray, sharding: Any, vma: frozenset[Any]) -> ShapedArray:
    return plain.marked(sharding, vma)


def aval_of(x: Any) -> ShapedArray:
    """The abstract value of an array, a tracer, a NumPy array or a Python scalar."""
    aval = getattr(x, "aval", None)
    if aval is not None:
        return aval
    info = dtypes.scalar_info(x)
    if info is not None:
        return ShapedArray((), info[0], info[1])
    if isinstance(x, (np.ndarray, np.generic)):
        if type(x) is not np.ndarray:
            refuse_masked(x)
        if x.dtype == dtypes.float0:
            return ShapedArray(x.shape, x.dtype)
        return ShapedArray(x.shape, dtypes.canonical(x.dtype))
    if hasattr(x, "__jax_array__"):
        return aval_of(x.__jax_array__())
    raise TypeError(explain(
        f"{x!r} of type {type(x).__name__} is not a valid JAX type.",
        fix="pass an array, a NumPy array or a Python scalar; convert lists with jnp.asarray."))


def refuse_masked(x: Any) -> None:
    """ValueError for a masked NumPy array, whose mask would be lost."""
    masked = sys.modules.get("numpy.ma")  # (np.ma would import it, 6 ms)
    if masked is not None and isinstance(x, masked.MaskedArray):
        raise ValueError(explain(
            "numpy masked arrays are not supported as direct inputs to JAX functions: the mask "
            "would be lost.", fix="pass x.filled(value), or x.data and x.mask, and jnp.where."))


def shape_of(x: Any) -> Shape:
    aval = getattr(x, "aval", None)
    if aval is not None:
        return aval.shape
    if isinstance(x, np.ndarray) and type(x) is not np.ndarray:
        refuse_masked(x)
    stands = not hasattr(x, "shape") and hasattr(x, "__jax_array__")
    return np.shape(x.__jax_array__() if stands else x)


def ndim_of(x: Any) -> int:
    return len(shape_of(x))


def dtype_of(x: Any) -> Any:
    return aval_of(x).dtype


def same_type(x: Any, y: Any) -> bool:
    """Whether the shapes and the dtypes of two values are equal."""
    return bool(x.shape == y.shape and x.dtype == y.dtype)


def is_complex(x: Any) -> bool:
    """Whether a value's elements are complex numbers."""
    return dtypes.is_complex(aval_of(x).dtype)


def is_of_jax(x: Any) -> bool:
    """Whether x is an array or a traced value of an installed jax, none of ours under its name."""
    kind = type(x)
    return (kind.__module__.startswith("jax") and kind.__name__.endswith(("ArrayImpl", "Tracer"))
            and not isinstance(x, HasAval))


def refuse_jax(name: str, x: Any, where: str) -> None:
    """TypeError for what belongs to an installed jax; where: which argument it is."""
    if is_of_jax(x):
        raise TypeError(explain(
            f"{name} got {'an array' if type(x).__name__ == 'ArrayImpl' else 'a traced value'} of "
            f"the jax that is installed, {where}.",
            fix="convert arrays at the border, calque.numpy.asarray(x) and jax.numpy.asarray(y); "
            "or let calque be jax in the whole program: python -m calque.compat prog.py."))


def is_arraylike(x: Any) -> bool:
    """Whether aval_of accepts x."""
    return hasattr(x, "aval") or isinstance(x, (np.ndarray, np.generic, bool, int, float, complex))


Dim.aval = property(lambda self: ShapedArray((), dtypes.canonical(np.dtype(np.int64)), True))
