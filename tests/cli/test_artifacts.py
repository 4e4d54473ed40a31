"""Artifacts from the Python side: what is passed, baked in, donated, recorded."""
import json
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import calque
from calque import aot, lax
from calque.aot.specs import parse_spec
from calque.lowering.compiler.compile import compile_module
from calque.lowering.target.targets import parse_target
from calque.runtime.aot import read_records

F32 = np.float32


def loaded(fun, *specs, **options):
    """The function of a fresh artifact, giving NumPy arrays."""
    call = aot.load(aot.compile(fun, *specs, name="f", **options).vmfb).f
    return lambda *args: [r.numpy() for r in call(*args)], call.record


CONSTANT = np.arange(6, dtype=F32)


def test_captured_arrays_are_written_into_the_file_and_stay_as_they_are():
    captured = calque.device_put(CONSTANT)

    def f(u, i):
        return lax.dynamic_update_slice(captured, u, (i,)), captured

    run, record = loaded(f, "f32[2]", "i32")
    assert len(record.args) == 2
    for start in (1, 3):
        new, same = run(np.full(2, 9, F32), np.int32(start))
        wanted = CONSTANT.copy()
        wanted[start:start + 2] = 9
        np.testing.assert_array_equal(new, wanted)
        np.testing.assert_array_equal(same, CONSTANT)


def test_a_returned_constant_survives_being_donated_elsewhere():
    captured = calque.device_put(CONSTANT)
    constant = aot.load(aot.compile(lambda: captured, name="f").vmfb).f
    overwrite = aot.load(aot.compile(
        lambda x, u: lax.dynamic_update_slice(x, u, (0,)), "f32[6]", "f32[2]", donate_argnums=0,
        name="f").vmfb).f
    (x,) = constant()
    np.testing.assert_array_equal(overwrite(x, np.zeros(2, F32))[0].numpy(), [0, 0, 2, 3, 4, 5])
    assert x.is_deleted()
    np.testing.assert_array_equal(constant()[0].numpy(), CONSTANT)


def test_captured_arrays_of_every_kind():
    values = [np.array([True, False]), np.array([1, -2], np.int8), np.array([1 + 2j], np.complex64),
              np.array([1.5, -0.0], ml_dtypes.bfloat16), np.zeros((0, 3), F32), np.float32(3)]
    captured = [calque.device_put(v) for v in values]
    run, _ = loaded(lambda x: (x, *captured), "f32[2]")
    x, *found = run(np.ones(2, F32))
    for got, value in zip(found, values, strict=True):
        assert got.dtype == value.dtype and got.shape == value.shape, value
        np.testing.assert_array_equal(got, value)


def test_unused_and_empty_arguments_and_results_that_are_arguments():
    def f(unused, empty, x):
        y = lax.neg(x)
        return x, empty, y, y

    run, record = loaded(f, "f32[7]", "i32[0,2]", "f32[3]")
    raw = json.loads(record.text)
    assert raw["passed"] == [2] and record.passed == (2,) and record.entry == "main"
    assert [r["from"] for r in raw["results"]] == [
        ["argument", 2], ["empty"], ["computed", 0], ["computed", 0]]
    x = np.arange(3, dtype=F32)
    same, empty, y, again = run(np.ones(7, F32), np.zeros((0, 2), np.int32), x)
    np.testing.assert_array_equal(same, x)
    assert empty.shape == (0, 2) and empty.dtype == np.int32
    np.testing.assert_array_equal(y, -x)
    np.testing.assert_array_equal(again, -x)


def test_nothing_to_compute_is_an_artifact_too():
    run, record = loaded(lambda x: x, "i8[3]")
    assert record.passed == ()
    np.testing.assert_array_equal(run(np.array([1, 2, 3], np.int8))[0], [1, 2, 3])


def test_paths_and_structures():
    def f(params, *more, k):
        return {"a": lax.mul(params["w"], k), "b": [more[0], None]}

    _, record = loaded(f, {"w": "f32[2]", "v": ("f32",)}, "i8", k="f32[2]")
    assert [a.path for a in record.args] == ["params['v'][0]", "params['w']", "args[1]", "k"]
    assert [r.path for r in record.results] == ["['a']", "['b'][0]"]
    assert record.in_tree == {"tuple": [
        {"tuple": [{"dict": [["v", {"tuple": [0]}], ["w", 1]]}, 2]}, {"dict": [["k", 3]]}]}
    assert record.out_tree == {"dict": [["a", 0], ["b", {"list": [1, None]}]]}


def test_static_arguments_are_placed_by_name():
    def f(n, x, m, y=None, *, scale):
        return lax.integer_pow(x, n), lax.mul(lax.integer_pow(y, m), lax.full_like(y, scale))

    run, record = loaded(f, "f32[2]", "f32[2]", static={"n": 2, "m": 3, "scale": 10.0})
    assert [a.path for a in record.args] == ["x", "y"]
    two = np.full(2, 2, F32)
    np.testing.assert_array_equal(run(two, two), [[4, 4], [80, 80]])


