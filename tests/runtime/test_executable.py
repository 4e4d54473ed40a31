"""Calls: inline and queued, chains, failures, donation, threads, lifetimes."""
import gc
import threading
import weakref

import numpy as np
import pytest

from calque.runtime import (
    ArtifactError,
    Buffer,
    CallSpec,
    DeletedBufferError,
    DeviceError,
    Executable,
)

X = np.arange(8, dtype=np.float32)


@pytest.mark.parametrize("run_inline", [True, False])
def test_results_agree_with_numpy(run_inline, program, device):
    a, b = Buffer.from_numpy(X, device), Buffer.from_numpy(X * X, device)
    (total,) = program("add", run_inline=run_inline)([a, b])
    np.testing.assert_array_equal(total.numpy(), X + X * X)
    first, second = program("two", run_inline=run_inline)([a])
    np.testing.assert_array_equal(first.numpy(), X + X)
    np.testing.assert_array_equal(second.numpy(), np.array([3, 4], np.int32))


@pytest.mark.parametrize("run_inline", [True, False])
def test_scalars_and_empty_arrays(run_inline, program, device):
    scalar_program, empty_program = (program(n, run_inline=run_inline) for n in ("scalar", "empty"))
    (scalar,) = scalar_program([Buffer.from_numpy(np.float32(2.5), device)])
    assert scalar.shape == () and scalar.numpy() == 5
    (empty,) = empty_program([Buffer.from_numpy(np.ones((0, 3), "f4"), device)])
    assert empty.numpy().shape == (0, 3)


@pytest.mark.parametrize("size", [0, 1, 7, 1000])
@pytest.mark.parametrize("run_inline", [True, False])
def test_dynamic_shapes_are_read(run_inline, size, program, device):
    double = program("double", run_inline=run_inline)
    x = np.linspace(0, 1, size, dtype=np.float32)
    (result,) = double([Buffer.from_numpy(x, device)])
    assert result.shape == (size,) and result.dtype == np.float32
    np.testing.assert_array_equal(result.numpy(), x + x)


def test_a_small_program_with_ready_arguments_is_done_when_it_returns(program, device):
    (result,) = program("add")([Buffer.from_numpy(X, device)] * 2)
    assert result.fence is None


@pytest.mark.parametrize("run_inline", [True, False])
def test_a_call_on_a_pending_argument_returns_and_chains(run_inline, program, device, pending):
    argument, semaphore = pending(X)
    add = program("add", run_inline=run_inline)
    (first,) = add([argument, argument])
    (second,) = add([first, Buffer.from_numpy(X, device)])
    assert first.fence.query() == 0 and second.fence.query() == 0
    semaphore.signal(1)
    np.testing.assert_array_equal(second.numpy(), 3 * X)
    assert first.is_ready()  # the producer was done before its consumer


def test_a_long_chain_of_real_work_is_not_waited_for(program, device):
    matmul = program("matmul", run_inline=False)
    rng = np.random.default_rng(0)
    start = (rng.standard_normal((512, 512)) / 23).astype(np.float32)
    weight = Buffer.from_numpy(start, device)
    chain = [weight]
    for _ in range(12):
        chain += matmul([chain[-1], weight])
    assert chain[-1].fence.query() == 0
    want = start.astype(np.float64)
    for _ in range(12):
        want = want @ start
    np.testing.assert_allclose(chain[-1].numpy(), want, rtol=2e-3, atol=2e-3 * abs(want).max())


def test_both_queues_read_each_others_memory(program, device):
    inline, queued = program("add"), program("add", run_inline=False)
    x = Buffer.from_numpy(X, device)
    (a,) = inline([x, x])
    (b,) = queued([a, x])
    b.wait()
    (c,) = inline([b, a])
    np.testing.assert_array_equal(c.numpy(), 5 * X)


