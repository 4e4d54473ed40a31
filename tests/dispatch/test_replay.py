"""Public functions called eagerly a second time: replayed from what was recorded."""
import collections
import concurrent.futures
import warnings

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import nn, random
from calque.dispatch import replay
from calque.lowering.driver import cache

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def fresh():
    replay._plans.clear()


def count_compiles(monkeypatch):
    """A list that grows by the reason of every compile."""
    made = []
    real = cache.compile_cached

    def counted(*args, **kwargs):
        made.append(kwargs.get("reason"))
        return real(*args, **kwargs)

    for module in ("lowering.driver.attempts", "dispatch.shape_polymorphic"):
        monkeypatch.setattr(f"calque.{module}.compile_cached", counted)
    return made


@pytest.mark.parametrize("stride", [2, pytest.param(1, marks=pytest.mark.slow)])
def test_the_second_call_gives_what_the_first_gave(stride):
    x = RNG.normal(size=(5, 7)).astype(np.float32)
    large = RNG.normal(size=(300, 200)).astype(np.float32)
    for value in (x, large):
        a = jnp.asarray(value)
        for f, want in ((jnp.sum, value.sum(dtype=np.float64)), (jnp.max, value.max()),
                        (lambda v: jnp.var(v, axis=0), value.astype(np.float64).var(0)),
                        (lambda v: jnp.median(v, axis=1), np.median(value, 1)),
                        (lambda v: jnp.concatenate([v, v[:2]]), np.concatenate([value, value[:2]])),
                        (jnp.triu, np.triu(value)),
                        (lambda v: jnp.where(v > 0, v, 0), np.where(value > 0, value, 0)),
                        (lambda v: jnp.clip(v, -0.5, 0.25), np.clip(value, -0.5, 0.25)))[::stride]:
            first, second = f(a), f(a)
            assert second.aval == first.aval
            # f32: sums of 60,000 normal numbers agree within 1e-5 of their size
            np.testing.assert_allclose(np.asarray(first), want, rtol=1e-5, atol=1e-4)
            np.testing.assert_array_equal(np.asarray(second), np.asarray(first))


def test_small_arrays_compile_nothing(monkeypatch):
    x = jnp.asarray(RNG.normal(size=(5, 7)).astype(np.float32))
    made = count_compiles(monkeypatch)
    for _ in range(3):
        jnp.sum(x, axis=0), jnp.mean(x), jnp.sort(x), jnp.triu(x), jnp.where(x > 0, x, 0)
        jnp.concatenate([x, x]), jnp.clip(x, -1, 1), jnp.median(x), jnp.dot(x, x.T)
    assert not made


def test_numbers_are_passed_to_one_program(monkeypatch):
    x = jnp.asarray(RNG.normal(size=(200, 300)).astype(np.float32))
    jnp.clip(x, -1.5, 1.5).block_until_ready()
    made = count_compiles(monkeypatch)
    calque.clear_caches()
    value = np.asarray(x)
    for t in np.linspace(0.1, 0.9, 60).tolist():
        bound = np.float32(t)
        np.testing.assert_array_equal(jnp.clip(x, -t, t), np.clip(value, -bound, bound))
    assert len(made) <= 2, made  # recorded with the numbers, and then without
    assert len([p for p in replay._plans.values() if p is not replay._SEEN]) < 20


def test_arguments_that_are_equal_but_not_the_same():
    x = jnp.asarray([-1.0, 0.0, 1.0])
    assert np.signbit(jnp.maximum(jnp.where(x > 5, x, 0.0), -0.0)).tolist() == [False] * 3
    assert np.signbit(jnp.where(x > 5, x, 0.0)).tolist() == [False] * 3
    assert np.signbit(jnp.where(x > 5, x, -0.0)).tolist() == [True] * 3
    i = jnp.asarray([1, 2, 3])
    made = [jnp.where(i > 5, i, v) for v in (1, 1.0, True, np.float32(1), np.int32(1))]
    assert [m.dtype.name for m in made] == ["int32", "float32", "int32", "float32", "int32"]
    assert [m.weak_type for m in made] == [False, True, False, False, False]
    assert np.isnan(jnp.where(x > 5, x, float("nan"))).all()
    assert jnp.sum(i, dtype=jnp.float32).dtype == np.float32
    assert jnp.sum(i, dtype="int16").dtype == np.int16


def test_functions_that_look_at_values():
    for counts in ([1, 2, 0], [0, 0, 1], [2, 2, 2]):
        np.testing.assert_array_equal(jnp.repeat(jnp.arange(3), jnp.asarray(counts)),
                                      np.repeat(np.arange(3), counts))
        mask = jnp.asarray(counts) > 1
        np.testing.assert_array_equal(jnp.where(mask)[0], np.where(np.asarray(counts) > 1)[0])


