"""`calque serve` under load on the loopback: latency, requests a second, tokens a second.

    python benchmarks/serving.py            prints two tables
    python benchmarks/serving.py --write    writes them into docs/serving.md

The server is a process of its own; clients are coroutines of this one, each of which asks again as
soon as it is answered.  Of rounds of a second the best counts: others use the machine, too.
"""
from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import typer

from calque import aot, models, nn

PAGE = Path(__file__).parents[1] / "docs" / "serving.md"
HEADER = "Inference-Header-Content-Length"
FEATURES = 784
NETWORKS = {512: (1, 8, 32, 128), 2048: (1, 8, 32)}  # width of two layers: numbers of clients


def mlp(folder: Path, width: int) -> Path:
    """A network with programs for 1, 8, 64 rows and for any."""
    draw, sizes = np.random.default_rng(0), (FEATURES, width, width, 10)
    weights = [draw.normal(0, n ** -.5, (n, m)).astype(np.float32)
               for n, m in zip(sizes, sizes[1:])]

    def predict(x: Any) -> Any:
        for w in weights[:-1]:
            x = nn.relu(x @ w)
        return nn.softmax(x @ weights[-1])
    made = aot.compile(predict, f"f32[b,{FEATURES}]", buckets=(1, 8, 64), parameters=True)
    made.save(folder / "predict.vmfb")
    return folder / "predict.vmfb"


def llama(folder: Path) -> Path:
    """A language model of random weights (10M) for 8 sequences."""
    config = models.LlamaConfig(vocabulary=8000, width=320, layers=5, heads=5, kv_heads=5,
                                head_size=64, hidden=864, tied=True)
    draw = np.random.default_rng(0)
    weights = {n: draw.normal(0, s[-1] ** -.5, s).astype(np.float32)
               for n, s in config.shapes().items()}
    size = sum(w.size for w in weights.values())
    print(f"a model of {size / 1e6:.0f}M", file=sys.stderr)
    models.Llama(config, weights, sequences=8, capacity=256, chunks=(16,)).compile(
        folder / "model.vmfb", parameters=True)
    return folder / "model.vmfb"


@contextlib.contextmanager
def served(file: Path, *words: str) -> Iterator[str]:
    """The address of a server."""
    started = subprocess.Popen([sys.executable, "-m", "calque", "serve", str(file), "--port", "0",
                                *words], stdout=subprocess.PIPE, text=True)
    assert started.stdout is not None
    try:
        yield started.stdout.readline().split()[-1]
    finally:
        started.send_signal(signal.SIGTERM)
        started.communicate(timeout=60)


async def metric(session: aiohttp.ClientSession, url: str, name: str) -> float:
    async with session.get(f"{url}/metrics") as answer:
        return sum(float(line.split()[-1]) for line in (await answer.text()).splitlines()
                   if line.startswith((f"{name} ", f"{name}{{")))


async def load(url: str, clients: int, seconds: float) -> tuple[float, float, float, float]:
    """p50, p99 and requests a second, of rounds of a second the best; rows of a call."""
    x = np.random.default_rng(1).normal(size=(1, FEATURES)).astype(np.float32)
    head = json.dumps({"inputs": [{
        "name": "x", "datatype": "FP32", "shape": list(x.shape),
        "parameters": {"binary_data_size": x.nbytes}}],
        "parameters": {"binary_data_output": True}}).encode()
    body = head + x.tobytes()
    taken: list[float] = []
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        async def client(until: float) -> None:
            while (begin := time.perf_counter()) < until:
                async with session.post(f"{url}/v2/models/predict/infer", data=body,
                                        headers={HEADER: str(len(head))}) as answer:
                    assert answer.status == 200
                    await answer.read()
                taken.append(time.perf_counter() - begin)

        async def a_second() -> tuple[float, float, float]:
            taken.clear()
            begin = time.perf_counter()
            await asyncio.gather(*[client(begin + 1) for _ in range(clients)])
            rate = len(taken) / (time.perf_counter() - begin)
            ordered = sorted(taken)
            return ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100], rate
        await a_second()
        runs = await metric(session, url, "calque_runs_total")
        rows = await metric(session, url, "calque_batch_rows_sum")
        rounds = [await a_second() for _ in range(max(1, round(seconds)))]
        runs = await metric(session, url, "calque_runs_total") - runs
        rows = await metric(session, url, "calque_batch_rows_sum") - rows
    p50, p99, rate = max(rounds, key=lambda r: r[2])
    return p50, p99, rate, rows / runs


def requests_table(folder: Path, seconds: float) -> Iterator[str]:
    yield "| network | clients | batching | p50 | p99 | requests a second | rows of a call |"
    yield "|---|---|---|---|---|---|---|"
    for width, numbers in NETWORKS.items():
        file = mlp(folder, width)
        for clients in numbers:
            for name, words in (("none", ["--no-batching"]), ("what waits", []),
                                ("waits 2 ms", ["--max-wait-ms", "2"])):
                with served(file, *words) as url:
                    p50, p99, rate, rows = asyncio.run(load(url, clients, seconds))
                yield (f"| {width} | {clients} | {name} | {p50 * 1e3:.2f} ms | "
                       f"{p99 * 1e3:.2f} ms | {rate:.0f} | {rows:.1f} |")


async def generated(url: str, clients: int, most: int) -> tuple[float, list[float]]:
    """Tokens a second of so many sequences together, and seconds to each first token."""
    first: list[float] = []
    draw = np.random.default_rng(2)
    async with aiohttp.ClientSession() as session:
        async def client() -> int:
            count, begin = 0, time.perf_counter()
            async with session.post(f"{url}/v1/completions", json={
                    "prompt": draw.integers(0, 8000, 32).tolist(), "max_tokens": most,
                    "temperature": 0, "stream": True}) as answer:
                async for line in answer.content:
                    if line.startswith(b"data: {"):
                        count += len(json.loads(line[6:])["choices"][0]["token_ids"])
                        if count == 1 and len(first) < clients:
                            first.append(time.perf_counter() - begin)
            return count
        await client()
        first.clear()
        begin = time.perf_counter()
        counts = await asyncio.gather(*[client() for _ in range(clients)])
        return sum(counts) / (time.perf_counter() - begin), first


def tokens_table(file: Path, most: int) -> Iterator[str]:
    yield "| sequences | tokens a second | of one | to the first token, median |"
    yield "|---|---|---|---|"
    one = 0.0
    with served(file) as url:
        for clients in (1, 2, 4, 8, 16):
            rounds = [asyncio.run(generated(url, clients, most)) for _ in range(3)]
            rate, first = max(rounds)
            one = one or rate
            yield (f"| {clients} | {rate:.0f} | {rate / one:.1f} | "
                   f"{statistics.median(first) * 1e3:.0f} ms |")


def main(seconds: float = 8, tokens: int = 128, write: bool = False) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lines: list[str] = []
        for line in requests_table(folder, seconds):
            lines.append(line)
            print(line, flush=True)
        lines.append("")
        for line in tokens_table(llama(folder), tokens):
            lines.append(line)
            print(line, flush=True)
    if write:
        front, rest = PAGE.read_text().split("<!-- bench: begin -->")
        _, behind = rest.split("<!-- bench: end -->")
        PAGE.write_text("\n".join([f"{front}<!-- bench: begin -->", *lines,
                                   f"<!-- bench: end -->{behind}"]))


if __name__ == "__main__":
    typer.run(main)
