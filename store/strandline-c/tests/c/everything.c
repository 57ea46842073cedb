/* All of strandline.h, as C and as C++: `everything once FILE` calls each function and looks at what it does; `everything work FILE`
 * commits until it is killed and says what it has committed; `everything verify FILE` looks whether all of that is there; `everything
 * closed FILE` closes the standard descriptors, commits and writes messages to them. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "strandline.h"

static StrandlineDatabase *db;
static StrandlineMap *rows;
static StrandlineObjects *nodes;

struct list { uint64_t head, count, last; };
struct node { uint64_t next, number; };

static void expect_at(int line, int found, int expected) {
    if (found != expected) {
        fprintf(stderr, "line %d: %d, not %d: %s\n", line, found, expected, strandline_message());
        exit(1);
    }
}
#define EXPECT(found, expected) expect_at(__LINE__, (int)(found), (int)(expected))
#define TRY(call)               do { int code_ = (call); if (code_ != 0) return code_; } while (0)

static void open_all(const char *path, int read_only) {
    StrandlineOptions options;
    memset(&options, 0, sizeof options);
    options.domain = STRANDLINE_SYNC;
    options.size = 64 << 20;
    options.flush_interval_us = 1000;
    EXPECT(read_only ? strandline_open_read_only(path, &options, &db) : strandline_open(path, &options, &db), 0);
    EXPECT(strandline_map_open(db, "rows", &rows), 0);
    EXPECT(strandline_objects_open(db, "nodes", &nodes), 0);
}

static void close_all(void) {
    strandline_map_close(rows);
    strandline_objects_close(nodes);
    EXPECT(strandline_close(db), 0);
}

/* The transaction `n`: five rows have the value `n`, and the list of objects has one more, or, now and then, none. */
static int step(StrandlineTransaction *tx, void *argument) {
    uint64_t n = *(uint64_t *)argument, root, fresh;
    uint64_t value[40];
    for (size_t i = 0; i < 40; i++)
        value[i] = n;
    for (char key = 'a'; key <= 'e'; key++)
        TRY(strandline_put(tx, rows, &key, 1, value, 8 * (size_t)(1 + n % 40)));
    struct list list;
    struct node node;
    TRY(strandline_root(tx, nodes, sizeof list, &root));
    TRY(strandline_load(tx, nodes, root, &list, sizeof list));
    if (list.count == 20) {
        for (uint64_t at = list.head; at != 0; at = node.next) {
            TRY(strandline_load(tx, nodes, at, &node, sizeof node));
            TRY(strandline_release(tx, nodes, at));
        }
        list.head = list.count = 0;
    }
    EXPECT(strandline_allocate(tx, nodes, 8, NULL), STRANDLINE_PARAMETER); /* Makes none. */
    TRY(strandline_allocate(tx, nodes, 1 + n % 3000 + sizeof node, &fresh));
    node.next = list.head;
    node.number = n;
    TRY(strandline_store(tx, nodes, fresh, &node, sizeof node));
    list.head = fresh;
    list.count++;
    list.last = n;
    return strandline_store(tx, nodes, root, &list, sizeof list);
}

