"""Kernels that people write with Pallas, and the same in NumPy."""
from __future__ import annotations

from typing import Any

import numpy as np

import calque
import calque.numpy as jnp
from calque import lax
from calque.experimental import pallas as pl

S, B = calque.ShapeDtypeStruct, pl.BlockSpec


def matmul(x: Any, y: Any, n: int = 4) -> Any:
    def kernel(x_ref: Any, y_ref: Any, o_ref: Any) -> None:
        @pl.when(pl.program_id(2) == 0)
        def start() -> None:
            o_ref[...] = jnp.zeros_like(o_ref)
        o_ref[...] += x_ref[...] @ y_ref[...]

    (rows, inner), columns = x.shape, y.shape[1]
    return pl.pallas_call(
        kernel, S((rows, columns), x.dtype),
        grid=(pl.cdiv(rows, n), pl.cdiv(columns, n), inner // n),
        in_specs=[B((n, n), lambda i, j, k: (i, k)), B((n, n), lambda i, j, k: (k, j))],
        out_specs=B((n, n), lambda i, j, k: (i, j)))(x, y)


def matmul_relu(x: Any, y: Any, n: int = 4) -> Any:
    """Accumulated in f32 scratch."""
    def kernel(x_ref: Any, y_ref: Any, o_ref: Any, acc_ref: Any) -> None:
        @pl.when(pl.program_id(2) == 0)
        def start() -> None:
            acc_ref[...] = jnp.zeros_like(acc_ref)

        acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def end() -> None:
            o_ref[...] = jnp.maximum(acc_ref[...], 0).astype(o_ref.dtype)

    (rows, inner), columns = x.shape, y.shape[1]
    return pl.pallas_call(
        kernel, S((rows, columns), x.dtype), grid=(rows // n, columns // n, inner // n),
        in_specs=[B((n, n), lambda i, j, k: (i, k)), B((n, n), lambda i, j, k: (k, j))],
        out_specs=B((n, n), lambda i, j, k: (i, j)), scratch_shapes=[pl.ANY((n, n), "float32")])(
            x, y)


def softmax(x: Any, n: int = 4) -> Any:
    def kernel(x_ref: Any, o_ref: Any) -> None:
        e = jnp.exp(x_ref[...] - x_ref[...].max(-1, keepdims=True))
        o_ref[...] = e / e.sum(-1, keepdims=True)

    block = B((n, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(kernel, S(x.shape, x.dtype), grid=pl.cdiv(len(x), n),
                          in_specs=[block], out_specs=block)(x)


def flash(q: Any, k: Any, v: Any, n: int = 4, causal: bool = False, backwards: bool = False
          ) -> Any:
    """Attention with a running maximum; two heads of q share one of k and v."""
    heads, length, width = q.shape
    share = heads // len(k)

    def kernel(q_ref: Any, k_ref: Any, v_ref: Any, o_ref: Any) -> None:
        i = pl.program_id(1)

        def body(j: Any, carry: Any) -> Any:
            acc, top, total = carry
            s = (q_ref[...] @ k_ref[pl.ds(j * n, n), :].T) * width ** -0.5
            if causal:
                at = jnp.arange(n)
                s = jnp.where((i * n + at)[:, None] >= (j * n + at)[None, :], s, -jnp.inf)
            new = jnp.maximum(top, s.max(-1))
            p, scale = jnp.exp(s - new[:, None]), jnp.exp(top - new)
            return (acc * scale[:, None] + p @ v_ref[pl.ds(j * n, n), :], new,
                    total * scale + p.sum(-1))

        first = (jnp.zeros((n, width), jnp.float32), jnp.full((n,), -jnp.inf, jnp.float32),
                 jnp.zeros((n,), jnp.float32))
        if backwards:
            acc, _, total = lax.scan(lambda c, _: ((c[0] - 1, body(c[0] - 1, c[1])), None),
                                     (length // n, first), length=length // n, reverse=True)[0][1]
        else:
            acc, _, total = lax.fori_loop(0, i + 1 if causal else length // n, body, first)
        o_ref[...] = acc / total[:, None]

    mine = B((None, n, width), lambda h, i: (h, i, 0))
    whole = B((None, length, width), lambda h, i: (h // share, 0, 0))
    return pl.pallas_call(kernel, S(q.shape, q.dtype), grid=(heads, length // n),
                          in_specs=[mine, whole, whole], out_specs=mine)(q, k, v)


def flash_of_grid(q: Any, k: Any, v: Any, n: int = 4) -> Any:
    """The same with the loop as an axis of the grid and its state in scratch."""
    heads, length, width = q.shape

    def kernel(q_ref: Any, k_ref: Any, v_ref: Any, o_ref: Any, acc_ref: Any, top_ref: Any,
               total_ref: Any) -> None:
        j = pl.program_id(2)

        @pl.when(j == 0)
        def start() -> None:
            acc_ref[...] = jnp.zeros_like(acc_ref)
            top_ref[...] = jnp.full_like(top_ref, -jnp.inf)
            total_ref[...] = jnp.zeros_like(total_ref)

        s = (q_ref[...] @ k_ref[...].T) * width ** -0.5
        top = top_ref[...]
        new = jnp.maximum(top, s.max(-1))
        p, scale = jnp.exp(s - new[:, None]), jnp.exp(top - new)
        acc_ref[...] = acc_ref[...] * scale[:, None] + p @ v_ref[...]
        top_ref[...] = new
        total_ref[...] = total_ref[...] * scale + p.sum(-1)

        @pl.when(j == pl.num_programs(2) - 1)
        def end() -> None:
            o_ref[...] = acc_ref[...] / total_ref[...][:, None]

    mine = B((None, n, width), lambda h, i, j: (h, i, 0))
    other = B((None, n, width), lambda h, i, j: (h, j, 0))
    return pl.pallas_call(
        kernel, S(q.shape, q.dtype), grid=(heads, length // n, length // n),
        in_specs=[mine, other, other], out_specs=mine,
        scratch_shapes=[pl.ANY((n, width), "float32"), *[pl.ANY((n,), "float32")] * 2])(q, k, v)


def running_sum(x: Any, n: int = 4) -> Any:
    """The sum so far is handed from cell to cell."""
    def kernel(x_ref: Any, o_ref: Any, sum_ref: Any) -> None:
        @pl.when(pl.program_id(0) == 0)
        def start() -> None:
            sum_ref[0] = jnp.float32(0)
        o_ref[...] = sum_ref[0] + jnp.cumsum(x_ref[...])
        sum_ref[0] += x_ref[...].sum()

    block = B((n,), lambda i: (i,))
    return pl.pallas_call(kernel, S(x.shape, x.dtype), grid=pl.cdiv(len(x), n), in_specs=[block],
                          out_specs=block, scratch_shapes=[pl.ANY((1,), "float32")])(x)


def picked(table: Any, rows: Any) -> Any:
    """Rows of a table at computed positions."""
    def kernel(rows_ref: Any, table_ref: Any, o_ref: Any) -> None:
        o_ref[...] = table_ref[pl.ds(rows_ref[pl.program_id(0)], 1), :]

    return pl.pallas_call(kernel, S((len(rows), table.shape[1]), table.dtype), grid=len(rows),
                          out_specs=B((1, table.shape[1]), lambda i: (i, 0)))(rows, table)


def counted(x: Any, most: int) -> Any:
    """How often each number comes: written at computed places, the block seen in every cell."""
    def kernel(x_ref: Any, o_ref: Any) -> None:
        @pl.when(pl.program_id(0) == 0)
        def start() -> None:
            o_ref[...] = jnp.zeros_like(o_ref)
        o_ref[x_ref[0]] += 1

    return pl.pallas_call(kernel, S((most,), "int32"), grid=len(x),
                          in_specs=[B((1,), lambda i: i)])(x)


def smoothed(x: Any) -> Any:
    """Windows that overlap, of an array with an edge around it."""
    def kernel(x_ref: Any, o_ref: Any) -> None:
        w = jnp.nan_to_num(x_ref[...])
        o_ref[...] = w[:-2] + w[1:-1] + w[2:]

    return pl.pallas_call(
        kernel, S(x.shape, x.dtype), grid=pl.cdiv(len(x), 3),
        in_specs=[B((pl.Element(5, (1, 4)),), lambda i: i * 3)],
        out_specs=B((3,), lambda i: i))(x)


# ---- in NumPy
def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool = False) -> np.ndarray:
    q, k, v = (np.asarray(a, np.float64) for a in (q, k, v))
    k, v = (np.repeat(a, len(q) // len(a), 0) for a in (k, v))
    s = np.einsum("hqd,hkd->hqk", q, k) * q.shape[-1] ** -0.5
    if causal:
        s = np.where(np.tril(np.ones(s.shape[1:], bool)), s, -np.inf)
    e = np.exp(s - s.max(-1, keepdims=True))
    return np.einsum("hqk,hkd->hqd", e / e.sum(-1, keepdims=True), v)


def normalized(x: np.ndarray) -> np.ndarray:
    e = np.exp(np.asarray(x, np.float64) - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)
