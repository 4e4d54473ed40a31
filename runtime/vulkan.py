"""What a Vulkan device has: asked of the Vulkan loader, and compared with what code may use.

IREE checks nothing of this when it loads code: code for subgroups of 32 runs on a device whose
subgroups are 8, and its results are wrong (tests/runtime/test_vulkan_features.py).  The loader is
called by ctypes, with structures from the specification of Vulkan (chapters "Features", "Limits",
"Additional Capabilities").  Whatever cannot be asked is "unknown", a sentence that says why: then
nothing is refused.
Start reading at `features_of` and `missing`.
"""
from __future__ import annotations

import ctypes
import functools
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from ctypes import POINTER, byref, c_char, c_char_p, c_int32, c_uint8, c_uint32, c_uint64
from dataclasses import dataclass
from typing import Any

from calque.runtime.device import Device
from calque.runtime.features import VULKAN, VULKAN_SWITCHES

_LIBRARIES = {"win32": ("vulkan-1.dll",), "darwin": ("libvulkan.1.dylib", "libvulkan.dylib",
                                                      "libMoltenVK.dylib")}
_ELSEWHERE = ("libvulkan.so.1", "libvulkan.so")
_KINDS = ("other", "integrated", "discrete", "virtual", "cpu")  # VkPhysicalDeviceType


@dataclass(frozen=True, slots=True)
class Features:
    """What one device has, as far as code of IREE's asks for it.

    Attributes:
      name: the driver's name of the device.  kind: 'discrete', 'integrated', 'virtual', 'cpu' or
        'other'.  uuid: its number, in hexadecimal.
      spirv: the newest version of SPIR-V, (1, 6).
      has: Vulkan's names of features ('shaderFloat64', ...), and 'subgroup shuffles' and
        'subgroup arithmetic' in compute shaders.
      subgroups: the smallest and the largest size of a subgroup.
      matrices: cooperative matrices of a subgroup, 'f32_16x16x16_f16' (sums, m x n x k, factors).
      sizes, threads, memory, counts: of a workgroup on each axis and in all, its memory in bytes,
        and how many workgroups on each axis.
    """

    name: str
    kind: str
    uuid: str
    spirv: tuple[int, int]
    has: frozenset[str]
    subgroups: tuple[int, int]
    matrices: frozenset[str]
    sizes: tuple[int, ...]
    threads: int
    memory: int
    counts: tuple[int, ...]

    def __str__(self) -> str:
        """In one line, for people."""
        low, high = self.subgroups
        parts = [f"SPIR-V {_version(self.spirv)}", *sorted(self.has),
                 f"subgroups of {low}" + (f" to {high}" if high != low else ""),
                 *[f"matrix {m}" for m in sorted(self.matrices)],
                 f"{self.threads} threads and {self.memory} bytes a workgroup"]
        return ", ".join(parts)


def missing(needed: Sequence[str], device: Features) -> list[str]:
    """What code may use and a device has not, in words of Vulkan's (words unknown here are not
    looked at: what a newer calque writes is for it to check)."""
    lacking: list[str] = []
    for word in dict.fromkeys(needed):
        key, _, value = word.partition("=")
        if word in VULKAN and VULKAN[word] not in device.has:
            lacking.append(VULKAN[word])
        elif value:
            lacking += _beyond(key, value, device)
    matrices = [m for w in dict.fromkeys(needed) if w.startswith("matrix=")
                and (m := w.removeprefix("matrix=")) and m not in device.matrices]
    return [*lacking, *([f"cooperative matrices {' and '.join(matrices)}"] if matrices else [])]


def words(device: Features) -> list[str]:
    """What a device has, in the words that `missing` reads: a target is made of them."""
    return [f"spirv={_version(device.spirv)}",
            *[word for word, name in VULKAN.items() if name in device.has],
            *[f"matrix={m}" for m in sorted(device.matrices)], f"subgroup={device.subgroups[0]}",
            *[f"{key}={','.join(map(str, numbers))}" for key, numbers in (
                ("sizes", device.sizes), ("threads", [device.threads]),
                ("memory", [device.memory]), ("counts", device.counts))]]


