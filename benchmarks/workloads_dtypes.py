"""Workloads of suite.py on integers, complex numbers and halves (see workloads)."""
from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from workloads import Made, normal, uniform, whole, workload


def _complex(*shape: int, seed: int = 0) -> Any:
    return (normal(*shape, seed=seed) + 1j * normal(*shape, seed=seed + 1)).astype(np.complex64)


@workload
def matmul_int32_97(j: Any, more: int) -> Made:
    return lambda x, y: x @ y, (whole(100, 97 + more, 97), whole(100, 97, 97))


@workload
def matmul_int8_128x256x128(j: Any, more: int) -> Made:
    """Bytes whose products are added up in int32."""
    return lambda x, y: j.lax.dot(x, y, preferred_element_type=np.int32), (
        whole(127, 128 + more, 256).astype(np.int8), whole(127, 256, 128).astype(np.int8))


@workload
def matmul_int8_512(j: Any, more: int) -> Made:
    return lambda x, y: j.lax.dot(x, y, preferred_element_type=np.int32), (
        whole(127, 512 + more, 512).astype(np.int8), whole(127, 512, 512).astype(np.int8))


@workload
def matvec_complex_1000(j: Any, more: int) -> Made:
    return lambda a, v: a @ v, (_complex(1000 + more, 1000), _complex(1000))


@workload
def pixels_by_a_vector(j: Any, more: int) -> Made:
    """Rows of bytes, converted where they are multiplied."""
    return lambda w, v: w.astype(j.np.float32) @ v, (
        whole(256, 4000 + more, 768).astype(np.uint8), normal(768))


@workload
def roots_of_a_polynomial(j: Any, more: int) -> Made:
    """30 steps of Durand and Kerner's method: products of complex numbers in a loop."""
    def f(c: Any, z: Any) -> Any:
        def step(_: Any, z: Any) -> Any:
            apart = z[:, None] - z + j.np.eye(z.shape[0])
            return z - j.np.polyval(c, z) / j.np.prod(apart, 1)
        return j.lax.fori_loop(0, 30, step, z)
    n = 8 + more
    return f, (np.concatenate([np.ones(1, np.complex64), _complex(n)]),
               ((0.4 + 0.9j) ** np.arange(n)).astype(np.complex64))


@workload
def largest_of_halves_1m(j: Any, more: int) -> Made:
    return lambda x: (x.max(), x.min()), (normal(1000 + more, 1000, dtype=np.float16),)


@workload
def exponential_of_a_matrix(j: Any, more: int) -> Made:
    return lambda a: j.slinalg.expm(a), (uniform(50 + more, 50 + more) / 50,)


@workload
def layer_norm_and_gelu_bfloat16(j: Any, more: int) -> Made:
    def f(x: Any, scale: Any, bias: Any) -> Any:
        mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return j.nn.gelu((x - mean) * j.lax.rsqrt(variance + 1e-5) * scale + bias)
    return f, tuple(x.astype(ml_dtypes.bfloat16) for x in (
        normal(2048 + more, 768), normal(768, seed=1), normal(768, seed=2)))
