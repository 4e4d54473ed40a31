"""What type checkers know of calque: a user's program is clean in strict mode, wrong lines are
found, and expressions have types where JAX's have (types_of_jax.json: what mypy reveals of jax
0.10.2, in mypy's words; `ours` where ours is another)."""
from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
WORK = ROOT / "build" / "typing"  # mypy's cache, and the file of expressions
TABLE = json.loads((HERE / "types_of_jax.json").read_text())


@pytest.fixture(scope="module")
def said() -> dict[str, dict[int, list[str]]]:
    """What one strict run of mypy says: file -> line -> messages."""
    WORK.mkdir(parents=True, exist_ok=True)
    text = "\n".join([*TABLE["head"], *(f"reveal_type({e})" for e in TABLE["types"])]) + "\n"
    revealed = WORK / "revealed.py"
    if not revealed.exists() or revealed.read_text() != text:
        revealed.write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--python-version=3.11", "--no-color-output",
         "--cache-dir", str(WORK / "cache"), "--config-file", os.devnull, "--hide-error-context",
         str(HERE / "program.py"), str(HERE / "wrong.py"), str(revealed)],
        cwd=ROOT, env={**os.environ, "MYPYPATH": str(ROOT / "frontend")},
        capture_output=True, text=True)
    found: dict[str, dict[int, list[str]]] = {}
    for line in done.stdout.splitlines():
        match = re.match(r"(?:.*/)?([\w.]+):(\d+): (?:error|note): (.*)", line)
        if match:
            found.setdefault(match[1], {}).setdefault(int(match[2]), []).append(match[3])
    assert found.keys() <= {"program.py", "wrong.py", "revealed.py"}, done.stdout
    return found


def test_a_program_is_clean(said: dict[str, dict[int, list[str]]]) -> None:
    assert said.get("program.py", {}) == {}


def codes() -> dict[int, str]:
    """The lines of wrong.py that are wrong, and how."""
    return {i: line.rpartition("  # ")[2] for i, line in enumerate(
        (HERE / "wrong.py").read_text().splitlines(), 1) if "  # " in line}


def test_wrong_lines_are_found(said: dict[str, dict[int, list[str]]]) -> None:
    found = {line: re.findall(r"\[([\w-]+)\]$", texts[0])[0]
             for line, texts in said["wrong.py"].items()}
    assert found == codes() and len(found) > 35


def plain(text: str) -> str:
    """A revealed type without the modules of its names."""
    return re.sub(r"\b(?:[a-z_]\w*\.)+(?=\w)", "", text)


def test_expressions_have_types_where_jax_has(said: dict[str, dict[int, list[str]]]) -> None:
    assert len(TABLE["types"]) > 120
    for i, (expression, jax) in enumerate(TABLE["types"].items(), len(TABLE["head"]) + 1):
        (text,) = said["revealed.py"][i]
        ours = plain(re.fullmatch(r'Revealed type is "(.*)"', text)[1])  # type: ignore[index]
        assert ours == plain(TABLE["ours"].get(expression, jax)), expression
        assert "Any" not in ours or "Any" in jax, expression


def test_the_program_runs() -> None:
    sys.path.insert(0, str(HERE))
    try:
        import program
    finally:
        sys.path.pop(0)
    made = program.run()
    assert abs(made["root"] - 2**0.5) < 1e-6 and abs(made["fitted"] - 3) < 1e-3
    assert made["clipped"] == 1.0 and made["curvature"] == 2.0 and made["fell"] > 0


@pytest.mark.slow
def test_pyright_agrees() -> None:
    """pyright, or basedpyright, which PyPI has whole."""
    command = shutil.which("basedpyright") or shutil.which("pyright")
    if command is None:
        pytest.skip("pip install basedpyright")
    settings = WORK / "pyright.json"
    WORK.mkdir(parents=True, exist_ok=True)
    settings.write_text(json.dumps({
        "include": [str(HERE / "program.py"), str(HERE / "wrong.py")], "pythonVersion": "3.11",
        "typeCheckingMode": "strict", "extraPaths": [str(ROOT / "frontend")]}))
    done = subprocess.run([command, "-p", str(settings), "--pythonpath", sys.executable,
                           "--outputjson"], capture_output=True, text=True)
    found: dict[str, set[int]] = {"program.py": set(), "wrong.py": set()}
    for told in json.loads(done.stdout)["generalDiagnostics"]:
        if told["severity"] == "error":
            found[pathlib.Path(told["file"]).name].add(told["range"]["start"]["line"] + 1)
    assert found == {"program.py": set(), "wrong.py": set(codes())}


@pytest.mark.slow
def test_stubs_agree_with_what_runs() -> None:
    """mypy's stubtest over the modules that have stubs: same names, parameters and defaults."""
    package = ROOT / "frontend" / "calque"
    WORK.mkdir(parents=True, exist_ok=True)
    stubbed = sorted(
        ".".join(("calque", *[p for p in path.relative_to(package).with_suffix("").parts
                              if p != "__init__"])) for path in package.rglob("*.pyi"))
    done = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "--concise", "--ignore-missing-stub",
         "--mypy-config-file", str(ROOT / "pyproject.toml"), "calque"], cwd=WORK,
        env={**os.environ, "MYPYPATH": str(ROOT / "frontend")}, capture_output=True, text=True)
    told = []
    for line in done.stdout.splitlines():
        name = line.split()[0]
        while name and not (package.parent / name.replace(".", "/")).is_dir() and not (
                package.parent / f"{name.replace('.', '/')}.py").exists():
            name = name.rpartition(".")[0]  # up to its module
        if name in stubbed and 'stub parameter "self"' not in line and "metaclass" not in line:
            told.append(line)
    known = {"calque.checkpoint", "calque.remat"}  # objects to type checkers: they have .save
    assert {line.split()[0] for line in told} == known, done.stdout + done.stderr
