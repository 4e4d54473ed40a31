"""Continuous batching: sequences that join and leave a running batch of a language model.

A session's state has room for a fixed number of sequences, each of its own length; a thread goes on
with all of them at once, a token each a step (Yu et al., Orca, 2022).  A new sequence takes a free
slot, and its prompt goes in piece by piece, one between two steps, so that the others do not wait
for all of it.  What is drawn for a sequence depends on its seed and position alone: tokens are
those that it has when it runs alone.  Several sessions share the artifact's weights.

Start reading at `Engine.submit`, then `_Worker.step`.
"""
from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from calque.runtime.aot import Artifact
from calque.runtime.generation import Array, chunk_sizes, pieces, set_sampling
from calque.runtime.serving.errors import RequestError, wrong
from calque.runtime.serving.metrics import Metrics
from calque.runtime.session import Session

# (token, None) of each token, then (None, why it ended)
Listener = Callable[[int | None, str | Exception | None], None]


@dataclass(eq=False, slots=True)
class Generation:
    """A sequence that is generated.

    Attributes:
      prompt: its tokens.
      most: how many to generate at most.
      temperature, top_k, top_p, seed: as `calque.models.generate` takes them.
      stop: tokens that end it; None: the model's own.
      listener: told of each token, and of the end: "stop", "length", or what went wrong; on the
        engine's thread.
      is_cancelled: set by who no longer wants it.
    """

    prompt: Sequence[int]
    most: int
    listener: Listener
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0
    stop: frozenset[int] | None = None
    is_cancelled: bool = False
    began: float = field(default_factory=time.perf_counter)
    count: int = 0


class Engine:
    """Generates sequences of a language model's artifact, many at a time.

    Args:
      artifact: of a `calque.models.Llama`.
      metrics: where tokens are counted.
      max_queue: how many sequences may wait.
      sessions: how many batches run beside each other, each with the artifact's sequences.

    Raises:
      ArtifactError: the artifact has no state.
    """

    def __init__(self, artifact: Artifact, metrics: Metrics, max_queue: int = 256,
                 sessions: int = 1) -> None:
        self.metrics = metrics
        self._artifact = artifact
        self.max_queue = max_queue
        self._changed = threading.Condition()
        self._waiting: deque[Generation] = deque()
        self._is_closed = False
        first = artifact.session()
        self.slots, self.vocabulary = map(int, first.read("logits").shape)
        self.capacity = int(first.read("capacity"))
        self.stop = frozenset(map(int, first.read("stop")))
        _warm(first, chunk_sizes(artifact), self.slots)
        made = [first, *[artifact.session() for _ in range(sessions - 1)]]
        self.workers = [_Worker(self, s) for s in made]
        self._threads = [threading.Thread(target=w.run, daemon=True, name=f"calque decode {i}")
                         for i, w in enumerate(self.workers)]
        for thread in self._threads:
            thread.start()

    @property
    def artifact(self) -> Artifact:
        """What it generates with."""
        return self._artifact

    def check(self, tokens: Sequence[int], most: int | None, where: str) -> int:
        """How many tokens may follow a prompt.

        Args:
          tokens: of the prompt.
          most: how many are wanted; None: as many as is usual (16), or there is room for.
          where: in which part of the request, for messages.

        Raises:
          RequestError: a token is none, or there is no room.
        """
        if not len(tokens):
            raise wrong("the prompt has no tokens.", where, "give one at least.")
        odd = [t for t in tokens if not 0 <= t < self.vocabulary]
        if odd:
            raise wrong(f"the prompt has the token {odd[0]}, and the vocabulary "
                        f"{self.vocabulary} tokens.", where,
                        "use the tokenizer that belongs to the model.")
        room = self.capacity - len(tokens) + 1  # the last token need not be in the caches
        if room < 1 or most is not None and most > room:
            raise wrong(f"the prompt has {len(tokens)} tokens" + (
                f" and {most} are wanted" if most is not None else "") +
                f"; a sequence has room for {self.capacity}.", where,
                "shorten the prompt, lower max_tokens, or serve the model with a larger "
                "--capacity.")
        return min(16, room) if most is None else most

    def submit(self, sequences: Sequence[Generation]) -> None:
        """Put sequences into the queue: all of them, or none.

        Raises:
          RequestError: the queue is full, or the engine is closed.
        """
        with self._changed:
            if self._is_closed:
                raise RequestError(503, "the server is ending.", "", "ask another one.",
                                   retry_after=5)
            if len(self._waiting) + len(sequences) > self.max_queue:
                raise RequestError(429, f"{len(self._waiting)} sequences wait, and no more than "
                                   f"{self.max_queue} may.", "", "ask again later, or serve with "
                                   "a larger --max-queue.", retry_after=1)
            self._waiting.extend(sequences)
            self.metrics.waiting.set(len(self._waiting))
            self._changed.notify_all()

    def take(self, free: int, is_idle: bool) -> list[Generation] | None:
        """Up to so many sequences of the queue; None: the engine is closed.

        An idle worker waits until there is one.
        """
        with self._changed:
            while is_idle and not self._waiting and not self._is_closed:
                self._changed.wait()
            if self._is_closed:
                return None
            made: list[Generation] = []
            while self._waiting and len(made) < free:
                one = self._waiting.popleft()
                if not one.is_cancelled:
                    made.append(one)
            self.metrics.waiting.set(len(self._waiting))
            return made

    def close(self) -> None:
        """End its threads; sequences that are under way are told so."""
        with self._changed:
            self._is_closed = True
            left = [*self._waiting]
            self._waiting.clear()
            self._changed.notify_all()
        for one in left:
            one.listener(None, _ending())
        for thread in self._threads:
            thread.join()


