"""Kernels of the user's own on the CPU: C compiled here and linked into the program by IREE.

Behind the source stands a function of ours that calls the user's with typed pointers: the C
compiler so checks the number and the types of the arguments (halves and 8-bit floats, for which C
has no type everywhere, by any pointer).  Every other symbol becomes local, since IREE links the
objects of a program together.  Objects lie in the cache's folder, named by all that decides them.
Start reading at `call_c`.
"""
from __future__ import annotations

import functools
import hashlib
import math
import shutil
import struct
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from calque.core.dims import Dim
from calque.lowering.compiler.folders import is_own_file, passing
from calque.lowering.emit.builder import Value
from calque.lowering.emit.context import Context
from calque.lowering.kernels.native import call_object, level_of
from calque.lowering.kernels.user import Call, folder
from calque.lowering.native import elf
from calque.lowering.native.toolchain import choices_for, compiler_for, flags_for
from calque.lowering.target.targets import Target

_NATIVE = Path(__file__).resolve().parent.parent / "native"
LEVELS = ("x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4")  # each runs what those before it are for
# halves and floats of 8 bits are void: C has no type for them everywhere
_TYPES = {"bool": "_Bool", "float32": "float", "float64": "double",
          "complex64": "float _Complex", "complex128": "double _Complex",
          **{f"{sign}int{bits}": f"__{sign.upper()}INT{bits}_TYPE__"
             for sign in ("", "u") for bits in (8, 16, 32, 64)}}


def call_c(ctx: Context, call: Call, operands: Sequence[Value]) -> list[Value]:
    """The results of a kernel in C, and its work space.

    Args:
      operands: bool as int8, an empty one as one element; the aliased ones to be written into; one
        more that the kernel does not see.
    """
    assert ctx.target is not None
    path, entry = compiled(call, ctx.target, _shim(call, len(operands) > len(call.ins)))
    return call_object(ctx, "user", path, entry, operands, call.memory,
                       [_bits(s) for s in call.scalars], math.prod(call.grid),
                       into=call.into if call.aliases else None)


def _bits(value: int | float | Dim) -> Any:
    """A scalar as 64 bits, or a size that is known at the call only."""
    if isinstance(value, float):
        return int(struct.unpack("<q", struct.pack("<d", value))[0])
    return value


def _shim(call: Call, more: bool) -> str:
    """The C function that the program calls, @ standing for its name."""
    dtypes = [*call.ins, *[d for _, d in call.specs]]
    types = [_TYPES.get(d.name, "void") for d in dtypes]
    n, integer = len(call.ins), "__INT64_TYPE__"
    # a result in an argument's memory is no parameter of its own
    mine = [i if i < n or call.into[i - n] < 0 else call.into[i - n] for i in range(len(types))]
    parameters = [p for i, t in enumerate(types[:n]) for p in (f"{t} *p{i}", f"{integer} o{i}")]
    parameters += ["void *more", f"{integer} none"] * more
    parameters += [p for i, t in enumerate(types[n:], n) if mine[i] == i
                   for p in (f"{t} *p{i}", f"{integer} o{i}")]
    parameters += [f"{integer} s{i}" for i in range(len(call.scalars))]
    parameters += [f"{integer} group", f"{integer} groups"]

    def at(i: int) -> str:  # (of void there is no arithmetic)
        return (f"(void *)((char *)p{i} + {dtypes[i].itemsize} * o{i})" if types[i] == "void"
                else f"p{i} + o{i}")

    given = [f"(const {t} *)({at(i)})" if i < n and i not in call.aliases else at(mine[i])
             for i, t in enumerate(types)]
    given += [f"((union {{ {integer} i; double d; }}){{ s{i} }}).d" if isinstance(s, float)
              else f"s{i}" for i, s in enumerate(call.scalars)]
    stride = 1
    for count in call.grid:  # the first axis runs fastest
        given += [f"group / {stride} % {count}", f"({integer}){count}"]
        stride *= count
    errors = "\n".join((
        "#ifdef __clang__",
        '#pragma clang diagnostic error "-Wincompatible-pointer-types-discards-qualifiers"',
        "#else", '#pragma GCC diagnostic error "-Wdiscarded-qualifiers"', "#endif",
        '#pragma GCC diagnostic error "-Wincompatible-pointer-types"',
        '#pragma GCC diagnostic error "-Wint-conversion"'))
    return (f"{errors}\nvoid @({', '.join(parameters)}) {{\n"
            f"  {call.kernel.entry}({', '.join(given)});\n}}\n")


def linked(call: Call, target: Target, around: Callable[[str, Sequence[int]], str]) -> Path:
    """A program of a kernel's object and C around it: around(function in the object, scalars)."""
    path, entry = compiled(call, target, _shim(call, False))
    text = around(entry, [_bits(s) for s in call.scalars])
    made = path.with_name(f"{hashlib.sha256((path.name + text).encode()).hexdigest()[:24]}.guard")
    if not is_own_file(made):
        with passing(path.parent) as at:
            program = Path(at, "program")
            _run(call, [*_compiler(call, target), "-O1", "-xc", "-", "-xnone", str(path), "-o",
                        str(program)], text, "cannot be linked into a program of its own", _MEND)
            program.chmod(0o700)
            program.replace(made)
    return made


