"""Whether processes ask for the same things, without processes: what each has noted, compared by
the coordinator at moments that are drawn."""
from __future__ import annotations

import random
import socket
from collections.abc import Sequence
from typing import Any

import pytest

from calque.distributed.calls import KEPT, Calls, digest_of, name_of
from calque.distributed.comparison import Comparison
from calque.distributed.members import Member

Call = tuple[tuple[int, ...], str]  # the processes that take part, and what it is


class Simulated(Member):
    """A process that answers when it is looked at."""

    def __init__(self, rank: int, size: int, calls: Sequence[Call]) -> None:
        one, two = socket.socketpair()
        two.close()
        super().__init__(rank, one, {"host": f"h{rank}"})
        one.close()
        self.noted = Calls(size)
        self.todo = list(calls)
        self.inbox: list[dict[str, Any]] = []

    def send(self, message: dict[str, Any]) -> None:
        self.inbox.append(message)

    def come(self) -> None:
        """It comes to its next call."""
        if self.todo:
            ranks, what = self.todo.pop(0)
            order = self.noted.order(ranks)
            order.begun = order.noting(digest_of(what), what)()

    def report(self) -> None:
        self.asked.update(self.noted.news())

    def answer(self, comparison: Comparison) -> None:
        while self.inbox:
            number, group, at, named = self.inbox.pop(0)["ask"]
            comparison.take(self, number, self.noted.said(group, at, named))


def told(programs: Sequence[Sequence[Call]], seed: int = 0) -> str:
    """What processes that run these are told; each runs, tells and answers when it likes."""
    rng = random.Random(seed)
    found: list[str] = []
    size = len(programs)
    members = {r: Simulated(r, size, p) for r, p in enumerate(programs)}
    comparison = Comparison(dict(members), lambda m: found.append(m["differ"]))
    for _ in range(40 * sum(map(len, programs)) + 400):
        m = members[rng.randrange(size)]
        rng.choice((m.come, m.come, m.report, lambda m=m: m.answer(comparison),
                    comparison.step))()
    for _ in range(100):
        for m in members.values():
            m.waits = True
            m.report()
            comparison.step()
            m.answer(comparison)
    assert len(found) <= 1
    return "".join(found)


EVERY, PAIR = (0, 1, 2), (0, 1)


def drawn(rng: random.Random, count: int) -> list[Call]:
    return [(EVERY, f"f{rng.randrange(3)}") for _ in range(count)]


def test_the_same_at_any_pace_is_the_same() -> None:
    for seed in range(12):
        rng = random.Random(seed)
        calls = [(rng.choice((EVERY, PAIR, (1, 2))), f"f{rng.randrange(3)}") for _ in range(60)]
        assert not told([[c for c in calls if r in c[0]] for r in EVERY], seed)
        # who has come less far is slow
        cut = [[c for c in calls if r in c[0]][:10 * (r + 1)] for r in EVERY]
        assert not told([c if r else calls[:0] for r, c in enumerate(cut)], seed)


def test_the_first_that_differs_is_named() -> None:
    for seed in range(12):
        rng = random.Random(seed)
        calls = drawn(rng, 50)
        who, at = rng.randrange(3), rng.randrange(50)
        other = [*calls]
        other[at] = (EVERY, "other")
        text = told([other if r == who else calls for r in EVERY], seed)
        assert f"number {at + 1} is not the same" in text, text
        assert f"process {who} on h{who}: other" in text and calls[at][1] in text
        # one more, or in another order
        more = [*calls[:at], (EVERY, "one more"), *calls[at:]]
        assert f"number {at + 1} is not" in told([more if r == who else calls for r in EVERY], seed)
    turned = [(EVERY, "a"), (EVERY, "b")]
    text = told([turned, turned, turned[::-1]])
    assert "number 1 is not the same" in text and "process 2 on h2: b" in text


def test_two_groups_in_different_orders() -> None:
    both: list[Call] = [(EVERY, "of all"), (PAIR, "of two")]
    stopped = [[both[0]], [both[1]], [both[0]]]  # each waits for the other
    text = told(stopped)
    assert "process 0 on h0: of all, between processes [0, 1, 2]" in text, text
    assert "process 1 on h1: of two, between processes [0, 1]" in text
    assert not told([both, both, [both[0]]])


def test_what_was_not_sent() -> None:
    calls = drawn(random.Random(0), 5)
    members = {r: Simulated(r, 3, calls) for r in EVERY}
    found: list[str] = []
    comparison = Comparison(dict(members), lambda m: found.append(m["differ"]))

    def all_step() -> None:
        for _ in range(3):
            for m in members.values():
                m.report()
            comparison.step()
            for m in members.values():
                m.answer(comparison)

    for m in members.values():
        m.come()
        m.noted.all.skip(1, KeyError("in all of them"))
    all_step()
    assert not found
    for m in members.values():
        m.come()
    members[1].noted.all.skip(2, KeyError("mine"))
    all_step()
    assert f"process 1 on h1: {calls[1][1]} (not sent: KeyError: 'mine')" in found[0]


def test_what_is_long_ago_is_forgotten() -> None:
    calls = Calls(2)
    for i in range(2 * KEPT):
        assert calls.all.noting(i, i)() == i + 1

    def said(at: int, named: bool) -> Any:
        return calls.said("0:2:1", at, named)

    assert said(2 * KEPT, False) == calls.all.last
    assert said(KEPT, False) is None and said(2 * KEPT + 1, False) is None
    assert said(KEPT + 1, False) is not None and said(0, False) is None
    assert said(KEPT, True) == "(forgotten)" and said(2 * KEPT + 1, True) == "nothing yet"
    assert said(2 * KEPT, True) == str(2 * KEPT - 1)
    assert calls.news() == {"0:2:1": [2 * KEPT, 0, []]} and not calls.news()


@pytest.mark.parametrize("ranks", [(0,), (3, 1), (0, 1, 2), (0, 2, 3), (5, 9, 13)])
def test_names_of_groups(ranks: tuple[int, ...]) -> None:
    from calque.distributed.comparison import _ranks_of
    assert _ranks_of(name_of(ranks)) == sorted(ranks)
