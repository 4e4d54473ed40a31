"""Decoding of random Llama-shaped models beside the memory's bandwidth, and what a session's call
costs beside the function's own.

    python benchmarks/generation.py --width 768 --layers 12 --dtype float32
    python benchmarks/generation.py --dtype q4_0

Prints a row for docs/models.md: bytes of weights, seconds to read a prompt of 128 tokens, tokens a
second, and the share of those that reading the weights once a token would allow.
"""
from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import typer

import calque
import calque.numpy as jnp
from calque import aot, dtypes, models
from calque.core.blocks import KINDS
from calque.runtime import Buffer


def seconds(call: Callable[[], Any], count: int) -> float:
    """Of a call, the median of seven rounds."""
    rounds = []
    for _ in range(7):
        begin = time.perf_counter()
        for _ in range(count):
            call()
        rounds.append((time.perf_counter() - begin) / count)
    return statistics.median(rounds)


def reading() -> float:
    """Bytes a second that all threads read: the sum of 512 MB, compiled."""
    artifact = aot.load(aot.compile(jnp.sum, f"f32[{1 << 27}]", name="total"))
    x = np.ones(1 << 27, np.float32)
    held = Buffer.from_numpy(x, artifact.device)
    return x.nbytes / seconds(lambda: artifact.total(held)[0].numpy(), 3)


class Counter(aot.Module):
    """The smallest state."""

    def __init__(self) -> None:
        self.count = jnp.zeros(())

    @aot.export("f32")
    def add(self, x: Any) -> Any:
        self.count = self.count + x
        return self.count


def main(width: int = 768, layers: int = 12, vocabulary: int = 32000, dtype: str = "float32",
         tokens: Annotated[int, typer.Option(help="that are decoded")] = 100) -> None:
    config = models.LlamaConfig(vocabulary=vocabulary, width=width, layers=layers,
                                heads=width // 64, kv_heads=width // 128, head_size=64,
                                hidden=width * 8 // 3 // 32 * 32, tied=True)
    draw = np.random.default_rng(0)
    stored = getattr(dtypes, dtype, None) or "float32"
    weights: Any = {n: (draw.standard_normal(s, np.float32) / np.float32(np.sqrt(s[-1])))
                    .astype(stored) for n, s in config.shapes().items()}
    if dtype in KINDS:
        weights = calque.quantize(weights, dtype, axis=1)
    size = sum(w.nbytes for w in weights.values())
    artifact = models.Llama(config, weights, capacity=512, chunks=(128,)).compile()
    session = aot.load(artifact).session()
    prompt = draw.integers(0, vocabulary, 128).tolist()
    read = []
    for _ in range(3):
        session.clear(np.int32(0))
        begin = time.perf_counter()
        made = models.generate(session, prompt, most=tokens, stop=())
        next(made)
        read.append(time.perf_counter() - begin)
        begin = time.perf_counter()
        count = sum(1 for _ in made)
        rate = count / (time.perf_counter() - begin)
    bandwidth = reading()
    print(f"| {sum(w.size for w in weights.values()) / 1e6:.0f}M, {dtype} | {size / 1e6:.0f} MB | "
          f"{min(read):.2f} s | {rate:.1f} | {rate * size / bandwidth:.2f} |")
    counter = aot.load(Counter().compile())
    one, add = counter.session(), counter.add
    x = np.float32(1)
    state = counter.initial_state()

    def plain() -> None:
        nonlocal state
        _, state[0] = add(state[0], x)

    print(f"a call {seconds(plain, 2000) * 1e6:.1f} us, a session's "
          f"{seconds(lambda: one.add(x), 2000) * 1e6:.1f} us")


if __name__ == "__main__":
    typer.run(main)
