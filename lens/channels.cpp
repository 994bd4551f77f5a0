// SPDX-License-Identifier: Apache-2.0
#include "channels.hpp"

#include "guarded.hpp"
#include "log.hpp"
#include "rm.hpp"

#include <sched.h>

namespace denizen::lens {

constinit Channels channels;

SpinLock::SpinLock(std::atomic<bool>& held) : held_(held)
{
    while (held_.exchange(true, std::memory_order_acquire)) { // ends: the holder leaves
        sched_yield();
    }
}

uint32_t Channels::add(uint32_t gpu, uint32_t class_id, uint32_t client, uint32_t handle,
                       uint32_t parent, uint32_t engine, uint64_t gpfifo, uint32_t entries,
                       uint32_t userd_memory, uint64_t userd_offset)
{
    const uint32_t number = count_.load(std::memory_order_relaxed);
    if (number == capacity) {
        return none;
    }
    Channel& c = table_[number];
    c.gpu = gpu;
    c.class_id = class_id;
    c.client = client;
    c.handle = handle;
    c.parent = parent;
    c.engine = engine;
    c.entries = entries;
    c.gpfifo = gpfifo;
    c.userd_memory = userd_memory;
    c.userd_offset = userd_offset;
    c.state.store(Channel::State::live, std::memory_order_relaxed);
    count_.store(number + 1, std::memory_order_release); // pairs with count(): the fields are there
    log(number);
    return number;
}

void Channels::log(uint32_t number) const
{
    const Channel& c = table_[number];
    ChannelRecord r{};
    r.channel = number;
    r.gpu = c.gpu;
    r.class_id = c.class_id;
    r.client = c.client;
    r.handle = c.handle;
    r.parent = c.parent;
    r.engine = c.engine;
    r.entries = c.entries;
    r.gpfifo = c.gpfifo;
    r.userd = c.userd.load(std::memory_order_relaxed);
    r.token = c.token();
    r.chid = r.token == none ? none : r.token & 0xfff;
    r.time_ns = now_ns();
    const bool is_inferred = c.is_inferred.load(std::memory_order_relaxed);
    the_log.write(Kind::channel, r, nullptr, 0, is_inferred ? channel_inferred : uint16_t{0});
}

void Channels::set_userd(uint32_t number, uint64_t address)
{
    table_[number].userd.store(address, std::memory_order_release);
    log(number);
}

namespace {

void log_engine(uint32_t channel, uint32_t class_id, uint32_t handle)
{
    EngineRecord r{};
    r.channel = channel;
    r.class_id = class_id;
    r.handle = handle;
    the_log.write(Kind::engine, r);
}

} // namespace

void Channels::add_engine(uint32_t number, uint32_t class_id, uint32_t handle)
{
    Channel& c = table_[number];
    for (uint32_t k = 0; k < Channel::most_engines; ++k) {
        if (c.engine_class[k] == 0) {
            c.engine_class[k] = class_id;
            c.engine_handle[k] = handle;
            break;
        }
    }
    log_engine(number, class_id, handle);
}

void Channels::begin_late()
{
    for (uint32_t n = 0; n < count(); ++n) {
        Channel& c = table_[n];
        if (c.state.load(std::memory_order_relaxed) != Channel::State::live) {
            continue;
        }
        log(n);
        for (uint32_t k = 0; k < Channel::most_engines && c.engine_class[k]; ++k) {
            log_engine(n, c.engine_class[k], c.engine_handle[k]);
        }
        uint32_t put = 0;
        const uint64_t userd = c.userd.load(std::memory_order_acquire);
        c.told_release.store(0, std::memory_order_relaxed);
        const SpinLock held(c.lock);
        if (userd && read_word(put, userd + rm::gp_put) && put < c.entries) {
            c.last_put = put;
        }
    }
}

void Channels::close(uint32_t number)
{
    table_[number].state.store(Channel::State::closed, std::memory_order_release);
    ChannelClosedRecord r{};
    r.channel = number;
    r.time_ns = now_ns();
    the_log.write(Kind::channel_closed, r);
}

uint32_t Channels::find(uint32_t client, uint32_t handle) const
{
    for (uint32_t n = count(); n-- > 0;) {
        const Channel& c = table_[n];
        if (c.client == client && c.handle == handle &&
            c.state.load(std::memory_order_relaxed) == Channel::State::live) {
            return n;
        }
    }
    return none;
}

void Channels::set_token(uint32_t number, uint32_t token, bool is_inferred)
{
    {
        const SpinLock held(token_lock_); // a hook and a fault may both come here
        const uint64_t wanted = key(table_[number].gpu, token);
        uint32_t slot = (token * 2654435761u) % tokens;
        for (uint32_t probes = 0; probes < tokens; ++probes, slot = (slot + 1) % tokens) {
            const uint64_t seen = token_key_[slot].load(std::memory_order_relaxed);
            if (seen == 0 || seen == wanted) {
                // Channel before key: who finds a new key must find its channel too.
                token_channel_[slot].store(number, std::memory_order_release);
                token_key_[slot].store(wanted, std::memory_order_release);
                break;
            }
        }
    }
    table_[number].is_inferred.store(is_inferred, std::memory_order_relaxed);
    table_[number].known_token.store(uint64_t{1} << 32 | token, std::memory_order_release);
    log(number);
}

uint32_t Channels::find_token(uint32_t gpu, uint32_t token) const
{
    const uint64_t wanted = key(gpu, token);
    uint32_t slot = (token * 2654435761u) % tokens;
    for (uint32_t probes = 0; probes < tokens; ++probes, slot = (slot + 1) % tokens) {
        const uint64_t seen = token_key_[slot].load(std::memory_order_acquire);
        if (seen == 0) {
            return none;
        }
        if (seen == wanted) {
            const uint32_t number = token_channel_[slot].load(std::memory_order_acquire);
            const bool is_live =
                table_[number].state.load(std::memory_order_relaxed) == Channel::State::live;
            return is_live ? number : none;
        }
    }
    return none;
}

uint32_t Channels::find_moved(uint32_t gpu, bool among_all)
{
    for (uint32_t n = 0; n < count(); ++n) {
        Channel& c = table_[n];
        const uint64_t userd = c.userd.load(std::memory_order_acquire);
        uint32_t put = 0;
        if (c.gpu == gpu && userd && (among_all || !c.has_token()) &&
            c.state.load(std::memory_order_relaxed) == Channel::State::live &&
            read_word(put, userd + rm::gp_put) && put != c.last_put) {
            return n;
        }
    }
    return none;
}

} // namespace denizen::lens
