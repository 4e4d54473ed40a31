"""What a Vulkan device has, what code may use, and the refusal of what does not fit.

The first part needs no device: made-up ones, and a loader that is Python.  The second runs on any
Vulkan device (`pytest -m vulkan`; Debian: libvulkan1 and mesa-vulkan-drivers).
"""
from __future__ import annotations

import ctypes
import dataclasses
from typing import Any

import iree.runtime as rt
import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import aot
from calque.dispatch import eager
from calque.lowering.compiler.compile import run_compiler
from calque.lowering.target import targets
from calque.lowering.target import vulkan as text
from calque.lowering.target.targets import Target, parse_target, vulkan_target
from calque.runtime import ArtifactError, Device, vulkan
from calque.runtime.features import VULKAN, VULKAN_SWITCHES
from calque.runtime.target import check_target
from calque.runtime.vulkan import Features, missing, words

# what lavapipe of Mesa 22.3 says, and two made from it
LAVAPIPE = Features(
    "llvmpipe (LLVM 15.0.6, 256 bits)", "cpu", "6d65736132322e332e36000000000000", (1, 6),
    frozenset(VULKAN.values()), (8, 8), frozenset(), (1024, 1024, 1024), 1024, 32768,
    (65535, 65535, 65535))
DESKTOP = dataclasses.replace(
    LAVAPIPE, name="Desk", kind="discrete", uuid="0123456789abcdef" * 2, subgroups=(32, 32),
    matrices=frozenset(f"{c}_16x{n}x16_f16" for c in ("f16", "f32") for n in (8, 16)),
    sizes=(1024, 1024, 64), memory=49152, counts=(2**31 - 1, 65535, 65535))
PHONE = dataclasses.replace(
    DESKTOP, name="Phone", kind="integrated", spirv=(1, 5), subgroups=(64, 128),
    has=DESKTOP.has - {"shaderFloat64", "shaderInt64", "storageBuffer8BitAccess"},
    matrices=frozenset(), sizes=(512, 512, 64), threads=512, counts=(65535,) * 3)
INTEL = dataclasses.replace(DESKTOP, name="Arc", subgroups=(8, 32), matrices=frozenset(),
                            has=DESKTOP.has - {"shaderFloat64"})
PROFILES = tuple(f"vulkan:{p}" for p in targets._VULKAN_PROFILES)


# ---- words, attributes, comparisons

@pytest.mark.parametrize("word, device, said", [
    ("fp64", PHONE, "shaderFloat64"), ("int64", PHONE, "shaderInt64"),
    ("b8", PHONE, "storageBuffer8BitAccess"), ("fp64", DESKTOP, ""), ("fp32", PHONE, ""),
    ("spirv=1.6", PHONE, "SPIR-V 1.6 (the device takes 1.5)"), ("spirv=1.3", PHONE, ""),
    ("subgroup=32", LAVAPIPE, "subgroups of 32 (the device's are 8)"),
    ("subgroup=16", INTEL, "subgroups of 16 (the device's are 8 to 32)"),
    ("subgroup=32", PHONE, ""), ("subgroup=8", INTEL, ""),
    ("threads=1024", PHONE, "workgroups of 1024 threads (the device's have 512)"),
    ("memory=65536", DESKTOP, "65536 bytes of memory a workgroup (the device has 49152)"),
    ("sizes=1024,1024,1024", DESKTOP,
     "workgroups of 1024 x 1024 x 1024 threads (the device's: 1024 x 1024 x 64)"),
    ("counts=65536,1,1", PHONE,
     "65536 x 1 x 1 workgroups (the device takes 65535 x 65535 x 65535)"),
    ("matrix=f32_16x8x16_f16", LAVAPIPE, "cooperative matrices f32_16x8x16_f16"),
    ("matrix=f32_16x8x16_f16", DESKTOP, ""),
    # what nobody here knows, or what is no word
    ("cap:Shader", PHONE, ""), ("telepathy", PHONE, ""), ("threads=", PHONE, ""), ("", PHONE, ""),
    ("threads=many", PHONE, ""), ("=", PHONE, ""),
    ("memory=" + "9" * 5000, PHONE, f"{'9' * 5000} bytes of memory a workgroup (the device has "
     "49152)"),
])
def test_what_is_missing_is_named(word: str, device: Features, said: str) -> None:
    assert missing([word, word], device) == ([said] if said else [])


