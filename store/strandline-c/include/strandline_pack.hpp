// Keys and values of several parts, for strandline.hpp: pack makes bytes of parts, and unpack makes parts of bytes.
//
//     levels.put(tx, pack("Bergen", hour), pack(level, note, tags));
//     auto [place, hour] = unpack<std::string, int>(row.key);
//     counts.put(tx, place, pack(unpack<int>(counts.get(tx, place).value_or(pack(0))) + 1));
//
// Parts are integers, bool, floating-point numbers, texts, and std::optional, std::vector, std::pair and std::tuple of parts. Packed keys are in the
// order of their first parts, then of the second ones, and so on; a missing std::optional is first, and a NaN first or last. Integers of one value are
// packed alike, whatever their types, and so are float and double.
//
// The encoding is that of FoundationDB's tuples, for which there are libraries in other languages.

#ifndef STRANDLINE_PACK_HPP
#define STRANDLINE_PACK_HPP

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "strandline.hpp"

namespace strandline {
namespace detail {

// The first byte of each part.
enum : unsigned char { none = 0, text_part = 2, list = 5, zero = 0x14, real = 0x21, is_false = 0x26, is_true = 0x27 };
// Follows a zero that does not end a text or a list.
enum : unsigned char { goes_on = 0xff };

[[noreturn]] inline void wrong_part() {
    throw Error(STRANDLINE_PARAMETER, "the bytes are not packed parts of these types");
}

inline void write_number(std::string &into, std::uint64_t number, int bytes) {
    while (bytes-- > 0)
        into += static_cast<char>(number >> (8 * bytes) & 0xff);
}

// Takes bytes from the front.
inline std::string_view take(std::string_view &from, std::size_t bytes) {
    if (from.size() < bytes)
        wrong_part();
    std::string_view front = from.substr(0, bytes);
    from.remove_prefix(bytes);
    return front;
}

inline unsigned char take_byte(std::string_view &from) { return static_cast<unsigned char>(take(from, 1)[0]); }

inline std::uint64_t read_number(std::string_view &from, int bytes) {
    std::uint64_t number = 0;
    while (bytes-- > 0)
        number = number << 8 | take_byte(from);
    return number;
}

// Takes a byte from the front if it is there.
inline bool take_if(std::string_view &from, unsigned char byte) {
    bool is_there = !from.empty() && static_cast<unsigned char>(from[0]) == byte;
    from.remove_prefix(is_there);
    return is_there;
}

// How parts of a type are written and read; `is_inside`: in a list.
template <class T, class = void>
struct Part;

// Views of texts and literals are written as strings are.
template <class T>
using PartOf = Part<std::conditional_t<std::is_convertible_v<const T &, std::string_view>, std::string, T>>;

// Reads one part. A view would be of a text that is gone: texts are read to std::string.
template <class T>
T read_part(std::string_view &from, bool is_inside) {
    static_assert(!std::is_convertible_v<const T &, std::string_view> || std::is_same_v<T, std::string>, "unpack texts to std::string");
    return PartOf<T>::read(from, is_inside);
}

template <>
struct Part<bool> {
    static void write(std::string &into, bool part, bool) { into += static_cast<char>(part ? is_true : is_false); }
    static bool read(std::string_view &from, bool) {
        bool part = take_if(from, is_true);
        if (!part && !take_if(from, is_false))
            wrong_part();
        return part;
    }
};

template <class T>
struct Part<T, std::enable_if_t<std::is_integral_v<T>>> {
    static_assert(sizeof(T) <= sizeof(std::uint64_t), "a number has 64 bits at most");

    static void write(std::string &into, T part, bool) {
        bool is_negative = part < T(0);
        // Of a negative number, one less than its magnitude.
        std::uint64_t number = static_cast<std::uint64_t>(part), magnitude = is_negative ? ~number + 1 : number;
        int bytes = 0;
        while (bytes < 8 && magnitude >> (8 * bytes) != 0)
            bytes++;
        into += static_cast<char>(is_negative ? zero - bytes : zero + bytes);
        write_number(into, is_negative ? ~magnitude : magnitude, bytes);
    }
    static T read(std::string_view &from, bool) {
        int bytes = take_byte(from) - zero;
        if (bytes < -8 || bytes > 8)
            wrong_part();
        std::uint64_t most = static_cast<std::uint64_t>(std::numeric_limits<T>::max());
        if (bytes >= 0) {
            std::uint64_t number = read_number(from, bytes);
            if (number > most)
                wrong_part();
            return static_cast<T>(number);
        }
        std::uint64_t ones = bytes == -8 ? ~std::uint64_t(0) : (std::uint64_t(1) << (-8 * bytes)) - 1;
        std::uint64_t magnitude = ones - read_number(from, -bytes);
        if (std::is_unsigned_v<T> || magnitude > most + 1)
            wrong_part();
        return static_cast<T>(~magnitude + 1);
    }
};

template <class T>
struct Part<T, std::enable_if_t<std::is_floating_point_v<T>>> {
    static_assert(sizeof(T) <= sizeof(double), "a long double may not fit a double");
    static constexpr std::uint64_t sign = std::uint64_t(1) << 63;

