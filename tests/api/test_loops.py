"""while_loop and fori_loop: values, nesting, transformations, errors (oracle: Python's loops)."""
import numpy as np
import pytest
from support.harness import by_numpy, partly_slow

import calque
import calque.numpy as jnp
from calque import lax


def newton(a):
    return lax.while_loop(
        lambda c: (jnp.abs(c[0] * c[0] - a) > 1e-4 * a) & (c[1] < 60),
        lambda c: ((c[0] + a / c[0]) * 0.5, c[1] + 1), (a, 0))


def newton_in_numpy(a):
    x, n = np.float32(a), 0
    while abs(np.float32(x * x - a)) > np.float32(1e-4) * a and n < 60:
        x, n = (x + a / x) * np.float32(0.5), n + 1
    return x, n


def test_the_number_of_steps_may_depend_on_the_data() -> None:
    assert int(lax.while_loop(lambda x: x < 100, lambda x: x * 2, 3)) == 192
    assert int(lax.while_loop(lambda x: x < 100, lambda x: x * 2, 300)) == 300
    f = calque.jit(lambda x, n: lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * 2),
                                               (0, x)))
    for n in (0, 1, 7):
        i, x = f(3, n)
        assert (int(i), int(x)) == (max(0, n), 3 * 2**n)


def test_what_only_the_condition_reads_survives() -> None:
    """IREE's compiler dies on such a carry in the plain form."""
    n, x = calque.jit(lambda n: lax.while_loop(lambda c: c[1] < c[0], lambda c: (c[0], c[1] + 2),
                                               (n, 0)))(5)
    assert (int(n), int(x)) == (5, 6)


def test_each_element_of_a_batch_stops_on_its_own() -> None:
    a = np.linspace(1, 5000, 37).astype("f")
    x, n = calque.jit(calque.vmap(newton))(a)
    want = [newton_in_numpy(v) for v in a]
    np.testing.assert_array_equal(n, [k for _, k in want])
    np.testing.assert_allclose(x, [v for v, _ in want], rtol=1e-6)  # a*b+c may be fused


