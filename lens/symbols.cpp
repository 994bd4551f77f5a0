// SPDX-License-Identifier: Apache-2.0
#include "symbols.hpp"

#include "real.hpp"

#include <algorithm>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>

namespace denizen::lens {
namespace {

struct Library {
    uint64_t address = 0;
    bool is_found = false;
    uint64_t base = 0, low = 0, high = 0; // its code
    uint64_t frames = 0;                  // .eh_frame_hdr
    const ElfW(Dyn) * dynamic = nullptr;
};

int look(dl_phdr_info* info, size_t, void* to)
{
    auto& library = *static_cast<Library*>(to);
    bool holds = false;
    Library found;
    found.base = info->dlpi_addr;
    for (int k = 0; k < info->dlpi_phnum; ++k) {
        const ElfW(Phdr) & p = info->dlpi_phdr[k];
        const uint64_t start = info->dlpi_addr + p.p_vaddr;
        if (p.p_type == PT_LOAD && (p.p_flags & PF_X)) {
            found.low = found.low ? std::min(found.low, start) : start;
            found.high = std::max(found.high, start + p.p_memsz);
            holds |= library.address >= start && library.address < start + p.p_memsz;
        } else if (p.p_type == PT_GNU_EH_FRAME) {
            found.frames = start;
        } else if (p.p_type == PT_DYNAMIC) {
            found.dynamic = reinterpret_cast<const ElfW(Dyn)*>(start);
        }
    }
    if (holds && found.dynamic) {
        found.address = library.address;
        found.is_found = true;
        library = found;
        return 1;
    }
    return 0;
}

// The GNU hash table does not say how many symbols there are: the last is at the end of the chain
// of the highest bucket.
uint32_t count_symbols(const uint32_t* gnu_hash)
{
    const uint32_t buckets = gnu_hash[0], first = gnu_hash[1], filter_words = gnu_hash[2];
    const uint32_t* bucket = gnu_hash + 4 + filter_words * (sizeof(ElfW(Addr)) / 4);
    const uint32_t* chain = bucket + buckets;
    uint32_t last = 0;
    for (uint32_t k = 0; k < buckets; ++k) {
        last = std::max(last, bucket[k]);
    }
    if (last < first) {
        return first;
    }
    while (!(chain[last - first] & 1)) { // ends: bit 0 marks the last of a chain
        ++last;
    }
    return last + 1;
}

} // namespace

constinit Symbols driver_symbols;

void Symbols::learn(const void* address)
{
    Library library;
    library.address = reinterpret_cast<uint64_t>(address);
    if (is_taken_.exchange(true) || !dl_iterate_phdr(look, &library) || !library.is_found) {
        return;
    }
    const ElfW(Sym)* symbols = nullptr;
    const char* strings = nullptr;
    uint32_t total = 0;
    for (const ElfW(Dyn)* d = library.dynamic; d->d_tag != DT_NULL; ++d) {
        // The loader has replaced these offsets by addresses.
        if (d->d_tag == DT_SYMTAB) {
            symbols = reinterpret_cast<const ElfW(Sym)*>(d->d_un.d_ptr);
        } else if (d->d_tag == DT_STRTAB) {
            strings = reinterpret_cast<const char*>(d->d_un.d_ptr);
        } else if (d->d_tag == DT_HASH) {
            total = reinterpret_cast<const uint32_t*>(d->d_un.d_ptr)[1];
        } else if (d->d_tag == DT_GNU_HASH && total == 0) {
            total = count_symbols(reinterpret_cast<const uint32_t*>(d->d_un.d_ptr));
        }
    }
    if (!symbols || !strings || total == 0) {
        return;
    }
    const size_t bytes = total * (sizeof(Function) + sizeof(std::atomic<bool>));
    void* memory =
        real().mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return;
    }
    functions_ = static_cast<Function*>(memory);
    is_used_ = reinterpret_cast<std::atomic<bool>*>(functions_ + total);
    for (uint32_t k = 0; k < total; ++k) {
        const ElfW(Sym) & s = symbols[k];
        if (ELF64_ST_TYPE(s.st_info) == STT_FUNC && s.st_shndx != SHN_UNDEF && s.st_size) {
            functions_[count_++] = {library.base + s.st_value, s.st_size, strings + s.st_name};
        }
    }
    std::sort(functions_, functions_ + count_,
              [](const Function& a, const Function& b) { return a.start < b.start; });
    unwinder_.learn(library.frames, library.low, library.high);
    is_ready_.store(true, std::memory_order_release);
}

uint32_t Symbols::find_entry(uint64_t rip, uint64_t rsp, uint64_t rbp)
{
    const uint64_t address = is_ready() ? unwinder_.entry(rip, rsp, rbp) : 0;
    return address ? find(address) : none;
}

uint32_t Symbols::find(uint64_t address) const
{
    uint32_t low = 0, high = count_; // the last function that starts at or before the address
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (functions_[middle].start <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == 0 || address - functions_[low - 1].start >= functions_[low - 1].bytes) {
        return none;
    }
    return low - 1;
}

void Symbols::forget_uses()
{
    for (uint32_t k = 0; is_ready() && k < count_; ++k) {
        is_used_[k].store(false);
    }
}

} // namespace denizen::lens
