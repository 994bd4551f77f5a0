// SPDX-License-Identifier: Apache-2.0
// denizen._core.Runtime's methods that send, ask and receive. Payloads are bytes: their types are
// python/denizen/message.py's business.
#include "bind.hpp"

#include <chrono>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <thread>

namespace nb = nanobind;

namespace denizen::bind {
namespace {

using Addresses = nb::ndarray<const uint32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// One address for all messages, or one for each.
const Address* addresses(const Addresses& to, size_t count, bool& to_one)
{
    to_one = to.size() == 1;
    if (!to_one && to.size() != count) {
        throw Error(Errc::bad_argument, std::to_string(to.size()) + " addresses for " +
                                            std::to_string(count) +
                                            " messages; give one or as many");
    }
    static_assert(sizeof(Address) == sizeof(uint32_t));
    return reinterpret_cast<const Address*>(to.data());
}

nb::bytes payload_bytes(const unsigned char* data, uint32_t length)
{
    return nb::bytes(data, length);
}

} // namespace

void sending(nb::class_<AnyRuntime>& runtime)
{
    runtime
        .def("send",
             [](AnyRuntime& rt, uint32_t to, uint32_t type, nb::handle message, double timeout) {
                 const Bytes payload(message, false);
                 const Unlocked unlocked;
                 rt.send({to}, type, payload.data(), static_cast<uint32_t>(payload.size()),
                         seconds(timeout));
             })
        .def("send_many",
             [](AnyRuntime& rt, const Addresses& to, uint32_t type, nb::handle messages,
                uint32_t length, size_t count, double timeout) {
                 const Bytes payloads(messages, false);
                 if (payloads.size() != count * length) {
                     throw Error(Errc::bad_argument, std::to_string(payloads.size()) +
                                                         " bytes are not " + std::to_string(count) +
                                                         " messages of " + std::to_string(length));
                 }
                 bool to_one = false;
                 const Address* a = addresses(to, count, to_one);
                 const Unlocked unlocked;
                 rt.send_many(a, to_one, type, payloads.data(), length, length, count,
                              seconds(timeout));
             })
        .def("broadcast", [](AnyRuntime& rt, uint32_t actor_type, uint32_t type, nb::handle message,
                             double timeout) {
            const Bytes payload(message, false);
            const Unlocked unlocked;
            rt.broadcast(actor_type, type, payload.data(), static_cast<uint32_t>(payload.size()),
                         seconds(timeout));
        });
}

void asking(nb::class_<AnyRuntime>& runtime)
{
    runtime
        // Returns (message type, payload).
        .def("ask",
             [](AnyRuntime& rt, uint32_t to, uint32_t type, nb::handle message, double timeout) {
                 const Bytes payload(message, false);
                 const uint32_t room = rt.image().table.max_message;
                 unsigned char small[256];
                 std::vector<unsigned char> large(room > sizeof small ? room : 0);
                 unsigned char* reply = large.empty() ? small : large.data();
                 Header h;
                 {
                     const Unlocked unlocked;
                     h = rt.ask({to}, type, payload.data(), static_cast<uint32_t>(payload.size()),
                                reply, room, seconds(timeout));
                 }
                 return nb::make_tuple(h.type, payload_bytes(reply, h.length));
             })
        .def("ask_many",
             [](AnyRuntime& rt, const Addresses& to, uint32_t type, nb::handle messages,
                uint32_t length, bool one_message, size_t count, uint32_t reply_type,
                nb::handle replies, uint32_t reply_length, double timeout) {
                 const Bytes payloads(messages, false);
                 const Bytes out(replies, true);
                 if (payloads.size() != (one_message ? 1 : count) * length ||
                     out.size() != count * reply_length) {
                     throw Error(Errc::bad_argument, "messages or replies of another length than " +
                                                         std::to_string(count));
                 }
                 bool to_one = false;
                 const Address* a = addresses(to, count, to_one);
                 const Unlocked unlocked;
                 rt.ask_many(a, to_one, type, payloads.data(), length, one_message ? 0 : length,
                             count, reply_type, out.data(), reply_length, reply_length,
                             seconds(timeout));
             })
        .def("ask_begin",
             [](AnyRuntime& rt, uint32_t to, uint32_t type, nb::handle message, double timeout) {
                 const Bytes payload(message, false);
                 const Unlocked unlocked;
                 return rt
                     .ask_begin({to}, type, payload.data(), static_cast<uint32_t>(payload.size()),
                                seconds(timeout))
                     .value;
             })
        // The tickets whose replies have arrived; waits until there is one, at most `timeout`.
        .def("ask_ready",
             [](const AnyRuntime& rt, const std::vector<uint32_t>& tickets, double timeout) {
                 std::vector<uint32_t> ready;
                 const Unlocked unlocked;
                 const auto until = std::chrono::steady_clock::now() + seconds(timeout);
                 for (uint32_t tries = 0;; ++tries) { // ends by a reply or the time-out
                     for (const uint32_t t : tickets) {
                         if (rt.ask_ready({t})) {
                             ready.push_back(t);
                         }
                     }
                     if (!ready.empty() || std::chrono::steady_clock::now() >= until) {
                         return ready;
                     }
                     check_interrupt();
                     if (tries > 2000) {
                         std::this_thread::sleep_for(std::chrono::microseconds(50));
                     }
                 }
             })
        .def("ask_end",
             [](AnyRuntime& rt, uint32_t ticket) {
                 std::vector<unsigned char> reply(rt.image().table.max_message);
                 Header h;
                 {
                     const Unlocked unlocked;
                     h = rt.ask_end({ticket}, reply.data(), static_cast<uint32_t>(reply.size()),
                                    seconds(1));
                 }
                 return nb::make_tuple(h.type, payload_bytes(reply.data(), h.length));
             })
        .def("ask_abandon", [](AnyRuntime& rt, uint32_t ticket) { rt.ask_abandon({ticket}); })
        .def("error_name",
             [](const AnyRuntime& rt, uint32_t actor) { return rt.error_name({actor}); });
}

void receiving(nb::class_<AnyRuntime>& runtime)
{
    runtime
        // Returns (message type, payload, sender).
        .def("receive",
             [](AnyRuntime& rt, double timeout) {
                 Message message;
                 {
                     const Unlocked unlocked;
                     message = rt.receive(seconds(timeout));
                 }
                 return nb::make_tuple(message.header.type,
                                       payload_bytes(message.payload.data(), message.header.length),
                                       message.header.sender);
             })
        .def("receive_many", [](AnyRuntime& rt, uint32_t type, nb::handle messages, uint32_t length,
                                size_t count, nb::handle senders) {
            const Bytes out(messages, true);
            const Bytes from(senders, true);
            if (out.size() < count * length || from.size() < count * sizeof(Address)) {
                throw Error(Errc::bad_argument,
                            "the buffers hold fewer than " + std::to_string(count) + " messages");
            }
            const Unlocked unlocked;
            return rt.receive_many(type, out.data(), length, length, count,
                                   reinterpret_cast<Address*>(from.data()));
        });
}

} // namespace denizen::bind
