// Strandline for C++17: the functions of strandline.h as classes. docs/c.md introduces it.
//
// Errors. A call that fails throws strandline::Error, which has the code of strandline.h and a message. A missing key is no error: functions that look
// for one return a bool or a std::optional.
//
// Transactions. Database::write calls a body with the transaction. An exception rolls the transaction back and leaves write. An operation that meets
// another transaction throws STRANDLINE_INTERRUPTED; a body that catches Error throws it again, and then runs again from its beginning. So a body
// does nothing but work on the database, and sets variables that it changes outside at its beginning.
//
// Threads. A Database, Map, Objects and Ticket may be used by any number of threads at a time, and are closed, moved and destroyed by one, after all
// others have stopped using them. A Transaction or View, and its Ranges and Readers, belong to the thread on which the body runs. A Snapshot, and
// its Ranges and Readers, may be used by one thread at a time.
//
// Lifetimes. All handles are move-only; after a move, a call throws STRANDLINE_PARAMETER, and one of a Database STRANDLINE_CLOSED, as after close. The file of a database is closed when its Database and
// all its Snapshots have been destroyed. A Range or Reader that is used after its transaction or snapshot throws STRANDLINE_PARAMETER. None of the
// destructors of a database and its snapshots may run in a body or in a function that get_to calls.

#ifndef STRANDLINE_HPP
#define STRANDLINE_HPP

#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "strandline.h"

namespace strandline {

// What went wrong: a StrandlineStatus, and a message.
class Error : public std::runtime_error {
public:
    Error(int code, const std::string &message) : std::runtime_error(message), code_(code) {}

    int code() const noexcept { return code_; }

private:
    int code_;
};

// How a database is opened: the fields of StrandlineOptions, which are zeros at first.
struct Options : StrandlineOptions {
    Options() : StrandlineOptions{} {}
};

// How full a database is: the fields of StrandlineUsage.
using Usage = StrandlineUsage;

// Whether Database::restore keeps the files that it replaces.
enum class OldFiles { keep, remove };

// A view of bytes that are a key or a value: of a string, a text that ends with a zero, or any container of char, unsigned char or std::byte that is
// contiguous, such as std::vector, std::array and std::span.
class Bytes {
    template <class Container>
    using Element = std::remove_cv_t<std::remove_pointer_t<decltype(std::data(std::declval<const Container &>()))>>;
    template <class T>
    static constexpr bool is_byte =
        std::is_same_v<T, char> || std::is_same_v<T, unsigned char> || std::is_same_v<T, std::byte>;

public:
    Bytes(const void *data, std::size_t size) noexcept : data_(data), size_(size) {}
    Bytes(const char *text) noexcept : Bytes(text, std::string_view(text).size()) {}
    Bytes(std::nullptr_t) = delete;
    template <class Container, class = std::enable_if_t<is_byte<Element<Container>> && !std::is_array_v<Container>>>
    Bytes(const Container &container) noexcept : Bytes(std::data(container), std::size(container)) {}

    const void *data() const noexcept { return data_; }
    std::size_t size() const noexcept { return size_; }

private:
    const void *data_;
    std::size_t size_;
};

namespace detail {

template <auto end>
struct End {
    template <class T>
    void operator()(T *pointer) const noexcept {
        end(pointer);
    }
};
// A pointer of strandline.h, and the function that ends what it refers to.
template <class T, auto end>
using Handle = std::unique_ptr<T, End<end>>;

// Throws unless a call succeeded.
inline void check(int code) {
    if (code == STRANDLINE_OK)
        return;
    const char *message = strandline_message();
    throw Error(code, *message != 0 ? message : strandline_error_text(code));
}

// As check, for a call whose key or object may be missing; returns whether it was there.
inline bool found(int code) {
    if (code != STRANDLINE_NOT_FOUND)
        check(code);
    return code != STRANDLINE_NOT_FOUND;
}

// A text for C, which ends with a zero.
inline const char *text(const std::string &text) {
    if (text.find('\0') != std::string::npos)
        throw Error(STRANDLINE_PARAMETER, "a path or name must not contain a zero byte");
    return text.c_str();
}

// What the callbacks below return to C, whose codes are below 0.
enum : int { has_thrown = 1, has_stopped = 2 };

// Calls a function of the program from C, through which no exception may pass.
template <class Function>
struct Callback {
    Function &function;
    std::exception_ptr thrown = nullptr;

