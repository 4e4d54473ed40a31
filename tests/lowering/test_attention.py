"""Products around what is computed of their rows (passes/attention, kernels/attention): softmax of
q k^T times v in every spelling, its gradient, and what must stay as it was.  The oracle is NumPy in
float64, gradients by the formulas; which way a program went is what its plan says.
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import aot, lax, nn
from calque.core.config import config
from calque.lowering.kernels import attention as kernels
from calque.lowering.kernels import gemm
from calque.lowering.passes import attention as passes
from calque.lowering.target.targets import cpu_target, parse_target

RNG = np.random.default_rng(0)
pytestmark = pytest.mark.skipif(not gemm.takes(cpu_target(), "float32"),
                                reason="no kernels in C for this CPU")


@pytest.fixture(autouse=True, params=[
    pytest.param("one strip", marks=pytest.mark.slow), "strips"])
def cut(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Matrices whole, and cut as large ones are."""
    for name, least in (("LEAST_COLUMNS", 64), ("LEAST", 1 << 12), ("LEAST_AGAIN", 1 << 12),
                        ("DEEP", 1)):
        monkeypatch.setattr(passes, name, least)
    if request.param == "strips":
        monkeypatch.setattr(kernels, "STRIP", 40)
        monkeypatch.setattr(kernels, "ROWS", (8, 24))
        monkeypatch.setattr(kernels, "PARTS", 40)
    calque.clear_caches()
    yield
    calque.clear_caches()


def normal(*shape: int, dtype: Any = np.float32) -> Any:
    return RNG.normal(size=shape).astype(dtype)


def families(f: Callable[..., Any], *args: Any) -> list[str]:
    return [r.family for r in calque.jit(f).lower(*args).plan().regions]


