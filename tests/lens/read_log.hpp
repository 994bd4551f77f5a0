// SPDX-License-Identifier: Apache-2.0
// Reads a lens log for the tests of what writes it.
#pragma once

#include "lens/format.hpp"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

struct Doorbell {
    denizen::lens::DoorbellRecord record;
    std::vector<uint64_t> entries;
    std::map<uint32_t, std::vector<uint32_t>> segments; // by place of the entry, contents
};

struct LogFile {
    denizen::lens::LogHeader header{};
    std::vector<std::string> command;
    std::vector<denizen::lens::ThreadRecord> threads;
    std::vector<denizen::lens::PageRecord> pages;
    std::map<uint32_t, denizen::lens::ChannelRecord> channels; // the last of each
    std::vector<uint32_t> closed;
    std::vector<denizen::lens::EngineRecord> engines;
    std::vector<Doorbell> doorbells;
    std::vector<denizen::lens::PushbufferRecord> broken; // flagged
    std::vector<denizen::lens::InstructionRecord> instructions;
    std::vector<denizen::lens::LostRecord> losses;
    std::vector<denizen::lens::MemoryRecord> memories; // those that are gone have the flag
    std::vector<denizen::lens::ReleaseRecord> releases;
    std::vector<std::string> notes;
    std::map<uint32_t, std::string> names;
    std::map<uint32_t, uint64_t> counts;
    std::vector<denizen::lens::ApiCallRecord> calls;
    denizen::lens::OverheadRecord overhead{};
    bool has_end = false;
    denizen::lens::EndRecord end{};
};

template <class Record>
Record record_at(const std::string& bytes, size_t at)
{
    Record r;
    if (at + sizeof r > bytes.size()) {
        throw std::runtime_error("record is longer than the file");
    }
    std::memcpy(&r, bytes.data() + at, sizeof r);
    return r;
}

inline LogFile read_log(const std::filesystem::path& path)
{
    using namespace denizen::lens;
    std::ifstream file(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    LogFile log;
    log.header = record_at<LogHeader>(bytes, 0);
    if (std::memcmp(log.header.magic, log_magic, 8) != 0 || log.header.version != log_version) {
        throw std::runtime_error("not a log of this version");
    }
    std::map<uint64_t, size_t> place; // doorbell by sequence
    const auto text = [&](size_t at, size_t n) { return bytes.substr(at, n); };
    for (size_t at = log.header.header_bytes; at < bytes.size();) {
        const auto h = record_at<RecordHeader>(bytes, at);
        if (h.bytes < sizeof h || h.bytes % 8 != 0 || at + h.bytes > bytes.size() || log.has_end) {
            throw std::runtime_error("bad record");
        }
        switch (h.kind) {
        case Kind::process: {
            const auto r = record_at<ProcessRecord>(bytes, at);
            const std::string all = text(at + sizeof r, r.text_bytes);
            for (size_t k = 0; k < all.size(); k = all.find('\0', k) + 1) {
                log.command.emplace_back(all.c_str() + k);
            }
            break;
        }
        case Kind::thread: log.threads.push_back(record_at<ThreadRecord>(bytes, at)); break;
        case Kind::page: log.pages.push_back(record_at<PageRecord>(bytes, at)); break;
        case Kind::channel: {
            const auto r = record_at<ChannelRecord>(bytes, at);
            log.channels[r.channel] = r;
            break;
        }
        case Kind::channel_closed:
            log.closed.push_back(record_at<ChannelClosedRecord>(bytes, at).channel);
            break;
        case Kind::engine: log.engines.push_back(record_at<EngineRecord>(bytes, at)); break;
        case Kind::doorbell: {
            Doorbell d{record_at<DoorbellRecord>(bytes, at), {}, {}};
            for (size_t k = 0; k < d.record.entries; ++k) {
                d.entries.push_back(record_at<uint64_t>(bytes, at + sizeof d.record + 8 * k));
            }
            place[d.record.sequence] = log.doorbells.size();
            log.doorbells.push_back(std::move(d));
            break;
        }
        case Kind::pushbuffer: {
            const auto r = record_at<PushbufferRecord>(bytes, at);
            if (h.flags) {
                log.broken.push_back(r);
            }
            auto& segment = log.doorbells.at(place.at(r.doorbell)).segments[r.entry];
            if (segment.size() * 4 != r.offset) {
                throw std::runtime_error("pieces out of order");
            }
            for (size_t k = 0; k < r.length; k += 4) {
                segment.push_back(record_at<uint32_t>(bytes, at + sizeof r + k));
            }
            break;
        }
        case Kind::instruction:
            log.instructions.push_back(record_at<InstructionRecord>(bytes, at));
            break;
        case Kind::lost: log.losses.push_back(record_at<LostRecord>(bytes, at)); break;
        case Kind::api_name: {
            const auto r = record_at<ApiNameRecord>(bytes, at);
            log.names[r.api] = text(at + sizeof r, r.text_bytes);
            break;
        }
        case Kind::api_call: log.calls.push_back(record_at<ApiCallRecord>(bytes, at)); break;
        case Kind::api_count: {
            const auto r = record_at<ApiCountRecord>(bytes, at);
            log.counts[r.api] = r.calls;
            break;
        }
        case Kind::note: {
            const auto r = record_at<NoteRecord>(bytes, at);
            log.notes.push_back(text(at + sizeof r, r.text_bytes));
            break;
        }
        case Kind::kernel_call: break; // for replay.cpp
        case Kind::release: log.releases.push_back(record_at<ReleaseRecord>(bytes, at)); break;
        case Kind::memory: log.memories.push_back(record_at<MemoryRecord>(bytes, at)); break;
        case Kind::overhead: log.overhead = record_at<OverheadRecord>(bytes, at); break;
        case Kind::end:
            log.end = record_at<EndRecord>(bytes, at);
            log.has_end = true;
            break;
        default: throw std::runtime_error("unknown kind");
        }
        at += h.bytes;
    }
    return log;
}
