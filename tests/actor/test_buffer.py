# SPDX-License-Identifier: Apache-2.0
"""Buffers in messages: arrays reach handlers without a copy, and live as long as they must."""

import gc
import weakref

import numpy as np
import pytest

import denizen

SCALE = denizen.message("Scale", [("by", "f4"), ("data", denizen.BUFFER)])
DONE = denizen.message("Done", [("at", "u8"), ("count", "u8")])
PARTS = denizen.message("Parts", [("parts", denizen.BUFFER, 3), ("last", denizen.BUFFER)])
HOP = denizen.message("Hop", [("data", denizen.BUFFER), ("to", "u4"), ("left", "u4")])
KEEP = denizen.message("Keep", [("data", denizen.BUFFER)])
LOOK = denizen.message("Look")
BACK = denizen.message("Back", [("data", denizen.BUFFER)])

TEXT = r"""
struct Scaler {
    denizen::BufferRef kept;
    void on(const Scale& m, auto& ctx) {
        auto data = ctx.template data<float>(m.data);
        for (float& x : data) x *= m.by;
        ctx.reply(Done{reinterpret_cast<uint64_t>(data.data), data.count});
    }
    void on(const Parts& m, auto& ctx) {
        uint64_t count = 0;
        for (denizen::BufferRef part : m.parts) {
            if (part) count += ctx.template data<float>(part).count;
        }
        ctx.reply(Done{m.last.value, count});
    }
    void on(const Hop& m, auto& ctx) {
        for (float& x : ctx.template data<float>(m.data)) x += 1;
        if (m.left != 0) {
            ctx.send(denizen::Address{m.to}, Hop{m.data, ctx.self().value, m.left - 1});
        }
    }
    void on(const Keep& m, auto&) { kept = m.data; }
    void on(const Look&, auto& ctx) {
        auto data = ctx.template data<float>(kept);
        const uint64_t count = data.empty() ? 0 : data.size();
        ctx.reply(Done{reinterpret_cast<uint64_t>(data.data), count});
    }
    void on(const Back& m, auto& ctx) { ctx.send(denizen::host, Back{m.data}); }
};
"""


def program():
    return denizen.Program(
        TEXT,
        actors=["Scaler"],
        messages=[SCALE, DONE, PARTS, HOP, KEEP, LOOK, BACK],
        name="scaler",
    )


@pytest.fixture
def rt(device):
    with denizen.Runtime(program(), device) as runtime:
        yield runtime


@pytest.fixture(params=["cpu:1", "cpu:2"])
def cpu(request):
    with denizen.Runtime(program(), request.param) as runtime:
        yield runtime


def settled(rt):
    """Closed buffers that messages still refer to, once everything has been handled."""
    rt.drain()
    for _ in range(1000):  # a worker ends its turn a moment after its messages count as handled
        if rt.buffers()["waiting"] == 0:
            break
    return rt.buffers()["waiting"]


def test_a_handler_works_on_the_array_itself(cpu):
    (actor,) = cpu.spawn("Scaler")
    x = np.arange(1000, dtype=np.float32)
    with cpu.wrap(x) as buffer:
        assert buffer.kind == "external"
        assert (buffer.shape, buffer.dtype, buffer.nbytes) == ((1000,), np.float32, 4000)
        assert buffer.pointer == x.ctypes.data
        done = cpu.ask(actor, SCALE(data=buffer, by=2))
        assert done["at"] == x.ctypes.data
        assert done["count"] == 1000
        np.testing.assert_array_equal(x, 2 * np.arange(1000))
        cpu.ask(actor, "Scale", data=buffer.ref, by=0.5)
        np.testing.assert_array_equal(x, np.arange(1000))
        y = np.from_dlpack(buffer)
        assert y.ctypes.data == x.ctypes.data
        assert not hasattr(buffer, "__cuda_array_interface__")
    assert cpu.stats()["first_error"] == ""


