"""custom_partitioning: what each device does is the user's, and the numbers are the function's.

Oracle: NumPy, and the shardings that jax 0.10.2 tells `partition` on eight CPU devices.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from meshes import mesh_of

import calque
import calque.numpy as jnp
from calque import export
from calque.experimental import checkify
from calque.experimental.custom_partitioning import (
    BATCHING,
    ArrayMapping,
    CompoundFactor,
    SdyShardingRule,
    custom_partitioning,
)
from calque.experimental.shard_alike import shard_alike
from calque.sharding import AxisType, NamedSharding
from calque.sharding import PartitionSpec as P

A = np.arange(64, dtype=np.float32).reshape(8, 8)
MESH = mesh_of(x=2, y=4)


def put(x: Any, *spec: Any, mesh: Any = MESH) -> Any:
    return calque.device_put(x, NamedSharding(mesh, P(*spec)))


def shardings(tree: Any) -> Any:
    return calque.tree.map(lambda s: s.sharding, tree)


def noted(fun: Callable[..., Any], rule: Any, lower: Callable[..., Any] | None = None,
          static: Sequence[int] = (), **options: Any) -> tuple[Any, list[Any]]:
    """fun, each device doing it on whole arrays (or `lower` on its parts), and what is told."""
    seen: list[Any] = []

    def partition(*given: Any) -> Any:
        *_, mesh, args, result = given
        seen.append([s.sharding.spec for s in calque.tree.leaves((args, result))])
        if lower is not None:
            return mesh, lower, shardings(result), shardings(args)
        whole = NamedSharding(mesh, P())
        return mesh, fun, *[calque.tree.map(lambda _: whole, t) for t in (result, args)]

    made = custom_partitioning(fun, static_argnums=static)
    made.def_partition(partition, sharding_rule=rule, **options)
    return made, seen


ROWS = [  # function, rule, specs of arguments, what partition is told (jax's), options
    (lambda x: x * 1, "i j -> i j", [("x", "y")], [P("x", "y")] * 2, {}),
    (lambda x: x * 1, "i j -> i j", [("x", "y")], [P("x", "y")] * 2,
     {"need_replication_factors": ("j",)}),
    (lambda x: x * 1, "i j -> i j", [("x", "y")], [P("x", "y")] * 2,
     {"permutation_factors": ("j",)}),
    (lambda x: x * 1, None, [("x", "y")], [P("x", "y"), P(None, None)], {}),
    (lambda x: x * 1, "... i -> ... i", [("x", "y")], [P("x", "y")] * 2, {}),
    (lambda x: x * 1, "...1i->...1i", [("x", "y")], [P("x", "y")] * 2, {}),
    (lambda a, b: a @ b, "i j, j k -> i k", [("x",), ("y",)],
     [P("x", None), P("y", None), P("x", None)], {"reduction_factors": ("j",)}),
    (lambda x: x.sum(1), "i j -> i", [("x", "y")], [P("x", "y"), P("x")], {}),
    (lambda x: x.T, "i j -> j i", [("x", "y")], [P("x", "y"), P("y", "x")], {}),
    (lambda x: x.reshape(64), "a c -> (a c)", [("x", "y")], [P("x", "y"), P("x")], {}),
    (lambda x: x.reshape(4, 16), "(a b) c -> a (b c)", [("x", "y")],
     [P("x", "y"), P("x", None)], {"b": 2}),
    (lambda x: x[:4], "i j -> i j", [("x", "y")], [P("x", "y")] * 2, {}),
    (lambda x: (x + 1, x.sum(0)), "i j -> i j, j", [("x", "y")],
     [P("x", "y"), P("x", "y"), P("y")], {}),
    (lambda x: x.sum(), "i j -> ", [("x", "y")], [P("x", "y"), P()], {}),
    (lambda x: x * 1, SdyShardingRule(((BATCHING, "i"),), ((BATCHING, "i"),)), [("x", "y")],
     [P("x", "y")] * 2, {}),
    (lambda x: x.reshape(64), SdyShardingRule(
        (ArrayMapping("a", "c"),), ((CompoundFactor("a", "c"),),)), [("x",)],
     [P("x", None), P("x")], {})]


@pytest.mark.parametrize("fun, rule, specs, told, options", ROWS)
def test_partition_is_told_the_shardings(fun: Any, rule: Any, specs: Any, told: Any,
                                         options: Any) -> None:
    f, seen = noted(fun, rule, **options)
    given = [A] * len(specs)
    want = fun(*given)
    found = calque.jit(f)(*[put(x, *s) for x, s in zip(given, specs)])
    calque.tree.map(np.testing.assert_array_equal, found, want)
    assert seen == [told]
    np.testing.assert_array_equal(calque.tree.leaves(f(*given))[0], calque.tree.leaves(want)[0])
    assert len(seen) == 1  # (eagerly, and on one device, it is the function)


def test_users_and_operands_between_say_it_too() -> None:
    f, seen = noted(lambda a, b: a @ b, "i j, j k -> i k", reduction_factors=("j",))
    calque.jit(lambda a, b: f(a * 2, b * 2))(put(A, "x"), put(A, "y"))
    assert seen == [[P("x", "y"), P("y", None), P("x", None)]]
    f, seen = noted(lambda x: x * 1, "i j -> i j")
    where = NamedSharding(MESH, P("x"))
    made = calque.jit(f, out_shardings=where)(A)
    assert seen == [[P("x", None), P("x", None)]] and made.sharding == where
    f, seen = noted(lambda x: x * 1, "i j -> i j")
    made = calque.jit(lambda x: calque.lax.with_sharding_constraint(f(x), where))(A)
    assert seen == [[P("x", None), P("x", None)]]


# ---- what devices do
def product() -> tuple[Any, list[Any]]:
    """A product whose contraction is split: each device sums what it has."""
    def lower(x: Any, y: Any) -> Any:
        i = calque.lax.axis_index("y")
        z = calque.lax.psum(calque.lax.dynamic_slice(x, (i * 0, i * 2), (4, 2)) @ y, "y")
        return z, z * z

    return noted(lambda x, y: (x @ y, (x @ y) ** 2), SdyShardingRule(
        (("i", "j"), ("j", "k")), (("i", "k"), ("i", "k"))), lower)


def test_devices_use_collectives() -> None:
    f, seen = product()
    z, w = calque.jit(f)(put(A, "x"), put(A, "y"))
    np.testing.assert_array_equal(z, A @ A)
    np.testing.assert_array_equal(w, (A @ A) ** 2)
    assert z.sharding == w.sharding == NamedSharding(MESH, P("x"))
    with calque.set_mesh(MESH):
        placed = calque.jit(f, in_shardings=(P("x"), P("y")), out_shardings=P("x"))(
            put(A, "x"), put(A, "y"))
    np.testing.assert_array_equal(placed[1], (A @ A) ** 2)
    assert len(seen) == 2


def test_the_users_function_is_what_runs() -> None:
    add = np.float32(7)  # captured: arrays are constants of it
    rows = jnp.arange(8, dtype=jnp.float32)
    f, _ = noted(lambda x: x, "i j -> i j", lambda x: x + add + rows[:2])
    found = calque.jit(f)(put(A, "x", "y"))
    np.testing.assert_array_equal(found, A + 7 + np.tile([0, 1], 4).astype(np.float32))
    np.testing.assert_array_equal(calque.jit(f)(A), A)
    lowered = calque.jit(f).lower(put(A, "x", "y")).compile()
    np.testing.assert_array_equal(lowered(put(A, "x", "y")), found)


LOOPS: dict[str, Callable[[Any, Any], Any]] = {
    "scan": lambda f, x: calque.lax.scan(lambda c, _: (f(c) + 1, None), x, None, length=3)[0],
    "fori": lambda f, x: calque.lax.fori_loop(0, 3, lambda _, c: f(c) + 1, x),
    "while": lambda f, x: calque.lax.while_loop(
        lambda c: c[0] < 3, lambda c: (c[0] + 1, f(c[1]) + 1), (0, x))[1],
    "jit": lambda f, x: calque.jit(lambda v: f(v) + 1)(calque.jit(f)(f(x) + 1) + 1),
    "cond": lambda f, x: calque.lax.cond(x[0, 0] == 0, lambda v: f(f(f(v) + 1) + 1) + 1, f, x),
    "checkpoint": lambda f, x: calque.checkpoint(lambda v: f(f(f(v) + 1) + 1) + 1)(x),
    "twice": lambda f, x: f(f(f(x) + 1) + 1) + 1}


@pytest.mark.parametrize("loop", LOOPS)
def test_in_loops(loop: str) -> None:
    f, seen = noted(lambda x: x * 2, "i j -> i j", lambda x: x + x + 0 * calque.lax.psum(x, "y"))
    found = calque.jit(lambda x: LOOPS[loop](f, x))(put(A, "x", "y"))
    np.testing.assert_array_equal(found, 8 * A + 7)
    assert seen and all(told == [P("x", "y")] * 2 for told in seen)
    assert found.sharding == NamedSharding(MESH, P("x", "y"))


def test_derivatives_and_vmap_are_the_functions() -> None:
    f, seen = noted(lambda x: jnp.sin(x).sum(1), "i j -> i", lambda x: calque.lax.psum(
        jnp.sin(x).sum(1), "y"))
    x = A / 64
    at = put(x, "x", "y")
    np.testing.assert_allclose(calque.jit(f)(at), np.sin(x).sum(1), rtol=1e-6)
    count = len(seen)
    for gradient in (calque.grad, lambda g: calque.jit(calque.grad(g))):
        np.testing.assert_allclose(gradient(lambda v: f(v).sum())(at), np.cos(x), rtol=1e-6)
    _, tangent = calque.jvp(f, (at,), (at,))
    np.testing.assert_allclose(tangent, (np.cos(x) * x).sum(1), rtol=1e-5)
    stacked = np.stack([x, 2 * x])
    np.testing.assert_allclose(calque.jit(calque.vmap(f))(stacked), np.sin(stacked).sum(2),
                               rtol=1e-5)
    assert len(seen) == count

    @calque.custom_vjp
    def g(v: Any) -> Any:
        return f(v)

    back, told = noted(lambda v, ct: jnp.cos(v) * ct[:, None], "i j, i -> i j",
                       lambda v, ct: jnp.cos(v) * ct[:, None])
    g.defvjp(lambda v: (f(v), v), lambda v, ct: (back(v, ct),))
    found = calque.jit(calque.grad(lambda v: g(v).sum()))(at)
    np.testing.assert_allclose(found, np.cos(x), rtol=1e-6)
    assert told == [[P("x", "y"), P("x"), P("x", "y")]] and len(seen) == count  # (f is dead)
    inside = calque.shard_map(lambda v: f(v), mesh=MESH, in_specs=P("x"), out_specs=P("x"))
    np.testing.assert_allclose(calque.jit(inside)(at), np.sin(x).sum(1), rtol=1e-5)
    assert len(seen) == count
    error, out = checkify.checkify(calque.jit(f))(at)
    assert error.get() is None
    np.testing.assert_allclose(out, np.sin(x).sum(1), rtol=1e-6)


def test_trees_static_arguments_and_rules_that_are_functions() -> None:
    told = []

    def partition(k: int, name: str, mesh: Any, args: Any, result: Any) -> Any:
        assert (k, name) == (3, "c") and set(args[0]) == {"a", "b"}
        told.append((args[0]["a"].sharding.spec, result["sum"].sharding.spec))
        whole = NamedSharding(mesh, P())
        return mesh, lambda t, s: {"sum": k * t["a"] + t["b"] + s}, shardings(result), [
            calque.tree.map(lambda _: result["sum"].sharding, args[0]), whole]

    def rule(k: int, name: str, mesh: Any, args: Any, results: Any) -> Any:
        names = " ".join("ijkl"[:len(args[0].shape)])
        assert k == 3 and mesh == MESH and len(results) == 1
        return f"{names}, {names}, -> {names}", {}

    @custom_partitioning
    def wrong(x: Any) -> Any:
        return x

    f = custom_partitioning(lambda t, s, k, name="c": {"sum": k * t["a"] + t["b"] + s}, (2, 3))
    f.def_partition(partition, sharding_rule=rule)
    tree = {"a": put(A, None, "y"), "b": put(A)}
    found = calque.jit(lambda t: f(t, 1.0, k=3))(tree)
    np.testing.assert_array_equal(found["sum"], 4 * A + 1)
    assert told == [(P(None, "y"), P(None, "y"))]
    np.testing.assert_array_equal(f(tree, 1.0, 3)["sum"], 4 * A + 1)
    with pytest.raises(AttributeError, match="^No partition rule defined for custom_partitioning"):
        wrong(A)


def test_over_explicit_axes_and_exported() -> None:
    explicit = calque.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
    f, seen = noted(lambda x: x * 2, "i j -> i j", lambda x: x + x)
    found = calque.jit(f)(put(A, "x", "y", mesh=explicit))
    np.testing.assert_array_equal(found, 2 * A)
    assert seen == [[P("x", "y")] * 2] and found.sharding.spec == P("x", "y")
    exported = export.export(calque.jit(f))(A)
    np.testing.assert_array_equal(exported.call(A), 2 * A)
    assert "custom_partitioning" in str(calque.make_jaxpr(f)(A))


def fft() -> tuple[Any, Any]:
    """JAX's documented example: transforms of rows, whose last dimension is whole on a device."""
    def kept(s: Any) -> Any:
        return NamedSharding(s.sharding.mesh, P(*s.sharding.spec[:-1], None))

    def partition(mesh: Any, args: Any, result: Any) -> Any:
        return mesh, jnp.fft.fft, kept(args[0]), (kept(args[0]),)

    my_fft = custom_partitioning(lambda x: jnp.fft.fft(x))
    my_fft.def_partition(partition, infer_sharding_from_operands=lambda mesh, args, result: kept(
        args[0]), sharding_rule="...i -> ...i")
    return my_fft, partition


