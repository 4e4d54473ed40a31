"""Asks for compiles in the process of server.py, which is started at the first one.

The compiler can abort (LLVM does, when the disk is full), run out of memory, or be at work for a
minute: there it takes nothing along, Ctrl-C ends it at once, and what the linker prints is kept for
the error.  Start reading at `request`.
"""
from __future__ import annotations

import atexit
import contextlib
import importlib.util
import itertools
import os
import pickle
import platform
import queue
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from calque.lowering.compiler.folders import remove, temporary
from calque.lowering.compiler.server import SHORTCUTS, Phase
from calque.lowering.emit import mlir

_SLICE_S = 0.05
_lock = threading.Lock()
_numbers = itertools.count()
_servers: dict[str, _Server] = {}  # by what they compile for: see `_kind`
_inherited: list[_Server] = []


def allocator() -> str:
    """The library whose malloc the compiler's process takes; '' for the C library's own.

    With jemalloc compiles take up to a tenth less CPU time (docs/first_call.md).
    """
    if "LD_PRELOAD" in os.environ:  # who sets it decides
        return ""
    places = (f"/usr/lib/{platform.machine()}-linux-gnu", "/usr/lib64", "/usr/lib")
    paths = [f"{place}/libjemalloc.so.2" for place in places]
    return next(filter(os.path.exists, paths), "")


class Crashed(Exception):
    """The compiler's process died.

    Attributes:
      signal: the name of the signal, or 'exit status N'.
      said: what it printed.
      folder: where it had its temporary files.
    """

    def __init__(self, signal: str, said: str, folder: str) -> None:
        super().__init__(signal)
        self.signal, self.said, self.folder = signal, said, folder


class _Server:
    """One process, and who waits for which answer."""

    def __init__(self, kind: str) -> None:
        script = str(Path(__file__).with_name("server.py"))
        self.temporary = temporary()  # what a killed one leaves
        self.log = _Log(self.temporary)
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", script, kind, *folders()], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=self.log.file,
            env={**os.environ, **dict.fromkeys(("TMPDIR", "TMP", "TEMP"), str(self.temporary)), **(
                {"LD_PRELOAD": found} if (found := allocator()) else {})},
            start_new_session=True)  # a signal to the whole group leaves who removes the folder
        self.lock = threading.Lock()
        self.requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.waiting: dict[int, _Answer] = {}
        self.dead = False
        for work in (self._read, self._send):
            threading.Thread(target=work, name="calque-compile", daemon=True).start()

    def ask(self, answer: _Answer, *question: Any) -> None:
        with self.lock:
            self.waiting[answer.number] = answer
            if self.dead:
                answer.set("crashed", None)
                return
        self.requests.put((answer.number, *question))

    def _send(self) -> None:
        """In a thread of its own: Ctrl-C must not cut a request in two."""
        assert self.process.stdin is not None
        with contextlib.suppress(OSError, ValueError):  # (the reader notices that it has ended)
            while (request := self.requests.get()) is not None:
                pickle.dump(request, self.process.stdin, pickle.HIGHEST_PROTOCOL)
                self.process.stdin.flush()

    def _read(self) -> None:
        assert self.process.stdout is not None
        try:
            while True:
                number, kind, value, phases = pickle.load(self.process.stdout)
                with self.lock:
                    answer = self.waiting.pop(number, None)
                if answer is not None:
                    answer.set(kind, value, phases)
        except (EOFError, pickle.UnpicklingError, OSError, ValueError):
            pass
        with self.lock:
            self.dead = True
            left, self.waiting = list(self.waiting.values()), {}
        for answer in left:
            answer.set("crashed", None)

    def ended(self) -> str:
        code = self.process.wait()
        return signal.Signals(-code).name if code < 0 else f"exit status {code}"

    def forget(self, number: int) -> bool:
        """Nobody waits for an answer any more; whether somebody waits for another."""
        with self.lock:
            self.waiting.pop(number, None)
            return bool(self.waiting)

    def end(self) -> None:
        self.requests.put(None)
        self.process.kill()
        self.process.wait()
        self.log.close()
        remove(self.temporary)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


