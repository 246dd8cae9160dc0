// Records what the markets offer: looks come in from the threads that made them, a thread of its own takes them into the book
// (scheduler/market_book.hpp) and writes what changed to history.db (db/market_store.hpp). Nobody waits for it: what comes faster than
// it can be taken in is dropped, the oldest first, and counted.
//
// Nothing here is a promise. A file that cannot be read is set aside as history.db.damaged and a new one begun; on a disk without room
// nothing is written until there is. What could not be written is a gap: the book is read back from the file, so that file and book
// never say different things.
#pragma once
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "db/market_store.hpp"
#include "scheduler/market_book.hpp"

namespace gf {

struct RecorderOptions {
    std::string path;                   // of history.db
    MarketPolicy policy;
    std::function<Instant()> now;       // the core's time; any thread
    std::function<HeldKeys()> held;     // what machines of ours use up; called on the recorder's thread, may block; may be empty
    std::size_t looks_most{64};         // waiting
    std::int64_t disk_least{256 << 20};  // bytes that are left free for those who need them more
    std::chrono::milliseconds beat{1000};  // real time between two rounds of housekeeping
};

class MarketRecorder {
 public:
    explicit MarketRecorder(RecorderOptions options);
    ~MarketRecorder();
    MarketRecorder(const MarketRecorder&) = delete;
    MarketRecorder& operator=(const MarketRecorder&) = delete;

    void start();
    /// Takes in what waits, writes it and closes the file. Idempotent.
    void stop();
    /// Any thread; never blocks beyond a short lock. Before `start` looks wait, after `stop` they are dropped.
    void seen(MarketLook look);

    struct Counters {
        std::int64_t looks{0};      // taken in
        std::int64_t dropped{0};    // looks that were not: too many waited, or the file could not be written
        std::int64_t changes{0};    // written
        std::int64_t set_aside{0};  // damaged files
    };
    [[nodiscard]] Counters counters() const { return {looks_, dropped_, changes_, set_aside_}; }

 private:
    void run();
    void take(const MarketLook& look);
    void keep_house();
    /// False = there is no file that book and store agree on, and no look can be taken in now.
    bool ready();
    bool open();
    void set_aside();
    bool write(const std::vector<MarketChange>& changes);
    void trouble(const Error& error);
    void over();

    RecorderOptions options_;
    std::thread thread_;
    // Of the thread alone.
    std::unique_ptr<MarketStore> store_;
    std::unique_ptr<MarketBook> book_;
    Instant sights_written_{};   // of looks up to here
    Instant sights_next_{};
    Instant aged_next_{};
    Instant tidy_next_{};
    std::chrono::steady_clock::time_point open_next_{};
    std::chrono::steady_clock::time_point set_aside_quiet_{};  // until then a file that was set aside is not replaced at once
    std::string trouble_;        // told last; empty = none

    std::mutex mutex_;  // guards queue_, stopping_
    std::condition_variable wake_;
    std::deque<MarketLook> queue_;
    bool stopping_{false};
    std::atomic<std::int64_t> looks_{0}, dropped_{0}, changes_{0}, set_aside_{0};
};

}  // namespace gf
