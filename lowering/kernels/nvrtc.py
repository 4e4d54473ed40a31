"""CUDA C to PTX by NVRTC, NVIDIA's compiler as a library, which needs no GPU.

It comes with the wheels nvidia-cuda-nvrtc-cu12 (the extra calque[cuda]) and nvidia-cuda-nvrtc, and
with CUDA's toolkit.  Start reading at `compiled`.
"""
from __future__ import annotations

import ctypes
import ctypes.util
import functools
import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class NotCompiled(ValueError):
    """What NVRTC says of a source."""


def _files(patterns: tuple[str, ...]) -> Iterator[Path]:
    """Files of NVIDIA's wheels, then of the toolkit."""
    spec = importlib.util.find_spec("nvidia")
    places = [Path(p) for p in (spec.submodule_search_locations or ()) if spec] if spec else []
    for name in ("CUDA_HOME", "CUDA_PATH"):
        places += [Path(os.environ[name])] if os.environ.get(name) else []
    places.append(Path("/usr/local/cuda"))
    for place in places:
        for pattern in patterns:
            yield from sorted(place.glob(pattern), reverse=True)


@functools.cache
def library() -> Any:
    """NVRTC; None where there is none."""
    names = [str(p) for p in _files((
        "cuda_nvrtc/lib/libnvrtc.so.*", "cu1*/lib/libnvrtc.so.*", "lib64/libnvrtc.so*"))
             if ".alt." not in p.name]
    for name in (*names, ctypes.util.find_library("nvrtc")):
        try:
            made = ctypes.CDLL(name) if name else None
        except OSError:
            continue
        if made is not None:
            return made
    return None


@functools.cache
def version() -> str:
    """NVRTC's version; '' where there is none."""
    found = library()
    if found is None:
        return ""
    major, minor = ctypes.c_int(), ctypes.c_int()
    found.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return f"{major.value}.{minor.value}"


def options(sm: str) -> list[str]:
    """What NVRTC is told, for an architecture."""
    headers = next(iter(_files(("cuda_runtime/include/cuda_fp16.h", "cu1*/include/cuda_fp16.h",
                                "include/cuda_fp16.h"))), None)
    return [f"--gpu-architecture={sm.replace('sm_', 'compute_')}", "--std=c++17",
            *([f"--include-path={headers.parent}"] if headers else [])]


def compiled(source: str, sm: str) -> str:
    """PTX of CUDA C; NotCompiled with what the compiler says."""
    nvrtc, program = library(), ctypes.c_void_p()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None)
    try:
        words = [word.encode() for word in options(sm)]
        status = nvrtc.nvrtcCompileProgram(program, len(words),
                                           (ctypes.c_char_p * len(words))(*words))
        said = _text(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
        if status:
            raise NotCompiled(said.strip() or f"NVRTC gave up (status {status})")
        return _text(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program)
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _text(size: Any, get: Any, program: Any) -> str:
    count = ctypes.c_size_t()
    size(program, ctypes.byref(count))
    buffer = ctypes.create_string_buffer(max(1, count.value))
    get(program, buffer)
    return buffer.value.decode("utf-8", "replace")
