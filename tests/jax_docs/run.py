"""Types JAX's documentation under calque and under jax, and writes docs/jax_docs.md.

    python tests/jax_docs/run.py --docs FOLDER [PAGE ...] [--api] [--write]
    python tests/jax_docs/run.py --show PAGE [--kinds value,error]

FOLDER: docs/ of a checkout of JAX 0.10.2.  PAGE: a page's path in it ("jit-compilation.md"); none:
every page, and with --api (or none) the examples of every documented name's docstring, which are
read from the installed jax.  Python: of an environment with calque, jax 0.10.2 and
tests/jax_suite/requirements.txt.  Rows are kept in build/jax_docs.
"""
from __future__ import annotations

import argparse
import collections
import functools
import importlib
import inspect
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator

import cells
import compare

from calque.core.refused import REFUSED

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs" / "jax_docs.md"
OUT = ROOT / "build" / "jax_docs"
START, END = "<!-- table: tests/jax_docs/run.py -->", "<!-- end of table -->"
PROCESSES = 10  # for one page: so many crashes are borne
PAGE_SECONDS = 1200
# a part of a page's path -> why it is not typed
LEFT_OUT = {
    "pallas": "kernels for TPUs and GPUs", "internals/": "JAX's sources", "jep/": "proposals of "
    "JAX's makers", "contributing": "JAX's sources", "developer": "JAX's build", "changelog":
    "history", "_tutorials": "drafts", "tpu": "TPUs", "investigating": "JAX's build",
    "direct_linearize": "JAX's interpreters", "autodidax": "a JAX of its own, in NumPy"}
GPU_NAMES = ("pallas", "mosaic", "triton", "tpu", "lax.psend", "lax.precv")  # (in jax on GPUs only)


def pages(folder: pathlib.Path) -> list[str]:
    """The pages that are typed; of one that is there in several forms the Markdown one."""
    made = []
    for path in sorted(p for suffix in ("md", "ipynb", "rst") for p in folder.rglob(f"*.{suffix}")):
        name = path.relative_to(folder).as_posix()
        twin = path.with_suffix(".md")
        if not any(part in name for part in LEFT_OUT) and (path == twin or not twin.exists()):
            made.append(name)
    return made


def groups_of(page: str, folder: pathlib.Path) -> list[list[str]]:
    """The cells of a page; of a page of the API ("api:jax.numpy") one list for each name."""
    if page.startswith("api:"):
        return [g for _, g in examples(page.removeprefix("api:"), folder)]
    found = cells.of_page(folder / page)
    return [found] if found else []


def documented(folder: pathlib.Path) -> list[cells.Name]:
    return sorted({n for p in sorted(folder.glob("jax.*rst")) for n in cells.names(p)}
                  | set(cells.names(folder / "jax.rst")))


def value_of(package: str, name: cells.Name) -> object:
    """A documented name's value in a package; AttributeError or ImportError where it has none."""
    module = package + name.module.removeprefix("jax")
    try:
        value: object = importlib.import_module(module)
    except ImportError:
        outer, _, last = module.rpartition(".")
        value = getattr(importlib.import_module(outer), last)
    for part in name.name.split("."):
        value = getattr(value, part)
    return value


@functools.cache
def _examples(folder: pathlib.Path) -> dict[str, list[tuple[str, list[str]]]]:
    made: dict[str, list[tuple[str, list[str]]]] = collections.defaultdict(list)
    seen = set()
    for name in documented(folder):
        try:
            value = value_of("jax", name)
        except (AttributeError, ImportError):
            continue
        text = inspect.getdoc(value) or ""
        found = cells.of_docstring(text)
        if found and text not in seen:
            seen.add(text)
            made[name.page].append((f"{name.module}.{name.name}", found))
    return made


def examples(page: str, folder: pathlib.Path) -> list[tuple[str, list[str]]]:
    """Names of a page of the API with the examples of their docstrings."""
    return _examples(folder)[page]


