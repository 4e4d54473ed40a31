"""PartitionSpecs with sums, memory kinds and axis types: what is kept, compared, refused."""
from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calque
import calque.numpy as jnp
from calque.errors import JaxRuntimeError, UnexpectedTracerError
from calque.experimental.pjit import pjit
from calque.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, SingleDeviceSharding
from calque.sharding import PartitionSpec as P

_axes = st.sets(st.sampled_from("abcdef"))


@settings(deadline=None, max_examples=100, derandomize=True)
@given(st.lists(st.sampled_from(["a", "b", None, ("c", "d")]), max_size=3), _axes, _axes)
def test_specs_keep_their_sums(partitions: list[object], unreduced: set[str],
                               reduced: set[str]) -> None:
    """Overlapping axes are refused; else a spec is what it was made of, also copied and pickled."""
    flat = {n for p in partitions for n in (p if isinstance(p, tuple) else (p,)) if n}
    if flat & (unreduced | reduced) or unreduced & reduced:
        with pytest.raises(ValueError, match="cannot overlap"):
            P(*partitions, unreduced=unreduced, reduced=reduced)
        return
    spec = P(*partitions, unreduced=unreduced, reduced=reduced)
    for same in (spec, pickle.loads(pickle.dumps(spec)), copy.deepcopy(spec),
                 eval(repr(spec), {"P": P})):
        assert same == spec and hash(same) == hash(spec)
        assert (same.partitions, same.unreduced, same.reduced) == (
            tuple(partitions), unreduced, reduced)
    assert (spec == P(*partitions)) == (not unreduced | reduced)
    assert (spec + P(None)).unreduced == unreduced


def test_specs_that_are_refused() -> None:
    mesh = calque.make_mesh((1, 1), ("x", "y"), (AxisType.Explicit, AxisType.Auto))
    for spec, message in ((P(unreduced={"a"}), "Unreduced axes a is not found in mesh"),
                          (P(unreduced={"y"}), "can only refer to mesh axes that is of type"),
                          (P(reduced={None}), "reduced cannot contain None")):
        with pytest.raises(ValueError, match=message):
            NamedSharding(mesh, spec)
    with pytest.raises(ValueError, match="cannot contain a nested tuple"):
        P(("a", ("b",)))
    with pytest.raises(TypeError, match="Subclassing `jax.P` is prohibited"):
        type("Own", (P,), {})
    kept = calque.device_put(jnp.ones(4), NamedSharding(mesh, P(reduced={"x"})))
    np.testing.assert_array_equal(kept, np.ones(4))


def test_memory_kinds() -> None:
    device = calque.devices()[0]
    kinds = [m.kind for m in device.addressable_memories()]
    assert kinds == ["device", "pinned_host", "unpinned_host"]
    assert device.default_memory() == device.memory("device")
    mesh = calque.make_mesh((1,), ("x",))
    for made in (NamedSharding(mesh, P("x")), SingleDeviceSharding(device)):
        for kind in kinds:
            other = made.with_memory_kind(kind)
            assert other.memory_kind == kind and (other == made) == (kind == "device")
            assert other.is_equivalent_to(made, 1) == (kind == "device")
            assert pickle.loads(pickle.dumps(other)) == other
            assert f"memory_kind={kind}" in repr(other)
            x = calque.device_put(jnp.arange(4.0), other)
            assert x.sharding == other
            np.testing.assert_array_equal(x * 2, np.arange(4.0) * 2)
        with pytest.raises(ValueError, match="Could not find memory addressable"):
            made.with_memory_kind("hbm")
    with pytest.raises(JaxRuntimeError, match="the following memory kinds: device, pin"):
        device.memory("hbm")
    for kind in ("pinned_host", None):
        assert NamedSharding(mesh.abstract_mesh, P(), memory_kind=kind).memory_kind == kind
    with pytest.raises(ValueError, match="Got invalid memory kind"):
        NamedSharding(mesh.abstract_mesh, P(), memory_kind="hbm")


