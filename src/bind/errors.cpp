// SPDX-License-Identifier: Apache-2.0
// How an Error becomes Python's exception: errors.py registers a class for each code.
#include "bind.hpp"

#include <cstring>

namespace nb = nanobind;

namespace denizen::bind {

void errors(nb::module_& m)
{
    // Only (code, text) crosses.
    nb::register_exception_translator(
        [](const std::exception_ptr& p, void* module) {
            try {
                std::rethrow_exception(p);
            } catch (const Error& e) {
                try {
                    nb::object make = nb::handle(static_cast<PyObject*>(module)).attr("_error");
                    // It may quote a file's bytes, which need not be UTF-8.
                    nb::object text = nb::steal(PyUnicode_DecodeUTF8(
                        e.what(), static_cast<Py_ssize_t>(std::strlen(e.what())),
                        "backslashreplace"));
                    nb::object error = make(static_cast<uint32_t>(e.code()), text);
                    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
                } catch (nb::python_error& other) { // as Ctrl-C, whose handler runs in Python code
                    other.restore();
                }
            }
        },
        m.ptr());
}

} // namespace denizen::bind
