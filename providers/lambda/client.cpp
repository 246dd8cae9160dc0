#include "providers/lambda/client.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "providers/json_reading.hpp"
#include "providers/redaction.hpp"

namespace gf::lambda {
namespace {

using nlohmann::json;

// How long a call may wait for its turn: all calls share one a second. A launch waits longest, because giving
// it back unsent costs a whole placement.
constexpr Millis kPatience{Seconds{20}};
constexpr Millis kLaunchPatience{Seconds{60}};

constexpr std::array kTypeFields{
    FieldRule{.path = "instance_type", .kind = FieldKind::object, .required = true},
    FieldRule{.path = "instance_type.price_cents_per_hour", .kind = FieldKind::number, .required = true},
    FieldRule{.path = "instance_type.specs.gpus", .kind = FieldKind::number, .required = true},
    FieldRule{.path = "instance_type.specs.memory_gib", .kind = FieldKind::number, .required = true},
    FieldRule{.path = "instance_type.gpu_description", .kind = FieldKind::text, .required = true},
    FieldRule{.path = "regions_with_capacity_available", .kind = FieldKind::list, .required = true}};

/// One request a second over all endpoints, one launch in twelve; a tenth more than published.
PacerRules pacing() {
    return {.endpoints = {{.name = "destroy", .urgency = Urgency::destroy, .backoff_first = Seconds{2}},
                          {.name = "launch",
                           .interval = Millis{13'200},
                           .urgency = Urgency::machine,
                           .backoff_first = Seconds{12}},
                          {.name = "read", .urgency = Urgency::machine, .backoff_first = Seconds{2}},
                          {.name = "key", .urgency = Urgency::machine, .backoff_first = Seconds{2}},
                          {.name = "list", .urgency = Urgency::listing, .backoff_first = Seconds{5}},
                          {.name = "search", .urgency = Urgency::search, .backoff_first = Seconds{10}}},
            .account_wide = true,
            .interval_all = Millis{1'100}};
}

InstanceType read_type(const json& value, const std::string& path) {
    InstanceType type;
    FieldReader r(value, path);
    type.name = r.text("name").value_or("");
    type.gpu_description = r.text("gpu_description").value_or("");
    type.price_cents = r.number("price_cents_per_hour");
    if (const auto* specs = r.value("specs")) {
        FieldReader s(*specs, path + ".specs");
        type.vcpus = s.whole("vcpus");
        type.memory_gib = s.whole("memory_gib");
        type.storage_gib = s.whole("storage_gib");
        type.gpus = s.whole("gpus");
        if (s.problem()) type.problem = *s.problem();
    }
    if (r.problem()) type.problem = *r.problem();
    return type;
}

/// Identity and state strictly, because a listing that is wrong there must not be believed at all; figures
/// leniently. `jupyter_token` and `jupyter_url` are secrets and never read.
Result<Instance> read_instance(const json& value, const std::string& path) {
    if (!value.is_object())
        return fail(ErrorKind::malformed,
                    fmt::format("{}: expected an object, found {}", path, value.type_name()));
    Instance i;
    FieldReader r(value, path);
    i.id = r.text("id").value_or("");
    i.status = r.text("status").value_or("");
    i.name = r.text("name").value_or("");
    i.ip = r.text("ip").value_or("");
    if (const auto* tags = r.value("tags")) {
        if (!tags->is_array()) return fail(ErrorKind::malformed, path + ".tags: expected an array");
        for (const auto& tag : *tags) {
            FieldReader t(tag, path + ".tags");
            i.tags.push_back({.key = t.text("key").value_or(""), .value = t.text("value").value_or("")});
            if (t.problem()) return fail(ErrorKind::malformed, *t.problem());
        }
    }
    if (r.problem()) return fail(ErrorKind::malformed, *r.problem());
    if (i.id.empty()) return fail(ErrorKind::malformed, path + ".id is missing");
    if (i.status.empty()) return fail(ErrorKind::malformed, path + ".status is missing");
    if (const auto* region = r.value("region"))
        i.region = FieldReader(*region, path).text("name").value_or("");
    if (const auto* type = r.value("instance_type")) i.type = read_type(*type, path + ".instance_type");
    return i;
}

SshKey read_key(const json& value) {
    FieldReader r(value, "ssh_key");
    return {.id = r.text("id").value_or(""),
            .name = r.text("name").value_or(""),
            .public_key = r.text("public_key").value_or("")};
}

void not_as_documented(Answer& answer, std::string_view what) {
    answer.malformed = true;
    answer.text = shown(what);
}

/// `data` of a success, or a null pointer with the answer marked.
const json* data_of(const json& body, Answer& answer, json::value_t type, std::string_view what) {
    const auto it = body.find("data");
    if (it != body.end() && it->type() == type) return &*it;
    not_as_documented(answer, fmt::format("{} has no `data` of the documented kind", what));
    return nullptr;
}

}  // namespace

Client::Client(std::string api_url, Secret key, HttpClient& http, Clock& clock, std::uint64_t seed)
    : api_url_(std::move(api_url)), key_(std::move(key)), http_(http), pacer_(clock, seed, pacing()) {}

Client::Exchange Client::call(std::string_view endpoint, HttpRequest request, Millis patience,
                              std::span<const Secret> secrets) {
    Exchange out;
    if (!let_out(pacer_, endpoint, patience, out.answer)) return out;
    request.bearer = key_;
    request.headers.push_back({.name = "Accept", .value = "application/json"});
    auto response = sent(http_, request, out.answer);
    if (const auto wait = pacer_.learn(endpoint, response)) out.answer.retry_after = wait;
    out.body = std::move(response.body);
    if (response.delivery != gf::Delivery::answered) {
        out.answer.text = response.failure;
        return out;
    }
    std::vector<Secret> hidden(secrets.begin(), secrets.end());
    hidden.push_back(key_);
    const auto body = parse_json(out.body);
    if (!body || !body->is_object()) {
        const auto why = body ? std::string("expected a JSON object") : body.error().message;
        out.answer.text = fmt::format("{}: {}", why, shown(out.body, hidden, 160));
        return out;
    }
    out.answer.json = true;
    if (const auto* error = FieldReader(*body, "").value("error"); error != nullptr && error->is_object()) {
        FieldReader e(*error, "error");
        out.answer.code = shown(e.text("code").value_or(""), hidden, 100);
        auto text = e.text("message").value_or("");
        if (const auto more = e.text("suggestion"); more && !more->empty()) text += " " + *more;
        out.answer.text = shown(text, hidden);
    } else if (out.answer.status >= 400) {
        out.answer.text = shown(out.body, hidden, 160);
    }
    return out;
}

Reply<Types> Client::types() {
    auto [answer, body] = call("search", {.url = api_url_ + "/instance-types"}, kPatience);
    Reply<Types> reply{.answer = std::move(answer), .value = {}};
    if (!reply.answer.ok()) return reply;
    const auto json = parse_json(body);
    // An object keyed by the type's name, not an array.
    const auto* data = data_of(*json, reply.answer, json::value_t::object, "the list of types");
    if (data == nullptr) return reply;
    reply.value.emplace();
    reply.value->shapes = count_shapes(*data, kTypeFields);
    for (const auto& item : data->items()) {
        TypeListing row;
        const auto path = "data." + item.key();
        FieldReader r(item.value(), path);
        if (const auto* type = r.value("instance_type")) row.type = read_type(*type, path + ".instance_type");
        if (row.type.name.empty()) row.type.name = item.key();
        const auto* regions = r.value("regions_with_capacity_available");
        if (!item.value().is_object() || regions == nullptr || !regions->is_array())
            row.type.problem = path + ".regions_with_capacity_available: expected an array";
        else
            for (const auto& region : *regions)
                if (auto name = FieldReader(region, path).text("name"); name && !name->empty())
                    row.regions.push_back(*std::move(name));
        reply.value->types.push_back(std::move(row));
    }
    return reply;
}

Reply<Launched> Client::launch(const LaunchCall& request, std::span<const Secret> secrets) {
    // No `quantity`: it left the schema, and values above 1 were refused even before.
    json body{{"region_name", request.region},
              {"instance_type_name", request.type},
              {"ssh_key_names", json::array({request.ssh_key})},
              {"name", request.name},
              {"hostname", request.hostname},
              {"user_data", request.user_data},
              {"tags", json::array()}};
    for (const auto& tag : request.tags) body["tags"].push_back({{"key", tag.key}, {"value", tag.value}});
    auto [answer, text] = call("launch",
                               {.method = "POST",
                                .url = api_url_ + "/instance-operations/launch",
                                .body = body.dump(),
                                .once = true},
                               kLaunchPatience, secrets);
    Reply<Launched> reply{.answer = std::move(answer), .value = {}};
    if (const auto json = parse_json(text); json && json->is_object())
        if (const auto* data = FieldReader(*json, "").value("data"); data != nullptr && data->is_object())
            if (const auto* ids = FieldReader(*data, "data").value("instance_ids");
                ids != nullptr && ids->is_array())
                for (const auto& id : *ids)
                    if (id.is_string() && !id.get_ref<const std::string&>().empty() && !reply.value)
                        reply.value = Launched{.id = id.get<std::string>()};
    if (!reply.value && reply.answer.ok())
        not_as_documented(reply.answer, "success without `data.instance_ids`");
    return reply;
}

Reply<std::vector<Instance>> Client::instances() {
    auto [answer, body] = call("list", {.url = api_url_ + "/instances"}, kPatience);
    Reply<std::vector<Instance>> reply{.answer = std::move(answer), .value = {}};
    if (!reply.answer.ok()) return reply;
    const auto json = parse_json(body);
    // Never an empty fleet: a listing without its array says nothing.
    const auto* data = data_of(*json, reply.answer, json::value_t::array, "the listing");
    if (data == nullptr) return reply;
    std::vector<Instance> all;
    for (std::size_t i = 0; i < data->size(); ++i) {
        auto instance = read_instance((*data)[i], fmt::format("data[{}]", i));
        if (!instance) {
            not_as_documented(reply.answer, instance.error().message);
            return reply;
        }
        all.push_back(*std::move(instance));
    }
    reply.value = std::move(all);
    return reply;
}

Reply<Instance> Client::instance(const std::string& id) {
    auto [answer, body] =
        call("read", {.url = fmt::format("{}/instances/{}", api_url_, url_encoded(id))}, kPatience);
    Reply<Instance> reply{.answer = std::move(answer), .value = {}};
    if (!reply.answer.ok()) return reply;
    const auto json = parse_json(body);
    const auto* data = data_of(*json, reply.answer, json::value_t::object, "the instance");
    if (data == nullptr) return reply;
    auto instance = read_instance(*data, "data");
    if (!instance)
        not_as_documented(reply.answer, instance.error().message);
    else if (instance->id != id)
        not_as_documented(reply.answer, "the instance in the answer has another id");
    else
        reply.value = *std::move(instance);
    return reply;
}

Answer Client::terminate(const std::string& id) {
    // One id per call: what a list of good and bad ids does is not known.
    const json request{{"instance_ids", json::array({id})}};
    auto [answer, body] =
        call("destroy",
             {.method = "POST", .url = api_url_ + "/instance-operations/terminate", .body = request.dump()},
             kPatience);
    if (!answer.ok()) return answer;
    const auto json = parse_json(body);
    const auto* data = data_of(*json, answer, json::value_t::object, "the answer to a terminate");
    if (data == nullptr) return answer;
    const auto* done = FieldReader(*data, "data").value("terminated_instances");
    const bool named =
        done != nullptr && done->is_array() && std::ranges::any_of(*done, [&](const auto& instance) {
            return FieldReader(instance, "data").text("id") == id;
        });
    if (!named) not_as_documented(answer, "the answer to a terminate does not name the instance");
    return answer;
}

Answer Client::rename(const std::string& id, const std::string& name) {
    const json request{{"name", name}};
    return call("read",
                {.method = "POST",
                 .url = fmt::format("{}/instances/{}", api_url_, url_encoded(id)),
                 .body = request.dump()},
                kPatience)
        .answer;
}

Reply<std::vector<SshKey>> Client::ssh_keys() {
    auto [answer, body] = call("key", {.url = api_url_ + "/ssh-keys"}, kPatience);
    Reply<std::vector<SshKey>> reply{.answer = std::move(answer), .value = {}};
    if (!reply.answer.ok()) return reply;
    const auto json = parse_json(body);
    const auto* data = data_of(*json, reply.answer, json::value_t::array, "the list of SSH keys");
    if (data == nullptr) return reply;
    reply.value.emplace();
    for (const auto& item : *data) reply.value->push_back(read_key(item));
    return reply;
}

Reply<SshKey> Client::add_ssh_key(const std::string& name, const std::string& public_key) {
    const json request{{"name", name}, {"public_key", public_key}};
    auto [answer, body] =
        call("key", {.method = "POST", .url = api_url_ + "/ssh-keys", .body = request.dump()}, kPatience);
    Reply<SshKey> reply{.answer = std::move(answer), .value = {}};
    if (!reply.answer.ok()) return reply;
    const auto json = parse_json(body);
    const auto* data = data_of(*json, reply.answer, json::value_t::object, "the new SSH key");
    if (data == nullptr) return reply;
    reply.value = read_key(*data);
    return reply;
}

Answer Client::delete_ssh_key(const std::string& id) {
    return call("key", {.method = "DELETE", .url = fmt::format("{}/ssh-keys/{}", api_url_, url_encoded(id))},
                kPatience)
        .answer;
}

}  // namespace gf::lambda
