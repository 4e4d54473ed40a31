"""LSTM layers over padded sequences, with weights in one vector, as cuDNN lays them.

The vector holds, for each layer and direction, W_ih (4 h, inputs) and W_hh (4 h, h), then for each
b_ih and b_hh (4 h each); of 4 h rows the gates are input, forget, cell, output.  The names are
those of jax.experimental.rnn, whose `lstm` runs on GPUs alone; here both run anywhere, and are the
same.  Start reading at `lstm_ref`.
"""
from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from calque import lax, random
from calque import numpy as jnp
from calque.core.errors import explain

GATES = 4
Weights = Mapping[int, Any]


def _shapes(input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
            ) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """Of each array in the vector: which of W_ih, W_hh, b_ih, b_hh, of which layer and direction,
    and its shape."""
    directions, rows = 1 + bidirectional, GATES * hidden_size
    for k in range(num_layers * directions):
        yield 0, k, (rows, input_size if k < directions else hidden_size * directions)
        yield 1, k, (rows, hidden_size)
    for k in range(num_layers * directions):
        yield 2, k, (rows,)
        yield 3, k, (rows,)


def get_num_params_in_lstm(input_size: int, hidden_size: int, num_layers: int,
                           bidirectional: bool) -> int:
    """How many numbers the weights of an LSTM are.

    Args:
      input_size: numbers of an input.
      hidden_size: numbers of a state.
      num_layers: layers.
      bidirectional: whether each layer reads in both directions.

    Returns:
      An int.

    Raises:
      Nothing.

    Example:
      >>> from calque.experimental import rnn
      >>> rnn.get_num_params_in_lstm(2, 3, 1, False)
      84
    """
    return sum(math.prod(shape) for *_, shape in _shapes(
        input_size, hidden_size, num_layers, bidirectional))


def init_lstm_weight(rng: Any, input_size: int, hidden_size: int, num_layers: int,
                     bidirectional: bool) -> Any:
    """Weights drawn evenly from -1 / sqrt(hidden_size) to 1 / sqrt(hidden_size).

    Args:
      rng: key.
      input_size: numbers of an input.
      hidden_size: numbers of a state.
      num_layers: layers.
      bidirectional: whether each layer reads in both directions.

    Returns:
      float32 vector of get_num_params_in_lstm numbers.

    Raises:
      TypeError: rng is no key.

    Example:
      >>> import calque
      >>> from calque.experimental import rnn
      >>> rnn.init_lstm_weight(calque.random.key(0), 2, 3, 1, False).shape
      (84,)
    """
    bound = math.sqrt(1 / hidden_size)
    count = get_num_params_in_lstm(input_size, hidden_size, num_layers, bidirectional)
    return random.uniform(rng, (count,), jnp.float32, -bound, bound)


def unpack_lstm_weights(weights: Any, input_size: int, hidden_size: int, num_layers: int,
                        bidirectional: bool) -> tuple[dict[int, Any], ...]:
    """The matrices and vectors in a vector of weights.

    Args:
      weights: vector of get_num_params_in_lstm numbers.
      input_size: numbers of an input.
      hidden_size: numbers of a state.
      num_layers: layers.
      bidirectional: whether each layer reads in both directions.

    Returns:
      (W_ih, W_hh, b_ih, b_hh): dicts by layer * directions + direction, of arrays of shapes
      (4 hidden_size, inputs), (4 hidden_size, hidden_size), (4 hidden_size,) and (4 hidden_size,).

    Raises:
      ValueError: the vector has another length.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.experimental import rnn
      >>> W_ih, W_hh, b_ih, b_hh = rnn.unpack_lstm_weights(jnp.zeros(84), 2, 3, 1, False)
      >>> W_ih[0].shape, b_hh[0].shape
      ((12, 2), (12,))
    """
    weights = jnp.asarray(weights)
    wanted = get_num_params_in_lstm(input_size, hidden_size, num_layers, bidirectional)
    if weights.shape != (wanted,):
        raise ValueError(explain(
            f"unpack_lstm_weights: weights of shape {weights.shape} for an LSTM of {wanted}.",
            fix="give a vector of get_num_params_in_lstm numbers."))
    found: tuple[dict[int, Any], ...] = ({}, {}, {}, {})
    start = 0
    for kind, k, shape in _shapes(input_size, hidden_size, num_layers, bidirectional):
        end = start + math.prod(shape)
        found[kind][k] = weights[start:end].reshape(shape)
        start = end
    return found


def swap_lstm_gates(weights: Any, input_size: int, hidden_size: int, num_layers: int,
                    bidirectional: bool) -> Any:
    """Weights whose third and fourth gates (cell and output) have changed places, as another
    library orders them.

    Args:
      weights: vector of get_num_params_in_lstm numbers.
      input_size: numbers of an input.
      hidden_size: numbers of a state.
      num_layers: layers.
      bidirectional: whether each layer reads in both directions.

    Returns:
      A vector of the same length.

    Raises:
      ValueError: the vector has another length.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.experimental import rnn
      >>> rnn.swap_lstm_gates(jnp.arange(16.), 1, 1, 1, False)[:4]
      Array([0., 1., 3., 2.], dtype=float32)
    """
    sizes = input_size, hidden_size, num_layers, bidirectional
    found = unpack_lstm_weights(weights, *sizes)
    pieces = []
    for kind, k, _ in _shapes(*sizes):
        i, f, g, o = jnp.split(found[kind][k], GATES)
        pieces += [i, f, o, g]
    return jnp.concatenate([jnp.ravel(p) for p in pieces])


