#include "providers/http_client.hpp"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <mutex>

#include "model/result.hpp"
#include "providers/redaction.hpp"

namespace gf {
namespace {

constexpr std::size_t kIdleHandlesMax = 16;  // each keeps its own connections open
constexpr std::size_t kHeaderBytesMax = 64 << 10;

struct UrlDeleter {
    void operator()(CURLU* u) const { curl_url_cleanup(u); }
};
struct ListDeleter {
    void operator()(curl_slist* l) const { curl_slist_free_all(l); }
};
using HeaderList = std::unique_ptr<curl_slist, ListDeleter>;

std::string url_part(CURLU* url, CURLUPart part) {
    char* text = nullptr;
    if (curl_url_get(url, part, &text, 0) != CURLUE_OK || text == nullptr) return {};
    std::string out(text);
    curl_free(text);
    return out;
}

struct Target {
    std::string problem;  // empty = fine
    bool loopback{false};
    bool has_query{false};
    bool has_fragment{false};
};

Target look_at(const std::string& url) {
    const std::unique_ptr<CURLU, UrlDeleter> parsed(curl_url());
    if (curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK)
        return {.problem = "not a URL"};
    const auto scheme = url_part(parsed.get(), CURLUPART_SCHEME);
    auto host = url_part(parsed.get(), CURLUPART_HOST);
    if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
    Target t{.problem = {},
             .loopback = is_loopback(host),
             .has_query = !url_part(parsed.get(), CURLUPART_QUERY).empty(),
             .has_fragment = !url_part(parsed.get(), CURLUPART_FRAGMENT).empty()};
    if (scheme != "https" && scheme != "http") t.problem = "only https:// is allowed";
    if (scheme == "http" && !t.loopback) t.problem = "http:// is allowed for loopback addresses only";
    if (!url_part(parsed.get(), CURLUPART_USER).empty() ||
        !url_part(parsed.get(), CURLUPART_PASSWORD).empty())
        t.problem = "user information in a URL is not allowed";
    return t;
}

struct Receiver {
    HttpResponse* response;
    std::size_t body_max;
    std::size_t header_bytes{0};
    bool too_large{false};
};

std::size_t take_body(char* data, std::size_t size, std::size_t count, void* user) {
    auto& r = *static_cast<Receiver*>(user);
    const auto bytes = size * count;
    if (r.response->body.size() + bytes > r.body_max) {
        r.too_large = true;
        return 0;
    }
    r.response->body.append(data, bytes);
    return bytes;
}

std::size_t take_header(char* data, std::size_t size, std::size_t count, void* user) {
    auto& r = *static_cast<Receiver*>(user);
    const auto bytes = size * count;
    r.header_bytes += bytes;
    if (r.header_bytes > kHeaderBytesMax) {
        r.too_large = true;
        return 0;
    }
    std::string_view line(data, bytes);
    while (!line.empty() && (line.back() == '\n' || line.back() == '\r' || line.back() == ' '))
        line.remove_suffix(1);
    if (line.starts_with("HTTP/")) {
        // A new status line: what came before was an interim response (100, or a proxy's answer to CONNECT).
        r.response->headers.clear();
        return bytes;
    }
    const auto colon = line.find(':');
    if (colon == std::string_view::npos) return bytes;
    HttpHeader h{.name = std::string(line.substr(0, colon)), .value = {}};
    std::ranges::transform(h.name, h.name.begin(), [](char c) {
        return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    });
    auto value = line.substr(colon + 1);
    while (!value.empty() && (value.front() == ' ' || value.front() == '\t')) value.remove_prefix(1);
    h.value = std::string(value);
    r.response->headers.push_back(std::move(h));
    return bytes;
}

bool add(HeaderList& list, const std::string& line) {
    curl_slist* longer = curl_slist_append(list.get(), line.c_str());
    if (longer == nullptr) return false;
    static_cast<void>(list.release());
    list.reset(longer);
    return true;
}

bool has_line_break(std::string_view text) {
    return text.find_first_of("\r\n") != std::string_view::npos;
}

/// As libcurl wants it: "sha256//" and Base64. Empty for an empty pin.
std::string pinned_key(std::string_view hex) {
    if (hex.empty()) return {};
    constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string out = "sha256//";
    unsigned bits = 0;
    int held = 0;
    for (const char c : hex) {
        const auto nibble = static_cast<unsigned>(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10) & 15U;
        bits = bits << 4U | nibble;
        held += 4;
        if (held < 6) continue;
        held -= 6;
        out += alphabet[bits >> static_cast<unsigned>(held) & 63U];
        bits &= (1U << static_cast<unsigned>(held)) - 1U;
    }
    if (held > 0) out += alphabet[bits << static_cast<unsigned>(6 - held) & 63U];
    while ((out.size() - 8) % 4 != 0) out += '=';
    return out;
}

Delivery delivery_of(CURL* handle, CURLcode code) {
    if (code == CURLE_OK) return Delivery::answered;
    // The time until the transfer was about to begin stays 0 when it never got that far: whatever failed
    // before (look-up, connect, TLS, proxy) wrote nothing of the request.
    curl_off_t pretransfer = 0;
    long written = 0;
    curl_easy_getinfo(handle, CURLINFO_PRETRANSFER_TIME_T, &pretransfer);
    curl_easy_getinfo(handle, CURLINFO_REQUEST_SIZE, &written);
    return pretransfer == 0 && written == 0 ? Delivery::not_sent : Delivery::no_answer;
}

}  // namespace

struct HttpClient::Pool {
    std::mutex mutex;  // guards idle
    std::vector<CURL*> idle;

