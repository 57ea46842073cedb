// A daemon in C++17: threads count events in one database while another reads snapshots of it, until SIGTERM or SIGINT comes. Started again, it
// goes on from what it had counted.
//
//   c++ -std=c++17 daemon.cpp $(pkg-config --cflags --libs strandline) -pthread -o daemon
//   ./daemon /tmp/events.db & sleep 1; kill $!; wait
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <exception>
#include <iostream>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include <strandline.hpp>

namespace {

constexpr int counters = 3;

// A number as the value of a map.
std::uint64_t number(const std::optional<std::string> &value) {
    std::uint64_t number = 0;
    if (value && value->size() == sizeof number)
        std::memcpy(&number, value->data(), sizeof number);
    return number;
}

strandline::Bytes bytes(const std::uint64_t &number) { return {&number, sizeof number}; }

class Daemon {
public:
    explicit Daemon(const std::string &path)
        : db_(strandline::Database::open(path)), events_(db_.map("events")) {}

    // Runs until one of the signals comes or a thread fails; returns whether all went well.
    bool run(const sigset_t &signals) {
        say("opened with " + std::to_string(total()) + " events");
        std::vector<std::thread> threads;
        for (int counter = 0; counter < counters; counter++)
            threads.emplace_back([this, counter] { guarded([&] { count(counter); }); });
        threads.emplace_back([this] { guarded([&] { report(); }); });

        int signal = 0;
        sigwait(&signals, &signal);
        is_stopping_ = true;
        for (std::thread &thread : threads)
            thread.join(); // Each ends after the transaction that it is in.
        say("closed with " + std::to_string(total()) + " events");
        db_.close(); // No thread uses it any more. An error is an exception.
        return !has_failed_;
    }

private:
    // Counts events of its own kind and of all kinds. Both counters change, or none does.
    void count(int counter) {
        const std::string own = "counter " + std::to_string(counter);
        while (!is_stopping_) {
            db_.write([&](strandline::Transaction &tx) {
                // Counters of other threads meet here: then the body runs again.
                events_.put(tx, own, bytes(number(events_.get(tx, own)) + 1));
                events_.put(tx, "total", bytes(number(events_.get(tx, "total")) + 1));
            });
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    }

    // Reads snapshots, for which the counters do not wait, and checks that each is consistent.
    void report() {
        while (!is_stopping_) {
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
            strandline::Snapshot snapshot = db_.snapshot();
            std::uint64_t sum = 0;
            for (auto [key, value] : events_.range(snapshot, "counter ", "counter~"))
                sum += number(std::string(value));
            if (sum != number(events_.get(snapshot, "total")))
                throw std::runtime_error("the counters are not the total");
            say("snapshot of " + std::to_string(sum) + " events");
        }
    }

    std::uint64_t total() const {
        return db_.read([&](strandline::View &view) { return number(events_.get(view, "total")); });
    }

    // An exception in a thread stops the daemon, which then shuts down as on a signal.
    template <class Work>
    void guarded(Work work) {
        try {
            work();
        } catch (const std::exception &error) {
            say(std::string("failed: ") + error.what());
            has_failed_ = true;
            kill(getpid(), SIGTERM);
        }
    }

    void say(const std::string &line) {
        std::lock_guard lock(output_);
        std::cout << line << std::endl;
    }

    strandline::Database db_;
    strandline::Map events_;
    std::atomic<bool> is_stopping_ = false, has_failed_ = false;
    std::mutex output_;
};

} // namespace

int main(int argc, char **argv) {
    if (argc != 2) {
        std::cerr << "usage: daemon FILE\n";
        return 2;
    }
    // Before the database is opened: its threads inherit this mask too, so that the signals come to sigwait alone.
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    try {
        return Daemon(argv[1]).run(signals) ? 0 : 1;
    } catch (const std::exception &error) {
        std::cerr << error.what() << '\n';
        return 1;
    }
}
