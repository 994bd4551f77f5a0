// SPDX-License-Identifier: Apache-2.0
// The ends of a block. A block declares them as members, in any number; they belong to the thread
// that runs the block, and to work() while that runs.
//   Source<T>   begins a circuit: room() to fill, produce(n); a full quantum leaves by itself
//   In<T>       by reference: view() to read, consume(n); a read quantum goes back by itself
//   InPlace<T>  changes a quantum and passes it on
//   Transform<T, U>  the same for a block that makes samples of another type in the same memory
//   Sink<T>     takes quanta out of the circuit's way: take(); they go back when dropped, or on
//   Output<T>   sends on what a Sink of the same block has taken
// One output may feed several by-reference ports (broadcast: the last reader gives back), and
// several outputs one input (merge: in the order of arrival).
#pragma once

#include <denizen/flow/quantum.hpp>

#include <algorithm>
#include <typeindex>
#include <utility>

namespace denizen::flow {

class Block;

namespace detail {

// Where a port sends quanta: the ring, and the bell of the thread that takes them out, which lives
// longer than all blocks. Null: it is the sender's own thread, which looks before it sleeps.
struct CellWay {
    UncheckedRing<Cell*>* ring = nullptr;
    Doorbell* bell = nullptr;

    void send(Cell* cell) const
    {
        ring->send(cell);
        if (bell != nullptr) {
            bell->ring();
        }
    }
};

template <class T>
std::span<T> samples(const Cell& cell, size_t from, size_t count)
{
    return {reinterpret_cast<T*>(cell.memory.get()) + from, count};
}

} // namespace detail

// What a port carries.
struct SampleType {
    std::type_index id;
    size_t bytes;

    std::string name() const;
};

template <class T>
SampleType sample_type()
{
    static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= 64);
    return {typeid(T), sizeof(T)};
}

class Port {
public:
    Port(const Port&) = delete;
    Port& operator=(const Port&) = delete;

    std::string label() const; // "block.port"
    Block& block() const { return block_; }
    const SampleType& type() const { return type_; }

    // A quantum with room for fewer samples is of no use to the block. What ports are made with,
    // this and all else, is said before the graph starts.
    void needs(size_t samples)
    {
        refuse_late("needs()");
        needs_ = samples;
    }

protected:
    Port(Block& block, std::string name, SampleType type)
        : block_(block), name_(std::move(name)), type_(type)
    {
    }
    virtual ~Port() = default;
    void moved() const;
    void refuse_late(const char* what) const;

private:
    friend class detail::Engine;

    Block& block_;
    std::string name_;
    SampleType type_;
    size_t needs_ = 1;
};

class OutputPort;

class InputPort : public Port {
public:
    // Samples read before those of the current quantum, or before view().
    uint64_t position() const { return position_; }
    // In work(): whether there is a current quantum, and its memory, for views that keep it.
    bool has_quantum() const { return current_ != nullptr; }
    std::shared_ptr<void> memory() const { return current_->memory; }
    // There is none and none will come.
    bool exhausted() const { return current_ == nullptr && arrivals_.drained(); }

    // The block keeps up to so many quanta at a time (1 if not said).
    void holds(uint32_t quanta)
    {
        refuse_late("holds()");
        holds_ = quanta;
    }

    // The block has finished: whatever arrives goes straight back.
    bool left() const { return left_.load(std::memory_order_acquire); } // partner: leave()

    // Tags that arrive here go through `carry` too. Call it when the block is made.
    void follow_with(TagCarry& carry)
    {
        refuse_late("a rate of tags");
        followers_.push_back(&carry);
    }

protected:
    InputPort(Block& block, std::string name, SampleType type, bool reads_only);

    detail::Cell* current() const { return current_; }
    detail::Cell* detach();
    void skip(size_t samples) { position_ += samples; }
    void give_back(detail::Cell* cell);

private:
    friend class detail::Engine;
    friend class Flowgraph;
    template <class T>
    friend class Quantum;

    virtual void loaded() {}

    // There is a current quantum.
    bool load() { return current_ != nullptr || load_next(); }
    bool load_next();
    void leave(); // the block has finished: from now on whatever arrives goes straight back

    bool reads_only_;
    uint32_t holds_ = 1;
    UncheckedRings<detail::Cell*> arrivals_;
    std::vector<OutputPort*> writers_;
    std::vector<std::pair<const Circuit*, detail::CellWay>> homes_;
    std::vector<TagCarry*> followers_;
    detail::Cell* current_ = nullptr;
    uint64_t position_ = 0;
    std::atomic<bool> left_{false};
};

