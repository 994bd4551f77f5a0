// SPDX-License-Identifier: Apache-2.0
// Mining on a GPU: the log is copied there once, and each mine() sorts it by case and time, finds
// each event's step, sorts the steps by edge and duration, and reads every figure off the sorted
// runs, all with CUB's radix sort and reductions. Compiled by who includes it, with nvcc:
//
//   denizen::procmine::DeviceLog log(events);
//   const denizen::procmine::Mined mined = log.mine();
//
// It takes and frees device memory, for which a resident program of the process has to leave the
// GPU first (the Python package sees to that).
#pragma once

#include <denizen/procmine/device_kernels.cuh>
#include <denizen/procmine/mine.hpp>

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_reduce.cuh>
#include <cub/device/device_scan.cuh>
#include <cuda_runtime.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

namespace denizen::procmine {

namespace device {

inline void check(cudaError_t error, const char* call)
{
    if (error == cudaSuccess) return;
    if (error == cudaErrorMemoryAllocation) {
        cudaGetLastError(); // it stays otherwise
        throw Error(Errc::exhausted,
                    "not enough memory on the GPU to mine this log: mining takes "
                    "about 70 bytes for each event; mine parts that share no case");
    }
    throw Error(Errc::driver, std::string(call) + ": " + cudaGetErrorString(error));
}

// Device memory that only grows, so that a second mine() takes none.
template <class T>
class Array {
public:
    Array() = default;
    ~Array() { cudaFree(data_); }
    Array(const Array&) = delete;
    Array& operator=(const Array&) = delete;

    T* get(size_t count)
    {
        if (count > size_ || data_ == nullptr) {
            cudaFree(std::exchange(data_, nullptr));
            check(cudaMalloc(&data_, std::max<size_t>(count, 1) * sizeof(T)), "cudaMalloc");
            size_ = count;
        }
        return data_;
    }
    T* get() const { return data_; }

private:
    T* data_ = nullptr;
    size_t size_ = 0;
};

template <class T>
std::vector<T> to_host(const T* from, size_t count)
{
    std::vector<T> out(count);
    if (count != 0) {
        check(cudaMemcpy(out.data(), from, count * sizeof(T), cudaMemcpyDeviceToHost),
              "cudaMemcpy");
    }
    return out;
}

template <class T>
void to_device(Array<T>& array, std::span<const T> from)
{
    T* to = array.get(from.size());
    check(cudaMemcpy(to, from.data(), from.size_bytes(), cudaMemcpyHostToDevice), "cudaMemcpy");
}

template <class Functor>
auto each(Functor functor)
{
    return thrust::make_transform_iterator(thrust::make_counting_iterator(uint64_t{0}), functor);
}

} // namespace device

// Makes GPU `ordinal` the thread's current one while it lives.
class DeviceScope {
public:
    explicit DeviceScope(int ordinal)
    {
        device::check(cudaGetDevice(&before_), "cudaGetDevice");
        device::check(cudaSetDevice(ordinal), "cudaSetDevice");
    }
    ~DeviceScope() { cudaSetDevice(before_); }
    DeviceScope(const DeviceScope&) = delete;
    DeviceScope& operator=(const DeviceScope&) = delete;

private:
    int before_ = 0;
};

// A log in the memory of the current GPU. The columns must outlive it. One call at a time.
class DeviceLog {
public:
    // Errc::bad_argument for columns of unequal lengths; Errc::exhausted (memory).
    explicit DeviceLog(const Events& events) : host_(events)
    {
        check_columns(events);
        int ordinal = 0;
        int sms = 0;
        device::check(cudaGetDevice(&ordinal), "cudaGetDevice");
        device::check(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, ordinal),
                      "cudaDeviceGetAttribute");
        grid_ = 8 * static_cast<uint32_t>(sms);
        device::to_device(cases_, events.cases);
        device::to_device(activities_, events.activities);
        device::to_device(times_, events.times);
        log_ = {cases_.get(),      activities_.get(),
                times_.get(),      static_cast<uint32_t>(events.cases.size()),
                events.case_count, events.activity_count};
    }

