"""Programs of many parts that people write, and small ones: what parts.py measures beside its own.

`IDIOMS[name]` is (program, sizes) as parts.PARTS has them: each program takes a library and n.
`SMALL` has programs of a few operations, whose first call is little but fixed costs.
"""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy

Made = tuple[Callable[..., Any], list[Any]]


def _numbers(*shape: int, seed: int = 0) -> Any:
    return numpy.random.default_rng(seed).standard_normal(shape).astype(numpy.float32)


# ---- many parts
def small_results(lib: Any, n: int) -> Made:
    """n results, each another function of one array."""
    np = lib.np
    fs = [np.sin, np.cos, np.tanh, np.exp, np.sqrt, np.log1p, np.square, np.abs, np.sum, np.max]
    return (lambda x: [fs[i % 10](x + i) * (i + 1) for i in range(n)],
            [np.linspace(1, 2, 100)])


def mixed_leaves(lib: Any, n: int) -> Made:
    """A tree of small leaves of five dtypes."""
    np = lib.np
    kinds = (np.float32, np.int32, np.bfloat16, np.float16, np.uint8)
    xs = [np.ones((i % 7 + 1,), kinds[i % 5]) for i in range(n)]
    return lambda xs: [x * 2 + x for x in xs], [xs]


def clipped_adam(lib: Any, n: int) -> Made:
    """Clipped by the global norm, weight decay, Adam."""
    np = lib.np
    p = [np.full((i % 50 + 1, 7), 0.5 + i / n, np.float32) for i in range(n)]

    def step(p: Any, g: Any, m: Any, v: Any, t: Any) -> Any:
        norm = np.sqrt(sum(np.sum(np.square(x)) for x in g))
        g = [x * np.minimum(1.0, 1.0 / norm) for x in g]
        m = [0.9 * a + 0.1 * b for a, b in zip(m, g)]
        v = [0.999 * a + 0.001 * b * b for a, b in zip(v, g)]
        a, b = 1 - 0.9 ** t, 1 - 0.999 ** t
        steps = [(x / a) / (np.sqrt(y / b) + 1e-8) + 1e-2 * w for x, y, w in zip(m, v, p)]
        return [w - 1e-3 * s for w, s in zip(p, steps)], m, v, t + 1

    return step, [p, p, p, p, np.float32(1)]


def large_branches(lib: Any, n: int) -> Made:
    """A cond of two branches of n operations each."""
    np = lib.np

    def chain(first: Any, second: Any) -> Any:
        return lambda x: functools.reduce(lambda x, i: first(x) * i + second(x), range(n), x)

    return (lambda p, x: lib.lax.cond(p, chain(np.sin, np.tanh), chain(np.cos, np.exp), x),
            [np.array(True), np.linspace(0, 1, 64).reshape(8, 8)])


def updates(lib: Any, n: int) -> Made:
    """x.at[i].set, one after another."""
    return (lambda x, v: functools.reduce(lambda x, i: x.at[2 * i].set(v[i] + i), range(n), x),
            [lib.np.zeros(2 * n), lib.np.ones(n)])


def concatenates(lib: Any, n: int) -> Made:
    np = lib.np
    return (lambda xs: [np.concatenate([a, b, a]) for a, b in zip(xs, xs[1:])],
            [[np.ones((i % 5 + 1, 3)) for i in range(n + 1)]])


def einsums(lib: Any, n: int) -> Made:
    np = lib.np
    return (lambda xs, ys: [np.einsum("bij,bjk->bik", x, y) for x, y in zip(xs, ys)],
            [[np.ones((2, 3 + i % 3, 4)) for i in range(n)],
             [np.ones((2, 4, 3 + i % 4)) for i in range(n)]])


def gathers(lib: Any, n: int) -> Made:
    np = lib.np
    return (lambda x, i: [np.take(x, i + k, axis=0) * k for k in range(n)],
            [np.ones((100, 8)), np.arange(10)])


