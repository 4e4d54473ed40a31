"""Kernels of the user's own on the CPU: C compiled here and linked into the program by IREE.

Behind the source stands a function of ours that calls the user's with typed pointers: the C
compiler so checks the number and the types of the arguments.  Every other symbol becomes local,
since IREE links the objects of a program together.  Objects lie in the cache's folder, named by
all that decides them.  Start reading at `call_kernel`.
"""
from __future__ import annotations

import functools
import hashlib
import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from calque.core.errors import explain
from calque.core.kernel import Kernel
from calque.lowering.builder import Value
from calque.lowering.context import Context
from calque.lowering.folders import cache_directory
from calque.lowering.kernels.dispatch import Dtype, Spec
from calque.lowering.kernels.native import call_object, level_of
from calque.lowering.targets import Target

_NATIVE = Path(__file__).resolve().parent.parent / "native"
_TYPES = {"bool": "_Bool", "float32": "float", "float64": "double",
          "complex64": "float _Complex", "complex128": "double _Complex",
          **{f"{sign}int{bits}": f"__{sign.upper()}INT{bits}_TYPE__"
             for sign in ("", "u") for bits in (8, 16, 32, 64)}}
_MOST_GROUPS = 1 << 16


def call_kernel(ctx: Context, kernel: Kernel, name: str, where: str, operands: Sequence[Value],
                ins: Sequence[Any], outs: Sequence[Any], attributes: Mapping[str, Any],
                aliases: Mapping[int, int]) -> list[Value]:
    """The results of a kernel; of an empty one, memory of one element.

    Args:
      name: what it was registered as; where: the user's line.
      operands: bool as int8, an empty one as one element; ins, outs: their types, and results'.
      aliases: result of an operand: the kernel finds the operand's values in the result's memory.
    """
    assert ctx.target is not None
    work = [_spec(name, where, *s) for s in kernel.work(ins, outs, **attributes)
            ] if kernel.work else []
    groups = 1
    if kernel.grid is not None:
        groups = kernel.grid(ins, outs, **attributes)
        if not isinstance(groups, int) or not 1 <= groups <= _MOST_GROUPS:
            raise ValueError(explain(
                f"ffi_call: the grid of {name!r} must be an int from 1 to {_MOST_GROUPS}, got "
                f"{groups!r}.", where=where, fix="let each group do more, and none do nothing."))
    scalars = list(kernel.scalars(ins, outs, **attributes)) if kernel.scalars else []
    floats = [isinstance(s, (float, np.floating)) for s in scalars]
    specs = [*[(tuple(a.shape), np.dtype(a.dtype)) for a in outs], *work]
    shim = _shim(kernel, name, where, [np.dtype(a.dtype) for a in ins], [d for _, d in specs],
                 floats, aliases)
    path, entry = compiled(kernel, name, where, shim, ctx.target)
    numbers = [_bits(name, where, s) for s in scalars]
    numbers += [int(np.prod(ins[i].shape)) for i in aliases]
    memory = [(s if 0 not in s else (1,), np.dtype("int8") if d.kind == "b" else d)
              for s, d in specs]
    return call_object(ctx, path, entry, operands, memory, numbers, groups)[:len(outs)]


def _spec(name: str, where: str, shape: Any, dtype: Any) -> Spec:
    made = tuple(int(n) for n in shape)
    if any(n < 0 for n in made):
        raise ValueError(explain(f"ffi_call: work space of {name!r} has the shape {made}.",
                                 where=where, fix="return sizes of 0 and more."))
    return made, np.dtype(dtype)


def _bits(name: str, where: str, value: Any) -> int:
    """A scalar as 64 bits."""
    if isinstance(value, (float, np.floating)):
        return int(struct.unpack("<q", struct.pack("<d", float(value)))[0])
    if isinstance(value, (bool, int, np.integer, np.bool_)):
        if -(1 << 63) <= int(value) < 1 << 63:
            return int(value)
        raise OverflowError(explain(f"ffi_call: scalar {value} of {name!r} does not fit in int64.",
                                    where=where, fix="pass it in two parts."))
    raise TypeError(explain(f"ffi_call: scalar {value!r} of {name!r} is no number.", where=where,
                            fix="let scalars return int, bool and float only."))


def _type(name: str, where: str, dtype: Dtype) -> str:
    if dtype.name not in _TYPES:
        raise TypeError(explain(f"ffi_call: {name!r} cannot take arrays of {dtype.name}.",
                                where=where, fix="view or convert them, for example to float32."))
    return _TYPES[dtype.name]


