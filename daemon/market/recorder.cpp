#include "daemon/market/recorder.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "daemon/log.hpp"

namespace gf {
namespace {

constexpr Millis kSightsEvery = std::chrono::minutes{10};  // what a crash may cost of a state that did not change
constexpr Millis kAgeEvery = std::chrono::minutes{1};
constexpr Millis kTidyEvery = std::chrono::hours{1};
constexpr std::chrono::seconds kOpenAgain{60};

}  // namespace

MarketRecorder::MarketRecorder(RecorderOptions options) : options_(std::move(options)) {}

MarketRecorder::~MarketRecorder() { stop(); }

void MarketRecorder::start() {
    thread_ = std::thread([this] { run(); });
}

void MarketRecorder::stop() {
    {
        const std::scoped_lock lock(mutex_);
        stopping_ = true;
    }
    wake_.notify_all();
    if (thread_.joinable()) thread_.join();
}

void MarketRecorder::seen(MarketLook look) {
    {
        const std::scoped_lock lock(mutex_);
        if (stopping_) {
            ++dropped_;
            return;
        }
        queue_.push_back(std::move(look));
        if (queue_.size() > options_.looks_most) {
            queue_.pop_front();
            ++dropped_;
        }
    }
    wake_.notify_one();
}

void MarketRecorder::run() {
    keep_house();  // opens the file, and what was carried over a long absence is unknown before anybody reads it
    while (true) {
        std::deque<MarketLook> looks;
        bool last = false;
        {
            std::unique_lock lock(mutex_);
            wake_.wait_for(lock, options_.beat, [&] { return stopping_ || !queue_.empty(); });
            looks.swap(queue_);
            last = stopping_;
        }
        for (const MarketLook& look : looks) take(look);
        if (last) sights_next_ = {};
        keep_house();
        if (last) break;
    }
    store_.reset();
}

void MarketRecorder::take(const MarketLook& look) {
    if (!ready()) {
        ++dropped_;
        return;
    }
    const HeldKeys held = options_.held ? options_.held() : HeldKeys{};
    ++(write(book_->look(look, held)) ? looks_ : dropped_);
}

void MarketRecorder::keep_house() {
    if (!ready()) return;
    const Instant now = options_.now();
    if (now >= aged_next_) {
        aged_next_ = now + kAgeEvery;
        if (!write(book_->age(now))) return;
    }
    if (now >= sights_next_) {
        const auto sights = book_->seen_after(sights_written_);
        if (!sights.empty()) {
            if (const auto written = store_->write({}, sights); !written) return trouble(written.error());
        }
        // Looks of slow markets come later than younger ones of others.
        sights_written_ = book_->newest() - kSightsEvery;
        sights_next_ = now + kSightsEvery;
    }
    if (now >= tidy_next_) {
        const auto done = store_->tidy(now, options_.policy);
        if (!done) return trouble(done.error());
        // In small pieces: looks come first.
        tidy_next_ = *done > 0 ? now : now + kTidyEvery;
    }
}

bool MarketRecorder::ready() {
    std::error_code unreadable;
    const auto folder = std::filesystem::path(options_.path).parent_path();
    const auto space = std::filesystem::space(folder, unreadable);
    if (!unreadable && space.available < static_cast<std::uintmax_t>(options_.disk_least)) {
        trouble({.kind = ErrorKind::full,
                 .message = "less than " + std::to_string(options_.disk_least >> 20) + " MiB of disk are free; the history waits"});
        return false;
    }
    if (!store_) {
        const auto real = std::chrono::steady_clock::now();
        if (real < open_next_) return false;
        open_next_ = real + kOpenAgain;
        if (!open()) return false;
    }
    if (!book_) {
        auto kept = store_->remembered(options_.now() - MarketBook::kForgotten, MarketBook::kKeysMost);
        if (!kept) {
            trouble(kept.error());
            return false;
        }
        book_ = std::make_unique<MarketBook>();
        for (const auto& row : *kept) book_->restore(row.sight, row.last);
        sights_written_ = book_->newest() - kSightsEvery;
    }
    return true;
}

bool MarketRecorder::open() {
    auto opened = open_market_store(options_.path);
    if (!opened && opened.error().kind == ErrorKind::malformed) {
        trouble(opened.error());
        set_aside();
        opened = open_market_store(options_.path);
    }
    if (!opened) {
        trouble(opened.error());
        return false;
    }
    store_ = std::move(*opened);
    return true;
}

void MarketRecorder::set_aside() {
    store_.reset();
    book_.reset();
    std::error_code failed;
    std::filesystem::rename(options_.path, options_.path + ".damaged", failed);
    std::filesystem::remove(options_.path + "-wal", failed);
    std::filesystem::remove(options_.path + "-shm", failed);
    ++set_aside_;
    // A new file at once, but not again and again on a disk that spoils them all.
    const auto real = std::chrono::steady_clock::now();
    if (real >= set_aside_quiet_) open_next_ = {};
    set_aside_quiet_ = real + kOpenAgain;
    log::warn("market.history_set_aside", {{"file", options_.path + ".damaged"}});
}

bool MarketRecorder::write(const std::vector<MarketChange>& changes) {
    if (changes.empty()) return true;
    if (const auto written = store_->write(changes, {}); !written) {
        trouble(written.error());
        return false;
    }
    changes_ += static_cast<std::int64_t>(changes.size());
    over();
    return true;
}

void MarketRecorder::trouble(const Error& error) {
    // Once for each kind of trouble: a full disk stays full for days.
    if (const std::string kind{text(error.kind)}; kind != trouble_) {
        trouble_ = kind;
        log::warn("market.history_not_written", {{"file", options_.path}, {"kind", kind}, {"error", error.message}});
    }
    // What the book has told is not in the file.
    book_.reset();
    if (error.kind == ErrorKind::malformed && store_) set_aside();
}

void MarketRecorder::over() {
    if (trouble_.empty()) return;
    log::info("market.history_written_again", {{"file", options_.path}});
    trouble_.clear();
}

}  // namespace gf