static int verify(StrandlineTransaction *tx, void *argument) {
    uint64_t found = UINT64_MAX, row, at, count = 0, objects = 0, size;
    struct list list;
    struct node node;
    StrandlineIterator *it;
    const void *key, *value;
    size_t key_length, value_length, keys = 0;
    TRY(strandline_iterate(tx, rows, NULL, 0, NULL, 0, 0, &it));
    EXPECT(strandline_iterator_next(it, &key, &key_length, &value, NULL), STRANDLINE_PARAMETER);
    while (strandline_iterator_next(it, &key, &key_length, &value, &value_length) == 0) {
        memcpy(&row, value, sizeof row);
        if (keys++ != 0)
            EXPECT(row, found);
        EXPECT(value_length, 8 * (1 + row % 40));
        found = row;
    }
    strandline_iterator_end(it);
    int code = strandline_root(tx, nodes, sizeof list, &at);
    if (code == STRANDLINE_READ_ONLY && keys == 0)
        return 0; /* Killed before its first commit. */
    TRY(code);
    EXPECT(keys, 5);
    TRY(strandline_load(tx, nodes, at, &list, sizeof list));
    EXPECT(list.last, found);
    for (at = list.head; at != 0; at = node.next) {
        TRY(strandline_load(tx, nodes, at, &node, sizeof node));
        TRY(strandline_size(tx, nodes, at, &size));
        EXPECT(node.number, list.last - count++);
        EXPECT(size, 1 + node.number % 3000 + sizeof node);
    }
    EXPECT(count, list.count);
    for (at = 0; (code = strandline_next(tx, nodes, at, &at)) == 0; objects++)
        ;
    EXPECT(code, STRANDLINE_NOT_FOUND);
    EXPECT(objects, count + 1); /* Nothing is lost. */
    *(uint64_t *)argument = list.last;
    return 0;
}

static int give_up(StrandlineTransaction *tx, void *argument) {
    TRY(strandline_put(tx, rows, "a", 1, "gone", 4));
    return *(int *)argument;
}

static int errors(StrandlineTransaction *tx, void *argument) {
    uint64_t root, number = 7, before, keys;
    void *value;
    size_t length;
    (void)argument;
    EXPECT(strandline_get(tx, rows, "x", 1, &value, &length), STRANDLINE_NOT_FOUND);
    EXPECT(value == NULL && length == 0, 1);
    EXPECT(strandline_remove(tx, rows, "x", 1), STRANDLINE_NOT_FOUND);
    EXPECT(strlen(strandline_message()) > 0, 1);
    EXPECT(strandline_map_length(tx, rows, &before), 0);
    EXPECT(strandline_put(tx, rows, "x", 1, NULL, 0), 0);
    EXPECT(strandline_map_length(tx, rows, &keys), 0);
    EXPECT(keys, before + 1);
    EXPECT(strandline_map_length(tx, NULL, &keys), STRANDLINE_PARAMETER);
    EXPECT(keys, 0);
    EXPECT(strandline_map_length(tx, rows, &keys), 0);
    EXPECT(strlen(strandline_message()), 0); /* Success takes the message away. */
    EXPECT(strandline_get(tx, rows, "x", 1, &value, &length), 0);
    EXPECT(value != NULL && length == 0, 1);
    strandline_free(value);
    EXPECT(strandline_remove(tx, rows, "x", 1), 0);
    EXPECT(strandline_root(tx, nodes, sizeof(struct list), &root), 0);
    EXPECT(strandline_load(tx, nodes, root + sizeof(struct list) - 4, &number, 8), STRANDLINE_INVALID_ADDRESS);
    EXPECT(strandline_store(tx, nodes, 12345, &number, 8), STRANDLINE_INVALID_ADDRESS);
    EXPECT(strandline_release(tx, nodes, root + 8), STRANDLINE_INVALID_FREE);
    EXPECT(strandline_put(tx, NULL, "x", 1, "x", 1), STRANDLINE_PARAMETER);
    EXPECT(strandline_write(db, give_up, &number), STRANDLINE_NESTED);
    return strandline_release(tx, nodes, 12345); /* Its code is handed on. */
}

/* Inside a transaction of so many rows each function returns: what would have to wait is STRANDLINE_NESTED. */
static StrandlineTicket *earlier;
static const char *copied;