def lstm(x: Any, h_0: Any, c_0: Any, weights: Any, seq_lengths: Any, input_size: int,
         hidden_size: int, num_layers: int, dropout: float, bidirectional: bool,
         precision: Any = None) -> tuple[Any, Any, Any]:
    """LSTM layers over sequences.

    Args:
      x: (batch, length, input_size) array.
      h_0: (num_layers * directions, batch, hidden_size) array: hidden states at first.
      c_0: the same of the cells.
      weights: vector, as init_lstm_weight gives it.
      seq_lengths: (batch,) integers: how many inputs of each sequence count.
      input_size: numbers of an input.
      hidden_size: numbers of a state.
      num_layers: layers.
      dropout: 0.0; others are not there.
      bidirectional: whether each layer reads in both directions.
      precision: accepted and not used.

    Returns:
      (y, h_n, c_n): outputs (batch, length, directions * hidden_size), zero behind a sequence's
      end, and the last states, of h_0's shape.

    Raises:
      NotImplementedError: dropout is not 0.
      ValueError: shapes do not fit.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> from calque.experimental import rnn
      >>> w = rnn.init_lstm_weight(calque.random.key(0), 2, 3, 1, False)
      >>> state = jnp.zeros((1, 4, 3))
      >>> y, h, c = rnn.lstm(jnp.ones((4, 5, 2)), state, state, w, jnp.array([5, 2, 4, 1]), 2, 3,
      ...                    1, 0.0, False)
      >>> y.shape, h.shape
      ((4, 5, 3), (1, 4, 3))
    """
    w_ih, w_hh, b_ih, b_hh = unpack_lstm_weights(weights, input_size, hidden_size, num_layers,
                                                 bidirectional)
    return lstm_ref(x, h_0, c_0, w_ih, w_hh, b_ih, b_hh, seq_lengths, input_size, hidden_size,
                    num_layers, dropout, bidirectional)


def lstm_ref(x: Any, h_0: Any, c_0: Any, W_ih: Weights, W_hh: Weights,  # noqa: N803
             b_ih: Weights, b_hh: Weights, seq_lengths: Any, input_size: int, hidden_size: int,
             num_layers: int, dropout: float, bidirectional: bool) -> tuple[Any, Any, Any]:
    """`lstm` of weights that are unpacked.

    Args:
      x: (batch, length, input_size) array.
      h_0: (num_layers * directions, batch, hidden_size) array: hidden states at first.
      c_0: the same of the cells.
      W_ih: dict of matrices, as unpack_lstm_weights gives it; W_hh, b_ih, b_hh likewise.
      W_hh: of the states.
      b_ih: of the inputs.
      b_hh: of the states.
      seq_lengths: (batch,) integers: how many inputs of each sequence count.
      input_size: numbers of an input.
      hidden_size: numbers of a state.
      num_layers: layers.
      dropout: 0.0; others are not there.
      bidirectional: whether each layer reads in both directions.

    Returns:
      (y, h_n, c_n), as `lstm` gives them.

    Raises:
      NotImplementedError: dropout is not 0.
      ValueError: shapes do not fit.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.experimental import rnn
      >>> parts = rnn.unpack_lstm_weights(jnp.zeros(84), 2, 3, 1, False)
      >>> y, h, c = rnn.lstm_ref(jnp.ones((4, 5, 2)), jnp.zeros((1, 4, 3)), jnp.zeros((1, 4, 3)),
      ...                        *parts, jnp.full(4, 5), 2, 3, 1, 0.0, False)
      >>> float(y.sum())
      0.0
    """
    if dropout:
        raise NotImplementedError(explain(
            f"lstm: dropout={dropout}: Dropout not supported in LSTM reference.",
            fix="give 0.0, and drop outputs between layers with random.bernoulli."))
    x, h_0, c_0, seq_lengths = map(jnp.asarray, (x, h_0, c_0, seq_lengths))
    directions = 1 + bidirectional
    states = num_layers * directions, *x.shape[:1], hidden_size
    if x.ndim != 3 or x.shape[2] != input_size or {h_0.shape, c_0.shape} != {states} or (
            seq_lengths.shape != x.shape[:1]):
        raise ValueError(explain(
            f"lstm: x {x.shape}, h_0 {h_0.shape}, c_0 {c_0.shape} and seq_lengths "
            f"{seq_lengths.shape} do not fit.",
            fix=f"give x of (batch, length, {input_size}), states of {states} and lengths of "
            "(batch,)."))
    y, ends = jnp.swapaxes(x, 0, 1), []
    for layer in range(num_layers):
        outputs = []
        for d in range(directions):
            k = layer * directions + d
            end, made = _run(y, (h_0[k], c_0[k]), W_ih[k], W_hh[k], b_ih[k] + b_hh[k],
                             seq_lengths, reverse=d == 1)
            ends.append(end)
            outputs.append(made)
        y = jnp.concatenate(outputs, -1)
    h_n, c_n = (jnp.stack(v) for v in zip(*ends))
    return jnp.swapaxes(y, 0, 1), h_n, c_n


def _run(x: Any, state: Any, of_inputs: Any, of_states: Any, bias: Any, lengths: Any, reverse: bool
         ) -> tuple[Any, Any]:
    """A layer in one direction over (length, batch, inputs): the last state, and what comes out."""
    def step(state: Any, given: Any) -> tuple[Any, Any]:
        (h, c), (gates, place) = state, given
        i, f, g, o = jnp.split(gates + h @ of_states.T, GATES, -1)
        cell = lax.logistic(f) * c + lax.logistic(i) * jnp.tanh(g)
        hidden = lax.logistic(o) * jnp.tanh(cell)
        inside = (place < lengths)[:, None]
        return (jnp.where(inside, hidden, h), jnp.where(inside, cell, c)), jnp.where(
            inside, hidden, 0)
    return lax.scan(step, state, (x @ of_inputs.T + bias, jnp.arange(x.shape[0])), reverse=reverse)
