// SPDX-License-Identifier: Apache-2.0
// The lens's mechanism alone, without a driver: a store to a page that nobody may touch, which the
// handler of SIGSEGV performs on another page in its stead. The least that a captured doorbell
// costs.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <stdexcept>

#if defined(__x86_64__) && defined(__linux__)
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

namespace denizen::bench {

// There can be one at a time: its handler is the process's.
class TrappedPage {
public:
    TrappedPage()
    {
        shadow_ = map(PROT_NONE);
        real_ = map(PROT_READ | PROT_WRITE);
        struct sigaction action{};
        action.sa_sigaction = handle;
        action.sa_flags = SA_SIGINFO;
        if (sigaction(SIGSEGV, &action, &before_) != 0)
            throw std::runtime_error("SIGSEGV cannot be handled");
    }
    ~TrappedPage()
    {
        sigaction(SIGSEGV, &before_, nullptr);
        munmap(shadow_, bytes);
        munmap(real_, bytes);
    }
    TrappedPage(const TrappedPage&) = delete;
    TrappedPage& operator=(const TrappedPage&) = delete;

    // The instruction that NVIDIA's driver rings with: mov %ecx, (%rax).
    static void store(uint32_t* to, uint32_t value)
    {
        asm volatile("movl %%ecx, (%%rax)" : : "a"(to), "c"(value) : "memory");
    }

    uint32_t* shadow() const { return shadow_ + doorbell; }
    uint32_t* real() const { return real_ + doorbell; }
    static uint64_t traps() { return traps_; }

private:
    static constexpr uint64_t bytes = 65536;
    static constexpr uint64_t doorbell = 0x90 / 4;

    static uint32_t* map(int protection)
    {
        void* at = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED) throw std::runtime_error("64 KiB cannot be mapped");
        return static_cast<uint32_t*>(at);
    }

    static void handle(int, siginfo_t* info, void* context)
    {
        auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
        const auto* code = reinterpret_cast<const uint8_t*>(registers[REG_RIP]);
        const auto address = reinterpret_cast<uint64_t>(info->si_addr);
        const uint64_t offset = address - reinterpret_cast<uint64_t>(shadow_);
        if (offset >= bytes || code[0] != 0x89 || code[1] != 0x08) abort(); // a real fault
        real_[offset / 4] = static_cast<uint32_t>(registers[REG_RCX]);
        registers[REG_RIP] += 2;
        ++traps_;
    }

    static inline uint32_t* shadow_ = nullptr;
    static inline uint32_t* real_ = nullptr;
    static inline uint64_t traps_ = 0;
    static inline struct sigaction before_{};
};

} // namespace denizen::bench
#endif