def rows_of(package: str, page: str) -> pathlib.Path:
    return OUT / package / (page.replace("/", ".").replace(":", ".") + ".jsonl")


def type_page(package: str, page: str, source: pathlib.Path, seconds: int,
              folder: pathlib.Path) -> None:
    """Rows of a page's cells; behind a crash the next process goes on."""
    rows = rows_of(package, page)
    rows.parent.mkdir(parents=True, exist_ok=True)
    rows.write_text("")
    env = os.environ | {"JAX_PLATFORMS": "cpu", "JAX_THREEFRY_PARTITIONABLE": "0",
                        "MPLBACKEND": "agg", "CALQUE_PROGRESS": "0", "XLA_FLAGS": _devices(source),
                        "CALQUE_CACHE_DIR": str(OUT / "cache"), "PYTHONHASHSEED": "0"}
    command = [sys.executable, *(["-m", "calque.compat"] if package == "calque" else []),
               str(HERE / "type_cells.py"), str(source), str(rows), str(seconds)]
    for _ in range(PROCESSES):
        with rows.with_suffix(".stderr").open("wb") as err:
            try:
                done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=err,
                                      cwd=OUT, timeout=PAGE_SECONDS, check=False)
                said, code = done.stdout, done.returncode
            except subprocess.TimeoutExpired as e:
                said, code = e.stdout or b"", 1
        if code == 0:
            return
        marks = [line for line in said.decode(errors="replace").splitlines() if "at work" in line]
        if not marks:
            return
        group, cell = json.loads(marks[-1])["at work"]
        with rows.open("a") as out:
            out.write(json.dumps({"group": group, "cell": cell, "error": "crash", "message":
                                  f"exit status {code}", "printed": "", "seconds": 0}) + "\n")


def _devices(source: pathlib.Path) -> str:
    """As many devices as a page's cells ask for, by the environment or in words; one otherwise."""
    text = source.read_text()
    asks = "device_count=8" in text or 'num_cpu_devices\\", 8' in text or "make_mesh" in text
    return "--xla_force_host_platform_device_count=8" if asks else ""


def judged(page: str, folder: pathlib.Path) -> Iterator[tuple[str, str, compare.Row, compare.Row]]:
    """Of each cell of a page that was typed: its kind, its text, what it gave here and there."""
    read = [{(r["group"], r["cell"]): r for r in map(json.loads, path.read_text().splitlines())}
            for path in (rows_of("calque", page), rows_of("jax", page))]
    for g, group in enumerate(groups_of(page, folder)):
        broken = False
        for c, cell in enumerate(group):
            ours, theirs = (r.get((g, c)) for r in read)
            kind = compare.kind(cell, ours, theirs, broken)
            if ours and ours.get("error") == "crash":
                kind = "crash"
            broken |= bool(ours and ours.get("error") and theirs and not theirs.get("error"))
            yield kind, cell, ours or {}, theirs or {}


def show(page: str, folder: pathlib.Path, kinds: set[str]) -> None:
    for kind, cell, ours, theirs in judged(page, folder):
        if kind in kinds:
            print(f"---- {page} {kind} {ours.get('error', '')}: {ours.get('message', '')[:300]}\n"
                  f"{cell}\n  calque: {ours.get('printed', '')[:600]}{ours.get('value')}\n"
                  f"  jax:    {theirs.get('printed', '')[:600]}{theirs.get('value')} "
                  f"{theirs.get('error', '')} {theirs.get('message', '')[:200]}\n"
                  f"  {ours.get('at')}")


def absent(folder: pathlib.Path) -> tuple[list[str], list[str]]:
    """Documented names that jax has here and calque.compat has not: those of which nothing is said,
    and those that are refused with what to use (calque/core/refused)."""
    made: list[str] = []
    refused: list[str] = []
    for name in documented(folder):
        try:
            value_of("jax", name)
        except (AttributeError, ImportError):
            continue
        try:
            value_of("calque", name)
        except (AttributeError, ImportError):
            full = f"{name.module}.{name.name}"
            (refused if full.removeprefix("jax.") in REFUSED else made).append(full)
    return made, refused


