"""Runs the tutorials of libraries (docs/tutorials/libraries), which must print what they say.

    python -m calque.compat tests/clients/tutorials.py [PAGE ...]     (or plain Python, with jax)

What they say was printed by jax 0.10.2.  The exit status is 1 where something else is printed.
"""
from __future__ import annotations

import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from support.printed import check  # noqa: E402  (it lies one folder up, which is not on the path)


def main(names: list[str]) -> int:
    pages = [pathlib.Path(n) for n in names] or sorted(
        (ROOT / "docs" / "tutorials" / "libraries").glob("*.py"))
    bad = 0
    for page in pages:
        start = time.perf_counter()
        try:
            said = f"{check(page)} statements print what they say"
        except AssertionError as error:
            said, bad = str(error), 1
        print(f"{page.name}: {said} ({time.perf_counter() - start:.0f} s)", flush=True)
    return bad


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
