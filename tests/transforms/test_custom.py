"""custom_jvp, custom_vjp, custom_vmap, custom_gradient, closure_convert and checkpoint: rules are
followed under every transformation and their order, and errors come before anything runs.

Rules are wrong on purpose (a factor), so that following them shows.
"""
from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from support.harness import by_numpy

import calque
import calque.numpy as jnp
from calque import lax
from calque.custom_derivatives import (
    SymbolicZero,
    custom_vjp_primal_tree_values,
    zero_from_primal,
)

X = np.array([0.3, -0.7, 1.1], np.float32)


def near(got: Any, want: Any) -> None:
    np.testing.assert_allclose(np.asarray(got), want, rtol=2e-6, atol=1e-6)  # a few ulp of f32


def doubled() -> Any:
    """sin(x) y, whose derivative by x is said to be twice what it is."""
    @calque.custom_jvp
    def f(x: Any, y: Any) -> Any:
        return jnp.sin(x) * y

    @f.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        (x, y), (t, s) = primals, tangents
        return f(x, y), 2 * jnp.cos(x) * t * y + jnp.sin(x) * s

    return f


def tripled() -> Any:
    """sin(x) y, whose cotangent by x is said to be three times what it is."""
    @calque.custom_vjp
    def g(x: Any, y: Any) -> Any:
        return jnp.sin(x) * y

    g.defvjp(lambda x, y: (g(x, y), (jnp.cos(x), jnp.sin(x), y)),
             lambda res, ct: (3 * res[0] * res[2] * ct, (res[1] * ct).sum()))
    return g


FUNCTIONS = [(doubled, 2.0), (tripled, 3.0)]


@pytest.mark.parametrize(("make", "factor"), FUNCTIONS)
def test_every_order_of_transformations(make: Any, factor: float) -> None:
    f = make()
    slope = factor * np.cos(X) * 2.0
    near(f(X, 2.0), np.sin(X) * 2)
    near(calque.jit(f)(X, 2.0), np.sin(X) * 2)

    def total(x: Any, y: Any) -> Any:
        return f(x, y).sum()

    near(calque.grad(total)(X, 2.0), slope)
    near(calque.jit(calque.grad(total))(X, 2.0), slope)
    near(calque.grad(calque.jit(total))(X, 2.0), slope)
    near(calque.vmap(calque.grad(f), (0, None))(X, 2.0), slope)
    near(calque.jit(calque.vmap(calque.grad(f), (0, None)))(X, 2.0), slope)
    near(calque.grad(lambda x: calque.vmap(f, (0, None))(x, 2.0).sum())(X), slope)
    near(calque.grad(lambda x: calque.vmap(calque.jit(f), (0, None))(x, 2.0).sum())(X), slope)
    # an operand that is not mapped gets the sum over the batch
    near(calque.grad(lambda y: calque.vmap(f, (0, None))(X, y).sum())(2.0), np.sin(X).sum())
    near(calque.jacrev(lambda x: f(x, 2.0))(X), np.diag(slope))


@pytest.mark.parametrize(("make", "factor"), FUNCTIONS)
def test_inside_loops_and_branches(make: Any, factor: float) -> None:
    f = make()

    def looped(x: Any) -> Any:
        return lax.scan(lambda c, _: (f(c, 1.0), None), x, None, length=3)[0]

    def chain(x: float) -> float:
        out, slope = x, 1.0
        for _ in range(3):
            slope *= factor * np.cos(out)
            out = np.sin(out)
        return slope

    want = [chain(float(x)) for x in X]
    near(calque.vmap(calque.grad(looped))(X), want)
    near(calque.jit(calque.vmap(calque.grad(looped)))(X), want)
    near(calque.grad(lambda x: looped(x).sum())(X), want)
    near(calque.grad(lambda x: lax.cond(x > 0, lambda v: f(v, 1.0), lambda v: v, x))(0.5),
         factor * np.cos(0.5))


def test_forward_mode_and_second_derivatives() -> None:
    f = doubled()
    near(calque.jvp(f, (1.0, 2.0), (1.0, 0.5))[1], 4 * np.cos(1) + 0.5 * np.sin(1))
    near(calque.grad(calque.grad(f))(1.0, 2.0), -4 * np.sin(1))
    near(calque.jacrev(calque.grad(tripled()))(1.0, 2.0), -6 * np.sin(1))


