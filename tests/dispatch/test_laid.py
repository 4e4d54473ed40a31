"""Arrays that are not row-major: every use gives the values of the same array in NumPy, and what
lies in memory is the transposition that the layout says."""
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
from calque.experimental.layout import Format, Layout, with_layout_constraint
from calque.sharding import Mesh, NamedSharding, SingleDeviceSharding
from calque.sharding import PartitionSpec as P

RNG = np.random.default_rng(0)


def fmt(order: tuple[int, ...], sharding: Any = None) -> Format:
    return Format(Layout(order), sharding or SingleDeviceSharding(calque.devices()[0]))


def put(a: Any, order: tuple[int, ...]) -> calque.Array:
    return calque.device_put(a, fmt(order))


def order_of(x: Any) -> tuple[int, ...]:
    return x.format.layout.major_to_minor


def check(x: Any, a: Any, order: tuple[int, ...] | None = None, rtol: float = 0) -> None:
    """The value, the layout, and that memory is so; rtol: of functions that round."""
    np.testing.assert_allclose(np.asarray(x), a, rtol=rtol)
    if order is not None:
        assert order_of(x) == order
        lies = x._memory.numpy()
        assert lies.flags.c_contiguous
        np.testing.assert_allclose(lies, np.transpose(a, order), rtol=rtol)


SHAPES = [(3, 4), (2, 3, 4), (2, 0, 3), (1, 5), (2, 3, 2, 2)]
CASES = [(s, o) for s in SHAPES for o in list(itertools.permutations(range(len(s))))[:7]]


@pytest.mark.parametrize(("shape", "order"), CASES)
def test_eager_operations_and_conversions(shape: tuple[int, ...], order: tuple[int, ...]) -> None:
    a = RNG.standard_normal(shape).astype(np.float32)
    x = put(a, order)
    check(x, a, order)
    pairs: list[tuple[Any, Any]] = [
        (x + 1, a + 1), (1 - x, 1 - a), (x + x, a + a), (x * a, a * a), (-x, -a), (x.T, a.T),
        (x[0], a[0]), (x[..., ::2], a[..., ::2]), (x[jnp.array([0, 0])], a[[0, 0]]),
        (x[a > 0], a[a > 0]), (x.reshape(-1), a.reshape(-1)), (jnp.concatenate([x, x]),
                                                               np.concatenate([a, a])),
        (jnp.array([x, x]), np.array([a, a])), (jnp.array(x), a), (x.copy(), a), (jnp.where(
            x > 0, x, 0), np.where(a > 0, a, 0)), (x.at[0].set(7), np.concatenate(
                [np.full_like(a[:1], 7), a[1:]])), (x.view(jnp.int32), a.view(np.int32)),
        (copy.copy(x), a), (copy.deepcopy(x), a), (pickle.loads(pickle.dumps(x)), a),
        (np.from_dlpack(x), a), (jnp.from_dlpack(x), a), (np.add(x, 1), a + 1),
        (jnp.sort(x, axis=-1), np.sort(a, axis=-1)), (calque.device_get(x), a),
        (x.to_device(calque.devices()[0]), a), (jnp.zeros_like(x), np.zeros_like(a)),
        (np.array([x.tolist()], np.float32).reshape(shape), a), (calque.tree.map(
            lambda v: v + 1, {"a": x})["a"], a + 1), (x.addressable_data(0), a)]
    for got, want in pairs:
        np.testing.assert_array_equal(got, want)
    assert bytes(x) == a.tobytes() and repr(x) == repr(jnp.asarray(a))
    assert x.unsafe_buffer_pointer() == x._memory.numpy().ctypes.data
    assert any(v is x for v in calque.live_arrays())
    with pytest.raises(BufferError, match="given away as a copy") if order != tuple(
            range(len(order))) else pytest.MonkeyPatch.context():
        x.__dlpack__(copy=False)
    ref = calque.new_ref(x)
    ref[...] = ref[...] + 1
    np.testing.assert_array_equal(ref[...], a + 1)
    check(x, a, order)  # none of it has changed the array


