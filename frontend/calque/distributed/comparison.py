"""Whether the processes of a program ask each other for the same things in one order.

Standard library only (coordinator.py).  Start reading at `Comparison.step`.
"""
from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from calque.distributed.members import Member

_ROUND_S = 5.0  # for which their answers are waited for


class Round:
    """A question to processes about what they asked for: the hash up to a number of a group
    (`named`: what that was), with the bounds between which they begin to differ."""

    def __init__(self, number: int, wanted: dict[int, tuple[str, int]], named: bool,
                 same: int = 0, differs: int | None = None, head: str = "") -> None:
        self.number, self.wanted, self.named = number, wanted, named
        self.same, self.differs, self.head = same, differs, head
        self.answers: dict[int, Any] = {}
        self.begun = time.monotonic()


class Comparison:
    """Whether the processes ask for the same things in one order.

    Each says how many things it has asked each group for.  Up to the least of these numbers all
    members of the group must have the same hash; where they do not, the first number at which they
    differ is found by halves, and everybody is told what each asked for there.  Nobody has to wait
    for anything to be found so, and a process that is slow is never taken for one that differs.
    Called with the coordinator's lock.  Start reading at `step`.
    """

    def __init__(self, members: dict[int, Member], tell: Callable[[dict[str, Any]], None]) -> None:
        self.members, self.tell = members, tell
        self.same: dict[str, int] = {}  # up to which number of each group
        self.ranks: dict[str, list[int]] = {}
        self.round: Round | None = None
        self.rounds = 0
        self.over = False  # they differ, and everybody was told

    def step(self) -> bool:
        """Compare what is new; whether nothing is left to compare."""
        if self.over or self.round is not None and (
                time.monotonic() - self.round.begun < _ROUND_S):
            return False
        self.round = None
        groups = {g for m in self.members.values() for g in m.asked}
        for group in groups:
            rows = self.rows(group)
            least = min(row[0] for row in rows.values())
            if least > self.same.get(group, 0):
                self.ask({r: (group, least) for r in rows}, False, same=self.same.get(group, 0))
                return False
        for group in groups:
            if self.unsent(group):
                return False
        return not (len(groups) > 1 and self.crossed())

    def rows(self, group: str) -> dict[int, list[Any]]:
        """What each member of a group has asked it for."""
        ranks = self.ranks.get(group)
        if ranks is None:
            ranks = self.ranks[group] = _ranks_of(group)
        return {r: self.members[r].asked.get(group, [0, 0, []]) for r in ranks
                if r in self.members}

    def unsent(self, group: str) -> bool:
        """Whether one process did not send what another has sent, or waits for."""
        rows = self.rows(group)
        for row in rows.values():
            for number in row[2]:
                if any(begun >= number and number not in skipped
                       for _, begun, skipped in rows.values()):
                    self.ask({r: (group, number) for r in rows}, True, differs=number)
                    return True
        return False

    def crossed(self) -> bool:
        """Whether two processes come to two groups that have both in different orders.  (Each is
        ahead of the other in one of them: of one order that is never so, whenever each has said
        where it is.)"""
        for p in self.members.values():
            for q in self.members.values() if p.waits else ():
                both = [(g, self.rows(g)) for g in {*p.asked, *q.asked}]
                ahead, behind = (next(
                    (g for g, rows in both if p.rank in rows and q.rank in rows
                     and rows[a.rank][0] > rows[b.rank][0]), None) for a, b in ((p, q), (q, p)))
                if ahead is not None and behind is not None:
                    self.ask({p.rank: (ahead, self.rows(ahead)[q.rank][0] + 1),
                              q.rank: (behind, self.rows(behind)[p.rank][0] + 1)}, True,
                             head="each of these was sent by one of two processes before what the "
                                  "other sent:")
                    return True
        return False

    def ask(self, wanted: dict[int, tuple[str, int]], named: bool, **more: Any) -> None:
        self.rounds += 1
        self.round = Round(self.rounds, wanted, named, **more)
        for rank, (group, at) in wanted.items():
            self.members[rank].send({"ask": [self.rounds, group, at, named]})

    def take(self, member: Member, number: int, said: Any) -> None:
        """An answer."""
        asked = self.round
        if asked is None or asked.number != number:
            return
        asked.answers[member.rank] = said
        if not all(r in asked.answers for r in asked.wanted):
            return
        if asked.named:
            self.tell_difference(asked)
            return
        group, at = next(iter(asked.wanted.values()))
        # (None: forgotten, of what was asked for long before)
        if len({a for a in asked.answers.values() if a is not None}) > 1:
            asked.differs = at
        else:
            asked.same = at
        if asked.differs is None:
            self.same[group], self.round = at, None
        elif asked.differs - asked.same > 1:
            middle = (asked.same + asked.differs) // 2
            self.ask({r: (group, middle) for r in asked.wanted}, False, same=asked.same,
                     differs=asked.differs)
        else:
            self.ask({r: (group, asked.differs) for r in asked.wanted}, True,
                     differs=asked.differs)

    def tell_difference(self, asked: Round) -> None:
        head = asked.head or f"of the messages between {_listed(list(asked.wanted))}, number " \
                             f"{asked.differs} is not the same in all:"
        rows = [f"  process {r} on {self.members[r].host}: {asked.answers[r]}"
                + (f", between {_listed(_ranks_of(asked.wanted[r][0]))}" if asked.head else "")
                for r in sorted(asked.wanted)]
        self.over, self.round = True, None
        self.tell({"differ": "\n".join([f"the processes do different things: {head}", *rows])})

    def end(self) -> None:
        """All have come to their end: what is wholly the same has not to be asked for."""
        for group in {g for m in self.members.values() for g in m.ends}:
            ends = [self.members[r].ends.get(group, [0, 0]) for r in self.rows(group)]
            if all(e == ends[0] for e in ends):
                self.same[group] = ends[0][0]


def _ranks_of(group: str) -> list[int]:
    """The processes of a group, by its name (calls.name_of)."""
    if ":" in group:
        return list(range(*map(int, group.split(":"))))
    return [int(r) for r in group.split(",")]


def _listed(ranks: list[int]) -> str:
    return f"processes {ranks if len(ranks) < 9 else f'{ranks[0]} to {ranks[-1]}'}"