def test_nothing_is_missing_of_what_a_device_says() -> None:
    for device in (LAVAPIPE, DESKTOP, PHONE, INTEL):
        assert missing(words(device), device) == []
        target = vulkan_target(words(device), device.name, device.kind)
        assert missing(target.uses(), device) == []


def test_lavapipe_has_the_target_that_is_written_down() -> None:
    made = vulkan_target(words(LAVAPIPE), LAVAPIPE.name, LAVAPIPE.kind)
    assert made.spirv == parse_target("vulkan:lavapipe").spirv
    assert made.record()["arch"] == LAVAPIPE.name


def test_targets_use_what_is_said_and_no_more() -> None:
    phone, arc, desk = (vulkan_target(words(d), d.name, d.kind) for d in (PHONE, INTEL, DESKTOP))
    assert "compute = fp32|fp16|int32|int16|int8, storage = b32|b16, " in phone.spirv
    assert "subgroup = shuffle|arithmetic, dot = dp4xi8toi32, subgroup_size_choices = [64]" in (
        phone.spirv)
    assert "spirv:v1.5" in phone.spirv and "subgroup_size_choices = [8]" in arc.spirv
    assert "max_workgroup_counts = [2147483647, 65535, 65535]" in desk.spirv
    alone = dataclasses.replace(DESKTOP, has=frozenset(), subgroups=(1, 1), counts=(2**32 - 1,) * 3)
    bare = vulkan_target(words(alone), alone.name, alone.kind).spirv
    assert "compute = fp32|int32, storage = b32, subgroup = none, subgroup_size" in bare
    assert "max_workgroup_counts = [2147483647, 2147483647, 2147483647]" in bare
    assert [t.lacks(np.dtype(d)) for t in (phone, arc, desk) for d in ("f8", "i8", "f4")] == [
        True, True, False, True, False, False, False, False, False]


def test_iree_reads_the_attributes() -> None:
    made = [vulkan_target(words(d), d.name, d.kind) for d in (DESKTOP, PHONE, INTEL)]
    with calque.enable_x64(True):
        built = aot.compile(lambda x: (x * 2, x.sum()), "f32[256]", targets=made[:1])
        with pytest.raises(NotImplementedError, match="vulkan:host has no floats of 64 bits"):
            aot.compile(lambda x: x * 2, "f64[8]", targets=made[2])
        with pytest.raises(NotImplementedError, match="vulkan:host has no numbers of 64 bits"):
            aot.compile(lambda x: x * 2, "i64[8]", targets=made[1])
    (record,) = calque.runtime.aot.read_records(built.vmfb)
    assert set(words(DESKTOP)) - set(record.target["features"]) == {
        f"matrix={m}" for m in DESKTOP.matrices}
    assert record.target["arch"] == "Desk"


@pytest.mark.parametrize("name", PROFILES[1:])
def test_records_say_what_the_compiler_takes_for_a_profile(name: str) -> None:
    """All but limits, which are those of drivers."""
    said = run_compiler(b"func.func @f(%a: tensor<1xf32>) -> tensor<1xf32> "
                        b"{ return %a : tensor<1xf32> }", parse_target(name).flags(),
                        "executable-targets").decode().replace("\\22", '"')
    taken = text.words_of(said)
    assert taken == parse_target(name).uses() == tuple(parse_target(name).record()["features"])
    assert {"spirv=1.6", "cap:Shader"} <= {*taken, "spirv=1.6"} and "fp32" in taken
    kept = dict(w.split("=") for w in taken if "=" in w)
    assert int(kept["memory"]) <= 32768 and int(kept["sizes"].split(",")[2]) <= 64
    assert set(map(int, kept["counts"].split(","))) == {65535}
    narrow = name.split(":")[1] in ("vp_android_baseline_2022", "adreno", "valhall", "valhall4")
    assert [parse_target(name).lacks(np.dtype(d)) for d in ("f8", "i8", "c16", "c8")] == [
        narrow, narrow, narrow, False]