    // As procmine::mine(), which it equals in everything; MineOptions::threads has no meaning.
    // Mined::seconds are those of the device, without copying what it found to the host.
    Mined mine(const MineOptions& options = {})
    {
        if (log_.count == 0) return procmine::mine(host_, options);
        Stopwatch watch;
        const device::Survey found = look();
        const uint64_t range =
            static_cast<uint64_t>(found.most) - static_cast<uint64_t>(found.least);
        const uint64_t unit = found.not_seconds == 0        ? 1'000'000
                              : found.not_milliseconds == 0 ? 1'000
                                                            : 1;
        const auto time_bits = static_cast<uint32_t>(std::bit_width(range / unit));
        const auto case_bits = static_cast<uint32_t>(std::bit_width(log_.case_count - 1));
        if (time_bits + case_bits <= 64 && time_bits < 64) {
            return find(sorted_packed(found, unit, time_bits, case_bits), time_bits, unit, options,
                        watch);
        }
        return find(sorted_plain(case_bits), time_bits, unit, options, watch);
    }

private:
    // By the device's clock.
    class Stopwatch {
    public:
        Stopwatch()
        {
            for (cudaEvent_t* event : {&begin_, &end_}) {
                device::check(cudaEventCreate(event), "cudaEventCreate");
            }
            device::check(cudaEventRecord(begin_), "cudaEventRecord");
        }
        ~Stopwatch()
        {
            cudaEventDestroy(begin_);
            cudaEventDestroy(end_);
        }
        Stopwatch(const Stopwatch&) = delete;
        Stopwatch& operator=(const Stopwatch&) = delete;

        double seconds() const
        {
            float ms = 0;
            device::check(cudaEventRecord(end_), "cudaEventRecord");
            device::check(cudaEventSynchronize(end_), "cudaEventSynchronize");
            device::check(cudaEventElapsedTime(&ms, begin_, end_), "cudaEventElapsedTime");
            return static_cast<double>(ms) * 1e-3;
        }

    private:
        cudaEvent_t begin_ = nullptr;
        cudaEvent_t end_ = nullptr;
    };

    static constexpr uint32_t block = device::block;

    // One of CUB's two-step calls: the first asks for its memory.
    template <class Call>
    void cub_call(Call&& call)
    {
        size_t bytes = 0;
        device::check(call(nullptr, bytes), "CUB");
        device::check(call(temp_.get(bytes), bytes), "CUB");
    }

    static void launched(const char* kernel) { device::check(cudaGetLastError(), kernel); }

    void sort(cub::DoubleBuffer<uint64_t>& keys, cub::DoubleBuffer<uint32_t>& values,
              uint32_t count, uint32_t begin_bit, uint32_t end_bit)
    {
        if (begin_bit == end_bit) return;
        cub_call([&](void* temp, size_t& bytes) {
            return cub::DeviceRadixSort::SortPairs(temp, bytes, keys, values, count,
                                                   static_cast<int>(begin_bit),
                                                   static_cast<int>(end_bit));
        });
    }

    device::Survey look()
    {
        const device::Survey nothing{~0ull, 0x7fffffffffffffff, -0x7fffffffffffffff - 1, 0, 0, 0};
        device::Survey* out = survey_.get(1);
        device::check(cudaMemcpyAsync(out, &nothing, sizeof nothing, cudaMemcpyHostToDevice),
                      "cudaMemcpyAsync");
        device::survey<block><<<grid_, block>>>(log_, out);
        launched("survey");
        const device::Survey found = device::to_host(out, 1)[0];
        if (found.bad != ~0ull) { // the CPU says it in the same words
            procmine::mine(host_, {0, false, false});
        }
        return found;
    }

    device::SortedEvents sorted_packed(const device::Survey& found, uint64_t unit,
                                       uint32_t time_bits, uint32_t case_bits)
    {
        const uint32_t n = log_.count;
        device::pack<block><<<grid_, block>>>(log_, time_bits, unit, found.least, keys_[0].get(n),
                                              values_[0].get(n));
        launched("pack");
        cub::DoubleBuffer<uint64_t> keys(keys_[0].get(), keys_[1].get(n));
        cub::DoubleBuffer<uint32_t> values(values_[0].get(), values_[1].get(n));
        // The sort is stable: where the log is in order of time, cases alone have to be sorted.
        sort(keys, values, n, found.not_in_order != 0 ? 0 : time_bits, time_bits + case_bits);
        return {keys.Current(), values.Current(), nullptr, time_bits, unit, found.least, log_};
    }

