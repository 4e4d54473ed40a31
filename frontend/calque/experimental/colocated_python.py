"""Python functions run where arrays are: on the host of their devices, which is this process.

JAX's `experimental.colocated_python`.  Arrays go in and out as they are; devices of other
processes are refused.  Start reading at `colocated_python`.
"""
from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core.errors import explain
from calque.core.mesh import Mesh
from calque.core.types import Function
from calque.dispatch.array import Array, to_array
from calque.trees import util as trees


def colocated_cpu_devices(devices_or_mesh: Any) -> Any:
    """CPU devices on the hosts of these devices.

    Args:
      devices_or_mesh: a sequence of devices, or a Mesh.

    Returns:
      A tuple of CPU devices in the same order, a CPU being its own, or a Mesh of them.

    Raises:
      ValueError: there is no CPU of that number beside a device.

    Example:
      >>> import calque
      >>> from calque.experimental import colocated_python as cp
      >>> cp.colocated_cpu_devices(calque.devices()[:1])
      (CpuDevice(id=0),)
    """
    if isinstance(devices_or_mesh, Mesh):
        mesh = devices_or_mesh
        found = colocated_cpu_devices(tuple(mesh.devices.flat))
        return Mesh(np.array(found, object).reshape(mesh.devices.shape), mesh.axis_names,
                    axis_types=mesh.axis_types)
    import calque
    made = []
    for device in devices_or_mesh:
        cpus = [device] if device.platform == "cpu" else [
            d for d in calque.devices("cpu") if d.process_index == device.process_index]
        if not cpus:
            raise ValueError(explain(f"colocated_cpu_devices: no CPU device beside {device}.",
                                     fix="add cpu to jax_platforms."))
        made.append(cpus[device.local_hardware_id % len(cpus)] if len(cpus) > 1 else cpus[0])
    return tuple(made)


def colocated_python(fun: Function) -> Any:
    """A function of arrays that Python runs on the host of their devices.

    Args:
      fun: function of trees of arrays that gives a tree of arrays; it may do anything that
        Python can.

    Returns:
      A function of fun's arguments, with `specialize(in_specs=None, out_specs_fn=None,
      devices=None)`, which gives one that checks arguments by their shapes and dtypes, puts
      results as `out_specs_fn(*specs)` says, and may be called without arguments.

    Raises:
      ValueError: arguments are not what it was specialized for, or there are none and it was
        specialized for no devices.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.experimental.colocated_python import colocated_python
      >>> print(colocated_python(lambda x: x + 1)(jnp.ones(2)))
      [2. 2.]
    """
    return _Colocated(fun)


class _Colocated:
    """What colocated_python gives."""

    def __init__(self, fun: Function, in_specs: Any = None, out_specs_fn: Any = None,
                 devices: Sequence[Any] | None = None) -> None:
        self.__name__ = getattr(fun, "__name__", type(fun).__name__)
        self.__doc__, self.__wrapped__ = fun.__doc__, fun
        self._fun, self._given, self._devices = fun, in_specs, devices
        self._results = out_specs_fn

    def specialize(self, in_specs: Any = None, out_specs_fn: Any = None,
                   devices: Sequence[Any] | None = None) -> Any:
        """The same function for arguments, results and devices that are known before."""
        return _Colocated(self._fun, self._given if in_specs is None else in_specs,
                          self._results if out_specs_fn is None else out_specs_fn,
                          self._devices if devices is None else devices)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, tree = trees.flatten((args, kwargs))
        if not leaves and self._devices is None:
            raise ValueError(explain(
                "No devices found. colocated_python function without input arguments must be first "
                f"specialized with devices: {self.__name__}.",
                fix="call what f.specialize(devices=...) gives."))
        if self._given is not None:
            _check(self.__name__, self._given, leaves, tree)
        found, out_tree = trees.flatten(self._fun(*args, **kwargs))
        results = [x if isinstance(x, Array) else to_array(x) for x in found]
        if self._results is None:
            return out_tree.unflatten(results)
        import calque
        specs = self._results(*args, **kwargs)
        wanted, wanted_tree = trees.flatten(specs)
        _check(f"{self.__name__}'s results", specs, results, out_tree)
        return wanted_tree.unflatten([
            x if s.sharding is None else calque.device_put(x, s.sharding)
            for x, s in zip(results, wanted, strict=True)])


def _check(what: str, specs: Any, leaves: Sequence[Any], tree: Any) -> None:
    wanted, wanted_tree = trees.flatten(specs)
    if wanted_tree != tree:
        raise ValueError(explain(
            f"colocated_python: {what} has the structure {tree}, specialized for {wanted_tree}.",
            fix="call it with what it was specialized for, or specialize it again."))
    for x, s in zip(leaves, wanted):
        if (np.shape(x), np.dtype(x.dtype)) != (tuple(s.shape), np.dtype(s.dtype)):
            raise ValueError(explain(
                f"colocated_python: {what} has {x.dtype}{list(np.shape(x))}, specialized for "
                f"{s.dtype}{list(s.shape)}.", fix="call it with what it was specialized for, or "
                "specialize it again."))


def colocated_python_class(cls: type) -> type:
    """A class whose objects are made, and whose methods run, on the host of their arguments.

    Args:
      cls: a class; its object is made when a method is called first.

    Returns:
      A class with cls's methods.

    Raises:
      Nothing.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.experimental.colocated_python import colocated_python_class
      >>> @colocated_python_class
      ... class Sum:
      ...     def __init__(self, start): self.total = start
      ...     def add(self, x):
      ...         self.total = self.total + x
      ...         return self.total
      >>> print(Sum(1.0).add(jnp.ones(2)))
      [2. 2.]
    """
    names = [n for n in dir(cls) if callable(getattr(cls, n)) and (
        n == "__call__" or not n.startswith("__"))]

    def begin(self: Any, *args: Any, **kwargs: Any) -> None:
        make = functools.cache(lambda: cls(*args, **kwargs))

        def method(name: str) -> Any:
            @functools.wraps(getattr(cls, name))
            def call(*given: Any, **named: Any) -> Any:
                return getattr(make(), name)(*given, **named)
            return colocated_python(call)

        self._methods = {n: method(n) for n in names}
        for name in names:
            if name != "__call__":  # (which Python looks for in the class)
                setattr(self, name, self._methods[name])

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self._methods["__call__"](*args, **kwargs)

    return type(cls.__name__, (), {"__init__": begin, "__doc__": cls.__doc__, "__module__":
                                   cls.__module__, **({"__call__": call} if "__call__" in names
                                                      else {})})


__all__ = ["colocated_cpu_devices", "colocated_python", "colocated_python_class"]


def __dir__() -> list[str]:
    return __all__
