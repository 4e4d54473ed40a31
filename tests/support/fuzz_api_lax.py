"""What a drawn line of `lax`, `nn`, `random`, `scipy`, `ops` looks like (fuzz_api_numpy.py)."""
from __future__ import annotations

from support.fuzz_api_numpy import family, left_out

# ---- lax: operands of one dtype
family("lax", "sin cos tan tanh sinh cosh asin acos atan asinh acosh atanh exp expm1 exp2 log "
       "log1p logistic sqrt rsqrt cbrt", "@({x('f')})", "@({x('fc')})")
family("lax", "lgamma digamma erf erfc erf_inv bessel_i0e bessel_i1e", "@({x('f')})")
family("lax", "abs neg sign square reciprocal", "@({x('fc')})", "@({x('fic')})")
family("lax", "ceil floor is_finite", "@({x('f')})")
family("lax", "round", "@({x('f')}, lax.RoundingMethod({i(0, 1)}))")
family("lax", "conj real imag", "@({x('c')})")
family("lax", "complex", "@({x('f', w32=1)}, {same()})")
family("lax", "bitwise_not population_count clz", "@({x('iu')})")
family("lax", "add sub mul div eq ne", "@({x('fiuc')}, {same()})", "@({x('fc')}, {num()})")
family("lax", "max min rem lt le gt ge", "@({x('fiu')}, {same()})", "@({x('f')}, {num()})")
family("lax", "pow", "@({x('fc')}, {same()})", "@({x('f')}, {arr((), 'i')})")
family("lax", "atan2 nextafter", "@({x('f')}, {same()})")
family("lax", "igamma igammac igamma_grad_a zeta polygamma random_gamma_grad",
       "@(jnp.abs({x('f')}) + 1, jnp.abs({same()}) + 2)")
family("lax", "betainc",
       "@(jnp.abs({x('f')}) + 1, jnp.abs({same()}) + 1, jnp.abs(jnp.sin({same()})))")
family("lax", "bitwise_and bitwise_or bitwise_xor", "@({x('iub')}, {same()})")
family("lax", "shift_left shift_right_arithmetic shift_right_logical mulhi",
       "@({x('iu')}, {same()})")
family("lax", "integer_pow", "@({x('fic')}, {i(0, 5)})", "@({x('f')}, {i(-3, 3)})")
family("lax", "clamp", "@({num()}, {x('f')}, {num()})",
       "@({same_of('f')}, {like_same()}, {like_same()})")
family("lax", "select", "@({x('f')} > 0, {p[0]}, {same()})",
       "@({x('fiu')} == {same()}, {same()}, {p[0]})")
family("lax", "select_n", "@({x('f')} > 0, {p[0]}, {same()})",
       "@(jnp.int32({i(0, 2)}), {x(A)}, {same()}, {same()})")
family("lax", "convert_element_type", "@({x(A)}, {dt(A)})")
family("lax", "bitcast_convert_type", "@({x('fiu')}, {samewidth()})", "@({x('iu')}, 'uint8')")
family("lax", "reduce_precision", "@({x('f')}, exponent_bits={i(4, 6)}, mantissa_bits={i(2, 9)})")
family("lax", "argmax argmin", "@({x('fiub', '1+', nz=1)}, {axis0()}, {dt('iu')})")
family("lax", "reduce_sum reduce_prod", "@({x('fiuc', '1+')}, ({axis0()},))")
family("lax", "reduce_max reduce_min", "@({x('fiub', '1+', nz=1)}, ({axis0()},))",
       "@({x('fiu', '1+')}, ({axis0()},))")
family("lax", "reduce_and reduce_or reduce_xor", "@({x('iub', '1+')}, ({axis0()},))")
family("lax", "reduce",
       "@({x('fiu', '1+')}, {scalar_like()}, lax.{one_(('add', 'max', 'min', 'mul'))}, "
       "({axis0()},))",
       "@(({x('f', 1)}, {same()}), (jnp.zeros((), {p[0]}.dtype),) * 2, lambda s, t: (s[0] + "
       "t[0], jnp.maximum(s[1], t[1])), (0,))")
family("lax", "cumsum cumprod", "@({x('fiuc', '1+')}, axis={axis0()}, reverse={b()})")
family("lax", "cummax cummin", "@({x('fiub', '1+')}, axis={axis0()}, reverse={b()})")
family("lax", "cumlogsumexp", "@({x('f', '1+')}, axis={axis0()}, reverse={b()})")
family("lax", "reduce_window",
       "@({x('fiu', 1)}, {scalar_like(0)}, lax.add, ({i(1, 3)},), ({i(1, 2)},), "
       "{one('SAME', 'VALID')})",
       "@({x('fiu', 1)}, -jnp.inf, lax.max, ({i(1, 3)},), ({i(1, 2)},), {one('SAME', " "'VALID')})",
       "@({x('f', 2)}, jnp.inf, lax.min, ({i(1, 3)}, 2), (1, {i(1, 2)}), ((0, 1), (1, 0)))",
       "@({x('f', 1)}, {scalar_like(1)}, lax.mul, (2,), (1,), 'SAME', base_dilation=(2,))")
