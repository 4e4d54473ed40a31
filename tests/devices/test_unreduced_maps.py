"""Inside shard_map: values that are summands over axes, or whose cotangents are; what makes, sums
and gathers them, their types, and specs that name such axes.  The oracle is NumPy.
"""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax
from calque.core.sharding import ShardingTypeError
from calque.sharding import NamedSharding, reshard
from calque.sharding import PartitionSpec as P

MESH = calque.make_mesh((2,), ("x",))
BOTH = calque.make_mesh((2, 2), ("x", "y"))
VALUE = np.arange(8, dtype=np.float32)


def put(value: Any, spec: P, mesh: Any = MESH) -> Any:
    return reshard(jnp.asarray(value), NamedSharding(mesh, spec))


def mapped(f: Any, spec: P, mesh: Any = MESH, **options: Any) -> Any:
    return calque.shard_map(f, mesh=mesh, out_specs=spec, **options)


def held(x: Any) -> list[list[float]]:
    return [np.asarray(s.data).tolist() for s in x.addressable_shards]


INPUTS = {"same": P(), "varying": P("x"), "unreduced": P(unreduced={"x"}),
          "reduced": P(reduced={"x"})}
KINDS = {  # what is done to what -> the type that comes of it
    ("same", "to varying"): "float32[8]{V:x}", ("same", "to reduced"): "float32[8]{R:x}",
    ("varying", "to unreduced"): "float32[4]{U:x}", ("reduced", "to varying"): "float32[8]{V:x}",
    ("unreduced", "psum"): "float32[8]", ("varying", "psum"): "float32[4]",
    ("unreduced", "psum_scatter"): "float32[4]{V:x}", ("varying", "psum_scatter"):
    "float32[2]{V:x}", ("varying", "gather reduced"): "float32[8]{R:x}",
    ("reduced", "sin"): "float32[8]{R:x}", ("reduced", "sum"): "float32[]{R:x}",
    ("unreduced", "sum"): "float32[]{U:x}", ("unreduced", "twice"): "float32[8]{U:x}"}
DONE = {"to varying": lambda v: lax.pcast(v, "x", to="varying"),
        "to reduced": lambda v: lax.pcast(v, "x", to="reduced"),
        "to unreduced": lambda v: lax.pcast(v, "x", to="unreduced"),
        "psum": lambda v: lax.psum(v, "x"),
        "psum_scatter": lambda v: lax.psum_scatter(v, "x", tiled=True),
        "gather reduced": lambda v: lax.all_gather(v, "x", tiled=True, to="reduced"),
        "sin": jnp.sin, "sum": jnp.sum, "twice": lambda v: v + v}


def test_types() -> None:
    seen = {}
    for (kind, done) in KINDS:
        def body(v: Any, kind: str = kind, done: str = done) -> Any:
            out = DONE[done](v)
            seen[kind, done] = str(calque.typeof(out))
            mat = out.aval.mat
            varying, summed, same = mat.varying, mat.unreduced, mat.reduced
            assert out.aval.mat.invarying(calque.sharding.get_abstract_mesh()) == (
                {"x"} - varying - summed - same)
            return jnp.zeros(())
        calque.jit(mapped(body, P()))(put(VALUE, INPUTS[kind]))
    assert seen == KINDS


@pytest.mark.parametrize("kind, done, words", [
    ("same", "to unreduced", "Unsupported pcast from=invarying, to='unreduced'"),
    ("varying", "to reduced", "Unsupported pcast from=varying, to='reduced'"),
    ("unreduced", "to varying", "Unsupported pcast from=unreduced"),
    ("reduced", "to reduced", "Unsupported pcast from=reduced"),
    ("reduced", "psum", "pvary cannot accept args which are reduced"),
    ("reduced", "psum_scatter", "pvary cannot accept args which are reduced"),
    ("same", "gather reduced", "only accepts inputs that are varying"),
    ("unreduced", "sin", "unreduced rule for sin")])
def test_casts_and_collectives_that_are_refused(kind: str, done: str, words: str) -> None:
    with pytest.raises((ValueError, NotImplementedError), match=f"{words}(.|\n)*Fix: "):
        mapped(DONE[done], P("x"))(put(VALUE, INPUTS[kind]))


def test_values_of_several_kinds() -> None:
    def mix(f: Any) -> Any:
        return lambda: mapped(f, P("x"))(put(VALUE, P("x")), put(VALUE[:4], P(unreduced={"x"})))

    with pytest.raises(ValueError, match="pvary cannot accept args which are unreduced"):
        mix(lambda v, u: v + u)()
    with pytest.raises(ShardingTypeError, match="lhs is unreduced while rhs is not"):
        mapped(lambda u, s: u + s, P("x"))(put(VALUE, P(unreduced={"x"})), put(VALUE, P()))
    with pytest.raises(ValueError, match="can only accept axis_name which corresponds"):
        mapped(lambda u: lax.psum(u, ("x", "y")), P(), BOTH)(
            put(VALUE, P(unreduced={"x"}), BOTH))


