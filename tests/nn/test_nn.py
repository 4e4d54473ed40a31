"""nn: activations, softmax and its kin, attention and initializers against NumPy and SciPy, and
derivatives at kinks.  Cases share compiled programs: compiling is most of the time.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special as ss
from support.harness import both_ways, by_each

import calque
import calque.numpy as jnp
from calque import nn

X = np.array([-6.0, -3.0, -1.0, -0.3, 0.0, 0.7, 1.0, 3.0, 6.0, 40.0, np.inf, -np.inf], np.float32)
M = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
KEEP = M > -0.5


def _sigmoid(x: Any) -> Any:
    return ss.expit(x)


ORACLES: dict[str, Callable[[Any], Any]] = {
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "squareplus": lambda x: (x + np.sqrt(x * x + 4)) / 2,
    "softplus": lambda x: np.logaddexp(x, 0),
    "sparse_plus": lambda x: np.where(x <= -1, 0, np.where(x >= 1, x, (x + 1) ** 2 / 4)),
    "soft_sign": lambda x: x / (1 + np.abs(x)),
    "sigmoid": _sigmoid,
    "sparse_sigmoid": lambda x: np.clip((x + 1) / 2, 0, 1),
    "silu": lambda x: x * _sigmoid(x),
    "mish": lambda x: x * np.tanh(np.logaddexp(x, 0)),
    "log_sigmoid": lambda x: -np.logaddexp(-x, 0),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "celu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "selu": lambda x: 1.0507009873554805 * np.where(
        x > 0, x, 1.6732632423543772 * np.expm1(np.minimum(x, 0))),
    "leaky_relu": lambda x: np.where(x >= 0, x, 0.01 * x),
    "hard_tanh": lambda x: np.clip(x, -1, 1),
    "hard_sigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "hard_silu": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "gelu": lambda x: x * 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3))),
    "tanh": np.tanh,
    "identity": lambda x: x,
}


@pytest.mark.parametrize("jit, names", by_each(list(ORACLES), 0.25))
def test_activations(jit: Any, names: list[str]) -> None:
    got = jit(lambda x: [getattr(nn, n)(x) for n in names])(X)
    with np.errstate(all="ignore"):
        for name, out in zip(names, got):
            want = ORACLES[name](X.astype(np.float64))
            # squareplus squares 6 eps of its sum away for x << 0; gelu cancels in 1 + tanh
            finite = np.isfinite(want)
            np.testing.assert_allclose(np.asarray(out)[finite], want[finite], rtol=4e-6,
                                       atol=2e-6, err_msg=name)
            assert out.dtype == np.float32 and out.shape == X.shape


@both_ways
def test_derivatives_at_kinks_are_those_of_jax(jit: Any) -> None:
    """Where functions have a kink, JAX's value (recorded with jax 0.10.2)."""
    places = np.array([-3.0, -1.0, 0.0, 1.0, 3.0, 6.0], np.float32)
    wanted = {"relu": [0, 0, 0, 1, 1, 1], "relu6": [0, 0, 0, 1, 1, 0],
              "leaky_relu": [.01, .01, 1, 1, 1, 1], "hard_tanh": [0, 1, 1, 1, 0, 0],
              "hard_sigmoid": [0, 1 / 6, 1 / 6, 1 / 6, 0, 0], "sparse_plus": [0, 0, .5, 1, 1, 1],
              "sparse_sigmoid": [0, .25, .5, .25, 0, 0]}
    got = jit(lambda x: [calque.vmap(calque.grad(getattr(nn, n)))(x) for n in wanted])(places)
    for (name, want), out in zip(wanted.items(), got):
        np.testing.assert_allclose(out, want, rtol=1e-6, err_msg=name)


@pytest.mark.parametrize("jit, names", by_each([
    "softplus", "silu", "mish", "gelu", "elu", "selu", "celu", "squareplus", "soft_sign",
    "log_sigmoid", "log1mexp"], 0.2))
