"""What this process has asked the others for, in its order: numbers and a running hash.

Whatever is sent between processes is noted here when the program comes to it, for the group of
processes that take part.  Nothing of it is sent along: the control connection tells the coordinator
how many there are, and a process that asked for something else than the others at one number is
found by the hashes (coordinator.Comparison), whether or not anybody waits.
Start reading at `Order.noting`.
"""
from __future__ import annotations

import hashlib
import itertools
import threading
from array import array
from collections import deque
from collections.abc import Callable
from typing import Any

KEPT = 1 << 14  # what was asked for last, of each group
CALL, CHECKED = 1, 2  # digests of what is compared when it is sent: a call, a message
_SKIPPED = 64  # numbers of what was not sent; who has more is found by these


class Order:
    """What one group of processes is asked for.

    count: how many things there were; begun: up to which of them the sending has begun; skipped:
    those of them that were not sent, as what they need has failed here, with the error.
    """

    def __init__(self, log: deque[tuple[Order, int, object]]) -> None:
        self.count = self.begun = self.last = 0  # (last: the hash of everything)
        self.skipped: dict[int, str] = {}
        self._numbers = itertools.count(1)
        self._log = log
        self._chains = array("q", [0]) * KEPT
        self._labels: list[Any] = [None] * KEPT

    def noting(self, digest: int, label: object) -> Callable[[], int]:
        """A function that notes that something is asked for, and gives its number; it is called
        for every message: it takes 0.1 us, what it notes is hashed afterwards.

        Args:
          digest: the same in all processes that ask for the same.
          label: str of it is what errors show.
        """
        entry, append, numbers = (self, digest, label), self._log.append, self._numbers

        def note() -> int:
            append(entry)
            return next(numbers)

        return note

    def skip(self, number: int, error: BaseException) -> None:
        """This was not sent: what it needs has failed."""
        text = str(error).splitlines()
        if len(self.skipped) < _SKIPPED:
            self.skipped[number] = f"{type(error).__name__}: {text[0] if text else ''}"

    def hash_next(self, digest: int, label: object) -> None:
        """Add to the hash what was noted next."""
        self.count += 1
        place = self.count % KEPT
        # (of integers, not of texts: the same in all processes)
        self._chains[place] = self.last = hash((self.last, digest))
        self._labels[place] = label

    def hash_at(self, number: int) -> int | None:
        """The hash of everything up to a number; None where that is forgotten, or not known yet."""
        known = self.count - KEPT < number <= self.count
        return None if not known else self._chains[number % KEPT] if number else 0

    def label_at(self, number: int) -> str:
        """What was asked for by a number."""
        if not self.count - KEPT < number <= self.count:
            return "nothing yet" if number > self.count else "(forgotten)"
        skipped = self.skipped.get(number)
        return f"{self._labels[number % KEPT]}{f' (not sent: {skipped})' if skipped else ''}"


class Calls:
    """The orders of all groups that this process belongs to.

    Args:
      size: how many processes there are.
    """

    def __init__(self, size: int) -> None:
        self._lock = threading.RLock()
        # of all groups, as it came: what is told of them is of one moment
        self._log: deque[tuple[Order, int, object]] = deque()
        self._orders: dict[str, Order] = {}
        self._told: dict[str, list[Any]] = {}
        self.all = self.order(tuple(range(size)))

    def order(self, ranks: tuple[int, ...]) -> Order:
        """The order of a group."""
        return self._orders.setdefault(name_of(ranks), Order(self._log))

    def note(self, order: Order, digest: int, label: object) -> int:
        """Note that something is asked for; the hash of everything before."""
        with self._lock:
            self.settle()
            before = order.last
            order.noting(digest, label)()
            return before

    def settle(self) -> None:
        """Hash what was noted."""
        with self._lock:
            for _ in range(len(self._log)):
                order, digest, label = self._log.popleft()
                order.hash_next(digest, label)

    def said(self, group: str, at: int, named: bool) -> int | str | None:
        """What was asked for up to there, or there, of a group."""
        with self._lock:
            self.settle()
            order = self._orders.get(group) or Order(self._log)
            return order.label_at(at) if named else order.hash_at(at)

    def news(self) -> dict[str, list[Any]]:
        """What has changed since the last question: of each group the numbers asked for, begun and
        skipped."""
        with self._lock:
            self.settle()
            now = {group: [order.count, order.begun, list(order.skipped)]
                   for group, order in list(self._orders.items())}
            changed = {group: row for group, row in now.items()
                       if row[0] and self._told.get(group) != row}
            self._told = now
            return changed

    def totals(self) -> dict[str, list[int]]:
        """Of each group how much was asked for, and its hash."""
        with self._lock:
            self.settle()
            return {group: [order.count, order.last]
                    for group, order in list(self._orders.items()) if order.count}


def name_of(ranks: tuple[int, ...]) -> str:
    """A group's name, which the coordinator reads: '0:4:1' is 0, 1, 2, 3; '0,1,3' these.

    Example:
      >>> from calque.distributed.calls import name_of
      >>> name_of((0, 2, 4)), name_of((3, 0)), name_of((0, 1, 3))
      ('0:6:2', '0:6:3', '0,1,3')
    """
    ranks = tuple(sorted(ranks))
    step = ranks[1] - ranks[0] if len(ranks) > 1 else 1
    if ranks == tuple(range(ranks[0], ranks[0] + step * len(ranks), step)):
        return f"{ranks[0]}:{ranks[0] + step * len(ranks)}:{step}"
    return ",".join(map(str, ranks))


def digest_of(text: str) -> int:
    """63 bits of a text's hash."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1
