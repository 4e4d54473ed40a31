"""The shape of the package: who may import whom, what is packaged, what loading costs."""
from __future__ import annotations

import ast
import os
import pathlib
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Collection

import pytest
from support.syntax import parsed, statements

import calque

ROOT = pathlib.Path(__file__).parent.parent
SOURCES = ROOT / "frontend"  # holds the package; lowering and runtime in it are links

_TYPES = {"core", "transforms", "trees"}
_RUN = _TYPES | {"primitives", "dispatch"}
# Rooms are the folders of the package.  A room -> the rooms it may import beside itself.  Lowering
# and runtime are seen by those who compile and run; the CLI and calque/__init__ see everything.
ALLOWED: dict[str, set[str]] = {
    "core": set(),
    "runtime": set(),
    "transforms": {"core"},
    "trees": {"core"},
    "primitives": {"core", "transforms"},
    "lowering": {"core", "runtime"},  # call_spec.py alone: how what it makes is called
    "dispatch": _TYPES | {"primitives", "lowering", "runtime"},
    "api": _RUN | {"runtime"},  # handlers of XLA's interface: what an attribute is
    "lax": _RUN | {"api"},
    "numpy": _RUN | {"api", "lax", "runtime"},
    "extras": _RUN | {"lax", "numpy"},
    "random": _RUN | {"api", "lax", "numpy"},
    "nn": _RUN | {"api", "lax", "numpy", "random"},
    "scipy": _RUN | {"api", "lax", "numpy", "random", "nn", "extras"},
    "example_libraries": _RUN | {"lax", "numpy", "random", "nn"},
    "parallel": _RUN | {"api", "runtime"},
    "distributed": {"core", "trees", "dispatch", "runtime"},
    "experimental": _RUN | {"api", "lax", "numpy", "random", "extras", "parallel", "distributed",
                            "aot", "runtime"},
    "export": _RUN | {"api", "lax", "lowering"},
    "aot": {"core", "trees", "dispatch", "lax", "lowering", "runtime"},
    "models": {"core", "api", "dispatch", "lax", "numpy", "nn", "random", "aot", "lowering",
               "runtime"},
    "extend": _RUN | {"numpy", "random", "runtime", "export", "interpreters"},
    "interpreters": _RUN | {"api", "lowering"},
    "compat": {"api", "core", "trees", "dispatch", "lowering", "runtime", "extend", "interpreters"},
    "profiler": {"core", "runtime"},
}
HALL = 65  # lines: a public module that lies beside the rooms shows what a room has


def modules() -> list[tuple[str, pathlib.Path]]:
    found = []
    for folder, folders, files in os.walk(SOURCES / "calque", followlinks=True):
        if "cpp" in folders:  # what the examples in C++ compile: no modules of ours
            folders.remove("cpp")
        for path in sorted(pathlib.Path(folder, f) for f in files if f.endswith(".py")):
            parts = path.relative_to(SOURCES).with_suffix("").parts
            found.append((".".join(p for p in parts if p != "__init__"), path))
    return sorted(found)


def imports_of(path: pathlib.Path) -> set[str]:
    names: set[str] = set()
    for node in statements(parsed(path)):
        if isinstance(node, ast.Import):
            names.update(a.name for a in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module)
            if node.module == "calque":
                names.update(f"calque.{a.name}" for a in node.names)
    return {n for n in names if n == "calque" or n.startswith("calque.")}


def room(module: str) -> str:
    """The room of a module; "" for the package itself and what lies beside the rooms."""
    pieces = module.split(".")
    return pieces[1] if len(pieces) > 1 and pieces[1] in ALLOWED else ""


@pytest.mark.parametrize("name, path", modules(), ids=lambda v: v if isinstance(v, str) else "")
def test_imports_point_one_way(name: str, path: pathlib.Path) -> None:
    own = room(name)
    if not own:
        return
    allowed = {own} | ALLOWED[own]
    wrong = {i for i in imports_of(path) if i != "calque" and room(i) not in allowed}
    assert not wrong, f"{name} must not import {sorted(wrong)}"


# The floors of lowering, in their order: a folder sees those before it.
FLOORS = ("compiler", "target", "plan", "emit", "math", "passes", "native", "kernels", "rules",
          "driver")
EXCEPT = {"calque.lowering.compiler.process": {"emit"}}  # (the error of a missing compiler)


def test_lowering_is_built_in_floors() -> None:
    beside = {n.split(".")[2] for n, _ in modules() if n.startswith("calque.lowering.")}
    assert beside == set(FLOORS), "each file of lowering lies in a folder"
    names = [n for n, _ in modules()]
    for name, path in modules():
        if name.startswith("calque.lowering."):
            seen = {n.split(".")[2] for n in needs(path, names) if n.startswith("calque.lowering.")}
            allowed = set(FLOORS[:FLOORS.index(name.split(".")[2]) + 1])
            assert not seen - allowed - EXCEPT.get(name, set()), name


