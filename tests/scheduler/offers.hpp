// A plain offer, job and world that fit each other; a test changes the one thing that it is about.
#pragma once
#include <string>

#include "config/shipped.hpp"
#include "scheduler/choice.hpp"

namespace gf::test {

inline const GpuNames& gpu_names() {
    static const GpuNames names = [] {
        auto parsed = GpuNames::parse(shipped_gpus_csv(), shipped_aliases_csv());
        GF_ASSERT(parsed.has_value());
        return *std::move(parsed);
    }();
    return names;
}

inline constexpr Instant kNow = instant_of(1'790'000'000'000);

inline Bytes mib(std::int64_t n) {
    return Bytes{n * kMiB};
}

inline Offer offer(std::string provider = "vastai", std::string id = "1") {
    Offer o;
    o.provider = ProviderName{std::move(provider)};
    o.id = std::move(id);
    o.gpu = {.canonical = "RTX-4090", .provider_name = "RTX 4090", .memory = mib(24564)};
    o.gpu_count = 1;
    o.gpu_rate = UsdPerHour{300'000};
    o.country = "DE";
    return o;
}

inline ChoiceWorld world() {
    ChoiceWorld w;
    w.now = kNow;
    w.gpus = &gpu_names();
    w.local_allowed = true;
    w.reached_providers = {"lambda", "runpod", "vastai", "vultr"};
    return w;
}

inline JobSpec job() {
    JobSpec spec;
    spec.run = "true";
    return spec;
}

}  // namespace gf::test
