"""models: language models as modules of one artifact.  Needs aot; optional packages: gguf,
tokenizers.

  settings.py  what the settings of all models share: do they agree with the arrays?
  config.py    sizes of a Llama-shaped model, from config.json or GGUF; which arrays it has
  files.py     weights from .safetensors and .gguf
  bert.py      the encoder: embeddings of texts
  llama.py     the module: prefill and decode with caches of fixed capacity
  sampling.py  the next token: greedy, temperature, top-k, top-p
  generate.py  tokens of a session, one after another
  tokens.py    text to tokens and back

Start reading at llama.Llama.
"""
from calque.models.bert import Bert, BertConfig
from calque.models.config import LlamaConfig
from calque.models.files import Loaded, load
from calque.models.generate import CacheFull, generate
from calque.models.llama import Llama
from calque.models.sampling import sample
from calque.models.settings import MissingPackage, ModelError
from calque.models.tokens import tokenizer

__all__ = ["Bert", "BertConfig", "CacheFull", "Llama", "LlamaConfig", "Loaded",
           "MissingPackage", "ModelError", "generate", "load", "sample", "tokenizer"]


def __dir__() -> list[str]:
    return __all__
