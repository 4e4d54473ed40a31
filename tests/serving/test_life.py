"""The command: it listens, says what is wrong, and ends when it is told to."""
from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from calque_cli import app
from support.serving import Client, tensor
from typer.testing import CliRunner

from calque import aot

BODY = {"inputs": [tensor("x", np.ones((1, 4), np.float32))]}


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("served") / "double.vmfb"
    aot.compile(lambda x: x + x, "f32[b,4]", name="double", targets=["cpu"]).save(path)
    return path


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("words, number", [
    (["calque", "serve"], signal.SIGTERM), (["calque.runtime.serving"], signal.SIGINT)],
    ids=["calque serve", "python -m calque.runtime.serving"])
def test_a_signal_ends_it_when_all_is_answered(file, words, number):
    started = subprocess.Popen(
        [sys.executable, "-m", *words, str(file), "--port", "0", "--max-wait-ms", "700"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert started.stdout is not None and started.stderr is not None
        first, second = started.stdout.readline(), started.stdout.readline()
        assert second == "  double: batches of up to 64 rows\n", started.stderr.read()
        url = first.split()[-1]
        client, other = Client(url), Client(url)
        assert other.json("GET", "/v2/health/ready") == (200, {"ready": True})
        answer: list[Any] = []
        asking = threading.Thread(target=lambda: answer.append(client.json(
            "POST", "/v2/models/double/infer", BODY)))
        asking.start()  # it waits 0.7 s for others
        other.wait_for("calque_queue_length", 1)
        started.send_signal(number)
        while other.json("GET", "/v2/health/ready")[0] == 200:
            pass
        status, body, headers = other.send("POST", "/v2/models/double/infer", BODY)
        assert status == 503 and int(headers["Retry-After"]) > 0 and b"is ending" in body
        asking.join(30)
        status, made = answer[0]
        assert status == 200 and made["outputs"][0]["data"] == [2] * 4
        assert started.wait(30) == 0
        assert started.stderr.read() == ""
    finally:
        started.kill()
        started.communicate()
        client.connection.close()
        other.connection.close()


def failed(*words: Any) -> str:
    """What a command that is given wrongly writes."""
    result = CliRunner().invoke(app, ["serve", *map(str, words)])
    assert result.exit_code == 2, result.output
    return " ".join(result.stderr.split())


def test_what_is_wrong_is_said_before_it_listens(file, tmp_path):
    assert "port is 99999. In calque serve --port. Fix: give a number" in failed(
        file, "--port", 99999)
    assert "max_wait_ms is nan." in failed(file, "--max-wait-ms", "nan")
    assert "cannot read" in failed(tmp_path / "none.vmfb")
    (tmp_path / "bad.vmfb").write_bytes(b"bad")
    assert "not a .vmfb" in failed(tmp_path / "bad.vmfb")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        said = failed(file, "--port", taken.getsockname()[1])
    assert re.search(r"127\.0\.0\.1:\d+ cannot be listened at: .* Fix: give a port", said), said


def test_without_the_packages_it_says_what_to_install(file, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "there is no aiohttp. Fix: pip install 'calque[serve]'." in failed(file)


def test_a_model_is_served_with_its_tokenizer(model_file, tmp_path, monkeypatch):
    tokenizers = pytest.importorskip("tokenizers")
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1}, unk_token="a"))
    words.save(str(tmp_path / "tokenizer.json"))
    seen = []

    def serve(served: Any, ready: Any) -> bool:
        seen.append(served)
        ready("http://here")
        return not seen[1:]
    monkeypatch.setattr("calque.runtime.serving.serve", serve)
    for more, code in ((["--tokenizer", tmp_path / "tokenizer.json"], 0), ([], 1)):
        result = CliRunner().invoke(app, ["serve", str(model_file), *map(str, more), "--name", "m"])
        seen[-1].close()
        assert result.exit_code == code, result.output
        assert result.stdout.startswith("serving m at http://here\n  m: completions, 3 sequences")
        assert ("tokens only" in result.stdout) == (not more)
    assert "before all requests were answered" in result.stderr
