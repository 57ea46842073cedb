// A list in libpmemobj, correct or with a planted bug: objects BUG make|run|check POOL. It knows nothing of the checker.
#include <libpmemobj.h>
#include <stdio.h>
#include <string.h>

struct Root {
  uint64_t length;
  uint64_t padding[7];
  uint64_t values[8];
  uint64_t more_padding[8]; // On another line than the values, wherever the object begins.
  uint64_t is_complete;
};

static int add(PMEMobjpool *pool, struct Root *root, const char *bug) {
  volatile int is_done = 0;
  uint64_t length = root->length;
  TX_BEGIN(pool) {
    if (strcmp(bug, "without-add") != 0) pmemobj_tx_add_range_direct(root, sizeof *root);
    root->length = length + 1;
    root->values[length] = 100 + length;
  }
  TX_ONCOMMIT { is_done = 1; }
  TX_END
  return is_done;
}

int main(int count, char **arguments) {
  if (count != 4) return 2;
  const char *bug = arguments[1], *what = arguments[2], *path = arguments[3];
  PMEMobjpool *pool = strcmp(what, "make") == 0 ? pmemobj_create(path, "list", PMEMOBJ_MIN_POOL, 0600) : pmemobj_open(path, "list");
  if (!pool) {
    fprintf(stderr, "%s\n", pmemobj_errormsg());
    return 1;
  }
  PMEMoid object = pmemobj_root(pool, sizeof(struct Root));
  struct Root *root = (struct Root *)pmemobj_direct(object);
  int code = 0;
  if (strcmp(what, "run") == 0) {
    if (strcmp(bug, "without-persist") != 0 && !add(pool, root, bug)) code = 1;
    if (strcmp(bug, "without-add") == 0) goto end;
    if (strcmp(bug, "without-persist") != 0) pmemobj_persist(pool, root, sizeof *root);
    root->is_complete = 1;
    pmemobj_persist(pool, &root->is_complete, sizeof root->is_complete);
    root->values[7] = 7;
    if (strcmp(bug, "without-persist") != 0) pmemobj_persist(pool, &root->values[7], sizeof root->values[7]);
    root->is_complete = 2;
    pmemobj_persist(pool, &root->is_complete, sizeof root->is_complete);
  } else if (strcmp(what, "check") == 0) {
    for (uint64_t i = 0; i < root->length; i++) {
      if (root->values[i] != 100 + i) {
        fprintf(stderr, "value %d is lost\n", (int)i);
        code = 1;
      }
    }
    if (root->is_complete == 2 && root->values[7] != 7) {
      fprintf(stderr, "the last value is lost\n");
      code = 1;
    }
  }
end:
  pmemobj_close(pool);
  return code;
}
