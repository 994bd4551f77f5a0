// SPDX-License-Identifier: Apache-2.0
// denizen._core's transactions; python/denizen/apps/transactions is their face. Records, profiles,
// rules and alerts cross as bytes.
#include "bind/bind.hpp"

#include <denizen/transactions/circular_rule.hpp>
#include <denizen/transactions/generate.hpp>
#include <denizen/transactions/reference.hpp>
#include <denizen/transactions/stage.hpp>

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <memory>
#include <optional>

namespace nb = nanobind;

namespace denizen::bind {
namespace {

using namespace transactions;

// The elements of a buffer of Python's, which must be whole.
template <class T>
struct View {
    View(nb::handle object, const char* what) : bytes(object, false)
    {
        if (bytes.size() % sizeof(T) != 0) {
            throw Error(Errc::bad_argument, std::to_string(bytes.size()) + " bytes are no whole " +
                                                what + " of " + std::to_string(sizeof(T)));
        }
    }
    const T* data() const { return reinterpret_cast<const T*>(bytes.data()); }
    size_t size() const { return bytes.size() / sizeof(T); }

    Bytes bytes;
};

template <class T>
T one(nb::handle object, const char* what)
{
    const View<T> view(object, what);
    if (view.size() != 1) throw Error(Errc::bad_argument, std::string("give one of the ") + what);
    T value;
    std::memcpy(static_cast<void*>(&value), view.data(), sizeof value);
    return value;
}

// As an array of bytes that owns them.
template <class T>
nb::object give(std::vector<T>&& values)
{
    auto* all = new std::vector<T>(std::move(values));
    const nb::capsule owner(all, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return nb::cast(nb::ndarray<nb::numpy, uint8_t, nb::ndim<1>>(all->data(),
                                                                 {all->size() * sizeof(T)}, owner));
}

template <class T>
nb::bytes raw(const T& value)
{
    return nb::bytes(reinterpret_cast<const char*>(&value), sizeof value);
}

std::vector<uint64_t> by_outcome(const uint64_t* counts) { return {counts, counts + outcomes}; }

} // namespace

void transaction_stages(nb::module_& m)
{
    m.attr("transaction_rules") = raw(Rules{});
    m.def("transaction_country_bit", [](uint32_t code) { return country_bit(code); });
    m.def("transactions_make",
          [](uint64_t count, uint32_t customers, uint64_t seed, double share, uint32_t days) {
              Made made;
              {
                  const Unlocked unlocked;
                  made = make(count, {customers, seed, share, days});
              }
              return nb::make_tuple(give(std::move(made.records)), give(std::move(made.profiles)));
          });

    nb::class_<Reference>(m, "TransactionReference")
        .def("__init__",
             [](Reference* self, nb::handle rules, uint32_t horizon) {
                 const auto r = one<Rules>(rules, "rules");
                 check(r);
                 new (self) Reference(r, horizon);
             })
        .def("put",
             [](Reference& r, nb::handle profiles) {
                 const View<Profile> all(profiles, "profiles");
                 for (size_t k = 0; k < all.size(); ++k) {
                     check(all.data()[k]);
                     r.put(all.data()[k]);
                 }
             })
        .def("change",
             [](Reference& r, nb::handle rules) {
                 const auto changed = one<Rules>(rules, "rules");
                 check(changed);
                 r.change(changed);
             })
        .def("counts", [](const Reference& r) { return by_outcome(r.counts()); })
        .def("feed", [](Reference& r, nb::handle records) {
            const View<Transaction> all(records, "records");
            std::vector<Alert> alerts;
            {
                const Unlocked unlocked;
                for (size_t k = 0; k < all.size(); ++k) {
                    if (k % 4096 == 0) check_interrupt();
                    r.feed(all.data()[k], alerts);
                }
            }
            return give(std::move(alerts));
        });

    nb::class_<CircularRule>(m, "TransactionCircularRule")
        .def("__init__",
             [](CircularRule* self, nb::handle rules, uint32_t horizon) {
                 new (self) CircularRule(one<Rules>(rules, "rules"), horizon);
             })
        .def("put",
             [](CircularRule& r, nb::handle profiles) {
                 const View<Profile> all(profiles, "profiles");
                 for (size_t k = 0; k < all.size(); ++k) r.put(all.data()[k]);
             })
        .def("change",
             [](CircularRule& r, nb::handle rules) { r.change(one<Rules>(rules, "rules")); })
        .def("feed", [](CircularRule& r, nb::handle payments, nb::handle own) {
            const View<Transfer> all(payments, "payments");
            const View<CircularRule::Own> mine(own, "records");
            std::vector<Alert> alerts;
            {
                const Unlocked unlocked;
                r.feed(all.data(), all.size(), mine.data(), mine.size(), alerts);
            }
            return give(std::move(alerts));
        });

    nb::class_<Stage>(m, "TransactionStage")
        .def(
            "__init__",
            [](Stage* self, AnyRuntime& rt, uint32_t shards, uint32_t batch, uint32_t depth,
               uint32_t horizon, uint64_t memory, nb::handle rules,
               const std::optional<std::string>& restore, bool keep_outcomes) {
                StageOptions o{shards, batch, depth, horizon, memory, one<Rules>(rules, "rules")};
                o.keep_outcomes = keep_outcomes;
                const Unlocked unlocked;
                if (restore) {
                    const Snapshot saved = read_snapshot(*restore);
                    new (self) Stage(rt, o, &saved);
                } else {
                    new (self) Stage(rt, o);
                }
            },
            nb::keep_alive<1, 2>(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(),
            nb::arg(), nb::arg(), nb::arg().none(), nb::arg())
        .def("feed",
             [](Stage& s, nb::handle records) {
                 const View<Transaction> all(records, "records");
                 const Unlocked unlocked;
                 s.feed(all.data(), all.size());
             })
        .def("take",
             [](Stage& s) {
                 std::vector<Alert> alerts;
                 {
                     const Unlocked unlocked;
                     alerts = s.take();
                 }
                 return give(std::move(alerts));
             })
        .def("drain",
             [](Stage& s) {
                 std::vector<Alert> alerts;
                 {
                     const Unlocked unlocked;
                     alerts = s.drain();
                 }
                 return give(std::move(alerts));
             })
        .def("take_outcomes", [](Stage& s) { return give(s.take_outcomes()); })
        .def("change",
             [](Stage& s, nb::handle rules) {
                 const auto changed = one<Rules>(rules, "rules");
                 const Unlocked unlocked;
                 s.change(changed);
             })
        .def("put",
             [](Stage& s, nb::handle profiles) {
                 const View<Profile> all(profiles, "profiles");
                 const Unlocked unlocked;
                 s.put(all.data(), all.size());
             })
        .def_prop_ro("rules", [](const Stage& s) { return raw(s.rules()); })
        .def_prop_ro("done", &Stage::done)
        .def_prop_ro("shards", [](const Stage& s) { return s.geometry().shards; })
        .def_prop_ro("memory", &Stage::memory)
        .def("customers",
             [](Stage& s) {
                 const Unlocked unlocked;
                 return s.customers();
             })
        // (records, alerts, restarts, by outcome)
        .def("counts",
             [](const Stage& s) {
                 const Counts c = s.counts();
                 return nb::make_tuple(c.records, c.alerts, c.restarts, by_outcome(c.of));
             })
        .def("save",
             [](Stage& s, const std::string& path) {
                 const Unlocked unlocked;
                 write_snapshot(path, s.snapshot());
             })
        .def("drill", [](Stage& s, uint32_t shard, uint32_t pass, uint32_t after) {
            if (pass >= passes) throw Error(Errc::bad_argument, "pass is none of 0, 1, 2");
            const Unlocked unlocked;
            s.drill(shard, static_cast<Pass>(pass), after);
        });
}

} // namespace denizen::bind
