"""The shape of the package: who may import whom, what is packaged, what loading costs."""
from __future__ import annotations

import ast
import pathlib
import subprocess
import sys
import tomllib

import pytest

ROOT = pathlib.Path(__file__).parent.parent
PLACES = {"frontend": "calque", "lowering": "calque.lowering", "runtime": "calque.runtime"}

# a part of the package -> the parts it may import (itself included); "meeting" is where the
# frontend meets lowering and runtime: arrays, eager evaluation, jit, export
MEETING = ("array", "eager", "generic", "host", "pack", "plans", "jit", "signatures", "devices",
           "tracing", "api", "batching", "staging", "control", "loops", "callbacks", "debug",
           "experimental", "aot", "specs", "errors", "dtypes", "jacobians", "mismatch", "tree",
           "tree_nodes", "tree_spec", "tree_util", "ad_checkpoint", "custom_batching",
           "custom_derivatives", "test_util", "typing", "stages", "costs", "labels", "shards",
           "constraints", "placed", "mapping", "pmap", "mesh_tools", "sharding", "sharding_view")
ALLOWED = {
    "core": {"core"},
    "transforms": {"core", "transforms"},
    "primitives": {"core", "transforms", "primitives"},
    "lowering": {"core", "lowering"},
    "runtime": {"runtime"},
    "lax": {"core", "transforms", "primitives", "lax", *MEETING},
    "numpy": {"core", "transforms", "primitives", "lax", "numpy", "runtime", *MEETING},
    **{m: {"core", "transforms", "primitives", "lax", "numpy", "nn", "random", m, *MEETING}
       for m in ("nn", "ops", "flatten_util", "random", "scipy")},
    **{m: {"core", "transforms", "primitives", "lowering", "runtime", *MEETING} for m in MEETING},
    "export": {"core", "transforms", "primitives", "lax", "lowering", "export", *MEETING},
}


def modules() -> list[tuple[str, pathlib.Path]]:
    found = []
    for folder, package in PLACES.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            if "cpp" in parts:  # what the examples in C++ compile: no module of ours
                continue
            name = ".".join([package, *[p for p in parts if p != "__init__"]])
            found.append((name, path))
    return found


def imports_of(path: pathlib.Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(a.name for a in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module)
            if node.module == "calque":
                names.update(f"calque.{a.name}" for a in node.names)
    return {n for n in names if n == "calque" or n.startswith("calque.")}


def part(module: str) -> str:
    pieces = module.split(".")
    return pieces[1] if len(pieces) > 1 else ""


@pytest.mark.parametrize("name, path", modules(), ids=lambda v: v if isinstance(v, str) else "")
def test_imports_point_one_way(name: str, path: pathlib.Path) -> None:
    own = part(name)
    if own not in ALLOWED:  # calque/__init__, the CLI: they may see everything
        return
    wrong = {i for i in imports_of(path) if part(i) and part(i) not in ALLOWED[own]}
    assert not wrong, f"{name} must not import {sorted(wrong)}"


def test_nothing_imports_the_folder_names() -> None:
    for name, path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
                assert node.module.split(".")[0] not in ("frontend", "lowering", "runtime"), name


def test_package_list_matches_the_folders() -> None:
    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"][
        "packages"])
    found = {name for name, path in modules() if path.name == "__init__.py"}
    assert listed == found


def test_files_stay_readable() -> None:
    long = {str(p.relative_to(ROOT)): n for _, p in modules()
            if (n := len(p.read_text().splitlines())) > 640}
    assert not long, f"files over about 600 lines: {long}"


def test_every_module_opens_with_what_it_is_for() -> None:
    bare = [str(p.relative_to(ROOT)) for _, p in modules()
            if p.read_text().strip() and not ast.get_docstring(ast.parse(p.read_text()))]
    assert not bare


def loaded_by(statement: str) -> set[str]:
    out = subprocess.run([sys.executable, "-c", f"{statement}\nimport sys\nprint(*sys.modules)"],
                         capture_output=True, text=True, check=True, cwd="/")
    return set(out.stdout.split())


def test_importing_calque_loads_no_compiler() -> None:
    """The MLIR bindings are loaded at the first compile: import stays quick."""
    for statement in ("import calque", "import calque.runtime"):
        heavy = {m for m in loaded_by(statement)
                 if m.startswith(("iree.compiler", "jax", "scipy", "matplotlib"))}
        assert not heavy, statement


def test_the_stub_of_array_is_up_to_date() -> None:
    """Type checkers see the operators and methods (checked with pyright on examples/)."""
    sys.path.insert(0, str(ROOT / "docs" / "scripts"))
    try:
        import stubs
    finally:
        sys.path.pop(0)
    assert stubs.PATH.read_text() == stubs.stub(), "run python docs/scripts/stubs.py"
