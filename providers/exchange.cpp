#include "providers/exchange.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace gf {
namespace {

constexpr auto kKeyTexts = std::to_array<std::string_view>({
    "api key", "api-key", "api_key", "apikey", "api token", "user key", "auth_error", "bearer token", "access token",
    "unauthorized", "unauthorised", "unauthenticated", "not authorized", "authentication", "credentials", "requires login",
    "please log in", "session expired",
});

}  // namespace

bool blames_key(std::string_view text) {
    const auto same = [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; };
    const auto says = [&](std::string_view words) {
        return std::search(text.begin(), text.end(), words.begin(), words.end(), same) != text.end();
    };
    return std::ranges::any_of(kKeyTexts, says) && !says("registry");
}

bool doubts_key(const SentAnswer& a) {
    return a.delivery == Delivery::answered && a.status == 404 && !a.key_good && blames_key(a.text);
}

bool let_out(Pacer& pacer, std::string_view endpoint, Millis patience, SentAnswer& answer) {
    const auto turn = pacer.enter(endpoint, patience);
    if (turn) return true;
    answer.paced = true;
    answer.held = turn.error().kind;
    answer.text = turn.error().message;
    answer.retry_after = turn.error().retry_after;
    return false;
}

HttpResponse sent(HttpClient& http, const HttpRequest& request, SentAnswer& answer) {
    auto response = http.send(request);
    answer.delivery = response.delivery;
    answer.status = response.status;
    answer.retry_after = retry_hint(response);
    if (response.delivery != Delivery::answered) answer.text = response.failure;
    return response;
}

Error call_error(ErrorKind kind, std::string_view provider, std::string_view what, const SentAnswer& answer,
                 std::string_view code) {
    std::string came;
    if (answer.paced || answer.delivery == Delivery::not_sent)
        came = "not sent: " + answer.text;
    else if (answer.delivery == Delivery::no_answer)
        came = "no answer: " + answer.text;
    else
        came = fmt::format("HTTP {}{}{}{}{}", answer.status, code.empty() ? "" : " ", code, answer.text.empty() ? "" : ": ",
                           answer.text);
    return {.kind = kind, .message = fmt::format("{}, {}: {}", provider, what, came), .retry_after = answer.retry_after};
}

}  // namespace gf