def test_transforms_of_rows() -> None:
    my_fft, _ = fft()
    draw = np.random.default_rng(0)
    x = (draw.normal(size=(16, 8)) + 1j * draw.normal(size=(16, 8))).astype(np.complex64)
    for spec in (("x",), ("y", "x"), (None, "y"), ()):
        found = calque.jit(my_fft)(put(x, *spec))
        np.testing.assert_allclose(found, np.fft.fft(x), atol=2e-5)
    np.testing.assert_allclose(calque.jit(my_fft)(put(x[0], "y")), np.fft.fft(x[0]), atol=2e-5)
    np.testing.assert_allclose(calque.jit(calque.grad(lambda v: jnp.abs(my_fft(v)).sum()))(
        put(x, "x")), calque.grad(lambda v: jnp.abs(jnp.fft.fft(v)).sum())(x), atol=1e-4)


def test_callbacks_say_it_where_shardy_is_off() -> None:
    told = []

    def users(mesh: Any, result: Any) -> Any:
        told.append(result.sharding.spec)
        return result.sharding

    f = custom_partitioning(lambda x: x * 2)
    f.def_partition(lambda mesh, args, result: (mesh, lambda x: x + x, args[0].sharding,
                                                shardings(args)),
                    infer_sharding_from_operands=lambda mesh, args, result: args[0].sharding,
                    propagate_user_sharding=users)
    with pytest.raises(NotImplementedError, match="Need to provide sharding_rule to migrate to Sh"):
        calque.jit(f)(put(A, "x"))
    calque.config.update("jax_use_shardy_partitioner", False)
    try:
        found = calque.jit(f)(put(A, "x"))
        np.testing.assert_array_equal(found, 2 * A)
        assert found.sharding == NamedSharding(MESH, P("x")) and not told
        where = NamedSharding(MESH, P(None, "y"))
        np.testing.assert_array_equal(calque.jit(f, out_shardings=where)(A), 2 * A)
        assert told and set(told) == {P(None, "y")}
    finally:
        calque.config.update("jax_use_shardy_partitioner", True)


