// SPDX-License-Identifier: Apache-2.0
// A chip of threads: each runs the kernel's text as one block, in incarnations as on a GPU.
#pragma once

#include <denizen/infer/chip.hpp>
#include <denizen/infer/detail/resident_loop.hpp>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

namespace denizen::infer {

class ThreadsChip final : public Chip {
public:
    struct Made {
        uint32_t blocks = 8;
        size_t shared_bytes = 4 << 20;
        bool slots_near = true;
        uint64_t breath_ns = 20'000'000;
    };
    ThreadsChip() : ThreadsChip(Made()) {}
    explicit ThreadsChip(const Made& made) : made_(made) {}
    ~ThreadsChip() override { stop(); }

    std::unique_ptr<Chip> another() const override { return std::make_unique<ThreadsChip>(made_); }

    const std::string& name() const override { return name_; }
    uint32_t most_blocks() override { return made_.blocks; }
    size_t shared_bytes() const override { return made_.shared_bytes; }
    uint32_t clusters(Format, uint32_t, size_t) override { return 0; }

    void* device(size_t bytes, const std::string&) override
    {
        const size_t whole = (bytes + 127) / 128 * 128;
        void* const p = std::aligned_alloc(128, whole);
        std::memset(p, 0, whole);
        memory_.emplace_back(p);
        return p;
    }
    void* host(size_t bytes) override { return device(bytes, ""); }
    Slots slots(size_t bytes) override
    {
        auto* const p = static_cast<Packet*>(host(bytes));
        return {p, p, made_.slots_near};
    }
    void write(void* device, const void* from, size_t bytes) override
    {
        if (bytes != 0) std::memcpy(device, from, bytes);
    }
    void read(void* to, const void* device, size_t bytes) override
    {
        if (bytes != 0) std::memcpy(to, device, bytes);
    }

    void start(const detail::ResidentModel& model, Format format, bool) override
    {
        format_ = format;
        model_ = with_term(model);
        keeper_ = std::thread([this] { keep(); });
    }

    void hold() override
    {
        std::unique_lock lock(mutex_);
        held_ = true;
        store<Scope::system>(&words_.command, static_cast<uint32_t>(Command::leave));
        moved_.wait(lock, [this] { return off_; });
    }
    void let_go() override
    {
        const std::lock_guard lock(mutex_);
        held_ = false;
        moved_.notify_all();
    }
    void change(const detail::ResidentModel& model) override { model_ = with_term(model); }
    void stop() override
    {
        if (!keeper_.joinable()) return;
        {
            const std::lock_guard lock(mutex_);
            stopping_ = true;
            store<Scope::system>(&words_.command, static_cast<uint32_t>(Command::stop));
            moved_.notify_all();
        }
        keeper_.join();
    }
    bool failed(std::string*) const override { return false; }

private:
    struct Free {
        void operator()(void* p) const { std::free(p); }
    };
    static constexpr std::align_val_t alignment{128};
    struct Delete { // of a size that is no multiple of it
        void operator()(void* p) const { ::operator delete(p, alignment); }
    };

    detail::ResidentModel with_term(detail::ResidentModel model)
    {
        model.term.ns = made_.breath_ns;
        model.term.state = &term_;
        model.term.words = &words_;
        model.term.blocks = model.blocks;
        return model;
    }

    void keep()
    {
        for (uint32_t number = 1;; ++number) { // ends by stop()
            {
                std::unique_lock lock(mutex_);
                off_ = true;
                moved_.notify_all();
                moved_.wait(lock, [this] { return !held_ || stopping_; });
                if (stopping_) return;
                off_ = false;
                store<Scope::system>(&words_.command, static_cast<uint32_t>(Command::run));
            }
            store<Scope::gpu>(&term_.over, 0u);
            detail::ResidentModel model = model_;
            model.term.incarnation = number;
            std::vector<std::thread> blocks;
            for (uint32_t b = 0; b < model.blocks; ++b) {
                blocks.emplace_back([&, b] { run(model, b); });
            }
            for (std::thread& block : blocks) block.join();
        }
    }

    void run(const detail::ResidentModel& model, uint32_t block) const
    {
        // As small as what is asked for: a sanitizer sees what lies behind it.
        const std::unique_ptr<void, Delete> memory(::operator new(model.shared_bytes, alignment));
        auto* const shared = static_cast<unsigned char*>(memory.get());
        detail::Turn turn{};
        switch (format_) {
        case Format::fp32:
            detail::serve<Format::fp32, false>(model, block, shared, model.shared_bytes, turn);
            break;
        case Format::bf16:
            detail::serve<Format::bf16, false>(model, block, shared, model.shared_bytes, turn);
            break;
        case Format::fp16:
            detail::serve<Format::fp16, false>(model, block, shared, model.shared_bytes, turn);
            break;
        }
    }

    const Made made_;
    const std::string name_ = "threads";
    std::vector<std::unique_ptr<void, Free>> memory_;
    detail::ResidentModel model_{};
    Format format_ = Format::fp32;
    Term term_;
    ResidentWords words_;
    std::mutex mutex_;
    std::condition_variable moved_;
    bool held_ = false;
    bool off_ = true;
    bool stopping_ = false;
    std::thread keeper_;
};

} // namespace denizen::infer
