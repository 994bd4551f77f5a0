# SPDX-License-Identifier: Apache-2.0
"""I/Q over loopback, by datagrams and by ZeroMQ, and from a receiver that is not there."""

import contextlib
import socket
import struct
import sys
import threading
import time
import types

import numpy as np
import pytest

from denizen import ArgumentError, DeviceError, MissingPackageError, iq


def noise(count, seed=0):
    random = np.random.default_rng(seed)
    parts = random.standard_normal((count, 2)) * 0.2
    return parts.astype(np.float32).view(np.complex64)[:, 0]


def everything(source):
    return np.concatenate([np.zeros(0, np.complex64), *source.blocks()])


@pytest.mark.parametrize("header", ["seq", "none"])
@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_udp_brings_every_sample(header, host):
    x = noise(20_000)
    try:
        source = iq.open(f"udp://{host}:0?format=f32&header={header}&timeout=10", rate=10**6)
    except (iq.DataError, ArgumentError):
        pytest.skip(f"this machine has no {host}")
    with source:
        name = f"udp://{host}:{source.port}?format=f32&header={header}&rate=1e6"
        sender = threading.Thread(target=lambda: send(name, x))
        sender.start()
        got = everything(source)
        sender.join()
        np.testing.assert_array_equal(got, x)
        most = 183 if header == "seq" else 184  # samples in 1472 bytes
        assert source.received == sum(-(-n // most) for n in (7001, 7001, 5998))
        assert (source.lost, source.late, source.losses) == (0, 0, "")


def send(name, x):
    with iq.create(name) as sink:
        for at in range(0, len(x), 7001):
            sink.write(x[at : at + 7001])


def datagrams(source, *payloads, sender=None):
    """Sends these to the source's port, one after the other; from ``sender`` or a new socket."""
    with contextlib.ExitStack() as stack:
        sock = sender or stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        for payload in payloads:
            sock.sendto(payload, ("127.0.0.1", source.port))


@pytest.fixture
def senders():
    """Sockets that send from ports of their own."""
    with contextlib.ExitStack() as stack:
        sockets = [
            stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) for _ in range(2)
        ]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        yield sockets


def numbered(number, *samples):
    return struct.pack("<Q", number) + np.array(samples, "<c8").tobytes()


def test_udp_counts_what_is_lost_and_leaves_out_what_is_late():
    with iq.open("udp://127.0.0.1:0?format=f32&timeout=10") as source:
        datagrams(
            source, numbered(5, 1), numbered(6, 2, 3), numbered(9, 4), numbered(7, 9),
            numbered(10, 5), b"",
        )  # fmt: skip
        np.testing.assert_array_equal(everything(source), [1, 2, 3, 4, 5])
        assert (source.received, source.lost, source.late) == (4, 2, 1)
        assert source.losses == "4 datagrams, 2 lost, 1 late"


def test_udp_ends_by_its_timeout():
    with iq.open("udp://127.0.0.1:0?format=f32&timeout=0.2") as source:
        datagrams(source, numbered(0, 1))
        np.testing.assert_array_equal(everything(source), [1])
    says = r"no datagram with samples came in 0\.1 s; expected raw unsigned"
    with (
        iq.open("udp://127.0.0.1:0?timeout=0.1") as source,
        pytest.raises(iq.DataError, match=says),
    ):
        everything(source)


def test_udp_refuses_what_holds_no_samples():
    with iq.open("udp://127.0.0.1:0?format=f32&timeout=0.2") as source:
        datagrams(source, b"hello there")
        with pytest.raises(iq.DataError, match="11 bytes, which is not a sequence number of 8 byt"):
            everything(source)


@pytest.mark.parametrize("header", ["seq", "none"])
@pytest.mark.parametrize("bad", [b"", b"abc", b"123456789"])
def test_udp_is_not_ended_by_what_is_no_samples(header, bad, senders):
    good = numbered if header == "seq" else lambda _, *x: np.array(x, "<c8").tobytes()
    with iq.open(f"udp://127.0.0.1:0?format=f32&timeout=10&header={header}") as source:
        datagrams(source, bad, sender=senders[1])
        datagrams(source, good(0, 1), sender=senders[0])
        datagrams(source, bad, sender=senders[1])
        ours = [bad] if bad else []  # the sender's own empty one is the end
        datagrams(source, *ours, good(1, 2), b"", sender=senders[0])
        np.testing.assert_array_equal(everything(source), [1, 2])
        assert (source.bad, source.strangers) == (1 + len(ours), 1)
        assert "1 of other senders" in source.losses
        assert f"{source.bad} without whole samples" in source.losses


def test_udp_hears_one_sender(senders):
    with iq.open("udp://127.0.0.1:0?format=f32&timeout=10") as source:
        datagrams(source, numbered(0, 1), sender=senders[0])
        datagrams(source, numbered(1, 66), numbered(500, 67), b"", sender=senders[1])
        datagrams(source, numbered(1, 2), b"", sender=senders[0])
        np.testing.assert_array_equal(everything(source), [1, 2])
        assert (source.received, source.lost, source.strangers) == (2, 0, 3)


def test_udp_hears_the_sender_that_is_named(senders):
    port = senders[1].getsockname()[1]
    with iq.open(f"udp://127.0.0.1:0?format=f32&timeout=10&source=127.0.0.1:{port}") as source:
        datagrams(source, numbered(0, 66), b"", sender=senders[0])
        datagrams(source, numbered(0, 1), b"", sender=senders[1])
        np.testing.assert_array_equal(everything(source), [1])
        assert source.strangers == 2
    with (
        iq.open("udp://127.0.0.1:0?timeout=0.2&source=127.0.0.9") as source,
        pytest.raises(iq.DataError, match="1 came of other senders than source says"),
    ):
        datagrams(source, numbered(0), sender=senders[0])
        everything(source)


@pytest.mark.parametrize("name", ["x:y", "[::1]:5", "nowhere.invalid", "127.0.0.1:70000"])
def test_udp_sources_that_are_none(name):
    with pytest.raises(ArgumentError, match="source"):
        iq.open(f"udp://127.0.0.1:0?source={name}")


def test_udp_hears_a_new_sender_when_the_first_is_silent(senders, monkeypatch):
    monkeypatch.setattr("denizen.iq.udp._SILENCE", 0.1)
    with iq.open("udp://127.0.0.1:0?format=f32&timeout=10") as source:
        datagrams(source, numbered(0, 1), sender=senders[0])
        time.sleep(0.3)
        datagrams(source, numbered(1, 2), b"", sender=senders[1])
        np.testing.assert_array_equal(everything(source), [1, 2])


@pytest.mark.parametrize("far", [2**64 - 1, 2**63, 5000 + 2**32])
def test_udp_one_far_number_makes_no_others_late(far):
    with iq.open("udp://127.0.0.1:0?format=f32&timeout=10") as source:
        datagrams(
            source, numbered(5000, 1), numbered(far, 66), numbered(5001, 2), numbered(5002, 3), b""
        )
        np.testing.assert_array_equal(everything(source), [1, 2, 3])
        assert (source.received, source.lost, source.late + source.bad) == (3, 0, 1)


def test_udp_a_sender_may_begin_again_and_numbers_may_wrap():
    with iq.open("udp://127.0.0.1:0?format=f32&timeout=10") as source:
        datagrams(
            source, numbered(2**64 - 1, 1), numbered(0, 2), numbered(2**40, 66),
            numbered(2**40 + 1, 3), numbered(2**40 + 2, 4), b"",
        )  # fmt: skip
        np.testing.assert_array_equal(everything(source), [1, 2, 3, 4])
        assert (source.lost, source.late, source.bad) == (0, 0, 1)


def test_udp_without_a_host_is_for_this_machine():
    def sent_to(host, source):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.sendto(numbered(0, 1), (host, source.port))

    # 127.0.0.2 is this machine too, but not the address that it listens at.
    with (
        iq.open("udp://:0?format=f32&timeout=0.3") as source,
        pytest.raises(iq.DataError, match="no datagram with samples came"),
    ):
        sent_to("127.0.0.2", source)
        everything(source)
    with iq.open("udp://0.0.0.0:0?format=f32&timeout=0.3") as source:
        sent_to("127.0.0.2", source)
        np.testing.assert_array_equal(everything(source), [1])


def test_udp_port_that_is_taken():
    with (
        iq.open("udp://127.0.0.1:0") as source,
        pytest.raises(iq.DataError, match="Address already in use"),
    ):
        iq.open(f"udp://127.0.0.1:{source.port}")


def test_udp_drops_and_counts_what_nobody_takes(monkeypatch, senders):
    monkeypatch.setattr("denizen.iq.udp._QUEUE", 3000)
    with iq.open("udp://127.0.0.1:0?format=f32&timeout=10") as source:
        for k in range(10):
            datagrams(source, numbered(k, *[k] * 124), sender=senders[0])  # 1000 bytes
        deadline = time.monotonic() + 10
        while source.overrun < 7 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert source.overrun == 7
        datagrams(source, b"", sender=senders[0])
        assert len(everything(source)) == 3 * 124
        assert source.losses == "3 datagrams, 7 dropped here"


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def test_a_sink_is_no_faster_than_its_rate():
    with iq.open("udp://127.0.0.1:0?timeout=10") as source:
        begin = time.monotonic()
        send(f"udp://127.0.0.1:{source.port}?rate=1e5", noise(20_000))
        assert time.monotonic() - begin > 0.18


def test_zeromq_brings_every_sample():
    pytest.importorskip("zmq")
    x, name = noise(50_000), f"zmq://127.0.0.1:{free_port()}"
    sender = threading.Thread(target=lambda: send(f"{name}?kind=push&format=i16&timeout=10", x))
    sender.start()
    with iq.open(f"{name}?kind=pull&timeout=10&format=i16") as source:
        got = everything(source)
    sender.join()
    np.testing.assert_allclose(got, np.clip(x.view("f4"), -1, 1).view("c8"), atol=4e-5)


def test_zeromq_publishes():
    zmq = pytest.importorskip("zmq")
    name = f"zmq://127.0.0.1:{free_port()}"
    with (
        iq.create(f"{name}?format=f32") as sink,
        iq.open(f"{name}?format=f32&timeout=10") as source,
    ):
        blocks = source.blocks()
        stop = threading.Event()

        def publish():  # a subscriber that has just come misses what was sent before
            while not stop.is_set():
                sink.write(np.array([1, 2j], np.complex64))
                time.sleep(0.01)

        sender = threading.Thread(target=publish)
        sender.start()
        try:
            np.testing.assert_array_equal(next(blocks), [1, 2j])
        finally:
            stop.set()
            sender.join()
    assert zmq.__name__ == "zmq"


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("kind=pub", "kind is pub; here it is sub or pull"),
        ("kind=tcp", 'kind is "tcp": expected one of sub, pull, pub, push'),
    ],
)
def test_wrong_zeromq(query, says):
    pytest.importorskip("zmq")
    with pytest.raises(ArgumentError, match=says):
        iq.open(f"zmq://127.0.0.1:9?{query}")