family("lax", "associative_scan",
       "@({one_(('lax.add', 'jnp.maximum', 'lambda s, t: s * t', 'lax.mul'))}, {x('f', "
       "'1+')}, axis=0, reverse={b()})")

# ---- lax: shapes
family("lax", "reshape", "@({x(A)}, {factors0()})", "@({x(A, 2)}, {factors0()}, (1, 0))")
family("lax", "transpose", "@({x(A)}, {perm()})")
family("lax", "rev", "@({x(A, '1+')}, ({axis0()},))")
family("lax", "squeeze", "@({arr((1, 3, 1), A)}, {one_(('(0,)', '(2,)', '(0, 2)'))})")
family("lax", "expand_dims", "@({x(A)}, (0,))", "@({x(A, '1+')}, (1,))")
family("lax", "broadcast", "@({x(A)}, ({i(0, 3)}, 2))")
family("lax", "broadcast_in_dim", "@({x(A, 1)}, (2, {p[0]}.shape[0]), (1,))",
       "@({arr((1, 3), A)}, (4, 2, 3), (0, 2))", "@({x(A, 0)}, ({size()},), ())")
family("lax", "broadcast_to_rank", "@({x(A)}, 4)")
family("lax", "collapse", "@({x(A, '2+')}, 0, 2)")
family("lax", "concatenate", "@([{x(A, '1+')}, {same()}], {axis0()})")
family("lax", "stack", "@([{x(A)}, {same()}], axis=0)")
family("lax", "unstack", "@({x(A, '1+', le=4)}, axis=0)")
family("lax", "split", "@({arr((5, 3), A)}, (2, 0, 3), axis=0)")
family("lax", "tile", "@({x(A, 2)}, (2, {i(0, 3)}))")
family("lax", "slice", "@({x(A, 1, ge=4)}, ({i(0, 2)},), ({i(2, 4)},), ({i(1, 3)},))",
       "@({x(A, 2, ge=3)}, (0, 1), (2, 3))")
family("lax", "slice_in_dim", "@({x(A, '1+', ge=3)}, {i(0, 1)}, {i(1, 3)}, axis={axis0()})")
family("lax", "index_in_dim", "@({x(A, '1+', nz=1)}, {i(-1, 0)}, axis={axis0()}, keepdims={b()})")
family("lax", "index_take", "@({x(A, 2, nz=1)}, ({idx(3)},), (0,))")
family("lax", "pad", "@({x(A, 1)}, {scalar_like()}, [({i(-2, 2)}, {i(0, 3)}, {i(0, 2)})])",
       "@({x(A, 2)}, {scalar_like()}, [(1, 0, 0), ({i(-1, 1)}, 1, {i(0, 1)})])")
family("lax", "dynamic_slice", "@({x(A, 1, ge=3)}, ({arr((), 'i')},), ({i(0, 3)},))",
       "@({x(A, 2, ge=2)}, ({i(-3, 3)}, {arr((), 'i')}), (2, {i(1, 2)}))")
family("lax", "dynamic_slice_in_dim dynamic_index_in_dim",
       "@({x(A, '1+', nz=1)}, {arr((), 'i')}, 1, axis={axis0()})")
family("lax", "dynamic_index_in_dim",
       "@({x(A, '1+', nz=1)}, {arr((), 'i')}, axis={axis0()}, keepdims={b()})")
family("lax", "dynamic_update_slice", "@({x('f', 1, ge=3)}, {arr_as((2,))}, ({arr((), 'i')},))",
       "@({x(A, 2, ge=2)}, {arr_as((1, 2))}, (0, {i(-2, 5)}))")
family("lax", "dynamic_update_slice_in_dim",
       "@({x('f', 1, ge=3)}, {arr_as((2,))}, {arr((), 'i')}, axis=0)")
family("lax", "dynamic_update_index_in_dim",
       "@({x('f', 1, ge=3)}, {num()}, {arr((), 'i')}, axis=0)")