@pytest.mark.parametrize(("shape", "order"), CASES)
def test_transformations_and_compiled_functions(shape: tuple[int, ...], order: tuple[int, ...]
                                                ) -> None:
    a = RNG.standard_normal(shape).astype(np.float32)
    x = put(a, order)
    double = calque.jit(lambda v: v * 2)
    for got, want in (
            (double(x), a * 2), (calque.vmap(double)(x), a * 2), (double.lower(x).compile()(x),
                                                                   a * 2),
            (calque.grad(lambda v: (v * v).sum())(x), 2 * a), (calque.grad(lambda v: (
                double(v) * v).sum())(x), 4 * a), (calque.jvp(double, (x,), (x,))[1], a * 2),
            (calque.lax.scan(lambda c, v: (c, v + 1), 0.0, x)[1], a + 1),
            (calque.jit(lambda v: v + x)(a), a + a), (calque.checkpoint(double)(x), a * 2),
            (calque.pure_callback(lambda v: np.asarray(v) * 2, x, x), a * 2),
            (calque.export.export(double)(x).call(x), a * 2)):
        np.testing.assert_array_equal(got, want)
        assert order_of(got) == tuple(range(got.ndim))
    for other in list(itertools.permutations(range(len(shape))))[:7]:
        said = fmt(other)
        check(calque.jit(lambda v: v * 2, out_shardings=said)(x), a * 2, other)
        check(calque.jit(lambda v: v, out_shardings=said)(x), a, other)
        check(calque.jit(lambda v: v, in_shardings=said)(a), a, tuple(range(len(shape))))
        check(calque.device_put(x, said), a, other)
        check(with_layout_constraint(x, said.layout), a, other)
        check(calque.lax.with_sharding_constraint(x, said), a, other)
        made = calque.jit(lambda v, w=said.layout: with_layout_constraint(v * 2, w))(x)
        check(made, a * 2, other)
        auto = calque.jit(lambda v: (v.T * 4).T + 1, out_shardings=Format(Layout.AUTO))(x)
        check(auto, a * 4 + 1, order)


def test_what_auto_chooses() -> None:
    """Results as they come: XLA's CPU compiler chooses the same for all but the last."""
    x, z = jnp.arange(12.0).reshape(3, 4), jnp.arange(24.0).reshape(2, 3, 4)
    functions: list[tuple[Callable[..., Any], tuple[Any, ...], tuple[int, ...]]] = [
        (lambda v: v.T, (x,), (1, 0)), (lambda v: v.T * 2, (x,), (1, 0)),
        (lambda v: jnp.exp(v).T, (x,), (1, 0)), (lambda v, w: v.T + w, (x, x.T), (0, 1)),
        (lambda v, w: v.T + w.T, (x, x), (1, 0)), (lambda v, w: v @ w.T, (x, x), (0, 1)),
        (lambda v: v.transpose(1, 2, 0), (z,), (2, 0, 1)), (lambda v: v.sum(0), (z,), (0, 1)),
        (lambda v: v.reshape(2, 3, 2).transpose(2, 0, 1), (x,), (1, 2, 0)),
        (lambda v: v.T.reshape(2, 2, 3), (x,), (0, 1, 2)), (lambda v: v.T[1:], (x,), (0, 1)),
        (lambda v: with_layout_constraint(v * 2, Layout((1, 0))), (x,), (1, 0)),
        (lambda v, w: (v @ w.T).T, (x, x), (1, 0))]
    for f, args, order in functions:
        auto = calque.jit(f, out_shardings=Format(Layout.AUTO))
        compiled = auto.lower(*args).compile()
        assert compiled.output_formats.layout == Layout(order, ())
        for made in (auto(*args), compiled(*args)):
            check(made, np.asarray(f(*args)), order, rtol=1e-6)  # (exp is rounded otherwise alone)
    laid = calque.device_put(x, fmt((1, 0)))
    check(calque.jit(lambda v: v, out_shardings=Format(Layout.AUTO))(laid), x, (1, 0))


