"""dtype=None, and dtypes of 64 bits where memory is read: what JAX 0.10.2 does with them."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax


@pytest.mark.parametrize("dtype", ["bool", "int8", "int32", "float16", "float32", "complex64"])
def test_a_view_of_no_dtype_is_the_array(dtype: str) -> None:
    x = np.array([[0, 1, 2]], dtype)
    for found in (jnp.asarray(x).view(), jnp.asarray(x).view(None),
                  calque.jit(lambda x: x.view())(x)):
        assert found.dtype == x.dtype
        np.testing.assert_array_equal(found, x)


def test_memory_is_read_as_it_lies() -> None:
    wide = np.arange(3, dtype=np.int64)
    found = jnp.frombuffer(wide.tobytes(), np.int64)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, wide)
    for dtype in ((), (None,), (float,)):
        np.testing.assert_array_equal(jnp.frombuffer(np.arange(3.0).tobytes(), *dtype), wide)
    np.testing.assert_array_equal(jnp.frombuffer(b"abc", jnp.uint8, 2, 1), [98, 99])
    assert jnp.frombuffer(b"\x80\x3f", jnp.bfloat16)[0] == 1


@pytest.mark.parametrize("call", [
    lambda: lax.convert_element_type(np.ones(2), None),
    lambda: lax.bitcast_convert_type(np.ones(2, np.float32), None),
    lambda: lax.iota(None, 3), lambda: lax.broadcasted_iota(None, (3,), 0)])
def test_functions_that_need_one_say_so(call: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match=r"the dtype is None[\s\S]*Fix:"):
        call()