def test_forward_mode_of_a_vjp_is_an_error() -> None:
    g = tripled()
    for run in (lambda: calque.jvp(g, (1.0, 2.0), (1.0, 1.0)),
                lambda: calque.linearize(g, 1.0, 2.0)[1](1.0, 1.0),
                lambda: calque.jit(lambda x: calque.jvp(g, (x, x), (x, x)))(1.0)):
        with pytest.raises(TypeError, match="can't apply forward-mode"):
            run()


def test_rules_per_argument() -> None:
    @calque.custom_jvp
    def f(x: Any, y: Any) -> Any:
        return x * y

    f.defjvps(lambda t, out, x, y: 5 * t * y, None)
    near(calque.grad(f, (0, 1))(2.0, 3.0), (15.0, 0.0))


def test_arguments_that_are_not_differentiated() -> None:
    @functools.partial(calque.custom_jvp, nondiff_argnums=(0,))
    def f(fun: Any, x: Any) -> Any:
        return fun(x)

    f.defjvp(lambda fun, primals, tangents: (fun(*primals), 7 * tangents[0]))
    near(calque.grad(lambda x: f(jnp.sin, x))(1.0), 7)

    @functools.partial(calque.custom_vjp, nondiff_argnums=(0, 2))
    def g(fun: Any, x: Any, n: int) -> Any:
        return fun(x) * n

    g.defvjp(lambda fun, x, n: (g(fun, x, n), x), lambda fun, n, x, ct: (n * x * ct,))
    near(calque.grad(lambda x: g(jnp.sin, x, 3))(2.0), 6)


def test_trees_and_none() -> None:
    @calque.custom_vjp
    def f(tree: Any, scale: Any) -> Any:
        return {"out": tree["a"] * scale + tree["b"][0]}

    f.defvjp(lambda t, s: (f(t, s), None),
             lambda res, ct: ({"a": ct["out"], "b": (None,)}, None))
    made = calque.grad(lambda t: f(t, 2.0)["out"])({"a": 1.0, "b": (5.0,)})
    near(made["a"], 1)
    near(made["b"][0], 0)


def test_integers() -> None:
    @calque.custom_jvp
    def f(x: Any, n: Any) -> Any:
        return x * n

    @f.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        assert tangents[1].dtype == calque.dtypes.float0
        return f(*primals), tangents[0] * 10

    near(calque.grad(f)(2.0, 3), 10)


def test_symbolic_zeros() -> None:
    seen = []

    @calque.custom_jvp
    def f(x: Any, y: Any) -> Any:
        return x * y

    def rule(primals: Any, tangents: Any) -> Any:
        seen.append([isinstance(t, SymbolicZero) for t in tangents])
        return f(*primals), tangents[0]

    f.defjvp(rule, symbolic_zeros=True)
    calque.grad(f)(2.0, 3.0)
    assert seen == [[False, True]]

    @calque.custom_vjp
    def g(x: Any, y: Any) -> Any:
        return x * y, y

    def fwd(x: Any, y: Any) -> Any:
        seen.append([x.perturbed, y.perturbed])
        x, y = custom_vjp_primal_tree_values((x, y))
        return g(x, y), y

    def bwd(y: Any, cts: Any) -> Any:
        seen.append([isinstance(c, SymbolicZero) for c in cts])
        return y * cts[0], None

    g.defvjp(fwd, bwd, symbolic_zeros=True)
    near(calque.grad(lambda x: g(x, 3.0)[0])(2.0), 3)
    assert seen[1:] == [[True, False], [False, True]]


def test_errors_of_rules() -> None:
    @calque.custom_jvp
    def f(x: Any) -> Any:
        return x

    with pytest.raises(AttributeError, match="No JVP defined"):
        f(1.0)
    f.defjvp(lambda p, t: p[0])
    with pytest.raises(TypeError, match="must produce a pair"):
        calque.grad(f)(1.0)
    f.defjvp(lambda p, t: (p[0], (t[0],)))
    with pytest.raises(TypeError, match="equal container"):
        calque.grad(f)(1.0)
    f.defjvp(lambda p, t: (p[0], jnp.ones(3)))
    with pytest.raises(TypeError, match="corresponding shapes and dtypes"):
        calque.grad(f)(1.0)

    @calque.custom_vjp
    def g(x: Any) -> Any:
        return x

    with pytest.raises(AttributeError, match="No VJP defined"):
        g(1.0)
    g.defvjp(lambda x: (x, None), lambda res, ct: ct)
    with pytest.raises(TypeError, match="tuple of length"):
        calque.grad(g)(1.0)
    g.defvjp(lambda x: (x, None), lambda res, ct: (jnp.ones(2),))
    with pytest.raises(ValueError, match=r"output\[0\] the bwd rule produced an output of"):
        calque.grad(g)(1.0)
    g.defvjp(lambda x: x, lambda res, ct: (ct,))
    with pytest.raises(TypeError, match="must produce a pair"):
        calque.grad(g)(1.0)


