// SPDX-License-Identifier: Apache-2.0
// An actor that passes on what the host gives it to the I/O service, and to the host what comes
// back; and a folder for the test's files.
#pragma once

#include <denizen/io/service.hpp>

#include <actor/places.hpp>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <string>
#include <unistd.h>

namespace denizen::test {

using Line = io::Write<44>;
using Long = io::Write<3000>;
using Chunk = io::Data<1000>;
using Page = io::Data<4096>;

struct Agent {
    DENIZEN_HD void on(const io::Open& m, auto& ctx) { ctx.send(host, m); }
    DENIZEN_HD void on(const io::Connect& m, auto& ctx) { ctx.send(host, m); }
    DENIZEN_HD void on(const io::Accept& m, auto& ctx) { ctx.send(host, m); }
    DENIZEN_HD void on(const io::Read& m, auto& ctx) { ctx.send(host, m); }
    DENIZEN_HD void on(const Line& m, auto& ctx) { ctx.send(host, m); }
    DENIZEN_HD void on(const Long& m, auto& ctx) { ctx.send(host, m); }
    DENIZEN_HD void on(const io::ReadInto& m, auto& ctx) { ctx.send(host, m); }
    DENIZEN_HD void on(const io::WriteFrom& m, auto& ctx) { ctx.send(host, m); }
    DENIZEN_HD void on(const io::Sync& m, auto& ctx) { ctx.send(host, m); }
    DENIZEN_HD void on(const io::Close& m, auto& ctx) { ctx.send(host, m); }
    DENIZEN_HD void on(const io::Done& m, auto& ctx) { ctx.send(host, m); }
    DENIZEN_HD void on(const Chunk& m, auto& ctx) { ctx.send(host, m); }
    DENIZEN_HD void on(const Page& m, auto& ctx) { ctx.send(host, m); }
};

// A writer of its own: so many lines as fast as it can, then the count of those that were done.
struct Begin {
    uint32_t file;
    uint32_t lines;
};
struct Finished {
    uint32_t done;
    uint32_t failed;
    uint64_t bytes;
};
struct Writer {
    uint32_t left = 0;
    uint32_t failed = 0;
    uint32_t done = 0;
    uint64_t bytes = 0;

    DENIZEN_HD void on(const Begin& m, auto& ctx)
    {
        left = m.lines;
        for (uint32_t i = 0; i < m.lines; ++i) {
            Line line{};
            line.file = m.file;
            line.tag = i;
            line.offset = io::next;
            line.length = 8;
            for (uint32_t digit = 0, n = i; digit < 7; ++digit, n /= 10) {
                line.bytes[6 - digit] = static_cast<uint8_t>('0' + n % 10);
            }
            line.bytes[7] = '\n';
            ctx.send(host, line);
        }
    }
    DENIZEN_HD void on(const io::Done& m, auto& ctx)
    {
        failed += m.error != 0 || m.tag != done ? 1 : 0; // in the order in which it asked
        bytes += m.bytes;
        ++done;
        if (--left == 0) {
            ctx.send(host, Finished{done, failed, bytes});
        }
    }
};

using IoProgram =
    Program<Actors<Agent, Writer>,
            Messages<io::Open, io::Connect, io::Accept, io::Read, Line, Long, io::ReadInto,
                     io::WriteFrom, io::Sync, io::Close, io::Done, Page, Chunk, Begin, Finished>>;

class Folder {
public:
    Folder()
    {
        std::string name = (std::filesystem::temp_directory_path() / "denizen_io_XXXXXX").string();
        path_ = mkdtemp(name.data()) != nullptr ? name : "";
        EXPECT_FALSE(path_.empty());
    }
    ~Folder()
    {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;

    const std::string& path() const { return path_; }
    std::string operator/(const std::string& name) const { return path_ + "/" + name; }
    std::string read(const std::string& name) const
    {
        std::ifstream in(path_ + "/" + name, std::ios::binary);
        return {std::istreambuf_iterator<char>(in), {}};
    }
    void write(const std::string& name, const std::string& text) const
    {
        std::ofstream(path_ + "/" + name, std::ios::binary) << text;
    }

private:
    std::string path_;
};

inline std::string pattern(size_t bytes)
{
    std::string text(bytes, ' ');
    uint32_t x = 1;
    for (char& c : text) {
        x = x * 1664525 + 1013904223;
        c = static_cast<char>(x >> 24);
    }
    return text;
}

inline io::Open open_of(const std::string& path, uint32_t mode, uint32_t tag = 1)
{
    io::Open m{tag, mode, {}};
    std::memcpy(m.path, path.data(), std::min<size_t>(path.size(), io::path_bytes));
    return m;
}

template <class W>
W write_of(uint32_t file, const std::string& text, uint64_t offset = io::next, uint32_t tag = 0)
{
    W m{};
    m.file = file;
    m.tag = tag;
    m.length = static_cast<uint32_t>(text.size());
    m.offset = offset;
    std::memcpy(m.bytes, text.data(), std::min<size_t>(text.size(), sizeof m.bytes));
    return m;
}

inline constexpr uint32_t all_modes = io::mode_read | io::mode_write | io::mode_append |
                                      io::mode_create | io::mode_exclusive | io::mode_truncate;
inline constexpr uint32_t new_file = io::mode_write | io::mode_create;

inline const char* name_of(uint32_t error) { return io::to_string(static_cast<io::Error>(error)); }

// A program with an agent and a service, by both engines.
class IoTest : public testing::TestWithParam<std::tuple<Place, io::Engine>> {
protected:
    void SetUp() override
    {
        if (place().device.kind == Device::Kind::gpu && !gpu_here()) {
            GTEST_SKIP() << "no GPU";
        }
        try {
            start({});
        } catch (const Error& e) {
            if (engine() == io::Engine::uring && e.code() == Errc::bad_argument) {
                GTEST_SKIP() << e.what();
            }
            throw;
        }
    }
    void TearDown() override { stop(); }

