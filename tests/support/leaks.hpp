// SPDX-License-Identifier: Apache-2.0
// For tests that leave something behind on purpose.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

namespace denizen::test {

// What a torn-down or left-behind program keeps is meant to stay: LeakSanitizer is told so.
class LeaksAreMeant {
public:
#if defined(__SANITIZE_ADDRESS__)
    LeaksAreMeant() { __lsan_disable(); }
    ~LeaksAreMeant() { __lsan_enable(); }
#else
    LeaksAreMeant() {}
    ~LeaksAreMeant() {}
#endif
    LeaksAreMeant(const LeaksAreMeant&) = delete;
    LeaksAreMeant& operator=(const LeaksAreMeant&) = delete;
};

} // namespace denizen::test
