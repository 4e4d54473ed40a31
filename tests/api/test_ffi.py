"""calque.ffi: kernels of the user's in C, inside programs; the oracle is NumPy.

Sums and products here are of small whole numbers and halves, exact in every dtype: no tolerances,
except for the gradient's, which says its own.
"""
from __future__ import annotations

import datetime
import itertools
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.harness import partly_slow, some_and_more

import calque
import calque.numpy as jnp
from calque import aot, ffi, lax
from calque.api.ffi import METHODS

S = calque.ShapeDtypeStruct
SCALE = ffi.Kernel("""
static float times(float x, double by) { return x * by; }
void scale(const float *x, float *y, long n, double by) {
  for (long i = 0; i < n; ++i) y[i] = times(x[i], by);
}""", "scale", scalars=lambda ins, outs, by: (outs[0].size, by))
ADD = ffi.Kernel("""
static float times(float x, float y) { return x + y; }  // the same name as in SCALE
void add(const float *x, const float *y, float *z, long n, long m) {
  for (long i = 0; i < n; ++i) z[i] = times(x[i], y[i % m]);
}""", "add", scalars=lambda ins, outs: (outs[0].size, ins[1].size))
_counter = itertools.count()


def registered(kernel: ffi.Kernel) -> str:
    name = f"test{next(_counter)}"
    ffi.register_ffi_target(name, kernel)
    return name


def kernel(source: str, entry: str = "f", **options: Any) -> str:
    return registered(ffi.Kernel(source, entry, **options))


ffi.register_ffi_target("test_scale", SCALE)
ffi.register_ffi_target("test_add", ADD)


def scale(x: Any, by: float = 2.5, vmap_method: str | None = None) -> Any:
    return ffi.ffi_call("test_scale", S(x.shape, x.dtype), vmap_method=vmap_method)(x, by=by)


def test_in_one_program_with_others() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)

    @calque.jit
    def f(x: Any) -> Any:
        y = scale(x + 1)
        z = ffi.ffi_call("test_add", y)(y, x[0])
        return scale(z, by=-1.0).sum(axis=0), z
    total, z = f(x)
    want = (x + 1) * np.float32(2.5) + x[0]
    np.testing.assert_array_equal(z, want)
    np.testing.assert_array_equal(total, -want.sum(axis=0))
    np.testing.assert_array_equal(scale(jnp.asarray(x)), x * np.float32(2.5))  # eagerly
    assert not np.signbit(scale(jnp.ones(1), by=0.0))
    assert np.signbit(scale(jnp.ones(1), by=-0.0))  # another program, though -0.0 == 0.0
    for special in (np.nan, np.inf, -0.0):
        got = np.asarray(scale(jnp.full(1, special), by=1.0))
        assert got.tobytes() == np.full(1, special, np.float32).tobytes()


C_TYPES = {"bool": "_Bool", "int8": "signed char", "uint8": "unsigned char", "int16": "short",
           "uint16": "unsigned short", "int32": "int", "uint32": "unsigned", "int64": "long",
           "uint64": "unsigned long", "float32": "float", "float64": "double",
           "complex64": "float _Complex", "complex128": "double _Complex"}


@pytest.mark.parametrize("dtypes", some_and_more([*C_TYPES], 0.3))
def test_every_dtype(dtypes: list[str]) -> None:
    """Each reversed by a kernel of its own, all in one program; sizes 0, 1 and 5."""
    with calque.enable_x64(True):
        names = {t: kernel(f"void f(const {C_TYPES[t]} *x, {C_TYPES[t]} *y, long n) "
                           "{ for (long i = 0; i < n; ++i) y[i] = x[n - 1 - i]; }",
                           scalars=lambda ins, outs: (outs[0].size,)) for t in dtypes}
        xs = [np.array([0, 1, 2, 3, -4][:n]).astype(t) for t in dtypes for n in (0, 1, 5)]
        outs = calque.jit(lambda xs: [ffi.ffi_call(names[x.dtype.name], S(x.shape, x.dtype))(x)
                                      for x in xs])(xs)
        for x, out in zip(xs, outs):
            assert out.dtype == x.dtype
            np.testing.assert_array_equal(out, x[::-1])


