"""calque.quantize and QuantizedArray: bytes of the gguf package, products against float64,
transformations, artifacts, errors."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.blocks import numbers, random_blocks, rounded

import calque
import calque.numpy as jnp
from calque import aot, lax
from calque.primitives import quantized as prims

MADE = ("q8_0", "q4_0", "q4_1")
KINDS = (*MADE, "q4_k")


def made(kind: str, n: int, blocks: int, seed: int = 0) -> tuple[Any, Any]:
    """(a matrix (n, k) whose rows are blocks, its numbers)."""
    memory = random_blocks(kind, (n, blocks), seed)
    return calque.QuantizedArray(jnp.asarray(memory), kind), numbers(memory, kind)


def normal(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def close(got: Any, want: Any, size: Any = None) -> None:
    """Within some tens of roundings of float32 of the largest."""
    assert got.dtype == np.float32
    assert got.shape == want.shape
    scale = np.abs(want).max() if size is None else size
    np.testing.assert_allclose(np.asarray(got), want, rtol=0, atol=4e-6 * max(scale, 1e-30))


# ---- making them
@pytest.mark.parametrize("kind", MADE)
def test_bytes_are_those_of_the_gguf_package(kind: str) -> None:
    gguf = pytest.importorskip("gguf")
    x = normal(40, 128)
    x[3], x[4, :32] = 0, 7.5
    x[5, :32] = np.arange(32) - 15.5  # ties
    x[6] *= 1e-6  # subnormal scales
    want = gguf.quants.quantize(x, gguf.GGMLQuantizationType[kind.upper()])
    along = calque.quantize(x, kind, axis=1)
    np.testing.assert_array_equal(np.asarray(along.blocks), want)
    turned = calque.quantize(x.T, kind)
    assert turned.shape == (128, 40) and along.shape == (40, 128)
    np.testing.assert_array_equal(np.asarray(turned.blocks), want)


@pytest.mark.parametrize(("kind", "most"), [
    ("q8_0", 0.5 / 127 + 2**-11), ("q4_0", 1 / 8), ("q4_1", 1 / 15)])
def test_numbers_are_near(kind: str, most: float) -> None:
    """Half a step of the scale, which float16 rounds by 2**-11; q4_0 has one step less above 0."""
    x = normal(64, 3)
    got = np.asarray(calque.quantize(x, kind))
    span = np.abs(x).reshape(2, 32, 3).max(1, keepdims=True)
    assert (np.abs(got - x).reshape(2, 32, 3) <= 1.01 * most * span).all()


def test_rules_choose_by_names() -> None:
    tree = {"layers": [{"w": normal(64, 8), "b": normal(8)}, {"w": normal(64, 8)}],
            "embedding": normal(32, 8), "count": 3}
    got = calque.quantize(tree, {r"\[1\]": None, "'w'": "q4_0"})
    assert isinstance(got["layers"][0]["w"], calque.QuantizedArray)
    assert got["layers"][1]["w"] is tree["layers"][1]["w"] and got["count"] == 3
    assert got["embedding"] is tree["embedding"]
    every = calque.quantize(tree)
    assert every["embedding"].kind == "q8_0" and every["layers"][0]["b"] is tree["layers"][0]["b"]
    assert calque.quantize(every)["embedding"] is every["embedding"]
    assert calque.quantize(tree, axis=1)["embedding"] is tree["embedding"]  # 8 is no multiple of 32


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_other_floats(dtype: str) -> None:
    x = normal(32, 4).astype(jnp.dtype(dtype))
    got = calque.quantize(x)
    np.testing.assert_array_equal(np.asarray(got.blocks), np.asarray(
        calque.quantize(x.astype(np.float32)).blocks))


def test_what_cannot_be_made_says_why() -> None:
    for give, rules, words in (
            (normal(33, 4), {"": "q8_0"}, "no multiple of 32"),
            (normal(32), {"": "q8_0"}, "no matrix of floats"),
            (np.ones((32, 2), np.int32), {"": "q8_0"}, "no matrix of floats"),
            (3.0, {"": "q8_0"}, "no array of numbers"),
            (normal(32, 4), "q4_k", "kind is 'q4_k'"), (normal(32, 4), {"x": "q5"}, "kind is 'q5'"),
            (np.full((32, 2), np.nan, np.float32), "q8_0", "not finite"),
            (np.full((32, 2), 1e8, np.float32), "q8_0", "beyond float16")):
        with pytest.raises(ValueError, match=words) as error:
            calque.quantize(give, rules)
        assert "  Fix: " in str(error.value)
    with pytest.raises(ValueError, match="axis is 2"):
        calque.quantize(normal(32, 4), axis=2)
    for blocks, kind, error in ((np.zeros((2, 33), np.uint8), "q8_0", TypeError),
                                (np.zeros((2, 34), np.int8), "q8_0", TypeError),
                                (np.zeros(34, np.uint8), "q8_0", TypeError),
                                (np.zeros((2, 34), np.uint8), "q9", ValueError)):
        with pytest.raises(error):
            calque.QuantizedArray(blocks, kind)


# ---- products
@pytest.mark.parametrize("kind", KINDS)
def test_products(kind: str) -> None:
    q, wide = made(kind, 35, 3)
    size = float(np.abs(wide).sum(1).max())
    for rows in ((), (1,), (2,), (5,), (2, 3), (16,), (17,), (40,), (0,)):
        x = normal(*rows, wide.shape[1])
        want = x.astype("f8") @ wide.T
        for got in (jnp.asarray(x) @ q.T, x @ q.T, calque.jit(lambda x, q: x @ q.T)(x, q)):
            close(got, want, size)
    v, many = normal(wide.shape[1]), normal(wide.shape[1], 3)
    close(q @ v, wide @ v, size)
    close(q @ many, wide @ many, size)
    y = normal(2, 35)
    close(y @ q, y @ wide, size)
    close(q.T @ y.T, wide.T @ y.T, size)
    close(q.dequantize(), wide)
    close(q.T.dequantize(), wide.T)
    close(q @ calque.QuantizedArray(q.blocks, kind).T, wide @ wide.T, size * np.abs(wide).max())


@pytest.mark.parametrize("kind", KINDS)
def test_few_rows_are_rounded_for_products_of_integers(kind: str) -> None:
    q, wide = made(kind, 35, 3)
    small = calque.QuantizedArray(q.blocks, kind, activations="int8")
    assert "activations='int8'" in repr(small.T) and small.T.T.activations == "int8"
    size = float(np.abs(wide).sum(1).max())
    for rows in ((), (1,), (5,), (2, 3), (16,), (17,), (0,)):
        x = normal(*rows, wide.shape[1])
        near = x.astype("f8") if rows == (17,) else rounded(x)
        for got in (jnp.asarray(x) @ small.T, calque.jit(lambda x, q: x @ q.T)(x, small)):
            close(got, near @ wide.T, size)
    x = normal(3, wide.shape[1])
    close(small @ x.T, wide @ rounded(x).T, size)
    close(calque.vmap(lambda x: x @ small.T)(x), rounded(x) @ wide.T, size)
    out, push = calque.jvp(lambda x: x @ small.T, (x,), (x,))  # rounding has the derivative 1
    close(out, rounded(x) @ wide.T, size)
    close(push, x @ wide.T, size)
    aval = calque.core.ShapedArray
    p = prims.quantized_dot_p.program(aval(x.shape, np.dtype("f4")), aval(
        small.blocks.shape, np.dtype("u1")), kind=kind, activations="int8")
    close(calque.core.eval_jaxpr(p, p.consts, x, small.blocks)[0], rounded(x) @ wide.T, size)


def test_activations_are_one_of_two() -> None:
    tree = calque.quantize({"w": normal(64, 8)}, "q4_0", activations="int8")
    assert tree["w"].activations == "int8"
    assert calque.quantize(normal(64, 8)).activations == "float32"
    leaves, structure = calque.tree.flatten(tree)
    assert calque.tree.unflatten(structure, leaves)["w"].activations == "int8"
    for act in (lambda: calque.quantize(normal(64, 8), activations="int4"),
                lambda: calque.QuantizedArray(tree["w"].blocks, "q4_0", activations="bfloat16")):
        with pytest.raises(ValueError, match="give one of float32, int8"):
            act()


def test_integers_and_halves_are_multiplied_as_float32() -> None:
    q, wide = made("q8_0", 4, 2)
    for x in (np.arange(64), np.arange(64) % 2 == 0, jnp.arange(64).astype(jnp.bfloat16)):
        close(x @ q.T, np.asarray(x).astype("f8") @ wide.T, 64 * np.abs(wide).sum())
    with pytest.raises(TypeError, match="complex64"):
        np.ones(64, np.complex64) @ q.T
    with pytest.raises(TypeError, match=r"\(3,\) and \(64, 4\)"):
        np.ones(3, np.float32) @ q.T
    with pytest.raises(TypeError, match="incompatible shapes"):
        q @ np.ones(3, np.float32)


@pytest.mark.parametrize("kind", KINDS)
def test_rows(kind: str) -> None:
    q, wide = made(kind, 9, 2)
    indices = np.array([[8, 0], [3, 99]])
    close(q.rows(indices), wide[np.minimum(indices, 8)])
    close(calque.jit(lambda q, i: q.rows(i))(q, 4), wide[4])
    with pytest.raises(ValueError, match="do not lie along rows"):
        q.T.rows(0)


def test_transformations() -> None:
    q, wide = made("q4_1", 6, 2)
    x = normal(3, 64)
    pull = 2 * (x.astype("f8") @ wide.T) @ wide
    close(calque.grad(lambda x: jnp.sum((x @ q.T) ** 2))(x), pull, np.abs(pull).max())
    _, push = calque.jvp(lambda x: x @ q.T, (x,), (x,))
    close(push, x @ wide.T, np.abs(wide).sum(1).max())
    hessian = calque.hessian(lambda x: jnp.sum((x @ q.T) ** 2))(x[0])
    close(hessian, 2 * wide.T @ wide, np.abs(2 * wide.T @ wide).max())
    close(calque.vmap(lambda x: x @ q.T)(x), x @ wide.T, np.abs(wide).sum(1).max())
    close(calque.vmap(lambda x: q @ x, in_axes=1, out_axes=1)(x.T), wide @ x.T,
          np.abs(wide).sum(1).max())
    with pytest.raises(TypeError, match="grad requires real- or complex-valued inputs"):
        calque.grad(lambda q: jnp.sum(x @ q.T))(q)


def test_stacks_in_loops() -> None:
    memory = random_blocks("q8_0", (4, 64, 2))
    wide = numbers(memory, "q8_0")
    stack = calque.QuantizedArray(jnp.asarray(memory), "q8_0")
    assert stack.shape == (4, 64, 64)
    x = normal(64)
    want, size = x.astype("f8"), 1.0
    for w in wide:
        want = np.tanh(want @ w.T / 64)
    got = calque.jit(lambda x, s: lax.scan(lambda c, w: (jnp.tanh(c @ w.T / 64), None), x, s)[0])(
        x, stack)
    close(got, want, size)
    both = calque.vmap(lambda x, w: x @ w.T)(np.stack([x] * 4), stack)
    close(both, np.einsum("k,bnk->bn", x.astype("f8"), wide), np.abs(wide).sum(2).max())
    alone = calque.vmap(lambda w: x @ w.T)(stack)
    close(alone, np.einsum("k,bnk->bn", x.astype("f8"), wide), np.abs(wide).sum(2).max())
    close(x @ calque.QuantizedArray(stack.blocks, "q8_0").T,
          np.einsum("k,bnk->bn", x.astype("f8"), wide), np.abs(wide).sum(2).max())


@pytest.mark.parametrize("kind", KINDS)
def test_the_portable_form_is_the_kernels(kind: str) -> None:
    q, wide = made(kind, 3, 2)
    aval = calque.core.ShapedArray(q.blocks.shape, np.uint8)
    p = prims.dequantize_p.program(aval, kind=kind)
    (got,) = calque.core.eval_jaxpr(p, p.consts, q.blocks)
    close(got, wide)


@pytest.mark.parametrize("target", ["cpu:x86-64-v2", "cpu:x86-64-v3", "cpu"])
def test_artifacts(target: str, tmp_path: Any) -> None:
    q, wide = made("q4_0", 20, 4)
    x = normal(2, 128)
    for weights in (None, True):
        aot.compile(lambda x: x @ q.T, "f32[2,128]", targets=[target], name="f",
                    parameters=weights).save(tmp_path / "f.vmfb")
        (got,) = aot.load(tmp_path / "f.vmfb").f(x)
        close(got.numpy(), x @ wide.T, np.abs(wide).sum(1).max())


# ---- halves
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_float32_times_a_matrix_of_halves(dtype: str) -> None:
    """Widened as it is read, whichever way the conversion and the transposition are written."""
    w = jnp.asarray(normal(300, 512)).astype(dtype)
    wide = np.asarray(w.astype(jnp.float32)).astype("f8")
    for rows in (1, 2, 5, 16, 17, 33):
        x = normal(rows, 512)
        want = x.astype("f8") @ wide.T
        for f in (lambda x, w: x @ w.T.astype(jnp.float32),
                  lambda x, w: x @ w.astype(jnp.float32).T,
                  lambda x, w: jnp.einsum("mk,nk->mn", x, w.astype(jnp.float32))):
            close(calque.jit(f)(x, w), want, np.abs(wide).sum(1).max())
    special = w.at[0, 0].set(jnp.inf).at[1, 3].set(jnp.nan)
    got = np.asarray(calque.jit(lambda x, w: x @ w.T.astype(jnp.float32))(normal(3, 512), special))
    assert np.isinf(got[:, 0]).all() and np.isnan(got[:, 1]).all() and np.isfinite(got[:, 2:]).all()