def softmax(s: Any) -> Any:
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def expected(q: Any, k: Any, v: Any, mask: Any = True, bias: Any = 0.0, scale: float = 1.0) -> Any:
    """Of (..., rows, d), (..., columns, d), (..., columns, e)."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    s = np.where(mask, scale * q @ k.swapaxes(-1, -2) + bias, -1e30)
    return softmax(s) @ v


def gradients(q: Any, k: Any, v: Any, do: Any, mask: Any = True, bias: Any = 0.0,
              scale: float = 1.0) -> tuple[Any, Any, Any]:
    q, k, v, do = (np.asarray(x, np.float64) for x in (q, k, v, do))
    p = softmax(np.where(mask, scale * q @ k.swapaxes(-1, -2) + bias, -1e30))
    dp = do @ v.swapaxes(-1, -2)
    ds = p * (dp - (dp * p).sum(-1, keepdims=True)) * scale
    return ds @ k, ds.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ do


def close(found: Any, wanted: Any, tolerance: float = 3e-6) -> None:
    """To within a few roundings of sums of products of numbers of size one."""
    found = np.asarray(found, np.float64)
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max() <= tolerance * max(1, np.abs(wanted).max())


def has_slope(g: Any, step: Any, slope: float) -> None:
    """Along a step of normal numbers: each element of a gradient may be wrong as in `close`."""
    g = np.asarray(g, np.float64)
    assert abs((g * step).sum() - slope) <= 3e-6 * np.sqrt(step.size) * max(1, np.abs(g).max())


T, S, D = 150, 77, 33


def plain(q: Any, k: Any, v: Any) -> Any:
    return nn.softmax(q @ k.swapaxes(-1, -2) / 4.0, axis=-1) @ v


def by_hand(q: Any, k: Any, v: Any) -> Any:
    s = jnp.einsum("...td,...sd->...ts", q / 4.0, k)
    e = jnp.exp(s - s.max(-1, keepdims=True))
    return jnp.einsum("...ts,...se->...te", e / e.sum(-1, keepdims=True), v)


def divided_after(q: Any, k: Any, v: Any) -> Any:
    """What a row is divided by comes last."""
    s = q @ jnp.swapaxes(k, -1, -2) * 0.25
    e = jnp.exp(s - s.max(-1, keepdims=True))
    return e @ v / e.sum(-1, keepdims=True)


def through_logs(q: Any, k: Any, v: Any) -> Any:
    return jnp.exp(nn.log_softmax(q @ k.swapaxes(-1, -2) / 4, -1)) @ v


@pytest.mark.parametrize("f", [plain, by_hand, divided_after, through_logs])
@pytest.mark.parametrize("lead", [(), (3,), (2, 3)])
def test_spellings(f: Callable[..., Any], lead: tuple[int, ...]) -> None:
    q, k, v = normal(*lead, T, D), normal(*lead, S, D), normal(*lead, S, 19)
    assert families(f, q, k, v).count("attention") == 1
    close(calque.jit(f)(q, k, v), expected(q, k, v, scale=0.25))


@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_levels(level: str, dtype: Any) -> None:
    if not set(parse_target(f"cpu:{level}").features) <= set(parse_target("host").features):
        pytest.skip("this CPU has not what that level asks")
    with config.context("calque_cpu", level), calque.enable_x64():
        q, k, v, do = (normal(2, n, D, dtype=dtype) for n in (3 * T, S, S, 3 * T))
        f = calque.jit(plain)
        close(f(q, k, v), expected(q, k, v, scale=0.25), 3e-6 if dtype == np.float32 else 1e-14)
        pulled = calque.jit(lambda *x: calque.vjp(plain, *x[:3])[1](x[3]))(q, k, v, do)
        for found, wanted in zip(pulled, gradients(q, k, v, do, scale=0.25)):
            close(found, wanted, 3e-6 if dtype == np.float32 else 1e-14)


def heads_first(x: Any) -> Any:
    return np.moveaxis(np.asarray(x, np.float64), -2, -3)


@pytest.mark.parametrize("heads", [(4, 4), (6, 2)])
@pytest.mark.parametrize("how", ["plain", "causal", "mask", "bias", "both"])
def test_dot_product_attention(heads: tuple[int, int], how: str) -> None:
    """Grouped heads, masks and biases; forward and backward."""
    n, m = heads
    q, k, v, do = (normal(2, t, h, D) for t, h in ((T, n), (T, m), (T, m), (T, n)))
    mask, bias = RNG.random((2, 1, T, T)) < 0.7, normal(1, n, T, T)
    mask[..., 0] = True  # no row without any
    options: dict[str, Any] = {"is_causal": how == "causal"}
    if how in ("mask", "both"):
        options["mask"] = mask
    if how in ("bias", "both"):
        options["bias"] = bias

    def f(q: Any, k: Any, v: Any) -> Any:
        return nn.dot_product_attention(q, k, v, **options)

    def pulled(q: Any, k: Any, v: Any, do: Any) -> Any:
        return calque.vjp(f, q, k, v)[1](do)

    assert families(f, q, k, v).count("attention") == 1
    assert families(pulled, q, k, v, do).count("attention") in (1, 2)
    known = {"mask": np.tril(np.ones((T, T), bool)) if how == "causal" else options.get(
        "mask", True), "bias": options.get("bias", 0.0), "scale": D**-0.5}
    wide = [np.repeat(heads_first(x), n // x.shape[2], -3) for x in (q, k, v, do)]
    close(calque.jit(f)(q, k, v), np.moveaxis(expected(*wide[:3], **known), -3, -2))
    for found, wanted, x in zip(calque.jit(pulled)(q, k, v, do), gradients(*wide, **known),
                                (q, k, v)):
        wanted = wanted.reshape(2, x.shape[2], -1, *wanted.shape[2:]).sum(2)
        close(found, np.moveaxis(wanted, -3, -2))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision(dtype: str) -> None:
    """Scores in float32, what multiplies v in the type of v: as the operations say one by one."""
    q, k, v = (jnp.asarray(normal(2, n, 4, 32)).astype(dtype) for n in (T, S, S))

    def f(q: Any, k: Any, v: Any) -> Any:
        return nn.dot_product_attention(q, k, v)

    assert families(f, q, k, v).count("attention") == 1
    wide = [np.moveaxis(np.asarray(x.astype("float32"), np.float64), -2, -3) for x in (q, k, v)]
    # one rounding of each weight and one of the result
    close(calque.jit(f)(q, k, v).astype("float32"),
          np.moveaxis(expected(*wide, scale=32**-0.5), -3, -2), float(jnp.finfo(dtype).eps))


@pytest.mark.parametrize("spec", ["bhts,bhse->bthe", "bhts,bhse->bhet", "bhse,bhts->bhet",
                                  "bhts,bshe->bthe", "bhts,bhes->bhte"])
def test_orders_of_the_second_product(spec: str) -> None:
    order = spec.split(",")[1].split("->")[0] if spec.startswith("bhts") else spec.split(",")[0]
    q, k = normal(2, 3, T, D), normal(2, 3, S, D)
    v = normal(*[dict(b=2, h=3, s=S, e=20)[c] for c in order])

    def f(q: Any, k: Any, v: Any) -> Any:
        p = nn.softmax(jnp.einsum("bhtd,bhsd->bhts", q, k) / 4)
        return jnp.einsum(spec, *((p, v) if spec.startswith("bhts") else (v, p)))

    def wanted(q: Any, k: Any, v: Any) -> Any:
        p = softmax(np.einsum("bhtd,bhsd->bhts", q, k) / 4)
        return np.einsum(spec, *((p, v) if spec.startswith("bhts") else (v, p)))

    wide = [x.astype(np.float64) for x in (q, k, v)]
    close(calque.jit(f)(q, k, v), wanted(*wide))
    do = normal(*wanted(*wide).shape)
    found = calque.jit(lambda *x: calque.vjp(f, *x[:3])[1](x[3]))(q, k, v, do)
    for i, g in enumerate(found):  # along one direction each, by central differences
        step = normal(*wide[i].shape, dtype=np.float64)
        ends = [wanted(*[x + s * 1e-6 * step if j == i else x for j, x in enumerate(wide)])
                for s in (1, -1)]
        has_slope(g, step, ((ends[0] - ends[1]) / 2e-6 * do).sum())


@pytest.mark.parametrize("order, taken", [((0, 1, 2), 1), ((1, 0, 2), 0)])
def test_results_whose_rows_lie_apart(order: tuple[int, ...], taken: int) -> None:
    """Of a product with one matrix the axes of the rows come last, in the order they are given: the
    kernel writes runs along one of its own two axes."""
    q, k, v = normal(3, T, D), normal(S, D), normal(S, 20)

    def f(q: Any, k: Any, v: Any) -> Any:
        p = nn.softmax(jnp.einsum("gtd,sd->gts", q, k) / 4).transpose(order)
        return lax.dot_general(v, p, (((0,), (2,)), ((), ())))

    assert families(f, q, k, v).count("attention") == taken
    wide = expected(q, np.broadcast_to(k, (3, S, D)), np.broadcast_to(v, (3, S, 20)), scale=0.25)
    close(calque.jit(f)(q, k, v),
          np.moveaxis(wide, -1, 0).transpose(0, *[1 + i for i in order[:2]]))


def test_one_array_for_all() -> None:
    x = normal(2, 300, D)
    f = functools.partial(lambda x: plain(x, x, x))
    assert families(f, x).count("attention") == 1
    close(calque.jit(f)(x), expected(x, x, x, scale=0.25))
    do = normal(2, 300, D)
    (found,) = calque.jit(lambda x, do: calque.vjp(f, x)[1](do))(x, do)
    close(found, sum(gradients(x, x, x, do, scale=0.25)))


def test_numbers_of_a_row_come_out_too() -> None:
    q, k, v = normal(3, T, D), normal(3, S, D), normal(3, S, 20)

    def f(q: Any, k: Any, v: Any) -> Any:
        s = q @ k.swapaxes(-1, -2) / 4
        top = s.max(-1)
        e = jnp.exp(s - top[..., None])
        total = e.sum(-1)
        return e @ v / total[..., None], top, jnp.log(total) + top

    out, top, logs = calque.jit(f)(q, k, v)
    assert families(f, q, k, v).count("attention") == 1
    s = q.astype(np.float64) @ k.swapaxes(-1, -2) / 4
    close(out, expected(q, k, v, scale=0.25))
    close(top, s.max(-1))
    close(logs, np.log(np.exp(s).sum(-1)))


def test_scores_that_are_returned_are_written() -> None:
    q, k, v = normal(3, T, D), normal(3, S, D), normal(3, S, 20)

    def f(q: Any, k: Any, v: Any) -> Any:
        s = q @ k.swapaxes(-1, -2)
        return nn.softmax(s / 4) @ v, s

    assert "attention" not in families(f, q, k, v)
    out, s = calque.jit(f)(q, k, v)
    close(out, expected(q, k, v, scale=0.25))
    close(s, q.astype(np.float64) @ k.swapaxes(-1, -2))


def test_a_gradient_alone_hands_out_numbers_of_rows() -> None:
    """The softmax is computed in the gradient's kernel only, and so is what else is read of it."""
    q, k, v, do = normal(3, T, D), normal(3, S, D), normal(3, S, 20), normal(3, T, 20)

    def f(q: Any, k: Any, v: Any, do: Any) -> Any:
        def out(q: Any, k: Any, v: Any) -> Any:
            s = q @ k.swapaxes(-1, -2) / 4
            return nn.softmax(s) @ v, s.max(-1)
        (_, top), pull = calque.vjp(out, q, k, v)
        return pull((do * top[..., None], jnp.zeros_like(top))), top

    grads, top = calque.jit(f)(q, k, v, do)
    close(top, (q.astype(np.float64) @ k.swapaxes(-1, -2) / 4).max(-1))
    for found, wanted in zip(grads, gradients(q, k, v, do * np.asarray(top)[..., None],
                                              scale=0.25)):
        close(found, wanted)


