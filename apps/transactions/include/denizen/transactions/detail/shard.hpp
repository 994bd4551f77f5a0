// SPDX-License-Identifier: Apache-2.0
// The actor of transaction monitoring. A stage has `shards` of them; each owns the customers that
// hash to it and takes a part of every pass over a batch (book.hpp; split.hpp, judge.hpp,
// search.hpp). stage.hpp is the host's side. One text for GPU and CPU threads; on a GPU a shard is
// a warp.
//
// All that outlives a message lies in the book. So a shard that failed, in whatever place, is
// restarted empty and told again what it may have missed: what it had done already it finds done.
// One that finds no room for a customer says so and leaves its part undone, to be told again too.
#pragma once

#include <denizen/actor/context.hpp>
#include <denizen/transactions/detail/judge.hpp>
#include <denizen/transactions/detail/search.hpp>
#include <denizen/transactions/detail/split.hpp>

namespace denizen::transactions {

class Shard {
public:
    static constexpr auto grain = Grain::warp;
    static constexpr bool can_fail = true;

    DENIZEN_ONCE void on(const Open& m, auto& ctx)
    {
        const auto bytes = ctx.template data<unsigned char>(m.book);
        if (!bytes) {
            return; // the program's first error says so
        }
        Book& book = *reinterpret_cast<Book*>(bytes.data);
        if (m.step == 0) {
            const Offsets at = offsets(m.geometry);
            const uint64_t units = (at.end - at.ledgers) / 16;
            const uint64_t begin = units * m.part / m.geometry.shards;
            const uint64_t end = units * (m.part + 1) / m.geometry.shards;
            clear(bytes.data + at.ledgers, begin, end, ctx);
            if (m.part == 0) {
                clear(bytes.data, 0, sizeof(Book) / 16, ctx);
                ctx.sync();
                if (ctx.lane() == 0) {
                    book.geometry = m.geometry;
                    book.at = at;
                    book.flights[0].to_judge = m.geometry.shards; // no search before the first
                }
                for (uint32_t code = ctx.lane(); code < country_codes; code += ctx.lanes()) {
                    book.bits[code] = static_cast<uint8_t>(country_bit(code));
                }
            }
        } else if (ctx.lane() == 0) {
            book.address[m.part] = ctx.self().value;
        }
        ctx.sync();
        ctx.reply(Ready{0});
    }

    DENIZEN_ONCE void on(const Grow& m, auto& ctx)
    {
        if (const auto book = ctx.template data<Book>(m.book)) {
            if (ctx.lane() == 0) {
                book[0].regions.add(ArenaRef(reinterpret_cast<const arena::Map*>(m.map)));
            }
            ctx.sync();
            ctx.reply(Ready{0});
        }
    }

    DENIZEN_ONCE void on(const Change& m, auto& ctx)
    {
        if (const auto book = ctx.template data<Book>(m.book)) {
            if (ctx.lane() == 0) {
                book[0].rules = m.rules;
            }
            ctx.sync();
            ctx.reply(Ready{0});
        }
    }

    DENIZEN_ONCE void on(const Put& m, auto& ctx)
    {
        const auto found = ctx.template data<Book>(m.book);
        const auto from = ctx.template data<const unsigned char>(m.from);
        if (!found || !from) {
            return;
        }
        const auto* const profiles = reinterpret_cast<const Profile*>(from.data) + m.first;
        const auto* const customers = reinterpret_cast<const Customer*>(from.data) + m.first;
        Ledger& ledger = found[0].ledger(m.part);
        uint32_t done = 0;
        for (; done < m.count; ++done) {
            const uint64_t customer =
                m.whole != 0 ? customers[done].key - 1 : profiles[done].customer;
            Entry* entry = ledger.find(customer);
            if (entry == nullptr) {
                entry = ledger.take(found[0].regions, customer, ctx);
            }
            if (entry == nullptr) {
                break;
            }
            if (m.whole != 0) {
                copy(entry->customer, &customers[done], sizeof(Customer) / 8, ctx);
                entry->edge = customers[done].edge;
            } else if (ctx.lane() == 0) {
                entry->customer->set(profiles[done]);
            }
        }
        ctx.sync();
        ctx.reply(Ready{m.count - done});
    }