def test_a_closed_over_value_is_not_differentiated() -> None:
    def loss(w: Any) -> Any:
        @calque.custom_jvp
        def f(x: Any) -> Any:
            return x * w
        f.defjvp(lambda p, t: (f(*p), t[0] * w))
        return f(w)

    with pytest.raises((TypeError, calque.errors.UnexpectedTracerError)):
        calque.grad(loss)(2.0)


# ---- custom_vmap, custom_gradient, closure_convert
def test_custom_vmap() -> None:
    @calque.custom_batching.custom_vmap
    def f(x: Any, y: Any) -> Any:
        return jnp.sin(x) * y

    seen = []

    @f.def_vmap
    def rule(axis_size: int, in_batched: Any, x: Any, y: Any) -> Any:
        seen.append((axis_size, list(in_batched)))
        return jnp.cos(x) * y, True

    near(f(X, 2.0), np.sin(X) * 2)
    near(calque.vmap(f, (0, None))(X, 2.0), np.cos(X) * 2)
    near(calque.jit(calque.vmap(calque.jit(f), (0, None)))(X, 2.0), np.cos(X) * 2)
    assert seen[0] == (3, [True, False])
    near(calque.grad(f)(1.0, 2.0), np.cos(1) * 2)
    near(calque.jvp(lambda x: calque.vmap(f, (0, None))(x, 2.0), (X,), (X,))[1],
         -2 * np.sin(X) * X)
    g = calque.custom_batching.sequential_vmap(lambda x: x * x)
    near(calque.vmap(g)(X), X * X)


def test_custom_gradient_and_closure_convert() -> None:
    @calque.custom_gradient
    def f(x: Any) -> Any:
        return x ** 2, lambda ct: (ct * 100 * x,)

    near(calque.grad(f)(3.0), 300)
    near(calque.jit(calque.vmap(calque.grad(f)))(X), 100 * X)

    def g(x: Any) -> Any:
        h, values = calque.closure_convert(lambda y: x * y, 2.0)
        assert len(values) == 1
        return h(3.0, *values)

    near(calque.grad(g)(5.0), 3)


# ---- checkpoint
def sines(x: Any) -> Any:
    return jnp.sin(jnp.sin(jnp.sin(x)))


def test_checkpoint_gives_the_same_derivatives() -> None:
    f = calque.checkpoint(sines)
    once, twice = np.sin(X), np.sin(np.sin(X))
    want = np.cos(X) * np.cos(once) * np.cos(twice)
    near(calque.jit(calque.vmap(calque.grad(f)))(X), want)

    def scanned(x: Any) -> Any:
        return lax.scan(calque.checkpoint(lambda c, _: (jnp.sin(c), None)), x, None, length=3)[0]

    for g, args, wanted in (
            (calque.vmap(calque.grad(f)), (X,), want),
            (calque.grad(lambda x: calque.vmap(f)(x).sum()), (X,), want),
            (lambda x, t: calque.jvp(f, (x,), (t,))[1], (X[0], X[0]), want[0] * X[0]),
            (calque.grad(calque.grad(f)), (X[0],),
             by_numpy(calque.grad(calque.grad(sines)), (X[0],))[0]),
            (calque.grad(scanned), (X[0],), want[0])):
        near(by_numpy(g, args)[0], wanted)


def residuals(f: Any, *args: Any) -> list[str]:
    """The primitives between the forward and the backward pass of grad(f)."""
    text = str(calque.make_jaxpr(lambda *xs: calque.vjp(f, *xs)[1](1.0))(*args))
    return [word for word in ("differentiated=True", "cos", "dot_general") if word in text]


