// SPDX-License-Identifier: Apache-2.0
// A lens that sleeps in the program play until somebody attaches: nothing is lost from an attach to
// its detach, and the program notices neither.
#include "played.hpp"

#include <chrono>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>

namespace {

using namespace std::chrono_literals;

class Attach : public Played {
protected:
    void SetUp() override
    {
        Played::SetUp();
        sockets = folder / "sockets";
        ASSERT_EQ(mkfifo((folder / "in").c_str(), 0600), 0);
    }

    // Four threads that ring until end().
    void begin(const std::string& variables = "")
    {
        running = std::thread([this, variables] {
            run = play("'until told' 4 <" + (folder / "in").string(),
                       "DENIZEN_LENS_DIR= DENIZEN_LENS_SOCKETS=" + sockets.string() + variables);
        });
        input.open(folder / "in"); // waits for the program
        for (int k = 0; k < 2000 && text(folder / "out") != "ringing\n"; ++k) {
            std::this_thread::sleep_for(5ms);
        }
        ASSERT_FALSE(socket_of().empty());
    }

    void end()
    {
        input.close();
        running.join();
    }

    fs::path socket_of() const
    {
        std::error_code none_yet;
        for (const auto& entry : fs::directory_iterator(sockets, none_yet)) {
            return entry.path();
        }
        return {};
    }

    int connect_to() const
    {
        const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        sockaddr_un place{};
        place.sun_family = AF_UNIX;
        strncpy(place.sun_path, socket_of().c_str(), sizeof place.sun_path - 1);
        EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&place), sizeof place), 0);
        return fd;
    }

    static void say(int fd, const std::string& line)
    {
        EXPECT_EQ(send(fd, line.data(), line.size(), MSG_NOSIGNAL),
                  static_cast<ssize_t>(line.size()));
    }

    static std::string heard(int fd)
    {
        std::string line;
        for (char c = 0; recv(fd, &c, 1, 0) == 1 && c != '\n';) {
            line += c;
        }
        return line;
    }

    // What was logged from the answer to the attach until that to the detach.
    LogFile attached_for(std::chrono::milliseconds time, const std::string& mode)
    {
        const int fd = connect_to();
        say(fd, "attach " + mode + " " + (folder / "logs").string() + "\n");
        const std::string told = heard(fd);
        EXPECT_EQ(told.substr(0, 9), "attached ") << told;
        std::this_thread::sleep_for(time);
        say(fd, "detach\n");
        EXPECT_EQ(heard(fd), "detached");
        close(fd);
        return read_log(told.substr(9));
    }

    fs::path sockets;
    std::ofstream input;
    std::thread running;
    PlayedRun run;
};

// Segments of each channel that follow each other without a gap: first and last.
std::map<uint32_t, std::pair<uint32_t, uint32_t>> spans(const LogFile& log)
{
    std::map<uint32_t, std::pair<uint32_t, uint32_t>> found;
    for (const Doorbell& d : log.doorbells) {
        for (const auto& [entry, words] : d.segments) {
            const auto [at, is_first] = found.try_emplace(d.record.channel, words[0], words[0]);
            if (!is_first) {
                EXPECT_EQ(words[0], ++at->second.second);
            }
        }
    }
    return found;
}

TEST_F(Attach, NothingIsLostBetweenAttachAndDetach)
{
    begin();
    const LogFile first = attached_for(200ms, "full");
    const LogFile second = attached_for(100ms, "full");
    end();
    ASSERT_TRUE(run.is_good()) << run.err;
    const auto early = spans(first), late = spans(second);
    for (const LogFile* log : {&first, &second}) {
        ASSERT_TRUE(log->has_end);
        EXPECT_EQ(log->end.doorbells, log->doorbells.size());
        EXPECT_EQ(log->end.lost_records + log->end.unknown_tokens, 0u);
        EXPECT_EQ(log->pages.size(), 2u);
        EXPECT_EQ(log->channels.size(), 4u);
        EXPECT_EQ(log->engines.size(), 4u);
        EXPECT_EQ(log->threads.size(), 4u); // told again in the second
        EXPECT_FALSE(log->names.empty());
        for (const Doorbell& d : log->doorbells) {
            EXPECT_EQ(d.record.header.flags, 0u);
        }
    }
    EXPECT_GT(first.doorbells.size(), 100u);
    std::istringstream sent(run.out.substr(std::string("ringing\n").size()));
    for (uint32_t k = 0; k < 4; ++k) {
        uint32_t count = 0;
        ASSERT_TRUE(sent >> count);
        EXPECT_GT(early.at(k).first, 0u); // not what it was sent before
        EXPECT_LT(early.at(k).second, late.at(k).first);
        EXPECT_LT(late.at(k).second, count);
    }
    EXPECT_TRUE(socket_of().empty());
    EXPECT_EQ(run.err, "");
}

