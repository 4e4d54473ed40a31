"""What a drawn line of `numpy`, `numpy.linalg` and `numpy.fft` looks like (see fuzz_api_draw.py).

A recipe is the text of a call; what stands in braces is evaluated by the draw (`Draw` lists the
words: x is an array, mate an operand that broadcasts, i an integer, ...); @ is the name itself.
Imports nothing.  Start reading at `family`.
"""
from __future__ import annotations

import re

RECIPES: dict[str, list[str]] = {}
NOT_DRAWN: dict[str, str] = {}  # name -> why no line calls it


def family(prefix: str, names: str, *templates: str) -> None:
    """The same lines for several names."""
    for n in names.split():
        full = f"{prefix}.{n}"
        RECIPES.setdefault(full, []).extend(
            re.sub(r"@(?=[(\[])", full, t) for t in templates)


def left_out(prefix: str, why: str, names: str) -> None:
    for n in names.split():
        NOT_DRAWN[f"{prefix}.{n}"] = why


# ---- elementwise
family("jnp", "sin cos tan tanh sinh cosh arcsin asin arccos acos arctan atan arcsinh asinh "
       "arccosh acosh arctanh atanh exp expm1 exp2 log log1p log2 log10 sqrt square "
       "reciprocal sinc abs absolute negative positive sign conj conjugate real imag angle "
       "isfinite isnan isinf iscomplex isreal nan_to_num round around", "@({x(A)})", "@({x('fc')})")
family("jnp", "cbrt ceil floor trunc rint fabs i0 signbit deg2rad rad2deg degrees radians "
       "isneginf isposinf spacing", "@({x('fiu')})", "@({x('f')})")
family("jnp", "logical_not", "@({x(A)})")
family("jnp", "invert bitwise_not bitwise_invert bitwise_count", "@({x('iub')})")
family("jnp", "add subtract multiply divide true_divide power pow float_power",
       "@({x(A)}, {mate(A)})", "@({x('fc')}, {mate('fc')})", "@({mate(A)}, {x(A)})")
family("jnp", "maximum minimum equal not_equal less less_equal greater greater_equal logical_and "
       "logical_or logical_xor", "@({x(A)}, {mate(A)})", "@({x('fiu')}, {mate('fiu')})")
family("jnp", "floor_divide remainder mod fmod fmax fmin divmod", "@({x('fiu')}, {mate('fiu')})")
family("jnp", "arctan2 atan2 hypot copysign logaddexp logaddexp2 heaviside nextafter",
       "@({x('fiu')}, {mate('fiu')})", "@({x('f')}, {mate('f')})")
family("jnp", "bitwise_and bitwise_or bitwise_xor", "@({x('iub')}, {mate('iub')})")
family("jnp", "left_shift right_shift bitwise_left_shift bitwise_right_shift",
       "@({x('iu')}, {mate('iu')})", "@({x('iu')}, {i(0, 9)})")
# (JAX 0.10.2 never returns from gcd of the smallest integer)
family("jnp", "gcd lcm", "@({x('iu')} % 97, {same()} % 97)", "@({x('iu')} % 13, {i(0, 9)})")
family("jnp", "ldexp", "@({x('f')}, {mate('i')})", "@({x('f')}, {i(-3, 4)})")
family("jnp", "frexp modf", "@({x('f')})")
family("jnp", "clip", "@({x('fiu')}, {i(-2, 1)}, {i(1, 4)})", "@({x('fiu')}, min={mate('fiu')})",
       "@({x('fiu')}, {mate('fiu')}, {mate('fiu')})", "@({x('fiu')}, max={num()})")
family("jnp", "where", "@({x('b')}, {mate(A)}, {mate(A)})", "@({x(A)} > 0, {like(0)}, {num()})",
       "@({x('fiu')} > {mate('fiu')}, {mate(A)}, {mate(A)})")
family("jnp", "select", "@([{x('b')}, {same()}], [{mate('f')}, {mate('f')}], default={num()})")
family("jnp", "choose",
       "@({x('i')}, [{mate('f')}, {mate('f')}, {mate('i')}], mode={one('clip', 'wrap')})")
family("jnp", "piecewise", "@({x('f')}, [{p[0]} < 0, {p[0]} > 1], [lambda t: t * 2, 0.5, jnp.sin])")
family("jnp", "isclose", "@({x('fiuc')}, {mate('fiuc')}, rtol={one(.1, .5)})",
       "@({x('f')}, {mate('f')}, equal_nan=True)")
family("jnp", "allclose array_equal array_equiv", "@({x('fiuc')}, {mate('fiuc')})",
       "@({x(A)}, {p[0]})")
family("jnp", "unwrap", "@({x('f', '1+', nz=1)}, axis={axis()})",
       "@({x('f', 1)}, period={one(2., 4.)})")
