"""Draws the picture of docs/profiling.md from a trace of its example.

    python docs/scripts/profile_picture.py [--trace FILE]

The trace is read with perfetto's message classes, as the tests read it (tests/support/traces.py).
"""
from __future__ import annotations

import argparse
import html
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from typing import Any

ROOT = pathlib.Path(__file__).parent.parent.parent
PAGE, PICTURE = ROOT / "docs" / "profiling.md", ROOT / "docs" / "profiling.svg"
WIDTH, ROW, LEFT, SMALLEST = 1000, 20, 130, 1.0
COLOURS = {"annotation": "#b7c7e8", "call": "#8fb8de", "trace": "#f2c078", "lower": "#e8a87c",
           "compile": "#d9b8c4", "load": "#c9c9a3", "run": "#8cc084", "queue": "#a3d9b1",
           "inline": "#8cc084", "queued": "#a3d9b1", "device": "#6fae6a", "wait": "#d6d6d6",
           "transfer": "#b5a8d5", "callback": "#f0e199"}


def example_trace() -> pathlib.Path:
    """The trace that the page's example writes, with nothing compiled before."""
    (code,) = re.findall(r"```python\n(.*?profiler\.trace.*?)```", PAGE.read_text("utf-8"), re.S)
    folder = tempfile.mkdtemp()
    subprocess.run([sys.executable, "-c", code], check=True, cwd=folder,
                   env={**os.environ, "CALQUE_CACHE": "0", "TMPDIR": folder})
    (path,) = pathlib.Path(folder).rglob("*.perfetto-trace")
    return path


def depth(s: Any) -> int:
    return 1 + max(map(depth, s.inner), default=0)


def picture(trace: Any) -> str:
    """Rows of boxes, a track below the other, over time."""
    start = min(s.start for s in trace.slices)
    scale = (WIDTH - LEFT - 10) / (max(s.end for s in trace.slices) - start)
    boxes: list[str] = []
    y = 30

    def place(s: Any, level: int) -> None:
        x, width = LEFT + (s.start - start) * scale, max((s.end - s.start) * scale, SMALLEST)
        colour = COLOURS.get(s.category, "#cccccc")
        took = (s.end - s.start) / 1e6
        boxes.append(f'<rect x="{x:.1f}" y="{y + level * ROW}" width="{width:.1f}" '
                     f'height="{ROW - 2}" fill="{colour}" stroke="#666" stroke-width="0.3">'
                     f'<title>{html.escape(s.name)}: {took:.3f} ms</title></rect>')
        letters = int(width / 6.5)
        if letters >= 3:
            text = s.name if len(s.name) <= letters else s.name[:letters - 1] + "…"
            boxes.append(f'<text x="{x + 3:.1f}" y="{y + level * ROW + 13}">{html.escape(text)}'
                         "</text>")
        for i in s.inner:
            place(i, level + 1)

    for name, slices in trace.tracks.items():
        boxes.append(f'<text x="4" y="{y + 13}" font-weight="bold">{html.escape(name)}</text>')
        for s in slices:
            place(s, 0)
        y += max(map(depth, slices)) * ROW + 12
    whole = (WIDTH - LEFT - 10) / scale / 1e6
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" font-size="11" '
        'font-family="sans-serif">', f'<rect width="{WIDTH}" height="{y}" fill="white"/>',
        f'<text x="{LEFT}" y="18">{whole:.0f} ms</text>', *boxes, "</svg>"]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trace", type=pathlib.Path, help="draw this one")
    given = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tests"))
    from support import traces
    PICTURE.write_text(picture(traces.read(given.trace or example_trace())), "utf-8")
    print(f"wrote {PICTURE}")


if __name__ == "__main__":
    main()