def test_profiles_and_the_devices_they_are_for() -> None:
    fits = {n: missing(parse_target(n).uses(), d) for n, d in (
        ("vulkan:ampere", DESKTOP), ("vulkan:turing", DESKTOP), ("vulkan:ada", DESKTOP),
        ("vulkan:lavapipe", LAVAPIPE), ("vulkan:vp_android_baseline_2022", LAVAPIPE),
        ("vulkan:rdna2", dataclasses.replace(DESKTOP, subgroups=(32, 64))))}
    assert fits == dict.fromkeys(fits, [])
    assert missing(parse_target("vulkan:rdna3").uses(), LAVAPIPE) == [
        "subgroups of 32 (the device's are 8)",
        "cooperative matrices f32_16x16x16_f16 and f16_16x16x16_f16 and i32_16x16x16_i8"]


def test_every_name_can_be_asked_for() -> None:
    asked = {*VULKAN_SWITCHES, *vulkan._OPERATIONS}
    assert asked == {*VULKAN.values(), "cooperativeMatrix"}
    assert all(0 <= place < 55 for _, place, _, _ in VULKAN_SWITCHES.values())


# ---- loading, with made-up devices

GPU = Device("vulkan", 3, "Desk (Some driver 1.2)", "GPU-01234567-89ab-CDEF-0123-456789abcdef")


def check(target: str | Target, monkeypatch: pytest.MonkeyPatch, *there: Features,
          why: str = "") -> None:
    monkeypatch.setattr(vulkan, "_all_devices", lambda: why or there)
    check_target(parse_target(target).record(), GPU, "f.vmfb")


def test_code_is_refused_where_the_device_lacks_something(monkeypatch) -> None:
    check("vulkan:ampere", monkeypatch, LAVAPIPE, DESKTOP)
    with pytest.raises(ArtifactError) as caught:
        check("vulkan:lavapipe", monkeypatch, dataclasses.replace(PHONE, uuid=DESKTOP.uuid))
    assert str(caught.value) == (
        "the artifact needs what vulkan:3 (Phone) lacks: SPIR-V 1.6 (the device takes 1.5), "
        "shaderFloat64, shaderInt64, storageBuffer8BitAccess, workgroups of 1024 x 1024 x 1024 "
        "threads (the device's: 512 x 512 x 64), workgroups of 1024 threads (the device's have "
        "512) (it is compiled for vulkan:lavapipe).\n  In f.vmfb.\n  Fix: compile it for this "
        "device: calque compile --target vulkan:host.")
    host = vulkan_target(words(DESKTOP), DESKTOP.name, DESKTOP.kind)
    with pytest.raises(ArtifactError, match=r"(?s)for vulkan:host, Desk\).*vulkan:lavapipe"):
        check(host, monkeypatch, dataclasses.replace(LAVAPIPE, uuid=DESKTOP.uuid))


@pytest.mark.parametrize("there, why, said", [
    ((), "there is no Vulkan loader", "there is no Vulkan loader"),
    ((LAVAPIPE,), "", "none of the loader's 1 devices may be Desk"),
    ((), "", "none of the loader's 0 devices"),
    ((dataclasses.replace(PHONE, uuid=DESKTOP.uuid), DESKTOP), "", "2 of the loader's 2 devices"),
])
def test_what_is_unknown_is_said_and_loads(there: Any, why: str, said: str, monkeypatch) -> None:
    with pytest.warns(RuntimeWarning, match=f"what vulkan:3 has is unknown, so .* needs: {said}"):
        check("vulkan:ampere", monkeypatch, *there, why=why)


def test_devices_are_found_by_number_or_by_name() -> None:
    twin = dataclasses.replace(DESKTOP, uuid="f" * 32)
    assert vulkan._match(GPU.path, "x", (twin, LAVAPIPE, DESKTOP)) is DESKTOP
    assert vulkan._match("", GPU.device_kind, (LAVAPIPE, DESKTOP)) is DESKTOP
    assert vulkan._match("", GPU.device_kind, (twin, DESKTOP)) == (
        "2 of the loader's 2 devices may be Desk (Some driver 1.2) ()")
    assert vulkan._match(GPU.path, "", "why not") == "why not"
    assert vulkan._match(GPU.path, "x", (DESKTOP, DESKTOP)) is DESKTOP  # two drivers of one


def test_records_without_words_load(monkeypatch) -> None:
    """What was compiled before they were written."""
    monkeypatch.setattr(vulkan, "_all_devices", lambda: pytest.fail("asked"))
    check_target({"backend": "vulkan-spirv", "name": "x"}, GPU, "f.vmfb")


