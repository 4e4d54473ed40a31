"""shard_map: gradients in both worlds, what varies, transformations inside and outside, errors."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from meshes import mesh_of

import calque
import calque.numpy as jnp
from calque import lax
from calque.sharding import AxisType, Mesh, NamedSharding
from calque.sharding import PartitionSpec as P

X = np.arange(8, dtype=np.float32)
W = np.float32(2.0)


def local_loss(w: Any, x: Any) -> Any:
    return jnp.sin(w * x).sum()


# numbers of JAX 0.10.2 on 4 devices
PARTS = [-0.41614684, 1.5732236, -4.7773576, 6.020284]
TRUE = 2.4000034


@pytest.mark.parametrize("check, local, summed", [
    (True, [TRUE] * 4, [TRUE] * 4), (False, PARTS, [4 * p for p in PARTS])])
def test_gradients_inside_the_body(check: bool, local: list[float], summed: list[float]) -> None:
    """Checked, the gradient of what is the same everywhere is the whole one; else each its own."""
    mesh = mesh_of(x=4)

    def of(f: Any) -> Any:
        return calque.shard_map(lambda w, x: calque.grad(f)(w, x)[None], mesh=mesh,
                                in_specs=(P(), P("x")), out_specs=P("x"), check_vma=check)(W, X)

    np.testing.assert_allclose(of(local_loss), local, rtol=1e-5)
    np.testing.assert_allclose(of(lambda w, x: lax.psum(local_loss(w, x), "x")), summed, rtol=1e-5)


@pytest.mark.parametrize("check", [True, False])
def test_derivatives_of_a_shard_map_are_those_of_the_whole(check: bool) -> None:
    mesh = mesh_of(a=2, b=2)
    rng = np.random.default_rng(0)
    a, b = rng.random((4, 4), np.float32), rng.random((4, 6), np.float32)

    def mapped(a: Any, b: Any) -> Any:
        def body(x: Any, y: Any) -> Any:
            return lax.psum(jnp.tanh(x) @ y, "b"), lax.pmean(x, ("a", "b")).sum()
        out, mean = calque.shard_map(body, mesh=mesh, in_specs=(P("a", "b"), P("b")),
                                     out_specs=(P("a"), P()), check_vma=check)(a, b)
        return (out ** 2).sum() + mean

    def whole(a: Any, b: Any) -> Any:
        return ((jnp.tanh(a) @ b) ** 2).sum() + a.reshape(2, 2, 2, 2).sum((1, 3)).mean() * 1.0

    def close(got: Any, want: Any) -> None:
        calque.tree_util.tree_map(lambda x, y: np.testing.assert_allclose(
            x, y, rtol=2e-5, atol=2e-5), got, want)

    tangents, stack = (np.ones_like(a), np.ones_like(b)), (np.stack([a, 2 * a]), np.stack([b, b]))

    def every(f: Any, a: Any, b: Any) -> Any:
        return (f(a, b), calque.grad(f, (0, 1))(a, b), calque.jvp(f, (a, b), tangents),
                calque.jvp(calque.grad(f), (a, b), tangents), calque.vmap(calque.grad(f))(*stack))

    close(calque.jit(lambda *v: every(mapped, *v))(a, b),
          calque.jit(lambda *v: every(whole, *v))(a, b))
    close(calque.grad(mapped)(a, b), calque.grad(whole)(a, b))


def test_residuals_that_are_the_same_everywhere_are_kept_once() -> None:
    mesh = mesh_of(x=4)

    def f(w: Any, x: Any) -> Any:
        return calque.shard_map(lambda w, x: lax.psum((jnp.sin(w) * x).sum(), "x"), mesh=mesh,
                                in_specs=(P(), P("x")), out_specs=P())(w, x)

    text = str(calque.make_jaxpr(calque.grad(f))(np.ones(2, np.float32), np.ones((8, 2), "f4")))
    assert "f32[2] = cos" in text and "f32[1,2]" not in text


def test_make_jaxpr_prints_what_varies() -> None:
    text = str(calque.make_jaxpr(calque.shard_map(
        lambda x, w: lax.psum(x * w, "x"), mesh=mesh_of(x=4), in_specs=(P("x"), P()),
        out_specs=P()))(X, X[:2]))
    for line in ("check_vma=True", "in_specs=(P('x',), P())", "d:f32[2]{V:x} e:f32[2]. let",
                 "f:f32[2]{V:x} = pvary[axes=('x',)] e", "h:f32[2] = psum_invariant[axes=('x',)] g",
                 "mesh=Mesh('x': 4, axis_types=(Auto,))", "newly_manual_axes=frozenset({'x'})"):
        assert line in text, text


def test_scan_inside_and_around() -> None:
    mesh = mesh_of(x=4)

    def body(x: Any) -> Any:
        start = lax.pcast(jnp.float32(0), "x", to="varying")
        last, sums = lax.scan(lambda c, a: (c + a, c * a), start, x)
        return last[None], sums, lax.psum(last, "x")

    f = calque.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=(P("x"), P("x"), P()))
    last, sums, total = f(X)
    pairs = X.reshape(4, 2)
    np.testing.assert_array_equal(last, pairs.sum(1))
    np.testing.assert_array_equal(sums.reshape(4, 2)[:, 1], pairs[:, 0] * pairs[:, 1])
    assert total == X.sum()
    step = calque.shard_map(lambda c: c + lax.pmean(c.sum(), "x"), mesh=mesh, in_specs=P("x"),
                            out_specs=P("x"))
    got = calque.jit(lambda c: lax.scan(lambda c, _: (step(c), None), c, None, length=3)[0])(X)
    want = X
    for _ in range(3):
        want = want + want.reshape(4, 2).sum(1).mean()
    np.testing.assert_allclose(got, want, rtol=1e-6)
    grad = calque.jit(calque.grad(lambda c: lax.scan(
        lambda c, _: (step(c), None), c, None, length=3)[0][0]))(X)
    assert grad.shape == (8,) and np.isfinite(grad).all()


def test_some_axes_only_and_nested() -> None:
    mesh = mesh_of(a=2, b=2)
    x = np.arange(16, dtype=np.float32).reshape(4, 4)

    def outer(v: Any) -> Any:
        def inner(u: Any) -> Any:
            return u + lax.psum(u, "b") + lax.axis_index("a")
        return calque.shard_map(inner, mesh=mesh, in_specs=P(None, "b"), out_specs=P(None, "b"),
                                axis_names={"b"})(v) * lax.psum(1, "a")

    got = calque.shard_map(outer, mesh=mesh, in_specs=P("a"), out_specs=P("a"),
                           axis_names={"a"})(x)
    both = x.reshape(2, 2, 2, 2)
    want = both + both.sum(2, keepdims=True) + np.arange(2).reshape(2, 1, 1, 1)
    np.testing.assert_array_equal(got, 2 * want.reshape(4, 4))
    assert got.sharding.spec == P("a")


def test_context_mesh_decorator_and_inferred_specs() -> None:
    mesh = calque.make_mesh((4,), ("x",))
    x = calque.device_put(X, calque.NamedSharding(mesh, P("x")))

    @calque.shard_map(out_specs=P("x"))
    def double(v: Any) -> Any:
        assert v.shape == (2,)
        assert calque.sharding.get_abstract_mesh().axis_types == (AxisType.Manual,)
        return 2 * v

    with calque.set_mesh(mesh):
        assert double(x).sharding == x.sharding
    from calque.experimental.shard_map import shard_map
    older = shard_map(lambda v: lax.psum(v, "x"), mesh_of(x=4), in_specs=P("x"), out_specs=P())
    np.testing.assert_array_equal(older(X), X.reshape(4, 2).sum(0))


@pytest.mark.parametrize("mapped", ["pmap", "shard_map"])
def test_only_branches_that_are_taken_run(mapped: str) -> None:
    """Over devices a predicate chooses, and loops end when each likes."""
    seen: list[float] = []

    def body(x: Any) -> Any:
        def taken() -> Any:
            calque.debug.callback(lambda v: seen.append(float(v)), x)
            return x * 10
        y = lax.cond(x > 4, taken, lambda: x)
        zero = 0 * x
        return lax.while_loop(lambda c: c[0] < x, lambda c: (c[0] + 1, c[1] * 2), (zero, y))[1]

    if mapped == "pmap":
        got = calque.pmap(body)(X)
    else:
        got = calque.shard_map(lambda v: body(v[0])[None], mesh=mesh_of(x=8), in_specs=P("x"),
                               out_specs=P("x"))(X)
    np.testing.assert_array_equal(got, np.where(X > 4, X * 10, X) * 2 ** X)
    assert sorted(seen) == [5, 6, 7]


def test_loops_that_communicate_are_masked() -> None:
    """A branch with a collective over the axis runs for all; each keeps what is its own."""
    got = calque.pmap(lambda x: lax.cond(x > 2, lambda: lax.psum(x, "i"), lambda: x),
                      axis_name="i")(X)
    np.testing.assert_array_equal(got, np.where(X > 2, X.sum(), X))


def mapped(f: Any, **options: Any) -> Any:
    options = {"mesh": mesh_of(x=4), "in_specs": P("x"), "out_specs": P("x"), **options}
    return calque.shard_map(f, **options)


def same(x: Any) -> Any:
    return x


MESH = mesh_of(x=4)


@pytest.mark.parametrize("call, kind, words", [
    (lambda: mapped(same)(X[:6]), ValueError, "not evenly divisible.*x of shape.*of size 6"),
    (lambda: mapped(lambda t: t["a"])({"a": X[:6], "b": X[:7]}), ValueError,
     r"t\['a'\] of shape(.|\n)*t\['b'\] of shape"),
    (lambda: mapped(same, in_specs=P("x", None))(X), ValueError,
     "in_specs entry which is too long"),
    (lambda: mapped(same, in_specs=P("y"))(X), ValueError, "refers to 'y'"),
    (lambda: mapped(same, out_specs=P("x", "y"))(X), ValueError, "refers to 'y'"),
    (lambda: mapped(same, out_specs=P())(X), ValueError, "can't be statically inferred"),
    (lambda: mapped(lambda x: x.sum())(X), ValueError, "out_specs entry which is too long"),
    (lambda: mapped(same, in_specs=(P("x"), P("x")))(X), ValueError, "pytree structure error"),
    (lambda: mapped(lambda x: (x, x), out_specs=(P("x"),))(X), ValueError,
     "pytree structure error"),
    (lambda: calque.shard_map(same, in_specs=P("x"), out_specs=P("x"))(X), ValueError,
     "context mesh cannot be empty"),
    (lambda: calque.shard_map(same, mesh=MESH, out_specs=P("x"))(X), TypeError, "it was `None`"),
    (lambda: mapped(same, in_specs=3), TypeError, "pytree of `jax.sharding.PartitionSpec`"),
    (lambda: mapped(lambda v: mapped(same)(v))(np.arange(16.0)), ValueError,
     "should match the mesh passed to shard_map"),
    (lambda: mapped(lambda x: lax.scan(lambda c, a: (c + a, a), 0.0, x)[1])(X), TypeError,
     "pcast"),
    (lambda: mapped(lambda x: lax.pcast(x, "x", to="varying"))(X), ValueError, "from=varying"),
    (lambda: lax.pcast(X, "x", to="varying"), ValueError, "under jax.shard_map"),
    (lambda: mapped(lambda x: lax.psum(x, "q"))(X), NameError, "unbound axis name: q"),
    (lambda: mapped(same, axis_names={"q"})(X), ValueError, "names that the mesh has not")])
def test_bad_input(call: Any, kind: Any, words: str) -> None:
    """JAX's classes, in three parts."""
    with pytest.raises(kind, match=f"(?s){words}") as error:
        call()
    assert "Fix: " in str(error.value)


