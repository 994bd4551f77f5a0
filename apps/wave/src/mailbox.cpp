// SPDX-License-Identifier: Apache-2.0
#include "mailbox.hpp"

#include <algorithm>
#include <cstring>
#include <denizen/base/interrupt.hpp>

namespace denizen::wave {

namespace {

constexpr uint32_t most_together = 64; // commands; the ring of answers must hold them all

} // namespace

Mailbox::Mailbox(const Allocate& allocate, uint64_t cells, uint32_t bytes_per_cell)
    : cells_(cells), bytes_per_cell_(bytes_per_cell)
{
    struct Words {
        RingWords in;
        RingWords out;
        alignas(line) uint32_t heartbeat;
        alignas(line) uint32_t told;
    };
    memory_ = allocate(sizeof(Words) + 2 * slots * sizeof(Slot));
    window_ = allocate(cells * bytes_per_cell);
    auto* words = new (memory_.get()) Words{};
    auto* first = reinterpret_cast<Slot*>(static_cast<std::byte*>(memory_.get()) + sizeof(Words));
    heartbeat_ = &words->heartbeat;
    told_ = &words->told;
    in_ = {first, slots - 1, 0, &words->in};
    out_ = {first + slots, slots - 1, 0, &words->out};
    clear_slots(in_.slots, slots, 0);
    clear_slots(out_.slots, slots, 0);
    sender_ = SpscSender<Scope::system>(in_);
    receiver_ = SpscReceiver<Scope::system>(out_);
}

void Mailbox::allow(uint32_t changes, uint32_t sources)
{
    changes_left_ = changes;
    sources_left_ = sources;
}

// Whoever gives up waiting has used up his share all the same: his commands are in the ring.
void Mailbox::claim(const std::vector<Request>& commands)
{
    uint32_t changes = 0;
    uint32_t sources = 0;
    for (const Request& command : commands) {
        changes += changes_something(command.act);
        sources += command.act == Act::source;
    }
    if (changes > changes_left_ || sources > sources_left_) {
        throw Error(Errc::exhausted, "a run takes " + std::to_string(most_changes) +
                                         " changes of cells, damping and sources, and has " +
                                         std::to_string(most_sources) +
                                         " sources at most; finish() it and start() another");
    }
    changes_left_ -= changes;
    sources_left_ -= sources;
}

uint32_t Mailbox::ask(std::vector<Request>& commands, std::vector<double>* values,
                      nanoseconds patience, const std::function<bool()>& over)
{
    const std::lock_guard guard(mutex_);
    if (commands.empty() || commands.size() > most_together) {
        throw Error(Errc::bad_argument, std::to_string(commands.size()) +
                                            " commands at once; 1 to " +
                                            std::to_string(most_together) + " can be");
    }
    claim(commands);
    const uint64_t begin = now_ns();
    const auto limit = static_cast<uint64_t>(std::max<int64_t>(patience.count(), 0));
    const uint32_t first = next_;
    next_ += static_cast<uint32_t>(commands.size());
    Backoff idle;
    const auto wait = [&] {
        if (now_ns() - begin > limit) {
            throw Error(Errc::timeout, "a command was not taken for " +
                                           denizen::detail::seconds(now_ns() - begin) +
                                           ": a step takes longer; wait longer");
        }
        check_interrupt();
        idle.pause();
    };
    for (size_t i = 0; i < commands.size(); ++i) {
        commands[i].joined = i + 1 < commands.size() ? 1 : 0;
        const Command order = command_of(commands[i]);
        const Header header{0, first + static_cast<uint32_t>(i), 0, 0, sizeof order};
        // Ends with room, which the other side makes, or by the deadline.
        while (sender_.try_send(header, &order) == Errc::full) wait();
    }
    // Ends with the answer, which names the last command, with the run, or by the deadline.
    for (bool again = false;; again = over()) {
        Answer answer;
        Header header;
        while (receiver_.try_receive(header, &answer, sizeof answer) == Errc::ok) {
            if (header.destination + 1 != next_) continue; // to one that gave up
            if (answer.over) {
                throw Error(Errc::closed, "the command came too late: the run was over");
            }
            if (values != nullptr) {
                take(commands.back().edit.box, answer, *values);
            }
            return answer.step;
        }
        if (again) {
            throw Error(Errc::closed, "the command came too late: the run was over");
        }
        wait();
    }
}

void Mailbox::take(const Box& box, const Answer& answer, std::vector<double>& values) const
{
    values.resize(box.cells());
    for (size_t k = 0; k < values.size(); ++k) {
        values[k] = values.size() <= few_cells ? answer.value[k] : cell(k);
    }
}

double Mailbox::cell(size_t k) const
{
    return bytes_per_cell_ == 4 ? static_cast<const float*>(window())[k]
                                : static_cast<const double*>(window())[k];
}

Served::Served(Mailbox& mailbox, std::function<void(Request&)> apply,
               std::function<void(const Box&)> read)
    : mailbox_(mailbox), in_(mailbox.orders()), out_(mailbox.answers()), apply_(std::move(apply)),
      read_(std::move(read))
{
}

void Served::answer(uint32_t id, const Answer& reply)
{
    (void)out_.try_send({id, 0, 0, 0, sizeof reply}, &reply); // there is room: see most_together
}

bool Served::serve(uint32_t step)
{
    Backoff idle;
    bool ended = false;
    bool joined = false;
    while (true) { // ends when nothing is left to serve and the run is not paused
        Command order;
        Header header;
        if (in_.try_receive(header, &order, sizeof order) != Errc::ok) {
            const bool held = paused_ || (until_ != 0 && step >= until_);
            if (joined || (held && !ended)) {
                check_interrupt();
                idle.pause();
                continue;
            }
            return !ended;
        }
        Request command = request_of(order);
        joined = command.joined != 0;
        command.step = step;
        switch (command.act) {
        case Act::pause: paused_ = true; break;
        case Act::resume:
            paused_ = false;
            until_ = command.until;
            break;
        case Act::end: ended = true; break;
        case Act::read: read_(command.edit.box); break;
        default: apply_(command); break;
        }
        if (joined) continue;
        Answer reply{step, false, {}};
        if (command.act == Act::read && command.edit.box.cells() <= few_cells) {
            for (size_t k = 0; k < command.edit.box.cells(); ++k) reply.value[k] = mailbox_.cell(k);
        }
        answer(header.sender, reply);
    }
}

void Served::close(uint32_t step)
{
    Command order;
    Header header;
    while (in_.try_receive(header, &order, sizeof order) == Errc::ok) { // ends: nobody sends on
        if (request_of(order).joined == 0) answer(header.sender, {step, true, {}});
    }
}

} // namespace denizen::wave