@pytest.mark.parametrize("kind", ["pinned", "mapped"])
def test_memory_that_both_sides_reach(rt, kind):
    try:
        buffer = rt.buffer((3, 4), "f4", kind)
    except denizen.DeviceError as error:  # a machine without CPU-mapped memory says so
        assert kind == "mapped"
        pytest.skip(str(error))
    (actor,) = rt.spawn("Scaler")
    x = buffer.numpy()
    assert (x.shape, x.dtype) == ((3, 4), np.float32)
    x[:] = 1.5
    done = rt.ask(actor, SCALE(data=buffer, by=4), timeout=20)
    assert done["at"] == buffer.pointer
    assert done["count"] == 12
    assert (x == 6).all()


def test_device_memory(rt):
    (actor,) = rt.spawn("Scaler")
    with rt.buffer(100) as buffer:
        assert buffer.dtype == np.float32
        if not rt.description["on_gpu"]:
            buffer.numpy()[:] = 1  # its content is undefined, and may be no number
        done = rt.ask(actor, SCALE(data=buffer, by=0), timeout=20)
        assert done["at"] == buffer.pointer
        if rt.description["on_gpu"]:
            assert buffer.kind == "device"
            assert buffer.__cuda_array_interface__["data"] == (buffer.pointer, False)
            with pytest.raises(denizen.ArgumentError, match=r'does not reach .* "device" on a GPU'):
                buffer.numpy()
        else:
            assert buffer.kind == "host"
            assert (buffer.numpy() == 0).all()
    with pytest.raises(denizen.StaleBufferError):
        buffer.numpy()


def test_an_array_lives_as_long_as_its_last_message(cpu):
    first, second = cpu.spawn("Scaler", 2)
    x = np.zeros(64, np.float32)
    alive = weakref.ref(x)
    buffer = cpu.wrap(x)
    cpu.pause()
    cpu.send(first, HOP(data=buffer, to=second, left=20))
    buffer.close()
    del x
    gc.collect()
    assert alive() is not None
    assert cpu.buffers() == {"open": 0, "waiting": 1, "bytes": 256}
    cpu.resume()
    assert settled(cpu) == 0
    gc.collect()
    assert alive() is None


def test_what_is_written_in_place_is_seen(cpu):
    actors = cpu.spawn("Scaler", 4)
    arrays = [np.full(16, i, np.float32) for i in range(50)]
    for i, x in enumerate(arrays):
        with cpu.wrap(x) as buffer:  # closed with the message under way
            cpu.send(actors[i % 4], HOP(data=buffer, to=actors[(i + 1) % 4], left=i))
    assert settled(cpu) == 0
    for i, x in enumerate(arrays):
        assert (x == 2 * i + 1).all()


def test_use_after_close_on_the_host(rt):
    (actor,) = rt.spawn("Scaler")
    buffer = rt.buffer(8, kind="pinned")
    message = SCALE(data=buffer, by=1)
    buffer.close()
    buffer.close()
    assert buffer.closed
    assert "closed" in repr(buffer)
    text = "Scale refers to a buffer that has been closed"
    for attempt in (
        lambda: rt.send(actor, message),
        lambda: rt.ask(actor, message),
        lambda: rt.broadcast("Scaler", message),
        lambda: rt.send_many(actor, np.array([message] * 3)),
    ):
        with pytest.raises(denizen.StaleBufferError, match=text):
            attempt()
    for attempt in (
        lambda: SCALE(data=buffer, by=1),
        lambda: buffer.ref,
        lambda: buffer.pointer,
        lambda: np.from_dlpack(buffer),
    ):
        with pytest.raises(denizen.StaleBufferError, match="the buffer has been closed"):
            attempt()
    with pytest.raises(BufferError):  # of which it is a kind
        rt.send(actor, message)
    assert rt.stats()["errors"] == 0


def test_use_after_free_in_a_handler(rt):
    (actor,) = rt.spawn("Scaler")
    buffer = rt.buffer(8, kind="pinned")
    rt.send(actor, KEEP(data=buffer))
    assert rt.ask(actor, LOOK(), timeout=20)["count"] == 8
    buffer.close()
    assert settled(rt) == 0
    other = rt.buffer(8, kind="pinned")
    done = rt.ask(actor, LOOK())
    assert (done["at"], done["count"]) == (0, 0)
    rt.drain()
    assert rt.stats()["errors"] == 1
    assert "Look at actor Scaler #0" in rt.stats()["first_error"]
    assert "its buffer was freed, or never existed" in rt.stats()["first_error"]
    other.close()


