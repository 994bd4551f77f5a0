// SPDX-License-Identifier: Apache-2.0
// The format: Linux Standard Base, "Exception Frames" (.eh_frame, .eh_frame_hdr); the instructions:
// DWARF 5, section 6.4; register numbers: x86-64 psABI (6 rbp, 7 rsp). Of all registers only rsp
// and rbp are followed; a frame that is described by an expression ends the walk.
#include "unwind.hpp"

#include "guarded.hpp"

#include <cstring>

namespace denizen::lens {
namespace {

constexpr uint64_t rbp = 6, rsp = 7;
constexpr uint32_t deepest = 64; // frames

// Reads the description, which is in the library's read-only data.
struct Reader {
    const uint8_t* at;
    template <class T>
    T take()
    {
        T value;
        std::memcpy(&value, at, sizeof value);
        at += sizeof value;
        return value;
    }
    uint64_t uleb()
    {
        uint64_t value = 0;
        for (uint32_t shift = 0;; shift += 7) { // ends: the encoding's last byte
            const uint8_t b = *at++;
            value |= shift < 64 ? uint64_t{b & 0x7fu} << shift : 0;
            if (!(b & 0x80)) {
                return value;
            }
        }
    }
    int64_t sleb()
    {
        uint64_t value = 0;
        uint32_t shift = 0;
        uint8_t b;
        do { // ends: as above
            b = *at++;
            value |= shift < 64 ? uint64_t{b & 0x7fu} << shift : 0;
            shift += 7;
        } while (b & 0x80);
        if (shift < 64 && (b & 0x40)) {
            value |= ~uint64_t{0} << shift;
        }
        return static_cast<int64_t>(value);
    }
    // A pointer in encoding `e`; only those that compilers use here. False: another one.
    bool pointer(uint8_t e, uint64_t& value)
    {
        const auto start = reinterpret_cast<uint64_t>(at);
        switch (e & 0x0f) {
        case 0x00:
        case 0x04:
        case 0x0c: value = take<uint64_t>(); break;
        case 0x03: value = take<uint32_t>(); break;
        case 0x0b: value = static_cast<uint64_t>(int64_t{take<int32_t>()}); break;
        default: return false;
        }
        if ((e & 0x70) == 0x10) {
            value += start;
        }
        return (e & 0x70) == 0 || (e & 0x70) == 0x10;
    }
};

struct Row {
    uint64_t cfa_register = rsp;
    int64_t cfa_offset = 8;
    bool is_expression = false;
    bool has_rbp = false;
    int64_t rbp_offset = 0;
};

struct Common { // what a common information entry says
    uint64_t code_factor = 1;
    int64_t data_factor = 1;
    uint8_t encoding = 0;
    bool has_augmentation = false;
    const uint8_t* begin = nullptr; // initial instructions
    const uint8_t* end = nullptr;
};

bool read_common(const uint8_t* entry, Common& c)
{
    Reader r{entry};
    const auto length = r.take<uint32_t>();
    c.end = r.at + length;
    const auto id = r.take<uint32_t>();
    const auto version = r.take<uint8_t>();
    const char* augmentation = reinterpret_cast<const char*>(r.at);
    r.at += strlen(augmentation) + 1;
    if (length == 0xffffffff || id != 0 || (version != 1 && version != 3)) {
        return false;
    }
    c.code_factor = r.uleb();
    c.data_factor = r.sleb();
    if (version == 1) {
        r.take<uint8_t>();
    } else {
        r.uleb();
    }
    if (*augmentation == 'z') {
        c.has_augmentation = true;
        const uint64_t bytes = r.uleb();
        const uint8_t* data_end = r.at + bytes;
        for (const char* a = augmentation + 1; *a; ++a) {
            if (*a == 'R') {
                c.encoding = r.take<uint8_t>();
            } else if (*a == 'L') {
                r.take<uint8_t>();
            } else if (*a == 'P') {
                const auto e = r.take<uint8_t>();
                uint64_t ignored;
                if (!r.pointer(e & 0x0f, ignored)) {
                    return false;
                }
            } else {
                break; // 'S' and others: without data
            }
        }
        r.at = data_end;
    } else if (*augmentation) {
        return false;
    }
    c.begin = r.at;
    return true;
}

// Runs instructions until the row of `address` is complete. False: an instruction that is not
// followed.
bool run(Reader r, const uint8_t* end, const Common& c, uint64_t location, uint64_t address,
         const Row& initial, Row& row)
{
    Row saved[4];
    uint32_t depth = 0;
    const auto set = [&](uint64_t reg, bool is_saved, int64_t offset) {
        if (reg == rbp) {
            row.has_rbp = is_saved;
            row.rbp_offset = offset;
        }
    };
    while (r.at < end) { // ends: each round takes at least one byte
        const auto op = r.take<uint8_t>();
        const uint8_t low = op & 0x3f;
        uint64_t advance = 0, reg = 0;
        switch (op & 0xc0) {
        case 0x40: advance = low * c.code_factor; break;
        case 0x80: set(low, true, static_cast<int64_t>(r.uleb()) * c.data_factor); continue;
        case 0xc0: set(low, initial.has_rbp, initial.rbp_offset); continue;
        default:
            switch (op) {
            case 0x00: continue; // nop
            case 0x01:           // set_loc
                if (!r.pointer(c.encoding, location)) {
                    return false;
                }
                if (location > address) {
                    return true;
                }
                continue;
            case 0x02: advance = r.take<uint8_t>() * c.code_factor; break;
            case 0x03: advance = r.take<uint16_t>() * c.code_factor; break;
            case 0x04: advance = r.take<uint32_t>() * c.code_factor; break;
            case 0x05: // offset_extended
                reg = r.uleb();
                set(reg, true, static_cast<int64_t>(r.uleb()) * c.data_factor);
                continue;
            case 0x11: // offset_extended_sf
                reg = r.uleb();
                set(reg, true, r.sleb() * c.data_factor);
                continue;
            case 0x06: set(r.uleb(), initial.has_rbp, initial.rbp_offset); continue; // restore
            case 0x07:                                                               // undefined
            case 0x08: set(r.uleb(), false, 0); continue;                            // same_value
            case 0x09:                                                               // register
                if (r.uleb() == rbp) {
                    return false;
                }
                r.uleb();
                continue;
            case 0x0a: // remember_state
                if (depth == 4) {
                    return false;
                }
                saved[depth++] = row;
                continue;
            case 0x0b: // restore_state
                if (depth == 0) {
                    return false;
                }
                row = saved[--depth];
                continue;
            case 0x0c: // def_cfa
            case 0x12: // def_cfa_sf
                row.cfa_register = r.uleb();
                row.cfa_offset =
                    op == 0x0c ? static_cast<int64_t>(r.uleb()) : r.sleb() * c.data_factor;
                row.is_expression = false;
                continue;
            case 0x0d: row.cfa_register = r.uleb(); continue;
            case 0x0e: row.cfa_offset = static_cast<int64_t>(r.uleb()); continue;
            case 0x13: row.cfa_offset = r.sleb() * c.data_factor; continue;
            case 0x0f: // def_cfa_expression
                row.is_expression = true;
                reg = r.uleb();
                r.at += reg;
                continue;
            case 0x10: // expression
            case 0x16: // val_expression
                if (r.uleb() == rbp) {
                    return false;
                }
                reg = r.uleb();
                r.at += reg;
                continue;
            case 0x2e: r.uleb(); continue; // GNU_args_size
            default: return false;
            }
        }
        location += advance;
        if (location > address) {
            return true;
        }
    }
    return true;
}

bool read_stack(uint64_t address, uint64_t& value)
{
    return address % 8 == 0 &&
           denizen_lens_copy(&value, reinterpret_cast<const void*>(address), sizeof value) == 0;
}

} // namespace

void Unwinder::learn(uint64_t table, uint64_t low, uint64_t high)
{
    table_ = table;
    low_ = low;
    high_ = high;
}

// The header's table: pairs of (function's start, its description), both relative to the header,
// sorted.
uint64_t Unwinder::find_description(uint64_t address) const
{
    Reader r{reinterpret_cast<const uint8_t*>(table_)};
    const auto version = r.take<uint8_t>();
    const auto frame_encoding = r.take<uint8_t>(), count_encoding = r.take<uint8_t>(),
               table_encoding = r.take<uint8_t>();
    uint64_t ignored;
    if (version != 1 || count_encoding != 0x03 || table_encoding != 0x3b ||
        !r.pointer(frame_encoding, ignored)) {
        return 0;
    }
    const auto count = r.take<uint32_t>();
    const auto start = [&](uint32_t k) {
        Reader e{r.at + 8 * uint64_t{k}};
        return table_ + static_cast<uint64_t>(int64_t{e.take<int32_t>()});
    };
    uint32_t low = 0, high = count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (start(middle) <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == 0) {
        return 0;
    }
    Reader e{r.at + 8 * uint64_t{low - 1} + 4};
    return table_ + static_cast<uint64_t>(int64_t{e.take<int32_t>()});
}

Unwinder::Rule Unwinder::interpret(uint64_t address) const
{
    const uint64_t description = find_description(address);
    if (!description) {
        return {};
    }
    Reader r{reinterpret_cast<const uint8_t*>(description)};
    const auto length = r.take<uint32_t>();
    const uint8_t* id_at = r.at;
    const uint8_t* end = r.at + length;
    const auto back = r.take<uint32_t>();
    Common c;
    uint64_t begin = 0, bytes = 0;
    if (length == 0xffffffff || back == 0 || !read_common(id_at - back, c) ||
        !r.pointer(c.encoding, begin) || !r.pointer(c.encoding & 0x0f, bytes) || address < begin ||
        address >= begin + bytes) {
        return {};
    }
    if (c.has_augmentation) {
        const uint64_t n = r.uleb();
        r.at += n;
    }
    Row row;
    const Row nothing;
    if (!run({c.begin}, c.end, c, begin, ~uint64_t{0}, nothing, row)) {
        return {};
    }
    const Row initial = row;
    if (!run(r, end, c, begin, address, initial, row) || row.is_expression ||
        (row.cfa_register != rsp && row.cfa_register != rbp) || row.cfa_offset < -(1 << 20) ||
        row.cfa_offset > 1 << 20) {
        return {};
    }
    return {true, row.cfa_register == rbp, row.has_rbp, static_cast<int32_t>(row.cfa_offset),
            static_cast<int32_t>(row.rbp_offset)};
}

// The same few addresses come again at each doorbell.
Unwinder::Rule Unwinder::look_up(uint64_t address)
{
    constexpr uint64_t known = 1, on_rbp = 2, with_rbp = 4; // bits of a cached rule
    Cached& place = cache_[(address * 0x9e3779b97f4a7c15) >> 54];
    if (place.address.load(std::memory_order_acquire) == address) {
        const uint64_t bits = place.rule.load(std::memory_order_acquire);
        if (place.address.load(std::memory_order_relaxed) == address) { // not replaced meanwhile
            return {(bits & known) != 0, (bits & on_rbp) != 0, (bits & with_rbp) != 0,
                    static_cast<int32_t>(bits) >> 3, static_cast<int32_t>(bits >> 32)};
        }
    }
    const Rule rule = interpret(address);
    uint64_t old = place.address.load(std::memory_order_relaxed);
    if (old != 1 && place.address.compare_exchange_strong(old, 1, std::memory_order_acq_rel)) {
        const uint64_t bits = (rule.is_known ? known : 0) | (rule.is_on_rbp ? on_rbp : 0) |
                              (rule.has_rbp ? with_rbp : 0) |
                              static_cast<uint32_t>(rule.offset) << 3 |
                              static_cast<uint64_t>(static_cast<uint32_t>(rule.rbp_offset)) << 32;
        place.rule.store(bits, std::memory_order_release);
        place.address.store(address, std::memory_order_release);
    }
    return rule;
}

uint64_t Unwinder::entry(uint64_t rip, uint64_t sp, uint64_t bp)
{
    if (!table_ || !holds(rip)) {
        return 0;
    }
    uint64_t address =
        rip; // of the first frame; of the others the call, so one less than the return
    for (uint32_t depth = 0; depth < deepest; ++depth) {
        const Rule rule = look_up(address);
        if (!rule.is_known) {
            return 0;
        }
        const uint64_t end =
            (rule.is_on_rbp ? bp : sp) + static_cast<uint64_t>(int64_t{rule.offset});
        uint64_t back = 0;
        if (end <= sp || !read_stack(end - 8, back) ||
            (rule.has_rbp &&
             !read_stack(end + static_cast<uint64_t>(int64_t{rule.rbp_offset}), bp))) {
            return 0;
        }
        sp = end;
        if (!holds(back)) {
            return address;
        }
        address = back - 1;
    }
    return 0;
}

} // namespace denizen::lens