def test_results_work_grid_and_empty() -> None:
    """Two results by way of work space, spread over groups; with an empty operand beside."""
    name = kernel("""
void f(const float *x, const float *none, float *y, int *where, float *work, long n, _Bool flip,
       long group, long groups) {
  for (long i = n * group / groups; i < n * (group + 1) / groups; ++i) {
    work[i] = 2 * x[i];
    y[i] = flip ? -work[i] : work[i];
    where[i] = group;
  }
}""", scalars=lambda ins, outs, flip: (outs[0].size, flip), grid=lambda ins, outs, flip: 7,
                  work=lambda ins, outs, flip: [(outs[0].shape, "float32")])
    x = np.arange(1000, dtype=np.float32)
    spec = (S(x.shape, np.float32), S(x.shape, np.int32))
    out = calque.jit(lambda x: ffi.ffi_call(name, spec)(x, x[:0], flip=True))(x)
    np.testing.assert_array_equal(out[0], -2 * x)
    bounds = np.arange(8) * 1000 // 7
    np.testing.assert_array_equal(out[1], np.repeat(np.arange(7), np.diff(bounds)))


def test_aliases_keep_the_operand() -> None:
    name = kernel("void f(float *x, float *y, long n) { for (long i = 0; i < n; ++i) "
                  "{ if (x != y) y[i] = -1; else y[i] += 1; } }",
                  scalars=lambda ins, outs: (outs[0].size,))

    @calque.jit
    def f(x: Any) -> Any:
        y = x * 2
        return y, ffi.ffi_call(name, y, input_output_aliases={0: 0})(y), x
    x = np.arange(9, dtype=np.float32)
    y, z, same = f(x)
    np.testing.assert_array_equal(y, x * 2)
    np.testing.assert_array_equal(z, x * 2 + 1)
    np.testing.assert_array_equal(same, x)


@pytest.mark.parametrize("method", partly_slow(METHODS, 0.3))
def test_vmap(method: str) -> None:
    x, y = np.arange(12, dtype=np.float32).reshape(3, 4), np.arange(4, dtype=np.float32)

    def one(x: Any, y: Any) -> Any:
        y = scale(y, vmap_method=method)
        return ffi.ffi_call("test_add", S(x.shape, x.dtype), vmap_method=method)(x, y)
    want = x + y * np.float32(2.5)
    got = calque.jit(calque.vmap(one, in_axes=(0, None)))(x, y)
    np.testing.assert_array_equal(got, want)
    got = calque.jit(calque.vmap(one, in_axes=(1, None), out_axes=1))(x.T, y)
    np.testing.assert_array_equal(got, want.T)


# Shapes of the operands of the calls in a jaxpr, as jax 0.10.2 gives them for vmap over x alone,
# over both (x along axis 1), over y alone, and over x within y; x is (2,) and y (5,).
SHAPES = {
    "sequential": [[(2,), (5,)]] * 4, "sequential_unrolled": [[(2,), (5,)]] * 4,
    "expand_dims": [[(3, 2), (1, 5)], [(3, 2), (3, 5)], [(1, 2), (3, 5)], [(1, 3, 2), (4, 1, 5)]],
    "broadcast_all": [*[[(3, 2), (3, 5)]] * 3, [(4, 3, 2), (4, 3, 5)]],
    "legacy_vectorized": [[(3, 2), (5,)], [(3, 2), (3, 5)], [(2,), (3, 5)], [(3, 2), (4, 5)]]}


def calls_in(jaxpr: Any) -> list[list[tuple[int, ...]]]:
    found = []
    for e in jaxpr.eqns:
        if e.primitive.name == "ffi_call":
            found.append([v.aval.shape for v in e.invars])
        for v in e.params.values():
            found += calls_in(v.jaxpr) if hasattr(v, "jaxpr") else calls_in(v) if hasattr(
                v, "eqns") else []
    return found