family("jnp", "interp", "@({x('f')}, {ramp('f', 5)}, {arr((5,), 'f')})",
       "@({x('fi')}, {ramp('f', 7)}, {arr((7,), 'f')}, left={num()}, right={num()})",
       "@({x('f')}, {ramp('f', 4)}, {arr((4,), 'f')}, period=3.0)")
family("jnp", "copy", "@({x(A)})")
family("jnp", "astype", "@({x(A)}, {dt(A)})")
family("jnp", "iscomplexobj isrealobj isscalar ndim", "jnp.asarray(@({x(A)}))")
family("jnp", "size", "jnp.asarray(@({x(A)}))", "jnp.asarray(@({x(A, '1+')}, {axis()}))")
family("jnp", "shape", "jnp.asarray(@({x(A, '1+')}))")
family("jnp", "asarray array", "@({x(A)}, {dt(A)})", "@({x(A)})",
       "@([{num()}, {x('f', 0)}, {i(0, 5)}])", "@({x(A, 1)}, copy={b()})")
family("jnp", "array", "@({x(A, 1)}, ndmin={i(0, 3)})")

# ---- reductions
RED = ("@({x(A)}, axis={ax()})", "@({x('fc', '1+')}, axis={axis()}, keepdims={b()})",
       "@({x(A)})", "@({x('fiu', '2+')}, axis={ax()}, where={x('fiu', '2+', of=0)} > 0)")
family("jnp", "sum prod", *RED, "@({x(A)}, dtype={dt('fiuc')})", "@({x('f')}, initial={num()})",
       "@({x('iub')}, axis={ax()}, dtype={dt('fi')})")
family("jnp", "mean nansum nanprod", *RED, "@({x('fiu')}, dtype={dt('fc')})")
family("jnp", "all any", *RED[:3])
family("jnp", "std var nanstd nanvar", "@({x('fc')}, axis={ax()})", "@({x(A)}, ddof={i(0, 1)})",
       "@({x('f', '1+')}, axis={axis()}, correction={one(0, 1, .5)})")
family("jnp", "nanmean", *RED[:3])
family("jnp", "max min amax amin nanmax nanmin ptp", "@({x(A, nz=1)}, axis={ax()})",
       "@({x('fiu', '1+', nz=1)}, axis={axis()}, keepdims={b()})", "@({x(A)})")
family("jnp", "minmax", "@({x(A, nz=1)}, axis={ax()})[{i(0, 2)}]")
family("jnp", "max min nanmax nanmin", "@({x('fiu')}, initial={i(0, 3)}, axis={ax()})",
       "@({x('f', nz=1)}, initial=0.5, where={x('f', of=0)} > 0)")
family("jnp", "argmax argmin nanargmax nanargmin", "@({x('fiub', nz=1)})",
       "@({x('fiu', '1+', nz=1)}, axis={axis()}, keepdims={b()})")
family("jnp", "median nanmedian", "@({x('fiu', nz=1)}, axis={ax()})",
       "@({x('f', '1+', nz=1)}, axis={axis()})")
family("jnp", "quantile nanquantile",
       "@({x('fiu', nz=1)}, {one(0., .3, 1.)}, axis={ax()}, method={qmethod()})",
       "@({x('f', '1+', nz=1)}, jnp.array([.25, .7]), axis={axis()}, keepdims={b()})")
family("jnp", "percentile nanpercentile",
       "@({x('fiu', nz=1)}, {one(0, 30, 50., 100)}, axis={ax()}, method={qmethod()})")
family("jnp", "average", "@({x('fiuc', nz=1)}, axis={ax()})",
       "@({x('f', '1+', nz=1)}, axis={axis()}, weights={vec('f')})")
family("jnp", "count_nonzero", "@({x(A)}, axis={ax()})")
family("jnp", "cumsum cumprod nancumsum nancumprod", "@({x(A)})", "@({x(A, '1+')}, axis={axis()})",
       "@({x('iub', '1+')}, axis={axis()}, dtype={dt('fi')})")
family("jnp", "cumulative_sum cumulative_prod",
       "@({x(A, '1+')}, axis={axis()}, include_initial={b()})",
       "@({x('fiu', 1)}, dtype={dt('fic')})")
family("jnp", "diff", "@({x(A, '1+')}, axis={axis()})",
       "@({x('fiu', '1+')}, n={i(0, 3)}, axis={axis()})",
       "@({x('f', 1)}, prepend={num()}, append={num()})")
family("jnp", "ediff1d", "@({x('fiu')})", "@({x('f', 1)}, to_begin={num()}, to_end=0.5)")
family("jnp", "gradient", "@({x('f', 1, ge=2)})", "@({x('f', 2, ge=2)}, axis={axis()})",
       "@({x('f', 1, ge=3)}, {num()})")
