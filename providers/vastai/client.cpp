#include "providers/vastai/client.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "providers/json_reading.hpp"
#include "providers/redaction.hpp"

namespace gf::vastai {
namespace {

using nlohmann::json;

constexpr int kPageRows = 25;   // the server's maximum
constexpr int kPagesMax = 400;  // 10,000 machines
constexpr int kChargeRows = 500;  // the server's maximum
constexpr int kChargePagesMax = 200;
constexpr std::string_view kSearchQuota = "search_quota_exceeded";
constexpr Millis kPatience{Seconds{10}};
constexpr Millis kSearchPatience{Seconds{40}};
constexpr Millis kCreatePatience{Seconds{60}};

// What the canary watches. Many fields are null by rights; required are those that no row can do without.
constexpr auto kAskFields = std::to_array<FieldRule>({
    {.path = "gpu_name", .kind = FieldKind::text, .required = true},
    {.path = "num_gpus", .kind = FieldKind::number, .required = true},
    {.path = "dph_total", .kind = FieldKind::number, .required = true},
    {.path = "dph_base", .kind = FieldKind::number},
    {.path = "min_bid", .kind = FieldKind::number},
    {.path = "storage_cost", .kind = FieldKind::number},
    {.path = "gpu_ram", .kind = FieldKind::number},
    {.path = "inet_down_cost", .kind = FieldKind::number},
    {.path = "duration", .kind = FieldKind::number},
    {.path = "reliability2", .kind = FieldKind::number},
    {.path = "geolocation", .kind = FieldKind::text},
    {.path = "rentable", .kind = FieldKind::boolean},
});
constexpr auto kInstanceFields = std::to_array<FieldRule>({
    {.path = "id", .kind = FieldKind::number, .required = true},
    {.path = "label", .kind = FieldKind::text},
    {.path = "actual_status", .kind = FieldKind::text},
    {.path = "intended_status", .kind = FieldKind::text},
    {.path = "is_bid", .kind = FieldKind::boolean},
    {.path = "dph_total", .kind = FieldKind::number},
    {.path = "extra_env", .kind = FieldKind::list},
    {.path = "ports", .kind = FieldKind::object},
});

/// The published minimum intervals plus 20 %. Searching has none published; about ten a minute were seen to
/// pass.
PacerRules pacing() {
    return {.endpoints = {{.name = "destroy", .interval = Millis{3'600}, .urgency = Urgency::destroy},
                          {.name = "create",
                           .interval = Millis{5'400},
                           .urgency = Urgency::machine,
                           .backoff_first = Seconds{12}},
                          {.name = "show", .interval = Millis{2'400}, .urgency = Urgency::machine},
                          {.name = "list", .interval = Millis{1'200}, .urgency = Urgency::listing},
                          {.name = "account", .interval = Millis{1'200}, .urgency = Urgency::listing},
                          {.name = "label", .interval = Millis{1'200}, .urgency = Urgency::listing},
                          {.name = "bid", .interval = Millis{6'600}, .urgency = Urgency::machine},
                          {.name = "charges", .interval = Millis{1'200}, .urgency = Urgency::search},
                          {.name = "increases", .interval = Millis{1'200}, .urgency = Urgency::search},
                          {.name = "search", .interval = Millis{7'200}, .urgency = Urgency::search}}};
}

std::string first_text(const json& body, std::initializer_list<std::string_view> keys) {
    for (const auto key : keys)
        if (const auto it = body.find(key); it != body.end() && it->is_string())
            return it->get<std::string>();
    return {};
}

/// `extra_env` is a list of [key, value] pairs; the published schema claims a list of texts, and an object is
/// what one sends.
std::string env_mark(const json& env) {
    constexpr std::string_view mark = "GPUFERRY_MACHINE";
    if (env.is_object()) return first_text(env, {mark});
    if (!env.is_array()) return {};
    for (const auto& item : env) {
        if (item.is_array() && item.size() == 2 && item[0].is_string() && item[1].is_string() &&
            item[0] == mark)
            return item[1].get<std::string>();
        if (item.is_string()) {
            const auto& line = item.get_ref<const std::string&>();
            if (line.size() > mark.size() && line.starts_with(mark) && line[mark.size()] == '=')
                return line.substr(mark.size() + 1);
        }
    }
    return {};
}

/// ports["22/tcp"][0].HostPort, a text; the published schema claims a list of numbers.
std::optional<std::int64_t> direct_ssh_port(const json& ports) {
    const auto* bound = FieldReader(ports, "ports").value("22/tcp");
    if (bound == nullptr || !bound->is_array() || bound->empty()) return std::nullopt;
    return FieldReader(bound->front(), "ports.22/tcp").whole("HostPort");
}

Ask read_ask(const json& value, const std::string& path) {
    Ask ask;
    FieldReader r(value, path);
    // Which offer, which GPU and what it costs are read strictly; figures that only filter are lenient.
    ask.id = r.whole("ask_contract_id");
    if (!ask.id) ask.id = r.whole("id");
    ask.gpu_name = r.text("gpu_name").value_or("");
    ask.num_gpus = r.whole("num_gpus");
    ask.dph_base = r.number("dph_base");
    ask.dph_total = r.number("dph_total");
    ask.min_bid = r.number("min_bid");
    ask.storage_cost = r.number("storage_cost");
    ask.inet_up_cost = r.number("inet_up_cost");
    ask.inet_down_cost = r.number("inet_down_cost");
    if (r.problem()) ask.problem = *r.problem();
    FieldReader l(value, path);
    ask.gpu_ram = l.quantity("gpu_ram");
    ask.gpu_arch = l.text("gpu_arch").value_or("");
    ask.cpu_arch = l.text("cpu_arch").value_or("");
    ask.cpu_cores = l.quantity("cpu_cores");
    ask.cpu_cores_effective = l.quantity("cpu_cores_effective");
    ask.cpu_ram = l.quantity("cpu_ram");
    ask.inet_up = l.quantity("inet_up");
    ask.inet_down = l.quantity("inet_down");
    ask.disk_space = l.quantity("disk_space");
    ask.reliability = l.quantity("reliability2");
    if (!ask.reliability) ask.reliability = l.quantity("reliability");
    ask.duration = l.quantity("duration");
    ask.end_date = l.quantity("end_date");
    ask.cuda_max_good = l.number("cuda_max_good");
    ask.driver_version = l.text("driver_version").value_or("");
    ask.geolocation = l.text("geolocation").value_or("");
    ask.machine_id = l.whole("machine_id");
    ask.host_id = l.whole("host_id");
    ask.verification = l.text("verification").value_or("");
    ask.rentable = l.boolean("rentable");
    ask.rented = l.boolean("rented");
    ask.external = l.boolean("external");
    ask.is_bid = l.boolean("is_bid");
    return ask;
}

/// Identity and state strictly, because a listing that is wrong there must not be believed at all; figures
/// leniently.
Result<Instance> read_instance(const json& value, const std::string& path) {
    if (!value.is_object())
        return fail(ErrorKind::malformed,
                    fmt::format("{}: expected an object, found {}", path, value.type_name()));
    Instance i;
    FieldReader r(value, path);
    const auto id = r.whole("id");
    i.label = r.text("label").value_or("");
    i.actual_status = r.text("actual_status");
    i.intended_status = r.text("intended_status").value_or("");
    i.cur_state = r.text("cur_state").value_or("");
    i.next_state = r.text("next_state").value_or("");
    i.is_bid = r.boolean("is_bid");
    if (r.problem()) return fail(ErrorKind::malformed, *r.problem());
    if (!id) return fail(ErrorKind::malformed, path + ".id is missing");
    // Null is "nothing reported yet", which bills no GPU. Not to be there at all is another answer, and no word on the state.
    if (!value.contains("actual_status")) return fail(ErrorKind::malformed, path + ".actual_status is missing");
    i.id = *id;
    FieldReader l(value, path);
    if (const auto* env = l.value("extra_env")) i.machine_mark = env_mark(*env);
    i.status_msg = l.text("status_msg").value_or("");
    i.dph_base = l.number("dph_base");
    i.dph_total = l.number("dph_total");
    i.min_bid = l.number("min_bid");
    i.storage_cost = l.number("storage_cost");
    i.storage_total_cost = l.number("storage_total_cost");
    if (const auto* live = l.value("instance"))
        i.live_disk_hour = FieldReader(*live, path).number("diskHour");
    i.gpu_name = l.text("gpu_name").value_or("");
    i.num_gpus = l.whole("num_gpus");
    i.gpu_ram = l.quantity("gpu_ram");
    i.disk_space = l.quantity("disk_space");
    i.geolocation = l.text("geolocation").value_or("");
    i.machine_id = l.whole("machine_id");
    i.public_ipaddr = l.text("public_ipaddr").value_or("");
    if (const auto* ports = l.value("ports")) i.direct_ssh_port = direct_ssh_port(*ports);
    i.ssh_host = l.text("ssh_host").value_or("");
    i.ssh_port = l.whole("ssh_port");
    i.image_runtype = l.text("image_runtype").value_or("");
    i.start_date = l.quantity("start_date");
    i.end_date = l.quantity("end_date");
    return i;
}

void not_as_documented(Answer& answer, std::string_view what) {
    answer.malformed = true;
    answer.text = shown(what);
}

}  // namespace

Client::Client(std::string api_url, Secret key, HttpClient& http, Clock& clock, std::uint64_t seed)
    : api_url_(std::move(api_url)), key_(std::move(key)), http_(http), clock_(clock), pacer_(clock, seed, pacing()) {}

/// From now to `X-RateLimit-Reset` (unix seconds), a minute at least; an hour where that is not told.
Millis Client::until_reset(const HttpResponse& response) const {
    constexpr Millis least{std::chrono::minutes{1}};
    constexpr Millis most{std::chrono::hours{1}};
    const auto header = response.header("x-ratelimit-reset");
    if (!header) return most;
    std::int64_t seconds = 0;
    const auto [end, error] = std::from_chars(header->data(), header->data() + header->size(), seconds);
    if (error != std::errc{} || end != header->data() + header->size()) return most;
    const Seconds at{std::clamp<std::int64_t>(seconds, 0, std::int64_t{1} << 40)};
    return std::clamp(Millis{at} - Millis{unix_millis(clock_.now())}, least, most);
}

Client::Exchange Client::call(std::string_view endpoint, HttpRequest request, Millis patience,
                              std::span<const Secret> secrets) {
    Exchange out;
    if (!let_out(pacer_, endpoint, patience, out.answer)) return out;
    request.bearer = key_;
    auto response = sent(http_, request, out.answer);
    if (const auto wait = pacer_.learn(endpoint, response)) out.answer.retry_after = wait;
    if (response.delivery != Delivery::answered) {
        out.body = std::move(response.body);
        return out;
    }
    std::vector<Secret> hidden(secrets.begin(), secrets.end());
    hidden.push_back(key_);
    const auto body = parse_json(response.body);
    if (!body || !body->is_object()) {
        const auto why = body ? std::string("expected a JSON object") : body.error().message;
        out.answer.text = fmt::format("{}: {}", why, shown(response.body, hidden, 160));
    } else {
        out.answer.json = true;
        if (const auto it = body->find("success"); it != body->end() && it->is_boolean())
            out.answer.success = it->get<bool>();
        out.answer.code = shown(first_text(*body, {"error"}), hidden, 64);
        out.answer.text = shown(first_text(*body, {"msg", "message", "detail"}), hidden);
        // A day's quota: whoever comes back in seconds is refused all day.
        if (response.status == 429 && out.answer.code == kSearchQuota)
            out.answer.retry_after = pacer_.hold(endpoint, until_reset(response));
    }
    out.body = std::move(response.body);
    return out;
}

Reply<std::vector<Ask>> Client::search(const SearchRequest& request) {
    // The page's defaults are the command line's, not the server's: a body without them also finds rented and
    // unverified machines.
    json body{{"external", {{"eq", false}}},
              {"rentable", {{"eq", true}}},
              {"rented", {{"eq", false}}},
              {"num_gpus", {{"eq", request.num_gpus}}},
              {"disk_space", {{"gte", request.disk_gb}}},
              {"type", request.bid ? "bid" : "on-demand"},
              {"allocated_storage", request.disk_gb},  // else prices are those of a disk of 8 GB
              {"order", json::array({json::array({"dph_total", "asc"})})},
              {"limit", kSearchRowsMax}};
    if (!request.gpu_names.empty())
        body["gpu_name"] = {{"in", request.gpu_names}};  // with spaces, as in the rows
    else if (!request.gpu_names_not.empty())
        body["gpu_name"] = {{"notin", request.gpu_names_not}};
    // At most 64 rows come back, so what does not fit must not take their places.
    if (!request.unvetted) body["verified"] = {{"eq", true}};
    if (!request.countries.empty()) body["geolocation"] = {{"in", request.countries}};
    const auto at_least = [&](const char* field, const auto& figure) {
        if (figure) body[field] = {{"gte", *figure}};
    };
    at_least("gpu_ram", request.gpu_ram);
    at_least("cpu_ram", request.cpu_ram);
    at_least("cpu_cores_effective", request.cpu_cores_effective);
    at_least("reliability2", request.reliability);
    at_least("inet_down", request.inet_down);
    at_least("duration", request.duration_s);
    at_least("cuda_max_good", request.cuda);
    auto [answer, text] =
        call("search", {.method = "POST", .url = api_url_ + "/api/v0/bundles/", .body = body.dump()},
             kSearchPatience);
    Reply<std::vector<Ask>> reply{.answer = std::move(answer), .value = {}};
    if (!reply.answer.ok()) return reply;
    const auto json = parse_json(text);
    const auto offers = json->find("offers");
    if (offers == json->end() || !offers->is_array()) {
        not_as_documented(reply.answer, "the search answer has no array `offers`");
        return reply;
    }
    reply.shapes = count_shapes(*offers, kAskFields);
    reply.value.emplace();
    for (std::size_t i = 0; i < offers->size(); ++i)
        reply.value->push_back(read_ask((*offers)[i], fmt::format("offers[{}]", i)));
    return reply;
}

Reply<Created> Client::create(const CreateRequest& request, std::span<const Secret> secrets) {
    json body{{"client_id", "me"},         {"image", request.image},
              {"disk", request.disk_gb},   {"label", request.label},
              {"env", request.env},  // an object; a text is accepted and ignored
              {"runtype", "args"},         {"onstart", request.entrypoint},
              {"args", request.args},      {"user", "root"},
              {"target_state", "running"}, {"cancel_unavail", true}};
    if (request.price) body["price"] = static_cast<double>(request.price->micros) / 1e6;
    if (!request.image_login.empty()) body["image_login"] = request.image_login;
    auto [answer, text] = call("create",
                               {.method = "PUT",
                                .url = fmt::format("{}/api/v0/asks/{}/", api_url_, request.ask),
                                .body = body.dump(),
                                .once = true},
                               kCreatePatience, secrets);
    Reply<Created> reply{.answer = std::move(answer), .value = {}};
    if (const auto json = parse_json(text); json && json->is_object())
        if (const auto contract = FieldReader(*json, "").whole("new_contract"); contract && *contract > 0)
            reply.value = Created{.contract = *contract};
    if (!reply.value && reply.answer.ok()) not_as_documented(reply.answer, "success without `new_contract`");
    return reply;
}

Reply<Shown> Client::show(const std::string& id) {
    auto [answer, body] =
        call("show", {.url = fmt::format("{}/api/v0/instances/{}/?owner=me", api_url_, url_encoded(id))},
             kPatience);
    Reply<Shown> reply{.answer = std::move(answer), .value = {}};
    if (!reply.answer.ok()) return reply;
    const auto json = parse_json(body);
    const auto it = json->find("instances");  // one object under a plural key
    if (it == json->end()) {
        not_as_documented(reply.answer, "the answer has no `instances`");
    } else if (it->is_null()) {
        reply.value.emplace();
    } else {
        auto instance = read_instance(*it, "instances");
        if (!instance)
            not_as_documented(reply.answer, instance.error().message);
        else if (std::to_string(instance->id) != id)
            not_as_documented(reply.answer, "the instance in the answer has another id");
        else
            reply.value = Shown{.instance = *std::move(instance)};
    }
    return reply;
}

Reply<std::vector<Instance>> Client::list() {
    Reply<std::vector<Instance>> reply;
    std::vector<Instance> all;
    std::set<std::string> tokens;
    std::string token;
    std::optional<std::int64_t> total;
    const auto order = url_encoded(R"([{"col":"id","dir":"asc"}])");
    for (int page = 0;; ++page) {
        auto url = fmt::format("{}/api/v1/instances/?limit={}&order_by={}", api_url_, kPageRows, order);
        if (!token.empty()) url += "&after_token=" + url_encoded(token);
        auto [answer, body] = call("list", {.url = std::move(url)}, kPatience);
        reply.answer = std::move(answer);
        if (!reply.answer.ok()) return reply;
        const auto json = parse_json(body);
        const auto rows = json->find("instances");
        if (rows == json->end() || !rows->is_array()) {
            // The retired call answered 200 like this, and whoever read it as "no instances" launched
            // everything again.
            not_as_documented(reply.answer, "the listing has no array `instances`");
            return reply;
        }
        for (std::size_t i = 0; i < rows->size(); ++i) {
            auto instance = read_instance((*rows)[i], fmt::format("instances[{}]", i));
            if (!instance) {
                not_as_documented(reply.answer, instance.error().message);
                return reply;
            }
            all.push_back(*std::move(instance));
        }
        add(reply.shapes, count_shapes(*rows, kInstanceFields));
        FieldReader r(*json, "listing");
        total = r.whole("total_instances");
        token = r.text("next_token").value_or("");
        if (r.problem()) {
            not_as_documented(reply.answer, *r.problem());
            return reply;
        }
        // A last page says null. One as full as can be that says nothing, not even how many there are, may be the first of many.
        if (token.empty() && !json->contains("next_token") && !total && rows->size() >= kPageRows) {
            not_as_documented(reply.answer, "the listing does not say whether there is more");
            return reply;
        }
        if (token.empty()) break;
        if (page + 1 == kPagesMax || !tokens.insert(token).second) {
            not_as_documented(reply.answer, "the listing does not end");
            return reply;
        }
    }
    if (const auto missing = missing_pages("the listing", total, all.size())) {
        not_as_documented(reply.answer, missing->detail);
        return reply;
    }
    reply.value = std::move(all);
    return reply;
}

Answer Client::destroy(const std::string& id) {
    return call("destroy",
                {.method = "DELETE",
                 .url = fmt::format("{}/api/v0/instances/{}/", api_url_, url_encoded(id)),
                 .body = "{}"},
                kPatience)
        .answer;
}

Reply<NumberText> Client::account() {
    auto [answer, body] = call("account", {.url = api_url_ + "/api/v0/users/current/"}, kPatience);
    Reply<NumberText> reply{.answer = std::move(answer), .value = {}};
    if (!reply.answer.ok()) return reply;
    const auto json = parse_json(body);
    FieldReader r(*json, "user");
    if (!r.whole("id")) {
        not_as_documented(reply.answer, "the account answer has no `id`");
        return reply;
    }
    // `credit` is the prepaid money that is left; the published schema only knows `balance`.
    auto credit = r.number("credit");
    reply.value = credit ? std::move(credit) : r.number("balance");
    return reply;
}

Answer Client::label(const std::string& id, const std::string& label) {
    return call("label",
                {.method = "PUT",
                 .url = fmt::format("{}/api/v0/instances/{}/", api_url_, url_encoded(id)),
                 .body = json{{"label", label}}.dump()},
                kPatience)
        .answer;
}

Answer Client::bid(const std::string& id, UsdPerHour price) {
    return call("bid",
                {.method = "PUT",
                 .url = fmt::format("{}/api/v0/instances/bid_price/{}/", api_url_, url_encoded(id)),
                 .body = json{{"client_id", "me"}, {"price", static_cast<double>(price.micros) / 1e6}}.dump()},
                kPatience)
        .answer;
}

Reply<std::vector<ChargeRow>> Client::charges(std::int64_t first_day, std::int64_t last_day) {
    Reply<std::vector<ChargeRow>> reply;
    std::vector<ChargeRow> all;
    std::set<std::string> tokens;
    std::string token;
    std::optional<std::int64_t> total;
    const json filters{{"day", {{"gte", first_day}, {"lte", last_day}}}, {"type", {{"in", {"instance"}}}}};
    const auto base = fmt::format("{}/api/v0/charges/?select_filters={}&format=table&latest_first=true&limit={}", api_url_,
                                  url_encoded(filters.dump()), kChargeRows);
    for (int page = 0;; ++page) {
        auto [answer, body] =
            call("charges", {.url = token.empty() ? base : base + "&after_token=" + url_encoded(token)}, kPatience);
        reply.answer = std::move(answer);
        if (!reply.answer.ok()) return reply;
        const auto json = parse_json(body);
        const auto rows = json->find("results");
        if (rows == json->end() || !rows->is_array()) {
            not_as_documented(reply.answer, "the charges have no array `results`");
            return reply;
        }
        FieldReader r(*json, "charges");
        for (std::size_t i = 0; i < rows->size(); ++i) {
            FieldReader row((*rows)[i], fmt::format("results[{}]", i));
            ChargeRow charge{.start = row.quantity("start"),
                             .end = row.quantity("end"),
                             .source = row.text("source").value_or(""),
                             .label = {},
                             .amount = row.number("amount")};
            if (row.problem()) {
                not_as_documented(reply.answer, *row.problem());
                return reply;
            }
            if (const auto* metadata = row.value("metadata"))
                charge.label = FieldReader(*metadata, "metadata").text("label").value_or("");
            all.push_back(std::move(charge));
        }
        total = r.whole("total");
        token = r.text("next_token").value_or("");
        if (token.empty()) break;
        if (page + 1 == kChargePagesMax || !tokens.insert(token).second) {
            not_as_documented(reply.answer, "the charges do not end");
            return reply;
        }
    }
    if (const auto missing = missing_pages("the charges", total, all.size())) {
        not_as_documented(reply.answer, missing->detail);
        return reply;
    }
    reply.value = std::move(all);
    return reply;
}

Reply<std::vector<PriceIncrease>> Client::price_increases() {
    auto [answer, body] =
        call("increases", {.url = api_url_ + "/api/v0/instances/pending-price-increases/"}, kPatience);
    Reply<std::vector<PriceIncrease>> reply{.answer = std::move(answer), .value = {}};
    if (!reply.answer.ok()) return reply;
    const auto json = parse_json(body);
    const auto rows = json->find("pending_price_increases");
    if (rows == json->end() || !rows->is_array()) {
        not_as_documented(reply.answer, "the answer has no array `pending_price_increases`");
        return reply;
    }
    reply.value.emplace();
    for (const auto& row : *rows) {
        FieldReader r(row, "pending_price_increases");
        reply.value->push_back({.contract = r.whole("contract_id").value_or(0),
                                .old_per_second = r.number("old_gpu_costpersec"),
                                .new_per_second = r.number("new_gpu_costpersec")});
    }
    return reply;
}

}  // namespace gf::vastai