    device::SortedEvents sorted_plain(uint32_t case_bits)
    {
        const uint32_t n = log_.count;
        device::number<block><<<grid_, block>>>(log_, keys_[0].get(n), values_[0].get(n));
        launched("number");
        cub::DoubleBuffer<uint64_t> keys(keys_[0].get(), keys_[1].get(n));
        cub::DoubleBuffer<uint32_t> order(values_[0].get(), values_[1].get(n));
        sort(keys, order, n, 0, 64);
        device::cases_in_order<block><<<grid_, block>>>(log_, order.Current(), keys.Current());
        launched("cases_in_order");
        sort(keys, order, n, 0, case_bits);
        return {keys.Current(), nullptr, order.Current(), 0, 1, 0, log_};
    }

    void sort_steps(device::Steps& steps, uint32_t edge_bits)
    {
        const uint32_t n = log_.count;
        if (steps.durations == nullptr) {
            cub::DoubleBuffer<uint64_t> keys(steps.keys, step_keys_[1].get(n));
            cub_call([&](void* temp, size_t& bytes) {
                return cub::DeviceRadixSort::SortKeys(
                    temp, bytes, keys, n, 0, static_cast<int>(edge_bits + steps.duration_bits));
            });
            steps.keys = keys.Current();
            return;
        }
        // By duration, in a copy: the durations themselves stay where they are.
        cub::DoubleBuffer<uint64_t> keys(durations_[1].get(n), step_keys_[1].get(n));
        cub::DoubleBuffer<uint32_t> order(steps.order, step_order_[1].get(n));
        device::check(cudaMemcpyAsync(keys.Current(), steps.durations, n * sizeof(uint64_t),
                                      cudaMemcpyDeviceToDevice),
                      "cudaMemcpyAsync");
        sort(keys, order, n, 0, 64);
        device::edges_in_order<block>
            <<<grid_, block>>>(steps.keys, order.Current(), n, keys.Current());
        launched("edges_in_order");
        sort(keys, order, n, 0, edge_bits);
        steps.keys = keys.Current();
        steps.order = order.Current();
    }

