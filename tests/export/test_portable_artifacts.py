"""MLIR's modules as portable artifacts and back: read by us and run, beside jit."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import export, lax, random
from calque.core.evaluate import replay
from calque.export import bytecode, read
from calque.export.errors import UnsupportedOperationError
from calque.extend import mlir

F = np.float32
FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "elementwise": (lambda x: jnp.sin(x) * 2, np.ones(3, F)),
    "scan": (lambda x: lax.scan(lambda c, y: (c + y, c * y), x[0], x), np.ones((4, 3), F)),
    "a composite": (lambda x: jnp.linalg.svd(x, compute_uv=False), np.eye(4, dtype=F)),
    "sort": (jnp.sort, F([3, 1, 2])), "convolution": (lambda x: jnp.convolve(x, x), np.ones(5, F)),
    "gather and scatter": (lambda x: x[jnp.array([0, 2, 1])].at[0].set(5.0), np.ones(5, F)),
    "branches": (lambda x: lax.cond(x.sum() > 0, jnp.cos, jnp.sin, x), np.ones(5, F)),
    "halves": (lambda x: x.astype(jnp.bfloat16) * 2, np.ones(5, F)),
    "complex": (lambda x: jnp.fft.fft(x) * 1j, np.ones(8, np.complex64)),
    "bits": (lambda k: random.normal(random.wrap_key_data(k), (3,)), np.zeros(2, np.uint32)),
    "products": (lambda x: x @ x.T, np.ones((3, 4), F)),
    "constants": (lambda x: x + jnp.array([1, 2, 3]), np.ones(3, F)),
    "windows": (lambda x: lax.reduce_window(x, -np.inf, lax.max, (2,), (1,), "VALID"),
                np.arange(5, dtype=F))}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_written_and_read_again(name: str) -> None:
    f, x = FUNCTIONS[name]
    made, want = export.export(calque.jit(f))(x), calque.tree.leaves(calque.jit(f)(x))
    for module in (mlir.deserialize_portable_artifact(made.mlir_module_serialized),
                   made.mlir_module()):
        blob = mlir.serialize_portable_artifact(module, "1.9.0")
        program = read.program_of(bytecode.read_module(blob), [
            calque.core.ShapedArray(x.shape, x.dtype)], "main", [])
        got = calque.jit(lambda *a, p=program: replay(p, *a))(x)
        for g, w in zip(got, want, strict=True):
            assert g.dtype == w.dtype
            # (constants are written out, in another order of the same operations)
            np.testing.assert_allclose(np.asarray(g).astype(complex),
                                       np.asarray(w).astype(complex), rtol=1e-6, atol=1e-6)


def test_functions_that_main_calls_are_written_out() -> None:
    text = """module @two {
      func.func public @main(%a: tensor<2xf32>) -> tensor<2xf32> {
        %0 = func.call @twice(%a) : (tensor<2xf32>) -> tensor<2xf32>
        return %0 : tensor<2xf32>
      }
      func.func private @twice(%a: tensor<2xf32>) -> tensor<2xf32> {
        %0 = stablehlo.add %a, %a : tensor<2xf32>
        return %0 : tensor<2xf32>
      }
    }"""
    module = bytecode.read_module(mlir.serialize_portable_artifact(text, "1.4.0"))
    assert module.name == "two" and [op.name for op in module.functions[0].body.ops] == [
        "add", "return"]


@pytest.mark.parametrize("module, target, kind, message", [
    ("no", "1.4.0", ValueError, "this is no module of StableHLO"),
    ("module {}", "1.4.0", ValueError, "no function main"),
    ("module {}", "1.0.0", ValueError, "artifacts are of StableHLO 1.4.0, which '1.0.0' does not"),
    ("module {}", "new", ValueError, "which 'new' does not read"),
    ("""module { func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
          %0 = math.sin %a : tensor<2xf32>
          return %0 : tensor<2xf32> } }""", "1.4.0", UnsupportedOperationError,
     "the module makes math.sin")])
def test_what_is_refused(module: str, target: str, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        mlir.serialize_portable_artifact(module, target)
