"""Exported functions of symbolic sizes: what they are called with, also while tracing."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calque
import calque.numpy as jnp
from calque import export
from calque.core.dims import Dim
from calque.export import solve


def spec(text: str, constraints: tuple[str, ...] = ()) -> Any:
    return calque.ShapeDtypeStruct(export.symbolic_shape(text, constraints=constraints), "float32")


def made(f: Callable[..., Any], text: str, vjp: int = 0, **options: Any) -> export.Exported:
    """Exported, written and read."""
    return export.deserialize(export.export(calque.jit(f))(spec(text, **options)).serialize(vjp))


# name -> function, its sizes, those of the caller, a shape
CALLS: dict[str, tuple[Callable[..., Any], str, str, tuple[int, ...]]] = {
    "reshape": (lambda x: jnp.reshape(x, (-1, x.shape[1])), "3,a,a+b", "3,c+2,c+12", (3, 5, 15)),
    "mean": (lambda x: x.mean(0) - x.std(1).sum(), "a,b", "c,2*d", (3, 4)),
    "slices": (lambda x: jnp.concatenate([x[1:], x[::2], x * x.shape[0]]), "a,b", "c,4", (5, 4)),
    "outer": (lambda x: x[:, None, :] * x[None], "a,b", "c,d", (2, 3)),
    "divided": (lambda x: jnp.broadcast_to(x.sum(), (x.shape[0] // 2 + 1, x.shape[1] % 3 + 1)),
                "a,b", "c,d", (5, 7)),
    "product": (lambda x: x @ x.T, "a,b", "c,d", (2, 3)),
    "softmax": (calque.nn.softmax, "a,b", "c,c", (3, 3))}


@pytest.mark.parametrize("name", CALLS)
def test_called_with_symbolic_sizes(name: str) -> None:
    """Against the function itself, on NumPy's or its own values; the derivative likewise."""
    f, sizes, outer_sizes, shape = CALLS[name]
    inner = made(f, sizes, vjp=1)
    outer = made(lambda x: inner.call(x * 2), outer_sizes)
    x = np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)
    np.testing.assert_allclose(outer.call(x), f(jnp.asarray(x) * 2), rtol=1e-5, atol=1e-5)
    assert any(isinstance(n, Dim) for n in outer.out_avals[0].shape)

    def loss(g: Callable[..., Any]) -> Callable[..., Any]:
        return lambda v: (g(v * 2) ** 2).sum()

    slope = export.export(calque.jit(calque.grad(loss(inner.call))))(spec(outer_sizes))
    np.testing.assert_allclose(slope.call(x), calque.grad(loss(f))(jnp.asarray(x)),
                               rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("sizes", "outer", "message"), [
    ("3,a,a", "3,c,d", r"shape\[2\] \(= d\) and the specification 'a' \(= c\)"),
    ("3,4,5*a", "3,4,c", r"Division had remainder mod\(c, 5\) when computing the value of 'a'"),
    ("3,4,a+12", "3,4,c", r"(?s)Expected value >= 1 for dimension variable 'a'.*'a' = c - 12 from"),
    ("3,a,b", "c,4,5", r"Shape mismatch for args\[0\].shape\[0\] \(expected same constant\)"),
    ("3,a,a", "3,c", r"Rank mismatch for args\[0\]")])
def test_what_is_not_known_to_fit_is_refused(sizes: str, outer: str, message: str) -> None:
    inner = made(lambda x: x.sum(0), sizes)
    with pytest.raises(ValueError, match=message):
        export.export(calque.jit(inner.call))(spec(outer))


def test_constraints_are_checked() -> None:
    e = export.export(calque.jit(lambda x: x.sum(0)))(spec("a,b", ("a >= 8", "b <= a")))
    assert e.call(np.ones((8, 2), "f4")).shape == (2,)
    for shape, message in (((5, 3), "Expected 'a - 8' to be greater or equal to 0, but found -3"),
                           ((8, 9), "Expected 'a - b' to be greater or equal to 0, but found -1")):
        with pytest.raises(ValueError, match=message):
            e.call(np.ones(shape, "f4"))
    inner = made(lambda x: x.sum(0), "a+1,b")
    outer = export.export(calque.jit(inner.call))(spec("c,d", ("c >= 2",)))
    assert str(outer.out_avals[0]) == "float32[d]"


@settings(deadline=None, max_examples=150, derandomize=True)
@given(st.lists(st.tuples(*[st.integers(-3, 4)] * 3, st.integers(0, 5)), min_size=1, max_size=4),
       st.tuples(*[st.integers(1, 6)] * 3))
def test_plans_find_the_values(rows: Any, values: Any) -> None:
    """Linear equations of which a plan takes some: its steps give the values they were made of."""
    names = ("x", "y", "z")
    scope = export.SymbolicScope()
    x, y, z = export.symbolic_shape("x,y,z", scope=scope)
    sizes = [n for a, b, c, k in rows if isinstance(n := a * x + b * y + c * z + k, Dim)]
    truth = dict(zip(names, values))
    steps, left = solve.plan(sizes)
    found: dict[str, int] = {}
    for step in steps:
        have = sizes[step.index].evaluate(truth)
        if step.name:
            value, rest = divmod(have - solve.value_of(step.rest, found), step.factor)
            found[step.name] = value
            assert rest == 0 and value == truth[step.name]
        else:
            assert solve.value_of(sizes[step.index], found) == have
    assert sorted([s.index for s in steps] + left) == list(range(len(sizes)))
    for i in left:  # what is left has two unknowns or more
        assert len(sizes[i].variables() - found.keys()) > 1