def test_checkpoint_keeps_what_the_policy_says() -> None:
    from calque.ad_checkpoint import checkpoint_name

    def f(x: Any) -> Any:
        y = checkpoint_name(jnp.sin(x), "y")
        return jnp.sin(y @ x).sum()

    x = np.ones((2, 2), np.float32)
    want, = by_numpy(calque.grad(f), (x,))
    policies = calque.checkpoint_policies
    counts = {}
    for name, policy in (("none", None), ("all", policies.everything_saveable),
                         ("dots", policies.dots_saveable),
                         ("named", policies.save_only_these_names("y")),
                         ("moved", policies.save_and_offload_only_these_names(
                             names_which_can_be_saved=["z"], names_which_can_be_offloaded=["y"],
                             offload_src="device", offload_dst="pinned_host")),
                         ("moved dots", policies.offload_dot_with_no_batch_dims(
                             "device", "pinned_host")),
                         ("unnamed", policies.save_anything_except_these_names("y"))):
        g = calque.checkpoint(f, policy=policy)
        near(by_numpy(calque.grad(g), (x,))[0], want)
        program = calque.make_jaxpr(calque.grad(g))(x)
        calls = [e for e in program.eqns if e.primitive.name == "checkpoint"]
        counts[name] = (len(calls[0].outvars), str(calls[1].params["jaxpr"]).count("dot_general"))
    assert counts["none"] == (1, 3)  # the product again, and its two transposes
    assert counts["dots"] == (2, 2)
    assert counts["named"][0] == 2
    assert counts["moved"] == counts["named"] and counts["moved dots"] == counts["dots"]
    with pytest.raises(ValueError, match="should be exclusive"):
        policies.save_and_offload_only_these_names(
            names_which_can_be_saved=["y"], names_which_can_be_offloaded=["y"],
            offload_src="device", offload_dst="pinned_host")
    with pytest.raises(ValueError, match="unknown memory 'disk'"):
        policies.offload_dot_with_no_batch_dims("device", "disk")
    assert counts["all"][0] > counts["unnamed"][0] > counts["dots"][0]


def test_checkpoint_of_trees_and_static_arguments() -> None:
    f = calque.checkpoint(lambda n, tree, scale=1.0: tree["x"] ** n * scale, static_argnums=0)
    near(calque.grad(lambda t: f(3, t, scale=2.0))({"x": 2.0})["x"], 24)


# ---- roots and linear systems
@pytest.mark.slow
def test_custom_root_of_a_solver_that_closes_over_traced_values() -> None:
    """What solve captures gives no derivative: that of the root is f's."""
    def total(phi: Any) -> Any:
        def solve(_: Any, start: Any) -> Any:
            def loss(t: Any) -> Any:
                return jnp.sum((t - jnp.exp(phi)) ** 2)
            return lax.fori_loop(0, 3, lambda i, t: t - 0.5 * calque.grad(loss)(t), start)
        return lax.custom_root(
            lambda t: t - jnp.exp(phi), jnp.zeros(3), solve,
            lambda g, y: jnp.linalg.solve(calque.jacobian(g)(jnp.zeros(3)), y)).sum()

    wanted = 3 * np.exp(np.float64(0.5))  # the second derivative is the same
    for f in [calque.grad(total), calque.jit(calque.grad(total)), calque.grad(calque.grad(total)),
              lambda x: calque.vmap(calque.grad(total))(jnp.array([x, 0.0]))[0],
              lambda x: calque.linearize(total, x)[1](1.0)]:
        np.testing.assert_allclose(f(0.5), wanted, rtol=1e-6)  # exp is right to two roundings


def test_custom_root() -> None:
    def secant(f: Any, x: Any) -> Any:
        return lax.fori_loop(0, 30, lambda i, x: x - f(x) / ((f(x + 0.01) - f(x)) / 0.01), x)

    def root(a: Any) -> Any:
        return lax.custom_root(lambda x: x * x - a, 1.0, secant, lambda g, y: y / g(1.0))

    near(root(4.0), 2)
    near(calque.jit(calque.grad(root))(9.0), 1 / 6)
    for f, args, wanted in (
            (lambda a, t: calque.jvp(root, (a,), (t,))[1], (4.0, 1.0), 0.25),
            (calque.vmap(calque.grad(root)), (np.array([4, 9], np.float32),), [0.25, 1 / 6]),
            (calque.grad(calque.grad(root)), (4.0,), -1 / 32)):
        near(by_numpy(f, args)[0], wanted)


