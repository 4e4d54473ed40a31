"""jit: signatures, static arguments, caching, donation, closures, stages, errors."""
from __future__ import annotations

import functools
import threading
import types
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import errors, lax
from calque.core.dtypes import bfloat16
from calque.dispatch import signatures
from calque.dispatch.captured import MOST_NUMBERS


def counted(f):
    """f with a list of the calls of its Python body."""
    calls = []

    @functools.wraps(f)
    def g(*args, **kwargs):
        calls.append(1)
        return f(*args, **kwargs)

    return g, calls


def test_result_and_single_trace() -> None:
    f, calls = counted(lambda x: x * 2 + 1)
    j = calque.jit(f)
    for v in ([1.0, 2.0], [3.0, 4.0]):
        np.testing.assert_array_equal(j(jnp.asarray(v)), np.asarray(v) * 2 + 1)
    assert len(calls) == 1


def test_retrace_per_shape_dtype_and_weak_type() -> None:
    seen = []
    j = calque.jit(lambda x: seen.append((x.shape, str(x.dtype), x.weak_type)) or x)
    for x in (jnp.ones(3), jnp.zeros(3), jnp.ones(4), jnp.ones(3, int), jnp.ones(3), 1.0, 2.0, 1):
        j(x)
    assert seen == [((3,), "float32", False), ((4,), "float32", False), ((3,), "int32", False),
                    ((), "float32", True), ((), "int32", True)]


def test_pytrees_in_and_out() -> None:
    f = calque.jit(lambda d, *, k: {"r": [d["a"] + k["z"], None, (d["b"][0],)]})
    out = f({"a": 1.0, "b": [jnp.ones(2)]}, k={"z": 2})
    assert set(out) == {"r"} and out["r"][1] is None
    assert float(out["r"][0]) == 3.0
    np.testing.assert_array_equal(out["r"][2][0], [1, 1])


def test_static_arguments() -> None:
    @functools.partial(calque.jit, static_argnames=("n", "flag"))
    def f(x, n, *, flag=False):
        for _ in range(n):
            x = x * 2
        return -x if flag else x

    np.testing.assert_array_equal(f(jnp.ones(2), 3), [8, 8])
    np.testing.assert_array_equal(f(jnp.ones(2), n=1, flag=True), [-2, -2])
    g = calque.jit(lambda a, x, n: jnp.full((n,), x) + (1 if a else 0), static_argnums=(0, -1))
    np.testing.assert_array_equal(g(True, 2.0, 3), [3, 3, 3])
    np.testing.assert_array_equal(g(False, 2.0, 2), [2, 2])


def test_unhashable_static_argument() -> None:
    f = calque.jit(lambda x, n: x, static_argnums=1)
    with pytest.raises(ValueError, match="Non-hashable static arguments"):
        f(1.0, [1])


def test_methods() -> None:
    class Model:
        def __init__(self, scale):
            self.scale = scale

        @functools.partial(calque.jit, static_argnames=["self"])
        def apply(self, x):
            return x * self.scale

    assert float(Model(3.0).apply(2.0)) == 6.0
    assert float(Model(4.0).apply(2.0)) == 8.0


def test_closures_over_arrays_are_read_when_traced() -> None:
    w = jnp.arange(3.0)
    f = calque.jit(lambda x: x + w)
    first = f(jnp.ones(3))
    w = w + 100
    np.testing.assert_array_equal(first, [1, 2, 3])
    np.testing.assert_array_equal(f(jnp.ones(3)), [1, 2, 3])  # the old trace
    np.testing.assert_array_equal(f(jnp.ones((2, 3)))[0], [101, 102, 103])  # a new one


