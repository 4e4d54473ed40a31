"""Kernels of ours for CUDA, as far as a machine without a card can tell: what is packed, what a
product is given, and (slow, with Triton) what each computes, by Triton's interpreter."""
from __future__ import annotations

import hashlib
import importlib.util
import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import aot, lax
from calque.lowering.kernels.cuda import convolutions, products, store, table

FOLDER = Path(store.__file__).parent
SIZES = [(1, 1, 4096, 4096), (1, 4096, 64, 4096), (1, 1024, 1024, 1024), (1, 4096, 4096, 4096),
         (1, 64, 10, 512), (1, 17, 33, 65), (64, 256, 256, 64), (3, 100, 1, 2048),
         (1, 16, 16, 1 << 20), (1, 1, 1 << 20, 16), (7, 5, 3, 9)]


def made(f: Any, *specs: Any, dtype: Any = np.float32, **how: Any) -> str:
    """The artifact for sm_80 as text: kernels are in it as they are."""
    shapes = [calque.ShapeDtypeStruct(s, dtype) for s in specs]
    return aot.compile(f, *shapes, targets=["cuda:sm_80"], **how).vmfb.decode("latin1")


def entries(text: str) -> list[str]:
    """The names of the entries of PTX in an artifact."""
    return re.findall(r"\.visible \.entry (\w+)\(", text)


# ---- what is packed
def test_the_archives_are_of_these_sources() -> None:
    """`python lowering/kernels/cuda/make.py` makes them anew."""
    digest = hashlib.sha256()
    for name in ("triton_kernels.py", "table.py"):
        digest.update((FOLDER / name).read_bytes())
    manifest = json.loads((store.ARCHIVES / "manifest.json").read_text())
    assert manifest["source"] == digest.hexdigest()
    files = {f"{k.name}.{'cubin' if k.sm == 90 else 'ptx'}" for k in table.kernels()}
    assert set(manifest["kernels"]) == files
    assert not [n for n, a in manifest["kernels"].items() if a.get("spilled")]


@pytest.mark.parametrize("name", ["bfloat16-bfloat16-tf32-nn-128x64x64-4w4s-sm80",
                                  "float32-float32-tf32-nt-128x256x32-8w3s-sm90", "turn-4-sm80"])
def test_code_is_what_the_manifest_says(name: str) -> None:
    found = store.code(name)
    data = found.path.read_bytes()
    if name.endswith("sm90"):
        assert data[:4] == b"\x7fELF" and found.entry.encode() in data
        assert found.scratch  # its descriptors
        return
    text = data.decode()
    assert entries(text) == [found.entry] and ".version 8.0" in text
    assert f".reqntid {found.block}" in text or f".maxntid {found.block}" in text
    # arrays, work space where there is some, then numbers of 32 bits: what IREE passes
    head = text[text.index(".entry"):text.index(")", text.index(".entry"))]
    kinds = re.findall(r"\.param \.(\w+)", head)
    assert kinds == sorted(kinds, reverse=True) and set(kinds) == {"u64", "u32"}, kinds


def test_blocks_fit_on_every_card_from_8_0_on() -> None:
    """Compute capabilities 8.6, 8.9 and 12.0 have 99 KiB a block."""
    kernels = json.loads((store.ARCHIVES / "manifest.json").read_text())["kernels"]
    for name, about in kernels.items():
        assert about["shared"] <= (227 if "sm90" in name else 99) << 10, name
        assert about["block"] <= 1024


# ---- which a product is given
@pytest.mark.parametrize("kind", list(table.PRODUCTS), ids="-".join)
def test_plans_have_kernels_and_cover_the_sums(kind: tuple[str, str]) -> None:
    family, size = table.PRODUCTS[kind], table.SIZES[kind[0]]
    manifest = json.loads((store.ARCHIVES / "manifest.json").read_text())["kernels"]
    for (batch, m, n, k), tiles, aligned in itertools.product(
            SIZES, (family.tiles, family.odd), (True, False)):
        found = table.plan(tiles, batch, m, n, k, size)
        assert found.span % table.UNIT == 0 and found.span % found.tile.depth == 0
        assert (found.parts - 1) * found.span < k <= found.parts * found.span
        assert found.parts <= table.PARTS
        aligned = tiles is family.tiles
        for out in {kind[0], "float32"}:
            for layout in table.LAYOUTS:
                name = table.Product(kind[0], out, kind[1], layout, found.tile, aligned, 80).name
                assert f"{name}.ptx" in manifest


def test_parts_where_tiles_are_few_only() -> None:
    tiles = table.PRODUCTS["float32", "tf32"].tiles
    assert table.plan(tiles, 1, 64, 64, 65536, 4).parts > 1
    assert table.plan(tiles, 1, 4096, 4096, 4096, 4).parts == 1


@pytest.mark.parametrize("precision, word", [
    (None, "tf32"), ("default", "tf32"), ("high", "tf32x3"), ("highest", "ieee"),
    ("tensorfloat32", "tf32x3"), ("float32", "ieee"), ((lax.Precision.DEFAULT, "highest"), "ieee")])
