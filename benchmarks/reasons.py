"""Why steady calls of a workload take more than 1.3 times as long as jax's, as far as it is known,
with the means by which it was found; benchmarks/suite.py puts them under its tables."""
from __future__ import annotations

REASONS = {
    "add_4": "a call through IREE's VM and its binding is 4 us, jax's 3",
    "sin_tanh_100": "a call's own cost, as add_4",
    "newton_scalar": "a call's own cost, as add_4, is 4 of its 7 us",
    "tree_of_20_leaves": "20 arrays in and 20 out, half a microsecond each in IREE's binding "
                         "(runtime/executable.FEW_BYTES)",
    "fft_2d_512": "a real array is written as a complex one first (0.25 of 3.3 ms of CPU), and "
                  "rows take 1.5 where jax's library takes 0.75, of 512 columns as of 528",
    "stack_of_50": "50 arrays in, half a microsecond each in IREE's binding, as tree_of_20_leaves: "
                   "of 10 numbers each it takes as long",
    "matmul_int8_128x256x128": "vpmaddwd multiplies two bytes of a lane at a time, jax's vpdpbusd "
                               "four; and what the queue costs (benchmarks/border.py)",
    "matmul_int8_512": "as matmul_int8_128x256x128",
    "mlp_step": "one kernel (passes/cost.is_whole), as at AVX2, where it is on a par; its products "
                "of few columns do not fill AVX-512's registers",
    "cart_pole_step": "a call's own cost, as add_4, of three arrays in and three out",
    "fields_of_a_wave": "not known: one workgroup on data of a second level cache; twice as many "
                        "numbers in a step of its inner loops took as long",
    "tridiagonal_systems": "its arrays are turned round before and behind the loops, which IREE "
                           "does, and the two loops are two dispatches",
    "chain_of_bodies_step": "80 arrays in and 81 out, as tree_of_20_leaves; what runs is a third",
}
