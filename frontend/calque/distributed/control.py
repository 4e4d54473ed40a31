"""A process's connection to the coordinator: who is there, who is lost, barriers.

Start reading at `Control.check`.
"""
from __future__ import annotations

import json
import os
import platform
import socket
import sys
import threading
import time
from typing import Any

from calque.core.errors import explain
from calque.distributed.calls import Calls
from calque.runtime.errors import DeviceError

_LONGEST = 300  # characters of the name of what was asked for
_NEWS_S = 0.5  # how often the coordinator is told what is new of what was asked for
_VERDICT_S = 5.0  # for which a message that failed waits for the coordinator's reason
_DIFFER = ("make all processes run the same calls in one order, with one structure, shapes and "
           "dtypes.")
_PROXIES = ("http_proxy", "https_proxy", "all_proxy")


def failed(what: str, fix: str) -> DeviceError:
    return DeviceError(explain(what, "", fix))


class Control:
    """The connection of one process.

    Args:
      address: the coordinator's host:port.
      hello: rank, size, host, versions and what else the others are to know.
      timeout: seconds until all processes must be there.
      heartbeat: seconds of silence after which the coordinator takes a process for lost.
    """

    def __init__(self, address: str, hello: dict[str, Any], timeout: float,
                 heartbeat: float) -> None:
        self.address, self.rank, self.size = address, hello["rank"], hello["size"]
        self.doing = "starting"
        self.table: dict[int, dict[str, Any]] = {}
        self.failure: str | None = None  # why no message can arrive any more
        self.fix = ("see that process's own error; start the program again, from a checkpoint "
                    "where there is one.")
        self.calls: Calls | None = None  # what this process has asked the others for
        self.waits = False  # for a message, and not since now
        self.left: dict[int, float] = {}  # when who ended well
        self.passed: set[str] = set()
        self.where: dict[str, str] = {}  # what each does, where somebody has asked
        self.refusal: dict[str, str] | None = None  # why this process does not belong to the others
        self.identity = 0  # by which MPI_Init is known to the coordinator
        self.missing: list[int] = []
        self.strangers = ""  # who was refused last
        self.asked = False  # for the step: somebody is to be preempted
        self.preempt_at: int | None = None
        self.step = -1
        self.changed = threading.Condition()
        self.closed = False
        self.lock = threading.Lock()
        self.socket = self.reached(timeout)
        self.send(hello)
        threading.Thread(target=self.listen, name="calque control", daemon=True).start()
        threading.Thread(target=self.beat, args=(heartbeat / 4,), name="calque heartbeat",
                         daemon=True).start()
        try:
            self.gather(timeout)
        except DeviceError:
            self.leave()
            self.socket.close()
            raise

    def reached(self, timeout: float) -> socket.socket:
        """A connection, tried until there is one."""
        host, _, port = self.address.rpartition(":")
        end, wait = time.monotonic() + timeout, 0.02
        while True:
            try:
                found = socket.create_connection((host.strip("[]"), int(port)), timeout=5)
                found.settimeout(None)
                found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return found
            except OSError as error:
                if time.monotonic() + wait > end:
                    proxies = [name for name in _PROXIES
                               if os.environ.get(name) or os.environ.get(name.upper())]
                    raise failed(
                        f"the coordinator at {self.address} was not reached within {timeout:g} s: "
                        f"{error}." + (f" ({' and '.join(proxies)} are set; they are not used.)"
                                       if proxies else ""),
                        "start process 0, give all the same address, and see that its port is "
                        "open.") from None
                time.sleep(wait)
                wait = min(0.5, 1.5 * wait)

    def gather(self, timeout: float) -> None:
        """Wait until all processes are there."""
        with self.changed:
            there = self.changed.wait_for(
                lambda: self.table or self.refusal or self.failure, timeout)
        if self.refusal:
            raise failed(f"the job at {self.address} has refused this process: "
                         f"{self.refusal['refused']}", self.refusal["fix"])
        if self.failure and not self.missing:
            raise failed(self.failure, "see what ended that process.")
        if not there or self.failure:
            waited = f"within {timeout:g} s" if self.failure is None else f"until {self.failure}"
            others = f"; the job {self.strangers}" if self.strangers else ""
            raise failed(f"of {self.size} processes, {self.missing} did not come {waited}{others}",
                         "start them, or wait longer (initialization_timeout).")

    # ---- threads
    def listen(self) -> None:
        try:
            with self.socket.makefile("rb") as lines:
                for line in lines:
                    self.take(json.loads(line))
        except (OSError, ValueError):
            pass
        if not self.closed:
            self.fail(f"the coordinator at {self.address} (a child of process 0) is gone.")

    def take(self, message: dict[str, Any]) -> None:
        with self.changed:
            if "ready" in message:
                self.table = {int(k): v for k, v in message["ready"].items()}
                self.identity = message["identity"]
            if "refused" in message and not self.table:
                self.refusal = message
            if "note" in message:
                self.strangers = message["note"]
                if self.rank == 0:
                    print(f"calque: the job at {self.address} {message['note']}",
                          file=sys.stderr, flush=True)
            if "ask" in message:
                self.answer(*message["ask"])
            if "differ" in message and self.failure is None:
                self.failure, self.fix = message["differ"], _DIFFER
            if "missing" in message:
                self.missing = message["missing"]
            if "passed" in message:
                self.passed.add(message["passed"])
            if "say" in message:
                self.send({"doing": self.doing})
            if "where" in message:
                self.where = message["where"]
            if "left" in message:
                self.left[message["left"]] = time.monotonic()
            if "lost" in message and message["lost"] != self.rank:
                doing = f", last seen {message['doing']}" if message["doing"] else ""
                self.failure = self.failure or (
                    f"process {message['lost']} on {message['host']} is lost: {message['why']}"
                    f"{doing}.")
            if "step" in message:
                self.asked = True
                self.send({"step": self.step})
            if "preempt_at" in message:
                self.preempt_at = message["preempt_at"]
            self.changed.notify_all()

    def fail(self, why: str) -> None:
        with self.changed:
            self.failure = self.failure or why
            self.changed.notify_all()

    def beat(self, every: float) -> None:
        """Say that this process is there, and what it has asked the others for."""
        due = 0.0
        while not self.closed and self.failure is None:
            now = time.monotonic()
            news: dict[str, Any] = {} if self.calls is None else {"calls": self.calls.news()}
            if now >= due or news.get("calls") or self.waits:
                self.send({"doing": self.doing, "waits": self.waits, **news})
                due = now + every
            time.sleep(min(every, _NEWS_S))

    def answer(self, number: int, group: str, at: int, named: bool) -> None:
        """Tell the coordinator what this process has asked for up to there, or there."""
        said = None if self.calls is None else self.calls.said(group, at, named)
        self.send({"answer": [number, said[:_LONGEST] if isinstance(said, str) else said]})

    def send(self, message: dict[str, Any]) -> None:
        try:
            with self.lock:
                self.socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            pass  # the listener sees it

    # ---- for callers
    def check(self, what: str, since: float = 0.0) -> None:
        """Raise where `what` cannot end: a process is lost, or ended before it came to it.

        Args:
          what: what waits for the others.
          since: when it began (time.monotonic): one that came to its end more than a second ago
            does not take part any more.
        """
        self.check_lost(what)
        now = time.monotonic()
        for rank, when in list(self.left.items()):
            if now - max(when, since) > 1.0:
                host = self.table.get(rank, {}).get("host")
                raise failed(f"{what} cannot end: process {rank} on {host} has come to its end.",
                             "make all processes run the same calls.")

    def check_lost(self, what: str) -> None:
        """Raise where a process is lost."""
        if self.failure is not None:
            raise failed(f"{what} cannot end: {self.failure}", self.fix)

    def blamed(self, what: str, error: Exception) -> DeviceError:
        """The error for a message that failed: the coordinator's reason where it finds one (that
        the processes send different things, or one is lost), or MPI's."""
        with self.changed:
            self.changed.wait_for(lambda: self.failure is not None, _VERDICT_S)
        return failed(f"{what} cannot end: {self.failure or error}",
                      self.fix if self.failure else _DIFFER)

    def late(self, what: str, waited: float) -> DeviceError:
        """The error for what nobody answered, with what each process does."""
        self.send({"doing": what})
        with self.changed:
            self.where = {}
            self.send({"where": True})
            self.changed.wait_for(lambda: self.where, 5)
            rows = [f"  process {r} on {self.table.get(int(r), {}).get('host')}: {doing}"
                    for r, doing in sorted(self.where.items(), key=lambda row: int(row[0]))]
        return failed("\n".join([f"{what} was not answered within {waited:g} s.", *rows]),
                      "make all processes run the same calls, or set calque_collective_timeout_s.")

    def barrier(self, name: str, timeout: float | None = None) -> bool:
        """Wait until all processes have come here; False where that takes too long."""
        begun = time.monotonic()
        self.doing = f"at the barrier {name}"
        ends = {} if self.calls is None else {
            "ends": self.calls.totals(), "calls": self.calls.news()}
        self.send({"barrier": name, "doing": self.doing, **ends})
        with self.changed:
            while name not in self.passed:
                self.check_lost(f"the barrier {name}")
                self.changed.wait(0.25)
                if timeout is not None and time.monotonic() - begun > timeout:
                    return False
            self.passed.discard(name)
        self.doing = "running"
        return True

    def leave(self) -> None:
        """Say goodbye: nobody waits for this process any more."""
        self.closed = True
        self.send({"bye": True})
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def end(self, why: str) -> None:
        """This process ends by an error, which the others are told."""
        self.closed = True
        self.send({"ending": why})


def versions() -> dict[str, str]:
    """What must be the same in all processes."""
    from importlib.metadata import version
    return {"calque": version("calque"), "Python": platform.python_version(),
            "iree": version("iree-base-runtime")}
