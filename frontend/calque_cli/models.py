"""calque generate: language models, from their own files or as artifacts.

Start reading at `generate_text`.
"""
from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

import calque
from calque import aot, models
from calque.core.blocks import ACTIVATIONS
from calque.lowering.target.targets import Target, portable_target
from calque.nn.quantized import MADE
from calque.runtime import Artifact
from calque_cli.report import UsageError, progress, size_text


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are chosen, and how many."""

    most: int
    temperature: float
    top_k: int
    top_p: float
    seed: int


def generate_text(model: Path, prompt: str, tokens: str, sampling: Sampling, capacity: int,
                  sequences: int, tokenizer: Path | None, quantize: str, activations: str,
                  save: Path | None,
                  targets: Sequence[Target]) -> None:
    """Print what a model writes behind a prompt, as it comes."""
    if (prompt != "") == (tokens != "") and not (save and not prompt and not tokens):
        raise UsageError("a prompt is wanted, as text or as tokens.",
                         "give --prompt TEXT, or --tokens 1,15043.")
    artifact, loaded = load_model(model, capacity, sequences, quantize, activations, save,
                                  targets)
    if save is not None and not prompt and not tokens:
        return
    session = artifact.session()
    words = None
    if prompt or tokenizer is not None or loaded is not None:
        words = _tokenizer(tokenizer or loaded or model, needed=bool(prompt))
    bos = None if loaded is None else getattr(loaded.config, "bos", None)
    given = _numbers(tokens) if tokens else _encoded(words, prompt, bos)
    begin = time.perf_counter()
    made: list[int] = []
    shown, first = "", 0.0
    for token in models.generate(session, given, most=sampling.most, seed=sampling.seed,
                                 temperature=sampling.temperature, top_k=sampling.top_k,
                                 top_p=sampling.top_p):
        first = first or time.perf_counter()
        made.append(token)
        if words is None:
            typer.echo(("" if len(made) == 1 else " ") + str(token), nl=False)
            continue
        text = words.decode(made)
        if not text.endswith("\ufffd"):  # half a character
            typer.echo(text[len(shown):], nl=False)
            shown = text
    typer.echo("")
    if len(made) > 1 and sys.stderr.isatty():
        rate = (len(made) - 1) / (time.perf_counter() - first)
        typer.echo(f"{len(given)} tokens read in {first - begin:.2f} s, then {rate:.1f} tokens a "
                   "second", err=True)


def load_model(model: Path, capacity: int, sequences: int, quantize: str, activations: str,
               save: Path | None = None, targets: Sequence[Target] = (),
               parameters: Path | None = None) -> tuple[Artifact, models.Loaded | None]:
    """An artifact, or a model's own files, which are compiled."""
    if model.suffix == ".vmfb":
        if save is not None or quantize:
            raise UsageError(f"{model} is compiled already.", "leave --save and --quantize away.")
        return aot.load(model, parameters=parameters), None
    if activations not in ACTIVATIONS:
        raise UsageError(f"--activations {activations}: it is none of {', '.join(ACTIVATIONS)}.",
                         "give one of them.")
    loaded = models.load(model, activations=activations)
    if not isinstance(loaded.config, models.LlamaConfig):
        raise UsageError(f"{model} is an encoder, which generates no text.",
                         "give a Llama-shaped model; models.Bert embeds texts.")
    weights = loaded.weights
    if quantize:
        if quantize not in MADE:
            raise UsageError(f"--quantize {quantize}: it is none of {', '.join(MADE)}.",
                             "give one of them.")
        weights = calque.quantize(weights, quantize, axis=1, activations=activations)
    with progress("compiling") as advance:
        advance("compiling")
        llama = models.Llama(loaded.config, weights, sequences=sequences, capacity=capacity)
        artifact = llama.compile(targets=targets or ([portable_target()] if save else ["cpu"]))
    if save is not None:
        artifact.save(save)
        typer.echo(f"wrote {save} for {', '.join(artifact.targets)} "
                   f"({size_text(save.stat().st_size)})")
        if artifact.parameters:
            beside = save.with_suffix(".irpa")
            typer.echo(f"wrote {beside}: {len(artifact.parameters)} parameters "
                       f"({size_text(beside.stat().st_size)})")
        return aot.load(save), loaded
    return aot.load(artifact), loaded


def _tokenizer(of: Any, needed: bool) -> Any:
    try:
        return models.tokenizer(of)
    except (models.ModelError, models.MissingPackage):
        if needed or not isinstance(of, models.Loaded):
            raise
        return None  # tokens in, tokens out


def optional_tokenizer(given: Path | None, of: models.Loaded | Path) -> Any:
    """The tokenizer that is given, or the model's own; None where it has none."""
    if given is not None:
        return models.tokenizer(given)
    try:
        return models.tokenizer(of)
    except (models.ModelError, models.MissingPackage):
        return None  # tokens in, tokens out


def _encoded(words: Any, prompt: str, bos: int | None) -> list[int]:
    made = list(words.encode(prompt).ids)
    return made if bos is None or made[:1] == [bos] else [bos, *made]


def _numbers(tokens: str) -> list[int]:
    try:
        return [int(t) for t in tokens.replace(",", " ").split()]
    except ValueError:
        raise UsageError(f"--tokens {tokens!r} are no numbers.",
                         "write them like --tokens 1,15043,29892.") from None
