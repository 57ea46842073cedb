// The twelve tasks of docs/first-week.md in C++, as somebody writes them who has read docs/c.md alone. `first_week FOLDER` does all of them.
#include <cstdio>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <strandline_pack.hpp>

#include "expect.hpp"

using namespace strandline;

namespace {

void task_1_count_visits_over_restarts(const std::string &folder) {
    for (int run = 1; run <= 3; run++) {
        auto db = Database::open(folder + "/visits.db");
        auto visits = db.map("visits");
        int count = db.write([&](Transaction &tx) {
            int next = unpack<int>(visits.get(tx, "home").value_or(pack(0))) + 1;
            visits.put(tx, "home", pack(next));
            return next;
        });
        EXPECT(count == run);
        db.close();
    }
}

struct Reading {
    double level;
    std::optional<std::string> note;
    std::vector<std::string> tags;
};

std::string bytes_of(const Reading &reading) { return pack(reading.level, reading.note, reading.tags); }

Reading reading_of(std::string_view bytes) {
    auto [level, note, tags] = unpack<double, std::optional<std::string>, std::vector<std::string>>(bytes);
    return {level, note, tags};
}

void task_2_look_up_structs_by_place_and_time(const std::string &folder) {
    auto db = Database::open(folder + "/readings.db");
    auto readings = db.map("readings");
    db.write([&](Transaction &tx) {
        for (int hour = 0; hour < 24; hour++)
            readings.put(tx, pack("Bergen", hour), bytes_of({hour * 1.0, {}, {"tide"}}));
        readings.put(tx, pack("Oslo", 3), bytes_of({0.5, "calm", {"tide", "fjord"}}));
    });
    auto morning = db.read([&](View &view) {
        std::vector<double> levels;
        for (auto [key, value] : readings.range(view, pack("Bergen", 6), pack("Bergen", 12)))
            levels.push_back(reading_of(value).level);
        return levels;
    });
    EXPECT(morning == (std::vector<double>{6, 7, 8, 9, 10, 11}));
    auto latest = db.read([&](View &view) { return readings.last(view, pack("Bergen"), pack_end("Bergen")); });
    auto [place, hour] = unpack<std::string, int>(latest->key);
    EXPECT(place == "Bergen" && hour == 23);
    auto oslo = db.read([&](View &view) { return readings.get(view, pack("Oslo", 3)); });
    EXPECT(reading_of(*oslo).note == "calm" && reading_of(*oslo).tags.size() == 2);
}

void task_3_limit_memory_and_refuse_a_wrong_file(const std::string &folder) {
    Options options;
    options.layout_name = "shop";
    options.memory_bytes = 64 << 20;
    Database::open(folder + "/shop.db", options).close();
    options.layout_name = "diary";
    try {
        Database::open(folder + "/shop.db", options);
        EXPECT(false);
    } catch (const Error &error) {
        EXPECT(error.code() == STRANDLINE_WRONG_LAYOUT);
    }
    try {
        Database::open_existing(folder + "/shpo.db", options);
        EXPECT(false);
    } catch (const Error &error) {
        EXPECT(error.code() == STRANDLINE_IO);
    }
}

struct Refusal : std::runtime_error {
    using std::runtime_error::runtime_error;
};

void transfer(Transaction &tx, const Map &accounts, const std::string &from, const std::string &to, int amount) {
    auto account = [&](const std::string &name) {
        auto balance = accounts.get(tx, name);
        if (!balance)
            throw Refusal(name + " has no account");
        return unpack<int>(*balance);
    };
    int balance = account(from);
    if (balance < amount)
        throw Refusal("only " + std::to_string(balance) + " are left");
    accounts.put(tx, from, pack(balance - amount));
    accounts.put(tx, to, pack(account(to) + amount));
}

void task_4_move_money_or_refuse_it_whole(const std::string &folder) {
    auto db = Database::open(folder + "/bank.db");
    auto accounts = db.map("accounts");
    db.write([&](Transaction &tx) {
        accounts.put(tx, "ann", pack(10));
        accounts.put(tx, "bob", pack(0));
    });
    auto refused = [&](const std::string &to, int amount) {
        try {
            db.write([&](Transaction &tx) { transfer(tx, accounts, "ann", to, amount); });
        } catch (const Refusal &refusal) {
            return std::string(refusal.what());
        }
        return std::string();
    };
    EXPECT(refused("bob", 7) == "");
    EXPECT(refused("bob", 7) == "only 3 are left");
    // Ann's account was changed before Eve's was missed, and is as it was.
    EXPECT(refused("eve", 1) == "eve has no account");
    db.read([&](View &view) { EXPECT(accounts.get(view, "ann") == pack(3) && accounts.get(view, "bob") == pack(7)); });
}

void task_5_count_words_with_eight_threads(const std::string &folder) {
    auto db = Database::open(folder + "/words.db");
    auto words = db.map("words");
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; i++)
        threads.emplace_back([&] {
            for (const char *word : {"the", "sea", "the", "shore", "the", "tide"})
                db.write([&](Transaction &tx) {
                    int count = unpack<int>(words.get(tx, word).value_or(pack(0)));
                    words.put(tx, word, pack(count + 1));
                });
        });
    for (auto &thread : threads)
        thread.join();
    auto counts = db.read([&](View &view) {
        std::map<std::string, int> all;
        for (auto [word, count] : words.range(view))
            all.emplace(word, unpack<int>(count));
        return all;
    });
    EXPECT(counts == (std::map<std::string, int>{{"sea", 8}, {"shore", 8}, {"the", 24}, {"tide", 8}}));
}

