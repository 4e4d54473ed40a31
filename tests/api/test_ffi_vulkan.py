"""calque.ffi: GLSL and SPIR-V inside programs on a Vulkan device (Debian: apt-get install
mesa-vulkan-drivers libvulkan1 glslang-tools); the oracle is NumPy.
"""
from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import ffi_kernels as kernels

import calque
import calque.numpy as jnp
from calque import aot, ffi

pytestmark = pytest.mark.vulkan
S = calque.ShapeDtypeStruct


@pytest.fixture(scope="module")
def device() -> Any:
    if shutil.which("glslangValidator") is None:
        pytest.skip("no glslangValidator here")
    try:
        found = calque.devices("vulkan")[0]
    except RuntimeError as error:
        pytest.skip(f"no Vulkan device here: {str(error).splitlines()[0]}")
    kernels.register("vulkan")
    kernels.register("cpu")
    kernels.register("cuda")
    return found


def same(got: Any, want: Any) -> None:
    got, want = np.asarray(got), np.asarray(want)
    assert (got.shape, got.dtype, got.tobytes()) == (want.shape, want.dtype, want.tobytes())


def test_every_case_in_one_program(device: Any) -> None:
    with calque.enable_x64(True):
        found = kernels.cases()
        given = [[calque.device_put(a, device) for a in c["args"]] for c in found]
        outs = calque.jit(lambda every: [c["f"](*xs) for c, xs in zip(found, every)])(given)
    for c, out in zip(found, outs):
        assert len(out) == len(c["wants"]), c["name"]
        for got, want in zip(out, c["wants"]):
            same(got, want)


def test_eagerly_and_elsewhere(device: Any) -> None:
    x = np.arange(100, dtype=np.float32)
    y = kernels.scale(calque.device_put(x, device))
    assert y.devices() == {device}
    same(y, x * np.float32(2.5))
    same(kernels.scale(jnp.asarray(x)), x * np.float32(2.5))  # the kernel in C
    ffi.register_ffi_target("gpu scale", lambda x, by: x * by, platform="default")
    ffi.check("gpu scale", calque.device_put(x, device), by=2.0)
    ffi.check("gpu scale", x, by=2.0)
    ffi.register_ffi_target("wrong scale", kernels.SCALE["vulkan"], "vulkan")
    ffi.register_ffi_target("wrong scale", lambda x, by: x * by + (x == 3), platform="default")
    with pytest.raises(AssertionError, match="result 0 of the kernel"):
        ffi.check("wrong scale", calque.device_put(x, device), by=2.0)
    with pytest.raises(ValueError, match="must have a kernel and a form elsewhere .*on cpu:0"):
        ffi.check("wrong scale", x, by=2.0)


def test_what_a_shader_needs_beyond_the_target(device: Any, monkeypatch: pytest.MonkeyPatch
                                               ) -> None:
    """Sums of subgroups are asked of the device, at the call and when an artifact is loaded."""
    from calque.runtime import ArtifactError, vulkan
    source = """#version 450
#extension GL_KHR_shader_subgroup_arithmetic : require
layout(local_size_x = 64) in;
""" + kernels.buffers("float x", "out float y") + """
void main() {
  float sum = subgroupAdd(x[gl_GlobalInvocationID.x]);
  y[gl_GlobalInvocationID.x] = sum * gl_SubgroupSize;
}"""
    ffi.register_ffi_target("subgroups", ffi.Kernel(source, "main"), "vulkan")

    def f(x: Any) -> Any:
        return ffi.ffi_call("subgroups", S(x.shape, x.dtype))(x)
    x = np.arange(64, dtype=np.float32)
    size = vulkan.features_of(device).subgroups[0]
    want = np.repeat(x.reshape(-1, size).sum(1), size) * np.float32(size)
    same(calque.jit(f)(calque.device_put(x, device)), want)
    made = aot.compile(f, S(x.shape, x.dtype), targets="vulkan:lavapipe", name="f")
    same(aot.load(made.vmfb, device).f(x)[0].numpy(), want)
    there = vulkan.features_of(device)
    less = dataclasses.replace(there, has=there.has - {"subgroup arithmetic"})
    monkeypatch.setattr(vulkan, "_all_devices", lambda: (less,))
    with pytest.raises(ArtifactError, match="lacks: subgroup arithmetic"):
        aot.load(made.vmfb, device)
    calque.clear_caches()
    with pytest.raises(ArtifactError, match="lacks: subgroup arithmetic"):
        calque.jit(lambda x: f(x))(calque.device_put(x, device))


