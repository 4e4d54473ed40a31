"""What this process has asked the others for, in its order: numbers and a running hash.

Whatever is sent between processes is noted here when the program comes to it, for the group of
processes that take part.  Nothing of it is sent along: the control connection tells the coordinator
how many there are, and a process that asked for something else than the others at one number is
found by the hashes (coordinator.Comparison), whether or not anybody waits.
Start reading at `Order.note`.
"""
from __future__ import annotations

import hashlib
import threading
from array import array
from typing import Any

KEPT = 1 << 14  # what was asked for last, of each group
CALL, CHECKED = 1, 2  # digests of what is compared when it is sent: a call, a message
_SKIPPED = 64  # numbers of what was not sent; who has more is found by these


class Order:
    """What one group of processes is asked for.

    count: how many there were; begun: up to which of them the sending has begun; skipped: those of
    them that were not sent, as what they need has failed here, with the error.
    """

    __slots__ = ("_chain", "_chains", "_labels", "_lock", "begun", "count", "skipped")

    def __init__(self, lock: threading.Lock) -> None:
        self.count = self.begun = self._chain = 0
        self.skipped: dict[int, str] = {}
        self._chains = array("q", [0]) * KEPT
        self._labels: list[Any] = [None] * KEPT
        self._lock = lock

    def note(self, digest: int, label: object) -> int:
        """The number of what is asked for now.

        Args:
          digest: the same in all processes that ask for the same.
          label: str of it is what errors show.
        """
        with self._lock:
            number = self.count = self.count + 1
            # (of integers, not of texts: the same in all processes)
            chain = self._chain = hash((self._chain, digest))
            place = number % KEPT
            self._chains[place] = chain
            self._labels[place] = label
        return number

    def skip(self, number: int, error: BaseException) -> None:
        """This was not sent: what it needs has failed."""
        text = str(error).splitlines()
        with self._lock:
            if len(self.skipped) < _SKIPPED:
                self.skipped[number] = f"{type(error).__name__}: {text[0] if text else ''}"

    def hash_at(self, number: int) -> int | None:
        """The hash of everything up to a number; None where that is forgotten, or not known yet."""
        with self._lock:
            known = self.count - KEPT < number <= self.count
            return None if not known else self._chains[number % KEPT] if number else 0

    def label_at(self, number: int) -> str:
        """What was asked for by a number."""
        with self._lock:
            if not self.count - KEPT < number <= self.count:
                return "nothing yet" if number > self.count else "(forgotten)"
            label = self._labels[number % KEPT]
        skipped = self.skipped.get(number)
        return f"{label}{f' (not sent: {skipped})' if skipped else ''}"

    @property
    def last(self) -> int:
        """The hash of everything."""
        return self._chain


class Calls:
    """The orders of all groups that this process belongs to.

    Args:
      size: how many processes there are.
    """

    def __init__(self, size: int) -> None:
        self._lock = threading.Lock()
        self._orders: dict[str, Order] = {}
        self._told: dict[str, list[Any]] = {}
        self.all = self.order(tuple(range(size)))

    def order(self, ranks: tuple[int, ...]) -> Order:
        """The order of a group."""
        return self._orders.setdefault(name_of(ranks), Order(self._lock))

    def find(self, group: str) -> Order:
        """The order of a group, by its name."""
        return self._orders.get(group) or Order(self._lock)

    def news(self) -> dict[str, list[Any]]:
        """What has changed since the last question: of each group the numbers asked for, begun and
        skipped, all of one moment."""
        with self._lock:
            now = {group: [order.count, order.begun, list(order.skipped)]
                   for group, order in list(self._orders.items())}
        changed = {group: row for group, row in now.items()
                   if row[0] and self._told.get(group) != row}
        self._told = now
        return changed

    def totals(self) -> dict[str, list[int]]:
        """Of each group how much was asked for, and its hash."""
        with self._lock:
            return {group: [order.count, order.last]
                    for group, order in self._orders.items() if order.count}


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
