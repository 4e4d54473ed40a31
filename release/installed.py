"""Tests a wheel as it is installed: in bare environments, with nothing but them on PATH.

    python release/installed.py [WHEEL] [--pythons 3.11 3.12 3.13] [--numpys newest 1.26.*]
    python release/installed.py WHEEL --offline --short      (a part, in tests/release)

Each environment runs the README, the pages, kernels in C with and without a compiler, artifacts
made, inspected and run (also with calque.runtime alone), `calque doctor` and, once, the artifacts
of tests/cpp and the pages that need a package of an extra.  Start reading at `main`; what is tested
stands in CHECKS.
"""
from __future__ import annotations

import argparse
import ast
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FIRST = "import calque, calque.numpy as jnp; print(float(calque.jit(jnp.sum)(jnp.ones(3))))"
CLI = "from calque_cli import main; main()"
MODEL = """
import calque.numpy as jnp
def f(a, b):
    return jnp.linalg.solve(a @ a.T + 4 * jnp.eye(3), b)
"""
ALONE = """
import sys
sys.modules["iree.compiler"] = None  # as in an environment of calque-runtime
from calque import runtime
import numpy as np
f = runtime.load("model.vmfb")["f"]
a = np.arange(9, dtype=np.float32).reshape(3, 3)
b = np.ones(3, np.float32)
want = np.linalg.solve(a @ a.T + 4 * np.eye(3), b)
np.testing.assert_allclose(np.asarray(f(a, b)[0]), want, 1e-3)
"""
NO_COMPILER = """
import operation
try:
    print(operation.shrink(operation.jnp.ones(4)))
except RuntimeError as error:
    assert "no C compiler" in str(error) and "Fix: install one" in str(error), error
else:
    raise SystemExit("a kernel in C was compiled, and no compiler is on PATH")
"""
INSIDE = """
import sys, calque
from pathlib import Path
from importlib.metadata import version
assert Path(calque.__file__).is_relative_to(Path(sys.prefix).resolve()), calque.__file__
assert version("calque") == calque.__version__
print(calque.__version__, "in", sys.prefix)
"""


class Wrong(Exception):
    """A check found something."""


@dataclass(frozen=True)
class Environment:
    """A bare environment, with a home and a folder to work in of its own."""

    folder: Path
    home: Path

    @property
    def python(self) -> Path:
        found = (self.folder / "bin/python", self.folder / "Scripts/python.exe")
        return next(path for path in found if path.exists())

    def run(self, *words: str, path: str = "", fails: bool = False) -> str:
        """What a program of it prints; `path`: what is on PATH beside the environment."""
        done = subprocess.run(
            [str(self.python), *words], cwd=self.home, capture_output=True, text=True, check=False,
            errors="replace", timeout=900, env={
                "PATH": os.pathsep.join([str(self.python.parent), *[path] * bool(path)]),
                "HOME": str(self.home), "USERPROFILE": str(self.home), "LC_ALL": "C.UTF-8",
                "CALQUE_PROGRESS": "0",
                **{k: os.environ[k] for k in ("SYSTEMROOT", "TEMP", "TMP", "TMPDIR")
                   if k in os.environ}})
        if bool(done.returncode) != fails:
            raise Wrong(f"{' '.join(words)[:200]}: exit status {done.returncode}\n"
                        f"{(done.stdout + done.stderr)[-3000:]}")
        return done.stdout + done.stderr


def inside(env: Environment) -> None:
    env.run("-c", INSIDE)


def pages(env: Environment, *some: str) -> None:
    """The blocks of the pages, from a copy: no checkout is near."""
    folder = env.home / "pages"
    for name in ("README.md", "docs"):
        source, made = ROOT / name, folder / name
        made.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, made, dirs_exist_ok=True)
        else:
            shutil.copy(source, made)
    env.run(str(folder / "docs/scripts/pages.py"), *some)


def pages_of_extras(env: Environment) -> None:
    """Those that need a package of an extra, which is installed for them (the last check: the
    environment is bare no more)."""
    text = (ROOT / "docs/scripts/pages.py").read_text("utf-8")  # (it imports what is not here)
    needs = re.search(r"^NEEDS = (\{.*?\})", text, re.M | re.S)
    assert needs is not None
    found: dict[str, str] = ast.literal_eval(needs[1])
    subprocess.run([str(env.python), "-m", "pip", "--disable-pip-version-check", "-q", "install",
                    "--only-binary=:all:", *sorted(set(found.values()))], check=True)
    pages(env, *found)


