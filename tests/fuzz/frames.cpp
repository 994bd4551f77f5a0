// SPDX-License-Identifier: Apache-2.0
// What comes over a cluster's stream: frames as a host of it would send them, with one field or
// another changed, cut anywhere. What is no message ends the link; what was sent and not
// acknowledged comes out again, whole.
#include <cluster/row.hpp> // of a smaller window (CMakeLists.txt)
#include <cluster/wire.hpp>

#include "fuzz/pieces.hpp"

#include <algorithm>
#include <cstring>
#include <sys/socket.h>
#include <vector>

using namespace denizen;
using namespace denizen::fuzz;

namespace {

constexpr uint64_t nonce = 42;

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size)
{
    Input in{data, size};
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0) {
        return 0;
    }
    cluster::Descriptor other(sockets[1]);
    cluster::IsUrgent urgent; // or none are
    if (in.word() % 2 != 0) {
        urgent = [](const Header& h) { return h.type % 4 == 0; };
    }
    const auto wire = cluster::make_stream(sockets[0], nonce, nullptr, {}, urgent);
    // Some messages of ours, whose payloads would make heads of their own.
    std::vector<uint32_t> payload(64, in.word());
    std::vector<uint64_t> boundary{0};
    const uint32_t messages = in.word() % 6;
    for (uint32_t i = 0; i < messages; ++i) {
        Header h;
        h.destination = i;
        h.length = in.word() % (payload.size() * 4);
        trap_unless(wire->send(h, payload.data(), false));
        boundary.push_back(boundary.back() + 16 + ((h.length + 3) & ~3u));
    }
    wire->flush();
    std::vector<unsigned char> bytes;
    uint64_t position = 0;
    while (in.size != 0 && bytes.size() < 1 << 16) { // ends with the input
        const uint32_t how = in.word();
        std::vector<unsigned char> body;
        const uint32_t count = how % 4;
        for (uint32_t i = 0; i < count; ++i) {
            const uint32_t length = in.word() % 300;
            const uint32_t head[4] = {in.word(), in.word(), length << 15 | (in.word() & 0x7fff), 0};
            const auto* p = reinterpret_cast<const unsigned char*>(head);
            body.insert(body.end(), p, p + sizeof head);
            body.resize(body.size() + ((length + 3) & ~3u), static_cast<unsigned char>(length));
        }
        const uint64_t arrived =
            how >> 2 & 1 ? boundary[(how >> 3) % boundary.size()] : (how >> 3) % 256;
        uint32_t frame[12] = {0x325a4e44, count, static_cast<uint32_t>(nonce), 0};
        const uint64_t limit = arrived + cluster::window;
        std::memcpy(frame + 4, &position, 8);
        std::memcpy(frame + 6, &arrived, 8);
        std::memcpy(frame + 8, &limit, 8);
        frame[10] = static_cast<uint32_t>(body.size());
        if ((how >> 11) % 4 == 0) { // one word of it is another
            frame[(how >> 13) % 12] ^= in.word();
        }
        if ((how >> 17) % 8 == 0 && !body.empty()) {
            body[in.word() % body.size()] ^= static_cast<unsigned char>(1 + how % 255);
        }
        const auto* p = reinterpret_cast<const unsigned char*>(frame);
        bytes.insert(bytes.end(), p, p + sizeof frame);
        bytes.insert(bytes.end(), body.begin(), body.end());
        position += body.size();
    }
    Header h;
    static std::vector<unsigned char> room(max_length);
    for (size_t at = 0; at < bytes.size();) { // ends: at grows
        const ssize_t n =
            send(other.get(), bytes.data() + at, std::min<size_t>(bytes.size() - at, 4096),
                 MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n <= 0) {
            break;
        }
        at += static_cast<size_t>(n);
        wire->pump();
        while (urgent && wire->receive_urgent(h, room.data(), max_length)) { // ends: they are few
            trap_unless(urgent(h) && h.length <= max_length);
            wire->done_urgent();
        }
        for (; wire->receive(h, room.data(), max_length); wire->done()) {
            trap_unless(h.length <= max_length);
        }
    }
    const uint64_t acknowledged = wire->acknowledged();
    trap_unless(acknowledged <= messages);
    uint64_t left = 0;
    wire->unacknowledged([&](const Header& kept, const void* what) {
        trap_unless(kept.destination == acknowledged + left);
        trap_unless(std::memcmp(what, payload.data(), kept.length) == 0);
        ++left;
    });
    trap_unless(acknowledged + left == messages);
    return 0;
}
