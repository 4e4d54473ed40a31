"""Memory of GPUs, on a stand-in: a CPU's queue whose memory is treated as a card's.

What it is asked for (nothing that is mapped), what comes and goes by way of memory that both see,
results and working memory that the caller gives, what happens when there is no more.
"""
from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import iree.runtime as rt
import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import aot, runtime
from calque.lowering.compiler.compile import CompileError, compile_module, compile_to
from calque.lowering.driver.attempts import compile_lowered
from calque.lowering.driver.module import Lowered, LowerOptions, lower
from calque.lowering.target.targets import Target, parse_target
from calque.runtime import Buffer, Device, Executable, executable, memory
from calque.runtime import device as devices_module
from calque.runtime.errors import ArtifactError, DeviceError

MAPPED = int(rt.BufferUsage.MAPPING)
CACHE = "caching:device_local=*;64mib;1024"


@pytest.fixture(scope="module")
def card() -> Device:
    """A device that seems to be a card: its memory is not the host's as far as calque knows."""
    made = Device("cuda", 0, "a stand-in of 64 MiB")
    hal = rt.get_driver("local-task").create_default_device(allocators=[CACHE])
    devices_module._make_immortal(hal)
    vars(made).update(sync=hal, task=hal)
    assert not made.is_host and not devices_module.is_host(hal)
    return made


def lowered_for_card(fun: Any, *shapes: tuple[int, ...], donated: tuple[int, ...] = ()) -> Lowered:
    """As for a card, in a CPU's code."""
    avals = [calque.ShapeDtypeStruct(s, np.float32) for s in shapes]
    program = calque.make_jaxpr(fun)(*avals).jaxpr
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Target, "asks_no_queue", True)
        return lower(getattr(program, "program", program), parse_target("cpu"), LowerOptions(
            donated=donated, output_buffers=True, transients=True))


def on_card(fun: Any, card: Device, *shapes: tuple[int, ...], donated: tuple[int, ...] = ()
            ) -> Executable:
    lowered = lowered_for_card(fun, *shapes, donated=donated)
    assert lowered.module is not None
    vmfb = compile_module(lowered.module, parse_target("cpu"), lowered.options)
    return Executable(vmfb, card, lowered.call)


def between(x: Any) -> tuple[Any, Any, Any]:
    y = jnp.tanh(x @ x)
    return jnp.sum(y @ y, axis=0), jnp.sum(x), x + 1


def test_arrays_go_there_and_come_back(card: Device) -> None:
    for value in (np.arange(12, dtype=np.float32).reshape(3, 4).T, np.float64(3.5),
                  np.array([1 + 2j, -3j], np.complex64), np.array([True, False]),
                  np.arange(5, dtype=np.int8)[::2], np.zeros((0, 3), np.float32),
                  np.ones((300, 300), np.float32)):
        buffer = Buffer.from_numpy(value, card)
        got = buffer.numpy()
        np.testing.assert_array_equal(got, value)
        assert got.dtype == np.asarray(value).dtype and not got.flags.writeable
        np.testing.assert_array_equal(buffer.copy().numpy(), value)


def test_only_a_cpu_is_asked_for_memory_that_is_mapped(device: Device, card: Device) -> None:
    assert int(memory.usage(device)) & MAPPED == MAPPED
    assert int(memory.usage(card)) & MAPPED == 0
    assert Buffer.from_numpy(np.ones(3), device).view.get_buffer().allowed_usage() & MAPPED
    asked: list[Any] = []
    memory.allocate(seeming(SimpleNamespace(allocate_buffer=lambda *how: asked.append(how))), 8)
    assert [[int(part) for part in how] for how in asked] == [
        [int(rt.MemoryType.DEVICE_LOCAL), int(rt.BufferUsage.DEFAULT), 8]]


def test_a_source_may_change_while_it_is_on_its_way(card: Device) -> None:
    source = np.ones(1 << 20, np.float32)
    buffers = []
    for i in range(20):
        source[:] = i
        buffers.append(Buffer.from_numpy(source, card))
    source[:] = -1
    assert [float(b.numpy().max()) for b in buffers] == list(range(20))