# ---- errors
def test_errors_of_partition() -> None:
    def made(given: Any) -> Any:
        f = custom_partitioning(lambda x: x)
        f.def_partition(given, sharding_rule="i j -> i j")
        return calque.jit(f)

    x, whole = put(A, None, "x"), NamedSharding(MESH, P())
    rows = NamedSharding(MESH, P(None, "x"))
    for given, kind, text in (
            (lambda m, a, r: (m, lambda v: v, whole, (rows,)), ValueError,
             r"^Mismatch in result shapes\. \[ShapedArray\(float32\[8,4\]\)\] vs "
             r"\[ShapedArray\(float32\[8,8\]\)\]"),
            (lambda m, a, r: (m, lambda v: v.astype(int), whole, (whole,)), ValueError,
             "^Mismatch in result shapes"),
            (lambda m, a, r: (m, lambda v: (v, v), whole, (whole,)), ValueError, "^Mismatch"),
            (lambda m, a, r: (m, lambda v: v, P(), (whole,)), ValueError,
             "^Custom Partitioning rules must return Sharding"),
            (lambda m, a, r: (m, lambda v: v, whole, (None,)), ValueError, "must return Sharding"),
            (lambda m, a, r: (m, lambda v: v, whole, (whole, whole)), ValueError,
             "are to have the structure"),
            (lambda m, a, r: (m, lambda v: v, calque.devices()[0], (whole,)), ValueError,
             "must return Sharding"),
            (lambda m, a, r: lambda v: v, ValueError, "is to return .mesh, lower_fn"),
            (lambda m, a, r: (m, lambda v: calque.lax.psum(v, "q"), whole, (whole,)), NameError,
             "q"),
            (lambda m, a, r: (m, lambda v: v, NamedSharding(MESH, P("x", "y", None)), (whole,)),
             ValueError, "rank")):
        with pytest.raises(kind, match=text):
            made(given)(x)