def table(every: list[str], folder: pathlib.Path) -> str:
    """Both tables, pages and the API's, and the names that are absent."""
    lines = []
    for title, some in (("page", [p for p in every if not p.startswith("api:")]),
                        ("docstrings", [p for p in every if p.startswith("api:")])):
        total: collections.Counter[str] = collections.Counter()
        rows = []
        for page in some:
            if rows_of("jax", page).exists() and rows_of("calque", page).exists():
                counts = collections.Counter(k for k, *_ in judged(page, folder))
                total += counts
                name = page.removeprefix("api:") if page.startswith("api:") else (
                    page.rpartition(".")[0].replace("/", ": "))
                rows.append(_line(name, counts))
        lines += [f"| {title} | {' | '.join(compare.KINDS)} | % same | % without texts |",
                  "|---" * (len(compare.KINDS) + 3) + "|", *rows, _line("**all**", total), ""]
    names, refused = absent(folder)
    gpu = [n for n in [*names, *refused] if any(g in n for g in GPU_NAMES)]
    refused = [n for n in refused if n not in gpu]
    rest = ", ".join(f"`{n}`" for n in names if n not in gpu) or "none"
    missing = len({*names, *refused, *gpu})
    return "\n".join([
        *lines, f"Of {len(documented(folder))} documented names {missing} are absent, "
        f"{len(gpu)} of them for TPUs and GPUs only. {len(refused)} are refused by "
        f"an `AttributeError` that says what to use: {_reasons(refused)}. The others: {rest}."])


def _reasons(refused: list[str]) -> str:
    whys: dict[str, list[str]] = collections.defaultdict(list)
    for name in refused:
        whys["; ".join(REFUSED[name.removeprefix("jax.")])].append(f"`{name}`")
    return ". ".join(f"{', '.join(names)} ({why})" for why, names in whys.items())


def _line(name: str, counts: collections.Counter[str]) -> str:
    asked = sum(counts[k] for k in compare.KINDS[:-2]) or 1
    figures = " | ".join(str(counts[k] or "") for k in compare.KINDS)
    return (f"| {name} | {figures} | {100 * counts['same'] / asked:.1f} | "
            f"{100 * (counts['same'] + counts['text']) / asked:.1f} |")


def write(text: str) -> None:
    old = PAGE.read_text()
    before, _, rest = old.partition(START)
    PAGE.write_text(f"{before}{START}\n{text}\n{END}{rest.partition(END)[2]}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*")
    parser.add_argument("--docs", type=pathlib.Path, required=True)
    parser.add_argument("--api", action="store_true", help="the docstrings' examples only")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--kinds", default="value,error,noraise,missing,crash")
    parser.add_argument("--seconds", type=int, default=120, help="that a cell may take")
    parser.add_argument("--package", choices=("calque", "jax"), help="this one only")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--table", action="store_true", help="write the rows there are, run none")
    options = parser.parse_args()
    api = [f"api:{p}" for p in sorted(_examples(options.docs))]
    every = options.pages or (api if options.api else [*pages(options.docs), *api])
    OUT.mkdir(parents=True, exist_ok=True)
    for page in () if options.table else every:
        groups = groups_of(page, options.docs)
        if not groups:
            continue
        if options.show:
            show(page, options.docs, set(options.kinds.split(",")))
            continue
        source = OUT / (page.replace("/", ".").replace(":", ".") + ".cells")
        source.write_text(json.dumps(groups))
        for package in ("jax", "calque"):
            if options.package in (None, package):
                type_page(package, page, source, options.seconds, options.docs)
        counts = collections.Counter(k for k, *_ in judged(page, options.docs))
        print(page, dict(counts), flush=True)
    if options.write or options.table:
        write(table([*pages(options.docs), *api], options.docs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
