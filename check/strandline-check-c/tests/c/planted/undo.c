// Accounts with an undo log: the old balances are logged, and recovery puts them back unless the log was emptied.
//
// 14: the log's entries are flushed, and nothing waits for that          16: recovery does not flush the balances that it puts back
// 15: recovery empties the log before it puts the balances back
#define LIBPMEM
#include "planted.h"

enum { ACCOUNTS = 3, SUM = 300 };

struct Entry {
  uint64_t account, balance;
};

struct Pool {
  struct {
    LINE uint64_t balance;
  } accounts[ACCOUNTS];
  LINE uint64_t logged;
  LINE struct Entry log[2];
};

static void set(struct Pool *pool, uint64_t account, uint64_t balance) {
  pool->accounts[account].balance = balance;
  pmem_flush(&pool->accounts[account], sizeof balance);
}

static void set_logged(struct Pool *pool, uint64_t entries) {
  pool->logged = entries;
  pmem_persist(&pool->logged, sizeof pool->logged);
}

static void transfer(struct Pool *pool, uint64_t from, uint64_t to, uint64_t amount) {
  pool->log[0] = (struct Entry){from, pool->accounts[from].balance};
  pool->log[1] = (struct Entry){to, pool->accounts[to].balance};
  pmem_flush(pool->log, sizeof pool->log);
  if (BUG != 14) pmem_drain();
  set_logged(pool, 2);
  set(pool, from, pool->accounts[from].balance - amount);
  set(pool, to, pool->accounts[to].balance + amount);
  pmem_drain();
  set_logged(pool, 0);
}

static void recover(struct Pool *pool) {
  uint64_t logged = pool->logged;
  if (BUG == 15 && logged) set_logged(pool, 0);
  for (uint64_t i = 0; i < logged; i++) {
    struct Entry *entry = &pool->log[i];
    if (BUG == 16)
      pool->accounts[entry->account].balance = entry->balance;
    else
      set(pool, entry->account, entry->balance);
  }
  if (logged) {
    pmem_drain();
    if (BUG != 15) set_logged(pool, 0);
  }
}

static void check(struct Pool *pool) {
  static const uint64_t first[] = {100, 70, 70};
  uint64_t sum = 0, done = acknowledged();
  for (int i = 0; i < ACCOUNTS; i++) sum += pool->accounts[i].balance;
  if (sum != SUM) refuse("the balances add up to %d", (int)sum);
  if (done && pool->accounts[0].balance != first[done]) refuse("transfer %d is lost", (int)done);
}

int main(int count, char **arguments) {
  if (count != 3) return 2;
  struct Pool *pool = map_pmem(arguments[2], sizeof *pool);
  const char *what = arguments[1];
  if (strcmp(what, "make") == 0)
    for (int i = 0; i < ACCOUNTS; i++) pool->accounts[i].balance = SUM / ACCOUNTS;
  if (strcmp(what, "recover") == 0) recover(pool);
  if (strcmp(what, "check") == 0) check(pool);
  if (strcmp(what, "run") == 0) {
    transfer(pool, 0, 1, 30);
    strandline_acknowledge(1);
    transfer(pool, 1, 2, 50);
    strandline_acknowledge(2);
  }
  return 0;
}
