"""Names of what code may use, and of what machines say they have: features.json.

The C++ library is built with the same file (cpp/src/artifact/features.cc).  `cpu`: LLVM's names,
and the Linux kernel's in /proc/cpuinfo; what is not listed (clflushopt, fsgsbase, ...) is never
chosen by the code generator.  `vulkan`: words of a record (lowering/target/vulkan.py), and Vulkan's
names.  `vulkan_switches`: of each of those the VkStructureType of the structure that holds it, its
place there, and the version of Vulkan (1.x) or else the extension that knows the structure.
"""
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_FEATURES: dict[str, dict[str, Any]] = json.loads(
    Path(__file__).with_name("features.json").read_text("ascii"))
CPU: dict[str, str] = _FEATURES["cpu"]
VULKAN: dict[str, str] = _FEATURES["vulkan"]
VULKAN_SWITCHES: dict[str, tuple[int, int, int, str]] = _FEATURES["vulkan_switches"]
