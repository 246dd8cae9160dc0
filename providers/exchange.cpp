#include "providers/exchange.hpp"

#include <fmt/format.h>

namespace gf {

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