family("jnp", "trapezoid", "@({x('fi', '1+')}, axis={axis()})", "@({x('f', 1)}, dx=0.5)",
       "@({x('f', 1)}, {same()})")
family("jnp", "corrcoef cov", "@({x('f', 2, ge=2)})", "@({x('fc', 2, ge=2)}, rowvar={b()})")
family("jnp", "cov", "@({x('f', 1, ge=2)}, ddof={i(0, 1)})")

# ---- shapes
family("jnp", "reshape", "@({x(A)}, {factors()})", "@({x(A)}, -1, order={one('C', 'F')})")
family("jnp", "ravel", "@({x(A)}, order={one('C', 'F')})")
family("jnp", "transpose permute_dims", "@({x(A)}, {perm()})", )
family("jnp", "matrix_transpose", "@({x(A, '2+')})")
family("jnp", "swapaxes", "@({x(A, '1+')}, {axis()}, {axis()})")
family("jnp", "moveaxis rollaxis", "@({x(A, '1+')}, {axis()}, {axis()})")
family("jnp", "expand_dims", "@({x(A)}, {i(-1, 0)})", "@({x(A)}, (0, -1))")
family("jnp", "squeeze", "@({x(A)})", "@({arr((1, 3, 1), A)}, axis={one(0, 2, -1, (0, 2))})")
family("jnp", "broadcast_to", "@({x(A)}, {wider()})")
family("jnp", "broadcast_arrays", "@({x(A)}, {mate(A)})")
family("jnp", "broadcast_shapes", "jnp.asarray(@({wider_of((3, 1))}, (1, 4)))")
family("jnp", "atleast_1d atleast_2d atleast_3d", "@({x(A)})")
family("jnp", "flip", "@({x(A, '1+')}, axis={ax()})")
family("jnp", "fliplr flipud", "@({x(A, '2+')})")
family("jnp", "roll", "@({x(A)}, {i(-3, 5)})", "@({x(A, '1+')}, {i(-3, 5)}, axis={axis()})",
       "@({x(A, 2)}, (1, {i(-2, 9)}), axis=(0, 1))",
       "@({x(A, '1+')}, {arr((), 'i')}, axis={axis()})")
family("jnp", "rot90", "@({x(A, '2+')}, k={i(-1, 4)})")
family("jnp", "tril triu", "@({x(A, '2+')}, k={i(-2, 2)})")
family("jnp", "concatenate concat", "@([{x(A, '1+')}, {cat()}], axis={axis()})",
       "@([{x(A, 1)}, {x(A, 1)}, {x(A, 1)}])")
family("jnp", "stack", "@([{x(A)}, {same()}], axis={i(-1, 0)})", "@([{x(A)}, {like(0)}])")
family("jnp", "hstack vstack dstack column_stack", "@([{x(A)}, {same()}])",
       "@(({x(A, 1)}, {p[0]}))")
family("jnp", "append", "@({x(A)}, {x(A)})", "@({x(A, '1+')}, {cat()}, axis={axis()})")
family("jnp", "split array_split", "@({x(A, '1+')}, [{i(0, 2)}, {i(2, 4)}], axis={axis()})",
       "@({x(A, 1)}, {i(1, 3)})")
family("jnp", "hsplit vsplit", "@({x(A, 2)}, [1])")
family("jnp", "dsplit", "@({x(A, 3)}, [1])")
family("jnp", "unstack", "@({x(A, '1+', le=4)}, axis={axis()})")
family("jnp", "tile", "@({x(A)}, {one(2, (2, 1), (1, 3), 0, (2,))})")
family("jnp", "repeat", "@({x(A)}, {i(0, 3)})", "@({x(A, '1+')}, {i(1, 3)}, axis={axis()})",
       "@({x(A, 1)}, {idx(3)}, total_repeat_length={i(1, 9)})")
family("jnp", "pad", "@({x(A)}, {i(0, 2)})",
       "@({x(A, 1, nz=1)}, ({i(0, 3)}, {i(0, 3)}), mode={padmode()})",
       "@({x('fiu', 2, nz=1)}, (({i(0, 2)}, 1), (0, {i(0, 2)})), mode={padmode()})",
       "@({x('fiuc', 1)}, (1, 2), constant_values={num()})")
family("jnp", "resize", "@({x(A)}, {one((3, 2), 7, (2, 2, 2))})")
family("jnp", "delete", "@({x(A, 1, ge=3)}, {one(0, 1, -1)})",
       "@({x(A, 2, ge=3)}, {i(0, 2)}, axis={axis()})")
family("jnp", "insert", "@({x(A, 1)}, 0, {num()})", "@({x('f', 2, ge=1)}, 1, 7, axis={axis()})")
family("jnp", "diag diagflat", "@({x(A, 1)}, k={i(-2, 2)})")
family("jnp", "diag", "@({x(A, 2)}, k={i(-1, 1)})")
family("jnp", "diagonal trace", "@({x(A, '2+')}, offset={i(-1, 2)})",
       "@({x('fiu', 3)}, axis1={one(0, 1)}, axis2=2)")
