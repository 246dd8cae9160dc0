// GF_SIM_SEEDS = how many seeds (default 200), GF_SIM_FIRST = the first one, GF_SIM_SEED = just this one, told in detail.
#include <doctest/doctest.h>

#include <cstdlib>
#include <iostream>

#include "tests/sim/simulation.hpp"

namespace gf::sim {
namespace {

std::uint64_t number(const char* name, std::uint64_t otherwise) {
    const char* value = std::getenv(name);
    return value ? std::strtoull(value, nullptr, 10) : otherwise;
}

TEST_CASE("the promises hold in every seed, and everything settles once the faults stop") {
    const std::uint64_t only = number("GF_SIM_SEED", 0);
    const std::uint64_t first = only ? only : number("GF_SIM_FIRST", 1);
    const std::uint64_t count = only ? 1 : number("GF_SIM_SEEDS", 200);
    Report all;
    int broken = 0;
    for (std::uint64_t seed = first; seed < first + count && broken < 10; ++seed) {
        try {
            const Report r = Simulation(seed, only != 0).run();
            all.jobs += r.jobs; all.succeeded += r.succeeded; all.failed += r.failed; all.cancelled += r.cancelled;
            all.held += r.held; all.creates += r.creates; all.attempts += r.attempts; all.checkpoints += r.checkpoints;
            all.crashes += r.crashes; all.failed_commits += r.failed_commits; all.kill_points += r.kill_points;
            all.steps += r.steps; all.batched += r.batched; all.billed_micros += r.billed_micros; all.ledger_micros += r.ledger_micros;
            all.simulated_hours += r.simulated_hours;
        } catch (const Violation& v) {
            ++broken;
            std::cout << v.text << "\n  replay: scripts/sim --seed " << seed << "\n";
        }
    }
    CHECK(broken == 0);
    std::cout << "simulation: seeds " << first << ".." << first + count - 1 << ", " << all.simulated_hours << " hours, "
              << all.steps << " steps, " << all.jobs << " jobs (" << all.succeeded << " succeeded, " << all.failed
              << " failed, " << all.cancelled << " cancelled, " << all.held << " held), " << all.attempts << " attempts, "
              << all.creates << " machines, " << all.checkpoints << " checkpoints, " << all.crashes << " crashes, "
              << all.kill_points << " kill points, " << all.batched << " events committed together with others, " << all.failed_commits << " failed commits, billed $"
              << dollars(all.billed_micros) << ", ledger $" << dollars(all.ledger_micros) << "\n";
    // A run that exercised nothing proves nothing.
    if (!only) {
        CHECK(all.succeeded > 0);
        CHECK(all.checkpoints > 0);
        if (count >= 50) {
            CHECK(all.crashes > 0);
            CHECK(all.kill_points > 0);
            CHECK(all.failed_commits > 0);
            CHECK(all.batched > 0);
        }
    }
}

TEST_CASE("the same seed gives the same trace") {
    for (const std::uint64_t seed : {3ULL, 11ULL, 42ULL})
        CHECK(Simulation(seed).run().trace_hash == Simulation(seed).run().trace_hash);
}

}  // namespace
}  // namespace gf::sim
