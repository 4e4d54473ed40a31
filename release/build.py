"""A release: the sdist, the wheel for every machine, and that of calque-runtime.

    python release/build.py [--out dist] [--once]     (make release [ONCE=1])

They are made of the files that git knows, the wheel of the unpacked sdist; what they hold is
compared with those files, and the wheel has to have the C kernels of every level.  Its Python has
what release/requirements.txt names.  Start reading at `main`.
"""
from __future__ import annotations

import argparse
import gzip
import hashlib
import importlib.util
import io
import os
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LARGEST = 10_000_000  # bytes of the wheel
MAKE = """
import os, sys
os.umask(0o022)
from setuptools import build_meta
print(getattr(build_meta, "build_" + sys.argv[1])(sys.argv[2]))
"""


class Unfit(Exception):
    """What was made, or is to be made, is no release."""


def git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unfit(f"git {words[0]}: {done.stderr.strip()}\n"
                    "  Fix: a release is made in a checkout, with git installed.")
    return done.stdout


def tracked() -> list[str]:
    return [name for name in git("ls-files", "-z").split("\0")
            if name and (ROOT / name).exists()]


def tree_of(names: list[str], out: Path, when: int) -> None:
    """A copy of the files alone, with one time and the usual modes."""
    for name in names:
        source, made = ROOT / name, out / name
        made.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, made, follow_symlinks=False)
        if not made.is_symlink():
            made.chmod(0o755 if os.access(source, os.X_OK) else 0o644)
            os.utime(made, (when, when))


def make(kind: str, tree: Path, out: Path, when: int) -> tuple[Path, str]:
    """(the sdist or wheel of a tree, what was said of it)."""
    out.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", MAKE, kind, str(out.resolve())], cwd=tree, capture_output=True,
        text=True, check=False, env={**os.environ, "SOURCE_DATE_EPOCH": str(when)})
    if done.returncode:
        raise Unfit(f"{kind} of {tree}:\n{done.stderr[-4000:]}")
    said = "\n".join(line for line in done.stderr.splitlines() if "C kernel left out" in line)
    return out / done.stdout.splitlines()[-1], said


def normal(path: Path, when: int) -> None:
    """Rewrite an sdist: names in order, one time, nobody's, a header of gzip that says nothing."""
    packed = io.BytesIO()
    with tarfile.open(path) as old, tarfile.open(fileobj=packed, mode="w",
                                                 format=tarfile.PAX_FORMAT) as new:
        for entry in sorted(old.getmembers(), key=lambda e: e.name):
            entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = when, 0, 0, "", ""
            entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
            entry.pax_headers = {}
            new.addfile(entry, old.extractfile(entry) if entry.isfile() else None)
    with path.open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=when) as zipped:
        zipped.write(packed.getvalue())


def packaged(names: list[str]) -> set[str]:
    """The files that the wheel has of those that git knows, as it names them."""
    found = set()
    for name in names:
        top, _, rest = name.partition("/")
        if top in ("lowering", "runtime"):
            inside = f"calque/{name}"
        elif top == "frontend" and not (ROOT / name).is_symlink():
            inside = rest
        else:
            continue
        data = (inside.startswith("calque/lowering/kernels/cuda/archives/")
                or Path(name).name in ("FLAGS", "LEVELS", "OVERRIDES", "py.typed")
                or inside in ("calque/runtime/bytecode.json", "calque/runtime/features.json",
                              "calque_as_jax.pth"))
        if not name.startswith("runtime/cpp/") and (name.endswith((".py", ".pyi")) or data):
            found.add(inside)
    return found


def objects() -> set[str]:
    spec = importlib.util.spec_from_file_location(
        "calque_build_kernels", ROOT / "lowering/native/build.py")
    assert spec is not None and spec.loader is not None
    build_kernels = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build_kernels)
    return {f"calque/lowering/native/objects/{name}" for name in build_kernels.expected()}


def compare(what: str, found: set[str], wanted: set[str]) -> None:
    """Raise where a release lacks files, or has others."""
    for word, names in (("lacks", wanted - found), ("should not have", found - wanted)):
        if names:
            raise Unfit(f"{what} {word} {len(names)} files: {', '.join(sorted(names)[:20])}")


