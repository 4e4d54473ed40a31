"""Networks forward of peers.py, at several batch sizes (see peers_workloads): weights are given to
calque and torch as arguments, as programs in these libraries have them, to ONNX as constants.
Normalisations of ResNet's batches are folded into its convolutions.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from peers_arrays import triangle
from peers_workloads import ROWS, Row, layernorm, normal

BATCHES = (1, 8, 64)
FINE = 1e-3  # a network's layers carry the differences of sums on


def scaled(*shape: int, seed: int = 0, of: int | None = None) -> Any:
    """Weights that keep the size of what passes through."""
    return normal(*shape, seed=seed) / np.float32(math.sqrt(of or shape[0]))


def _pairs(weights: tuple[Any, ...]) -> list[tuple[Any, Any]]:
    return list(zip(weights[::2], weights[1::2]))


# ---- MLP 784-512-256-10
SIZES = (784, 512, 256, 10)


def _mlp_weights() -> tuple[Any, ...]:
    return tuple(a for i, (m, n) in enumerate(zip(SIZES, SIZES[1:]))
                 for a in (scaled(m, n, seed=i), normal(n, seed=9) / 8))


def _mlp(relu: Callable[[Any], Any], x: Any, weights: tuple[Any, ...]) -> Any:
    for w, b in _pairs(weights)[:-1]:
        x = relu(x @ w + b)
    return x @ weights[-2] + weights[-1]


def _mlp_onnx(g: Any, x: Any, *weights: Any) -> Any:
    for w, b in _pairs(weights)[:-1]:
        x = g("Relu", g("Gemm", x, w, b))
    return g("Gemm", x, *weights[-2:])


for _n in BATCHES:
    ROWS[f"mlp_batch_{_n}"] = Row(
        arguments=lambda n=_n: (normal(n, 784),), weights=_mlp_weights, tolerance=FINE,
        calque=lambda j, x, *w: _mlp(j.nn.relu, x, w), torch=lambda t, x, *w: _mlp(t.relu, x, w),
        numpy=lambda n, x, *w: _mlp(lambda v: n.maximum(v, 0), x, w), onnx=_mlp_onnx,
        compiles=True, operations=2 * _n * sum(m * n for m, n in zip(SIZES, SIZES[1:])))


# ---- convolutional networks, as layers in a list: (stride, pad) of each convolution
def _conv(j: Any, x: Any, w: Any, b: Any, stride: int = 1) -> Any:
    pad = w.shape[2] // 2
    return j.lax.conv_general_dilated(
        x, w, (stride, stride), [(pad, pad)] * 2,
        dimension_numbers=("NCHW", "OIHW", "NCHW")) + b[:, None, None]


class _Calque:
    """The layers of a network on pictures, in calque."""

    def __init__(self, j: Any) -> None:
        self.j, self.relu = j, j.nn.relu

    def conv(self, x: Any, w: Any, b: Any, stride: int = 1) -> Any:
        return _conv(self.j, x, w, b, stride)

    def add(self, x: Any, y: Any) -> Any:
        return x + y

    def pool(self, x: Any, size: int, stride: int, pad: int) -> Any:
        return self.j.lax.reduce_window(
            x, -np.inf, self.j.lax.max, (1, 1, size, size), (1, 1, stride, stride),
            ((0, 0), (0, 0), (pad, pad), (pad, pad)))

    def head(self, x: Any, w: Any, b: Any) -> Any:
        return x.mean((2, 3)) @ w + b


class _Torch(_Calque):
    def __init__(self, t: Any) -> None:
        self.f, self.relu = t.nn.functional, t.relu

    def conv(self, x: Any, w: Any, b: Any, stride: int = 1) -> Any:
        return self.f.conv2d(x, w, b, stride, w.shape[2] // 2)

    def pool(self, x: Any, size: int, stride: int, pad: int) -> Any:
        return self.f.max_pool2d(x, size, stride, pad)


class _Onnx(_Calque):
    def __init__(self, g: Any) -> None:
        self.g, self.relu = g, lambda x: g("Relu", x)

    def conv(self, x: Any, w: Any, b: Any, stride: int = 1) -> Any:
        return self.g("Conv", x, w, b, pads=[w.shape[2] // 2] * 4, strides=[stride] * 2)

    def add(self, x: Any, y: Any) -> Any:
        return self.g("Add", x, y)

    def pool(self, x: Any, size: int, stride: int, pad: int) -> Any:
        return self.g("MaxPool", x, kernel_shape=[size] * 2, strides=[stride] * 2, pads=[pad] * 4)

    def head(self, x: Any, w: Any, b: Any) -> Any:
        return self.g("Gemm", self.g("Flatten", self.g("GlobalAveragePool", x)), w, b)


def _layer(i: int, o: int, size: int, seed: int = 0) -> tuple[Any, Any]:
    return scaled(o, i, size, size, seed=seed, of=i * size * size), normal(o, seed=seed) / 8


def _cnn(m: _Calque, x: Any, *weights: Any) -> Any:
    for w, b in _pairs(weights)[:-1]:
        x = m.pool(m.relu(m.conv(x, w, b)), 2, 2, 0)
    return m.head(x, *weights[-2:])


def _cnn_weights() -> tuple[Any, ...]:
    return (*_layer(1, 32, 3), *_layer(32, 64, 3), scaled(64, 10), normal(10))


PLAN = [(64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)]


def _resnet_weights() -> tuple[Any, ...]:
    made: list[Any] = [*_layer(3, 64, 7)]
    width = 64
    for k, (out, stride) in enumerate(PLAN):
        made += [*_layer(width, out, 3, k), *_layer(out, out, 3, k + 20)]
        if stride != 1:
            made += _layer(width, out, 1, k + 40)
        width = out
    return (*made, scaled(512, 1000), normal(1000) / 8)


def _resnet(m: _Calque, x: Any, *weights: Any) -> Any:
    layers = iter(_pairs(weights))
    x = m.pool(m.relu(m.conv(x, *next(layers), stride=2)), 3, 2, 1)
    for _, stride in PLAN:
        y = m.relu(m.conv(x, *next(layers), stride=stride))
        y = m.conv(y, *next(layers))
        x = m.relu(m.add(y, m.conv(x, *next(layers), stride=stride) if stride != 1 else x))
    return m.head(x, *next(layers))


def _resnet_operations() -> int:
    total, size, width = 2 * 64 * 64 * 64 * 3 * 49, 32, 64
    for out, stride in PLAN:
        size //= stride
        total += 2 * size**2 * out * (9 * width + 9 * out + (width if stride != 1 else 0))
        width = out
    return total


for _n in BATCHES:
    for _name, _f, _made, _shape, _work in (
            ("cnn", _cnn, _cnn_weights, (1, 28, 28), 2 * 9 * 32 * (784 + 196 * 64)),
            ("resnet18", _resnet, _resnet_weights, (3, 128, 128), _resnet_operations())):
        ROWS[f"{_name}_batch_{_n}"] = Row(
            arguments=lambda n=_n, s=_shape: (normal(n, *s),), weights=_made, tolerance=FINE,
            calque=lambda j, *a, f=_f: f(_Calque(j), *a),
            torch=lambda t, *a, f=_f: f(_Torch(t), *a),
            onnx=lambda g, *a, f=_f: f(_Onnx(g), *a), operations=_n * _work,
            compiles=_name == "cnn")


# ---- recurrent networks: 64 steps, 64 numbers in, a state of 128
STEPS, IN, STATE = 64, 64, 128


def _recurrent_weights(gates: int) -> tuple[Any, ...]:
    return (scaled(gates * STATE, IN, of=IN), scaled(gates * STATE, STATE, of=STATE, seed=1),
            normal(gates * STATE, seed=2) / 8, normal(gates * STATE, seed=3) / 8)


def _lstm(j: Any, xs: Any, wi: Any, wh: Any, bi: Any, bh: Any) -> Any:
    def step(carry: Any, x: Any) -> Any:
        h, c = carry
        i, f, g, o = j.np.split(x @ wi.T + bi + h @ wh.T + bh, 4, -1)
        c = j.nn.sigmoid(f) * c + j.nn.sigmoid(i) * j.np.tanh(g)
        h = j.nn.sigmoid(o) * j.np.tanh(c)
        return (h, c), h
    zero = j.np.zeros((xs.shape[1], STATE), xs.dtype)
    return j.lax.scan(step, (zero, zero), xs)[1]


def _gru(j: Any, xs: Any, wi: Any, wh: Any, bi: Any, bh: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        a, b = (j.np.split(v, 3, -1) for v in (x @ wi.T + bi, h @ wh.T + bh))
        r, z = j.nn.sigmoid(a[0] + b[0]), j.nn.sigmoid(a[1] + b[1])
        h = (1 - z) * j.np.tanh(a[2] + r * b[2]) + z * h
        return h, h
    return j.lax.scan(step, j.np.zeros((xs.shape[1], STATE), xs.dtype), xs)[1]


def _torch_recurrent(name: str) -> Callable[..., Any]:
    def f(t: Any, xs: Any, *weights: Any) -> Any:
        h = t.zeros(1, xs.shape[1], STATE)
        state = (h, h) if name == "lstm" else h
        return getattr(t._VF, name)(xs, state, list(weights), True, 1, 0.0, False, False, False)[0]
    return f


def _onnx_recurrent(g: Any, xs: Any, *weights: Any) -> Any:
    gates = weights[0].shape[0] // STATE
    order = [0, 3, 1, 2] if gates == 4 else [1, 0, 2]  # i o f c; z r h
    w, r, bi, bh = (np.concatenate([np.split(v, gates)[k] for k in order]) for v in weights)
    more = {} if gates == 4 else {"linear_before_reset": 1}
    y = g("LSTM" if gates == 4 else "GRU", xs, w[None], r[None],
          np.concatenate([bi, bh])[None], hidden_size=STATE, **more)
    return g("Squeeze", y, np.array([1]))


for _name, _f, _gates in (("lstm", _lstm, 4), ("gru", _gru, 3)):
    for _n in BATCHES:
        ROWS[f"{_name}_batch_{_n}"] = Row(
            arguments=lambda n=_n: (normal(STEPS, n, IN),), calque=_f, tolerance=FINE,
            weights=lambda k=_gates: _recurrent_weights(k), torch=_torch_recurrent(_name),
            onnx=_onnx_recurrent,
            operations=2 * STEPS * _n * _gates * STATE * (IN + STATE))


# ---- transformers
def _block_weights(width: int, seed: int = 0) -> tuple[Any, ...]:
    """qkv, out, two of the feed-forward network, each with its bias; gains and shifts."""
    shapes = ((width, 3 * width), (width, width), (width, 4 * width), (4 * width, width))
    made = [a for i, s in enumerate(shapes)
            for a in (scaled(*s, seed=seed + i), normal(s[1], seed=seed + i) / 8)]
    return (*made, *(v for i in range(2) for v in (normal(width, seed=i) / 8 + 1,
                                                   normal(width, seed=i + 5) / 8)))


class _Jax:
    """The parts of a transformer, in calque."""

    def __init__(self, j: Any) -> None:
        self.j = j

    def linear(self, x: Any, w: Any, b: Any) -> Any:
        return x @ w + b

    def add(self, x: Any, y: Any) -> Any:
        return x + y

    def gelu(self, x: Any) -> Any:
        return self.j.nn.gelu(x, approximate=False)

    def norm(self, x: Any, g: Any, b: Any) -> Any:
        return layernorm(self.j, x, g, b)

    def attention(self, qkv: Any, shape: tuple[int, int, int, int], causal: bool) -> Any:
        q, k, v = (a.reshape(shape) for a in self.j.np.split(qkv, 3, -1))
        y = self.j.nn.dot_product_attention(q, k, v, is_causal=causal)
        return y.reshape(*shape[:2], -1)


class _TorchParts(_Jax):
    def gelu(self, x: Any) -> Any:
        return self.j.nn.functional.gelu(x)

    def linear(self, x: Any, w: Any, b: Any) -> Any:
        return self.j.addmm(b, x.reshape(-1, x.shape[-1]), w).reshape(*x.shape[:-1], -1)

    def norm(self, x: Any, g: Any, b: Any) -> Any:
        return self.j.nn.functional.layer_norm(x, g.shape, g, b)

    def attention(self, qkv: Any, shape: tuple[int, int, int, int], causal: bool) -> Any:
        q, k, v = (a.reshape(shape).transpose(1, 2) for a in qkv.chunk(3, -1))
        y = self.j.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return y.transpose(1, 2).reshape(*shape[:2], -1)


class _OnnxParts(_Jax):
    def gelu(self, x: Any) -> Any:
        return self.j("Gelu", x)

    def linear(self, x: Any, w: Any, b: Any) -> Any:
        return self.j("Add", self.j("MatMul", x, w), b)

    def add(self, x: Any, y: Any) -> Any:
        return self.j("Add", x, y)

    def norm(self, x: Any, g: Any, b: Any) -> Any:
        return self.j("LayerNormalization", x, g, b, epsilon=1e-5)

    def attention(self, qkv: Any, shape: tuple[int, int, int, int], causal: bool) -> Any:
        g, sizes = self.j, np.array(shape)
        q, k, v = (g("Reshape", a, sizes) for a in g("Split", qkv, results=3, axis=-1,
                                                     num_outputs=3))
        q, v = (g("Transpose", a, perm=[0, 2, 1, 3]) for a in (q, v))
        s = g("Mul", g("MatMul", q, g("Transpose", k, perm=[0, 2, 3, 1])),
              np.float32(1 / math.sqrt(shape[3])))
        s = g("Add", s, triangle(shape[1])) if causal else s
        y = g("Transpose", g("MatMul", g("Softmax", s), v), perm=[0, 2, 1, 3])
        return g("Reshape", y, np.array([*shape[:2], shape[2] * shape[3]]))


Shape = tuple[int, int, int, int]


def _encoder(m: _Jax, shape: Shape, x: Any, *weights: Any) -> Any:
    """Post-norm blocks, as BERT and MiniLM have them."""
    for k in range(0, len(weights), 12):
        wa, ba, wo, bo, w1, b1, w2, b2, g1, s1, g2, s2 = weights[k:k + 12]
        y = m.linear(m.attention(m.linear(x, wa, ba), shape, False), wo, bo)
        x = m.norm(m.add(x, y), g1, s1)
        x = m.norm(m.add(x, m.linear(m.gelu(m.linear(x, w1, b1)), w2, b2)), g2, s2)
    return x


def _decoder(m: _Jax, shape: Shape, x: Any, *weights: Any) -> Any:
    """A pre-norm block, as GPT has it."""
    wa, ba, wo, bo, w1, b1, w2, b2, g1, s1, g2, s2 = weights
    x = m.add(x, m.linear(m.attention(m.linear(m.norm(x, g1, s1), wa, ba), shape, True), wo, bo))
    return m.add(x, m.linear(m.gelu(m.linear(m.norm(x, g2, s2), w1, b1)), w2, b2))


def _transformer(f: Callable[..., Any], shape: Shape, blocks: int, compiles: bool) -> Row:
    batch, length, heads, width = shape
    wide = heads * width
    return Row(
        arguments=lambda: (normal(batch, length, wide),), tolerance=FINE, compiles=compiles,
        weights=lambda: tuple(w for k in range(blocks) for w in _block_weights(wide, 10 * k)),
        calque=lambda j, *a: f(_Jax(j), shape, *a),
        torch=lambda t, *a: f(_TorchParts(t), shape, *a),
        onnx=lambda g, *a: f(_OnnxParts(g), shape, *a),
        operations=blocks * batch * length * (24 * wide**2 + 4 * length * wide))


for _n in BATCHES:  # (MiniLM-L6: 6 blocks, 384 wide, 12 heads; sentences of 64)
    ROWS[f"encoder_batch_{_n}"] = _transformer(_encoder, (_n, 64, 12, 32), 6, _n == 1)
ROWS["gpt_block_prefill_512"] = _transformer(_decoder, (1, 512, 8, 64), 1, True)

# one token, the 701st, through a block with caches of 704
PLACE, LENGTH = 700, 704


def _token(j: Any, x: Any, place: Any, *rest: Any) -> Any:
    k, v, *weights = rest[:0] + rest[-2:] + rest[:-2]
    wa, ba, wo, bo, w1, b1, w2, b2, g1, s1, g2, s2 = weights
    m = _Jax(j)
    q, new, more = (a.reshape(1, 1, 8, 64) for a in j.np.split(
        m.linear(m.norm(x, g1, s1), wa, ba), 3, -1))
    k = j.lax.dynamic_update_slice(k, new, (0, place, 0, 0))
    v = j.lax.dynamic_update_slice(v, more, (0, place, 0, 0))
    seen = (j.np.arange(LENGTH) <= place)[None, None, None]
    y = j.nn.dot_product_attention(q, k, v, mask=seen).reshape(1, 1, 512)
    x = x + m.linear(y, wo, bo)
    return x + m.linear(m.gelu(m.linear(m.norm(x, g2, s2), w1, b1)), w2, b2), k, v


def _torch_token(t: Any, x: Any, place: Any, *rest: Any) -> Any:
    k, v, *weights = rest[-2:] + rest[:-2]
    wa, ba, wo, bo, w1, b1, w2, b2, g1, s1, g2, s2 = weights
    m = _TorchParts(t)
    q, new, more = (a.reshape(1, 1, 8, 64) for a in
                    m.linear(m.norm(x, g1, s1), wa, ba).chunk(3, -1))
    k[:, PLACE:PLACE + 1], v[:, PLACE:PLACE + 1] = new, more
    y = t.nn.functional.scaled_dot_product_attention(
        *(a.transpose(1, 2) for a in (q, k[:, :PLACE + 1], v[:, :PLACE + 1])))
    x = x + m.linear(y.reshape(1, 1, 512), wo, bo)
    return x + m.linear(m.gelu(m.linear(m.norm(x, g2, s2), w1, b1)), w2, b2)


ROWS["gpt_block_token"] = Row(
    arguments=lambda: (normal(1, 1, 512), np.int32(PLACE).reshape(())), carry=2, tolerance=FINE,
    weights=lambda: (*_block_weights(512), *(normal(1, LENGTH, 8, 64, seed=i) for i in (1, 2))),
    calque=_token, torch=_torch_token, operations=24 * 512**2 + 4 * (PLACE + 1) * 512)
