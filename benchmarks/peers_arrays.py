"""Attention, convolutions, linear algebra, sorting and indexing of peers.py (see
peers_workloads)."""
from __future__ import annotations

import math
from typing import Any

import numpy as np
from peers_workloads import ROWS, Function, Row, normal, uniform, whole


# ---- attention
def _attention(g: Any, q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    """ONNX: of (batch, length, heads, width)."""
    q, v = (g("Transpose", a, perm=[0, 2, 1, 3]) for a in (q, v))
    s = g("Mul", g("MatMul", q, g("Transpose", k, perm=[0, 2, 3, 1])), np.float32(1 / 8))
    s = s if mask is None else g("Add", s, mask)
    return g("Transpose", g("MatMul", g("Softmax", s), v), perm=[0, 2, 1, 3])


def _torch_attention(causal: bool) -> Function:
    def f(t: Any, *qkv: Any) -> Any:
        turned = (a.transpose(1, 2) for a in qkv)
        return t.nn.functional.scaled_dot_product_attention(
            *turned, is_causal=causal).transpose(1, 2)
    return f


def _numpy_attention(n: Any, q: Any, k: Any, v: Any) -> Any:
    q, k, v = (a.transpose(0, 2, 1, 3) for a in (q, k, v))
    e = q @ k.swapaxes(2, 3) / 8
    e = n.exp(e - e.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True) @ v).transpose(0, 2, 1, 3)


def triangle(length: int) -> Any:
    """0 where a position sees another, else a number that leaves nothing of exp."""
    return np.where(np.tri(length, dtype=bool), 0, -1e30).astype(np.float32)


for _shape, _causal in (((1, 1024, 12, 64), False), ((4, 256, 8, 64), True)):
    _b, _l, _h, _w = _shape
    ROWS[f"{'causal_' * _causal}attention_{_b}x{_h}x{_l}x{_w}"] = Row(
        arguments=lambda s=_shape: tuple(normal(*s, seed=i) for i in range(3)),
        calque=lambda j, q, k, v, c=_causal: j.nn.dot_product_attention(q, k, v, is_causal=c),
        torch=_torch_attention(_causal), numpy=None if _causal else _numpy_attention,
        onnx=lambda g, q, k, v, c=_causal, n=_l: _attention(g, q, k, v, triangle(n) if c else None),
        operations=4 * _b * _h * _l * _l * _w // (2 if _causal else 1))


# ---- convolutions
def _conv(layout: str, groups: int = 1, stride: int = 1) -> Function:
    kernel = "OIHW" if layout == "NCHW" else "HWIO"
    return lambda j, x, w: j.lax.conv_general_dilated(
        x, w, (stride, stride), "SAME", dimension_numbers=(layout, kernel, layout),
        feature_group_count=groups)


def _torch_conv(layout: str, pad: int, groups: int = 1) -> Function:
    def f(t: Any, x: Any, w: Any) -> Any:
        if layout == "NHWC":  # (a view: torch's channels_last)
            x, w = x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1)
        y = t.nn.functional.conv2d(x, w, padding=pad, groups=groups)
        return y.permute(0, 2, 3, 1) if layout == "NHWC" else y
    return f