family("jnp", "fill_diagonal", "@({x(A, 2)}, {num()}, inplace=False)")
family("jnp", "apply_along_axis", "@(lambda t: t.sum() * 2, 0, {x('fi', '1+')})")
family("jnp", "apply_over_axes", "@(jnp.sum, {x('fi', 2)}, [0, 1])")
family("jnp", "vectorize",
       "@(lambda s, t: s * t.sum(), signature='(),(n)->()')({x('f', 1)}, {x('f', 1)})",
       "@(lambda s, t: s + t)({x('fiu')}, {mate('fiu')})")
family("jnp", "frompyfunc",
       "@(lambda s, t: jnp.maximum(s, t), 2, 1, identity=0).reduce({x('fi', '1+')})",
       "@(lambda s, t: s + 2 * t, 2, 1, identity=0).outer({x('f', 1, le=17)}, {x('f', 1, "
       "le=17)})")
family("jnp", "fromfunction",
       "@(lambda i, j: i * 10 + j, ({i(1, 4)}, {i(1, 5)}), dtype={dt('fi')})")

# ---- making
family("jnp", "zeros ones", "@({shape()}, {dt(A)})", "@({shape()})")
family("jnp", "full", "@({shape()}, {num()}, {dt('fiuc')})", "@({shape()}, {num()})",
       "@({shape()}, {x('f', 0)})")
family("jnp", "zeros_like ones_like", "@({x(A)})", "@({x(A)}, dtype={dt(A)})",
       "@({x(A)}, shape={shape()})")
family("jnp", "full_like", "@({x(A)}, {num()})", "@({x(A)}, {i(0, 5)}, dtype={dt('fiuc')})")
family("jnp", "eye", "@({i(0, 5)}, {i(1, 5)}, k={i(-2, 2)}, dtype={dt(A)})")
family("jnp", "identity", "@({i(0, 5)}, {dt('fiuc')})")
family("jnp", "tri", "@({i(0, 5)}, {i(1, 5)}, k={i(-2, 2)}, dtype={dt('fiu')})")
family("jnp", "arange", "@({size()}, dtype={dt('fiu')})",
       "@({i(-3, 3)}, {i(3, 9)}, {one(1, 2, .5)})", "@({size()})")
family("jnp", "linspace", "@({num()}, {num()}, {size()})",
       "@({x('f', 0)}, {num()}, {i(1, 9)}, endpoint={b()})",
       "@({x('f', 1, le=8)}, {same()}, 5, axis={i(-1, 0)})")
family("jnp", "logspace", "@({i(-2, 1)}, {i(1, 3)}, {i(1, 9)})")
family("jnp", "geomspace", "@({one(.5, 1, 2)}, {one(4, 9.)}, {i(1, 9)})")
family("jnp", "meshgrid", "@({x('fi', 1, le=17)}, {x('fi', 1, le=17)}, indexing={one('ij', 'xy')}, "
       "sparse={b()})")
family("jnp", "indices", "@(({i(1, 4)}, {i(1, 3)}), dtype={dt('fi')})")
family("jnp", "vander", "@({x('fiuc', 1, le=17)}, {i(0, 4)}, increasing={b()})")
family("jnp", "bartlett blackman hamming hanning", "@({size()})")
family("jnp", "kaiser", "@({size()}, {one(2., 8., 14.)})")
family("jnp", "tril_indices triu_indices", "@({i(0, 4)}, k={i(-1, 1)})")
family("jnp", "tril_indices_from triu_indices_from", "@({x('f', 2, le=8)})")
family("jnp", "diag_indices", "@({i(0, 5)})")
family("jnp", "diag_indices_from", "@({sq(A)})")
family("jnp", "mask_indices", "@(4, jnp.triu, size=10)")
family("jnp", "ix_", "@({idx(3)}, {idx(4)})")
family("jnp", "block", "@([[{x('fi', 2)}, {p[0]}], [{p[0]}, {p[0]} * 2]])")
family("jnp", "mgrid ogrid", "@[0:{i(1, 4)}, 1:{i(2, 5)}]")
family("jnp", "r_ c_", "@[{x('fi', 1)}, {p[0]}]")

# ---- products
family("jnp", "dot", "@({x(A)}, {dotmate()})", "@({x('fc', '1+')}, {dotmate()})")
family("jnp", "matmul", "@({x(A, '1+')}, {dotmate()})",
       "@({x('fiu', '1+')}, {dotmate()}, preferred_element_type={dt('f')})")