def test_precision(precision: Any, word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    usual = products.product
    monkeypatch.setattr(products, "product", lambda *a: seen.append(a[5]) or usual(*a))
    made(lambda x, y: jnp.matmul(x, y, precision=precision), (64, 128), (128, 64))
    assert seen == [word]


def test_the_default_precision_is_the_users() -> None:
    def f(x: Any, y: Any) -> Any:
        return x @ y
    plain = made(f, (256, 256), (256, 256))
    with calque.default_matmul_precision("highest"):
        exact = made(f, (256, 256), (256, 256))
    assert "mma.sync" in plain and "mma.sync" not in exact and "fma.rn.f32" in exact


def test_solving_is_exact() -> None:
    """Products within linear algebra are not rounded to TF32."""
    for f in (jnp.linalg.inv, jnp.linalg.qr, jnp.linalg.cholesky, jnp.linalg.svd):
        assert "mma.sync" not in made(f, (96, 96)), f


def test_halves_have_a_second_kernel_for_hopper() -> None:
    text = made(jnp.matmul, (1024, 1024), (1024, 1024), dtype=jnp.bfloat16)
    assert "compute_capability_major" in text and "\x7fELF" in text and "mma.sync" in text
    small = made(jnp.matmul, (1, 1000), (1000, 17), dtype=jnp.bfloat16)
    assert "compute_capability_major" not in small


def dispatches(f: Any, *specs: Any, dtype: Any = np.float32) -> tuple[int, int]:
    """(kernels of ours, of IREE's) of a program."""
    found = entries(made(f, *specs, dtype=dtype))
    ours = [e for e in found if e in ("matmul", "matmul_tma", "turn", "convolve",
                                      "convolve_weights")]
    return len(ours), len(found) - len(ours)


@pytest.mark.parametrize("name, f, shapes", [
    ("x y", lambda x, y: x @ y, ((128, 256), (256, 64))),
    ("x^T y", lambda x, y: x.T @ y, ((256, 128), (256, 64))),
    ("x y^T", lambda x, y: x @ y.T, ((128, 256), (64, 256))),
    ("batch in the middle", lambda q, k: jnp.einsum("bqhd,bkhd->bhqk", q, k),
     ((2, 64, 4, 32), (2, 64, 4, 32))),
    ("a vector", lambda x, v: x @ v, ((512, 256), (256,))),
    ("two axes as one", lambda x, y: jnp.tensordot(x, y, 2), ((64, 8, 16), (8, 16, 32)))])
def test_operands_are_read_where_they_lie(name: str, f: Any, shapes: Any) -> None:
    assert dispatches(f, *shapes) == (1, 0)


def test_what_has_no_strides_is_moved() -> None:
    assert dispatches(lambda x, y: jnp.einsum("abc,dcb->ad", x, y), (64, 16, 32), (64, 32, 16)) == (
        1, 1)


def test_pieces_are_not_read_16_bytes_at_once() -> None:
    """x[1:] may lie at any multiple of 4 bytes, and a misaligned read loses the device."""
    for f in (lambda x, y: x[1:] @ y, lambda x, y: jnp.reshape(x[1:], (64, 64)) @ y):
        text = made(f, (65, 64), (64, 64))
        assert "matmul" in entries(text)
        assert not re.search(r"cp\.async\.cg", text)
    assert re.search(r"cp\.async\.cg", made(lambda x, y: x @ y, (65, 64), (64, 64)))


def test_older_cards_and_other_dtypes_have_ireesform() -> None:
    specs = [calque.ShapeDtypeStruct((128, 128), np.float32)] * 2
    old = aot.compile(jnp.matmul, *specs, targets=["cuda:sm_75"]).vmfb.decode("latin1")
    assert "matmul" not in entries(old)
    assert "matmul" not in entries(made(jnp.matmul, (128, 128), (128, 128), dtype=np.int32))


def test_what_leaves_the_fast_way_is_said(monkeypatch: pytest.MonkeyPatch,
                                          capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("CALQUE_LOG", "compile")
    specs = [calque.ShapeDtypeStruct((160, 128), np.float32),
             calque.ShapeDtypeStruct((128, 144), np.float32)]
    for target, said in (("cuda:sm_75", "from compute capability 8.0 on"), ("cuda:sm_80", "")):
        capsys.readouterr()
        aot.compile(jnp.matmul, *specs, targets=[target])
        printed = capsys.readouterr().err
        assert said in printed and bool(said) == ("IREE's own form" in printed)


@pytest.mark.parametrize("m, n, k, wins", [(1024, 1024, 1024, True), (1, 4096, 4096, True),
                                           (2, 2, 4, False), (1, 1, 4096, False)])
def test_what_is_too_small(m: int, n: int, k: int, wins: bool) -> None:
    assert products.wins(1, m, n, k) is wins


@pytest.mark.parametrize("layout", [("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW")])
def test_convolutions_are_one_kernel(layout: Any) -> None:
    def f(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(x, w, (2, 1), "SAME", dimension_numbers=layout)
    shapes = ((2, 16, 16, 32), (3, 3, 32, 32)) if layout[0] == "NHWC" else (
        (2, 32, 16, 16), (32, 32, 3, 3))
    for gradient, kernels in ((f, {"convolve"}),
                              (calque.grad(lambda x, w: (f(x, w) ** 2).sum(), argnums=(0, 1)),
                               {"convolve", "convolve_weights"})):
        assert kernels <= set(entries(made(gradient, *shapes)))


def test_grouped_convolutions_are_irees() -> None:
    assert convolutions.LEAST
    text = made(lambda x, w: lax.conv_general_dilated(
        x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=32),
        (2, 16, 16, 32), (3, 3, 1, 32))
    assert "convolve" not in entries(text)


# ---- what they compute
@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs triton")
def test_values_by_the_interpreter() -> None:
    """Each function against NumPy in float64: sizes that tiles do not divide, NaN, infinity."""
    script = Path(__file__).with_name("cuda_interpreter.py")
    done = subprocess.run([sys.executable, str(script), str(FOLDER)], capture_output=True,
                          text=True, env={**os.environ, "TRITON_INTERPRET": "1"})
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