TEST_F(Attach, WhoGoesIsDetached)
{
    begin();
    const int fd = connect_to();
    say(fd, "attach count " + (folder / "logs").string() + "\n");
    const std::string path = heard(fd).substr(9);
    const int other = connect_to();
    EXPECT_EQ(heard(other), "error somebody else is attached to it");
    close(other);
    close(fd);
    for (int k = 0; k < 2000 && !read_log(path).has_end; ++k) {
        std::this_thread::sleep_for(5ms);
    }
    EXPECT_TRUE(read_log(path).has_end);
    EXPECT_GT(attached_for(50ms, "count").doorbells.size(), 0u);
    end();
    EXPECT_TRUE(run.is_good()) << run.err;
}

TEST_F(Attach, EachLogBeginsWithTheNotesOfTheStart)
{
    set_version("999.42.01");
    std::ofstream(folder / "control");
    begin(" DENIZEN_LENS_FORCE=1 CUDA_MPS_PIPE_DIRECTORY=" + folder.string());
    const LogFile first = attached_for(10ms, "count");
    const LogFile second = attached_for(10ms, "count");
    end();
    ASSERT_TRUE(run.is_good()) << run.err;
    for (const LogFile* log : {&first, &second}) {
        ASSERT_EQ(log->notes.size(), 2u);
        EXPECT_NE(log->notes[0].find("999.42.01"), std::string::npos);
        EXPECT_NE(log->notes[1].find("MPS"), std::string::npos);
    }
}

TEST_F(Attach, TheProgramMayEndMeanwhile)
{
    begin();
    const int fd = connect_to();
    say(fd, "attach count " + (folder / "logs").string() + "\n");
    const std::string path = heard(fd).substr(9);
    end();
    EXPECT_EQ(heard(fd), "");
    close(fd);
    EXPECT_TRUE(run.is_good()) << run.err;
    EXPECT_TRUE(read_log(path).has_end);
}

TEST_F(Attach, AProcessThatHadNoDescriptorLeftCanBeAttachedToLater)
{
    begin();
    const auto pid = static_cast<pid_t>(std::stoi(socket_of().filename().string()));
    rlimit before{};
    ASSERT_EQ(prlimit(pid, RLIMIT_NOFILE, nullptr, &before), 0);
    const rlimit none{0, before.rlim_max};
    ASSERT_EQ(prlimit(pid, RLIMIT_NOFILE, &none, nullptr), 0);
    const int in_vain = connect_to();
    std::this_thread::sleep_for(50ms);
    ASSERT_EQ(prlimit(pid, RLIMIT_NOFILE, &before, nullptr), 0);
    close(in_vain);
    const int fd = connect_to();
    const timeval patience{10, 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    say(fd, "attach count " + (folder / "logs").string() + "\n");
    EXPECT_EQ(heard(fd).substr(0, 9), "attached ");
    close(fd);
    end();
    EXPECT_TRUE(run.is_good()) << run.err;
}

// Whoever comes second waits for the log of whoever came first.
TEST_F(Attach, DetachedAtTheEndTheLogIsWhole)
{
    for (int k = 0; k < 20; ++k) {
        begin();
        const int fd = connect_to();
        say(fd, "attach full " + (folder / "logs").string() + "\n");
        const std::string path = heard(fd).substr(9);
        say(fd, "detach\n");
        std::this_thread::sleep_for(k * 100us);
        end();
        close(fd);
        ASSERT_TRUE(run.is_good()) << run.err;
        EXPECT_TRUE(read_log(path).has_end) << k;
        empty_logs();
    }
}

TEST_F(Attach, WrongLinesAreAnsweredAndTheProgramGoesOn)
{
    begin();
    for (const auto& [line, told] : std::vector<std::pair<std::string, std::string>>{
             {"attach all /tmp\n", "error expected: attach count|full DIRECTORY"},
             {"\n", "error expected: attach count|full DIRECTORY"},
             {"attach count /nonexistent\n",
              "cannot create the file: No such file or directory"}}) {
        const int fd = connect_to();
        say(fd, line);
        EXPECT_NE(heard(fd).find(told), std::string::npos) << line;
        close(fd);
    }
    EXPECT_GT(attached_for(50ms, "count").doorbells.size(), 0u);
    end();
    EXPECT_TRUE(run.is_good()) << run.err;
}

TEST_F(Attach, AFolderThatOthersMayWriteToIsRefused)
{
    fs::create_directories(folder / "open");
    fs::permissions(folder / "open", fs::perms::all);
    const PlayedRun open =
        play("once", "DENIZEN_LENS_DIR= DENIZEN_LENS_SOCKETS=" + (folder / "open").string());
    EXPECT_TRUE(open.is_good());
    EXPECT_NE(open.err.find("must be the user's own with mode 700"), std::string::npos) << open.err;
    EXPECT_TRUE(fs::is_empty(folder / "open"));
}

} // namespace
