"""LSTM layers of calque.experimental.rnn, beside NumPy, step by step."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque.experimental import rnn


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def one_sequence(x: Any, h: Any, c: Any, parts: Any, k: int, turned: bool) -> Any:
    w_ih, w_hh, b_ih, b_hh = (np.asarray(p[k], np.float64) for p in parts)
    y = np.zeros((len(x), len(h)))
    for t in reversed(range(len(x))) if turned else range(len(x)):
        i, f, g, o = np.split(w_ih @ x[t] + b_ih + w_hh @ h + b_hh, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = y[t] = sigmoid(o) * np.tanh(c)
    return y, h, c


@pytest.mark.parametrize("layers, both", [(1, False), (2, True), (2, False)])
def test_lstm(layers: int, both: bool) -> None:
    rng, sizes = np.random.default_rng(2), (2, 3, layers, both)
    w = rnn.init_lstm_weight(calque.random.key(1), *sizes)
    assert w.shape == (rnn.get_num_params_in_lstm(*sizes),) and abs(w).max() <= 3 ** -0.5
    parts = rnn.unpack_lstm_weights(w, *sizes)
    x, lengths = rng.standard_normal((3, 5, 2)).astype(np.float32), np.array([5, 2, 4])
    h, c = rng.standard_normal((2, layers * (1 + both), 3, 3)).astype(np.float32)
    y, h_n, c_n = calque.jit(lambda *a: rnn.lstm(*a, *sizes[:3], 0.0, both))(x, h, c, w, lengths)
    for b, n in enumerate(lengths):
        now = x[b, :n].astype(np.float64)
        for layer in range(layers):
            made = []
            for d in range(1 + both):
                k = layer * (1 + both) + d
                out, h_end, c_end = one_sequence(now, h[k, b], c[k, b], parts, k, d == 1)
                made.append(out)
                np.testing.assert_allclose(h_n[k, b], h_end, atol=1e-6)
                np.testing.assert_allclose(c_n[k, b], c_end, atol=1e-6)
            now = np.concatenate(made, -1)
        np.testing.assert_allclose(y[b, :n], now, atol=1e-6)
        assert not np.asarray(y[b, n:]).any()
    slope = calque.grad(lambda w: rnn.lstm(x, h, c, w, lengths, *sizes[:3], 0.0, both)[0].sum())(w)
    some = jnp.zeros_like(w).at[7].set(1e-2)
    ends = [rnn.lstm(x, h, c, w + s, lengths, *sizes[:3], 0.0, both)[0].sum()
            for s in (some, -some)]
    np.testing.assert_allclose((ends[0] - ends[1]) / 2e-2, slope[7], atol=2e-3)


def test_gates_change_places_and_back() -> None:
    w = jnp.arange(84.)
    turned = rnn.swap_lstm_gates(w, 2, 3, 1, False)
    assert turned[12:24:3].tolist() == [18, 21, 12, 15] and turned[60:72:3].tolist() == [
        60, 63, 69, 66]
    assert (rnn.swap_lstm_gates(turned, 2, 3, 1, False) == w).all()


def test_what_does_not_fit() -> None:
    state = jnp.zeros((1, 4, 3))
    with pytest.raises(ValueError, match="weights of shape"):
        rnn.unpack_lstm_weights(jnp.zeros(80), 2, 3, 1, False)
    with pytest.raises(ValueError, match="do not fit"):
        rnn.lstm(jnp.ones((5, 5, 2)), state, state, jnp.zeros(84), jnp.ones(5, int), 2, 3, 1, 0.0,
                 False)
    with pytest.raises(NotImplementedError, match="Dropout"):
        rnn.lstm(jnp.ones((4, 5, 2)), state, state, jnp.zeros(84), jnp.ones(4, int), 2, 3, 1, 0.5,
                 False)