    template <class Call>
    int run(Call call) noexcept {
        thrown = nullptr;
        try {
            return call(function);
        } catch (const Error &error) {
            // The code tells the library that the body ends for a reason that it knows.
            if (error.code() == STRANDLINE_INTERRUPTED)
                return error.code();
            thrown = std::current_exception();
        } catch (...) {
            thrown = std::current_exception();
        }
        return has_thrown;
    }

    // Throws again what the function has thrown; otherwise returns the code.
    int finish(int code) const {
        if (code == has_thrown && thrown)
            std::rethrow_exception(thrown);
        return code;
    }
};

} // namespace detail

// A transaction or snapshot to read from.
class View {
public:
    View(const View &) = delete;
    View &operator=(const View &) = delete;

    // For functions of strandline.h.
    StrandlineTransaction *get() const noexcept { return raw_; }

protected:
    explicit View(StrandlineTransaction *raw) noexcept : raw_(raw) {}
    View(View &&other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
    View &operator=(View &&other) noexcept {
        raw_ = std::exchange(other.raw_, nullptr);
        return *this;
    }
    ~View() = default;

private:
    friend class Database;
    StrandlineTransaction *raw_;
};

// A transaction that also writes.
class Transaction : public View {
public:
    Transaction(const Transaction &) = delete;
    Transaction &operator=(const Transaction &) = delete;

private:
    friend class Database;
    explicit Transaction(StrandlineTransaction *raw) noexcept : View(raw) {}
};

// A key and its value, which are valid until the Range moves on or is destroyed.
struct Row {
    std::string_view key, value;
};

// A copy of a key and of its value.
struct Pair {
    std::string key, value;
};

// The rows between two keys, in one pass: `for (auto [key, value] : map.range(view))`.
class Range {
public:
    class iterator {
    public:
        using iterator_category = std::input_iterator_tag;
        using value_type = Row;
        using difference_type = std::ptrdiff_t;
        using pointer = const Row *;
        using reference = const Row &;

        iterator() = default;
        reference operator*() const { return range_->row_; }
        pointer operator->() const { return &range_->row_; }
        iterator &operator++() {
            if (!range_->advance())
                range_ = nullptr;
            return *this;
        }
        void operator++(int) { ++*this; }
        friend bool operator==(const iterator &a, const iterator &b) { return a.range_ == b.range_; }
        friend bool operator!=(const iterator &a, const iterator &b) { return a.range_ != b.range_; }

    private:
        friend class Range;
        explicit iterator(Range *range) : range_(range) {}
        Range *range_ = nullptr;
    };

    // Reads the first row, or the next one if some have been read. The Range must not be moved while its iterators are used.
    iterator begin() { return iterator(advance() ? this : nullptr); }
    iterator end() { return iterator(); }

    // Reads the next row; none at the end. A temporary Range has no next(), since the row would refer to what is destroyed with it: see Map::first.
    std::optional<Row> next() & { return advance() ? std::optional(row_) : std::nullopt; }

private:
    friend class Map;
    explicit Range(StrandlineIterator *raw) noexcept : raw_(raw) {}

    bool advance() {
        const void *key, *value;
        std::size_t key_length, value_length;
        if (!detail::found(strandline_iterator_next(raw_.get(), &key, &key_length, &value, &value_length)))
            return false;
        row_ = {{static_cast<const char *>(key), key_length}, {static_cast<const char *>(value), value_length}};
        return true;
    }

    detail::Handle<StrandlineIterator, strandline_iterator_end> raw_;
    Row row_;
};

// Copies parts of a value.
class Reader {
public:
    // Bytes of the whole value.
    std::size_t size() const noexcept { return size_; }