def test_committed_arguments_on_other_devices() -> None:
    x = calque.device_put(X, calque.devices()[5])
    with pytest.raises(ValueError, match=r"incompatible devices.*argument x of .*ids \[5\]"):
        mapped(lambda x: x)(x)
    assert isinstance(MESH, Mesh)


def test_a_sum_over_devices_of_products_is_one_product() -> None:
    """The gradient of replicated weights takes no array of a gradient for each device."""
    mesh = mesh_of(a=2, b=2)
    rng = np.random.default_rng(0)
    w, x = rng.random((3, 5), np.float32), rng.random((8, 3), np.float32)

    def loss(w: Any, x: Any) -> Any:
        return calque.shard_map(lambda w, x: lax.pmean((jnp.sin(x @ w) ** 2).sum(), ("a", "b")),
                                mesh=mesh, in_specs=(P(), P(("a", "b"))), out_specs=P())(w, x)

    grad = calque.jit(calque.grad(loss))
    want = calque.grad(lambda w: (jnp.sin(x @ w) ** 2).sum() / 4)(w)
    np.testing.assert_allclose(grad(w, x), want, rtol=1e-5)
    assert "tensor<2x2x3x5xf32>" not in grad.lower(w, x).as_text()


# ---- vmap(spmd_axis_name=), cond
SPREAD = Mesh(np.array(calque.devices()).reshape(2, 4), ("x", "y"))
GRID = np.arange(64, dtype=np.float32).reshape(8, 8)


