// WrAP's benchmark (section 4.2) on the containers of the C++ library, to be traced:
//
//   g++ -O2 -o set set.cpp
//   valgrind --tool=lackey --trace-mem=yes --log-file=set.lackey ./set set 200 5
//   strandline-lab simulate --machine wrap --hardware wrap-evaluated --trace set.lackey
//
// With -DWITH_ABSEIL -labsl_throw_delegate it is run on the B-tree of Abseil instead (Debian's libabsl-dev): a descendant of the library that Google
// published in the paper's year.
//
// The container's nodes are in a pool and hold 100 elements when the trace starts; each operation inserts, finds and deletes
// one. make.sh makes the traces that the laboratory runs.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <set>
#include <valgrind/valgrind.h>
#ifdef WITH_ABSEIL
#include <absl/container/btree_set.h>
#endif

namespace {

constexpr std::size_t pool_bytes = std::size_t{1} << 20;
alignas(4096) unsigned char pool[pool_bytes];

#ifdef WITH_ABSEIL
// Nodes of a B-tree are arrays of units, of few sizes. For each size the one that was freed last, which holds a link to the one before.
void *freed_arrays[257];

void *&freed_array(std::size_t bytes) {
    if (bytes / 16 >= sizeof freed_arrays / sizeof *freed_arrays) {
        std::fputs("a node is too large\n", stderr);
        std::exit(1);
    }
    return freed_arrays[bytes / 16];
}
#endif

// Hands out equal blocks of the pool, one after the other, freed ones first.
template <class T> struct PoolAllocator {
    using value_type = T;
    PoolAllocator() = default;
    template <class U> explicit PoolAllocator(const PoolAllocator<U> &) {}

    T *allocate(std::size_t count) {
        static_assert(sizeof(T) >= sizeof(void *), "a free block holds a link");
        if (count == 1 && free_list != nullptr) {
            void *block = free_list;
            std::memcpy(&free_list, block, sizeof(void *));
            return static_cast<T *>(block);
        }
        const std::size_t bytes = (count * sizeof(T) + 15) / 16 * 16;
#ifdef WITH_ABSEIL
        if (void *array = freed_array(bytes); array != nullptr) {
            std::memcpy(&freed_array(bytes), array, sizeof(void *));
            return static_cast<T *>(array);
        }
#endif
        if (bytes > pool_bytes - used) {
            std::fputs("the pool is full\n", stderr);
            std::exit(1);
        }
        void *block = pool + used;
        used += bytes;
        return static_cast<T *>(block);
    }

    void deallocate(T *block, std::size_t count) {
        if (count == 1) {
            std::memcpy(static_cast<void *>(block), &free_list, sizeof(void *));
            free_list = block;
        }
#ifdef WITH_ABSEIL
        else {
            void *&first = freed_array((count * sizeof(T) + 15) / 16 * 16);
            std::memcpy(static_cast<void *>(block), &first, sizeof(void *));
            first = block;
        }
#endif
    }

    template <class U> bool operator==(const PoolAllocator<U> &) const { return true; }
    template <class U> bool operator!=(const PoolAllocator<U> &) const { return false; }

    static inline void *free_list = nullptr;
    static inline std::size_t used = 0;
};

template <class Set> void run(unsigned long transactions, unsigned long operations) {
    VALGRIND_PRINTF("strandline persistent %p,%lu\n", static_cast<void *>(pool), static_cast<unsigned long>(pool_bytes));
    std::mt19937_64 random{7};
    const auto key = [&random] { return random() % 100000; };
    Set elements;
    for (int i = 0; i < 100; ++i) {
        elements.insert(key());
    }
    std::uint64_t found = 0;
    VALGRIND_PRINTF("strandline start\n");
    for (unsigned long transaction = 0; transaction < transactions; ++transaction) {
        VALGRIND_PRINTF("strandline begin\n");
        for (unsigned long operation = 0; operation < operations; ++operation) {
            elements.insert(key());
            found += elements.count(key());
            auto next = elements.lower_bound(key());
            elements.erase(next == elements.end() ? elements.begin() : next);
        }
        VALGRIND_PRINTF("strandline commit\n");
    }
    std::printf("%zu elements, %llu found\n", elements.size(), static_cast<unsigned long long>(found));
}

} // namespace

int main(int count, char **arguments) {
#ifdef WITH_ABSEIL
    const char *const names = "btree";
    const bool is_known = count > 1 && std::strcmp(arguments[1], "btree") == 0;
#else
    const char *const names = "set|multiset";
    const bool is_multiset = count > 1 && std::strcmp(arguments[1], "multiset") == 0;
    const bool is_known = is_multiset || (count > 1 && std::strcmp(arguments[1], "set") == 0);
#endif
    if (count != 4 || !is_known) {
        std::fprintf(stderr, "usage: %s %s TRANSACTIONS OPERATIONS-IN-EACH\n", arguments[0], names);
        return 2;
    }
    const unsigned long transactions = std::strtoul(arguments[2], nullptr, 10);
    const unsigned long operations = std::strtoul(arguments[3], nullptr, 10);
#ifdef WITH_ABSEIL
    run<absl::btree_set<std::uint64_t, std::less<>, PoolAllocator<std::uint64_t>>>(transactions, operations);
#else
    if (is_multiset) {
        run<std::multiset<std::uint64_t, std::less<>, PoolAllocator<std::uint64_t>>>(transactions, operations);
    } else {
        run<std::set<std::uint64_t, std::less<>, PoolAllocator<std::uint64_t>>>(transactions, operations);
    }
#endif
    return 0;
}