def test_the_form_that_asks_most_is_taken(monkeypatch) -> None:
    monkeypatch.setattr(vulkan, "_all_devices", lambda: (DESKTOP,))
    forms = [(calque.runtime.aot.FunctionRecord("f", (), (), (), parse_target(n).record(), {}), n)
             for n in ("vulkan:vp_android_baseline_2022", "vulkan:ampere", "vulkan:lavapipe")]
    assert calque.runtime.variants.choose(forms, GPU, "f.vmfb")[1] == "vulkan:ampere"
    monkeypatch.setattr(vulkan, "_all_devices", lambda: (
        dataclasses.replace(LAVAPIPE, uuid=DESKTOP.uuid, memory=16384),))
    assert calque.runtime.variants.choose(forms, GPU, "f.vmfb")[1] == forms[0][1]


# ---- a loader made of Python

class Loader:
    """vkGetInstanceProcAddr of a loader with one device; functions in `without` are not there."""

    def __init__(self, version: int = 3, extensions: tuple[str, ...] = (), result: int = 0,
                 without: tuple[str, ...] = ()) -> None:
        self.version, self.extensions, self.result = version, extensions, result
        self.without, self.kept, self.destroyed = without, {}, 0

    def __call__(self, instance: Any, name: bytes) -> int | None:
        method = getattr(self, name.decode(), None)
        if method is None or name.decode() in self.without:
            return None
        count = method.__code__.co_argcount - 1
        self.kept[name] = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * count)(method)
        return ctypes.cast(self.kept[name], ctypes.c_void_p).value

    def vkCreateInstance(self, info: int, _: int, out: int) -> int:
        said = vulkan._InstanceInfo.from_address(info)
        assert said.sType == 1 and said.application[0].api >> 12 & 0x3FF == 3
        ctypes.c_void_p.from_address(out).value = 77
        return self.result

    def vkDestroyInstance(self, instance: int, _: int) -> int:
        self.destroyed += 1
        return 0

    def vkEnumeratePhysicalDevices(self, instance: int, count: int, out: int) -> int:
        assert instance == 77
        ctypes.c_uint32.from_address(count).value = 1
        if out:
            ctypes.c_void_p.from_address(out).value = 99
        return 0

    def vkEnumerateDeviceExtensionProperties(self, device: int, layer: int, count: int,
                                             out: int) -> int:
        assert device == 99 and not layer
        ctypes.c_uint32.from_address(count).value = len(self.extensions)
        for i, name in enumerate(self.extensions if out else ()):
            vulkan._Extension.from_address(out + 260 * i).name = name.encode()
        return 0

    def chain(self, first: int) -> dict[int, int]:
        found, address = {}, first
        while address:
            found[ctypes.c_int32.from_address(address).value] = address
            address = ctypes.c_uint64.from_address(address + 8).value
        return found

    def vkGetPhysicalDeviceProperties2(self, device: int, first: int) -> int:
        chain = self.chain(first)
        words_ = (ctypes.c_uint32 * 210).from_address(first)  # 840 bytes, as in the headers
        words_[4], words_[8] = 1 << 22 | self.version << 12, 2
        ctypes.memmove(first + 36, b"Made \xff up", 9)
        words_[132:140] = [49152, 100, 101, 102, 256, 128, 64, 32]  # at 528 = 312 + 216
        identity = (ctypes.c_uint8 * 16).from_address(chain[1000071004] + 16) if (
            1000071004 in chain) else [0] * 16
        identity[:] = list(range(16))
        if 1000094000 in chain:
            (ctypes.c_uint32 * 4).from_address(chain[1000094000] + 16)[:] = [32, 0x20, 0x37, 0]
        if 1000225000 in chain:
            assert self.version >= 3 or "VK_EXT_subgroup_size_control" in self.extensions
            (ctypes.c_uint32 * 4).from_address(chain[1000225000] + 16)[:] = [16, 64, 8, 0x20]
        return 0

    def vkGetPhysicalDeviceFeatures2(self, device: int, first: int) -> int:
        for number, address in self.chain(first).items():
            count = {1000059000: 55, 1000083000: 4, 1000177000: 3, 1000082000: 2}.get(number, 1)
            switches = (ctypes.c_uint32 * count).from_address(address + 16)
            switches[:] = [1] * count
            if number == 1000059000:
                switches[40] = 0  # shaderInt64
        return 0

    def vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR(self, device: int, count: int,
                                                          out: int) -> int:
        rows = ([16, 8, 16, 0, 0, 1, 1, 0, 3], [16, 16, 32, 3, 3, 5, 5, 0, 3],
                [8, 8, 8, 0, 0, 1, 1, 0, 2], [4, 4, 4, 1000141000, 1000141000, 1, 1, 0, 3])
        ctypes.c_uint32.from_address(count).value = len(rows)
        for i, row in enumerate(rows if out else ()):
            assert ctypes.c_int32.from_address(out + 56 * i).value == 1000506001
            (ctypes.c_uint32 * 9).from_address(out + 56 * i + 16)[:] = row
        return 0