void task_6_take_a_job_and_store_its_result(const std::string &folder) {
    auto db = Database::open(folder + "/jobs.db");
    auto jobs = db.map("jobs"), numbers = db.map("numbers"), results = db.map("results");
    // A queue is a map with growing numbers, which do not start again when it has been empty.
    auto push = [&](Transaction &tx, const std::string &job) {
        auto last = numbers.get(tx, "jobs");
        auto number = pack(last ? unpack<int>(*last) + 1 : 1);
        numbers.put(tx, "jobs", number);
        jobs.put(tx, number, job);
    };
    db.write([&](Transaction &tx) {
        for (const char *job : {"job 1", "job 2", "job 3"})
            push(tx, job);
    });
    auto work = [&](bool is_working) {
        return db.write([&](Transaction &tx) {
            auto job = jobs.first(tx);
            if (!job)
                return false;
            jobs.remove(tx, job->key);
            results.put(tx, job->key, pack(job->value.size()));
            if (!is_working)
                throw std::runtime_error("it broke");
            return true;
        });
    };
    EXPECT(work(true));
    try {
        work(false);
        EXPECT(false);
    } catch (const std::runtime_error &) {
    }
    EXPECT(db.read([&](View &view) { return jobs.first(view); })->value == "job 2");
    while (work(true)) {
    }
    db.write([&](Transaction &tx) { push(tx, "a longer job"); });
    EXPECT(work(true));
    db.read([&](View &view) {
        EXPECT(!jobs.first(view) && results.get(view, pack(1)) == pack(5) && results.get(view, pack(4)) == pack(12));
    });
}

void task_7_export_while_others_write(const std::string &folder) {
    auto db = Database::open(folder + "/names.db");
    auto names = db.map("names");
    db.write([&](Transaction &tx) {
        for (int n = 0; n < 1000; n++)
            names.put(tx, pack(n), "name " + std::to_string(n));
    });
    std::vector<int> exported;
    std::thread exporting([&, snapshot = db.snapshot()] {
        for (auto [key, value] : names.range(snapshot))
            exported.push_back(unpack<int>(key));
    });
    for (int n = 0; n < 1000; n++)
        db.write([&](Transaction &tx) { names.remove(tx, pack(n)); });
    exporting.join();
    EXPECT(exported.size() == 1000 && exported.front() == 0 && exported.back() == 999);
    EXPECT(!db.read([&](View &view) { return names.first(view); }));
}

void task_8_load_many_rows_and_page_backwards(const std::string &folder) {
    auto db = Database::open(folder + "/articles.db");
    auto articles = db.map("articles");
    db.write([&](Transaction &tx) {
        for (int n = 0; n < 50000; n++)
            articles.put(tx, pack(n), "article " + std::to_string(n));
    });
    // The page of ten articles before a given one, newest first.
    auto page = [&](int before) {
        return db.read([&](View &view) {
            std::vector<int> numbers;
            for (auto [key, value] : articles.reverse_range(view, {}, pack(before))) {
                numbers.push_back(unpack<int>(key));
                if (numbers.size() == 10)
                    break;
            }
            return numbers;
        });
    };
    EXPECT(page(50000).front() == 49999 && page(50000).size() == 10);
    EXPECT(page(5) == (std::vector<int>{4, 3, 2, 1, 0}));
}

