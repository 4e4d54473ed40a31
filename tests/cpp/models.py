"""The functions whose artifacts the C++ tests load (fixture.py compiles them)."""
from __future__ import annotations

from typing import Any

import numpy as np

import calque
import calque.numpy as jnp
from calque import aot, ffi, lax

WEIGHTS = calque.device_put(np.arange(64 * 64, dtype=np.float32).reshape(64, 64) / 4096)


def add(x: Any, y: Any) -> Any:
    return x + y


def step(x: Any, w: Any) -> Any:
    """Large enough to be queued."""
    return jnp.tanh(x @ w)


def matmul(x: Any, y: Any) -> Any:
    return x @ y


def types(tree: dict[str, Any]) -> dict[str, Any]:
    """Every element type, there and back."""
    return {k: jnp.logical_not(v) if v.dtype == bool else v + v for k, v in tree.items()}


def bits(tree: dict[str, Any]) -> dict[str, Any]:
    """The 8-bit floats move only."""
    return {k: jnp.flip(v, 0) for k, v in tree.items()}


def mixed(x: Any, unused: Any, empty: Any, s: Any) -> Any:
    """An argument returned as it is, one that is not used, an empty one, one result twice."""
    y = x * s
    return y, x, empty, y


def update(state: Any, x: Any) -> Any:
    return state + x


def huge(x: Any) -> Any:
    return jnp.broadcast_to(x, (2**46,)) + 1


def slow(x: Any) -> Any:
    """Long enough that a caller sees it pending."""
    return lax.fori_loop(0, 40, lambda _, y: jnp.tanh(y @ x), x)


def wide(x: Any) -> Any:
    """A result of 1 MiB for little work, but enough to be queued."""
    return jnp.exp(jnp.sin(x)) * 2 + x


def between(x: Any) -> Any:
    """A result of 32 KiB by way of 4 MiB."""
    return (x @ x.T) @ x


def boom(x: Any) -> Any:
    """Needs more memory than there is, and finds out when it runs."""
    return x + jnp.sort(jnp.broadcast_to(x[0, :4, None], (4, 2**38)), axis=1)[0, 2**37]


def weighted(x: Any) -> Any:
    """WEIGHTS are kept in an archive beside the artifact."""
    return x @ WEIGHTS


ffi.register_ffi_target("scale", ffi.Kernel("""
void scale(const float *x, float *y, long n, double by) {
  for (long i = 0; i < n; ++i) y[i] = by * x[i];
}""", "scale", scalars=lambda ins, outs, by: (outs[0].size, by)))
ffi.register_ffi_target("scale", ffi.Kernel("""#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) readonly buffer X { float x[]; };
layout(set = 0, binding = 1) buffer Y { float y[]; };
layout(push_constant) uniform P { uint n; float by; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < n) y[i] = by * x[i]; }
""", "main", scalars=lambda ins, outs, by: (outs[0].size, by),
    grid=lambda ins, outs, by: -(-outs[0].size // 64)), platform="vulkan")


def kernel(x: Any) -> Any:
    """Operations of the user's, in C and GLSL, between others."""
    return ffi.ffi_call("scale", x)(x + 1, by=2.5) - 1


def counted(x: Any) -> tuple[Any, Any]:
    """x times its number of rows, and that number."""
    return x * x.shape[0], jnp.full(x.shape[:1], x.shape[0], "int32")


def halves(x: Any, y: Any) -> tuple[Any, Any]:
    """The sum of x's halves and y, and its rows' sums; sizes are known at the call."""
    n = y.shape[0]
    total = x[:n] + x[n:] + y
    return total, total.sum(1)


class Trainer(aot.Module):
    """A state of several leaves, with a constant and a tree of results."""

    constants = ("scale",)

    def __init__(self) -> None:
        self.params = {"b": jnp.zeros(3), "w": jnp.ones((2, 3))}
        self.count = jnp.zeros((), jnp.int32)
        self.history = jnp.zeros((2, 1 << 20))  # large: a copy of it would be seen
        self.scale = jnp.arange(3.0)

    @aot.export("f32[4,2]", "f32")
    def step(self, x: Any, rate: Any) -> Any:
        y = (x @ self.params["w"] + self.params["b"]) * self.scale
        self.params = {"b": self.params["b"] + jnp.sum(y, 0), "w": self.params["w"] - rate}
        self.history = lax.dynamic_update_slice(
            self.history, jnp.sum(y)[None, None], (0, self.count))
        self.count = self.count + 1
        return {"loss": jnp.sum(y), "y": y}

    @aot.export()
    def reset(self) -> None:
        self.count = jnp.zeros((), jnp.int32)


class Pair(aot.Module):
    """Leaves that come to be the same array, or an argument's or a result's, before they change in
    place."""

    def __init__(self) -> None:
        self.a, self.b = jnp.arange(5000.0), 2 * jnp.arange(5000.0)

    @aot.export()
    def swap(self) -> None:
        self.a, self.b = self.b, self.a

    @aot.export()
    def same(self) -> None:
        self.b = self.a

    @aot.export()
    def both(self) -> None:
        self.a = self.b = self.a + 1

    @aot.export("f32[5000]")
    def take(self, x: Any) -> Any:
        self.a = x
        return x

    @aot.export()
    def give(self) -> Any:
        return self.a

    @aot.export()
    def step(self) -> None:
        self.a = lax.dynamic_update_slice(self.a, jnp.full(3, 7.0), (5,))
        self.b = self.b * 2
