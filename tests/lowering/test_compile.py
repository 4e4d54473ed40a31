"""Compiling: the mandatory flags, stages, errors that name the user's line, threads, Ctrl-C."""
import io
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from calque.lowering.compile import STAGES, CompileError, compile_module, compile_to, run_compiler
from calque.lowering.targets import Target, parse_target
from calque.runtime import Buffer, Executable, devices

CPU = parse_target("cpu")
ADD = """func.func @main(%a: tensor<4xf64>) -> tensor<4xf64> {
  %0 = stablehlo.add %a, %a : tensor<4xf64>
  return %0 : tensor<4xf64> }"""
BAD = """func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.custom_call @nothing(%a) : (tensor<4xf32>) -> tensor<4xf32> LOCATION
  return %0 : tensor<4xf32> }"""
NAMED = 'loc("frobnicate"("dir/user.py":14:7))'


@pytest.fixture(autouse=True)
def cache_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("CALQUE_CACHE_DIR", str(tmp_path / "cache"))


def run(source, *arrays):
    device = devices()[0]
    program = Executable(compile_module(source, CPU), device, small=True, result_specs=None)
    return [r.numpy() for r in program([Buffer.from_numpy(a, device) for a in arrays])]


def test_f64_stays_f64():
    x = np.array([1 / 3, 1e-300, 1e300, np.pi])
    (result,) = run(ADD, x)
    np.testing.assert_array_equal(result, x + x)


def test_sums_are_not_serial():
    n = 5_000_000
    x = np.random.default_rng(0).random(n, np.float32)
    (total,) = run(f"""func.func @main(%a: tensor<{n}xf32>) -> tensor<f32> {{
      %z = stablehlo.constant dense<0.0> : tensor<f32>
      %0 = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0]
         : (tensor<{n}xf32>, tensor<f32>) -> tensor<f32>
      return %0 : tensor<f32> }}""", x)
    assert abs(total / x.sum(dtype=np.float64) - 1) < 1e-4  # serial: 2e-3


def test_bytes_and_bytecode_are_taken_too():
    from iree.compiler import ir
    with ir.Context():
        module = ir.Module.parse(ADD)
        file = io.BytesIO()
        module.operation.write_bytecode(file)
    assert len(compile_module(ADD.encode(), CPU)) == len(compile_module(ADD, CPU))
    assert len(compile_module(file.getvalue(), CPU)) > 1000


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_gives_text(stage):
    assert "main" in compile_to(ADD, CPU, stage)


def test_unknown_stages_list_the_known_ones():
    with pytest.raises(ValueError, match=r"(?s)unknown stage 'hlo'.*flow, stream"):
        compile_to(ADD, CPU, "hlo")


@pytest.mark.parametrize("form", ["text", "bytecode", "aliases"])
def test_a_failure_names_the_primitive_and_the_users_line(form, capfd):
    source = BAD.replace("LOCATION", NAMED)
    if form == "aliases":
        source = BAD.replace("LOCATION", "loc(#loc2)") + (
            '\n#loc1 = loc("dir/user.py":14:7)\n#loc2 = loc("frobnicate"(#loc1))\n')
    if form == "bytecode":
        from iree.compiler import ir
        with ir.Context() as context:
            context.allow_unregistered_dialects = True
            file = io.BytesIO()
            ir.Module.parse(source).operation.write_bytecode(file)
        source = file.getvalue()
    with pytest.raises(CompileError) as caught:
        compile_module(source, CPU)
    error = caught.value
    assert (error.primitive, error.where) == ("frobnicate", "dir/user.py:14:7")
    assert any("custom_call" in text for text in error.diagnostics)
    assert "In primitive frobnicate at dir/user.py:14:7." in str(error)
    assert f"attach {error.mlir_path}" in str(error)
    kept = Path(error.mlir_path).read_text()
    assert "custom_call" in kept and kept.startswith("// iree-compile '--iree-hal-target-device")
    assert capfd.readouterr().err == ""  # diagnostics are captured, not printed