@pytest.mark.parametrize("each", [True, False], ids=["a predicate for each", "keys"])
def test_linear_solves_within_loops(each: bool) -> None:
    """Loops that are written anew hold them, too: those of vmap, those over keys."""
    a = np.array([[2, 0.5], [0.5, 3]], np.float32)

    def halve(x: Any) -> Any:
        return lax.custom_linear_solve(lambda x: a @ x, x, lambda _, b: jnp.linalg.solve(a, b))

    def f(x: Any) -> Any:
        if each:
            return lax.while_loop(lambda x: jnp.abs(x).sum() > 1, halve, x)
        key = calque.random.key(0)
        return lax.fori_loop(0, 2, lambda i, s: (
            halve(s[0]) + 0 * calque.random.uniform(s[1]), s[1]), (x, key))[0]

    x = np.array([[9, 1], [0.1, 0.2], [40, -30]], np.float32)
    want = []
    for row in x:
        steps = 0
        while np.abs(row).sum() > 1 if each else steps < 2:
            row, steps = np.linalg.solve(a, row), steps + 1
        want.append(row)
    np.testing.assert_allclose(calque.jit(calque.vmap(f))(x), want, rtol=1e-5)


def test_custom_linear_solve() -> None:
    a, b = np.array([[2, 1], [0.5, 4]], np.float32), np.array([1, 2], np.float32)

    def solve(a: Any, b: Any) -> Any:  # what solves has no derivative of its own
        def by(m: Any) -> Any:
            return lambda f, y: lax.stop_gradient(jnp.linalg.inv(m)) @ y
        return lax.custom_linear_solve(lambda x: a @ x, b, by(a), by(a.T))

    def loss(how: Any) -> Any:
        return calque.grad(lambda a, b: jnp.sin(how(a, b)).sum(), (0, 1))

    want = by_numpy(loss(jnp.linalg.solve), (a, b))
    near(by_numpy(solve, (a, b))[0], np.linalg.solve(a, b))
    batched = by_numpy(calque.vmap(loss(solve), (0, None)), (np.stack([a, a]), b))
    for got in (loss(solve)(a, b), by_numpy(loss(solve), (a, b)), [g[1] for g in batched]):
        near(got[0], want[0])
        near(got[1], want[1])

    def moved(how: Any) -> Any:
        return by_numpy(lambda *xs: calque.jvp(how, xs, (a * 0.5, b))[1], (a, b))[0]

    near(moved(solve), moved(jnp.linalg.solve))
    forward_only = calque.grad(lambda b: lax.custom_linear_solve(
        lambda x: 2 * x, b, lambda f, y: y / 2).sum())
    with pytest.raises(TypeError, match="transpose_solve required"):
        forward_only(b)
    near(calque.grad(lambda b: lax.custom_linear_solve(
        lambda x: 2 * x, b, lambda f, y: y / 2, symmetric=True).sum())(b), [0.5, 0.5])


def test_a_custom_jvp_is_transposed_without_its_rule() -> None:
    @calque.custom_jvp
    def f(x: Any, y: Any) -> Any:
        return 2 * x * y

    f.defjvp(lambda primals, tangents: (f(*primals), 3 * f(tangents[0], primals[1])))
    for g in (lambda x: f(x, X), calque.jit(lambda x: f(x, X))):
        near(calque.linear_transpose(g, X)(X)[0], 2 * X * X)
        near(calque.vmap(lambda u, g=g: calque.linear_transpose(g, X)(u)[0])(
            np.stack([X, 3 * X])), np.stack([2 * X * X, 6 * X * X]))
        near(calque.grad(lambda x, g=g: g(x).sum())(X), 6 * X)  # the rule, linear in f itself
    near(calque.grad(lambda x: lax.fori_loop(0, 2, lambda i, a: f(a, X), x).sum())(X), 36 * X * X)


def test_zeros_of_trees() -> None:
    # types as in JAX 0.10.2
    zeros = zero_from_primal({"a": X, "b": (1, 2.0, None)})
    near(zeros["a"], 0 * X)
    assert zeros["b"][0].dtype == calque.dtypes.float0
    assert zeros["b"][1].weak_type and zeros["b"][1] == 0 and zeros["b"][2] is None
    symbolic = zero_from_primal((X, [1j]), symbolic_zeros=True)
    assert [type(z) for z in (symbolic[0], symbolic[1][0])] == [SymbolicZero] * 2
    with pytest.raises(TypeError):
        zero_from_primal("x")


def test_numbers_among_residuals_stay_pythons() -> None:
    """As in JAX, whose libraries keep flags there; None may answer a None in an argument."""
    seen: list[Any] = []

    @calque.custom_vjp
    def f(x: Any) -> Any:
        return x[0] * 2

    def backward(residuals: Any, ct: Any) -> Any:
        seen.append(residuals[1:])
        return ((ct * residuals[0] * residuals[2], None),)

    f.defvjp(lambda x: (x[0] * 2, (x[0], True, 3)), backward)
    for g in (calque.grad(f), calque.jit(calque.grad(f)),
              lambda x: calque.vmap(calque.grad(f))((jnp.full(2, x[0]), None))):
        np.testing.assert_allclose(g((2.0, None))[0], 6.0)
    assert all(isinstance(n, int) and flag is True for flag, n in seen) and len(seen) == 3


