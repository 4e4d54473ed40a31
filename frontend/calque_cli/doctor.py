"""calque doctor, cache and warmup: versions, devices, the cache, and what is missing.

Start reading at `doctor`.
"""
from __future__ import annotations

import ctypes.util
import importlib.metadata
import os
import platform
import shutil
import sys
from typing import Any

import typer

from calque import runtime
from calque.core.config import config
from calque.dispatch import precompiled
from calque.lowering.compiler import process as compiler_process
from calque.lowering.driver import cache
from calque.lowering.kernels import nvrtc
from calque.lowering.kernels.forms import missing_objects
from calque.lowering.kernels.native import level_of
from calque.lowering.kernels.user_vulkan import GLSLANG
from calque.lowering.target.targets import TargetError, host_target, runnable_target
from calque_cli.report import progress, size_text, wrapped

_NEEDED = ("calque", "iree-base-compiler", "iree-base-runtime", "numpy", "ml_dtypes", "optree")
_OPTIONAL = {"scipy": "LAPACK in eager linear algebra; pip install scipy"}
_DRIVERS = {
    "cuda": ("cuda", "an NVIDIA GPU and its driver (libcuda.so); no CUDA toolkit is needed"),
    "vulkan": ("vulkan", "a Vulkan 1.3 loader and driver; on Debian without a GPU: "
                         "apt-get install libvulkan1 mesa-vulkan-drivers"),
}


def doctor() -> None:
    """Print versions, devices and drivers, the CPU, the cache, and what is missing."""
    missing = [*_versions(), *_cpu(), *_devices(), *_kernels()]
    cache_report()
    if missing:
        typer.echo("missing")
    for line in missing:
        typer.echo(wrapped(f"  {line}", 4))
    typer.echo(wrapped(_verdict(missing), 0))


def _verdict(missing: list[str]) -> str:
    """Whether programs run here, in a sentence."""
    lacking = [p for p in _NEEDED if _version(p) is None]
    try:
        runnable_target()
    except TargetError:
        lacking.append("a CPU that code can be compiled for")
    if lacking:
        return f"calque does not run here: {', '.join(lacking)} is missing."
    return ("Programs run on the CPU of this machine; "
            + ("nothing is missing." if not missing else "what is missing is for the uses named."))


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _versions() -> list[str]:
    missing = []
    typer.echo("versions")
    typer.echo(f"  python {platform.python_version()} ({sys.executable})")
    for package in (*_NEEDED, *_OPTIONAL):
        found = _version(package)
        typer.echo(f"  {package} {found or 'not installed'}")
        if found is None:
            missing.append(f"{package}: {_OPTIONAL.get(package, f'pip install {package}')}")
    compiler, ours = _version("iree-base-compiler"), _version("iree-base-runtime")
    if compiler and ours and compiler.split(".")[:2] != ours.split(".")[:2]:
        missing.append(f"iree-base-runtime {ours} does not load what the compiler {compiler} "
                       f"writes: pip install iree-base-runtime=={compiler}")
    return missing


def _cpu() -> list[str]:
    typer.echo("cpu")
    try:
        with progress("asking the compiler about this CPU"):
            host = host_target()
    except TargetError as error:
        typer.echo(f"  {platform.machine()}")
        return [str(error)]
    typer.echo(f"  {host.cpu} ({host.arch})")
    typer.echo(wrapped(f"  features: {' '.join(host.features)}", 6))
    if host.absent:
        typer.echo(wrapped(f"  hidden by this machine: {' '.join(host.absent)}", 6))
    try:
        target = runnable_target()
    except TargetError as error:
        return [str(error)]
    typer.echo(f"  code is compiled for: {target.cpu} (CALQUE_CPU={config.calque_cpu})")
    typer.echo("  the compiler's malloc: " + (compiler_process.allocator() or "the C library's"))
    lacking = missing_objects(target)
    typer.echo("  C kernels: " + (f"none of {', '.join(lacking)}" if lacking else
                                  f"all, for {level_of(target)}"))
    if not lacking:
        return []
    return ["C kernels of linear algebra and FFT (slower forms are taken): install a C compiler "
            "(Debian: apt-get install gcc), then install calque again"]


