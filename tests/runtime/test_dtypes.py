"""Every dtype crosses into IREE and back with its bits."""
import numpy as np
import pytest

from calque.runtime import Buffer, dtypes
from calque.runtime.dtypes import SUPPORTED, dtype_of, element_type


@pytest.mark.parametrize("dtype", SUPPORTED, ids=str)
def test_every_dtype_round_trips_bit_by_bit(dtype, device):
    raw = np.random.default_rng(0).integers(0, 256, 24 * dtype.itemsize, np.uint8)
    array = (raw % 2 if dtype.kind == "b" else raw).view(dtype)[:24].reshape(2, 3, 4)
    buffer = Buffer.from_numpy(array, device)
    back = buffer.numpy()
    assert (back.dtype, back.shape, buffer.dtype) == (dtype, (2, 3, 4), dtype)
    assert back.tobytes() == array.tobytes()


@pytest.mark.parametrize("dtype", SUPPORTED, ids=str)
def test_the_table_is_a_bijection(dtype):
    """But for numbers that programs see as bytes: int4, float8_e4m3, ..."""
    small = dtype.kind == "V" and dtype.itemsize == 1 or dtype.name == "float8_e5m2"
    want = np.int8 if small and dtype.name.startswith("int") else np.uint8 if small else dtype
    assert dtype_of(element_type(dtype)) == want


def test_signless_integers_read_as_signed():
    import iree.runtime as rt
    assert dtype_of(rt.HalElementType.INT_32) == np.dtype(np.int32)


def test_big_endian_is_refused_with_the_cure(device):
    with pytest.raises(TypeError, match=r"byte order\.\n  Fix: .*newbyteorder"):
        Buffer.from_numpy(np.ones(3, ">f4"), device)


@pytest.mark.parametrize("array", [np.array(["a"]), np.array([object()]), np.ones(2, "longdouble")])
def test_foreign_dtypes_are_refused(array, device):
    with pytest.raises(TypeError, match="cannot live on a device"):
        Buffer.from_numpy(array, device)


def test_carriers_have_the_same_width():
    assert all(dtypes.carrier(d).itemsize == d.itemsize for d in SUPPORTED)
