"""calque.export without jax: round trips, what jax.export wrote (recorded), errors, hostile bytes.

test_export_jax.py has what needs jax.
"""
from __future__ import annotations

import collections
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import aot, export, lax

sys.path.insert(0, str(Path(__file__).parents[1]))  # harness, samples

DATA = Path(__file__).parent / "data"
RECORDED = sorted(p.stem.removeprefix("export_") for p in DATA.glob("export_*.bin"))
QUICK = ("platforms", "vjp")
VALUES = np.load(DATA / "export_values.npz")


def _values(name: str, kind: str) -> list[Any]:
    found = [k for k in VALUES.files if k.startswith(f"{name}/{kind}/")]
    return [VALUES[k] for k in sorted(found, key=lambda k: int(k.rsplit("/", 1)[1]))]


def _same(got: Any, wants: list[Any]) -> None:
    leaves = calque.tree_util.tree_leaves(got)
    assert len(leaves) == len(wants)
    for g, w in zip(leaves, wants):
        assert (g.dtype, g.shape) == (w.dtype, w.shape)
        # two implementations of functions and factorizations in float32
        np.testing.assert_allclose(np.asarray(g), w, rtol=2e-4, atol=2e-5)


def _recorded(name: str) -> tuple[export.Exported, Any]:
    e = export.deserialize((DATA / f"export_{name}.bin").read_bytes())
    leaves = [jnp.asarray(v) for v in _values(name, "in")]
    leaves = [calque.random.wrap_key_data(v) if a.dtype == calque.random.key(0).dtype else v
              for v, a in zip(leaves, e.in_avals)]
    args, kwargs = e.in_tree.unflatten(leaves)
    assert not kwargs
    return e, args


@pytest.mark.parametrize("name", [
    pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in RECORDED])
def test_what_jax_wrote_runs(name: str) -> None:
    e, args = _recorded(name)
    _same(e.call(*args), _values(name, "out"))


@pytest.mark.parametrize("name", RECORDED)
def test_what_jax_wrote_becomes_a_program(name: str) -> None:
    e, args = _recorded(name)
    out = calque.eval_shape(e.call, *args)
    wants = _values(name, "out")
    assert '"func.return"' not in e.mlir_module()  # MLIR took the text and printed it
    assert [(o.shape, o.dtype) for o in calque.tree_util.tree_leaves(out)] == [
        (w.shape, w.dtype) for w in wants]


def test_derivatives_that_jax_wrote() -> None:
    e, args = _recorded("vjp")
    _same(calque.grad(e.call)(*args), _values("vjp", "grad"))
    assert e.has_vjp() and e.vjp().has_vjp() and not e.vjp().vjp().has_vjp()


def test_round_trip() -> None:
    def f(x: Any, *, scale: Any, unused: Any) -> Any:
        return {"b": [jnp.sin(x) * scale, None], "a": x[::2]}, x.astype(bool)

    x = jnp.linspace(-1, 2, 12).reshape(4, 3)
    e = export.export(calque.jit(f))(x, scale=2.0, unused=jnp.ones(2))
    blob = e.serialize()
    assert blob == export.export(calque.jit(f))(x, scale=2.0, unused=jnp.ones(2)).serialize()
    again = export.deserialize(blob)
    assert (again.fun_name, again.platforms, again.module_kept_var_idx) == ("f", ("cpu",), (0, 1))
    assert again.in_tree == e.in_tree and again.out_tree == e.out_tree
    assert str(again.in_avals) == ("(ShapedArray(float32[4,3]), ShapedArray(float32[]), "
                                   "ShapedArray(float32[2]))")
    tree, flags = again.call(x, scale=2.0, unused=jnp.ones(2))
    n = np.asarray(x)
    _same((tree, flags), [n[::2], np.sin(n) * np.float32(2), n.astype(bool)])
    assert tree["b"][1] is None
    assert "stablehlo.sine" in e.mlir_module() and "func.func public @main" in e.mlir_module()


