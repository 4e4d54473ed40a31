"""Builds the documentation as a site, and checks it: python docs/scripts/site_build.py [FOLDER].

The pages' links are checked in their sources, by page and line, before anything is built; then
MkDocs builds with every warning an error; then each link and anchor of the HTML is followed.
`make site` runs it into build/site.  The first check needs nothing installed.
"""
from __future__ import annotations

import html.parser
import os
import re
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"(?<!\\)\]\(([^)\s]+)\)")
FENCE = re.compile(r"^\s*(`{3,})")
HEADING = re.compile(r"^#{1,6} (.+?)(?: *\{[^}]*\})?$")


def pages() -> list[Path]:
    """What is written by hand or by scripts, with the README and the pages beside it."""
    return [*(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
            *sorted((ROOT / "docs").rglob("*.md"))]


def _prose(page: Path) -> list[tuple[int, str]]:
    """The lines of a page outside of its blocks, with their numbers, code words left out."""
    lines, open_fence = [], ""
    for number, line in enumerate(page.read_text().splitlines(), 1):
        found = FENCE.match(line)
        if found and (not open_fence or found[1].startswith(open_fence)):
            open_fence = "" if open_fence else found[1]
        elif not open_fence:
            lines.append((number, line))
    return lines


def slug(heading: str) -> str:
    """The anchor of a heading, as MkDocs and GitHub make it."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    return re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", text).strip().lower())


def anchors(page: Path) -> set[str]:
    return {slug(m[1]) for _, line in _prose(page) if (m := HEADING.match(line))}


def broken(page: Path) -> list[str]:
    """Links of a page that lead nowhere: page, line, target."""
    found = []
    for number, line in _prose(page):
        for target in LINK.findall(re.sub(r"`[^`]*`", "", line)):
            name, _, anchor = target.partition("#")
            if re.match(r"[a-z]+:", target):
                continue
            file = (page.parent / unquote(name)).resolve() if name else page
            where = f"{os.path.relpath(page, ROOT)}:{number}"
            if not file.exists():
                found.append(f"{where}: no file {name}")
            elif anchor and file.suffix == ".md" and file.parent.name != "api" and (
                    anchor not in anchors(file)):
                found.append(f"{where}: no heading #{anchor} in {os.path.relpath(file, ROOT)}")
    return found


class _Links(html.parser.HTMLParser):
    """The links and the anchors of a page of HTML."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[tuple[int, str]] = []
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.append((self.getpos()[0], value))
            elif name in ("id", "name") and value:
                self.ids.add(value)


def unreachable(folder: Path) -> list[str]:
    """Links of the built pages that lead nowhere, and files that they would load from elsewhere."""
    read: dict[Path, _Links] = {}
    for path in folder.rglob("*.html"):
        parser = read[path] = _Links()
        parser.feed(path.read_text())
    found = []
    for path, parser in read.items():
        if path.name == "404.html":  # served under any address: its links begin at the root
            continue
        for line, link in parser.links:
            parts = urlsplit(link)
            where = f"{path.relative_to(folder)}:{line}"
            if parts.scheme or parts.netloc:
                continue
            file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if file.is_dir():
                file /= "index.html"
            if not file.exists():
                found.append(f"{where}: no file {link}")
            elif parts.fragment and file in read and (
                    unquote(parts.fragment) not in read[file].ids):
                found.append(f"{where}: no anchor {link}")
    return found


def build(folder: Path) -> None:
    """The site in a folder; SystemExit with every fault where there is one."""
    if faults := [fault for page in pages() for fault in broken(page)]:
        raise SystemExit("\n".join(faults))
    os.environ["NO_MKDOCS_2_WARNING"] = "1"
    try:
        from mkdocs.commands.build import build as build_site
        from mkdocs.config import load_config
        from mkdocs.exceptions import Abort
    except ModuleNotFoundError:
        raise SystemExit("MkDocs is not installed.\n"
                         "  Fix: python -m pip install -e '.[site]', or make site.") from None
    try:
        build_site(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder), strict=True))
    except Abort as error:
        raise SystemExit(str(error)) from None
    if faults := unreachable(folder):
        raise SystemExit("\n".join(faults))
    count = sum(1 for _ in folder.rglob("*.html"))
    print(f"{count} pages in {folder}, every link of them leads somewhere")


if __name__ == "__main__":
    build(Path(sys.argv[1]).resolve() if sys.argv[1:] else ROOT / "build" / "site")
