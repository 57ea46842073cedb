/* An inventory in C: counts of articles that survive a power failure.
 *
 *   cc inventory.c $(pkg-config --cflags --libs strandline) -o inventory
 *   ./inventory /tmp/inventory.db
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "strandline.h"

#define NOT_ENOUGH 1 /* A code of this program's own: above 0. */

static StrandlineDatabase *db;
static StrandlineMap *stock;

struct sale {
    const char *article;
    uint64_t count;
};

/* The count of an article; 0 if there is none. */
static int count_of(StrandlineTransaction *tx, const char *article, uint64_t *count) {
    void *value;
    size_t length;
    *count = 0;
    int code = strandline_get(tx, stock, article, strlen(article), &value, &length);
    if (code == STRANDLINE_NOT_FOUND)
        return 0;
    if (code == 0 && length == sizeof *count)
        memcpy(count, value, length);
    strandline_free(value);
    return code;
}

static int set_count(StrandlineTransaction *tx, const char *article, uint64_t count) {
    return strandline_put(tx, stock, article, strlen(article), &count, sizeof count);
}

static int deliver(StrandlineTransaction *tx, void *argument) {
    const struct sale *sale = (const struct sale *)argument;
    uint64_t count;
    int code = count_of(tx, sale->article, &count);
    return code != 0 ? code : set_count(tx, sale->article, count + sale->count);
}

static int sell(StrandlineTransaction *tx, void *argument) {
    const struct sale *sale = (const struct sale *)argument;
    uint64_t count;
    int code = count_of(tx, sale->article, &count);
    if (code != 0)
        return code;
    if (count < sale->count)
        return NOT_ENOUGH; /* Nothing of this transaction happens. */
    return set_count(tx, sale->article, count - sale->count);
}

/* Reads a snapshot: a body of strandline_read might run again, and print twice. */
static int print_all(void) {
    StrandlineSnapshot *snapshot;
    StrandlineIterator *all;
    const void *key, *value;
    size_t key_length, value_length;
    uint64_t count = 0;
    int articles = 0, code = strandline_snapshot_begin(db, &snapshot);
    if (code != 0)
        return code;
    code = strandline_iterate(strandline_snapshot_read(snapshot), stock, NULL, 0, NULL, 0, 0, &all);
    while (code == 0 && (code = strandline_iterator_next(all, &key, &key_length, &value, &value_length)) == 0) {
        if (value_length == sizeof count)
            memcpy(&count, value, value_length);
        printf("%.*s %" PRIu64 "\n", (int)key_length, (const char *)key, count);
        articles++;
    }
    strandline_iterator_end(all);
    strandline_snapshot_end(snapshot);
    printf("%d articles\n", articles);
    return code == STRANDLINE_NOT_FOUND ? 0 : code;
}

static int run(const char *path) {
    struct sale pears = {"pears", 12}, plums = {"plums", 40}, many = {"pears", 1000}, few = {"pears", 5};
    int code = strandline_open(path, NULL, &db);
    if (code == 0)
        code = strandline_map_open(db, "stock", &stock);
    if (code == 0)
        code = strandline_write_later(db, deliver, &pears, NULL);
    if (code == 0)
        code = strandline_write(db, deliver, &plums); /* On the disk, and the pears with it. */
    if (code == 0)
        code = strandline_write(db, sell, &few);
    if (code == 0 && strandline_write(db, sell, &many) != NOT_ENOUGH)
        puts("sold what is not there");
    return code == 0 ? print_all() : code;
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: inventory FILE\n");
        return 2;
    }
    int code = run(argv[1]);
    if (code != 0)
        fprintf(stderr, "%s\n", strandline_message());
    strandline_map_close(stock);
    if (strandline_close(db) != 0)
        fprintf(stderr, "cannot close the inventory: %s\n", strandline_message());
    return code != 0;
}
