// SPDX-License-Identifier: Apache-2.0
// Reading and writing the file. It is written beside its name and renamed when it is whole.
#include <denizen/actor/detail/snapshot_file.hpp>

#include "crc32c.hpp"

#include <denizen/base/clock.hpp>

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace denizen {
namespace {

// Text that a transfer in text mode would change.
constexpr char magic[8] = {'\x89', 'd', 'z', 's', 'n', '\r', '\n', '\x1a'};
constexpr uint32_t max_sections = 4096;

struct FileHeader {
    char magic[8];
    uint32_t version;
    uint32_t kind;
    uint32_t layout;
    uint32_t sections;
    uint64_t length;   // of the whole file
    uint32_t checksum; // of this header, with 0 here, and the table behind it
    uint32_t reserved;
};
static_assert(sizeof(FileHeader) == 40);

struct TableEntry {
    char name[32]; // filled up with zeros
    uint64_t offset;
    uint64_t length;
    uint32_t checksum;
    uint32_t reserved;
};
static_assert(sizeof(TableEntry) == 56);

uint32_t checksum_of(FileHeader header, const TableEntry* table)
{
    header.checksum = 0;
    return crc32c(table, sizeof(TableEntry) * header.sections, crc32c(&header, sizeof header));
}

std::string quoted(const std::string& path) { return "snapshot \"" + path + "\""; }

std::string kind_name(uint32_t kind)
{
    switch (static_cast<SnapshotKind>(kind)) {
    case SnapshotKind::program: return "a whole program";
    case SnapshotKind::actor: return "one actor";
    case SnapshotKind::transactions: return "a stage of transactions";
    case SnapshotKind::model: return "the streams of a model";
    }
    return "kind " + std::to_string(kind);
}

class File {
public:
    explicit File(int fd) : fd_(fd) {}
    ~File()
    {
        if (fd_ >= 0) {
            ::close(fd_);
        }
    }
    File(File&& o) noexcept : fd_(std::exchange(o.fd_, -1)) {}
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    File& operator=(File&&) = delete;

    int fd() const { return fd_; }
    explicit operator bool() const { return fd_ >= 0; }

private:
    int fd_;
};

[[noreturn]] void cannot_write(const std::string& path)
{
    const int error = errno;
    throw Error(error == ENOSPC || error == EDQUOT ? Errc::exhausted : Errc::bad_argument,
                "cannot write " + quoted(path) + ": " + std::strerror(error));
}

void write_all(const File& file, const void* bytes, size_t n, const std::string& path)
{
    const auto* p = static_cast<const unsigned char*>(bytes);
    while (n > 0) {
        const ssize_t written = ::write(file.fd(), p, n);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written < 0) {
            cannot_write(path);
        }
        p += written;
        n -= static_cast<size_t>(written);
    }
}

[[noreturn]] void foreign_part(const std::string& part, const std::string& path)
{
    throw Error(Errc::bad_argument, "cannot write " + quoted(path) + ": \"" + part +
                                        "\" is there and is no file of this user's alone; "
                                        "remove it");
}

// Takes away what a saver that was killed has left; false while a living one holds it. Only a plain
// file of this user's with no other name is taken for one: whoever else may write in the folder
// could have put a link there.
bool remove_stale(const std::string& part, const std::string& path)
{
    const File file(::open(part.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat held{};
    if (!file) {
        if (errno == ENOENT) {
            return true; // it has been renamed meanwhile
        }
        foreign_part(part, path);
    }
    if (::fstat(file.fd(), &held) != 0 || !S_ISREG(held.st_mode) || held.st_uid != ::geteuid() ||
        held.st_nlink > 1) {
        foreign_part(part, path);
    }
    if (::flock(file.fd(), LOCK_EX | LOCK_NB) != 0) {
        return false;
    }
    // It may have been renamed before we had the lock, and the name be another saver's.
    struct stat named{};
    if (::lstat(part.c_str(), &named) == 0 && held.st_ino == named.st_ino &&
        held.st_dev == named.st_dev && ::unlink(part.c_str()) != 0) {
        cannot_write(path);
    }
    return true;
}

// The unfinished file, new and ours alone. One name, so that processes that are killed leave at
// most one behind; the lock tells those from one that is at work.
File open_part(const std::string& part, const std::string& path, uint64_t deadline_ns)
{
    const uint64_t begin = now_ns();
    for (;;) { // ends when nobody else is writing the same snapshot, or by the deadline
        File file(::open(part.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
        if (file) {
            // Another saver may have taken it for a stale one in between.
            struct stat ours{};
            struct stat named{};
            if (::flock(file.fd(), LOCK_EX | LOCK_NB) == 0 && ::fstat(file.fd(), &ours) == 0 &&
                ::lstat(part.c_str(), &named) == 0 && ours.st_ino == named.st_ino &&
                ours.st_dev == named.st_dev) {
                return file;
            }
        } else if (errno != EEXIST) {
            cannot_write(path);
        } else if (remove_stale(part, path)) {
            continue;
        }
        if (now_ns() - begin > deadline_ns) {
            throw Error(Errc::timeout, "cannot write " + quoted(path) +
                                           ": another process is writing it, and has held \"" +
                                           part + "\" for " + detail::seconds(deadline_ns));
        }
        ::usleep(1000);
    }
}

// A path with a NUL in it names another file to the system.
void check_path(const std::string& path)
{
    if (path.find('\0') != std::string::npos) {
        throw Error(Errc::bad_argument,
                    quoted(path.substr(0, path.find('\0')) + "\\0...") + " has a NUL in its name");
    }
}

// The file takes the place of what is there, which a device or a socket would not survive.
void check_place(const std::string& path)
{
    struct stat there{};
    if (::stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
        throw Error(Errc::bad_argument, "cannot write " + quoted(path) +
                                            ": what is there is not a file; give another name");
    }
}

} // namespace

void write_snapshot(const std::string& path, SnapshotKind kind, uint32_t layout,
                    const std::vector<SnapshotSection>& sections, uint64_t deadline_ns)
{
    check_path(path);
    check_place(path);
    std::vector<TableEntry> table(sections.size());
    uint64_t offset = sizeof(FileHeader) + sizeof(TableEntry) * sections.size();
    for (size_t i = 0; i < sections.size(); ++i) {
        const SnapshotSection& s = sections[i];
        std::memcpy(table[i].name, s.name().data(),
                    std::min(s.name().size(), sizeof table[i].name - 1));
        table[i].offset = offset;
        table[i].length = s.bytes().size();
        table[i].checksum = crc32c(s.bytes().data(), s.bytes().size());
        offset += s.bytes().size();
    }
    FileHeader header{};
    std::memcpy(header.magic, magic, sizeof magic);
    header.version = snapshot_version;
    header.kind = static_cast<uint32_t>(kind);
    header.layout = layout;
    header.sections = static_cast<uint32_t>(sections.size());
    header.length = offset;
    header.checksum = checksum_of(header, table.data());

    const std::string part = path + ".part";
    const File file = open_part(part, path, deadline_ns);
    try {
        write_all(file, &header, sizeof header, path);
        write_all(file, table.data(), sizeof(TableEntry) * table.size(), path);
        for (const SnapshotSection& s : sections) {
            write_all(file, s.bytes().data(), s.bytes().size(), path);
        }
        // The content first, then the name: a crash in between leaves the old file.
        if (::fsync(file.fd()) != 0 || ::rename(part.c_str(), path.c_str()) != 0) {
            cannot_write(path);
        }
    } catch (...) {
        ::unlink(part.c_str());
        throw;
    }
    const size_t slash = path.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    const File parent(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!parent || ::fsync(parent.fd()) != 0) {
        cannot_write(path);
    }
}

SnapshotFile::SnapshotFile(const std::string& path, SnapshotKind kind, uint32_t layout)
    : path_(path)
{
    check_path(path);
    // Without waiting: of a FIFO there may never be anybody who writes.
    const File file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    struct stat status{};
    if (!file || ::fstat(file.fd(), &status) != 0) {
        refuse(std::string("cannot be opened: ") + std::strerror(errno));
    }
    if (!S_ISREG(status.st_mode)) {
        refuse("is not a file");
    }
    try {
        file_.resize(static_cast<size_t>(status.st_size));
    } catch (const std::exception&) { // no memory, or more than a vector can have
        throw Error(Errc::exhausted, quoted(path) + " has " + std::to_string(status.st_size) +
                                         " bytes, more than there is memory for");
    }
    size_t filled = 0;
    while (filled < file_.size()) {
        const ssize_t n = ::read(file.fd(), file_.data() + filled, file_.size() - filled);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            refuse(std::string("cannot be read: ") + std::strerror(errno));
        }
        if (n == 0) {
            break; // it became shorter meanwhile
        }
        filled += static_cast<size_t>(n);
    }
    file_.resize(filled);

    FileHeader header;
    if (filled < sizeof header) {
        refuse("is truncated: " + std::to_string(filled) + " bytes, the header alone has " +
               std::to_string(sizeof header));
    }
    std::memcpy(&header, file_.data(), sizeof header);
    if (std::memcmp(header.magic, magic, sizeof magic) != 0) {
        refuse("is not a denizen snapshot: its first bytes are others");
    }
    if (header.version != snapshot_version) {
        refuse("has format version " + std::to_string(header.version) + ", this build reads " +
               std::to_string(snapshot_version));
    }
    if (filled < header.length) {
        refuse("is truncated: " + std::to_string(filled) + " of " + std::to_string(header.length) +
               " bytes");
    }
    const size_t after_header = filled - sizeof header;
    if (header.sections > max_sections || sizeof(TableEntry) * header.sections > after_header) {
        refuse("is altered: its header names " + std::to_string(header.sections) + " sections");
    }
    std::vector<TableEntry> table(header.sections);
    if (!table.empty()) {
        std::memcpy(table.data(), file_.data() + sizeof header, sizeof(TableEntry) * table.size());
    }
    if (checksum_of(header, table.data()) != header.checksum) {
        refuse("is altered: the checksum of its header does not match");
    }
    if (filled > header.length) {
        refuse("is altered: " + std::to_string(filled) + " bytes, its header says " +
               std::to_string(header.length));
    }
    // The sections lie one behind the other, so that each byte of the file is under a checksum.
    uint64_t expected = sizeof header + sizeof(TableEntry) * table.size();
    for (const TableEntry& e : table) {
        const std::string name(e.name, ::strnlen(e.name, sizeof e.name));
        if (e.offset != expected || e.length > filled - expected) {
            refuse("is altered: section \"" + name + "\" lies outside of its place");
        }
        expected += e.length;
        const std::span<const unsigned char> bytes(file_.data() + e.offset,
                                                   static_cast<size_t>(e.length));
        if (crc32c(bytes.data(), bytes.size()) != e.checksum) {
            refuse("is altered: the checksum of section \"" + name + "\" does not match");
        }
        entries_.push_back({name, bytes});
    }
    if (expected != filled) {
        refuse("is altered: bytes behind its last section");
    }
    if (header.kind != static_cast<uint32_t>(kind)) {
        refuse("holds " + kind_name(header.kind) + ", not " +
               kind_name(static_cast<uint32_t>(kind)));
    }
    if (header.layout != layout) {
        refuse("was written with memory layout " + std::to_string(header.layout) +
               ", this program has " + std::to_string(layout) +
               "; restore it with the version that wrote it");
    }
}

bool SnapshotFile::has(std::string_view name) const
{
    for (const Entry& e : entries_) {
        if (e.name == name) {
            return true;
        }
    }
    return false;
}

SnapshotBytes SnapshotFile::section(std::string_view name) const
{
    for (const Entry& e : entries_) {
        if (e.name == name) {
            return {quoted(path_) + ": section \"" + e.name + '"', e.bytes};
        }
    }
    refuse("has no section \"" + std::string(name) + '"');
}

void SnapshotFile::refuse(const std::string& what) const
{
    throw Error(Errc::bad_snapshot, quoted(path_) + ' ' + what);
}

} // namespace denizen
