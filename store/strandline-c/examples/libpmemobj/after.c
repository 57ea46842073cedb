/* A list of things to do, with Strandline. `before.c` is the same with libpmemobj.
 *
 *   cc after.c $(pkg-config --cflags --libs strandline) -o after && ./after /tmp/todo.db add "buy bread"
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strandline.h>

struct list {
    uint64_t first; /* An offset; 0: none. */
    uint64_t count;
};

struct thing {
    uint64_t next;
    uint64_t length;
    /* Then the text. */
};

static StrandlineDatabase *db;
static StrandlineObjects *objects;

/* A failed operation ends the transaction. */
#define TRY(call) do { int code_ = (call); if (code_ != 0) return code_; } while (0)

/* The root, and the offset at which it is. */
static int load_list(StrandlineTransaction *tx, uint64_t *root, struct list *list) {
    TRY(strandline_root(tx, objects, sizeof *list, root));
    return strandline_load(tx, objects, *root, list, sizeof *list);
}

static int add(StrandlineTransaction *tx, void *argument) {
    const char *text = (const char *)argument;
    struct list list;
    struct thing thing;
    uint64_t root, fresh;
    TRY(load_list(tx, &root, &list));
    thing.next = list.first;
    thing.length = strlen(text);
    TRY(strandline_allocate(tx, objects, sizeof thing + thing.length, &fresh));
    TRY(strandline_store(tx, objects, fresh, &thing, sizeof thing));
    TRY(strandline_store(tx, objects, fresh + sizeof thing, text, thing.length));
    list.first = fresh;
    list.count++;
    return strandline_store(tx, objects, root, &list, sizeof list);
}

/* Takes the thing off the list that is `number` behind the first. */
static int done(StrandlineTransaction *tx, void *argument) {
    uint64_t number = *(uint64_t *)argument, root, link, gone;
    struct list list;
    struct thing thing;
    TRY(load_list(tx, &root, &list));
    if (number >= list.count)
        return 1; /* A number of the program's own, which `strandline_write` returns. */
    link = root + offsetof(struct list, first);
    TRY(strandline_load(tx, objects, link, &gone, sizeof gone));
    for (; number > 0; number--) {
        link = gone + offsetof(struct thing, next);
        TRY(strandline_load(tx, objects, link, &gone, sizeof gone));
    }
    TRY(strandline_load(tx, objects, gone, &thing, sizeof thing));
    TRY(strandline_store(tx, objects, link, &thing.next, sizeof thing.next));
    list.count--;
    TRY(strandline_store(tx, objects, root + offsetof(struct list, count), &list.count, sizeof list.count));
    return strandline_release(tx, objects, gone);
}

static int show(void) {
    StrandlineSnapshot *snapshot; /* A body might run again, and print twice. */
    TRY(strandline_snapshot_begin(db, &snapshot));
    StrandlineTransaction *tx = strandline_snapshot_read(snapshot);
    struct list list;
    struct thing thing;
    uint64_t root, at;
    int code = load_list(tx, &root, &list);
    if (code == STRANDLINE_READ_ONLY) /* There is no root yet. */
        list.first = 0, code = 0;
    for (at = list.first; code == 0 && at != 0; at = thing.next) {
        char *text = NULL;
        code = strandline_load(tx, objects, at, &thing, sizeof thing);
        if (code == 0 && (text = (char *)malloc(thing.length + 1)) != NULL) {
            code = strandline_load(tx, objects, at + sizeof thing, text, thing.length);
            printf("%.*s\n", (int)thing.length, text);
        }
        free(text);
    }
    strandline_snapshot_end(snapshot);
    return code;
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    int code = strandline_open(argv[1], NULL, &db);
    if (code == 0)
        code = strandline_objects_open(db, "todo", &objects);
    if (code != 0) {
        fprintf(stderr, "%s\n", strandline_message());
        return 1;
    }
    code = 2;
    if (strcmp(argv[2], "add") == 0 && argc == 4) {
        code = strandline_write(db, add, argv[3]);
    } else if (strcmp(argv[2], "done") == 0 && argc == 4) {
        uint64_t number = strtoull(argv[3], NULL, 10);
        code = strandline_write(db, done, &number);
    } else if (strcmp(argv[2], "show") == 0) {
        code = show();
    }
    if (code == 1)
        fprintf(stderr, "there is no such thing\n");
    else if (code < 0)
        fprintf(stderr, "%s\n", strandline_message());
    strandline_objects_close(objects);
    strandline_close(db);
    return code;
}