def compiled(call: Call, target: Target, shim: str) -> tuple[Path, str]:
    """(the object of a kernel for a target, the function in it)."""
    kernel = call.kernel
    compiler = _compiler(call, target)
    command = [*compiler, *flags_for(compiler, _level(target)), "-xc",
               "-Werror=implicit-function-declaration"]
    code = kernel.source if isinstance(kernel.source, str) else _object(call, target)
    words = "\0".join([_version(tuple(compiler)), *command, str(len(shim)), shim])
    raw = code.encode() if isinstance(code, str) else code
    digest = hashlib.sha256(words.encode() + b"\0" + raw).hexdigest()[:24]
    entry = f"calque_ffi_{kernel.entry}_{digest}"
    place = folder()
    path = place / f"{digest}.o"
    if is_own_file(path):
        return path, entry
    with passing(place) as at:
        made = Path(at, "kernel.o")
        if isinstance(code, str):
            text = (f'#line 1 "{kernel.entry}.c"\n{code}\n#line 1 "how calque calls it"\n'
                    + shim.replace("@", entry))
            _run(call, [*command, "-c", "-", "-o", str(made)], text, "does not compile", _MEND)
        else:
            _joined(call, target, command, code, shim.replace("@", entry), made)
        lacking = elf.missing(made.read_bytes())
        if lacking:
            raise call.error(
                f"the C kernel of {call.name!r} needs {', '.join(lacking)}, which nothing in it "
                "defines.", "define it in the source; no libc or libm is there (write loops for "
                "memcpy, __builtin_sqrt for sqrt, polynomials for exp).")
        _run(call, [_tool("objcopy", target), f"--keep-global-symbol={entry}", str(made)], "",
             "cannot be finished", _MEND)
        made.chmod(0o600)
        made.replace(path)
    return path, entry


def _object(call: Call, target: Target) -> bytes:
    """The bytes of a kernel's object for a target: of its level, or the best below it."""
    given = call.kernel.source
    if isinstance(given, bytes):
        return given
    assert isinstance(given, tuple)
    objects, level = dict(given), level_of(target) or "x86-64"
    unknown = sorted(set(objects) - set(LEVELS) - {"aarch64"})
    if unknown:
        raise call.error(f"objects of {call.name!r} are given for {', '.join(unknown)}.",
                         f"name levels: {', '.join((*LEVELS, 'aarch64'))}.")
    fits = LEVELS[LEVELS.index(level)::-1] if level in LEVELS else (level,)
    found = [name for name in fits if name in objects]
    if not found:
        raise call.error(
            f"{call.name!r} has no object for {level} ({target.name}); it has: "
            f"{', '.join(objects)}.", "give one for this level or a lower one, or C source.")
    return objects[found[0]]


def _joined(call: Call, target: Target, command: Sequence[str], code: bytes, shim: str, made: Path
            ) -> None:
    """The user's object with our function behind it, as one object."""
    said = elf.problem(code, target.arch, call.kernel.entry)
    if said:
        raise call.error(f"the object of {call.name!r} {said}.", "compile it with cc -c -fPIC "
                         f"-ffreestanding for {target.arch}, and name a function of it as entry.")
    theirs, ours = made.with_name("theirs.o"), made.with_name("ours.o")
    theirs.write_bytes(code)
    # (of the types of an object nothing is known: any pointer, and scalars as they are declared)
    n = len(call.ins)
    kinds = [f"{'const ' if i < n and i not in call.aliases else ''}{_TYPES.get(d.name, 'void')} *"
             for i, d in enumerate((*call.ins, *[d for _, d in call.specs]))]
    kinds += ["double" if isinstance(s, float) else "__INT64_TYPE__" for s in call.scalars]
    kinds += ["__INT64_TYPE__"] * (2 * len(call.grid))
    declared = f"void {call.kernel.entry}({', '.join(kinds)});\n"
    _run(call, [*command, "-c", "-", "-o", str(ours)], declared + shim, "cannot be called", _MEND)
    _run(call, [_tool("ld", target), "-r", "-o", str(made), str(ours), str(theirs)], "",
         "cannot be linked", "compile it as a plain relocatable object (cc -c).")


_MEND = ("mend the source; its function takes a pointer for each argument (const) and each result, "
         "work space, then the scalars, then group and groups of each axis where it has a grid.")


def _run(call: Call, command: Sequence[str], text: str, what: str, fix: str) -> str:
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False,
                              errors="replace")
    except OSError as error:
        raise call.error(
            f"the C kernel of {call.name!r} {what}: {command[0]}: {error.strerror}.",
            "install gcc and binutils, or name a compiler in CC.", RuntimeError) from error
    if done.returncode:
        said = done.stderr.strip()[:4000]
        raise call.error(f"the C kernel of {call.name!r} {what}:\n{said}", fix)
    return done.stdout


@functools.cache
def _version(command: tuple[str, ...]) -> str:
    done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
    return done.stdout


def _compiler(call: Call, target: Target) -> list[str]:
    """The words that start the C compiler."""
    found = compiler_for(target.arch)
    if not found:
        name = choices_for(target.arch)[0][0]
        raise call.error(
            f"no C compiler for {target.arch} is here, and {call.name!r} is a kernel in C.",
            f"install one ({name}).", RuntimeError)
    return found


def _tool(tool: str, target: Target) -> str:
    cross = f"{target.arch}-linux-gnu-{tool}"
    return cross if shutil.which(cross) else tool


def _level(target: Target) -> list[str]:
    for line in (_NATIVE / "LEVELS").read_text("utf-8").splitlines():
        level, _, *more = line.split()
        if level == level_of(target):
            return more
    return ["-march=x86-64"]