def test_spmd_axis_name_splits_the_mapped_axis() -> None:
    """Specs, and what a body sees, as in JAX 0.10.2."""
    def twice(v: Any) -> Any:
        return calque.shard_map(lambda v: 2 * v, mesh=SPREAD, in_specs=P("y"), out_specs=P("y"))(v)

    def pinned(v: Any) -> Any:
        return lax.with_sharding_constraint(v, NamedSharding(SPREAD, P("y")))

    def both(v: Any) -> Any:
        return lax.with_sharding_constraint(v, NamedSharding(SPREAD, P()))

    def index(v: Any) -> Any:
        return calque.shard_map(lambda v: 0 * v + lax.axis_index("x"), mesh=SPREAD,
                                in_specs=P("y"), out_specs=P("y"), check_vma=False)(v)

    def looped(v: Any) -> Any:
        return lax.scan(lambda c, _: (twice(c), None), v, None, length=2)[0]

    for f, spec, value in [
            (twice, P("x", "y"), 2 * GRID), (calque.jit(twice), P("x", "y"), 2 * GRID),
            (pinned, P("x", "y"), GRID), (looped, P("x", "y"), 4 * GRID),
            (index, P("x", "y"), np.repeat([0, 1], 4)[:, None] * np.ones((8, 8)))]:
        made = calque.vmap(f, spmd_axis_name="x")(GRID)
        assert made.sharding.spec == spec
        np.testing.assert_array_equal(made, value)
    assert calque.vmap(both, spmd_axis_name=("x", "y"))(GRID).sharding.spec == P(("x", "y"))
    assert calque.vmap(calque.vmap(both, spmd_axis_name="y"), spmd_axis_name="x")(
        GRID).sharding.spec == P("x", "y")
    found = calque.vmap(calque.grad(lambda v: (twice(v) ** 2).sum()), spmd_axis_name="x")(GRID)
    np.testing.assert_array_equal(found, 8 * GRID)
    assert "in_specs=(P('x', 'y'),)" in str(
        calque.make_jaxpr(calque.vmap(twice, spmd_axis_name="x"))(GRID))
    for call, kind, words in [
            (lambda: calque.vmap(twice, spmd_axis_name="y")(GRID), ValueError, "cannot appear in"),
            (lambda: calque.vmap(pinned, spmd_axis_name="y")(GRID), ValueError, "cannot appear in"),
            (lambda: calque.vmap(twice, spmd_axis_name="x")(GRID[:3]), ValueError, "evenly divide"),
            (lambda: calque.vmap(pinned, spmd_axis_name="q")(GRID), ValueError, "not found in"),
            (lambda: calque.vmap(jnp.sin, spmd_axis_name="y")(calque.device_put(
                GRID, NamedSharding(calque.make_mesh((8,), ("x",)), P("x")))), ValueError,
             "Only one of spmd_axis_name")]:
        with pytest.raises(kind, match=f"{words}(.|\n)*Fix: "):
            call()  # type: ignore[no-untyped-call]


