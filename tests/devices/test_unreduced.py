"""Arrays of unreduced sharding: what each device holds, what sums are, types, derivatives, errors.

The oracle is NumPy: `held` says what each device is to have, and the sum over them is the value.
"""
from __future__ import annotations

import copy
import itertools
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax
from calque.core.sharding import ShardingTypeError
from calque.sharding import NamedSharding, reshard
from calque.sharding import PartitionSpec as P

MESH = calque.make_mesh((2, 2), ("x", "y"))
GRID = np.arange(16, dtype=np.float32).reshape(4, 4)
PLACES = list(itertools.product(range(2), range(2)))


def held(x: Any) -> list[np.ndarray]:
    """What each device has, in the mesh's order."""
    return [np.asarray(s.data) for s in x.addressable_shards]


def put(value: Any, spec: P) -> Any:
    return reshard(jnp.asarray(value), NamedSharding(MESH, spec))


def total(x: Any) -> np.ndarray:
    return np.asarray(put(x, P()))


def masked(value: np.ndarray, spec: P, wanted: P) -> list[np.ndarray]:
    """A value as a sum: of an axis that splits it each device keeps its part, of others the first
    has all."""
    (had,), (has,) = spec.of_rank(1).axes(), wanted.of_rank(1).axes()
    new = wanted.unreduced
    in_place = had[:len(has)] == has and set(had[len(has):]) <= set(new)
    found = []
    for x, y in PLACES:
        at = {"x": x, "y": y}
        mine = np.ones(len(value), bool)
        for n in new:
            if in_place and n in had:
                slower = had.index(n)
                block = np.arange(len(value)) * 2 ** (slower + 1) // len(value) % 2
                mine &= block == at[n]
            else:
                mine &= at[n] == 0
        part = np.where(mine, value, 0)
        for n in has:
            part = part.reshape(2, -1)[at[n]]
        found.append(part)
    return found


@pytest.mark.parametrize("spec", [P(), P("x"), P("y"), P(("x", "y"))])
def test_what_is_whole_becomes_summands_and_is_their_sum(spec: P) -> None:
    value = np.arange(4, dtype=np.float32)
    for wanted in (P(unreduced={"x"}), P(unreduced={"x", "y"}), P("x", unreduced={"y"})):
        for made in (put(put(value, spec), wanted),
                     calque.jit(lambda v, w=wanted: put(v, w))(put(value, spec))):
            assert made.sharding == NamedSharding(MESH, wanted.of_rank(1))
            for got, want in zip(held(made), masked(value, spec, wanted), strict=True):
                np.testing.assert_array_equal(got, want)
            back = put(made, spec)
            assert back.sharding.spec == spec.of_rank(1)
            np.testing.assert_array_equal(back, value)


SUMS: list[tuple[Callable[..., Any], tuple[P, ...], P, Callable[[np.ndarray, int], np.ndarray]]] = [
    (lambda a, b, s: jnp.dot(a, b, out_sharding=s), (P(None, "x"), P("x")), P(unreduced={"x"}),
     lambda v, x: v[:, 2 * x:2 * x + 2] @ v[2 * x:2 * x + 2]),
    (lambda a, b, s: jnp.einsum("ij,jk->ki", a, b, out_sharding=s), (P("y", "x"), P("x")),
     P(None, "y", unreduced={"x"}), lambda v, x: (v[:, 2 * x:2 * x + 2] @ v[2 * x:2 * x + 2]).T),
    (lambda a, b, s: jnp.matmul(a, b, out_sharding=s), (P(None, "x"), P("x", "y")),
     P(None, "y", unreduced={"x"}), lambda v, x: v[:, 2 * x:2 * x + 2] @ v[2 * x:2 * x + 2]),
    (lambda a, b, s: lax.reduce_sum(a, (0,), out_sharding=s), (P("x"), P()), P(unreduced={"x"}),
     lambda v, x: v[2 * x:2 * x + 2].sum(0)),
    (lambda a, b, s: calque.ops.segment_sum(a, jnp.array([0, 1, 1, 0]) if s is None else put(
        jnp.array([0, 1, 1, 0]), P("x")), 2, out_sharding=s), (P("x"), P()), P(unreduced={"x"}),
     lambda v, x: np.stack([v[3 * x], v[1 + x]]))]


