// Every duration and limit the core decides by. The defaults are those of the configuration (config/settings.hpp); the
// runtime fills this from the parsed configuration and keeps it unchanged while it runs.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>

#include "config/settings.hpp"
#include "model/money.hpp"
#include "model/strong.hpp"
#include "model/time.hpp"
#include "scheduler/card_speed.hpp"
#include "scheduler/gpu_names.hpp"

namespace gf {

struct CoreSettings {
    std::string install;                        // 8 characters of [a-z0-9]: the middle of our tags
    Millis sweep{Seconds{10}};                  // between listings of a provider
    Millis offers{Seconds{30}};                 // between market reads while something waits
    Millis market_every{0};                     // looks at a market for its record alone; 0 = none
    Millis offers_fresh{Seconds{10}};           // an offer older than this is not rented
    Millis offers_patience{Seconds{15}};        // how long placement waits for a provider's market read
    std::map<std::string, Millis> settle;       // per provider: how long a new machine may stay out of listings
    Millis settle_default{Seconds{120}};
    Millis settle_alone{Seconds{300}};          // the same when we have no live machine there to compare with
    Millis unknown_move{Seconds{600}};          // after this the task goes elsewhere
    Millis patience{Seconds{600}};              // interrupted machine without a checkpoint elsewhere
    Millis start{Seconds{1200}};                // from create to the agent's first word
    Millis machine_check{Seconds{120}};         // from the agent's first word to the start of the command's preparation
    Millis heartbeat{Seconds{10}};
    Millis silence{Seconds{90}};
    Millis long_silence{Seconds{1800}};
    Millis cooldown{Seconds{600}};              // offer or host after a refusal or fault
    Millis backoff_first{Seconds{2}};
    Millis backoff_max{Seconds{300}};
    Millis destroy_alert{Seconds{300}};
    Millis alert_repeat{Seconds{3600}};
    Millis dead_man{Seconds{7200}};
    Millis balance{Seconds{60}};
    Millis idle_machine{Seconds{300}};
    Millis stop_slack{Seconds{30}};             // beyond the grace before a stop is forced
    Millis reservation{Seconds{3600}};          // rolling reservation when no run time is given
    Millis reservation_renew{Seconds{2700}};    // renewed when less than this is left
    Millis destroy_allowance{Seconds{600}};     // part of each reservation
    Millis checkpoint_every{Seconds{600}};      // when the spec says auto
    Millis decision_write{Seconds{30}};         // an unchanged wait reason is not written more often
    int losses_without_progress{5};
    int machines_max{50};
    std::optional<UsdPerHour> usd_per_hour_max{UsdPerHour{40'000'000}};
    std::map<std::string, ProviderQuotaSettings> provider_quotas;
    std::map<std::string, int> project_weights;  // others have 1
    OrphanPolicy orphans{OrphanPolicy::report};
    std::set<std::string> reached_providers;    // whose machines reach us, by advertise_url or by a tunnel; local always does
    bool cuda_probe_required{true};
    bool cuda_probe_off{false};
    double time_scale{1};
    std::set<std::string> agent_archs{"amd64"};
    const GpuNames* gpus{nullptr};              // the card table; outlives the core
    const CardSpeeds* card_speeds{nullptr};     // how fast cards are beside each other; outlives the core; null = ranked by price alone
};

}  // namespace gf
