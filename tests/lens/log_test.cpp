// SPDX-License-Identifier: Apache-2.0
// The log: many threads, a ring that is too small, a file that does not take any more.
#include "lens/log.hpp"
#include "read_log.hpp"

#include <atomic>
#include <cerrno>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <iterator>
#include <memory>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

using namespace denizen::lens;
namespace fs = std::filesystem;

namespace {

class LogTest : public testing::Test {
protected:
    void SetUp() override
    {
        std::string name = fs::temp_directory_path() / "lens-log-XXXXXX";
        ASSERT_TRUE(mkdtemp(name.data()));
        folder = name;
        std::memcpy(header.magic, log_magic, 8);
        header.version = log_version;
        header.header_bytes = sizeof header;
    }
    void TearDown() override { fs::remove_all(folder); }

    fs::path folder;
    LogHeader header{};
    Log log;
};

TEST_F(LogTest, EveryRecordOfEveryThreadOnce)
{
    constexpr uint32_t threads = 4, each = 20000;
    ASSERT_EQ(log.open((folder / "log").c_str(), header, 1 << 18),
              nullptr); // smaller than what follows
    std::vector<std::thread> pool;
    for (uint32_t t = 0; t < threads; ++t) {
        pool.emplace_back([&, t] {
            for (uint32_t n = 0; n < each; ++n) {
                NoteRecord r{};
                r.time_ns = uint64_t{t} << 32 | n;
                const std::string text(n % 97, static_cast<char>('a' + t));
                r.text_bytes = static_cast<uint32_t>(text.size());
                EXPECT_TRUE(log.write(Kind::note, r, text.data(), text.size()));
            }
        });
    }
    for (auto& t : pool) {
        t.join();
    }
    EndRecord end{};
    log.close(end);
    EXPECT_EQ(end.lost_records, 0u);
    const LogFile file = read_log(folder / "log");
    ASSERT_TRUE(file.has_end);
    ASSERT_EQ(file.notes.size(), threads * each);
    std::vector<uint32_t> next(threads);
    for (const std::string& text : file.notes) { // those of a thread in its order
        if (!text.empty()) {
            auto& n = next.at(static_cast<size_t>(text[0] - 'a'));
            n += n % 97 == 0;
            ASSERT_EQ(text.size(), n % 97);
            ++n;
        }
    }
    EXPECT_FALSE(log.write(Kind::note, NoteRecord{})); // closed
}

TEST_F(LogTest, FlushedRecordsAreInTheFile)
{
    ASSERT_EQ(log.open((folder / "log").c_str(), header, 1 << 16), nullptr);
    ASSERT_TRUE(log.write(Kind::thread, ThreadRecord{}));
    log.flush();
    const LogFile file = read_log(folder / "log");
    EXPECT_EQ(file.threads.size(), 1u);
    EXPECT_FALSE(file.has_end);
    EndRecord end{};
    log.close(end);
}

// A pipe that nobody empties stands for a disk that hangs: a thread waits two seconds, once, and
// what is missing is told where it is missing.
TEST_F(LogTest, AFileThatHangsCostsTwoSecondsOnce)
{
    const std::string path = folder / "pipe";
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    std::atomic<bool> go{false};
    std::string bytes;
    std::thread reader([&] {
        const int fd = open(path.c_str(), O_RDONLY);
        while (!go.load()) { // ends: set below
            usleep(1000);
        }
        char piece[4096];
        for (ssize_t n; (n = read(fd, piece, sizeof piece)) > 0;) {
            bytes.append(piece, static_cast<size_t>(n));
        }
        close(fd);
    });
    ASSERT_EQ(log.open(path.c_str(), header, 1 << 16), nullptr);
    DoorbellRecord d{};
    d.entries = 100;
    const std::vector<uint64_t> entries(100, 7);
    const auto write = [&] { return log.write(Kind::doorbell, d, entries.data(), 800); };
    uint32_t written = 0, refused = 0;
    while (write()) { // ends: pipe and ring are full
        ++written;
    }
    ++refused;
    const uint64_t start = now_ns();
    for (int k = 0; k < 50; ++k) {
        refused += !write();
    }
    EXPECT_LT(now_ns() - start, 20'000'000'000u); // not two seconds each
    EXPECT_EQ(refused, 51u);
    go.store(true);
    log.flush();
    for (int k = 0; k < 3; ++k) {
        EXPECT_TRUE(write());
    }
    EndRecord end{};
    log.close(end);
    reader.join();
    EXPECT_EQ(end.lost_records, 51u);
    EXPECT_EQ(end.lost_doorbells, 51u);
    EXPECT_EQ(end.lost_bytes, 51u * 888);
    EXPECT_GE(end.waits, 1u);
    std::ofstream(folder / "log", std::ios::binary) << bytes;
    const LogFile file = read_log(folder / "log");
    EXPECT_EQ(file.doorbells.size(), written + 3u);
    uint64_t told = 0;
    for (const auto& loss : file.losses) {
        told += loss.doorbells;
    }
    EXPECT_EQ(told, 51u);
}

TEST_F(LogTest, WhatCannotBeOpened)
{
    EXPECT_STREQ(log.open((folder / "no" / "log").c_str(), header, 1 << 16),
                 "cannot create the file");
    Log other;
    EXPECT_STREQ(other.open("/dev/full", header, 1 << 16), "cannot write the file");
    EXPECT_FALSE(other.is_open());
}

size_t open_files()
{
    const fs::directory_iterator all("/proc/self/fd");
    return static_cast<size_t>(std::distance(begin(all), end(all)));
}

TEST_F(LogTest, WhatCannotBeOpenedLeavesNoFileOpen)
{
    const std::string path = folder / "log";
    const size_t before = open_files();
    EXPECT_STREQ(log.open(path.c_str(), header, size_t{1} << 63), "no memory for the log");
    EXPECT_EQ(errno, EINVAL); // a length below 0
    EXPECT_STREQ(log.open(path.c_str(), header, size_t{1} << 62), "no addresses for the log");
    EXPECT_EQ(errno, ENOMEM);
    EXPECT_STREQ(log.open("/dev/full", header, 1 << 16), "cannot write the file");
    EXPECT_EQ(errno, ENOSPC);
    EXPECT_EQ(open_files(), before);
    ASSERT_EQ(log.open(path.c_str(), header, 1 << 18), nullptr); // as good as new
    EXPECT_TRUE(log.write(Kind::thread, ThreadRecord{}));
    EndRecord end{};
    log.close(end);
    EXPECT_EQ(read_log(path).threads.size(), 1u);
    EXPECT_EQ(open_files(), before);
}

} // namespace
