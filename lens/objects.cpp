// SPDX-License-Identifier: Apache-2.0
#include "objects.hpp"

#include "channels.hpp"
#include "environment.hpp"
#include "log.hpp"
#include "recorder.hpp"

#include <cstring>
#include <sys/mman.h>

namespace denizen::lens {

constinit Objects the_objects;
constinit pthread_mutex_t objects_mutex = PTHREAD_MUTEX_INITIALIZER;

bool Objects::opened(int fd, const char* path)
{
    if (fd < 0 || static_cast<uint32_t>(fd) >= descriptors) {
        return false;
    }
    const char* prefix = environment().device_prefix;
    Descriptor d{};
    if (strncmp(path, prefix, strlen(prefix)) == 0) {
        const char* rest = path + strlen(prefix); // "ctl", "0": not "-uvm", "-modeset"
        const bool is_number = *rest >= '0' && *rest <= '9';
        const bool is_control = strcmp(rest, "ctl") == 0;
        d.kind = is_number || is_control ? Descriptor::Kind::device : Descriptor::Kind::other;
        d.aperture = is_control ? Aperture::system : Aperture::device;
    }
    descriptor_[fd] = d;
    return d.kind == Descriptor::Kind::device;
}

void Objects::duplicated(int from, int to)
{
    if (from >= 0 && to >= 0 && static_cast<uint32_t>(from) < descriptors &&
        static_cast<uint32_t>(to) < descriptors) {
        descriptor_[to] = descriptor_[from];
    }
}

void Objects::closed(int fd)
{
    if (fd >= 0 && static_cast<uint32_t>(fd) < descriptors) {
        descriptor_[fd] = {};
    }
}

bool Objects::is_device(int fd) const
{
    return fd >= 0 && static_cast<uint32_t>(fd) < descriptors &&
           descriptor_[fd].kind == Descriptor::Kind::device;
}

void Objects::after_ioctl(uint64_t request, const void* argument)
{
    if (!abi_ || !argument || (request >> 8 & 0xff) != rm::magic) {
        return;
    }
    if ((request & 0xff) == rm::transfer) { // command, size, pointer to the real argument
        if (const auto* inner = field<const void*>(argument, 8)) {
            handle(field<uint32_t>(argument, 0) & 0xff, field<uint32_t>(argument, 4), inner);
        }
        return;
    }
    handle(request & 0xff, request >> 16 & 0x3fff, argument);
}

void Objects::handle(uint32_t number, uint64_t bytes, const void* argument)
{
    const Abi& abi = *abi_;
    const auto word = [&](uint32_t offset) { return field<uint32_t>(argument, offset); };
    const uint32_t client = word(0); // the first field of each of these
    record(number, bytes, argument);
    switch (number) {
    case rm::alloc: {
        const auto& a = abi.alloc;
        if (word(bytes >= abi.alloc_bytes ? a.status : abi.alloc_old_status) == 0) {
            allocated(client, word(a.parent), word(a.object), word(a.class_id),
                      field<const void*>(argument, a.params));
        }
        break;
    }
    case rm::free:
        if (word(abi.free.status) == 0) {
            freed(client, word(abi.free.object));
        }
        break;
    case rm::control:
        if (word(abi.control.status) == 0) {
            controlled(client, word(abi.control.object), word(abi.control.command),
                       field<const void*>(argument, abi.control.params));
        }
        break;
    case rm::dup:
        if (word(abi.dup.status) == 0) {
            const Object* source = find(word(abi.dup.source_client), word(abi.dup.source));
            if (source) {
                const Object copy = *source;
                if (Object* o = insert(client, word(abi.dup.object))) {
                    o->parent = word(abi.dup.parent);
                    o->class_id = copy.class_id;
                    o->extra = copy.extra;
                }
            }
        }
        break;
    case rm::map_memory:
        if (word(abi.map.status) == 0) {
            map_prepared(argument);
        }
        break;
    default: break;
    }
}

// For a replay: of what the argument points to only what is read below.
void Objects::record(uint32_t number, uint64_t bytes, const void* argument) const
{
    const Abi& abi = *abi_;
    if (number == rm::alloc) {
        const auto class_id = field<uint32_t>(argument, abi.alloc.class_id);
        const uint32_t used = rm::is_device(class_id)    ? abi.device_id + 4
                              : rm::is_group(class_id)   ? abi.group_engine + 4
                              : rm::is_channel(class_id) ? abi.channel.engine + 4
                              : rm::is_usermode(class_id) && class_id >= rm::hopper_usermode ? 1
                                                                                             : 0;
        record_ioctl(number, argument, bytes, field<const void*>(argument, abi.alloc.params), used);
    } else if (number == rm::control) {
        const bool is_token =
            field<uint32_t>(argument, abi.control.command) == rm::get_work_submit_token;
        if (is_token) {
            record_ioctl(number, argument, bytes, field<const void*>(argument, abi.control.params),
                         4);
        }
    } else if (number == rm::free || number == rm::dup || number == rm::map_memory) {
        record_ioctl(number, argument, bytes, nullptr, 0);
    }
}

void Objects::map_prepared(const void* argument)
{
    const auto& m = abi_->map;
    const int fd = field<int32_t>(argument, m.fd);
    if (fd < 0 || static_cast<uint32_t>(fd) >= descriptors) {
        return;
    }
    Descriptor& d = descriptor_[fd];
    d.kind = Descriptor::Kind::device; // it may have been opened behind our back
    d.is_prepared = true;
    d.client = field<uint32_t>(argument, 0);
    d.device = field<uint32_t>(argument, m.device);
    d.memory = field<uint32_t>(argument, m.memory);
    d.offset = field<uint64_t>(argument, m.offset);
    d.length = field<uint64_t>(argument, m.length);
}

void Objects::allocated(uint32_t client, uint32_t parent, uint32_t handle, uint32_t class_id,
                        const void* params)
{
    const Abi& abi = *abi_;
    const uint32_t on_channel = channels.find(client, parent);
    const bool is_kept = rm::is_device(class_id) || class_id == 0x2080 || rm::is_group(class_id) ||
                         rm::is_channel(class_id) || rm::is_usermode(class_id);
    if (on_channel != none) {
        channels.add_engine(on_channel, class_id, handle);
    }
    if (!is_kept) {
        return;
    }
    Object* o = insert(client, handle);
    if (!o) {
        return;
    }
    o->parent = parent;
    o->class_id = class_id;
    if (rm::is_device(class_id) && params) {
        o->extra = field<uint32_t>(params, abi.device_id);
    } else if (rm::is_group(class_id) && params) {
        o->extra = field<uint32_t>(params, abi.group_engine);
    } else if (rm::is_usermode(class_id)) {
        o->extra = params && class_id >= rm::hopper_usermode ? field<uint8_t>(params, 0) : none;
    } else if (rm::is_channel(class_id) && params) {
        const auto& c = abi.channel;
        const Object* group = find(client, parent);
        uint32_t engine = field<uint32_t>(params, c.engine);
        if (engine == 0 && group && rm::is_group(group->class_id)) {
            engine = group->extra;
        }
        const uint32_t number = channels.add(
            gpu_of(client, parent), class_id, client, handle, parent, engine,
            field<uint64_t>(params, c.gpfifo), field<uint32_t>(params, c.entries),
            field<uint32_t>(params, c.userd_memory), field<uint64_t>(params, c.userd_offset));
        if (number == none) {
            gap_.store("more than 8192 channels were made; doorbells of later ones have no channel",
                       std::memory_order_relaxed);
        } else {
            find_userds();
        }
    }
}

void Objects::controlled(uint32_t client, uint32_t object, uint32_t command, const void* params)
{
    if (command == rm::get_work_submit_token && params) {
        const uint32_t number = channels.find(client, object);
        if (number != none) {
            channels.set_token(number, field<uint32_t>(params, 0), false);
        }
    }
}

// With an object go all below it; with a client (handle == client) everything.
void Objects::freed(uint32_t client, uint32_t handle)
{
    const bool is_client = client == handle;
    if (!is_client) {
        Object* o = find(client, handle);
        if (!o) {
            return; // memory, mostly
        }
        drop(*o);
    }
    for (Object& o : object_) { // an object is dropped before what is below it, so this ends
        if (o.key != 0 && o.key >> 32 == client && !o.is_gone &&
            (is_client || o.parent == handle)) {
            freed(client, static_cast<uint32_t>(o.key));
        }
    }
}

void Objects::drop(Object& o)
{
    o.is_gone = true;
    if (rm::is_channel(o.class_id)) {
        const auto client = static_cast<uint32_t>(o.key >> 32);
        const uint32_t number = channels.find(client, static_cast<uint32_t>(o.key));
        if (number != none) {
            channels.close(number);
        }
    }
}

Objects::Object* Objects::find(uint32_t client, uint32_t handle)
{
    const uint64_t key = uint64_t{client} << 32 | handle;
    uint64_t slot = key * 0x9e3779b97f4a7c15 >> 49;
    for (uint32_t probes = 0; probes < objects; ++probes, slot = (slot + 1) % objects) {
        if (object_[slot].key == key && !object_[slot].is_gone) {
            return &object_[slot];
        }
        if (object_[slot].key == 0) {
            return nullptr;
        }
    }
    return nullptr;
}

const Objects::Object* Objects::find(uint32_t client, uint32_t handle) const
{
    return const_cast<Objects*>(this)->find(client, handle);
}

Objects::Object* Objects::insert(uint32_t client, uint32_t handle)
{
    if (Object* old = find(client, handle)) {
        return old;
    }
    const uint64_t key = uint64_t{client} << 32 | handle;
    uint64_t slot = key * 0x9e3779b97f4a7c15 >> 49;
    for (uint32_t probes = 0; probes < objects; ++probes, slot = (slot + 1) % objects) {
        if (object_[slot].key == 0 || object_[slot].is_gone) {
            object_[slot] = {key, 0, 0, 0, false};
            return &object_[slot];
        }
    }
    gap_.store("more than 32768 driver objects are alive; channels made from now on may be missing",
               std::memory_order_relaxed);
    return nullptr;
}

// The device instance above an object; 0 if the chain is not known.
uint32_t Objects::gpu_of(uint32_t client, uint32_t handle) const
{
    for (uint32_t depth = 0; depth < 16; ++depth) {
        const Object* o = find(client, handle);
        if (!o) {
            break;
        }
        if (rm::is_device(o->class_id)) {
            return o->extra;
        }
        handle = o->parent;
    }
    return 0;
}

Mapping Objects::expect(int fd, uint64_t length, int protection, int flags) const
{
    Mapping m;
    if (!is_device(fd)) {
        return m;
    }
    const Descriptor& d = descriptor_[fd];
    m.is_known = d.is_prepared;
    if (!d.is_prepared || length > rm::page_bytes) {
        return m;
    }
    m.gpu = gpu_of(d.client, d.device);
    if (const Object* o = find(d.client, d.memory)) {
        m.is_doorbell = rm::is_usermode(o->class_id);
        m.class_id = o->class_id;
        m.bar1 = o->extra;
    } else if (protection == PROT_WRITE && (flags & MAP_SHARED) && length == rm::page_bytes) {
        m.is_doorbell = true; // an object that came to the process by a way not followed here
        m.bar1 = none;
    }
    return m;
}

void Objects::mapped(int fd, uint64_t address, uint64_t length)
{
    if (!is_device(fd)) {
        return;
    }
    Descriptor& d = descriptor_[fd];
    if (memory_count_ == memories) {
        gap_.store(
            "more than 16384 mappings of device memory; contents of new channels may be missing",
            std::memory_order_relaxed);
        return;
    }
    memory_[memory_count_] = {address, length, d.offset, d.client, d.memory, d.aperture};
    log_memory(memory_[memory_count_++], false);
    d.is_prepared = false;
    find_userds();
}

bool Objects::unmapped(uint64_t address, uint64_t length)
{
    const uint32_t before = memory_count_;
    for (uint32_t k = 0; k < memory_count_;) {
        if (memory_[k].address >= address && memory_[k].address < address + length) {
            log_memory(memory_[k], true);
            memory_[k] = memory_[--memory_count_];
        } else {
            ++k;
        }
    }
    return memory_count_ != before;
}

void Objects::log_memory(const Memory& m, bool is_gone)
{
    MemoryRecord r{};
    r.time_ns = now_ns();
    r.address = m.address;
    r.bytes = m.length;
    r.aperture = m.aperture;
    r.handle = m.handle;
    the_log.write(Kind::memory, r, nullptr, 0, is_gone ? memory_gone : uint16_t{0});
}

void Objects::log_memories() const
{
    for (uint32_t k = 0; k < memory_count_; ++k) {
        log_memory(memory_[k], false);
    }
}

// With a mapping go the USERDs in it; a ring stays where the GPU has it.
void Objects::moved(uint64_t from, uint64_t length, uint64_t to)
{
    for (uint32_t k = 0; k < memory_count_; ++k) {
        if (memory_[k].address >= from && memory_[k].address < from + length) {
            log_memory(memory_[k], true);
            memory_[k].address += to - from;
            log_memory(memory_[k], false);
        }
    }
    for (uint32_t n = 0; n < channels.count(); ++n) {
        const uint64_t userd = channels.at(n).userd.load(std::memory_order_relaxed);
        if (userd >= from && userd < from + length &&
            channels.at(n).state.load(std::memory_order_relaxed) == Channel::State::live) {
            channels.set_userd(n, userd + (to - from));
        }
    }
}

// USERD lies in the object that the channel names; where that is mapped under another handle, in
// the mapping that holds the ring, since both are cut from one object.
uint64_t Objects::userd_address(uint32_t channel) const
{
    const Channel& c = channels.at(channel);
    uint64_t beside_ring = 0;
    for (uint32_t k = 0; k < memory_count_; ++k) {
        const Memory& m = memory_[k];
        if (m.client == c.client && m.handle == c.userd_memory && c.userd_offset >= m.offset &&
            c.userd_offset - m.offset < m.length) {
            return m.address + c.userd_offset - m.offset;
        }
        if (c.gpfifo >= m.address && c.gpfifo < m.address + m.length && c.userd_offset < m.length) {
            beside_ring = m.address + c.userd_offset;
        }
    }
    return beside_ring;
}

void Objects::find_userds()
{
    for (uint32_t n = 0; n < channels.count(); ++n) {
        Channel& c = channels.at(n);
        if (c.userd.load(std::memory_order_relaxed) == 0 &&
            c.state.load(std::memory_order_relaxed) == Channel::State::live) {
            if (const uint64_t address = userd_address(n)) {
                channels.set_userd(n, address);
            }
        }
    }
}

} // namespace denizen::lens
