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


# What a record's words (lowering/vulkan.py) ask for, by Vulkan's names.
NAMES = {"fp64": "shaderFloat64", "fp16": "shaderFloat16", "int64": "shaderInt64",
         "int16": "shaderInt16", "int8": "shaderInt8", "b16": "storageBuffer16BitAccess",
         "b8": "storageBuffer8BitAccess", "dp4xi8toi32": "shaderIntegerDotProduct",
         "shuffle": "subgroup shuffles", "arithmetic": "subgroup arithmetic"}


def missing(needed: Sequence[str], device: Features) -> list[str]:
    """What code may use and a device has not, in words of Vulkan's (words unknown here are not
    looked at: what a newer calque writes is for it to check)."""
    lacking: list[str] = []
    for word in dict.fromkeys(needed):
        key, _, value = word.partition("=")
        if word in NAMES and NAMES[word] not in device.has:
            lacking.append(NAMES[word])
        elif value:
            lacking += _beyond(key, value, device)
    matrices = [m for w in dict.fromkeys(needed) if w.startswith("matrix=")
                and (m := w.removeprefix("matrix=")) and m not in device.matrices]
    return [*lacking, *([f"cooperative matrices {' and '.join(matrices)}"] if matrices else [])]


def words(device: Features) -> list[str]:
    """What a device has, in the words that `missing` reads: a target is made of them."""
    return [f"spirv={_version(device.spirv)}",
            *[word for word, name in NAMES.items() if name in device.has],
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

class _Chained(ctypes.Structure):
    """A structure of Vulkan's that extends a query: `number` is its VkStructureType; `core` the
    version of Vulkan (1.x) and `extension` what else makes it known."""

    number = 0
    core = 0
    extension = ""


def _chained(number: int, core: int, extension: str, fields: dict[str, Any]) -> type[_Chained]:
    head = [("sType", c_int32), ("pNext", ctypes.c_void_p)]
    return type("_Structure", (_Chained,), {
        "number": number, "core": core, "extension": extension,
        "_fields_": [*head, *fields.items()]})


def _bools(text: str) -> dict[str, Any]:
    return dict.fromkeys(text.split(), c_uint32)


# 55 switches, of which code uses the three that have names here (shaderFloat64 is the 40th)
_FEATURES = {"before": c_uint32 * 39, **_bools("shaderFloat64 shaderInt64 shaderInt16"),
             "after": c_uint32 * 13}
_Features2 = _chained(1000059000, 1, "", _FEATURES)
_FEATURE_STRUCTURES = (
    _chained(1000083000, 1, "VK_KHR_16bit_storage", _bools(
        "storageBuffer16BitAccess uniform16 storagePushConstant16 storageInputOutput16")),
    _chained(1000177000, 2, "VK_KHR_8bit_storage", _bools(
        "storageBuffer8BitAccess uniform8 storagePushConstant8")),
    _chained(1000082000, 2, "VK_KHR_shader_float16_int8", _bools("shaderFloat16 shaderInt8")),
    _chained(1000280000, 3, "VK_KHR_shader_integer_dot_product", _bools(
        "shaderIntegerDotProduct")),
    _chained(1000506000, 99, "VK_KHR_cooperative_matrix", _bools("cooperativeMatrix robust")),
)
_SIXTEEN = c_uint8 * 16
_Identity = _chained(1000071004, 1, "", {
    "deviceUUID": _SIXTEEN, "driverUUID": _SIXTEEN, "deviceLUID": c_uint8 * 8,
    **_bools("deviceNodeMask deviceLUIDValid")})
_Subgroups = _chained(1000094000, 1, "", _bools("size stages operations quad"))
_SubgroupSizes = _chained(1000225000, 3, "VK_EXT_subgroup_size_control", _bools(
    "smallest largest count required"))
_COMPUTE = 0x20  # VK_SHADER_STAGE_COMPUTE_BIT
_OPERATIONS = {"subgroup arithmetic": 0x4, "subgroup shuffles": 0x30}  # VkSubgroupFeatureFlagBits


class _Limits(ctypes.Structure):
    """The first half of VkPhysicalDeviceLimits."""

    _fields_ = (("images", c_uint32 * 11), ("spaces", c_uint64 * 2), ("resources", c_uint32 * 38),
                ("memory", c_uint32), ("counts", c_uint32 * 3), ("threads", c_uint32),
                ("sizes", c_uint32 * 3))


class _Properties2(_Chained):
    """VkPhysicalDeviceProperties2, with room behind for the rest of it (280 bytes)."""

    number = 1000059001
    _fields_ = (("sType", c_int32), ("pNext", ctypes.c_void_p), ("api", c_uint32),
                ("driver", c_uint32), ("vendor", c_uint32), ("device", c_uint32), ("type", c_int32),
                ("name", c_char * 256), ("cache", _SIXTEEN), ("limits", _Limits),
                ("behind", c_uint64 * 64))


_Matrix = _chained(1000506001, 99, "", _bools("m n k a b c result saturating scope"))
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
    properties = _Properties2()
    ask = _function(lookup, instance, "vkGetPhysicalDeviceProperties2", _HANDLE, ctypes.c_void_p)
    _fill(ask, device, properties, [])
    version = properties.api >> 12 & 0x3FF if properties.api >> 22 & 0x7F == 1 else 99
    if version < 1:
        return None

    def known(kind: type[_Chained]) -> bool:
        return version >= kind.core or kind.extension in extensions

    identity, subgroups, range_ = _Identity(), _Subgroups(), _SubgroupSizes()
    has_range = known(_SubgroupSizes)
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
    chain = [first, *others]
    for one, following in zip(chain, [*others, None]):
        one.sType = one.number
        one.pNext = None if following is None else ctypes.addressof(following)
    ask(device, byref(first))


def _switches(lookup: _Lookup, instance: Any, device: Any,
              known: Callable[[type[_Chained]], bool]) -> set[str]:
    first, others = _Features2(), [s() for s in _FEATURE_STRUCTURES if known(s)]
    ask = _function(lookup, instance, "vkGetPhysicalDeviceFeatures2", _HANDLE, ctypes.c_void_p)
    _fill(ask, device, first, others)
    wanted = {*NAMES.values(), "cooperativeMatrix"}
    return {name for s in (first, *others) for name, *_ in s._fields_
            if name in wanted and getattr(s, name)}


def _matrices(lookup: _Lookup, instance: Any, device: Any) -> frozenset[str]:
    try:
        function = _function(lookup, instance, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR",
                             _HANDLE, POINTER(c_uint32), ctypes.c_void_p)
    except _Unknown:
        return frozenset()
    found = _listed(functools.partial(function, device), _Matrix,
                    lambda: _Matrix(_Matrix.number, None))
    return frozenset(
        f"{_COMPONENTS[p.c]}_{p.m}x{p.n}x{p.k}_{_COMPONENTS[p.a]}" for p in found
        if p.scope == _SUBGROUP_SCOPE and not p.saturating and p.a == p.b and p.c == p.result
        and max(p.a, p.c) < len(_COMPONENTS))