def test_derivatives_are_differences(jit: Any, names: list[str]) -> None:
    """Smooth activations in float64, against central differences."""
    with calque.enable_x64(True):
        x, h = np.array([0.3, 1.7]), 1e-6

        def both(x: Any) -> Any:
            return [(calque.vmap(calque.grad(getattr(nn, n)))(x),
                     (getattr(nn, n)(x + h) - getattr(nn, n)(x - h)) / (2 * h)) for n in names]

        for name, (exact, about) in zip(names, jit(both)(x)):
            # h**2 of truncation and eps / h of rounding
            np.testing.assert_allclose(exact, about, rtol=1e-8, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("jit, chosen", by_each(range(18), 0.25))
def test_softmax_and_its_kin(jit: Any, chosen: list[int]) -> None:
    huge = np.array([1000.0, 0.0, -1000.0], np.float32)

    cases: list[Callable[[Any, Any], Any]] = [
        lambda m, keep: nn.softmax(m), lambda m, keep: nn.softmax(m, axis=0),
        lambda m, keep: nn.softmax(m, axis=(0, 1)), lambda m, keep: nn.softmax(m, where=keep),
        lambda m, keep: nn.log_softmax(m, axis=0), lambda m, keep: nn.logsumexp(m, axis=1),
        lambda m, keep: nn.logsumexp(m, axis=1, b=m, return_sign=True)[0],
        lambda m, keep: nn.logsumexp(m, where=keep), lambda m, keep: nn.logmeanexp(m, axis=0),
        lambda m, keep: nn.standardize(m),
        lambda m, keep: nn.standardize(m, axis=0, algorithm="stable"),
        lambda m, keep: nn.softmax(huge), lambda m, keep: nn.log_softmax(huge),
        lambda m, keep: nn.logsumexp(np.full(3, -np.inf, np.float32)),
        lambda m, keep: nn.logsumexp(np.zeros(0, np.float32)), lambda m, keep: nn.glu(m),
        lambda m, keep: nn.gelu(m, approximate=False),
        lambda m, keep: calque.jacobian(nn.softmax)(m[0])]

    m = M.astype(np.float64)
    s = ss.softmax(m[0])
    masked = np.where(KEEP, np.exp(m), 0)
    centered = m - m.mean(0)
    want = [ss.softmax(m, 1), ss.softmax(m, 0), ss.softmax(m), masked / masked.sum(1)[:, None],
            ss.log_softmax(m, 0), ss.logsumexp(m, 1), np.log(np.abs((m * np.exp(m)).sum(1))),
            np.log(masked.sum()), np.log(np.exp(m).mean(0)),
            (m - m.mean(1)[:, None]) / np.sqrt(m.var(1)[:, None] + 1e-5),
            centered / np.sqrt(m.var(0) + 1e-5), [1, 0, 0], [0, -1000, -2000], -np.inf, -np.inf,
            m[:, :2] * ss.expit(m[:, 2:]), m * ss.ndtr(m), np.diag(s) - np.outer(s, s)]
    assert len(want) == len(cases)
    found = jit(lambda m, keep: [cases[k](m, keep) for k in chosen])(M, KEEP)
    for i, out in zip(chosen, found, strict=True):
        # standardize takes the difference of two sums
        np.testing.assert_allclose(out, want[i], rtol=3e-6, atol=2e-6, err_msg=str(i))


def test_one_hot() -> None:
    out = nn.one_hot(np.array([0, 2, -1, 5]), 3, dtype="int8", axis=0)
    np.testing.assert_array_equal(out, [[1, 0, 0, 0], [0, 0, 0, 0], [0, 1, 0, 0]])
    assert out.dtype == np.int8 and nn.one_hot(1, 0).shape == (0,)
    assert nn.one_hot([1], 2).dtype == np.float32
    with pytest.warns(DeprecationWarning, match="one_hot input should be integer-typed"):
        np.testing.assert_array_equal(nn.one_hot(np.array([1.0]), 2), [[0, 1]])


def _attention(q: Any, k: Any, v: Any, seen: Any, bias: Any = 0.0) -> Any:
    """One loop over heads, in float64."""
    out = np.zeros(q.shape)
    for b in range(q.shape[0]):
        for n in range(q.shape[2]):
            g = n // (q.shape[2] // k.shape[2])
            scores = q[b, :, n] @ k[b, :, g].T / np.sqrt(q.shape[3])
            scores = scores + np.broadcast_to(bias, (*seen.shape[:2], *scores.shape))[b, n]
            out[b, :, n] = ss.softmax(np.where(seen[b, n], scores, -1e30), 1) @ v[b, :, g]
    return out


@pytest.mark.parametrize("jit, chosen", by_each(range(5), 0.3))
def test_attention(jit: Any, chosen: list[int]) -> None:
    r = np.random.default_rng(1)
    q, k, v = (r.standard_normal(s).astype(np.float32)
               for s in ((2, 4, 6, 8), (2, 5, 3, 8), (2, 5, 3, 8)))
    bias = r.standard_normal((1, 6, 4, 5)).astype(np.float32)
    mask = r.random((2, 1, 4, 5)) > 0.4
    mask[..., 0] = True
    i, j = np.arange(4)[:, None], np.arange(5)
    full = np.ones((2, 6, 4, 5), bool)
    lengths = np.array([2, 5], np.int32)
    cases = [({}, full, 0), ({"is_causal": True}, full & (j <= i), 0),
             ({"bias": bias, "mask": mask}, full & mask, bias),
             ({"local_window_size": (1, 0)}, full & (j <= i) & (j >= i - 1), 0),
             ({"key_value_seq_lengths": lengths}, full & (j < lengths[:, None, None, None]), 0)]
    cases = [cases[i] for i in chosen]
    got = jit(lambda: [nn.dot_product_attention(q, k, v, **c[0]) for c in cases])()
    wide = [x.astype(np.float64) for x in (q, k, v)]
    for (options, seen, extra), out in zip(cases, got):
        np.testing.assert_allclose(out, _attention(*wide, seen, extra), rtol=2e-5, atol=2e-6,
                                   err_msg=str(list(options)))


def test_attention_to_a_cache_as_it_lies() -> None:
    """Few queries of whole vectors: keys by heads, transposed for the call, as far as they count;
    who sees none gets the mean."""
    rng = np.random.default_rng(0)
    q = rng.standard_normal((3, 1, 6, 32)).astype(np.float32)
    k, v = rng.standard_normal((2, 3, 2, 150, 32)).astype(np.float32)
    lengths = np.array([70, 0, 999], np.int32)
    got = calque.jit(lambda q, k, v, n: nn.dot_product_attention(
        q, k.swapaxes(1, 2), v.swapaxes(1, 2), key_value_seq_lengths=n))(q, k, v, lengths)
    for b, n in enumerate((70, 0, 150)):
        for head in range(6):
            keys, values = k[b, head // 3].astype("f8"), v[b, head // 3].astype("f8")
            scores = np.exp(keys[:n] @ q[b, 0, head] / np.sqrt(32))
            want = scores @ values[:n] / scores.sum() if n else values.mean(0)
            np.testing.assert_allclose(got[b, 0, head], want, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("call, error, text", [
    (lambda: nn.softmax([1.0, 2.0]), TypeError, "requires ndarray or scalar arguments"),
    (lambda: nn.sigmoid(jnp.arange(3)), TypeError, "logistic"),
    (lambda: nn.glu(jnp.ones(3)), ValueError, "divisible by 2"),
    (lambda: nn.standardize(jnp.ones(3), algorithm="x"), ValueError, "Unknown algorithm"),
    (lambda: nn.dot_product_attention(*[jnp.ones((1, 2, 4, 8))] * 2, jnp.ones((1, 2, 2, 8))),
     ValueError, "value shape should be"),
    (lambda: nn.dot_product_attention(*[jnp.ones((1, 2, 4, 8))] * 3, implementation="x"),
     ValueError, "Unsupported implementation"),
    (lambda: nn.initializers.glorot_normal()(calque.random.key(0), (3,)), ValueError,
     "Must be at least 2D"),
    (lambda: nn.initializers.variance_scaling(1, "x", "normal")(calque.random.key(0), (3, 2)),
     ValueError, "invalid mode"),
    (lambda: nn.initializers.orthogonal()(calque.random.key(0), (3,)), ValueError, "2D shape"),
    (lambda: nn.initializers.delta_orthogonal()(calque.random.key(0), (3, 5, 4)), ValueError,
     "fan_in")])
def test_errors(call: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize("jit, chosen", by_each(range(7), 0.3))
def test_initializers_scale(jit: Any, chosen: list[int]) -> None:
    """Sample moments of 40,000 draws: the standard error of a variance is sqrt(2 / n) = 0.7 %."""
    key, shape = calque.random.key(0), (100, 400)
    i = nn.initializers
    every = {i.normal(0.5): 0.25, i.uniform(2.0): 4 / 12, i.he_uniform(): 2 / 100,
             i.lecun_normal(): 1 / 100, i.glorot_normal(): 2 / 500, i.glorot_uniform(): 2 / 500,
             i.variance_scaling(2.0, "fan_geo_avg", "normal"): 2 / 200}
    wanted = dict(list(every.items())[k] for k in chosen)
    got = jit(lambda: [f(key, shape) for f in wanted])()
    for variance, out in zip(wanted.values(), got):
        np.testing.assert_allclose(np.var(np.asarray(out, np.float64)), variance, rtol=0.04)
    np.testing.assert_array_equal(i.constant(2)(key, (2,)), [2, 2])
    assert i.zeros(key, (2,), int).dtype == np.int32 and float(i.ones(key, ())) == 1


@both_ways
def test_orthogonal_initializers(jit: Any) -> None:
    shapes = ((2, 3, 4), (2, 5))
    *made, kernel = jit(lambda key: [
        *[nn.initializers.orthogonal(2.0)(key, shape) for shape in shapes],
        nn.initializers.delta_orthogonal()(key, (3, 3, 4, 5))])(calque.random.key(0))
    for shape, q in zip(shapes, made):
        q = np.asarray(q, np.float64).reshape(-1, shape[-1]) / 2
        small = q.T @ q if q.shape[0] >= q.shape[1] else q @ q.T
        np.testing.assert_allclose(small, np.eye(len(small)), atol=2e-6)  # eps times the size
    kernel = np.asarray(kernel, np.float64)
    np.testing.assert_allclose(kernel[1, 1] @ kernel[1, 1].T, np.eye(4), atol=2e-6)
    assert np.count_nonzero(kernel) == 20


def test_attention_to_a_cache_in_a_loop() -> None:
    """Tokens one after another see one key more each: one kernel, beside each by itself."""
    rng = np.random.default_rng(3)
    q, k, v = (rng.normal(size=s).astype(np.float32) for s in (
        (1, 1, 2, 16), (1, 64, 2, 16), (1, 64, 2, 16)))

    def f(q: Any) -> Any:
        return calque.lax.scan(lambda c, i: (calque.nn.dot_product_attention(
            c, k, v, key_value_seq_lengths=jnp.array([1]) + i), None), q, jnp.arange(40))[0]

    plan = calque.jit(f).lower(q).plan()
    assert not any("host" in r.family for r in plan.regions)
    want = q.astype(float)
    for i in range(40):
        scores = np.einsum("btnh,bsnh->bnts", want, k[:, :i + 1]) / 4
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        want = np.einsum("bnts,bsnh->btnh", weights, v[:, :i + 1])
    # (each step takes means: its rounding is not carried on)
    np.testing.assert_allclose(calque.jit(f)(q), want, rtol=1e-5, atol=1e-6)
