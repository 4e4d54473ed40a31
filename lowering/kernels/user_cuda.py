"""Kernels of the user's own for CUDA: PTX, or CUDA C compiled by NVRTC, checked against the call.

IREE passes arrays as pointers, then each scalar in 32 bits.  What a kernel may have on a chip is
NVIDIA's table "Technical Specifications per Compute Capability" (CUDA C++ Programming Guide).
Start reading at `cuda_code`.
"""
from __future__ import annotations

import hashlib
import math
import re
import struct

from calque.core.types import Shape
from calque.lowering.compiler.folders import is_own_file
from calque.lowering.kernels import nvrtc, ptx
from calque.lowering.kernels.user import Call, Code, folder, kept
from calque.lowering.target.targets import Target

_SIZES, _THREADS, _GRID = (1024, 1024, 64), 1024, (2**31 - 1, 65535, 65535)
_STATIC = 48 << 10  # what is declared with a size
_SHARED = {"sm_60": 48, "sm_70": 96, "sm_75": 64, "sm_80": 163, "sm_86": 99, "sm_89": 99,
           "sm_90": 227, "sm_100": 227, "sm_120": 99}  # KiB of a block
_POINTERS = ("u64", "s64", "b64")
_KINDS = {"u32": "uint32", "s32": "int32", "b32": "bits", "f32": "float32"}
_EXTRA = "pip install 'calque[cuda]'"


def cuda_code(call: Call, target: Target) -> Code:
    """The PTX of a kernel for a target."""
    source, name, entry = call.kernel.source, call.name, call.kernel.entry
    if isinstance(source, bytes):
        source = source.decode("utf-8", "replace")
    if not isinstance(source, str):
        raise call.error(f"the kernel of {name!r} for CUDA is a dict of objects.",
                         "pass PTX, or CUDA C.", TypeError)
    text = source if ptx.is_ptx(source) else _compiled(call, source, target)
    try:
        found = ptx.read(text, entry)
    except ptx.NotReadable as error:
        raise call.error(f"the PTX of {name!r} {error}.", 'name one of its entries; in CUDA C '
                         f'declare it extern "C" __global__ void {entry}(...).') from None
    if _newer(found.sm, target.sm):
        raise call.error(f"the PTX of {name!r} is for {found.sm}, and the target is {target.sm}.",
                         f"compile it for {target.sm.replace('sm_', 'compute_')}, or the program "
                         "for that architecture.")
    block = call.kernel.block
    if block is None:
        raise call.error(f"the kernel of {name!r} for CUDA has no block.",
                         "say how many threads a block has: Kernel(..., block=256).")
    assert isinstance(block, tuple)
    sizes = (*block, 1, 1)[:3]
    _check_block(call, found, sizes, target)
    words = _words(call, found)
    code = text.encode()
    path = kept(f"{hashlib.sha256(code).hexdigest()[:24]}.ptx", code)
    version = ".".join(map(str, found.version))
    return Code(path, entry, words, sizes, call.shared, frozenset([f"ptx={version}"]))


def _compiled(call: Call, source: str, target: Target) -> str:
    """PTX of CUDA C."""
    if nvrtc.library() is None:
        raise call.error(f"{call.name!r} is a kernel in CUDA C, and NVRTC is not here.",
                         f"install it ({_EXTRA}), or pass PTX.", RuntimeError)
    words = [nvrtc.version(), *nvrtc.options(target.sm), source]
    path = folder() / f"{hashlib.sha256(chr(0).join(words).encode()).hexdigest()[:24]}.cu.ptx"
    if is_own_file(path):
        return path.read_text("utf-8")
    try:
        made = nvrtc.compiled(source, target.sm)
    except nvrtc.NotCompiled as error:
        raise call.error(f"the CUDA C of {call.name!r} does not compile:\n{str(error)[:4000]}",
                         "mend the source.") from None
    return kept(path.name, made.encode()).read_text("utf-8")


def _newer(needed: str, there: str) -> bool:
    """Whether code for one architecture does not run on another."""
    a, b = (int(re.sub(r"\D", "", sm)) for sm in (needed, there))
    return a > b or needed[-1] in "af" and needed != there


def _check_block(call: Call, found: ptx.Entry, sizes: Shape, target: Target) -> None:
    name, what = call.name, " x ".join(map(str, sizes))
    if any(n > m for n, m in zip(sizes, _SIZES)) or math.prod(sizes) > _THREADS:
        raise call.error(f"the block of {name!r} has {what} threads; {target.name} allows "
                         f"1024 x 1024 x 64, {_THREADS} in all.", "make the block smaller.")
    if found.most and (math.prod(sizes) > math.prod(found.most)
                       or found.exact and sizes != (*found.most, 1, 1)[:3]):
        raise call.error(f"the block of {name!r} has {what} threads, and its PTX says "
                         f"{' x '.join(map(str, found.most))}.", "give the block of the PTX.")
    most = _SHARED.get(target.sm, 48) << 10
    if found.shared > _STATIC or found.shared + call.shared > most:
        raise call.error(
            f"{name!r} has {found.shared} bytes of shared memory and asks for {call.shared} more; "
            f"{target.name} allows {most} in all, {_STATIC} of them declared with a size.",
            "make it smaller.")
    if any(n > m for n, m in zip(call.grid, _GRID)):
        raise call.error(f"the grid of {name!r} is {call.grid}; CUDA allows {_GRID}.",
                         "let each block do more.")


def _words(call: Call, found: ptx.Entry) -> tuple[int, ...]:
    """The scalars as 32 bits each, of the types of the entry's last parameters."""
    arrays, name = len(call.ins) + len(call.new), call.name
    kinds = found.parameters
    if len(kinds) != arrays + len(call.scalars):
        raise call.error(
            f"the entry of {name!r} has {len(kinds)} parameters; the call gives {arrays} arrays "
            f"and {len(call.scalars)} scalars.", "let it take a pointer for each argument, result "
            "and work space, then the scalars.")
    for i, kind in enumerate(kinds[:arrays]):
        if kind not in _POINTERS:
            raise call.error(f"parameter {i} of {name!r} is .{kind}, and gets an array.",
                             "declare it as a pointer.", TypeError)
    words = []
    for i, (kind, value) in enumerate(zip(kinds[arrays:], call.scalars)):
        if kind not in _KINDS:
            raise call.error(f"scalar {i} of {name!r} is .{kind}; scalars have 32 bits.",
                             "declare it int, unsigned or float.", TypeError)
        known = _KINDS[kind]
        if known == "bits":  # (PTX by hand)
            known = "float32" if isinstance(value, float) else "int32"
        if isinstance(value, float) and known != "float32":
            raise call.error(f"scalar {i} of {name!r} is {value!r}, and its parameter .{kind}.",
                             "give an int, or declare it float.", TypeError)
        number = call.number(i, value, known)
        raw = struct.pack("<f" if known == "float32" else "<I" if known == "uint32" else "<i",
                          number)
        words.append(struct.unpack("<i", raw)[0])
    return tuple(words)
