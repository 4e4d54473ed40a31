"""calque.runtime.serving: artifacts over HTTP; needs aiohttp and prometheus-client, no compiler.

Module map: settings.py (where to listen, limits), errors.py (what is answered instead of a
result), entries.py (an artifact's functions by name), tensors.py (bodies of the Open Inference
Protocol), batching.py (which calls may be one), scheduler.py (when they run, and in which thread),
sequences.py (states of modules by their clients' identifiers), engine.py (continuous batching of a
language model), text.py (tokens to text as they come), completions.py (bodies in OpenAI's shape),
generating.py (from those to the engine), metrics.py (what is counted), served.py (all of this of
one artifact), app.py (paths and answers), server.py (listen, end).
`python -m calque.runtime.serving FILE.vmfb` serves where calque-runtime alone is installed.
Start reading at served.py, then app.py.
"""
from __future__ import annotations

from calque.runtime.errors import explain

try:
    from calque.runtime.serving.served import Served
    from calque.runtime.serving.server import running, serve
except ModuleNotFoundError as error:
    if error.name not in ("aiohttp", "prometheus_client"):
        raise
    raise ModuleNotFoundError(explain(
        f"serving takes the packages aiohttp and prometheus-client; there is no {error.name}.",
        "calque.runtime.serving", "pip install 'calque[serve]' (or 'calque-runtime[serve]')."),
        name=error.name) from None
from calque.runtime.serving.errors import RequestError
from calque.runtime.serving.settings import Settings, SettingsError

__all__ = ["RequestError", "Served", "Settings", "SettingsError", "running", "serve"]


def __dir__() -> list[str]:
    return __all__