def test_a_buffer_that_nobody_holds_is_closed(cpu):
    (actor,) = cpu.spawn("Scaler")
    x = np.ones(4, np.float32)
    message = SCALE(data=cpu.wrap(x), by=2)
    with pytest.raises(denizen.StaleBufferError):
        cpu.ask(actor, message)
    cpu.ask(actor, "Scale", data=cpu.wrap(x), by=2)  # held until the message is sent
    assert (x == 2).all()
    assert settled(cpu) == 0
    assert cpu.buffers()["open"] == 0


def test_arrays_of_references(cpu):
    (actor,) = cpu.spawn("Scaler")
    a, b = cpu.buffer(10), cpu.buffer(20)
    done = cpu.ask(actor, PARTS(parts=[a, 0, b], last=a))
    assert done["count"] == 30
    assert done["at"] == a.ref
    batch = SCALE.zeros(100)
    x = np.ones(5, np.float32)
    buffer = cpu.wrap(x)
    batch["data"] = buffer.ref
    batch["by"] = 1.5
    cpu.send_many(actor, batch)
    buffer.close()
    assert settled(cpu) == 0
    np.testing.assert_allclose(x, 1.5**100, rtol=1e-4)


def test_a_message_to_the_host_keeps_it(cpu):
    (actor,) = cpu.spawn("Scaler")
    x = np.ones(5, np.float32)
    alive = weakref.ref(x)
    buffer = cpu.wrap(x)
    ref = buffer.ref
    del x
    cpu.send(actor, BACK(data=buffer))
    buffer.close()
    cpu.drain()
    assert cpu.buffers()["waiting"] == 1
    assert alive() is not None
    assert cpu.receive().message["data"] == ref
    assert settled(cpu) == 0
    assert alive() is None


def test_views_outlive_buffer_and_runtime():
    with denizen.Runtime(program(), "cpu:1") as rt:
        (actor,) = rt.spawn("Scaler")
        buffer = rt.buffer(8)
        x = buffer.numpy()
        y = np.from_dlpack(buffer)
        x[:] = 3
        rt.ask(actor, SCALE(data=buffer, by=2))
        buffer.close()
        z = rt.buffer(8)
        z.numpy()[:] = 0  # not the same memory
        assert (x == 6).all()
    assert (y == 6).all()
    del x
    assert (y == 6).all()
    assert z.numpy().sum() == 0
    z.close()


@pytest.mark.parametrize(
    "tensor",
    [
        np.zeros(3, np.int64),
        np.zeros((2, 3), np.complex64),
        np.zeros((4, 1, 2), np.bool_),
        np.zeros((), np.float64),
        bytearray(16),
    ],
    ids=lambda t: str(getattr(t, "dtype", "bytearray")),
)
def test_what_can_be_wrapped(cpu, tensor):
    buffer = cpu.wrap(tensor)
    array = np.asarray(tensor) if not isinstance(tensor, bytearray) else np.frombuffer(tensor, "u1")
    assert buffer.shape == array.shape
    assert buffer.dtype == array.dtype
    assert buffer.pointer == array.ctypes.data
    again = buffer.numpy()
    assert (again.shape, again.dtype) == (array.shape, array.dtype)
    assert again.ctypes.data == array.ctypes.data


def read_only():
    x = np.zeros(4)
    x.flags.writeable = False
    return x