def check_wheel(path: Path, names: list[str], said: str) -> None:
    with zipfile.ZipFile(path) as wheel:
        files = {name for name in wheel.namelist() if ".dist-info/" not in name}
        about = {name.partition("/")[2] for name in wheel.namelist() if ".dist-info/" in name}
    lacking = sorted(objects() - files)
    if lacking:
        raise Unfit(f"the wheel lacks C kernels: {', '.join(lacking[:8])}\n{said}\n"
                    "  Fix: install gcc and gcc-aarch64-linux-gnu, or the package ziglang "
                    "(pip install -r release/requirements-zig.txt).")
    compare(path.name, files, packaged(names) | objects())
    compare(f"{path.name}: dist-info", about, {
        "METADATA", "WHEEL", "RECORD", "entry_points.txt", "top_level.txt",
        "licenses/LICENSE", "licenses/NOTICE"})
    if not path.name.endswith("-py3-none-any.whl"):
        raise Unfit(f"{path.name} is tagged for a platform, and serves all of them")
    if (size := path.stat().st_size) > LARGEST:
        raise Unfit(f"{path.name} has {size} bytes, more than {LARGEST}")


def check_sdist(path: Path, names: list[str]) -> None:
    """It has all that the wheel is made of, once, and nothing that git does not know."""
    with tarfile.open(path) as sdist:
        files = {e.name.partition("/")[2] for e in sdist.getmembers() if not e.isdir()}
    native = {n for n in names if n.startswith("lowering/native/")
              and n.endswith((".c", ".h", ".S"))}
    wanted = ({f"frontend/{n}" for n in packaged(names)} | {f"frontend/calque/{n}" for n in native}
              | {"pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "NOTICE"})
    made = {n for n in files if n in ("PKG-INFO", "setup.cfg") or ".egg-info/" in n}
    compare(path.name, files - made, wanted)


def release(work: Path, out: Path, when: int) -> list[Path]:
    """Make and check everything in a folder of its own; the files, moved to `out`."""
    names = tracked()
    shutil.rmtree(work, ignore_errors=True)
    tree_of(names, work / "tree", when)
    sdist, _ = make("sdist", work / "tree", work / "made", when)
    normal(sdist, when)
    check_sdist(sdist, names)
    with tarfile.open(sdist) as packed:
        packed.extractall(work / "unpacked", filter="data")
    (source,) = (work / "unpacked").iterdir()
    wheel, said = make("wheel", source, work / "made", when)
    check_wheel(wheel, names, said)
    runtime, _ = make("wheel", work / "tree/runtime", work / "made", when)
    out.mkdir(parents=True, exist_ok=True)
    return [Path(shutil.move(path, out / path.name)) for path in (sdist, wheel, runtime)]


def main() -> int:
    parser = argparse.ArgumentParser(description="make the sdist and the wheels of a release")
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--work", type=Path, default=ROOT / "build/release")
    parser.add_argument("--once", action="store_true",
                        help="do not make everything once more to compare the bytes")
    given, start = parser.parse_args(), time.monotonic()
    try:
        when = int(git("log", "-1", "--format=%ct"))
        changed = git("status", "--porcelain", "--untracked-files=no")
        if changed:
            sys.stderr.write("== a release of changed files: this is none to give away\n")
        made = release(given.work / "first", given.out, when)
        if not given.once:
            for path, again in zip(made, release(given.work / "second", given.work / "again", when),
                                   strict=True):
                if path.read_bytes() != again.read_bytes():
                    raise Unfit(f"{path} and {again} are made of the same files and differ")
    except Unfit as error:
        sys.stderr.write(f"release: {error}\n")
        return 1
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in made]
    (given.out / "SHA256SUMS").write_text("".join(sums), "utf-8")
    for path in made:
        print(f"{path}  {path.stat().st_size / 1e6:.2f} MB")
    print(f"made in {time.monotonic() - start:.0f} s" + ("" if given.once else ", twice the same"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
