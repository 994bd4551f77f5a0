// SPDX-License-Identifier: Apache-2.0
// Files and sockets for a program's handlers: a thread of the host that takes the requests of
// io/messages.hpp out of the egress rings, does them in batches, and sends the answers. It ends
// before its runtime does. Host only.
//
//   denizen::Runtime<P> rt(denizen::Device::gpu());
//   denizen::io::Service files(rt, {.root = "/var/log/mine", .modes = mode});
//   rt.send(writer, Begin{files.open("today.log", mode)});
//
// The workers know nothing of it, and a program without a service pays nothing for it. Operations
// go through io_uring where the kernel allows it, else the thread does them itself by pread, pwrite
// and poll; the answers are the same.
//
// What may be reached is what the options say: files below `root`, in the modes of `modes`, never
// over a symbolic link; the addresses of `connect` and `listen`.
//
// Back-pressure: while as much is under way as the options allow, the service takes no request. The
// egress ring fills, then the senders' outboxes (docs/runtime.md#back-pressure). An answer waits
// for room in its worker's host ring, and those behind it wait too.
#pragma once

#include <denizen/actor/any_runtime.hpp>
#include <denizen/actor/program.hpp>
#include <denizen/io/messages.hpp>

#include <memory>
#include <string>
#include <vector>

namespace denizen {
template <class P>
class Runtime;
}

namespace denizen::io {

enum class Engine : uint32_t {
    automatic, // io_uring, else portable
    uring,     // Errc::bad_argument where the kernel does not allow it
    portable,  // neither io_uring nor openat2
};

struct Options {
    std::string root;                 // empty: no files
    uint32_t modes = mode_read;       // that an Open may ask for
    uint32_t files = 64;              // and sockets, open at a time: 1 to 4096
    uint32_t requests = 256;          // under way at a time: 1 to 4096
    uint64_t bytes = 64 << 20;        // of these; at least one goes on in any case
    std::vector<std::string> connect; // "127.0.0.1:9000", "[::1]:9000", "name:9000"
    std::vector<std::string> listen;  // port 0: any; see Service::address()
    Engine engine = Engine::automatic;
};

// Reads and accepts of one socket that may wait at a time. One more is Error::limit.
inline constexpr uint32_t waiting_reads = 16;

// The program's message types that the service knows.
struct Types {
    struct Request {
        uint32_t type;
        Op op;
        uint32_t capacity; // of a Write: its N
    };
    struct Answer {
        uint32_t type;
        uint32_t capacity; // of a Data: its N
    };
    std::vector<Request> requests;
    std::vector<Answer> data;
    uint32_t done = no_type;
};

struct Stats {
    const char* engine = "";
    uint32_t open = 0;        // files and sockets
    uint64_t requests = 0;    // taken
    uint64_t answered = 0;    // of these
    uint64_t failed = 0;      // of these: with an error
    uint64_t undelivered = 0; // answers that their actor could not be given
    std::string first_undelivered;
    uint64_t bytes_read = 0;
    uint64_t bytes_written = 0;
    uint64_t operations = 0; // of the system, some for several writes
    // io_uring: calls that began these; what the service's thread writes itself needs none.
    uint64_t submissions = 0;
};

namespace detail {

template <class M>
void add_type(Types& types, uint32_t type)
{
    if constexpr (requires { M::io_done; }) {
        types.done = type;
    } else if constexpr (requires { M::io_data; }) {
        types.data.push_back({type, M::io_data});
    } else if constexpr (requires { M::io_capacity; }) {
        types.requests.push_back({type, M::io_op, M::io_capacity});
    } else if constexpr (requires { M::io_op; }) {
        types.requests.push_back({type, M::io_op, 0});
    }
}

template <class P>
struct TypesOf;
template <class... A, class... M>
struct TypesOf<Program<Actors<A...>, Messages<M...>>> {
    static Types get()
    {
        Types types;
        uint32_t type = 0;
        (add_type<M>(types, type++), ...);
        return types;
    }
};

} // namespace detail

class Service {
public:
    // Errc::bad_argument: the program has no Done, an option is outside its range, the root is no
    // folder, an address is none, or the program has a service. Errc::failed: cannot listen.
    Service(AnyRuntime& runtime, Types types, const Options& options);
    template <class P>
    Service(Runtime<P>& runtime, const Options& options)
        : Service(runtime.untyped(), detail::TypesOf<P>::get(), options)
    {
    }
    ~Service(); // close()
    Service(const Service&) = delete;
    Service& operator=(const Service&) = delete;

    // Opens a file as an Open does; its number, for actors. Errc::bad_argument with what was wrong.
    uint32_t open(const std::string& path, uint32_t mode);
    // Where it listens: "127.0.0.1:41234".
    const std::string& address(size_t place) const;
    // Returns once all that had been sent is answered, but for what waits on a socket.
    // Errc::timeout.
    void drain(nanoseconds deadline);
    Stats stats() const;
    // Does what has been sent, answers what waits on sockets with Error::cancelled, closes all
    // files, and ends the thread. Requests that come later wait for receive(). Before the runtime
    // is closed; harmless when called again. Operations that take longer than the deadline are
    // cancelled.
    void close(nanoseconds deadline = std::chrono::seconds(5)) noexcept;

private:
    struct Desk;
    std::unique_ptr<Desk> desk_;
};

} // namespace denizen::io
