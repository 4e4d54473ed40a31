"""calque.ffi: kernels for GPUs where there is none: compiled for CUDA, and refused where they must.

tests/carry.py takes the same kernels (tests/support/ffi_kernels.py) to a machine with a card.
"""
from __future__ import annotations

import json
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import ffi_kernels as kernels

import calque
from calque import aot, ffi
from calque.lowering.kernels import nvrtc, spirv
from calque.lowering.target.targets import parse_target
from calque.runtime import ArtifactError, Device, cuda
from calque.runtime.aot import read_parts
from calque.runtime.target import check_target

S = calque.ShapeDtypeStruct
needs_nvrtc = pytest.mark.skipif(nvrtc.library() is None, reason="no NVRTC: calque[cuda]")
PTX = """
.version 7.0
.target sm_70
.address_size 64
.visible .entry half(.param .u64 x, .param .u64 y, .param .f32 by, .param .b32 n)
{ ret; }
.visible .entry wide(.param .u64 .ptr .global .align 4 x, .param .u64 y, .param .f64 by) { ret; }
.visible .entry box(.param .align 8 .b8 x[16], .param .u64 y) { ret; }
.visible .entry few(.param .u64 x, .param .u64 y) .maxntid 128, 1, 1 { ret; }
.visible .entry exact(.param .u64 x, .param .u64 y) .reqntid 32 { ret; }
"""


@needs_nvrtc
def test_every_case_compiles_for_sm_80(tmp_path: Path) -> None:
    kernels.register("cuda")
    with calque.enable_x64(True):
        found = kernels.cases()
        made = aot.compile(lambda every: [c["f"](*xs) for c, xs in zip(found, every)],
                           [[S(a.shape, a.dtype) for a in c["args"]] for c in found],
                           targets="cuda:sm_80", name="suite")
    ((_, (record,)),) = read_parts(made.vmfb)
    assert record.target["features"] == ["ptx=7.6", "sm=8.0", f"ptx={_version(made.vmfb)}"]
    for entry in (b"scale", b"least_of", b"turn", b"reverse"):
        assert b".visible .entry " + entry + b"(" in made.vmfb
    if shutil.which("ptxas"):  # CUDA's own assembler takes what was put in
        at = made.vmfb.index(b".visible .entry turn(")
        start = made.vmfb.rindex(b".version", 0, at)
        text = made.vmfb[start:made.vmfb.index(b"\0", at)]
        (tmp_path / "turn.ptx").write_bytes(text)
        subprocess.run(["ptxas", "--gpu-name=sm_80", "-o", tmp_path / "turn.cubin",
                        tmp_path / "turn.ptx"], check=True, capture_output=True)


def _version(vmfb: bytes) -> str:
    text = vmfb[:vmfb.index(b".visible .entry turn(")]
    return text[text.rindex(b".version ") + 9:].split()[0].decode()


def test_ptx_text_and_its_record() -> None:
    """The words that a dispatch gets, by the types of the parameters; the version."""
    ffi.register_ffi_target("half", ffi.Kernel(
        PTX, "half", scalars=lambda i, o, by: (by, -2), block=(32, 2), shared_memory=100_000),
        "cuda")
    x = S((5,), np.float32)
    traced = aot.trace(lambda x: ffi.ffi_call("half", x)(x, by=0.5), x, name="f")
    from calque.lowering.driver.module import module_text
    lowered = aot.lower_for(traced, parse_target("cuda:sm_80"))
    assert lowered.module is not None and lowered.needs == ("ptx=7.0",)
    text = module_text(lowered.module)
    assert f"constant {struct.unpack('<i', struct.pack('<f', 0.5))[0]} : i32" in text
    assert "constant -2 : i32" in text and "workgroup_local_memory = 100000" in text
    assert "workgroup_size = [32 : index, 2 : index, 1 : index]" in text
    record = json.loads(text.split('calque.signature = "')[1].split('"}')[0].replace("\\22", '"'))
    assert record["target"]["features"] == ["ptx=7.6", "sm=8.0", "ptx=7.0"]