def test_a_failure_reaches_every_consumer_with_its_text(program, pending):
    argument, semaphore = pending(X)
    add = program("add")
    (first,) = add([argument, argument])
    (second,) = add([first, first])
    semaphore.fail("boom in the producer")
    for result in (first, second):
        with pytest.raises(DeviceError, match="boom in the producer"):
            result.numpy()
    # the failure is known: the call itself may say
    for call in (add, program("add", run_inline=False)):
        with pytest.raises(DeviceError, match="boom in the producer") as caught:
            call([second, second])[0].wait()
        assert "alloca" not in str(caught.value)


def test_deleted_arguments_are_named(program, device):
    x = Buffer.from_numpy(X, device)
    gone = Buffer.from_numpy(X, device)
    gone.delete()
    for run_inline in (True, False):
        with pytest.raises(DeletedBufferError, match=r"deleted with shape=float32\[8\]\."):
            program("add", run_inline=run_inline)([x, gone])


def test_a_wrong_shape_is_an_error_not_a_crash(program, device):
    with pytest.raises(DeviceError, match="In add on cpu:0"):
        program("add")([Buffer.from_numpy(np.ones(3, np.float32), device)] * 2)


def test_unknown_entry_points_list_the_known_ones(program, vmfb, device):
    with pytest.raises(ArtifactError, match=r"no entry point 'nothing'; it has add, identity"):
        Executable(vmfb, device, CallSpec(run_inline=True), "nothing").load()


# ---- sharing and donation

@pytest.mark.parametrize("run_inline", [True, False])
@pytest.mark.parametrize("name", ["identity", "reshape"])
def test_a_result_that_is_its_argument_is_not_donated_in_place(name, run_inline, program, device):
    x = Buffer.from_numpy(X, device)
    (y,) = program(name, run_inline=run_inline)([x])
    y.wait()
    assert not x.may_donate() and not y.may_donate()
    put = program("put", donated=(0,))
    (z,) = put([x, Buffer.from_numpy(np.array([9, 9], np.float32), device)])
    np.testing.assert_array_equal(z.numpy(), [0, 9, 9, 3, 4, 5, 6, 7])
    np.testing.assert_array_equal(y.numpy().ravel(), X)


def test_a_loop_that_runs_zero_times_shares_and_is_noticed(program, device):
    x = Buffer.from_numpy(X, device)
    (y,) = program("repeat")([Buffer.from_numpy(np.int32(0), device), x])
    assert not x.may_donate()
    (z,) = program("repeat")([Buffer.from_numpy(np.int32(2), device), y])
    np.testing.assert_array_equal(z.numpy(), 4 * X)
    assert z.may_donate()


def test_two_results_in_one_memory_are_noticed(program, device):
    a, b = program("twice")([Buffer.from_numpy(X, device)])
    assert not a.may_donate() and not b.may_donate()
    del b
    gc.collect()
    assert a.may_donate()


@pytest.mark.parametrize("run_inline", [True, False])
def test_donation_is_in_place_and_the_argument_is_dead(run_inline, program, device):
    put = program("put", run_inline=run_inline, donated=(0,))
    x = Buffer.from_numpy(X, device)
    memory = x.view.get_buffer().ref
    (y,) = put([x, Buffer.from_numpy(np.array([9, 9], np.float32), device)])
    np.testing.assert_array_equal(y.numpy(), [0, 9, 9, 3, 4, 5, 6, 7])
    assert y.view.get_buffer().ref == memory
    assert x.is_deleted()
    with pytest.raises(DeletedBufferError):
        put([x, x])


@pytest.mark.parametrize("run_inline", [True, False])
def test_donation_leaves_a_live_view_alone(run_inline, program, device):
    x = Buffer.from_numpy(X, device)
    seen = x.numpy()
    (y,) = program("put", run_inline=run_inline, donated=(0,))(
        [x, Buffer.from_numpy(np.array([9, 9], np.float32), device)])
    np.testing.assert_array_equal(y.numpy(), [0, 9, 9, 3, 4, 5, 6, 7])
    np.testing.assert_array_equal(seen, X)
    assert x.is_deleted()


def test_a_buffer_passed_twice_is_copied_where_it_is_donated(program, device):
    x = Buffer.from_numpy(X, device)
    (y,) = program("add", donated=(0,))([x, x])
    np.testing.assert_array_equal(y.numpy(), 2 * X)
    assert x.is_deleted()


