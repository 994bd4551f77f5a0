// SPDX-License-Identifier: Apache-2.0
// The ordinary program that is watched by others: it launches when it is told to, and says how many
// launches that were, how many kernels the device counted, and the moments around them.
// denizen.lab.observers starts it alone, with the lens asleep in it, with CUPTI on, and under
// Nsight Systems. A line on stdin, then a line of JSON on stdout:
//
//   run LOOP N     N launches
//   go LOOP        a first line once launches have begun; launches until the next line comes,
//                  whatever it says, and some behind it
//   cupti on|off   CUPTI's records of kernels in this process (cupti_records.hpp)
//
// It waits for the device after every 100 launches: more would fill the ring of a channel, and a
// launch would be as long as a kernel.
#pragma once

#include "common.hpp"
#include "cupti_records.hpp"

#include <cstdint>
#include <cstring>
#include <functional>
#include <poll.h>
#include <string>
#include <unistd.h>
#include <vector>

namespace denizen::bench {

// One way to launch. `counted` is of all kernels of the loop so far, by the device.
struct ObservedLoop {
    std::string name;
    uint32_t kernels; // of one launch
    std::function<void()> launch;
    std::function<void()> wait;
    std::function<uint64_t()> counted;
};

class Observed {
public:
    explicit Observed(std::vector<ObservedLoop> loops) : loops_(std::move(loops)) {}

    // Until stdin ends.
    void obey()
    {
        for (std::string line; read_line(line);) {
            if (line == "cupti on" || line == "cupti off") {
                line == "cupti on" ? cupti_.begin() : cupti_.end();
                Json answer;
                print(answer.add("cupti", cupti_.is_on()));
                continue;
            }
            char name[16];
            unsigned count = 0;
            const int found = std::sscanf(line.c_str(), "run %15s %u", name, &count);
            if (found == 2) {
                launch(named(name), count);
            } else if (std::sscanf(line.c_str(), "go %15s", name) == 1) {
                launch(named(name), 0);
            } else {
                throw std::runtime_error("run LOOP N, go LOOP or cupti on|off expected, not " +
                                         line);
            }
        }
    }

private:
    static constexpr uint32_t between_waits = 100;

    // Byte by byte: what a buffer held back, poll would not see.
    static bool read_line(std::string& line)
    {
        line.clear();
        for (char c; ::read(STDIN_FILENO, &c, 1) == 1;) { // ends: the line's, or that of stdin
            if (c == '\n') return true;
            line += c;
        }
        return false;
    }

    static bool has_line()
    {
        pollfd asked{STDIN_FILENO, POLLIN, 0};
        return ::poll(&asked, 1, 0) != 0;
    }

    const ObservedLoop& named(const char* name) const
    {
        for (const ObservedLoop& loop : loops_)
            if (loop.name == name) return loop;
        throw std::runtime_error(std::string("no loop ") + name);
    }

    // `count` launches; 0: until a line comes, which is taken.
    void launch(const ObservedLoop& loop, uint64_t count)
    {
        const uint64_t before = loop.counted();
        cupti_.take(); // of what came before
        uint64_t made = 0;
        const auto until = [&](uint64_t number) {
            for (; made < number; ++made) loop.launch();
            loop.wait();
        };
        const uint64_t begin = now_ns();
        if (count == 0) {
            until(between_waits);
            Json going;
            print(going.add("going", true));
            while (!has_line()) until(made + between_waits); // ends: the line
            // What was done before the line was written is seen by these.
            until(made + between_waits);
            std::string line;
            read_line(line);
        }
        while (made < count) until(std::min(count, made + between_waits));
        const uint64_t end = now_ns();
        Json answer;
        answer.add("made", made).add("kernels", loop.kernels);
        answer.add("counted", loop.counted() - before).add("begin", begin).add("end", end);
        if (cupti_.is_on()) answer.add("records", cupti_.take());
        print(answer);
    }

    static void print(const Json& answer)
    {
        std::printf("%s\n", answer.str().c_str());
        std::fflush(stdout);
    }

    std::vector<ObservedLoop> loops_;
    CuptiRecords cupti_;
};

} // namespace denizen::bench
