"""Figures that pages and the README quote, computed from the tables that benchmarks write.

    python docs/scripts/figures.py            # writes them between their marks, and the picture
    python docs/scripts/figures.py --check    # exit code 1 where a page or the picture is old

A page marks a place by `<!-- figures: NAME -->` and `<!-- end of figures -->`, each on a line of
its own; NAMES has what may stand there.
"""
from __future__ import annotations

import math
import re
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
MARK = re.compile(r"(<!-- figures: (\w+) -->\n)(.*?)(<!-- end of figures -->)", re.S)
COLUMNS = ("first CPU", "first wall", "shape CPU", "shape wall", "warm wall", "steady")


def rows(text: str, header: str) -> dict[str, list[str]]:
    """The cells of the first table whose header begins so, by the first cell of their row."""
    found: dict[str, list[str]] = {}
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith(header):
            next(lines)
            for row in lines:
                if not row.startswith("|"):
                    return found
                first, *cells = [c.strip().replace("**", "") for c in row.strip("|").split("|")]
                found[first] = cells
    if not found:
        raise SystemExit(f"figures.py: no table begins {header!r}.")
    return found


def suite(column: str, level: str = "x86-64-v3") -> dict[str, float]:
    """The ratios calque / jax of a column of docs/suite.md, by workload."""
    text = (DOCS / "suite.md").read_text().partition(f"<!-- {level}: begin -->")[2]
    table = rows(text.partition(f"<!-- {level}: end -->")[0], "| workload |")
    at = COLUMNS.index(column)
    return {name: float(cells[at].split(":")[1]) for name, cells in table.items()
            if name != "geometric mean"}


def mean(values: list[float]) -> float:
    return statistics.geometric_mean(values)


def faster(values: list[float]) -> int:
    return sum(v < 1 for v in values)


def cards() -> dict[str, float]:
    """The ratios calque / jax of the CUDA table in docs/status.md."""
    def micro(cell: str) -> float:
        return float(cell.removesuffix(" us").replace(",", ""))
    return {name: micro(c[0]) / micro(c[1])
            for name, c in rows((DOCS / "status.md").read_text(), "| | calque | JAX | torch |"
                                ).items()}


def summary() -> str:
    steady = list(suite("steady").values())
    first, warm = list(suite("first wall").values()), list(suite("warm wall").values())
    gpu = cards().values()
    return "\n".join([
        "| calque's time / JAX's | | |", "|---|---|---|",
        f"| steady calls, CPU | faster in {faster(steady)} of {len(steady)} workloads, median "
        f"{statistics.median(steady):.2f} | from {min(steady):.2f} to {max(steady):.1f} |",
        f"| first call, CPU | faster in {faster(first)} of {len(first)}, median "
        f"{statistics.median(first):.1f} | from {min(first):.2f} to {max(first):.1f} |",
        f"| first call of a new process, from the disk | faster in {faster(warm)} of {len(warm)}, "
        f"median {statistics.median(warm):.2f} | from {min(warm):.2f} to {max(warm):.1f} |",
        f"| GPU (CUDA, experimental) | faster in {faster(list(gpu))} of {len(gpu)}, median "
        f"{statistics.median(gpu):.1f} | from {min(gpu):.1f} to {max(gpu):.0f} |"])


def steady() -> str:
    ratios = suite("steady")
    values = list(ratios.values())
    worst = sorted(ratios, key=lambda n: -ratios[n])[:8]
    best = sorted(ratios, key=lambda n: ratios[n])[:8]
    host = list(suite("steady", "host").values())

    def listed(names: list[str]) -> str:
        return ", ".join(f"{n} {ratios[n]:.2f}" for n in names)
    return (f"Faster in {faster(values)} of {len(values)}; geometric mean {mean(values):.2f}, "
            f"median {statistics.median(values):.2f}. Slower by more than a tenth: "
            f"{sum(v > 1.1 for v in values)}.\n\n* least: {listed(best)}\n* most: {listed(worst)}\n"
            f"\nWith all that this machine's CPU has (AVX-512), faster in {faster(host)} of "
            f"{len(host)}, geometric mean {mean(host):.2f}.")


def first() -> str:
    lines = ["| calque's time / JAX's | faster in | median | geometric mean | worst |",
             "|---|---|---|---|---|"]
    for column, what in (("first wall", "first call"), ("first CPU", "the same, CPU time"),
                         ("shape wall", "another shape, same process"),
                         ("warm wall", "first call of a new process, from the disk (warm)")):
        ratios = suite(column)
        values = list(ratios.values())
        worst = max(ratios, key=lambda n: ratios[n])
        lines.append(f"| {what} | {faster(values)} of {len(values)} | "
                     f"{statistics.median(values):.2f} | {mean(values):.2f} | "
                     f"{ratios[worst]:.1f} ({worst}) |")
    return "\n".join(lines)


def memory() -> str:
    text = (DOCS / "suite.md").read_text().partition("<!-- x86-64-v3: begin -->")[2]
    pairs = [tuple(float(x) for x in cells[-1].split(",")) for name, cells in
             rows(text, "| workload |").items() if name != "geometric mean"]
    ratios = [a / b for a, b in pairs]
    return (f"The largest resident size of a process after two compiles: median "
            f"{statistics.median(a for a, _ in pairs):.0f} MiB, JAX "
            f"{statistics.median(b for _, b in pairs):.0f}; less than JAX's in {faster(ratios)} of "
            f"{len(ratios)} workloads (ratios {min(ratios):.2f} to {max(ratios):.2f}). The "
            "compiler runs in a process of its own, which ends with it and is not counted.")


