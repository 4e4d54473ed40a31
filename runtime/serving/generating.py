"""POST /v1/completions: from a body to sequences of the engine, and their tokens back.

Start reading at `Generator.complete`.
"""
from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Any

from calque.runtime.serving.completions import Answer, Completion, choice, usage
from calque.runtime.serving.engine import Engine, Generation
from calque.runtime.serving.errors import RequestError, wrong
from calque.runtime.serving.text import Decoder, Words

_LONG = 4096  # letters of a text that is encoded on another thread
_Event = tuple[int, int | None, "str | Exception | None"]


@dataclass(frozen=True, slots=True)
class Part:
    """What one token adds to a choice."""

    index: int
    text: str
    tokens: list[int]
    reason: str | None


class Generator:
    """Answers completions with an engine.

    Args:
      engine: what generates.
      words: the tokenizer; None: tokens in, tokens out.
    """

    def __init__(self, engine: Engine, words: Words | None) -> None:
        self.engine = engine
        self._words = words

    async def begin(self, request: Completion) -> list[Generation]:
        """The sequences of a request, looked at and not yet submitted; `parts` submits them.

        Raises:
          RequestError: a prompt has a mistake, or there is no room for it.
        """
        where = "prompt of POST /v1/completions"
        if request.stop and self._words is None:
            raise wrong("stop is text, and the server has no tokenizer.", where,
                        "give stop_token_ids, or serve with --tokenizer FILE.json.")
        most = self.engine.max_queue
        if len(request.prompts) > most:
            raise wrong(f"there are {len(request.prompts)} prompts.", where,
                        f"give at most {most} at once.")
        made = []
        for i, prompt in enumerate(request.prompts):
            tokens = await self._encoded(prompt, where) if isinstance(prompt, str) else prompt
            length = self.engine.check(tokens, request.most, where)
            stop = self.engine.stop | {*request.stop_tokens}
            made.append(Generation(tokens, length, lambda *_: None, request.temperature,
                                   request.top_k, request.top_p,
                                   min(request.seed + i, 2**31 - 1), stop))
        return made

    async def _encoded(self, text: str, where: str) -> list[int]:
        words = self._words
        if words is None:
            raise wrong("the prompt is text, and the server has no tokenizer.", where,
                        "give tokens, or serve with --tokenizer FILE.json.")
        if any("\ud800" <= c <= "\udfff" for c in text):  # JSON may have them, UTF-8 has not
            raise wrong("the prompt has half a pair of surrogates.", where, "send UTF-8.")
        return await asyncio.to_thread(words.encode, text) if len(text) > _LONG else \
            words.encode(text)

    async def parts(self, request: Completion, generations: Sequence[Generation]
                    ) -> AsyncGenerator[Part, None]:
        """What comes, choice by choice, as it comes; left early, the sequences end.

        Raises:
          RequestError: the queue is full, or the model failed.
        """
        loop = asyncio.get_running_loop()
        events: asyncio.Queue[_Event] = asyncio.Queue()
        decoders = [Decoder(self._words, request.stop) for _ in generations]
        going = {*range(len(generations))}
        for i, one in enumerate(generations):
            def listener(token: int | None, why: str | Exception | None, i: int = i) -> None:
                with contextlib.suppress(RuntimeError):  # the loop has ended
                    loop.call_soon_threadsafe(events.put_nowait, (i, token, why))
            one.listener = listener
        self.engine.submit(generations)
        try:
            while going:
                index, token, why = await events.get()
                if index not in going:  # a string has ended it: what comes behind it
                    continue
                if isinstance(why, Exception):
                    raise why
                decoder = decoders[index]
                text = decoder.finish() if token is None else decoder.push(token)
                reason = None if token is not None else str(why)
                if decoder.is_stopped:
                    generations[index].is_cancelled, reason = True, "stop"
                if reason is not None:
                    going.discard(index)
                yield Part(index, text, [] if token is None else [token], reason)
        finally:
            for generation in generations:
                generation.is_cancelled = True

    async def complete(self, request: Completion, answer: Answer) -> dict[str, Any]:
        """The whole answer.

        Raises:
          RequestError: as `begin` and `parts`.
        """
        generations = await self.begin(request)
        texts = [""] * len(generations)
        tokens: list[list[int]] = [[] for _ in generations]
        reasons: list[str | None] = [None] * len(generations)
        async for part in self.parts(request, generations):
            texts[part.index] += part.text
            tokens[part.index] += part.tokens
            reasons[part.index] = part.reason
        return answer.body(
            [choice(i, *c) for i, c in enumerate(zip(texts, tokens, reasons, strict=True))],
            usage(sum(len(g.prompt) for g in generations), sum(map(len, tokens))))


def told(error: Exception) -> RequestError:
    """What a client is told of an exception."""
    if isinstance(error, RequestError):
        return error
    return RequestError(500, f"the server failed: {type(error).__name__}.", "",
                        "look at what the server has written.")
