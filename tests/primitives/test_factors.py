"""Every primitive has a row of factors, or is listed here with the reason why it has none."""
from __future__ import annotations

import calque  # noqa: F401  (registers the primitives)
from calque.core.primitive import registry
from calque.transforms.propagate import _ENTERED

WITHOUT = {
    "its programs are entered": "jit checkpoint custom_jvp_call custom_vjp_call custom_vmap_call "
    "custom_lin custom_linear_solve",
    "positions in the whole decide": "iota random_bits random_split rng_bit_generator "
    "random_seed dim_as_value",
    "a key's words are no dimension": "random_wrap random_unwrap",
    "inside shard_map only": "all_gather all_to_all axis_index pmax pmin ppermute psum "
    "psum_invariant reduce_scatter all_gather_reduced invary_unreduced_cast unreduced_psum "
    "unreduced_reduce_scatter",
    "between processes": "message_reduce message_gather message_exchange message_scatter "
    "message_permute message_shift",
    "Python sees whole arrays": "debug_callback io_callback pure_callback",
    "kernels of the user's see whole arrays": "ffi_call",
    "a matrix of blocks is whole": "quantized_dot",
    "windows cross parts": "reduce_window_max reduce_window_min reduce_window_sum "
    "select_and_gather_add select_and_scatter_add",
    "sizes of elements change": "bitcast_convert_type",
    "lowering makes it": "threefry2x32 complex_part as_pairs fft_axis",
    "linear algebra with results of ranks of its own": "lu_pivots_to_permutation tridiagonal_solve"}


def test_every_primitive_has_a_row_or_a_reason() -> None:
    ours = {n for n, p in registry.items() if getattr(p.abstract, "__module__", "").startswith(
        "calque.") or p.abstract is None}
    missing = {n for n in ours if registry[n].factors is None} - set(_ENTERED)
    listed = {n for names in WITHOUT.values() for n in names.split()}
    assert missing <= listed, sorted(missing - listed)
    assert all(registry[n].factors is None for n in listed if n in registry)