@pytest.mark.parametrize("method", METHODS)
def test_vmap_gives_the_kernel_what_jax_gives_it(method: str) -> None:
    def f(x: Any, y: Any) -> Any:
        return ffi.ffi_call("test_add", S((2, 5), np.float32), vmap_method=method,
                            input_layouts=[(0,), None])(x, y)
    x, y, z = np.ones((3, 2), "f4"), np.ones(5, "f4"), np.ones((4, 5), "f4")
    cases = [(calque.vmap(f, (0, None)), x, y), (calque.vmap(f, (1, 0)), x.T, z[:3]),
             (calque.vmap(f, (None, 0)), x[0], z[:3]),
             (calque.vmap(calque.vmap(f, (0, None)), (None, 0)), x, z)]
    for (mapped, *args), want in zip(cases, SHAPES[method]):
        assert calls_in(calque.make_jaxpr(mapped)(*args).jaxpr) == [want]


def test_mapped_by_a_rule_of_the_users_and_by_pmap() -> None:
    """custom_vmap around a kernel, kernels in branches, pmap."""
    @calque.custom_batching.custom_vmap
    def f(x: Any) -> Any:
        return scale(x)

    @f.def_vmap
    def _(size: int, mapped: Any, x: Any) -> Any:
        return scale(x, by=2.5) + 0.0, True
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(calque.jit(calque.vmap(f))(x), x * np.float32(2.5))
    np.testing.assert_array_equal(calque.vmap(f)(x), x * np.float32(2.5))

    def chosen(x: Any) -> Any:
        return lax.switch(x[0].astype(int) % 3, [
            lambda x: scale(x, by=2.0, vmap_method="sequential"), lambda x: -x,
            lambda x: scale(x, by=3.0, vmap_method="sequential")], x)
    want = np.stack([r * f for r, f in zip(x, np.float32([2, -1, 3])[x[:, 0].astype(int) % 3])])
    np.testing.assert_array_equal(calque.jit(calque.vmap(chosen))(x), want)
    np.testing.assert_array_equal([calque.jit(chosen)(r) for r in x], want)
    np.testing.assert_array_equal(calque.pmap(scale)(x[:1]), x[:1] * np.float32(2.5))


def test_derivatives_loops_and_jaxpr() -> None:
    @calque.custom_vjp
    def f(x: Any) -> Any:
        return scale(x)
    f.defvjp(lambda x: (scale(x), None), lambda _, ct: (scale(ct),))
    x = np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(calque.grad(lambda x: f(x).sum())(x), np.full(5, 2.5, "f4"))

    def step(c: Any, x: Any) -> Any:
        c = scale(c, by=0.5) + x
        return c, c
    c, out = calque.jit(lambda c, xs: lax.scan(step, c, xs))(np.zeros(3, "f4"),
                                                           np.ones((4, 3), "f4"))
    np.testing.assert_array_equal(np.asarray(out)[:, 0], [1, 1.5, 1.75, 1.875])
    got = calque.jit(lambda x: lax.while_loop(lambda x: x[0] < 100, lambda x: scale(x, by=2.0), x))(
        np.ones(3, "f4"))
    np.testing.assert_array_equal(got, np.full(3, 128, "f4"))
    text = str(calque.make_jaxpr(scale)(x))
    assert "ffi_call" in text and "test_scale" in text
    with pytest.raises(ValueError, match="`test_scale` cannot be differentiated.*\n.*\n?.*Fix"):
        calque.grad(lambda x: scale(x).sum())(x)
    with pytest.raises(NotImplementedError, match="when vmap_method is one of 'sequential'"):
        calque.vmap(scale)(np.ones((2, 3), "f4"))
    with pytest.raises(NotImplementedError, match="'test_scale' is code of one platform"):
        calque.export.export(calque.jit(scale))(x)