def test_a_value_of_the_host_goes_there_when_a_program_asks(card: Device) -> None:
    program = on_card(lambda x: x + x, card, (1000,))
    value = Buffer.of_host(np.arange(1000, dtype=np.float32), card)
    np.testing.assert_array_equal(program([value])[0].numpy(), 2 * np.arange(1000))
    assert value.view is not None


def test_programs_take_all_their_memory_from_the_caller(card: Device) -> None:
    lowered = lowered_for_card(between, (64, 64))
    assert lowered.call.transients and lowered.call.output_buffers == (0, 1, 2)
    assert lowered.module is not None
    text = compile_to(lowered.module, parse_target("cpu"), "vm", lowered.options)
    assert "hal.device.queue.alloca" not in text and "hal.device.queue.dealloca" not in text
    x = np.random.default_rng(0).uniform(-1, 1, (64, 64)).astype(np.float32)
    program = on_card(between, card, (64, 64))
    assert program._storage == 0
    got = [b.numpy() for b in program([Buffer.from_numpy(x, card)])]
    assert program._storage >= 2 * x.nbytes
    for a, b in zip(got, calque.jit(between)(x), strict=True):
        np.testing.assert_array_equal(a, np.asarray(b))


def test_calls_that_overlap_work_in_memory_of_their_own(card: Device) -> None:
    program = on_card(between, card, (200, 200))
    values = [np.full((200, 200), i / 400, np.float32) for i in range(12)]
    first = [program([Buffer.from_numpy(v, card)])[0].numpy() for v in values]  # one at a time
    for _ in range(5):
        arguments = [Buffer.from_numpy(v, card) for v in values]
        under_way = [program([a]) for a in arguments]
        del arguments
        for want, got in zip(first, under_way, strict=True):
            np.testing.assert_array_equal(want, got[0].numpy())


def test_a_chain_behind_a_donated_argument(card: Device) -> None:
    step = on_card(lambda x: jnp.sin(x @ x) * 0.5 + x, card, (100, 100), donated=(0,))
    x = np.full((100, 100), 0.01, np.float32)
    waited, chained = Buffer.from_numpy(x, card), Buffer.from_numpy(x, card)
    for _ in range(30):
        chained = step([chained])[0]
        waited = step([waited])[0]
        waited.wait()
    np.testing.assert_array_equal(chained.numpy(), waited.numpy())


def test_results_that_may_be_an_argument_are_copied_out_of_it(card: Device) -> None:
    def fun(x: Any, y: Any) -> Any:
        return x.reshape(-1), x.reshape(-1) + 0, x.T.T, x.reshape(8, 8), y[:4].reshape(2, 2, 4), y

    lowered = lowered_for_card(fun, (4, 16), (4, 4))
    assert len(lowered.call.output_buffers) == len(lowered.call.results or ())
    assert lowered.call.may_alias == {}
    x = np.arange(64, dtype=np.float32).reshape(4, 16)
    y = -np.arange(16, dtype=np.float32).reshape(4, 4)
    arguments = [Buffer.from_numpy(x, card), Buffer.from_numpy(y, card)]
    results = on_card(fun, card, (4, 16), (4, 4))([arguments[i] for i in lowered.arguments])
    for position, where in enumerate(lowered.results):
        if where.kind == "computed":
            want = np.asarray(fun(jnp.asarray(x), jnp.asarray(y))[position])
            got = results[where.position]
            np.testing.assert_array_equal(got.numpy(), want)
            memory = got.view.get_buffer().ref
            assert not any(a.view.get_buffer().ref == memory for a in arguments)


