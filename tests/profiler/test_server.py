"""A process that is asked for a trace from outside answers with one."""
from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import pytest

import calque.numpy as jnp
from calque import profiler


def asked(port: int, path: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_a_trace_is_given() -> None:
    server = profiler.start_server(0)
    over = threading.Event()

    def work() -> None:
        while not over.wait(0.01):
            with profiler.TraceAnnotation("a step of mine"):
                jnp.dot(jnp.ones((8, 8)), jnp.ones((8, 8))).block_until_ready()

    worker = threading.Thread(target=work)
    worker.start()
    try:
        with pytest.raises(ValueError, match="^Only one profiler server can be active at a time"):
            profiler.start_server(0)
        code, trace = asked(server.port, "/?seconds=0.2")
        assert code == 200 and b"a step of mine" in trace
        for wrong in ("-1", "x", "1e9"):
            code, text = asked(server.port, f"/?seconds={wrong}")
            assert code == 400 and b"Fix: ask for /?seconds=2" in text
    finally:
        over.set()
        worker.join()
        profiler.stop_server()
    with pytest.raises(ValueError, match=r"^No active profiler server\."):
        profiler.stop_server()
    again = profiler.start_server(server.port)  # (the port is free)
    assert again.port == server.port
    profiler.stop_server()


def test_one_recording_at_a_time(tmp_path) -> None:  # type: ignore[no-untyped-def]
    server = profiler.start_server(0)
    try:
        with profiler.trace(tmp_path):
            code, text = asked(server.port, "/?seconds=0.1")
        assert code == 409 and b"started" in text
    finally:
        profiler.stop_server()


WORKER = """
import sys, threading
import calque.numpy as jnp
from calque import profiler
print(profiler.start_server(0).port, flush=True)
over = threading.Event()
def work():
    while not over.wait(0.005):
        with profiler.TraceAnnotation("a step of the worker"):
            jnp.dot(jnp.ones((8, 8)), jnp.ones((8, 8))).block_until_ready()
threading.Thread(target=work, daemon=True).start()
sys.stdin.read()
"""


def _spaces(folder: pathlib.Path) -> bytes:
    (path,) = folder.rglob("*.xplane.pb")
    return path.read_bytes()


def test_a_registered_process_is_traced_too(tmp_path: pathlib.Path) -> None:
    with pytest.raises(RuntimeError, match=r"is this process"):
        profiler.register_subprocess(os.getpid(), 1)
    worker = subprocess.Popen([sys.executable, "-c", WORKER], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)
    assert worker.stdout is not None
    try:
        port = int(worker.stdout.readline())
        with pytest.raises(RuntimeError, match=rf"is of process {worker.pid}, not 1\."):
            profiler.register_subprocess(1, port)
        unregister = profiler.register_subprocess(worker.pid, port)
        with pytest.raises(RuntimeError, match="registered already"):
            profiler.register_subprocess(worker.pid, port)
        for times in ("first", "second"):
            with profiler.trace(tmp_path / times), profiler.TraceAnnotation("a step of mine"):
                time.sleep(0.1)
            (trace,) = (tmp_path / times).glob("*.perfetto-trace")
            for content in (trace.read_bytes(), _spaces(tmp_path / times)):
                assert b"a step of mine" in content and b"a step of the worker" in content
            assert f"/host:CPU [{worker.pid}]".encode() in _spaces(tmp_path / times)
        # while the worker records for somebody else it is left out; and once it is gone
        asked(port, "/begin?level=1")
        with pytest.warns(RuntimeWarning, match=rf"process {worker.pid} is not in the trace: Pro"):
            profiler.start_trace(tmp_path / "third")
        profiler.stop_trace()
        assert asked(port, "/end")[0] == 200 and asked(port, "/end")[0] == 409
        assert asked(port, "/begin?level=9")[0] == 400
        unregister()
        with profiler.trace(tmp_path / "fourth"):
            pass
        assert b"worker" not in _spaces(tmp_path / "fourth")
        given_up = profiler.register_subprocess(worker.pid, port)
        worker.communicate("")
        with pytest.warns(RuntimeWarning, match="is not in the trace"), \
                profiler.trace(tmp_path / "fifth"):
            pass
        del given_up
        with pytest.raises(RuntimeError, match=rf"(?s)no profiler server answers at port {port}.*"
                                               rf"start_server\({port}\) in process"):
            profiler.register_subprocess(worker.pid, port)
    finally:
        worker.kill()
        worker.communicate()