def test_a_driver_that_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    card = Device("cuda", 0, "Some card", "GPU-0")
    for needed, driver, refused in ((["ptx=8.8"], (12, 4), True), (["ptx=8.4"], (12, 4), False),
                                    (["ptx=8.8"], (14, 1), False), (["ptx=8.8"], None, False),
                                    (["ptx=7.0"], (10, 2), True), ([], (10, 2), False)):
        monkeypatch.setattr(cuda, "driver_version", lambda driver=driver: driver)
        target = {"backend": "cuda", "name": "cuda:sm_80", "features": needed}
        if not refused:
            check_target(target, card, "f.vmfb")
            continue
        with pytest.raises(ArtifactError) as caught:
            check_target(target, card, "f.vmfb")
        newest = {(12, 4): "8.4", (10, 2): "6.5"}[driver]
        said = str(caught.value)
        assert (f"needs what cuda:0 (Some card) lacks: PTX {needed[0][4:]} (the driver, of CUDA "
                in said)
        assert f"reads up to {newest})" in said and "Fix: " in said


@pytest.mark.parametrize("card, refused", [((7, 5), True), ((8, 0), True), ((9, 0), False),
                                           ((12, 1), False), (None, False)])
def test_a_card_that_is_too_old(card: Any, refused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "driver_version", lambda: (12, 9))
    monkeypatch.setattr(cuda, "capability", lambda index: card)
    target, place = parse_target("cuda:h200").record(), Device("cuda", 0, "Tesla T4", "GPU-0")
    assert target["name"] == "cuda:sm_90" and target["features"] == ["ptx=8.0", "sm=9.0"]
    if not refused:
        check_target(target, place, "f.vmfb")
        return
    with pytest.raises(ArtifactError, match=(
            rf"(?s)needs what cuda:0 \(Tesla T4\) lacks: compute capability 9.0 \(the card has "
            rf"{card[0]}.{card[1]}\).*\n  In f.vmfb.\n  Fix: compile it for this card .*cuda:host"
            )):
        check_target(target, place, "f.vmfb")


SOURCE = 'extern "C" __global__ void f(const float *x, float *y) { y[0] = x[0]; }'
BAD_CUDA: dict[str, tuple[Any, str, dict[str, Any], str]] = {  # source, entry, more, words
    "no entry": (PTX, "third", {}, "has no entry 'third' (it has: box, exact, few, half, wide)"),
    "no PTX": (b".version 7.0\n.entry f() { }", "f", {}, "has no .version and .target"),
    "a dict": ({"x86-64": b""}, "f", {}, "is a dict of objects"),
    "no block": (PTX, "few", {"block": None}, "has no block"),
    "parameters": (PTX, "half", {}, "has 4 parameters; the call gives 2 arrays and 0 scalars"),
    "64 bits": (PTX, "wide", {"scalars": lambda i, o: (1.0,)}, "scalar 0 of 'bad' is .f64"),
    "by value": (PTX, "box", {}, "parameter 0 of 'bad' is .array, and gets an array"),
    "too large": (PTX, "half", {"scalars": lambda i, o: (1.0, 1 << 31)}, "does not fit in int32"),
    "threads": (PTX, "few", {"block": (128, 2)}, "has 128 x 2 x 1 threads, and its PTX says 128"),
    "other threads": (PTX, "exact", {"block": 64}, "its PTX says 32"),
    "many threads": (PTX, "few", {"block": (8, 8, 65)}, "8 x 8 x 65 threads; cuda:sm_80 allows"),
    "memory": (PTX, "few", {"shared_memory": 1 << 20}, "asks for 1048576 more"),
    "less than none": (PTX, "few", {"shared_memory": lambda i, o: -1}, "number of bytes, got -1"),
    "grid": (PTX, "few", {"grid": lambda i, o: (1, 1 << 16)}, "the grid of 'bad' is (1, 65536)"),
    "four axes": (PTX, "few", {"grid": lambda i, o: (1, 1, 1, 1)}, "one to three ints from 0 on"),
    "newer chip": (PTX.replace("sm_70", "sm_90"), "few", {}, "for sm_90, and the target is sm_80"),
    "one chip": (PTX.replace("sm_70", "sm_75a"), "few", {}, "for sm_75a, and the target is sm_80")}


@pytest.mark.parametrize("what", BAD_CUDA)
def test_cuda_that_cannot_be_used(what: str) -> None:
    source, entry, more, words = BAD_CUDA[what]
    ffi.register_ffi_target("bad", ffi.Kernel(source, entry, **{"block": 64, **more}), "cuda")
    refused(words, "cuda:sm_80")


def refused(words: str, target: str) -> None:
    x = S((3,), np.float32)
    with pytest.raises((ValueError, TypeError, OverflowError)) as error:
        aot.compile(lambda x: ffi.ffi_call("bad", x)(x), x, targets=target)
    assert words in str(error.value) and "'bad'" in str(error.value)
    assert "\n  In " in str(error.value) and "test_ffi_gpu.py:" in str(error.value)
    assert "\n  Fix: " in str(error.value)


