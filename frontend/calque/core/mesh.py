"""Meshes: devices in a grid whose axes have names, and the mesh that a context has set.

A mesh axis is of one type: the compiler's (Auto), part of arrays' types (Explicit), or mapped by
shard_map (Manual).  Imports core.config and core.errors.
"""
from __future__ import annotations

import collections
import contextvars
import enum
import math
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core.config import config
from calque.core.errors import explain
from calque.core.naming import wraps
from calque.core.processes import grid_of
from calque.core.types import Axes, Ndarray


class AxisType(enum.Enum):
    """What a mesh axis means to a program that is not inside shard_map.

    Example:
      >>> from calque.sharding import AxisType
      >>> list(AxisType)
      [Auto, Explicit, Manual]
    """

    Auto = enum.auto()
    Explicit = enum.auto()
    Manual = enum.auto()

    def __repr__(self) -> str:
        return self.name


class _Axes:
    """What Mesh and AbstractMesh have in common."""

    axis_names: tuple[Any, ...]
    axis_sizes: Axes
    axis_types: tuple[AxisType, ...]

    @property
    def shape(self) -> collections.OrderedDict[Any, int]:
        """The sizes by name."""
        return collections.OrderedDict(zip(self.axis_names, self.axis_sizes))

    @property
    def shape_tuple(self) -> tuple[tuple[Any, int], ...]:
        """(name, size) of each axis."""
        return tuple(zip(self.axis_names, self.axis_sizes))

    @property
    def size(self) -> int:
        """How many devices there are."""
        return math.prod(self.axis_sizes) if self.axis_names else 0

    @property
    def empty(self) -> bool:
        """Whether there are no axes."""
        return not self.axis_names

    def _of(self, kind: AxisType) -> tuple[Any, ...]:
        return tuple(n for n, t in zip(self.axis_names, self.axis_types) if t is kind)

    @property
    def auto_axes(self) -> tuple[Any, ...]:
        """Names of the axes that the compiler places values on."""
        return self._of(AxisType.Auto)

    @property
    def explicit_axes(self) -> tuple[Any, ...]:
        """Names of the axes that are part of arrays' types."""
        return self._of(AxisType.Explicit)

    @property
    def manual_axes(self) -> tuple[Any, ...]:
        """Names of the axes that an enclosing shard_map maps."""
        return self._of(AxisType.Manual)

    @property
    def are_all_axes_auto(self) -> bool:
        """Whether every axis is the compiler's."""
        return all(t is AxisType.Auto for t in self.axis_types)

    @property
    def are_all_axes_explicit(self) -> bool:
        """Whether every axis is part of arrays' types."""
        return bool(self.axis_types) and all(t is AxisType.Explicit for t in self.axis_types)

    @property
    def are_all_axes_manual(self) -> bool:
        """Whether an enclosing shard_map maps every axis."""
        return bool(self.axis_types) and all(t is AxisType.Manual for t in self.axis_types)

    def _short(self) -> str:
        axes = ", ".join(f"'{n}': {s}" for n, s in self.shape_tuple)
        return f"{axes}, axis_types={_tuple(self.axis_types)}" if axes else (
            f"(), axis_types={_tuple(self.axis_types)}")


def _tuple(types: Sequence[AxisType]) -> str:
    return f"({', '.join(map(repr, types))}{',' if len(types) == 1 else ''})"


def _check_named(names: tuple[Any, ...]) -> None:
    if any(n is None for n in names):
        raise ValueError(explain(f"Mesh axis names cannot be None. Got: {names}",
                                 fix="name every axis."))


def _types(given: Any, names: tuple[Any, ...]) -> tuple[AxisType, ...]:
    _check_named(names)
    if given is None:
        return (AxisType.Auto,) * len(names)
    types = (given,) if isinstance(given, AxisType) else tuple(given)
    if not all(isinstance(t, AxisType) for t in types):
        raise TypeError(explain(
            f"axis_types must be of type `jax.sharding.AxisType`. Got {types} of type "
            f"{tuple(map(type, types))}", fix="pass (AxisType.Auto, AxisType.Explicit)."))
    if len(types) != len(names):
        raise ValueError(explain(
            "Number of axis names should match the number of axis_types. Got "
            f"axis_names={names} and axis_types={_tuple(types)}",
            fix=f"pass a tuple of {len(names)}, such as (AxisType.Auto,) * {len(names)}."))
    return types


