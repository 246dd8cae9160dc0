// token create, list, revoke.
#include <fmt/core.h>
#include <fmt/ostream.h>

#include <nlohmann/json.hpp>

#include "cli/command.hpp"
#include "cli/exit_code.hpp"
#include "cli/json_read.hpp"
#include "cli/listing.hpp"

namespace gf::cli {
namespace {

using nlohmann::json;

struct TokenOptions {
    std::string name, role{"submitter"};
};

int create_token(Context& context, const TokenOptions& options) {
    const json body{{"name", options.name}, {"role", options.role}};
    auto answer = context.client.send_json(Call{
        .method = "POST", .path = "/v1/tokens", .body = body.dump(), .content_type = "application/json"});
    if (!answer) return report(context, answer.error());
    if (context.json) return print_json(context, *answer);
    const auto token = text_of(*answer, "token");
    if (token.empty())
        return report(context, {.exit_code = kExitUnexpected, .text = "the daemon answered without a token"});
    // The only moment in which the token can be seen: alone on standard output, so that it can go straight
    // into a file.
    context.env.err << fmt::format("token {} with role {}; it is shown this once:\n",
                                   shown(text_of(*answer, "id")), shown(options.role));
    context.env.out << token << "\n";
    return kExitOk;
}

int list_tokens(Context& context) {
    auto answer = context.client.get_all("/v1/tokens", {}, 10'000);
    if (!answer) return report(context, answer.error());
    if (context.json) return print_json(context, *answer);
    static const std::vector<Column> columns{
        {"ID", {"id"}, Shape::text, true},       {"NAME", {"name"}, Shape::text, true},
        {"ROLE", {"role"}, Shape::text, true},   {"AGE", {"created_at"}, Shape::age},
        {"REVOKED", {"revoked_at"}, Shape::age},
    };
    const auto& items = list_at(*answer, "items");
    if (items.empty())
        context.env.err << "no tokens\n";
    else
        context.env.out << table_of(items, columns, now_ms(context)).print(context.style);
    return kExitOk;
}

int revoke_token(Context& context, const std::string& id) {
    auto answer = context.client.send_json(Call{.method = "DELETE", .path = path_of({"v1", "tokens", id})});
    if (!answer) return report(context, answer.error());
    if (context.json) return print_json(context, *answer);
    fmt::print(context.env.out, "{} is revoked\n", shown(id));
    return kExitOk;
}

}  // namespace

void add_access_commands(CLI::App& app, Action& chosen) {
    auto* token = app.add_subcommand("token", "who may talk to the daemon over TCP")->fallthrough();
    token->require_subcommand(1);
    auto options = std::make_shared<TokenOptions>();
    auto* create = token->add_subcommand("create", "make a token; it is shown once")->fallthrough();
    create->add_option("name", options->name, "a name for people")->required();
    create->add_option("--role", options->role, "viewer, submitter, operator or admin")
        ->check(CLI::IsMember({"viewer", "submitter", "operator", "admin"}));
    create->callback(
        [&chosen, options] { chosen = [options](Context& c) { return create_token(c, *options); }; });
    token->add_subcommand("list", "tokens, without their text")->fallthrough()->callback([&chosen] {
        chosen = list_tokens;
    });
    auto id = std::make_shared<std::string>();
    auto* revoke = token->add_subcommand("revoke", "end a token")->fallthrough();
    revoke->add_option("token", *id, "id of the token (tok_…)")->required();
    revoke->callback([&chosen, id] { chosen = [id](Context& c) { return revoke_token(c, *id); }; });
}

}  // namespace gf::cli
