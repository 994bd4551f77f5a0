// SPDX-License-Identifier: Apache-2.0
// An access to a shadow page faults, and its instruction is decoded and performed here, on the real
// page, with the registers of the signal frame. The shadow is never opened, so that no other thread
// gets past while this one is busy. An instruction that the decoder does not know is run by the
// processor itself: for one step the register that holds the address points to the real page.
#include "fault.hpp"

#include "doorbell.hpp"
#include "guarded.hpp"
#include "instruction.hpp"
#include "log.hpp"
#include "real.hpp"
#include "session.hpp"

#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

namespace denizen::lens {
namespace {

constexpr int order[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                           REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
constexpr greg_t trap_flag = 0x100;
constexpr greg_t is_write = 2; // in the error code of a page fault

struct Step { // an instruction of this thread that runs by itself
    bool is_on;
    int base; // number of the register that was moved
    int64_t by;
    uint64_t moved;   // its value then
    greg_t trap_flag; // as the program had it
};
thread_local Step step __attribute__((tls_model("initial-exec")));

Registers load_registers(const ucontext_t& u)
{
    Registers r{};
    for (int k = 0; k < 16; ++k) {
        r.general[k] = static_cast<uint64_t>(u.uc_mcontext.gregs[order[k]]);
    }
    if (const auto* fp = u.uc_mcontext.fpregs) {
        for (int k = 0; k < 16; ++k) {
            __builtin_memcpy(&r.vector[k], &fp->_xmm[k], 8);
        }
    }
    r.rip = static_cast<uint64_t>(u.uc_mcontext.gregs[REG_RIP]);
    r.flags = static_cast<uint64_t>(u.uc_mcontext.gregs[REG_EFL]);
    return r;
}

void store_registers(const Registers& r, ucontext_t& u)
{
    for (int k = 0; k < 16; ++k) {
        u.uc_mcontext.gregs[order[k]] = static_cast<greg_t>(r.general[k]);
    }
    u.uc_mcontext.gregs[REG_RIP] = static_cast<greg_t>(r.rip);
}

void write_page(uint64_t address, uint32_t width, uint64_t value)
{
    switch (width) {
    case 1: *reinterpret_cast<volatile uint8_t*>(address) = static_cast<uint8_t>(value); break;
    case 2: *reinterpret_cast<volatile uint16_t*>(address) = static_cast<uint16_t>(value); break;
    case 4: *reinterpret_cast<volatile uint32_t*>(address) = static_cast<uint32_t>(value); break;
    default: *reinterpret_cast<volatile uint64_t*>(address) = value; break;
    }
}

uint64_t read_page(uint64_t address, uint32_t width)
{
    switch (width) {
    case 1: return *reinterpret_cast<volatile uint8_t*>(address);
    case 2: return *reinterpret_cast<volatile uint16_t*>(address);
    case 4: return *reinterpret_cast<volatile uint32_t*>(address);
    default: return *reinterpret_cast<volatile uint64_t*>(address);
    }
}

// The bytes at an instruction; those that cannot be read are 0.
size_t read_code(uint64_t rip, uint8_t (&code)[16])
{
    uint32_t words[5] = {};
    const uint64_t first = rip & ~uint64_t{3};
    const size_t missing =
        denizen_lens_copy(words, reinterpret_cast<const void*>(first), sizeof words);
    const size_t skipped = rip - first;
    __builtin_memcpy(code, reinterpret_cast<const char*>(words) + skipped, sizeof code);
    const size_t there = sizeof words - missing;
    return there < skipped ? 0 : there - skipped < 16 ? there - skipped : 16;
}

// Which register to move so that the instruction itself goes to the real page: the base of its
// operand, or for string instructions rdi or rsi. -1: none.
int address_register(const Instruction& i, const Registers& r, uint64_t address)
{
    uint64_t operand = 0;
    if (operand_address(i, r, operand)) {
        return operand == address && i.base >= 0 && i.base < 16 ? i.base : -1;
    }
    return r.general[7] == address ? 7 : r.general[6] == address ? 6 : -1;
}

void tell_instruction(const uint8_t (&code)[16], uint64_t rip, uint32_t offset, bool is_stepped)
{
    session.totals.unknown_instructions.fetch_add(1, std::memory_order_relaxed);
    InstructionRecord record{};
    record.time_ns = now_ns();
    record.address = rip;
    record.tid = static_cast<uint32_t>(syscall(SYS_gettid));
    record.page_offset = offset;
    __builtin_memcpy(record.code, code, sizeof code);
    the_log.write(Kind::instruction, record, nullptr, 0,
                  is_stepped ? instruction_stepped : uint16_t{0});
    if (!is_stepped) {
        char text[33] = {};
        for (size_t k = 0; k < 16; ++k) {
            text[2 * k] = "0123456789abcdef"[code[k] >> 4];
            text[2 * k + 1] = "0123456789abcdef"[code[k] & 15];
        }
        complain("an instruction that cannot be followed touched a doorbell page: ", text,
                 "; it is left to the program's own handler of SIGSEGV");
    }
}

bool start_step(Page& page, const Instruction& i, const uint8_t (&code)[16], uint64_t address,
                Registers& r, ucontext_t& u)
{
    const uint64_t shadow = page.shadow.load(std::memory_order_relaxed);
    const auto offset = static_cast<uint32_t>(address - shadow);
    const int base = address_register(i, r, address);
    tell_instruction(code, r.rip, offset, base >= 0);
    if (base < 0) {
        return false;
    }
    if (offset == rm::doorbell_offset && (u.uc_mcontext.gregs[REG_ERR] & is_write)) {
        log_doorbell(page, none, r);
    }
    step.is_on = true;
    step.base = base;
    step.by = static_cast<int64_t>(page.real - shadow);
    step.trap_flag = u.uc_mcontext.gregs[REG_EFL] & trap_flag;
    r.general[base] += static_cast<uint64_t>(step.by);
    step.moved = r.general[base];
    u.uc_mcontext.gregs[REG_EFL] |= trap_flag;
    store_registers(r, u);
    return true;
}

bool end_step(ucontext_t& u)
{
    if (!step.is_on) {
        return false;
    }
    step.is_on = false;
    auto& base = u.uc_mcontext.gregs[order[step.base]];
    // Unless the instruction has loaded it with something else; a string instruction moves it on a
    // little.
    const int64_t moved_on = base - static_cast<int64_t>(step.moved);
    if (moved_on >= -64 && moved_on <= 64) {
        base -= step.by;
    }
    u.uc_mcontext.gregs[REG_EFL] = (u.uc_mcontext.gregs[REG_EFL] & ~trap_flag) | step.trap_flag;
    return step.trap_flag == 0; // else the program is being stepped and wants the trap too
}

// `begin`: when the handler was entered.
bool access_page(Page& page, uint64_t address, ucontext_t& u, uint64_t begin)
{
    Registers r = load_registers(u);
    uint8_t code[16];
    const size_t n = read_code(r.rip, code);
    Instruction i;
    uint64_t value = 0;
    const bool is_known =
        decode(code, n, i) && (i.action == Instruction::Action::load || store_value(i, r, value));
    const uint64_t offset = address - page.shadow.load(std::memory_order_relaxed);
    // A string move out of the page is known as a store elsewhere; it faults at its source.
    const bool is_store = u.uc_mcontext.gregs[REG_ERR] & is_write;
    if (!is_known || offset + i.width > page.bytes ||
        is_store != (i.action != Instruction::Action::load)) {
        return start_step(page, i, code, address, r, u);
    }
    const uint64_t real_address = page.real + offset;
    uint64_t loaded = 0;
    if (i.action != Instruction::Action::store) {
        loaded = read_page(real_address, i.width);
        session.totals.loads.fetch_add(1, std::memory_order_relaxed);
    }
    const bool is_doorbell = is_store && offset == rm::doorbell_offset && i.width >= 4;
    if (is_doorbell) {
        log_doorbell(page, static_cast<uint32_t>(value), r);
    } else if (is_store) {
        session.totals.other_stores.fetch_add(1, std::memory_order_relaxed);
    }
    if (is_store) {
        write_page(real_address, i.width, value);
    }
    finish(i, r, loaded);
    store_registers(r, u);
    if (is_doorbell) {
        session.totals.timed_doorbells.fetch_add(1, std::memory_order_relaxed);
        session.totals.handler_ns.fetch_add(now_ns() - begin, std::memory_order_relaxed);
    }
    return true;
}

} // namespace

bool on_fault(int signal, siginfo_t* info, void* context)
{
    const uint64_t begin = now_ns();
    auto& u = *static_cast<ucontext_t*>(context);
    if (signal == SIGTRAP) {
        return end_step(u);
    }
    const auto rip = static_cast<uint64_t>(u.uc_mcontext.gregs[REG_RIP]);
    if (const uint64_t resume = resume_copy(rip)) {
        u.uc_mcontext.gregs[REG_RIP] = static_cast<greg_t>(resume);
        return true;
    }
    if (signal != SIGSEGV || info->si_code <= 0) {
        return false;
    }
    const auto address = reinterpret_cast<uint64_t>(info->si_addr);
    Page* page = find_page(address);
    if (!page) {
        return false;
    }
    session.handlers.fetch_add(1, std::memory_order_relaxed);
    const bool is_done = access_page(*page, address, u, begin);
    session.handlers.fetch_sub(1, std::memory_order_release); // pairs with detach()
    return is_done;
}

} // namespace denizen::lens
