"""The workloads of peers.py, each as users of a library would write it; the networks are in
peers_networks.

A `Row` has a function for each library that has a form for it: calque's takes (modules, *arrays),
torch's (torch, *tensors), NumPy's (numpy, *arrays), ONNX's (Graph, *names and constants), numba's
gives a compiled function.  Arguments and weights are float32 unless they are whole numbers; ONNX
has weights as constants, others as arguments.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Function = Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A workload; `tolerance` is of the largest number in a result: float32 sums of other orders
    and functions of another library's accuracy differ by less than 1e-4 of it."""
    arguments: Callable[[], tuple[Any, ...]]
    calque: Function
    torch: Function | None = None
    onnx: Function | None = None
    numba: Function | None = None
    numpy: Function | None = None
    weights: Callable[[], tuple[Any, ...]] = tuple
    operations: int = 0  # of float32 products, for the share of the machine's peak
    tolerance: float = 1e-4
    compiles: bool = False  # torch.compile is tried: where kernels can be made one
    low: bool = False  # float32 arrays are given as bfloat16
    carry: int = 0  # so many of the last arguments are donated, and come back as last results


ROWS: dict[str, Row] = {}


def normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def uniform(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).random(shape, np.float32)


def whole(high: int, *shape: int, kind: Any = np.int32) -> Any:
    return np.random.default_rng(1).integers(0, high, shape).astype(kind)


# ---- elementwise
def _add(_: Any, x: Any, y: Any) -> Any:
    return x + y


for _n, _name in ((4, "4"), (1_000_000, "1m")):
    ROWS[f"add_{_name}"] = Row(
        arguments=lambda n=_n: (normal(n), normal(n, seed=1)), calque=_add, torch=_add,
        numpy=_add, onnx=lambda g, x, y: g("Add", x, y), compiles=True)


def _each(nb: Any, f: Function) -> Function:
    """A loop over numbers, on all threads."""
    one = nb.njit(f, fastmath=True, inline="always")

    def run(*arrays: Any) -> Any:
        return loop(np.empty_like(arrays[0]), *arrays)
    sources = {1: "x[i]", 2: "x[i], y[i]", 3: "x[i], y[i], z[i]"}
    count = f.__code__.co_argcount
    space: dict[str, Any] = {"one": one, "prange": nb.prange}
    exec(f"def loop(out, {', '.join('xyz'[:count])}):\n"
         f"    for i in prange(out.size):\n        out[i] = one({sources[count]})\n"
         "    return out", space)
    loop = nb.njit(space["loop"], parallel=True, fastmath=True)
    return run


ROWS["gelu_1m"] = Row(
    arguments=lambda: (normal(1_000_000),), compiles=True,
    calque=lambda j, x: j.nn.gelu(x, approximate=False),
    torch=lambda t, x: t.nn.functional.gelu(x), onnx=lambda g, x: g("Gelu", x),
    numba=lambda nb: _each(nb, lambda x: np.float32(0.5) * x * (
        np.float32(1) + math.erf(x * np.float32(0.70710678)))))


def _horner(_: Any, x: Any, c: Any) -> Any:
    y = x * c[0] + c[1]
    for k in range(2, 11):
        y = y * x + c[k]
    return y


def _horner_onnx(g: Any, x: Any, c: Any) -> Any:
    y = g("Add", g("Mul", x, c[0]), c[1])
    for k in range(2, 11):
        y = g("Add", g("Mul", y, x), c[k])
    return y


def _horner_numba(nb: Any) -> Function:
    def loop(x: Any, c: Any) -> Any:
        out = np.empty_like(x)
        for i in nb.prange(x.size):
            y = c[0]
            for k in range(1, 11):
                y = y * x[i] + c[k]
            out[i] = y
        return out
    return nb.njit(loop, parallel=True, fastmath=True)


ROWS["polynomial_10_1m"] = Row(
    arguments=lambda: (uniform(1_000_000),), weights=lambda: (normal(11),), compiles=True,
    calque=lambda j, x, c: j.np.polyval(c, x), torch=_horner, onnx=_horner_onnx,
    numba=_horner_numba, numpy=lambda n, x, c: n.polyval(c, x))