def test_zeromq_errors():
    zmq = pytest.importorskip("zmq")
    port = free_port()
    with pytest.raises(iq.DataError, match="expected zmq://HOST:PORT"):
        iq.open("zmq://127.0.0.1")
    with (
        iq.open(f"zmq://127.0.0.1:{port}?timeout=0.1") as source,
        pytest.raises(iq.DataError, match=r"no message came in 0\.1 s"),
    ):
        everything(source)
    with pytest.raises(iq.DataError, match=r"nobody took a message in 0\.1 s"):
        send(f"zmq://127.0.0.1:{port}?kind=push&timeout=0.1", noise(10))
    context = zmq.Context()
    push = context.socket(zmq.PUSH)
    push.bind(f"tcp://127.0.0.1:{port}")
    with iq.open(f"zmq://127.0.0.1:{port}?kind=pull&timeout=10&format=f32") as source:
        push.send(b"123")
        with pytest.raises(iq.DataError, match="a message of 3 bytes is no whole number of I/Q"):
            everything(source)
    context.destroy(linger=0)


def test_zeromq_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "zmq", None)
    with pytest.raises(MissingPackageError, match=r"pyzmq is not installed: pip install pyzmq"):
        iq.open("zmq://127.0.0.1:9")


CALLS = {  # of SoapySDR.Device, with how many arguments
    "setSampleRate": 3, "setFrequency": 3, "setAntenna": 3, "setBandwidth": 3, "setGain": 3,
    "setGainMode": 3, "activateStream": 1, "deactivateStream": 1, "closeStream": 1,
}  # fmt: skip


