// SPDX-License-Identifier: Apache-2.0
// What it costs to put a program of 10,000 actors into a file, and to take it out again: until
// save() returns, and from nothing until the first actor of the restored program has answered.
// Beside the one, as many bytes written to a file of their own and brought to the disk; beside the
// other, the file read (the system has it in memory), and the same program started without one, its
// actors spawned: neither can be beaten. Every actor's state is changed before each snapshot and
// looked at in what is restored from it.
#include "snapshots.hpp"

#include "actor_program.hpp"

#include <denizen/actor/runtime.hpp>

#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

namespace denizen::bench {
namespace {

constexpr uint32_t actors = 10'000;

struct Change {
    uint32_t round;
};
struct Query {};
struct Answer {
    uint32_t self;
    uint32_t sum;
};

struct Cell {
    uint32_t word[16] = {}; // 64 bytes
    DENIZEN_HD void on(const Change& m, auto& ctx)
    {
        for (uint32_t i = 0; i < 16; ++i) word[i] = ctx.self().value * 31 + m.round * i;
    }
    DENIZEN_HD void on(const Query&, auto& ctx)
    {
        uint32_t sum = 0;
        for (const uint32_t w : word) sum += w;
        ctx.reply(Answer{ctx.self().value, sum});
    }
};

using Living = Program<Actors<Cell>, Messages<Change, Query, Answer>>;

// A folder that goes with this object.
class Folder {
public:
    Folder()
    {
        std::string name =
            (std::filesystem::temp_directory_path() / "denizen-bench-XXXXXX").string();
        if (mkdtemp(name.data()) == nullptr) throw std::runtime_error(name + " cannot be made");
        path_ = name;
    }
    ~Folder()
    {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;

    std::string file(const char* name) const { return (path_ / name).string(); }

private:
    std::filesystem::path path_;
};

bool are_as_changed(Runtime<Living>& runtime, const std::vector<Address>& cells, uint32_t round)
{
    const std::vector<Answer> answers = runtime.ask_many<Answer>(cells, Query{}, 60s);
    for (size_t i = 0; i < cells.size(); ++i)
        if (answers[i].self != cells[i].value ||
            answers[i].sum != cells[i].value * 31 * 16 + round * 120)
            return false;
    return true;
}

// Writes the file of the snapshot's size; it counts as written when it is on the disk.
bool write_and_sync(const std::string& path, const std::vector<char>& bytes)
{
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (file < 0) return false;
    size_t done = 0;
    while (done < bytes.size()) { // ends with the last byte, or an error
        const ssize_t n = write(file, bytes.data() + done, bytes.size() - done);
        if (n <= 0) break;
        done += static_cast<size_t>(n);
    }
    const bool synced = fsync(file) == 0;
    return close(file) == 0 && synced && done == bytes.size();
}

bool read_all(const std::string& path, std::vector<char>& bytes)
{
    const int file = open(path.c_str(), O_RDONLY);
    if (file < 0) return false;
    size_t done = 0;
    while (done < bytes.size()) { // ends with the last byte, or an error
        const ssize_t n = read(file, bytes.data() + done, bytes.size() - done);
        if (n <= 0) break;
        done += static_cast<size_t>(n);
    }
    return close(file) == 0 && done == bytes.size();
}

double ms_since(uint64_t begin) { return static_cast<double>(now_ns() - begin) * 1e-6; }

} // namespace

void measure_snapshots(const Arguments& arguments)
{
    const uint32_t repetitions = arguments.quick ? 3 : 11;
    const Folder folder;
    const std::string path = folder.file("program");
    const Json params = Json().add("actors", actors);
    Case snapshot("snapshot", params, "ms");
    Case restore("restore", params, "ms");
    Case plain("write + fsync", params, "ms");
    Case reading("read", params, "ms");
    Case fresh("start and spawn", params, "ms");
    Case size("snapshot size", params, "MB");
    snapshot.ratio_base = {"write + fsync"};
    restore.ratio_base = {"start and spawn", "read"};
    snapshot.n = restore.n = plain.n = reading.n = fresh.n = repetitions;
    size.n = 1;
    Samples snapshots(repetitions);
    Samples restores(repetitions);
    Samples writes(repetitions);
    Samples reads(repetitions);
    Samples starts(repetitions);
    Samples sizes(1);

    const Options options = options_of(arguments);
    bool right = true;
    bool written = true;
    for (uint32_t i = 0; i <= repetitions; ++i) { // the first is a warm-up
        std::vector<Address> cells;
        {
            const uint64_t start = now_ns();
            Runtime<Living> runtime(options.device, options);
            cells = runtime.spawn<Cell>(actors);
            right &= runtime.ask<Answer>(cells[0], Query{}, 10s).self == cells[0].value;
            if (i != 0) starts.add(ms_since(start));
            runtime.broadcast<Cell>(Change{i + 1});
            runtime.drain();
            const uint64_t begin = now_ns();
            runtime.save(path, 60s);
            if (i != 0) snapshots.add(ms_since(begin));
            right &= are_as_changed(runtime, cells, i + 1);
            runtime.close();
        }
        std::vector<char> bytes(std::filesystem::file_size(path), 'x');
        const uint64_t write_begin = now_ns();
        written &= write_and_sync(folder.file("plain"), bytes);
        if (i != 0) writes.add(ms_since(write_begin));
        const uint64_t read_begin = now_ns();
        written &= read_all(path, bytes);
        if (i != 0) reads.add(ms_since(read_begin));

        Options again = options;
        again.restore = path;
        const uint64_t begin = now_ns();
        Runtime<Living> runtime(options.device, again);
        right &= runtime.ask<Answer>(cells[0], Query{}, 10s).self == cells[0].value;
        if (i != 0) restores.add(ms_since(begin));
        right &= are_as_changed(runtime, cells, i + 1);
        runtime.close();
        if (i == 0) sizes.add(static_cast<double>(bytes.size()) * 1e-6);
    }
    snapshot.verified = restore.verified = fresh.verified = size.verified = right;
    plain.verified = reading.verified = written;
    snapshot.print(snapshots);
    restore.print(restores);
    plain.print(writes);
    reading.print(reads);
    fresh.print(starts);
    size.print(sizes);
}

} // namespace denizen::bench
