"""What a texture holds, what a scene shows of it, who waits for whom, and that nothing is left behind."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import itertools
import random
import threading
import time
import tracemalloc
import weakref

import numpy as np
import pygfx as gfx
import pytest
import rendercanvas.offscreen
import wgpu

from rfb_gpu import RenderCanvas, TextureStream, native, uploads
from rfb_gpu.uploads import recorder
from rfb_gpu.uploads.staging import Part, StagingBuffer, texel_format
from tests.gpu.test_canvas import Page, picture

SIDE = 64
USAGE = wgpu.TextureUsage.COPY_DST | wgpu.TextureUsage.COPY_SRC | wgpu.TextureUsage.TEXTURE_BINDING


@pytest.fixture(autouse=True)
def default_bounds():
    yield
    uploads.configure()


@pytest.fixture
def texture(device):
    """Makes textures."""
    made = []

    def make(size=(SIDE, SIDE, 1), format="rgba8unorm", **options):
        made.append(device.create_texture(size=size, format=format, usage=USAGE, **options))
        return made[-1]

    yield make
    for one in made:
        one.destroy()


def content(texture):
    """Shape (depth, height, width, channels)."""
    (width, height, depth), texel = texture.size, texel_format(texture.format)
    layout = {"bytes_per_row": width * texel.nbytes, "rows_per_image": height}
    data = texture._device.queue.read_texture({"texture": texture}, layout, texture.size)
    return np.frombuffer(data, texel.dtype).reshape(depth, height, width, texel.channels)


def wait_copied():
    """Until no thread copies any more."""
    while any(upload.state != "ready" for upload in uploads.active()):
        time.sleep(0.001)


def noise(*shape, dtype=np.uint8, seed=0):
    values = np.random.default_rng(seed).integers(0, 120, shape)
    return values.astype(dtype)


def plain(value, side=SIDE):
    """A frame of one value that nobody can write to."""
    frame = np.full((side, side, 4), value, np.uint8)
    frame.flags.writeable = False
    return frame


def shown(texture):
    """The one value that it has everywhere."""
    values = np.unique(content(texture))
    assert len(values) == 1, "torn"
    return int(values[0])


class Gate:
    """Holds all copies up until it is opened."""

    def __init__(self, monkeypatch):
        self.open = threading.Event()
        self.threads = []
        fill = StagingBuffer.fill

        def wait_and_fill(*args):
            self.threads.append(threading.current_thread().name)
            assert self.open.wait(20)
            fill(*args)

        monkeypatch.setattr(StagingBuffer, "fill", wait_and_fill)


@pytest.fixture
def gate(monkeypatch):
    gate = Gate(monkeypatch)
    yield gate
    gate.open.set()


# ----- what arrives


@pytest.mark.parametrize("buffers", [0, 2, -1])
@pytest.mark.parametrize(
    ("size", "format", "dimension"),
    [
        ((67, 13, 1), "rgba8unorm", "2d"),
        ((67, 13, 1), "r8unorm", "2d"),
        ((67, 13, 5), "rg16float", "2d"),
        ((19, 13, 5), "r32float", "3d"),
        ((67, 1, 1), "rgba8uint", "1d"),
    ],
)
def test_arrays_arrive_as_they_are(texture, buffers, size, format, dimension):
    target, texel = texture(size, format, dimension=dimension), texel_format(format)
    array = noise(*reversed(size), texel.channels, dtype=texel.dtype)
    given = array if texel.channels > 1 else array[..., 0]
    with TextureStream(target, buffers) as stream:
        stream.put(given[0] if size[2] == 1 else given).result(20)
        np.testing.assert_array_equal(content(target), array)


@pytest.mark.parametrize("buffers", [0, 2, -1])
def test_parts_layers_and_colours_without_alpha(texture, buffers):
    target = texture((50, 30, 3))
    expected = np.zeros((3, 30, 50, 4), np.uint8)
    part, layer = noise(2, 10, 20, 4, seed=1), noise(30, 50, 3, seed=2)
    expected[2, ...] = 255
    expected[2, ..., :3] = layer
    expected[1:3, 5:15, 7:27] = part
    with TextureStream(target, buffers) as stream:
        stream.put(layer, origin=(0, 0, 2))
        stream.put(part, origin=(7, 5, 1))
        stream.flush()
        np.testing.assert_array_equal(content(target), expected)


def test_arrays_need_not_be_contiguous(texture):
    target, array = texture(), noise(2 * SIDE, SIDE, 4)
    with TextureStream(target) as stream:
        for given in (array[::2], array[: 2 * SIDE : 2, ::-1], array[:SIDE].transpose(1, 0, 2)):
            stream.put(given, copy=False).result(20)
            np.testing.assert_array_equal(content(target)[0], given)


@pytest.mark.parametrize("channels", [3, 4])
def test_textures_of_pygfx_with_data_of_their_own(channels):
    """Which pygfx uploads when it first draws: it must not come after ours."""
    target = gfx.Texture(np.full((SIDE, SIDE, channels), 9, np.uint8), dim=2, usage=USAGE)
    array = noise(SIDE, SIDE, channels)
    with TextureStream(target) as stream:
        stream.put(array).result(20)
        scene_of(target)[1]()
        np.testing.assert_array_equal(content(target._wgpu_object)[0, ..., :channels], array)


def test_mipmaps_follow():
    target = gfx.Texture(dim=2, size=(SIDE, SIDE), format="4xu1", generate_mipmaps=True, usage=USAGE)
    with TextureStream(target) as stream:
        stream.put(plain(77)).result(20)
        small, queue = target._wgpu_object, target._wgpu_object._device.queue
        assert small.mip_level_count == 7
        data = queue.read_texture({"texture": small, "mip_level": 2}, {"bytes_per_row": 64}, (16, 16, 1))
        assert set(bytes(data)) == {77}


def scene_of(target):
    """A renderer without a canvas, and a function that draws the texture from edge to edge."""
    renderer = gfx.WgpuRenderer(gfx.Texture(dim=2, size=(32, 32, 1), format="rgba8unorm"), ppaa="none")
    image = gfx.Image(gfx.Geometry(grid=target), gfx.ImageBasicMaterial(clim=(0, 255)))
    camera = gfx.OrthographicCamera(SIDE - 2, SIDE - 2)
    camera.local.position = ((SIDE - 1) / 2, (SIDE - 1) / 2, 0)
    return renderer, lambda: renderer.render(image, camera)


def test_a_scene_shows_whole_pictures_only_and_the_last_one_in_the_end():
    target = gfx.Texture(dim=2, size=(SIDE, SIDE), format="4xu1", colorspace="physical")
    renderer, draw = scene_of(target)
    with TextureStream(target) as stream:
        stream.put(plain(0))
        stream.flush()

        def produce():
            frame = np.empty((SIDE, SIDE, 4), np.uint8)
            for value in range(1, 121):
                frame[...] = value
                stream.put(frame)

        producer = threading.Thread(target=produce)
        producer.start()
        values = []
        while producer.is_alive() or len(values) < 3:
            stream.flush(wait=False)
            draw()
            picture = renderer.snapshot()[..., :3]
            assert picture.min() == picture.max(), "torn"
            values.append(int(picture[0, 0, 0]))
        stream.flush()
        draw()
        values.append(int(renderer.snapshot()[0, 0, 0]))
    assert values == sorted(values), "in the order of put()"
    assert len(set(values)) > 5, "the scene was drawn while frames came"
    assert values[-1] == picture_of(plain(120))


def picture_of(frame):
    target = gfx.Texture(frame, dim=2, colorspace="physical")
    renderer, draw = scene_of(target)
    draw()
    return int(renderer.snapshot()[0, 0, 0])


# ----- put() and the caller's array


def test_put_returns_before_an_array_that_cannot_change_is_copied(texture, gate):
    target = texture()
    with TextureStream(target, name="film") as stream:
        future = stream.put(plain(5))
        assert not future.done()
        deadline = time.monotonic() + 20
        while not gate.threads:
            assert time.monotonic() < deadline
        assert gate.threads[0].startswith("rfb_gpu upload")
        time.sleep(0.01)
        (under_way,) = uploads.active()
        assert under_way[:2] == ("film", 4 * SIDE * SIDE)
        assert 0.01 <= under_way.age < 20
        assert under_way.state == "copying"
        with pytest.raises(TimeoutError, match="copying"):
            future.result(0.01)
        assert shown(target) == 0, "the old content"
        gate.open.set()
        future.result(20)
        assert uploads.active() == []
        assert shown(target) == 5


@pytest.mark.parametrize("buffer", ["free", "taken", "read by the GPU"])
def test_the_callers_array_can_be_changed_at_once(texture, buffer, monkeypatch):
    target = texture()
    with TextureStream(target, buffers=1, policy="queue") as stream:
        if buffer == "taken":
            stream.put(plain(1))
        elif buffer == "read by the GPU":
            stream.put(plain(1)).result(20)
            monkeypatch.setattr(StagingBuffer, "comes_back", lambda *_: False)
        frame = np.full((SIDE, SIDE, 4), 5, np.uint8)
        future = stream.put(frame)
        frame[...] = 6
        future.result(20)
        assert shown(target) == 5


def test_an_array_that_nobody_can_write_to_is_not_copied_in_put(texture):
    frame = plain(3, side=1024)
    with TextureStream(texture((1024, 1024, 1)), buffers=1, policy="queue") as stream:
        stream.put(frame)
        tracemalloc.start()
        try:
            stream.put(frame)
            stream.put(np.array(frame), copy=False)
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert most < 1.5 * frame.nbytes, "the array that the test itself makes, and no more"
        stream.flush()


# ----- policies


def test_wait_blocks_another_thread_until_a_buffer_is_free(texture):
    target = texture()
    with TextureStream(target) as stream:
        done = threading.Event()

        def produce():
            for value in range(5):
                stream.put(plain(value))
            done.set()

        thread = threading.Thread(target=produce)
        thread.start()
        assert not done.wait(0.05), "three more than there are buffers"
        while not done.wait(0.001):
            stream.flush(wait=False)
        thread.join()
        stream.flush()
        assert shown(target) == 4


def test_wait_on_the_thread_that_draws_makes_room_itself(texture):
    target = texture()
    with TextureStream(target) as stream:
        futures = [stream.put(plain(value)) for value in range(20)]
        assert futures[16].done()
        futures[-1].result(20)
        assert shown(target) == 19


@pytest.mark.parametrize(("policy", "dropped"), [("drop_oldest", [0, 1]), ("drop_newest", [2, 3])])
def test_dropping(texture, policy, dropped):
    target = texture()
    with TextureStream(target, policy=policy) as stream:
        futures = [stream.put(np.array(plain(value))) for value in range(4)]
        stream.flush()
        assert [i for i, future in enumerate(futures) if future.cancelled()] == dropped
        assert all(future.done() for future in futures)
        with pytest.raises(concurrent.futures.CancelledError):
            futures[dropped[0]].result()
        assert shown(target) == max(set(range(4)) - set(dropped))
        stream.put(plain(9)).result(20)
        assert shown(target) == 9


def test_two_buffers_take_a_frame_for_each_draw(texture):
    """Also where put() comes right before it: one buffer still has the last frame, and the other the GPU has long read."""
    target = texture()
    with TextureStream(target, policy="drop_oldest") as stream:
        futures = []
        for value in range(8):
            futures.append(stream.put(plain(value)))
            stream.flush(wait=False)
            wait_copied()
        stream.flush()
        assert not any(future.cancelled() for future in futures)
        assert shown(target) == 7


def test_dropping_while_everything_is_being_copied(texture, gate):
    """What is dropped then is still read by its thread; its buffer serves the next one afterwards."""
    target = texture()
    with TextureStream(target, policy="drop_oldest") as stream:
        futures = [stream.put(plain(value)) for value in range(6)]
        assert [future.cancelled() for future in futures] == [True] * 4 + [False] * 2
        gate.open.set()
        stream.flush()
        assert shown(target) == 5


def test_the_queue_keeps_so_many_and_then_waits(texture):
    target = texture()
    with TextureStream(target, policy="queue", queue=3) as stream:
        stayed = []

        def produce():
            for value in range(9):
                stream.put(plain(value))
                stayed.append(value)

        thread = threading.Thread(target=produce)
        thread.start()
        time.sleep(0.1)
        assert stayed == [0, 1, 2, 3, 4], "two buffers and three more"
        assert sum(upload.state == "waiting" for upload in uploads.active()) == 3
        while thread.is_alive():
            stream.flush()
        stream.flush()
        assert shown(target) == 8


# ----- times


def test_a_film_is_shown_in_step(texture):
    target = texture()
    times, seen = [], []

    async def play():
        with TextureStream(target, policy="queue", queue=100) as stream:
            began = time.perf_counter() + 0.05
            futures = [stream.put(plain(i), at=began + i / 24) for i in range(12)]
            for i, future in enumerate(futures):
                await future
                times.append(time.perf_counter() - began - i / 24)
                seen.append(shown(target))

    asyncio.run(play())
    assert seen == sorted(seen)
    assert sum(value == i for i, value in enumerate(seen)) > 8, "a machine that stumbles skips some"
    assert seen[-1] == 11
    assert min(times) >= 0, "never early"
    assert np.median(times) < 0.02


def test_flush_leaves_what_is_not_due(texture):
    target = texture()
    with TextureStream(target) as stream:
        stream.put(plain(1))
        late = stream.put(plain(2), at=time.perf_counter() + 0.15)
        stream.flush()
        assert not late.done()
        assert shown(target) == 1
        late.result(20)
        assert shown(target) == 2


# ----- futures


def test_awaiting_callbacks_and_order(texture):
    target = texture()

    async def test():
        stream = TextureStream(target)
        order = []
        for value in range(8):
            future = stream.put(plain(value))
            future.add_done_callback(lambda _, value=value: order.append((value, threading.get_ident())))
        assert await future is None
        assert future.exception() is None
        assert order == [(value, threading.get_ident()) for value in range(8)]
        stream.close()

    stream = TextureStream(target)

    async def made_before_the_loop():
        await stream.put(plain(99))
        assert shown(target) == 99

    asyncio.run(test())
    assert shown(target) == 7
    asyncio.run(made_before_the_loop())
    stream.close()


def test_cancelled_uploads_are_not_shown(texture, gate):
    target = texture()
    with TextureStream(target, policy="queue") as stream:
        copying, queued, waiting, last = (stream.put(plain(value)) for value in (1, 2, 3, 4))
        assert copying.cancel() and queued.cancel() and waiting.cancel()
        assert copying.cancel(), "again"
        gate.open.set()
        last.result(20)
        assert not last.cancel()
        assert shown(target) == 4
        assert concurrent.futures.wait([copying, queued, waiting], 1).not_done == set()


def test_a_workers_error_is_in_the_future_and_the_stream_goes_on(texture, monkeypatch):
    def fail(*_):
        raise OSError("the disk with the film is gone")

    target = texture()
    with TextureStream(target) as stream:
        with monkeypatch.context() as patched:
            patched.setattr(StagingBuffer, "fill", fail)
            futures = [stream.put(plain(1)), stream.put(np.array(plain(2)))]
            for future in futures:
                with pytest.raises(OSError, match="film"):
                    future.result(20)
                assert isinstance(future.exception(), OSError)
        for value in range(3, 9):
            stream.put(plain(value)).result(20)
        assert shown(target) == 8


# ----- bounds


def test_bytes_per_second(texture):
    uploads.configure(bytes_per_second=100 * plain(0).nbytes)
    with TextureStream(texture(), policy="queue", queue=20) as one, TextureStream(texture()) as two:
        began = time.perf_counter()
        for _ in range(10):
            one.put(plain(1))
            two.put(plain(2), at=0)
        one.flush()
        two.flush()
        assert time.perf_counter() - began > 0.18, (
            "20 uploads of a hundredth of a second, and the first at once"
        )


@pytest.mark.parametrize(("bounds", "most"), [({"threads": 3}, 3), ({"threads": 3, "max_in_flight": 1}, 1)])
def test_so_many_are_copied_at_once(texture, gate, bounds, most):
    uploads.configure(**bounds)
    streams = [TextureStream(texture()) for _ in range(5)]
    for stream in streams:
        stream.put(plain(1))
    time.sleep(0.1)
    states = [upload.state for upload in uploads.active()]
    assert states.count("copying") == most
    gate.open.set()
    for stream in streams:
        stream.flush()
        stream.close()


# ----- bad input


def test_clear_errors(texture, device, monkeypatch):
    target = texture()
    with TextureStream(target) as stream:
        with pytest.raises(ValueError, match="origin="):
            stream.put(np.zeros((8, 8, 4), np.uint8))
        with pytest.raises(TypeError, match="astype"):
            stream.put(np.zeros((SIDE, SIDE, 4)))
        with pytest.raises(ValueError, match="perf_counter"):
            stream.put(plain(0), at=float("nan"))
    with pytest.raises(RuntimeError, match="closed"):
        stream.put(plain(0))
    with pytest.raises(TypeError, match=r"gfx\.Texture"):
        TextureStream(np.zeros((8, 8)))
    with pytest.raises(ValueError, match="COPY_DST"):
        TextureStream(device.create_texture(size=(8, 8, 1), format="r8unorm", usage=4))
    with pytest.raises(ValueError, match="policy"):
        TextureStream(target, policy="hurry")
    with pytest.raises(ValueError, match="buffers"):
        TextureStream(target, -2)
    with pytest.raises(ValueError, match="buffers=-1"), monkeypatch.context() as patched:
        patched.setattr(Part, "staging_bytes", lambda *_: 2**60)
        TextureStream(target)
    with TextureStream(target, 0) as stream, pytest.raises(ValueError, match="at="):
        stream.put(plain(0), at=1.0)


@pytest.mark.parametrize("buffers", [0, 2, -1])
def test_a_released_texture_is_an_error_and_not_the_end_of_the_process(texture, buffers):
    target = texture()
    with TextureStream(target, buffers) as stream:
        stream.put(plain(1)).result(20)
        under_way = stream.put(plain(2)) if buffers else None
        target.destroy()
        with pytest.raises(RuntimeError, match="destroyed"):
            stream.put(plain(3))
        if under_way is not None:
            with pytest.raises(RuntimeError, match="destroyed"):
                under_way.result(20)
            with concurrent.futures.ThreadPoolExecutor() as elsewhere:
                error = elsewhere.submit(stream.put, plain(4)).exception()
            assert "destroyed" in str(error)


@pytest.mark.parametrize("is_direct", [True, False])
def test_all_streams_of_a_thread_are_recorded_together(texture, monkeypatch, is_direct):
    """Also those that nobody flushes; and one that fails does so alone. By wgpu-native's own functions, and by the public ones."""
    assert native.load() is not None
    monkeypatch.setattr(native, "load", native.load if is_direct else lambda: None)
    targets = [texture() for _ in range(4)]
    streams = [TextureStream(target) for target in targets]
    futures = [stream.put(plain(5)) for stream in streams]
    wait_copied()
    targets[2].destroy()
    submissions = []
    copy = recorder._copy
    monkeypatch.setattr(recorder, "_copy", lambda *args: (submissions.append(args), copy(*args)))
    streams[0].flush(wait=False)
    assert len(submissions) == 1
    assert all(future.done() for future in futures)
    assert [type(future.exception()) for future in futures] == [type(None)] * 2 + [RuntimeError, type(None)]
    assert [shown(targets[i]) for i in (0, 1, 3)] == [5] * 3
    for stream in streams:
        stream.close()