@pytest.mark.parametrize("rule, options, text", [
    ("i j", {}, "There is no -> in rule: 'i j'"),
    ("i -> j -> k", {}, "more than one ->"),
    ("i . j -> i", {}, "Character '.' must be used inside ellipsis"),
    ("i ? -> i", {}, r"Unknown character '\?'"),
    ("… i -> i", {}, "Unknown character '…'"),
    ("1 j -> j", {}, "Factor names have to start with a letter, but got '1'"),
    ("(i j -> i", {}, "Brackets are not balanced in rule"),
    ("i) j -> i", {}, "Brackets are not balanced"),
    ("(i (j k)) -> i", {}, "nested brackets are not allowed"),
    ("(i) -> i", {}, "Brackets should contain at least two factors"),
    ("i ... -> i", {}, "Ellipsis can only be used at the beginning of a dimension"),
    ("(i k) j -> j", {"i": 2}, "Factor k is only used in compound factors; must specify its size"),
    ("i j -> j", {"i": 2}, "Factor i represents a whole dimension; do not specify its size"),
    ("i j -> j", {"k": 2}, "Factor k is not used in the rule, but size is provided"),
    ("i j -> j", {"reduction_factors": ("k",)}, "Factor k in reduction_factors is not used"),
    ("i j -> j", {"reduction_factors": ["i"]}, "reduction_factors must be a tuple of factors"),
    ("i j -> j", {"reduction_factors": ("i", "i")}, "contains duplicated factors"),
    ("i j -> j", {"reduction_factors": ("i",), "permutation_factors": ("i",)},
     "can only be in one of the reduction, need replication, or permutation"),
    (None, {"reduction_factors": ("i",)}, "Unknown keyword arguments: "),
    (None, {"i": 2}, "Unknown keyword arguments: ")])
