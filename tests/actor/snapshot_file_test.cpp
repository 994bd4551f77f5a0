// SPDX-License-Identifier: Apache-2.0
// The file of a snapshot: checksums by the published vectors, and no altered or shortened file that
// is not refused, by name.
#include "actor/crc32c.hpp"
#include "actor/sparse.hpp"
#include <denizen/actor/detail/snapshot_file.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <random>
#include <thread>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace {

using namespace denizen;
namespace fs = std::filesystem;

constexpr uint32_t layout = 7;
constexpr size_t header_bytes = 40;
constexpr size_t entry_bytes = 56;

// RFC 3720, B.4.
TEST(crc32c, is_that_of_the_rfc)
{
    std::vector<unsigned char> bytes(32, 0);
    EXPECT_EQ(crc32c(bytes.data(), 32), 0x8a9136aau);
    std::fill(bytes.begin(), bytes.end(), static_cast<unsigned char>(0xff));
    EXPECT_EQ(crc32c(bytes.data(), 32), 0x62a8ab43u);
    std::iota(bytes.begin(), bytes.end(), static_cast<unsigned char>(0));
    EXPECT_EQ(crc32c(bytes.data(), 32), 0x46dd794eu);
    std::reverse(bytes.begin(), bytes.end());
    EXPECT_EQ(crc32c(bytes.data(), 32), 0x113fdb5cu);
    unsigned char pdu[48] = {0x01, 0xc0}; // an iSCSI SCSI Read (10) command
    pdu[16] = 0x14;
    pdu[22] = 0x04;
    pdu[27] = 0x14;
    pdu[31] = 0x18;
    pdu[32] = 0x28;
    pdu[40] = 0x02;
    EXPECT_EQ(crc32c(pdu, 48), 0xd9963a56u);
}

TEST(crc32c, the_instruction_and_the_table_agree_at_all_lengths)
{
    std::mt19937 random(1);
    std::vector<unsigned char> bytes(4099);
    std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<unsigned char>(random()); });
    for (size_t begin = 0; begin < 9; ++begin) {
        for (size_t n = 0; begin + n <= bytes.size(); n = n < 70 ? n + 1 : n * 2) {
            ASSERT_EQ(crc32c(bytes.data() + begin, n), crc32c_by_table(bytes.data() + begin, n));
            const uint32_t first = crc32c(bytes.data() + begin, n / 3);
            ASSERT_EQ(crc32c(bytes.data() + begin + n / 3, n - n / 3, first),
                      crc32c(bytes.data() + begin, n));
        }
    }
}

class Files : public testing::Test {
protected:
    void SetUp() override
    {
        char name[] = "/tmp/denizen-snapshot-XXXXXX";
        ASSERT_NE(::mkdtemp(name), nullptr);
        folder = name;
        path = (folder / "state.dzs").string();
        SnapshotSection words("words");
        for (uint32_t i = 0; i < 300; ++i) {
            words.put(i * i);
        }
        SnapshotSection text("text");
        text.put_text("counting");
        text.put(uint64_t{1} << 40);
        write_snapshot(path, SnapshotKind::program, layout,
                       {words, SnapshotSection("nothing"), text});
        content = read(path);
    }
    void TearDown() override { fs::remove_all(folder); }

    static std::vector<char> read(const std::string& from)
    {
        std::ifstream in(from, std::ios::binary);
        return {std::istreambuf_iterator<char>(in), {}};
    }
    static void write(const std::string& to, const std::vector<char>& bytes)
    {
        std::ofstream out(to, std::ios::binary | std::ios::trunc);
        out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    }

    // What opening a file with these bytes is refused with.
    std::string refusal(const std::vector<char>& bytes) const
    {
        const std::string altered = (folder / "altered").string();
        write(altered, bytes);
        try {
            const SnapshotFile file(altered, SnapshotKind::program, layout);
        } catch (const Error& e) {
            EXPECT_EQ(e.code(), Errc::bad_snapshot) << e.what();
            const std::string prefix = "snapshot \"" + altered + "\" ";
            EXPECT_EQ(std::string(e.what()).substr(0, prefix.size()), prefix);
            return std::string(e.what()).substr(prefix.size());
        }
        return "accepted";
    }

    fs::path folder;
    std::string path;
    std::vector<char> content;
};

