"""Shardings: which device has which part of an array.

In one process logical devices share memory, so a sharded array is one buffer and a label, and
these classes are the labels.  They are hashable and remember their hash: an aval that has one is
interned.
Start reading at `NamedSharding`.  Imports core.mesh and core.errors.
"""
from __future__ import annotations

import itertools
import math
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

from calque.core.errors import explain
from calque.core.lists import as_tuple
from calque.core.mesh import AbstractMesh, AxisType, Mesh
from calque.core.processes import between
from calque.core.types import Shape

Index = tuple[slice, ...]


class DuplicateSpecError(Exception):
    """A PartitionSpec names a mesh axis twice."""


class IndivisibleError(ValueError):
    """A size is no multiple of the number of parts that a sharding makes of it."""


class ShardingTypeError(Exception):
    """The sharding of a result over Explicit axes is ambiguous."""


class _Unconstrained:
    """An entry of a PartitionSpec that leaves a dimension to the compiler."""

    def __repr__(self) -> str:
        return "UNCONSTRAINED"

    def __reduce__(self) -> str:
        return "UNCONSTRAINED"


UNCONSTRAINED = _Unconstrained()


class PartitionSpec:
    """For each dimension of an array the mesh axes that split it.

    Args:
      *partitions: a name, a tuple of names (the first splits into the largest parts), None or
        UNCONSTRAINED for each dimension; those left out are not split.
      unreduced: axes over which the array is the sum of what the devices have.
      reduced: axes over which the array's cotangent is such a sum.

    Raises:
      ValueError: an axis splits a dimension and is unreduced or reduced, too, or a tuple lies in a
        tuple.
      TypeError: unreduced or reduced is no set.

    Example:
      >>> from calque.sharding import PartitionSpec as P
      >>> P("x", None), P(("x", "y")), len(P("x", None)), P("x", unreduced={"y"})
      (P('x', None), P(('x', 'y'),), 2, P('x', unreduced={'y'}))
    """

    UNCONSTRAINED = UNCONSTRAINED
    __slots__ = ("partitions", "unreduced", "reduced", "__weakref__")
    partitions: tuple[Any, ...]
    unreduced: frozenset[Any]
    reduced: frozenset[Any]

    _all: weakref.WeakValueDictionary[Any, PartitionSpec] = weakref.WeakValueDictionary()

    def __new__(cls, *partitions: Any, unreduced: Any = frozenset(), reduced: Any = frozenset()
                ) -> PartitionSpec:
        """Interned: two equal ones are the same object."""
        self = object.__new__(cls)
        self.partitions = tuple(_entry(p) for p in partitions)
        self.unreduced = self.reduced = frozenset()
        if unreduced or reduced or unreduced is None or reduced is None:
            self._sums(unreduced, reduced)
        try:
            return cls._all.setdefault(self._key(), self)
        except TypeError:  # an entry that cannot be hashed: NamedSharding says what is wrong
            return self

    def __init_subclass__(cls) -> None:
        raise TypeError(explain("Subclassing `jax.P` is prohibited.",
                                fix="hold a PartitionSpec in a class of your own."))

    def _sums(self, unreduced: Any, reduced: Any) -> None:
        for name, axes in (("unreduced", unreduced), ("reduced", reduced)):
            if not isinstance(axes, (set, frozenset)):
                raise TypeError(explain(
                    f"{name} argument of PartitionSpec should of type `frozenset` or `set`. Got "
                    f"type {axes}", fix=f"{name}={{'x'}}."))
            if both := axes.intersection(self.names()):
                raise ValueError(explain(
                    f"partitions cannot overlap with {name} axes passed to PartitionSpec. Got "
                    f"partitions: {self.partitions} and {name} axes: {axes}",
                    fix=f"leave {sorted(both, key=str)} out of one of them."))
        if unreduced & reduced:
            raise ValueError(explain(
                "`unreduced` and `reduced` argument to PartitionSpec cannot overlap. Got "
                f"unreduced: {unreduced} and reduced: {reduced}", fix="name each axis once."))
        self.unreduced, self.reduced = frozenset(unreduced), frozenset(reduced)

    def turned(self) -> PartitionSpec:
        """The spec of a cotangent: unreduced where this one is reduced, and the other way."""
        return self.update(unreduced=self.reduced, reduced=self.unreduced)

    @property
    def has_sums(self) -> bool:
        """Whether axes are unreduced or reduced."""
        return bool(self.unreduced or self.reduced)

    def __iter__(self) -> Iterator[Any]:
        if self.has_sums:
            raise ValueError(explain(
                "Using *pspec is dangerous when PartitionSpec has non-empty unreduced/reduced set.",
                fix="Please use *spec.partitions."))
        return iter(self.partitions)

    def __len__(self) -> int:
        return len(self.partitions)

    def __getitem__(self, i: Any) -> Any:
        return self.partitions[i]

    def __add__(self, other: Any) -> PartitionSpec:
        return self._joined(self, other, "__add__")

    def __radd__(self, other: Any) -> PartitionSpec:
        return self._joined(other, self, "__radd__")

    def _joined(self, first: Any, second: Any, method: str) -> PartitionSpec:
        sides = [s if isinstance(s, PartitionSpec) else PartitionSpec(*s) for s in (first, second)]
        other = second if method == "__add__" else first
        if self.has_sums and not isinstance(other, PartitionSpec):
            kind = "unreduced" if self.unreduced else "reduced"
            raise TypeError(explain(
                f"other {other} cannot be of instance `{type(other).__name__}` when self {self} "
                f"has {kind} in `{method}` of PartitionSpec.", fix="make it a PartitionSpec."))
        a, b = sides
        return PartitionSpec(*a.partitions, *b.partitions, unreduced=a.unreduced | b.unreduced,
                             reduced=a.reduced | b.reduced)

    def update(self, **changes: Any) -> PartitionSpec:
        """A copy with partitions, unreduced or reduced replaced."""
        return PartitionSpec(*changes.get("partitions", self.partitions),
                             unreduced=changes.get("unreduced", self.unreduced),
                             reduced=changes.get("reduced", self.reduced))

    def count(self, value: Any) -> int:
        """How many entries equal a value."""
        return self.partitions.count(_entry(value))

    def index(self, value: Any) -> int:
        """The first dimension whose entry equals a value; ValueError where none does."""
        return self.partitions.index(_entry(value))

    def axes(self) -> tuple[tuple[Any, ...], ...]:
        """The names of each dimension as a tuple; UNCONSTRAINED has none."""
        return tuple(() if p is None or p is UNCONSTRAINED else
                     as_tuple(p) for p in self.partitions)

    def names(self) -> tuple[Any, ...]:
        """All mesh axes that are mentioned."""
        return tuple(n for axes in self.axes() for n in axes)

    def of_rank(self, ndim: int) -> PartitionSpec:
        """With None for the dimensions that were left out."""
        return self.update(partitions=(
            *self.partitions, *[None] * (ndim - len(self.partitions))))

    def _key(self) -> Any:
        return self.partitions, self.unreduced, self.reduced

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartitionSpec) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self.partitions)

    def __reduce__(self) -> Any:
        return _spec, self._key()

    def __repr__(self) -> str:
        if not self.has_sums:
            return f"P{self.partitions!r}"
        parts = [*map(repr, self.partitions)] + [
            f"{name}={{{', '.join(sorted(map(repr, axes)))}}}"
            for name, axes in (("unreduced", self.unreduced), ("reduced", self.reduced)) if axes]
        return f"P({', '.join(parts)})"