def test_errors_and_warnings_come_each_time():
    x = jnp.ones((2, 3))
    for _ in range(3):
        with pytest.raises(ValueError, match="axis 5"):
            jnp.sum(x, axis=5)
        with pytest.raises(TypeError, match="Cannot concatenate"):
            jnp.concatenate([x, jnp.ones((3, 4))], axis=0)
        with pytest.warns(UserWarning, match="float64"):
            assert jnp.sum(x, dtype="float64").dtype == np.float32


def test_warnings_name_the_line_of_the_call():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        jnp.sum(jnp.ones(2), dtype="float64")
        jnp.zeros(2, "float64")
    assert [w.filename for w in seen] == [__file__] * 2


def test_deleted_and_donated_arrays_are_refused():
    for size in (4, 100_000):
        x = jnp.ones(size) + 1
        jnp.sum(x).block_until_ready()
        x.delete()
        for _ in range(2):
            with pytest.raises(RuntimeError, match="deleted"):
                jnp.sum(x).block_until_ready()


def test_configuration():
    x = jnp.asarray([3, 4])
    assert jnp.mean(x).dtype == np.float32
    with calque.enable_x64(True):
        assert jnp.mean(jnp.asarray([3, 4])).dtype == np.float64
    assert jnp.mean(x).dtype == np.float32
    bad = jnp.asarray([-1.0, 1.0])
    assert np.isnan(jnp.nanmax(jnp.log(bad)) * np.nan)
    with calque.debug_nans(True), pytest.raises(FloatingPointError):
        jnp.linalg.norm(bad * jnp.inf - bad * jnp.inf)
    with calque.disable_jit():
        assert float(jnp.mean(x)) == 3.5


def test_transformations_do_not_use_plans():
    x = jnp.asarray(RNG.normal(size=5).astype(np.float32))
    for _ in range(2):
        nn.softmax(x)
        # the derivative of sum(softmax) is 0: within some roundings of numbers below 1
        np.testing.assert_allclose(calque.grad(lambda v: jnp.sum(nn.softmax(v)))(x), 0, atol=1e-6)
        assert calque.vmap(jnp.sum)(x[None]).shape == (1,)
        assert "reduce_sum" in str(calque.make_jaxpr(jnp.sum)(x))


def test_structures():
    x = jnp.asarray(RNG.normal(size=(4, 4)).astype(np.float32))
    for _ in range(2):
        out = jnp.linalg.slogdet(x)
        assert out._fields == ("sign", "logabsdet")
        parts = jnp.split(x, 2)
        assert type(parts) is list and [p.shape for p in parts] == [(2, 4)] * 2
        q, r = jnp.divmod(x, 2)
        np.testing.assert_array_equal(q, np.floor_divide(np.asarray(x), 2))
    pair = collections.namedtuple("pair", "a b")(x, x)
    with pytest.raises(TypeError):
        jnp.sum(pair)


def test_results_are_not_shared_with_later_calls():
    x = jnp.ones((3, 3))
    a, b = jnp.trunc(x), jnp.trunc(x)
    a.delete()
    np.testing.assert_array_equal(b, np.ones((3, 3)))
    np.testing.assert_array_equal(x, np.ones((3, 3)))


@pytest.mark.parametrize("impl", [
    "threefry2x32", "rbg", pytest.param("philox4x32", marks=pytest.mark.slow)])
def test_keys_of_every_kind(impl):
    keys = [random.key(n, impl=impl) for n in (0, 1)]
    first = [np.asarray(random.normal(k, (3,))) for k in keys]
    again = [np.asarray(random.normal(k, (3,))) for k in keys]
    np.testing.assert_array_equal(again, first)
    assert (first[0] != first[1]).any()
    assert random.split(keys[0]).shape == (2,)


@pytest.mark.parametrize("count", [3, pytest.param(8, marks=pytest.mark.slow)])
def test_threads(count):
    sizes = range(1, count + 1)
    x = [jnp.asarray(RNG.normal(size=(n, 3)).astype(np.float32)) for n in sizes]

    def work(n):
        return [float(jnp.sum(nn.softmax(v))) for v in x]

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for got in pool.map(work, range(16)):
            # every row of a softmax sums to 1, within a few roundings
            np.testing.assert_allclose(got, sizes, rtol=1e-6)


def test_large_arrays_of_which_parts_are_read():
    x = jnp.asarray(RNG.normal(size=(400, 300)).astype(np.float32))
    i = jnp.asarray([3, 399, -1])
    for _ in range(3):
        np.testing.assert_array_equal(jnp.take(x, i, axis=0), np.asarray(x)[[3, 399, 399]])


