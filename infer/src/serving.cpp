// SPDX-License-Identifier: Apache-2.0
#include "serving.hpp"

#include <denizen/base/error.hpp>

namespace denizen::infer {
namespace {

constexpr uint64_t slice_ns = 50'000'000;

bool spun(const Serving& serving, uint32_t cell, uint64_t spin_ns)
{
    const uint64_t begin = now_ns();
    uint32_t seen = 0;
    do {
        for (int i = 0; i < 16; ++i) {
            if (serving.look(cell, seen)) {
                return true;
            }
            relax();
        }
    } while (now_ns() - begin < spin_ns);
    return false;
}

} // namespace

uint32_t take_cell(Serving& serving, uint32_t stream, const Deadline& deadline)
{
    uint32_t cell = 0;
    Backoff backoff;
    while (!serving.take(cell, stream)) { // ends by an answer that somebody takes, or in time
        if (serving.ended()) serving.refuse();
        if (deadline.left_ns() == 0) {
            throw Error(Errc::full,
                        "the resident model has " + std::to_string(serving.cells()) +
                            " requests under way, and no place became free in " +
                            denizen::detail::seconds(deadline.passed_ns()) +
                            "; take their answers, wait longer, or give it more by requests=");
        }
        check_interrupt();
        backoff.pause();
    }
    return cell;
}

void wait_for(Serving& serving, uint32_t cell, const Deadline& deadline, uint64_t spin_ns)
{
    if (spun(serving, cell, spin_ns)) {
        return;
    }
    try {
        while (!serving.done(cell)) { // ends by the answer or in time
            const uint64_t left = deadline.left_ns();
            if (left == 0) {
                throw Error(Errc::timeout, "the resident model has not answered within " +
                                               denizen::detail::seconds(deadline.passed_ns()) +
                                               "; what has begun is still made");
            }
            if (serving.ended() && !serving.done(cell)) serving.refuse(); // sent as it ended
            serving.sleep(cell, std::min(left, slice_ns));
            check_interrupt();
        }
    } catch (...) {
        serving.abandon(cell);
        throw;
    }
}

} // namespace denizen::infer