@pytest.mark.parametrize("kind, spec, words", [
    ("same", P(unreduced={"x"}), "only accepts inputs that are varying"),
    ("same", P(reduced={"x"}), "equal to the reduced present"),
    ("varying", P(reduced={"x"}), "equal to the reduced present"),
    ("unreduced", P(), "require replication"), ("unreduced", P("x"), "pvary cannot accept"),
    ("unreduced", P(reduced={"x"}), "equal to the unreduced present"),
    ("reduced", P(), "require replication"), ("reduced", P("x"), "pvary cannot accept"),
    ("reduced", P(unreduced={"x"}), "vary_unreduced_cast cannot accept args which are reduced")])
def test_results_that_are_not_as_their_specs(kind: str, spec: P, words: str) -> None:
    with pytest.raises(ValueError, match=f"{words}(.|\n)*Fix: "):
        mapped(lambda v: v, spec)(put(VALUE, INPUTS[kind]))


def test_specs_ask_for_explicit_axes_that_are_all_mapped() -> None:
    auto = calque.make_mesh((2, 1), ("x", "y"), axis_types=(calque.sharding.AxisType.Auto,) * 2)
    for options, kind, words in (({}, ValueError, "axis names all of type `Explicit`"),
                                 ({"axis_names": {"x"}}, NotImplementedError, "full manual mode")):
        with pytest.raises(kind, match=f"unreduced.*{words}"):
            mapped(lambda v: v, P(), auto, in_specs=P(unreduced={"x"}), **options)(VALUE)
    with pytest.raises(ValueError, match="does not match the specs of the input"):
        mapped(lambda v: v, P(), in_specs=P())(put(VALUE, P(unreduced={"x"})))


def test_what_devices_hold() -> None:
    """A device's result is its summand, and a summand is what its body sees."""
    out = mapped(lambda v: v * v, P(unreduced={"x"}))(put(VALUE, P("x")))
    assert out.shape == (4,) and out.sharding.spec == P(unreduced={"x"})
    assert held(out) == [[0, 1, 4, 9], [16, 25, 36, 49]]
    assert np.asarray(put(out, P())).tolist() == [16, 26, 40, 58]
    assert np.asarray(mapped(lambda u: lax.psum(u, "x"), P())(out)).tolist() == [16, 26, 40, 58]
    parts = mapped(lambda u: lax.psum_scatter(u, "x", tiled=True), P("x"))(out)
    assert held(parts) == [[16, 26], [40, 58]]
    free = mapped(lambda u: u + 1, P("x"), in_specs=P(unreduced={"x"}), check_vma=False)(out)
    assert np.asarray(free).tolist() == [1, 2, 5, 10, 17, 26, 37, 50]
    gathered = mapped(lambda v: lax.all_gather(v, "x", to="reduced"), P(reduced={"x"}))(
        put(VALUE, P("x")))
    np.testing.assert_array_equal(gathered, VALUE.reshape(2, 4))
    both = put(np.arange(4, dtype=np.float32), P(("x", "y")), BOTH)
    for tiled, want in ((True, [0, 1, 2, 3]), (False, [[0], [1], [2], [3]])):
        got = mapped(lambda v, t=tiled: lax.all_gather(v, ("x", "y"), tiled=t, to="reduced"),
                     P(reduced={"x", "y"}), BOTH)(both)
        assert np.asarray(got).tolist() == want


def test_derivatives_turn_kinds_into_each_other() -> None:
    """reduced <-> unreduced; psum of summands <-> reduced, scatter <-> gather."""
    weights = np.linspace(1, 2, 8, dtype=np.float32)

    def cotangent(f: Any, spec: P, x: Any) -> Any:
        return calque.jit(calque.grad(lambda v: (put(mapped(f, spec)(v), P("x")) * put(
            weights[:f.size], P("x"))).sum()))(x)

    def of(done: str, size: int) -> Any:
        def f(v: Any) -> Any:
            return DONE[done](v)
        f.size = size  # type: ignore[attr-defined]
        return f

    got = cotangent(of("psum", 8), P(), put(VALUE, P(unreduced={"x"})))
    assert got.sharding.spec == P(None, reduced={"x"})
    np.testing.assert_allclose(got, weights)
    got = cotangent(of("psum_scatter", 8), P("x"), put(VALUE, P(unreduced={"x"})))
    assert got.sharding.spec == P(None, reduced={"x"})
    np.testing.assert_allclose(got, weights)
    got = cotangent(of("to reduced", 8), P(reduced={"x"}), put(VALUE, P()))
    np.testing.assert_allclose(got, weights)
    got = cotangent(of("gather reduced", 8), P(reduced={"x"}), put(VALUE, P("x")))
    assert got.sharding.spec == P("x")
    np.testing.assert_allclose(got, weights)
    got = cotangent(of("to unreduced", 4), P(unreduced={"x"}), put(VALUE, P("x")))
    assert got.sharding.spec == P("x")
    np.testing.assert_allclose(got, np.tile(weights[:4], 2))


