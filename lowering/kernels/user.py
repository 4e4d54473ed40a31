"""Kernels of the user's own: what a call of one needs, asked of the kernel's functions.

user_c.py links C and objects into programs for CPUs, user_gpu.py puts CUDA's and Vulkan's code into
them.  Start reading at `prepared`.
"""
from __future__ import annotations

import functools
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from calque.core.dims import Dim
from calque.core.errors import explain
from calque.core.kernel import Kernel, three
from calque.core.types import Dtype, Shape
from calque.lowering.compiler.folders import (
    cache_directory,
    is_own_file,
    own_directory,
    passing,
    temporary,
)
from calque.lowering.emit.dtypes import I8
from calque.lowering.kernels.dispatch import Spec

_MOST_GROUPS = 1 << 16  # on a CPU: each costs a call
INT64 = range(-(1 << 63), 1 << 63)


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a kernel, with all that its shapes and attributes decide.

    Attributes:
      name: what the kernel was registered as; where: the user's line.
      ins: dtypes of the arguments; sizes: how many numbers they have.
      specs: of the results, then of work space; results: how many.
      scalars: int or float each, or a size that is known at the call only.
      grid: groups along each axis, () for a kernel without a grid.
      shared: bytes of shared memory (CUDA).
      aliases: argument -> the result that is written into its memory.
    """

    kernel: Kernel
    name: str
    where: str
    ins: tuple[Dtype, ...]
    sizes: Shape
    specs: tuple[Spec, ...]
    results: int
    scalars: tuple[int | float | Dim, ...]
    grid: Shape
    shared: int
    aliases: Mapping[int, int]

    def error(self, what: str, fix: str, kind: type[Exception] = ValueError) -> Exception:
        """An error of three parts."""
        return kind(explain(f"ffi_call: {what}", where=self.where, fix=fix))

    def number(self, i: int, value: int | float | Dim, kind: str) -> int | float:
        """Scalar i as a GPU's kernel declares it ('int32', 'float64', ...); an error where it does
        not fit."""
        if kind.startswith("float") and not isinstance(value, Dim):
            with np.errstate(over="ignore"):
                return float(np.dtype(kind).type(value))
        limits = np.iinfo(kind)
        if not isinstance(value, int) or not limits.min <= value <= limits.max:
            raise self.error(f"scalar {i} of {self.name!r}, {value}, does not fit in {kind}.",
                             "declare a wider type, or let each group do less.", OverflowError)
        return value

    @property
    def into(self) -> list[int]:
        """For each result and work space the argument whose memory it is, or -1."""
        places = {j: i for i, j in self.aliases.items()}
        return [places.get(j, -1) for j in range(len(self.specs))]

    @property
    def new(self) -> list[Spec]:
        """The results and work space that are no argument's memory."""
        return [s for s, i in zip(self.specs, self.into) if i < 0]

    @property
    def memory(self) -> list[Spec]:
        """What is made for results and work space: of an empty one an element, bool as bytes."""
        return [((1,) if is_empty(s) else s, I8 if d.kind == "b" else d)
                for s, d in self.specs]


def is_empty(shape: Sequence[Any]) -> bool:
    """Whether arrays of a shape are known to have no element."""
    return 0 in [n for n in shape if not isinstance(n, Dim)]


@dataclass(frozen=True, slots=True)
class Code:
    """A kernel's code for a GPU, checked against the call.

    Attributes:
      path: its file; entry: the function in it.
      words: the scalars as push constants, int32 each.
      block, shared: threads of a block and bytes of shared memory, where the code does not say.
      needs: what it needs of a device beyond the target, in the words of records.
    """

    path: Path
    entry: str
    words: tuple[int, ...] = ()
    block: Shape = ()
    shared: int = 0
    needs: frozenset[str] = frozenset()