def test_many_captured_numbers_are_written_into_the_program(x64: None) -> None:
    """Of every dtype, special values included; positions of donated arguments stay right."""
    floats = [np.dtype(d) for d in ("float16", "float32", "float64", bfloat16)]
    numbers = [jnp.asarray(v, d) for d in floats for v in (1.5, -0.0, np.inf, np.nan, 1e-7)]
    numbers += [jnp.asarray(v, d) for d in ("int8", "uint8", "int64", "uint64", "bool")
                for v in (0, 1, 100)]
    numbers += [jnp.asarray(complex(-0.0, np.inf), "complex64"), jnp.asarray(2), jnp.asarray(2.5)]
    assert len(numbers) > MOST_NUMBERS
    table = jnp.arange(4.0)

    @functools.partial(calque.jit, donate_argnums=1)
    def f(x: Any, given: Any) -> Any:
        inner = calque.jit(lambda y: y * numbers[1] + table)
        steps = lax.scan(lambda c, _: (c + numbers[-1], numbers[0]), x[0], None, length=3)
        return [jnp.broadcast_to(n, (2,)) for n in numbers], inner(given), steps, numbers[5]

    given = jnp.full(4, 3.0)
    whole, rows, steps, number = f(jnp.arange(2.0), given)
    assert given.is_deleted()
    for n, w in zip(numbers, whole, strict=True):
        assert (w.dtype, w.weak_type) == (n.dtype, n.weak_type)
        assert np.asarray(w).tobytes() == 2 * np.asarray(n).tobytes(), (n.dtype, n)
    assert np.asarray(rows).tobytes() == (3.0 * np.float16(-0.0) + np.arange(4.0)).tobytes()
    assert float(steps[0]) == 7.5 and list(np.asarray(steps[1])) == [1.5] * 3
    assert number.dtype == np.float32 and float(number) == 1.5


def test_nested_jit_and_inline() -> None:
    inner = calque.jit(lambda x, n: x * n)
    outer = calque.jit(lambda x: inner(x, 3) + inner(x, 4))
    assert float(outer(2.0)) == 14.0
    assert "jit[" in str(calque.make_jaxpr(lambda x: inner(x, 3))(1.0))
    flat = calque.jit(lambda x: x * 2, inline=True)
    assert "jit[" not in str(calque.make_jaxpr(lambda x: flat(x))(1.0))


def test_unused_empty_and_passed_on_arguments() -> None:
    x = jnp.arange(4.0)
    f = calque.jit(lambda x, unused, empty: (x, x, empty, jnp.concatenate([empty, x])))
    a, b, c, d = f(x, jnp.ones(1000), jnp.zeros((0,)))
    np.testing.assert_array_equal(a, x)
    np.testing.assert_array_equal(b, x)
    assert c.shape == (0,)
    np.testing.assert_array_equal(d, x)


def test_constant_results() -> None:
    a, b = calque.jit(lambda: (jnp.zeros((2, 2)), 3))()
    np.testing.assert_array_equal(a, np.zeros((2, 2)))
    assert int(b) == 3


def test_cache_and_clear() -> None:
    f, calls = counted(lambda x: x + 1)
    j = calque.jit(f)
    j(1.0)
    calque.jit(f)(1.0)  # the same function: the same traces
    assert len(calls) == 1 and j._cache_size() == 1
    j.clear_cache()
    j(1.0)
    assert len(calls) == 2


def test_config_is_part_of_the_signature() -> None:
    f = calque.jit(lambda x: x * 1.5)
    assert f(1.0).dtype == np.float32
    with calque.enable_x64(True):
        assert f(1.0).dtype == np.float64
    assert f(1.0).dtype == np.float32


def test_lower_compile_and_text() -> None:
    f = calque.jit(lambda x, y: x @ y)
    lowered = f.lower(calque.ShapeDtypeStruct((2, 3), "float32"), jnp.ones((3, 4)))
    assert "stablehlo.dot_general" in lowered.as_text()
    assert lowered.out_info.shape == (2, 4)
    compiled = lowered.compile()
    np.testing.assert_array_equal(compiled(jnp.ones((2, 3)), jnp.ones((3, 4))), np.full((2, 4), 3))
    with pytest.raises(TypeError, match=r"with float32\[2,3\] and called with float32\[3,2\]"):
        compiled(jnp.ones((3, 2)), jnp.ones((3, 4)))


