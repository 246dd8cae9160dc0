#include "providers/runpod/client.hpp"

#include <fmt/format.h>

#include <set>

#include "providers/json_reading.hpp"
#include "providers/redaction.hpp"

namespace gf::runpod {
namespace {

using nlohmann::json;

constexpr int kPagesMax = 100;
// How long a call may wait for its turn. A create waits longest: giving it back unsent costs a whole
// placement.
constexpr Millis kPatience{Seconds{10}};
constexpr Millis kCreatePatience{Seconds{60}};
constexpr std::size_t kPageRows = 1000;  // of a listing that names no limit

// What the canary watches. Only what no documented answer lacks is required.
constexpr auto kGpuFields = std::to_array<FieldRule>({
    {.path = "id", .kind = FieldKind::text, .required = true},
    {.path = "memory", .kind = FieldKind::number},
    {.path = "secure", .kind = FieldKind::boolean},
    {.path = "community", .kind = FieldKind::boolean},
    {.path = "price", .kind = FieldKind::object, .required = true},
    {.path = "price.secure", .kind = FieldKind::number},
    {.path = "price.community", .kind = FieldKind::number},
    {.path = "maxCount", .kind = FieldKind::object},
    {.path = "availability", .kind = FieldKind::text},
    {.path = "dataCenters", .kind = FieldKind::list},
    {.path = "cudaVersions", .kind = FieldKind::list},
});
constexpr auto kPodFields = std::to_array<FieldRule>({
    {.path = "status", .kind = FieldKind::text, .required = true},
    {.path = "name", .kind = FieldKind::text},
    {.path = "cost", .kind = FieldKind::number},
    {.path = "gpu", .kind = FieldKind::object},
    {.path = "env", .kind = FieldKind::object},
    {.path = "runtime", .kind = FieldKind::object},
    {.path = "createdAt", .kind = FieldKind::text},
});

// RunPod publishes no minimum intervals, only a quota per account in headers; the pauses keep a burst of
// searches from eating the minute.
PacerRules pacing() {
    return {.endpoints = {{.name = "destroy", .urgency = Urgency::destroy},
                          {.name = "create", .urgency = Urgency::machine},
                          {.name = "read", .urgency = Urgency::machine},
                          {.name = "list", .interval = Millis{500}, .urgency = Urgency::listing},
                          {.name = "registry", .urgency = Urgency::machine},
                          {.name = "search", .interval = Millis{250}, .urgency = Urgency::search},
                          {.name = "rename", .interval = Seconds{1}, .urgency = Urgency::listing},
                          {.name = "billing", .interval = Seconds{5}, .urgency = Urgency::search},
                          // GraphQL is a service of its own, on its way out: its troubles are not v2's.
                          {.name = "balance", .interval = Seconds{5}, .urgency = Urgency::search, .apart = true},
                          {.name = "account", .interval = Seconds{1}, .urgency = Urgency::search, .apart = true},
                          {.name = "spot_search", .interval = Seconds{1}, .urgency = Urgency::search, .apart = true},
                          {.name = "spot_create", .urgency = Urgency::machine, .apart = true}},
            .account_wide = true};
}

/// `detail` plus `errors`, `error`, or the messages of GraphQL: the body's own words, not yet redacted.
struct Words {
    Shape shape{Shape::object};
    std::string text;
    std::string code;
};

Words words_of(const json& body, int status) {
    if (!body.is_object()) return {};
    const auto detail = body.find("detail");
    const auto stated = body.find("status");
    if (body.contains("title") && detail != body.end() && detail->is_string() && stated != body.end() &&
        stated->is_number_integer() && stated->get<std::int64_t>() == status) {
        auto text = detail->get<std::string>();
        if (const auto errors = body.find("errors"); errors != body.end() && errors->is_array())
            for (const auto& e : *errors)
                if (e.is_string()) text += "; " + e.get<std::string>();
        return {.shape = Shape::problem, .text = std::move(text), .code = {}};
    }
    if (const auto errors = body.find("errors");
        errors != body.end() && errors->is_array() && !errors->empty()) {
        Words out{.shape = Shape::graphql, .text = {}, .code = {}};
        for (const auto& e : *errors) {
            if (!e.is_object()) continue;
            if (!out.text.empty()) out.text += "; ";
            if (const auto m = e.find("message"); m != e.end() && m->is_string())
                out.text += m->get<std::string>();
            if (const auto x = e.find("extensions"); x != e.end() && x->is_object() && out.code.empty())
                if (const auto c = x->find("code"); c != x->end() && c->is_string())
                    out.code = c->get<std::string>();
        }
        return out;
    }
    if (const auto error = body.find("error"); error != body.end() && error->is_string())
        return {.shape = Shape::v1, .text = error->get<std::string>(), .code = {}};
    return {};
}

std::string env_mark(const json& env) {
    // v2 sends an object; GraphQL a list of "KEY=value". Both are cheap to read, and a mark that is missed
    // costs a machine.
    if (env.is_object()) {
        const auto it = env.find("GPUFERRY_MACHINE");
        return it != env.end() && it->is_string() ? it->get<std::string>() : std::string{};
    }
    if (env.is_array())
        for (const auto& line : env)
            if (line.is_string() && line.get_ref<const std::string&>().starts_with("GPUFERRY_MACHINE="))
                return line.get<std::string>().substr(17);
    return {};
}

/// Identity and state are read strictly, because a listing that is wrong there must not be believed at all;
/// figures leniently.
Result<Pod> read_pod(const json& value, const std::string& path) {
    if (!value.is_object())
        return fail(ErrorKind::malformed,
                    fmt::format("{}: expected an object, found {}", path, value.type_name()));
    FieldReader strict(value, path);
    FieldReader lenient(value, path);
    Pod pod;
    pod.id = strict.text("id").value_or("");
    pod.name = strict.text("name").value_or("");
    pod.status = strict.text("status").value_or("");
    if (const auto* gpu = strict.value("gpu")) {
        FieldReader reader(*gpu, path + ".gpu");
        pod.gpu_id = reader.text("id").value_or("");
        pod.gpu_count = reader.whole("count");
        if (reader.problem()) return fail(ErrorKind::malformed, *reader.problem());
    }
    if (strict.problem()) return fail(ErrorKind::malformed, *strict.problem());
    if (pod.id.empty()) return fail(ErrorKind::malformed, path + ".id is missing");
    pod.cloud = lenient.text("cloud").value_or("");
    pod.data_center = lenient.text("dataCenterId").value_or("");
    pod.cost = lenient.number("cost");
    pod.disk_gb = lenient.whole("disk");
    if (const auto* mounts = lenient.value("mounts"))
        if (const auto* persistent = FieldReader(*mounts, path).value("persistent"))
            pod.volume_gb = FieldReader(*persistent, path).whole("size");
    if (const auto* env = lenient.value("env")) pod.machine_mark = env_mark(*env);
    if (const auto* runtime = lenient.value("runtime"))
        pod.has_runtime = runtime->is_object() && !runtime->empty();
    if (const auto* ssh = lenient.value("ssh"))
        if (const auto* direct = FieldReader(*ssh, path).value("direct")) {
            FieldReader d(*direct, path);
            pod.ssh_host = d.text("host").value_or("");
            pod.ssh_port = d.whole("port");
            pod.ssh_user = d.text("username").value_or("");
        }
    pod.created_at = lenient.text("createdAt").value_or("");
    return pod;
}

/// The pod of an answer to a create: its id, and the rest as far as it can be read. An error's own `status` is a number, and
/// an id beside it is a machine all the same.
std::optional<Pod> read_made_pod(const json& value, const std::string& path) {
    if (!value.is_object()) return std::nullopt;
    if (auto pod = read_pod(value, path)) return *std::move(pod);
    FieldReader r(value, path);
    Pod pod;
    pod.id = r.text("id").value_or("");
    if (pod.id.empty()) return std::nullopt;
    pod.name = r.text("name").value_or("");
    pod.cost = r.number("cost");
    pod.disk_gb = r.whole("disk");
    return pod;
}

GpuType read_gpu(const json& value, const std::string& path) {
    GpuType gpu;
    if (!value.is_object()) {
        gpu.problem = path + ": expected an object";
        return gpu;
    }
    FieldReader r(value, path);
    gpu.id = r.text("id").value_or("");
    gpu.memory_gb = r.quantity("memory");
    gpu.secure = r.boolean("secure");
    gpu.community = r.boolean("community");
    gpu.availability = r.text("availability").value_or("");
    if (const auto* price = r.value("price")) {
        FieldReader p(*price, path + ".price");
        gpu.price_secure = p.number("secure");
        gpu.price_community = p.number("community");
        if (p.problem()) gpu.problem = *p.problem();
    }
    if (const auto* counts = r.value("maxCount")) {
        FieldReader c(*counts, path + ".maxCount");
        gpu.max_secure = c.whole("secure");
        gpu.max_community = c.whole("community");
    }
    if (const auto* centers = r.value("dataCenters"); centers != nullptr && centers->is_array())
        for (const auto& center : *centers) {
            FieldReader c(center, path + ".dataCenters");
            const auto id = c.text("id").value_or("");
            if (!id.empty() && c.text("availability").value_or("") != "NONE") gpu.data_centers.push_back(id);
        }
    if (const auto* versions = r.value("cudaVersions"); versions != nullptr && versions->is_array())
        for (const auto& version : *versions) {
            FieldReader c(version, path + ".cudaVersions");
            if (c.boolean("available").value_or(false))
                gpu.cuda_available.push_back(c.text("version").value_or(""));
        }
    if (r.problem()) gpu.problem = *r.problem();
    return gpu;
}

void not_as_documented(Answer& answer, std::string what) {
    answer.text = shown(what);
}

}  // namespace

Client::Client(ClientSettings settings, HttpClient& http, Clock& clock, std::uint64_t seed)
    : settings_(std::move(settings)), http_(http), pacer_(clock, seed, pacing()) {}

Client::Exchange Client::call(std::string_view endpoint, HttpRequest request,
                              std::span<const Secret> secrets) {
    Exchange out;
    if (!let_out(pacer_, endpoint, request.once ? kCreatePatience : kPatience, out.answer)) return out;
    request.bearer = settings_.key;
    auto response = sent(http_, request, out.answer);
    if (const auto wait = pacer_.learn(endpoint, response)) out.answer.retry_after = wait;
    if (response.delivery != Delivery::answered) return out;
    std::vector<Secret> hidden(secrets.begin(), secrets.end());
    hidden.push_back(settings_.key);
    if (response.body.empty()) return out;
    const auto body = parse_json(response.body);
    if (!body) {
        out.answer.shape = Shape::not_json;
        out.answer.text = fmt::format("{}: {}", body.error().message, shown(response.body, hidden, 160));
    } else {
        auto words = words_of(*body, response.status);
        out.answer.shape = words.shape;
        const bool strange = words.shape == Shape::object && response.status >= 400;
        // Written anew, so that a secret in it stands in the one form that is looked for, however the sender escaped it.
        out.answer.text = strange ? shown(body->dump(-1, ' ', false, json::error_handler_t::replace), hidden, 160)
                                  : shown(words.text, hidden);
        out.answer.code = shown(words.code, hidden, 64);
    }
    out.body = std::move(response.body);
    return out;
}

Reply<std::vector<GpuType>> Client::gpus(const std::string& cloud, int count) {
    auto [answer, body] = call(
        "search", {.url = fmt::format("{}/catalog/gpus?include=AVAILABILITY&product=POD&cloud={}&count={}",
                                      settings_.api_url, url_encoded(cloud), count)});
    Reply<std::vector<GpuType>> reply{.answer = std::move(answer), .value = {}};
    if (!reply.answer.success() || reply.answer.shape != Shape::object) return reply;
    const auto json = parse_json(body);
    const auto list = json->find("gpus");
    if (!json->is_object() || list == json->end() || !list->is_array()) {
        not_as_documented(reply.answer, "the catalog answer has no array `gpus`");
        return reply;
    }
    reply.shapes = count_shapes(*list, kGpuFields);
    reply.value.emplace();
    for (std::size_t i = 0; i < list->size(); ++i)
        reply.value->push_back(read_gpu((*list)[i], fmt::format("gpus[{}]", i)));
    return reply;
}

Reply<Pod> Client::create(const CreateRequest& request, std::span<const Secret> secrets) {
    json body{{"name", request.name},
              {"image", request.image},
              {"gpu", {{"id", request.gpu_id}, {"count", request.gpu_count}}},
              {"cloud", request.cloud},
              {"disk", request.disk_gb},
              {"env", request.env},
              {"args", request.args}};
    if (!request.registry_id.empty()) body["registry"] = request.registry_id;
    if (!request.ports.empty()) body["ports"] = request.ports;
    if (request.start_ssh) body["startSsh"] = true;
    auto [answer, text] = call(
        "create", {.method = "POST", .url = settings_.api_url + "/pods", .body = body.dump(), .once = true},
        secrets);
    Reply<Pod> reply{.answer = std::move(answer), .value = {}};
    if (const auto json = parse_json(text); json && json->is_object()) {
        // An id is an id whatever stands around it. GraphQL-shaped answers would carry it one level down.
        reply.value = read_made_pod(*json, "pod");
        if (!reply.value)
            if (const auto data = json->find("data"); data != json->end() && data->is_object())
                for (const auto& item : data->items())
                    if (auto inner = read_made_pod(item.value(), "data." + item.key())) reply.value = std::move(inner);
        if (!reply.value && reply.answer.success() && reply.answer.shape == Shape::object)
            not_as_documented(reply.answer, "success without the id of a pod");
    }
    return reply;
}

Reply<Pod> Client::pod(const std::string& id) {
    auto [answer, body] =
        call("read", {.url = fmt::format("{}/pods/{}", settings_.api_url, url_encoded(id))});
    Reply<Pod> reply{.answer = std::move(answer), .value = {}};
    if (!reply.answer.success() || reply.answer.shape != Shape::object) return reply;
    auto pod = read_pod(*parse_json(body), "pod");
    if (!pod) {
        not_as_documented(reply.answer, pod.error().message);
    } else if (pod->id != id) {
        not_as_documented(reply.answer, "the pod in the answer has another id");
    } else {
        reply.value = *std::move(pod);
    }
    return reply;
}

Reply<std::vector<Pod>> Client::pods() {
    Reply<std::vector<Pod>> reply;
    std::vector<Pod> all;
    std::set<std::string> cursors;
    std::string cursor;
    for (int page = 0; page < kPagesMax; ++page) {
        auto [answer, body] =
            call("list", {.url = fmt::format("{}/pods{}", settings_.api_url,
                                             cursor.empty() ? "" : "?cursor=" + url_encoded(cursor))});
        reply.answer = std::move(answer);
        if (!reply.answer.success() || reply.answer.shape != Shape::object) return reply;
        const auto json = parse_json(body);
        const auto list = json->find("pods");
        if (!json->is_object() || list == json->end() || !list->is_array()) {
            // Never an empty fleet: a listing without its array says nothing.
            not_as_documented(reply.answer, "the listing has no array `pods`");
            return reply;
        }
        for (std::size_t i = 0; i < list->size(); ++i) {
            auto pod = read_pod((*list)[i], fmt::format("pods[{}]", i));
            if (!pod) {
                not_as_documented(reply.answer, pod.error().message);
                return reply;
            }
            all.push_back(*std::move(pod));
        }
        add(reply.shapes, count_shapes(*list, kPodFields));
        // The first v2 had no paging; without the object the page is everything. Not so where pages were told of before, or
        // where the page is as full as one can be: then the word on the rest is missing.
        const auto paging = json->find("pagination");
        if (paging == json->end() || paging->is_null()) {
            if (!pages_ && list->size() < kPageRows) break;
            not_as_documented(reply.answer, "the listing does not say whether there is more");
            return reply;
        }
        pages_ = true;
        FieldReader p(*paging, "pagination");
        const bool more = p.boolean("hasNextPage").value_or(false);
        cursor = p.text("nextCursor").value_or("");
        if (p.problem() || !paging->is_object() ||
            (more && (cursor.empty() || !cursors.insert(cursor).second))) {
            not_as_documented(reply.answer, "the listing says that there is more, but not where");
            return reply;
        }
        if (!more && !cursor.empty() && !cursors.insert(cursor).second) cursor.clear();
        if (cursor.empty()) break;
        if (page + 1 == kPagesMax) {
            not_as_documented(reply.answer, "the listing does not end");
            return reply;
        }
    }
    reply.value = std::move(all);
    return reply;
}

Answer Client::probe() {
    // `limit` is ignored where it is not known yet: then this is a plain listing, which proves the same.
    auto [answer, body] = call("list", {.url = settings_.api_url + "/pods?limit=1"});
    if (answer.success() && answer.shape == Shape::object) {
        const auto json = parse_json(body);
        if (!json->is_object() || !json->contains("pods") || !(*json)["pods"].is_array()) {
            answer.shape = Shape::not_json;
            not_as_documented(answer, "the listing has no array `pods`");
        }
    }
    return answer;
}

Answer Client::terminate(const std::string& id) {
    return call("destroy",
                {.method = "DELETE", .url = fmt::format("{}/pods/{}", settings_.api_url, url_encoded(id))})
        .answer;
}

Reply<std::vector<Registry>> Client::registries() {
    auto [answer, body] = call("registry", {.url = settings_.api_url + "/registries"});
    Reply<std::vector<Registry>> reply{.answer = std::move(answer), .value = {}};
    if (!reply.answer.success() || reply.answer.shape != Shape::object) return reply;
    const auto json = parse_json(body);
    const auto list = json->find("registries");
    if (!json->is_object() || list == json->end() || !list->is_array()) {
        not_as_documented(reply.answer, "the answer has no array `registries`");
        return reply;
    }
    reply.value.emplace();
    for (const auto& item : *list) {
        FieldReader r(item, "registries");
        reply.value->push_back({.id = r.text("id").value_or(""), .name = r.text("name").value_or("")});
    }
    return reply;
}

Reply<Registry> Client::create_registry(const std::string& name, const std::string& username,
                                        const Secret& password) {
    const json body{{"name", name}, {"username", username}, {"password", password.reveal()}};
    auto [answer, text] =
        call("registry", {.method = "POST", .url = settings_.api_url + "/registries", .body = body.dump()},
             std::span<const Secret>(&password, 1));
    Reply<Registry> reply{.answer = std::move(answer), .value = {}};
    if (!reply.answer.success() || reply.answer.shape != Shape::object) return reply;
    const auto json = parse_json(text);
    FieldReader r(*json, "registry");
    if (const auto id = r.text("id"); id && !id->empty()) reply.value = Registry{.id = *id, .name = name};
    return reply;
}

Answer Client::delete_registry(const std::string& id) {
    return call("registry", {.method = "DELETE",
                             .url = fmt::format("{}/registries/{}", settings_.api_url, url_encoded(id))})
        .answer;
}

Answer Client::rename(const std::string& id, const std::string& name) {
    return call("rename", {.method = "PATCH",
                           .url = fmt::format("{}/pods/{}", settings_.api_url, url_encoded(id)),
                           .body = json{{"name", name}}.dump()})
        .answer;
}

Reply<std::vector<BillingRecord>> Client::billing(const std::string& start, const std::string& end) {
    auto [answer, body] =
        call("billing", {.url = fmt::format("{}/billing/pods?startTime={}&endTime={}&bucketSize=hour", settings_.api_url,
                                            url_encoded(start), url_encoded(end))});
    Reply<std::vector<BillingRecord>> reply{.answer = std::move(answer), .value = {}};
    if (!reply.answer.success() || reply.answer.shape != Shape::object) return reply;
    const auto json = parse_json(body);
    const auto list = json->find("records");
    if (!json->is_object() || list == json->end() || !list->is_array()) {
        not_as_documented(reply.answer, "the billing answer has no array `records`");
        return reply;
    }
    std::vector<BillingRecord> records;
    for (std::size_t i = 0; i < list->size(); ++i) {
        FieldReader r((*list)[i], fmt::format("records[{}]", i));
        records.push_back({.pod_id = r.text("podId").value_or(""),
                           .start = r.text("startTime").value_or(""),
                           .end = r.text("endTime").value_or(""),
                           .amount = r.number("totalAmount")});
        if (r.problem()) {
            not_as_documented(reply.answer, *r.problem());
            return reply;
        }
    }
    if (const auto* metadata = FieldReader(*json, "").value("metadata"))
        if (const auto missing =
                missing_pages("the billing answer", FieldReader(*metadata, "metadata").whole("recordCount"), records.size())) {
            not_as_documented(reply.answer, missing->detail);
            return reply;
        }
    reply.value = std::move(records);
    return reply;
}

}  // namespace gf::runpod