family("lax", "full", "@({shape()}, {num()})", "@({shape()}, {i(0, 3)}, {dt(A)})")
family("lax", "full_like", "@({x(A)}, {i(0, 3)})")
family("lax", "iota", "@({dt('fiuc')}, {size()})")
family("lax", "broadcasted_iota", "@({dt('fiu')}, ({i(0, 4)}, {i(1, 4)}), {i(0, 1)})")
family("lax", "stop_gradient optimization_barrier", "@({x(A)})")
family("lax", "sort", "@({x(A, '1+')}, dimension={axis0()})",
       "@(({x('fiub', 1)}, {same()}), num_keys={i(1, 2)})")
family("lax", "sort_key_val", "@({x('fiub', 1)}, {same()})")
family("lax", "top_k", "@({x('fiu', '1+', ge=3)}, {i(0, 3)})")
family("lax", "approx_max_k approx_min_k", "@({x('f', '1+', ge=3, f32=1)}, {i(1, 3)})[0]")

# ---- lax: products, gathers
family("lax", "dot", "@({x('fiuc', 1)}, {same()})", "@({x('fiuc', 2)}, {same()}.T)")
family("lax", "batch_matmul", "@({x('fiuc', 3)}, jnp.swapaxes({same()}, 1, 2))")
family("lax", "dot_general", "@({x('fiuc', 3)}, {same()}, (((2,), (2,)), ((0,), (0,))))",
       "@({x('fc', 2)}, {same()}, (((0,), (0,)), ((), ())), preferred_element_type=None)",
       "@({x('iu', 2)}, {same()}, (((1,), (1,)), ((), ())), preferred_element_type='float32')")
family("lax", "ragged_dot",
       "@({arr((7, 3), 'f')}, {arr((2, 3, 4), 'f')}.astype({p[0]}.dtype), jnp.array([3, "
       "{i(0, 4)}], 'int32'))")
family("lax", "conv",
       "@({arr((1, 2, 7), 'f')}, {arr((3, 2, 3), 'f')}.astype({p[0]}.dtype), ({i(1, 2)},), "
       "{one('SAME', 'VALID')})")
family("lax", "conv_general_dilated",
       "@({arr((2, 4, 7), 'fi')}, {arr((4, 2, 3), 'f')}.astype({p[0]}.dtype), (1,), [({i(0, "
       "2)}, 1)], feature_group_count=2, rhs_dilation=({i(1, 2)},))",
       "@({arr((1, 2, 5, 4), 'f')}, {arr((2, 2, 3, 2), 'f')}.astype({p[0]}.dtype), (1, 2), "
       "'SAME', lhs_dilation=({i(1, 2)}, 1))")
family("lax", "conv_transpose",
       "@({arr((1, 5, 2), 'f')}, {arr((3, 2, 2), 'f')}.astype({p[0]}.dtype), ({i(1, 2)},), "
       "'SAME', dimension_numbers=('NHC', 'HIO', 'NHC'))")
family("lax", "conv_with_general_padding",
       "@({arr((1, 2, 7), 'f')}, {arr((3, 2, 3), 'f')}.astype({p[0]}.dtype), (1,), [(1, "
       "1)], (2,), (1,))")
family("lax", "conv_general_dilated_patches", "@({arr((1, 2, 5), 'f')}, (3,), (1,), 'SAME')")
family("lax", "conv_general_dilated_local",
       "@({arr((1, 2, 5), 'f')}, {arr((3, 4, 4), 'f')}.astype({p[0]}.dtype), (1,), 'VALID', "
       "(2,))")
family("lax", "gather",
       "@({x(A, 2, nz=1)}, {arr((4, 1), 'i')}, lax.GatherDimensionNumbers((1,), (0,), "
       "(0,)), (1, {p[0]}.shape[1]), mode={one('clip', 'fill')})")
family("lax", "scatter scatter_add scatter_mul scatter_min scatter_max scatter_sub",
       "@({arr((5, 3), 'fiu')}, {arr((4, 1), 'i')}, {arr((4, 3), "
       "'f')}.astype({p[0]}.dtype), lax.ScatterDimensionNumbers((1,), (0,), (0,)), "
       "mode={one('clip', 'drop')})")
family("lax", "scatter_apply", "@({arr((5, 3), 'f')}, {arr((4, 1), 'i')}, jnp.sin, "
       "lax.ScatterDimensionNumbers((1,), (0,), (0,)), update_shape=(4, 3))")
family("lax", "fft", "@({x('c', '1+', nz=1)}, {one('FFT', 'IFFT')}, ({p[0]}.shape[-1],))",
       "@({x('f', '1+', nz=1, w32=1)}, 'RFFT', ({p[0]}.shape[-1],))")
family("lax", "rng_bit_generator", "@(jnp.arange(4, dtype='uint32'), {shape()})")

