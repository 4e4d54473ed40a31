"""Handlers of XLA's typed FFI interface, compiled by the host's compiler from C that declares what
the interface says of its structures; oracles: NumPy."""
from __future__ import annotations

import ctypes
import pathlib
import shutil
import subprocess
import threading
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import ffi
from calque.runtime.errors import DeviceError

SOURCE = r"""
#include <stdint.h>
#include <stddef.h>
#include <string.h>
typedef struct { size_t size; void *ext; } Head;
typedef struct { Head h; int32_t dtype; void *data; int64_t rank; int64_t *dims; } Buffer;
typedef struct { Head h; int64_t count; int32_t *kinds; Buffer **items; } List;
typedef struct { const char *at; size_t length; } Span;
typedef struct { int32_t dtype; void *at; } Scalar;
typedef struct { int32_t dtype; size_t count; void *at; } Dense;
typedef struct { Head h; int64_t count; int32_t *kinds; Span **names; void **items; } Attributes;
typedef struct { Head h; int major, minor; } Version;
typedef struct { Head h; Version version; void *internal; void *(*calls[18])(void *); } Api;
typedef struct { Head h; Api *api; void *ctx; int32_t stage; List args, rets; Attributes attrs;
                 void *future; } Frame;
typedef struct { size_t size; Version version; uint32_t traits; int64_t state; } Metadata;
typedef struct { Head h; void *next; Metadata *metadata; } Extension;
typedef struct { Head h; const char *message; int32_t code; } Create;
typedef struct { Head h; void *ctx; size_t bytes, alignment; void *data; } Allocate;
typedef struct { Head h; void *ctx; size_t bytes; void *data; } Release;
typedef struct { Head h; void *ctx; void (*task)(void *); void *data; } Schedule;
typedef struct { Head h; void *ctx; int32_t stage; int64_t *type; void *state; } State;
typedef struct { Head h; void (*deleter)(void *); } TypeInfo;
enum { CREATE, STATE_SET = 7, STATE_GET, ALLOCATE, RELEASE, SCHEDULE };

int64_t runs = 0, ended = 0, state_type = 0;
static void end(void *state) { ended += *(int64_t *)state; }
TypeInfo state_info = {{sizeof(TypeInfo), 0}, end};

static void *fail(Frame *f, const char *message) {
  Create c = {{sizeof c, 0}, message, 3};
  return f->api->calls[CREATE](&c);
}
static void *begin(Frame *f, int *asked) {
  Extension *e = f->h.ext;
  *asked = e != 0;
  if (e) { e->metadata->version.major = VERSION; e->metadata->version.minor = 3; return 0; }
  return f->h.size == 168 ? 0 : fail(f, "frame");
}
static void *attribute(Frame *f, const char *name) {
  for (int64_t i = 0; i < f->attrs.count; ++i)
    if (f->attrs.names[i]->length == strlen(name) &&
        !memcmp(f->attrs.names[i]->at, name, strlen(name))) return f->attrs.items[i];
  return 0;
}
static int64_t count(Buffer *b) {
  int64_t n = 1;
  for (int64_t i = 0; i < b->rank; ++i) n *= b->dims[i];
  return n;
}
#define BEGIN int asked; void *error = begin(f, &asked); if (asked || error) return error;

void *scale(Frame *f) {  /* y = by * x + offsets[...], both float32; text says what is refused */
  BEGIN
  Buffer *x = f->args.items[0], *y = f->rets.items[0];
  Scalar *by = attribute(f, "by");
  Dense *offsets = attribute(f, "offsets");
  Span *text = attribute(f, "text");
  if (x->dtype != 11 || (by && by->dtype != 11)) return fail(f, "dtype");
  if (text && text->length == 4 && !memcmp(text->at, "fail", 4)) return fail(f, "as you said");
  if ((uintptr_t)x->data % 64 || (uintptr_t)y->data % 64) return fail(f, "alignment");
  ++runs;
  for (int64_t i = 0, n = count(x); i < n; ++i) {
    float v = ((float *)x->data)[i] * (by ? *(float *)by->at : 1);
    for (size_t j = 0; offsets && j < offsets->count; ++j) v += ((float *)offsets->at)[j];
    ((float *)y->data)[i] = v;
  }
  return 0;
}
void *kinds(Frame *f) {  /* dtype, rank and first size of each argument; kinds of attributes */
  BEGIN
  int32_t *y = f->rets.items[0]->data;
  for (int64_t i = 0; i < f->args.count; ++i) {
    *y++ = f->args.items[i]->dtype;
    *y++ = f->args.items[i]->rank;
  }
  for (int64_t i = 0; i < f->attrs.count; ++i) {
    *y++ = f->attrs.kinds[i];
    *y++ = f->attrs.kinds[i] == 3 ? ((Scalar *)f->attrs.items[i])->dtype
         : f->attrs.kinds[i] == 1 ? ((Dense *)f->attrs.items[i])->dtype : 0;
  }
  return 0;
}
void *in_place(Frame *f) {  /* adds 1 to the memory of its result, which is its argument's */
  BEGIN
  if (f->args.items[0]->data != f->rets.items[0]->data) return fail(f, "another memory");
  for (int64_t i = 0, n = count(f->rets.items[0]); i < n; ++i)
    ((float *)f->rets.items[0]->data)[i] += 1;
  return 0;
}
static void twice(void *data) { *(float *)data *= 2; }
void *helped(Frame *f) {  /* y = 2 x, by memory and a task of the caller's */
  BEGIN
  Allocate a = {{sizeof a, 0}, f->ctx, 4, 256, 0};
  if ((error = f->api->calls[ALLOCATE](&a))) return error;
  if ((uintptr_t)a.data % 256) return fail(f, "alignment");
  memcpy(a.data, f->args.items[0]->data, 4);
  Schedule s = {{sizeof s, 0}, f->ctx, twice, a.data};
  if ((error = f->api->calls[SCHEDULE](&s))) return error;
  memcpy(f->rets.items[0]->data, a.data, 4);
  Release r = {{sizeof r, 0}, f->ctx, 4, a.data};
  return f->api->calls[RELEASE](&r);
}
static int64_t kept = 5;
void *make(Frame *f) {
  BEGIN
  State s = {{sizeof s, 0}, f->ctx, 0, &state_type, &kept};
  return f->api->calls[STATE_SET](&s);
}
void *use(Frame *f) {  /* what it was made with */
  BEGIN
  State s = {{sizeof s, 0}, f->ctx, 0, &state_type, 0};
  if ((error = f->api->calls[STATE_GET](&s))) return error;
  *(int32_t *)f->rets.items[0]->data = *(int64_t *)s.state + *(int32_t *)f->args.items[0]->data;
  return 0;
}
"""