def test_donation_and_deletion() -> None:
    a = RNG.standard_normal((4, 6)).astype(np.float32)
    said = fmt((1, 0))
    for f in (calque.jit(lambda v: v * 2, donate_argnums=0),
              calque.jit(lambda v: v * 2, donate_argnums=0, out_shardings=said),
              calque.jit(lambda v: v * 2, donate_argnums=0, in_shardings=said)):
        for x in (put(a, (1, 0)), put(a, (1, 0))):
            np.testing.assert_array_equal(f(x), a * 2)
            assert x.is_deleted() and not any(v is x for v in calque.live_arrays())
            for use in (lambda v: v + 1, np.asarray, f, calque.jit(lambda v: v)):
                with pytest.raises(RuntimeError, match="deleted"):
                    use(x)
    plain = jnp.asarray(a) + 0  # one that is copied into the layout is given away, too
    np.testing.assert_array_equal(f(plain), a * 2)
    assert plain.is_deleted()
    x = put(a, (1, 0))
    y = calque.device_put(x, may_alias=False)
    x.delete()
    assert x.is_deleted() and not y.is_deleted()
    check(y, a, (1, 0))
    x = put(a, (1, 0))
    with pytest.raises(ValueError, match=r"set the \*\*output layout\*\* to \*\*Layout.AUTO"):
        calque.jit(lambda v: v * 2, donate_argnums=0, in_shardings=Format(Layout.AUTO))(a)
    bad = calque.jit(lambda v: v * 2, donate_argnums=0, out_shardings=Format(Layout.AUTO))
    for _ in range(2):
        with pytest.raises(ValueError, match=r"set the \*\*input layout\*\* to \*\*Layout.AUTO"):
            bad(a)


def test_many_types_and_keys() -> None:
    for dtype in ("int8", "bool", "complex64", "int32", "bfloat16", "float8_e4m3fn", "int4"):
        a = RNG.integers(0, 2, (5, 7)).astype(jnp.dtype(dtype))
        x = put(a, (1, 0))
        y, t = calque.jit(lambda v: (v, v.T), out_shardings=(fmt((1, 0)), None))(x)
        assert order_of(y) == (1, 0)
        for got, want in ((x, a), (y, a), (t, a.T)):
            np.testing.assert_array_equal(np.asarray(got), want)
    keys = calque.random.split(calque.random.key(0), 6).reshape(2, 3)
    words = np.asarray(calque.random.key_data(keys))
    laid = calque.device_put(keys, fmt((1, 0)))
    for got, want in ((laid, words), (calque.jit(lambda k: k.T)(laid), words.swapaxes(0, 1)),
                      (calque.jit(lambda k: k, out_shardings=fmt((1, 0)))(keys), words)):
        np.testing.assert_array_equal(calque.random.key_data(got), want)


def test_errors_of_committed_arrays_and_layouts() -> None:
    x = calque.device_put(jnp.ones((3, 4)), calque.devices()[0])
    laid = calque.device_put(x, fmt((1, 0)))
    for call, match in (
            (lambda: calque.jit(lambda v: v, in_shardings=fmt((1, 0)))(x), "passed to jit does"),
            (lambda: calque.jit(lambda v: v, in_shardings=fmt((0, 1)))(laid), "passed to jit does"),
            (lambda: calque.jit(lambda v: v, in_shardings=Format(Layout.AUTO))(x), "layout: AUTO"),
            (lambda: calque.jit(lambda v: v).lower(x).compile()(laid), "for input layouts"),
            (lambda: calque.jit(lambda v: v).lower(laid).compile()(x), "for input layouts"),
            (lambda: calque.jit(lambda v: v, in_shardings=Layout.AUTO), "not accept device-local"),
            (lambda: calque.device_put(x, fmt((0, 0))), "names each axis once"),
            (lambda: calque.jit(lambda v: v, out_shardings=fmt((0, 1, 2)))(x), "rank of the val")):
        for _ in range(2):
            with pytest.raises(ValueError, match=match):
                call()
    with pytest.raises(NotImplementedError, match="do not lie in tiles"):
        calque.device_put(x, Format(Layout((1, 0), ((8, 128),)), x.sharding))
    with pytest.raises(NotImplementedError, match="results of functions that use references"):
        ref = calque.new_ref(0.0)
        calque.jit(lambda v: (ref.__setitem__(..., v[0, 0]), v)[1], out_shardings=fmt((1, 0)))(x)
    described = calque.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding)
    auto = calque.jit(lambda v: v.T, in_shardings=Format(Layout.AUTO))  # of arrays it is an error
    assert auto.lower(described).compile().input_formats[0][0].layout == Layout((0, 1), ())