def _black_scholes(log: Function, sqrt: Function, exp: Function, ndtr: Function) -> Function:
    def f(s: Any, k: Any, t: Any) -> Any:
        d1 = (log(s / k) + (0.03 + 0.02) * t) / (0.2 * sqrt(t))
        d2 = d1 - 0.2 * sqrt(t)
        return s * ndtr(d1) - k * exp(-0.03 * t) * ndtr(d2)
    return f


def _black_scholes_onnx(g: Any, s: Any, k: Any, t: Any) -> Any:
    c = np.float32

    def ndtr(d: Any) -> Any:
        return g("Mul", g("Add", g("Erf", g("Mul", d, c(0.70710678))), c(1)), c(0.5))
    root = g("Mul", g("Sqrt", t), c(0.2))
    d1 = g("Div", g("Add", g("Log", g("Div", s, k)), g("Mul", t, c(0.05))), root)
    late = g("Mul", k, g("Exp", g("Mul", t, c(-0.03))))
    return g("Sub", g("Mul", s, ndtr(d1)), g("Mul", late, ndtr(g("Sub", d1, root))))


def _black_scholes_one(s: Any, k: Any, t: Any) -> Any:
    root = np.float32(0.2) * math.sqrt(t)
    d1 = (math.log(s / k) + np.float32(0.05) * t) / root
    half = np.float32(0.70710678)
    return (s * np.float32(0.5) * (np.float32(1) + math.erf(d1 * half))
            - k * math.exp(np.float32(-0.03) * t) * np.float32(0.5)
            * (np.float32(1) + math.erf((d1 - root) * half)))


ROWS["black_scholes_1m"] = Row(
    arguments=lambda: (uniform(1_000_000) * 50 + 75, uniform(1_000_000, seed=1) * 50 + 75,
                       uniform(1_000_000, seed=2) + np.float32(0.1)), compiles=True,
    calque=lambda j, *a: _black_scholes(j.np.log, j.np.sqrt, j.np.exp, j.special.ndtr)(*a),
    torch=lambda t, *a: _black_scholes(t.log, t.sqrt, t.exp, t.special.ndtr)(*a),
    onnx=_black_scholes_onnx, numba=lambda nb: _each(nb, _black_scholes_one))


# ---- reductions
def _numba_rows(nb: Any, body: Function, out: Function) -> Function:
    """body(row, rows of out, i) over rows, on all threads."""
    one = nb.njit(body, fastmath=True)

    def loop(x: Any, y: Any) -> Any:
        for i in nb.prange(x.shape[0]):
            one(x[i], y, i)
        return y
    compiled = nb.njit(loop, parallel=True, fastmath=True)
    return lambda x, *rest: compiled(x, out(x))


def _softmax_row(x: Any, y: Any, i: Any) -> None:
    top = x[0]
    for k in range(x.size):
        top = max(top, x[k])
    total = np.float32(0)
    for k in range(x.size):
        y[i, k] = math.exp(x[k] - top)
        total += y[i, k]
    for k in range(x.size):
        y[i, k] /= total


def _argmax_row(x: Any, y: Any, i: Any) -> None:
    at = 0
    for k in range(x.size):
        if x[k] > x[at]:
            at = k
    y[i] = at


