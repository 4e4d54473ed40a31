"""Arrays as futures: what returns at once, what waits, what fails, what is shared."""
from __future__ import annotations

import asyncio
import copy
import math
import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import calque
import calque.numpy as jnp


@pytest.fixture(scope="module")
def slow():
    """A jitted function that works for a while, and its argument."""
    def body(x):
        for _ in range(20):
            x = x @ x * 1e-3
        return x

    f = calque.jit(body)
    x = jnp.full((500, 500), 0.5)
    f(x).block_until_ready()
    return f, x


def test_a_call_returns_while_the_work_runs(slow) -> None:
    f, x = slow
    y = f(x)
    z = f(y)  # waits on the fence of y, not on the host
    assert not z.is_ready()
    assert z.shape == (500, 500)
    np.testing.assert_array_equal(z.block_until_ready(), f(f(x)))
    assert z.is_ready() and y.is_ready()


def test_a_small_program_on_a_pending_argument_does_not_wait(slow) -> None:
    f, x = slow
    first = calque.jit(lambda y: y[0, 0])
    first(x).block_until_ready()
    y = f(x)
    head = first(y)
    assert not y.is_ready()
    assert float(head) == float(np.asarray(y)[0, 0])


def test_await(slow) -> None:
    f, x = slow

    async def main() -> float:
        ticks = 0
        y = f(x)

        async def tick() -> None:
            nonlocal ticks
            while not y.is_ready():
                ticks += 1
                await asyncio.sleep(0)

        ticking = asyncio.create_task(tick())
        value = await y
        await ticking
        return float(value[0, 0]), ticks

    value, ticks = asyncio.run(main())
    assert value == float(f(x)[0, 0]) and ticks > 0


def test_block_until_ready_on_trees(slow) -> None:
    f, x = slow
    tree = calque.block_until_ready({"a": f(x), "b": 3})
    assert tree["a"].is_ready() and tree["b"] == 3


def test_the_source_may_change_right_after_a_call() -> None:
    f = calque.jit(lambda x: (x * 2).sum())
    source = np.ones(2_000_000, np.float32)
    f(source).block_until_ready()
    out = f(source)
    source[:] = 5
    assert float(out) == 4_000_000.0
    x = jnp.asarray(source)
    source[:] = 7
    assert float(x[0]) == 5.0


def test_device_put_shares_aligned_memory() -> None:
    raw = np.zeros(1024 + 16, np.float32)
    start = (-raw.ctypes.data % 64) // 4
    aligned = raw[start:start + 1024]
    x = calque.device_put(aligned)
    aligned[0] = 3.0
    assert float(np.asarray(x)[0]) == 3.0
    y = calque.device_put(raw[start + 1:start + 1001])  # not aligned: copied
    raw[start + 1] = 9.0
    assert float(np.asarray(y)[0]) == 0.0


def test_numpy_sees_the_memory_read_only() -> None:
    x = jnp.arange(4.0) + 0
    view = np.asarray(x)
    assert view is not None and not view.flags.writeable
    with pytest.raises(ValueError):
        view[0] = 1
    assert np.array(x).flags.writeable
    np.testing.assert_allclose(np.sin(x), np.sin(np.arange(4.0)), rtol=1e-6)


def test_dlpack_both_ways() -> None:
    x = jnp.arange(3.0) + 0
    there = np.from_dlpack(x)
    assert there.ctypes.data == np.asarray(x).ctypes.data
    back = jnp.from_dlpack(np.arange(3.0, dtype=np.float32))
    np.testing.assert_array_equal(back, [0, 1, 2])


def test_pickle_copy_hash() -> None:
    for x in (jnp.arange(3.0), jnp.asarray(1.0), jnp.ones(2, jnp.bfloat16),
              calque.random.split(calque.random.key(1))):
        y = pickle.loads(pickle.dumps(x))
        assert (y.dtype, y.weak_type, y.shape) == (x.dtype, x.weak_type, x.shape)
        assert repr(y) == repr(x) == repr(copy.copy(x)) == repr(copy.deepcopy(x))
    with pytest.raises(TypeError, match="unhashable"):
        hash(jnp.ones(1))


