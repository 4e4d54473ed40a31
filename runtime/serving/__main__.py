"""`python -m calque.runtime.serving FILE.vmfb`: what `calque serve` does with an artifact, where
calque-runtime alone is installed."""
from __future__ import annotations

import argparse
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

from calque.runtime import ArtifactError, load
from calque.runtime.serving import Served, Settings, SettingsError, serve


def main(words: list[str]) -> int:
    """Serve a file; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m calque.runtime.serving",
                                     description="Serve an artifact over HTTP.")
    parser.add_argument("file", type=Path, metavar="FILE.vmfb")
    parser.add_argument("--name", default="", help="under which it is served: the file's")
    parser.add_argument("--parameters", type=Path, metavar="FILE.irpa",
                        help="the archive of its parameters; by default the one beside the file")
    parser.add_argument("--tokenizer", type=Path, metavar="FILE.json",
                        help="the tokenizer of a language model (the package tokenizers)")
    for f in fields(Settings):
        flag = f"--{f.name.replace('_', '-')}"
        if isinstance(f.default, bool):
            parser.add_argument(flag, default=f.default, action=argparse.BooleanOptionalAction)
        else:
            about = f.metadata.get("about", "where to listen")
            parser.add_argument(flag, type=type(f.default), default=f.default,
                                help=f"{about} ({f.default})")
    given = vars(parser.parse_args(words))
    file, name, parameters, tokenizer = (given.pop(n) for n in (
        "file", "name", "parameters", "tokenizer"))
    try:
        settings = Settings(**given)
        served = Served(load(file, parameters=parameters), name or file.stem, settings,
                        None if tokenizer is None else _tokenizer(tokenizer))
        finished = serve(served, lambda url: print(served.told(url), flush=True))
    except (ArtifactError, SettingsError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0 if finished else 1


def _tokenizer(path: Path) -> Any:
    import tokenizers
    return tokenizers.Tokenizer.from_file(str(path))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
