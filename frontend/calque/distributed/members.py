"""Those who have said who they are, and those who have not yet: the coordinator's connections.

Standard library only (coordinator.py).  Start reading at `Door`.
"""
from __future__ import annotations

import json
import secrets
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

STRANGERS = 64  # connections that have not said yet who they are, beyond two for each process
GREETING_S = 10.0  # in which they say it
_NOTES, _NOTE_S = 8, 10.0  # lines about strangers: so many at once, then one in so many seconds


class Member:
    """A process that has said who it is."""

    def __init__(self, rank: int, connection: socket.socket, hello: dict[str, Any]) -> None:
        self.rank, self.connection, self.hello = rank, connection, hello
        self.heard = time.monotonic()
        self.doing = ""  # what it says that it does
        self.why = ""  # it ends
        self.left = self.lost = False
        self.step: int | None = None
        self.identity = secrets.randbelow(1 << 30) + 1  # by which its MPI_Init is known
        self.asked: dict[str, list[Any]] = {}  # of each group: numbers asked for, begun, skipped
        self.ends: dict[str, list[int]] = {}  # of each group: how much it was, and its hash
        self.waits = False
        self.lock = threading.Lock()

    @property
    def host(self) -> str:
        return shown(self.hello.get("host"))

    def send(self, message: dict[str, Any]) -> None:
        try:
            with self.lock:
                self.connection.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            pass  # its own connection's thread sees that it is gone


class Door:
    """The connections that have not said yet who they are, and what is said of those refused.

    size: how many processes there are; tell: what takes the lines.
    """

    def __init__(self, size: int, tell: Callable[[str], None]) -> None:
        self.most = STRANGERS + 2 * size
        self.tell = tell
        self.waiting: dict[socket.socket, float] = {}  # since when
        self.lock = threading.Lock()
        self.lines = float(_NOTES)  # that may be told now
        self.refilled = time.monotonic()
        self.untold = 0

    def enter(self, connection: socket.socket) -> None:
        """Somebody is there.  Where there are too many, who came first goes: ours say at once who
        they are."""
        with self.lock:
            self.waiting[connection] = time.monotonic()
            crowd = list(self.waiting)[:-self.most]
        for c in crowd:
            _hang_up(c)

    def leave(self, connection: socket.socket) -> None:
        """It has said who it is, or is gone."""
        with self.lock:
            self.waiting.pop(connection, None)

    def sweep(self) -> None:
        """Those that say nothing go."""
        with self.lock:
            late = [c for c, since in self.waiting.items() if time.monotonic() - since > GREETING_S]
        for c in late:
            _hang_up(c)

    def refuse(self, connection: socket.socket, address: str, why: str, fix: str) -> None:
        """Tell somebody why it is refused, and the job that it was."""
        try:
            connection.sendall(json.dumps({"refused": why, "fix": fix}).encode() + b"\n")
        except OSError:
            pass  # it does not hear it
        with self.lock:
            now = time.monotonic()
            self.lines = min(float(_NOTES), self.lines + (now - self.refilled) / _NOTE_S)
            self.refilled = now
            if self.lines < 1:
                self.untold += 1
                return
            self.lines -= 1
            more, self.untold = self.untold, 0
        self.tell(f"refused a connection from {address}: {why}"
                  + (f" ({more} more were refused before)" if more else ""))


def shown(said: Any) -> str:
    """What somebody has said, fit for a line."""
    return "".join(c if c.isprintable() else "?" for c in str(said)[:200])


def address_of(connection: socket.socket) -> str:
    try:
        return ":".join(map(str, connection.getpeername()[:2]))
    except OSError:
        return "somebody"


def _hang_up(connection: socket.socket) -> None:
    """Its thread sees its end."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
