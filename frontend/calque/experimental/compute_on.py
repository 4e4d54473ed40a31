"""compute_on: which of a machine's processors runs a part of a program; here there is one."""
from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterator
from typing import Any

from calque.core.errors import explain
from calque.core.types import Function


def _check(compute_type: Any) -> None:
    if not isinstance(compute_type, str) or not re.fullmatch(
            r"device_host|device|tpu_sparsecore|gpu_stream:\d+", compute_type):
        raise ValueError(explain(
            f"Invalid compute type {compute_type}. Current supported values are `device_host`, "
            "`device`, `tpu_sparsecore`, and `gpu_stream:#`.", fix="compute_on('device_host')."))


@contextlib.contextmanager
def compute_on(compute_type: str) -> Iterator[None]:
    """What is computed in the block (or the decorated function) runs on a kind of processor.

    All that is computed runs on the current device: the CPU is the host.

    Args:
      compute_type: 'device_host', 'device', 'tpu_sparsecore' or 'gpu_stream:' and a number.

    Raises:
      ValueError: compute_type is none of these.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.experimental.compute_on import compute_on
      >>> with compute_on("device_host"):
      ...     jnp.ones(2) + 1
      Array([2., 2.], dtype=float32)
    """
    _check(compute_type)
    yield


def compute_on2(f: Function | None = None, *, compute_type: str, out_memory_spaces: Any,
                compiler_options: Any = None) -> Any:
    """A function that runs on a kind of processor, as `compute_on`.

    Args:
      f: the function; None: a decorator is returned.
      compute_type: as of `compute_on`.
      out_memory_spaces: accepted: memories of hosts and of the device are one.
      compiler_options: accepted.

    Returns:
      A function of the same arguments.

    Raises:
      ValueError: compute_type is unknown.

    Example:
      >>> import calque
      >>> from calque.experimental.compute_on import compute_on2
      >>> compute_on2(lambda x: x + 1, compute_type="device_host",
      ...             out_memory_spaces=calque.memory.Space.Device)(1)
      2
    """
    _check(compute_type)
    if f is None:
        return functools.partial(compute_on2, compute_type=compute_type,
                                 out_memory_spaces=out_memory_spaces,
                                 compiler_options=compiler_options)
    return compute_on(compute_type)(f)


__all__ = ["compute_on", "compute_on2"]


def __dir__() -> list[str]:
    return __all__
