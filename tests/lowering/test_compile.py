"""Compiling: the mandatory flags, stages, errors that name the user's line, threads, Ctrl-C."""
import io
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calque.lowering.compiler import process as compiler_process
from calque.lowering.compiler.compile import (
    STAGES,
    CompileError,
    compile_module,
    compile_to,
    run_compiler,
)
from calque.lowering.target.targets import Target, parse_target
from calque.runtime import Buffer, CallSpec, Executable, devices
from calque.runtime.errors import ArtifactError

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
    program = Executable(compile_module(source, CPU), device, CallSpec(run_inline=True))
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


def test_iree_still_fuses_more_numbers_than_a_dispatch_may_have():
    """FusionWidth.most_numbers in emit/fusion.py: 21 operands, 20 results: one dispatch."""
    n, kind = 21, "tensor<f32>"
    args = ", ".join(f"%a{i}: {kind}" for i in range(n))
    steps = [f"%s{i} = stablehlo.{'add' if i % 2 else 'multiply'} "
             f"{f'%s{i - 1}' if i else '%a20'}, %a{i} : {kind}" for i in range(n - 1)]
    outs = ", ".join(f"%s{i}" for i in range(n - 1))
    kinds = ", ".join([kind] * (n - 1))
    source = "\n".join([f"func.func @main({args}) -> ({kinds}) {{", *steps,
                        f"return {outs} : {kinds} }}"])
    with pytest.raises(ArtifactError, match="binding count 41 > 32"):
        run(source, *[np.float32(i) for i in range(n)])


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
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(CompileError) as caught:
        compile_module(BAD.replace("LOCATION", ""), CPU)
    assert caught.value.mlir_path == ""


def test_unknown_flags_are_errors_not_exits():
    with pytest.raises(ValueError, match="bogus"):
        compile_module(ADD, CPU, ("--bogus",))


def test_threads_compile_together():
    sizes = range(3, 7)
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


LONG = """
import os, signal, sys, threading, time
from calque.lowering.compiler import compile as c, process as compiler_process
from calque.lowering.target.targets import parse_target
body = "".join(f"  %{i + 1} = stablehlo.dot_general %{i}, %{i}, contracting_dims = [1] x [0]"
               f" : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>\\n" for i in range(2000))
source = ("func.func @main(%a: tensor<8x8xf32>) -> tensor<8x8xf32> {\\n"
          "  %0 = stablehlo.add %a, %a : tensor<8x8xf32>\\n" + body
          + "  return %2000 : tensor<8x8xf32> }")
target = parse_target("cpu")
""" + f"small = {ADD!r}\n"


def python(script: str, folder: Any, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                          cwd=folder, timeout=120, check=False, **more)


def test_ctrl_c_comes_through_a_compile_and_leaves_nothing_behind(tmp_path):
    """The process ends although the compiler would be at work for half a minute longer."""
    done = python(LONG + """
def interrupt():
    while not any(s.waiting for s in [*compiler_process._servers.values()]):
        pass
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt).start()
try:
    c.compile_module(source, target)
except KeyboardInterrupt:
    print("interrupted", compiler_process._servers)
print(len(c.compile_module(small, target)) > 1000)
""", tmp_path)
    assert (done.returncode, done.stdout) == (0, "interrupted {}\nTrue\n"), done.stderr


def test_a_process_that_ends_takes_its_compiles_along(tmp_path):
    done = python(LONG + """
threading.Thread(target=c.compile_module, args=(source, target), daemon=True).start()
while not any(s.waiting for s in [*compiler_process._servers.values()]):
    time.sleep(0.01)
print(compiler_process._servers["short"].process.pid)
sys.exit(7)
""", tmp_path)
    assert done.returncode == 7, done.stderr
    assert not Path(f"/proc/{int(done.stdout)}").exists()


def test_ctrl_c_leaves_what_other_threads_wait_for(tmp_path):
    done = python(LONG + """
made = []
other = threading.Thread(target=lambda: made.append(c.compile_module(small, target)))
def interrupt():
    while not any(len(s.waiting) == 2 for s in [*compiler_process._servers.values()]):
        pass
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt).start()
other.start()
try:
    c.compile_module(source, target)
except KeyboardInterrupt:
    other.join()
    print(len(made[0]) > 1000)
""", tmp_path)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


def test_the_compiler_inside_this_process_gives_the_same(tmp_path):
    """CALQUE_COMPILE=inside, and wherever Python cannot be started again."""
    inside = python(f"small = {ADD!r}" + """
import os, sys
from calque.lowering.compiler import compile as c, process as compiler_process
from calque.lowering.target.targets import parse_target
def compiled():
    made = c.compile_module(small, parse_target("cpu:x86-64-v2"))
    print(len(made), not compiler_process._servers)
python, sys.executable = sys.executable, "/usr/bin/host-app"
compiled()
sys.executable = python
os.environ["CALQUE_COMPILE"] = "inside"
compiled()
""", tmp_path)
    outside = len(compile_module(ADD, parse_target("cpu:x86-64-v2")))
    assert inside.stdout == f"{outside} True\n" * 2, inside.stderr
    assert compiler_process._servers