class Mesh(_Axes):
    """Devices in a grid; a context manager that makes it the mesh of bare PartitionSpecs.

    Args:
      devices: array (any nesting) of Devices.
      axis_names: a name for each axis of it, or one name.
      axis_types: an AxisType for each axis (default: Auto).

    Raises:
      ValueError: the number of names is not the number of axes; the devices of a process are no
        block of the grid.

    Example:
      >>> import calque
      >>> calque.sharding.Mesh(calque.devices(), ("x",))
      Mesh(axis_sizes=(1,), axis_names=('x',), axis_types=(Auto,))
    """

    __slots__ = ("devices", "grid", "axis_names", "axis_sizes", "axis_types", "_hash", "_tokens")
    _all: weakref.WeakValueDictionary[Any, Mesh] = weakref.WeakValueDictionary()

    def __new__(cls, devices: Any, axis_names: Any, axis_types: Any = None) -> Mesh:
        """Interned: two equal ones are the same object."""
        self = object.__new__(cls)
        self._make(devices, axis_names, axis_types)
        return cls._all.setdefault((tuple(self.devices.flat), self.axis_sizes, self.axis_names,
                                    self.axis_types), self)

    def _make(self, devices: Any, axis_names: Any, axis_types: Any) -> None:
        self.devices = np.array(devices, dtype=object)
        self.axis_names = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
        _check_named(self.axis_names)
        if self.devices.ndim != len(self.axis_names):
            raise ValueError(explain(
                "Mesh requires the ndim of its first argument (`devices`) to equal the length of "
                f"its second argument (`axis_names`), but got devices.ndim == {self.devices.ndim} "
                f"and len(axis_names) == {len(self.axis_names)}.",
                fix="reshape the devices (np.array(devices).reshape(2, 2)), or name each axis."))
        self.devices.flags.writeable = False
        self.grid = grid_of(self.devices, self.axis_names)  # None: all are of one process
        self.axis_sizes = self.devices.shape
        self.axis_types = _types(axis_types, self.axis_names)
        self._hash = hash((tuple(self.devices.flat), self.axis_sizes, self.axis_names,
                           self.axis_types))
        self._tokens: list[Any] = []

    @property
    def size(self) -> int:
        """How many devices there are."""
        return self.devices.size if self.axis_names else 0

    @property
    def device_ids(self) -> Ndarray:
        """The numbers of the devices, in their grid."""
        return np.array([d.id for d in self.devices.flat], int).reshape(self.devices.shape)

    @property
    def local_devices(self) -> list[Any]:
        """The devices of this process."""
        return [d for d in self.devices.flat if getattr(d, "is_local", True)]

    @property
    def local_mesh(self) -> Mesh:
        """The part of the mesh that this process has; ValueError where it has none."""
        if self.grid is None:
            return self
        mine = np.array([d.is_local for d in self.devices.flat]).reshape(self.devices.shape)
        if not mine.any():
            raise ValueError(explain("this process has no device of the mesh.",
                                     fix="ask in a process that has some."))
        box = np.ix_(*[np.unique(places) for places in np.nonzero(mine)])
        return Mesh(self.devices[box], self.axis_names, self.axis_types)

    @property
    def is_multi_process(self) -> bool:
        """Whether other processes have some of the devices."""
        return self.grid is not None

    @property
    def abstract_mesh(self) -> AbstractMesh:
        """The mesh without its devices."""
        return AbstractMesh(self.axis_sizes, self.axis_names, self.axis_types)

    def update(self, devices: Any = None, axis_names: Any = None, axis_types: Any = None) -> Mesh:
        """A copy with some of devices, axis_names and axis_types replaced."""
        return Mesh(self.devices if devices is None else devices,
                    self.axis_names if axis_names is None else axis_names,
                    self.axis_types if axis_types is None else axis_types)

    def __enter__(self) -> Mesh:
        self._tokens.append((_context.get(), _places.get()))
        _set(self)
        return self

    def __exit__(self, *_: Any) -> None:
        _set(*self._tokens.pop())

    def __call__(self, f: Any) -> Any:
        """A decorator: the function runs inside `with mesh:`."""
        @wraps(f)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self:
                return f(*args, **kwargs)
        return inside

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Mesh) and self._hash == other._hash
            and self.axis_names == other.axis_names and self.axis_types == other.axis_types
            and self.axis_sizes == other.axis_sizes
            and tuple(self.devices.flat) == tuple(other.devices.flat))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> Any:
        return Mesh, (self.devices, self.axis_names, self.axis_types)

    def __repr__(self) -> str:
        if self.empty:
            return "Mesh(axis_sizes=(), axis_names=())"
        return (f"Mesh(axis_sizes={self.axis_sizes}, axis_names={self.axis_names}, "
                f"axis_types={_tuple(self.axis_types)})")

    def __str__(self) -> str:
        return f"Mesh({self._short()})"