def test_constants_and_sizes_known_at_the_call() -> None:
    """Nothing is an argument, or some of it; artifacts with constants inside, and of any size."""
    q, k, v = normal(3, T, D), normal(3, S, D), normal(3, S, 20)
    wanted = expected(q, k, v, scale=0.25)

    def held(*given: Any) -> Any:
        return plain(*given, *map(jnp.asarray, (q, k, v)[len(given):]))

    def loaded(f: Any, types: list[str], *given: Any) -> Any:
        (out,) = aot.load(aot.compile(f, *types, name="f").vmfb).f(*given)
        return out.numpy()

    close(calque.jit(held)(), wanted)
    close(calque.jit(held)(q), wanted)
    close(loaded(held, [f"f32[3,{T},{D}]"], q), wanted)
    close(loaded(plain, [f"f32[b,t,{D}]", f"f32[b,s,{D}]", "f32[b,s,20]"], q, k, v), wanted)
    close(calque.jit(plain)(q[:, :1], k, v), wanted[:, :1])


def test_operands_are_written_after_they_were_read() -> None:
    q, k, v = normal(3, T, D), normal(3, S, D), normal(3, S, 20)

    def step(c: Any, _: Any) -> Any:
        q, total, i = c
        out = plain(q, k, v)
        return (q.at[:, i, :20].set(out[:, i]), total + out, i + 1), None

    start = q, np.zeros((3, T, 20), np.float32), 0
    (found, total, _), _ = calque.jit(lambda *c: lax.scan(step, c, None, length=3))(*start)
    wanted, sums = q.astype(np.float64), np.zeros((3, T, 20))
    for i in range(3):
        out = expected(wanted, k, v, scale=0.25)
        wanted, sums = wanted.copy(), sums + out
        wanted[:, i, :20] = out[:, i]
    close(found, wanted)
    close(total, sums)
    given = jnp.array(q)
    out, after = calque.jit(lambda q, k, v: (plain(q, k, v), q.at[0, 0].set(5)),
                            donate_argnums=0)(given, k, v)
    close(out, expected(q, k, v, scale=0.25))
    q[0, 0] = 5
    close(after, q.astype(np.float64))


