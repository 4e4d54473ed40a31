"""Devices, shardings and arrays: labels, parts, pieces, pickling, errors."""
from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from meshes import mesh_of

import calque
import calque.numpy as jnp
from calque import sharding as sd
from calque.sharding import AxisType, Mesh, NamedSharding
from calque.sharding import PartitionSpec as P

X = np.arange(8, dtype=np.float32)


def four(*spec: Any) -> NamedSharding:
    return NamedSharding(mesh_of(x=4), P(*spec))


def test_devices() -> None:
    assert [d.id for d in calque.devices()] == list(range(8)) == [
        d.id for d in calque.local_devices(backend="cpu")]
    assert calque.device_count() == calque.local_device_count("cpu") == 8
    with pytest.raises(RuntimeError, match="already in use"):
        calque.config.update("jax_num_cpu_devices", 3)
    calque.config.update("jax_num_cpu_devices", 8)


@pytest.mark.parametrize("flags, count, warns", [
    ("--xla_force_host_platform_device_count=3", 3, False),
    ("--xla_cpu_multi_thread_eigen=false --xla_force_host_platform_device_count=2", 2, True)])
def test_xla_flags(flags: str, count: int, warns: bool) -> None:
    made = subprocess.run(
        [sys.executable, "-c", "import calque, calque.numpy as jnp; jnp.ones(2); "
         "print(calque.device_count(), len(calque.devices('cpu')))"],
        env={**os.environ, "XLA_FLAGS": flags}, capture_output=True, text=True, check=True)
    assert made.stdout.split() == [str(count)] * 2
    assert made.stderr.count("mean nothing here") == warns


def test_committed_arrays_and_what_follows_them() -> None:
    third = calque.devices()[2]
    x = calque.device_put(X, third)
    assert x.committed and x.devices() == {third} and x.device == third
    for y in (x + 1, calque.jit(lambda v: v * 2)(x), jnp.sin(x), x[1:3], x.sum(),
              calque.grad(lambda v: (v * v).sum())(x), x + jnp.asarray(X)):
        assert y.committed and y.devices() == {third}
    free = jnp.asarray(X)
    assert not free.committed and free.devices() == {calque.devices()[0]}
    assert not (free + 1).committed and not calque.device_put(X).committed
    with pytest.raises(ValueError, match=r"(?s)argument x of .*ids \[2\].*argument y of .*\[1\]"):
        x + calque.device_put(X, calque.devices()[1])
    with pytest.raises(ValueError, match=r"(?s)argument v of f.*argument t\['a'\] of f.*Fix"):
        def f(v: Any, t: Any) -> Any:
            return v + t["a"]
        calque.jit(f)(x, {"a": calque.device_put(X, calque.devices()[1])})
    with calque.default_device(calque.devices()[3]):
        assert jnp.ones(2).devices() == {calque.devices()[3]}


def test_parts() -> None:
    x = calque.device_put(X.reshape(4, 2), NamedSharding(mesh_of(x=2, y=2), P(None, "y")))
    assert [s.replica_id for s in x.addressable_shards] == [0, 0, 1, 1]
    assert x.addressable_shards[1].index == (slice(None), slice(1, 2))
    assert repr(calque.device_put(X, four("x")).addressable_shards[1]) == (
        "Shard(device=CpuDevice(id=1), index=(slice(2, 4, None),), replica_id=0, data=[2. 3.])")
    np.testing.assert_array_equal(x.addressable_data(3), X.reshape(4, 2)[:, 1:])
    assert x.addressable_data(3).devices() == {calque.devices()[3]}
    assert x.is_fully_addressable and not x.is_fully_replicated and len(x.global_shards) == 4
    assert calque.device_put(X, four()).is_fully_replicated
    assert repr(x.device) == repr(x.sharding)
    keys = calque.device_put(calque.random.split(calque.random.key(0), 4), four("x"))
    assert keys.addressable_shards[2].data.shape == (1,)