def test_the_loader_is_asked_by_the_headers_offsets() -> None:
    loader = Loader(extensions=("VK_KHR_cooperative_matrix",))
    (found,) = vulkan._ask(loader)
    assert found == Features(
        "Made \N{REPLACEMENT CHARACTER} up", "discrete", bytes(range(16)).hex(), (1, 6),
        frozenset({*VULKAN.values(), "cooperativeMatrix"} - {"shaderInt64"}), (16, 64),
        frozenset(["f32_16x8x16_f16", "i32_16x16x32_i8"]), (128, 64, 32), 256, 49152,
        (100, 101, 102))
    assert loader.destroyed == 1 and "subgroups of 16 to 64" in str(found)


def test_older_devices_are_asked_what_they_know() -> None:
    (one,) = vulkan._ask(Loader(1))
    assert one.spirv == (1, 3) and one.subgroups == (32, 32) and not one.matrices
    assert one.has == {"shaderFloat64", "shaderInt16", "storageBuffer16BitAccess",
                       "subgroup shuffles", "subgroup arithmetic"}
    (more,) = vulkan._ask(Loader(1, ("VK_KHR_spirv_1_4", "VK_KHR_8bit_storage",
                                     "VK_EXT_subgroup_size_control")))
    assert more.spirv == (1, 4) and more.subgroups == (16, 64)
    assert more.has - one.has == {"storageBuffer8BitAccess"}
    assert vulkan._ask(Loader(2))[0].spirv == (1, 5)
    assert vulkan._ask(Loader(0)) == ()


@pytest.mark.parametrize("loader, why", [
    (Loader(result=-9), r"no instance of version 1.3 \(VkResult -9\)"),
    (Loader(without=("vkCreateInstance",)), "too old: it has no vkCreateInstance"),
    (Loader(without=("vkGetPhysicalDeviceProperties2",)), "too old: it has no vkGetPhysicalDevice"),
    (None, "there is no Vulkan loader"),
    (lambda *_: 1 / 0, "could not be asked: ZeroDivisionError"),
])
def test_loaders_that_do_not_answer(loader: Any, why: str, monkeypatch) -> None:
    if loader is None:
        monkeypatch.setattr(vulkan, "_ELSEWHERE", ("libnothing.so.9",))
        monkeypatch.setattr(vulkan, "_LIBRARIES", {})
    else:
        monkeypatch.setattr(vulkan, "_open", lambda: loader)
    said = vulkan._all_devices.__wrapped__()
    with pytest.raises(AssertionError, match=why):
        raise AssertionError(said)


def test_without_devices_the_target_is_an_error_and_the_narrowest(monkeypatch) -> None:
    def none(platform: str) -> Any:
        raise RuntimeError("Unable to initialize backend 'vulkan': no device found.")

    monkeypatch.setattr(eager, "devices", none)
    with pytest.raises(targets.TargetError, match="'vulkan:host': Unable to initialize"):
        aot.compile(jnp.negative, "f32[2]", targets="vulkan:host")
    monkeypatch.setattr(vulkan, "_all_devices", lambda: "nobody knows")
    assert eager.target_of(GPU).name == "vulkan:vp_android_baseline_2022"
    lavapipe = Device("vulkan", 0, "llvmpipe (LLVM 15)", "")
    assert eager.target_of(lavapipe).name == "vulkan:lavapipe"


# ---- with a device