def test_weights_that_are_returned_are_written() -> None:
    q, k, v = normal(3, T, D), normal(3, S, D), normal(3, S, 20)

    def f(q: Any, k: Any, v: Any) -> Any:
        p = nn.softmax(q @ k.swapaxes(-1, -2) / 4)
        return p @ v, p

    assert "attention" not in families(f, q, k, v)
    out, p = calque.jit(f)(q, k, v)
    close(out, expected(q, k, v, scale=0.25))
    close(p, softmax(q.astype(np.float64) @ k.swapaxes(-1, -2) / 4))


@pytest.mark.parametrize("wrap", ["vmap", "scan", "checkpoint", "map"])
def test_inside(wrap: str) -> None:
    q, k, v = normal(4, 3, T, D), normal(4, 3, S, D), normal(4, 3, S, D)
    f: Any = {
        "vmap": calque.vmap(plain), "checkpoint": calque.checkpoint(plain),
        "map": lambda q, k, v: lax.map(lambda x: plain(*x), (q, k, v)),
        "scan": lambda q, k, v: lax.scan(lambda c, x: (c + 1, plain(*x)), 0, (q, k, v))[1]}[wrap]
    close(calque.jit(f)(q, k, v), expected(q, k, v, scale=0.25))
    do = normal(4, 3, T, D)
    for found, wanted in zip(calque.jit(lambda *x: calque.vjp(f, *x[:3])[1](x[3]))(q, k, v, do),
                             gradients(q, k, v, do, scale=0.25)):
        close(found, wanted)


