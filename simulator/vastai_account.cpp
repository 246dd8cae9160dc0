// The account: credit, keys, charges (page sections 2, 8, 10 and 11).
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "simulator/vastai_face.hpp"

namespace gf::sim {

namespace {

using nlohmann::json;

Instant of_unix(double seconds) {
    return instant_of(static_cast<std::int64_t>(seconds * 1000.0));
}

}  // namespace

HttpResponse VastaiFace::current_user() {
    const auto credit = dollars_float(world_.balance(Provider::vastai).micros);
    return json_response(200, {{"id", 481'516},
                               {"email", "ops@example.org"},
                               {"username", "ops"},
                               {"credit", credit},
                               {"balance", 0.0},
                               {"balance_threshold", 0.0},
                               {"balance_threshold_enabled", false},
                               {"ssh_key", account_keys_.empty() ? "" : account_keys_.back().second},
                               {"key_id", 90'210}});
}

HttpResponse VastaiFace::account_ssh(const HttpRequest& request, const Path& path) {
    if (path.size() == 2 && request.method == "GET") {
        if (account_keys_.empty()) return vast_error(404, "not_found", "No ssh keys found.");
        json rows = json::array();
        for (const auto& [id, key] : account_keys_) {
            rows.push_back({{"id", id},
                            {"user_id", 481'516},
                            {"key", key},
                            {"created_at", unix_seconds(world_.opened_at())},
                            {"deleted_at", nullptr}});
        }
        return json_response(200, rows);
    }
    if (path.size() == 2 && request.method == "POST") {
        const auto body = json::parse(request.body, nullptr, false);
        const auto key = body.is_object() ? body.value("ssh_key", std::string{}) : std::string{};
        if (key.empty()) return vast_error(400, "no_ssh_key", "No ssh key given.");
        account_keys_.emplace_back(next_key_++, key);
        return json_response(
            200, {{"success", true},
                  {"key", {{"id", account_keys_.back().first}, {"user_id", 481'516}, {"public_key", key}}}});
    }
    if (path.size() == 3 && request.method == "DELETE") {
        const auto gone = std::erase_if(
            account_keys_, [&](const auto& entry) { return std::to_string(entry.first) == path[2]; });
        if (gone == 0) return vast_error(404, "not_found", "No such key.");
        return json_response(200, {{"success", true}});
    }
    return vast_error(405, "invalid_request", "Method not allowed");
}

HttpResponse VastaiFace::charges(const HttpRequest& request) {
    const auto filters = json::parse(request.query_value("select_filters").value_or("{}"), nullptr, false);
    const auto day = filters.is_object() ? filters.value("day", json::object()) : json::object();
    if (!day.is_object() || !day.contains("gte") || !day.contains("lte") || !day["gte"].is_number() ||
        !day["lte"].is_number()) {
        return vast_error(400, "invalid_args", "error 400/3467: Invalid args: a day range is required");
    }
    const auto from = of_unix(day["gte"].get<double>());
    const auto to = of_unix(day["lte"].get<double>() + 1.0);
    std::size_t limit = 500;
    if (const auto text = request.query_value("limit")) {
        std::size_t value = 0;
        std::from_chars(text->data(), text->data() + text->size(), value);
        if (value > 0) limit = std::min(limit, value);
    }
    std::vector<json> rows;
    for (const auto& rental : world_.rentals()) {
        if (rental->provider != Provider::vastai) continue;
        world_.accrue(*rental);
        const auto part = rental->bill.within(from, to);
        // Traffic is counted once, with the contract's first day in range.
        const bool first_day = rental->created_at >= from && rental->created_at < to;
        const auto down = first_day ? rental->bill.traffic_down() : Usd{};
        const auto up = first_day ? rental->bill.traffic_up() : Usd{};
        const auto total = part.gpu + part.disk + down + up;
        if (total.micros == 0) continue;
        const auto start = std::max(from, rental->created_at);
        const auto end = std::min(to, rental->bill.billed_to());
        const auto hours = static_cast<double>(part.gpu_time.count()) / 3.6e6;
        const auto item = [&](const char* type, Usd amount, const std::string& text) {
            return json{{"start", static_cast<std::int64_t>(unix_seconds(start))},
                        {"end", static_cast<std::int64_t>(unix_seconds(end))},
                        {"type", type},
                        {"amount", dollars_float(amount.micros)},
                        {"description", text}};
        };
        json items = json::array(
            {item("gpu", part.gpu,
                  fmt::format("{:.3f} hours at ${:.3f}/hour", hours, dollars_float(rental->gpu_per_hour))),
             item("disk", part.disk, "storage")});
        if (down.micros > 0) items.push_back(item("bwd", down, "download"));
        if (up.micros > 0) items.push_back(item("bwu", up, "upload"));
        rows.push_back({{"start", static_cast<std::int64_t>(unix_seconds(start))},
                        {"end", static_cast<std::int64_t>(unix_seconds(end))},
                        {"type", "instance"},
                        {"source", "instance-" + rental->id},
                        {"description", "Instance " + rental->id + " Charges"},
                        {"amount", dollars_float(total.micros)},
                        {"metadata", {{"label", rental->name}}},
                        {"items", items}});
    }
    if (request.query_value("latest_first") == "true") std::ranges::reverse(rows);
    std::size_t first = 0;
    if (const auto token = request.query_value("after_token"); token && !token->empty()) {
        std::from_chars(token->data(), token->data() + token->size(), first);
        first = std::min(first, rows.size());
    }
    const auto end = std::min(rows.size(), first + limit);
    const auto at = [&](std::size_t i) { return rows.begin() + static_cast<std::ptrdiff_t>(i); };
    return json_response(200, {{"success", true},
                               {"count", end - first},
                               {"total", rows.size()},
                               {"next_token", end < rows.size() ? json(std::to_string(end)) : json(nullptr)},
                               {"results", std::vector<json>(at(first), at(end))}});
}

HttpResponse VastaiFace::invoices(const HttpRequest& request) {
    const auto filters = json::parse(request.query_value("select_filters").value_or("{}"), nullptr, false);
    if (!filters.is_object() || !filters.contains("when")) {
        // An invalid range is HTTP 200.
        return json_response(
            200, {{"success", false}, {"error", "Invalid date range"}, {"msg", "Invalid date range"}});
    }
    return json_response(
        200,
        {{"success", true}, {"count", 0}, {"total", 0}, {"next_token", nullptr}, {"results", json::array()}});
}

void VastaiFace::propose_price(Rental& rental, std::int64_t gpu_per_hour) {
    proposals_.push_back({.id = next_proposal_++, .rental = rental.id, .gpu_per_hour = gpu_per_hour});
}

HttpResponse VastaiFace::price_increases(const HttpRequest& request, const Path& path) {
    std::erase_if(proposals_, [&](const Proposal& p) { return live(p.rental) == nullptr; });
    if (path[2] == "pending-price-increases" && request.method == "GET") {
        json rows = json::array();
        for (const auto& proposal : proposals_) {
            auto* rental = live(proposal.rental);
            const auto* host = world_.market().host(rental->host);
            rows.push_back({{"pending_price_increase_id", proposal.id},
                            {"contract_id", rental->contract},
                            {"host_id", host == nullptr ? 0 : host->host_owner},
                            {"new_gpu_costpersec", dollars_float(proposal.gpu_per_hour) / 3600.0},
                            {"old_gpu_costpersec", dollars_float(rental->gpu_per_hour) / 3600.0},
                            {"contract_end_date", unix_seconds(rental->lease_end)}});
        }
        return json_response(200, {{"success", true},
                                   {"count", rows.size()},
                                   {"truncated", false},
                                   {"pending_price_increases", rows}});
    }
    if (request.method != "PUT") return vast_error(405, "invalid_request", "Method not allowed");
    const auto body = json::parse(request.body, nullptr, false);
    const auto id = body.is_object() ? body.value("pending_price_increase_id", std::int64_t{0}) : 0;
    const auto it = std::ranges::find(proposals_, id, &Proposal::id);
    if (it == proposals_.end())
        return vast_error(404, "no_pending_price_increase", "No pending price increase with that ID.");
    if (path[2] == "accept-price-increase") {
        world_.set_rate(*live(it->rental), it->gpu_per_hour);
    } else if (path[2] != "reject-price-increase") {
        return vast_error(404, "not_found", "No such call.");
    }
    proposals_.erase(it);
    return json_response(200, {{"success", true}});
}

}  // namespace gf::sim
