"""Makes the artifacts of tests/cpp with the command line's own code: fixture.py FOLDER.

Those that are there and newer than their sources are kept, unless the runtime refuses them.
"""
from __future__ import annotations

import copy
import json
import random
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from calque_cli import main
from calque_cli.header import header_of

from calque.aot import link
from calque.lowering.compiler.compile import compile_module
from calque.lowering.target.targets import parse_target
from calque.runtime import ArtifactError
from calque.runtime.aot import read_records
from calque.runtime.container import join, split

MODELS = Path(__file__).with_name("models.py")
EXAMPLES = Path(__file__).parents[2] / "runtime/cpp/examples/models.py"
LAYERS = '[{"w": f32[64,32], "b": f32[32]}, {"w": f32[32,10], "b": f32[10]}]'
WIDE = {"bool": "bool", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
        "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64", "float16": "f16",
        "bfloat16": "bf16", "float32": "f32", "float64": "f64", "complex64": "c64",
        "complex128": "c128"}
SMALL = {"float4_e2m1fn": "f4e2m1fn", "int4": "i4", "uint4": "u4", "float8_e8m0fnu": "f8e8m0fnu"}
EIGHT = ("f8e4m3fn", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz")


def tree(types: dict[str, str], shape: str) -> str:
    """{"int8": i8[3], ...}; keys keep the order of the enumeration DType."""
    return "{" + ", ".join(
        f'"{i:02}_{name}": {short}[{shape}]' for i, (name, short) in enumerate(types.items())) + "}"


# file -> function and options
ARTIFACTS: dict[str, list[str]] = {
    "add": ["add", "--arg", "f32[4]", "--arg", "f32[4]"],
    "step": ["step", "--arg", "f32[256,256]", "--arg", "f32[256,256]"],
    "matmul": ["matmul", "--arg", "f32[1024,1024]", "--arg", "f32[1024,1024]"],
    "types": ["types", "--arg", tree(WIDE, "3")],
    "small": ["types", "--arg", tree(SMALL, "3")],
    "bits": ["bits", "--arg", tree({k: k for k in EIGHT}, "4")],
    "mixed": ["mixed", "--arg", "f32[3]", "--arg", "i32[2]", "--arg", "f32[0,5]", "--arg", "f32"],
    "update": ["update", "--arg", "f32[1000]", "--arg", "f32[1000]", "--donate", "0"],
    "huge": ["huge", "--arg", "f32", "--donate", "0"],
    "slow": ["slow", "--arg", "f32[512,512]"],
    "wide": ["wide", "--arg", "f32[512,512]"],
    "between": ["between", "--arg", "f32[1024,8]"],
    "boom": ["boom", "--arg", "f32[b,512]"],  # (sizes of the call: it asks the queue for memory)
    "predict": ["predict", "--arg", LAYERS, "--arg", "f32[64,64]"],
    "train_step": ["train_step", "--arg", LAYERS, "--arg", "f32[64,64]", "--arg", "i32[64]",
                   "--arg", "f32", "--donate", "0"],
    "price": ["price", "--arg", "i32", *["--arg", "f32"] * 5],
    "weighted": ["weighted", "--arg", "f32[2,64]", "--parameters"],
    "halves": ["halves", "--arg", "f32[2*n,3]", "--arg", "f32[n,3]", "--constraint", "n <= 64"],
    "counted": ["counted", "--arg", "f32[b,3]", "--buckets", "1,4"],
    "counted_two": ["counted", "--arg", "f32[2,3]"],
    "counted_five": ["counted", "--arg", "f32[5,3]"],
    "trainer": ["Trainer"],
    "pair": ["Pair"],
    "llama": ["MODEL", "--parameters"],
    "kernel": ["kernel", "--arg", "f32[4]"],
    "kernel_for_vulkan": ["kernel", "--arg", "f32[4]", "--target", "vulkan:lavapipe"],
    "several": ["add", "--arg", "f32[3]", "--arg", "f32[3]", "--target", "cpu:x86-64-v3",
                "--target", "cpu:x86-64-v2", "--target", "cpu:aarch64"],
    "for_cuda": ["add", "--arg", "f32[4]", "--arg", "f32[4]", "--target", "cuda:sm_80"],
    "for_vulkan": ["add", "--arg", "f32[4]", "--arg", "f32[4]", "--target", "vulkan:lavapipe"],
    "for_mali": ["add", "--arg", "f32[4]", "--arg", "f32[4]", "--target", "vulkan:valhall"],
    "for_arm": ["add", "--arg", "f32[4]", "--arg", "f32[4]", "--target", "cpu:aarch64"],
}

# A size that is known at the call only, shared by two arguments.
GROW = """func.func @grow(%x: tensor<?x2xui32>, %y: tensor<?xui32>) -> tensor<?x2xui32>
  attributes {{iree.reflection = {{"calque.signature" = {0}}}}} {{
  %0 = stablehlo.add %x, %x : tensor<?x2xui32>
  return %0 : tensor<?x2xui32> }}
"""


def grow() -> bytes:
    """The artifact of GROW."""
    record = {
        "version": 2, "name": "grow",
        "args": [{"path": "x", "shape": ["n", 2], "dtype": "uint32"},
                 {"path": "y", "shape": ["n"], "dtype": "uint32"}],
        "results": [{"path": "", "shape": ["n", 2], "dtype": "uint32"}],
        "target": parse_target("cpu").record()}
    text = json.dumps(json.dumps(record))
    return join([compile_module(GROW.format(text), parse_target("cpu"))])


# A program that calls a Python function.
CALLBACK = """func.func private @py.call0(tensor<4xf32>) -> tensor<4xf32>
func.func @back(%x: tensor<4xf32>) -> tensor<4xf32>
  attributes {{iree.reflection = {{"calque.signature" = {0}}}}} {{
  %0 = call @py.call0(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32> }}
"""


def callback() -> bytes:
    """The artifact of CALLBACK."""
    four = {"path": "x", "shape": [4], "dtype": "float32"}
    record = {"version": 2, "name": "back", "args": [four], "results": [four],
              "target": parse_target("cpu").record()}
    text = json.dumps(json.dumps(record))
    return join([compile_module(CALLBACK.format(text), parse_target("cpu"))])


ODD = [None, True, -1, 0, 1, 3, 5, 1000, 2**40, 1.5, "", "x", "n", "float64", "int8", "bool", [],
       {}, [0], [1, 0], ["computed", 1], ["argument", 0], ["argument", 7], ["empty"]]


def places(v: object, path: tuple[object, ...] = ()) -> Iterator[tuple[object, ...]]:
    """The paths of all that is in a JSON value."""
    yield path
    for k in v if isinstance(v, dict) else range(len(v)) if isinstance(v, list) else ():
        yield from places(v[k], (*path, k))


def lies(folder: Path, names: Sequence[str], count: int, seed: int) -> None:
    """Files that are whole, but what they say of their function is not true in a place or two."""
    draw = random.Random(seed)
    target = folder / "lies"
    target.mkdir(exist_ok=True)
    for i in range(count):
        path = folder / f"{names[i % len(names)]}.vmfb"
        (part,) = split(path.read_bytes(), str(path))
        text = read_records(path)[0].text.encode()
        raw = json.loads(text)
        raw["target"].pop("features", None)  # makes room
        for _ in range(draw.choice([1, 1, 2])):
            *inner, last = draw.choice([p for p in places(raw) if p and p[0] != "target"])
            at = raw
            for key in inner:
                at = at[key]
            if draw.random() < 0.2:
                del at[last]
            else:
                at[last] = copy.deepcopy(draw.choice(ODD))
        made = json.dumps(raw, separators=(",", ":")).encode().ljust(len(text))
        if len(made) == len(text):
            (target / f"{i}.vmfb").write_bytes(join([part.replace(text, made)]))


def is_made(path: Path) -> bool:
    """Is the artifact there, newer than its source, and of this version?"""
    sources = (MODELS, EXAMPLES, Path(__file__))
    if not path.exists() or path.stat().st_mtime < max(s.stat().st_mtime for s in sources):
        return False
    try:
        return bool(read_records(path))
    except ArtifactError:
        return False


def make(folder: Path) -> None:
    """Write all artifacts into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (function, *options) in ARTIFACTS.items():
        path = folder / f"{name}.vmfb"
        if is_made(path) or name == "kernel_for_vulkan" and not shutil.which("glslangValidator"):
            continue
        source = (EXAMPLES if function in ("predict", "train_step", "price") else
                  MODELS.with_name("llama.py") if function == "MODEL" else MODELS)
        sys.argv = ["calque", "compile", f"{source}:{function}", *options, "-o", str(path)]
        try:
            main()
        except SystemExit as end:
            if end.code:
                raise
    if not is_made(folder / "counted_some.vmfb"):
        link(*[folder / f"counted_{n}.vmfb" for n in ("two", "five")]).save(
            folder / "counted_some.vmfb")
    (folder / "trainer.hpp").write_text(header_of(folder / "trainer.vmfb"))
    for name, write in (("grow", grow), ("callback", callback)):
        if not is_made(folder / f"{name}.vmfb"):
            (folder / f"{name}.vmfb").write_bytes(write())
    lies(folder, ("add", "update", "mixed", "halves", "wide"), 200, seed=1)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
