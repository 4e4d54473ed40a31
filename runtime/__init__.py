"""calque.runtime: run compiled programs; needs numpy, ml_dtypes and iree.runtime, no compiler.

Module map: errors.py (what can go wrong), dtypes.py (NumPy's names and IREE's), device.py (CPU: two
queues over one memory; CUDA, Vulkan), features.py and features.json (names of what code may use),
vulkan.py (what a device of it has), cuda.py (what its driver reads), buffer.py (memory + fence +
donation; dlpack.py: memory of other libraries), call_spec.py (how a program is called),
executable.py (load once, call inline or queued;
flat.py: arrays of any shape), memory.py (what a device gives, and what when it has no more),
leaving.py (what a process does that ends), pending.py (calls under way), idle.py (memory that is
kept for the next call), waiting.py (how a thread waits), callbacks.py (Python functions as
imports), handlers.py (those of XLA's interface),
lane.py (messages of queued programs),
staging.py (copies to and from GPUs), watch.py (who looks on), aot.py (load a self-describing .vmfb
and call it by name), session.py (the state of modules), generation.py (those of
language models), serving/ (artifacts over HTTP), target.py (can this machine run it),
variants.py (which of several forms is called), dims.py (sizes in its record), container.py,
archives.py and parameters.py (what the files hold), program.py (what a module holds, read without
IREE: flatbuffer.py, bytecode.py, bytecode.json, elf.py), hosting.py (for the C++ library in cpp).
Start reading at executable.py.
"""
from __future__ import annotations

try:
    from calque.runtime.aot import Artifact, load
except ModuleNotFoundError as error:
    from calque.runtime.errors import explain
    if error.name not in ("iree", "iree.runtime"):
        raise
    raise ModuleNotFoundError(explain(
        f"calque runs programs by IREE's runtime ({error}).",
        fix="pip install 'iree-base-runtime==3.13.*', which has wheels for CPython on Linux with "
            "glibc 2.28 (x86-64, AArch64), macOS 13 and Windows (x86-64); elsewhere it has to be "
            "built of IREE's sources."), name=error.name) from None
from calque.runtime.buffer import Buffer, dlpack_capsule, from_dlpack
from calque.runtime.call_spec import CallSpec
from calque.runtime.device import Device, default_device, devices, set_cpu_device_count
from calque.runtime.errors import ArtifactError, DeletedBufferError, DeviceError
from calque.runtime.executable import Executable, Module
from calque.runtime.flat import FlatExecutable
from calque.runtime.session import Session

__all__ = [
    "Artifact", "ArtifactError", "Buffer", "CallSpec", "DeletedBufferError", "Device",
    "DeviceError", "Executable", "FlatExecutable", "Module", "Session", "default_device",
    "devices", "dlpack_capsule", "from_dlpack", "load", "set_cpu_device_count",
]


def __dir__() -> list[str]:
    return __all__