def test_sharding_types() -> None:
    mesh = mesh_of(x=4, y=2)
    s = NamedSharding(mesh, P("x"))
    assert repr(s) == ("NamedSharding(mesh=Mesh('x': 4, 'y': 2, axis_types=(Auto, Auto)), "
                       "spec=P('x',), memory_kind=device)")
    assert s == NamedSharding(mesh_of(x=4, y=2), P("x")) != NamedSharding(mesh, P("x", None))
    assert hash(s) == hash(NamedSharding(mesh_of(x=4, y=2), P("x")))
    assert s.is_equivalent_to(NamedSharding(mesh, P("x", None)), 2)
    assert not s.is_equivalent_to(NamedSharding(mesh, P("y")), 1)
    assert s.addressable_devices_indices_map((8,)) == s.devices_indices_map((8,))
    assert s.with_memory_kind("device") == s
    with pytest.raises(ValueError, match="Could not find memory addressable"):
        s.with_memory_kind("hbm")
    s.check_compatible_aval((8, 2))
    with pytest.raises(ValueError, match="rank"):
        s.check_compatible_aval(())
    assert NamedSharding(mesh, P(("y", "x"))).devices_indices_map((8,))[calque.devices()[1]] == (
        slice(4, 5),)
    for made in (s, mesh, P("x", ("a", "b")), mesh.abstract_mesh, jnp.ones(2).sharding):
        assert pickle.loads(pickle.dumps(made)) == made and copy.copy(made) == made
    assert repr(calque.make_mesh((2, 2), ("a", "b"))) == (
        "Mesh(axis_sizes=(2, 2), axis_names=('a', 'b'), axis_types=(Explicit, Explicit))")
    assert mesh.shape == {"x": 4, "y": 2} and mesh.size == 8 and mesh.axis_types == (
        AxisType.Auto,) * 2
    assert P("x") != ("x",) and P(("x",)) == P("x") and P("x") + P("y") == P("x", "y")
    with mesh:
        assert sd.get_mesh() == mesh
    assert sd.get_mesh().empty
    x = calque.device_put(X, four("x"))
    again = pickle.loads(pickle.dumps(x))
    assert again.sharding == x.sharding and copy.deepcopy(x).sharding == x.sharding


def test_pieces() -> None:
    where = four("x")
    seen: list[Any] = []

    def part(index: Any) -> Any:
        seen.append(index)
        return X[index]

    np.testing.assert_array_equal(calque.make_array_from_callback((8,), where, part), X)
    assert len(seen) == 4
    made = calque.make_array_from_callback((8,), four(), part)
    assert len(seen) == 5 and made.sharding == four()
    parts = [calque.device_put(X[2 * k:2 * k + 2], d) for k, d in enumerate(calque.devices()[:4])]
    np.testing.assert_array_equal(
        calque.make_array_from_single_device_arrays((8,), where, parts[::-1]), X)
    assert calque.make_array_from_process_local_data(where, X).sharding == where
    stacked = calque.device_put_sharded([X, X + 1], calque.devices()[:2])
    np.testing.assert_array_equal(stacked, np.stack([X, X + 1]))
    assert calque.device_put_replicated({"a": X}, calque.devices()[:3])["a"].shape == (3, 8)
    placed = calque.device_put({"a": X, "b": (X, 1.0)}, {"a": where, "b": None})
    assert placed["a"].sharding == where and not placed["b"][0].committed
    from calque.experimental import mesh_utils
    assert mesh_utils.create_device_mesh((4, 2)).shape == (4, 2)


def test_donated_parts() -> None:
    x = calque.device_put(X, four("x"))
    y = calque.jit(lambda v: v + 1, donate_argnums=0)(x)
    assert y.sharding == four("x")
    with pytest.raises(RuntimeError, match="deleted"):
        x + 1


def test_pictures(capsys: pytest.CaptureFixture[str]) -> None:
    calque.debug.visualize_array_sharding(calque.device_put(np.ones((4, 4)), NamedSharding(
        mesh_of(a=2, b=2), P("b", "a"))), use_color=False)
    rows = [line for line in capsys.readouterr().out.splitlines() if "CPU" in line]
    assert [r.replace(" ", "") for r in rows] == ["│CPU0│CPU2│", "│CPU1│CPU3│"]
    seen: list[Any] = []
    x = calque.device_put(X, four("x"))
    calque.jit(lambda v: calque.debug.inspect_array_sharding(2 * v, callback=seen.append))(x)
    calque.debug.inspect_array_sharding(x, callback=seen.append)
    assert seen == [four("x")] * 2