def _spec(partitions: Any, unreduced: Any, reduced: Any) -> PartitionSpec:
    return PartitionSpec(*partitions, unreduced=unreduced, reduced=reduced)


def _entry(p: Any) -> Any:
    if isinstance(p, (tuple, list)):
        for inner in p:
            if isinstance(inner, (tuple, list)):
                raise ValueError(explain(
                    "A tuple inside PartitionSpec cannot contain a nested tuple. Got partition: "
                    f"{p} and the nested tuple: {inner}", fix="name the axes in one tuple."))
        return p[0] if len(p) == 1 else tuple(p) or None
    return p


class Sharding:
    """How an array is spread over devices.

    Example:
      >>> import calque
      >>> isinstance(calque.numpy.ones(2).sharding, calque.sharding.Sharding)
      True
    """

    __slots__ = ()

    @property
    def memory_kind(self) -> str:
        """In which of a device's memories the parts are: "device", or "pinned_host" and the like,
        which are the same memory here."""
        return "device"

    @property
    def spans(self) -> bool:
        """Whether it is over the devices of several processes."""
        return False

    @property
    def device_set(self) -> set[Any]:
        """The devices."""
        return set(self._assignment)

    @property
    def num_devices(self) -> int:
        """How many devices there are."""
        return len(self._assignment)

    @property
    def _assignment(self) -> tuple[Any, ...]:
        """The devices in order."""
        raise NotImplementedError("Subclasses should implement this method.")

    # (private names of JAX's, which orbax reads)
    @property
    def _device_assignment(self) -> tuple[Any, ...]:
        return self._assignment

    @property
    def _addressable_device_assignment(self) -> tuple[Any, ...]:
        return tuple(d for d in self._assignment if getattr(d, "is_local", True))

    def _places(self) -> Any:
        """Devices in order, and which of their memories."""
        return self._assignment, self.memory_kind

    @property
    def addressable_devices(self) -> set[Any]:
        """The devices of this process."""
        return {d for d in self._assignment if getattr(d, "is_local", True)}

    @property
    def has_addressable_devices(self) -> bool:
        """Whether this process has some of the devices."""
        return any(getattr(d, "is_local", True) for d in self._assignment)

    @property
    def is_fully_addressable(self) -> bool:
        """Whether this process has all of the devices."""
        return all(getattr(d, "is_local", True) for d in self._assignment)

    @property
    def is_fully_replicated(self) -> bool:
        """Whether every device has the whole array."""
        raise NotImplementedError("Subclasses should implement this method.")

    def devices_indices_map(self, global_shape: Sequence[int]) -> dict[Any, Index]:
        """The part of an array that each device has."""
        raise NotImplementedError("Subclasses should implement this method.")

    def addressable_devices_indices_map(self, global_shape: Sequence[int]) -> dict[Any, Index]:
        """The same of the devices of this process."""
        return {d: index for d, index in self.devices_indices_map(global_shape).items()
                if getattr(d, "is_local", True)}

    def shard_shape(self, global_shape: Sequence[int]) -> Shape:
        """The shape of each device's part; IndivisibleError where parts would be unequal."""
        raise NotImplementedError("Subclasses should implement this method.")

    def is_equivalent_to(self, other: Sharding, ndim: int) -> bool:
        """Whether both give each device the same part of an array of `ndim` dimensions."""
        raise NotImplementedError("Subclasses should implement this method.")

    def with_memory_kind(self, kind: str) -> Sharding:
        """The same in another of the devices' memories."""
        raise NotImplementedError("Subclasses should implement this method.")


