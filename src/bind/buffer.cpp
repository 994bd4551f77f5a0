// SPDX-License-Identifier: Apache-2.0
// Buffers for Python: made by a runtime or around somebody else's tensor, and handed out again
// through DLPack. Shapes and dtypes are python/denizen/buffer.py's business.
#include "bind.hpp"

#include <denizen/actor/any_runtime.hpp>

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace denizen;

namespace {

using bind::Unlocked;

BufferKind kind_of(const std::string& name)
{
    for (const BufferKind kind : {BufferKind::device, BufferKind::pinned, BufferKind::mapped}) {
        if (name == to_string(kind)) {
            return kind;
        }
    }
    throw Error(Errc::bad_argument,
                "no buffer is of kind \"" + name + "\"; use device, pinned or mapped");
}

// Keeps a Python object as long as the memory is in use, from whatever thread lets go of it.
template <class Object>
std::shared_ptr<void> keep(Object object)
{
    return {new Object(std::move(object)), [](void* p) {
                if (nb::is_alive()) { // else the interpreter is gone, and the object with it
                    const bind::Locked locked;
                    delete static_cast<Object*>(p);
                }
            }};
}

// A view of a buffer's memory that keeps it.
template <class Array>
Array view(const Buffer& buffer, void* data, const std::vector<size_t>& shape, uint8_t code,
           uint8_t bits, int device_type, int device_id)
{
    const nb::capsule owner(new std::shared_ptr<Storage>(buffer.storage()), [](void* p) noexcept {
        delete static_cast<std::shared_ptr<Storage>*>(p);
    });
    return Array(data, shape.size(), shape.data(), owner, nullptr, {code, bits, 1}, device_type,
                 device_id);
}

// (buffer, shape, (DLPack type code, bits), DLPack device type, device number)
nb::tuple wrap(AnyRuntime& rt, const nb::ndarray<>& tensor)
{
    std::vector<size_t> shape;
    uint64_t elements = 1;
    bool contiguous = true;
    for (size_t i = tensor.ndim(); i-- > 0;) {
        contiguous &= tensor.shape(i) == 1 || tensor.stride(i) == static_cast<int64_t>(elements);
        elements *= tensor.shape(i);
        shape.insert(shape.begin(), tensor.shape(i));
    }
    const nb::dlpack::dtype type = tensor.dtype();
    contiguous |= elements == 0; // wrap() below says what is wrong with that
    if (!contiguous || type.lanes != 1 || type.bits % 8 != 0) {
        throw Error(Errc::bad_argument, "the tensor is not contiguous in memory, or its elements "
                                        "are no whole bytes; wrap a contiguous copy of it");
    }
    void* data = tensor.data();
    const uint64_t bytes = elements * type.bits / 8;
    const int device_type = tensor.device_type();
    const int device_id = tensor.device_id();
    Buffer buffer;
    {
        std::shared_ptr<void> owner = keep(nb::ndarray<>(tensor));
        const Unlocked unlocked;
        buffer = rt.wrap(data, bytes, std::move(owner));
    }
    return nb::make_tuple(std::move(buffer), nb::tuple(nb::cast(shape)),
                          nb::make_tuple(type.code, type.bits), device_type, device_id);
}

} // namespace

void denizen::bind::buffers(nb::module_& m)
{
    nb::class_<Buffer>(m, "Buffer")
        .def_prop_ro("ref", [](const Buffer& b) { return b.ref().value; })
        .def_prop_ro("kind", [](const Buffer& b) { return std::string(to_string(b.kind())); })
        .def_prop_ro("bytes", &Buffer::bytes)
        .def_prop_ro("pointer",
                     [](const Buffer& b) { return reinterpret_cast<uintptr_t>(b.data()); })
        .def_prop_ro("cpu", [](const Buffer& b) { return b.cpu() != nullptr; })
        .def_prop_ro("closed", &Buffer::closed)
        .def("close",
             [](Buffer& b) {
                 const Unlocked unlocked;
                 b.close();
             })
        // Where the CPU reaches it; the caller has looked whether it does.
        .def("numpy",
             [](const Buffer& b, const std::vector<size_t>& shape, uint8_t code, uint8_t bits) {
                 void* data = b.cpu() != nullptr ? b.cpu() : b.data();
                 return view<nb::ndarray<nb::numpy>>(b, data, shape, code, bits,
                                                     nb::device::cpu::value, 0);
             })
        // An object with __dlpack__.
        .def("dlpack", [](const Buffer& b, const std::vector<size_t>& shape, uint8_t code,
                          uint8_t bits, int device_type, int device_id) {
            return view<nb::ndarray<nb::array_api>>(b, b.data(), shape, code, bits, device_type,
                                                    device_id);
        });
    m.def("make_buffer", [](AnyRuntime& rt, uint64_t bytes, const std::string& kind) {
        const BufferKind which = kind_of(kind);
        const Unlocked unlocked;
        return rt.buffer(bytes, which);
    });
    m.def("wrap_tensor", &wrap, nb::arg(), nb::arg().noconvert());
    m.def("wrap_pointer",
          [](AnyRuntime& rt, uintptr_t pointer, uint64_t bytes, const nb::object& object) {
              std::shared_ptr<void> owner = keep(nb::object(object));
              const Unlocked unlocked;
              return rt.wrap(reinterpret_cast<void*>(pointer), bytes, std::move(owner));
          });
    // (open, waiting, bytes)
    m.def("buffer_stats", [](AnyRuntime& rt) {
        BufferStats s;
        {
            const Unlocked unlocked;
            s = rt.buffers();
        }
        return nb::make_tuple(s.open, s.waiting, s.bytes);
    });
}