def _body(f: Any, **options: Any) -> Any:
    return lambda: calque.shard_map(f, mesh=mesh_of(x=2, y=4), in_specs=P("x"),
                                    out_specs=P("x"), **options)(X)


ZEROS = np.zeros(4, np.float32)
AGREE: list[tuple[Any, Any]] = [  # branches that vary alike, and what they give
    (_body(lambda a: lax.cond(True, lambda a: a, lambda a: 2 * jnp.ones_like(a), a)), X),
    (_body(lambda a: lax.cond(a[0] > 0, lambda: jnp.zeros(4), lambda: jnp.ones(4))),
     np.repeat([1, 0], 4)),
    (_body(lambda a: lax.cond(True, lambda a: lax.pcast(lax.psum(a, "x"), "x", to="varying"),
                              lambda a: a, a)), np.tile(X[:4] + X[4:], 2)),
    (_body(lambda a: lax.cond(a[0] > 0, lambda a: lax.psum(a, "x"), lambda a: lax.pmax(a, "x"), a)),
     np.concatenate([X[4:], X[:4] + X[4:]])),
    (_body(lambda a: lax.cond(True, lambda a: a, lambda a: jnp.zeros(4), a), check_vma=False), X),
    (_body(lambda a: calque.grad(lambda a: lax.cond(
        True, lambda a: a.sum(), lambda a: lax.psum(a, "x").sum() * 0 + a.sum(), a))(a)),
     np.ones(8))]


