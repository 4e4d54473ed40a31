"""Buffers: copies, aliases, views, reshapes, deletion, donation, fences."""
import gc
import weakref

import ml_dtypes
import numpy as np
import pytest

from calque.runtime import Buffer, DeletedBufferError, DeviceError, dlpack_capsule, from_dlpack


def aligned(count, dtype=np.float32):
    raw = np.zeros(count * np.dtype(dtype).itemsize + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start:start + count * np.dtype(dtype).itemsize].view(dtype)


def address(buffer):
    return buffer.numpy().ctypes.data


@pytest.mark.parametrize("array", [
    np.float32(3.5).reshape(()), np.zeros((0,), np.int8), np.zeros((3, 0, 2), np.complex128),
    np.arange(24.0).reshape(2, 3, 4).T, np.arange(10)[::-2], np.broadcast_to(np.int16(7), (3, 2)),
    np.asfortranarray(np.arange(6, dtype=np.uint32).reshape(2, 3)), np.zeros((0, 3), bool),
    np.ones((), ml_dtypes.bfloat16), np.arange(9, dtype=ml_dtypes.bfloat16)[::3],
], ids=lambda a: f"{a.dtype}{a.shape}{a.strides}")
def test_from_numpy_takes_any_layout(array, device):
    buffer = Buffer.from_numpy(array, device)
    assert buffer.shape == array.shape and buffer.nbytes == array.nbytes
    assert buffer.is_ready() and buffer.owned
    np.testing.assert_array_equal(buffer.numpy(), array)
    assert buffer.numpy().dtype == array.dtype


def test_a_source_changed_right_after_does_not_show(device):
    source = np.arange(1000, dtype=np.float32)
    buffer = Buffer.from_numpy(source, device)
    source[:] = -1
    np.testing.assert_array_equal(buffer.numpy(), np.arange(1000, dtype=np.float32))


def test_alias_shares_aligned_memory_and_holds_it(device):
    source = aligned(16)
    gone = weakref.ref(source.base)  # the array that owns the memory
    buffer = Buffer.alias_numpy(source, device)
    assert not buffer.owned and address(buffer) == source.ctypes.data
    source[3] = 5
    assert buffer.numpy()[3] == 5
    del source
    gc.collect()
    assert gone() is not None
    del buffer
    gc.collect()
    assert gone() is None


def test_alias_takes_read_only_memory(device):
    source = aligned(16)
    source.flags.writeable = False
    buffer = Buffer.alias_numpy(source, device)
    assert address(buffer) == source.ctypes.data


@pytest.mark.parametrize("make", [
    lambda: aligned(17)[1:], lambda: aligned(32)[::2], lambda: aligned(16).reshape(4, 4).T,
    lambda: aligned(0)], ids=["misaligned", "strided", "fortran", "empty"])
def test_alias_falls_back_to_a_copy(make, device):
    source = make()
    buffer = Buffer.alias_numpy(source, device)
    assert buffer.owned
    np.testing.assert_array_equal(buffer.numpy(), source)


def test_numpy_is_a_read_only_view_that_outlives_the_buffer(device):
    buffer = Buffer.from_numpy(np.arange(1000, dtype=np.float32), device)
    view = buffer.numpy()
    assert address(buffer) == view.ctypes.data
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1
    with pytest.raises(ValueError, match="WRITEABLE"):
        view.flags.writeable = True
    part = view[10:20]
    buffer.delete()
    del buffer, view
    gc.collect()
    noise = [Buffer.from_numpy(np.full(1000, 7, np.float32), device) for _ in range(20)]
    np.testing.assert_array_equal(part, np.arange(10, 20, dtype=np.float32))
    del noise


@pytest.mark.parametrize("export", [
    lambda b: b.numpy(), lambda b: b.numpy()[2:4], lambda b: memoryview(b.numpy()),
    lambda b: b.numpy().T, dlpack_capsule, np.from_dlpack])
def test_has_views_while_an_export_lives(export, device):
    buffer = Buffer.from_numpy(np.arange(8, dtype=np.float32), device)
    assert not buffer.has_views() and buffer.may_donate()
    seen = export(buffer)
    gc.collect()
    assert buffer.has_views() and not buffer.may_donate()
    del seen
    gc.collect()
    assert not buffer.has_views() and buffer.may_donate()


