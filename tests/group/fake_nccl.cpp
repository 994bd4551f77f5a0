// SPDX-License-Identifier: Apache-2.0
// A driver and an NCCL without a GPU, for tests of the engine between hosts: one library that
// answers to the name libcuda.so.1 once it is loaded. Device memory is the host's, a stream is a
// thread that does one thing after the other, and ranks (threads or processes) meet in shared
// memory. As the real ones do, initialisation and the first call say "in progress" before they are
// done, work is done later than it is enqueued, and an abort ends what waits for a rank.
//
// FAKE_NCCL_ERROR_AFTER=n: the n-th collective is accepted, and then fails as if a rank were gone.
// FAKE_NCCL_ABORT_TAKES_S=n: an abort takes n seconds.
#include <denizen/group/number.hpp>

#include <atomic>
#include <chrono>
#include <climits>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <time.h>
#include <unistd.h>
#include <utility>
#include <vector>

#define FAKE extern "C" __attribute__((visibility("default")))

namespace {

// --- the driver ---

constexpr int not_ready = 600;

class Stream {
public:
    Stream() : thread_([this] { work(); }) {}
    ~Stream()
    {
        {
            const std::lock_guard lock(mutex_);
            ends_ = true;
        }
        changed_.notify_all();
        thread_.join();
    }
    void add(std::function<void()> todo)
    {
        const std::lock_guard lock(mutex_);
        todo_.push_back(std::move(todo));
        changed_.notify_all();
    }
    bool idle()
    {
        const std::lock_guard lock(mutex_);
        return todo_.empty();
    }
    void wait()
    {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return todo_.empty(); });
    }

private:
    void work()
    {
        std::unique_lock lock(mutex_);
        for (;;) { // ends with the stream
            changed_.wait(lock, [this] { return ends_ || !todo_.empty(); });
            if (todo_.empty()) return;
            const auto one = todo_.front();
            lock.unlock();
            one();
            lock.lock();
            todo_.pop_front();
            changed_.notify_all();
        }
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::function<void()>> todo_;
    bool ends_ = false;
    std::thread thread_;
};

} // namespace

FAKE int cuInit(unsigned) { return 0; }
FAKE int cuDriverGetVersion(int* version)
{
    *version = 13000;
    return 0;
}
FAKE int cuGetErrorName(int, const char** text)
{
    *text = "CUDA_ERROR_FAKE";
    return 0;
}
FAKE int cuGetErrorString(int, const char** text)
{
    *text = "the fake driver does not do that";
    return 0;
}
FAKE int cuDeviceGet(int* device, int ordinal)
{
    *device = ordinal;
    return 0;
}
FAKE int cuDeviceGetCount(int* count)
{
    *count = 8;
    return 0;
}
FAKE int cuDeviceGetName(char* name, int length, int)
{
    std::strncpy(name, "Fake GPU", static_cast<size_t>(length));
    return 0;
}
FAKE int cuDeviceGetAttribute(int* value, int, int)
{
    *value = 9;
    return 0;
}
FAKE int cuDeviceGetUuid_v2(void* uuid, int device)
{
    std::memset(uuid, device + 1, 16);
    return 0;
}
FAKE int cuDeviceTotalMem_v2(size_t* bytes, int)
{
    *bytes = size_t{1} << 30;
    return 0;
}
FAKE int cuDevicePrimaryCtxRetain(void** context, int device)
{
    *context = reinterpret_cast<void*>(static_cast<intptr_t>(device) + 1);
    return 0;
}
FAKE int cuDevicePrimaryCtxRelease_v2(int) { return 0; }
FAKE int cuCtxPushCurrent_v2(void*) { return 0; }
FAKE int cuCtxPopCurrent_v2(void**) { return 0; }
FAKE int cuMemAlloc_v2(unsigned long long* at, size_t bytes)
{
    *at = reinterpret_cast<uintptr_t>(std::malloc(bytes));
    return *at != 0 ? 0 : 2;
}
FAKE int cuMemFree_v2(unsigned long long at)
{
    std::free(reinterpret_cast<void*>(at));
    return 0;
}
FAKE int cuMemsetD8Async(unsigned long long at, unsigned char value, size_t bytes, Stream* stream)
{
    stream->add([=] { std::memset(reinterpret_cast<void*>(at), value, bytes); });
    return 0;
}
FAKE int cuMemcpyDtoHAsync_v2(void* to, unsigned long long from, size_t bytes, Stream* stream)
{
    stream->add([=] { std::memcpy(to, reinterpret_cast<void*>(from), bytes); });
    return 0;
}
FAKE int cuStreamCreateWithPriority(Stream** stream, unsigned, int)
{
    *stream = new Stream;
    return 0;
}
FAKE int cuStreamDestroy_v2(Stream* stream)
{
    delete stream;
    return 0;
}
FAKE int cuStreamQuery(Stream* stream) { return stream->idle() ? 0 : not_ready; }
FAKE int cuStreamSynchronize(Stream* stream)
{
    stream->wait();
    return 0;
}