@pytest.mark.slow
def test_round_trip_of_loops() -> None:
    def f(x: Any, *, scale: Any) -> Any:
        y = jnp.sort(jnp.sin(x) * scale, axis=0)
        best = lax.cond(y[0, 0] > 0, lambda v: v.sum(), lambda v: v.max(), y)
        total, rows = lax.scan(lambda c, r: (c + r.sum(), c * r), 0.0, y)
        return {"best": best, "rows": rows, "total": total}, [x[::2], None], x.astype(bool)

    x = jnp.linspace(-1, 2, 12).reshape(4, 3)
    again = export.deserialize(export.export(calque.jit(f))(x, scale=2.0).serialize())
    wants = f(x, scale=2.0)
    got = again.call(x, scale=2.0)
    assert calque.tree_util.tree_structure(got) == calque.tree_util.tree_structure(wants)
    _same(got, [np.asarray(w) for w in calque.tree_util.tree_leaves(wants)])


def test_derivatives_that_are_not_there() -> None:
    e = export.export(calque.jit(lambda x: jnp.sin(x) * x))(calque.ShapeDtypeStruct((3,), "f4"))
    x = jnp.arange(3.0)
    plain, first = (export.deserialize(e.serialize(vjp_order=n)) for n in (0, 1))
    with pytest.raises(ValueError, match="No VJP is available"):
        calque.grad(lambda x: plain.call(x).sum())(x)
    with pytest.raises(ValueError, match="No VJP is available"):
        plain.vjp()
    with pytest.raises(TypeError, match="forward-mode"):
        calque.jvp(first.call, (x,), (x,))
    with pytest.raises(ValueError, match="No VJP is available"):
        calque.grad(lambda x: calque.grad(lambda x: first.call(x).sum())(x).sum())(x)


@pytest.mark.slow
def test_transformations_of_a_call() -> None:
    e = export.export(calque.jit(lambda x: jnp.sin(x) * x))(calque.ShapeDtypeStruct((3,), "f4"))
    x = jnp.arange(3.0)
    d = export.deserialize(e.serialize(vjp_order=1))
    want = np.cos([0, 1, 2]) * [0, 1, 2] + np.sin([0, 1, 2])
    for made in (e, d):
        np.testing.assert_allclose(calque.grad(lambda x, m=made: m.call(x).sum())(x), want, 1e-5)
    np.testing.assert_allclose(calque.jit(d.call)(x), np.sin(x) * x, rtol=1e-6)
    rows = jnp.stack([x, x + 1])
    np.testing.assert_allclose(calque.vmap(d.call)(rows), np.sin(rows) * rows, rtol=1e-6)
    again = export.deserialize(export.export(calque.jit(lambda x: 2 * d.call(x)))(x).serialize())
    np.testing.assert_allclose(again.call(x), 2 * np.sin(x) * x, rtol=1e-6)
    vmfb = aot.compile(d.call, "f32[3]", name="f").vmfb
    np.testing.assert_allclose(aot.load(vmfb)["f"](np.asarray(x))[0].numpy(), np.sin(x) * x, 1e-5)


def test_integers_have_no_derivative() -> None:
    e = export.export(calque.jit(lambda x, i: (x * i, i + 1)))(jnp.ones(3), 2)
    v = export.deserialize(e.serialize(vjp_order=1)).vjp()
    assert [str(a) for a in v.in_avals[:3]] == ["float32[3]", "int32[]", "float32[3]"]
    float0 = calque.dtypes.float0
    assert [a.dtype for a in (v.in_avals[3], v.out_avals[1])] == [float0, float0]
    zero = np.zeros((), calque.dtypes.float0)
    got, none = v.call(jnp.ones(3), 2, jnp.ones(3), zero)
    np.testing.assert_array_equal(got, [2, 2, 2])
    assert none.dtype == calque.dtypes.float0


