"""Small programs of more arrays than a dispatch has bindings for, as several kernels (bundles)."""
from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque.lowering.compiler import compile as compiling
from calque.lowering.emit import mlir
from calque.lowering.kernels.dispatch import merge_equal
from calque.lowering.passes import bundles
from calque.lowering.passes.remainder import WHOLE

RNG = np.random.default_rng(11)


def arrays(n: int, *shapes: tuple[int, ...]) -> list[Any]:
    return [RNG.standard_normal(shapes[i % len(shapes)]).astype(np.float32) for i in range(n)]


def kernels(f: Any, *args: Any) -> list[Any]:
    """The kernels that f is cut into."""
    made = bundles.in_parts(calque.make_jaxpr(f)(*args).jaxpr)
    assert made is not None
    assert all(e.params["rows"] is WHOLE for e in made.equations)
    assert all(len(e.inputs) + len(e.outputs) <= bundles.MOST for e in made.equations)
    return list(made.equations)


def answer(f: Any, *args: Any) -> list[Any]:
    """What f gives, compiled without IREE's first stages."""
    calque.clear_caches()
    compiling._short_counts.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CALQUE_CACHE", "0")
        made = calque.tree.leaves(calque.jit(f)(*args))
    assert set(compiling.shortcut_counts()) == {"taken"}
    return [np.asarray(v) for v in made]


def test_products_of_a_list() -> None:
    """Likes beside likes: six shapes, of which a kernel has two, where in order it had all."""
    xs, ys = arrays(36, (2, 3, 4), (2, 4, 4), (2, 5, 4)), arrays(36, (2, 4, 3), (2, 4, 2))

    def f(xs: Any, ys: Any) -> Any:
        return [x @ y for x, y in zip(xs, ys)]

    found = kernels(f, xs, ys)
    assert [len(e.params["jaxpr"].equations) for e in found] == [9, 9, 9, 9]
    assert max(len({x.aval.shape for x in e.outputs}) for e in found) == 2
    for got, x, y in zip(answer(f, xs, ys), xs, ys, strict=True):
        np.testing.assert_allclose(got, x.astype(float) @ y, rtol=1e-5, atol=1e-5)


def test_joins_that_share_arrays() -> None:
    xs = arrays(40, (1, 3), (2, 3))

    def f(xs: Any) -> Any:
        return [jnp.concatenate([a, b, a]) for a, b in zip(xs, xs[1:])]

    for got, a, b in zip(answer(f, xs), xs[:-1], xs[1:], strict=True):
        np.testing.assert_array_equal(got, np.concatenate([a, b, a]))


def test_what_hangs_together_is_cut_where_few_arrays_pass() -> None:
    xs = arrays(80, (3, 7), (2, 5), (1,))

    def f(xs: Any) -> Any:
        return jnp.sqrt(sum(jnp.vdot(x, x) for x in xs))

    found = kernels(f, xs)
    assert [len(e.inputs) + len(e.outputs) for e in found[:2]] == [29, 29] and len(found) == 3
    np.testing.assert_allclose(answer(f, xs)[0], np.sqrt(sum(
        (x.astype(float) ** 2).sum() for x in xs)), rtol=1e-5)


def test_what_is_not_cut() -> None:
    """Few arrays; and an equation of too many."""
    few = calque.make_jaxpr(lambda x: x + 1)(1.0).jaxpr
    assert bundles.in_parts(few) is None
    xs = arrays(40, (3,))
    assert bundles.in_parts(calque.make_jaxpr(jnp.concatenate)(xs).jaxpr) is None
    np.testing.assert_array_equal(calque.jit(jnp.concatenate)(xs), np.concatenate(xs))


def test_every_equation_is_in_one_part() -> None:
    """Programs at random: what a part reads is an input or was made before, results are given."""
    for seed in range(20):
        rng = np.random.default_rng(seed)

        def f(xs: Any, rng: Any = rng) -> Any:
            xs = list(xs)
            for _ in range(60):
                a, b = (xs[int(i)] for i in rng.integers(0, len(xs), 2))
                xs.append(a * b + 1 if rng.integers(0, 2) else a - b)
            return [x for x in xs[30:] if rng.integers(0, 2)]

        p = calque.make_jaxpr(f)(arrays(30, (4,))).jaxpr
        made = bundles.in_parts(p)
        assert made is not None and made.outputs == p.outputs
        there = set(p.inputs)
        for e in made.equations:
            assert there.issuperset(e.inputs)
            there.update(e.outputs)
        assert there.issuperset(p.outputs)
        inner = [id(q) for e in made.equations for q in e.params["jaxpr"].equations]
        assert sorted(inner) == sorted(map(id, p.equations))


KERNEL = """
  stream.executable private @NAME {
    stream.executable.export public @NAME workgroups() -> (index, index, index) {
      %c1 = arith.constant 1 : index
      stream.return %c1, %c1, %c1 : index, index, index
    }
    builtin.module {
      func.func private @calque_function_PART(%arg0: memref<10xf32>) {
        %c0 = arith.constant PLACE : index
        %0 = memref.load %arg0[%c0] : memref<10xf32>
        memref.store %0, %arg0[%c0] : memref<10xf32>
        return
      }
      func.func @NAME(%arg0: !stream.binding, %arg1: !stream.binding) {
        %c0 = arith.constant 0 : index
        %0 = stream.binding.subspan %arg1[%c0] : !stream.binding -> memref<10xf32>
        call @calque_function_PART(%0) : (memref<10xf32>) -> ()
        return
      }
    }
  }"""
MAIN = """
  func.func @main(%arg0: tensor<10xf32>) -> tensor<10xf32> {
    %0 = flow.dispatch @loop_1::@loop_1(%arg0) : (tensor<10xf32>) -> tensor<10xf32>
    %1 = flow.dispatch @loop_12::@loop_12(%0) : (tensor<10xf32>) -> tensor<10xf32>
    %2 = flow.dispatch @loop_3::@loop_3(%1) : (tensor<10xf32>) -> tensor<10xf32>
    return %2 : tensor<10xf32>
  }"""


@pytest.mark.parametrize("place, left", [(0, ["loop_1", "loop_1", "loop_1"]),
                                         (7, ["loop_1", "loop_1", "loop_3"])])
def test_kernels_that_agree_but_for_names_are_one(place: int, left: list[str]) -> None:
    """loop_1 and loop_12 do; loop_3 does where its function reads the same place."""
    kernels = [("loop_1", "0", "0"), ("loop_12", "4", "0"), ("loop_3", "11", str(place))]
    text = "".join(KERNEL.replace("NAME", name).replace("PART", part).replace("PLACE", at)
                   for name, part, at in kernels)
    with mlir.context(), mlir.ir().Location.unknown():
        module = mlir.ir().Module.parse(f"module @calque {{{text}{MAIN}\n}}")
        merge_equal(module)
        assert module.operation.verify()
        text = str(module)
    assert re.findall(r"flow\.dispatch @(\w+)::", text) == left
    assert re.findall(r"stream\.executable private @(\w+)", text) == list(dict.fromkeys(left))
