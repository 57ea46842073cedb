/* A list of things to do, with libpmemobj. `after.c` is the same with Strandline.
 *
 *   cc before.c -lpmemobj -o before && ./before /tmp/todo.pmem add "buy bread"
 */
#include <libpmemobj.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct list {
    PMEMoid first;
    uint64_t count;
};

struct thing {
    PMEMoid next;
    uint64_t length;
    char text[];
};

static PMEMobjpool *pool;
static PMEMoid root;

static int add(const char *text) {
    size_t length = strlen(text);
    int code = 0;
    TX_BEGIN(pool) {
        struct list *list = (struct list *)pmemobj_direct(root);
        PMEMoid fresh = pmemobj_tx_zalloc(sizeof(struct thing) + length, 1);
        struct thing *thing = (struct thing *)pmemobj_direct(fresh);
        thing->next = list->first;
        thing->length = length;
        memcpy(thing->text, text, length);
        pmemobj_tx_add_range(root, 0, sizeof *list);
        list->first = fresh;
        list->count++;
    } TX_ONABORT {
        code = 1;
    } TX_END
    return code;
}

/* Takes the thing off the list that is `number` behind the first. */
static int done(uint64_t number) {
    int code = 0;
    TX_BEGIN(pool) {
        struct list *list = (struct list *)pmemobj_direct(root);
        PMEMoid holder = root;
        uint64_t at = offsetof(struct list, first);
        if (number >= list->count)
            pmemobj_tx_abort(1);
        for (; number > 0; number--) {
            holder = *(PMEMoid *)((char *)pmemobj_direct(holder) + at);
            at = offsetof(struct thing, next);
        }
        PMEMoid *link = (PMEMoid *)((char *)pmemobj_direct(holder) + at);
        PMEMoid gone = *link;
        pmemobj_tx_add_range(holder, at, sizeof *link);
        *link = ((struct thing *)pmemobj_direct(gone))->next;
        pmemobj_tx_add_range(root, offsetof(struct list, count), sizeof list->count);
        list->count--;
        pmemobj_tx_free(gone);
    } TX_ONABORT {
        code = 1;
    } TX_END
    return code;
}

static int show(void) {
    struct list *list = (struct list *)pmemobj_direct(root);
    for (PMEMoid at = list->first; !OID_IS_NULL(at);) {
        struct thing *thing = (struct thing *)pmemobj_direct(at);
        printf("%.*s\n", (int)thing->length, thing->text);
        at = thing->next;
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    pool = pmemobj_open(argv[1], "todo");
    if (pool == NULL)
        pool = pmemobj_create(argv[1], "todo", PMEMOBJ_MIN_POOL, 0666);
    if (pool == NULL) {
        fprintf(stderr, "%s\n", pmemobj_errormsg());
        return 1;
    }
    root = pmemobj_root(pool, sizeof(struct list));
    int code = 2;
    if (strcmp(argv[2], "add") == 0 && argc == 4)
        code = add(argv[3]);
    else if (strcmp(argv[2], "done") == 0 && argc == 4)
        code = done(strtoull(argv[3], NULL, 10));
    else if (strcmp(argv[2], "show") == 0)
        code = show();
    if (code == 1)
        fprintf(stderr, "there is no such thing\n");
    pmemobj_close(pool);
    return code;
}
