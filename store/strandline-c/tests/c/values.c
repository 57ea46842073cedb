/* Values that are lent, and the longest keys and values: `values once FILE` tries them, `values largest FILE` stores and reads a value of 4 GB. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "strandline.h"

static StrandlineDatabase *db;
static StrandlineMap *map;

static void expect_at(int line, long long found, long long expected) {
    if (found != expected) {
        fprintf(stderr, "line %d: %lld, not %lld: %s\n", line, found, expected, strandline_message());
        exit(1);
    }
}
#define EXPECT(found, expected) expect_at(__LINE__, (long long)(found), (long long)(expected))
#define TRY(call)               do { int code_ = (call); if (code_ != 0) return code_; } while (0)

static void open_all(const char *path) {
    StrandlineOptions options;
    memset(&options, 0, sizeof options);
    EXPECT(strandline_open(path, &options, &db), 0);
    EXPECT(strandline_map_open(db, "values", &map), 0);
}

static void close_all(void) {
    strandline_map_close(map);
    EXPECT(strandline_close(db), 0);
}

/* A value whose byte number n is `first` plus n / 7. */
struct value {
    unsigned char first;
    size_t bytes;
    size_t seen, pieces; /* What a sink has been given. */
    int stops, code;     /* In which piece it stops, from 1 on, and with which code. */
};

static unsigned char byte_of(const struct value *value, size_t n) {
    return (unsigned char)(value->first + n / 7);
}

static int fill(void *argument, void *into, size_t length) {
    struct value *value = (struct value *)argument;
    for (size_t i = 0; i < length; i++)
        ((unsigned char *)into)[i] = byte_of(value, value->seen + i);
    value->seen += length;
    return 0;
}

static int store(StrandlineTransaction *tx, void *argument) {
    struct value value = *(struct value *)argument;
    return strandline_put_from(tx, map, &value.bytes, sizeof value.bytes, value.bytes, fill, &value);
}

static int take(void *argument, const void *piece, size_t length) {
    struct value *value = (struct value *)argument;
    EXPECT(piece != NULL, 1);
    for (size_t i = 0; i < length; i++)
        if (((const unsigned char *)piece)[i] != byte_of(value, value->seen + i))
            EXPECT(value->seen + i, -1);
    value->seen += length;
    value->pieces++;
    return value->stops == (int)value->pieces ? value->code : 0;
}

static int read_value(StrandlineTransaction *tx, void *argument) {
    struct value *value = (struct value *)argument;
    value->seen = value->pieces = 0; /* A body may run again. */
    return strandline_get_to(tx, map, &value->bytes, sizeof value->bytes, take, value);
}

/* Each way to read gives the whole value, and what is small in one piece. */
static void whole_values(void) {
    static const size_t sizes[] = {0, 1, 8, 4096, 16383, 16384, 16385, 32768, 32769, 100000, 5 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct value value = {3, sizes[i], 0, 0, 0, 0};
        StrandlineSnapshot *snapshot;
        EXPECT(strandline_write(db, store, &value), 0);
        EXPECT(strandline_snapshot_begin(db, &snapshot), 0);
        for (int way = 0; way < 3; way++) {
            EXPECT(way == 0   ? read_value(strandline_snapshot_read(snapshot), &value)
                   : way == 1 ? strandline_read(db, read_value, &value)
                              : strandline_write(db, read_value, &value), 0);
            EXPECT(value.seen, sizes[i]);
            if (sizes[i] <= 16384)
                EXPECT(value.pieces, 1);
            for (value.code = 42; value.code >= -42; value.code -= 84) {
                value.stops = 1;
                EXPECT(way == 0   ? read_value(strandline_snapshot_read(snapshot), &value)
                       : way == 1 ? strandline_read(db, read_value, &value)
                                  : strandline_write(db, read_value, &value), value.code);
                EXPECT(value.pieces, 1);
                value.stops = 0;
            }
        }
        EXPECT(strandline_snapshot_end(snapshot), 0);
    }
}

/* While a piece is lent, its transaction refuses every use. */
struct lent {
    StrandlineTransaction *tx;
    StrandlineSnapshot *snapshot;
    StrandlineIterator *rows;
    StrandlineReader *reader;
    const void *piece;
    size_t bytes, calls;
    int is_writer;
};