def test_meshes_that_are_refused() -> None:
    for types in (AxisType.Auto, (AxisType.Auto,)):
        with pytest.raises(ValueError, match="Number of axis names should match the"):
            AbstractMesh((1, 1), ("a", "b"), types)
    with pytest.raises(TypeError, match="must be of type `jax.sharding.AxisType`"):
        AbstractMesh((1,), "a", (1,))
    with pytest.raises(ValueError, match="Mesh axis names cannot be None"):
        Mesh([calque.devices()[0]], (None,))


def test_arrays_of_parts_that_are_refused() -> None:
    where = NamedSharding(calque.make_mesh((1,), ("x",)), P("x"))
    x = jnp.arange(4)
    with pytest.raises(ValueError, match="it must match the dtype of the addressable shards"):
        calque.make_array_from_single_device_arrays((4,), where, [x], dtype=jnp.float32)
    with pytest.raises(ValueError, match="`dtype` must be provided via"):
        calque.make_array_from_single_device_arrays((4,), where, [])
    with pytest.raises(ValueError, match="requires a list of concrete arrays"):
        calque.jit(lambda v: calque.make_array_from_single_device_arrays((4,), where, [v]))(x)
    with pytest.raises(UnexpectedTracerError, match="cannot be called within a traced context"):
        calque.jit(lambda v: calque.make_array_from_callback((4,), where, lambda i: v[i]))(x)


def test_new_arrays_are_on_the_mesh_of_set_mesh() -> None:
    """Those that nobody placed, and what comes of them; `with mesh:` is for bare specs only."""
    devices = np.array(calque.devices()[:4])
    for kind in (AxisType.Auto, AxisType.Explicit):
        mesh = Mesh(devices.reshape(2, 2), ("x", "y"), (kind, kind))
        empty = P() if kind is AxisType.Auto else P(None)
        with calque.set_mesh(mesh):
            made = [jnp.zeros(4), jnp.arange(4.0), jnp.array([1.0]), jnp.arange(3.0) + 1,
                    calque.jit(lambda v: v + 1)(np.ones(4, np.float32)),
                    calque.jit(lambda: jnp.ones(2))()]
            for x in made:
                assert x.sharding == NamedSharding(mesh, empty) and x.committed
            placed = calque.device_put(np.arange(4.0, dtype=np.float32), P("x"))
            np.testing.assert_array_equal(placed + jnp.ones(4), np.arange(4.0) + 1)
            assert (placed + jnp.ones(4)).sharding.spec == P("x")
            with pytest.raises(ValueError, match="jit's context mesh with device ids"):
                calque.jit(lambda v: v + 1)(calque.device_put(np.ones(2), calque.devices()[5]))
        with mesh:
            assert not jnp.zeros(4).committed
        assert not jnp.zeros(4).committed
        assert calque.jit(lambda v: v + 1)(made[0]).sharding == made[0].sharding
    with pytest.raises(ValueError, match="contains manual axes"):
        calque.set_mesh(Mesh(devices, ("x",), (AxisType.Manual,)))


def test_scatter_keeps_what_its_windows_cover() -> None:
    """Over Explicit axes, in vmap: values against NumPy, types as the operand's."""
    mesh = calque.make_mesh((2, 2), ("x", "y"))
    with calque.set_mesh(mesh):
        x = calque.device_put(np.zeros((2, 10, 8), np.float32), P("x", None, "y"))
        at = calque.device_put(np.array([2, 3], np.int32), P("x"))
        y = calque.device_put(np.arange(16.0, dtype=np.float32).reshape(2, 8), P("x", "y"))
        for name in ("set", "add", "mul", "min", "max"):
            out = calque.jit(calque.vmap(lambda a, i, b, m=name: getattr(a.at[i], m)(b)))(x, at, y)
            want = np.zeros((2, 10, 8))
            if name in ("set", "add", "max"):
                want[[0, 1], [2, 3]] = np.asarray(y)
            np.testing.assert_array_equal(out, want)
            assert out.sharding.spec == P("x", None, "y")