def _beyond(key: str, value: str, device: Features) -> Iterator[str]:
    numbers = tuple(int(n) for n in re.findall(r"\d{1,18}", value))
    low, high = device.subgroups
    if not numbers:
        return
    if key == "spirv" and numbers > device.spirv:
        yield f"SPIR-V {value} (the device takes {_version(device.spirv)})"
    elif key == "subgroup" and numbers[0] > low:  # larger ones are right: parts work as wholes
        yield f"subgroups of {value} (the device's are {low}{f' to {high}' if high > low else ''})"
    elif key == "threads" and numbers[0] > device.threads:
        yield f"workgroups of {value} threads (the device's have {device.threads})"
    elif key == "memory" and numbers[0] > device.memory:
        yield f"{value} bytes of memory a workgroup (the device has {device.memory})"
    elif key == "sizes" and any(a > b for a, b in zip(numbers, device.sizes)):
        yield f"workgroups of {_times(numbers)} threads (the device's: {_times(device.sizes)})"
    elif key == "counts" and any(a > b for a, b in zip(numbers, device.counts)):
        yield f"{_times(numbers)} workgroups (the device takes {_times(device.counts)})"


def _times(numbers: Sequence[int]) -> str:
    return " x ".join(map(str, numbers))


def _version(numbers: Sequence[int]) -> str:
    return ".".join(map(str, numbers))


def features_of(device: Device) -> Features | str:
    """What a Vulkan device has; a sentence that says why, where that is unknown."""
    return _match(device.path, device.device_kind, _all_devices())


def _match(path: str, kind: str, found: Sequence[Features] | str) -> Features | str:
    """The one of the loader's devices that IREE means: its path holds the UUID."""
    if isinstance(found, str):
        return found
    digits = re.sub("[^0-9a-f]", "", path.lower())
    same = ([f for f in found if f.uuid and f.uuid in digits]
            or [f for f in found if f.name and kind.startswith(f.name)])
    if len({(f.uuid, str(f)) for f in same}) == 1:
        return same[0]
    return f"{len(same) or 'none'} of the loader's {len(found)} devices may be {kind} ({path})"


# ---- the loader

def _chained(**fields: Any) -> type[ctypes.Structure]:
    """A structure of Vulkan's that extends a query."""
    return type("_Structure", (ctypes.Structure,), {
        "_fields_": [("sType", c_int32), ("pNext", ctypes.c_void_p), *fields.items()]})


def _words(text: str) -> dict[str, Any]:
    return dict.fromkeys(text.split(), c_uint32)


_SIXTEEN = c_uint8 * 16
_FEATURES2 = 1000059000  # VkStructureType, as are the numbers below
_Switches = _chained(switches=c_uint32 * 64)  # of 55 in VkPhysicalDeviceFeatures2, 5 in others
_Identity = _chained(deviceUUID=_SIXTEEN, driverUUID=_SIXTEEN, deviceLUID=c_uint8 * 8,
                     **_words("deviceNodeMask deviceLUIDValid"))
_Subgroups = _chained(**_words("size stages operations quad"))
_SubgroupSizes = _chained(**_words("smallest largest count required"))
_COMPUTE = 0x20  # VK_SHADER_STAGE_COMPUTE_BIT
_OPERATIONS = {"subgroup arithmetic": 0x4, "subgroup shuffles": 0x30}  # VkSubgroupFeatureFlagBits


class _Limits(ctypes.Structure):
    """The first half of VkPhysicalDeviceLimits."""

    _fields_ = (("images", c_uint32 * 11), ("spaces", c_uint64 * 2), ("resources", c_uint32 * 38),
                ("memory", c_uint32), ("counts", c_uint32 * 3), ("threads", c_uint32),
                ("sizes", c_uint32 * 3))


# VkPhysicalDeviceProperties2, with 512 bytes behind for the rest of it (280)
_Properties2 = _chained(**_words("api driver vendor device"), type=c_int32, name=c_char * 256,
                        cache=_SIXTEEN, limits=_Limits, behind=c_uint64 * 64)
