"""Why a workload takes more than 1.3 times the best peer's time, as far as it is known, by timing
parts alone (benchmarks/peers_parts.py) and by `jitted.lower(...).plan()`; benchmarks/peers.py puts
them under its table."""
from __future__ import annotations

_QUEUE = ("the queue's hand-over: x + 1 of 600,000 numbers takes 89 us and of 1,000,000 102, "
          "so that about 70 are no work")
_SORT = "NumPy sorts in registers of AVX-512 (a quicksort), ours by passes over memory"
_LAYERS = ("seven kernels: pads and pools are passes of their own, and packing is a fifth of "
           "convolutions whose rows are no whole vectors (14 x 14)")
_RESIDUAL = ("42 kernels: pads and pools are passes of their own; a convolution of 64 x 32 x 32 "
             "alone takes 1.3 of ONNX Runtime's time, of 512 x 4 x 4 0.85")

REASONS: dict[str, str] = {
    "add_4": "a jitted call's own cost (4.6 us); NumPy and torch call a function in C for it",
    "add_1m": _QUEUE,
    "polynomial_10_1m": "as add_1m: " + _QUEUE,
    "where_1m": "as add_1m: " + _QUEUE,
    "gelu_1m": "exact gelu is written by erfc, which takes 456 us alone; by erf the whole takes "
               "270 (erf alone 245, exp 119)",
    "black_scholes_1m": "ndtr, by erfc, takes 647 us alone and there are two; log 148, exp 119",
    "softmax_2048": "a pass x + 1 over the same array takes 394 us, as ONNX Runtime's softmax; "
                    "ours reads for the maximum (168 alone) and goes over exp's results once more",
    "cumsum_1m": "left to IREE, no kernel of ours: a scan that adds takes 576 us on one thread",
    "cumsum_rows": "left to IREE, as cumsum_1m",
    "rows_1_of_4096": "reads its 64 MiB at half of the rate that ONNX Runtime reaches; weights as "
                      "constants change nothing; why it does not stream faster is not known",
    "matvec_4096": "as rows_1_of_4096: 64 MiB read once, at less than the memory's rate",
    "rows_64_by_transposed": "the matrix is packed anew in each call (a scratch of 4.7 MB in the "
                             "plan), ONNX Runtime packs constants once; ours do not by constants",
    "int8_512": "vpmaddwd multiplies two bytes of a lane at a time, torch's vpdpbusd four "
                "(reasons.py); packed anew in each call, and the queue's 70 us",
    "conv_3x3_nchw": "a padded copy is written in each call, and packing of rows of 56 "
                     "numbers, no whole vectors, takes 18%; ONNX Runtime reads blocks of features",
    "conv_3x3_nhwc": "as conv_3x3_nchw",
    "conv_depthwise_nchw": "one elementwise chain over nine slices takes as long without the pad "
                           "(242 us): 28 numbers of a row are no whole vectors",
    "sort_1m": _SORT + ", on one thread",
    "sort_rows_512": _SORT,
    "top_10_of_2000_rows": "three kernels: numbers become keys in memory first (30 MiB), then the "
                           "selection, then a gather",
    "scatter_add_500k": "two kernels prepare the positions (7.6 MB written), the third adds on one "
                        "thread; numba's loop does only that, unchecked",
    "mlp_batch_1": "its first product, 1 x 784 by 512, takes 34 us on the caller's thread alone; "
                   "ONNX Runtime's whole network 18 on two; weights as constants change nothing",
    "mlp_batch_8": "as mlp_batch_1",
    "cnn_batch_1": "on the caller's thread, where its second convolution takes 40 us; " + _LAYERS,
    "cnn_batch_8": _LAYERS,
    "cnn_batch_64": _LAYERS,
    "resnet18_batch_1": _RESIDUAL,
    "resnet18_batch_8": _RESIDUAL,
    "resnet18_batch_64": "measured before biases and relus were part of convolutions; the first "
                         "result, 64 MiB, is in fresh pages in each call (20 ms)",
    "lstm_batch_1": "weights are turned round by IREE's operations in each call (253 us with "
                    "constants, 277 without); then one loop over memory, 1.2 threads at work",
    "gru_batch_1": "as lstm_batch_1",
    "matmul_256": "the queue's hand-over, about 70 us of 110",
    "matmul_1024": "alone 5.1 ms, on a par",
    "mlp_batch_64": "784 by 512 alone takes 165 us, the queue's 70 among them; four kernels",
    "gpt_block_prefill_512": "its products and attention alone take 9.5 ms, ONNX Runtime's whole "
                             "9.9; bias, gelu and residual are IREE's passes behind each product",
}