def test_device_put_gives_away_and_copies() -> None:
    x = jnp.arange(8.0)
    assert calque.device_put(x) is x
    copied = calque.device_put(x, may_alias=False)
    x.delete()
    np.testing.assert_array_equal(copied, np.arange(8.0))
    where = NamedSharding(Mesh(calque.devices()[:4], ("x",)), P("x"))
    a, b = jnp.ones(4), jnp.ones(4)
    given, kept = calque.device_put((a, b), where, donate=(True, False))
    assert a.is_deleted() and not b.is_deleted() and given.sharding == kept.sharding == where
    np.testing.assert_array_equal(given, np.ones(4))
    with pytest.raises(ValueError, match="may_alias and donate cannot be True"):
        calque.device_put(b, donate=True, may_alias=True)


def test_places_that_are_said_twice() -> None:
    device, where = calque.devices()[0], NamedSharding(calque.make_mesh((1,), ("x",)), P())
    with pytest.raises(ValueError, match="can't specify both a device and a backend"):
        calque.jit(lambda v: v, device=device, backend="cpu")
    with pytest.raises(ValueError, match="then out_shardings should not be specified"):
        calque.jit(lambda v: v, device=device, out_shardings=where)
    with pytest.raises(ValueError, match="Unconstrained dims are not allowed"):
        calque.jit(lambda v: v, in_shardings=P(P.UNCONSTRAINED))
    with pytest.raises(ValueError, match="when no mesh axis_types are `Auto`"):
        where.update(spec=P(P.UNCONSTRAINED))
    with pytest.raises(ValueError, match="only valid for values of rank at least 2"):
        calque.ShapeDtypeStruct((4,), "float32", sharding=where.update(spec=P(None, "x")))


def test_lowered_for_other_platforms() -> None:
    traced = calque.jit(jnp.sin).trace(1.0)
    with pytest.raises(ValueError, match=r"lowered for platforms \('tpu',\)"):
        traced.lower(lowering_platforms=("tpu",)).compile()
    assert traced.lower(lowering_platforms=("cpu", "tpu")).compile()(0.0) == 0