def test_rules_that_are_not_well_formed(rule: Any, options: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        custom_partitioning(lambda x: x).def_partition(print, sharding_rule=rule, **options)


@pytest.mark.parametrize("fun, rule, options, text", [
    (lambda x: x, "i -> i", {}, "Sharding rule 0th operand has rank 1, but the operation 0th oper"),
    (lambda x: x, "i j, i j -> i j", {}, "has 2 operands, but the operation has 1 operands"),
    (lambda x: x, "i j -> i j, i", {}, "has 2 results, but the operation has 1 results"),
    (lambda x: x.reshape(64), "a c -> (a b)", {"b": 3}, "0th result actual size 64 doesn't match "),
    (lambda x: x[0], "...i -> ...i", {}, "Ellipsis represents different number of leading dim"),
    (lambda x: x[:4], "...i -> ...i", {}, "Batching dimension 0_0 corresponds to two sizes: 8 and"),
    (lambda x: x, lambda *_: 3, {}, "callable must produce either an SdyShardingRule object")])
def test_rules_that_do_not_fit(fun: Any, rule: Any, options: Any, text: str) -> None:
    f, _ = noted(fun, rule, **options)
    with pytest.raises(ValueError, match=text):
        calque.jit(f)(put(A, "x"))


def test_other_errors() -> None:
    f, _ = noted(lambda x, k: x * k, "i j -> i j", static=(1,))
    with pytest.raises(calque.errors.UnexpectedTracerError, match="^Found a JAX Tracer object pas"):
        calque.jit(lambda x, k: f(x, k))(A, 2)
    with pytest.raises(TypeError, match="could not be resolved to positional-only arguments"):
        f(A, q=1)
    with pytest.raises(TypeError, match="rule must be a str, but got"):
        custom_partitioning(lambda x: x).def_partition(print, sharding_rule=3)
    with pytest.raises(TypeError, match="factor_sizes must be a dict of str to int"):
        custom_partitioning(lambda x: x).def_partition(print, sharding_rule="(i j) -> i", j="2")
    for wrong in (lambda: CompoundFactor("i"), lambda: CompoundFactor("i", 1),
                  lambda: CompoundFactor("i", BATCHING), lambda: ArrayMapping(1),
                  lambda: ArrayMapping("i", BATCHING), lambda: ArrayMapping("i?")):
        with pytest.raises(ValueError, match="\n  Fix: "):
            wrong()
    assert str(SdyShardingRule((("i",),), (("i",),), permutation_factors=("i",))) == (
        "SdyShardingRule((('i',),), (('i',),), {} permutation_factors=('i',))")


# ---- shard_alike
def test_what_is_alike_is_spread_alike() -> None:
    x, where = put(A, "x", "y"), NamedSharding(MESH, P("x", "y"))
    other = np.arange(64).reshape(8, 8)
    for run in (shard_alike, calque.jit(shard_alike)):
        for pair in ((x, other), (other, x)):
            made = run(*pair)
            assert [m.sharding for m in made] == [where] * 2
            np.testing.assert_array_equal(made[0], pair[0])
            np.testing.assert_array_equal(made[1], pair[1])
    made = calque.jit(lambda v: shard_alike({"a": v, "b": v.T}, {"a": other, "b": v})[1])(x)
    assert made["a"].sharding == where and made["a"].dtype == jnp.int32

    seen: list[Any] = []

    def f(v: Any) -> Any:
        v, w = shard_alike(v, jnp.cos(jnp.zeros((8, 8))))
        calque.debug.inspect_array_sharding(w, callback=seen.append)
        return (v * w * w).sum()

    np.testing.assert_allclose(calque.grad(calque.jit(f))(x), np.ones((8, 8)))
    assert seen and set(seen) == {where}
    g = calque.jit(calque.grad(lambda v: (lambda a, b: (a * a * b).sum())(*shard_alike(v, 2 * v))))
    np.testing.assert_allclose(g(x), 6 * A ** 2, rtol=1e-6)
    tangents = calque.jvp(shard_alike, (A, A), (A, 2 * A))[1]
    np.testing.assert_array_equal(tangents[1], 2 * A)
    one, both = calque.jit(calque.vmap(shard_alike, (None, 1)))(A[0], x)
    np.testing.assert_array_equal(one, np.tile(A[0], (8, 1)))
    np.testing.assert_array_equal(both, A.T)
    assert both.sharding.spec == one.sharding.spec == P("y", "x")


def test_errors_of_what_is_not_alike() -> None:
    with pytest.raises(ValueError, match="^Trees should be equal. Got x_tree"):
        shard_alike(A, (A,))
    with pytest.raises(ValueError, match="^The leaves shapes of `x` and `y` should match. Got `x`"):
        calque.jit(shard_alike)(A, A[0])
    with pytest.raises(TypeError, match="shard_alike"):
        shard_alike("a", "b")
