"""Fails when IREE's own forms are right on Vulkan, and a cure can go: `pytest -m vulkan`."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax
from calque.lowering.compiler.compile import CompileError
from calque.lowering.emit.builder import Builder, Value
from calque.lowering.math import TABLE

pytestmark = pytest.mark.vulkan


@pytest.fixture
def run() -> Iterator[Callable[..., Any]]:
    """run(f, *arrays): the result of f, compiled for the Vulkan device."""
    try:
        device = calque.devices("vulkan")[0]
    except RuntimeError as error:
        pytest.skip(f"no Vulkan device here: {str(error).splitlines()[0]}")
    calque.clear_caches()
    yield lambda f, *xs: np.asarray(calque.jit(f)(*[calque.device_put(x, device) for x in xs]))
    calque.clear_caches()


def test_iree_still_fuses_reductions_with_wider_consumers_wrongly(
        run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Builder.materialize in lowering/emit/builder.py."""
    monkeypatch.setattr(Builder, "materialize", lambda self, *xs: list(xs))
    x = np.random.default_rng(0).standard_normal((70, 50)).astype(np.float32)
    assert np.abs(run(lambda x: x - x.sum(0), x) - (x - x.sum(0))).max() > 1


def test_iree_still_takes_the_least_numbers_sign_wrongly(
        run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """rem in lowering/math/basic.py."""
    monkeypatch.setitem(TABLE, "rem", lambda b, x, y: b.binary("remainder", x, y))
    least = np.array([-2**31, -2**31], np.int32)
    assert (run(lax.rem, least, np.array([7, 101], np.int32)) > 0).all()
    zero, inf = np.zeros(2, np.float32), np.full(2, np.inf, np.float32)
    assert np.isnan(run(lax.rem, zero, inf)).all()  # floats: fmod(0, inf) is 0


def test_drivers_still_fold_the_constants_that_round(
        run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TABLE, "round_half_even", lambda b, x: (x + 2.0**23) - 2.0**23)
    assert run(jnp.round, np.float32([0.4, 1.7])).tolist() == np.float32([0.4, 1.7]).tolist()


@pytest.mark.parametrize("dtype", ["i1", "i2", "i8"])
def test_spirv_still_counts_zeros_of_32_bits_only(
        run: Any, monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    monkeypatch.setitem(TABLE, "clz", lambda b, x: b.unary("count_leading_zeros", x))
    with pytest.raises(CompileError, match="ctlz"), calque.enable_x64(True):
        run(lax.clz, np.ones(3, dtype))


def test_integers_still_do_not_become_bfloat16(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plain: Callable[[Builder, Value], Value] = lambda self, x: self.emit(  # noqa: E731
        "convert", [x], x.shape, np.dtype(jnp.bfloat16))
    monkeypatch.setattr(Builder, "bfloat16", plain)
    with pytest.raises(CompileError, match="Bitcast"):
        run(lambda x: x.astype(jnp.bfloat16), np.arange(3, dtype=np.int32))