@pytest.mark.parametrize("f, specs, wanted, part", SUMS)
def test_sums_over_split_dimensions_leave_summands(
        f: Any, specs: tuple[P, P], wanted: P, part: Any) -> None:
    a, b = (put(GRID, s) for s in specs)
    with calque.set_mesh(MESH):
        for out in (f(a, b, wanted), calque.jit(lambda a, b: f(a, b, wanted))(a, b)):
            assert out.sharding.spec == wanted.of_rank(out.ndim)
            for (x, y), got in zip(PLACES, held(out), strict=True):
                want = part(GRID, x)
                if "y" in wanted.names():
                    want = want[:, 2 * y:2 * y + 2]
                np.testing.assert_array_equal(got, want)
            np.testing.assert_array_equal(total(out), part(GRID, 0) + part(GRID, 1))


def test_counts_are_summands() -> None:
    with calque.set_mesh(MESH):
        x = put(np.array([1, 1, 0, 1], np.int32), P("x"))
        out = jnp.bincount(x, length=2, out_sharding=P(unreduced={"x"}))
        assert [h.tolist() for h in held(out)] == [[0, 2], [0, 2], [1, 1], [1, 1]]
        with pytest.raises(ShardingTypeError, match="only be fully replicated or fully unreduced"):
            jnp.bincount(x, length=2, out_sharding=P("x"))
        # new arrays have their value on each device; those of values are theirs
        assert total(jnp.ones(2, out_sharding=P(unreduced={"x"}))).tolist() == [2, 2]
        assert total(jnp.array([1, 2], out_sharding=P(unreduced={"x"}))).tolist() == [1, 2]


LINEAR: list[tuple[str, Callable[[Any], Any], Callable[[np.ndarray], Any]]] = [
    ("add", lambda u: u + u, lambda v: 2 * v),
    ("transpose", lambda u: u.T, lambda v: v.T),
    ("reshape", lambda u: u.reshape(2, 8), lambda v: v.reshape(2, 8)),
    ("slice", lambda u: u[1:3, 2], lambda v: v[1:3, 2]),
    ("concatenate", lambda u: jnp.concatenate([u, u], 1), lambda v: np.concatenate([v, v], 1)),
    ("split", lambda u: jnp.split(u, 2)[1], lambda v: np.split(v, 2)[1]),
    ("pad", lambda u: lax.pad(u, 0., [(1, 0, 1), (0, 0, 0)]),
     lambda v: np.insert(np.insert(v, [1, 2, 3], 0, 0), 0, 0, 0)),
    ("select", lambda u: lax.select(jnp.arange(16).reshape(4, 4) % 2 == 0, u, u + u),
     lambda v: np.where(np.arange(16).reshape(4, 4) % 2 == 0, v, 2 * v)),
    ("broadcast", lambda u: jnp.broadcast_to(u, (2, 4, 4)), lambda v: np.stack([v, v])),
    ("convert", lambda u: u.astype(jnp.int32), lambda v: v.astype(np.int32)),
    ("sum", lambda u: u.sum(1), lambda v: v.sum(1)),
    ("scan", lambda u: lax.scan(lambda c, r: (c + u, r + r), u, u, length=4),
     lambda v: (5 * v, 2 * v)),
    ("while", lambda u: lax.fori_loop(0, 3, lambda i, c: c + u, u), lambda v: 4 * v),
    ("cond", lambda u: lax.cond(jnp.asarray(False), lambda v: v, lambda v: v + v, u),
     lambda v: 2 * v),
    ("checkpoint", lambda u: calque.checkpoint(lambda v: v + v)(u), lambda v: 2 * v),
    ("jit", lambda u: calque.jit(lambda v: v + v)(u), lambda v: 2 * v),
    ("vmap", lambda u: calque.vmap(lambda r: r + r)(u), lambda v: 2 * v)]


