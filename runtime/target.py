"""Can this machine run what was compiled?  The words of a record's target, compared with a device.

The C++ library asks the same (cpp/src/artifact/target.cc).  Start reading at `check_target`.
"""
from __future__ import annotations

import contextlib
import importlib
import platform
import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from calque.runtime import features
from calque.runtime.device import Device
from calque.runtime.errors import ArtifactError, explain

_ARCHITECTURES = {"AMD64": "x86_64", "arm64": "aarch64"}
_IN_NUMPY = {"fma": "FMA3", "sahf": "LAHF", "bmi1": "BMI", "dotprod": "ASIMDDP",
             "fullfp16": "ASIMDHP"}  # other names than LLVM's
_BACKENDS = {"llvm-cpu": "cpu", "cuda": "cuda", "vulkan-spirv": "vulkan"}


def check_target(target: Mapping[str, Any], device: Device, source: str) -> None:
    """Raise ArtifactError if code compiled for `target` cannot run on `device`."""
    backend = target.get("backend")
    if backend is None:
        return
    wanted = _BACKENDS.get(backend, backend)
    if wanted != device.platform:
        raise ArtifactError(explain(
            f"the artifact is compiled for {wanted}, and {device} is a {device.platform} device.",
            source, f"load it with device=devices({wanted!r})[0], or compile it for "
            f"{device.platform}."))
    if wanted == "vulkan":
        _check_vulkan(target, device, source)
    elif wanted == "cuda":
        _check_cuda(target, device, source)
    if wanted != "cpu":
        return
    arch = _ARCHITECTURES.get(platform.machine(), platform.machine())
    if target.get("arch", arch) != arch:
        raise ArtifactError(explain(
            f"the artifact is compiled for {target['arch']}, this machine is {arch}.", source,
            f"compile it for this machine (calque compile --target cpu:{arch})."))
    missing = missing_features(target.get("features", ()), cpu_flags())
    if missing:
        raise ArtifactError(explain(
            f"the artifact needs CPU features that this machine lacks: {', '.join(missing)} "
            f"(it is compiled for {target.get('cpu', 'another CPU')}).", source,
            "compile it for an older level (calque compile --target cpu:x86-64-v3, or v2)."))


def _check_vulkan(target: Mapping[str, Any], device: Device, source: str) -> None:
    """IREE looks at nothing of this, and what a device lacks can make results wrong."""
    from calque.runtime import vulkan
    needed = list(map(str, target.get("features", ())))
    name = str(target.get("name", "another device"))
    name += f", {target['arch']}" if target.get("arch") else ""
    if not needed:
        return
    there = vulkan.features_of(device)
    if isinstance(there, str):
        warnings.warn(explain(
            f"what {device} has is unknown, so nothing checks that it has what code for {name} "
            f"needs: {there}.", source, "compile it for this device, or compare some results with "
            "those of a CPU."), RuntimeWarning, stacklevel=2)
        return
    lacking = vulkan.missing(needed, there)
    if lacking:
        here = "vulkan:lavapipe" if "llvmpipe" in there.name else "vulkan:host"
        raise ArtifactError(explain(
            f"the artifact needs what {device} ({there.name}) lacks: {', '.join(lacking)} (it is "
            f"compiled for {name}).", source, "compile it for this device: calque compile --target "
            f"{here}."))


def _check_cuda(target: Mapping[str, Any], device: Device, source: str) -> None:
    """The driver says of PTX that is too new that something is wrong, and not what."""
    from calque.runtime import cuda
    lacking = cuda.missing(list(map(str, target.get("features", ()))),
                           cuda.capability(device.index))
    if lacking:
        raise ArtifactError(explain(
            f"the program needs what {device} ({device.device_kind}) lacks: "
            f"{', '.join(lacking)}.", source,
            "compile it for this card and driver (calque compile --target cuda:host), or install a "
            "newer driver; a kernel of your own with an older CUDA (of NVRTC: pip install "
            "'nvidia-cuda-nvrtc-cu12<12.5' for PTX 8.4)."))


def missing_features(needed: Sequence[str], present: frozenset[str]) -> list[str]:
    """Features that generated code may use and the CPU lacks (none where the CPU is unknown)."""
    if not present:
        return []
    return [f for f in needed if f in features.CPU and features.CPU[f] not in present]


def cpu_flags() -> frozenset[str]:
    """The CPU's features as the Linux kernel names them; empty where they cannot be known."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("flags", "Features")):
                return frozenset(line.partition(":")[2].split())
    except OSError:  # another system
        pass
    return _flags_by_numpy()


def _flags_by_numpy() -> frozenset[str]:
    """All features but those that NumPy looked for as it was imported and did not find."""
    found: Mapping[str, bool] = {}
    for package in ("numpy._core", "numpy.core"):  # (the second before NumPy 2)
        with contextlib.suppress(ImportError, AttributeError):
            found = importlib.import_module(f"{package}._multiarray_umath").__cpu_features__
            break
    lacking = {flag for name, flag in features.CPU.items()
               if not found.get(_IN_NUMPY.get(name, re.sub(r"\W", "", name).upper()), True)}
    return frozenset(features.CPU.values()) - lacking if found else frozenset()