def _shim(kernel: Kernel, name: str, where: str, ins: Sequence[Dtype], outs: Sequence[Dtype],
          floats: Sequence[bool], aliases: Mapping[int, int]) -> str:
    """The C function that the program calls, @ standing for its name."""
    types = [_type(name, where, d) for d in (*ins, *outs)]
    n, integer = len(ins), "__INT64_TYPE__"
    parameters = [p for i, t in enumerate(types) for p in (f"{t} *p{i}", f"{integer} o{i}")]
    parameters += [f"{integer} s{i}" for i in range(len(floats))]
    parameters += [f"{integer} n{i}" for i in aliases]
    parameters += [f"{integer} group", f"{integer} groups"]
    lines = [f"  for ({integer} k = 0; k < n{i}; ++k) "
             f"p{n + j}[o{n + j} + k] = p{i}[o{i} + k];" for i, j in aliases.items()]
    given = [f"p{n + aliases[i]} + o{n + aliases[i]}" if i in aliases
             else f"(const {t} *)(p{i} + o{i})" if i < n else f"p{i} + o{i}"
             for i, t in enumerate(types)]
    given += [f"((union {{ {integer} i; double d; }}){{ s{i} }}).d" if f else f"s{i}"
              for i, f in enumerate(floats)]
    if kernel.grid is not None:
        given += ["group", "groups"]
    errors = "\n".join(f'#pragma GCC diagnostic error "-W{w}"' for w in (
        "incompatible-pointer-types", "int-conversion", "discarded-qualifiers"))
    body = "\n".join([*lines, f"  {kernel.entry}({', '.join(given)});"])
    return f"{errors}\nvoid @({', '.join(parameters)}) {{\n{body}\n}}\n"


def compiled(kernel: Kernel, name: str, where: str, shim: str, target: Target) -> tuple[Path, str]:
    """(the object of a kernel for a target, the function in it)."""
    command = [*_compiler(name, where, target), *_flags(), *_level(target), "-xc",
               "-Werror=implicit-function-declaration"]
    words = "\0".join([_version(tuple(command)), *command, kernel.source, shim])
    digest = hashlib.sha256(words.encode()).hexdigest()[:24]
    entry = f"calque_ffi_{kernel.entry}_{digest}"
    folder = _folder()
    path = folder / f"{digest}.o"
    if path.exists():
        return path, entry
    text = (f'#line 1 "{kernel.entry}.c"\n{kernel.source}\n#line 1 "how calque calls it"\n'
            + shim.replace("@", entry))
    with tempfile.TemporaryDirectory(dir=folder) as place:
        made = Path(place, "kernel.o")
        _run(name, where, [*command, "-c", "-", "-o", str(made)], text, "does not compile")
        missing = _run(name, where, [_tool("nm", target), "-u", str(made)], "", "cannot be read")
        symbols = [line.split()[-1] for line in missing.splitlines()
                   if line.strip() and line.split()[-1] != "_GLOBAL_OFFSET_TABLE_"]
        if symbols:
            raise ValueError(explain(
                f"ffi_call: the C kernel of {name!r} needs {', '.join(symbols)}, which nothing in "
                "it defines.", where=where, fix="define it in the source; no libc or libm is there "
                "(write loops for memcpy, __builtin_sqrt for sqrt, polynomials for exp)."))
        _run(name, where, [_tool("objcopy", target), f"--keep-global-symbol={entry}", str(made)],
             "", "cannot be finished")
        made.replace(path)
    return path, entry


def _run(name: str, where: str, command: Sequence[str], text: str, what: str) -> str:
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    except OSError as error:
        raise RuntimeError(explain(
            f"ffi_call: the C kernel of {name!r} {what}: {command[0]}: {error.strerror}.",
            where=where, fix="install gcc and binutils, or name a compiler in CC.")) from error
    if done.returncode:
        said = done.stderr.strip()[:4000]
        raise ValueError(explain(
            f"ffi_call: the C kernel of {name!r} {what}:\n{said}", where=where,
            fix="mend the source; its function takes a pointer for each argument (const) and each "
                "result, work space, then the scalars, then group and groups where it has a grid."))
    return done.stdout


@functools.cache
def _version(command: tuple[str, ...]) -> str:
    done = subprocess.run([command[0], "--version"], capture_output=True, text=True, check=False)
    return done.stdout


def _compiler(name: str, where: str, target: Target) -> list[str]:
    host = {"AMD64": "x86_64", "arm64": "aarch64"}.get(os.uname().machine, os.uname().machine)
    choices = ([os.environ["CC"]] if os.environ.get("CC") else ["cc", "gcc", "clang"])
    if target.arch != host:
        choices = [f"{target.arch}-linux-gnu-gcc"]
    for choice in choices:
        if shutil.which(choice):
            return [choice]
    raise RuntimeError(explain(
        f"ffi_call: no C compiler for {target.arch} is here, and {name!r} is a kernel in C.",
        where=where, fix=f"install one ({choices[0]})."))


def _tool(tool: str, target: Target) -> str:
    cross = f"{target.arch}-linux-gnu-{tool}"
    return cross if shutil.which(cross) else tool


@functools.cache
def _flags() -> tuple[str, ...]:
    return tuple((_NATIVE / "FLAGS").read_text("utf-8").split())


def _level(target: Target) -> list[str]:
    for line in (_NATIVE / "LEVELS").read_text("utf-8").splitlines():
        level, _, *more = line.split()
        if level == level_of(target):
            return more
    return ["-march=x86-64"]


def _folder() -> Path:
    folder = cache_directory() / "ffi"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except OSError:
        pass
    folder = Path(tempfile.gettempdir(), f"calque-ffi-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():  # someone else's: what lies there is not ours to run
        return Path(tempfile.mkdtemp(prefix="calque-ffi-"))
    return folder