def test_two_batches() -> None:
    def count(n, step):
        return lax.while_loop(lambda c: c < n, lambda c: c + step, 0)
    n, step = np.arange(1, 6), np.array([1, 2, 7])
    got = calque.vmap(calque.vmap(count, (None, 0)), (0, None))(n, step)
    np.testing.assert_array_equal(got, -(-n[:, None] // step) * step)


def inner(v, n):
    return lax.while_loop(lambda d: d[0] < n, lambda d: (d[0] + 1.0, d[1] * 0.5 + 1), (0.0, v))[1]


def inner_in_numpy(v, n):
    d = 0.0
    while d < n:
        d, v = d + 1, v * 0.5 + 1
    return v


def nested(b):
    return lax.while_loop(lambda c: c[0] < b, lambda c: (c[0] + 1, inner(c[1], c[0] * 2.0)),
                          (0, 0.0))[1]


def nested_in_numpy(b):
    v = 0.0
    for i in range(b):
        v = inner_in_numpy(v, i * 2.0)
    return v


NESTS = {
    "while in while": (nested, nested_in_numpy),
    "while in fori": (
        lambda b: lax.fori_loop(0, b, lambda i, c: inner(c, i * 2.0), 0.0), nested_in_numpy),
    "while in scan": (
        lambda b: lax.scan(lambda c, i: (inner(c, i % 7 + b), None), 0.0, jnp.arange(300.0))[0],
        lambda b: [v := 0.0, [v := inner_in_numpy(v, i % 7 + b) for i in range(300)]][1][-1]),
}


@pytest.mark.parametrize("name", partly_slow([*NESTS], 0.3))
def test_nested(name) -> None:
    f, want = NESTS[name]
    for b in (1, 3):  # known bounds: constants in the state made IREE fail
        assert float(calque.jit(lambda: f(b))()) == pytest.approx(want(b), rel=1e-6)  # noqa: B023
    assert float(calque.jit(f)(3)) == pytest.approx(want(3), rel=1e-6)
    np.testing.assert_allclose(calque.vmap(f)(jnp.array([1, 5, 3])), [want(1), want(5), want(3)],
                               rtol=1e-6)


def test_a_pending_argument_of_a_program_that_waits() -> None:
    x = calque.jit(lambda x: jnp.sum(x @ x) * 0 + 3)(jnp.ones((400, 400)))
    assert float(calque.jit(nested)(x.astype(int))) == pytest.approx(nested_in_numpy(3), rel=1e-6)


def test_arguments_are_not_written_to() -> None:
    def fill(x, n):
        return x, lax.while_loop(
            lambda c: c[0] < n,
            lambda c: (c[0] + 1, lax.dynamic_update_slice(c[1], jnp.ones(1), (c[0],))), (0, x))[1]
    x = jnp.zeros(6)
    same, filled = calque.jit(fill)(x, 4)
    np.testing.assert_array_equal(x, np.zeros(6))
    np.testing.assert_array_equal(same, np.zeros(6))
    np.testing.assert_array_equal(filled, [1, 1, 1, 1, 0, 0])


def test_forward_mode() -> None:
    root = lambda a: newton(a)[0]  # noqa: E731
    a = np.array([2.0, 3.0, 50.0], "f")
    for f in (lambda v: calque.jvp(root, (v,), (1.0,))[1], calque.jacfwd(root)):
        (got,) = by_numpy(calque.vmap(f), [a])
        np.testing.assert_allclose(got, 0.5 / np.sqrt(a), rtol=1e-4)
    value, tangent = calque.linearize(root, 2.0)
    assert float(tangent(2.0)) == pytest.approx(1 / np.sqrt(2), rel=1e-4)
    assert float(value) == pytest.approx(np.sqrt(2), rel=1e-4)


def test_reverse_mode_says_what_to_do() -> None:
    with pytest.raises(ValueError, match="Reverse-mode differentiation does not work"):
        calque.grad(lambda a: newton(a)[0])(2.0)
    f = calque.jit(lambda n, x: lax.fori_loop(0, n, lambda i, v: v * x, 1.0))
    with pytest.raises(ValueError, match="fori_loop with dynamic"):
        calque.grad(f, 1)(3, 2.0)
    assert float(calque.grad(lambda x: lax.fori_loop(0, 3, lambda i, v: v * x, 1.0))(2.0)) == 12


def test_fori_bounds() -> None:
    f = calque.jit(lambda lo, hi: lax.fori_loop(lo, hi, lambda i, v: v * 10 + i, 0))
    for lo, hi, want in ((0, 4, 123), (2, 4, 23), (4, 2, 0), (-1, 2, -99)):
        assert int(f(lo, hi)) == want == int(lax.fori_loop(lo, hi, lambda i, v: v * 10 + i, 0))


def test_a_weak_carry_takes_the_type_of_the_body() -> None:
    x = lax.while_loop(lambda c: c < 3, lambda c: c + jnp.float16(1), 0)
    assert x.dtype == np.float16 and not x.weak_type and float(x) == 3


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda: lax.while_loop(lambda x: x, lambda x: x, 1), TypeError, "boolean scalar"),
    (lambda: lax.while_loop(lambda x: x > 0, lambda x: x, jnp.ones(3)), TypeError,
     "boolean scalar"),
    (lambda: lax.while_loop(lambda x: (x > 0, x), lambda x: x, 1), TypeError, "pytree"),
    (lambda: lax.while_loop(lambda x: True, lambda x: (x, x), 1), TypeError, "pytree structure"),
    (lambda: lax.while_loop(lambda x: x[0] > 0, lambda x: x[:2], jnp.ones(3)), TypeError,
     "equal types"),
    (lambda: lax.while_loop(lambda x: x > 0, lambda x: x * 1.5, jnp.int32(3)), TypeError,
     "equal types"),
    (lambda: lax.while_loop(3, lambda x: x, 1), TypeError, "callable"),
    (lambda: lax.fori_loop(0, 2.5, lambda i, x: x, 1), TypeError, "equal types"),
    (lambda: lax.fori_loop(0, jnp.ones(2, int), lambda i, x: x, 1), TypeError, "integer"),
])
def test_errors(call, error, words) -> None:
    with pytest.raises(error, match=words):
        call()


def test_disable_jit() -> None:
    seen = []
    with calque.disable_jit():
        lax.while_loop(lambda x: x < 3, lambda x: seen.append(int(x)) or x + 1, 0)
    assert seen == [0, 1, 2]


