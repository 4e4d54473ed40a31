"""Targets of Vulkan: IREE's attribute, and the words in which a record says what code may use.

`words_of` reads the attribute, whoever wrote it: the compiler for a profile's name, or `attribute`
from the words of a device at hand (runtime/vulkan.py, which compares a record's words with what a
device has).  Start reading at `words_of`.

A word is IREE's name of something (fp64, int16, b8, shuffle, arithmetic, dp4xi8toi32, cap:Shader)
or a number: spirv=1.6, subgroup=32 (the least size that is right), matrix=f32_16x16x16_f16, and of
workgroups sizes=1024,1024,64, threads=1024, memory=32768, counts=65535,65535,65535.
"""
from __future__ import annotations

import functools
import re
from collections.abc import Sequence

from calque.lowering.compiler.compile import run_compiler

_TEXT = ('#hal.device.target<"vulkan", [#hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb", '
         '{{iree_codegen.target_info = #iree_gpu.target<arch = "{arch}", features = '
         '"spirv:v{spirv},cap:Shader", wgp = <compute = {compute}, storage = {storage}, '
         'subgroup = {subgroup}, {dot}subgroup_size_choices = [{size}], '
         'max_workgroup_sizes = [{sizes}], max_thread_count_per_workgroup = {threads}, '
         'max_workgroup_memory_bytes = {memory}, max_workgroup_counts = [{counts}]>>}}>]>')
_ATTRIBUTE = re.compile(r'#hal\.device\.target<"vulkan", \[.*?\}>\]>')
_COMPUTE = ("fp64", "fp32", "fp16", "int64", "int32", "int16", "int8")
_STORAGE = ("b64", "b32", "b16", "b8")
_MOST = 2**31 - 1  # the attribute's numbers are int32

# IREE's tables of GPUs have CUDA's limits (163 KiB for ampere), which no driver of Vulkan has: the
# device is lost when code uses them.  32 KiB is the least of the desktop's drivers (AMD's; NVIDIA's
# have 48: github.com/ggml-org/llama.cpp, issues 26163 and 16092); the other two rows are what
# Vulkan promises of every device (the specification's chapter "Limits").
_LIMITS = {"max_workgroup_memory_bytes": (32768,), "max_workgroup_sizes": (_MOST, _MOST, 64),
           "max_workgroup_counts": (65535, 65535, 65535)}
_MATRIX = re.compile(r"_([A-Z0-9]+)_(\d+x\d+x\d+)_([A-Z0-9]+)$")
# those of VK_KHR_cooperative_matrix; IREE computes with the others in another way
_COMPONENTS = ("F16", "F32", "F64", "I8", "I16", "I32", "I64")


@functools.cache
def words_of(text: str) -> tuple[str, ...]:
    """What code compiled for an attribute may use."""
    def field(name: str) -> list[str]:
        found = re.search(rf"\b{name} = (?:\[([^\]]*)\]|([\w|]+))", text)
        listed = "" if found is None else found[1] if found[1] is not None else found[2]
        return [w for w in re.split(r"[|,]\s*", listed) if w not in ("", "none")]

    features = re.search(r'features = "([^"]*)"', text)
    entries = [] if features is None else features[1].split(",")
    subgroup, matrices = field("subgroup"), field("mma")
    sizes = [int(n) for n in field("subgroup_size_choices")]
    return (
        *[f"spirv={e.removeprefix('spirv:v')}" for e in entries if e.startswith("spirv:v")],
        *[e for e in entries if e.startswith(("cap:", "ext:"))],
        *field("compute"), *field("storage"), *subgroup, *field("dot"),
        *dict.fromkeys(f"matrix={m[1].lower()}_{m[2]}_{m[3].lower()}" for name in matrices
                       if (m := _MATRIX.search(name.strip("<>"))) is not None
                       and m[1] in _COMPONENTS and m[3] in _COMPONENTS),
        # the compiler takes the smallest (IREEGPUAttrs.td, getPreferredSubgroupSize)
        *([f"subgroup={min(sizes)}"] if sizes and (subgroup or matrices) else []),
        *[f"{word}={','.join(field(name))}" for word, name in (
            ("sizes", "max_workgroup_sizes"), ("threads", "max_thread_count_per_workgroup"),
            ("memory", "max_workgroup_memory_bytes"), ("counts", "max_workgroup_counts"))])


def attribute(words: Sequence[str], arch: str, *, subgroups: bool = True) -> str:
    """The attribute for a device of which these words hold.

    Without `subgroups`, code uses nothing but threads: for processors that only play a GPU.
    Cooperative matrices are left out: IREE knows them by the names of chips.
    """
    has, numbers = set(words), dict(w.split("=", 1) for w in words if "=" in w)
    size = int(numbers["subgroup"])
    together = subgroups and size > 1 and {"shuffle", "arithmetic"} <= has
    always = {"fp32", "int32", "b32", *(["b64"] if {"fp64", "int64"} & has else [])}

    def least(name: str) -> str:
        return ", ".join(str(min(int(n), _MOST)) for n in numbers[name].split(","))

    return _TEXT.format(
        arch=arch, spirv=numbers["spirv"], size=size,
        compute="|".join(w for w in _COMPUTE if w in has | always),
        storage="|".join(w for w in _STORAGE if w in has | always),
        subgroup="shuffle|arithmetic" if together else "none",
        dot="dot = dp4xi8toi32, " if subgroups and "dp4xi8toi32" in has else "",
        sizes=least("sizes"), threads=least("threads"), memory=least("memory"),
        counts=least("counts"))


@functools.cache
def profile(name: str) -> str:
    """The attribute that the compiler takes for a profile's name, with limits that drivers have."""
    said = run_compiler(
        b"func.func @f(%a: tensor<1xf32>) -> tensor<1xf32> { return %a : tensor<1xf32> }",
        ("--iree-hal-target-device=vulkan", f"--iree-vulkan-target={name}"),
        "preprocessing").decode()
    found = _ATTRIBUTE.search(said)
    if found is None:
        raise RuntimeError(f"IREE does not say what it takes for the Vulkan profile {name}.")
    text = found[0]
    for field, most in _LIMITS.items():
        text = re.sub(rf"\b{field} = [^a-z>]*\d\]?", functools.partial(_lowered, field, most), text)
    return text


def _lowered(field: str, most: Sequence[int], found: re.Match[str]) -> str:
    least = [str(min(int(n), m)) for n, m in zip(re.findall(r"\d+", found[0]), most, strict=True)]
    return f"{field} = [{', '.join(least)}]" if len(least) > 1 else f"{field} = {least[0]}"