def test_locations_reach_the_module() -> None:
    text = calque.jit(lambda x: jnp.sin(x)).lower(1.0).as_text(debug_info=True)
    assert "test_jit.py" in text


def test_eval_shape_computes_nothing() -> None:
    out = calque.eval_shape(lambda a: jnp.dot(a, a.T),
                            calque.ShapeDtypeStruct((100000, 1000), jnp.bfloat16))
    assert out.shape == (100000, 100000) and out.dtype == jnp.bfloat16


def test_make_jaxpr_prints_as_jax() -> None:
    x = jnp.array([1.0, 4.0, 3.0])
    text = str(calque.make_jaxpr(lambda x, y: 2 * x**2 + y)(x, x))
    assert text == ("{ lambda ; a:f32[3] b:f32[3]. let\n    c:f32[3] = integer_pow[y=2] a\n"
                    "    d:f32[3] = mul 2.0:f32[] c\n    e:f32[3] = add d b\n  in (e,) }")


def test_disable_jit_runs_the_body() -> None:
    seen = []
    f = calque.jit(lambda x: seen.append(float(x)) or x + 1)
    with calque.disable_jit():
        assert float(f(1.0)) == 2.0
    assert seen == [1.0]


# ---- donation
def test_donation_is_in_place_and_deletes() -> None:
    f = calque.jit(lambda x: x.at[3].set(7.0), donate_argnums=0)
    x = jnp.zeros(1_000_000).block_until_ready()
    f(x).block_until_ready()  # compile
    x = (jnp.zeros(1_000_000) + 1).block_until_ready()
    before = x._buffer.view.get_buffer().ref
    y = f(x)
    assert y.block_until_ready()._buffer.view.get_buffer().ref == before  # no copy
    assert x.is_deleted() and float(y[3]) == 7.0 and float(y[4]) == 1.0
    with pytest.raises(RuntimeError, match="deleted"):
        _ = x + 1


def test_donation_with_a_live_view_copies() -> None:
    f = calque.jit(lambda x: x.at[0].set(7.0), donate_argnums=0)
    x = jnp.arange(1000.0) * 1
    view = np.asarray(x)
    y = f(x)
    assert float(y[0]) == 7.0 and view[0] == 0.0


def test_arguments_are_never_changed() -> None:
    f = calque.jit(lambda x: (x, x.at[7].set(99.0), x.reshape(10, 10).at[0].set(5.0)))
    x = jnp.arange(100.0)
    a, b, c = f(x)
    np.testing.assert_array_equal(x, np.arange(100))
    np.testing.assert_array_equal(a, np.arange(100))
    assert float(b[7]) == 99.0 and float(c[0, 3]) == 5.0 and float(c[1, 0]) == 10.0


# ---- errors
def test_non_array_argument() -> None:
    with pytest.raises(TypeError, match=r"of type <class 'str'>.*args\[0\]\['w'\]"):
        calque.jit(lambda d: d["w"])({"w": "text"})


def test_non_array_result() -> None:
    with pytest.raises(TypeError, match="returned a value of type <class 'str'>"):
        calque.jit(lambda x: "text")(1.0)


def test_traced_values_needed_concretely() -> None:
    with pytest.raises(errors.TracerBoolConversionError,
                       match=r"Attempted boolean conversion of traced array with shape bool\[\]"):
        calque.jit(lambda x: x if x > 0 else -x)(1.0)
    with pytest.raises(errors.TracerArrayConversionError):
        calque.jit(lambda x: np.sin(x))(1.0)
    with pytest.raises(errors.TracerIntegerConversionError):
        calque.jit(lambda x: [1, 2][x])(1)
    with pytest.raises(errors.ConcretizationTypeError):
        calque.jit(lambda x: float(x))(1.0)
    assert float(calque.jit(lambda x: x + 1)(1.0)) == 2.0  # the state is clean


