"""calque compat scan: which names of JAX a code base writes, and which of them are absent.

Nothing of it is run: files are parsed, imports and their aliases followed (`import jax.numpy as
jnp`, `from jax import lax`, `np = jax.numpy`) through scopes, and chains of attributes read.  What
is there is asked of calque.compat.  Start reading at `scan_folder`; `_Reader` reads a file.
"""
from __future__ import annotations

import ast
import json
import os
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer

from calque_cli.report import UsageError

TOPS = ("jax", "jaxlib")
_FORGIVING = {"ImportError", "ModuleNotFoundError", "AttributeError", "Exception", "BaseException"}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SCOPES = (*_FUNCTIONS, *_COMPREHENSIONS, ast.ClassDef)


@dataclass(frozen=True, slots=True)
class Use:
    """A name that is written: where, and whether the code does without it (try, hasattr)."""

    name: str
    line: int
    guarded: bool


@dataclass(slots=True)
class Name:
    """What is known of one name of JAX's."""

    name: str
    status: str  # present, stub (raises when it is used), absent
    why: str = ""
    places: list[tuple[str, int]] = field(default_factory=list)
    guarded: bool = True  # in all of its places

    @property
    def missing(self) -> bool:
        return self.status == "absent" and not self.guarded


def uses(text: str) -> list[Use]:
    """The names of JAX that a module's text writes, in its order.

    Raises:
      SyntaxError: it is no Python.
    """
    reader = _Reader()
    tree = ast.parse(text)
    reader.enter(tree, tree.body)
    return reader.found


class _Reader(ast.NodeVisitor):
    def __init__(self) -> None:
        self.found: list[Use] = []
        # of each scope: whether it is a class's, and what its names are of JAX (or None)
        self._scopes: list[tuple[bool, dict[str, str | None]]] = []
        self._guards = 0

    def enter(self, scope: ast.AST, body: Iterable[ast.AST]) -> None:
        """Visit what lies in a scope, with the names that it binds."""
        names: dict[str, str | None] = {}
        self._scopes.append((isinstance(scope, ast.ClassDef), names))
        aliases = []
        for node in _own(scope, body):
            for name, meant in _bound(node):
                names[name] = meant or names.get(name)  # (the other way of a try is no matter)
            if isinstance(node, ast.Assign) and len(node.targets) == 1 \
                    and isinstance(node.targets[0], ast.Name):
                aliases.append((node.targets[0].id, node.value))
        for name, value in aliases:  # np = jax.numpy
            names[name] = names.get(name) or self._meant(value)
        for node in body:
            self.visit(node)
        self._scopes.pop()

    def _meant(self, node: ast.AST) -> str | None:
        """The name of JAX's that an expression is, if it is one."""
        if isinstance(node, ast.Attribute):
            before = self._meant(node.value)
            return before and f"{before}.{node.attr}"
        if isinstance(node, ast.Name):
            for depth, (of_class, names) in enumerate(reversed(self._scopes)):
                if node.id in names and not (of_class and depth):
                    return names[node.id]
        return None

    def _note(self, name: str, node: ast.AST, guarded: bool = False) -> None:
        self.found.append(Use(name, getattr(node, "lineno", 1), guarded or self._guards > 0))

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.name.split(".")[0] in TOPS:
                self._note(alias.name, node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if not node.level and node.module and node.module.split(".")[0] in TOPS:
            for alias in node.names:
                self._note(node.module + ("" if alias.name == "*" else f".{alias.name}"), alias)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        meant = self._meant(node)
        if meant:
            self._note(meant, node)
        else:
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in ("getattr", "hasattr") \
                and len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
            meant = self._meant(node.args[0])
            if meant and isinstance(node.args[1].value, str):
                guarded = node.func.id == "hasattr" or len(node.args) > 2
                self._note(f"{meant}.{node.args[1].value}", node, guarded)
        self.generic_visit(node)

    def visit_Try(self, node: ast.Try) -> None:
        caught = {getattr(n, "id", getattr(n, "attr", "")) for h in node.handlers
                  for n in (ast.walk(h.type) if h.type else [ast.Name("Exception")])}
        self._under(bool(caught & _FORGIVING), node.body)
        for part in (node.handlers, node.orelse, node.finalbody):
            self._under(False, part)

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        name = getattr(node.test, "id", getattr(node.test, "attr", ""))
        asked = any(isinstance(n, ast.Name) and n.id == "hasattr" for n in ast.walk(node.test))
        self._under(asked or name == "TYPE_CHECKING", node.body)
        self._under(asked, node.orelse)

    def _under(self, guarded: bool, body: Iterable[ast.AST]) -> None:
        self._guards += guarded
        for node in body:
            self.visit(node)
        self._guards -= guarded

    def visit(self, node: ast.AST) -> None:
        if not isinstance(node, _SCOPES):
            super().visit(node)
        elif isinstance(node, _COMPREHENSIONS):
            self.enter(node, list(ast.iter_child_nodes(node)))
        else:
            body = node.body if isinstance(node.body, list) else [node.body]
            inside = {id(n) for n in body}
            for child in ast.iter_child_nodes(node):  # defaults, decorators, annotations, bases
                if id(child) not in inside:
                    self.visit(child)
            self.enter(node, body)


def _own(scope: ast.AST, body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The nodes that lie in a scope, and not in one within it."""
    todo = list(reversed(list(body)))
    if isinstance(scope, _FUNCTIONS):
        yield scope.args
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, _SCOPES):
            todo += reversed(list(ast.iter_child_nodes(node)))


def _bound(node: ast.AST) -> Iterator[tuple[str, str | None]]:
    """The names that a node binds, with what of JAX they are."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            top = alias.name.split(".")[0]
            meant = alias.name if alias.asname else top
            yield alias.asname or top, meant if top in TOPS else None
    elif isinstance(node, ast.ImportFrom):
        ours = not node.level and (node.module or "").split(".")[0] in TOPS
        for alias in node.names:
            yield alias.asname or alias.name, f"{node.module}.{alias.name}" if ours else None
    elif isinstance(node, ast.arguments):
        for argument in ast.walk(node):
            if isinstance(argument, ast.arg):
                yield argument.arg, None
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id, None
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
                    | ast.ExceptHandler) and node.name:
        yield node.name, None


def files_of(folder: Path) -> list[Path]:
    """The Python files of a folder, without hidden ones and environments."""
    if folder.is_file():
        return [folder]
    found = []
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f != "__pycache__"
                            and not Path(place, f, "pyvenv.cfg").exists())
        found += [Path(place, n) for n in sorted(names) if n.endswith(".py")]
    return found


