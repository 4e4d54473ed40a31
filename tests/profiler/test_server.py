"""A process that is asked for a trace from outside answers with one."""
from __future__ import annotations

import threading
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
