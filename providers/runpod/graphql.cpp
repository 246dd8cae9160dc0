// The calls that only GraphQL has: the balance, and the legacy market of interruptible pods. Execution errors
// come with HTTP 200. Values stand in the text of the query as JSON literals, which GraphQL's are a superset
// of; the key is a bearer, never in the URL.
#include <fmt/format.h>

#include "providers/json_reading.hpp"
#include "providers/redaction.hpp"
#include "providers/runpod/client.hpp"

namespace gf::runpod {
namespace {

using nlohmann::json;

/// data.<name>, null pointer where a step is missing.
const json* data_of(const json& body, std::string_view name) {
    const auto* data = FieldReader(body, "").value("data");
    return data == nullptr ? nullptr : FieldReader(*data, "data").value(name);
}

std::string literal(const std::string& text) {
    return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

/// $/h with all six decimals.
std::string dollars_text(std::int64_t micros) {
    return fmt::format("{}.{:06}", micros / 1'000'000, micros % 1'000'000);
}

SpotType read_spot_type(const json& value, bool secure, const std::string& path) {
    SpotType out;
    FieldReader r(value, path);
    out.id = r.text("id").value_or("");
    out.memory_gb = r.quantity("memoryInGb");
    out.sold = r.boolean(secure ? "secureCloud" : "communityCloud");
    if (const auto* lowest = r.value("lowestPrice")) {
        FieldReader l(*lowest, path + ".lowestPrice");
        out.floor = l.number("minimumBidPrice");
        out.stock = l.text("stockStatus").value_or("");
        if (const auto* counts = l.value("availableGpuCounts"); counts != nullptr && counts->is_array())
            for (const auto& count : *counts)
                if (count.is_number_integer()) out.counts.push_back(count.get<std::int64_t>());
        if (l.problem()) out.problem = *l.problem();
    }
    if (r.problem()) out.problem = *r.problem();
    return out;
}

}  // namespace

Client::Exchange Client::graphql(std::string_view endpoint, const std::string& query, bool once,
                                 std::span<const Secret> secrets) {
    return call(
        endpoint,
        {.method = "POST", .url = settings_.graphql_url, .body = json{{"query", query}}.dump(), .once = once},
        secrets);
}

Reply<std::string> Client::balance() {
    auto [answer, text] = graphql("balance", "query { myself { clientBalance } }");
    Reply<std::string> reply{.answer = std::move(answer), .value = {}};
    if (!reply.answer.success() || reply.answer.shape != Shape::object) return reply;
    const auto body = parse_json(text);
    if (const auto* myself = data_of(*body, "myself"))
        reply.value = FieldReader(*myself, "data.myself").number("clientBalance");
    if (!reply.value) reply.answer.text = "the answer has no data.myself.clientBalance";
    return reply;
}

Reply<Account> Client::account() {
    auto [answer, text] =
        graphql("account", "query { myself { clientBalance currentSpendPerHr spendLimit underBalance } }");
    Reply<Account> reply{.answer = std::move(answer), .value = {}};
    if (!reply.answer.success() || reply.answer.shape != Shape::object) return reply;
    const auto body = parse_json(text);
    if (const auto* myself = data_of(*body, "myself")) {
        FieldReader r(*myself, "data.myself");
        reply.value = Account{.balance = r.number("clientBalance"),
                              .spend_per_hour = r.number("currentSpendPerHr"),
                              .spend_limit = r.number("spendLimit"),
                              .under_balance = r.boolean("underBalance")};
    } else {
        reply.answer.text = "the answer has no data.myself";
    }
    return reply;
}

Reply<std::vector<SpotType>> Client::spot_types(const std::string& cloud, int count) {
    const bool secure = cloud == "SECURE";
    auto [answer, text] =
        graphql("spot_search",
                fmt::format("query {{ gpuTypes {{ id memoryInGb secureCloud communityCloud "
                            "lowestPrice(input: {{gpuCount: {}, "
                            "secureCloud: {}}}) {{ minimumBidPrice stockStatus availableGpuCounts }} }} }}",
                            count, secure));
    Reply<std::vector<SpotType>> reply{.answer = std::move(answer), .value = {}};
    if (!reply.answer.success() || reply.answer.shape != Shape::object) return reply;
    const auto body = parse_json(text);
    const auto* list = data_of(*body, "gpuTypes");
    if (list == nullptr || !list->is_array()) {
        reply.answer.text = "the answer has no array data.gpuTypes";
        return reply;
    }
    reply.value.emplace();
    for (std::size_t i = 0; i < list->size(); ++i)
        reply.value->push_back(read_spot_type((*list)[i], secure, fmt::format("gpuTypes[{}]", i)));
    return reply;
}

Reply<Pod> Client::rent_spot(const CreateRequest& request, std::span<const Secret> secrets) {
    std::string env;
    for (const auto& [name, value] : request.env)
        env +=
            fmt::format("{}{{key: {}, value: {}}}", env.empty() ? "" : ", ", literal(name), literal(value));
    std::string ports;
    for (const auto& port : request.ports) ports += (ports.empty() ? "" : ",") + port;
    const auto query = fmt::format(
        "mutation {{ podRentInterruptable(input: {{bidPerGpu: {}, cloudType: {}, gpuCount: {}, gpuTypeId: "
        "{}, name: {}, "
        "imageName: {}, dockerArgs: {}, ports: {}, volumeInGb: 0, containerDiskInGb: {}, startSsh: {}, env: "
        "[{}]{}}}) "
        "{{ id costPerHr }} }}",
        dollars_text(request.bid_micros_per_gpu), request.cloud, request.gpu_count, literal(request.gpu_id),
        literal(request.name), literal(request.image), literal(request.args), literal(ports), request.disk_gb,
        request.start_ssh, env,
        request.registry_id.empty() ? "" : ", containerRegistryAuthId: " + literal(request.registry_id));
    auto [answer, text] = graphql("spot_create", query, true, secrets);
    Reply<Pod> reply{.answer = std::move(answer), .value = {}};
    // An id is an id whatever stands around it.
    if (const auto body = parse_json(text); body && body->is_object())
        if (const auto* made = data_of(*body, "podRentInterruptable")) {
            FieldReader r(*made, "podRentInterruptable");
            if (const auto id = r.text("id"); id && !id->empty()) {
                reply.value.emplace();
                reply.value->id = *id;
                reply.value->cost = r.number("costPerHr");
                reply.value->disk_gb = request.disk_gb;
            }
        }
    if (!reply.value && reply.answer.success() && reply.answer.shape == Shape::object)
        reply.answer.text = "success without the id of a pod";
    return reply;
}

}  // namespace gf::runpod
