// SPDX-License-Identifier: Apache-2.0
// The field on the host: one slab, or several along z, each of which lies in the symmetric memory
// of a rank of a group, as on several GPUs. What a slab needs of its neighbours it reads in their
// memory.
#pragma once

#include "engine.hpp"
#include "sweep.hpp"

#include <denizen/group/group.hpp>
#include <denizen/wave/detail/pass.hpp>

#include <algorithm>

namespace denizen::wave {

template <class T>
class CpuField {
public:
    using Memory = std::shared_ptr<T>;

    CpuField(const Geometry& geometry, uint32_t ranks)
        : geometry_(geometry), layout_(layout_of<T>(geometry)), slabs_(ranks),
          zeros_(layout_.pitch + layout_.lead, 0)
    {
        for (uint32_t r = 0; r < ranks; ++r) {
            slabs_[r].first = first_plane(layout_.n[2], ranks, r);
            slabs_[r].layout = layout_;
            slabs_[r].layout.n[2] = first_plane(layout_.n[2], ranks, r + 1) - slabs_[r].first;
        }
        if (ranks == 1) {
            replace({make(), make()});
            return;
        }
        uint64_t bytes = 0; // of the largest slab: all ranks take as much
        for (const Part& part : slabs_) bytes = std::max(bytes, part.layout.elements() * sizeof(T));
        GroupOptions options;
        options.timeout = std::chrono::seconds(60);
        options.heap_bytes = 4 * (bytes + 256);
        group_ = Group::local(ranks, Device::cpu(), options, Code{});
        for (uint32_t r = 0; r < ranks; ++r) {
            for (T*& field : slabs_[r].fields) field = static_cast<T*>(group_[r].allocate(bytes));
            for (T*& field : slabs_[r].spare) field = static_cast<T*>(group_[r].allocate(bytes));
        }
    }

    const Layout& layout() const { return layout_; } // of the whole grid
    uint32_t slabs() const { return static_cast<uint32_t>(slabs_.size()); }
    uint32_t first(uint32_t slab) const { return slabs_[slab].first; }
    uint32_t planes(uint32_t slab) const { return slabs_[slab].layout.n[2]; }

    // x = 0; `which`: 0 now, 1 before.
    T* row(uint32_t which, uint32_t y, uint32_t z) const
    {
        uint32_t r = slabs() - 1;
        while (slabs_[r].first > z) --r; // ends: the first slab begins at 0
        return slabs_[r].fields[which] + slabs_[r].layout.row(y, z - slabs_[r].first);
    }

    // Slab `r` before a step: `turn` 0 makes `before` the next, 1 `now`.
    Slab<T> slab(uint32_t r, uint32_t turn, const Kinds& kinds, const Coefficients<T>* table) const
    {
        const Part& part = slabs_[r];
        const bool around = geometry_.periodic(2);
        const T* below = nullptr;
        const T* above = nullptr;
        if (r > 0 || around) {
            const Part& under = slabs_[r > 0 ? r - 1 : slabs() - 1];
            below = under.fields[turn] + (under.layout.n[2] - 1) * layout_.plane();
        }
        if (r + 1 < slabs() || around) above = slabs_[r + 1 < slabs() ? r + 1 : 0].fields[turn];
        const uint64_t rows = uint64_t{part.first} * layout_.n[1];
        return {part.layout,
                part.fields[turn],
                part.fields[turn ^ 1],
                below,
                above,
                zeros_.data(),
                kinds.cells.data() + rows * layout_.n[0],
                kinds.segments.data() + rows * segments_in(layout_.n[0]),
                table,
                geometry_.periodic(0),
                geometry_.periodic(1)};
    }

    // What a pass over slab `r` reads and writes; make_spare() has been called.
    Pass<T> pass(uint32_t r) const
    {
        const Part& part = slabs_[r];
        const Slab<T> before = slab(r, 1, {}, nullptr);
        Pass<T> pass{};
        pass.sweep.slab = slab(r, 0, {}, nullptr);
        pass.sweep.first_plane = part.first;
        pass.before_below = before.below;
        pass.before_above = before.above;
        std::copy_n(part.spare, 2, pass.to);
        pass.all_planes = layout_.n[2];
        pass.periodic_z = geometry_.periodic(2);
        return pass;
    }
    void make_spare()
    {
        if (slabs_[0].spare[0] != nullptr) return;
        spare_ = {make(), make()};
        for (uint32_t i = 0; i < 2; ++i) slabs_[0].spare[i] = spare_[i].get();
    }
    void swap_spare()
    {
        for (Part& part : slabs_) std::swap(part.fields, part.spare);
        std::swap(own_, spare_);
    }

    // By one thread of each slab: from here on what the others wrote before it is there.
    void meet(uint32_t r)
    {
        if (!group_.empty()) group_[r].barrier();
    }

    void swap()
    {
        for (Part& part : slabs_) std::swap(part.fields[0], part.fields[1]);
    }

    // The ghosts at both ends of a row, where x is periodic.
    void close_row(T* row) const
    {
        if (!geometry_.periodic(0)) return;
        row[-1] = row[layout_.n[0] - 1];
        row[layout_.n[0]] = row[0];
    }
    void close_rows()
    {
        for (uint32_t which = 0; which < 2; ++which) {
            for (uint32_t z = 0; z < layout_.n[2]; ++z) {
                for (uint32_t y = 0; y < layout_.n[1]; ++y) close_row(row(which, y, z));
            }
        }
    }

    // Of one slab: memory for a whole field, and other memory in the place of both.
    Memory make() const
    {
        const auto memory = on_huge_pages(layout_.elements() * sizeof(T));
        return {memory, static_cast<T*>(memory.get())};
    }
    void replace(std::array<Memory, 2> by)
    {
        own_ = std::move(by);
        for (uint32_t i = 0; i < 2; ++i) slabs_[0].fields[i] = own_[i].get();
    }

private:
    struct Part {
        uint32_t first = 0;
        Layout layout;
        T* fields[2] = {}; // now, before
        T* spare[2] = {};  // what passes write
    };

    Geometry geometry_;
    Layout layout_;
    std::vector<Part> slabs_;
    std::vector<T> zeros_;
    std::array<Memory, 2> own_; // of one slab
    std::array<Memory, 2> spare_;
    std::vector<Group> group_;
};

} // namespace denizen::wave