TEST_F(Files, give_back_what_was_put_in)
{
    const SnapshotFile file(path, SnapshotKind::program, layout);
    SnapshotBytes words = file.section("words");
    for (uint32_t i = 0; i < 300; ++i) {
        ASSERT_EQ(words.take<uint32_t>(), i * i);
    }
    EXPECT_EQ(words.left(), 0u);
    SnapshotBytes text = file.section("text");
    EXPECT_EQ(text.take_text(), "counting");
    EXPECT_EQ(text.take<uint64_t>(), uint64_t{1} << 40);
    EXPECT_TRUE(file.has("nothing"));
    EXPECT_EQ(file.section("nothing").left(), 0u);
    EXPECT_FALSE(file.has("more"));
    EXPECT_THROW((void)file.section("more"), Error);
    EXPECT_THROW(words.take<uint32_t>(), Error);
    EXPECT_FALSE(fs::exists(path + ".part"));
}

TEST_F(Files, say_what_is_wrong_with_them)
{
    std::vector<char> bytes = content;
    bytes[0] = 'x';
    EXPECT_EQ(refusal(bytes), "is not a denizen snapshot: its first bytes are others");
    bytes = content;
    bytes[8] = 9;
    EXPECT_EQ(refusal(bytes), "has format version 9, this build reads 2");
    bytes = content;
    bytes[header_bytes] ^= 1;
    EXPECT_EQ(refusal(bytes), "is altered: the checksum of its header does not match");
    bytes = content;
    bytes[header_bytes + 3 * entry_bytes + 17] ^= 4;
    EXPECT_EQ(refusal(bytes), "is altered: the checksum of section \"words\" does not match");
    bytes = content;
    bytes.back() ^= 0x40;
    EXPECT_EQ(refusal(bytes), "is altered: the checksum of section \"text\" does not match");
    bytes = content;
    bytes.pop_back();
    EXPECT_EQ(refusal(bytes), "is truncated: " + std::to_string(content.size() - 1) + " of " +
                                  std::to_string(content.size()) + " bytes");
    bytes = content;
    bytes.push_back(0);
    EXPECT_EQ(refusal(bytes), "is altered: " + std::to_string(content.size() + 1) +
                                  " bytes, its header says " + std::to_string(content.size()));
    EXPECT_EQ(refusal({}), "is truncated: 0 bytes, the header alone has 40");

    const auto opened_as = [&](SnapshotKind kind, uint32_t abi) -> std::string {
        try {
            const SnapshotFile file(path, kind, abi);
        } catch (const Error& e) {
            EXPECT_EQ(e.code(), Errc::bad_snapshot);
            return e.what();
        }
        return "accepted";
    };
    EXPECT_EQ(opened_as(SnapshotKind::actor, layout),
              "snapshot \"" + path + "\" holds a whole program, not one actor");
    EXPECT_EQ(opened_as(SnapshotKind::program, 8),
              "snapshot \"" + path +
                  "\" was written with memory layout 7, this program has 8; restore it with the "
                  "version that wrote it");
}

TEST_F(Files, are_refused_with_any_byte_changed)
{
    std::mt19937 random(7);
    for (size_t i = 0; i < content.size(); ++i) {
        std::vector<char> bytes = content;
        bytes[i] = static_cast<char>(bytes[i] ^ (1 << random() % 8));
        ASSERT_NE(refusal(bytes), "accepted") << "byte " << i;
        bytes[i] = static_cast<char>(~content[i]);
        ASSERT_NE(refusal(bytes), "accepted") << "byte " << i;
    }
}

TEST_F(Files, are_refused_at_any_other_length)
{
    for (size_t n = 0; n < content.size(); ++n) {
        const std::vector<char> bytes(content.begin(), content.begin() + static_cast<long>(n));
        ASSERT_NE(refusal(bytes), "accepted") << n << " bytes";
    }
}

TEST_F(Files, are_refused_when_much_of_them_is_noise)
{
    std::mt19937 random(11);
    for (int round = 0; round < 400; ++round) {
        std::vector<char> bytes = content;
        // Magic and version stay, so that the noise is looked at.
        const size_t begin = 12 + random() % (bytes.size() - 12);
        const size_t n = 1 + random() % std::min<size_t>(64, bytes.size() - begin);
        bool changed = false;
        for (size_t i = begin; i < begin + n; ++i) {
            const auto noise = static_cast<char>(random());
            changed |= noise != bytes[i];
            bytes[i] = noise;
        }
        bytes.resize(bytes.size() - (random() % 3 == 0 ? random() % 200 : 0));
        if (changed || bytes.size() != content.size()) {
            ASSERT_NE(refusal(bytes), "accepted") << "round " << round;
        }
    }
}