def test_what_is_linear_is_done_to_each_summand() -> None:
    """Eagerly and in one program; devices have different summands."""
    parts = put(put(GRID, P("x")), P(unreduced={"x"}))
    at_once = [f(parts) for _, f, _ in LINEAR]
    traced = calque.jit(lambda u: [f(u) for _, f, _ in LINEAR])(parts)
    for (name, _, oracle), *both in zip(LINEAR, at_once, traced):
        for out in both:
            for got, want_of in zip(calque.tree.leaves(out), calque.tree.leaves(oracle(GRID))):
                assert got.sharding.spec.unreduced == {"x"}, name
                np.testing.assert_array_equal(total(got), want_of, err_msg=name)


U, R = put(GRID, P(unreduced={"x"})), put(GRID, P(reduced={"x"}))
WHOLE, SPLIT = put(GRID, P()), put(GRID, P("x"))
MORE = put(GRID, P(unreduced={"y"}))


@pytest.mark.parametrize("call, kind, words", [
    (lambda: jnp.sin(U), NotImplementedError, "unreduced rule for sin is not implemented"),
    (lambda: -U, NotImplementedError, "unreduced rule for neg"),
    (lambda: U - U, NotImplementedError, "unreduced rule for sub"),
    (lambda: U > U, NotImplementedError, "unreduced rule for gt"),
    (lambda: U / 2, NotImplementedError, "unreduced rule for div"),
    (lambda: U * U, ShardingTypeError, "cannot be unreduced since mul is bilinear"),
    (lambda: U * 2, ShardingTypeError, "RHS should be reduced along the same axes LHS"),
    (lambda: 2 * U, ShardingTypeError, "LHS should be reduced along the same axes RHS"),
    (lambda: U + WHOLE, ShardingTypeError, "lhs is unreduced while rhs is not"),
    (lambda: 1 + U, ShardingTypeError, "rhs is unreduced while lhs is not"),
    (lambda: U + MORE, ShardingTypeError, "must be unreduced along the same mesh axes"),
    (lambda: U @ WHOLE, ShardingTypeError, "passed to dot_general cannot be unreduced"),
    (lambda: R * WHOLE, ShardingTypeError, "cannot be replicated on the same axes"),
    (lambda: R * SPLIT, ShardingTypeError, "cannot be sharded/varying on the same axes"),
    (lambda: R + put(GRID, P(reduced={"y"})), ShardingTypeError, "reduced across the same mesh"),
    (lambda: lax.select(jnp.ones((4, 4), bool), U, MORE), ShardingTypeError, "same shardings"),
    (lambda: jnp.concatenate([U, WHOLE]), ShardingTypeError, "unreduced along the same"),
    (lambda: jnp.reshape(U, (2, 8), out_sharding=NamedSharding(MESH, P("x"))), ValueError,
     "must be unreduced over the same mesh axes"),
    (lambda: jnp.reshape(WHOLE, (2, 8), out_sharding=NamedSharding(MESH, P(reduced={"x"}))),
     ValueError, "cannot contain reduced"),
    (lambda: jnp.dot(WHOLE, SPLIT, out_sharding=NamedSharding(MESH, P(unreduced={"x"}))),
     ShardingTypeError, "contracting dims should be sharded identically"),
    (lambda: jnp.dot(SPLIT, WHOLE, out_sharding=NamedSharding(MESH, P(unreduced={"x"}))),
     ShardingTypeError, "should be equal to the contracting specs"),
    (lambda: lax.reduce_sum(SPLIT, (1,), out_sharding=NamedSharding(MESH, P(unreduced={"x"}))),
     ShardingTypeError, "should be in operand's specs that were summed over"),
    (lambda: calque.ops.segment_max(SPLIT, jnp.arange(4), 4, out_sharding=NamedSharding(
        MESH, P(unreduced={"x"}))), NotImplementedError, "only sums"),
    (lambda: calque.make_array_from_callback(
        (4,), NamedSharding(MESH, P(unreduced={"x"})), lambda i: np.ones(4)[i]),
     NotImplementedError, "doesn't work with unreduced")])