@needs_nvrtc
@pytest.mark.parametrize("source, words", [
    (SOURCE.replace("x[0]", "z[0]"), 'kernel.cu(1): error: identifier "z" is undefined'),
    (SOURCE.replace('extern "C" ', ""), "has no entry 'f' (it has: _Z1fPKfPf)"),
    (SOURCE.replace("const float *x", "float x").replace("x[0]", "x"), "0 of 'bad' is .f32")])
def test_cuda_c_that_cannot_be_used(source: str, words: str) -> None:
    ffi.register_ffi_target("bad", ffi.Kernel(source, "f", block=64), "cuda")
    refused(words, "cuda:sm_80")


def test_no_nvrtc(monkeypatch: pytest.MonkeyPatch) -> None:
    ffi.register_ffi_target("bad", ffi.Kernel(SOURCE, "f", block=64), "cuda")
    monkeypatch.setattr(nvrtc, "library", lambda: None)
    x = S((3,), np.float32)
    with pytest.raises(RuntimeError, match="NVRTC is not here(.|\n)*Fix: install it .pip install"):
        aot.compile(lambda x: ffi.ffi_call("bad", x)(x), x, targets="cuda:sm_80")


def module(version: int = 0x10300, model: int = 5, more: tuple[int, ...] = (), cut: int = 0,
           capability: int = 1) -> bytes:
    """A SPIR-V module of one empty shader, `f`, with LocalSize 8 1 1."""
    def op(code: int, *words: int) -> list[int]:
        return [len(words) + 1 << 16 | code, *words]
    name = struct.unpack("<I", b"f\0\0\0")[0]
    words = [0x07230203, version, 0, 10, 0, *op(17, capability), *op(14, 0, 1),
             *op(15, model, 4, name), *op(16, 4, 17, 8, 1, 1), *more,
             *op(19, 2), *op(33, 3, 2), *op(54, 2, 4, 0, 3), *op(248, 5), *op(253), *op(56)]
    code = struct.pack(f"<{len(words)}I", *words)
    return code[:len(code) - cut]


BAD_SPIRV = {  # bytes, entry, words
    "no SPIR-V": (b"GLSL" * 8, "f", "does not begin with SPIR-V's magic number"),
    "short": (module()[:19], "f", "its length is no multiple of 4, or below 20 bytes"),
    "damaged": (module(more=(9 << 16 | 43, 1)), "f", "is damaged at word"),
    "cut": (module(cut=8), "f", "ends within a function"),
    "no entry": (module(), "g", "has no compute shader 'g' (it has: f)"),
    "no compute shader": (module(model=4), "f", "has no compute shader 'f' (it has: none)"),
    "no result": (module(), "f", "has no binding 1, which is result 0; it has none"),
    "version": (module(version=0x10600), "f", "is of version 1.6, and "),
    "capability": (module(capability=11), "f", "needs the capability Int64"),
    "unknown": (module(capability=5055), "f", "needs the capability number 5055")}


@pytest.mark.parametrize("what", BAD_SPIRV)
def test_spirv_that_cannot_be_used(what: str) -> None:
    source, entry, words = BAD_SPIRV[what]
    ffi.register_ffi_target("bad", ffi.Kernel(source, entry), "vulkan")
    refused(words, "vulkan:vp_android_baseline_2022")


def test_damaged_modules_are_read_or_refused() -> None:
    """Whatever bytes are changed: what is read has the shape of a module, or it is NotReadable."""
    rng = np.random.default_rng(0)
    good, read = np.frombuffer(module(), np.uint8), 0
    for _ in range(3000):
        code = good.copy()
        code[rng.integers(20, code.size, 2)] = rng.integers(0, 256, 2)
        try:
            read += len(spirv.read(code.tobytes(), "f").block) == 3
        except spirv.NotReadable:
            pass
    assert 0 < read < 3000


def test_a_target_without_a_kernel_is_named() -> None:
    ffi.register_ffi_target("of two", kernels.SCALE["cpu"], "cpu")
    ffi.register_ffi_target("of two", kernels.SCALE["vulkan"], "Vulkan")
    x = S((3,), np.float32)
    with pytest.raises(NotImplementedError) as error:
        aot.compile(lambda x: ffi.ffi_call("of two", x)(x, by=2.0), x,
                    targets=["cpu:x86-64-v3", "cuda:sm_80"])
    assert "'of two' has no kernel for cuda; it has: cpu, vulkan." in str(error.value)
    assert "test_ffi_gpu.py:" in str(error.value) and "Fix: " in str(error.value)