def test_repr() -> None:
    assert repr(jnp.asarray([1.0, 2.0])) == "Array([1., 2.], dtype=float32)"
    assert repr(jnp.asarray(1.0)) == "Array(1., dtype=float32, weak_type=True)"
    assert repr(jnp.zeros((0, 3))) == "Array([], shape=(0, 3), dtype=float32)"
    assert repr(jnp.ones((2, 2), int)) == (
        "Array([[1, 1],\n       [1, 1]], dtype=int32)")
    assert str(jnp.arange(3)) == "[0 1 2]"


def test_scalars() -> None:
    assert float(jnp.asarray(2.5)) == 2.5 and int(jnp.asarray(3)) == 3
    assert bool(jnp.asarray(True)) and complex(jnp.asarray(1j)) == 1j
    assert [10, 20][jnp.asarray(1)] == 20
    assert f"{jnp.asarray(3.14159):.2f}" == "3.14"
    with pytest.raises(ValueError, match="ambiguous"):
        bool(jnp.ones(2))
    with pytest.raises(TypeError, match="Only scalar arrays"):
        float(jnp.ones(2))
    with pytest.raises(TypeError, match="Only integer scalar arrays"):
        [1][jnp.asarray(1.0)]
    for to in (float, int, math.floor, math.sqrt):  # as Python's, which drop no imaginary part
        with pytest.raises(TypeError, match="must be a string or a real number, not 'complex'"):
            to(jnp.asarray(1 + 2j))


def test_isinstance() -> None:
    assert isinstance(jnp.ones(1), calque.Array) and not isinstance(np.ones(1), calque.Array)
    assert not isinstance(1.0, calque.Array)
    seen = []
    calque.jit(lambda v: seen.append(isinstance(v, calque.Array)) or v)(1.0)
    assert seen == [True]


def test_devices_and_live_arrays() -> None:
    x = jnp.ones(3) * 3
    assert x.devices() == {calque.devices()[0]} and x.device.platform == "cpu"
    assert any(a is x for a in calque.live_arrays())
    x.delete()
    assert x.is_deleted() and not any(a is x for a in calque.live_arrays())
    with pytest.raises(RuntimeError, match="deleted"):
        np.asarray(x)
    with pytest.raises(RuntimeError, match="Unknown backend nope"):
        calque.devices("nope")


def test_lazy_transformations_give_values_where_python_needs_them() -> None:
    seen = []

    def f(x):
        y = jnp.sin(x)
        seen.append(y.item())  # runs what was recorded so far
        if y > 0:  # a branch on a value
            return y * 2
        return -y

    assert float(calque.grad(f)(1.0)) == pytest.approx(2 * np.cos(1.0), rel=1e-6)
    assert float(calque.grad(f)(-1.0)) == pytest.approx(-np.cos(1.0), rel=1e-6)
    assert seen == [pytest.approx(np.sin(1.0)), pytest.approx(-np.sin(1.0))]


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True,
                          text=True, timeout=120)


def test_exit_is_clean_with_work_in_flight() -> None:
    out = run("""
        import calque, calque.numpy as jnp
        x = jnp.ones((600, 600))
        keep = [x]
        f = calque.jit(lambda x: x @ x * 1e-3)
        for _ in range(20):
            keep.append(f(keep[-1]))
        print("end")
    """)
    assert (out.returncode, out.stdout, out.stderr) == (0, "end\n", "")


def test_interrupt_reaches_a_wait() -> None:
    out = run("""
        import signal, calque, calque.numpy as jnp
        def body(x):
            for _ in range(10):
                x = x @ x * 1e-3
            return x
        f = calque.jit(body)
        x = f(jnp.ones((1000, 1000))).block_until_ready()  # 0.1 s
        pending = f(f(f(x)))
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        signal.signal(signal.SIGALRM, lambda *a: (_ for _ in ()).throw(KeyboardInterrupt()))
        try:
            pending.block_until_ready()
            print("not interrupted")
        except KeyboardInterrupt:
            print("interrupted", pending.is_ready())
    """)
    assert out.stdout == "interrupted False\n", out.stderr


def test_a_long_sum_does_not_wait() -> None:
    f = calque.jit(lambda x: jnp.sum(jnp.sin(x) + jnp.cos(x * 2)))
    x = jnp.ones(20_000_000)
    f(x).block_until_ready()
    y = f(x)
    assert not y.is_ready()
    # equal addends: all roundings of a block go the same way
    assert float(y) == pytest.approx(2e7 * (np.sin(1.0) + np.cos(2.0)), rel=1e-5)