static int nested(StrandlineTransaction *tx, void *argument) {
    uint64_t count = *(uint64_t *)argument, i;
    static uint64_t value[250];
    int number = 7, is_durable;
    char *damage;
    StrandlineSnapshot *snapshot;
    StrandlineMap *map;
    StrandlineObjects *objects;
    for (i = 0; i < count; i++)
        TRY(strandline_put(tx, rows, &i, sizeof i, value, sizeof value));
    EXPECT(strandline_write(db, give_up, &number), STRANDLINE_NESTED);
    EXPECT(strandline_write_later(db, give_up, &number, NULL), STRANDLINE_NESTED);
    EXPECT(strandline_read(db, give_up, &number), STRANDLINE_NESTED);
    EXPECT(strandline_snapshot_begin(db, &snapshot), STRANDLINE_NESTED);
    EXPECT(strandline_ticket_wait(earlier), STRANDLINE_NESTED);
    EXPECT(strandline_ticket_is_durable(earlier, &is_durable), 0);
    EXPECT(strandline_map_open(db, "another", &map), STRANDLINE_NESTED);
    EXPECT(strandline_objects_open(db, "another", &objects), STRANDLINE_NESTED);
    EXPECT(strandline_delete(db, "rows"), STRANDLINE_NESTED);
    EXPECT(strandline_backup(db, copied), STRANDLINE_NESTED);
    EXPECT(strandline_check(db, &damage), STRANDLINE_NESTED);
    EXPECT(strandline_checkpoint(db), STRANDLINE_NESTED);
    EXPECT(strandline_serve_control(db), STRANDLINE_NESTED);
    EXPECT(strandline_close(db), STRANDLINE_PARAMETER);
    for (i = 0; i < count; i++)
        TRY(strandline_remove(tx, rows, &i, sizeof i));
    return 0;
}

/* Rows of 0 bytes to 4 MB, in any order, of which the one with the key `k` has `sizes[k]` bytes, all of them `k + 1`. */
static StrandlineMap *large;
static const size_t sizes[] = {0, 1, 7, 8, 9, 64, 524279, 524280, 524287, 524288, 524289, 3, 4 << 20, 0, 600000, 5};
enum { SIZES = sizeof sizes / sizeof *sizes };

static int fill(StrandlineTransaction *tx, void *argument) {
    (void)argument;
    for (size_t i = 0; i < SIZES; i++) {
        unsigned char key = (unsigned char)(i * 5 % SIZES);
        void *value = malloc(sizes[key] + 1);
        memset(value, key + 1, sizes[key] + 1);
        int code = strandline_put(tx, large, &key, 1, value, sizes[key]);
        free(value);
        TRY(code);
    }
    return 0;
}

/* From either end, without bounds and between two. */
static int walk(StrandlineTransaction *tx, void *argument) {
    StrandlineIterator *it;
    const void *key, *value;
    size_t key_length, value_length;
    (void)argument;
    for (int way = 0; way < 4; way++) {
        unsigned char from = way < 2 ? 0 : 3, to = way < 2 ? SIZES : SIZES - 4;
        int backwards = way % 2;
        TRY(strandline_iterate(tx, large, from ? &from : NULL, from != 0, to < SIZES ? &to : NULL, to < SIZES, backwards, &it));
        for (int number = 0; number < to - from; number++) {
            unsigned char expected = (unsigned char)(backwards ? to - 1 - number : from + number);
            EXPECT(strandline_iterator_next(it, &key, &key_length, &value, &value_length), 0);
            EXPECT(key_length, 1);
            EXPECT(*(const unsigned char *)key, expected);
            EXPECT(value_length, sizes[expected]);
            for (size_t byte = 0; byte < value_length; byte += byte < 64 || byte + 64 > value_length ? 1 : 61)
                if (((const unsigned char *)value)[byte] != expected + 1)
                    EXPECT(byte, -1);
        }
        EXPECT(strandline_iterator_next(it, &key, &key_length, &value, &value_length), STRANDLINE_NOT_FOUND);
        EXPECT(strandline_iterator_next(it, &key, &key_length, &value, &value_length), STRANDLINE_NOT_FOUND);
        strandline_iterator_end(it);
    }
    return 0;
}