class _Log:
    """What a process prints: on Linux in memory, since the disk may be full; else in its folder."""

    def __init__(self, folder: Path) -> None:
        self._path = None if hasattr(os, "memfd_create") else folder / "printed"
        self.file = (os.memfd_create("calque-compiler") if self._path is None else
                     os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
        self.close = weakref.finalize(self, os.close, self.file)

    def size(self) -> int:
        return 0 if not self.close.alive else os.fstat(self.file).st_size

    def end(self) -> str:
        """The end of what was printed."""
        size = self.size()
        if self._path is None:
            data = os.pread(self.file, 16384, max(0, size - 16384)) if size else b""
        else:
            data = self._path.read_bytes()[-16384:] if size else b""
        return data.decode("utf-8", "replace").strip()


class _Answer:
    """What comes back of a request."""

    def __init__(self) -> None:
        self.number = next(_numbers)
        self.ready = threading.Event()
        self.kind = ""
        self.value: Any = None
        self.phases: Sequence[Phase] = ()

    def set(self, kind: str, value: Any, phases: Sequence[Phase] = ()) -> None:
        self.kind, self.value, self.phases = kind, value, phases
        self.ready.set()


def request(source: bytes, flags: tuple[str, ...], stage: str = "",
            careful: bool = False) -> tuple[str, Any, str, Sequence[Phase]]:
    """('done', bytes, '', stages with their times) or ('failed', diagnostics, what was printed,
    stages) of a compile.

    This thread waits in slices, so that Ctrl-C comes through; the process then ends, unless other
    threads wait for it.

    Raises:
      Crashed: the process died.
      OSError: no process can be started.
    """
    server, answer = _server(_kind(flags, careful)), _Answer()
    before = server.log.size()
    try:
        server.ask(answer, source, flags, stage, careful)
        while not answer.ready.wait(_SLICE_S):
            pass
    except BaseException:
        if not server.forget(answer.number):
            _drop(server)
        raise
    if answer.kind == "crashed":
        died = Crashed(server.ended(), server.log.end(), str(server.temporary.parent))
        _drop(server)
        raise died
    if answer.kind == "error":
        raise answer.value
    printed = server.log.size() - before
    said = server.log.end()[-printed:] if printed else ""
    return answer.kind, answer.value, said, answer.phases


def ahead() -> None:
    """Start the process of shortcuts now, for a compile that is sure to come: it loads while the
    program is lowered."""
    if possible():
        with contextlib.suppress(OSError, ModuleNotFoundError):  # (the compile says so)
            folders()
            _server("short")


def possible() -> bool:
    """Whether this process runs in a Python that can be started again (embedded ones cannot)."""
    name = os.path.basename(sys.executable or "").lower()
    return ("python" in name or "pypy" in name) and not getattr(sys, "frozen", False)


def folders() -> list[str]:
    """Where the package iree.compiler lies."""
    found = importlib.util.find_spec("iree.compiler")
    if found is None:
        raise mlir.NoCompilerError
    return [str(Path(p).parent.parent) for p in found.submodule_search_locations or ()]


def _kind(flags: tuple[str, ...], careful: bool) -> str:
    """'short' for programs of shortcuts, 'cpu' for others of CPUs, 'all' for those of any target:
    MLIR goes through the operations of every backend that is loaded, again and again."""
    if SHORTCUTS in flags and not careful:
        return "short"
    return "cpu" if "--iree-hal-local-target-device-backends=llvm-cpu" in flags else "all"


def _server(kind: str) -> _Server:
    with _lock:
        found = _servers.get(kind)
        if found is not None and (found.dead or found.process.poll() is not None):
            found.end()  # (it died while nobody waited: for want of memory, say)
            found = None
        if found is None:
            found = _servers[kind] = _Server(kind)
        return found


def _drop(server: _Server) -> None:
    with _lock:
        for kind, other in list(_servers.items()):
            if other is server:
                del _servers[kind]
    server.end()


@atexit.register
def _end() -> None:
    """Compiles that Ctrl-C left behind, or daemon threads wait for, end with this process."""
    while _servers:
        _servers.popitem()[1].end()


def _after_fork_in_child() -> None:
    """The parent's process answers the parent; a child starts its own."""
    global _lock
    _inherited.extend(_servers.values())  # (not to be collected, which would wait for them)
    _servers.clear()
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):  # (not on Windows)
    os.register_at_fork(after_in_child=_after_fork_in_child)
