// SPDX-License-Identifier: Apache-2.0
// A stranger's program: one message through a ring of the installed headers.
#include <denizen/wire/channel.hpp>

int main()
{
    denizen::Channel<denizen::Spsc> ring("numbers", 16);
    auto sender = ring.sender();
    auto receiver = ring.receiver();
    const int sent = 42;
    int got = 0;
    sender.send({.destination = 1, .sender = 2, .type = 3, .flags = 0, .length = sizeof sent},
                &sent);
    receiver.receive(&got, sizeof got);
    return got == sent ? 0 : 1;
}
