# SPDX-License-Identifier: Apache-2.0
"""The words that program text may use (docs/vocabulary.md): compiled by both compilers, and what
they give on a device. One handler evaluates every expression below."""

import math
import re
from pathlib import Path

import numpy as np
import pytest

import denizen
from denizen import tasks

VALUES = {"f": 0.5, "d": 2.25, "i": -3, "u": 12, "q": (1 << 40) + 4, "zero": 0}
NAN = math.nan

# By word: expressions of the values above, and what they give.
CASES = {
    "sqrt": [("sqrt(d)", 1.5), ("sqrt(f)", np.float32(0.5) ** 0.5), ("sqrt(4)", 2)],
    "rsqrt": [("rsqrt(f * f)", 2), ("rsqrt(d)", 1 / 1.5), ("rsqrt(4)", 0.5)],
    "cbrt": [("cbrt(8 * d / d)", 2), ("cbrt(8)", 2)],
    "exp": [("exp(d)", math.exp(2.25)), ("exp(0)", 1), ("exp(f)", math.exp(0.5))],
    "exp2": [("exp2(f)", 2**0.5), ("exp2(3)", 8)],
    "log": [("log(d)", math.log(2.25)), ("log(u)", math.log(12))],
    "log2": [("log2(f)", -1), ("log2(8)", 3)],
    "log10": [("log10(d)", math.log10(2.25)), ("log10(1000)", 3)],
    "log1p": [("log1p(d)", math.log1p(2.25))],
    "expm1": [("expm1(d)", math.expm1(2.25))],
    "sin": [("sin(d)", math.sin(2.25)), ("sin(f)", math.sin(0.5))],
    "cos": [("cos(d)", math.cos(2.25)), ("cos(0)", 1)],
    "tan": [("tan(d)", math.tan(2.25))],
    "asin": [("asin(f)", math.asin(0.5))],
    "acos": [("acos(f)", math.acos(0.5))],
    "atan": [("atan(d)", math.atan(2.25))],
    "atan2": [("atan2(d, 2.0)", math.atan2(2.25, 2)), ("atan2(i, 2)", math.atan2(-3, 2))],
    "sinh": [("sinh(d)", math.sinh(2.25))],
    "cosh": [("cosh(d)", math.cosh(2.25))],
    "tanh": [("tanh(f)", math.tanh(0.5))],
    "erf": [("erf(f)", math.erf(0.5))],
    "pow": [("pow(d, 2)", 5.0625), ("pow(f, 2)", 0.25), ("pow(2, 10)", 1024),
            ("sizeof(pow(f, 2))", 4)],
    "fabs": [("fabs(-d)", 2.25), ("fabs(-f)", 0.5), ("fabs(i)", 3)],
    "abs": [("abs(i)", 3), ("abs(-d)", 2.25), ("abs(int64_t(i))", 3), ("abs(-f)", 0.5)],
    "floor": [("floor(-d)", -3), ("floor(i)", -3)],
    "ceil": [("ceil(d)", 3), ("ceil(f)", 1)],
    "round": [("round(-2.5 * (d / d))", -3), ("round(f)", 1)],
    "rint": [("rint(2.5 * (d / d))", 2)],
    "trunc": [("trunc(-d)", -2)],
    "fmod": [("fmod(d, 2.0)", 0.25), ("fmod(7, 4)", 3)],
    "fma": [("fma(d, 2.0, 1.0)", 5.5), ("fma(f, 2.0f, 1.0f)", 2)],
    "hypot": [("hypot(3.0 * (d / d), 4.0)", 5), ("hypot(3, 4)", 5)],
    "fmin": [("fmin(d, 1.0)", 1)],
    "fmax": [("fmax(d, 1.0)", 2.25)],
    "copysign": [("copysign(d, -1.0)", -2.25)],
    "isnan": [("isnan(d / zero)", 0), ("isnan(zero / double(zero))", 1), ("isnan(f)", 0),
              ("isnan(i)", 0)],
    "isinf": [("isinf(d / zero)", 1), ("isinf(f)", 0)],
    "isfinite": [("isfinite(d / zero)", 0), ("isfinite(f)", 1)],
    "signbit": [("signbit(-d) != 0", 1)],
    "min": [("min(i, 2)", -3), ("min(d, f)", 0.5), ("min(q, 5)", 5), ("min(f, 1)", 0.5),
            ("min(NAN, f)", 0.5), ("min(f, NAN)", 0.5)],
    "max": [("max(i, 2)", 2), ("max(d, f)", 2.25), ("max(q, 5)", VALUES["q"]), ("max(f, 1)", 1),
            ("max(NAN, f)", 0.5), ("max(f, NAN)", 0.5), ("max(u, 20u)", 20)],
    "clamp": [("clamp(i, -1, 1)", -1), ("clamp(d, 0, 1)", 1), ("clamp(f, 0.0f, 1.0f)", 0.5)],
    "popcount": [("popcount(u)", 2), ("popcount(q)", 2), ("popcount(i)", 31),
                 ("popcount(uint8_t(u))", 2)],
    "clz": [("clz(u)", 28), ("clz(q)", 23), ("clz(zero)", 32), ("clz(uint8_t(u))", 4)],
    "ctz": [("ctz(u)", 2), ("ctz(q)", 2), ("ctz(zero)", 32), ("ctz(uint64_t(zero))", 64)],
    "__popc": [("__popc(u)", 2)],
    "__popcll": [("__popcll(q)", 2)],
    "__clz": [("__clz(u)", 28), ("__clz(zero)", 32)],
    "__clzll": [("__clzll(q)", 23)],
    "__ffs": [("__ffs(u)", 3), ("__ffs(zero)", 0)],
    "__ffsll": [("__ffsll(q)", 3)],
    "__brev": [("__brev(u)", 0x30000000)],
    "__brevll": [("__brevll(q) == (1ull << 23 | 1ull << 61)", 1)],
    "__float_as_uint": [("__float_as_uint(f)", 0x3F000000)],
    "__uint_as_float": [("__uint_as_float(0x3F000000)", 0.5)],
    "__float_as_int": [("__float_as_int(f)", 0x3F000000)],
    "__int_as_float": [("__int_as_float(0x3F000000)", 0.5)],
    "__double_as_longlong": [("__double_as_longlong(d) == 0x4002000000000000ll", 1)],
    "__longlong_as_double": [("__longlong_as_double(0x4002000000000000ll)", 2.25)],
    "__builtin_popcount": [("__builtin_popcount(u)", 2)],
    "__builtin_popcountll": [("__builtin_popcountll(q)", 2)],
    "__builtin_clz": [("__builtin_clz(u)", 28)],
    "__builtin_clzll": [("__builtin_clzll(q)", 23)],
    "__builtin_ctz": [("__builtin_ctz(u)", 2)],
    "__builtin_ctzll": [("__builtin_ctzll(q)", 2)],
    "memcpy": [("[&] { float to; memcpy(&to, &f, 4); return to; }()", 0.5)],
    "memmove": [("[&] { char t[4] = {1, 2, 3, 4}; memmove(t + 1, t, 3); return t[3] * 10 + t[1];"
                 " }()", 31)],
    "memset": [("[&] { uint32_t to; memset(&to, 1, 4); return to; }()", 0x01010101)],
    "memcmp": [("memcmp(&u, &u, 4)", 0), ("memcmp(\"ab\", \"ac\", 2) < 0", 1)],
    "strlen": [("strlen(\"four\")", 4)],
    "strcmp": [("strcmp(\"a\", \"a\")", 0), ("strcmp(\"b\", \"a\") > 0", 1)],
    "atomicAdd": [("atomicAdd(&word, 2u) * 100 + word", 709), ("atomicAdd(&wide, 2) + wide", 16),
                  ("atomicAdd(&single, 1.5f) + single", 3.5), ("atomicAdd(&real, 1.5) + real", 3.5),
                  ("atomicAdd(&long_word, -2) + long_word", 12)],
    "atomicSub": [("atomicSub(&word, 2) * 100 + word", 705), ("atomicSub(&wide, 2)", 7)],
    "atomicExch": [("atomicExch(&word, 1) * 100 + word", 701), ("atomicExch(&single, 3.0f)", 1),
                   ("atomicExch(&real, 3.0) * 10 + real", 13), ("atomicExch(&wide, 3)", 7)],
    "atomicMin": [("atomicMin(&word, 1) * 100 + word", 701), ("atomicMin(&signed_word, -1)", 7),
                  ("atomicMin(&wide, 1) * 100 + wide", 701)],
    "atomicMax": [("atomicMax(&word, 9) * 100 + word", 709), ("atomicMax(&wide, 9) + wide", 16),
                  ("atomicMax(&long_word, -1) + long_word", 14)],
    "atomicAnd": [("atomicAnd(&word, 3) * 100 + word", 703)],
    "atomicOr": [("atomicOr(&word, 8) * 100 + word", 715)],
    "atomicXor": [("atomicXor(&word, 1) * 100 + word", 706)],
    "atomicCAS": [("atomicCAS(&word, 7, 1) * 100 + word", 701),
                  ("atomicCAS(&word, 6, 1) * 100 + word", 707),
                  ("atomicCAS(&wide, 7, 1) + wide", 8), ("atomicCAS(&long_word, 7, 1)", 7)],
    "printf": [("(printf(\"%s\", \"\"), 1)", 1)],
    "assert": [("[&] { assert(u == 12); return 1; }()", 1)],
    "<cmath>": [("std::sqrt(d) + std::pow(f, 2) + std::abs(i)", 4.75),
                ("std::isnan(NAN) + std::floor(d)", 3), ("M_PI", math.pi),
                ("std::atan2(d, 2.0) + std::fmod(d, 2.0)", math.atan2(2.25, 2) + 0.25),
                ("std::isinf(INFINITY)", 1), ("std::lerp(1.0, 3.0, 0.5)", 2),
                ("std::hypot(3, 4)", 5)],
    "<cstdint>": [("sizeof(std::uint64_t) + sizeof(int8_t)", 9), ("UINT32_MAX", 2**32 - 1),
                  ("INT64_MIN", -(2**63)), ("sizeof(intptr_t)", 8)],
    "<cstddef>": [("sizeof(std::size_t) + sizeof(ptrdiff_t)", 16)],
    "<cstring>": [("[&] { double to; std::memcpy(&to, &d, 8); return to; }()", 2.25)],
    "<cstdlib>": [("std::abs(-4)", 4)],
    "<cstdio>": [("(std::printf(\"%s\", \"\"), 1)", 1)],
    "<cassert>": [("[&] { assert(i == -3); return 1; }()", 1)],
    "<climits>": [("INT_MAX", 2**31 - 1), ("CHAR_BIT", 8)],
    "<cfloat>": [("FLT_MAX", np.finfo(np.float32).max), ("DBL_EPSILON", 2.0**-52)],
    "<initializer_list>": [("std::max({1, 7, 3}) + std::min({4, 2})", 9)],
    "<array>": [("std::array<int, 3>{1, 2, 3}[1]", 2), ("std::array{1, 2, 3}.size()", 3),
                ("[] { std::array<int, 2> a{1, 2}; a.fill(4); auto [x, y] = a; return x + y; }()",
                 8),
                ("[] { int n = 0; for (int v : std::array{1, 2, 3}) n += v; return n; }()", 6),
                ("std::array{1, 2} == std::array{1, 2}", 1), ("std::array{4, 9}.back()", 9)],
    "<algorithm>": [
        ("std::max(d, 1.0) + std::min(d, 1.0) + std::clamp(d, 0.0, 1.0)", 4.25),
        ("[] { int a[] = {3, 1, 2}; std::sort(a, a + 3); return a[0] * 100 + a[1] * 10 + a[2]; }()",
         123),
        ("[] { std::array a{3, 1, 2, 5, 4}; std::sort(a.begin(), a.end(), "
         "[](int x, int y) { return x > y; }); return std::is_sorted(a.begin(), a.end()) * 10 "
         "+ a[0]; }()", 5),
        ("[] { int a[] = {1, 3, 5}; return std::lower_bound(a, a + 3, 3) - a + "
         "(std::upper_bound(a, a + 3, 3) - a) * 10; }()", 21),
        ("[] { int a[] = {1, 3, 5}; return *std::max_element(a, a + 3) + "
         "*std::min_element(a, a + 3); }()", 6),
        ("[] { int a[] = {1, 3, 3}; return std::count(a, a + 3, 3) + 10 * "
         "(std::find(a, a + 3, 3) - a); }()", 12),
        ("[] { int a[] = {1, 2, 3}; std::reverse(a, a + 3); int b[3]; std::copy(a, a + 3, b); "
         "std::fill(a, a + 2, 7); return b[0] * 10 + a[0] + a[2]; }()", 38),
        ("[] { int a[] = {1, 2}; return std::any_of(a, a + 2, [](int v) { return v > 1; }) + "
         "std::all_of(a, a + 2, [](int v) { return v > 1; }); }()", 1),
        ("[] { int a[] = {1, 2}; return std::binary_search(a, a + 2, 2) && "
         "std::equal(a, a + 2, a); }()", 1),
    ],
    "<numeric>": [
        ("[] { int a[4]; std::iota(a, a + 4, 1); return std::accumulate(a, a + 4, 0); }()", 10),
        ("std::gcd(12, 18)", 6)],
    "<limits>": [("std::numeric_limits<int32_t>::max()", 2**31 - 1),
                 ("std::numeric_limits<uint64_t>::digits", 64),
                 ("std::numeric_limits<int64_t>::min()", -(2**63)),
                 ("std::numeric_limits<double>::epsilon()", 2.0**-52),
                 ("std::numeric_limits<float>::infinity()", math.inf),
                 ("std::numeric_limits<double>::quiet_NaN()", NAN),
                 ("std::numeric_limits<float>::lowest()", np.finfo(np.float32).min)],
    "<utility>": [("[&] { int a = 1, b = 2; std::swap(a, b); return a * 10 + b; }()", 21),
                  ("[&] { int a = 1; return std::exchange(a, 5) * 10 + a; }()", 15),
                  ("std::pair{1, 2.5}.second", 2.5), ("std::make_pair(3, 4).first", 3),
                  ("std::make_index_sequence<5>::size()", 5), ("std::move(i)", -3),
                  ("[] { auto [a, b] = std::pair{1, 2}; return a + b; }()", 3)],
    "<bit>": [("std::popcount(u)", 2), ("std::countl_zero(u)", 28), ("std::countr_zero(q)", 2),
              ("std::bit_cast<uint32_t>(f)", 0x3F000000), ("std::bit_ceil(u)", 16),
              ("std::bit_floor(u)", 8), ("std::bit_width(u)", 4), ("std::has_single_bit(u)", 0),
              ("std::rotl(uint8_t(0x81), 1)", 3), ("std::rotr(uint8_t(0x81), 1)", 0xC0),
              ("std::countl_zero(uint16_t(1))", 15)],
    "<numbers>": [("std::numbers::pi", math.pi), ("std::numbers::e_v<float>", np.float32(math.e))],
    "<type_traits>": [
        ("std::is_same_v<std::remove_cvref_t<const int&>, int>", 1),
        ("std::is_integral_v<uint8_t> + std::is_floating_point_v<int>", 1),
        ("sizeof(std::conditional_t<true, char, double>)", 1),
        ("std::is_signed_v<int> + std::is_unsigned_v<uint64_t>", 2),
        ("sizeof(std::common_type_t<float, double>)", 8),
        ("std::is_trivially_copyable_v<float>", 1),
        ("std::is_same_v<std::make_unsigned_t<int64_t>, uint64_t>", 1),
        ("std::is_same_v<std::decay_t<int[3]>, int*>", 1),
        ("std::is_convertible_v<int, double> + std::is_pointer_v<int*>", 2),
        ("std::true_type::value + std::is_same<int, float>::value", 1)],
}  # fmt: skip