_Matrix = _chained(**_words("m n k a b c result saturating scope"))
_COMPONENTS = ("f16", "f32", "f64", "i8", "i16", "i32", "i64")  # VkComponentTypeKHR; unsigned left
_SUBGROUP_SCOPE = 3


class _Extension(ctypes.Structure):
    _fields_ = (("name", c_char * 256), ("version", c_uint32))


class _Application(ctypes.Structure):
    _fields_ = (("sType", c_int32), ("pNext", ctypes.c_void_p), ("name", c_char_p),
                ("version", c_uint32), ("engine", c_char_p), ("engine_version", c_uint32),
                ("api", c_uint32))


class _InstanceInfo(ctypes.Structure):
    _fields_ = (("sType", c_int32), ("pNext", ctypes.c_void_p), ("flags", c_uint32),
                ("application", POINTER(_Application)), ("layers", c_uint32),
                ("layer_names", ctypes.c_void_p), ("extensions", c_uint32),
                ("extension_names", ctypes.c_void_p))


class _Unknown(Exception):
    """Why nothing can be known."""


_Lookup = Callable[[Any, bytes], int | None]  # vkGetInstanceProcAddr
_HANDLE = ctypes.c_void_p


@functools.cache
def _all_devices() -> tuple[Features, ...] | str:
    """Every device of the loader, asked once a process; or why there is no answer."""
    try:
        return _ask(_open())
    except _Unknown as error:
        return str(error)
    except Exception as error:  # whatever a driver does to ctypes: nothing is refused for it
        return f"the Vulkan loader could not be asked: {error!r}"


def _open() -> _Lookup:
    names = _LIBRARIES.get(sys.platform, _ELSEWHERE)
    for name in names:
        try:
            lookup = ctypes.CDLL(name).vkGetInstanceProcAddr
        except (OSError, AttributeError):
            continue
        lookup.restype, lookup.argtypes = ctypes.c_void_p, (_HANDLE, c_char_p)
        return lookup
    raise _Unknown(f"there is no Vulkan loader ({' or '.join(names)})")


def _function(lookup: _Lookup, instance: Any, name: str, *argtypes: Any) -> Any:
    address = lookup(instance, name.encode())
    if not address:
        raise _Unknown(f"the Vulkan loader is too old: it has no {name}")
    return ctypes.CFUNCTYPE(c_int32, *argtypes)(address)


def _ask(lookup: _Lookup) -> tuple[Features, ...]:
    create = _function(lookup, None, "vkCreateInstance", POINTER(_InstanceInfo), _HANDLE,
                       POINTER(_HANDLE))
    # 1.3 is what is asked about here; a loader of 1.0 refuses (VK_ERROR_INCOMPATIBLE_DRIVER)
    application = _Application(0, None, b"calque", 0, b"calque", 0, 1 << 22 | 3 << 12)
    info = _InstanceInfo(1, None, 0, ctypes.pointer(application), 0, None, 0, None)
    instance = _HANDLE()
    result = create(byref(info), None, byref(instance))
    if result != 0:
        raise _Unknown(f"the Vulkan loader makes no instance of version 1.3 (VkResult {result})")
    try:
        return tuple(f for d in _handles(lookup, instance)
                     if (f := _of_one(lookup, instance, d)) is not None)
    finally:
        _function(lookup, instance, "vkDestroyInstance", _HANDLE, _HANDLE)(instance, None)


def _handles(lookup: _Lookup, instance: Any) -> list[Any]:
    enumerate_ = _function(lookup, instance, "vkEnumeratePhysicalDevices", _HANDLE,
                           POINTER(c_uint32), ctypes.c_void_p)
    return [_HANDLE(h) for h in _listed(functools.partial(enumerate_, instance), _HANDLE)]