def test_what_is_refused(call: Any, kind: type[Exception], words: str) -> None:
    for run in (call, calque.jit(call)):
        with pytest.raises(kind, match=f"{words}(.|\n)*Fix: "):
            run()


def test_products_with_reduced_operands_are_summands() -> None:
    parts = put(SPLIT, P(unreduced={"x"}))
    for f in (lambda u, r: u * r, calque.jit(lambda u, r: r * u)):
        out = f(parts, R)
        assert out.sharding.spec == P(None, None, unreduced={"x"})
        for (x, _), got in zip(PLACES, held(out), strict=True):
            want = np.zeros_like(GRID)
            want[2 * x:2 * x + 2] = GRID[2 * x:2 * x + 2] ** 2
            np.testing.assert_array_equal(got, want)


def test_gradients_of_reduced_weights_are_each_devices_own() -> None:
    """x @ w: a device sums over its rows of x; the sum over devices is the gradient."""
    x = put(GRID, P("x"))
    weights = np.linspace(0, 1, 16, dtype=np.float32).reshape(4, 4)

    def loss(w: Any, x: Any) -> Any:
        return (jnp.tanh(w) @ w).sum() + ((x @ jnp.sin(w)) ** 2).sum()

    want = calque.grad(loss)(jnp.asarray(weights), jnp.asarray(GRID))
    for grad in (calque.grad(loss), calque.jit(calque.grad(loss))):
        got = grad(put(weights, P(reduced={"x"})), x)
        assert got.sharding.spec == P(None, None, unreduced={"x"})
        np.testing.assert_allclose(total(got), want, rtol=2e-5)
    own = calque.grad(lambda w: (x @ w).sum())(put(weights, P(reduced={"x"})))
    for (i, _), part in zip(PLACES, held(own), strict=True):
        rows = GRID[2 * i:2 * i + 2]
        np.testing.assert_array_equal(part, np.repeat(rows.sum(0)[:, None], 4, 1))


