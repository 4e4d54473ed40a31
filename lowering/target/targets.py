"""Targets: what a program is compiled for, as a frozen record that fixes the code generated.

`parse_target("cpu:x86-64-v3")` reads the names the CLI and `jit` take.  "host" is this machine,
resolved to LLVM's CPU name and an explicit feature list, so that a cached artifact says what it
needs; "cpu" is what the option calque_cpu (CALQUE_CPU) names, "host" where nothing is said.  An
unknown CPU or Vulkan name makes the compiler abort the process, so only names from the tables get
through.  Start reading at `parse_target`.
"""
from __future__ import annotations

import functools
import json
import os
import platform
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from calque.core.config import config
from calque.core.types import Dtype
from calque.lowering.compiler.compile import run_compiler
from calque.lowering.compiler.folders import home_directory, own_directory, read_own
from calque.lowering.target import cuda, vulkan

_CPU_LEVELS = {"x86-64-v2": "x86_64", "x86-64-v3": "x86_64", "x86-64-v4": "x86_64",
               "x86-64": "x86_64", "aarch64": "aarch64"}
_TRIPLES = {"x86_64": "x86_64-unknown-unknown-eabi-elf",
            "aarch64": "aarch64-unknown-unknown-eabi-elf"}
_CUDA = tuple(cuda.PTX)
_VULKAN_PROFILES = ("lavapipe", "vp_android_baseline_2022", "adreno", "valhall", "valhall4",
                    "ampere", "turing", "ada", "rdna1", "rdna2", "rdna3", "rdna4")

# What `vulkan_target` makes of Debian's lavapipe, for machines without one.
_LAVAPIPE = (
    '#hal.device.target<"vulkan", [#hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb", '
    '{iree_codegen.target_info = #iree_gpu.target<arch = "lavapipe", features = '
    '"spirv:v1.6,cap:Shader", wgp = <compute = fp64|fp32|fp16|int64|int32|int16|int8, '
    'storage = b64|b32|b16|b8, subgroup = none, subgroup_size_choices = [8], '
    'max_workgroup_sizes = [1024, 1024, 1024], max_thread_count_per_workgroup = 1024, '
    'max_workgroup_memory_bytes = 32768, max_workgroup_counts = [65535, 65535, 65535]>>}>]>')

_TARGET_TEXT = re.compile(r'cpu = "([^"]*)", cpu_features = "([^"]*)"')


class TargetError(ValueError):
    """The name of a target is unknown, or IREE cannot compile for it."""


@dataclass(frozen=True, slots=True)
class Target:
    """One thing to compile for.

    Attributes:
      backend: 'llvm-cpu', 'cuda' or 'vulkan-spirv'.
      name: canonical name; `parse_target(name)` gives this record again ('cpu' on this machine;
        'vulkan:host' is a device at hand, which calque/dispatch/eager.named_target asks).
      cpu: LLVM's CPU name; features: what the code may use beyond it (without '+'); absent: what
        that CPU has and this machine (a virtual one, say) hides, or we leave unused; arch: x86_64
        or aarch64, or the name of a Vulkan device at hand.
        `uses` are the features of a CPU, and lowering/target/vulkan.py's words for Vulkan.
      sm: the CUDA architecture.  spirv: a Vulkan profile, or a device target attribute's text.
    """

    backend: str
    name: str
    cpu: str = ""
    features: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    arch: str = ""
    sm: str = ""
    spirv: str = ""

    def flags(self) -> tuple[str, ...]:
        """The compiler flags that select this target."""
        if self.backend == "cuda":
            return cuda.flags(self.sm)
        if self.backend == "vulkan-spirv":
            return (f"--iree-hal-target-device={_attribute(self.spirv)}",)
        flags = ["--iree-hal-target-device=local",
                 "--iree-hal-local-target-device-backends=llvm-cpu",
                 f"--iree-llvmcpu-target-triple={_TRIPLES[self.arch]}",
                 f"--iree-llvmcpu-target-cpu={self.cpu}"]
        features = [f"+{f}" for f in self.features] + [f"-{f}" for f in self.absent]
        if features:
            flags.append("--iree-llvmcpu-target-cpu-features=" + ",".join(features))
        return tuple(flags)

    @property
    def device_has_name(self) -> bool:
        """Whether its flags name the device, rather than give it as an attribute."""
        return not any("=#hal." in f for f in self.flags())

    @property
    def platform(self) -> str:
        """The runtime's word for the kind of device: 'cpu', 'cuda' or 'vulkan'."""
        return {"llvm-cpu": "cpu", "cuda": "cuda", "vulkan-spirv": "vulkan"}[self.backend]

    @property
    def takes_memory(self) -> bool:
        """Whether programs write results into memory passed to them.  Not on Vulkan, where devices
        give some 4,096 pieces of memory at most, and IREE's queue parts them."""
        return self.backend != "vulkan-spirv"

    @property
    def takes_storage(self) -> bool:
        """Whether they may also work in memory passed (LowerOptions.transients)."""
        return self.backend != "vulkan-spirv"

    @property
    def asks_no_queue(self) -> bool:
        """Whether calls are to take no memory from the queue, which would wait on the host."""
        return self.backend == "cuda"

    def lacks(self, dtype: Dtype) -> bool:
        """Whether the device has no numbers of a dtype, or IREE does not compile them for it."""
        width = dtype.itemsize // 2 if dtype.kind == "c" else dtype.itemsize
        wide = "int64" if dtype.kind in "iu" else "fp64"
        return self.backend == "vulkan-spirv" and width == 8 and wide not in self.uses()

    def uses(self) -> tuple[str, ...]:
        """What the code may use, in the words of records: all that a device must have."""
        if self.backend == "vulkan-spirv":
            return vulkan.words_of(_attribute(self.spirv))
        return cuda.words(self.sm) if self.backend == "cuda" else self.features

    def record(self) -> dict[str, object]:
        """What an artifact says about its target (the "target" entry of calque.signature)."""
        entries = {"backend": self.backend, "name": self.name, "arch": self.arch, "cpu": self.cpu,
                   "features": list(self.uses()), "sm": self.sm, "spirv": self.spirv}
        return {key: value for key, value in entries.items() if value}


