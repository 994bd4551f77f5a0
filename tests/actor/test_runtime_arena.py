# SPDX-License-Identifier: Apache-2.0
"""Handlers that allocate."""

import pytest

import denizen

LISTS = """
struct List {
    static constexpr bool allocates = true;
    struct Link { Link* next; uint32_t value; };
    Link* first = nullptr;
    DENIZEN_HD void on(const Push& m, auto& ctx)
    {
        auto* link = static_cast<Link*>(ctx.arena().allocate(sizeof(Link)));
        if (link != nullptr) {
            *link = {first, m.value};
            first = link;
        }
    }
    DENIZEN_HD void on(const Clear&, auto& ctx)
    {
        while (first != nullptr) {
            Link* const link = first;
            first = link->next;
            ctx.arena().deallocate(link);
        }
    }
};
"""


def test_handlers_allocate(device):
    push = denizen.message("Push", [("value", "u4")])
    clear = denizen.message("Clear")
    lists = denizen.Program(LISTS, actors=["List"], messages=[push, clear])
    with denizen.Runtime(lists, device=device, arena_bytes=1 << 20) as rt:
        made = rt.spawn("List", 4)
        for actor in made:
            for i in range(50):
                rt.send(actor, push(value=i))
        rt.drain()
        stats = rt.arena()
        assert (stats.bytes, stats.live_blocks, stats.live_bytes) == (1 << 20, 200, 200 * 16)
        for actor in made:
            rt.send(actor, clear())
        rt.drain()
        assert rt.arena().live_blocks == 0
        with pytest.raises(denizen.ArgumentError, match="there is no node 1"):
            rt.arena(1)