    DENIZEN_ONCE void on(const Get& m, auto& ctx)
    {
        const auto found = ctx.template data<Book>(m.book);
        const auto to = ctx.template data<Customer>(m.to);
        if (!found || !to) {
            return;
        }
        const CustomerBlock* block = found[0].ledger(m.part).first;
        uint32_t before = 0; // customers in earlier blocks; ends: the ledger has as many
        for (uint32_t k = 0; k < m.count; ++k) {
            while (m.first + k >= before + CustomerBlock::customers) {
                block = block->next;
                before += CustomerBlock::customers;
            }
            copy(&to[m.at + k], &block->customer[m.first + k - before], sizeof(Customer) / 8, ctx);
        }
        ctx.sync();
        ctx.reply(Ready{m.count});
    }

    DENIZEN_ONCE void on(const Move& m, auto& ctx)
    {
        const auto from = ctx.template data<const unsigned char>(m.from);
        const auto to = ctx.template data<unsigned char>(m.to);
        if (!from || !to) {
            return;
        }
        copy(to.data + m.to_at, from.data + m.from_at, m.bytes / 8, ctx);
        ctx.sync();
        ctx.reply(Ready{0});
    }

    DENIZEN_ONCE void on(const Taken& m, auto& ctx)
    {
        if (const auto book = ctx.template data<Book>(m.book)) {
            ctx.reply(Ready{book[0].ledger(m.part).taken});
        }
    }

    DENIZEN_ONCE void on(const Drill& m, auto& ctx)
    {
        if (ctx.lane() == 0) {
            fail_in_ = m.pass + 1;
            fail_after_ = m.after;
        }
        ctx.sync();
        ctx.reply(Ready{0});
    }

    DENIZEN_HD void on(const Feed& m, auto& ctx)
    {
        const auto found = ctx.template data<Book>(m.book);
        const auto records = ctx.template data<const Transaction>(m.records);
        if (!found || !records) {
            return;
        }
        Book& book = found[0];
        if (book.has_done(Pass::split, m.batch, 0)) {
            return; // told again
        }
        uint32_t waiting = 0;
        if (!is_fed(book, m.batch)) {
            waiting = open_flight(book, m, records.data + m.first, ctx);
        }
        const Due due{Pass::split, m.batch, true};
        if (waiting + 1 < book.geometry.shards) {
            send_steps(book, due, 0, ctx);
        }
        go_on(book, due, 0, ctx);
    }

    DENIZEN_HD void on(const Step& m, auto& ctx)
    {
        Book& book = *reinterpret_cast<Book*>(m.book);
        const uint32_t part = m.pass_part & 0xffff;
        const Due due{static_cast<Pass>(m.pass_part >> 16), m.batch, true};
        if (is_open(book, due)) { // or it is before its time, because the host could not know
            go_on(book, due, part, ctx);
        }
    }

private:
    DENIZEN_HD static void clear(unsigned char* from, uint64_t begin, uint64_t end, auto& ctx)
    {
        auto* units = reinterpret_cast<Unit*>(from);
        for (uint64_t k = begin + ctx.lane(); k < end; k += ctx.lanes()) {
            units[k] = Unit{};
        }
    }

    DENIZEN_HD static void copy(void* to, const void* from, uint64_t words, auto& ctx)
    {
        for (uint64_t k = ctx.lane(); k < words; k += ctx.lanes()) {
            static_cast<uint64_t*>(to)[k] = static_cast<const uint64_t*>(from)[k];
        }
    }

    // After how many records a pass fails, as the last Drill had it: the restart forgets it.
    DENIZEN_HD uint32_t fails_after(Pass pass) const
    {
        return fail_in_ == static_cast<uint32_t>(pass) + 1 ? fail_after_ : ~0u;
    }

    // What the passes ask of a context. Of a shard it is known that all lanes take part; the
    // context would look it up in memory after each call.
    template <class C>
    struct OfWarp {
        C& ctx;

        DENIZEN_HD uint32_t lane() const { return denizen::lanes::id(); }
        DENIZEN_HD uint32_t lanes() const { return denizen::lanes::size; }
        DENIZEN_HD void sync() const { denizen::lanes::sync(); }
        DENIZEN_HD void send(Address to, const Alert& alert) const { ctx.send(to, alert); }
    };

    // A part of a pass. `fail_after` by value: a load in each turn of its loop would have to wait
    // for all that has been asked for ahead.
    template <class C>
    DENIZEN_ONCE static End run(Book& book, Pass pass, uint32_t batch, uint32_t part,
                                uint32_t fail_after, C& ctx)
    {
        OfWarp<C> warp{ctx};
        const auto fails = [fail_after, &ctx](uint32_t records) {
            if (records < fail_after) {
                return false;
            }
            ctx.fail(drilled);
            return true;
        };
        return pass == Pass::split   ? split(book, batch, part, warp, fails)
               : pass == Pass::judge ? judge(book, batch, part, warp, fails)
                                     : search(book, batch, part, warp, fails);
    }