def short_pages(env: Environment) -> None:
    pages(env, "README.md", "docs/sharp_edges.md")


def own_kernels(env: Environment) -> None:
    """docs/your_own_operation.md with a compiler, and what is said without one."""
    text = (ROOT / "docs/your_own_operation.md").read_text("utf-8")
    files = dict(re.findall(r"^```python (\S+)\n(.*?)^```$", text, re.M | re.S))
    for name in ("operation.py", "try.py", "form.py"):
        (env.home / name).write_text(files[name], "utf-8")
    (env.home / "none.py").write_text(NO_COMPILER, "utf-8")
    env.run("none.py")
    said = re.search(r"^\$ python try.py\n(.*?)^```$", text, re.M | re.S)
    compiler = shutil.which("gcc") and shutil.which("objcopy")
    if compiler:
        printed = env.run("try.py", path=str(Path(compiler).parent))
        if said is None or printed != said[1]:
            raise Wrong(f"try.py of the page prints {printed}")
        env.run("form.py", path=str(Path(compiler).parent))


def artifacts(env: Environment) -> None:
    (env.home / "model.py").write_text(MODEL, "utf-8")
    target = "cpu:aarch64" if platform.machine() in ("aarch64", "arm64") else "cpu:x86-64-v2"
    env.run("-c", CLI, "compile", "model.py:f", "--arg", "f32[3,3]", "--arg", "f32[3]",
            "--target", target, "-o", "model.vmfb")
    if "float32[3,3]" not in env.run("-c", CLI, "inspect", "model.vmfb"):
        raise Wrong("calque inspect does not show the argument")
    env.run("-c", CLI, "run", "model.vmfb", "--input", "f32[3,3]=2", "--input", "f32[3]=1")
    env.run("-c", ALONE)


def other_machine(env: Environment) -> None:
    """An artifact for another CPU: it is made here, and refused with a cure."""
    (env.home / "model.py").write_text(MODEL, "utf-8")
    other = "cpu:x86-64-v2" if platform.machine() in ("aarch64", "arm64") else "cpu:aarch64"
    env.run("-c", CLI, "compile", "model.py:f", "--arg", "f32[3,3]", "--arg", "f32[3]",
            "--target", other, "-o", "other.vmfb")
    said = env.run("-c", CLI, "run", "other.vmfb", "--input", "f32[3,3]=2", "--input", "f32[3]=1",
                   fails=True)
    if "Fix: " not in said or "Traceback" in said:
        raise Wrong(f"an artifact for another CPU is refused so:\n{said}")


def doctor(env: Environment) -> None:
    said = env.run("-c", CLI, "doctor")
    if "C kernels: all" not in said or "no compiler" not in said:
        raise Wrong(f"calque doctor says\n{said}")


def command(env: Environment) -> None:
    """The script `calque` that pip made."""
    script = shutil.which("calque", path=str(env.python.parent))
    if script is None:
        raise Wrong("pip made no script `calque`")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=False)
    if not re.fullmatch(r"calque \d\S+\n", done.stdout):
        raise Wrong(f"calque --version: {done.stdout}{done.stderr}")


def cpp_fixture(env: Environment) -> None:
    """The artifacts that the tests of the C++ library load."""
    folder = env.home / "checkout"
    for name in ("tests/cpp", "runtime/cpp/examples"):
        shutil.copytree(ROOT / name, folder / name)
    compiler = shutil.which("gcc") or ""
    env.run(str(folder / "tests/cpp/fixture.py"), str(env.home / "artifacts"),
            path=str(Path(compiler).parent) if compiler else "")


Check = Callable[[Environment], None]
SHORT: tuple[Check, ...] = (inside, short_pages, own_kernels, artifacts, doctor)
CHECKS: tuple[Check, ...] = (inside, command, pages, own_kernels, artifacts, other_machine, doctor)