@pytest.fixture(scope="module")
def device() -> Device:
    try:
        return calque.devices("vulkan")[0]
    except RuntimeError as error:
        pytest.skip(f"no Vulkan device here: {str(error).splitlines()[0]}")


@pytest.fixture(scope="module")
def small(device: Device) -> Features:
    """A device whose subgroups are smaller than 16."""
    there = vulkan.features_of(device)
    if isinstance(there, str) or there.subgroups[1] >= 16:
        pytest.skip(f"subgroups of {device} are not smaller than 16: {there}")
    return there


@pytest.mark.vulkan
def test_what_is_asked_is_what_iree_says(device: Device) -> None:
    there = vulkan.features_of(device)
    assert isinstance(there, Features)
    driver = rt.get_driver("vulkan")
    info = driver.query_available_devices()[device.id]
    said = driver.dump_device_info(info["device_id"])
    assert f"name: {there.name}\n" in said and f"device_uuid: {there.uuid}\n" in said
    low, high = there.subgroups
    assert f"minSubgroupSize={low} maxSubgroupSize={high} " in said
    for word in ("storageBuffer8BitAccess", "storageBuffer16BitAccess", "shaderInt8",
                 "shaderFloat16", "shaderIntegerDotProduct"):
        assert f"{word}={'yes' if word in there.has else 'no'} " in said
    assert missing(eager.target_of(device).uses(), there) == []
    if "llvmpipe" in there.name:
        assert eager.target_of(device).spirv == parse_target("vulkan:lavapipe").spirv


@pytest.mark.vulkan
def test_an_artifact_for_this_device_runs_and_others_are_refused(device, small, tmp_path) -> None:
    many = aot.compile(lambda x: x.max(1), "f32[64,1024]", name="f", targets=[
        "vulkan:valhall", "vulkan:host"])
    x = np.random.default_rng(0).standard_normal((64, 1024)).astype(np.float32)
    loaded = aot.load(many.vmfb, device=device)
    assert loaded.functions["f"].target["name"] == "vulkan:host"
    np.testing.assert_array_equal(loaded.f(x)[0].numpy(), x.max(1))
    one = aot.compile(lambda x: x.max(1), "f32[64,1024]", name="f", targets="vulkan:valhall")
    low = small.subgroups[0]
    with pytest.raises(ArtifactError, match=rf"lacks: subgroups of 16 \(the device's are {low}\)"):
        aot.load(one.vmfb, device=device)


@pytest.mark.vulkan
def test_code_for_larger_subgroups_is_wrong(device, small, monkeypatch) -> None:
    """Fails when IREE refuses it itself, or when it became right: then less need be refused."""
    monkeypatch.setattr(vulkan, "missing", lambda needed, there: [])
    made = aot.compile(lambda x: x @ x[0], "f32[256,256]", name="f", targets="vulkan:valhall")
    x = np.random.default_rng(0).standard_normal((256, 256)).astype(np.float32)
    got, want = aot.load(made.vmfb, device=device).f(x)[0].numpy(), x @ x[0]
    assert np.abs(got - want).max() > 0.1 * np.abs(want).max()


@pytest.mark.vulkan
@pytest.mark.parametrize("size", [2, 4, 8])
def test_code_for_smaller_subgroups_is_right(device, small, size: int) -> None:
    """Why `missing` compares with the smallest size only."""
    if size > small.subgroups[0]:
        pytest.skip("larger than this device's")
    said = [w for w in words(small) if not w.startswith("subgroup=")]
    target = vulkan_target([*said, f"subgroup={size}"], "GPU", "discrete")
    assert "shuffle|arithmetic" in target.spirv
    made = aot.compile(lambda x: (x.max(1), jnp.exp(x) / jnp.exp(x).sum(1, keepdims=True),
                                  x @ x[0]), "f32[64,1024]", name="f", targets=target)
    x = np.random.default_rng(0).standard_normal((64, 1024)).astype(np.float32)
    top, soft, product = (b.numpy() for b in aot.load(made.vmfb, device=device).f(x))
    wide = np.exp(x.astype(np.float64))
    np.testing.assert_array_equal(top, x.max(1))
    # sums of 1024 rounded terms; the products' are of both signs
    np.testing.assert_allclose(soft, wide / wide.sum(1, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(product, x.astype(np.float64) @ x[0], rtol=0, atol=1e-3)
