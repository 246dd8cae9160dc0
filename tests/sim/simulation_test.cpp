// GF_SIM_SEEDS = twice how many seeds (default 200) for plain providers and for each kind, GF_SIM_FIRST = the first one,
// GF_SIM_SEED = just this one, told in detail; GF_SIM_LIKE = against this kind of provider only.
#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "tests/sim/simulation.hpp"

namespace gf::sim {
namespace {

std::uint64_t number(const char* name, std::uint64_t otherwise) {
    const char* value = std::getenv(name);
    return value ? std::strtoull(value, nullptr, 10) : otherwise;
}

std::string share(std::int64_t part, std::int64_t whole) {
    return std::to_string(whole == 0 ? 1.0 : static_cast<double>(part) / static_cast<double>(whole));
}

/// Runs `count` seeds and adds them up. With a profile, against a provider like that. Seeds share nothing, so that each core
/// takes the next one.
Report run(const Profile* like, std::uint64_t first, std::uint64_t count, bool tell) {
    Report all;
    int broken = 0;
    std::mutex adding;  // guards all and broken
    std::atomic<std::uint64_t> next{first};
    const auto work = [&] {
        for (std::uint64_t seed = next++; seed < first + count; seed = next++) {
            std::optional<Report> done;
            std::string trouble;
            try {
                done = Simulation(seed, tell, like).run();
            } catch (const Violation& v) {
                trouble = v.text;
            }
            const std::scoped_lock lock(adding);
            if (broken >= 10) return;
            if (!done) {
                ++broken;
                std::cout << trouble << "\n  replay: scripts/sim" << (like ? " --like " + like->name : "") << " --seed " << seed << "\n";
                continue;
            }
            const Report& r = *done;
            all.jobs += r.jobs; all.succeeded += r.succeeded; all.failed += r.failed; all.cancelled += r.cancelled;
            all.held += r.held; all.creates += r.creates; all.attempts += r.attempts; all.checkpoints += r.checkpoints;
            all.crashes += r.crashes; all.failed_commits += r.failed_commits; all.kill_points += r.kill_points;
            all.steps += r.steps; all.batched += r.batched; all.billed_micros += r.billed_micros; all.ledger_micros += r.ledger_micros;
            all.plain_billed_micros += r.plain_billed_micros; all.plain_ledger_micros += r.plain_ledger_micros;
            all.plain_machines += r.plain_machines; all.doubled += r.doubled; all.fenced += r.fenced; all.off_micros += r.off_micros; all.machines_off += r.machines_off; all.at_least_micros += r.at_least_micros; all.raises += r.raises; all.drifts += r.drifts;
            all.migrations += r.migrations; all.marks += r.marks; all.breaker_trips += r.breaker_trips; all.tidies += r.tidies;
            all.simulated_hours += r.simulated_hours;
        }
    };
    std::vector<std::jthread> others;
    for (unsigned i = 1; i < std::min(4U, std::thread::hardware_concurrency()) && !tell; ++i) others.emplace_back(work);
    work();
    others.clear();
    CHECK(broken == 0);
    std::cout << "simulation: " << (like ? "like " + like->name + ", " : "") << "seeds " << first << ".." << first + count - 1 << ", "
              << all.simulated_hours << " hours, " << all.steps << " steps, " << all.jobs << " jobs (" << all.succeeded << " succeeded, "
              << all.failed << " failed, " << all.cancelled << " cancelled, " << all.held << " held), " << all.attempts << " attempts, "
              << all.creates << " machines, " << all.checkpoints << " checkpoints, " << all.crashes << " crashes, "
              << all.kill_points << " kill points, " << all.batched << " events committed together with others, " << all.failed_commits
              << " failed commits, " << all.drifts << " drifted answers, " << all.migrations << " migrations, " << all.raises
              << " bids raised, " << all.marks << " host marks, " << all.breaker_trips << " breaker trips, " << all.tidies
              << " tidies, two agents alive for one task in " << all.doubled << " runs, " << all.fenced << " refusals of the older one, billed $" << dollars(all.billed_micros) << ", ledger $" << dollars(all.ledger_micros)
              << " ($" << dollars(all.at_least_micros) << " of the bill for machines marked \"at least\"), "
              << all.machines_off << " machines further off than 1 % or a unit and a poll; ledger/bill " << share(all.ledger_micros, all.billed_micros)
              << ", of the " << all.plain_machines << " machines whose bill met no trouble "
              << share(all.plain_ledger_micros, all.plain_billed_micros) << "\n";
    // A run that exercised nothing proves nothing.
    if (tell) return all;
    CHECK(all.succeeded > 0);
    CHECK(all.checkpoints > 0);
    if (count < 50) return all;
    CHECK(all.crashes > 0);
    CHECK(all.kill_points > 0);
    CHECK(all.failed_commits > 0);
    CHECK(all.batched > 0);
    CHECK(all.drifts > 0);
    CHECK(all.migrations > 0);
    CHECK(all.marks > 0);
    CHECK(all.tidies > 0);
    if (count < 500) return all;
    CHECK(all.doubled > 0);
    CHECK((like || all.fenced > 0));
    // Where nothing kept the daemon from looking, all ledgers together are the bill within 1 %.
    CHECK(std::abs(all.plain_ledger_micros - all.plain_billed_micros) <= all.plain_billed_micros / 100);
    return all;
}

const std::uint64_t kOnly = number("GF_SIM_SEED", 0);
const std::uint64_t kFirst = kOnly ? kOnly : number("GF_SIM_FIRST", 1);
const std::uint64_t kCount = kOnly ? 1 : number("GF_SIM_SEEDS", 200);

bool wanted(const std::string& like) {
    const char* asked = std::getenv("GF_SIM_LIKE");
    return asked ? like == asked : !kOnly || like.empty();
}

TEST_CASE("the promises hold in every seed, and everything settles once the faults stop") {
    if (wanted("")) run(nullptr, kFirst, kOnly ? 1 : (kCount + 1) / 2, kOnly != 0);
}

TEST_CASE("they hold against each kind of provider, and the ledger is what it bills") {
    for (const Profile& like : profiles()) {
        CAPTURE(like.name);
        if (!wanted(like.name)) continue;
        const Report all = run(&like, kFirst, kOnly ? 1 : (kCount + 1) / 2, kOnly != 0);
        if (kOnly || kCount < 100) continue;
        if (like.bids) CHECK(all.raises > 0);
        // Each machine is held to its own bill in `check_bills`; the sum, to what late and lost answers may add up to.
        CHECK(all.ledger_micros - all.billed_micros <= all.billed_micros / 25);
        CHECK(all.billed_micros - all.ledger_micros <= all.billed_micros / 50 + all.at_least_micros);
    }
}

TEST_CASE("the same seed gives the same trace") {
    for (const std::uint64_t seed : {3ULL, 11ULL, 42ULL})
        CHECK(Simulation(seed).run().trace_hash == Simulation(seed).run().trace_hash);
}

}  // namespace
}  // namespace gf::sim