    Mined find(const device::SortedEvents& events, uint32_t time_bits, uint64_t unit,
               const MineOptions& options, const Stopwatch& watch)
    {
        const uint32_t n = log_.count;
        const uint32_t activities = log_.activity_count;
        const auto edge_bits =
            static_cast<uint32_t>(std::bit_width(uint64_t{activities} * activities));
        const bool packed = edge_bits + time_bits <= 64 && time_bits < 64;
        device::Steps steps{step_keys_[0].get(n), nullptr, nullptr, time_bits, unit};
        if (!packed) {
            steps = {step_keys_[0].get(n), durations_[0].get(n), step_order_[0].get(n), 0, 1};
        }
        const size_t cases = log_.case_count;
        const device::CaseFigures figures{first_.get(cases), last_.get(cases), begins_.get(cases),
                                          ends_.get(cases)};
        auto* counts = counts_.get(size_t{2} * activities);
        const auto zero = [](void* memory, int value, size_t bytes) {
            device::check(cudaMemsetAsync(memory, value, bytes), "cudaMemsetAsync");
        };
        zero(figures.first, 0xff, cases * sizeof(uint32_t));
        zero(figures.begins, 0, cases * sizeof(int64_t));
        zero(figures.ends, 0, cases * sizeof(int64_t));
        zero(counts, 0, 2 * activities * sizeof(*counts));
        const uint32_t shared =
            activities <= device::most_shared ? 2 * activities * sizeof(uint32_t) : 0;
        device::walk<block>
            <<<grid_, block, shared>>>(events, log_, steps, figures, counts, counts + activities);
        launched("walk");
        sort_steps(steps, edge_bits);

        // Runs of one edge: the last is that of first events, which are no steps.
        const size_t most = std::min<uint64_t>(uint64_t{activities} * activities + 1, n);
        uint64_t* names = edge_names_.get(most);
        device::Tally* tallies = tallies_.get(most);
        uint64_t* offsets = edge_offsets_.get(most);
        uint32_t* runs = run_count_.get(1);
        cub_call([&](void* temp, size_t& bytes) {
            return cub::DeviceReduce::ReduceByKey(temp, bytes, device::each(device::EdgeOf{steps}),
                                                  names, device::each(device::TallyOf{steps}),
                                                  tallies, runs, device::Together{}, n);
        });
        const uint32_t edges = device::to_host(runs, 1)[0] - 1; // every log has a first event
        const auto edge_tallies = device::to_host(tallies, edges);
        std::vector<uint64_t> begins(edges);
        for (uint32_t e = 1; e < edges; ++e) begins[e] = begins[e - 1] + edge_tallies[e - 1].count;
        device::check(
            cudaMemcpy(offsets, begins.data(), edges * sizeof(uint64_t), cudaMemcpyHostToDevice),
            "cudaMemcpy");
        device::Places* places = places_.get(edges);
        if (edges != 0) {
            device::look_up<block><<<std::min(grid_, edges / block + 1), block>>>(
                steps, tallies, offsets, edges, places);
            launched("look_up");
        }
        Mined out;
        bool exact = true;
        if (options.variants) exact = find_variants(events, figures);
        out.seconds = watch.seconds();

        const auto edge_names = device::to_host(names, edges);
        const auto edge_places = device::to_host(places, edges);
        const auto ends = device::to_host(counts, size_t{2} * activities);
        out.starts.assign(ends.begin(), ends.begin() + activities);
        out.ends.assign(ends.begin() + activities, ends.end());
        out.activity_counts = out.ends; // an event is the last of its case or has a step away
        for (uint32_t e = 0; e < edges; ++e) {
            const auto from = static_cast<uint32_t>(edge_names[e] / activities);
            const auto to = static_cast<uint32_t>(edge_names[e] % activities);
            const device::Tally& tally = edge_tallies[e];
            const device::Places& at = edge_places[e];
            out.activity_counts[from] += tally.count;
            Edge edge{from, to, tally.count, at.least, at.most, tally.sum.over(tally.count), 0, 0};
            if (options.quantiles) {
                edge.median =
                    between(at.median[0], at.median[1], rank_of(edge.count, 500).fraction);
                edge.p95 = between(at.p95[0], at.p95[1], rank_of(edge.count, 950).fraction);
            }
            out.edges.push_back(edge);
        }
        out.case_begins = device::to_host(figures.begins, cases);
        out.case_ends = device::to_host(figures.ends, cases);
        const auto first = device::to_host(figures.first, cases);
        const auto last = device::to_host(figures.last, cases);
        out.case_events.resize(cases);
        for (size_t c = 0; c < cases; ++c) {
            if (first[c] != device::none) out.case_events[c] = last[c] - first[c] + 1;
        }
        if (options.variants) give_variants(exact, out);
        return out;
    }

