#include "providers/vultr/client.hpp"

#include <fmt/format.h>

#include <array>
#include <set>

#include "providers/json_reading.hpp"
#include "providers/redaction.hpp"

namespace gf::vultr {
namespace {

using nlohmann::json;

constexpr int kPageRows = 500;  // the server's maximum
constexpr int kPagesMax = 100;
constexpr Millis kPatience{Seconds{10}};
constexpr Millis kCreatePatience{Seconds{60}};

constexpr std::array kPlanFields{
    FieldRule{.path = "id", .kind = FieldKind::text, .required = true},
    FieldRule{.path = "ram", .kind = FieldKind::number, .required = true},
    FieldRule{.path = "hourly_cost", .kind = FieldKind::number},
    FieldRule{.path = "monthly_cost", .kind = FieldKind::number, .required = true},
    FieldRule{.path = "locations", .kind = FieldKind::list, .required = true},
    FieldRule{.path = "gpu_vram_gb", .kind = FieldKind::number}};

/// 30 calls a second are allowed from one address; a fifth of that is left for whoever else sits there.
PacerRules pacing() {
    return {.endpoints = {{.name = "destroy", .urgency = Urgency::destroy},
                          {.name = "create", .urgency = Urgency::machine},
                          {.name = "read", .urgency = Urgency::machine},
                          {.name = "list", .urgency = Urgency::listing},
                          {.name = "account", .urgency = Urgency::listing},
                          {.name = "search", .urgency = Urgency::search}},
            .account_wide = true,
            .interval_all = Millis{42}};
}

Price read_price_fields(FieldReader& r) {
    return {.monthly = r.number("monthly_cost"),
            .hourly = r.number("hourly_cost"),
            .monthly_preemptible = r.number("monthly_cost_preemptible"),
            .hourly_preemptible = r.number("hourly_cost_preemptible")};
}

std::vector<std::string> read_texts(const json* list) {
    std::vector<std::string> out;
    if (list == nullptr || !list->is_array()) return out;
    for (const auto& item : *list)
        if (item.is_string() && !item.get_ref<const std::string&>().empty())
            out.push_back(item.get<std::string>());
    return out;
}

Plan read_plan(const json& value, const std::string& path) {
    Plan plan;
    if (!value.is_object()) {
        plan.problem = path + ": expected an object";
        return plan;
    }
    FieldReader r(value, path);
    plan.id = r.text("id").value_or("");
    plan.price = read_price_fields(r);
    plan.on_demand = r.boolean("deploy_ondemand");
    plan.preemptible = r.boolean("deploy_preemptible");
    // An object by region; an empty one may be an empty array.
    if (const auto* costs = r.value("location_cost"); costs != nullptr && costs->is_object())
        for (const auto& item : costs->items()) {
            // What is wrong with the price in one region is no matter of the others.
            FieldReader c(item.value(), path + ".location_cost." + item.key());
            auto& here = plan.location_price[item.key()] = read_price_fields(c);
            here.malformed = c.problem() || !(item.value().is_object() || item.value().is_null());
        }
    if (r.problem()) plan.problem = *r.problem();
    FieldReader l(value, path);
    plan.type = l.text("type").value_or("");
    plan.vcpus = l.whole("vcpu_count");
    plan.ram_mb = l.quantity("ram");
    plan.disk_gb = l.quantity("disk");
    plan.locations = read_texts(l.value("locations"));
    plan.gpu_type = l.text("gpu_type").value_or("");
    if (const auto* count = l.value("gpu_count")) plan.gpu_count = number_text(*count).value_or("?");
    plan.gpu_vram_gb = l.quantity("gpu_vram_gb");
    return plan;
}

/// Identity and state strictly, because a listing that is wrong there must not be believed at all.
/// `default_password` and `kvm` are secrets and never read.
Result<Instance> read_instance(const json& value, const std::string& path) {
    if (!value.is_object())
        return fail(ErrorKind::malformed,
                    fmt::format("{}: expected an object, found {}", path, value.type_name()));
    Instance i;
    FieldReader r(value, path);
    i.id = r.text("id").value_or("");
    i.label = r.text("label").value_or("");
    i.status = r.text("status").value_or("");
    i.power_status = r.text("power_status").value_or("");
    i.server_status = r.text("server_status").value_or("");
    i.region = r.text("region").value_or("");
    i.plan = r.text("plan").value_or("");
    if (const auto* tags = r.value("tags")) {
        if (!tags->is_array()) return fail(ErrorKind::malformed, path + ".tags: expected an array");
        i.tags = read_texts(tags);
    }
    if (r.problem()) return fail(ErrorKind::malformed, *r.problem());
    if (i.id.empty()) return fail(ErrorKind::malformed, path + ".id is missing");
    if (i.status.empty()) return fail(ErrorKind::malformed, path + ".status is missing");
    FieldReader l(value, path);
    i.main_ip = l.text("main_ip").value_or("");
    i.date_created = l.text("date_created").value_or("");
    return i;
}

void not_as_documented(Answer& answer, std::string_view what) {
    answer.malformed = true;
    answer.text = shown(what);
}

/// The provider's own words of an answer, redacted.
void read_words(const std::string& text, std::span<const Secret> hidden, Answer& answer) {
    if (text.empty()) return;
    const auto body = parse_json(text);
    if (!body || !body->is_object()) {
        const auto why = body ? std::string("expected a JSON object") : body.error().message;
        answer.text = fmt::format("{}: {}", why, shown(text, hidden, 160));
        // A page that says 200 to a call that is answered without a body was not made by Vultr.
        answer.malformed = answer.status < 300;
        return;
    }
    answer.json = true;
    FieldReader r(*body, "");
    if (const auto error = r.text("error")) {
        // A body that names another status was not made for this answer.
        const auto stated = r.whole("status");
        answer.flat = !stated || *stated == answer.status;
        answer.text = shown(*error, hidden);
    } else if (answer.status >= 400) {
        answer.text = shown(text, hidden, 160);
    }
}

}  // namespace

struct Client::Pages {
    Answer answer;
    std::optional<json> rows;    // an array
    std::optional<Drift> drift;  // no `meta`: whether this is everything cannot be told
};

Client::Client(std::string api_url, Secret key, HttpClient& http, Clock& clock, std::uint64_t seed)
    : api_url_(std::move(api_url)), key_(std::move(key)), http_(http), pacer_(clock, seed, pacing()) {}

Client::Exchange Client::call(std::string_view endpoint, HttpRequest request, Millis patience,
                              std::span<const Secret> secrets) {
    Exchange out;
    if (!let_out(pacer_, endpoint, patience, out.answer)) return out;
    request.bearer = key_;  // also where none is needed: without one, stock is an empty list and plans lack
                            // their GPU fields
    auto response = sent(http_, request, out.answer);
    std::vector<Secret> hidden(secrets.begin(), secrets.end());
    hidden.push_back(key_);
    if (response.delivery == gf::Delivery::answered) read_words(response.body, hidden, out.answer);
    // Older copies of the documentation name 503 for "too many requests"; the pacer knows one number for it.
    if (response.status == 503 && out.answer.flat) response.status = 429;
    if (const auto wait = pacer_.learn(endpoint, response)) out.answer.retry_after = wait;
    out.body = std::move(response.body);
    return out;
}

Client::Pages Client::pages(std::string_view endpoint, const std::string& path, std::string_view query,
                            std::string_view key) {
    Pages out;
    json all = json::array();
    std::set<std::string> cursors;
    std::string cursor;
    for (int page = 0;; ++page) {
        auto url = fmt::format("{}{}?per_page={}{}", api_url_, path, kPageRows, query);
        if (!cursor.empty()) url += "&cursor=" + url_encoded(cursor);
        auto [answer, body] = call(endpoint, {.url = std::move(url)}, kPatience);
        out.answer = std::move(answer);
        if (!out.answer.ok()) {
            if (out.answer.success())
                not_as_documented(out.answer, fmt::format("{}: {}", path, out.answer.text));
            return out;
        }
        const auto json = parse_json(body);
        const auto rows = json->find(key);
        if (rows == json->end() || !rows->is_array()) {
            not_as_documented(out.answer, fmt::format("{} has no array `{}`", path, key));
            return out;
        }
        for (const auto& row : *rows) all.push_back(row);
        const auto* meta = FieldReader(*json, "").value("meta");
        const auto* links = meta == nullptr ? nullptr : FieldReader(*meta, "meta").value("links");
        if (links == nullptr || !links->is_object() || !links->contains("next") ||
            !(*links)["next"].is_string()) {
            out.drift =
                Drift{.what = "page_token_missing",
                      .detail = fmt::format("{}: no `meta.links.next` beside {} rows", path, rows->size())};
            break;
        }
        const auto total = FieldReader(*meta, "meta").whole("total");
        cursor = (*links)["next"].get<std::string>();  // opaque, no URL; empty = the end
        if (cursor.empty()) {
            out.drift = missing_pages(path, total, all.size());
            break;
        }
        if (page + 1 == kPagesMax || !cursors.insert(cursor).second) {
            not_as_documented(out.answer, path + " does not end");
            return out;
        }
    }
    out.rows = std::move(all);
    return out;
}

Reply<Plans> Client::plans(const std::string& type) {
    auto read = pages("search", "/plans", "&type=" + url_encoded(type), "plans");
    Reply<Plans> reply{.answer = std::move(read.answer), .value = {}};
    if (!read.rows) return reply;
    reply.value.emplace();
    reply.value->shapes = count_shapes(*read.rows, kPlanFields);
    if (read.drift) reply.value->drift.push_back(*std::move(read.drift));
    for (std::size_t i = 0; i < read.rows->size(); ++i)
        reply.value->plans.push_back(read_plan((*read.rows)[i], fmt::format("plans[{}]", i)));
    return reply;
}

Reply<std::vector<Region>> Client::regions() {
    auto read = pages("search", "/regions", "", "regions");
    Reply<std::vector<Region>> reply{.answer = std::move(read.answer), .value = {}};
    if (!read.rows) return reply;
    reply.value.emplace();
    for (const auto& row : *read.rows) {
        FieldReader r(row, "regions");
        Region region{.id = r.text("id").value_or(""), .country = r.text("country").value_or("")};
        if (!region.id.empty()) reply.value->push_back(std::move(region));
    }
    return reply;
}

Reply<std::vector<std::string>> Client::stock(const std::string& region) {
    auto [answer, body] =
        call("search", {.url = fmt::format("{}/regions/{}/availability", api_url_, url_encoded(region))},
             kPatience);
    Reply<std::vector<std::string>> reply{.answer = std::move(answer), .value = {}};
    if (!reply.answer.ok()) return reply;
    const auto json = parse_json(body);
    const auto plans = json->find("available_plans");
    if (plans == json->end() || !plans->is_array())
        not_as_documented(reply.answer, "the stock of a region has no array `available_plans`");
    else
        reply.value = read_texts(&*plans);
    return reply;
}

Reply<std::vector<System>> Client::systems() {
    auto read = pages("search", "/os", "", "os");
    Reply<std::vector<System>> reply{.answer = std::move(read.answer), .value = {}};
    if (!read.rows) return reply;
    reply.value.emplace();
    for (const auto& row : *read.rows) {
        FieldReader r(row, "os");
        reply.value->push_back({.id = r.whole("id").value_or(0),
                                .name = r.text("name").value_or(""),
                                .arch = r.text("arch").value_or(""),
                                .family = r.text("family").value_or("")});
    }
    return reply;
}

Reply<Instance> Client::create(const CreateCall& request, std::span<const Secret> secrets) {
    const json body{
        {"region", request.region},       {"plan", request.plan},         {"os_id", request.os_id},
        {"label", request.label},         {"hostname", request.hostname}, {"tags", request.tags},
        {"user_data", request.user_data}, {"enable_ipv6", false},         {"activation_email", false},
        {"backups", "disabled"}};  // they cost a fifth of the plan
    auto [answer, text] =
        call("create", {.method = "POST", .url = api_url_ + "/instances", .body = body.dump(), .once = true},
             kCreatePatience, secrets);
    Reply<Instance> reply{.answer = std::move(answer), .value = {}};
    if (const auto json = parse_json(text); json && json->is_object())
        if (const auto* made = FieldReader(*json, "").value("instance"); made != nullptr)
            if (const auto id = FieldReader(*made, "instance").text("id"); id && !id->empty()) {
                auto instance = read_instance(*made, "instance");
                if (!instance) instance = Instance{.id = *id};  // an id is an id whatever stands around it
                reply.value = *std::move(instance);
            }
    if (!reply.value && reply.answer.success())
        not_as_documented(reply.answer, "success without `instance.id`");
    return reply;
}

Reply<Instance> Client::instance(const std::string& id) {
    auto [answer, body] =
        call("read", {.url = fmt::format("{}/instances/{}", api_url_, url_encoded(id))}, kPatience);
    Reply<Instance> reply{.answer = std::move(answer), .value = {}};
    if (!reply.answer.ok()) return reply;
    const auto json = parse_json(body);
    const auto* value = FieldReader(*json, "").value("instance");
    if (value == nullptr) {
        not_as_documented(reply.answer, "the answer has no `instance`");
        return reply;
    }
    auto instance = read_instance(*value, "instance");
    if (!instance)
        not_as_documented(reply.answer, instance.error().message);
    else if (instance->id != id)
        not_as_documented(reply.answer, "the instance in the answer has another id");
    else
        reply.value = *std::move(instance);
    return reply;
}

Reply<std::vector<Instance>> Client::instances() {
    auto read = pages("list", "/instances", "", "instances");
    Reply<std::vector<Instance>> reply{.answer = std::move(read.answer), .value = {}};
    if (!read.rows) return reply;
    // Fleets are not judged by a page that may be one of many.
    if (read.drift) {
        not_as_documented(reply.answer, read.drift->detail);
        return reply;
    }
    std::vector<Instance> all;
    std::set<std::string> ids;
    for (std::size_t i = 0; i < read.rows->size(); ++i) {
        auto instance = read_instance((*read.rows)[i], fmt::format("instances[{}]", i));
        if (!instance) {
            not_as_documented(reply.answer, instance.error().message);
            return reply;
        }
        if (ids.insert(instance->id).second) all.push_back(*std::move(instance));
    }
    reply.value = std::move(all);
    return reply;
}

Answer Client::probe() {
    auto [answer, body] = call("list", {.url = api_url_ + "/instances?per_page=1"}, kPatience);
    if (answer.ok()) {
        const auto json = parse_json(body);
        const auto* rows = FieldReader(*json, "").value("instances");
        if (rows == nullptr || !rows->is_array())
            not_as_documented(answer, "the listing has no array `instances`");
    }
    return answer;
}

Answer Client::destroy(const std::string& id) {
    return call("destroy",
                {.method = "DELETE", .url = fmt::format("{}/instances/{}", api_url_, url_encoded(id))},
                kPatience)
        .answer;
}

Answer Client::rename(const std::string& id, const std::string& label) {
    const json body{{"label", label}};
    return call("read",
                {.method = "PATCH",
                 .url = fmt::format("{}/instances/{}", api_url_, url_encoded(id)),
                 .body = body.dump()},
                kPatience)
        .answer;
}

Reply<Account> Client::account() {
    auto [answer, body] = call("account", {.url = api_url_ + "/account"}, kPatience);
    Reply<Account> reply{.answer = std::move(answer), .value = {}};
    if (!reply.answer.ok()) return reply;
    const auto json = parse_json(body);
    const auto* value = FieldReader(*json, "").value("account");
    if (value == nullptr) {
        not_as_documented(reply.answer, "the answer has no `account`");
        return reply;
    }
    FieldReader r(*value, "account");
    reply.value = Account{.balance = r.number("balance"),
                          .pending_charges = r.number("pending_charges"),
                          .acls = read_texts(r.value("acls"))};
    return reply;
}

Reply<std::vector<PendingCharge>> Client::pending_charges() {
    auto [answer, body] = call("account", {.url = api_url_ + "/billing/pending-charges"}, kPatience);
    Reply<std::vector<PendingCharge>> reply{.answer = std::move(answer), .value = {}};
    if (!reply.answer.ok()) return reply;
    const auto json = parse_json(body);
    const auto* rows = FieldReader(*json, "").value("pending_charges");
    if (rows == nullptr || !rows->is_array()) {
        not_as_documented(reply.answer, "the answer has no array `pending_charges`");
        return reply;
    }
    reply.value.emplace();
    for (std::size_t i = 0; i < rows->size(); ++i) {
        FieldReader r((*rows)[i], fmt::format("pending_charges[{}]", i));
        reply.value->push_back({.description = r.text("description").value_or(""),
                                .start_date = r.text("start_date").value_or(""),
                                .end_date = r.text("end_date").value_or(""),
                                .total = r.number("total")});
    }
    return reply;
}

}  // namespace gf::vultr