def test_donation_counts_all_positional_arguments():
    def f(n, x, u):
        return lax.dynamic_update_slice(x, u, (n,))

    made = aot.compile(f, "f32[4]", "f32[2]", static={"n": 1}, donate_argnums=1)
    call = aot.load(made.vmfb).f
    assert call.record.donated == (0,)
    x = calque.runtime.Buffer.from_numpy(np.zeros(4, F32), call.device)
    np.testing.assert_array_equal(call(x, np.ones(2, F32))[0].numpy(), [0, 1, 1, 0])
    assert x.is_deleted()


def test_a_donated_argument_that_is_also_a_result_is_not_overwritten():
    run, _ = loaded(lambda x, u: (x, lax.dynamic_update_slice(x, u, (1,))), "f32[4]", "f32[2]",
                    donate_argnums=0)
    x, new = run(np.zeros(4, F32), np.ones(2, F32))
    np.testing.assert_array_equal(x, np.zeros(4))
    np.testing.assert_array_equal(new, [0, 1, 1, 0])


def test_donated_but_unused_arguments_are_given_up():
    call = aot.load(aot.compile(lambda x, y: lax.neg(y), "f32[4]", "f32[2]", donate_argnums=(0,),
                                name="f").vmfb).f
    x = calque.runtime.Buffer.from_numpy(np.zeros(4, F32), call.device)
    call(x, np.ones(2, F32))
    assert x.is_deleted()
    with pytest.raises(calque.runtime.DeletedBufferError, match="deleted"):
        call(x, np.ones(2, F32))


def test_random_keys_travel_as_their_words():
    def f(key):
        return calque.random.uniform(key, (2,)), key

    key = calque.random.key(3)
    run, record = loaded(f, calque.ShapeDtypeStruct((), key.dtype))
    assert json.loads(record.text)["args"] == [
        {"path": "key", "shape": [2], "dtype": "uint32", "key": "key<fry>"}]
    words = np.array(calque.random.key_data(key))
    got, same = run(words)
    np.testing.assert_array_equal(got, np.asarray(calque.random.uniform(key, (2,))))
    np.testing.assert_array_equal(same, words)


def test_jitted_functions_methods_and_lambdas_have_names():
    assert aot.compile(calque.jit(lax.neg), "f32[2]").names == ("neg",)
    assert aot.compile(lambda x: x, "f32[2]").names == ("main",)


def test_the_same_input_gives_the_same_bytes():
    def f(params, x):
        return lax.add(lax.mul(params["w"], x), calque.device_put(CONSTANT))

    def build():
        traced = aot.trace(f, {"w": "f32[6]", "b": "f32"}, "f32[6]")
        low = aot.lower_for(traced, target)
        return low.module, compile_module(low.module, target, aot.options_for(low, target))

    target = parse_target("cpu")
    first, second = build(), build()
    assert first[0] == second[0]
    assert first[1] == second[1]


@pytest.mark.parametrize("target", ["cuda:sm_80", "vulkan:lavapipe", "cpu:x86-64-v3",
                                    "cpu:aarch64"])
def test_other_targets_compile_and_say_what_they_are_for(target):
    made = aot.compile(lambda x: lax.mul(lax.exp(x), x), "f32[64]", targets=target, name="f")
    (record,) = read_records(made.vmfb)
    assert record.target["name"] == target
    if not target.startswith("cpu"):
        with pytest.raises(calque.runtime.ArtifactError, match=target.partition(":")[0]):
            aot.load(made.vmfb)


def test_several_targets_are_one_file(tmp_path):
    cpu = "cpu" if parse_target("cpu").name == "cpu" else "cpu:x86-64-v3"  # not v2 twice
    targets = ("cpu:x86-64-v2", cpu, "cuda:sm_80", "vulkan:lavapipe", "cpu:aarch64")
    made = aot.compile(lambda x: lax.neg(x), "f32[4]", targets=targets, name="f")
    path = made.save(tmp_path / "out.vmfb")
    assert [r.target["name"] for r in read_records(path)] == list(targets)
    call = aot.load(path).f
    assert call.record.target["name"] == cpu  # of those that run here, what asks most
    np.testing.assert_array_equal(call(np.arange(4, dtype=F32))[0].numpy(), -np.arange(4.0))
    again = aot.compile(lambda x: lax.neg(x), "f32[4]", targets=targets, name="f")
    assert again.vmfb == made.vmfb == aot.link(path).vmfb
    assert made.targets == targets and "f for cuda:sm_80: " in repr(made)
    others = aot.link(aot.Artifact(made.parts[2:]))
    with pytest.raises(calque.runtime.ArtifactError,
                       match="no form of f runs on cpu:0: cuda:sm_80: the artifact is compiled"):
        aot.load(others.vmfb)


def test_entry_points_are_linked(tmp_path):
    init = aot.compile(lambda: calque.device_put(CONSTANT), name="init")
    step = aot.compile(lambda x: lax.add(x, x), "f32[6]", name="step", donate_argnums=0)
    path = tmp_path / "step.vmfb"
    step.save(path)
    made = aot.link(init, path)
    assert made.names == ("init", "step")
    model = aot.load(made.vmfb)
    (x,) = model.init()
    (y,) = model.step(x)
    assert x.is_deleted()
    np.testing.assert_array_equal(y.numpy(), 2 * CONSTANT)
    with pytest.raises(calque.runtime.ArtifactError, match="step comes twice for cpu"):
        aot.link(step, made)


