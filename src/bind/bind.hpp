// SPDX-License-Identifier: Apache-2.0
// What the files of the extension module share.
#pragma once

#include <denizen/actor/any_runtime.hpp>
#include <denizen/base/interrupt.hpp>

#include <nanobind/nanobind.h>

#include <unistd.h>
#include <utility>
#include <vector>

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

// Python's main thread, in which alone its signal handlers run. Set as the module is initialised.
inline unsigned long main_thread = 0;

// Runs Python's signal handlers, in its main thread; throws what they raise, as KeyboardInterrupt.
// Any other has none to run, and may wait longer than the interpreter lives: it does not ask for
// the GIL.
inline void check_signals()
{
    if (PyThread_get_thread_ident() != main_thread) {
        return;
    }
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

// What the module has, and the file that adds it. Of the core:
void errors(nanobind::module_& m);    // errors.cpp: exceptions
void compilers(nanobind::module_& m); // compilers.cpp: the driver, NVRTC, nvJitLink
void images(nanobind::module_& m);    // image.cpp: Image, a compiled program of actors
void handlers(nanobind::module_& m);  // handlers.cpp: programs of handlers that come at run time
void buffers(nanobind::module_& m);   // buffer.cpp: Buffer
void arenas(nanobind::module_& m);    // arena.cpp: Arena
void runtimes(nanobind::module_& m);  // runtime.cpp: Runtime, with all of the following
void clusters(nanobind::module_& m);  // cluster.cpp: links to other hosts
void services(nanobind::module_& m);  // io.cpp: files and sockets for handlers
void tasks(nanobind::module_& m);     // tasks.cpp: programs of tasks
void flows(nanobind::module_& m);     // flow.cpp: flow graphs
void groups(nanobind::module_& m);    // group.cpp: groups of ranks

// What handlers and tasks may call of their context beside handler_calls() and task_calls()
// (src/actor/handlers.hpp, src/task/functions.hpp), by name: the collectives. In group.cpp.
std::vector<std::pair<const char*, void*>> collective_calls();

// Runtime's methods:
void spawning(nanobind::class_<AnyRuntime>& runtime);  // spawning.cpp: new actors, names
void sending(nanobind::class_<AnyRuntime>& runtime);   // messages.cpp, as the next two
void asking(nanobind::class_<AnyRuntime>& runtime);    //
void receiving(nanobind::class_<AnyRuntime>& runtime); //
void observing(nanobind::class_<AnyRuntime>& runtime); // observing.cpp: counts, telemetry
void life(nanobind::class_<AnyRuntime>& runtime);      // life.cpp: lives, supervision
void snapshots(nanobind::class_<AnyRuntime>& runtime); // snapshot.cpp: snapshots, migration
void topics(nanobind::class_<AnyRuntime>& runtime);    // topics.cpp
void tracing(nanobind::class_<AnyRuntime>& runtime);   // tracing.cpp

// Of the kit and the applications, in their own folders' bind.cpp:
void signals(nanobind::module_& m);
void models(nanobind::module_& m);
void graphs(nanobind::module_& m);
void process_mining(nanobind::module_& m);
void radios(nanobind::module_& m);
void transaction_stages(nanobind::module_& m);
void waves(nanobind::module_& m);

} // namespace denizen::bind