def test_gradients_of_gathered_and_unreduced_values() -> None:
    table, rows = put(GRID, P(reduced={"x"})), put(np.array([0, 1, 1, 3]), P("x"))
    with calque.set_mesh(MESH):
        got = calque.jit(calque.grad(lambda t, r: (t.at[r].get(
            out_sharding=P("x", None)) ** 2).sum()))(table, rows)
    want = np.zeros((2, 4, 4), np.float32)
    for i, row in enumerate([0, 1, 1, 3]):
        want[i // 2, row] += 2 * GRID[row]
    for (x, _), part in zip(PLACES, held(got), strict=True):
        np.testing.assert_array_equal(part, want[x])
    # of what is unreduced the cotangent is reduced: the same everywhere
    back = calque.grad(lambda u: (put(u, P()) ** 2).sum())(U)
    assert back.sharding.spec == P(None, None, reduced={"x"})
    np.testing.assert_array_equal(back, 2 * GRID)
    # an unused argument's are zeros of that kind
    unused = calque.jit(calque.grad(lambda r, v: v.sum()))(R, WHOLE)
    assert unused.sharding.spec == P(None, None, unreduced={"x"})
    np.testing.assert_array_equal(total(unused), 0 * GRID)


def test_a_training_step_adds_summands_over_microbatches() -> None:
    xs = put(np.arange(32, dtype=np.float32).reshape(2, 4, 4) / 32, P(None, "x"))

    def loss(w: Any, x: Any) -> Any:
        return ((x @ w) ** 2).sum()

    @calque.jit
    def step(w: Any, xs: Any) -> Any:
        start = put(jnp.zeros_like(w), P(unreduced={"x"}))
        grads, _ = lax.scan(lambda g, x: (g + calque.grad(loss)(w, x), None), start, xs)
        return put(w, P()) - 0.1 * put(grads, P())

    got = step(put(GRID / 16, P(reduced={"x"})), xs)
    flat = np.asarray(xs).reshape(8, 4)
    want = GRID / 16 - 0.1 * 2 * flat.T @ (flat @ (GRID / 16))
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_arrays_of_summands_as_objects() -> None:
    assert not U.sharding.is_fully_replicated and U.shape == (4, 4)
    assert str(calque.typeof(U)) == "float32[4,4]{U:x}"
    assert repr(U) == str(U) and repr(U).startswith("Array(shape=(4, 4), dtype=float32, sharding=")
    for look in (np.asarray, pickle.dumps, lambda u: u.tolist()):
        with pytest.raises(NotImplementedError, match="doesn't work with unreduced(.|\n)*reshard"):
            look(U)
    for other in (copy.copy(U), copy.deepcopy(U), U.copy(), jnp.asarray(U), calque.device_put(
            U, U.sharding), calque.jit(lambda u: u)(U)):
        assert other.sharding == U.sharding
        for a, b in zip(held(other), held(U), strict=True):
            np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(calque.device_put(U, NamedSharding(MESH, P("x"))), GRID)
    where = NamedSharding(MESH, P("y", unreduced={"x"}))
    pieces = [calque.device_put(np.full(2, i, np.float32), d)
              for i, d in enumerate(MESH.devices.flat)]
    made = calque.make_array_from_single_device_arrays((4,), where, pieces)
    assert [h.tolist() for h in held(made)] == [[0, 0], [1, 1], [2, 2], [3, 3]]
    assert total(made).tolist() == [2, 2, 4, 4]


def test_jit_places_donates_and_is_lowered() -> None:
    spec = NamedSharding(MESH, P(unreduced={"x"}))
    out = calque.jit(lambda v: v + v, in_shardings=spec, out_shardings=spec)(GRID)
    assert out.sharding == spec
    np.testing.assert_array_equal(total(out), 2 * GRID)
    np.testing.assert_array_equal(held(out)[2], 0 * GRID)
    given = put(GRID, P(unreduced={"x"}))
    run = calque.jit(lambda u: (put(u, P()), u + u), donate_argnums=0)
    whole, twice = run(given)
    np.testing.assert_array_equal(whole, GRID)
    np.testing.assert_array_equal(total(twice), 2 * GRID)
    compiled = calque.jit(lambda u: put(u + u, P())).lower(U).compile()
    np.testing.assert_array_equal(compiled(U), 2 * GRID)
    with calque.debug_nans(True):
        np.testing.assert_array_equal(total(calque.jit(lambda u: u + u)(U)), 2 * GRID)
    inside = calque.jit(lambda v: put(put(v, P(unreduced={"x"})), P()))
    assert "2x4x4" in inside.lower(WHOLE).as_text()  # the summands of what is of no size outside
    with pytest.raises(TypeError, match="an artifact holds no devices(.|\n)*reshard"):
        calque.export.export(calque.jit(lambda u: u + u))(U)


@pytest.mark.parametrize("new", [jnp.ones_like, lambda x: jnp.full_like(x, 1), lambda x: (
    lax.full_like(x, 1.0))])
def test_new_arrays_like_summands_are_each_devices(new: Any) -> None:
    """As JAX has it under jit: the sum is the number of devices."""
    x = put(np.arange(4.0), P(unreduced={"x"}))
    for f in (new, calque.jit(new)):
        made = f(x)
        assert str(calque.typeof(made)) == "float32[4]{U:x}"
        assert all(np.array_equal(part, np.ones(4)) for part in held(made))
        np.testing.assert_array_equal(total(made), np.full(4, 2.0))
