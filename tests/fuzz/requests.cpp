// SPDX-License-Identifier: Apache-2.0
// What actors may ask of an I/O service: requests with any file, place, mode, length, offset, path
// and buffer. Each is answered once, nothing is written outside of the root, and the service ends.
#include <io/agent.hpp>

#include "fuzz/pieces.hpp"

using namespace denizen;
using namespace denizen::fuzz;
using namespace denizen::test;
using namespace std::chrono_literals;

namespace {

struct House {
    denizen::test::Folder above;
    std::string root = above / "root";
    Runtime<IoProgram> rt{Device::cpu(), options()};
    Address agent = rt.spawn<Agent>();
    Buffer buffer = rt.buffer(4096, BufferKind::pinned);
    House()
    {
        std::filesystem::create_directory(root);
        above.write("secret", "secret");
    }
    static Options options()
    {
        Options o;
        o.workers = 1;
        return o;
    }
};

const char* const paths[] = {"a", "b", "new/c", "../secret", "/etc/passwd", "link", ".", "a/b"};

struct Requests {
    House& house;
    io::Service& service;
    Input& in;
    uint32_t open[2]; // files
    uint32_t sent = 0;

    uint32_t file()
    {
        const uint8_t how = in.byte();
        return how % 4 == 0 ? in.word() : how % 4 == 1 ? open[0] + in.byte() : open[how / 4 % 2];
    }
    uint64_t number() // small, or any
    {
        const uint8_t how = in.byte();
        return how % 4 == 0 ? in.take<uint64_t>() : how % 4 == 1 ? io::next : in.take<uint16_t>();
    }
    template <class M>
    void send(const M& m)
    {
        try {
            house.rt.send(house.agent, m);
            ++sent;
        } catch (const Error& error) { // a buffer that is none does not even leave
            trap_unless(error.code() == Errc::stale);
        }
    }
    template <class W>
    void write()
    {
        W m{};
        m.file = file();
        m.length = static_cast<uint32_t>(number());
        m.offset = number() % (1 << 20);
        m.offset = in.byte() % 4 == 0 ? number() | uint64_t{1} << 63 : m.offset;
        send(m);
    }
    template <class M>
    void transfer()
    {
        M m{};
        m.file = file();
        m.offset = in.byte() % 8 == 0 ? number() | uint64_t{1} << 63 : number() % (1 << 20);
        m.buffer = house.buffer.ref();
        if (in.byte() % 8 == 0) change(m.buffer, in);
        m.begin = number();
        m.length = number();
        send(m);
    }
    void one()
    {
        switch (in.byte() % 10) {
        case 0: {
            const uint8_t which = in.byte();
            io::Open m = open_of(paths[which % std::size(paths)], which / 8 % 64);
            change(m, in);
            return send(m);
        }
        case 1: return send(io::Connect{1, in.byte() % 4 == 0 ? in.word() : in.byte() % 3u});
        case 2: return send(io::Accept{1, in.byte() % 4 == 0 ? in.word() : in.byte() % 2u});
        case 3: {
            io::Read m{};
            m.file = file();
            m.length = static_cast<uint32_t>(number());
            m.offset = number();
            return send(m);
        }
        case 4: return write<Line>();
        case 5: return write<Long>();
        case 6: return transfer<io::ReadInto>();
        case 7: return transfer<io::WriteFrom>();
        case 8: return send(io::Sync{file(), 1});
        default: return send(io::Close{file(), 1});
        }
    }
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size)
{
    static House& house = *new House;
    Input in{data, size};
    for (const auto& entry : std::filesystem::directory_iterator(house.root)) {
        std::filesystem::remove_all(entry.path());
    }
    std::filesystem::create_symlink("../secret", house.root + "/link");
    io::Options o;
    o.root = house.root;
    o.modes = all_modes;
    o.files = 8;
    o.requests = 1 + in.byte() % 8;
    o.listen = {"127.0.0.1:0"};
    o.connect = {"127.0.0.1:1"};
    o.engine = io::Engine::portable;
    uint32_t sent = 0;
    {
        io::Service service(house.rt, o);
        Requests requests{house,
                          service,
                          in,
                          {service.open("a", io::mode_read | new_file),
                           service.open("b", io::mode_append | io::mode_create)}};
        while (in.size != 0 && requests.sent < 64) requests.one(); // ends with the input
        sent = requests.sent;
        house.rt.drain(10s); // the agent has passed them on
        service.close(5s);
        const io::Stats stats = service.stats();
        trap_unless(stats.requests == sent && stats.answered == sent && stats.undelivered == 0);
    }
    for (uint32_t i = 0; i < sent; ++i) { // each answer, by way of the agent
        house.rt.receive(10s);
    }
    house.rt.drain(10s);
    bool more = true;
    try {
        house.rt.receive(1ms);
    } catch (const Error& error) {
        more = error.code() != Errc::empty && error.code() != Errc::timeout;
    }
    trap_unless(!more);
    trap_unless(house.above.read("secret") == "secret");
    return 0;
}