    // Copies `length` bytes from byte number `offset` on. Throws STRANDLINE_PARAMETER if the value ends before.
    void read_at(std::size_t offset, void *into, std::size_t length) {
        detail::check(strandline_reader_read(raw_.get(), offset, into, length));
    }

private:
    friend class Map;
    Reader(StrandlineReader *raw, std::size_t size) noexcept : raw_(raw), size_(size) {}

    detail::Handle<StrandlineReader, strandline_reader_end> raw_;
    std::size_t size_;
};

// An ordered map of byte strings.
class Map {
public:
    // Stores `value` under `key`.
    void put(Transaction &tx, Bytes key, Bytes value) const {
        detail::check(strandline_put(tx.get(), raw_.get(), key.data(), key.size(), value.data(), value.size()));
    }

    // Stores a value of `size` bytes, which `source(char *into, std::size_t length)` fills in piece by piece.
    template <class Source>
    void put_from(Transaction &tx, Bytes key, std::size_t size, Source &&source) const {
        detail::Callback<Source> callback{source};
        auto call = [](void *argument, void *into, std::size_t length) noexcept {
            return static_cast<detail::Callback<Source> *>(argument)->run([&](auto &fill) {
                fill(static_cast<char *>(into), length);
                return 0;
            });
        };
        detail::check(callback.finish(
            strandline_put_from(tx.get(), raw_.get(), key.data(), key.size(), size, call, &callback)));
    }

    // Copies the value of `key`, if the key is there.
    std::optional<std::string> get(const View &view, Bytes key) const {
        std::optional<Reader> found = reader(view, key);
        if (!found)
            return std::nullopt;
        std::string value(found->size(), '\0');
        found->read_at(0, value.data(), value.size());
        return value;
    }

    // Calls `sink(std::string_view piece)` with the value of `key`, piece by piece; returns whether the key is there. A piece is valid during the call,
    // and a value of up to 16,384 bytes is one. A sink that returns false is not called again. It cannot use the view meanwhile. See strandline_get_to.
    template <class Sink>
    bool get_to(const View &view, Bytes key, Sink &&sink) const {
        detail::Callback<Sink> callback{sink};
        auto call = [](void *argument, const void *piece, std::size_t length) noexcept {
            return static_cast<detail::Callback<Sink> *>(argument)->run([&](auto &take) {
                std::string_view bytes(static_cast<const char *>(piece), length);
                if constexpr (std::is_same_v<decltype(take(bytes)), bool>)
                    return take(bytes) ? 0 : int(detail::has_stopped);
                else
                    return take(bytes), 0;
            });
        };
        int code = callback.finish(
            strandline_get_to(view.get(), raw_.get(), key.data(), key.size(), call, &callback));
        return code == detail::has_stopped || detail::found(code);
    }

    // Begins to read parts of the value of `key`, if the key is there.
    std::optional<Reader> reader(const View &view, Bytes key) const {
        StrandlineReader *raw;
        std::size_t size;
        if (!detail::found(strandline_reader_begin(view.get(), raw_.get(), key.data(), key.size(), &raw, &size)))
            return std::nullopt;
        return Reader(raw, size);
    }

    // Removes `key`; returns whether it was there.
    bool remove(Transaction &tx, Bytes key) const {
        return detail::found(strandline_remove(tx.get(), raw_.get(), key.data(), key.size()));
    }

    // The number of keys, which does not take longer for more of them.
    std::uint64_t size(const View &view) const {
        std::uint64_t length;
        detail::check(strandline_map_length(view.get(), raw_.get(), &length));
        return length;
    }

    // The rows whose keys are `from` or greater, and less than `to`; without a bound where one is left out.
    Range range(const View &view, std::optional<Bytes> from = {}, std::optional<Bytes> to = {}) const {
        return iterate(view, from, to, false);
    }

    // As range, from the greatest key down.
    Range reverse_range(const View &view, std::optional<Bytes> from = {}, std::optional<Bytes> to = {}) const {
        return iterate(view, from, to, true);
    }

    // A copy of the first row of range(view, from, to), if there is one.
    std::optional<Pair> first(const View &view, std::optional<Bytes> from = {}, std::optional<Bytes> to = {}) const {
        return copy(range(view, from, to));
    }