    // False if two paths have one hash. What it finds stays on the device until give_variants().
    bool find_variants(const device::SortedEvents& events, const device::CaseFigures& figures)
    {
        const uint32_t n = log_.count;
        const size_t cases = log_.case_count;
        uint32_t* runs = run_count_.get(1);
        cub_call([&](void* temp, size_t& bytes) {
            return cub::DeviceReduce::ReduceByKey(
                temp, bytes, device::each(device::CaseOf{events}), numbers_[0].get(cases),
                device::each(device::TermOf{events, figures.first}), hashes_[0].get(cases), runs,
                cuda::std::plus<>{}, n);
        });
        const uint32_t there = device::to_host(runs, 1)[0]; // cases that have events
        cub::DoubleBuffer<uint64_t> hashes(hashes_[0].get(), hashes_[1].get(cases));
        cub::DoubleBuffer<uint32_t> numbers(numbers_[0].get(), numbers_[1].get(cases));
        sort(hashes, numbers, there, 0, 64);
        uint32_t* marks = marks_.get(there);
        device::mark_runs<block><<<grid_, block>>>(hashes.Current(), there, marks);
        launched("mark_runs");
        cub_call([&](void* temp, size_t& bytes) {
            return cub::DeviceScan::InclusiveSum(temp, bytes, marks, marks, there);
        });
        variant_count_ = device::to_host(marks + there - 1, 1)[0];
        case_count_ = there;
        variants_ = {variant_hash_.get(there), variant_begin_.get(there),
                     variant_example_.get(there), variant_length_.get(there)};
        uint32_t* of_case = case_variants_.get(cases);
        device::check(cudaMemsetAsync(of_case, 0xff, cases * sizeof(uint32_t)), "cudaMemsetAsync");
        device::check(cudaMemsetAsync(runs, 0, sizeof(uint32_t)), "cudaMemsetAsync");
        device::name_variants<block><<<grid_, block>>>(hashes.Current(), numbers.Current(), marks,
                                                       there, figures, variants_, of_case);
        launched("name_variants");
        device::compare<block><<<grid_, block>>>(events, n, figures, of_case, variants_, runs);
        launched("compare");
        uint64_t* offsets = variant_offsets_.get(variant_count_);
        const auto lengths = device::to_host(variants_.length, variant_count_);
        std::vector<uint64_t> begins(variant_count_);
        uint64_t steps = 0;
        for (uint32_t v = 0; v < variant_count_; ++v) {
            begins[v] = steps;
            steps += lengths[v];
        }
        device::check(cudaMemcpy(offsets, begins.data(), variant_count_ * sizeof(uint64_t),
                                 cudaMemcpyHostToDevice),
                      "cudaMemcpy");
        path_size_ = steps;
        device::copy_paths<block><<<grid_, block>>>(events, figures, variants_, offsets,
                                                    variant_count_, paths_.get(steps));
        launched("copy_paths");
        return device::to_host(runs, 1)[0] == 0;
    }

    void give_variants(bool exact, Mined& out)
    {
        if (!exact) { // two paths of one hash: the CPU tells them apart
            Mined other = procmine::mine(host_, {0, false, true});
            out.variants = std::move(other.variants);
            out.paths = std::move(other.paths);
            out.case_variants = std::move(other.case_variants);
            return;
        }
        const auto hash = device::to_host(variants_.hash, variant_count_);
        const auto begin = device::to_host(variants_.begin, variant_count_);
        const auto example = device::to_host(variants_.example, variant_count_);
        const auto length = device::to_host(variants_.length, variant_count_);
        const auto offset = device::to_host(variant_offsets_.get(), variant_count_);
        for (uint32_t v = 0; v < variant_count_; ++v) {
            const uint32_t end = v + 1 < variant_count_ ? begin[v + 1] : case_count_;
            out.variants.push_back({hash[v], end - begin[v], offset[v], length[v], example[v]});
        }
        out.paths = device::to_host(paths_.get(), path_size_);
        out.case_variants = device::to_host(case_variants_.get(), log_.case_count);
        const std::vector<uint32_t> order = put_in_order(out.variants, out.paths);
        for (uint32_t& variant : out.case_variants) {
            if (variant != no_variant) variant = order[variant];
        }
    }

    Events host_;
    device::Columns log_{};
    uint32_t grid_ = 0;
    device::Array<uint32_t> cases_, activities_;
    device::Array<int64_t> times_;
    device::Array<unsigned char> temp_;
    device::Array<device::Survey> survey_;
    // Sorting events and steps: a pair of each.
    device::Array<uint64_t> keys_[2], step_keys_[2], durations_[2];
    device::Array<uint32_t> values_[2], step_order_[2];
    device::Array<uint32_t> first_, last_;
    device::Array<int64_t> begins_, ends_;
    device::Array<unsigned long long> counts_;
    device::Array<uint64_t> edge_names_, edge_offsets_;
    device::Array<device::Tally> tallies_;
    device::Array<device::Places> places_;
    device::Array<uint32_t> run_count_;
    // Variants.
    device::Array<uint64_t> hashes_[2], variant_hash_, variant_offsets_;
    device::Array<uint32_t> numbers_[2], marks_, case_variants_, paths_;
    device::Array<uint32_t> variant_begin_, variant_example_, variant_length_;
    device::VariantFigures variants_{};
    uint32_t variant_count_ = 0;
    uint32_t case_count_ = 0; // those that have events
    uint64_t path_size_ = 0;
};

} // namespace denizen::procmine