def test_donation_waits_for_queued_readers(program, device, pending):
    x = Buffer.from_numpy(X, device)
    gate, semaphore = pending(X)
    (reader,) = program("add")([x, gate])  # queued: it reads x when the gate opens
    (written,) = program("put", donated=(0,))(
        [x, Buffer.from_numpy(np.array([9, 9], np.float32), device)])
    assert written.fence.query() == 0  # in place, so it may not run before the reader
    semaphore.signal(1)
    np.testing.assert_array_equal(reader.numpy(), 2 * X)
    np.testing.assert_array_equal(written.numpy(), [0, 9, 9, 3, 4, 5, 6, 7])


def test_donating_a_pending_value(program, device, pending):
    x, semaphore = pending(X)
    (y,) = program("put", donated=(0,))(
        [x, Buffer.from_numpy(np.array([9, 9], np.float32), device)])
    assert x.is_deleted() and y.fence.query() == 0
    semaphore.signal(1)
    np.testing.assert_array_equal(y.numpy(), [0, 9, 9, 3, 4, 5, 6, 7])


# ---- lifetimes and threads

def test_memory_of_arguments_lives_until_the_call_is_over(program, device, pending, poll):
    raw = np.zeros(64 * 64 + 64, np.uint8)
    start = -raw.ctypes.data % 64
    source = raw[start:start + 32].view(np.float32)
    source[:] = X
    gone = weakref.ref(source.base)  # the array that owns the memory
    alias = Buffer.alias_numpy(source, device)
    gate, semaphore = pending(X)
    (result,) = program("add")([alias, gate])
    del alias, source, raw
    gc.collect()
    assert gone() is not None
    semaphore.signal(1)
    np.testing.assert_array_equal(result.numpy(), 2 * X)
    assert poll(lambda: gc.collect() >= 0 and gone() is None)


def resident_mb():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 1e6


def test_dropped_results_give_their_memory_back(program, device, poll):
    x = Buffer.from_numpy(np.ones(25_000_000, np.float32), device)
    big = program("big", run_inline=False)
    (warm,) = big([x])
    warm.wait()
    del warm
    before = resident_mb()
    for _ in range(8):  # 0.8 GB in all
        big([x])
    assert poll(lambda: resident_mb() < before + 350)


def test_eight_threads_share_an_executable(program, device):
    inline, queued = program("add"), program("add", run_inline=False)
    failures = []

    def work(seed):
        for i in range(150):
            a = np.full(8, seed * 1000 + i, np.float32)
            x = Buffer.from_numpy(a, device)
            call = (inline, queued)[(seed + i) % 2]
            (y,) = call([x, x])
            (z,) = inline([y, x])
            if not np.array_equal(z.numpy(), 3 * a):
                failures.append((seed, i))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_threads_may_load_one_executable_together(program, device):
    add = program("add", run_inline=False)
    results = []
    threads = [threading.Thread(target=lambda: results.append(
        add([Buffer.from_numpy(X, device)] * 2)[0].numpy())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 8 and all(np.array_equal(r, 2 * X) for r in results)


def test_readers_of_a_long_lived_argument_are_forgotten(program, device):
    x = Buffer.from_numpy(X, device)
    for _ in range(300):
        (y,) = program("add", run_inline=False)([x, x])
        y.wait()
    assert len(x._readers) <= 16


def test_many_pending_readers_are_all_remembered(program, device, pending, monkeypatch):
    monkeypatch.setattr("calque.runtime.pending.MOST_CALLS", 1000)
    x = Buffer.from_numpy(X, device)
    gate, semaphore = pending(X)
    add = program("add", transient_bytes=0)
    readers = [add([x, gate])[0] for _ in range(100)]
    (written,) = program("put", donated=(0,))(
        [x, Buffer.from_numpy(np.array([9, 9], np.float32), device)])
    semaphore.signal(1)
    for reader in readers:
        np.testing.assert_array_equal(reader.numpy(), 2 * X)
    np.testing.assert_array_equal(written.numpy(), [0, 9, 9, 3, 4, 5, 6, 7])