    // A copy of the last row of range(view, from, to), if there is one.
    std::optional<Pair> last(const View &view, std::optional<Bytes> from = {}, std::optional<Bytes> to = {}) const {
        return copy(reverse_range(view, from, to));
    }

private:
    friend class Database;
    explicit Map(StrandlineMap *raw) noexcept : raw_(raw) {}

    static std::optional<Pair> copy(Range rows) {
        std::optional<Row> row = rows.next();
        return row ? std::optional(Pair{std::string(row->key), std::string(row->value)}) : std::nullopt;
    }

    Range iterate(const View &view, std::optional<Bytes> from, std::optional<Bytes> to, bool backwards) const {
        // NULL would be no bound: an empty one has an address.
        auto at = [](const std::optional<Bytes> &bound) -> const void * {
            return !bound ? nullptr : bound->size() == 0 ? "" : bound->data();
        };
        StrandlineIterator *raw;
        detail::check(strandline_iterate(view.get(), raw_.get(), at(from), from ? from->size() : 0, at(to),
                                         to ? to->size() : 0, backwards, &raw));
        return Range(raw);
    }

    detail::Handle<StrandlineMap, strandline_map_close> raw_;
};

// Pieces of memory by offset, which hold values of types that can be copied as bytes.
class Objects {
public:
    // The offset of the root, which is created or lengthened if it has less than `size` bytes; that throws STRANDLINE_READ_ONLY in a view.
    std::uint64_t root(const View &view, std::uint64_t size) const {
        std::uint64_t offset;
        detail::check(strandline_root(view.get(), raw_.get(), size, &offset));
        return offset;
    }

    // Creates an object of `size` zeros.
    std::uint64_t allocate(Transaction &tx, std::uint64_t size) const {
        std::uint64_t offset;
        detail::check(strandline_allocate(tx.get(), raw_.get(), size, &offset));
        return offset;
    }

    // Copies a value from `offset`.
    template <class T>
    T load(const View &view, std::uint64_t offset) const {
        static_assert(std::is_trivially_copyable_v<T>, "an object holds bytes");
        T value;
        detail::check(strandline_load(view.get(), raw_.get(), offset, &value, sizeof value));
        return value;
    }

    // Copies a value to `offset`, with the padding between its fields, whose bytes may be of any value: better use types that have none.
    template <class T>
    void store(Transaction &tx, std::uint64_t offset, const T &value) const {
        static_assert(std::is_trivially_copyable_v<T>, "an object holds bytes");
        detail::check(strandline_store(tx.get(), raw_.get(), offset, &value, sizeof value));
    }

    // Frees the object at `offset`.
    void release(Transaction &tx, std::uint64_t offset) const {
        detail::check(strandline_release(tx.get(), raw_.get(), offset));
    }

    // Bytes of the object that `offset` refers to.
    std::uint64_t size(const View &view, std::uint64_t offset) const {
        std::uint64_t size;
        detail::check(strandline_size(view.get(), raw_.get(), offset, &size));
        return size;
    }

    // The object after the one at `offset`, in no particular order; after 0 the first. None at the end.
    std::optional<std::uint64_t> next(const View &view, std::uint64_t offset) const {
        std::uint64_t next;
        bool is_there = detail::found(strandline_next(view.get(), raw_.get(), offset, &next));
        return is_there ? std::optional(next) : std::nullopt;
    }

    // For functions of strandline.h.
    StrandlineObjects *get() const noexcept { return raw_.get(); }

private:
    friend class Database;
    explicit Objects(StrandlineObjects *raw) noexcept : raw_(raw) {}

    detail::Handle<StrandlineObjects, strandline_objects_close> raw_;
};

// Tells when a transaction of write_later is durable.
class Ticket {
public:
    // Waits until the transaction is durable, and with it all that committed before it.
    void wait() const { detail::check(strandline_ticket_wait(raw_.get())); }

    bool is_durable() const {
        int is_durable;
        detail::check(strandline_ticket_is_durable(raw_.get(), &is_durable));
        return is_durable != 0;
    }

private:
    friend class Database;
    explicit Ticket(StrandlineTicket *raw) noexcept : raw_(raw) {}