    const Place& place() const { return std::get<0>(GetParam()); }
    io::Engine engine() const { return std::get<1>(GetParam()); }

    void start(io::Options o, uint32_t egress_slots = 0)
    {
        stop();
        Options options;
        options.workers = place().workers;
        options.mapped = place().mapped;
        if (egress_slots != 0) {
            options.egress_slots = egress_slots;
        }
        rt = std::make_unique<Runtime<IoProgram>>(place().device, options);
        agent = rt->spawn<Agent>();
        serve(std::move(o));
    }
    void serve(io::Options o)
    {
        o.root = folder.path();
        o.modes = o.modes == io::mode_read ? all_modes : o.modes;
        o.engine = engine();
        service = std::make_unique<io::Service>(*rt, o);
    }
    void stop()
    {
        service.reset();
        rt.reset();
    }

    template <class M>
    io::Done done_of(const M& request)
    {
        rt->send(agent, request);
        return rt->receive<io::Done>(20s);
    }
    template <class M>
    const char* error_of_request(const M& request)
    {
        return name_of(done_of(request).error);
    }
    template <class D>
    D data_of(const io::Read& request)
    {
        rt->send(agent, request);
        return rt->receive<D>(20s);
    }
    uint32_t opened(const std::string& path, uint32_t mode)
    {
        const io::Done d = done_of(open_of(path, mode));
        EXPECT_STREQ(name_of(d.error), "none") << path;
        return d.file;
    }

    Folder folder;
    std::unique_ptr<Runtime<IoProgram>> rt;
    Address agent;
    std::unique_ptr<io::Service> service;
};

// Two workers, and a GPU where there is one: what is special here is on the host.
inline std::vector<Place> io_places()
{
    std::vector<Place> chosen;
    for (const Place& p : places()) {
        if (std::string(p.name) == "cpu2" || std::string(p.name) == "gpu") {
            chosen.push_back(p);
        }
    }
    return chosen;
}

#define DENIZEN_BY_BOTH_ENGINES(suite)                                                             \
    INSTANTIATE_TEST_SUITE_P(at, suite,                                                            \
                             testing::Combine(testing::ValuesIn(denizen::test::io_places()),       \
                                              testing::Values(denizen::io::Engine::uring,          \
                                                              denizen::io::Engine::portable)),     \
                             [](const auto& instance) {                                            \
                                 return std::string(std::get<0>(instance.param).name) +            \
                                        (std::get<1>(instance.param) == denizen::io::Engine::uring \
                                             ? "_uring"                                            \
                                             : "_portable");                                       \
                             })

} // namespace denizen::test
