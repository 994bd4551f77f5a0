// SPDX-License-Identifier: Apache-2.0
// Blocks whose work() is a Python function, and their ports, which give NumPy views of quanta.
#include "flow.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <complex>
#include <thread>

namespace nb = nanobind;

namespace denizen::bind {

using namespace flow;

namespace {

using TagTuple = std::tuple<uint64_t, std::string, Value>;

class PyBlock;

// A port of a Python block. Python may keep it for longer than the block lives.
class OfPython : public PyPort {
public:
    void need_block() const override { block(); }
    void need_quantum() override;

    PyBlock& block() const
    {
        if (block_ == nullptr) {
            throw Error(Errc::closed, "the port's graph is gone");
        }
        return *block_;
    }
    PyBlock* block_ = nullptr;
};

// What an exception says, without the frames: the exception itself must not leave the GIL.
std::string text_of(const nb::python_error& error)
{
    const nb::object kind = error.type().attr("__name__");
    try {
        const nb::object text = nb::str("{}: {}").attr("format")(kind, error.value());
        const nb::object bytes = text.attr("encode")("utf-8", "backslashreplace");
        return nb::cast<std::string>(bytes.attr("decode")());
    } catch (nb::python_error&) { // it cannot say it
        return nb::cast<std::string>(kind);
    }
}

// What a Python callable is to a C++ thread.
class PyCallable {
public:
    explicit PyCallable(nb::object object) : object_(std::move(object)) {}
    ~PyCallable()
    {
        const Locked gil;
        object_.reset();
    }
    PyCallable(const PyCallable&) = delete;
    PyCallable& operator=(const PyCallable&) = delete;

    template <class... Arguments>
    void operator()(Arguments&&... arguments) const
    {
        const Locked gil;
        try {
            object_(std::forward<Arguments>(arguments)...);
        } catch (nb::python_error& error) {
            throw std::runtime_error(text_of(error));
        }
    }
    nb::object object_;
};

using Held = std::shared_ptr<PyCallable>; // also of any other object

class PyBlock : public Block {
public:
    explicit PyBlock(const std::string& name) : Block(name) {}
    ~PyBlock() override
    {
        for (const auto& port : ports_) {
            port->block_ = nullptr;
        }
    }

    // While it is at work: ports give arrays on its thread and to nobody else.
    bool at_work() const { return worker_ == std::this_thread::get_id(); }
    void any_input() { work_on_any_input(); }
    void last() { finish(); }