// A header whose checksum is right and whose numbers are not: nobody's accident, still no crash.
TEST_F(Files, are_refused_with_a_table_that_lies)
{
    const auto sealed = [&](std::vector<char> bytes) {
        uint32_t sections = 0;
        std::memcpy(&sections, bytes.data() + 20, 4);
        const uint32_t none = 0;
        std::memcpy(bytes.data() + 32, &none, 4);
        const uint32_t sum = crc32c(bytes.data(), header_bytes + sections * entry_bytes);
        std::memcpy(bytes.data() + 32, &sum, 4);
        return bytes;
    };
    ASSERT_EQ(refusal(sealed(content)), "accepted");
    const auto with = [&](size_t at, uint64_t value) {
        std::vector<char> bytes = content;
        std::memcpy(bytes.data() + at, &value, 8);
        return sealed(bytes);
    };
    const size_t second = header_bytes + entry_bytes;
    EXPECT_EQ(refusal(with(second + 32, 1)),
              "is altered: section \"nothing\" lies outside of its place");
    EXPECT_EQ(refusal(with(second + 40, ~uint64_t{0})),
              "is altered: section \"nothing\" lies outside of its place");
    EXPECT_EQ(refusal(with(second + 40, uint64_t{1} << 33)),
              "is altered: section \"nothing\" lies outside of its place");
}

TEST_F(Files, that_cannot_be_written_leave_what_was_there)
{
    const std::string nowhere = (folder / "no" / "such").string();
    try {
        write_snapshot(nowhere, SnapshotKind::actor, layout, {});
        FAIL();
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), Errc::bad_argument);
        EXPECT_EQ(e.what(), "cannot write snapshot \"" + nowhere + "\": No such file or directory");
    }
    // What a killed writer left behind is taken over.
    write(path + ".part", std::vector<char>(100000, 'x'));
    EXPECT_EQ(read(path), content);
    write_snapshot(path, SnapshotKind::actor, layout, {SnapshotSection("a")});
    EXPECT_TRUE(SnapshotFile(path, SnapshotKind::actor, layout).has("a"));
    EXPECT_FALSE(fs::exists(path + ".part"));
}

TEST_F(Files, are_this_users_alone)
{
    struct stat status{};
    ASSERT_EQ(::stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600u);
}

// Where others may write too, a name that a saver is going to open may be a link to something else.
TEST_F(Files, are_not_written_through_a_link)
{
    const std::string target = (folder / "target").string();
    const std::string part = path + ".part";
    const auto refused = [&] {
        try {
            write_snapshot(path, SnapshotKind::actor, layout, {SnapshotSection("a")});
            ADD_FAILURE();
        } catch (const Error& e) {
            EXPECT_EQ(e.code(), Errc::bad_argument);
            EXPECT_EQ(e.what(), "cannot write snapshot \"" + path + "\": \"" + part +
                                    "\" is there and is no file of this user's alone; remove it");
        }
        EXPECT_EQ(read(path), content);
        ASSERT_TRUE(fs::remove(part));
    };
    write(target, {'k', 'e', 'p', 't'});
    fs::create_symlink(target, part);
    refused();
    EXPECT_EQ(read(target).size(), 4u);
    fs::create_hard_link(target, part);
    refused();
    EXPECT_EQ(read(target).size(), 4u);
    fs::create_symlink(folder / "nobody", part); // to a file that would be made
    refused();
    EXPECT_FALSE(fs::exists(folder / "nobody"));
    ASSERT_EQ(::mkfifo(part.c_str(), 0600), 0);
    refused();
    ASSERT_TRUE(fs::create_directory(part));
    refused();
}

