"""start_server: a process that can be asked for a trace from outside, by HTTP on this machine.

`curl 'localhost:PORT/?seconds=2' -o run.perfetto-trace` records for two seconds what the process
does and gives the file that Perfetto opens.  A process that has registered this one (children.py)
asks for /pid, /begin and /end.  Start reading at `start_server`.
"""
from __future__ import annotations

import os
import pathlib
import tempfile
import threading
import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

from calque.core.errors import explain
from calque.profiler import session
from calque.profiler.children import BEGIN, END, LENGTH
from calque.profiler.xplane import HOST

MOST_SECONDS = 600.0
_lock = threading.Lock()
_server: ProfilerServer | None = None
_begun: list[tempfile.TemporaryDirectory[str]] = []  # of the trace that another process asked for


class ProfilerServer:
    """A server of traces, until `stop_server`.

    Attributes:
      port: where it listens.

    Example:
      >>> from calque import profiler
      >>> profiler.start_server(0).port > 0  # (0: any port that is free)
      True
      >>> profiler.stop_server()
    """

    def __init__(self, port: int) -> None:
        from http.server import ThreadingHTTPServer  # (a tenth of what `import calque` takes)
        self._http = ThreadingHTTPServer(("127.0.0.1", port), _handler())
        self._http.daemon_threads = True
        self.port = int(self._http.server_address[1])
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True,
                                        name="calque profiles")
        self._thread.start()

    def _stop(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


def _handler() -> type:
    from http.server import BaseHTTPRequestHandler
    return type("Handler", (BaseHTTPRequestHandler,), {
        "do_GET": _answer, "log_message": lambda *_: None})  # (nothing is written to the terminal)


def _answer(request: Any) -> None:
    """Answer a request with a trace, or with what is wrong."""
    length = 0
    try:
        code, kind = 200, "application/octet-stream"
        content, length = _reply(request.path)
    except (ValueError, RuntimeError) as error:
        code = 400 if isinstance(error, ValueError) else 409
        kind, content = "text/plain", f"{error}\n".encode()
    request.send_response(code)
    request.send_header("Content-Type", kind)
    request.send_header("Content-Length", str(len(content)))
    request.send_header(LENGTH, str(length))
    request.end_headers()
    request.wfile.write(content)


def _reply(path: str) -> tuple[bytes, int]:
    """What a request is answered with, and how much of it is a file of Perfetto's."""
    asked = urlsplit(path)
    if asked.path == "/pid":
        return str(os.getpid()).encode(), 0
    if asked.path == BEGIN:
        options = session.ProfileOptions()
        options.host_tracer_level = int(parse_qs(asked.query).get("level", ["2"])[0])
        folder = tempfile.TemporaryDirectory()
        try:
            session.begin(pathlib.Path(folder.name), options, f"{HOST} [{os.getpid()}]")
        except BaseException:
            folder.cleanup()
            raise
        _begun.append(folder)
        return b"", 0
    if asked.path == END:
        if not _begun:
            raise RuntimeError(explain("no trace was asked for.", fix=f"ask for {BEGIN} first."))
        with _begun.pop() as name:
            session.stop_trace()
            trace, space = (_found(name, suffix) for suffix in (session.SUFFIX, ".xplane.pb"))
        return trace + space, len(trace)
    trace = _recorded(path)
    return trace, len(trace)


def _found(folder: str, suffix: str) -> bytes:
    (path,) = pathlib.Path(folder).rglob(f"*{suffix}")
    return path.read_bytes()


def _recorded(path: str) -> bytes:
    """A trace of as many seconds as a request asks for; RuntimeError where another is on."""
    asked = parse_qs(urlsplit(path).query).get("seconds", ["1"])[0]
    try:
        seconds = float(asked)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds <= MOST_SECONDS:
        raise ValueError(explain(f"a trace of {asked!r} seconds is asked for.",
                                 fix=f"ask for /?seconds=2, at most {MOST_SECONDS:g}."))
    with tempfile.TemporaryDirectory() as folder:
        session.start_trace(folder)
        try:
            time.sleep(seconds)
        finally:
            session.stop_trace()
        return _found(folder, session.SUFFIX)


def start_server(port: int, requires_backend: bool = True) -> ProfilerServer:
    """Let this process be asked for traces, at a port of this machine: `/?seconds=2` records for
    two seconds and answers with a file for Perfetto.

    Args:
      port: where to listen (on localhost only); 0: any that is free.
      requires_backend: accepted.

    Returns:
      The server; its `port` says where it listens.

    Raises:
      ValueError: there is one already.
      OSError: the port is taken.

    Example:
      >>> from calque import profiler
      >>> server = profiler.start_server(0)
      >>> profiler.stop_server()
    """
    global _server
    with _lock:
        if _server is not None:
            raise ValueError(explain("Only one profiler server can be active at a time.",
                                     fix="call profiler.stop_server() first."))
        _server = ProfilerServer(port)
        return _server


def stop_server() -> None:
    """End the server of traces.

    Returns:
      Nothing.

    Raises:
      ValueError: there is none.

    Example:
      >>> from calque import profiler
      >>> profiler.stop_server()
      Traceback (most recent call last):
      ValueError: No active profiler server.
        Fix: call profiler.start_server(port) first.
    """
    global _server
    with _lock:
        server, _server = _server, None
    if server is None:
        raise ValueError(explain("No active profiler server.",
                                 fix="call profiler.start_server(port) first."))
    server._stop()


__all__ = ["ProfilerServer", "start_server", "stop_server"]
