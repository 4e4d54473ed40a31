"""nn: functions of neural networks.  Map:

  activations.py   relu, gelu, silu, softplus, ...
  normalize.py     logsumexp, softmax, log_softmax, standardize, one_hot
  attention.py     dot_product_attention
  scaled.py        scaled_matmul, scaled_dot_general: products of operands in few bits
  quantized.py     calque.quantize, calque.QuantizedArray: matrices of a few bits
  initializers.py  (nn.initializers) glorot_normal, he_uniform, orthogonal, ...
"""
import types as _types

from calque.nn import initializers as initializers
from calque.nn.activations import *  # noqa: F403
from calque.nn.attention import *  # noqa: F403
from calque.nn.normalize import *  # noqa: F403
from calque.nn.scaled import *  # noqa: F403

__all__ = sorted([*(n for n, v in globals().items() if not n.startswith("_")
                    and not isinstance(v, _types.ModuleType)), "initializers"])
for _public in map(globals().get, __all__):  # where users look for them
    if isinstance(_public, _types.FunctionType):
        _public.__module__ = __name__


def __dir__() -> list[str]:
    return __all__
