"""Bodies of POST /v1/completions, in the shape of OpenAI's API.

Beside its fields there are `top_k` and `stop_token_ids`, and an answer's choices have `token_ids`.
Start reading at `parse`.
"""
from __future__ import annotations

import json
import math
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from calque.runtime.serving.errors import RequestError, shown, wrong
from calque.runtime.serving.tensors import read_json

_WHERE = "POST /v1/completions"
_KNOWN = {"model", "prompt", "max_tokens", "temperature", "top_p", "top_k", "seed", "stop",
          "stop_token_ids", "stream", "stream_options", "user", "metadata"}
# Settings that change what is generated and are not here, with the values that change nothing.
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "n": (1, None), "best_of": (1, None), "echo": (False, None), "logprobs": (None,),
    "suffix": (None, ""), "presence_penalty": (0, None), "frequency_penalty": (0, None),
    "logit_bias": (None, {})}


@dataclass(frozen=True, slots=True)
class Completion:
    """A request that was read: prompts, each text or tokens, and how to go on from them."""

    prompts: list[str | list[int]]
    most: int | None
    temperature: float
    top_k: int
    top_p: float
    seed: int
    stop: list[str]
    stop_tokens: list[int]
    is_stream: bool
    with_usage: bool


def parse(body: bytes, model: str) -> Completion:
    """Read the body of a request.

    Args:
      body: JSON.
      model: the name of the model that is served.

    Returns:
      The Completion.

    Raises:
      RequestError: it has a mistake, or asks for what is not there.

    Example:
      >>> from calque.runtime.serving.completions import parse
      >>> request = parse(b'{"prompt": "Once", "max_tokens": 4, "temperature": 0}', "model")
      >>> request.prompts, request.most
      (['Once'], 4)
    """
    raw = read_json(body)
    for name, value in raw.items():
        if name in _NEUTRAL and not any(value == n and type(value) is not bool or value is n
                                        for n in _NEUTRAL[name]):
            raise wrong(f"{name} is {shown(value)}, which is not supported.", _WHERE,
                        f"leave {name} away.")
        if name not in _KNOWN and name not in _NEUTRAL:
            raise wrong(f"there is no setting {shown(name)}.", _WHERE,
                        f"name one of: {', '.join(sorted(_KNOWN))}.")
    named = raw.get("model")
    if named is not None and named != model:
        raise RequestError(404, f"there is no model {shown(named)}.", _WHERE,
                           f"name {model!r}, or none.")
    options = raw.get("stream_options") or {}
    if not isinstance(options, dict):
        raise wrong(f"stream_options are {shown(options)}.", _WHERE, "give an object, or none.")
    temperature = _number(raw, "temperature", 1.0, 0, 100)
    return Completion(
        _prompts(raw.get("prompt")),
        None if raw.get("max_tokens") is None else _whole(raw, "max_tokens", 1, 1, 2**31 - 1),
        temperature, _whole(raw, "top_k", 0, 0, 2**31 - 1),
        _number(raw, "top_p", 1.0, 1e-9, 1),
        _whole(raw, "seed", secrets.randbelow(2**31) if temperature else 0, -2**31, 2**31 - 1),
        _strings(raw.get("stop")), _tokens(raw.get("stop_token_ids") or [], "stop_token_ids"),
        _flag(raw, "stream"), _flag(options, "include_usage"))


def _number(raw: Mapping[str, Any], name: str, default: float, least: float, most: float) -> float:
    value = raw.get(name)
    if value is None:
        return default
    if type(value) not in (int, float) or not math.isfinite(value) or not least <= value <= most:
        raise wrong(f"{name} is {shown(value)}.", _WHERE,
                    f"give a number from {least:g} to {most:g}.")
    return float(value)


def _whole(raw: Mapping[str, Any], name: str, default: int, least: int, most: int) -> int:
    value = raw.get(name)
    if value is None:
        return default
    if type(value) is not int or not least <= value <= most:
        raise wrong(f"{name} is {shown(value)}.", _WHERE,
                    f"give a whole number from {least} to {most}.")
    return value


def _flag(raw: Mapping[str, Any], name: str) -> bool:
    value = raw.get(name)
    if value is not None and not isinstance(value, bool):
        raise wrong(f"{name} is {shown(value)}.", _WHERE, "give true or false.")
    return bool(value)


def _strings(value: Any) -> list[str]:
    made = [] if value is None else [value] if isinstance(value, str) else value
    if not isinstance(made, list) or len(made) > 16 or not all(
            isinstance(s, str) and s for s in made):
        raise wrong(f"stop is {shown(value)}.", _WHERE,
                    "give a string that is not empty, or a list of at most 16.")
    return made


def _tokens(value: Any, name: str) -> list[int]:
    if not isinstance(value, list) or not all(type(t) is int for t in value):
        raise wrong(f"{name} is {shown(value)}.", _WHERE, "give a list of tokens: whole numbers.")
    return value


def _prompts(value: Any) -> list[str | list[int]]:
    """Text, tokens, or a list of one of them."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and value:
        if all(isinstance(p, str) for p in value):
            return value
        if all(isinstance(p, list) for p in value):
            return [_tokens(p, "prompt") for p in value]
        return [_tokens(value, "prompt")]
    raise wrong(f"prompt is {shown(value)}.", _WHERE,
                "give text, a list of tokens, or a list of one of these.")


@dataclass(frozen=True, slots=True)
class Answer:
    """What all parts of an answer have: its identifier, its time, the model's name."""

    id: str
    created: int
    model: str

    @staticmethod
    def new(model: str) -> Answer:
        """With a new identifier, and the time that it is."""
        return Answer(f"cmpl-{secrets.token_hex(12)}", int(time.time()), model)

    def body(self, choices: Sequence[Mapping[str, Any]], usage: Mapping[str, int] | None = None
             ) -> dict[str, Any]:
        """The answer, or a part of a stream."""
        made = {"id": self.id, "object": "text_completion", "created": self.created,
                "model": self.model, "choices": list(choices)}
        return made if usage is None else {**made, "usage": dict(usage)}


def choice(index: int, text: str, tokens: Sequence[int], reason: str | None = None
           ) -> dict[str, Any]:
    """A choice of an answer, or a part of one."""
    return {"index": index, "text": text, "token_ids": list(tokens), "logprobs": None,
            "finish_reason": reason}


def usage(prompt: int, generated: int) -> dict[str, int]:
    """How many tokens there were."""
    return {"prompt_tokens": prompt, "completion_tokens": generated,
            "total_tokens": prompt + generated}


def event(body: Mapping[str, Any]) -> bytes:
    """A server-sent event."""
    return b"data: " + json.dumps(body, separators=(",", ":")).encode() + b"\n\n"


END = b"data: [DONE]\n\n"