def test_a_flush_records_what_is_due_in_other_streams_even_without_anything_of_its_own(texture):
    with TextureStream(texture()) as one, TextureStream(texture()) as other:
        future = other.put(plain(5))
        wait_copied()
        one.flush(wait=False)
        assert future.done()


@pytest.mark.parametrize("is_direct", [True, False])
def test_what_wgpu_refuses_fails_all_that_are_recorded_with_it(texture, monkeypatch, is_direct):
    if not is_direct:
        monkeypatch.setattr(native, "load", lambda: None)
    targets = [texture(), texture()]
    with TextureStream(targets[0]) as stream:
        future = stream.put(plain(5))
        wait_copied()
        monkeypatch.setattr(Part, "bytes_per_row", lambda *_: 100)  # rows begin at multiples of 256
        with pytest.raises((wgpu.GPUError, ValueError), match=r"bytes.per.row|Bytes per row"):
            future.result(20)
        monkeypatch.undo()
    with TextureStream(targets[1]) as stream:
        stream.put(plain(6)).result(20)
    assert shown(targets[1]) == 6


# ----- memory


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def gpu_objects(device):
    """Of Python and of the driver's side, once the GPU has nothing to do."""
    gc.collect()
    device.queue.read_buffer(device.create_buffer(size=4, usage=wgpu.BufferUsage.COPY_SRC))
    counts = wgpu.diagnostics.object_counts.get_dict()
    native = wgpu.diagnostics.wgpu_native_counts.get_dict()
    kinds = ("Buffer", "Texture", "TextureView", "CommandBuffer")
    return [(counts[kind]["count"], native[kind]["count"]) for kind in kinds]


