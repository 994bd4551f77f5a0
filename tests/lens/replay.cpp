// SPDX-License-Identifier: Apache-2.0
// Plays a recording (lens/recorder.hpp) again: replay FILE. Opens, asks, maps and rings in the
// order of the log, through the hooks of the lens that is preloaded; fake_kernel.cpp is the device,
// whose memory objects are files. What the driver had answered is in the recorded arguments. Ends
// with 0 if everything could be played.
#include "fake_kernel.hpp"
#include "lens/rm.hpp"
#include "read_log.hpp"

#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace denizen::lens;

namespace {

[[noreturn]] void fail(const char* what, uint64_t value)
{
    fprintf(stderr, "replay: %s %lx\n", what, value);
    exit(1);
}

class Replay {
public:
    void play(const std::string& bytes)
    {
        const auto log = record_at<LogHeader>(bytes, 0);
        for (size_t at = log.header_bytes; at < bytes.size();) {
            const auto h = record_at<RecordHeader>(bytes, at);
            switch (h.kind) {
            case Kind::kernel_call: call(bytes, at); break;
            case Kind::channel: {
                const auto c = record_at<ChannelRecord>(bytes, at);
                channels_[c.channel] = c;
                break;
            }
            case Kind::page: {
                const auto p = record_at<PageRecord>(bytes, at);
                if (p.bar1 != 0) { // BAR0's is for the timer
                    doorbell_[p.gpu] = p.address;
                }
                break;
            }
            case Kind::doorbell: ring(bytes, at); break;
            default: break;
            }
            at += h.bytes;
        }
    }

private:
    int fd_of(int recorded) const
    {
        const auto at = fd_.find(recorded);
        return at == fd_.end() ? -1 : at->second;
    }

    // Where something lies that was mapped at a recorded address.
    char* place(uint64_t recorded, size_t bytes) const
    {
        auto at = mapping_.upper_bound(recorded);
        if (at != mapping_.begin()) {
            --at;
            const uint64_t offset = recorded - at->first;
            if (offset + bytes <= at->second.bytes) {
                return at->second.here + offset;
            }
        }
        fail("nothing was mapped at", recorded);
    }

    void call(const std::string& bytes, size_t at)
    {
        const auto r = record_at<KernelCallRecord>(bytes, at);
        const size_t first = at + sizeof r;
        const size_t second = first + (r.first_bytes + size_t{7}) / 8 * 8;
        switch (r.call) {
        case KernelCall::open: {
            const std::string name = bytes.substr(first, r.first_bytes);
            const int fd = open((getenv("DENIZEN_LENS_FAKE") + ("/nvidia" + name)).c_str(), O_RDWR);
            if (fd < 0) {
                fail("no device file for descriptor", static_cast<uint64_t>(r.fd));
            }
            fd_[r.fd] = fd;
            if (name == "ctl") {
                control_ = fd;
            }
            break;
        }
        case KernelCall::close:
            if (const int fd = fd_of(r.fd); fd >= 0 && fd != control_) {
                close(fd);
                fd_.erase(r.fd);
            }
            break;
        case KernelCall::duplicate: fd_[static_cast<int>(r.value[0])] = dup(fd_of(r.fd)); break;
        case KernelCall::ioctl: {
            std::vector<char> argument(bytes.begin() + static_cast<long>(first),
                                       bytes.begin() + static_cast<long>(first + r.first_bytes));
            std::string params = bytes.substr(second, r.second_bytes);
            ask(static_cast<uint32_t>(r.value[0]), argument, params);
            break;
        }
        case KernelCall::map: map(r); break;
        case KernelCall::unmap: unmap(r.value[0], r.value[1]); break;
        }
    }

    void ask(uint32_t number, std::vector<char>& argument, std::string& params)
    {
        const Abi& abi = abi_table[0];
        const auto put = [&](uint32_t offset, auto value) {
            std::memcpy(argument.data() + offset, &value, sizeof value);
        };
        void* pointer = params.empty() ? nullptr : params.data();
        if (number == rm::alloc) {
            put(abi.alloc.params, pointer);
        } else if (number == rm::control) {
            put(abi.control.params, pointer);
        } else if (number == rm::map_memory) {
            put(abi.map.fd, fd_of(field<int32_t>(argument.data(), abi.map.fd)));
        }
        const auto request = 3ul << 30 | argument.size() << 16 | rm::magic << 8 | number;
        if (ioctl(control_, request, argument.data()) != 0) {
            fail("refused: ioctl", number);
        }
    }

    // At the same address if it is free, as rings must be: the GPU has them there.
    void map(const KernelCallRecord& r)
    {
        const size_t bytes = r.value[1];
        const auto protection = static_cast<int>(r.value[2]);
        const int flags = static_cast<int>(r.value[3]) & ~(MAP_FIXED | MAP_FIXED_NOREPLACE);
        void* wanted = reinterpret_cast<void*>(r.value[0]);
        void* here = mmap(wanted, bytes, protection, flags | MAP_FIXED_NOREPLACE, fd_of(r.fd), 0);
        if (here == MAP_FAILED) {
            here = mmap(nullptr, bytes, protection, flags, fd_of(r.fd), 0);
        }
        if (here == MAP_FAILED) {
            fail("cannot map what was at", r.value[0]);
        }
        mapping_[r.value[0]] = {static_cast<char*>(here), bytes};
    }

    void unmap(uint64_t address, uint64_t bytes)
    {
        for (auto at = mapping_.lower_bound(address);
             at != mapping_.end() && at->first < address + bytes;) {
            munmap(at->second.here, at->second.bytes);
            at = mapping_.erase(at);
        }
    }

    // The entries, GP_PUT, then the store that the lens traps.
    void ring(const std::string& bytes, size_t at)
    {
        const auto d = record_at<DoorbellRecord>(bytes, at);
        const auto c = channels_.find(d.channel);
        if (c != channels_.end()) {
            for (uint32_t k = 0; k < d.entries; ++k) {
                const auto entry = record_at<uint64_t>(bytes, at + sizeof d + 8 * size_t{k});
                const uint64_t slot = (d.put_old + k) % c->second.entries;
                std::memcpy(place(c->second.gpfifo + 8 * slot, 8), &entry, sizeof entry);
            }
            std::memcpy(place(c->second.userd + rm::gp_put, 4), &d.put_new, sizeof d.put_new);
        }
        const auto page = doorbell_.find(d.gpu);
        if (page == doorbell_.end()) {
            fail("no doorbell page for GPU", d.gpu);
        }
        auto* word = reinterpret_cast<volatile uint32_t*>(
            place(page->second + rm::doorbell_offset, sizeof(uint32_t)));
        *word = d.token;
    }

    struct Mapping {
        char* here;
        size_t bytes;
    };
    int control_ = -1;
    std::map<int, int> fd_;
    std::map<uint64_t, Mapping> mapping_; // by recorded address
    std::map<uint32_t, ChannelRecord> channels_;
    std::map<uint32_t, uint64_t> doorbell_; // by GPU
};

} // namespace

int main(int count, char** arguments)
{
    if (count != 2) {
        return 2;
    }
    std::ifstream file(arguments[1], std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    fake::replay();
    Replay().play(bytes);
    return 0;
}