def built(folder: pathlib.Path, version: int = 0) -> ctypes.CDLL:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    (folder / "h.c").write_text(SOURCE)
    out = folder / f"h{version}.so"
    subprocess.run([compiler, "-shared", "-fPIC", f"-DVERSION={version}", "-o", str(out),
                    str(folder / "h.c")], check=True)
    return ctypes.CDLL(str(out))


@pytest.fixture(scope="module")
def library(tmp_path_factory: Any) -> ctypes.CDLL:
    found = built(tmp_path_factory.mktemp("handlers"))
    for name in ("scale", "kinds", "in_place", "helped"):
        ffi.register_ffi_target(f"handlers.{name}", ffi.pycapsule(getattr(found, name)))
    return found


def test_values_attributes_and_batches(library: ctypes.CDLL) -> None:
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)

    def f(x: Any) -> Any:
        call = ffi.ffi_call("handlers.scale", calque.ShapeDtypeStruct(x.shape, x.dtype),
                            vmap_method="broadcast_all")
        return call(x, by=np.float32(3), offsets=np.array([1, 0.5], np.float32), text="go")

    wanted = 3 * x + 1.5  # (exact enough: two roundings of numbers of order 1)
    np.testing.assert_allclose(f(jnp.asarray(x)), wanted, rtol=1e-6)
    np.testing.assert_allclose(calque.jit(lambda x: f(x * 2) + 1)(x), 6 * x + 2.5, rtol=1e-6)
    np.testing.assert_allclose(calque.vmap(f)(jnp.asarray(x)), wanted, rtol=1e-6)
    np.testing.assert_allclose(calque.vmap(f, in_axes=1, out_axes=1)(jnp.asarray(x)), wanted,
                               rtol=1e-6)
    # a part of an array, which does not begin where vectors begin, and one without elements
    np.testing.assert_allclose(f(jnp.asarray(x)[1:, 1:]), wanted[1:, 1:], rtol=1e-6)
    assert f(jnp.zeros((0, 3))).shape == (0, 3)
    loop = calque.jit(lambda x: calque.lax.fori_loop(0, 5, lambda i, c: f(c) - 1.5, x))
    np.testing.assert_allclose(loop(x), 3.0 ** 5 * x, rtol=1e-5)


