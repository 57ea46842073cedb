/* An inventory in C: counts of articles that survive a power failure.
 *
 *   cargo build --release -p strandline-c
 *   cc -I crates/strandline-c/include crates/strandline-c/examples/inventory.c \
 *      target/release/libstrandline_c.a -lpthread -ldl -lm -o inventory
 *   ./inventory /tmp/inventory.pool
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "strandline.h"

struct sale {
    const char *article;
    uint64_t count;
};

// The count of an article; 0 if there is none.
static StrandlineStatus count_of(StrandlineTransaction *tx, const char *article, uint64_t *count) {
    uint8_t *value;
    size_t length;
    *count = 0;
    StrandlineStatus status =
        strandline_get(tx, "stock", (const uint8_t *)article, strlen(article), &value, &length);
    if (status == STRANDLINE_NOT_FOUND)
        return STRANDLINE_OK;
    if (status != STRANDLINE_OK)
        return status;
    if (length == sizeof *count)
        memcpy(count, value, length);
    strandline_free(value, length);
    return STRANDLINE_OK;
}

static StrandlineStatus set_count(StrandlineTransaction *tx, const char *article, uint64_t count) {
    return strandline_put(tx, "stock", (const uint8_t *)article, strlen(article),
                          (const uint8_t *)&count, sizeof count);
}

static int deliver(StrandlineTransaction *tx, void *argument) {
    const struct sale *sale = argument;
    uint64_t count;
    StrandlineStatus status = count_of(tx, sale->article, &count);
    return status != STRANDLINE_OK ? (int)status : (int)set_count(tx, sale->article, count + sale->count);
}

static int sell(StrandlineTransaction *tx, void *argument) {
    const struct sale *sale = argument;
    uint64_t count;
    StrandlineStatus status = count_of(tx, sale->article, &count);
    if (status != STRANDLINE_OK)
        return (int)status;
    if (count < sale->count)
        return -1; // Not enough: nothing of this transaction happens.
    return (int)set_count(tx, sale->article, count - sale->count);
}

static int print_one(void *argument, const uint8_t *key, size_t key_length, const uint8_t *value,
                     size_t value_length) {
    uint64_t count = 0;
    if (value_length == sizeof count)
        memcpy(&count, value, value_length);
    printf("%.*s %" PRIu64 "\n", (int)key_length, (const char *)key, count);
    ++*(int *)argument;
    return 0;
}

static int print_all(StrandlineTransaction *tx, void *argument) {
    *(int *)argument = 0;
    return (int)strandline_scan(tx, "stock", NULL, 0, 0, print_one, argument);
}

static void check(StrandlineStatus status, const char *what) {
    if (status != STRANDLINE_OK) {
        fprintf(stderr, "cannot %s: %s\n", what, strandline_message());
        exit(1);
    }
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: inventory FILE\n");
        return 2;
    }
    StrandlineStore *store;
    StrandlineOptions options = {.domain = STRANDLINE_SYNC, .size = 16 << 20};
    check(strandline_open(argv[1], &options, &store), "open the store");

    struct sale pears = {"pears", 12}, plums = {"plums", 40}, many = {"pears", 1000}, few = {"pears", 5};
    check(strandline_update(store, 0, deliver, &pears), "deliver pears");
    check(strandline_update(store, 1, deliver, &plums), "deliver plums"); // Durable, and the pears with it.
    check(strandline_update(store, 1, sell, &few), "sell pears");
    if (strandline_update(store, 1, sell, &many) != STRANDLINE_ABORTED) {
        fprintf(stderr, "sold what is not there\n");
        return 1;
    }

    int articles;
    check(strandline_view(store, print_all, &articles), "read the stock");
    printf("%d articles\n", articles);
    check(strandline_close(store), "close the store");
    return 0;
}
