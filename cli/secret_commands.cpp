// secret set, list, rm. A value comes by standard input or by a prompt without echo and is never printed: a
// command line can be read by every user of the machine, and a terminal by whoever looks over a shoulder.
#include <fmt/core.h>
#include <fmt/ostream.h>

#include <istream>
#include <nlohmann/json.hpp>

#include "cli/command.hpp"
#include "cli/exit_code.hpp"
#include "cli/json_read.hpp"
#include "cli/listing.hpp"
#include "model/secret_name.hpp"

namespace gf::cli {
namespace {

using nlohmann::json;

std::optional<std::string> typed_value(Context& context, const std::string& name) {
    auto& env = context.env;
    if (env.in_is_terminal && env.ask_hidden) return env.ask_hidden("value of " + name + " (not shown): ");
    std::string value(kSecretBytesMax + 3, '\0');  // room for a line end, and for seeing that there is more
    env.in.read(value.data(), static_cast<std::streamsize>(value.size()));
    value.resize(static_cast<std::size_t>(env.in.gcount()));
    return value;
}

int set_secret(Context& context, const std::string& name) {
    const auto usage = [&](std::string text) {
        return report(context, {.exit_code = kExitUsage, .text = std::move(text)});
    };
    // What is no name is not repeated: it may be the value.
    if (!is_secret_name(name))
        return usage(fmt::format("the name of a secret is {}; its value is read from standard input",
                                 kSecretNameRule));
    auto value = typed_value(context, name);
    if (!value) return usage("no value was typed");
    // Files and `echo` end with a line end that is no part of a token; a value that needs one is rare.
    while (value->ends_with('\n') || value->ends_with('\r')) value->pop_back();
    if (!is_secret_value(*value))
        return usage(
            fmt::format("the value is read from standard input: 1 to {} bytes of UTF-8 without NUL (base64 "
                        "for anything else)",
                        kSecretBytesMax));
    const Call call{.method = "PUT",
                    .path = path_of({"v1", "secrets", name}),
                    .body = json{{"value", *value}}.dump(),
                    .content_type = "application/json"};
    auto answer = context.client.send_json(call);
    if (!answer) return report(context, answer.error());
    if (context.json) return print_json(context, *answer);
    fmt::print(context.env.out, "secret {} is stored\n", name);
    return kExitOk;
}

int list_secrets(Context& context) {
    auto answer = context.client.get_all("/v1/secrets", {}, 10'000);
    if (!answer) return report(context, answer.error());
    if (context.json) return print_json(context, *answer);
    static const std::vector<Column> columns{{"NAME", {"name"}, Shape::text, true},
                                             {"CHANGED", {"updated_at", "created_at"}, Shape::age},
                                             {"BY", {"set_by"}, Shape::text, true}};
    const auto& items = list_at(*answer, "items");
    if (items.empty())
        context.env.err << "no secrets\n";
    else
        context.env.out << table_of(items, columns, now_ms(context)).print(context.style);
    return kExitOk;
}

int remove_secret(Context& context, const std::string& name) {
    auto answer =
        context.client.send_json(Call{.method = "DELETE", .path = path_of({"v1", "secrets", name})});
    if (!answer) return report(context, answer.error());
    if (context.json) return print_json(context, *answer);
    fmt::print(context.env.out, "{} is removed\n", shown(name));
    return kExitOk;
}

}  // namespace

void add_secret_commands(CLI::App& app, Action& chosen) {
    auto* secret = app.add_subcommand("secret", "secrets that jobs may name")->fallthrough();
    secret->require_subcommand(1);
    auto name = std::make_shared<std::string>();
    auto* set = secret
                    ->add_subcommand(
                        "set", "store one; its value is read from standard input, or asked for without echo")
                    ->fallthrough();
    set->add_option("name", *name, "its name, such as HF_TOKEN")->required();
    set->callback([&chosen, name] { chosen = [name](Context& c) { return set_secret(c, *name); }; });
    secret->add_subcommand("list", "names of secrets, never their values")
        ->fallthrough()
        ->callback([&chosen] { chosen = list_secrets; });
    auto* remove = secret->add_subcommand("rm", "forget one")->alias("remove")->fallthrough();
    remove->add_option("name", *name, "its name")->required();
    remove->callback([&chosen, name] { chosen = [name](Context& c) { return remove_secret(c, *name); }; });
}

}  // namespace gf::cli
