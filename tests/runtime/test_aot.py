"""Self-describing artifacts: records, checks before the call, errors of loading."""
import json

import numpy as np
import pytest

from calque.lowering.compiler.compile import compile_module
from calque.lowering.target.targets import parse_target
from calque.runtime import ArtifactError, Buffer, load
from calque.runtime.aot import _check_declaration, parse_record
from calque.runtime.container import join
from calque.runtime.target import check_target, cpu_flags, missing_features


def record(name="scale", **changes):
    base = {
        "version": 2, "name": name,
        "args": [{"path": "x", "shape": [2, 3], "dtype": "float32"},
                 {"path": "p['k']", "shape": [], "dtype": "float32"}],
        "results": [{"path": "", "shape": [2, 3], "dtype": "float32"}],
        "donated": [], "target": parse_target("cpu").record(),
        "versions": {"calque": "0.1", "iree": "3.13"}, "in_tree": None, "out_tree": None}
    return base | changes


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


SCALE = """func.func @scale(%x: tensor<2x3xf32>, %k: tensor<f32>) -> tensor<2x3xf32>
  attributes {{iree.reflection = {{"calque.signature" = {0}}}}} {{
  %0 = stablehlo.broadcast_in_dim %k, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
  %1 = stablehlo.multiply %x, %0 : tensor<2x3xf32>
  return %1 : tensor<2x3xf32> }}
func.func @grow(%x: tensor<?xui32>) -> tensor<?xui32>
  attributes {{iree.reflection = {{"calque.signature" = {1}}}}} {{
  %0 = stablehlo.add %x, %x : tensor<?xui32>
  return %0 : tensor<?xui32> }}
"""
GROW = record("grow", args=[{"path": "x", "shape": ["n"], "dtype": "uint32"}],
              results=[{"path": "", "shape": ["n"], "dtype": "uint32"}])


def build(*records):
    texts = [quoted(json.dumps(r)) for r in records]
    return join([compile_module(SCALE.format(*texts), parse_target("cpu"))])


@pytest.fixture(scope="module")
def artifact_bytes():
    return build(record(), GROW)


def test_call_by_name(artifact_bytes, tmp_path, device):
    path = tmp_path / "scale.vmfb"
    path.write_bytes(artifact_bytes)
    artifact = load(path)
    assert artifact.functions["scale"].signature() == (
        "scale(x: float32[2,3], p['k']: float32[]) -> float32[2,3]")
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for given in (x, Buffer.from_numpy(x, device)):
        (result,) = artifact["scale"](given, 3)
        np.testing.assert_array_equal(result.numpy(), 3 * x)
    np.testing.assert_array_equal(artifact.scale(x, np.float32(2))[0].numpy(), 2 * x)
    assert "scale(x:" in repr(artifact)


def test_named_sizes_and_unsigned_results(artifact_bytes):
    grow = load(artifact_bytes)["grow"]
    for size in (0, 1, 5):
        (result,) = grow(np.arange(size, dtype=np.uint32))
        assert result.dtype == np.uint32 and result.shape == (size,)
        np.testing.assert_array_equal(result.numpy(), 2 * np.arange(size))


@pytest.mark.parametrize("args, error, text", [
    ((np.ones((2, 3), np.float32),), TypeError, r"scale\(\) takes 2 arguments, got 1"),
    ((np.ones((2, 3)), 1.0), TypeError, r"x must be float32\[2,3\], got dtype float64"),
    ((np.ones((3, 2), np.float32), 1.0), ValueError,
     r"x must be float32\[2,3\], got shape \(3, 2\)"),
    ((np.ones((2, 3), np.float32), np.ones(1, np.float32)), ValueError, r"p\['k'\] must be"),
])
def test_wrong_arguments_are_three_part_errors(args, error, text, artifact_bytes):
    with pytest.raises(error, match=rf"(?s)^{text}.*\n  In scale.*\n  Fix: "):
        load(artifact_bytes)["scale"](*args)


def test_unknown_functions_list_the_known_ones(artifact_bytes):
    with pytest.raises(ArtifactError, match=r"(?s)no function 'f' in this artifact; it has scale"):
        load(artifact_bytes)["f"]
    with pytest.raises(AttributeError, match="no function 'f'"):
        _ = load(artifact_bytes).f


