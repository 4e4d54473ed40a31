"""Runs a sample of the libraries' own tests with jax and with calque, and writes what of them
passes into docs/libraries.md.

    python tests/clients/libraries.py --calque PYTHON --jax PYTHON [--write] [NAME ...]
    python tests/clients/libraries.py --calque PYTHON --jax PYTHON --tests FOLDER

The tests lie in the libraries' source distributions, which `pip download` brings to
build/clients/sources in the versions of requirements.txt; FOLDER is any checkout instead.  The
sample is drawn by a seed from what pytest collects with jax; a test counts when it passes there.
"""
from __future__ import annotations

import argparse
import json
import pathlib
import random
import re
import subprocess
import tarfile
import xml.etree.ElementTree as xml
from collections.abc import Sequence

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
BUILD = ROOT / "build" / "clients"
PAGE = ROOT / "docs" / "libraries.md"
START, END = "<!-- table: tests/clients/libraries.py -->", "<!-- end of table -->"
# where a distribution keeps its tests, and what of it is left out: it needs what is not installed
TESTS = {"optax": "optax", "chex": "chex", "blackjax": "tests", "numpyro": "test",
         "dm-haiku": "haiku", "flax": "tests"}
CHUNK = 20  # tests of one process: what a crash can take with it
SECONDS = 120  # a test may take


def version(name: str) -> str:
    """The pinned version of a library."""
    return next(line.strip().partition("==")[2] for line in
                (HERE / "requirements.txt").read_text().splitlines()
                if line.startswith(f"{name}=="))


def sources(name: str, python: str) -> pathlib.Path:
    """The unpacked source distribution of a library."""
    folder = BUILD / "sources"
    found = list(folder.glob(f"{name.replace('-', '_')}-{version(name)}/"))
    if not found:
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run([python, "-m", "pip", "download", "-q", "--no-binary", ":all:", "--no-deps",
                        "-d", str(folder), f"{name}=={version(name)}"], check=True)
        with tarfile.open(next(folder.glob(f"{name.replace('-', '_')}-*.tar.gz"))) as packed:
            packed.extractall(folder, filter="data")
        found = list(folder.glob(f"{name.replace('-', '_')}-{version(name)}/"))
    return found[0]


def pytest(command: Sequence[str], folder: pathlib.Path, *args: str
           ) -> subprocess.CompletedProcess[str]:
    empty = BUILD / "pytest.ini"  # settings of none: ours lie above the folder
    empty.parent.mkdir(parents=True, exist_ok=True)
    empty.write_text("[pytest]\npython_files = *_test.py test_*.py\n")
    return subprocess.run(
        [*command, "-m", "pytest", "-q", "-c", str(empty), f"--rootdir={folder}", "-p",
         "no:cacheprovider", "-W", "ignore", f"--timeout={SECONDS}", *args],
        cwd=folder, capture_output=True, text=True)


def collected(command: Sequence[str], folder: pathlib.Path, where: str) -> list[str]:
    """The ids of all tests that can be imported."""
    done = pytest(command, folder, "--collect-only", "--continue-on-collection-errors", where)
    return [line for line in done.stdout.splitlines() if "::" in line and not line.startswith((
        "ERROR", "<"))]


def outcomes(command: Sequence[str], folder: pathlib.Path, ids: Sequence[str], log: pathlib.Path
             ) -> dict[str, str]:
    """What became of each test: passed, skipped, or the first line of its failure."""
    found: dict[str, str] = {}
    for first in range(0, len(ids), CHUNK):
        part = list(ids[first:first + CHUNK])
        report = log.with_suffix(".xml")
        report.unlink(missing_ok=True)
        done = pytest(command, folder, f"--junitxml={report}", *part)
        with log.open("a") as out:
            out.write(done.stdout[-20000:] + done.stderr[-2000:])
        if not report.exists():
            if len(part) > 1:  # the process died: one by one
                for one in part:
                    found.update(outcomes(command, folder, [one], log))
            else:
                found[part[0]] = f"the process ended ({done.returncode})"
            continue
        made = _read(report, part)
        files = {i.partition("::")[0] for i in part}
        if "not reported" in made.values() and len(files) > 1:  # one cannot be imported
            for file in files:
                found.update(outcomes(command, folder, [i for i in part if i.startswith(
                    f"{file}::")], log))
            continue
        found.update(made)
    return found


