"""Windows of large arrays replaced (kernels/updates), against NumPy."""
import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax

RNG = np.random.RandomState(7)


def array(shape, dtype):
    return np.asarray(jnp.asarray(RNG.rand(*shape) * 100).astype(dtype))


def replaced(x, new, starts):
    """As XLA defines it: a negative start counts from the end, then the window is moved inside."""
    starts = [min(max(s + n * (s < 0), 0), n - k) for s, n, k in zip(starts, x.shape, new.shape)]
    y = x.copy()
    y[tuple(slice(s, s + k) for s, k in zip(starts, new.shape))] = new
    return y


def is_of_kernels(f, *args):
    return "IREE" not in str(calque.jit(f).lower(*args).plan()).split("\n", 1)[0]


CASES = [  # shape, window, starts
    ((20000,), (1,), (19999,)),
    ((20000,), (7777,), (-3,)),
    ((20000,), (12001,), (5,)),
    ((150, 200), (1, 200), (149, 0)),
    ((150, 200), (150, 1), (0, 7)),
    ((150, 200), (1, 1), (-1, -1)),
    ((150, 200), (148, 198), (1, 1)),
    ((2, 50000), (1, 49999), (1, 900)),
    ((7, 16, 300), (6, 1, 300), (4, 5, 0)),
    ((7, 16, 300), (1, 3, 17), (100, 15, -8)),
    ((3, 40, 33, 5), (2, 20, 10, 5), (1, 3, 30, 0)),
    ((3, 40, 33, 5), (3, 17, 1, 2), (0, 40, 3, 3)),
    ((1, 1, 30000), (1, 1, 29999), (0, 0, 1)),
]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "bool"])
@pytest.mark.parametrize("shape, window, starts", CASES)
def test_a_window_of_an_argument(shape, window, starts, dtype):
    x, new = array(shape, dtype), array(window, dtype)
    want = replaced(x, new, starts)
    given = jnp.asarray(x)
    for places in (starts, [np.int32(s) for s in starts]):  # known, and arguments
        if places is starts:
            def f(x, new, *_):
                return lax.dynamic_update_slice(x, new, starts)
        else:
            def f(x, new, *at):
                return lax.dynamic_update_slice(x, new, at)
        np.testing.assert_array_equal(np.asarray(calque.jit(f)(given, new, *places)), want)
        np.testing.assert_array_equal(np.asarray(given), x)  # the argument stays
    assert is_of_kernels(f, given, new, *[np.int32(s) for s in starts])


@pytest.mark.parametrize("kind", ["int8", "uint8", "uint32", "int32"])
def test_starts_of_any_width_are_clamped(kind):
    x, new = array((300, 100), "float32"), array((9, 5), "float32")
    for place in (np.iinfo(kind).max, np.iinfo(kind).min, 11):
        at = np.asarray([place, 0]).astype(kind)
        got = calque.jit(lambda x, new, at: lax.dynamic_update_slice(x, new, (at[0], at[1])))(
            x, new, at)
        np.testing.assert_array_equal(got, replaced(x, new, [int(place), 0]))


def test_updates_behind_one_another_and_of_what_is_given_away():
    x = array((200, 150), "float32")

    def borders(x):
        return x.at[0].set(1.0).at[-1].set(2.0).at[:, 0].set(3.0).at[1:-1, 1:-1].multiply(2.0)

    want = x.copy()
    want[0], want[-1], want[:, 0] = 1, 2, 3
    want[1:-1, 1:-1] *= 2
    np.testing.assert_array_equal(calque.jit(borders)(x), want)
    given = jnp.asarray(x)
    np.testing.assert_array_equal(calque.jit(borders, donate_argnums=0)(given), want)
    assert given.is_deleted()


def test_equal_updates_that_then_differ():
    x, row = array((200, 150), "float32"), array((150,), "float32")

    def f(x, row, i):
        a, b = x.at[i].set(row), x.at[i].set(row)
        return a.at[0].set(0.0), b.at[1].set(1.0), a, x.at[5].set(x[7])

    want = replaced(x, row[None], (3, 0))
    first, second, moved = want.copy(), want.copy(), x.copy()
    first[0], second[1], moved[5] = 0, 1, x[7]
    for got, expected in zip(calque.jit(f)(x, row, np.int32(3)), (first, second, want, moved)):
        np.testing.assert_array_equal(got, expected)


def test_an_array_that_is_read_before_and_after():
    x = array((200, 150), "float32")

    def f(x):
        y = x * 2
        z = y.at[3].set(y[4] + y[3])
        return y.sum(0), z, y + z

    y = x * 2
    z = y.copy()
    z[3] = y[4] + y[3]
    total, updated, both = calque.jit(f)(x)
    np.testing.assert_array_equal(updated, z)
    np.testing.assert_array_equal(both, y + z)
    np.testing.assert_allclose(total, y.sum(0, dtype=np.float64), rtol=2e-6)  # 200 sums in f32


def test_rows_of_keys():
    keys = calque.random.split(calque.random.key(0), 20000)
    new = calque.random.key(7)
    got = calque.random.key_data(calque.jit(lambda k, new, i: k.at[i].set(new))(keys, new, 12345))
    want = np.array(calque.random.key_data(keys))
    want[12345] = calque.random.key_data(new)
    np.testing.assert_array_equal(got, want)


def test_joins_of_long_arrays_need_no_list_of_their_places():
    """Such a list would be eight times as large as bytes are."""
    x = np.zeros(3_000_000, np.uint8)
    x[-3:] = 1, 2, 3
    from calque.lowering.passes import edges
    seen, arange = [], np.arange
    edges.np = type("numpy", (), {**vars(np), "arange": lambda n: seen.append(n) or arange(n)})
    try:
        got = calque.jit(lambda x: jnp.roll(jnp.concatenate([x, x[::-1][:5]]), 3))(x)
        rows = x[:2_999_997].reshape(-1, 3)
        turned = calque.jit(lambda x: jnp.concatenate([x, x[::-1]]))(rows)
    finally:
        edges.np = np
    np.testing.assert_array_equal(got, np.roll(np.concatenate([x, x[::-1][:5]]), 3))
    np.testing.assert_array_equal(turned, np.concatenate([rows, rows[::-1]]))
    assert max(seen, default=0) <= edges.LONGEST


def test_an_argument_that_is_read_behind_its_update():
    x = array((200, 150), "float32")

    def f(x, i):
        y = x.at[i].set(0.0)
        return y.at[1].add(x[0]), x, x.sum(0), y

    want = x.copy()
    want[7] = 0
    more = want.copy()
    more[1] += x[0]
    first, same, total, y = calque.jit(f)(x, np.int32(7))
    np.testing.assert_array_equal(first, more)
    np.testing.assert_array_equal(same, x)
    np.testing.assert_array_equal(y, want)
    np.testing.assert_allclose(total, x.sum(0, dtype=np.float64), rtol=2e-6)  # 200 sums in f32


def test_nothing_is_an_argument():
    got = calque.jit(lambda: jnp.zeros((200, 150)).at[3].set(1.0).at[:, 0].add(2.0))()
    want = np.zeros((200, 150))
    want[3] = 1
    want[:, 0] += 2
    np.testing.assert_array_equal(got, want)