class OutputPort : public Port {
public:
    // Some reader has not finished.
    bool wanted() const;

protected:
    OutputPort(Block& block, std::string name, SampleType type, InputPort* from);
    void send(detail::Cell* cell);

private:
    friend class detail::Engine;
    friend class Flowgraph;
    struct Reader {
        InputPort* port;
        detail::CellWay way;
    };

    void close();

    InputPort* from_; // whose quanta it sends on; null: a source
    std::vector<Reader> readers_;
};

// Where a circuit begins and ends.
class SourcePort : public OutputPort {
public:
    // Tags of `input` go with the samples made of them, at `rate`. Call it when the block is made.
    void follow(InputPort& input, Rate rate = {});

    // The first `samples` of every buffer stay out of the window: room to grow into, to the left.
    void leave_margin(size_t samples)
    {
        refuse_late("leave_margin()");
        margin_ = samples;
    }

    // In work(): whether there is a current quantum, and its memory, for views that keep it.
    bool has_quantum() const { return current_ != nullptr; }
    std::shared_ptr<void> memory() const { return current_->memory; }

    // Samples sent or filled so far.
    uint64_t position() const { return first_ + (current_ != nullptr ? current_->size() : 0); }

    // A tag at `ahead` samples after the last one produced.
    void tag(uint64_t ahead, std::string key, Value value);

    // The next `samples` of room() are filled. Throws bad_argument if there is less room.
    void produce(size_t samples);
    // Sends what there is although the quantum is not full.
    void flush();

protected:
    SourcePort(Block& block, std::string name, SampleType type);
    detail::Cell* current() const { return current_; }

private:
    friend class detail::Engine;
    friend class Flowgraph;

    bool load() { return current_ != nullptr || load_next(); }
    bool load_next();
    void finish();

    Circuit* circuit_ = nullptr;
    detail::Cell* current_ = nullptr;
    uint64_t first_ = 0; // number of the current quantum's first sample
    size_t margin_ = 0;
    std::deque<TagCarry> carries_; // inputs hold pointers to them
};

// A quantum in a block's hands: its window, and its tags, counted from the window's first sample.
class InPlacePort : public InputPort {
public:
    // Output samples per input sample, for the tags. Call it when the block is made.
    void rate(Rate r);
    std::vector<Tag>& tags() { return current()->tags; }
    void trim(size_t left, size_t right) { current()->trim(left, right); }
    void grow(size_t left, size_t right) { current()->grow(left, right); }

    // Sends the quantum on; an empty one goes back. With a rate, the tags are placed now.
    void pass();

protected:
    InPlacePort(Block& block, std::string name, SampleType type, SampleType becomes);
    // The window from now on, in samples of what the port sends.
    void become(size_t samples);

private:
    friend class detail::Engine;
    friend class Flowgraph;
    class Out : public OutputPort {
    public:
        using OutputPort::send;
        Out(Block& block, const std::string& name, SampleType type, InputPort* from)
            : OutputPort(block, name, type, from)
        {
        }
    };
    void loaded() override;
    void cross(detail::Cell& cell, size_t arrived);
    void leave_with(detail::Cell* cell);

    Out out_;
    std::deque<TagCarry> carry_; // none: tags stay where the block leaves them
    uint64_t sent_ = 0;
    size_t arrived_ = 0; // samples in the current quantum before the block changed it
};

template <class T>
class Source : public SourcePort {
public:
    Source(Block& block, std::string name) : SourcePort(block, std::move(name), sample_type<T>()) {}
    std::span<T> room() const
    {
        const detail::Cell& c = *current();
        return detail::samples<T>(c, c.end, c.capacity - c.end);
    }
};