def test_artifact_for_several_targets(tmp_path: Path) -> None:
    """The kernel is compiled for each level, and runs from the file; one without is refused."""
    x = np.arange(5, dtype=np.float32)
    made = aot.compile(scale, S(x.shape, x.dtype),
                       targets=["cpu:x86-64-v2", "cpu:x86-64-v3", "cpu:x86-64-v4", "cpu:x86-64"])
    f = aot.load(made.save(tmp_path / "scale.vmfb")).scale
    (got,) = f(x)
    np.testing.assert_array_equal(got, x * np.float32(2.5))
    with pytest.raises(NotImplementedError, match="'test_scale' has no kernel for vulkan"):
        aot.compile(scale, S(x.shape, x.dtype), targets="vulkan:lavapipe")


def test_registered_anew() -> None:
    """A new kernel under a name serves new traces."""
    def f(x: Any) -> Any:
        return ffi.ffi_call(name, x)(x)
    name = kernel("void f(const float *x, float *y) { *y = *x + 1; }")
    assert calque.jit(lambda x: f(x))(1.0) == 2
    ffi.register_ffi_target(name, ffi.Kernel("void f(const float *x, float *y) { *y = *x + 7; }",
                                             "f"))
    assert calque.jit(lambda x: f(x))(1.0) == 8