@pytest.mark.parametrize("unroll", [0, 1, 2, True, False])
def test_a_scan_without_steps(unroll) -> None:
    """The carry is the initial value, the stacked results are empty: whatever is to be unrolled."""
    bodies = {"passes on": lambda c, x: (jnp.tanh(c), c), "no results": lambda c, x: (c * 2, None),
              "a sum": lambda c, x: (c, jnp.sum(c))}
    for name, body in bodies.items():
        for shape in ((), (3,)):
            def f(c, body=body):
                return lax.scan(body, c, jnp.arange(0), unroll=unroll)

            ones = np.ones(shape, np.float32)
            for run in (f, calque.jit(f), calque.vmap(f)):
                batch = (2,) if run not in (f,) and not hasattr(run, "lower") else ()
                final, ys = run(np.ones((*batch, *shape), np.float32))
                assert np.array_equal(final, np.ones((*batch, *shape)))
                if ys is not None:
                    assert ys.shape == (*batch, 0, *(shape if name == "passes on" else ()))
            total = calque.grad(lambda c: f(c)[0].sum())
            assert np.array_equal(total(ones), ones) and np.array_equal(
                calque.jit(total)(ones), ones)
            assert np.array_equal(calque.jvp(f, (ones,), (2 * ones,))[1][0], 2 * ones)
    final, _ = lax.scan(lambda c, x: (c + x, x), 4, jnp.arange(0), unroll=unroll)
    assert isinstance(final, calque.Array) and int(final) == 4


def test_bounds_that_are_floats_count_in_whole_steps() -> None:
    """As in JAX 0.10.2: what is known is cut off, what is traced is compared as it is."""
    def total(lower, upper):
        return lax.fori_loop(lower, upper, lambda i, c: c + i, 0.0)

    assert float(total(1.0, 3.5)) == 1 + 2 and float(total(np.float32(1.25), 3.75)) == 1 + 2
    assert float(calque.jit(total)(1.25, 3.75)) == 1.25 + 2.25 + 3.25
    assert float(calque.grad(lambda x: lax.fori_loop(x, x + 2, lambda i, c: c * x, x))(3.0)) == 27
    for wrong in (3.0, 1j):
        with pytest.raises(TypeError, match="lower and upper arguments to fori_loop must"):
            total(0, wrong)
    with pytest.raises(ValueError, match="`unroll` must be a `bool` or a non-negative `int`"):
        lax.scan(lambda c, x: (c, x), 0, jnp.arange(3), unroll=-1)


def test_without_jit_loops_have_values_of_their_own() -> None:
    """A body that writes into what it is given does not write into the caller's array."""
    def body(carry):
        x, y = carry
        x += 1
        return x, y + x

    value = np.array(1.0, np.float32)
    with calque.disable_jit():
        assert float(lax.while_loop(lambda c: c[0] < 10, body, (value, value))[1]) == 55
        assert float(lax.scan(lambda c, _: (body(c), None), (value, value), length=9)[0][1]) == 55
        assert lax.fori_loop(3, 0, lambda i, x: x + i, 1.5) == 1.5  # no step
        rows = calque.vmap(lambda i: lax.switch(i, [lambda: 1.0, lambda: 2.0]))(jnp.array([1, 0]))
        np.testing.assert_array_equal(rows, [2, 1])
    assert value == 1


def test_what_all_branches_pass_on_is_not_mapped() -> None:
    x, y = np.arange(4, dtype=np.float32), np.float32(3)
    out, same = calque.vmap(lambda x, y: lax.cond(
        x < 2, lambda x, y: (x * 2, y), lambda x, y: (x * 3, y), x, y), (0, None), (0, None))(x, y)
    np.testing.assert_array_equal(out, np.where(x < 2, x * 2, x * 3))
    assert float(same) == 3


def test_a_function_for_several_branches_is_called_once() -> None:
    # As in JAX: what tracing does is done once (haiku counts), and values are each branch's own.
    calls: list[str] = []
    scale, table = jnp.arange(1.0, 3.0), np.float32([3, 5])

    def square(x):
        calls.append("square")
        return (x * x * scale).sum() + table[0]

    def cube(x):
        calls.append("cube")
        return (x ** 3 * table).sum()

    def f(i, x):
        return lax.switch(i, [square, cube, square, cube], x)

    assert float(f(2, 2.0)) == 4 * 3 + 3 and sorted(calls) == ["cube", "square"]
    calls.clear()
    assert float(lax.cond(True, cube, cube, 2.0)) == 64 and calls == ["cube"]
    at = jnp.arange(4)
    np.testing.assert_array_equal(calque.jit(calque.vmap(f, (0, None)))(at, 2.0), [15, 64, 15, 64])
    grads = calque.jit(calque.vmap(calque.grad(f, 1), (0, None)))(at, 2.0)
    np.testing.assert_array_equal(grads, [12, 96, 12, 96])
    np.testing.assert_array_equal([calque.jit(calque.grad(f, 1))(i, 2.0) for i in range(4)], grads)