// --- NCCL ---

namespace {

using namespace denizen::group;

constexpr int invalid_argument = 4;
constexpr int invalid_usage = 5;
constexpr int remote_error = 6;
constexpr int in_progress = 7;
constexpr int most = 8;
constexpr size_t part = 1 << 16;

struct Id {
    char name[128];
};

// What all ranks of a communicator share. The counts go up; memory is zero at first.
struct Room {
    std::atomic<uint32_t> steps[most];
    unsigned char data[most][part];
};

void nap()
{
    const timespec time{0, 20'000};
    nanosleep(&time, nullptr);
}

struct Comm {
    Room* room = nullptr;
    int ranks = 0;
    int rank = 0;
    std::string name;
    std::atomic<bool> aborted{false};
    std::atomic<int> state{in_progress};
    uint32_t step = 0; // of the thread that works
    int calls = 0;
    std::thread starter;
    std::mutex mutex;
    std::vector<Stream*> streams;

    // Until all have come as far. False if aborted.
    bool meet()
    {
        room->steps[rank].store(++step);
        for (int r = 0; r < ranks; ++r) {
            while (static_cast<int32_t>(room->steps[r].load() - step) < 0) { // ends so, or aborted
                if (aborted) return false;
                nap();
            }
        }
        return true;
    }
    // Everybody shows a piece, and `look` sees all of them.
    template <class Look>
    bool show(const void* from, size_t bytes, const Look& look)
    {
        if (from != nullptr) std::memcpy(room->data[rank], from, bytes);
        if (!meet()) return false;
        look();
        return meet();
    }
};

const unsigned char* bytes_at(const void* p, size_t offset)
{
    return static_cast<const unsigned char*>(p) + offset;
}
unsigned char* bytes_at(void* p, size_t offset) { return static_cast<unsigned char*>(p) + offset; }

size_t size_of_type(int type)
{
    constexpr size_t sizes[] = {0, 1, 4, 0, 8, 0, 2, 4, 8, 2, 1, 1}; // by ncclDataType_t
    return type >= 0 && static_cast<size_t>(type) < std::size(sizes) ? sizes[type] : 0;
}

template <class T>
void reduce(Comm& comm, int nccl_op, void* out, size_t count)
{
    const Op op = nccl_op == 0   ? Op::sum
                  : nccl_op == 2 ? Op::max
                  : nccl_op == 3 ? Op::min
                                 : Op::avg;
    const auto at = [&](int r, size_t i) {
        T value;
        std::memcpy(&value, comm.room->data[r] + i * sizeof(T), sizeof(T));
        return widen(value);
    };
    for (size_t i = 0; i < count; ++i) {
        auto sum = at(0, i);
        for (int r = 1; r < comm.ranks; ++r) sum = combine(op, sum, at(r, i));
        const T result = Narrow<T>::of(conclude(op, sum, static_cast<uint32_t>(comm.ranks)));
        std::memcpy(bytes_at(out, i * sizeof(T)), &result, sizeof(T));
    }
}

void reduce(Comm& comm, int type, int op, void* out, size_t bytes)
{
    if (type == 2) reduce<int32_t>(comm, op, out, bytes / 4);
    if (type == 7) reduce<float>(comm, op, out, bytes / 4);
    if (type == 6) reduce<Half>(comm, op, out, bytes / 2);
    if (type == 9) reduce<BFloat>(comm, op, out, bytes / 2);
    if (type == 8) reduce<double>(comm, op, out, bytes / 8);
    if (type == 4) reduce<int64_t>(comm, op, out, bytes / 8);
    if (type == 1) reduce<uint8_t>(comm, op, out, bytes);
    if (type == 10) reduce<Float8E4M3>(comm, op, out, bytes);
    if (type == 11) reduce<Float8E5M2>(comm, op, out, bytes);
}

// piece(offset, bytes) for all of `total`; false as soon as one is.
template <class Piece>
bool in_pieces(size_t total, const Piece& piece)
{
    for (size_t at = 0; at < total; at += part) {
        if (!piece(at, total - at < part ? total - at : part)) return false;
    }
    return true;
}

// What a thread has called between ncclGroupStart and ncclGroupEnd.
struct Transfer {
    Comm* comm;
    Stream* stream;
    const void* from;
    void* to;
    size_t bytes;
    int peer;
};

// What a thread has between a group's start and its end. Not thread_local: the loader frees a
// library's thread-local memory where ThreadSanitizer cannot see that the thread has ended.
struct Grouped {
    bool open = false;
    std::vector<Transfer> transfers;
};
Grouped& mine()
{
    static std::mutex mutex;
    static std::map<std::thread::id, Grouped> all;
    const std::lock_guard lock(mutex);
    return all[std::this_thread::get_id()];
}

int enqueue(Comm* comm, Stream* stream, std::function<bool()> body)
{
    if (comm->state == in_progress) return invalid_usage;
    const int call = ++comm->calls;
    {
        const std::lock_guard lock(comm->mutex);
        comm->streams.push_back(stream);
    }
    const char* const bad = std::getenv("FAKE_NCCL_ERROR_AFTER");
    if (bad != nullptr && call >= std::atoi(bad)) {
        body = [comm] {
            comm->state = remote_error;
            while (!comm->aborted) nap(); // ends with the abort
            return false;
        };
    }
    if (call != 1) {
        stream->add([body = std::move(body)] { body(); });
        return 0;
    }
    comm->state = in_progress; // the first call connects the ranks
    stream->add([comm, body = std::move(body)] {
        nap();
        comm->state = 0;
        body();
    });
    return in_progress;
}

} // namespace

FAKE int ncclGetVersion(int* version)
{
    *version = 22809;
    return 0;
}
FAKE const char* ncclGetErrorString(int result)
{
    return result == remote_error ? "remote process exited or there was a network error" : "fake";
}
FAKE const char* ncclGetLastError(Comm*) { return "told by the fake"; }

FAKE int ncclGetUniqueId(Id* id)
{
    static std::atomic<int> number{0};
    const char* const multicast = std::getenv("NCCL_NVLS_ENABLE");
    if (multicast == nullptr || std::strcmp(multicast, "0") != 0) return invalid_usage;
    std::memset(id, 0, sizeof *id);
    const std::string name =
        "/denizen-fake-" + std::to_string(getpid()) + "-" + std::to_string(++number);
    std::strncpy(id->name, name.c_str(), sizeof id->name - 1);
    const int fd = shm_open(id->name, O_CREAT | O_EXCL | O_RDWR, 0600);
    const bool made = fd >= 0 && ftruncate(fd, sizeof(Room)) == 0;
    if (fd >= 0) close(fd);
    return made ? 0 : 2;
}

FAKE int ncclCommInitRankConfig(Comm** out, int ranks, Id id, int rank, const void* config)
{
    struct {
        size_t size;
        unsigned magic;
        unsigned version;
        int blocking;
    } head;
    std::memcpy(&head, config, sizeof head);
    if (head.size < 24 || head.magic != 0xcafebeef || head.version < 21400 || head.blocking != 0 ||
        ranks > most) {
        return invalid_argument;
    }
    const int fd = shm_open(id.name, O_RDWR, 0600);
    if (fd < 0) return invalid_argument;
    auto* const comm = new Comm;
    void* const at = mmap(nullptr, sizeof(Room), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    comm->room = static_cast<Room*>(at);
    comm->ranks = ranks;
    comm->rank = rank;
    comm->name = id.name;
    comm->starter = std::thread([comm] {
        if (!comm->meet()) return;
        shm_unlink(comm->name.c_str()); // everybody has it
        comm->state = 0;
    });
    *out = comm;
    return in_progress;
}

FAKE int ncclCommGetAsyncError(Comm* comm, int* state)
{
    *state = comm->state;
    return 0;
}
FAKE int ncclCommFinalize(Comm* comm)
{
    return comm->state == 0 ? 0 : static_cast<int>(comm->state);
}
FAKE int ncclCommAbort(Comm* comm)
{
    if (const char* const late = std::getenv("FAKE_NCCL_ABORT_TAKES_S"); late != nullptr) {
        std::this_thread::sleep_for(std::chrono::seconds(std::atoi(late)));
    }
    comm->aborted = true;
    comm->starter.join();
    for (Stream* const s : comm->streams) s->wait();
    shm_unlink(comm->name.c_str());
    munmap(comm->room, sizeof(Room));
    delete comm;
    return 0;
}
FAKE int ncclCommDestroy(Comm* comm) { return ncclCommAbort(comm); }

FAKE int ncclAllReduce(const void* in, void* out, size_t count, int type, int op, Comm* comm,
                       Stream* stream)
{
    return enqueue(comm, stream, [=] {
        return in_pieces(count * size_of_type(type), [&](size_t at, size_t n) {
            return comm->show(bytes_at(in, at), n,
                              [&] { reduce(*comm, type, op, bytes_at(out, at), n); });
        });
    });
}
FAKE int ncclReduceScatter(const void* in, void* out, size_t count, int type, int op, Comm* comm,
                           Stream* stream)
{
    const size_t bytes = count * size_of_type(type);
    return enqueue(comm, stream, [=] {
        bool good = true;
        for (int r = 0; good && r < comm->ranks; ++r) {
            good = in_pieces(bytes, [&](size_t at, size_t n) {
                return comm->show(bytes_at(in, static_cast<size_t>(r) * bytes + at), n, [&] {
                    if (r == comm->rank) reduce(*comm, type, op, bytes_at(out, at), n);
                });
            });
        }
        return good;
    });
}
FAKE int ncclAllGather(const void* in, void* out, size_t count, int type, Comm* comm,
                       Stream* stream)
{
    const size_t bytes = count * size_of_type(type);
    return enqueue(comm, stream, [=] {
        return in_pieces(bytes, [&](size_t at, size_t n) {
            return comm->show(bytes_at(in, at), n, [&] {
                for (int r = 0; r < comm->ranks; ++r) {
                    std::memcpy(bytes_at(out, static_cast<size_t>(r) * bytes + at),
                                comm->room->data[r], n);
                }
            });
        });
    });
}
FAKE int ncclBroadcast(const void* in, void* out, size_t count, int type, int root, Comm* comm,
                       Stream* stream)
{
    return enqueue(comm, stream, [=] {
        return in_pieces(count * size_of_type(type), [&](size_t at, size_t n) {
            return comm->show(comm->rank == root ? bytes_at(in, at) : nullptr, n,
                              [&] { std::memcpy(bytes_at(out, at), comm->room->data[root], n); });
        });
    });
}

FAKE int ncclGroupStart()
{
    mine() = {true, {}};
    return 0;
}
FAKE int ncclSend(const void* from, size_t count, int type, int peer, Comm* comm, Stream* stream)
{
    if (!mine().open) return invalid_usage;
    mine().transfers.push_back({comm, stream, from, nullptr, count * size_of_type(type), peer});
    return 0;
}
FAKE int ncclRecv(void* to, size_t count, int type, int peer, Comm* comm, Stream* stream)
{
    if (!mine().open) return invalid_usage;
    mine().transfers.push_back({comm, stream, nullptr, to, count * size_of_type(type), peer});
    return 0;
}
// Only what makes an all-to-all: as much to every rank as from every rank.
FAKE int ncclGroupEnd()
{
    const std::vector<Transfer> all = std::exchange(mine(), Grouped{}).transfers;
    if (all.empty()) return 0;
    Comm* const comm = all[0].comm;
    if (all.size() != 2 * static_cast<size_t>(comm->ranks)) return invalid_usage;
    return enqueue(comm, all[0].stream, [=] {
        std::vector<const void*> from(most);
        std::vector<void*> to(most);
        for (const Transfer& t : all) {
            if (t.from != nullptr) from[static_cast<size_t>(t.peer)] = t.from;
            if (t.to != nullptr) to[static_cast<size_t>(t.peer)] = t.to;
        }
        bool good = true;
        for (int receiver = 0; good && receiver < comm->ranks; ++receiver) {
            good = in_pieces(all[0].bytes, [&](size_t at, size_t n) {
                return comm->show(bytes_at(from[static_cast<size_t>(receiver)], at), n, [&] {
                    for (int r = 0; receiver == comm->rank && r < comm->ranks; ++r) {
                        std::memcpy(bytes_at(to[static_cast<size_t>(r)], at), comm->room->data[r],
                                    n);
                    }
                });
            });
        }
        return good;
    });
}
