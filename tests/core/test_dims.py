"""Dimensions that are known at the call only: text, arithmetic and order as in JAX 0.10.2
(its answers were noted down), constraints, text of types, tracing.
"""

from __future__ import annotations

import itertools
import operator
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import aot
from calque.aot.specs import SpecError, parse_spec, symbolic_args_specs
from calque.core.dims import (
    Dim,
    SymbolicScope,
    bounds,
    is_nonnegative,
    is_symbolic_dim,
    max_dim,
    min_dim,
    quotient,
    symbolic_shape,
)
from calque.errors import InconclusiveDimensionOperation
from calque.runtime import dims as at_run_time

b, c = symbolic_shape("b, c")


@pytest.mark.parametrize(
    "value, text",
    [
        (b * 2, "2*b"),
        (2 * b + 1, "2*b + 1"),
        (b + c - b, "c"),
        (b * c, "b*c"),
        (b // 2, "floordiv(b, 2)"),
        (b % 2, "mod(b, 2)"),
        (-b, "- b"),
        (b - 1, "b - 1"),
        ((b + 1) * (b - 1), "b^2 - 1"),
        ((2 * b) // 2, "b"),
        ((2 * b + 1) // 2, "b"),
        (b // c, "floordiv(b, c)"),
        ((b * c) // c, "b"),
        (b**2, "b^2"),
        (3 - b, "- b + 3"),
        (b * c + b * b + c + 3, "b*c + b^2 + c + 3"),
        (2 * c * b - b + c // 2 * 3, "3*floordiv(c, 2) + 2*b*c - b"),
        (b * c - c * b * b, "- b^2*c + b*c"),
        (4 % b, "mod(4, b)"),
        (4 // b, "floordiv(4, b)"),
        (-b // 2, "floordiv(- b, 2)"),
        ((b - 1) // 2, "floordiv(b - 1, 2)"),
        ((4 * b + 6) // 4, "b + 1"),
        ((b * b) // b, "b"),
        (1 + b + c * 3, "3*c + b + 1"),
        (b - b % 2, "- mod(b, 2) + b"),
        (sum([b, c, 3]), "c + b + 3"),
        (max_dim(b, c), "max(b, c)"),
        (min_dim(b, 3), "min(b, 3)"),
        (max(b, 1), "b"),
        (divmod(b, 2), "(floordiv(b, 2), mod(b, 2))"),
    ],
)
def test_text(value: Any, text: str) -> None:
    assert str(value) == text
    if isinstance(value, Dim):  # it reads back, here and where artifacts are run
        assert symbolic_shape(text, scope=b.scope) == (value,)
        for x, y in itertools.product((1, 2, 5, 9), (1, 3, 4)):
            assert at_run_time.parse(text).evaluate({"b": x, "c": y}) == value.evaluate(
                {"b": x, "c": y}
            )


def test_constants_are_ints() -> None:
    for value, want in ((b - b, 0), ((2 * b) % 2, 0), ((4 * b + 6) % 4, 2), (b * 0, 0)):
        assert type(value) is int and value == want


def test_equality_and_order() -> None:
    assert not (b == 1) and not (b == c) and b == b + 0 and b != c and not b == 0 and not b == "b"  # noqa: SIM201
    assert b >= 1 and b > 0 and b + 1 > b and 2 * b > b and b % 3 < 3 and b % 3 >= 0 and b - 1 >= 0
    assert b <= 2**31 - 1 and bool(b) and b not in (1, 2) and (b, 3) != (c, 3)
    assert hash(b) == hash(symbolic_shape("b", scope=b.scope)[0]) and {b: 1}[b + 0] == 1
    for question in (
        lambda: b > 1,
        lambda: b < c,
        lambda: b - c >= 0,
        lambda: b >= c + 1,
        lambda: b <= b * c,
        lambda: b > 3,
        lambda: max(b, c),
    ):
        with pytest.raises(InconclusiveDimensionOperation, match="is inconclusive") as caught:
            question()
        assert "Fix: " in str(caught.value)
    with pytest.raises(
        InconclusiveDimensionOperation, match="Symbolic dimension 'b' used in a context"
    ):
        int(b)
    with pytest.raises(InconclusiveDimensionOperation):
        range(b)
    assert b != symbolic_shape("b")[0]
    with pytest.raises(ValueError, match="Invalid mixing of symbolic scopes"):
        b + symbolic_shape("b")[0]


def test_needing_a_size_of_1_is_noted() -> None:
    (n,) = symbolic_shape("n")
    assert n >= 0 and max_dim(n, 0) is n and quotient(n * 4, n) == 4 and not n == 0  # noqa: SIM201
    assert not n.scope.positive
    assert n >= 1 and n.scope.positive == {"n"}


@pytest.mark.parametrize(
    "texts, variables, good, bad",
    [
        (["n >= 8"], "n", [{"n": 8}], [{"n": 7}]),
        (["n <= 3", "n >= 2"], "n", [{"n": 2}], [{"n": 4}]),
        (["m >= 2*n"], "m, n", [{"m": 4, "n": 2}], [{"m": 3, "n": 2}]),
    ],
)
def test_constraints(texts: list[str], variables: str, good: Any, bad: Any) -> None:
    shape = symbolic_shape(variables, constraints=texts)
    for kind, left, right in shape[0].scope.constraints:
        assert is_nonnegative(left - right if kind == ">=" else right - left) is True
    rows = [
        at_run_time.parse_constraint(k, str(x), str(y)) for k, x, y in shape[0].scope.constraints
    ]
    assert all(r.holds(sizes) for r in rows for sizes in good)
    assert not any(all(r.holds(sizes) for r in rows) for sizes in bad)


def test_equalities_are_substituted() -> None:
    assert str(symbolic_shape("n, m", constraints=["n == 2*m"])) == "(2*m, m)"
    assert symbolic_shape("mod(n, 2)", constraints=["mod(n, 2) == 0"]) == (0,)
    # a product on the left is rewritten wherever it divides (what JAX 0.10.2 prints)
    a, b, _, _ = symbolic_shape("a, b, c, d", constraints=["a * b == c + d"])
    assert [str(2 * b * a), str(a * b * b), str(a + b)] == ["2*d + 2*c", "b*d + b*c", "b + a"]
    a, b = symbolic_shape("a, b", constraints=["4*a == b"])
    assert [str(4 * a), str(8 * a), str(5 * a), str(4 * a * a)] == ["b", "2*b", "5*a", "a*b"]
    (n,) = symbolic_shape("n", constraints=["n >= 8"])
    assert n >= 5 and not n == 5 and bounds(2 * n + 1, 1) == (17.0, 2.0**32 - 1)  # noqa: SIM201
    for wrong, what in (
        (["n > 8"], "must contain one of '==' or '>=' or '<='"),
        ("n >= 8", "should be a sequence of strings"),
        (["n >= "], "syntax error"),
    ):
        with pytest.raises(ValueError, match=what):
            symbolic_shape("n", constraints=wrong)


def test_bounds_hold() -> None:
    """Random expressions lie within their bounds, and decided comparisons are true."""
    rng = np.random.default_rng(0)
    scope = SymbolicScope(["p >= 3"])
    p, q = symbolic_shape("p, q", scope=scope)
    pool: list[Any] = [p, q, p + q, 2 * p - 3]
    for _ in range(120):
        x, y = (pool[i] for i in rng.integers(len(pool), size=2))
        n = int(rng.integers(1, 5))
        made = [x + y, x - y, x * n - 1, x // n, x % n, max_dim(x, y), min_dim(x, n)][
            rng.integers(7)
        ]
        if isinstance(made, Dim) and len(str(made)) < 60:
            pool.append(made)
    for d in pool:
        low, high = bounds(d, 1)
        decided = is_nonnegative(d)
        for sizes in ({"p": x, "q": y} for x in (3, 4, 7, 50) for y in (1, 2, 5, 49)):
            value = d.evaluate(sizes)
            assert low <= value <= high, d
            assert decided is None or decided == (value >= 0), d
            assert at_run_time.parse(str(d)).evaluate(sizes) == value


def test_reading_shapes() -> None:
    assert symbolic_shape("", like=()) == () and symbolic_shape("(3, 4)") == (3, 4)
    assert symbolic_shape(None, like=(2, 3)) == (2, 3)
    n, three = symbolic_shape("n, ...", like=(2, 3))
    assert is_symbolic_dim(n) and three == 3 and not is_symbolic_dim(three)
    assert str(symbolic_shape("n, _", like=(2, 3))) == "(n, 3)"
    for text in ("a.b", "2*", "mod(b)", "b b", "(b", "^b"):
        with pytest.raises(ValueError):
            symbolic_shape(text)
    with pytest.raises(ValueError, match="no 'like' shape was given"):
        symbolic_shape("n, ...")
    x, y = symbolic_args_specs((jnp.ones((2, 3)), [jnp.ones(3)]), ["n, ...", None])
    assert str(x) == "ShapeDtypeStruct(shape=(n, 3), dtype=float32)" and y[0].shape == (3,)
    scope = SymbolicScope()
    assert str(parse_spec("f32[n, 2*n + 1]", scope).shape) == "(n, 2*n + 1)"
    for text in ("f32[n,]]", "f32[2.5]", "f32[n..]", "f32[?]"):
        with pytest.raises(SpecError):
            parse_spec(text, scope)


DIVIDED = ["mod(b, floordiv(a, 2))", "floordiv(b, floordiv(a, 2))", "mod(b, a - 3)",
           "floordiv(b, a - 3)", "mod(b, -a)", "floordiv(b, -2)", "mod(-b, 3 - a)",
           "mod(b, mod(a, 3))", "floordiv(mod(b, a - 3), floordiv(b, a - 3))", "mod(7, 2*a - b)"]


@pytest.mark.parametrize("text", DIVIDED)
def test_divisors_that_may_be_0(text: str) -> None:
    """They are noted; where what is noted holds, values, bounds and decisions are Python's."""
    names = {"mod": operator.mod, "floordiv": operator.floordiv}
    (d,) = symbolic_shape(text)
    again = symbolic_shape(str(d))[0]
    low, high = bounds(d, 1)
    decided = is_nonnegative(d)
    record = [at_run_time.parse_constraint(">=", str(max_dim(x, -x)), "1")
              for x, kind in again.scope.needs({"a", "b"}) if kind == "!="]
    for sizes in ({"a": a, "b": b} for a in range(1, 9) for b in (1, 2, 5, 8, 30)):
        try:
            want = eval(text, {**names, **sizes})
        except ZeroDivisionError:
            with pytest.raises(ZeroDivisionError):
                d.evaluate(sizes)
            assert not all(c.holds(sizes) for c in record)
            continue
        assert d.evaluate(sizes) == again.evaluate(sizes) == want
        assert at_run_time.parse(str(d)).evaluate(sizes) == want
        assert low <= want <= high and (decided is None or decided == (want >= 0))


def test_divisors_of_calls() -> None:
    """An artifact divides by what its sizes give, and refuses those that give 0."""
    def f(x: Any, y: Any) -> Any:
        n, m = x.shape[0], y.shape[0]
        return y.sum() + m % (n // 2) + 10 * (m // (n - 3)), jnp.ones(m % (n // 2) + 2)
    made = aot.compile(f, "f32[a]", "f32[b]", name="f", constraints=["mod(b, a - 3) >= -9"])
    call = aot.load(made.vmfb).f
    for n, m in ((2, 7), (4, 5), (5, 6), (9, 31)):
        total, ones = call(np.ones(n, np.float32), np.ones(m, np.float32))
        assert total.numpy() == m + m % (n // 2) + 10 * (m // (n - 3))
        assert ones.shape == (m % (n // 2) + 2,)
    for n, text in ((1, r"floordiv\(a, 2\) >= 1 must hold"), (3, r"max\(.*\) >= 1 must hold")):
        with pytest.raises(ValueError, match=text):
            call(np.ones(n, np.float32), np.ones(4, np.float32))


def test_tracing() -> None:
    spec = calque.ShapeDtypeStruct(symbolic_shape("n, 4"), "float32")
    text = str(calque.make_jaxpr(lambda x: (x / x.shape[0]).sum(0))(spec))
    assert "a:f32[n,4]" in text and "dim_as_value[dim=n]" in text
    shapes = calque.eval_shape(
        lambda x: (jnp.concatenate([x, x]), x[1:], x.reshape(-1), x.T @ x), spec
    )
    assert [str(s.shape) for s in shapes] == ["(2*n, 4)", "(n - 1, 4)", "(4*n,)", "(4, 4)"]
    with pytest.raises(TypeError, match="incompatible shapes|do not broadcast|broadcast"):
        calque.eval_shape(
            lambda x, y: x + y, spec, calque.ShapeDtypeStruct((*symbolic_shape("m"), 4), "f4")
        )


def test_errors_of_calls() -> None:
    made = aot.compile(
        lambda x, y: x[: y.shape[0]] * y,
        "f32[2*n]",
        "f32[n]",
        name="f",
        constraints=["n >= 2", "n <= 9"],
    )
    call = aot.load(made.vmfb).f
    assert call.record.signature() == "f(x: float32[2*n], y: float32[n]) -> float32[n]"
    one = np.ones
    np.testing.assert_array_equal(call(one(6, np.float32), one(3, np.float32))[0].numpy(), one(3))
    for x, y, text in (
        (one(5), one(3), r"x must be float32\[2\*n\], got shape \(5,\)"),
        (one(6), one(4), r"y must be float32\[n\] with \{'n': 3\}, got shape \(4,\)"),
        (one(2), one(1), "n >= 2 must hold of the arguments' sizes, got n = 1"),
        (one(20), one(10), "n <= 9 must hold of the arguments' sizes, got n = 10"),
        (one((6, 1)), one(3), "x must be"),
    ):
        with pytest.raises(ValueError, match=text):
            call(x.astype(np.float32), y.astype(np.float32))


@pytest.mark.parametrize("text, like, said", [
    ("3", (4,), "different size"), ("b, 3", (None, 4), "different size 3 .* in dimension 1"),
    ("b, 6, c, _", (4, 6, 7), "we parsed 3 already and 'like' shape has only 3 dimensions"),
    ("b, 7, c, ...", (4, 7), "we parsed 3 already and 'like' shape has only 2 dimensions")])
def test_sizes_that_are_not_those_of_the_shape(text: str, like: Any, said: str) -> None:
    with pytest.raises(ValueError, match=f"syntax error in symbolic shape .*{said}"):
        symbolic_shape(text, like=like)
    assert str(symbolic_shape("b, 3", like=(2, 3))) == "(b, 3)"


def test_multiples_are_known_by_their_quotients() -> None:
    """mod(b, 4) == 0 says that 4 * (b // 4) is b: against every value that fulfils it."""
    b, c = calque.export.symbolic_shape("b, c", constraints=("mod(b, 4) == 0",))
    a, = calque.export.symbolic_shape("a", constraints=("mod(a, 3) == 1",))
    assert b == 4 * (b // 4) and 4 * (b // 4) >= b >= 4 * (b // 4)
    assert b * c == (b // 4) * c * 4 and 8 * (b // 4) * c == 2 * b * c
    assert b >= b // 4 and b >= 3 * (b // 4)
    assert 3 * (a // 3) == a - 1 and a % 3 == 1
    for f in (lambda b: 12 * (b // 4) - b, lambda b: (b // 4) * b - b // 4 + 2,
              lambda b: (3 * b) // 4 + 4 * (b // 4), lambda b: (b + 4) // 4):
        symbolic = f(b)
        for n in range(4, 60, 4):
            assert symbolic.evaluate({"b": n}) == f(n)
