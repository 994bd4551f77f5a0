// SPDX-License-Identifier: Apache-2.0
// What the files of the extension module share.
#pragma once

#include <denizen/actor/any_runtime.hpp>
#include <denizen/base/interrupt.hpp>

#include <nanobind/nanobind.h>

#include <unistd.h>

namespace denizen::bind {

// Takes the GIL by `take()`. While the interpreter ends, CPython (to 3.13) ends every other thread
// that wants it by a forced unwinding, which may not go through C++ that must not throw: such a
// thread stays here until the process is gone, as with later versions.
template <class Take>
auto take_gil(Take&& take) noexcept
{
    try {
        return take();
    } catch (...) {
        for (;;) { // ends with the process
            pause();
        }
    }
}

// With the GIL, from any thread.
class Locked {
public:
    Locked() : state_(take_gil([] { return PyGILState_Ensure(); })) {}
    ~Locked() { PyGILState_Release(state_); }
    Locked(const Locked&) = delete;
    Locked& operator=(const Locked&) = delete;

private:
    PyGILState_STATE state_;
};

// Runs Python's signal handlers, in its main thread; throws what they raise, as KeyboardInterrupt.
inline void check_signals()
{
    const Locked locked;
    if (PyErr_CheckSignals() != 0) {
        throw nanobind::python_error();
    }
}

// Without the GIL. Waits look at Python's signals.
class Unlocked {
public:
    Unlocked() : state_(PyEval_SaveThread()) {}
    ~Unlocked()
    {
        take_gil([this] { PyEval_RestoreThread(state_); });
    }
    Unlocked(const Unlocked&) = delete;
    Unlocked& operator=(const Unlocked&) = delete;

private:
    Interruptible interruptible_{&check_signals};
    PyThreadState* state_;
};

inline nanoseconds seconds(double s)
{
    return nanoseconds(s <= 0    ? 0
                       : s > 1e9 ? static_cast<int64_t>(1e18)
                                 : static_cast<int64_t>(s * 1e9));
}

// A buffer of Python's for the length of a call.
class Bytes {
public:
    Bytes(nanobind::handle object, bool writable)
    {
        if (PyObject_GetBuffer(object.ptr(), &view_, writable ? PyBUF_CONTIG : PyBUF_CONTIG_RO) !=
            0) {
            throw nanobind::python_error();
        }
    }
    ~Bytes() { PyBuffer_Release(&view_); }
    Bytes(const Bytes&) = delete;
    Bytes& operator=(const Bytes&) = delete;

    unsigned char* data() const { return static_cast<unsigned char*>(view_.buf); }
    size_t size() const { return static_cast<size_t>(view_.len); }

private:
    Py_buffer view_{};
};

// Defines the methods about the life of actors (life.cpp).
void life(nanobind::class_<AnyRuntime>& runtime);
// Adds Arena to the module (arena.cpp).
void arenas(nanobind::module_& m);
// Those about snapshots and migration (snapshot.cpp).
void snapshots(nanobind::class_<AnyRuntime>& runtime);
// Programs of tasks (tasks.cpp).
void tasks(nanobind::module_& m);
// Those about topics (topics.cpp).
void topics(nanobind::class_<AnyRuntime>& runtime);
// Signal processing and the FM receiver (dsp.cpp).
void signals(nanobind::module_& m);
// Flow graphs (flow.cpp).
void flows(nanobind::module_& m);
// Graphs and searches (graph.cpp).
void graphs(nanobind::module_& m);
// Groups of ranks (group.cpp).
void groups(nanobind::module_& m);
// Process mining (procmine.cpp).
void process_mining(nanobind::module_& m);
// Programs of handlers that come at run time (handlers.cpp).
void handlers(nanobind::module_& m);
// Those about tracing (tracing.cpp).
void tracing(nanobind::class_<AnyRuntime>& runtime);
// Monitoring of transactions (transactions.cpp).
void transaction_stages(nanobind::module_& m);
// The wave (wave.cpp).
void waves(nanobind::module_& m);

} // namespace denizen::bind