    // What a gate, or Flight::fed, shows. Acquire: partner of finish(), by whoever opened the gate,
    // or of open_flight(). One lane's word for all: a gate may open between two lanes' looks.
    DENIZEN_HD static uint64_t shows(const uint64_t& word)
    {
        return lanes::shuffle(load<Scope::gpu, Order::acquire>(&word), 0) % waiter;
    }
    DENIZEN_HD static bool is_fed(Book& book, uint32_t batch)
    {
        return shows(book.flight(batch).fed) == uint64_t{batch} + 1;
    }

    // What a part does next, if it is to go on at once.
    struct Due {
        Pass pass = Pass::split;
        uint32_t batch = 0;
        bool now = false;
    };
    DENIZEN_HD static bool is_open(Book& book, const Due& due)
    {
        const Flight& flight = book.flight(due.batch);
        return due.pass == Pass::split   ? is_fed(book, due.batch)
               : due.pass == Pass::judge ? shows(flight.to_judge) >= book.opens_at(due.batch, 2)
                                         : shows(flight.to_search) >= book.opens_at(due.batch, 1);
    }

    // What is due, and what follows as long as it need not be told.
    DENIZEN_ONCE void go_on(Book& book, Due due, uint32_t part, auto& ctx)
    {
        while (due.now && !book.has_done(due.pass, due.batch, part)) { // ends: or told again
            const bool splits = due.pass == Pass::split;
            if (!splits || put_off_ != due.batch + 1) {
                send_steps(book, due, tree_fan_out * (part + 1), ctx);
            }
            if (splits && splits_late(book, due.batch, part) &&
                !book.has_done(Pass::judge, due.batch - 1, part)) {
                if (ctx.lane() == 0) {
                    put_off_ = due.batch + 1;
                }
                ctx.sync();
                return; // finish() comes back to it
            }
            // As they are before it looks for room.
            const uint32_t regions = load<Scope::gpu>(&book.regions.count);
            const End end = run(book, due.pass, due.batch, part, fails_after(due.pass), ctx);
            lanes::rejoin();
            if (end == End::full) {
                ctx.send(host, Full{due.batch, part, regions});
            }
            due = end == End::done ? finish(book, due, part, ctx) : Due{};
        }
    }

    // Who splits waits for the bus, who judges for memory. Did all parts the same at the same time,
    // one of the two would be idle. So every second slice of a batch that comes across the bus is
    // cut only when its part has judged the batch before.
    DENIZEN_HD static bool splits_late(Book& book, uint32_t batch, uint32_t part)
    {
        const uint32_t slices = book.slices(book.flight(batch).count);
        return book.geometry.staged != 0 && batch != 0 &&
               Book::first_of(slices, part, book.geometry.shards) % 2 != 0;
    }

    // This part of a pass is done. Whoever is the last at a gate starts what is behind it.
    DENIZEN_HD static Due finish(Book& book, const Due& done, uint32_t part, auto& ctx)
    {
        const uint32_t batch = done.batch;
        Flight& flight = book.flight(batch);
        ctx.sync(); // what all lanes have written comes before the gate
        if (ctx.lane() == 0) {
            book.done(done.pass, batch, part) = batch + 1;
        }
        if (done.pass == Pass::judge) {
            const Due split{Pass::split, batch + 1, true};
            const bool next = is_open(book, split) && splits_late(book, batch + 1, part) &&
                              !book.has_done(Pass::split, batch + 1, part);
            const Due due = pass_on(book, flight.to_search, 1, {Pass::search, batch}, !next, ctx);
            return next ? split : due;
        }
        // Nobody waits to judge who has to do before what the others wait for.
        if (done.pass == Pass::split) {
            const bool waits = batch == 0 || book.has_done(Pass::search, batch - 1, part);
            return pass_on(book, flight.to_judge, 2, {Pass::judge, batch}, waits, ctx);
        }
        if (passed(flight.to_finish, book.opens_at(batch, 1), 1, ctx).last) {
            send_finished(flight, batch, ctx);
        }
        Flight& following = book.flight(batch + 1);
        const bool waits = book.has_done(Pass::split, batch + 1, part);
        const Due next = pass_on(book, following.to_judge, 2, {Pass::judge, batch + 1}, waits, ctx);
        // Every eighth batch it looks at its messages: those that say what it has done without them
        // must not pile up.
        if (waits || !may_wait(book) || part == 0 || batch % 8 == 0) {
            return next;
        }
        if (ctx.lane() == 0) {
            fetch_add<Scope::gpu>(&following.fed, waiter);
        }
        const auto fed = [batch](uint64_t shown) { return shown == uint64_t{batch} + 2; };
        return {Pass::split, batch + 1, wait(following.fed, fed, ctx)};
    }

