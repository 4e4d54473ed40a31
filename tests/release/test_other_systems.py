"""What other systems lack is taken away in a child: calque imports, compiles, calls, keeps its
cache, makes artifacts and loads them.  (macOS and Windows themselves: docs/compatibility.md.)
"""
from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from calque.lowering.kernels import native
from calque.runtime import features, target

# Modules and functions of Python that a system has not, in its own standard library's words.
WINDOWS = (("fcntl", "resource", "pwd", "grp", "termios", "pty", "syslog"), (
    "fork", "forkpty", "register_at_fork", "pread", "pwrite", "preadv", "memfd_create", "getuid",
    "geteuid", "getgid", "getegid", "uname", "killpg", "setsid", "sched_yield",
    "sched_getscheduler", "sched_setscheduler", "sched_param", "sched_getaffinity",
    "SCHED_BATCH", "SCHED_IDLE", "SCHED_OTHER", "O_NOFOLLOW", "O_CLOEXEC", "O_NONBLOCK", "getpgid",
    "sysconf", "posix_spawn", "mkfifo", "chown", "fchmod", "openpty", "getloadavg", "pipe2"))
MACOS = ((), ("memfd_create", "sched_getscheduler", "sched_setscheduler", "sched_param",
              "sched_getaffinity", "SCHED_BATCH", "SCHED_IDLE", "SCHED_OTHER", "pipe2"))
LACKING = """
import io, os, pathlib, subprocess, sys, tempfile, ctypes, multiprocessing, threading, shutil
import concurrent.futures, asyncio, importlib.metadata, uuid, platform, numpy, ml_dtypes, typing
modules, names, system = {modules!r}, {names!r}, {system!r}
for name in modules:
    sys.modules[name] = None  # an ImportError for whoever asks for it
for name in names:
    if hasattr(os, name):
        delattr(os, name)

def elsewhere(what):
    def ask(path, *args, **kw):
        if str(path).startswith(("/proc", "/sys", "/dev/shm")):
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return what(path, *args, **kw)
    return ask
import builtins
builtins.open = io.open = elsewhere(io.open)
os.open = elsewhere(os.open)
sys.platform = system
"""
ROAD = """
import calque, calque.numpy as jnp
from calque import aot, lax, random
from calque.lowering.driver import cache
from calque.lowering.compiler import process as compiler_process, folders

assert compiler_process.possible()
f = calque.jit(lambda x: jnp.tanh(x @ x).sum())
x = random.normal(random.key(0), (8, 8))
assert abs(float(f(x)) - numpy.tanh(numpy.asarray(x) @ numpy.asarray(x)).sum()) < 1e-4
assert numpy.allclose(jnp.linalg.inv(x) @ x, numpy.eye(8), atol=1e-3)
assert numpy.allclose(calque.grad(lambda v: lax.fori_loop(0, 3, lambda i, c: c * v, 1.0))(2.0), 12)
seen = []
calque.jit(lambda v: calque.debug.callback(seen.append, v))(1.0)
calque.effects_barrier()
assert len(seen) == 1
assert cache.cache_info().entries > 0

# threads
with concurrent.futures.ThreadPoolExecutor(4) as pool:
    found = pool.map(lambda n: float(calque.jit(lambda v: v + n)(1.0)), range(4))
    assert list(found) == [1, 2, 3, 4]

# artifacts, and what a compiler that fails says
aot.compile(lambda v: jnp.sort(v) * 2, "f32[4]", name="double").save("sort.vmfb")
(made,) = calque.runtime.load("sort.vmfb")["double"](numpy.array([3, 1, 2, 0], "float32"))
assert numpy.asarray(made).tolist() == [0, 2, 4, 6]
server = next(iter(compiler_process._servers.values()))
server.process.kill()
server.process.wait()
assert float(calque.jit(lambda v: v * 3 + 1)(2.0)) == 7
try:
    from calque.lowering.compiler.compile import run_compiler
    run_compiler(b"func.func @f(", ("--iree-hal-target-device=local",
                 "--iree-hal-local-target-device-backends=llvm-cpu"), "input")
except calque.lowering.compiler.compile.CompileError as error:
    assert "expected" in str(error), error
else:
    raise AssertionError("compiled")
here = folders.passing_place()
assert server.temporary.parent == here, (server.temporary, here)
print("whole")
"""


@pytest.mark.parametrize("system, lacks", [("win32", WINDOWS), ("darwin", MACOS)])
def test_the_main_road_without_what_a_system_lacks(system: str, lacks: tuple[tuple[str, ...], ...],
                                                   tmp_path: pathlib.Path) -> None:
    text = LACKING.format(modules=lacks[0], names=lacks[1], system=system) + ROAD
    (tmp_path / "road.py").write_text(text)
    environment = {k: v for k, v in os.environ.items() if k not in ("TMPDIR", "TEMP", "TMP")}
    done = subprocess.run([sys.executable, "road.py"], cwd=tmp_path, capture_output=True, text=True,
                          timeout=300, env={**environment, "HOME": str(tmp_path / "home"),
                                            "CALQUE_CACHE_DIR": str(tmp_path / "cache")})
    assert (done.returncode, done.stdout) == (0, "whole\n"), done.stderr[-3000:]
    assert not [*(tmp_path / "cache").glob("calque-process-*")]


def test_the_processor_is_known_without_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy looked at it, too: of what it knows the answers are the same."""
    by_linux, by_numpy = target.cpu_flags(), target._flags_by_numpy()
    if not by_linux:
        pytest.skip("no /proc/cpuinfo")
    known = set(features.CPU.values())
    assert by_numpy >= by_linux & known  # nothing that is there is said to be lacking
    if "avx2" in by_linux or "sse4_2" in by_linux:
        for word in ("avx2", "fma", "avx512f", "avx512bw", "sse4_2", "fma4", "xop"):
            assert (word in by_numpy) == (word in by_linux), word
        lacking = target.missing_features(["fma4", "avx2", "of-no-cpu"], by_numpy)
        assert lacking == [n for n in ("fma4", "avx2") if n not in by_linux]


def test_paths_of_objects_have_no_backslashes() -> None:
    """MLIR reads a backslash in a string as the start of an escape."""
    there = pathlib.PureWindowsPath("C:\\Users\\me\\fft.o")
    text = native._executable("f", "f", there, "x86_64", [], [], 1, None, {}, (0, ()))  # type: ignore[arg-type]
    assert 'path = "C:/Users/me/fft.o"' in text
