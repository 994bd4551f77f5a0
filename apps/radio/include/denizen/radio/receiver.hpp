// SPDX-License-Identifier: Apache-2.0
// Mode S from I/Q at 2 Msps: bytes in, messages out. The stream may be handed over in pieces of any
// size, down to single bytes: the messages are the same. One thread at a time.
#pragma once

#include <denizen/radio/airspace.hpp>

#include <complex>
#include <functional>

namespace denizen::radio {

// What a receiver has done so far.
struct Counts {
    uint64_t samples = 0;   // looked at as the begin of a preamble
    uint64_t preambles = 0; // where preamble and power fit
    uint64_t readings = 0;  // frames read there, of formats that exist
    uint64_t messages = 0;  // believed
    uint64_t repaired = 0;  // of these with repaired bits
};

class Receiver {
public:
    using Sink = std::function<void(const Message&)>;

    explicit Receiver(std::optional<Position> receiver = {});

    // Takes `bytes` bytes of unsigned I and Q in turn, 127.5 being zero; gives every message that
    // they complete to `sink`, in the order of the stream. A message is known at most 33 ms (one
    // block of samples) after its end.
    void feed(const uint8_t* iq, size_t bytes, const Sink& sink);

    // The same from `count` complex samples, whose I and Q are clipped at -1 and 1, the full scale.
    // They are rounded to a 64th of a byte's step first, so that every machine finds the same.
    void feed(const std::complex<float>* iq, size_t count, const Sink& sink);

    // Gives what is still within the last block. The stream has ended; the next feed() begins where
    // it left off, after a gap.
    void finish(const Sink& sink);

    // How many samples were fed: feed() has read them when it returns.
    uint64_t released() const { return begin_ + filled_ - lead; }

    const Counts& counts() const { return counts_; }
    const Airspace& airspace() const { return airspace_; }

private:
    template <class Part>
    void take(const Part* from, size_t samples, const Sink& sink);
    void block(size_t count, const Sink& sink);

    Airspace airspace_;
    Counts counts_;
    std::vector<uint16_t> m_; // magnitudes: `lead` before the block, the block, `reach` after it
    std::vector<uint8_t> marks_;
    std::vector<uint32_t> found_;
    size_t filled_ = lead; // how many of m_ are
    uint64_t begin_ = 0;   // position of the block in the stream
    uint64_t free_ = 0;    // position after the last message: no other begins before
    int odd_ = -1;         // an I whose Q is to come
};

} // namespace denizen::radio