# ---- control flow
family("lax", "cond", "@({x('fi', 0)} > 0, lambda t: t * 2, lambda t: t + 1, {x('fiuc')})",
       "@({arr((), 'b')}, jnp.sin, lambda t: t[::-1], {x('f', 1)})",
       "@({x('f', 0)} > 0, lambda: {x('f')}, lambda: {same(1)})")
family("lax", "switch", "@({arr((), 'i')}, [jnp.sin, jnp.cos, lambda t: t * t], {x('f')})")
family("lax", "scan", "@(lambda c, t: (c * 0.5 + t, c + t), jnp.zeros({x('f', '1+')}.shape[1:], "
       "{p[0]}.dtype), {p[0]})",
       "@(lambda c, t: (c + t, c * t), {scalar_of('f')}, {vec_as()}, reverse={b()}, "
       "unroll={i(1, 3)})",
       "@(lambda c, t: ((c[0] + 1, jnp.maximum(c[1], t)), None), (0, {scalar_of('f')}), "
       "{vec_as()})", "@(lambda c, t: (c * 1.25 - 1, c.sum()), {x('f')}, None, length={i(0, 5)})")
family("lax", "while_loop",
       "@(lambda c: c[0] < {i(0, 6)}, lambda c: (c[0] + 1, c[1] * 0.5 + 1), (0, {x('f')}))",
       "@(lambda c: jnp.sum(jnp.abs(c)) > 1, lambda c: c * 0.25, jnp.tanh({x('f')}))")
family("lax", "fori_loop", "@(0, {i(0, 6)}, lambda k, c: c + k, {x('fiu')}.astype('float32'))",
       "@({i(-2, 1)}, {i(0, 4)}, lambda k, c: c.at[k].multiply(2), {x('f', '1+', nz=1)})")
family("lax", "map", "@(lambda t: t * 2 + t.sum(), {x('fiu', '1+', le=17)})",
       "@(jnp.sin, {x('f', 1, le=17)}, batch_size={i(1, 3)})")
family("lax", "custom_root",
       "@(lambda t: t * t * t + t - {x('f', f32=1, tame=1)}, jnp.ones_like({p[0]}), lambda "
       "g, y: lax.fori_loop(0, 30, lambda k, c: c - g(c) / (3 * c * c + 1), y), lambda g, "
       "y: y / g(jnp.ones_like(y)))")
family("lax", "custom_linear_solve",
       "@(lambda t: t * (2 + jnp.abs({x('f', f32=1, tame=1)})), {same()}, lambda m, y: y / "
       "m(jnp.ones_like(y)), symmetric=True)")
family("lax", "platform_dependent", "@({x('f')}, cpu=jnp.sin, default=jnp.sin)")
family("lax", "composite", "@(lambda t: t * 2, 'my.double')({x('fiuc')})")

family("lax.linalg", "cholesky", "@({spd('fc')})")
family("lax.linalg", "triangular_solve",
       "@(jnp.tril({sqd('fc')}), {rows('fc')}.astype({p[0]}.dtype), left_side=True, "
       "lower=True, transpose_a={b()}, unit_diagonal={b()})")
family("lax.linalg", "lu", "@({sqd('fc')})[0]")
family("lax.linalg", "lu_pivots_to_permutation", "@(jnp.array([1, 1, 2], 'int32'), {i(3, 5)})")
family("lax.linalg", "qr", "jnp.abs(@({x('fc', 2, le=8)}, full_matrices=False)[1])")
family("lax.linalg", "householder_product",
       "@({arr((4, 2), 'f')}, {vec_of(2, 'f')}.astype({p[0]}.dtype))")
family("lax.linalg", "eigh", "@({spd('fc')})[1]")
family("lax.linalg", "eig", "jnp.sort(jnp.abs(@({sqd('f')}, compute_left_eigenvectors=False)[0]))")
family("lax.linalg", "svd", "@({x('fc', 2, le=8)}, compute_uv=False)[0]")
family("lax.linalg", "schur", "jnp.abs(jnp.trace(@({sqd('f')})[0]))")
family("lax.linalg", "hessenberg", "jnp.abs(jnp.trace(@({sqd('f')})[0]))")
family("lax.linalg", "tridiagonal", "@({spd('f')})[1].sum()")
family("lax.linalg", "tridiagonal_solve",
       "@({arr((4,), 'f')}, {arr_as((4,))} + 9, {arr_as((4,))}, {arr_as((4, 2))})")
family("lax.linalg", "qdwh", "@({sqd('f')})[0]")
family("lax.linalg", "symmetric_product",
       "@({x('f', 2, w32=1)}, jnp.zeros(({p[0]}.shape[0],) * 2, {p[0]}.dtype), " "alpha={num()})")
family("lax.linalg", "cholesky_update",
       "@(jnp.triu({sqd('f', w32=1)}), {vec('f')}.astype({p[0]}.dtype))")