def test_weak_types_and_unused_arguments() -> None:
    e = export.export(calque.jit(lambda x, unused: x * 2))(1.0, jnp.ones(3))
    assert e.module_kept_var_idx == (0,) and e.in_avals[0].weak_type
    whole = export.export(calque.jit(lambda x, unused: x, keep_unused=True))(1.0, 2.0)
    assert whole.module_kept_var_idx == (0, 1)
    assert e.call(1.5, jnp.ones(3)).weak_type
    again = export.deserialize(e.serialize())
    assert not again.in_avals[0].weak_type and not again.call(1.5, jnp.ones(3)).weak_type


@pytest.mark.slow
def test_numbers_of_less_than_a_byte() -> None:
    """In StableHLO they have types of their own; no bytes are seen."""
    def f(x: Any, w: Any, s: Any) -> Any:
        return (jnp.where(x > 1, x, 0) + jnp.array([1, -2, 3, -4], jnp.int4), jnp.sort(x),
                w * w + jnp.array([0.5, -2, 3, 6], w.dtype), jnp.max(w), s * 2, x // 2,
                lax.bitcast_convert_type(x.reshape(2, 2), jnp.int8), lax.top_k(w, 2)[1],
                jnp.take(x, np.array([9]), mode="fill"), x @ x)

    args = (jnp.array([1, 2, -3, -8], jnp.int4), jnp.array([0.5, 1.5, 2, 6], jnp.float4_e2m1fn),
            jnp.array([1, 2, 4, 8], jnp.float8_e8m0fnu))
    made = export.export(calque.jit(f))(*args)
    text = made.mlir_module()
    assert all(t in text for t in ("tensor<4xi4>", "tensor<4xf4E2M1FN>", "tensor<4xf8E8M0FNU>"))
    again = export.deserialize(made.serialize())
    for got, want in zip(again.call(*args), f(*args), strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        np.testing.assert_array_equal(np.asarray(got).astype(np.float32),
                                      np.asarray(want).astype(np.float32))
    bits = export.export(calque.jit(lambda w: lax.nextafter(w, -w)))
    with pytest.raises(export.UnsupportedOperationError, match="float4_e2m1fn has no portable"):
        bits(args[1])


def test_keys() -> None:
    def f(key: Any) -> Any:
        a, b = calque.random.split(key)
        return b, calque.random.normal(a, (3,))

    key = calque.random.key(7)
    again = export.deserialize(export.export(calque.jit(f))(key).serialize())
    (b, x), (want_b, want_x) = again.call(key), f(key)
    assert b.dtype == key.dtype
    np.testing.assert_array_equal(calque.random.key_data(b), calque.random.key_data(want_b))
    np.testing.assert_allclose(x, want_x, rtol=1e-5)


def test_64_bits_inside() -> None:
    with calque.enable_x64(True):
        e = export.export(calque.jit(lambda x: (x * 2**40, x.astype("f4"))))(
            calque.ShapeDtypeStruct((2,), "int64"))
        blob = e.serialize()
        big, small = export.deserialize(blob).call(np.array([1, 2]))
        np.testing.assert_array_equal(big, [2**40, 2**41])
    with pytest.raises(ValueError, match="Dtype mismatch for args.0.: expected int64 and called"):
        export.deserialize(blob).call(jnp.array([1, 2]))


# ---- every primitive: what we write, we read, and MLIR's own parser takes
def _written_and_read(name: str, samples: int) -> None:
    from support.harness import function, words
    from support.samples import ROWS

    from calque.core.avals import ShapedArray
    from calque.export import bytecode, read, text
    from calque.lowering.emit import mlir
    row = ROWS[name]
    for s in (*row.samples, *row.specials)[:samples]:
        f = function(row, s, s.parameters(row.main))
        args = [np.asarray(a) for a in words(row, s, row.arrays(s, row.main))]
        e = export.export(calque.jit(f))(*args)
        module = bytecode.read_module(e.mlir_module_serialized)
        kept = [ShapedArray(args[i].shape, args[i].dtype) for i in e.module_kept_var_idx]
        assert [str(a) for a in read.program_of(module, kept, "f").out_avals] == [
            str(a) for a in e.out_avals]
        with mlir.ir().Context():
            mlir.ir().Module.parse(text.module_text(module, pretty=False))


@pytest.mark.parametrize("name", ["sort", "gather", "scatter-add", "dot_general", "erf", "cond",
                                  "conv_general_dilated", "random_bits", "reduce_window_max"])
def test_operations_are_written_and_read(name: str, x64: None) -> None:
    _written_and_read(name, 1)


@pytest.mark.slow
def test_samples_are_written_and_read(x64: None) -> None:
    from support.samples import ROWS
    wrong = []
    for name in ROWS:
        try:
            _written_and_read(name, 100)
        except Exception as error:
            wrong.append(f"{name}: {type(error).__name__}: {str(error)[:300]}")
    assert not wrong, "\n".join(wrong)


# ---- symbolic sizes
def test_symbolic_sizes() -> None:
    b, = export.symbolic_shape("b")
    spec = calque.ShapeDtypeStruct((b, 3), "float32")
    e = export.export(calque.jit(lambda x: (jnp.tanh(x) ** 2).sum() * x.shape[0]))(spec)
    again = export.deserialize(e.serialize(vjp_order=1))
    assert str(again.in_avals[0]) == "float32[b,3]" and again.uses_global_constants
    x = np.linspace(-1, 1, 6, dtype="f4").reshape(2, 3)
    np.testing.assert_allclose(again.call(x), (np.tanh(x) ** 2).sum() * 2, rtol=1e-5)
    want = 4 * np.tanh(x) * (1 - np.tanh(x) ** 2)
    np.testing.assert_allclose(calque.grad(again.call)(x), want, rtol=1e-4)
    args = (calque.ShapeDtypeStruct((2, 3), "f4"), calque.ShapeDtypeStruct((3, 4), "f4"))
    product = export.export(calque.jit(lambda x, y: x @ y))(
        *export.symbolic_args_specs(args, ("m, k", "k, 2*n")))
    for shapes, message in (
            ([(2, 3), (4, 4)], r"args\[1\].shape\[0\] \(= 4\) and the specification 'k' \(= 3\)"),
            ([(2, 3), (3, 5)], "Division had remainder 1 when computing the value of 'n'"),
            ([(2,), (3, 4)], "Rank mismatch")):
        with pytest.raises(ValueError, match=message):
            product.call(*[np.ones(s, "f4") for s in shapes])
    with pytest.raises(ValueError, match="Cannot solve for values of dimension variables"):
        export.export(calque.jit(lambda x: x))(calque.ShapeDtypeStruct(
            export.symbolic_shape("a*b"), "f4"))


# ---- trees
def test_classes_in_trees() -> None:
    point = collections.namedtuple("point", "x y")

    class Box:
        def __init__(self, inside: Any, label: str) -> None:
            self.inside, self.label = inside, label

    calque.tree_util.register_pytree_node(
        Box, lambda b: ((b.inside,), b.label), lambda label, c: Box(c[0], label))
    f = calque.jit(lambda p: Box(collections.OrderedDict(z=p.x, a=p.y), "b"))
    e = export.export(f)(point(1.0, 2.0))
    for kind in (point, Box):
        with pytest.raises(ValueError, match="unregistered type"):
            e.serialize()
        if kind is point:
            assert export.register_namedtuple_serialization(
                point, serialized_name="test.point") is point
    export.register_pytree_node_serialization(
        Box, serialized_name="test.Box", serialize_auxdata=str.encode,
        deserialize_auxdata=bytes.decode)
    out = export.deserialize(e.serialize()).call(point(1.0, 2.0))
    assert (out.label, list(out.inside)) == ("b", ["z", "a"])
    with pytest.raises(ValueError, match="Duplicate serialization registration for type"):
        export.register_namedtuple_serialization(point, serialized_name="test.other")
    with pytest.raises(ValueError, match="Duplicate serialization registration for serialized_na"):
        export.register_namedtuple_serialization(
            collections.namedtuple("other", "x"), serialized_name="test.Box")
    with pytest.raises(ValueError, match="register_pytree_node_serialization"):
        export.register_namedtuple_serialization(Box, serialized_name="test.box")
    numbered = export.export(calque.jit(lambda x: {1: x}))(1.0)
    with pytest.raises(TypeError, match="only for dictionaries with string keys. Found key 1"):
        numbered.serialize()


def test_classes_that_look_at_their_children() -> None:
    class Named:
        def __init__(self, array: Any, names: tuple[str, ...]) -> None:
            assert array.shape == (len(names),)
            self.array, self.names = array, names

    calque.tree_util.register_pytree_node(
        Named, lambda n: ((n.array,), n.names), lambda names, c: Named(c[0], names))
    export.register_pytree_node_serialization(
        Named, serialized_name="test.Named",
        serialize_auxdata=lambda names: "/".join(names).encode(),
        deserialize_auxdata=lambda raw: tuple(raw.decode().split("/")))
    given = {"b": Named(np.ones(2), ("x", "y")), "a": [Named(np.ones(1), ("z",)), None]}
    e = export.export(calque.jit(lambda d: (d["b"],)))(given)
    again = export.deserialize(e.serialize())
    assert again.in_tree == e.in_tree and again.out_tree == e.out_tree
    assert again.call(given)[0].names == ("x", "y")
    with pytest.raises(ValueError, match="must call first `jax.tree_util.register_pytree_node`"):
        export.register_pytree_node_serialization(
            collections.namedtuple("other", "x"), serialized_name="test.unregistered",
            serialize_auxdata=lambda _: b"", deserialize_auxdata=lambda _: None)


# ---- platforms and checks
def test_platforms() -> None:
    f, x = calque.jit(jnp.cos), jnp.ones(2)
    both = export.export(f, platforms=("cuda", "cpu"))(x)
    assert "_platform_index" in both.mlir_module() and both.uses_global_constants
    np.testing.assert_allclose(export.deserialize(both.serialize()).call(x), np.cos(x), rtol=1e-6)
    other = export.export(f, platforms=("cuda",))(x)
    with pytest.raises(ValueError, match=r"was exported for platforms '\('cuda',\)' but it is use"):
        other.call(x)
    free = export.export(f, platforms=("cuda",),
                         disabled_checks=[export.DisabledSafetyCheck.platform()])(x)
    again = export.deserialize(free.serialize())
    assert again.disabled_safety_checks == (export.DisabledSafetyCheck.platform(),)
    np.testing.assert_allclose(again.call(x), np.cos(x), rtol=1e-6)
    assert export.default_export_platform() == "cpu"


@pytest.mark.parametrize(("call", "kind", "message"), [
    (lambda e: e.call(jnp.ones(4)), ValueError,
     r"Shape mismatch for args\[0\].shape\[0\] \(expected same constant\)"),
    (lambda e: e.call(jnp.ones(())), ValueError, r"Rank mismatch for args\[0\]: expected \(3,\)"),
    (lambda e: e.call(jnp.ones(3, "int32")), ValueError,
     r"Dtype mismatch for args\[0\]: expected float32 and called with int32"),
    (lambda e: e.call(jnp.ones(3), 1), ValueError, "args is a tuple of length 2 in the invocation"),
    (lambda e: e.call([jnp.ones(3)]), ValueError, "so their Python types differ"),
    (lambda e: e.call(x=jnp.ones(3)), ValueError, "symmetric difference of key sets"),
    (lambda e: e.call("a"), TypeError, "is not a valid JAX type"),
    (lambda e: export.export(lambda x: x), ValueError, "must be the result of `jit` but is"),
    (lambda e: export.export(calque.jit(jnp.sin), platforms="cpu"), ValueError, "sequence of"),
    (lambda e: export.export(calque.jit(jnp.sin), disabled_checks=["platform"]), TypeError,
     "DisabledSafetyChecks"),
    (lambda e: export.export(calque.jit(lambda x: calque.pure_callback(lambda y: y, x, x)))(1.0),
     NotImplementedError, "serialization of host_callbacks is not yet implemented"),
    (lambda e: export.export(calque.jit(lambda x: lax.linalg.schur(x)), platforms=("cuda",))(
        jnp.ones((2, 2))),
     NotImplementedError, "schur: this primitive has no portable form"),
])
def test_errors(call: Any, kind: type[Exception], message: str) -> None:
    e = export.export(calque.jit(lambda x: jnp.sin(x) * 2))(calque.ShapeDtypeStruct((3,), "f4"))
    with pytest.raises(kind, match=message):
        call(e)


# ---- bytes that are no exported function
@pytest.mark.parametrize("count", [400, pytest.param(6000, marks=pytest.mark.slow)])
def test_hostile_bytes(count: int) -> None:
    """Truncated and with flipped bits: an error by name, or a function, never a crash."""
    seeds = [(DATA / f"export_{n}.bin").read_bytes() for n in ("vjp", "sorting", "symbolic")]
    rng = random.Random(5)
    refused = 0
    for i in range(count):
        blob = bytearray(rng.choice(seeds))
        if i % 4 == 0:
            del blob[rng.randrange(len(blob)):]
        for _ in range(0 if i % 4 == 0 else rng.choice((1, 2, 8))):
            at = rng.randrange(len(blob))
            blob[at] = rng.choice((blob[at] ^ (1 << rng.randrange(8)), 0, 255))
        try:
            e = export.deserialize(blob)
            if i % 3 == 0:
                e._program((("b", 3),), 0)
        except TypeError as error:  # a primitive's: its operands do not fit
            assert str(error)
        except export.ExportError as error:
            assert "Fix:" in str(error)
            refused += 1
        except ValueError as error:  # a tree's class that nobody registered, or a primitive's
            assert str(error)
    assert refused > count / 2


@pytest.mark.parametrize("blob", [b"", b"abcdefg", bytes(64), b"\xff" * 64, b"ML\xefR" * 9])
def test_junk(blob: bytes) -> None:
    with pytest.raises(export.DeserializationError, match="not an exported function"):
        export.deserialize(blob)


def test_versions_that_are_not_known() -> None:
    blob = bytes(export.export(calque.jit(jnp.sin))(1.0).serialize())
    with pytest.raises(export.UnsupportedOperationError, match="StableHLO_v1.9.0 in bytecode ve|"
                       "read are StableHLO 0.14"):
        export.deserialize(blob.replace(b"StableHLO_v1.4.0", b"StableHLO_v9.4.0"))
    with pytest.raises(export.DeserializationError, match="not as a portable"):
        export.deserialize(blob.replace(b"StableHLO_v1.4.0", b"MLIR_0_v1_4_0_xy"))


@pytest.mark.slow
def test_reading_needs_no_compiler_and_no_jax(tmp_path: Path) -> None:
    """Only running does; jax never."""
    (tmp_path / "f.bin").write_bytes(export.export(calque.jit(jnp.sin))(1.0).serialize())
    code = ("import sys; from calque import export; "
            f"e = export.deserialize(open({str(tmp_path / 'f.bin')!r}, 'rb').read()); "
            "print(e.fun_name, any(m.split('.')[0] in ('jax', 'jaxlib') for m in sys.modules), "
            "'iree.compiler.ir' in sys.modules)")
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert made.stdout.split() == ["sin", "False", "False"]
