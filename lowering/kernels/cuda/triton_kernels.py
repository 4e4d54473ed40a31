"""The kernels for CUDA, in Triton: what `make.py` compiles to the PTX beside this file.

Never imported by calque: users have neither Triton nor need it.  Arrays are contiguous up to the
strides that a kernel takes as numbers; all numbers have 32 bits, as IREE passes nothing else.
tests/lowering/test_cuda_kernels.py runs each on the CPU, by Triton's interpreter.
"""
import triton
import triton.language as tl


@triton.jit
def _tile(m, n, BM: tl.constexpr, BN: tl.constexpr):
    """The tile of this program: eight rows of tiles at a time, so that what they read stays in
    the second-level cache."""
    pid = tl.program_id(0)
    rows, columns = tl.cdiv(m, BM), tl.cdiv(n, BN)
    group = 8 * columns
    first = pid // group * 8
    size = min(rows - first, 8)
    return first + (pid % group) % size, (pid % group) // size


@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, m, n, k, span, lda, ldb, inner, a_outer, a_inner, b_outer,
           b_inner, TA: tl.constexpr, TB: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
           BK: tl.constexpr, PRECISION: tl.constexpr):
    """C = A B for each of a batch (grid axis 1) and each part of the sums (grid axis 2).

    Args:
      a_ptr, b_ptr: A is m x k with rows lda apart (TA: k x m), B k x n with rows ldb apart (TB:
        n x k).  Matrix i of the batch starts at i // inner * outer + i % inner * inner stride.
      c_ptr: (parts, batch, m, n).
      span: how many numbers a part sums, a multiple of BK.
      PRECISION: what products of float32 are: tf32, tf32x3, ieee.
    """
    pm, pn = _tile(m, n, BM, BN)
    batch, part = tl.program_id(1), tl.program_id(2)
    outer, within = (batch // inner).to(tl.int64), (batch % inner).to(tl.int64)
    rm = (pm * BM + tl.arange(0, BM)) % m
    rn = (pn * BN + tl.arange(0, BN)) % n
    start = part * span
    rk = tl.arange(0, BK)
    # (places within a matrix have 32 bits: with 64 the largest tiles run out of registers)
    a = (rm[:, None] + rk[None, :] * lda) if TA else (rm[:, None] * lda + rk[None, :])
    b = (rk[:, None] + rn[None, :] * ldb) if TB else (rk[:, None] * ldb + rn[None, :])
    da = lda if TA else 1
    db = 1 if TB else ldb
    a_ptr += outer * a_outer + within * a_inner + start.to(tl.int64) * da
    b_ptr += outer * b_outer + within * b_inner + start.to(tl.int64) * db
    end = tl.minimum(span, k - start)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for s in range(0, tl.cdiv(end, BK)):
        x = tl.load(a_ptr + a, mask=rk[None, :] < end - s * BK, other=0.0)
        y = tl.load(b_ptr + b, mask=rk[:, None] < end - s * BK, other=0.0)
        acc = tl.dot(x, y, acc, input_precision=PRECISION)
        a_ptr += BK * da
        b_ptr += BK * db
    cm, cn = pm * BM + tl.arange(0, BM), pn * BN + tl.arange(0, BN)
    c = c_ptr + (part * tl.num_programs(1) + batch).to(tl.int64) * m * n
    tl.store(c + cm[:, None].to(tl.int64) * n + cn[None, :], acc.to(c_ptr.dtype.element_ty),
             mask=(cm[:, None] < m) & (cn[None, :] < n))


@triton.jit
def matmul_tma(a_ptr, b_ptr, c_ptr, m, n, k, span, lda, ldb, inner, a_outer, a_inner, b_outer,
               b_inner, TA: tl.constexpr, TB: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
               BK: tl.constexpr, PRECISION: tl.constexpr):
    """The same by Hopper's copy engine, whose descriptors each program makes in scratch memory:
    IREE passes pointers and numbers, no structures.  Rows are multiples of 16 bytes."""
    pm, pn = _tile(m, n, BM, BN)
    batch, part = tl.program_id(1), tl.program_id(2)
    outer, within = (batch // inner).to(tl.int64), (batch % inner).to(tl.int64)
    a_ptr += outer * a_outer + within * a_inner
    b_ptr += outer * b_outer + within * b_inner
    if TA:
        a = tl.make_tensor_descriptor(a_ptr, [k, m], [lda, 1], [BK, BM])
    else:
        a = tl.make_tensor_descriptor(a_ptr, [m, k], [lda, 1], [BM, BK])
    if TB:
        b = tl.make_tensor_descriptor(b_ptr, [n, k], [ldb, 1], [BN, BK])
    else:
        b = tl.make_tensor_descriptor(b_ptr, [k, n], [ldb, 1], [BK, BN])
    start = part * span
    acc = tl.zeros((BM, BN), tl.float32)
    for s in range(0, tl.cdiv(tl.minimum(span, k - start), BK)):
        at = start + s * BK
        x = a.load([at, pm * BM]).T if TA else a.load([pm * BM, at])
        y = b.load([pn * BN, at]).T if TB else b.load([at, pn * BN])
        acc = tl.dot(x, y, acc, input_precision=PRECISION)
    cm, cn = pm * BM + tl.arange(0, BM), pn * BN + tl.arange(0, BN)
    c = c_ptr + (part * tl.num_programs(1) + batch).to(tl.int64) * m * n
    tl.store(c + cm[:, None].to(tl.int64) * n + cn[None, :], acc.to(c_ptr.dtype.element_ty),
             mask=(cm[:, None] < m) & (cn[None, :] < n))


@triton.jit
def turn(x_ptr, y_ptr, m, n, apart, B: tl.constexpr):
    """Matrices of m x n, rows `apart` (a matrix at each m * apart), as n x m; their number is grid
    axis 1."""
    columns = tl.cdiv(n, B)
    pid, batch = tl.program_id(0), tl.program_id(1).to(tl.int64)
    rm = pid // columns * B + tl.arange(0, B)
    rn = pid % columns * B + tl.arange(0, B)
    x = tl.load(x_ptr + batch * m * apart + rm[:, None].to(tl.int64) * apart + rn[None, :],
                mask=(rm[:, None] < m) & (rn[None, :] < n), other=0)
    tl.store(y_ptr + batch * m * n + rn[:, None].to(tl.int64) * m + rm[None, :], tl.trans(x),
             mask=(rn[:, None] < n) & (rm[None, :] < m))


@triton.jit
def convolve(x_ptr, w_ptr, y_ptr, count, h, w, c, oh, ow, k, r, s, sh, sw, ph, pw, dh, dw,
             BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PRECISION: tl.constexpr):
    """A convolution, channels last, as a product: rows are places of the result, sums run over the
    window.  A window's row, its columns' channels side by side, is one run of the sums, so that few
    channels fill a block.

    Args:
      x_ptr: (count, h, w, c).  w_ptr: (r, s, c, k).  y_ptr: (count, oh, ow, k).
      sh, sw, ph, pw, dh, dw: strides, padding in front (cropping where negative), dilations.
    """
    pm, pn = _tile(count * oh * ow, k, BM, BN)
    rm, rn = pm * BM + tl.arange(0, BM), pn * BN + tl.arange(0, BN)
    x0, y0 = (rm % ow) * sw - pw, ((rm // ow) % oh) * sh - ph
    image = rm // (ow * oh)
    run = s * c
    steps = tl.cdiv(run, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(0, r * steps):
        row = i // steps
        q = (i % steps) * BK + tl.arange(0, BK)
        iy, ix = y0 + row * dh, x0[:, None] + (q // c)[None, :] * dw
        ok = ((image < count) & (iy >= 0) & (iy < h))[:, None] & (ix >= 0) & (ix < w)
        a = tl.load(x_ptr + ((image * h + iy) * w)[:, None] * c + ix * c + (q % c)[None, :],
                    mask=ok & (q < run)[None, :], other=0.0)
        b = tl.load(w_ptr + (row * run + q)[:, None] * k + rn[None, :],
                    mask=(q < run)[:, None] & (rn < k)[None, :], other=0.0)
        acc = tl.dot(a, b, acc, input_precision=PRECISION)
    tl.store(y_ptr + rm[:, None].to(tl.int64) * k + rn[None, :], acc.to(y_ptr.dtype.element_ty),
             mask=(rm < count * oh * ow)[:, None] & (rn < k)[None, :])


@triton.jit
def convolve_weights(x_ptr, g_ptr, y_ptr, count, h, w, c, oh, ow, k, r, s, sh, sw, ph, pw, dh, dw,
                     span, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
                     PRECISION: tl.constexpr):
    """The gradient of `convolve` by its window, g that of its result: rows are (r, s, c), sums run
    over all places, `span` of them in each part (grid axis 2); y is (parts, r, s, c, k)."""
    rows = r * s * c
    pm, pn = _tile(rows, k, BM, BN)
    part = tl.program_id(2)
    rm, rn = pm * BM + tl.arange(0, BM), pn * BN + tl.arange(0, BN)
    across, down, channel = (rm // c) % s * dw - pw, rm // (c * s) * dh - ph, rm % c
    places = count * oh * ow
    start = part * span
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(0, tl.cdiv(tl.minimum(span, places - start), BK)):
        p = start + i * BK + tl.arange(0, BK)
        ix = across[:, None] + ((p % ow) * sw)[None, :]
        iy = down[:, None] + ((p // ow) % oh * sh)[None, :]
        ok = (rm < rows)[:, None] & (p < places)[None, :]
        ok = ok & (iy >= 0) & (iy < h) & (ix >= 0) & (ix < w)
        a = tl.load(x_ptr + (((p // (ow * oh))[None, :] * h + iy) * w + ix) * c + channel[:, None],
                    mask=ok, other=0.0)
        b = tl.load(g_ptr + p[:, None] * k + rn[None, :],
                    mask=(p < places)[:, None] & (rn < k)[None, :], other=0.0)
        acc = tl.dot(a, b, acc, input_precision=PRECISION)
    y = y_ptr + part.to(tl.int64) * rows * k
    tl.store(y + rm[:, None] * k + rn[None, :], acc.to(y_ptr.dtype.element_ty),
             mask=(rm < rows)[:, None] & (rn < k)[None, :])
