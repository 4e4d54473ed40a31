"""buffer_callback: what a function of the host writes into the memory of a result is the result."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque.experimental.buffer_callback import Buffer, ExecutionStage, buffer_callback

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def described(*arrays: Any) -> Any:
    made = [calque.ShapeDtypeStruct(a.shape, a.dtype) for a in arrays]
    return made[0] if len(made) == 1 else made


def add(context: Any, out: Any, x: Any, y: Any) -> None:
    made = np.asarray(out)
    made[...] = np.asarray(x)
    made[...] += np.asarray(y)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "float16", "bfloat16", "float32",
                                   "complex64"])
@pytest.mark.parametrize("run", [lambda f: f, calque.jit])
def test_what_is_written_is_the_result(run: Any, dtype: str) -> None:
    data = np.asarray(jnp.asarray(X).astype(dtype))

    def copied(context: Any, out: Any, x: Any) -> None:
        assert context.stage is ExecutionStage.EXECUTE
        assert isinstance(x, Buffer) and (x.shape, x.dtype, x.ndim) == ((3, 4), data.dtype, 2)
        assert not x.writeable and out.writeable and not np.asarray(x).flags.writeable
        assert out.unsafe_raw_buffer_pointer() == np.asarray(out).ctypes.data
        if dtype not in ("bool", "bfloat16"):
            np.testing.assert_array_equal(np.from_dlpack(x), data)
        with pytest.raises(calque.errors.JaxRuntimeError, match="XLA FFI GPU context is not avail"):
            _ = context.stream
        np.asarray(out)[...] = x

    made = run(buffer_callback(copied, described(data)))(data)
    assert made.dtype == data.dtype
    np.testing.assert_array_equal(np.asarray(made), data)


@pytest.mark.parametrize("method", ["sequential", "sequential_unrolled", "expand_dims",
                                    "broadcast_all"])
def test_under_vmap(method: str) -> None:
    f = buffer_callback(add, described(X[0]), vmap_method=method)
    np.testing.assert_array_equal(calque.vmap(f)(X, 2 * X), 3 * X)
    np.testing.assert_array_equal(calque.jit(calque.vmap(f, (1, None)))(X.T, X[1]), X + X[1])


def test_trees_aliases_and_effects() -> None:
    def swapped(context: Any, out: Any, tree: Any, *, scale: Any) -> None:
        np.asarray(out["a"])[...] = scale * np.asarray(tree["b"])
        np.asarray(out["b"])[...] = tree["a"]

    kinds = {"a": described(X[0]), "b": described(X)}
    found = calque.jit(lambda t, s: buffer_callback(swapped, kinds)(t, scale=s))(
        {"a": X, "b": X[0]}, 2.0)
    np.testing.assert_array_equal(found["a"], 2 * X[0])
    np.testing.assert_array_equal(found["b"], X)

    def in_place(context: Any, out: Any, x: Any) -> None:
        assert np.asarray(x).ctypes.data == np.asarray(out).ctypes.data
        np.asarray(out)[0] += 1

    given = jnp.asarray(X)
    made = buffer_callback(in_place, described(X), input_output_aliases={0: 0})(given)
    np.testing.assert_array_equal(made[0], X[0] + 1)
    np.testing.assert_array_equal(made[1:], X[1:])
    np.testing.assert_array_equal(given, X)  # (the argument stays)

    calls = []
    f = buffer_callback(lambda *_: calls.append(1), described(X[0, 0]), has_side_effect=True)
    calque.block_until_ready(calque.jit(lambda: (f(), 1)[1])())
    calque.effects_barrier()
    assert calls == [1]


def test_errors() -> None:
    for aliases, text in (({1: 0}, r"mapping '1:0' with input index 1 outside the range \[0, 1\)"),
                          ({0: 1}, r"mapping '0:1' with output index 1 outside the range \[0, 1\)"),
                          ({0: 0}, "'0:0' referring to an input with abstract value f32.3,4.")):
        with pytest.raises(ValueError, match=text):
            buffer_callback(add, described(X[0]), input_output_aliases=aliases)(X)
    with pytest.raises(ValueError, match="do not support JVP"):
        calque.grad(lambda v: buffer_callback(add, described(X))(v, v).sum())(X)
    with pytest.raises(TypeError, match="result_shape_dtypes must hold objects with shape and dty"):
        buffer_callback(add, 3)
