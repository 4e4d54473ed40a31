"""Pallas: against an interpreter in NumPy, and against what jax 0.10.2 gives."""
from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pallas_calls
import pytest
from pallas_draws import Call, drawn, interpreted, kernel_of, values_of
from support.harness import partly_slow

import calque
import calque.numpy as jnp
from calque.experimental import pallas as pl
from calque.lowering.passes.hoist import hoist
from calque.primitives import grid

RECORDED = json.loads(pallas_calls.PATH.read_text())


# ---- as jax 0.10.2 gave it
def _wanted(name: str) -> list[tuple[str, np.ndarray]]:
    return [(dtype, np.array([v == "True" if dtype == "bool" else float(v) for v in values]
                             ).reshape(shape)) for dtype, shape, values in RECORDED[name]]


@pytest.mark.parametrize("part", partly_slow(range(8), 0.2))
def test_what_jax_gives(part: int) -> None:
    every = pallas_calls.calls(calque, pl)
    assert list(every) == list(RECORDED)
    names = list(every)[part::8]
    made = calque.jit(lambda: [every[n]() for n in names])()
    for name, got in zip(names, made):
        arrays = calque.tree.leaves(got)
        for x, (dtype, want) in zip(arrays, _wanted(name), strict=True):
            assert (x.dtype.name, x.shape) == (dtype, want.shape), name
            np.testing.assert_allclose(np.asarray(x, np.float64), want, rtol=1e-6, err_msg=name)


# ---- as NumPy does it
def _numpy_when(condition: Any) -> Callable[[Callable[[], None]], None]:
    return lambda f: f() if condition else None


def _numpy_total(x: np.ndarray) -> Any:
    return np.float32(np.nansum(x))


def _called(call: Call, xs: list[Any]) -> list[Any]:
    inner = kernel_of(call, jnp, pl.when, jnp.nansum)

    def spec(a: Any) -> pl.BlockSpec:
        return pl.BlockSpec(tuple(pl.Element(b[1], b[2]) if isinstance(b, tuple) else b
                                  for b in a.block), a.index)

    return pl.pallas_call(
        lambda *refs: inner([pl.program_id(g) for g in range(len(call.grid))], *refs),
        [calque.ShapeDtypeStruct(a.shape, "float32") for a in call.outs], grid=call.grid,
        in_specs=[spec(a) for a in call.ins], out_specs=[spec(a) for a in call.outs],
        scratch_shapes=[pl.ANY((2,), "float32")] if call.scratch else [],
        input_output_aliases={0: 0} if call.aliased else {})(*xs)


def _compared(calls: list[Call], seed: int) -> None:
    rng = np.random.default_rng(seed)
    data = [values_of(c, rng) for c in calls]
    made = calque.jit(lambda data: [_called(c, xs) for c, xs in zip(calls, data)])(data)
    for c, xs, outs in zip(calls, data, made):
        want = interpreted(c, xs, kernel_of(c, np, _numpy_when, _numpy_total))
        for got, w in zip(outs, want, strict=True):
            np.testing.assert_array_equal(np.asarray(got), w, err_msg=str(c))


def _draw(seed: int, count: int) -> list[Call]:
    rng = np.random.default_rng(seed)
    return [drawn(rng) for _ in range(count)]


def _looped(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Odd seeds: as if a cell's intermediate results were too large to map axes of the grid."""
    if seed % 2:
        monkeypatch.setattr(grid, "MOST_BYTES", -1)
        monkeypatch.setattr(grid, "LARGE", -1)


@pytest.mark.parametrize("seed, some", [
    (0, slice(0, 10, 2)), *[pytest.param(*p, marks=pytest.mark.slow) for p in (
        (0, slice(1, 10, 2)), (1, slice(0, 10)))]])
def test_random_grids_and_blocks(seed: int, some: slice, monkeypatch: pytest.MonkeyPatch) -> None:
    _looped(seed, monkeypatch)
    _compared(_draw(seed, 10)[some], seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 130))
def test_many_random_grids_and_blocks(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    _looped(seed, monkeypatch)
    _compared(_draw(seed, 16), seed)


def test_large_intermediate_results() -> None:
    """What would take 2 GiB in all cells at once is computed for an eighth of them at a time."""
    def kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = jnp.sort(x_ref[...][:, None] * jnp.ones((1, 4096)), 0)[:, :8]

    spec = calque.ShapeDtypeStruct((64 * 2048,), "float32")
    p = hoist(calque.make_jaxpr(lambda x: pl.pallas_call(
        kernel, calque.ShapeDtypeStruct((64 * 2048, 8), "float32"), grid=2048,
        in_specs=[pl.BlockSpec((64,), lambda i: i)],
        out_specs=pl.BlockSpec((64, 8), lambda i: (i, 0)))(x))(spec).jaxpr)
    (call,) = p.equations
    assert [e.params["length"] for e in call.params["jaxpr"].equations
            if e.primitive.name == "scan"] == [8]


@pytest.mark.vulkan
@pytest.mark.parametrize("seed", [200, 201])
def test_random_grids_and_blocks_on_a_gpu(seed: int, monkeypatch: pytest.MonkeyPatch,
                                          gpu: Any) -> None:
    _looped(seed, monkeypatch)
    with calque.default_device(gpu):
        _compared(_draw(seed, 8), seed)