def test_what_is_donated_is_written_in_place(card: Device) -> None:
    def put(x: Any) -> Any:
        return calque.lax.dynamic_update_slice(x, jnp.full(3, 7.0), (5,))

    call = lowered_for_card(put, (1_000_000,), donated=(0,)).call
    assert call.output_buffers == () and call.may_alias == {0: (0,)} and call.transients
    x = Buffer.from_numpy(np.zeros(1_000_000, np.float32), card)
    memory_of_x = x.view.get_buffer().ref
    (made,) = on_card(put, card, (1_000_000,), donated=(0,))([x])
    assert made.view.get_buffer().ref == memory_of_x and x.is_deleted()
    assert made.numpy()[5] == 7.0 and made.numpy().sum() == 21.0


def test_blocks_are_used_again(card: Device) -> None:
    program = on_card(between, card, (128, 128))
    x = Buffer.from_numpy(np.ones((128, 128), np.float32), card)
    program([x])[0].wait()
    before = card.sync.allocator.statistics["device_bytes_allocated"]
    for _ in range(50):
        program([x])[0].wait()
    assert card.sync.allocator.statistics["device_bytes_allocated"] - before < 1 << 20


@pytest.mark.parametrize("fun", [
    lambda x: calque.lax.fori_loop(0, jnp.int32(x[0, 0]), lambda i, c: jnp.tanh(c @ c), x),
    lambda x: calque.lax.cond(x[0, 0] > 0, lambda c: jnp.tanh(c @ c) @ c, lambda c: c - 1, x),
])
def test_what_the_host_steps_through_asks_the_queue(
        card: Device, fun: Any, host_loops: None) -> None:
    assert not lowered_for_card(fun, (32, 32)).call.transients
    x = np.random.default_rng(1).uniform(0, 4, (32, 32)).astype(np.float32)
    got = on_card(fun, card, (32, 32))([Buffer.from_numpy(x, card)])[0].numpy()
    np.testing.assert_array_equal(got, np.asarray(calque.jit(fun)(x)))


def test_a_program_that_does_not_say_how_much_is_refused() -> None:
    assert executable.storage_bytes({"iree.abi.transients.size.constant": "64"}, "f") == 64
    for said in ({}, {"iree.abi.transients.size.constant": "-1"}):
        with pytest.raises(ArtifactError, match="does not say how much memory"):
            executable.storage_bytes(said, "f")


def test_what_iree_rejects_is_written_with_memory_of_the_queue(
        monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    def write(transients: bool = True, views: bool = False, locations: bool = False) -> Any:
        asked.append({"transients": transients, "views": views})
        return SimpleNamespace(module=b"m" + bytes([transients]),
                               call=SimpleNamespace(transients=transients))

    def compile_cached(module: bytes, *args: Any, **more: Any) -> bytes:
        if module[-1]:
            raise CompileError(["no"])
        return b"vmfb"

    monkeypatch.setattr("calque.lowering.driver.attempts.compile_cached", compile_cached)
    made, vmfb = compile_lowered(write, parse_target("cpu"), lambda _: (), "a test")
    assert vmfb == b"vmfb" and not made.call.transients
    assert asked == [{"transients": True, "views": False}, {"transients": False, "views": False}]


# ---- a card with no more memory

class Exhausted:
    """An allocator that has memory again after it was trimmed so often."""

    def __init__(self, needed: int) -> None:
        self.needed, self.trims, self.has_statistics = needed, 0, True
        self.statistics = {"device_bytes_allocated": 3 << 20, "device_bytes_freed": 1 << 20}

    def allocate_buffer(self, *_: Any) -> str:
        if self.trims < self.needed:
            raise RuntimeError("c/runtime/src/iree/hal/drivers/cuda/cuda_allocator.c:1: "
                               "RESOURCE_EXHAUSTED; CUDA_ERROR_OUT_OF_MEMORY")
        return "memory"

    def trim(self) -> None:
        self.trims += 1


def seeming(allocator: Any) -> Any:
    waited: list[int] = []
    return SimpleNamespace(
        is_host=False, platform="cuda", index=0, device_kind="NVIDIA H200", waited=waited,
        sync=SimpleNamespace(allocator=allocator), __str__=lambda: "cuda:0",
        pending=SimpleNamespace(wait=lambda: waited.append(allocator.trims)))


def test_the_cache_gives_up_its_blocks_before_memory_is_missing() -> None:
    device = seeming(Exhausted(1))
    assert memory.allocate(device, 100) == "memory"
    assert device.waited == [0] and device.sync.allocator.trims == 1  # calls under way first


def test_memory_exhausted_names_card_size_and_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory.cuda, "total_memory", lambda index: 4 << 20)
    with pytest.raises(DeviceError, match=(
            r"(?s)RESOURCE_EXHAUSTED: out of memory allocating 100 bytes on .*\(NVIDIA H200\); of "
            r"its 4 MiB, arrays and programs of this process hold 2 MiB.*\n"
            r"  In test_\w+ \(test_memory\.py:\d+\): step\.\n  Fix: delete arrays")):
        memory.allocate(seeming(Exhausted(9)), 100, "step")


