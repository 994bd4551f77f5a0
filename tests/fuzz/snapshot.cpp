// SPDX-License-Identifier: Apache-2.0
// Snapshots made to harm. The input is a list of changes to a valid one: of words, bytes and
// lengths of its sections; the checksums are computed anew. What comes of it is refused by name, or
// restored, and then the program runs and ends like any other.
#include "fuzz/changes.hpp"

using namespace denizen;
using namespace denizen::fuzz;
using namespace denizen::test;

namespace {

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
    apply_all(data + 1, size - 1, parts);
    const std::string path = base.folder.file("changed");
    parts.write(path);
    fate_of(Base::options(which, path), base.folder.file("again"));
    return 0;
}
