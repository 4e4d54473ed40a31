"""Donation: which arrays die, what is warned of, and arrays that are given twice."""
from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calque
import calque.numpy as jnp
from calque.core.avals import ShapedArray
from calque.dispatch import donation
from calque.errors import JaxRuntimeError


def run(f: Any, *xs: Any, **options: Any) -> tuple[list[bool], int]:
    """Which arguments are dead after a call, and how many warnings there were."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        want = f(*map(np.array, xs))
        np.testing.assert_allclose(calque.jit(f, **options)(*xs), want)
    return [x.is_deleted() for x in xs], len(found)


def test_what_no_result_can_use_lives_on() -> None:
    assert run(lambda x: x + 1, jnp.ones(3), donate_argnums=0) == ([True], 0)
    assert run(lambda x: x.sum(), jnp.ones(3), donate_argnums=0) == ([False], 1)
    assert run(lambda x: x.reshape(3, 1), jnp.ones(3), donate_argnums=0) == ([True], 0)
    assert run(lambda x, y: y + 1, jnp.ones(3), jnp.ones(4), donate_argnums=0) == (
        [False, False], 0)  # not looked at: neither given away nor warned of
    assert run(lambda x, y: x.sum() + y, jnp.ones(3), jnp.ones(4), donate_argnums=(0, 1)) == (
        [False, True], 1)


def test_the_warning_comes_once_and_names_the_types() -> None:
    f = calque.jit(lambda x: x.sum(), donate_argnums=0)
    with pytest.warns(UserWarning, match=r"Some donated buffers were not usable: float32\[3\]\."):
        lowered = f.lower(jnp.ones(3))
    x = jnp.ones(3)
    assert float(f(x)) == float(lowered.compile()(x)) == float(f(x)) == 3  # no second warning
    assert lowered.args_info[0][0].donated


@pytest.mark.parametrize(("donated", "text"), [
    ((0,), r"use a buffer that was previously donated .*\n?.*`f\(donate\(a\), a\)`"),
    ((1,), r"donate a buffer which is also used .*\n?.*`f\(a, donate\(a\)\)`"),
    ((0, 1), r"donate the same buffer twice .*\n?.*`f\(donate\(a\), donate\(a\)\)`")])
def test_an_array_given_twice(donated: tuple[int, ...], text: str) -> None:
    x = jnp.ones(3)
    with pytest.raises(JaxRuntimeError, match=text):
        calque.jit(lambda a, b: (a + b, a - b), donate_argnums=donated)(x, x)
    assert not x.is_deleted() and float(x.sum()) == 3
    assert not run(lambda a, b: (a + b).sum(), x, x, donate_argnums=())[0][0]


_types = st.tuples(st.sampled_from([(), (2,), (4,), (2, 2), (0,)]),
                   st.sampled_from(["float32", "int32", "bfloat16"]))


@settings(deadline=None, max_examples=200, derandomize=True)
@given(st.lists(_types, max_size=4), st.lists(_types, max_size=4), st.data())
def test_as_many_as_fit_are_used(ins: Any, outs: Any, data: Any) -> None:
    """Against a count by sizes: of each number of bytes as many as both sides have."""
    a, b = ([ShapedArray(s, jnp.dtype(d)) for s, d in side] for side in (ins, outs))
    donated = [i for i in range(len(a)) if data.draw(st.booleans())]
    used = donation.usable(a, b, donated)
    for size in {x.nbytes for x in a}:
        have = sum(a[i].nbytes == size for i in donated)
        room = sum(o.nbytes == size for o in b)
        assert sum(a[i].nbytes == size for i in used) == min(have, room)
    exact = [i for i in donated if any(
        (o.shape, o.dtype) == (a[i].shape, a[i].dtype) for o in b)]
    assert not exact or set(used) & set(exact)


def test_uses_after_donation_say_so() -> None:
    """Of the argument that was given away, and of one that is only read: nothing else is lost."""
    add = calque.jit(lambda x, y: x + y, donate_argnums=0)
    x, y = jnp.ones(8), jnp.arange(8.0)
    first = add(x, y)
    second = add(first, y)  # compiled by now
    for gone in (x, first):
        with pytest.raises(RuntimeError, match="has been deleted") as raised:
            add(gone, y)
        assert type(raised.value).__name__ in ("RuntimeError", "DeletedBufferError")
    y.delete()
    with pytest.raises(RuntimeError, match="has been deleted"):
        add(second, y)
    np.testing.assert_array_equal(second, 1 + 2 * np.arange(8))


def test_what_others_see_is_not_written() -> None:
    """Views of NumPy's, reshaped arrays, results that are arguments, numbers of other calls."""
    double = calque.jit(lambda x: x * 2, donate_argnums=0)
    double(jnp.ones(4))
    want = np.arange(4.0)
    for others in (lambda x: np.asarray(x), lambda x: x.reshape(2, 2),
                   lambda x: calque.jit(lambda y: y)(x), lambda x: (x, x.reshape(4, 1))[1]):
        for x in (jnp.arange(4.0), double(jnp.arange(4.0)) / 2):
            seen = others(x)
            np.testing.assert_array_equal(double(x), 2 * want)
            np.testing.assert_array_equal(np.ravel(seen), want)
    assert [float(double(3.0)) for _ in range(3)] == [6, 6, 6]


def test_many_leaves_change_places() -> None:
    """Results that are other arguments, of a state that is given away again and again."""
    turn = calque.jit(lambda t: {f"x{i}": t[f"x{(i + 1) % 100}"] + (i == 0)
                                 for i in range(100)} | {"n": t["n"] + 1}, donate_argnums=0)
    state = {f"x{i}": jnp.full(3, float(i)) for i in range(100)} | {"n": jnp.zeros(())}
    for _ in range(5):
        state = turn(state)
    want = [(i + 5) % 100 + (1 <= (i + 5) % 100 <= 5) for i in range(100)]
    np.testing.assert_array_equal([float(state[f"x{i}"][1]) for i in range(100)], want)
    assert state["n"] == 5
