// SPDX-License-Identifier: Apache-2.0
// The Fourier transform of fft.hpp and the channelizer of channelizer.hpp by a team
// (team_sample.hpp says what that is). On a GPU the buffers belong into shared memory: 1024 points
// take 16 KiB, and 8 KiB for the roots.
#pragma once

#include <denizen/dsp/butterfly.hpp>

namespace denizen::dsp::team {

// Transforms `rows` rows of `points`, a power of two of at least 2, which lie in `a` one behind the
// other, by way of `b`, which is as large: gives the one of the two where the results are.
// roots[k] = exp(-2 pi i k / points) (roots_of_unity()). The inverse is not divided by the number
// of points. What is in `a` must be visible to all members, as the results are after.
template <bool inverse = false, class Team>
DENIZEN_HD Iq* fft(Team& team, Iq* a, Iq* b, const Iq* roots, uint32_t points, uint32_t rows = 1)
{
    const auto conjugate = [](Iq x) { return inverse ? Iq{x.re, -x.im} : x; };
    uint32_t stride = 1;
    for (uint32_t rest = points; rest > 1; rest /= 4, stride *= 4) {
        const bool last = rest == 2;
        const uint32_t quarter = rest / 4;
        const uint32_t of_row = last ? points / 2 : points / 4; // butterflies
        for (uint32_t n = team.rank(); n < rows * of_row; n += team.size()) {
            const uint32_t i = n & (of_row - 1);
            const uint32_t row = (n - i) / of_row * points;
            if (last) {
                const Iq even = a[row + i];
                const Iq odd = a[row + i + stride];
                b[row + i] = even + odd;
                b[row + i + stride] = even - odd;
                continue;
            }
            const uint32_t q = i & (stride - 1);
            const uint32_t p = (i - q) / stride;
            const Iq* x = a + row + i; // q + stride * p
            const uint32_t apart = stride * quarter;
            // The inverse is the conjugate of the transform of the conjugate.
            Iq out[4];
            radix4(conjugate(x[0]), conjugate(x[apart]), conjugate(x[2 * apart]),
                   conjugate(x[3 * apart]), roots[p * stride], roots[2 * p * stride],
                   roots[3 * p * stride], out);
            Iq* y = b + row + q + stride * 4 * p;
            for (uint32_t k = 0; k < 4; ++k) y[stride * k] = conjugate(out[k]);
        }
        team.sync();
        Iq* const swap = a;
        a = b;
        b = swap;
        if (last) break;
    }
    return a;
}

// Every member keeps a copy of its own; what it points to is the team's.
struct Channelizer {
    const float* taps;
    uint32_t tap_count; // at least 1
    uint32_t channels;  // a power of two, at least 2
    const Iq* roots;    // of unity, `channels` of them
    Iq* history;        // room for 2 * (tap_count - 1) samples; zeros before the first feed()
    Iq* a;              // room for `channels` each
    Iq* b;
    uint32_t due = 0;  // of the next block, the newest sample of the next output
    uint32_t half = 0; // which half of the history is the current one

    // How many outputs of each channel `count` further samples give.
    DENIZEN_HD uint32_t outputs(uint32_t count) const
    {
        return due < count ? (count - due - 1) / channels + 1 : 0;
    }

    // Takes `count` samples; output m of channel k goes to out[k * pitch + m]. Gives their number.
    template <class Team>
    DENIZEN_HD uint32_t feed(Team& team, const Iq* in, uint32_t count, Iq* out, uint32_t pitch)
    {
        const uint32_t kept = tap_count - 1;
        const Iq* old = history + half * kept;
        const uint32_t n = outputs(count);
        for (uint32_t m = 0; m < n; ++m) {
            const uint32_t newest = due + m * channels;
            for (uint32_t r = team.rank(); r < channels; r += team.size()) {
                Iq sum;
                for (uint32_t i = r; i < tap_count; i += channels)
                    sum = sum + taps[i] * (i <= newest ? in[newest - i] : old[kept + newest - i]);
                a[r == 0 ? 0 : channels - r] = sum;
            }
            team.sync();
            const Iq* done = fft(team, a, b, roots, channels);
            for (uint32_t k = team.rank(); k < channels; k += team.size())
                out[static_cast<uint64_t>(k) * pitch + m] = done[k];
            team.sync(); // before `a` and `b` are written again
        }
        Iq* fresh = history + (1 - half) * kept;
        for (uint32_t i = team.rank(); i < kept; i += team.size()) {
            const uint64_t at = static_cast<uint64_t>(i) + count;
            fresh[i] = at < kept ? old[at] : in[at - kept];
        }
        due += n * channels - count;
        half = 1 - half;
        team.sync();
        return n;
    }
};

} // namespace denizen::dsp::team