@pytest.mark.parametrize("damage", [
    lambda b: b"", lambda b: b"hello" * 100, lambda b: b[:len(b) // 2], lambda b: b[:20],
    lambda b: b[:3000] + bytes(400) + b[3400:]],
    ids=["empty", "text", "truncated", "stump", "overwritten"])
def test_damaged_files_are_artifact_errors(damage, artifact_bytes):
    with pytest.raises(ArtifactError, match="(?s)Fix: "):
        load(damage(artifact_bytes))


def test_missing_files(tmp_path):
    with pytest.raises(ArtifactError, match=r"cannot read .*none\.vmfb: No such file"):
        load(tmp_path / "none.vmfb")


def test_a_vmfb_that_says_nothing_about_itself(vmfb):
    with pytest.raises(ArtifactError, match="does not describe itself"):
        load(vmfb)


def test_cpu_features_are_checked_before_anything_runs():
    target = parse_target("cpu").record()
    target["features"] = [*target["features"], "amx-tile", "avx512fp16"]
    if {"amx_tile", "avx512_fp16"} & cpu_flags():
        pytest.skip("this machine has them all")
    with pytest.raises(ArtifactError, match=r"(?s)lacks: amx-tile, avx512fp16.*Fix: .*x86-64-v3"):
        load(build(record(target=target), GROW))


def test_feature_names_are_translated():
    flags = frozenset(("sse4_1", "pni", "abm", "avx512_vnni"))
    assert missing_features(["sse4.1", "sse3", "lzcnt", "avx512vnni", "crc32"], flags) == []
    assert missing_features(["sse4.2", "avx512bf16"], flags) == ["sse4.2", "avx512bf16"]
    assert missing_features(["sse4.2"], frozenset()) == []  # an unknown CPU: let it try


@pytest.mark.parametrize("target, text", [
    ({"backend": "cuda"}, "compiled for cuda, and cpu:0 is a cpu device"),
    ({"backend": "llvm-cpu", "arch": "riscv64"}, "compiled for riscv64")])
def test_other_devices_are_refused(target, text, device):
    with pytest.raises(ArtifactError, match=text):
        check_target(target, device, "file")


def test_an_argument_is_not_taken_for_the_memory_of_a_result():
    known = parse_record(json.dumps(record(
        args=[{"path": "x", "shape": [8], "dtype": "float32"}],
        results=[{"path": "", "shape": [8], "dtype": "complex64"}], passed=[0],
        call={"output_buffers": [0]})))
    x = "%input{}: tensor<8xf32>"
    out = "%input{}: tensor<8xcomplex<f32>> {{iree.abi.output = 0 : index}}"
    text = "async func @main({}, {}) -> (%output0: tensor<8xcomplex<f32>>)"
    _check_declaration(known, text.format(x.format(0), out.format(1)), "file")
    for lie in (text.format(out.format(0), x.format(1)), text.format(x.format(0), x.format(1))):
        with pytest.raises(ArtifactError, match="is not that of the program"):
            _check_declaration(known, lie, "file")


@pytest.mark.parametrize("text", ["{", "[]", '{"version": 2}',
                                  json.dumps(record(args=[{"path": "x", "shape": [1]}]))])
def test_broken_records(text):
    with pytest.raises(ArtifactError, match="cannot be read"):
        parse_record(text)


@pytest.mark.parametrize("lie", [
    {"args": 3}, {"passed": [7]}, {"donated": [-1]}, {"donated": [1e400]}, {"target": 5},
    {"results": [{"path": "", "shape": [2], "dtype": "float32", "from": ["argument", 9]}]},
    {"args": [{"path": "x", "shape": [2], "dtype": "f(("}]}, {"parameters": [{"name": "w"}]},
    {"call": 3}, {"call": {"work": "m"}}, {"call": {"work": "3", "inline_below": -1}},
    *[{"call": {"output_buffers": v}} for v in ([9], [0, 0], [True], ["0"], 0)],
    *[{"call": {"transient_bytes": v}} for v in (-5, 1.5, True, None)]],
    ids=str)
def test_records_that_lie(lie):
    with pytest.raises(ArtifactError, match="cannot be read"):
        parse_record(json.dumps(record(**lie)))


def test_records_nested_too_deeply():
    with pytest.raises(ArtifactError, match="cannot be read"):
        parse_record('{"version": 2, "name": "f", "in_tree": ' + "[" * 100_000)


def test_records_of_another_format():
    for version in (1, 7):
        said = f"(?s)format {version}; this runtime reads format 2.*Fix: .* or compile again"
        with pytest.raises(ArtifactError, match=said):
            parse_record(json.dumps(record(version=version)))


def test_donation_through_an_artifact(device):
    artifact = load(build(record(donated=[0]), GROW))
    x = Buffer.from_numpy(np.ones((2, 3), np.float32), device)
    (result,) = artifact["scale"](x, 4.0)
    np.testing.assert_array_equal(result.numpy(), np.full((2, 3), 4))
    assert x.is_deleted()


@pytest.mark.parametrize("changes", [
    {"args": [{"path": "x", "shape": [], "dtype": "float32"}]},
    {"results": [{"path": "", "shape": [6], "dtype": "float32"}]}])
def test_records_that_are_not_the_programs(changes):
    """IREE would read the sizes of axes that the arguments do not have."""
    with pytest.raises(ArtifactError, match="is not that of the program"):
        load(build(record(**changes), GROW))