class FakeDevice:
    """What a receiver does, by a script of what reading returns."""

    def __init__(self, words):
        if words != "driver=fake":
            raise RuntimeError("SoapySDR::Device::make() no match")
        self.did = []
        FakeDevice.last = self
        self.script = [3, -4, 0, -1, 2, -5]

    def __getattr__(self, name):
        if name not in CALLS:
            raise AttributeError(f"SoapySDR.Device has no {name}")

        def call(*words):
            assert len(words) == CALLS[name], name
            self.did.append((name, *words))
            return 0

        return call

    def hasGainMode(self, *_):  # noqa: N802
        return True

    def getSampleRate(self, *_):  # noqa: N802
        return next(word[3] for word in self.did if word[0] == "setSampleRate") // 1000 * 1000

    def setupStream(self, *words):  # noqa: N802
        self.did.append(("setupStream", *words))
        return "stream"

    def readStream(self, _stream, buffers, _count, timeoutUs):  # noqa: N802, N803
        assert timeoutUs > 0
        ret = self.script.pop(0)
        buffers[0][: max(0, ret)] = [0.5 + 0.25j] * max(0, ret)
        return types.SimpleNamespace(ret=ret)


@pytest.fixture
def soapy(monkeypatch):
    module = types.SimpleNamespace(
        SOAPY_SDR_RX=1, SOAPY_SDR_CF32="CF32", SOAPY_SDR_OVERFLOW=-4, SOAPY_SDR_TIMEOUT=-1,
        Device=FakeDevice, errToStr=lambda code: f"error {code}",
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "SoapySDR", module)


