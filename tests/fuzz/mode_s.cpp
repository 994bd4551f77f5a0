// SPDX-License-Identifier: Apache-2.0
// Mode S as it comes from the air: frames of any bits with their parity computed anew, believed and
// decoded, and raw samples of any kind.
#include <denizen/radio/crc24.hpp>
#include <denizen/radio/receiver.hpp>

#include <cstring>

using namespace denizen::radio;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    Receiver receiver;
    const auto sink = [](const Message& message) {
        if (to_hex(message.frame).empty()) {
            __builtin_trap();
        }
    };
    if (data[0] % 2 == 0) {
        receiver.feed(data + 1, size - 1, sink);
        receiver.finish(sink);
        return 0;
    }
    // 14 bytes and the time since the one before.
    Airspace airspace;
    uint64_t position = 0;
    for (size_t at = 1; at + 16 <= size; at += 16) {
        Reading reading{};
        for (int i = 0; i < 7; ++i) {
            reading.frame.head = reading.frame.head << 8 | data[at + i];
            reading.frame.tail = reading.frame.tail << 8 | data[at + 7 + i];
        }
        if (reading.frame.bits() == short_bits) {
            reading.frame.tail = 0;
        }
        // The parity of what the bits say, so that they are believed.
        const uint32_t wrong = syndrome(reading.frame);
        if (reading.frame.bits() == short_bits) {
            reading.frame.head ^= wrong;
        } else {
            reading.frame.tail ^= wrong;
        }
        uint16_t wait = 0;
        std::memcpy(&wait, data + at + 14, sizeof wait);
        position += uint64_t{wait} * 4096;
        if (const auto message = airspace.believe(reading, position, 1000)) {
            each_field(*message, [](const char*, const auto&) {});
            sink(*message);
        }
    }
    (void)airspace.aircraft();
    return 0;
}