    detail::Handle<StrandlineTicket, strandline_ticket_free> raw_;
};

namespace detail {

// An open database, which its Database and its Snapshots share.
struct Open {
    StrandlineDatabase *raw = nullptr;

    Open() = default;
    Open(const Open &) = delete;
    Open &operator=(const Open &) = delete;
    ~Open() { strandline_close(raw); }
};

} // namespace detail

// A database as it was at one moment, which every function that reads takes. It keeps its database open.
class Snapshot : public View {
private:
    friend class Database;
    Snapshot(std::shared_ptr<detail::Open> open, StrandlineSnapshot *raw) noexcept
        : View(strandline_snapshot_read(raw)), open_(std::move(open)), raw_(raw) {}

    std::shared_ptr<detail::Open> open_; // Destroyed after the snapshot has ended.
    detail::Handle<StrandlineSnapshot, strandline_snapshot_end> raw_;

public:
    Snapshot(Snapshot &&) noexcept = default;
    Snapshot &operator=(Snapshot &&other) noexcept {
        View::operator=(std::move(other));
        raw_ = std::move(other.raw_); // Ends the old snapshot before its database is let go.
        open_ = std::move(other.open_);
        return *this;
    }
};

// An open database.
class Database {
public:
    Database(Database &&) noexcept = default;
    Database &operator=(Database &&) noexcept = default;

    // Opens the database at `path`, in UTF-8, and creates it if there is none.
    static Database open(const std::string &path, const StrandlineOptions &options = Options()) {
        return Database(strandline_open, path, options);
    }

    // Opens a database that exists.
    static Database open_existing(const std::string &path, const StrandlineOptions &options = Options()) {
        return Database(strandline_open_existing, path, options);
    }

    // Creates a database in a new file.
    static Database create_new(const std::string &path, const StrandlineOptions &options = Options()) {
        return Database(strandline_create_new, path, options);
    }

    // Opens a database for reading only, beside other readers and no writer.
    static Database open_read_only(const std::string &path, const StrandlineOptions &options = Options()) {
        return Database(strandline_open_read_only, path, options);
    }

    // Makes everything durable and closes the database, which a destructor does as well, without reporting errors. Throws STRANDLINE_IN_USE while there are
    // snapshots; the database then stays open. No other thread may use it meanwhile; after it every other call throws STRANDLINE_CLOSED.
    void close() {
        int code = strandline_close(get());
        if (code != STRANDLINE_IN_USE && code != STRANDLINE_PARAMETER && open_)
            open_->raw = nullptr;
        detail::check(code);
    }

    // Runs `body(Transaction &)` as one transaction, which is durable on return. Returns what the body returned in its last run.
    template <class Body>
    auto write(Body &&body) const {
        return run<Transaction>(body, [&](StrandlineBody call, void *argument) {
            return strandline_write(opened(), call, argument);
        });
    }

    // Runs `body(View &)`, which only reads: it sees one state of the database, whatever others write meanwhile.
    template <class Body>
    auto read(Body &&body) const {
        return run<View>(body, [&](StrandlineBody call, void *argument) {
            return strandline_read(opened(), call, argument);
        });
    }

    // Runs `body` as write does, but does not wait until the transaction is durable. Returns a ticket to wait with, after what the body returned, in
    // a pair, if it returned something.
    template <class Body>
    auto write_later(Body &&body) const {
        StrandlineTicket *ticket = nullptr;
        auto write = [&](StrandlineBody call, void *argument) {
            return strandline_write_later(opened(), call, argument, &ticket);
        };
        if constexpr (std::is_void_v<decltype(body(std::declval<Transaction &>()))>) {
            run<Transaction>(body, write);
            return Ticket(ticket);
        } else {
            auto result = run<Transaction>(body, write);
            return std::pair(std::move(result), Ticket(ticket));
        }
    }

    // The database as it is now, for reads that take long. Writers do not wait for it.
    Snapshot snapshot() const {
        StrandlineSnapshot *raw;
        detail::check(strandline_snapshot_begin(opened(), &raw));
        return Snapshot(open_, raw);
    }

