// SPDX-License-Identifier: Apache-2.0
// What an Engine asks: threads of the CPU (serve.hpp) or the program of a GPU (gpu_serve.hpp).
// Requests lie in cells: who asks takes one, sends it, and takes its answer or abandons it.
#pragma once

#include "plan.hpp"

#include <denizen/base/clock.hpp>
#include <denizen/base/interrupt.hpp>
#include <denizen/wire/channel.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace denizen::infer {

class Deadline {
public:
    explicit Deadline(nanoseconds d) : begin_(now_ns()), limit_(denizen::detail::nanoseconds_of(d))
    {
    }

    uint64_t passed_ns() const { return now_ns() - begin_; }
    uint64_t left_ns() const
    {
        const uint64_t passed = passed_ns();
        return passed < limit_ ? limit_ - passed : 0;
    }
    nanoseconds left() const { return nanoseconds(static_cast<int64_t>(left_ns())); }

private:
    uint64_t begin_;
    uint64_t limit_;
};

class Serving {
public:
    virtual ~Serving() = default;

    // For a request of this stream. False if none is free.
    virtual bool take(uint32_t& cell, uint32_t stream) = 0;
    virtual uint32_t cells() const = 0;
    // A ticket of an older one is used up.
    virtual uint32_t generation(uint32_t cell) const = 0;
    // A step of a stream, in a cell that has been taken. Throws, and then the cell is free again.
    virtual void send(uint32_t cell, uint32_t stream, const std::byte* input,
                      const Deadline& deadline) = 0;
    // What this thread has sent is on its way. Before that it may still lie with the thread.
    virtual void flush() {}
    // Whether it is answered. `seen`: how much of the answer was there at the last look; 0 at
    // first.
    virtual bool look(uint32_t cell, uint32_t& seen) const = 0;
    bool done(uint32_t cell) const
    {
        uint32_t seen = 0;
        return look(cell, seen);
    }
    // Returns soon, or as it is done.
    virtual void sleep(uint32_t cell, uint64_t most_ns) = 0;
    // Of a cell that is done, which is free then. Returns the version that answered.
    virtual uint64_t take_answer(uint32_t cell, float* output) = 0;
    virtual void abandon(uint32_t cell) = 0;
    // Nothing more is answered: closed, or dead. refuse() throws why.
    virtual bool ended() const = 0;
    [[noreturn]] virtual void refuse() const = 0;

    // In turn with the requests.
    // Returns the new version, `least` or later.
    virtual uint64_t swap(const Model& model, uint64_t least, const Deadline& deadline) = 0;
    virtual void reset(uint32_t stream, const Deadline& deadline) = 0;
    virtual void read_state(uint32_t stream, std::span<float> to, const Deadline& deadline) = 0;
    virtual void write_state(uint32_t stream, std::span<const float> from,
                             const Deadline& deadline) = 0;
    virtual std::vector<float> read_all(const Deadline& deadline) = 0;
    virtual void write_all(std::vector<float> states, const Deadline& deadline) = 0;

    virtual uint64_t version() const = 0;
    virtual Stats stats() const = 0;
    virtual uint32_t parts() const = 0;
    virtual size_t weight_bytes() const = 0;
    virtual size_t state_bytes() const = 0;
    virtual std::string place() const = 0; // as Engine's

    // Answers what has been sent, and ends.
    virtual void stop() = 0;
};

// A free cell for a request of this stream. Throws full, and what refuse() does.
uint32_t take_cell(Serving& serving, uint32_t stream, const Deadline& deadline);

// Until it is done: looks for `spin_ns`, then sleeps in between. Gives it up, and throws timeout,
// what refuse() or what an interrupt throws.
void wait_for(Serving& serving, uint32_t cell, const Deadline& deadline, uint64_t spin_ns);

} // namespace denizen::infer