# ---- nn
family("nn", "celu elu gelu glu hard_sigmoid hard_silu hard_swish hard_tanh identity leaky_relu "
       "log_sigmoid mish relu relu6 selu sigmoid silu soft_sign softplus sparse_plus "
       "sparse_sigmoid squareplus swish tanh", "@({x('f', '1+')})", "@({x('fi', '1+')})")
family("nn", "glu", "@({arr((3, 4), 'f')}, axis=-1)")
family("nn", "log1mexp", "@(jnp.abs({x('f')}) + .1)")
family("nn", "celu elu leaky_relu squareplus", "@({x('f')}, {num()})")
family("nn", "gelu", "@({x('f')}, approximate={b()})")
family("nn", "softmax log_softmax", "@({x('f', '1+')}, axis={axis()})",
       "@({x('f', nz=1)}, axis={ax()})",
       "@({x('f', '1+', nz=1)}, axis={axis()}, where={x('f', '1+', nz=1, of=0)} > 0)")
family("nn", "logsumexp logmeanexp", "@({x('f')}, axis={ax()})",
       "@({x('f', '1+', nz=1)}, axis={axis()}, keepdims={b()})")
family("nn", "standardize", "@({x('f', '1+', nz=1)}, axis={axis()})",
       "@({x('f', '1+', nz=1)}, epsilon=.5)")
family("nn", "one_hot", "@({x('iu')}, {i(0, 5)})",
       "@({x('iu', 1)}, 4, dtype={dt('fi')}, axis={i(-1, 0)})")
family("nn", "dot_product_attention",
       "@({arr((2, 3, 2, 4), 'f')}, {arr_as((2, 5, 2, 4))}, {arr_as((2, 5, 2, 4))}, "
       "is_causal={b()})")
family("nn.initializers", "constant", "@({num()})(random.key(0), {shape()}, {dt('f')})")
family("nn.initializers", "zeros ones", "@(random.key(0), {shape()}, {dt('f')})")
family("nn.initializers", "normal uniform truncated_normal",
       "@(.5)(random.key({i(0, 9)}), ({i(1, 5)}, 3), {dt('f')})")
family("nn.initializers",
       "glorot_normal glorot_uniform he_normal he_uniform kaiming_normal kaiming_uniform "
       "lecun_normal lecun_uniform xavier_normal xavier_uniform",
       "@()(random.key({i(0, 9)}), ({i(1, 5)}, 3), {dt('f')})")
family("nn.initializers", "variance_scaling",
       "@(2., 'fan_avg', {one('uniform', 'normal')})(random.key({i(0, 9)}), (4, 3))")
family("nn.initializers", "orthogonal", "(lambda q: q.T @ q)(@()(random.key({i(0, 9)}), (4, 3)))")
family("nn.initializers", "delta_orthogonal",
       "(lambda q: q[1].T @ q[1])(@()(random.key({i(0, 9)}), (3, 3, 3)))")

# ---- random: keys are made on the line
K = "random.key({i(0, 99)})"
family("random", "uniform normal", f"@({K}, {{shape()}}, {{dt('f')}})", f"@({K}, {{shape()}})",
       "@(random.key({arr((), 'i')}), {shape()})")
family("random", "uniform", f"@({K}, {{shape()}}, minval={{num()}}, maxval={{arr((), 'f')}})")
family("random", "bits", f"@({K}, {{shape()}}, {{dt('u')}})")
family("random", "randint", f"@({K}, {{shape()}}, {{i(-3, 0)}}, {{i(1, 99)}}, {{dt('iu')}})",
       f"@({K}, (3,), {{arr((), 'i')}}, 50)")
family("random", "bernoulli", f"@({K}, jnp.abs(jnp.sin({{x('f')}})))", f"@({K}, .3, {{shape()}})")
family("random", "rademacher", f"@({K}, {{shape()}}, {{dt('fi')}})")
family("random", "double_sided_maxwell", f"@({K}, {{num()}}, 2., {{shape()}}, {{dt('f')}})")
family("random", "cauchy exponential gumbel laplace logistic maxwell lognormal",
       f"@({K}, shape={{shape()}}, dtype={{dt('f')}})")
family("random", "pareto rayleigh chisquare t",
       f"@({K}, {{one(2., 3.)}}, {{shape()}}, {{dt('f')}})", f"@({K}, jnp.abs({{x('f')}}) + 1)")
