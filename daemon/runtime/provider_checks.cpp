#include "daemon/runtime/provider_checks.hpp"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

namespace gf {
namespace {

const std::string kOwn = "daemon";

std::vector<CheckLine> lines_of(const std::string& name, std::vector<Finding> findings) {
    std::vector<CheckLine> lines;
    for (auto& finding : findings) lines.push_back({name, std::move(finding)});
    if (lines.empty())
        lines.push_back({name, {.level = Finding::Level::warning, .what = "check", .text = "the check said nothing"}});
    return lines;
}

CheckLine no_answer(const std::string& name, std::chrono::milliseconds patience) {
    const auto seconds = std::to_string(std::chrono::duration_cast<std::chrono::seconds>(patience).count());
    return {name, {.level = Finding::Level::failed, .what = "check", .text = "no answer within " + seconds + " s"}};
}

}  // namespace

struct ProviderChecks::State {
    std::mutex mutex;  // guards all below
    std::condition_variable changed;
    std::vector<std::string> names;                                  // of the round, in the order of the answer
    std::map<std::string, std::optional<std::vector<CheckLine>>> got;  // of the round
    std::set<std::string> out;                                       // checks that have not come back, of any round
    std::vector<Done> waiting;
    std::chrono::steady_clock::time_point deadline;
    std::chrono::milliseconds patience{0};
    bool running{false};
    bool stopping{false};
};

ProviderChecks::ProviderChecks(Lanes& lanes, std::vector<Provider*> providers, std::function<std::vector<CheckLine>()> own,
                               std::chrono::milliseconds patience)
    : lanes_(lanes), providers_(std::move(providers)), own_(std::move(own)), state_(std::make_shared<State>()) {
    state_->patience = patience;
}

ProviderChecks::~ProviderChecks() { stop(); }

void ProviderChecks::ask(Done done) {
    std::vector<std::pair<std::string, Provider*>> to_ask;
    bool begins = false;
    {
        const std::scoped_lock lock(state_->mutex);
        State& s = *state_;
        if (!s.stopping) s.waiting.push_back(std::exchange(done, {}));
        if (!s.stopping && !s.running) {
            s.running = begins = true;
            s.deadline = std::chrono::steady_clock::now() + s.patience;
            s.names.clear();
            s.got.clear();
            if (own_) to_ask.emplace_back(kOwn, nullptr);
            for (Provider* p : providers_) to_ask.emplace_back(p->name().get(), p);
            for (const auto& [name, p] : to_ask) {
                s.names.push_back(name);
                s.got[name] = std::nullopt;
            }
            // A check of an earlier round that is still out answers this round as well, if it comes.
            std::erase_if(to_ask, [&s](const auto& entry) { return !s.out.insert(entry.first).second; });
        }
    }
    if (done) return done({});
    for (const auto& [name, p] : to_ask)
        lanes_.run(name + "/check", 1, [state = state_, name, p, own = p == nullptr ? own_ : nullptr] {
            auto lines = p == nullptr ? own() : lines_of(name, p->check());
            const std::scoped_lock lock(state->mutex);
            state->out.erase(name);
            if (const auto asked = state->got.find(name); asked != state->got.end()) asked->second = std::move(lines);
            state->changed.notify_all();
        });
    if (begins) lanes_.run("checks/round", 1, [state = state_] { gather(state); });
}

void ProviderChecks::gather(const std::shared_ptr<State>& state) {
    std::unique_lock lock(state->mutex);
    state->changed.wait_until(lock, state->deadline, [&] {
        return !state->running ||
               std::ranges::all_of(state->got, [](const auto& entry) { return entry.second.has_value(); });
    });
    finish(*state, std::move(lock));
}

void ProviderChecks::finish(State& state, std::unique_lock<std::mutex> lock) {
    if (!state.running) return;
    std::vector<CheckLine> lines;
    for (const auto& name : state.names) {
        const auto& answer = state.got[name];
        if (!answer) lines.push_back(no_answer(name, state.patience));
        else lines.insert(lines.end(), answer->begin(), answer->end());
    }
    state.running = false;
    const auto waiting = std::exchange(state.waiting, {});
    lock.unlock();
    for (const auto& done : waiting) done(lines);
}

void ProviderChecks::stop() {
    std::unique_lock lock(state_->mutex);
    state_->stopping = true;
    finish(*state_, std::move(lock));
    state_->changed.notify_all();
}

}  // namespace gf
