// All of strandline.hpp and strandline_pack.hpp: `classes FILE` uses each class and function, and looks at what it does.
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "strandline_pack.hpp"
#include "expect.hpp"
#if __cplusplus >= 202002L
#include <span>
#endif

using namespace strandline;
using namespace std::string_literals;

namespace {

template <class T>
constexpr bool is_move_only = std::is_nothrow_move_constructible_v<T> && std::is_nothrow_move_assignable_v<T> &&
                              !std::is_copy_constructible_v<T> && !std::is_copy_assignable_v<T>;
static_assert(is_move_only<Map> && is_move_only<Objects> && is_move_only<Range>);
static_assert(is_move_only<Reader> && is_move_only<Snapshot> && is_move_only<Ticket> && is_move_only<Database>);
// A row of a temporary Range would refer to what is gone.
template <class T, class = void>
constexpr bool has_next = false;
template <class T>
constexpr bool has_next<T, std::void_t<decltype(std::declval<T>().next())>> = true;
static_assert(has_next<Range &> && !has_next<Range>);
static_assert(!std::is_move_constructible_v<View> && !std::is_move_constructible_v<Transaction>);

#define FAILS(code, what) EXPECT(code_of([&] { (void)(what); }) == (code))

// The code of the error that a call throws; 0 if it throws none.
int code_of(const std::function<void()> &call) {
    try {
        call();
        return 0;
    } catch (const Error &error) {
        EXPECT(error.what()[0] != 0);
        return error.code();
    }
}

void opening(const std::string &path) {
    FAILS(STRANDLINE_IO, Database::open_existing(path));
    FAILS(STRANDLINE_IO, Database::open("/no/such/folder/file"));
    FAILS(STRANDLINE_PARAMETER, Database::open("a\0b"s));
    Options options;
    options.size = 64 << 20;
    Database db = Database::create_new(path, options);
    FAILS(STRANDLINE_IO, Database::create_new(path));
    FAILS(STRANDLINE_LOCKED, Database::open(path));
    Database moved = std::move(db);
    EXPECT(db.get() == nullptr && moved.get() != nullptr);
    FAILS(STRANDLINE_CLOSED, db.map("none"));
    db.close();
    Map map = moved.map("map");
    moved.close();
    moved.close();
    FAILS(STRANDLINE_CLOSED, moved.write([](Transaction &) {}));
    db = Database::open_read_only(path);
    FAILS(STRANDLINE_PARAMETER, db.read([&](View &view) { return map.get(view, "a"); })); // Of an earlier opening.
    map = db.map("map");
    FAILS(STRANDLINE_READ_ONLY, db.write([&](Transaction &tx) { map.put(tx, "a", "b"); }));
    FAILS(STRANDLINE_NO_TABLE, db.map("none"));
    options.domain = 99;
    FAILS(STRANDLINE_PARAMETER, Database::open(path, options));
}

void keys_and_values(const Database &db) {
    Map map = db.map("map");
    const std::vector<unsigned char> vector{1, 0, 2};
    const std::array<std::byte, 2> array{std::byte{3}, std::byte{0}};
    db.write([&](Transaction &tx) {
        map.put(tx, "literal", "text");
        map.put(tx, "string"s, std::string_view("vi\0ew", 5));
        map.put(tx, vector, array);
        map.put(tx, {vector.data(), 1}, "");
        map.put(tx, "", "empty key");
#if __cplusplus >= 202002L
        map.put(tx, "span", std::as_bytes(std::span(vector)));
        EXPECT(map.get(tx, "span") == "\1\0\2"s);
        EXPECT(map.remove(tx, "span"));
#endif
        EXPECT(map.get(tx, "literal") == "text");
        EXPECT(map.get(tx, "\1\0\2"s) == "\3\0"s);
        EXPECT(!map.get(tx, "none"));
        EXPECT(!map.remove(tx, "none"));
        FAILS(STRANDLINE_PARAMETER, map.put(tx, std::string(4095, 'k'), ""));
    });
    std::string seen, back;
    db.read([&](View &view) {
        seen.clear(), back.clear();
        for (auto [key, value] : map.range(view))
            seen += std::to_string(key.size()) + std::string(value) + ";";
        for (const Row &row : map.reverse_range(view, "literal", "string"))
            back += row.key;
        EXPECT(map.first(view)->key == "" && map.last(view)->value == "vi\0ew"s);
        EXPECT(map.first(view, "l", "s")->key == "literal" && map.last(view, "l", "s")->key == "literal");
        EXPECT(!map.first(view, "", "") && !map.last(view, "", ""));
        Range none = map.range(view, "", "");
        EXPECT(!none.next() && none.begin() == none.end());
        Range some = map.range(view, "s");
        EXPECT(some.next()->value == "vi\0ew"s && !some.next());
        Range moved = std::move(some);
        EXPECT(!moved.next());
    });
    EXPECT(seen == "0empty key;1;3\3\0;7text;6vi\0ew;"s);
    EXPECT(back == "literal");
    EXPECT(db.remove("map") && !db.remove("map"));
    FAILS(STRANDLINE_NO_TABLE, db.read([&](View &view) { return map.get(view, "x"); }));
    FAILS(STRANDLINE_PARAMETER, db.map("a\0b"s));
}

// What bodies return and throw.
struct Own {
    int number;
    explicit Own(int n) : number(n) {}
};

void bodies(const Database &db) {
    Map map = db.map("bodies");
    EXPECT(db.write([&](Transaction &tx) { return map.put(tx, "a", "1"), Own(7); }).number == 7);
    EXPECT(*db.read([&](View &view) { return std::make_unique<std::string>(*map.get(view, "a")); }) == "1");
    const auto nothing = [](Transaction &) {};
    static_assert(std::is_void_v<decltype(db.write(nothing))>);
    bool is_caught = false;
    try {
        db.write([&](Transaction &tx) {
            map.put(tx, "a", "2");
            throw Own(8);
        });
    } catch (const Own &own) {
        is_caught = own.number == 8;
    }
    EXPECT(is_caught);
    try {
        db.read([&](View &) -> int { throw std::runtime_error("of its own"); });
    } catch (const std::runtime_error &error) {
        EXPECT(error.what() == "of its own"s);
    }
    const auto nested = [&](Transaction &tx) {
        map.put(tx, "a", "3");
        return db.snapshot();
    };
    FAILS(STRANDLINE_NESTED, db.write(nested));
    EXPECT(db.read([&](View &view) { return map.get(view, "a"); }) == "1");
    std::optional<Range> late;
    db.read([&](View &view) { late = map.range(view); });
    FAILS(STRANDLINE_PARAMETER, late->next());

    auto [number, ticket] = db.write_later([&](Transaction &tx) { return map.put(tx, "b", "1"), 9; });
    Ticket second = db.write_later([&](Transaction &tx) { map.put(tx, "c", "1"); });
    FAILS(1, db.write_later([&](Transaction &) { throw Error(1, "of its own"); }));
    second.wait();
    EXPECT(number == 9 && ticket.is_durable() && second.is_durable());
}

// A body that meets another transaction runs again, whatever it makes of the exception.
void conflicts(const Database &db) {
    Map map = db.map("conflicts");
    for (bool is_swallowed : {false, true}) {
        int runs = 0, interruptions = 0;
        db.write([&](Transaction &tx) { map.put(tx, "a", "0"); });
        std::optional<std::string> seen = db.write([&](Transaction &tx) {
            std::optional<std::string> a = map.get(tx, "a");
            if (runs++ == 0)
                std::thread([&] { db.write([&](Transaction &other) { map.put(other, "a", "1"); }); }).join();
            try {
                map.put(tx, "b", "of run " + std::to_string(runs));
                a = map.get(tx, "a");
            } catch (const Error &error) {
                EXPECT(error.code() == STRANDLINE_INTERRUPTED);
                interruptions++;
                if (!is_swallowed)
                    throw;
            }
            return a;
        });
        EXPECT(runs == 2 && interruptions == 1 && seen == "1");
        EXPECT(db.read([&](View &view) { return map.get(view, "b"); }) == "of run 2");
    }
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; thread++)
        threads.emplace_back([&] {
            for (int i = 0; i < 50; i++)
                db.write([&](Transaction &tx) {
                    int n = std::stoi(map.get(tx, "sum").value_or("0"));
                    map.put(tx, "sum", std::to_string(n + 1));
                });
        });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT(db.read([&](View &view) { return map.get(view, "sum"); }) == "200");
}

