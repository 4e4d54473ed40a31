"""Programs that people run on GPUs, timed and checked beside JAX and torch on the same card.

    python tables.py [--limit 200] [--only products,rows] [--out FOLDER]

Lies as tables.py beside what tests/carry_tables.py compiled, and calque/runtime.  Needs NumPy,
ml_dtypes, iree-base-runtime; JAX for the check (its float32 products at highest precision) and the
table, torch for the table where a program has a form for it.  Two times of each: waiting for every
call, and a call of 20 in a row.  Writes tables.jsonl as it goes and tables.md at the end.
`TABLES` is what is compiled, too.  Start reading at `main`.
"""
from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """A program: `f(j, *arrays)`, where j is jax or calque, and `torch` the same of torch.

    Attributes:
      shapes, dtype: of its arguments (an int32 argument is a shape and its bound).
      work: operations, or bytes moved where `unit` is 'B'.
      precision: of float32 products; bound: of the error, relative in norm, against JAX's at
        'highest'.  TF32 rounds operands to 11 bits: 3e-4 rms, both operands and their sums.
    """

    f: Callable[..., Any]
    shapes: Sequence[Any]
    dtype: str = "float32"
    work: float = 0.0
    unit: str = "F"
    torch: Callable[..., Any] | None = None
    precision: str = "default"
    bound: float = 1e-5


def matmul(j: Any, x: Any, y: Any) -> Any:
    return j.numpy.matmul(x, y)


def _products() -> dict[str, Case]:
    found = {}
    kinds = (("float32", "default", 2e-3), ("float32", "highest", 1e-5),
             ("bfloat16", "default", 5e-3), ("float16", "default", 1e-3))
    sizes = [(n, n, n) for n in (512, 1024, 2048, 4096, 8192)]
    sizes += [(1, 4096, 4096), (64, 4096, 4096), (4096, 64, 4096), (2048, 512, 2048),
              (1001, 1001, 1001), (64, 10, 512)]
    for dtype, precision, bound in kinds:
        for m, n, k in sizes:
            name = f"{m} x {k} x {n}, {'exact ' * (precision == 'highest')}{dtype}"
            found[name] = Case(matmul, ((m, k), (k, n)), dtype, 2.0 * m * n * k, "F",
                               lambda t, x, y: x @ y, precision, bound)
    for dtype, precision, bound in kinds[::2]:
        found[f"x^T y, 4096, {dtype}"] = Case(
            lambda j, x, y: j.numpy.matmul(x.T, y), ((4096, 4096),) * 2, dtype, 2.0 * 4096**3, "F",
            lambda t, x, y: x.T @ y, precision, bound)
        found[f"x y^T, 4096, {dtype}"] = Case(
            lambda j, x, y: j.numpy.matmul(x, y.T), ((4096, 4096),) * 2, dtype, 2.0 * 4096**3, "F",
            lambda t, x, y: x @ y.T, precision, bound)
        found[f"64 of 256 x 64 x 256, {dtype}"] = Case(
            matmul, ((64, 256, 64), (64, 64, 256)), dtype, 2.0 * 64 * 256 * 256 * 64, "F",
            lambda t, x, y: x @ y, precision, bound)
    return found


