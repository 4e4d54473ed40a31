"""Small programs of more arrays than a dispatch has bindings for, as several kernels (bundles)."""
from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax
from calque.lowering.compiler import compile as compiling
from calque.lowering.driver import attempts, cache
from calque.lowering.driver.module import module_text
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


def test_kernels_that_agree_but_for_names_are_one() -> None:
    """Of five equal layers, between which is work of IREE's."""
    def layer(x: Any) -> Any:
        for _ in range(4):
            x = jnp.tanh(x / (1 + abs(x).sum(-1, keepdims=True)))
        return lax.conv_general_dilated(x[None, None].repeat(4, 1), jnp.ones((4, 2, 3, 3)), (1, 1),
                                        "SAME", feature_group_count=2)[0].sum(0)

    def f(x: Any) -> Any:
        for _ in range(5):
            x = layer(x)
        return x

    x = arrays(1, (70, 90))[0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CALQUE_CACHE", "0")
        want = x
        one = calque.jit(layer)
        for _ in range(5):
            want = one(want)
        kept: list[str] = []
        patch.setattr(cache, "compile_cached", _noted(kept, cache.compile_cached))
        patch.setattr(attempts, "compile_cached", cache.compile_cached)
        got = calque.jit(f)(x)
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-5)
    (text,) = kept
    called = re.findall(r"flow\.dispatch @(\w+)::@(\w+)", text)
    there = re.findall(r"stream\.executable private @(\w+)", text)
    assert all(a == b for a, b in called) and {a for a, _ in called} == set(there)
    assert len(called) >= 5 > len(there)


def _noted(kept: list[str], real: Any) -> Any:
    def compile_cached(source: bytes, *args: Any, **kwargs: Any) -> Any:
        kept.append(module_text(source))
        return real(source, *args, **kwargs)
    return compile_cached
