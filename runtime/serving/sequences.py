"""Sessions of modules with state, by the identifiers that clients give them.

As the protocol's extension of sequences has it: a request's parameters have `sequence_id`, and
`sequence_start` and `sequence_end` where a state begins and is forgotten.
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calque.runtime.aot import Artifact
from calque.runtime.serving.errors import RequestError, shown, wrong
from calque.runtime.session import Session


class Sequences:
    """The states that clients have begun; used on the event loop's thread only.

    Args:
      artifact: of a module with state.
      most: how many there may be.
    """

    def __init__(self, artifact: Artifact, most: int) -> None:
        self._artifact = artifact
        self._most = most
        self._sessions: dict[str, Session] = {}

    def session(self, parameters: Mapping[str, Any], where: str) -> tuple[Session, str | None]:
        """The session of a request, and the identifier to end after it.

        Args:
          parameters: of the request.
          where: the function's name, for messages.

        Raises:
          RequestError: there is no such sequence, or there are too many.
        """
        key, start, end = (parameters.get(f"sequence_{n}", d) for n, d in (
            ("id", None), ("start", False), ("end", False)))
        if type(key) not in (int, str) or key in (0, "") or len(str(key)) > 256:
            raise wrong(f"sequence_id is {shown(key)}, and the function has state.", where,
                        'give "parameters": {"sequence_id": 1, "sequence_start": true} first, then '
                        "the same sequence_id.")
        if not isinstance(start, bool) or not isinstance(end, bool):
            raise wrong(f"sequence_start is {shown(start)} and sequence_end {shown(end)}.", where,
                        "give true or false.")
        name = str(key)
        if start:
            if name not in self._sessions and len(self._sessions) >= self._most:
                raise RequestError(429, f"there are {self._most} sequences, and no more may be.",
                                   where, "end one (sequence_end), or serve with a larger "
                                   "--max-sessions.", retry_after=1)
            self._sessions[name] = self._artifact.session()
        if name not in self._sessions:
            raise wrong(f"there is no sequence {shown(key)}.", where,
                        'begin it: "sequence_start": true.')
        return self._sessions[name], name if end else None

    def end(self, name: str) -> None:
        """Forget a sequence."""
        self._sessions.pop(name, None)
