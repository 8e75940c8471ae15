"""Memory of files that is used again, and files that are compared."""

import gc
import random
import threading

import numpy as np
import pytest

from rfb_gpu.codecs import EncodedFrame
from rfb_gpu.readback import RecycledMemory


def address(view):
    return np.frombuffer(view, np.uint8).ctypes.data


def test_pieces_are_joined_and_cannot_be_changed():
    memory = RecycledMemory()
    pieces = [b"one", b"", memoryview(b"two"), bytes(200_000)]
    joined = memory.join(pieces)
    assert joined == b"".join(pieces)
    with pytest.raises(TypeError):
        joined[0] = 1


def test_memory_comes_back_only_when_nothing_refers_to_it():
    memory = RecycledMemory()
    first = memory.join([b"a" * 100_000])
    part, where = first[50_000:], address(first)
    del first
    gc.collect()
    second = memory.join([b"b" * 100_000])
    assert address(second) != where
    assert part == b"a" * 50_000
    del part
    gc.collect()
    assert address(memory.join([b"c" * 110_000])) == where


def test_small_results_take_no_more_than_they_are():
    assert RecycledMemory().join([b"a" * 1000, b"b"]).nbytes == 1001
    assert isinstance(RecycledMemory().join([b"a"]).obj, bytes)


def test_results_do_not_disturb_each_other():
    """Of many sizes, kept for a while, the last reference dropped on another thread."""
    memory, random_ = RecycledMemory(), random.Random(1)
    kept = []
    for number in range(300):
        data = bytes([number % 256]) * random_.randrange(300_000)
        kept.append((data, memory.join([data])))
        if len(kept) > 4:
            old = [kept.pop(random_.randrange(len(kept)))]
            thread = threading.Thread(target=old.clear)
            thread.start()
            thread.join()
        assert all(view == data for data, view in kept)
    assert len(memory._spare) <= RecycledMemory.SPARE


def frame(file):
    return EncodedFrame(file, 8, 8, "jpeg", 80, "444")


@pytest.mark.parametrize("size", [0, 10, 4096, 100_000])
def test_files_are_compared_byte_for_byte(size):
    file = random.Random(2).randbytes(size)
    memory = RecycledMemory()
    assert frame(file).has_file_of(frame(memory.join([file])))
    assert not frame(file).has_file_of(frame(file + b"x"))
    for place in {0, size // 2, size - 1} - {-1} if size else ():
        other = bytearray(file)
        other[place] ^= 1
        assert not frame(file).has_file_of(frame(bytes(other)))


def test_a_frame_gives_its_file_as_bytes():
    view = RecycledMemory().join([b"file"])
    assert frame(view).data == bytes(frame(view)) == b"file"
    assert isinstance(frame(view).data, bytes)
    assert len(frame(view)) == 4
