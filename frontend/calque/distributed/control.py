"""A process's connection to the coordinator: who is there, who is lost, barriers.

Start reading at `Control.check`.
"""
from __future__ import annotations

import json
import os
import platform
import socket
import threading
import time
from typing import Any

from calque.core.errors import explain
from calque.runtime.errors import DeviceError

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
        self.left: dict[int, float] = {}  # when who ended well
        self.passed: set[str] = set()
        self.where: dict[str, str] = {}  # what each does, where somebody has asked
        self.refusal: str | None = None
        self.missing: list[int] = []
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
        self.gather(timeout)

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
            raise failed(f"this program cannot start: {self.refusal}",
                         "give every process a process_id of its own below the same num_processes, "
                         "and the same versions.")
        if self.failure and not self.missing:
            raise failed(self.failure, "see what ended that process.")
        if not there or self.failure:
            waited = f"within {timeout:g} s" if self.failure is None else f"until {self.failure}"
            raise failed(f"of {self.size} processes, {self.missing} did not come {waited}",
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
            if "refused" in message and not self.table:
                self.refusal = message["refused"]
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
        while not self.closed and self.failure is None:
            self.send({"doing": self.doing})
            time.sleep(every)

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
            raise failed(f"{what} cannot end: {self.failure}",
                         "see that process's own error; start the program again, from a checkpoint "
                         "where there is one.")

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
        self.send({"barrier": name, "doing": self.doing})
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
