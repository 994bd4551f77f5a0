// SPDX-License-Identifier: Apache-2.0
#include <denizen/radio/receiver.hpp>

#include "scan.hpp"
#include <denizen/base/interrupt.hpp>

#include <algorithm>

namespace denizen::radio {

Receiver::Receiver(std::optional<Position> receiver)
    : airspace_(receiver), m_(lead + block_samples + reach), marks_(block_samples),
      found_(block_samples)
{
}

// A sample is two values, I and Q.
template <class Part>
void Receiver::take(const Part* from, size_t samples, const Sink& sink)
{
    while (samples > 0) {
        check_interrupt();
        const size_t n = std::min(samples, m_.size() - filled_);
        scan::magnitudes(from, m_.data() + filled_, n);
        filled_ += n;
        from += 2 * n;
        samples -= n;
        if (filled_ == m_.size()) block(block_samples, sink);
    }
}

void Receiver::feed(const std::complex<float>* iq, size_t count, const Sink& sink)
{
    take(reinterpret_cast<const float*>(iq), count, sink);
}

void Receiver::feed(const uint8_t* iq, size_t bytes, const Sink& sink)
{
    if (bytes > 0 && odd_ >= 0) {
        const uint8_t sample[2] = {static_cast<uint8_t>(odd_), iq[0]};
        odd_ = -1;
        iq += 1;
        bytes -= 1;
        take(sample, 1, sink);
    }
    take(iq, bytes / 2, sink);
    if (bytes % 2 == 1) odd_ = iq[bytes - 1];
}

void Receiver::finish(const Sink& sink)
{
    odd_ = -1;
    while (filled_ > lead) {
        const size_t count = std::min<size_t>(filled_ - lead, block_samples);
        std::fill(m_.begin() + static_cast<ptrdiff_t>(filled_), m_.end(), uint16_t{0});
        block(count, sink);
    }
}

// Looks for messages that begin in the first `count` samples of the block, and makes what follows
// them the next block.
void Receiver::block(size_t count, const Sink& sink)
{
    const uint16_t* m = m_.data() + lead;
    if (count >= floor_samples) { // fewer are shorter than any message
        const uint32_t floor = scan::floor(m, count, found_.data());
        const Thresholds t = thresholds(floor);
        const size_t n = scan::positions(m, count, t, marks_.data(), found_.data());
        counts_.preambles += n;
        for (size_t i = 0; i < n; ++i) {
            const uint64_t position = begin_ + found_[i];
            if (position < free_) continue;
            const uint16_t* at = m + found_[i];
            const uint32_t pulse = pulses_at(at) / 2;
            Reading first;
            Reading again;
            if (!scan::first(at, floor, first)) continue;
            counts_.readings += 1;
            std::optional<Message> message = airspace_.believe(first, position, pulse);
            if (!message && scan::again(at, floor, first, again)) {
                counts_.readings += 1;
                message = airspace_.believe(again, position, pulse);
            }
            if (!message) continue;
            counts_.messages += 1;
            counts_.repaired += message->repaired != 0;
            free_ = position + preamble_samples + message->frame.bits() * samples_per_bit;
            sink(*message);
        }
    }
    counts_.samples += count;
    begin_ += count;
    std::copy(m_.begin() + static_cast<ptrdiff_t>(count), m_.end(), m_.begin());
    filled_ -= count;
}

} // namespace denizen::radio