def libraries() -> str:
    text = (DOCS / "your_jax_code_here.md").read_text()
    table = rows(text, "| a step of | calque, ms |")
    lines = ["| a training step of | calque / JAX |", "|---|---|"]
    return "\n".join(lines + [f"| {name} | {cells[2]} |" for name, cells in table.items()])


def cuda() -> str:
    lines = ["| on an H200, waiting for each call | calque / JAX |", "|---|---|"]
    lines += [f"| {name} | {ratio:.1f} |" for name, ratio in cards().items()]
    return "\n".join([*lines, "", "Measured before products became kernels on tensor cores and "
                      "memory was cached; whole programs have not been measured since. Take it as "
                      "the state of affairs until they are."])


def backends() -> str:
    text = (DOCS / "cpp.md").read_text()
    found = {}
    for mark, backend in (("bench", "hosting"), ("native", "native")):
        part = text.partition(f"<!-- {mark}: begin -->")[2].partition(f"<!-- {mark}: end -->")[0]
        found[backend] = rows(part, "| | time | thread |")
    lines = ["| | hosting | native |", "|---|---|---|"]
    for row in ("start (first Device::open)", "load of add.vmfb", "call of add (4 floats)",
                "matmul of 1024: until it is there"):
        lines.append(f"| {row} | {found['hosting'][row][0]} | {found['native'][row][0]} |")
    return "\n".join(lines)


def picture() -> str:
    """All workloads' steady ratios, sorted, on a logarithmic axis; the losses have their names."""
    ratios = sorted(suite("steady").items(), key=lambda r: r[1])
    left, right, top, step = 40, 720, 46, 4.6
    bottom = top + step * len(ratios) + 8
    x = {2.0 ** k: left + (right - left) * (k + 6) / 8 for k in range(-6, 3)}

    def at(ratio: float) -> float:
        return left + (right - left) * (math.log2(ratio) + 6) / 8
    names = {v: f"1/{round(1 / v)}" if v < 1 else f"{v:g}" for v in x}
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 {bottom + 24:.0f}" '
             'font-family="sans-serif" font-size="11">',
             f'<rect width="760" height="{bottom + 24:.0f}" fill="#fff"/>',
             f'<text x="{at(1) - 8:.0f}" y="16" text-anchor="end" fill="#258">calque faster</text>',
             f'<text x="{at(1) + 8:.0f}" y="16" fill="#b33">JAX faster</text>']
    for value, place in x.items():
        stroke = "#444" if value == 1 else "#ddd"
        lines += [f'<path d="M{place:.0f} 34V{bottom:.0f}" stroke="{stroke}"/>',
                  f'<text x="{place:.0f}" y="30" text-anchor="middle" fill="#333">'
                  f'{names[value]}</text>']
    lost = [(name, ratio) for name, ratio in ratios if ratio >= 1.1]
    label = {name: bottom - 13 * (len(lost) - i) for i, (name, _) in enumerate(lost)}
    for i, (name, ratio) in enumerate(ratios):
        y, a, b = top + i * step, *sorted((at(1), at(ratio)))
        lines.append(f'<rect x="{a:.1f}" y="{y:.1f}" width="{max(b - a, 0.7):.1f}" height="3.4" '
                     f'fill="{"#258" if ratio < 1 else "#b33"}"><title>{name}: {ratio}</title>'
                     "</rect>")
        if name in label:
            lines.append(f'<path d="M{at(1) - 2:.1f} {y + 1.7:.1f}L{at(1) - 75:.0f} '
                         f'{label[name] + 8:.1f}" stroke="#caa" fill="none"/>'
                         f'<text x="{at(1) - 78:.0f}" y="{label[name] + 11:.1f}" font-size="10" '
                         f'text-anchor="end" fill="#933">{name} {ratio:.2f}</text>')
    lines.append(f'<text x="{left}" y="{bottom + 16:.0f}" fill="#333">time of a call, calque / '
                 f'JAX, {len(ratios)} workloads, CPU held to AVX2 (docs/suite.md)</text>')
    return "\n".join([*lines, "</svg>", ""])


NAMES: dict[str, Callable[[], str]] = {
    "summary": summary, "steady": steady, "first": first, "memory": memory,
    "libraries": libraries, "cuda": cuda, "backends": backends}
PICTURE = DOCS / "speed.svg"


def rendered(text: str) -> str:
    """A page with its figures as the tables have them now."""
    return MARK.sub(lambda m: f"{m[1]}{NAMES[m[2]]()}\n{m[4]}", text)


def pages() -> list[Path]:
    return [p for p in (ROOT / "README.md", *sorted(DOCS.glob("*.md")))
            if MARK.search(p.read_text())]


def stale() -> list[str]:
    """The pages, and the picture, that the tables no longer agree with."""
    old = [str(p.relative_to(ROOT)) for p in pages() if rendered(p.read_text()) != p.read_text()]
    current = PICTURE.exists() and PICTURE.read_text() == picture()
    return old if current else [*old, str(PICTURE.relative_to(ROOT))]


def main() -> None:
    if "--check" in sys.argv[1:]:
        if found := stale():
            raise SystemExit(f"out of date: {', '.join(found)}; run python docs/scripts/figures.py")
        return
    for page in pages():
        page.write_text(rendered(page.read_text()))
    PICTURE.write_text(picture())


if __name__ == "__main__":
    main()