def test_the_hall_only_shows_what_the_rooms_have() -> None:
    beside = [p for _, p in modules() if p.parent.name == "calque" and not p.name.startswith("__")]
    assert {p.stem for p in beside} <= set(calque._MODULES), "only public modules"
    assert not [p.name for p in beside if len(p.read_text().splitlines()) > HALL]
    folders = {n.split(".")[1] for n, p in modules() if "." in n and p.parent.name != "calque"}
    assert folders == set(ALLOWED)


def needs(path: pathlib.Path, names: Collection[str]) -> set[str]:
    """The modules that a file imports, also inside functions, but not for types only."""
    tree = parsed(path)
    typing = {id(n) for i in statements(tree) if isinstance(i, ast.If)
              and ast.unparse(i.test) == "TYPE_CHECKING" for n in statements(i)}
    found: set[str] = set()
    for node in statements(tree):
        if id(node) in typing:
            continue
        if isinstance(node, ast.Import):
            found.update(a.name for a in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.update(f"{node.module}.{a.name}" if f"{node.module}.{a.name}" in names
                         else node.module for a in node.names)
    return found & set(names)


def test_no_modules_import_each_other() -> None:
    """Packages aside, which import what they show."""
    files = {name: path for name, path in modules() if path.name != "__init__.py"}
    graph = {name: needs(path, files) - {name} for name, path in files.items()}
    while True:  # what nobody needs, or needs nobody, is in no circle
        needed = set().union(*graph.values())
        rest = {n: v & set(graph) for n, v in graph.items() if n in needed and v & set(graph)}
        if rest == graph:
            break
        graph = rest
    assert not graph


def test_package_list_matches_the_folders() -> None:
    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"][
        "packages"])
    found = {name for name, path in modules() if path.name == "__init__.py"} | {
        "calque_cli", "calque_as_jax", "calque_as_jax.children"}
    assert listed == found


def test_a_checkout_without_links_is_told_so(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "frontend" / "calque"
    folder.mkdir(parents=True)
    (folder / "lowering").write_text("../../lowering")  # what git writes instead of a link
    done = subprocess.run([sys.executable, ROOT / "setup.py"], cwd=tmp_path, capture_output=True,
                          text=True)
    assert done.returncode == 1
    assert "frontend/calque/lowering is not a folder" in done.stderr and "Fix: " in done.stderr


def test_nothing_is_dead() -> None:
    """Functions, classes and constants whose name stands in one place only are used by nobody."""
    words = Counter(re.findall(r"\w+", (ROOT / "pyproject.toml").read_text()))
    for top in ("frontend", "lowering", "runtime", "tests", "benchmarks", "docs", "examples"):
        for path in (ROOT / top).rglob("*"):
            if path.suffix in (".py", ".pyi", ".md", ".cc", ".hpp"):
                words.update(re.findall(r"\w+", path.read_text("utf-8")))
    dead = []
    for name, path in modules():
        tree = parsed(path)
        for node in statements(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not (
                    node.decorator_list or node.name.startswith("__")):
                dead += [f"{name}.{node.name}"] if words[node.name] == 1 else []
        for statement in tree.body:
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                constant = statement.targets[0].id
                dead += [f"{name}.{constant}"] if words[constant] == 1 else []
    assert not dead


def test_what_programs_remember_has_one_name() -> None:
    """Two passes that remember under one name give each other's results."""
    found = [name for _, path in modules() for name in re.findall(
        r'\.derived\(\s*("[^"]+"),', path.read_text())]
    assert [n for n in found if found.count(n) > 1] == []


def test_files_stay_readable() -> None:
    long = {str(p.relative_to(ROOT)): n for _, p in modules()
            if (n := len(p.read_text().splitlines())) > 640}
    assert not long, f"files over about 600 lines: {long}"


def test_every_module_opens_with_what_it_is_for() -> None:
    bare = [str(p.relative_to(ROOT)) for _, p in modules()
            if p.read_text().strip() and not ast.get_docstring(parsed(p))]
    assert not bare


def test_docstrings_are_written_in_the_source() -> None:
    """Only rows of tables get theirs from a template; wrappers may take that of what they wrap."""
    makers = {name for name, p in modules()
              if re.search(r"\.__doc__ = (?!.*__doc__)", p.read_text())}
    assert makers == {"calque.core.tables"}


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


def test_stubs_are_up_to_date() -> None:
    """Type checkers see public functions, operators and methods (tests/typing)."""
    done = subprocess.run([sys.executable, str(ROOT / "docs" / "scripts" / "stubs.py"), "--check"],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