def test_no_glslang(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ffi.register_ffi_target("new shader", ffi.Kernel(
        shader(*GOOD, body="y[0] = x[0] + 17;"), "main"), "vulkan")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    x = calque.device_put(np.ones(3, np.float32), device)
    with pytest.raises(RuntimeError, match="no glslangValidator is here(.|\n)*Fix: install it"):
        calque.jit(lambda x: ffi.ffi_call("new shader", S((3,), np.float32))(x))(x)


def test_an_artifact_for_several_targets(device: Any, tmp_path: Path) -> None:
    x = np.arange(70, dtype=np.float32)
    made = aot.compile(kernels.scale, S(x.shape, x.dtype), name="scale",
                       targets=["cpu", "vulkan:lavapipe", "cuda:sm_80"])
    path = made.save(tmp_path / "scale.vmfb")
    for place in (device, calque.devices("cpu")[0]):
        (got,) = aot.load(path, place).scale(x)
        same(got.numpy(), x * np.float32(2.5))
    assert b"\x03\x02\x23\x07" in made.vmfb and b".entry scale" in made.vmfb


def test_spirv_bytes_with_several_entries(device: Any, tmp_path: Path) -> None:
    """Of two entries with buffers of their own, linked by hand: each sees its bindings only."""
    text = """
OpCapability Shader
OpMemoryModel Logical GLSL450
OpEntryPoint GLCompute %one "one" %id
OpEntryPoint GLCompute %two "two" %id
OpExecutionMode %one LocalSize 4 1 1
OpExecutionMode %two LocalSize 4 1 1
OpDecorate %id BuiltIn GlobalInvocationId
OpDecorate %array ArrayStride 4
OpDecorate %block Block
OpMemberDecorate %block 0 Offset 0
OpDecorate %x DescriptorSet 0
OpDecorate %x Binding 0
OpDecorate %y DescriptorSet 0
OpDecorate %y Binding 1
OpDecorate %z DescriptorSet 0
OpDecorate %z Binding 2
%void = OpTypeVoid
%f = OpTypeFunction %void
%uint = OpTypeInt 32 0
%vector = OpTypeVector %uint 3
%in = OpTypePointer Input %vector
%id = OpVariable %in Input
%array = OpTypeRuntimeArray %uint
%block = OpTypeStruct %array
%buffer = OpTypePointer StorageBuffer %block
%element = OpTypePointer StorageBuffer %uint
%x = OpVariable %buffer StorageBuffer
%y = OpVariable %buffer StorageBuffer
%z = OpVariable %buffer StorageBuffer
%zero = OpConstant %uint 0
%seven = OpConstant %uint 7
%one = OpFunction %void None %f
%a = OpLabel
%ida = OpLoad %vector %id
%ia = OpCompositeExtract %uint %ida 0
%xa = OpAccessChain %element %x %zero %ia
%va = OpLoad %uint %xa
%sa = OpIAdd %uint %va %seven
%ya = OpAccessChain %element %y %zero %ia
OpStore %ya %sa
OpReturn
OpFunctionEnd
%two = OpFunction %void None %f
%b = OpLabel
%idb = OpLoad %vector %id
%ib = OpCompositeExtract %uint %idb 0
%xb = OpAccessChain %element %x %zero %ib
%vb = OpLoad %uint %xb
%yb = OpAccessChain %element %y %zero %ib
%wb = OpLoad %uint %yb
%sb = OpIMul %uint %vb %wb
%zb = OpAccessChain %element %z %zero %ib
OpStore %zb %sb
OpReturn
OpFunctionEnd
"""
    if shutil.which("spirv-as") is None:
        pytest.skip("no spirv-as here (Debian: spirv-tools)")
    subprocess.run(["spirv-as", "--target-env", "vulkan1.1", "-o", tmp_path / "k.spv", "-"],
                   input=text, text=True, check=True)
    code = (tmp_path / "k.spv").read_bytes()
    for entry in ("one", "two"):
        ffi.register_ffi_target(f"spirv {entry}", ffi.Kernel(code, entry), "vulkan")

    @calque.jit
    def f(x: Any) -> Any:
        y = ffi.ffi_call("spirv one", S((4,), np.uint32))(x)
        return y, ffi.ffi_call("spirv two", S((4,), np.uint32))(x, y)
    x = np.arange(4, dtype=np.uint32)
    y, z = f(calque.device_put(x, device))
    same(y, x + 7)
    same(z, x * (x + 7))
    for wrong, words in ((text.replace("%sa = OpIAdd %uint", "%sa = OpIAdd %vector"), "IAdd"),
                         (text.replace("OpStore %ya %sa", "OpStore %sa %ya"), "Store")):
        subprocess.run(["spirv-as", "--target-env", "vulkan1.1", "-o", tmp_path / "w.spv", "-"],
                       input=wrong, text=True, check=True)
        ffi.register_ffi_target("wrong", ffi.Kernel((tmp_path / "w.spv").read_bytes(), "one"),
                                "vulkan")
        with pytest.raises(ValueError, match=f"the SPIR-V of 'wrong' is not valid:\n.*{words}"):
            calque.jit(lambda x: ffi.ffi_call("wrong", S((4,), np.uint32))(x))(
                calque.device_put(x, device))


def test_scalars_of_every_kind(device: Any) -> None:
    source = kernels.HEAD + "layout(local_size_x = 1) in;\n" + kernels.buffers("out double y") + """
layout(push_constant) uniform P { int a; uint b; float c; int64_t d; uint64_t e; double f; };
void main() { y[0] = a; y[1] = b; y[2] = c; y[3] = double(d); y[4] = double(e); y[5] = f; }
"""
    values = (-3, 2**32 - 1, 0.1, -2**40, 2**63 - 1, 0.1)
    ffi.register_ffi_target("kinds", ffi.Kernel(source, "main", scalars=lambda i, o: values),
                            "vulkan")
    with calque.enable_x64(True), calque.default_device(device):
        got = calque.jit(lambda: ffi.ffi_call("kinds", S((6,), np.float64))())()
    same(got, np.array([-3, 2**32 - 1, np.float32(0.1), -2**40, 2.0**63, 0.1]))


def test_results_in_the_memory_of_arguments(device: Any) -> None:
    """The argument's binding is written, and others keep what they had; with side effects, too."""
    ffi.register_ffi_target("add in place", ffi.Kernel(
        kernels.HEAD + kernels.FLAT + kernels.buffers("out int x", "int z", "out int last") + """
layout(push_constant) uniform P { int n; int by; };
void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i < n) x[i] += z[i] + by;
  if (i == n - 1) last[0] = x[i];
}""", "main", scalars=kernels.size_and("by"), grid=kernels.threads), "vulkan")

    def add(x: Any, z: Any, by: int, effect: bool = False) -> Any:
        return ffi.ffi_call("add in place", (S(x.shape, x.dtype), S((), np.int32)),
                            has_side_effect=effect, input_output_aliases={0: 0})(x, z, by=by)

    @calque.jit
    def f(x: Any) -> Any:
        y = x * 2
        z, last = add(y, x, 1)
        w, _ = add(y, x, 2)
        given, _ = add(x, y, 3)
        steps = calque.lax.fori_loop(0, 4, lambda i, c: add(c, x, 1, True)[0], x + 1)
        one, only = add(x[:1], x[:1], 5)
        add(x, x, 7, True)
        return y, z, last, w, given, steps, one, only, x
    for n in (2, 1000):
        x = np.arange(n, dtype=np.int32)
        wants = (2 * x, 3 * x + 1, 3 * x[-1] + 1, 3 * x + 2, 3 * x + 3, 5 * x + 5, 2 * x[:1] + 5,
                 2 * x[0] + 5, x)
        for got, want in zip(f(calque.device_put(x, device)), wants):
            same(got, want)


def test_the_page(device: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shader of docs/your_own_operation.md computes what its kernel in C computes."""
    page = (Path(__file__).parents[2] / "docs" / "your_own_operation.md").read_text("utf-8")
    for name, body in re.findall(r"^```python (\S+)\n(.*?)^```$", page, re.M | re.S):
        if name in ("operation.py", "shader.py"):
            (tmp_path / name).write_text(body)
    monkeypatch.syspath_prepend(tmp_path)
    import operation
    import shader  # noqa: F401
    x = np.linspace(-3, 3, 1000).astype(np.float32)
    there = calque.jit(calque.grad(lambda x: (operation.shrink(x) ** 2).sum()))(
        calque.device_put(x, device))
    here = calque.jit(calque.grad(lambda x: (operation.shrink(x) ** 2).sum()))(x)
    assert there.devices() == {device}
    np.testing.assert_array_equal(there, here)
    del sys.modules["operation"], sys.modules["shader"]


def shader(*rows: str, body: str = "y[0] = x[0];", more: str = kernels.FLAT) -> str:
    return kernels.HEAD + more + kernels.buffers(*rows) + f"void main() {{ {body} }}\n"


GOOD = ("float x", "out float y")
BAD: dict[str, tuple[str, dict[str, Any], str]] = {  # -> (source, more, words of the error)
    "syntax": ("#version 450\nvoid main() { int i = ; }", {}, "does not compile:\n"),
    "entry": (shader(*GOOD), {"entry": "f"}, "GLSL's is main"),
    "a dict": ({"x86-64": b""}, {}, "is a dict of objects"),  # type: ignore[dict-item]
    "a block given": (shader(*GOOD), {"block": 64}, "which a shader says itself"),
    "writes an argument": (shader("out float x", "out float y"), {}, "may write binding 0"),
    "result readonly": (shader("float x", "float y", more=kernels.FLAT + "shared float s;\n",
                               body="s = x[0] + y[0];"), {}, "declares binding 1, which is result"),
    "a binding too many": (shader("float x", "float z", "out float y", body="y[0] = x[0] + z[0];"),
                           {}, "has binding 2 of set 0; the call has 2 arrays"),
    "no result": (shader("float x", more=kernels.FLAT + "shared float s;\n", body="s = x[0];"), {},
                  "has no binding 1, which is result 0"),
    "another type": (shader("int x", "out float y"), {}, "numbers of int32 in binding 0"),
    "a block too large": (shader(*GOOD, more="layout(local_size_x = 1024, local_size_y = 2) in;\n"),
                          {}, "1024 x 2 x 1 threads"),
    "scalars": (shader(*GOOD), {"scalars": lambda i, o: (1,)},
                "has 0 push constants, and scalars gives 1"),
    "a grid too large": (shader(*GOOD), {"grid": lambda i, o: 1 << 17}, "is 131072 workgroups"),
    "no group": (shader(*GOOD), {"grid": lambda i, o: 0}, "nothing would write its results"),
    "memory": (shader(*GOOD, more=kernels.FLAT + "shared float s[20000];\n",
                      body="s[0] = x[0]; y[0] = s[gl_LocalInvocationID.x];"), {},
               "80000 bytes of shared memory")}


@pytest.mark.parametrize("what", BAD)
def test_shaders_that_cannot_be_used(device: Any, what: str) -> None:
    source, more, words = BAD[what]
    ffi.register_ffi_target("bad", ffi.Kernel(source, **{"entry": "main", **more}), "vulkan")
    x = calque.device_put(np.ones(3, np.float32), device)
    with pytest.raises((ValueError, TypeError)) as error:
        calque.jit(lambda x: ffi.ffi_call("bad", S((3,), np.float32))(x))(x)
    assert words in str(error.value) and "Fix: " in str(error.value)
    assert "'bad'" in str(error.value) and "test_ffi_vulkan.py" in str(error.value)