family("jnp", "vdot", "@({x(A, 1)}, {same()})", "@({x('fc', 1)}, {same()})")
family("jnp", "vecdot", "@({x('fiuc', '1+')}, {same()}, axis={axis()})")
family("jnp", "matvec", "@({x('fiuc', '2+')}, {vec('fiuc', -1)})")
family("jnp", "vecmat", "@({vec_of(5, 'fc')}, {arr((5, 3), 'fc')})")
family("jnp", "inner", "@({x(A, '1+')}, {same()})", "@({x('f', 1)}, {same()})")
family("jnp", "outer", "@({x(A, le=17)}, {x(A, le=17)})")
family("jnp", "kron", "@({x('fiuc', le=5)}, {x('fiuc', le=5)})")
family("jnp", "cross", "@({arr((4, 3), 'fi')}, {arr((4, 3), 'fi')})",
       "@({arr((2,), 'f')}, {arr((2,), 'f')})", "@({arr((3, 2), 'f')}, {arr((3, 2), 'f')}, axis=0)")
family("jnp", "tensordot",
       "@({x('fiuc', 2)}, {same()}, axes={one(2, '([0], [0])', '([1], [1])', '([0, 1], [0, "
       "1])')})")
family("jnp", "einsum", "@('ij,ij->i', {x('fiuc', 2)}, {same()})",
       "@('ij,kj->ik', {x('fc', 2)}, {same()})", "@('...i->...', {x(A, '1+')})",
       "@('ii->i', {sq('fiuc')})", "@('i,j->ji', {x('f', 1, le=17)}, {x('fi', 1, le=17)})",
       "@('ij,jk,kl->il', {arr((2, 3), 'f')}, {arr((3, 4), 'f')}, {arr((4, 2), 'f')})")
family("jnp", "convolve correlate",
       "@({x('fiuc', 1, nz=1)}, {x('fiuc', 1, nz=1, le=17)}, mode={one('full', 'same', "
       "'valid')})")
family("jnp", "polyval", "@({x('fc', 1, le=5)}, {x('fc')})",
       "@({x('f', 1, le=5)}, {x('fi')}, unroll={i(1, 16)})")
family("jnp", "polyadd polysub polymul", "@({x('fic', 1, nz=1)}, {x('fic', 1, nz=1)})")
family("jnp", "polyder", "@({x('fi', 1, ge=3)}, {i(0, 3)})")
family("jnp", "polyint", "@({x('fi', 1)}, {i(0, 3)})", "@({x('f', 1)}, k={num()})")
family("jnp", "polydiv", "@({lead('f', 5)}, {lead('f', 3)})")
family("jnp", "poly", "@({x('fc', 1, le=5)})", "@({sq('f', 3)})")
family("jnp", "roots", "jnp.sort(jnp.abs(@({lead('f', 4)}, strip_zeros=False)))")
family("jnp", "polyfit", "@({ramp('f', 8)}, {arr((8,), 'f')}, {i(0, 3)})")

# ---- picking
family("jnp", "take", "@({x(A, nz=1)}, {x('iu', le=17)}, mode={one('clip', 'wrap', 'fill')})",
       "@({x(A, '1+', nz=1)}, {idx(4)}, axis={axis()})",
       "@({x(A, '1+', nz=1)}, {x('iu', le=17)}, axis={axis()})")
family("jnp", "take_along_axis", "@({x(A, 1, nz=1)}, {x('iu', 1, le=17)}, axis=0)",
       "@({x('fiu', '1+', nz=1)}, jnp.argsort({p[0]}, axis=-1), axis=-1)")
family("jnp", "put",
       "@({x('fi', 1, nz=1)}, {idx(3)}, {arr((3,), 'f')}, inplace=False, mode={one('clip', "
       "'wrap')})")
family("jnp", "put_along_axis", "@({x('f', 1, nz=1)}, {idx(3)}, {num()}, axis=0, inplace=False)")
family("jnp", "place", "@({x('f', '1+', nz=1)}, {p[0]} > 0, {arr((2,), 'f')}, inplace=False)")
family("jnp", "compress", "@({arr((4,), 'b')}, {arr((4, 3), A)}, axis=0, size=2)")
family("jnp", "extract", "@({x('fi', nz=1)} > 0, {p[0]}, size=3, fill_value=7)")
family("jnp", "nonzero argwhere flatnonzero", "@({x(A, '1+')}, size={i(0, 5)})",
       "@({x(A, '1+')}, size={i(1, 5)}, fill_value={i(0, 3)})")
family("jnp", "unravel_index", "@({x('i')}, ({i(1, 5)}, {i(2, 4)}))")
family("jnp", "ravel_multi_index", "@(({x('i', 1)}, {same()}), (5, 7), mode={one('clip', 'wrap')})")
family("jnp", "sort argsort", "@({x(A, '1+')}, axis={axis()}, descending={b()})",
       "@({x('fc', '1+')}, stable={b()})", "@({x('fiub')}, axis=None)")
