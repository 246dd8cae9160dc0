// One call to a provider as all of them have it, before any of its own words are read: the pacer's turn, the request, how far
// it got, and how an error tells it.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "providers/http_client.hpp"
#include "providers/pacer.hpp"

namespace gf {

/// What came back, as far as it does not depend on who was asked. A provider's answer adds what its own body says.
struct SentAnswer {
    Delivery delivery{Delivery::not_sent};
    int status{0};
    std::string text;  // for people: the provider's words or what is wrong with them, redacted; why there is no answer
    std::optional<Millis> retry_after;
    bool paced{false};                        // our own pacer did not let it out: nothing was sent
    ErrorKind held{ErrorKind::rate_limited};  // and why: rate_limited, or unavailable while its breaker is open
    bool key_good{false};                     // asked after this answer, the key was good: its words blame something else
};

/// Blocks for the endpoint's turn, up to `patience`. False = it was not let out, and `answer` says so.
[[nodiscard]] bool let_out(Pacer& pacer, std::string_view endpoint, Millis patience, SentAnswer& answer);

/// Sends it and notes in `answer` how far it got; `text` only where no answer came. The pacer has not learnt from it yet.
[[nodiscard]] HttpResponse sent(HttpClient& http, const HttpRequest& request, SentAnswer& answer);

/// Statuses of a create in which a provider's words on the account's limits count: what is refused there was not made.
[[nodiscard]] constexpr bool may_tell_quota(int status) {
    return status == 400 || status == 402 || status == 403 || status == 409 || status == 422;
}

/// Whether a provider's own words blame the key. Wrong keys have been answered with 404, like things that are not there
/// (Vast.ai: providers/vastai.md); taken for that, they would make machines look gone. To be asked of a 404 only: in
/// other answers such words may speak of ssh. Words on a registry speak of its login, not of the key.
[[nodiscard]] bool blames_key(std::string_view text);

/// A 404 whose words blame the key. They may only say that they do not tell which ("not found or not authorized"), so
/// whoever can asks the key itself, anew, and sets `key_good`; then this is an ordinary 404.
[[nodiscard]] bool doubts_key(const SentAnswer& answer);

/// "Vultr, list instances: HTTP 500: …". `code` is the provider's own word for the error, if it has such words.
[[nodiscard]] Error call_error(ErrorKind kind, std::string_view provider, std::string_view what, const SentAnswer& answer,
                               std::string_view code = {});

}  // namespace gf
