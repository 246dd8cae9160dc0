// Users' secrets: written, listed and forgotten by name; a value never comes out of here, and no error repeats any part of
// what was sent.
#include "daemon/api/handlers.hpp"
#include "daemon/api/json_views.hpp"
#include "daemon/api/list_page.hpp"
#include "daemon/core.hpp"
#include "daemon/log.hpp"
#include "daemon/secrets/sealing.hpp"
#include "model/secret_name.hpp"

namespace gf::api {
namespace {

Json secret_view(const SecretRecord& row) {
    Json out;
    out["name"] = row.name;
    out["set_by"] = row.principal;
    out["created_at"] = rfc3339(row.created_at);
    out["updated_at"] = rfc3339(row.updated_at);
    return out;
}

/// The secret of the path; answers 404 (or the store's error) and returns nothing when there is none.
std::optional<SecretRecord> find_secret(const Call& call) {
    const std::string& name = call.path.at(0);
    if (!is_secret_name(name)) {
        // What is no name may be a value that was typed in its place.
        call.answer(http::problem(404, "there is no such secret: a name is " + std::string(kSecretNameRule)));
        return std::nullopt;
    }
    auto found = call.reader().secret(name);
    if (!found) {
        fail_with(call, found.error());
        return std::nullopt;
    }
    if (!*found) call.answer(http::problem(404, "there is no secret " + name));
    return *std::move(found);
}

void refuse(const Call& call, int status, std::string field, const std::string& message, std::string range = {}) {
    call.answer(http::problem(status, field + ": " + message, {{.field = std::move(field), .message = message, .range = std::move(range)}}));
}

/// Under which the log hides its values.
std::string log_name(const std::string& name) { return "secret/" + name; }

/// The value in a body that is exactly {"value": TEXT}; answers and returns nothing for every other one.
std::optional<Secret> value_in_body(const Call& call) {
    static constexpr char kForm[] = "the body must be a JSON object with the key value and nothing else";
    auto body = Json::parse(call.request.body, nullptr, false);
    if (!body.is_object()) {
        call.answer(http::problem(400, kForm));
        return std::nullopt;
    }
    if (body.size() != 1 || !body.contains("value")) {
        refuse(call, 422, "value", kForm);
        return std::nullopt;
    }
    auto& value = body["value"];
    if (!value.is_string() || !is_secret_value(value.get_ref<const std::string&>())) {
        refuse(call, 422, "value", "must be a text without NUL characters", "1.." + std::to_string(kSecretBytesMax) + " bytes");
        return std::nullopt;
    }
    return Secret{std::move(value.get_ref<std::string&>())};
}

}  // namespace

void list_secrets(Call call) {
    const auto rows = call.reader().secrets();
    if (!rows) return fail_with(call, rows.error());
    answer_page(call, *rows, secret_view);
}

void show_secret(Call call) {
    if (const auto row = find_secret(call)) answer_json(call, 200, dump(secret_view(*row)));
}

void put_secret(Call call) {
    const std::string name = call.path.at(0);
    if (!is_secret_name(name)) return refuse(call, 422, "name", "must be " + std::string(kSecretNameRule));
    const auto* seal = call.context().options.seal;
    if (seal == nullptr) return call.answer(http::problem(501, "this server keeps no secrets"));
    const auto value = value_in_body(call);
    if (!value) return;
    log::redact(log_name(name), *value);
    call.request.body.clear();
    const auto now = call.context().core.now();
    SecretRecord row{.name = name, .sealed = seal->seal(name, *value), .principal = call.caller.principal, .created_at = now, .updated_at = now};
    ask_core(std::move(call), PutSecretCommand{.secret = std::move(row)});
}

void drop_secret(Call call) {
    if (!find_secret(call)) return;
    DropSecretCommand event{.name = call.path.at(0), .principal = call.caller.principal};
    // Once it is gone, and not before: until then it may leave for a machine.
    call.answer = [answer = std::move(call.answer), name = event.name](http::Response response) {
        if (response.status == 204) log::forget(log_name(name));
        answer(std::move(response));
    };
    ask_core(std::move(call), std::move(event));
}

}  // namespace gf::api