family("random", "weibull_min f", f"@({K}, 2., 3., {{shape()}}, {{dt('f')}})")
family("random", "wald generalized_normal", f"@({K}, 2., {{shape()}}, {{dt('f')}})")
family("random", "ball", f"@({K}, {{i(1, 3)}}, 2., {{shape()}})")
family("random", "triangular", f"@({K}, -1., .5, 3., {{shape()}}, {{dt('f')}})")
family("random", "truncated_normal",
       f"@({K}, {{one(-2., -1.)}}, {{one(0.5, 2.)}}, {{shape()}}, {{dt('f')}})")
family("random", "gamma loggamma", f"@({K}, {{one(.5, 2., 7.)}}, {{shape()}}, {{dt('f')}})",
       f"@({K}, jnp.abs({{x('f')}}) + .5)")
family("random", "beta", f"@({K}, 2., .5, {{shape()}}, {{dt('f')}})")
family("random", "dirichlet", f"@({K}, jnp.abs({{x('f', 1, nz=1)}}) + .5)")
family("random", "poisson", f"@({K}, {{one(.5, 4., 30.)}}, {{shape()}})")
family("random", "geometric", f"@({K}, {{one(.3, .8)}}, {{shape()}})")
family("random", "binomial", f"@({K}, {{one(5, 30)}}, {{one(.2, .7)}}, {{shape()}})")
family("random", "multinomial", f"@({K}, {{i(1, 9)}}, jnp.array([.2, .3, .5]))")
family("random", "categorical", f"@({K}, {{x('f', '1+', nz=1)}})",
       f"@({K}, {{x('f', 1, nz=1)}}, shape=(4,))")
family("random", "choice", f"@({K}, {{i(3, 9)}}, (3,), replace={{b()}})",
       f"@({K}, {{x(A, 1, ge=3)}}, ({{i(0, 3)}},), replace={{b()}})")
family("random", "permutation", f"@({K}, {{i(1, 17)}})", f"@({K}, {{x(A, '1+', nz=1)}})")
family("random", "multivariate_normal", f"@({K}, jnp.zeros(3), jnp.eye(3) * 2, (2,))")
family("random", "orthogonal", f"(lambda q: q @ q.T)(@({K}, {{i(1, 4)}}))")
family("random", "split", f"random.key_data(@({K}, {{i(1, 4)}}))")
family("random", "fold_in", f"random.key_data(@({K}, {{i(0, 99)}}))",
       f"random.uniform(@({K}, {{arr((), 'iu')}}), (3,))")
family("random", "key", "random.key_data(@({i(0, 2000)}))")
family("random", "PRNGKey", "@({i(0, 2000)})", "@({arr((), 'iu')})")
family("random", "key_data clone", "random.key_data(random.clone(" + K + "))")
family("random", "wrap_key_data", "random.bits(@(jnp.arange(2, dtype='uint32')), (3,))")

# ---- scipy
family("jsp.special",
       "digamma entr erf erfc erfcinv erfinv expit factorial gamma gammaln gammasgn i0 i0e i1 i1e "
       "log_ndtr logit ndtr ndtri", "@({x('f')})", "@({x('fi')})")
family("jsp.special", "xlog1py xlogy kl_div rel_entr boxcox boxcox1p", "@({x('f')}, {mate('f')})",
       "@({x('fi')}, {mate('fi')})")
family("jsp.special", "beta betaln gammainc gammaincc zeta poch",
       "@(jnp.abs({x('f')}) + 1, jnp.abs({mate('f')}) + 2)", "@({x('f')}, {mate('f')})")
family("jsp.special", "betainc",
       "@(jnp.abs({x('f')}) + 1, jnp.abs({same()}) + 1, jnp.abs(jnp.sin({same()})))")
family("jsp.special", "polygamma", "@({i(0, 3)}, jnp.abs({x('f')}) + .5)")
family("jsp.special", "multigammaln", "@({x('f')} + 4, {i(1, 3)})")
family("jsp.special", "bessel_jn", "@({x('f', 1, f32=1)}, v={i(0, 3)})")
family("jsp.special", "logsumexp", "@({x('fc')}, axis={ax()})",
       "@({x('f', '1+', nz=1)}, axis={axis()}, b={mate_same()}, return_sign={b()})")
family("jsp.special", "softmax log_softmax", "@({x('f', nz=1)}, axis={ax()})")
left_out("jsp.linalg", "held to SciPy by tests/scipy/test_scipy_matrices.py",
         "circulant companion convolution_matrix dft eigh_tridiagonal expm_frechet fiedler "
         "fiedler_companion funm hadamard hankel helmert hessenberg hilbert invhilbert invpascal "
         "leslie pascal polar qr qr_multiply rsf2csf schur solve_sylvester sqrtm")
family("jsp.linalg", "block_diag", "@({x('fi', 2)}, {x('f', 1)}, 2)")
family("jsp.linalg", "toeplitz", "@({x('fic', 1, le=17)})",
       "@({x('fi', 1, le=17)}, {x('f', 1, le=17)})")