static int use(void *argument, const void *piece, size_t length) {
    struct lent *lent = (struct lent *)argument;
    StrandlineTransaction *tx = lent->tx;
    StrandlineIterator *it;
    StrandlineReader *reader;
    const void *key, *found;
    void *value;
    size_t key_length, value_length;
    char byte;
    (void)piece;
    (void)length;
    if (lent->calls++ != 0)
        return 0;
    EXPECT(strandline_get(tx, map, "x", 1, &value, &value_length), STRANDLINE_PARAMETER);
    EXPECT(strstr(strandline_message(), "cannot use the transaction") != NULL, 1);
    EXPECT(strandline_get_to(tx, map, "x", 1, use, argument), STRANDLINE_PARAMETER);
    EXPECT(strandline_put(tx, map, "x", 1, "x", 1), lent->is_writer ? STRANDLINE_PARAMETER : STRANDLINE_READ_ONLY);
    EXPECT(strandline_remove(tx, map, "x", 1), lent->is_writer ? STRANDLINE_PARAMETER : STRANDLINE_READ_ONLY);
    EXPECT(strandline_iterate(tx, map, NULL, 0, NULL, 0, 0, &it), STRANDLINE_PARAMETER);
    EXPECT(strandline_iterator_next(lent->rows, &key, &key_length, &found, &value_length), STRANDLINE_PARAMETER);
    EXPECT(strandline_reader_begin(tx, map, "x", 1, &reader, &value_length), STRANDLINE_PARAMETER);
    EXPECT(strandline_reader_read(lent->reader, 0, &byte, 1), STRANDLINE_PARAMETER);
    strandline_iterator_end(lent->rows);
    strandline_reader_end(lent->reader);
    if (lent->snapshot == NULL) {
        EXPECT(strandline_close(db), STRANDLINE_PARAMETER);
        return 0;
    }
    EXPECT(strandline_snapshot_end(lent->snapshot), STRANDLINE_PARAMETER);
    EXPECT(strandline_close(db), STRANDLINE_IN_USE);
    return 0;
}

static int lend(StrandlineTransaction *tx, void *argument) {
    struct lent *lent = (struct lent *)argument;
    void *value;
    size_t length;
    lent->tx = tx;
    lent->calls = 0;
    TRY(strandline_iterate(tx, map, NULL, 0, NULL, 0, 0, &lent->rows));
    TRY(strandline_reader_begin(tx, map, &lent->bytes, sizeof lent->bytes, &lent->reader, &length));
    TRY(strandline_get_to(tx, map, &lent->bytes, sizeof lent->bytes, use, lent));
    EXPECT(lent->calls > 0, 1);
    /* It goes on afterwards. */
    TRY(strandline_get(tx, map, &lent->bytes, sizeof lent->bytes, &value, &length));
    EXPECT(length, lent->bytes);
    strandline_free(value);
    return lent->is_writer ? strandline_put(tx, map, "went on", 7, "x", 1) : 0;
}

static void uses(void) {
    static const size_t sizes[] = {0, 4096, 100000};
    for (size_t i = 0; i < 3; i++) {
        struct lent lent;
        memset(&lent, 0, sizeof lent);
        lent.bytes = sizes[i];
        EXPECT(strandline_read(db, lend, &lent), 0);
        lent.is_writer = 1;
        EXPECT(strandline_write(db, lend, &lent), 0);
        lent.is_writer = 0;
        EXPECT(strandline_snapshot_begin(db, &lent.snapshot), 0);
        EXPECT(lend(strandline_snapshot_read(lent.snapshot), &lent), 0);
        EXPECT(strandline_snapshot_end(lent.snapshot), 0);
    }
}

/* Two snapshots are lent the same memory. The first one's is as it was after the value has been replaced. */
static const size_t film = 3000000;

static int look(void *argument, const void *piece, size_t length) {
    struct lent *lent = (struct lent *)argument;
    (void)length;
    if (lent->calls++ == 0)
        lent->piece = piece;
    return 0;
}

