// SPDX-License-Identifier: Apache-2.0
// I/O from handlers: an actor writes a file through the host's I/O service and reads it back.
#include <denizen/actor/runtime.hpp>
#include <denizen/io/service.hpp>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <unistd.h>

namespace io = denizen::io;

constexpr uint32_t numbers = 1000;
using Number = io::Write<8>;
using Piece = io::Data<1000>;

struct Begin {
    uint32_t file;
};
struct Sum {
    uint64_t sum;
    uint32_t errors;
};

// Writes the numbers 0, 1, 2, ... of 8 bytes each, reads them back, and adds them up.
struct Keeper {
    uint32_t file = 0;
    uint32_t written = 0;
    uint32_t errors = 0;
    uint64_t sum = 0;

    DENIZEN_HD void on(const Begin& m, auto& ctx)
    {
        file = m.file;
        for (uint64_t i = 0; i < numbers; ++i) {
            Number number{file, 0, 8, 0, i * 8, {}};
            for (uint32_t byte = 0; byte < 8; ++byte) {
                number.bytes[byte] = static_cast<uint8_t>(i >> (8 * byte));
            }
            ctx.send(denizen::host, number);
        }
    }
    DENIZEN_HD void on(const io::Done& m, auto& ctx)
    {
        errors += m.error != 0 ? 1 : 0;
        if (++written == numbers) {
            ctx.send(denizen::host, io::Read{file, 0, 1000, 0, io::next});
        }
    }
    DENIZEN_HD void on(const Piece& m, auto& ctx)
    {
        errors += m.error != 0 ? 1 : 0;
        for (uint32_t i = 0; i < m.length; ++i) {
            sum += static_cast<uint64_t>(m.bytes[i]) << (8 * (i % 8));
        }
        if (m.length != 0) {
            ctx.send(denizen::host, io::Read{file, 0, 1000, 0, io::next});
        } else {
            ctx.send(denizen::host, Sum{sum, errors});
        }
    }
};

using Keeping = denizen::Program<denizen::Actors<Keeper>,
                                 denizen::Messages<Begin, Number, io::Read, io::Done, Piece, Sum>>;

int main(int argc, char** argv)
{
    const bool cpu = argc > 1 && std::strcmp(argv[1], "cpu") == 0;
    std::string folder = (std::filesystem::temp_directory_path() / "denizen_XXXXXX").string();
    if (mkdtemp(folder.data()) == nullptr) {
        std::perror(folder.c_str());
        return 1;
    }
    Sum sum{};
    {
        denizen::Runtime<Keeping> rt(cpu ? denizen::Device::cpu() : denizen::Device::automatic());
        io::Options options;
        options.root = folder;
        options.modes = io::mode_read | io::mode_write | io::mode_create;
        io::Service files(rt, options);
        rt.send(rt.spawn<Keeper>(), Begin{files.open("numbers", options.modes)});
        using namespace std::chrono_literals;
        sum = rt.receive<Sum>(30s);
        std::printf("%u numbers by %s on %s: ", numbers, files.stats().engine,
                    rt.description().device.c_str());
    }
    std::filesystem::remove_all(folder);
    // `next` is where the last operation at `next` has ended: nowhere yet, so reading begins at 0.
    std::printf("sum %llu, %u errors\n", static_cast<unsigned long long>(sum.sum), sum.errors);
    return sum.errors == 0 && sum.sum == numbers * (numbers - 1) / 2 ? 0 : 1;
}
