// SPDX-License-Identifier: Apache-2.0
// The actor of transaction monitoring, and its messages. A stage has `shards` of them; each owns
// the customers that hash to it and takes a part of every pass over a batch (book.hpp). stage.hpp
// is the host's side. One text for GPU and CPU threads; on a GPU a shard is a warp.
//
// All that outlives a message lies in the book. So a shard that failed, in whatever place, is
// restarted empty and told again what it may have missed: what it had done already it finds done.
#pragma once

#include <denizen/actor/context.hpp>
#include <denizen/memory/ref.hpp>
#include <denizen/transactions/circular.hpp>
#include <denizen/transactions/country.hpp>

namespace denizen::transactions {

struct Open { // step 0: clear a part of the book; 1: say where you are
    BufferRef book;
    Geometry geometry;
    uint32_t part;
    uint32_t step;
    DENIZEN_BUFFERS(book)
};
struct Change { // to these rules
    BufferRef book;
    Rules rules;
    DENIZEN_BUFFERS(book)
};
struct Put { // a part of these profiles into the book; no customer is in them twice
    BufferRef book;
    BufferRef profiles;
    uint32_t count;
    uint32_t part;
    DENIZEN_BUFFERS(book, profiles)
};
struct Move { // bytes, in multiples of 16
    BufferRef from;
    BufferRef to;
    uint64_t from_at;
    uint64_t to_at;
    uint64_t bytes;
    DENIZEN_BUFFERS(from, to)
};
struct Taken { // so many places of the table are; none: ask
    BufferRef book;
    uint32_t taken;
    DENIZEN_BUFFERS(book)
};
struct Drill { // fail once, in this pass, after so many records of a part
    uint32_t pass;
    uint32_t after;
};
struct Ready { // the answer to the above: how many found no room, or how many places are taken
    uint32_t value;
};
struct Feed { // split your slice of a batch
    BufferRef book;
    BufferRef records;
    uint64_t base;  // sequence of the batch's first record
    uint32_t first; // its place in the buffer
    uint32_t count;
    uint32_t batch;
    uint32_t part;
    DENIZEN_BUFFERS(book, records)
};
struct Step { // do your part of a pass
    uint64_t book;
    uint32_t batch;
    uint32_t pass_part; // pass << 16 | part
};
struct Finished { // to the host: all parts of a batch have been searched, and so many alerts sent
    uint32_t batch;
    uint32_t tally[outcomes];
    uint32_t alerts;
};

inline constexpr uint32_t drilled = 0xD1; // the code of a failure that a drill asked for

class Shard {
public:
    static constexpr auto grain = Grain::warp;
    static constexpr bool can_fail = true;

