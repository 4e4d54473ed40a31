"""Kernels of Pallas, compiled, beside calque's own forms without tiles and jax's interpret mode.

    python benchmarks/pallas.py [--jax PYTHON] [--only WORD] [--write]

Each library runs in a process of its own; they take turns, and the best of a second is kept.
Start at `kernels`.
"""
from __future__ import annotations

import argparse
import functools
import importlib
import json
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

Form = Callable[..., Any]
ROUNDS, SECONDS = 3, 1.0


def kernels(top: Any, pl: Any) -> dict[str, tuple[Form, Form, tuple[tuple[int, ...], ...]]]:
    """(tiled, untiled, shapes of the arguments) by name; jax's Pallas is interpreted."""
    np, lax = top.numpy, top.lax
    S, B = top.ShapeDtypeStruct, pl.BlockSpec
    call = functools.partial(pl.pallas_call, interpret=True)

    def matmul(x: Any, y: Any, n: int = 128) -> Any:
        def kernel(x_ref: Any, y_ref: Any, o_ref: Any) -> None:
            @pl.when(pl.program_id(2) == 0)
            def start() -> None:
                o_ref[...] = np.zeros_like(o_ref)
            o_ref[...] += x_ref[...] @ y_ref[...]

        return call(kernel, S((len(x), y.shape[1]), x.dtype),
                    grid=(len(x) // n, y.shape[1] // n, len(y) // n),
                    in_specs=[B((n, n), lambda i, j, k: (i, k)), B((n, n), lambda i, j, k: (k, j))],
                    out_specs=B((n, n), lambda i, j, k: (i, j)))(x, y)

    def matmul_relu(x: Any, y: Any, n: int = 128) -> Any:
        def kernel(x_ref: Any, y_ref: Any, o_ref: Any, acc_ref: Any) -> None:
            @pl.when(pl.program_id(2) == 0)
            def start() -> None:
                acc_ref[...] = np.zeros_like(acc_ref)
            acc_ref[...] += x_ref[...] @ y_ref[...]

            @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
            def end() -> None:
                o_ref[...] = np.maximum(acc_ref[...], 0)

        return call(kernel, S((len(x), y.shape[1]), x.dtype),
                    grid=(len(x) // n, y.shape[1] // n, len(y) // n),
                    in_specs=[B((n, n), lambda i, j, k: (i, k)), B((n, n), lambda i, j, k: (k, j))],
                    out_specs=B((n, n), lambda i, j, k: (i, j)),
                    scratch_shapes=[pl.ANY((n, n), np.float32)])(x, y)

    def of_rows(f: Form, n: int = 8) -> Form:
        """f in blocks of rows; further arguments are vectors that every block sees."""
        def tiled(x: Any, *more: Any) -> Any:
            def kernel(*refs: Any) -> None:
                refs[-1][...] = f(*[r[...] for r in refs[:-1]])

            block = B((n, x.shape[1]), lambda i: (i, 0))
            whole = B((x.shape[1],), lambda i: (0,))
            return call(kernel, S(x.shape, x.dtype), grid=len(x) // n, out_specs=block,
                        in_specs=[block, *[whole for _ in more]])(x, *more)
        return tiled

    def softmax(x: Any) -> Any:
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    def layernorm(x: Any, scale: Any, offset: Any) -> Any:
        c = x - x.mean(-1, keepdims=True)
        return c * lax.rsqrt((c * c).mean(-1, keepdims=True) + 1e-5) * scale + offset

    def flash(q: Any, k: Any, v: Any, n: int = 128, causal: bool = False) -> Any:
        heads, length, width = q.shape

        def kernel(q_ref: Any, k_ref: Any, v_ref: Any, o_ref: Any) -> None:
            i, at = pl.program_id(1), np.arange(n)

            def body(j: Any, carry: Any) -> Any:
                acc, top, total = carry
                s = (q_ref[...] @ k_ref[pl.ds(j * n, n), :].T) * width ** -0.5
                if causal:
                    s = np.where((i * n + at)[:, None] >= (j * n + at)[None, :], s, -np.inf)
                new = np.maximum(top, s.max(-1))
                p, scale = np.exp(s - new[:, None]), np.exp(top - new)
                return (acc * scale[:, None] + p @ v_ref[pl.ds(j * n, n), :], new,
                        total * scale + p.sum(-1))

            first = (np.zeros((n, width), np.float32), np.full((n,), -np.inf, np.float32),
                     np.zeros((n,), np.float32))
            acc, _, total = lax.fori_loop(0, i + 1 if causal else length // n, body, first)
            o_ref[...] = acc / total[:, None]

        mine = B((None, n, width), lambda h, i: (h, i, 0))
        whole = B((None, length, width), lambda h, i: (h, 0, 0))
        return call(kernel, S(q.shape, q.dtype), grid=(heads, length // n),
                    in_specs=[mine, whole, whole], out_specs=mine)(q, k, v)

    def flash_of_grid(q: Any, k: Any, v: Any, n: int = 128) -> Any:
        heads, length, width = q.shape

        def kernel(q_ref: Any, k_ref: Any, v_ref: Any, o_ref: Any, acc_ref: Any, top_ref: Any,
                   total_ref: Any) -> None:
            @pl.when(pl.program_id(2) == 0)
            def start() -> None:
                acc_ref[...] = np.zeros_like(acc_ref)
                top_ref[...] = np.full_like(top_ref, -np.inf)
                total_ref[...] = np.zeros_like(total_ref)

            s = (q_ref[...] @ k_ref[...].T) * width ** -0.5
            top = top_ref[...]
            new = np.maximum(top, s.max(-1))
            p, scale = np.exp(s - new[:, None]), np.exp(top - new)
            acc_ref[...] = acc_ref[...] * scale[:, None] + p @ v_ref[...]
            top_ref[...] = new
            total_ref[...] = total_ref[...] * scale + p.sum(-1)

            @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
            def end() -> None:
                o_ref[...] = acc_ref[...] / total_ref[...][:, None]

        mine = B((None, n, width), lambda h, i, j: (h, i, 0))
        other = B((None, n, width), lambda h, i, j: (h, j, 0))
        return call(kernel, S(q.shape, q.dtype), grid=(heads, length // n, length // n),
                    in_specs=[mine, other, other], out_specs=mine, scratch_shapes=[
                        pl.ANY((n, width), np.float32), *[pl.ANY((n,), np.float32)] * 2])(q, k, v)

    def attention(q: Any, k: Any, v: Any, causal: bool = False) -> Any:
        s = np.einsum("hqd,hkd->hqk", q, k) * q.shape[-1] ** -0.5
        if causal:
            s = np.where(np.tril(np.ones(s.shape[1:], bool)), s, -np.inf)
        return np.einsum("hqk,hkd->hqd", softmax(s), v)

    def running(x: Any, n: int = 1024) -> Any:
        def kernel(x_ref: Any, o_ref: Any, sum_ref: Any) -> None:
            @pl.when(pl.program_id(0) == 0)
            def start() -> None:
                sum_ref[...] = np.zeros_like(sum_ref)
            sums = np.cumsum(x_ref[...])
            o_ref[...] = sum_ref[0] + sums
            sum_ref[0] += sums[-1]

        block = B((n,), lambda i: (i,))
        return call(kernel, S(x.shape, x.dtype), grid=len(x) // n, in_specs=[block],
                    out_specs=block, scratch_shapes=[pl.ANY((1,), np.float32)])(x)

    def added(x: Any, y: Any, n: int = 4096) -> Any:
        def kernel(x_ref: Any, y_ref: Any, o_ref: Any) -> None:
            o_ref[...] = x_ref[...] + y_ref[...]

        block = B((n,), lambda i: (i,))
        return call(kernel, S(x.shape, x.dtype), grid=len(x) // n, in_specs=[block, block],
                    out_specs=block)(x, y)

    square, heads, wide = (1024, 1024), (4, 1024, 64), (2048, 2048)
    causal = functools.partial(flash, causal=True)
    return {
        "matmul, 1024 in tiles of 128": (matmul, lambda x, y: x @ y, (square, square)),
        "the same, scratch and relu": (
            matmul_relu, lambda x, y: np.maximum(x @ y, 0), (square, square)),
        "softmax, 2048 x 2048 by 8 rows": (of_rows(softmax), softmax, (wide,)),
        "layernorm, 2048 x 2048 by 8 rows": (
            of_rows(layernorm), layernorm, (wide, (2048,), (2048,))),
        "flash attention, 4 x 1024 x 64": (flash, attention, (heads,) * 3),
        "the same, causal": (causal, functools.partial(attention, causal=True), (heads,) * 3),
        "the same, keys in the grid": (flash_of_grid, attention, (heads,) * 3),
        "sum of two, 4M by 4096": (added, lambda x, y: x + y, ((1 << 22,), (1 << 22,))),
        "running sum, 1M by 1024": (running, np.cumsum, ((1 << 20,),)),
    }


# ---- in a process of its own
def serve(library: str) -> None:
    """Answers lines `name` with the best milliseconds of the tiled and the untiled form."""
    top = importlib.import_module(library)
    pl = importlib.import_module(f"{library}.experimental.pallas")
    every, ready = kernels(top, pl), {}
    for line in sys.stdin:
        name = line.rstrip("\n")
        tiled, untiled, shapes = every[name]
        if name not in ready:
            rng = np.random.default_rng(0)
            args = [top.numpy.asarray(rng.standard_normal(s).astype(np.float32)) for s in shapes]
            ready[name] = [(top.jit(f), args) for f in (tiled, untiled)]
            a, b = [np.asarray(f(*args)) for f, args in ready[name]]
            assert np.abs(a - b).max() <= 1e-4 * np.abs(b).max(), name
        print(json.dumps([_best(top, f, args) for f, args in ready[name]]), flush=True)


def _best(top: Any, f: Form, args: list[Any]) -> float:
    best, end = 1e9, time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        start = time.perf_counter()
        top.block_until_ready(f(*args))
        best = min(best, time.perf_counter() - start)
    return best * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jax", default=sys.executable, help="a Python that has jax")
    parser.add_argument("--only", default="", help="kernels whose name contains this")
    parser.add_argument("--write", action="store_true", help="into docs/pallas.md")
    given = parser.parse_args()
    import calque
    from calque.experimental import pallas as pl
    servers = [subprocess.Popen(
        [python, str(pathlib.Path(__file__).resolve()), "--serve", library], text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for library, python in (("calque", sys.executable), ("jax", given.jax))]
    lines = ["| | calque, ms | of calque's untiled form | of jax's interpret mode | jax's untiled "
             "form, ms |", "|---|---|---|---|---|"]
    for name in kernels(calque, pl):
        if given.only not in name:
            continue
        best = [[1e9, 1e9], [1e9, 1e9]]
        for _ in range(ROUNDS):
            for i, server in enumerate(servers):
                assert server.stdin and server.stdout
                server.stdin.write(name + "\n")
                server.stdin.flush()
                best[i] = [min(a, b) for a, b in zip(best[i], json.loads(server.stdout.readline()))]
        (ours, plain), (other, other_plain) = best
        lines.append(f"| {name} | {ours:.2f} | {ours / plain:.2f} | 1 / {other / ours:.0f} "
                     f"({other:.0f} ms) | {other_plain:.2f} |")
        print(lines[-1], flush=True)
    for server in servers:
        assert server.stdin
        server.stdin.close()
        server.wait()
    if given.write:
        import suite
        suite.put("pallas.md", "pallas", lines)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2])
    else:
        main()