def test_other_failures_are_told_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*how: Any) -> Any:
        raise RuntimeError("INTERNAL; the card fell off the bus")

    allocator = Exhausted(9)
    monkeypatch.setattr(allocator, "allocate_buffer", fail)
    with pytest.raises(DeviceError, match="fell off the bus"):
        memory.allocate(seeming(allocator), 100)
    assert not allocator.trims


@pytest.mark.parametrize("donated, tries", [((), 2), ((0,), 1)])
def test_a_queue_without_memory_is_asked_again(
        donated: tuple[int, ...], tries: int, card: Device) -> None:
    def fun(x: Any) -> Any:
        return calque.lax.fori_loop(0, jnp.int32(x[0, 0]), lambda i, c: jnp.tanh(c @ c), x)

    program = on_card(fun, card, (300, 300), donated=donated)
    x = np.full((300, 300), 3.0, np.float32)
    want = program([Buffer.from_numpy(x, card)])[0].numpy()
    invoke, function = program._on_task
    asked: list[int] = []

    def failing(*how: Any) -> None:
        asked.append(1)
        if len(asked) < 2:
            raise RuntimeError("RESOURCE_EXHAUSTED; CUDA_ERROR_OUT_OF_MEMORY")
        invoke(*how)

    program._on_task = (failing, function)
    arguments = [Buffer.from_numpy(x, card)]
    if tries == 2:
        np.testing.assert_array_equal(program(arguments)[0].numpy(), want)
    else:
        with pytest.raises(DeviceError, match="out of memory allocating up to .*a stand-in"):
            program(arguments)
    assert len(asked) == tries


# ---- how a card is opened

class Driver:
    """One whose heaps allow the last of so many caches only; notes what it was asked for."""

    def __init__(self, allowed: str | None) -> None:
        self.allowed, self.asked = allowed, []  # type: ignore[var-annotated]

    def create_device(self, device_id: int, allocators: Any = None) -> str:
        self.asked.append(allocators)
        if allocators is not None and allocators != [self.allowed]:
            raise ValueError("INVALID_ARGUMENT; no heap matching requested config params")
        return "card"


def test_a_card_gets_a_bounded_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices_module.cuda, "total_memory", lambda index: 80 << 30)
    best, less, plain = devices_module.cuda_allocators(0)
    assert best == "caching:device_local=*;61440mib;1024,host_cached=*;256mib;64"
    assert less == "caching:device_local=*;61440mib;1024" and plain == "caching"
    rt.get_driver("local-task").create_default_device(allocators=[less])  # IREE reads it
    for allowed, tries in ((best, 1), (less, 2), (plain, 3), (None, 4)):
        driver = Driver(allowed)
        assert devices_module.create_gpu(driver, 1, [best, less, plain]) == "card"
        assert len(driver.asked) == tries
    driver = Driver(None)
    devices_module.create_gpu(driver, 1, [])
    assert driver.asked == [None]


