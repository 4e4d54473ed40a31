"""The documentation as a site: links, figures, generated pages, and readers' questions.

What is read from the sources runs always; building the site, its search and its looks are slow and
take the extra `site` (and, for the looks, playwright and a Chromium).
"""
from __future__ import annotations

import functools
import http.server
import importlib
import json
import re
import shutil
import threading
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from questions import QUESTIONS, Question

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def script(name: str, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    monkeypatch.syspath_prepend(DOCS / "scripts")
    return importlib.import_module(name)


@functools.cache
def in_nav() -> list[str]:
    return re.findall(r": ([\w/.-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.M)


# ---- from the sources
def test_links_lead_somewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    site = script("site_build", monkeypatch)
    assert [fault for page in site.pages() for fault in site.broken(page)] == []


def test_a_link_to_nowhere_is_told_by_page_and_line(monkeypatch: pytest.MonkeyPatch,
                                                    tmp_path: Path) -> None:
    site = script("site_build", monkeypatch)
    page = tmp_path / "page.md"
    page.write_text("# One\n\n```\n[no link](block.md)\n```\n`[x](code.md)` [a](b.md) [c](#one)\n"
                    "[d](#two) [e](https://example.org)\n")
    found = [f.partition("page.md:")[2].partition(" in ")[0] for f in site.broken(page)]
    assert found == ["6: no file b.md", "7: no heading #two"]


def test_every_page_stands_once_in_the_navigation() -> None:
    pages = {str(p.relative_to(DOCS)) for p in DOCS.rglob("*.md") if p.parent.name != "api"}
    assert sorted(in_nav()) == sorted({*pages, "api/README.md", "CHANGELOG.md", "CONTRIBUTING.md"})


def test_figures_are_those_of_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    figures = script("figures", monkeypatch)
    assert figures.stale() == [], "run python docs/scripts/figures.py"
    page = (DOCS / "how_fast.md").read_text()
    changed = re.sub(r"aster in \d+ of", "aster in 999 of", page)
    assert changed.count("999") > 5 and figures.rendered(changed) == page


def test_the_page_of_options_has_them_all(monkeypatch: pytest.MonkeyPatch) -> None:
    options = script("options", monkeypatch)
    assert options.PAGE.read_text() == options.page(), "run python docs/scripts/options.py"
    assert options.unlisted() == [], "say in docs/scripts/options.py what these do"


def links_of(page: str) -> set[str]:
    text = (DOCS / page).read_text()
    return {str((DOCS / page).parent.joinpath(t).resolve().relative_to(DOCS))
            for t in re.findall(r"\]\(([\w/.-]+\.md)(?:#[^)]*)?\)", text)
            if (DOCS / page).parent.joinpath(t).resolve().is_relative_to(DOCS)}


def text_of(page: str) -> str:
    return (DOCS / page).read_text()


def test_there_are_48_questions_each_once() -> None:
    assert len(QUESTIONS) == len({q.text for q in QUESTIONS}) == 48
    assert all(q.page in in_nav() or q.page.startswith("api/") for q in QUESTIONS)


@pytest.mark.parametrize("question", [q for q in QUESTIONS if not isinstance(q.way, str)],
                         ids=lambda q: q.text)
def test_an_answer_is_two_clicks_away(question: Question) -> None:
    clicks = [page for page in question.way if page != "index.md"]
    assert 0 < len(clicks) <= 2 and clicks[-1] == question.page
    for here, there in zip(("index.md", *clicks), clicks, strict=False):
        assert there in links_of(here), f"{here} has no link to {there}"
    assert question.answer in text_of(question.page)


@pytest.mark.parametrize("question", [q for q in QUESTIONS if isinstance(q.way, str)],
                         ids=lambda q: q.text)
def test_an_answer_that_is_searched_is_there(question: Question) -> None:
    assert question.answer in text_of(question.page)


# ---- built
@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("material", reason="the site takes pip install -e '.[site]'")
    with pytest.MonkeyPatch.context() as monkeypatch:
        site = script("site_build", monkeypatch)
        folder = tmp_path_factory.mktemp("site")
        site.build(folder)
    return folder


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_the_site_is_built_and_its_index_finds_scan(built: Path) -> None:
    for page in in_nav():
        html = built / page.replace("README.md", "index.html").replace(".md", ".html")
        assert "<h1" in html.read_text(), page
    index = json.loads((built / "search" / "search_index.json").read_text())["docs"]
    assert any(d["location"] == "api/calque.lax.html#scan" and d["title"] == "scan" for d in index)
    scan = (built / "api" / "calque.lax.html").read_text()
    assert "calque/api/control.html" not in scan and "control.py.html#__codelineno-0-" in scan


@pytest.fixture(scope="module")
def browser(built: Path) -> Iterator[tuple[Any, str]]:
    """A headless Chromium, and the address of the site."""
    playwright = pytest.importorskip("playwright.sync_api", reason="the looks take playwright")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("the looks take a Chromium")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            pass
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(
        Quiet, directory=str(built)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with playwright.sync_playwright() as p:
        chrome = p.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield chrome, f"http://127.0.0.1:{server.server_port}"
        chrome.close()
    server.shutdown()
    server.server_close()


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_a_search_finds_the_page(browser: tuple[Any, str]) -> None:
    """Among the first five pages that the site's own search shows."""
    chrome, address = browser
    page = chrome.new_page()
    missed = []
    for question in QUESTIONS:
        if isinstance(question.way, str):
            page.goto(f"{address}/index.html?q={question.way.replace(' ', '+')}")
            page.wait_for_selector(".md-search-result__link", timeout=60_000, state="attached")
            found = page.eval_on_selector_all(".md-search-result__link", "a => a.map(x => x.href)")
            pages = list(dict.fromkeys(re.sub(r"[?#].*", "", f).removeprefix(f"{address}/")
                                       for f in found))[:5]
            if question.page.replace(".md", ".html") not in pages:
                missed.append(f"{question.way}: {pages}, not {question.page}")
    assert not missed, "\n".join(missed)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 820, 1400])
def test_pages_fit_the_window(width: int, scheme: Any, browser: tuple[Any, str],
                              tmp_path: Path) -> None:
    chrome, address = browser
    page = chrome.new_page(viewport={"width": width, "height": 1000}, color_scheme=scheme)
    for name in ("index", "install", "how_fast", "tutorials/jit", "api/calque.lax", "suite"):
        page.goto(f"{address}/{name}.html")
        page.wait_for_timeout(200)
        page.screenshot(path=tmp_path / f"{name.replace('/', '-')}-{width}-{scheme}.png")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        dark = colour != "rgb(255, 255, 255)"
        assert dark == (scheme == "dark")
