"""Runs JAX's own test files with calque and with jax, and writes docs/jax_tests.md.

    python tests/jax_suite/run.py --tests FOLDER [FILE ...] [--seconds 120] [--write]
    python tests/jax_suite/run.py --show FILE [--kinds value,error] [--whole]

FOLDER: JAX's tests/ of release 0.10.2.  Python: of an environment with calque, jax 0.10.2 (its
test helpers are read, and it is the other side) and requirements.txt.  Rows are kept in
build/jax_suite; rows of the page's table of other files stay.  jax runs what calque does not pass,
and a tenth of the rest.  Start in stand_in/install.py for what a test sees instead of jax._src.
"""
from __future__ import annotations

import argparse
import collections
import dataclasses
import pathlib
import re
import sys
import zlib

import table
from one_file import Options, Row, run

ROOT = pathlib.Path(__file__).parents[2]
PAGE = ROOT / "docs" / "jax_tests.md"
STATUS = ROOT / "docs" / "status.md"
START, END = "<!-- table: tests/jax_suite/run.py -->", "<!-- end of table -->"
# a part of a file's name -> why it is not run
LEFT_OUT = {
    "tpu": "TPUs", "gpu": "GPUs of JAX's own", "mosaic": "TPUs and GPUs of JAX's own",
    "cudnn": "GPUs of JAX's own", "distributed_": "other processes", "multiprocess": "other "
    "processes", "xla_bridge": "XLA", "cache_key": "XLA's cache", "pgle": "XLA", "jaxpr_util":
    "internals", "lru_cache": "internals", "pretty_printer": "internals", "util_test":
    "internals", "package_structure": "JAX's sources", "version": "JAX's build", "typing_test":
    "JAX's sources", "sourcemap": "internals", "source_": "internals", "logging": "internals",
    "lazy_loader": "internals", "wheel": "JAX's build", "bazel": "JAX's build",
    "mgpu": "GPUs of JAX's own",
    "triton": "GPUs of JAX's own", "einshape": "TPUs", "fuser": "TPUs", "fusion": "TPUs",
    "error_handling": "TPUs", "lowering_determinism": "XLA"}


def chosen(options: argparse.Namespace) -> list[str]:
    """The files to run: those named, or all that are not left out."""
    found = [str(p.relative_to(options.tests)) for folder in ("", "pallas/")
             for p in sorted(options.tests.glob(f"{folder}*_test.py"))]
    return options.files or [f for f in found if not any(part in f for part in LEFT_OUT)]


def devices(options: Options, file: str) -> Options:
    """The options of a file: the eight devices that it asks for, where none are given."""
    asks = re.search(r"request_cpu_devices\((\d+)\)", (options.tests / file).read_text())
    return options if options.devices or not asks else dataclasses.replace(
        options, devices=int(asks[1]))


def asked_of_jax(rows: list[Row]) -> list[str]:
    """The tests that jax is asked for: what failed (uses of private names apart), and a tenth."""
    return [r["id"] for r in rows if "id" in r and (
        r["outcome"] == "failed" and not r.get("private")
        or zlib.crc32(r["id"].encode()) % 10 == 0)]


def both(file: str, options: Options, package: str) -> None:
    """Runs a file with calque and then with jax, and says what came out."""
    if package != "jax":
        rows = run("calque", file, options)
        told = collections.Counter(
            "private" if r.get("private") else r["outcome"] for r in rows if "id" in r)
        print(f"calque {file} {dict(told)}", *[r for r in rows if "meta" in r][-1:], flush=True)
    if package != "calque":
        only = options.rows("calque", file).with_suffix(".only")
        only.write_text("\n".join(asked_of_jax(table.read(options.rows("calque", file)))))
        rows = run("jax", file, options, only)
        told = collections.Counter(r["outcome"] for r in rows if "id" in r)
        print(f"jax    {file} {dict(told)}", flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*")
    parser.add_argument("--tests", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "jax_suite")
    parser.add_argument("--package", choices=["calque", "jax", "both"], default="both")
    parser.add_argument("--seconds", type=float, default=600, help="for a file and a package")
    parser.add_argument("--every", type=int, default=1, help="run every n-th test")
    parser.add_argument("--cases", type=int, default=3, help="drawn for each test of many cases")
    parser.add_argument("--devices", type=int)
    parser.add_argument("-k", dest="chosen", help="as pytest's")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--show", metavar="FILE", help="list the failures of a file")
    parser.add_argument("--kinds", default="")
    parser.add_argument("--whole", action="store_true", help="with messages and frames")
    return parser.parse_args()


def summary(text: str) -> str:
    """The last row of the page's table in words."""
    row = next(line for line in text.splitlines() if line.startswith("| all |"))
    found = dict(zip(table.HEAD, [c.strip() for c in row.split("|")[1:-1]]))
    n = {k: int(v) if v.isdigit() else 0 for k, v in found.items()}
    public = n["passed"] + sum(n[k] for k in table.judge.KINDS)
    return (f"Of JAX's own tests {public:,} public ones are run, and {n['passed']:,} pass: "
            f"{found['%']} %, {found['% without texts']} % where texts of messages do not count; "
            f"{n['crash']} crash, {n['hang']} hang, {n['value']} give another value. The table, "
            "and what these are: [jax_tests.md](jax_tests.md).")


def main() -> int:
    options = arguments()
    if options.show:
        kinds = set(filter(None, options.kinds.split(",")))
        print(*table.failures(options.out, options.show, kinds, options.whole), sep="\n")
        return 0
    if options.tests:
        settings = Options(options.tests.resolve(), options.out.resolve(), options.seconds,
                           every=options.every, cases=options.cases, devices=options.devices,
                           chosen=options.chosen)
        for file in chosen(options):
            both(file, devices(settings, file), options.package)
    before, rest = PAGE.read_text().split(START)
    old, after = rest.split(END)
    text = "\n".join(table.lines(options.out, old))
    if options.write:
        PAGE.write_text(f"{before}{START}\n{text}\n{END}{after}")
        first, rest = STATUS.read_text().split(START)
        STATUS.write_text(f"{first}{START}\n{summary(text)}\n{END}{rest.split(END)[1]}")
    elif not options.files:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
