"""Targets of CUDA: the cards that are known, what selects them, and what their code asks for.

Code for a card is PTX, which the drivers of that card and of all newer ones compile.  IREE 3.13
knows names of most cards; of Hopper (sm_90) and of data centers' Blackwell (sm_100) it knows none,
and takes them by an attribute.  Start reading at `flag` and `words`.
"""
from __future__ import annotations

# name -> the PTX that IREE writes for it, which a driver must read
PTX = {"sm_60": "7.6", "sm_70": "7.6", "sm_75": "7.6", "sm_80": "7.6", "sm_86": "7.6",
       "sm_89": "8.4", "sm_90": "8.0", "sm_100": "8.6", "sm_120": "8.7"}
ALIASES = {"h100": "sm_90", "h200": "sm_90", "hopper": "sm_90", "b100": "sm_100",
           "b200": "sm_100"}
# what IREE has no name for; it takes what IREE says of sm_89 (KnownTargets.cpp), and 227 KiB of
# shared memory, as both cards have
_BY_ATTRIBUTE = ("sm_90", "sm_100")
_TEXT = ('#hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb", '
         '{{iree_codegen.target_info = #iree_gpu.target<arch = "{sm}", features = "+ptx{ptx}", '
         'wgp = <compute = fp64|fp32|fp16|int64|int32|int16|int8, storage = b64|b32|b16|b8, '
         'subgroup = shuffle|arithmetic, dot = dp4xi8toi32, mma = [<NV_MMA_SYNC_F32_16x8x16_F16>, '
         '<NV_MMA_SYNC_F16_16x8x16_F16>, <NV_MMA_SYNC_F32_16x8x16_BF16>], '
         'subgroup_size_choices = [32], max_workgroup_sizes = [1024, 1024, 1024], '
         'max_thread_count_per_workgroup = 1024, max_workgroup_memory_bytes = 232448, '
         'max_workgroup_counts = [2147483647, 65535, 65535]>>}}>]>')


def flags(sm: str) -> tuple[str, ...]:
    """The compiler flags that select a card."""
    if sm in _BY_ATTRIBUTE:
        text = _TEXT.format(sm=sm, ptx=PTX[sm].replace(".", ""))
        return (f"--iree-hal-target-device={text}",)
    return ("--iree-hal-target-device=cuda", f"--iree-cuda-target={sm}")


def words(sm: str) -> tuple[str, ...]:
    """What its code asks of a driver and a card, in the words of records (runtime/cuda.py)."""
    number = sm.removeprefix("sm_")
    return f"ptx={PTX[sm]}", f"sm={number[:-1]}.{number[-1]}"


def name_of(capability: tuple[int, int], newest_ptx: tuple[int, int] | None = None) -> str:
    """The name for a card of a compute capability whose driver reads PTX up to that, 'sm_90'.

    The newest that is not newer than the card and whose PTX the driver reads; the oldest where
    there is none such.
    """
    def read(sm: str) -> bool:
        return newest_ptx is None or tuple(map(int, PTX[sm].split("."))) <= newest_ptx
    fitting = [sm for sm in PTX if _number(sm) <= 10 * capability[0] + capability[1] and read(sm)]
    return max(fitting, key=_number, default="sm_60")


def _number(sm: str) -> int:
    return int(sm.removeprefix("sm_"))


__all__ = ["ALIASES", "PTX", "flags", "name_of", "words"]
