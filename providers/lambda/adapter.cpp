#include "providers/lambda/adapter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "model/id.hpp"
#include "providers/lambda/mapping.hpp"
#include "providers/throwaway_key.hpp"

namespace gf::lambda {
namespace {

std::vector<Secret> secrets_of(const LaunchRequest& request) {
    std::vector<Secret> out;
    if (const auto enrol = request.env.find("GPUFERRY_ENROL");
        enrol != request.env.end() && !enrol->second.empty())
        out.emplace_back(enrol->second);
    if (!request.ssh) return out;
    // Line by line: an echo of the request has its line ends in another form.
    const auto& pem = request.ssh->host_private.reveal();
    for (std::size_t at = 0; at < pem.size();) {
        const auto end = std::min(pem.find('\n', at), pem.size());
        if (end - at >= 8 && pem[at] != '-') out.emplace_back(pem.substr(at, end - at));
        at = end + 1;
    }
    return out;
}

ProviderMachine gone(const ProviderMachineId& id, std::string why) {
    ProviderMachine m;
    m.id = id;
    m.presence = Presence::gone;
    m.raw_state = std::move(why);
    return m;
}

}  // namespace

Adapter::Adapter(std::string api_url, Secret key, std::string install, HttpClient& http, Clock& clock,
                 GpuLookup lookup, std::uint64_t seed)
    : client_(std::move(api_url), std::move(key), http, clock, seed),
      install_(std::move(install)),
      lookup_(std::move(lookup)),
      proof_(clock) {}

Result<OfferList> Adapter::offers(const OfferQuery& query) {
    OfferList out;
    if (!query.on_demand) return out;
    const auto reply = client_.types();
    if (!reply.value) return fail(seen(read_error(reply.answer, "list instance types")));
    proof_.note();
    const std::set<std::int64_t> counts(query.gpu_counts.begin(), query.gpu_counts.end());
    for (const auto& row : reply.value->types) {
        if (row.type.gpus && !counts.contains(*row.type.gpus)) continue;
        if (row.type.gpus == 0) continue;  // a machine without a GPU is nothing that is rented here
        // What is sold out everywhere has no region to be rented in; the list is advisory, and a hint is all
        // it gives.
        if (row.regions.empty())
            out.rejected.push_back(
                {.id = row.type.name, .reason = row.type.problem.empty() ? "sold_out" : "malformed"});
        for (const auto& region : row.regions) {
            auto mapped = offer_of(row.type, region, lookup_);
            if (auto* offer = std::get_if<Offer>(&mapped))
                out.offers.push_back(std::move(*offer));
            else
                out.rejected.push_back(std::get<RejectedOffer>(std::move(mapped)));
        }
    }
    out.drift = types_watch_.look(reply.value->shapes);
    // What is left of such an answer is in dollars too: nothing to compare later prices with.
    if (auto drift = odd_prices(reply.value->types))
        out.drift.push_back(*std::move(drift));
    else
        market_canary_.look(out);
    return out;
}

LaunchOutcome Adapter::launch(const LaunchRequest& request) {
    // What cannot be launched at all must not register a key.
    if (auto possible = launch_call(request, ""); !possible)
        return {.id = {}, .error = possible.error(), .rate = {}};
    auto key = registered_key(request);
    if (!key) return {.id = {}, .error = seen(std::move(key).error()), .rate = {}};
    auto reply = client_.launch(*launch_call(request, *std::move(key)), secrets_of(request));
    settle_blame(reply.answer);
    {
        const std::lock_guard lock(keys_);
        --launching_;
        // It may be our key that is not there any more.
        if (says_no_such_object(reply.answer)) known_name_.clear();
    }
    if (reply.answer.ok() && reply.value) proof_.note();
    auto outcome = outcome_of(reply);
    if (outcome.error) outcome.error = seen(*std::move(outcome.error));
    return outcome;
}

Result<std::string> Adapter::registered_key(const LaunchRequest& request) {
    const std::lock_guard lock(keys_);
    const auto text = request.ssh ? key_text(request.ssh->client_public) : std::string();
    if (!known_name_.empty() && (text.empty() || text == known_text_)) {
        ++launching_;
        return known_name_;
    }
    const auto install = install_.empty() ? parse_machine_tag(request.tag.get()).install : install_;
    const auto pick = [&](const std::vector<SshKey>& keys) {
        return text.empty() ? find_own(keys, install) : find_key(keys, install, text);
    };
    const auto use = [&](const SshKey& key) -> std::string {
        known_name_ = key.name;
        known_text_ = key_text(key.public_key);
        ++launching_;
        return key.name;
    };
    const auto keys = client_.ssh_keys();
    if (!keys.value) return fail(before_launch(keys.answer, "list SSH keys"));
    if (const auto* key = pick(*keys.value)) return use(*key);

    auto line = request.ssh ? request.ssh->client_public : std::string();
    if (line.empty()) {
        auto made = throwaway_public_key();
        if (!made) return fail(std::move(made).error());
        line = *std::move(made);
    }
    const auto name = key_name(install, line);
    auto added = client_.add_ssh_key(name, line);
    settle_blame(added.answer);
    if (added.value) return use({.id = added.value->id, .name = name, .public_key = line});
    // Refused: another daemon of this installation may have been quicker. Which code that has is not known,
    // so look.
    if (added.answer.delivery == Delivery::answered && added.answer.status == 400)
        if (const auto again = client_.ssh_keys(); again.value)
            if (const auto* key = pick(*again.value)) return use(*key);
    return fail(before_launch(added.answer, "register an SSH key"));
}

Result<Listing> Adapter::list() {
    const auto reply = client_.instances();
    if (!reply.value) return fail(seen(read_error(reply.answer, "list instances")));
    proof_.note();
    Listing listing;
    for (const auto& instance : *reply.value) {
        auto machine = machine_of(instance, lookup_);
        // Rows may stay for a while after the end; a listing shows what is there.
        if (machine.presence != Presence::gone) listing.machines.push_back(std::move(machine));
    }
    rate_canary_.look(listing);
    return listing;
}

Result<ProviderMachine> Adapter::read(const ProviderMachineId& id) {
    auto reply = client_.instance(id.get());
    settle_blame(reply.answer);
    if (reply.value) {
        proof_.note();
        auto machine = machine_of(*reply.value, lookup_);
        rate_canary_.look(machine);
        return machine;
    }
    if (says_no_such_object(reply.answer)) {
        if (auto proved = prove_key(); !proved) return fail(std::move(proved).error());
        return gone(id, reply.answer.code);
    }
    if (says_not_found(reply.answer)) {
        // The code of a route that is not there. Only a whole listing without the instance, read now, makes
        // it one of an instance that is not there.
        const auto listed = list();
        if (!listed) return fail(listed.error());
        if (std::ranges::find(listed->machines, id, &ProviderMachine::id) == listed->machines.end())
            return gone(id, reply.answer.code);
    }
    return fail(seen(read_error(reply.answer, "read instance")));
}

Result<void> Adapter::destroy(const ProviderMachineId& id) {
    auto answer = client_.terminate(id.get());
    settle_blame(answer);
    if (answer.ok()) {
        proof_.note();
        return {};
    }
    if (says_no_such_object(answer)) return prove_key();
    // The second terminate of an instance is answered with an unknown error, one of an instance that is not
    // there perhaps with the code of a missing route, and a success need not name it.
    const bool odd_success =
        answer.delivery == Delivery::answered && answer.status >= 200 && answer.status < 300;
    if (may_be_terminating(answer) || says_not_found(answer) || odd_success)
        return settle_destroy(id, answer);
    return fail(seen(destroy_error(answer)));
}

Result<void> Adapter::settle_destroy(const ProviderMachineId& id, const Answer& answer) {
    const auto now = read(id);
    if (now && (now->presence == Presence::gone || is_ending(now->raw_state))) return {};
    return fail(seen(destroy_error(answer)));
}

Result<Usd> Adapter::balance() {
    return fail(ErrorKind::not_found, "Lambda tells no balance: it is paid by invoice every week");
}

Result<void> Adapter::rename(const ProviderMachineId& id, const std::string& name) {
    auto answer = client_.rename(id.get(), name);
    settle_blame(answer);
    if (!answer.ok()) return fail(seen(read_error(answer, "rename instance")));
    proof_.note();
    return {};
}

std::vector<Finding> Adapter::check() {
    using Level = Finding::Level;
    std::vector<Finding> out;
    const auto instances = client_.instances();
    if (!instances.value) {
        // The account is the matter of every call: what follows would only say it again.
        out.push_back(finding_of(instances.answer, "list instances"));
        return out;
    }
    proof_.note();
    out.push_back({.level = Level::ok, .what = "key", .text = "the key is good"});
    const auto ours = std::ranges::count_if(*instances.value, [&](const Instance& i) {
        return !install_.empty() && i.name.starts_with(own_prefix(install_));
    });
    out.push_back(
        {.level = Level::ok,
         .what = "listing",
         .text = fmt::format("{} instances, {} of this installation", instances.value->size(), ours)});
    const auto types = client_.types();
    if (!types.value) {
        out.push_back(finding_of(types.answer, "list instance types"));
    } else {
        const auto with_gpus = std::ranges::count_if(
            types.value->types, [](const TypeListing& row) { return row.type.gpus.value_or(0) > 0; });
        const auto free = std::ranges::count_if(types.value->types, [](const TypeListing& row) {
            return row.type.gpus.value_or(0) > 0 && !row.regions.empty();
        });
        out.push_back({.level = free > 0 ? Level::ok : Level::warning,
                       .what = "offers",
                       .text = fmt::format("{} types with GPUs, {} of them have capacity now{}", with_gpus,
                                           free, free > 0 ? "" : ": nothing can be rented at the moment")});
    }
    if (const auto keys = client_.ssh_keys(); !keys.value)
        out.push_back(finding_of(keys.answer, "list SSH keys"));
    else
        out.push_back(
            {.level = Level::ok,
             .what = "scope",
             .text = fmt::format("SSH keys can be read ({} registered); a launch registers one of its own",
                                 keys.value->size())});
    out.push_back({.level = Level::ok,
                   .what = "money",
                   .text = "Lambda tells no balance: it is paid by invoice every week, so set a budget"});
    return out;
}

Result<void> Adapter::tidy() {
    const std::lock_guard lock(keys_);
    if (install_.empty() || launching_ > 0) return {};
    const auto keys = client_.ssh_keys();
    if (!keys.value) return fail(seen(read_error(keys.answer, "list SSH keys")));
    if (find_own(*keys.value, install_) == nullptr) return {};
    const auto instances = client_.instances();
    if (!instances.value) return fail(seen(read_error(instances.answer, "list instances")));
    for (const auto& instance : *instances.value)
        if (instance.name.starts_with(own_prefix(install_)) && !is_over(instance.status)) return {};
    known_name_.clear();
    for (const auto& key : *keys.value) {
        if (!is_own_key(key, install_)) continue;
        const auto answer = client_.delete_ssh_key(key.id);
        if (!answer.ok() && !says_no_such_object(answer))
            return fail(seen(read_error(answer, "remove our SSH key")));
    }
    return {};
}

Result<void> Adapter::prove_key() {
    if (proof_.fresh()) return {};
    const auto reply = client_.instances();
    if (!reply.value)
        return fail(seen(read_error(reply.answer, "check the key before \"not there\" counts")));
    proof_.note();
    return {};
}

void Adapter::settle_blame(Answer& answer) {
    if (!doubts_key(answer)) return;
    proof_.revoke();
    answer.key_good = prove_key().has_value();
}

Error Adapter::seen(Error error) {
    if (error.kind == ErrorKind::auth) proof_.revoke();
    return error;
}

}  // namespace gf::lambda