def branches(lib: Any, n: int) -> Made:
    """vmap of a switch of n branches."""
    np = lib.np
    fs = [lambda x, k=k: np.sin(x * k).sum() + k for k in range(n)]
    return (lib.top.vmap(lambda i, x: lib.lax.switch(i, fs, x)),
            [np.arange(16) % n, np.ones((16, 5))])


def forward_jacobian(lib: Any, n: int) -> Made:
    """jacfwd of n outputs."""
    np = lib.np
    return (lib.top.jacfwd(lambda x: np.stack([np.sin(x[i % 5] * i) * x[(i + 1) % 5]
                                               for i in range(n)])), [np.linspace(0.1, 1, 5)])


def hessian(lib: Any, n: int) -> Made:
    np = lib.np
    return (lib.top.hessian(lambda x: sum(np.sin(x[i]) * x[i - 1] ** 2 for i in range(n))),
            [np.linspace(0.1, 1, n)])


def stacked(lib: Any, n: int) -> Made:
    np = lib.np
    return lambda x: np.stack([np.sin(x[i]) * i for i in range(n)]), [np.linspace(0, 1, n)]


def scan_with_cond(lib: Any, n: int) -> Made:
    np, lax = lib.np, lib.lax

    def step(c: Any, x: Any) -> Any:
        c = lax.cond(c.sum() > 3, lambda c: c * 0.5, lambda c: np.sin(c) + x, c)
        return c, c.sum()

    return lambda c, x: lax.scan(step, c, x), [np.ones(4), np.linspace(0, 1, n)]


def short_loop(lib: Any, n: int) -> Made:
    np = lib.np
    return (lambda x: lib.lax.fori_loop(0, n, lambda i, x: np.tanh(x @ x) + i, x),
            [np.full((16, 16), 0.01)])


