"""What mkdocs.yml adds to docs/: the reference from docstrings, changes, sources that are named.

MkDocs calls the functions `on_*`.  Links of pages to files outside docs/ become links to pages made
of those files, so that no link of the site leaves it; docs/ itself reads well without a site.
"""
from __future__ import annotations

import importlib
import inspect
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs" / "scripts"))
import api  # noqa: E402

LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")
FENCE = re.compile(r"^(\s*```)(\w+) (\S+)$", re.M)  # ```python model.py
AS_PAGES = ("CHANGELOG.md", "CONTRIBUTING.md", "runtime/cpp/examples/README.md",
            "examples/README.md")
SECTION = re.compile(r"^(Args|Returns|Raises|Example|Examples|Notes?|Yields|Attributes|Fails|"
                     r"Mended)(?: [^\n]*)?::?$")
_sources: set[str] = set()  # files of the checkout that the reference names
QUIET = ("CHANGELOG.md", "benchmarks.md", "suite.md", "small_loops.md", "first_call.md",
         "programs.md", "jax_tests.md", "jax_docs.md", "special_functions.md",
         "math_accuracy.md", "fft.md")


# ---- the reference
def anchor(name: str) -> str:
    return re.sub(r"[^\w.]+", "-", name)


def _place(value: Any) -> str:
    """The source of a function or class: a link to its page."""
    try:
        value = inspect.unwrap(value)
        file = Path(inspect.getsourcefile(value) or "")
        line = inspect.getsourcelines(value)[1]
        path = file.resolve().relative_to(ROOT).as_posix()
    except (TypeError, ValueError, OSError):
        return ""
    if path.split("/")[0] not in ("frontend", "lowering", "runtime"):  # of another package
        return ""
    _sources.add(path)
    return (f'<a href="../{_page_of(path)[:-3]}.html#__codelineno-0-{line}"><code>{path}:{line}'
            "</code></a>")


def docstring(text: str) -> str:
    """A docstring as Markdown: sections, lists of parameters, examples."""
    lines: list[str] = []
    listed = False
    section = ""
    for line in text.splitlines():
        if SECTION.match(line):
            section = line.rstrip(":")
            lines += ["", f"**{section}**", ""]
            continue
        if section and line.startswith("  "):
            if section.startswith(("Example", "Fails", "Mended")) or (
                    line.lstrip().startswith(">>>")):
                lines.append(f"    {line[2:]}")
                continue
            found = re.match(r"  (\S[^:\n]*?): (.*)", line)
            if found and section.split()[0] in ("Args", "Raises", "Attributes"):
                lines.append(f"* `{found[1]}`: {_text(found[2])}")
                listed = True
            elif listed and line.startswith("    "):
                lines.append(f"  {_text(line.strip())}")
            else:
                lines.append(_text(line.strip()))
            continue
        if line and not line.startswith(" "):
            section, listed = "", False
        lines.append(line if line.startswith("    ") else _text(line))
    return "\n".join(lines)


def _summary(value: Any) -> str:
    return _text(re.sub(r"\\([|(])", r"\1", api.summary(value)))


def _text(line: str) -> str:
    """Words of a docstring, in which brackets, stars and < are no Markdown."""
    parts = re.split(r"(`[^`]*`)", line)
    return "".join(p if p.startswith("`") else re.sub(r"([\[\]*_<>|])", r"\\\1", p) for p in parts)


def _methods(kind: type) -> list[str]:
    """The public methods and properties of a class, with their sentences."""
    found = {n: f for base in reversed(kind.__mro__) if base.__module__.startswith("calque")
             for n, f in vars(base).items() if not n.startswith("_") and inspect.getdoc(f)
             and (callable(f) or isinstance(f, (property, staticmethod, classmethod)))}
    if not found or issubclass(kind, BaseException):
        return []
    return ["", "| attribute | what it does |", "|---|---|",
            *(f"| `{n}` | {_call(n, f)}{_summary(f)} |" for n, f in sorted(found.items()))]


def _call(name: str, method: Any) -> str:
    if not callable(method):
        return ""
    shown = api.signature(method).replace("(self, ", "(").replace("(self)", "()")
    return f"`{name}{shown}`: ".replace("|", "\\|")


def _similar(name: str, names: list[str], page: str) -> str:
    """See also: the same name elsewhere, and names that share its stem."""
    elsewhere = [f"[{space}.{name}]({space}.md#{anchor(name)})" for space in api.NAMESPACES
                 if space != page and name in _names(space)]
    stem = re.split(r"(?<=[a-z])_|(?=\d)", name.lstrip("_"))[0]
    near = [n for n in names if n != name and len(stem) > 3
            and (n.startswith(stem) or n.endswith(f"_{stem}"))][:6]
    return " · ".join([*elsewhere[:4], *(f"[{n}](#{anchor(n)})" for n in near)])


def _names(space: str) -> list[str]:
    try:
        return api.names(importlib.import_module(space))
    except ModuleNotFoundError:
        return []


