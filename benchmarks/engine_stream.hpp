// SPDX-License-Identifier: Apache-2.0
// Pushbuffer words for copies and timestamps, by Hopper's and Ampere's classes: inline through the
// compute engine (class cbc0, subchannel 1) or by a copy engine (c8b5, subchannel 4). Methods and
// values are those that libcuda 580.159.04 sends (tests/lens/engine_stream_test.cpp); their names
// are of NVIDIA's published class headers (open-gpu-doc).
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <stdexcept>

namespace denizen::bench {

enum class Engine : uint32_t { inlined = 1, copy = 4 }; // its subchannel

// Appends to a buffer of fixed length; std::length_error if it is full.
class EngineStream {
public:
    explicit EngineStream(std::span<uint32_t> words) : words_(words) {}

    // LINE_LENGTH_IN bytes of `data` to `target`. A packet holds at most 8,191 words, so a longer
    // copy has several.
    void inline_copy(uint64_t target, std::span<const uint32_t> data)
    {
        put(Engine::inlined, 0x188, {upper(target), lower(target)}); // OFFSET_OUT
        put(Engine::inlined, 0x180,
            {static_cast<uint32_t>(data.size_bytes()), 1}); // LINE_LENGTH_IN
        put(Engine::inlined, 0x1b0, {0x41});                // LAUNCH_DMA: pitch, no system barrier
        while (!data.empty()) {
            const auto piece = data.first(std::min<size_t>(data.size(), most_data));
            add(header(non_incrementing, Engine::inlined, 0x1b4, piece.size())); // LOAD_INLINE_DATA
            for (const uint32_t word : piece) add(word);
            data = data.subspan(piece.size());
        }
    }

    void engine_copy(uint64_t target, uint64_t source, uint32_t bytes)
    {
        put(Engine::copy, 0x400,
            {upper(source), lower(source), upper(target), lower(target)}); // OFFSET_IN, OFFSET_OUT
        put(Engine::copy, 0x418, {bytes});                                 // LINE_LENGTH_IN
        put(Engine::copy, 0x300, {0x182}); // LAUNCH_DMA: after what came before, pitch to pitch
    }

    // When everything before is done: `payload` to the word at `at` (16 bytes, aligned), the
    // device's time in nanoseconds to the 8 bytes after the next word.
    void stamp(Engine engine, uint64_t at, uint32_t payload)
    {
        if (engine == Engine::inlined) {
            put(engine, 0x1b00, {upper(at), lower(at), payload, 0}); // SET_REPORT_SEMAPHORE
        } else {
            put(engine, 0x240, {upper(at), lower(at), payload}); // SET_SEMAPHORE
            put(engine, 0x300, {0x14}); // LAUNCH_DMA: nothing but a flush and the release
        }
    }

    uint32_t size() const { return static_cast<uint32_t>(used_); }

    // Words that a copy of `bytes` takes at most.
    static size_t words_of(Engine engine, uint32_t bytes)
    {
        return engine == Engine::copy ? 9 : 8 + bytes / 4 + bytes / 4 / most_data + 1;
    }

private:
    static constexpr uint32_t incrementing = 1, non_incrementing = 3;
    static constexpr size_t most_data = 8191;

    static uint32_t upper(uint64_t address) { return static_cast<uint32_t>(address >> 32); }
    static uint32_t lower(uint64_t address) { return static_cast<uint32_t>(address); }
    static uint32_t header(uint32_t kind, Engine engine, uint32_t method, size_t count)
    {
        return kind << 29 | static_cast<uint32_t>(count) << 16 |
               static_cast<uint32_t>(engine) << 13 | method >> 2;
    }
    void put(Engine engine, uint32_t method, std::initializer_list<uint32_t> values)
    {
        add(header(incrementing, engine, method, values.size()));
        for (const uint32_t value : values) add(value);
    }
    void add(uint32_t word)
    {
        if (used_ == words_.size()) throw std::length_error("the pushbuffer segment is full");
        words_[used_++] = word;
    }

    std::span<uint32_t> words_;
    size_t used_ = 0;
};

} // namespace denizen::bench
