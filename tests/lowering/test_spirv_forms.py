"""What IREE makes no SPIR-V of at sizes that the samples do not have: multiples of 16, and those
that threads take one by one.  Only compiled here; test_vulkan.py runs such programs.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support import oracle
from support.harness import Case, Failure, compare, expected, function, outputs, words
from support.samples import ROWS, Row, Sample

import calque
import calque.numpy as jnp
from calque import aot, lax
from calque.core.primitive import registry
from calque.lowering.compiler.compile import CompileError, compile_module
from calque.lowering.target.targets import parse_target

INTS = [np.dtype(f"{kind}{size}") for kind in "iu" for size in (1, 2, 4, 8)]


def compiles(f: Callable[..., Any], target: str, *shapes: tuple[tuple[int, ...], Any]) -> None:
    with calque.enable_x64(True):
        aot.compile(f, *[calque.ShapeDtypeStruct(s, d) for s, d in shapes], targets=[target],
                    name="main")


def test_products_of_bfloat16_compile() -> None:
    compiles(lambda x, y: x @ y, "vulkan:ampere", *[((16, 16), jnp.bfloat16)] * 2)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["ampere", "ada", "rdna3", "turing", "lavapipe", "adreno"])
def test_products_of_halves_compile(target: str) -> None:
    """Batched, summed in float32, with a vector, and convolutions, too."""
    def convolve(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(x, w, (1, 1), "SAME",
                                        dimension_numbers=("NHWC", "HWIO", "NHWC"))
    for dtype in (jnp.bfloat16, jnp.float16):
        for n in (16, 32, 64, 100, 128, 1024):
            compiles(lambda x, y: (x @ y, x.T @ y, x @ y[0]), f"vulkan:{target}",
                     *[((n, n), dtype)] * 2)
        for out in (jnp.float32, dtype):
            compiles(lambda x, y, out=out: jnp.matmul(x, y, preferred_element_type=out),
                     f"vulkan:{target}", *[((2, 64, 64), dtype)] * 2)
        compiles(convolve, f"vulkan:{target}", ((2, 16, 16, 32), dtype), ((3, 3, 32, 64), dtype))


def test_divisions_of_integers_compile() -> None:
    """1000 numbers of 8 threads: vectors of one."""
    compiles(lambda *xs: [f(x, x + 1) for x in xs for f in (lax.div, lax.rem)],
             "vulkan:lavapipe", *[((1000,), d) for d in INTS])


@pytest.mark.parametrize("fold", [jnp.sum, jnp.max, jnp.all])
def test_reductions_of_triangles_compile(fold: Any) -> None:
    """Found as `cholesky [loop]` on NVIDIA's Vulkan."""
    compiles(lambda x: (fold(jnp.tril(x)), fold(jnp.tril(x), 1)), "vulkan:ampere",
             ((64, 64), np.float32))


@pytest.mark.slow
@pytest.mark.parametrize("n", [40, 64, 100])
@pytest.mark.parametrize("target", ["ampere", "rdna3"])
def test_factors_compile(n: int, target: str) -> None:
    compiles(jnp.linalg.cholesky, f"vulkan:{target}", ((n, n), np.float32))


def plain(text: str, target: str) -> None:
    compile_module(text, parse_target(target), careful=True)


@pytest.mark.parametrize("target", ["ampere", "rdna3", "lavapipe"])
def test_iree_still_refuses_products_of_bfloat16(target: str) -> None:
    """emit_dot in lowering/rules/contract.py."""
    text = """func.func @main(%x: tensor<64x64xbf16>, %y: tensor<64x64xbf16>) -> tensor<64x64xf32> {
      %z = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]
        : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xf32>
      return %z : tensor<64x64xf32> }"""
    with pytest.raises(CompileError, match="mma|bitcast"):
        plain(text, f"vulkan:{target}")


def test_iree_still_keeps_indices_in_shared_memory() -> None:
    """emit_reduce in lowering/rules/reduce.py."""
    with pytest.raises(CompileError, match="memref.alloc"):
        plain("""func.func @main(%x: tensor<64x64xf32>) -> tensor<f32> {
          %i = stablehlo.iota dim = 0 : tensor<64x64xi32>
          %j = stablehlo.iota dim = 1 : tensor<64x64xi32>
          %p = stablehlo.compare GE, %i, %j : (tensor<64x64xi32>, tensor<64x64xi32>)
            -> tensor<64x64xi1>
          %c = stablehlo.constant dense<0.0> : tensor<64x64xf32>
          %s = stablehlo.constant dense<0xFF800000> : tensor<f32>
          %y = stablehlo.select %p, %x, %c : tensor<64x64xi1>, tensor<64x64xf32>
          %z = stablehlo.reduce(%y init: %s) applies stablehlo.maximum across dimensions = [0, 1]
            : (tensor<64x64xf32>, tensor<f32>) -> tensor<f32>
          return %z : tensor<f32> }""", "vulkan:ampere")


@pytest.mark.parametrize("op", ["divide", "remainder"])
def test_iree_still_refuses_unsigned_divisions_of_one_number(op: str) -> None:
    """_divided in lowering/math/basic.py."""
    kind = "tensor<1000xui32>"
    with pytest.raises(CompileError, match="bitwidth emulation"):
        plain(f"""func.func @main(%x: {kind}, %y: {kind}) -> {kind} {{
          %z = stablehlo.{op} %x, %y : {kind}
          return %z : {kind} }}""", "vulkan:lavapipe")


def sized(row: Row, n: int) -> Sample:
    """The first sample with operands of n numbers."""
    first = row.samples[0]
    return dataclasses.replace(first, label=f"{n}", operands=tuple(
        dataclasses.replace(o, shape=(n,)) for o in first.operands))


def cases_of(name: str, n: int) -> list[Case]:
    """One for each dtype of a primitive, of n numbers."""
    row = ROWS[name]
    sample, found = sized(row, n), []
    for dtype in row.dtypes:
        params, arrays = sample.parameters(dtype), row.arrays(sample, dtype)
        found.append(Case(f"{name} {dtype}[{n}]", function(row, sample, params),
                          words(row, sample, arrays),
                          lambda outs, row=row, params=params, arrays=arrays: compare(
                              expected(row, params, arrays), row)(outs)))
    return found


ELEMENTWISE = [name for name in ROWS if registry[name].elementwise and all(
    o.values is None for o in ROWS[name].samples[0].operands)]


@pytest.mark.vulkan
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_primitives_of_whole_vectors(name: str, gpu: Any,
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes at which threads take one number and eight; twice the CPU's tolerances, as in
    tests/vulkan_share.py, for drivers reorder."""
    monkeypatch.setattr(oracle, "TOLERANCES", {k: 2 * v for k, v in oracle.TOLERANCES.items()})
    cases = [c for n in (64, 1000) for c in cases_of(name, n)]
    with calque.enable_x64(True):
        outs = outputs(cases, lambda x: calque.device_put(np.array(x), gpu))
        found = [f"{c.name}: {out}" if isinstance(out, Failure) else f"{c.name}: {text}"
                 for c, out in zip(cases, outs)
                 if (isinstance(out, Failure) and not out.startswith("NotImplementedError"))
                 or (text := "" if isinstance(out, Failure) else c.check(out))]
    assert not found
