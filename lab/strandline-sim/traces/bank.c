/* Transfers between accounts in persistent memory, to be traced:
 *
 *   cc -O2 -o bank bank.c
 *   valgrind --tool=lackey --trace-mem=yes --log-file=bank.trace ./bank 200
 *   strandline-lab simulate --machine loc --hardware loc-wal --trace bank.trace
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "strandline_trace.h"

enum { ACCOUNTS = 512 };

/* An account on a line of its own. */
struct account {
    uint64_t balance;
    uint64_t unused[7];
};

static _Alignas(4096) volatile struct account accounts[ACCOUNTS];

int main(int count, char **arguments) {
    long transfers = count > 1 ? strtol(arguments[1], NULL, 10) : 100;
    uint64_t random = 1, sum = 0;
    STRANDLINE_PERSISTENT(accounts, sizeof accounts);
    for (int account = 0; account < ACCOUNTS; account++) {
        accounts[account].balance = 100;
    }
    STRANDLINE_START();
    for (long transfer = 0; transfer < transfers; transfer++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        volatile struct account *from = &accounts[random >> 33 & (ACCOUNTS - 1)];
        volatile struct account *to = &accounts[random >> 45 & (ACCOUNTS - 1)];
        STRANDLINE_BEGIN();
        from->balance -= 1;
        to->balance += 1;
        STRANDLINE_COMMIT();
    }
    for (int account = 0; account < ACCOUNTS; account++) {
        sum += accounts[account].balance;
    }
    printf("%llu\n", (unsigned long long)sum);
    return sum == 100 * ACCOUNTS ? 0 : 1;
}
