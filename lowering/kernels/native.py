"""Calls of the C kernels (lowering/native): one dispatch that IREE links an object into.

An object is found by the target's level (`level_of`) and exists where a C compiler was there when
the package was built; `available` tells, and other forms are taken where not (forms.py).
The name of an executable holds the object's digest, so that the compile cache knows its version.
Start reading at `emit_native`.
"""
from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from calque.core.dims import Dim
from calque.core.types import Dtype, Ndarray
from calque.lowering.emit.builder import Value
from calque.lowering.emit.context import Context
from calque.lowering.kernels.dispatch import Spec, dispatch, insert
from calque.lowering.target.targets import Target

OBJECTS = Path(__file__).resolve().parent.parent / "native" / "objects"
NATIVE_DTYPES = {"float32": "f32", "float64": "f64", "complex64": "c64", "complex128": "c128"}
WORDS = 48  # push constants of a call: IREE's CPU devices take 64
LIMIT = 1 << 31
_V3 = frozenset(("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"))
_V4 = frozenset(("avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"))


def level_of(target: Target | None) -> str:
    """The folder of a target's objects; '' for targets without any."""
    if target is None or target.backend != "llvm-cpu":
        return ""
    if target.arch == "aarch64":
        return "aarch64"
    return _level_of(target.features)


@functools.cache
def _level_of(names: tuple[str, ...]) -> str:
    features = frozenset(names)
    if not features >= _V3:
        # the baseline without SSE4 has no objects; LLVM's CPU models name what they have
        return "x86-64-v2" if "sse4.2" in features else ""
    return "x86-64-v4" if features >= _V4 else "x86-64-v3"


def object_of(target: Target | None, source: str) -> Path | None:
    """The object of lowering/native/<source>.c for a target, where it was built."""
    level = level_of(target)
    return _object(OBJECTS, level, source) if level else None


@functools.cache
def _object(folder: Path, level: str, source: str) -> Path | None:
    path = folder / level / f"{source}.o"
    return path if path.exists() else None


def available(target: Target | None, source: str, dtype: Dtype) -> bool:
    """Whether the kernels of a source can be called for a target and dtype."""
    return dtype.name in NATIVE_DTYPES and object_of(target, source) is not None


def digest_of(path: Path) -> str:
    """Of an object's content."""
    return _digest(path, path.stat().st_mtime_ns)