    DENIZEN_HD void on(const Open& m, auto& ctx)
    {
        const auto bytes = ctx.template data<unsigned char>(m.book);
        if (!bytes) {
            return; // the program's first error says so
        }
        Book& book = *reinterpret_cast<Book*>(bytes.data);
        if (m.step == 0) {
            const Offsets at = offsets(m.geometry);
            const uint64_t units = (at.end - at.customers) / 16;
            const uint64_t begin = units * m.part / m.geometry.shards;
            const uint64_t end = units * (m.part + 1) / m.geometry.shards;
            clear(bytes.data + at.customers, begin, end, ctx);
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

    DENIZEN_HD void on(const Change& m, auto& ctx)
    {
        if (const auto book = ctx.template data<Book>(m.book)) {
            if (ctx.lane() == 0) {
                book[0].rules = m.rules;
            }
            ctx.sync();
            ctx.reply(Ready{0});
        }
    }

    DENIZEN_HD void on(const Put& m, auto& ctx)
    {
        const auto found = ctx.template data<Book>(m.book);
        const auto profiles = ctx.template data<const Profile>(m.profiles);
        if (!found || !profiles) {
            return;
        }
        Book& book = found[0];
        uint32_t refused = 0;
        for (uint32_t k = book.first_of(m.count, m.part) + ctx.lane();
             k < book.first_of(m.count, m.part + 1); k += ctx.lanes()) {
            const uint32_t place = book.find_or_take(profiles[k].customer);
            if (place == Book::no_place) {
                ++refused;
            } else {
                book.customers()[place].set(profiles[k]);
            }
        }
        ctx.sync();
        ctx.reply(Ready{lanes::sum(refused)});
    }

    DENIZEN_HD void on(const Move& m, auto& ctx)
    {
        const auto from = ctx.template data<const unsigned char>(m.from);
        const auto to = ctx.template data<unsigned char>(m.to);
        if (!from || !to) {
            return;
        }
        const auto* source = reinterpret_cast<const Unit*>(from.data + m.from_at);
        auto* target = reinterpret_cast<Unit*>(to.data + m.to_at);
        for (uint64_t k = ctx.lane(); k < m.bytes / 16; k += ctx.lanes()) {
            target[k] = source[k];
        }
        ctx.sync();
        ctx.reply(Ready{0});
    }

    DENIZEN_HD void on(const Taken& m, auto& ctx)
    {
        if (const auto book = ctx.template data<Book>(m.book)) {
            if (m.taken != 0 && ctx.lane() == 0) {
                book[0].taken = m.taken;
            }
            ctx.sync();
            ctx.reply(Ready{load<Scope::gpu>(&book[0].taken)});
        }
    }

    DENIZEN_HD void on(const Drill& m, auto& ctx)
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
        if (book.done(Pass::split, m.batch, m.part) == m.batch + 1) {
            return; // told again
        }
        if (split(book, m, records.data + m.first, ctx)) {
            finish(book, Pass::split, m.batch, m.part, ctx);
        }
    }

    DENIZEN_HD void on(const Step& m, auto& ctx)
    {
        Book& book = *reinterpret_cast<Book*>(m.book);
        const auto pass = static_cast<Pass>(m.pass_part >> 16);
        const uint32_t part = m.pass_part & 0xffff;
        Flight& flight = book.flight(m.batch);
        // Acquire: partner of finish(), by whoever opened the gate.
        const bool open =
            pass == Pass::judge
                ? load<Scope::gpu, Order::acquire>(&flight.to_judge) >= book.opens_at(m.batch, 2)
                : load<Scope::gpu, Order::acquire>(&flight.to_search) >= book.opens_at(m.batch, 1);
        if (!open || book.done(pass, m.batch, part) == m.batch + 1) {
            return; // told again, or before its time, because the host could not know
        }
        if (pass == Pass::judge ? judge(book, m.batch, part, ctx)
                                : search(book, m.batch, part, ctx)) {
            finish(book, pass, m.batch, part, ctx);
        }
    }

    // The three passes. They do all that the messages do but for gates and answers, and ask of
    // `ctx` only lanes, sync(), fail() and send() of alerts. False: it has failed on the way.
    DENIZEN_HD bool split(Book& book, const Feed& m, const Transaction* records, auto& ctx);
    DENIZEN_HD bool judge(Book& book, uint32_t batch, uint32_t shard, auto& ctx);
    DENIZEN_HD bool search(Book& book, uint32_t batch, uint32_t part, auto& ctx);

private:
    DENIZEN_HD static void clear(unsigned char* from, uint64_t begin, uint64_t end, auto& ctx)
    {
        auto* units = reinterpret_cast<Unit*>(from);
        for (uint64_t k = begin + ctx.lane(); k < end; k += ctx.lanes()) {
            units[k] = Unit{};
        }
    }

    // The half of a record that is looked at; the rest is not set. On a GPU by words of 16 bytes.
    DENIZEN_HD static Transaction read(const void* from)
    {
        Transaction t;
#if DENIZEN_ON_DEVICE
        Unit units[4];
        for (uint32_t k = 0; k < 4; ++k) {
            units[k] = static_cast<const Unit*>(from)[k];
        }
        copy_bytes(&t, units, sizeof units);
#else
        copy_bytes(&t, from, sizeof(Staged));
#endif
        return t;
    }
    DENIZEN_HD static Transaction record(Book& book, uint32_t batch, uint32_t i)
    {
        return book.geometry.staged != 0 ? read(&book.staged(batch)[i])
                                         : read(&book.flight(batch).records[i]);
    }

    // A drill: whether this is where it fails.
    DENIZEN_HD bool fails(Pass pass, uint32_t records, auto& ctx)
    {
        if (fail_in_ != static_cast<uint32_t>(pass) + 1 || records < fail_after_) {
            return false;
        }
        ctx.fail(drilled); // the restart forgets the drill
        return true;
    }

    // Inclusive sum over the lanes.
    DENIZEN_HD static uint32_t scan(uint32_t value)
    {
        for (uint32_t step = 1; step < lanes::size; step *= 2) {
            const uint32_t other =
                lanes::shuffle(value, (lanes::id() + lanes::size - step) % lanes::size);
            value += lanes::id() >= step ? other : 0;
        }
        return value;
    }

    // A record for each lane; those of one customer one after the other.
    DENIZEN_HD void judge_side_by_side(Book& book, uint32_t batch, uint32_t i, auto& ctx)
    {
        Transaction t;
        Verdict v{};
        uint32_t place = Book::no_place;
        if (i != ~0u) {
            t = record(book, batch, i);
            v.outcome = static_cast<uint8_t>(Outcome::invalid);
            if (valid(t)) {
                place = book.find_or_take(t.customer);
                v.outcome = static_cast<uint8_t>(Outcome::no_room);
            }
        }
        const uint32_t alike = lanes::match(place);
        const uint32_t rank = place == Book::no_place ? 0 : lanes::popcount(alike & lanes::below());
        for (uint32_t round = 0; lanes::ballot(rank >= round) != 0; ++round) {
            if (rank == round && i != ~0u) {
                const uint64_t sequence = book.flight(batch).base + i;
                if (place == Book::no_place) {
                    book.verdicts(batch)[i] = v;
                } else if (Customer& c = book.customers()[place]; c.applied <= sequence) {
                    judge_one(book, t, sequence, place, c, v);
                    book.verdicts(batch)[i] = v;
                    c.applied = sequence + 1;
                } // else: this shard has been here before it failed
            }
            ctx.sync();
        }
    }

    DENIZEN_HD static void judge_one(Book& book, const Transaction& t, uint64_t sequence,
                                     uint32_t place, Customer& c, Verdict& v)
    {
        v.slot = place;
        const Outcome outcome = c.admit(t, book.rules, v);
        v.outcome = static_cast<uint8_t>(outcome);
        if (outcome != Outcome::accepted) {
            return;
        }
        const uint32_t country = t.country < country_codes ? book.bits[t.country] : other_countries;
        v.fired = fired_rules(t, c, book.rules, country, v);
        if (t.customer != t.dest) {
            c.latest = t.ts > c.latest ? t.ts : c.latest;
            book.edge(sequence) = Edge{t.dest, t.ts, t.amount, c.edge, c.latest};
            c.edge = sequence + 1;
        }
    }

    DENIZEN_COLD static void tell(Book& book, uint32_t batch, uint32_t i, uint32_t fired,
                                  const Round& round, auto& ctx)
    {
        const Transaction t = record(book, batch, i);
        const Verdict v = book.verdicts(batch)[i];
        const uint32_t country = t.country < country_codes ? book.bits[t.country] : other_countries;
        for (uint32_t rule = 1; rule <= rule_count; ++rule) {
            if ((fired >> rule & 1) != 0) {
                ctx.send(host, make_alert(static_cast<Rule>(rule), t, book.flight(batch).base + i,
                                          book.customers()[v.slot], book.rules, country, v, round));
            }
        }
    }

    // This part of a pass is done. Whoever is the last at a gate starts what is behind it.
    DENIZEN_HD static void finish(Book& book, Pass pass, uint32_t batch, uint32_t part, auto& ctx)
    {
        Flight& flight = book.flight(batch);
        ctx.sync(); // what all lanes have written comes before the gate
        if (ctx.lane() == 0) {
            book.done(pass, batch, part) = batch + 1;
        }
        if (pass == Pass::split) {
            if (passed(flight.to_judge, book.opens_at(batch, 2), ctx)) {
                start(book, Pass::judge, batch, ctx);
            }
        } else if (pass == Pass::judge) {
            if (passed(flight.to_search, book.opens_at(batch, 1), ctx)) {
                start(book, Pass::search, batch, ctx);
            }
        } else {
            if (passed(flight.to_finish, book.opens_at(batch, 1), ctx)) {
                Finished told{batch, {}, 0};
                if (ctx.lane() == 0) {
                    for (uint32_t o = 0; o < outcomes; ++o) {
                        told.tally[o] = static_cast<uint32_t>(
                            exchange<Scope::gpu>(&flight.tally[o], uint64_t{0}));
                    }
                    told.alerts =
                        static_cast<uint32_t>(exchange<Scope::gpu>(&flight.alerts, uint64_t{0}));
                }
                ctx.sync();
                ctx.send(host, told);
            }
            if (passed(book.flight(batch + 1).to_judge, book.opens_at(batch + 1, 2), ctx)) {
                start(book, Pass::judge, batch + 1, ctx);
            }
        }
    }

    // One more at a gate; whether that opens it.
    DENIZEN_HD static bool passed(uint64_t& gate, uint64_t opens_at, auto& ctx)
    {
        uint32_t last = 0;
        if (ctx.lane() == 0) {
            // Release: what this part has done. Acquire: what the others have.
            last = fetch_add<Scope::gpu, Order::acq_rel>(&gate, uint64_t{1}) + 1 == opens_at;
        }
        return lanes::shuffle(last, 0) != 0;
    }

    DENIZEN_COLD static void start(Book& book, Pass pass, uint32_t batch, auto& ctx)
    {
        for (uint32_t part = 0; part < book.geometry.shards; ++part) {
            ctx.send(Address{book.address[part]}, Step{reinterpret_cast<uint64_t>(&book), batch,
                                                       static_cast<uint32_t>(pass) << 16 | part});
        }
    }

    uint32_t fail_in_ = 0; // 1 + pass
    uint32_t fail_after_ = 0;
};

// Cuts a slice into runs: `order` holds its records' numbers, shard by shard, in order; `runs`
// where each shard's run ends.
DENIZEN_HD inline bool Shard::split(Book& book, const Feed& m, const Transaction* records,
                                    auto& ctx)
{
    const uint32_t begin = book.first_of(m.count, m.part);
    const uint32_t end = book.first_of(m.count, m.part + 1);
    const uint32_t shards = book.geometry.shards;
    if (m.part == 0 && ctx.lane() == 0) {
        Flight& flight = book.flight(m.batch);
        flight.records = records;
        flight.base = m.base;
        flight.count = m.count;
    }
    uint32_t* const runs = book.runs(m.batch, m.part);
    for (uint32_t s = ctx.lane(); s < shards; s += ctx.lanes()) {
        runs[s] = 0;
    }
    ctx.sync();
    const bool staged = book.geometry.staged != 0;
    Staged* const copies = book.staged(m.batch);
    if (staged) { // side by side, so that whole lines cross the bus
        const auto* from = reinterpret_cast<const Unit*>(records);
        for (uint64_t u = 4ull * begin + ctx.lane(); u < 4ull * end; u += ctx.lanes()) {
            copies[u / 4].unit[u % 4] = from[u / 4 * 8 + u % 4];
        }
        ctx.sync();
    }
    const auto shard_of = [&](uint32_t i) {
        return book.shard_of(staged ? copies[i].unit[0].word[1] : records[i].customer);
    };
    for (uint32_t i = begin + ctx.lane(); i < end; i += ctx.lanes()) {
        fetch_add<Scope::block>(&runs[shard_of(i)], 1u);
    }
    ctx.sync();
    uint32_t before = begin; // counts become begins
    for (uint32_t s0 = 0; s0 < shards; s0 += ctx.lanes()) {
        const uint32_t s = s0 + ctx.lane();
        const uint32_t own = s < shards ? runs[s] : 0;
        const uint32_t upto = scan(own);
        if (s < shards) {
            runs[s] = before + upto - own;
        }
        before += lanes::shuffle(upto, lanes::size - 1);
    }
    ctx.sync();
    uint32_t* const order = book.order(m.batch);
    for (uint32_t i0 = begin; i0 < end; i0 += ctx.lanes()) { // and begins become ends
        if (fails(Pass::split, i0 - begin, ctx)) {
            return false;
        }
        const uint32_t i = i0 + ctx.lane();
        const uint32_t s = i < end ? shard_of(i) : ~0u;
        const uint32_t alike = lanes::match(s);
        const uint32_t rank = lanes::popcount(alike & lanes::below());
        const uint32_t at = i < end ? runs[s] + rank : 0;
        ctx.sync(); // all have read it
        if (i < end) {
            order[at] = i;
            if (rank == 0) {
                runs[s] += lanes::popcount(alike);
            }
        }
        ctx.sync();
    }
    return true;
}

// The records of a shard's customers, from all slices, in order.
DENIZEN_HD inline bool Shard::judge(Book& book, uint32_t batch, uint32_t shard, auto& ctx)
{
    const uint32_t slices = book.geometry.shards;
    const uint32_t* const order = book.order(batch);
    uint32_t seen = 0;
    for (uint32_t s0 = 0; s0 < slices; s0 += ctx.lanes()) {
        const uint32_t slice = s0 + ctx.lane();
        uint32_t begin = 0;
        uint32_t length = 0;
        if (slice < slices) {
            const uint32_t* const runs = book.runs(batch, slice);
            begin = shard == 0 ? book.first_of(book.flight(batch).count, slice) : runs[shard - 1];
            length = runs[shard] - begin;
        }
        const uint32_t upto = scan(length);
        const uint32_t total = lanes::shuffle(upto, lanes::size - 1);
        for (uint32_t r0 = 0; r0 < total; r0 += ctx.lanes(), seen += ctx.lanes()) {
            if (fails(Pass::judge, seen, ctx)) {
                return false;
            }
            // Record r lies in the first slice up to whose end there are more than r.
            const uint32_t r = r0 + ctx.lane();
            uint32_t k = 0;
            for (uint32_t step = lanes::size / 2; step > 0; step /= 2) {
                k += lanes::shuffle(upto, k + step - 1) <= r ? step : 0;
            }
            const uint32_t in_slice = r - (lanes::shuffle(upto, k) - lanes::shuffle(length, k));
            const uint32_t from = lanes::shuffle(begin, k);
            judge_side_by_side(book, batch, r < total ? order[from + in_slice] : ~0u, ctx);
        }
    }
    return true;
}

// Round trips that end in a slice, and the alerts of all rules.
DENIZEN_HD inline bool Shard::search(Book& book, uint32_t batch, uint32_t part, auto& ctx)
{
    Flight& flight = book.flight(batch);
    const Rules& rules = book.rules;
    const uint32_t begin = book.first_of(flight.count, part);
    const uint32_t end = book.first_of(flight.count, part + 1);
    uint32_t tally[outcomes] = {};
    uint32_t alerts = 0;
    for (uint32_t i0 = begin; i0 < end; i0 += ctx.lanes()) {
        if (fails(Pass::search, i0 - begin, ctx)) {
            return false;
        }
        const uint32_t i = i0 + ctx.lane();
        uint32_t fired = 0;
        Round round{};
        if (i < end) {
            const Verdict v = book.verdicts(batch)[i];
            fired = v.fired;
            for (uint32_t o = 0; o < outcomes; ++o) {
                tally[o] += v.outcome == o ? 1 : 0;
            }
            if (v.outcome == static_cast<uint8_t>(Outcome::accepted) &&
                (rules.enabled & bit(Rule::circular)) != 0) {
                const Transaction t = record(book, batch, i);
                if (t.customer != t.dest && t.amount >= rules.circular_amount) {
                    round = Search{book, t, flight.base + i}.find();
                    fired |= round.hops != 0 ? bit(Rule::circular) : 0;
                }
            }
        }
        alerts += lanes::popcount(fired);
        for (uint32_t firing = lanes::ballot(fired != 0); firing != 0; firing &= firing - 1) {
            const uint32_t k = lanes::first(firing);
            Round told;
            for (uint32_t hop = 0; hop < 3; ++hop) {
                told.path[hop] = lanes::shuffle(round.path[hop], k);
            }
            told.hops = lanes::shuffle(round.hops, k);
            tell(book, batch, lanes::shuffle(i, k), lanes::shuffle(fired, k), told, ctx);
        }
    }
    for (uint32_t o = 0; o < outcomes; ++o) {
        const uint32_t all = lanes::sum(tally[o]);
        if (ctx.lane() == 0 && all != 0) {
            fetch_add<Scope::gpu>(&flight.tally[o], uint64_t{all});
        }
    }
    const uint32_t all = lanes::sum(alerts);
    if (ctx.lane() == 0 && all != 0) {
        fetch_add<Scope::gpu>(&flight.alerts, uint64_t{all});
    }
    return true;
}

using Monitoring = Program<Actors<Shard>, Messages<Open, Change, Put, Move, Taken, Drill, Ready,
                                                   Feed, Step, Finished, Alert, Down>>;

} // namespace denizen::transactions
