"""Tokens of a session, one after another.  Start reading at `generate`."""
from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from calque.core.errors import explain
from calque.core.types import Ndarray
from calque.models.settings import ModelError
from calque.runtime.generation import chunk_sizes, is_language_model, pieces, set_sampling
from calque.runtime.session import Session


class CacheFull(RuntimeError):
    """A sequence has as many tokens as its caches have room for.

    Example:
      >>> from calque import models
      >>> issubclass(models.CacheFull, RuntimeError)
      True
    """


def generate(session: Session, prompt: Sequence[int], *, most: int | None = None, sequence: int = 0,
             temperature: float = 0.0, top_k: int = 0, top_p: float = 1.0, seed: int = 0,
             stop: Sequence[int] | None = None) -> Iterator[int]:
    """Generate the tokens that follow a prompt.

    Args:
      session: of a `Llama`'s artifact.
      prompt: the tokens to go on from; they are put behind those that the sequence has.
      most: how many to generate; None until a stop token, or the cache is full.
      sequence: which of the session's sequences.
      temperature: 0 takes the most probable token, 1 samples from the model's distribution.
      top_k: sample from this many most probable tokens; 0: from all.
      top_p: sample from the most probable tokens that make this probability.
      seed: of the random numbers; the same gives the same tokens.
      stop: tokens that end it; by default the model's own.

    Returns:
      An iterator of tokens; a stop token is not among them.

    Raises:
      ModelError: the prompt is empty, has a token that is none, or a setting is out of range.
      CacheFull: there is no room for the prompt, or for the next token.

    Example:
      >>> import numpy as np
      >>> from calque import aot, models
      >>> config = models.LlamaConfig(vocabulary=32, width=16, layers=1, heads=2, kv_heads=1,
      ...                             head_size=8, hidden=32, tied=True)
      >>> weights = {n: np.ones(s, np.float32) for n, s in config.shapes().items()}
      >>> model = models.Llama(config, weights, capacity=16, chunks=(4,))
      >>> list(models.generate(aot.load(model.compile()).session(), [1, 2], most=3))
      [0, 0, 0]
    """
    if not is_language_model(session.artifact):
        raise ModelError(explain(f"{session!r} is none of a language model.", "generate",
                                 "give a session of the artifact of a models.Llama."))
    sequences, vocabulary = map(int, session.read("logits").shape)
    _check(prompt, vocabulary, sequence, sequences, temperature, top_k, top_p)
    ends = {*(session.read("stop").tolist() if stop is None else stop)}
    set_sampling(session, sequence, temperature, top_k, top_p, seed)
    token = prefill(session, prompt, sequence)
    active = np.arange(sequences) == sequence
    return _tokens(session, token, active, most, ends)


def _tokens(session: Session, token: int, active: Ndarray, most: int | None, ends: set[int]
            ) -> Iterator[int]:
    count = 0
    while token not in ends and (most is None or count < most):
        yield token
        count += 1
        if most is not None and count == most:
            return
        token = int(session.call("decode", active).numpy().max())
        if token < 0:
            raise _full(session, "a token")


def prefill(session: Session, prompt: Sequence[int], sequence: int) -> int:
    """Put a prompt into a sequence, in pieces of the sizes that there are programs for.

    Args:
      session: of a `Llama`'s artifact.
      prompt: tokens.
      sequence: which sequence.

    Returns:
      The token that comes next.

    Raises:
      CacheFull: there is no room for it; nothing has changed.
    """
    have, capacity = int(session.read("lengths")[sequence]), int(session.read("capacity"))
    if have + len(prompt) > capacity:
        raise _full(session, f"{len(prompt)} tokens behind {have}")
    token = None
    for padded, count in pieces(prompt, chunk_sizes(session.artifact)):
        token = session.call("prefill", padded, np.int32(count), np.int32(sequence))
    return -1 if token is None else int(token.numpy())


def _full(session: Session, what: str) -> CacheFull:
    return CacheFull(explain(
        f"the cache is full: there is no room for {what}; it holds {int(session.read('capacity'))} "
        "tokens a sequence.", "generate",
        "clear the sequence (session.clear(number)), or compile the model with a larger capacity."))


def _check(prompt: Sequence[int], vocabulary: int, sequence: int, sequences: int,
           temperature: float, top_k: int, top_p: float) -> None:
    def wrong(what: str, fix: str) -> ModelError:
        return ModelError(explain(what, "generate", fix))

    if not len(prompt):
        raise wrong("the prompt has no tokens.", "begin with one, such as the model's first (bos).")
    odd = [t for t in prompt if not 0 <= t < vocabulary]
    if odd:
        raise wrong(f"the prompt has the token {odd[0]}, and the vocabulary {vocabulary} tokens.",
                    "use the tokenizer that belongs to the model.")
    if not 0 <= sequence < sequences:
        raise wrong(f"there is no sequence {sequence}: the session has {sequences}.",
                    "count them from 0, or compile the model for more.")
    if not temperature >= 0 or not 0 < top_p <= 1 or top_k < 0:
        raise wrong(f"temperature {temperature}, top_k {top_k} or top_p {top_p} is out of range.",
                    "give a temperature and top_k of 0 or more, and 0 < top_p <= 1.")
