"""Groups of random programs in worker processes, and the log of what came out.

Shared by fuzz.py and fuzz_api.py.  A worker reads lines of seeds and answers lines of failures;
when it dies or hangs, halves are run in new ones until the program is alone.  The log holds a JSON
line per group (fuzzer, seeds, commit, level, failures, seconds): a run resumes behind it, and
`python tests/fuzz_search.py LOG ...` prints the table of counts for docs/status.md.
Start reading at `run`.
"""
from __future__ import annotations

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

LIFETIME = 40  # groups per worker: compiled programs stay in its memory
PATIENCE = 300.0  # seconds for a group, after which its worker is ended
LEVELS = ("host", "x86-64-v2", "x86-64-v3", "x86-64-v4")


class Worker:
    """A process that runs programs; it may die."""

    def __init__(self, script: str) -> None:
        self.script = script
        self.process = subprocess.Popen(
            [sys.executable, script, "--worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True)
        self.asked = 0

    def ask(self, seeds: Sequence[int]) -> list[Any] | None:
        """Failures; None when the process died or did not answer in time."""
        self.asked += 1
        assert self.process.stdin is not None and self.process.stdout is not None
        timer = threading.Timer(PATIENCE, self.process.kill)
        timer.start()
        try:
            self.process.stdin.write(json.dumps(list(seeds)) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            timer.cancel()
        return json.loads(line) if line.endswith("\n") else None

    def close(self) -> int:
        """End the process; its exit status."""
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        code = self.process.wait()
        self.process.stdout.close()
        return code


def work(failures: Callable[[Sequence[int]], list[Any]]) -> None:
    """Answer lines of seeds with lines of failures; what else is printed goes to stderr."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        answers.write(json.dumps(failures(json.loads(line))) + "\n")
        answers.flush()


def alone(script: str, seeds: Sequence[int]) -> list[Any]:
    """The programs that end a process (the group of them did): halves, each in a new worker."""
    worker = Worker(script)
    found = worker.ask(seeds)
    code = worker.close()
    if found is not None:
        return found
    if len(seeds) == 1:
        return [f"seed {seeds[0]}: the process died or hung (status {code})"]
    half = len(seeds) // 2
    parts = [*alone(script, seeds[:half]), *alone(script, seeds[half:])]
    return parts or [f"seeds {list(seeds)}: the process died (status {code}), but not on halves"]


def search(script: str, groups: Iterable[Sequence[int]], lifetime: int = LIFETIME
           ) -> Iterator[tuple[list[int], list[Any], float]]:
    """(group of seeds, failures, seconds of CPU), each group in a worker process."""
    worker = Worker(script)
    try:
        for group in groups:
            before = _child_seconds(worker)
            if worker.asked >= lifetime:
                worker.close()
                worker, before = Worker(script), 0.
            found = worker.ask(group)
            spent = _child_seconds(worker) - before
            if found is None:
                worker.close()
                found, worker = alone(script, group), Worker(script)
            yield list(group), found, max(spent, 0.)
    finally:
        worker.close()


def _child_seconds(worker: Worker) -> float:
    """CPU seconds of a running worker and of its children, as Linux counts them."""
    total, parents = 0., {worker.process.pid}
    tick = os.sysconf("SC_CLK_TCK")
    for path in sorted(pathlib.Path("/proc").glob("[0-9]*/stat"), key=lambda p: int(p.parent.name)):
        try:
            fields = path.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(path.parent.name) in parents or int(fields[1]) in parents:
            parents.add(int(path.parent.name))
            total += (int(fields[11]) + int(fields[12])) / tick
    return total


# ---- the log
def entries(path: pathlib.Path) -> Iterator[dict[str, Any]]:
    """Lines of a log; a last one cut off by a kill does not count."""
    if path.exists():
        for line in path.read_text().splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                continue


def commit() -> str:
    said = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True,
                          text=True, cwd=pathlib.Path(__file__).parent, check=False)
    return said.stdout.strip()


def is_known(failure: Any) -> bool:
    """Whether a failure is an explained difference (fuzz_api_known.py)."""
    return isinstance(failure, dict) and bool(failure.get("known"))


def counts(paths: Sequence[pathlib.Path]) -> str:
    """The table of docs/status.md: programs per fuzzer and level, failures, what is explained."""
    programs: dict[tuple[str, str], set[int]] = collections.defaultdict(set)
    failed: dict[tuple[str, str], set[str]] = collections.defaultdict(set)
    explained: dict[tuple[str, str], int] = collections.Counter()
    seconds: dict[tuple[str, str], float] = collections.Counter()
    for path in paths:
        for e in entries(path):
            key = e.get("fuzzer", "fuzz.py"), e.get("level", "host")
            programs[key].update(e["seeds"])
            seconds[key] += e.get("seconds", 0.)
            for f in e["failures"]:
                if is_known(f):
                    explained[key] += 1
                else:
                    failed[key].add(str(f["seed"]) if isinstance(f, dict) else f.split(":")[0])
    rows = ["| fuzzer | level | programs | with a failure when run | explained differences "
            "| CPU s a program |", "|---|---|---|---|---|---|"]
    for key in sorted(programs):
        n = len(programs[key])
        rows.append(f"| {key[0]} | {key[1]} | {n:,} | {len(failed[key])} | {explained[key]} "
                    f"| {seconds[key] / n:.2f} |")
    total = sum(len(p) for p in programs.values())
    rows.append(f"| all | | {total:,} | {sum(len(f) for f in failed.values())} "
                f"| {sum(explained.values())} | |")
    return "\n".join(rows)


# ---- the command line
def minutes(text: str) -> float:
    return float(text[:-1]) / 60 if text.endswith("s") else float(text)


def arguments(description: str | None) -> argparse.ArgumentParser:
    """The options that the fuzzers share."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--count", type=int, help="programs to run (default 500)")
    parser.add_argument("--minutes", type=minutes,
                        help="run so long instead of a count; 90s: seconds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--log", type=pathlib.Path)
    parser.add_argument("--resume", action="store_true", help="go on behind the seeds of the log")
    parser.add_argument("--level", choices=LEVELS, default=os.environ.get("CALQUE_CPU", "host"),
                        help="the CPU that is compiled for")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser


def run(script: str, fuzzer: str, options: argparse.Namespace, group: int,
        lifetime: int = LIFETIME, show: Callable[[Any], str] = str) -> int:
    """Search and print; the exit status says whether something failed."""
    done = {s for e in (entries(options.log) if options.resume and options.log else ())
            if (e.get("fuzzer", "fuzz.py"), e.get("level", "host")) == (fuzzer, options.level)
            for s in e["seeds"]}
    if options.log is not None:
        options.log.parent.mkdir(parents=True, exist_ok=True)
        if not options.resume:
            options.log.write_text("")
    start, bad, known, ran, here = time.monotonic(), 0, 0, 0, commit()
    last = None if options.minutes is not None else options.seed + (options.count or 500)

    def groups() -> Iterator[list[int]]:
        at = options.seed
        while last is None or at < last:
            if options.minutes is not None and time.monotonic() - start > 60 * options.minutes:
                return
            until = at - at % group + group  # (fuzz_api draws what a group shares by its number)
            until = until if last is None else min(until, last)
            seeds = [s for s in range(at, until) if s not in done]
            at = until
            if seeds:
                yield seeds

    for seeds, found, seconds in search(script, groups(), lifetime):
        fresh = [f for f in found if not is_known(f)]
        bad, known, ran = bad + len(fresh), known + len(found) - len(fresh), ran + len(seeds)
        if options.log is not None:
            with options.log.open("a") as log:
                log.write(json.dumps({"fuzzer": fuzzer, "seeds": seeds, "commit": here,
                                      "level": options.level, "seconds": round(seconds, 1),
                                      "failures": found}) + "\n")
        print(*[show(f) for f in fresh], sep="\n", end="\n" if fresh else "")
        print(f"seeds {seeds[0]}..{seeds[-1]}: {len(fresh)} failures; {ran} programs, {bad} "
              f"failures, {known} explained, {time.monotonic() - start:.0f} s so far, "
              f"{seconds / len(seeds):.2f} s of CPU each", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    print(counts([pathlib.Path(p) for p in sys.argv[1:]]))
