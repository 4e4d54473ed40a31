"""Devices and moving data to and from them, on trees."""
from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from calque import runtime, tree_util
from calque.array import Array, current_device, from_numpy
from calque.core import dtypes, errors
from calque.core.avals import aval_of, is_arraylike
from calque.core.config import config
from calque.core.trace import Tracer
from calque.runtime import Buffer, Device

__all__ = ["block_until_ready", "default_backend", "device_count", "device_get", "device_put",
           "devices", "local_device_count", "local_devices", "process_count", "process_index"]


def devices(backend: str | None = None) -> list[Device]:
    """All devices of a backend.

    Args:
      backend: 'cpu', 'cuda' (or 'gpu'), 'vulkan'; None: the default backend.

    Returns:
      A list of Devices.

    Raises:
      RuntimeError: the backend is unknown, or has no device or driver here.

    Example:
      >>> import calque
      >>> calque.devices()
      [CpuDevice(id=0)]
    """
    _set_count()
    found = runtime.devices(_platform(backend))
    if not found:
        raise RuntimeError(errors.explain(f"Unknown backend: {backend!r} has no devices here.",
                                          fix="see `calque doctor` for what this machine has."))
    return found


def _platform(backend: str | None) -> str | None:
    if backend is not None:
        return {"gpu": "cuda"}.get(backend, backend)
    listed = config.jax_platforms
    return None if not listed else str(listed).split(",")[0].strip()


def _set_count() -> None:
    if config.jax_num_cpu_devices and config.jax_num_cpu_devices > 1:
        runtime.set_cpu_device_count(config.jax_num_cpu_devices)


def local_devices(process_index: int | None = None, backend: str | None = None,
                  host_id: int | None = None) -> list[Device]:
    """The devices of this process.

    Args:
      process_index: number of a process (0: there is one); None: this one.
      backend: as in `devices`.
      host_id: the older name of process_index.

    Returns:
      A list of Devices.

    Raises:
      ValueError: there is no such process.
      RuntimeError: the backend is unknown, or has no device or driver here.

    Example:
      >>> import calque
      >>> calque.local_devices()
      [CpuDevice(id=0)]
    """
    for given in (process_index, host_id):
        if given not in (None, 0):
            raise ValueError(errors.explain(
                f"Unknown process_index {given}: there is one process.", fix="leave it out."))
    return devices(backend)


def device_count(backend: str | None = None) -> int:
    """How many devices there are.

    Args:
      backend: as in `devices`.

    Returns:
      An int.

    Raises:
      RuntimeError: the backend is unknown, or has no device or driver here.

    Example:
      >>> import calque
      >>> calque.device_count("cpu")
      1
    """
    return len(devices(backend))


def local_device_count(backend: str | None = None) -> int:
    """How many devices this process has.

    Args:
      backend: as in `devices`.

    Returns:
      An int.

    Raises:
      RuntimeError: the backend is unknown, or has no device or driver here.

    Example:
      >>> import calque
      >>> calque.local_device_count("cpu")
      1
    """
    return len(devices(backend))


def default_backend() -> str:
    """The platform new arrays go to.

    Returns:
      'cpu', 'cuda' or 'vulkan'.

    Raises:
      RuntimeError: the platform that jax_default_device names has no device or driver here.

    Example:
      >>> import calque
      >>> calque.default_backend()
      'cpu'
    """
    return current_device().platform


def process_index(backend: str | None = None) -> int:
    """The number of this process.

    Args:
      backend: accepted for compatibility.

    Returns:
      0: there is one process.

    Raises:
      Nothing.

    Example:
      >>> import calque
      >>> calque.process_index()
      0
    """
    return 0


def process_count(backend: str | None = None) -> int:
    """How many processes run this program together.

    Args:
      backend: accepted for compatibility.

    Returns:
      1.

    Raises:
      Nothing.

    Example:
      >>> import calque
      >>> calque.process_count()
      1
    """
    return 1


def _put(x: Any, device: Device) -> Any:
    if isinstance(x, Tracer):
        return x
    if type(x) is Array:
        if x.device is device:
            return x
        words = x._numpy()
        if dtypes.is_key(x.dtype):
            return Array(Buffer.from_numpy(words, device), x.aval)
        return from_numpy(words, x.weak_type, device)
    if isinstance(x, np.ndarray):
        return from_numpy(x, device=device, alias=True)
    if not is_arraylike(x):
        raise TypeError(errors.explain(
            f"device_put: {x!r} of type {type(x).__name__} is not a valid JAX type.",
            fix="pass arrays, numbers and trees of them."))
    return from_numpy(np.asarray(x, aval_of(x).dtype), aval_of(x).weak_type, device)


def device_put(x: Any, device: Any = None, *, src: Any = None, donate: bool = False,
               may_alias: bool | None = None) -> Any:
    """A tree of arrays on a device; 64-byte aligned NumPy memory is shared, not copied.

    Args:
      x: tree of arrays and numbers.
      device: where to: a Device or a backend's name (default: the default device).
      src, donate, may_alias: accepted for compatibility; memory is shared where it can be.

    Returns:
      The tree, with Arrays as leaves.

    Raises:
      TypeError: a leaf is no array or number.
      ValueError: `device` is no device, or names a backend without devices here.

    Example:
      >>> import calque, numpy as np
      >>> calque.device_put(np.ones(2, np.float32))
      Array([1., 1.], dtype=float32)
    """
    target = current_device() if device is None else device
    if isinstance(target, str):
        with contextlib.suppress(RuntimeError):
            target = devices(target)[0]
    if not isinstance(target, Device):
        raise ValueError(errors.explain(
            f"device_put only accepts None or a Device, got {target!r}.",
            fix="use one of calque.devices()."))
    return tree_util.tree_map(lambda v: _put(v, target), x)


def device_get(x: Any) -> Any:
    """A tree of arrays as NumPy arrays (on the CPU without a copy).

    Args:
      x: a tree; leaves that are no arrays stay as they are.

    Returns:
      The tree, with NumPy arrays in place of Arrays; waits for their values.  Arrays of typed keys
      stay as they are.

    Raises:
      JaxRuntimeError: the computation of an array failed.
      RuntimeError: an array was deleted or donated.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> calque.device_get((3, jnp.asarray([1.0, 2.0])))
      (3, array([1., 2.], dtype=float32))
    """
    return tree_util.tree_map(
        lambda v: np.asarray(v) if isinstance(v, (Array, np.ndarray))
        and not dtypes.is_key(v.dtype) else v, x)


def block_until_ready(x: Any) -> Any:
    """Wait for every array of a tree.

    Args:
      x: a tree; leaves that are no arrays stay as they are.

    Returns:
      The tree.

    Raises:
      JaxRuntimeError: the computation of an array failed.
      RuntimeError: an array was deleted or donated.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> calque.block_until_ready((jnp.asarray(1), "done"))
      (Array(1, dtype=int32, weak_type=True), 'done')
    """
    for v in tree_util.tree_leaves(x):
        if hasattr(v, "block_until_ready"):
            v.block_until_ready()
    return x
