"""The workloads of benchmarks/suite.py, each for calque and JAX alike.

`WORKLOADS[name](lib, more)` gives a function and its NumPy arguments; `lib` holds either library's
modules, `more` is added to a leading size: another shape of the same function.  workloads_data has
those of data and whole programs, workloads_loops of loops, workloads_dtypes of other dtypes,
workloads_idioms what people write every day, workloads_networks of networks on pictures.
"""
from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

Made = tuple[Callable[..., Any], tuple[Any, ...]]
WORKLOADS: dict[str, Callable[[Any, int], Made]] = {}


def library(name: str) -> Any:
    """The modules of 'calque' or 'jax' under common names."""
    top = importlib.import_module(name)
    parts = {short: importlib.import_module(f"{name}.{long}") for short, long in (
        ("np", "numpy"), ("lax", "lax"), ("nn", "nn"), ("random", "random"),
        ("linalg", "numpy.linalg"), ("slinalg", "scipy.linalg"), ("special", "scipy.special"),
        ("solvers", "scipy.sparse.linalg"))}
    return SimpleNamespace(top=top, **parts)


def workload(f: Callable[[Any, int], Made]) -> Callable[[Any, int], Made]:
    WORKLOADS[f.__name__] = f
    return f


def normal(*shape: int, seed: int = 0, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def uniform(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).random(shape, np.float32)


def whole(high: int, *shape: int) -> Any:
    return np.random.default_rng(1).integers(0, high, shape).astype(np.int32)


# ---- small programs
@workload
def add_4(j: Any, more: int) -> Made:
    return lambda x, y: x + y, (normal(4 + more), normal(4 + more, seed=1))


@workload
def sin_tanh_100(j: Any, more: int) -> Made:
    return lambda x: j.np.tanh(j.np.sin(x)), (normal(100 + more),)


@workload
def tree_of_20_leaves(j: Any, more: int) -> Made:
    trees = j.top.tree_util
    leaves = [normal(10 + more, seed=i) for i in range(20)]
    return lambda *xs: trees.tree_map(lambda x: x * 0.9 + 1, list(xs)), tuple(leaves)


@workload
def newton_scalar(j: Any, more: int) -> Made:
    def f(x: Any) -> Any:
        return j.lax.while_loop(lambda v: j.np.abs(v * v - 2).max() > 1e-5,
                                lambda v: v - (v * v - 2) / (2 * v), x)
    return f, (uniform(1 + more) + 1,)


# ---- elementwise
@workload
def black_scholes_2m(j: Any, more: int) -> Made:
    n = 2_000_000 + more

    def f(s: Any, k: Any, t: Any) -> Any:
        d1 = (j.np.log(s / k) + (0.03 + 0.02) * t) / (0.2 * j.np.sqrt(t))
        d2 = d1 - 0.2 * j.np.sqrt(t)
        cdf = j.special.ndtr
        return s * cdf(d1) - k * j.np.exp(-0.03 * t) * cdf(d2)
    return f, (uniform(n) * 50 + 75, uniform(n, seed=1) * 50 + 75, uniform(n, seed=2) + 0.1)


@workload
def polynomial_9_1m(j: Any, more: int) -> Made:
    return lambda c, x: j.np.polyval(c, x), (normal(10), normal(1_000_000 + more))


@workload
def gelu_1m(j: Any, more: int) -> Made:
    return lambda x: j.nn.gelu(x), (normal(1_000_000 + more),)


@workload
def adam_1m(j: Any, more: int) -> Made:
    def f(p: Any, g: Any, m: Any, v: Any) -> Any:
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        return p - 1e-3 * (m / 0.19) / (j.np.sqrt(v / 0.002) + 1e-8), m, v
    n = 1_000_000 + more
    return f, (normal(n), normal(n, seed=1), normal(n, seed=2), uniform(n))


@workload
def igamma_400k(j: Any, more: int) -> Made:
    return lambda a, x: j.special.gammainc(a, x), (
        uniform(400_000 + more) * 5 + 0.1, uniform(400_000 + more, seed=1) * 8)


# ---- reductions and normalisations
@workload
def sum_4096(j: Any, more: int) -> Made:
    return lambda x: x.sum(0), (normal(4096, 4096 + more),)


@workload
def argmax_rows(j: Any, more: int) -> Made:
    return lambda x: j.np.argmax(x, -1), (normal(4000 + more, 1000),)


@workload
def softmax_2048(j: Any, more: int) -> Made:
    return lambda x: j.nn.softmax(x), (normal(2048 + more, 2048),)


@workload
def logsumexp_2048(j: Any, more: int) -> Made:
    return lambda x: j.nn.logsumexp(x, -1), (normal(2048 + more, 2048),)


def _layernorm(j: Any) -> Callable[..., Any]:
    def f(x: Any, g: Any, b: Any) -> Any:
        mean = x.mean(-1, keepdims=True)
        var = ((x - mean) ** 2).mean(-1, keepdims=True)
        return (x - mean) / j.np.sqrt(var + 1e-5) * g + b
    return f


@workload
def layernorm(j: Any, more: int) -> Made:
    return _layernorm(j), (normal(4096 + more, 768), uniform(768), normal(768))


@workload
def layernorm_gradient(j: Any, more: int) -> Made:
    f = _layernorm(j)
    return j.top.grad(lambda x, g, b: (f(x, g, b) ** 2).sum(), (0, 1, 2)), (
        normal(4096 + more, 768), uniform(768), normal(768))


@workload
def batchnorm(j: Any, more: int) -> Made:
    def f(x: Any) -> Any:
        return (x - x.mean((0, 1, 2))) / j.np.sqrt(x.var((0, 1, 2)) + 1e-5)
    return f, (normal(32 + more, 28, 28, 64),)


@workload
def cumsum_1m(j: Any, more: int) -> Made:
    return lambda x: j.np.cumsum(x), (normal(1_000_000 + more),)


@workload
def median_1m(j: Any, more: int) -> Made:
    return lambda x: j.np.median(x), (normal(1_000_000 + more),)


# ---- products
def _product(name: str, m: int, k: int, n: int, dtype: Any = "float32", batch: int = 0) -> None:
    def make(j: Any, more: int) -> Made:
        lead = (batch,) if batch else ()
        x, y = normal(*lead, m + more, k), normal(*lead, k, n, seed=1)
        return lambda x, y: x.astype(dtype) @ y.astype(dtype), (x, y)
    WORKLOADS[name] = make


_product("matmul_1024", 1024, 1024, 1024)
_product("matmul_300x700x500", 300, 700, 500)
_product("matmul_8x4096x4096", 8, 4096, 4096)
_product("matmul_128x4096x4096", 128, 4096, 4096)
_product("matmul_1000", 1000, 1000, 1000)
_product("matmul_bf16_512", 512, 512, 512, "bfloat16")
_product("matmul_bf16_128x1024x1024", 128, 1024, 1024, "bfloat16")
_product("matmul_batched_64x64", 64, 64, 64, batch=256)
_product("vecmat_4096", 1, 4096, 4096)


@workload
def matvec_15000x150(j: Any, more: int) -> Made:
    """Of a matrix with many rows, which is read once."""
    return lambda a, v: a @ v, (normal(15_000 + more, 150), normal(150))


@workload
def row_dots_4096x128(j: Any, more: int) -> Made:
    """A dot product of each row of two arrays."""
    return lambda a, b: j.np.einsum("bi,bi->b", a, b), (normal(4096 + more, 128),
                                                        normal(4096 + more, 128))


_product("matmul_batched_12x12", 12, 12, 12, batch=1000)


@workload
def dense_5x1000x1000(j: Any, more: int) -> Made:
    """Five inputs of a layer whose weights are (outputs, inputs)."""
    return lambda x, w: x @ w.T, (normal(5, 1000), normal(1000 + more, 1000))


@workload
def head_bf16_32000x768(j: Any, more: int) -> Made:
    """One token times weights of bfloat16 as they lie: (outputs, inputs)."""
    import ml_dtypes
    return lambda x, w: x @ w.T.astype(j.np.float32), (
        normal(1, 768), normal(32_000 + more, 768).astype(ml_dtypes.bfloat16))


@workload
def mlp_forward(j: Any, more: int) -> Made:
    def f(x: Any, a: Any, b: Any, c: Any) -> Any:
        return j.nn.relu(j.nn.relu(x @ a) @ b) @ c
    return f, (normal(128 + more, 784), normal(784, 1024), normal(1024, 1024), normal(1024, 10))


@workload
def mlp_step(j: Any, more: int) -> Made:
    def loss(w: Any, x: Any, y: Any) -> Any:
        h = j.np.tanh(x @ w[0] + w[1])
        return -(j.nn.log_softmax(h @ w[2] + w[3]) * y).sum(-1).mean()

    def f(a: Any, b: Any, c: Any, d: Any, x: Any, y: Any) -> Any:
        value, grads = j.top.value_and_grad(loss)((a, b, c, d), x, y)
        return value, [p - 0.1 * g for p, g in zip((a, b, c, d), grads)]
    return f, (normal(64, 128) / 8, normal(128), normal(128, 10) / 8, normal(10),
               normal(32 + more, 64), np.eye(10, dtype=np.float32)[whole(10, 32 + more)])


@workload
def attention(j: Any, more: int) -> Made:
    def f(q: Any, k: Any, v: Any) -> Any:
        s = j.np.einsum("bqhd,bkhd->bhqk", q, k) / 8
        return j.np.einsum("bhqk,bkhd->bqhd", j.nn.softmax(s), v)
    return f, tuple(normal(4, 128 + more, 8, 64, seed=i) for i in range(3))


def _transformer(j: Any) -> Callable[..., Any]:
    norm = _layernorm(j)

    def f(x: Any, g: Any, b: Any, qkv: Any, out: Any, up: Any, down: Any) -> Any:
        h = norm(x, g, b) @ qkv
        q, k, v = (t.reshape(*t.shape[:2], 4, 32) for t in j.np.split(h, 3, -1))
        s = j.nn.softmax(j.np.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(32))
        a = j.np.einsum("bhqk,bkhd->bqhd", s, v).reshape(x.shape)
        x = x + a @ out
        return x + j.nn.gelu(norm(x, g, b) @ up) @ down
    return f


def _transformer_arguments(more: int) -> tuple[Any, ...]:
    return (normal(8 + more, 64, 128), uniform(128), normal(128), normal(128, 384) / 11,
            normal(128, 128) / 11, normal(128, 512) / 11, normal(512, 128) / 22)


@workload
def transformer_block(j: Any, more: int) -> Made:
    return _transformer(j), _transformer_arguments(more)


@workload
def transformer_block_gradient(j: Any, more: int) -> Made:
    f = _transformer(j)
    return j.top.grad(lambda *a: (f(*a) ** 2).mean(), tuple(range(1, 7))), (
        _transformer_arguments(more))


@workload
def embedding_gradient(j: Any, more: int) -> Made:
    return j.top.grad(lambda t, i: (t[i] ** 2).sum()), (normal(10_000, 64),
                                                        whole(10_000, 2048 + more))


# ---- convolutions
def _convolve(j: Any, x: Any, k: Any, axes: tuple[str, str, str], padding: str = "SAME",
              **more: Any) -> Any:
    return j.lax.conv_general_dilated(x, k, (1,) * (x.ndim - 2), padding, dimension_numbers=axes,
                                      **more)


@workload
def convolution_nhwc(j: Any, more: int) -> Made:
    return lambda x, k: _convolve(j, x, k, ("NHWC", "HWIO", "NHWC")), (
        normal(16 + more, 28, 28, 32), normal(3, 3, 32, 64))


@workload
def convolution_nchw(j: Any, more: int) -> Made:
    return lambda x, k: _convolve(j, x, k, ("NCHW", "OIHW", "NCHW")), (
        normal(16 + more, 32, 28, 28), normal(64, 32, 3, 3))


@workload
def convolution_gradient(j: Any, more: int) -> Made:
    def f(x: Any, k: Any) -> Any:
        return (_convolve(j, x, k, ("NHWC", "HWIO", "NHWC")) ** 2).sum()
    return j.top.grad(f, (0, 1)), (normal(8 + more, 28, 28, 16), normal(3, 3, 16, 32))


@workload
def convolution_1d(j: Any, more: int) -> Made:
    return lambda x, k: _convolve(j, x, k, ("NWC", "WIO", "NWC")), (
        normal(16 + more, 1000, 16), normal(9, 16, 32))


@workload
def convolution_depthwise(j: Any, more: int) -> Made:
    return lambda x, k: _convolve(j, x, k, ("NHWC", "HWIO", "NHWC"), feature_group_count=64), (
        normal(8 + more, 28, 28, 64), normal(3, 3, 1, 64))


@workload
def lenet_step(j: Any, more: int) -> Made:
    axes = ("NHWC", "HWIO", "NHWC")

    def pool(x: Any) -> Any:
        return j.lax.reduce_window(x, -j.np.inf, j.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

    def loss(w: Any, x: Any, y: Any) -> Any:
        x = pool(j.nn.relu(_convolve(j, x, w[0], axes)))
        x = pool(j.nn.relu(_convolve(j, x, w[1], axes, "VALID")))
        x = j.nn.relu(x.reshape(x.shape[0], -1) @ w[2])
        return -(j.nn.log_softmax(x @ w[3]) * y).sum(-1).mean()

    def f(a: Any, b: Any, c: Any, d: Any, x: Any, y: Any) -> Any:
        grads = j.top.grad(loss)((a, b, c, d), x, y)
        return [p - 0.01 * g for p, g in zip((a, b, c, d), grads)]
    return f, (normal(5, 5, 1, 6), normal(5, 5, 6, 16), normal(400, 120) / 20, normal(120, 10) / 10,
               normal(64 + more, 28, 28, 1), np.eye(10, dtype=np.float32)[whole(10, 64 + more)])


# ---- loops
def _lstm(j: Any) -> Callable[..., Any]:
    def run(xs: Any, wx: Any, wh: Any, b: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            h, c = carry
            i, f, g, o = j.np.split(x @ wx + h @ wh + b, 4, -1)
            c = j.nn.sigmoid(f) * c + j.nn.sigmoid(i) * j.np.tanh(g)
            h = j.nn.sigmoid(o) * j.np.tanh(c)
            return (h, c), h
        zero = j.np.zeros((xs.shape[1], wh.shape[0]), xs.dtype)
        return j.lax.scan(step, (zero, zero), xs)[1]
    return run


def _lstm_arguments(more: int) -> tuple[Any, ...]:
    return normal(200, 16 + more, 32), normal(32, 256) / 6, normal(64, 256) / 8, normal(256)


@workload
def lstm_forward(j: Any, more: int) -> Made:
    return _lstm(j), _lstm_arguments(more)


@workload
def lstm_gradient(j: Any, more: int) -> Made:
    f = _lstm(j)
    return j.top.grad(lambda *a: (f(*a) ** 2).mean(), (1, 2, 3)), _lstm_arguments(more)


@workload
def kalman_500(j: Any, more: int) -> Made:
    def f(zs: Any, a: Any, h: Any) -> Any:
        def step(carry: Any, z: Any) -> Any:
            x, p = carry
            x, p = a @ x, a @ p @ a.T + 0.01 * j.np.eye(4)
            s = h @ p @ h.T + 0.1 * j.np.eye(2)
            k = j.linalg.solve(s, h @ p).T
            x = x + k @ (z - h @ x)
            return (x, p - k @ h @ p), x
        return j.lax.scan(step, (j.np.zeros(4), j.np.eye(4)), zs)[1]
    return f, (normal(500 + more, 2), np.eye(4, dtype=np.float32) + normal(4, 4) / 20, normal(2, 4))


@workload
def kalman_gradient(j: Any, more: int) -> Made:
    f, (zs, a, h) = kalman_500(j, more)
    return j.top.grad(lambda a, zs, h: (f(zs, a, h) ** 2).mean()), (a, zs, h)


@workload
def kalman_100_filters(j: Any, more: int) -> Made:
    f, (_, a, h) = kalman_500(j, 0)
    return j.top.vmap(f, (0, None, None)), (normal(100 + more, 200, 2), a, h)


def _gru(j: Any) -> Callable[..., Any]:
    def run(xs: Any, wz: Any, wr: Any, wh: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            hx = j.np.concatenate([h, x], -1)
            z, r = j.nn.sigmoid(hx @ wz), j.nn.sigmoid(hx @ wr)
            h = (1 - z) * h + z * j.np.tanh(j.np.concatenate([r * h, x], -1) @ wh)
            return h, h
        return j.lax.scan(step, j.np.zeros((xs.shape[1], wz.shape[1]), xs.dtype), xs)[1]
    return run


@workload
def gru_forward(j: Any, more: int) -> Made:
    return _gru(j), (normal(100, 16 + more, 32), *[normal(96, 64, seed=i) / 10 for i in range(3)])


@workload
def gru_gradient(j: Any, more: int) -> Made:
    f, args = gru_forward(j, more)
    return j.top.grad(lambda *a: (f(*a) ** 2).mean(), (1, 2, 3)), args


@workload
def rk4_1000_states(j: Any, more: int) -> Made:
    def field(y: Any) -> Any:
        return j.np.stack([y[1], (1 - y[0] ** 2) * y[1] - y[0]])

    def solve(y: Any) -> Any:
        def step(y: Any, _: Any) -> Any:
            k1 = field(y)
            k2 = field(y + 0.005 * k1)
            k3 = field(y + 0.005 * k2)
            k4 = field(y + 0.01 * k3)
            return y + 0.01 / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None
        return j.lax.scan(step, y, None, length=1000)[0]
    return j.top.vmap(solve), (normal(1000 + more, 2),)


@workload
def rk4_jacobian(j: Any, more: int) -> Made:
    solve, _ = rk4_1000_states(j, 0)
    return j.top.jacfwd(lambda y: solve(y[None])[0]), (normal(2),)


@workload
def rk4_gradient(j: Any, more: int) -> Made:
    solve, _ = rk4_1000_states(j, 0)
    return j.top.grad(lambda y: (solve(y) ** 2).mean()), (normal(200 + more, 2),)


@workload
def leapfrog(j: Any, more: int) -> Made:
    def f(q: Any, p: Any) -> Any:
        def step(_: int, s: Any) -> Any:
            q, p = s
            p = p - 0.005 * q / (1 + (q * q).sum(-1, keepdims=True))
            q = q + 0.01 * p
            return q, p - 0.005 * q / (1 + (q * q).sum(-1, keepdims=True))
        return j.lax.fori_loop(0, 500, step, (q, p))
    return f, (normal(100 + more, 3), normal(100 + more, 3, seed=1))


@workload
def value_iteration_110(j: Any, more: int) -> Made:
    """What a step reduces is spread over the next one; no vector divides the axes."""
    def f(r: Any, x: Any) -> Any:
        return j.lax.fori_loop(0, 10, lambda _, x: j.np.max(r + 0.98 * x.T[None], 2), x)
    n = 110 + more
    return f, (normal(n, n, n), normal(n, n, seed=1))


@workload
def best_of_8_choices(j: Any, more: int) -> Made:
    """A long chain over states, choices and draws, of small arrays that lie along one each."""
    def f(b: Any, ev: Any, q: Any, y: Any) -> Any:
        def value(c: Any, later: Any) -> Any:
            return 0.1 * j.np.log(j.np.maximum(c, 1e-12)) + 0.9 * later
        left = q[:, None, None] + b[None]
        mine, best = value(left - y[None, :, None], ev[None]), j.np.full(left.shape, -j.np.inf)
        for i in range(8):
            other = value(left - y[i], ev[i][None, None, :])
            best = j.np.maximum(best, j.np.where(left - y[i] >= 1e-10, other, -j.np.inf))
        return j.np.max(j.np.where(mine >= best - 1e-8, mine, -j.np.inf).reshape(len(q), -1), 1)
    return f, (uniform(8, 900), uniform(8, 900), 1 + uniform(50 + more), uniform(8))


@workload
def interp_in_loop(j: Any, more: int) -> Made:
    """Where points lie in the grid does not change from step to step."""
    def f(g: Any, e: Any) -> Any:
        return j.lax.fori_loop(0, 10, lambda _, h: j.top.vmap(
            lambda y: j.np.mean(j.np.interp(y * e, g, h)))(g), j.np.sqrt(g))
    return f, (np.linspace(0.5, 3, 200 + more, dtype=np.float32), 0.5 + uniform(500))


@workload
def spectral_rollout(j: Any, more: int) -> Made:
    """30 trajectories of the Kuramoto-Sivashinsky equation by exponential steps, all stacked."""
    n = 256
    waves = 2j * np.pi * np.fft.rfftfreq(n, 100 / n)
    linear = -waves**2 - waves**4
    decay = np.exp(0.2 * linear).astype(np.complex64)
    gain = np.where(linear == 0, 0.2, (np.exp(0.2 * linear) - 1) / np.where(linear == 0, 1, linear))
    gain = (gain * waves).astype(np.complex64)

    def f(u: Any) -> Any:
        def step(u: Any, _: Any) -> Any:
            new = j.np.fft.irfft(decay * j.np.fft.rfft(u) - 0.5 * gain * j.np.fft.rfft(u * u), n=n)
            return new, new
        return j.lax.scan(step, u, None, length=100)
    return f, (normal(30 + more, n),)


@workload
def stacked_sorts(j: Any, more: int) -> Made:
    """A body that the host steps through: what it stacks is written in place."""
    def f(x: Any) -> Any:
        def step(c: Any, _: Any) -> Any:
            c = j.np.sort(j.np.sin(c * 40), -1)
            return c, c
        return j.lax.scan(step, x, None, length=200)
    return f, (normal(30 + more, 256),)


@workload
def heat_256(j: Any, more: int) -> Made:
    def f(u: Any) -> Any:
        def step(_: int, u: Any) -> Any:
            around = sum(j.np.roll(u, s, a) for s in (1, -1) for a in (0, 1))
            return u + 0.1 * (around - 4 * u)
        return j.lax.fori_loop(0, 100, step, u)
    return f, (normal(256 + more, 256),)


@workload
def leapfrog_gradient(j: Any, more: int) -> Made:
    f, args = leapfrog(j, more)
    return j.top.grad(lambda q, p: (f(q, p)[0] ** 2).mean()), args


@workload
def wave_128(j: Any, more: int) -> Made:
    def f(u: Any, v: Any) -> Any:
        def step(c: Any, _: Any) -> Any:
            u, v = c
            v = v + 0.1 * (sum(j.np.roll(u, s, a) for s in (1, -1) for a in (0, 1)) - 4 * u)
            return (u + 0.1 * v, v), None
        return j.lax.scan(step, (u, v), None, length=50)[0]
    return f, (normal(128 + more, 128), normal(128 + more, 128, seed=1))


@workload
def trajectories(j: Any, more: int) -> Made:
    def one(y: Any) -> Any:
        def body(i: Any, c: Any) -> Any:
            y, out = c
            y = y - 0.01 * y ** 3
            return y, out.at[i].set(y)
        return j.lax.fori_loop(0, 300, body, (y, j.np.zeros((300, *y.shape), y.dtype)))[1]
    return j.top.vmap(one), (normal(100 + more, 3),)


@workload
def logistic_map_scan(j: Any, more: int) -> Made:
    def f(x: Any) -> Any:
        return j.lax.scan(lambda c, _: (3.7 * c * (1 - c), c), x, None, length=1000)[1]
    return f, (uniform(16 + more),)


# ---- linear algebra
@workload
def cholesky_500(j: Any, more: int) -> Made:
    a = normal(500 + more, 500 + more)
    return lambda a: j.linalg.cholesky(a), (a @ a.T + 500 * np.eye(500 + more, dtype=np.float32),)


@workload
def solve_300(j: Any, more: int) -> Made:
    return lambda a, b: j.linalg.solve(a, b), (normal(300 + more, 300 + more),
                                               normal(300 + more, 3))


@workload
def eigh_100(j: Any, more: int) -> Made:
    a = normal(100 + more, 100 + more)
    return lambda a: j.linalg.eigh(a)[0], (a + a.T,)


@workload
def batched_inverses_4x4(j: Any, more: int) -> Made:
    return lambda a: j.linalg.inv(a), (normal(2000 + more, 4, 4) + 4 * np.eye(4, dtype=np.float32),)


@workload
def gaussian_process_gradient(j: Any, more: int) -> Made:
    def loss(w: Any, x: Any, y: Any) -> Any:
        d = ((x[:, None] - x[None]) ** 2).sum(-1)
        k = j.np.exp(w[0] - d * j.np.exp(w[1])) + 0.1 * j.np.eye(x.shape[0])
        c = j.linalg.cholesky(k)
        a = j.slinalg.solve_triangular(c, y, lower=True)
        return 0.5 * (a * a).sum() + j.np.log(j.np.diagonal(c)).sum()
    return j.top.grad(loss), (normal(2), normal(200 + more, 3), normal(200 + more))


@workload
def fft_2d_512(j: Any, more: int) -> Made:
    return lambda x: j.np.abs(j.np.fft.fft2(x)), (normal(512, 512 + 16 * more),)


import workloads_data  # noqa: E402, F401 (it adds its own)
import workloads_dtypes  # noqa: E402, F401 (the same)
import workloads_idioms  # noqa: E402, F401
import workloads_loops  # noqa: E402, F401
import workloads_networks  # noqa: E402, F401