void large_values(const Database &db) {
    Map films = db.map("films");
    const std::size_t size = 700003;
    std::size_t filled = 0;
    auto fill = [&](char *into, std::size_t length) {
        for (std::size_t i = 0; i < length; i++)
            into[i] = static_cast<char>((filled + i) / 7);
        filled += length;
    };
    db.write([&](Transaction &tx) {
        filled = 0;
        films.put_from(tx, "film", size, fill);
        EXPECT(filled == size);
        bool is_thrown = false;
        try {
            films.put_from(tx, "film", size, [](char *, std::size_t) { throw Own(1); });
        } catch (const Own &) {
            is_thrown = true;
        }
        EXPECT(is_thrown);
    });
    Snapshot snapshot = db.snapshot();
    std::string whole;
    const void *lent = nullptr;
    EXPECT(films.get_to(snapshot, "film", [&](std::string_view piece) {
        if (whole.empty()) {
            lent = piece.data();
            FAILS(STRANDLINE_PARAMETER, films.get(snapshot, "film"));
            Snapshot second = db.snapshot();
            const void *other = nullptr;
            films.get_to(second, "film", [&](std::string_view same) { return other = same.data(), false; });
            EXPECT(other == lent);
            db.write([&](Transaction &tx) { films.put(tx, "film", "another"); });
        }
        whole += piece;
    }));
    EXPECT(whole.size() == size && whole == films.get(snapshot, "film"));
    EXPECT(static_cast<unsigned char>(whole[size - 1]) == static_cast<unsigned char>((size - 1) / 7));
    int calls = 0;
    auto stop = [&](std::string_view) { return ++calls, false; };
    EXPECT(films.get_to(snapshot, "film", stop) && calls == 1);
    EXPECT(!films.get_to(snapshot, "none", stop) && calls == 1);
    FAILS(42, films.get_to(snapshot, "film", [](std::string_view) { throw Error(42, "of its own"); }));
    std::optional<Reader> reader = films.reader(snapshot, "film");
    char part[10];
    reader->read_at(size - sizeof part, part, sizeof part);
    EXPECT(reader->size() == size && whole.substr(size - sizeof part) == std::string(part, sizeof part));
    FAILS(STRANDLINE_PARAMETER, reader->read_at(size - 9, part, sizeof part));
    EXPECT(!films.reader(snapshot, "none"));
    EXPECT(db.read([&](View &view) { return films.get(view, "film"); }) == "another");
}