def scan_folder(folder: Path) -> tuple[list[Name], int, list[str]]:
    """(the names of JAX that its files write; how many files; those that could not be read)."""
    from calque.compat import modules
    known: dict[str, tuple[str, str, str]] = {}
    names: dict[str, Name] = {}
    unread, files = [], files_of(folder)
    for path in files:
        shown = str(path.relative_to(folder) if folder.is_dir() else path)
        try:
            with tokenize.open(path) as file:  # in the encoding that it says
                found = uses(file.read())
        except (SyntaxError, ValueError, OSError, RecursionError) as error:
            unread.append(f"{shown}: {error}")
            continue
        for use in found:
            if use.name not in known:
                known[use.name] = modules.look_up(use.name)
            name, status, why = known[use.name]
            entry = names.setdefault(name, Name(name, status, why))
            if (shown, use.line) not in entry.places:
                entry.places.append((shown, use.line))
            entry.guarded &= use.guarded
    return [names[n] for n in sorted(names)], len(files), unread


def scan(folder: Path, as_json: bool, only_absent: bool) -> None:
    """Print the names; exit code 1 where some are absent that the code does not do without."""
    if not folder.exists():
        raise UsageError(f"there is no folder {folder}.", "give a folder of Python files, or one.")
    names, count, unread = scan_folder(folder)
    if as_json:
        typer.echo(json.dumps(_record(names, count, unread), indent=1))
    else:
        for line in _lines(names, count, unread, only_absent):
            typer.echo(line)
    if any(n.missing for n in names):
        raise typer.Exit(1)


def _record(names: list[Name], count: int, unread: list[str]) -> dict[str, Any]:
    return {"files": count, "unread": unread, "names": [
        {"name": n.name, "status": n.status, "guarded": n.guarded, "why": n.why,
         "places": [{"file": file, "line": line} for file, line in n.places]} for n in names]}


def _lines(names: list[Name], count: int, unread: list[str], only_absent: bool) -> Iterator[str]:
    groups = (
        ("absent", [n for n in names if n.missing]),
        ("absent, where the code does without (try, hasattr, TYPE_CHECKING)",
         [n for n in names if n.status == "absent" and n.guarded]),
        ("a name alone, which raises when it is used", [n for n in names if n.status == "stub"]),
        ("present", [n for n in names if n.status == "present"]))
    for title, group in groups:
        if not group or only_absent and title == "present":
            continue
        yield f"{title}:"
        for name in group:
            shown = name.places if name.status != "present" else name.places[:1]
            more = len(name.places) - len(shown)
            yield f"  {name.name}  {_where(shown)}" + (f", {more} more" if more else "")
            if name.missing:
                yield from (f"      {line.strip()}" for line in name.why.splitlines())
    for line in unread:
        yield f"not read: {line}"
    lacking = sum(n.status == "absent" for n in names)
    yield f"{len(names)} names of JAX in {count} files: {len(names) - lacking} are there, " \
          f"{lacking} absent."


def _where(places: list[tuple[str, int]]) -> str:
    lines: dict[str, list[str]] = {}
    for file, line in places:
        lines.setdefault(file, []).append(str(line))
    return "; ".join(f"{file}:{','.join(numbers)}" for file, numbers in lines.items())
