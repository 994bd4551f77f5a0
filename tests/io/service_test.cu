// SPDX-License-Identifier: Apache-2.0
// Files: data is whole and in order, and what cannot be done says why.
#include "agent.hpp"

#include <csignal>
#include <sys/resource.h>
#include <sys/stat.h>

namespace denizen::test {
namespace {

class IoFiles : public IoTest {};
DENIZEN_BY_BOTH_ENGINES(IoFiles);

TEST_P(IoFiles, lines_of_a_writer_are_whole_and_in_order)
{
    const uint32_t lines = scaled(3000);
    const Address writer = rt->spawn<Writer>();
    rt->send(writer, Begin{service->open("lines", new_file), lines});
    const auto told = rt->receive<Finished>(60s);
    EXPECT_EQ(told.done, lines);
    EXPECT_EQ(told.failed, 0u);
    EXPECT_EQ(told.bytes, uint64_t{lines} * 8);
    std::string expected;
    for (uint32_t i = 0; i < lines; ++i) {
        const std::string digits = std::to_string(i);
        expected += std::string(7 - digits.size(), '0') + digits + '\n';
    }
    EXPECT_EQ(folder.read("lines"), expected);
    service->drain(20s);
    const io::Stats s = service->stats();
    EXPECT_EQ(s.requests, lines);
    EXPECT_EQ(s.answered, lines);
    EXPECT_EQ(s.bytes_written, uint64_t{lines} * 8);
    EXPECT_STREQ(s.engine, engine() == io::Engine::uring ? "io_uring" : "portable");
    EXPECT_LT(s.submissions, s.operations) << "the service's own thread writes into the page cache";
}

// So few may be under way, and so short is the ring, that most of them wait for room.
TEST_P(IoFiles, back_pressure_loses_nothing)
{
    io::Options few;
    few.requests = 2;
    start(few, 4);
    const uint32_t lines = scaled(500);
    const Address writers[] = {rt->spawn<Writer>(), rt->spawn<Writer>()};
    for (uint32_t i = 0; i < 2; ++i) {
        rt->send(writers[i],
                 Begin{service->open("of" + std::to_string(i), new_file | io::mode_append), lines});
    }
    for (uint32_t i = 0; i < 2; ++i) {
        const auto told = rt->receive<Finished>(60s);
        EXPECT_EQ(told.done, lines);
        EXPECT_EQ(told.failed, 0u);
    }
    EXPECT_EQ(folder.read("of0").size(), lines * 8);
    EXPECT_EQ(folder.read("of0"), folder.read("of1"));
}

TEST_P(IoFiles, a_file_is_read_to_its_end)
{
    const std::string text = pattern(10'500);
    folder.write("data", text);
    const io::Done open = done_of(open_of("data", io::mode_read));
    EXPECT_EQ(open.bytes, text.size());
    std::string read;
    for (;;) { // ends with the file
        const auto d = data_of<Chunk>({open.file, 7, 1000, 0, io::next});
        EXPECT_EQ(d.file, open.file);
        EXPECT_EQ(d.tag, 7u);
        ASSERT_STREQ(name_of(d.error), "none");
        if (d.length == 0) {
            break;
        }
        read.append(reinterpret_cast<const char*>(d.bytes), d.length);
    }
    EXPECT_EQ(read, text);
    const auto beyond = data_of<Page>({open.file, 7, 4096, 0, 10'400});
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(beyond.bytes), beyond.length),
              text.substr(10'400));
}

// Many reads at offsets are under way at once; a write waits for them, and they for it.
TEST_P(IoFiles, reads_at_offsets_see_the_writes_before_them)
{
    const uint32_t file = opened("both", io::mode_read | io::mode_write | io::mode_create);
    constexpr uint32_t turns = 40;
    for (uint32_t i = 0; i < turns; ++i) {
        const std::string text(3000, static_cast<char>('a' + i % 26));
        rt->send(agent, write_of<Long>(file, text, 0, i));
        for (uint32_t part = 0; part < 3; ++part) {
            rt->send(agent, io::Read{file, i, 1000, 0, part * 1000});
        }
    }
    uint32_t dones = 0;
    uint32_t chunks = 0;
    while (dones + chunks < 4 * turns) {
        const auto m = rt->receive(20s);
        if (m.is<io::Done>()) {
            EXPECT_EQ(m.as<io::Done>().bytes, 3000u);
            ++dones;
            continue;
        }
        const auto d = m.as<Chunk>();
        ++chunks;
        ASSERT_EQ(d.length, 1000u);
        const std::string expected(1000, static_cast<char>('a' + d.tag % 26));
        EXPECT_EQ(std::string(reinterpret_cast<const char*>(d.bytes), 1000), expected);
    }
    EXPECT_EQ(dones, turns);
}

// From the last to the first, and every second one twice: none may be joined with the one before.
TEST_P(IoFiles, writes_go_to_their_offsets)
{
    constexpr uint32_t blocks = 40;
    const uint32_t file = opened("scattered", new_file);
    std::string expected;
    uint32_t sent = 0;
    for (uint32_t i = blocks; i-- > 0;) {
        const std::string text(40, static_cast<char>('A' + i));
        expected.insert(0, text);
        for (uint32_t again = 0; again <= i % 2; ++again) {
            const std::string first(40, again == i % 2 ? text[0] : '?');
            rt->send(agent, write_of<Line>(file, first, uint64_t{i} * 40, sent++));
        }
    }
    for (uint32_t i = 0; i < sent; ++i) {
        const auto d = rt->receive<io::Done>(20s);
        EXPECT_EQ(d.tag, i);
        EXPECT_EQ(d.bytes, 40u);
    }
    EXPECT_EQ(folder.read("scattered"), expected);
}

TEST_P(IoFiles, buffers_take_what_messages_do_not)
{
    constexpr uint64_t bytes = 3 << 20;
    const std::string text = pattern(bytes);
    Buffer out = rt->buffer(bytes, BufferKind::pinned);
    Buffer in = rt->buffer(bytes, BufferKind::pinned);
    std::memcpy(out.cpu(), text.data(), bytes);
    std::memset(in.cpu(), 0, bytes);
    const uint32_t file = opened("large", io::mode_read | io::mode_write | io::mode_create);
    EXPECT_EQ(done_of(io::WriteFrom{file, 1, 0, out.ref(), 1000, bytes - 1000}).bytes,
              bytes - 1000);
    EXPECT_EQ(folder.read("large"), text.substr(1000));
    service->drain(20s);
    EXPECT_EQ(service->stats().submissions != 0, engine() == io::Engine::uring)
        << "a long write is the kernel's threads'";
    const io::Done d = done_of(io::ReadInto{file, 2, 500, in.ref(), 0, bytes});
    EXPECT_STREQ(name_of(d.error), "none");
    EXPECT_EQ(d.bytes, bytes - 1500) << "it ends with the file";
    EXPECT_EQ(std::string(static_cast<const char*>(in.cpu()), d.bytes), text.substr(1500));

    EXPECT_STREQ(error_of_request(io::ReadInto{file, 1, 0, in.ref(), 1, bytes}), "bad range");
    EXPECT_STREQ(error_of_request(io::ReadInto{file, 1, 0, in.ref(), bytes + 1, 0}), "bad range");
    EXPECT_STREQ(error_of_request(io::ReadInto{file, 1, 0, BufferRef{}, 0, 1}), "stale");
}

TEST_P(IoFiles, modes_are_kept_to)
{
    folder.write("old", "12345");
    EXPECT_STREQ(error_of_request(open_of("none", io::mode_read)), "not found");
    EXPECT_STREQ(error_of_request(open_of("old", new_file | io::mode_exclusive)), "exists");
    EXPECT_STREQ(error_of_request(open_of("old", 0)), "denied");
    EXPECT_STREQ(error_of_request(open_of("old", io::mode_read | io::mode_truncate)), "denied");
    EXPECT_STREQ(error_of_request(open_of("old", 64)), "denied");
    EXPECT_EQ(folder.read("old"), "12345");

    const uint32_t reads = opened("old", io::mode_read);
    EXPECT_STREQ(error_of_request(write_of<Line>(reads, "x")), "bad file");
    const uint32_t appends = opened("old", io::mode_append);
    const auto refused = data_of<Chunk>({appends, 1, 10, 0, 0});
    EXPECT_STREQ(name_of(refused.error), "bad file");
    EXPECT_EQ(done_of(write_of<Line>(appends, "67", 0)).bytes, 2u);
    EXPECT_EQ(folder.read("old"), "1234567");
    EXPECT_STREQ(error_of_request(io::Sync{appends, 1}), "none");
    EXPECT_STREQ(error_of_request(io::Close{appends, 1}), "none");
    EXPECT_STREQ(error_of_request(io::Close{appends, 1}), "bad file");
    EXPECT_STREQ(error_of_request(write_of<Line>(appends, "x")), "bad file");
    opened("old", io::mode_write | io::mode_truncate);
    EXPECT_EQ(folder.read("old"), "");

    Line too_long = write_of<Line>(opened("new", new_file), "x");
    too_long.length = 45;
    EXPECT_STREQ(error_of_request(too_long), "bad range");
    EXPECT_STREQ(error_of_request(io::Read{reads, 1, 4097, 0, 0}), "bad range");

    io::Options reading;
    reading.modes = io::mode_read | io::mode_append;
    service.reset();
    serve(reading);
    EXPECT_STREQ(error_of_request(open_of("old", io::mode_write)), "denied");
    EXPECT_STREQ(error_of_request(open_of("other", io::mode_append | io::mode_create)), "denied");
    EXPECT_STREQ(error_of_request(open_of("old", io::mode_append)), "none");
    EXPECT_FALSE(std::filesystem::exists(folder / "other"));
}

TEST_P(IoFiles, no_path_leads_out_of_the_root)
{
    namespace fs = std::filesystem;
    const Folder outside;
    outside.write("secret", "s");
    fs::create_directory(folder / "inner");
    folder.write("inner/file", "f");
    fs::create_symlink(outside.path(), folder / "link");
    fs::create_symlink(outside / "secret", folder / "inner/secret");
    fs::create_symlink("inner/file", folder / "near");
    ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
    for (const std::string& path :
         {outside / "secret", std::string("../x"), std::string("inner/../inner/file"),
          std::string("inner/.."), std::string("link/secret"), std::string("inner/secret"),
          std::string("near"), std::string("..")}) {
        EXPECT_STREQ(error_of_request(open_of(path, io::mode_read)), "escapes") << path;
        EXPECT_STREQ(error_of_request(open_of(path, new_file)), "escapes") << path;
    }
    EXPECT_EQ(outside.read("secret"), "s");
    EXPECT_STREQ(error_of_request(open_of("inner", io::mode_read)), "not a file");
    EXPECT_STREQ(error_of_request(open_of("pipe", io::mode_read)), "not a file");
    EXPECT_STREQ(error_of_request(open_of("inner/file/x", io::mode_read)), "not a file");
    EXPECT_STREQ(error_of_request(open_of("inner/", io::mode_read)), "not a file");
    EXPECT_STREQ(error_of_request(open_of("", io::mode_read)), "not found");
    EXPECT_STREQ(error_of_request(open_of("inner//file", io::mode_read)), "none");
    EXPECT_STREQ(error_of_request(open_of("./inner/file", io::mode_read)), "none");
    EXPECT_STREQ(error_of_request(open_of("..x", new_file)), "none");
    EXPECT_STREQ(error_of_request(open_of(std::string(io::path_bytes, 'n'), new_file)), "none");
    EXPECT_TRUE(fs::exists(folder / std::string(io::path_bytes, 'n')));
}

TEST_P(IoFiles, a_full_disk_is_an_error_and_no_end)
{
    const uint32_t file = opened("full", new_file);
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
    rlimit small = before;
    small.rlim_cur = 4000;
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    const std::string text = pattern(3000);
    const io::Done first = done_of(write_of<Long>(file, text));
    const io::Done second = done_of(write_of<Long>(file, text));
    const io::Done third = done_of(write_of<Long>(file, text));
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    EXPECT_STREQ(name_of(first.error), "none");
    EXPECT_STREQ(name_of(second.error), "too large");
    EXPECT_EQ(second.bytes, 1000u) << "what there was room for";
    EXPECT_STREQ(name_of(third.error), "too large");
    EXPECT_EQ(third.bytes, 0u);
    EXPECT_EQ(folder.read("full"), text + text.substr(0, 1000));
    EXPECT_STREQ(error_of_request(write_of<Long>(file, text)), "none") << "and the file goes on";
}

TEST_P(IoFiles, files_are_limited)
{
    io::Options o;
    o.files = 2;
    start(o);
    const uint32_t one = opened("1", new_file);
    opened("2", new_file);
    EXPECT_STREQ(error_of_request(open_of("3", new_file)), "limit");
    EXPECT_STREQ(error_of_request(io::Close{one, 1}), "none");
    const uint32_t again = opened("3", new_file);
    EXPECT_NE(again, one) << "a number is not given out again";
    EXPECT_STREQ(error_of_request(write_of<Line>(one, "x")), "bad file");
    EXPECT_STREQ(error_of_request(write_of<Line>(0, "x")), "bad file");
}

// What is not for the service is for receive(), before, while and after there is one.
TEST_P(IoFiles, other_messages_reach_the_host)
{
    rt->send(agent, io::Done{});
    EXPECT_EQ(rt->receive<io::Done>(20s).tag, 0u);
    service.reset();
    rt->send(agent, io::Sync{1, 99});
    EXPECT_EQ(rt->receive<io::Sync>(20s).tag, 99u);
    rt->send(agent, io::Sync{1, 100});
    rt->drain(20s);
    serve({});
    EXPECT_EQ(rt->receive<io::Done>(20s).tag, 100u) << "sent before there was a service";
    io::Options o;
    o.root = folder.path();
    expect_error(Errc::bad_argument,
                 "the program has a service of the host already; close it first",
                 [&] { io::Service second(*rt, o); });
}

TEST_P(IoFiles, close_does_what_was_sent)
{
    const uint32_t file = opened("late", new_file);
    std::string expected;
    for (uint32_t i = 0; i < 300; ++i) {
        const std::string text = std::to_string(i) + "\n";
        expected += text;
        rt->send(agent, write_of<Line>(file, text));
    }
    rt->drain(20s);
    service->close(20s);
    EXPECT_EQ(folder.read("late"), expected);
    EXPECT_EQ(service->stats().answered, 301u);
    service->close(20s);
    expect_error(Errc::closed, "the I/O service is closed",
                 [&] { service->open("late", io::mode_read); });
    expect_error(Errc::closed, "the I/O service is closed", [&] { service->drain(1s); });
}

TEST_P(IoFiles, the_runtime_may_close_first)
{
    const uint32_t file = opened("first", new_file);
    rt->send(agent, write_of<Line>(file, "x"));
    rt->close(20s);
    service->close(20s);
}

TEST_P(IoFiles, bad_options_say_so)
{
    service.reset();
    const auto refused = [&](const std::string& pattern, const auto& change) {
        io::Options o;
        o.root = folder.path();
        change(o);
        expect_error_like(Errc::bad_argument, pattern, [&] { io::Service s(*rt, o); });
    };
    refused("files = 0; use 1 to 4096", [](auto& o) { o.files = 0; });
    refused("requests = 5000; use 1 to 4096", [](auto& o) { o.requests = 5000; });
    refused("modes = 64; .*", [](auto& o) { o.modes = 64; });
    refused("root = \"/nowhere/at/all\": No such file or directory",
            [](auto& o) { o.root = "/nowhere/at/all"; });
    refused("\"9000\" is no address; .*", [](auto& o) { o.connect = {"9000"}; });
    refused("\"::1:9000\" is no address; .*", [](auto& o) { o.listen = {"::1:9000"}; });
    refused("root = \"/tmp\\\\0...\" has a NUL in it; .*",
            [](auto& o) { o.root = std::string("/tmp\0b", 6); });
    refused("\"127.0.0.1\" is no address; .*", // what stands before a NUL
            [](auto& o) { o.connect = {std::string("127.0.0.1\0b:80", 14)}; });
    serve({}); // none of them has left a service behind
    folder.write("a", "");
    const std::string two("a\0b", 3);
    expect_error_like(Errc::bad_argument, "path = \"a\\\\0...\" has a NUL in it; .*",
                      [&] { service->open(two, io::mode_read); });
    expect_error_like(Errc::bad_argument, "\"none\" below \".*\" in mode 1: not found .*",
                      [&] { service->open("none", io::mode_read); });
}

} // namespace
} // namespace denizen::test