def reference(space: str) -> str:
    """A namespace's page: its table, then each name with its docstring, place and neighbours."""
    module = importlib.import_module(space)
    names = _names(space)
    what = api.NAMESPACES[space]
    lines = [f"# {space}", "", f"{what[0].upper()}{what[1:]}.", "",
             "| name | what it does |", "|---|---|"]
    for n in names:
        lines.append(f"| [`{n}`](#{anchor(n)}) | {_summary(getattr(module, n))} |")
    for n in names:
        value = getattr(module, n)
        lines += ["", f"### {n} {{: #{anchor(n)} .api }}", "",
                  f"```python\n{space}.{n}{api.signature(value)}\n```", ""]
        if inspect.isclass(value) or callable(value):
            lines.append(docstring(inspect.getdoc(value) or ""))
            if inspect.isclass(value):
                lines += _methods(value)
            if place := _place(value):
                lines += ["", f"Source: {place}"]
        else:
            lines.append(_summary(value))
        if near := _similar(n, names, space):
            lines += ["", f"See also: {near}"]
    return "\n".join(lines) + "\n"


# ---- what MkDocs calls
def on_config(config: Any) -> Any:
    """The reference's namespaces stand in the navigation below its index."""
    for tab in config.nav:
        for entry in tab.get("Reference", ()):
            if entry.get("Python API") == "api/README.md":
                entry["Python API"] = ["api/README.md",
                                       *({space: f"api/{space}.md"} for space in api.NAMESPACES)]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Pages that are made: the reference in place of its tables, the changes, named sources."""
    for space in api.NAMESPACES:
        name = f"api/{space}.md"
        if (old := files.get_file_from_path(name)) is not None:
            files.remove(old)
            files.append(File.generated(config, name, content=reference(space)))
    for name in AS_PAGES:
        files.append(File.generated(config, _page_of(name), content=(ROOT / name).read_text()))
    for name in sorted(_named(files) | _sources):
        files.append(File.generated(config, _page_of(name), content=_source(name)))
    return files


def _page_of(name: str) -> str:
    """Where a file of the checkout stands in the site."""
    if name in AS_PAGES[:2]:
        return name
    return f"source/{name}" if name.endswith(".md") else f"source/{name}.md"


def _named(files: Files) -> set[str]:
    """The files of the checkout, outside docs/, that pages link to."""
    found: set[str] = set()
    for file in list(files):
        if file.src_uri.endswith(".md"):
            at = _home(file.src_uri)
            for _, target, _, _ in LINK.findall(file.content_string):
                name = _outside(at, target)
                if name and (ROOT / name).is_file():
                    found.add(name)
    return found - set(AS_PAGES)


def _home(src: str) -> str:
    """A page's path in the checkout."""
    if src in AS_PAGES:
        return src
    return src.removeprefix("source/") if src.startswith("source/") else f"docs/{src}"


def _outside(at: str, target: str) -> str | None:
    """The file of the checkout that a relative link of a page names, if that is outside docs/."""
    if re.match(r"[a-z]+:|/", target):
        return None
    name = posixpath.normpath(posixpath.join(posixpath.dirname(at), target))
    return None if name.startswith(("docs/", "..")) else name


def _source(name: str) -> str:
    kind = {".py": "python", ".h": "c", ".hpp": "cpp", ".cc": "cpp", ".c": "c"}.get(
        Path(name).suffix, "text")
    text = (ROOT / name).read_text().replace("````", "")
    return (f"---\nsearch:\n  exclude: true\nhide: [toc]\n---\n\n# {name}\n\n"
            f'````{{ .{kind} linenums="1" }}\n{text}\n````\n')


def _boost(src: str, config: Any) -> float | None:
    """What weighs more in a search, and less: answers before tables and maintainers' pages."""
    if src.startswith("api/"):
        return 2.0
    tabs = {name: str(entries) for tab in config.nav for name, entries in tab.items()}
    if f"'{src}'" in tabs["Maintainers"] or src in QUIET or src.startswith("source/"):
        return 0.3
    asked = src in ("options.md", "cli.md", "how_fast.md") or any(
        f"'{src}'" in tabs[name] for name in ("Start", "Tutorials", "How-to"))
    return 2.0 if asked else None


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Links to files outside docs/, and titles of blocks, as MkDocs wants them."""
    src = page.file.src_uri
    if (boost := _boost(src, config)) is not None:
        page.meta.setdefault("search", {"boost": boost})
    if src.startswith("api/calque") or (src.startswith("source/") and src not in map(
            _page_of, AS_PAGES)):
        return markdown
    at = _home(src)

    def link(found: re.Match[str]) -> str:
        if re.match(r"[a-z]+:|/", found[2]):
            return found[0]
        name = posixpath.normpath(posixpath.join(posixpath.dirname(at), found[2]))
        if name == "README.md":
            target = "index.md"
        elif name.startswith("docs/"):
            target = name.removeprefix("docs/")
            target = f"{target.rstrip('/')}/arrays.md" if target == "tutorials" else target
        elif (ROOT / name).is_file():
            target = _page_of(name)
        else:
            return found[0]
        relative = posixpath.relpath(target, posixpath.dirname(src) or ".")
        return f"{found[1]}{relative}{found[3] or ''}{found[4]}"
    return FENCE.sub(r'\1\2 title="\3"', LINK.sub(link, markdown))
