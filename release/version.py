"""The version, which stands in several files: shown, compared, or set.

    python release/version.py           (make version)             print it; 1 where files differ
    python release/version.py 0.2.0     (make version NEW=0.2.0)   write it, open its changes

The version that it is already dates its changes: that is a release.  docs/compatibility.md says
what versions mean.
"""
from __future__ import annotations

import datetime
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FORM = r"(\d+)\.(\d+)\.(\d+)(?:rc\d+)?"
PLACES = {
    "pyproject.toml": r'(?m)^version = "(.+)"$',
    "runtime/pyproject.toml": r'(?m)^version = "(.+)"$',
    "runtime/cpp/pyproject.toml": r'(?m)^version = "(.+)"$',
    "runtime/cpp/CMakeLists.txt": r"project\(calque_cpp VERSION (\S+) ",
    "frontend/calque/__init__.py": r'(?m)^__version__ = "(.+)"$',
    "docs/cli.md": r"versions: calque (\S+),",
    "docs/native.md": r"install calque_native-(\S+)-py3-none-linux",
    "docs/quickstart.md": r"versions: calque (\S+),",
    "docs/install.md": r"\bcalque-(\S+?)-py3-none-any",
    "CHANGELOG.md": r"(?m)\A(?:.*\n)*?## (\S+),",
}
OPEN = "not released yet"


def found(root: Path = ROOT) -> dict[str, set[str]]:
    """The versions that each file names."""
    return {name: set(re.findall(pattern, (root / name).read_text("utf-8")))
            for name, pattern in PLACES.items()}


def write(new: str, root: Path = ROOT, today: str | None = None) -> None:
    """Set the version everywhere; ValueError where it is none, or older than the one there is."""
    (old,) = set().union(*found(root).values())
    match, before = re.fullmatch(FORM, new), re.fullmatch(FORM, old)
    if match is None or before is None:
        raise ValueError(f"{new!r} is no version.\n  Fix: give MAJOR.MINOR.PATCH, such as 0.2.0.")
    if tuple(map(int, match.groups())) < tuple(map(int, before.groups())):
        raise ValueError(f"{new} is before {old}.\n  Fix: give {old} to date its changes, or a "
                         "later one.")
    for name, pattern in PLACES.items():
        path = root / name
        text = path.read_text("utf-8")
        if name == "CHANGELOG.md":
            heading = f"## {old}, {OPEN}"
            if heading not in text:
                heading = ""
            dated = f"## {old}, {today or datetime.date.today().isoformat()}"
            text = text.replace(heading, dated, 1) if heading else text
            if new != old:
                text = text.replace("\n## ", f"\n## {new}, {OPEN}\n\n## ", 1)
        else:
            text = re.sub(pattern, lambda m: m[0].replace(m[1], new), text)
        path.write_text(text, "utf-8")


def main() -> int:
    try:
        if sys.argv[1:] and sys.argv[1]:
            write(sys.argv[1])
    except ValueError as error:
        sys.stderr.write(f"version: {error}\n")
        return 1
    there = found()
    if len(versions := set().union(*there.values())) != 1 or not all(there.values()):
        sys.stderr.write("".join(f"{name}: {', '.join(sorted(said)) or 'none'}\n"
                                 for name, said in there.items()))
        return 1
    print(*versions)
    return 0


if __name__ == "__main__":
    sys.exit(main())