struct Node {
    std::uint64_t next, number;
};

void objects(const Database &db) {
    Objects nodes = db.objects("nodes");
    std::uint64_t node = db.write([&](Transaction &tx) {
        std::uint64_t root = nodes.root(tx, sizeof(Node)), fresh = nodes.allocate(tx, sizeof(Node));
        nodes.store(tx, fresh, Node{0, 2});
        nodes.store(tx, root, Node{fresh, 1});
        return fresh;
    });
    db.read([&](View &view) {
        Node root = nodes.load<Node>(view, nodes.root(view, sizeof(Node)));
        EXPECT(root.number == 1 && root.next == node && nodes.load<Node>(view, node).number == 2);
        EXPECT(nodes.size(view, node) == sizeof(Node));
        FAILS(STRANDLINE_READ_ONLY, nodes.root(view, 1000));
        int found = 0;
        for (auto at = nodes.next(view, 0); at; at = nodes.next(view, *at))
            found++;
        EXPECT(found == 2);
    });
    db.write([&](Transaction &tx) { nodes.release(tx, node); });
    FAILS(STRANDLINE_INVALID_ADDRESS, db.read([&](View &view) { return nodes.load<Node>(view, node); }));
}

template <class... Parts>
bool is_refused(std::string_view bytes) {
    return code_of([&] { (void)unpack<Parts...>(bytes); }) == STRANDLINE_PARAMETER;
}

