// SPDX-License-Identifier: Apache-2.0
// Snapshots made to harm. The input is a list of changes to a valid one: of words, bytes and
// lengths of its sections; the checksums are computed anew. What comes of it is refused by name, or
// restored, and then the program runs and ends like any other.
#include <actor/victim.hpp>

using namespace denizen;
using namespace denizen::test;

namespace {

struct Change { // 12 bytes of the input
    uint8_t section;
    uint8_t how;
    uint16_t at;
    uint32_t value;
    uint32_t other;
};
static_assert(sizeof(Change) == 12);

void apply(const Change& c, Parts& parts)
{
    Bytes& bytes = parts.sections[c.section % parts.sections.size()].second;
    if (bytes.size() < 8 || c.how % 16 == 0) { // another length
        bytes.resize(c.at % (bytes.size() + 80));
        return;
    }
    const size_t place = (uint64_t{c.at} << 8 | c.how) % (bytes.size() / 4) * 4;
    uint32_t word = 0;
    std::memcpy(&word, bytes.data() + place, sizeof word);
    switch (c.how % 8) {
    case 1: word = c.value; break;
    case 2: word += c.value % 16; break;
    case 3: word -= c.value % 16; break;
    case 4: word ^= 1u << c.value % 32; break;
    case 5: word = c.value % 256; break;
    case 6: std::memcpy(&word, bytes.data() + c.value % (bytes.size() / 4) * 4, sizeof word); break;
    default: bytes[place + c.value % 4] ^= static_cast<uint8_t>(1 << c.other % 8); return;
    }
    std::memcpy(bytes.data() + place, &word, sizeof word);
}

struct Base {
    Folder folder;
    std::vector<Parts> whole; // at rest, under load, of two nodes
    Base()
    {
        for (uint32_t i = 0; i < 3; ++i) {
            const std::string path = folder.file("base");
            save_victim(options(i), path, i == 1);
            whole.emplace_back(path);
        }
    }
    static Options options(uint32_t i, const std::string& restore = {})
    {
        return small(i == 2 ? 2 : 3, i == 2 ? 2 : 1, restore);
    }
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size)
{
    static Base& base = *new Base;
    if (size < 1 + sizeof(Change)) {
        return 0;
    }
    const uint32_t which = data[0] % 3;
    Parts parts = base.whole[which];
    for (size_t at = 1; at + sizeof(Change) <= size && at < 1 + 8 * sizeof(Change);
         at += sizeof(Change)) {
        Change c;
        std::memcpy(&c, data + at, sizeof c);
        apply(c, parts);
    }
    const std::string path = base.folder.file("changed");
    parts.write(path);
    fate_of(Base::options(which, path), base.folder.file("again"));
    return 0;
}
