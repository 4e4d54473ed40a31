"""What a server serves: an artifact's functions, which of them are batched, and a language model's
engine.

Start reading at `Served`.
"""
from __future__ import annotations

import time
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from calque.runtime.aot import Artifact
from calque.runtime.generation import is_language_model
from calque.runtime.serving.batching import Batching, batching_of, rows_are_independent
from calque.runtime.serving.engine import Engine
from calque.runtime.serving.entries import Entry, entries_of
from calque.runtime.serving.generating import Generator
from calque.runtime.serving.metrics import Metrics
from calque.runtime.serving.scheduler import Scheduler
from calque.runtime.serving.sequences import Sequences
from calque.runtime.serving.settings import Settings
from calque.runtime.serving.text import Words
from calque.runtime.session import INITIAL_STATE

_OF_MODELS = ("prefill", "decode", "clear")


class Served:
    """An artifact that is ready to be served: its programs are loaded and tried.

    Attributes:
      name: the model's.
      settings: the limits.
      entries: functions, by name.
      batchings: of those that are batched.
      generator: of a language model; None of others.
      notes: a line for each function: how it is called.

    Args:
      artifact: what `calque.runtime.load` gave.
      name: under which it is served.
      settings: the limits.
      tokenizer: a `tokenizers.Tokenizer`, of a language model.
      bos: the token that begins a text, where the tokenizer does not put it.

    Example:
      >>> from calque import aot, runtime
      >>> import calque.numpy as jnp
      >>> from calque.runtime import serving
      >>> artifact = runtime.load(aot.compile(jnp.negative, "f32[b,2]").vmfb)
      >>> served = serving.Served(artifact, "model", serving.Settings())
      >>> served.notes
      ['negative: batches of up to 64 rows']
      >>> served.close()
    """

    def __init__(self, artifact: Artifact, name: str, settings: Settings, tokenizer: Any = None,
                 bos: int | None = None) -> None:
        self.artifact = artifact
        self.name = name
        self.settings = settings
        self.created = int(time.time())
        self.version = _version()
        self.metrics = Metrics()
        self.notes: list[str] = []
        self.generator: Generator | None = None
        self.entries = entries_of(artifact)
        if is_language_model(artifact):
            for function in _OF_MODELS:
                del self.entries[function]
            engine = Engine(artifact, self.metrics, settings.max_queue, settings.sessions)
            self.generator = Generator(engine, None if tokenizer is None else Words(tokenizer, bos))
            self.notes.append(
                f"{name}: completions, {engine.slots * settings.sessions} sequences of up to "
                f"{engine.capacity} tokens at a time"
                + ("" if tokenizer is not None else "; tokens only, there is no tokenizer"))
        self.batchings: dict[str, Batching] = {}
        for entry in self.entries.values():
            self.notes.append(f"{entry.name}: {self._tried(entry)}")
        self.scheduler = Scheduler(settings, self.batchings, self.metrics)
        has_state = INITIAL_STATE in artifact.functions and self.generator is None
        self.sequences = Sequences(artifact, settings.max_sessions) if has_state else None

    def _tried(self, entry: Entry) -> str:
        """Find out whether calls of a function may be one; how it is called."""
        if entry.has_state:
            return "a state for each sequence"
        batching = batching_of(entry, self.settings.max_batch) if self.settings.batching else None
        if batching is None:
            return "one by one"
        try:
            independent = rows_are_independent(batching)
        except RuntimeError as error:  # it fails for random rows, or for lack of memory
            return f"one by one; a batch could not be tried: {str(error).splitlines()[0]}"
        if not independent:
            return "one by one; " + ("its rows depend on each other" if independent is False else
                                     "no sizes were found to try a batch with")
        self.batchings[entry.name] = batching
        sizes = sorted({n for found in batching.sizes.values() for n in found})
        return (f"batches of up to {batching.limit} rows"
                + (f", programs for {', '.join(map(str, sizes))}" if sizes else "")
                + (" and any" if sizes and batching.any_size else ""))

    def told(self, url: str) -> str:
        """What is written when it is served: the address, and how each function is called."""
        return "\n".join([f"serving {self.name} at {url}", *[f"  {n}" for n in self.notes]])

    def close(self) -> None:
        """End its threads."""
        if self.generator is not None:
            self.generator.engine.close()
        self.scheduler.close()


def _version() -> str:
    for package in ("calque", "calque-runtime"):
        try:
            return version(package)
        except PackageNotFoundError:
            continue
    return ""