family("jsp.linalg", "cholesky", "@({spd('fc')}, lower={b()})")
family("jsp.linalg", "cho_factor", "jnp.triu(@({spd('f')})[0])")
family("jsp.linalg", "cho_solve", "@(jsp.linalg.cho_factor({spd('f')}), {vec('f')})")
family("jsp.linalg", "det inv", "@({sqd('fc')})")
family("jsp.linalg", "eigh", "@({spd('fc')})[0]", "@({spd('f')}, eigvals_only=True)")
family("jsp.linalg", "expm", "@({sq('fc')} * .25)")
family("jsp.linalg", "lu", "@({sqd('fc')})[2]")
family("jsp.linalg", "lu_factor", "@({sqd('f')})[0]")
family("jsp.linalg", "lu_solve", "@(jsp.linalg.lu_factor({sqd('f')}), {vec('f')}, trans={i(0, 2)})")
family("jsp.linalg", "solve", "@({sqd('fc')}, {vec('f')})",
       "@({spd('f')}, {vec('f')}, assume_a='pos')")
family("jsp.linalg", "solve_triangular",
       "@({sqd('fc')}, {vec('f')}, trans={i(0, 2)}, lower={b()}, unit_diagonal={b()})")
family("jsp.linalg", "svd", "@({x('fc', 2, le=8)}, compute_uv=False)")
family("jsp.signal", "convolve correlate",
       "@({x('fic', 1, nz=1)}, {x('fi', 1, nz=1, le=17)}, mode={one('full', 'same', " "'valid')})")
family("jsp.signal", "fftconvolve",
       "@({x('f', 1, nz=1)}, {x('f', 1, nz=1, le=17)}, mode={one('full', 'same', 'valid')})")
family("jsp.signal", "convolve2d correlate2d",
       "@({x('f', 2, nz=1)}, {arr((2, 3), 'f')}, mode={one('full', 'same', 'valid')})")
family("ops", "segment_sum segment_prod segment_max segment_min",
       "@({x('fiu', 1, nz=1)}, {seg()}, num_segments={i(1, 5)})",
       "@({x('f', 2, nz=1)}, {seg()}, num_segments=3)")

# ---- calque itself: transformations inside a program
family("jax", "grad", "@(lambda t: jnp.sum(jnp.sin(t) * t))({x('f')})",
       "@(lambda t: jnp.prod(t))({x('f', 1, le=8)})",
       "@(lambda t: jnp.sum(jnp.abs(t) ** 1.5))({x('f')})")
family("jax", "value_and_grad", "@(lambda t: jnp.mean(t ** 3))({x('f', '1+', nz=1)})")
family("jax", "vmap", "@(lambda t: t * 2 - t.sum())({x('fiuc', '1+')})",
       "@(lambda s, t: jnp.dot(s, t), in_axes=(0, None))({x('f', 2)}, {vec('f', -1)})",
       "@(jnp.sin, in_axes=-1, out_axes=-1)({x('f', '2+')})")
family("jax", "jvp", "@(lambda t: jnp.tanh(t) * t, ({x('f')},), ({same()},))")
family("jax", "vjp", "@(lambda t: jnp.sin(t), {x('f')})[1]({same()})")
family("jax", "linearize", "@(lambda t: t * t, {x('f')})[1]({same()})")
family("jax", "linear_transpose", "@(lambda t: 3 * t[::-1], {x('f', 1)})({same()})")
family("jax", "jacfwd jacrev jacobian", "@(lambda t: t * t[::-1])({x('f', 1, le=8)})")
family("jax", "hessian", "@(lambda t: jnp.sum(t ** 3))({x('f', 1, le=5)})")
family("jax", "jit", "@(lambda t: (t, t + 1))({x(A)})")
family("jax", "checkpoint remat", "jax.grad(@(lambda t: jnp.sum(jnp.sin(jnp.sin(t)))))({x('f')})")
family("jax", "custom_jvp custom_vjp", "@(lambda t: t * 3)({x('fiuc')})")
family("jax", "closure_convert", "@(lambda t: t * 3, {x('f')})[0]({p[0]})")
family("jax", "named_call", "@(lambda t: t * 3)({x('f')})")

left_out("lax", "a type, an enumeration or a table of dimension numbers; lines of other names use "
       "them", "AccuracyMode ConvDimensionNumbers ConvGeneralDilatedDimensionNumbers DotAlgorithm "
       "DotAlgorithmPreset DotDimensionNumbers FftType GatherDimensionNumbers "
       "GatherScatterMode Precision PrecisionLike RaggedDotDimensionNumbers RandomAlgorithm "
       "RoundingMethod ScatterDimensionNumbers Tolerance dtype")
