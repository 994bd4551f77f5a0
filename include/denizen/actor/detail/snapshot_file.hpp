// SPDX-License-Identifier: Apache-2.0
// The file that a snapshot lies in: named sections of bytes, each with a checksum, behind a header
// with one of its own. What the sections mean is snapshot.cpp's; that they are whole is settled
// here, before anything in them is believed. docs/snapshots.md has the layout.
#pragma once

#include <denizen/base/error.hpp>

#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace denizen {

enum class SnapshotKind : uint32_t { program = 1, actor = 2, transactions = 3, model = 4 };

inline constexpr uint32_t snapshot_version = 2;

// A section being written.
class SnapshotSection {
public:
    explicit SnapshotSection(std::string_view name) : name_(name) {}

    const std::string& name() const { return name_; }
    const std::vector<unsigned char>& bytes() const { return bytes_; }

    void put(const void* bytes, size_t n)
    {
        const auto* p = static_cast<const unsigned char*>(bytes);
        bytes_.insert(bytes_.end(), p, p + n);
    }
    template <class T>
    void put(const T& value)
    {
        static_assert(std::is_trivially_copyable_v<T>);
        put(&value, sizeof value);
    }
    void put_text(std::string_view text)
    {
        put(static_cast<uint32_t>(text.size()));
        put(text.data(), text.size());
    }

private:
    std::string name_; // at most 31 bytes
    std::vector<unsigned char> bytes_;
};

// A section being read, from front to back. Reading past its end is Errc::bad_snapshot: a file
// written by something else may be whole and yet not make sense.
class SnapshotBytes {
public:
    SnapshotBytes(std::string where, std::span<const unsigned char> bytes)
        : where_(std::move(where)), bytes_(bytes)
    {
    }

    size_t left() const { return bytes_.size(); }

    std::span<const unsigned char> take(uint64_t n)
    {
        if (n > bytes_.size()) {
            refuse("ends where " + std::to_string(n) + " bytes more are expected");
        }
        const auto part = bytes_.first(static_cast<size_t>(n));
        bytes_ = bytes_.subspan(static_cast<size_t>(n));
        return part;
    }
    template <class T>
    T take()
    {
        static_assert(std::is_trivially_copyable_v<T>);
        T value;
        std::memcpy(&value, take(sizeof value).data(), sizeof value);
        return value;
    }
    std::string take_text()
    {
        const auto part = take(take<uint32_t>());
        return {part.begin(), part.end()};
    }

    [[noreturn]] void refuse(const std::string& what) const
    {
        throw Error(Errc::bad_snapshot, where_ + ' ' + what);
    }

private:
    std::string where_; // `snapshot "x": section "y"`
    std::span<const unsigned char> bytes_;
};

// Puts the sections at `path`, in one step: the file appears there whole, on the disk, or what was
// there before stays, whenever the process or the machine dies. Writes `path`.part beside it, which
// only this user can read, and renames. Errc::exhausted if the disk is full, Errc::bad_argument if
// the place cannot be written, Errc::timeout if another writes the same snapshot until the
// deadline.
void write_snapshot(const std::string& path, SnapshotKind kind, uint32_t layout,
                    const std::vector<SnapshotSection>& sections,
                    uint64_t deadline_ns = 10'000'000'000);

// A file that has been read and found whole. Everything that is wrong with it is
// Errc::bad_snapshot with the path and what it is.
class SnapshotFile {
public:
    // `layout`: layout_abi of the program that is to have it.
    SnapshotFile(const std::string& path, SnapshotKind kind, uint32_t layout);

    bool has(std::string_view name) const;
    SnapshotBytes section(std::string_view name) const;
    [[noreturn]] void refuse(const std::string& what) const;

private:
    struct Entry {
        std::string name;
        std::span<const unsigned char> bytes;
    };

    std::string path_;
    std::vector<unsigned char> file_;
    std::vector<Entry> entries_;
};

} // namespace denizen
