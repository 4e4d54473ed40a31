"""Layouts, memories, compute_on, topologies and compiled functions as bytes, under JAX's names."""
from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque.ad_checkpoint import Offloadable, Recompute, Saveable, checkpoint_name
from calque.experimental import serialize_executable as se
from calque.experimental import topologies
from calque.experimental.compute_on import compute_on, compute_on2
from calque.experimental.layout import Format, Layout, with_layout_constraint


def test_formats_of_arrays() -> None:
    x = jnp.arange(6.0).reshape(2, 3)
    assert x.format == Format(Layout((0, 1), ()), x.sharding)
    assert pickle.loads(pickle.dumps(x.format.layout)) == x.format.layout
    compiled = calque.jit(lambda v: v.T).lower(x).compile()
    assert compiled.input_formats == ((x.format,), {})
    assert compiled.output_formats.layout.major_to_minor == (0, 1)
    same = calque.device_put(x, Format(Layout((0, 1)), x.sharding))
    np.testing.assert_array_equal(same, x)
    for options in ({"in_shardings": Format(Layout.AUTO)}, {"out_shardings": x.format}):
        np.testing.assert_array_equal(calque.jit(lambda v: v + 1, **options)(x), x + 1)
    assert with_layout_constraint(x, Layout((0, 1))) is x


def test_what_is_no_layout() -> None:
    x = jnp.ones((2, 3))
    for wrong, kind, text in (
            (lambda: Format(Layout((0, 1))), ValueError, "Sharding has to be concrete when layout"),
            (lambda: Format("a"), TypeError, "Invalid value received for the layout argument"),
            (lambda: calque.device_put(x, Format(Layout((0, 1, 2)), x.sharding)), ValueError,
             "Length of major_to_minor and the rank of the value should match"),
            (lambda: calque.device_put(x, Format(Layout.AUTO, x.sharding)), ValueError,
             "should be concrete"),
            (lambda: with_layout_constraint(x, 1), ValueError, "must be of type `Layout`")):
        with pytest.raises(kind, match=text):  # type: ignore[call-overload]
            wrong()


def test_spaces_and_processors() -> None:
    x = jnp.arange(3.0)
    host = calque.device_put(x, calque.memory.Space.Host)
    assert host.sharding.memory_kind == "pinned_host"
    assert calque.device_put(host, calque.memory.Space.Device).sharding.memory_kind == "device"
    np.testing.assert_array_equal(calque.jit(
        lambda v: calque.device_put(v, calque.memory.Space.Host) * 2)(x), np.arange(3.0) * 2)
    with compute_on("device_host"):
        np.testing.assert_array_equal(x + 1, np.arange(3.0) + 1)
    f = compute_on2(lambda v: v * 3, compute_type="gpu_stream:1", out_memory_spaces=None)
    np.testing.assert_array_equal(calque.jit(f)(x), np.arange(3.0) * 3)
    with pytest.raises(ValueError, match="Invalid compute type foo"), compute_on("foo"):
        pass


def test_policies_may_say_what_is_moved() -> None:
    """Derivatives are those without a policy, whatever it says."""
    def f(v: Any) -> Any:
        return jnp.sin(checkpoint_name(jnp.sin(v), "a")).sum()

    x = jnp.arange(3.0)
    for said in (Offloadable("device", "pinned_host"), Recompute, Saveable):
        g = calque.checkpoint(f, policy=lambda prim, *_, s=said, **p: s)
        np.testing.assert_allclose(calque.grad(g)(x), calque.grad(f)(x), rtol=1e-6)


def test_compiled_functions_as_bytes() -> None:
    scale = np.array([2.0, 3.0], np.float32)
    f = calque.jit(lambda tree, *, y: {"sum": tree[0] * scale + y, "y": (y,)})
    args, named = ([np.ones(2, np.float32)],), {"y": np.float32(1)}
    made = se.serialize(f.lower(*args, **named).compile())
    run = se.deserialize_and_load(*pickle.loads(pickle.dumps(made)))
    got, want = run(*args, **named), f(*args, **named)
    assert calque.tree.structure(got) == calque.tree.structure(want)
    calque.tree.map(np.testing.assert_array_equal, got, want)
    with pytest.raises(TypeError, match="does not match the input pytree"):
        run(1.0)
    with pytest.raises(TypeError, match="Argument types differ"):
        run([np.ones(3, np.float32)], y=np.float32(1))
    ref = calque.new_ref(0.0)
    with pytest.raises(ValueError, match="serialize with a closed-over mutable array ref"):
        se.serialize(calque.jit(lambda v: ref.__setitem__(..., v)).lower(1.0).compile())


def test_topologies() -> None:
    here = topologies.get_attached_topology()
    assert here.devices == calque.devices()
    shape = (len(here.devices), 1)
    assert topologies.make_mesh(here, shape, ("x", "y")).axis_sizes == shape
    with pytest.raises(NotImplementedError, match="XLA.s name of a machine"):
        topologies.get_topology_desc("v5e:2x2", "tpu")


def test_formats_stand_where_shardings_do() -> None:
    x = jnp.arange(6.0).reshape(2, 3)
    s = calque.sharding.NamedSharding(calque.sharding.Mesh(calque.devices()[:1], ("x",)),
                                      calque.sharding.PartitionSpec("x", None))
    given = Format(Layout((0, 1)), s)
    assert calque.ShapeDtypeStruct(x.shape, x.dtype, sharding=given).format.sharding == s
    made = calque.make_array_from_callback(x.shape, given, lambda i: np.asarray(x)[i])
    held = calque.jit(lambda v: calque.lax.with_sharding_constraint(v, given))(x)
    for y in (made, held):
        assert y.sharding.is_equivalent_to(s, 2)
        np.testing.assert_array_equal(y, x)
