// SPDX-License-Identifier: Apache-2.0
// denizen._core: the untyped runtime for Python. Types, names and dtypes are the package's business
// (python/denizen/); this module only crosses the boundary, without the GIL wherever it may wait.
// bind.hpp says which file has what.
#include "bind.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace denizen;

NB_MODULE(_core, m)
{
    // Its threads take the GIL by PyGILState_Ensure, which knows the main interpreter alone.
    if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) { // the main one has 0
        throw nb::import_error("denizen cannot be imported in a sub-interpreter; import it in the "
                               "main one, or in a process of its own");
    }
#ifdef NDEBUG
    // A daemon thread that is in a call when the interpreter ends holds its runtime for good; that
    // is no news to the user of a finished package.
    nb::set_leak_warnings(false);
#endif
    bind::main_thread = nb::cast<unsigned long>(
        nb::module_::import_("threading").attr("main_thread")().attr("ident"));
    m.attr("_error") = nb::none(); // errors.py sets it
    m.attr("layout_abi") = layout_abi;
    m.attr("max_short") = first_payload;
    m.attr("near") = std::vector<std::string>{"worker", "sm", "cluster", "node"}; // by Near

    bind::errors(m);
    bind::compilers(m);
    bind::images(m);
    bind::handlers(m);
    bind::buffers(m);
    bind::arenas(m);
    bind::runtimes(m);
    bind::clusters(m);
    bind::services(m);
    bind::tasks(m);
    bind::flows(m);
    bind::groups(m);

    bind::signals(m);
    bind::models(m);
    bind::graphs(m);
    bind::process_mining(m);
    bind::radios(m);
    bind::transaction_stages(m);
    bind::waves(m);
}