def test_cuda_is_told_not_to_ask_the_driver_at_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    devices_module._set_flags.cache_clear()
    monkeypatch.setattr(devices_module.rt, "flags", SimpleNamespace(parse_flags=told.append))
    monkeypatch.setattr(devices_module.rt, "get_driver", lambda name: (name, list(told)))
    assert devices_module._driver("local-task") == ("local-task", [])
    assert devices_module._driver("cuda") == ("cuda", ["--cuda_async_allocations=false"])
    devices_module._driver("cuda")
    assert len(told) == 1
    devices_module._set_flags.cache_clear()


# ---- artifacts

def test_artifacts_for_cuda_say_so_and_others_do_not() -> None:
    made = aot.compile(between, "f32[64,64]", name="f", targets=["cuda:sm_80", "cpu"])
    on_cuda, on_cpu = (r.call for r in runtime.aot.read_records(made.vmfb))
    assert on_cuda.transients and on_cuda.output_buffers == (0, 1, 2)
    assert on_cuda.to_json()["transients"] is True
    assert not on_cpu.transients and "transients" not in on_cpu.to_json()


def test_a_record_that_lies_about_it_is_refused() -> None:
    made = aot.compile(between, "f32[64,64]", name="f", targets=["cuda:sm_80"])
    (record,) = runtime.aot.read_records(made.vmfb)
    lie = replace(record, call=replace(record.call, transients=False))
    declaration = ("async func @main(%input0: tensor<64x64xf32>, %input1: tensor<64xf32> "
                   "{iree.abi.output = 0 : index}, %input2: tensor<f32> {iree.abi.output = 1 : "
                   "index}, %input3: tensor<64x64xf32> {iree.abi.output = 2 : index}, %input4: "
                   "!hal.buffer {iree.abi.transients = unit}) -> (%output0: tensor<64xf32>, "
                   "%output1: tensor<f32>, %output2: tensor<64x64xf32>)")
    runtime.aot._check_declaration(record, declaration, "a file")
    with pytest.raises(ArtifactError, match="is not that of the program"):
        runtime.aot._check_declaration(lie, declaration, "a file")


@pytest.mark.parametrize("capability, name", [((8, 6), "cuda:sm_80"), ((9, 0), "cuda:sm_90"),
                                              ((12, 0), "cuda:sm_90"), ((7, 5), None)])
def test_a_card_gets_the_newest_form_that_it_runs(
        capability: tuple[int, int], name: str | None, card: Device,
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices_module.cuda, "capability", lambda index: capability)
    monkeypatch.setattr(devices_module.cuda, "driver_version", lambda: (12, 9))
    made = aot.compile(jnp.sin, "f32[4]", name="f", targets=["cuda:sm_80", "cuda:sm_90"])
    if name is None:
        with pytest.raises(ArtifactError, match="compute capability 8.0 .the card has 7.5"):
            runtime.load(made.vmfb, card)
        return
    assert runtime.load(made.vmfb, card).functions["f"].target["name"] == name


def test_a_program_that_the_driver_refuses_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices_module.cuda, "driver_version", lambda: (11, 4))
    monkeypatch.setattr(devices_module.cuda, "capability", lambda index: (7, 0))
    error = executable.load_error(RuntimeError("INTERNAL; CUDA driver error "
                                               "'CUDA_ERROR_UNSUPPORTED_PTX_VERSION' (222)"))
    assert ("cuda:host), or install a newer driver; compute capability 7.0, driver of CUDA 11.4, "
            "reads PTX up to 7.4") in str(error)


def test_vulkan_programs_ask_their_queue() -> None:
    target = parse_target("vulkan:lavapipe")
    assert not target.takes_memory and not target.takes_storage


@pytest.mark.parametrize("shape", [2**62, 2**64, (2**31, 2**31)])
def test_more_than_any_memory_has_is_refused_in_words(shape: Any) -> None:
    with pytest.raises(runtime.DeviceError, match="(?s)out of memory allocating .*Fix: "):
        jnp.zeros(shape)