def test_branches_that_vary_alike() -> None:
    for f, want in AGREE:
        np.testing.assert_array_equal(f(), want)
    same = calque.shard_map(
        lambda a: lax.cond(True, lambda a: lax.psum(a, "x"), lambda a: lax.pmax(a, "x"), a),
        mesh=mesh_of(x=2), in_specs=P("x"), out_specs=P())
    np.testing.assert_array_equal(same(X), X[:4] + X[4:])


@pytest.mark.parametrize("f, words", [
    (lambda a: lax.cond(True, lambda a: a, lambda a: jnp.zeros(4), a),
     "float32\\[4\\]{V:x} but the corresponding output of false_fun has type float32\\[4\\], so the"
     " manual axis types do not match(.|\n)*Fix: .*pcast(.|\n)*'x'.*false_fun"),
    (lambda a: lax.cond(True, lambda a: lax.psum(a, "x"), lambda a: a, a), "pcast.*true_fun"),
    (lambda a: lax.cond(a[0] > 0, lambda a: lax.psum(a, "x"), lambda a: 0 * a, a),
     "pcast.*true_fun"),
    (lambda a: lax.switch(1, [lambda a: a, lambda a: jnp.zeros(4), lambda a: 2 * a], a),
     "pcast.*branches.1"),
    (lambda a: lax.cond(True, lambda a: (a, jnp.zeros(4)), lambda a: (jnp.zeros(4), a), a)[0],
     "at path .0.(.|\n)*at path .1.(.|\n)*pcast"),
    (lambda a: calque.vmap(lambda p, x: lax.cond(p > 0, lambda x: x, lambda x: 0., x))(a, a),
     "pcast.*false_fun"),
    (lambda a: lax.cond(True, lambda a: lax.fori_loop(0, 2, lambda i, c: 2 * c, jnp.zeros(4)),
                        lambda a: a, a), "pcast.*true_fun")])
def test_branches_that_vary_differently(f: Any, words: str) -> None:
    """Eagerly, and in a function that is jitted inside."""
    for g in (f, lambda a: calque.jit(f)(a)):
        with pytest.raises(TypeError, match=f"branches must have equal output types(.|\n)*{words}"):
            _body(g)()


@pytest.mark.parametrize("draw", [calque.random.poisson, *[
    pytest.param(f, marks=pytest.mark.slow) for f in (
        calque.random.gamma, calque.random.t,
        lambda k, a: calque.random.binomial(k, 5 * a, a / 2))]], ids=[
            "poisson", "gamma", "t", "binomial"])
def test_loops_of_ours_start_from_what_varies_as_they_need(draw: Any) -> None:
    """Draws by rejection with a key for each device: the same as by itself."""
    mesh, key = mesh_of(x=2), calque.random.key(0)
    a = np.ones((4, 1), np.float32)

    def local(k: Any, a: Any) -> Any:
        return draw(calque.random.fold_in(k, lax.axis_index("x")), a)

    got = calque.shard_map(local, mesh=mesh, in_specs=(P(), P("x")), out_specs=P("x"))(key, a)
    want = [draw(calque.random.fold_in(key, i), a[:2]) for i in range(2)]
    np.testing.assert_allclose(got, np.concatenate(want), rtol=1e-6)
    with pytest.raises(TypeError, match="manual axis types do not match"):  # the user's loops
        calque.shard_map(lambda a: lax.fori_loop(0, 2, lambda i, c: c + a, jnp.zeros((2, 1))),
                         mesh=mesh, in_specs=P("x"), out_specs=P("x"))(a)


