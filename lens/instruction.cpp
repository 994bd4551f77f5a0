// SPDX-License-Identifier: Apache-2.0
#include "instruction.hpp"

#include "guarded.hpp"

namespace denizen::lens {
namespace {

using Action = Instruction::Action;
using Source = Instruction::Source;

enum Map : uint8_t { one, two, three8 }; // xx, 0f xx, 0f 38 xx
enum Prefix : uint8_t { any, np, p66, pf3, pf2 };
enum Width : uint8_t {
    byte,
    word,
    dword,
    qword,
    operand,
    vector
}; // operand: 2, 4 or 8; vector: 4 or 8 by W
enum Extra : uint8_t {
    plain,
    moffs,      // a 64-bit address and rax
    slash_zero, // ModRM's reg field must be 0
    zero_extend,
    sign_extend,
    movbe,
    stos,
    movs,
    lods,
};

struct Row {
    Map map;
    Prefix prefix;
    uint8_t opcode;
    Action action;
    Source source;
    Width width;
    Extra extra;
};

// From the opcode maps of Intel's manual, volume 2, appendix A. Vector loads are left out: their
// target is in a part of the signal frame that is not written back; a single step performs them.
constexpr Row table[] = {
    {one, any, 0x88, Action::store, Source::general, byte, plain},
    {one, any, 0x89, Action::store, Source::general, operand, plain},
    {one, any, 0xc6, Action::store, Source::immediate, byte, slash_zero},
    {one, any, 0xc7, Action::store, Source::immediate, operand, slash_zero},
    {one, any, 0xa2, Action::store, Source::general, byte, moffs},
    {one, any, 0xa3, Action::store, Source::general, operand, moffs},
    {one, any, 0xaa, Action::store, Source::general, byte, stos},
    {one, any, 0xab, Action::store, Source::general, operand, stos},
    {one, any, 0xa4, Action::store, Source::string, byte, movs},
    {one, any, 0xa5, Action::store, Source::string, operand, movs},
    {one, any, 0x86, Action::exchange, Source::general, byte, plain},
    {one, any, 0x87, Action::exchange, Source::general, operand, plain},
    {two, np, 0xc3, Action::store, Source::general, operand, plain}, // movnti
    {three8, np, 0xf1, Action::store, Source::general, operand, movbe},
    {three8, p66, 0xf1, Action::store, Source::general, operand, movbe},
    {two, p66, 0x7e, Action::store, Source::vector, vector, plain}, // movd, movq
    {two, p66, 0xd6, Action::store, Source::vector, qword, plain},  // movq
    {two, pf3, 0x11, Action::store, Source::vector, dword, plain},  // movss
    {two, pf2, 0x11, Action::store, Source::vector, qword, plain},  // movsd
    {two, np, 0x13, Action::store, Source::vector, qword, plain},   // movlps
    {one, any, 0x8a, Action::load, Source::general, byte, plain},
    {one, any, 0x8b, Action::load, Source::general, operand, plain},
    {one, any, 0xa0, Action::load, Source::general, byte, moffs},
    {one, any, 0xa1, Action::load, Source::general, operand, moffs},
    {one, any, 0xac, Action::load, Source::general, byte, lods},
    {one, any, 0xad, Action::load, Source::general, operand, lods},
    {one, any, 0x63, Action::load, Source::general, dword, sign_extend}, // movsxd
    {two, any, 0xb6, Action::load, Source::general, byte, zero_extend},
    {two, any, 0xb7, Action::load, Source::general, word, zero_extend},
    {two, any, 0xbe, Action::load, Source::general, byte, sign_extend},
    {two, any, 0xbf, Action::load, Source::general, word, sign_extend},
    {three8, np, 0xf0, Action::load, Source::general, operand, movbe},
    {three8, p66, 0xf0, Action::load, Source::general, operand, movbe},
};

struct Cursor {
    const uint8_t* at;
    size_t left;
    bool is_short = false; // the code ended too early
    uint8_t next()
    {
        if (left == 0) {
            is_short = true;
            return 0;
        }
        --left;
        return *at++;
    }
    uint64_t number(uint32_t bytes)
    {
        uint64_t value = 0;
        for (uint32_t k = 0; k < bytes; ++k) {
            value |= static_cast<uint64_t>(next()) << 8 * k;
        }
        return value;
    }
};

int64_t extend(uint64_t value, uint32_t bytes)
{
    const uint32_t shift = 64 - 8 * bytes;
    return static_cast<int64_t>(value << shift) >> shift;
}

// Opcodes of the one-byte map without ModRM; of the other maps nearly all have it.
bool has_modrm(Map map, uint8_t opcode)
{
    if (map != one) {
        return true;
    }
    if (opcode < 0x40) {
        return (opcode & 7) < 4;
    }
    return opcode == 0x62 || opcode == 0x63 || opcode == 0x69 || opcode == 0x6b ||
           (opcode >= 0x80 && opcode <= 0x8f) || opcode == 0xc0 || opcode == 0xc1 ||
           opcode == 0xc4 || opcode == 0xc5 || opcode == 0xc6 || opcode == 0xc7 ||
           (opcode >= 0xd0 && opcode <= 0xd3) || (opcode >= 0xd8 && opcode <= 0xdf) ||
           opcode == 0xf6 || opcode == 0xf7 || opcode == 0xfe || opcode == 0xff;
}

struct Rex {
    bool w = false, r = false, x = false, b = false, present = false;
};

// ModRM, SIB and displacement. False for a register operand.
bool decode_operand(Cursor& c, const Rex& rex, Instruction& out, uint8_t& modrm)
{
    modrm = c.next();
    const uint8_t mod = modrm >> 6, rm = modrm & 7;
    if (mod == 3) {
        return false;
    }
    uint32_t bytes = mod == 1 ? 1 : mod == 2 ? 4 : 0;
    if (rm == 4) {
        const uint8_t sib = c.next();
        const uint8_t index = static_cast<uint8_t>((sib >> 3 & 7) | rex.x << 3);
        const uint8_t base = sib & 7;
        out.index = index == 4 ? -1 : static_cast<int8_t>(index); // rsp is no index
        out.scale = static_cast<uint8_t>(1 << (sib >> 6));
        if (base == 5 && mod == 0) {
            bytes = 4;
        } else {
            out.base = static_cast<int8_t>(base | rex.b << 3);
        }
    } else if (rm == 5 && mod == 0) {
        out.base = 16;
        bytes = 4;
    } else {
        out.base = static_cast<int8_t>(rm | rex.b << 3);
    }
    out.displacement = bytes ? extend(c.number(bytes), bytes) : 0;
    out.has_operand = true;
    return true;
}

struct Prefixes {
    bool operand16 = false, address32 = false, lock = false;
    uint8_t repeat = 0; // f2, f3
    bool vex = false, evex = false;
    Rex rex;
    Map map = one;
    bool known_map = true;
    uint8_t opcode = 0;
};

// Everything before ModRM.
void decode_prefixes(Cursor& c, Prefixes& p, Instruction& out)
{
    uint8_t b = c.next();
    for (bool more = true; more; more = !c.is_short) { // ends: the code has at most 15 bytes
        switch (b) {
        case 0x66: p.operand16 = true; break;
        case 0x67: p.address32 = true; break;
        case 0xf0: p.lock = true; break;
        case 0xf2:
        case 0xf3: p.repeat = b; break;
        case 0x64:
        case 0x65: out.is_based = true; break;
        case 0x26:
        case 0x2e:
        case 0x36:
        case 0x3e: break;
        default: goto done;
        }
        b = c.next();
    }
done:
    if ((b & 0xf0) == 0x40) {
        p.rex = {(b & 8) != 0, (b & 4) != 0, (b & 2) != 0, (b & 1) != 0, true};
        b = c.next();
    } else if (b == 0xc5 || b == 0xc4 || b == 0x62) {
        uint8_t map = 1, last = c.next();
        p.rex.r = !(last & 0x80);
        if (b != 0xc5) {
            p.rex.x = !(last & 0x40);
            p.rex.b = !(last & 0x20);
            map = last & (b == 0xc4 ? 0x1f : 7);
            last = c.next();
            p.rex.w = (last & 0x80) != 0;
        }
        p.vex = true;
        p.evex = b == 0x62;
        p.operand16 = (last & 3) == 1;
        p.repeat = (last & 3) == 2 ? 0xf3 : (last & 3) == 3 ? 0xf2 : 0;
        if (p.evex) {
            c.next();
        }
        p.map = map == 2 ? three8 : two;
        p.known_map = map == 1 || map == 2;
        p.opcode = c.next();
        return;
    }
    p.opcode = b;
    if (b == 0x0f) {
        p.map = two;
        p.opcode = c.next();
        if (p.opcode == 0x38 || p.opcode == 0x3a) {
            p.known_map = p.opcode == 0x38;
            p.map = three8;
            p.opcode = c.next();
        }
    }
}

bool matches(const Row& row, const Prefixes& p)
{
    if (row.map != p.map || row.opcode != p.opcode) {
        return false;
    }
    switch (row.prefix) {
    case any: return true;
    case np: return !p.operand16 && !p.repeat;
    case p66: return p.operand16 && !p.repeat;
    case pf3: return p.repeat == 0xf3;
    case pf2: return p.repeat == 0xf2;
    }
    return false;
}

uint8_t width_of(const Row& row, const Prefixes& p)
{
    switch (row.width) {
    case byte: return 1;
    case word: return 2;
    case dword: return 4;
    case qword: return 8;
    case operand: return p.rex.w ? 8 : p.operand16 ? 2 : 4;
    case vector: return p.rex.w ? 8 : 4;
    }
    return 0;
}

bool decode_row(const Row& row, const Prefixes& p, Cursor& c, Instruction& out)
{
    out.width = width_of(row, p);
    out.target = row.width == operand || row.width == byte ? out.width : 0;
    if (row.extra == moffs) {
        out.displacement = static_cast<int64_t>(c.number(p.address32 ? 4 : 8));
        out.has_operand = out.is_absolute = true;
    } else if (row.extra == stos || row.extra == movs || row.extra == lods) {
        out.base = row.extra == lods ? 6 : 7;
        out.has_operand = out.is_string = true;
        out.repeated = p.repeat != 0;
    } else {
        uint8_t modrm = 0;
        if (!decode_operand(c, p.rex, out, modrm)) {
            return false;
        }
        out.reg = static_cast<uint8_t>((modrm >> 3 & 7) | p.rex.r << 3);
        if (row.extra == slash_zero && (modrm >> 3 & 7) != 0) {
            return false;
        }
        if (row.source != Source::vector && row.width == byte && row.extra == plain &&
            !p.rex.present && out.reg >= 4) {
            out.high_byte = true;
            out.reg = static_cast<uint8_t>(out.reg - 4);
        }
    }
    if (row.source == Source::immediate) {
        const uint32_t bytes = out.width == 8 ? 4 : out.width;
        out.immediate = static_cast<uint64_t>(extend(c.number(bytes), bytes));
    }
    if (row.extra == zero_extend || row.extra == sign_extend) {
        out.target = p.rex.w ? 8 : p.operand16 ? 2 : 4;
        out.is_signed = row.extra == sign_extend;
    }
    out.reversed = row.extra == movbe;
    out.action = row.action;
    out.source = row.source;
    return true;
}

uint64_t reverse(uint64_t value, uint32_t bytes)
{
    return __builtin_bswap64(value) >> (64 - 8 * bytes);
}

} // namespace

bool decode(const uint8_t* code, size_t available, Instruction& out)
{
    out = {};
    Cursor c{code, available < 15 ? available : 15};
    const size_t start = c.left;
    Prefixes p;
    decode_prefixes(c, p, out);
    if (c.is_short) {
        return false;
    }
    const Instruction empty = out;
    // Under VEX the table's vector stores alone are what they look like.
    for (const Row& row : table) {
        if (p.known_map && !p.evex && !p.address32 && matches(row, p) &&
            (!p.vex || row.source == Source::vector) &&
            (!p.lock || row.action == Action::exchange)) {
            const Cursor before = c;
            if (decode_row(row, p, c, out) && !c.is_short) {
                out.length = static_cast<uint8_t>(start - c.left);
                return true;
            }
            c = before;
            out = empty;
            break;
        }
    }
    uint8_t modrm = 0;
    if (has_modrm(p.map, p.opcode) || p.vex) {
        if (!decode_operand(c, p.rex, out, modrm) || c.is_short || p.address32) {
            out.has_operand = false;
        }
        if (p.evex && (modrm >> 6) == 1) {
            out.has_operand =
                false; // its displacement is compressed by a factor that the opcode decides
        }
    }
    return false;
}

bool operand_address(const Instruction& i, const Registers& r, uint64_t& address)
{
    if (!i.has_operand || i.is_based) {
        return false;
    }
    address = static_cast<uint64_t>(i.displacement);
    if (i.base == 16) {
        if (i.length == 0) {
            return false; // relative to the end, which is not known
        }
        address += r.rip + i.length;
    } else if (i.base >= 0) {
        address += r.general[i.base];
    }
    if (i.index >= 0) {
        address += r.general[i.index] * i.scale;
    }
    return true;
}

bool store_value(const Instruction& i, const Registers& r, uint64_t& value)
{
    switch (i.source) {
    case Source::immediate: value = i.immediate; break;
    case Source::vector: value = r.vector[i.reg]; break;
    case Source::general: value = i.high_byte ? r.general[i.reg] >> 8 : r.general[i.reg]; break;
    case Source::string: {
        // Whole words around it: the copy knows only those.
        const uint64_t first = r.general[6] & ~uint64_t{3};
        uint32_t words[3] = {};
        const size_t bytes = ((r.general[6] & 3) + i.width + 3) & ~uint64_t{3};
        if (denizen_lens_copy(words, reinterpret_cast<const void*>(first), bytes) != 0) {
            return false;
        }
        __builtin_memcpy(&value, reinterpret_cast<const char*>(words) + (r.general[6] & 3), 8);
        break;
    }
    }
    if (i.width < 8) {
        value &= (uint64_t{1} << 8 * i.width) - 1;
    }
    if (i.reversed) {
        value = reverse(value, i.width);
    }
    return true;
}

void finish(const Instruction& i, Registers& r, uint64_t loaded)
{
    if (i.action != Action::store) {
        uint64_t value = i.reversed ? reverse(loaded, i.width) : loaded;
        if (i.width < 8) {
            value &= (uint64_t{1} << 8 * i.width) - 1;
        }
        if (i.is_signed) {
            value = static_cast<uint64_t>(extend(value, i.width));
        }
        uint64_t& reg = r.general[i.reg];
        const uint8_t target = i.target ? i.target : i.width;
        if (i.high_byte) {
            reg = (reg & ~uint64_t{0xff00}) | (value & 0xff) << 8;
        } else if (target == 1 || target == 2) { // the rest of the register stays
            const uint64_t mask = (uint64_t{1} << 8 * target) - 1;
            reg = (reg & ~mask) | (value & mask);
        } else {
            reg = target == 4 ? value & 0xffffffff : value; // 32 bits clear the upper half
        }
    }
    if (i.is_string) {
        const uint64_t step = r.flags & 0x400 ? uint64_t{0} - i.width : i.width; // direction flag
        r.general[i.base] += step;
        if (i.source == Source::string) {
            r.general[6] += step;
        }
        if (i.repeated && --r.general[1] != 0) {
            return; // the same instruction again
        }
    }
    r.rip += i.length;
}

} // namespace denizen::lens