C_NAMES = [
    "assert", "float", "limits", "math", "stddef", "stdint", "stdio", "stdlib", "string",
]  # fmt: skip

ASK = denizen.message(
    "Ask",
    [("f", "f4"), ("d", "f8"), ("i", "i4"), ("u", "u4"), ("q", "u8"), ("zero", "u4"), ("n", "u4")],
)
VALUE = denizen.message("Value", [("v", "f8")])
EXPRESSIONS = [expression for cases in CASES.values() for expression, _ in cases]


def program(expressions, includes=()):
    cases = "".join(
        f"    case {n}: return double({expression});\n" for n, expression in enumerate(expressions)
    )
    source = "".join(f"#include <{name}>\n" for name in includes)
    source += f"""
// Atomics are for memory that others reach: a GPU has none for what lies on its stack.
struct Words {{
    uint32_t word = 7;
    int32_t signed_word = 7;
    uint64_t wide = 7;
    int64_t long_word = 7;
    float single = 1;
    double real = 1;
}};
double value_of(const Ask& m, Words& words) {{
    [[maybe_unused]] const float f = m.f;
    [[maybe_unused]] const double d = m.d;
    [[maybe_unused]] const int32_t i = m.i;
    [[maybe_unused]] const uint32_t u = m.u;
    [[maybe_unused]] const uint64_t q = m.q;
    [[maybe_unused]] const uint32_t zero = m.zero;
    [[maybe_unused]] auto& [word, signed_word, wide, long_word, single, real] = words;
    switch (m.n) {{
{cases}    default: return -1;
    }}
}}
struct Abacus {{
    Words words;
    void on(const Ask& m, auto& ctx) {{
        words = Words{{}};
        ctx.reply(Value{{value_of(m, words)}});
    }}
}};
"""
    return denizen.Program(source, actors=["Abacus"], messages=[ASK, VALUE], name="abacus")


