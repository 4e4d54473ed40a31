"""Text to tokens and back, by the package tokenizers.  Start reading at `tokenizer`."""
from __future__ import annotations

from pathlib import Path
from typing import Any

from calque.core.errors import explain
from calque.models.files import Loaded
from calque.models.settings import MissingPackage, ModelError

_SPACE = "\u2581"  # stands for a space in pieces of sentencepiece
# What cuts a text into words before pairs are merged, by the name that GGUF has for it.
_WORDS = {"gpt-2": None, "default": None, "llama-bpe": (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
    r"\s*[\r\n]+|\s+(?!\S)|\s+")}


def tokenizer(model: Loaded | str | Path) -> Any:
    """The tokenizer of a model.

    Args:
      model: what `load` gave, a tokenizer.json, or the folder of one.

    Returns:
      A `tokenizers.Tokenizer`: `encode(text).ids`, `decode(ids)`.

    Raises:
      ModelError: there is none, or one of a kind that is not supported.
      MissingPackage: the package tokenizers is not installed.

    Example:
      >>> from calque import models
      >>> try:
      ...     models.tokenizer("no_such_folder")
      ... except (models.ModelError, models.MissingPackage) as error:
      ...     print(str(error).splitlines()[-1].split(",")[-1])
       or give tokens.
    """
    try:
        import tokenizers
    except ModuleNotFoundError:
        raise MissingPackage(explain(
            "text takes the package tokenizers.", "models.tokenizer",
            "pip install 'calque[models]', or give tokens."), name="tokenizers") from None
    if isinstance(model, Loaded) and model.settings:
        return _of_gguf(tokenizers, model)
    path = model.path if isinstance(model, Loaded) else Path(model)
    if path.suffix != ".json":
        path = (path if path.is_dir() else path.parent) / "tokenizer.json"
    if not path.is_file():
        raise ModelError(explain(f"there is no {path}.", "models.tokenizer",
                                 "put the model's tokenizer.json there, or give tokens."))
    try:
        return tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the package raises Exception itself
        raise ModelError(explain(f"{path} cannot be read: {error}.", "models.tokenizer",
                                 "copy it again.")) from None


def _of_gguf(tokenizers: Any, model: Loaded) -> Any:
    """A tokenizer of pairs (BPE) from the settings of a GGUF file."""
    said = {k.removeprefix("tokenizer.ggml."): v for k, v in model.settings.items()
            if k.startswith("tokenizer.ggml.")}
    kind, words = said.get("model"), said.get("tokens")
    if not isinstance(words, list) or kind not in ("gpt2", "llama"):
        raise ModelError(explain(
            "the file has no tokenizer." if words is None else
            f"the file's tokenizer is of the kind {kind!r}.", str(model.path),
            "give a tokenizer.json (--tokenizer), or tokens."))
    vocabulary = {w: i for i, w in enumerate(words)}
    types = said.get("token_type") or [1] * len(words)
    try:
        made = (_of_bytes(tokenizers, model, said, vocabulary) if kind == "gpt2" else
                _of_pieces(tokenizers, said, vocabulary, words))
        made.add_special_tokens([tokenizers.AddedToken(w, special=True, normalized=False)
                                 for w, t in zip(words, types) if t == 3])
        return made
    except ModelError:
        raise
    except Exception as error:  # the package raises Exception itself
        raise ModelError(explain(f"the file's tokenizer cannot be made: {error}.", str(model.path),
                                 "give a tokenizer.json (--tokenizer), or tokens.")) from None


def _of_bytes(tokenizers: Any, model: Loaded, said: Any, vocabulary: dict[str, int]) -> Any:
    """Pairs of bytes, as GPT-2 and Llama 3 have them."""
    cut = said.get("pre", "default")
    if cut not in _WORDS:
        raise ModelError(explain(
            f"the file's tokenizer cuts words as {cut!r}.", str(model.path),
            "give a tokenizer.json (--tokenizer), or tokens."))
    merges = [tuple(m.split(" ", 1)) for m in said.get("merges", ())]
    made = tokenizers.Tokenizer(tokenizers.models.BPE(
        vocabulary, merges, ignore_merges=cut == "llama-bpe"))
    pattern = _WORDS[cut]
    pre = tokenizers.pre_tokenizers
    by_bytes = pre.ByteLevel(add_prefix_space=False, use_regex=pattern is None)
    made.pre_tokenizer = by_bytes if pattern is None else pre.Sequence(
        [pre.Split(tokenizers.Regex(pattern), "isolated"), by_bytes])
    made.decoder = tokenizers.decoders.ByteLevel()
    return made


def _of_pieces(tokenizers: Any, said: Any, vocabulary: dict[str, int], words: list[str]) -> Any:
    """Pieces of sentencepiece: the pair whose piece has the best score is merged first."""
    scores = said.get("scores") or [0.0] * len(words)
    merges = []
    for word, i in vocabulary.items():
        merges += [(-scores[i], i, (word[:k], word[k:])) for k in range(1, len(word))
                   if word[:k] in vocabulary and word[k:] in vocabulary]
    made = tokenizers.Tokenizer(tokenizers.models.BPE(
        vocabulary, [pair for *_, pair in sorted(merges, key=lambda m: m[:2])], byte_fallback=True,
        fuse_unk=True, unk_token=words[int(said.get("unknown_token_id", 0))]))
    parts = tokenizers.normalizers
    made.normalizer = parts.Sequence(
        [*([parts.Prepend(_SPACE)] if said.get("add_space_prefix", True) else []),
         parts.Replace(" ", _SPACE)])
    ways = tokenizers.decoders
    made.decoder = ways.Sequence([ways.Replace(_SPACE, " "), ways.ByteFallback(), ways.Fuse(),
                                  *([ways.Strip(" ", 1, 0)]
                                    if said.get("add_space_prefix", True) else [])])
    return made
