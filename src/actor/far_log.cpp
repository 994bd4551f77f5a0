// SPDX-License-Identifier: Apache-2.0
// Messages to durable actors of other hosts, kept until a snapshot has them.
//
// 1. The link's sending thread enters each message that it has sent (log()), if its type is one
//    that a durable actor handles. The order of a log is that of sending.
// 2. A snapshot of the cluster is taken when all that was sent has arrived: it has the effect of
//    what is in the log by then (mark_log()), or the message itself. Once it is written, that part
//    of the log goes (cut_log()).
// 3. A host is lost. What it has not acknowledged is dead letters, and leaves the log
//    (keep_logged()): so the log has what was acknowledged since the snapshot.
// 4. It is started again from the snapshot: the log is sent first (replay()), and is entered into
//    the log again, as it goes. Its host gives it to durable actors only (far_deliver.cpp).
// So each of these messages is in the state that an actor has after 4 once, by the snapshot or by
// the log. What is sent again and is not acknowledged when the host is lost once more stays.
#include "core.hpp"

#include <denizen/actor/far.hpp>

#include <algorithm>
#include <cstring>

namespace denizen {
namespace {

constexpr uint32_t no_cell = 0x7fff;

uint64_t bytes_of(uint32_t length) { return sizeof(Header) + length; }

} // namespace

void FarDoor::durable(const std::vector<std::string>& types, uint64_t bytes)
{
    FarLanes& far = core_.far;
    const ProgramTable& t = core_.image.table;
    if (bytes == 0) {
        throw Error(Errc::bad_argument, "log_bytes = 0; durable actors need a log");
    }
    std::vector<bool> durable(t.actors);
    std::vector<bool> logs(t.messages);
    for (const std::string& type : types) {
        const auto& names = core_.image.actors;
        const auto found = std::find(names.begin(), names.end(), type);
        if (found == names.end()) {
            throw Error(Errc::bad_argument, "durable: the program has no actor type " + type);
        }
        const auto a = static_cast<uint32_t>(found - names.begin());
        durable[a] = true;
        for (uint32_t m = 0; m < t.messages; ++m) {
            logs[m] = logs[m] || t.can_handle(a, m);
        }
    }
    far.durable = std::move(durable);
    far.logs = std::move(logs);
    far.log_bytes = bytes;
}

bool FarDoor::log_full(uint32_t peer) const
{
    const FarLog& log = core_.far.lane[peer]->log;
    return core_.far.log_bytes != 0 && log.bytes >= core_.far.log_bytes && log.count_replay == 0 &&
           !core_.far.logs_open;
}

// To one actor: what is to many, or an answer, is not sent again.
bool FarDoor::logged(const Header& h) const
{
    const FarFormat& f = core_.far.format;
    return core_.far.log_bytes != 0 && (h.flags & flag_system) == 0 &&
           h.type < core_.far.logs.size() && core_.far.logs[h.type] &&
           f.place_of({h.destination}) < f.own_threads();
}

void FarDoor::log(uint32_t peer, const Header& given, const void* payload)
{
    const Header h = without_stamp(given);
    FarLog& log = core_.far.lane[peer]->log;
    const FarFormat& f = core_.far.format;
    const auto* bytes = static_cast<const unsigned char*>(payload);
    FarLog::Sent sent{{h, {bytes, bytes + h.length}}, (h.flags & far_replayed) != 0};
    sent.message.header.flags &= ~far_replayed;
    if (h.sender != nobody && f.place_of({h.sender}) >= f.first_cell()) {
        // The ask has had its answer, or its error: an answer to no cell is refused by its host.
        sent.message.header.sender =
            core_.options.asks <= no_cell ? f.far(f.host, f.first_cell() | no_cell).value : nobody;
    }
    log.bytes += bytes_of(h.length);
    const std::lock_guard guard(log.lock);
    log.sent.push_back(std::move(sent));
}

bool FarDoor::keep_logged(uint32_t peer, uint64_t rest)
{
    FarLog& log = core_.far.lane[peer]->log;
    const std::lock_guard guard(log.lock);
    const auto at = log.sent.end() - static_cast<std::ptrdiff_t>(rest + 1);
    if (at->again) {
        return true;
    }
    log.bytes -= bytes_of(at->message.header.length);
    log.sent.erase(at);
    return false;
}

bool FarDoor::take_replayed(uint32_t peer, Header& h, void* payload)
{
    FarLog& log = core_.far.lane[peer]->log;
    const std::lock_guard guard(log.lock);
    if (log.replay.empty()) {
        return false;
    }
    const Message& m = log.replay.front();
    h = m.header;
    h.flags |= far_replayed;
    std::copy(m.payload.begin(), m.payload.end(), static_cast<unsigned char*>(payload));
    log.bytes -= bytes_of(h.length); // log() adds them again
    log.replay.pop_front();
    log.count_replay = log.replay.size();
    return true;
}

uint64_t FarDoor::replay(uint32_t peer)
{
    FarLog& log = core_.far.lane[peer]->log;
    const std::lock_guard guard(log.lock);
    while (!log.sent.empty()) { // ends: one less each time. Before what was still to be sent again
        log.replay.push_front(std::move(log.sent.back().message));
        log.sent.pop_back();
    }
    log.marked = 0;
    log.count_replay = log.replay.size();
    return log.replay.size();
}

void FarDoor::open_logs(bool open)
{
    core_.far.logs_open = open;
    for (uint32_t h = 0; h < hosts(); ++h) {
        wake(h);
    }
}

void FarDoor::mark_log(uint32_t peer)
{
    FarLog& log = core_.far.lane[peer]->log;
    const std::lock_guard guard(log.lock);
    log.marked = log.sent.size();
}

void FarDoor::cut_log(uint32_t peer)
{
    FarLog& log = core_.far.lane[peer]->log;
    {
        const std::lock_guard guard(log.lock);
        for (; log.marked != 0; --log.marked) {
            log.bytes -= bytes_of(log.sent.front().message.header.length);
            log.sent.pop_front();
        }
    }
    wake(peer);
}

} // namespace denizen
