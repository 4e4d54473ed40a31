"""Arrays of strings: what is placed and read is NumPy's, and nothing else takes them."""
from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque.experimental.colocated_python import colocated_python
from calque.sharding import Mesh, NamedSharding
from calque.sharding import PartitionSpec as P

if not hasattr(getattr(np, "dtypes", None), "StringDType"):
    pytest.skip("NumPy 1 has no arrays of strings", allow_module_level=True)
TEXT = np.dtypes.StringDType()
WORDS = np.array([["abcd", "e"], ["", "longer than fifteen bytes, so not in line"]], TEXT)


def spread() -> NamedSharding:
    return NamedSharding(Mesh(np.array(calque.devices()[:2]).reshape(2, 1), ("x", "y")),
                         P("x", "y"))


@pytest.mark.parametrize("where", [lambda: None, lambda: calque.devices()[1], spread])
@pytest.mark.parametrize("put", [
    calque.device_put, lambda x, where: jnp.asarray(x, device=where),
    lambda x, where: jnp.array(x, TEXT, device=where),
    lambda x, where: calque.device_put(calque.device_put(x), where)])
def test_they_are_numpys(put: Any, where: Any) -> None:
    given = WORDS.copy()
    x = put(given, where())
    given[0, 0] = "written"  # (a copy)
    for y in (x, calque.block_until_ready([x])[0], copy.copy(x), copy.deepcopy(x),
              pickle.loads(pickle.dumps(x)), calque.vmap(lambda v: v)(x)):
        read = np.asarray(y)
        assert read.dtype == TEXT and y.dtype == TEXT and y.shape == (2, 2)
        np.testing.assert_array_equal(read, WORDS)
    assert isinstance(x, calque.Array) and x.is_ready() and x.tolist() == WORDS.tolist()
    assert calque.device_get(x).dtype == TEXT and "'abcd'" in repr(x)
    assert x.committed


def test_devices_have_their_parts() -> None:
    where = spread()
    x = calque.device_put(WORDS, where)
    assert x.sharding == where and x.devices() == set(calque.devices()[:2])
    for shard, row in zip(x.addressable_shards, WORDS, strict=True):
        np.testing.assert_array_equal(np.asarray(shard.data), [row])
        assert shard.data.devices() == {shard.device}
    parts = [s.data for s in x.addressable_shards]
    again = calque.make_array_from_single_device_arrays((2, 2), where, parts)
    np.testing.assert_array_equal(np.asarray(again), WORDS)
    called = calque.make_array_from_callback((2, 2), where, lambda index: WORDS[index])
    np.testing.assert_array_equal(np.asarray(called), WORDS)
    upper = np.vectorize(str.upper, otypes=[TEXT])
    louder = colocated_python(lambda v: calque.device_put(upper(np.asarray(v)), v.sharding))(x)
    np.testing.assert_array_equal(np.asarray(louder), upper(WORDS))


@pytest.mark.parametrize("use", [
    calque.jit(lambda v: v), calque.grad(lambda v: v), lambda v: v + v, lambda v: v == v,
    jnp.sum, lambda v: v[0], lambda v: v.T, lambda v: jnp.stack([v, v]), jnp.sort,
    lambda v: v.astype(jnp.float32), lambda v: jnp.where(True, v, v), lambda v: v.reshape(4),
    lambda v: calque.lax.scan(lambda c, e: (c, e), 0.0, v),
    lambda v: calque.lax.cond(True, lambda e: e, lambda e: e, v),
    lambda v: calque.jit(lambda c: (c, v))(1.0), calque.vmap(lambda e: e[0]),
    lambda v: calque.pure_callback(lambda e: e, jnp.zeros(2), v), lambda v: float(v),
    lambda v: v.unsafe_buffer_pointer(), lambda v: jnp.asarray(v, jnp.int32)])
def test_nothing_is_computed_with_them(use: Any) -> None:
    x = calque.device_put(WORDS)
    with pytest.raises(TypeError, match=r"^Argument '\[\['abcd'[^$]* is not a valid JAX type"):
        use(x)


def test_errors() -> None:
    x = calque.device_put(WORDS)
    with pytest.raises(ValueError, match=r"StringDType\(\) is not a valid dtype for JAX type"):
        calque.vmap(lambda v: v + jnp.arange(2))(x)
    with pytest.raises(TypeError, match=r"dtype bfloat16 from an object with dtype StringDType"):
        jnp.asarray(WORDS, dtype=jnp.bfloat16)
    with pytest.raises(TypeError, match=r"dtype StringDType\(\) from an object with dtype int32"):
        jnp.asarray(np.arange(2, dtype=np.int32), dtype=TEXT)
    with pytest.raises(TypeError, match=r"can only be made from NumPy arrays\. Got: .*list"):
        jnp.asarray(["a"], dtype=TEXT)
    with pytest.raises(TypeError, match=r"^Dtype StringDType\(na_object=None\) is not a valid"):
        calque.device_put(np.array(["a", None], np.dtypes.StringDType(na_object=None)))
    for refused in (calque.jit(lambda v: v), lambda v: jnp.add(v, 1), lambda v: jnp.sort(v)):
        with pytest.raises(TypeError, match="not a valid|not a valid JAX"):
            refused(WORDS)
    with pytest.raises(BufferError, match="no strings"):
        np.from_dlpack(x)
    y = calque.device_put(WORDS, calque.devices()[1])
    y.delete()
    assert y.is_deleted()
    with pytest.raises(RuntimeError, match="^Array has been deleted"):
        np.asarray(y)