def gpt(lib: Any, n: int, d: int = 768, heads: int = 12) -> Made:
    """Blocks, their gradient and a step with momentum."""
    np, nn = lib.np, lib.top.nn

    def normal(x: Any, g: Any, b: Any) -> Any:
        x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * g + b

    def block(x: Any, w: Any) -> Any:
        y = normal(x, w["g1"], w["b1"]) @ w["qkv"] + w["bqkv"]
        q, k, v = (t.reshape(*t.shape[:-1], heads, -1).swapaxes(-2, -3)
                   for t in np.split(y, 3, -1))
        a = q @ k.swapaxes(-1, -2) / (d // heads) ** 0.5
        s = a.shape[-1]
        a = nn.softmax(np.where(np.tril(np.ones((s, s), bool)), a, -1e30))
        x = x + (a @ v).swapaxes(-2, -3).reshape(x.shape) @ w["o"] + w["bo"]
        y = nn.gelu(normal(x, w["g2"], w["b2"]) @ w["up"] + w["bup"])
        return x + y @ w["down"] + w["bdown"]

    def loss(p: Any, ids: Any) -> Any:
        x = p["table"][ids[:, :-1]] + p["places"]
        x = normal(functools.reduce(block, p["blocks"], x), p["g"], p["b"]) @ p["table"].T
        x = nn.log_softmax(x)
        return -np.take_along_axis(x, ids[:, 1:, None], -1).mean()

    def step(p: Any, m: Any, ids: Any) -> Any:
        value, g = lib.top.value_and_grad(loss)(p, ids)
        m = lib.top.tree.map(lambda a, b: 0.9 * a + b, m, g)
        return lib.top.tree.map(lambda a, b: a - 0.01 * b, p, m), m, value

    def one() -> Any:
        shapes = {"g1": (d,), "b1": (d,), "qkv": (d, 3 * d), "bqkv": (3 * d,), "o": (d, d),
                  "bo": (d,), "g2": (d,), "b2": (d,), "up": (d, 4 * d), "bup": (4 * d,),
                  "down": (4 * d, d), "bdown": (d,)}
        return {k: np.full(s, 0.01, np.float32) for k, s in shapes.items()}

    p = {"table": np.full((512, d), 0.01, np.float32), "places": np.zeros((32, d), np.float32),
         "g": np.ones(d, np.float32), "b": np.zeros(d, np.float32),
         "blocks": [one() for _ in range(n)]}
    return step, [p, lib.top.tree.map(np.zeros_like, p), np.zeros((2, 33), np.int32)]


def resnet(lib: Any, n: int) -> Made:
    """ResNet-50 (n: how many of its four stages), gradient and a step of descent."""
    np, nn, lax = lib.np, lib.top.nn, lib.lax

    def convolved(x: Any, w: Any, stride: int = 1) -> Any:
        return lax.conv_general_dilated(x, w, (stride, stride), "SAME",
                                        dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def normal(x: Any, w: Any) -> Any:
        mean = x.mean((0, 1, 2))
        return (x - mean) / np.sqrt(((x - mean) ** 2).mean((0, 1, 2)) + 1e-5) * w[0] + w[1]

    def bottleneck(x: Any, w: Any, stride: int) -> Any:
        y = nn.relu(normal(convolved(x, w["a"]), w["na"]))
        y = nn.relu(normal(convolved(y, w["b"], stride), w["nb"]))
        y = normal(convolved(y, w["c"]), w["nc"])
        if "s" in w:
            x = normal(convolved(x, w["s"], stride), w["ns"])
        return nn.relu(x + y)

    def loss(p: Any, x: Any, y: Any) -> Any:
        x = nn.relu(normal(convolved(x, p["stem"], 2), p["nstem"]))
        x = lax.reduce_window(x, -np.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
        for k, stage in enumerate(p["stages"]):
            for i, w in enumerate(stage):
                x = bottleneck(x, w, 2 if k and not i else 1)
        x = nn.log_softmax(x.mean((1, 2)) @ p["head"])
        return -(x * nn.one_hot(y, 10)).sum(-1).mean()

    def step(p: Any, x: Any, y: Any) -> Any:
        value, g = lib.top.value_and_grad(loss)(p, x, y)
        return lib.top.tree.map(lambda a, b: a - 0.01 * b, p, g), value

    def kernel(size: int, i: int, o: int) -> Any:
        return np.array(_numbers(size, size, i, o, seed=o) * (2 / (size * size * i)) ** 0.5)

    def scales(c: int) -> Any:
        return [np.ones(c, np.float32), np.zeros(c, np.float32)]

    stages, c = [], 64
    for k, count in enumerate((3, 4, 6, 3)[:n]):
        stages.append([])
        for i in range(count):
            m = 64 << k
            w = {"a": kernel(1, c, m), "na": scales(m), "b": kernel(3, m, m), "nb": scales(m),
                 "c": kernel(1, m, 4 * m), "nc": scales(4 * m)}
            if not i:
                w |= {"s": kernel(1, c, 4 * m), "ns": scales(4 * m)}
            stages[-1].append(w)
            c = 4 * m
    p = {"stem": kernel(7, 3, 64), "nstem": scales(64), "stages": stages,
         "head": np.array(_numbers(c, 10) * 0.01)}
    return step, [p, np.array(_numbers(2, 224, 224, 3)), np.array([1, 2])]


IDIOMS: dict[str, tuple[Callable[[Any, int], Made], tuple[int, ...]]] = {
    "GPT, d 768, momentum": (gpt, (1, 12)),
    "ResNet-50, a step": (resnet, (4,)),
    "results of one array": (small_results, (30,)),
    "leaves of five dtypes": (mixed_leaves, (200,)),
    "clip, decay, Adam": (clipped_adam, (100,)),
    "cond of two long branches": (large_branches, (30,)),
    "updates in a row": (updates, (40,)),
    "concatenates": (concatenates, (50,)),
    "einsums": (einsums, (60,)),
    "gathers": (gathers, (30,)),
    "vmap of a switch": (branches, (10,)),
    "jacfwd, outputs": (forward_jacobian, (20,)),
    "hessian, inputs": (hessian, (10,)),
    "stack of scalars": (stacked, (100,)),
    "scan with a cond, steps": (scan_with_cond, (50,)),
    "loop, steps": (short_loop, (2, 3)),
}


# ---- small programs
def _small(lib: Any) -> dict[str, tuple[Callable[..., Any], list[Any]]]:
    np, top, lax, nn = lib.np, lib.top, lib.lax, lib.top.nn
    x, m = _numbers(64), _numbers(16, 16, seed=1)
    s = m @ m.T + 16 * numpy.eye(16, dtype=numpy.float32)
    return {
        "x + 1": (lambda x: x + 1, [x]),
        "tanh(sin(x))": (lambda x: np.tanh(np.sin(x)), [x]),
        "sum": (lambda x: x.sum(), [x]),
        "mean, variance": (lambda x: (x.mean(), x.var()), [x]),
        "softmax": (nn.softmax, [m]),
        "logsumexp": (lambda x: nn.logsumexp(x, -1), [m]),
        "layer norm": (lambda x: (x - x.mean(-1, keepdims=True)) / np.sqrt(
            x.var(-1, keepdims=True) + 1e-5), [m]),
        "x @ x": (lambda x: x @ x, [m]),
        "x @ v": (lambda m, v: m @ v, [m, x[:16]]),
        "relu(x @ w + b)": (lambda x, w, b: nn.relu(x @ w + b), [m, m, x[:16]]),
        "gradient of a square loss": (top.grad(lambda w, x, y: ((x @ w - y) ** 2).mean()),
                                      [x[:16], m, x[16:32]]),
        "einsum": (lambda x, y: np.einsum("ij,kj->ik", x, y), [m, m]),
        "argmax": (lambda x: np.argmax(x, -1), [m]),
        "sort": (np.sort, [x]),
        "cumsum": (np.cumsum, [x]),
        "where": (lambda x: np.where(x > 0, x, 0.1 * x), [x]),
        "take": (lambda x, i: x[i], [m, numpy.array([3, 1, 2])]),
        "at set": (lambda x, v: x.at[3].set(v), [m, x[:16]]),
        "concatenate": (lambda x, y: np.concatenate([x, y]), [m, m]),
        "transpose": (lambda x: x.T, [m]),
        "vmap of dot": (top.vmap(lambda x, y: x @ y), [m, m]),
        "fori_loop": (lambda x: lax.fori_loop(0, 10, lambda i, x: x * 0.5 + i, x), [x]),
        "scan": (lambda x: lax.scan(lambda c, x: (c + x, c * x), np.float32(0), x), [x]),
        "while_loop": (lambda x: lax.while_loop(lambda x: x.sum() < 100, lambda x: x * 2 + 1, x),
                       [abs(x)]),
        "cond": (lambda x: lax.cond(x[0] > 0, np.sin, np.cos, x), [x]),
        "uniform": (lambda k: lib.random.uniform(k, (64,)), [lib.random.PRNGKey(0)]),
        "normal": (lambda k: lib.random.normal(k, (64,)), [lib.random.PRNGKey(0)]),
        "solve": (np.linalg.solve, [s, x[:16]]),
        "cholesky": (np.linalg.cholesky, [s]),
        "fft": (lambda x: np.abs(np.fft.fft(x)), [x]),
        "polynomial": (lambda x: np.polyval(np.arange(5.0), x), [x]),
        "one_hot": (lambda i: nn.one_hot(i, 10), [numpy.array([3, 1, 2])]),
    }


SMALL = ("x + 1", "tanh(sin(x))", "sum", "mean, variance", "softmax", "logsumexp", "layer norm",
         "x @ x", "x @ v", "relu(x @ w + b)", "gradient of a square loss", "einsum", "argmax",
         "sort", "cumsum", "where", "take", "at set", "concatenate", "transpose", "vmap of dot",
         "fori_loop", "scan", "while_loop", "cond", "uniform", "normal", "solve", "cholesky", "fft",
         "polynomial", "one_hot")


def small(lib: Any, name: str) -> Made:
    f, args = _small(lib)[name]
    return f, [lib.top.device_put(a) for a in args]