def pythons(wanted: list[str]) -> dict[str, str]:
    """The Pythons of these versions that are here."""
    found = {}
    for version in wanted:
        inside_pyenv = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
        for command in (f"python{version}", *map(str, inside_pyenv), sys.executable):
            try:
                said = subprocess.run(
                    [command, "-c", "import sys, venv; print('%d.%d' % sys.version_info[:2])"],
                    capture_output=True, text=True, check=False).stdout
            except OSError:
                continue
            if said.strip() == version:
                found[version] = command
                break
    return found


def offline(wheel: Path, at: Path) -> Environment:
    """An environment of the running Python with the wheel, and this one's other packages."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(at / "env")], check=True)
    env = Environment(at / "env", at / "home")
    env.home.mkdir()
    site = Path(sysconfig.get_path("purelib", "venv", {"base": str(env.folder)}))
    with zipfile.ZipFile(wheel) as file:
        file.extractall(site)
    (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n", "utf-8")
    return env


def online(wheel: Path, at: Path, python: str, numpy: str) -> Environment:
    """An environment with what pip installs for the wheel; how long that takes is printed."""
    wanted = [str(wheel), *[f"numpy=={numpy}"] * (numpy != "newest")]
    start = time.monotonic()
    subprocess.run([python, "-m", "venv", str(at / "env")], check=True)
    env = Environment(at / "env", at / "home")
    env.home.mkdir()
    pip = [str(env.python), "-m", "pip", "--disable-pip-version-check", "-q"]
    made = time.monotonic()
    subprocess.run([*pip, "download", "--only-binary=:all:", "-d", str(at / "wheels"), *wanted],
                   check=True)
    loaded = time.monotonic()
    subprocess.run([*pip, "install", "--no-index", "--find-links", str(at / "wheels"), *wanted],
                   check=True)
    installed = time.monotonic()
    env.run("-c", FIRST)
    end = time.monotonic()
    print(f"   network {loaded - made:.1f} s; environment {made - start:.1f} s, install "
          f"{installed - loaded:.1f} s, first result {end - installed:.1f} s: together "
          f"{end - loaded + made - start:.1f} s", flush=True)
    return env


def check(env: Environment, checks: tuple[Check, ...]) -> int:
    """How many of the checks fail; each is printed."""
    wrong = 0
    for one in checks:
        start = time.monotonic()
        try:
            one(env)
            said = "right"
        except (Wrong, subprocess.TimeoutExpired) as error:
            wrong, said = wrong + 1, f"WRONG: {error}"
        print(f"   {one.__name__}: {said} ({time.monotonic() - start:.1f} s)", flush=True)
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description="test a wheel as it is installed")
    parser.add_argument("wheel", type=Path, nargs="?")
    parser.add_argument("--pythons", nargs="+", default=["3.11", "3.12", "3.13", "3.14"])
    parser.add_argument("--numpys", nargs="+", default=["newest", "1.26.*"])
    parser.add_argument("--offline", action="store_true")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--work", type=Path, default=ROOT / "build/test-wheel")
    given = parser.parse_args()
    wheel = given.wheel or next(iter(sorted((ROOT / "dist").glob("calque-*-any.whl"))), None)
    if wheel is None:
        sys.stderr.write("installed: there is no wheel in dist.\n  Fix: make release\n")
        return 1
    work, wheel, wrong = given.work.resolve(), wheel.resolve(), 0
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    checks = SHORT if given.short else CHECKS
    if given.offline:
        return check(offline(wheel, work), checks) > 0
    found = pythons(given.pythons)
    for version, python in found.items():
        for numpy in given.numpys:
            if numpy.startswith("1.") and version not in ("3.11", "3.12"):
                continue  # it has no wheels for later ones
            print(f"== Python {version}, numpy {numpy}", flush=True)
            at = work / f"{version}-{numpy.strip('.*')}"
            at.mkdir()
            last = (version, numpy) == (next(iter(found)), given.numpys[0])
            wrong += check(online(wheel, at, python, numpy),
                           (*checks, cpp_fixture, pages_of_extras) if last and not given.short
                           else checks)
            shutil.rmtree(at / "env")
            shutil.rmtree(at / "wheels")
    absent = [v for v in given.pythons if v not in found]
    print(f"{wrong} wrong" + (f"; not here: Python {', '.join(absent)}" if absent else ""))
    return not found or wrong > 0


if __name__ == "__main__":
    sys.exit(main())