family("jnp", "sort_complex", "@({x(A, 1)})")
family("jnp", "lexsort", "@(({x('fiub', 1)}, {same()}))", "@({x('fi', 2)})")
family("jnp", "top_k", "@({x('fiu', 1, ge=4)}, {i(0, 3)}, mode={one('largest', 'smallest')})[0]")
family("jnp", "partition", "jnp.sort(@({x('fiu', 1, ge=4)}, {i(0, 3)})[:{i(1, 3)}])[0:1]")
family("jnp", "argpartition", "{x('fiu', 1, ge=4)}[@({p[0]}, {i(0, 3)})[:1]].sum()*0")
family("jnp", "searchsorted", "@({ramp('fi', 7)}, {x('fi')}, side={one('left', 'right')})",
       "@({ramp('f', 5)}, {x('fiu')}, method={one('scan', 'sort', 'compare_all', "
       "'scan_unrolled')})")
family("jnp", "digitize", "@({x('fi')}, {ramp('fi', 5)}, right={b()})")
family("jnp", "bincount", "@({x('u', 1)}, length={i(1, 7)})",
       "@({x('i', 1)}, {vec('f')}, length=5)")
family("jnp", "histogram", "@({x('fi')}, {i(1, 6)})",
       "@({x('f')}, bins={i(1, 5)}, range=(-1., 2.), density={b()})")
family("jnp", "histogram_bin_edges", "@({x('fi')}, {i(1, 6)})")
family("jnp", "histogram2d",
       "@({x('f', 1)}, {same()}, bins={i(1, 4)}, range=((-2., 2.), (-1., 3.)))")
family("jnp", "histogramdd", "@({arr((9, 2), 'f')}, bins={i(1, 3)}, range=((-2., 2.), (-1., 3.)))")
family("jnp", "unique", "@({x(A)}, size={i(1, 9)}, return_counts={b()}, return_inverse={b()})",
       "@({x('fiu', 2)}, size=4, axis={axis()}, fill_value={i(0, 4)})")
family("jnp", "unique_all unique_counts unique_inverse unique_values",
       "@({x('fiub')}, size={i(1, 9)})")
family("jnp", "union1d", "@({x('fiu')}, {x('fiu')}, size={i(1, 9)})")
family("jnp", "intersect1d setdiff1d setxor1d", "@({x('fiu', 1)}, {x('fiu', 1)}, size={i(1, 9)})")
family("jnp", "isin", "@({x('fiub')}, {x('fiub', 1)}, invert={b()})")
family("jnp", "packbits unpackbits",
       "@({x('b', '1+')}, axis={axis()}, bitorder={one('big', 'little')})")
RECIPES["jnp.unpackbits"] = [
    "jnp.unpackbits({x('u', '1+')}.astype('uint8'), axis={axis()}, "
    "bitorder={one('big', 'little')})"]
family("jnp", "result_type promote_types", "jnp.zeros(2, @({dt(A)}, {dt(A)}))")
family("jnp", "can_cast issubdtype isdtype",
       "jnp.asarray(@(jnp.dtype({dt(A)}), jnp.dtype({dt(A)})))")
family("jnp", "finfo", "jnp.asarray(@({dt('f')}).{one_(('eps', 'max', 'tiny', 'min'))})")
family("jnp", "iinfo", "jnp.asarray(@({dt('iu')}).{one_(('max', 'min'))})")
family("jnp", "float16 float32 float64 bfloat16 int8 int16 int32 int64 uint8 uint16 uint32 uint64 "
       "bool_ complex64 complex128 single double csingle cdouble int_ uint float_ complex_ " "bool",
       "@({x('fiub')})", "@({num()})")
family("jnp", "float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz",
       "@({x('f')}).astype('float32')")
family("jnp", "einsum_path",
       "jnp.asarray(len(@('ij,jk->ik', {arr((2, 3), 'f')}, {arr((3, 2), 'f')})[0]))")

family("jnp.ufunc", "reduce",
       "jnp.{ufunc()}.reduce({x('fiu', '1+')}, axis={axis()}, keepdims={b()})")
family("jnp.ufunc", "accumulate", "jnp.{ufunc()}.accumulate({x('fiu', '1+')}, axis={axis()})")
family("jnp.ufunc", "outer", "jnp.{ufunc()}.outer({x('fiu', 1, le=17)}, {x('fiu', 1, le=17)})")
family("jnp.ufunc", "at",
       "jnp.add.at({x('fi', 1, nz=1)}, {idx(3)}, {arr((3,), 'f')}, inplace=False)")
family("jnp.ufunc", "reduceat", "jnp.add.reduceat({x('fi', 1, ge=4)}, jnp.array([0, 2, 1]))")

