// SPDX-License-Identifier: Apache-2.0
#include "cubin.hpp"

#include <denizen/base/error.hpp>

#include <cstring>
#include <elf.h>
#include <string>

namespace denizen::gpu {
namespace {

// A T at `offset` of the file; throws if the file ends before.
template <class T>
T read(const std::vector<char>& file, uint64_t offset)
{
    if (offset > file.size() || file.size() - offset < sizeof(T)) {
        throw Error(Errc::compile, "the cubin is truncated: " + std::to_string(file.size()) +
                                       " bytes, " + std::to_string(offset + sizeof(T)) + " wanted");
    }
    T value;
    std::memcpy(&value, file.data() + offset, sizeof(T));
    return value;
}

// Where in the file the initial value of a global lies that has `bytes`; 0: there is none.
uint64_t find(const std::vector<char>& cubin, const std::string& wanted, uint64_t bytes)
{
    const auto header = read<Elf64_Ehdr>(cubin, 0);
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
        header.e_ident[EI_CLASS] != ELFCLASS64) {
        throw Error(Errc::compile, "not a cubin: no 64-bit ELF header");
    }
    const auto section = [&](uint64_t i) {
        return read<Elf64_Shdr>(cubin, header.e_shoff + i * sizeof(Elf64_Shdr));
    };
    for (uint64_t i = 0; i < header.e_shnum; ++i) {
        const Elf64_Shdr symbols = section(i);
        if (symbols.sh_type != SHT_SYMTAB) {
            continue;
        }
        const Elf64_Shdr names = section(symbols.sh_link);
        for (uint64_t s = 0; s < symbols.sh_size / sizeof(Elf64_Sym); ++s) {
            const auto symbol = read<Elf64_Sym>(cubin, symbols.sh_offset + s * sizeof(Elf64_Sym));
            const uint64_t name = names.sh_offset + symbol.st_name;
            if (name > cubin.size() || cubin.size() - name < wanted.size() + 1 ||
                std::memcmp(cubin.data() + name, wanted.c_str(), wanted.size() + 1) != 0) {
                continue;
            }
            if (symbol.st_size != bytes) {
                throw Error(Errc::compile, wanted + " in the cubin has " +
                                               std::to_string(symbol.st_size) +
                                               " bytes, this runtime's " + std::to_string(bytes) +
                                               "; compile it again");
            }
            return section(symbol.st_shndx).sh_offset + symbol.st_value;
        }
    }
    return 0;
}

} // namespace

std::optional<std::vector<char>> initial_value(const std::vector<char>& cubin,
                                               const std::string& name, uint64_t bytes)
{
    const uint64_t at = find(cubin, name, bytes);
    if (at == 0) {
        return std::nullopt;
    }
    if (at > cubin.size() || cubin.size() - at < bytes) {
        throw Error(Errc::compile, "the cubin is truncated: " + std::to_string(cubin.size()) +
                                       " bytes, " + std::to_string(at + bytes) + " wanted");
    }
    const auto begin = cubin.begin() + static_cast<std::ptrdiff_t>(at);
    return std::vector<char>(begin, begin + static_cast<std::ptrdiff_t>(bytes));
}

} // namespace denizen::gpu