void task_9_change_a_struct_and_a_key(const std::string &folder) {
    {
        auto db = Database::open(folder + "/books.db");
        auto books = db.map("books"); // Name, pages.
        db.write([&](Transaction &tx) { books.put(tx, pack(7), pack("Tides", 320)); });
    }
    // The next release of the program: title, pages, authors.
    auto db = Database::open(folder + "/books.db");
    {
        auto books = db.map("books"), new_books = db.map("books 2");
        db.write([&](Transaction &tx) {
            for (auto [key, value] : books.range(tx)) {
                auto [title, pages] = unpack<std::string, std::uint16_t>(value);
                new_books.put(tx, key, pack(title, pages, std::vector<std::string>{}));
            }
        });
        db.remove("books");
    }
    // The one after that: by title.
    auto books = db.map("books 2"), by_title = db.map("books 3");
    db.write([&](Transaction &tx) {
        for (auto [key, value] : books.range(tx)) {
            int number = unpack<int>(key);
            auto [title, pages, authors] = unpack<std::string, std::uint32_t, std::vector<std::string>>(value);
            by_title.put(tx, title, pack(number, pages, authors));
        }
    });
    db.remove("books 2");
    auto tides = db.read([&](View &view) { return by_title.get(view, "Tides"); });
    EXPECT(std::get<1>(unpack<int, std::uint32_t, std::vector<std::string>>(*tides)) == 320);
    EXPECT(db.names() == std::vector<std::string>{"books 3"});
}

void task_10_back_up_and_restore(const std::string &folder) {
    std::string path = folder + "/sold.db", backup = folder + "/monday.db";
    {
        auto db = Database::open(path);
        auto sold = db.map("sold");
        db.write([&](Transaction &tx) { sold.put(tx, "bolt", "7"); });
        db.backup(backup);
        db.write([&](Transaction &tx) { sold.remove(tx, "bolt"); }); // A mistake.
        db.close();
    }
    Database::restore(backup, path, OldFiles::keep);
    auto db = Database::open(path);
    auto sold = db.map("sold");
    EXPECT(db.read([&](View &view) { return sold.get(view, "bolt"); }) == "7");
    EXPECT(db.check().empty());
    auto old = Database::open_existing(path + ".replaced");
    auto old_sold = old.map("sold");
    EXPECT(!old.read([&](View &view) { return old_sold.first(view); }));
}

void task_11_say_how_the_database_is(const std::string &folder) {
    auto db = Database::open(folder + "/status.db");
    auto sold = db.map("sold");
    db.write([&](Transaction &tx) { sold.put(tx, "bolt", "7"); });
    auto snapshot = db.snapshot();
    Usage usage = db.usage();
    std::ostringstream status;
    status << usage.allocated_bytes << " of " << usage.total_bytes << " bytes in use, " << usage.disk_bytes
           << " on disk, " << usage.snapshots << " snapshots, " << usage.replayed << " transactions recovered, tables:";
    for (const std::string &name : db.names())
        status << ' ' << name;
    EXPECT(status.str().find("1 snapshots, 0 transactions recovered, tables: sold") != std::string::npos);
    EXPECT(usage.allocated_bytes > 0 && usage.allocated_bytes <= usage.total_bytes && usage.disk_bytes > 0);
}

void task_12_go_on_after_failures(const std::string &folder) {
    std::string path = folder + "/small.db";
    Options options;
    options.size = 16 << 20;
    options.domain = STRANDLINE_PROCESS;
    auto db = Database::open(path, options);
    try {
        Database::open(path, options);
        EXPECT(false);
    } catch (const Error &error) {
        EXPECT(error.code() == STRANDLINE_LOCKED);
    }

    auto rows = db.map("rows");
    int stored = 0, code = 0;
    while (code == 0)
        try {
            db.write([&](Transaction &tx) { rows.put(tx, pack(stored), std::string(100000, 'x')); });
            stored++;
        } catch (const Error &error) {
            code = error.code();
        }
    EXPECT(code == STRANDLINE_FULL && stored > 10);
    // Make room, and go on.
    db.write([&](Transaction &tx) {
        for (int n = 0; n < stored / 2; n++)
            rows.remove(tx, pack(n));
    });
    db.write([&](Transaction &tx) { rows.put(tx, pack(stored), std::string(50000, 'y')); });

    // Events that need not be on the disk one by one.
    auto events = db.map("events");
    std::optional<Ticket> last;
    for (int number = 0; number < 100; number++)
        last = db.write_later([&](Transaction &tx) { events.put(tx, pack(number), "event"); });
    last->wait();
    db.close();
    try {
        db.read([&](View &view) { return rows.first(view); });
        EXPECT(false);
    } catch (const Error &error) {
        EXPECT(error.code() == STRANDLINE_CLOSED);
    }
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 2)
        return 2;
    std::string folder = argv[1];
    task_1_count_visits_over_restarts(folder);
    task_2_look_up_structs_by_place_and_time(folder);
    task_3_limit_memory_and_refuse_a_wrong_file(folder);
    task_4_move_money_or_refuse_it_whole(folder);
    task_5_count_words_with_eight_threads(folder);
    task_6_take_a_job_and_store_its_result(folder);
    task_7_export_while_others_write(folder);
    task_8_load_many_rows_and_page_backwards(folder);
    task_9_change_a_struct_and_a_key(folder);
    task_10_back_up_and_restore(folder);
    task_11_say_how_the_database_is(folder);
    task_12_go_on_after_failures(folder);
    std::puts("all is well");
    return 0;
}
