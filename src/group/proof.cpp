// SPDX-License-Identifier: Apache-2.0
// SHA-256 (FIPS 180-4) and HMAC (RFC 2104), for the token of ranks that meet over TCP. Written
// here, since the core links no library of cryptography. The tests have vectors of both standards.
#include "proof.hpp"

#include <denizen/base/error.hpp>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <sys/random.h>

namespace denizen::group {
namespace {

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
constexpr uint32_t round_words[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

constexpr size_t block = 64; // bytes

class Hash {
public:
    void add(std::string_view data)
    {
        bytes_ += data.size();
        while (!data.empty()) { // ends: each turn takes some
            const size_t n = std::min(block - held_, data.size());
            std::memcpy(rest_ + held_, data.data(), n);
            held_ += n;
            data.remove_prefix(n);
            if (held_ == block) take();
        }
    }

    Digest end()
    {
        const uint64_t bits = bytes_ * 8;
        add(std::string_view("\x80", 1));
        const char zeros[block] = {};
        add({zeros, (2 * block - 8 - held_) % block});
        char length[8];
        for (int i = 0; i < 8; ++i) length[i] = static_cast<char>(bits >> (56 - 8 * i));
        add({length, sizeof length});
        Digest out;
        for (size_t i = 0; i < out.size(); ++i) {
            out[i] = static_cast<unsigned char>(state_[i / 4] >> (24 - 8 * (i % 4)));
        }
        return out;
    }

private:
    void take()
    {
        held_ = 0;
        uint32_t w[64];
        for (size_t i = 0; i < 16; ++i) {
            w[i] = uint32_t{rest_[4 * i]} << 24 | uint32_t{rest_[4 * i + 1]} << 16 |
                   uint32_t{rest_[4 * i + 2]} << 8 | rest_[4 * i + 3];
        }
        for (size_t i = 16; i < 64; ++i) {
            const uint32_t a = w[i - 15], b = w[i - 2];
            w[i] = w[i - 16] + w[i - 7] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) +
                   (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
        }
        uint32_t s[8];
        std::memcpy(s, state_, sizeof s);
        for (size_t i = 0; i < 64; ++i) {
            const uint32_t e = s[4], a = s[0];
            const uint32_t up = s[7] + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) +
                                ((e & s[5]) ^ (~e & s[6])) + round_words[i] + w[i];
            const uint32_t down = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) +
                                  ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
            std::memmove(s + 1, s, 7 * sizeof *s);
            s[4] += up;
            s[0] = up + down;
        }
        for (size_t i = 0; i < 8; ++i) state_[i] += s[i];
    }

    // The first 32 bits of the fractional parts of the square roots of the first 8 primes.
    uint32_t state_[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                          0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    unsigned char rest_[block] = {};
    size_t held_ = 0;
    uint64_t bytes_ = 0;
};

} // namespace

Digest sha256(std::initializer_list<std::string_view> parts)
{
    Hash hash;
    for (const std::string_view part : parts) hash.add(part);
    return hash.end();
}

Digest hmac(std::string_view key, std::initializer_list<std::string_view> parts)
{
    char inner[block] = {}, outer[block] = {};
    const Digest short_key = sha256({key});
    const std::string_view used = key.size() > block ? view_of(short_key) : key;
    std::memcpy(inner, used.data(), used.size());
    std::memcpy(outer, used.data(), used.size());
    for (char& c : inner) c = static_cast<char>(c ^ 0x36);
    for (char& c : outer) c = static_cast<char>(c ^ 0x5c);
    Hash hash;
    hash.add({inner, block});
    for (const std::string_view part : parts) hash.add(part);
    return sha256({{outer, block}, view_of(hash.end())});
}

Digest nonce()
{
    Digest out;
    ssize_t got = 0;
    do {
        got = getrandom(out.data(), out.size(), 0); // up to 256 bytes come whole
    } while (got < 0 && errno == EINTR); // ends: a signal only delays it
    if (got != static_cast<ssize_t>(out.size())) {
        throw Error(Errc::failed, std::string("getrandom: ") + std::strerror(errno));
    }
    return out;
}

bool same(const Digest& a, const Digest& b)
{
    unsigned differs = 0; // all bytes, however early the first one differs
    for (size_t i = 0; i < a.size(); ++i) differs |= static_cast<unsigned>(a[i] ^ b[i]);
    return differs == 0;
}

} // namespace denizen::group