@pytest.fixture(scope="module")
def everything():
    headers = [word[1:-1] for word in CASES if word.startswith("<")]
    return program(EXPRESSIONS, headers + [f"{name}.h" for name in C_NAMES])


@pytest.mark.parametrize("where", ["cpu:1", pytest.param("gpu", marks=pytest.mark.gpu)])
def test_every_word_gives_its_value(everything, where):
    wrong = []
    expected = [value for cases in CASES.values() for _, value in cases]
    with denizen.Runtime(everything, where) as rt:
        (abacus,) = rt.spawn("Abacus")
        for n, (expression, value) in enumerate(zip(EXPRESSIONS, expected, strict=True)):
            got = float(rt.ask(abacus, ASK(**VALUES, n=n), timeout=60)["v"])
            if not np.isclose(got, float(value), rtol=1e-6, atol=0, equal_nan=True):
                wrong.append(f"{expression} gave {got}, not {value}")
    assert wrong == []


@pytest.mark.usefixtures("unoptimised")
def test_every_word_compiles_for_a_gpu(everything, nvrtc):
    everything.compile_gpu(90)


@pytest.mark.usefixtures("unoptimised")
def test_no_word_needs_an_include(nvrtc):
    without = program(EXPRESSIONS)
    without.compile_cpu()
    without.compile_gpu(90)