static int replace(void *argument, const void *piece, size_t length) {
    struct lent *lent = (struct lent *)argument;
    const unsigned char *bytes = (const unsigned char *)piece;
    struct value other = {77, film, 0, 0, 0, 0}, old = {5, film, 0, 0, 0, 0};
    if (lent->calls == 0) {
        struct lent second;
        memset(&second, 0, sizeof second);
        EXPECT(strandline_get_to(lent->tx, map, &film, sizeof film, look, &second), 0);
        EXPECT(second.piece == piece, 1);
        for (int i = 0; i < 5; i++)
            EXPECT(strandline_write(db, store, &other), 0);
        EXPECT(strandline_read(db, read_value, &other), 0);
        EXPECT(other.seen, film);
    }
    for (size_t i = 0; i < length; i++)
        if (bytes[i] != byte_of(&old, lent->bytes + i))
            EXPECT(lent->bytes + i, -1);
    lent->calls++;
    lent->bytes += length;
    return 0;
}

static void replaced(void) {
    struct value old = {5, film, 0, 0, 0, 0};
    struct lent lent;
    StrandlineSnapshot *first, *second;
    memset(&lent, 0, sizeof lent);
    EXPECT(strandline_write(db, store, &old), 0);
    EXPECT(strandline_snapshot_begin(db, &first), 0);
    EXPECT(strandline_snapshot_begin(db, &second), 0);
    lent.tx = strandline_snapshot_read(second);
    EXPECT(strandline_get_to(strandline_snapshot_read(first), map, &film, sizeof film, replace, &lent), 0);
    EXPECT(lent.bytes, film);
    EXPECT(strandline_snapshot_end(second), 0);
    EXPECT(strandline_snapshot_end(first), 0);
    EXPECT(strandline_snapshot_end(NULL), 0);
}

/* A thread replaces a value while others read it: each sees one value, whole. */
enum { ROUNDS = 60 };
static int is_done;