class AbstractMesh(_Axes):
    """A mesh without devices: names, sizes and types of axes.

    Args:
      axis_sizes: a size for each axis.
      axis_names: a name for each axis, or one name.
      axis_types: an AxisType for each axis (default: Auto).

    Raises:
      ValueError: the number of names is not the number of sizes.

    Example:
      >>> import calque
      >>> calque.sharding.AbstractMesh((2, 2), ("a", "b"))
      AbstractMesh('a': 2, 'b': 2, axis_types=(Auto, Auto))
    """

    __slots__ = ("axis_names", "axis_sizes", "axis_types")

    def __init__(self, axis_sizes: Sequence[int], axis_names: Any, axis_types: Any = None,
                 **_: Any) -> None:
        self.axis_names = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
        self.axis_sizes = tuple(map(int, axis_sizes))
        if len(self.axis_names) != len(self.axis_sizes):
            raise ValueError(explain(
                f"AbstractMesh: {len(self.axis_sizes)} sizes and {len(self.axis_names)} names.",
                fix="give a size for each name."))
        self.axis_types = _types(axis_types, self.axis_names)

    @property
    def abstract_mesh(self) -> AbstractMesh:
        """Itself."""
        return self

    @property
    def abstract_device(self) -> None:
        """None: what devices it is for is not kept."""
        return None

    def update(self, axis_sizes: Any = None, axis_names: Any = None, axis_types: Any = None,
               **_: Any) -> AbstractMesh:
        """A copy with other sizes, names or types of the axes."""
        return AbstractMesh(
            self.axis_sizes if axis_sizes is None else axis_sizes,
            self.axis_names if axis_names is None else axis_names,
            self.axis_types if axis_types is None else axis_types)

    def update_axis_types(self, types: dict[Any, AxisType]) -> AbstractMesh:
        """A copy in which some axes have other types."""
        return AbstractMesh(self.axis_sizes, self.axis_names, tuple(
            types.get(n, t) for n, t in zip(self.axis_names, self.axis_types)))

    def _key(self) -> Any:
        return self.axis_sizes, self.axis_names, self.axis_types

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AbstractMesh) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __reduce__(self) -> Any:
        return AbstractMesh, self._key()

    def __repr__(self) -> str:
        return f"AbstractMesh({self._short()})"


class OwnRows(AbstractMesh):
    """What one process has of a mesh over several, as the mesh of a mapped function that takes and
    gives this process's rows (pmap): axes are as long as its devices are many, while names inside
    mean the axes of `every`, the whole mesh."""

    __slots__ = ("every",)

    def __init__(self, every: Mesh) -> None:
        mine = every.local_mesh
        super().__init__(mine.axis_sizes, mine.axis_names, mine.axis_types)
        self.every = every

    def _key(self) -> Any:
        return (*super()._key(), self.every)

    def __reduce__(self) -> Any:
        return OwnRows, (self.every,)


# ---- the mesh of a context
NO_MESH = Mesh(np.empty((), object), ())
_context: contextvars.ContextVar[Mesh] = contextvars.ContextVar("calque_mesh", default=NO_MESH)
_abstract: contextvars.ContextVar[AbstractMesh | None] = contextvars.ContextVar(
    "calque_abstract_mesh", default=None)


_places: contextvars.ContextVar[bool] = contextvars.ContextVar("calque_mesh_places", default=False)


def _set(mesh: Mesh, places: bool = False) -> None:
    """places: whether new arrays are over the mesh (set_mesh); else it is that of bare specs."""
    _context.set(mesh)
    _places.set(places)
    config.depend(None if mesh.empty else (mesh, places))


def placing_mesh() -> Mesh | None:
    """The mesh that new arrays are put on, where `set_mesh` set one."""
    return _context.get() if _places.get() and not _context.get().empty else None