def one_round(device, number):
    """Made, put and closed in another order each time."""
    random_ = random.Random(number)
    target = device.create_texture(size=(256, 256, 1), format="rgba8unorm", usage=USAGE)
    stream = TextureStream(target, random_.choice([1, 2, -1]), policy="drop_oldest")
    for _ in range(random_.randrange(4)):
        stream.put(plain(number % 256, side=256), at=random_.choice([None, time.perf_counter() + 9]))
    end = [stream.close, target.destroy, lambda: stream.flush(wait=random_.random() < 0.5)]
    for step in random_.sample(end, 3) if random_.random() < 0.9 else end[1:2]:
        try:
            step()
        except RuntimeError:
            pass  # flush() of a closed stream


@pytest.mark.parametrize("on_a_loop", [False, True])
def test_a_thousand_rounds_leave_nothing_behind(device, on_a_loop):
    """The last one in ten streams is not even closed."""

    async def rounds(numbers):
        for number in numbers:
            one_round(device, number)
            await asyncio.sleep(0)

    def run(numbers):
        if on_a_loop:
            asyncio.run(rounds(numbers))
        else:
            for number in numbers:
                one_round(device, number)

    run(range(200))
    objects, resident = gpu_objects(device), resident_bytes()
    run(range(200, 1200))
    assert gpu_objects(device) == objects
    assert resident_bytes() - resident < 8e6, "an upload in a hundred would be 2.6 MB, or twice that"