def _attribute(spirv: str) -> str:
    return spirv if spirv.startswith("#") else vulkan.profile(spirv)


def vulkan_target(words: Sequence[str], device: str, kind: str) -> Target:
    """The target of a Vulkan device at hand: what it says it has (runtime/vulkan.py), no more.

    A kind of 'cpu' only plays a GPU: it gains nothing by threads that work together.
    """
    arch = "lavapipe" if "llvmpipe" in device else "vulkan"  # (no vendor's: none was tried)
    return Target("vulkan-spirv", "vulkan:host", arch=device,
                  spirv=vulkan.attribute(words, arch, subgroups=kind != "cpu"))


def valid_targets() -> tuple[str, ...]:
    """Every name of a target (those of GPUs at hand are dispatch/eager.named_target's)."""
    return ("cpu", "host", "cpu:host", *(f"cpu:{c}" for c in _CPU_LEVELS),
            "cuda:host", *(f"cuda:{s}" for s in _CUDA),
            "vulkan:host", *(f"vulkan:{p}" for p in _VULKAN_PROFILES))


def parse_target(name: str | Target) -> Target:
    """The Target of a name such as 'cpu', 'cpu:x86-64-v3', 'cuda:sm_80', 'vulkan:lavapipe'."""
    if isinstance(name, Target):
        return name
    kind, _, rest = name.strip().partition(":")
    if kind == "cpu" and not rest:
        return cpu_target()
    if kind == "host" and not rest or kind == "cpu" and rest == "host":
        return host_target()
    if kind == "cpu" and rest in _CPU_LEVELS:
        arch = _CPU_LEVELS[rest]
        # AArch64 has no level names; "generic" is the baseline with NEON.
        cpu = "generic" if arch == "aarch64" else rest
        return Target("llvm-cpu", f"cpu:{rest}", cpu=cpu, arch=arch,
                      features=_level_features(rest))
    if kind in ("cuda", "gpu"):
        return _cuda(name, rest or "sm_80")
    if kind == "vulkan" and rest == "lavapipe":
        return Target("vulkan-spirv", "vulkan:lavapipe", spirv=_LAVAPIPE)
    if kind == "vulkan" and rest in _VULKAN_PROFILES:
        return Target("vulkan-spirv", f"vulkan:{rest}", spirv=rest)
    raise TargetError(
        f"unknown target {name!r}.\n  Fix: choose one of {', '.join(valid_targets())}.")


def _cuda(name: str, sm: str) -> Target:
    sm = cuda.ALIASES.get(sm, sm)
    if sm not in _CUDA:
        raise TargetError(
            f"unknown target {name!r}.\n  Fix: choose one of cuda:host, "
            f"{', '.join(f'cuda:{s}' for s in _CUDA)}; the newest that is not newer than the card, "
            f"or any older one: the card's driver compiles its PTX.")
    return Target("cuda", f"cuda:{sm}", sm=sm)