def prepared(kernel: Kernel, name: str, where: str, ins: Sequence[Any], outs: Sequence[Any],
             attributes: Mapping[str, Any], aliases: Mapping[int, int], cpu: bool) -> Call:
    """The call of a kernel on arrays of these types."""
    work = [_spec(name, where, *s) for s in kernel.work(ins, outs, **attributes)
            ] if kernel.work else []
    grid: Shape = ()
    if kernel.grid is not None:
        grid = three(f"ffi_call: the grid of {name!r}", kernel.grid(ins, outs, **attributes), 0,
                     where)
        if math.prod(grid) == 0 and any(math.prod(a.shape) for a in outs):
            raise ValueError(explain(
                f"ffi_call: the grid of {name!r} is {grid}, and nothing would write its results.",
                where=where, fix="let it be 1 and more where a result has elements."))
        if cpu and math.prod(grid) > _MOST_GROUPS:
            raise ValueError(explain(
                f"ffi_call: the grid of {name!r} must have at most {_MOST_GROUPS} groups on a CPU, "
                f"got {grid}.", where=where, fix="let each group do more."))
    if cpu and (kernel.block is not None or kernel.shared_memory):
        raise ValueError(explain(
            f"ffi_call: the kernel of {name!r} for CPUs has a block or shared_memory, which are "
            "CUDA's.", where=where, fix="leave them out, or register it with platform='cuda'."))
    scalars = list(kernel.scalars(ins, outs, **attributes)) if kernel.scalars else []
    shared = kernel.shared_memory
    if callable(shared):
        shared = shared(ins, outs, **attributes)
    if isinstance(shared, bool) or not hasattr(shared, "__index__") or int(shared) < 0:
        raise ValueError(explain(
            f"ffi_call: shared_memory of {name!r} must give a number of bytes, got {shared!r}.",
            where=where, fix="return an int from 0 on."))
    return Call(
        kernel, name, where, tuple(np.dtype(a.dtype) for a in ins),
        tuple(math.prod(a.shape) for a in ins),
        (*[(tuple(a.shape), np.dtype(a.dtype)) for a in outs], *work), len(outs),
        tuple(_scalar(name, where, s) for s in scalars), grid, int(shared), aliases)


def _spec(name: str, where: str, shape: Any, dtype: Any) -> Spec:
    made: tuple[Any, ...] = tuple(n if isinstance(n, Dim) else int(n) for n in shape)
    if any(n < 0 for n in made if not isinstance(n, Dim)):
        raise ValueError(explain(f"ffi_call: work space of {name!r} has the shape {made}.",
                                 where=where, fix="return sizes of 0 and more."))
    return made, np.dtype(dtype)


def _scalar(name: str, where: str, value: Any) -> int | float | Dim:
    if isinstance(value, Dim):  # a size that is known at the call only
        return value
    if isinstance(value, (float, np.floating)):
        return float(value)
    if isinstance(value, (bool, int, np.integer, np.bool_)):
        if int(value) in INT64:
            return int(value)
        raise OverflowError(explain(f"ffi_call: scalar {value} of {name!r} does not fit in int64.",
                                    where=where, fix="pass it in two parts."))
    raise TypeError(explain(f"ffi_call: scalar {value!r} of {name!r} is no number.", where=where,
                            fix="let scalars return int, bool and float only."))


def folder() -> Path:
    """Where compiled kernels lie: ours to write, and nobody else's."""
    above = own_directory(cache_directory())
    place = None if above is None else own_directory(above / "ffi")
    return place if place is not None and os.access(place, os.W_OK) else _instead()


@functools.cache
def _instead() -> Path:
    """Where they lie as long as this process lives."""
    return temporary()


def kept(name: str, code: bytes) -> Path:
    """A file of the folder with these bytes."""
    path = folder() / name
    if not is_own_file(path):
        with passing(path.parent) as at:
            part = at / name
            part.touch(0o600)
            part.write_bytes(code)
            part.replace(path)
    return path