def test_damaged_containers_are_refused():
    made = aot.compile(lambda x: lax.neg(x), "f32[4]", targets=("host", "cpu:x86-64-v2"), name="f")
    whole = made.vmfb
    part = len(made.parts[0].vmfb)

    def refused(data, words):
        with pytest.raises(calque.runtime.ArtifactError, match=words):
            aot.load(data)

    refused(whole[:part // 2], "damaged|not a .vmfb|cannot|bytecode|invalid")
    flipped = bytearray(whole)
    flipped[part // 2] ^= 1
    refused(bytes(flipped), "is not what was written")
    refused(whole[:-16] + (10**9).to_bytes(8, "little") + whole[-8:], "longer than the file")
    size = int.from_bytes(whole[-16:-8], "little")
    index = whole[-16 - size:-16]
    refused(whole[:-16 - size] + b"x" * size + whole[-16:], "the index cannot be read")
    for wrong in (index.replace(b'"offset":0', b'"offset":7'),
                  index.replace(b'"parts"', b'"other"'), b'{"parts":[]}',
                  index.replace(b'"offset":0', b'"offset":-64')):
        refused(whole[:-16 - size] + wrong + len(wrong).to_bytes(8, "little") + whole[-8:],
                "damaged")


@pytest.mark.parametrize("specs, options, first", [
    (("f32",), {}, "f(x, n): missing a required argument: 'n'"),
    (("f32", "f32", "f32"), {}, "f(x, n): too many positional arguments"),
    (("f32",), {"static": {"m": 1}}, "f(x, n): missing a required argument: 'n'"),
    (("f32", "f32"), {"static": {"m": 1}}, "f(x, n): got an unexpected keyword argument 'm'"),
    (("f32",), {"static": {"n": 1}, "donate_argnums": 1},
     "argument 1 cannot be donated: the positional arrays are 0"),
    (("f32",), {"static": {"n": 1}, "n": "f32"}, "f: n is given a type and a static value")])
def test_arguments_that_do_not_fit(specs, options, first):
    def f(x, n):
        return x

    with pytest.raises(aot.ArgumentError) as caught:
        aot.compile(f, *specs, **options)
    assert str(caught.value).split("\n")[0].rstrip(".") == first
    assert "\n  Fix: " in str(caught.value)


def test_iree_run_module_runs_an_artifact(tmp_path):
    """An oracle that shares no code with our runtime; it appends the fences by itself."""
    def f(x, k):
        return lax.mul(lax.add(x, lax.broadcast(k, (2, 3))), calque.device_put(
            CONSTANT.reshape(2, 3)))

    path = tmp_path / "f.vmfb"
    aot.compile(f, "f32[2,3]", "f32").save(path)
    done = subprocess.run(
        [Path(sys.executable).parent / "iree-run-module", f"--module={path}", "--function=main",
         "--input=2x3xf32=1,2,3,4,5,6", "--input=f32=0.5", "--device=local-task",
         f"--output=@{tmp_path / 'y.npy'}"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    x = np.arange(1, 7, dtype=F32).reshape(2, 3)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"),
                                  (x + F32(0.5)) * CONSTANT.reshape(2, 3))


def test_arrays_and_foreign_specs_serve_as_types():
    class Other:
        shape, dtype = (3,), "float32"

    for spec in (np.zeros(3, F32), calque.device_put(np.zeros(3, F32)), Other(),
                 parse_spec("f32[3]")):
        traced = aot.trace(lax.neg, spec)
        assert [a.short() for a in traced.program.in_avals] == ["f32[3]"]


def test_what_jit_lowered_is_compiled():
    @calque.jit
    def f(params, x, *, scale):
        return {"y": params["w"] * x * scale}

    def g(n, x):
        return x + n

    lowered = f.lower({"w": np.ones(3, F32)}, np.ones(3, F32), scale=np.float32(2))
    call = aot.load(aot.compile(lowered).vmfb).f
    assert call.record.signature() == (
        "f(params['w']: float32[3], x: float32[3], scale: float32[]) -> float32[3]")
    out = call(np.full(3, 2, F32), np.arange(3, dtype=F32), np.float32(3))[0].numpy()
    np.testing.assert_array_equal(out, np.arange(3) * 6)
    static = calque.jit(g, static_argnums=0, donate_argnums=1).lower(4, np.ones(3, F32))
    call = aot.load(aot.compile(static, name="add4").vmfb).add4
    assert call.record.signature() == "add4(x: float32[3]) -> float32[3]"
    assert call.record.donated == (0,)
    np.testing.assert_array_equal(call(np.ones(3, F32))[0].numpy(), np.full(3, 5))
    with pytest.raises(aot.ArgumentError, match="has its arguments already"):
        aot.compile(static, "f32[3]")
