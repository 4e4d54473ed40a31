"""calque serve: an artifact or a language model over HTTP.

Start reading at `serve_model`; the server itself is calque.runtime.serving.
"""
from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import typer

from calque_cli.report import RunError, UsageError


def serve_model(model: Path, name: str, options: dict[str, Any], parameters: Path | None,
                tokenizer: Path | None, capacity: int, sequences: int, quantize: str,
                activations: str) -> None:
    """Serve until a signal says to end; exit code 1 where requests were cut off."""
    missing = [p for p in ("aiohttp", "prometheus_client") if importlib.util.find_spec(p) is None]
    if missing:
        raise UsageError(f"serving takes the packages aiohttp and prometheus-client; there is no "
                         f"{missing[0]}.", "pip install 'calque[serve]'.")
    from calque.runtime.serving import Served, Settings, SettingsError, serve
    from calque_cli.models import load_model, optional_tokenizer
    try:
        settings = Settings(**options)
        artifact, loaded = load_model(model, capacity, sequences, quantize, activations,
                                      parameters=parameters)
        words = optional_tokenizer(tokenizer, loaded or model)
        served = Served(artifact, name or model.stem, settings, words,
                        getattr(getattr(loaded, "config", None), "bos", None))
        finished = serve(served, lambda url: typer.echo(served.told(url)))
    except SettingsError as error:
        what, *rest = str(error).split("\n  Fix: ")
        raise UsageError(what, "".join(rest)) from None
    if not finished:
        raise RunError("the server has ended before all requests were answered.\n"
                       "  Fix: give them more time, --grace-s.")