@pytest.mark.parametrize(
    ("tensor", "text"),
    [
        (np.zeros((4, 4))[:, 1], "not contiguous"),
        (np.zeros((4, 4)).T, "not contiguous"),
        (read_only(), "may be written"),
        (b"bytes", "may be written"),
        ([1, 2, 3], "list cannot be wrapped"),
        (None, "NoneType cannot be wrapped"),
        (np.zeros(0), "at least 1 byte"),
        (np.array([object()]), "cannot be wrapped"),
    ],
    # Not str(): an object's address in a test's name is another one in each process.
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_what_cannot_be_wrapped(cpu, tensor, text):
    with pytest.raises(denizen.ArgumentError, match=text):
        cpu.wrap(tensor)
    assert cpu.buffers()["open"] == 0


def test_a_tensor_on_a_gpu_is_refused_by_a_program_on_the_cpu(cpu):
    class Elsewhere:
        @property
        def __cuda_array_interface__(self):
            return {"shape": (4,), "typestr": "<f4", "data": (4096, False)}

    with pytest.raises(denizen.ArgumentError, match="lies on a GPU, the program on CPU threads"):
        cpu.wrap(Elsewhere())
    with pytest.raises(denizen.ArgumentError, match="a buffer already"):
        cpu.wrap(cpu.buffer(1))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"shape": 0}, "has no elements"),
        ({"shape": (3, -1)}, "has no elements"),
        ({"shape": 1.5}, "shape = 1.5; use a whole number, or several"),
        ({"shape": (2, "3")}, r"shape = \(2, '3'\); use a whole number"),
        ({"shape": (2**40, 2**40)}, "has 4,835,703,278,458,516,698,824,704 bytes"),
        ({"shape": 4, "kind": None}, "kind = None; use device, pinned or mapped"),
        ({"shape": 4, "dtype": ">f4"}, "native byte order"),
        ({"shape": 4, "dtype": "S3"}, "has no place in a buffer"),
        ({"shape": 4, "kind": "vram"}, 'kind "vram"; use device, pinned or mapped'),
    ],
)
def test_arguments(rt, arguments, text):
    with pytest.raises(denizen.ArgumentError, match=text):
        rt.buffer(**arguments)


def test_the_table_has_an_end():
    with denizen.Runtime(program(), "cpu:1", buffers=2) as rt:
        kept = [rt.buffer(1), rt.buffer(1)]
        with pytest.raises(denizen.ExhaustedError, match="all 2 buffers are taken"):
            rt.buffer(1)
        kept.pop()
        rt.buffer(1)
    with pytest.raises(denizen.ClosedError):
        rt.buffer(1)


def test_the_message_type():
    assert SCALE.dtype["data"] == np.uint64
    assert SCALE.buffer_offsets() == [8]
    assert PARTS.buffer_offsets() == [0, 8, 16, 24]
    assert DONE.buffer_offsets() == []
    assert "denizen::BufferRef parts[3];" in PARTS.struct
    assert "DENIZEN_BUFFERS(parts, last)" in PARTS.struct
    assert "DENIZEN_BUFFERS" not in DONE.struct


@pytest.mark.usefixtures("unoptimised")
def test_it_compiles_for_a_gpu(nvrtc, empty_cache):
    assert program().compile_gpu(90).buffers == [[8], [], [0, 8, 16, 24], [0], [0], [], [0]]


@pytest.mark.gpu
@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_tensors_of_a_gpu(library):
    """Without a copy in either direction; frees while the program is resident."""
    module = pytest.importorskip(library)
    if library == "torch":
        tensor = module.full((1000,), 3.0, dtype=module.float32, device="cuda")
        stream = module.cuda.Stream()
        pointer = tensor.data_ptr()
        module.cuda.synchronize()
    else:
        tensor = module.full(1000, 3.0, dtype=module.float32)
        stream = module.cuda.Stream(non_blocking=True)
        pointer = tensor.data.ptr
        module.cuda.Device().synchronize()
    # What loads a kernel or takes memory comes before the program is resident: it may wait for
    # everything that is on the GPU.
    with stream if library == "cupy" else module.cuda.stream(stream):
        first = module.empty_like(tensor)
        first[:] = tensor
        assert float(first.sum()) == 3000
        stream.synchronize()
    with denizen.Runtime(program(), "gpu", sms=8) as rt:
        (actor,) = rt.spawn("Scaler")
        with rt.wrap(tensor) as buffer:
            assert buffer.pointer == pointer
            assert rt.ask(actor, SCALE(data=buffer, by=2), timeout=20)["at"] == pointer
        own = rt.buffer(1000)
        with stream if library == "cupy" else module.cuda.stream(stream):
            back = module.from_dlpack(own)
            back[:] = tensor
            stream.synchronize()
        rt.ask(actor, SCALE(data=own, by=2), timeout=20)
        with stream if library == "cupy" else module.cuda.stream(stream):
            total = float(back.sum())
            stream.synchronize()
        assert total == 12000
        own.close()
        del back
        assert rt.buffers()["open"] == 0
    assert float(tensor.sum()) == 6000