def layernorm(j: Any, x: Any, scale: Any, bias: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / j.numpy.sqrt(variance + 1e-5) * scale + bias


def _memory() -> dict[str, Case]:
    n = 10_000_000
    rows = {}
    for m, k in ((1000, 1000), (4096, 4096), (2048, 50257)):
        size = 4.0 * m * k
        rows[f"softmax, {m} x {k}"] = Case(
            lambda j, x: j.nn.softmax(x), ((m, k),), work=2 * size, unit="B",
            torch=lambda t, x: t.softmax(x, 1))
        rows[f"sum of rows, {m} x {k}"] = Case(
            lambda j, x: x.sum(1), ((m, k),), work=size, unit="B", torch=lambda t, x: x.sum(1))
        rows[f"argmax of rows, {m} x {k}"] = Case(
            lambda j, x: j.numpy.argmax(x, 1), ((m, k),), work=size, unit="B",
            torch=lambda t, x: x.argmax(1))
    return {
        "add, 1e7": Case(lambda j, x, y: x + y, ((n,), (n,)), work=12.0 * n, unit="B",
                         torch=lambda t, x, y: x + y),
        "tanh, 1e7": Case(lambda j, x: j.numpy.tanh(x), ((n,),), work=8.0 * n, unit="B",
                          torch=lambda t, x: t.tanh(x)),
        "bias and gelu, 8192 x 1000": Case(
            lambda j, x, b: j.nn.gelu(x + b), ((8192, 1000), (1000,)), work=8.0 * 8192000, unit="B",
            torch=lambda t, x, b: t.nn.functional.gelu(x + b, approximate="tanh")),
        "sum, 1e7": Case(lambda j, x: x.sum(), ((n,),), work=4.0 * n, unit="B",
                         torch=lambda t, x: x.sum(), bound=1e-4),
        "sum of columns, 4096 x 4096": Case(
            lambda j, x: x.sum(0), ((4096, 4096),), work=4.0 * 4096**2, unit="B",
            torch=lambda t, x: x.sum(0)),
        "turned round, 4096 x 4096": Case(
            lambda j, x: j.numpy.transpose(x) + 1, ((4096, 4096),), work=8.0 * 4096**2, unit="B",
            torch=lambda t, x: x.T + 1),
        **rows,
        "layernorm, 8192 x 1000": Case(
            layernorm, ((8192, 1000), (1000,), (1000,)), work=8.0 * 8192000, unit="B",
            torch=lambda t, x, s, b: t.nn.functional.layer_norm(x, (1000,), s, b)),
        "gradient of layernorm, 8192 x 1000": Case(
            lambda j, x, s, b: j.grad(lambda *xs: (layernorm(j, *xs) ** 2).sum(), argnums=(0, 1))(
                x, s, b), ((8192, 1000), (1000,), (1000,)), work=12.0 * 8192000, unit="B",
            bound=1e-4),
        "cumsum of rows, 1000 x 1000": Case(
            lambda j, x: j.numpy.cumsum(x, 1), ((1000, 1000),), work=8e6, unit="B",
            torch=lambda t, x: x.cumsum(1)),
        "sort, 1e6": Case(lambda j, x: j.numpy.sort(x), ((1_000_000,),), work=8e6, unit="B",
                          torch=lambda t, x: t.sort(x)[0]),
        "top 8 of rows, 64 x 50257": Case(
            lambda j, x: j.lax.top_k(x, 8)[0], ((64, 50257),), work=4.0 * 64 * 50257, unit="B",
            torch=lambda t, x: t.topk(x, 8)[0]),
        "rows picked, 50257 x 512 by 8192": Case(
            lambda j, x, i: x[i], ((50257, 512), ((8192,), 50257)), work=8.0 * 8192 * 512,
            unit="B", torch=lambda t, x, i: x[i]),
        "rows added, 50257 x 512 at 8192": Case(
            lambda j, x, i, y: x.at[i].add(y), ((50257, 512), ((8192,), 50257), (8192, 512)),
            work=8.0 * (50257 + 8192) * 512, unit="B"),
    }


def conv(j: Any, x: Any, w: Any, stride: int = 1) -> Any:
    return j.lax.conv_general_dilated(x, w, (stride, stride), "SAME",
                                      dimension_numbers=("NHWC", "HWIO", "NHWC"))


def conv_gradients(j: Any, x: Any, w: Any) -> Any:
    return j.grad(lambda x, w: (conv(j, x, w) ** 2).sum() / 2, argnums=(0, 1))(x, w)


def _torch_conv(t: Any, x: Any, w: Any, stride: int = 1) -> Any:
    (k, low) = w.shape[0], (w.shape[0] - 1) // 2
    x, w = x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1)
    if stride == 1:
        return t.nn.functional.conv2d(x, w, padding=low)
    pad = max(k - stride, 0)
    x = t.nn.functional.pad(x, (pad // 2, pad - pad // 2) * 2)
    return t.nn.functional.conv2d(x, w, stride=stride)


def _convolutions() -> dict[str, Case]:
    found = {}
    for n, h, c, k, r, stride in ((32, 56, 64, 64, 3, 1), (32, 14, 256, 256, 3, 1),
                                  (16, 224, 3, 64, 7, 2)):
        shapes, work = ((n, h, h, c), (r, r, c, k)), 2.0 * n * (h // stride)**2 * c * k * r * r
        name = f"{n} x {h} x {h} x {c}, {r} x {r}, {k}" + f", stride {stride}" * (stride > 1)
        for dtype, bound in (("float32", 2e-3), ("bfloat16", 5e-3)):
            found[f"{name}, {dtype}"] = Case(
                lambda j, x, w, s=stride: conv(j, x, w, s), shapes, dtype, work, "F",
                lambda t, x, w, s=stride: _torch_conv(t, x, w, s), bound=bound)
        if stride == 1:
            found[f"both gradients, {name}"] = Case(conv_gradients, shapes, work=3 * work,
                                                    bound=3e-3)
    return found


def attention(j: Any, q: Any, k: Any, v: Any, causal: bool = False) -> Any:
    return j.nn.dot_product_attention(q, k, v, is_causal=causal)


def _torch_attention(t: Any, q: Any, k: Any, v: Any, causal: bool = False) -> Any:
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return t.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)


def block(j: Any, p: dict[str, Any], x: Any, heads: int = 8) -> Any:
    """A transformer block, pre-norm."""
    (b, n, d) = x.shape
    y = layernorm(j, x, p["s1"], p["b1"])
    q, k, v = ((y @ p[w]).reshape(b, n, heads, d // heads) for w in ("q", "k", "v"))
    x = x + attention(j, q, k, v, True).reshape(b, n, d) @ p["o"]
    y = layernorm(j, x, p["s2"], p["b2"])
    return x + j.nn.gelu(y @ p["up"]) @ p["down"]


BLOCK = {"s1": (512,), "b1": (512,), "s2": (512,), "b2": (512,), "q": (512, 512), "k": (512, 512),
         "v": (512, 512), "o": (512, 512), "up": (512, 2048), "down": (2048, 512)}


def block_step(j: Any, x: Any, *weights: Any) -> Any:
    p = dict(zip(BLOCK, weights))
    g = j.grad(lambda p: (block(j, p, x) ** 2).mean())(p)
    return [p[n] - 0.1 * g[n] for n in BLOCK]


CONVNET = ((3, 3, 3, 32), (3, 3, 32, 64), (3, 3, 64, 128), (2048, 10))


def convnet_step(j: Any, x: Any, y: Any, *weights: Any) -> Any:
    def loss(ws: Any) -> Any:
        z = x
        for w in ws[:3]:
            z = j.nn.relu(conv(j, z, w))
            z = j.lax.reduce_window(z, -np.inf, j.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        z = j.nn.log_softmax(z.reshape(x.shape[0], -1) @ ws[3])
        return -(z * j.nn.one_hot(y, 10)).sum() / x.shape[0]
    return [w - 0.1 * g for w, g in zip(weights, j.grad(loss)(list(weights)))]


def _programs() -> dict[str, Case]:
    found = {
        "add, 4": Case(lambda j, x: x + x, ((4,),), torch=lambda t, x: x + x),
        "MLP 784-512-10, batch 64": Case(
            lambda j, x, w, u: j.numpy.tanh(x @ w) @ u, ((64, 784), (784, 512), (512, 10)),
            work=2.0 * 64 * 512 * 794, torch=lambda t, x, w, u: t.tanh(x @ w) @ u, bound=2e-3),
        "training step, transformer block": Case(
            block_step, ((8, 256, 512), *BLOCK.values()), work=6.0 * 8 * 256 * 512 * 512 * 12,
            bound=1e-3),
        "training step, convnet": Case(
            convnet_step, ((64, 32, 32, 3), ((64,), 10), *CONVNET), bound=1e-3),
    }
    for b, n, h, d in ((8, 256, 8, 64), (4, 2048, 16, 64)):
        for dtype, bound in (("float32", 2e-3), ("bfloat16", 1e-2)):
            for causal in (False, True):
                name = f"attention, {b} x {n} x {h} x {d}, {dtype}" + ", causal" * causal
                found[name] = Case(lambda j, q, k, v, c=causal: attention(j, q, k, v, c),
                                   ((b, n, h, d),) * 3, dtype, 4.0 * b * h * n * n * d, "F",
                                   lambda t, q, k, v, c=causal: _torch_attention(t, q, k, v, c),
                                   bound=bound)
    return found


TABLES = {"programs": _programs(), "products": _products(), "convolutions": _convolutions(),
          "memory": _memory()}


# ---- on the card
def arrays_of(case: Case) -> list[Any]:
    import ml_dtypes
    rng = np.random.default_rng(0)
    kind = np.dtype(getattr(ml_dtypes, case.dtype, case.dtype))
    made = []
    for i, shape in enumerate(case.shapes):
        if shape and isinstance(shape[0], tuple):
            made.append(rng.integers(0, shape[1], shape[0]).astype(np.int32))
        else:
            scale = shape[0] ** -0.5 if i and len(shape) > 1 else 1  # (weights)
            made.append(((rng.random(shape, np.float32) * 2 - 1) * scale).astype(kind))
    return made


def median(call: Callable[[], Any], seconds: float) -> float:
    call(), call()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1e6 * float(np.median(times))


def both(call: Callable[[], Any], wait: Callable[[Any], Any], seconds: float = 0.1
         ) -> tuple[float, float]:
    """Microseconds of a call that is waited for, and of one of 20 in a row."""
    def row() -> None:
        last = [call() for _ in range(20)][-1]
        wait(last)
    return median(lambda: wait(call()), seconds), median(row, seconds) / 20


def measured(name: str, case: Case, file: str, device: Any) -> dict[str, Any]:
    from calque import runtime
    found: dict[str, Any] = {"name": name}
    arrays = arrays_of(case)
    start = time.perf_counter()
    call = runtime.load(HERE / file, device)["main"]
    buffers = [runtime.Buffer.from_numpy(a, device) for a in arrays]
    outs = [b.numpy() for b in call(*buffers)]
    found["first"] = time.perf_counter() - start
    found["calque"] = both(lambda: call(*buffers), lambda bs: [b.wait() for b in bs])
    try:
        import jax
    except ImportError:
        return found
    given = [jax.device_put(a) for a in arrays]

    def jitted(precision: str) -> Any:
        with jax.default_matmul_precision(precision):
            return jax.jit(lambda *xs: case.f(jax, *xs)).lower(*given).compile()
    wide = [x.astype("float32") if x.dtype.kind != "i" else x for x in given]
    with jax.default_matmul_precision("highest"):
        wants = jax.tree_util.tree_leaves(jax.jit(lambda *xs: case.f(jax, *xs))(*wide))
    errors = []
    for got, want in zip(outs, wants, strict=True):
        got, want = (np.asarray(v).astype(np.float64) for v in (got, want))
        errors.append(np.linalg.norm(got - want) / max(np.linalg.norm(want), 1e-30))
    found["error"] = float(max(errors))
    found["right"] = bool(found["error"] <= case.bound)
    compiled = jitted(case.precision)
    found["jax"] = both(lambda: compiled(*given), jax.block_until_ready)
    if case.torch is not None:
        try:
            import torch
        except ImportError:
            return found
        tf32 = case.precision == "default"
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
        torch.backends.cudnn.benchmark = True
        kinds = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}
        there = [torch.tensor(a.astype(np.float32) if a.dtype.kind != "i" else a.astype(np.int64),
                              device="cuda") for a in arrays]
        there = [x.to(kinds[case.dtype]) if x.is_floating_point() else x for x in there]

        def run() -> Any:
            with torch.no_grad():
                return case.torch(torch, *there)  # type: ignore[misc]
        found["torch"] = both(run, lambda _: torch.cuda.synchronize())
    return found


def peaks(device: Any) -> str:
    try:
        import torch
        return str(torch.cuda.get_device_name())
    except Exception:  # not installed, no such device
        return str(device)


def table(title: str, rows: Sequence[dict[str, Any]], cases: dict[str, Case]) -> list[str]:
    """Markdown: times waiting and in a row, the ratio to the better peer, and the rate."""
    heads = ["", "calque", "JAX", "torch", "ratio", "in a row: calque", "JAX", "torch", "ratio",
             "rate", "error"]
    lines = [f"### {title}", "", f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for row in rows:
        case, cells = cases[row["name"]], [row["name"]]
        if "failed" in row:
            lines.append(f"| {row['name']} | failed: {row['failed'][:80]} |" + " |" * 9)
            continue
        for i in (0, 1):
            times = [row[p][i] if p in row else None for p in ("calque", "jax", "torch")]
            peers = [t for t in times[1:] if t]
            cells += [f"{t:,.0f}" if t else "" for t in times]
            cells.append(f"{times[0] / min(peers):.2f}" if peers else "")  # type: ignore[operator]
        per = case.work / row["calque"][1]
        cells.append("" if not case.work else f"{per / 1e6:.1f} TFLOP/s" if case.unit == "F"
                     else f"{per / 1e3:,.0f} GB/s")
        cells.append(f"{row['error']:.0e}" + " WRONG" * (not row["right"])
                     if "error" in row else "")
        lines.append("| " + " | ".join(cells) + " |")
    return [*lines, ""]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--only", default=",".join(TABLES))
    parser.add_argument("--limit", type=float, default=240, help="seconds for all")
    parser.add_argument("--out", type=Path, default=HERE)
    args = parser.parse_args()
    from calque import runtime
    device = runtime.devices(args.device)[0]
    files = json.loads((HERE / "tables.json").read_text())
    end, lines = time.perf_counter() + args.limit, [f"On {peaks(device)}, microseconds.", ""]
    bad = 0
    for title in args.only.split(","):
        rows = []
        for name, case in TABLES[title].items():
            if name not in files or time.perf_counter() > end:
                continue
            try:
                row = measured(name, case, files[name], device)
            except Exception as error:  # the next program is another matter
                row = {"name": name, "failed": f"{type(error).__name__}: {str(error)[:300]}"}
            bad += "failed" in row or not row.get("right", True)
            rows.append(row)
            with open(args.out / "tables.jsonl", "a") as file:
                file.write(json.dumps({"table": title, **row}) + "\n")
        lines += table(title, rows, TABLES[title])
        (args.out / "tables.md").write_text("\n".join(lines))
    print("\n".join(lines))
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