def test_arguments_without_a_derivative_may_be_mapped_or_traced() -> None:
    @functools.partial(calque.custom_jvp, nondiff_argnums=(1,))
    def power(x: Any, n: Any) -> Any:
        return x ** n

    @power.defjvp
    def _rule(n: Any, primals: Any, tangents: Any) -> Any:
        return power(primals[0], n), n * primals[0] ** (n - 1.0) * tangents[0]

    x = np.float32([1, 2, 3])
    cases = [(calque.vmap(power), [1, 4, 27]), (calque.vmap(calque.grad(power)), [1, 4, 27]),
             (calque.vmap(calque.hessian(power)), [0, 2, 18]),
             (calque.vmap(power, (None, 0)), None), (calque.vmap(calque.jit(power)), [1, 4, 27])]
    for f, want in cases:
        args = (x, x) if want is not None else (np.float32(2), x)
        for run in (f, calque.jit(f)):
            np.testing.assert_allclose(run(*args), [2, 4, 8] if want is None else want, rtol=1e-6)
    assert float(calque.grad(calque.jit(power))(2.0, 3.0)) == 12
    assert float(calque.grad(lambda x: power(x, x))(2.0)) == 4  # as JAX: n counts as a constant
    through = calque.grad(lambda x: calque.lax.scan(lambda c, n: (power(c, n), None), x, x0)[0])
    x0 = np.float32([1, 2, 3])
    assert float(through(1.5)) == pytest.approx(6 * 1.5 ** 5, rel=1e-5)


def test_a_backward_rule_is_asked_where_no_cotangent_arrives() -> None:
    # As in JAX: None of one rule does not keep the rule before it from running (flax's fp8 layers
    # hand on new scales as cotangents); what is unused is not asked.
    @calque.custom_vjp
    def scaled(x: Any, s: Any) -> Any:
        return x * s, s

    scaled.defvjp(lambda x, s: ((x * s, s), None), lambda res, ct: (None, jnp.float32(7)))

    @calque.custom_vjp
    def last(x: Any, s: Any) -> Any:
        return x * s

    last.defvjp(lambda x, s: (x * s, None), lambda res, ct: (None, None))

    def looped(x: Any, s: Any) -> Any:
        return calque.lax.scan(lambda c, _: (c, last(*scaled(c, s))), x, None, length=3)[1].sum()

    def loss(x: Any, s: Any) -> Any:
        return last(*scaled(x, s))

    def unused(x: Any, s: Any) -> Any:
        return scaled(x, s) and x

    for f, want in ((loss, (0, 7)), (calque.checkpoint(loss), (0, 7)), (looped, (0, 21)),
                    (lambda x, s: last(calque.jit(scaled)(x, s)[0], s), (0, 0)),
                    (unused, (1, 0))):
        grad = calque.grad(f, (0, 1))
        for run in (grad, calque.jit(grad)):
            np.testing.assert_array_equal(run(jnp.float32(2), jnp.float32(3)), want)


def test_policies_made_in_each_call_are_traced_and_compiled_once() -> None:
    policies = calque.checkpoint_policies
    makers: list[Any] = [
        lambda: policies.save_only_these_names("a", "b"),
        lambda: policies.save_any_names_but_these("a"),
        lambda: policies.save_anything_except_these_names("a"),
        lambda: policies.save_and_offload_only_these_names(
            names_which_can_be_saved=["a"], names_which_can_be_offloaded=["b"],
            offload_src="device", offload_dst="pinned_host")]
    makers.append(lambda: policies.save_from_both_policies(makers[0](), policies.dots_saveable))
    for make in makers:
        assert make() == make() and hash(make()) == hash(make())
        programs = [calque.make_jaxpr(calque.grad(calque.checkpoint(jnp.sin, policy=make())))(1.0)
                    for _ in range(2)]
        first, second = ([e for e in p.eqns if e.primitive.name == "checkpoint"][-1].params
                         for p in programs)
        assert first["policy"] is not second["policy"] and first["policy"] == second["policy"]
    assert policies.save_only_these_names("a") != policies.save_only_these_names("b")
    assert isinstance(policies.save_only_these_names("a"), policies.SaveOnlyTheseNames)
    assert policies.SaveAnyNamesButThese(frozenset("a")).names == {"a"}
