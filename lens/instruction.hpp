// SPDX-License-Identifier: Apache-2.0
// x86-64 instructions that load from or store to memory, as far as a driver may use them on a
// device register: decoded from a table, and performed on another address than the program named.
// Called by the fault handler: no allocation, no library call.
#pragma once

#include <cstddef>
#include <cstdint>

namespace denizen::lens {

// The registers that an instruction may use, numbered as the processor numbers them (0 rax, 1 rcx,
// 2 rdx, 3 rbx, 4 rsp, 5 rbp, 6 rsi, 7 rdi, 8…15). A handler copies them from and to the signal
// frame.
struct Registers {
    uint64_t general[16];
    uint64_t vector[16]; // low halves of xmm0…15; only read
    uint64_t rip;
    uint64_t flags;
};

struct Instruction {
    enum class Action : uint8_t { unknown, store, load, exchange };
    enum class Source : uint8_t { general, immediate, vector, string };

    Action action = Action::unknown; // unknown: not in the table
    Source source = Source::general;
    uint8_t length = 0; // of the whole instruction; 0 if not in the table
    uint8_t width = 0;  // bytes of memory
    uint8_t target = 0; // bytes of the register that a load writes
    bool is_signed = false;
    bool reversed = false;  // MOVBE
    bool is_string = false; // STOS, MOVS, LODS: the operand is at `base`, which moves on
    bool repeated = false;  // REP: this is one round of rcx
    bool high_byte = false;
    uint8_t reg = 0;
    uint64_t immediate = 0;

    // The memory operand, found even for an opcode that is not in the table.
    bool has_operand = false;
    int8_t base = -1; // register number, -1 none, 16 rip
    int8_t index = -1;
    uint8_t scale = 1;
    bool is_based = false; // on fs or gs
    bool is_absolute = false;
    int64_t displacement = 0;
};

// `available` bytes of code, at most 15 are used. True if the instruction is in the table.
bool decode(const uint8_t* code, size_t available, Instruction& out);

// The address of the memory operand. False if it has none, or is in a segment of its own.
bool operand_address(const Instruction& i, const Registers& r, uint64_t& address);

// The value that a store or an exchange writes, `width` bytes of it. A string move reads it at rsi
// (through denizen_lens_copy); false if that is not readable.
bool store_value(const Instruction& i, const Registers& r, uint64_t& value);

// Registers after the instruction: `loaded` is what a load or an exchange has read. Advances rip.
void finish(const Instruction& i, Registers& r, uint64_t loaded);

} // namespace denizen::lens
