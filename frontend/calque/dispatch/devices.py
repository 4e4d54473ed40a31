"""Devices and moving data to and from them, on trees."""
from __future__ import annotations

import contextlib
import os
import threading
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from calque import runtime
from calque.core import dtypes
from calque.core.config import config
from calque.core.errors import explain
from calque.core.tables import from_row
from calque.core.trace import Tracer
from calque.core.types import Function
from calque.dispatch import transfers
from calque.dispatch.array import Array, current_device, platform_named
from calque.runtime import Device
from calque.trees import util as tree_util

__all__ = ["block_until_ready", "copy_to_host_async", "default_backend", "device_count",
           "device_get", "devices", "effects_barrier", "host_count", "host_id", "host_ids",
           "local_device_count", "local_devices", "process_count", "process_index",
           "process_indices", "thread_guard"]


def copy_to_host_async(x: Any) -> Any:
    """Start the transfers to the host of a tree's arrays, for device_get or np.asarray later.

    Args:
      x: tree of arrays and of anything else.

    Returns:
      x.

    Raises:
      Nothing.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> calque.copy_to_host_async([jnp.ones(2), "text"])[1]
      'text'
    """
    for leaf in tree_util.tree_leaves(x):
        start = getattr(leaf, "copy_to_host_async", None)
        if start is not None and not isinstance(leaf, Tracer):
            start()
    return x


