"""Kinds of memory in exported functions, and the refusal of donation that some platforms lack."""
from __future__ import annotations

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import export
from calque.sharding import (
    AbstractMesh,
    NamedSharding,
    PartitionSpec,
    make_single_device_sharding,
)

NOWHERE = AbstractMesh((), ())


def host() -> calque.sharding.Sharding:
    return make_single_device_sharding(calque.devices()[0], memory_kind="pinned_host")


def test_memories_of_arguments_and_results() -> None:
    """The types say them, and bytes keep them; results are labelled so."""
    x = calque.device_put(np.ones((2, 3), np.float32), host())
    assert calque.typeof(x).memory_space is calque.memory.Space.Host
    assert calque.typeof(x).sharding == NamedSharding(NOWHERE, PartitionSpec(None, None))
    assert calque.typeof(np.ones(2)).memory_space is calque.memory.Space.Device
    in_host = NamedSharding(NOWHERE, PartitionSpec(None, None), memory_kind="pinned_host")
    for f, args, near, far in (
            (calque.jit(lambda v: v * 2), (x,), (in_host,), (None,)),
            (calque.jit(lambda: jnp.ones((2, 3)) * 2, out_shardings=host()), (), (), (in_host,))):
        made = export.export(f)(*args)
        for e in (made, export.deserialize(made.serialize())):
            assert [a.memory_space for a in (*e.in_avals, *e.out_avals)] == [
                calque.memory.Space.Host] * (len(args) + 1)
            assert e.in_shardings_jax(NOWHERE) == near and e.out_shardings_jax(NOWHERE) == far
            assert e.nr_devices == 1
            y = e.call(*args)
            np.testing.assert_array_equal(y, np.full((2, 3), 2, np.float32))
            assert y.sharding == host()
            np.testing.assert_array_equal(calque.jit(e.call)(*args), y)
    plain = export.export(calque.jit(lambda v: v))(np.ones(2, np.float32))
    assert plain.out_avals[0].memory_space is calque.memory.Space.Device


def test_donation_for_several_platforms() -> None:
    f = calque.jit(jnp.sin, donate_argnums=0)
    x = np.arange(3, dtype=np.float32)
    made = export.export(f, platforms=("cpu", "tpu"))(x)
    np.testing.assert_allclose(made.call(x), np.sin(x), rtol=1e-6)  # (a unit in the last place)
    with pytest.raises(NotImplementedError, match="all or no lowering platforms should support"):
        export.export(f, platforms=("cpu", "other"))(x)
    export.export(f, platforms=("other", "another"))(x)
    export.export(calque.jit(jnp.sin), platforms=("cpu", "other"))(x)
