"""Python functions called by programs over several devices: once on each, in its order (counts as
in JAX 0.10.2, jitted)."""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from meshes import mesh_of

import calque
from calque import lax
from calque.experimental import io_callback
from calque.sharding import NamedSharding
from calque.sharding import PartitionSpec as P

X = np.arange(8, dtype=np.float32)
NUMBER = calque.ShapeDtypeStruct((), np.float32)


def mapped(f: Callable[..., Any], jitted: bool) -> Any:
    """f of two elements on each of four devices."""
    run = calque.shard_map(f, mesh=mesh_of(x=4), in_specs=P("x"), out_specs=P("x"),
                           check_vma=False)
    out = (calque.jit(run) if jitted else run)(X)
    calque.effects_barrier()
    return out


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("ordered", [False, True])
def test_io_callbacks_are_each_devices(ordered: bool, jitted: bool) -> None:
    seen: list[tuple[int, int]] = []

    def called(device: Any, step: Any, x: Any) -> Any:
        assert np.shape(x) == (2,)
        seen.append((int(device), int(step)))
        return np.float32(x.sum())

    def f(x: Any) -> Any:
        def step(i: Any, x: Any) -> Any:
            return x + io_callback(called, NUMBER, lax.axis_index("x"), i, x, ordered=ordered)

        return lax.fori_loop(0, 2, step, step(-1, x))

    want = X.reshape(4, 2)
    for _ in range(3):
        want = want + want.sum(1, keepdims=True)
    np.testing.assert_array_equal(mapped(f, jitted), want.ravel())
    assert sorted(seen) == [(d, i) for d in range(4) for i in range(-1, 2)]
    if ordered:
        for device in range(4):
            assert [i for d, i in seen if d == device] == [-1, 0, 1]


KINDS: dict[str, Callable[..., Any]] = {
    "io": lambda f, *args: io_callback(f, None, *args),
    "ordered": lambda f, *args: io_callback(f, None, *args, ordered=True),
    "debug": calque.debug.callback}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where, calls", [
    (lambda call: call(), 4), (lambda call: calque.jit(call)(), 4),
    (lambda call: lax.scan(lambda c, _: (c, call()), 0, None, length=3), 12),
    (lambda call: lax.cond(lax.axis_index("x") > 0, call, lambda: None), 3),
    (lambda call: lax.cond(True, call, lambda: None), 4)])
def test_what_every_device_calls_alike(kind: str, where: Any, calls: int) -> None:
    """Without an operand that differs among devices, too, as the call is for what it does."""
    seen: list[Any] = []

    def f(x: Any) -> Any:
        where(lambda: KINDS[kind](lambda *v: seen.append(v), 1.0))
        return x

    np.testing.assert_array_equal(mapped(f, True), X)
    assert len(seen) == calls, kind


def test_over_two_axes_of_a_mesh() -> None:
    seen: list[int] = []

    def f(x: Any) -> Any:
        io_callback(lambda: seen.append(1), None)
        return x + io_callback(lambda i: np.float32(i), NUMBER,
                               2 * lax.axis_index("a") + lax.axis_index("b"), ordered=True)

    run = calque.shard_map(f, mesh=mesh_of(a=2, b=2), in_specs=P("a", "b"), out_specs=P("a", "b"))
    got = calque.jit(run)(np.zeros((2, 2), np.float32))
    calque.effects_barrier()
    np.testing.assert_array_equal(got, [[0, 1], [2, 3]])
    assert len(seen) == 4


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("method", [None, "sequential", "expand_dims", "broadcast_all"])
def test_pure_callbacks_are_each_devices(method: str | None, jitted: bool) -> None:
    """Whatever vmap_method says, which is of vmap alone: within it still is."""
    def total(x: Any) -> Any:
        assert x.shape == (2,)
        return np.float32(x.sum())

    got = mapped(lambda x: x + calque.pure_callback(total, NUMBER, x, vmap_method=method), jitted)
    np.testing.assert_array_equal(got, (X.reshape(4, 2) + X.reshape(4, 2).sum(
        1, keepdims=True)).ravel())
    if method in ("expand_dims", "broadcast_all"):
        got = mapped(calque.vmap(lambda v: calque.pure_callback(
            lambda v: 2 * v.reshape(2), NUMBER, v, vmap_method=method)), jitted)
        np.testing.assert_array_equal(got, 2 * X)


def test_vmap_within_refuses_ordered_calls() -> None:
    with pytest.raises(ValueError, match="Cannot `vmap` ordered IO callback"):
        mapped(calque.vmap(lambda v: v + io_callback(
            lambda v: v, NUMBER, v, ordered=True)), False)


def test_pmap_calls_on_each_device() -> None:
    seen: list[float] = []

    def f(x: Any) -> Any:
        io_callback(lambda: seen.append(0.5), None)
        return x + io_callback(lambda v: seen.append(float(v)) or v, NUMBER, x, ordered=True)

    np.testing.assert_array_equal(calque.pmap(f)(X), 2 * X)
    calque.effects_barrier()
    assert sorted(seen) == sorted([0.5] * 8 + X.tolist())


def _calls(f: Callable[..., Any], *xs: Any, partitioned: bool = False) -> list[Any]:
    """The operands of each call that a debug callback in f makes, as nested lists."""
    seen: list[Any] = []

    def note(*values: Any) -> None:
        seen.append([np.asarray(v).tolist() for v in values])

    call = functools.partial(calque.debug.callback, note, partitioned=partitioned)
    calque.jit(functools.partial(f, call))(*xs)
    calque.effects_barrier()
    return seen


@pytest.mark.parametrize("spec, pieces", [
    (P("x"), [[[0, 1, 2]], [[3, 4, 5]]]), (P(None, "x"), None),
    (P(), [[[0, 1, 2], [3, 4, 5]]] * 2)])
def test_partitioned_callbacks_get_each_devices_part(spec: P, pieces: Any) -> None:
    mesh = mesh_of(x=2)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    if pieces is None:
        x = x[:, :2]
        pieces = [x[:, :1].tolist(), x[:, 1:].tolist()]
    placed = calque.device_put(x, NamedSharding(mesh, spec))

    def f(call: Any, v: Any) -> None:
        call(v * 2)

    double = (2 * np.asarray(pieces)).tolist()
    assert [v for v, in _calls(f, placed, partitioned=True)] == double
    assert _calls(f, placed) == [[(2 * x).tolist()]]  # whole, unless it is asked for
    assert _calls(f, x, partitioned=True) == [[(2 * x).tolist()]]  # nothing is split


def test_partitioned_callbacks_in_loops_and_under_vmap() -> None:
    x = np.arange(8, dtype=np.int32).reshape(2, 4)
    placed = calque.device_put(x, NamedSharding(mesh_of(x=2), P(None, "x")))

    def scanned(call: Any, v: Any) -> Any:
        return calque.lax.scan(lambda c, r: (c + r.sum(), call(r, c)), 0, v)[0]

    def called_by_row(call: Any, v: Any) -> None:
        calque.vmap(call)(v, v.T[:2])

    assert _calls(scanned, placed, partitioned=True) == [
        [[0, 1], 0], [[2, 3], 0], [[4, 5], 6], [[6, 7], 6]]
    assert [[a, len(b)] for a, b in _calls(called_by_row, placed, partitioned=True)] == [
        [[0, 1], 2], [[2, 3], 2], [[4, 5], 2], [[6, 7], 2]]
