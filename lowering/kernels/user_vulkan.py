"""Shaders of the user's own: GLSL compiled by glslang, or SPIR-V, checked against call and target.

Start reading at `vulkan_code`.
"""
from __future__ import annotations

import hashlib
import math
import shutil
import struct
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from calque.lowering.compiler.folders import is_own_file, passing
from calque.lowering.kernels import spirv
from calque.lowering.kernels.user import Call, Code, folder, kept
from calque.lowering.target.targets import Target

GLSLANG = "glslangValidator"
# SPIR-V 1.3 is what every device takes that IREE runs on
_COMMAND = (GLSLANG, "-V", "--target-env", "vulkan1.1", "-S", "comp")
_MOST_WORDS = 32  # 128 bytes of push constants: what Vulkan promises of every device
_PACKED = ("float32", "float64", "int32", "uint32", "int64", "uint64")  # never read as another type
_FORMATS = {"int32": "i", "uint32": "I", "float32": "f", "int64": "q", "uint64": "Q",
            "float64": "d"}


def vulkan_code(call: Call, target: Target) -> Code:
    """The module of a kernel for a target."""
    source, entry, name = call.kernel.source, call.kernel.entry, call.name
    if not isinstance(source, (str, bytes)):
        raise call.error(f"the kernel of {name!r} for Vulkan is a dict of objects.",
                         "pass GLSL, or the bytes of a SPIR-V module.", TypeError)
    if call.kernel.block is not None or call.shared:
        raise call.error(
            f"the kernel of {name!r} for Vulkan has a block or shared_memory, which a shader says "
            "itself.", "leave them out: layout(local_size_x = ...) in, and shared arrays.")
    if isinstance(source, str) and entry != "main":
        raise call.error(f"the entry of {name!r} is {entry!r}, and GLSL's is main.",
                         'pass entry="main".')
    code = _compiled(call, source) if isinstance(source, str) else source
    try:
        module = spirv.read(code, entry)
    except (spirv.NotReadable, RecursionError) as error:
        raise call.error(f"the SPIR-V of {name!r} {error}.",
                         "compile it again, and name one of its compute shaders.") from None
    needs = _fits(call, target, module)
    _check_buffers(call, module.buffers, isinstance(source, str))
    words = _words(call, module.constants)
    path = kept(f"{hashlib.sha256(code).hexdigest()[:24]}.spv", code)
    if isinstance(source, bytes):
        _validate(call, path, module.version)
    return Code(path, entry, words, needs=frozenset(needs))


def _validate(call: Call, path: Path, version: tuple[int, int]) -> None:
    """Refuse a module that is not valid, where SPIR-V's validator is here: drivers crash on it."""
    if shutil.which("spirv-val") is None:
        return
    place = ("vulkan1.1" if version < (1, 4) else "vulkan1.1spv1.4" if version < (1, 5)
             else "vulkan1.2" if version < (1, 6) else "vulkan1.3")
    done = subprocess.run(["spirv-val", "--target-env", place, str(path)], capture_output=True,
                          text=True, check=False, errors="replace")
    if done.returncode:
        said = (done.stdout + done.stderr).strip()[:2000]
        raise call.error(f"the SPIR-V of {call.name!r} is not valid:\n{said}",
                         "compile it again; whatever wrote it has a fault.")


def _compiled(call: Call, source: str) -> bytes:
    """SPIR-V of GLSL."""
    digest = hashlib.sha256("\0".join([*_COMMAND, source]).encode()).hexdigest()[:24]
    path = folder() / f"{digest}.glsl.spv"
    if is_own_file(path):
        return path.read_bytes()
    if shutil.which(GLSLANG) is None:
        raise call.error(f"{call.name!r} is a kernel in GLSL, and no {GLSLANG} is here.",
                         "install it (Debian: apt-get install glslang-tools), or pass SPIR-V.",
                         RuntimeError)
    with passing(path.parent) as place:
        text, made = Path(place, "kernel.comp"), Path(place, "kernel.spv")
        text.write_text(source, "utf-8")
        done = subprocess.run([*_COMMAND, str(text), "-o", str(made)], capture_output=True,
                              text=True, check=False, errors="replace")
        if done.returncode or not made.exists():
            said = (done.stdout + done.stderr).replace(str(text), "kernel.comp").strip()[:4000]
            raise call.error(f"the GLSL of {call.name!r} does not compile:\n{said}",
                             "mend the source; it begins with #version 450.")
        code = made.read_bytes()
    return kept(path.name, code).read_bytes()