# ---- operators and methods of arrays
family("array", "operators", "{x(A)} {op()} {mate(A)}", "{num()} {op()} {x('fiuc')}",
       "-{x('fiuc')} * {num()}",
       "{x('iu')} {one_(('//', '%', '&', '|', '^', '<<', '>>'))} {mate('iu')}",
       "{x('fiu')} {one_(('//', '%'))} {mate('fiu')}", "~{x('iub')}",
       "{x('f')} ** {one(2, 3, .5, -1)}", "divmod({x('fiu')}, {i(1, 4)})", "abs({x('fiuc')})",
       "{x('fi', 1)} @ {same()}", "{x('fc', 2)} @ {same()}.T")
family("array", "index",
       "{x(A, '1+', nz=1)}[{one_(('0', '-1', '::2', '::-1', '...', 'None', '1:', ':-1', "
       "'...,0'))}]", "{x(A, '1+', nz=1)}[{idx(3)}]", "{x(A, '1+')}[{arr((), 'i')}]",
       "{x(A, 2, nz=1)}[:, {idx(2)}]", "{x(A, 2, nz=1)}[{idx(3)}, {idx(3)}]",
       "jnp.where({x('f')} > 0, {p[0]}, 0)[..., None]", "{x(A, 2)}[None, ::-1, 1:]",
       "{x(A, '1+', nz=1)}[{x('iu', le=17)}]")
family("array", "at", "{x('fiuc', '1+', nz=1)}.at[{idx(3)}].{at()}({num()})",
       "{x('fi', '1+')}.at[1:].{at()}({num()})",
       "{x('fiu', 1, nz=1)}.at[{idx(3)}].{at()}({arr((3,), 'f')}, mode={one('clip', 'drop', "
       "None)})", "{x('f', 1)}.at[{x('iu', 1, le=17)}].get(mode={one('fill', 'clip')})",
       "{x('f', 2, nz=1)}.at[:, 0].apply(jnp.sin)", "{x(A, 1)}.at[::2].set({num()})")
family("array", "methods",
       "{x(A)}.{one_(('sum()', 'mean()', 'T', 'ravel()', 'std()', 'conj()', 'real', 'imag', "
       "'any()', 'round(1)', 'copy()', 'size * jnp.ones(1)', 'var()', 'prod()'))}",
       "{x('fiu', '1+', nz=1)}.{one_(('max(-1)', 'argmin()', 'sort(-1)', 'argsort(-1)', "
       "'cumsum(-1)', 'ptp()', 'cumprod()', 'mean(0, keepdims=True)'))}", "{x(A)}.astype({dt(A)})",
       "{x('fiu')}.clip({i(-2, 0)}, {i(0, 3)})", "{x(A)}.reshape({factors()})",
       "{x('f')}.view({one('int32', 'uint8')}) if {p[0]}.dtype == jnp.float32 else {p[0]}",
       "{x(A, '2+')}.mT", "{x(A)}.flatten()", "{x(A, '1+')}.repeat(2, axis={axis()})",
       "{x('fiu', '2+')}.trace()", "{x('fiuc', 1)}.dot({same()})", "{x(A, 1)}.nonzero(size=3)[0]")

# ---- linalg
family("jnp.linalg", "cholesky", "@({spd('fc')})", "@({spd('f')}, upper={b()})")
family("jnp.linalg", "det inv slogdet", "@({sq('fc')})", "@({sqd('fc')})",
       "@({arr((3, 2, 2), 'f')})")
family("jnp.linalg", "solve", "@({sqd('fc')}, {vec('f')})", "@({sqd('f')}, {rows('f')})")
family("jnp.linalg", "eigvals", "jnp.sort(jnp.abs(@({sqd('f')})))")
family("jnp.linalg", "eig", "jnp.sort(jnp.abs(@({sqd('f')})[0]))")
family("jnp.linalg", "eigvalsh", "@({sq('fc')})", "@({spd('f')}, UPLO={one('L', 'U')})")
family("jnp.linalg", "eigh", "@({spd('fc')})[0]",
       "(lambda w, v: (v * jnp.sin(w)) @ v.T)(*@({spd('f')}))")
family("jnp.linalg", "svd", "@({x('fc', 2, le=8)}, compute_uv=False)",
       "(lambda u, s, v: (u * s**2) @ v)(*@({x('f', 2, le=8)}, full_matrices=False))")
family("jnp.linalg", "svdvals", "@({x('fc', 2, le=8)})")
family("jnp.linalg", "qr", "jnp.abs(@({x('fc', 2, le=17)}, mode={one('r', 'reduced')})[-1])",
       "(lambda q, r: q @ (r * 2))(*@({x('f', 2, le=8)}))")
