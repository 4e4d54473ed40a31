"""Python functions called from programs: values, order, effects, batching, errors."""
from typing import Any

import numpy as np
import pytest
from support.harness import partly_slow

import calque
import calque.numpy as jnp
from calque import lax
from calque.experimental import io_callback

F = np.float32
SCALAR = calque.ShapeDtypeStruct((), F)


def like(x):
    return calque.ShapeDtypeStruct(x.shape, x.dtype)


@pytest.mark.parametrize("dtype", partly_slow([
    "?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "bfloat16", "f4", "f8", "c8", "c16",
    "float8_e5m2"], 0.18))
def test_values_of_every_dtype_go_over_and_back(dtype, x64) -> None:
    x = np.arange(6).reshape(2, 3).astype(jnp.dtype(dtype))
    if x.dtype.kind == "c":
        x = x * np.array(1 - 2j, x.dtype)
    seen = []

    def flip(v):
        seen.append(np.asarray(v))
        return np.asarray(v).T

    f = calque.jit(lambda x: calque.pure_callback(
        flip, calque.ShapeDtypeStruct((3, 2), x.dtype), x))
    y = f(x)
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(np.asarray(y).astype("c16"), x.T.astype("c16"))
    np.testing.assert_array_equal(seen[0].astype("c16"), x.astype("c16"))


def test_several_operands_results_trees_and_empty_arrays() -> None:
    def host(a, b, *, scale):
        assert b["none"].shape == (0, 3)
        return {"sum": a + b["x"] * scale, "none": np.zeros((2, 0), F)}

    def f(a, b):
        spec = {"sum": like(a), "none": calque.ShapeDtypeStruct((2, 0), F)}
        return calque.pure_callback(host, spec, a, b, scale=3.0)

    out = calque.jit(f)(jnp.ones(4), {"x": jnp.arange(4.0), "none": jnp.zeros((0, 3))})
    np.testing.assert_array_equal(out["sum"], 1 + 3 * np.arange(4))
    assert out["none"].shape == (2, 0)


def test_an_eager_call_is_a_call() -> None:
    assert float(calque.pure_callback(lambda v: np.float32(v + 1), SCALAR, 2.0)) == 3


def test_the_producer_is_waited_for() -> None:
    big = jnp.ones((500, 500))
    f = calque.jit(lambda b: calque.pure_callback(
        lambda v: np.asarray(v).sum(dtype=F), SCALAR, b @ b) * 2)
    assert float(f(big)) == 500.0**3 * 2


def test_effects_keep_their_order_and_number() -> None:
    seen = []

    def note(v):
        seen.append(int(v))

    def step(c, i):
        io_callback(note, None, i)
        return c + calque.pure_callback(lambda v: np.float32(v), SCALAR, i), None

    total, _ = calque.jit(lambda: lax.scan(step, 0.0, jnp.arange(300)))()
    assert seen == list(range(300)) and float(total) == sum(range(300))
    seen.clear()
    calque.jit(lambda n: lax.while_loop(
        lambda c: c < n, lambda c: (io_callback(note, None, c), c + 1)[1], 0))(4)
    assert seen == [0, 1, 2, 3]
    seen.clear()
    f = calque.jit(lambda p: lax.cond(p, lambda: io_callback(note, None, 1),
                                      lambda: io_callback(note, None, 2)))
    f(True), f(False)
    assert seen == [1, 2]


def test_calls_of_constants_keep_their_place() -> None:
    seen = []

    def note(*values):
        seen.append([np.asarray(v).tolist() for v in values])

    def loop(x):  # (so short that it is written out: the first turn is of constants alone)
        end = lax.fori_loop(0, 3, lambda i, c: (io_callback(note, None, i, c), c * 2)[1], 1)
        io_callback(note, None, 9, end)
        return x

    def mixed(x):
        io_callback(note, None, 1, np.ones(2, np.uint8))
        io_callback(note, None, 2, x.sum())
        io_callback(note, None, 3, 1j)
        io_callback(note, None, 4, x)
        io_callback(note, None, True)

    calque.block_until_ready(calque.jit(loop)(jnp.ones(2)))
    assert seen == [[0, 1], [1, 2], [2, 4], [9, 8]]
    seen.clear()
    calque.jit(mixed)(jnp.arange(3.0))
    calque.effects_barrier()
    assert seen == [[1, [1, 1]], [2, 3.0], [3, 1j], [4, [0.0, 1.0, 2.0]], [True]]


def test_a_function_without_results_runs() -> None:
    seen = []
    f = calque.jit(lambda x: io_callback(lambda v: seen.append(float(v)), None, x))
    assert f(2.0) is None and f(3.0) is None
    assert seen == [2.0, 3.0]