TEST_F(Files, wait_for_another_writer_until_the_deadline)
{
    const std::string part = path + ".part";
    const int other = ::open(part.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_GE(other, 0);
    ASSERT_EQ(::flock(other, LOCK_EX), 0);
    const auto put = [&](uint64_t deadline_ns) {
        write_snapshot(path, SnapshotKind::actor, layout, {SnapshotSection("a")}, deadline_ns);
    };
    try {
        put(20'000'000);
        ADD_FAILURE();
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), Errc::timeout);
        const std::string begin = "cannot write snapshot \"" + path + "\": another process";
        EXPECT_EQ(std::string(e.what()).substr(0, begin.size()), begin);
    }
    EXPECT_EQ(read(path), content);
    std::thread writer([&] { put(60'000'000'000); });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ::close(other); // it has died
    writer.join();
    EXPECT_TRUE(SnapshotFile(path, SnapshotKind::actor, layout).has("a"));
    EXPECT_FALSE(fs::exists(part));
}

TEST_F(Files, are_written_by_many_at_once_and_stay_whole)
{
    std::vector<std::thread> writers;
    for (uint32_t t = 0; t < 4; ++t) {
        writers.emplace_back([&, t] {
            for (uint32_t i = 0; i < 25; ++i) {
                SnapshotSection section("a");
                section.put(t);
                write_snapshot(path, SnapshotKind::actor, layout, {section}, 60'000'000'000);
            }
        });
    }
    for (std::thread& writer : writers) {
        writer.join();
    }
    EXPECT_LT(SnapshotFile(path, SnapshotKind::actor, layout).section("a").take<uint32_t>(), 4u);
    EXPECT_FALSE(fs::exists(path + ".part"));
}

TEST_F(Files, are_read_only_where_they_are_files)
{
    const std::string fifo = (folder / "fifo").string();
    ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
    for (const std::string& no_file : {fifo, folder.string(), std::string("/dev/zero")}) {
        try {
            const SnapshotFile file(no_file, SnapshotKind::program, layout);
            ADD_FAILURE();
        } catch (const Error& e) {
            EXPECT_EQ(e.code(), Errc::bad_snapshot);
            EXPECT_EQ(e.what(), "snapshot \"" + no_file + "\" is not a file");
        }
    }
}

TEST_F(Files, have_no_nul_in_their_names)
{
    const std::string two = path + std::string("\0b", 2);
    const std::string text = "snapshot \"" + path + "\\0...\" has a NUL in its name";
    const auto refused = [&](auto&& call) {
        try {
            call();
            ADD_FAILURE();
        } catch (const Error& e) {
            EXPECT_EQ(e.code(), Errc::bad_argument);
            EXPECT_EQ(e.what(), text);
        }
    };
    refused([&] { write_snapshot(two, SnapshotKind::actor, layout, {}); });
    refused([&] { const SnapshotFile file(two, SnapshotKind::program, layout); });
    EXPECT_EQ(read(path), content);
}

TEST(sparse, keeps_what_is_not_zero_and_where_it_was)
{
    std::mt19937 random(3);
    for (size_t size : {0u, 1u, 63u, 64u, 65u, 1000u, 100000u}) {
        std::vector<unsigned char> memory(size);
        for (size_t i = 0; i < size / 400 + 1 && size != 0; ++i) {
            memory[random() % size] = static_cast<unsigned char>(random());
        }
        if (size != 0) {
            memory.back() = 1;
        }
        SnapshotSection section("memory");
        put_sparse(section, memory);
        EXPECT_LE(section.bytes().size(), 8 + (size / 400 + 2) * (16 + 64));
        std::vector<unsigned char> again(size);
        take_sparse(SnapshotBytes("memory", section.bytes()), size,
                    [&](uint64_t at, std::span<const unsigned char> bytes) {
                        std::copy(bytes.begin(), bytes.end(),
                                  again.begin() + static_cast<long>(at));
                    });
        EXPECT_EQ(again, memory);
        EXPECT_THROW(take_sparse(SnapshotBytes("memory", section.bytes()), size + 1,
                                 [](uint64_t, std::span<const unsigned char>) {}),
                     Error);
    }
    SnapshotSection outside("memory");
    outside.put(uint64_t{100});
    outside.put(uint64_t{90});
    outside.put(uint64_t{11});
    EXPECT_THROW(take_sparse(SnapshotBytes("memory", outside.bytes()), 100,
                             [](uint64_t, std::span<const unsigned char>) { FAIL(); }),
                 Error);
}

} // namespace