def test_the_compilers_process_takes_jemalloc(monkeypatch):
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    found = compiler_process.allocator()
    assert found == "" or Path(found).name == "libjemalloc.so.2"
    compile_module(ADD, CPU)
    server = next(s for s in compiler_process._servers.values() if not s.dead)
    assert ("jemalloc" in Path(f"/proc/{server.process.pid}/maps").read_text()) == bool(found)
    monkeypatch.setenv("LD_PRELOAD", "")
    assert compiler_process.allocator() == ""
    monkeypatch.delenv("LD_PRELOAD")
    monkeypatch.setattr(os.path, "exists", lambda path: path.startswith("/usr/lib64/"))
    assert compiler_process.allocator() == "/usr/lib64/libjemalloc.so.2"
    monkeypatch.setattr(os.path, "exists", lambda path: False)
    assert compiler_process.allocator() == ""


def test_a_crash_is_an_error_and_the_next_compile_works():
    nonsense = Target("vulkan-spirv", "x", spirv="nonsense")  # found: SIGSEGV
    with pytest.raises(CompileError, match=r"the compiler crashed \(SIGSEGV\)"):
        compile_module(ADD, nonsense)
    assert len(compile_module(ADD, CPU)) > 1000


def test_a_compiler_that_died_meanwhile_is_started_again():
    compile_module(ADD, CPU)
    compiler_process._servers["short"].process.kill()
    compiler_process._servers["short"].process.wait()
    assert len(compile_module(ADD, CPU)) > 1000


def test_the_kernel_ending_the_compiler_is_want_of_memory(monkeypatch):
    def ended(*_):
        raise compiler_process.Crashed("SIGKILL", "", "/")
    monkeypatch.setattr(compiler_process, "request", ended)
    with pytest.raises(CompileError, match=r"(?s)ran out of memory.*Fix: close other programs"):
        compile_module(ADD, CPU)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system")
def test_a_full_disk_is_an_error(tmp_path):
    """LLVM aborts: it used to take the interpreter along."""
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", str(small)],
                      capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        done = python("""
import calque, calque.numpy as jnp
try:
    calque.jit(lambda x: x + 1)(jnp.arange(3.))
except calque.lowering.compiler.compile.CompileError as error:
    print(error)
""", tmp_path, env={**os.environ, "TMPDIR": str(small), "CALQUE_CACHE": "0"})
    finally:
        subprocess.run(["umount", str(small)], check=False)
    assert done.returncode == 0, done.stderr
    assert f"there is no space left in {small}" in done.stdout and "Fix: free" in done.stdout
    assert done.stderr == ""


def test_what_the_linker_prints_is_in_the_error_alone(capfd):
    """A function that nothing supplies."""
    source = """func.func @main(%a: tensor<4xi32>) -> tensor<4xbf16> {
      %0 = stablehlo.convert %a : (tensor<4xi32>) -> tensor<4xf32>
      %1 = stablehlo.convert %0 : (tensor<4xf32>) -> tensor<4xbf16>
      return %1 : tensor<4xbf16> }"""
    with pytest.raises(CompileError) as caught:
        compile_module(source, parse_target("cpu:x86-64-v2"))
    assert "undefined symbol: __truncsfbf2" in caught.value.diagnostics[-1]
    assert capfd.readouterr().err == ""


def test_a_forked_child_compiles_with_a_process_of_its_own(tmp_path):
    done = python(LONG + """
sizes = [len(c.compile_module(small, target))]
mine = compiler_process._servers["short"].process.pid
child = os.fork()
if child == 0:
    made = c.compile_module(small, target)
    os._exit(int(len(made) != sizes[0] or compiler_process._servers["short"].process.pid == mine))
print(os.waitpid(child, 0)[1], len(c.compile_module(small, target)) == sizes[0])
""", tmp_path)
    assert done.stdout == "0 True\n", done.stderr


def test_a_forked_child_of_a_process_with_devices_says_so(tmp_path):
    """It hung where it had to compile."""
    done = python("""
import multiprocessing, warnings
import calque, calque.numpy as jnp
def work(n):
    try:
        return float(calque.jit(lambda x: jnp.tanh(x @ x).sum() * n)(jnp.ones((300, 300))))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
warnings.simplefilter("ignore")
calque.jit(lambda x: x @ x)(jnp.ones((300, 300))).block_until_ready()
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(pool.map(work, [1, 2]))
""", tmp_path, env={**os.environ, "CALQUE_CACHE": "0"})
    assert done.stdout.count("DeviceError: this process was forked") == 2, done.stderr


def test_errors_of_the_compilers_process_arrive_unchanged(monkeypatch):
    with pytest.raises(ValueError, match="bogus"):
        run_compiler(ADD.encode(), ("--bogus",))


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


def test_linalgs_python_package_waits_until_it_is_used():
    """The bindings import it at the first operation: 80 ms."""
    script = """
import sys
import numpy as np
import calque
calque.jit(calque.nn.softmax).lower(np.ones((20, 20), "f4"))
print(any("opdsl" in name for name in sys.modules))
import iree.compiler.dialects.linalg.opdsl.lang
from iree.compiler.dialects import linalg
print(callable(linalg.fill), any("opdsl" in name for name in sys.modules))
"""
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["False", "True", "True"]