@pytest.mark.parametrize("dtype", ["float32", "int32", "bool", "complex64"])
def test_gathered_arrays_that_vary_no_more(dtype: str) -> None:
    """all_gather(to='invarying') against the whole array; its derivative is each device's part."""
    mesh = Mesh(np.array(calque.devices()[:4]).reshape(2, 2), ("x", "y"))
    x = (np.arange(16).reshape(8, 2) % 3).astype(dtype)
    for axes, spec in (("x", P("x")), (("x", "y"), P(("x", "y")))):
        for tiled in (True, False):
            f = calque.shard_map(lambda v, a=axes, t=tiled: calque.lax.all_gather(
                v, a, tiled=t, to="invarying"), mesh=mesh, in_specs=spec, out_specs=P())
            parts = 2 if axes == "x" else 4
            want = x if tiled else x.reshape(parts, 8 // parts, 2)
            np.testing.assert_array_equal(calque.jit(f)(x), want)
            if dtype == "float32":
                weights = np.linspace(1, 2, 16, dtype=dtype).reshape(want.shape)
                got = calque.grad(lambda v, g=f, w=weights: (g(v) * w).sum())(jnp.asarray(x))
                np.testing.assert_allclose(got, weights.reshape(8, 2))
    with pytest.raises(ValueError, match="require replication"):
        calque.shard_map(lambda v: calque.lax.all_gather(v, "x", to="reduced"), mesh=mesh,
                         in_specs=P("x"), out_specs=P())(x)


def test_objects_whose_specs_are_none() -> None:
    class Odd:
        def __hash__(self) -> int:
            raise RuntimeError("no hash")

    mesh = Mesh(calque.devices()[:2], ("i",))
    x = jnp.arange(4.0)
    for thing, spec in ((Odd(), None), ({"a": Odd()}, {"a": None}), ((Odd(), 3), (None, None))):
        seen: list[object] = []
        y = calque.shard_map(lambda o, v, s=seen: s.append(o) or v * 2, mesh=mesh,
                             in_specs=(spec, P("i")), out_specs=P("i"))(thing, x)
        np.testing.assert_array_equal(y, np.arange(4.0) * 2)
        assert seen[0] is thing
    with pytest.raises(ValueError, match="divisible"):
        calque.shard_map(lambda *_: None, mesh=mesh, in_specs=(P("i"), (None, None)),
                         out_specs=None)(jnp.arange(3.0), (Odd(), Odd()))


def test_pjit_places_results_on_the_entered_mesh() -> None:
    mesh = Mesh(np.array(calque.devices()).reshape(4, 2), ("x", "y"))
    x = np.arange(16.0, dtype=np.float32).reshape(8, 2)
    with mesh:
        for f, spec in ((pjit(lambda v: v + 1), P()),
                        (pjit(lambda v: v + 1, P("x"), P("y")), P("y")),
                        (pjit(lambda v: v + 1, in_shardings=P("x")), P("x")),
                        (pjit(lambda v: v + 1, in_shardings=P("x"), out_shardings=None), P())):
            out = f(x)
            np.testing.assert_array_equal(out, x + 1)
            assert out.sharding == NamedSharding(mesh, spec)
        assert not calque.jit(lambda v: v + 1)(x).committed
        with pytest.raises(ValueError, match="Mesh context manager should not be used"):
            pjit(lambda v: v, device=calque.devices()[1])
        with pytest.raises(ValueError, match="jit's context mesh with device ids"):
            pjit(lambda v: v)(calque.device_put(x, calque.devices()[1]))
    assert not pjit(lambda v: v + 1)(x).committed


def test_arrays_like_others_are_beside_them() -> None:
    device, mesh = calque.devices()[1], calque.make_mesh((4,), ("x",))
    x = calque.device_put(jnp.ones((8, 2)), device)
    for y in (jnp.zeros_like(x), calque.lax.full_like(x, 1, shape=(5,)), calque.lax.full_like(
            x, 1, shape=())):
        assert y.sharding == SingleDeviceSharding(device)
    spread = calque.device_put(jnp.ones((8, 2)), NamedSharding(mesh, P("x")))
    assert calque.lax.full_like(spread, 2).sharding.is_equivalent_to(spread.sharding, 2)
    assert calque.lax.full_like(spread, 2, shape=(3,)).shape == (3,)
    said = calque.ShapeDtypeStruct((8,), "float32", sharding=NamedSharding(mesh, P("x")))
    assert jnp.zeros_like(said).sharding == said.sharding
    said = calque.ShapeDtypeStruct((8,), "float32", sharding=NamedSharding(
        mesh.abstract_mesh, P("x")))
    with calque.set_mesh(mesh):
        assert jnp.ones_like(said).sharding == NamedSharding(mesh, P("x"))


def test_a_mesh_is_a_decorator() -> None:
    mesh = Mesh(calque.devices()[:1], ("x",))
    seen = mesh(lambda n: (n, calque.sharding.get_mesh()))(3)
    assert seen == (3, mesh) and calque.sharding.get_mesh().empty


def test_results_on_the_device_that_out_shardings_names() -> None:
    first, other = (SingleDeviceSharding(calque.devices()[k]) for k in (0, 1))
    x = jnp.arange(4.0)
    for f in (lambda v: v, lambda v: v * 3):
        out = calque.jit(f, out_shardings=other)(x)
        assert out.committed and out.sharding == other
        np.testing.assert_array_equal(out, f(np.arange(4.0)))
        for said in (other, (other, None)):  # what was put elsewhere stays there
            with pytest.raises(ValueError, match="explicit output sharding with device ids"):
                calque.jit(lambda v, f=f, said=said: (f(v), v + 1) if isinstance(said, tuple)
                           else f(v), out_shardings=said)(calque.device_put(x, first))


def test_axes_that_are_not_mapped() -> None:
    mesh = Mesh(np.array(calque.devices()[:4]).reshape(2, 2), ("x", "y"))
    x = jnp.arange(8.0)

    def run(names: object) -> object:
        return calque.shard_map(lambda v: calque.lax.pcast(v, names, to="varying"), mesh=mesh,
                                in_specs=P(), out_specs=P("x"), axis_names={"x"})(x)

    assert run("x").shape == (16,)  # type: ignore[attr-defined]
    with pytest.raises(NameError, match="Found an unbound axis name: z"):
        run("z")
    with pytest.raises(TypeError, match="must be a tuple or a str"):
        run({"x"})
    with pytest.raises(ValueError, match="pvary should be called under jax.shard_map"):
        calque.lax.pcast(x, "x", to="varying")
