"""Lists of primitives' names that are kept by hand: each name is a primitive's."""
from __future__ import annotations

import ast
import pathlib
from collections.abc import Iterator

import calque  # noqa: F401  (registers all)
import calque.experimental.sparse  # noqa: F401
from calque.core.primitive import registry

ROOT = pathlib.Path(__file__).resolve().parents[1]
SHARE = 0.6  # of a list's texts that are names of primitives: such a list is meant
LEAST = 3
# files whose lists are of other names, many of which primitives have, too
OTHERS = {
    "lowering/emit/folding.py": "StableHLO's operations",
    "lowering/math/table.py": "the table's keys",
    "lowering/emit/sizes.py": "operations on sizes",
    "frontend/calque/core/dimension.py": "the same", "frontend/calque/core/dims.py": "the same",
    "frontend/calque/export": "StableHLO's operations, and those on sizes"}


def texts(node: ast.AST) -> list[str]:
    """The texts of a literal list, set, tuple or of a dict's keys; of one text, its words."""
    if isinstance(node, ast.Dict):
        nodes = [k for k in node.keys if k is not None]
    elif isinstance(node, (ast.List, ast.Set, ast.Tuple)):
        nodes = list(node.elts)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and (
            node.func.attr == "split") and isinstance(node.func.value, ast.Constant):
        value = node.func.value.value
        return value.split() if isinstance(value, str) else []
    else:
        return []
    if not all(isinstance(n, ast.Constant) and isinstance(n.value, str) for n in nodes):
        return []
    return [n.value for n in nodes]  # type: ignore[attr-defined]


def lists() -> Iterator[tuple[str, list[str]]]:
    """Place and texts of each list that names primitives."""
    folders = [ROOT / "lowering", *[ROOT / "frontend" / "calque" / f for f in (
        "core", "transforms", "primitives", "dispatch", "export", "experimental")]]
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                found = texts(node)
                named = sum(t in registry for t in found)
                if len(found) >= LEAST and named >= SHARE * len(found):
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", found  # type: ignore[attr-defined]


def test_each_name_is_a_primitive() -> None:
    every = list(lists())
    assert len(every) > 20
    wrong = [f"{place}: {t!r}" for place, found in every for t in found
             if t not in registry and not place.startswith(tuple(OTHERS))]
    assert not wrong, "\n".join(wrong)


def test_no_list_names_one_twice() -> None:
    wrong = [place for place, found in lists() if len(set(found)) < len(found)]
    assert not wrong, wrong
