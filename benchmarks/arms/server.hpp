// SPDX-License-Identifier: Apache-2.0
// The other end of denizen.ab.Program: answers lines of JSON on stdin with lines on stdout. The
// protocol is at the head of python/denizen/ab/program.py.
#pragma once

#include "../common.hpp"

#include <cstdlib>
#include <functional>
#include <iostream>
#include <string>

namespace denizen::bench {

// One line of the protocol. Its values are numbers or plain words, written by json.dumps.
class Ask {
public:
    explicit Ask(std::string line) : line_(std::move(line)) {}

    std::string word(const std::string& key) const
    {
        const size_t begin = after(key);
        if (line_.at(begin) != '"') throw std::runtime_error(key + " is no text: " + line_);
        return line_.substr(begin + 1, line_.find('"', begin + 1) - begin - 1);
    }
    uint64_t number(const std::string& key) const
    {
        const char* begin = line_.c_str() + after(key);
        char* end = nullptr;
        const unsigned long long value = std::strtoull(begin, &end, 10);
        if (end == begin) throw std::runtime_error(key + " is no number: " + line_);
        return value;
    }

private:
    size_t after(const std::string& key) const
    {
        const std::string wanted = '"' + key + "\": ";
        const size_t at = line_.find(wanted);
        if (at == std::string::npos) throw std::runtime_error("no " + key + " in " + line_);
        return at + wanted.size();
    }

    std::string line_;
};

// Until stdin ends. What `answer` throws goes out as {"error": ...}.
inline void serve(const std::function<Json(const Ask&)>& answer)
{
    for (std::string line; std::getline(std::cin, line);) {
        Json reply;
        try {
            reply = answer(Ask(line));
        } catch (const std::exception& error) {
            reply = Json().add("error", std::string(error.what()));
        }
        std::printf("%s\n", reply.str().c_str());
        std::fflush(stdout);
    }
}

} // namespace denizen::bench