@functools.cache
def _digest(path: Path, changed: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


def linked(ctx: Context, path: Path) -> str:
    """The attribute of an executable whose code calls what an object has."""
    assert ctx.target is not None
    arch = ctx.target.arch
    elf = {"aarch64": "arm_64"}.get(arch, arch)  # IREE's word
    return f"""attributes {{hal.executable.objects = #hal.executable.objects<{{
    #hal.executable.target<"llvm-cpu", "embedded-elf-{elf}", {{target_triple =
    "{arch}-unknown-unknown-eabi-elf"}}> = [#hal.executable.object<{{path = "{path.as_posix()}"}}>]
    }}>}} """


def emit_native(ctx: Context, source: str, entry: str, operands: Sequence[Value],
                results: Sequence[Spec], scalars: Sequence[Any], groups: int = 1,
                batch: Any = None, tables: Sequence[Ndarray] = ()) -> list[Value]:
    """Call `void entry(operand, offset, ..., table, offset, ..., result, offset, ..., scalar, ...,
    group, groups)`.

    Args:
      source: the C file's stem.
      operands: read only.
      results: shape and dtype of each; work space is a result too.
      scalars: passed as int64.
      groups: workgroups the call is spread over.
      batch: at most so many of them, where that is known at the call only; one of the scalars.
      tables: constants, which lie beside the kernel's code.
    """
    path = object_of(ctx.target, source)
    assert path is not None and ctx.target is not None, source
    return call_object(ctx, _family(source, entry), path, entry, operands, results, scalars, groups,
                       batch, tables=tables)


def _family(source: str, entry: str) -> str:
    """The family of a C kernel (plan/record.FAMILIES)."""
    if source in ("gemm", "gemm_int", "spmm"):
        return "convolution" if entry.startswith("calque_convolve") else "product"
    if source == "quantized":
        return "move" if entry.startswith("calque_dequantize") else "product"
    if source == "attention":
        return source
    if source == "transpose":
        return "move"
    return source if source in ("fft", "select") else "linalg"


def call_object(ctx: Context, family: str, path: Path, entry: str, operands: Sequence[Value],
                results: Sequence[Spec], scalars: Sequence[Any], groups: int = 1,
                batch: Any = None, into: Sequence[int] | None = None,
                tables: Sequence[Ndarray] = ()) -> list[Value]:
    """The same of any object file; `into`: for each result the operand whose memory it is, or -1
    (it is no argument of the function then)."""
    assert ctx.target is not None
    places = [-1] * len(results) if into is None else into
    specs = [*[(x.shape, x.dtype) for x in operands],
             *[s for s, i in zip(results, places) if i < 0]]
    first = scalars.index(batch) if isinstance(batch, Dim) and groups > 1 else None
    told = [i for i, n in enumerate(scalars) if not isinstance(n, Dim) and -LIMIT <= n < LIMIT]
    words = {i: k for k, i in enumerate(told[:WORDS])}
    constants = len(operands), tables
    open_sizes = [n for n in (*map(_count, specs), *scalars) if isinstance(n, Dim)]
    key = (entry, path, groups, first, len(operands), *[t.tobytes() for t in tables],
           *[_memory(d) for _, d in specs],
           *[isinstance(n, Dim) for n in map(_count, specs) if open_sizes],
           *["at the call" if isinstance(n, Dim) else ("word", words[i]) if i in words else int(n)
             for i, n in enumerate(scalars)])
    if key not in ctx.sources:
        ctx.kernels += 1
        name = ctx.sources[key] = f"{entry}_{ctx.kernels}_{digest_of(path)}"
        insert(ctx.module, _executable(name, entry, path, ctx.target.arch, specs, scalars, groups,
                                       first, words, constants))
    return dispatch(ctx, family, ctx.sources[key], ctx.entering(operands), results,
                    sizes=open_sizes, into=-1 if into is None else into, groups=groups,
                    numbers=[int(scalars[i]) for i in words])


def _count(spec: Spec) -> Any:
    """How many numbers a binding has; of an empty one IREE makes one."""
    shape, dtype = spec
    size = math.prod(shape)
    return (size if isinstance(size, Dim) else max(1, size)) * _memory(dtype)[1]


def _executable(name: str, entry: str, path: Path, arch: str, specs: Sequence[Spec],
                scalars: Sequence[Any], groups: int, batch: int | None,
                words: Mapping[int, int], constants: tuple[int, Sequence[Ndarray]]) -> str:
    """`words`: which scalars are push constants; one text serves calls that differ in those.
    `constants`: tables, and the binding that they come before."""
    types, lines, given = [], [], []
    before, tables = constants
    more = [f"%w{k}: i32" for k in words.values()]
    stored = []
    for i, table in enumerate(tables):
        kind = f"memref<{table.size}x{_memory(table.dtype)[0]}>"
        stored.append(f'memref.global "private" constant @{name}_table{i} : {kind} = '
                      f'dense<"0x{table.tobytes().hex()}">')
        lines.append(f"%table{i} = memref.get_global @{name}_table{i} : {kind}\n"
                     f"%q{i}, %u{i}, %v{i}, %x{i} = iree_codegen.extract_strided_metadata "
                     f"%table{i} : {kind} -> memref<{kind[kind.index('x') + 1:]}, index, index, "
                     "index")
    for i, spec in enumerate([*specs, None]):
        if i == before:
            for k, table in enumerate(tables):
                types += [f"memref<{_memory(table.dtype)[0]}>", "index"]
                given += [f"%q{k}", "%c0"]
        if spec is None:
            break
        real, parts = _memory(spec[1])
        # (what C reads and writes of a binding, the code around it need not know)
        size, known = _count(spec), ""
        if not isinstance(size, Dim):
            size = 1
        else:  # an argument of the kernel's
            more.append(f"%z{i}: index")
            size, known = "?", f"{{%z{i}}}"
        lines.append(
            f"%m{i} = stream.binding.subspan %b{i}[%c0] : !stream.binding -> "
            f"memref<{size}x{real}>{known}"
            f"\n%p{i}, %o{i}, %s{i}, %t{i} = iree_codegen.extract_strided_metadata %m{i} : "
            f"memref<{size}x{real}> -> memref<{real}>, index, index, index\n"
            f"%at{i} = arith.divui %o{i}, %c{parts} : index")
        types += [f"memref<{real}>", "index"]
        given += [f"%p{i}", f"%at{i}"]
    for i, value in enumerate(scalars):
        if isinstance(value, Dim):
            more.append(f"%y{i}: index")
            lines.append(f"%n{i} = arith.index_cast %y{i} : index to i64")
        elif i in words:
            lines.append(f"%n{i} = arith.extsi %w{words[i]} : i32 to i64")
        else:
            lines.append(f"%n{i} = arith.constant {int(value)} : i64")
    types += ["i64"] * len(scalars) + ["index", "index"]
    given += [f"%n{i}" for i in range(len(scalars))] + ["%group", "%groups"]
    call = f"func.call @{entry}({', '.join(given)}) : ({', '.join(types)}) -> ()"
    if batch is not None:  # a group has work space only where it has work
        lines.append(f"%most = arith.minsi %groups, %y{batch} : index\n"
                     "%works = arith.cmpi slt, %group, %most : index")
        call = f"scf.if %works {{ {call.replace('%groups', '%most')} }}"
    arguments = ", ".join([*[f"%b{i}: !stream.binding" for i in range(len(specs))], *more])
    elf = {"aarch64": "arm_64"}.get(arch, arch)  # IREE's word
    triple = f"{arch}-unknown-unknown-eabi-elf"
    body, held = "\n      ".join(lines), "\n    ".join(stored)
    return f"""
stream.executable private @{name} attributes {{hal.executable.objects = #hal.executable.objects<{{
    #hal.executable.target<"llvm-cpu", "embedded-elf-{elf}", {{target_triple = "{triple}"}}> = [
    #hal.executable.object<{{path = "{path.as_posix()}"}}>]}}>}} {{
  stream.executable.export public @{name} workgroups() -> (index, index, index) {{
    %g = arith.constant {groups} : index
    %one = arith.constant 1 : index
    stream.return %g, %one, %one : index, index, index
  }}
  builtin.module {{
    {held}
    func.func private @{entry}({", ".join(types)})
        attributes {{hal.import.static, llvm.bareptr = true}}
    func.func @{name}({arguments}) {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %groups = arith.constant {groups} : index
      %group = stream.dispatch.workgroup.id[0] : index
      {body}
      {call}
      return
    }}
  }}
}}"""


@functools.cache
def _memory(dtype: Dtype) -> tuple[str, int]:
    """The MLIR type of what a dtype is made of, and how many of it."""
    if dtype.kind == "c":
        return f"f{dtype.itemsize * 4}", 2
    real = dtype.kind == "f" and dtype.itemsize > 1  # (floats of 8 bits go by their bits)
    return (f"f{dtype.itemsize * 8}" if real else f"i{dtype.itemsize * 8}"), 1