static void walks(void) {
    StrandlineSnapshot *snapshot;
    EXPECT(strandline_map_open(db, "large", &large), 0);
    EXPECT(strandline_write(db, fill, NULL), 0);
    EXPECT(strandline_read(db, walk, NULL), 0);
    EXPECT(strandline_snapshot_begin(db, &snapshot), 0);
    EXPECT(strandline_delete(db, "large"), 0);
    EXPECT(walk(strandline_snapshot_read(snapshot), NULL), 0);
    EXPECT(strandline_snapshot_end(snapshot), 0);
    strandline_map_close(large);
}

/* A value that is given and read in pieces: byte number n is n / 7. */
struct given {
    size_t bytes, fails_at;
    int code;
};

static int give(void *argument, void *into, size_t length) {
    struct given *given = (struct given *)argument;
    for (size_t i = 0; i < length; i++)
        ((unsigned char *)into)[i] = (unsigned char)((given->bytes + i) / 7);
    given->bytes += length;
    return given->bytes > given->fails_at ? given->code : 0;
}

/* Takes the pieces of such a value. */
static int take(void *argument, const void *piece, size_t length) {
    size_t *taken = (size_t *)argument;
    for (size_t i = 0; i < length; i++)
        EXPECT(((const unsigned char *)piece)[i], (unsigned char)((*taken + i) / 7));
    *taken += length;
    return 0;
}

static StrandlineReader *late;
static const size_t film = 700003;

static int store_film(StrandlineTransaction *tx, void *argument) {
    struct given again = *(struct given *)argument;
    int code = strandline_put_from(tx, rows, "film", 4, film, give, &again);
    if (code == 0)
        EXPECT(again.bytes, film);
    return code;
}

static int read_film(StrandlineTransaction *tx, void *argument) {
    static unsigned char piece[100001];
    StrandlineReader *reader;
    void *whole;
    size_t length, taken = 0;
    (void)argument;
    TRY(strandline_get_to(tx, rows, "film", 4, take, &taken));
    EXPECT(taken, film);
    TRY(strandline_reader_begin(tx, rows, "film", 4, &reader, &length));
    EXPECT(length, film);
    for (size_t at = 0; at < film; at += sizeof piece) {
        size_t bytes = at + sizeof piece < film ? sizeof piece : film - at;
        TRY(strandline_reader_read(reader, at, piece, bytes));
        for (size_t i = 0; i < bytes; i++)
            EXPECT(piece[i], (unsigned char)((at + i) / 7));
    }
    TRY(strandline_reader_read(reader, 13, piece, 1));
    EXPECT(piece[0], 1);
    TRY(strandline_reader_read(reader, film, NULL, 0));
    EXPECT(strandline_reader_read(reader, film, piece, 1), STRANDLINE_PARAMETER);
    EXPECT(strandline_reader_read(reader, SIZE_MAX, piece, 2), STRANDLINE_PARAMETER);
    EXPECT(strandline_reader_read(reader, 0, NULL, 1), STRANDLINE_PARAMETER);
    EXPECT(strandline_reader_read(NULL, 0, piece, 1), STRANDLINE_PARAMETER);
    strandline_reader_end(reader);
    strandline_reader_end(NULL);
    TRY(strandline_get(tx, rows, "film", 4, &whole, &length));
    EXPECT(length, film);
    EXPECT(((unsigned char *)whole)[film - 1], (unsigned char)((film - 1) / 7));
    strandline_free(whole);
    EXPECT(strandline_reader_begin(tx, rows, "none", 4, &reader, &length), STRANDLINE_NOT_FOUND);
    EXPECT(reader == NULL && length == 0, 1);
    EXPECT(strandline_reader_begin(tx, rows, "film", 4, &reader, NULL), STRANDLINE_PARAMETER);
    return strandline_reader_begin(tx, rows, "film", 4, &late, &length);
}

