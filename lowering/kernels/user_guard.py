"""CALQUE_FFI_GUARD=1: kernels in C run in a process of their own, their arrays between pages that
nobody may touch.

The program calls Python instead of the kernel, and Python a small program around the kernel's
object.  That runs it twice: each array ends at such a page, then begins at one; what it may not
write is read-only.  A fault names array and byte, and becomes the user's error.
Start reading at `guarded`.
"""
from __future__ import annotations

import math
import os
import subprocess
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.core.errors import explain
from calque.core.types import Shape
from calque.lowering.kernels.user import Call
from calque.lowering.kernels.user_c import linked
from calque.lowering.target.targets import Target

_FAULT = 3
_PROGRAM = r"""
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

enum { COUNT = @count, WIDE = 1 << 20, FILL = 0xA5 };
static struct { size_t size; int given, writable; char *base, *data; } b[] = { @bindings };
static size_t room(int i) { size_t p = sysconf(_SC_PAGESIZE); return (b[i].size + p - 1) / p * p; }
void @entry();

static void fault(int signal, siginfo_t *info, void *context) {
  char *at = info->si_addr;
  int wrote = 2;
#ifdef __x86_64__
  wrote = ((ucontext_t *)context)->uc_mcontext.gregs[REG_ERR] >> 1 & 1;
#endif
  for (int i = 0; i < COUNT; ++i)
    if (at >= b[i].base && at < b[i].base + room(i) + 2 * WIDE) {
      dprintf(2, "%d %ld %d\n", i, (long)(at - b[i].data), wrote);
      _exit(@fault);
    }
  dprintf(2, "-1 0 %d\n", wrote);
  _exit(@fault);
}

static void fill(void *to, size_t n) {
  for (size_t done = 0; done < n;) {
    ssize_t got = read(0, (char *)to + done, n - done);
    if (got <= 0) _exit(4);
    done += got;
  }
}

int main(void) {
  static char stack[1 << 16];
  stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
  struct sigaction how = {.sa_sigaction = fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  sigaltstack(&other, 0);
  sigaction(SIGSEGV, &how, 0);
  sigaction(SIGBUS, &how, 0);
  char *saved[COUNT];
  for (int i = 0; i < COUNT; ++i) {
    b[i].base = mmap(0, room(i) + 2 * WIDE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    saved[i] = mmap(0, b[i].size + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (b[i].base == MAP_FAILED || saved[i] == MAP_FAILED) _exit(4);
    if (b[i].given) fill(saved[i], b[i].size);
    else memset(saved[i], FILL, b[i].size);
  }
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < COUNT; ++i) {
      char *first = b[i].base + WIDE;
      mprotect(first, room(i), PROT_READ | PROT_WRITE);
      memset(first, FILL, room(i));
      b[i].data = round ? first : first + room(i) - b[i].size;
      memcpy(b[i].data, saved[i], b[i].size);
      if (!b[i].writable) mprotect(first, room(i), PROT_READ);
    }
    for (int64_t g = 0; g < @groups; ++g) @entry(@arguments, g, (int64_t)@groups);
    for (int i = 0; i < COUNT; ++i)
      for (char *at = b[i].base + WIDE; at < b[i].base + WIDE + room(i); ++at)
        if ((at < b[i].data || at >= b[i].data + b[i].size) && *at != (char)FILL) {
          dprintf(2, "%d %ld 1\n", i, (long)(at - b[i].data));
          _exit(@fault);
        }
  }
  for (int i = 0; i < COUNT; ++i)
    for (size_t done = 0; b[i].writable && done < b[i].size;) {
      ssize_t put = write(1, b[i].data + done, b[i].size - done);
      if (put <= 0) _exit(4);
      done += put;
    }
  return 0;
}
"""


def wanted() -> bool:
    """Whether the switch is on."""
    return os.environ.get("CALQUE_FFI_GUARD", "0") not in ("", "0")


def guarded(call: Call, target: Target, shapes: Sequence[Shape]
            ) -> Callable[[Sequence[Any]], list[Any]]:
    """f(arrays) -> results, which runs the kernel between guard pages.

    Args:
      shapes: of the results.
    """
    arrays = [*[(n * d.itemsize, True, i in call.aliases) for i, (n, d) in enumerate(
        zip(call.sizes, call.ins))],
              *[(math.prod(s) * d.itemsize, False, True) for s, d in call.new]]
    program = linked(call, target, lambda entry, scalars: _source(call, arrays, entry, scalars))
    names = [*[f"argument {i}" for i in range(len(call.ins))],
             *[f"result {j}" if j < call.results else f"work space {j - call.results}"
               for j, i in enumerate(call.into) if i < 0]]

    def run(given: Sequence[Any]) -> list[Any]:
        done = subprocess.run([str(program)], input=b"".join(
            np.ascontiguousarray(x).tobytes() for x in given), capture_output=True, check=False)
        if done.returncode:
            raise RuntimeError(_said(call, arrays, names, done))
        at, parts = 0, {}
        for i, (size, _, writable) in enumerate(arrays):
            if writable:
                parts[i] = done.stdout[at:at + size]
                at += size
        new = iter(range(len(call.ins), len(arrays)))
        places = [next(new) if i < 0 else i for i in call.into]
        return [np.frombuffer(parts[places[j]], d).reshape(s).copy()
                for j, (s, (_, d)) in enumerate(zip(shapes, call.specs))]
    return run


def _source(call: Call, arrays: Sequence[tuple[int, bool, bool]], entry: str,
            scalars: Sequence[int]) -> str:
    """The program around a kernel."""
    given = [p for i in range(len(arrays)) for p in (f"b[{i}].data", "(int64_t)0")]
    given += [f"(int64_t){s}ull" if s >= 0 else f"(int64_t)({s + 1}ll - 1)" for s in scalars]
    values = {"count": len(arrays), "entry": entry, "groups": math.prod(call.grid),
              "fault": _FAULT, "arguments": ", ".join(given), "bindings": ", ".join(
                  f"{{{size}, {int(read)}, {int(write)}}}" for size, read, write in arrays)}
    text = _PROGRAM
    for name, value in values.items():
        text = text.replace(f"@{name}", str(value))
    return text


def _said(call: Call, arrays: Sequence[tuple[int, bool, bool]], names: Sequence[str],
          done: subprocess.CompletedProcess[bytes]) -> str:
    """The message about a kernel that did what it may not."""
    what = f"ffi_call: the C kernel of {call.name!r}"
    fix = "mend the kernel; without CALQUE_FFI_GUARD it damages memory in silence."
    words = done.stderr.split()
    if done.returncode != _FAULT or len(words) < 3:
        return explain(f"{what} ended its process (status {done.returncode}).", call.where, fix)
    i, at, wrote = (int(w) for w in words[-3:])
    verb = ("read", "wrote", "touched")[wrote]
    if i < 0:
        return explain(f"{what} {verb} memory that is none of its arrays (or its stack ended).",
                       call.where, fix)
    size, _, writable = arrays[i]
    if 0 <= at < size and not writable:
        return explain(f"{what} wrote {names[i]}, at byte {at} of its {size}.", call.where, fix)
    side = f"{-at} bytes before" if at < 0 else f"{at - size} bytes behind the end of"
    return explain(f"{what} {verb} memory {side} {names[i]}, which has {size} bytes.", call.where,
                   fix)
