"""The maps of packages name their modules, and paths that comments and docs name exist."""
from __future__ import annotations

import ast
import functools
import io
import os
import pathlib
import re
import tokenize
from collections.abc import Iterator

import pytest
from support.syntax import parsed, statements

ROOT = pathlib.Path(__file__).parent.parent
PACKAGE = ROOT / "frontend" / "calque"
MAPPED = sorted(
    pathlib.Path(folder) for folder, _, files in os.walk(PACKAGE, followlinks=True)
    if "__init__.py" in files and len([f for f in files if f.endswith(".py")]) > 3)


def modules_of(folder: pathlib.Path) -> set[str]:
    """The modules and packages of a folder."""
    files = {p.stem for p in folder.glob("*.py")} - {"__init__", "__main__"}
    return files | {p.parent.name for p in folder.glob("*/__init__.py")}


@pytest.mark.parametrize("folder", MAPPED, ids=lambda p: str(p.relative_to(PACKAGE.parent)))
def test_a_package_names_its_modules(folder: pathlib.Path) -> None:
    text = ast.get_docstring(parsed(folder / "__init__.py")) or ""
    named = set(re.findall(r"(?<!/)\b([a-z_]\w*)(?:\.py\b|/(?!\w))", text))
    assert not modules_of(folder) - named, "missing from the map in __init__"
    assert not named - modules_of(folder), "in the map, but gone"


# A word with a slash that says where something is: with a known top, or the end of a file's name.
PATH = re.compile(r"(?<![\w/.:<>~*-])((?:[a-z_][\w-]*/)+[\w-]+"
                  r"(?:\.(?:S|py|pyi|md|c|h|cc|hpp|inc\.h|txt|json|toml|cmake))?)"
                  r"(?:::(\w+))?(?![\w/*{<-])")
TOPS = {"frontend", "lowering", "runtime", "tests", "docs", "benchmarks", "examples", "calque",
        "release"}
TOPS |= {p.name for p in PACKAGE.iterdir() if p.is_dir()}
TOPS -= {"numpy", "random", "lax", "scipy", "nn", "iree"}  # names that others have, too


def said(path: pathlib.Path) -> Iterator[str]:
    """Comments and docstrings of a file; a page as a whole, but for its code."""
    text = path.read_text("utf-8")
    if path.suffix == ".md":
        yield re.sub(r"```.*?```|\]\([^)]*\)|https?://\S+", " ", text, flags=re.S)
        return
    for node in statements(parsed(path)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            yield ast.get_docstring(node) or ""
    if re.search(r"#.*\w/\w", text):  # (tokens cost more than all the rest)
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                yield token.string


@functools.cache
def exists(name: str, near: pathlib.Path) -> bool:
    """Whether a name is that of a file or folder, from the top, the package or nearby."""
    for base in (ROOT, PACKAGE, PACKAGE.parent, ROOT / "lowering", ROOT / "runtime",
                 ROOT / "runtime" / "cpp" / "src", near, near.parent):
        if any((base / f"{name}{s}").exists() for s in ("", ".py", ".c", ".cc", ".hpp")):
            return True
        head, dot, _ = name.rpartition(".")  # a name in a module: passes/cost.runs_inline
        if dot and (base / f"{head}.py").exists():
            return True
    return False


def sources() -> list[pathlib.Path]:
    tops = ("frontend", "lowering", "runtime", "tests", "benchmarks", "examples", "docs", "release")
    return [ROOT / "README.md", *sorted(
        p for top in tops for p in (ROOT / top).rglob("*") if p.suffix in (".py", ".md")
        and p.name != "programs.md")]  # (paths in other people's repositories)


def astray(text: str, path: pathlib.Path) -> Iterator[str]:
    """The paths in a text that lead nowhere."""
    for m in PATH.finditer(re.sub(r"\s*\n\s*", " ", text)):
        name = m[1]
        if name.split("/")[0] not in TOPS and not re.search(r"\.(py|md|cc|hpp)$", name):
            continue
        if not exists(name, path.parent):
            yield name
        elif m[2] and f"def {m[2]}(" not in (ROOT / name).read_text():
            yield f"{name}::{m[2]}"


def test_paths_exist() -> None:
    wrong = []
    for path in sources():
        if any(astray(path.read_text("utf-8"), path)):  # perhaps in code only: look closer
            wrong += [f"{path.relative_to(ROOT)}: {name}"
                      for text in said(path) for name in astray(text, path)]
    assert not wrong, "\n".join(wrong)


def test_the_walk_names_what_is_there() -> None:
    """`file.py`: `name`, `name` on docs/architecture.md."""
    text = " ".join((ROOT / "docs" / "architecture.md").read_text().split())
    found = re.findall(r"`([\w/]+\.py)`: ((?:`\w+`(?:, )?)+)", text)
    assert len(found) > 15
    for file, names in found:
        source = next(p for p in (ROOT / file, PACKAGE.parent / file) if p.exists()).read_text()
        for name in re.findall(r"\w+", names):
            assert re.search(rf"(def|class) {name}\b", source), f"{file}: {name}"


def test_the_page_of_irees_defects_is_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs" / "scripts")
    import iree_page
    assert iree_page.PAGE.read_text() == iree_page.page(), "run python docs/scripts/iree_page.py"
    assert not [name for _, cure, name in iree_page.sentinels() if not cure], "name the cure"