# ---- signatures that come again and again are compiled (replay._OFTEN)
KEY = calque.random.key(7)
X = np.random.default_rng(0).normal(size=8).astype(np.float32)
AGAIN = {
    "normal": lambda x: calque.random.normal(KEY, (4,)),
    "split": lambda x: calque.random.key_data(calque.random.split(KEY)),
    "categorical": lambda x: calque.random.categorical(KEY, x),
    "softplus": calque.nn.softplus, "median": jnp.median, "percentile": lambda x: jnp.percentile(
        x, 30.0), "interp": lambda x: jnp.interp(x, jnp.sort(x), x),
    "var": jnp.var, "std": jnp.std, "norm": jnp.linalg.norm, "logsumexp": calque.nn.logsumexp,
    "cov": jnp.cov, "trapezoid": jnp.trapezoid, "polyval": lambda x: jnp.polyval(x, x)}


@pytest.mark.parametrize("name", AGAIN)
def test_a_call_gives_the_same_bits_however_often(name):
    x = jnp.asarray(X)
    first = np.asarray(AGAIN[name](x))
    for _ in range(40):
        assert np.asarray(AGAIN[name](x)).tobytes() == first.tobytes()
    want = calque.jit(AGAIN[name])(x)
    np.testing.assert_allclose(first, want, rtol=1e-6)  # (a compiled sum has another order)


def test_what_is_compiled_sees_devices_configuration_and_deletion():
    x = jnp.asarray(X)
    for _ in range(20):
        calque.nn.softplus(x)
    for d in (*calque.devices(), *calque.devices()) * 2:
        moved = calque.device_put(x, d)
        assert calque.nn.softplus(moved).devices() == {d}
        np.testing.assert_allclose(calque.nn.softplus(moved), np.logaddexp(X, 0), rtol=1e-6)
    with calque.enable_x64(True):
        wide = jnp.asarray(X.astype(np.float64))
        assert calque.nn.softplus(wide).dtype == np.float64
    with calque.debug_nans(True), pytest.raises(FloatingPointError):
        calque.nn.softplus(jnp.full(8, jnp.nan))
    gone = jnp.asarray(X)
    gone.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        calque.nn.softplus(gone)


def test_a_loop_from_a_number_goes_on_from_its_result(monkeypatch):
    x = jnp.asarray(np.full((40, 40), 0.01, np.float32))

    def step(state):
        return state[0] @ x + 0.01, state[1] + 0.25

    def counted(t):
        return calque.lax.while_loop(
            lambda s: s[2] < 3, lambda s: (*step(s[:2]), s[2] + 1), (x, t, 0))[:2]

    for loop in (lambda t: calque.lax.fori_loop(0, 3, lambda i, s: step(s), (x, t)),
                 lambda t: calque.lax.scan(lambda s, _: (step(s), None), (x, t), length=3)[0],
                 counted):
        calque.clear_caches()
        made = count_compiles(monkeypatch)
        for start in (0.0, 1.0, 0.5, 2.75):
            _, first = loop(start)
            _, second = loop(first)
            assert first.weak_type and second.weak_type
            np.testing.assert_array_equal(np.asarray([first, second]), [start + 0.75, start + 1.5])
        assert len(made) <= 1, made  # one program, whichever number it starts from


def test_an_operation_is_looked_up_again() -> None:
    """What ran before for these types is run again: not where an array is gone, on its way or
    checked, and not while something is traced."""
    x = jnp.asarray([0.25, 0.5, 4.0])
    expected = np.exp(np.asarray(x, np.float64))
    for _ in range(3):
        np.testing.assert_allclose(jnp.exp(x), expected, rtol=3e-7)  # (two units of float32)
    np.testing.assert_allclose(calque.grad(lambda v: jnp.exp(v).sum())(x), expected, rtol=3e-7)
    np.testing.assert_allclose(calque.jit(jnp.exp)(x), expected, rtol=3e-7)
    np.testing.assert_allclose(calque.vmap(jnp.exp)(x[None])[0], expected, rtol=3e-7)
    slow = calque.jit(lambda a: calque.lax.fori_loop(0, 20, lambda i, a: a @ a / 400.0, a))
    under_way = slow(jnp.ones((400, 400)))  # (each step keeps ones)
    np.testing.assert_allclose(jnp.log(jnp.log(under_way + 1.718281828)), 0, atol=1e-6)
    with calque.debug_nans(True), pytest.raises(FloatingPointError):
        jnp.log(-x)
    assert np.isnan(jnp.log(-x)).all()
    with calque.debug_nans(True), pytest.raises(FloatingPointError):
        jnp.log(-x)
    calque.clear_caches()
    np.testing.assert_allclose(jnp.exp(x), expected, rtol=3e-7)
    x.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        jnp.exp(x)
