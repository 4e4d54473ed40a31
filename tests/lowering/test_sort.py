"""sort and top_k in both forms: the kernel of CPU targets and the ranks and network of others."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.harness import Case, compare, expected, function, run, words
from support.samples import ROWS, Row, Sample

import calque
from calque import clear_caches, lax
from calque.dispatch.array import current_device
from calque.lowering.compiler.compile import compile_module
from calque.lowering.rules import Context
from calque.lowering.rules import sort as rules
from calque.lowering.target.targets import cpu_target
from calque.runtime import Buffer, CallSpec, Executable


def _case(row: Row, sample: Sample, dtype: Any) -> Case:
    params, arrays = sample.parameters(dtype), row.arrays(sample, dtype)
    return Case(f"{row.name} [{sample.label}] {dtype}", function(row, sample, params),
                words(row, sample, arrays), compare(expected(row, params, arrays), row))


@pytest.mark.slow
def test_ranks_of_other_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every dtype by comparing all pairs."""
    _as_other_target(monkeypatch, 128, lambda s: s.operands[0].shape in ((), (9,), (3, 5), (5, 3)))


@pytest.mark.parametrize("labels", [
    ("two keys",), pytest.param(("rows", "columns", "two keys"), marks=pytest.mark.slow)], ids=len)
def test_network_of_other_targets(labels: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
                                  ) -> None:
    """The bitonic network: rows, padding, two keys, ties."""
    _as_other_target(monkeypatch, 1, lambda s: s.label in labels, True)


def _as_other_target(monkeypatch: pytest.MonkeyPatch, ranked: int, wanted: Any,
                     main: bool = False) -> None:
    start = Context.__init__
    monkeypatch.setattr(Context, "__init__", lambda self, b, *_: start(self, b))
    monkeypatch.setattr(rules, "RANKED", ranked)
    clear_caches()
    try:
        with calque.enable_x64(True):
            cases = []
            for row in (ROWS["sort"], ROWS["top_k"]):
                if not main:
                    cases += [_case(row, s, d) for s in row.specials[:1] for d in row.dtypes]
                cases += [_case(row, s, row.main) for s in row.samples if wanted(s)]
            run(cases)
    finally:
        clear_caches()


SHAPES = [(32,), (33,), (4095,), (4096,), (20_001,), (700, 31), (300, 40), (3, 5000)]


@pytest.mark.parametrize("shapes", [
    SHAPES[1::2], pytest.param(SHAPES[::2], marks=pytest.mark.slow)], ids=["some", "more"])
def test_kernel_at_sizes_where_it_changes(shapes: list[tuple[int, ...]]) -> None:
    """Insertion up to 32, digits of 8 bits up to 4096, then of 11; one row and several groups."""
    rng = np.random.default_rng(3)
    cases = []
    for shape in shapes:
        x = rng.integers(-50, 50, shape).astype(np.float32) / 4
        order = np.argsort(x, -1, kind="stable").astype(np.int32)
        positions = np.broadcast_to(np.arange(shape[-1], dtype=np.int32), shape).copy()
        cases.append(Case(f"{shape}", lambda a, i: list(lax.sort((a, i))), (x, positions),
                          _exactly(np.take_along_axis(x, order, -1), order)))
    run(cases)


def _exactly(*wants: Any) -> Any:
    return lambda outs: "" if all(np.array_equal(o, w) for o, w in zip(outs, wants)) else "differs"


def test_argument_stays_as_it_is() -> None:
    """IREE's own sort would overwrite it."""
    x = calque.device_put(np.array([3.0, 1.0, 2.0], np.float32))
    assert np.asarray(lax.sort(x)).tolist() == [1.0, 2.0, 3.0]
    assert np.asarray(x).tolist() == [3.0, 1.0, 2.0]


def test_iree_still_overwrites_what_it_sorts() -> None:
    """Why rules/sort.py never emits stablehlo.sort: the argument is sorted in place."""
    device = current_device()
    text = """
      func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
        %s = "stablehlo.sort"(%x) ({
          ^bb0(%a: tensor<f32>, %b: tensor<f32>):
            %l = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
            stablehlo.return %l : tensor<i1>
        }) {dimension = 0 : i64, is_stable = true} : (tensor<8xf32>) -> tensor<8xf32>
        return %s : tensor<8xf32>
      }"""
    program = Executable(compile_module(text, cpu_target()), device, CallSpec(run_inline=True))
    x = np.array([7, 3, 5, 1, 2, 8, 6, 4], np.float32)
    argument = Buffer.from_numpy(x.copy(), device)
    program([argument])
    assert not np.array_equal(argument.numpy(), x)
