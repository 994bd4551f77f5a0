// SPDX-License-Identifier: Apache-2.0
// Files with a model's states made to harm: changes to the sections of valid ones, the checksums
// computed anew. What comes of it is refused by name, or restored, and then every stream answers.
#include "fuzz/changes.hpp"
#include "fuzz/pieces.hpp"

#include <denizen/infer/chip.hpp>

#include <infer/tests/reference.hpp>

using namespace denizen;
using namespace denizen::fuzz;
using test::Folder;
using test::Parts;

namespace {

constexpr uint32_t width = 5;
constexpr uint32_t streams = 3;

struct Base {
    Folder folder;
    infer::Builder builder{width, 1};
    infer::Engine engine{made(builder), {.streams = streams, .parts = 1, .spin = {}}, nullptr};
    Parts whole{saved()};

    static const infer::Model& made(infer::Builder& b)
    {
        b.linear(b.gru(b.lstm(b.conv1d(0, 6, 3, 2), 7), 4), 2);
        return b.model();
    }
    std::string saved()
    {
        for (uint32_t s = 0; s < streams; ++s) infer::ask(engine, s, infer::noise(width, s));
        const std::string path = folder.file("base");
        engine.save(path);
        return path;
    }
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size)
{
    static Base& base = *new Base;
    Parts parts = base.whole;
    apply_all(data, size, parts);
    const std::string path = base.folder.file("changed");
    parts.write(path);
    try {
        base.engine.restore(path);
    } catch (const Error& error) {
        trap_unless(error.code() == Errc::bad_snapshot);
        trap_unless(std::string(error.what()).rfind("snapshot \"", 0) == 0);
    }
    for (uint32_t s = 0; s < streams; ++s) {
        infer::ask(base.engine, s, infer::noise(width, s));
    }
    return 0;
}