def test_a_pure_call_without_use_is_left_out() -> None:
    seen = []
    calque.jit(lambda x: (calque.pure_callback(lambda v: seen.append(1), SCALAR, x), x)[1])(1.0)
    assert seen == []


def test_print(capsys) -> None:
    @calque.jit
    def f(x):
        calque.debug.print("x = {x}, {} {word} {y:.2f}", x * 2, x=x, word="and", y=x[0])
        return x
    f(jnp.arange(3.0))
    calque.debug.print("eager {}", jnp.ones(2))
    assert capsys.readouterr().out == "x = [0. 1. 2.], [0. 2. 4.] and 0.00\neager [1. 1.]\n"
    with pytest.raises(KeyError):
        calque.debug.print("{missing}", x=1)


def test_under_transformations(capsys) -> None:
    def f(x):
        calque.debug.print("x = {}", x)
        return x**2
    assert float(calque.grad(f)(3.0)) == 6
    assert capsys.readouterr().out == "x = 3.0\n"
    calque.vmap(f)(jnp.arange(3.0))
    assert capsys.readouterr().out == "x = 0.0\nx = 1.0\nx = 2.0\n"
    calque.jit(calque.vmap(calque.grad(f)))(jnp.arange(2.0))
    assert capsys.readouterr().out == "x = 0.0\nx = 1.0\n"
    with pytest.raises(ValueError, match="do not support JVP"):
        calque.grad(lambda x: calque.pure_callback(np.sin, SCALAR, x))(1.0)
    x = calque.grad(lambda x: x * calque.pure_callback(
        lambda v: np.sin(v, dtype=F), SCALAR, lax.stop_gradient(x)))(1.0)
    assert float(x) == pytest.approx(np.sin(1.0), rel=1e-6)


@pytest.mark.parametrize("method", ["sequential", "sequential_unrolled", "expand_dims",
                                    "broadcast_all"])
def test_vmap_methods(method) -> None:
    shapes = []

    def host(a, b):
        shapes.append((a.shape, b.shape))
        return np.asarray(a) + np.asarray(b)

    f = calque.vmap(lambda a, b: calque.pure_callback(host, SCALAR, a, b, vmap_method=method),
                    (0, None))
    want = np.arange(3) + 10
    np.testing.assert_array_equal(f(jnp.arange(3.0), 10.0), want)
    np.testing.assert_array_equal(calque.jit(f)(jnp.arange(3.0), 10.0), want)
    assert set(shapes) == {{"expand_dims": ((3,), (1,)), "broadcast_all": ((3,), (3,))}.get(
        method, ((), ()))}


def test_vmap_needs_a_method() -> None:
    with pytest.raises(NotImplementedError, match="vmap_method"):
        calque.vmap(lambda a: calque.pure_callback(np.sin, SCALAR, a))(jnp.arange(3.0))
    with pytest.raises(ValueError, match="vmap_method"):
        calque.pure_callback(np.sin, SCALAR, 1.0, vmap_method="all")
    with pytest.raises(ValueError, match="ordered"):
        calque.vmap(lambda a: io_callback(np.sin, SCALAR, a, ordered=True))(jnp.arange(3.0))


class OwnError(Exception):
    pass


def test_what_a_callback_raises_arrives_as_it_was() -> None:
    def boom(x):
        raise OwnError("mine")
    f = calque.jit(lambda x: calque.pure_callback(boom, SCALAR, x) + 1)
    for _ in range(2):
        with pytest.raises(OwnError, match="mine") as caught:
            f(1.0)
        assert "boom" in [e.name for e in caught.traceback]
    g = calque.jit(lambda b: calque.pure_callback(boom, SCALAR, jnp.sum(b @ b)))
    with pytest.raises(OwnError):
        g(jnp.ones((500, 500)))
    assert float(calque.jit(lambda x: x + 1)(1.0)) == 2  # and all goes on


def test_wrong_results_are_named() -> None:
    for wrong in (lambda v: np.zeros(3, F), lambda v: (v, v), lambda v: np.complex64(1j)):
        with pytest.raises(RuntimeError, match="was to return"):
            calque.jit(lambda x: calque.pure_callback(wrong, SCALAR, x))(1.0)  # noqa: B023
    with pytest.raises(TypeError, match="shape and dtype"):
        calque.pure_callback(np.sin, 3, 1.0)