def _kind_of(kind: str | None, devices: Any) -> str:
    """A memory kind that the devices have."""
    if kind is None:
        return "device"
    for d in devices:
        known = [m.kind for m in d.addressable_memories()]
        if kind not in known:
            raise ValueError(explain(
                f"Could not find memory addressable by device {d.device_kind}. Device "
                f"{d.device_kind} can address the following memory kinds: {', '.join(known)}. Got "
                f"memory kind: {kind}", fix="leave memory_kind out."))
        break
    return kind


class SingleDeviceSharding(Sharding):
    """All of an array on one device.

    Args:
      device: a Device.
      memory_kind: a kind that the device has; None: "device".

    Raises:
      ValueError: the device has no memory of this kind.

    Example:
      >>> import calque
      >>> calque.sharding.SingleDeviceSharding(calque.devices()[0])
      SingleDeviceSharding(device=CpuDevice(id=0), memory_kind=device)
    """

    __slots__ = ("_device", "_kind")

    def __init__(self, device: Any, *, memory_kind: str | None = None) -> None:
        self._device, self._kind = device, _kind_of(memory_kind, (device,))

    @property
    def memory_kind(self) -> str:
        """In which memory of the device."""
        return self._kind

    def with_memory_kind(self, kind: str) -> SingleDeviceSharding:
        """The same in another memory of the device."""
        return SingleDeviceSharding(self._device, memory_kind=kind)

    @property
    def _assignment(self) -> tuple[Any, ...]:
        return (self._device,)

    @property
    def is_fully_replicated(self) -> bool:
        """True: there is one device."""
        return True

    def devices_indices_map(self, global_shape: Sequence[int]) -> dict[Any, Index]:
        """The whole array, for the one device."""
        return {self._device: (slice(None),) * len(global_shape)}

    def shard_shape(self, global_shape: Sequence[int]) -> Shape:
        """The whole shape."""
        return tuple(global_shape)

    def is_equivalent_to(self, other: Sharding, ndim: int) -> bool:
        """Whether the other one puts everything on the same device."""
        return other._assignment == (self._device,) and other.memory_kind == self._kind

    def __eq__(self, other: object) -> bool:
        return (isinstance(other, SingleDeviceSharding) and self._device is other._device
                and self._kind == other._kind)

    def __hash__(self) -> int:
        return hash((SingleDeviceSharding, self._device))

    def __reduce__(self) -> Any:
        return _single, (self._device, self._kind)

    def __repr__(self) -> str:
        return f"SingleDeviceSharding(device={self._device!r}, memory_kind={self._kind})"


