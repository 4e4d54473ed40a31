"""What only a process of its own can show: exit, Ctrl-C, fork, imports."""
import pytest

PRELUDE = """
import os, signal, threading, time
import numpy as np
from calque.runtime import *
from calque.runtime.errors import *
device = devices()[0]
vmfb = open(VMFB, "rb").read()
F32 = np.dtype(np.float32)
add = Executable(vmfb, device, CallSpec([((8,), F32)], run_inline=True), "add")
matmul = Executable(vmfb, device, CallSpec([((512, 512), F32)]), "matmul")
x = Buffer.from_numpy(np.ones(8, np.float32), device)
"""


def test_exit_with_buffers_in_globals_and_work_in_flight(run_python):
    done = run_python(PRELUDE + """
view = add([x, x])[0].numpy()
w = Buffer.from_numpy(np.eye(512, dtype=np.float32), device)
raw = np.zeros(512 * 512 * 4 + 64, np.uint8); at = -raw.ctypes.data % 64
alias = Buffer.alias_numpy(raw[at:at + 512 * 512 * 4].view(F32).reshape(512, 512), device)
flight = [matmul([alias, w])[0] for _ in range(40)]
capsule = dlpack_capsule(x)
print("in flight", flight[-1].fence.query())
""")
    assert (done.returncode, done.stdout, done.stderr) == (0, "in flight 0\n", "")


def test_ctrl_c_comes_through_a_wait(run_python):
    done = run_python(PRELUDE + """
x.fence = device.task.create_semaphore(0)   # never signalled
(y,) = add([x, x])
signal.setitimer(signal.ITIMER_REAL, 0.2)
signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
try:
    y.wait()
except KeyboardInterrupt:
    print("interrupted")
x.fence.signal(1)
print(y.numpy()[0])
""")
    assert (done.returncode, done.stdout) == (0, "interrupted\n2.0\n"), done.stderr


def test_exit_while_a_program_waits_for_ever(run_python):
    done = run_python(PRELUDE + """
x.fence = device.task.create_semaphore(0)
y = add([x, x])
print("leaving")
""")
    assert (done.returncode, done.stdout) == (0, "leaving\n"), done.stderr


def test_a_fork_after_the_start_is_an_error_not_a_hang(run_python):
    done = run_python(PRELUDE + """
def attempt(what, call):
    try:
        call()
    except DeviceError as error:
        print(what, "was forked after" in str(error), "spawn" in str(error))
(ready,) = add([x, x])
child = os.fork()
if child == 0:
    attempt("call", lambda: add([x, x]))
    attempt("queued call", lambda: matmul([x, x]))
    attempt("allocation", lambda: Buffer.from_numpy(np.ones(3, np.float32), device))
    print("read", ready.numpy()[0], flush=True)
    os._exit(0)
print(os.waitpid(child, 0)[1], add([x, x])[0].numpy()[0])
""")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "call True True", "queued call True True", "allocation True True", "read 2.0", "0 2.0"]


def test_a_fork_before_the_start_is_fine(run_python):
    done = run_python("""
import os
import numpy as np
from calque.runtime import *
child = os.fork()
buffer = Buffer.from_numpy(np.ones(3, np.float32), devices()[0])
if child == 0:
    os._exit(int(buffer.numpy().sum()))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
""")
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr


def test_logical_cpu_devices(run_python):
    done = run_python("""
import pickle
from calque.runtime import *
set_cpu_device_count(4)
print(devices("cpu"), [str(d) for d in devices()], devices()[1].sync is devices()[2].sync)
print(pickle.loads(pickle.dumps(devices()[3])) is devices()[3])
try:
    set_cpu_device_count(2)
except RuntimeError as error:
    print(error)
""")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == ("[CpuDevice(id=0), CpuDevice(id=1), CpuDevice(id=2), CpuDevice(id=3)] "
                        "['cpu:0', 'cpu:1', 'cpu:2', 'cpu:3'] True")
    assert lines[1] == "True"
    assert lines[2].startswith("cannot make 2 CPU devices") and "Fix:" in lines[-1]


@pytest.mark.parametrize("names", ["PMI_SIZE PMI_RANK", "OMPI_COMM_WORLD_SIZE"])
def test_mpi_variables_do_not_break_the_devices(names, run_python):
    done = run_python("""
import numpy as np
from calque.runtime import *
print(Buffer.from_numpy(np.ones(3, np.float32), devices()[0]).numpy().sum())
""", **dict.fromkeys(names.split(), "1"))
    assert (done.returncode, done.stdout) == (0, "3.0\n"), done.stderr


def test_unknown_platforms(run_python):
    done = run_python("""
from calque.runtime import *
for name in ("tpu", "cuda"):
    try:
        print(devices(name))
    except RuntimeError as error:
        print(str(error).splitlines()[0])
""")
    assert done.stdout.startswith("Unknown backend tpu")


# ---- where something is missing
NO_COMPILER = """
import importlib.abc, sys
class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.split(".")[:2] == ["iree", "compiler"]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
"""


def test_without_the_compiler_artifacts_run_and_the_rest_says_what_is_missing(run_python, tmp_path):
    done = run_python(NO_COMPILER + PRELUDE + """
print(add([x, x])[0].numpy().sum())
import calque, calque.numpy as jnp
for f in (lambda: calque.jit(lambda x: jnp.sin(x) * 2)(jnp.arange(3.0)),
          lambda: jnp.linalg.svd(jnp.eye(3)),
          lambda: calque.lax.scan(lambda c, x: (c + x, c), 0.0, jnp.arange(3.0))):
    try:
        f()
    except ModuleNotFoundError as error:
        print(error.name, [line.split()[0] for line in str(error).splitlines()])
""", CALQUE_CACHE_DIR=str(tmp_path / "cache"))
    said = "iree.compiler ['compiling', 'In', 'Fix:']\n"
    assert (done.returncode, done.stdout) == (0, "16.0\n" + 3 * said), done.stderr


def test_the_command_without_the_compiler(run_python, tmp_path):
    (tmp_path / "model.py").write_text("def f(x):\n    return x * 2\n")
    done = run_python(NO_COMPILER + """
from calque_cli import main
sys.argv = ["calque", "compile", "model.py:f", "--arg", "f32[3]", "-o", "f.vmfb"]
main()
""", CALQUE_CACHE_DIR=str(tmp_path / "cache"))
    assert done.returncode == 1 and done.stderr.startswith("calque: compiling needs IREE's comp"), (
        done.stderr)
    assert "Traceback" not in done.stderr


def test_a_subinterpreter_is_refused_not_waited_for(run_python):
    done = run_python("""
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
other = interpreters.create()
script = "import warnings; warnings.simplefilter('ignore'); import calque"
try:
    failed = interpreters.exec(other, script) if hasattr(interpreters, "exec") else (
        interpreters.run_string(other, script))
    print(failed)
except Exception as error:
    print(error)
import calque.numpy as jnp
print(jnp.arange(3) + 1)
""")
    assert "cannot be imported in a subinterpreter" in done.stdout, done.stderr
    assert "Fix: use processes" in done.stdout and done.stdout.endswith("[1 2 3]\n")
