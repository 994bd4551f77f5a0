// SPDX-License-Identifier: Apache-2.0
// Wire: a ring between two threads. A message is its own flag: whoever finds the sequence it
// expects has the payload with it. A full ring holds the producer back.
#include <denizen/wire/channel.hpp>

#include <cstdio>
#include <thread>

namespace {

using namespace std::chrono_literals;

struct Order {
    uint64_t number;
    double price;
};

constexpr uint64_t orders = 200'000;
constexpr uint32_t order_type = 3;

} // namespace

int main()
{
    denizen::Channel<denizen::Spsc> ring("orders", 1024); // or Mpsc, Mpmc

    std::thread producer([sender = ring.sender()]() mutable {
        const denizen::Header header{1, 2, order_type, 0, sizeof(Order)};
        for (uint64_t i = 0; i < orders; ++i) {
            const Order order{i, 0.5 * static_cast<double>(i)};
            sender.send(header, &order, 10s); // waits for room
        }
    });

    auto receiver = ring.receiver();
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < orders; ++i) {
        Order order{};
        const denizen::Header h = receiver.receive(&order, sizeof order, 10s, denizen::Park{});
        const bool right = h.type == order_type && h.length == sizeof order && order.number == i;
        wrong += right && order.price == 0.5 * static_cast<double>(i) ? 0 : 1;
    }
    producer.join();
    std::printf("%llu orders through a ring of 1024 slots, %llu out of order or torn\n",
                static_cast<unsigned long long>(orders), static_cast<unsigned long long>(wrong));
    return wrong == 0 ? 0 : 1;
}