    // Few parts on a GPU wait a while at gates: if all do, nobody is told, which spares two
    // messages one after the other.
    DENIZEN_HD static bool may_wait(const Book& book)
    {
        return lanes::size > 1 && book.geometry.shards <= tree_fan_out;
    }
    // For a part that has counted itself among those who wait. Whether it is open now.
    DENIZEN_HD static bool wait(uint64_t& gate, auto&& is_open, auto& ctx)
    {
        const uint64_t begin = now_ns();
        bool open = false;
        while (!open && lanes::ballot(now_ns() - begin < patience) != 0) { // ends: by the clock
            open = is_open(lanes::shuffle(load<Scope::gpu>(&gate), 0) % waiter);
        }
        uint64_t shown = 0;
        if (ctx.lane() == 0) {
            // Acquire: partner of whoever opened it, by passed() or open_flight().
            shown = fetch_add<Scope::gpu, Order::acq_rel>(&gate, 0 - waiter);
        }
        ctx.sync();
        return is_open(lanes::shuffle(shown, 0) % waiter);
    }

    // One more at the gate to `next`, through which `each` times all parts go. The last tells all
    // parts, unless they wait.
    DENIZEN_HD static Due pass_on(Book& book, uint64_t& gate, uint32_t each, Due next, bool could,
                                  auto& ctx)
    {
        const uint64_t opens_at = book.opens_at(next.batch, each);
        const bool waits = could && may_wait(book);
        const Passed here = passed(gate, opens_at, waits ? 1 + waiter : 1, ctx);
        if (here.last && here.waiting + (waits ? 1 : 0) < book.geometry.shards) {
            send_steps(book, next, 0, ctx);
        }
        if (waits) {
            next.now = wait(gate, [opens_at](uint64_t shown) { return shown >= opens_at; }, ctx);
        }
        return next;
    }

    static constexpr uint64_t patience = 40'000; // ns

    struct Passed {
        bool last;        // so the gate is open now
        uint32_t waiting; // parts, before
    };
    DENIZEN_HD static Passed passed(uint64_t& gate, uint64_t opens_at, uint64_t add, auto& ctx)
    {
        uint64_t before = 0;
        if (ctx.lane() == 0) {
            // Release: what this part has done. Acquire: what the others have.
            before = fetch_add<Scope::gpu, Order::acq_rel>(&gate, add);
        }
        before = lanes::shuffle(before, 0);
        return {before % waiter + 1 == opens_at, static_cast<uint32_t>(before / waiter)};
    }

    // Parts `first` and on, as many as one tells, to begin a pass.
    DENIZEN_HD static void send_steps(Book& book, const Due& due, uint32_t first, auto& ctx)
    {
        for (uint32_t k = 0; k < tree_fan_out && first < book.geometry.shards; k += ctx.lanes()) {
            const uint32_t part = first + k + ctx.lane();
            const bool there = part < book.geometry.shards;
            ctx.send_each(Address{book.address[there ? part : 0]},
                          Step{reinterpret_cast<uint64_t>(&book), due.batch,
                               static_cast<uint32_t>(due.pass) << 16 | part},
                          there);
        }
    }

    DENIZEN_COLD static void send_finished(Flight& flight, uint32_t batch, auto& ctx)
    {
        uint32_t counts[outcomes + 1];
        for (uint32_t first = 0; first <= outcomes; first += ctx.lanes()) { // side by side
            const uint32_t mine = first + ctx.lane();
            const uint64_t count =
                mine <= outcomes ? exchange<Scope::gpu>(&flight.tally[mine], uint64_t{0}) : 0;
            for (uint32_t k = 0; k < lanes::size && first + k <= outcomes; ++k) {
                counts[first + k] = static_cast<uint32_t>(lanes::shuffle(count, k));
            }
        }
        Finished finished{batch, {}, counts[outcomes]};
        for (uint32_t o = 0; o < outcomes; ++o) {
            finished.tally[o] = counts[o];
        }
        ctx.sync();
        ctx.send(host, finished);
    }

    uint32_t put_off_ = 0; // 1 + batch that is to be split late, of which those behind know
    uint32_t fail_in_ = 0; // 1 + pass
    uint32_t fail_after_ = 0;
};

using Monitoring = Program<Actors<Shard>, Messages<Open, Grow, Change, Put, Get, Move, Taken, Drill,
                                                   Ready, Feed, Step, Full, Finished, Alert, Down>>;

} // namespace denizen::transactions