void packing() {
    using Texts = std::vector<std::string>;
    using Holes = std::vector<std::optional<int>>;
    const std::string_view view = "view";
    std::string bytes = pack("a\0b"s, view, -1, true, -0.5f, std::optional<int>(), std::optional(7), Texts{"x", ""},
                             Holes{{}, 5, {}}, std::pair(1, "q"), std::tuple(1.5, std::optional<int>()));
    auto [text, literal, minus, is, half, none, seven, texts, holes, pair, tuple] =
        unpack<std::string, std::string, std::int8_t, bool, double, std::optional<int>, std::optional<long>, Texts, Holes,
               std::pair<int, std::string>, std::tuple<float, std::optional<int>>>(bytes);
    EXPECT(text == "a\0b"s && literal == "view" && minus == -1 && is && half == -0.5 && !none && seven == 7);
    EXPECT(texts == (Texts{"x", ""}) && holes == (Holes{{}, 5, {}}) && pair == std::pair(1, "q"s));
    EXPECT(std::get<0>(tuple) == 1.5f && !std::get<1>(tuple));
    // Examples of FoundationDB's specification.
    EXPECT(pack(-5551212) == "\x11\xab\x4b\x93" && pack("foo\0bar"s) == "\x02" "foo\0\xff" "bar\0"s);
    EXPECT(pack(-42.0f, 0).size() == 10 && pack(std::tuple("foo", std::optional<int>(), "")) == "\x05\2foo\0\0\xff\2\0\0"s);
    // In order, and as they were.
    const std::int64_t least = std::numeric_limits<std::int64_t>::min(), most = std::numeric_limits<std::int64_t>::max();
    const std::vector<std::int64_t> numbers{least, -65537, -65536, -257, -256, -255, -2,   -1,   0,
                                            1,     2,      255,    256,  65535, 65536, most};
    for (std::size_t i = 0; i < numbers.size(); i++) {
        EXPECT(unpack<std::int64_t>(pack(numbers[i])) == numbers[i]);
        EXPECT(i == 0 || pack(numbers[i - 1], 9) < pack(numbers[i]));
    }
    EXPECT(pack(most) < pack(std::numeric_limits<std::uint64_t>::max()) && pack(7) == pack(7u) && pack(7) == pack('\7'));
    const std::vector<double> reals{-std::numeric_limits<double>::infinity(), -1, -0.0, 0.0, 1e-300, 2};
    for (std::size_t i = 1; i < reals.size(); i++)
        EXPECT(pack(reals[i - 1]) < pack(reals[i]) && unpack<double>(pack(reals[i])) == reals[i]);
    EXPECT(pack("a", 3) < pack("ab") && pack("a", 3) < pack_end("a") && pack_end("a") < pack("ab"));
    EXPECT(pack(std::optional<int>()) < pack(std::optional(least)) && pack(Texts{"b"}) < pack(Texts{"b", ""}));
    // Bytes of other parts.
    EXPECT(unpack<std::int8_t>(pack(-128)) == -128 && is_refused<std::int8_t>(pack(-129)) && is_refused<std::int8_t>(pack(128)));
    EXPECT(is_refused<unsigned>(pack(-1)) && is_refused<std::uint8_t>(pack(256)) && is_refused<int>("") && is_refused<int>(pack(1, 2)));
    EXPECT(is_refused<std::string>(pack(1)) && is_refused<double>(pack(1)) && is_refused<bool>(pack(1)) && is_refused<Texts>("\x05"));
    EXPECT((is_refused<std::tuple<int>>(pack(std::pair(1, 2)))) && (is_refused<int, int>(pack(1))) && is_refused<int>("\x1d"));
    for (std::size_t length = 0; length < bytes.size(); length++)
        EXPECT((is_refused<std::string, std::string, int, bool, double, std::optional<int>, std::optional<int>, Texts, Holes,
                           std::pair<int, std::string>, std::tuple<double, std::optional<int>>>(bytes.substr(0, length))));
}

// A snapshot keeps its database open.
void lifetimes(const std::string &path) {
    std::optional<Snapshot> snapshot;
    {
        Database db = Database::open(path);
        Map map = db.map("lifetimes");
        db.write([&](Transaction &tx) { map.put(tx, "a", "1"); });
        snapshot = db.snapshot();
        FAILS(STRANDLINE_IN_USE, db.close());
        db.write([&](Transaction &tx) { map.put(tx, "a", "2"); });
        Snapshot moved = std::move(*snapshot);
        EXPECT(map.get(moved, "a") == "1");
        FAILS(STRANDLINE_PARAMETER, map.get(*snapshot, "a"));
        moved = db.snapshot();
        EXPECT(map.get(moved, "a") == "2");
        snapshot = std::move(moved);
    }
    FAILS(STRANDLINE_LOCKED, Database::open(path));
    snapshot.reset();
    Database db = Database::open_existing(path);
    EXPECT(db.check().empty());
    db.checkpoint();
    db.backup(path + ".copy");
    Database copy = Database::open_read_only(path + ".copy");
    EXPECT(copy.names().back() == "nodes" && copy.usage().snapshots == 0);
    Map map = copy.map("lifetimes");
    EXPECT(copy.read([&](View &view) { return map.get(view, "a"); }) == "2");
}

void restoring(const std::string &path) {
    FAILS(STRANDLINE_IO, Database::restore(path + ".none", path, OldFiles::keep));
    Database::restore(path + ".copy", path, OldFiles::remove);
    Database::restore(path + ".copy", path, OldFiles::keep);
    FAILS(STRANDLINE_PARAMETER, Database::restore(path + ".copy", path, OldFiles::keep));
    FAILS(STRANDLINE_PARAMETER, Database::restore("a\0b"s, path, OldFiles::keep));
    EXPECT(Database::open_existing(path + ".replaced").check().empty());
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 2)
        return 2;
    opening(argv[1]);
    {
        Database db = Database::open(argv[1]);
        keys_and_values(db);
        bodies(db);
        conflicts(db);
        large_values(db);
        objects(db);
    }
    packing();
    lifetimes(argv[1]);
    restoring(argv[1]);
    std::puts("all is well");
    return 0;
}