def _listed(call: Callable[..., int], kind: Any, make: Callable[[], Any] | None = None) -> Any:
    """What a function of Vulkan's lists: it is asked for the number, then for the things."""
    count = c_uint32()
    if call(byref(count), None) < 0 or not count.value:
        return []
    things = (kind * count.value)()
    if make is not None:
        for i in range(count.value):
            things[i] = make()
    return [] if call(byref(count), things) < 0 else things[:count.value]


def _of_one(lookup: _Lookup, instance: Any, device: Any) -> Features | None:
    """What one device has; None for one of Vulkan 1.0, which these questions are not for."""
    listed = functools.partial(_function(
        lookup, instance, "vkEnumerateDeviceExtensionProperties", _HANDLE, c_char_p,
        POINTER(c_uint32), ctypes.c_void_p), device, None)
    extensions = {e.name.decode("utf-8", "replace") for e in _listed(listed, _Extension)}
    properties = _Properties2(1000059001)
    ask = _function(lookup, instance, "vkGetPhysicalDeviceProperties2", _HANDLE, ctypes.c_void_p)
    _fill(ask, device, properties, [])
    version = properties.api >> 12 & 0x3FF if properties.api >> 22 & 0x7F == 1 else 99
    if version < 1:
        return None

    def known(core: int, extension: str) -> bool:
        return version >= core or extension in extensions

    identity, subgroups = _Identity(1000071004), _Subgroups(1000094000)
    range_ = _SubgroupSizes(1000225000)
    has_range = known(3, "VK_EXT_subgroup_size_control")
    _fill(ask, device, properties, [identity, subgroups, *([range_] if has_range else [])])
    sizes = (range_.smallest, range_.largest) if has_range else (subgroups.size, subgroups.size)
    limits = properties.limits
    has = _switches(lookup, instance, device, known)
    has |= {name for name, bits in _OPERATIONS.items()
            if subgroups.stages & _COMPUTE and subgroups.operations & bits == bits}
    matrices = _matrices(lookup, instance, device) if "cooperativeMatrix" in has else frozenset()
    spirv = {1: 4 if "VK_KHR_spirv_1_4" in extensions else 3, 2: 5}.get(version, 6)
    return Features(
        properties.name.decode("utf-8", "replace"),
        _KINDS[properties.type] if 0 <= properties.type < len(_KINDS) else "other",
        bytes(identity.deviceUUID).hex(), (1, spirv), frozenset(has), sizes, matrices,
        tuple(limits.sizes), limits.threads, limits.memory, tuple(limits.counts))


def _fill(ask: Callable[..., Any], device: Any, first: Any, others: Sequence[Any]) -> None:
    """Ask with a chain of structures."""
    for one, following in zip([first, *others], others):
        one.pNext = ctypes.addressof(following)
    ask(device, byref(first))


def _switches(lookup: _Lookup, instance: Any, device: Any,
              known: Callable[[int, str], bool]) -> set[str]:
    rows = {name: row for name, row in VULKAN_SWITCHES.items() if known(*row[2:])}
    numbers = dict.fromkeys([_FEATURES2, *(number for number, *_ in rows.values())])
    asked: dict[int, Any] = {number: _Switches(number) for number in numbers}
    ask = _function(lookup, instance, "vkGetPhysicalDeviceFeatures2", _HANDLE, ctypes.c_void_p)
    first, *others = asked.values()
    _fill(ask, device, first, others)
    return {name for name, (number, place, *_) in rows.items() if asked[number].switches[place]}


def _matrices(lookup: _Lookup, instance: Any, device: Any) -> frozenset[str]:
    try:
        function = _function(lookup, instance, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR",
                             _HANDLE, POINTER(c_uint32), ctypes.c_void_p)
    except _Unknown:
        return frozenset()
    found = _listed(functools.partial(function, device), _Matrix,
                    lambda: _Matrix(1000506001))
    return frozenset(
        f"{_COMPONENTS[p.c]}_{p.m}x{p.n}x{p.k}_{_COMPONENTS[p.a]}" for p in found
        if p.scope == _SUBGROUP_SCOPE and not p.saturating and p.a == p.b and p.c == p.result
        and max(p.a, p.c) < len(_COMPONENTS))