def _fits(call: Call, target: Target, module: spirv.Module) -> list[str]:
    """Refuse what the target's devices lack; what else the module needs of a device, in words."""
    words = target.uses()
    numbers = dict(w.split("=", 1) for w in words if "=" in w)
    newest = tuple(int(n) for n in numbers.get("spirv", "1.6").split("."))
    what = f"the SPIR-V of {call.name!r}"
    if module.version > newest:
        raise call.error(
            f"{what} is of version {_dotted(module.version)}, and {target.name} takes "
            f"{_dotted(newest)}.", "compile it for an older version (--target-env spirv1.3).")
    needs = []
    for number in module.capabilities:
        name, word = spirv.CAPABILITIES.get(number, (f"number {number}", ""))
        if word == "" or word in ("fp64", "fp16", "int64", "int16", "int8", "b16", "b8"
                                  ) and word not in words:
            raise call.error(f"{what} needs the capability {name}, which {target.name} has not.",
                             "write the kernel without it, or compile for a device that has it.")
        needs += [word] if word and word not in words else []
    most = [int(n) for n in numbers.get("sizes", "").split(",") if n] or [128, 128, 64]
    threads, memory = int(numbers.get("threads", 128)), int(numbers.get("memory", 16384))
    if any(n > m for n, m in zip(module.block, most)) or math.prod(module.block) > threads:
        raise call.error(
            f"{what} has workgroups of {_times(module.block)} threads; {target.name} allows "
            f"{_times(most)}, {threads} in all.", "make local_size smaller.")
    if module.memory > memory:
        raise call.error(
            f"{what} has {module.memory} bytes of shared memory; {target.name} allows {memory}.",
            "make its shared arrays smaller.")
    counts = [int(n) for n in numbers.get("counts", "").split(",") if n] or [65535] * 3
    if any(n > m for n, m in zip(call.grid, counts)):
        raise call.error(f"the grid of {call.name!r} is {_times(call.grid)} workgroups; "
                         f"{target.name} allows {_times(counts)}.",
                         "spread it over more axes, or let each workgroup do more.")
    return needs


def _check_buffers(call: Call, buffers: Sequence[spirv.Buffer], ours: bool) -> None:
    """Refuse bindings that are not the arguments, results and work space."""
    n, new = len(call.ins), call.new
    dtypes = [*call.ins, *[d for _, d in new]]
    written = [*call.aliases, *range(n, n + call.results - len(call.aliases))]
    there = {b.binding: b for b in buffers}
    what = f"the SPIR-V of {call.name!r}"
    for b in buffers:
        if b.group or b.binding >= len(dtypes):
            raise call.error(
                f"{what} has binding {b.binding} of set {b.group}; the call has {len(dtypes)} "
                f"arrays ({n} arguments, {call.results - len(call.aliases)} results"
                f"{', work space' * (len(call.specs) > call.results)}).",
                "number the buffers from 0 in set 0, arguments first.")
    for i in written:
        kind = f"result {i - n}" if i >= n else f"argument {i}, which is written"
        if i not in there:
            raise call.error(
                f"{what} has no binding {i}, which is {kind}; it has "
                f"{', '.join(str(b) for b in sorted(there)) or 'none'}.",
                f"number the buffers from 0: {n} arguments, then the results that are no "
                "argument's memory.")
        if there[i].readonly:
            raise call.error(f"{what} declares binding {i}, which is {kind}, readonly.",
                             "leave out readonly there.")
    for i, b in there.items():
        if ours and i < n and i not in call.aliases and not b.readonly:
            raise call.error(f"the GLSL of {call.name!r} may write binding {i}, an argument.",
                             f"declare it: layout(set = 0, binding = {i}) readonly buffer.")
        wanted = dtypes[i].name
        wanted = {"complex64": "float32", "complex128": "float64"}.get(wanted, wanted)
        if b.element in _PACKED and wanted in _PACKED and b.element != wanted:
            kind = f"argument {i}" if i < n else f"result or work space {i - n}"
            raise call.error(f"{what} has numbers of {b.element} in binding {i}, {kind} has "
                             f"{dtypes[i].name}.", "let both have one type.", TypeError)


def _words(call: Call, members: Sequence[spirv.Member]) -> tuple[int, ...]:
    """The push constants that the scalars are."""
    if len(members) != len(call.scalars):
        raise call.error(
            f"the SPIR-V of {call.name!r} has {len(members)} push constants, and scalars gives "
            f"{len(call.scalars)} numbers.", "give one number for each member.")
    size = max((m.offset + struct.calcsize(_FORMATS[m.kind]) for m in members), default=0)
    if size > 4 * _MOST_WORDS:
        raise call.error(f"the SPIR-V of {call.name!r} has {size} bytes of push constants.",
                         f"Vulkan promises {4 * _MOST_WORDS} bytes; pass an array.")
    block = bytearray(-size % 4 + size)
    for i, (m, value) in enumerate(zip(members, call.scalars)):
        if isinstance(value, float) != m.kind.startswith("float") and isinstance(value, float):
            raise call.error(f"scalar {i} of {call.name!r} is {value!r}, and its push constant "
                             f"{m.kind}.", "give an int, or declare it float.", TypeError)
        struct.pack_into("<" + _FORMATS[m.kind], block, m.offset, call.number(i, value, m.kind))
    return tuple(w for (w,) in _signed(block))


def _signed(block: bytes | bytearray) -> Iterator[tuple[int]]:
    return struct.iter_unpack("<i", block)


def _dotted(numbers: Sequence[int]) -> str:
    return ".".join(map(str, numbers))


def _times(numbers: Sequence[int]) -> str:
    return " x ".join(map(str, numbers))
