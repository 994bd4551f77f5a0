# SPDX-License-Identifier: Apache-2.0
"""Topics from Python: subscribe, publish, and what is no topic."""

import pytest

import denizen

QUOTE = denizen.message("Quote", [("number", "u4"), ("price", "f4")])
LONG = denizen.message("Long", [("number", "u4"), ("words", "u4", (100,))])
JOIN = denizen.message("Join")
SAY = denizen.message("Say", [("count", "u4")])
LOOK = denizen.message("Look")
SEEN = denizen.message("Seen", [("count", "u4"), ("sum", "u4")])

TEXT = r"""
struct Trader {
    uint32_t count = 0;
    uint32_t sum = 0;
    void on(const Quote& m, auto&) { ++count; sum += m.number; }
    void on(const Long& m, auto&) {
        ++count;
        for (uint32_t word : m.words) sum += word;
    }
    void on(const Join&, auto& ctx) { ctx.subscribe("market/*"); }
    void on(const Say& m, auto& ctx) {
        for (uint32_t i = 0; i < m.count; ++i) {
            count += ctx.publish("market/EURUSD", Quote{i, 1.0f});
            count += ctx.publish("exchange/of/frankfurt/EURUSD", Quote{i, 1.0f});
        }
    }
    void on(const Look&, auto& ctx) { ctx.reply(Seen{count, sum}); }
};
"""


@pytest.fixture
def market(device):
    program = denizen.Program(
        TEXT, actors=["Trader"], messages=[QUOTE, LONG, JOIN, SAY, LOOK, SEEN], name="topics"
    )
    with denizen.Runtime(program, device, subscriptions=8) as runtime:
        yield runtime


def seen(rt, address):
    rt.drain()
    return tuple(int(n) for n in rt.ask(address, "Look"))


def test_exact_prefix_and_unsubscribe(market):
    one, two, three = market.spawn("Trader", 3)
    market.subscribe(one, "market/EURUSD")
    market.subscribe(two, "market/*")
    assert market.publish("market/EURUSD", "Quote", number=1) == 2
    assert market.publish("market/GBPUSD", QUOTE(number=10)) == 1
    assert market.publish("weather", "Quote", number=100) == 0
    assert market.publish("market/EURUSD", "Long", number=1, words=[2] * 100) == 2
    assert seen(market, one) == (2, 201)
    assert seen(market, two) == (3, 211)
    market.unsubscribe(two, "market/*")
    assert market.publish("market/GBPUSD", "Quote", number=1) == 0
    assert seen(market, three) == (0, 0)


def test_handlers_subscribe_and_publish(market):
    traders = market.spawn("Trader", 4)
    for trader in traders[:3]:
        market.send(trader, "Join")
    market.drain()
    market.send(traders[3], "Say", count=5)
    assert seen(market, traders[3]) == (15, 0)
    assert seen(market, traders[0]) == (5, 10)


def test_the_host_subscribes(market):
    market.subscribe(denizen.HOST, "*")
    assert market.publish("news", "Quote", number=7) == 1
    received = market.receive()
    assert received.type == "Quote"
    assert received.message["number"] == 7


def test_long_names(market):
    one, two = market.spawn("Trader", 2)
    market.subscribe(one, "exchange/of/frankfurt/EURUSD")
    market.subscribe(two, "exchange/of/frankfurt/*")
    assert market.publish("exchange/of/frankfurt/EURUSD", "Quote", number=1) == 2
    assert market.publish("exchange/of/frankfurt/GBPUSD", "Long", number=1, words=[2] * 100) == 1
    market.send(one, "Say", count=3)
    assert seen(market, one) == (1 + 3 + 6, 1 + 3)
    assert seen(market, two) == (2 + 3, 1 + 200 + 3)


def test_errors(market):
    (trader,) = market.spawn("Trader")
    with pytest.raises(denizen.ArgumentError, match="has 256 bytes; use at most 255"):
        market.publish("x" * 256, "Quote")
    with pytest.raises(denizen.ArgumentError, match="only subscriptions are to many topics"):
        market.publish("market/*", "Quote")
    with pytest.raises(denizen.ArgumentError, match="a '\\*' that is not its end"):
        market.subscribe(trader, "mar*ket")
    with pytest.raises(denizen.ArgumentError, match="is no topic"):
        market.subscribe(trader, 7)
    with pytest.raises(denizen.NoActorError):
        market.subscribe(trader + 1, "a")
    for n in range(8):
        market.subscribe(trader, f"t{n}")
    with pytest.raises(denizen.ExhaustedError, match=r"\(8 entries\) is full.*raise subscriptions"):
        market.subscribe(trader, "t8")