static int refuse_film(StrandlineTransaction *tx, void *argument) {
    struct given none = {0, SIZE_MAX, 0};
    (void)argument;
    EXPECT(strandline_put_from(tx, rows, "film", 4, film, NULL, &none), STRANDLINE_PARAMETER);
    EXPECT(strandline_put_from(tx, rows, "film", 4, SIZE_MAX, give, &none), STRANDLINE_PARAMETER);
    EXPECT(strandline_put_from(tx, NULL, "film", 4, film, give, &none), STRANDLINE_PARAMETER);
    EXPECT(none.bytes, 0);
    EXPECT(strandline_put_from(tx, rows, "empty", 5, 0, give, &none), 0);
    EXPECT(strandline_remove(tx, rows, "empty", 5), 0);
    return strandline_remove(tx, rows, "film", 4);
}

static void streams(void) {
    struct given given = {0, SIZE_MAX, 0}, fails = {0, 400000, 42};
    char byte;
    EXPECT(strandline_write(db, store_film, &fails), 42);
    fails.code = -42;
    EXPECT(strandline_write(db, store_film, &fails), -42);
    EXPECT(strandline_read(db, read_film, NULL), STRANDLINE_NOT_FOUND);
    EXPECT(strandline_write(db, store_film, &given), 0);
    EXPECT(strandline_write(db, store_film, &fails), -42);
    EXPECT(strandline_read(db, read_film, NULL), 0);
    EXPECT(strandline_reader_read(late, 0, &byte, 1), STRANDLINE_PARAMETER);
    strandline_reader_end(late);
    EXPECT(strandline_read(db, store_film, &given), STRANDLINE_READ_ONLY);
    EXPECT(strandline_write(db, refuse_film, NULL), 0);
}

/* Lengths that nothing has are errors, and nothing there is read or written. */
static int lengths(StrandlineTransaction *tx, void *argument) {
    static const size_t wrong[] = {SIZE_MAX, SIZE_MAX / 2, SIZE_MAX / 2 + 1, (size_t)1 << 33};
    uint64_t root, size;
    void *value;
    size_t length;
    StrandlineIterator *it;
    (void)argument;
    EXPECT(strandline_root(tx, nodes, sizeof(struct list), &root), 0);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        size_t n = wrong[i];
        for (int is_null = 0; is_null < 2; is_null++) {
            const char *at = is_null ? NULL : "x";
            char into = 'x';
            EXPECT(strandline_put(tx, rows, at, n, "x", 1), STRANDLINE_PARAMETER);
            EXPECT(strandline_put(tx, rows, "x", 1, at, n), STRANDLINE_PARAMETER);
            EXPECT(strandline_get(tx, rows, at, n, &value, &length), STRANDLINE_PARAMETER);
            EXPECT(strandline_remove(tx, rows, at, n), STRANDLINE_PARAMETER);
            EXPECT(strandline_iterate(tx, rows, at, n, NULL, 0, 0, &it), STRANDLINE_PARAMETER);
            EXPECT(strandline_iterate(tx, rows, NULL, 0, at, n, 0, &it), STRANDLINE_PARAMETER);
            EXPECT(strandline_store(tx, nodes, root, at, n), STRANDLINE_PARAMETER);
            EXPECT(strandline_load(tx, nodes, root, is_null ? NULL : &into, n), STRANDLINE_INVALID_ADDRESS);
            EXPECT(into, 'x');
        }
        EXPECT(strandline_root(tx, nodes, n, &size), STRANDLINE_PARAMETER);
        EXPECT(strandline_allocate(tx, nodes, n, &size), STRANDLINE_PARAMETER);
    }
    EXPECT(strandline_put(tx, rows, "x", 4097, "x", 1), STRANDLINE_PARAMETER);
    EXPECT(strandline_put(tx, rows, "x", 1, NULL, 1), STRANDLINE_PARAMETER);
    EXPECT(strandline_iterate(tx, rows, NULL, 1, NULL, 0, 0, &it), STRANDLINE_PARAMETER);
    EXPECT(strandline_load(tx, nodes, root, NULL, 8), STRANDLINE_PARAMETER);
    /* NULL and 0 are an empty string. */
    EXPECT(strandline_put(tx, rows, NULL, 0, NULL, 0), 0);
    EXPECT(strandline_get(tx, rows, NULL, 0, &value, &length), 0);
    EXPECT(value != NULL && length == 0, 1);
    strandline_free(value);
    EXPECT(strandline_remove(tx, rows, NULL, 0), 0);
    EXPECT(strandline_load(tx, nodes, root, NULL, 0), 0);
    EXPECT(strandline_store(tx, nodes, root, NULL, 0), 0);
    return 42;
}