def test_a_callback_may_call_jitted_functions() -> None:
    inner = calque.jit(lambda x: jnp.sin(x) * 2)
    f = calque.jit(lambda x: calque.pure_callback(lambda v: inner(v), SCALAR, x) + 1)
    assert float(f(1.0)) == pytest.approx(2 * np.sin(1.0) + 1, rel=1e-6)


def test_artifacts_refuse_callbacks() -> None:
    import calque.aot
    with pytest.raises(TypeError, match="callback"):
        calque.aot.compile(lambda x: calque.pure_callback(np.sin, SCALAR, x), "f32[]")


@pytest.mark.vulkan
def test_on_a_gpu_whose_memory_the_host_does_not_see(gpu: Any) -> None:
    """What a program computed is no mapped memory there; results go back."""
    def doubled(x: Any) -> Any:
        return calque.pure_callback(lambda a: np.asarray(a) + a,
                                    calque.ShapeDtypeStruct(x.shape, x.dtype), x)

    x = np.arange(4, dtype=np.float32)
    with calque.default_device(gpu):
        for f, want in ((doubled, 2 * x), (lambda v: doubled(v.sum()), 2 * x.sum()),
                        (lambda v: doubled(doubled(v) * 2) + 1, 8 * x + 1),
                        (lambda v: doubled(v + 1j * v), 2 * (x + 1j * x)),
                        (lambda v: doubled(v > 1), x > 1),
                        (lambda v: lax.scan(lambda c, _: (doubled(c) + 1, c.sum()), v, None,
                                            length=3)[0], 8 * x + 7)):
            got = calque.jit(f)(jnp.asarray(x))
            assert got.devices() == {gpu}
            np.testing.assert_array_equal(got, np.asarray(want).astype(got.dtype))


def test_values_without_a_field_are_refused() -> None:
    for text, args, kwargs, words in (
            ("hello", (1,), {}, "You may be passing an f-string"),
            ("hello", (), {"x": 1}, "You may be passing an f-string"),
            ("{x}", (), {"x": 1, "y": 1}, "Unused keyword arguments"),
            ("{}", (1, 2), {}, "Unused positional arguments")):
        with pytest.raises(ValueError, match=words):
            calque.debug.print(text, *args, **kwargs)
        calque.debug.print(text, *args, skip_format_check=True, **kwargs)


def test_numpys_options_hold_in_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    x = np.array([1.23456, 2.34567, 1e-9], np.float32)
    with np.printoptions(precision=2, suppress=True):
        calque.jit(lambda x: calque.debug.print("{}", x))(x)
        calque.effects_barrier()
    assert capsys.readouterr().out == "[1.23 2.35 0.  ]\n"


def test_a_callback_may_return_its_leaves_in_another_tree() -> None:
    spec = {"y": [calque.ShapeDtypeStruct((), np.float32)]}
    got = calque.pure_callback(lambda v: {"y": [v]}, spec, [np.float32(2)])
    assert got == {"y": [2]}


def test_64_bits_cannot_be_promised_without_x64() -> None:
    with pytest.raises(ValueError, match="cannot specify 64-bit types"):
        calque.pure_callback(lambda: np.float64(1), calque.ShapeDtypeStruct((), np.float64))


def test_types_of_values_as_specs() -> None:
    spec = calque.ShapeDtypeStruct.like(np.ones((2, 3), np.float32))
    assert spec == calque.ShapeDtypeStruct((2, 3), np.float32)
    assert spec.update(shape=(4,)) == calque.ShapeDtypeStruct((4,), np.float32)
    with pytest.raises(TypeError, match="unsized"):
        len(calque.ShapeDtypeStruct((), np.float32))


class Refused(ValueError):
    """An exception with a constructor of its own."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


@pytest.mark.parametrize("error", [
    ZeroDivisionError("a"), OSError(2, "no file"), KeyError("k"), Refused("no", 7),
    UnicodeDecodeError("utf8", b"a", 0, 1, "reason")], ids=lambda e: type(e).__name__)
def test_what_a_callback_raises_is_an_error_of_the_program_too(error: Exception) -> None:
    """Of its own class, with its values, and a JaxRuntimeError whose text names the class as JAX's
    does: equinox's filter_jit looks for it."""
    def fail(x: Any) -> Any:
        raise error

    for kind in (type(error), calque.errors.JaxRuntimeError):
        with pytest.raises(kind) as found:
            calque.jit(lambda x: calque.pure_callback(fail, x, x))(1.0)
        assert str(found.value) == (f"{error}\n  (a callback raised {type(error).__name__}: "
                                    f"{error})") and found.value.args == error.args
        assert getattr(found.value, "code", None) == getattr(error, "code", None)