def _read(report: pathlib.Path, ids: Sequence[str]) -> dict[str, str]:
    made: dict[str, str] = {}
    for case in xml.parse(report).getroot().iter("testcase"):
        name = case.get("classname", "") + "." + case.get("name", "")
        bad = case.find("failure") if case.find("failure") is not None else case.find("error")
        if bad is not None:
            made[name] = (bad.get("message") or "").strip().splitlines()[0][:200] if (
                bad.get("message") or "").strip() else "failed"
        else:
            made[name] = "skipped" if case.find("skipped") is not None else "passed"
    return {i: made.get(_name(i), "not reported") for i in ids}


def _name(test: str) -> str:
    """The name that a report gives to a test."""
    path, _, rest = test.partition("::")
    return path.removesuffix(".py").replace("/", ".") + "." + ".".join(_outside_brackets(rest))


def _outside_brackets(text: str) -> list[str]:
    head, bracket, tail = text.partition("[")
    parts = head.split("::")
    parts[-1] += bracket + tail
    return parts


def run(name: str, folder: pathlib.Path, where: str, commands: dict[str, list[str]], sample: int,
        seed: int) -> dict[str, object]:
    """One library: its sample's outcomes with jax and with calque."""
    ids = collected(commands["jax"], folder, where)
    chosen = sorted(random.Random(f"{seed} {name}").sample(ids, min(sample, len(ids))))
    results = {}
    for side, command in commands.items():
        log = BUILD / f"{name}-{side}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.unlink(missing_ok=True)
        wanted = chosen if side == "jax" else [i for i in chosen if results["jax"][i] == "passed"]
        results[side] = outcomes(command, folder, wanted, log)
    good = [i for i in chosen if results["jax"][i] == "passed"]
    lost = {i: results["calque"][i] for i in good if results["calque"][i] != "passed"}
    print(f"{name}: {len(ids)} tests, {len(chosen)} drawn, {len(good)} pass with jax, "
          f"{len(good) - len(lost)} of these with calque", flush=True)
    for i, why in lost.items():
        print(f"  {i}: {why}", flush=True)
    return {"tests": len(ids), "drawn": len(chosen), "jax": len(good),
            "calque": len(good) - len(lost), "lost": lost}


def write(found: dict[str, dict[str, object]]) -> None:
    """The table and the list of docs/libraries.md."""
    kept = BUILD / "libraries.json"
    every = json.loads(kept.read_text()) if kept.exists() else {}
    every.update(found)
    kept.write_text(json.dumps(every, indent=1))
    rows = [f"| {n} {version(n)} | {r['tests']} | {r['drawn']} | {r['jax']} | {r['calque']} | "
            f"{100 * r['calque'] / max(1, r['jax']):.0f} % |" for n, r in sorted(every.items())]
    jax, ours = (sum(r[k] for r in every.values()) for k in ("jax", "calque"))
    rows.append(f"| all | | {sum(r['drawn'] for r in every.values())} | {jax} | {ours} | "
                f"{100 * ours / max(1, jax):.0f} % |")
    lines = ["| library | tests | drawn | pass with jax | of these with calque | |",
             "|---|---|---|---|---|---|", *rows, "",
             "Those that do not pass, with the first line of the failure:", ""]
    lines += [f"* {n} `{_short(i)}`: {_clean(why)}" for n, r in sorted(every.items())
              for i, why in r["lost"].items()]
    put(lines, START, END)


def put(lines: Sequence[str], start: str, end: str) -> None:
    """Write lines into the page, between these."""
    before, _, rest = PAGE.read_text().partition(start)
    PAGE.write_text(f"{before}{start}\n" + "\n".join(lines) + f"\n{end}" + rest.partition(end)[2])


def _short(test: str) -> str:
    """A test without the folders of its file."""
    path, _, name = test.partition("::")
    return f"{path.rpartition('/')[2].removesuffix('.py')} {name}"


def _clean(why: str) -> str:
    return "`" + re.sub(r"0x[0-9a-f]+", "0x...", why).replace("`", "'")[:160] + "`"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--calque", required=True)
    parser.add_argument("--jax", required=True)
    parser.add_argument("--sample", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tests", type=pathlib.Path)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    commands = {"jax": [given.jax], "calque": [given.calque, "-m", "calque.compat"]}
    if given.tests:
        folder = given.tests.resolve()
        run(folder.name, folder, ".", commands, given.sample, given.seed)
        return
    found = {}
    for name in given.names or TESTS:
        found[name] = run(name, sources(name, given.jax), TESTS[name], commands, given.sample,
                          given.seed)
        if given.write:
            write(found)


if __name__ == "__main__":
    main()