def test_functions_of_numpy_have_stages() -> None:
    assert float(jnp.sin.lower(1.0).compile()(1.0)) == pytest.approx(np.sin(1.0))  # type: ignore[attr-defined]
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    compiled = jnp.sum.lower(x, axis=0).compile()  # type: ignore[attr-defined]
    np.testing.assert_array_equal(compiled(x), x.sum(0))
    assert export.export(jnp.cos)(1.0).fun_name == "cos"
    assert jnp.reshape.eval_shape(x, (3, 2)).shape == (3, 2)  # type: ignore[attr-defined]


def test_versions_of_the_calling_convention() -> None:
    for version in (9, 10):
        with calque.config.context("jax_export_calling_convention_version", version):
            e = export.export(jnp.sin)(1.0)
        assert export.deserialize(e.serialize()).calling_convention_version == version
    for version in (8, 11):
        with (calque.config.context("jax_export_calling_convention_version", version),
              pytest.raises(ValueError, match=f"calling convention version {version} is outside")):
            export.export(jnp.sin)


def test_scopes_and_constraints_that_do_not_fit() -> None:
    f = calque.jit(lambda x, y: jnp.concatenate([x, y], 1))
    with pytest.raises(ValueError, match=r"(?s)Invalid mixing of symbolic scopes.*from args\[0\]"
                                         r".*found for 'w' \(args\[1\]\)"):
        export.export(f)(spec("w,h1"), spec("w,h2"))
    with pytest.raises(ValueError, match="Encountered dimension variable 'm1'"):
        export.export(calque.jit(lambda x: x))(spec("m", ("m >= m1",)))
    with pytest.raises(ValueError, match="If `from_children` is not present"):
        export.register_pytree_node_serialization(
            type("Unknown", (), {}), serialized_name="test.unknown",
            serialize_auxdata=lambda aux: b"", deserialize_auxdata=lambda raw: None)


def test_keys_with_a_sharding_are_exported() -> None:
    where = calque.sharding.SingleDeviceSharding(calque.devices()[0])
    f = calque.jit(lambda key: calque.random.split(key), in_shardings=where, out_shardings=where)
    key = calque.random.key(7)
    again = export.deserialize(export.export(f)(key).serialize())
    assert (calque.random.key_data(again.call(key))
            == calque.random.key_data(calque.random.split(key))).all()


def test_what_an_exported_function_calls_uses_global_constants() -> None:
    f = calque.jit(jnp.sin)
    symbolic = export.export(f)(calque.ShapeDtypeStruct(export.symbolic_shape("n"), jnp.float32))
    several = export.export(f, platforms=("cpu", "cuda"))(jnp.ones(3))
    plain = export.export(f)(jnp.ones(3))
    for e, wanted in ((symbolic, True), (several, True), (plain, False)):
        outer = export.export(calque.jit(lambda x, e=e: calque.jit(e.call)(x) * 2))(jnp.ones(3))
        assert outer.uses_global_constants == wanted


def divides(x: Any) -> Any:
    n, m = x.shape
    return x.sum() + m % (n // 2) + 10 * (m // (n - 3))


@pytest.mark.parametrize("written", [0, 1, 2])
@pytest.mark.parametrize(("sizes", "outer"), [
    ("a,b", ""), ("a,b", "c,d"), ("a,b", "c+d,d"), ("a,b", "2*c,3*d")])
def test_divisors_and_constraints_are_of_every_call(written: int, sizes: str, outer: str) -> None:
    """Sizes that give the divisor 0, or are against a constraint, are refused also by what was
    written and read, and by a function of symbolic sizes that calls it; others are Python's."""
    e = export.export(calque.jit(divides))(spec(sizes, ("b <= 3*a",) if written else ()))
    for _ in range(written):
        e = export.deserialize(e.serialize())
    assert e.mlir_module().count("@shape_assertion") == 2 + bool(written)
    if outer:
        e = export.export(calque.jit(e.call))(spec(outer))
        e = export.deserialize(e.serialize()) if written == 2 else e
    for n, m in ((2, 3), (4, 3), (6, 3), (8, 6), (1, 3), (3, 3), (2, 9), (6, 24)):
        x = np.ones((n, m), np.float32)
        fits = outer in ("", "c,d") or outer == "c+d,d" and n > m or outer == "2*c,3*d" and (
            n % 2 == m % 3 == 0)
        if n in (1, 3) or written and m > 3 * n or not fits:
            with pytest.raises(ValueError, match="Input shapes do not match"):
                e.call(x)
        else:
            assert e.call(x) == n * m + m % (n // 2) + 10 * (m // (n - 3)), (n, m)


def test_a_size_that_divides_by_0() -> None:
    """As an argument's own size: before anything is computed."""
    for constraints in ((), ("a >= 2",)):
        shape = export.symbolic_shape("a, b, mod(b, floordiv(a, 2))", constraints=constraints)
        e = export.export(calque.jit(lambda x: x.sum()))(calque.ShapeDtypeStruct(shape, "float32"))
        for again in (e, export.deserialize(e.serialize())):
            assert again.call(np.ones((6, 8, 2), np.float32)) == 96
            with pytest.raises(ValueError, match="divides by 0"):
                again.call(np.ones((1, 8, 2), np.float32))
