"""lax: the strict layer under calque.numpy.  Functions take arrays and scalars of equal dtype and
bind one primitive each; nothing is promoted and no list is accepted.  Map:

  operands.py     what is an operand, an axis, a shape; docstrings of table rows
  elementwise.py  arithmetic, exp to erf, comparison, bits, complex, convert, select, clamp
  special.py      lgamma to betainc, bessel_i0e, mulhi
  make.py         full, iota, ...
  shape.py        reshape, transpose, broadcast, squeeze, ...; stop_gradient
  cut.py          concatenate, slice, pad, rev, split, tile
  reductions.py   reduce_sum ... argmin
  window.py       reduce, reduce_window, reduce_precision
  cumulative.py   cumsum ... cumlogsumexp, associative_scan
  gather.py       gather, index_take, GatherDimensionNumbers, GatherScatterMode
  scatter.py      scatter, scatter_add ... scatter_apply
  sort.py         sort, sort_key_val, top_k
  index.py        dynamic_slice, dynamic_update_slice and their one-axis forms
  conv.py         conv_general_dilated, conv, conv_transpose, patches, local
  fourier.py      fft, FftType
  contract.py     dot_general, dot, batch_matmul, Precision
  dots.py         ragged_dot, ragged_dot_general, scaled_dot
  generator.py    rng_bit_generator, rng_uniform
  staging.py      optimization_barrier, composite, platform_dependent, stage
  tokens.py       create_token, after_all
  composed.py     split_p, stack_p, ...: what is a primitive in JAX and a function here
  linalg.py       (lax.linalg) cholesky, triangular_solve, lu; decompositions.py: eigh, svd, qr, ...
  implicit.py     custom_root, custom_linear_solve
  parallel.py     collectives: psum, all_gather, ..., within groups too (grouped.py)
  varying.py      pbroadcast, pcast, ragged_all_to_all
  (shardings)     calque.dispatch.sharded.constraints
  (control flow)  calque.api.control
"""
import types as _types

from calque.api.control import cond as cond
from calque.api.control import map as map
from calque.api.control import scan as scan
from calque.api.control import switch as switch
from calque.api.loops import fori_loop as fori_loop
from calque.api.loops import while_loop as while_loop
from calque.core.refused import refusing as _refusing
from calque.dispatch.sharded.constraints import with_sharding_constraint as with_sharding_constraint
from calque.lax import linalg as linalg
from calque.lax.contract import *  # noqa: F403
from calque.lax.conv import *  # noqa: F403
from calque.lax.cumulative import *  # noqa: F403
from calque.lax.cut import *  # noqa: F403
from calque.lax.dots import *  # noqa: F403
from calque.lax.elementwise import *  # noqa: F403
from calque.lax.fourier import *  # noqa: F403
from calque.lax.gather import *  # noqa: F403
from calque.lax.generator import *  # noqa: F403
from calque.lax.implicit import *  # noqa: F403
from calque.lax.index import *  # noqa: F403
from calque.lax.make import *  # noqa: F403
from calque.lax.parallel import *  # noqa: F403
from calque.lax.reductions import *  # noqa: F403
from calque.lax.scatter import *  # noqa: F403
from calque.lax.shape import *  # noqa: F403
from calque.lax.sort import *  # noqa: F403
from calque.lax.special import *  # noqa: F403
from calque.lax.staging import *  # noqa: F403
from calque.lax.tokens import *  # noqa: F403
from calque.lax.varying import *  # noqa: F403
from calque.lax.window import *  # noqa: F403

__all__ = sorted(n for n, v in globals().items()
                 if not n.startswith("_") and not isinstance(v, _types.ModuleType))


def __dir__() -> list[str]:
    return __all__


_missing = _refusing(__name__)


def __getattr__(name: str) -> object:
    """add_p and its like: the primitives by JAX's names."""
    from calque.core.primitive import registry
    from calque.lax.composed import COMPOSED
    if name.endswith("_p"):
        short = {"linear_solve_p": "custom_linear_solve"}.get(name, name[:-2])
        for found in (short, short.replace("_", "-")):
            if found in registry:
                return registry[found]
        if short in COMPOSED:
            return COMPOSED[short]
    return _missing(name)
