"""What is in the devices' memory, as pprof's profile.proto (github.com/google/pprof).

Each allocation that a Buffer holds is a sample, each loaded program one more.  Where an array was
made is known while Python's tracemalloc is on: it is asked for the Buffer's traceback, so nothing
is recorded, and nothing paid, otherwise.  Start reading at `device_memory_profile`.
"""
from __future__ import annotations

import gc
import gzip
import os
import pathlib
import time
import tracemalloc
from collections import Counter
from typing import Any

import numpy as np

from calque import runtime
from calque.core.source import is_ours
from calque.profiler.wire import data, integer, varint
from calque.runtime import Buffer, Module

Frame = tuple[str, int]
# one kind of sample: where it was made, the innermost first, and (label, value)s
Key = tuple[tuple[Frame, ...], tuple[tuple[str, str], ...]]
_NO_SITE = ("no site is known: call tracemalloc.start(25) before arrays are made", 0)


def device_memory_profile(backend: str | None = None) -> bytes:
    """What is in memory now: arrays and programs, in pprof's format.

    `pprof -top FILE`, or an interactive flame graph: `pprof -http=: FILE`.  Where arrays were made
    is said of those made while `tracemalloc` was on (`python -X tracemalloc=25`).

    Args:
      backend: platform ('cpu', 'cuda', 'vulkan') whose memory is meant; None: of all devices.

    Returns:
      Bytes: a profile, compressed with gzip.  Its values are counts and bytes; its labels kind
      ('buffer', 'executable'), device, and dtype with shape.

    Raises:
      RuntimeError: there is no such backend.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> x = jnp.ones((100, 100))
      >>> calque.profiler.device_memory_profile()[:2]  # gzip's first bytes
      b'\\x1f\\x8b'
    """
    platform = None
    if backend is not None:
        platform = runtime.devices(backend)[0].platform  # RuntimeError for a name that it is not
    found: Counter[Key] = Counter()
    sizes: Counter[Key] = Counter()
    for key, size in _held(platform):
        found[key] += 1
        sizes[key] += size
    return gzip.compress(_profile([(key, n, sizes[key]) for key, n in found.items()]), mtime=0)


def save_device_memory_profile(filename: os.PathLike[str] | str,
                               backend: str | None = None) -> None:
    """Write `device_memory_profile(backend)` to a file.

    Args:
      filename: of the file, by custom .prof or .pb.gz.
      backend: platform whose memory is meant; None: of all devices.

    Returns:
      None.

    Raises:
      RuntimeError: there is no such backend.
      OSError: the file cannot be written.

    Example:
      >>> import os, tempfile, calque
      >>> path = os.path.join(tempfile.mkdtemp(), "memory.pb.gz")
      >>> calque.profiler.save_device_memory_profile(path)
      >>> os.path.exists(path)
      True
    """
    profile = device_memory_profile(backend)
    pathlib.Path(filename).write_bytes(profile)


def _held(platform: str | None) -> list[tuple[Key, int]]:
    """Every allocation and program, with its size in bytes."""
    gc.collect()
    held: list[tuple[Key, int]] = []
    seen: set[int] = set()
    for item in gc.get_objects():
        if type(item) is Buffer and not item.is_deleted():
            memory = _memory_of(item)
            if memory in seen or platform not in (None, item.device.platform):
                continue
            seen.add(memory)
            what = f"{item.dtype}[{','.join(str(d) for d in item.shape)}]"
            labels = (("kind", "buffer"), ("device", str(item.device)), ("type", what))
            held.append(((_site(item), labels), item.nbytes))
        elif type(item) is Module and platform in (None, "cpu"):  # their code is in host memory
            held.append(((((), (("kind", "executable"),))), len(item.vmfb)))
    return held


def _memory_of(item: Buffer) -> int:
    """A number that Buffers of one allocation have in common."""
    if item.device.is_host and item.nbytes:
        array = item._map() if item._host is None else item._host
        if isinstance(array.base, np.ndarray):
            array = array.base
        return int(array.ctypes.data)
    return id(item) if item._sharing is None else id(item._sharing)


def _site(item: Any) -> tuple[Frame, ...]:
    """Where an object was made, in the user's program, the innermost frame first."""
    traceback = tracemalloc.get_object_traceback(item)
    if traceback is None:
        return (_NO_SITE,)
    frames = [(f.filename, f.lineno) for f in reversed(traceback)]
    return tuple(f for f in frames if not is_ours(f[0])) or (frames[0],)


class _Strings:
    """pprof's table of texts; the first is empty."""

    def __init__(self) -> None:
        self.numbers = {"": 0}

    def of(self, text: str) -> int:
        return self.numbers.setdefault(text, len(self.numbers))


def _profile(samples: list[tuple[Key, int, int]]) -> bytes:
    """A Profile message of samples with their counts and bytes."""
    strings, locations, out = _Strings(), dict[Frame, int](), []

    def value_type(field: int, kind: str, unit: str) -> None:
        out.append(data(field, integer(1, strings.of(kind)) + integer(2, strings.of(unit))))

    value_type(1, "allocations", "count")
    value_type(1, "space", "bytes")
    for (frames, labels), count, size in samples:
        ids = [locations.setdefault(f, len(locations) + 1) for f in frames]
        body = data(1, b"".join(map(varint, ids))) + data(2, varint(count) + varint(size))
        for name, value in labels:
            body += data(3, integer(1, strings.of(name)) + integer(2, strings.of(value)))
        out.append(data(2, body))
    for (file, line), number in locations.items():
        name = f"{os.path.basename(file)}:{line}" if line else file
        out.append(data(4, integer(1, number) + data(4, integer(1, number) + integer(2, line))))
        out.append(data(5, integer(1, number) + integer(2, strings.of(name))
                        + integer(3, strings.of(name)) + integer(4, strings.of(file))))
    out += [data(6, text) for text in strings.numbers]
    out.append(integer(9, time.time_ns()))
    return b"".join(out)