# What each x86-64 level promises (the psABI's table), in LLVM's spelling.
_V2 = ("cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3")
_V3 = (*_V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave")
_V4 = (*_V3, "avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl")


# Not used where a CPU has it: LLVM fuses products and sums of halves with it, which are rounded one
# by one on every other CPU (tests/lowering/test_targets.py)
HALVES = "avx512fp16"


def _level_features(level: str) -> tuple[str, ...]:
    return {"x86-64-v2": _V2, "x86-64-v3": _V3, "x86-64-v4": _V4}.get(level, ())


def cpu_target() -> Target:
    """What code for CPU devices is compiled for: the option calque_cpu."""
    level = config.calque_cpu
    return host_target() if level == "host" else _level_target(level)


@functools.cache
def _level_target(level: str) -> Target:
    return parse_target(f"cpu:{level}")


def portable_target() -> Target:
    """What an artifact is compiled for where nothing is said: the level of this machine's CPU that
    most machines have, x86-64-v3 (v2 where this one is older) or aarch64; or calque_cpu's."""
    if config.calque_cpu != "host":
        return cpu_target()
    levels = (parse_target(f"cpu:{level}") for level in ("x86-64-v3", "x86-64-v2", "aarch64"))
    return next((t for t in levels if not _lacking(t)), host_target())


def runnable_target() -> Target:
    """`cpu_target()`; TargetError where this machine lacks what the option calque_cpu names."""
    target = cpu_target()
    lacking = _lacking(target)
    if lacking:
        raise TargetError(
            f"calque_cpu={config.calque_cpu}: this machine's CPU lacks {lacking}.\n"
            "  Fix: choose CALQUE_CPU=host or an older level to run here; to compile for another "
            f"machine, calque compile --target {target.name}.")
    return target


@functools.cache
def _lacking(target: Target) -> str:
    """What code for a CPU target may use and this machine's lacks, in words."""
    host = host_target()
    if target.arch != host.arch:
        return f"the architecture ({target.arch}; it is {host.arch})"
    return ", ".join(sorted({*target.features} - {*host.features}))


@functools.cache
def host_target() -> Target:
    """This machine's CPU, by LLVM's own name and feature list (asked once per boot and user)."""
    arch = {"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())
    if arch not in _TRIPLES:
        raise TargetError(f"no code generation for this machine's architecture, {arch}.\n"
                          "  Fix: name a target, one of " + ", ".join(valid_targets()))
    memory = _host_record_path()
    try:
        saved = json.loads((memory and read_own(memory)) or b"")
        cpu, features, absent = (str(saved["cpu"]), tuple(map(str, saved["features"])),
                                 tuple(map(str, saved["absent"])))
    except (OSError, ValueError, KeyError, TypeError):
        cpu, features, absent = _ask_compiler()
        if memory is not None:
            _save(memory, json.dumps({"cpu": cpu, "features": features, "absent": absent}))
    if HALVES in features:
        features, absent = tuple(f for f in features if f != HALVES), (*absent, HALVES)
    return Target("llvm-cpu", "cpu", cpu=cpu, features=features, absent=absent, arch=arch)


def _ask_compiler() -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """LLVM's answer to `host`, read from the target attribute of a trivial module (~60 ms)."""
    text = run_compiler(
        b"func.func @f(%a: tensor<1xf32>) -> tensor<1xf32> { return %a : tensor<1xf32> }",
        ("--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu",
         "--iree-llvmcpu-target-cpu=host"), "executable-targets")
    found = _TARGET_TEXT.search(text.decode())
    if found is None:
        return ("generic", (), ())
    # First what LLVM's model of this CPU has, then what the machine itself reports, '+' and '-'.
    entries = found.group(2).split(",")
    off = {e[1:] for e in entries if e.startswith("-")}
    on = {e[1:] for e in entries if e.startswith("+")} - {"64bit"}
    return (found.group(1), tuple(sorted(on - off)), tuple(sorted(on & off)))


def _host_record_path() -> Path | None:
    """None where there is no folder of this user's: what it says decides what code is run."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        boot = platform.node()
    folder = own_directory(home_directory())
    return None if folder is None else folder / f"host-{boot}.json"


def _save(path: Path, text: str) -> None:
    try:
        handle, part = tempfile.mkstemp(prefix="part-", dir=path.parent)
        with os.fdopen(handle, "w") as file:
            file.write(text)
        os.replace(part, path)
        for old in path.parent.glob("host-*.json"):
            if old != path:  # of another boot
                old.unlink()
    except OSError:
        pass  # asked again next time
