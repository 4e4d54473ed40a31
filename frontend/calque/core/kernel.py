"""Kernels of the user's own, as plain records: what calque.ffi registers and Programs carry.

Imports core.errors.  Start reading at `Kernel`, which lowering/kernels/user.py compiles; a
`Handler` is compiled already, and runtime/handlers calls it.
"""
from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from calque.core.errors import explain
from calque.core.types import Function

_IDENTIFIER = re.compile(r"[A-Za-z_$][\w$]*\Z", re.ASCII)
PLATFORMS = ("cpu", "cuda", "vulkan")


@dataclass(frozen=True, slots=True)
class Kernel:
    """A function that a compiled program calls: in C, in CUDA, or a shader of Vulkan's.

    On a CPU it is `void entry(const T *argument, ..., T *result, ..., scalars ...)`, arrays dense
    and row-major; with a grid `int64_t group, int64_t groups` follow for each of its axes, and it
    is called once for each group, on all cores.  No libc is there (`__builtin_sqrtf` and the like
    that become instructions are); it must not write arguments, or outside of its arrays.
    For CUDA it is `extern "C" __global__ void entry(...)` with the same pointers, then scalars of
    32 bits.  For Vulkan the arrays are the storage buffers of set 0 in that order from binding 0,
    the scalars are the members of the push constants.

    Args:
      source: for CPUs C source (gnu11), an object file's bytes, or a dict of them by level
        ("x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"); for CUDA PTX, or CUDA C; for Vulkan
        GLSL, or a SPIR-V module's bytes.
      entry: the function's name; "main" in GLSL.
      scalars: scalars(inputs, outputs, **attributes) -> sequence of int, bool (int64_t in C) and
        float (double); on GPUs of the type that the kernel declares; inputs and outputs have shape
        and dtype.  None: no scalars.
      grid: grid(inputs, outputs, **attributes) -> number of groups (blocks, workgroups), or up to
        three.  None: one call, one group.
      work: work(inputs, outputs, **attributes) -> sequence of (shape, dtype): memory that the
        kernel may use, passed behind the results; not set to anything.
      block: CUDA only: the threads of a block, a number or up to three.
      shared_memory: CUDA only: bytes of `extern __shared__` memory of a block, a number or
        shared_memory(inputs, outputs, **attributes) -> number.

    Raises:
      TypeError: source or entry is no text, or another one is no function.
      ValueError: entry is no name; a block without threads.

    Example:
      >>> from calque import ffi
      >>> ffi.Kernel("void copy(const float *x, float *y) { *y = *x; }", "copy").entry
      'copy'
    """

    source: str | bytes | Mapping[str, bytes]
    entry: str
    scalars: Callable[..., Sequence[Any]] | None = None
    grid: Callable[..., int | Sequence[int]] | None = None
    work: Callable[..., Sequence[Any]] | None = None
    block: int | Sequence[int] | None = None
    shared_memory: int | Callable[..., int] = 0

    def __post_init__(self) -> None:
        source = self.source
        if isinstance(source, Mapping):
            for level, code in source.items():
                if not isinstance(level, str) or not isinstance(code, bytes):
                    raise TypeError(explain(
                        f"ffi.Kernel: objects by level must be text: bytes, got {level!r}: "
                        f"{type(code).__name__}.", fix="read the files: path.read_bytes()."))
            object.__setattr__(self, "source", _Objects(sorted(source.items())))
        elif not isinstance(source, (str, bytes)):
            raise TypeError(explain("ffi.Kernel: source must be text, bytes or a dict of bytes.",
                                    fix="pass the C source and the name of a function in it."))
        if not isinstance(self.entry, str):
            raise TypeError(explain("ffi.Kernel: entry must be text.",
                                    fix="pass the name of a function of the source."))
        if not _IDENTIFIER.match(self.entry):
            raise ValueError(explain(f"ffi.Kernel: entry {self.entry!r} is no name in C.",
                                     fix="pass the name of a function of the source."))
        for name in ("scalars", "grid", "work"):
            if getattr(self, name) is not None and not callable(getattr(self, name)):
                raise TypeError(explain(
                    f"ffi.Kernel: {name} must be a function, got {getattr(self, name)!r}.",
                    fix=f"pass {name}=lambda inputs, outputs, **attributes: ..."))
        if self.block is not None:
            object.__setattr__(self, "block", three("ffi.Kernel: block", self.block, 1))
        shared = self.shared_memory
        if not callable(shared) and (isinstance(shared, bool) or not isinstance(shared, int)
                                     or shared < 0):
            raise TypeError(explain(
                f"ffi.Kernel: shared_memory must be a number of bytes, got {shared!r}.",
                fix="pass an int, or a function that gives one."))


@dataclass(frozen=True, slots=True)
class Handler:
    """A handler of XLA's typed FFI: the addresses of its functions, to instantiate, to prepare, to
    initialize and to execute, 0 where it has none; `owner` keeps them in memory."""

    functions: tuple[int, int, int, int]
    owner: Any = None

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Handler) and self.functions == other.functions

    def __hash__(self) -> int:
        return hash(self.functions)


def address_of(capsule: Any) -> int:
    """What a PyCapsule points to.

    Raises:
      TypeError: it is no capsule.
    """
    if type(capsule).__name__ != "PyCapsule":
        raise TypeError(explain(f"register_ffi_target: {type(capsule).__name__} is no PyCapsule.",
                                fix="wrap the function by ffi.pycapsule."))
    name_of, pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return int(pointer(capsule, name_of(capsule)))


class _Objects(tuple[tuple[str, bytes], ...]):
    """Object files by level: a dict that has a hash."""

    __slots__ = ()


def three(what: str, value: Any, least: int, where: str = "") -> tuple[int, ...]:
    """One to three numbers as a tuple of ints."""
    made = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if not 1 <= len(made) <= 3 or any(
            isinstance(n, bool) or not hasattr(n, "__index__") or int(n) < least for n in made):
        raise ValueError(explain(
            f"{what} must be one to three ints from {least} on, got {value!r}.", where=where,
            fix="give a number, or a tuple with one for each axis."))
    return tuple(map(int, made))


@dataclass(frozen=True, slots=True)
class Kernels:
    """The kernels of one name as they were when a call was traced, and its form elsewhere."""

    name: str
    of: tuple[tuple[str, Kernel | Handler], ...] = ()
    plain: Function | None = None

    def __repr__(self) -> str:
        return self.name

    def get(self, platform: str) -> Kernel | None:
        found = dict(self.of).get(platform)
        return None if isinstance(found, Handler) else found

    @property
    def handler(self) -> Handler | None:
        """The handler of XLA's that it is."""
        return next((k for _, k in self.of if isinstance(k, Handler)), None)

    def having(self, platform: str, fn: Any) -> Kernels:
        """These with one more, or with another in its place; 'default': the form elsewhere."""
        if platform == "default":
            return replace(self, plain=fn)
        return replace(self, of=(*[p for p in self.of if p[0] != platform], (platform, fn)))