def test_a_failure_without_a_location():
    with pytest.raises(CompileError) as caught:
        compile_module("this is not MLIR", CPU)
    assert (caught.value.primitive, caught.value.where) == ("", "")
    assert "Fix: " in str(caught.value)


def test_a_failure_where_nothing_can_be_written(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CALQUE_CACHE_DIR", str(tmp_path / "file" / "x"))
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "file"))
    with pytest.raises(CompileError) as caught:
        compile_module(BAD.replace("LOCATION", ""), CPU)
    assert caught.value.mlir_path == ""


def test_unknown_flags_are_errors_not_exits():
    with pytest.raises(ValueError, match="bogus"):
        compile_module(ADD, CPU, ("--bogus",))


def test_threads_compile_together():
    sizes = range(3, 9)
    results = {}

    def work(n):
        results[n] = run(ADD.replace("4xf64", f"{n}xf64"), np.arange(float(n)))[0]
    threads = [threading.Thread(target=work, args=(n,)) for n in sizes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for n in sizes:
        np.testing.assert_array_equal(results[n], 2 * np.arange(float(n)))


def test_ctrl_c_comes_through_a_compile(tmp_path):
    script = """
import os, signal, sys, threading
from calque.lowering import compile as c
from calque.lowering.targets import Target, parse_target
target = parse_target("cpu")
body = "".join(f"  %{i + 1} = stablehlo.dot_general %{i}, %{i}, contracting_dims = [1] x [0]"
               f" : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>\\n" for i in range(400))
source = ("func.func @main(%a: tensor<8x8xf32>) -> tensor<8x8xf32> {\\n"
          "  %0 = stablehlo.add %a, %a : tensor<8x8xf32>\\n" + body
          + "  return %400 : tensor<8x8xf32> }")
real, compiled, started = c._compile, [], threading.Event()
def watched(*args):
    started.set()
    compiled.append(real(*args))
c._compile = watched
def interrupt():
    started.wait()
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt).start()
try:
    c.compile_module(source, target)
except KeyboardInterrupt:
    print("interrupted", len(compiled), flush=True)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                          cwd=tmp_path, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "interrupted 0\n"), done.stderr


def test_a_process_of_its_own_gives_the_same(monkeypatch):
    inside = compile_module(ADD, CPU)
    monkeypatch.setenv("CALQUE_COMPILE", "process")
    assert len(compile_module(ADD, CPU)) == len(inside)
    assert compile_to(ADD, CPU, "flow").count("flow.dispatch") > 0
    with pytest.raises(CompileError) as caught:
        compile_module(BAD.replace("LOCATION", NAMED), CPU)
    assert (caught.value.primitive, caught.value.where) == ("frobnicate", "dir/user.py:14:7")


def test_a_crash_in_a_process_of_its_own_is_an_error(monkeypatch):
    monkeypatch.setenv("CALQUE_COMPILE", "process")
    nonsense = Target("vulkan-spirv", "x", spirv="nonsense")  # found: SIGSEGV, also in process
    with pytest.raises(CompileError, match=r"the compiler crashed \(SIGSEGV\)"):
        compile_module(ADD, nonsense)


def test_errors_of_the_worker_arrive_unchanged(monkeypatch):
    def fail(*_):
        raise MemoryError("no room")
    monkeypatch.setattr("calque.lowering.compile._compile", fail)
    with pytest.raises(MemoryError, match="no room"):
        run_compiler(b"", (), "")


def test_a_module_that_does_not_verify_is_an_error(tmp_path):
    """MLIR's threads and the one that prints the module for the report waited for each other."""
    script = """
import calque, calque.numpy as jnp
from calque import lax
from calque.lowering.kernels.values import KernelBuilder
from calque.lowering.math.region import BodyBuilder
KernelBuilder.loop = BodyBuilder.loop  # a vector where scf.condition wants one bit
with calque.enable_x64(True):
    calque.jit(lambda x: lax.fori_loop(0, 300, lambda i, v: lax.rem(v + 1.0, v * 0.1), x))(
        jnp.ones(64))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                          timeout=120, cwd=tmp_path)
    assert done.returncode == 1
    assert "CompileError" in done.stderr and "scf.condition" in done.stderr
