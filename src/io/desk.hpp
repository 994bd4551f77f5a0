// SPDX-License-Identifier: Apache-2.0
// A service's thread and what it knows. One turn of it: it takes requests (taking.cpp), begins
// their operations, and answers those that are finished (lanes.cpp); service.cpp is who calls it.
#pragma once

#include "io/engine.hpp"
#include "io/files.hpp"
#include "io/network.hpp"

#include <denizen/base/process.hpp>
#include <denizen/base/threads.hpp>
#include <denizen/io/service.hpp>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>

namespace denizen::io {

struct Answer {
    Address to;
    uint32_t type;
    std::vector<unsigned char> bytes;
};

struct Listener {
    Descriptor socket;
    std::string address;
    Requests waiting;
    bool running = false;
};

// An open() of the host.
struct Call {
    const std::string& path;
    uint32_t mode;
    bool done = false;
    uint32_t file = 0;
    std::string why; // not
};

struct Service::Desk {
    Desk(AnyRuntime& runtime, Types known, const Options& wanted);
    Desk(const Desk&) = delete;
    Desk& operator=(const Desk&) = delete;

    void run();
    bool turn();

    // ---- taking.cpp
    bool take();
    bool has_room() const
    {
        return under_way < options.requests && answers.size() < options.requests &&
               (bytes < options.bytes || under_way == 0);
    }
    void handle(Message&& message, const std::vector<std::shared_ptr<Storage>>& memory);
    void open(std::unique_ptr<Request> r);
    void connect(std::unique_ptr<Request> r, uint32_t place);
    void accept(std::unique_ptr<Request> r, uint32_t place);
    void transfer(std::unique_ptr<Request> r);
    Error fill(Request& r, const File& file);
    void close(std::unique_ptr<Request> r);
    uint32_t open_file(const std::string& path, uint32_t mode, Error& error, int& number,
                       uint64_t& length);
    void answer_calls();

    // ---- lanes.cpp
    void advance(uint32_t place);
    void advance(File& file, uint32_t place, Lane& lane);
    void begin(File& file, uint32_t place, Lane& lane);
    void start(std::unique_ptr<Running> running);
    void finish(Running& running);
    void finish_transfer(Running& running, File& file, Lane& lane);
    void finish_socket(Running& running);
    void next_accept(uint32_t place);
    void close_if_idle(uint32_t place);
    void answer(Request& r, Error error, int number = 0);
    bool deliver();
    void cancel_all(bool sockets_only);
    // Nothing that ends by itself is under way.
    bool settled() const { return under_way == 0 && answers.empty() && socket_writes == 0; }

    AnyRuntime& runtime;
    const Options options;
    Types types;
    std::vector<Types::Request> request_of; // by message type; capacity and op
    Process process;
    Descriptor root;
    Files files;
    std::vector<Peer> peers;
    std::deque<Listener> listeners;
    std::unique_ptr<Doer> doer;
    std::vector<std::unique_ptr<Running>> running;
    std::deque<Answer> answers;
    uint32_t under_way = 0; // requests, but for those on sockets
    uint64_t bytes = 0;     // of these
    uint32_t socket_writes = 0;
    bool gone = false; // the runtime
    Stats live;

    std::atomic<bool> stop{false};
    std::atomic<uint64_t> stop_by_ns{0};
    std::atomic<uint64_t> idle_turns{0};
    std::atomic<bool> ended{false};
    mutable std::mutex mutex; // of the next three
    std::condition_variable called;
    std::vector<Call*> calls;
    Stats told;
    std::mutex close_mutex;
    Threads thread;
};

} // namespace denizen::io