def _single(device: Any, kind: str) -> SingleDeviceSharding:
    return SingleDeviceSharding(device, memory_kind=kind)


def make_single_device_sharding(device: Any, *, memory_kind: str | None = None
                                ) -> SingleDeviceSharding:
    """The sharding of arrays that are on one device.

    Args:
      device: a Device.
      memory_kind: a kind that the device has; None: "device".

    Returns:
      A SingleDeviceSharding.

    Raises:
      ValueError: the device has no memory of this kind.

    Example:
      >>> import calque
      >>> calque.sharding.make_single_device_sharding(calque.devices()[0]).num_devices
      1
    """
    return SingleDeviceSharding(device, memory_kind=memory_kind)


class NamedSharding(Sharding):
    """A mesh and a PartitionSpec: which mesh axes split which dimensions.

    Args:
      mesh: a Mesh (an AbstractMesh where no device is asked for).
      spec: a PartitionSpec.
      memory_kind: a kind that the devices have; None: "device".

    Raises:
      ValueError: the spec names an axis that the mesh has not, or the devices have no memory of
        this kind.
      DuplicateSpecError: it names one twice.
      TypeError: spec is no PartitionSpec.

    Example:
      >>> import calque
      >>> from calque.sharding import Mesh, NamedSharding, PartitionSpec as P
      >>> NamedSharding(Mesh(calque.devices(), ("x",)), P("x")).shard_shape((8, 2))
      (8, 2)
    """

    __slots__ = ("mesh", "spec", "_hash", "_kind")

    def __init__(self, mesh: Mesh | AbstractMesh, spec: PartitionSpec, *,
                 memory_kind: str | None = None, _logical_device_ids: Any = None) -> None:
        if not isinstance(spec, PartitionSpec):
            raise TypeError(explain(
                f"Unexpected {f'type {type(spec)}' if spec is not None else None} for "
                f"NamedSharding.spec: {spec!r}.",
                fix="pass a PartitionSpec: P('x', None)."))
        _check_spec(mesh, spec)
        self.mesh, self.spec = mesh, spec
        self._kind: Any = memory_kind  # over an AbstractMesh None stays: it is not known
        if memory_kind not in (None, "device", "pinned_host", "unpinned_host") and not isinstance(
                mesh, Mesh):
            raise ValueError(explain(f"Got invalid memory kind: {memory_kind}",
                                     fix="use 'device', 'pinned_host' or 'unpinned_host'."))
        if isinstance(mesh, Mesh):
            self._kind = "device" if memory_kind is None else _kind_of(
                memory_kind, mesh.devices.flat)
        self._hash = hash((mesh, spec))

    @property
    def memory_kind(self) -> str:
        """In which of the devices' memories."""
        return self._kind

    def with_memory_kind(self, kind: str) -> NamedSharding:
        """The same in another of the devices' memories."""
        return self.update(memory_kind=kind)

    @property
    def spans(self) -> bool:
        """Whether it is over the devices of several processes."""
        return isinstance(self.mesh, Mesh) and self.mesh.grid is not None

    @property
    def between(self) -> tuple[tuple[Any, ...], ...]:
        """Of the axes that split each dimension those that run between processes."""
        assert isinstance(self.mesh, Mesh) and self.mesh.grid is not None
        return between(self.spec.axes(), self.mesh.grid, repr(self))

    @property
    def _assignment(self) -> tuple[Any, ...]:
        if isinstance(self.mesh, AbstractMesh):
            raise ValueError(explain("An AbstractMesh has no devices.",
                                     fix="make the sharding of a Mesh."))
        return tuple(self.mesh.devices.flat)

    @property
    def is_fully_replicated(self) -> bool:
        """Whether every device has the whole array."""
        sizes = self.mesh.shape
        return not self.spec.unreduced and all(sizes[n] == 1 for n in self.spec.names())

    @property
    def unreduced(self) -> tuple[Any, ...]:
        """The mesh axes over which an array is a sum of what the devices have, in mesh order."""
        return tuple(n for n in self.mesh.axis_names if n in self.spec.unreduced)

    @property
    def replicated_axes(self) -> frozenset[Any]:
        """The mesh axes along which devices have the same part."""
        return frozenset(self.mesh.axis_names) - set(self.spec.names())

    def parts(self, ndim: int) -> Shape:
        """Into how many parts each dimension is split."""
        if len(self.spec) > ndim:
            raise ValueError(explain(
                f"Sharding {self!r} is only valid for values of rank at least {len(self.spec)}, "
                f"but was applied to a value of rank {ndim}." + (
                    " For scalars the PartitionSpec should be P()" if not ndim else ""),
                fix="shorten the spec."))
        sizes = self.mesh.shape
        return tuple(math.prod(sizes[n] for n in axes) for axes in self.spec.of_rank(ndim).axes())

    def shard_shape(self, global_shape: Sequence[int]) -> Shape:
        """The shape of each device's part; IndivisibleError where parts would be unequal."""
        parts = self.parts(len(global_shape))
        for i, (size, count) in enumerate(zip(global_shape, parts)):
            if size % count:
                raise IndivisibleError(explain(
                    f"Sharding {self!r} implies that array axis {i} is partitioned {count} times, "
                    f"but the dimension size is {size} (full shape: {tuple(global_shape)}, "
                    f"per-dimension tiling factors: {list(parts)} should evenly divide the shape)",
                    fix="pad the array, or split another dimension."))
        return tuple(s // c for s, c in zip(global_shape, parts))

    def devices_indices_map(self, global_shape: Sequence[int]) -> dict[Any, Index]:
        """The part of an array that each device has."""
        shard = self.shard_shape(global_shape)
        axes, sizes = self.spec.of_rank(len(global_shape)).axes(), self.mesh.shape
        found = {}
        for device, at in zip(self._assignment, itertools.product(
                *[range(s) for s in self.mesh.axis_sizes])):
            position, index = dict(zip(self.mesh.axis_names, at)), []
            for size, mine, names in zip(global_shape, shard, axes):
                if mine == size and math.prod(sizes[n] for n in names) == 1:
                    index.append(slice(None))
                    continue
                k = 0
                for n in names:
                    k = k * sizes[n] + position[n]
                index.append(slice(k * mine, (k + 1) * mine))
            found[device] = tuple(index)
        return found

    def is_equivalent_to(self, other: Sharding, ndim: int) -> bool:
        """Whether both give each device the same part of an array of `ndim` dimensions."""
        if self == other:
            return True
        if self._places() != other._places():
            return False
        if not isinstance(other, NamedSharding):
            return self.is_fully_replicated
        shape = tuple(math.lcm(a, b) for a, b in zip(self.parts(ndim), other.parts(ndim)))
        if isinstance(self.mesh, AbstractMesh):
            return (self.spec.of_rank(ndim).axes() == other.spec.of_rank(ndim).axes()
                    and self.spec.unreduced == other.spec.unreduced)
        return (self.devices_indices_map(shape) == other.devices_indices_map(shape)
                and self.spec.unreduced == other.spec.unreduced)

    def _places(self) -> Any:
        if isinstance(self.mesh, AbstractMesh):
            return self.mesh, self._kind
        return super()._places()

    def check_compatible_aval(self, aval_shape: Sequence[int]) -> None:
        """ValueError where the spec is longer than the shape."""
        self.parts(len(aval_shape))

    def update(self, **changes: Any) -> NamedSharding:
        """A copy with mesh, spec or memory_kind replaced."""
        return NamedSharding(changes.get("mesh", self.mesh), changes.get("spec", self.spec),
                             memory_kind=changes.get("memory_kind", self._kind))

    @property
    def explicit(self) -> bool:
        """Whether the mesh has axes that are part of arrays' types."""
        return any(t is AxisType.Explicit for t in self.mesh.axis_types)

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, NamedSharding) and self._hash == other._hash
            and self.spec == other.spec and self.mesh == other.mesh and self._kind == other._kind)

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> Any:
        return _named, (self.mesh, self.spec, self._kind)

    def __repr__(self) -> str:
        kind = "" if self._kind is None else f", memory_kind={self._kind}"
        return f"NamedSharding(mesh={self.mesh!s}, spec={self.spec}{kind})"


