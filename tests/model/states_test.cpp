#include "model/states.hpp"

#include <doctest/doctest.h>

#include "model/result.hpp"
#include "model/secret.hpp"

namespace gf {
namespace {

TEST_CASE("every state has a text of its own that leads back to it") {
    for (const auto& [state, name] : EnumNames<JobState>::table) CHECK(enum_from<JobState>(name) == state);
    for (const auto& [state, name] : EnumNames<MachineState>::table) CHECK(enum_from<MachineState>(name) == state);
    for (const auto& [cause, name] : EnumNames<Cause>::table) CHECK(enum_from<Cause>(name) == cause);
    CHECK_FALSE(enum_from<JobState>("Queued").has_value());
}

TEST_CASE("what is over stays over, except by retry") {
    for (const auto& [to, name] : EnumNames<JobState>::table) {
        CAPTURE(name);
        CHECK(may_become(JobState::succeeded, to) == (to == JobState::succeeded));
        CHECK(may_become(JobState::failed, to) == (to == JobState::failed || to == JobState::queued));
    }
    for (const auto& [to, name] : EnumNames<AttemptState>::table) {
        CAPTURE(name);
        CHECK(may_become(AttemptState::ended, to) == (to == AttemptState::ended));
    }
}

TEST_CASE("a machine with an unknown outcome is never simply ready, and a destroying one never goes back to work") {
    CHECK_FALSE(may_become(MachineState::unknown, MachineState::ready));
    CHECK(may_become(MachineState::unknown, MachineState::booting));
    CHECK_FALSE(may_become(MachineState::destroying, MachineState::ready));
    CHECK_FALSE(may_become(MachineState::destroying, MachineState::busy));
    CHECK(may_become(MachineState::gone, MachineState::destroying));
}

TEST_CASE("a lost attempt can be placed again, a queued job cannot be running at once") {
    CHECK(may_become(JobState::running, JobState::recovering));
    CHECK(may_become(TaskState::running, TaskState::waiting));
    CHECK_FALSE(may_become(JobState::queued, JobState::running));
}

TEST_CASE("a secret prints as stars and is compared whole") {
    const Secret secret("hf_EXAMPLE");
    CHECK(text(secret) == "***");
    CHECK(secret.equals("hf_EXAMPLE"));
    CHECK_FALSE(secret.equals("hf_EXAMPLF"));
    CHECK_FALSE(secret.equals("hf_EXAMPL"));
    CHECK_FALSE(secret.equals(""));
}

TEST_CASE("an error keeps its kind and its text") {
    const Result<int> bad = fail(ErrorKind::unknown_outcome, "create timed out");
    REQUIRE_FALSE(bad.has_value());
    CHECK(bad.error().kind == ErrorKind::unknown_outcome);
    CHECK(text(bad.error().kind) == "unknown_outcome");
}

}  // namespace
}  // namespace gf