/* The message is at one place, whatever calls follow, and is cut where it is too long for that. */
static void messages(void) {
    static char name[10000];
    const char *message = strandline_message();
    StrandlineMap *map;
    memset(name, 'n', sizeof name - 1);
    for (size_t i = 0; i + 2 < sizeof name; i += 2)
        memcpy(name + i, "\xc3\xa9", 2);
    name[sizeof name - 1] = 0;
    EXPECT(strandline_map_open(db, name, &map), STRANDLINE_PARAMETER);
    EXPECT(strlen(message) > 0, 1);
    EXPECT(strandline_open(name, NULL, NULL), STRANDLINE_PARAMETER);
    StrandlineDatabase *other;
    EXPECT(strandline_open(name, NULL, &other), STRANDLINE_IO);
    EXPECT(strlen(message) > 4000 && strlen(message) < 4096, 1);
    EXPECT(strandline_open("/no/such/folder/file", NULL, &other), STRANDLINE_IO);
    EXPECT(message == strandline_message(), 1);
    EXPECT(strstr(message, "/no/such/folder") != NULL, 1);
    EXPECT(strcmp(strandline_error_text(STRANDLINE_OK), "success"), 0);
}

/* How a database may be opened: each wrong option is an error that names it. */
static void options(const char *path) {
    StrandlineDatabase *other;
    StrandlineOptions options;
    memset(&options, 0, sizeof options);
    options.address_space = 4095;
    EXPECT(strandline_open(path, &options, &other), STRANDLINE_PARAMETER);
    EXPECT(strstr(strandline_message(), "address_space") != NULL, 1);
    options.address_space = 64 << 20;
    options.memory_bytes = 16 << 20;
    EXPECT(strandline_open(path, &options, &other), 0);
    EXPECT(strandline_close(other), 0);
    options.read_only = 1;
    EXPECT(strandline_open(path, &options, &other), 0);
    EXPECT(strandline_map_open(other, "none", &rows), STRANDLINE_NO_TABLE);
    EXPECT(strandline_close(other), 0);
    options.read_only = 0;
    options.layout_name = "another program";
    EXPECT(strandline_open(path, &options, &other), STRANDLINE_WRONG_LAYOUT);
    options.layout_name = "a name that has more than thirty-two bytes";
    EXPECT(strandline_open(path, &options, &other), STRANDLINE_WRONG_LAYOUT);
    options.layout_name = NULL;
    options.reserved_flag = 1;
    EXPECT(strandline_open(path, &options, &other), STRANDLINE_PARAMETER);
}