def test_with_shape_shares_memory_and_fence(device, pending):
    buffer, semaphore = pending(np.arange(8, dtype=np.float32))
    other = buffer.with_shape((2, 4))
    assert other.fence is semaphore and other.shape == (2, 4)
    semaphore.signal(1)
    assert address(other) == address(buffer)
    np.testing.assert_array_equal(other.numpy(), np.arange(8).reshape(2, 4))
    with pytest.raises(ValueError, match="cannot reshape"):
        buffer.with_shape((3,))


def test_a_deleted_buffer_says_so(device):
    buffer = Buffer.from_numpy(np.ones(4, np.float32), device)
    buffer.delete()
    assert buffer.is_deleted()
    for use in (buffer.numpy, buffer.wait, buffer.copy, buffer.hand_over,
                lambda: buffer.with_shape((2, 2))):
        with pytest.raises(DeletedBufferError,
                           match=r"Array has been deleted with shape=float32\[4\]\."):
            use()


def test_dlpack_there_and_back(device):
    buffer = Buffer.from_numpy(np.arange(8, dtype=np.float32), device)
    assert buffer.__dlpack_device__() == (1, 0)
    np.testing.assert_array_equal(np.from_dlpack(buffer), np.arange(8))
    back = from_dlpack(buffer, device)
    assert address(back) == address(buffer) and not back.owned
    del buffer
    gc.collect()
    np.testing.assert_array_equal(back.numpy(), np.arange(8))


# ---- fences

def test_pending_until_signalled(pending):
    buffer, semaphore = pending(np.ones(3, np.float32))
    assert not buffer.is_ready() and not buffer.is_settled() and "pending" in repr(buffer)
    with pytest.raises(TimeoutError, match="no value after"):
        buffer.wait(timeout_s=0.01)
    semaphore.signal(1)
    buffer.wait()
    assert buffer.is_ready() and buffer.fence is None


def test_a_failure_keeps_its_text(pending):
    buffer, semaphore = pending(np.ones(3, np.float32))
    semaphore.fail("the cheese is out")
    assert buffer.is_settled() and not buffer.is_ready()
    for _ in range(2):
        with pytest.raises(DeviceError, match="the cheese is out") as caught:
            buffer.wait()
    assert "c/runtime" not in str(caught.value)


def test_out_of_memory_has_three_parts(device):
    huge = np.broadcast_to(np.float32(0), (1 << 20, 1 << 20))
    buffer = Buffer.from_numpy(np.ones(2, np.float32), device)
    buffer.shape = huge.shape  # the only way to ask for 4 TiB without having them
    buffer.fence = device.task.create_semaphore(0)
    with pytest.raises(DeviceError, match=r"(?s)RESOURCE_EXHAUSTED.*\n  In .*\n  Fix: "):
        buffer.copy()


# ---- donation

def test_hand_over_passes_owned_memory_and_deletes(device):
    buffer = Buffer.from_numpy(np.ones(8, np.float32), device)
    view = buffer.view
    handed, waits = buffer.hand_over()
    assert handed is view and waits == [] and buffer.is_deleted()


@pytest.mark.parametrize("why", ["numpy view", "alias", "other shape", "view of other shape"])
def test_hand_over_copies_what_others_can_see(why, device):
    buffer = (Buffer.alias_numpy(aligned(8), device) if why == "alias"
              else Buffer.from_numpy(np.zeros(8, np.float32), device))
    keep = None
    if why == "numpy view":
        keep = buffer.numpy()[1:]
    if "other shape" in why:
        keep = buffer.with_shape((8, 1))
    if why == "view of other shape":
        keep = keep.numpy()
    view = buffer.view
    handed, _ = buffer.hand_over()
    assert handed is not view and buffer.is_deleted()
    assert handed.get_buffer().ref != view.get_buffer().ref
    del keep


def test_a_dead_sharer_does_not_prevent_donation(device):
    buffer = Buffer.from_numpy(np.zeros(8, np.float32), device)
    other = buffer.with_shape((2, 4))
    assert not buffer.may_donate()
    other.delete()
    assert buffer.may_donate()


def test_copy_of_a_pending_value_waits_on_the_device(pending):
    buffer, semaphore = pending(np.arange(8, dtype=np.float32))
    copy = buffer.copy()
    assert not copy.is_ready()
    semaphore.signal(1)
    np.testing.assert_array_equal(copy.numpy(), np.arange(8))
    assert address(copy) != address(buffer)