family("jnp.linalg", "pinv", "@({x('f', 2, le=8, nz=1)})", "@({sqd('fc')})")
family("jnp.linalg", "lstsq", "@({arr((5, 2), 'f')}, {arr((5,), 'f')})[0]")
family("jnp.linalg", "matrix_rank", "@({x('f', 2, le=8, nz=1)})")
family("jnp.linalg", "matrix_power", "@({sq('fiuc')}, {i(0, 5)})", "@({sqd('f')}, {i(-2, 0)})")
family("jnp.linalg", "norm", "@({x('fiuc')})",
       "@({x('fc', '1+')}, ord={one(1, 2, 3, 0)}, axis={axis()})",
       "@({x('fc', 2, nz=1)}, ord={one('fro', 'nuc', 1, -1)})",
       "@({x('f', '1+')}, axis={axis()}, keepdims={b()})")
family("jnp.linalg", "vector_norm", "@({x('fiuc', '1+')}, axis={axis()}, ord={one(1, 2, 0, .5)})")
family("jnp.linalg", "matrix_norm", "@({x('fc', '2+', nz=1)}, ord={one('fro', 1, -1)})")
family("jnp.linalg", "cond", "@({sqd('f')})", "@({sqd('fc')}, p={one(1, 2, -1)})")
family("jnp.linalg", "multi_dot", "@([{arr((2, 3), 'f')}, {arr((3, 5), 'f')}, {arr((5,), 'f')}])")
family("jnp.linalg", "tensorinv", "@({arr((4, 2, 2), 'f')}, ind=1)")
family("jnp.linalg", "tensorsolve", "@({arr((4, 2, 2), 'f')}, {arr((4,), 'f')})")
family("jnp.linalg", "cross", "@({arr((4, 3), 'fi')}, {arr((4, 3), 'fi')})")
family("jnp.linalg", "diagonal trace", "@({x(A, '2+')}, offset={i(-1, 2)})")
family("jnp.linalg", "matmul", "@({x('fic', '1+')}, {dotmate()})")
family("jnp.linalg", "matrix_transpose", "@({x(A, '2+')})")
family("jnp.linalg", "outer", "@({x('fic', 1, le=17)}, {x('fic', 1, le=17)})")
family("jnp.linalg", "tensordot", "@({x('fiuc', 2)}, {same()}, axes=2)")
family("jnp.linalg", "vecdot", "@({x('fiuc', '1+')}, {same()}, axis={axis()})")

# ---- fft
family("jnp.fft", "fft ifft hfft", "@({x('fic', '1+', nz=1)}, axis={axis()})",
       "@({x('fc', 1, nz=1)}, n={i(1, 9)}, norm={norm()})")
family("jnp.fft", "rfft ihfft", "@({x('fi', '1+', nz=1)}, axis={axis()})",
       "@({x('f', 1, nz=1)}, n={i(1, 9)}, norm={norm()})")
family("jnp.fft", "irfft", "@({x('fc', '1+', ge=2)}, axis={axis()})",
       "@({x('c', 1, ge=2)}, n={i(1, 9)}, norm={norm()})")
family("jnp.fft", "fft2 ifft2 rfft2", "@({x('f', '2+', nz=1)}, norm={norm()})")
family("jnp.fft", "irfft2", "@({x('c', '2+', ge=2)})")
family("jnp.fft", "fftn ifftn rfftn", "@({x('f', '1+', nz=1)})", "@({x('f', 2, nz=1)}, s=(3, 4))")
family("jnp.fft", "irfftn", "@({x('c', '1+', ge=2)})")
family("jnp.fft", "fftfreq rfftfreq", "@({i(1, 17)}, d={one(1., .5)})")
family("jnp.fft", "fftshift ifftshift", "@({x(A, '1+')}, axes={axis()})", "@({x(A)})")

left_out("jnp", "a type, a constant or a class, nothing to call",
       "ComplexWarning character complexfloating dtype e euler_gamma flexible floating "
       "generic inexact inf integer nan ndarray newaxis number object_ pi signedinteger "
       "unsignedinteger ufunc s_ index_exp")
left_out("jnp", "reads or writes files, text or foreign memory; no program of arrays",
         "array_repr array_str from_dlpack frombuffer fromfile fromiter fromstring load save savez "
         "get_printoptions set_printoptions printoptions iterable")
left_out("jnp", "few values or none: tests/numpy/test_small_dtypes.py asks of all of them",
         "float4_e2m1fn float6_e2m3fn float6_e3m2fn float8_e3m4 float8_e4m3 float8_e4m3b11fnuz "
         "float8_e8m0fnu int1 int2 int4 uint1 uint2 uint4")
left_out("jnp", "its values are not defined", "empty empty_like")
left_out("jnp", "a size that depends on values: eager only, no Program to compare with",
       "trim_zeros")
left_out("jnp.linalg", "a type of results", "EigResult EighResult QRResult SVDResult SlogdetResult")