def get_mesh() -> Mesh:
    """The mesh of the context (`set_mesh`, `with mesh:`).

    Returns:
      A Mesh, without axes where none is set.

    Raises:
      Nothing.

    Example:
      >>> import calque
      >>> calque.sharding.get_mesh()
      Mesh(axis_sizes=(), axis_names=())
    """
    return _context.get()


def get_abstract_mesh() -> AbstractMesh:
    """The mesh of the context without its devices; inside shard_map, mapped axes are Manual.

    Returns:
      An AbstractMesh, without axes where none is set.

    Raises:
      Nothing.

    Example:
      >>> import calque
      >>> calque.sharding.get_abstract_mesh()
      AbstractMesh((), axis_types=())
    """
    found = _abstract.get()
    return _context.get().abstract_mesh if found is None else found


class set_mesh:  # noqa: N801  (a function that is also a context manager, as in JAX)
    """Make a mesh that of the context: as a call for good, in a `with` statement for its block.

    Args:
      mesh: a Mesh; None: none.

    Raises:
      ValueError: mesh is no Mesh, or has manual axes.

    Example:
      >>> import calque
      >>> with calque.set_mesh(calque.make_mesh((1,), ("x",))):
      ...     calque.sharding.get_mesh().axis_names
      ('x',)
    """

    def __init__(self, mesh: Mesh | None) -> None:
        if mesh is not None and not isinstance(mesh, Mesh):
            raise ValueError(explain(
                f"Expected mesh of type `jax.sharding.Mesh`. Got {type(mesh)}",
                fix="make one with calque.make_mesh."))
        if mesh is not None and mesh.manual_axes:
            raise ValueError(explain(
                f"mesh {mesh!s} contains manual axes, which set_mesh does not take.",
                fix="make it of Auto and Explicit axes; shard_map makes them manual."))
        self._before = _context.get(), _places.get()
        _set(NO_MESH if mesh is None else mesh, mesh is not None)

    def __enter__(self) -> Mesh:
        return _context.get()

    def __exit__(self, *_: Any) -> None:
        _set(*self._before)


def spec_mesh() -> Mesh | AbstractMesh:
    """The mesh that a bare PartitionSpec means: the context's, with the axes that an abstract mesh
    gives to its devices."""
    mesh = _context.get()
    return get_abstract_mesh() if mesh.empty else seen_as(mesh)


def seen_as(mesh: Mesh) -> Mesh:
    """The context's mesh with the axes of `use_abstract_mesh`; inside shard_map it stays."""
    axes = _abstract.get()
    if axes is None or axes.manual_axes or axes == mesh.abstract_mesh or (
            math.prod(axes.axis_sizes) != mesh.size):
        return mesh
    return Mesh(mesh.devices.reshape(axes.axis_sizes), axes.axis_names, axes.axis_types)


class use_abstract_mesh:  # noqa: N801
    """In a `with` statement: the abstract mesh of the block.

    Args:
      mesh: an AbstractMesh.

    Raises:
      ValueError: mesh is none.

    Example:
      >>> from calque.sharding import AbstractMesh, get_abstract_mesh, use_abstract_mesh
      >>> with use_abstract_mesh(AbstractMesh((2,), ("x",))):
      ...     get_abstract_mesh()
      AbstractMesh('x': 2, axis_types=(Auto,))
    """

    def __init__(self, mesh: AbstractMesh) -> None:
        if not isinstance(mesh, AbstractMesh):
            raise ValueError(explain(
                f"Expected mesh of type `jax.sharding.AbstractMesh`. Got {type(mesh)}",
                fix="pass mesh.abstract_mesh."))
        self._mesh, self._tokens = mesh, []  # type: ignore[var-annotated]

    def __enter__(self) -> AbstractMesh:
        mesh = _context.get()
        if not mesh.empty and self._mesh.axis_names and (
                math.prod(self._mesh.axis_sizes) != mesh.size):
            raise ValueError(explain(
                f"use_abstract_mesh cannot change the size of the mesh: {self._mesh!s} is not as "
                f"large as the context's {mesh!s}.", fix="use as many devices."))
        self._tokens.append(_abstract.set(self._mesh))
        return self._mesh

    def __exit__(self, *_: Any) -> None:
        _abstract.reset(self._tokens.pop())


__all__ = ["NO_MESH", "AbstractMesh", "AxisType", "Mesh", "OwnRows", "get_abstract_mesh",
           "get_mesh", "placing_mesh", "set_mesh", "use_abstract_mesh"]
