#include "agent/engine_words.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "model/ascii.hpp"

namespace gf::agent {
namespace {

constexpr std::size_t kSaidMax = 500;
constexpr std::size_t kLineMax = 4096;
constexpr std::size_t kLayersMax = 1000;

struct Row {
    std::string_view words;  // lower case
    EngineFault fault;
    std::string_view means{};  // put before the engine's words, where these do not say it
};

// In this order: the first row that is found anywhere in the output decides. Limits come first, because their text invites to
// authenticate; the disk before the network, because a full disk also breaks connections off.
constexpr std::array kPull{
    Row{"toomanyrequests", EngineFault::busy},
    Row{"too many requests", EngineFault::busy},
    Row{"rate limit", EngineFault::busy},
    Row{"no space left on device", EngineFault::host, "the disk is full"},
    Row{"disk quota exceeded", EngineFault::host, "the disk is full"},
    Row{"cannot connect to the docker daemon", EngineFault::host},
    Row{"permission denied while trying to connect", EngineFault::host},
    // The containerd image store: of its own, then of the registry, whose "not found" it adds to every line of that kind.
    Row{"content digest", EngineFault::host},
    Row{"does not exist: not found", EngineFault::host},
    Row{"no match for platform", EngineFault::spec},
    Row{": not found", EngineFault::spec},
    Row{"registry: denied", EngineFault::spec},
    Row{"manifest unknown", EngineFault::spec},
    Row{"manifest not found", EngineFault::spec},
    Row{"name unknown", EngineFault::spec},
    Row{"name_unknown", EngineFault::spec},
    Row{"manifest_unknown", EngineFault::spec},
    Row{"no matching manifest", EngineFault::spec},
    Row{"no image found in manifest list", EngineFault::spec},
    Row{"no image found in image index", EngineFault::spec},
    Row{"does not match the specified platform", EngineFault::spec},
    Row{"cannot be used on this platform", EngineFault::spec},
    Row{"pull access denied", EngineFault::spec},
    Row{"repository does not exist", EngineFault::spec},
    Row{"requested access to the resource is denied", EngineFault::spec},
    Row{"invalid reference format", EngineFault::spec},
    Row{"repository name must be", EngineFault::spec},
    Row{"invalid username/password", EngineFault::spec},
    Row{"incorrect username or password", EngineFault::spec},
    Row{"no basic auth credentials", EngineFault::spec},
    Row{"authentication required", EngineFault::spec},
    Row{"unauthorized", EngineFault::spec},
    Row{"403 forbidden", EngineFault::spec},
    Row{"response from daemon: denied", EngineFault::spec},
    Row{"denied: ", EngineFault::spec},
    Row{"500 internal server error", EngineFault::busy},
    Row{"502 bad gateway", EngineFault::busy},
    Row{"503 service unavailable", EngineFault::busy},
    Row{"504 gateway time", EngineFault::busy},
    Row{"received unexpected http status: 5", EngineFault::busy},
    Row{"status code 429", EngineFault::busy},
    Row{"timeout", EngineFault::busy},
    Row{"timed out", EngineFault::busy},
    Row{"deadline exceeded", EngineFault::busy},
    Row{"request canceled", EngineFault::busy},
    Row{"internal_error", EngineFault::busy},
    Row{"server sent goaway", EngineFault::busy},
    Row{"tls: handshake failure", EngineFault::busy},
    Row{"connection reset", EngineFault::busy},
    Row{"connection refused", EngineFault::busy},
    Row{"broken pipe", EngineFault::busy},
    Row{"unexpected eof", EngineFault::busy},
    Row{": eof", EngineFault::busy},
    Row{"no such host", EngineFault::busy},
    Row{"name resolution", EngineFault::busy},
    Row{"server misbehaving", EngineFault::busy},
    Row{"network is unreachable", EngineFault::busy},
    Row{"no route to host", EngineFault::busy},
    Row{"filesystem layer verification failed", EngineFault::busy},
    Row{"failed to register layer", EngineFault::host},
};

constexpr std::array kStart{
    Row{"no space left on device", EngineFault::host, "the disk is full"},
    Row{"could not select device driver", EngineFault::host, "this machine's docker has no NVIDIA container toolkit"},
    Row{"unresolvable cdi devices", EngineFault::host, "this machine's podman knows no NVIDIA devices (CDI)"},
    Row{"nvidia-container-cli", EngineFault::host, "the NVIDIA container toolkit failed"},
    Row{"exec format error", EngineFault::spec, "the image is for another architecture"},
    Row{"invalid reference format", EngineFault::spec},
    Row{"no such image", EngineFault::host},
};

std::string_view trimmed(std::string_view text) {
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.remove_suffix(1);
    while (!text.empty() && (text.front() == '\n' || text.front() == ' ')) text.remove_prefix(1);
    return text;
}

/// The line of `at`.
std::string_view line_at(std::string_view text, std::size_t at) {
    const auto begin = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;  // npos + 1 is 0
    return trimmed(text.substr(begin, text.find('\n', at) - begin));
}

/// The last line that is more than docker's advice to look at its help.
std::string_view last_words(std::string_view text) {
    std::string_view best;
    while (!text.empty()) {
        const auto end = std::min(text.find('\n'), text.size());
        const auto line = trimmed(text.substr(0, end));
        if (!line.empty() && !line.starts_with("See 'docker")) best = line;
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return best;
}

std::string said(std::string_view means, std::string_view line) {
    std::string text = means.empty() ? std::string() : std::string(means) + ": ";
    text += line.substr(0, kSaidMax - text.size());
    return text;
}

EngineJudgement judge(std::span<const Row> rows, std::string_view output) {
    const std::string low = ascii_lower(output);
    for (const auto& row : rows)
        if (const auto at = low.find(row.words); at != std::string::npos)
            return {.fault = row.fault, .said = said(row.means, line_at(output, at))};
    return {.fault = EngineFault::host, .said = said({}, last_words(output))};
}

}  // namespace

EngineJudgement judge_pull(std::string_view output) { return judge(kPull, output); }
EngineJudgement judge_start(std::string_view output) { return judge(kStart, output); }

void PullProgress::feed(std::string_view piece) {
    rest_ += piece;
    std::size_t from = 0;
    for (auto end = rest_.find_first_of("\n\r"); end != std::string::npos; end = rest_.find_first_of("\n\r", from)) {
        line(std::string_view(rest_).substr(from, end - from));
        from = end + 1;
    }
    rest_.erase(0, from);
    if (rest_.size() > kLineMax) rest_.clear();
}

void PullProgress::line(std::string_view text) {
    // podman: "Copying blob sha256:4f4f… done"
    if (text.starts_with("Copying blob ")) {
        text.remove_prefix(13);
        const std::string layer(text.substr(0, text.find(' ')));
        if (halves_.size() < kLayersMax || halves_.contains(layer)) halves_[layer] = text.find(" done") == std::string_view::npos ? 0 : 2;
        return;
    }
    // docker: "4f4fb700ef54: Pull complete". Its first line, "2.1: Pulling from example/image", is of no layer.
    const auto colon = text.find(": ");
    if (colon != 12 || text.substr(0, colon).find_first_not_of("0123456789abcdef") != std::string_view::npos) return;
    const auto state = text.substr(colon + 2);
    int halves = -1;
    if (state.starts_with("Pulling fs layer") || state.starts_with("Waiting")) halves = 0;
    if (state.starts_with("Verifying") || state.starts_with("Download complete")) halves = 1;
    if (state.starts_with("Pull complete") || state.starts_with("Already exists")) halves = 2;
    const std::string layer(text.substr(0, colon));
    if (halves < 0 || (halves_.size() >= kLayersMax && !halves_.contains(layer))) return;
    auto& known = halves_[layer];
    known = std::max(known, halves);
}

std::string PullProgress::text() const {
    if (halves_.empty()) return {};
    int done = 0;
    int ready = 0;
    for (const auto& [layer, halves] : halves_) {
        done += halves;
        ready += halves == 2 ? 1 : 0;
    }
    const int all = static_cast<int>(halves_.size());
    return std::to_string(done * 50 / all) + " %, " + std::to_string(ready) + " of " + std::to_string(all) + " layers ready";
}

}  // namespace gf::agent
