"""Elementwise programs for every shape (driver/flat, dispatch/shape_polymorphic.py) and those
compiled ahead."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support.harness import compare, expected, partly_slow
from support.oracle import difference
from support.samples import ROWS, Row, Sample

import calque
import calque.numpy as jnp
from calque.core.primitive import registry
from calque.dispatch import eager, numpy_rules, precompiled, shape_polymorphic
from calque.lowering.driver import cache
from calque.lowering.driver.flat import entry_name, flatten, is_flat, lower_flat
from calque.lowering.target.targets import cpu_target
from calque.runtime import Module

pytestmark = pytest.mark.usefixtures("x64")
LONG = ("igamma", "igammac", "igamma_grad_a", "random_gamma_grad", "zeta", "polygamma",
        "regularized_incomplete_beta", "lgamma", "digamma")  # bodies that take seconds to compile
FLAT = [n for n in ROWS if is_flat(registry[n]) and n != "copy"]
NAMES = [*[n for n in FLAT if n not in LONG], *[n for n in FLAT if n in LONG]]
STRIDE = 12
FIRST_LONG = len(NAMES) - len([n for n in FLAT if n in LONG])


@pytest.fixture
def no_host(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Small arrays take programs, too."""
    monkeypatch.setattr(numpy_rules, "RULES", {})
    shape_polymorphic._memory.clear()
    yield
    shape_polymorphic._memory.clear()


def _cases(names: list[str]) -> Iterator[tuple[Row, Sample, Any]]:
    for name in names:
        row = ROWS[name]
        for sample in (*row.specials, *row.samples):
            yield row, sample, row.main


@pytest.mark.parametrize("names", [
    *partly_slow([NAMES[i:min(i + STRIDE, FIRST_LONG)]
                  for i in range(0, FIRST_LONG, STRIDE)], 0.15),
    pytest.param(NAMES[FIRST_LONG:], marks=pytest.mark.slow)], ids=lambda names: names[0])
def test_any_shape_equals_the_oracle(names: list[str], no_host: None,
                                     monkeypatch: pytest.MonkeyPatch) -> None:
    """Every elementwise primitive, all samples of its main dtype, in one module."""
    programs: dict[str, Any] = {}
    calls = list(_cases(names))

    class _Stop(Exception):  # noqa: N818
        pass

    def learn(name: str, dtype: Any, device: Any) -> Any:
        raise _Stop

    original = shape_polymorphic.entry_name

    def noted(p: Any) -> str:
        programs[original(p)] = p
        return original(p)

    monkeypatch.setattr(shape_polymorphic, "entry_name", noted)
    monkeypatch.setattr(precompiled, "find", learn)

    def call(row: Row, sample: Sample, dtype: Any) -> Any:
        arrays = row.arrays(sample, dtype)
        values = [calque.device_put(np.array(x)) for x in arrays]
        parameters = sample.parameters(dtype)
        return arrays, shape_polymorphic.evaluate(registry[row.name], values, parameters)

    for row, sample, dtype in calls:
        try:
            call(row, sample, dtype)
        except _Stop:
            pass
    module = Module(cache.compile_cached(lower_flat(list(programs.items()), cpu_target()),
                                         cpu_target()))
    monkeypatch.setattr(precompiled, "find", lambda name, dtype, device: module)
    wrong, taken = [], set()
    for row, sample, dtype in calls:
        arrays, out = call(row, sample, dtype)
        if out is None:
            continue
        taken.add(row.name)
        text = compare(expected(row, sample.parameters(dtype), arrays), row)([np.asarray(out)])
        if text:
            wrong.append(f"{row.name} {sample.label} {dtype}: {text}")
    assert not wrong, "\n".join(wrong)
    assert taken == set(names)