def test_close_from_another_thread_while_uploads_are_under_way(texture):
    for pause in (0, 0.001, 0.003):
        target = texture()
        stream = TextureStream(target)
        stop = threading.Event()

        def produce(stream=stream, stop=stop):
            with pytest.raises(RuntimeError, match="closed"):
                for value in itertools.count():
                    stream.put(np.full((SIDE, SIDE, 4), value % 256, np.uint8))
            stop.set()

        def close(stream=stream, pause=pause):
            time.sleep(pause)
            stream.close()

        threads = [threading.Thread(target=produce), threading.Thread(target=close)]
        for thread in threads:
            thread.start()
        while not stop.is_set():
            stream.flush(wait=False)
        for thread in threads:
            thread.join()
        assert uploads.active() == []


def test_a_stream_that_is_dropped_is_freed(texture):
    target = texture()
    stream = TextureStream(target)
    stream.put(plain(1)).result(20)
    gone = weakref.ref(stream)
    del stream
    gc.collect()
    deadline = time.monotonic() + 20
    while gone() is not None:  # the thread that has copied may yet have it
        assert time.monotonic() < deadline


# ----- canvases


@pytest.mark.parametrize("live", [False, True])
def test_a_canvas_draws_what_is_put(live):
    """Nobody asks for a draw, nor flushes; put() is called on another thread."""

    async def test():
        canvas = RenderCanvas(size=(40, 40), live=live, codec="png")
        target = gfx.Texture(dim=2, size=(SIDE, SIDE), format="4xu1", colorspace="physical")
        stream = TextureStream(target, canvas=canvas)
        renderer = gfx.WgpuRenderer(canvas, pixel_scale=1, ppaa="none")
        image = gfx.Image(gfx.Geometry(grid=target), gfx.ImageBasicMaterial(clim=(0, 255)))
        camera = gfx.OrthographicCamera(SIDE / 2, SIDE / 2)
        camera.local.position = (SIDE / 2, SIDE / 2, 0)
        canvas.request_draw(lambda: renderer.render(image, camera))
        page = Page(canvas, ack=False)
        page.open(40, 40)

        async def wait_for(test):
            await page.wait(lambda: (page.ack() or page.frames) and test(picture(page.frames[-1])))

        await wait_for(lambda image: image.max() == 0)
        loop = asyncio.get_running_loop()
        await (await loop.run_in_executor(None, stream.put, plain(255)))
        await wait_for(lambda image: image.min() == 255)
        begin = time.perf_counter()
        await (await loop.run_in_executor(None, lambda: stream.put(plain(0), at=begin + 0.1)))
        assert time.perf_counter() - begin >= 0.1
        await wait_for(lambda image: image.max() == 0)
        under_way = stream.put(plain(3), at=begin + 1000)
        canvas.close()
        with pytest.raises(RuntimeError, match="closed"):
            stream.put(plain(4))
        assert under_way.cancelled()
        await asyncio.sleep(0.05)

    asyncio.run(test())


def test_a_draw_shows_what_is_ready_by_then(texture):
    """Also where no event loop runs, as in a cell that calls canvas.flush(); any canvas of rendercanvas will do."""
    canvas = rendercanvas.offscreen.RenderCanvas(size=(40, 40))
    target = texture()
    seen = []
    canvas.request_draw(lambda: seen.append(shown(target)))
    canvas.get_context("bitmap").set_bitmap(np.zeros((40, 40), np.uint8))
    with TextureStream(target, canvas=canvas) as stream:
        stream.put(np.array(plain(8)))
        canvas.draw()
        assert seen[-1] == 8
    canvas.close()