def test_gradients_of_reduced_operands_inside() -> None:
    """A reduced operand beside varying ones: each device has its own summand of the gradient."""
    x, w = np.arange(16, dtype=np.float32).reshape(8, 2), np.ones((2, 3), np.float32)

    def f(x: Any, w: Any) -> Any:
        return x @ jnp.sin(w)

    run = mapped(f, P("x"))
    got_x, got_w = calque.jit(calque.grad(lambda x, w: run(x, w).sum(), (0, 1)))(
        put(x, P("x")), put(w, P(reduced={"x"})))
    assert got_w.sharding.spec == P(None, None, unreduced={"x"})
    np.testing.assert_allclose(got_x, np.full((8, 2), 3 * np.sin(1)), rtol=1e-6)
    for rows, part in zip((x[:4], x[4:]), held(got_w), strict=True):
        np.testing.assert_allclose(part, np.cos(1) * np.repeat(rows.sum(0)[:, None], 3, 1),
                                   rtol=1e-6)
    # a product of reduced operands is the same everywhere: the first device has its cotangent
    square = mapped(lambda w: (w.T @ w).sum(), P())
    got = calque.grad(square)(put(w, P(reduced={"x"})))
    np.testing.assert_allclose(put(got, P()), 6 * w)
    assert held(got)[1] == (0 * w).tolist()
    # residuals that are summands or reduced stay so
    got = calque.jit(calque.grad(mapped(lambda r: jnp.sin(r).sum(), P(reduced={"x"}))))(
        put(VALUE, P(reduced={"x"})))
    np.testing.assert_allclose(put(got, P()), np.cos(VALUE), rtol=1e-6)
    got_u, got_r = calque.grad(mapped(lambda u, r: (u * r).sum(), P(unreduced={"x"})), (0, 1))(
        put(VALUE, P(unreduced={"x"})), put(VALUE + 1, P(reduced={"x"})))
    np.testing.assert_allclose(got_u, VALUE + 1)
    np.testing.assert_allclose(put(got_r, P()), VALUE)


def test_maps_in_maps_know_all_that_are_mapped() -> None:
    def inner(v: Any) -> Any:
        assert calque.sharding.get_abstract_mesh().manual_axes == ("x", "y")
        return v * 2

    outer = mapped(lambda v: mapped(inner, P("y"), BOTH, in_specs=P("y"), axis_names={"y"})(v),
                   P("x"), BOTH, in_specs=P("x"), axis_names={"x"})
    with calque.set_mesh(BOTH):
        np.testing.assert_array_equal(calque.jit(outer)(put(VALUE, P("x"), BOTH)), 2 * VALUE)


@pytest.mark.parametrize("kind, told", [
    ("same", "float32[8]"), ("varying", "float32[4]{V:x}"), ("unreduced", "float32[8]{U:x}"),
    ("reduced", "float32[8]{R:x}")])
def test_shapes_know_along_which_axes_a_value_varies(kind: str, told: str) -> None:
    """Arrays like a value vary as it does, and are neither summands nor reduced."""
    like = told if kind == "varying" else "float32[8]"

    def f(v: Any) -> Any:
        shape = calque.eval_shape(lambda u: u, v)
        assert str(calque.typeof(v)) == told == str(shape.aval)
        assert shape.manual_axis_type == (None if kind == "same" else calque.typeof(v).mat)
        for x in (v, shape):
            for made in (lax.full_like(x, 1), jnp.zeros_like(x), jnp.full_like(x, 2.0)):
                assert str(calque.typeof(made)) == like
        return lax.pcast(jnp.ones(4), "x", to="varying")

    value = put(VALUE, INPUTS[kind])
    np.testing.assert_array_equal(np.asarray(mapped(f, P("x"))(value)), np.ones(8))


def test_the_kind_of_a_shape() -> None:
    kind = calque.sharding.ManualAxisType(varying={"x"}, reduced={"y"})
    shape = calque.ShapeDtypeStruct((2,), "float32", manual_axis_type=kind)
    assert str(shape.aval) == "float32[2]{V:x, R:y}" and not kind.empty
    assert "manual_axis_type=ManualAxisType(varying=frozenset({'x'})" in repr(shape)
    assert shape != calque.ShapeDtypeStruct((2,), "float32") and shape.update(shape=(3,)) != shape
    assert shape.update(shape=(3,)).manual_axis_type == kind
    with pytest.raises(TypeError, match="should be of type `jax.sharding.ManualAxisType`"):
        calque.ShapeDtypeStruct((2,), "float32", manual_axis_type={"x"})