left_out("lax", "a collective: needs an axis name, tests/transforms/test_collectives.py",
       "all_gather all_to_all axis_index axis_size pmax pmean pmin ppermute pshuffle psum "
       "psum_scatter pswapaxes")
left_out("lax", "over the axes of a mesh: tests/devices",
       "pbroadcast pcast pvary ragged_all_to_all with_sharding_constraint")
left_out("lax", "shapes in, shapes out: no arrays",
       "broadcast_shapes conv_dimension_numbers conv_general_permutations "
       "conv_general_shape_tuple conv_shape_tuple conv_transpose_shape_tuple "
       "padtype_to_pads reduce_window_shape_tuple shape_as_value")
left_out("lax", "its values are not defined, or not JAX's", "empty rng_uniform dce_sink")
left_out("lax", "not a function of JAX 0.10.2's CPU, or refused there",
       "broadcast_like scaled_dot stage ragged_dot_general")
left_out("lax.linalg", "an enumeration", "EigImplementation EighImplementation SvdAlgorithm")
left_out("lax.linalg", "a primitive; the functions bind it",
       "cholesky_p cholesky_update_p eig_p eigh_p hessenberg_p householder_product_p lu_p "
       "lu_pivots_to_permutation_p qr_p schur_p svd_p triangular_solve_p tridiagonal_p "
       "tridiagonal_solve_p")
left_out("lax.linalg", "takes what geqrf gives, which is not public in both", "ormqr")
left_out("nn", "a module", "initializers")
left_out("nn", "held to blocks by hand: tests/nn/test_scaled.py",
         "get_scaled_dot_general_config scaled_dot_general scaled_matmul")
left_out("nn.initializers", "a type", "Initializer")
left_out("random", "about keys, no arrays", "key_dtype key_impl")
left_out("ops", "deprecated names that JAX 0.10.2 has not",
       "index index_add index_max index_min index_mul index_update")
left_out("jsp.special", "held to mpmath: tests/scipy/test_solvers.py", "expi")
left_out("jsp.special", "held to mpmath: tests/scipy/test_scipy_special.py",
         "bernoulli comb dawsn erfcx exp1 expn fresnel hyp1f1 hyp2f1 loggamma owens_t sici spence "
         "sph_harm_y wofz")
left_out("jsp.special", "held to Rodrigues' formula: tests/scipy/test_legendre.py",
         "lpmn lpmn_values")
left_out("jsp.signal", "held to SciPy: tests/scipy/test_scipy_spectral.py",
         "csd detrend istft stft welch")
left_out("jax", "over several devices: tests/devices",
       "NamedSharding P device_put_replicated device_put_sharded make_array_from_callback "
       "make_array_from_process_local_data make_array_from_single_device_arrays make_mesh pmap "
       "reshard set_mesh shard_map sharding get_mesh "
       "get_abstract_mesh use_abstract_mesh")
left_out("lax", "tokens, which hold no numbers: tests/core/test_contexts_of_users.py",
       "after_all create_token")
left_out("jax", "matrices of a few bits: tests/nn/test_quantized.py", "QuantizedArray quantize")
left_out("jax", "references: tests/extras/test_refs.py", "Ref ds empty_ref free_ref freeze new_ref")
left_out("jax", "about devices, configuration, compilation or trees: no function of arrays",
       "Array Device ShapeDtypeStruct ad_checkpoint block_until_ready check_tracer_leaks "
       "Inline array_garbage_collection_guard checkpoint_policies clear_caches config "
       "custom_batching "
       "custom_derivatives custom_gradient debug debug_infs debug_nans default_backend "
       "default_device "
       "default_matmul_precision default_prng_impl device_count device_get device_put "
       "enable_custom_prng checking_leaks allow_f16_reductions debug_key_reuse enable_checks "
       "explain_cache_misses float0 fwd_and_bwd legacy_prng_key make_user_context no_execution "
       "no_tracing smap "
       "softmax_custom_jvp "
       "transfer_guard transfer_guard_device_to_device transfer_guard_device_to_host "
       "transfer_guard_host_to_device "
       "devices disable_jit dtypes effects_barrier enable_x64 ensure_compile_time_eval errors "
       "eval_shape "
       "experimental export flatten_util lax live_arrays local_device_count local_devices "
       "copy_to_host_async print_environment_info "
       "log_compiles make_jaxpr named_scope nn numpy numpy_dtype_promotion "
       "Shard auto_pcast host_count host_id host_ids thread_guard "
       "numpy_rank_promotion ops process_count process_index process_indices pure_callback random "
       "runtime scipy stages test_util threefry_partitionable tree tree_map tree_util typeof "
       "typing")