/* What an operator asks for: how full a database is, its tables, and a backup in its place. */
static void upkeep(const char *path, const char *backup) {
    StrandlineDatabase *other;
    StrandlineMap *map;
    StrandlineUsage usage;
    char **names, replaced[4200];
    EXPECT(strandline_restore(backup, path, 0), 0);
    EXPECT(strandline_open(path, NULL, &other), 0);
    EXPECT(strandline_restore(backup, path, 0), STRANDLINE_LOCKED);
    EXPECT(strandline_restore(path, backup, 0), STRANDLINE_LOCKED);
    EXPECT(strandline_usage(other, &usage), 0);
    EXPECT(usage.allocated_bytes > 0 && usage.allocated_bytes <= usage.total_bytes, 1);
    EXPECT(usage.disk_bytes > 0 && usage.log_disk_bytes > 0, 1);
    EXPECT(usage.snapshots == 0 && usage.replayed == 0, 1);
    EXPECT(strandline_usage(other, NULL), STRANDLINE_PARAMETER);
    EXPECT(strandline_map_open(other, "zebra", &map), 0);
    strandline_map_close(map);
    EXPECT(strandline_list(other, &names), 0);
    EXPECT(names[0] != NULL && names[1] != NULL, 1);
    int last = 0;
    while (names[last + 1] != NULL)
        last++;
    EXPECT(strcmp(names[last], "zebra"), 0);
    strandline_free(names);
    EXPECT(strandline_list(other, NULL), STRANDLINE_PARAMETER);
    EXPECT(strandline_close(other), 0);
    EXPECT(strandline_restore(backup, path, 1), 0);
    EXPECT(strandline_restore(backup, path, 1), STRANDLINE_PARAMETER); /* The old one would be replaced. */
    snprintf(replaced, sizeof replaced, "%s.replaced", path);
    EXPECT(strandline_open_existing(replaced, NULL, &other), 0);
    EXPECT(strandline_close(other), 0);
    EXPECT(strandline_restore(replaced, replaced, 0), STRANDLINE_PARAMETER);
    EXPECT(strandline_restore("/no/such/file", path, 0), STRANDLINE_IO);
}

static int closed(const char *path) {
    static char message[1 << 16]; /* More than a header, and than a file's first pages. */
    uint64_t n;
    int sent = 0;
    char *damage;
    memset(message, 'm', sizeof message);
    for (int descriptor = 0; descriptor < 3; descriptor++)
        close(descriptor);
    for (n = 1; n <= 2; n++) {
        open_all(path, 0);
        for (int descriptor = 0; descriptor < 3; descriptor++)
            sent += write(descriptor, message, sizeof message) > 0;
        EXPECT(strandline_write(db, step, &n), 0);
        EXPECT(strandline_check(db, &damage), 0);
        close_all();
    }
    return sent <= 6 ? 0 : 3; /* Whether it went anywhere does not matter. */
}

static int read_only(StrandlineTransaction *tx, void *argument) {
    (void)argument;
    return strandline_put(tx, rows, "a", 1, "gone", 4);
}

