"""Writes the names' part of docs/jax_names.md: every public name of JAX, present or absent.

    python docs/scripts/jax_names.py            # the page, from jax_names.json
    JAXPYTHON docs/scripts/jax_names.py --list  # jax_names.json, with a Python that has jax
"""
from __future__ import annotations

import ast
import importlib
import inspect
import json
import pathlib
import pkgutil
import sys
from typing import Any

HERE = pathlib.Path(__file__).parent
LIST = HERE / "jax_names.json"
PAGE = HERE.parent / "jax_names.md"
START, END = "<!-- names: docs/scripts/jax_names.py -->", "<!-- end of names -->"
# JAX's own build tools, TensorFlow's bridge and MLIR's bindings are no part of the model
LEFT_OUT = ("jax.tools", "jax.experimental.jax2tf", "jax.experimental.mosaic", "jax.extend.mlir",
            "jax.experimental.slab", "jax.collect_profile")


def is_public(module: str) -> bool:
    """Whether a module is listed: implementation modules inside experimental packages are not."""
    parts = module.split(".")
    inside = parts[:2] == ["jax", "experimental"] and len(parts) > 3
    return not (any(p.startswith("_") for p in parts) or module.startswith(LEFT_OUT)
                or inside and module != "jax.experimental.sparse.linalg")


def offered(module: Any) -> set[str]:
    """What a module without __all__ defines or imports `as` the same name (not for itself)."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.ImportFrom):
            names |= {a.name for a in node.names if a.asname == a.name}
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {t.id for t in targets if isinstance(t, ast.Name)}
    return names & set(vars(module))


def public_names(module: Any) -> list[str]:
    """The names that a module offers, submodules apart."""
    names = set(getattr(module, "__all__", None) or offered(module))
    return sorted(n for n in names
                  if not n.startswith("_") and not inspect.ismodule(getattr(module, n, None)))


def listed() -> dict[str, Any]:
    """JAX's version and the names of each of its public modules."""
    import jax
    modules = {"jax": public_names(jax)}
    for info in pkgutil.walk_packages(jax.__path__, "jax.", onerror=lambda name: None):
        if is_public(info.name):
            try:
                names = public_names(importlib.import_module(info.name))
            except ImportError:  # it wants a library or a device that is not there
                continue
            if names:
                modules[info.name] = names
    return {"version": jax.__version__, "modules": dict(sorted(modules.items()))}


def present(module: str, names: list[str]) -> list[str]:
    """Those of a JAX module's names that calque has."""
    try:
        ours = importlib.import_module("calque" + module.removeprefix("jax"))
    except ModuleNotFoundError:
        return []
    return [n for n in names if hasattr(ours, n)]


def text() -> str:
    """The part of the page between its two marks."""
    data = json.loads(LIST.read_text())
    rows, lists, have, total = [], [], 0, 0
    for module, names in data["modules"].items():
        here = present(module, names)
        absent = [n for n in names if n not in here]
        have, total = have + len(here), total + len(names)
        rows.append(f"| `{module}` | {len(here)} of {len(names)} |")
        parts = [f"### {module}"]
        parts += ["Present: " + ", ".join(f"`{n}`" for n in here) + "."] if here else []
        parts += ["Absent: " + ", ".join(f"`{n}`" for n in absent) + "."] if absent else []
        lists.append("\n\n".join(parts))
    head = f"Of the {total:,} names in public modules of JAX {data['version']}, " \
           f"{have:,} are here. " \
           "An absent name is an `AttributeError`, an absent module a `ModuleNotFoundError`."
    return "\n".join([head, "", "| module | present |", "|---|---|", *rows, "",
                      "\n\n".join(lists)])


def page() -> str:
    """The whole page, its names made anew."""
    now = PAGE.read_text()
    return f"{now.split(START)[0]}{START}\n{text()}\n{END}{now.split(END)[1]}"


if __name__ == "__main__":
    if "--list" in sys.argv[1:]:
        LIST.write_text(json.dumps(listed(), indent=0) + "\n")
    else:
        PAGE.write_text(page())