def _devices() -> list[str]:
    missing = []
    typer.echo("devices")
    for device in runtime.devices("cpu"):
        typer.echo(f"  {device}: {device.device_kind}")
    for name, (library, how) in _DRIVERS.items():
        driver = ctypes.util.find_library(library)
        try:
            for device in runtime.devices(name):
                typer.echo(f"  {device}: {device.device_kind} ({driver or 'driver found'})")
                if name == "cuda":
                    typer.echo(wrapped(f"    {cuda_card(device)}", 6))
                if name == "vulkan":
                    typer.echo(wrapped(f"    features: {vulkan_features(device)}", 6))
        except RuntimeError:
            typer.echo(f"  {name}: " + (f"no device ({driver} is there)" if driver
                                        else "no driver"))
            missing.append(f"{name}: {how}")
    return missing


def _kernels() -> list[str]:
    """What compiles kernels of the user's own (calque.ffi)."""
    nvidia = nvrtc.version()
    found = {"C": next((c for c in (os.environ.get("CC", "").split()[:1] or ["cc", "gcc", "clang"])
                        if shutil.which(c)), ""),
             "GLSL": shutil.which(GLSLANG) or "", "CUDA C": nvidia and f"NVRTC {nvidia}"}
    typer.echo("kernels of your own (calque.ffi)")
    for language, tool in found.items():
        typer.echo(f"  {language}: {tool or 'no compiler'}")
    how = {"C": "a C compiler; Debian: apt-get install gcc",
           "GLSL": f"{GLSLANG}; Debian: apt-get install glslang-tools",
           "CUDA C": "NVRTC, which needs no GPU; pip install 'calque[cuda]'"}
    return [f"kernels in {language}: {how[language]}" for language, tool in found.items()
            if not tool]


def cuda_card(device: runtime.Device) -> str:
    """What a card of NVIDIA's is, and where arrays lie on it, in a line."""
    from calque.runtime import cuda
    from calque.runtime.device import cuda_allocators
    shared = cuda.shares_managed_memory(device.index)
    kept = cuda_allocators(device.index)[0].split(";")[1].removesuffix("mib")
    return (f"{cuda.described(device.index)}; arrays are in the card's own memory, of which up to "
            f"{kept} MiB are kept for the next ones"
            + ("" if shared is None else f"; managed memory: {'yes' if shared else 'no'}, unused"))


def vulkan_features(device: runtime.Device) -> str:
    """What a Vulkan device has, in a line."""
    from calque.runtime import vulkan
    there = vulkan.features_of(device)
    return f"unknown ({there})" if isinstance(there, str) else str(there)


def cache_report() -> None:
    """Print what the compile cache holds."""
    info = cache.cache_info()
    typer.echo("cache" if info.enabled else "cache (switched off by CALQUE_CACHE)")
    typer.echo(f"  {info.directory}")
    typer.echo(f"  {info.entries} programs, {size_text(info.bytes)} of at most "
               f"{size_text(info.limit)}")


def warm_up() -> None:
    """Build what is missing of the eager pack."""
    todo = precompiled.missing()
    if not todo:
        typer.echo("the eager operations are compiled already")
        return
    with progress("compiling the common eager operations", len(todo) + 1, lines=True) as advance:
        advance(f"compiling for {todo[0].name}")
        rest = iter([*todo[1:], None])

        def done(dtype: Any) -> None:
            following = next(rest)
            advance(f"compiling for {following.name}" if following is not None else "done")

        built = precompiled.build(done)
    typer.echo(f"compiled the eager operations of {built} dtypes")