static void once(const char *path) {
    char copy[4096], *damage;
    uint64_t found = 0, n = 1;
    int own = 42, is_durable = 0;
    StrandlineTicket *ticket;
    StrandlineSnapshot *snapshot;
    StrandlineDatabase *other;
    StrandlineMap *map;
    EXPECT(strandline_open("/no/such/folder/file", NULL, &other), STRANDLINE_IO);
    EXPECT(strstr(strandline_message(), "/no/such/folder") != NULL, 1);
    EXPECT(strandline_open_existing(path, NULL, &other), STRANDLINE_IO); /* And creates nothing. */
    EXPECT(strandline_open_read_only(path, NULL, &other), STRANDLINE_IO);
    StrandlineOptions fresh;
    memset(&fresh, 0, sizeof fresh);
    fresh.size = 64 << 20;
    fresh.read_only = 1;
    EXPECT(strandline_create_new(path, &fresh, &other), STRANDLINE_PARAMETER);
    fresh.read_only = 0;
    EXPECT(strandline_create_new(path, &fresh, &other), 0);
    EXPECT(strandline_close(other), 0);
    EXPECT(strandline_create_new(path, NULL, &other), STRANDLINE_IO);
    EXPECT(strandline_open_existing(path, NULL, &other), 0);
    EXPECT(strandline_close(other), 0);
    open_all(path, 0);
    walks();
    streams();
    messages();
    EXPECT(strandline_write(db, lengths, NULL), 42);
    EXPECT(strandline_open(path, NULL, &other), STRANDLINE_LOCKED);
    EXPECT(strandline_write(db, step, &n), 0);
    EXPECT(strandline_snapshot_begin(db, &snapshot), 0);
    for (n = 2; n <= 50; n++)
        EXPECT(strandline_write_later(db, step, &n, n < 50 ? NULL : &ticket), 0);
    EXPECT(strandline_ticket_wait(ticket), 0);
    EXPECT(strandline_ticket_is_durable(ticket, &is_durable), 0);
    EXPECT(is_durable, 1);
    snprintf(copy, sizeof copy, "%s.copy", path);
    earlier = ticket;
    copied = copy;
    for (n = 1; n <= 2000; n *= 2000) /* The second is larger than a log. */
        EXPECT(strandline_write(db, nested, &n), 0);
    strandline_ticket_free(ticket);
    EXPECT(strandline_write(db, give_up, &own), 42);
    EXPECT(strandline_write(db, errors, NULL), STRANDLINE_INVALID_FREE);
    EXPECT(strstr(strandline_message(), "freed") != NULL, 1);
    EXPECT(strandline_read(db, read_only, NULL), STRANDLINE_READ_ONLY);
    EXPECT(strandline_read(db, verify, &found), 0);
    EXPECT(found, 50);
    EXPECT(strandline_close(db), STRANDLINE_IN_USE); /* A snapshot is left. */
    EXPECT(verify(strandline_snapshot_read(snapshot), &found), 0);
    EXPECT(found, 1);
    EXPECT(strandline_snapshot_end(snapshot), 0);
    EXPECT(strandline_check(db, &damage), 0);
    EXPECT(damage == NULL, 1);
    EXPECT(strandline_checkpoint(db), 0);
    EXPECT(strandline_serve_control(db), 0);
    EXPECT(strandline_backup(db, copy), 0);
    EXPECT(strandline_map_open(db, "nodes", &map), STRANDLINE_TABLE_TYPES);
    EXPECT(strandline_delete(db, "rows"), 0);
    EXPECT(strandline_delete(db, "rows"), STRANDLINE_NOT_FOUND);
    EXPECT(strandline_read(db, verify, &found), STRANDLINE_NO_TABLE);
    close_all();
    open_all(copy, 1);
    EXPECT(strandline_read(db, verify, &found), 0);
    EXPECT(found, 50);
    EXPECT(strandline_write(db, step, &n), STRANDLINE_READ_ONLY);
    close_all();
    char restored[4096];
    snprintf(restored, sizeof restored, "%s.restored", path);
    upkeep(restored, copy);
    snprintf(copy, sizeof copy, "%s.options", path);
    options(copy);
    puts("all is well");
}

int main(int argc, char **argv) {
    uint64_t n = 0;
    if (argc != 3)
        return 2;
    if (strcmp(argv[1], "once") == 0) {
        once(argv[2]);
        return 0;
    }
    if (strcmp(argv[1], "closed") == 0)
        return closed(argv[2]);
    open_all(argv[2], 0);
    if (strcmp(argv[1], "work") == 0) {
        EXPECT(strandline_read(db, verify, &n), 0);
        for (n++;; n++) {
            StrandlineTicket *ticket;
            if (n % 2 == 0) {
                EXPECT(strandline_write(db, step, &n), 0);
            } else {
                EXPECT(strandline_write_later(db, step, &n, &ticket), 0);
                EXPECT(strandline_ticket_wait(ticket), 0);
                strandline_ticket_free(ticket);
            }
            printf("committed %" PRIu64 "\n", n);
            fflush(stdout);
        }
    }
    EXPECT(strandline_read(db, verify, &n), 0);
    char *damage;
    EXPECT(strandline_check(db, &damage), 0);
    printf("found %" PRIu64 "\n", n);
    close_all();
    return 0;
}