def test_descriptions_and_shapes() -> None:
    said = fmt((1, 0))
    x = put(np.ones((3, 4), np.float32), (1, 0))
    s = calque.ShapeDtypeStruct((3, 4), "float32", sharding=said)
    assert s.format == said and s.update(dtype="int32").format == said and s == s.update()
    assert s != calque.ShapeDtypeStruct((3, 4), "float32", sharding=x.sharding)
    assert "format=Layout" in repr(s)
    compiled = calque.jit(lambda v: v * 2).lower(s).compile()
    assert compiled.input_formats[0][0] == x.format
    check(compiled(x), np.full((3, 4), 2), (0, 1))
    f = calque.jit(lambda v: v * 2, in_shardings=said, out_shardings=said)
    assert calque.eval_shape(f, x).format == said and f.eval_shape(x).format == said
    assert calque.eval_shape(lambda v: v, x).format == Format()
    loaded = pickle.loads(pickle.dumps(said))
    assert loaded == said and hash(loaded) == hash(said)


def test_constraints_under_transformations() -> None:
    z = jnp.arange(24.0).reshape(2, 3, 4)
    lay = Layout((1, 0))
    batched = calque.vmap(lambda v: with_layout_constraint(v, lay))
    check(batched(z), z, (0, 2, 1))
    check(calque.jit(batched)(z), z, (0, 2, 1))
    check(calque.vmap(lambda v: with_layout_constraint(v, lay), 1, 1)(z), z, (1, 2, 0))
    x = z[0]
    value, tangent = calque.jvp(lambda v: with_layout_constraint(v * v, lay), (x,), (x,))
    check(value, x * x)
    check(tangent, 2 * x * x)
    check(calque.grad(lambda v: (with_layout_constraint(v, lay) ** 2).sum())(x), 2 * x)
    traced = calque.make_jaxpr(lambda v: with_layout_constraint(v, lay))(x)
    assert [e.name for e in traced.eqns] == ["layout_constraint"]


def test_programs_read_memory_as_it_lies() -> None:
    """No copy is made on the host: the transposition is in the program, or is none."""
    a = np.asarray(RNG.standard_normal((8, 16)), np.float32)
    x = put(a, (1, 0))
    f = calque.jit(lambda v: v.T)
    entry = f.lower(x).entry
    assert entry.orders.program(entry.program).equations == ()  # what lies there is the result
    g = calque.jit(lambda v: (v * 2).T, out_shardings=Format(Layout.AUTO))
    entry = g.lower(jnp.asarray(a)).entry
    assert [e.name for e in entry.orders.program(entry.program).equations] == ["mul"]
    check(f(x), a.T, (0, 1))
    assert "transpose" not in g.lower(jnp.asarray(a)).compile().as_text()
    assert Layout([1, 0]) == Layout((1, 0))  # type: ignore[arg-type]
    plain = calque.device_put(a, x.sharding)  # under a transformation nothing is refused
    h = calque.jit(lambda v: (v * v).sum(), in_shardings=fmt((1, 0)))
    check(calque.grad(h)(plain), 2 * a)
    check(calque.vmap(h)(calque.device_put(a[None], x.sharding)), h(x)[None], rtol=1e-6)  # (sums)


def test_over_a_mesh() -> None:
    mesh = Mesh(calque.devices()[:1], ("x",))
    s = NamedSharding(mesh, P("x", None))
    a = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    x = calque.device_put(a, fmt((1, 0), s))
    check(x, a, (1, 0))
    for shard in x.addressable_shards:
        check(shard.data, a[shard.index], (1, 0))
    y = calque.jit(lambda v: v + 1, in_shardings=fmt((1, 0), s), out_shardings=fmt((1, 0), s))(x)
    check(y, a + 1, (1, 0))
    assert y.sharding == s
    made = calque.make_array_from_callback(a.shape, fmt((1, 0), s), lambda i: a[i])
    check(made, a, (1, 0))
    check(calque.device_put(x, SingleDeviceSharding(calque.devices()[0])), a, (1, 0))
