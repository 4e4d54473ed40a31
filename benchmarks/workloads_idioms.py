"""Workloads of suite.py: what people write every day, on arrays of some million numbers (see
workloads)."""
from __future__ import annotations

from typing import Any

import numpy as np
from workloads import Made, normal, uniform, workload


@workload
def one_row_set(j: Any, more: int) -> Made:
    return lambda x, i, v: x.at[i].set(v), (normal(1000 + more, 1000), np.int32(7), normal(1000))


@workload
def interior_times_two(j: Any, more: int) -> Made:
    return lambda x: x.at[1:-1, 1:-1].multiply(2.0), (normal(1000 + more, 1000),)


@workload
def argmax_of_all(j: Any, more: int) -> Made:
    return lambda x: j.np.argmax(x), (normal(1000 + more, 1000),)


@workload
def logsumexp_of_a_vector(j: Any, more: int) -> Made:
    return lambda x: j.nn.logsumexp(x), (normal(1_000_000 + 1000 * more),)


@workload
def variance_of_a_prime_length(j: Any, more: int) -> Made:
    return lambda x: x.var(), (normal(999_983 + 20 * more),)  # (more: 1,000,003, prime, too)


@workload
def total_variation(j: Any, more: int) -> Made:
    def f(x: Any) -> Any:
        return j.np.abs(x[1:] - x[:-1]).sum() + j.np.abs(x[:, 1:] - x[:, :-1]).sum()
    return f, (normal(1000 + more, 1000),)


@workload
def angles_wrapped(j: Any, more: int) -> Made:
    return lambda x: (x + np.pi) % (2 * np.pi) - np.pi, (normal(1_000_000 + more) * 10,)


@workload
def derivatives_stacked(j: Any, more: int) -> Made:
    def f(x: Any, y: Any, z: Any) -> Any:
        return j.np.stack([10 * (y - x), x * (28 - z) - y, x * y - 2.6 * z])
    return f, tuple(normal(1000 + more, 1000, seed=k) for k in range(3))


@workload
def haar_step(j: Any, more: int) -> Made:
    def f(x: Any) -> Any:
        a, b = x[:, ::2], x[:, 1::2]
        return j.np.concatenate([a + b, a - b], 1)
    return f, (uniform(1000 + more, 1000),)


@workload
def embedding_rows_added(j: Any, more: int) -> Made:
    ids = np.random.default_rng(0).integers(0, 4096, 2048).astype(np.int32)
    return lambda g, i: j.np.zeros((4096, 768)).at[i].add(g), (
        normal(2048 + more, 768), np.resize(ids, 2048 + more))


@workload
def range_and_mean_of_rows(j: Any, more: int) -> Made:
    return lambda x: (x.max(1), x.min(1), x.mean(1)), (normal(1000 + more, 1000),)


@workload
def solve_50(j: Any, more: int) -> Made:
    """Less work than a second thread is worth."""
    return lambda a, b: j.np.linalg.solve(a, b), (normal(50 + more, 50 + more), normal(50 + more))
