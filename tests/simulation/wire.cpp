// SPDX-License-Identifier: Apache-2.0
// Rings of two to eight slots between a few threads: every message arrives once, whole and in its
// sender's order, and nobody sleeps through one.
#include "scenario.hpp"

#include <denizen/wire/channel.hpp>

#include <thread>

namespace simulation {
namespace {

using namespace denizen;
using namespace std::chrono_literals;

constexpr uint32_t words = 40;

struct Letter {
    uint32_t from;
    uint32_t number;
    uint32_t word[words];
};

uint32_t length_of(const Letter& m) { return 8 + 4 * ((m.from * 31 + m.number * 7) % words); }

template <class Kind, bool Parks>
void ring(uint32_t senders, uint32_t receivers)
{
    const uint32_t each = 3 + draw(6);
    Channel<Kind> channel("simulated", 8u << draw(2), ~0u - draw(24));
    std::vector<std::thread> threads;
    for (uint32_t s = 0; s < senders; ++s) {
        threads.emplace_back([&, s] {
            auto tx = channel.sender();
            for (uint32_t i = 0; i < each; ++i) {
                Letter m{s, i, {}};
                const uint32_t length = length_of(m);
                for (uint32_t w = 0; w < words; ++w) {
                    m.word[w] = s << 24 | i << 8 | w;
                }
                Header h{};
                h.length = static_cast<uint16_t>(length);
                h.type = 1;
                tx.send(h, &m, 10s);
            }
        });
    }
    std::vector<std::vector<uint32_t>> got(receivers * senders);
    for (uint32_t r = 0; r < receivers; ++r) {
        const auto receive = [&, r] {
            auto rx = channel.receiver();
            for (uint32_t i = 0; i < each * senders / receivers; ++i) {
                Letter m{};
                Header h{};
                if constexpr (Parks) {
                    // Nobody sends for ten seconds of virtual time: a wake-up was lost.
                    h = rx.template receive<Park>(&m, sizeof m, 10s);
                } else {
                    h = rx.receive(&m, sizeof m, 10s);
                }
                require(m.from < senders, "a letter of nobody");
                require(h.length == length_of(m), "a letter of another length");
                for (uint32_t w = 0; 8 + 4 * w < h.length; ++w) {
                    require(m.word[w] == (m.from << 24 | m.number << 8 | w), "a torn letter");
                }
                got[r * senders + m.from].push_back(m.number);
            }
        };
        if (r + 1 < receivers) {
            threads.emplace_back(receive);
        } else {
            receive();
        }
    }
    for (std::thread& t : threads) {
        t.join();
    }
    for (uint32_t s = 0; s < senders; ++s) {
        std::vector<bool> seen(each);
        for (uint32_t r = 0; r < receivers; ++r) {
            uint32_t last = 0;
            for (const uint32_t n : got[r * senders + s]) {
                require(n < each && !seen[n], "a letter came twice");
                seen[n] = true;
                require(n + 1 > last, "letters in another order than they were sent");
                last = n + 1;
            }
        }
        for (uint32_t i = 0; i < each; ++i) {
            require(seen[i], "a letter did not arrive");
        }
    }
}

} // namespace

std::vector<Scenario> wire_scenarios()
{
    const Faults waits{.spurious = true, .stopped = true, .jumps = false};
    std::vector<Scenario> all = {
        {"spsc", [] { ring<Spsc, false>(1, 1); }, waits},
        {"spsc_parks", [] { ring<Spsc, true>(1, 1); }, waits},
        {"mpsc", [] { ring<Mpsc, false>(3, 1); }, waits},
        {"mpsc_parks", [] { ring<Mpsc, true>(2, 1); }, waits},
        {"mpmc", [] { ring<Mpmc, false>(2, 2); }, waits},
    };
    for (Scenario& s : all) {
        s.most_accesses = 100'000;
    }
    return all;
}

} // namespace simulation