def _named(mesh: Any, spec: PartitionSpec, kind: str) -> NamedSharding:
    return NamedSharding(mesh, spec, memory_kind=kind)


def _check_spec(mesh: Mesh | AbstractMesh, spec: PartitionSpec) -> None:
    seen: set[Any] = set()
    for n in spec.names():
        if n not in mesh.axis_names:
            raise ValueError(explain(
                f"Resource axis: {n} of {spec} is not found in mesh: {mesh.axis_names}.",
                fix="use the names of the mesh."))
        if n in seen:
            raise DuplicateSpecError(explain(
                "A single NamedSharding spec specification can map every mesh axis to at most one "
                f"positional dimension, but {spec} has duplicate entries for `{n}`",
                fix="name each axis once."))
        seen.add(n)
    if UNCONSTRAINED in spec.partitions and mesh.axis_names and not (
            mesh.auto_axes or mesh.manual_axes):
        raise ValueError(explain(
            f"{spec} cannot contain `P.UNCONSTRAINED` when no mesh axis_types are `Auto`. Got mesh "
            f"{mesh!s}", fix="say None, or which axes split the dimension."))
    if spec.has_sums:
        for name, axes in (("Unreduced", spec.unreduced), ("Reduced", spec.reduced)):
            _check_sums(mesh, spec, name, axes)


def _check_sums(mesh: Mesh | AbstractMesh, spec: PartitionSpec, name: str,
                axes: frozenset[Any]) -> None:
    if None in axes:
        raise ValueError(explain(
            f"{name.lower()} cannot contain None. All elements in {name.lower()} should refer to "
            "the mesh axes.", fix="name axes of the mesh."))
    for n in axes:
        if n not in mesh.axis_names:
            raise ValueError(explain(
                f"{name} axes {n} is not found in mesh.axis_names={mesh.axis_names}. Got "
                f"pspec={spec}", fix="use the names of the mesh."))
    if not axes <= {*mesh.explicit_axes, *mesh.manual_axes}:
        raise ValueError(explain(
            f"{name} axes can only refer to mesh axes that is of type `Explicit`. Got "
            f"{name.lower()} axes: {axes} and mesh: {mesh!s}",
            fix="make the mesh with axis_types=AxisType.Explicit for them."))


__all__ = ["DuplicateSpecError", "IndivisibleError", "NamedSharding", "PartitionSpec", "Sharding",
           "ShardingTypeError", "SingleDeviceSharding", "UNCONSTRAINED",
           "make_single_device_sharding"]