def test_few_compiles_for_many_shapes() -> None:
    """jnp.sin(x) + 1 of 100 shapes compiles twice, small and large, of any rank."""
    shape_polymorphic._memory.clear()
    before = cache.cache_info()
    rng = np.random.default_rng(0)
    for i in range(100):
        shape = tuple(rng.integers(1, 6, i % 4)) + ((70_000,) if i % 25 == 0 else ())
        x = rng.normal(size=shape).astype(np.float32)
        got = jnp.sin(jnp.asarray(x)) + 1
        assert got.shape == shape
        np.testing.assert_allclose(np.asarray(got), np.sin(x) + 1, rtol=3e-7, atol=1e-7)
    after = cache.cache_info()
    assert after.hits + after.misses - before.hits - before.misses <= 3


def test_large_calls_are_queued_and_chain() -> None:
    x = jnp.ones((3_000_000,), jnp.float32)
    y = x
    for _ in range(4):
        y = jnp.sin(y) * 2.0 + x
    want = np.ones(3, np.float32)
    for _ in range(4):
        want = np.sin(want) * np.float32(2) + np.float32(1)
    np.testing.assert_allclose(np.asarray(y)[:3], want, rtol=1e-6)


def test_donated_arrays_are_refused(no_host: None) -> None:
    x = jnp.ones(8, jnp.float32)
    calque.jit(lambda a: a + 1, donate_argnums=0)(x)
    with pytest.raises(RuntimeError, match="deleted"):
        jnp.sin(x)


def test_recorded_programs_for_any_shape(no_host: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A public function of several elementwise operations is one program for all shapes."""
    monkeypatch.setattr(eager, "_at_once", lambda prim, args, params: None)
    before = cache.cache_info()
    for n in (5, 6, 7):
        x = jnp.asarray(np.linspace(-2, 2, n))
        got = jnp.logaddexp(x, x)
        np.testing.assert_allclose(np.asarray(got), np.logaddexp(x, x), rtol=1e-15)
    after = cache.cache_info()
    assert after.hits + after.misses - before.hits - before.misses <= 1


def test_what_is_not_elementwise_is_left_alone() -> None:
    def program(f: Any, *shapes: Any) -> Any:
        return calque.make_jaxpr(f)(*[np.zeros(s, np.float32) for s in shapes])

    assert flatten(program(lambda x: jnp.sin(x) * x, (2, 3))) is not None
    assert flatten(program(lambda x, y: x * y, (2, 3), ())) is not None
    assert flatten(program(lambda x: x.sum(), (2, 3))) is None
    assert flatten(program(lambda x, y: (x + 1, y + 1), (2,), (3,))) is None
    assert flatten(program(lambda x: jnp.sin(x), (0,))) is None
    assert flatten(program(lambda x, y: (x * y, y + 1), (2,), ())) is None  # results of two shapes
    a, b = (flatten(program(lambda x: jnp.sin(x) * x, s)) for s in ((2, 3), (7,)))
    assert a is not None and b is not None and a.key() == b.key()
    assert entry_name(a) == entry_name(b)


def test_pack(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """A built pack serves what it holds without a compile."""
    monkeypatch.setenv("CALQUE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(precompiled, "DTYPES", (np.dtype("float32"),))
    monkeypatch.setattr(precompiled, "UNARY", ("sin", "exp"))
    monkeypatch.setattr(precompiled, "BINARY", ("pow",))
    monkeypatch.setattr(precompiled, "_CONVERTED", ())
    monkeypatch.setattr(precompiled, "_loaded", {})
    assert precompiled.missing() == [np.dtype("float32")]
    assert precompiled.build() == 1 and precompiled.build() == 0 and not precompiled.missing()
    shape_polymorphic._memory.clear()
    before = cache.cache_info()
    x = jnp.asarray([0.5, 1.5, 2.5], jnp.float32)
    functions = (jnp.sin, jnp.exp, lambda v: jnp.power(v, v))
    wants = calque.jit(lambda x: [f(x) for f in functions])(x)
    for f, want in zip(functions, wants, strict=True):
        assert not difference(np.asarray(f(x)), np.asarray(want))
    assert cache.cache_info().misses - before.misses == 1  # jit's
    shape_polymorphic._memory.clear()