    ~Pool() {
        for (CURL* h : idle) curl_easy_cleanup(h);
    }
    CURL* take() {
        {
            const std::lock_guard lock(mutex);
            if (!idle.empty()) {
                CURL* h = idle.back();
                idle.pop_back();
                return h;
            }
        }
        return curl_easy_init();
    }
    void give_back(CURL* h) {
        curl_easy_reset(h);  // drops every option and pointer, keeps the connections
        {
            const std::lock_guard lock(mutex);
            if (idle.size() < kIdleHandlesMax) {
                idle.push_back(h);
                return;
            }
        }
        curl_easy_cleanup(h);
    }
};

std::optional<std::string_view> HttpResponse::header(std::string_view name) const {
    for (const auto& h : headers)
        if (h.name == name) return h.value;
    return std::nullopt;
}

HttpClient::HttpClient(HttpSettings settings)
    : settings_(std::move(settings)), pool_(std::make_unique<Pool>()) {
    static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);
    GF_ASSERT(ready == CURLE_OK);
}

HttpClient::~HttpClient() = default;

HttpResponse HttpClient::send(const HttpRequest& request) {
    HttpResponse response;
    const auto target = look_at(request.url);
    if (!target.problem.empty()) {
        response.failure = fmt::format("{}: {}", shown(request.url), target.problem);
        return response;
    }
    HeaderList headers;
    bool built = true;
    for (const auto& h : request.headers) {
        if (has_line_break(h.name) || has_line_break(h.value)) built = false;
        built = built && add(headers, fmt::format("{}: {}", h.name, h.value));
    }
    if (!request.bearer.empty()) {
        if (has_line_break(request.bearer.reveal())) built = false;
        built = built && add(headers, fmt::format("Authorization: Bearer {}", request.bearer.reveal()));
    }
    if (!request.body.empty()) built = built && add(headers, "Content-Type: application/json");
    built = built && add(headers, "Accept: application/json");
    built = built &&
            add(headers, "Expect:");  // a second round trip before a body of a few hundred bytes buys nothing
    CURL* handle = built ? pool_->take() : nullptr;
    if (handle == nullptr) {
        response.failure =
            "the request could not be built: a line break in a header or key, or out of memory";
        return response;
    }

    Receiver receiver{.response = &response, .body_max = settings_.body_bytes_max};
    std::array<char, CURL_ERROR_SIZE> error{};
    const auto total = request.timeout.value_or(settings_.total_timeout);
    curl_easy_setopt(handle, CURLOPT_URL, request.url.c_str());
    curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(handle, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    curl_easy_setopt(handle, CURLOPT_CUSTOMREQUEST, request.method.c_str());
    curl_easy_setopt(handle, CURLOPT_HTTPHEADER, headers.get());
    curl_easy_setopt(handle, CURLOPT_USERAGENT, settings_.user_agent.c_str());
    curl_easy_setopt(handle, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(handle, CURLOPT_SSL_VERIFYPEER, 1L);
    curl_easy_setopt(handle, CURLOPT_SSL_VERIFYHOST, 2L);
    const auto pinned = pinned_key(request.pin);
    if (!pinned.empty()) {
        curl_easy_setopt(handle, CURLOPT_SSL_VERIFYPEER, 0L);
        curl_easy_setopt(handle, CURLOPT_SSL_VERIFYHOST, 0L);
        curl_easy_setopt(handle, CURLOPT_PINNEDPUBLICKEY, pinned.c_str());
    }
    if (!settings_.ca_file.empty()) curl_easy_setopt(handle, CURLOPT_CAINFO, settings_.ca_file.c_str());
    curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(settings_.connect_timeout.count()));
    curl_easy_setopt(handle, CURLOPT_TIMEOUT_MS, static_cast<long>(total.count()));
    curl_easy_setopt(handle, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(handle, CURLOPT_WRITEDATA, &receiver);
    curl_easy_setopt(handle, CURLOPT_HEADERFUNCTION, take_header);
    curl_easy_setopt(handle, CURLOPT_HEADERDATA, &receiver);
    curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, error.data());
    if (target.loopback) curl_easy_setopt(handle, CURLOPT_PROXY, "");  // "" also overrides the environment's
    if (!request.body.empty()) {
        curl_easy_setopt(handle, CURLOPT_POSTFIELDS, request.body.data());
        curl_easy_setopt(handle, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    } else if (request.method == "POST" || request.method == "PUT") {
        curl_easy_setopt(handle, CURLOPT_POSTFIELDS, "");
        curl_easy_setopt(handle, CURLOPT_POSTFIELDSIZE, 0L);
    }
    if (request.once) curl_easy_setopt(handle, CURLOPT_FRESH_CONNECT, 1L);

    const auto code = curl_easy_perform(handle);
    long status = 0;
    curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
    response.status = static_cast<int>(status);
    response.delivery = delivery_of(handle, code);
    response.other_key = code == CURLE_SSL_PINNEDPUBKEYNOTMATCH;
    if (receiver.too_large) {
        response.failure = fmt::format("the answer is larger than {} bytes", settings_.body_bytes_max);
    } else if (code != CURLE_OK) {
        response.failure = shown(error[0] != '\0' ? error.data() : curl_easy_strerror(code),
                                 std::span<const Secret>(&request.bearer, 1));
    }
    pool_->give_back(handle);
    return response;
}

std::string url_encoded(std::string_view text) {
    constexpr std::string_view hex = "0123456789ABCDEF";
    std::string out;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (std::isalnum(byte) != 0 || c == '-' || c == '.' || c == '_' || c == '~') {
            out += c;
        } else {
            out += '%';
            out += hex[byte >> 4U];
            out += hex[byte & 15U];
        }
    }
    return out;
}

bool is_loopback(std::string_view host) {
    if (host == "localhost" || host == "::1") return true;
    // Four decimal numbers beginning with 127; anything looser ("127.evil.example") is a name.
    if (!host.starts_with("127.")) return false;
    int parts = 0;
    std::size_t at = 0;
    while (at <= host.size()) {
        const auto dot = std::min(host.find('.', at), host.size());
        const auto part = host.substr(at, dot - at);
        if (part.empty() || part.size() > 3) return false;
        int value = 0;
        for (const char c : part) {
            if (c < '0' || c > '9') return false;
            value = value * 10 + (c - '0');
        }
        if (value > 255) return false;
        ++parts;
        at = dot + 1;
    }
    return parts == 4;
}

std::optional<std::string> base_url_problem(std::string_view url) {
    const auto target = look_at(std::string(url));
    if (!target.problem.empty()) return target.problem;
    if (target.has_query || target.has_fragment) return "a base URL has no query and no fragment";
    return std::nullopt;
}

}  // namespace gf