def test_leaked_tracer() -> None:
    kept = []
    calque.jit(lambda x: kept.append(x) or x)(1.0)
    with pytest.raises(errors.UnexpectedTracerError, match="had ended"):
        _ = kept[0] + 1


def test_messages_name_the_users_line() -> None:
    with pytest.raises(TypeError) as info:
        calque.jit(lambda a, b: a + b)(jnp.ones(3), jnp.ones(4))
    lines = str(info.value).splitlines()
    assert "incompatible shapes" in lines[0] and "test_jit.py" in str(info.value)
    assert any("Fix:" in line for line in lines)


def test_a_users_exception_passes_through() -> None:
    def f(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        calque.jit(f)(1.0)
    assert float(calque.jit(lambda x: x * 2)(2.0)) == 4.0


def test_bad_options() -> None:
    with pytest.raises(TypeError, match="callable"):
        calque.jit(3)
    with pytest.raises(ValueError, match="does not take these args"):
        calque.jit(lambda x: x, static_argnames="nope")


def test_debug_nans_asks_for_results() -> None:
    """Not for what a function computes on the way to a finite one; by name, where it is not."""
    x = jnp.array([3.0, 1.0, 2.0])
    with calque.debug_nans(True), calque.debug_infs(True):
        assert jnp.median(x) == 2 and jnp.max(x, where=x < 3, initial=0) == 2
        np.testing.assert_allclose(jnp.hypot(x, x), x * np.sqrt(2), rtol=1e-6)
        for f, what in ((jnp.sqrt, "nan"), (jnp.median, "nan"), (jnp.reciprocal, "inf")):
            with pytest.raises(FloatingPointError, match=f"({what})"):
                f(jnp.array([-1.0, np.nan]) if what == "nan" else jnp.zeros(2))
    assert np.isnan(jnp.median(jnp.array([np.nan, 1.0])))


def test_debug_nans() -> None:
    with calque.debug_nans(True), pytest.raises(FloatingPointError, match="nan"):
        calque.jit(lambda x: jnp.log(x))(-1.0)


def test_recompiles_are_explained(monkeypatch, capsys) -> None:
    monkeypatch.setenv("CALQUE_LOG", "compile")

    def scaled(x, k):
        return x, k

    f = calque.jit(scaled)
    f(jnp.ones(3), 2.0)
    f(jnp.ones(5), 2.0)
    text = capsys.readouterr().err
    assert "trace scaled: first call" in text
    assert "args[0] was f32[3], is f32[5]" in text
    f(jnp.ones(5, "int32"), 2.0)  # beside the nearest signature, not the first one
    assert "args[0] was f32[5], is i32[5]" in capsys.readouterr().err


def test_a_jit_in_a_loop_is_named(monkeypatch, capsys) -> None:
    monkeypatch.setenv("CALQUE_LOG", "compile")
    for i in range(2):
        calque.jit(lambda x: x + i)(jnp.ones(3))  # noqa: B023
    assert "jit number 2 of the function at test_jit.py:" in capsys.readouterr().err


def test_log_compiles_logs_what_is_traced(caplog) -> None:
    f = calque.jit(lambda add: add * 2)
    for _ in range(2):
        with calque.log_compiles(True):
            f(jnp.ones(3))
        calque.clear_caches()
    told = [r for r in caplog.records if "Finished tracing <lambda> for jit" in r.getMessage()]
    assert len(told) == 2 and {r.levelname for r in told} == {"WARNING"}
    f(jnp.ones(4))
    assert len(caplog.records) == len(told)


def test_threads_share_one_function() -> None:
    f = calque.jit(lambda x, i: (x * i).sum())
    x, results, failures = jnp.arange(16.0), {}, []

    def work(i: int) -> None:
        try:
            for _ in range(50):
                results[i] = float(f(x, float(i)))
        except BaseException as e:
            failures.append(e)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures
    assert results == {i: 120.0 * i for i in range(8)}


def test_a_donated_argument_that_is_also_returned() -> None:
    f = calque.jit(lambda x: (x, x.at[1].set(5.0)), donate_argnums=0)
    x = jnp.arange(100.0) * 1
    a, b = f(x)
    np.testing.assert_array_equal(a, np.arange(100))
    assert float(b[1]) == 5.0 and x.is_deleted()


def test_tracebacks_show_the_users_frames(monkeypatch) -> None:
    def inner(x):
        return x + jnp.ones(5)

    def frames(f) -> list[str]:
        with pytest.raises(TypeError) as info:
            f(jnp.ones(4))
        return [e.path.name if hasattr(e.path, "name") else str(e.path)
                for e in info.traceback]

    short = frames(calque.jit(lambda x: inner(x)))
    assert short.count("test_jit.py") >= 2 and len(short) <= 5
    monkeypatch.setenv("CALQUE_TRACEBACK", "full")
    assert len(frames(calque.jit(lambda x: inner(x) * 1))) > len(short)


def test_tracebacks_of_what_runs_eagerly_show_the_users_frames() -> None:
    def wrong():
        return None

    x = jnp.ones((2, 3))
    for f in (lambda: x @ x, lambda: x + jnp.ones(4), lambda: x[1.5], lambda: jnp.matmul(x, x),
              lambda: x.at[0].set("a"), lambda: jnp.add(x, jnp.ones(4)), lambda: wrong() + x,
              lambda: jnp.concatenate([x, jnp.ones(2)]), lambda: calque.nn.softmax("a")):
        with pytest.raises((TypeError, ValueError)) as info:
            f()
        ours = [e.path for e in info.traceback[1:] if "test_jit.py" not in str(e.path)]
        assert len(ours) <= 2, ours


def test_programs_can_be_dumped(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("CALQUE_DUMP", str(tmp_path))

    def dumped(x):
        return x * 3 + 0.125

    calque.jit(dumped)(jnp.ones(11))
    names = sorted(p.name.split("-", 1)[1] for p in tmp_path.iterdir())
    assert {"dumped.stablehlo.mlir", "dumped.traced.txt", "dumped.vmfb"} <= set(names)


# ---- arguments of structures that come again (signatures.reader)
@pytest.mark.parametrize("chosen", [  # by default few that differ in their leaves
    (0, 1, 3, 4, 7, 11), pytest.param(range(13), marks=pytest.mark.slow)], ids=len)
def test_structures_that_take_turns(chosen: Sequence[int]) -> None:
    seen: list[Any] = []

    @calque.jit
    def f(*args: Any) -> Any:
        seen.append(args)
        return calque.tree.map(lambda x: x + 1, args)

    a, b = jnp.ones(3), jnp.zeros((2, 2))
    key = object()  # keys need not be strings
    every = [({"w": a, "b": [b, None, (a,)]}, a), ({"w": a, "c": [b, None, (a,)]}, a),
             ({"w": a, "b": [b, b, (a,)]}, a), ({"w": a, "b": [b, None, [a]]}, a), (a, b), (b, a),
             ({"w": 2.0, "b": [b, None, (a,)]}, a), ([], a), ((), {}), ({key: a}, b), (a,),
             ({"w": [a], "b": [b, None, (a,)]}, a), ({"w": a, "b": [b, None, (a,)], "x": a}, a)]
    calls = [every[i] for i in chosen]
    for turn in range(40):
        for args in (calls[0], calls[0], calls[0], calls[turn % len(calls)]):
            out = f(*args)
            assert calque.tree.structure(out) == calque.tree.structure(args)
            for o, x in zip(calque.tree.leaves(out), calque.tree.leaves(args)):
                np.testing.assert_array_equal(np.asarray(o), np.asarray(x) + 1)
    assert len(seen) == len(calls)  # one trace for each signature


def test_a_reader_sees_types_deletion_and_configuration() -> None:
    f = calque.jit(lambda p: p["x"] * 2)
    for _ in range(5):
        f({"x": jnp.ones(2)})
    assert f({"x": jnp.ones(2, jnp.int32)}).dtype == jnp.int32
    assert float(f({"x": jnp.float32(2)})) == 4
    with calque.enable_x64(True):
        assert f({"x": np.float64(0.5)}).dtype == np.float64
    gone = jnp.ones(2)
    gone.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        f({"x": gone})
    with pytest.raises(TypeError):
        f({"x": "text"})
    np.testing.assert_array_equal(np.asarray(calque.vmap(f)({"x": jnp.ones((3, 2))})), [[2, 2]] * 3)
    pending = calque.grad(lambda x: (x ** 2).sum())(jnp.ones(2))
    np.testing.assert_array_equal(np.asarray(f({"x": pending})), [4, 4])


def test_compile_refuses_sizes_that_are_known_at_the_call_only() -> None:
    """A ValueError, as in JAX; ahead of time they are welcome."""
    from calque import aot, export
    (b,) = export.symbolic_shape("b")
    lowered = calque.jit(lambda x: x + 1).lower(calque.ShapeDtypeStruct((b, 4), "float32"))
    with pytest.raises(ValueError, match=r"(?s)got an argument f32\[b,4\].*aot.compile"):
        lowered.compile()
    run = aot.load(aot.compile(lowered, name="f").vmfb).f
    assert run(np.ones((3, 4), np.float32))[0].numpy().sum() == 24


def test_static_and_donated_arguments_traced_by_two_threads_at_once() -> None:
    """What is given away does not depend on who traces meanwhile."""
    meet = threading.Barrier(2, timeout=60)

    @functools.partial(calque.jit, static_argnums=0, donate_argnums=2)
    def f(n: int, a: Any, b: Any) -> Any:
        meet.wait()  # both threads are in their trace here
        return a + n, b + n

    pairs = [(jnp.arange(8.0), jnp.arange(8.0)) for _ in range(2)]

    def run(n: int) -> None:
        outs = f(n, *pairs[n])
        np.testing.assert_array_equal(outs[0], np.arange(8.0) + n)
        np.testing.assert_array_equal(outs[1], np.arange(8.0) + n)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert [(a.is_deleted(), b.is_deleted()) for a, b in pairs] == [(False, True)] * 2
    late = (jnp.arange(8.0), jnp.arange(8.0))
    f(1, *late)  # known by now
    assert (late[0].is_deleted(), late[1].is_deleted()) == (False, True)


@pytest.mark.parametrize(("static", "donated", "dead"), [
    ((0, 2), (1,), "b"), ((0, 2), (3, 1), "bd"), ((-1,), (-2,), "c")])
def test_positions_of_donated_arguments_count_static_ones(static: Any, donated: Any,
                                                          dead: str) -> None:
    f = calque.jit(lambda a, b, c, d: (a + b + c + d, a - b - c - d), static_argnums=static,
                   donate_argnums=donated)
    values = [1 if i in {s % 4 for s in static} else jnp.arange(4) for i in range(4)]
    f(*values)
    assert "".join(n for n, v in zip("abcd", values)
                   if isinstance(v, calque.Array) and v.is_deleted()) == dead


def test_what_is_static_cannot_be_donated() -> None:
    with pytest.raises(ValueError, match="static_argnames and donate_argnames cannot intersect"):
        calque.jit(lambda a, b: a, static_argnums=0, donate_argnames=("a", "b"))
    with pytest.raises(ValueError, match="cannot intersect"):
        calque.jit(lambda *xs: xs, static_argnums=0, donate_argnums=(0, 1))


def test_options_that_say_nothing_are_taken() -> None:
    for options in ({"in_shardings": None, "out_shardings": None}, {"compiler_options": {}},
                    {"in_shardings": (None,), "compiler_options": None}):
        assert calque.jit(lambda x: x + 1, **options)(1) == 2
        assert calque.jit(**options)(lambda x: x + 1)(1) == 2
    lowered = calque.jit(lambda x: x + 1).trace(1).lower(lowering_platforms=("cpu",))
    assert lowered.compile(compiler_options={})(1) == 2
    with pytest.warns(UserWarning, match="'xla_gpu_autotune_level' is XLA's, and has no effect"):
        assert lowered.compile(compiler_options={"xla_gpu_autotune_level": 0})(1) == 2
    with pytest.raises(TypeError, match="in_shardings"):
        calque.jit(lambda x: x, in_shardings=(None, 3))
    with pytest.warns(UserWarning, match="'optimization_level' is XLA's"):
        assert calque.jit(lambda x: x + 1, compiler_options={"optimization_level": 29})(1) == 2
    with pytest.raises(calque.errors.JaxRuntimeError, match="No such compile option: 'xla_x'"):
        calque.jit(lambda x: x, compiler_options={"xla_x": True})
    with pytest.raises(calque.errors.JaxRuntimeError, match="'on' is not a valid bool value"):
        lowered.compile({"xla_embed_ir_in_executable": "on"})
    with pytest.raises(ValueError, match="platforms"):
        calque.jit(lambda x: x + 1).trace(1).lower(lowering_platforms=("tpu",)).compile()
    with pytest.raises(calque.errors.JaxRuntimeError, match="xla_x"):
        lowered.compile({"xla_x": True})


def test_what_a_user_writes_never_reaches_the_text_of_a_reader() -> None:
    """signatures.reader makes functions of text: keys of dictionaries are bound, not written."""
    class Sly(str):
        def __repr__(self) -> str:
            return "0] or __import__('sys').exit('run')  #"

    args = {Sly("a"): 1.0, "'] = 1; raise SystemExit  #": (2.0, [3.0])}
    assert float(calque.jit(lambda d: sum(calque.tree_util.tree_leaves(d)))(args)) == 6
    arrays = calque.tree_util.tree_map(jnp.asarray, args)
    read = signatures.reader((arrays,), {Sly("k"): jnp.ones(2)}, "key")
    assert read is not None and read((args,), {"k": jnp.ones(2)}, None) is None  # floats: no Arrays
    assert read((arrays,), {"other": jnp.ones(2)}, None) is None
    found = read((arrays,), {"k": jnp.ones(2)}, "config")
    assert found is not None and [float(x) for x in found[2][:3]] == [2.0, 3.0, 1.0]


def test_leaves_that_are_no_arrays_are_checked_once_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    real = signatures.check_arguments

    def counting(name: str, leaves: Any, *rest: Any, **more: Any) -> None:
        seen.append(len(leaves))
        real(name, leaves, *rest, **more)

    f = calque.jit(lambda d: d["a0"] + 1)
    monkeypatch.setattr(signatures, "check_arguments", counting)
    for make in (np.float32, float, lambda i: np.ones(2, np.float32) * i):
        for n in (3, 300):
            seen.clear()
            f({f"a{i}": make(i) for i in range(n)})
            assert sum(seen) == n  # once each, not once each for each


def test_programs_of_what_has_a_shape_and_a_dtype_and_of_named_axes() -> None:
    spec = types.SimpleNamespace(shape=(3,), dtype=np.dtype("float32"))
    assert calque.make_jaxpr(lambda x: x + 1)(spec).out_avals[0].shape == (3,)
    lowered = calque.jit(lambda x: x * 2).lower(spec)
    np.testing.assert_array_equal(lowered.compile()(jnp.ones(3)), np.full(3, 2.0))
    program = calque.make_jaxpr(lambda x: x - calque.lax.psum(x, "i"), axis_env=[("i", 4)])(2.0)
    assert "psum" in str(program)
    with pytest.raises(NameError, match="Found an unbound axis name: i"):
        calque.make_jaxpr(lambda x: calque.lax.psum(x, "i"))(2.0)
