// SPDX-License-Identifier: Apache-2.0
// A receiver as SoapySDR sees one: a driver that its library loads (SOAPY_SDR_PLUGIN_PATH), for
// test_soapy.py. What it was told comes back as its samples, after an overflow and a time-out; then
// its stream is broken. It samples at no more than 2.4 MHz.
#include <SoapySDR/Device.hpp>
#include <SoapySDR/Registry.hpp>

#include <algorithm>
#include <complex>
#include <stdexcept>

namespace {

class Receiver : public SoapySDR::Device {
public:
    std::string getDriverKey() const override { return "told"; }
    size_t getNumChannels(int direction) const override
    {
        return direction == SOAPY_SDR_RX ? 2 : 0;
    }

    void setSampleRate(int, size_t, double rate) override { rate_ = std::min(rate, 2.4e6); }
    double getSampleRate(int, size_t) const override { return rate_; }
    void setFrequency(int, size_t channel, double hz, const SoapySDR::Kwargs&) override
    {
        frequency_[channel] = hz;
    }
    void setAntenna(int, size_t, const std::string& name) override { antenna_ = name; }
    void setBandwidth(int, size_t, double hz) override { bandwidth_ = hz; }
    void setGain(int, size_t, double db) override { gain_ = db; }
    bool hasGainMode(int, size_t) const override { return true; }
    void setGainMode(int, size_t, bool automatic) override { automatic_ = automatic; }

    SoapySDR::Stream* setupStream(int direction, const std::string& format,
                                  const std::vector<size_t>& channels,
                                  const SoapySDR::Kwargs&) override
    {
        if (direction != SOAPY_SDR_RX || format != "CF32" || channels.size() != 1) {
            throw std::runtime_error("no such stream");
        }
        channel_ = channels[0];
        return reinterpret_cast<SoapySDR::Stream*>(this);
    }
    int activateStream(SoapySDR::Stream*, int, long long, size_t) override
    {
        active_ = true;
        return 0;
    }
    int deactivateStream(SoapySDR::Stream*, int, long long) override
    {
        active_ = false;
        return 0;
    }
    void closeStream(SoapySDR::Stream*) override
    {
        if (active_) {
            throw std::runtime_error("closed while it is active");
        }
    }
    int readStream(SoapySDR::Stream*, void* const* buffers, size_t count, int&, long long&,
                   long timeout_us) override
    {
        if (!active_ || count < 3 || timeout_us <= 0) {
            return SOAPY_SDR_NOT_SUPPORTED;
        }
        const auto part = [](double x) { return static_cast<float>(x); };
        auto* out = static_cast<std::complex<float>*>(buffers[0]);
        switch (reads_++) {
        case 0: return SOAPY_SDR_OVERFLOW;
        case 1: return SOAPY_SDR_TIMEOUT;
        case 2:
            out[0] = {part(frequency_[channel_] * 1e-6), part(rate_ * 1e-6)};
            out[1] = {part(gain_), automatic_ ? 1.0f : 0.0f};
            out[2] = {part(bandwidth_ * 1e-3), antenna_ == "RX2" ? 1.0f : 0.0f};
            return 3;
        case 3:
            std::fill_n(out, count, std::complex<float>(0.5f, 0.25f));
            return static_cast<int>(count);
        default: return SOAPY_SDR_STREAM_ERROR;
        }
    }

private:
    double rate_ = 0;
    double frequency_[2] = {};
    double bandwidth_ = 0;
    double gain_ = 0;
    bool automatic_ = false;
    bool active_ = false;
    std::string antenna_;
    size_t channel_ = 0;
    int reads_ = 0;
};

SoapySDR::KwargsList find(const SoapySDR::Kwargs& asked)
{
    const auto driver = asked.find("driver");
    if (driver == asked.end() || driver->second != "told") {
        return {};
    }
    return {{{"driver", "told"}}};
}

SoapySDR::Device* make(const SoapySDR::Kwargs&) { return new Receiver; }

const SoapySDR::Registry entry("told", &find, &make, SOAPY_SDR_ABI_VERSION);

} // namespace