@pytest.mark.parametrize("method", [None, "broadcast_all"])
def test_each_device_calls_back_with_its_part(method: Any) -> None:
    seen: list[Any] = []

    def host(v: Any) -> Any:
        seen.append(v.shape)
        return np.asarray(v) + np.arange(v.shape[0], dtype=np.float32)
    mesh = mesh_of(x=4)
    pure = calque.shard_map(lambda v: calque.pure_callback(host, v, v, vmap_method=method),
                            mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    np.testing.assert_array_equal(calque.jit(pure)(X), X + np.tile([0, 1], 4))
    assert seen == [(2,)] * 4
    ordered = calque.shard_map(lambda v: calque.experimental.io_callback(host, v, v, ordered=True),
                               mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    np.testing.assert_array_equal(calque.jit(ordered)(X), X + np.tile([0, 1], 4))


def test_arguments_that_are_no_arrays() -> None:
    mesh = mesh_of(x=4)

    def f(act: Any, x: Any, shape: Any) -> Any:
        return act(x) + jnp.ones(shape)
    mapped = calque.shard_map(f, mesh=mesh, in_specs=(None, P("x"), None), out_specs=P("x"))
    for act, want in ((jnp.sin, np.sin(X)), (jnp.cos, np.cos(X)), (jnp.sin, np.sin(X))):
        np.testing.assert_allclose(mapped(act, X, (2,)), want + 1, rtol=1e-6)
        np.testing.assert_allclose(calque.jit(lambda x, act=act: mapped(act, x, (2,)))(X), want + 1,
                                   rtol=1e-6)
    scaled = calque.shard_map(lambda x, by: x * by["a"], mesh=mesh, in_specs=(P("x"), None),
                              out_specs=P("x"))
    assert scaled(X, {"a": 2}).tolist() == (X * 2).tolist()
    assert scaled(X, {"a": np.float32(3)}).tolist() == (X * 3).tolist()


def test_one_within_another_maps_the_axes_that_are_left() -> None:
    def inner(v: Any) -> Any:
        return calque.shard_map(lambda w: w * lax.axis_size("y"), in_specs=P(None, "y"),
                                out_specs=P(None, "y"))(v)

    def outer(v: Any) -> Any:
        return calque.shard_map(inner, in_specs=P("x"), out_specs=P("x"), axis_names={"x"},
                                check_vma=False)(v)
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    with calque.set_mesh(mesh_of(x=2, y=2)):
        np.testing.assert_array_equal(calque.jit(outer)(x), 2 * x)
        np.testing.assert_array_equal(calque.grad(lambda v: outer(v).sum())(x), 2 * np.ones_like(x))


@pytest.mark.parametrize("axes", [(0, 0), (1, 1), (-1, -2)])
def test_smap_is_vmap_over_blocks(axes: tuple[int, int]) -> None:
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    parts = np.stack(np.split(x, 2, axes[0]))
    want = np.concatenate([np.cumsum(p, 0) + i for i, p in enumerate(parts)], axes[1])
    with calque.set_mesh(mesh_of(x=2, y=2)):
        f = calque.smap(lambda p: jnp.cumsum(p, 0) + lax.axis_index("y"), in_axes=axes[0],
                        out_axes=axes[1], axis_name="y")
        np.testing.assert_array_equal(f(x), want)
        np.testing.assert_array_equal(calque.jit(f)(x), want)


def test_smap_within_smap() -> None:
    @calque.smap(axis_name="x", in_axes=(0, None), out_axes=(0, None))
    def f(x: Any, w: Any) -> Any:
        inner = calque.smap(lambda x: lax.psum(x.sum(), "y"), axis_name="y", in_axes=0,
                            out_axes=None)
        return x * inner(x), w
    with calque.set_mesh(mesh_of(x=2, y=2)):
        x, w = f(X, W)
    assert x.tolist() == [0, 6, 12, 18, 88, 110, 132, 154] and w == W
    with calque.set_mesh(mesh_of(x=2)), pytest.raises(ValueError, match="axis 1 of an array with"):
        calque.smap(lambda x: x, in_axes=1, out_axes=0, axis_name="x")(X)
    with pytest.raises(TypeError, match="must be an int, None"):
        calque.smap(lambda x: x, in_axes="x", out_axes=0, axis_name="x")
