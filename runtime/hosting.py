"""What the C++ library (runtime/cpp) calls in the interpreter that it hosts.

Everything crosses as numbers, strings, tuples and Buffers.  Checks of arguments are C++'s, before
it takes the interpreter's lock, so that a call of a plain function is one Executable called from C.
Start reading at `bind`.
"""
from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Sequence
from typing import Any

import iree.runtime as rt
import numpy as np

from calque.runtime.aot import Artifact, ArtifactFunction, load
from calque.runtime.archives import dtype_of
from calque.runtime.buffer import Buffer
from calque.runtime.device import Device, devices
from calque.runtime.dims import Expression
from calque.runtime.errors import ArtifactError, DeletedBufferError, DeviceError, explain

# the order of calque::DType
DTYPES = tuple(dtype_of(name) for name in (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
    "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e3m4",
    "float8_e4m3", "float8_e4m3b11fnuz", "float8_e8m0fnu", "float4_e2m1fn", "int2", "int4", "uint2",
    "uint4"))

Call = Callable[[Sequence[Buffer]], Sequence[Buffer]]


@functools.cache
def _set_threads() -> None:
    """How many worker threads the CPU has, where CALQUE_CPU_THREADS says so."""
    text = os.environ.get("CALQUE_CPU_THREADS", "")
    if text and not (text.isdecimal() and 1 <= int(text) <= 1024):
        raise RuntimeError(explain(
            f"CALQUE_CPU_THREADS is {text}, not a number of threads.", "",
            "set it to a number from 1 to 1024, or unset it."))
    if text:
        rt.flags.parse_flags(f"--task_topology_group_count={text}")


def open_device(uri: str) -> tuple[Device, str, str, bool]:
    """(device, its name, its platform, is its memory the host's) of "cpu", "cuda:1", "vulkan"."""
    platform, _, index = uri.partition(":")
    index = index.removeprefix("//")
    if index and not index.isdecimal():
        raise RuntimeError(explain(
            f"{uri!r} names no device.", "", "write cpu, cuda, vulkan, or one of several as "
            "cuda:1."))
    _set_threads()
    found = devices(platform)
    if int(index or 0) >= len(found):
        raise RuntimeError(explain(
            f"there is no device {uri}: {platform} has {len(found)}.", "",
            f"open {platform}:{len(found) - 1} or one before it."))
    device = found[int(index or 0)]
    return device, str(device), device.platform, device.is_host


def load_artifact(source: str | bytes, device: Device, parameters: str = ""
                  ) -> tuple[Artifact, list[tuple[str, str]]]:
    """An artifact (a path or bytes), and (name, record) of its functions; C++ reads the records."""
    try:
        artifact = load(source, device, parameters=parameters or None)
    except (ArtifactError, MemoryError):
        raise
    except Exception as error:  # names that are no text, records of another make
        name = source if isinstance(source, str) else f"{len(source)} bytes"
        raise ArtifactError(explain(f"the artifact cannot be read: {error!r}.", name,
                                    "copy it again, or compile it again.")) from error
    return artifact, [(f.record.name, f.record.text) for f in artifact.every]


def bind(artifact: Artifact, index: int) -> Call:
    """What C++ calls, with a tuple of Buffers, when it has checked them: the index-th of
    load_artifact."""
    function: ArtifactFunction = artifact.every[index]
    record = function.record
    dynamic = any(isinstance(d, Expression)
                  for a in (*record.args, *record.results) for d in a.shape)
    plain = (not record.donated and not dynamic
             and record.passed == tuple(range(len(record.args)))
             and [r.origin for r in record.results]
             == [("computed", k) for k in range(len(record.results))])
    executable = function.executable({}) if plain else None
    if executable is not None:
        return executable.__call__
    return lambda args: function(*args)


def shapes(buffers: Sequence[Buffer]) -> list[tuple[int, ...]]:
    """The shapes of results, where the record does not know them."""
    return [b.shape for b in buffers]


def from_memory(memory: Any, shape: tuple[int, ...], dtype: int, device: Device,
                copy: bool) -> Buffer:
    """A Buffer with a copy of host memory, or over the memory itself, which it keeps alive."""
    wanted = DTYPES[dtype]
    if memory is None:
        return Buffer.from_numpy(np.empty(shape, wanted), device)
    array = np.frombuffer(memory, np.uint8).view(wanted).reshape(shape)
    return Buffer.from_numpy(array, device) if copy else Buffer.alias_numpy(array, device)


def view(buffer: Buffer) -> Any:
    """The bytes of a buffer's value (waited for), or None if there are none."""
    if not buffer.nbytes:
        return None
    return buffer.numpy().reshape(-1).view(np.uint8)


def wait(buffer: Buffer, seconds: float) -> bool:
    """Wait for a value, at most so long if `seconds` is not negative; is it there?"""
    try:
        buffer.wait(None if seconds < 0 else seconds)
    except TimeoutError:
        return False
    return True


_PARTS = re.compile(r"(?P<what>.*?)(?:\n  In (?P<where>.*?)\.?)?(?:\n  Fix: (?P<fix>.*))?\Z",
                    re.DOTALL)


def report(error: BaseException) -> tuple[str, str, str, str]:
    """The name of a calque::Code, and the three parts of the message."""
    parts = _PARTS.match(str(error))
    assert parts is not None
    what, where, fix = (parts[k] or "" for k in ("what", "where", "fix"))
    return _code(error, what), what or type(error).__name__, where, fix


def _code(error: BaseException, what: str) -> str:
    if isinstance(error, DeletedBufferError):
        return "deleted"
    if isinstance(error, ArtifactError):
        return "artifact"
    if isinstance(error, DeviceError):
        return "out_of_memory" if what.startswith("RESOURCE_EXHAUSTED") else "execution"
    if isinstance(error, MemoryError):
        return "out_of_memory"
    if isinstance(error, TypeError):  # what C++ cannot check: relations between sizes, say
        return "dtype"
    if isinstance(error, ValueError):
        return "shape"
    return "host"
