# SPDX-License-Identifier: Apache-2.0
"""Messages from actors to the host: all of them, once, in the order of each sender."""

import numpy as np
import pytest
import sample
from backends import both, rt  # noqa: F401  (fixtures)
from sample import ITEM

import denizen


def receive_all(rt, kind, count, chunk=1000):
    messages, senders = [], []
    got = 0
    while got < count:
        m, s = rt.receive_many(kind, chunk)
        if len(m) == 0:
            # Waits for the next one, so that a lost message is an error here.
            one = rt.receive(timeout=20)
            assert one.type == kind.name
            m, s = np.array([one.message], kind.dtype), np.array([one.sender], np.uint32)
        messages.append(m)
        senders.append(s)
        got += len(m)
    assert got == count
    return np.concatenate(messages), np.concatenate(senders)


def test_one_message_with_type_and_sender(rt):
    (teller,) = rt.spawn("Teller")
    rt.send(teller, "Tell", first=41, count=1)
    received = rt.receive(timeout=20)
    assert received.type == "Item"
    assert received.sender == teller
    assert received.message["index"] == 41
    assert received.message.dtype == ITEM.dtype


def test_a_reply_to_a_message_that_was_only_sent(rt):
    (teller,) = rt.spawn("Teller")
    rt.send(teller, "Add", n=1)
    received = rt.receive(timeout=20)
    assert (received.type, int(received.message["n"])) == ("Add", 2)


def test_nothing_to_receive(rt):
    (teller,) = rt.spawn("Teller")
    messages, senders = rt.receive_many("Item", 10)
    assert (len(messages), len(senders)) == (0, 0)
    assert messages.dtype == ITEM.dtype
    with pytest.raises(denizen.DeadlineError, match="no actor sent a message to the host"):
        rt.receive(timeout=0.02)
    rt.send(teller, "Tell", first=0, count=3)
    rt.drain()
    assert rt.receive_many("Item", 0)[0].shape == (0,)
    assert rt.receive_many(ITEM, 2)[0]["index"].tolist() == [0, 1]
    assert rt.receive_many(ITEM, 2)[0]["index"].tolist() == [2]


def test_many_in_the_order_of_each_sender(rt):
    tellers = rt.spawn("Teller", 40)
    each = 500
    for i, teller in enumerate(tellers):
        rt.send(teller, "Tell", first=i * each, count=each)
    messages, senders = receive_all(rt, ITEM, 40 * each)
    assert np.array_equal(np.sort(messages["index"]), np.arange(40 * each))
    for i, teller in enumerate(tellers):
        mine = messages["index"][senders == teller]
        assert np.array_equal(mine, np.arange(i * each, (i + 1) * each))


def test_more_than_the_ring_holds(device):
    with denizen.Runtime(sample.program(), device, egress_slots=64) as rt:
        tellers = rt.spawn("Teller", 8)
        for i, teller in enumerate(tellers):
            rt.send(teller, "Tell", first=1000 * i, count=300)
        messages, _ = receive_all(rt, ITEM, 8 * 300)
        expected = np.concatenate([np.arange(1000 * i, 1000 * i + 300) for i in range(8)])
        assert np.array_equal(np.sort(messages["index"]), expected)


def test_a_host_that_only_drains_loses_nothing(device):
    with denizen.Runtime(sample.program(), device, egress_slots=64) as rt:
        (teller,) = rt.spawn("Teller")
        for i in range(20):
            rt.send(teller, "Tell", first=100 * i, count=100)
        rt.drain()
        messages, _ = rt.receive_many("Item", 5000)
        assert messages["index"].tolist() == list(range(2000))


def test_another_type_in_front_is_left_for_its_own_call(rt):
    (teller,) = rt.spawn("Teller")
    rt.send(teller, "Tell", first=0, count=2)
    rt.send(teller, "Add", n=5)
    rt.send(teller, "Tell", first=2, count=2)
    rt.drain()
    assert rt.receive_many("Add", 10)[0].shape == (0,)
    assert rt.receive_many("Item", 10)[0]["index"].tolist() == [0, 1]
    assert rt.receive_many("Add", 10)[0]["n"].tolist() == [6]
    assert rt.receive_many("Item", 10)[0]["index"].tolist() == [2, 3]
    with pytest.raises(denizen.MessageError, match='no message "Nothing"'):
        rt.receive_many("Nothing", 10)