template <class T>
class In : public InputPort {
public:
    In(Block& block, std::string name) : InputPort(block, std::move(name), sample_type<T>(), true)
    {
    }
    // What has not been consumed of the current quantum. Others may be reading it too.
    std::span<const T> view() const
    {
        const detail::Cell& c = *current();
        return detail::samples<const T>(c, c.begin + used_, c.size() - used_);
    }
    // The tags of view(), counted from its first sample.
    std::vector<Tag> tags() const
    {
        std::vector<Tag> rest;
        for (const Tag& tag : current()->tags) {
            if (tag.sample >= used_) {
                rest.push_back(tag);
                rest.back().sample -= used_;
            }
        }
        return rest;
    }
    // Those of the first `samples` of view() go to `tags`, where they are counted from `at` on;
    // `tags` stays in order.
    void move_tags(size_t samples, uint64_t at, std::vector<Tag>& tags) const
    {
        const size_t before = tags.size();
        for (const Tag& tag : current()->tags) {
            if (tag.sample >= used_ && tag.sample < used_ + samples) {
                tags.push_back({tag.sample - used_ + at, tag.key, tag.value});
            }
        }
        std::inplace_merge(tags.begin(), tags.begin() + static_cast<std::ptrdiff_t>(before),
                           tags.end(),
                           [](const Tag& a, const Tag& b) { return a.sample < b.sample; });
    }
    void consume(size_t samples)
    {
        if (samples > view().size()) {
            throw Error(Errc::bad_argument, "port \"" + label() + "\": " + std::to_string(samples) +
                                                " samples consumed of " +
                                                std::to_string(view().size()));
        }
        if (samples == 0) {
            return;
        }
        used_ += samples;
        skip(samples);
        moved();
        if (used_ == current()->size()) {
            give_back(detach());
        }
    }

private:
    void loaded() override { used_ = 0; }
    size_t used_ = 0;
};

template <class T>
class InPlace : public InPlacePort {
public:
    InPlace(Block& block, std::string name)
        : InPlacePort(block, std::move(name), sample_type<T>(), sample_type<T>())
    {
    }
    std::span<T> samples() const
    {
        const detail::Cell& c = *current();
        return detail::samples<T>(c, c.begin, c.size());
    }
};

// Takes quanta of T and sends them on as quanta of U, which lie where the samples of T did: from
// the buffer's begin, and no more of them than fit.
template <class T, class U>
class Transform : public InPlacePort {
public:
    Transform(Block& block, std::string name)
        : InPlacePort(block, std::move(name), sample_type<T>(), sample_type<U>())
    {
    }
    std::span<const T> samples() const
    {
        const detail::Cell& c = *current();
        return detail::samples<const T>(c, c.begin, c.size());
    }
    // Where to write them; the first may lie where samples() begins.
    std::span<U> results() const
    {
        const detail::Cell& c = *current();
        return {reinterpret_cast<U*>(c.memory.get()), c.circuit->bytes() / sizeof(U)};
    }
    // Sends on `count` of results(). Throws bad_argument for more than fit.
    void pass(size_t count)
    {
        become(count);
        InPlacePort::pass();
    }

private:
    using InPlacePort::grow;
    using InPlacePort::trim;
};

// An owned quantum. It goes back to its circuit when it is destroyed, unless it was sent on.
// Hazard: only on the thread of the block that took it.
template <class T>
class Quantum {
public:
    Quantum() = default;
    Quantum(Quantum&& other) noexcept
        : cell_(std::exchange(other.cell_, nullptr)), from_(other.from_)
    {
    }
    Quantum& operator=(Quantum&& other) noexcept
    {
        std::swap(cell_, other.cell_);
        std::swap(from_, other.from_);
        return *this;
    }
    ~Quantum()
    {
        if (cell_ != nullptr) {
            from_->give_back(cell_);
        }
    }
    explicit operator bool() const { return cell_ != nullptr; }
    std::span<T> samples() const { return detail::samples<T>(*cell_, cell_->begin, cell_->size()); }
    std::vector<Tag>& tags() const { return cell_->tags; }
    void trim(size_t left, size_t right) { cell_->trim(left, right); }
    void grow(size_t left, size_t right) { cell_->grow(left, right); }

private:
    template <class>
    friend class Sink;
    template <class>
    friend class Output;
    Quantum(detail::Cell* cell, InputPort* from) : cell_(cell), from_(from) {}

    detail::Cell* cell_ = nullptr;
    InputPort* from_ = nullptr;
};

template <class T>
class Sink : public InputPort {
public:
    Sink(Block& block, std::string name)
        : InputPort(block, std::move(name), sample_type<T>(), false)
    {
    }
    // The current quantum, which work() finds once per call. Empty if it has been taken.
    Quantum<T> take()
    {
        if (current() == nullptr) {
            return {};
        }
        skip(current()->size());
        moved();
        return {detach(), this};
    }
};

template <class T>
class Output : public OutputPort {
public:
    // `from`: the port whose quanta this one sends on.
    Output(Block& block, std::string name, Sink<T>& from)
        : OutputPort(block, std::move(name), sample_type<T>(), &from)
    {
    }
    void send(Quantum<T> quantum)
    {
        moved();
        OutputPort::send(std::exchange(quantum.cell_, nullptr));
    }
};

} // namespace denizen::flow