    // Opens the map `name`, and creates it if there is none.
    Map map(const std::string &name) const {
        StrandlineMap *raw;
        detail::check(strandline_map_open(opened(), detail::text(name), &raw));
        return Map(raw);
    }

    // Opens the objects `name`, and creates the name if there is none.
    Objects objects(const std::string &name) const {
        StrandlineObjects *raw;
        detail::check(strandline_objects_open(opened(), detail::text(name), &raw));
        return Objects(raw);
    }

    // Deletes the map or objects `name`; returns whether they were there.
    bool remove(const std::string &name) const {
        return detail::found(strandline_delete(opened(), detail::text(name)));
    }

    // Copies the database, as it is at one moment, to a new file.
    void backup(const std::string &path) const { detail::check(strandline_backup(opened(), detail::text(path))); }

    // Puts a copy of the database at `backup` in the place of the database at `path`, or creates it; neither may be open. OldFiles::keep leaves the
    // old database at `path` with ".replaced" behind it. See strandline_restore.
    static void restore(const std::string &backup, const std::string &path, OldFiles old_files) {
        bool keep = old_files == OldFiles::keep;
        detail::check(strandline_restore(detail::text(backup), detail::text(path), keep));
    }

    // Reports how full the database is.
    Usage usage() const {
        Usage usage;
        detail::check(strandline_usage(opened(), &usage));
        return usage;
    }

    // The names of the maps, of the objects and of the tables of other languages, in order.
    std::vector<std::string> names() const {
        char **names = nullptr;
        detail::check(strandline_list(opened(), &names));
        detail::Handle<char *, strandline_free> array(names);
        std::vector<std::string> all;
        for (; *names != nullptr; names++)
            all.emplace_back(*names);
        return all;
    }

    // Has the program answer requests of `strandline pool` about the database until it is closed.
    void serve_control() const { detail::check(strandline_serve_control(opened())); }

    // Checks everything that is stored; returns the findings, one on each line, and an empty string if there are none.
    std::string check() const {
        char *damage = nullptr;
        int code = strandline_check(opened(), &damage);
        detail::Handle<char, strandline_free> findings(damage);
        if (findings)
            return findings.get();
        detail::check(code);
        return {};
    }

    // Writes all changes from the log to the main file now.
    void checkpoint() const { detail::check(strandline_checkpoint(opened())); }

    // For functions of strandline.h; null after close and after a move.
    StrandlineDatabase *get() const noexcept { return open_ ? open_->raw : nullptr; }

private:
    StrandlineDatabase *opened() const {
        if (get() == nullptr)
            throw Error(STRANDLINE_CLOSED, strandline_error_text(STRANDLINE_CLOSED));
        return get();
    }

    template <class Opener>
    Database(Opener opener, const std::string &path, const StrandlineOptions &options)
        : open_(std::make_shared<detail::Open>()) {
        detail::check(opener(detail::text(path), &options, &open_->raw));
    }

    template <class Context, class Body, class Start>
    static auto run(Body &body, Start start) {
        using Result = decltype(body(std::declval<Context &>()));
        static_assert(!std::is_reference_v<Result>, "the body of a transaction returns a value");
        // What the last run has returned.
        using Kept = std::conditional_t<std::is_void_v<Result>, bool, Result>;
        struct Run {
            detail::Callback<Body> callback;
            std::optional<Kept> result;
        } running{{body}, {}};
        int code = start([](StrandlineTransaction *raw, void *argument) noexcept {
            Run &self = *static_cast<Run *>(argument);
            return self.callback.run([&](Body &call) {
                Context context(raw);
                self.result.reset();
                if constexpr (std::is_void_v<Result>)
                    call(context);
                else
                    self.result.emplace(call(context));
                return 0;
            });
        }, &running);
        detail::check(running.callback.finish(code));
        if constexpr (!std::is_void_v<Result>)
            return std::move(*running.result);
    }

    std::shared_ptr<detail::Open> open_;
};

} // namespace strandline

#endif // STRANDLINE_HPP
