// SPDX-License-Identifier: Apache-2.0
#include "release.hpp"

#include "guarded.hpp"
#include "log.hpp"

namespace denizen::lens {
namespace {

// Headers of methods one after the other: SET_REPORT_SEMAPHORE_A to D on the compute engine's
// subchannel, SET_SEMAPHORE_A, B and PAYLOAD on the copy engine's.
constexpr uint32_t header(uint32_t method, uint32_t subchannel, uint32_t count)
{
    return 1u << 29 | count << 16 | subchannel << 13 | method >> 2;
}
constexpr uint32_t of_compute = header(0x1b00, 1, 4);
constexpr uint32_t of_copy = header(0x240, 4, 3);
constexpr uint32_t upper_mask = 0x1ffffff;

struct Semaphore { // as the GPU writes it: the time stamp first
    uint32_t payload, unused;
    uint64_t ns;
};

bool read(Semaphore& to, uint64_t address)
{
    return denizen_lens_copy(&to, reinterpret_cast<const void*>(address), sizeof to) == 0;
}

} // namespace

void learn_release(Channel& c, const uint32_t* words, uint32_t n)
{
    for (uint32_t k = 0; k + 4 <= n; ++k) {
        if (words[k] == of_compute || words[k] == of_copy) {
            const uint64_t address = uint64_t{words[k + 1] & upper_mask} << 32 | words[k + 2];
            if (address && address % 16 == 0) {
                c.semaphore.store(address, std::memory_order_relaxed);
            }
        }
    }
}

void log_release(Channel& c, uint32_t number)
{
    const uint64_t address = c.semaphore.load(std::memory_order_relaxed);
    Semaphore first{}, second{};
    // Twice, so that no time stamp is told with the payload of the release before it.
    if (!address || !read(first, address) || !read(second, address) ||
        first.payload != second.payload || first.ns != second.ns ||
        first.payload == c.told_release.load(std::memory_order_relaxed)) {
        return;
    }
    c.told_release.store(first.payload, std::memory_order_relaxed);
    ReleaseRecord r{};
    r.time_ns = now_ns();
    r.address = address;
    r.gpu_ns = first.ns;
    r.channel = number;
    r.payload = first.payload;
    the_log.write(Kind::release, r);
}

void log_last_releases()
{
    for (uint32_t n = 0; n < channels.count(); ++n) {
        if (channels.at(n).state.load(std::memory_order_relaxed) == Channel::State::live) {
            log_release(channels.at(n), n);
        }
    }
}

} // namespace denizen::lens