def test_each_vmap_method(library: ctypes.CDLL) -> None:
    x = jnp.arange(6.0).reshape(3, 2)
    for method in ("sequential", "expand_dims", "broadcast_all", "legacy_vectorized"):
        call = ffi.ffi_call("handlers.scale", calque.ShapeDtypeStruct((2,), jnp.float32),
                            vmap_method=method)
        np.testing.assert_array_equal(calque.vmap(call)(x), x)
    with pytest.raises(NotImplementedError, match="vmap_method"):
        calque.vmap(ffi.ffi_call("handlers.scale", calque.ShapeDtypeStruct((2,), jnp.float32)))(x)
    with pytest.raises(ValueError, match="cannot be differentiated"):
        calque.grad(lambda x: call(x).sum())(x[0])


def test_dtypes_and_kinds_of_attributes(library: ctypes.CDLL) -> None:
    # numbers of the interface: xla/ffi/api/c_api.h of jaxlib 0.10.2
    dtypes = {"bool": 1, "int8": 2, "int16": 3, "int32": 4, "uint8": 6, "uint16": 7, "uint32": 8,
              "float16": 10, "float32": 11, "complex64": 15, "bfloat16": 16, "float8_e5m2": 19,
              "float8_e4m3fn": 20}
    arrays = [jnp.zeros((2,) * (i % 3), name) for i, name in enumerate(dtypes)]
    call = ffi.ffi_call("handlers.kinds", calque.ShapeDtypeStruct((2 * len(arrays),), jnp.int32))
    found = np.asarray(call(*arrays)).reshape(-1, 2)
    assert found.tolist() == [[n, i % 3] for i, n in enumerate(dtypes.values())]
    call = ffi.ffi_call("handlers.kinds", calque.ShapeDtypeStruct((14,), jnp.int32))
    given = {"f": {"inner": 1}, "b": 2.0, "a": True, "c": 3, "e": "text", "d": np.arange(3),
             "g": np.uint8(3)}
    assert np.asarray(call(**given)).reshape(-1, 2).tolist() == [  # by their names
        [3, 1], [3, 12], [3, 5], [1, 5], [4, 0], [2, 0], [3, 6]]


def test_memory_of_arguments(library: ctypes.CDLL) -> None:
    x = jnp.arange(4.0)
    call = ffi.ffi_call("handlers.in_place", calque.ShapeDtypeStruct((4,), jnp.float32),
                        input_output_aliases={0: 0})
    made, kept = calque.jit(lambda x: (call(x), x))(x)
    np.testing.assert_array_equal(made, [1, 2, 3, 4])
    np.testing.assert_array_equal(kept, [0, 1, 2, 3])
    np.testing.assert_array_equal(x, [0, 1, 2, 3])
    helped = ffi.ffi_call("handlers.helped", calque.ShapeDtypeStruct((), jnp.float32))
    assert float(helped(1.5)) == 3.0