    static void write(std::string &into, T part, bool) {
        double number = part;
        std::uint64_t bits;
        std::memcpy(&bits, &number, sizeof bits);
        into += static_cast<char>(real);
        write_number(into, bits & sign ? ~bits : bits | sign, 8);
    }
    static T read(std::string_view &from, bool) {
        if (!take_if(from, real))
            wrong_part();
        std::uint64_t bits = read_number(from, 8);
        bits = bits & sign ? bits & ~sign : ~bits;
        double number;
        std::memcpy(&number, &bits, sizeof number);
        if (std::isfinite(number) && std::abs(number) > static_cast<double>(std::numeric_limits<T>::max()))
            wrong_part();
        return static_cast<T>(number);
    }
};

template <>
struct Part<std::string> {
    static void write(std::string &into, std::string_view part, bool) {
        into += static_cast<char>(text_part);
        for (char letter : part) {
            into += letter;
            if (letter == '\0')
                into += static_cast<char>(goes_on);
        }
        into += '\0';
    }
    static std::string read(std::string_view &from, bool) {
        if (!take_if(from, text_part))
            wrong_part();
        std::string part;
        while (true) {
            char letter = take(from, 1)[0];
            if (letter == '\0' && !take_if(from, goes_on))
                return part;
            part += letter;
        }
    }
};

template <class T>
struct is_optional : std::false_type {};
template <class T>
struct is_optional<std::optional<T>> : std::true_type {};

template <class T>
struct Part<std::optional<T>> {
    static_assert(!is_optional<T>::value, "an optional of an optional would come back as one of them");

    static void write(std::string &into, const std::optional<T> &part, bool is_inside) {
        if (part) {
            PartOf<T>::write(into, *part, is_inside);
        } else {
            into += '\0';
            if (is_inside)
                into += static_cast<char>(goes_on);
        }
    }
    static std::optional<T> read(std::string_view &from, bool is_inside) {
        if (!take_if(from, none))
            return read_part<T>(from, is_inside);
        if (is_inside && !take_if(from, goes_on))
            wrong_part();
        return std::nullopt;
    }
};

template <class T>
struct Part<std::vector<T>> {
    static void write(std::string &into, const std::vector<T> &part, bool) {
        into += static_cast<char>(list);
        for (const T &one : part)
            PartOf<T>::write(into, one, true);
        into += '\0';
    }
    static std::vector<T> read(std::string_view &from, bool) {
        if (!take_if(from, list))
            wrong_part();
        std::vector<T> part;
        // A missing std::optional begins with a zero, too.
        while (from.substr(0, 1) != std::string_view("\0", 1) || from.substr(0, 2) == std::string_view("\0\xff", 2))
            part.push_back(read_part<T>(from, true));
        take(from, 1);
        return part;
    }
};

template <class... Parts>
struct Part<std::tuple<Parts...>> {
    static void write(std::string &into, const std::tuple<Parts...> &part, bool) {
        into += static_cast<char>(list);
        std::apply([&](const Parts &...parts) { (PartOf<Parts>::write(into, parts, true), ...); }, part);
        into += '\0';
    }
    static std::tuple<Parts...> read(std::string_view &from, bool) {
        if (!take_if(from, list))
            wrong_part();
        std::tuple<Parts...> part{read_part<Parts>(from, true)...}; // In order, within braces.
        if (!take_if(from, none))
            wrong_part();
        return part;
    }
};

template <class A, class B>
struct Part<std::pair<A, B>> {
    static void write(std::string &into, const std::pair<A, B> &part, bool) {
        Part<std::tuple<A, B>>::write(into, part, true);
    }
    static std::pair<A, B> read(std::string_view &from, bool) {
        auto [a, b] = Part<std::tuple<A, B>>::read(from, true);
        return {std::move(a), std::move(b)};
    }
};

} // namespace detail

// The bytes of `parts`. The bytes of fewer parts are the beginning of those of more.
template <class... Parts>
std::string pack(const Parts &...parts) {
    std::string bytes;
    (detail::PartOf<Parts>::write(bytes, parts, false), ...);
    return bytes;
}

// Bytes that are greater than those of all keys that begin with `parts`: map.range(view, pack("Bergen"), pack_end("Bergen")) are these keys.
template <class... Parts>
std::string pack_end(const Parts &...parts) {
    return pack(parts...) + '\xff';
}

// The parts of `bytes`, all of them: one part as it is, several as a std::tuple. Throws STRANDLINE_PARAMETER if the bytes are parts of other types, or if
// a number is beyond its type.
template <class... Parts>
auto unpack(std::string_view bytes) {
    std::tuple<Parts...> parts{detail::read_part<Parts>(bytes, false)...}; // In order, within braces.
    if (!bytes.empty())
        detail::wrong_part();
    if constexpr (sizeof...(Parts) == 1)
        return std::get<0>(std::move(parts));
    else
        return parts;
}

} // namespace strandline

#endif // STRANDLINE_PACK_HPP