def test_messages_of_debug() -> None:
    for call in (lambda: calque.debug.callback(ordered=True, a=1),
                 lambda: calque.debug.callback(None, 42)):
        with pytest.raises(TypeError, match="debug_callback received unexpected arguments in the"):
            call()
    for call in (lambda: calque.debug.print(None, 42), lambda: calque.debug.print(a=1)):
        with pytest.raises(TypeError, match="debug_print received unexpected arguments in the two"):
            call()
    with pytest.raises(TypeError, match="must be callable, but got an object of type"):
        calque.debug.callback(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"Unused positional arguments to .*: \[5\]"):
        calque.debug.print("{}", 3, 5)
    with pytest.raises(ValueError, match=r"Unused keyword .*: \['a'\]. You may be passing an f-st"):
        calque.debug.print("x", a=5)


def test_arrays_within_containers_print_as_arrays(capsys: pytest.CaptureFixture[str]) -> None:
    calque.jit(lambda x: calque.debug.print("{} {}", x, {"a": x}))(jnp.arange(2))
    calque.effects_barrier()
    assert capsys.readouterr().out == "[0 1] {'a': Array([0, 1], dtype=int32)}\n"


@pytest.mark.parametrize("where", ["predicate", "body", "branch", "inner"])
def test_io_callbacks_are_not_made_for_masked_elements(where: str) -> None:
    """Elements that are done, or take another branch, would call as well: an error as in JAX, under
    a vmap of what decides.  Where all go the same way each calls."""
    seen: list[int] = []

    def call(i: Any) -> Any:
        return io_callback(lambda v: seen.append(int(v)) or v, i, i)

    def loop(i: Any, n: Any) -> Any:
        return lax.while_loop(lambda i: (call(i) if where == "predicate" else i) < n,
                              lambda i: (call(i) if where == "body" else i) + 1, i)

    def choice(i: Any, n: Any) -> Any:
        def branch(v: Any) -> Any:
            return calque.jit(call)(v) if where == "inner" else call(v)
        return lax.cond(i < n, branch, lambda v: v, i)

    f = loop if where in ("predicate", "body") else choice
    with pytest.raises(NotImplementedError, match="IO effects? not supported in"):
        calque.vmap(f, in_axes=(0, None))(jnp.array([0, 1]), 2)
    assert seen == []
    if f is choice:
        calque.vmap(lambda i, n: lax.cond(n, call, lambda v: v, i), (0, None))(jnp.arange(2), True)
        calque.effects_barrier()
        assert sorted(seen) == [0, 1]


def test_callbacks_have_no_transpose() -> None:
    x = jnp.array(1.0)
    for kind, call in (("IO", io_callback), ("Pure", calque.pure_callback)):
        with pytest.raises(ValueError, match=f"^{kind} callbacks do not support transpose"):
            calque.linear_transpose(lambda v, c=call: c(lambda v: v, x, v), x)(x)


def test_what_is_not_mapped_is_passed_as_it_is_by_legacy_vectorized():
    """The other methods give it a leading axis."""
    seen = {}
    for method in ("legacy_vectorized", "expand_dims", "broadcast_all"):
        def total(x, y, method=method):
            seen[method] = x.shape, y.shape
            return np.asarray(x) + np.asarray(y).reshape(-1)[0]

        out = calque.vmap(
            lambda x, y, m=method, f=total: calque.pure_callback(f, x, x, y, vmap_method=m),
            in_axes=(1, None))(np.ones((2, 4), np.float32), np.full(3, 2.0, np.float32))
        np.testing.assert_array_equal(out, np.full((4, 2), 3.0))
    assert seen == {"legacy_vectorized": ((4, 2), (3,)), "expand_dims": ((4, 2), (1, 3)),
                    "broadcast_all": ((4, 2), (4, 3))}


@pytest.mark.parametrize("api", ["pure_callback", "io_callback", "debug.callback"])
def test_a_callback_that_fails_is_logged(api, caplog):
    """The call may be over long before: what failed is in the log with its traceback."""
    def fail(x):
        raise RuntimeError("no such file")

    def f(x):
        if api == "debug.callback":
            calque.debug.callback(fail, x)
            return x
        call = calque.pure_callback if api == "pure_callback" else io_callback
        return call(fail, x, x)

    with pytest.raises(RuntimeError, match="no such file"):
        calque.block_until_ready(calque.jit(f)(1.0))
        calque.effects_barrier()
    (record,) = [r for r in caplog.records if r.name == "calque.callbacks"]
    assert record.message == f"jax.{api} failed" and "no such file" in record.exc_text
