// SPDX-License-Identifier: Apache-2.0
// Messages per second through the wire alone: one host thread to the GPU and back, in each kind of
// memory, and one CPU thread to another against the queues that people use. `bytes` is what a
// message takes on the wire: whole slots of 64 bytes, of which 36 (first) and 48 (others) carry
// payload. A host-to-device message counts when the consumer on the GPU has read, checked and
// summed it and the host has seen its last credit.
#include "program.hpp"

#include "cpu_rings.hpp"

#if defined(__CUDACC__)
#include "device/mapped.hpp"
#include "device_ring.cuh"
#include "rivals/copies.cuh"

#include <denizen/wire/wait.hpp>

#include <bit>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#endif

namespace {

using namespace denizen;
using namespace denizen::bench;

#if defined(__CUDACC__)

// Where the slots lie: the same bytes as the host and as kernels see them.
struct Memory {
    const char* name;
    Slot* host;
    Slot* device;
    bool write_combined;
};

struct Payload {
    uint32_t word[9];
};

// Pushes stores out of the core's write-combining buffers.
void push_stores()
{
#if defined(__SSE2__)
    _mm_sfence();
#else
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

// One ring, its words and its kernels' tally. Outlives no kernel: run() and its callers wait for
// each, and each ends by itself at its time limit.
class Link {
public:
    Link(const Memory& memory, uint32_t slots_per_message)
        : memory_(memory), per_message_(slots_per_message),
          shift_(static_cast<uint32_t>(std::countr_zero(slots_per_message))), words_(1), tally_(1),
          payload_(size_t{ring_messages} * payload_of(slots_per_message) / 4)
    {
        preload(kernels::consume);
        preload(kernels::produce);
        const uint32_t n = payload_of(per_message_) / 4;
        for (uint32_t i = 0; i < ring_messages; ++i)
            for (uint32_t w = 0; w < n; ++w) {
                payload_[size_t{i} * n + w] = word_of(i, w);
                sum_ += word_of(i, w);
            }
    }

    // Nanoseconds for `count` messages (a multiple of ring_messages) from host to device.
    uint64_t to_device(uint32_t count, bool& right)
    {
        SpscSender<Scope::system> tx(clear());
        kernels::consume<<<1, threads, 0, stream_>>>(memory_.device, ring_slots - 1, 0,
                                                     count * per_message_, shift_, words_.get(),
                                                     tally_.get());
        wait_for_start();
        const uint64_t begin = now_ns();
        const auto* bytes = reinterpret_cast<const unsigned char*>(payload_.data());
        const uint32_t length = payload_of(per_message_);
        const Header first{0, ring_sender, ring_type, 0, length};
        for (uint32_t i = 0; i < count; ++i) {
            const unsigned char* payload = bytes + size_t{i % ring_messages} * length;
            if (per_message_ == 1) {
                const auto& message = *reinterpret_cast<const Payload*>(payload);
                while (tx.try_send(i, ring_sender, ring_type, message) != Errc::ok) pause(begin);
            } else {
                Header h = first;
                h.destination = i;
                while (tx.try_send(h, payload) != Errc::ok) pause(begin);
            }
            // What has been written should not wait in the core's combining buffers for ever.
            if (memory_.write_combined && i % 64 == 63) push_stores();
        }
        // Acquire: the kernel's fence before it says that all is done. The clock stops there.
        while (load<Scope::system, Order::acquire>(&words_[0].credit) != count * per_message_)
            pause(begin);
        const uint64_t end = now_ns();
        check(count, right);
        return end - begin;
    }

    // The same from device to host.
    uint64_t to_host(uint32_t count, bool& right)
    {
        SpscReceiver<Scope::system> rx(clear());
        store<Scope::system>(&words_[0].credit, 0u - ring_slots); // no room: the kernel waits
        kernels::produce<<<1, threads, 0, stream_>>>(memory_.device, ring_slots - 1, 0,
                                                     count * per_message_, shift_, words_.get(),
                                                     tally_.get());
        wait_for_start();
        const uint32_t length = payload_of(per_message_);
        const auto* bytes = reinterpret_cast<const unsigned char*>(payload_.data());
        std::vector<unsigned char> got(length);
        uint64_t wrong = 0;
        const uint64_t begin = now_ns();
        store<Scope::system>(&words_[0].credit, 0u);
        for (uint32_t i = 0; i < count; ++i) {
            Header h;
            const unsigned char* wanted = bytes + size_t{i % ring_messages} * length;
            if (per_message_ == 1) {
                Payload p;
                while (rx.try_receive_short<sizeof p>(ring_type, h, &p) != Errc::ok) pause(begin);
                uint32_t difference = 0;
                for (uint32_t w = 0; w < 9; ++w)
                    difference |= p.word[w] ^ payload_[i % ring_messages * 9 + w];
                wrong += difference != 0;
            } else {
                while (rx.try_receive(h, got.data(), length) != Errc::ok) pause(begin);
                wrong += std::memcmp(got.data(), wanted, length) != 0;
            }
            wrong += !(h == Header{i, ring_sender, ring_type, 0, length});
        }
        const uint64_t end = now_ns();
        check(count, right);
        right &= wrong == 0;
        return end - begin;
    }

private:
    // An empty ring at ticket 0, and the end's view of it.
    RingView clear()
    {
        clear_slots(memory_.host, ring_slots, 0);
        words_[0] = RingWords{};
        tally_[0] = Tally{};
        push_stores(); // before the launch: no old sequence may be found
        return {memory_.host, ring_slots - 1, 0, words_.get()};
    }

    void wait_for_start()
    {
        check_cuda(cudaGetLastError(), "launch of a ring's kernel");
        const uint64_t begin = now_ns();
        while (load<Scope::system>(&tally_[0].started) == 0) pause(begin);
    }

    // Between two tries. Ends every wait of this class: throws after the kernel's own limit.
    void pause(uint64_t begin)
    {
        if (memory_.write_combined) push_stores();
        relax();
        if (++pauses_ % 65536 == 0 && now_ns() - begin > repetition_limit_ns) {
            stream_.synchronize();
            throw std::runtime_error("the ring stands still: the kernel took " +
                                     std::to_string(tally_[0].slots) + " slots");
        }
    }

    void check(uint32_t count, bool& right)
    {
        stream_.synchronize(); // the kernel has all it waited for
        const Tally& t = tally_[0];
        // A header's words count too: its message number, kind and sender.
        const uint64_t kind = encode({0, 0, ring_type, 0, payload_of(per_message_)}, 0).word[1];
        const uint64_t headers = uint64_t{count} * (count - 1) / 2 + count * (kind + ring_sender);
        right &= t.wrong == 0 && t.slots == count * per_message_ &&
                 t.sum == sum_ * (count / ring_messages) + headers;
    }

    Memory memory_;
    uint32_t per_message_; // slots, a power of two
    uint32_t shift_;       // its logarithm
    OwnStream stream_;
    PinnedBuffer<RingWords> words_;
    PinnedBuffer<Tally> tally_;
    std::vector<uint32_t> payload_;
    uint64_t sum_ = 0; // of one cycle of payloads
    uint64_t pauses_ = 0;
};

struct Arm {
    Case result;
    Samples samples;
    uint32_t count;
    std::function<uint64_t(uint32_t count, bool& right)> run;
    bool right = true;
};

void measure_device(const Arguments& arguments)
{
    const gpu::DeviceInfo info = gpu::device_info(arguments.device.ordinal);
    std::string why_not;
    const auto mapped =
        gpu::MappedMemory::try_create(info.ordinal, info.uuid, ring_slots * sizeof(Slot), &why_not);
    const PinnedBuffer<Slot> pinned(ring_slots);
    std::vector<Memory> memories{{"pinned", pinned.get(), pinned.get(), false}};
    if (mapped) {
        memories.push_back({"mapped", reinterpret_cast<Slot*>(mapped->host()),
                            reinterpret_cast<Slot*>(mapped->device()), true});
    } else {
        std::fprintf(stderr, "no ring in mapped memory: %s\n", why_not.c_str());
    }
    const uint32_t repetitions = arguments.quick ? 5 : 15;
    const uint32_t slots = arguments.quick ? 1u << 22 : 1u << 24; // per repetition
    std::vector<Arm> arms;
    for (const uint32_t per_message : {1u, 4u, 16u, 64u}) {
        const uint32_t bytes = per_message * static_cast<uint32_t>(sizeof(Slot));
        const uint32_t count = slots / per_message;
        for (const Memory& memory : memories) {
            auto link = std::make_shared<Link>(memory, per_message);
            const Case result("host to device",
                              Json().add("bytes", bytes).add("memory", memory.name), "M/s");
            const auto run = [link](uint32_t n, bool& right) { return link->to_device(n, right); };
            arms.push_back({result, Samples(repetitions), count, run});
            if (per_message == 1) {
                arms.push_back(arms.back());
                arms.back().result.arm = "A/A";
            }
        }
        // The host reads what the device writes: only memory that is near the host makes sense.
        auto link = std::make_shared<Link>(memories[0], per_message);
        arms.push_back({Case("device to host", Json().add("bytes", bytes), "M/s"),
                        Samples(repetitions), count,
                        [link](uint32_t n, bool& right) { return link->to_host(n, right); }});
    }
    for (Arm& arm : arms) arm.run(arm.count / 16, arm.right); // warm
    interleaved(repetitions, arms.size(), [&](size_t i) {
        const uint64_t ns = arms[i].run(arms[i].count, arms[i].right);
        arms[i].samples.add(arms[i].count * 1e3 / static_cast<double>(ns));
    });
    for (Arm& arm : arms) {
        arm.result.n = uint64_t{arm.count} * repetitions;
        arm.result.verified = arm.right;
        arm.result.print(arm.samples);
    }
}

#endif

void measure(const Arguments& arguments)
{
    print_environment(environment(arguments));
#if defined(__CUDACC__)
    if (arguments.gpu()) {
        print_copies(arguments.quick);
        measure_device(arguments);
    }
#endif
    measure_cpu_rings(arguments.quick);
}

} // namespace

int main(int argc, char** argv) { return run_program(argc, argv, measure); }
