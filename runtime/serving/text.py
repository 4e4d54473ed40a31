"""Text of a language model's tokens as they come, and strings that end it.

Start reading at `Decoder.push`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class Words:
    """A tokenizer, and the token that begins a text.

    Args:
      tokenizer: a `tokenizers.Tokenizer`.
      bos: put before the tokens of a text that do not begin with it; None: nothing.
    """

    def __init__(self, tokenizer: Any, bos: int | None = None) -> None:
        self._tokenizer = tokenizer
        self._bos = bos

    def encode(self, text: str) -> list[int]:
        """The tokens of a text."""
        made = list(self._tokenizer.encode(text).ids)
        return made if self._bos is None or made[:1] == [self._bos] else [self._bos, *made]

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens."""
        return str(self._tokenizer.decode(tokens))


class Decoder:
    """The text of tokens that come one by one.

    Text is held back while it is half a character, or may be the beginning of a string that ends
    it.  Only the last tokens are decoded anew.

    Args:
      words: the tokenizer; None: the text is "".
      stop: strings that end the text, and are not in it.

    Example:
      >>> from calque.runtime.serving.text import Decoder
      >>> class Letters:
      ...     def decode(self, tokens):
      ...         return "".join(map(chr, tokens))
      >>> decoder = Decoder(Letters(), ["lo"])
      >>> [decoder.push(ord(c)) for c in "hello"], decoder.is_stopped
      (['h', 'e', '', 'l', ''], True)
    """

    def __init__(self, words: Any, stop: Sequence[str] = ()) -> None:
        self._words = words
        self._stop = stop
        self._tokens: list[int] = []
        self._begin = self._end = 0  # of the tokens whose text was given last
        self._held = ""
        self.is_stopped = False

    def push(self, token: int) -> str:
        """The text that is certain with one token more."""
        if self._words is None or self.is_stopped:
            return ""
        self._tokens.append(token)
        new = self._new()
        if new.endswith("\ufffd"):  # half a character
            return ""
        self._begin, self._end = self._end, len(self._tokens)
        return self._until_stop(new)

    def finish(self) -> str:
        """What is left when no token follows."""
        if self._words is None or self.is_stopped:
            return ""
        text = self._until_stop(self._new())
        held, self._held = self._held, ""
        return text if self.is_stopped else text + held

    def _new(self) -> str:
        before = self._words.decode(self._tokens[self._begin:self._end])
        return str(self._words.decode(self._tokens[self._begin:]))[len(before):]

    def _until_stop(self, new: str) -> str:
        text = self._held + new
        found = [i for s in self._stop if (i := text.find(s)) >= 0]
        if found:
            self.is_stopped, self._held = True, ""
            return text[:min(found)]
        keep = max((n for s in self._stop for n in range(1, len(s)) if text.endswith(s[:n])),
                   default=0)
        self._held = text[len(text) - keep:]
        return text[:len(text) - keep]
