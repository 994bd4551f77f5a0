# SPDX-License-Identifier: Apache-2.0
"""ask_async: hundreds at once, out of order, with time-outs and cancellation."""

import asyncio
import threading

import pytest
import sample
from backends import both, rt  # noqa: F401  (fixtures)

import denizen


def test_hundreds_at_once(rt):
    tellers = rt.spawn("Teller", 100).tolist()

    async def main():
        asks = [rt.ask_async(tellers[i % 100], "Add", n=i, timeout=30) for i in range(700)]
        return await asyncio.gather(*asks)

    assert [int(a["n"]) for a in asyncio.run(main())] == list(range(1, 701))


def test_more_at_once_than_there_are_reply_cells(device):
    with denizen.Runtime(sample.program(), device, asks=8) as rt:
        tellers = rt.spawn("Teller", 10).tolist()

        async def main():
            asks = [rt.ask_async(tellers[i % 10], "Add", n=i, timeout=30) for i in range(200)]
            return await asyncio.gather(*asks)

        assert [int(a["n"]) for a in asyncio.run(main())] == list(range(1, 201))


def test_an_answer_that_takes_its_time_delays_nobody_else(rt):
    (slow,) = rt.spawn("Slow")
    (counter,) = rt.spawn("Counter")

    async def main():
        kept = asyncio.create_task(rt.ask_async(slow, "Keep", timeout=30))
        for _ in range(20):
            await rt.ask_async(counter, "Ask", timeout=30)
            assert not kept.done()
        rt.send(slow, "Release")
        return await kept

    assert asyncio.run(main()).tolist() == (7, 1)


def test_the_loop_goes_on_while_an_ask_waits(rt):
    (slow,) = rt.spawn("Slow")

    async def main():
        kept = asyncio.create_task(rt.ask_async(slow, "Keep", timeout=30))
        ticks = 0
        while ticks < 50:
            await asyncio.sleep(0.001)
            ticks += 1
        assert not kept.done()
        rt.send(slow, "Release")
        await kept
        return ticks

    assert asyncio.run(main()) == 50


def test_time_out(rt):
    (slow,) = rt.spawn("Slow")
    (counter,) = rt.spawn("Counter")

    async def main():
        late = pytest.raises(denizen.DeadlineError, match=r"to actor Slow #0 of .* within 0.05 s")
        with late:
            await rt.ask_async(slow, "Keep", timeout=0.05)
        return await rt.ask_async(counter, "Ask", timeout=30)

    assert asyncio.run(main()).tolist() == (0, 0)


def test_cancelled_asks_give_their_cells_back(device):
    with denizen.Runtime(sample.program(), device, asks=4) as rt:
        slow = rt.spawn("Slow", 4).tolist()
        (counter,) = rt.spawn("Counter")

        async def main():
            tasks = [asyncio.create_task(rt.ask_async(a, "Keep", timeout=30)) for a in slow]
            await asyncio.sleep(0.02)
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(r, asyncio.CancelledError) for r in results)
            with pytest.raises(denizen.ExhaustedError, match="all 4 reply cells"):
                await rt.ask_async(counter, "Ask", timeout=0.05)
            rt.broadcast("Slow", "Release")
            rt.drain()
            return await rt.ask_async(counter, "Ask", timeout=30)

        assert asyncio.run(main()).tolist() == (0, 0)


def test_wrong_questions_are_refused_at_once(rt):
    (counter,) = rt.spawn("Counter")

    async def main():
        with pytest.raises(denizen.NoActorError):
            await rt.ask_async(0xFFF, "Ask")
        with pytest.raises(denizen.MessageError, match="no handler"):
            await rt.ask_async(counter, "Hop")
        with pytest.raises(denizen.ArgumentError, match="is no address"):
            await rt.ask_async(-1, "Ask")

    asyncio.run(main())


def test_loops_in_several_threads(rt):
    tellers = rt.spawn("Teller", 8).tolist()
    results = {}

    def one(k):
        async def main():
            asks = [rt.ask_async(tellers[k], "Add", n=i, timeout=30) for i in range(100)]
            return await asyncio.gather(*asks)

        results[k] = [int(a["n"]) for a in asyncio.run(main())]

    threads = [threading.Thread(target=one, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == {k: list(range(1, 101)) for k in range(4)}


def test_close_tells_those_who_wait():
    rt = denizen.Runtime(sample.program(), "cpu:1")
    (slow,) = rt.spawn("Slow")

    async def main():
        kept = asyncio.create_task(rt.ask_async(slow, "Keep", timeout=30))
        await asyncio.sleep(0.02)
        rt.close()
        with pytest.raises(denizen.ClosedError, match="closed before the answer came"):
            await kept
        with pytest.raises(denizen.ClosedError):
            await rt.ask_async(slow, "Keep")

    asyncio.run(main())