def test_the_table_of_the_docs_is_what_is_tested():
    text = (Path(__file__).parents[2] / "docs" / "vocabulary.md").read_text()
    listed = set()
    for row in re.findall(r"^\| (`.+?) \|", text, re.MULTILINE):
        listed.update(re.findall(r"`([^`]+)`", row))
    assert listed == set(CASES)


@pytest.mark.usefixtures("unoptimised")
def test_tasks_have_the_same_words(nvrtc):
    text = """
struct Work {
    double* out;
    void run(auto&) const { *out = max(sqrt(*out), std::clamp(1.0, 0.0, 0.5)); }
};
"""
    work = tasks.Program(text, tasks=[tasks.task("Work", [("out", "u8")])])
    work.compile_cpu()
    work.compile_gpu(90)


@pytest.mark.usefixtures("unoptimised")
def test_a_program_may_define_a_word_itself(nvrtc):
    source = """
template <class T> T clamp(T v, T low, T high) { return v < low ? low : v > high ? high : v; }
float max(float a, float b) { return a < b ? b : a; }
inline int popcount(uint32_t v) { return v != 0; }
struct Abacus {
    void on(const Ask& m, auto& ctx) {
        ctx.reply(Value{clamp(m.f, 0.0f, 1.0f) + max(m.f, 2.0f) + popcount(m.u)});
    }
};
"""
    own = denizen.Program(source, actors=["Abacus"], messages=[ASK, VALUE])
    own.compile_gpu(90)
    with denizen.Runtime(own, "cpu:1") as rt:
        assert rt.ask(rt.spawn("Abacus")[0], ASK(**VALUES), timeout=60)["v"] == 3.5


@pytest.mark.gpu
def test_atomics_of_many_threads():
    source = """
struct Abacus {
    static constexpr auto grain = denizen::Grain::warp;
    uint32_t sum = 0;
    void on(const Ask& m, auto& ctx) {
        atomicAdd(&sum, m.u);
        ctx.sync();
        ctx.reply(Value{double(sum)});
    }
};
"""
    many = denizen.Program(source, actors=["Abacus"], messages=[ASK, VALUE])
    with denizen.Runtime(many, "gpu") as rt:
        assert rt.ask(rt.spawn("Abacus")[0], ASK(u=3), timeout=60)["v"] == 96