@pytest.mark.parametrize("shape, spec, options, width, lines", [
    ((8, 8), P("x"), {}, 23, 1), ((8, 8), P(None, "x"), {}, 7, 9), ((16, 4), P("x"), {}, 7, 1),
    ((8, 8), P("x"), {"scale": 2.0}, 48, 4), ((128, 10000), P("x"), {}, 78, 1),
    ((8,), P(), {}, 11, 1), ((5,), P(), {"scale": 8.0}, 38, 1), ((8, 8), P(), {}, 23, 9),
    ((8, 8), P(), {"max_width": 10}, 11, 9), ((8, 8), P(), {"min_width": 30}, 28, 9)])
def test_sizes_of_pictures(shape: Any, spec: Any, options: dict[str, Any], width: int, lines: int,
                           capsys: pytest.CaptureFixture[str]) -> None:
    """As JAX draws: a whole is ten lines high and 25 characters times its sides' ratio wide, a part
    is from min_width to max_width (and its name) wide; names stand in the middle."""
    calque.debug.visualize_sharding(shape, four(*spec), use_color=False, **options)
    top, *rest = capsys.readouterr().out.splitlines()
    parts = rest[:next(i for i, line in enumerate(rest) if line[0] in "├└")]
    assert len(parts) == lines and "CPU 0" in parts[(lines - 1) // 2]
    cell = top[1:].replace("┐", "┬").split("┬")[0]
    assert cell == "─" * width
    name = parts[(lines - 1) // 2].split("│")[1]
    assert len(name) - len(name.lstrip()) == (width - len(name.strip())) // 2


def test_several_gpus_of_a_process_are_refused() -> None:
    from calque.runtime import Device
    mesh = Mesh([Device("cuda", k, "a card") for k in range(2)], ("x",))
    for call in (lambda: calque.device_put(X, NamedSharding(mesh, P("x"))),
                 lambda: calque.shard_map(lambda v: v, mesh=mesh, in_specs=P("x"),
                                          out_specs=P("x"))(X),
                 lambda: calque.lax.with_sharding_constraint(X, NamedSharding(mesh, P("x"))),
                 lambda: calque.pmap(lambda v: v, devices=list(mesh.devices))(X[:2])):
        with pytest.raises(ValueError, match="one process for each GPU"):
            call()


@pytest.mark.parametrize("call, kind, words", [
    (lambda: calque.device_put(X[:6], four("x")), ValueError, "does not evenly divide"),
    (lambda: calque.device_put(X, four(None, "x")), ValueError, "rank at least 2"),
    (lambda: calque.device_put(X, P("x")), ValueError, "set a mesh"),
    (lambda: calque.device_put((X, X), (None,)), ValueError, "tree prefix"),
    (lambda: calque.device_put(X, 3), ValueError, "Received invalid value: 3"),
    (lambda: four("z"), ValueError, "Resource axis: z"),
    (lambda: four("x", "x"), sd.NamedSharding.__mro__ and Exception, "duplicate entries for `x`"),
    (lambda: four("x").shard_shape((6,)), ValueError, "partitioned 4 times"),
    (lambda: Mesh(calque.devices(), ("a", "b")), ValueError, "ndim of its first argument"),
    (lambda: calque.make_mesh((16,), ("a",)), ValueError, "Number of devices 8 must be >="),
    (lambda: calque.make_array_from_callback((8,), four("x"), lambda i: np.zeros(3)), ValueError,
     "Expected shard shape"),
    (lambda: calque.make_array_from_single_device_arrays((8,), four("x"), [jnp.ones(2)]),
     ValueError, "expected 4 single-device arrays"),
    (lambda: calque.device_put_sharded([X], calque.devices()), ValueError, "must equal len"),
    (lambda: calque.debug.visualize_array_sharding(jnp.ones((2, 2, 2))), ValueError,
     "1 and 2 dimensions"),
    (lambda: calque.ShapeDtypeStruct((2,), "float32", sharding=3), TypeError, "a Sharding"),
    (lambda: calque.set_mesh(3), ValueError, "Expected mesh of type")])
def test_bad_input(call: Any, kind: Any, words: str) -> None:
    with pytest.raises(kind, match=words) as error:
        call()
    assert "Fix: " in str(error.value)


def test_a_picture_needs_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.box", None)
    with pytest.raises(ValueError, match="`visualize_sharding` requires `rich` to be installed"):
        calque.debug.visualize_array_sharding(jnp.ones(2))