    Held work_;
    std::vector<std::shared_ptr<OfPython>> ports_;
    std::deque<flow::Messages<Held>> messages_;

private:
    void work() override
    {
        worker_ = std::this_thread::get_id();
        struct Leave {
            std::thread::id& id;
            ~Leave() { id = {}; }
        } const leave{worker_};
        (*work_)();
    }
    std::thread::id worker_;
};

void OfPython::need_quantum()
{
    if (!block().at_work()) {
        throw Error(Errc::bad_argument,
                    "port \"" + port().label() + "\" has a quantum only within its block's work()");
    }
    if (!loaded()) {
        throw Error(Errc::bad_argument,
                    "port \"" + port().label() + "\" has no quantum: it was consumed or sent on");
    }
}

// A view that keeps the memory, though not what is in it: that is somebody else's after work().
template <class T>
nb::object view(std::shared_ptr<void> memory, const T* first, size_t count, bool writable)
{
    auto* owner = new std::shared_ptr<void>(std::move(memory));
    const nb::capsule keeps(
        owner, [](void* p) noexcept { delete static_cast<std::shared_ptr<void>*>(p); });
    if (writable) {
        return nb::cast(
            nb::ndarray<nb::numpy, T, nb::ndim<1>>(const_cast<T*>(first), {count}, keeps),
            nb::rv_policy::reference);
    }
    return nb::cast(nb::ndarray<nb::numpy, const T, nb::ndim<1>>(first, {count}, keeps),
                    nb::rv_policy::reference);
}

template <class T>
class PySource : public OfPython {
public:
    PySource(Block& block, const std::string& name) : port_(block, name) {}
    Port& port() override { return port_; }
    SourcePort* source() override { return &port_; }
    bool loaded() override { return port_.has_quantum(); }
    nb::object array() override
    {
        const auto room = port_.room();
        return view(port_.memory(), room.data(), room.size(), true);
    }

private:
    Source<T> port_;
};

template <class T>
class PyIn : public OfPython {
public:
    PyIn(Block& block, const std::string& name) : port_(block, name) {}
    Port& port() override { return port_; }
    InputPort* input() override { return &port_; }
    bool loaded() override { return port_.has_quantum(); }
    nb::object array() override
    {
        const auto samples = port_.view();
        return view(port_.memory(), samples.data(), samples.size(), false);
    }
    void consume(size_t samples) override { port_.consume(samples); }
    std::vector<Tag> tags() override { return port_.tags(); }

private:
    In<T> port_;
};

template <class T>
class PyInPlace : public OfPython {
public:
    PyInPlace(Block& block, const std::string& name) : port_(block, name) {}
    Port& port() override { return port_; }
    InputPort* input() override { return &port_; }
    InPlacePort* in_place() override { return &port_; }
    bool loaded() override { return port_.has_quantum(); }
    nb::object array() override
    {
        const auto samples = port_.samples();
        return view(port_.memory(), samples.data(), samples.size(), true);
    }
    std::vector<Tag> tags() override { return port_.tags(); }

private:
    InPlace<T> port_;
};

// Calls `use` with a T of the dtype's kind and size, as NumPy spells them.
template <class Use>
auto with_type(const std::string& dtype, Use&& use)
{
    if (dtype == "u1") return use(uint8_t{});
    if (dtype == "i1") return use(int8_t{});
    if (dtype == "u2") return use(uint16_t{});
    if (dtype == "i2") return use(int16_t{});
    if (dtype == "u4") return use(uint32_t{});
    if (dtype == "i4") return use(int32_t{});
    if (dtype == "i8") return use(int64_t{});
    if (dtype == "f4") return use(float{});
    if (dtype == "f8") return use(double{});
    if (dtype == "c8") return use(std::complex<float>{});
    if (dtype == "c16") return use(std::complex<double>{});
    throw Error(Errc::bad_argument,
                "samples of dtype " + dtype + "; give one of u1 i1 u2 i2 u4 i4 i8 f4 f8 c8 c16");
}

std::shared_ptr<OfPython> make_port(PyBlock& block, const std::string& kind,
                                    const std::string& name, const std::string& dtype)
{
    auto port = with_type(dtype, [&](auto sample) -> std::shared_ptr<OfPython> {
        using T = decltype(sample);
        if (kind == "source") return std::make_shared<PySource<T>>(block, name);
        if (kind == "in") return std::make_shared<PyIn<T>>(block, name);
        return std::make_shared<PyInPlace<T>>(block, name);
    });
    port->block_ = &block;
    block.ports_.push_back(port);
    return port;
}

struct PyBlockHandle : BlockHandle {
    explicit PyBlockHandle(const std::string& name) : BlockHandle(std::make_unique<PyBlock>(name))
    {
    }
    PyBlock& python() const { return static_cast<PyBlock&>(get()); }
};

} // namespace

void flow_blocks(nb::module_& m)
{
    nb::class_<PyPort>(m, "FlowPort")
        .def_prop_ro("label",
                     [](PyPort& p) {
                         p.need_block();
                         return p.port().label();
                     })
        .def_prop_ro("array",
                     [](PyPort& p) {
                         p.need_quantum();
                         return p.array();
                     })
        .def_prop_ro("loaded",
                     [](PyPort& p) {
                         p.need_block();
                         return p.loaded();
                     })
        .def_prop_ro("position",
                     [](PyPort& p) {
                         p.need_block();
                         return p.input() != nullptr ? p.input()->position()
                                                     : p.source()->position();
                     })
        .def_prop_ro("tags",
                     [](PyPort& p) {
                         p.need_quantum();
                         std::vector<TagTuple> tags;
                         for (Tag& tag : p.tags())
                             tags.emplace_back(tag.sample, tag.key, tag.value);
                         return tags;
                     })
        .def("needs",
             [](PyPort& p, size_t samples) {
                 p.need_block();
                 p.port().needs(samples);
             })
        .def("consume",
             [](PyPort& p, size_t samples) {
                 p.need_quantum();
                 p.consume(samples);
             })
        .def("produce",
             [](PyPort& p, size_t samples) {
                 p.need_quantum();
                 p.source()->produce(samples);
             })
        .def("flush",
             [](PyPort& p) {
                 p.need_quantum();
                 p.source()->flush();
             })
        .def("tag",
             [](PyPort& p, uint64_t ahead, const std::string& key, const Value& value) {
                 p.need_quantum();
                 p.source()->tag(ahead, key, value);
             })
        .def("follow",
             [](PyPort& p, PyPort& input, uint64_t out, uint64_t in) {
                 p.need_block();
                 p.source()->follow(need(input.input(), "an input to follow"), {out, in});
             })
        .def("leave_margin",
             [](PyPort& p, size_t samples) {
                 p.need_block();
                 p.source()->leave_margin(samples);
             })
        .def("trim",
             [](PyPort& p, size_t left, size_t right) {
                 p.need_quantum();
                 p.in_place()->trim(left, right);
             })
        .def("grow",
             [](PyPort& p, size_t left, size_t right) {
                 p.need_quantum();
                 p.in_place()->grow(left, right);
             })
        .def("pass_on", [](PyPort& p) {
            p.need_quantum();
            p.in_place()->pass();
        });

    nb::class_<BlockHandle>(m, "FlowHandle");
    nb::class_<PyBlockHandle, BlockHandle>(m, "FlowBlock")
        .def(nb::init<std::string>())
        .def("set_work",
             [](const PyBlockHandle& b, nb::object work) {
                 b.python().work_ = std::make_shared<PyCallable>(std::move(work));
             })
        .def("drop_work", [](const PyBlockHandle& b) { b.python().work_.reset(); })
        .def("port",
             [](const PyBlockHandle& b, const std::string& kind, const std::string& name,
                const std::string& dtype) -> std::shared_ptr<PyPort> {
                 return make_port(b.python(), kind, name, dtype);
             })
        .def("messages",
             [](const PyBlockHandle& b, const std::string& name, nb::object handler) {
                 auto call = std::make_shared<PyCallable>(std::move(handler));
                 auto& all = b.python().messages_;
                 all.emplace_back(b.python(), name, [call](const Held& held) {
                     const Locked gil;
                     (*call)(held->object_);
                 });
                 return all.size() - 1;
             })
        .def("post",
             [](const PyBlockHandle& b, size_t port, nb::object value) {
                 b.python().messages_.at(port).post(std::make_shared<PyCallable>(std::move(value)));
             })
        .def("work_on_any_input", [](const PyBlockHandle& b) { b.python().any_input(); })
        .def("finish", [](const PyBlockHandle& b) { b.python().last(); });
}

} // namespace denizen::bind