def _softmax(n: Any, x: Any) -> Any:
    e = n.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layernorm(j: Any, x: Any, g: Any, b: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    var = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / j.np.sqrt(var + 1e-5) * g + b


ROWS["sum_4096"] = Row(
    arguments=lambda: (normal(4096, 4096),), calque=lambda j, x: x.sum(0), compiles=True,
    torch=lambda t, x: x.sum(0), numpy=lambda n, x: x.sum(0),
    onnx=lambda g, x: g("ReduceSum", x, np.array([0]), keepdims=0))
ROWS["softmax_2048"] = Row(
    arguments=lambda: (normal(2048, 2048),), calque=lambda j, x: j.nn.softmax(x), compiles=True,
    torch=lambda t, x: t.softmax(x, -1), onnx=lambda g, x: g("Softmax", x), numpy=_softmax,
    numba=lambda nb: _numba_rows(nb, _softmax_row, np.empty_like))
ROWS["layernorm_2048x1024"] = Row(
    arguments=lambda: (normal(2048, 1024),), calque=layernorm, compiles=True,
    weights=lambda: (uniform(1024), normal(1024)),
    torch=lambda t, x, g, b: t.nn.functional.layer_norm(x, (1024,), g, b),
    onnx=lambda g, x, w, b: g("LayerNormalization", x, w, b, epsilon=1e-5),
    numpy=lambda n, x, g, b: (x - x.mean(-1, keepdims=True)) / n.sqrt(
        x.var(-1, keepdims=True) + 1e-5) * g + b)
ROWS["cumsum_1m"] = Row(  # (sums of 1e6 numbers, one after another or by parts)
    arguments=lambda: (uniform(1_000_000),), calque=lambda j, x: j.np.cumsum(x),
    torch=lambda t, x: t.cumsum(x, 0), numpy=lambda n, x: n.cumsum(x),
    onnx=lambda g, x: g("CumSum", x, np.array(0)), tolerance=1e-3,
    numba=lambda nb: nb.njit(lambda x: x.cumsum()))
ROWS["cumsum_rows"] = Row(
    arguments=lambda: (normal(1000, 1000),), calque=lambda j, x: j.np.cumsum(x, 1),
    torch=lambda t, x: t.cumsum(x, 1), numpy=lambda n, x: n.cumsum(x, 1),
    onnx=lambda g, x: g("CumSum", x, np.array(1)))
ROWS["argmax_rows"] = Row(
    arguments=lambda: (normal(4000, 1000),), calque=lambda j, x: j.np.argmax(x, -1),
    torch=lambda t, x: t.argmax(x, -1), numpy=lambda n, x: n.argmax(x, -1), compiles=True,
    onnx=lambda g, x: g("ArgMax", x, axis=-1, keepdims=0), tolerance=0,
    numba=lambda nb: _numba_rows(nb, _argmax_row, lambda x: np.empty(len(x), np.int64)))


# ---- products
def _matmul(_: Any, x: Any, y: Any) -> Any:
    return x @ y


def _product(*shapes: tuple[int, ...], operations: int, **more: Any) -> Row:
    """The first is an input; the second a weight where the first has few rows."""
    first, second = shapes
    few = len(first) == 2 and first[0] <= 64
    x, y = (lambda: normal(*first)), (lambda: normal(*second, seed=1))
    return Row(arguments=lambda: (x(),) if few else (x(), y()),
               weights=(lambda: (y(),)) if few else tuple,
               **{"calque": _matmul, "torch": _matmul, "numpy": _matmul,
                  "onnx": lambda g, x, y: g("MatMul", x, y), **more}, operations=operations)


for _n in (256, 512, 1024, 2048):
    ROWS[f"matmul_{_n}"] = _product((_n, _n), (_n, _n), operations=2 * _n**3)
for _n in (1, 8):
    ROWS[f"rows_{_n}_of_4096"] = _product((_n, 4096), (4096, 4096), operations=2 * _n * 4096**2)
ROWS["rows_64_by_transposed"] = _product(
    (64, 1024), (4096, 1024), operations=2 * 64 * 4096 * 1024,
    calque=lambda j, x, w: x @ w.T, torch=lambda t, x, w: t.nn.functional.linear(x, w),
    numpy=lambda n, x, w: x @ w.T, onnx=lambda g, x, w: g("Gemm", x, w, transB=1))
ROWS["matvec_4096"] = Row(
    arguments=lambda: (normal(4096, 4096), normal(4096, seed=1)), calque=_matmul, torch=_matmul,
    numpy=_matmul, onnx=lambda g, x, y: g("MatMul", x, y), operations=2 * 4096**2)
ROWS["batched_64x128"] = _product((64, 128, 128), (64, 128, 128), operations=2 * 64 * 128**3)
ROWS["int8_512"] = Row(
    arguments=lambda: tuple((whole(255, 512, 512) - 127).astype(np.int8) for _ in range(2)),
    calque=lambda j, x, y: j.lax.dot(x, y, preferred_element_type=j.np.int32), tolerance=0,
    torch=lambda t, x, y: t._int_mm(x, y), onnx=lambda g, x, y: g("MatMulInteger", x, y),
    operations=2 * 512**3)
ROWS["bfloat16_1024"] = _product(  # (eight bits of a number are kept)
    (1024, 1024), (1024, 1024), operations=2 * 1024**3, low=True, tolerance=2e-2, numpy=None,
    onnx=None)