for _name, _layout, _x, _w, _groups in (
        ("conv_3x3_nchw", "NCHW", (8, 64, 56, 56), (64, 64, 3, 3), 1),
        ("conv_1x1_nchw", "NCHW", (8, 256, 28, 28), (128, 256, 1, 1), 1),
        ("conv_depthwise_nchw", "NCHW", (8, 128, 28, 28), (128, 1, 3, 3), 128),
        ("conv_3x3_nhwc", "NHWC", (8, 56, 56, 64), (3, 3, 64, 64), 1),
        ("conv_1x1_nhwc", "NHWC", (8, 28, 28, 256), (1, 1, 256, 128), 1),
        ("conv_depthwise_nhwc", "NHWC", (8, 28, 28, 128), (3, 3, 1, 128), 128)):
    _first = _layout == "NCHW"
    _size = _w[2] if _first else _w[0]
    _spots = _x[0] * (_x[2] * _x[3] if _first else _x[1] * _x[2])
    ROWS[_name] = Row(
        arguments=lambda s=_x: (normal(*s),), weights=lambda s=_w: (normal(*s, seed=1) / 16,),
        calque=_conv(_layout, _groups), torch=_torch_conv(_layout, _size // 2, _groups),
        onnx=(lambda g, x, w, p=_size // 2, c=_groups: g("Conv", x, w, pads=[p] * 4, group=c))
        if _first else None, operations=2 * _spots * math.prod(_w))


# ---- linear algebra
def _spd(n: int) -> Any:
    a = normal(n, n)
    return a @ a.T + n * np.eye(n, dtype=np.float32)


ROWS["cholesky_512"] = Row(
    arguments=lambda: (_spd(512),), calque=lambda j, a: j.linalg.cholesky(a),
    torch=lambda t, a: t.linalg.cholesky(a), numpy=lambda n, a: n.linalg.cholesky(a),
    operations=512**3 // 3)
ROWS["solve_512"] = Row(
    arguments=lambda: (_spd(512), normal(512, 16)), calque=lambda j, a, b: j.linalg.solve(a, b),
    torch=lambda t, a, b: t.linalg.solve(a, b), numpy=lambda n, a, b: n.linalg.solve(a, b),
    operations=2 * 512**3 // 3)
ROWS["eigh_256"] = Row(  # (eigenvectors have signs of their own: values only)
    arguments=lambda: (_spd(256),), calque=lambda j, a: j.linalg.eigvalsh(a),
    torch=lambda t, a: t.linalg.eigvalsh(a), numpy=lambda n, a: n.linalg.eigvalsh(a),
    operations=4 * 256**3 // 3)
ROWS["fft_64x4096"] = Row(
    arguments=lambda: (normal(64, 4096) + 1j * normal(64, 4096, seed=1),),
    calque=lambda j, x: j.np.fft.fft(x), torch=lambda t, x: t.fft.fft(x),
    numpy=lambda n, x: n.fft.fft(x))
ROWS["fft_2d_1024"] = Row(
    arguments=lambda: (normal(1024, 1024) + 1j * normal(1024, 1024, seed=1),),
    calque=lambda j, x: j.np.fft.fft2(x), torch=lambda t, x: t.fft.fft2(x),
    numpy=lambda n, x: n.fft.fft2(x))

# ---- sorting and indexing
ROWS["sort_1m"] = Row(
    arguments=lambda: (normal(1_000_000),), calque=lambda j, x: j.np.sort(x), tolerance=0,
    torch=lambda t, x: t.sort(x)[0], numpy=lambda n, x: n.sort(x),
    numba=lambda nb: nb.njit(lambda x: np.sort(x)))
ROWS["sort_rows_512"] = Row(
    arguments=lambda: (normal(512, 512),), calque=lambda j, x: j.np.sort(x, -1), tolerance=0,
    torch=lambda t, x: t.sort(x, -1)[0], numpy=lambda n, x: n.sort(x, -1))
ROWS["top_10_of_2000_rows"] = Row(
    arguments=lambda: (normal(2000, 2000),), tolerance=0,
    calque=lambda j, x: tuple(j.lax.top_k(x, 10)), torch=lambda t, x: tuple(t.topk(x, 10)),
    onnx=lambda g, x: g("TopK", x, np.array([10]), results=2))
ROWS["gather_rows_100k"] = Row(
    arguments=lambda: (normal(50_000, 64), whole(50_000, 100_000)), tolerance=0,
    calque=lambda j, x, i: x[i], torch=lambda t, x, i: t.index_select(x, 0, i),
    onnx=lambda g, x, i: g("Gather", x, i), numpy=lambda n, x, i: x[i])


def _scatter_loop(i: Any, v: Any) -> Any:
    y = np.zeros(4096, np.float32)
    for k in range(i.size):
        y[i[k]] += v[k]
    return y


ROWS["scatter_add_500k"] = Row(
    arguments=lambda: (whole(4096, 500_000), uniform(500_000)),
    calque=lambda j, i, v: j.np.zeros(4096, j.np.float32).at[i].add(v),
    torch=lambda t, i, v: t.zeros(4096).index_add_(0, i, v),
    onnx=lambda g, i, v: g("ScatterElements", np.zeros(4096, np.float32), i, v, axis=0,
                           reduction="add"),
    numba=lambda nb: nb.njit(_scatter_loop),
    numpy=lambda n, i, v: n.bincount(i, v, 4096).astype(n.float32))
ROWS["where_1m"] = Row(
    arguments=lambda: (normal(1_000_000), normal(1_000_000, seed=1)), compiles=True,
    calque=lambda j, x, y: j.np.where(x > 0, x, y), tolerance=0,
    torch=lambda t, x, y: t.where(x > 0, x, y), numpy=lambda n, x, y: n.where(x > 0, x, y),
    onnx=lambda g, x, y: g("Where", g("Greater", x, np.float32(0)), x, y))
