"""Runs the Array API standard's tests with calque (and with jax), and writes docs/array_api.md.

    python tests/clients/array_api.py --suite FOLDER [--jax PYTHON] [--examples N] [--write]

FOLDER: a checkout of data-apis/array-api-tests with its submodule array-api.  PYTHON: of an
environment with jax and the suite's requirements.txt.  The drawn examples are the same for both
and in every run.  The exit status is 1 where a test fails without a reason in REASONS, or where
jax passes it.
"""
from __future__ import annotations

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).parents[2]
PAGE = ROOT / "docs" / "array_api.md"
START, END = "<!-- table: tests/clients/array_api.py -->", "<!-- end of table -->"
Outcomes = dict[str, str]

_FLOOR = "1 // -inf is -1, as Python, NumPy and JAX have it"
# what a failing test's name begins with -> why it fails
REASONS = {
    "test_array_object.py::test_setitem": "arrays do not change: `x.at[i].set(v)`",
    "test_creation_functions.py::test_asarray_arrays":
        "arrays do not change: the test writes into one",
    "test_data_type_functions.py::test_finfo":
        "`finfo(float32).eps` is a `numpy.float32`, as JAX has it",
    "test_searching_functions.py::test_searchsorted": "positions are int32, as JAX has them",
    "test_statistical_functions.py::test_cumulative_prod":
        "a product of small integers keeps their dtype, as JAX has it",
    "test_special_cases.py::test_binary[floor_divide(isfinite": _FLOOR,
    "test_special_cases.py::test_binary[__floordiv__(isfinite": _FLOOR,
    "test_special_cases.py::test_iop[__ifloordiv__(isfinite": _FLOOR,
    "test_special_cases.py::test_unary[tanh(real(x_i) is +infinity and isfinite":
        "the zero of tanh(inf + iy) has the sign of sin(2y), as C99 and NumPy have it",
}


def run(python: str, module: str, suite: pathlib.Path, examples: int) -> Outcomes:
    """The outcome of each test of the suite: passed, failed or skipped."""
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        command = [python, "-m", "pytest", "array_api_tests", "-q", "-p", "no:cacheprovider",
                   f"--max-examples={examples}", "--derandomize", "--disable-deadline",
                   "--json-report", f"--json-report-file={report}"]
        env = os.environ | {"ARRAY_API_TESTS_MODULE": module, "JAX_ENABLE_X64": "1",
                            "JAX_PLATFORMS": "cpu"}
        done = subprocess.run(command, cwd=suite, env=env, capture_output=True, text=True)
        if not report.exists():
            raise SystemExit(f"the suite did not run with {module}:\n{done.stdout}{done.stderr}")
        tests = json.loads(report.read_text())["tests"]
    return {t["nodeid"].removeprefix("array_api_tests/"): "skipped" if t["outcome"] == "xfailed"
            else t["outcome"] for t in tests}


def reason(test: str) -> str:
    """Why a test fails, or nothing."""
    return next((why for start, why in REASONS.items() if test.startswith(start)), "")


def failures(outcomes: Outcomes) -> list[str]:
    return [t for t, outcome in outcomes.items() if outcome not in ("passed", "skipped")]


def counted(outcomes: Outcomes, file: str) -> str:
    found = collections.Counter(o for t, o in outcomes.items() if t.startswith(file))
    return f"{found['passed']} / {sum(found.values()) - found['passed'] - found['skipped']} / " \
           f"{found['skipped']}"


def table(runs: dict[str, Outcomes], examples: int) -> str:
    """The part of the page between its two marks."""
    ours = runs["calque"]
    files = list(dict.fromkeys(t.split("::")[0] for t in ours))
    lines = [f"Passed / failed / skipped, {examples} examples a test:", "",
             "| tests | " + " | ".join(runs) + " |", "|---" * (len(runs) + 1) + "|"]
    for file in [*files, ""]:
        cells = [counted(outcomes, file) for outcomes in runs.values()]
        lines.append(f"| {file.removesuffix('.py') or 'all'} | " + " | ".join(cells) + " |")
    lines += ["", "What fails, and why:", "", "| test | reason |", "|---|---|"]
    lines += [f"| `{t.split('::', 1)[1]}` | {reason(t)} |" for t in failures(ours)]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suite", type=pathlib.Path, required=True)
    parser.add_argument("--jax", metavar="PYTHON")
    parser.add_argument("--examples", type=int, default=20)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if not (options.suite / "array_api_tests").is_dir():
        parser.error(f"{options.suite} is no checkout of data-apis/array-api-tests")
    runs = {"calque": run(sys.executable, "calque.numpy", options.suite, options.examples)}
    if options.jax:
        runs["jax"] = run(options.jax, "jax.numpy", options.suite, options.examples)
    text = table(runs, options.examples)
    print(text)
    if options.write:
        page = PAGE.read_text()
        before, after = page.split(START)[0], page.split(END)[1]
        PAGE.write_text(f"{before}{START}\n{text}\n{END}{after}")
    failed = failures(runs["calque"])
    unexplained = [t for t in failed if not reason(t)]
    behind = [t for t in failed if runs.get("jax", {}).get(t) == "passed"]
    for title, tests in (("fail without a reason", unexplained), ("pass with jax", behind)):
        if tests:
            print(f"\nThese {title}:", *tests, sep="\n  ")
    return int(bool(unexplained or behind))


if __name__ == "__main__":
    sys.exit(main())
