// Tokens: made from the system's randomness, shown once, kept as a hash.
#include <algorithm>

#include "checkpoints/digest.hpp"
#include "daemon/api/handlers.hpp"
#include "daemon/api/json_views.hpp"
#include "daemon/api/list_page.hpp"
#include "daemon/core.hpp"
#include "daemon/http/digest.hpp"

namespace gf::api {
namespace {

constexpr std::size_t kNameBytesMax = 100;

bool good_name(std::string_view name) {
    return !name.empty() && name.size() <= kNameBytesMax &&
           std::ranges::all_of(name, [](char c) { return static_cast<unsigned char>(c) >= 0x20 && c != '\x7f'; });
}

void refuse(const Call& call, std::string field, std::string message, std::string range) {
    const auto detail = field + ": " + message;
    call.answer(http::problem(422, detail, {{.field = std::move(field), .message = std::move(message), .range = std::move(range)}}));
}

}  // namespace

void list_tokens(Call call) {
    const auto rows = call.reader().tokens();
    if (!rows) return fail_with(call, rows.error());
    answer_page(call, *rows, token_view);
}

void make_token(Call call) {
    const auto body = Json::parse(call.request.body, nullptr, false);
    if (!body.is_object()) return call.answer(http::problem(400, "the body must be a JSON object with name and role"));
    for (const auto& [key, value] : body.items()) {
        if (key != "name" && key != "role") return refuse(call, key, "unknown key", "name, role");
        if (!value.is_string()) return refuse(call, key, "must be a text", "");
    }
    const auto name = body.value("name", std::string());
    if (!good_name(name)) return refuse(call, "name", "must be a text without control characters", "1..100 bytes");
    const auto role = enum_from<Role>(body.value("role", std::string()));
    if (!role) return refuse(call, "role", "must be one of the roles", "viewer, submitter, operator, admin");

    const auto secret = "gft_" + http::random_hex(32);
    auto& context = call.context();
    const auto now = context.core.now();
    TokenRecord row{.id = TokenId{context.ids.make("tok_", now)}, .name = name, .role = *role,
                    .sha256 = checkpoints::sha256(secret).hex(), .created_at = now, .revoked_at = {}};
    auto shown = token_view(row);
    shown["token"] = secret;
    const auto answer = call.answer;
    call.answer = [answer, body_once = dump(shown)](http::Response response) {
        if (response.status < 300) response = http::json(201, body_once);
        answer(std::move(response));
    };
    ask_core(std::move(call), PutTokenCommand{.token = std::move(row)});
}

void revoke_token(Call call) {
    const auto rows = call.reader().tokens();
    if (!rows) return fail_with(call, rows.error());
    const auto found = std::ranges::find(*rows, call.path.at(0), [](const TokenRecord& t) { return t.id.get(); });
    if (found == rows->end()) return call.answer(http::problem(404, "there is no token " + call.path.at(0)));
    TokenRecord row = *found;
    if (row.revoked_at) return answer_json(call, 200, dump(token_view(row)));
    row.revoked_at = call.context().core.now();
    auto api = call.api;
    const auto answer = call.answer;
    call.answer = [api, answer](http::Response response) {
        // Whoever was let in by this token a moment ago must not be remembered.
        ++api->tokens_epoch;
        answer(std::move(response));
    };
    ask_core(std::move(call), PutTokenCommand{.token = std::move(row)});
}

}  // namespace gf::api