def test_layers_after_each_other() -> None:
    """Two of them, the second of what the first gives, with a gradient through both."""
    x = normal(2, T, D)
    w = normal(2, 3, D, D) / 6

    def f(x: Any, w: Any) -> Any:
        for each in w:
            x = x + plain(*(x @ m for m in each))
        return x

    def wanted(x: Any, w: Any) -> Any:
        for each in w:
            x = x + expected(*(x @ m for m in each), scale=0.25)
        return x

    assert families(f, x, w).count("attention") == 2
    wide = x.astype(np.float64), w.astype(np.float64)
    close(calque.jit(f)(x, w), wanted(*wide))
    do = normal(2, T, D)
    grads = calque.jit(lambda x, w, do: calque.vjp(f, x, w)[1](do))(x, w, do)
    for i, g in enumerate(grads):
        step = normal(*wide[i].shape, dtype=np.float64)
        ends = [wanted(*[a + s * 1e-6 * step if j == i else a for j, a in enumerate(wide)])
                for s in (1, -1)]
        has_slope(g, step, ((ends[0] - ends[1]) / 2e-6 * do).sum())


def test_infinities_and_nan_stay_in_their_rows() -> None:
    q, k, v = normal(3, T, D), normal(3, S, D), normal(3, S, 20)
    q[1, 5], q[2, 7, 3] = np.nan, np.inf
    with np.errstate(invalid="ignore"):
        wanted = expected(q, k, v, scale=0.25)
    found = np.asarray(calque.jit(plain)(q, k, v), np.float64)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    rows = ~np.isnan(wanted)
    close(found[rows], wanted[rows])


def test_small_and_deep_products_go_their_own_ways() -> None:
    small = normal(2, 20, D), normal(2, 30, D), normal(2, 30, 8)
    deep = normal(2, 200, 600), normal(2, 200, 600), normal(2, 200, 8)
    for args in (small, deep):
        assert "attention" not in families(plain, *args)
        close(calque.jit(plain)(*args), expected(*args, scale=0.25), 2e-5)
