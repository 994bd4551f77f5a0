# SPDX-License-Identifier: Apache-2.0
"""Arena: handlers allocate and free on the device. Each actor keeps a list that grows and shrinks.

python arena.py [device]
"""

import sys

import numpy as np

import denizen

Push = denizen.message("Push", [("value", "u4")])
Take = denizen.message("Take")
Taken = denizen.message("Taken", [("sum", "u8"), ("count", "u4")])

lists = denizen.Program(
    """
    struct Link { Link* next; uint32_t value; };
    struct List {
        static constexpr bool allocates = true;
        Link* first = nullptr;
        void on(const Push& m, auto& ctx) {
            auto* link = static_cast<Link*>(ctx.arena().allocate(sizeof(Link)));
            if (link == nullptr) return;  // no room; rt.arena().failed counts it
            *link = {first, m.value};
            first = link;
        }
        void on(const Take&, auto& ctx) {
            Taken taken{};
            while (first != nullptr) {
                Link* const link = first;
                first = link->next;
                taken.sum += link->value;
                ++taken.count;
                ctx.arena().deallocate(link);
            }
            ctx.reply(taken);
        }
    };
    """,
    actors=["List"],
    messages=[Push, Take, Taken],
    name="lists",
)


def main(device: str = "auto") -> None:
    with denizen.Runtime(lists, device, arena_bytes=16 << 20) as rt:
        actors = rt.spawn("List", 100)
        values = Push.zeros(10_000)  # 1 to 100, for each list
        values["value"] = np.arange(10_000) // 100 + 1
        rt.send_many(actors[np.arange(10_000) % 100], values)
        rt.drain()
        grown = rt.arena().live_blocks
        taken = rt.ask_many(actors, "Take", Taken)
        left = rt.arena().live_blocks
        print(f"{grown:,} blocks allocated by 100 lists, {left} after they were taken")
        if (grown, left) != (10_000, 0) or (taken["sum"] != 5050).any():
            sys.exit("some link was lost")


if __name__ == "__main__":
    main(*sys.argv[1:])
