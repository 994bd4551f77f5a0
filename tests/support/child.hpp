// SPDX-License-Identifier: Apache-2.0
// A second process with a program on the GPU, to be stopped or killed: it runs one test of this
// executable, and shares a page of words with the test that starts it.
#pragma once

#include <actor/places.hpp>

#include <csignal>
#include <sys/mman.h>

namespace denizen::test {

// The first words of the page: one that changes as long as the child's kernel runs, how far the
// child has come, that it may end, and how often its kernel was launched.
enum Word { beats, phase, go_on, launched, words };

inline uint32_t peek(const uint32_t* page, Word w)
{
    return load<Scope::system, Order::acquire>(&page[w]);
}

class Child {
public:
    explicit Child(const char* test)
    {
        fd_ = memfd_create("denizen-test", 0);
        EXPECT_EQ(ftruncate(fd_, bytes), 0);
        page_ = shared_page(fd_);
        const std::string number = std::to_string(fd_);
        setenv("DENIZEN_TEST_PAGE", number.c_str(), 1);
        const std::string filter = std::string("--gtest_filter=") + test;
        const char* arguments[] = {"child", filter.c_str(), nullptr};
        EXPECT_EQ(posix_spawn(&pid_, "/proc/self/exe", nullptr, nullptr,
                              const_cast<char* const*>(arguments), environ),
                  0);
        unsetenv("DENIZEN_TEST_PAGE");
    }
    ~Child()
    {
        if (!reaped_) {
            kill(pid_, SIGKILL);
            waitpid(pid_, nullptr, 0);
        }
        munmap(page_, bytes);
        close(fd_);
    }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;

    // In the child: the page, mapped for the GPU; null in the parent's own run of that test.
    static uint32_t* page_of_parent()
    {
        const char* fd = std::getenv("DENIZEN_TEST_PAGE");
        if (fd == nullptr) {
            return nullptr;
        }
        uint32_t* page = shared_page(std::atoi(fd));
        EXPECT_EQ(cudaHostRegister(page, bytes, cudaHostRegisterPortable), cudaSuccess);
        return page;
    }

    uint32_t* page() { return page_; }
    bool reached(uint32_t p)
    {
        return eventually([&] { return peek(page_, phase) >= p; }, 60s);
    }
    void signal(int number) { EXPECT_EQ(kill(pid_, number), 0); }
    // Waits for its end.
    int status()
    {
        int s = 0;
        const bool ended = eventually([&] { return waitpid(pid_, &s, WNOHANG) == pid_; }, 60s);
        reaped_ = ended;
        EXPECT_TRUE(ended);
        return s;
    }

private:
    static constexpr size_t bytes = 4096;

    static uint32_t* shared_page(int fd)
    {
        void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        return p == MAP_FAILED ? nullptr : static_cast<uint32_t*>(p);
    }

    int fd_ = -1;
    uint32_t* page_ = nullptr;
    pid_t pid_ = 0;
    bool reaped_ = false;
};

// The word has stopped changing; says how long after `since`.
inline uint64_t stopped_after(const uint32_t* page, uint64_t since)
{
    uint32_t last = peek(page, beats);
    uint64_t changed = since;
    while (now_ns() - changed < 1'000'000'000 && now_ns() - since < 20'000'000'000) {
        std::this_thread::sleep_for(2ms);
        if (const uint32_t seen = peek(page, beats); seen != last) {
            last = seen;
            changed = now_ns();
        }
    }
    return changed - since;
}

// The child's kernel goes on without its host, leaves within the host_timeout of one second, and is
// there again, with what it had to do, when the host is.
inline void leaves_while_its_host_is_stopped(Child& child)
{
    ASSERT_TRUE(child.reached(1));
    ASSERT_TRUE(eventually([&] { return peek(child.page(), beats) > 1000; }));
    child.signal(SIGSTOP);
    const uint64_t since = now_ns();
    const uint32_t at_stop = peek(child.page(), beats);
    EXPECT_TRUE(eventually([&] { return peek(child.page(), beats) != at_stop; }))
        << "the program itself does not need the host";
    EXPECT_LT(stopped_after(child.page(), since), 2'000'000'000u);
    const uint32_t at_rest = peek(child.page(), beats);
    child.signal(SIGCONT);
    EXPECT_TRUE(eventually([&] { return peek(child.page(), beats) > at_rest; }));
    store<Scope::system, Order::release>(&child.page()[go_on], 1u);
    EXPECT_EQ(child.status(), 0);
    EXPECT_GE(peek(child.page(), launched), 2u);
}

inline void leaves_when_its_host_is_killed(Child& child)
{
    ASSERT_TRUE(child.reached(1));
    ASSERT_TRUE(eventually([&] { return peek(child.page(), beats) > 1000; }));
    child.signal(SIGKILL);
    EXPECT_LT(stopped_after(child.page(), now_ns()), 2'000'000'000u);
    const int status = child.status();
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

} // namespace denizen::test
