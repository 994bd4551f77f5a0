// SPDX-License-Identifier: Apache-2.0
// The workers of one chain of resident blocks, as their host sees them: they are told what they are
// for, get jobs by turns, and what they answer is passed on. They stop with it.
#pragma once

#include <denizen/flow/resident.hpp>

#include <functional>

namespace denizen::flow {

class detail::Engine::ResidentWorkers {
public:
    using OnDone = std::function<void(const resident::Done&)>;

    // `on_done` is called by whoever collects for the runtime, on any thread, until this is gone:
    // an owner has it as the last of its members.
    ResidentWorkers(Resident& resident, OnDone on_done);
    ~ResidentWorkers();
    ResidentWorkers(const ResidentWorkers&) = delete;
    ResidentWorkers& operator=(const ResidentWorkers&) = delete;

    // `setup`: without chain and memory, of which each worker gets its own. Throws as
    // Runtime::spawn() and buffer() do.
    void start(uint32_t count, resident::Setup setup);

    void set(uint32_t stage, const std::vector<float>& values);
    void set(uint32_t stage, float a, float b);

    // To the next of them.
    void send(const resident::Job& job);
    size_t count() const { return workers_.size(); }
    // Errc::timeout if `what`, "a quantum has", has been there since before the host's patience.
    void check_patience(const char* what, uint64_t since_ns) const;

    void done(const resident::Done& message) { on_done_(message); }

private:
    template <class M>
    void tell_all(uint32_t type, const M& message);

    Resident& resident_;
    OnDone on_done_;
    uint32_t number_;
    std::vector<Address> workers_;
    std::vector<Buffer> areas_;
    size_t next_ = 0; // of the workers
};

} // namespace denizen::flow