static void *writer(void *argument) {
    (void)argument;
    for (int round = 0; round < ROUNDS; round++) {
        struct value value = {(unsigned char)round, 200000, 0, 0, 0, 0};
        EXPECT(strandline_write(db, store, &value), 0);
    }
    __atomic_store_n(&is_done, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

static int take_any(void *argument, const void *piece, size_t length) {
    struct value *value = (struct value *)argument;
    if (value->seen == 0)
        value->first = *(const unsigned char *)piece;
    return take(argument, piece, length);
}

static int read_any(StrandlineTransaction *tx, void *argument) {
    struct value *value = (struct value *)argument;
    value->seen = 0;
    return strandline_get_to(tx, map, &value->bytes, sizeof value->bytes, take_any, value);
}

static void *reader(void *argument) {
    do {
        struct value value = {0, 200000, 0, 0, 0, 0};
        if (argument == NULL) {
            EXPECT(strandline_read(db, read_any, &value), 0);
        } else {
            StrandlineSnapshot *snapshot;
            EXPECT(strandline_snapshot_begin(db, &snapshot), 0);
            EXPECT(read_any(strandline_snapshot_read(snapshot), &value), 0);
            EXPECT(strandline_snapshot_end(snapshot), 0);
        }
        EXPECT(value.seen, value.bytes);
    } while (!__atomic_load_n(&is_done, __ATOMIC_SEQ_CST));
    return NULL;
}

static void beside_a_writer(void) {
    struct value value = {9, 200000, 0, 0, 0, 0};
    pthread_t threads[3];
    EXPECT(strandline_write(db, store, &value), 0);
    EXPECT(pthread_create(&threads[0], NULL, reader, NULL), 0);
    EXPECT(pthread_create(&threads[1], NULL, reader, &is_done), 0);
    EXPECT(pthread_create(&threads[2], NULL, writer, NULL), 0);
    for (int i = 0; i < 3; i++)
        EXPECT(pthread_join(threads[i], NULL), 0);
}

/* The longest keys and values, and those that are one byte longer. None of the refused calls ends the transaction. */
static char longest[2 * 4094 + 1];

static int edges(StrandlineTransaction *tx, void *argument) {
    struct value value;
    void *copy;
    size_t length;
    const void *key, *found;
    size_t found_length;
    StrandlineIterator *it;
    StrandlineReader *reader;
    (void)argument;
    for (int zeros = 0; zeros < 2; zeros++) {
        size_t most = zeros ? 2047 : 4094;
        memset(longest, zeros ? 0 : 0xff, sizeof longest);
        TRY(strandline_put(tx, map, longest, most, "v", 1));
        TRY(strandline_get(tx, map, longest, most, &copy, &length));
        EXPECT(length, 1);
        strandline_free(copy);
        TRY(strandline_iterate(tx, map, longest, most, longest, most, 0, &it));
        EXPECT(strandline_iterator_next(it, &key, &length, &found, &found_length), STRANDLINE_NOT_FOUND);
        strandline_iterator_end(it);
        TRY(strandline_iterate(tx, map, longest, most, NULL, 0, 0, &it));
        TRY(strandline_iterator_next(it, &key, &length, &found, &found_length));
        EXPECT(length == most && memcmp(key, longest, most) == 0, 1);
        strandline_iterator_end(it);
        most++;
        EXPECT(strandline_put(tx, map, longest, most, "v", 1), STRANDLINE_PARAMETER);
        EXPECT(strstr(strandline_message(), "4094") != NULL, 1);
        EXPECT(strandline_put_from(tx, map, longest, most, 1, fill, &value), STRANDLINE_PARAMETER);
        EXPECT(strandline_get(tx, map, longest, most, &copy, &length), STRANDLINE_PARAMETER);
        EXPECT(strandline_get_to(tx, map, longest, most, take, &value), STRANDLINE_PARAMETER);
        EXPECT(strandline_reader_begin(tx, map, longest, most, &reader, &length), STRANDLINE_PARAMETER);
        EXPECT(strandline_remove(tx, map, longest, most), STRANDLINE_PARAMETER);
        EXPECT(strandline_iterate(tx, map, longest, most, NULL, 0, 0, &it), STRANDLINE_PARAMETER);
        EXPECT(strandline_iterate(tx, map, NULL, 0, longest, most, 0, &it), STRANDLINE_PARAMETER);
        TRY(strandline_remove(tx, map, longest, most - 1));
    }
    /* A value of 2^32 bytes, of which nothing is read. */
    EXPECT(strandline_put(tx, map, "large", 5, "v", (size_t)1 << 32), STRANDLINE_PARAMETER);
    EXPECT(strstr(strandline_message(), "4294967295") != NULL, 1);
    EXPECT(strandline_put_from(tx, map, "large", 5, (size_t)1 << 32, fill, NULL), STRANDLINE_PARAMETER);
    EXPECT(strandline_get_to(tx, map, "none", 4, take, NULL), STRANDLINE_NOT_FOUND);
    EXPECT(strandline_get_to(tx, map, "none", 4, NULL, NULL), STRANDLINE_PARAMETER);
    EXPECT(strandline_get_to(tx, NULL, "none", 4, take, NULL), STRANDLINE_PARAMETER);
    EXPECT(strandline_get_to(NULL, map, "none", 4, take, NULL), STRANDLINE_PARAMETER);
    EXPECT(strandline_get_to(tx, map, NULL, 4, take, NULL), STRANDLINE_PARAMETER);
    return strandline_put(tx, map, "committed", 9, "v", 1);
}

static int is_committed(StrandlineTransaction *tx, void *argument) {
    struct value *value = (struct value *)argument;
    value->first = 'v';
    return strandline_get_to(tx, map, "committed", 9, take, argument);
}

static void largest(void) {
    struct value value = {1, 0xffffffff, 0, 0, 0, 0};
    EXPECT(strandline_write(db, store, &value), 0);
    EXPECT(strandline_read(db, read_value, &value), 0);
    EXPECT(value.seen, 0xffffffff);
    printf("%zu bytes in %zu pieces\n", value.seen, value.pieces);
}

int main(int argc, char **argv) {
    struct value value = {0, 0, 0, 0, 0, 0};
    if (argc != 3)
        return 2;
    open_all(argv[2]);
    if (strcmp(argv[1], "largest") == 0) {
        largest();
    } else {
        whole_values();
        uses();
        replaced();
        beside_a_writer();
        EXPECT(strandline_write(db, edges, NULL), 0);
        EXPECT(strandline_read(db, is_committed, &value), 0);
        EXPECT(value.seen, 1);
        puts("all is well");
    }
    close_all();
    return 0;
}