def _warm(session: Session, sizes: Sequence[int], slots: int) -> None:
    """Load the programs, before the first request needs them."""
    for size in sizes:
        session.call("prefill", np.zeros(size, np.int32), np.int32(1), np.int32(0))
    session.call("decode", np.arange(slots) == 0).numpy()
    session.call("clear", np.int32(0))


def _ending() -> RequestError:
    return RequestError(503, "the server is ending.", "", "ask another one.", retry_after=5)


@dataclass(eq=False, slots=True)
class _Slot:
    """A slot of a batch, and the pieces of its prompt that are to come."""

    sequence: Generation
    pieces: deque[tuple[Array, int]]


class _Worker:
    """A session and the thread that goes on with its sequences."""

    def __init__(self, engine: Engine, session: Session) -> None:
        self._engine = engine
        self.session = session
        self._sizes = chunk_sizes(engine.artifact)
        self._slots: list[_Slot | None] = [None] * engine.slots
        self._turn = 0  # whose prompt is next

    def run(self) -> None:
        """Go on until the engine is closed."""
        while True:
            free = self._slots.count(None)
            new = self._engine.take(free, free == len(self._slots))
            if new is None:
                for number in self._taken():
                    self._end(number, _ending())
                return
            try:
                self._admit(new)
                self.step()
            except Exception as error:  # the state may be lost with it
                failed = RequestError(500, f"the model failed: {type(error).__name__}: {error}", "",
                                      "" if "  Fix: " in str(error) else
                                      "look at the server's memory.")
                failed.__cause__ = error
                for number in self._taken():
                    self._end(number, failed)
                self.session = self._engine.artifact.session()

    def _taken(self) -> list[int]:
        return [i for i, p in enumerate(self._slots) if p is not None]

    def _admit(self, new: Sequence[Generation]) -> None:
        """Give new sequences free slots."""
        free = [i for i, p in enumerate(self._slots) if p is None]
        admitted = [*zip(free, new)]
        for number, one in admitted:  # first of all, so that each is told where one fails
            self._slots[number] = _Slot(one, deque(pieces(one.prompt, self._sizes)))
            self._engine.metrics.running.inc()
        for number, one in admitted:
            self.session.call("clear", np.int32(number))
            set_sampling(self.session, number, one.temperature, one.top_k, one.top_p, one.seed)

    def step(self) -> None:
        """A piece of one prompt, then a token for each sequence whose prompt is in."""
        for number in self._taken():
            slot = self._slots[number]
            if slot is not None and slot.sequence.is_cancelled:
                self._end(number, "cancelled")
        self._read_prompt()
        going = [i for i, p in enumerate(self._slots) if p is not None and not p.pieces]
        if not going:
            return
        active = np.zeros(len(self._slots), np.bool_)
        active[going] = True
        tokens = self.session.call("decode", active).numpy().tolist()
        self._engine.metrics.steps.inc()
        self._engine.metrics.step_sequences.observe(len(going))
        for number in going:
            self._got(number, tokens[number])

    def _read_prompt(self) -> None:
        """Put in the next piece of a prompt, of each in turn."""
        reading = [i for i, p in enumerate(self._slots) if p is not None and p.pieces]
        if not reading:
            return
        number = next((i for i in reading if i >= self._turn), reading[0])
        self._turn = number + 1
        slot = self._slots[number]
        assert slot is not None
        padded, count = slot.pieces.popleft()
        token = self.session.call("prefill", padded, np.int32(count), np.int32(number))
        self._engine.metrics.tokens.labels("prompt").inc(count)
        if not slot.pieces:
            first = int(token.numpy())
            self._engine.metrics.first_token.observe(time.perf_counter() - slot.sequence.began)
            self._got(number, first)

    def _got(self, number: int, token: int) -> None:
        """A token of a sequence: tell of it, and whether it was the last."""
        slot = self._slots[number]
        assert slot is not None
        one = slot.sequence
        if token < 0:  # the caches are full
            self._end(number, "length")
            return
        if token in (self._engine.stop if one.stop is None else one.stop):
            self._end(number, "stop")
            return
        one.count += 1
        self._engine.metrics.tokens.labels("generated").inc()
        one.listener(token, None)
        if one.count >= one.most:
            self._end(number, "length")

    def _end(self, number: int, why: str | Exception) -> None:
        slot = self._slots[number]
        assert slot is not None
        self._slots[number] = None
        self._engine.metrics.running.dec()
        slot.sequence.listener(None, why)
