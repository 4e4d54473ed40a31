"""Servers on threads, and a client of the standard library."""
from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import numpy as np

import calque.numpy as jnp
from calque import aot, runtime
from calque.runtime import serving

HEADER = "Inference-Header-Content-Length"


class Total(aot.Module):
    """The smallest state."""

    def __init__(self) -> None:
        self.total = jnp.zeros(2)

    @aot.export("f32[2]")
    def add(self, x: Any) -> Any:
        self.total = self.total + x
        return {"total": self.total, "count": jnp.int32(1)}


class Client:
    """Requests to a server, on one connection that is kept, or on one each."""

    def __init__(self, url: str, keeps: bool = True) -> None:
        self._keeps = keeps
        self._address = urlsplit(url).netloc
        self.connection = http.client.HTTPConnection(self._address, timeout=60)

    def send(self, method: str, path: str, body: Any = None, **headers: str
             ) -> tuple[int, bytes, Any]:
        """(status, body, headers); what is no bytes is sent as JSON."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        for attempt in range(2):
            try:
                self.connection.request(method, path, data,
                                        {k.replace("_", "-"): v for k, v in headers.items()})
                answer = self.connection.getresponse()
                return answer.status, answer.read(), answer.headers
            except (http.client.HTTPException, ConnectionError):  # it was closed meanwhile
                self.connection.close()
                if attempt:
                    raise
            finally:
                if not self._keeps:
                    self.connection.close()
        raise AssertionError

    def json(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        status, data, _ = self.send(method, path, body)
        return status, json.loads(data)

    def infer(self, name: str, **arrays: np.ndarray) -> dict[str, np.ndarray]:
        """A call with tensors as JSON."""
        status, made = self.json("POST", f"/v2/models/{name}/infer", {"inputs": [
            tensor(n, a) for n, a in arrays.items()]})
        assert status == 200, made
        return {o["name"]: np.array(o["data"]).reshape(o["shape"]) for o in made["outputs"]}

    def metric(self, name: str) -> float:
        """The sum of a metric over its labels."""
        text = self.send("GET", "/metrics")[1].decode()
        return sum(float(line.split()[-1]) for line in text.splitlines()
                   if line.split("{")[0].split()[0] == name)

    def wait_for(self, name: str, value: float) -> None:
        """Wait until a metric has a value."""
        end = time.monotonic() + 30
        while (found := self.metric(name)) != value:
            assert time.monotonic() < end, f"{name} is {found}"
            time.sleep(.002)


def once(running: Any) -> Client:
    """A client for another thread."""
    return Client(running.url, keeps=False)


def tensor(name: str, array: np.ndarray) -> dict[str, Any]:
    """A tensor as JSON has it."""
    kinds = {"float16": "FP16", "float32": "FP32", "float64": "FP64", "bool": "BOOL",
             "bfloat16": "BF16"}
    return {"name": name, "shape": list(array.shape), "data": array.tolist(),
            "datatype": kinds.get(array.dtype.name, array.dtype.name.upper())}


def together(calls: list[Callable[[], Any]]) -> list[Any]:
    """The results of calls on threads of their own."""
    with ThreadPoolExecutor(len(calls)) as pool:
        return [f.result() for f in [pool.submit(c) for c in calls]]


@contextmanager
def server(artifact: runtime.Artifact, tokenizer: Any = None, **settings: Any
           ) -> Iterator[tuple[Client, Any]]:
    """A server on a thread, and a client."""
    served = serving.Served(artifact, "file", serving.Settings(port=0, **settings), tokenizer)
    with serving.running(served) as running:
        client = Client(running.url)
        try:
            yield client, running
        finally:
            client.connection.close()


class Gate:
    """Holds calls of a function until it is opened."""

    def __init__(self, served: Any, name: str) -> None:
        self.open = threading.Event()
        entry = served.entries[name]
        call = entry.call

        def held(*args: Any) -> Any:
            assert self.open.wait(60)
            return call(*args)
        entry.call = held
