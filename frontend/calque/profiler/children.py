"""register_subprocess: processes whose traces are taken with this one's.

Each of them runs a profiler server (server.py).  Where a trace begins here they are asked to begin
one, where it ends for what they recorded: the parts are written behind those of this process, which
both formats allow.  A process that does not answer is left out, with a warning.
Start reading at `register_subprocess`.
"""
from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Sequence

from calque.core.errors import explain

BEGIN, END, LENGTH = "/begin", "/end", "Perfetto-Length"  # what a server is asked; a header of END
_START_S, _END_S = 5.0, 120.0  # how long an answer may take
_lock = threading.Lock()
_registered: dict[int, int] = {}  # process -> port of its server


class Registration:
    """Ends what register_subprocess began, when it is called or given up.

    Example:
      >>> from calque.profiler.children import Registration
      >>> Registration(1)()   # (of no process that is registered: nothing happens)
    """

    def __init__(self, pid: int) -> None:
        self._pid: int | None = pid

    def __call__(self) -> None:
        pid, self._pid = self._pid, None
        if pid is not None:
            with _lock:
                _registered.pop(pid, None)

    __del__ = __call__


def register_subprocess(pid: int, port: int) -> Registration:
    """Let traces of this process hold what another process of this machine does, too.

    Args:
      pid: the number of the other process, which has called profiler.start_server(port).
      port: of its server.

    Returns:
      A function without arguments that ends it; so does giving the function up (del).

    Raises:
      RuntimeError: the process is registered already, is this one, or its server does not answer.

    Example:
      >>> import subprocess, sys, tempfile
      >>> from calque import profiler
      >>> code = ("import sys; from calque import profiler\\n"
      ...         "print(profiler.start_server(0).port, flush=True); sys.stdin.read()")
      >>> worker = subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1, text=True)
      >>> unregister = profiler.register_subprocess(worker.pid, int(worker.stdout.readline()))
      >>> with profiler.trace(tempfile.mkdtemp()):
      ...     pass
      >>> unregister()
      >>> _ = worker.communicate()
    """
    if pid == os.getpid():
        raise RuntimeError(explain(f"register_subprocess: {pid} is this process.",
                                   fix="pass the number of the other one (Popen(...).pid)."))
    with _lock:
        if pid in _registered:
            raise RuntimeError(explain(
                f"register_subprocess: process {pid} is registered already, at port "
                f"{_registered[pid]}.", fix="call what the first registration returned."))
    try:
        answers, _ = _ask(port, "/pid", _START_S)
        found = int(answers)
    except (OSError, ValueError) as error:
        raise RuntimeError(explain(
            f"register_subprocess: no profiler server answers at port {port} ({error}).",
            fix=f"call calque.profiler.start_server({port}) in process {pid} first.")) from error
    if found != pid:
        raise RuntimeError(explain(
            f"register_subprocess: the server at port {port} is of process {found}, not {pid}.",
            fix=f"pass the port that process {pid} gave to start_server."))
    with _lock:
        _registered[pid] = port
    return Registration(pid)


def begin(level: int) -> list[tuple[int, int]]:
    """Ask all that are registered to begin: (process, port) of those that did."""
    with _lock:
        asked = list(_registered.items())
    made = []
    for pid, port in asked:
        try:
            _ask(port, f"{BEGIN}?level={level}", _START_S)
            made.append((pid, port))
        except OSError as error:
            _left_out(pid, error)
    return made


def end(begun: Sequence[tuple[int, int]], warn: bool = True) -> tuple[bytes, bytes]:
    """What they recorded: for Perfetto, and as XSpaces."""
    traces, spaces = [], []
    for pid, port in begun:
        try:
            content, length = _ask(port, END, _END_S)
        except OSError as error:
            if warn:
                _left_out(pid, error)
            continue
        traces.append(content[:length])
        spaces.append(content[length:])
    return b"".join(traces), b"".join(spaces)


def _ask(port: int, path: str, seconds: float) -> tuple[bytes, int]:
    """A server's answer, and how much of it is Perfetto's; OSError where there is none."""
    from http.client import HTTPConnection, HTTPException
    connection = HTTPConnection("127.0.0.1", port, timeout=seconds)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        content = answer.read()
        if answer.status != 200:
            raise OSError(content.decode(errors="replace").partition("\n")[0][:300])
        return content, int(answer.headers.get(LENGTH, 0))
    except (HTTPException, OverflowError) as error:
        raise OSError(repr(error)) from error
    finally:
        connection.close()


def _left_out(pid: int, error: Exception) -> None:
    warnings.warn(f"calque.profiler: process {pid} is not in the trace: {error}\n"
                  "  Fix: call what register_subprocess returned when a process ends.",
                  RuntimeWarning, stacklevel=4)


if hasattr(os, "register_at_fork"):  # (not on Windows): a child has registered none
    os.register_at_fork(after_in_child=_registered.clear)


__all__ = ["Registration", "register_subprocess"]
