// SPDX-License-Identifier: Apache-2.0
// Proof that both ends of a line know the same token, which itself never crosses it: each sends a
// nonce, and the HMAC-SHA-256 of both nonces and of what it says. A proof is of use to nobody but
// who sent the nonce. Who listens can try tokens on it: a token is random, not a word.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <string_view>

namespace denizen::group {

using Digest = std::array<unsigned char, 32>;

inline std::string_view view_of(const Digest& d)
{
    return {reinterpret_cast<const char*>(d.data()), d.size()};
}

Digest sha256(std::initializer_list<std::string_view> parts);                     // FIPS 180-4
Digest hmac(std::string_view key, std::initializer_list<std::string_view> parts); // RFC 2104
Digest nonce();                                                                   // Errc::failed
bool same(const Digest& a, const Digest& b); // in a time that says nothing

} // namespace denizen::group