def test_errors(library: ctypes.CDLL, tmp_path: pathlib.Path) -> None:
    shape = calque.ShapeDtypeStruct((2,), jnp.float32)
    with pytest.raises(DeviceError, match="'handlers.scale' failed: as you said"):
        np.asarray(ffi.ffi_call("handlers.scale", shape)(jnp.ones(2), text="fail"))
    with pytest.raises(DeviceError, match="failed: dtype"):
        np.asarray(calque.jit(ffi.ffi_call("handlers.scale", shape))(jnp.ones(2, int)))
    with pytest.raises(TypeError, match="attribute by of 'handlers.scale' must be"):
        ffi.ffi_call("handlers.scale", shape)(jnp.ones(2), by=[1.0])
    with pytest.raises(TypeError, match="take no int4"):
        ffi.ffi_call("handlers.scale", shape)(jnp.ones(2, "int4"))
    with pytest.raises(NotImplementedError, match="version 1 of XLA's"):
        ffi.ffi_call("handlers.scale", shape, custom_call_api_version=1)
    with pytest.raises(ValueError, match="a handler of the stages run"):
        ffi.register_ffi_target("a", {"run": ffi.pycapsule(library.scale)})  # type: ignore
    with pytest.raises(TypeError, match="no PyCapsule"):
        ffi.register_ffi_target("a", {"execute": 3})  # type: ignore
    newer = built(tmp_path, version=7)
    ffi.register_ffi_target("handlers.newer", ffi.pycapsule(newer.scale))
    with pytest.raises(DeviceError, match=r"compiled for version 7\.3"):
        np.asarray(ffi.ffi_call("handlers.newer", shape)(jnp.ones(2)))
    # a form elsewhere is exported, and a handler is not
    with pytest.raises(NotImplementedError, match="cannot be exported"):
        calque.export.export(calque.jit(ffi.ffi_call("handlers.scale", shape)))(jnp.ones(2))


def test_stages_and_states(library: ctypes.CDLL) -> None:
    place = ctypes.c_int64.in_dll(library, "state_type")
    info = ctypes.addressof(ctypes.c_char.in_dll(library, "state_info"))
    ffi.register_ffi_type("handlers.state", {
        "type_id": ffi.pycapsule(ctypes.c_void_p(ctypes.addressof(place))),
        "type_info": ffi.pycapsule(ctypes.c_void_p(info))})
    assert place.value > 0
    ffi.register_ffi_target("handlers.stateful", {  # type: ignore
        "instantiate": ffi.pycapsule(library.make), "execute": ffi.pycapsule(library.use)})
    f = calque.jit(ffi.ffi_call("handlers.stateful", calque.ShapeDtypeStruct((), jnp.int32)))
    assert [int(f(i)) for i in range(3)] == [5, 6, 7]


def test_side_effects_and_threads(library: ctypes.CDLL) -> None:
    runs = ctypes.c_int64.in_dll(library, "runs")
    shape = calque.ShapeDtypeStruct((100,), jnp.float32)

    @calque.jit
    def f(x: Any) -> Any:
        ffi.ffi_call("handlers.scale", shape, has_side_effect=True)(x)  # nobody uses the result
        return x + 1

    f(jnp.ones(100)).block_until_ready()
    before = runs.value
    f(jnp.ones(100)).block_until_ready()
    assert runs.value == before + 1
    g = calque.jit(lambda x: ffi.ffi_call("handlers.scale", shape)(x, by=np.float32(2)))
    wrong = []

    def work(n: int) -> None:
        for i in range(50):
            if not (np.asarray(g(jnp.full(100, n + i, jnp.float32))) == 2 * (n + i)).all():
                wrong.append((n, i))

    threads = [threading.Thread(target=work, args=(100 * n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