def test_soapy(soapy):
    name = "soapy://driver=fake?frequency=1090e6&rate=2e6&gain=40&antenna=RX"
    with iq.open(name) as source:
        assert (source.live, source.rate, source.form.key) == (True, 2_000_000, "f32")
        blocks = source.blocks()
        np.testing.assert_array_equal(next(blocks), [0.5 + 0.25j] * 3)
        np.testing.assert_array_equal(next(blocks), [0.5 + 0.25j] * 2)
        with pytest.raises(iq.DataError, match="error -5"):
            next(blocks)
        assert source.losses == "1 overflows of the receiver"
    did = FakeDevice.last.did
    assert ("setFrequency", 1, 0, 1090e6) in did
    assert ("setSampleRate", 1, 0, 2e6) in did
    assert ("setGain", 1, 0, 40.0) in did
    assert ("setAntenna", 1, 0, "RX") in did
    assert ("setupStream", 1, "CF32", [0]) in did
    assert did[-2:] == [("deactivateStream", "stream"), ("closeStream", "stream")]


def test_a_receiver_that_falls_silent(soapy):
    with iq.open("soapy://driver=fake?frequency=1090e6&rate=2e6") as source:
        assert ("setGainMode", 1, 0, True) in FakeDevice.last.did
        FakeDevice.last.script = [-1] * 5
        with pytest.raises(iq.DataError, match="the receiver has given nothing for 5 s"):
            everything(source)


@pytest.mark.parametrize(
    ("name", "kind", "says"),
    [
        ("soapy://driver=fake?rate=2e6", ArgumentError, r"fake\?frequency=1090e6&rate=2e6"),
        ("soapy://driver=fake?frequency=1e8", ArgumentError, "say where to listen, and how fast"),
        ("soapy://driver=none?frequency=1e8&rate=1e6", DeviceError, "no match .*--find"),
        ("soapy://driver=fake?frequency=1e8&rate=1234567&gain=x", ArgumentError, 'gain is "x"'),
    ],
)
def test_wrong_soapy(soapy, name, kind, says):
    with pytest.raises(kind, match=says):
        iq.open(name)


def test_a_rate_that_the_receiver_has_not(soapy, monkeypatch):
    monkeypatch.setattr(FakeDevice, "getSampleRate", lambda *_: 2.4e6)
    with pytest.raises(DeviceError, match="samples at 2,400,000, not 2,000,000 a second"):
        iq.open("soapy://driver=fake?frequency=1e8&rate=2e6")
    assert FakeDevice.last.did[-1][0] == "closeStream"


def test_soapy_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "SoapySDR", None)
    with pytest.raises(DeviceError, match="install python3-soapysdr"):
        iq.open("soapy://driver=rtlsdr?frequency=1e8&rate=1e6")