def devices(backend: str | None = None) -> list[Device]:
    """All devices of a backend, those of all processes in their order (distributed.initialize).

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
    found = list(runtime.device.devices_of_all(_platform(backend)))
    if not found:
        raise RuntimeError(explain(f"Unknown backend: {backend!r} has no devices here.",
                                   fix="see `calque doctor` for what this machine has."))
    return found


def _platform(backend: str | None) -> str | None:
    return platform_named() if backend is None else {"gpu": "cuda"}.get(backend, backend)


_FORCED = "--xla_force_host_platform_device_count="


def _count() -> int:
    """The number of CPU devices that the configuration or XLA_FLAGS asks for, read at first use."""
    flags = os.environ.get("XLA_FLAGS", "").split()
    other = [f for f in flags if not f.startswith(_FORCED)]
    if other:
        warnings.warn(f"calque: XLA_FLAGS {' '.join(other)} mean nothing here and are ignored; "
                      f"only {_FORCED}N is read.", stacklevel=2)
    forced = [int(f[len(_FORCED):]) for f in flags if f.startswith(_FORCED)]
    return max(config.jax_num_cpu_devices or 1, *forced, 1) if (
        config.jax_num_cpu_devices or 1) <= 1 else int(config.jax_num_cpu_devices)


def _check_count(count: int) -> None:
    """jax_num_cpu_devices cannot change once devices were used."""
    if count is not None and count >= 1:
        runtime.device.check_cpu_device_count(count)


runtime.device.asked_count.append(_count)
config.checks["jax_num_cpu_devices"] = _check_count


def local_devices(process_index: int | None = None, backend: str | None = None,
                  host_id: int | None = None) -> list[Device]:
    """The devices of this process.

    Args:
      process_index: number of a process; None: this one.
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
    mine, count = runtime.device.process()
    wanted = process_index if process_index is not None else host_id
    if wanted is None or wanted == mine:
        return runtime.devices(_platform(backend))
    if not 0 <= wanted < count:
        raise ValueError(explain(
            f"Unknown process_index {wanted}: " + (
                "there is one process." if count == 1 else f"they are 0 to {count - 1}."),
            fix="leave it out."))
    return [d for d in devices(backend) if d.process_index == wanted]


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
    return len(local_devices(backend=backend))


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
      An int; 0 where there is one process.

    Raises:
      Nothing.

    Example:
      >>> import calque
      >>> calque.process_index()
      0
    """
    return runtime.device.process()[0]


def process_count(backend: str | None = None) -> int:
    """How many processes run this program together.

    Args:
      backend: accepted for compatibility.

    Returns:
      An int; 1 unless distributed.initialize was called.

    Raises:
      Nothing.

    Example:
      >>> import calque
      >>> calque.process_count()
      1
    """
    return runtime.device.process()[1]


def process_indices(backend: str | None = None) -> list[int]:
    """The numbers of all processes.

    Args:
      backend: accepted for compatibility.

    Returns:
      A list of ints.

    Raises:
      Nothing.

    Example:
      >>> import calque
      >>> calque.process_indices()
      [0]
    """
    return list(range(process_count()))


_RENAMED = """The older name of `{now}`: what that returns, with a UserWarning.

    Args:
      backend: accepted for compatibility.

    Returns:
      What `{now}` returns.

    Raises:
      Nothing.

    Example:
      >>> import calque, warnings
      >>> with warnings.catch_warnings(action="ignore"):
      ...     calque.{name}()
      {result}
    """


def _renamed(old: str, now: Function, result: str) -> Function:
    def f(backend: str | None = None) -> Any:
        warnings.warn(f"calque.{old} has been renamed to calque.{now.__name__}: use that.",
                      UserWarning, stacklevel=2)
        return now(backend)

    return from_row(f, "calque", old, _RENAMED, now=now.__name__, result=result)


host_count = _renamed("host_count", process_count, "1")
host_id = _renamed("host_id", process_index, "0")
host_ids = _renamed("host_ids", process_indices, "[0]")


def thread_guard(value: bool = True) -> contextlib.AbstractContextManager[None]:
    """Context in which only the thread that enters it may run programs that send messages to
    other processes: threads that run them in other orders in other processes wait for each other.

    Args:
      value: whether the guard is on.

    Returns:
      A context manager; another thread's program raises RuntimeError meanwhile.

    Raises:
      ValueError: the value is no bool.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> with calque.thread_guard(True):
      ...     int(jnp.ones(2).sum())
      2
    """
    return _guarded(value)


@contextlib.contextmanager
def _guarded(value: bool) -> Iterator[None]:
    before = runtime.executable.sender[0]
    with config.context("jax_thread_guard", value):
        try:
            yield
        finally:
            runtime.executable.sender[0] = before


def _guard(value: bool) -> None:
    runtime.executable.sender[0] = threading.get_ident() if value else None


config.checks["jax_thread_guard"] = _guard
if config.jax_thread_guard:  # by the environment
    _guard(True)


def device_get(x: Any) -> Any:
    """A tree of arrays as NumPy arrays (on the CPU without a copy).

    Args:
      x: a tree; leaves that are no arrays, or traced, stay as they are.

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
        lambda v: transfers.explicit(lambda: np.asarray(v)) if isinstance(v, (Array, np.ndarray))
        and not isinstance(v, Tracer) and not dtypes.is_key(v.dtype) else v, x)


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
    if type(x) is Array:
        return x.block_until_ready()
    _wait((x,))
    return x


def _wait(nodes: Iterable[Any]) -> None:
    """Wait for the arrays of trees.  Lists and dictionaries are walked here: flattening them costs
    more a leaf than looking whether it is there."""
    for v in nodes:
        kind = type(v)
        if kind is Array:
            own = v._own if v._pending is None else None
            if own is None or own.fence is not None or own.is_deleted():
                v._buffer.wait()
        elif kind is list or kind is tuple:
            _wait(v)
        elif kind is dict:
            _wait(v.values())
        else:
            for leaf in tree_util.tree_leaves(v):
                if hasattr(leaf, "block_until_ready"):
                    leaf.block_until_ready()


def effects_barrier() -> None:
    """Wait until everything that was started has run, with the effects it has (callbacks, prints).

    Returns:
      Nothing.

    Raises:
      Nothing: what failed, its results' users are told.

    Example:
      >>> import calque
      >>> calque.jit(lambda x: calque.debug.print("x = {}", x))(2)
      x = 2
      >>> calque.effects_barrier()
    """
    for device in runtime.devices():
        device.pending.wait()