PAGE = Path(__file__).parent.parent.parent / "docs" / "your_own_operation.md"


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                       capsys: pytest.CaptureFixture[str]) -> None:
    """What it says of C (tests/cpp/test_cpp.py runs all of it)."""
    files = dict(re.findall(r"^```python (\S+)\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S))
    said = re.search(r"^\$ python try.py\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S)
    (tmp_path / "operation.py").write_text(files["operation.py"])
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("try.py", "form.py"):
        exec(compile(files[name], name, "exec"), {})
    del sys.modules["operation"]
    assert said is not None and capsys.readouterr().out == said[1]


BAD = {  # source -> the words of the error
    "void f(const float *x, float *y) { *y = ; }": "error: expected expression",
    "void g(const float *x, float *y) { }": "'f'",
    "void f(const float *x) { }": "too many arguments",
    "void f(const double *x, float *y) { }": "incompatible pointer type",
    "void f(float *x, float *y) { }": "discards 'const' qualifier",
    "float expf(float); void f(const float *x, float *y) { *y = expf(*x); }": "needs expf",
    "void f(const float *x, float *y) { puts(x); }": "implicit declaration of function 'puts'"}


@pytest.mark.parametrize("source", BAD)
def test_source_that_cannot_be_used(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    name = kernel(source)
    with pytest.raises(ValueError, match="ffi_call: the C kernel of") as error:
        calque.jit(lambda x: ffi.ffi_call(name, x)(x))(1.0)
    assert BAD[source] in str(error.value) and "Fix: " in str(error.value)


def test_a_call_is_traced_without_its_kernel() -> None:
    like = calque.ShapeDtypeStruct((3,), "float32")
    call = ffi.ffi_call("nobody", like, vmap_method="sequential")
    with pytest.raises(ValueError, match="cannot be differentiated"):
        calque.jvp(lambda x: call(x, what={"a": 1}), (jnp.ones(3),), (jnp.ones(3),))
    assert "nobody" in str(calque.make_jaxpr(calque.vmap(call))(jnp.ones((2, 3))))
    with pytest.raises(ValueError, match="no kernel is registered as 'nobody'"):
        calque.jit(call).lower(jnp.ones(3)).compile()


def test_bad_arguments() -> None:
    x = jnp.ones(3)
    one = kernel("void f(const float *x, float *y) { *y = *x; }")
    block = kernel("void f(const float *x, float *y) { }", block=8)
    grid = kernel("void f(const float *x, float *y, long g, long n) { }", grid=lambda i, o: 0)
    big = kernel("void f(const float *x, float *y, long n) { }", scalars=lambda i, o: (1 << 63,))
    word = kernel("void f(const float *x, float *y, long n) { }", scalars=lambda i, o: ("n",))
    cases: list[tuple[Any, type[Exception], str]] = [
        (lambda: ffi.ffi_call("nobody", x)(x), ValueError, "no kernel is registered as 'nobody'"),
        (lambda: ffi.ffi_call(one, x, vmap_method="all"), ValueError, "must be one of"),
        (lambda: ffi.ffi_call(one, 3)(x), ValueError, "shape and dtype. Got 3 at posit"),
        (lambda: ffi.ffi_call(one, (x, ()))(x), ValueError, r"Got \(\) at position 1"),
        (lambda: ffi.ffi_call(one, ())(x), ValueError, "must have a result"),
        (lambda: ffi.ffi_call(one, x)(x, n=1), TypeError, "takes no attributes, got n"),
        (lambda: ffi.ffi_call("test_scale", x)(x, by=x), TypeError, "must be a number"),
        (lambda: ffi.ffi_call(one, x, input_output_aliases={1: 0})(x), ValueError, "count from 0"),
        (lambda: ffi.ffi_call(one, x[:2], input_output_aliases={0: 0})(x), ValueError, "same mem"),
        (lambda: ffi.ffi_call(grid, x)(x), ValueError, "grid of"),
        (lambda: ffi.ffi_call(block, x)(x), ValueError, "has a block or shared_memory"),
        (lambda: ffi.ffi_call(big, x)(x), OverflowError, "int64"),
        (lambda: ffi.ffi_call(word, x)(x), TypeError, "'n' of .* is no number"),
        (lambda: ffi.ffi_call(one, x)(calque.random.key(0)), TypeError, "PRNG keys"),
        (lambda: ffi.Kernel("", "a b"), ValueError, "no name in C"),
        (lambda: ffi.Kernel("", "a", grid=3), TypeError, "grid must be a function"),  # type: ignore
        (lambda: ffi.register_ffi_target("", SCALE), ValueError, "is no name"),
        (lambda: ffi.register_ffi_target("a", print), TypeError, "must be an ffi.Kernel"),
        (lambda: ffi.register_ffi_target("a", datetime.datetime_CAPI, api_version=0), TypeError,
         "is a handler of XLA's of version 0 in a shared library"),
        (lambda: ffi.register_ffi_target("a", SCALE, "tpu"), ValueError, "'tpu'")]
    for call, kind, words in cases:
        with pytest.raises(kind, match=words):
            call()


# ---- the form elsewhere
def _shifted(x: Any, y: Any, by: float = 1.0) -> Any:
    return x * by + y.sum()


def with_form(**options: Any) -> str:
    name = kernel("""
    void f(const float *x, const float *y, float *z, long n, long m, long p, double by) {
      for (long i = 0; i < n; ++i) {
        float sum = 0;
        for (long j = 0; j < m; ++j) sum += y[(p == 1 ? 0 : i / (n / p) * m) + j];
        z[i] = x[i] * by + sum;
      }
    }""", scalars=lambda ins, outs, by: (
        outs[0].size, ins[1].shape[-1], ins[1].size // ins[1].shape[-1], by))
    ffi.register_ffi_target(name, _shifted, platform="default")
    return name


def test_check_compares_the_kernel_with_the_form_elsewhere() -> None:
    x, y = np.arange(6, dtype=np.float32), np.arange(3, dtype=np.float32)
    name = with_form()
    ffi.check(name, x, y, by=2.0)
    ffi.register_ffi_target(name, lambda x, y, by: _shifted(x, y, by) + (x == 3),
                            platform="default")
    with pytest.raises(AssertionError, match="result 0 of the kernel"):
        ffi.check(name, x, y, by=2.0)
    ffi.check(name, x, y, by=2.0, atol=1.0)
    with pytest.raises(ValueError, match="must have a kernel and a form elsewhere"):
        ffi.check("test_add", x, x)


@pytest.mark.parametrize("method", partly_slow(
    ["sequential", "expand_dims", "broadcast_all", "legacy_vectorized"], 0.25))
def test_form_elsewhere_where_there_is_no_kernel(method: str) -> None:
    name = f"test{next(_counter)}"
    ffi.register_ffi_target(name, _shifted, platform="default")

    def f(x: Any, y: Any) -> Any:
        return ffi.ffi_call(name, S(x.shape, x.dtype), vmap_method=method)(x, y, by=3.0)
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    y = np.arange(6, dtype=np.float32).reshape(3, 2)
    want = x * 3 + y.sum(1)[None, :, None]
    inner = calque.vmap(f, in_axes=(0, 0))
    np.testing.assert_array_equal(
        calque.jit(calque.vmap(inner, in_axes=(0, None)))(x, y), want)
    np.testing.assert_array_equal(
        calque.jit(calque.vmap(f, in_axes=(1, None)))(x[0], y[1]), x[0].T * 3 + y[1].sum())
    np.testing.assert_array_equal(f(x, y), x * 3 + y.sum())


def test_form_elsewhere_for_other_targets_and_for_export() -> None:
    name, x, y = with_form(), np.arange(4, dtype=np.float32), np.ones(2, np.float32)

    def f(x: Any, y: Any) -> Any:
        return ffi.ffi_call(name, S(x.shape, x.dtype))(x, y, by=2.0) + 1
    types = [S(a.shape, a.dtype) for a in (x, y)]
    both = aot.compile(f, *types, targets=["cpu:x86-64-v3", "vulkan:lavapipe", "cuda:sm_80"])
    assert both.vmfb
    from calque import export
    exported = export.deserialize(export.export(calque.jit(f))(*types).serialize())
    np.testing.assert_array_equal(exported.call(x, y), x * 2 + 3)
    np.testing.assert_array_equal(calque.jit(f)(x, y), x * 2 + 3)


def test_bad_forms_elsewhere() -> None:
    x = np.ones(3, np.float32)
    with pytest.raises(TypeError, match="platform='default'"):
        ffi.register_ffi_target("test_bad", lambda x: x)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be a function, got int"):
        ffi.register_ffi_target("test_bad", 3, platform="default")  # type: ignore[arg-type]
    ffi.register_ffi_target("test_bad", lambda x: x[:2], platform="default")
    with pytest.raises(TypeError, match=r"gives f(loat)?32\[2\]"):
        ffi.ffi_call("test_bad", S((3,), "float32"))(x)
    outside = jnp.arange(3.0)
    ffi.register_ffi_target("test_bad", lambda x: x + outside, platform="default")
    with pytest.raises(ValueError, match="not its arguments"):
        ffi.ffi_call("test_bad", S((3,), "float32"))(x)


def test_kernel_as_the_lowering_of_a_primitive() -> None:
    from calque.extend.core import Primitive
    from calque.interpreters import ad, mlir
    scale_p = Primitive("scale_by")
    scale_p.def_abstract_eval(lambda x, *, by: calque.core.ShapedArray(x.shape, x.dtype))
    ad.deflinear2(scale_p, lambda ct, x, *, by: [scale_p.bind(ct, by=by)])
    mlir.register_lowering(scale_p, SCALE)
    x = np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(calque.jit(lambda x: scale_p.bind(x + 1, by=2.5))(x),
                                  (x + 1) * np.float32(2.5))
    np.testing.assert_array_equal(
        calque.jit(calque.grad(lambda x: scale_p.bind(x, by=-2.0).sum()))(x), np.full(5, -2.0))
    with pytest.raises(TypeError, match="attribute by of 'scale_by' must be a number"):
        calque.jit(lambda x: scale_p.bind(x, by="much"))(x)
    with pytest.raises(TypeError, match="is no function"):
        mlir.register_lowering(scale_p, 3)  # type: ignore[arg-type]
    many_p = Primitive("sum_and_first")
    many_p.multiple_results = True
    many_p.def_abstract_eval(lambda x: [calque.core.ShapedArray((), x.dtype)] * 2)
    mlir.register_lowering(many_p, ffi.Kernel("""
    void f(const int *x, int *sum, int *first, long n) {
      *sum = 0; *first = n ? x[0] : -1;
      for (long i = 0; i < n; ++i) *sum += x[i];
    }""", "f", scalars=lambda ins, outs: (ins[0].size,)))
    total, first = calque.jit(lambda x: many_p.bind(x))(np.array([5, 6, 7], np.int32))
    assert (int(total), int(first)) == (18, 5)
