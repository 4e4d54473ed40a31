"""What it costs that sizes are known at the call only: artifacts for any sizes and for some.

    python benchmarks/dynamic.py            prints a table
    python benchmarks/dynamic.py --write    writes it into docs/dynamic_shapes.md
"""
from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import calque.numpy as jnp
from calque import aot, lax, nn
from calque.runtime.buffer import Buffer

PAGE = Path(__file__).parents[1] / "docs" / "dynamic_shapes.md"


def mlp(x: Any, w: Any, u: Any) -> Any:
    return nn.softmax(nn.relu(x @ w) @ u)


def convolution(x: Any, w: Any) -> Any:
    return lax.conv_general_dilated(
        x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def network(x: Any, first: Any, second: Any, w: Any) -> Any:
    """Two convolutions of 3 x 3 with pooling, and a layer."""
    for kernel in (first, second):
        x = lax.conv_general_dilated(x, kernel, (1, 1), "SAME")
        x = lax.reduce_window(nn.relu(x), -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
    return x.reshape(x.shape[0], -1) @ w


def gru(x: Any, w: Any, u: Any) -> Any:
    """The last state of a GRU over the rows of x."""
    n = u.shape[0]

    def step(h: Any, row: Any) -> Any:
        a, b = row @ w, h @ u
        z, r = (nn.sigmoid(a[:, i * n:(i + 1) * n] + b[:, i * n:(i + 1) * n]) for i in (0, 1))
        new = jnp.tanh(a[:, 2 * n:] + r * b[:, 2 * n:])
        return (1 - z) * new + z * h, None

    return lax.scan(step, jnp.zeros((x.shape[0], n)), x.transpose(1, 0, 2))[0]


def scatter(x: Any, u: Any) -> Any:
    return jnp.zeros_like(x).at[jnp.arange(u.shape[0]) * 7 % x.shape[0]].add(u)


# function, sizes that are known in one artifact only, operands
CASES: dict[str, tuple[Callable[..., Any], dict[str, int], tuple[str, ...]]] = {
    "x + 1, 4 x 16": (lambda x: x + 1, {"b": 4}, ("f32[b,16]",)),
    "sin, 1000 x 1000": (jnp.sin, {"b": 1000}, ("f32[b,1000]",)),
    "sum, 1000 x 1000": (jnp.sum, {"b": 1000}, ("f32[b,1000]",)),
    "softmax, 1000 x 1000": (nn.softmax, {"b": 1000}, ("f32[b,1000]",)),
    "matmul, 512 x 512 x 512": (jnp.matmul, {"b": 512}, ("f32[b,512]", "f32[512,512]")),
    "MLP, batch 64, 784-512-10": (mlp, {"b": 64}, ("f32[b,784]", "f32[784,512]", "f32[512,10]")),
    **{f"MLP, batch {b}, 784-512-256-10": (
        lambda x, *w: nn.relu(nn.relu(x @ w[0]) @ w[1]) @ w[2], {"b": b},
        ("f32[b,784]", "f32[784,512]", "f32[512,256]", "f32[256,10]")) for b in (1, 8)},
    **{f"two convolutions of 28 x 28, batch {b}": (network, {"b": b}, (
        "f32[b,1,28,28]", "f32[16,1,3,3]", "f32[32,16,3,3]", "f32[1568,10]")) for b in (1, 8, 64)},
    **{f"GRU, 32 steps of 64, 128 units, batch {b}": (gru, {"b": b}, (
        "f32[b,32,64]", "f32[64,384]", "f32[128,384]")) for b in (1, 8, 64)},
    "sort, 1e5": (jnp.sort, {"b": 100_000}, ("f32[b]",)),
    "convolution, 8 x 32 x 32 x 16": (
        convolution, {"b": 8}, ("f32[b,32,32,16]", "f32[3,3,16,16]")),
    "the same, height and width unknown too": (
        convolution, {"b": 8, "h": 32, "w": 32}, ("f32[b,h,w,16]", "f32[3,3,16,16]")),
    "at[i].add of 2000 rows of 64": (
        scatter, {"b": 1000, "k": 2000, "n": 64}, ("f32[b,n]", "f32[k,n]")),
    "solve, 200 x 200": (jnp.linalg.solve, {"n": 200}, ("f32[n,n]", "f32[n]")),
    "svd, 100 x 60": (
        lambda x: jnp.linalg.svd(x, full_matrices=False), {"m": 100, "n": 60}, ("f32[m,n]",)),
}


def best(call: Any, args: list[Buffer]) -> float:
    """Seconds of a call with its results there: the best of many."""
    times = []
    end = time.perf_counter() + 1.0
    while time.perf_counter() < end or len(times) < 5:
        start = time.perf_counter()
        for r in call(*args):
            r.wait()
        times.append(time.perf_counter() - start)
    return min(times)


def rows() -> list[str]:
    """The table."""
    lines = ["| | known size | any size | ratio |", "|---|---|---|---|"]
    for name, (fun, sizes, specs) in CASES.items():
        times = []
        shapes = [tuple(sizes[n] if n in sizes else int(n) for n in s[4:-1].split(","))
                  for s in specs]
        for known in (True, False):
            types = [f"f32[{','.join(map(str, s))}]" for s in shapes] if known else specs
            call = aot.load(aot.compile(fun, *types, name="f").vmfb).f
            rng = np.random.default_rng(0)
            args = [Buffer.from_numpy(rng.normal(size=s).astype(np.float32), call.device)
                    for s in shapes]
            times.append(best(call, args))
        lines.append(f"| {name} | {times[0] * 1e6:.1f} us | {times[1] * 1e6:.1f} us | "
                     f"{times[1] / times[0]:.2f} |")
        print(lines[-1], flush=True)
    return lines


if __name__ == "__main__":
    table = "\n".join(rows())
    if "--write" in sys.argv:
        text = PAGE.read_text()
        front, rest = text.split("<!-- bench: begin -->")
        _, behind = rest.split("<!-- bench: end -->")
        PAGE.write_text(f"{front}<!-- bench: begin -->\n{table}\n<!-- bench: end -->{behind}")
